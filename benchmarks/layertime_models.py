"""Fit the models of layer times that come with the package.

``python -m benchmarks.layertime_models --data DIR`` reads our own table from the package and the tables
of the folders ``gpu_layers`` and ``measured`` in the data folder, and writes the models into the package.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import tpugraphs as tg
from tpugraphs.layertime import KINDS, LayerTable, LayerTimeModel

from .layertime import GPU_LAYERS, NEUSIGHT, PACKAGED, neusight_table

# Narrower than by default: the wheel has a limit of 5 MB.
FOLDER = Path(tg.__file__).parent / "measured" / "layers"
SMALL = {"members": 1, "steps": 2000, "width": 24}  # of tables with few layers


def own() -> Iterator[tuple[str, LayerTable, dict[str, Any]]]:
    for kind in KINDS:
        yield kind, tg.layertime.measured_layers(kind), SMALL


def neusight(data: Path) -> Iterator[tuple[str, LayerTable, dict[str, Any]]]:
    for kind in NEUSIGHT:
        table, part = neusight_table(data, kind)
        throttled = (table.per_device_name() == "P4") & (part == "train") & (kind == "linear")
        yield kind, table.take(~throttled), PACKAGED[kind]


def gpu_layers(data: Path) -> Iterator[tuple[str, LayerTable, dict[str, Any]]]:
    for kind in GPU_LAYERS:
        paths = sorted((data / "gpu_layers").glob(f"{kind}_*.csv.gz"))
        yield kind, tg.layertime.read_table(paths, kind), PACKAGED[kind]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=os.environ.get("TPUGRAPHS_DATA"), help="the data folder")
    parser.add_argument("--sets", nargs="+", choices=tg.layertime.MODELS, default=list(tg.layertime.MODELS))
    args = parser.parse_args()
    if args.sets != ["pytorch-cpu"] and (args.data is None or not (args.data / "gpu_layers").is_dir()):
        print("no folder gpu_layers: name the data folder by --data or TPUGRAPHS_DATA", file=sys.stderr)
        return 2
    sources = {
        "pytorch-cpu": own,
        "pytorch-gpu": lambda: neusight(args.data),
        "tensorflow-gpu": lambda: gpu_layers(args.data),
    }
    for name in args.sets:
        for kind, table, fields in sources[name]():
            began = time.perf_counter()
            model = LayerTimeModel(kind, **fields).fit(table)
            path = FOLDER / name / f"{kind}.safetensors"
            path.parent.mkdir(exist_ok=True)
            model.save(path)
            seconds, size = time.perf_counter() - began, path.stat().st_size
            print(f"{name} {kind}: {len(table):,} layers, {seconds:.0f} s, {size:,} bytes", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
