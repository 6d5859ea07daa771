"""How the lists in the node features of a graph are padded: with 0, as published, or with -1.

Columns 31-36 (``dimensions``), 95-98 and 101-104 (spatial dimensions of convolutions) hold lists of dimension
numbers. Published files pad them with 0, which also is a dimension; the first place of the Kaggle competition
wrote all features again from the protobuf files, padded with -1. Features of one kind mean nothing to weights
that were trained on the other. Columns 134-139, the layout, have the same flaw, but a node's rank says where
their padding begins: see :func:`tpugraphs.preprocess.fix_padding`. The step ``layout-digits`` pads them with
-1, or leaves them as they are (``padding: 0``). The step ``node-padding`` refuses graphs of the other kind.
"""

from __future__ import annotations

from tpugraphs import _core
from tpugraphs.data.graph import Graph

__all__ = ["COLUMNS", "padding_of"]

#: Columns of the node features that hold lists, which files pad with 0 or -1.
COLUMNS = (*range(31, 37), *range(95, 99), *range(101, 105))


def padding_of(graph: Graph) -> int:
    """Return the number that pads the lists of a graph, -1 or 0.

    Every graph has a node whose list is shorter than its columns, so a single -1 shows the padding.

    Parameters
    ----------
    graph : LayoutGraph or TileGraph
        With node features of the published schema.

    Returns
    -------
    int
        -1 or 0.
    """
    return _core.list_padding(graph.node_feat)
