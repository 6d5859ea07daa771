"""Adapt a model to a device by 10 to 100 layers that were measured there.

example:
  tpugraphs layertime calibrate dense.safetensors next.csv --out mine.safetensors
"""

import tpugraphs as tg
from tpugraphs.cli.common import Args, Parser, emit, option, remark, say
from tpugraphs.cli.layertime import shared
from tpugraphs.system.words import counted


def add_arguments(parser: Parser) -> None:
    """Declare the options."""
    option(parser, "model MODEL")
    meaning = "CSV file of measured layers, see `tpugraphs layertime suggest`; - reads standard input"
    option(parser, "table TABLE", meaning, nargs="+")
    shared.add_device(parser, "where they ran, if the table does not say it")
    option(parser, "--out MODEL2", "file for the adapted model, .safetensors", required=True)


def run(args: Args) -> None:
    """Calibrate and save."""
    import numpy as np

    shared.check_name(args.out, ".safetensors")
    model, where = shared.open_model(args)
    table = tg.layertime.read_table(shared.tables(args), model.kind, where, known=model.known_devices)
    before = np.abs(model.predict(table) / table.times - 1)
    model.calibrate(table)
    model.save(args.out)
    results = []
    for name, rows in table.by_device():
        left = np.abs(np.exp(-model.calibrations[name].left) - 1)  # leave-one-out errors
        was, now = float(before[rows].mean()), float(left.mean())
        say(
            args,
            f"{name}: {counted(rows.sum(), 'layer')}; mean error {100 * was:.1f} % before, "
            f"{100 * now:.1f} % after, each layer predicted from the others",
        )
        found = {"device": name, "layers": int(rows.sum())}
        results.append({**found, "mean_error_before": was, "mean_error_after": now})
    remark(args, f"wrote {args.out}")
    emit(args, {"out": args.out, "kind": model.kind, "devices": results})
