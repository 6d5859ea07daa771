"""``tpugraphs evaluate``: how well a ranker ranks measured graphs."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from tpugraphs.cli import common
from tpugraphs.files import REPORT_SUFFIXES as SUFFIXES

HELP = "judge a ranker on measured graphs"
EXAMPLE = (
    "tpugraphs evaluate xla_random.safetensors layout:xla:random --root ~/data/tpugraphs --out report.md"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    common.add_rankers(parser)
    parser.add_argument(
        "data", nargs="+", metavar="DATA", help=common.DATA_HELP + "; a collection means its valid split"
    )
    parser.add_argument("--out", metavar="FILE", help=f"also write the report: {' '.join(SUFFIXES)}")
    parser.add_argument("--random", action="store_true", help="show a random order beside it")
    parser.add_argument(
        "--official",
        action="store_true",
        help="judge as published: on 1,000 fixed configurations of every valid layout graph (all of tile "
        "graphs), by the published metrics only",
    )
    parser.add_argument("--members", action="store_true", help="show every ranker of an ensemble beside it")
    parser.add_argument("--seed", type=int, default=0, help="of the bootstrap (default: %(default)s)")
    common.add_precision(parser)
    common.add_data_options(parser)


def run(args: argparse.Namespace) -> int:
    """Print the report."""
    from functools import partial

    from tpugraphs import baselines, evaluation
    from tpugraphs.ensemble import Ensemble
    from tpugraphs.errors import ConfigError

    if args.out is not None and Path(args.out).suffix not in SUFFIXES:
        raise ConfigError(f"--out {args.out}: the name must end in one of {', '.join(SUFFIXES)}")
    common.check_writable(args.out)
    ranker, progress = common.open_rankers(args), common.show_progress(args)
    graphs = common.open_graphs(args.data, args, "valid")
    scorers: dict[str, Any] = {}
    if isinstance(ranker, Ensemble):
        scorers |= ranker.scorers(args.members, args.tta, args.precision, progress)
    else:
        scorers["ranker"] = partial(ranker.predict, tta=args.tta, precision=args.precision, verbose=progress)
    if args.random:
        scorers["random"] = partial(baselines.random_scores, seed=args.seed)
    report = evaluation.evaluate(scorers, graphs, official=args.official, seed=args.seed, progress=progress)
    if args.out is not None:
        report.save(args.out)
    common.emit(args, report.to_dict())
    common.say(args, report.table())
    if args.out is not None:
        common.say(args, f"wrote {args.out}")
    return 0
