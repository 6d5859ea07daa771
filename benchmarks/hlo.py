"""Reading protocol buffers of HLO next to Python's protobuf (upb), which parses and is then walked through.

Two files of at least `--megabytes` are generated: a program of many computations with as many bytes per
instruction as XLA writes (about 160, half of it metadata), and a small one with measured layouts. The walk
looks at every field that features, edges and configs are made of, and makes nothing of them but a dict of ids
and a list of edges; ours makes the graph. Each time is the second of two in a process of its own, with the
file in the cache and memory that the system has had in use before.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from . import machine, process

REQUIRED_GB, REQUIRED_TIME, REQUIRED_MEMORY = 1.0, 0.1, 0.2
METADATA = ("add_any", "jit(train_step)/jit(main)/transpose(jvp)/add_any", "/model/layers/attention.py")


# --- files --------------------------------------------------------------------------------------------------


def instruction(writer: Any, number: int) -> bytes:
    """One of a mixture like that of a training step."""
    from hlo_files import content

    opcode = ("add", "multiply", "broadcast", "convolution", "reduce", "get-tuple-element")[number % 6]
    fields: dict[str, Any] = {
        "id": number + 1, "opcode": opcode, "name": f"{opcode}.{number}",
        "shape": {"type": 16 if number % 3 else 11, "dims": [32, 128, 14, 14], "layout": [3, 2, 0, 1]},
        "operands": [k + 1 for k in (number - 1, number // 2) if 0 <= k < number],
    }  # fmt: skip
    if opcode == "convolution":
        fields["window"] = [[3, 1, 1, 1, 1, 1]] * 2
        fields["convolution"] = {"kernel": [2, 3], "input": [0, 1], "output": [0, 1],
                                 "kernel_spatial": [0, 1], "input_spatial": [2, 3]}  # fmt: skip
        fields |= {"feature_groups": 1, "batch_groups": 1}
    elif opcode in ("broadcast", "reduce"):
        fields["dimensions"] = [0, 2]
    metadata = b"".join(content(field + 1, text) for field, text in enumerate(METADATA))
    raw: bytes = writer.instruction(fields) + content(7, metadata)
    return raw


def computation(writer: Any, count: int) -> bytes:
    """All of a computation but its id."""
    from hlo_files import content, number

    body = b"".join(content(2, instruction(writer, i)) for i in range(count))
    return content(1, "fused_computation") + body + number(6, count)


def write_program(path: Path, size: int) -> None:
    """Write an HloModuleProto of at least `size` bytes."""
    from hlo_files import Writer, content, number

    body, written = computation(Writer(), 400), 0
    with path.open("wb") as file:
        while written < size:
            raw = content(3, body + number(5, written + 1))
            written += file.write(raw)


def write_layouts(path: Path, size: int) -> None:
    """Write a ModuleTuningData of at least `size` bytes, nearly all of it runs."""
    from hlo_files import Writer, content, number

    writer = Writer()
    nodes = list(range(160))
    layout = [[[3, 2, 0, 1], [1, 0, 2, 3], [3, 2, 1, 0]] for _ in nodes]
    runs = [content(3, writer.run({"layout": layout, "ns": 10**6 + i, "default": i == 0})) for i in range(50)]
    with path.open("wb") as file:
        written = file.write(content(1, content(3, computation(writer, 400) + number(5, 1))))
        written += file.write(writer.numbers(4, nodes))
        while written < size:
            written += file.write(b"".join(runs))


# --- the two sides ------------------------------------------------------------------------------------------


def ours(path: str) -> dict[str, float]:
    """Load the file, on one core."""
    import tpugraphs as tg

    tg.set_num_threads(1)
    small = Path(path).with_suffix(".small.pb")
    write_program(small, 1)
    tg.load(small)  # everything imported
    before, graph = process.memory("VmRSS"), tg.load(path)
    peak = process.memory("VmHWM") - before
    del graph
    start, cpu = time.perf_counter(), time.process_time()
    graph = tg.load(path)
    spent = {"seconds": time.perf_counter() - start, "cpu": time.process_time() - cpu}
    arrays = (graph.node_feat, graph.edge_index, graph.node_opcode, graph.config_digits, graph.config_runtime)
    return spent | {
        "bytes": peak,
        "output": sum(array.nbytes for array in arrays),
        "nodes": graph.num_nodes,
        "edges": graph.num_edges,
        "configs": graph.num_configs,
    }


MESSAGES = {
    "Layout": "minor_to_major:1*",
    "Shape": "element_type:2 dimensions:3* tuple_shapes:4*Shape layout:5=Layout",
    "Dim": "size:1 stride:2 padding_low:3 padding_high:4 window_dilation:5 base_dilation:6 window_reversal:7",
    "Window": "dimensions:1*Dim",
    "Conv": "kernel_input:3 kernel_output:4 kernel_spatial:6* input_batch:7 input_feature:8 output_batch:9 "
    "output_feature:10 input_spatial:11* output_spatial:12*",
    "Metadata": "op_type:1=text op_name:2=text source_file:3=text source_line:4",
    "Instruction": "name:1=text opcode:2=text shape:3=Shape metadata:7=Metadata parameter_number:9 "
    "dimensions:14* window:15=Window convolution:16=Conv dynamic_slice_sizes:20* id:35 operand_ids:36* "
    "called:38* feature_group_count:50 batch_group_count:58 is_stable:60",
    "Computation": "name:1=text instructions:2*Instruction id:5 root_id:6",
    "Module": "name:1=text computations:3*Computation is_dynamic:11",
    "Tensor": "dims:1*",
    "Node": "tensors:1*Tensor",
    "LayoutConfig": "nodes:1*Node",
    "ModuleConfig": "layout_config:1=LayoutConfig",
    "Profile": "compute_time_ns:4",
    "Run": "module_config:2=ModuleConfig error:3 profile:4=Profile is_default:5",
    "Tuning": "module:1=Module fingerprint:2 runs:3*Run config_index_to_node:4*",
}  # field:number, then * for a list; then the message or "text", else int64


def message_class(name: str) -> Any:
    """A class of Python's protobuf for one of MESSAGES."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    file = descriptor_pb2.FileDescriptorProto(name="hlo.proto", package="b", syntax="proto3")
    kinds = descriptor_pb2.FieldDescriptorProto
    for title, fields in MESSAGES.items():
        message = file.message_type.add(name=title)
        for entry in fields.split():
            label, rest = entry.split(":")
            many = "*" in rest
            number, _, of = rest.replace("*", "=").partition("=")
            field = message.field.add(name=label, number=int(number))
            field.label = kinds.LABEL_REPEATED if many else kinds.LABEL_OPTIONAL
            field.type = (
                kinds.TYPE_INT64 if not of else kinds.TYPE_BYTES if of == "text" else kinds.TYPE_MESSAGE
            )
            if field.type == kinds.TYPE_MESSAGE:
                field.type_name = f".b.{of}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"b.{name}"))


