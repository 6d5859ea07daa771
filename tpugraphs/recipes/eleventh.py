"""The eleventh place: boosted trees that compare two configs, without a GPU or a network.

Every config gets a row of numbers that mean the same in every program: how often each type of
convolution, dot and reshape occurs with its layouts, how many copies its layouts imply, sizes of the
minor dimensions, padding. Trees see the row of one config and its difference from that of another, and
predict which is slower. They learn from as many random pairs as there are configs. A config's score comes
from comparing it with others.

The features follow the write-up as far as it goes; :func:`tpugraphs.preprocess.layout_table` documents the
choices where it is silent. The published solution compares every config with all others; here with at most
`references` of them, so the work grows linearly with the number of configs. In collections from a search
(``default``), frequent layouts of a node are fast ones: `occurrence`. Written from the write-up, not compared
with the authors' code.
"""

import numpy as np
from numpy.typing import NDArray

from tpugraphs.data.graph import Graph
from tpugraphs.preprocess.tables import layout_table
from tpugraphs.recipes.base import Recipe, TableFields, kaggle, option


class Eleventh(TableFields):
    """Fields of ``eleventh-lightgbm``."""

    pairs: int = option(1, 1, 1000, doc="pairs that every config is compared in, for learning")
    references: int = option(256, 1, 10**6, doc="configs that a config is compared with, at most")
    bins: int = option(32, 1, 4096, doc="columns that the types of one opcode share")
    occurrence: bool = option(False, doc="add how often nodes have their layouts")
    configs: int = 20_000
    num_leaves: int = option(63, 2, 100_000, doc="leaves of a tree, at most")
    min_data_in_leaf: int = option(20, 1, 10**6, doc="pairs in a leaf, at least")
    feature_fraction: float = option(0.8, 0.01, 1.0, doc="share of the columns that a tree may use")
    bagging_fraction: float = option(1.0, 0.01, 1.0, doc="share of the pairs that a tree is learnt from")
    target: str = option("order", choices=("order",), doc="what is learnt: which config of a pair is slower")
    objective: str = option("binary", choices=("binary",), doc="loss of a tree")


def features(fields: Eleventh, graph: Graph, rows: NDArray[np.int64]) -> NDArray[np.float32]:
    """Return one row per config (n, F)."""
    return layout_table(graph, rows, fields.bins, fields.occurrence)


RECIPES = (
    Recipe(
        name="eleventh-lightgbm",
        summary="Boosted trees that say which of two configs is slower; training needs the extra [lightgbm].",
        options=Eleventh,
        presets={"cpu": {}, "full": {"steps": 1000, "pairs": 4, "references": 1000}},
        estimator="tree-pairs",
        features=features,
        source=kaggle("eleventh"),
    ),
)
