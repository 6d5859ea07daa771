"""Is ``tg.Ranker("auto")`` behind the best of its members? On tables of kernels and on compiler options.

Eight spaces of Kernel Tuner: 200 random configs are learnt, all others are ranked. Two kernels on a device
that was not learnt from, three others were. Programs of the test split of ``options:xla:cpu``. What was
chosen is judged next to each of its members trained alone, with the same number of steps.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import tpugraphs as tg
from tpugraphs.ranker.auto import NETWORK, PROCESS, TREES

from . import any_schema, machine

OBJECTIVES = {"first": "first choice, % above the best", "order": "tau"}
CLOSE = {"first": 0.5, "order": -0.01}  # how far it may be behind


def tasks(data: Path, seed: int) -> Iterator[tuple[str, list[Any], list[Any]]]:
    """Name, graphs to learn from, graphs to rank."""
    for kernel in any_schema.KERNELS:
        for device in any_schema.DEVICES:
            (graph,) = any_schema.graphs(data, kernel, (device,))
            order = np.random.default_rng(seed).permutation(graph.num_configs)
            parts = np.split(order, [any_schema.LEARNT])
            yield f"{kernel} {device}", [graph.select(parts[0])], [graph.select(parts[1])]
        *others, new = any_schema.graphs(data, kernel, any_schema.DEVICES)
        yield f"{kernel}, three devices to {any_schema.DEVICES[-1]}", list(others), [new]
    programs = tg.open_collection("options:xla:cpu")
    yield "options:xla:cpu, test split", [*programs.train, *programs.valid], list(programs.test)


def judged(ranker: Any, graphs: list[Any]) -> dict[str, float]:
    """Return the mean over graphs of what is asked for."""
    found = []
    for graph in graphs:
        rows = np.asarray(graph.ran)
        scores, times = ranker.predict(graph, rows, verbose=False), np.asarray(graph.runtime)[rows]
        slow = 100 * tg.metrics.top_k_slowdown(scores, times, 1)
        found.append([slow, tg.metrics.kendall_tau(scores, times)])
    return dict(zip(OBJECTIVES, map(float, np.mean(found, 0)), strict=True))


def run(data: Path, seeds: int, seconds: float, quick: bool) -> list[dict[str, Any]]:
    """Return a record for each task, seed and objective."""
    records = []
    for seed in range(seeds):
        for name, train, graphs in tasks(data, seed):
            for objective in OBJECTIVES:
                began = time.monotonic()
                made = tg.Ranker("auto", seed, objective=objective, seconds=seconds).fit(train, verbose=False)
                took, choice = time.monotonic() - began, made.choice_
                own = {"auto": judged(made, graphs)[objective]}
                for member in (PROCESS, TREES, NETWORK):
                    if member not in choice.left_out:
                        one = tg.Ranker("auto", seed, members=member, steps=choice.steps)
                        own[member] = judged(one.fit(train, verbose=False), graphs)[objective]
                records.append(
                    {"task": name, "seed": seed, "objective": objective, "chosen": " + ".join(choice.members),
                     "steps": choice.steps, "seconds": took, "values": own}
                )  # fmt: skip
                print(f"{name}, {objective}, seed {seed}: {choice}", file=sys.stderr, flush=True)
            if quick:
                return records
    return records


def behind(records: list[dict[str, Any]], objective: str) -> float:
    """Return how far auto is behind the best member, by the mean over seeds; below 0: it is ahead."""
    values = {name: np.mean([one["values"][name] for one in records]) for name in records[0]["values"]}
    others = [value for name, value in values.items() if name != "auto"]
    return float(values["auto"] - min(others) if objective == "first" else max(others) - values["auto"])


def markdown(found: dict[str, Any]) -> str:
    """Tables, one for each objective."""
    run, records = found["run"], found["records"]
    seeds = 1 + max(one["seed"] for one in records)
    lines = [
        '# What the choice of `tg.Ranker("auto")` is worth', "",
        "Made by `python -m benchmarks.auto`; figures are not edited.", "",
        f"{run['date']}, {run['cpu']}, {run['cores']} cores, commit {run['commit']}; {found['seconds']:g} s "
        f"to choose and train; means over {seeds} seeds. Members are trained alone, networks with the steps "
        "that were chosen.",
    ]  # fmt: skip
    for objective, what in OBJECTIVES.items():
        head = ["learnt, ranked", "auto", PROCESS, TREES, NETWORK, "behind the best", "chosen", "s"]
        lines += ["", f"## {objective}: {what}", "", f"| {' | '.join(head)} |", "|---|" + "---|" * 7]
        digits = 1 if objective == "first" else 3
        gaps = []
        for task in dict.fromkeys(one["task"] for one in records):
            some = [one for one in records if one["task"] == task and one["objective"] == objective]
            cells = []
            for name in ("auto", PROCESS, TREES, NETWORK):
                values = [one["values"][name] for one in some if name in one["values"]]
                cells.append(f"{np.mean(values):.{digits}f}" if values else "")
            gaps.append(behind(some, objective))
            chosen = "; ".join(dict.fromkeys(one["chosen"] for one in some))
            took = np.mean([one["seconds"] for one in some])
            lines.append(f"| {task} | {' | '.join(cells)} | {gaps[-1]:+.{digits}f} | {chosen} | {took:.0f} |")
        most = abs(CLOSE[objective])
        close = f"{sum(gap <= most for gap in gaps)} of {len(gaps)}"
        lines += [
            "",
            f"Within {most} of the best member, or ahead, on {close}; mean {np.mean(gaps):+.{digits}f}.",
        ]
    return "\n".join(lines) + "\n"


def main() -> int:
    """Write or print the tables; 2 where measurements or LightGBM are absent."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.auto", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="smoke run: one task, judges nothing")
    parser.add_argument("--seeds", type=int, default=3, help="from 0 on (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=30.0, help="(default: %(default)s)")
    parser.add_argument("--data", type=Path, default=any_schema.DATA, help="folder of the measurements")
    parser.add_argument("--out", metavar="DIR", type=Path, help="write auto.json and auto.md there")
    args = parser.parse_args()
    if (why := any_schema.missing(args.data)) is not None:
        print(why, file=sys.stderr)
        return 2
    seeds, seconds = (1, 1.0) if args.quick else (args.seeds, args.seconds)
    records = run(args.data, seeds, seconds, args.quick)
    found = {"run": machine.describe(args.quick), "seconds": seconds, "records": records}
    text = markdown(found)
    if args.out is None:
        print(text, end="")
        return 0
    args.out.mkdir(parents=True, exist_ok=True)
    content = json.loads(json.dumps(found), parse_float=lambda x: round(float(x), 4))
    (args.out / "auto.json").write_text(json.dumps(content) + "\n", encoding="utf-8")
    (args.out / "auto.md").write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
