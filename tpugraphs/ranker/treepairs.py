"""Boosted trees that compare two configs, for recipes with ``estimator="tree-pairs"``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tpugraphs import kernels
from tpugraphs.data.graph import Graph
from tpugraphs.kernels.streams import Stream
from tpugraphs.ranker.trees import Part, TreeEstimator, Trees
from tpugraphs.system import tensorfile
from tpugraphs.system.progress import Progress

__all__ = ["TreePairEstimator"]

_ROWS = 1 << 12  # configs that are scored at a time


class TreePairEstimator(TreeEstimator):
    """Learn trees that say which of two configs of a graph is slower.

    A row is the features of one config and their difference to those of another (eleventh place of the Kaggle
    competition). The score of a config is the mean chance that it is slower than the configs of a fixed
    sample of its graph. All graphs share the trees. There are no queries and no graded labels, so LightGBM's
    limits of these do not apply.

    Parameters
    ----------
    recipe : Recipe
        Its `features` make the table; its fields also have `pairs` and `references`.
    fields, seed, precision
        See :class:`tpugraphs.ranker.trees.TreeEstimator`.
    """

    def _size(self, graph: Graph) -> tuple[int, int]:
        return 0, 0

    def _options(self) -> dict[str, Any]:
        return super()._options() | {"objective": "binary", "metric": "binary"}

    def _learnt(
        self, features: NDArray[np.float32], times: NDArray[Any], weights: NDArray[np.float32], number: int
    ) -> Part:
        """Random pairs of configs with different runtimes: [one | one - other], and whether one is slower."""
        n = times.size
        ones, others = [], []
        for k in range(self.fields.pairs):
            order = kernels.sample_without_replacement(n, n, (self.seed, Stream.TREES, number, k))
            other = np.roll(order, 1)  # a random circle: no config meets itself
            differ = times[order] != times[other]
            ones.append(order[differ])
            others.append(other[differ])
        i, j = np.concatenate(ones), np.concatenate(others)
        slower = (times[i] > times[j]).astype(np.float64)
        return _paired(features[i], features[j]), slower, np.sqrt(weights[i] * weights[j])

    def _scores(
        self, graph: Graph, rows: NDArray[np.int64], progress: Progress | None = None
    ) -> NDArray[np.float32]:
        tree = self._nearest((0, 0))
        count = min(graph.num_configs, self.fields.references)
        key = (self.seed, Stream.TREES, 1 << 40)
        sample = kernels.sample_without_replacement(graph.num_configs, count, key, order="sorted")
        others = self._table(graph, sample)
        scores = np.empty(rows.size, np.float32)
        for start in range(0, rows.size, _ROWS):
            part = self._table(graph, rows[start : start + _ROWS])
            self._check_width(graph, tree, 2 * part.shape[1])
            scores[start : start + _ROWS] = tree.forest.against(part, others, self._rounds)
            if progress is not None:
                progress.update(len(part))
        return scores

    def _gains(self, tree: Trees, columns: int, digits: int) -> NDArray[Any]:
        """Return gains by column of the recipe's table: of its number and of the difference, together."""
        F = tree.width // 2
        return np.bincount(tree.columns % F, tree.forest.gains(self._rounds), F)

    def _tree(self, path: str, i: int, one: Any, tensors: Mapping[str, NDArray[Any]]) -> Trees:
        tree = super()._tree(path, i, one, tensors)
        if not tree.forest.binary or tree.width % 2:
            raise tensorfile.fail(path, f"boosters[{i}].objective", "binary, of pairs", "another")
        return tree


def _paired(one: NDArray[np.float32], other: NDArray[np.float32]) -> NDArray[np.float32]:
    """Make the rows [one | one - other] (n, 2F)."""
    return np.hstack([one, one - other])
