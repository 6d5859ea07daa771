"""Graphs out of protocol buffers of HLO (``.pb``): any program of XLA, with its measurements if it has any.

A file holds one of four messages, which is recognised by what is in it: ``xla.HloModuleProto`` (as JAX's
``lowered.compiler_ir("hlo").as_serialized_hlo_module_proto()`` gives it), ``xla.HloProto`` (as
``--xla_dump_hlo_as_proto`` writes it), ``tpu_graphs.ModuleTuningData`` or ``tpu_graphs.TuningData``.
Features, opcodes, edges and configs are those of the extractor of TpuGraphs, bit for bit. It aborts where a
computation is called twice by one instruction; here that is one edge.
"""

from __future__ import annotations

import re
import warnings
from typing import Any

from tpugraphs import _core
from tpugraphs.data import formats
from tpugraphs.data.arrays import naming
from tpugraphs.data.collections import file_stem
from tpugraphs.data.digits import Digits
from tpugraphs.data.published import LayoutGraph, TileGraph
from tpugraphs.errors import ConfigError
from tpugraphs.names import collection_of

__all__ = ["SUFFIX", "read"]

SUFFIX = ".pb"


def read(path: str, max_bytes: int, padding: int = 0) -> Any:
    """Read a file of HLO: one graph, or a list of them from a ``TuningData``.

    Parameters
    ----------
    path : str
    max_bytes : int
        Refuse a file whose arrays would take more memory than this.
    padding : {0, -1}
        What fills the columns 31-36, 95-98, 101-104 and 134-139 of `node_feat` behind lists that are shorter:
        0 as in the published files, or -1. The features show which one it was, so saved files record it
        (:mod:`tpugraphs.preprocess.padding`), and rankers refuse the other one where it matters to them.

    Raises
    ------
    DataError
        The file is none of the four messages or damaged, naming computation, instruction and byte.
    ConfigError
        Another padding.

    Warns
    -----
    UserWarning
        When all runs of a program are left out, as the extractor does: if none without error is marked as the
        default, if there is only one with tile sizes, or if one of these has none.
    """
    if padding not in (0, -1) or isinstance(padding, bool):
        raise ConfigError(f"padding: expected 0 or -1, found {padding!r}")
    with naming(path):
        message, programs = _core.hlo_read(path, padding, False, True, max_bytes)
    stem = file_stem(path)
    if message != "TuningData":
        return _graph(path, stem, programs[0])
    names = [re.sub(r"[^\w.+-]", "_", program["name"])[:100] for program in programs]  # also names of files
    return [_graph(path, f"{stem}.{i:02d}.{names[i]}", program) for i, program in enumerate(programs)]


def _graph(path: str, name: str, program: dict[str, Any]) -> LayoutGraph | TileGraph:
    """Make the graph of a program; the core has checked the arrays, so that is not done again."""
    if program["unusable"] is not None:
        text = f"{path}: {name}: its {program['runs']} runs are left out: {program['unusable']}"
        warnings.warn(text, stacklevel=5)
    fields = {
        field: _frozen(program[field])
        for field in ("node_feat", "node_opcode", "edge_index", "config_runtime")
    }
    fields["node_splits"] = _frozen(program["node_splits"].reshape(1, -1))
    fields.update(name=name, collection=collection_of(path), path=path)
    kind: type[LayoutGraph | TileGraph] = LayoutGraph
    if "config_feat" in program:
        kind = TileGraph
        for field in ("config_feat", "config_runtime_normalizers"):
            fields[field] = _frozen(program[field])
    else:
        digits = _frozen(program["node_config_feat"])
        fields.update(
            node_config_ids=_frozen(program["node_config_ids"]), _digits=Digits(digits.shape, digits)
        )
    graph = object.__new__(kind)
    graph._set(**fields)
    return graph


def _frozen(array: Any) -> Any:
    array.flags.writeable = False
    return array.view()


formats.READERS[SUFFIX] = read
