"""Folds: graphs or configs to train on, to validate on, and to judge on; leave-out and cross-validation."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
from numpy.typing import ArrayLike

from tpugraphs import kernels
from tpugraphs.data import Graph, Graphs, family, split_configs
from tpugraphs.errors import ConfigError, DataError, check_graph
from tpugraphs.evaluation import Report, Row, evaluate
from tpugraphs.evaluation.scorer import Scorer
from tpugraphs.kernels.streams import Stream
from tpugraphs.ranker.ranker import Ranker
from tpugraphs.ranker.scorer import ScorerBase, scoring
from tpugraphs.ranker.seeds import seed_numbers
from tpugraphs.system import check_whole, counted, tracked
from tpugraphs.training.callbacks import pass_on_interrupt
from tpugraphs.training.trainset import GraphSequence, as_graphs

if TYPE_CHECKING:
    from tpugraphs.ranker.arguments import FitButShared


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
    sequence, made = Part(as_graphs("graphs", graphs)), []
    for number in range(seed, seed + check_whole("folds", folds, 1)):
        parts: tuple[list[Any], list[Any], list[Any]] = [], [], []
        for graph in sequence:
            train, valid, unseen = split_configs(graph, fractions, number)
            for part, chosen in zip(parts, ([train], [valid], _subsets(unseen, subset, number)), strict=True):
                part += [graph.select(rows) for rows in chosen]
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
        raise ConfigError("graphs: expected at least two graphs (or groups): one to learn from, one to rank")
    of = _dealt(labels, check_whole("folds", folds, 2), seed) if folds is not None else labels
    large = [i for i in range(len(sequence)) if least == 0 or sequence[i].num_configs >= least]
    if not large:
        raise ConfigError(f"least: no graph has {counted(least, 'config')}")
    made = []
    for number, fold in enumerate(dict.fromkeys(of)):
        if unseen := [i for i in large if of[i] == fold]:
            train: Sequence[Graph] = Part(sequence, [i for i, other in enumerate(of) if other != fold])
            if isinstance(graphs, (list, tuple)):
                train = list(train)  # then a fit can hold out a share of the configs
            made.append(Fold(f"fold {number}", train, (), Part(sequence, unseen), unseen))
    return made


def _labels(graphs: GraphSequence, groups: Any) -> list[Hashable]:
    if groups is None:
        return list(range(len(graphs)))
    label = family if groups == "family" else groups
    if callable(label):
        return [label(graph) for graph in Part(graphs)]
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

    def __init__(self, graphs: GraphSequence, chosen: Sequence[int] | None = None) -> None:
        self.graphs, self.chosen = graphs, range(len(graphs)) if chosen is None else chosen

    def __len__(self) -> int:
        return len(self.chosen)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return Part(self.graphs, self.chosen[index])
        graph = self.graphs[self.chosen[index]]
        check_graph("graphs", graph)
        return graph


def leave_out(
    ranker: ScorerBase | str,
    graphs: Graphs,
    *,
    groups: Sequence[Hashable] | None = None,
    beside: Mapping[str, Callable[..., ArrayLike]] | None = None,
    verbose: bool | None = None,
    draws: int = 1000,
    level: float = 0.95,
    seed: int = 0,
    **fit: Unpack[FitButShared],
) -> Report:
    """Rank every graph with a ranker that was trained on all others.

    Parameters
    ----------
    ranker : ranker, another scorer that learns from several graphs, or str
        A copy with the same arguments is trained for every group; this one is not changed. A string names a
        recipe.
    graphs : sequence of graphs
        At least two graphs with measured runtimes. Graphs that nothing can be learnt from are still ranked.
    groups : sequence, optional
        A label for every graph: graphs with the same label are left out together, for example kernels of one
        program. By default each graph is left out alone.
    beside : mapping of str to callable, optional
        Other scorers to judge as well, in the form that :func:`tpugraphs.evaluation.evaluate` takes.
    verbose : bool, optional
        Show a progress bar over the groups; by default in a terminal or notebook.
    draws, level, seed
        See :class:`tpugraphs.evaluation.report.Report`.
    **fit
        Arguments of :meth:`tpugraphs.Ranker.fit`, for example ``steps=``. By default the last parameters of a
        training are judged: choosing them by the graph that was left out would flatter the result.

    Returns
    -------
    Report
        One row per graph, in the order given. ``report.at_least(6)`` keeps the graphs with at least six
        configs, whose best five are not all they have.

    Raises
    ------
    ConfigError
        Fewer than two groups, not one label per graph, or a name in `beside` that is the ranker's.
    DataError
        A graph without measured runtimes, or nothing left to learn from without some group.

    Examples
    --------
    >>> import tpugraphs as tg
    >>> programs = tg.open_collection("options:xla:cpu")
    >>> report = tg.leave_out(tg.Ranker("graph-config", steps=5), programs.train[:3], verbose=False)
    >>> len(report.rows)
    3
    """
    makers = {_made(ranker).name: partial(_made, ranker)}
    rows = _judged(makers, unseen_graphs(graphs, groups), beside, "leave out", verbose, fit)
    return Report(rows, draws=draws, level=level, seed=seed)


def cross_validate(
    ranker: ScorerBase | str | Callable[[int], Scorer],
    graphs: Graphs,
    *,
    folds: int = 5,
    group: Sequence[Hashable] | str | Callable[[Graph], Hashable] | None = None,
    seeds: int | Iterable[int] = 1,
    beside: Mapping[str, Callable[..., ArrayLike]] | None = None,
    verbose: bool | None = None,
    draws: int = 1000,
    level: float = 0.95,
    seed: int = 0,
    **fit: Unpack[FitButShared],
) -> Report:
    """Rank every graph with rankers that were trained without its fold.

    The graphs are split at random into `folds` parts of nearly equal size. Each part is left out in turn; see
    :func:`leave_out`.

    Parameters
    ----------
    ranker : ranker, another scorer that learns from several graphs, str or callable
        What to train: a copy of this scorer with each of the seeds, a recipe by name, or the scorer that
        ``ranker(seed)`` returns.
    graphs : sequence of graphs
        With measured runtimes.
    folds : int
        At least 2.
    group : {"family"}, callable or sequence, optional
        Graphs with the same label stay in the same fold. ``"family"``: see :func:`tpugraphs.data.family`; a
        callable: ``group(graph)``; a sequence: a label for every graph. Programs of one family are similar,
        so keeping them together shows better how new programs are ranked.
    seeds : int or ints
        Number of seeds, counted from 0, or the seeds themselves. The scorers of the report are then called
        ``"seed 0"`` and so on.
    beside : mapping of str to callable, optional
        Other scorers to judge as well.
    verbose, draws, level, **fit
        See :func:`leave_out`.
    seed : int
        Of the folds and of the bootstrap.

    Returns
    -------
    Report
        For every graph, in their order, one row per seed.

    Raises
    ------
    ConfigError
        Fewer groups than folds, a name in `beside` that a trained scorer has, or a value out of range.
    DataError
        A graph without measured runtimes, or nothing left to learn from without some fold.

    Examples
    --------
    >>> import tpugraphs as tg
    >>> programs = tg.open_collection("options:xla:cpu")
    >>> report = tg.cross_validate("graph-config", programs.train[:6], folds=2, steps=5, verbose=False)
    >>> len(report.rows)
    6
    """
    if "groups" in fit:
        raise ConfigError("groups: here it is group=: labels, 'family' or a function of a graph")
    parts = unseen_graphs(graphs, group, folds=folds, seed=seed)
    makers = {f"seed {one}": partial(_made, ranker, one) for one in seed_numbers(seeds)}
    if len(makers) == 1:
        makers = {make().name: make for make in makers.values()}
    rows = _judged(makers, parts, beside, "folds", verbose, fit)
    return Report(rows, draws=draws, level=level, seed=seed)


def _made(ranker: Any, seed: int | None = None) -> Any:
    """Return a new scorer to train, with that seed if it takes one."""
    if isinstance(ranker, str):
        ranker = Ranker(ranker)
    if isinstance(ranker, ScorerBase):
        own = ranker.get_params(deep=False)
        own = own if isinstance(ranker, Ranker) else copy.deepcopy(own)  # nested scorers are trained, too
        return type(ranker)(**own | ({"seed": seed} if seed is not None and "seed" in own else {}))
    if seed is None or not callable(ranker):
        which = "a tg.Ranker or a recipe" if seed is None else "a tg.Ranker, a recipe or a function"
        raise ConfigError(f"ranker: expected {which}, got {ranker!r:.60}")
    return ranker(seed)


def _judged(
    makers: Mapping[str, Callable[[], Any]],
    folds: Sequence[Fold],
    beside: Mapping[str, Callable[..., ArrayLike]] | None,
    what: str,
    verbose: bool | None,
    fit: Mapping[str, Any],
) -> list[Row]:
    """Return report rows of all graphs in order, each from scorers trained without the graph's fold."""
    beside = beside or {}
    if twice := makers.keys() & beside.keys():
        raise ConfigError(f"`beside`: {min(twice)!r} is the name of what is trained: give it another one")
    rows: dict[int, Sequence[Row]] = {}
    for fold in tracked(folds, what, "fit", verbose):
        scorers = {
            name: scoring(trained(make(), fold, **fit), verbose=False) for name, make in makers.items()
        }
        for i, graph in zip(fold.places, fold.unseen, strict=True):
            rows[i] = evaluate({**scorers, **beside}, graph).rows
    return [row for i in sorted(rows) for row in rows[i]]


def trained(scorer: Any, fold: Fold, **fit: Any) -> Any:
    """Train a scorer on a fold, and return it.

    Parameters
    ----------
    scorer : scorer
        Learns from the graphs of the fold, and validates on its `valid` if there are any.
    fold : Fold
        A note in an error names the graphs that were left out.
    **fit
        Arguments of its fit.

    Returns
    -------
    scorer
        The same.

    Raises
    ------
    KeyboardInterrupt
        Ctrl-C, where a fit alone would keep what it has learnt.
    """
    fit = {"verbose": False, **fit} if isinstance(scorer, Ranker) else fit
    fit = {"valid": fold.valid, **fit} if len(fold.valid) else fit
    try:
        pass_on_interrupt(scorer.fit(fold.train, **fit))
    except DataError as error:
        error.add_note(f"with {', '.join(str(graph.name) for graph in fold.unseen)} left out")
        raise
    return scorer
