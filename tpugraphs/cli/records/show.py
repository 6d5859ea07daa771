"""Count records by problem and device, with the best configuration of each and the spread of repeats.

example:
  tpugraphs records show tuning.jsonl
  tpugraphs records show convolution_A100_T4.json.gz --device A100 --json
"""

import tpugraphs as tg
from tpugraphs.cli.common import Args, Parser, emit, option
from tpugraphs.cli.records import shared
from tpugraphs.system.tables import text


def add_arguments(parser: Parser) -> None:
    """Declare the options."""
    shared.add_files(parser, nargs="+")
    option(parser, "--maximize", "larger values are better, as of throughput")


def run(args: Args) -> None:
    """Print the table."""
    found = tg.records.summarize(shared.read(args), "maximize" if args.maximize else "minimize")
    lines = []
    for one in found:
        failed = {status: n for status, n in one["statuses"].items() if status != "correct"}
        lines.append([
            one["problem"] or "-", one["device"] or "-", f"{one['records']:,}", f"{one['configs']:,}",
            ", ".join(f"{n:,} {status}" for status, n in failed.items()) or "-",
            "-" if one["runtime"] is None else f"{one['runtime']:.4g}",
            "-" if one["spread"] is None else f"{one['spread']:.1%}",
            " ".join(f"{name}={value}" for name, value in (one["config"] or {}).items()) or "-",
        ])  # fmt: skip
    heads = ["problem", "device", "records", "configs", "failed", "best", "spread", "best config"]
    emit(args, found, text("", heads, lines) if lines else "no records")
