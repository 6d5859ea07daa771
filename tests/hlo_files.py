"""Files of HLO: a writer of protocol buffers, by hand, and programs to write, plain dicts.

A program: {"name", "dynamic", "computations": [{"id", "name", "root", "instructions": [...]}]}; an instruction has
"id" and "opcode", and what is in INSTRUCTION. Measured: {"module", "runs": [...], "nodes": [...]}, where a run has
"layout": [[dims of a tensor, ...] of a node, ...] or "tile": [kernel, output, input], and "ns", "error", "default".
"""

from dataclasses import dataclass

import numpy as np


def varint(number):
    """A whole number; negative ones as ten bytes."""
    number &= 2**64 - 1
    parts = []
    while number >= 128:
        parts.append(number & 127 | 128)
        number >>= 7
    return bytes([*parts, number])


def tag(number, kind):
    return varint(number << 3 | kind)


def number(field, value):
    return tag(field, 0) + varint(int(value))


def content(field, value):
    raw = value.encode() if isinstance(value, str) else value
    return tag(field, 2) + varint(len(raw)) + raw


UNKNOWN = (
    number(85, 2**63) + content(98, b"\x08\x01") + tag(1000, 5) + b"abcd" + tag(2**29 - 1, 1) + b"12345678"
    + tag(99, 3) + number(2, 7) + tag(4, 3) + content(1, b"inside") + tag(4, 4) + tag(99, 4)
)  # fmt: skip


@dataclass
class Writer:
    """Writes messages: lists packed or not, unknown fields (groups too) added, fields in any order."""

    packed: bool = True
    unknown: bool = False
    rng: np.random.Generator | None = None

    def message(self, *fields):
        """Put fields together; None is left out. Those of one number stay in order."""
        parts = [part for part in fields if part]
        if self.rng is not None:
            parts = [parts[i] for i in self.rng.permutation(len(parts))]
        if self.unknown:
            parts = [UNKNOWN, *parts, UNKNOWN]
        return b"".join(parts)

    def numbers(self, field, values):
        if values and self.packed:
            half = len(values) // 2 if self.unknown else 0  # two pieces make one list
            return b"".join(
                content(field, b"".join(map(varint, part))) for part in (values[:half], values[half:]) if part
            )
        return b"".join(number(field, value) for value in values)

    def one(self, field, value):
        """A number, left out if it is 0."""
        return number(field, value) if value else b""

    def many(self, field, messages):
        return b"".join(content(field, message) for message in messages)

    def of_numbers(self, values):
        """A message of numbers in fields 1, 2, ..."""
        return self.message(*(self.one(i + 1, value) for i, value in enumerate(values)))

    def shape(self, shape):
        layout = content(5, self.message(self.numbers(1, shape["layout"]))) if "layout" in shape else b""
        return self.message(
            self.one(2, shape.get("type", 11)),
            self.numbers(3, shape.get("dims", [])),
            self.many(4, map(self.shape, shape.get("tuple", []))),
            layout,
        )

    def lists(self, lists, last=0):
        """A message of lists in fields 1, 2, ..., then a number."""
        return self.message(
            *(self.numbers(i + 1, values) for i, values in enumerate(lists)), self.one(len(lists) + 1, last)
        )

    def convolution(self, c):
        return self.message(
            self.one(3, c["kernel"][0]), self.one(4, c["kernel"][1]), self.numbers(6, c["kernel_spatial"]),
            self.one(7, c["input"][0]), self.one(8, c["input"][1]), self.one(9, c["output"][0]),
            self.one(10, c["output"][1]), self.numbers(11, c["input_spatial"]), self.numbers(12, [1, 2]),
        )  # fmt: skip

    def instruction(self, i):
        get = i.get
        return self.message(
            content(1, get("name", "n")),
            content(2, i["opcode"]),
            content(3, self.shape(i["shape"])) if "shape" in i else None,
            content(7, self.message(content(1, "add"), content(2, get("op_name", "")))),
            self.one(9, get("parameter_number")),
            self.numbers(14, get("dimensions", [])),
            content(15, self.message(self.many(1, map(self.of_numbers, i["window"]))))
            if "window" in i
            else None,
            content(16, self.convolution(i["convolution"])) if "convolution" in i else None,
            self.many(17, map(self.of_numbers, get("slices", []))),
            self.numbers(20, get("dynamic_sizes", [])),
            content(21, self.message(self.many(1, map(self.of_numbers, i["padding"]))))
            if "padding" in i
            else None,
            content(30, self.lists(i["dot"])) if "dot" in i else None,
            content(33, self.lists(i["gather"][:3], i["gather"][3])) if "gather" in i else None,
            self.numbers(34, get("gather_sizes", [])),
            self.one(35, i["id"]),
            self.numbers(36, get("operands", [])),
            self.numbers(38, get("calls", [])),
            content(43, i["config"]) if "config" in i else None,
            self.one(50, get("feature_groups")),
            self.one(58, get("batch_groups")),
            self.one(60, get("stable")),
            self.one(67, get("sorted")),
        )

    def computation(self, c):
        return self.message(
            content(1, c["name"]),
            self.many(2, map(self.instruction, c["instructions"])),
            self.one(5, c["id"]),
            self.one(6, c["root"]),
        )

    def module(self, m):
        """As an HloModuleProto."""
        return self.message(
            content(1, m["name"]),
            content(2, "main"),
            self.many(3, map(self.computation, m["computations"])),
            self.one(5, 77),
            self.one(6, m.get("entry")),
            self.one(11, m.get("dynamic")),
        )

    def hlo(self, m, assignment=True):
        """As an HloProto, with a buffer assignment."""
        buffers = self.message(content(1, number(1, 3) + number(2, 64)), content(3, number(2, 64)))
        return self.message(content(1, self.module(m)), content(3, buffers) if assignment else None)

    def run(self, run):
        config = layout = b""
        if "tile" in run:
            config = content(1, self.message(content(1, self.lists(run["tile"]))))
        if "layout" in run:
            nodes = [
                self.message(self.many(1, (self.message(self.numbers(1, dims)) for dims in node)))
                for node in run["layout"]
            ]
            layout = content(2, self.message(content(1, self.message(self.many(1, nodes)))))
        profile = self.message(self.one(2, 30), self.one(4, run["ns"])) if "ns" in run else None
        return self.message(
            config, layout, self.one(3, run.get("error")),
            None if profile is None else content(4, profile), self.one(5, run.get("default")),
        )  # fmt: skip

    def tuned(self, t):
        """As a ModuleTuningData."""
        return self.message(
            content(1, self.module(t["module"])),
            number(2, 2**64 - 3),
            self.many(3, map(self.run, t["runs"])),
            self.numbers(4, t.get("nodes", [])),
        )

    def tuning(self, several):
        """As a TuningData."""
        return self.message(self.many(1, map(self.tuned, several)))


