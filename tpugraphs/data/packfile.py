"""Packs: graphs in files that are mapped into memory. Using a config reads only its own bytes.

A pack (``name.tgpack``) holds one graph, made from ``name.npz``: its arrays, ready for use. Configs of layout
graphs are kept as three small numbers per configurable node, six times smaller than digits. Their checksum is
compared once, on first use. ``csrc/io/pack.h`` describes the file. Packs of layout and tile graphs are of
version 1; those of other graphs also hold the schema, and are of version 2.
"""

from __future__ import annotations

import os
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tpugraphs import _core
from tpugraphs.data import formats
from tpugraphs.data.arrays import fail, naming
from tpugraphs.data.published import CLASSES, Graph
from tpugraphs.data.schema import MEMBER, read_schema
from tpugraphs.errors import DataError
from tpugraphs.names import collection_of
from tpugraphs.system import absolute, atomic_write

#: Ending of packs.
SUFFIX = ".tgpack"
Origin = tuple[int, int, int]


def is_pack(path: str | os.PathLike[str]) -> bool:
    """Return whether a file is a pack, by its name.

    Parameters
    ----------
    path : path
        Path of a file, which need not exist.

    Returns
    -------
    bool
        Whether it ends in ``.tgpack``.
    """
    return os.fsdecode(path).endswith(SUFFIX)


class Pack:
    """An open pack. Opening reads and checks the header; arrays are checked on first use.

    Attributes
    ----------
    path, kind : str
        The kind is ``"layout"``, ``"tile"`` or ``"graph"``.
    arrays : dict of str to ndarray
        Its arrays, read-only, in the mapped file, unchecked.
    schema : Schema
    about : dict
        Facts about the measurements.
    origin : (int, int, int)
        Size, modification time (ns) and CRC of the zip directory of the .npz it was made from, or zeros.

    Raises
    ------
    DataError, OSError
        Not a pack, of another version, or a damaged header; a file that cannot be opened.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        with naming(path):
            self.kind, self.arrays, self.origin, self.handle = _core.pack_open(path)
            self.about: dict[str, Any] = {}
            if "schema" in self.arrays:
                self.schema, self.about = read_schema(self.arrays["schema"])
            else:
                self.schema = CLASSES[self.kind].schema

    def digits(self) -> _core.Digits:
        """Return the configs by node; they stay in the file.

        Raises
        ------
        DataError
            The file is damaged.
        """
        arrays, where = self.arrays, {"path": self.path, "handle": self.handle}
        if "config_table" in arrays:
            codes = arrays["node_config_feat"]
            shape = (*codes.shape[:2], _core.SCHEMA["digits"])
            return _core.Digits(shape, codes=codes, table=arrays["config_table"], **where)
        values = self.schema.digit_values
        none = np.zeros((len(arrays["runtime"]), 0, len(values)), np.int8)
        array: NDArray[np.int8] = arrays.get("node_config_feat", none)
        return _core.Digits(array.shape, array, values=values, **where)

    def read(self) -> Graph:
        """Return the graph with its arrays, compared with their checksums and checked; the digits are not."""
        given: dict[str, Any] = {name: a for name, a in self.arrays.items() if name != "config_table"}
        with naming(self.path):
            _core.pack_check(self.handle, False)
            if "schema" in given:
                given.update(schema=self.schema, about=self.about)
            if "node_config_feat" in given:
                given["node_config_feat"] = self.digits()
            return CLASSES[self.kind](**given)

    def check(self) -> None:
        """Check every byte; DataError naming the file."""
        _core.pack_check(self.handle, True)

    def release(self) -> None:
        """Free the memory of pages that were read; they are read again when needed."""
        _core.pack_release(self.handle)


def open_pack(path: str, limit: int) -> Graph:
    """Open the graph of a pack: read the header, and check whether the .npz next to it changed.

    Parameters
    ----------
    path : str
        Of a pack.
    limit : int
        Maximum bytes of all arrays together.

    Returns
    -------
    graph
        Its arrays are read on first use.

    Raises
    ------
    DataError
        Not a pack, a damaged header, more bytes than `limit`, or a pack made from another .npz.
    """
    pack = Pack(path)
    with naming(path):
        size = sum(array.nbytes for array in pack.arrays.values())
        if size > limit:
            found, todo = f"{size} bytes, max_bytes is {limit}", "raise max_bytes if the file is right"
            raise fail("file", "arrays of at most max_bytes together", found, todo)
        source = path.removesuffix(SUFFIX) + ".npz"
        if pack.origin[0] and not made_from(pack.origin, source):
            expected = f"the pack of {os.path.basename(source)} next to it"
            todo = "run tpugraphs pack again, or delete one of the two"
            raise fail("file", expected, "one of another version of that file", todo)
        graph = CLASSES[pack.kind].__new__(CLASSES[pack.kind])
        graph._set(name=Path(path).stem, collection=collection_of(path), path=path, _pack=pack)
        if pack.kind != "tile":
            graph._set(_digits=pack.digits())
        return graph


def origin_of(source: str) -> tuple[Origin, int]:
    """Return the origin of a pack of this file, and about how many bytes the pack takes."""
    if source.endswith(".npz"):
        return _core.npz_origin(source)
    crc = 0
    with open(source, "rb") as file:
        found = os.fstat(file.fileno())
        while piece := file.read(1 << 20):
            crc = zlib.crc32(piece, crc)
    return (found.st_size, found.st_mtime_ns, crc), 8 * found.st_size


def contents_of(path: str) -> int:
    """Return a checksum of what a graph's file holds: of a pack and an .npz, of the checksums in it."""
    return _core.pack_checksum(path) if is_pack(path) else origin_of(path)[0][2]


def made_from(origin: Origin, source: str) -> bool:
    """Return whether a pack was made from this .npz or .pb; true if that file is missing.

    A file with the same size and modification time counts as unchanged, as in make. For files that were
    copied or unpacked again, the CRC of the zip directory decides, which holds the CRC of every array; for a
    .pb, that of the file.
    """
    try:
        found = os.stat(source)
    except OSError:
        return True
    if (found.st_size, found.st_mtime_ns) == origin[:2]:
        return True
    try:
        return found.st_size == origin[0] and origin_of(source)[0][2] == origin[2]
    except (DataError, OSError):
        return False


def write(path: str | os.PathLike[str], graph: Graph) -> None:
    """Write a graph as a pack, atomically.

    Parameters
    ----------
    path : path
        Ends in ``.tgpack``.
    graph : Graph
        Any.

    Raises
    ------
    OSError
        The file cannot be written.
    DataError
        Configs that are still in a file are damaged.
    """
    write_pack(absolute(path), graph, (0, 0, 0), np.zeros(2, np.int64))


def write_pack(path: str, graph: Graph, origin: Origin, done: NDArray[np.int64]) -> None:
    """Write a graph as the pack of a file; `done` counts the digits written, and stops at done[1]."""
    saved, digits = dict(graph._saved()), None
    if MEMBER in saved:  # not a published schema
        saved["schema"] = saved.pop(MEMBER)
    else:
        saved["node_splits"] = graph.node_splits.reshape(-1)
        if saved.pop("node_config_feat", None) is not None:
            digits = graph._digits.source()
    arrays = {name: np.ascontiguousarray(array) for name, array in saved.items()}
    with atomic_write(path) as file:
        _core.pack_write(file.fileno(), graph.kind, arrays, digits, origin, done)


formats.READERS[SUFFIX], formats.WRITERS[SUFFIX] = open_pack, write
