"""Does learning help on programs that were never seen? Options and layouts of XLA, measured on a CPU.

Reads the collections that come with the package. Families are left out by group, so that what is judged
resembles nothing that was learnt; programs composed of random steps are only learnt from. A slowdown compares
the fastest of the first, or of the first five, with the fastest of all configs of a program.

``xla_costs.npz`` has the columns that ``tpugraphs collect --costs`` adds to the options, (configs, 6) by
program, compiled on the machine that measured.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import tpugraphs as tg
from tpugraphs.ranker.scorer import scoring

from . import machine

Floats = NDArray[np.float64]
Score = Callable[[Any, Any], Any]  # (graph, rows) -> scores
Fit = Callable[[Sequence[Any], int], Score]
VALUES = ("tau", "first", "five")
FOLDS, TRIED, DRAWS = 6, 5, 2000
COMPOSED = "composed"  # a group that is only learnt from
SHARES = (0.25, 0.5)  # of the groups, for the learning curve
CLASSES = {"20 ms and more": (20.0, np.inf), "2 to 20 ms": (2.0, 20.0), "less than 2 ms": (0.0, 2.0)}
MEAN, PROCESS, CHOSEN = "mean effect", "multi-task process", f"the same, {TRIED} chosen together"
TREES = "boosted trees"
HALF, RANDOM, DEFAULT = "half of the repeats", "random", "XLA's default"


# ---- what is compared -----------------------------------------------------------------------------------


def network(recipe: str, members: int = 1, **fields: Any) -> Fit:
    """Ranker of a recipe, or an ensemble of some."""

    def fit(train: Sequence[Any], seed: int) -> Score:
        made = [tg.Ranker(recipe, seed=members * seed + i, **fields) for i in range(members)]
        for ranker in made:
            ranker.fit(train, verbose=False)
        return scoring(made[0] if members == 1 else tg.Ensemble(made))

    return fit


def with_costs(fit: Fit) -> Fit:
    """The same with the costs of every compiled config."""

    def fitted(train: Sequence[Any], seed: int) -> Score:
        score = fit([costed(graph) for graph in train], seed)
        return lambda graph, rows: score(costed(graph), rows)

    return fitted


@cache
def costs() -> dict[str, Floats]:
    """Columns of costs by program."""
    with np.load(Path(__file__).with_name("xla_costs.npz")) as file:
        return dict(file)


def costed(graph: Any) -> Any:
    """The graph with columns of costs."""
    schema = replace(graph.schema, config=graph.schema.config + tg.xla.spaces.COSTS)
    return graph.replace(schema=schema, config_feat=np.hstack([graph.config_feat, costs()[graph.name]]))


def process(together: int = 0, **fields: Any) -> Fit:
    """Gaussian process over programs and configs; the first so many of its order chosen together."""

    def fit(train: Sequence[Any], seed: int) -> Score:
        made = tg.ranker.MultiTaskGaussianProcess(seed=seed, **fields)
        return scoring(made.fit(train), together=together)

    return fit


def mean_effect(train: Sequence[Any], seed: int) -> Score:
    """Mean effect of a config on the programs that were learnt from."""
    return scoring(tg.ranker.MeanEffect().fit(train))


trees = network("eighth-lightgbm", objective="l2", target="normal-score")
METHODS: dict[str, dict[str, Fit]] = {
    "options:xla:cpu": {
        MEAN: mean_effect,
        PROCESS: process(),
        CHOSEN: process(TRIED),
        f"the same, {TRIED} together, all programs alike": process(TRIED, length=1e6),
        TREES: trees,
        f"{TREES}, with costs": with_costs(trees),
        "graph-config": network("graph-config", steps=1000),
        "graph-config, 4 members": network("graph-config", 4, steps=1000),
    },
    "layout:xla:cpu": {
        TREES: trees,
        "graph-config": network("graph-config", steps=300),
        "first-layout": network("first-layout", steps=300),
    },
}
ALONE = {  # also judged with a program's relatives among those that are learnt from
    "options:xla:cpu": (MEAN, PROCESS, CHOSEN),
    "layout:xla:cpu": (),
}
FIXED = (MEAN, PROCESS)  # the same for every seed


# ---- judging --------------------------------------------------------------------------------------------


def judged(graph: Any, score: Score) -> list[float]:
    """Tau, and slowdowns of the first and of the best of five, in %; configs that failed are left out."""
    scores, times = np.asarray(score(graph, None))[graph.ran], graph.runtime[graph.ran]
    slow = [100 * tg.metrics.top_k_slowdown(scores, times, k) for k in (1, TRIED)]
    return [tg.metrics.kendall_tau(scores, times), *slow]


def by_chance(graph: Any) -> list[float]:
    """The same for a random order, expected: the fastest of k is at place i with C(n-1-i, k-1) / C(n, k)."""
    times = np.sort(graph.runtime[graph.ran].astype(np.float64))
    n, slow = len(times), []
    for k in (1, TRIED):
        left, share = 1.0, np.zeros(n)  # left: none of the first i is among the k
        for i in range(n - k + 1):
            share[i] = left * k / (n - i)
            left *= 1 - k / (n - i)
        slow.append(100 * float(share @ times / times[0] - 1))
    return [0.0, *slow]


def by_default(graph: Any) -> list[float]:
    """XLA's own choice, which is one config and no order."""
    slow = 100 * float(graph.runtime[0] / graph.runtime[graph.ran].min() - 1)
    return [float("nan"), slow, slow]


