"""Kernels beside NumPy, SciPy, PyTorch and PyG. A new one is a case in a group, or a group in GROUPS."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from .. import layout, timing, workloads
from ..context import Context
from ..record import Record

TITLE = "Kernels"
ABOUT = (
    "Single functions beside those a user would take instead, on the same inputs and threads; with "
    "several peers the fastest counts. `M x F -> O`: M rows, F columns in, O out. *forward*, *dx*, "
    "*dw*: products alone, every side on one thread. *linear*: the op as models run it, on all "
    "threads, with the bias (and its gradient), which the peers do not have to add. Of products every side "
    "writes into an array that is there."
)

Call = Callable[[], Any]


COPY = "memory copy"


@dataclass
class Case:
    """One comparison. The roof: `flops` necessary operations at the peak of `precision`, or a copy that reads
    and writes `moved` bytes in all, in turn with the sides.
    """

    name: str
    ours: Call
    peers: dict[str, Call] = field(default_factory=dict)
    required: float | None = None
    flops: float = 0.0
    notes: str = ""
    precision: str = "f32"
    moved: float = 0.0


@dataclass
class Setting:
    """What groups need to know. `torch` is None without peers."""

    quick: bool
    torch: Any
    scipy: bool
    rng: np.random.Generator

    def size(self, full: int, quick: int) -> int:
        return quick if self.quick else full

    def array(self, *shape: int) -> np.ndarray[Any, Any]:
        return self.rng.standard_normal(shape).astype(np.float32)


# ---- products ---------------------------------------------------------------------------------------------

# (F, O) of the recipes, in published sizes and in those for a CPU. Their rows are nodes (the part of the
# first layer that depends on the graph alone) or nodes times configs.
NODE_SHAPES = ((174, 256), (174, 128), (174, 64))
ROW_SHAPES = (
    (256, 256),
    (256, 128),
    (256, 32),
    (32, 256),
    (128, 16),
    (16, 128),
    (128, 128),
    (128, 64),
    (64, 8),
    (8, 64),
)


def shapes(s: Setting) -> Iterator[tuple[int, int, int]]:
    """Rows, columns in, columns out."""
    for known, rows in ((NODE_SHAPES, s.size(1000, 50)), (ROW_SHAPES, s.size(64_000, 200))):
        for columns, out in known[: 1 if s.quick else None]:
            yield rows, columns, out


def products(s: Setting) -> Iterator[Case]:
    """Our products against theirs, kernel against kernel: everyone on one thread, no bias."""
    from tpugraphs import _core

    for rows, columns, out in shapes(s):
        x, w, dy = s.array(rows, columns), s.array(out, columns), s.array(rows, out)
        theirs = _library_products(s, x, w, dy)
        results = np.empty_like(dy), np.empty_like(x), np.empty_like(w)
        flops, shape = 2.0 * rows * columns * out, f"{rows} x {columns} -> {out}, 1 thread"

        def forward(precision: str, x: Any = x, w: Any = w, r: Any = results) -> Any:
            return _core.product(x, w, precision, None, None, False, r[0])

        def dx(dy: Any = dy, w: Any = w, r: Any = results) -> Any:
            return _core.product(dy, w, "f32", None, None, True, r[1])

        def dw(dy: Any = dy, x: Any = x, r: Any = results) -> Any:
            return _core.product_tn(dy, x, "f32", None, r[2])

        yield Case(f"forward {shape}", partial(forward, "f32"), theirs["forward"], 0.95, flops)
        yield Case(f"dx {shape}", dx, theirs["dx"], 0.95, flops)
        yield Case(f"dw {shape}", dw, theirs["dw"], 0.95, flops)
        if not layout.works(partial(forward, "bf16")):
            continue
        yield Case(
            f"forward bf16 {shape}", partial(forward, "bf16"), _torch_bf16(s, x, w), None, flops,
            "ours takes and gives float32 and converts inside; PyTorch has bf16 everywhere", "bf16",
        )  # fmt: skip
        yield Case(
            f"forward int8 {shape}", partial(forward, "int8"), {"ours bf16": partial(forward, "bf16")}, None,
            flops, "takes and gives float32", "int8",
        )  # fmt: skip


def layers(s: Setting) -> Iterator[Case]:
    """The op as models run it, with bias and on all threads, beside the bare products."""
    from tpugraphs import kernels

    for rows, columns, out in shapes(s):
        x, w, bias, dy = s.array(rows, columns), s.array(out, columns), s.array(out), s.array(rows, out)
        theirs = _library_products(s, x, w, dy)
        both = {name: _in_turn(theirs["dx"][name], theirs["dw"][name]) for name in theirs["dx"]}
        y, grads = np.empty_like(dy), {"x": np.empty_like(x), "weight": np.empty_like(w)}
        flops, shape = 2.0 * rows * columns * out, f"{rows} x {columns} -> {out}"

        def forward(x: Any = x, w: Any = w, bias: Any = bias, y: Any = y) -> Any:
            return kernels.linear(x, w, bias, out=y)

        def backward(dy: Any = dy, x: Any = x, w: Any = w, bias: Any = bias, grads: Any = grads) -> Any:
            return kernels.linear_backward(dy, x, w, bias, out=grads)

        yield Case(f"linear {shape}", forward, theirs["forward"], 0.95, flops)
        yield Case(f"linear backward {shape}", backward, both, 0.95, 2 * flops)


def _library_products(s: Setting, x: Any, w: Any, dy: Any) -> dict[str, dict[str, Call]]:
    """Forward, dx and dw of NumPy and PyTorch, into arrays that are there."""
    y, dx, dw = np.empty_like(dy), np.empty_like(x), np.empty_like(w)
    found: dict[str, dict[str, Call]] = {
        "forward": {"NumPy": lambda: np.matmul(x, w.T, out=y)},
        "dx": {"NumPy": lambda: np.matmul(dy, w, out=dx)},
        "dw": {"NumPy": lambda: np.matmul(dy.T, x, out=dw)},
    }
    if s.torch:
        t = s.torch
        tx, tw, tdy, ty, tdx, tdw = (t.from_numpy(a) for a in (x, w, dy, y, dx, dw))
        found["forward"]["PyTorch"] = lambda: t.mm(tx, tw.T, out=ty)
        found["dx"]["PyTorch"] = lambda: t.mm(tdy, tw, out=tdx)
        found["dw"]["PyTorch"] = lambda: t.mm(tdy.T, tx, out=tdw)
    return found


def _torch_bf16(s: Setting, x: Any, w: Any) -> dict[str, Call]:
    if not s.torch:
        return {}
    t = s.torch
    left, right = t.from_numpy(x).bfloat16(), t.from_numpy(w).bfloat16()
    result = t.empty(len(x), len(w), dtype=t.bfloat16)
    return {"PyTorch bf16": lambda: t.mm(left, right.T, out=result)}


def _in_turn(*calls: Call) -> Call:
    def run_all() -> None:
        for call in calls:
            call()

    return run_all


def epilogue(s: Setting) -> Iterator[Case]:
    """Product, bias and GELU in one, beside the product and passes of their own."""
    from tpugraphs import kernels

    for columns, out in ((256, 128), (128, 128)):
        x, w, bias = s.array(s.size(64_000, 100), columns), s.array(out, columns), s.array(out)

        def separate(x: Any = x, w: Any = w, bias: Any = bias) -> Any:
            y = x @ w.T
            y += bias
            return kernels.gelu(y)

        peers: dict[str, Call] = {"NumPy product and bias, our GELU": separate}
        if s.torch:
            functional = s.torch.nn.functional
            tensors = tuple(s.torch.from_numpy(a) for a in (x, w, bias))

            def theirs(tensors: Any = tensors, functional: Any = functional) -> Any:
                return functional.gelu(functional.linear(*tensors))

            peers["PyTorch linear, GELU"] = theirs
        yield Case(
            f"linear + GELU {len(x)} x {columns} -> {out}",
            lambda x=x, w=w, bias=bias: kernels.linear(x, w, bias, "gelu"),
            peers,
            1.2,
            2.0 * len(x) * columns * out,
        )


def sage(s: Setting) -> Iterator[Case]:
    from tpugraphs import kernels

    nodes, edges, configs, width = s.size(10_000, 60), s.size(16_000, 90), s.size(64, 4), 64
    producer = s.rng.integers(0, nodes - 1, edges)
    consumer = np.minimum(producer + s.rng.geometric(0.05, edges), nodes - 1)
    index = np.stack([consumer, producer], 1)
    x, dy = s.array(nodes, configs, width), s.array(nodes, configs, width)
    w_l, b_l, w_r = s.array(width, width), s.array(width), s.array(width, width)

    def both() -> None:
        kernels.sage_conv(x, index, w_l, b_l, w_r)
        kernels.sage_conv_backward(dy, x, index, w_l, b_l, w_r)

    forward: dict[str, Call] = {}
    backward: dict[str, Call] = {}
    if s.torch:
        from torch_geometric.nn import SAGEConv

        t, conv = s.torch, SAGEConv(width, width)
        tx = t.from_numpy(np.ascontiguousarray(x.swapaxes(0, 1))).requires_grad_()
        tdy, ti = t.from_numpy(np.ascontiguousarray(dy.swapaxes(0, 1))), t.from_numpy(index.T.copy())

        def alone() -> Any:
            with t.no_grad():
                return conv(tx, ti)

        def pair() -> None:
            tx.grad = None
            conv.zero_grad()
            conv(tx, ti).backward(tdy)

        forward["PyG"], backward["PyG"] = alone, pair
    linked = min(len(np.unique(index[:, side])) for side in (0, 1))
    flops = 2.0 * (nodes + linked) * configs * width * width
    shape = f"N={nodes} E={edges} C={configs} F={width} O={width}"
    yield Case(
        f"SAGEConv forward {shape}", lambda: kernels.sage_conv(x, index, w_l, b_l, w_r), forward, 3.0, flops
    )
    yield Case(f"SAGEConv forward and backward {shape}", both, backward, 3.0, 3 * flops)


# ---- ranking ----------------------------------------------------------------------------------------------


def tau(s: Setting) -> Iterator[Case]:
    from tpugraphs import metrics

    for n in (200,) if s.quick else (1000, 50_000, 100_000):
        scores = s.rng.standard_normal(n)
        runtimes = np.round(1000 * (scores + s.rng.standard_normal(n))).astype(np.int64)
        peers: dict[str, Call] = {}
        if s.scipy:
            from scipy.stats import kendalltau

            peers["SciPy"] = lambda a=scores, b=runtimes: kendalltau(a, b)
        yield Case(
            f"Kendall tau n={n:,}",
            lambda a=scores, b=runtimes: metrics.kendall_tau(a, b),
            peers,
            3.0,
            notes="integer runtimes with ties",
        )


def losses(s: Setting) -> Iterator[Case]:
    """Value and gradient. The peers keep only what they need: no pair is made a row of a table."""
    from tpugraphs import kernels

    for length in (64,) if s.quick else (64, 128, 512, 1000, 100_000):
        scores, runtimes = s.array(length), s.rng.permutation(length).astype(np.int64)
        hinge: dict[str, Call] = {}
        listwise: dict[str, Call] = {}
        peers: dict[str, Call] = {}
        if s.torch:
            t = s.torch
            leaf, times = t.from_numpy(scores.copy()).requires_grad_(), t.from_numpy(runtimes)

            def torch_hinge(leaf: Any = leaf, times: Any = times) -> None:
                leaf.grad = None
                wrong = s.torch.relu(1.0 - (leaf[:, None] - leaf[None]))
                (wrong * (times[:, None] > times[None])).mean().backward()

            def torch_list_mle(leaf: Any = leaf, times: Any = times) -> None:
                leaf.grad = None
                ascending = leaf[s.torch.argsort(times)]  # the suffix of slowest first is a prefix of this
                (s.torch.logcumsumexp(ascending, 0) - ascending).sum().backward()

            if length <= 5000:  # a matrix of all pairs of 100,000 does not fit
                hinge["PyTorch, lean"] = torch_hinge
            listwise["PyTorch, lean"] = torch_list_mle
            peers |= _torch_losses(s, leaf, runtimes)
        wanted = 20.0 if length == 1000 else None
        yield Case(
            f"pairwise hinge L={length:,}",
            lambda a=scores, b=runtimes: kernels.pairwise_hinge(a, b),
            hinge,
            wanted,
        )
        yield Case(
            f"ListMLE L={length:,}",
            lambda a=scores, b=runtimes: kernels.list_mle(a, b),
            listwise,
            wanted,
        )
        shares = runtimes / (length - 1)
        rows: dict[str, Call] = {
            "cross entropy": lambda a=scores, b=shares: kernels.cross_entropy(a, b),
            "permuted margin": lambda a=scores, b=runtimes: kernels.permuted_margin(a, b, reduction="mean"),
            "hinge in a DCG": lambda a=scores, b=runtimes: kernels.dcg_hinge(a, b),
            "LambdaLoss arp2": lambda a=scores, b=runtimes: kernels.lambda_rank(
                a, b, gain="linear", scheme="arp2"
            ),
        }
        for name, ours in rows.items():
            if length <= 5000 or name in ("cross entropy", "permuted margin"):
                yield Case(f"{name} L={length:,}", ours, {"PyTorch, lean": peers[name]} if peers else {})


def _torch_losses(s: Setting, leaf: Any, runtimes: Any) -> dict[str, Call]:
    t, length = s.torch, len(runtimes)
    times = t.from_numpy(runtimes)
    shares = t.from_numpy((runtimes / (length - 1)).astype(np.float32))

    def cross_entropy() -> None:
        leaf.grad = None
        t.nn.functional.binary_cross_entropy_with_logits(leaf, shares).backward()

    def permuted_margin() -> None:
        leaf.grad = None
        total = 0.0
        for _ in range(4):
            turn = t.randperm(length)
            sign = t.sign(times - times[turn])
            total = total + (t.relu(0.1 - sign * (leaf - leaf[turn])) * sign.abs()).mean()
        (total / 4).backward()

    def dcg_hinge() -> None:
        leaf.grad = None
        wrong = t.relu(1.0 - (leaf[:, None] - leaf[None]))
        (-1 / t.log(2 + (wrong * (times[:, None] > times[None])).sum())).backward()

    def arp2() -> None:
        leaf.grad = None
        weight = t.relu(shares[:, None] - shares[None])
        (weight * t.nn.functional.softplus(leaf[None] - leaf[:, None]) / np.log(2)).sum().backward()

    return {
        "cross entropy": cross_entropy,
        "permuted margin": permuted_margin,
        "hinge in a DCG": dcg_hinge,
        "LambdaLoss arp2": arp2,
    }


# ---- graphs and configs -----------------------------------------------------------------------------------


def prune(s: Setting) -> Iterator[Case]:
    from tpugraphs import kernels

    nodes, edges, configurable = s.size(43_000, 300), s.size(75_000, 500), s.size(1500, 20)
    producer = s.rng.integers(0, nodes - 1, edges)
    consumer = np.minimum(producer + s.rng.geometric(0.02, edges), nodes - 1)
    index = np.stack([consumer, producer], 1)
    chosen = np.sort(s.rng.choice(nodes, configurable, replace=False))

    def relabel(keep: Any, kept_edges: Any) -> tuple[Any, Any, Any]:
        number = np.cumsum(keep) - 1
        return np.flatnonzero(keep), number[kept_edges], number[chosen]

    def one_hop() -> Any:
        mark = np.zeros(nodes, bool)
        mark[chosen] = True
        kept_edges = index[mark[index[:, 0]] | mark[index[:, 1]]]
        mark[kept_edges.ravel()] = True
        return relabel(mark, kept_edges)

    def masks(hops: int) -> Any:
        mark = np.zeros(nodes, bool)
        mark[chosen] = True
        for _ in range(hops):
            grown = mark.copy()
            grown[index[mark[index[:, 0]], 1]] = True
            grown[index[mark[index[:, 1]], 0]] = True
            mark = grown
        return relabel(mark, index[mark[index[:, 0]] & mark[index[:, 1]]])

    def ours(method: str, hops: int) -> Any:
        return kernels.prune(index, nodes, chosen, method, hops=hops)

    shape = f"N={nodes:,} E={edges:,} K={configurable:,}"
    for name, method, hops, peer in (
        ("1-hop", "config-1hop", 1, one_hop),
        ("2 hops", "k-hop", 2, lambda: masks(2)),
        ("3 hops", "k-hop", 3, lambda: masks(3)),
    ):
        for left, right in zip(ours(method, hops), peer(), strict=True):
            assert np.array_equal(left, right), f"{name}: not the same job"
        yield Case(
            f"prune {name} {shape}",
            lambda method=method, hops=hops: ours(method, hops),
            {"NumPy masks": peer},
            3.0,
        )


def dedup(s: Setting) -> Iterator[Case]:
    import made

    from tpugraphs import kernels

    nodes, configurable, configs = workloads.ALEXNET
    digits = made.program(0, nodes, configurable, s.size(configs, 200)).config_digits
    rows = digits.reshape(len(digits), -1)
    yield Case(
        f"dedup of {len(rows):,} configs",
        lambda: kernels.dedup_configs(digits),
        {"np.unique": lambda: np.unique(rows, axis=0, return_index=True, return_inverse=True)},
        50.0,
        notes="rows of 468 int8 digits; np.unique with index and inverse",
    )


def packing(s: Setting) -> Iterator[Case]:
    from tpugraphs import _core, kernels

    configs = s.size(60_000, 50)
    digits = s.rng.integers(-1, 6, (configs, 26, 18)).astype(np.int8)
    floats, codes = digits.astype(np.float32), kernels.encode_base7(digits)

    def copy(*moved: np.ndarray[Any, Any]) -> dict[str, Call]:
        """A copy that reads and writes as many bytes in all."""
        source = np.ones(sum(array.nbytes for array in moved) // 2, np.int8)
        target = np.empty_like(source)
        return {"memory copy": lambda: np.copyto(target, source)}

    note = "beside a copy that moves as many bytes (NumPy, one thread)"
    shape = f"{configs:,} x 26 x 18"
    new_digits, new_codes = np.ones_like(digits), np.ones_like(codes)
    yield Case(
        f"float32 to int8 {shape}",
        lambda: _core.as_digits("digits", floats, None),
        copy(floats, digits),
        1.0,
        notes=note,
    )
    yield Case(
        f"int8 to base 7 {shape}",
        lambda: kernels.encode_base7(digits, out=new_codes),
        copy(digits, codes),
        1.0,
        notes=note,
    )
    yield Case(
        f"base 7 to int8 {shape}",
        lambda: kernels.decode_base7(codes, out=new_digits),
        copy(digits, codes),
        1.0,
        notes=note,
    )


GROUPS = {
    "products": products, "layers": layers, "epilogue": epilogue, "sage": sage, "tau": tau, "losses": losses,
    "prune": prune, "dedup": dedup, "packing": packing,
}  # fmt: skip
ONE_THREAD = ("products",)  # groups where every side has one thread


# ---- running ----------------------------------------------------------------------------------------------


def group(name: str, **options: Any) -> list[dict[str, Any]]:
    """Measure a group."""
    return measure(GROUPS[name], **options)


def measure(
    cases: Callable[[Setting], Iterator[Case]],
    threads: int,
    rounds: int,
    budget: float,
    quick: bool,
    peers: bool,
) -> list[dict[str, Any]]:
    """Race the sides of every case."""
    import importlib.util

    from tpugraphs import _core

    _core.set_num_threads(threads)
    torch = layout.setup_torch(threads) if peers and layout.have_torch() else None
    scipy = peers and importlib.util.find_spec("scipy") is not None
    rows = []
    for case in cases(Setting(quick, torch, scipy, np.random.default_rng(0))):
        sides = {"ours": case.ours, **case.peers}
        if case.moved:
            sides[COPY] = _copy(torch, int(case.moved))
        times = timing.race(sides, rounds, budget)
        peer = timing.fastest(times, list(case.peers)) or ""
        found = {
            "ours": timing.median(times, "ours"),
            "peer": timing.median(times, peer),
            "peer_name": peer,
            "ratio": timing.ratio(times, "ours", peer),
            "copy": timing.median(times, COPY) if case.moved else None,
        }
        declared = {key: getattr(case, key) for key in ("required", "flops", "notes", "precision")}
        rows.append({"case": case.name, **found, **declared})
    return rows


def _copy(torch: Any, moved: int) -> Call:
    """A copy that reads and writes as many bytes in all, on all threads with PyTorch, otherwise on one."""
    source = np.ones(moved // 8, np.float32)
    if torch is None:
        target = np.empty_like(source)
        return lambda: np.copyto(target, source)
    given = torch.from_numpy(source)
    copied = torch.empty_like(given)
    return lambda: copied.copy_(given)


def run(context: Context) -> Iterator[Record]:
    for name in GROUPS:
        with context.attempt(f"kernels {name}"):
            yield from records(context, "kernels", name, "sections.kernels:group", alone=name in ONE_THREAD)


def records(
    context: Context, section: str, name: str, function: str, alone: bool = False
) -> Iterator[Record]:
    """What `function` measures of one group, in a process of its own; `alone`: with one thread."""
    threads = 1 if alone else context.threads
    rows = context.call(
        function,
        settings="one thread" if alone else "tuned",
        name=name,
        threads=threads,
        rounds=context.rounds,
        budget=min(context.budget, 6.0),
        quick=context.quick,
        peers=context.peers,
    ).value
    for row in rows:
        yield _record(context, section, name, row, threads)


def _record(context: Context, section: str, name: str, row: dict[str, Any], threads: int) -> Record:
    longest = max(row["ours"], row["peer"] or 0.0)
    unit, scale = ("ms", 1e3) if longest >= 1e-3 else ("us", 1e6)
    rate = roof = None
    if row["flops"]:
        rate = row["flops"] / row["ours"] / 1e9
        roof = timing.scaled(context.roof_ms(row["flops"], row["precision"], threads), scale / 1e3)
    elif row["copy"]:
        roof = row["copy"] * scale
    return Record(
        section,
        row["case"],
        row["ours"] * scale,
        timing.scaled(row["peer"], scale),
        row["peer_name"],
        unit,
        row["ratio"],
        row["required"],
        roof,
        notes=row["notes"],
        facts={"group": name, "gflops": rate, "precision": row["precision"]},
    )
