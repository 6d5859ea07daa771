"""A Gaussian process over the columns of configs: knows how sure it is, and so which configs to measure."""

from __future__ import annotations

import math
from abc import abstractmethod
from copy import copy
from typing import Any, NamedTuple, Self, Unpack

import numpy as np
from numpy.typing import NDArray

from tpugraphs.data.graph import Graph, Rows, Valid
from tpugraphs.errors import CheckpointError, ConfigError, DataError, not_a_graph
from tpugraphs.evaluation.evaluator import measured_runtimes
from tpugraphs.network.network import schema_of
from tpugraphs.network.scoring import as_configs
from tpugraphs.preprocess.checks import check_kind, check_measured
from tpugraphs.preprocess.pipeline import Pipeline
from tpugraphs.preprocess.targets import targets
from tpugraphs.ranker import filekinds
from tpugraphs.ranker.choosing import fastest_together
from tpugraphs.ranker.scorer import (
    ChooseOptions,
    PredictOptions,
    Scorer,
    ScorerBase,
)
from tpugraphs.recipes import get_recipe
from tpugraphs.system import tensorfile
from tpugraphs.system.arguments import check_number, check_whole

__all__ = ["GaussianProcess", "Process", "pipeline_of", "squares"]

_MOST = 2000  # configs that are learnt from: memory grows with their square, time with their cube
_CHUNK = 4096  # rows scored at a time
_STEPS = 60  # of the search for the length scales
_CANDIDATES = 500  # configs that `choose` looks at closely
_JITTER = 1e-6  # relative to the variance, for the factor of a covariance that is only just definite
_LEAST = 1e-9  # standard deviation of a column that varies
_FLOOR = 1e-3  # least variance of the noise
Floats = NDArray[np.float64]


class _Prior(NamedTuple):
    """Normal prior (P,) of the logarithms of: 1 / length of every column, variance, variance of the noise."""

    mean: Floats
    spread: Floats


