"""Look through measured graphs: duplicates, noise, level shifts, files to leave out.

example:
  tpugraphs audit ~/data/tpugraphs/npz/layout/xla --write-exclude exclude.txt
"""

from pathlib import Path
from typing import Any

import tpugraphs as tg
from tpugraphs.cli import common
from tpugraphs.cli.common import Args, Parser, option


def add_arguments(parser: Parser) -> None:
    """Declare the options."""
    meaning = (
        "an .npz file, pack or .pb file of HLO, a directory (with all below it), sample:NAME, or "
        "COLLECTION[/SPLIT] below --root"
    )
    common.add_data(parser, meaning=meaning)
    option(parser, "--all", "list graphs without findings, too")
    option(parser, "--write-exclude FILE", "write what to leave out, for --exclude @FILE; - prints it")


def run(args: Args) -> int:
    """Print the table; return 1 if a file could not be read, after all others were."""
    common.to_stdout(args, args.write_exclude)
    ranks = common.join_ranks(args)
    sources = [_source(spec, args) for spec in args.data]
    result = tg.audit(sources, exclude=common.patterns(args), communicator=ranks)
    unreadable = "unreadable" in result.counts()
    if not args.first:
        return int(unreadable)
    if args.write_exclude is not None:
        with common.text_file(args.write_exclude) as file:
            file.write(result.exclude_file())
    common.emit(args, result.to_dict(), result.table(every=True if args.all else None))
    for graph in result.graphs:
        for finding in graph.findings:
            if finding.exclude or finding.kind == "unreadable":
                common.say(args, f"{graph.name}: {finding.text}")
    if args.write_exclude is not None:
        common.remark(args, f"wrote {args.write_exclude}; use it with --exclude @{args.write_exclude}")
    return int(unreadable)


def _source(spec: str, args: Args) -> Any:
    """Return the source for `audit` that a word of the command line names."""
    if spec.startswith("sample:"):
        return tg.data.sample(spec.removeprefix("sample:"))
    found = common.collection_split(spec)
    return spec if found is None else str(Path(tg.data.open_collection(found[0], args.root).folder, found[1]))
