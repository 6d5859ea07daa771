"""What searches find with 200 and 1,000 scores, with pymoo's GA and SciPy's dual annealing beside.

Five problems: trained rankers on a graph of options and one of layouts (CPU), on AlexNet's layouts (TPU), and
on two tables of GPU kernels. Every method scores as many different configs; asking for one again is free for
the peers, and does not happen to ours. SciPy comes from ``.[bench]``; pymoo: ``pip install pymoo``.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import tpugraphs as tg
from tpugraphs import search
from tpugraphs.data import samples

from . import any_schema, machine

BUDGETS = (200, 1000)
HELD_OUT = 300  # first seed: settings were chosen on others
LEARNT = 200  # configs of a table that its ranker knows
LONG = 6000  # scores of the searches that say what is the best known
CALLS = 2  # calls of a peer for each score of its budget, after which it only repeats itself
OURS = ("genetic", "annealing", "langevin", "sample")
PEERS = (
    "pymoo GA, 20",
    "pymoo GA, 100",
    "pymoo GA, 20, uniform",
    "dual annealing",
    "dual annealing, no local",
)
Codes = NDArray[Any]

BOUNDS = """## What bounds the rest

Sizes of populations, numbers of chains and temperatures were chosen on other seeds, but on these five
graphs, so the figures say little about problems of another kind. Only the space of the first layouts is
huge. On the two tables the genetic algorithm and the best peer cannot be told apart with 20 seeds;
elsewhere it is ahead at 200.

Langevin proposals halve the gap of the genetic algorithm on the layouts of decoder-block.0 at 200 scores,
at the price of gradients. At 1,000 scores they are behind it.

SciPy's two rows are equal: its local search changed nothing within these budgets.

