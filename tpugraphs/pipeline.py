"""From a graph to what a model takes: pruning, equal configs, layout digits, scaling."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tpugraphs import _core, kernels, preprocess
from tpugraphs.errors import CheckpointError, ConfigError, DataError

__all__ = ["Pipeline", "Prepared"]

SCHEMA = 1  # of the 140 node features and 18 digits; a ranker file of another one cannot be used
PRUNING = ("none", *preprocess.METHODS)


@dataclass(frozen=True)
class Prepared:
    """A graph as a model takes it.

    Attributes
    ----------
    graph : _core.Graph
    runtimes : (C,) int64
        Nanoseconds; zeros when they are not known.
    name : str
    num_nodes : int
        N, after pruning.
    nbytes : int
        Memory it takes, roughly.
    nodes : tuple of ndarray
        Arguments of `_core.Graph` but the configs.
    kept : (C,) int64, optional
        Rows of the configs of `graph` that count, where equal ones were merged: no copy of them is made.
    """

    graph: Any
    runtimes: NDArray[np.int64]
    name: str
    num_nodes: int
    nbytes: int
    nodes: tuple[
        NDArray[np.float32], NDArray[np.uint8], NDArray[np.int8], NDArray[np.int64], NDArray[np.int64]
    ]
    kept: NDArray[np.int64] | None = None

    def slate(self, rows: NDArray[np.int64]) -> tuple[Any, NDArray[np.int64]]:
        """Return some of the C configs as the core takes them."""
        return self.graph, rows if self.kept is None else self.kept[rows]

    @property
    def num_configs(self) -> int:
        """C."""
        return int(self.runtimes.shape[0])

    @cached_property
    def by_runtime(self) -> NDArray[np.int64]:
        """The C configs by runtime, fastest first; equal ones in their order."""
        return np.argsort(self.runtimes, kind="stable").astype(np.int64, copy=False)

    def with_digits(self, digits: NDArray[np.int8]) -> Prepared:
        """Make the same graph with other configs, digits (n, K, 18), that were not measured."""
        core = _core.Graph(*self.nodes, digits)
        runtimes = np.zeros(len(digits), np.int64)
        return replace(self, graph=core, runtimes=runtimes, kept=None)


def check_layout(graph: Any) -> None:
    """Raise DataError unless `graph` is a layout graph with something to configure."""
    name = str(getattr(graph, "name", "graph"))
    if getattr(graph, "kind", None) != "layout":
        found = f"a {graph.kind} graph" if hasattr(graph, "kind") else type(graph).__name__
        raise DataError(f"this recipe ranks layout configs: expected a LayoutGraph, found {found}", file=name)
    if graph.num_config_nodes == 0:
        raise DataError(
            "node_config_ids: expected at least one configurable node, found none: there is nothing to rank",
            file=name, field="node_config_ids", found="0", expected=">= 1",
        )  # fmt: skip


def check_measured(graph: Any) -> None:
    """Raise DataError unless a ranking can be learnt from the runtimes of `graph`."""
    check_layout(graph)
    name, field = str(graph.name), "config_runtime"
    if not graph.has_runtimes:
        raise DataError(
            f"{field}: expected measured runtimes, found none or placeholders: "
            "train on a measured graph (test files of the collections have no runtimes)",
            file=name, field=field, found="placeholders", expected="nanoseconds > 0",
        )  # fmt: skip
    bad = np.flatnonzero(graph.config_runtime <= 0)
    if bad.size:
        raise DataError(
            f"{field}: config {int(bad[0])} has {int(graph.config_runtime[bad[0]])} ns ({bad.size} such "
            "in all), which is no measurement: drop it, with g.select(g.config_runtime > 0)",
            file=name, field=field, found=str(int(graph.config_runtime[bad[0]])), expected="nanoseconds > 0",
        )  # fmt: skip
    check_order(name, graph.config_runtime)


def check_order(name: str, runtimes: NDArray[np.int64]) -> None:
    """Raise DataError if all runtimes are equal."""
    if int(runtimes.min()) == int(runtimes.max()):
        raise DataError(
            f"config_runtime: all {len(runtimes)} runtimes are equal, so nothing can be learnt: leave it out",
            file=name, field="config_runtime", found="one value", expected="at least two",
        )  # fmt: skip


class Pipeline:
    """Preprocessing of a recipe, and its fitted constants.

    Parameters
    ----------
    steps : list of dict
        In order: ``{"step": "prune", "method": ...}``, ``{"step": "dedup", "keep": ...}`` (training only),
        ``{"step": "layout-digits"}``, ``{"step": "standardize", "columns": F}``.
    """

    _KNOWN = (("prune", "method"), ("dedup", "keep"), ("layout-digits",), ("standardize", "columns"))

    def __init__(self, steps: list[dict[str, Any]]) -> None:
        self.steps = [dict(step) for step in steps]
        self.prune, self.keep = str(steps[0]["method"]), str(steps[1]["keep"])
        if self.prune not in PRUNING:
            raise ConfigError(f"prune: expected one of {', '.join(PRUNING)}, got {self.prune!r}")
        self.columns = int(steps[3]["columns"])
        self.scaler: preprocess.StandardScaler | None = None

    kind = "layout"  # of the graphs

    def same_as(self, other: Pipeline) -> bool:
        """Whether both prepare every graph in the same way."""
        mine, theirs = self.tensors(), other.tensors()
        return (
            self.steps == other.steps
            and mine.keys() == theirs.keys()
            and all(np.array_equal(mine[name], theirs[name]) for name in mine)
        )

    def _pruned(self, graph: Any) -> Any:
        return graph if self.prune == "none" else preprocess.prune(graph, self.prune)

    def _features(self, pruned: Any) -> NDArray[np.float32]:
        return np.ascontiguousarray(pruned.node_feat[:, : self.columns])

    def fit(self, graphs: Iterable[Any]) -> Pipeline:
        """Fit the scaler on the nodes of these graphs."""
        scaler = preprocess.StandardScaler()
        for graph in graphs:
            check_layout(graph)
            scaler.partial_fit(self._features(self._pruned(graph)))
        self.scaler = scaler
        return self

    def apply(self, graph: Any, training: bool = False, configs: bool = True) -> Prepared:
        """Prepare one graph. In training, merge equal configs; DataError if no order is left to learn.

        Without `configs`, theirs are not read, and ``prepared.graph`` is None: for `Prepared.with_digits`.
        """
        assert self.scaler is not None
        check_layout(graph)
        kept, runtimes = None, graph.config_runtime
        if training:
            check_measured(graph)
            if self.keep != "none":
                kept, runtimes, _ = preprocess.distinct(graph, self.keep)
            if len(runtimes) < 2:
                raise DataError(
                    "node_config_feat: all configs are the same, so nothing can be learnt: leave it out",
                    file=str(graph.name), field="node_config_feat", found="1 distinct", expected="at least 2",
                )  # fmt: skip
            check_order(str(graph.name), runtimes)
        pruned = self._pruned(graph)
        nodes = (
            self.scaler.transform(self._features(pruned)),
            pruned.node_opcode,
            kernels.layout_digits(pruned.node_feat),
            pruned.edge_index,
            pruned.node_config_ids,
        )
        size = nodes[0].nbytes + 4 * pruned.edge_index.nbytes + 2 * graph.config_runtime.nbytes
        name, count = str(graph.name), int(pruned.num_nodes)
        if not configs:
            return Prepared(None, np.zeros(0, np.int64), name, count, int(size), nodes)
        digits = graph.config_digits
        core = _core.Graph(*nodes, digits)
        return Prepared(core, runtimes, name, count, int(size + digits.nbytes), nodes, kept)

    def tensors(self) -> dict[str, NDArray[Any]]:
        """Fitted constants, by the names they have in a file."""
        assert self.scaler is not None
        return {f"scaler.{name}": array for name, array in self.scaler.get_state().items()}

    @classmethod
    def from_file(
        cls, path: str | os.PathLike[str], steps: Any, tensors: Mapping[str, NDArray[Any]], columns: int
    ) -> Pipeline:
        """Pipeline of a ranker file or checkpoint, or CheckpointError."""
        from tpugraphs import rankerfile

        todo = "the file is damaged, or was written by a later version of tpugraphs"
        known = [("step", *options) for _, *options in cls._KNOWN]
        fits = (
            isinstance(steps, list)
            and len(steps) == len(known)
            and all(
                isinstance(step, dict) and set(step) == set(keys)
                for step, keys in zip(steps, known, strict=True)
            )
            and [step["step"] for step in steps] == [name for name, *_ in cls._KNOWN]
            and steps[0]["method"] in PRUNING
            and steps[1]["keep"] in ("none", "first", "min", "mean")
            and steps[3]["columns"] == columns
        )
        if not fits:
            expected = ", ".join(name for name, *_ in cls._KNOWN)
            raise rankerfile.fail(path, "preprocessing", f"the steps {expected}", repr(steps)[:120], todo)
        pipeline = cls(steps)
        state = {
            name: rankerfile.take(path, tensors, f"scaler.{name}", shape, dtype)
            for name, shape, dtype in (
                ("count", (1,), np.int64),
                ("mean", (columns,), np.float64),
                ("m2", (columns,), np.float64),
            )
        }  # fmt: skip
        try:
            pipeline.scaler = preprocess.StandardScaler().set_state(state)
        except DataError as error:
            raise CheckpointError(str(error), file=os.fspath(path), field="scaler") from None
        return pipeline
