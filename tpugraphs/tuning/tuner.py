"""A tuner: it asks for configurations to measure, and learns from their runtimes."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tpugraphs import _core, metrics
from tpugraphs.data.graph import Graph
from tpugraphs.data.schema import DIRECTIONS
from tpugraphs.errors import ConfigError
from tpugraphs.evaluation.scorer import Scorer
from tpugraphs.preprocess.targets import targets
from tpugraphs.records import STATUSES, Record, read
from tpugraphs.search import encode_configs, score_configs
from tpugraphs.system import check_choice, check_type, check_whole, counted
from tpugraphs.tuning.report import TunerReport
from tpugraphs.tuning.space import Config, Space

Codes = NDArray[np.int32]
Floats = NDArray[np.float64]
Paths = str | os.PathLike[str]

_FIRST = 4  # configs that run before there is a surrogate
_EARLY = 60  # measurements after each of which it learns, and before ranks alone count
_PATIENCE = 20  # later measurements without a gain before it looks elsewhere
_SHARE = 20  # after so many measurements, what is known is looked at again with each such part more
_ALL = 20_000  # configs that are all candidates; of a larger space some are
_DRAWN, _NEAR = 3000, 10  # of a larger space: by chance, next to so many best
_LEAST, _GROUPS = 5, 8  # configs of a group of records, groups
_TREES = 30


class Tuner:
    """Ask for the next configurations to measure.

    A tuner is a pure function of its records and its seed: after the same measurements in the same order, it
    asks for the same. `ask` changes nothing: without `tell` in between it returns the same again.

    The surrogate is a Gaussian process over the parameters, or extremely randomized trees where they order
    the measurements better, by cross-validation. The next configuration is that of the largest expected
    improvement; later, when 20 measurements brought no gain, that of the lowest confidence bound, until one
    does. Those of one batch are chosen as if the ones before had been measured. After 60 measurements the
    surrogate is fitted again with every 5 % more. Failures are modelled separately, one set of trees per
    cause. Predictions of a ranker, and records of other problems and devices, are further columns of the
    surrogate: a prior that misleads is corrected.

    Parameters
    ----------
    space : Space
        The configurations. Its default, if it has one, is asked for first.
    graph, ranker : Graph and scorer, optional
        Whose scores are prior knowledge. The parameters are the columns of the graph's configs.
    records : path, Record, or list of them, optional
        Earlier measurements (:func:`tpugraphs.records.read`). Those of this problem and device, if both have
        names, count as its measurements; every other problem, device and file is a separate prior.
    seed : int
        Of the first configurations and of candidates in large spaces.
    direction : {"minimize", "maximize"}
        Whether small values are good, as of runtimes, or large ones, as of throughput.
    problem, device : str
        What is tuned, and on what.

    Raises
    ------
    ConfigError
        A ranker without a graph, or the other way round; parameters that are not the graph's columns.
    DataError
        A file of records that cannot be read.

    Notes
    -----
    Batches are chosen from the process as in GP-BUCB (Desautels, Krause, Burdick 2014); its covariance is
    Matern 5/2 with a length per column. Trees are those of Geurts, Ernst and Wehenkel (2006).

    Examples
    --------
    >>> import tpugraphs as tg
    >>> space = tg.Space({"block": [16, 32, 64, 128], "unroll": [1, 2, 4, 8]}, ["block * unroll <= 256"])
    >>> tuner = tg.Tuner(space)
    >>> for _ in range(8):
    ...     config = tuner.ask()[0]
    ...     tuner.tell(config, 100 / config["block"] + config["unroll"])
    >>> tuner.best
    {'block': 128, 'unroll': 1}
    """

    def __init__(
        self,
        space: Space,
        graph: Graph | None = None,
        ranker: Scorer | None = None,
        records: Paths | Record | Iterable[Paths | Record] | None = None,
        seed: int = 0,
        *,
        direction: str = "minimize",
        problem: str = "",
        device: str = "",
    ) -> None:
        self.space = check_type("space", space, Space)
        self.seed = check_whole("seed", seed, 0)
        self.direction = check_choice("direction", direction, DIRECTIONS)
        self.problem, self.device = check_type("problem", problem, str), check_type("device", device, str)
        if (graph is None) != (ranker is None):
            expected = "expected both or neither: the ranker scores configs of the graph"
            raise ConfigError(f"graph, ranker: {expected}")
        if graph is not None:
            check_type("graph", graph, Graph)
            if not isinstance(ranker, Scorer) or not ranker.fitted:
                raise ConfigError(f"ranker: expected a fitted scorer, got {type(ranker).__name__}")
        self.graph, self.ranker = graph, ranker
        self._runtimes: dict[bytes, list[float]] = {}  # by the codes of a configuration
        self._cause: dict[bytes, int] = {}
        self._median: dict[bytes, float] = {}
        self._values: list[float] = []  # medians in the order of measurement, with repetitions
        self._asked: tuple[str, float, float] = ("none", math.nan, math.nan)
        self._learnt = 0, np.empty(0), list[int]()  # measurements; costs and causes of their rows
        self._planned, self._plan = (0, 0), np.empty((0, 0), np.int32)
        self._priors: list[tuple[str, Floats, Floats]] = []  # name, columns and normal scores
        self._every = every = space.core.all(_ALL)
        self._take(records)
        self._known = None if every is None else self._prior(every)
        if every is None:
            self._prior(space.core.sample(1, seed))  # refuses what cannot be scored
        self._place = {} if every is None else {code.tobytes(): i for i, code in enumerate(every)}

    # ---- telling

    def tell(
        self,
        configs: Config | Sequence[Config],
        runtimes: ArrayLike,
        status: str | Sequence[str] | None = None,
    ) -> None:
        """Learn what was measured, also of configurations that were not asked for.

        Parameters
        ----------
        configs : dict or list of dict
            One or n configurations of the space.
        runtimes : (n,) or (n, R) array
            Runtimes, or R repeats of each, whose median counts. NaN where a configuration failed.
        status : str or list of str, optional
            ``"correct"``, or why it failed: one of `tpugraphs.records.STATUSES`. By default NaN stands for a
            failure at run time.

        Raises
        ------
        ConfigError
            A configuration is not in the space; another number of runtimes; one that is not positive; a
            correct one without a runtime. Nothing is learnt then.
        """
        listed = [configs] if isinstance(configs, Mapping) else list(configs)
        codes, several = self.space.codes(listed), counted(len(listed), "config")
        try:
            times = np.asarray(runtimes, np.float64)
            times = times[None] if isinstance(configs, Mapping) or not times.ndim else times
            times = times.reshape(len(listed), math.prod(times.shape[1:]))
        except (TypeError, ValueError):
            raise ConfigError(f"runtimes: expected numbers for {several}, got {runtimes!r:.80}") from None
        causes = [status] * len(listed) if status is None or isinstance(status, str) else list(status)
        if len(causes) != len(listed) or (len(listed) and not times.shape[1]):
            raise ConfigError(f"runtimes, status: expected one for each of {several}")
        checked = [self._checked(*row) for row in zip(listed, times, causes, strict=True)]
        for code, (values, cause) in zip(codes, checked, strict=True):
            self._add(code, values, cause)

    def _checked(self, config: Config, times: Floats, status: str | None) -> tuple[list[float], int]:
        """Return the runtimes of a config and the number of its status."""
        good = [float(time) for time in times if not math.isnan(time)]
        status = status if status is not None else "correct" if good else "runtime"
        cause = STATUSES.index(check_choice("status", status, STATUSES))
        if cause == 0 and (not good or min(good) <= 0 or max(good) == math.inf):
            expected = f"expected positive finite numbers for {config}"
            raise ConfigError(f"runtimes: {expected}, got {times.tolist()!r:.80}")
        return good if cause == 0 else [], cause

    def _add(self, code: Codes, values: list[float], cause: int) -> None:
        name = code.tobytes()
        times = self._runtimes.setdefault(name, [])
        times += values
        self._cause[name] = self._cause.get(name, 0) or cause
        self._median[name] = median(times) if times else math.nan
        self._values.append(median(values) if cause == 0 else math.nan)
        learnt = self._learnt[0]
        if len(self._values) >= learnt + (1 if learnt < _EARLY else learnt // _SHARE):
            self._learnt = len(self._values), self._cost(self._median.values()), [*self._cause.values()]

    def _take(self, records: Any) -> None:
        """Divide records into measurements of this problem and priors."""
        kinds = str, os.PathLike, Record
        given = [records] if isinstance(records, kinds) or not isinstance(records, Iterable) else [*records]
        given = [check_type("records", one, *kinds) for one in given if records is not None]
        named = list[tuple[str, Record]]()
        for one in given:
            named += [("", one)] if isinstance(one, Record) else [(str(one), record) for record in read(one)]
        own = bool(self.problem and self.device)

        def group(pair: tuple[str, Record]) -> tuple[str, str, str]:
            name, one = pair
            return one.problem, one.device, "" if one.problem and one.device else name

        for (problem, device, name), pairs in groupby(sorted(named, key=group), group):
            listed = [one for _, one in pairs]
            codes = self.space.codes([one.config for one in listed], strict=False)
            inside = [i for i, code in enumerate(codes) if not code.size or code[0] >= 0]
            if own and (problem, device) == (self.problem, self.device):
                for i in inside:
                    self._add(codes[i], list(listed[i].runtimes), STATUSES.index(listed[i].status))
            elif len(inside) >= _LEAST:
                x = self.space.core.columns(np.ascontiguousarray(codes[inside]))
                cost = self._cost([listed[i].runtime for i in inside])
                cost = np.where(np.isnan(cost), np.inf, cost)
                title = ", ".join(filter(None, (problem, device))) or os.path.basename(name) or "records"
                known = [other for other, *_ in self._priors]
                title += f" ({len(known) + 1})" if title in known else ""
                self._priors.append((title, x, _scores(cost)))
        del self._priors[_GROUPS:]

    def _cost(self, runtimes: Iterable[float]) -> Floats:
        """Return the values to minimize."""
        values = np.maximum(np.array([*runtimes], np.float64), 1e-300)  # records may have 0
        return 1 / values if self.direction == "maximize" else values

    # ---- what is known

    @property
    def records(self) -> int:
        """Number of measurements so far."""
        return len(self._values)

    def _measured(self) -> Codes:
        """Return the codes (m, P) of all configurations measured."""
        rows = b"".join(self._runtimes)
        return np.frombuffer(rows, np.int32).reshape(len(self._runtimes), len(self.space.names))

    @property
    def best(self) -> Config | None:
        """The best configuration measured; None before one ran."""
        cost = self._cost(self._median.values())
        cost[np.array([*self._cause.values()], np.int64) > 0] = np.nan
        if np.isnan(cost).all():
            return None
        return self.space.configs(self._measured()[[np.nanargmin(cost)]])[0]

    @property
    def best_runtime(self) -> float:
        """Its runtime, the median of its measurements; NaN before one ran."""
        best = self.best
        return math.nan if best is None else self._median[self.space.codes([best])[0].tobytes()]

    # ---- asking

    def ask(self, n: int = 1, pending: Config | Sequence[Config] = ()) -> list[Config]:
        """Return configurations to measure next, the most wanted first.

        Parameters
        ----------
        n : int
            How many; fewer come only where the space has no others.
        pending : dict or list of dict
            Configurations that are being measured elsewhere, not to be asked for.

        Returns
        -------
        list of dict
            Configurations that were not measured yet. The default comes first, if it was not.

        Raises
        ------
        ConfigError
            `n` is less than 1, or a pending configuration is not in the space.
        """
        check_whole("n", n, 1)
        waiting = self.space.codes([pending] if isinstance(pending, Mapping) else list(pending))
        seen = {*self._runtimes, *(code.tobytes() for code in waiting)}
        asked: list[Codes] = []
        if self.space.default is not None:
            default = self.space.codes([self.space.default])
            if default[0].tobytes() not in seen:
                asked, seen = [default], {*seen, default[0].tobytes()}
        if n > len(asked):
            wanted = self._wanted(n, np.concatenate([waiting, *asked]), seen)
            free = [code.tobytes() not in seen for code in wanted]
            asked.append(wanted[free][: n - len(asked)])
        return [config for codes in asked for config in self.space.configs(codes)]

    def _wanted(self, n: int, more: Codes, seen: set[bytes]) -> Codes:
        """Return configs (m, P) among which n were not seen, the most wanted first."""
        count, cost, causes = self._learnt
        rows, measured = len(causes), self._measured()
        if causes.count(0) < _FIRST:
            return self._first(n, measured, more, seen)
        length = n + len(measured) - rows + len(more)  # those seen since may be among the most wanted
        drawn = max(_DRAWN, length + rows)
        if self._planned != (count, drawn) or len(self._plan) < length:
            before = {code.tobytes() for code in measured[:rows]}
            pool = self._pool(drawn, measured[:rows], cost, before, count)
            length = min(max(length, count // _SHARE), len(pool))
            chosen = self._choose(measured[:rows], cost, np.array(causes, np.int32), pool, length)
            self._planned, self._plan = (count, drawn), pool[chosen]
        return self._plan

    def _first(self, n: int, measured: Codes, more: Codes, seen: set[bytes]) -> Codes:
        """Return n configs before there is a surrogate."""
        drawn, count = max(_DRAWN, n + len(seen)), len(self._values)
        pool = self._pool(drawn, measured, self._cost(self._median.values()), seen, count)
        known, n = self._of(pool), min(n, len(pool))
        if known.shape[1]:
            return pool[np.argsort(known.mean(1), kind="stable")[:n]]
        there = self.space.core.columns(np.concatenate([measured, more]))
        return pool[_core.first_configs(there, self.space.core.columns(pool), n, self._key(count))]

    def _choose(self, rows: Codes, cost: Floats, cause: NDArray[np.int32], pool: Codes, count: int) -> Any:
        """Return positions in the pool."""
        if not count:
            return np.empty(0, np.int64)
        ran, known = cause == 0, self._of(np.concatenate([rows, pool]))
        early, y = bool(ran.sum() < _EARLY), np.zeros(len(cause))
        gaining = early or len(cause) - 1 - np.flatnonzero(ran)[np.argmin(cost[ran])] < _PATIENCE
        y[ran] = targets(cost[ran], "normal-score")
        if early:  # the size of gains matters too
            logs = np.log(cost[ran])
            y[ran] = (y[ran] + (logs - logs.mean()) / max(logs.std(), 1e-9)) / 2
        x = np.column_stack([self.space.core.columns(rows), known[: len(rows)]])
        candidates = np.column_stack([self.space.core.columns(pool), known[len(rows) :]])
        asked = _core.next_configs(x, y, cause, candidates, count, bool(gaining), self._key(self._learnt[0]))
        self._asked = asked[1:]
        return asked[0]

    def _key(self, count: int) -> int:
        return ((self.seed << 32) + (self.seed >> 32) + count) % 2**64

    def _pool(self, drawn: int, measured: Codes, cost: Floats, seen: set[bytes], count: int) -> Codes:
        """Return candidates (m, P) that were not seen; of a large space, some are drawn."""
        if self._every is not None:
            free = np.ones(len(self._every), np.bool_)
            free[[self._place[code] for code in seen]] = False
            return self._every[free]
        best = [i for i in np.argsort(cost, kind="stable")[:_NEAR] if not math.isnan(cost[i])]
        parts = [self.space.core.sample(drawn, self._key(count))]
        parts += [self.space.core.neighbours(measured[i]) for i in best]
        codes = np.unique(np.concatenate(parts), axis=0)
        return codes[[code.tobytes() not in seen for code in codes]]

    def _of(self, codes: Codes) -> Floats:
        """Return what was known before (n, Q) of configs."""
        if self._known is None:
            return self._prior(codes)
        return self._known[[self._place[code.tobytes()] for code in codes]]

    def _prior(self, codes: Codes) -> Floats:
        """Return prior knowledge (n, Q) of configs, in standard scores; smaller is better."""
        x, columns = self.space.core.columns(codes), list[Floats]()
        columns += [_core.tree_means(rows, scores, x, _TREES, self.seed) for _, rows, scores in self._priors]
        if self.ranker is not None and self.graph is not None:
            features = encode_configs(self.graph, self.space.names, self.space.configs(codes))
            columns.append(_scores(score_configs(self.ranker, self.graph, features)))
        return np.column_stack([np.zeros((len(codes), 0)), *columns])

    def report(self) -> TunerReport:
        """Return a report of the measurements and the surrogate.

        Returns
        -------
        TunerReport
            With a table, a picture and JSON.
        """
        cost, cause = self._cost(self._median.values()), np.array([*self._cause.values()], np.int64)
        ran, known = cause == 0, self._of(self._measured())
        names = [name for name, *_ in self._priors] + ["ranker"] * (self.ranker is not None)
        taus = {
            name: metrics.kendall_tau(known[ran, i], cost[ran]) if ran.sum() > 1 else math.nan
            for i, name in enumerate(names)
        }
        failures = {STATUSES[i]: int((cause == i).sum()) for i in np.unique(cause[cause > 0])}
        surrogate = dict(zip(("model", "process", "trees"), self._asked, strict=True))
        return TunerReport(
            self.best, self.best_runtime, self.direction, [*self._values], failures, surrogate, taus
        )


def _scores(cost: Floats) -> Floats:
    """Return normal scores of costs; infinite ones share the last place."""
    finite = cost < np.inf
    worst = cost[finite].max() * 2 if finite.any() else 1.0
    return targets(np.where(finite, cost, worst), "normal-score")
