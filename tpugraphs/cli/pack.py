"""Turn .npz files into packs, which open at once and are read config by config.

example:
  tpugraphs pack ~/data/tpugraphs/npz/layout --jobs 4
"""

import dataclasses

import tpugraphs as tg
from tpugraphs.cli.common import Args, Parser, emit, join_ranks, option, remark, warn, whole


def add_arguments(parser: Parser) -> None:
    """Declare the options."""
    option(parser, "dir DIR", "folder of .npz and .pb files, at any depth, or one file")
    option(parser, "--out DIR", "put the tree of packs there, not next to the files")
    option(parser, "--jobs N", "files at a time (default: number of threads)", type=whole(1, 4096))
    option(parser, "--verify", "also read all packs back and compare checksums")


def run(args: Args) -> int:
    """Pack all files; return 1 if some could not be packed."""
    ranks = join_ranks(args)
    report = tg.data.pack_tree(args.dir, args.out, jobs=args.jobs, verify=args.verify, communicator=ranks)
    for failure in report.failed:
        warn(args, failure["error"], "error")
    verified = f", {report.verified} verified" if args.verify else ""
    remark(
        args,
        f"{report.packed} packed, {report.skipped} up to date{verified}, {len(report.failed)} failed; "
        f"{report.bytes_in / 1e6:,.1f} MB of files gave {report.bytes_out / 1e6:,.1f} MB of packs in "
        f"{report.seconds:.1f} s",
    )
    emit(args, dataclasses.asdict(report))
    return 1 if report.failed else 0
