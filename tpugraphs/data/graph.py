"""Measured graphs of any schema: :class:`Graph`. Those of TpuGraphs are in :mod:`tpugraphs.data.published`.

A graph is read-only. The core holds its arrays, and checks shapes, node numbers, features and runtimes once,
when the graph is made. Config digits of a file are inflated and checked on first use, or by
:meth:`Graph.validate`; each is kept in one byte.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol, Self

import numpy as np
import numpy.typing as npt

from tpugraphs import _core, kernels
from tpugraphs.data import arrays, description, formats
from tpugraphs.data.arrays import Rows
from tpugraphs.data.columns import Digit
from tpugraphs.data.digits import ConfigFeatures
from tpugraphs.data.npz import write_npz
from tpugraphs.data.schema import GROUPS, MEMBER, Schema, check_about, write_schema
from tpugraphs.errors import DataError
from tpugraphs.system import absolute, check_whole, counted

if TYPE_CHECKING:
    import networkx

    from tpugraphs.data.packfile import Pack

__all__ = ["Graph", "Graphs", "Rows", "SampleWeight", "TableLike", "Times", "Valid"]

Times = npt.NDArray[np.int64] | npt.NDArray[np.float64]
"""Runtimes (C,): whole numbers stay whole."""


class Graph(_core.Graph):
    """A problem with measured configurations, of any compiler and any schema.

    Parameters
    ----------
    node_feat : (N, F) float, optional
        Node features. By default nodes have no features, and there are as many as entries of `node_opcode`,
        or one: a table of configs is a graph of one node without edges.
    edge_index : (E, 2) int, optional
        Rows (u, v): node u consumes the output of node v.
    node_opcode : (N,) int in 0..255, optional
        What each node does.
    graph_feat : (G,) float, optional
        Features of the whole problem, such as sizes or the device.
    config_feat : (C, T) float, optional
        Configs as features, and/or
    node_config_ids : (K,) int, optional
        configurable nodes, each once, with
    node_config_feat : (C, K, D), optional
        configs as digits per configurable node, whole numbers from -1 ("not set") on.
    runtime : (C,) int or float, optional
        Run times > 0 in any unit, the same for the whole graph. Left out (or all 0): not measured. For a
        quantity where more is better, give 1 / value and a schema with ``direction="maximize"``.
    valid : (C,) bool, optional
        False where a config failed. Its runtime is not read, and is kept as NaN (0 among whole numbers).
    repeats : (C, R) float, optional
        Single measurements of every config, padded with NaN to R.
    schema : Schema, optional
        What the columns mean. By default it is inferred: every column is a number (:meth:`Schema.infer`).
    about : mapping, optional
        Facts about the measurements, such as device, versions and date: names, and values that JSON can hold.
        Saved with the graph.
    name, collection, path : str, optional
        Where the graph comes from.

    Attributes
    ----------
    node_feat (N, F) float32, edge_index (E, 2) int64, node_config_ids (K,) int64 : numpy.ndarray
        Read-only.
    runtime (C,) int64 or float64 : numpy.ndarray
        Read-only. `config_runtime` has infinity for failed configs instead.
    node_opcode (N,) uint8, graph_feat (G,) float32, config_feat (C, T) float32 : numpy.ndarray or None
        Read-only; None where not given, as are
    valid (C,) bool, repeats (C, R) float64 : numpy.ndarray or None
    schema : Schema
    about : mapping

    Raises
    ------
    DataError
        When an array is not as described, naming graph, field and place.
    """

    __slots__ = ()
    kind: str = "graph"
    schema: Schema
    about: Mapping[str, Any]
    runtime: Times

    _SAVED: tuple[str, ...] = (
        "node_feat", "node_opcode", "edge_index", "graph_feat", "config_feat", "node_config_ids",
        "node_config_feat", "runtime", "valid", "repeats",
    )  # fmt: skip
    _UNSAVED: tuple[str, ...] = ("schema", "about")  # further arguments of the constructor
    _PER_CONFIG = ("config_feat", "runtime", "config_runtime_normalizers", "valid", "repeats")
    _pack: Pack | None  # source of arrays that have not been read yet

    def __init__(
        self,
        *,
        node_feat: npt.ArrayLike | None = None,
        edge_index: npt.ArrayLike | None = None,
        node_opcode: npt.ArrayLike | None = None,
        graph_feat: npt.ArrayLike | None = None,
        config_feat: npt.ArrayLike | None = None,
        node_config_ids: npt.ArrayLike | None = None,
        node_config_feat: npt.ArrayLike | ConfigFeatures | _core.Digits | None = None,
        runtime: npt.ArrayLike | None = None,
        valid: npt.ArrayLike | None = None,
        repeats: npt.ArrayLike | None = None,
        schema: Schema | None = None,
        about: Mapping[str, Any] | None = None,
        name: str = "graph",
        collection: str | None = None,
        path: str | None = None,
    ) -> None:
        self._set(name="graph" if name is None else str(name), collection=collection, path=path)
        self._set(about=check_about(about))
        try:
            if schema is not None and not isinstance(schema, Schema):
                found = f"{schema!r:.60}"
                raise arrays.fail("schema", "a tpugraphs.Schema", found, "leave it out to infer one")
            names = {group: () for group in GROUPS} | self._names(schema, node=node_feat, config=config_feat)
            columns = {f"{group}_feat": columns for group, columns in names.items()}
            given = {
                "node_feat": node_feat, "node_opcode": node_opcode, "edge_index": edge_index,
                "graph_feat": graph_feat, "config_feat": config_feat, "node_config_ids": node_config_ids,
                "node_config_feat": node_config_feat, "runtime": runtime, "valid": valid, "repeats": repeats,
            }  # fmt: skip
            known = None if schema is None or schema.inferred else schema
            self._take(given, columns, known)
            self._set(schema=known or self._inferred(schema or Schema(), names))
        except DataError as error:
            raise arrays.with_graph(error, self.name) from None

    @staticmethod
    def _names(schema: Schema | None, **tables: Any) -> dict[str, tuple[str, ...]]:
        """Return names of columns by group: from the schema, or else from tables that have them."""
        found = {group: arrays.column_names(table) for group, table in tables.items()}
        if schema is None:
            return {group: names for group, names in found.items() if names is not None}
        for group, names in found.items():
            known = schema.names(group)
            if names is not None and known and names != known:
                expected = f"columns {', '.join(known)}, as in the schema"
                raise arrays.fail(f"{group}_feat", expected, ", ".join(names), "give them in this order")
        return {group: tuple(column.name for column in getattr(schema, group)) for group in GROUPS}

    def _features(self) -> dict[str, npt.NDArray[np.float32] | None]:
        """Return the features by group of the schema."""
        return {"node": self.node_feat, "graph": self.graph_feat, "config": self.config_feat}

    def _inferred(self, known: Schema, names: Mapping[str, Sequence[str]]) -> Schema:
        """Infer the schema of the arrays; names of columns, unit and direction are those given."""
        given: dict[str, Any] = {f"{group}_feat": array for group, array in self._features().items()}
        read = Schema.infer(**given, node_opcode=self.node_opcode, names=names)
        digits = tuple(Digit(f"digit_{i}", n) for i, n in enumerate(self._digits.values or ()))
        return replace(read, digits=digits, unit=known.unit, direction=known.direction)

    @property
    def config_runtime(self) -> Times:
        """Runtimes (C,), infinite for failed configs, so that these sort last."""
        if self.valid is None or self.valid.all():
            return self.runtime
        return np.where(self.valid, self.runtime, np.inf)

    @property
    def measured(self) -> npt.NDArray[np.float64] | Times:
        """Measured values (C,), in the schema's unit: `runtime`, or 1 / `runtime` where more is better."""
        if not self.schema.maximized:
            return self.runtime
        with np.errstate(divide="ignore"):
            return np.where(self.runtime > 0, 1 / self.runtime, self.runtime)

    @property
    def relative_runtime(self) -> npt.NDArray[np.float64]:
        """Runtimes (C,) that are compared within the graph: of measured tile graphs, over the normalizers."""
        normalizers = self.config_runtime_normalizers
        if normalizers is None or not self.has_runtimes:
            return self.runtime.astype(np.float64)
        return self.runtime / normalizers

    @property
    def configurable(self) -> bool:
        """Whether configs can differ: there are features of configs, or configurable nodes."""
        return self.num_config_nodes > 0 or (self.config_feat is not None and self.config_feat.shape[1] > 0)

    @property
    def has_runtimes(self) -> bool:
        """Whether runtimes were measured: published test files hold placeholders (all <= 0)."""
        return bool((self.runtime > 0).any())

    @property
    def ran(self) -> npt.NDArray[np.int64]:
        """Rows of the configs that did not fail; all if `valid` is not given."""
        return np.arange(self.num_configs) if self.valid is None else np.flatnonzero(self.valid)

    def best(self, count: int = 1) -> npt.NDArray[np.int64]:
        """Return the rows of the fastest configs, fastest first; those that failed never count.

        Parameters
        ----------
        count : int
            How many; fewer if fewer ran.

        Returns
        -------
        (n,) int64
            For `select`, for example.

        Raises
        ------
        ConfigError
            `count` is not a whole number from 1.
        """
        rows = self.ran
        return rows[np.argsort(self.runtime[rows], kind="stable")[: check_whole("count", count, 1)]]

    @property
    def config_digits(self) -> npt.NDArray[np.int8]:
        """Configs (C, K, D) as read-only int8: all of them, read on first use and kept (see `digits_of`)."""
        return self._digits.get()

    @property
    def node_config_feat(self) -> ConfigFeatures:
        """Configs (C, K, D) as float32, made on demand: ``g.node_config_feat[rows]``."""
        return ConfigFeatures(self._digits)

    @property
    def submission_id(self) -> str:
        """ID of the graph in a submission, ``collection:name``.

        Raises
        ------
        DataError
            The collection is not known.
        """
        if self.collection is None:
            expected = "a collection such as layout:xla:random"
            raise arrays.fail("collection", expected, "none", "use g.replace(collection=...)")
        return f"{self.collection}:{self.name}"

    def fields(self) -> dict[str, Any]:
        """Return everything the graph consists of, by the constructor's argument names."""
        fields = {field: getattr(self, field) for field in (*self._SAVED, *self._UNSAVED, *TEXTS)}
        if "node_config_ids" in fields and self._digits.shape[2] == 0:
            fields["node_config_ids"] = fields["node_config_feat"] = None
        return fields

    def replace(self, **fields: Any) -> Self:
        """Make a copy with other arrays or another name, checked like a new graph.

        Parameters
        ----------
        **fields
            Arguments of the constructor, for example ``name=`` or ``config_runtime=``.

        Returns
        -------
        graph
            Of the same class.

        Raises
        ------
        TypeError
            There is no such field.
        DataError
            An array is not as the constructor describes it.
        """
        own = self.fields()
        if unknown := sorted(fields.keys() - own.keys()):
            raise TypeError(f"replace: unknown field {unknown[0]!r}; fields are {', '.join(own)}")
        return type(self)(**own | fields)

    def row_numbers(self, configs: Rows | None = None, name: str = "configs") -> npt.NDArray[np.int64]:
        """Turn a selection of configs into row numbers.

        Parameters
        ----------
        configs : slice, (n,) int or (C,) bool, optional
            As for :meth:`select`; by default all.
        name : str
            Name of the argument in errors.

        Returns
        -------
        (n,) int64
            From 0 to C - 1.

        Raises
        ------
        DataError
            Rows that the graph does not have.
        """
        count = self._digits.shape[0]  # known without reading the other arrays of a pack
        whose = f"graph {self.name!r} has {counted(count, 'config')}"
        return _core.row_numbers(name, slice(None) if configs is None else configs, count, whose)

    def select(self, rows: Rows) -> Self:
        """Make a graph of these configs only.

        Parameters
        ----------
        rows : slice, bool (C,) or int (n,)
            Which configs, in which order; negative numbers count from the end.

        Returns
        -------
        graph
            Of the same class, with the chosen configs in that order.

        Raises
        ------
        DataError
            Rows that the graph does not have.
        """
        index = self.row_numbers(rows, "rows")
        own = ((field, getattr(self, field)) for field in self._PER_CONFIG)
        chosen = {field: array[index] for field, array in own if array is not None}
        return self._with(_digits=self._digits.select(index), **chosen)

    def digits_of(self, rows: Rows) -> npt.NDArray[np.int8]:
        """Return the digits of some configs; from a pack only these are read.

        Parameters
        ----------
        rows : slice, (n,) int or (C,) bool
            As for :meth:`select`.

        Returns
        -------
        (n, K, D) int8
            A digit is -1 where it is not set.

        Raises
        ------
        DataError
            Rows that the graph does not have, or a damaged file.
        """
        return self._digits.take(self.row_numbers(rows, "rows"))

    def validate(self) -> Self:
        """Check everything now, including parts that are otherwise checked on first use.

        Returns
        -------
        graph
            The instance itself.

        Raises
        ------
        DataError
            Something is wrong, naming file, field and place.
        """
        if self._pack is not None:
            self._pack.check()
            self._pack.read()
        self._digits.validate()
        return self

    def _saved(self) -> Iterator[tuple[str, Any]]:
        """Return the arrays of a file by name, with digits in one byte each and the schema as text."""
        yield MEMBER, write_schema(self.schema, self.about)
        for field, array in self.fields().items():
            if field in self._SAVED and array is not None:
                yield field, self._digits.get() if field == "node_config_feat" else array

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write an npz, or a pack if the name ends in ``.tgpack``.

        Layout and tile graphs are written in the published schema, others together with their schema.

        The file appears under its name when it is complete and on disk. A failure leaves an existing file
        unchanged.

        Parameters
        ----------
        path : path
            Its ending decides the format.

        Raises
        ------
        DataError
            None of the configs ran.
        OSError
            The file cannot be written.
        """
        if self.valid is not None and len(self.valid) and not self.valid.any():  # could not be opened again
            found = f"none of {len(self.valid)}"
            raise arrays.fail("valid", "at least one config that ran", found, "leave this problem out")
        file = absolute(path)
        write = formats.of(file, formats.WRITERS) or write_npz
        write(file, self)

    def distinct_configs(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Find equal configs.

        Returns
        -------
        first : (U,) int64
            Rows of the first occurrence of every different config, ascending.
        inverse : (C,) int64
            For every config, its place in `first`.
        """
        if self.config_feat is None:
            return self._digits.distinct()
        first, inverse = kernels.dedup_rows(self.config_feat)
        if self._digits.shape[2] == 0:
            return first, inverse
        both = np.stack([inverse, self._digits.distinct()[1]], 1)
        return _core.dedup_rows(both.view(np.float32))  # compares bytes

    def describe(self) -> dict[str, Any]:
        """Describe the content of the graph, after :meth:`validate`.

        Returns
        -------
        dict
            Counts, dtypes, runtimes (ns), share of distinct configs, opcodes, degrees, warnings; plain
            numbers and strings only, so that it can be written as JSON.
        """
        return description.describe(self)

    def to_dot(self) -> str:
        """Return the graph in Graphviz's DOT language, for ``dot -Tsvg``.

        Arrows lead from an operand to its user; dashed ones from the root of a computation to its caller.
        Configurable nodes are orange and numbered, convolutions and dots are blue, roots have a double
        border. A kernel is legible; for a larger graph draw a part: ``tg.prune(g, "config-1hop").to_dot()``.

        Returns
        -------
        str
            A ``digraph``.
        """
        return description.to_dot(self)

    def to_networkx(self) -> networkx.DiGraph[int]:
        """Make a ``networkx.DiGraph`` with edges from an operand to its user.

        Nodes have ``opcode``, ``configurable`` (the place among the configurable nodes, or None) and, in
        layout and tile graphs, ``shape``, ``layout`` and ``is_root``.

        Returns
        -------
        networkx.DiGraph
            Its nodes are numbers from 0 to N - 1.

        Raises
        ------
        ImportError
            networkx is not installed.
        """
        return description.to_networkx(self)

    def __repr__(self) -> str:
        counts = ", ".join(f"{key}={n}" for key, n in description.counts(self).items() if isinstance(n, int))
        return f"{type(self).__name__}({self.name!r}, {counts})"

    def _repr_html_(self) -> str:
        return description.html_table(self)


TEXTS = ("name", "collection", "path")


Graphs = Graph | Iterable[Graph]
"""One graph, or several: a list, a split of a collection."""
Valid = Graph | Iterable[Graph] | float | None
"""What to validate on: graphs, or a share of the configs of the training graphs."""
SampleWeight = npt.ArrayLike | Sequence[npt.ArrayLike | None] | None
"""Weights (C,) of the configs of a graph, or a list of weights or None, one per graph."""


class TableLike(Protocol):
    """Numbers (n, F), one config per row: an array of NumPy, or a DataFrame."""

    @property
    def shape(self) -> tuple[int, ...]:
        """(n, F)."""

    def __array__(self) -> npt.NDArray[Any]: ...
