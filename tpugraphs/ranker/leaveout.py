"""Leave-one-out evaluation: rank every graph by a ranker that was trained on all others."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

from numpy.typing import ArrayLike

from tpugraphs.errors import DataError
from tpugraphs.evaluation.evaluator import evaluate
from tpugraphs.evaluation.report import Report, Row
from tpugraphs.ranker.folds import unseen_graphs
from tpugraphs.ranker.ranker import Ranker
from tpugraphs.ranker.scorer import scoring
from tpugraphs.system.progress import wanted

__all__ = ["leave_out"]


def leave_out(
    ranker: Ranker,
    graphs: Any,
    *,
    groups: Sequence[Hashable] | None = None,
    beside: Mapping[str, Callable[..., ArrayLike]] | None = None,
    verbose: bool | None = None,
    draws: int = 1000,
    level: float = 0.95,
    seed: int = 0,
    **fit: Any,
) -> Report:
    """Rank every graph by a ranker that was trained on all others.

    Parameters
    ----------
    ranker : Ranker
        A new ranker with the same arguments is trained for every group. This one is not changed.
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
        One row per graph, in their order. ``report.at_least(6)`` is that of the graphs whose best five are
        not all of their configs.

    Raises
    ------
    ConfigError
        Fewer than two groups, or not one label per graph.
    DataError
        A graph without measured runtimes, or a group without which nothing can be learnt.

    Examples
    --------
    >>> import tpugraphs as tg
    >>> kernels = [tg.sample(name) for name in tg.list_samples() if name.startswith("tile")]
    >>> report = tg.leave_out(tg.Ranker("first-tile"), kernels)  # doctest: +SKIP
    """
    divided = unseen_graphs(graphs, groups)
    from tqdm.auto import tqdm

    rows: dict[int, Sequence[Row]] = {}
    for fold in tqdm(divided, desc="leave out", unit="fit", disable=not wanted(verbose)):
        held, rest = list(fold.unseen), fold.train
        fresh = Ranker(**ranker.get_params())
        try:
            fresh.fit(list(rest) if isinstance(graphs, list) else rest, verbose=False, **fit)
        except DataError as error:
            error.add_note(f"with {', '.join(str(graph.name) for graph in held)} left out")
            raise
        scorers = {ranker.recipe: scoring(fresh, verbose=False), **(beside or {})}
        for i, graph in zip(fold.places, held, strict=True):
            rows[i] = evaluate(scorers, graph).rows
    return Report([row for i in sorted(rows) for row in rows[i]], draws=draws, level=level, seed=seed)
