"""What a ranker must beat: a random order, and a linear model of the configuration's own columns."""

from __future__ import annotations

from copy import copy
from typing import Any, Self, Unpack

import numpy as np
from numpy.typing import NDArray

from tpugraphs.data.graph import Graph, Rows, Valid
from tpugraphs.data.schema import Schema
from tpugraphs.errors import ConfigError, not_a_graph
from tpugraphs.evaluation.evaluator import measured_runtimes
from tpugraphs.metrics import mean_ranks
from tpugraphs.network.network import schema_of
from tpugraphs.ranker import filekinds
from tpugraphs.ranker.scorer import PredictOptions, ScorerBase
from tpugraphs.system import tensorfile
from tpugraphs.system.arguments import check_whole

__all__ = ["LinearBaseline", "RandomBaseline", "random_scores"]

_CHUNK = 4096  # rows whose one-hot columns exist at a time
_MAX_COLUMNS = 3000
_GRAPHS = ("any", "layout", "tile", "graph")
_LEAST, _HUGE = 1e-100, 1e100  # of scales, and of what is multiplied, in a file
_ARRAYS = {"column": np.int64, "mean": np.float64, "scale": np.float64, "weight": np.float64}


def random_scores(graph: Graph, configs: Rows | None = None, *, seed: int = 0) -> NDArray[np.float64]:
    """Scores of a random order: a permutation of 0..n-1.

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
    n = _rows(graph, configs).size
    return np.random.default_rng(check_whole("seed", seed, 0)).permutation(n).astype(np.float64)


@filekinds.register("random-baseline")
class RandomBaseline(ScorerBase):
    """Rank in a random order, the same in every call.

    Parameters
    ----------
    seed : int
    kind : {"any", "layout", "tile", "graph"}
        Kind of the graphs it ranks. In an ensemble it must be that of the other members.
    """

    def __init__(self, seed: int = 0, kind: str = "any") -> None:
        self.seed, self._kind = check_whole("seed", seed, 0), kind

    @property
    def kind(self) -> str:
        """Kind of the graphs."""
        return self._kind

    @property
    def name(self) -> str:
        """Name in reports."""
        return "random"

    def predict(
        self, graph: Graph, configs: Rows | None = None, tta: int = 0, **options: Unpack[PredictOptions]
    ) -> NDArray[np.float64]:
        """Return scores (n,) of a random order; `tta` and `options` have no effect."""
        return random_scores(graph, configs, seed=self.seed)

    def to_file(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return the seed."""
        return {"seed": self.seed, "graphs": self._kind}, {}

    @classmethod
    def from_file(cls, path: str, metadata: dict[str, Any], tensors: dict[str, NDArray[Any]]) -> Self:
        """Make it of what `to_file` gave; CheckpointError if that is damaged."""
        seed = tensorfile.entry(path, metadata, "seed", int)
        if not 0 <= seed < 2**63:
            raise tensorfile.fail(path, "seed", "a number in 0..2^63-1", repr(seed)[:80])
        return cls(seed, _kind_in(path, metadata))