def by_half(graph: Any) -> list[float]:
    """Order of one half of the repeats, judged by the other half: what noise alone costs."""
    some = graph.repeats[graph.ran]
    halves, found = (some[:, ::2].min(1), some[:, 1::2].min(1)), []
    for scores, times in (halves, halves[::-1]):
        slow = [100 * tg.metrics.top_k_slowdown(scores, times, k) for k in (1, TRIED)]
        found.append([graph.about["noise_ceiling"], *slow])
    return [float(x) for x in np.mean(found, 0)]


def family(graph: Any) -> str:
    """Family of a program: its name without the size."""
    return str(graph.name).rpartition(".")[0]


def milliseconds(graph: Any) -> float:
    """Time of a program by XLA's default."""
    return float(graph.runtime[0] / 1e6)


def within(graph: Any, size: str) -> bool:
    """Whether a program is of that class of sizes."""
    low, high = CLASSES[size]
    return low <= milliseconds(graph) < high


def groups(graphs: Sequence[Any]) -> list[str]:
    """Return the group of related families that each program belongs to."""
    return [tg.xla.zoo.families()[family(graph)].group for graph in graphs]


def parts(graphs: Sequence[Any], seed: int, share: float = 1.0) -> Iterator[tuple[list[Any], list[Any]]]:
    """Yield (learnt, judged) of folds by group; with a share, that share of the other groups is learnt."""
    rng, of = np.random.default_rng(seed), groups(graphs)
    names = [str(name) for name in rng.permutation(sorted(set(of) - {COMPOSED}))]
    for fold in range(FOLDS):
        left_out = set(names[fold::FOLDS])
        others = [name for name in names if name not in left_out]
        learnt = {COMPOSED, *others[: max(1, round(share * len(others)))]}
        pairs = list(zip(graphs, of, strict=True))
        yield [g for g, name in pairs if name in learnt], [g for g, name in pairs if name in left_out]


def run(collection: str, seeds: int, quick: bool) -> dict[str, Any]:
    """Judge all methods on a collection: protocol -> method -> graph -> values, one list per seed."""
    data = tg.open_collection(collection)
    learnt, test = [*data.train, *data.valid], list(data.test)
    everything = [*learnt, *test]
    found: dict[str, dict[str, dict[str, list[list[float]]]]] = {}

    def add(protocol: str, method: str, graphs: Sequence[Any], score: Callable[[Any], Any]) -> None:
        values = found.setdefault(protocol, {}).setdefault(method, {})
        for graph in graphs:
            values.setdefault(graph.name, []).append(score(graph))

    def fitted(protocol: str, method: str, train: Sequence[Any], graphs: Sequence[Any], seed: int) -> None:
        score = METHODS[collection][method](train, seed)
        add(protocol, method, graphs, lambda graph: judged(graph, score))

    real = [g for g, name in zip(everything, groups(everything), strict=True) if name != COMPOSED]
    fixed = {HALF: by_half, RANDOM: by_chance, DEFAULT: by_default}
    for protocol, graphs in (("left out", real), ("test split", test)):
        for method, score in fixed.items():
            add(protocol, method, graphs, score)
    for method in METHODS[collection]:
        began = time.monotonic()
        for seed in range(seeds):
            for train, graphs in list(parts(everything, seed))[: 1 if quick else None]:
                fitted("left out", method, train, graphs, seed)
            if seed == 0 or method not in FIXED:
                fitted("test split", method, learnt, test, seed)
        for share in () if quick else SHARES:
            for train, graphs in parts(everything, 0, share):
                fitted(f"left out, {share:.0%} of the groups", method, train, graphs, 0)
        for size in () if quick or method not in ALONE[collection] else CLASSES:
            for train, graphs in parts(everything, 0):
                alike = [one for one in train if within(one, size)]
                if alike and len(alike) < len(train):
                    fitted(f"left out, learnt from programs of {size}", method, alike, graphs, 0)
        for graph in real if method in ALONE[collection] and not quick else ():
            others = [one for one in everything if one is not graph]
            fitted("only the program itself left out", method, others, [graph], 0)
        took = time.monotonic() - began
        print(f"{collection}: {method}: {took:.0f} s", file=sys.stderr, flush=True)
    every = {graph.name: milliseconds(graph) for graph in everything}
    about = {"run": machine.describe(quick), "seeds": seeds, "ms": every}
    return {**about, "learnt": len(learnt), "test": len(test), "real": len(real), "found": found}


