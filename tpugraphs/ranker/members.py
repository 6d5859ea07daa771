"""Members of an ensemble, trained side by side; and a single ranker that learns what an ensemble says."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from typing import Any

from tpugraphs.errors import ConfigError, Error
from tpugraphs.ranker.ensemble import Ensemble
from tpugraphs.ranker.estimator import FitOptions, NetworkEstimator
from tpugraphs.ranker.pseudo import pseudo_label
from tpugraphs.ranker.ranker import Ranker
from tpugraphs.ranker.scorer import Scorer
from tpugraphs.system import progress
from tpugraphs.training.crew import Crew
from tpugraphs.training.fit import Fit, held
from tpugraphs.training.trainset import TrainingSet, as_graphs

__all__ = ["distill", "train_members"]


def train_members(
    rankers: Iterable[Ranker | str],
    train: Any,
    valid: Any = None,
    *,
    weights: Sequence[float] | None = None,
    normalize: str = "rank",
    epochs: int | None = None,
    steps: int | None = None,
    sample_weight: Any = None,
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
        They are trained, from the start.
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
        No rankers, or a value out of range.
    Error
        The training of a ranker diverged.
    KeyboardInterrupt
        Ctrl-C before every ranker has taken a step.

    Examples
    --------
    >>> names = ["first-layout", "sixth-gin", "eighth-lightgbm"]
    >>> ensemble = tg.train_members(names, train, valid)  # doctest: +SKIP
    """
    members = [Ranker(one) if isinstance(one, str) else one for one in rankers]
    if not members or not all(isinstance(one, Ranker) for one in members):
        raise ConfigError(f"rankers: expected rankers or names of recipes, got {members!r:.80}")
    networks = [one for one in members if isinstance(one.estimator, NetworkEstimator)]
    how = (sample_weight, checkpoint_dir, checkpoint_every)
    with ExitStack() as stack:
        fits = [
            _start(
                stack, one, f"member-{members.index(one)}", train, valid, one.length(epochs, steps, 1), *how
            )
            for one in networks
        ]
        interrupted = bool(fits) and _run(fits, workers, progress.wanted(verbose))
    for one in members:
        if one not in networks and not interrupted:
            one.fit(train, valid, sample_weight=sample_weight, epochs=epochs, steps=steps, verbose=verbose)
    if interrupted:
        if not all(one.fitted for one in members):
            raise KeyboardInterrupt
        warnings.warn("interrupted: the rankers are usable", stacklevel=2)
    return Ensemble(members, weights, normalize)


def _start(
    stack: ExitStack,
    ranker: Ranker,
    name: str,
    train: Any,
    valid: Any,
    length: tuple[int | None, int | None],
    sample_weight: Any,
    checkpoint_dir: Any,
    checkpoint_every: int,
) -> Fit:
    """Make the fit of a ranker, before its first step."""
    ranker.reset()
    network = ranker.estimator
    assert isinstance(network, NetworkEstimator)
    folder = stack.enter_context(held(checkpoint_dir and os.path.join(checkpoint_dir, name)))
    most = network.fields.valid_configs
    hashed = folder is not None
    data = TrainingSet(network.pipeline, train, valid, most, network.seed, hashed, sample_weight)
    epochs, steps = length
    return network.start(data, folder, FitOptions(steps, epochs, (), checkpoint_every, False, ranker))


def _run(fits: list[Fit], workers: int | None, verbose: bool) -> bool:
    """Train all; return whether Ctrl-C ended it."""
    crew = Crew(fits, workers)
    crew.run(verbose)
    for fit, text in crew.failed.items():
        raise Error(f"{fit.ranker.recipe}: {text}")
    for fit in fits:
        if fit.step > 0:
            fit.end(crew.stop.pressed)
    return bool(crew.stop.pressed)


def distill(
    teacher: Scorer,
    student: Ranker | str,
    graphs: Any,
    valid: Any = None,
    *,
    n_configs: int | None = None,
    seed: int = 0,
    **fit: Any,
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
        A recipe whose losses fit runtimes themselves: the teacher knows their order alone.
    Error, DataError
        See :func:`tpugraphs.pseudo_label` and :meth:`tpugraphs.Ranker.fit`.

    Examples
    --------
    >>> small = tg.distill(ensemble, "first-layout", collection.train)  # doctest: +SKIP
    """
    ranker = Ranker(student) if isinstance(student, str) else student
    network = ranker.estimator
    fits = getattr(network.fields, "target", "") if isinstance(network, NetworkEstimator) else ""
    if fits in ("runtime", "seconds", "log-runtime") and isinstance(network, NetworkEstimator):
        if network.reads_values:
            raise ConfigError(
                f"student: {ranker.recipe} fits runtimes (target={fits!r}); set target='normal-score' or "
                "another loss, since a teacher gives an order"
            )
    sequence = as_graphs("graphs", graphs)
    labelled = [pseudo_label(sequence[i], teacher, n_configs, seed=seed + i) for i in range(len(sequence))]
    ranker.fit(labelled, valid, **fit)
    return ranker
