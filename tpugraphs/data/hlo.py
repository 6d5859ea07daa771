"""Graphs from protocol buffers of HLO (``.pb``): any program of XLA, with its measurements if it has any.

A file holds one of four messages, recognised by its content: ``xla.HloModuleProto`` (as from JAX's
``lowered.compiler_ir("hlo").as_serialized_hlo_module_proto()``), ``xla.HloProto`` (as
``--xla_dump_hlo_as_proto`` writes it), ``tpu_graphs.ModuleTuningData`` or ``tpu_graphs.TuningData``.
Features, opcodes, edges and configs are those of the extractor of TpuGraphs, bit for bit. It aborts where a
computation is called twice by one instruction; here that is one edge.

HLO and StableHLO as text, and StableHLO as bytecode, are read through JAX where it is installed.
"""

from __future__ import annotations

import importlib
import os
import re
import warnings
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np

from tpugraphs import _core
from tpugraphs.data import formats
from tpugraphs.data.arrays import naming, with_graph
from tpugraphs.data.collections import DEFAULT_MAX_BYTES, file_stem
from tpugraphs.data.columns import Column
from tpugraphs.data.published import Graph, LayoutGraph, TileGraph
from tpugraphs.data.schema import LAYOUT, TILE, spelled
from tpugraphs.errors import DataError
from tpugraphs.names import collection_of
from tpugraphs.system import absolute, check_choice, counted, log, plural

__all__ = ["SUFFIX", "fusions", "node_names", "read", "read_bytes"]

#: Ending of files of HLO.
SUFFIX = ".pb"
_TEXTS = (".hlo", ".mlir", ".txt")  # as XLA and JAX write them
_STARTS = {b"HloModule ": "HLO as text", b"module ": "MLIR as text", b"#loc": "MLIR as text",
           b"ML\xefR": "MLIR bytecode"}  # fmt: skip
Bytes = bytes | bytearray | memoryview


def read(path: str, max_bytes: int, padding: int = 0, extra: bool = False) -> Any:
    """Read a file of HLO: one graph, or a list of them from a ``TuningData``.

    Parameters
    ----------
    path : str
    max_bytes : int
        Refuse a file whose arrays would take more memory than this.
    padding : {0, -1}
        Padding of lists in the columns 31-36, 95-98, 101-104 and 134-139 of `node_feat`: 0 as in the
        published files, or -1. It can be seen in the features, so saved files record it
        (:mod:`tpugraphs.preprocess.padding`), and rankers to which it matters refuse the other one.
    extra : bool
        Append the node features that the third place of the Kaggle competition read from these files: 30
        columns of dot and gather dimensions and flags, and 16 with the shapes of both operands of
        convolutions and dots (-1: missing, -2: another instruction). The published kinds have no room for
        more columns, so the result is a :class:`tpugraphs.Graph` whose schema names all of them. It can be
        saved, packed and ranked like any other.

    Returns
    -------
    graph or list of graphs
        Without configs if nothing was measured. Opcodes that TpuGraphs does not know are logged by name.

    Raises
    ------
    DataError
        The file is not one of the four messages or damaged, naming computation, instruction and byte.
    ConfigError
        Another padding.

    Warns
    -----
    UserWarning
        When all runs of a program are left out, as by the extractor: if no run without error is marked as the
        default, if only one run has tile sizes, or if one of the runs with tile sizes has none.
    """
    with naming(path):
        kind = _kind(path)
        if kind is None and not path.endswith(SUFFIX):
            todo = f"save protocol buffers as {SUFFIX}"
            raise DataError.of("file", "HLO or StableHLO", "another text", todo)
        source = path if kind is None else _converted(path, kind)
        found = _graphs(source, file_stem(path), path, padding, extra, max_bytes, stacklevel=4)
        if isinstance(found, Graph) and not np.all(found.node_opcode):
            names, _ = node_names(source)
            strange = [re.sub(r"[.\d]+$", "", names[i]) for i in np.flatnonzero(found.node_opcode == 0)]
            text = ", ".join(f"{name} ({strange.count(name)})" for name in dict.fromkeys(strange))
            log.warning("%s: opcodes that TpuGraphs does not know: %.200s", path, text)
        return found


def _kind(path: str) -> str | None:
    """Return what a file is that XLA can convert, None for any other."""
    if not os.path.isfile(path):
        return None
    with open(path, "rb") as file:
        start = file.read(16)
    return next((name for first, name in _STARTS.items() if start.startswith(first)), None)


def _converted(path: str, kind: str) -> bytes:
    """Return the protocol buffer of a program that is text or bytecode, made by XLA."""
    with open(path, "rb") as file:
        data = file.read()
    todo = "write the program with as_serialized_hlo_module_proto(), or dump it with --xla_dump_hlo_as_proto"
    for name in ("_hlo", "_jax", "xla_extension"):
        with suppress(ImportError):
            there = importlib.import_module(f"jaxlib.{name}")
            make: Any = getattr(there, "hlo_module_from_text", None) if kind == "HLO as text" else None
            if kind != "HLO as text" and hasattr(there, "mlir"):
                make = there.mlir.mlir_module_to_xla_computation
            if make is None:
                continue
            try:
                module = make(data if kind == "MLIR bytecode" else data.decode())
                return bytes(module.as_serialized_hlo_module_proto())
            except Exception as error:  # whatever XLA raises
                text = f"{kind} that XLA does not take: {' '.join(str(error).split())[:200]}"
                raise DataError.of("file", "a program", text, todo) from None
    expected = "an HloModuleProto, HloProto, ModuleTuningData or TuningData"
    raise DataError.of("file", expected, kind, f"install JAX, through which it is read; or {todo}")


