"""Judging scorers: how well they rank the configurations of graphs whose runtimes are known."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sized
from functools import partial
from typing import Any, TypedDict

import numpy as np
from numpy.typing import ArrayLike

from tpugraphs.data.graph import Graph, Graphs, Rows, Times
from tpugraphs.data.identity import facts
from tpugraphs.data.measured import require_measured
from tpugraphs.distributed.ranks import CommunicatorLike, Ranks
from tpugraphs.errors import ConfigError, DataError, check_graph, check_graphs
from tpugraphs.evaluation import official as published
from tpugraphs.evaluation.report import Report, Row
from tpugraphs.names import kind_named
from tpugraphs.system import few, tracked


class EvaluateOptions(TypedDict, total=False):
    """Keyword arguments of :func:`evaluate`, except `configs`."""

    official: bool
    name: str
    draws: int
    level: float
    seed: int
    verbose: bool | None
    communicator: CommunicatorLike | None


def measured_runtimes(graph: Graph, configs: Rows | None = None) -> Times:
    """Return the runtimes of a graph, checked to be measurements.

    Parameters
    ----------
    graph : LayoutGraph or TileGraph
    configs : (n,) int, optional
        Rows; all of them if not given.

    Returns
    -------
    (n,) int64 or float64
        Nanoseconds for a layout graph, runtime / normalizer for a tile graph, in its own unit for any other.

    Raises
    ------
    DataError
        There are no configurations, or its runtimes are placeholders (the published test files hold zeros
        where the answer would be), or one of `configs` failed or has no positive runtime.
    """
    check_graph("graph", graph)
    rows = graph.row_numbers(configs)
    if rows.size == 0 and (graph.num_configs == 0 or graph.ran.size):  # else all failed
        text = "has no configurations to judge a ranking by"
        raise DataError(text, file=graph.name, field="config_runtime")
    todo = "use a train or valid file, or `submit` for a test file"
    require_measured(graph, rows, "no ranking can be judged", todo)
    normalizers = graph.config_runtime_normalizers
    return graph.runtime[rows] if normalizers is None else graph.runtime[rows] / normalizers[rows]


def evaluate(
    scorer: Callable[..., ArrayLike] | Mapping[str, Callable[..., ArrayLike]],
    graphs: Graphs,
    *,
    configs: Rows | None = None,
    official: bool = False,
    name: str = "ranker",
    draws: int = 1000,
    level: float = 0.95,
    seed: int = 0,
    verbose: bool | None = None,
    communicator: CommunicatorLike | None = None,
) -> Report:
    """Judge a scorer, or several side by side, on graphs with measured runtimes.

    Parameters
    ----------
    scorer : callable or mapping of name to callable
        ``scorer(graph)`` returns scores (C,), smaller = predicted faster. If `configs` is given,
        ``scorer(graph, configs)`` returns the scores of these rows.
    graphs : graph or iterable of graphs
        For example the ``valid`` split of a collection. Configs that failed are left out.
    configs : (n,) int, optional
        Judge only these rows; for one graph only.
    official : bool
        Judge by the published protocol (:mod:`tpugraphs.evaluation.official`), so that numbers compare with
        published ones: 1,000 fixed configs of every valid graph of a layout collection, all configs of tile
        graphs, and only the published metrics. Configs that a list repeats are scored once. Graphs that no
        list names are left out, and the report says so.
    name : str
        Name of a single scorer in the report.
    draws, level, seed
        Settings of the bootstrap, see `Report`.
    verbose : bool, optional
        Show a progress bar; by default in a terminal or notebook.
    communicator : object, optional
        See :mod:`tpugraphs.distributed`. Every rank opens and scores some of the graphs, a list here, and all
        get the whole report.

    Returns
    -------
    Report

    Raises
    ------
    DataError
        Placeholder runtimes, no configurations, or NaN scores. With `official`: a graph of unknown
        collection, a list that names configs a graph does not have, or no graph that is in a list.
    ConfigError
        `configs` together with several graphs or with `official`, or no graphs.
    """
    single = hasattr(graphs, "config_runtime")
    check_graphs("graphs", graphs)
    if configs is not None and not single:
        raise ConfigError("configs= names rows of one graph; give a single graph, not a list of graphs")
    if official and configs is not None:
        raise ConfigError("give configs= or official=True, not both: the published lists say which configs")
    scorers = dict(scorer) if isinstance(scorer, Mapping) else {name: scorer}
    for who, score in scorers.items():
        if not callable(score):
            expected = f"expected a function of a graph, such as ranker.predict, got {type(score).__name__}"
            raise ConfigError(f"scorer {who!r}: {expected}")
    each: Any = [graphs] if single else graphs
    judge = partial(_judge, scorers, configs, official)
    if communicator is None:
        found: Iterable[list[Row] | str] = map(judge, each)
    elif not hasattr(each, "__len__"):
        raise ConfigError(f"graphs: expected a list to share over ranks, got {type(each).__name__}")
    else:
        plain = Ranks(communicator).each(len(each), lambda i: _plain(judge(each[i])), facts({"graphs": each}))
        found = (one if isinstance(one, str) else [Row(**row) for row in one] for one in plain)
    rows: list[Row] = []
    not_listed: list[str] = []
    for one in tracked(found, "evaluate", "graph", verbose, len(each) if isinstance(each, Sized) else None):
        if isinstance(one, str):
            not_listed.append(one)
        else:
            rows += one
    if not_listed and not rows:
        raise DataError(
            f"none of these graphs is in the published lists of validation configs: {few(not_listed, 3)}; "
            "give the valid split of a collection, for example layout:xla:random/valid",
            field="name", expected="a published valid graph", found=not_listed[0],
        )  # fmt: skip
    judged = [(row.collection, row.graph) for row in rows]
    coverage = published.Coverage.of(judged, not_listed) if official else None
    return Report(rows, draws=draws, level=level, seed=seed, coverage=coverage)


def _judge(
    scorers: Mapping[str, Callable[..., ArrayLike]], configs: Rows | None, official: bool, graph: Graph
) -> list[Row] | str:
    """Return a row of each scorer, or the name of a graph that is in no published list."""
    check_graph("graphs", graph)
    collection, chosen, names = graph.collection or graph.kind, configs, tuple[str, ...]()
    if official:
        chosen = published.rows_of(graph)
        if chosen is None:
            return f"{collection}:{graph.name}"
        names = kind_named(graph.kind).official
    ran = graph.ran if graph.valid is not None and chosen is None else None
    runtimes = measured_runtimes(graph, chosen if ran is None else ran)
    rows = list[Row]()
    for who, score in scorers.items():
        scores = np.asarray(_scores(score, graph, chosen, once=official))
        if ran is not None and scores.shape == (graph.num_configs,):
            scores = scores[ran]
        rows.append(Row.judge(graph.name, collection, who, scores, runtimes, names))
    return rows


def _plain(found: list[Row] | str) -> list[dict[str, Any]] | str:
    """Return what `_judge` returned as values that ranks pass on."""
    return found if isinstance(found, str) else [vars(row) for row in found]


def _scores(score: Callable[..., ArrayLike], graph: Graph, configs: Any, *, once: bool) -> ArrayLike:
    """Return scores of these configs; with `once`, repeated ones are scored once."""
    if configs is None or (once and graph.config_feat is not None):
        return score(graph)
    if not once:
        return score(graph, configs)
    distinct, inverse = np.unique(configs, return_inverse=True)
    given = np.asarray(score(graph, distinct))
    return given[inverse] if given.shape == distinct.shape else given  # the row refuses other shapes
