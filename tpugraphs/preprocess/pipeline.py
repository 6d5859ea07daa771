"""Preprocessing: steps, run by the core, that turn a graph into what a model takes, and their state."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tpugraphs import _core
from tpugraphs.data.extra import STEP, Function, Made, made_by, of_nodes, with_extra
from tpugraphs.data.graph import Graph, Times
from tpugraphs.data.schema import LAYOUT, Schema
from tpugraphs.errors import CheckpointError, DataError
from tpugraphs.names import kind_named
from tpugraphs.preprocess import pruning
from tpugraphs.preprocess.checks import check_kind, check_measured, check_order, check_weighted, ran_only
from tpugraphs.system import check_choice, tensorfile

__all__ = ["Configs", "Pipeline", "Sizes"]

#: Configs as the core takes them: digits (C, K, D) and features (C, T), or None.
Configs = tuple[NDArray[np.int8] | None, NDArray[np.float32] | None]
Floats = NDArray[np.float32]
SCHEMA = 1  # version of the 140 node features and 18 digits; ranker files of another version cannot be used


@dataclass(frozen=True)
class Sizes:
    """Sizes of prepared graphs, for recipes whose model depends on them.

    Attributes
    ----------
    node, graph, config : int
        Columns of the features. Nodes without features have one column of zeros.
    described : bool
        Whether nodes have features.
    digits : tuple of int
        Digits per configurable node, and rows of the table that they look up: the number of values + 2.
    opcodes : int, optional
        Number of opcodes; None: nodes have none.
    edges : bool
        Whether some graph has edges.
    """

    node: int
    described: bool
    graph: int
    config: int
    digits: tuple[int, int]
    opcodes: int | None
    edges: bool


class Pipeline:
    """The preprocessing of a recipe, with its fitted state.

    Parameters
    ----------
    steps : list of dict
        In order: ``{"step": name, attribute: value, ...}``; see ``tpugraphs._core.prepare_steps``.
    kind : str
        Kind of the graphs.
    schema : Schema, optional
        Schema of the graphs; its ``check(graph)`` refuses graphs that do not fit.
    make : callable, optional
        ``make(schema)`` returns the steps, for preprocessing that depends on the schema. The schema is that
        of the first graph that `fit` sees; for graphs of any schema, `steps` is empty until then.
    extra : callable, optional
        ``extra(graph)`` returns further features, arguments of :func:`tpugraphs.with_extra`; for layout and
        tile graphs only features of nodes, which come after all others.
    """

    def __init__(
        self,
        steps: list[dict[str, Any]],
        kind: str = "layout",
        schema: Schema | None = None,
        make: Callable[[Schema], list[dict[str, Any]]] | None = None,
        extra: Function | None = None,
    ) -> None:
        self.extra = extra
        self.steps, self.kind, self.schema = [dict(step) for step in steps], kind, schema
        self._make, self.has_edges, self._any_schema = make, False, kind_named(kind).any_schema
        self._begin_anew()

    def _begin_anew(self) -> None:
        """Make what is not pickled: the program of the core and the kept graphs."""
        self._core = self._program()
        self._fitting = self._core, False  # of a fit that has begun: its state, and whether steps are known
        self._kept = _core.Store()  # pruned parts of graphs, by their edges

    def _program(self) -> _core.Prepare:
        """Make the steps, not fitted yet; all published graphs have the same node features."""
        return _core.Prepare(self.steps, 0 if self._any_schema else _core.SCHEMA["node_features"])

    @property
    def known(self) -> bool:
        """Whether all steps are known; otherwise some depend on the first graph that `fit` sees."""
        if self._any_schema:
            return self.schema is not None
        return self.extra is None or self._option(STEP, "node") is not None

    @property
    def sizes(self) -> Sizes:
        """Sizes of prepared graphs. If some steps depend on graphs, they are known after the fit."""
        columns = {name: max(0, int(count)) for name, count in self._core.columns.items() if name != "layout"}
        schema = LAYOUT if self.schema is None else self.schema  # published graphs have the same nodes
        most = max(schema.digit_values, default=0)
        return Sizes(
            **columns,
            described=bool(schema.node),
            digits=(len(schema.digits), most + 2 if most else 0),
            opcodes=schema.opcodes,
            edges=self.has_edges or any(step["step"] == "self-loops" for step in self.steps),
        )

    def _option(self, step: str, name: str) -> Any:
        """Return an attribute of the last step of that name; None if there is no such step."""
        return next((one[name] for one in reversed(self.steps) if one["step"] == step), None)

    @property
    def node_padding(self) -> int | None:
        """Padding that lists in the node features must have; None if any will do."""
        value = self._option("node-padding", "value")
        return None if value is None else int(value)

    def same_as(self, other: Pipeline) -> bool:
        """Return whether both prepare every graph in the same way.

        Parameters
        ----------
        other : Pipeline
            The pipeline to compare with.

        Returns
        -------
        bool
            True if steps, schema and state are equal.
        """
        mine, theirs = self.tensors(), other.tensors()
        return (
            self.steps == other.steps
            and self.extra is other.extra
            and self.schema == other.schema  # which knows the digits
            and mine.keys() == theirs.keys()
            and all(np.array_equal(mine[name], theirs[name]) for name in mine)
        )

    def require_padding(self, value: int) -> None:
        """Prepare graphs as for a model that was trained on lists padded with `value` (-1 or 0).

        With 0, the layout columns stay as they are; with -1, they are padded past the rank of a node. Graphs
        whose other lists have another padding are refused, except tile graphs with -1, since published ones
        are padded with 0.

        Parameters
        ----------
        value : {-1, 0}
            Padding of the lists in training.

        Raises
        ------
        ConfigError
            Another value.
        """
        check_choice("node_padding", value, (-1, 0))
        if value == 0:
            self.steps = [
                step | {"padding": 0} if step["step"] == "layout-digits" else step for step in self.steps
            ]
        if value in (0, kind_named(self.kind).padding):
            self.steps.append({"step": "node-padding", "value": int(value)})
        before, self._core = self._core, self._program()
        if before.fitted:
            self._core.set_state(before.get_state())

    def fit(self, graphs: Iterable[Any]) -> Pipeline:
        """Fit all steps that have state, in one pass over the graphs.

        Parameters
        ----------
        graphs : iterable of graphs
            Of one kind, and of one schema.

        Returns
        -------
        Pipeline
            This one.

        Raises
        ------
        DataError
            A graph that the steps cannot take, or of another kind or schema.
        """
        self.begin()
        self.add(graphs)
        return self.finish()

    def begin(self) -> None:
        """Begin a fit that goes on with `add`."""
        self._fitting = self._program(), self._any_schema and self.known

    def add(self, graphs: Iterable[Any]) -> None:
        """Add graphs to a fit that has begun. It ends with `finish`.

        Parameters
        ----------
        graphs : iterable of graphs
            As for `fit`.
        """
        core, begun = self._fitting
        for given in graphs:
            check_kind(given, self.kind)
            graph, made, extra = self._extended(given)
            if not begun and (self._make is not None or not self.known):
                self._begin(graph, made)
                core = self._program()
            begun = True
            if self.schema is not None:
                self._widen(graph)
                self.schema.check(graph, runtimes=True)
            self.has_edges = self.has_edges or len(graph.edge_index) > 0
            self._kept.put(graph.edge_index, core.fit(graph, extra))
        self._fitting = core, begun

    def finish(self) -> Pipeline:
        """End a fit: what was learnt can be used.

        Returns
        -------
        Pipeline
            This one.
        """
        core, _ = self._fitting
        core.finish()
        self._core = core
        return self

    def half_fitted(self) -> dict[str, Any]:
        """Return a fit that has begun, so that another process may go on with it.

        Returns
        -------
        dict
            Values that ranks pass on, for `go_on`.
        """
        core, begun = self._fitting
        schema = None if self.schema is None else self.schema.to_json()
        return {
            "steps": self.steps, "schema": schema, "edges": self.has_edges, "begun": begun,
            "state": core.get_state(),
        }  # fmt: skip

    def go_on(self, fit: Mapping[str, Any]) -> None:
        """Go on with a fit that has begun elsewhere.

        Parameters
        ----------
        fit : mapping
            What `half_fitted` returned there.
        """
        self.steps, self.has_edges = fit["steps"], fit["edges"]
        self.schema = None if fit["schema"] is None else Schema.from_json(fit["schema"])
        core = self._program()
        core.set_state(fit["state"], True)
        self._fitting = core, fit["begun"]

    def _extended(self, graph: Graph) -> tuple[Graph, Made | None, Floats | None]:
        """Return a graph with the features of the user's function, or the graph, their columns and (N, X)."""
        if self.extra is None:
            return graph, None, None
        if not self._any_schema:
            return graph, *of_nodes(graph, self.extra, self._option(STEP, "node"))
        return with_extra(graph, **made_by(self.extra, graph)), None, None

    def _begin(self, graph: Graph, made: Made | None) -> None:
        """Make the steps that depend on the first graph."""
        if self._make is not None:
            self.schema = graph.schema if self._any_schema else None
            self.steps = self._make(graph.schema)
        if made is not None:
            self.steps.append({"step": STEP, "node": made})

    def _widen(self, graph: Graph) -> None:
        """Widen an inferred schema to cover `graph`, if they can be joined; `Schema.check` reports if not."""
        assert self.schema is not None
        if not self.schema.inferred or self.schema is graph.schema:
            return
        if not graph.schema.inferred:
            expected, found = "an inferred one, as of the graphs before it", "one that was given"
            todo, name = "give all of them the same schema=", str(graph.path or graph.name)
            raise DataError.of("schema", expected, found, todo, file=name)
        with contextlib.suppress(DataError):
            self.schema = self.schema.join(graph.schema)

    def apply(self, graph: Graph, configs: bool = True) -> _core.Prepared:
        """Prepare a graph whose configs are to be scored.

        Parameters
        ----------
        graph : Graph
            Of the kind and schema of the fit.
        configs : bool
            Whether its configs are read. If not, ``prepared.graph`` is None; ``prepared.with_configs`` adds
            others.

        Returns
        -------
        _core.Prepared
            As a model takes it.

        Raises
        ------
        DataError
            The graph cannot be prepared.
        """
        graph, extra = self._checked(graph)
        return self._prepared(graph, extra, configs=configs)

    def apply_measured(self, graph: Graph, weights: NDArray[np.float32] | None = None) -> _core.Prepared:
        """Prepare a graph to train on, with equal configs merged.

        Parameters
        ----------
        graph : Graph
            Of the kind and schema of the fit.
        weights : (C,) float32, optional
            Weights of its configs; those of weight 0 are left out, as are those that failed.

        Returns
        -------
        _core.Prepared
            As a model takes it.

        Raises
        ------
        DataError
            The graph cannot be prepared, or no order is left to learn.
        """
        graph, extra = self._checked(graph)
        if weights is not None:
            graph, weights = _weighted(graph, weights)
        check_measured(graph, self.kind)
        if weights is not None and graph.valid is not None:
            weights = weights[graph.ran]
        graph = ran_only(graph)
        rows, digits, runtimes, normalizers = self._merge(graph)
        check_order(str(graph.name), runtimes, normalizers)
        return self._prepared(
            graph,
            extra,
            digits=digits,
            measured=(runtimes, normalizers),
            rows=rows if digits is None else None,
            weights=weights if weights is None or rows is None else weights[rows],
        )

    def _checked(self, graph: Graph) -> tuple[Graph, Floats | None]:
        """Check a graph, and return it with further features; see `_extended`."""
        graph, _, extra = self._extended(graph)
        if self.schema is not None:
            self.schema.check(graph)
        return graph, extra

    def _prepared(self, graph: Graph, extra: Floats | None, **configs: Any) -> _core.Prepared:
        """Prepare a graph, with all of its configs or those given."""
        rows = 0 if self.schema is None else self.sizes.digits[1]
        kept = self._kept.get(graph.edge_index)
        return self._core.apply(graph, extra, kept, rows, **configs)

    def _merge(self, graph: Graph) -> tuple[NDArray[np.int64] | None, NDArray[np.int8] | None, Times, Any]:
        """Merge equal configs. Return the rows that stay, their digits (of a file), runtimes, normalizers."""
        keep = self._option("dedup", "keep") or "none"
        rows = digits = None
        runtimes, normalizers = graph.config_runtime, graph.config_runtime_normalizers
        features = graph.config_feat is not None
        if keep != "none":
            found = None if features else graph._digits.read_distinct()
            if found is None:
                first, inverse = graph.distinct_configs()
            else:  # in a file, and read without a copy of equal ones
                digits, first, inverse = found
            rows, runtimes, normalizers = pruning.merge(graph, first, inverse, keep)
        if len(runtimes) < 2:
            field = "config_feat" if features else "node_config_feat"
            todo = "all configs are the same, so nothing can be learnt: leave it out"
            raise DataError.of(field, "at least 2 distinct configs", "1", todo, file=str(graph.name))
        return rows, digits, runtimes, normalizers

    def configs(self, configs: Configs) -> Configs:
        """Return configs as the core takes them: digits unchanged, features prepared.

        Parameters
        ----------
        configs : (digits, features)
            (C, K, D) int8 and (C, T) float32; one may be None.

        Returns
        -------
        (digits, features)
            Of the same shapes, or with the columns that the steps make.

        Raises
        ------
        DataError
            Features are made by a function of a graph; digits are outside the schema.
        """
        digits, features = configs
        given = 0 if features is None else features.shape[1]
        if self.extra is not None and self.schema is not None and given != len(self.schema.config):
            expected = "rows of a graph, as a function makes features of its configs for this ranker"
            raise DataError.of("configs", expected, "configs", "new ones need a graph (graph.replace)")
        if digits is not None and self.schema is not None:
            digits = _core.as_digits("configs", digits, self.schema.digit_values)
        return digits, None if features is None else self._core.configs(features)

    def tensors(self) -> dict[str, NDArray[Any]]:
        """Return the learnt state by its names in a file."""
        return self._core.get_state()

    def load(self, tensors: Mapping[str, NDArray[Any]]) -> None:
        """Restore what `tensors` returned.

        Parameters
        ----------
        tensors : mapping of str to array
            State of the steps, by name.

        Raises
        ------
        DataError, ShapeError
            The state does not fit.
        """
        self._core.set_state({name: tensors[name] for name in self.tensors() if name in tensors})

    def scalers(self) -> dict[str, int]:
        """Return the numbers of columns of the scalers, by their names."""
        ending = ".mean"
        sizes = {name: array.size for name, array in self.tensors().items()}
        return {name.removesuffix(ending): n for name, n in sizes.items() if name.endswith(ending)}

    @classmethod
    def from_file(
        cls, path: str | os.PathLike[str], steps: Any, tensors: Mapping[str, NDArray[Any]], like: Pipeline
    ) -> Pipeline:
        """Restore the pipeline of a ranker file or checkpoint.

        Parameters
        ----------
        path : path
            The file, for messages.
        steps : list of dict
            Steps in the file.
        tensors : mapping of str to array
            Arrays of the file.
        like : Pipeline
            A pipeline of the expected kind and sizes.

        Returns
        -------
        Pipeline
            With its state.

        Raises
        ------
        CheckpointError
            The file is damaged.
        """
        with tensorfile.sound(path, "preprocessing", "steps of preprocessing"):
            pipeline = cls(steps, like.kind, like.schema, like._make, like.extra)
        state = {
            name: tensorfile.take(path, tensors, name, empty.shape, empty.dtype)
            for name, empty in pipeline.tensors().items()
        }
        try:
            pipeline.load(state)
        except DataError as error:
            raise CheckpointError(str(error), file=os.fspath(path), field=error.field) from None
        return pipeline

    def __getstate__(self) -> dict[str, Any]:
        own = ("_core", "_fitting", "_kept")  # of this process
        tensors = self.tensors() if self._core.fitted else None
        return {name: value for name, value in vars(self).items() if name not in own} | {"tensors": tensors}

    def __setstate__(self, state: dict[str, Any]) -> None:
        tensors = state.pop("tensors")
        vars(self).update(state)
        self._begin_anew()
        if tensors is not None:
            self.load(tensors)


def _weighted(graph: Graph, weights: NDArray[np.float32]) -> tuple[Any, NDArray[np.float32] | None]:
    """Leave out configs of weight 0; return the weights of the others, too, None if all are 1."""
    rows = np.flatnonzero(weights)
    check_weighted(str(graph.name), len(rows))
    if len(rows) < len(weights):
        graph, weights = graph.select(rows), weights[rows]
    return graph, None if (weights == 1).all() else weights
