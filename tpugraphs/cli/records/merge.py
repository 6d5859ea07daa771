"""Write the records of several files into one, each record once.

example:
  tpugraphs records merge all.jsonl laptop.jsonl cluster.jsonl
"""

import tpugraphs as tg
from tpugraphs.cli.common import Args, Parser, emit, option, remark
from tpugraphs.cli.records import shared
from tpugraphs.system.words import counted


def add_arguments(parser: Parser) -> None:
    """Declare the options."""
    option(parser, "out FILE", "file to write; records that are in it stay")
    option(parser, "file FILE", "files of records, of any format that `show` reads", nargs="+")
    shared.add_format(parser)


def run(args: Args) -> None:
    """Merge, and count."""
    merged = tg.records.merge(args.out, args.file, args.format)
    emit(args, {"file": args.out, "records": len(merged)})
    remark(args, f"wrote {counted(len(merged), 'record')} to {args.out}")
