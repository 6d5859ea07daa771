"""Folds: which graphs or configs to learn from, to choose parameters by, and to judge on."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tpugraphs import kernels
from tpugraphs.data.splits import split_configs
from tpugraphs.errors import ConfigError, not_a_graph
from tpugraphs.kernels.streams import Stream
from tpugraphs.ranker.scorer import check_whole
from tpugraphs.training.trainset import as_graphs

__all__ = ["Fold", "Part", "unseen_configs", "unseen_graphs"]


@dataclass(frozen=True)
class Fold:
    """One way to divide graphs.

    Attributes
    ----------
    name : str
    train, valid, unseen : sequence of graphs
        To learn from, to choose parameters by (may be empty), and to judge on.
    places : sequence of int
        Places of the unseen graphs among all that were divided, if whole graphs were.
    """

    name: str
    train: Sequence[Any]
    valid: Sequence[Any]
    unseen: Sequence[Any]
    places: Sequence[int] = ()


def unseen_configs(
    graphs: Any,
    fractions: Sequence[float] = (0.82, 0.03, 0.15),
    *,
    folds: int = 1,
    subset: int | None = None,
    seed: int = 0,
) -> list[Fold]:
    """Divide the configs of every graph, so that unseen configs of known graphs are judged.

    Parameters
    ----------
    graphs : graph or sequence of graphs
    fractions : three floats
        Shares of the configs to learn from, to choose by and to judge on; see
        :func:`tpugraphs.training.split_configs`.
    folds : int
        Number of divisions, each drawn anew.
    subset : int, optional
        Judge unseen configs in fixed random subsets of this many, and what is left over not at all. Scorers
        that look across configs then all see the same ones together.
    seed : int
        Seed of the first division.

    Returns
    -------
    list of Fold

    Raises
    ------
    ConfigError
        Other than three fractions, or numbers out of range.
    DataError
        A graph with too few configs.
    """
    if len(fractions) != 3:
        raise ConfigError(f"fractions: expected three, to learn, to choose and to judge, got {fractions!r}")
    sequence, made = as_graphs("graphs", graphs), []
    for number in range(seed, seed + check_whole("folds", folds, 1)):
        parts: tuple[list[Any], list[Any], list[Any]] = [], [], []
        for i in range(len(sequence)):
            graph = sequence[i]
            train, valid, unseen = split_configs(graph, fractions, number)
            parts[0].append(graph.select(train))
            parts[1].append(graph.select(valid))
            parts[2].extend(graph.select(rows) for rows in _subsets(unseen, subset, number))
        made.append(Fold(f"split {number}", *parts))
    return made


def _subsets(rows: Any, size: int | None, seed: int) -> list[Any]:
    """Disjoint random parts of `size`; all rows together if there are no more."""
    if size is None or rows.size <= check_whole("subset", size, 2):
        return [rows]
    drawn = kernels.sample_without_replacement(rows.size, rows.size, (seed, Stream.SPLIT, 1))
    return [np.sort(rows[drawn[at : at + size]]) for at in range(0, rows.size - size + 1, size)]


def unseen_graphs(
    graphs: Any, groups: Sequence[Hashable] | None = None, *, folds: int | None = None, seed: int = 0
) -> list[Fold]:
    """Divide the graphs, so that graphs are judged that were not learnt from.

    Parameters
    ----------
    graphs : sequence of graphs
    groups : sequence, optional
        A label for every graph. Graphs of one label stay together, for example programs of one architecture.
        By default every graph has a label of its own.
    folds : int, optional
        Number of folds, in which labels are dealt out at random; by default each label makes a fold.
    seed : int
        Of the random deal.

    Returns
    -------
    list of Fold
        Without graphs to choose by: a fit keeps its last parameters.

    Raises
    ------
    ConfigError
        Not one label per graph, fewer than two labels, or more folds than labels.
    """
    sequence = as_graphs("graphs", graphs)
    labels = list(range(len(sequence)) if groups is None else groups)
    if len(labels) != len(sequence):
        raise ConfigError(f"groups: expected one label per graph ({len(sequence)}), got {len(labels)}")
    kinds = list(dict.fromkeys(labels))
    if len(kinds) < 2:
        raise ConfigError(
            "graphs: expected at least two graphs (or groups), to learn from one and rank another"
        )
    if folds is not None and check_whole("folds", folds, 2) > len(kinds):
        raise ConfigError(f"folds: expected at most {len(kinds)}, one per label, got {folds}")
    fold_of = dict(zip(kinds, range(len(kinds)), strict=True))
    if folds is not None:
        order = kernels.sample_without_replacement(len(kinds), len(kinds), (seed, Stream.SPLIT, 2))
        fold_of = {kinds[kind]: place % folds for place, kind in enumerate(order)}
    made = []
    for fold in range(folds or len(kinds)):
        inside = [fold_of[label] == fold for label in labels]
        unseen = [i for i, out in enumerate(inside) if out]
        name = f"fold {fold}" if folds or groups is not None else str(sequence[unseen[0]].name)
        seen = Part(sequence, [i for i, out in enumerate(inside) if not out])
        made.append(Fold(name, seen, (), Part(sequence, unseen), unseen))
    return made


class Part(Sequence[Any]):
    """Part of a sequence of graphs; a graph is read when it is indexed."""

    def __init__(self, graphs: Any, chosen: Sequence[int]) -> None:
        self.graphs, self.chosen = graphs, chosen

    def __len__(self) -> int:
        return len(self.chosen)

    def __getitem__(self, index: Any) -> Any:
        graph = self.graphs[self.chosen[index]]
        if not hasattr(graph, "config_runtime"):
            raise not_a_graph("graphs", graph)
        return graph
