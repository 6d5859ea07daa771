"""Several rankers that score as one, and rankers that learn to rank like another scorer."""

from __future__ import annotations

import functools
import math
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Self, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tpugraphs import _core, kernels
from tpugraphs.data.graph import Graph, Graphs, Rows, Valid
from tpugraphs.errors import ConfigError, DataError, Error, check_graph
from tpugraphs.evaluation.evaluator import measured_runtimes
from tpugraphs.evaluation.scorer import ChooseOptions, PredictOptions, Scorer
from tpugraphs.kernels.streams import Stream
from tpugraphs.metrics import VALIDATION, mean_ranks
from tpugraphs.ranker import filekinds
from tpugraphs.ranker.conventions import every_graph, learnable
from tpugraphs.ranker.estimator import NetworkEstimator
from tpugraphs.ranker.process import Process
from tpugraphs.ranker.ranker import Ranker
from tpugraphs.ranker.scorer import ScorerBase, check_scorer, unchanged_if_it_fails
from tpugraphs.system import check_choice, check_number, check_whole, counted
from tpugraphs.training.callbacks import pass_on_interrupt

if TYPE_CHECKING:
    from tpugraphs.ranker.arguments import AdaptOptions, FitArguments

__all__ = ["NORMALIZE", "Ensemble", "fitted_weights", "mixed", "normalized", "open_rankers"]

_RUNTIMES = ("runtime", "seconds", "log-runtime")  # targets that a teacher's order cannot replace


