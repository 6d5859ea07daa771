"""Gaussian processes over the configs of a graph, which also choose configs to measure together."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any, ClassVar, NamedTuple, Self, Unpack

import numpy as np
from numpy.typing import NDArray

from tpugraphs import _core
from tpugraphs.data.graph import Graph, Rows, Valid
from tpugraphs.errors import ConfigError, check_graph
from tpugraphs.evaluation.evaluator import measured_runtimes
from tpugraphs.evaluation.scorer import ChooseOptions, Scorer
from tpugraphs.network.network import schema_of
from tpugraphs.preprocess.checks import check_measured
from tpugraphs.preprocess.pipeline import Pipeline
from tpugraphs.preprocess.targets import targets
from tpugraphs.ranker import filekinds
from tpugraphs.ranker.baselines import Array, Floats, LearntScorer, feature_table
from tpugraphs.ranker.scorer import check_scorer
from tpugraphs.recipes import get_recipe
from tpugraphs.system import check_number, check_whole, counted, tensorfile

_CHUNK = 4096  # rows scored at a time
_CANDIDATES = 500  # configs, best by mean, among which `choose` picks
_CLOSELY = 2000  # the most of them
LEAST = 1e-9  # standard deviation of a column that varies


class Process(LearntScorer):
    """Base of Gaussian processes: scorers with a mean and a covariance over configs.

    Parameters
    ----------
    seed : int
        Of the samples in `choose`.

    Attributes
    ----------
    pipeline : Pipeline
        Prepares the columns, as the recipe ``graph-config`` does.
    """

    _samples = 512  # samples of the process in `choose`
    _trust = 1.0  # factor of its own means there

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.seed, self.pipeline = check_whole("seed", seed, 0), _pipeline()

    @abstractmethod
    def moments(self, graph: Graph, columns: Floats, together: bool = False) -> tuple[Floats, Floats]:
        """Return means (n,) of configs, and their variances (n,) or, together, their covariance (n, n).

        Parameters
        ----------
        graph : Graph
            The graph of the configs.
        columns : (n, T) float64
            Prepared columns of the configs.
        together : bool
            Return the covariance instead of variances.

        Returns
        -------
        mean : (n,) float64
            Smaller means predicted faster.
        variance : (n,) or (n, n) float64
            Of the same unit, squared.
        """

    def prior(self, graph: Graph, configs: Rows | None = None) -> tuple[Floats, Floats]:
        """Return what is expected of configs before any of them is measured.

        Parameters
        ----------
        graph : Graph
            The graph of the configs.
        configs : (n,) array of whole numbers, optional
            Rows; by default all.

        Returns
        -------
        mean : (n,) float64
            Smaller means predicted faster, in the unit of scores.
        covariance : (n, n) float64
            Of the same unit, squared.
        """
        self = copy(self)  # one fit, whatever another thread does
        return self.moments(graph, self._columns(graph, self._rows(graph, configs)), together=True)

    @abstractmethod
    def _factor(self) -> None:
        """Factor the covariance of the training data."""

    def _prepared(self, graphs: Sequence[Graph]) -> Self:
        """Check graphs to learn from, and return a copy with preprocessing fitted to them."""
        for graph in graphs:
            feature_table(graph, "train a tg.Ranker on these")
            check_measured(graph, self.kind)
        made, pipeline = copy(self), _pipeline().fit(graphs)
        assert pipeline.schema is not None
        made.pipeline, made.schema = pipeline, pipeline.schema
        return made

    def _columns(self, graph: Graph, rows: NDArray[np.int64]) -> Floats:
        """Return columns (n, T) of configs."""
        return np.asarray(self.pipeline.apply(graph.select(rows)).nodes.config_feat, np.float64)

    def _spread(self, graph: Graph, columns: Floats) -> tuple[Floats, Floats]:
        """Return mean (n,) and standard deviation (n,)."""
        mean, variance = np.empty(len(columns)), np.empty(len(columns))
        for start in range(0, len(columns), _CHUNK):
            part = slice(start, start + _CHUNK)
            mean[part], variance[part] = self.moments(graph, columns[part])
        return mean, np.sqrt(np.maximum(variance, 0))

    def _scores(self, graph: Graph, rows: NDArray[np.int64]) -> Floats:
        if rows.size == 0:
            return np.zeros(0)
        distinct, of = np.unique(self._columns(graph, rows), axis=0, return_inverse=True)
        return np.asarray(self._spread(graph, distinct)[0][of.ravel()])  # equal configs: equal bits

    def choose(
        self,
        graph: Graph,
        count: int = 10,
        configs: Rows | None = None,
        *,
        scores: Sequence[float] | NDArray[Any] | None = None,
        **options: Unpack[ChooseOptions],
    ) -> NDArray[np.int64]:
        """Return the positions of `count` configs to measure, if only the fastest of them will be kept.

        Configs are chosen greedily: each minimises the expected score of the fastest one so far, over samples
        of the process. So they differ, while the best by mean are often alike: if one is slow, all are.
        Beyond 2,000 the next by mean follow.

        Parameters
        ----------
        graph, count, configs, **options
            As for :meth:`tpugraphs.ranker.ScorerBase.choose`, which also says what is returned.
        scores : (n,) array, optional
            What another ranker predicts for the same configs, such as ``network.predict(graph)``. They take
            the place of the means of the process, scaled to their mean and spread; the covariance remains.

        Raises
        ------
        ConfigError
            `count` is not a whole number of at least 1, or `scores` are not a finite number per config.
        """
        self = copy(self)  # one fit, whatever another thread does
        rows = self._rows(graph, configs)
        count = min(check_whole("count", count, 1), rows.size)
        given = None if scores is None else _checked(scores, rows.size)
        if count == 0:
            return np.zeros(0, np.int64)
        columns = self._columns(graph, rows)
        distinct, first, of = np.unique(columns, axis=0, return_index=True, return_inverse=True)
        mean, deviation = self._spread(graph, distinct)
        if given is not None:
            mean = _scaled_to(mean, given[first])
        closely = min(max(_CANDIDATES, 2 * count), _CLOSELY)
        near = np.argsort(mean - deviation, kind="stable")[:closely]
        middle, covariance = self.moments(graph, distinct[near], together=True)
        middle = self._trust * middle if given is None else mean[near]
        best = _core.normal_together(middle, covariance, self._samples, self.seed, min(count, near.size))
        chosen = first[near[best]]
        order = np.argsort(mean[of.ravel()], kind="stable")
        rest = order[~np.isin(order, chosen)][: count - chosen.size]
        return np.concatenate([chosen, rest]).astype(np.int64)

    def to_file(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return the arguments of the constructor, the preprocessing and what was learnt."""
        metadata, tensors = super().to_file()
        state = {f"pipeline.{name}": array for name, array in self.pipeline.tensors().items()}
        return {"preprocessing": self.pipeline.steps, **metadata}, {**tensors, **state}

    def _restore(self, path: str, metadata: dict[str, Any], tensors: dict[str, NDArray[Any]]) -> None:
        self.pipeline.schema = schema_of(path, metadata)
        state = {n.removeprefix("pipeline."): a for n, a in tensors.items() if n.startswith("pipeline.")}
        self.pipeline = Pipeline.from_file(path, metadata.get("preprocessing"), state, self.pipeline)
        super()._restore(path, metadata, tensors)
        try:
            with np.errstate(over="raise", invalid="raise"):
                self._factor()
        except (np.linalg.LinAlgError, ArithmeticError):  # values that no fit finds
            table = next(name for name, one in self.arrays.items() if len(one.shape) > 1)
            raise tensorfile.fail(path, table, "rows that were learnt from", "others") from None


