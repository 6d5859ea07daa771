"""Measured graphs: :class:`LayoutGraph` and :class:`TileGraph`.

A graph is read-only and its structure (shapes, node numbers, finite features, runtimes) has been checked
when it exists, so every array can be given to the C core. Config digits of a file are inflated and checked
when they are first asked for, or by :meth:`LayoutGraph.validate`; they are kept in one byte each.
"""

from __future__ import annotations

import hashlib
import html
import os
import secrets
import zipfile
from collections.abc import Iterable, Mapping
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from tpugraphs import _core
from tpugraphs.errors import DataError
from tpugraphs.opcodes import opcode_name

__all__ = ["ConfigFeatures", "Graph", "LayoutGraph", "TileGraph", "format_description"]

NODE_FEATURES, TILE_FEATURES, DIGITS = 140, 24, 18

# Measured graphs that people who worked with the data found to be broken, by name.
_SUSPECT = ("unet_3d.4x4.bf16", "mlperf_bert_batch_24_2x2", "magenta_dynamic")

_AnyArray = npt.NDArray[Any]


def _fail(field: str, expected: str, found: str, todo: str = "check the program that wrote it") -> DataError:
    return DataError(
        f"{field}: expected {expected}, found {found}; {todo}", field=field, found=found, expected=expected
    )


def _with_file(error: DataError, file: str) -> DataError:
    if error.file is not None:
        return error
    return DataError(str(error), file=file, field=error.field, found=error.found, expected=error.expected)


# --- conversions: value-preserving or an error --------------------------------------------------------------


def _numbers(field: str, value: Any) -> _AnyArray:
    try:
        array = np.asarray(value)
    except (ValueError, TypeError) as error:
        raise _fail(field, "an array of numbers", f"something that is no array ({error})") from None
    if array.dtype.kind not in "biuf" or array.dtype.itemsize > 8:
        raise _fail(field, "an array of numbers", f"dtype {array.dtype}", "convert it before")
    return array


def _shaped(field: str, array: _AnyArray, shape: tuple[int | str, ...]) -> _AnyArray:
    fits = array.ndim == len(shape) and all(
        isinstance(want, str) or want == have for want, have in zip(shape, array.shape, strict=True)
    )
    if not fits:
        text = "(" + ", ".join(map(str, shape)) + ("," if len(shape) == 1 else "") + ")"
        todo = "check the program that wrote it"
        if array.ndim == 2 and len(shape) == 2 and shape[1] == array.shape[0]:
            todo = "transpose it"
        raise _fail(field, f"shape {text}", f"shape {array.shape}", todo)
    return array


def _place(array: _AnyArray, bad: _AnyArray) -> str:
    at = tuple(int(i) for i in np.argwhere(bad)[0])
    value = array[at]
    return f"{value.item()!r} at {at[0] if len(at) == 1 else at}"


def _integers(field: str, value: Any) -> npt.NDArray[np.int64]:
    """As int64, exactly."""
    array = _numbers(field, value)
    if array.dtype.kind == "f":
        wide = array.astype(np.float64, copy=False)
        bad = ~((wide >= -(2.0**63)) & (wide < 2.0**63) & (np.floor(wide) == wide))
        if bad.any():
            raise _fail(field, "whole numbers", _place(array, bad))
    elif array.dtype.kind == "u" and array.dtype.itemsize == 8:
        bad = array > np.uint64(2**63 - 1)
        if bad.any():
            raise _fail(field, "numbers below 2^63", _place(array, bad))
    return np.ascontiguousarray(array.astype(np.int64, copy=False))


def _in_range(
    field: str, array: npt.NDArray[np.int64], low: int, high: int, what: str
) -> npt.NDArray[np.int64]:
    bad = (array < low) | (array > high)
    if bad.any():
        raise _fail(field, f"{what} in {low}..{high}", _place(array, bad))
    return array


def _floats(field: str, value: Any) -> npt.NDArray[np.float32]:
    """As float32, finite. Wider numbers are rounded to the nearest."""
    array = _numbers(field, value)
    with np.errstate(over="ignore"):
        result = np.ascontiguousarray(array.astype(np.float32, copy=False))
    bad = ~np.isfinite(result)
    if bad.any():
        raise _fail(field, "finite numbers", _place(array, bad), "drop or repair this file")
    return result


def _frozen(array: _AnyArray, source: Any) -> _AnyArray:
    """Make an array read-only that nobody else can write to."""
    if array.flags.writeable and (array is source or array.base is not None):
        array = array.copy()
    array.flags.writeable = False
    return array.view()


# --- lazily read config digits ------------------------------------------------------------------------------


