"""Small work: fixed costs, and whether a second thread ever hurts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from .. import layout, timing
from ..context import Context
from ..record import Record

TITLE = "Small work"
ABOUT = (
    "Steps so small that fixed costs decide, of the model with attention across configs (published "
    "size). The *limit* of a step on one node and two configs is 200 us. Below: all threads beside one "
    "thread over a range of sizes; ratios within the noise of 3 % below 1 count as equal."
)
LIMIT_US = 200.0
NOISE = 0.97
SIZES = ("1x2", "5x4", "20x16", "20x64", "73x16", "73x64", "200x64", "500x64")


def tiny(threads: int, rounds: int, peers: bool) -> timing.Times:
    """A step on the tiny workload beside the peer's."""
    from tpugraphs import _core

    _core.set_num_threads(threads)
    ours = layout.Ours("tiny")
    sides = {"ours": ours.stepper()}
    if peers:
        layout.setup_torch(threads)
        sides["peer"] = layout.Peer(ours.arrays, ours.runtimes, True, ours.model()).step
    return timing.race(sides, rounds)


def least(threads: int, rounds: int) -> timing.Times:
    """A step of one node and two configs."""
    from tpugraphs import _core

    _core.set_num_threads(threads)
    return timing.race({"ours": layout.Ours("1x2").stepper()}, rounds)


def threads_race(name: str, threads: int, rounds: int) -> dict[str, timing.Times]:
    """Training and scoring of one workload on all threads and on one."""
    ours = layout.Ours(name)
    return {
        what: timing.race({"all": make(threads=threads), "one": make(threads=1)}, rounds, budget=10.0)
        for what, make in (("step", ours.stepper), ("scores", ours.scorer))
    }


def threads_races(names: list[str], threads: int, rounds: int) -> dict[str, dict[str, timing.Times]]:
    """The same for several, and for functions beside the model."""
    from tpugraphs import kernels

    found = {name: threads_race(name, threads, rounds) for name in names}
    rng = np.random.default_rng(0)
    for length in (64, 1000, 20_000):
        scores, runtimes = (
            rng.standard_normal(length).astype(np.float32),
            rng.permutation(length).astype(np.int64),
        )

        def hinge(scores: Any = scores, runtimes: Any = runtimes) -> Any:
            return kernels.pairwise_hinge(scores, runtimes)

        sides = {"all": layout.with_threads(hinge, threads), "one": layout.with_threads(hinge, 1)}
        found[f"hinge L={length}"] = {"loss": timing.race(sides, rounds, budget=5.0)}
    return found


def run(context: Context) -> Iterator[Record]:
    shared = {"threads": context.threads, "rounds": context.rounds}
    alone = context.call("sections.small:least", settings="own", **shared).value
    yield Record(
        "small",
        "step of 1 node, 2 configs",
        timing.scaled(timing.median(alone, "ours"), 1e6),
        LIMIT_US,
        "limit",
        "us",
        required=1.0,
    )
    times = context.call("sections.small:tiny", peers=context.peers, **shared).value
    yield Record(
        "small",
        "step of 20 nodes, 16 configs",
        timing.scaled(timing.median(times, "ours"), 1e3),
        timing.scaled(timing.median(times, "peer"), 1e3),
        "PyTorch f32" if context.peers else "",
        ratio=timing.ratio(times, "ours", "peer"),
        required=10.0,
    )
    if context.threads == 1:
        return
    # Plain settings: a user's process has no peer's threads to wait for.
    found = context.call(
        "sections.small:threads_races", settings="own", names=list(SIZES[:2] if context.quick else SIZES),
        threads=context.threads, rounds=context.rounds,
    ).value  # fmt: skip
    for name, races in found.items():
        for what, pair in races.items():
            yield Record(
                "small",
                f"{name} {what}, {context.threads} threads",
                timing.scaled(timing.median(pair, "all"), 1e6),
                timing.scaled(timing.median(pair, "one"), 1e6),
                "ours, 1 thread",
                "us",
                timing.ratio(pair, "all", "one"),
                NOISE,
                facts={"size": name, "what": what},
            )
