"""Judge a ranker on measured graphs.

example:
  tpugraphs evaluate xla_random.safetensors layout:xla:random --root ~/data/tpugraphs --out report.md
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import tpugraphs as tg
from tpugraphs.cli import common
from tpugraphs.cli.common import Args, Parser, option, whole
from tpugraphs.errors import ConfigError
from tpugraphs.system.files import REPORT_SUFFIXES as SUFFIXES

_TOP = 5  # tile graphs are judged by the best of this many, as in the competition


def add_arguments(parser: Parser) -> None:
    """Declare the options."""
    common.add_rankers(parser, usage="RANKER|RECIPE")
    option(parser, "--out FILE", f"also write the report, which is printed in any case: {' '.join(SUFFIXES)}")
    option(parser, "--random", "judge a random order as well")
    meaning = (
        "judge as published: on 1,000 fixed configurations of every valid layout graph (all of tile graphs), "
        "by the published metrics only"
    )
    option(parser, "--official", meaning)
    meaning = (
        "judge on graphs never seen: rank every graph by a new ranker, trained on all others with the "
        "recipe, seed and fields of RANKER, or with the defaults if RANKER is the name of a recipe"
    )
    anew = parser.add_mutually_exclusive_group()
    option(anew, "--leave-out", meaning)
    meaning = "the same by cross-validation: a new ranker for each of N parts of the graphs"
    option(anew, "--folds N", meaning, type=whole(2))
    meaning = "with --folds: keep graphs of one family (by name, as resnet or bert) in one part"
    option(parser, "--by-family", meaning)
    option(parser, "--steps N", "with --leave-out or --folds: steps of each training", type=whole(1))
    option(parser, "--members", "show every ranker of an ensemble, too")
    option(parser, "--seed", "of the bootstrap")
    option(parser, "--precision")
    common.add_data(parser, "valid")


def run(args: Args) -> None:
    """Print the report."""
    if args.out is not None and Path(args.out).suffix not in SUFFIXES:
        raise ConfigError(f"--out {args.out}: the name must end in one of {', '.join(SUFFIXES)}")
    common.check_writable(args.out)
    anew = args.leave_out or args.folds is not None
    if args.steps is not None and not anew:
        raise ConfigError("--steps is for --leave-out and --folds only")
    if args.by_family and args.folds is None:
        raise ConfigError("--by-family is for --folds only")
    ranks = common.join_ranks(args)
    if ranks is not None and anew:
        raise ConfigError("--leave-out, --folds: ranks share the graphs of a ranker that is trained already")
    report = _leave_out(args) if anew else _evaluate(args, ranks)
    if not args.first:
        return
    if args.out is not None:
        report.save(args.out)
    common.emit(args, report.to_dict(), report.table())
    few = [row for row in report.rows if row.trivial]
    many = max(row.configs for row in report.rows)
    if anew and few and many > _TOP:
        common.say(args, f"\nGraphs with more than {_TOP} configurations:\n")
        common.say(args, report.at_least(_TOP + 1).table(per_graph=False))
    if args.out is not None:
        common.remark(args, f"wrote {args.out}")


def _leave_out(args: Args) -> tg.evaluation.Report:
    """Train and judge in turn."""
    if args.official or args.members or args.tta or args.precision:
        raise ConfigError("--leave-out and --folds take no --official, --members, --tta or --precision")
    name = args.ranker
    ranker = tg.Ranker(name) if name in tg.list_recipes() else tg.Ranker.load(name)
    graphs = list(common.open_graphs(args.data, args, "train"))
    how: dict[str, Any] = dict(beside=_random(args), seed=args.seed)
    how |= {} if args.steps is None else {"steps": args.steps}
    if args.folds is not None:
        how |= {"folds": args.folds, "group": "family" if args.by_family else None, "seeds": [ranker.seed]}
    return (tg.leave_out if args.folds is None else tg.cross_validate)(ranker, graphs, **how)


def _evaluate(args: Args, ranks: tg.distributed.CommunicatorLike | None) -> tg.evaluation.Report:
    """Judge the rankers as they are."""
    ranker = common.open_rankers(args, ranks)
    graphs = common.open_graphs(args.data, args, "valid")
    judged = ranker.judged(args.members, tta=args.tta, precision=args.precision)
    scorers = {ranker.file_kind: judged.pop(ranker.name), **judged, **_random(args)}
    return tg.evaluation.evaluate(scorers, graphs, official=args.official, seed=args.seed, communicator=ranks)


def _random(args: Args) -> dict[str, Any]:
    """Return the random order as a scorer, if --random asks for it."""
    return {"random": partial(tg.ranker.random_scores, seed=args.seed)} if args.random else {}