def _pipeline() -> Pipeline:
    """Return the preprocessing of the recipe ``graph-config``."""
    recipe = get_recipe("graph-config")
    return recipe.pipeline(recipe.fields())


def _checked(scores: Any, count: int) -> Floats:
    """Return the scores of another ranker, or raise ConfigError."""
    found = np.asarray(scores, np.float64)
    if found.shape != (count,) or not np.isfinite(found).all():
        got = f"shape {found.shape}" if found.shape != (count,) else "NaN or infinity"
        raise ConfigError(
            f"scores: expected a finite number for each of {counted(count, 'config')}, got {got}"
        )
    return found


def _scaled_to(mean: Floats, scores: Floats) -> Floats:
    """Return scores with the mean and the standard deviation of `mean`."""
    spread = float(scores.std()) or 1.0
    return np.asarray(mean.mean() + (scores - scores.mean()) * (mean.std() / spread))


def standard(learnt: Mapping[str, NDArray[Any]], table: Floats, kind: str = "") -> Floats:
    """Return the columns that were learnt from, standardised."""
    x: Floats = (table[:, learnt[f"{kind}column"]] - learnt[f"{kind}mean"]) / learnt[f"{kind}scale"]
    return x


def squares(x: Floats, z: Floats) -> Floats:
    """Return squared distances (n, m) of rows x (n, T) and z (m, T); rounding may make them negative."""
    return np.asarray((x * x).sum(1)[:, None] + (z * z).sum(1) - 2 * (x @ z.T))