# ---- tables ---------------------------------------------------------------------------------------------


def means(values: dict[str, list[list[float]]]) -> dict[str, Floats]:
    """Means (3,) over the seeds, by graph."""
    return {name: np.mean(rows, 0) for name, rows in values.items()}


def interval(values: dict[str, Floats]) -> tuple[Floats, Floats]:
    """Mean (3,) over programs, and its 95 % interval (2, 3), in which families are redrawn."""
    families: dict[str, list[Floats]] = {}
    for name, value in values.items():
        families.setdefault(name.rpartition(".")[0], []).append(value)
    sums = np.array([np.sum(some, 0) for some in families.values()])
    counts = np.array([len(some) for some in families.values()])
    rng = np.random.default_rng(0)
    drawn = rng.integers(0, len(sums), (DRAWS, len(sums)))
    redrawn = sums[drawn].sum(1) / counts[drawn].sum(1)[:, None]
    return sums.sum(0) / counts.sum(), np.quantile(redrawn, [0.025, 0.975], axis=0)


def _cell(mean: Floats, ends: Floats, i: int) -> str:
    if np.isnan(mean[i]):
        return ""
    digits = 3 if VALUES[i] == "tau" else 1
    return f"{mean[i]:.{digits}f} ({ends[0, i]:.{digits}f} … {ends[1, i]:.{digits}f})"


def table(methods: dict[str, dict[str, list[list[float]]]]) -> list[str]:
    """A row for each method, with the difference to the mean effect where there is one."""
    base = means(methods[MEAN]) if MEAN in methods else None
    head = ["method", "tau", "first, %", f"best of {TRIED}, %", "median", "sd of seeds"]
    head += ["less the mean effect, tau", "best of five"] if base else []
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for method, values in methods.items():
        mean = means(values)
        centre, ends = interval(mean)
        by_seed = np.array([[row[seed] for row in values.values()] for seed in range(_seeds(values))]).mean(1)
        several = len(by_seed) > 1
        spread = (
            " / ".join(f"{x:.{d}f}" for x, d in zip(by_seed.std(0, ddof=1), (3, 1, 1), strict=True))
            if several
            else ""
        )
        middle = np.median([value[2] for value in mean.values()])
        row = [method, *(_cell(centre, ends, i) for i in range(3)), f"{middle:.1f}", spread]
        if base:
            same = {name: value - base[name] for name, value in mean.items() if name in base}
            centre, ends = interval(same)
            learnt = method not in (MEAN, DEFAULT, HALF)
            row += [_cell(centre, ends, i) if learnt else "" for i in (0, 2)]
        lines.append("| " + " | ".join(row) + " |")
    return lines


def _seeds(values: dict[str, list[list[float]]]) -> int:
    return min(len(rows) for rows in values.values())


def markdown(found: dict[str, Any], text: str) -> str:
    """All tables."""
    lines = [
        "# Programs never seen: options and layouts of XLA on a CPU", "",
        "Made by `python -m benchmarks.xla_cpu --out docs/results`; figures are not edited. In brackets: "
        "95 % intervals over families.", "", text.strip(),
    ]  # fmt: skip
    for collection, one in found.items():
        run = one["run"]
        lines += [
            "", f"## {collection}", "", f"{run['date']}, {run['cpu']}, {run['cores']} cores, commit "
            f"{run['commit']}; {one['seeds']} seeds.", "",
            f"![Methods]({picture(collection)})",
        ]  # fmt: skip
        for protocol, methods in one["found"].items():
            programs = len(next(iter(methods.values())))
            lines += ["", f"### {protocol}: {programs} programs", "", *table(methods)]
            for size, some in by_size(methods, one["ms"]) if protocol == "left out" else ():
                programs = len(next(iter(some.values())))
                lines += ["", f"### {protocol}, of {size}: {programs} programs", "", *table(some)]
    return "\n".join(lines) + "\n"