def _minmax(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    low, high = (scores.min(), scores.max()) if scores.size else (0.0, 0.0)
    return (scores - low) / (high - low) if high > low else np.zeros(scores.size)


def _rank(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return ranks from 0 (fastest) to 1; equal scores share their mean rank."""
    return mean_ranks(scores) / max(1, scores.size - 1)


_METHODS: dict[str, Callable[..., NDArray[np.float64]]]
_METHODS = {"none": np.asarray, "minmax": _minmax, "rank": _rank}
#: How each ranker's scores may be normalized before their mean is taken.
NORMALIZE = tuple(_METHODS)


def normalized(scores: ArrayLike, normalize: str) -> NDArray[np.float64]:
    """Normalize the scores (n,) of one ranker, before an :class:`Ensemble` takes the mean.

    Parameters
    ----------
    scores : (n,) array
        Of one ranker.
    normalize : {"none", "minmax", "rank"}
        The method, one of `NORMALIZE`.

    Returns
    -------
    (n,) float64
        Normalized scores.
    """
    return _METHODS[normalize](np.asarray(scores, np.float64))


def mixed(parts: Iterable[tuple[NDArray[np.float64], float]]) -> NDArray[np.float32]:
    """Return the weighted mean of normalized scores (n,).

    Parameters
    ----------
    parts : iterable of ((n,) float64, float)
        Normalized scores, and the share of their ranker in the mean.

    Returns
    -------
    (n,) float32
        The mean.

    Raises
    ------
    Error
        The mean is not finite.
    """
    total = functools.reduce(np.add, (own * share for own, share in parts))
    with np.errstate(over="ignore"):
        scores: NDArray[np.float32] = total.astype(np.float32)
    if not np.isfinite(scores).all():
        why = "one of the rankers gives scores beyond all range"
        raise Error(f"the mean of the scores is not a finite number: {why}")
    return scores


def fitted_weights(
    scores: Sequence[Sequence[NDArray[Any]]],
    times: Sequence[NDArray[Any]],
    judge: Callable[..., float],
    normalize: str = "rank",
    rounds: int = 30,
) -> NDArray[np.float64]:
    """Choose members greedily, with replacement, so that their mean ranks best (Caruana et al. 2004).

    Parameters
    ----------
    scores : of every member, of every graph, (n,)
    times : of every graph, (n,)
        Runtimes.
    judge : callable
        ``judge(scores, times)``; greater is better.
    normalize : str
    rounds : int
        Number of choices. The first best mean counts, so more rounds never rank worse.

    Returns
    -------
    (members,) float64
        How often each was chosen. They do not add up to 1.
    """
    own = [[normalized(part, normalize) for part in member] for member in scores]
    total = [np.zeros(part.size) for part in own[0]]
    chosen, best, kept = list[int](), -math.inf, 0
    for _ in range(rounds):
        values = []
        for member in own:  # one sum at a time: all of them could be many times the scores
            together = [t + part for t, part in zip(total, member, strict=True)]
            values.append(float(np.mean([judge(s, y) for s, y in zip(together, times, strict=True)])))
        chosen.append(int(np.argmax(values)))
        total = [t + part for t, part in zip(total, own[chosen[-1]], strict=True)]
        if values[chosen[-1]] > best:
            best, kept = values[chosen[-1]], len(chosen)
    return np.bincount(chosen[:kept], minlength=len(own)).astype(np.float64)


@filekinds.register("ensemble")
class Ensemble(ScorerBase):
    """Rank by the weighted mean of the scores of several rankers.

    Parameters
    ----------
    rankers : sequence of Ranker or other Scorer
        Fitted, and for the same kind of graph: rankers of any recipes, each with its own preprocessing, other
        ensembles, baselines, your own class (:class:`tpugraphs.ranker.ScorerBase`).
    weights : sequence of float, optional
        Weight of each ranker in the mean, not negative; equal by default.
    normalize : {"none", "minmax", "rank"}
        How to normalize the scores of each ranker before the mean is taken. ``"none"``: not at all, as the
        first place did with models of one recipe. ``"minmax"``: scale them to 0..1, as the fifth place did
        with models of several recipes. ``"rank"``: replace them by their ranks, from 0 (fastest) to 1; equal
        scores share their mean rank. Both look at the configs of one call only.

    Attributes
    ----------
    rankers : tuple of Scorer
    weights : tuple of float
    normalize : str

    Raises
    ------
    ConfigError
        No rankers, an unfitted one, rankers for different kinds of graphs or paddings, or an invalid
        `weights` or `normalize`.

    Notes
    -----
    With ``"minmax"`` and ``"rank"`` a score depends on the other configs of the call, so scores of two calls
    cannot be compared.

    Examples
    --------
    >>> import tpugraphs as tg
    >>> programs = tg.open_collection("options:xla:cpu")
    >>> train, graph = programs.train[:4], programs.test[0]
    >>> rankers = [tg.Ranker("graph-config", steps=5, seed=seed).fit(train, verbose=False) for seed in (0, 1)]
    >>> ensemble = tg.Ensemble(rankers)
    >>> ensemble.predict(graph).shape
    (112,)
    """

    name = "ensemble"

    def __init__(
        self, rankers: Iterable[Scorer], weights: Sequence[float] | None = None, normalize: str = "none"
    ) -> None:
        members = tuple(rankers) if isinstance(rankers, Iterable) else ()
        if not members:
            raise ConfigError(f"rankers: expected a list of at least one Ranker, got {rankers!r}")
        self.rankers = tuple(check_scorer(f"rankers[{i}]", one) for i, one in enumerate(members))
        for i, ranker in enumerate(self.rankers):
            if ranker.kind not in (self.kind, "any"):
                kinds = f"it ranks {ranker.kind} graphs, the first one {self.kind} graphs"
                raise ConfigError(f"rankers[{i}]: {kinds}: make an ensemble of each")
        if len({ranker.node_padding for ranker in members} - {None}) > 1:
            some = "some need node features padded with -1, others with 0"
            raise ConfigError(f"rankers: {some}: no graph suits all of them")
        self.weights = _check_weights(weights, len(members))
        self.normalize = check_choice("normalize", normalize, NORMALIZE)
        different: list[Scorer] = []
        for ranker in self.rankers:  # those of several seeds prepare a graph only once
            if not any(ranker.share_prepared(other) for other in different):
                different.append(ranker)

    def share_prepared(self, other: object) -> bool:
        """Share prepared graphs with `other`, all members or none; return whether they do."""
        return all([ranker.share_prepared(other) for ranker in self.rankers])

    @property
    def node_padding(self) -> int | None:
        """Padding that lists in the node features must have, None if any will do."""
        return next((r.node_padding for r in self.rankers if r.node_padding is not None), None)

    @property
    def takes_configs(self) -> bool:  # type: ignore[override]
        """Whether `predict` takes configs that the graph does not have; only if all rankers do."""
        return all(getattr(ranker, "takes_configs", False) for ranker in self.rankers)

    @property
    def across_configs(self) -> bool:
        """Whether a score depends on the other configs that are scored with it."""
        return self.normalize != "none" or any(getattr(r, "across_configs", False) for r in self.rankers)

    @property
    def num_parameters(self) -> int:
        """Number of weights of all rankers together."""
        return sum(getattr(ranker, "num_parameters", 0) for ranker in self.rankers)

    @property
    def kind(self) -> str:
        """Kind of the graphs it ranks."""
        return next((ranker.kind for ranker in self.rankers if ranker.kind != "any"), "any")

    def __len__(self) -> int:
        return len(self.rankers)

    def __iter__(self) -> Iterator[Scorer]:
        return iter(self.rankers)

    def __repr__(self) -> str:
        recipes = ", ".join(dict.fromkeys(ranker.name for ranker in self.rankers))
        weights = "" if len(set(self.weights)) == 1 else f", weights {self.weights}"
        return f"<Ensemble: {len(self)} x {recipes}, normalize={self.normalize!r}{weights}>"

    def adapt(self, graph: Graph, configs: Rows | None = None, **options: Unpack[AdaptOptions]) -> Ensemble:
        """Return the ensemble of the rankers adapted to a few measurements: see :meth:`Ranker.adapt`."""
        handed: Any = options  # a Scorer of another class may take none
        rankers = [ranker.adapt(graph, configs, **handed) for ranker in self.rankers]
        return Ensemble(rankers, self.weights, self.normalize)

    def predict(
        self, graph: Graph, configs: Rows | None = None, tta: int = 0, **options: Unpack[PredictOptions]
    ) -> NDArray[np.float32]:
        """Return scores (n,) float32 of configs of a graph: smaller = predicted faster.

        Parameters and errors: see :meth:`tpugraphs.Ranker.predict`. By default each ranker uses its own
        precision.
        """
        return mixed(self._scores(graph, configs, tta=tta, **options))

    def _scores(
        self, graph: Graph, configs: Rows | None, **options: Unpack[ChooseOptions]
    ) -> Iterator[tuple[NDArray[np.float64], float]]:
        """Yield normalized scores (n,) and share in the mean of every ranker with a weight above 0."""
        total = math.fsum(self.weights)
        for ranker, weight in zip(self.rankers, self.weights, strict=True):
            if weight > 0:
                yield normalized(ranker.predict(graph, configs, **options), self.normalize), weight / total

    def choose(
        self, graph: Graph, count: int = 10, configs: Rows | None = None, **options: Unpack[ChooseOptions]
    ) -> NDArray[np.int64]:
        """Return the positions of `count` configs to measure, if only the fastest of them will be kept.

        Configs are chosen greedily: each minimises the expected score of the fastest one so far, where any of
        the rankers may be right. So the choice covers rankers that disagree, while the best configs by mean
        score are often alike. Rankers that learnt from different graphs disagree where they should.

        If a Gaussian process is among the rankers, it chooses, around the scores of the ensemble.

        Parameters and errors: see :meth:`tpugraphs.Ranker.predict`.
        """
        for ranker, weight in zip(self.rankers, self.weights, strict=True):
            if weight > 0 and isinstance(ranker, Process):
                return ranker.choose(graph, count, configs, scores=self.predict(graph, configs, **options))
        scores, weights = zip(*self._scores(graph, configs, **options), strict=True)
        samples = np.stack(scores, 1, dtype=np.float64)
        count = min(check_whole("count", count, 1), len(samples))
        # By mean: once every ranker has its own, the next one follows.
        order = np.argsort(samples @ weights, kind="stable")
        return np.asarray(order[_core.fastest_together(samples[order], count, np.array(weights))])

    def fit(self, train: Graphs, valid: Valid = None, **options: Unpack[FitArguments]) -> Self:
        """Fit every member on the same graphs; for the arguments see :meth:`tpugraphs.Ranker.fit`.

        Ctrl-C raises KeyboardInterrupt. After any error all members are what they were before.
        """
        train, valid = learnable(train, valid, options.pop("y", None))
        handed: Any = options if valid is None else {"valid": valid, **options}
        with unchanged_if_it_fails(self):
            for ranker in self.rankers:
                pass_on_interrupt(ranker.fit(train, **handed))
        return self

    def weighted(self, valid: Valid, metric: str = "tau", **options: Unpack[ChooseOptions]) -> Ensemble:
        """Return the same rankers with weights that rank the graphs of `valid` best; see `fitted_weights`.

        Parameters
        ----------
        valid : graph or sequence of graphs
            Measured graphs that no ranker was trained on.
        metric : str
            One of the metrics that can select the best parameters of a fit: ``"tau"``, ``"opa"``, ``"top5"``
            or ``"mean50"``.
        **options
            Of :meth:`tpugraphs.Ranker.predict`.

        Returns
        -------
        Ensemble
            A new one of the same rankers.

        Raises
        ------
        ConfigError
            Another metric.
        DataError
            No graphs, or one without measured runtimes.
        """
        check_choice("metric", metric, VALIDATION)
        graphs = list(every_graph("valid", valid))
        times = [measured_runtimes(graph, graph.ran) for graph in graphs]
        scores = [[one.predict(graph, graph.ran, **options) for graph in graphs] for one in self.rankers]
        weights = fitted_weights(scores, times, VALIDATION[metric], self.normalize)
        return Ensemble(self.rankers, weights.tolist(), self.normalize)

    @property
    def members(self) -> dict[str, Scorer]:
        """Its rankers by their names in reports."""
        seeds = [f", seed {ranker.seed}" if hasattr(ranker, "seed") else "" for ranker in self.rankers]
        return {f"{i}: {r.name}{seeds[i]}": r for i, r in enumerate(self.rankers)}

    # Files

    def to_file(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return metadata, and tensors of all members."""
        members, tensors = filekinds.write_members(self.rankers)
        return {"normalize": self.normalize, "weights": list(self.weights), "members": members}, tensors

    @classmethod
    def from_file(cls, path: str, metadata: dict[str, Any], tensors: dict[str, NDArray[Any]]) -> Self:
        """Restore an ensemble from what `to_file` returned. `path` and errors: see `load`."""
        members = filekinds.read_members(path, metadata, tensors)
        return filekinds.construct(cls, path, metadata, {"weights": list, "normalize": str}, rankers=members)


def _check_weights(weights: Any, count: int) -> tuple[float, ...]:
    if weights is None:
        return (1.0,) * count
    given = list(weights) if isinstance(weights, Iterable) and not isinstance(weights, str) else []
    if len(given) != count:
        raise ConfigError(f"weights: expected {counted(count, 'number')}, one per ranker, got {weights!r}")
    values = [check_number(f"weights[{i}]", w, 0, sys.float_info.max) for i, w in enumerate(given)]
    if not 0 < sum(values) < math.inf:
        raise ConfigError(f"weights: expected numbers with a finite sum, not all 0, got {weights!r}")
    return tuple(values)


def open_rankers(
    paths: Sequence[str | os.PathLike[str]],
    weights: Sequence[float] | None = None,
    normalize: str | None = None,
) -> ScorerBase:
    """Read a scorer from one file, or from several files as one ensemble.

    Parameters
    ----------
    paths : sequence of path
    weights, normalize
        Those of the ensemble. For the file of an ensemble the defaults are those in the file.

    Returns
    -------
    Scorer

    Raises
    ------
    CheckpointError
        A file of another kind, or damaged.
    ConfigError
        `weights` or `normalize` for a single file that does not hold an ensemble.
    """
    members = [filekinds.load_ranker(path) for path in paths]
    if len(members) > 1:
        return Ensemble(members, weights, normalize or "none")
    (one,) = members
    if weights is None and normalize is None:
        return one
    if not isinstance(one, Ensemble):
        raise ConfigError("weights and normalize are for several rankers or an ensemble, not for one ranker")
    return Ensemble(one.rankers, one.weights if weights is None else weights, normalize or one.normalize)


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
    fits_values = isinstance(ranker.estimator, NetworkEstimator) and "values" in ranker.network.reads
    if fits_values and ranker.fields.target in _RUNTIMES:
        target = ranker.fields.target
        why = f"{ranker.recipe} fits runtimes (target={target!r}) and a teacher gives an order"
        raise ConfigError(f"student: {why}; set target='normal-score' or another loss")
    sequence = enumerate(every_graph("graphs", graphs))
    labelled = [pseudo_label(graph, teacher, n_configs, seed=seed + i) for i, graph in sequence]
    return ranker.fit(labelled, valid, **fit)


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
    check_graph("graph", graph)
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
    ones = None if part.config_runtime_normalizers is None else np.ones_like(places)
    about = {**part.about, "pseudo_labels": scorer.name}  # which published graphs do not show
    times = {"runtime": places, "config_runtime_normalizers": ones}
    return part._with(**times, valid=None, repeats=None, about=about)