def walk_module(module: Any) -> tuple[dict[int, int], list[tuple[int, int]]]:
    """Look at everything that the features are made of; ids and edges."""
    roots = {c.id: c.root_id for c in module.computations}
    places: dict[int, int] = {}
    edges = []
    for c in module.computations:
        inside: dict[int, int] = {}
        for i in c.instructions:
            inside[i.id] = place = len(places) + len(inside)
            i.opcode, i.parameter_number, i.feature_group_count, i.batch_group_count, i.is_stable  # noqa: B018
            shape = i.shape
            shape.element_type, list(shape.dimensions), len(shape.tuple_shapes)
            list(shape.layout.minor_to_major), list(i.dimensions), list(i.dynamic_slice_sizes)
            for d in i.window.dimensions:
                d.size, d.stride, d.padding_low, d.padding_high, d.window_dilation, d.base_dilation  # noqa: B018
            list(i.convolution.kernel_spatial), list(i.convolution.input_spatial)
            edges += [(place, inside[operand]) for operand in set(i.operand_ids)]
            edges += [(place, roots[called]) for called in i.called]
        places |= {(c.id << 32) + key: place for key, place in inside.items()}
    return places, edges


def upb(path: str, kind: str) -> dict[str, float]:
    """Parse and walk."""
    from google.protobuf.internal import api_implementation

    empty = message_class("Tuning" if kind == "layouts" else "Module")
    before, peak = process.memory("VmRSS"), 0
    for _ in range(2):
        module, start = empty(), time.perf_counter()
        module.ParseFromString(Path(path).read_bytes())
        parsed, configs = time.perf_counter() - start, []
        if kind == "layouts":
            for run in module.runs:
                nodes = run.module_config.layout_config.nodes
                configs.append((len([[list(t.dims) for t in node.tensors] for node in nodes]), run.profile))
        places, edges = walk_module(module.module if kind == "layouts" else module)
        seconds, peak = time.perf_counter() - start, peak or process.memory("VmHWM") - before
    return {
        "seconds": seconds,
        "parse": parsed,
        "bytes": peak,
        "nodes": len(places),
        "edges": len(edges),
        "configs": len(configs),
        "upb": api_implementation.Type() == "upb",
    }


