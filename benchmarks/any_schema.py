"""How well rankers of any schema choose among measured configs of GPU kernels, with trees and chance beside.

Reads Kernel Tuner's spaces from ``measured`` in the data folder (``TPUGRAPHS_DATA``). (a) 200 random configs
of a space are learnt: how much slower than the space's best is the best of ten others, those ranked first or
those chosen to be measured? (b) A100, A4000 and A6000 are learnt: how are the configs of W6600 ranked,
without and with 20 of its measurements?
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
import time
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import tpugraphs as tg
from tpugraphs.data import samples
from tpugraphs.ranker import GaussianProcess

from . import machine

DATA = samples.data_folder() / "measured"
KERNELS, DEVICES = ("convolution", "dedispersion"), ("A100", "A4000", "A6000", "W6600")
LEARNT, FIRST, FEW = 200, 10, 20  # configs of (a), configs that are tried, measurements of (b)
HELD_OUT = 300  # first seed of those that nothing was chosen by
ACROSS = {"steps": 400, "slates": 4, "configs": 512}  # of rankers of several devices
LAST = ("head.*", "past.*")  # weights that adapt to the new one
SPREAD = 0.3  # of a process that learns 20 configs
OURS = "gaussian-process, ten chosen"
Floats = NDArray[np.float64]

BOUNDS = """
## What bounds the rest

Nothing was chosen by the seeds in the tables. Settings of the networks were chosen on seeds 200 to 223 (a)
and 100 to 103 (b), those of the process on 400 to 431 and on 24 other draws of 20 configs.

**What stands.** Over the 21 seeds the process with its ten chosen has a better mean than every kind of trees
and than chance in every space of (a), and in (b) with 20 measurements. All convolution spaces of (a)
together: 7.2 ± 1.8 below the best kind of trees, 5.0 ± 1.2 below chance, 0.6 ± 1.0 below the networks.
Dedispersion: 0.67 ± 0.12, 1.06 ± 0.21 and 0.67 ± 0.22. Row by row the difference is below two standard
errors to chance on convolution A100, to regression trees on the same columns there, to lambdarank on
convolution W6600 and (same columns) dedispersion A6000, and to trees in (b) on dedispersion. On seeds 0 to 4
alone it is behind chance on convolution A100 (by 2.1 ± 8.0) and in (b) on convolution (3.0 ± 14.5), and
behind trees on convolution A6000 (0.6 ± 2.6).

**Five seeds cannot tell.** In 2,000 draws the standard deviation of chance is 15, 12, 13 and 10 % on
convolution, so its mean over five seeds is between 17 and 40 % on A100 (5th and 95th percentile), 6 and 22
on A4000, 10 and 28 on A6000, 12 and 25 on W6600. Of some 4,200 configs 1, 8, 1 and 4 are within 2 % of the
best. On A100 the second is 7 % slower, on W6600 the fifth 20 %. So a result says mainly whether one of a few
configs was hit, and the 210 of chance hold one of A4000's eight in a third of the draws. Chance counts its
210, a ranker only its ten. Where all 210 count for both, in the last table, the process is 8.1, 3.3, 9.2 and
5.0 % below chance on convolution.

**The number of measurements is the bound, except on A100.** With 400 learnt in place of 200 the process has
17.6, 0.5, 1.5 and 7.2 % on convolution (16 seeds for A100, 12 for the others, from 400 on), where it has
17.9, 7.6, 16.6 and 20.5 with 200. With the length scales of 800 configs and 200 learnt it has 21.4, 4.8,
13.1 and 17.9, so better scales of the same model would gain little.

**Noise is not, except on dedispersion.** In the order of a single one of the 32 repeats, the best of ten is
at 0.45, 0.06, 0.29 and 0.19 % on convolution, and at 0.40, 0.05, 0.48 and 0.02 % on dedispersion. There the
process, at 0.31 on A100 and 0.30 on A6000, is no worse than one measurement of every config.

