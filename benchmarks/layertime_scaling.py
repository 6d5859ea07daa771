"""How far predicted speeds of several GPUs are off, from the speed of one: measured by the Gavel project.

``python -m benchmarks.layertime_scaling --data DIR`` reads ``measured/gavel_throughput.csv`` in the data
folder; with ``--out DIR`` it writes ``layertime-scaling.md`` there. A link is fitted to the rows of other
jobs, networks or devices, never to those that are predicted.
"""

from __future__ import annotations

import argparse
import csv
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

import tpugraphs as tg
from tpugraphs.errors import DataError
from tpugraphs.system.files import atomic_write

from . import machine

FILE = "measured/gavel_throughput.csv"
SPREAD = "_unconsolidated"
# Weights with gradients, of the published networks. ResNet-18 is its form for CIFAR-10; LM is an LSTM of two
# layers of 200 over the 33,278 words of WikiText-2; the Transformer has six layers each way of 512 (2,048
# inside), and some 6,000 words of Multi30k, whose number is not published: 3 of its 47 million weights.
WEIGHTS = {"ResNet-18": 11_173_962, "ResNet-50": 25_557_032, "LM": 13_987_678, "Transformer": 47_200_000}
Floats = NDArray[np.float64]


class Row(NamedTuple):
    """A job on several GPUs, and on one of the same."""

    device: str
    placement: str
    job: str
    network: str
    gpus: int
    alone: float
    together: float

    @property
    def efficiency(self) -> float:
        return self.together / (self.gpus * self.alone)


Predict = Callable[[Sequence[Row], Sequence[Row]], Floats]  # rows learnt, rows asked: steps per second
HEAD = ("predicted from", "method", "mean error", "median", "worst tenth above", "rows")


def read(path: Path) -> tuple[list[Row], int]:
    """Rows of several GPUs that ran, and how many did not."""
    with open(path, newline="", encoding="utf-8") as file:
        found = {
            (one["device"], one["job"], int(one["workers"])): float(one["steps_per_second"])
            for one in csv.DictReader(file)
        }
    rows, failed = [], 0
    for (device, job, gpus), together in found.items():
        if gpus == 1:
            continue
        alone = found.get((device, job, 1), 0.0)
        if together > 0 and alone > 0:
            name, placement = device.removesuffix(SPREAD), "spread" if SPREAD in device else "together"
            rows.append(Row(name.upper(), placement, job, job.partition(" (")[0], gpus, alone, together))
        else:
            failed += 1
    if not rows:
        raise DataError(f"{path}: no job on several GPUs")
    return rows, failed


# ---- methods


def perfect(learnt: Sequence[Row], asked: Sequence[Row]) -> Floats:
    """As many times the speed as there are GPUs."""
    return np.array([row.gpus * row.alone for row in asked])


def mean_efficiency(learnt: Sequence[Row], asked: Sequence[Row]) -> Floats:
    """The mean efficiency of the rows learnt on as many GPUs."""
    of = {n: np.mean([r.efficiency for r in learnt if r.gpus == n]) for n in {r.gpus for r in asked}}
    return np.array([row.gpus * row.alone * of[row.gpus] for row in asked])


def link(rows: Sequence[Row], overlap: float | None) -> tg.layertime.Scaling:
    """The link that fits the rows."""
    return tg.layertime.fit_scaling(
        [row.gpus for row in rows],
        [row.alone for row in rows],
        [row.together for row in rows],
        [4 * WEIGHTS[row.network] for row in rows],
        overlap,
    )


def ring(overlap: float | None) -> Predict:
    """Computing and a ring all-reduce."""

    def predict(learnt: Sequence[Row], asked: Sequence[Row]) -> Floats:
        sizes = [4 * WEIGHTS[row.network] for row in asked]
        fitted = link(learnt, overlap)
        return fitted.together_per_s([row.gpus for row in asked], [row.alone for row in asked], sizes)

    return predict


METHODS: dict[str, Predict] = {
    "perfect scaling": perfect,
    "mean efficiency": mean_efficiency,
    "ring": ring(0.0),
    "ring, overlap fitted": ring(None),
}


