"""How far predicted times of layers are off: on layers and on devices never seen, and after calibration.

``python -m benchmarks.layertime --data DIR`` reads the tables of the folders ``gpu_layers`` and ``measured``
in the data folder, prints a line per model and split, and writes a page per source with ``--out DIR``.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import tpugraphs as tg
from tpugraphs.layertime import LayerTable, LayerTimeModel
from tpugraphs.system.files import atomic_write

from . import machine

GPU_LAYERS = ("conv2d", "dense")
NEUSIGHT = ("linear", "bmm", "elementwise", "softmax", "layernorm")
UNSEEN = "A100-80GB"  # only in the part that NeuSight's authors judge on
FEW = (10, 30, 100)
DRAWS = 3  # of random layers to calibrate by
JUDGED = 8000  # layers that calibrated models are judged on
METHODS = ("roofline", "residual", "lightgbm", "mlpredict")
PACKAGED = {  # fields of the models that come with the package
    kind: {"members": 1, "width": 64 if kind in GPU_LAYERS else 48} for kind in (*GPU_LAYERS, *NEUSIGHT)
}
NARROW = "residual, narrow"

Line = tuple[str, ...]
HEAD = ("judged on", "method", "error", "median", "in 80 %", "fit s", "layers/s")
CALIBRATED = (
    "device",
    "before",
    *(f"{n} layers" for n in FEW),
    *(f"{n} in 80 %" for n in FEW),
    "30 suggested",
)


@dataclass
class Section:
    """The tables of a kind of layers."""

    kind: str
    splits: list[Line] = field(default_factory=list)
    calibrated: list[Line] = field(default_factory=list)

    def markdown(self) -> str:
        """Return a section of the page."""
        parts = [f"## {self.kind}", ""]
        for head, rows in ((HEAD, self.splits), (CALIBRATED, self.calibrated)):
            if rows:
                ruled = [head, ("---", *["---:"] * (len(head) - 1)), *rows]
                parts += [*(f"| {' | '.join(row)} |" for row in ruled), ""]
        return "\n".join(parts)


def percent(share: float, digits: int = 1) -> str:
    return f"{100 * share:.{digits}f} %"


def error(model: LayerTimeModel, table: LayerTable) -> float:
    return float(np.mean(np.abs(model.predict(table) / table.ms - 1)))


def inside(model: LayerTimeModel, table: LayerTable) -> float:
    low, high = model.predict_interval(table, 0.8).T
    return float(np.mean((low <= table.ms) & (table.ms <= high)))


def fitted(kind: str, method: str, known: LayerTable) -> tuple[LayerTimeModel, float]:
    """Return a trained model and the seconds that took."""
    began = time.process_time()
    model = LayerTimeModel(kind, **PACKAGED[kind]) if method == NARROW else LayerTimeModel(kind, method)
    return model.fit(known), time.process_time() - began


def judged(name: str, method: str, model: LayerTimeModel, unseen: LayerTable, seconds: float) -> Line:
    """Return one line of a table."""
    began = time.process_time()
    predicted = model.predict(unseen)
    rate = len(unseen) / (time.process_time() - began)
    off = np.abs(predicted / unseen.ms - 1)
    shares = percent(float(np.mean(off))), percent(float(np.median(off))), percent(inside(model, unseen), 0)
    return (name, method, *shares, f"{seconds:.0f}", f"{rate:,.0f}")


def calibrated(name: str, model: LayerTimeModel, own: LayerTable) -> Line:
    """Return one line: errors after calibration by a few random layers of the device, means of some draws."""
    rng = np.random.default_rng(0)
    some = own.take(np.sort(rng.permutation(len(own))[:JUDGED]))
    errors, shares = [], []
    for count in FEW:
        found = []
        for seed in range(DRAWS if count < len(own) else 0):
            rows = np.random.default_rng(seed).permutation(len(own))[:count]
            model.calibrate(own.take(rows))
            found.append((error(model, some), inside(model, some)))
        mean = np.mean(found, 0) if found else None
        errors.append("-" if mean is None else percent(mean[0]))
        shares.append("-" if mean is None else percent(mean[1], 0))
    before = error(forgotten(model), some)
    chosen = model.suggest(30, own)
    return (name, percent(before), *errors, *shares, percent(error(model.calibrate(own.take(chosen)), some)))


def forgotten(model: LayerTimeModel) -> LayerTimeModel:
    """Return the model without its calibrations."""
    model._calibrated.clear()
    return model


def left_out(section: Section, table: LayerTable, methods: tuple[str, ...]) -> None:
    """Add lines of every device as one never seen, and their means."""
    found: dict[str, list[Line]] = {method: [] for method in methods}
    few: list[Line] = []
    for name, rest, own in tg.layertime.unseen_devices(table):
        for method in methods:
            model, seconds = fitted(section.kind, method, rest)
            found[method].append(judged(f"{name}, never seen", method, model, own, seconds))
            show(section, found[method][-1])
            if method == "residual":
                few.append(calibrated(name, model, own))
                show(section, few[-1])
    for method, lines in found.items():
        section.splits += lines
        section.splits.append(("**mean of devices never seen**", method, *means(lines, (2, 3, 4)), "", ""))
    section.calibrated += [*few, ("**mean**", *means(few, range(1, len(CALIBRATED))))]


def means(lines: list[Line], places: Any) -> Line:
    """Return the means of shares in some places of lines."""
    columns = [[float(line[i].split()[0]) for line in lines if line[i] != "-"] for i in places]
    return tuple(f"{np.mean(column):.1f} %" if column else "-" for column in columns)


def show(section: Section, line: Line) -> None:
    print(section.kind, *line, sep="  ", flush=True)


def gpu_layers(data: Path) -> Iterator[Section]:
    for kind in GPU_LAYERS:
        table = tg.layertime.read_table(sorted((data / "gpu_layers").glob(f"{kind}_*.csv.gz")), kind)
        known, unseen = tg.layertime.unseen_layers(table)
        section = Section(kind)
        for method in (*METHODS, NARROW):
            model, seconds = fitted(kind, method, known)
            section.splits.append(judged("layers never seen", method, model, unseen, seconds))
            show(section, section.splits[-1])
        left_out(section, table, ("roofline", "residual"))
        yield section


def neusight_table(data: Path, kind: str) -> tuple[LayerTable, NDArray[np.str_]]:
    """Return NeuSight's layers of a kind, and the part that its authors put each into."""
    path = data / "measured" / f"neusight_{kind}.csv.gz"
    with gzip.open(path, "rt") as file:
        part = np.array([row["part"] for row in csv.DictReader(file)])
    return tg.layertime.read_table(path, kind), part


