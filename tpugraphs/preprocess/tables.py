"""Tables of numbers about layouts, one row per config, for learners that do not take graphs."""

from __future__ import annotations

import weakref

import numpy as np
from numpy.typing import NDArray

from tpugraphs import _core
from tpugraphs.data.graph import Graph
from tpugraphs.errors import ConfigError
from tpugraphs.system import check_whole

_KINDS = ("convolution", "dot", "reshape")  # the opcodes that can be configured
_SIZES = 14  # bins of sizes: 0, 1, 2..3, 4..7, ...; the last has everything from 4096 on
_ROWS = 2048  # configs that are worked on at a time
_rates: weakref.WeakKeyDictionary[Graph, NDArray[np.float32]] = weakref.WeakKeyDictionary()


def layout_table_names(bins: int = 32, occurrence: bool = False) -> list[str]:
    """Return the names of the columns of `layout_table`.

    Parameters
    ----------
    bins, occurrence
        As in `layout_table`.

    Returns
    -------
    list of str
        F names.
    """
    check_whole("bins", bins, 1)
    names = [f"{kind} {b}" for kind in _KINDS for b in range(bins)]
    names += ["copies of neighbours", "size of them", "copies along paths", "size of them along paths"]
    names += [f"{which} dimension {b}" for which in ("minor", "second minor") for b in range(_SIZES)]
    names += ["padding", "padded share"]
    return names + ["mean log rate", "mean rate", "least rate"] * occurrence


def layout_table(
    graph: Graph, rows: NDArray[np.int64], bins: int = 32, occurrence: bool = False
) -> NDArray[np.float32]:
    """Return numbers about the layouts of some configs (n, F), with the same meaning in every graph.

    The features of the eleventh place of the Kaggle competition, as far as its write-up describes them.
    Details that it leaves open are chosen here:

    - How often each type of configurable node occurs, `bins` columns for each opcode. A type is the shape of
      a node with its config (of a convolution also the numbers of its dimensions), by a hash modulo `bins`.
      The published features lack the dimensions of a dot.
    - Implied copies: pairs of configurable nodes (u, v), u consuming the output of v, where the layout of
      v's output is given and is neither that of u's input nor of u's kernel, one of which is given. Their
      number, and ln(1 + x) of the elements of all these outputs; of neighbours, and of nodes joined by a path
      past other nodes (the pruning method ``"meta"``).
    - How many configurable nodes have a minor and a second minor dimension of a size, in powers of two.
    - Padding of the outputs, if the minor dimension is padded to 128 and the next to 8: ln(1 + x) of the
      elements that are added, and their share of all.
    - With `occurrence`: the share of the graph's configs in which a node has its layouts, over the
      configurable nodes. If a search made the configs, the layouts that it often tried are fast.

    A layout that a config leaves to the compiler counts as that in the node features.

    Parameters
    ----------
    graph : Graph
        With the node features and digits of the published layouts.
    rows : (n,) int64
        Which configs.
    bins : int
    occurrence : bool

    Returns
    -------
    (n, F) float32
        `layout_table_names` names its columns.

    Raises
    ------
    ConfigError
        A graph of another kind, or ``bins < 1``.
    """
    nodes = graph.node_config_ids
    features = _core.SCHEMA["node_features"]
    if nodes is None or graph.node_feat.shape[1] != features or graph.config_feat is not None:
        raise ConfigError(f"layout_table: expected a layout graph of {features} features, got {graph.name!r}")
    check_whole("bins", bins, 1)
    program = (graph.node_feat, graph.node_opcode, graph.edge_index, nodes)
    parts = (graph.digits_of(rows[i : i + _ROWS]) for i in range(0, max(len(rows), 1), _ROWS))
    table = np.concatenate([_core.layout_table(*program, digits, bins) for digits in parts])
    return np.hstack([table, _occurrence(graph)[rows]]) if occurrence else table


def _occurrence(graph: Graph) -> NDArray[np.float32]:
    """Return mean ln, mean and least rate (C, 3) of the layouts of the nodes; kept as long as the graph."""
    if graph not in _rates:
        stored = graph._digits.stored()  # as digits, or as codes and their table
        _rates[graph] = _core.layout_rates(stored[0] if isinstance(stored, tuple) else stored)
    return _rates[graph]