class Process(ScorerBase):
    """Scorers that know for configs of a graph not only a mean but how they vary together.

    Attributes
    ----------
    seed : int
        Of the samples in `choose`.
    pipeline : Pipeline
        Prepares the columns.
    """

    seed: int
    pipeline: Pipeline
    _samples = 512  # likely worlds that `choose` looks at
    _tensors: dict[str, NDArray[Any]]

    @property
    def kind(self) -> str:
        """``"graph"``: graphs of any schema whose configs are features."""
        return "graph"

    @property
    def fitted(self) -> bool:
        """Whether it has learnt something."""
        return bool(self._tensors)

    @abstractmethod
    def moments(self, graph: Graph, columns: Floats, together: bool = False) -> tuple[Floats, Floats]:
        """Return means (n,) of configs, and their variances (n,) or, together, their covariance (n, n).

        Parameters
        ----------
        columns : (n, T) float64
            Prepared columns of the configs.
        """

    def _columns(self, graph: Graph, rows: NDArray[np.int64]) -> Floats:
        """Columns (n, T) of configs."""
        return np.asarray(self.pipeline.apply(graph.select(rows)).graph.config_feat, np.float64)

    def _rows(self, graph: Graph, configs: Rows | None) -> NDArray[np.int64]:
        self.require_fit("predict")
        check_kind(graph, self.kind)
        assert self.pipeline.schema is not None
        self.pipeline.schema.check(graph)
        if as_configs(graph, configs) is not None:
            raise ConfigError(
                "configs: a process scores rows of a graph: make a graph of these configs first"
            )
        return np.asarray(graph.row_numbers(configs), np.int64)

    def _spread(self, graph: Graph, columns: Floats) -> tuple[Floats, Floats]:
        """Mean (n,) and standard deviation (n,)."""
        mean, variance = np.empty(len(columns)), np.empty(len(columns))
        for start in range(0, len(columns), _CHUNK):
            part = slice(start, start + _CHUNK)
            mean[part], variance[part] = self.moments(graph, columns[part])
        return mean, np.sqrt(np.maximum(variance, 0))

    def predict(
        self, graph: Graph, configs: Rows | None = None, tta: int = 0, **options: Unpack[PredictOptions]
    ) -> Floats:
        """Scores (n,) of rows `configs` (all, if not given): the mean. `tta` and `options` have no effect.

        Raises
        ------
        Error, ConfigError, DataError
            Not fitted; configs given as such; a graph that does not fit the schema of the first.
        """
        self = copy(self)  # of one fit, whatever another thread does
        rows = self._rows(graph, configs)
        if rows.size == 0:
            return np.zeros(0)
        distinct, of = np.unique(self._columns(graph, rows), axis=0, return_inverse=True)
        return np.asarray(self._spread(graph, distinct)[0][of.ravel()])  # equal configs: equal bits

    def choose(
        self, graph: Graph, count: int = 10, configs: Rows | None = None, **options: Unpack[ChooseOptions]
    ) -> NDArray[np.int64]:
        """Return the positions of the `count` configs to measure, if the fastest of them is kept.

        They are chosen one by one, each such that the fastest of those so far is expected to be as fast as
        possible, over samples of the process. So they are not all alike, as the first in the order often are,
        of which none is fast if one is not. After up to 2,000 follow the next in the order. `options` have no
        effect.
        """
        self = copy(self)  # of one fit, whatever another thread does
        rows = self._rows(graph, configs)
        count = min(check_whole("count", count, 1), rows.size)
        if count == 0:
            return np.zeros(0, np.int64)
        distinct, first, of = np.unique(
            self._columns(graph, rows), axis=0, return_index=True, return_inverse=True
        )
        mean, deviation = self._spread(graph, distinct)
        closely = min(max(_CANDIDATES, 2 * count), _MOST)
        near = np.argsort(mean - deviation, kind="stable")[:closely]
        middle, covariance = self.moments(graph, distinct[near], together=True)
        covariance[np.diag_indices(near.size)] += _JITTER * max(float(covariance.diagonal().max()), 1e-300)
        normal = np.random.default_rng(self.seed).standard_normal((near.size, self._samples))
        samples = middle[:, None] + np.linalg.cholesky(covariance) @ normal
        chosen = first[near[fastest_together(samples, min(count, near.size))]]
        order = np.argsort(mean[of.ravel()], kind="stable")
        rest = order[~np.isin(order, chosen)][: count - chosen.size]
        return np.concatenate([chosen, rest]).astype(np.int64)

    # Files

    def to_file(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return metadata, and what was learnt."""
        self.require_fit("save")
        assert self.pipeline.schema is not None
        metadata = {"preprocessing": self.pipeline.steps, "schema": self.pipeline.schema.to_dict()}
        state = {f"pipeline.{name}": array for name, array in self.pipeline.tensors().items()}
        return metadata | {"seed": self.seed}, {**self._tensors, **state}

    def _restore(self, path: str, metadata: dict[str, Any], tensors: dict[str, NDArray[Any]]) -> None:
        """Take over schema and preprocessing from a file; CheckpointError if they are damaged."""
        self.pipeline.schema = schema_of(path, metadata)
        state = {n.removeprefix("pipeline."): a for n, a in tensors.items() if n.startswith("pipeline.")}
        self.pipeline = Pipeline.from_file(path, metadata.get("preprocessing"), state, self.pipeline)


@filekinds.register("gaussian-process")
class GaussianProcess(Process):
    """Rank the configs of one graph from some of its measurements, and choose which to measure next.

    The columns of the configs are those of the recipe ``graph-config``; the target is the quantile of the
    normal distribution at the place of the runtime. The covariance is Matern 3/2 with a length scale per
    column, found by maximum posterior. Nodes and features of the graph are not used. Up to 2,000 configs can
    be learnt from; tens or hundreds are what it is for.

    Parameters
    ----------
    base : Scorer, optional
        A fitted ranker whose scores are one more column, for example one that learnt from other devices, or
        was adapted to this one.
    spread : float
        Standard deviation of the prior of the logarithm of a length scale. The smaller, the more alike the
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

    def __init__(self, base: Scorer | None = None, spread: float = 1.0, seed: int = 0) -> None:
        if base is not None and not (isinstance(base, Scorer) and base.fitted):
            raise ConfigError(f"base: expected a fitted ranker, got {base!r}")
        self.base, self.spread, self.seed = base, check_number("spread", spread), check_whole("seed", seed, 0)
        self.pipeline = pipeline_of()
        self._tensors = {}

    @property
    def name(self) -> str:
        """Name in reports."""
        return "gaussian-process"

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
            This one.

        Raises
        ------
        DataError
            Configs that are digits, that failed or have no runtimes, or whose runtimes are all equal.
        ConfigError
            More than 2,000 configs.
        """
        if not hasattr(graph, "num_configs"):
            raise not_a_graph("graph", graph)
        if graph.config_feat is None or getattr(graph, "num_config_nodes", False):
            raise DataError(
                "config_feat: expected configs that are features and nothing else, found digits of nodes: "
                "a Gaussian process does not learn from these",
                file=str(graph.name), field="config_feat", found="digits", expected="features",
            )  # fmt: skip
        some = graph.select(graph.ran if configs is None else configs)
        check_measured(some, self.kind)
        if some.num_configs > _MOST:
            raise ConfigError(
                f"configs: expected at most {_MOST} to learn from, got {some.num_configs}: give some of "
                "them, or use a Ranker"
            )
        made = copy(self)  # so that a fit that fails changes nothing
        made.pipeline = pipeline_of().fit([some])
        columns = made._columns(some, np.arange(some.num_configs))
        scale = columns.std(0)
        _, first = np.unique(columns, axis=1, return_index=True)  # of equal columns the first
        used = np.sort(first[scale[first] > _LEAST])
        mean, scale = columns.mean(0)[used], scale[used]
        x = np.ascontiguousarray((columns[:, used] - mean) / scale)  # in the order of a file: equal bits
        y = targets(measured_runtimes(some), "normal-score")
        y = (y - y.mean()) / y.std()
        logs = _search(x, y, self._prior(used.size))
        made._learn({"column": used, "mean": mean, "scale": scale, "x": x, "y": y, "logs": logs})
        vars(self).update(vars(made))
        return self

    def _prior(self, columns: int) -> _Prior:
        """Return a prior by which two configs are as far apart with many columns as with few."""
        near = -0.5 * math.log(4 * max(columns, 1))
        return _Prior(
            np.array([near] * columns + [0.0, -4.0]), np.array([self.spread] * columns + [1.0, 1.5])
        )

    def _learn(self, tensors: dict[str, NDArray[Any]]) -> None:
        """Take over what was learnt, and factor the covariance (n, n) of its rows."""
        x, logs = tensors["x"], tensors["logs"]
        covariance = _matern(x, x, logs)[0]
        covariance[np.diag_indices(len(x))] += _noise(logs)
        self._root = np.linalg.inv(np.linalg.cholesky(covariance))
        self._weight = self._root.T @ (self._root @ tensors["y"])
        self._tensors = tensors

    # Scoring

    def _columns(self, graph: Graph, rows: NDArray[np.int64]) -> Floats:
        """Columns (n, T) of configs, with the scores of `base` as the last one."""
        made = super()._columns(graph, rows)
        if self.base is None:
            return made
        return np.column_stack([made, np.asarray(self.base.predict(graph, rows, verbose=False), np.float64)])

    def moments(self, graph: Graph, columns: Floats, together: bool = False) -> tuple[Floats, Floats]:
        """Return means and variances of the latent function.

        Parameters
        ----------
        graph : Graph
            The graph of the configs.
        columns : (n, F) float64
            What preprocessing makes of the configs.
        together : bool
            The covariance in place of variances.

        Returns
        -------
        mean : (n,) float64
            Smaller means predicted faster.
        variance : (n,) or (n, n) float64
            Of the same unit, squared.
        """
        learnt = self._tensors
        x, logs = (columns[:, learnt["column"]] - learnt["mean"]) / learnt["scale"], learnt["logs"]
        cross = _matern(x, learnt["x"], logs)[0]
        known = cross @ self._root.T
        if together:
            return cross @ self._weight, _matern(x, x, logs)[0] - known @ known.T
        return cross @ self._weight, math.exp(logs[-2]) - (known * known).sum(1)

    # Files

    def to_file(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return metadata, and what was learnt."""
        metadata, tensors = super().to_file()
        members, own = filekinds.write_members([] if self.base is None else [self.base])
        return {**metadata, "spread": self.spread, "members": members}, tensors | own

    @classmethod
    def from_file(cls, path: str, metadata: dict[str, Any], tensors: dict[str, NDArray[Any]]) -> Self:
        """Make it of what `to_file` gave, from the file `path`; CheckpointError if that is damaged."""
        base = next(iter(filekinds.read_members(path, metadata, tensors)), None)
        spread, seed = (tensorfile.entry(path, metadata, *of) for of in (("spread", float), ("seed", int)))
        try:
            made = cls(base, spread, seed)
        except ConfigError as error:
            raise CheckpointError(f"{error}; the file is damaged", file=path, field="spread") from None
        made._restore(path, metadata, tensors)
        rows, columns = tensors["x"].shape if "x" in tensors and tensors["x"].ndim == 2 else (0, 0)
        wide: tuple[int, ...] = (columns,)
        shapes = {"mean": wide, "scale": wide, "x": (rows, columns), "y": (rows,), "logs": (columns + 2,)}
        learnt = {n: tensorfile.take(path, tensors, n, shape, np.float64) for n, shape in shapes.items()}
        learnt["column"] = column = tensorfile.take(path, tensors, "column", (columns,), np.int64)
        most = made.pipeline.sizes.config + (base is not None)
        known, varies = (column >= 0) & (column < most), learnt["scale"] > _LEAST
        fine = 1 < rows <= _MOST and known.all() and varies.all()
        try:
            with np.errstate(over="raise", invalid="raise"):
                if fine:
                    made._learn(learnt)
        except (np.linalg.LinAlgError, ArithmeticError):  # of values that no fit finds
            fine = False
        if not fine:
            raise tensorfile.fail(path, "x", "rows that were learnt from", "others")
        return made


def pipeline_of() -> Pipeline:
    """Return a pipeline that prepares columns as the recipe ``graph-config`` does."""
    recipe = get_recipe("graph-config")
    return recipe.pipeline(recipe.fields())


# ---- the covariance ---------------------------------------------------------------------------------------


def _noise(logs: Floats) -> float:
    return math.exp(logs[-1]) + _FLOOR


def squares(x: Floats, z: Floats) -> Floats:
    """Squared distances (n, m) of rows x (n, T) and z (m, T); rounding may make them negative."""
    return np.asarray((x * x).sum(1)[:, None] + (z * z).sum(1) - 2 * (x @ z.T))


def _matern(x: Floats, z: Floats, logs: Floats) -> tuple[Floats, Floats]:
    """Covariance (n, m) of rows x (n, T) and z (m, T), and its slope by the squared distance."""
    x, z = x * np.exp(logs[:-2]), z * np.exp(logs[:-2])
    away = np.sqrt(3 * np.maximum(squares(x, z), 1e-12))
    decay = math.exp(logs[-2]) * np.exp(-away)
    return (1 + away) * decay, -1.5 * decay


def _slope(x: Floats, y: Floats, logs: Floats, prior: _Prior) -> Floats:
    """Gradient (P,) of the negative logarithm of the posterior."""
    covariance, by_square = _matern(x, x, logs)
    inverse = np.linalg.inv(covariance + _noise(logs) * np.eye(len(y)))
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
    """Return the likeliest logarithms (P,), found by the signs of the slope alone (Rprop)."""
    logs, step = prior.mean.copy(), np.full(prior.mean.shape, 0.1)
    before = np.zeros_like(logs)
    for _ in range(_STEPS):
        slope = _slope(x, y, logs, prior)
        turned = slope * before
        step = np.clip(np.where(turned > 0, 1.2 * step, np.where(turned < 0, 0.5 * step, step)), 1e-4, 0.5)
        before = np.where(turned < 0, 0, slope)
        logs = logs - step * np.sign(before)
    return logs
