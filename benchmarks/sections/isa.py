"""One source, several instruction sets: the same step on each that this processor has."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .. import layout, timing
from ..context import Context
from ..record import Record
from ..roof import Sizes, layout_flops

TITLE = "Instruction sets"
ABOUT = (
    "A training step on M with the kernels compiled for each instruction set, chosen at run time "
    "(`TPUGRAPHS_ISA`); beside the slowest of them."
)


def race(name: str, threads: int, rounds: int, budget: float) -> dict[str, Any]:
    """Step times by level and precision."""
    from tpugraphs import _core

    _core.set_num_threads(threads)
    ours, sides, before = layout.Ours(name), {}, _core.get_isa()

    def on(level: str, call: layout.Call) -> layout.Call:
        def run_on_level() -> Any:
            _core.set_isa(level)
            return call()

        return run_on_level

    for level in _core.isa_levels():
        for precision in layout.TRAINING:
            if layout.works(on(level, ours.stepper(precision))):
                sides[f"{level} {precision}"] = on(level, ours.stepper(precision))
    losses = {side: step() for side, step in sides.items()}
    flops = layout_flops(Sizes.of(ours.arrays, len(ours.runtimes)), ours.cross)
    times = timing.race(sides, rounds, budget)
    _core.set_isa(before)
    return {"levels": _core.isa_levels(), "times": times, "losses": losses, "flops": flops}


def run(context: Context) -> Iterator[Record]:
    name = "tiny" if context.quick else "M"
    found = context.call(
        "sections.isa:race",
        settings="own",
        name=name,
        threads=context.threads,
        rounds=min(context.rounds, 5),
        budget=context.budget,
    ).value
    times = found["times"]
    slowest = max(
        (side for side in times if side.endswith("f32")), key=lambda side: timing.median(times, side) or 0.0
    )
    for precision in layout.TRAINING:
        for level in found["levels"]:
            side = f"{level} {precision}"
            if side not in times:
                continue
            yield Record(
                "isa",
                f"{name} {side}",
                timing.scaled(timing.median(times, side), 1e3),
                timing.scaled(timing.median(times, slowest), 1e3),
                slowest,
                ratio=timing.ratio(times, side, slowest),
                roof=context.roof_ms(found["flops"], precision),
                notes=f"second loss {found['losses'][side]:.7f}",
                facts={"level": level, "precision": precision},
            )
