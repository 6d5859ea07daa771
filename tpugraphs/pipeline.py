"""From a graph to what a model takes: pruning, equal configs, layout digits, scaling."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tpugraphs import _core, kernels, padding, preprocess
from tpugraphs.digits import Digits
from tpugraphs.errors import CheckpointError, ConfigError, DataError
from tpugraphs.targets import targets

__all__ = ["Pipeline", "Prepared"]

_PADDING = "node-padding"
SCHEMA = 1  # of the 140 node features and 18 digits; a ranker file of another one cannot be used
PRUNING = ("none", *preprocess.METHODS)


@dataclass(frozen=True)
class Prepared:
    """A graph as a model takes it.

    Attributes
    ----------
    graph : _core.Graph
    runtimes : (C,) int64
        What a loss compares: nanoseconds, of tile graphs ranks of the normalised runtimes; zeros when they
        are not known.
    name : str
    num_nodes : int
        N, after pruning.
    nbytes : int
        Memory it takes, roughly.
    nodes : tuple of ndarray
        Arguments of `_core.Graph` but the configs.
    times : (C,) int64 or float64
        What a metric is computed from: nanoseconds, of tile graphs runtime / normalizer.
    kept : (C,) int64, optional
        Rows of the configs of `graph` that count, where equal ones were merged: no copy of them is made.
    mapped : Digits, optional
        Configs that lie in a pack: the pages that were read can be given back.
    """

    graph: Any
    runtimes: NDArray[np.int64]
    name: str
    num_nodes: int
    nbytes: int
    nodes: tuple[
        NDArray[np.float32], NDArray[np.uint8], NDArray[np.int8], NDArray[np.int64], NDArray[np.int64]
    ]
    times: NDArray[Any]
    kept: NDArray[np.int64] | None = None
    mapped: Digits | None = None

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

    def values(self, target: str) -> NDArray[np.float64]:
        """Numbers (C,) that losses of values fit, see :data:`tpugraphs.targets.TARGETS`; made once."""
        known: dict[str, NDArray[np.float64]] = self.__dict__.setdefault("_values", {})
        if target not in known:
            known[target] = targets(self.times, target)
        return known[target]

    def with_configs(self, configs: NDArray[Any]) -> Prepared:
        """Make the same graph with other configs, as the core takes them, that were not measured."""
        runtimes = np.zeros(len(configs), np.int64)
        core = core_graph(self.nodes, configs)
        return replace(self, graph=core, runtimes=runtimes, times=runtimes, kept=None, mapped=None)


def core_graph(nodes: Any, configs: Any) -> Any:
    """Graph of the core: digits (C, K, 18) int8, a pack's numbers, or features (C, T) float32."""
    feat, opcode, layout, edges, ids = nodes
    if isinstance(configs, tuple) or configs.ndim == 3:
        return _core.Graph(feat, opcode, layout, edges, ids, configs)
    return _core.Graph(feat, opcode, layout, edges, ids, None, configs)


def check_kind(graph: Any, kind: str) -> None:
    """Raise DataError unless `graph` is of that kind, with something to configure."""
    name = str(getattr(graph, "name", "graph"))
    if getattr(graph, "kind", None) != kind:
        found = f"a {graph.kind} graph" if hasattr(graph, "kind") else type(graph).__name__
        hint = "; see `tpugraphs recipes` for one that ranks these" if hasattr(graph, "kind") else ""
        raise DataError(
            f"this recipe ranks {kind} configs: expected a {kind.capitalize()}Graph, found {found}{hint}",
            file=name,
        )
    if kind == "layout" and graph.num_config_nodes == 0:
        raise DataError(
            "node_config_ids: expected at least one configurable node, found none: there is nothing to rank",
            file=name, field="node_config_ids", found="0", expected=">= 1",
        )  # fmt: skip


def check_measured(graph: Any, kind: str) -> None:
    """Raise DataError unless a ranking can be learnt from the runtimes of `graph`."""
    check_kind(graph, kind)
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
    check_order(name, graph.config_runtime, getattr(graph, "config_runtime_normalizers", None))


def check_order(name: str, runtimes: NDArray[np.int64], normalizers: NDArray[np.int64] | None) -> None:
    """Raise DataError if all runtimes, normalised if that is given, are equal."""
    if normalizers is None:
        equal, what = int(runtimes.min()) == int(runtimes.max()), "runtimes"
    else:
        equal, what = int(kernels.ratio_ranks(runtimes, normalizers).max()) == 1, "normalised runtimes"
    if equal:
        raise DataError(
            f"config_runtime: all {len(runtimes)} {what} are equal, so nothing can be learnt: leave it out",
            file=name, field="config_runtime", found="one value", expected="at least two",
        )  # fmt: skip


