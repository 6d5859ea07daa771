"""A graph as a model takes it, after preprocessing."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tpugraphs import kernels
from tpugraphs.data.digits import Digits
from tpugraphs.preprocess.targets import targets

__all__ = ["Configs", "Prepared"]

#: Configs as the core takes them: digits (C, K, D) and features (C, T), or None.
Configs = tuple[NDArray[np.int8] | None, NDArray[np.float32] | None]


@dataclass(frozen=True)
class Prepared:
    """A graph as a model takes it.

    Attributes
    ----------
    graph : _core.Graph, optional
        None if its configs were left out.
    name : str
    nodes : _core.Graph
        The graph, maybe without configs.
    nbytes : int
        Memory it takes, roughly.
    measured : (C,) int64 or float64
        Runtimes of its configs in nanoseconds or the schema's unit, or placeholders.
    normalizers : (C,) int64, optional
        Normalizers of tile graphs.
    kept : (C,) int64, optional
        If equal configs were merged, the rows of `graph` that count. The configs are not copied.
    mapped : Digits, optional
        Configs in a pack, whose pages can be given back.
    weights : (C,) float32, optional
        Weights of its configs in a loss; None: all 1.
    valid : (C,) bool, optional
        Which of its configs ran; None: all.
    cuts : tuple of _core.Graph
        Segments of the graph in the order of their nodes; empty: it is not cut, or one segment.
    """

    graph: Any
    name: str
    nodes: Any
    nbytes: int
    measured: NDArray[Any]
    normalizers: NDArray[np.int64] | None = None
    kept: NDArray[np.int64] | None = None
    mapped: Digits | None = None
    weights: NDArray[np.float32] | None = None
    valid: NDArray[np.bool_] | None = None
    cuts: tuple[Any, ...] = ()

    def slate(self, rows: NDArray[np.int64], segment: int | None = None) -> tuple[Any, NDArray[np.int64]]:
        """Return some of the C configs as the core takes them, of one segment or (None) the whole graph.

        Parameters
        ----------
        rows : (n,) int64
            Which configs.
        segment : int, optional
            Which segment; None: the whole graph.

        Returns
        -------
        graph : _core.Graph
            The graph or segment.
        rows : (n,) int64
            Its rows for these configs.
        """
        graph = self.graph if segment is None or not self.cuts else self.cuts[segment]
        return graph, rows if self.kept is None else self.kept[rows]

    def slates(self, rows: NDArray[np.int64]) -> list[tuple[Any, NDArray[np.int64]]]:
        """Return what the score of a config is the sum of: its segments, or the whole graph.

        Parameters
        ----------
        rows : (n,) int64
            Which configs.

        Returns
        -------
        list of (graph, rows)
            One per segment, see `slate`.
        """
        return [self.slate(rows, segment) for segment in range(self.num_segments)]

    @property
    def num_segments(self) -> int:
        """P, 1 if the graph is not cut."""
        return max(1, len(self.cuts))

    @property
    def num_nodes(self) -> int:
        """Nodes of a pass: N, after pruning, or those of the largest segment."""
        return int((self.cuts or (self.nodes,))[0].num_nodes)

    @property
    def num_configs(self) -> int:
        """Number C of configs, after equal ones were merged."""
        return int(self.measured.shape[0])

    @cached_property
    def _divisors(self) -> NDArray[np.int64] | None:
        """Normalizers of runtimes that were measured."""
        return self.normalizers if (self.measured > 0).any() else None

    @cached_property
    def runtimes(self) -> NDArray[np.int64]:
        """What a loss compares (C,): nanoseconds, of tile graphs ranks of the normalised runtimes."""
        if self.measured.dtype != np.int64:  # exactly their order
            return np.unique(self.measured, return_inverse=True)[1].astype(np.int64) + 1
        if self._divisors is None:
            return self.measured
        return kernels.ratio_ranks(self.measured, self._divisors)

    @cached_property
    def across(self) -> NDArray[np.int64]:
        """What a loss over several graphs compares (C,): nanoseconds.

        Of tile graphs these are normalised runtimes times the mean normalizer of the graph, rounded to
        float32 as the fifth place has them; whole numbers in the order of these stand for them.
        """
        times = self.measured
        if self._divisors is not None:
            times = (times / (self._divisors / self._divisors.mean()) / 1e6).astype(np.float32)
        if times.dtype == np.int64:
            return times
        bits = times.astype(np.float64).view(np.int64)  # in the order of the numbers, but for negative ones
        return np.where(bits < 0, np.iinfo(np.int64).max ^ bits, bits)

    @cached_property
    def times(self) -> NDArray[Any]:
        """What a metric is computed from (C,): runtimes, of tile graphs / normalizer; NaN if it failed."""
        times = self.measured if self._divisors is None else self.measured / self._divisors
        return times if self.valid is None or self.valid.all() else np.where(self.valid, times, np.nan)

    @cached_property
    def by_runtime(self) -> NDArray[np.int64]:
        """The C configs by runtime, fastest first; equal ones in their order."""
        return np.argsort(self.runtimes, kind="stable").astype(np.int64, copy=False)

    def values(self, target: str) -> NDArray[np.float64]:
        """Return what losses of values fit; made once.

        Parameters
        ----------
        target : str
            A key of `tpugraphs.preprocess.targets.TARGETS`.

        Returns
        -------
        (C,) float64
            One per config.
        """
        known: dict[str, NDArray[np.float64]] = self.__dict__.setdefault("_values", {})
        if target not in known:
            known[target] = targets(self.times, target)
        return known[target]

    def with_configs(self, configs: Configs) -> Prepared:
        """Return the same graph with other configs, not measured, in the form that the core takes.

        Parameters
        ----------
        configs : (digits, features)
            What `Pipeline.configs` returned.

        Returns
        -------
        Prepared
            Without runtimes.
        """
        graph = self.nodes.with_configs(*configs)
        return Prepared(
            graph, self.name, self.nodes, self.nbytes, np.zeros(graph.num_configs, np.int64),
            cuts=tuple(one.with_configs(*configs) for one in self.cuts),
        )  # fmt: skip
