"""Tuners that are replayed beside ours, as their authors ship them; a surrogate in its plainest form.

A tuner is a function of a space, the spaces of the same kernel on other devices, a seed, the evaluations to
make and the seconds it may take, that returns what it evaluated. Packages are imported where they are used,
so that each can run in a Python of its own: ``python -m benchmarks.tuning_peers TUNER KERNEL DEVICE
--folder DIR``.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import random
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from . import replay
from .replay import Floats, Measured, Replayed, Rows

SHORT, MORE = 30, 4  # a window that is over so soon needs this many times the repeats
START, BATCH, SHARE = 15, 5, 20  # of the surrogate: first configs, then so many at a time, later a 20th more
TREES, BOUND = 60, 0.5  # and deviations
IDLE = 2000  # suggestions in a row that are no evaluation: a tuner has nothing left to ask


@dataclass(frozen=True)
class Task:
    """What a tuner is given; `others` are for those that take records of other devices."""

    space: Measured
    others: list[Measured]
    seed: int
    evaluations: int
    limit: float  # seconds of its own


class Over(Exception):
    """The seconds of a task are used up."""


class Table:
    """Answers a tuner from the table: counts evaluations and leaves out the time that looking up takes."""

    def __init__(self, task: Task) -> None:
        self.task, self.space = task, task.space
        self.order: list[int] = []
        self.seen: set[int] = set()
        self.idle = 0
        self.looked = 0.0
        self.began = time.process_time()

    def measure(self, row: int | None) -> float:
        """Return the runtime, nan for a failure; None is a config that isn't in the space: no evaluation."""
        if row is None or row in self.seen:
            self.idle += 1
        else:
            self.seen.add(row)
            self.order.append(row)
            self.idle = 0
        return float("nan") if row is None else float(self.space.runtimes[row])

    @property
    def over(self) -> bool:
        full = len(self.order) >= self.task.evaluations
        return full or self.idle >= IDLE or self.own > self.task.limit

    @property
    def own(self) -> float:
        return time.process_time() - self.began - self.looked

    def done(self) -> Replayed:
        return Replayed(self.order[: self.task.evaluations], self.own)


# ---- without a model ------------------------------------------------------------------------------------


def random_search(task: Task) -> Replayed:
    """Random search without replacement."""
    began = time.process_time()
    order = np.random.default_rng(task.seed).permutation(len(task.space.runtimes))[: task.evaluations]
    return Replayed(order.tolist(), time.process_time() - began)


def mean_order(space: Measured, others: Sequence[Measured]) -> Floats:
    """Mean rank (N,) of configs among those that ran on the other devices, 0 to 1; 1 = ran nowhere."""
    ranks = np.full((len(others), len(space.runtimes)), np.nan)
    for line, other in zip(ranks, others, strict=True):
        here = np.array([other.row(config) for config in space.configs])
        times = other.runtimes[here]
        ran = np.flatnonzero(~np.isnan(times))
        line[ran[np.argsort(times[ran], kind="stable")]] = np.arange(len(ran)) / len(ran)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of configs that ran nowhere
        return np.nan_to_num(np.nanmean(ranks, axis=0), nan=1.0)


def others_order(task: Task) -> Replayed:
    """Configs in their mean order on the other devices: no search, the same for every seed."""
    began = time.process_time()
    order = np.argsort(mean_order(task.space, task.others), kind="stable")[: task.evaluations]
    return Replayed(order.tolist(), time.process_time() - began)


# ---- a plain surrogate ----------------------------------------------------------------------------------


