"""How far predicted times of layers are off: on layers and on devices never seen.

``python -m benchmarks.layertime --data DIR`` reads the tables of the folder ``gpu_layers`` in the data folder
and prints a line per model and split; with ``--out DIR`` it writes ``layertime.md`` there.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import tpugraphs as tg
from tpugraphs.layertime import LayerTable, LayerTimeModel
from tpugraphs.system.files import atomic_write

from . import machine

KINDS = ("conv2d", "dense")
Line = tuple[str, ...]
HEAD = ("judged on", "method", "mean error", "median", "in the 80 % interval", "fit s", "layers/s")


def judged(name: str, method: str, model: LayerTimeModel, unseen: LayerTable, seconds: float) -> Line:
    """One line of a table."""
    began = time.perf_counter()
    predicted = model.predict(unseen)
    rate = len(unseen) / (time.perf_counter() - began)
    error = np.abs(predicted / unseen.ms - 1)
    low, high = model.predict_interval(unseen, 0.8).T
    inside = np.mean((low <= unseen.ms) & (unseen.ms <= high))
    shares = (float(np.mean(error)), float(np.median(error)))
    return (
        name,
        method,
        *(f"{100 * e:.1f} %" for e in shares),
        f"{100 * inside:.0f} %",
        f"{seconds:.0f}",
        f"{rate:,.0f}",
    )


def lines(kind: str, table: LayerTable, steps: int) -> Iterator[Line]:
    """All lines of a kind."""
    methods: tuple[tuple[str, dict[str, Any]], ...] = (("roofline", {}), ("residual", {"steps": steps}))
    known, unseen = tg.layertime.unseen_layers(table)
    for method, fields in methods:
        began = time.perf_counter()
        model = LayerTimeModel(kind, method, **fields).fit(known)
        seconds = time.perf_counter() - began
        yield judged("layers never seen", method, model, unseen, seconds)
    for name, rest, own in tg.layertime.unseen_devices(table):
        for method, fields in methods:
            began = time.perf_counter()
            model = LayerTimeModel(kind, method, **fields).fit(rest)
            yield judged(f"{name}, never seen", method, model, own, time.perf_counter() - began)


def markdown(kind: str, found: list[Line]) -> str:
    """A section of the page."""
    rows = [HEAD, ("---", "---", *["---:"] * 5), *found]
    return "\n".join([f"## {kind}", "", *(f"| {' | '.join(row)} |" for row in rows), ""])


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=os.environ.get("TPUGRAPHS_DATA"), help="the data folder")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS)
    parser.add_argument("--steps", type=int, default=6000, help="of every network")
    parser.add_argument("--out", type=Path, help="write layertime.md here")
    args = parser.parse_args()
    if args.data is None or not (args.data / "gpu_layers").is_dir():
        print("no folder gpu_layers: name the data folder by --data or TPUGRAPHS_DATA", file=sys.stderr)
        return 2
    described = machine.describe()
    command = " ".join(
        ["python -m benchmarks.layertime", *(arg for arg in sys.argv[1:] if arg != str(args.data))]
    )
    page = [
        "# Times of layers",
        "",
        f"Made by `{command}` on {described['cpu']}, {tg.get_num_threads()} threads. Errors are",
        "|predicted / measured - 1|. The tables are those of the ml-performance-prediction project",
        "(Apache-2.0): layers in TensorFlow 1 on five GPUs.",
        "",
    ]
    for kind in args.kinds:
        table = tg.layertime.read_table(sorted((args.data / "gpu_layers").glob(f"{kind}_*.csv.gz")), kind)
        found = []
        for line in lines(kind, table, args.steps):
            print(kind, *line, sep="  ", flush=True)
            found.append(line)
        page.append(markdown(kind, found))
    if args.out:
        with atomic_write(args.out / "layertime.md") as file:
            file.write("\n".join(page).encode())
    return 0


if __name__ == "__main__":
    sys.exit(main())