# --- programs -----------------------------------------------------------------------------------------------


def chain(opcodes=("parameter", "add"), computation=0):
    """A program of one computation in which every instruction uses the one before it."""
    instructions = [
        {
            "id": i + 1,
            "opcode": opcode,
            "shape": {"dims": [2, 3], "layout": [1, 0]},
            "operands": [i] if i else [],
        }
        for i, opcode in enumerate(opcodes)
    ]
    return {
        "name": "jit_f",
        "computations": [
            {"id": computation, "name": "main", "root": len(opcodes), "instructions": instructions}
        ],
    }


def op(number, opcode, size=(), **fields):
    """An instruction with the shape of its result."""
    return {"id": number, "opcode": opcode, "shape": {"dims": list(size)}, **fields}


def sequence(*computations, entry=None):
    """A program of lists of instructions; the ids of computations are 1, 2, ..., and the last is the entry."""
    made = [
        {"id": number, "name": f"c{number}", "root": instructions[-1]["id"], "instructions": instructions}
        for number, instructions in enumerate(computations, 1)
    ]
    return {"name": "m", "entry": entry or len(made), "computations": made}


TRIPS = '{"known_trip_count":{"n":"%s"}}'
BODY = [op(4, "parameter", (4, 5)), op(3, "add", (4, 5))]


def optimised():
    """An optimised program: fusions in loops in loops, branches, calls and a product."""
    inner = [
        op(5, "parameter", (6, 7)),
        op(6, "tanh", (6, 7), operands=[5]),
        op(7, "reduce", (6,), operands=[6]),
    ]
    parallel, library = '"outer_dimension_partitions":["3"]', '{"fusion_config":{}}'
    loop = [
        op(8, "parameter", (6, 7)),
        op(9, "fusion", (6,), operands=[8], calls=[2], config=parallel),
        op(10, "fusion", (6,), calls=[2], config=library),
    ]
    middle = [op(11, "while", calls=[3], config=TRIPS % 5), op(12, "conditional", calls=[1, 3])]
    entry = [
        op(13, "while", calls=[4], config=TRIPS % 7),
        op(14, "fusion", (2,)),
        op(15, "call", calls=[1]),
        op(16, "parameter", (6, 7)),
        op(17, "dot", (6, 6), operands=[16, 16], dot=[[1], [1], [], []]),
    ]
    return sequence(BODY, inner, loop, middle, entry)