# ---- protocols: rows to learn from, rows to predict


def by(rows: Sequence[Row], field: str) -> Iterator[tuple[list[Row], list[Row]]]:
    """Leave out each value of a field in turn, on the same device and placement."""
    for setting in dict.fromkeys((row.device, row.placement) for row in rows):
        here = [row for row in rows if (row.device, row.placement) == setting]
        for value in dict.fromkeys(getattr(row, field) for row in here):
            yield (
                [row for row in here if getattr(row, field) != value],
                [row for row in here if getattr(row, field) == value],
            )


def by_device(rows: Sequence[Row]) -> Iterator[tuple[list[Row], list[Row]]]:
    """Leave out each device in turn, in the same placement."""
    for device, placement in dict.fromkeys((row.device, row.placement) for row in rows):
        here = [row for row in rows if row.placement == placement]
        yield [row for row in here if row.device != device], [row for row in here if row.device == device]


PROTOCOLS = {
    "other jobs": lambda rows: by(rows, "job"),
    "other networks": lambda rows: by(rows, "network"),
    "other devices": by_device,
}


def impossible(rows: Sequence[Row]) -> dict[str, set[Row]]:
    """Rows that no sum of computing and communication gives: each part only grows with the number of GPUs."""
    of = {(row.device, row.placement, row.job, row.gpus): row for row in rows}
    faster, earlier = set(), set()
    for row in rows:
        if row.efficiency > 1.05:
            faster.add(row)
        fewer = of.get((row.device, row.placement, row.job, row.gpus // 2))
        if fewer is not None and row.efficiency > 1.05 * fewer.efficiency:
            earlier.add(row)
    return {
        "more than n times the speed of one GPU": faster,
        "a shorter step than on half as many GPUs": earlier,
    }


# ---- page


def errors(rows: Sequence[Row], predicted: dict[Row, float]) -> Floats:
    return np.array([abs(predicted[row] / row.together - 1) for row in rows if row in predicted])


def percent(values: Floats) -> tuple[str, ...]:
    figures = (np.mean(values), np.median(values), np.quantile(values, 0.9)) if values.size else ()
    return tuple(f"{100 * value:.1f} %" for value in figures)


def table(head: Sequence[str], rows: Sequence[Sequence[str]], words: int) -> list[str]:
    rule = ["---"] * words + ["---:"] * (len(head) - words)
    return [f"| {' | '.join(row)} |" for row in (head, rule, *rows)]


def page(rows: list[Row], failed: int) -> list[str]:
    """All tables, printed as they come."""
    strange = impossible(rows)
    odd = set().union(*strange.values())
    predicted: dict[tuple[str, str], dict[Row, float]] = {}
    lines, shown = [], []
    for protocol, parts in PROTOCOLS.items():
        for method, predict in METHODS.items():
            found: dict[Row, float] = {}
            for learnt, asked in parts(rows):
                found |= dict(zip(asked, predict(learnt, asked).tolist(), strict=True))
            predicted[protocol, method] = found
            shown.append((protocol, method, *percent(errors(rows, found)), str(len(found))))
            print(*shown[-1], sep="  ", flush=True)
    lines += ["", "## All rows", "", *table(HEAD, shown, 2)]
    settings = list(dict.fromkeys((row.device, row.placement) for row in rows))
    lines += ["", "## Median error by device and placement, predicted from other jobs", ""]
    head = ("method", *(f"{device} {placement}" for device, placement in settings))
    cells = []
    for method in METHODS:
        found = predicted["other jobs", method]
        parts_of = [[r for r in rows if (r.device, r.placement) == one] for one in settings]
        cells.append((method, *(percent(errors(part, found))[1] for part in parts_of)))
    lines += table(head, cells, 1)
    lines += ["", "## Median error by network, predicted from other jobs", ""]
    cells = []
    for method in METHODS:
        found = predicted["other jobs", method]
        parts_of = [[r for r in rows if r.network == name] for name in WEIGHTS]
        cells.append((method, *(percent(errors(part, found))[1] for part in parts_of)))
    lines += table(("method", *WEIGHTS), cells, 1)
    lines += ["", "## Links fitted to all rows of a device and placement", ""]
    cells = []
    for device, placement in settings:
        one = link([row for row in rows if (row.device, row.placement) == (device, placement)], None)
        bandwidth = f"{one.link_gbps:.2f}" if one.link_gbps < 1000 else "above 1000"
        cells.append((f"{device} {placement}", bandwidth, f"{one.latency_ms:.2f}", f"{one.overlap:.2f}"))
    lines += table(("", "GB/s", "ms per turn", "overlap"), cells, 1)
    lines += ["", f"## Rows that no such model explains: {len(odd)} of {len(rows)}", ""]
    for reason, some in strange.items():
        names: dict[str, int] = {}
        for row in sorted(some):
            name = f"{row.device} {row.placement} {row.network}, {row.gpus} GPUs"
            names[name] = names.get(name, 0) + 1
        listed = "; ".join(f"{name} ({count})" for name, count in names.items())
        lines += [f"- {reason}, by more than 5 %: {len(some)}. {listed}."]
    rest = [row for row in rows if row not in odd]
    cells = []
    for method in METHODS:
        found = predicted["other jobs", method]
        cells.append((method, *percent(errors(sorted(odd), found))[:2], *percent(errors(rest, found))[:2]))
    lines += ["", "Predicted from other jobs, which still hold such rows:", ""]
    lines += table(("method", "mean error on them", "median", "mean error on the rest", "median"), cells, 1)
    lines += ["", f"{failed} rows are left out: jobs that failed, with 0 steps per second."]
    return lines


ABOUT = """
The table is that of the Gavel project (stanford-futuredata/gavel, MIT; Narayanan and others, OSDI 2020):
steps per second of 19 jobs of four networks on 2, 4 and 8 GPUs, on one server (together) or over several
(spread). Recommendation, CycleGAN and A3C were measured on one GPU alone. What a row means follows from the
project's programs: each worker runs with the batch size that the job names, and the profiler adds up the
steps of the workers. So this is weak scaling: with n GPUs a step has n times the samples, and without
communication the sum is n times the speed of one. Errors are |predicted / measured - 1| of that sum.

`ring` takes the step of one GPU and a ring all-reduce of the gradients (`tg.layertime.fit_scaling`);
`overlap` is the share of the step that hides communication. `mean efficiency` is that of the rows learnt on
as many GPUs. The method `last-layer` needs times of layers, which this table does not have.

**What it says.** One link per kind of GPU and placement, fitted to other jobs, leaves a median error of 5 to
13 % in all settings but V100 together, where it is 33 % and that of the mean efficiency 22 %. The language
model of batch 5 makes 186, 127 and 699 steps per second there on 2, 4 and 8 GPUs: no single link does that,
and these are probably several kinds of servers, which the table does not tell apart. Links between servers
have about 1 GB/s, as Ethernet of 10 Gbit/s. If the overlap is fitted, too, predictions for other networks are
worse, and those for other devices are hardly better.
"""


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=os.environ.get("TPUGRAPHS_DATA"), help="the data folder")
    parser.add_argument("--out", type=Path, help="write layertime-scaling.md here")
    args = parser.parse_args()
    if args.data is None or not (Path(args.data) / FILE).is_file():
        print(f"no file {FILE}: name the data folder by --data or TPUGRAPHS_DATA", file=sys.stderr)
        return 2
    began = time.perf_counter()
    rows, failed = read(Path(args.data) / FILE)
    lines = page(rows, failed)
    described = machine.describe()
    first = [
        "# Speed of several GPUs from that of one",
        "",
        "Made by `python -m benchmarks.layertime_scaling --data DIR --out docs/results` in "
        f"{time.perf_counter() - began:.0f} s on {described['cpu']}; figures are not edited.",
    ]
    text = "\n".join([*first, ABOUT.rstrip(), *lines, ""])
    if args.out:
        args.out.mkdir(parents=True, exist_ok=True)
        with atomic_write(args.out / "layertime-scaling.md") as file:
            file.write(text.encode())
    else:
        print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
