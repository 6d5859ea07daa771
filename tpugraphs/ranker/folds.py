"""Folds: graphs or configs to train on, to validate on, and to judge on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, overload

import numpy as np

from tpugraphs import kernels
from tpugraphs.data.graph import Graph, Graphs
from tpugraphs.data.splits import family, split_configs
from tpugraphs.errors import ConfigError, not_a_graph
from tpugraphs.kernels.streams import Stream
from tpugraphs.system.arguments import check_whole
from tpugraphs.system.words import counted
from tpugraphs.training.trainset import GraphSequence, as_graphs

__all__ = ["Fold", "Part", "unseen_configs", "unseen_graphs"]


@dataclass(frozen=True)
class Fold:
    """One split of graphs.

    Attributes
    ----------
    name : str
    train, valid, unseen : sequence of graphs
        To learn from, to choose parameters by (may be empty), and to judge on.
    places : sequence of int
        Positions of the unseen graphs in the sequence that was split, if whole graphs were split.
    """

    name: str
    train: Sequence[Graph]
    valid: Sequence[Graph]
    unseen: Sequence[Graph]
    places: Sequence[int] = ()


def unseen_configs(
    graphs: Graphs,
    fractions: Sequence[float] = (0.82, 0.03, 0.15),
    *,
    folds: int = 1,
    subset: int | None = None,
    seed: int = 0,
) -> list[Fold]:
    """Split the configs of every graph, to judge unseen configs of known graphs.

    Parameters
    ----------
    graphs : graph or sequence of graphs
    fractions : three floats
        Shares of the configs to learn from, to choose by and to judge on; see
        :func:`tpugraphs.training.split_configs`.
    folds : int
        Number of independent random splits.
    subset : int, optional
        Judge unseen configs in fixed random subsets of this size, without the remainder. So all scorers that
        look across configs see the same configs together.
    seed : int
        Seed of the first split.

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
    if not isinstance(fractions, Iterable) or len(list(fractions)) != 3:
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
    """Split rows into disjoint random subsets of `size`; all rows together if there are no more."""
    if size is None or rows.size <= check_whole("subset", size, 2):
        return [rows]
    drawn = kernels.sample_without_replacement(rows.size, rows.size, (seed, Stream.SPLIT, 1))
    return [np.sort(rows[drawn[at : at + size]]) for at in range(0, rows.size - size + 1, size)]


def unseen_graphs(
    graphs: Graphs,
    groups: Sequence[Hashable] | str | Callable[[Graph], Hashable] | None = None,
    *,
    folds: int | None = None,
    least: int = 0,
    seed: int = 0,
) -> list[Fold]:
    """Split the graphs, to judge graphs that were not trained on.

    Parameters
    ----------
    graphs : sequence of graphs
    groups : sequence, "family" or callable, optional
        A label for every graph: graphs with the same label stay together. ``"family"``: see
        :func:`tpugraphs.data.family`; a callable: ``groups(graph)``. By default each graph is a group.
    folds : int, optional
        Number of folds of nearly equal size, filled with groups at random; by default one fold per group.
    least : int
        Graphs with fewer configs are only learnt from, not judged. A fold without other graphs is left out.
    seed : int
        Of the folds.

    Returns
    -------
    list of Fold
        Without graphs to choose by: a fit keeps its last parameters.

    Raises
    ------
    ConfigError
        Not one label per graph, labels that cannot be hashed, fewer than two labels, more folds than labels,
        or no graph with `least` configs.
    """
    check_whole("least", least, 0)
    sequence = as_graphs("graphs", graphs)
    labels = _labels(sequence, groups)
    if wrong := [label for label in labels if not isinstance(label, Hashable)]:
        raise ConfigError(f"groups: expected labels such as numbers, texts or tuples, got {wrong[0]!r:.60}")
    if len(set(labels)) < 2:
        raise ConfigError(
            "graphs: expected at least two graphs (or groups), to learn from one and rank another"
        )
    of = _dealt(labels, check_whole("folds", folds, 2), seed) if folds is not None else labels
    made = []
    for number, fold in enumerate(dict.fromkeys(of)):
        seen = [i for i, other in enumerate(of) if other != fold]
        unseen = [i for i, other in enumerate(of) if other == fold]
        unseen = [i for i in unseen if least == 0 or sequence[i].num_configs >= least]
        if not unseen:
            continue
        train: Sequence[Graph] = Part(sequence, seen)
        if isinstance(graphs, (list, tuple)):
            train = list(train)  # then a fit can hold out a share of the configs
        made.append(Fold(f"fold {number}", train, (), Part(sequence, unseen), unseen))
    if not made:
        raise ConfigError(f"least: no graph has {counted(least, 'config')}")
    return made


def _labels(graphs: GraphSequence, groups: Any) -> list[Hashable]:
    if groups is None:
        return list(range(len(graphs)))
    if groups == "family" or callable(groups):
        label = groups if callable(groups) else family
        return [label(graph) for graph in Part(graphs, range(len(graphs)))]
    if isinstance(groups, str):
        raise ConfigError(f"group: expected 'family', a function of a graph, or labels, got {groups!r}")
    labels = list(groups) if isinstance(groups, Iterable) else [groups]
    if len(labels) != len(graphs):
        raise ConfigError(f"groups: expected one label per graph ({len(graphs)}), got {len(labels)}")
    return labels


def _dealt(labels: Sequence[Hashable], count: int, seed: int) -> list[int]:
    """Return the fold of every graph: groups, largest first, go to the fold with the fewest graphs."""
    sizes = Counter(labels)
    if len(sizes) < count:
        raise ConfigError(f"folds: expected at most {len(sizes)}, one per graph or group, got {count}")
    names = list(sizes)
    turn = kernels.sample_without_replacement(len(names), len(names), (seed, Stream.FOLDS))
    filled, of = [0] * count, dict[Hashable, int]()
    for name in sorted((names[i] for i in turn), key=lambda name: -sizes[name]):
        of[name] = min(range(count), key=filled.__getitem__)
        filled[of[name]] += sizes[name]
    return [of[name] for name in labels]


class Part(Sequence[Graph]):
    """Part of a sequence of graphs; a graph is read when it is indexed. A slice is a part, too."""

    def __init__(self, graphs: GraphSequence, chosen: Sequence[int]) -> None:
        self.graphs, self.chosen = graphs, chosen

    def __len__(self) -> int:
        return len(self.chosen)

    @overload
    def __getitem__(self, index: int) -> Graph: ...
    @overload
    def __getitem__(self, index: slice) -> Part: ...
    def __getitem__(self, index: int | slice) -> Graph | Part:
        if isinstance(index, slice):
            return Part(self.graphs, self.chosen[index])
        graph = self.graphs[self.chosen[index]]
        if not hasattr(graph, "config_runtime"):
            raise not_a_graph("graphs", graph)
        return graph