class _Digits:
    """Digits (C, K, 18) int8, in memory or still in a file."""

    def __init__(
        self,
        shape: tuple[int, int, int],
        array: npt.NDArray[np.int8] | None = None,
        path: str | None = None,
        stamp: tuple[int, int, int, int] | None = None,
    ) -> None:
        self.shape, self._array, self._path, self._stamp = shape, array, path, stamp

    def get(self) -> npt.NDArray[np.int8]:
        if self._array is None:
            assert self._path is not None and self._stamp is not None
            try:
                array = _core.npz_digits(self._path, self._stamp, self.shape)
            except DataError as error:
                raise _with_file(error, self._path) from None
            array.flags.writeable = False
            self._array = array.view()
        return self._array

    @classmethod
    def of(cls, value: Any) -> _Digits:
        """From an array-like of any number type, checked."""
        if isinstance(value, ConfigFeatures):
            return value._digits
        array = _shaped("node_config_feat", _numbers("node_config_feat", value), ("C", "K", DIGITS))
        array = np.ascontiguousarray(array)
        native = array.astype(array.dtype.newbyteorder("="), copy=False)
        packed = _core.pack_digits(native)
        packed.flags.writeable = False
        return cls((array.shape[0], array.shape[1], DIGITS), packed.view())

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if self._array is not None:
            self._array.flags.writeable = False


class ConfigFeatures:
    """Layout configs as an array (C, K, 18) of float32 that is made on demand.

    ``x[rows]`` gives a float32 copy of those rows; ``numpy.asarray(x)`` of all of them. The digits
    themselves are kept as int8, see :attr:`LayoutGraph.config_digits`.
    """

    __slots__ = ("_digits",)

    def __init__(self, digits: _Digits) -> None:
        self._digits = digits

    @property
    def shape(self) -> tuple[int, int, int]:
        """(C, K, 18)."""
        return self._digits.shape

    @property
    def dtype(self) -> np.dtype[np.float32]:
        """float32."""
        return np.dtype(np.float32)

    @property
    def ndim(self) -> int:
        """3."""
        return 3

    @property
    def size(self) -> int:
        """C·K·18."""
        return self.shape[0] * self.shape[1] * self.shape[2]

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, key: Any) -> Any:
        return np.asarray(self._digits.get()[key], dtype=np.float32)

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> _AnyArray:
        if copy is False:
            raise ValueError("node_config_feat is stored as int8: a float array of it is always a copy")
        return self._digits.get().astype(np.float32 if dtype is None else dtype)

    def __repr__(self) -> str:
        return f"ConfigFeatures(shape={self.shape}, dtype=float32)"


