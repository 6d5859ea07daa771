"""``tpugraphs pack``: memory-mapped packs of a tree of .npz and .pb files."""

from __future__ import annotations

import argparse
import dataclasses
import sys

from tpugraphs.cli import common

HELP = "turn .npz files into packs, which open at once and are read config by config"
EXAMPLE = "tpugraphs pack ~/data/tpugraphs/npz/layout --jobs 4"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("dir", metavar="DIR", help="folder of .npz and .pb files, at any depth, or one file")
    parser.add_argument("--out", metavar="DIR", help="put the tree of packs there, not next to the files")
    parser.add_argument(
        "--jobs",
        type=common.whole(1, 4096),
        metavar="N",
        help="files at a time (default: number of threads)",
    )
    parser.add_argument(
        "--verify", action="store_true", help="also read all packs back and compare checksums"
    )


def run(args: argparse.Namespace) -> int:
    """Pack; 1 if a file could not be, after all the others have been."""
    from tpugraphs.data import packs

    report = packs.pack_tree(
        args.dir, args.out, jobs=args.jobs, verify=args.verify, verbose=common.show_progress(args)
    )
    for failure in report.failed:
        print(f"tpugraphs pack: error: {failure['error']}", file=sys.stderr)
    parts = [f"{report.packed} packed", f"{report.skipped} up to date"]
    if args.verify:
        parts.append(f"{report.verified} verified")
    parts.append(f"{len(report.failed)} failed")
    common.say(
        args,
        f"{', '.join(parts)}; {report.bytes_in / 1e6:,.1f} MB of files gave "
        f"{report.bytes_out / 1e6:,.1f} MB of packs in {report.seconds:.1f} s",
    )
    common.emit(args, dataclasses.asdict(report))
    return 1 if report.failed else 0
