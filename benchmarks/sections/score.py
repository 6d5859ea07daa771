"""Scoring: microseconds per config, and the memory that a hundred thousand configs take."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from typing import Any

import numpy as np

from .. import layout, timing, workloads
from ..context import Context
from ..process import memory
from ..record import Record
from ..roof import Sizes, layout_flops

TITLE = "Scoring"
ABOUT = (
    "Microseconds per config to score all configs of a workload at once, without dropout and gradients. "
    "f32 and bf16 are compared with PyTorch's f32 and bf16 (autocast, inference mode), int8 with our "
    "bf16, trees with LightGBM."
)
DEFAULT = ("S", "M", "L64")
REQUIRED = {"f32": 5.0, "bf16": 5.0}
REQUIRED_INT8 = {"M": 1.6}
STREAM_MIB = 512  # over the packed configs


def race(name: str, threads: int, rounds: int, budget: float, peers: bool) -> dict[str, Any]:
    """Seconds per pass over all configs, by side."""
    from tpugraphs import _core

    _core.set_num_threads(threads)
    ours = layout.Ours(name)
    sides = {
        f"ours {precision}": ours.scorer(precision)
        for precision in layout.SCORING
        if layout.works(ours.scorer(precision))
    }
    if peers:
        layout.setup_torch(threads)
        for precision in layout.TRAINING:
            peer = layout.Peer(ours.arrays, ours.runtimes, ours.cross, ours.model(), precision=precision)
            sides[f"peer {precision}"] = peer.scores
    sizes = Sizes.of(ours.arrays, len(ours.runtimes))
    apart = {side: float(np.abs(np.asarray(sides[side]()) - sides["ours f32"]()).max()) for side in sides}
    return {
        "sizes": vars(sizes),
        "flops": layout_flops(sizes, ours.cross, training=False),
        "times": timing.race(sides, rounds, budget),
        "apart": apart,
    }


def stream(path: str, threads: int) -> dict[str, Any]:
    """Score all configs of a file with the default recipe: seconds, and bytes above what they take packed."""
    import made

    import tpugraphs as tg

    tg.set_num_threads(threads)
    ranker, small = tg.Ranker(), made.program(1, 120, 12, 64)
    ranker.partial_fit(small, np.arange(8))
    before = memory("VmRSS")
    graph = tg.load(path)
    seconds = timing.once(lambda: ranker.predict(graph))
    packed = graph.num_configs * len(graph.node_config_ids) * 18
    return {
        "seconds": seconds,
        "grown": memory("VmHWM") - before,
        "packed": packed,
        "configs": graph.num_configs,
    }


def trees(rows: int, threads: int, rounds: int, budget: float) -> dict[str, Any]:
    """Seconds to sum 300 trees over a table of 50 columns, by side; and whether the bits are equal."""
    import lightgbm

    from tpugraphs import _core

    _core.set_num_threads(threads)
    x = np.random.default_rng(0).normal(size=(rows, 50)).astype(np.float32)
    options = {"num_leaves": 63, "verbosity": -1, "num_threads": threads}
    booster = lightgbm.train(options, lightgbm.Dataset(x, x[:, 0] * x[:, 1] + x[:, 2]), 300)
    forest = _core.Forest(booster.model_to_string(), np.arange(50), 50)
    sides = {
        "ours": lambda: forest.scores(x, 300),
        "peer": lambda: booster.predict(x, raw_score=True, num_threads=threads),
    }
    equal = bool((sides["ours"]() == sides["peer"]()).all())
    return {"times": timing.race(sides, rounds, budget), "equal": equal}


def run(context: Context) -> Iterator[Record]:
    default = ["tiny"] if context.quick else list(DEFAULT)
    for name in filter(context.can, context.workloads or default):
        with context.attempt(f"score {name}"):
            yield from _workload(context, name)
    if context.peers:
        with context.attempt("score trees"):
            yield _trees(context)
    yield _stream(context)


def _trees(context: Context) -> Record:
    rows = 2_000 if context.quick else 100_000
    threads, rounds, budget = context.threads, context.rounds, context.budget
    found = context.call(
        "sections.score:trees", rows=rows, threads=threads, rounds=rounds, budget=budget
    ).value
    times = found["times"]
    return Record(
        "score",
        "trees",
        timing.scaled(timing.median(times, "ours"), 1e6 / rows),
        timing.scaled(timing.median(times, "peer"), 1e6 / rows),
        "LightGBM",
        "us/config",
        timing.ratio(times, "ours", "peer"),
        notes="300 trees of 63 leaves; " + ("the same bits" if found["equal"] else "other bits"),
        facts={"rows": rows, "kind": "trees"},
    )


def _workload(context: Context, name: str) -> Iterator[Record]:
    found = context.call(
        "sections.score:race",
        name=name,
        threads=context.threads,
        rounds=context.rounds,
        budget=context.budget,
        peers=context.peers,
    ).value
    times, sizes = found["times"], found["sizes"]
    scale = 1e6 / sizes["configs"]
    for precision in layout.SCORING:
        ours, roof = f"ours {precision}", context.roof_ms(found["flops"], precision)
        peer = f"peer {precision}" if precision != "int8" else "ours bf16"
        notes = [f"N={sizes['nodes']} E={sizes['edges']} C={sizes['configs']}"]
        if ours not in times:
            notes.append("not supported by this build or processor")
        elif peer in times:
            notes.append(f"scores differ from our f32 by at most {found['apart'][ours]:.2g}")
        yield Record(
            "score",
            f"{name} {precision}",
            timing.scaled(timing.median(times, ours), scale),
            timing.scaled(timing.median(times, peer), scale),
            peer.replace("peer", "PyTorch") if peer in times else "",
            "us/config",
            timing.ratio(times, ours, peer),
            REQUIRED_INT8.get(name)
            if precision == "int8"
            else REQUIRED[precision]
            if name in DEFAULT
            else None,
            timing.scaled(roof, 1e3 / sizes["configs"]),
            notes="; ".join(notes),
            facts=sizes | {"workload": name, "precision": precision, "kind": "score"},
        )


def _stream(context: Context) -> Record:
    """A program of AlexNet's size with many configs, in one file."""
    import made

    wanted = 300 if context.quick else 100_000
    nodes, configurable, _ = workloads.ALEXNET
    graph = made.program(0, nodes, configurable, wanted)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "many.npz")
        graph.save(path)
        found = context.call(
            "sections.score:stream", settings="own", alone=True, path=path, threads=context.threads
        ).value
    grown, packed = found["grown"] / 2**20, found["packed"] / 2**20
    return Record(
        "score",
        f"{wanted:,} configs, memory",
        grown,
        STREAM_MIB + packed,
        "limit",
        "MiB",
        required=1.0,
        notes=f"growth of the process that ranks a file of such configs ({packed:.0f} MiB packed) "
        f"with the default recipe; {found['seconds']:.1f} s",
        facts={"kind": "stream", **found},
    )
