"""Training of several rankers side by side; distillation and pseudo-labels."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any, Unpack

import numpy as np

from tpugraphs import kernels
from tpugraphs.data.graph import Graph, Graphs, Valid
from tpugraphs.data.published import LayoutGraph, TileGraph
from tpugraphs.errors import ConfigError, DataError, Error, not_a_graph
from tpugraphs.kernels.streams import Stream
from tpugraphs.ranker.arguments import FitArguments, FitTogether
from tpugraphs.ranker.ensemble import Ensemble
from tpugraphs.ranker.estimator import FitOptions, NetworkEstimator
from tpugraphs.ranker.ranker import Ranker
from tpugraphs.ranker.scorer import ChooseOptions, Scorer, check_scorer, unchanged_if_it_fails
from tpugraphs.system.arguments import check_whole
from tpugraphs.system.signatures import checked_names, shows
from tpugraphs.training.callbacks import pass_on_interrupt
from tpugraphs.training.crew import Crew
from tpugraphs.training.fit import Fit, locked_folder
from tpugraphs.training.trainset import as_graphs

__all__ = ["distill", "in_folders", "pseudo_label", "train_members", "train_together"]

_RUNTIMES = ("runtime", "seconds", "log-runtime")  # targets that a teacher's order cannot replace


def train_together(
    networks: Sequence[NetworkEstimator],
    train: Graphs,
    valid: Valid,
    options: Sequence[FitOptions],
    workers: int | None,
    shared: bool = False,
) -> Crew:
    """Train networks side by side, from scratch; each gets the same bits as if trained alone.

    Parameters
    ----------
    networks : sequence of NetworkEstimator
        Not fitted yet.
    train, valid
        See :meth:`tpugraphs.Ranker.fit`.
    options : sequence of FitOptions
        Checked options of every network; `verbose` is that of the first.
    workers : int or None
        Number of steps taken at the same time; None: as many as networks or threads.
    shared : bool
        Whether all prepare graphs in the same way, as several seeds of one recipe do; it is then done once.

    Returns
    -------
    Crew
        All fits in order, those that failed, and whether Ctrl-C ended the training. The other fits are
        complete.
    """
    if workers is not None:
        check_whole("workers", workers, 1)
    with ExitStack() as stack:
        fits = list[Fit]()
        for network, how in zip(networks, options, strict=True):
            folder = stack.enter_context(locked_folder(how.checkpoint_dir))
            fits.append(network.begin(train, valid, folder, how, fits[0].data if shared and fits else None))
        crew = Crew(fits, workers)
        crew.run(options[0].verbose)
        for fit in fits:
            if fit.step > 0 and fit not in crew.failed:
                fit.end(crew.stop.pressed)
    return crew


def in_folders(how: FitOptions, names: Iterable[str]) -> list[FitOptions]:
    """Return options for several fits, each with its own folder below `checkpoint_dir`."""
    folder = how.checkpoint_dir
    return [how if folder is None else replace(how, checkpoint_dir=os.path.join(folder, n)) for n in names]


@shows(FitOptions, FitTogether)
def train_members(
    rankers: Iterable[Ranker | str],
    train: Graphs,
    valid: Valid = None,
    *,
    weights: Sequence[float] | None = None,
    normalize: str = "rank",
    workers: int | None = None,
    **options: Unpack[FitTogether],
) -> Ensemble:
    """Train rankers of any recipes side by side, and make an ensemble of them.

    Networks take turns with the threads of the core, one step each, the one furthest behind first. Each gets
    the same bits as if trained alone. Recipes that train trees follow, one by one. Several seeds of one
    recipe share their prepared graphs in :func:`tpugraphs.train_seeds`.

    Parameters
    ----------
    rankers : sequence of Ranker, or of names of recipes
        They are trained from scratch. A name stands for a ranker with seed 0 and the preset ``"cpu"``.
    train, valid, epochs, steps, sample_weight, checkpoint_every, verbose
        See :meth:`tpugraphs.Ranker.fit`.
    weights, normalize
        See :class:`tpugraphs.Ensemble`; :meth:`tpugraphs.Ensemble.weighted` fits weights.
    checkpoint_dir : path, optional
        Folder of the states, ``member-0`` and so on. The same call resumes from it.
    workers : int, optional
        Number of steps taken at the same time; by default as many as networks or threads.

    Returns
    -------
    Ensemble
        After Ctrl-C a warning is issued, and the rankers have their best parameters so far.

    Raises
    ------
    ConfigError
        No rankers, one given twice, or a value out of range.
    Error
        The training of a ranker diverged.
    KeyboardInterrupt
        Ctrl-C before every ranker has taken a step. After this and any other error of the training the
        rankers are unchanged.

    Examples
    --------
    >>> import tpugraphs as tg
    >>> programs = tg.open_collection("options:xla:cpu")
    >>> train, valid = programs.train[:4], programs.valid[:2]
    >>> rankers = [tg.Ranker("graph-config", steps=5, width=width) for width in (16, 32)]
    >>> tg.train_members(rankers, train, valid, verbose=False)
    <Ensemble: 2 x graph-config, normalize='rank'>
    """
    members = _members(rankers)
    given = FitOptions(**checked_names("train_members", FitTogether, options))
    names = [f"member-{i}" for i in range(len(members))]
    every = {one: one.checked(how) for one, how in zip(members, in_folders(given, names), strict=True)}
    networks = {one: made for one in members if isinstance(made := one._fresh(), NetworkEstimator)}
    interrupted = False
    with unchanged_if_it_fails(*members):
        if networks:
            those = [every[one] for one in networks]
            crew = train_together([*networks.values()], train, valid, those, workers)
            for fit, text in crew.failed.items():
                raise Error(f"{fit.ranker.recipe}: {text}")
            interrupted = crew.stop.pressed
            whole = len(networks) == len(members) and all(fit.step > 0 for fit in crew.fits)
            if interrupted and not whole:
                raise KeyboardInterrupt
        for one in members:
            if one in networks:
                one._take(networks[one])
            else:
                pass_on_interrupt(one.fit(train, valid, **options))
    if interrupted:
        warnings.warn("interrupted: the rankers are usable", stacklevel=2)
    return Ensemble(members, weights, normalize)


def _members(rankers: Any) -> list[Ranker]:
    """Return the rankers, new ones for recipe names; ConfigError for anything else, or one given twice."""
    several = isinstance(rankers, Iterable) and not isinstance(rankers, str)
    members = [Ranker(one) if isinstance(one, str) else one for one in (rankers if several else ())]
    if not members or not all(isinstance(one, Ranker) for one in members):
        raise ConfigError(f"rankers: expected a list of rankers or names of recipes, got {rankers!r:.80}")
    if len({id(one) for one in members}) < len(members):
        raise ConfigError("rankers: expected different ones, got one twice; make another with another seed")
    return members


def distill(
    teacher: Scorer,
    student: Ranker | str,
    graphs: Graphs,
    valid: Valid = None,
    *,
    n_configs: int | None = None,
    seed: int = 0,
    **fit: Unpack[FitArguments],
) -> Ranker:
    """Train one ranker to rank like another scorer, such as an ensemble, but in the time of one.

    Parameters
    ----------
    teacher : Scorer
        Fitted; mostly an :class:`tpugraphs.Ensemble`.
    student : Ranker or str
        It is trained from scratch. A string names a recipe.
    graphs : graph or sequence of graphs
        Their runtimes are not used, so unmeasured graphs will do.
    valid : graph or sequence of graphs, optional
        Measured graphs to choose parameters by.
    n_configs : int, optional
        Number of configs per graph that the teacher scores, drawn at random; by default all.
    seed : int
        Of the draw.
    **fit
        See :meth:`tpugraphs.Ranker.fit`.

    Returns
    -------
    Ranker

    Raises
    ------
    ConfigError
        `student` is not a ranker, or its losses fit runtimes themselves: the teacher only gives an order.
    Error, DataError
        See :func:`tpugraphs.pseudo_label` and :meth:`tpugraphs.Ranker.fit`.

    Examples
    --------
    >>> import tpugraphs as tg
    >>> programs = tg.open_collection("options:xla:cpu")
    >>> train, valid = programs.train[:4], programs.valid[:2]
    >>> rankers = [tg.Ranker("graph-config", steps=5, seed=seed) for seed in range(2)]
    >>> ensemble = tg.train_members(rankers, train, valid, verbose=False)
    >>> tg.distill(ensemble, tg.Ranker("graph-config", steps=5, width=16), train, verbose=False)
    <Ranker('graph-config', seed=0, preset='cpu', steps=5, width=16): 7,690 parameters, fitted>
    """
    ranker = Ranker(student) if isinstance(student, str) else student
    if not isinstance(ranker, Ranker):
        raise ConfigError(f"student: expected a tg.Ranker or the name of a recipe, got {student!r:.60}")
    network = ranker.estimator
    if (
        isinstance(network, NetworkEstimator)
        and "values" in network.reads
        and network.fields.target in _RUNTIMES
    ):
        raise ConfigError(
            f"student: {ranker.recipe} fits runtimes (target={network.fields.target!r}); "
            "set target='normal-score' or another loss, since a teacher gives an order"
        )
    sequence = as_graphs("graphs", graphs)
    labelled = [pseudo_label(sequence[i], teacher, n_configs, seed=seed + i) for i in range(len(sequence))]
    ranker.fit(labelled, valid, **fit)
    return ranker


def pseudo_label(
    graph: Graph,
    scorer: Scorer,
    n_configs: int | None = None,
    *,
    seed: int = 0,
    **options: Unpack[ChooseOptions],
) -> Graph:
    """Label a graph with a scorer's predicted ranks, to train on it.

    Runtimes become ranks: 1 for the config predicted fastest, equal ranks for equal scores. Only their order
    means anything, so use ranking losses, or the targets ``percentile`` and ``normal-score``.

    Parameters
    ----------
    graph : graph
        Its runtimes, if any, are not used. Configs that failed are left out.
    scorer : Scorer
        A ranker, an ensemble, or anything else that has `predict`.
    n_configs : int, optional
        Number of configs to take, drawn at random; by default all.
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
    check_scorer("scorer", scorer)
    rows = np.asarray(graph.ran)
    if n_configs is not None:
        count = min(rows.size, check_whole("n_configs", n_configs, 2))
        chosen = kernels.sample_without_replacement(rows.size, count, (seed, Stream.PSEUDO), order="sorted")
        rows = rows[chosen]
    part = graph.select(rows)
    scores = np.asarray(scorer.predict(part, **options))
    if not np.isfinite(scores).all():
        found, todo = f"NaN or infinity, of {scorer.name}", "take another scorer"
        raise DataError.of("scores", "finite numbers", found, todo, file=str(graph.name))
    places = np.unique(scores, return_inverse=True)[1].reshape(-1).astype(np.int64) + 1
    if isinstance(part, TileGraph):
        return part.replace(config_runtime=places, config_runtime_normalizers=np.ones_like(places))
    if isinstance(part, LayoutGraph):
        return part.replace(config_runtime=places)
    about = {**part.about, "pseudo_labels": scorer.name}
    return part.replace(runtime=places, valid=None, repeats=None, about=about)
