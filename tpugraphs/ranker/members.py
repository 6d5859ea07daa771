"""Members of an ensemble, trained side by side; and a single ranker that learns what an ensemble says."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from typing import Any, Unpack

from tpugraphs.data.graph import Graphs, SampleWeight, Valid
from tpugraphs.errors import ConfigError, Error
from tpugraphs.ranker.arguments import FitArguments
from tpugraphs.ranker.ensemble import Ensemble
from tpugraphs.ranker.estimator import FitOptions, NetworkEstimator
from tpugraphs.ranker.pseudo import pseudo_label
from tpugraphs.ranker.ranker import Ranker
from tpugraphs.ranker.scorer import Scorer, unchanged_if_it_fails
from tpugraphs.system.arguments import check_whole
from tpugraphs.training.callbacks import pass_on_interrupt
from tpugraphs.training.crew import Crew
from tpugraphs.training.fit import Fit, held
from tpugraphs.training.trainset import as_graphs

__all__ = ["distill", "train_members"]

_RUNTIMES = ("runtime", "seconds", "log-runtime")  # targets that a teacher's order cannot replace


def train_members(
    rankers: Iterable[Ranker | str],
    train: Graphs,
    valid: Valid = None,
    *,
    weights: Sequence[float] | None = None,
    normalize: str = "rank",
    epochs: int | None = None,
    steps: int | None = None,
    sample_weight: SampleWeight = None,
    checkpoint_dir: str | os.PathLike[str] | None = None,
    checkpoint_every: int = 100,
    workers: int | None = None,
    verbose: bool | None = None,
) -> Ensemble:
    """Train rankers of any recipes side by side, and make an ensemble of them.

    Networks take turns with the threads of the core, one step each, the one that is furthest behind first.
    Every one has the bits that it would have alone. Recipes that train trees come after them, one by one.
    Several seeds of one recipe share their prepared graphs in :func:`tpugraphs.train_seeds`.

    Parameters
    ----------
    rankers : sequence of Ranker, or of names of recipes
        They are trained, from the start. A name stands for a ranker with seed 0 and the preset ``"cpu"``.
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
        rankers are what they were before.

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
    if workers is not None:
        check_whole("workers", workers, 1)
    with ExitStack() as stack:
        stack.enter_context(unchanged_if_it_fails(*members))
        fits = []
        for i, one in enumerate(members):
            own_epochs, own_steps = one.length(epochs, steps, checkpoint_every)
            if isinstance(one.estimator, NetworkEstimator):
                place = None if checkpoint_dir is None else os.path.join(checkpoint_dir, f"member-{i}")
                folder = stack.enter_context(held(place))
                how = FitOptions(
                    epochs=own_epochs,
                    steps=own_steps,
                    owner=one,
                    checkpoint_every=checkpoint_every,
                    sample_weight=sample_weight,
                )
                fresh: Any = one._fresh()
                fits.append(fresh.begin(train, valid, folder, how))
        interrupted = bool(fits) and _run(fits, workers, verbose)
        if interrupted and (len(fits) < len(members) or not all(fit.step > 0 for fit in fits)):
            raise KeyboardInterrupt
        for fit in fits:
            fit.ranker._take(fit.network)
        for one in members:
            if not interrupted and not isinstance(one.estimator, NetworkEstimator):
                length: Any = {"epochs": epochs, "steps": steps}
                one.fit(train, valid, sample_weight=sample_weight, verbose=verbose, **length)
                pass_on_interrupt(one)
    if interrupted:
        warnings.warn("interrupted: the rankers are usable", stacklevel=2)
    return Ensemble(members, weights, normalize)


def _members(rankers: Any) -> list[Ranker]:
    """Return the rankers, made where a recipe is named; ConfigError for anything else, or one given twice."""
    several = isinstance(rankers, Iterable) and not isinstance(rankers, str)
    members = [Ranker(one) if isinstance(one, str) else one for one in (rankers if several else ())]
    if not members or not all(isinstance(one, Ranker) for one in members):
        raise ConfigError(f"rankers: expected a list of rankers or names of recipes, got {rankers!r:.80}")
    if len({id(one) for one in members}) < len(members):
        raise ConfigError("rankers: expected different ones, got one twice; make another with another seed")
    return members


def _run(fits: list[Fit], workers: int | None, verbose: bool | None) -> bool:
    """Train all; return whether Ctrl-C ended it."""
    crew = Crew(fits, workers)
    crew.run(verbose)
    if crew.failed:
        fit, text = next(iter(crew.failed.items()))
        raise Error(f"{fit.ranker.recipe}: {text}")
    for fit in fits:
        if fit.step > 0:
            fit.end(crew.stop.pressed)
    return bool(crew.stop.pressed)


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
    """Train one ranker to rank as another scorer does, for example to have an ensemble in the time of one.

    Parameters
    ----------
    teacher : Scorer
        Fitted; mostly an :class:`tpugraphs.Ensemble`.
    student : Ranker or str
        It is trained, from the start; or the name of a recipe.
    graphs : graph or sequence of graphs
        Their runtimes are not looked at, so that graphs that were never measured will do.
    valid : graph or sequence of graphs, optional
        Measured graphs to choose parameters by.
    n_configs : int, optional
        Configs of a graph that the teacher scores, drawn at random; by default all.
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
        `student` is not a ranker, or its losses fit runtimes themselves: the teacher knows their order alone.
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
    if isinstance(network, NetworkEstimator) and network.reads_values and network.fields.target in _RUNTIMES:
        raise ConfigError(
            f"student: {ranker.recipe} fits runtimes (target={network.fields.target!r}); "
            "set target='normal-score' or another loss, since a teacher gives an order"
        )
    sequence = as_graphs("graphs", graphs)
    labelled = [pseudo_label(sequence[i], teacher, n_configs, seed=seed + i) for i in range(len(sequence))]
    ranker.fit(labelled, valid, **fit)
    return ranker
