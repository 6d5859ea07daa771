r"""Predict the times of layers in milliseconds, with intervals, as CSV.

example:
  tpugraphs layertime predict dense.safetensors --layer batch=32 dim_input=1024 dim_output=4096 \
      --device V100
  tpugraphs layertime predict dense.safetensors layers.csv --device this --out times.csv
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import tpugraphs as tg
from tpugraphs.cli.common import Args, Parser, emit, option, remark, stdin
from tpugraphs.cli.layertime import shared
from tpugraphs.errors import ConfigError
from tpugraphs.system.words import counted

if TYPE_CHECKING:
    from tpugraphs.layertime import LayerTable, LayerTimeModel
    from tpugraphs.layertime.table import Where


def add_arguments(parser: Parser) -> None:
    """Declare the options."""
    option(parser, "model MODEL")
    meaning = "CSV file of layers; times in it are not read; - reads standard input"
    option(parser, "table TABLE", meaning, nargs="?")
    option(parser, "--layer COLUMN=VALUE ...", "a layer by its columns, in place of TABLE", nargs="+")
    shared.add_device(parser, "where the layers run, if the table does not say it")
    shared.add_level(parser)
    meaning = (
        "CSV file with ms, low_ms, high_ms and out_of_range, 1 where a size is outside the training range; "
        "- prints it (the default)"
    )
    option(parser, "--out FILE", meaning, default="-")


def run(args: Args) -> None:
    """Predict, and print or write."""
    shared.check_name(args.out, ".csv")
    if (args.table is None) == (not args.layer):
        raise ConfigError("expected TABLE or --layer, one of them")
    model, where = shared.open_model(args)
    source = stdin(args, args.table) if args.layer == [] else _given(args.layer, model, where)
    table = tg.layertime.read_table(source, model.kind, where, timed=False, known=model.known_devices)
    columns = _predicted(model, table, args.level)
    if args.json:
        emit(args, [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)])
    if args.out != "-" or not args.json:
        shared.write_csv(args.out, columns)
    if args.out != "-":
        remark(args, f"wrote {counted(len(table), 'layer')} to {args.out}")


def _predicted(model: LayerTimeModel, table: LayerTable, level: float | None) -> dict[str, list[Any]]:
    """Return layers and predictions by column; None where there is no interval."""
    empty = [None] * len(table)
    low, high = (empty, empty) if level is None else map(_rounded, model.predict_interval(table, level).T)
    return {
        **{name: values.tolist() for name, values in table.columns.items()},
        "device": table.per_device_name().tolist(),
        "ms": _rounded(model.predict(table)),
        "low_ms": low,
        "high_ms": high,
        "out_of_range": model.out_of_range(table).astype(int).tolist(),
    }


def _rounded(values: Any) -> list[Any]:
    """Return numbers with six digits."""
    return [float(f"{value:.6g}") for value in values]


def _given(layers: Sequence[Sequence[str]], model: LayerTimeModel, where: Where) -> Any:
    """Return the layers of --layer, a table of each."""
    if where is None:
        raise ConfigError("--layer: say where it runs by --device")
    columns = tg.layertime.KINDS[model.kind].columns
    known = [name for column in columns for name in (column.name, *column.aliases)]
    found = []
    for layer in layers:
        values = {}
        for part in layer:
            name, equals, value = part.partition("=")
            if not equals or name not in known:
                raise ConfigError(f"--layer {part}: expected COLUMN=VALUE, of {', '.join(known)}")
            values[name] = [value]
        found.append(tg.layertime.read_table(values, model.kind, where, False, model.known_devices))
    return found
