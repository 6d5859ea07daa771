"""How soon tuners find fast configs: score P and curves on measured spaces, peers in the same run.

Replays Kernel Tuner's spaces from ``measured`` in the data folder, each tuner on each space in a process of
its own (``tuning_peers.py``), and keeps every order of evaluations in ``--runs DIR``, so that an
interrupted run goes on and ``--page`` writes the page again from what is there. Peers need the extra
[bench-tuning]; those that are not installed are left out, which the page says.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import tpugraphs as tg

from . import machine, replay, tuning_figures
from .process import ROOT
from .replay import Measured, Runs
from .tuning_peers import TUNERS

MARKS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000)
PACKAGES = ("tpugraphs", "numpy", "kernel-tuner", "optuna", "smac", "scikit-learn")
ONE_THREAD = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL", "TPUGRAPHS")}
OURS, OURS_OTHERS = "ours", "ours_others"
ASKED_MS, ENOUGH, FEW = 20.0, 30, 50  # goals: ms per config, random's evaluations that halve, a small budget
Record = dict[str, Any]

METHOD = """
## How it is measured

**Spaces.** Every config of two kernels was measured on four GPUs: convolution has 4,362 configs,
dedispersion 11,130. A tuner asks for configs and is told the measured runtime, so no GPU is needed. A
config that failed counts as an evaluation and gives no runtime. Suggestions outside the space and repeated
ones are no evaluations.

**Score P** of the autotuning methodology (Willemsen et al., doi 10.1016/j.future.2024.05.021), on the axis
of evaluations: `(baseline - F) / (baseline - optimum)`, the mean over the evaluations of the window, where
F is the mean over repeats of the best so far and the baseline what random search without replacement is
expected to have found. 0 is random search, 1 the optimum at once. The baseline and the windows agree with
those of `autotuning_methodology` 1.1.0, which a test compares. The baseline is the runtime of the expected
rank, not the expected runtime: random search itself does not have exactly 0, and about -1 in convolution
W6600's window of 8 evaluations. Intervals are 95 %, by bootstrap over the repeats, of which that space gets
four times as many.

**Time axis.** The same score over time, as the methodology has it: an evaluation takes what compiling and
running took when the space was measured, plus the tuner's own time on the machine named above. Own time is
processor time, with one thread.

**Peers** run with their defaults: Kernel Tuner's strategies on its own search space, built from the
published restrictions and driven in its simulation manner. Optuna and SMAC3 know values by their places in
order. What is infeasible or failed is a violated constraint for TPE and a crash with the worst runtime for
SMAC3. Extra trees are scikit-learn's, 60 of them on log runtimes: 15 random configs first, then five at a
time (later 5 % of what was measured), by the mean less half a standard deviation between trees. All others
ask for one config at a time, or as their authors have it. All use the seeds 0, 1, 2, ... A repeat ends where
a tuner has used up its seconds (10 for TPE and hybrid_vndx, 25 for SMAC3, 300 for the others); its best
stands from there on.

