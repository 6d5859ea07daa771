"""Measured graphs: :class:`LayoutGraph` and :class:`TileGraph`.

A graph is read-only and its structure (shapes, node numbers, finite features, runtimes) has been checked
when it exists, so every array can be given to the C core. Config digits of a file are inflated and checked
when they are first asked for, or by :meth:`LayoutGraph.validate`; they are kept in one byte each.
"""

from __future__ import annotations

import os
import zipfile
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from tpugraphs import arrays, description, kernels
from tpugraphs._core import SCHEMA
from tpugraphs.digits import DIGITS, ConfigFeatures, Digits
from tpugraphs.files import absolute, atomic_write

if TYPE_CHECKING:
    from tpugraphs.packs import Pack

__all__ = ["ConfigFeatures", "Graph", "LayoutGraph", "TileGraph"]

NODE_FEATURES, TILE_FEATURES = SCHEMA["node_features"], SCHEMA["tile_features"]


class Graph:
    """What layout and tile graphs share. Made by :func:`tpugraphs.load` or from arrays by a subclass."""

    kind: str = "graph"
    node_feat: npt.NDArray[np.float32]
    node_opcode: npt.NDArray[np.uint8]
    edge_index: npt.NDArray[np.int64]
    node_splits: npt.NDArray[np.int64]
    config_runtime: npt.NDArray[np.int64]
    name: str
    collection: str | None
    path: str | None

    _SAVED: tuple[str, ...] = ()
    _pack: Pack | None = None  # where arrays that are not there yet come from

    def __getattr__(self, name: str) -> Any:
        """Take the arrays out of the pack, when the first of them is asked for."""
        pack = self.__dict__.get("_pack")
        if pack is None or name.startswith("_"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        fields = pack.fields()
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
        self, node_feat: Any, node_opcode: Any, edge_index: Any, node_splits: Any, name: str,
        collection: str | None, path: str | None,
    ) -> None:  # fmt: skip
        feat = arrays.floats(
            "node_feat",
            arrays.shaped("node_feat", node_feat, ("N", NODE_FEATURES)),
        )
        nodes = feat.shape[0]
        if nodes < 1:
            raise arrays.fail("node_feat", "at least one node", "none")
        opcode = arrays.integers("node_opcode", arrays.shaped("node_opcode", node_opcode, (nodes,)))
        arrays.in_range("node_opcode", opcode, 0, 255, "opcodes")
        ends = arrays.numbers("edge_index", edge_index)
        if ends.shape == (0,):  # no edges, written from an empty list
            ends = ends.reshape(0, 2)
        edges = arrays.integers("edge_index", arrays.shaped("edge_index", ends, ("E", 2)))
        arrays.in_range("edge_index", edges, 0, nodes - 1, "node numbers")
        splits = arrays.integers("node_splits", [[0, nodes]] if node_splits is None else node_splits)
        if splits.ndim == 2 and splits.shape[0] == 1:
            splits = splits[0]
        arrays.shaped("node_splits", splits, ("S",))
        arrays.in_range("node_splits", splits, 0, nodes, "node numbers")
        if (np.diff(splits) < 0).any():
            raise arrays.fail("node_splits", "rising node numbers", f"{splits.tolist()[:8]}")
        self._set(
            node_feat=arrays.frozen(feat, node_feat),
            node_opcode=arrays.frozen(opcode.astype(np.uint8), None),
            edge_index=arrays.frozen(edges, edge_index),
            node_splits=arrays.frozen(splits.reshape(1, -1).copy(), None),
            name="graph" if name is None else str(name),
            collection=collection,
            path=path,
        )

    def _runtimes(self, value: Any, count: int) -> npt.NDArray[np.int64]:
        field = "config_runtime"
        if value is None:
            value = np.zeros(count, np.int64)
        runtime = arrays.integers(field, arrays.shaped(field, value, (count,)))
        bad = runtime < 0
        if bad.any() and not bool((runtime <= 0).all()):
            raise arrays.fail(
                field, "nanoseconds >= 0", arrays.place(runtime, bad), "drop this config or measure it again"
            )
        result: npt.NDArray[np.int64] = arrays.frozen(runtime, value)
        return result

    @property
    def num_nodes(self) -> int:
        """N."""
        return int(self.node_feat.shape[0])

    @property
    def num_edges(self) -> int:
        """E."""
        return int(self.edge_index.shape[0])

    @property
    def num_configs(self) -> int:
        """C."""
        return int(self.config_runtime.shape[0])

    @property
    def num_config_nodes(self) -> int:
        """K, 0 for tile graphs."""
        return 0

    @property
    def has_runtimes(self) -> bool:
        """False when there are no runtimes, or only placeholders (all <= 0) as in published test files."""
        return bool((self.config_runtime > 0).any())

    @property
    def submission_id(self) -> str:
        """ID of the graph in a submission: ``collection:name``.

        Raises
        ------
        DataError
            When the collection is not known.
        """
        if self.collection is None:
            raise arrays.fail(
                "collection",
                "a collection such as layout:xla:random",
                "none",
                "use g.replace(collection=...)",
            )
        return f"{self.collection}:{self.name}"

    def fields(self) -> dict[str, Any]:
        """Everything the graph consists of, by the constructor's argument names."""
        raise NotImplementedError

    def replace(self, **fields: Any) -> Self:
        """Make a copy with other arrays or another name, checked like a new graph."""
        unknown = set(fields) - set(self.fields())
        if unknown:
            raise TypeError(
                f"replace: unknown field {sorted(unknown)[0]!r}; fields are {', '.join(self.fields())}"
            )
        return type(self)(**{**self.fields(), **fields})

    def _with(self, **fields: Any) -> Self:
        """Copy with already checked fields."""
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__, **fields)
        return other

    def row_numbers(self, configs: Any = None, name: str = "configs") -> npt.NDArray[np.int64]:
        """Turn what picks configs into their row numbers.

        Parameters
        ----------
        configs : slice, bool (C,) or int (n,), optional
            As for :meth:`select`; by default all.
        name : str
            What errors call it.

        Returns
        -------
        (n,) int64

        Raises
        ------
        DataError
            Rows that the graph does not have.
        """
        every = np.arange(self.num_configs)
        return every if configs is None else np.ascontiguousarray(every[self._rows(configs, name)])

    def _rows(self, rows: Any, name: str = "rows") -> Any:
        """`rows` as an index array, slice or mask."""
        if isinstance(rows, slice):
            return rows
        count, whose = self.num_configs, f"graph {self.name!r} has {self.num_configs} configs"
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
        if bad.any():
            raise arrays.fail(name, f"numbers in {-count}..{count - 1}", arrays.place(index, bad), whose)
        return index

    def select(self, rows: Any) -> Self:
        """Make a graph of these configs only.

        Parameters
        ----------
        rows : slice, bool (C,) or int (n,)
            Which configs, in which order; negative numbers count from the end.

        Raises
        ------
        DataError
            Rows that the graph does not have.
        """
        raise NotImplementedError

    def validate(self) -> Self:
        """Check everything now, also what is otherwise checked on first use; returns the graph.

        Raises
        ------
        DataError
            Naming file, field and place.
        """
        if self._pack is not None:
            self._pack.check()
        return self

    def _saved_arrays(self) -> Iterable[tuple[str, str, tuple[int, ...], Iterable[bytes]]]:
        for field in self._SAVED:
            array = getattr(self, field)
            step = max(1, (4 << 20) // max(1, array[:1].nbytes)) if isinstance(array, np.ndarray) else 1
            if isinstance(array, ConfigFeatures):
                step = max(1, (4 << 20) // max(1, 4 * DIGITS * array.shape[1]))
            pieces = (array[i : i + step].tobytes() for i in range(0, len(array), step))
            yield field, np.dtype(array.dtype).str, array.shape, pieces

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write an npz in the published schema, or a pack if the name ends in ``.tgpack``.

        The file appears under its name when it is complete and on disk; a failure leaves an older one as it
        was.
        """
        if absolute(path).endswith(".tgpack"):
            from tpugraphs import packs

            packs.write(path, self)
            return
        with (
            atomic_write(path) as file,
            zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as archive,
        ):
            for field, dtype, shape, pieces in self._saved_arrays():
                _write_array(archive, field, dtype, shape, pieces)

    def distinct_configs(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Find equal configs.

        Returns
        -------
        first : (U,) int64
            Rows of the first occurrence of every different config, ascending.
        inverse : (C,) int64
            For every config, its place in `first`.
        """
        raise NotImplementedError

    def describe(self) -> dict[str, Any]:
        """Tell what is in the graph, after :meth:`validate`.

        Returns
        -------
        dict
            Counts, dtypes, runtimes (ns), share of distinct configs, opcodes, degrees, warnings; plain
            numbers and strings only, so that it can be written as JSON.
        """
        return description.describe(self)

    def __repr__(self) -> str:
        counts = ", ".join(f"{key}={n}" for key, n in description.counts(self).items() if isinstance(n, int))
        return f"{type(self).__name__}({self.name!r}, {counts})"

    def _repr_html_(self) -> str:
        return description.html_table(self)


_TEXTS = ("name", "collection", "path")


def _write_array(
    archive: zipfile.ZipFile, field: str, dtype: str, shape: tuple[int, ...], pieces: Iterable[bytes]
) -> None:
    """One array as a member, piece by piece, so that the whole never has to exist."""
    header = {"descr": dtype, "fortran_order": False, "shape": shape}
    info = zipfile.ZipInfo(f"{field}.npy")  # dated 1980: equal graphs give equal files
    info.compress_type = zipfile.ZIP_DEFLATED
    info.external_attr = 0o644 << 16
    with archive.open(info, "w", force_zip64=True) as member:
        np.lib.format.write_array_header_1_0(member, header)
        for piece in pieces:
            member.write(piece)


class LayoutGraph(Graph):
    """A graph with a choice of layouts per configurable node.

    Parameters
    ----------
    node_feat : (N, 140) float
        Node features.
    node_opcode : (N,) int in 0..255
        Opcode numbers.
    edge_index : (E, 2) int
        Rows (u, v): node u consumes the output of node v.
    node_config_ids : (K,) int, optional
        Configurable nodes, each once.
    node_config_feat : (C, K, 18), optional
        Configs: whole numbers in -1..5 (6 digits of output, input and kernel layout each).
    config_runtime : (C,) int, optional
        Run times in nanoseconds. Left out (or all <= 0): not measured.
    node_splits : (S,) or (1, S) int, optional
        Where the major computations start; default 0 and N.
    name, collection, path : str, optional
        Where it comes from.

    Attributes
    ----------
    node_feat (N, 140) float32, node_opcode (N,) uint8, edge_index (E, 2) int64, node_splits (1, S) int64,
    node_config_ids (K,) int64, config_runtime (C,) int64 : numpy.ndarray
        Read-only.

    Raises
    ------
    DataError
        When an array is not as described, naming field and place.
    """

    kind = "layout"
    node_config_ids: npt.NDArray[np.int64]
    _digits: Digits
    _SAVED = (
        "node_feat", "node_opcode", "edge_index", "node_config_ids", "node_splits", "node_config_feat",
        "config_runtime",
    )  # fmt: skip

    def __init__(
        self,
        *,
        node_feat: npt.ArrayLike,
        node_opcode: npt.ArrayLike,
        edge_index: npt.ArrayLike,
        node_config_ids: npt.ArrayLike | None = None,
        node_config_feat: Any = None,
        config_runtime: npt.ArrayLike | None = None,
        node_splits: npt.ArrayLike | None = None,
        name: str = "graph",
        collection: str | None = None,
        path: str | None = None,
    ) -> None:
        self._init_nodes(node_feat, node_opcode, edge_index, node_splits, name, collection, path)
        field = "node_config_ids"
        given: Any = np.zeros(0, np.int64) if node_config_ids is None else node_config_ids
        ids = arrays.integers(field, arrays.shaped(field, given, ("K",)))
        arrays.in_range(field, ids, 0, self.num_nodes - 1, "node numbers")
        ordered = np.sort(ids)
        twice = ordered[1:][ordered[1:] == ordered[:-1]]
        if twice.size:
            raise arrays.fail(field, "each node once", f"node {int(twice[0])} twice")
        if node_config_feat is None:
            configs = (
                0
                if config_runtime is None
                else len(arrays.numbers("config_runtime", config_runtime).reshape(-1))
            )
            if configs:
                raise arrays.fail("node_config_feat", f"shape ({configs}, {len(ids)}, 18)", "no such array")
            node_config_feat = np.zeros((0, len(ids), DIGITS), np.int8)
        digits = node_config_feat if isinstance(node_config_feat, Digits) else Digits.of(node_config_feat)
        if digits.shape[1] != len(ids) or digits.shape[2] != DIGITS:
            raise arrays.fail(
                "node_config_feat", f"shape (C, {len(ids)}, 18), as there are {len(ids)} node_config_ids",
                f"shape {digits.shape}",
            )  # fmt: skip
        runtime = self._runtimes(config_runtime, digits.shape[0])
        self._set(node_config_ids=arrays.frozen(ids, node_config_ids), config_runtime=runtime, _digits=digits)

    @property
    def num_config_nodes(self) -> int:
        """K."""
        return int(self.node_config_ids.shape[0])

    @property
    def config_digits(self) -> npt.NDArray[np.int8]:
        """Configs (C, K, 18) as read-only int8: all of them, read on first use and kept (see `digits_of`)."""
        return self._digits.get()

    @property
    def node_config_feat(self) -> ConfigFeatures:
        """Configs (C, K, 18) as float32, made on demand: ``g.node_config_feat[rows]``."""
        return ConfigFeatures(self._digits)

    def validate(self) -> Self:
        """Check also the config digits (of a pack: every checksum); returns the graph."""
        super().validate()
        self._digits.validate()
        return self

    def select(self, rows: Any) -> Self:
        """Make a graph of these configs only, in this order."""
        rows = self._rows(rows)
        runtime = np.ascontiguousarray(self.config_runtime[rows])
        runtime.flags.writeable = False
        return self._with(config_runtime=runtime, _digits=self._digits.select(rows))

    def digits_of(self, rows: Any) -> npt.NDArray[np.int8]:
        """Digits (n, K, 18) int8 of some configs; of a pack, no others are read.

        Parameters
        ----------
        rows : slice, bool (C,) or int (n,)
            As for :meth:`select`.

        Raises
        ------
        DataError
            Rows that the graph does not have, or a damaged file.
        """
        return self._digits.take(self._rows(rows))

    def fields(self) -> dict[str, Any]:
        """Everything the graph consists of, by the constructor's argument names."""
        fields = {field: getattr(self, field) for field in self._SAVED}
        return {**fields, **{field: getattr(self, field) for field in _TEXTS}}

    def distinct_configs(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Find equal configs; see :meth:`Graph.distinct_configs`."""
        return self._digits.distinct()


class TileGraph(Graph):
    """A kernel with a choice of tile sizes.

    Parameters
    ----------
    node_feat, node_opcode, edge_index, node_splits, name, collection, path
        As in :class:`LayoutGraph`.
    config_feat : (C, 24) float
        Kernel, output and input bounds with their sums and products.
    config_runtime : (C,) int, optional
        Run times in nanoseconds. Left out (or all <= 0): not measured.
    config_runtime_normalizers : (C,) int, optional
        Run times of the default config in the same run; all 1 when left out.

    Raises
    ------
    DataError
        When an array is not as described, naming field and place.
    """

    kind = "tile"
    config_feat: npt.NDArray[np.float32]
    config_runtime_normalizers: npt.NDArray[np.int64]
    _SAVED = (
        "node_feat", "node_opcode", "edge_index", "config_feat", "config_runtime",
        "config_runtime_normalizers",
    )  # fmt: skip

    def __init__(
        self,
        *,
        node_feat: npt.ArrayLike,
        node_opcode: npt.ArrayLike,
        edge_index: npt.ArrayLike,
        config_feat: npt.ArrayLike,
        config_runtime: npt.ArrayLike | None = None,
        config_runtime_normalizers: npt.ArrayLike | None = None,
        node_splits: npt.ArrayLike | None = None,
        name: str = "graph",
        collection: str | None = None,
        path: str | None = None,
    ) -> None:
        self._init_nodes(node_feat, node_opcode, edge_index, node_splits, name, collection, path)
        feat = arrays.floats(
            "config_feat",
            arrays.shaped("config_feat", config_feat, ("C", TILE_FEATURES)),
        )
        configs = feat.shape[0]
        runtime = self._runtimes(config_runtime, configs)
        field = "config_runtime_normalizers"
        given: Any = (
            np.ones(configs, np.int64) if config_runtime_normalizers is None else config_runtime_normalizers
        )
        normalizers = arrays.integers(field, arrays.shaped(field, given, (configs,)))
        bad = normalizers <= 0
        if (runtime > 0).any() and bad.any():
            raise arrays.fail(
                field,
                "nanoseconds > 0",
                arrays.place(normalizers, bad),
                "drop this config or measure it again",
            )
        self._set(
            config_feat=arrays.frozen(feat, config_feat),
            config_runtime=runtime,
            config_runtime_normalizers=arrays.frozen(normalizers, config_runtime_normalizers),
        )

    def select(self, rows: Any) -> Self:
        """Make a graph of these configs only, in this order."""
        rows = self._rows(rows)
        fields = {}
        for field in ("config_feat", "config_runtime", "config_runtime_normalizers"):
            fields[field] = np.ascontiguousarray(getattr(self, field)[rows])
            fields[field].flags.writeable = False
        return self._with(**fields)

    def fields(self) -> dict[str, Any]:
        """Everything the graph consists of, by the constructor's argument names."""
        return {field: getattr(self, field) for field in (*self._SAVED, "node_splits", *_TEXTS)}

    def distinct_configs(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Find equal configs; see :meth:`Graph.distinct_configs`."""
        return kernels.dedup_rows(self.config_feat)
