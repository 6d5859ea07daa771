"""Leave-one-out evaluation and cross-validation."""

from __future__ import annotations

import copy
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar, Unpack

from numpy.typing import ArrayLike

from tpugraphs.data.graph import Graph, Graphs
from tpugraphs.errors import ConfigError, DataError
from tpugraphs.evaluation.evaluator import evaluate
from tpugraphs.evaluation.report import Report, Row
from tpugraphs.ranker.arguments import FitButShared
from tpugraphs.ranker.folds import Fold, unseen_graphs
from tpugraphs.ranker.ranker import Ranker
from tpugraphs.ranker.scorer import Scorer, ScorerBase, scoring
from tpugraphs.ranker.seeds import seed_numbers
from tpugraphs.system.progress import tracked
from tpugraphs.training.callbacks import pass_on_interrupt

__all__ = ["cross_validate", "leave_out", "trained"]

ScorerT = TypeVar("ScorerT", bound=Any)


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
        raise ConfigError(
            "groups: here it is group=: labels of the graphs, 'family' or a function of a graph"
        )
    parts = unseen_graphs(graphs, group, folds=folds, seed=seed)
    numbers = seed_numbers(seeds)
    makers = {f"seed {one}": partial(_made, ranker, one) for one in numbers}
    if len(numbers) == 1:
        makers = {_made(ranker, numbers[0]).name: partial(_made, ranker, numbers[0])}
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


def trained(scorer: ScorerT, fold: Fold, **fit: Any) -> ScorerT:
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
