"""How soon does tuning find fast options of a program never seen? A replay of measured programs.

A tuner asks for a config of a program in ``options:xla:cpu`` and gets its measured runtime. Families are
left out by group, as in ``xla_cpu``: the ranker of the tuner learnt from unrelated programs. Measurements
count after the default's. A gap compares the fastest measured so far, the default included, with the
fastest of all configs of the program.

``--live`` tunes functions on this machine, and runs each before and after in processes of its own.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import tpugraphs as tg
from tpugraphs.records import Record

from . import machine
from .xla_cpu import COMPOSED, groups, parts

Floats = NDArray[np.float64]
Ask = Callable[["Program"], Iterator[int]]  # yields rows; learns from `Program.times`
COUNTS, CLOSE = (1, 2, 5, 10, 20), 0.03
GOALS = {(10, "gap"): 5.0, (20, "gap"): 2.5, (10, "close"): 65.0, (20, "close"): 80.0}
DRAWS, JOURNALS = 2000, 20
STAGES, SHARED = "stages", "stages, equal programs once"
HALVES, HALF, HALF_JOURNALS = (
    "stages, judged by the other half",
    "half of the groups",
    "and journals of the rest",
)


class Program:
    """A measured program: the runtimes that a tuner gets, and those that judge it."""

    def __init__(self, graph: Any, half: bool = False) -> None:
        repeats = np.where(np.isnan(graph.repeats), np.inf, graph.repeats)
        failed = np.setdiff1d(np.arange(graph.num_configs), graph.ran)
        self.graph = graph
        self.times = graph.runtime.astype(np.float64)
        self.judge = self.times.copy()
        if half:
            self.times, self.judge = repeats[:, ::2].min(1), repeats[:, 1::2].min(1)
        self.times[failed] = self.judge[failed] = np.nan
        _, same = np.unique(repeats, axis=0, return_inverse=True)
        self.same = np.where(np.isnan(self.times), -1 - np.arange(len(self.times)), same.ravel())

    def gap(self, row: int) -> float:
        """Return how much slower a config is than the fastest one, in %."""
        return 100 * float(self.judge[row] / self.judge[int(np.nanargmin(self.times))] - 1)


# ---- tuners ---------------------------------------------------------------------------------------------


def stages(program: Program, ranker: Any, once: bool = False) -> Iterator[int]:
    """As `tpugraphs.xla.tune` measures; `once`: configs of a program that was measured cost nothing."""

    def known(row: int) -> float | None:
        same = (time for other, time in tuner.runtimes.items() if program.same[other] == program.same[row])
        return next(same, None) if once else None

    tuner = tg.xla.Stages(program.graph, ranker, known=known)
    tuner.tell([tuner.configs[0]], [program.times[0]])
    while asked := tuner.ask():
        row = tuner.rows[tg.xla.stages.key(asked[0])]
        tuner.tell(asked, [program.times[row]])
        yield row


def ordered(program: Program, ranker: Any, together: int = 0) -> Iterator[int]:
    """In the order of the ranker, whatever is measured."""
    yield from (int(row) for row in ranker.rank(program.graph, together=together) if row)


def tuner(program: Program, ranker: Any) -> Iterator[int]:
    """`tpugraphs.Tuner`, to which the order is prior knowledge."""
    graph = program.graph
    configs = [graph.schema.decode("config", row) for row in graph.config_feat]
    rows = {tg.xla.stages.key(config): row for row, config in enumerate(configs)}
    found = tg.Tuner(tg.Space.from_table(configs, configs[0]), graph, ranker)
    asked = found.ask()
    while asked:
        row = rows[tg.xla.stages.key(asked[0])]
        found.tell(asked, [program.times[row]])
        if row:
            yield row
        asked = found.ask()


def by_chance(program: Program, seed: int) -> Iterator[int]:
    """At random."""
    yield from (1 + np.random.default_rng(seed).permutation(len(program.times) - 1)).tolist()


# ---- judging --------------------------------------------------------------------------------------------


def curve(program: Program, asked: Iterator[int]) -> list[float]:
    """Gap, in %, after each of the counts of measurements."""
    best, found = 0, []
    for number in range(1, max(COUNTS) + 1):
        row = next(asked, None)
        if row is not None and not program.times[row] >= program.times[best] and program.times[row] > 0:
            best = row
        if number in COUNTS:
            found.append(program.gap(best))
    return found


def journal(graph: Any, ranker: Any) -> list[Record]:
    """What tuning a program writes: the default, and what was measured."""
    program = Program(graph)
    asked = stages(program, ranker)
    rows = [0, *(next(asked) for _ in range(JOURNALS))]
    work = {tg.xla.stages.WORK: json.dumps(graph.graph_feat.ravel().tolist())}
    configs = [graph.schema.decode("config", row) for row in graph.config_feat]
    return [
        Record(configs[row], (program.times[row] / 1e6,), problem=graph.name, environment=work)
        if program.times[row] > 0
        else Record(configs[row], status="runtime", problem=graph.name, environment=work)
        for row in rows
    ]


def fitted(graphs: Sequence[Any]) -> Any:
    return tg.ranker.MultiTaskGaussianProcess().fit(list(graphs))


def run(seeds: int, quick: bool) -> dict[str, dict[str, list[list[float]]]]:
    """Judge all tuners: method -> program -> a curve per seed."""
    data = tg.open_collection("options:xla:cpu")
    everything = [*data.train, *data.valid, *data.test]
    found: dict[str, dict[str, list[list[float]]]] = {}

    def add(method: str, graphs: Sequence[Any], ask: Callable[[Program], Iterator[int]], half: bool) -> None:
        for graph in graphs:
            program = Program(graph, half)
            found.setdefault(method, {}).setdefault(graph.name, []).append(curve(program, ask(program)))

    for seed in range(seeds):
        began = time.monotonic()
        for number, (train, graphs) in enumerate(parts(everything, seed)):
            ranker = fitted(train)
            add("random", graphs, partial(by_chance, seed=seed), False)
            add("order of the ranker", graphs, partial(ordered, ranker=ranker), False)
            add("chosen together", graphs, partial(ordered, ranker=ranker, together=max(COUNTS)), False)
            if seed == 0:
                add("tg.Tuner, the order as prior", graphs, partial(tuner, ranker=ranker), False)
            add(STAGES, graphs, partial(stages, ranker=ranker), False)
            add(SHARED, graphs, partial(stages, ranker=ranker, once=True), False)
            add(HALVES, graphs, partial(stages, ranker=ranker), True)
            names = sorted({name for name in groups(train) if name != COMPOSED})
            few = {COMPOSED, *names[::2]}
            some = [graph for graph, name in zip(train, groups(train), strict=True) if name in few]
            rest = [graph for graph, name in zip(train, groups(train), strict=True) if name not in few]
            base = fitted(some)
            add(f"stages, {HALF}", graphs, partial(stages, ranker=base), False)
            more = [
                tg.xla.stages._program(base, some[0], (graph.name, ""), journal(graph, base))
                for graph in rest
            ]
            learnt = fitted([*some, *more])
            add(f"stages, {HALF} {HALF_JOURNALS}", graphs, partial(stages, ranker=learnt), False)
            if quick and number == 0:
                break
        print(f"seed {seed}: {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
    return found


# ---- on this machine ------------------------------------------------------------------------------------

ZOO = ("option-pricing.1", "neuron-simulation.1", "decoder-block.1")
SPLITS, SECONDS, PAIRS = 5, 1.0, 6
ALONE = "import sys; from benchmarks.xla_tune import alone; alone(*sys.argv[1:])"


def written() -> dict[str, tuple[Any, tuple[Any, ...]]]:
    """Functions that are in no collection: name -> function, arguments."""
    import jax
    import jax.numpy as jnp

    def particles(p: Any) -> Any:
        away = p[:, None] - p[None]
        return (away / (((away**2).sum(-1) + 0.01) ** 1.5)[..., None]).sum(1)

    def convolution(x: Any, kernel: Any) -> Any:
        size = x.shape[-1]
        return jnp.fft.irfft(jnp.fft.rfft(x) * jnp.fft.rfft(kernel, size), size)

    def attention(q: Any, k: Any, v: Any) -> Any:
        return jax.nn.softmax(q @ k.swapaxes(-1, -2) / 8, -1) @ v

    def normal(*shape: int) -> Any:
        return np.random.default_rng(len(shape)).standard_normal(shape, np.float32)

    return {
        "particles": (particles, (normal(512, 3),)),
        "FFT convolution": (convolution, (normal(64, 16384), normal(64, 512))),
        "attention": (attention, (normal(2, 8, 256, 64),) * 3),
    }


def function(name: str) -> tuple[Any, tuple[Any, ...]]:
    """Function and arguments of a name."""
    mine = written()
    return mine[name] if name in mine else next(p for p in tg.xla.zoo.programs() if p.name == name).build()


def alone(name: str, path: str = "") -> None:
    """Print the median milliseconds of a call, tuned if there is a file of options."""
    import jax

    fn, given = function(name)
    given = jax.device_put(given)
    run, took = (tg.xla.apply(path, fn) if path else jax.jit(fn)), list[float]()
    for _ in range(2):
        jax.block_until_ready(run(*given))
    while sum(took) < SECONDS or len(took) < SPLITS:
        began = time.perf_counter()
        jax.block_until_ready(run(*given))
        took.append(time.perf_counter() - began)
    print(1e3 * float(np.median(took)))


def live() -> list[dict[str, Any]]:
    """Tune, and run before and after in turn."""
    data = tg.open_collection("options:xla:cpu")
    everything = [*data.train, *data.valid, *data.test]
    found = []
    for name in (*written(), *ZOO):
        pairs = list(zip(everything, groups(everything), strict=True))
        own = [group for graph, group in pairs if graph.name == name]
        ranker = fitted([graph for graph, group in pairs if group not in own])
        fn, given = function(name)
        began = time.monotonic()
        tuned = tg.xla.tune(fn, *given, ranker=ranker, name=name, verbose=False)
        seconds = time.monotonic() - began
        with tempfile.TemporaryDirectory() as folder:
            tuned.save(f"{folder}/tuned.json")
            times = []
            for _ in range(PAIRS):
                for path in ((), (f"{folder}/tuned.json",)):
                    command = [sys.executable, "-c", ALONE, name, *path]
                    done = subprocess.run(command, capture_output=True, text=True, check=True)
                    times.append(float(done.stdout))
        logs = np.log(np.array(times[::2]) / np.array(times[1::2]))
        half = 2.57 * logs.std(ddof=1) / math.sqrt(PAIRS)  # t of 5 degrees of freedom, 95 %
        memory = tuned.memory and [tuned.memory.gain, *tuned.memory.interval]
        found.append({
            "name": name, "seconds": seconds, "before": float(np.median(times[::2])),
            "after": float(np.median(times[1::2])), "options": sorted(tuned.options),
            "memory": memory, "keeps": tuned.keeps_memory,
            "gain": [tuned.gain, *(tuned.interval or ())] if tuned.options else None,
            "alone": [float(np.exp(x)) for x in (logs.mean(), logs.mean() - half, logs.mean() + half)],
        })  # fmt: skip
        print(found[-1], file=sys.stderr, flush=True)
    return found


def _interval(values: Sequence[float] | None) -> str:
    return f"{values[0]:.2f} ({values[1]:.2f} … {values[2]:.2f})" if values else "none"


# ---- tables ---------------------------------------------------------------------------------------------


def over_families(values: dict[str, Floats]) -> tuple[Floats, Floats]:
    """Mean over programs and its 95 % interval, in which families are redrawn."""
    families: dict[str, list[Floats]] = {}
    for name, value in values.items():
        families.setdefault(name.rpartition(".")[0], []).append(value)
    sums = np.array([np.sum(some, 0) for some in families.values()])
    counts = np.array([len(some) for some in families.values()])
    drawn = np.random.default_rng(0).integers(0, len(sums), (DRAWS, len(sums)))
    redrawn = sums[drawn].sum(1) / counts[drawn].sum(1)[:, None]
    return sums.sum(0) / counts.sum(), np.quantile(redrawn, [0.025, 0.975], axis=0)


def summary(curves: dict[str, list[list[float]]]) -> dict[str, Any]:
    """Means with intervals, medians, and shares of programs within 3 %, after each of the counts."""
    gaps = {name: np.mean(rows, 0) for name, rows in curves.items()}
    close = {name: 100 * np.mean(np.array(rows) <= 100 * CLOSE, 0) for name, rows in curves.items()}
    found: dict[str, Any] = {"seeds": min(map(len, curves.values()))}
    for what, values in (("gap", gaps), ("close", close)):
        mean, ends = over_families(values)
        found[what] = [[float(m), float(low), float(high)] for m, low, high in zip(mean, *ends, strict=True)]
    found["median"] = np.median(list(gaps.values()), axis=0).tolist()
    return found


def markdown(found: dict[str, Any]) -> str:
    """The page."""
    run, methods = found["run"], found["methods"]
    lines = [
        "# Tuning a function: options of XLA on a CPU", "",
        "Made by `python -m benchmarks.xla_tune --out docs/results`; figures are not edited.", "",
        f"{run['date']}, {run['cpu']}, {run['cores']} cores, commit {run['commit']}; "
        f"{found['seconds']:.0f} s, {found['seeds']} seeds, {found['programs']} programs. In brackets: 95 % "
        "intervals over families.", "", *(__doc__ or "").partition("\n\n")[2].splitlines(), "",
        FINDINGS.strip(), "", "## Goals", "", "| measurements | what | goal | found | |",
        "|---|---|---:|---:|---|",
    ]  # fmt: skip
    for (count, what), goal in GOALS.items():
        value = methods[STAGES][what][COUNTS.index(count)][0]
        met = value <= goal if what == "gap" else value >= goal
        title = "mean gap, %" if what == "gap" else f"programs within {CLOSE:.0%}, %"
        row = [f"{count}", title, f"{goal:g}", f"{value:.1f}", "reached" if met else "missed"]
        lines.append(f"| {' | '.join(row)} |")
    titles = {"gap": "Mean gap to the best of 112, %", "close": f"Programs within {CLOSE:.0%} of it, %"}
    for what, title in titles.items():
        lines += ["", f"## {title}", "", f"| tuner | {' | '.join(map(str, COUNTS))} |"]
        lines.append("|---|" + "---:|" * len(COUNTS))
        for method, one in methods.items():
            cells = [f"{m:.1f} ({low:.1f} … {high:.1f})" for m, low, high in one[what]]
            lines.append(f"| {method} | {' | '.join(cells)} |")
    lines += ["", "## Median gap, %", "", f"| tuner | {' | '.join(map(str, COUNTS))} |"]
    lines.append("|---|" + "---:|" * len(COUNTS))
    for method, one in methods.items():
        lines.append(f"| {method} | {' | '.join(f'{value:.1f}' for value in one['median'])} |")
    if found.get("live"):
        lines += ["", "## Before and after, on this machine", "", LIVE.strip(), ""]
        lines.append("| function | before, ms | after, ms | gain, apart | memory | options | took, s |")
        lines.append("|---|---:|---:|---:|---:|---:|---:|")
        for one in found["live"]:
            cells = [one["name"], f"{one['before']:.2f}", f"{one['after']:.2f}", _interval(one["alone"])]
            unused = "" if one["keeps"] or not one["memory"] else ", not kept"
            cells += [_interval(one["memory"]) + unused, _interval(one["gain"]), f"{one['seconds']:.0f}"]
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def main() -> int:
    """Replay all programs; 2 without JAX."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.xla_tune", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="smoke run: one fold, one seed, judges nothing")
    parser.add_argument("--seeds", type=int, default=5, help="from 0 on (default: %(default)s)")
    parser.add_argument("--live", action="store_true", help="only tune functions here, for the page in --out")
    parser.add_argument("--out", metavar="DIR", type=Path, help="write xla_tune.json and .md there")
    args = parser.parse_args()
    try:
        import jax  # noqa: F401
    except ImportError as error:
        print(f"{error.name} is not installed: pip install '.[jax]'", file=sys.stderr)
        return 2
    began, seeds = time.monotonic(), 1 if args.quick else args.seeds
    kept = args.out and args.out / "xla_tune.json"
    before = json.loads(kept.read_text()) if kept and kept.exists() else {}
    if args.live:
        return _write({**before, "live": live()}, args.out)
    curves = run(seeds, args.quick)
    found = {
        "live": before.get("live"),
        "run": machine.describe(args.quick), "seeds": seeds, "counts": COUNTS,
        "programs": len(curves[STAGES]), "seconds": round(time.monotonic() - began),
        "methods": {method: summary(one) for method, one in curves.items()},
    }  # fmt: skip
    return _write(found, args.out)


