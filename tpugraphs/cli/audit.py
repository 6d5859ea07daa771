"""``tpugraphs audit``: which measurements can be trusted."""

from __future__ import annotations

import argparse
from typing import Any

from tpugraphs.cli import common
from tpugraphs.errors import ConfigError

HELP = "look through measured graphs: duplicates, noise, level shifts, files to leave out"
EXAMPLE = "tpugraphs audit ~/data/tpugraphs/npz/layout/xla --write-exclude exclude.txt"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "data",
        nargs="+",
        metavar="DATA",
        help="an .npz file, pack or .pb file of HLO, a directory (with all below it), sample:NAME, or "
        "COLLECTION[/SPLIT] below --root",
    )
    parser.add_argument("--all", action="store_true", help="list graphs without findings, too")
    parser.add_argument(
        "--write-exclude", metavar="FILE", help="write what to leave out to FILE, for --exclude @FILE"
    )
    common.add_data_options(parser)


def run(args: argparse.Namespace) -> int:
    """Print the table; 1 if a file cannot be read, after all have been looked at."""
    from tpugraphs.data.auditing import audit
    from tpugraphs.system.files import atomic_write

    common.check_writable(args.write_exclude)
    sources = [_source(spec, args) for spec in args.data]
    result = audit(sources, exclude=common.patterns(args.exclude), verbose=common.show_progress(args))
    if args.write_exclude is not None:
        with atomic_write(args.write_exclude) as file:
            file.write(result.exclude_file().encode())
    common.emit(args, result.to_dict())
    common.say(args, result.table(every=True if args.all else None))
    for graph in result.graphs:
        for finding in graph.findings:
            if finding.exclude or finding.kind == "unreadable":
                common.say(args, f"{graph.name}: {finding.text}")
    if args.write_exclude is not None:
        common.say(args, f"wrote {args.write_exclude}; use it with --exclude @{args.write_exclude}")
    return 1 if "unreadable" in result.counts() else 0


def _source(spec: str, args: argparse.Namespace) -> Any:
    """Turn a word of the command line into what `audit` takes."""
    from tpugraphs import data

    if spec.startswith("sample:"):
        return data.sample(spec.removeprefix("sample:"))
    name, _, split = spec.partition("/")
    if name not in data.COLLECTIONS:
        return spec
    if split not in ("", *data.SPLITS):
        raise ConfigError(f"{spec}: no split {split!r}; splits are {', '.join(data.SPLITS)}")
    folder = data.open_collection(name, root=args.root).folder
    return f"{folder}/{split}" if split else folder
