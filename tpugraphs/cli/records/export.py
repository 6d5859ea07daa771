"""Write the records of a file in another format.

example:
  tpugraphs records export cache.json cache.csv --problem convolution
  tpugraphs records export tuning.jsonl results.json --format t4
"""

import tpugraphs as tg
from tpugraphs.cli.common import Args, Parser, check_writable, emit, option, remark
from tpugraphs.cli.records import shared
from tpugraphs.system.words import counted


def add_arguments(parser: Parser) -> None:
    """Declare the options."""
    shared.add_files(parser)
    option(parser, "out FILE", "file to write; an older one is replaced")
    shared.add_format(parser)


def run(args: Args) -> None:
    """Read, and write."""
    check_writable(args.out)
    found = shared.read(args)
    tg.records.write(args.out, found, args.format)
    emit(args, {"file": args.out, "records": len(found)})
    remark(args, f"wrote {counted(len(found), 'record')} to {args.out}")