def neusight(data: Path) -> Iterator[Section]:
    for kind in NEUSIGHT:
        table, part = neusight_table(data, kind)
        train, test = table.take(part == "train"), table.take(part == "test")
        section = Section(kind)
        own = test.take(test.per_device_name() == UNSEEN)
        for method in (*METHODS, NARROW):
            model, seconds = fitted(kind, method, train)
            section.splits.append(judged(f"{UNSEEN}, never seen, larger layers", method, model, own, seconds))
            show(section, section.splits[-1])
            if method == "residual":
                for name, rows in test.by_device():
                    if name != UNSEEN:
                        line = judged(f"{name}, larger layers", method, model, test.take(rows), seconds)
                        section.splits.append(line)
                few = calibrated(f"{UNSEEN}, larger layers", model, own)
                show(section, few)
        left_out(section, train, ("roofline", "residual"))
        section.calibrated.append(few)
        yield section


@dataclass(frozen=True)
class Source:
    """Tables of one origin, and the page that is written of them."""

    sections: Callable[[Path], Iterator[Section]]
    page: str
    title: str
    about: str


SOURCES = {
    "gpu_layers": Source(
        gpu_layers,
        "layertime.md",
        "Times of layers in TensorFlow 1 on five GPUs",
        "Tables of ml-performance-prediction (Apache-2.0). Those of NeuSight: "
        "[layertime-neusight.md](layertime-neusight.md).",
    ),
    "neusight": Source(
        neusight,
        "layertime-neusight.md",
        "Times of operators in PyTorch 2.1 on five GPUs",
        "Tables of NeuSight (MIT), divided as by its authors: the layers that are judged are larger than "
        "all that were learnt from, and the A100 80GB is only among them.",
    ),
}


def page(name: str, data: Path, out: Path | None) -> None:
    """Measure the tables of a source; print them, and write their page."""
    source = SOURCES[name]
    described, threads = machine.describe(), tg.get_num_threads()
    lines = [
        f"# {source.title}",
        "",
        f"{source.about}",
        "",
        f"Made by `python -m benchmarks.layertime --sources {name} --data DIR --out docs/results` on",
        f"{described['cpu']}, threads: {threads}. Errors are means of |predicted / measured - 1|; the last",
        "columns of the upper tables are seconds to fit, and layers predicted per second, of processor time.",
        "*In 80 %*: the share of layers within their 80 % interval. The lower tables are of `residual` after",
        f"`calibrate` with so few layers of the device, drawn at random (means of {DRAWS} draws), and with",
        "30 that `suggest` chose. *residual, narrow* has the one small network of the models in the package.",
        "",
        *(section.markdown() for section in source.sections(data)),
    ]
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        with atomic_write(out / source.page) as file:
            file.write("\n".join(lines).encode())


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=os.environ.get("TPUGRAPHS_DATA"), help="the data folder")
    parser.add_argument("--sources", nargs="+", choices=SOURCES, default=list(SOURCES))
    parser.add_argument("--out", type=Path, help="write the pages here")
    args = parser.parse_args()
    if args.data is None or not (args.data / "gpu_layers").is_dir():
        print("no folder gpu_layers: name the data folder by --data or TPUGRAPHS_DATA", file=sys.stderr)
        return 2
    for name in args.sources:
        page(name, args.data, args.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