@filekinds.register("linear-baseline")
class LinearBaseline(ScorerBase):
    """Ridge regression of the runtime's rank on the columns of the configuration, for one graph.

    Layout: one column per (configurable node, digit position, value) that occurs in some but not all
    training rows; tile: the 24 numbers, standardised. The target is the rank of the runtime in [0, 1] (mean
    rank for equal runtimes), so the heavy tail of runtimes does not dominate the fit. It uses nothing of the
    graph itself and cannot rank another one.

    Parameters
    ----------
    alpha : float
        Weight of the squared coefficients, per training row.
    """

    def __init__(self, alpha: float = 1e-4) -> None:
        if not alpha > 0:
            raise ConfigError(f"alpha must be above 0, got {alpha}")
        self.alpha = alpha
        self._kind = "any"

    @property
    def kind(self) -> str:
        """Kind of the graph it was fitted on."""
        return self._kind

    @property
    def name(self) -> str:
        """Name in reports."""
        return "linear"

    @property
    def fitted(self) -> bool:
        """Whether it has learnt something."""
        return hasattr(self, "weight")

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
            This one.

        Raises
        ------
        DataError
            Placeholder runtimes, or no configurations.
        """
        rows = _rows(graph, configs) if configs is not None else _require_graph(graph).ran
        made = copy(self)  # so that a fit that fails changes nothing
        made._fit(graph, rows, measured_runtimes(graph, rows))
        vars(self).update(vars(made))
        return self

    def _fit(self, graph: Graph, rows: NDArray[np.int64], runtimes: NDArray[Any]) -> None:
        self._kind = graph.kind
        self.schema: Schema = graph.schema
        self._choose_columns(graph, rows)
        width = self._width
        gram, moment = np.zeros((width, width)), np.zeros(width)
        ranks = mean_ranks(runtimes) / max(rows.size - 1, 1)
        self.intercept = float(ranks.mean())
        for start in range(0, rows.size, _CHUNK):
            x = self._features(graph, rows[start : start + _CHUNK])
            gram += x.T @ x
            moment += x.T @ (ranks[start : start + _CHUNK] - self.intercept)
        gram[np.diag_indices(width)] += self.alpha * rows.size
        self.weight = np.linalg.solve(gram, moment)

    def predict(
        self, graph: Graph, configs: Rows | None = None, tta: int = 0, **options: Unpack[PredictOptions]
    ) -> NDArray[np.float64]:
        """Return scores of rows of a graph; smaller = predicted faster.

        Parameters
        ----------
        graph, configs, tta, **options
            As for `ScorerBase.predict`; `tta` and `options` have no effect.

        Returns
        -------
        (n,) float64

        Raises
        ------
        ConfigError
            Not fitted, or fitted on the other kind of configs or on more configurable nodes.
        DataError
            The graph does not fit the schema of the one it was fitted on.
        """
        if not self.fitted:
            raise ConfigError("LinearBaseline.predict needs fit first")
        self = copy(self)  # of one fit, whatever another thread does
        rows = _rows(graph, configs)
        if _has_features(graph) != (self.digit is None):
            raise ConfigError("LinearBaseline was fitted on the other kind of configs (features or digits)")
        self.schema.check(graph)
        chunks = [
            self._features(graph, rows[start : start + _CHUNK]) @ self.weight
            for start in range(0, rows.size, _CHUNK)
        ]
        return self.intercept + (np.concatenate(chunks) if chunks else np.empty(0))

    def to_file(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return what was learnt."""
        self.require_fit("save")
        tensors = {name: np.asarray(getattr(self, name)) for name in _ARRAYS}
        tensors |= {} if self.digit is None else {"digit": self.digit}
        metadata = {
            "graphs": self._kind,
            "alpha": self.alpha,
            "intercept": self.intercept,
            "schema": self.schema.to_dict(),
        }
        return metadata, tensors

    @classmethod
    def from_file(cls, path: str, metadata: dict[str, Any], tensors: dict[str, NDArray[Any]]) -> Self:
        """Make it of what `to_file` gave; CheckpointError if that is damaged."""
        alpha = tensorfile.entry(path, metadata, "alpha", (int, float))
        try:
            made = cls(alpha)
        except ConfigError as error:
            raise tensorfile.fail(path, "alpha", "a number above 0", f"{alpha} ({error})") from None
        made._kind = _kind_in(path, metadata)
        made.intercept = float(tensorfile.entry(path, metadata, "intercept", (int, float)))
        made.schema = schema_of(path, metadata)
        width = tensors["weight"].shape[:1] if "weight" in tensors else (0,)
        for name, dtype in _ARRAYS.items():
            setattr(made, name, tensorfile.take(path, tensors, name, width, dtype))
        has_digits = "digit" in tensors
        made.digit = tensorfile.take(path, tensors, "digit", width, np.int64) if has_digits else None
        made._width = made.column.size
        made._check(path)
        return made

    def _check(self, path: str) -> None:
        """Raise CheckpointError for columns, digits and scales that no fit can produce."""
        columns, digits = len(self.schema.config), self.schema.digits
        most = columns if self.digit is None else np.iinfo(np.int64).max  # of nodes there may be any number
        if not ((self.column >= 0) & (self.column < most)).all():
            raise tensorfile.fail(path, "column", f"numbers from 0 to {most - 1}", "others")
        values = max((digit.values for digit in digits), default=0)
        if self.digit is not None and not ((self.digit >= -1) & (self.digit < values)).all():
            raise tensorfile.fail(path, "digit", f"numbers from -1 to {values - 1}", "others")
        if not (self.scale > _LEAST).all():
            raise tensorfile.fail(path, "scale", f"numbers above {_LEAST:g}", "others")
        for name in ("mean", "weight", "intercept"):
            if not (np.abs(getattr(self, name)) < _HUGE).all():
                raise tensorfile.fail(path, name, f"numbers below {_HUGE:g}", "others")

    def _choose_columns(self, graph: Graph, rows: NDArray[np.int64]) -> None:
        """Mean, scale and (layout) column number and value of every feature."""
        if _has_features(graph):
            x = np.asarray(graph.config_feat)[rows].astype(np.float64)
            scale = x.std(axis=0)
            self.column = np.flatnonzero(scale > 0)
            self.mean, self.scale = x.mean(axis=0)[self.column], scale[self.column]
            self.digit: NDArray[np.int64] | None = None
        else:
            digits_in_row = graph.node_config_feat.shape[1] * graph.node_config_feat.shape[2]
            most = max(digit.values for digit in graph.schema.digits) if graph.schema.digits else 0
            counts = np.zeros((most + 1, digits_in_row), np.int64)
            for start in range(0, rows.size, _CHUNK):
                digits = _digits(graph, rows[start : start + _CHUNK])
                for value in range(-1, most):
                    counts[value + 1] += (digits == value).sum(axis=0)
            share = counts / max(rows.size, 1)
            spread = share * (1 - share)
            best = np.argsort(-spread, axis=None, kind="stable")[:_MAX_COLUMNS]
            best = np.sort(best[spread.ravel()[best] > 0])
            places, self.column = np.unravel_index(best, spread.shape)
            self.digit = places - 1
            self.mean = share[places, self.column]
            self.scale = np.ones(self.column.size)
        self._width = self.column.size

    def _features(self, graph: Graph, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """Centred feature columns (rows, width)."""
        if self.digit is None:
            raw = np.asarray(graph.config_feat)[rows][:, self.column].astype(np.float64)
        else:
            digits = _digits(graph, rows)
            if self.column.size and int(self.column.max()) >= digits.shape[1]:
                raise ConfigError("LinearBaseline was fitted on a graph with more configurable nodes")
            raw = (digits[:, self.column] == self.digit).astype(np.float64)
        centred: NDArray[np.float64] = (raw - self.mean) / self.scale
        return centred


def _kind_in(path: str, metadata: dict[str, Any]) -> str:
    """Return the kind of graphs that a file names, or raise CheckpointError."""
    kind: str = tensorfile.entry(path, metadata, "graphs", str)
    if kind not in _GRAPHS:
        raise tensorfile.fail(path, "graphs", f"one of {', '.join(_GRAPHS)}", repr(kind)[:80])
    return kind


def _has_features(graph: Graph) -> bool:
    features: bool = getattr(graph, "config_feat", None) is not None
    if features and graph.schema.digits:
        raise ConfigError(
            f"LinearBaseline reads configs as features or as digits, and graph {graph.name!r} has both: use "
            "the recipe graph-config"
        )
    return features


def _require_graph(graph: Graph) -> Graph:
    if not hasattr(graph, "num_configs"):
        raise not_a_graph("graph", graph)
    return graph


def _rows(graph: Graph, configs: Rows | None) -> NDArray[np.int64]:
    return _require_graph(graph).row_numbers(configs)


def _digits(graph: Graph, rows: NDArray[np.int64]) -> NDArray[np.int8]:
    """Digits (rows, K * D) of these configurations."""
    return graph.digits_of(rows).reshape(rows.size, -1)
