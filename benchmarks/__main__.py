"""Run the benchmarks; needs the extra [parity] (torch, torch_geometric) and a checkout (it uses tests/)."""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path

# The peer is measured with an allocator that keeps its memory: out of the box PyTorch spends most of a step
# on page faults, and winning against that would prove nothing.
TUNED = {
    "MALLOC_MMAP_THRESHOLD_": str(1 << 34),
    "MALLOC_TRIM_THRESHOLD_": str(1 << 35),
    "MALLOC_TOP_PAD_": str(1 << 28),
    "THP_MEM_ALLOC_ENABLE": "1",
    "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",
    "GOMP_SPINCOUNT": "300000",  # libgomp's default: tpugraphs lowers it, which would slow the peer down
}


def main() -> None:
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
    from . import step, workloads

    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--workloads", nargs="+", default=["tiny", "S"], choices=workloads.NAMES)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--json", metavar="FILE")
    args = parser.parse_args()

    print("| workload | recipe | N, E, C | threads | ours ms | PyTorch ms | ratio |")
    print("| --- | --- | --- | ---: | ---: | ---: | ---: |")
    rows = []
    for name in args.workloads:
        for cross in (True, False):
            row = step.race(name, cross, args.rounds, args.threads)
            rows.append(row)
            size = f"{row['nodes']}, {row['edges']}, {row['configs']}"
            print(
                f"| {name} | {row['recipe']} | {size} | {row['threads']} | {row['ours_ms']:.1f} "
                f"| {row['peer_ms']:.1f} | {row['ratio']:.1f} |",
                flush=True,
            )
    if args.json:
        Path(args.json).write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    if any(os.environ.get(key) != value for key, value in TUNED.items()):
        os.execve(
            sys.executable, [sys.executable, "-m", "benchmarks", *sys.argv[1:]], {**os.environ, **TUNED}
        )
    main()
