"""Baselines: a random order, a linear model of one graph, mean effects over programs."""

from __future__ import annotations

from copy import copy
from typing import Any, ClassVar, Self, Unpack

import numpy as np
from numpy.typing import NDArray

from tpugraphs.data.graph import Graph, Graphs, Rows, Valid
from tpugraphs.errors import ConfigError, DataError, not_a_graph
from tpugraphs.evaluation.evaluator import measured_runtimes
from tpugraphs.metrics import mean_ranks
from tpugraphs.ranker import filekinds
from tpugraphs.ranker.conventions import learnable
from tpugraphs.ranker.learnt import HUGE, Array, Floats, LearntScorer
from tpugraphs.ranker.scorer import PredictOptions, ScorerBase
from tpugraphs.system import tensorfile
from tpugraphs.system.arguments import check_number, check_whole
from tpugraphs.training.trainset import as_graphs

__all__ = ["LinearBaseline", "MeanEffect", "RandomBaseline", "random_scores"]

_CHUNK = 4096  # rows whose one-hot columns exist at a time
_MAX_COLUMNS = 3000
_GRAPHS = ("any", "layout", "tile", "graph")


def random_scores(graph: Graph, configs: Rows | None = None, *, seed: int = 0) -> Floats:
    """Return scores of a random order: a permutation of 0..n-1.

    Parameters
    ----------
    graph : LayoutGraph or TileGraph
    configs : (n,) int, optional
        Rows to score; all if not given.
    seed : int

    Returns
    -------
    (n,) float64

    Raises
    ------
    ConfigError
        A seed that is not a whole number, or is below 0.
    """
    _check_graph(graph)
    n = graph.row_numbers(configs).size
    return np.random.default_rng(check_whole("seed", seed, 0)).permutation(n).astype(np.float64)


