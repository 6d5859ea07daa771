"""Which configs of a program to measure next: what a ranker expects, corrected by what was measured."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Callable, Iterable, Sequence
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tpugraphs.data import Graph, open_collection
from tpugraphs.errors import ConfigError, DataError
from tpugraphs.evaluation.scorer import Scorer
from tpugraphs.preprocess.targets import targets
from tpugraphs.ranker.multitask import MultiTaskGaussianProcess
from tpugraphs.ranker.process import Process
from tpugraphs.records import Record, read
from tpugraphs.system.texts import parsed
from tpugraphs.tuning.loop import key
from tpugraphs.xla.spaces import without_costs

Floats = NDArray[np.float64]
Config = dict[str, Any]

COLLECTION = "options:xla:cpu"
WORK = "xla_work"  # in the environment of a record: features of its program
# Found on the collection (benchmarks/xla_tune.py): scores per ln(time / default's), where slow configs are
# alike, variance that all configs of a program share, variance of a measurement.
_SCALE, _SLOW, _SHARED, _NOISE = 8.0, 0.3, 1.0, 0.5
_JITTER, _VARIANCE = 1e-9, 10.0


class Stages:
    """Ask for the next configs of a graph, and learn what they took: a tuner for :func:`tpugraphs.tune`.

    A Gaussian process over the configs starts with the mean and the covariance that a ranker expects. The
    next config is that of the largest expected improvement. It is a pure function of the measurements.

    Parameters
    ----------
    graph : Graph
        Of the configs; row 0 is the default.
    ranker : Scorer
        A `Process`, or any other: its order is the mean then, and the covariance that of `base`.
    base : Process, optional
        Where the ranker is none. If neither knows these columns, a warning says so, and configs with like
        columns are expected to be alike.
    known : callable, optional
        Returns the runtime of a row whose program was measured already, as that of another row, else None.
    """

    def __init__(
        self, graph: Graph, ranker: Scorer, base: Process | None = None,
        known: Callable[[int], float | None] = lambda row: None,
    ) -> None:  # fmt: skip
        process = ranker if isinstance(ranker, Process) else base
        if process is None:
            raise ConfigError(f"ranker: expected a Gaussian process, or base=, got {type(ranker).__name__}")
        plain = without_costs(graph)
        self.configs = [plain.schema.decode("config", row) for row in np.asarray(plain.config_feat)]
        self.rows = {key(config): row for row, config in enumerate(self.configs)}
        try:
            self._mean, covariance = process.prior(graph if process is ranker else plain)
        except DataError as error:  # options of another version of XLA
            warnings.warn(f"nothing is known before the first measurement: {error}", stacklevel=3)
            self._mean, covariance = _unknown(np.asarray(plain.config_feat, np.float64))
        if process is not ranker:
            try:
                scores = np.asarray(ranker.predict(graph, verbose=False), np.float64)
                self._mean = targets(np.exp(scores - scores.max()), "normal-score")
            except DataError as error:
                warnings.warn(f"the ranker does not know these configs: {error}", stacklevel=3)
        shared = _SHARED + _JITTER * np.trace(covariance)
        self._covariance = covariance + shared
        self._known = known
        self.runtimes: dict[int, float] = {}  # by row, NaN of those that failed

    def ask(self, n: int = 1) -> list[Config]:
        """Return the next configs; each as if those before it had taken what is expected.

        Parameters
        ----------
        n : int
            How many; fewer if no others are left.

        Returns
        -------
        list of dict
            Configs that were not measured, and are not the same program as one that was.
        """
        chosen: list[int] = []
        told = self._measured()
        while len(chosen) < n and len(told) < len(self.configs):
            row, expected = self._next(told)
            runtime = self._known(row)
            if runtime is None:
                chosen.append(row)
            else:
                self.runtimes[row], expected = runtime, self._scores([runtime])[0]
            told[row] = expected
        return [self.configs[row] for row in chosen]

    def tell(self, configs: Sequence[Config], runtimes: Any, status: Any = None) -> None:
        """Learn from measured runtimes. The first call has to include the default.

        Parameters
        ----------
        configs : sequence of dict
            Configs of the graph.
        runtimes : (n,) array
            Their runtimes, NaN for those that failed.
        status : object
            Not used.
        """
        for config, runtime in zip(configs, runtimes, strict=True):
            self.runtimes.setdefault(self.rows[key(config)], float(runtime))

    def _scores(self, runtimes: Iterable[float]) -> Floats:
        """Return scores: 0 for the default's runtime, the same for all that are much slower or failed."""
        values = np.array([*runtimes]) / self.runtimes.get(0, math.nan)
        logs = np.log(np.where(values > 0, values, math.inf))  # NaN and 0 stand for failures
        return np.asarray(_SCALE * np.where(logs > 0, _SLOW * np.tanh(logs / _SLOW), logs))

    def _measured(self) -> dict[int, float]:
        """Return the scores of the measured configs by row."""
        return dict(zip(self.runtimes, self._scores(self.runtimes.values()).tolist(), strict=True))

    def expected(self, told: dict[int, float] | None = None) -> tuple[Floats, Floats]:
        """Return means (C,) and variances (C,) of the scores of all configs, given measurements.

        Parameters
        ----------
        told : dict of int to float, optional
            Scores by row; by default those of all measurements.

        Returns
        -------
        mean, variance : (C,) float64
            A score is 8 times the logarithm of runtime / default; slow configs are alike.
        """
        told = self._measured() if told is None else told
        rows, scores = np.array([*told], np.int64), np.array([*told.values()])
        cross = self._covariance[rows]
        gain = np.linalg.solve(cross[:, rows] + _NOISE * np.eye(len(rows)), cross).T
        mean = self._mean + gain @ (scores - self._mean[rows])
        return mean, self._covariance.diagonal() - (gain * cross.T).sum(1)

    def _next(self, told: dict[int, float]) -> tuple[int, float]:
        """Return the row of the largest expected improvement, and its expected score."""
        mean, variance = self.expected(told)
        deviation = np.sqrt(np.maximum(variance, 1e-12))
        away = (min(told.values(), default=0.0) - mean) / deviation
        normal = NormalDist()
        gains = deviation * [u * normal.cdf(u) + normal.pdf(u) for u in away.tolist()]
        gains[[*told]] = -math.inf
        best = int(np.argmax(gains))
        return best, float(mean[best])