# --- graphs -------------------------------------------------------------------------------------------------


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

    def _set(self, **fields: Any) -> None:
        self.__dict__.update(fields)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"graphs are read-only: use g.replace({name}=...)")

    def __delattr__(self, name: str) -> None:
        raise AttributeError("graphs are read-only")

    def __setstate__(self, state: dict[str, Any]) -> None:
        for value in state.values():
            if isinstance(value, np.ndarray):
                value.flags.writeable = False
        self.__dict__.update(state)

    def _init_nodes(
        self, node_feat: Any, node_opcode: Any, edge_index: Any, node_splits: Any, name: str,
        collection: str | None, path: str | None,
    ) -> None:  # fmt: skip
        feat = _floats(
            "node_feat", _shaped("node_feat", _numbers("node_feat", node_feat), ("N", NODE_FEATURES))
        )
        nodes = feat.shape[0]
        if nodes < 1:
            raise _fail("node_feat", "at least one node", "none")
        opcode = _integers(
            "node_opcode", _shaped("node_opcode", _numbers("node_opcode", node_opcode), (nodes,))
        )
        _in_range("node_opcode", opcode, 0, 255, "opcodes")
        ends = _numbers("edge_index", edge_index)
        if ends.shape == (0,):  # no edges, written from an empty list
            ends = ends.reshape(0, 2)
        edges = _integers("edge_index", _shaped("edge_index", ends, ("E", 2)))
        _in_range("edge_index", edges, 0, nodes - 1, "node numbers")
        splits = _integers("node_splits", [[0, nodes]] if node_splits is None else node_splits)
        if splits.ndim == 2 and splits.shape[0] == 1:
            splits = splits[0]
        _shaped("node_splits", splits, ("S",))
        _in_range("node_splits", splits, 0, nodes, "node numbers")
        if (np.diff(splits) < 0).any():
            raise _fail("node_splits", "rising node numbers", f"{splits.tolist()[:8]}")
        self._set(
            node_feat=_frozen(feat, node_feat),
            node_opcode=_frozen(opcode.astype(np.uint8), None),
            edge_index=_frozen(edges, edge_index),
            node_splits=_frozen(splits.reshape(1, -1).copy(), None),
            name=str(name),
            collection=collection,
            path=path,
        )

    def _runtimes(self, value: Any, count: int) -> npt.NDArray[np.int64]:
        field = "config_runtime"
        if value is None:
            value = np.zeros(count, np.int64)
        runtime = _integers(field, _shaped(field, _numbers(field, value), (count,)))
        bad = runtime < 0
        if bad.any() and not bool((runtime <= 0).all()):
            raise _fail(
                field, "nanoseconds >= 0", _place(runtime, bad), "drop this config or measure it again"
            )
        result: npt.NDArray[np.int64] = _frozen(runtime, value)
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
            raise _fail(
                "collection",
                "a collection such as layout:xla:random",
                "none",
                "use g.replace(collection=...)",
            )
        return f"{self.collection}:{self.name}"

    def _fields(self) -> dict[str, Any]:
        raise NotImplementedError

    def replace(self, **fields: Any) -> Self:
        """Make a copy with other arrays or another name, checked like a new graph."""
        unknown = set(fields) - set(self._fields())
        if unknown:
            raise TypeError(
                f"replace: unknown field {sorted(unknown)[0]!r}; fields are {', '.join(self._fields())}"
            )
        return type(self)(**{**self._fields(), **fields})

    def _with(self, **fields: Any) -> Self:
        """Copy with already checked fields."""
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__, **fields)
        return other

    def _rows(self, rows: Any) -> Any:
        """`rows` as an index array, slice or mask."""
        if isinstance(rows, slice):
            return rows
        index = np.asarray(rows)
        if index.size == 0:
            index = index.astype(np.int64)
        if index.ndim != 1 or index.dtype.kind not in "iub":
            raise _fail(
                "rows", "a slice, a mask (C,) or a list of row numbers", f"{index.dtype} {index.shape}"
            )
        return index

    def select(self, rows: Any) -> Self:
        """Make a graph of these configs only.

        Parameters
        ----------
        rows : slice, bool (C,) or int (n,)
            Which configs, in which order.
        """
        raise NotImplementedError

    def validate(self) -> Self:
        """Check everything now, also what is otherwise checked on first use; returns the graph.

        Raises
        ------
        DataError
            Naming file, field and place.
        """
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
        """Write an npz in the published schema.

        The file appears under its name when it is complete and on disk; a failure leaves an older one as it
        was.
        """
        target = os.path.abspath(os.path.expanduser(os.fspath(path)))
        folder = os.path.dirname(target)
        temporary = os.path.join(
            folder, f".{os.path.basename(target)}.{os.getpid()}.{secrets.token_hex(4)}.tmp"
        )
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        try:
            with os.fdopen(handle, "wb") as file:
                with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as archive:
                    for field, dtype, shape, pieces in self._saved_arrays():
                        _write_array(archive, field, dtype, shape, pieces)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, target)
        except BaseException:
            os.unlink(temporary)
            raise
        directory = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)

    def _config_rows(self) -> _AnyArray:
        """Configs as rows of bytes."""
        raise NotImplementedError

    def _counts(self) -> dict[str, Any]:
        counts: dict[str, Any] = {
            "name": self.name,
            "kind": self.kind,
            "collection": self.collection,
            "file": self.path,
            "nodes": self.num_nodes,
            "edges": self.num_edges,
            "configs": self.num_configs,
        }
        if self.kind == "layout":
            counts["config_nodes"] = self.num_config_nodes
        return counts

    def describe(self) -> dict[str, Any]:
        """Tell what is in the graph, after :meth:`validate`.

        Returns
        -------
        dict
            Counts, dtypes, runtimes (ns), share of distinct configs, opcodes, degrees, warnings; plain
            numbers and strings only, so that it can be written as JSON.
        """
        self.validate()
        result = self._counts()
        result["dtypes"] = {
            field: str(getattr(self, field).dtype) for field in self._fields() if field not in _TEXTS
        }
        result["has_runtimes"] = self.has_runtimes
        result["runtime_ns"] = _runtime_summary(self.config_runtime) if self.has_runtimes else None
        distinct = len({hashlib.blake2b(row, digest_size=16).digest() for row in self._config_rows()})
        result["distinct_configs"] = distinct
        result["distinct_share"] = distinct / self.num_configs if self.num_configs else None
        result["opcodes"] = _top_opcodes(self.node_opcode)
        degrees = {"out": self.edge_index[:, 0], "in": self.edge_index[:, 1]}
        counts = {key: np.bincount(ends, minlength=self.num_nodes) for key, ends in degrees.items()}
        result["degree"] = {key: {"mean": float(c.mean()), "max": int(c.max())} for key, c in counts.items()}
        result["isolated_nodes"] = int(((counts["out"] + counts["in"]) == 0).sum())
        result["warnings"] = self._warnings(distinct)
        return result

    def _warnings(self, distinct: int) -> list[str]:
        found = []
        if self.num_configs == 0:
            found.append("no configs: nothing to learn from or to rank")
        elif not self.has_runtimes:
            found.append("runtimes are placeholders: the graph can be ranked, not trained on or scored")
        else:
            if self.config_runtime.min() == self.config_runtime.max():
                found.append("all runtimes are equal: no order can be learned")
            if self.config_runtime.min() == 0:
                found.append("some runtimes are 0 ns")
        if self.num_configs > 1 and distinct == 1:
            found.append("all configs are the same")
        elif self.num_configs and distinct < 0.5 * self.num_configs:
            found.append(f"only {distinct} of {self.num_configs} configs are different: consider tg.dedup")
        if self.name in _SUSPECT:
            found.append("measurements of this graph are known to be corrupt")
        known = np.array([opcode_name(number) != "unknown" for number in range(256)])
        unknown = int((~known[self.node_opcode]).sum())
        if unknown:
            found.append(f"{unknown} nodes have an opcode that is not known")
        return found

    def __repr__(self) -> str:
        counts = ", ".join(
            f"{key}={value}" for key, value in self._counts().items() if isinstance(value, int)
        )
        return f"{type(self).__name__}({self.name!r}, {counts})"

    def _repr_html_(self) -> str:
        rows = self._counts()
        if self.has_runtimes:
            rows["runtime"] = "{min_ms:.4g} / {median_ms:.4g} / {max_ms:.4g} ms (min / median / max)".format(
                **{f"{k}_ms": v / 1e6 for k, v in _runtime_summary(self.config_runtime).items()}
            )
        cells = "".join(
            f"<tr><th style='text-align:left'>{html.escape(key.replace('_', ' '))}</th>"
            "<td style='text-align:left'>"
            f"{html.escape(f'{value:,}' if isinstance(value, int) else str(value))}</td></tr>"
            for key, value in rows.items()
            if value is not None
        )
        return f"<table><caption>{type(self).__name__}</caption>{cells}</table>"


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


