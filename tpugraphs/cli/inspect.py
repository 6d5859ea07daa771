"""``tpugraphs inspect``: what is in a file, checked completely."""

from __future__ import annotations

import argparse
import sys

from tpugraphs.cli import common

HELP = "check graphs completely and show what is in them"
EXAMPLE = "tpugraphs inspect sample:alexnet ~/data/tpugraphs/npz/layout/xla/random/valid"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("data", nargs="+", metavar="DATA", help=common.DATA_HELP)
    common.add_data_options(parser)


def run(args: argparse.Namespace) -> int:
    """Describe every graph; 1 if one is broken, after all have been looked at."""
    from tpugraphs.data.description import format_description
    from tpugraphs.errors import DataError

    graphs = common.open_graphs(args.data, args, "train")
    results = []
    broken = 0
    for place, name in enumerate(graphs.names):
        try:
            description = graphs[place].describe()
        except (DataError, OSError) as error:
            if args.debug:
                raise
            if len(graphs) == 1:
                raise
            broken += 1
            fields = {key: getattr(error, key, None) for key in ("file", "field", "found", "expected")}
            results.append({"name": name, "error": str(error), **fields})
            print(f"tpugraphs inspect: error: {error}", file=sys.stderr)
            continue
        results.append(description)
        common.say(args, ("\n" if place else "") + format_description(description))
    common.emit(args, results[0] if len(graphs) == 1 else results)
    if len(graphs) > 1:
        common.say(args, f"\n{len(graphs)} graphs, {broken} broken")
    return 1 if broken else 0
