"""Graphs as `torch_geometric.data.Data`, and back."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from tpugraphs.data import Graph, Rows
from tpugraphs.data.published import CLASSES
from tpugraphs.data.schema import read_schema, write_schema
from tpugraphs.errors import ConfigError, DataError, check_graph
from tpugraphs.torch.bridge import DOUBLE, SINGLE, as_array

_SAME = (
    *("node_opcode", "edge_index", "node_splits", "graph_feat", "config_feat"),
    *("runtime", "config_runtime_normalizers", "valid", "repeats"),
)
# Arguments of graphs -> names of their arrays in a Data. Arrays with "index" in their name hold node numbers,
# which a Batch of several graphs offsets.
_FIELDS = {
    **{name: name for name in _SAME},
    **{"node_feat": "x", "node_config_ids": "config_node_index", "node_config_feat": "digits"},
    "config_runtime": "runtime",
}
# Shapes in a Data, the first two axes swapped.
_SWAPPED = {"edge_index": "(2, E)", "node_config_feat": "(K, C, D)"}
_TEXTS = ("name", "collection")


def _data_class() -> Any:
    """Import the class `Data` of PyTorch Geometric."""
    try:
        from torch_geometric.data import Data
    except ImportError as error:
        text = "to_pyg and from_pyg need PyTorch Geometric: pip install 'tpugraphs[pyg]'"
        raise ImportError(text, name=error.name) from None
    return Data


def to_pyg(graph: Graph, configs: Rows | None = None) -> Any:
    """Make a `torch_geometric.data.Data` of a graph (Fey and Lenssen, 2019); extra ``[pyg]``.

    All tensors are copies: graphs are read-only, tensors are not.

    Parameters
    ----------
    graph : Graph
    configs : slice, bool (C,) or int (n,), optional
        Only these configs, as for :meth:`tpugraphs.Graph.select`. From a pack only these are read.

    Returns
    -------
    torch_geometric.data.Data
        ``x`` (N, F) float32, ``edge_index`` (2, E) int64, ``runtime`` (C,) int64 or float64 in the graph's
        unit, ``num_configs`` C; where the graph has them ``node_opcode`` (N,) int64, ``graph_feat`` (1, G)
        float32, ``config_feat`` (C, T) float32, ``config_node_index`` (K,) int64 with ``digits`` (K, C, D)
        int8 from -1 on, ``valid`` (C,) bool, ``repeats`` (C, R) float64 of R rounds, ``node_splits`` (S,)
        int64 and ``config_runtime_normalizers`` (C,) int64; ``name``, ``collection`` and ``kind``, which are
        text; ``schema`` (B,) uint8, the bytes of JSON.

    Raises
    ------
    ConfigError
        `graph` is not a graph.
    DataError
        Rows that the graph does not have.
    ImportError
        PyTorch Geometric is not installed.

    Notes
    -----
    A `torch_geometric.data.Batch` joins nodes, edges and configs of several graphs, and numbers the nodes of
    ``edge_index`` and ``config_node_index`` accordingly. Graphs with digits then need equally many configs.
    The runtime of a config that failed is NaN, or 0 among whole numbers: ``to_pyg(graph, graph.ran)`` leaves
    these configs out. For a loss the configs of a graph are a list; its ``offsets`` are
    ``torch.cat([torch.zeros(1, dtype=torch.int64), batch.num_configs.cumsum(0)])``.

    Edges are as published: the node in row 0 uses the output of the one in row 1, so messages of PyG's layers
    flow from users to operands. ``data.edge_index.flip(0)`` reverses them.
    """
    data_class = _data_class()
    check_graph("to_pyg", graph)
    if configs is not None:
        graph = graph.select(configs)
    tensors: dict[str, Any] = {}
    for field, value in graph.fields().items():
        if field not in _FIELDS or value is None:
            continue
        array = np.array(graph.config_digits if field == "node_config_feat" else value)
        if field in _SWAPPED:
            array = np.ascontiguousarray(array.swapaxes(0, 1))
        elif field == "node_opcode":
            array = array.astype(np.int64)
        elif field == "graph_feat":
            array = array[None]
        elif field == "node_splits":
            array = array.reshape(-1)
        tensors[_FIELDS[field]] = torch.from_numpy(array)
    texts = {text: value for text in _TEXTS if (value := getattr(graph, text)) is not None}
    schema = torch.from_numpy(_padded(write_schema(graph.schema, graph.about), graph))
    return data_class(**tensors, **texts, num_configs=graph.num_configs, kind=graph.kind, schema=schema)


def _padded(text: NDArray[np.uint8], graph: Graph) -> NDArray[np.uint8]:
    """Return the text padded with spaces, so that PyG does not take it for rows of nodes or edges."""
    spaces = next(n for n in range(3) if len(text) + n not in (graph.num_nodes, graph.num_edges))
    return np.append(text, np.full(spaces, ord(" "), np.uint8))


def _array(name: str, value: Any) -> Any:
    return as_array(name, value, SINGLE + DOUBLE) if isinstance(value, torch.Tensor) else value


def _ours(field: str, name: str, array: NDArray[Any]) -> NDArray[Any]:
    """Return an array of a Data in the shape that graphs have."""
    if shape := _SWAPPED.get(field):
        if array.ndim != shape.count(",") + 1 or (field == "edge_index" and len(array) != 2):
            turned = array.shape[1:] == (2,)
            does = "transpose it: edge_index.T" if turned else "bring it into PyG's order first"
            raise DataError.of(name, f"shape {shape}", f"shape {array.shape}", does)
        return array.swapaxes(0, 1)
    return array[0] if field == "graph_feat" and array.ndim == 2 and len(array) == 1 else array


def from_pyg(data: Any, **fields: Any) -> Graph:
    """Make a graph from a `torch_geometric.data.Data`, of :func:`to_pyg` or any other; extra ``[pyg]``.

    Arrays are copied. Float features are rounded to float32; everything is checked.

    Parameters
    ----------
    data : torch_geometric.data.Data
        Fields with the names of :func:`to_pyg` are read; others are ignored. Without ``kind`` the result is a
        :class:`Graph` of any schema.
    **fields
        Arguments of the graph's class, tensors or arrays, that replace fields of `data`: ``from_pyg(data,
        runtime=data.y)``. ``edge_index`` is also (2, E) here, all others have the shapes of the class.

    Returns
    -------
    Graph, LayoutGraph or TileGraph

    Raises
    ------
    ConfigError
        `data` is not a Data, or a batch of several; a tensor on another device; an unknown ``kind``.
    DataError
        A tensor that the graph needs is missing or is no tensor; the message names it.
    ImportError
        PyTorch Geometric is not installed.
    """
    if not isinstance(data, _data_class()):
        found = type(data).__name__
        raise ConfigError(f"from_pyg: expected a torch_geometric.data.Data, found {found}; make one of it")
    if hasattr(data, "num_graphs"):
        text = f"from_pyg: expected one graph, found a batch of {data.num_graphs}"
        raise ConfigError(f"{text}; use data.to_data_list()")
    kind = data["kind"] if "kind" in data else Graph.kind
    if kind not in tuple(CLASSES):  # compared, not looked up: it may be anything, even the list of a batch
        raise ConfigError(f"from_pyg: kind: expected {', '.join(CLASSES)}, found {kind!r}; leave it out")
    skipped = "config_runtime" if kind == Graph.kind else "runtime"  # not a name in the class
    given: dict[str, Any] = {text: data[text] for text in _TEXTS if text in data}
    for field, name in _FIELDS.items():
        if field != skipped and name in data and data[name] is not None:
            given[field] = _ours(field, name, np.asarray(_array(name, data[name])))
    if kind == Graph.kind and "schema" in data:
        text = data["schema"]
        if isinstance(text, str):  # from earlier versions
            text = torch.tensor(list(text.encode()), dtype=torch.uint8)
        if not isinstance(text, torch.Tensor):
            raise DataError.of("schema", "what to_pyg wrote", type(text).__name__, "leave it out")
        given["schema"], given["about"] = read_schema(np.asarray(_array("schema", text)))
    given |= {name: _array(name, value) for name, value in fields.items()}
    if "edge_index" in fields:
        given["edge_index"] = _ours("edge_index", "edge_index", np.asarray(given["edge_index"]))
    for field, parameter in inspect.signature(CLASSES[kind]).parameters.items():
        if parameter.default is parameter.empty and field not in given:
            name = _FIELDS.get(field, field)
            raise DataError.of(name, f"one, as kind is {kind!r}", "none", f"add it, or pass {field}=")
    return CLASSES[kind](**given)