def read_bytes(
    data: Bytes,
    name: str = "graph",
    max_bytes: int = DEFAULT_MAX_BYTES,
    padding: int = 0,
    extra: bool = False,
) -> Any:
    """Read HLO from memory, for example from JAX, in the form that files have.

    Parameters
    ----------
    data : bytes, or anything else that holds bytes in a row
        Read in place; the result does not refer to it.
    name : str
        Name of the graph; with several kernels, the prefix of their names.
    max_bytes, padding, extra
        As in :func:`read`, with the same errors and warnings.

    Returns
    -------
    graph or list of graphs
        As `read` returns.

    Raises
    ------
    DataError, ConfigError
        As `read`.

    Notes
    -----
    ``jax.jit(f).lower(x).compiler_ir("hlo").as_serialized_hlo_module_proto()`` gives such bytes.
    """
    try:
        return _graphs(memoryview(data), name, None, padding, extra, max_bytes, stacklevel=3)
    except DataError as error:
        raise with_graph(error, name) from None


def node_names(source: str | os.PathLike[str] | Bytes) -> Any:
    """Read the names of the instructions, and of the operations of the program they come from.

    Parameters
    ----------
    source : path, or bytes
        A file, or its content.

    Returns
    -------
    names, op_names : list of str
        In the order of the nodes; ``op_name`` of the metadata is ``"jit(f)/jit(main)/add"``, for example, and
        ``""`` where an instruction has none. For a ``TuningData``: a list with such a pair for every kernel.

    Raises
    ------
    DataError
        As by :func:`read`.
    """
    if isinstance(source, (str, os.PathLike)):
        path = absolute(source)
        with naming(path):
            message, programs = _core.hlo_names(path)
    else:
        message, programs = _core.hlo_names(memoryview(source))
    return programs if message == "TuningData" else programs[0]


def fusions(data: Bytes, name: str = "graph", max_bytes: int = DEFAULT_MAX_BYTES) -> list[Any]:
    """Read the fused computations of an optimised program, each with its callees, as graphs.

    Parameters
    ----------
    data : bytes, or anything else that holds bytes in a row
        An ``xla.HloModuleProto`` after all passes.
    name : str
        Of the program; a graph is called ``name.fusion``.
    max_bytes : int
        As in :func:`read`.

    Returns
    -------
    list of LayoutGraph
        Without configs, in the order of the program.

    Raises
    ------
    DataError
        As by :func:`read`.
    """
    try:
        _, (programs,) = _core.hlo_fusions(memoryview(data), max_bytes)
    except DataError as error:
        raise with_graph(error, name) from None
    return [_graph(None, f"{name}.{program['name']}", program) for program in programs]


def _graphs(
    source: Any, name: str, path: str | None, padding: int, extra: bool, max_bytes: int, stacklevel: int
) -> Any:
    """Make the graphs that `read` returns."""
    check_choice("padding", padding, (0, -1))
    message, programs = _core.hlo_read(source, padding, extra, True, max_bytes)
    names = [name]
    if message == "TuningData":
        kernels = [re.sub(r"[^\w.+-]", "_", program["name"])[:100] for program in programs]
        names = [f"{name}.{i:02d}.{kernel}" for i, kernel in enumerate(kernels)]  # names of packs, too
    for title, program in zip(names, programs, strict=True):
        if program["unusable"] is not None:
            runs = f"{counted(program['runs'], 'run')} {plural(program['runs'], 'is', 'are')}"
            where = title if path is None else f"{path}: {title}"
            text = f"{where}: its {runs} left out: {program['unusable']}"
            warnings.warn(text, stacklevel=stacklevel)
    graphs = [_graph(path, title, program) for title, program in zip(names, programs, strict=True)]
    return graphs if message == "TuningData" else graphs[0]


def _graph(path: str | None, name: str, program: dict[str, Any]) -> Graph:
    """Make the graph of a program, of any schema if it has extra columns."""
    for array in program.values():
        if isinstance(array, np.ndarray):
            array.flags.writeable = False  # so the graph need not copy it
    origin: dict[str, Any] = {"name": name, "collection": collection_of(path or ""), "path": path}
    cls = TileGraph if "config_feat" in program else LayoutGraph
    given = {field: program[field] for field in (*cls._SAVED, *cls._UNSAVED)}
    if "extra" in program:
        extended = np.concatenate([program["node_feat"], program["extra"]], 1)
        given |= {"node_feat": extended, "runtime": program["config_runtime"]}
        own = {field: array for field, array in given.items() if field in Graph._SAVED}
        return Graph(**own, schema=EXTRA_LAYOUT if cls is LayoutGraph else _EXTRA_TILE, **origin)
    if (digits := given.get("node_config_feat")) is not None:  # checked by the core
        given["node_config_feat"] = _core.Digits(digits.shape, digits)
    return cls(**given, **origin)


# Names of the third place, in alphabetical order, then those of operands.
_EXTRA = """
    collapsed_slice_dims_[3] gather_slice_sizes_[5] has_dynamic_com index_vector_dim indices_are_sorted
    is_root_of_com lhs_batch_dimensions_[3] lhs_contracting_dimensions_[3] offset_dims_[3]
    rhs_batch_dimensions_[3] rhs_contracting_dimensions_[3] start_index_map_[3]
    operand_0_shape_dimension_[6 sum product] operand_1_shape_dimension_[6 sum product]
"""
# One opcode more than in embeddings: every opcode that the reader knows can occur.
EXTRA_LAYOUT, _EXTRA_TILE = (
    replace(schema, node=(*schema.node, *map(Column, spelled(_EXTRA))), opcodes=_core.SCHEMA["opcodes"] + 1)
    for schema in (LAYOUT, TILE)
)


formats.READERS |= dict.fromkeys((SUFFIX, *_TEXTS), read)
