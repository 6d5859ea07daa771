"""``tpugraphs submit``: write, check and merge submission files."""

from __future__ import annotations

import argparse
from typing import Any

from tpugraphs.cli import common

HELP = "write a submission file; or check one, or merge several"
EXAMPLE = (
    "tpugraphs submit xla_random.safetensors layout:xla:random --root ~/data/tpugraphs --out xla_random.csv\n"
    "  tpugraphs submit --merge xla_random.csv xla_default.csv --out submission.csv\n"
    "  tpugraphs submit --validate submission.csv --template sample_submission.csv"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    common.add_rankers(parser, optional=True)
    parser.add_argument(
        "data", nargs="*", metavar="DATA", help=common.DATA_HELP + "; a collection means its test split"
    )
    parser.add_argument("--out", metavar="FILE", help="file to write (default: submission.csv)")
    parser.add_argument("--collection", metavar="NAME", help="collection of files that do not lie in one")
    parser.add_argument("--merge", nargs="+", metavar="FILE", help="put these submission files together")
    parser.add_argument(
        "--overwrite", action="store_true", help="with --merge: a later file replaces an ID of an earlier one"
    )
    parser.add_argument("--validate", metavar="FILE", help="check this submission file")
    parser.add_argument(
        "--template", metavar="FILE", help="IDs that must be there: Kaggle's sample_submission.csv"
    )
    common.add_precision(parser)
    common.add_data_options(parser)


def run(args: argparse.Namespace) -> int:
    """Do one of the three."""
    from tpugraphs import submission
    from tpugraphs.errors import ConfigError
    from tpugraphs.metrics import COLLECTIONS

    chosen = [args.ranker is not None, args.merge is not None, args.validate is not None]
    if sum(chosen) != 1:
        raise ConfigError("give RANKER and DATA, or --merge FILES, or --validate FILE")
    if args.validate is not None:
        return _check(args, args.validate, args.template)
    if args.collection is not None and args.collection not in COLLECTIONS:
        raise ConfigError(f"--collection {args.collection}: expected one of {', '.join(COLLECTIONS)}")
    out = args.out or "submission.csv"
    common.check_writable(out)
    counts: dict[str, int] | None = None
    if args.merge is not None:
        rankings: dict[str, Any] = submission.merge(args.merge, out=out, overwrite=args.overwrite)
    else:
        if not args.data:
            raise ConfigError("give the graphs to rank after the ranker, for example layout:xla:random")
        rankings, counts = _rank(args)
        submission.write(out, rankings, counts)
    common.say(args, f"wrote {out}: {len(rankings)} graphs")
    return _check(args, out, args.template or counts)


def _rank(args: argparse.Namespace) -> tuple[dict[str, Any], dict[str, int]]:
    """Ranking and number of configurations by submission ID."""
    from tqdm import tqdm

    from tpugraphs.errors import DataError

    ranker = common.open_rankers(args)
    graphs = common.open_graphs(args.data, args, "test")
    rankings: dict[str, Any] = {}
    counts: dict[str, int] = {}
    for graph in tqdm(graphs, desc="rank", unit="graph", leave=False, disable=not common.show_progress(args)):
        if args.collection is not None:
            graph = graph.replace(collection=args.collection)
        elif graph.collection is None:
            raise DataError(
                "no collection is known for this graph, and its ID needs one; "
                "give --collection, for example layout:xla:random",
                file=graph.path or graph.name,
                field="collection",
            )
        if graph.submission_id in rankings:
            raise DataError(
                f"{graph.submission_id} is given twice; leave one out",
                file=graph.path or graph.name,
                field="name",
            )
        rankings[graph.submission_id] = ranker.rank(
            graph, tta=args.tta, precision=args.precision, verbose=common.show_progress(args)
        )
        counts[graph.submission_id] = graph.num_configs
    return rankings, counts


def _check(args: argparse.Namespace, path: str, template: Any) -> int:
    from tpugraphs import submission

    result = submission.validate(path, template)
    problems = [{"line": p.line, "id": p.id, "message": p.message} for p in result.problems]
    common.emit(args, {"file": path, "rows": result.rows, "valid": result.ok, "problems": problems})
    common.say(args, str(result))
    return 0 if result.ok else 1