def _runtime_summary(runtime: npt.NDArray[np.int64]) -> dict[str, float]:
    low, middle, high = int(runtime.min()), float(np.median(runtime)), int(runtime.max())
    return {"min": low, "median": middle, "max": high}


def _top_opcodes(opcode: npt.NDArray[np.uint8], most: int = 10) -> dict[str, int]:
    counts: dict[str, int] = {}
    for number, count in enumerate(np.bincount(opcode)):
        if count:
            counts[opcode_name(number)] = counts.get(opcode_name(number), 0) + int(count)
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:most])


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
    _digits: _Digits
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
        ids = _integers(field, _shaped(field, _numbers(field, given), ("K",)))
        _in_range(field, ids, 0, self.num_nodes - 1, "node numbers")
        ordered = np.sort(ids)
        twice = ordered[1:][ordered[1:] == ordered[:-1]]
        if twice.size:
            raise _fail(field, "each node once", f"node {int(twice[0])} twice")
        if node_config_feat is None:
            configs = (
                0 if config_runtime is None else len(_numbers("config_runtime", config_runtime).reshape(-1))
            )
            if configs:
                raise _fail("node_config_feat", f"shape ({configs}, {len(ids)}, 18)", "no such array")
            node_config_feat = np.zeros((0, len(ids), DIGITS), np.int8)
        digits = node_config_feat if isinstance(node_config_feat, _Digits) else _Digits.of(node_config_feat)
        if digits.shape[1] != len(ids) or digits.shape[2] != DIGITS:
            raise _fail(
                "node_config_feat", f"shape (C, {len(ids)}, 18), as there are {len(ids)} node_config_ids",
                f"shape {digits.shape}",
            )  # fmt: skip
        runtime = self._runtimes(config_runtime, digits.shape[0])
        self._set(node_config_ids=_frozen(ids, node_config_ids), config_runtime=runtime, _digits=digits)

    @property
    def num_config_nodes(self) -> int:
        """K."""
        return int(self.node_config_ids.shape[0])

    @property
    def config_digits(self) -> npt.NDArray[np.int8]:
        """Configs (C, K, 18) as read-only int8, inflated from the file on first use and kept."""
        return self._digits.get()

    @property
    def node_config_feat(self) -> ConfigFeatures:
        """Configs (C, K, 18) as float32, made on demand: ``g.node_config_feat[rows]``."""
        return ConfigFeatures(self._digits)

    def validate(self) -> Self:
        """Check also the config digits; returns the graph."""
        self._digits.get()
        return self

    def select(self, rows: Any) -> Self:
        """Make a graph of these configs only, in this order."""
        rows = self._rows(rows)
        runtime = np.ascontiguousarray(self.config_runtime[rows])
        digits = np.ascontiguousarray(self.config_digits[rows])
        for array in (runtime, digits):
            array.flags.writeable = False
        shape = (digits.shape[0], digits.shape[1], DIGITS)
        return self._with(config_runtime=runtime, _digits=_Digits(shape, digits))

    def _fields(self) -> dict[str, Any]:
        fields = {field: getattr(self, field) for field in self._SAVED}
        return {**fields, **{field: getattr(self, field) for field in _TEXTS}}

    def _config_rows(self) -> _AnyArray:
        return self.config_digits.reshape(self.num_configs, self.num_config_nodes * DIGITS)

    def describe(self) -> dict[str, Any]:
        """Tell what is in the graph; see :meth:`Graph.describe`."""
        result = super().describe()
        result["configurable_opcodes"] = _top_opcodes(self.node_opcode[self.node_config_ids])
        return result


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
        feat = _floats(
            "config_feat", _shaped("config_feat", _numbers("config_feat", config_feat), ("C", TILE_FEATURES))
        )
        configs = feat.shape[0]
        runtime = self._runtimes(config_runtime, configs)
        field = "config_runtime_normalizers"
        given: Any = (
            np.ones(configs, np.int64) if config_runtime_normalizers is None else config_runtime_normalizers
        )
        normalizers = _integers(field, _shaped(field, _numbers(field, given), (configs,)))
        bad = normalizers <= 0
        if (runtime > 0).any() and bad.any():
            raise _fail(
                field, "nanoseconds > 0", _place(normalizers, bad), "drop this config or measure it again"
            )
        self._set(
            config_feat=_frozen(feat, config_feat),
            config_runtime=runtime,
            config_runtime_normalizers=_frozen(normalizers, config_runtime_normalizers),
        )

    def select(self, rows: Any) -> Self:
        """Make a graph of these configs only, in this order."""
        rows = self._rows(rows)
        fields = {}
        for field in ("config_feat", "config_runtime", "config_runtime_normalizers"):
            fields[field] = np.ascontiguousarray(getattr(self, field)[rows])
            fields[field].flags.writeable = False
        return self._with(**fields)

    def _fields(self) -> dict[str, Any]:
        return {field: getattr(self, field) for field in (*self._SAVED, "node_splits", *_TEXTS)}

    def _config_rows(self) -> _AnyArray:
        return self.config_feat