Own time is 2 to 8 microseconds per config for the genetic algorithm and annealing: 3 to 4 % of scoring
where a model looks at a graph. On the tables eight networks score a config in 19 to 58 microseconds, and
own time is 8 to 11 % of that, above the 5 % that were wanted. Most of it is a fixed cost of each batch.
Larger batches spread it, but score faster, too, and find less; the genetic algorithm's grow, which takes a
third off the time of scoring. For Langevin proposals it is 5 and 8 %, 20 and 43 microseconds.
"""


# ---- problems -------------------------------------------------------------------------------------------


def problems(data: Path, quick: bool) -> dict[str, tuple[Any, tg.Graph]]:
    """Scorers and graphs by name."""
    few: dict[str, Any] = {"steps": 5} if quick else {}

    def ranker(recipe: str, train: Any, seed: int = 0, **fields: Any) -> tg.Ranker:
        return tg.Ranker(recipe, seed=seed, **{**fields, **few}).fit(train, verbose=False)

    def ensemble(train: Any, members: int) -> tg.Ensemble:
        return tg.Ensemble([ranker("graph-config", train, m) for m in range(2 if quick else members)])

    options, layouts = (tg.open_collection(f"{kind}:xla:cpu") for kind in ("options", "layout"))
    made: dict[str, tuple[Any, tg.Graph]] = {
        "options of decoder-block.0": (ensemble(list(options.train), 4), options.test[0]),
        "layouts of decoder-block.0": (
            ranker("first-layout", list(layouts.train), steps=300),
            layouts.test[0],
        ),
    }
    if quick:
        return made
    alexnet = tg.sample("alexnet").select(slice(0, 2000))
    made["layouts of AlexNet"] = ranker("first-layout", alexnet, steps=150), alexnet
    for kernel in any_schema.KERNELS:
        (graph,) = any_schema.graphs(data / "measured", kernel, ("A100",))
        rows = np.random.default_rng(0).permutation(graph.num_configs)[:LEARNT]
        made[f"{kernel} on A100"] = ensemble(graph.select(np.sort(rows)), 8), graph
    return made


class Spent(Exception):
    """A peer has used its budget."""


class Fitness:
    """Scores of codes, each computed once, and the best after each number of different ones."""

    def __init__(self, scorer: Any, graph: tg.Graph, budget: int) -> None:
        self.scorer, self.graph, self.budget = scorer, graph, budget
        self.parameters = search._Parameters.of_graph(graph)
        self.sizes = self.parameters.sizes
        self.known: dict[bytes, float] = {}
        self.best: list[float] = []
        self.calls = 0

    def score(self, codes: Codes) -> NDArray[np.float64]:
        """Score codes by the scorer."""
        return search.score_configs(self.scorer, self.graph, self.parameters.configs(codes.astype(np.int32)))

    def __call__(self, codes: Codes) -> NDArray[np.float64]:
        """Score codes for a peer; ends it when its budget is spent."""
        codes = np.ascontiguousarray(codes, np.int32)
        keys = [code.tobytes() for code in codes]
        new = [key for key in dict.fromkeys(keys) if key not in self.known][: self.budget - len(self.known)]
        if new:
            scores = self.score(np.stack([np.frombuffer(key, np.int32) for key in new]))
            for key, score in zip(new, scores.tolist(), strict=True):
                self.known[key] = score
                self.best.append(min(score, self.best[-1] if self.best else math.inf))
        self.calls += len(keys)
        if len(self.known) >= self.budget or self.calls > CALLS * self.budget:
            raise Spent
        return np.array([self.known[key] for key in keys])


# ---- peers ----------------------------------------------------------------------------------------------


def pymoo_ga(fitness: Fitness, seed: int, population: int, uniform: bool) -> None:
    """pymoo's GA on whole numbers, with its manual's crossover and mutation or those for categories."""
    from pymoo.algorithms.soo.nonconvex.ga import GA
    from pymoo.core.mutation import Mutation
    from pymoo.core.problem import Problem
    from pymoo.operators.crossover.sbx import SBX
    from pymoo.operators.crossover.ux import UX
    from pymoo.operators.mutation.pm import PM
    from pymoo.operators.repair.rounding import RoundingRepair
    from pymoo.operators.sampling.rnd import IntegerRandomSampling
    from pymoo.optimize import minimize

    sizes = fitness.sizes

    class Codes_(Problem):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__(n_var=len(sizes), n_obj=1, xl=0, xu=sizes - 1, vtype=int)

        def _evaluate(self, x: Any, out: Any, *args: Any, **kwargs: Any) -> None:
            out["F"] = fitness(x)[:, None]

    class Redraw(Mutation):  # type: ignore[misc]
        def _do(self, problem: Any, x: Any, *args: Any, random_state: Any = None, **kwargs: Any) -> Any:
            drawn = np.floor(random_state.random(x.shape) * sizes).astype(int)
            return np.where(random_state.random(x.shape) < 1 / x.shape[1], drawn, x)

    rounded = {"vtype": float, "repair": RoundingRepair()}
    crossover = UX() if uniform else SBX(prob=1.0, eta=3.0, **rounded)
    mutation = Redraw() if uniform else PM(prob=1.0, eta=3.0, **rounded)
    algorithm = GA(
        pop_size=population,
        sampling=IntegerRandomSampling(),
        crossover=crossover,
        mutation=mutation,
        eliminate_duplicates=True,
    )
    minimize(Codes_(), algorithm, ("n_gen", 10**6), seed=seed, verbose=False)


def dual(fitness: Fitness, seed: int, local: bool) -> None:
    """SciPy's dual annealing on the numbers of the values, rounded down."""
    from scipy.optimize import dual_annealing

    sizes = fitness.sizes
    free = np.flatnonzero(sizes > 1)

    def scored(x: Any) -> float:
        codes = np.zeros((1, len(sizes)), np.int32)
        codes[0, free] = np.minimum(np.floor(x), sizes[free] - 1)
        return float(fitness(codes)[0])

    bounds = [(0, int(size)) for size in sizes[free]]
    dual_annealing(scored, bounds, maxiter=10**6, maxfun=10**7, rng=seed, no_local_search=not local)


RUNS: dict[str, Callable[[Fitness, int], None]] = {
    PEERS[0]: lambda fitness, seed: pymoo_ga(fitness, seed, 20, False),
    PEERS[1]: lambda fitness, seed: pymoo_ga(fitness, seed, 100, False),
    PEERS[2]: lambda fitness, seed: pymoo_ga(fitness, seed, 20, True),
    PEERS[3]: lambda fitness, seed: dual(fitness, seed, True),
    PEERS[4]: lambda fitness, seed: dual(fitness, seed, False),
}


