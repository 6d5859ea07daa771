r"""Write a submission file, of one or all collections; check, merge or score one.

example:
  tpugraphs submit --rankers RANKERS --root ~/data/tpugraphs --out submission.csv
  tpugraphs submit --ranker tile:xla=tile.safetensors --ranker layout:xla:random=random.safetensors \
      --fill sample_submission.csv --out submission.csv
  tpugraphs submit xla_random.safetensors layout:xla:random --root DIR --out xla_random.csv
  tpugraphs submit --merge xla_random.csv xla_default.csv --out submission.csv
  tpugraphs submit --validate submission.csv --template sample_submission.csv
  tpugraphs submit --score valid.csv --root ~/data/tpugraphs --split valid
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import tpugraphs as tg
from tpugraphs.cli import common
from tpugraphs.cli.common import Args, Parser, option
from tpugraphs.errors import ConfigError, DataError, printable
from tpugraphs.names import COLLECTIONS, FOLDERS, SPLITS
from tpugraphs.system import counted, tracked

Rankings = dict[str, Any]  # ID -> (n,) configs


def add_arguments(parser: Parser) -> None:
    """Declare the options."""
    common.add_rankers(parser, optional=True)
    meaning = "file to write (default: submission.csv); - prints it. One file that is read may be - as well"
    option(parser, "--out FILE", meaning)
    meaning = "collection of files that do not lie in one; with --score and no DATA: score only this one"
    option(parser, "--collection COLLECTION", meaning)
    group = parser.add_argument_group("all collections at once, instead of RANKER and DATA")
    meaning = "ranker or ensemble of a collection below --root; several of one rank together"
    option(group, "--ranker COLLECTION=FILE ...", meaning, dest="for_collection")
    meaning = "folder of such files, named after their collections: layout-xla-random.safetensors"
    option(group, "--rankers DIR", meaning)
    option(group, "--split", "default: test; with --score: valid", choices=SPLITS)
    meaning = "take over the rows of this submission file, and do not rank their graphs again"
    option(group, "--keep FILE ...", meaning)
    meaning = "rows for graphs without a ranker, such as those of Kaggle's sample_submission.csv"
    option(group, "--fill FILE", meaning)
    option(parser, "--merge FILE", "put these submission files together", nargs="+")
    option(parser, "--overwrite", "with --merge: a later file replaces an ID of an earlier one")
    option(parser, "--validate FILE", "check this submission file")
    meaning = (
        "IDs that must be there: Kaggle's sample_submission.csv (default: those of the graphs below --root, "
        "if that is given); with --root, graphs have the number of configs that is found there"
    )
    option(parser, "--template FILE", meaning)
    option(parser, "--score FILE", "score this file on graphs with known runtimes")
    option(parser, "--precision")
    common.add_data(parser, "test", nargs="*")
    parser.set_defaults(root=None)  # whether it is given matters to --validate


def run(args: Args) -> int:
    """Rank, merge, check or score."""
    several = bool(args.for_collection or args.rankers)
    alone = args.ranker is not None and args.score is None
    if sum([alone, several, *(name is not None for name in (args.merge, args.validate, args.score))]) != 1:
        raise ConfigError(
            "give RANKER and DATA, or --merge FILES, or --ranker COLLECTION=FILE (or --rankers DIR), or "
            "--validate FILE, or --score FILE"
        )
    if args.collection is not None and args.collection not in FOLDERS:
        raise ConfigError(f"--collection {args.collection}: expected one of {', '.join(FOLDERS)}")
    root_given = args.root is not None
    args.root = args.root if root_given else common.default_root()
    if args.score is not None:
        return _score(args)
    if args.validate is not None:
        counts = tg.submission.competition.counts(_splits(args, args.split or "test")) if root_given else None
        template = counts if args.template is None else common.stdin(args, args.template)
        return _check(args, common.stdin(args, args.validate), template, counts)
    ranks = common.join_ranks(args)
    out = args.out or "submission.csv"
    written: Any = io.BytesIO() if common.to_stdout(args, out) else out
    template = common.stdin(args, args.template)
    rankings: Rankings
    if args.merge is not None:
        given = [common.stdin(args, path) for path in args.merge]
        rankings, counts = tg.submission.merge(given, out=written, overwrite=args.overwrite), None
    else:
        rankings, counts = _rank_all(args, out, ranks) if several else _rank(args, ranks)
    if not args.first:
        return 0
    if args.merge is None:
        tg.submission.write(written, rankings, counts)
    if written is not out:
        sys.stdout.write(written.getvalue().decode())
        written.seek(0)
    common.remark(args, f"wrote {out}: {counted(len(rankings), 'graph')}")
    return _check(args, written, template, counts, common.remark)


def _rank(args: Args, ranks: tg.distributed.CommunicatorLike | None) -> tuple[Rankings, dict[str, int]]:
    """Rank the graphs of DATA; return rankings and numbers of configs by submission ID."""
    ranker = common.open_rankers(args, ranks)
    graphs = _opened(args, args.data, args.split or "test")
    rankings: Rankings = {}
    counts: dict[str, int] = {}
    options = common.chosen(args, "tta", "precision")

    def ranked(i: int) -> tuple[Any, ...]:
        graph = graphs[i]
        made = ranker.rank(graph, **options)
        return graph.submission_id, made, graph.num_configs, str(graph.path or graph.name)

    facts = tg.data.identity.facts({"graphs": graphs})
    rows = tg.distributed.ranks.Ranks(ranks).each(len(graphs), ranked, facts)
    for row_id, ranking, count, file in tracked(rows, "rank", "graph", None, len(graphs)):
        if row_id in rankings:
            raise DataError(f"{row_id} is given twice; leave one out", file=file, field="name")
        rankings[row_id], counts[row_id] = ranking, count
    return rankings, counts


def _opened(args: Args, data: list[str], split: str) -> tg.data.Split:
    """Open graphs, each in its collection, which its ID names."""

    def placed(read: Callable[[], tg.Graph]) -> tg.Graph:
        graph = read()
        if args.collection is not None:
            return graph.replace(collection=args.collection)
        if graph.collection is None:
            todo = "its ID needs one: give --collection, for example layout:xla:random"
            raise DataError.of("collection", "one of the graph", "none", todo, file=graph.path or graph.name)
        return graph

    sources = common.open_graphs(data, args, split).sources
    return tg.data.Split(source._replace(read=partial(placed, source.read)) for source in sources)


def _files(args: Args) -> dict[str, list[str]]:
    """Return ranker files by collection; --ranker goes before --rankers."""
    given: dict[str, list[str]] = {}
    for assignment in args.for_collection:
        name, equals, path = assignment.partition("=")
        if not equals or not path or name not in COLLECTIONS:
            expected = f"COLLECTION=FILE with COLLECTION one of {', '.join(COLLECTIONS)}"
            raise ConfigError(f"--ranker {assignment}: expected {expected}")
        given.setdefault(name, []).append(path)
    return {**(tg.submission.competition.ranker_files(args.rankers) if args.rankers else {}), **given}


def _rank_all(
    args: Args, out: str, ranks: tg.distributed.CommunicatorLike | None
) -> tuple[Rankings, dict[str, int]]:
    """Return rankings and numbers of configs: of collections with a ranker, of --keep and of --fill."""
    if args.data or args.weights or args.normalize:
        raise ConfigError("DATA, --weights and --normalize do not go with --ranker COLLECTION=FILE")
    files = _files(args)
    common.agree_on_files(ranks, [path for paths in files.values() for path in paths])
    rankers = {name: tg.ranker.open_rankers(files[name]) for name in COLLECTIONS if name in files}
    kept = tg.submission.merge([common.stdin(args, path) for path in args.keep])
    filling = tg.submission.read(common.stdin(args, args.fill)) if args.fill else {}
    exclude = common.patterns(args)
    splits: dict[str, Any] = {}
    for name in rankers:
        splits |= tg.submission.competition.open_splits(args.root, args.split or "test", [name], exclude)
    rankings: Rankings = {}
    counts: dict[str, int] = {}
    options = {"verbose": False, **common.chosen(args, "tta", "precision")}
    rows = tg.submission.competition.rank_all(rankers, splits, kept, ranks, **options)
    try:
        for row in tracked(rows, "rank", "graph", None, sum(map(len, splits.values()))):
            if row.note:
                common.warn(args, f"{row.id} {row.note}")
            if row.ranking is not None:
                rankings[row.id], counts[row.id] = row.ranking, row.configs
    except BaseException:
        if args.first:
            _save_part(out, rankings)
        raise
    for row_id, ranking in [*kept.items(), *filling.items()]:
        rankings.setdefault(row_id, ranking)
    for name in COLLECTIONS:
        count = sum(row_id.startswith(f"{name}:") for row_id in rankings)
        found = f": {counted(count, 'row')}" if count else ""
        if name not in rankers:
            found += " (no ranker)" if count else ": no ranker, no rows; it will score 0"
        common.remark(args, f"{name}{found}")
    return rankings, counts


def _save_part(out: str, rankings: Rankings) -> None:
    """Write what is done when ranking ends in the middle."""
    if rankings:
        stem = "submission" if out == common.STREAM else os.path.splitext(out)[0]
        part = f"{stem}.partial.csv"
        tg.submission.write(part, rankings)
        done = counted(len(rankings), "graph")
        text = f"tpugraphs submit: ranked {done} in {part}; add --keep {part} to resume"
        print(printable(text), file=sys.stderr)


def _splits(args: Args, split: str) -> dict[str, Any]:
    """Open a split of the collections below --root, and warn of those that are not there."""
    exclude = common.patterns(args)
    splits: dict[str, Any] = tg.submission.competition.open_splits(args.root, split, exclude=exclude)
    absent = [name for name in COLLECTIONS if name not in splits]
    if absent:
        common.warn(args, f"not below {args.root}: {', '.join(absent)}")
    return splits


def _score(args: Args) -> int:
    split = args.split or "valid"
    data = args.data if args.ranker is None else [args.ranker, *args.data]
    data = data or ([] if args.collection is None else [args.collection])
    graphs = [_opened(args, data, split)] if data else list(_splits(args, split).values())
    result = tg.submission.score(common.stdin(args, args.score), *graphs)
    rest = {name: value for name, value in vars(result).items() if name != "path"}
    common.emit(args, {"file": result.path, **rest}, str(result))
    return 0


def _check(
    args: Args,
    file: Any,
    template: Any,
    counts: dict[str, int] | None,
    show: Callable[[Args, str], None] = common.say,
) -> int:
    """Check a file against the IDs of a template and the numbers of configs that are known."""
    result = tg.submission.validate(file, template, counts)
    problems = [vars(problem) for problem in result.problems]
    common.emit(args, {"file": result.path, "rows": result.rows, "valid": result.ok, "problems": problems})
    if result.ok:
        show(args, str(result))
    elif args.piped:
        common.warn(args, result, "error")
    else:
        common.say(args, str(result))
    return 0 if result.ok else 1