**Records of other devices**: those of the same kernel on the three other GPUs. The mean order takes the
mean rank of a config there and evaluates in that order. Extra trees have it as a column, and start with its
first 15.
"""


# ---- results --------------------------------------------------------------------------------------------


def summary(space: Measured) -> Record:
    """Return the facts about a space for the page."""
    start, end = space.window
    return {
        "space": space.name, "configs": len(space.configs), "failed": int(np.isnan(space.runtimes).sum()),
        "start": start, "end": end, "evaluations": space.evaluations, "optimum": round(space.optimum, 4),
        "median": round(float(np.nanmedian(space.runtimes)), 4),
        "close": int(np.sum(space.runtimes <= replay.WITHIN * space.optimum)),
        "random": replay.random_until_close(space),
    }  # fmt: skip


def points(evaluations: int) -> list[int]:
    """Evaluations at which a curve is kept: the marks, and others so that it can be drawn."""
    drawn = np.unique(np.rint(np.geomspace(1, evaluations, 40)).astype(int)).tolist()
    return sorted({*drawn, *(mark for mark in MARKS if mark <= evaluations)})


def judged(name: str, space: Measured, runs: Runs) -> Record:
    """Scores of each repeat, and curves of best / optimum over the evaluations."""
    curves = runs.curves(space)
    at = points(space.evaluations)
    ratios = curves[:, at] / space.optimum
    until = [replay.until_close(line[line >= 0], space) for line in runs.orders]
    asked = runs.own / np.maximum(1, runs.lengths)
    return {
        "tuner": name, "space": space.name, "lengths": runs.lengths.tolist(),
        "scores": _short(replay.score_p(curves, space)),
        "time_scores": _short(replay.score_p_time(runs.orders, runs.own, space)),
        "until": [None if math.isinf(one) else int(one) for one in until],
        "ms": _short(1000 * asked), "few": _short(ratios[:, at.index(FEW)]), "at": at,
        "mean": _short(ratios.mean(0)),
        "low": _short(np.quantile(ratios, 0.25, axis=0)), "high": _short(np.quantile(ratios, 0.75, axis=0)),
    }  # fmt: skip


def _short(values: Any) -> list[float]:
    return [float(f"{value:.5g}") for value in values]


def collected(folder: Path, spaces: Sequence[Measured]) -> list[Record]:
    """Records of all runs in a folder."""
    found = []
    for name in TUNERS:
        for space in spaces:
            path = replay.runs_path(folder, name, space)
            if path.exists():
                found.append(judged(name, space, Runs.read(path)))
    return found


# ---- the page -------------------------------------------------------------------------------------------


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    ruled = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return ["", *(f"| {' | '.join(row)} |" for row in ruled), ""]


def titled(name: str) -> str:
    """The name of a tuner where those with and without records stand together."""
    return TUNERS[name].title + (", with records" if TUNERS[name].others else "")


class Page:
    """The tables of what was found."""

    def __init__(self, found: Record) -> None:
        self.found = found
        self.spaces: list[Record] = found["spaces"]
        self.names = [space["space"] for space in self.spaces]
        self.records = {(one["tuner"], one["space"]): one for one in found["records"]}
        self.tuners = [name for name in TUNERS if any(one["tuner"] == name for one in found["records"])]

    def of(self, name: str, kind: str = "scores") -> list[list[float]] | None:
        """A list of each space, None unless a tuner ran on all."""
        if not all((name, space) in self.records for space in self.names):
            return None
        return [self.records[name, space][kind] for space in self.names]

    def mean(self, name: str) -> float:
        scores = self.of(name)
        return math.nan if scores is None else float(np.mean([np.mean(one) for one in scores]))

    def best_peer(self, others: bool) -> str | None:
        peers = [n for n in self.tuners if TUNERS[n].others == others and n not in (OURS, OURS_OTHERS)]
        return max((n for n in peers if self.of(n)), key=self.mean, default=None)

    def scores(self, others: bool, kind: str) -> list[str]:
        """Score P of each tuner and space."""
        rows = []
        for name in self.tuners:
            if TUNERS[name].others != others:
                continue
            cells = [self._mean_cell(name, space, kind) for space in self.names]
            scores, mean, least = self.of(name, kind), "", ""
            if scores is not None:
                low, high = _pooled(scores)
                each = [float(np.mean(one)) for one in scores]
                mean, least = f"**{np.mean(each):.2f}** ({low:.2f} to {high:.2f})", f"{min(each):.2f}"
            rows.append([TUNERS[name].title, mean, least, *cells])
        return _table(["tuner", "mean (95 %)", "least", *self.names], rows)

    def _mean_cell(self, name: str, space: str, kind: str) -> str:
        one = self.records.get((name, space))
        return f"{np.mean(one[kind]):.2f}" if one else "-"

    def close(self) -> list[str]:
        """Evaluations until one config within 5 % of the optimum."""
        rows = [["random search, calculated", *(str(space["random"]) for space in self.spaces)]]
        for name in self.tuners:
            cells = [self._until(name, space) for space in self.spaces]
            rows.append([titled(name), *cells])
        return _table(["median of evaluations", *self.names], rows)

    def _until(self, name: str, space: Record) -> str:
        one = self.records.get((name, space["space"]))
        if one is None:
            return "-"
        median = until_median(one)
        return f"> {space['evaluations']}" if math.isinf(median) else f"{median:.0f}"

    def curves(self) -> list[str]:
        """Best over optimum at the marks, one table for a space."""
        lines = []
        for space in self.spaces:
            marks = [mark for mark in MARKS if mark <= space["evaluations"]]
            rows = [
                [titled(name), *(f"{value:.3f}" for value in at_marks(one, marks))]
                for name in self.tuners
                if (one := self.records.get((name, space["space"])))
            ]
            lines += ["", f"### {space['space']}", *_table(["evaluations", *map(str, marks)], rows)]
        return lines

    def own(self) -> list[str]:
        """Own time per config, repeats, and where a tuner ended before the replay did."""
        rows = []
        for name in self.tuners:
            mine = [self.records[name, space] for space in self.names if (name, space) in self.records]
            ms = [float(np.mean(one["ms"])) for one in mine]
            repeats = sorted({len(one["scores"]) for one in mine})
            ends = {space["space"]: space["end"] for space in self.spaces}
            early = [
                f"{one['space']} at {np.median(one['lengths']):.0f}"
                for one in mine
                if np.median(one["lengths"]) < ends[one["space"]]
            ]
            span = f"{repeats[0]}" if len(repeats) == 1 else f"{repeats[0]} to {repeats[-1]}"
            rows.append([titled(name), f"{np.mean(ms):.2f}", f"{max(ms):.2f}", span, ", ".join(early)])
        head = ["tuner", "own ms per config, mean", "slowest space", "repeats", "ended before the window"]
        return _table(head, rows)

    def goals(self) -> list[str]:
        """What was asked for and what was reached."""
        rows = [row for make in (self._scratch, self._with_others, self._small, self._half, self._asked)
                for row in make()]  # fmt: skip
        return _table(["goal", "reached", "value"], rows) if rows else []

    def _scratch(self) -> list[list[str]]:
        if self.of(OURS) is None:
            return []
        mean, peer = self.mean(OURS), self.best_peer(False)
        rows = [["from scratch: P ≥ 0.55 in the mean", _yes(mean >= 0.55), f"{mean:.2f}"]]
        if peer:
            value = f"{mean:.2f} beside {self.mean(peer):.2f} of {TUNERS[peer].title}"
            rows.append(
                ["from scratch: not below any peer in the mean", _yes(mean >= self.mean(peer)), value]
            )
        return rows

    def _with_others(self) -> list[list[str]]:
        scores = self.of(OURS_OTHERS)
        if scores is None:
            return []
        mean, least = self.mean(OURS_OTHERS), min(float(np.mean(one)) for one in scores)
        return [
            ["with records of the other devices: P ≥ 0.85 in the mean", _yes(mean >= 0.85), f"{mean:.2f}"],
            ["with records: no space below 0.6", _yes(least >= 0.6), f"least {least:.2f}"],
        ]

    def _small(self) -> list[list[str]]:
        """Level: at most 0.5 % slower in the mean, or by no more than chance may make of the repeats."""
        if self.of(OURS) is None:
            return []
        behind, slower = False, []
        for space in self.names:
            mine = self.records[OURS, space]["few"]
            peers = {
                name: self.records[name, space]["few"]
                for name in self.tuners
                if name != OURS and not TUNERS[name].others and (name, space) in self.records
            }
            best = min(peers, key=lambda name: np.mean(peers[name]), default=None)
            if best is None or np.mean(mine) <= 1.005 * np.mean(peers[best]):
                continue
            low, high = _difference(mine, peers[best])
            behind |= low > 0
            slower.append(f"{space} {np.mean(mine):.3f}, {TUNERS[best].title} {np.mean(peers[best]):.3f}"
                          f" (difference {low:.3f} to {high:.3f})")  # fmt: skip
        goal = f"from scratch at {FEW} evaluations level with (0.5 % or chance) or ahead of"
        value = "ahead in all others; " + "; ".join(slower) if slower else "all spaces"
        return [[f"{goal} the best peer in every space", _yes(not behind), value]]

    def _half(self) -> list[list[str]]:
        rows = []
        for name, what in ((OURS, "from scratch"), (OURS_OTHERS, "with records")):
            if self.of(name) is None:
                continue
            hard = [space for space in self.spaces if space["random"] > ENOUGH]
            missed = [
                space["space"]
                for space in hard
                if until_median(self.records[name, space["space"]]) > space["random"] / 2
            ]
            goal = f"{what}: ≤ 1/2 of random's evaluations to come within 5 %, where it needs over {ENOUGH}"
            rows.append(
                [goal, _yes(not missed), "missed: " + ", ".join(missed) if missed else f"all {len(hard)}"]
            )
        return rows

    def _asked(self) -> list[list[str]]:
        spent = [max(np.mean(one) for one in ms) for n in (OURS, OURS_OTHERS) if (ms := self.of(n, "ms"))]
        goal = f"at most {ASKED_MS:.0f} ms of its own per asked config, in every space"
        return [[goal, _yes(max(spent) <= ASKED_MS), f"{max(spent):.1f} ms"]] if spent else []


def _yes(reached: bool) -> str:
    return "yes" if reached else "**no**"


def _pooled(scores: list[list[float]]) -> tuple[float, float]:
    """Interval of the mean over spaces, whose repeats may differ in number."""
    if len({len(one) for one in scores}) == 1:
        return replay.interval(np.array(scores))
    rng = np.random.default_rng(0)
    means = np.mean([rng.choice(one, (2000, len(one))).mean(axis=1) for one in scores], axis=0)
    low, high = np.quantile(means, [0.025, 0.975])
    return float(low), float(high)


def _difference(ours: list[float], theirs: list[float]) -> tuple[float, float]:
    """Interval of the difference of two means, by bootstrap over the repeats of each."""
    rng = np.random.default_rng(0)
    one, other = (rng.choice(values, (10000, len(values))).mean(axis=1) for values in (ours, theirs))
    low, high = np.quantile(one - other, [0.025, 0.975])
    return float(low), float(high)


def until_median(record: Record) -> float:
    """Median of the evaluations until close; inf if half of the repeats never were."""
    return float(np.median([math.inf if one is None else one for one in record["until"]]))


def at_marks(record: Record, marks: Sequence[int]) -> list[float]:
    """Mean of best over optimum after these numbers of evaluations."""
    return [record["mean"][record["at"].index(mark)] for mark in marks]


def _of_spaces(spaces: list[Record]) -> list[str]:
    columns = ["configs", "failed", "end", "optimum", "median", "close"]
    head = [
        "space",
        "configs",
        "failed",
        "evaluations in the window",
        "optimum, ms",
        "median, ms",
        "within 5 %",
    ]
    return _table(head, [[space["space"], *(f"{space[c]:,}" for c in columns)] for space in spaces])


def markdown(found: Record, pictures: Sequence[str]) -> str:
    """The page."""
    run, page = found["run"], Page(found)
    versions = ", ".join(f"{name} {version}" for name, version in found["packages"].items())
    shown: Callable[[str], list[str]] = lambda kind: [  # noqa: E731
        f"![{kind} of best over optimum, by evaluations]({one})" for one in pictures if kind in one
    ]
    lines = [
        "# Tuners on measured spaces", "",
        "Made by `python -m benchmarks.tuning`; figures are not edited.", "",
        f"{run['date']}, {run['cpu']}, {run['cores']} cores, commit {run['commit']}; {versions}.",
        *(f"Not run: {', '.join(found['left_out'])}." for _ in found["left_out"][:1]),
        *_of_spaces(page.spaces),
        *(["## Goals", *goals] if (goals := page.goals()) else []),
        "## Score P from scratch", *page.scores(False, "scores"), *shown("scratch"), "",
        "## Score P with records of the other GPUs", *page.scores(True, "scores"), *shown("records"), "",
        "## Score P over time", "", "From scratch:", *page.scores(False, "time_scores"),
        "With records of the other GPUs:", *page.scores(True, "time_scores"),
        "## Evaluations until within 5 % of the optimum", *page.close(),
        "## Own time", *page.own(),
        "## Best over optimum, mean of the repeats", *page.curves(),
    ]  # fmt: skip
    return "\n".join(lines).replace("\n\n\n", "\n\n") + METHOD


# ---- the run --------------------------------------------------------------------------------------------


def python_of(name: str, args: argparse.Namespace) -> str:
    """The Python that has what a tuner needs."""
    return sys.executable if TUNERS[name].ours else args.peers_python


def environment(name: str) -> dict[str, str]:
    """Where the child finds these benchmarks and the tpugraphs that runs here; one thread for all."""
    ours = [str(Path(tg.__file__).resolve().parents[1])] if TUNERS[name].ours else []
    path = os.pathsep.join([*ours, str(ROOT)])
    return {**os.environ, **ONE_THREAD, "PYTHONPATH": path, "PYTHONSAFEPATH": "1"}


def measure(args: argparse.Namespace, spaces: Sequence[Measured]) -> None:
    """Run every tuner on every space, and say which are not installed."""
    for name in args.only or TUNERS:
        for space in spaces:
            began = time.monotonic()
            command = [
                python_of(name, args),
                "-m",
                "benchmarks.tuning_peers",
                name,
                space.kernel,
                space.device,
            ]
            command += ["--folder", str(args.runs), *(["--data", str(args.data)] if args.data else [])]
            for option in ("seeds", "limit"):
                if (value := getattr(args, option)) is not None:
                    command += [f"--{option}", str(value)]
            done = subprocess.run(command, env=environment(name), capture_output=True, text=True, check=False)
            if done.returncode == 3:
                print(f"{titled(name)}: left out, {done.stderr.strip()}", file=sys.stderr, flush=True)
                break
            if done.returncode:
                raise RuntimeError(f"{' '.join(command)}:\n{done.stderr[-2000:]}")
            print(f"{name} on {space.name}: {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)


def packages(python: str) -> dict[str, str]:
    """Versions that a Python has."""
    code = (
        "import importlib.metadata as m, json; has = list(m.distributions())\n"
        "print(json.dumps({d.metadata['Name'].lower().replace('_', '-'): d.version for d in has}))"
    )
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True)
    has = json.loads(done.stdout)
    return {name: has[name] for name in PACKAGES if name in has}


def write(found: Record, folder: Path) -> None:
    """Write tuning.json, tuning.md and the pictures."""
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(found).replace('{"tuner"', '\n{"tuner"') + "\n"
    (folder / "tuning.json").write_text(text, encoding="utf-8")
    pictures = tuning_figures.draw(found)
    for name, content in pictures.items():
        (folder / name).write_bytes(content)
    (folder / "tuning.md").write_text(markdown(found, list(pictures)), encoding="utf-8")


def parser() -> argparse.ArgumentParser:
    """The options."""
    made = argparse.ArgumentParser(prog="python -m benchmarks.tuning", description=__doc__)
    add = made.add_argument
    add("--only", nargs="+", metavar="TUNER", choices=list(TUNERS), help=", ".join(TUNERS))
    add("--spaces", nargs="+", metavar="KERNEL-DEVICE", default=None, help="(default: all)")
    add("--quick", action="store_true", help="smoke run: one space, one seed, judges nothing")
    add("--seeds", type=int, default=None, help="repeats (default: those of each tuner, 25 mostly)")
    add("--limit", type=float, default=None, help="seconds of a repeat (default: those of each tuner)")
    add(
        "--runs",
        metavar="DIR",
        type=Path,
        default=Path("build/tuning"),
        help="what was evaluated, kept and gone on with",
    )
    add("--page", action="store_true", help="run nothing: write the page of what is in --runs")
    add("--peers-python", metavar="PATH", default=sys.executable, help="a Python that has the peers")
    add("--data", metavar="DIR", type=Path, default=None, help="of the measurements")
    add("--out", metavar="DIR", type=Path, help="write tuning.json, tuning.md and pictures there")
    return made


def main() -> int:
    """Run what is asked for and write or print the page."""
    args = parser().parse_args()
    args.runs = args.runs.resolve()
    if why := replay.missing(args.data):
        print(f"skipped: {why}", file=sys.stderr)
        return 0
    spaces = replay.load_spaces(data=args.data)
    if args.quick:
        spaces, args.seeds, args.limit = spaces[3:4], 1, 5.0
    if args.spaces:
        spaces = [space for space in spaces if f"{space.kernel}-{space.device}" in args.spaces]
    if not args.page:
        measure(args, spaces)
    records = collected(args.runs, spaces)
    found = {
        "run": machine.describe(args.quick),
        "packages": packages(args.peers_python) | packages(sys.executable),
        "left_out": [titled(n) for n in TUNERS if not any(one["tuner"] == n for one in records)],
        "spaces": [summary(space) for space in spaces],
        "records": records,
    }
    if args.out is None:
        print(markdown(found, []), end="")
    else:
        write(found, args.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
