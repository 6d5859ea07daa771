"""Where the time of a training step goes, event by event, and what each would take at the machine's peak."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from typing import Any

from .. import layout, timing
from ..context import Context
from ..record import Record
from ..roof import Sizes, layout_parts

TITLE = "Profile of a training step"
ABOUT = (
    "Medians of `Model.profile`: the events of a step in the order of their time, those above 1 % of the "
    "step. *Of the roof* counts the necessary products of an event; what is recomputed has none. *Rest*: "
    "loss, gradient norm, AdamW, and what lies between the events."
)
LEAST_SHARE = 0.01
PHASES = ("forward", "backward")  # in the order of layout_parts


def events(name: str, precision: str, threads: int, rounds: int) -> dict[str, Any]:
    """Median seconds by event, of the whole step, and necessary operations by event."""
    from tpugraphs import _core

    _core.set_num_threads(threads)
    ours = layout.Ours(name)
    model, slates = ours.model(), [(ours.graph, ours.rows)]
    trainer = _core.Trainer(model)
    keyword = layout.extra(precision)
    seconds: dict[str, list[float]] = {}
    whole, rest = [], []  # medians do not add up: what events leave of a step is a median of its own
    for number in range(1, rounds + 2):
        took = timing.once(
            lambda number=number: trainer.step(
                slates, [ours.runtimes], layout.HINGE, layout.adamw(number), **keyword
            )
        )
        if number > 1:
            whole.append(took)
            rest.append(took - sum(value for _, _, value in model.profile))
            for phase, step, value in model.profile:
                seconds.setdefault(f"{phase} {step}", []).append(value)
    parts = layout_parts(Sizes.of(ours.arrays, len(ours.runtimes)), ours.cross)
    flops = {f"{phase} {step}": pair[i] for step, pair in parts.items() for i, phase in enumerate(PHASES)}
    medians = {event: statistics.median(values) for event, values in seconds.items()}
    return {
        "events": medians,
        "step": statistics.median(whole),
        "rest": statistics.median(rest),
        "flops": flops,
    }


def run(context: Context) -> Iterator[Record]:
    for name in ["tiny"] if context.quick else ["M"]:
        for precision in layout.TRAINING:
            if layout.works(layout.Ours("1x2").stepper(precision)):
                yield from _workload(context, name, precision)


def _workload(context: Context, name: str, precision: str) -> Iterator[Record]:
    found = context.call(
        "sections.profile:events",
        settings="own",
        name=name,
        precision=precision,
        threads=context.threads,
        rounds=min(context.rounds, 7),
    ).value
    step = found["step"]
    ordered = sorted(found["events"].items(), key=lambda item: -item[1])
    listed = [(event, value) for event, value in ordered if value >= LEAST_SHARE * step]
    others = sum(value for _, value in ordered) - sum(value for _, value in listed)
    for event, value in [*listed, ("other events", others), ("rest", found["rest"])]:
        flops = found["flops"].get(event)
        yield Record(
            "profile",
            f"{name} {precision} {event}",
            1e3 * value,
            roof=context.roof_ms(flops, precision) if flops else None,
            notes=f"{100 * value / step:.1f} % of {1e3 * step:.1f} ms",
            facts={"workload": name, "precision": precision, "event": event},
        )
