"""What the commands of records share."""

from __future__ import annotations

from typing import Any

import tpugraphs as tg
from tpugraphs.cli.common import Args, Parser, option

_MEANING = (
    "journal of a tuner, T4 results, cache of Kernel Tuner, *.autotune.json of Triton, log of Helion (CSV), "
    "JSON of Tokamax, or table (CSV, parquet) with a column called runtime; recognised by the content"
)


def add_files(parser: Parser, **how: Any) -> None:
    """Add the files to read, and options for names that their records lack."""
    option(parser, "file FILE", _MEANING, **how)
    option(parser, "--problem NAME", "of records whose file does not name it", default="")
    option(parser, "--device NAME", "of records whose file does not name it", default="")


def add_format(parser: Parser) -> None:
    """Add --format."""
    meaning = "of OUT (default: its name decides: .json is t4, .csv, .jsonl is journal)"
    option(parser, "--format", meaning, choices=("t4", "csv", "journal"))


def read(args: Args) -> list[tg.records.Record]:
    """Read the files."""
    return tg.records.read(args.file, args.problem, args.device)
