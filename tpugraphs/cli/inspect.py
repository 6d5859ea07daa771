"""Check graphs completely and show what is in them.

example:
  tpugraphs inspect sample:alexnet ~/data/tpugraphs/npz/layout/xla/random/valid
"""

from tpugraphs.cli.common import Args, Parser, add_data, emit, error_fields, open_graphs, say, warn
from tpugraphs.errors import DataError
from tpugraphs.system.words import counted


def add_arguments(parser: Parser) -> None:
    """Declare the options."""
    add_data(parser)


def run(args: Args) -> int:
    """Describe every graph; return 1 if one is broken, after all others were described."""
    from tpugraphs.data.description import format_description

    graphs = open_graphs(args.data, args, "train")
    results, broken = [], 0
    for place, name in enumerate(graphs.names):
        try:
            results.append(graphs[place].describe())
        except (DataError, OSError) as error:
            if args.debug or len(graphs) == 1:
                raise
            broken += 1
            results.append({"name": name, "error": str(error), **error_fields(error)})
            warn(args, error, "error")
        else:
            say(args, ("\n" if place else "") + format_description(results[-1]))
    emit(args, results[0] if len(graphs) == 1 else results)
    if len(graphs) > 1:
        say(args, f"\n{counted(len(graphs), 'graph')}, {broken} broken")
    return 1 if broken else 0