def _surrogate(task: Task, columns: Floats, first: Rows) -> Replayed:
    """Extra trees on log runtimes; asked: lowest mean minus BOUND deviations between trees."""
    from sklearn.ensemble import ExtraTreesRegressor

    table, x = Table(task), columns.astype(np.float32)
    left = np.ones(len(x), bool)
    rows: list[int] = first[:START].tolist()
    while rows and not table.over:
        for row in rows:
            table.measure(row)
        left[rows] = False
        known = np.array(table.order)
        ran = known[~np.isnan(task.space.runtimes[known])]
        some = np.flatnonzero(left)
        if len(ran) == 0 or len(some) == 0:
            rows = some[:BATCH].tolist()
            continue
        trees = ExtraTreesRegressor(TREES, random_state=task.seed).fit(
            x[ran], np.log(task.space.runtimes[ran])
        )
        predictions = np.stack([tree.tree_.predict(x[some])[:, 0] for tree in trees.estimators_])
        order = np.argsort(predictions.mean(0) - BOUND * predictions.std(0), kind="stable")
        rows = some[order[: max(BATCH, len(known) // SHARE)]].tolist()
    return table.done()


def extra_trees(task: Task) -> Replayed:
    """A surrogate from scratch."""
    columns = np.array([[config[n] for n in task.space.values] for config in task.space.configs], float)
    return _surrogate(task, columns, np.random.default_rng(task.seed).permutation(len(columns)))


def extra_trees_others(task: Task) -> Replayed:
    """A surrogate with the mean order on the other devices as a column, which it also starts by."""
    columns = np.array([[config[n] for n in task.space.values] for config in task.space.configs], float)
    order = mean_order(task.space, task.others)
    first = np.lexsort((np.random.default_rng(task.seed).random(len(order)), order))
    return _surrogate(task, np.column_stack([columns, order]), first)


# ---- Kernel Tuner ---------------------------------------------------------------------------------------


@cache
def _searchspace(kernel: str, space: Measured) -> Any:
    """Kernel Tuner's own space, by the published restrictions: exactly the configs of the table."""
    from kernel_tuner.searchspace import Searchspace

    path = replay.data_folder() / f"kernel_tuner_{kernel}_milo.json"
    given = json.loads(path.read_text())["ConfigurationSpace"]
    restrictions = [condition["Expression"] for condition in given["Conditions"]]
    values = {one["Name"]: list(space.values[one["Name"]]) for one in given["TuningParameters"]}
    made = Searchspace(values, restrictions, 1_000_000_000)
    assert made.size == len(space.configs), f"{space.name}: {made.size} of {len(space.configs)} configs"
    return made


class _Runner:
    """What Kernel Tuner's strategies call to measure configs: its simulation mode, in memory."""

    def __init__(self, table: Table, names: list[str], failed: Any) -> None:
        self.table, self.names, self.failed = table, names, failed

    def add_strategy_time(self, seconds: float) -> None:
        pass

    def run(self, configs: list[Any], options: Any) -> list[dict[str, Any] | None]:
        began, found = time.process_time(), list[dict[str, Any] | None]()
        for values in configs:
            if options.budget.is_done():
                found.append(None)
                continue
            config = dict(zip(self.names, values, strict=True))
            before = len(self.table.order)
            runtime = self.table.measure(
                self.table.space.rows.get(tuple(config[n] for n in self.table.space.values))
            )
            options.budget.add_evaluations(len(self.table.order) - before)
            found.append(config | ({"time": runtime} if runtime == runtime else {"__error__": self.failed}))
        self.table.looked += time.process_time() - began
        if self.table.own > self.table.task.limit:  # their own budgets end them otherwise
            raise Over
        return found


def _kernel_tuner(strategy: str) -> Callable[[Task], Replayed]:
    def tune(task: Task) -> Replayed:
        from kernel_tuner import util
        from kernel_tuner.interface import Options, strategy_map

        searchspace = _searchspace(task.space.kernel, task.space)
        random.seed(task.seed)
        np.random.seed(task.seed)
        table = Table(task)
        options = Options(
            strategy_options=Options(max_fevals=task.evaluations), max_fevals=task.evaluations, cache={},
            objective=["time"], objective_higher_is_better=[False], verbose=False, metrics=None,
            budget=util.TuningBudget(None, task.evaluations), tune_params=searchspace.tune_params,
            restrictions=searchspace._modified_restrictions,
        )  # fmt: skip
        runner = _Runner(table, list(searchspace.tune_params), util.RuntimeFailedConfig())
        try:
            strategy_map[strategy].tune(searchspace, runner, options)
        except Over:
            pass
        return table.done()

    tune.__doc__ = f"Kernel Tuner's {strategy} with its defaults."
    return tune


# ---- optimizers of any parameters -----------------------------------------------------------------------


def _free(space: Measured) -> dict[str, list[Any]]:
    """Parameters that have more than one value."""
    return {name: values for name, values in space.values.items() if len(values) > 1}


def _row(space: Measured, chosen: dict[str, int]) -> int | None:
    """Row of the config with these places of values; None if it is not in the space."""
    return space.rows.get(tuple(values[chosen.get(name, 0)] for name, values in space.values.items()))


def tpe(task: Task) -> Replayed:
    """Optuna's TPE, by the places of values; what is infeasible or failed violates its constraint."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    warnings.simplefilter("ignore")  # constraints are experimental there
    sampler = optuna.samplers.TPESampler(
        seed=task.seed, constraints_func=lambda trial: trial.user_attrs["violated"]
    )
    study, table = optuna.create_study(sampler=sampler), Table(task)
    free = _free(task.space)
    while not table.over:
        trial = study.ask()
        row = _row(task.space, {n: trial.suggest_int(n, 0, len(has) - 1) for n, has in free.items()})
        runtime = table.measure(row)
        trial.set_user_attr("violated", (float(runtime != runtime),))
        study.tell(trial, runtime if runtime == runtime else task.space.worst)
    return table.done()


def smac(task: Task) -> Replayed:
    """SMAC3 with a random forest, by the places of values; what is infeasible or failed has crashed."""
    import logging
    import tempfile

    from ConfigSpace import ConfigurationSpace
    from smac import HyperparameterOptimizationFacade, Scenario
    from smac.runhistory import StatusType, TrialValue

    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    space = ConfigurationSpace({n: (0, len(has) - 1) for n, has in _free(task.space).items()}, seed=task.seed)
    with tempfile.TemporaryDirectory() as folder:
        scenario = Scenario(
            space, deterministic=True, n_trials=100_000, seed=task.seed, output_directory=Path(folder)
        )
        design = HyperparameterOptimizationFacade.get_initial_design(scenario, n_configs=START)
        made = HyperparameterOptimizationFacade(
            scenario, lambda config, seed: 0.0, initial_design=design, logging_level=False, overwrite=True
        )
        table = Table(task)
        while not table.over:
            info = made.ask()
            runtime = table.measure(_row(task.space, {n: int(v) for n, v in dict(info.config).items()}))
            ran = runtime == runtime
            status = StatusType.SUCCESS if ran else StatusType.CRASHED
            made.tell(info, TrialValue(cost=runtime if ran else task.space.worst, status=status), save=False)
        return table.done()


# ---- ours -----------------------------------------------------------------------------------------------


def _ours(task: Task, with_records: bool) -> Replayed:
    import tpugraphs as tg

    records = [
        tg.records.Record(config, () if t != t else (t,), status, problem=other.kernel, device=other.device)
        for other in (task.others if with_records else ())
        for config, t, status in zip(other.configs, other.runtimes.tolist(), other.status, strict=True)
    ]
    space = tg.Space.from_table(task.space.configs)
    return replay.replay(
        lambda: tg.Tuner(
            space,
            records=records or None,
            seed=task.seed,
            problem=task.space.kernel,
            device=task.space.device,
        ),
        task.space,
        task.evaluations,
        limit=task.limit,
    )


def ours(task: Task) -> Replayed:
    """tg.Tuner from scratch."""
    return _ours(task, False)


def ours_others(task: Task) -> Replayed:
    """tg.Tuner with the records of the other devices."""
    return _ours(task, True)


@dataclass(frozen=True)
class Tuner:
    """A tuner of the table: its name there, what it needs installed, whether it is given other devices."""

    title: str
    run: Callable[[Task], Replayed]
    needs: tuple[str, ...] = ()
    others: bool = False
    repeats: int = 25
    limit: float = 300.0  # seconds of a repeat

    @property
    def ours(self) -> bool:
        return any(need.startswith("tpugraphs") for need in self.needs)


TUNERS: dict[str, Tuner] = {
    "ours": Tuner("tpugraphs", ours, ("tpugraphs.tuning.tuner",)),
    "random": Tuner("random search", random_search, repeats=100),
    "genetic_algorithm": Tuner(
        "Kernel Tuner genetic_algorithm", _kernel_tuner("genetic_algorithm"), ("kernel_tuner",)
    ),
    "extra_trees": Tuner("extra trees (scikit-learn)", extra_trees, ("sklearn",)),
    "tpe": Tuner("Optuna TPE", tpe, ("optuna",), limit=10.0),
    "hybrid_vndx": Tuner(
        "Kernel Tuner hybrid_vndx", _kernel_tuner("hybrid_vndx"), ("kernel_tuner",), limit=10.0
    ),
    "adaptive_tabu_greywolf": Tuner(
        "Kernel Tuner adaptive_tabu_greywolf", _kernel_tuner("adaptive_tabu_greywolf"), ("kernel_tuner",)
    ),
    "smac": Tuner("SMAC3", smac, ("smac",), repeats=10, limit=25.0),
    "ours_others": Tuner("tpugraphs", ours_others, ("tpugraphs.tuning.tuner",), others=True),
    "others_order": Tuner("mean order, no model", others_order, others=True, repeats=1),
    "extra_trees_others": Tuner("extra trees with that order", extra_trees_others, ("sklearn",), others=True),
}


def lacking(name: str) -> str | None:
    """The package that a tuner needs and that is not installed."""
    for need in TUNERS[name].needs:
        try:
            if importlib.util.find_spec(need) is None:
                return need
        except ModuleNotFoundError:  # of the package around it
            return need
    return None


def repeats_of(name: str, space: Measured) -> int:
    """Repeats of a tuner on a space; one, if it does the same for every seed."""
    repeats = TUNERS[name].repeats
    return repeats * MORE if 1 < repeats and space.window[1] < SHORT else repeats


def run(name: str, space: Measured, others: list[Measured], seeds: int, limit: float, folder: Path) -> None:
    """Add the seeds that a file of runs does not have yet."""
    path = replay.runs_path(folder, name, space)
    runs = replay.Runs.read(path) if path.exists() else replay.Runs(space.evaluations)
    for seed in range(len(runs), seeds):
        runs.add(TUNERS[name].run(Task(space, others, seed, space.evaluations, limit)))
        runs.write(path)


def main() -> int:
    """Run one tuner on one space; 3 if its package is not installed."""
    made = argparse.ArgumentParser(prog="python -m benchmarks.tuning_peers", description=__doc__)
    made.add_argument("tuner", choices=list(TUNERS))
    made.add_argument("kernel", choices=replay.KERNELS)
    made.add_argument("device", choices=replay.DEVICES)
    made.add_argument("--folder", type=Path, required=True, help="of the runs")
    made.add_argument("--data", type=Path, default=None, help="of the measurements")
    made.add_argument("--seeds", type=int, default=None, help="repeats (default: of the tuner)")
    made.add_argument("--limit", type=float, default=None, help="seconds of a repeat (default: of the tuner)")
    args = made.parse_args()
    tuner = TUNERS[args.tuner]
    if need := lacking(args.tuner):
        print(f"{args.tuner}: no {need} here", file=sys.stderr)
        return 3
    space = replay.load_space(args.kernel, args.device, args.data)
    rest = [device for device in replay.DEVICES if device != args.device]
    others = [replay.load_space(args.kernel, device, args.data) for device in rest] if tuner.others else []
    seeds = args.seeds or repeats_of(args.tuner, space)
    run(args.tuner, space, others, seeds, args.limit or tuner.limit, args.folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