def by_size(
    methods: dict[str, dict[str, list[list[float]]]], ms: dict[str, float]
) -> Iterator[tuple[str, dict[str, dict[str, list[list[float]]]]]]:
    """The same values of the programs of each class of sizes, the largest first."""
    for size, (low, high) in CLASSES.items():
        some = {
            method: {name: rows for name, rows in values.items() if low <= ms[name] < high}
            for method, values in methods.items()
        }
        if any(some.values()):
            yield size, some


def picture(collection: str) -> str:
    """File name of the picture of a collection."""
    return f"xla_cpu-{collection.partition(':')[0]}.png"


def draw(collection: str, methods: dict[str, dict[str, list[list[float]]]]) -> Any:
    """Tau and slowdown of the best of five of every method, with intervals over families."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.6, 1.3 + 0.34 * len(methods)), dpi=95, layout="constrained", facecolor="white")
    FigureCanvasAgg(figure)
    names = list(methods)[::-1]
    found = [interval(means(methods[name])) for name in names]
    axes = figure.subplots(1, 2, sharey=True)
    for ax, i, title in zip(
        axes, (0, 2), ("Kendall's tau", f"best of {TRIED}, above the best (%)"), strict=True
    ):
        for place, (name, (mean, ends)) in enumerate(zip(names, found, strict=True)):
            if not np.isnan(mean[i]):
                colour = "#9aa0a6" if name in (RANDOM, HALF, DEFAULT) else "#1764ab"
                ax.plot(ends[:, i], [place, place], color=colour, linewidth=2, alpha=0.5)
                ax.plot(mean[i], place, "o", color=colour, markersize=7)
                ax.annotate(f"{mean[i]:.2f}" if i == 0 else f"{mean[i]:.1f}", (mean[i], place), (0, 7),
                            textcoords="offset points", ha="center", fontsize=8)  # fmt: skip
        ax.set_title(title, loc="left", fontsize=10.5, fontweight="bold")
        ax.set_yticks(range(len(names)), names)
        ax.set_ylim(-0.6, len(names) - 0.2)
        ax.set_xlim(left=min(0.0, ax.get_xlim()[0]))
        ax.spines[["top", "right"]].set_visible(False)
        ax.grid(axis="x", color="#e4e4e4")
    return figure


def main() -> int:
    """Run all methods; 2 without LightGBM or JAX."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.xla_cpu", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="smoke run: one fold, one seed, judges nothing")
    parser.add_argument("--seeds", type=int, default=5, help="from 0 on (default: %(default)s)")
    parser.add_argument("--only", choices=tuple(METHODS), help="one collection; others as they are in --out")
    parser.add_argument("--out", metavar="DIR", type=Path, help="write xla_cpu.json, .md and pictures there")
    args = parser.parse_args()
    try:
        import jax  # noqa: F401
        import lightgbm  # noqa: F401
    except ImportError as error:
        print(f"{error.name} is not installed: pip install '.[bench,jax]'", file=sys.stderr)
        return 2
    seeds = 1 if args.quick else args.seeds
    kept, found = args.out and args.out / "xla_cpu.json", {}
    if args.only and kept and kept.exists():
        found = json.loads(kept.read_text().replace("null", "NaN"))  # XLA's default is no order
    found |= {name: run(name, seeds, args.quick) for name in ([args.only] if args.only else METHODS)}
    text = markdown(found, FINDINGS)
    if args.out is None:
        print(text, end="")
        return 0
    args.out.mkdir(parents=True, exist_ok=True)
    rounded = json.loads(
        json.dumps(found), parse_float=lambda x: round(float(x), 4), parse_constant=lambda _: None
    )
    content = json.dumps(rounded, allow_nan=False).replace("]], ", "]],\n") + "\n"
    (args.out / "xla_cpu.json").write_text(content, encoding="utf-8")
    (args.out / "xla_cpu.md").write_text(text, encoding="utf-8")
    for name, one in found.items():
        tg.evaluation.plot.save(draw(name, one["found"]["left out"]), args.out / picture(name))
    return 0


