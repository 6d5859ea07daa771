"""Train several recipes with several seeds, and show what each reaches.

example:
  tpugraphs compare layout:xla:cpu --trials trials --out layout-cpu
  tpugraphs compare sample:alexnet --recipes first-layout second-xla --subset 1000 --trials trials
"""

from __future__ import annotations

from typing import Any

import tpugraphs as tg
from tpugraphs.cli import common
from tpugraphs.cli.common import Args, Parser, option, whole
from tpugraphs.errors import ConfigError
from tpugraphs.names import SPLITS
from tpugraphs.system.machine import processor
from tpugraphs.system.words import counted


def add_arguments(parser: Parser) -> None:
    """Declare the options."""
    common.add_data(parser)
    names = "recipes; RECIPE:FIELD=VALUE is a variant (default: all for graphs of this kind, every `variant`)"
    option(parser, "--recipes RECIPE", names, nargs="+")
    meaning = (
        "judge on the test split of a collection; on graphs never seen, each in turn; or on configurations "
        "never seen of known graphs (default: the first for collections, the last for a single graph)"
    )
    option(parser, "--hold-out", meaning, choices=("splits", "graphs", "configs"))
    option(parser, "--folds N", "divide the graphs or configurations N times", type=whole(1))
    meaning = "with --hold-out graphs: judge graphs of at least N configurations only"
    option(parser, "--least N", meaning, type=whole(0))
    meaning = "judge configurations in fixed random subsets of N, for rankers that look across them"
    option(parser, "--subset N", meaning, type=whole(2))
    option(parser, "--seeds N", "trainings of each recipe", type=whole(1, 1000), default=3)
    option(parser, "--preset")
    option(parser, "--set FIELD=VALUE ...", "a field of all recipes that have it")
    option(parser, "--tta K")
    option(parser, "--trials DIR", "keep finished trainings here; the same command takes them from there")
    option(parser, "--out NAME", "also write NAME.md, NAME.json and NAME.png")


def run(args: Args) -> None:
    """Train what is not done yet, and print the table."""
    ranks = common.join_ranks(args)
    if args.out is not None:
        common.check_writable(f"{args.out}.md")
    folds = _folds(args)
    comparison = tg.compare(
        _recipes(args, folds[0].train[0]),
        folds,
        folder=args.trials,
        communicator=ranks,
        **common.chosen(args, "seeds", "preset", "tta"),
        **common.parse_fields(args.set),
    )
    if not args.first:
        return
    if args.out is not None:
        comparison.save(args.out, _heading(args))
    common.emit(args, comparison.to_dict(), comparison.table())
    if args.out is not None:
        common.remark(args, f"wrote {args.out}.md, {args.out}.json and {args.out}.png")


def _heading(args: Args) -> str:
    """Return what stands above the table in a file: where it comes from, and what its columns mean."""
    return (
        f"Made by tpugraphs {tg.__version__} on {processor() or 'an unknown processor'}, "
        f"{counted(tg.get_num_threads(), 'thread')}:\n\n```sh\n{args.line}\n```\n\n"
        "Mean ± standard deviation over the seeds (of an ensemble: over the folds). Times of training and "
        "scoring are means over the trainings; a peak of memory holds the graphs and the interpreter."
    )


def _recipes(args: Args, graph: tg.Graph) -> list[Any]:
    """Return names of recipes, or pairs of a name and the fields of a variant."""
    if args.recipes is None:
        published = tg.list_recipes("layout") if graph.schema == tg.data.schema.LAYOUT else []
        return [one for name in sorted({*tg.list_recipes(graph.kind), *published}) for one in _variants(name)]
    found: list[Any] = []
    for given in args.recipes:
        name, *fields = given.split(":")
        found.append((name, common.parse_fields(fields)) if fields else name)
    return found


def _variants(name: str) -> list[Any]:
    """Return every published variant of a recipe; the recipe alone if it has none."""
    field = tg.recipes.get_recipe(name).describe()["options"].get("variant")
    return [(name, {"variant": one}) for one in field["choices"]] if field else [name]


def _folds(args: Args) -> list[tg.ranker.Fold]:
    collections = [common.collection_split(spec) for spec in args.data]
    whole = all(found is not None and not found[1] for found in collections)
    by = args.hold_out or ("splits" if whole else "graphs" if len(args.data) > 1 else "configs")
    if by != "configs" and args.subset is not None:
        raise ConfigError("--subset goes with --hold-out configs")
    if by != "graphs" and args.least is not None:
        raise ConfigError("--least goes with --hold-out graphs")
    if by == "splits":
        if not whole or args.folds is not None:
            expected = "whole collections such as layout:xla:cpu, and no --folds"
            raise ConfigError(f"--hold-out splits takes {expected}")
        train, valid, test = [common.open_graphs(args.data, args, split) for split in SPLITS]
        return [tg.ranker.Fold(" ".join(args.data), train, valid, test)]
    graphs = common.open_graphs(args.data, args, "train")
    if by == "graphs":
        return list(tg.ranker.unseen_graphs(graphs, folds=args.folds, least=args.least or 0))
    return list(tg.ranker.unseen_configs(list(graphs), folds=args.folds or 1, subset=args.subset))