# --- the report ---------------------------------------------------------------------------------------------


def measure(kind: str, megabytes: float, rounds: int) -> dict[str, Any]:
    """Measure one file: medians of both sides."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "x.pb")
        (write_program if kind == "program" else write_layouts)(path, int(megabytes * 1e6))
        found: dict[str, Any] = {"size": path.stat().st_size, "ours": [], "upb": []}
        for _ in range(rounds):
            found["ours"].append(process.call("hlo:ours", settings="own", path=str(path)).value)
            try:
                found["upb"].append(process.call("hlo:upb", settings="own", path=str(path), kind=kind).value)
            except process.ChildError as error:
                if "No module named 'google" not in str(error):
                    raise
    for side in ("ours", "upb"):
        rows = found[side]
        found[side] = {key: statistics.median(row[key] for row in rows) for key in rows[0]} if rows else None
    return found


def lines(kind: str, found: dict[str, Any]) -> list[str]:
    """Lines of a table about one file."""
    a, b, size = found["ours"], found["upb"], found["size"]
    peer = dict.fromkeys(("seconds", "memory", "time ratio", "memory ratio"), "–")
    if b is not None:
        peer = {
            "seconds": f"{b['seconds']:.2f}, {b['parse']:.2f} of it parsing",
            "memory": f"{b['bytes'] / 1e6:.0f}",
            "time ratio": f"ratio {a['seconds'] / b['seconds']:.3f}, ≤ {REQUIRED_TIME}",
            "memory ratio": f"ratio {a['bytes'] / b['bytes']:.3f}, ≤ {REQUIRED_MEMORY}",
        }
    sizes = f"{size / 1e6:.0f} MB, {a['nodes']:,.0f} nodes, {a['configs']:,.0f} configs"
    arrays = f"{a['bytes'] / 1e6:.0f}, arrays {a['output'] / 1e6:.0f}"
    text = [
        f"| {kind}: {sizes}, GB/s of one core | {size / a['cpu'] / 1e9:.2f} | – | ≥ {REQUIRED_GB} |",
        f"| {kind}: seconds | {a['seconds']:.3f} | {peer['seconds']} | {peer['time ratio']} |",
        f"| {kind}: peak memory, MB | {arrays} | {peer['memory']} | {peer['memory ratio']} |",
    ]
    same = b is None or all(a[key] == b[key] for key in ("nodes", "edges", "configs"))
    return [*text, *([] if same else [f"| {kind}: NOT THE SAME GRAPH | {a} | {b} | |"])]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.hlo", description=__doc__)
    parser.add_argument("--megabytes", type=float, default=72.0, help="of each file (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="processes per side (default: %(default)s)")
    parser.add_argument("--json", action="store_true", help="print all figures")
    args = parser.parse_args(arguments)
    found = {kind: measure(kind, args.megabytes, args.rounds) for kind in ("program", "layouts")}
    if args.json:
        print(json.dumps({"run": machine.describe(), **found}))
        return 0
    print("| file | tpugraphs | Python protobuf and a walk | required |\n|---|---|---|---|")
    for kind, figures in found.items():
        print("\n".join(lines(kind, figures)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
