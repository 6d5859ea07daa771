"""Layout and tile graphs under one schema, so that one ranker learns from both."""

from __future__ import annotations

import numpy as np

from tpugraphs.data.extra import any_fields
from tpugraphs.data.graph import Graph
from tpugraphs.data.published import LayoutGraph, TileGraph
from tpugraphs.data.schema import LAYOUT, TILE, Column, Schema
from tpugraphs.errors import ConfigError

JOINT = Schema(
    node=LAYOUT.node,
    config=(*TILE.config, Column("is_tile", "flag")),
    digits=LAYOUT.digits,
    opcodes=LAYOUT.opcodes,
)
"""Columns of :func:`as_joint`: node features and digits of layouts, the 24 tile numbers, and the kind."""


def as_joint(graph: LayoutGraph | TileGraph) -> Graph:
    """Convert a layout or tile graph to :data:`JOINT`, for recipes of any schema such as graph-config.

    The fifth place trained one model on all collections. Features that a kind of graph lacks are 0: a layout
    graph has no tile numbers, and no node of a tile graph is configurable. Runtimes are in nanoseconds for
    layout graphs, and divided by their normalizers for tile graphs; only their order within a graph means the
    same in both. An unmeasured graph keeps its zeros.

    Parameters
    ----------
    graph : LayoutGraph or TileGraph

    Returns
    -------
    Graph

    Raises
    ------
    ConfigError
        Another kind of graph.

    Examples
    --------
    >>> import numpy as np
    >>> import tpugraphs as tg
    >>> kernel = tg.TileGraph(
    ...     node_feat=np.zeros((2, 140)), node_opcode=[1, 2], edge_index=[[1, 0]],
    ...     config_feat=np.ones((3, 24)), config_runtime=[3, 2, 5], config_runtime_normalizers=[1, 1, 1],
    ... )
    >>> tg.data.as_joint(kernel)
    Graph('graph', nodes=2, edges=1, configs=3, config_nodes=0)
    """
    if not isinstance(graph, (LayoutGraph, TileGraph)):
        raise ConfigError(f"as_joint: expected a layout or tile graph, got {type(graph).__name__}")
    fields = any_fields(graph) | {"runtime": graph.relative_runtime}
    configs = np.zeros((graph.num_configs, len(JOINT.config)), np.float32)
    if graph.config_feat is not None:
        configs[:, :-1], configs[:, -1] = graph.config_feat, 1
        nowhere = np.zeros((graph.num_configs, 0, len(JOINT.digits)), np.int8)
        fields |= {"node_config_ids": np.zeros(0, np.int64), "node_config_feat": nowhere}
    return Graph(**fields | {"config_feat": configs}, schema=JOINT)
