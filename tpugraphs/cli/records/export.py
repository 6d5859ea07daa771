"""Write the records of a file in another format.

example:
  tpugraphs records export cache.json cache.csv --problem convolution
  tpugraphs records export tuning.jsonl results.json --format t4
"""

import tpugraphs as tg
from tpugraphs.cli import common
from tpugraphs.cli.common import Args, Parser, option
from tpugraphs.cli.records import shared
from tpugraphs.system.words import counted


def add_arguments(parser: Parser) -> None:
    """Declare the options."""
    shared.add_files(parser)
    option(parser, "out FILE", "file to write; an older one is replaced")
    shared.add_format(parser)


def run(args: Args) -> None:
    """Read, and write."""
    common.check_writable(args.out)
    found = shared.read(args)
    tg.records.write(args.out, found, args.format)
    common.emit(args, {"file": args.out, "records": len(found)})
    common.remark(args, f"wrote {counted(len(found), 'record')} to {args.out}")
