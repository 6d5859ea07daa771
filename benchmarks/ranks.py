"""What a step of training takes on 1, 2 and 4 ranks of this machine, and what a model of it says of more.

Ranks have one thread each and pass messages through sockets (``tpugraphs ranks``). The model of a step on n
ranks is ``compute / n + rest + (n - 1) (alpha + beta bytes)``: compute is that of the slates; the rest is
what every rank does alone, the update mostly; each rank gets a vector of gradients from every other one.
alpha and beta are measured by messages of no and of as many bytes on two ranks.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import tpugraphs as tg
from tpugraphs.training.callbacks import Callback

from . import machine
from .process import ROOT

RECIPE, SLATES = "first-layout", 8
WIDTH, CONFIGS, STEPS = 592, 32, 12
RANKS, MORE = (1, 2, 4), (8, 16, 64)
NETWORKS = {
    "this machine's sockets": None,
    "25 Gb/s, 10 us": (1e-5, 8 / 25e9),
    "100 Gb/s, 2 us": (2e-6, 8 / 100e9),
}


class Clock(Callback):
    """Notes when each step ended."""

    def __init__(self) -> None:
        self.ends: list[float] = []

    def on_step(self, fit: Any) -> None:
        """Note the time."""
        self.ends.append(time.perf_counter())


def work(out: str, steps: int, width: int) -> None:
    """What one rank does: a fit, then messages; the first rank writes seconds of both."""
    comm = tg.distributed.communicator() or tg.distributed.SingleCommunicator()
    graphs = list(tg.open_collection("layout:xla:cpu").train)
    ranker = tg.Ranker(RECIPE, slates=SLATES, steps=steps, width=width, configs=CONFIGS, seed=0)
    clock = Clock()
    ranker.fit(graphs, verbose=False, communicator=comm, callbacks=[clock])
    size = 4 * ranker.num_parameters
    seconds = {"step": float(np.median(np.diff(clock.ends))), "bytes": size}
    for name, length in {"empty": 1, "full": size}.items():
        times, message, to = [], bytes(length), bytearray(comm.size * length)
        for _ in range(7):
            comm.allgather(b".", [1] * comm.size, bytearray(comm.size))
            began = time.perf_counter()
            comm.allgather(message, [length] * comm.size, to)
            times.append(time.perf_counter() - began)
        seconds[name] = float(np.median(times))
    if comm.rank == 0:
        Path(out).write_text(json.dumps(seconds), encoding="utf-8")


def measured(ranks: int, steps: int, width: int) -> dict[str, float]:
    """Run `work` on that many ranks."""
    path = os.pathsep.join([str(ROOT), str(Path(tg.__file__).resolve().parents[1])])
    one = {**os.environ, "TPUGRAPHS_NUM_THREADS": "1", "PYTHONPATH": path, "PYTHONSAFEPATH": "1"}
    code = "import sys; from benchmarks.ranks import work; work(sys.argv[1], *map(int, sys.argv[2:]))"
    with tempfile.TemporaryDirectory() as folder:
        script, out = Path(folder, "rank.py"), Path(folder, "out.json")
        script.write_text(code, encoding="utf-8")
        command = [sys.executable, "-m", "tpugraphs", "ranks", str(ranks), script, out, steps, width]
        subprocess.run([*map(str, command)], env=one, check=True)
        found: dict[str, float] = json.loads(out.read_text(encoding="utf-8"))
    return found


def modelled(n: int, compute: float, rest: float, size: float, network: tuple[float, float]) -> float:
    """Return the seconds of a step on n ranks."""
    return compute / n + rest + (n - 1) * (network[0] + network[1] * size)


def markdown(found: dict[str, Any]) -> str:
    """Return the page."""
    run, by = found["run"], {int(n): one for n, one in found["ranks"].items()}
    one, two = by[1]["step"], by[2]
    network = (two["empty"], max(0.0, two["full"] - two["empty"]) / two["bytes"])
    # of two ranks: two["step"] = compute / 2 + rest + message, and one = compute + rest
    compute = 2 * (one - two["step"] + network[0] + network[1] * two["bytes"])
    rest, cores = one - compute, run["cores"]
    lines = [
        "# Ranks", "", "Made by `python -m benchmarks.ranks`; figures are not edited.", "",
        f"{run['date']}, {run['cpu']}, {cores} cores, commit {run['commit']}. {RECIPE} of width "
        f"{found['width']}, {two['bytes'] / 4e6:.2f} M parameters, {SLATES} slates of {CONFIGS} configs per "
        f"step, one thread per rank; medians of {found['repeats']} runs, each the median of its steps.",
        "",
        "| ranks | ms per step | speedup | model, ms | error |", "| ---: | ---: | ---: | ---: | ---: |",
    ]  # fmt: skip
    for n, own in by.items():
        predicted = modelled(n, compute, rest, own["bytes"], network)
        note = "" if n <= cores else f" ({n} ranks on {cores} cores)"
        lines.append(
            f"| {n}{note} | {1000 * own['step']:.0f} | {one / own['step']:.2f} | {1000 * predicted:.0f} | "
            f"{100 * (predicted / own['step'] - 1):+.0f} % |"
        )
    speed = 1e-9 / max(network[1], 1e-12)
    lines += [
        "", f"The model: {1000 * compute:.0f} ms of compute, {1000 * rest:.0f} ms on every rank, alpha "
        f"{1e6 * network[0]:.0f} us, beta {1e9 * network[1]:.2f} ns a byte ({speed:.1f} GB/s). It has two of "
        "these from the steps on one and two ranks: only four ranks test it, where there are as many cores.",
        "", "## More ranks, by the model", "",
        f"A step has as many slates as ranks, at least {SLATES}; the speedup is in slates per second.", "",
        "| network | " + " | ".join(f"{n} ranks" for n in MORE) + " |",
        "| --- |" + " ---: |" * len(MORE),
    ]  # fmt: skip
    for name, given in NETWORKS.items():
        cells = []
        for n in MORE:
            per_slate = compute / SLATES
            slates = max(SLATES, n)
            step = modelled(n, per_slate * slates, rest, two["bytes"], given or network)
            alone = per_slate * slates + rest
            cells.append(f"{alone / step:.1f}x")
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def main() -> int:
    """Measure, and write or print the page."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ranks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="smoke run: small, judges nothing")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--out", metavar="DIR", type=Path, help="write ranks.json and ranks.md there")
    args = parser.parse_args()
    steps, width, repeats = (3, 32, 1) if args.quick else (STEPS, WIDTH, args.repeats)
    runs: dict[int, list[dict[str, float]]] = {n: [] for n in RANKS}
    for _ in range(repeats):
        for n in RANKS:
            runs[n].append(measured(n, steps, width))
    found: dict[str, Any] = {"run": machine.describe(args.quick), "width": width, "repeats": repeats}
    found["ranks"] = {
        n: {name: float(np.median([one[name] for one in own])) for name in own[0]} for n, own in runs.items()
    }
    if args.out is None:
        print(markdown(found), end="")
        return 0
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / "ranks.json").write_text(json.dumps(found) + "\n", encoding="utf-8")
    (args.out / "ranks.md").write_text(markdown(found), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
