"""Look for shifts of the level, repeated and impossible layers in measured tables.

example:
  tpugraphs layertime audit times/dense.csv
"""

import tpugraphs as tg
from tpugraphs.cli.common import Args, Parser, emit, option
from tpugraphs.cli.layertime import shared


def add_arguments(parser: Parser) -> None:
    """Declare the options."""
    meaning = (
        "CSV file of layers of one kind in the order they were measured in, maybe compressed (.gz); - reads "
        "standard input"
    )
    option(parser, "table TABLE", meaning, nargs="+")
    option(parser, "--kind KIND")
    shared.add_device(parser, "where the layers ran, if the tables do not say it")


def run(args: Args) -> int:
    """Audit the tables; the exit code is 1 if a level shifts."""
    kind = shared.kind_of(args.table, args.kind)
    found = tg.layertime.audit(shared.tables(args), kind, shared.device(args.device))
    emit(args, found.to_dict(), str(found))
    return 1 if found.shifted else 0