def _unknown(columns: Floats) -> tuple[Floats, Floats]:
    """Return means and covariance of configs of which no more is known than their columns."""
    x = (columns - columns.mean(0)) / np.maximum(columns.std(0), 1e-9)
    away = ((x[:, None] - x) ** 2).sum(2)
    covariance: Floats = _VARIANCE * np.exp(-0.5 * away / max(float(np.median(away)), 1e-9))
    return np.zeros(len(x)), covariance


def learn(records: Any = ()) -> MultiTaskGaussianProcess:
    """Fit the ranker of options that comes with the package, and programs of your own besides.

    Parameters
    ----------
    records : path, Record, Graph, or list of them
        Journals of :func:`tpugraphs.xla.tune`, or graphs that :func:`tpugraphs.xla.collect` measured in the
        space ``"options"``. Of a program in a journal few configs were measured: the others count as they are
        expected from those.

    Returns
    -------
    MultiTaskGaussianProcess
        For ``tune(..., ranker=)``; ``save`` writes it.

    Raises
    ------
    DataError
        A journal that cannot be read, or one without the work of its programs, which `tune` writes.
    """
    shipped = open_collection(COLLECTION)
    graphs = [*shipped.train, *shipped.valid, *shipped.test]
    given = [records] if isinstance(records, str | os.PathLike | Record | Graph) else [*records]
    graphs += [without_costs(one) for one in given if isinstance(one, Graph)]
    programs: dict[tuple[str, str], list[Record]] = {}
    for one in given:
        listed = () if isinstance(one, Graph) else [one] if isinstance(one, Record) else read(one)
        for record in listed:
            programs.setdefault((record.problem, record.device), []).append(record)
    base = MultiTaskGaussianProcess().fit(graphs)
    more = [_program(base, graphs[0], name, some) for name, some in programs.items()]
    return MultiTaskGaussianProcess().fit(graphs + more) if more else base


def _program(base: Process, like: Graph, name: tuple[str, str], records: Sequence[Record]) -> Graph:
    """Make a graph, with the configs of another, of what a journal has on a program."""
    texts = [one.environment[WORK] for one in records if WORK in one.environment]
    if not texts:
        todo = "it is not of tpugraphs.xla.tune; leave it out"
        raise DataError.of("records", f"the work of {', '.join(name)}", "none", todo)
    schema = like.schema
    fields: dict[str, Any] = {
        "node_feat": np.zeros((1, len(schema.node)), np.float32), "node_opcode": np.zeros(1, np.uint8),
        "edge_index": np.zeros((0, 2), np.int64), "schema": schema, "name": name[0],
        "graph_feat": np.asarray(parsed(texts[0].encode()), np.float32), "config_feat": like.config_feat,
    }  # fmt: skip
    stages = Stages(Graph(**fields), base)
    for one in records:  # the default is the first of every program
        if key(one.config) in stages.rows:
            stages.tell([one.config], [one.runtime])
    if not stages.runtimes.get(0, 0) > 0:
        raise DataError.of("records", f"the default of {', '.join(name)} first", "another", "leave it out")
    runtime = 1e6 * stages.runtimes[0] * np.exp(stages.expected()[0] / _SCALE)
    return Graph(**fields, runtime=np.maximum(np.rint(runtime), 1).astype(np.int64))
