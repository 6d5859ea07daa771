"""What a ranker must beat: a random order, and a linear model of the configuration's own columns."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tpugraphs.errors import ConfigError, not_a_graph
from tpugraphs.evaluation import measured_runtimes
from tpugraphs.schema import Schema

__all__ = ["LinearBaseline", "random_scores"]

_CHUNK = 4096  # rows whose one-hot columns exist at a time
_MAX_COLUMNS = 3000


def random_scores(graph: Any, configs: ArrayLike | None = None, *, seed: int = 0) -> NDArray[np.float64]:
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
    """
    n = _rows(graph, configs).size
    return np.random.default_rng(seed).permutation(n).astype(np.float64)


class LinearBaseline:
    """Ridge regression of the runtime's rank on the columns of the configuration, for one graph.

    Layout: one column per (configurable node, digit position, value) that occurs in some but not all
    training rows; tile: the 24 numbers, standardised. The target is the rank of the runtime in [0, 1] (mean
    rank for equal runtimes), so the heavy tail of runtimes does not rule the fit. It knows nothing of the
    graph and cannot rank another one.

    Parameters
    ----------
    alpha : float
        Weight of the squared coefficients, per training row.
    """

    def __init__(self, alpha: float = 1e-4) -> None:
        if not alpha > 0:
            raise ConfigError(f"alpha must be above 0, got {alpha}")
        self.alpha = alpha

    def fit(self, graph: Any, configs: ArrayLike | None = None) -> LinearBaseline:
        """Fit on rows `configs` (all that ran, if not given) of the graph; returns itself.

        Raises
        ------
        DataError
            Placeholder runtimes, or no configurations.
        """
        rows = _rows(graph, configs)
        if configs is None:
            rows = getattr(graph, "ran", rows)
        runtimes = measured_runtimes(graph, rows)
        self.schema: Schema = graph.schema
        self._choose_columns(graph, rows)
        width = self._width
        gram, moment = np.zeros((width, width)), np.zeros(width)
        _, inverse, counts = np.unique(runtimes, return_inverse=True, return_counts=True)
        ranks = (np.cumsum(counts) - (counts + 1) / 2)[inverse] / max(rows.size - 1, 1)
        self.intercept = float(ranks.mean())
        for start in range(0, rows.size, _CHUNK):
            x = self._features(graph, rows[start : start + _CHUNK])
            gram += x.T @ x
            moment += x.T @ (ranks[start : start + _CHUNK] - self.intercept)
        gram[np.diag_indices(width)] += self.alpha * rows.size
        self.weight = np.linalg.solve(gram, moment)
        return self

    def predict(self, graph: Any, configs: ArrayLike | None = None) -> NDArray[np.float64]:
        """Scores of rows `configs` (all if not given); smaller = predicted faster.

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
        if not hasattr(self, "weight"):
            raise ConfigError("LinearBaseline.predict needs fit first")
        rows = _rows(graph, configs)
        if _has_features(graph) != (self.digit is None):
            raise ConfigError("LinearBaseline was fitted on the other kind of configs (features or digits)")
        self.schema.check(graph)
        chunks = [
            self._features(graph, rows[start : start + _CHUNK]) @ self.weight
            for start in range(0, rows.size, _CHUNK)
        ]
        return self.intercept + (np.concatenate(chunks) if chunks else np.empty(0))

    def _choose_columns(self, graph: Any, rows: NDArray[np.int64]) -> None:
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

    def _features(self, graph: Any, rows: NDArray[np.int64]) -> NDArray[np.float64]:
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


def _has_features(graph: Any) -> bool:
    return getattr(graph, "config_feat", None) is not None


def _rows(graph: Any, configs: ArrayLike | None) -> NDArray[np.int64]:
    if not hasattr(graph, "num_configs"):
        raise not_a_graph("graph", graph)
    rows: NDArray[np.int64] = graph.row_numbers(configs)
    return rows


def _digits(graph: Any, rows: NDArray[np.int64]) -> NDArray[np.int8]:
    """Digits (rows, K * D) of these configurations."""
    digits: NDArray[np.int8] = graph.digits_of(rows).reshape(rows.size, -1)
    return digits
