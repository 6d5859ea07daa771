"""Pseudo-labels: training graphs whose runtimes are a scorer's."""

from __future__ import annotations

from typing import Unpack

import numpy as np

from tpugraphs import kernels
from tpugraphs.data.graph import Graph
from tpugraphs.data.published import LayoutGraph, TileGraph
from tpugraphs.errors import ConfigError, DataError, Error, not_a_graph
from tpugraphs.kernels.streams import Stream
from tpugraphs.ranker.scorer import ChooseOptions, Scorer
from tpugraphs.system.arguments import check_whole

__all__ = ["pseudo_label"]


def pseudo_label(
    graph: Graph,
    scorer: Scorer,
    n_configs: int | None = None,
    *,
    seed: int = 0,
    **options: Unpack[ChooseOptions],
) -> Graph:
    """Make a graph to train on out of one without measurements: its runtimes are places by a scorer's scores.

    Only their order means anything: 1 for the config that is predicted fastest, equal numbers for equal
    scores. So losses of the order can learn from it, and the targets ``percentile`` and ``normal-score``.

    Parameters
    ----------
    graph : graph
        Runtimes that it has are not looked at. Configs that failed are left out.
    scorer : Scorer
        A ranker, an ensemble, or anything else that has `predict`.
    n_configs : int, optional
        Take that many configs, drawn at random; by default all.
    seed : int
        Of the draw.
    **options
        Those of the scorer's `predict`, for example ``tta=10``.

    Returns
    -------
    graph
        Of the same kind. A tile graph has normalizers of 1.

    Raises
    ------
    Error
        The scorer has learnt nothing yet.
    ConfigError
        Not a graph, not a scorer, or `n_configs` is not a whole number of at least 2.
    DataError
        Scores that are not finite.

    Examples
    --------
    >>> import tpugraphs as tg
    >>> programs = tg.open_collection("options:xla:cpu")
    >>> ranker = tg.Ranker("graph-config", steps=5).fit(programs.train[:4], verbose=False)
    >>> more = [tg.pseudo_label(graph, ranker, 50) for graph in programs.test[:2]]
    >>> more[0]
    Graph('decoder-block.0', nodes=167, edges=206, configs=50)
    >>> again = ranker.fit([*programs.train[:4], *more], verbose=False)
    """
    if not isinstance(graph, Graph):
        raise not_a_graph("graph", graph)
    if not isinstance(scorer, Scorer):
        raise ConfigError(
            f"scorer: expected a fitted scorer such as a tg.Ranker, got {type(scorer).__name__}"
        )
    if not scorer.fitted:
        raise Error("scorer: it has learnt nothing yet: call its fit first")
    rows = np.asarray(graph.ran)
    if n_configs is not None:
        count = min(rows.size, check_whole("n_configs", n_configs, 2))
        chosen = kernels.sample_without_replacement(rows.size, count, (seed, Stream.PSEUDO), order="sorted")
        rows = rows[chosen]
    part = graph.select(rows)
    scores = np.asarray(scorer.predict(part, **options))
    if not np.isfinite(scores).all():
        raise DataError(
            f"the scores of {scorer.name} are not finite",
            file=str(graph.name), field="scores", expected="finite numbers", found="others",
        )  # fmt: skip
    places = np.unique(scores, return_inverse=True)[1].reshape(-1).astype(np.int64) + 1
    if isinstance(part, TileGraph):
        return part.replace(config_runtime=places, config_runtime_normalizers=np.ones_like(places))
    if isinstance(part, LayoutGraph):
        return part.replace(config_runtime=places)
    about = {**part.about, "pseudo_labels": scorer.name}
    return part.replace(runtime=places, valid=None, repeats=None, about=about)
