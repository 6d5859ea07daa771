"""How the time of a training step grows with nodes and configs, and falls with threads."""

from __future__ import annotations

from collections.abc import Iterator

from .. import layout, timing
from ..context import Context
from ..record import Record
from ..roof import Sizes, layout_flops

TITLE = "Scaling"
ABOUT = (
    "The same step as in the first section (attention across configs, f32), over the number of nodes at "
    "64 configs and over the number of configs at 500 nodes, on all threads; and ours alone at 1,000 "
    "nodes and 64 configs by threads."
)
NODES = (30, 60, 125, 250, 500, 1000, 2000)
CONFIGS = (4, 8, 16, 32, 64, 128)


def race(name: str, threads: int, rounds: int, budget: float, peers: bool) -> dict[str, object]:
    """Step times of ours and the peer on a graph ``"<nodes>x<configs>"``."""
    from tpugraphs import _core

    _core.set_num_threads(threads)
    ours = layout.Ours(name)
    sides = {"ours": ours.stepper()}
    if peers:
        layout.setup_torch(threads)
        sides["peer"] = layout.Peer(ours.arrays, ours.runtimes, ours.cross, ours.model()).step
    flops = layout_flops(Sizes.of(ours.arrays, len(ours.runtimes)), ours.cross)
    return {"times": timing.race(sides, rounds, budget), "flops": flops}


def run(context: Context) -> Iterator[Record]:
    nodes, configs = (NODES[:2], CONFIGS[:1]) if context.quick else (NODES, CONFIGS)
    points = [("nodes", n, f"{n}x64") for n in nodes] + [("configs", c, f"500x{c}") for c in configs]
    peers = context.peers and not context.quick
    for axis, at, name in points:
        found = context.call(
            "sections.scaling:race", name=name, threads=context.threads, rounds=min(context.rounds, 7),
            budget=context.budget / 3, peers=peers,
        ).value  # fmt: skip
        times = found["times"]
        yield Record(
            "scaling",
            f"{axis} {at}",
            timing.scaled(timing.median(times, "ours"), 1e3),
            timing.scaled(timing.median(times, "peer"), 1e3),
            "PyTorch f32" if peers else "",
            ratio=timing.ratio(times, "ours", "peer"),
            roof=context.roof_ms(found["flops"]),
            notes=name,
            facts={"axis": axis, "at": at},
        )
    name = "30x8" if context.quick else "1000x64"
    for count in range(1, context.threads + 1):
        found = context.call(
            "sections.scaling:race", settings="own", name=name, threads=count, rounds=min(context.rounds, 7),
            budget=context.budget / 3, peers=False,
        ).value  # fmt: skip
        yield Record(
            "scaling",
            f"threads {count}",
            timing.scaled(timing.median(found["times"], "ours"), 1e3),
            roof=context.roof_ms(found["flops"], threads=count),
            notes=name,
            facts={"axis": "threads", "at": count},
        )