OPCODES = (
    "parameter constant add dot convolution reshape reduce fusion while custom-call tan trace topk ragged-dot "
    "slice pad dynamic-slice gather sort broadcast"
).split()
TYPES = (*range(19), 20, 27, 2**31 - 1)


def _list(rng, most=8, low=0, high=9):
    return rng.integers(low, high, rng.integers(0, most)).tolist()


def _shape(rng, rank, depth=0):
    if depth < 3 and rng.random() < 0.15:
        return {"type": 13, "tuple": [_shape(rng, rank, depth + 1) for _ in range(rng.integers(0, 4))]}
    dims = _list(rng, rank + 1, high=2**40)
    return {"type": int(rng.choice(TYPES)), "dims": dims, "layout": rng.permutation(len(dims)).tolist()}


def _instruction(rng, used, rank):
    i = {"id": used, "opcode": str(rng.choice(OPCODES)), "shape": _shape(rng, rank)}
    maybe = lambda: rng.random() < 0.4  # noqa: E731
    pair = lambda: rng.integers(0, 4, 2).tolist()  # noqa: E731
    if maybe():
        i["dimensions"] = _list(rng)
    if maybe():
        i["window"] = [
            [*rng.integers(-3, 2**36, 6).tolist(), int(rng.integers(0, 2))] for _ in range(rng.integers(0, 8))
        ]
    if i["opcode"] == "convolution":
        i["convolution"] = {"kernel": pair(), "input": pair(), "output": pair(),
                            "kernel_spatial": _list(rng, 6), "input_spatial": _list(rng, 6)}  # fmt: skip
        i |= {"feature_groups": int(rng.integers(0, 3)), "batch_groups": 1}
    if maybe():
        i["slices"] = rng.integers(0, 99, (rng.integers(0, 4), 3)).tolist()
        i["padding"] = rng.integers(-9, 99, (rng.integers(0, 4), 3)).tolist()
        i["dynamic_sizes"] = _list(rng)
    if maybe():
        i |= {"dot": [_list(rng, 4) for _ in range(4)], "gather_sizes": _list(rng), "sorted": True,
              "gather": [*(_list(rng, 5) for _ in range(3)), int(rng.integers(0, 3))], "stable": True}  # fmt: skip
    if maybe():
        i["parameter_number"] = int(rng.integers(0, 300))
    return i


NAMES = ("main", "fused", "while_body", "region.cond", "cluster_7", "add")


def program(seed, computations=4, most=12, rank=7):
    """A random program, in which everything occurs: ids of 64 bits, unknown opcodes and types, calls.

    Rankers take programs of at most six dimensions.
    """
    rng = np.random.default_rng(seed)
    result = []
    for c in range(computations):
        ids = rng.permutation(int(rng.integers(1, most))) + (c << 32) * int(rng.integers(0, 2)) + 1
        instructions = []
        for place, used in enumerate(ids.tolist()):
            i = _instruction(rng, used, rank)
            if place:
                i["operands"] = rng.choice(ids[:place], rng.integers(0, 5)).tolist()
            if c and rng.random() < 0.3:
                i["calls"] = [result[int(k)]["id"] for k in rng.permutation(c)[:2]]
            instructions.append(i)
        result.append({"id": 100 * c + 3, "name": str(rng.choice(NAMES)), "root": int(rng.choice(ids)),
                       "instructions": instructions})  # fmt: skip
    return {"name": f"program.{seed}", "computations": result, "dynamic": bool(seed % 2)}


def layouts(seed, runs=9, rank=7):
    """A random program with measured layouts."""
    rng = np.random.default_rng(seed)
    module = program(seed, rank=rank)
    count = sum(len(c["instructions"]) for c in module["computations"])
    nodes = rng.permutation(count)[: rng.integers(1, 4)].tolist()
    made = [
        {"layout": [[_list(rng, 8, -1, 6) for _ in range(rng.integers(0, 4))] for _ in nodes],
         "ns": int(rng.integers(2, 2**40)), "default": i % 4 == 2, "error": i % 4 == 1}
        for i in range(runs)
    ]  # fmt: skip
    return {"module": module, "runs": [*made, {"layout": made[0]["layout"]}], "nodes": nodes}


def tiles(seed, runs=7, rank=7):
    """A random program with measured tile sizes."""
    rng = np.random.default_rng(seed)
    made = [
        {"tile": [_list(rng, high=2**20) for _ in range(3)], "ns": int(rng.integers(1, 2**40)),
         "default": i == 3, "error": i % 4 == 1}
        for i in range(runs)
    ]  # fmt: skip
    made[3]["ns"], made[5]["ns"] = 4567, 1
    return {"module": program(seed, rank=rank), "runs": made}