@filekinds.register("random-baseline")
class RandomBaseline(ScorerBase):
    """Rank in a random order, the same in every call.

    Parameters
    ----------
    seed : int
    kind : {"any", "layout", "tile", "graph"}
        Kind of the graphs it ranks; all members of an ensemble must have the same.
    """

    name = "random"

    def __init__(self, seed: int = 0, kind: str = "any") -> None:
        self.seed, self._kind = check_whole("seed", seed, 0), kind

    @property
    def kind(self) -> str:
        """Kind of the graphs."""
        return self._kind

    def predict(
        self, graph: Graph, configs: Rows | None = None, tta: int = 0, **options: Unpack[PredictOptions]
    ) -> Floats:
        """Return scores (n,) of a random order; `tta` and `options` have no effect."""
        return random_scores(graph, configs, seed=self.seed)

    def to_file(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return the seed."""
        return {"seed": self.seed, "graphs": self._kind}, {}

    @classmethod
    def from_file(cls, path: str, metadata: dict[str, Any], tensors: dict[str, NDArray[Any]]) -> Self:
        """Restore what `to_file` returned; CheckpointError if that is damaged."""
        return filekinds.construct(cls, path, metadata, {"seed": int}, kind=_kind_in(path, metadata))


@filekinds.register("linear-baseline")
class LinearBaseline(LearntScorer):
    """Ridge regression of the runtime's rank on the columns of the configuration, for one graph.

    Layout: one column per (configurable node, digit position, value) that occurs in some but not all
    training rows; tile: the 24 numbers, standardised. The target is the rank of the runtime in [0, 1] (mean
    rank for equal runtimes), so the heavy tail of runtimes does not dominate the fit. It uses no features of
    the graph and cannot rank another one.

    Parameters
    ----------
    alpha : float
        Weight of the squared coefficients, per training row.
    """

    name = "linear"
    arguments: ClassVar = {"alpha": (int, float)}
    arrays: ClassVar = {
        "column": Array("F", np.int64, 0, "columns"),
        "digit": Array("F", np.int64, -1, "digits", optional=True),
        "mean": Array("F"),
        "scale": Array("F", least=1e-100),
        "weight": Array("F"),
    }

    def __init__(self, alpha: float = 1e-4) -> None:
        super().__init__()
        self.alpha = check_number("alpha", alpha, 1e-100, HUGE)
        self._kind = "any"

    @property
    def kind(self) -> str:
        """Kind of the graph it was fitted on."""
        return self._kind

    def fit(  # type: ignore[override]
        self, graph: Graph, configs: Rows | None = None, *, valid: Valid = None
    ) -> LinearBaseline:
        """Fit on measured rows of one graph.

        Parameters
        ----------
        graph : Graph
            With measured runtimes.
        configs : slice, (n,) int or (C,) bool, optional
            Its rows; by default all that ran.
        valid : object
            Not used.

        Returns
        -------
        LinearBaseline
            The instance itself.

        Raises
        ------
        ConfigError
            Configs that are features and digits at once.
        DataError
            Placeholder runtimes, or no configurations.
        """
        _check_graph(graph)
        rows = graph.ran if configs is None else graph.row_numbers(configs)
        ranks = mean_ranks(measured_runtimes(graph, rows)) / max(rows.size - 1, 1)
        made = copy(self)
        made._kind, made.schema, made.intercept = graph.kind, graph.schema, float(ranks.mean())
        made.learnt = _columns(graph, rows)
        width = made.learnt["column"].size
        gram, moment = np.zeros((width, width)), np.zeros(width)
        for start in range(0, rows.size, _CHUNK):
            x = made._features(graph, rows[start : start + _CHUNK])
            gram += x.T @ x
            moment += x.T @ (ranks[start : start + _CHUNK] - made.intercept)
        gram[np.diag_indices(width)] += made.alpha * rows.size
        made.learnt["weight"] = np.linalg.solve(gram, moment)
        return self._become(made)

    def _scores(self, graph: Graph, rows: NDArray[np.int64]) -> Floats:
        weight = self.learnt["weight"]
        chunks = [
            self._features(graph, rows[start : start + _CHUNK]) @ weight
            for start in range(0, rows.size, _CHUNK)
        ]
        return self.intercept + np.concatenate([*chunks, np.empty(0)])

    def _features(self, graph: Graph, rows: NDArray[np.int64]) -> Floats:
        """Return centred feature columns (rows, width)."""
        column, mean, scale = (self.learnt[name] for name in ("column", "mean", "scale"))
        if "digit" in self.learnt:
            digits = _digits(graph, rows)
            if column.size and int(column.max()) >= digits.shape[1]:
                raise ConfigError("LinearBaseline was fitted on a graph with more configurable nodes")
            raw = digits[:, column] == self.learnt["digit"]
        else:
            raw = np.asarray(graph.config_feat)[rows][:, column]
        return np.asarray((raw.astype(np.float64) - mean) / scale)

    def to_file(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return what was learnt."""
        metadata, tensors = super().to_file()
        return {"graphs": self._kind, "intercept": self.intercept, **metadata}, tensors

    def _restore(self, path: str, metadata: dict[str, Any], tensors: dict[str, NDArray[Any]]) -> None:
        self._kind = _kind_in(path, metadata)
        self.intercept = float(tensorfile.entry(path, metadata, "intercept", (int, float)))
        if not abs(self.intercept) < HUGE:
            raise tensorfile.fail(path, "intercept", f"a number below {HUGE:g}", f"{self.intercept:g}")
        super()._restore(path, metadata, tensors)

    def _limits(self, tensors: Any) -> dict[str, int]:
        most = max((digit.values for digit in self.schema.digits), default=0)
        any_node = 1 << 62  # the number of nodes is not limited
        columns = any_node if "digit" in tensors else len(self.schema.config)
        return {"columns": columns - 1, "digits": most - 1}


def _columns(graph: Graph, rows: NDArray[np.int64]) -> dict[str, NDArray[Any]]:
    """Return mean, scale and (layout) column number and value of every feature that varies."""
    if graph.config_feat is not None:
        if graph.schema.digits:
            raise ConfigError(
                "LinearBaseline reads configs as features or as digits, and graph "
                f"{graph.name!r} has both: use the recipe graph-config"
            )
        x = np.asarray(graph.config_feat)[rows].astype(np.float64)
        scale = x.std(axis=0)
        column = np.flatnonzero(scale > 0)
        return {"column": column, "mean": x.mean(axis=0)[column], "scale": scale[column]}
    most = max((digit.values for digit in graph.schema.digits), default=0)
    counts = np.zeros((most + 1, graph.node_config_feat.shape[1] * graph.node_config_feat.shape[2]), np.int64)
    for start in range(0, rows.size, _CHUNK):
        digits = _digits(graph, rows[start : start + _CHUNK])
        for value in range(-1, most):
            counts[value + 1] += (digits == value).sum(axis=0)
    share = counts / max(rows.size, 1)
    spread = share * (1 - share)
    best = np.argsort(-spread, axis=None, kind="stable")[:_MAX_COLUMNS]
    best = np.sort(best[spread.ravel()[best] > 0])
    places, column = np.unravel_index(best, spread.shape)
    own = {"column": column, "mean": share[places, column], "scale": np.ones(column.size)}
    return own | {"digit": places - 1}


def _digits(graph: Graph, rows: NDArray[np.int64]) -> NDArray[np.int8]:
    """Return the digits (rows, K * D) of these configurations."""
    return graph.digits_of(rows).reshape(rows.size, -1)


def _kind_in(path: str, metadata: dict[str, Any]) -> str:
    """Return the kind of graphs that a file names, or raise CheckpointError."""
    kind: str = tensorfile.entry(path, metadata, "graphs", str)
    if kind not in _GRAPHS:
        raise tensorfile.fail(path, "graphs", f"one of {', '.join(_GRAPHS)}", repr(kind)[:80])
    return kind


def _check_graph(graph: Graph) -> None:
    if not hasattr(graph, "num_configs"):
        raise not_a_graph("graph", graph)


@filekinds.register("mean-effect")
class MeanEffect(LearntScorer):
    """Rank configs by their mean effect on other programs.

    The effect of a config on a program is ln(runtime / geometric mean of the program's runtimes). Configs are
    equal if all their features are. Programs must share configs, as those that :func:`tpugraphs.xla.collect`
    measures with compiler options do. A config that was never measured scores 0, the average effect. The
    program itself is not used.
    """

    name = "mean effect"
    arrays: ClassVar = {"configs": Array("CT", np.float32), "effects": Array("C")}

    def fit(self, train: Graphs, valid: Valid = None) -> Self:
        """Average the effects over graphs. `valid` is not used, unless it is y (runtimes).

        Raises
        ------
        DataError
            A graph without features of configs, without runtimes or of another schema.
        """
        graphs = as_graphs("train", learnable(train, valid)[0])
        made, tables, effects = copy(self), list[NDArray[np.float32]](), list[Floats]()
        for i in range(len(graphs)):
            graph = graphs[i]
            table = _table(graph)
            if i == 0:
                made.schema = graph.schema
            made.schema.check(graph, runtimes=True)
            logs = np.log(measured_runtimes(graph, graph.ran))
            tables.append(table[graph.ran])
            effects.append(logs - logs.mean())
        configs, which, counts = np.unique(
            np.concatenate(tables), axis=0, return_inverse=True, return_counts=True
        )
        sums = np.bincount(which.ravel(), np.concatenate(effects))
        made.learnt = {"configs": configs, "effects": sums / counts}
        return self._become(made)

    def _scores(self, graph: Graph, rows: NDArray[np.int64]) -> Floats:
        known, table = self.learnt["configs"], _table(graph)[rows]
        distinct, which = np.unique(np.concatenate([known, table]), axis=0, return_inverse=True)
        effects = np.zeros(len(distinct))
        effects[which.ravel()[: len(known)]] = self.learnt["effects"]
        return effects[which.ravel()[len(known) :]]

    def _limits(self, tensors: Any) -> dict[str, int]:
        return {"T": len(self.schema.config)}


def _table(graph: Graph) -> NDArray[np.float32]:
    """Return the features of configs (C, T), with -0 replaced by 0."""
    if graph.config_feat is None or graph.schema.digits:
        expected, todo = "configs as features alone", "a mean over programs needs configs that they share"
        raise DataError.of("config_feat", expected, "digits of nodes", todo, file=str(graph.name))
    table: NDArray[np.float32] = graph.config_feat + np.float32(0)
    return table