def format_description(description: Mapping[str, Any]) -> str:
    """Lines for people from what :meth:`Graph.describe` returns."""
    d = description
    rows = [("name", d["name"]), ("kind", d["kind"]), ("collection", d["collection"] or "not known")]
    if d["file"]:
        rows.append(("file", d["file"]))
    counts = f"{d['nodes']:,} nodes, {d['edges']:,} edges, {d['configs']:,} configs"
    if "config_nodes" in d:
        counts += f", {d['config_nodes']:,} configurable nodes"
    rows.append(("size", counts))
    if d["runtime_ns"]:
        times = " / ".join(f"{d['runtime_ns'][key] / 1e6:.4g}" for key in ("min", "median", "max"))
        rows.append(("runtime", f"{times} ms (min / median / max)"))
    if d["distinct_share"] is not None:
        rows.append(("distinct configs", f"{d['distinct_configs']:,} ({100 * d['distinct_share']:.1f} %)"))
    rows.append(("opcodes", ", ".join(f"{name} {count:,}" for name, count in d["opcodes"].items())))
    if d.get("configurable_opcodes"):
        named = ", ".join(f"{name} {count:,}" for name, count in d["configurable_opcodes"].items())
        rows.append(("configurable", named))
    degree = d["degree"]
    rows.append(
        (
            "degree",
            f"mean {degree['in']['mean']:.2f}, most {degree['in']['max']} in, {degree['out']['max']} out",
        )
    )
    rows.append(("dtypes", ", ".join(f"{field} {dtype}" for field, dtype in d["dtypes"].items())))
    rows += [("warning", text) for text in d["warnings"]]
    return "\n".join(f"{key:<17} {value}" for key, value in rows)
