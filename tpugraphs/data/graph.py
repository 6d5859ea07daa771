"""Measured graphs of any schema: :class:`Graph`. Those of TpuGraphs are in :mod:`tpugraphs.data.published`.

A graph is read-only. Its constructor checks shapes, node numbers, features and runtimes, so every array can
be passed to the C core. Config digits of a file are inflated and checked on first use, or by
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
from tpugraphs._core import SCHEMA
from tpugraphs.data import arrays, description, formats
from tpugraphs.data.arrays import Rows
from tpugraphs.data.columns import MOST_DIGIT_VALUES, Digit
from tpugraphs.data.digits import ConfigFeatures, Digits, as_digits
from tpugraphs.data.npz import write_npz
from tpugraphs.data.schema import GROUPS, MEMBER, Schema, check_about, write_schema
from tpugraphs.errors import DataError
from tpugraphs.system.files import absolute
from tpugraphs.system.words import counted

if TYPE_CHECKING:
    import networkx

    from tpugraphs.data.packfile import Pack

__all__ = ["Graph", "Graphs", "Rows", "SampleWeight", "TableLike", "Times", "Valid"]

MOST_DIGITS = SCHEMA["most_digits"]
Times = npt.NDArray[np.int64] | npt.NDArray[np.float64]
"""Runtimes (C,): whole numbers stay whole."""


class Graph:
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
        Read-only; `config_runtime` is an alias.
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

    kind: str = "graph"
    schema: Schema
    about: Mapping[str, Any]
    node_feat: npt.NDArray[np.float32]
    node_opcode: npt.NDArray[np.uint8] | None
    edge_index: npt.NDArray[np.int64]
    node_splits: npt.NDArray[np.int64]
    node_config_ids: npt.NDArray[np.int64]
    graph_feat: npt.NDArray[np.float32] | None
    config_feat: npt.NDArray[np.float32] | None
    runtime: Times
    valid: npt.NDArray[np.bool_] | None
    repeats: npt.NDArray[np.float64] | None
    name: str
    collection: str | None
    path: str | None

    _SAVED: tuple[str, ...] = (
        "node_feat", "node_opcode", "edge_index", "graph_feat", "config_feat", "node_config_ids",
        "node_config_feat", "runtime", "valid", "repeats",
    )  # fmt: skip
    _UNSAVED: tuple[str, ...] = ("schema", "about")  # further arguments of the constructor
    _PER_CONFIG: tuple[str, ...] = ("config_feat", "runtime", "valid", "repeats")
    _digits: Digits
    _pack: Pack | None = None  # source of arrays that have not been read yet

    def __init__(
        self,
        *,
        node_feat: npt.ArrayLike | None = None,
        edge_index: npt.ArrayLike | None = None,
        node_opcode: npt.ArrayLike | None = None,
        graph_feat: npt.ArrayLike | None = None,
        config_feat: npt.ArrayLike | None = None,
        node_config_ids: npt.ArrayLike | None = None,
        node_config_feat: npt.ArrayLike | ConfigFeatures | Digits | None = None,
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
            if node_feat is None:
                codes: Any = [0] if node_opcode is None else node_opcode
                node_feat = np.zeros((len(arrays.shaped("node_opcode", codes, ("N",))), 0))
            edges: Any = [] if edge_index is None else edge_index
            self._init_nodes(node_feat, "F", node_opcode, edges, names["node"])
            self._init_features("graph_feat", graph_feat, ("G",), names["graph"])
            self._init_configs(config_feat, names["config"], node_config_ids, node_config_feat, schema)
            self._set(schema=self._own_schema(schema, names))
            if config_feat is None and node_config_feat is None and runtime is not None and np.size(runtime):
                raise arrays.fail("config_feat", "configs, as there are runtimes", "none", "give config_feat")
            self._init_runtimes(runtime, valid, repeats)
            self.schema.check_values(self.name, self._features())
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

    def _init_features(
        self, field: str, value: Any, shape: tuple[int | str, ...], columns: Sequence[str] = ()
    ) -> None:
        array = None if value is None else arrays.floats(field, arrays.shaped(field, value, shape), columns)
        self._set(**{field: None if array is None else arrays.frozen(array, value)})

    def _init_configs(
        self, feat: Any, columns: Sequence[str], ids: Any, digits: Any, schema: Schema | None
    ) -> None:
        """Check and set configs: features of the whole config, digits per node, or both."""
        both = {"node_config_feat": digits, "node_config_ids": ids}
        given = [field for field, value in both.items() if value is not None]
        self._init_features("config_feat", feat, ("C", "T"), columns)
        self._init_config_nodes(ids)
        if len(given) == 1:
            missing = next(field for field in both if field not in given)
            raise arrays.fail(missing, "node_config_ids and node_config_feat together", "one of them")
        count = 0 if self.config_feat is None else len(self.config_feat)
        own = Digits((count, 0, 0), np.zeros((count, 0, 0), np.int8), values=())
        if digits is not None:
            own = self._own_digits(digits, schema)
        if self.config_feat is not None and own.shape[0] != count:
            expected = f"{counted(own.shape[0], 'config')}, as node_config_feat has"
            raise arrays.fail("config_feat", expected, str(count))
        self._set(_digits=own)

    def _own_digits(self, given: Any, schema: Schema | None) -> Digits:
        """Return digits (C, K, D) as int8, in the range that the schema allows, or else the format."""
        field, nodes = "node_config_feat", len(self.node_config_ids)
        if isinstance(given, ConfigFeatures):
            given = given._digits
        stored = isinstance(given, Digits)
        shape = given.shape if stored else arrays.shaped(field, given, ("C", "K", "D")).shape
        if shape[1] != nodes or not 1 <= shape[2] <= MOST_DIGITS:
            expected = (
                f"shape (C, {nodes}, D) with D in 1..{MOST_DIGITS}, as there are {nodes} node_config_ids"
            )
            raise arrays.fail(field, expected, f"shape {tuple(shape)}")
        said = None if schema is None or schema.inferred else tuple(digit.values for digit in schema.digits)
        if stored and given.values is not None and said in (None, given.values):
            own: Digits = given
            return own
        if said is not None and len(said) != shape[2]:
            raise arrays.fail(
                field, f"{counted(len(said), 'digit')} per node, as in the schema", f"{shape[2]}"
            )
        values = said or (MOST_DIGIT_VALUES,) * shape[2]
        packed = as_digits(field, given.get() if stored else given, values)
        if said is None:
            values = tuple(digit.values for digit in Schema.infer(node_config_feat=packed).digits)
        packed.flags.writeable = False
        return Digits(packed.shape, packed.view(), values=values)

    def _own_schema(self, schema: Schema | None, names: Mapping[str, Sequence[str]]) -> Schema:
        """Return the given schema if the arrays fit it, or infer one with these column names."""
        feats = self._features()
        if schema is None or schema.inferred:
            given: dict[str, Any] = {f"{group}_feat": array for group, array in feats.items()}
            widths = {group: array.shape[-1] for group, array in feats.items() if array is not None}
            known = {group: names[group] for group, width in widths.items() if len(names[group]) == width}
            read = Schema.infer(**given, node_opcode=self.node_opcode, names=known)
            digits = tuple(Digit(f"digit_{i}", n) for i, n in enumerate(self._digits.values or ()))
            told = Schema() if schema is None else schema
            return replace(read, digits=digits, unit=told.unit, direction=told.direction)
        configs = self._digits.shape[0]
        for group, array in feats.items():
            want = len(getattr(schema, group))
            have = 0 if array is None else array.shape[-1]
            if want != have and not (group == "config" and array is None and configs == 0):
                raise arrays.fail(f"{group}_feat", f"{counted(want, 'column')}, as in the schema", str(have))
        want = len(schema.digits)
        if self._digits.shape[2] != want and configs:
            raise arrays.fail(
                "node_config_feat", f"{counted(want, 'digit')} per node, as in the schema", "none"
            )
        if (schema.opcodes is None) != (self.node_opcode is None):
            expected, found = ("no opcodes", "some") if schema.opcodes is None else ("opcodes", "none")
            raise arrays.fail("node_opcode", f"{expected}, as in the schema", found)
        if schema.opcodes is not None and self.node_opcode is not None:
            arrays.in_range("node_opcode", self.node_opcode, 0, schema.opcodes - 1, "opcodes")
        return schema

    def _init_runtimes(self, runtime: Any, valid: Any, repeats: Any) -> None:
        count = self._digits.shape[0]
        good = np.ones(count, np.bool_)
        if valid is not None:
            good = arrays.shaped("valid", valid, (count,))
            if good.dtype.kind != "b":
                raise arrays.fail("valid", "True or False for every config", f"dtype {good.dtype}")
            _some_ran(good)
        times = np.zeros(count, np.int64) if runtime is None else arrays.times("runtime", runtime, good)
        several = None
        if repeats is not None:
            several = arrays.shaped("repeats", repeats, (count, "R")).astype(np.float64)
            several[~good] = np.nan
            bad = ~((several > 0) & np.isfinite(several) | np.isnan(several))
            arrays.refuse("repeats", bad, several, "times > 0, or NaN where there is none")
        self._set(
            runtime=arrays.frozen(times, runtime),
            valid=None if valid is None else arrays.frozen(good, valid),
            repeats=None if several is None else arrays.frozen(several, repeats),
        )

    if not TYPE_CHECKING:  # else type checkers would accept any name

        def __getattr__(self, name: str) -> Any:
            """Read the arrays of the pack on first use."""
            pack = self.__dict__.get("_pack")
            fields = {} if pack is None or name.startswith("_") else pack.fields()
            if name not in fields:
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            for field, value in fields.items():
                self.__dict__.setdefault(field, value)
            return self.__dict__[name]

    def _set(self, **fields: Any) -> None:
        self.__dict__.update(fields)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"graphs are read-only: use g.replace({name}=...)")

    def __delattr__(self, name: str) -> None:
        raise AttributeError("graphs are read-only")

    def __getstate__(self) -> dict[str, Any]:
        if self._pack is None:
            return self.__dict__
        fields = {**self._pack.fields(), **self.__dict__}
        return {name: value for name, value in fields.items() if name != "_pack"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        for value in state.values():
            if isinstance(value, np.ndarray):
                value.flags.writeable = False
        self.__dict__.update(state)

    def _init_nodes(
        self, node_feat: Any, width: int | str, node_opcode: Any, edge_index: Any, columns: Sequence[str] = ()
    ) -> None:
        self._init_features("node_feat", node_feat, ("N", width), columns)
        nodes = self.num_nodes
        if nodes < 1:
            raise arrays.fail("node_feat", "at least one node", "none")
        opcode = None
        if node_opcode is not None:
            opcode = arrays.integers("node_opcode", arrays.shaped("node_opcode", node_opcode, (nodes,)))
            arrays.in_range("node_opcode", opcode, 0, 255, "opcodes")
        ends = arrays.numbers("edge_index", edge_index)
        if ends.shape == (0,):  # no edges, written from an empty list
            ends = ends.reshape(0, 2)
        edges = arrays.integers("edge_index", arrays.shaped("edge_index", ends, ("E", 2)))
        arrays.in_range("edge_index", edges, 0, nodes - 1, "node numbers")
        self._set(
            node_opcode=None if opcode is None else arrays.frozen(opcode.astype(np.uint8), None),
            edge_index=arrays.frozen(edges, edge_index),
        )

    def _init_config_nodes(self, node_config_ids: Any) -> None:
        field = "node_config_ids"
        given: Any = np.zeros(0, np.int64) if node_config_ids is None else node_config_ids
        ids = arrays.integers(field, arrays.shaped(field, given, ("K",)))
        arrays.in_range(field, ids, 0, self.num_nodes - 1, "node numbers")
        ordered = np.sort(ids)
        twice = ordered[1:][ordered[1:] == ordered[:-1]]
        if twice.size:
            raise arrays.fail(field, "each node once", f"node {int(twice[0])} twice")
        self._set(node_config_ids=arrays.frozen(ids, node_config_ids))

    @property
    def config_runtime(self) -> Times:
        """Alias of `runtime`, (C,)."""
        return self.runtime

    @property
    def measured(self) -> npt.NDArray[np.float64] | Times:
        """Measured values (C,), in the schema's unit: `runtime`, or 1 / `runtime` where more is better."""
        if not self.schema.maximized:
            return self.runtime
        with np.errstate(divide="ignore"):
            return np.where(self.runtime > 0, 1 / self.runtime, self.runtime)

    @property
    def num_nodes(self) -> int:
        """Number N of nodes."""
        return int(self.node_feat.shape[0])

    @property
    def num_edges(self) -> int:
        """Number E of edges."""
        return int(self.edge_index.shape[0])

    @property
    def num_configs(self) -> int:
        """Number C of configs."""
        return int(self.runtime.shape[0])

    @property
    def num_config_nodes(self) -> int:
        """Number K of configurable nodes, 0 where configs are features only."""
        return int(self.node_config_ids.shape[0])

    @property
    def has_runtimes(self) -> bool:
        """Whether runtimes were measured: published test files hold placeholders (all <= 0)."""
        return bool((self.runtime > 0).any())

    @property
    def ran(self) -> npt.NDArray[np.int64]:
        """Rows of the configs that did not fail; all if `valid` is not given."""
        return np.arange(self.num_configs) if self.valid is None else np.flatnonzero(self.valid)

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
        unknown = set(fields) - set(self.fields())
        if unknown:
            raise TypeError(
                f"replace: unknown field {sorted(unknown)[0]!r}; fields are {', '.join(self.fields())}"
            )
        return type(self)(**{**self.fields(), **fields})

    def _with(self, **fields: Any) -> Self:
        """Make a copy with fields that are already checked."""
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__, **fields)
        return other

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
        every = np.arange(self.num_configs)
        return every if configs is None else np.ascontiguousarray(every[self._rows(configs, name)])

    def _rows(self, rows: Rows, name: str = "rows") -> slice | arrays.AnyArray:
        """Return `rows` as an index array, slice or mask."""
        if isinstance(rows, slice):
            return rows
        count, whose = self.num_configs, f"graph {self.name!r} has {counted(self.num_configs, 'config')}"
        index = arrays.numbers(name, rows)
        if index.size == 0 and index.dtype.kind == "f":  # an empty list
            index = index.astype(np.int64)
        if index.ndim != 1 or index.dtype.kind not in "iub":
            raise arrays.fail(
                name, "a slice, a mask (C,) or a list of row numbers", f"{index.dtype} {index.shape}", whose
            )
        if index.dtype.kind == "b":
            if len(index) != count:
                raise arrays.fail(name, f"a mask of shape ({count},)", f"shape {index.shape}", whose)
            return index
        bad = (index < -count) | (index >= count)
        arrays.refuse(name, bad, index, f"numbers in {-count}..{count - 1}", whose)
        return index

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
        rows = self._rows(rows)
        chosen: dict[str, Any] = {"_digits": self._digits.select(rows)}
        for field in self._PER_CONFIG:
            array = getattr(self, field)
            if array is not None:
                array = np.ascontiguousarray(array[rows])
                array.flags.writeable = False
            chosen[field] = array
        return self._with(**chosen)

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
        return self._digits.take(self._rows(rows))

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
        if self.valid is not None:
            _some_ran(self.valid)  # a file without any cannot be opened
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

    def merged(self, keep: str) -> Self:
        """Make a graph of the different configs; see :func:`tpugraphs.dedup`.

        Parameters
        ----------
        keep : {"first", "min", "mean"}
            Which runtime equal configs get.

        Returns
        -------
        graph
            With U distinct configs.
        """
        first, inverse = self.distinct_configs()
        good = np.ones(self.num_configs, np.bool_) if self.valid is None else self.valid
        if keep != "mean":
            by = (self.runtime,) if keep == "min" else ()
            order = np.lexsort((*by, ~good, inverse))  # stable: the first of equal ones stays first
            return self.select(order[np.flatnonzero(np.diff(inverse[order], prepend=-1))])
        count = np.bincount(inverse[good], minlength=len(first))
        total = np.bincount(inverse[good], self.runtime[good].astype(np.float64), minlength=len(first))
        mean = np.where(count > 0, total / np.maximum(count, 1), np.nan)
        valid = None if self.valid is None else arrays.frozen(count > 0, None)
        return self.select(first)._with(runtime=arrays.frozen(mean, None), valid=valid, repeats=None)

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


def _some_ran(valid: npt.NDArray[np.bool_]) -> None:
    """Refuse configs that all failed."""
    if len(valid) and not valid.any():
        found = f"none of {len(valid)}"
        raise arrays.fail("valid", "at least one config that ran", found, "leave this problem out")


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
