"""``tpugraphs pack``: memory-mapped packs of a tree of .npz and .pb files."""

from __future__ import annotations

import argparse
import dataclasses

import tpugraphs as tg
from tpugraphs.cli import common

HELP = "turn .npz files into packs, which open at once and are read config by config"
EXAMPLE = "tpugraphs pack ~/data/tpugraphs/npz/layout --jobs 4"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    common.option(parser, "dir DIR", "folder of .npz and .pb files, at any depth, or one file")
    common.option(parser, "--out DIR", "put the tree of packs there, not next to the files")
    meaning = "files at a time (default: number of threads)"
    common.option(parser, "--jobs N", meaning, type=common.whole(1, 4096))
    common.option(parser, "--verify", "also read all packs back and compare checksums")


def run(args: argparse.Namespace) -> int:
    """Pack; 1 if a file could not be, after all the others have been."""
    report = tg.data.pack_tree(args.dir, args.out, jobs=args.jobs, verify=args.verify)
    for failure in report.failed:
        common.warn(args, failure["error"], "error")
    parts = [f"{report.packed} packed", f"{report.skipped} up to date"]
    if args.verify:
        parts.append(f"{report.verified} verified")
    parts.append(f"{len(report.failed)} failed")
    common.remark(
        args,
        f"{', '.join(parts)}; {report.bytes_in / 1e6:,.1f} MB of files gave "
        f"{report.bytes_out / 1e6:,.1f} MB of packs in {report.seconds:.1f} s",
    )
    common.emit(args, dataclasses.asdict(report))
    return 1 if report.failed else 0
