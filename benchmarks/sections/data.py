"""From a file to what a model takes, and how long training waits for it."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from typing import Any

import made
import numpy as np

from .. import timing, workloads
from ..context import Context
from ..process import memory
from ..record import Record

TITLE = "Data"
ABOUT = (
    "A compressed file of AlexNet's size (33,774 configs) to a graph in the core: read, check, prune, merge "
    "equal configs (to train; not to predict), scale. np.load only reads the arrays. Each time in a new "
    "process, with everything imported before; medians, and the growth of the process. *Share of a "
    "fit*: of the default recipe, what its history calls waiting."
)
PROCESSES = 5


def ours(path: str, training: bool) -> dict[str, float]:
    """Load and prepare, as a fit does (`training`: equal configs merged) or as prediction does."""
    import tpugraphs as tg
    from tpugraphs.preprocess.pipeline import Pipeline
    from tpugraphs.recipes import get_recipe

    recipe = get_recipe("first-layout")
    steps = recipe.preprocessing(recipe.fields())
    Pipeline(steps).fit([made.program()])  # everything imported and loaded
    tg.load(path)
    before, start = memory("VmRSS"), time.perf_counter()
    graph = tg.load(path)
    pipeline = Pipeline(steps)
    pipeline.fit([graph])
    prepared = pipeline.apply_measured(graph) if training else pipeline.apply(graph)
    seconds = time.perf_counter() - start
    return {"seconds": seconds, "bytes": memory("VmHWM") - before, "configs": prepared.num_configs}


def numpy_load(path: str) -> dict[str, float]:
    """Read all arrays."""
    with np.load(path) as file:
        np.asarray(file["config_runtime"])  # everything imported
    before, start = memory("VmRSS"), time.perf_counter()
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files}
    seconds = time.perf_counter() - start
    return {"seconds": seconds, "bytes": memory("VmHWM") - before, "arrays": len(arrays)}


def share(path: str, threads: int, steps: int) -> dict[str, float]:
    """Seconds of a fit without its evaluations, and the share of them that was not spent in steps."""
    import tpugraphs as tg

    tg.set_num_threads(threads)
    history = tg.Ranker().fit(tg.load(path), steps=steps, verbose=False).history_
    return {"seconds": history.seconds - history.evaluation_seconds, "waiting": history.waiting}


def run(context: Context) -> Iterator[Record]:
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "program.npz")
        made.program(0, *workloads.ALEXNET).save(path)
        yield from _records(context, path)


def _records(context: Context, path: str) -> Iterator[Record]:
    count = 1 if context.quick else PROCESSES
    found: dict[str, list[Any]] = {"ready": [], "without": [], "load": []}
    for _ in range(count):
        found["load"].append(
            context.call("sections.data:numpy_load", settings="own", alone=True, path=path).value
        )
        found["ready"].append(
            context.call("sections.data:ours", settings="own", alone=True, path=path, training=True).value
        )
        found["without"].append(
            context.call("sections.data:ours", settings="own", alone=True, path=path, training=False).value
        )
    times = {side: [row["seconds"] for row in rows] for side, rows in found.items()}
    grown = {side: [row["bytes"] for row in rows] for side, rows in found.items()}
    for case, side in (("file to ready-to-train", "ready"), ("file to ready-to-predict", "without")):
        asked = side == "ready"
        yield Record(
            "data",
            f"{case}, time",
            timing.scaled(timing.median(times, side), 1e3),
            timing.scaled(timing.median(times, "load"), 1e3),
            "np.load",
            ratio=timing.ratio(times, side, "load"),
            required=2.0 if asked else None,
            notes=f"{count} processes each",
        )
        yield Record(
            "data",
            f"{case}, memory",
            timing.scaled(timing.median(grown, side), 2**-20),
            timing.scaled(timing.median(grown, "load"), 2**-20),
            "np.load",
            "MiB",
            ratio=timing.ratio(grown, side, "load"),
            required=4.0 if asked else None,
        )
    steps = 3 if context.quick else 300
    spent = context.call(
        "sections.data:share", settings="own", alone=True, path=path, threads=context.threads, steps=steps
    ).value
    yield Record(
        "data",
        "share of a fit not spent in steps",
        100 * spent["waiting"],
        unit="%",
        notes=f"of {spent['seconds']:.1f} s for {steps} steps; preparing the graph is in it, once",
    )