**What was tried**, on convolution, results above 50 % counted as 50. On seeds 400 to 431: networks 15.0,
process 14.6, both together 14.7, with bagged trees too 15.9, bagged trees alone 21.8, chance 20.6. The mean
less 0.5, 1 or 2 standard deviations: 14.4, 15.2 and 16.9 for the process, 14.4, 14.2 and 14.9 for the
networks. On seeds 400 to 423 the process has 15.0; with Matern 5/2, other priors, products and ratios of
columns, a column per value, or a target that weighs the fastest more, 14.5 to 16.2; with the ten chosen
13.1. The same choice over the networks of an ensemble, or over samples with their covariance, has 14.9 to
16.0 (networks 15.2): eight networks do not show how unsure they are. In the tables the choice gains less
than that over the first ten of the process: 0.5 ± 0.7 on convolution, 0.35 ± 0.17 on dedispersion. Earlier,
on other seeds: larger initial weights of the networks 16.3 to 14.7, 16 of them in place of 8 no difference,
the process without the columns of `powers` 23.7. Regression trees, too, are better on these columns than on
raw ones in every convolution space.

**(b)** Without measurements, the mean place of a config on the three other devices, looked up and not
learnt, has tau 0.27 (convolution) and 0.40 (dedispersion), and +20.8 and +12.8 %. All methods are near this,
which suggests that the other devices do not tell more about W6600: trees are ahead of the networks by 1.1 %
on convolution and 2.1 % on dedispersion, with tau 0.01 lower and 0.02 higher. With 20 measurements `adapt`
trains the weights next to the scores further, and after each of 60 steps they go a tenth of the way back.
That makes the whole order better, but not its first ten on convolution. The process with the adapted scores
as a column has a better tau on convolution (means of 21 seeds 0.53, networks 0.47, trees 0.36), a lower one
on dedispersion (0.52, 0.58, 0.55), and chooses better: 14.9 ± 6.2 and 1.5 ± 0.9 below trees, 24.5 ± 8.5 and
5.9 ± 1.1 below chance. On the 24 draws that it was chosen by, the adapted networks have 60.5 and 11.4 %,
chance 59.1 and 13.5; the process 31.2 and 5.8 without scores, 33.8 and 6.4 with those before adapting, 27.4
and 7.4 with those after; a process fitted to what the networks leave over 50.9 and 13.0.
"""


# ---- data -----------------------------------------------------------------------------------------------


def path_of(data: Path, kernel: str, device: str) -> Path:
    """Where the measurements of a space are."""
    return data / f"kernel_tuner_{kernel}_{device}_T4.json.gz"


def missing(data: Path) -> str | None:
    """Why there is nothing to run on, None if there is."""
    absent = [p.name for k in KERNELS for d in DEVICES if not (p := path_of(data, k, d)).exists()]
    return f"no {absent[0]} in {data}" if absent else None


@cache
def _table(data: Path, kernel: str, devices: tuple[str, ...]) -> tuple[dict[str, list[Any]], list[str]]:
    """Columns of all measurements on these devices, and which of them are parameters."""
    table: dict[str, list[Any]] = {"gpu": [], "time_ms": [], "ran": []}
    for device in devices:
        with gzip.open(path_of(data, kernel, device)) as file:
            results = json.load(file)["results"]
        for result in results:
            table["gpu"].append(device)
            table["time_ms"].append(result["measurements"][0]["value"])
            table["ran"].append(result["invalidity"] == "correct")
            for name, value in result["configuration"].items():
                table.setdefault(name, []).append(value)
    return table, [name for name in table if name not in ("gpu", "time_ms", "ran")]


@cache
def graphs(data: Path, kernel: str, devices: tuple[str, ...]) -> list[tg.Graph]:
    """A graph for each device, of the configs that ran."""
    table, config = _table(data, kernel, devices)
    made = tg.from_frame(table, group=["gpu"], config=config, runtime="time_ms", valid="ran")
    return [graph.select(graph.ran) for graph in made]


# ---- what is compared -----------------------------------------------------------------------------------


def ensemble(train: Any, seed: int, members: int, **fields: Any) -> tg.Ensemble:
    """Rankers of several seeds, trained."""
    rankers = [tg.Ranker("graph-config", seed=1000 * seed + m, **fields) for m in range(members)]
    for ranker in rankers:
        ranker.fit(train, verbose=False)
    return tg.Ensemble(rankers)


def derived(graph: tg.Graph) -> Floats:
    """Columns (C, T) that the recipe makes of the configs."""
    ranker = tg.Ranker("graph-config")
    ranker.pipeline.fit([graph])
    return ranker.pipeline.configs((None, graph.config_feat))[1].astype(np.float64)


def _options(seed: int, trees: int) -> dict[str, Any]:
    return {"n_estimators": trees, "learning_rate": 0.05, "min_child_samples": 5, "n_jobs": 1,
            "random_state": seed, "verbose": -1}  # fmt: skip


def regression(x: Floats, y: Floats, at: Floats, seed: int, weights: Floats | None = None) -> Floats:
    """Boosted trees fitted to numbers: what they give at `at`."""
    import lightgbm

    return np.asarray(lightgbm.LGBMRegressor(**_options(seed, 300)).fit(x, y, weights).predict(at))


def lambdarank(x: Floats, y: Floats, at: Floats, seed: int) -> Floats:
    """Boosted trees that rank, with 31 grades: scores at `at`, smaller = faster."""
    import lightgbm

    grades = np.argsort(np.argsort(-y)) * 31 // len(y)
    fitted = lightgbm.LGBMRanker(**_options(seed, 200)).fit(x, grades, group=[len(y)])
    return -np.asarray(fitted.predict(at))


def slower(times: Floats, best: float) -> float:
    """How much slower than the best the best of these is, in %."""
    return 100 * (float(times.min()) / best - 1)


def judged(scores: Floats, times: Floats, best: float) -> dict[str, float]:
    """What a ranking (n,) of configs reaches."""
    first = np.argsort(scores, kind="stable")[:FIRST]
    return {"best": slower(times[first], best), "tau": tg.metrics.kendall_tau(scores, times)}


def one_space(
    data: Path, kernel: str, device: str, seed: int, members: int, **fields: Any
) -> Iterator[dict[str, Any]]:
    """(a) with one seed: a record of each method; `all` counts the best of the 200 learnt, too."""
    (graph,) = graphs(data, kernel, (device,))
    times = np.asarray(graph.runtime, np.float64)
    order = np.random.default_rng(seed).permutation(len(times))
    train, rest = order[:LEARNT], order[LEARNT:]
    made = ensemble(graph.select(train), seed, members, **fields)
    scores = {"graph-config": made.predict(graph, rest, verbose=False).astype(np.float64)}
    logs = np.log(times[train])
    for name, x in (("raw columns", graph.config_feat.astype(np.float64)), ("same columns", derived(graph))):
        scores[f"LightGBM, {name}"] = regression(x[train], logs, x[rest], seed)
        scores[f"lambdarank, {name}"] = lambdarank(x[train], logs, x[rest], seed)
    process = GaussianProcess(seed=seed).fit(graph, train)
    scores["gaussian-process"] = process.predict(graph, rest)
    best = times.min()
    found: dict[str, dict[str, Any]] = {
        method: judged(score, times[rest], best) for method, score in scores.items()
    }
    ten = times[rest[process.choose(graph, FIRST, rest)]]
    found[OURS] = {"best": slower(ten, best), "tau": None}
    found[f"{LEARNT + FIRST} random"] = {"best": slower(times[order[: LEARNT + FIRST]], best), "tau": None}
    known = slower(times[train], best)
    for method, one in found.items():
        yield {"task": "a", "kernel": kernel, "device": device, "seed": seed, "method": method, **one,
               "all": min(one["best"], known)}  # fmt: skip


def across(data: Path, kernel: str, seed: int, members: int, **fields: Any) -> Iterator[dict[str, Any]]:
    """(b) with one seed: a record of each method.

    There is no column of the device, as nothing could be learnt of the new one's value. What was learnt from
    the others is adapted to the few measurements, and a Gaussian process learns them with the adapted scores
    as a column. Trees are fitted to both, with the device as a column.
    """
    *others, new = graphs(data, kernel, DEVICES)
    times = np.asarray(new.runtime, np.float64)
    rows = np.random.default_rng(1000 + seed).choice(len(times), FEW, replace=False)
    rest = np.setdiff1d(np.arange(len(times)), rows)
    made = ensemble(others, seed, members, **{**ACROSS, **fields})
    scores = {("graph-config", 0): made.predict(new, rest, verbose=False)}
    adapted = made.adapt(new, rows, only=LAST)
    scores["graph-config", FEW] = adapted.predict(new, rest, verbose=False)
    process = GaussianProcess(adapted, spread=SPREAD, seed=seed).fit(new, rows)
    scores["gaussian-process", FEW] = process.predict(new, rest)
    ten = times[rest[process.choose(new, FIRST, rest)]]

    x = [np.asarray(graph.config_feat, np.float64) for graph in others]
    y = [np.log(np.asarray(graph.runtime, np.float64)) for graph in others]
    y = [one - one.mean() for one in y]
    at, own = np.asarray(new.config_feat, np.float64), np.log(times[rows])
    device = np.repeat(np.arange(len(DEVICES)), [*map(len, y), FEW])
    both = np.column_stack([np.concatenate([*x, at[rows]]), device])
    asked = np.column_stack([at[rest], np.full(len(rest), device[-1])])
    weights = np.where(device == device[-1], 100.0, 1.0)
    scores["LightGBM", 0] = regression(np.concatenate(x), np.concatenate(y), at[rest], seed)
    scores["LightGBM", FEW] = regression(both, np.concatenate([*y, own - own.mean()]), asked, seed, weights)
    space = {"task": "b", "kernel": kernel, "device": "W6600", "seed": seed}
    for (method, count), score in scores.items():
        found = judged(np.asarray(score, np.float64), times[rest], times.min())
        yield {**space, "method": method, "measurements": count, **found}
    yield {**space, "method": OURS, "measurements": FEW, "best": slower(ten, times.min()), "tau": None}
    drawn = np.random.default_rng(seed).choice(len(times), FEW + FIRST, replace=False)
    yield {**space, "method": f"{FEW + FIRST} random", "measurements": FEW,
           "best": slower(times[drawn], times.min()), "tau": None}  # fmt: skip


# ---- tables ---------------------------------------------------------------------------------------------


def _cell(records: Sequence[dict[str, Any]], key: str) -> str:
    values = [record[key] for record in records if record[key] is not None]
    return f"{np.median(values):.2f} / {_mean(values)}" if values else ""


def _mean(values: Sequence[float]) -> str:
    """Mean, and its standard error."""
    error = float(np.std(values, ddof=1)) / len(values) ** 0.5 if len(values) > 1 else float("nan")
    return f"{np.mean(values):.2f} ± {error:.2f}"


def _less(records: Sequence[dict[str, Any]], ours: str, other: str) -> str:
    """How far the best of one method is below that of another: mean over the seeds of both."""
    ends = [{r["seed"]: r["best"] for r in records if r["method"] == name} for name in (ours, other)]
    return _mean([ends[0][seed] - ends[1][seed] for seed in ends[0]])


def _table_of(records: Sequence[dict[str, Any]], head: Sequence[str], key: Any, columns: Any) -> list[str]:
    """Rows by `key`, in the order in which they come; a column is (records of a row) -> text."""
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for row in dict.fromkeys(map(key, records)):
        mine = [record for record in records if key(record) == row]
        lines.append("| " + " | ".join([*map(str, row), *(column(mine) for column in columns)]) + " |")
    return lines


def _spaces(records: Sequence[dict[str, Any]], cell: Any) -> list[str]:
    """Table of (a): a row for each method, a column for each space."""
    spaces = list(dict.fromkeys((record["kernel"], record["device"]) for record in records))

    def of(space: tuple[str, str]) -> Any:
        return lambda mine: cell([r for r in mine if (r["kernel"], r["device"]) == space])

    head = ["method", *(f"{kernel} {device}" for kernel, device in spaces)]
    return _table_of(records, head, lambda record: (record["method"],), [of(space) for space in spaces])


def _compared(records: Sequence[dict[str, Any]]) -> list[str]:
    """Table of the differences between ours and every other method, a row for each task and place."""
    rows = [r for r in records if r["task"] == "a" or r["measurements"] == FEW]
    others = [name for name in dict.fromkeys(r["method"] for r in rows) if name != OURS]

    def less(other: str) -> Any:
        return lambda mine: _less(mine, OURS, other) if any(r["method"] == other for r in mine) else ""

    lines: list[str] = []
    for task in "ab":
        mine = [r for r in rows if r["task"] == task]
        names = [name for name in others if any(r["method"] == name for r in mine)]
        if mine:
            head, columns = [f"({task})", "", *names], [less(name) for name in names]
            lines += [
                "",
                *_table_of(mine, head, lambda record: (record["kernel"], record["device"]), columns),
            ]
    return lines


def markdown(found: dict[str, Any]) -> str:
    """All tables."""
    run, records = found["run"], found["records"]
    lines = [
        "# Rankers of any schema", "",
        "Made by `python -m benchmarks.any_schema`; figures are not edited.", "",
        f"{run['date']}, {run['cpu']}, {run['cores']} cores, commit {run['commit']}; "
        f"{found['seconds']:.0f} s; graph-config is an ensemble of {found['members']}.",
        "Cells are median / mean ± standard error over the seeds.",
    ]  # fmt: skip
    for title, held_out in (("seeds", False), ("held-out seeds", True)):
        some = [record for record in records if (record["seed"] >= HELD_OUT) == held_out]
        if not some:
            continue
        seeds = sorted({record["seed"] for record in some})
        span = f"{title} {seeds[0]} to {seeds[-1]}"
        a, b = ([record for record in some if record["task"] == task] for task in "ab")
        if a:
            lines += ["", f"## (a) {LEARNT} configs learnt, {span}", ""]
            lines += [
                f"Best of the {FIRST} ranked first or chosen among the others, % above the optimum.",
                "",
            ]
            lines += _spaces(a, lambda mine: _cell(mine, "best"))
        if b:
            lines += ["", f"## (b) A100, A4000 and A6000 learnt, W6600 ranked, {span}", ""]
            head = ["kernel", "measurements", "method", "tau", f"best of {FIRST}, % above the optimum"]
            lines += _table_of(
                b, head, lambda record: (record["kernel"], record["measurements"], record["method"]),
                [lambda mine: _cell(mine, "tau"), lambda mine: _cell(mine, "best")],
            )  # fmt: skip
    lines += ["", f"## {OURS}, less the others, all seeds", ""]
    lines += [
        "Mean ± standard error of the differences seed by seed; below 0: ours is faster.",
        *_compared(records),
    ]
    a = [record for record in records if record["task"] == "a"]
    lines += ["", f"## (a) best of all {LEARNT + FIRST} measured, all seeds", ""]
    lines += [f"As chance is counted: the {LEARNT} that were learnt are counted for every method.", ""]
    lines += _spaces(a, lambda mine: _cell(mine, "all"))
    return "\n".join(lines) + "\n" + BOUNDS


def parser() -> argparse.ArgumentParser:
    """The options."""
    made = argparse.ArgumentParser(prog="python -m benchmarks.any_schema", description=__doc__)
    made.add_argument("--quick", action="store_true", help="smoke run: one space, one seed, judges nothing")
    made.add_argument("--seeds", type=int, default=5, help="from 0 on (default: 5)")
    made.add_argument("--held-out", type=int, default=0, help=f"further seeds, from {HELD_OUT} on")
    made.add_argument("--members", type=int, default=8, help="of an ensemble (default: 8)")
    made.add_argument(
        "--data", metavar="DIR", type=Path, default=DATA, help="of the measurements (default: %(default)s)"
    )
    made.add_argument("--out", metavar="DIR", type=Path, help="write any-schema.json and any-schema.md there")
    return made


def main() -> int:
    """Run both tasks; 2 without LightGBM."""
    args = parser().parse_args()
    why = missing(args.data)
    if why is not None:
        print(f"skipped: {why}", file=sys.stderr)
        return 0
    try:
        import lightgbm  # noqa: F401
    except ImportError:
        print("no LightGBM here: pip install '.[bench]'", file=sys.stderr)
        return 2
    began, records = time.monotonic(), list[dict[str, Any]]()
    small: dict[str, Any] = {"steps": 5} if args.quick else {}
    members = 1 if args.quick else args.members
    seeds = [*range(1 if args.quick else args.seeds), *range(HELD_OUT, HELD_OUT + args.held_out)]
    for kernel in KERNELS[:1] if args.quick else KERNELS:
        for device in DEVICES[:1] if args.quick else DEVICES:
            for seed in seeds:
                records += one_space(args.data, kernel, device, seed, members, **small)
            print(f"(a) {kernel} {device}: {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
        for seed in seeds:
            records += across(args.data, kernel, seed, min(members, 4), **small)
        print(f"(b) {kernel}: {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
    found = {
        "run": machine.describe(args.quick),
        "seconds": time.monotonic() - began,
        "members": members,
        "records": records,
    }
    text = markdown(found)
    if args.out is None:
        print(text, end="")
        return 0
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / "any-schema.json").write_text(
        json.dumps(found).replace("}, {", "},\n{") + "\n", encoding="utf-8"
    )
    (args.out / "any-schema.md").write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
