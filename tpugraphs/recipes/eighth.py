"""The eighth place: gradient-boosted trees over one row of numbers per config.

The graph has no model. For a kernel (tile) a row holds count, mean, maximum, standard deviation and last
value of each node feature, then the numbers of the config. For a program (layout) a row holds only the digits
of the config, node by node. Digits can be compared only between programs of the same structure, so trees are
learnt per size of a program, (nodes, configurable nodes), and a program is ranked by the trees of the nearest
size. The idea works because test programs often have a twin among the training programs that differs in its
batch size alone.

Runtimes are scaled to 0..1 per graph and learnt with cross-entropy, for a fixed number of trees.

Written from the write-up, not compared with the authors' code. Two things differ from what was published.
Columns that the nearest program lacks are left out instead of raising an error. With a validation set the fit
may keep fewer trees.
"""

import numpy as np
from numpy.typing import NDArray

from tpugraphs import _core
from tpugraphs.data.graph import Graph
from tpugraphs.recipes.base import Recipe, TableFields, kaggle, option


class EighthFields(TableFields):
    """Fields of ``eighth-lightgbm``."""

    objective: str = option("cross_entropy", choices=("cross_entropy", "l2", "l1", "huber"), doc="tree loss")
    num_leaves: int = option(63, 2, 100_000, doc="leaves of a tree, at most")
    min_data_in_leaf: int = option(20, 1, 10**6, doc="configs in a leaf, at least")
    configs: int = 100_000
    feature_fraction: float = option(1.0, 0.01, 1.0, doc="share of the columns that a tree may use")
    bagging_fraction: float = option(1.0, 0.01, 1.0, doc="share of the configs that a tree is learnt from")


def features(fields: EighthFields, graph: Graph, rows: NDArray[np.int64]) -> NDArray[np.float32]:
    """Return one row per config (n, F): its digits, or its numbers after statistics of the nodes.

    Parameters
    ----------
    rows : (n,) int64
        Which configs.
    """
    own = None if graph.config_feat is None else np.asarray(graph.config_feat, np.float32)[rows]
    whole = getattr(graph, "graph_feat", None)
    return _core.config_table(np.asarray(graph.node_feat), whole, own, graph.digits_of(rows))


RECIPES = (
    Recipe(
        name="eighth-lightgbm",
        summary="Boosted trees over one row of numbers per config; training needs the extra [lightgbm].",
        options=EighthFields,
        presets={"cpu": {}, "full": {"steps": 1000}},
        estimator="trees",
        features=features,
        source=kaggle("eighth"),
        kind="any",
    ),
)
