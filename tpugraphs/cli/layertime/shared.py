"""Helpers of the layertime commands: kinds, devices, intervals and CSV tables."""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import tpugraphs as tg
from tpugraphs.cli.common import Args, Parser, check_writable, option, stdin, text_file
from tpugraphs.errors import ConfigError
from tpugraphs.system import check_choice


def add_device(parser: Parser, meaning: str, **how: Any) -> None:
    """Add --device, see `device`."""
    from tpugraphs.layertime.devices import FIGURES

    meaning += (
        ": a known device such as V100, a training device of the model, `this` for the processor of this "
        "machine (with --threads), or figures of your own: name:" + ",".join(f"{name}=X" for name in FIGURES)
    )
    option(parser, "--device DEVICE", meaning, **how)


def add_level(parser: Parser) -> None:
    """Add --level, of intervals: None without them."""

    def probability(text: str) -> float | None:
        return None if text == "none" else float(text)

    meaning = (
        "probability that an interval holds the time; none: no intervals, which a "
        "model of one device lacks for others"
    )
    option(parser, "--level P", meaning, type=probability, default=0.8)


def add_passes(parser: Parser) -> None:
    """Add --training and --forward: args.training is True, False or None."""
    group = parser.add_mutually_exclusive_group()
    for name, value, which in (("training", True, "in training"), ("forward", False, "in forward passes")):
        meaning = f"layers {which} alone (default: half of each)"
        option(group, f"--{name}", meaning, dest="training", action="store_const", const=value)


def device(text: str | None) -> str | tg.layertime.Device | None:
    """Read --device: a name, or a device that is described by its figures.

    Raises
    ------
    ConfigError
        Wrong figures.
    """
    from tpugraphs.layertime.devices import FIGURES

    if text is None:
        return None
    name, _, figures = text.partition(":")
    if "=" not in figures:
        return text
    found: dict[str, Any] = {}
    for part in figures.split(","):
        figure, equals, value = map(str.strip, part.partition("="))
        if figure not in FIGURES or not equals:
            expected = ", ".join(f"{figure}=X" for figure in FIGURES)
            raise ConfigError(f"--device {text}: expected {expected}; found {part!r}")
        try:
            found[figure] = float(value)
        except ValueError:
            raise ConfigError(f"--device {text}: {figure}: expected a number, found {value!r}") from None
    if missing := [figure for figure in FIGURES if figure not in found]:
        raise ConfigError(f"--device {text}: no {', '.join(missing)}; expected {', '.join(FIGURES)}")
    if not found["units"].is_integer():
        raise ConfigError(f"--device {text}: units: expected a whole number, found {found['units']:g}")
    return tg.layertime.Device(name, **{**found, "units": int(found["units"])})


def kind_of(paths: Sequence[str], given: str | None) -> str:
    """Return the kind of the layers in files: as given, or the first that each name has as a word.

    Raises
    ------
    ConfigError
        No such kind, none or several in the names.
    """
    if given is not None:
        return given
    words = [re.split(r"[^0-9a-z]+", Path(path).name.lower()) for path in paths]
    kinds = tg.layertime.KINDS
    found = [next((word for word in line if word in kinds), None) for line in words]
    if None in found:
        path, todo = paths[found.index(None)], f"say it by --kind, one of {', '.join(kinds)}"
        raise ConfigError(f"{path}: no kind of layers in the name; {todo}")
    if len(set(found)) > 1:
        raise ConfigError(f"files of several kinds: {', '.join(map(str, found))}; fit a model of each")
    return str(found[0])


def models_of(name: str) -> list[tg.layertime.LayerTimeModel]:
    """Load a model from a file, or shipped ones: a set (``pytorch-cpu``) or one (``pytorch-cpu/dense``).

    Raises
    ------
    ConfigError
        The set has no model of that kind.
    CheckpointError
        Not a file of a model.
    """
    of, _, kind = name.partition("/")
    if of not in tg.layertime.MODELS or Path(name).exists():
        return [tg.layertime.LayerTimeModel.load(name)]
    models = tg.layertime.load_models(of)
    return [models[check_choice(f"{of}: kind", kind, models)]] if kind else list(models.values())


def open_model(args: Args) -> tuple[tg.layertime.LayerTimeModel, str | tg.layertime.Device | None]:
    """Read MODEL and --device.

    Raises
    ------
    ConfigError
        A set of several models.
    """
    models = models_of(args.model)
    if len(models) > 1:
        such = f"{args.model}/{models[0].kind}"
        raise ConfigError(f"{args.model}: {len(models)} models; name one, such as {such}")
    return models[0], device(args.device)


def check_name(path: str, suffix: str) -> None:
    """Refuse an output file of another type, or whose directory does not exist, before the work.

    A table, .csv, may go to standard output, ``-``.
    """
    if (path, suffix) == ("-", ".csv"):
        return
    if not path.endswith(suffix):
        raise ConfigError(f"--out {path}: expected a name that ends in {suffix}")
    check_writable(path)


def write_csv(path: str, columns: dict[str, Any]) -> None:
    """Write columns of one length to a file, or to standard output as ``-``."""
    with text_file(path) as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))


def tables(args: Args) -> list[Any]:
    """Return the sources of TABLE: paths, and standard input for ``-``."""
    return [stdin(args, path) for path in args.table]