FINDINGS = """
**Does learning help on programs never seen? Yes, where a few may be tried.** Five sets of options that the
multi-task process chooses together cost 9.9 % more than the best of 112, against 21.1 % for the first five
of the mean effect, 18.1 % for five at random and 33.0 % for XLA's own choice; in the median 3.7, 6.9, 9.7
and 13.9 %. On programs of 20 ms and more it is 8.8 %, and 19.3, 18.6 and 34.8 %. Against XLA's own choice
the best of the five gains 7.1 % in the median and 20.3 % in the mean; 5 % or more on 62 % of the programs,
and 5 % of them lose more than 3 %. As an order, what is learnt is hardly better than the mean effect (tau
0.36, 0.34; the ceiling of the measurements is 0.66). The hope was 7.5 % and a tau of 0.42. With layouts,
`first-layout` has half of what the measurements allow (tau 0.26 of 0.50), and its best of five costs 8.4 %;
random's costs 18.3 %, XLA's own choice 8.6 %.

**What bounds it** (options; "before": 94 small programs, measured on another machine, which were the
collection until all sizes were measured):

- *Not noise.* Two halves of the rounds agree with a tau of 0.66; judged by one half, the best five of the
  other cost 2.7 %. Weighting programs by their own noise changes little: tau 0.358 and 10.6 % in place of
  0.357 and 10.9 % (five seeds, by the means as they are); larger noise for all does as much.
- *A few programs make the mean.* Without the five that cost the chosen five most, they cost 7.3 %, and
  random's 15.7 %. `power-iteration` is fast without folded transposes, `segment-sums.0` without
  optimisation: hardly any other program is. So it is on the test split, where the five cost 18.2 %,
  random's 22.2 % and XLA's own choice 39.0 %, in the median 3.3, 10.3 and 13.7 %.
- *Not the size.* Long programs are no easier: with fewer rounds, two halves of them agree with a tau of
  0.56, of programs of less than 2 ms with 0.71. Learnt from programs of less than 2 ms alone, tau is 0.360;
  from those of 20 ms and more alone, which are fewer, 0.329.
- *The program itself.* With other sizes of the same program among those that are learnt from, tau is 0.45,
  and the chosen five cost 6.9 %. More unrelated programs help the order slowly: with a quarter, half and
  all of the groups the tau is 0.336, 0.352 and 0.357; the chosen five cost 9.6, 8.5 (one seed each) and
  9.9 %. Nor does their likeness help the five: if all programs count as alike, they cost 9.9 %, too (tau
  0.345).
- *Costs as features: a little.* What XLA expects of each compiled set
  (`collect(..., costs=True)`) gives trees a tau of 0.373 in place of 0.350: 0.349 in place of 0.310 on
  programs of 20 ms and more, 0.409 in place of 0.381 on those of less than 2 ms. Their best of five hardly
  differs, 17.6 and 16.8 %, and their first choice is worse, 39.2 and 33.4 %. So costs are an option, and
  not part of the collection.
- *Not the method.* Trees, networks and the process are within 0.013 of each other. Before, kernel
  regressions, many settings and averages were within 0.02, and a length per feature by the largest
  likelihood was worse.
- *Not the network.* Four members that do not see the nodes, whose row then stands for the program alone
  (five seeds), have a tau of 0.351, and their best of five costs 14.0 %. With noise of 1.0 on that row it
  is 0.341 and 14.4 % after 1,000 steps, 0.360 and 14.4 % after 4,000. So the order gains a little, and five
  choices lose against the default with nodes (12.6 %).
- *Not the target.* In place of the normal quantiles of ranks (two seeds: 0.355, 10.9 %) logarithms of the
  runtimes give 0.335 and 13.8 %, clipped ones 0.332 and 12.8 %, the mean of both 0.346 and 11.4 %.
- *Not the choice of five.* By the means as they are it costs 10.9 %, with 0.7 of them, as now, 9.9 % (five
  seeds). The five that are best for the programs learnt from, by their measured slowdowns, cost 13.1 %,
  with slowdowns cut off at 2 11.8 % (two seeds). The five that would be best for all 188 programs at once,
  chosen with their own measurements, cost 6.8 %.
- *One after the other* it is better: [ten measurements](xla_tune.md), each chosen by what those before have
  shown, end 4.7 % from the best.

Settings (length, noise, covariance, the factor of the means) were looked at on the folds of two to five
seeds of this very table. Their neighbours differ by 0.003 in tau and by 1 % in the best of five, as the
result's own seeds do, so little of it is selection, but not nothing.
"""

if __name__ == "__main__":
    sys.exit(main())