def peer(name: str, fitness: Fitness, seed: int, budgets: Sequence[int]) -> list[float]:
    """The best score that a peer has found at each budget."""
    try:
        RUNS[name](fitness, seed)
    except Spent:
        pass
    return [fitness.best[min(budget, len(fitness.best)) - 1] for budget in budgets]


# ---- ours -----------------------------------------------------------------------------------------------


class Timed(tg.ranker.ScorerBase):
    """A scorer that notes how long it takes."""

    kind, fitted, takes_configs = "any", True, True

    def __init__(self, scorer: Any) -> None:
        self.scorer, self.seconds = scorer, 0.0
        if hasattr(scorer, "slopes"):
            self.slopes = lambda *given: self._timed(scorer.slopes, *given)

    def _timed(self, call: Any, *given: Any, **options: Any) -> Any:
        began = time.perf_counter()
        found = call(*given, **options)
        self.seconds += time.perf_counter() - began
        return found

    def predict(self, *given: Any, **options: Any) -> Any:
        """Score as the scorer does."""
        return self._timed(self.scorer.predict, *given, **options)


def one_problem(name: str, scorer: Any, graph: tg.Graph, seeds: Sequence[int], budgets: Sequence[int]) -> Any:
    """Records of a problem: all methods, seeds and budgets, and what is the best known."""
    records, fitness = [], Fitness(scorer, graph, max(budgets))
    sizes = fitness.sizes
    drawn = np.random.default_rng(1).integers(0, sizes, (500, len(sizes)))
    median = float(np.median(fitness.score(drawn)))
    known, reading = math.inf, list[float]()
    for _ in range(5):
        began = time.perf_counter()
        search._Parameters.of_graph(graph)
        reading.append(time.perf_counter() - began)
    read = float(np.median(reading))
    for seed in range(3):
        long = search.minimize(scorer, graph, budget=max(budgets) * LONG // max(BUDGETS), seed=seed, batch=64)
        known = min(known, float(long.scores[0]))
    for seed in seeds:
        for method in OURS:
            if method == "langevin" and not hasattr(scorer, "slopes"):
                continue
            for budget in budgets:
                timed = Timed(scorer)
                began = time.perf_counter()
                best = search.minimize(timed, graph, method, budget=budget, seed=seed)
                own = time.perf_counter() - began - timed.seconds - read
                record = {"problem": name, "method": method, "seed": seed, "budget": budget}
                times = {"scoring": timed.seconds, "own": own}
                records.append({**record, "score": float(best.scores[0]), **times})
        for method in RUNS:
            found = peer(method, Fitness(scorer, graph, max(budgets)), seed, budgets)
            for budget, score in zip(budgets, found, strict=True):
                records.append(
                    {"problem": name, "method": method, "seed": seed, "budget": budget, "score": score}
                )
    known = min([known, *(float(record["score"]) for record in records)])
    size = math.prod(sizes.tolist())
    return {
        "problem": name,
        "median": median,
        "known": known,
        "size": size,
        "free": int((sizes > 1).sum()),
        "read": read,
    }, records


# ---- the page -------------------------------------------------------------------------------------------


def _mean(values: Sequence[float]) -> str:
    found = np.array(values)
    half = 1.96 * found.std(ddof=1) / math.sqrt(len(found)) if len(found) > 1 else math.nan
    return f"{found.mean():.4f} ± {half:.4f}"


def _table(head: Sequence[str], lines: Sequence[Sequence[str]]) -> list[str]:
    return ["", *("| " + " | ".join(line) + " |" for line in (head, ["---"] * len(head), *lines)), ""]


def markdown(found: dict[str, Any]) -> str:
    """The page of the results."""
    run, records, names = found["run"], found["records"], [one["problem"] for one in found["problems"]]
    about = {one["problem"]: one for one in found["problems"]}
    budgets = sorted({record["budget"] for record in records})
    methods = list(dict.fromkeys(record["method"] for record in records))

    def gap(record: dict[str, Any]) -> float:
        one = about[record["problem"]]
        return float((record["score"] - one["known"]) / (one["median"] - one["known"]))

    gaps: dict[tuple[str, str, int], list[float]] = {}
    for record in records:
        gaps.setdefault((record["method"], record["problem"], record["budget"]), []).append(gap(record))
    lines = [
        "# Searches",
        "",
        "Made by `python -m benchmarks.search`; figures are not edited.",
        "",
        f"{run['date']}, {run['cpu']}, {run['cores']} cores, commit {run['commit']}; "
        f"{found['seconds']:.0f} s; seeds {found['seeds'][0]} to {found['seeds'][-1]}.",
        "",
        "A cell is the gap between the best score found and the best known, over that between a median "
        "random config and the best known: 0 is the best known, 1 a random config. Mean over the seeds, with "
        "an interval of 95 %. Peers pay only for different configs.",
    ]
    lines += _table(
        ["problem", "free parameters", "configs"],
        [[name, str(about[name]["free"]), f"{about[name]['size']:.3g}"] for name in names],
    )
    for budget in budgets:
        lines += [f"## {budget:,} scores"]
        lines += _table(
            ["method", *names],
            [
                [
                    method,
                    *(
                        _mean(gaps[method, name, budget]) if (method, name, budget) in gaps else "-"
                        for name in names
                    ),
                ]
                for method in methods
            ],
        )
    lines += [
        "## Genetic less the best peer",
        "",
        "Differences seed by seed to the peer with the best mean in that column; below 0: ours is better.",
    ]
    table = []
    for budget in budgets:
        cells = []
        for name in names:
            best = min(RUNS, key=lambda peer: float(np.mean(gaps[peer, name, budget])))
            less = np.subtract(gaps["genetic", name, budget], gaps[best, name, budget])
            cells.append(f"{_mean(less.tolist())} ({best})")
        table.append([f"{budget:,}", *cells])
    lines += _table(["scores", *names], table)
    lines += [
        "## Time of the search",
        "",
        f"Own time over that of scoring, %, at {budgets[-1]:,} scores. A search first reads which values the "
        "graph's configs have; the first line has that time, and the others are without it.",
    ]
    table = [["reading, ms", *(f"{1000 * about[name]['read']:.1f}" for name in names)]]
    for method in OURS:
        row = [method]
        for name in names:
            some = [
                r for r in records if (r["method"], r["problem"], r["budget"]) == (method, name, budgets[-1])
            ]
            share = 100 * sum(r["own"] for r in some) / max(1e-9, sum(r["scoring"] for r in some))
            row.append(f"{share:.1f}" if some else "-")
        table.append(row)
    lines += _table(["method", *names], table)
    return "\n".join([*lines, BOUNDS])


def parser() -> argparse.ArgumentParser:
    """The options."""
    made = argparse.ArgumentParser(prog="python -m benchmarks.search", description=__doc__)
    made.add_argument("--quick", action="store_true", help="smoke run: small, judges nothing")
    made.add_argument("--seeds", type=int, default=20, help=f"from {HELD_OUT} on (default: 20)")
    made.add_argument("--data", metavar="DIR", type=Path, default=samples.data_folder())
    made.add_argument("--out", metavar="DIR", type=Path, help="write search.json and search.md there")
    return made


def main() -> int:
    """Run all problems; 2 without pymoo."""
    args = parser().parse_args()
    why = None if args.quick else any_schema.missing(args.data / "measured")
    if why is not None:
        print(f"skipped: {why}", file=sys.stderr)
        return 0
    try:
        import pymoo  # noqa: F401
        import scipy  # noqa: F401
    except ImportError as error:
        print(f"{error}: pip install pymoo scipy", file=sys.stderr)
        return 2
    began, seeds = time.monotonic(), list(range(HELD_OUT, HELD_OUT + (2 if args.quick else args.seeds)))
    found: dict[str, Any] = {
        "run": machine.describe(args.quick),
        "seeds": seeds,
        "problems": [],
        "records": [],
    }
    for name, (scorer, graph) in problems(args.data, args.quick).items():
        about, records = one_problem(name, scorer, graph, seeds, (40, 60) if args.quick else BUDGETS)
        found["problems"].append(about)
        found["records"] += records
        print(f"{name}: {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
    found["seconds"] = time.monotonic() - began
    text = markdown(found)
    if args.out is None:
        print(text, end="")
        return 0
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / "search.json").write_text(json.dumps(found).replace("}, {", "},\n{") + "\n", encoding="utf-8")
    (args.out / "search.md").write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
