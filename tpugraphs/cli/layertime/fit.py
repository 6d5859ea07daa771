"""Learn times of layers from measured tables, and judge the model on layers that it did not see.

example:
  tpugraphs layertime fit times/dense.csv --out dense.safetensors
  tpugraphs layertime fit conv2d_K40.csv.gz conv2d_P100.csv.gz --out conv2d.safetensors
"""

from __future__ import annotations

import shlex
from typing import Any

import tpugraphs as tg
from tpugraphs.cli.common import Args, Parser, emit, option, parse_fields, remark, say
from tpugraphs.cli.layertime import shared
from tpugraphs.system import counted, few, tables

_HEADS = ("device", "layers", "mean error %", "median %", "within the 80 % interval")


def add_arguments(parser: Parser) -> None:
    """Declare the options."""
    meaning = (
        "CSV file of layers of one kind, maybe compressed (.gz); the device is in its columns, or at the "
        "end of its name as in dense_K40.csv; - reads standard input, with --kind"
    )
    option(parser, "table TABLE", meaning, nargs="+")
    option(parser, "--kind KIND")
    meaning = "networks of a roofline's residual, the roofline alone, or trees"
    option(parser, "--method NAME", meaning, choices=list(tg.layertime.METHODS), default="residual")
    option(parser, "--out MODEL", "file for the model, .safetensors", required=True)
    shared.add_device(parser, "where the layers ran, if the tables do not say it")
    meaning = "share of the layers that are held out to judge the model"
    option(parser, "--held-out SHARE", meaning, type=float, default=0.1)
    option(parser, "--set FIELD=VALUE ...", "of the method, such as steps=2000")
    option(parser, "--seed")


def run(args: Args) -> None:
    """Fit, judge and save."""
    shared.check_name(args.out, ".safetensors")
    kind = shared.kind_of(args.table, args.kind)
    model = tg.layertime.LayerTimeModel(kind, args.method, args.seed, **parse_fields(args.set))
    table = tg.layertime.read_table(shared.tables(args), kind, shared.device(args.device))
    unseen = None
    if args.held_out != 0:
        table, unseen = tg.layertime.unseen_layers(table, args.held_out, args.seed)
    names = [name for name, _ in table.by_device()]
    learning = f"learning from {counted(len(table), 'layer')} on {few(names, 4)}"
    remark(args, f"{kind}, {args.method}: {learning}")
    model.fit(table)
    model.save(args.out)
    judged = [] if unseen is None else _judged(model, unseen)
    if judged:
        cells = [
            [device, f"{layers:,}", *(f"{100 * share:.1f}" for share in shares)]
            for device, layers, *shares in (line.values() for line in judged)
        ]
        say(args, tables.text("on held-out layers:", _HEADS, cells))
    todo = f"predict {args.out} TABLE --device {shlex.quote(names[0])}"
    remark(args, f"wrote {args.out}; next: tpugraphs layertime {todo}")
    result = {"out": args.out, "kind": kind, "layers": len(table), "devices": names, "held_out": judged}
    emit(args, result)


def _judged(model: tg.layertime.LayerTimeModel, table: tg.layertime.LayerTable) -> list[dict[str, Any]]:
    """Return relative errors |predicted / measured - 1| of every device, and how many intervals hold."""
    import numpy as np

    errors = np.abs(model.predict(table) / table.times - 1)
    low, high = model.predict_interval(table, 0.8).T
    within = (low <= table.times) & (table.times <= high)
    return [
        {
            "device": name,
            "layers": int(rows.sum()),
            "mean_error": float(errors[rows].mean()),
            "median_error": float(np.median(errors[rows])),
            "within": float(within[rows].mean()),
        }
        for name, rows in table.by_device()
    ]