def _write(found: dict[str, Any], out: Path | None) -> int:
    text = markdown(found) if "methods" in found else json.dumps(found["live"], indent=1) + "\n"
    if out is None or "methods" not in found:
        print(text, end="")
        return 0
    out.mkdir(parents=True, exist_ok=True)
    rounded = json.loads(json.dumps(found), parse_float=lambda x: round(float(x), 3))
    content = json.dumps(rounded, allow_nan=False).replace("]], ", "]],\n") + "\n"
    (out / "xla_tune.json").write_text(content, encoding="utf-8")
    (out / "xla_tune.md").write_text(text, encoding="utf-8")
    return 0


LIVE = """
Made by `python -m benchmarks.xla_tune --live --out docs/results`: ten measurements each. Programs of the zoo
are of families left out of what the ranker learnt; the others are written for this. Before: `jax.jit(fn)` in
a process of its own; after: `tg.xla.apply` in another, in turn, six times each; medians of calls, and the
gain with its 95 % interval ("apart"). Memory and options are what `tg.xla.tune` said they bring, each by
itself; memory is not kept where that is within the noise. Nothing else ran.
"""

FINDINGS = """
**Ten measurements find most of what 112 would.** `stages` is how `tg.xla.tune` asks: the multi-task process
expects runtimes and how they go together, every measurement corrects it, and the next config is that of the
largest expected improvement. After 10 measurements its best is 5.0 % slower than the best of 112, after 20
2.4 %; at random 10.8 and 5.6 %, in the order of the same ranker without corrections 11.6 and 4.9 %, chosen
together beforehand 4.9 and 3.1 %, and `tg.Tuner`, to which the order is one column among others, 8.5 and
2.5 % (one seed).

- *Equal programs*: `tg.xla.tune` compiles a config before it measures it, so one that compiles to a program
  that was measured costs no measurement: 4.7 and 1.9 %.
- *Without luck*: the best of 112 owes part of its time to luck. If the tuner sees one half of the repeats
  and the other judges it, against the config that was fastest in the first half, the gap is 4.6 and 2.6 %.
- *Journals*: with half of the groups to learn from, the gap is 4.7 and 2.2 %, with journals of 20
  measurements of each program of the other half besides (`tg.xla.learn`) 4.9 and 2.6 %, with all their
  112 measurements 5.0 and 2.4 %. The intervals are wider than these differences: once half of the groups
  are known, more programs of other kinds hardly help.
- *Other means* (two seeds): with the order of boosted trees in place of the means
  of the process the gap is 8.4 and 3.0 %, with that of trees that learnt from costs 10.1 and 6.4 %, with
  averages of trees and process 6.6 and 3.3 %, 9.4 and 6.4 %. So costs help an order, not this tuner.
- *Settings* (scale, noise, what all configs of a program share) were looked at on 94 other programs. Between
  scales of 5 and 12, noises of 0.1 and 1, and shared variances of 0.5 and 10 the gaps were 3.8 to 4.6 and 2.4
  to 2.8 %, so little of the result is selection. On the present ones (two seeds, equal programs once) noises
  of the ranker of 1, 3 and 6 give 4.8, 4.6 and 4.2 %, and 1.9, 2.1 and 2.1 %.
"""

if __name__ == "__main__":
    sys.exit(main())