_MOST = 2000  # most configs to learn from: memory grows with their square, time with their cube
_SEARCH = 60  # steps of the search for the length scales
_FLOOR = 1e-3  # least variance of the noise


class _Prior(NamedTuple):
    """Normal prior (P,) of the logarithms of: 1 / length of every column, variance, variance of the noise."""

    mean: Floats
    spread: Floats


@filekinds.register("gaussian-process")
class GaussianProcess(Process):
    """Rank the configs of one graph from some of its measurements, and choose which to measure next.

    The columns of the configs are those of the recipe ``graph-config``; the target is the normal quantile of
    the runtime's rank. The covariance is Matern 3/2 with a length scale per column, found by maximum
    posterior. Nodes and features of the graph are not used. It takes up to 2,000 configs, and suits tens or
    hundreds.

    Parameters
    ----------
    base : Scorer, optional
        A fitted ranker whose scores are one more column, for example one that learnt from other devices, or
        was adapted to this one.
    spread : float
        Standard deviation of the prior of the logarithm of a length scale. The smaller, the more equally the
        columns count; 1 suits hundreds of measurements, 0.3 a few dozen.
    seed : int
        Of the samples in `choose`.

    Examples
    --------
    >>> import tpugraphs as tg
    >>> graph = tg.open_collection("options:xla:cpu").test[0]
    >>> process = tg.ranker.GaussianProcess().fit(graph, range(20))
    >>> chosen = process.choose(graph, 3, range(20, 112))  # of those that were not measured
    >>> chosen.shape
    (3,)
    """

    name = "gaussian-process"
    arguments: ClassVar = {"spread": float, "seed": int}
    arrays: ClassVar = {
        "column": Array("F", np.int64, 0, "columns"),
        "mean": Array("F"),
        "scale": Array("F", least=LEAST),
        "x": Array("NF", rows=_MOST),
        "y": Array("N"),
        "logs": Array("P"),
    }

    def __init__(self, base: Scorer | None = None, spread: float = 1.0, seed: int = 0) -> None:
        super().__init__(seed)
        self.base = base if base is None else check_scorer("base", base)
        self.spread = check_number("spread", spread)

    def fit(  # type: ignore[override]
        self, graph: Graph, configs: Rows | None = None, *, valid: Valid = None
    ) -> GaussianProcess:
        """Learn from measured rows of one graph.

        Parameters
        ----------
        graph : Graph
            Whose configs are features.
        configs : slice, (n,) int or (C,) bool, optional
            Its measured rows; by default all that ran.
        valid : object
            Not used.

        Returns
        -------
        GaussianProcess
            The instance itself.

        Raises
        ------
        DataError
            Configs that are digits, that failed or have no runtimes, or whose runtimes are all equal.
        ConfigError
            More than 2,000 configs.
        """
        check_graph("graph", graph)
        some = graph.select(graph.ran if configs is None else configs)
        if some.num_configs > _MOST:
            most = f"at most {_MOST} to learn from, got {some.num_configs}"
            raise ConfigError(f"configs: expected {most}: give some of them, or use a Ranker")
        made = self._prepared([some])
        columns = made._columns(some, np.arange(some.num_configs))
        scale = columns.std(0)
        _, first = np.unique(columns, axis=1, return_index=True)  # the first of equal columns
        used = np.sort(first[scale[first] > LEAST])
        made.learnt = {"column": used, "mean": columns.mean(0)[used], "scale": scale[used]}
        x = np.ascontiguousarray(standard(made.learnt, columns))  # in the order of a file: equal bits
        y = targets(measured_runtimes(some), "normal-score")
        y = (y - y.mean()) / y.std()
        near = -0.5 * math.log(4 * max(used.size, 1))  # distances do not depend on the number of columns
        means, spreads = [near] * used.size + [0.0, -4.0], [self.spread] * used.size + [1.0, 1.5]
        logs = _search(x, y, _Prior(np.array(means), np.array(spreads)))
        made.learnt |= {"x": x, "y": y, "logs": logs}
        made._factor()
        return self._become(made)

    def _factor(self) -> None:
        x, logs = self.learnt["x"], self.learnt["logs"]
        covariance = _matern(x, x, logs)[0]
        covariance[np.diag_indices(len(x))] += math.exp(logs[-1]) + _FLOOR
        self._root = np.linalg.inv(np.linalg.cholesky(covariance))
        self._weight = self._root.T @ (self._root @ self.learnt["y"])

    def _columns(self, graph: Graph, rows: NDArray[np.int64]) -> Floats:
        """Return columns (n, T) of configs, with the scores of `base` as the last one."""
        made = super()._columns(graph, rows)
        if self.base is None:
            return made
        return np.column_stack([made, np.asarray(self.base.predict(graph, rows, verbose=False), np.float64)])

    def moments(self, graph: Graph, columns: Floats, together: bool = False) -> tuple[Floats, Floats]:
        """Return means and variances of the latent function: see `Process.moments`."""
        x, logs = standard(self.learnt, columns), self.learnt["logs"]
        cross = _matern(x, self.learnt["x"], logs)[0]
        known = cross @ self._root.T
        if together:
            return cross @ self._weight, _matern(x, x, logs)[0] - known @ known.T
        return cross @ self._weight, math.exp(logs[-2]) - (known * known).sum(1)

    def to_file(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return metadata, and what was learnt."""
        metadata, tensors = super().to_file()
        members, own = filekinds.write_members([] if self.base is None else [self.base])
        return {**metadata, "members": members}, tensors | own

    @classmethod
    def from_file(cls, path: str, metadata: dict[str, Any], tensors: dict[str, NDArray[Any]]) -> Self:
        """Restore what `to_file` returned; CheckpointError if that is damaged."""
        base = next(iter(filekinds.read_members(path, metadata, tensors)), None)
        made = filekinds.construct(cls, path, metadata, cls.arguments, base=base)
        made._restore(path, metadata, tensors)
        return made

    def _limits(self, tensors: Mapping[str, NDArray[Any]]) -> dict[str, int]:
        columns = self.pipeline.sizes.config + (self.base is not None)
        return {"columns": columns - 1, "P": tensors["column"].size + 2 if "column" in tensors else 0}


def _matern(x: Floats, z: Floats, logs: Floats) -> tuple[Floats, Floats]:
    """Return the covariance (n, m) of rows x (n, T) and z (m, T), and its slope over squared distance."""
    x, z = x * np.exp(logs[:-2]), z * np.exp(logs[:-2])
    away = np.sqrt(3 * np.maximum(squares(x, z), 1e-12))
    decay = math.exp(logs[-2]) * np.exp(-away)
    return (1 + away) * decay, -1.5 * decay


def _slope(x: Floats, y: Floats, logs: Floats, prior: _Prior) -> Floats:
    """Return the gradient (P,) of the negative log posterior."""
    covariance, by_square = _matern(x, x, logs)
    inverse = np.linalg.inv(covariance + (math.exp(logs[-1]) + _FLOOR) * np.eye(len(y)))
    weight = inverse @ y
    by_covariance = 0.5 * (inverse - np.outer(weight, weight))
    by_square *= by_covariance
    lengths = 2 * (by_square.sum(1) @ (x * x) - np.einsum("nt,nt->t", x, by_square @ x))
    slope = np.concatenate([
        2 * np.exp(2 * logs[:-2]) * lengths,
        [(by_covariance * covariance).sum(), np.trace(by_covariance) * math.exp(logs[-1])],
    ])  # fmt: skip
    return np.asarray(slope + (logs - prior.mean) / prior.spread**2)


def _search(x: Floats, y: Floats, prior: _Prior) -> Floats:
    """Return the posterior mode (P,) of the logarithms, found by the signs of the gradient alone (Rprop)."""
    logs, step = prior.mean.copy(), np.full(prior.mean.shape, 0.1)
    before = np.zeros_like(logs)
    for _ in range(_SEARCH):
        slope = _slope(x, y, logs, prior)
        turned = slope * before
        step = np.clip(np.where(turned > 0, 1.2 * step, np.where(turned < 0, 0.5 * step, step)), 1e-4, 0.5)
        before = np.where(turned < 0, 0, slope)
        logs = logs - step * np.sign(before)
    return logs
