"""Measure layers of one or several kinds on this machine, into tables that models learn from.

example:
  tpugraphs layertime measure dense conv2d --framework torch --count 500 --out times
  tpugraphs layertime measure dense --layers layers.csv --out next.csv
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import tpugraphs as tg
from tpugraphs.cli import common
from tpugraphs.cli.common import Args, Parser, option, whole
from tpugraphs.cli.layertime import shared
from tpugraphs.errors import ConfigError
from tpugraphs.system import absolute, check_choice, counted


def add_arguments(parser: Parser) -> None:
    """Declare the options."""
    from tpugraphs.layertime.frameworks import FRAMEWORKS

    option(parser, "kind KIND", f"one or several of {', '.join(tg.layertime.KINDS)}", nargs="+")
    meaning = "framework to run the layers in; each is an extra of the package"
    option(parser, "--framework NAME", meaning, choices=list(FRAMEWORKS), default="torch")
    meaning = "layers of each kind (default: 200); the first are the same, whatever the count"
    option(parser, "--count N", meaning, type=whole(1, 1 << 20))
    meaning = "a .csv file, or a folder, with KIND.csv for each kind; the same command continues it"
    option(parser, "--out PATH", meaning, required=True)
    option(parser, "--seed", "of the layers that are drawn")
    shared.add_passes(parser)
    meaning = (
        "measure the layers of this table, as `tpugraphs layertime suggest` writes it; - reads standard input"
    )
    option(parser, "--layers FILE", meaning)
    option(parser, "--device-name NAME", "what the tables call this machine (default: its processor)")
    group = parser.add_mutually_exclusive_group()
    for name, value in (("gpu", True), ("cpu", False)):
        meaning = f"run on the {name.upper()} (default: the GPU, if the framework has one)"
        option(group, f"--{name}", meaning, dest="gpu", action="store_const", const=value)
    meaning = "blocks of calls of each layer, the median of which counts"
    option(parser, "--repeats N", meaning, type=whole(1, 1000), default=5)
    option(parser, "--executor WORKERS")


def run(args: Args) -> None:
    """Measure the layers that the files do not hold yet."""
    kinds = list(dict.fromkeys(args.kind))
    for kind in kinds:
        check_choice("kind", kind, tg.layertime.KINDS)
    if args.layers is not None and (len(kinds) > 1 or (args.count, args.training) != (None, None)):
        raise ConfigError("--layers: expected one kind, and neither --count, --training nor --forward")
    paths = _paths(args.out, kinds)
    results = []
    for kind in kinds:
        with common.executor(args) as executor:
            table = _measured(args, kind, paths[kind], executor)
        found: dict[str, Any] = {"kind": kind, "layers": len(table), "device": table.devices[0].name}
        found |= {"median_ms": float(sorted(table.times)[len(table) // 2]), "out": str(paths[kind])}
        where = f"on {found['device']}, median {found['median_ms']:.3g} ms, in {found['out']}"
        common.remark(args, f"{kind}: {counted(len(table), 'layer')} {where}")
        results.append(found)
    first = paths[kinds[0]]
    todo = f"fit {first}" if args.layers is None else f"calibrate MODEL {first}"
    common.remark(args, f"next: tpugraphs layertime {todo} --out {kinds[0]}.safetensors")
    common.emit(args, results)


def _paths(out: str, kinds: list[str]) -> dict[str, Path]:
    """Return the file of every kind; the folder is made."""
    path = Path(absolute(out))
    if path.suffix == ".csv":
        if len(kinds) > 1:
            raise ConfigError(f"--out {out}: one file cannot hold {len(kinds)} kinds; give a folder")
        common.check_writable(str(path))
        return {kinds[0]: path}
    path.mkdir(exist_ok=True)
    return {kind: path / f"{kind}.csv" for kind in kinds}


def _measured(args: Args, kind: str, path: Path, executor: Any) -> tg.layertime.LayerTable:
    """Measure one kind. Warnings of skipped layers go to stderr.

    Raises
    ------
    KeyboardInterrupt
        After Ctrl-C, with one line that says how to continue.
    """
    how = common.chosen(args, "seed", "training", "threads", "gpu", "repeats")
    how |= {} if args.count is None else {"count": args.count}
    how |= {"layers": common.stdin(args, args.layers), "name": args.device_name, "executor": executor}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default", UserWarning)
        table = tg.layertime.measure(kind, args.framework, path, **how)
    stopped = None
    for text in dict.fromkeys(str(one.message) for one in caught if one.category is UserWarning):
        if text.startswith("interrupted "):
            stopped = text.removeprefix("interrupted ")
        else:
            common.warn(args, f"{kind}: {text}")
    if stopped is not None:
        raise KeyboardInterrupt(stopped)
    return table
