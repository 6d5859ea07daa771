"""Benchmarks of tpugraphs beside PyTorch, PyG, NumPy and SciPy, as ratios in one run.

Needs a checkout (it uses tests/) and, for the peers, the extra [bench]. Without them, or with --no-peers,
only our own times are shown. An interrupted run leaves the results it has.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

from . import figures, layout, machine, report, sections, timing, workloads
from .context import Context
from .record import Results


def parser() -> argparse.ArgumentParser:
    """The options."""
    made = argparse.ArgumentParser(
        prog="python -m benchmarks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = made.add_argument
    add("--only", nargs="+", metavar="SECTION", choices=sections.NAMES, help=", ".join(sections.NAMES))
    add("--quick", action="store_true", help="smoke run: tiny sizes, judges nothing")
    add("--out", metavar="DIR", type=Path, help="write NAME.json, NAME.md and NAME-*.png there")
    add("--name", default="results", help="of the files in DIR (default: results)")
    add("--merge", action="store_true", help="into the NAME.json that is in DIR: its other rows stay")
    add("--json", action="store_true", help="print the results as JSON instead of Markdown rows")
    add(
        "--workloads",
        nargs="+",
        metavar="NAME",
        choices=workloads.NAMES,
        help=f"for the sections step and score, instead of their own: {', '.join(workloads.NAMES)}",
    )
    add("--compile", action="store_true", help="also torch.compile in the section step")
    add("--stored", action="store_true", help="take the peer's step on L and FULL from a stored measurement")
    add("--no-peers", action="store_true", help="leave out PyTorch, PyG and SciPy")
    add("--rounds", type=int, default=15, help="of a race, at most (default: 15)")
    add("--budget", type=float, default=60.0, help="seconds of a race, after its third round (default: 60)")
    add("--threads", type=int, default=len(os.sched_getaffinity(0)))
    add("--seeds", type=int, default=3, help="of the fits beside the peer (default: 3)")
    add("--fit-steps", type=int, default=1000, help="length of these fits (default: 1000)")
    return made


def main() -> int:
    """Run the sections; 1 if one of them failed, 2 for wrong options."""
    made = parser()
    args = made.parse_args()
    path = args.out / f"{args.name}.json" if args.out else None
    if args.merge and (path is None or not path.exists()):
        made.error(f"--merge: there is no {path or 'result: give --out DIR'}")
    results = Results.read(path) if args.merge and path else Results()
    peers = not args.no_peers and layout.have_torch()
    if not peers and not args.no_peers:
        print("no PyTorch and PyG here: pip install '.[bench]' to compare with them", file=sys.stderr)
    context = Context(
        args.quick,
        peers,
        args.compile,
        args.stored,
        1 if args.quick else args.rounds,
        0.0 if args.quick else args.budget,
        args.threads,
        args.seeds,
        args.fit_steps,
        args.workloads,
    )
    run = {
        "command": " ".join(["python -m benchmarks", *sys.argv[1:]]),
        "machine": machine.describe(args.quick),
        "threads": args.threads,
        "quick": args.quick,
        "sections": [],
        "seconds": 0.0,
        "failed": context.failed,
    }
    if args.quick:
        timing.hurry()
    context.peaks = run["peaks"] = machine.peaks(args.threads, args.quick)
    results.runs.append(run)
    start = time.monotonic()
    try:
        for name in args.only or sections.NAMES:
            began = time.monotonic()
            _section(name, context, results, show=not args.json)
            run["sections"].append(f"{name} {time.monotonic() - began:.0f} s")
            run["seconds"] = time.monotonic() - start
            results.sort(sections.NAMES)
            if args.out:
                args.out.mkdir(parents=True, exist_ok=True)
                (args.out / f"{args.name}.json").write_text(results.to_json())
    finally:
        if args.out:
            _write(results, args.out, args.name)
    if args.json:
        print(results.to_json(), end="")
    elif args.out:
        print(f"\nwritten to {args.out}: {args.name}.json, {args.name}.md and pictures", flush=True)
    return 1 if run["failed"] else 0


def _section(name: str, context: Context, results: Results, show: bool) -> None:
    """Run one section; report what fails in it, without stopping the others."""
    module = sections.get(name)
    if show:
        print(f"\n## {module.TITLE}\n\n{report.HEAD}\n{report.RULE}", flush=True)
    with context.attempt(name):
        for record in module.run(context):
            if context.quick:
                record.required = record.reached = None
            results.add(record)
            if show:
                print(report.row(record), flush=True)


def _write(results: Results, folder: Path, name: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.json").write_text(results.to_json())
    pictures = figures.draw(results)
    for kind, content in pictures.items():
        (folder / f"{name}-{kind}.png").write_bytes(content)
    (folder / f"{name}.md").write_text(
        report.markdown(results, name, [f"{name}-{kind}.png" for kind in pictures])
    )


if __name__ == "__main__":
    sys.exit(main())
