"""Choose layers to measure on a device, so that `calibrate` learns most from them.

example:
  tpugraphs layertime suggest dense.safetensors --device this --count 30 --out layers.csv
"""

import tpugraphs as tg
from tpugraphs.cli.common import Args, Parser, emit, option, remark, stdin, whole
from tpugraphs.cli.layertime import shared
from tpugraphs.errors import ConfigError
from tpugraphs.system.words import counted

_DRAWN = 4000  # candidates


def add_arguments(parser: Parser) -> None:
    """Declare the options."""
    option(parser, "model MODEL")
    shared.add_device(parser, "the device to measure them on", required=True)
    option(parser, "--count N", "layers", type=whole(1, 2000), default=30)
    meaning = (
        "CSV file of layers to choose from (default: layers as `measure` draws them); - reads standard input"
    )
    option(parser, "--from TABLE", meaning, dest="source")
    shared.add_passes(parser)
    option(parser, "--out FILE", "CSV file for the layers; - prints them", required=True)
    option(parser, "--seed", "of the layers that are drawn")


def run(args: Args) -> None:
    """Choose and write."""
    shared.check_name(args.out, ".csv")
    if args.source is not None and args.training is not None:
        raise ConfigError("--training and --forward are for layers that are drawn, without --from")
    model, where = shared.open_model(args)
    source = stdin(args, args.source)
    if source is None:
        from tpugraphs.layertime.measuring import draw

        source = draw(model.kind, _DRAWN, args.seed, args.training)
    table = tg.layertime.read_table(source, model.kind, where, timed=False, known=model.known_devices)
    chosen = table.take(model.suggest(args.count, table))
    columns = {name: values.tolist() for name, values in chosen.columns.items()}
    if not (args.json and args.out == "-"):
        shared.write_csv(args.out, columns)
    if args.out != "-":
        remark(args, f"wrote {args.count} of {counted(len(table), 'layer')} to {args.out}")
        todo = f"measure {model.kind} --layers {args.out} --out {model.kind}_next.csv"
        remark(args, f"next: tpugraphs layertime {todo}")
    emit(args, {"kind": model.kind, "device": chosen.devices[0].name, "layers": columns})