class Pipeline:
    """Preprocessing of a recipe, and its fitted constants.

    Parameters
    ----------
    steps : list of dict
        In order: ``{"step": "prune", "method": ...}``, ``{"step": "dedup", "keep": ...}`` (training only),
        ``{"step": "layout-digits"}``, ``{"step": "standardize", "columns": F}``. For tile graphs: no pruning,
        and at the end ``{"step": "standardize-configs", "columns": T, "scale": "none" or "log"}``.
        After them there may be ``{"step": "node-padding", "value": -1}``: what lists in the node features
        must be padded with (:mod:`tpugraphs.padding`), for weights from outside.

    Attributes
    ----------
    kind : {"layout", "tile"}
        Of the graphs.
    columns, config_columns : int
        F, and T or 0.
    """

    _KNOWN: Mapping[str, tuple[tuple[str, ...], ...]] = {
        "layout": (("prune", "method"), ("dedup", "keep"), ("layout-digits",), ("standardize", "columns")),
        "tile": (
            ("dedup", "keep"),
            ("layout-digits",),
            ("standardize", "columns"),
            ("standardize-configs", "columns", "scale"),
        ),
    }

    def __init__(self, steps: list[dict[str, Any]]) -> None:
        self.steps = [dict(step) for step in steps]
        by_name = {step["step"]: step for step in steps}
        self.kind = "tile" if "standardize-configs" in by_name else "layout"
        self.prune, self.keep = (
            str(by_name.get("prune", {}).get("method", "none")),
            str(by_name["dedup"]["keep"]),
        )
        if self.prune not in PRUNING:
            raise ConfigError(f"prune: expected one of {', '.join(PRUNING)}, got {self.prune!r}")
        self.columns = int(by_name["standardize"]["columns"])
        configs = by_name.get("standardize-configs", {"columns": 0, "scale": "none"})
        self.config_columns, self.config_scale = int(configs["columns"]), str(configs["scale"])
        self.scaler: preprocess.StandardScaler | None = None
        self.config_scaler: preprocess.StandardScaler | None = None
        last = self.steps[-1]
        self.node_padding = int(last["value"]) if last["step"] == _PADDING else None

    def same_as(self, other: Pipeline) -> bool:
        """Whether both prepare every graph in the same way."""
        mine, theirs = self.tensors(), other.tensors()
        return (
            self.steps == other.steps
            and mine.keys() == theirs.keys()
            and all(np.array_equal(mine[name], theirs[name]) for name in mine)
        )

    def require_padding(self, value: int) -> None:
        """Refuse from now on graphs whose features are padded otherwise (-1 or 0)."""
        if isinstance(value, bool) or value not in (-1, 0):
            raise ConfigError(f"node_padding: expected -1 or 0, got {value!r}")
        self.steps.append({"step": _PADDING, "value": int(value)})
        self.node_padding = int(value)

    def _pruned(self, graph: Any) -> Any:
        if self.node_padding is not None:
            padding.check(graph, self.node_padding)
        return graph if self.prune == "none" else preprocess.prune(graph, self.prune)

    def _features(self, pruned: Any) -> NDArray[np.float32]:
        return np.ascontiguousarray(pruned.node_feat[:, : self.columns])

    def _config_features(self, configs: NDArray[np.float32]) -> NDArray[np.float32]:
        """Features (C, T) of configs before they are standardised."""
        if self.config_scale == "none":
            return configs
        return np.ascontiguousarray(np.log1p(np.maximum(configs, 0).astype(np.float64)), dtype=np.float32)

    def fit(self, graphs: Iterable[Any]) -> Pipeline:
        """Fit the scalers on the nodes of these graphs, and on the configs of tile graphs."""
        scaler, config_scaler = preprocess.StandardScaler(), preprocess.StandardScaler()
        for graph in graphs:
            check_kind(graph, self.kind)
            scaler.partial_fit(self._features(self._pruned(graph)))
            if self.kind == "tile":
                config_scaler.partial_fit(self._config_features(graph.config_feat))
        self.scaler, self.config_scaler = scaler, config_scaler if self.kind == "tile" else None
        return self

    def configs(self, configs: NDArray[Any]) -> NDArray[Any]:
        """Configs as the core takes them: digits (C, K, 18) as they are, features (C, T) scaled."""
        if self.kind == "layout":
            return configs
        return self._scaled(self.config_scaler, self._config_features(configs))

    def _scaled(
        self, scaler: preprocess.StandardScaler | None, x: NDArray[np.float32]
    ) -> NDArray[np.float32]:
        """Scale x(n, F). In tile graphs, small as they are, a column may be constant in training only.

        What has no scale then becomes 0: as it is, it could be millions.
        """
        assert scaler is not None
        scaled = scaler.transform(x)
        if self.kind == "tile":
            scaled[:, scaler.get_state()["m2"] == 0] = 0
        return scaled

    def apply(self, graph: Any, training: bool = False, configs: bool = True) -> Prepared:
        """Prepare one graph. In training, merge equal configs; DataError if no order is left to learn.

        Without `configs`, theirs are not read, and ``prepared.graph`` is None: for `Prepared.with_digits`.
        """
        assert self.scaler is not None
        check_kind(graph, self.kind)
        kept, runtimes, digits = None, graph.config_runtime, None
        normalizers = graph.config_runtime_normalizers if self.kind == "tile" else None
        if training:
            check_measured(graph, self.kind)
            if self.keep != "none" and configs and self.kind == "layout" and graph._digits.in_file:
                digits, first, inverse = graph._digits.read_distinct()  # the equal ones never exist
                _, runtimes, _ = kernels.merge_configs(first, inverse, runtimes, None, self.keep)
            elif self.keep != "none":
                kept, runtimes, normalizers = preprocess.distinct(graph, self.keep)
            if len(runtimes) < 2:
                field = "config_feat" if self.kind == "tile" else "node_config_feat"
                raise DataError(
                    f"{field}: all configs are the same, so nothing can be learnt: leave it out",
                    file=str(graph.name), field=field, found="1 distinct", expected="at least 2",
                )  # fmt: skip
            check_order(str(graph.name), runtimes, normalizers)
        times: NDArray[Any] = runtimes
        if normalizers is not None and graph.has_runtimes:
            times, runtimes = runtimes / normalizers, kernels.ratio_ranks(runtimes, normalizers)
        pruned = self._pruned(graph)
        nodes = (
            self._scaled(self.scaler, self._features(pruned)),
            pruned.node_opcode,
            kernels.layout_digits(pruned.node_feat),
            pruned.edge_index,
            pruned.node_config_ids if self.kind == "layout" else np.zeros(0, np.int64),
        )
        size = nodes[0].nbytes + 4 * pruned.edge_index.nbytes + 2 * graph.config_runtime.nbytes
        name, count = str(graph.name), int(pruned.num_nodes)
        if not configs:
            none = np.zeros(0, np.int64)
            return Prepared(None, none, name, count, int(size), nodes, none)
        mapped = None
        if self.kind == "tile":
            values: Any = self.configs(graph.config_feat)
            size += values.nbytes
        elif digits is not None:
            values = digits
            size += values.nbytes
        else:
            values = graph._digits.stored()
            mapped = graph._digits if graph._digits.mapped else None
            size += 0 if mapped else graph._digits.nbytes
        core = core_graph(nodes, values)
        return Prepared(core, runtimes, name, count, int(size), nodes, times, kept, mapped)

    def tensors(self) -> dict[str, NDArray[Any]]:
        """Fitted constants, by the names they have in a file."""
        return {
            f"{scaler}.{name}": array
            for scaler in self.scalers()
            for name, array in getattr(self, scaler).get_state().items()
        }

    def scalers(self) -> dict[str, int]:
        """Names of the scalers, and their columns."""
        return {"scaler": self.columns} | (
            {"config_scaler": self.config_columns} if self.kind == "tile" else {}
        )

    @classmethod
    def from_file(
        cls, path: str | os.PathLike[str], steps: Any, tensors: Mapping[str, NDArray[Any]], like: Pipeline
    ) -> Pipeline:
        """Pipeline of a ranker file or checkpoint, of the kind and sizes of `like`, or CheckpointError."""
        from tpugraphs import rankerfile

        todo = "the file is damaged, or was written by a later version of tpugraphs"
        steps, padded = _split_padding(steps)
        known = cls._KNOWN[like.kind]
        allowed = {
            "method": PRUNING,
            "keep": ("none", "first", "min", "mean"),
            "scale": ("none", "log"),
        }
        columns = {"standardize": like.columns, "standardize-configs": like.config_columns}
        fits = (
            isinstance(steps, list)
            and len(steps) == len(known)
            and all(
                isinstance(step, dict)
                and set(step) == {"step", *options}
                and step["step"] == name
                and all(step[key] in allowed[key] for key in options if key != "columns")
                and step.get("columns") == columns.get(name)
                for step, (name, *options) in zip(steps, known, strict=True)
            )
        )
        if not fits:
            expected = ", ".join(name for name, *_ in known)
            raise rankerfile.fail(path, "preprocessing", f"the steps {expected}", repr(steps)[:120], todo)
        pipeline = cls([*steps, *padded])
        for scaler, count in pipeline.scalers().items():
            state = {
                name: rankerfile.take(path, tensors, f"{scaler}.{name}", shape, dtype)
                for name, shape, dtype in (
                    ("count", (1,), np.int64),
                    ("mean", (count,), np.float64),
                    ("m2", (count,), np.float64),
                )
            }
            try:
                setattr(pipeline, scaler, preprocess.StandardScaler().set_state(state))
            except DataError as error:
                raise CheckpointError(str(error), file=os.fspath(path), field=scaler) from None
        return pipeline


def _split_padding(steps: Any) -> tuple[Any, list[dict[str, Any]]]:
    """Split the requirement of a padding off the steps of a file."""
    allowed = [{"step": _PADDING, "value": value} for value in (-1, 0)]
    if isinstance(steps, list) and steps and steps[-1] in allowed and type(steps[-1]["value"]) is int:
        return steps[:-1], steps[-1:]
    return steps, []
