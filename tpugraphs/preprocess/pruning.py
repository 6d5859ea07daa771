"""What happens to a graph between file and model: pruning, equal configs, padding, scaling, sampling."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from tpugraphs import _core, kernels
from tpugraphs.data.published import Graph, LayoutGraph, TileGraph
from tpugraphs.errors import ConfigError, DataError

GraphT = TypeVar("GraphT", LayoutGraph, TileGraph)

__all__ = ["ConfigSampler", "StandardScaler", "dedup", "fix_padding", "prune"]


def _kept(graph: LayoutGraph, method: str, hops: int = 1) -> LayoutGraph:
    nodes, edges, configs = kernels.prune(
        graph.edge_index, graph.num_nodes, graph.node_config_ids, method, hops=hops
    )
    return graph.replace(
        node_feat=graph.node_feat[nodes],
        node_opcode=graph.node_opcode[nodes],
        edge_index=edges,
        node_config_ids=configs,
        node_splits=None,  # offsets into the unpruned nodes mean nothing any more
    )


def _config_1hop(graph: LayoutGraph) -> LayoutGraph:
    return _kept(graph, "config-1hop")


def _config_only(graph: LayoutGraph) -> LayoutGraph:
    return _kept(graph, "config-only")


def _k_hop(graph: LayoutGraph, *, hops: int = 2) -> LayoutGraph:
    return _kept(graph, "k-hop", hops)


# Name -> (function, its options). A new method is a row here.
_METHODS: dict[str, tuple[Callable[..., Any], frozenset[str]]] = {
    "config-1hop": (_config_1hop, frozenset()),
    "config-only": (_config_only, frozenset()),
    "k-hop": (_k_hop, frozenset({"hops"})),
}


def prune(graph: LayoutGraph, method: str = "config-1hop", **options: Any) -> LayoutGraph:
    """Keep the part of a layout graph around its configurable nodes.

    All methods keep every configurable node, all configs and runtimes, and the order of the edges;
    ``node_splits`` is dropped.

    Parameters
    ----------
    graph : LayoutGraph
    method : str
        ``"config-1hop"``: edges with at least one configurable end, and the ends of these edges; edges
        between two kept nodes of which neither is configurable go. Configurable nodes without an edge stay
        (first place of the Kaggle competition, which had no such nodes).
        ``"config-only"``: the configurable nodes in the order of ``node_config_ids``, no edges (third place,
        first version).
        ``"k-hop"``: all nodes within ``hops`` (default 2) undirected steps of a configurable node, and all
        edges between them.
    **options
        Options of the method.

    Returns
    -------
    LayoutGraph

    Raises
    ------
    ConfigError
        Unknown method or option, a graph without configurable nodes, or a tile graph.
    """
    if method not in _METHODS:
        raise ConfigError(
            f"unknown pruning method {method!r}: expected one of {', '.join(map(repr, _METHODS))}"
        )
    function, allowed = _METHODS[method]
    unknown = sorted(set(options) - allowed)
    if unknown:
        takes = f"takes only {', '.join(sorted(allowed))}" if allowed else "takes no options"
        raise ConfigError(f"prune: method {method!r} has no option {unknown[0]!r}; it {takes}")
    if not isinstance(graph, LayoutGraph):
        raise ConfigError(
            f"prune: expected a layout graph, got {type(graph).__name__}"
            + (": use tile graphs whole" if isinstance(graph, TileGraph) else "")
        )
    if graph.num_config_nodes == 0:
        raise ConfigError(
            f"prune: graph {graph.name!r} has no configurable nodes (K = 0), so nothing "
            "of it would be left; use it unpruned"
        )
    pruned: LayoutGraph = function(graph, **options)
    return pruned


def _need_graph(function: str, graph: object) -> None:
    if not isinstance(graph, Graph):
        raise ConfigError(f"{function}: expected a graph, got {type(graph).__name__}")


def dedup(graph: GraphT, keep: str = "first") -> GraphT:
    """Keep one copy of each config of a graph, in the order in which they first occur.

    Parameters
    ----------
    graph : Graph
    keep : {"first", "min", "mean"}
        Which runtime the config gets. ``"first"``: that of its first copy. ``"min"``: the least; for tile the
        least runtime / normalizer, with that row's own normalizer. ``"mean"``: the exact integer mean, halves
        rounded to even; for tile runtimes and normalizers are averaged each, so that both stay nanoseconds of
        real runs and their quotient is the mean of the quotients weighted by the normalizer. For graphs of
        other schemas the mean is a float; copies that failed count only where all of them did, and with
        ``"mean"`` there are no `repeats` any more.

    Returns
    -------
    graph
        Of the same class.

    Raises
    ------
    ConfigError
        Unknown ``keep``, or no graph.
    """
    _need_graph("dedup", graph)
    if keep not in ("first", "min", "mean"):
        raise ConfigError(f"keep: expected 'first', 'min' or 'mean', got {keep!r}")
    if graph.kind == "graph":
        return graph.merged(keep)
    rows, runtimes, norms = distinct(graph, keep)
    kept = graph.select(rows)
    if keep != "mean":
        return kept
    if norms is None:
        return kept.replace(config_runtime=runtimes)
    return kept.replace(config_runtime=runtimes, config_runtime_normalizers=norms)


def distinct(graph: Any, keep: str) -> tuple[NDArray[np.int64], NDArray[Any], NDArray[np.int64] | None]:
    """Find rows (n,) of the configs that `dedup` keeps, their runtimes (n,) and normalizers (n,), if any."""
    norm = graph.config_runtime_normalizers if isinstance(graph, TileGraph) else None
    first, inverse = graph.distinct_configs()
    return merge(first, inverse, graph.config_runtime, norm, keep, graph.kind)


def merge(
    first: NDArray[np.int64],
    inverse: NDArray[np.int64],
    runtimes: NDArray[Any],
    normalizers: NDArray[np.int64] | None,
    keep: str,
    kind: str,
) -> tuple[NDArray[np.int64], NDArray[Any], NDArray[np.int64] | None]:
    """Choose rows and runtimes as `kernels.merge_configs`; of graphs of kind "graph" the mean is a float."""
    if runtimes.dtype == np.int64 and (kind != "graph" or keep != "mean"):
        return kernels.merge_configs(first, inverse, runtimes, normalizers, keep)
    if keep == "mean":
        return first, np.bincount(inverse, runtimes) / np.bincount(inverse), None
    order = np.lexsort((runtimes, inverse))
    rows = first if keep == "first" else order[np.flatnonzero(np.diff(inverse[order], prepend=-1))]
    return rows, runtimes[rows], None


def fix_padding(graph: GraphT) -> GraphT:
    """Pad the layouts in ``node_feat`` (columns 134-139) with -1 past a node's rank, where files have 0.

    With 0 as padding, "no such dimension" and "dimension 0" look the same. The rank follows from the shape
    (columns 21-26; see `tpugraphs.kernels.layout_digits`). Columns 31-36 (``dimensions``), 95-98 and 101-104
    (spatial dimensions of convolutions) have the same flaw but nothing in the file tells how long these lists
    are: they are left as they are.

    Raises
    ------
    DataError
        A layout entry that is not an integer in -1..5.
    ConfigError
        No graph.
    """
    _need_graph("fix_padding", graph)
    feat = graph.node_feat.copy()
    feat[:, _core.SCHEMA["scaled_features"] :] = kernels.layout_digits(graph.node_feat)
    return graph.replace(node_feat=feat)


class StandardScaler:
    """Shift and scale columns to mean 0 and (population) standard deviation 1.

    Fitted in float64 by merging partial means and sums of squares (Chan, Golub and LeVeque, 1979), so large
    offsets do not cancel. A constant column has scale 1 and becomes 0.

    Attributes
    ----------
    count_ : int
        Rows seen.
    mean_, scale_ : (F,) float64
    """

    def __init__(self) -> None:
        self.count_ = 0
        self._mean: NDArray[np.float64] | None = None
        self._m2: NDArray[np.float64] | None = None

    def fit(self, x: Any) -> StandardScaler:
        """Fit afresh on one (n, F) float32 array or graph (its ``node_feat``), or on several with equal F.

        Raises
        ------
        DataError
            A value that is not finite, or no rows at all.
        ShapeError
            Not float32, not two-dimensional, not C-contiguous, or a different F.
        """
        self.__init__()  # type: ignore[misc]
        for part in (x,) if isinstance(x, np.ndarray) or hasattr(x, "node_feat") else x:
            self.partial_fit(getattr(part, "node_feat", part))
        if self.count_ == 0:
            raise DataError("StandardScaler: nothing to fit, x has no rows")
        return self

    def partial_fit(self, x: NDArray[np.float32]) -> StandardScaler:
        """Add the rows of one (n, F) float32 array to the fit; an error (see `fit`) leaves it unchanged."""
        if self._mean is None or self._m2 is None:
            columns = x.shape[1] if isinstance(x, np.ndarray) and x.ndim == 2 else 0
            mean, m2 = np.zeros(columns), np.zeros(columns)
        else:
            mean, m2 = self._mean, self._m2
        self.count_ = _core.scaler_merge(self.count_, mean, m2, x)
        self._mean, self._m2 = mean, m2
        return self

    def _fitted(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        if self._mean is None or self._m2 is None or self.count_ == 0:
            raise ConfigError("StandardScaler: not fitted yet; call fit first")
        return self._mean, self._m2

    @property
    def mean_(self) -> NDArray[np.float64]:
        """Mean of each column, (F,) float64."""
        return self._fitted()[0].copy()

    @property
    def scale_(self) -> NDArray[np.float64]:
        """Standard deviation of each column, (F,) float64; 1 where it is 0."""
        return _core.scaler_scale(self.count_, self._fitted()[1])

    def transform(self, x: NDArray[np.float32]) -> NDArray[np.float32]:
        """Scale (n, F) float32, computed in float64, rounded once to a new float32 array.

        Raises
        ------
        DataError
            A value that is not finite, before or after.
        ShapeError
            Not a C-contiguous (n, F) float32 array with the F of the fit.
        """
        return _core.scaler_transform(x, self._fitted()[0], self.scale_)

    def fit_transform(self, x: NDArray[np.float32]) -> NDArray[np.float32]:
        """``fit(x).transform(x)``."""
        return self.fit(x).transform(x)

    def get_state(self) -> dict[str, NDArray[Any]]:
        """Return the fit as plain arrays: count (1,) int64, mean (F,) and m2 (F,) float64."""
        mean, m2 = self._fitted()
        return {"count": np.array([self.count_], np.int64), "mean": mean.copy(), "m2": m2.copy()}

    def set_state(self, state: Mapping[str, NDArray[Any]]) -> StandardScaler:
        """Take over what `get_state` gave; partial fits may go on from there. DataError if it is not that."""
        try:
            count = int(np.asarray(state["count"]).reshape(()))
            mean, m2 = (np.array(state[key], np.float64) for key in ("mean", "m2"))
        except (KeyError, TypeError, ValueError) as error:
            raise DataError(f"StandardScaler: not a scaler's state: {error!r}") from error
        finite = np.isfinite(mean).all() and np.isfinite(m2).all()
        if count < 1 or mean.ndim != 1 or mean.shape != m2.shape or not finite or (m2 < 0).any():
            raise DataError(
                "StandardScaler: not a scaler's state: expected count >= 1 and finite mean (F,), m2 (F,) >= 0"
            )
        self.count_, self._mean, self._m2 = count, mean, m2
        return self


class ConfigSampler:
    """Endless steps of k distinct config rows that go evenly through all n rows of a graph.

    The steps walk a pseudo-random permutation of the rows, k at a time, and a new one after each epoch, so
    every row comes exactly once per epoch. Where a step reaches into the next epoch, rows that it already
    has are put off to the following step. With n < 2k each step is a fresh sample instead, and with n < k it
    is all n rows. Rows are a pure function of (seed, n, k, step): restoring the step number resumes exactly.

    Parameters
    ----------
    n, k : int
        Rows of the graph, rows per step; n >= 0, k >= 1.
    seed : int or ints
        Key of the random numbers, e.g. ``(seed, graph number)``.

    Examples
    --------
    >>> sampler = ConfigSampler(1000, 4, seed=0)
    >>> len(next(sampler)), sampler.state()["step"]
    (4, 1)
    """

    def __init__(self, n: int, k: int, seed: int | Iterable[int] = 0) -> None:
        if n < 0 or k < 1:
            raise ConfigError(f"ConfigSampler: expected n >= 0 and k >= 1, got n = {n} and k = {k}")
        self.n, self.k, self.step = n, k, 0
        self.seed = tuple(seed) if isinstance(seed, Iterable) else (seed,)

    def __iter__(self) -> Iterator[NDArray[np.int64]]:
        return self

    def __next__(self) -> NDArray[np.int64]:
        rows = kernels.sample_epoch(self.n, min(self.k, self.n), self.seed, self.step)
        self.step += 1
        return rows

    def state(self) -> dict[str, Any]:
        """Return all that is needed to go on: plain integers, fit for JSON."""
        return {"n": self.n, "k": self.k, "seed": list(self.seed), "step": self.step}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on where a sampler with the same n, k and seed stood. ConfigError if they differ."""
        for key, mine in (("n", self.n), ("k", self.k), ("seed", list(self.seed))):
            if state.get(key) != mine:
                raise ConfigError(
                    f"ConfigSampler: the state has {key} = {state.get(key)!r}, this sampler {mine!r}"
                )
        step = state.get("step")
        if not isinstance(step, int) or step < 0:
            raise ConfigError(f"ConfigSampler: expected a step >= 0 in the state, got {step!r}")
        self.step = step
