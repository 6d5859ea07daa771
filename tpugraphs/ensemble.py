"""Several rankers that score as one."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tpugraphs import rankerfile
from tpugraphs.errors import CheckpointError, ConfigError
from tpugraphs.files import file_name
from tpugraphs.ranker import Ranker
from tpugraphs.ranking import Ranks

if TYPE_CHECKING:
    from tpugraphs.report import Report

__all__ = ["NORMALIZE", "Ensemble", "open_rankers"]

KIND = "ensemble"


def _raw(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    return scores


def _minmax(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    low, high = (scores.min(), scores.max()) if scores.size else (0.0, 0.0)
    return (scores - low) / (high - low) if high > low else np.zeros(scores.size)


def _rank(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Places from 0 (fastest) to 1, equal scores at the mean of theirs."""
    _, group, size = np.unique(scores, return_inverse=True, return_counts=True)
    first = np.cumsum(size) - size
    places: NDArray[np.float64] = (first + (size - 1) / 2)[group] / max(1, scores.size - 1)
    return places


_METHODS: dict[str, Callable[[NDArray[np.float64]], NDArray[np.float64]]] = {
    "none": _raw,
    "minmax": _minmax,
    "rank": _rank,
}
NORMALIZE = tuple(_METHODS)


class Ensemble(Ranks):
    """Rank by the mean of the scores of several rankers.

    Parameters
    ----------
    rankers : sequence of Ranker
        Fitted; of any recipes for the same kind of graph, each with its own preprocessing.
    weights : sequence of float, optional
        Of the mean, one each, not negative; equal by default.
    normalize : {"none", "minmax", "rank"}
        What is done to the scores of each ranker before the mean, over the configs that are asked for:
        nothing, as the first place did with models of one recipe; scaled to 0..1, as the fifth did with
        models of several; or replaced by their places, from 0 (fastest) to 1, where equal scores share the
        mean of theirs.

    Attributes
    ----------
    rankers : tuple of Ranker
    weights : tuple of float
    normalize : str

    Raises
    ------
    ConfigError
        No rankers, one that has learnt nothing, rankers for different kinds of graphs or differently padded
        ones, or weights or `normalize` that are none of these.

    Notes
    -----
    "minmax" and "rank" depend on which other configs are asked for: scores of two calls cannot be compared.

    Examples
    --------
    >>> import tpugraphs as tg
    >>> ensemble = tg.Ensemble([tg.Ranker.load(path) for path in paths])  # doctest: +SKIP
    >>> ensemble.save("ensemble.safetensors")  # doctest: +SKIP
    """

    def __init__(
        self, rankers: Iterable[Ranker], weights: Sequence[float] | None = None, normalize: str = "none"
    ) -> None:
        members = tuple(rankers) if isinstance(rankers, Iterable) else ()
        if not members:
            raise ConfigError(f"rankers: expected a list of at least one Ranker, got {rankers!r}")
        for i, ranker in enumerate(members):
            if not isinstance(ranker, Ranker):
                raise ConfigError(
                    f"rankers: expected rankers, got {type(ranker).__name__} at place {i}"
                    + ("; give the rankers of that ensemble" if isinstance(ranker, Ensemble) else "")
                )
            if not ranker.fitted:
                raise ConfigError(f"rankers: that at place {i} has learnt nothing yet: fit or load it first")
            if ranker.kind != members[0].kind:
                raise ConfigError(
                    f"rankers: that at place {i} ranks {ranker.kind} graphs, the first one "
                    f"{members[0].kind} graphs: make an ensemble of each"
                )
        paddings = {ranker.pipeline.node_padding for ranker in members} - {None}
        if len(paddings) > 1:
            raise ConfigError(
                "rankers: some need node features padded with -1, others with 0: no graph suits all of them"
            )
        self.rankers = members
        self.weights = _check_weights(weights, len(members))
        self.normalize = _check_normalize(normalize)
        self._share()

    def _share(self) -> None:
        """Prepare a graph once for all rankers of the same preprocessing, as those of several seeds are."""
        different: list[Ranker] = []
        for ranker in self.rankers:
            like = next((other for other in different if other.pipeline.same_as(ranker.pipeline)), None)
            if like is None:
                different.append(ranker)
            else:
                ranker.share_prepared(like)

    @property
    def num_parameters(self) -> int:
        """Weights of all rankers."""
        return sum(ranker.num_parameters for ranker in self.rankers)

    @property
    def kind(self) -> str:
        """Kind of the graphs it ranks."""
        return self.rankers[0].kind

    def __len__(self) -> int:
        return len(self.rankers)

    def __iter__(self) -> Iterator[Ranker]:
        return iter(self.rankers)

    def __repr__(self) -> str:
        recipes = ", ".join(dict.fromkeys(ranker.recipe for ranker in self.rankers))
        weights = "" if len(set(self.weights)) == 1 else f", weights {self.weights}"
        return f"<Ensemble: {len(self)} x {recipes}, normalize={self.normalize!r}{weights}>"

    def adapt(self, graph: Any, configs: ArrayLike | None = None, **options: Any) -> Ensemble:
        """Return the ensemble of the rankers adapted to a few measurements: see :meth:`Ranker.adapt`."""
        rankers = [ranker.adapt(graph, configs, **options) for ranker in self.rankers]
        return Ensemble(rankers, self.weights, self.normalize)

    def predict(
        self,
        graph: Any,
        configs: ArrayLike | None = None,
        tta: int = 0,
        precision: str | None = None,
        verbose: bool | None = None,
    ) -> NDArray[np.float32]:
        """Scores of configs of a graph, (n,) float32: smaller = predicted faster.

        Parameters and errors as of :meth:`tpugraphs.Ranker.predict`; `precision` is by default that of each
        ranker.
        """
        normalized, total = _METHODS[self.normalize], math.fsum(self.weights)
        scores: NDArray[np.float64] | None = None
        for ranker, weight in zip(self.rankers, self.weights, strict=True):
            if weight == 0:
                continue
            own = ranker.predict(graph, configs, tta, precision, verbose).astype(np.float64)
            part = normalized(own) * (weight / total)
            scores = part if scores is None else scores + part
        assert scores is not None
        return scores.astype(np.float32)

    def evaluate(
        self,
        graphs: Any,
        configs: ArrayLike | None = None,
        tta: int = 0,
        precision: str | None = None,
        members: bool = False,
        **options: Any,
    ) -> Report:
        """Judge the ranking of graphs with measured runtimes; see :func:`tpugraphs.evaluation.evaluate`.

        `tta` and `precision` as of `predict`; with `members` every ranker is judged too.
        """
        from tpugraphs import evaluation

        if getattr(configs, "ndim", 0) > 1:
            raise ConfigError("configs: expected row numbers: configs given as such have no runtimes here")
        scorers = self.scorers(members, tta, precision, bool(options.get("progress", False)))
        return evaluation.evaluate(scorers, graphs, configs=configs, **options)

    def scorers(
        self, members: bool, tta: int, precision: str | None, verbose: bool
    ) -> dict[str, Callable[..., NDArray[np.float32]]]:
        """Return what :func:`tpugraphs.evaluation.evaluate` takes: this, with `members` also every ranker."""

        def scorer(of: Ranker | Ensemble) -> Callable[..., NDArray[np.float32]]:
            def score(graph: Any, rows: ArrayLike | None = None) -> NDArray[np.float32]:
                return of.predict(graph, rows, tta, precision, verbose)

            return score

        each = {f"{i}: {r.recipe}, seed {r.seed}": scorer(r) for i, r in enumerate(self.rankers)}
        return {"ensemble": scorer(self), **(each if members else {})}

    # Files

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write all that prediction needs to one safetensors file, which appears when it is complete."""
        from tpugraphs import __version__

        contents = [ranker.to_file() for ranker in self.rankers]
        tensors = {f"{i}.{name}": array for i, (_, own) in enumerate(contents) for name, array in own.items()}
        metadata = {
            "package": __version__,
            "normalize": self.normalize,
            "weights": list(self.weights),
            "members": [own for own, _ in contents],
        }
        rankerfile.write(file_name(path), KIND, metadata, tensors)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Ensemble:
        """Read an ensemble that `save` wrote; it predicts the same bits.

        Raises
        ------
        CheckpointError
            Not such a file, damaged, or of a version that is not known; the message names the field.
        """
        name = file_name(path)
        metadata, tensors = rankerfile.read(name, KIND)
        weights = rankerfile.entry(name, metadata, "weights", list)
        normalize = rankerfile.entry(name, metadata, "normalize", str)
        rankers = []
        for i, own in enumerate(rankerfile.entry(name, metadata, "members", list)):
            if not isinstance(own, dict):
                raise rankerfile.fail(
                    name, f"members[{i}]", "an object", repr(own)[:80], "the file is damaged"
                )
            prefix = f"{i}."
            mine = {key.removeprefix(prefix): tensors[key] for key in tensors if key.startswith(prefix)}
            try:
                rankers.append(Ranker.from_file(name, own, mine))
            except CheckpointError as error:
                error.add_note(f"ranker {i} of this ensemble")
                raise
        try:
            return cls(rankers, weights, normalize)
        except ConfigError as error:
            raise CheckpointError(f"{error}; the file is damaged", file=name, field="members") from None


def _check_weights(weights: Any, count: int) -> tuple[float, ...]:
    if weights is None:
        return (1.0,) * count
    given = list(weights) if isinstance(weights, Iterable) and not isinstance(weights, str) else [weights]
    numbers = [isinstance(w, Real) and not isinstance(w, (bool, np.bool_)) for w in given]
    if len(given) != count or not all(numbers):
        raise ConfigError(f"weights: expected {count} numbers, one per ranker, got {weights!r}")
    values = tuple(float(w) for w in given)
    if not all(math.isfinite(w) and w >= 0 for w in values) or not 0 < sum(values) < math.inf:
        raise ConfigError(f"weights: expected numbers that are not negative, and not all 0, got {weights!r}")
    return values


def _check_normalize(normalize: Any) -> str:
    if not isinstance(normalize, str) or normalize not in _METHODS:
        raise ConfigError(f"normalize: expected one of {', '.join(NORMALIZE)}, got {normalize!r}")
    return normalize


def open_rankers(
    paths: Sequence[str | os.PathLike[str]],
    weights: Sequence[float] | None = None,
    normalize: str | None = None,
) -> Ranker | Ensemble:
    """Read a ranker, an ensemble, or several rankers as one ensemble.

    Parameters
    ----------
    paths : sequence of path
        Of several all must be rankers.
    weights, normalize
        Of the ensemble; those in its file if it is one and nothing is given.

    Raises
    ------
    CheckpointError
        A file that is neither, or damaged.
    ConfigError
        An ensemble among several files, or `weights` or `normalize` for a single ranker.
    """
    rankers: list[Ranker] = []
    for path in paths:
        try:
            rankers.append(Ranker.load(path))
        except CheckpointError as error:
            if error.field != "kind" or error.found != repr(KIND):
                raise
            if len(paths) > 1:
                raise ConfigError(
                    f"{os.fspath(path)} is an ensemble: give it alone, or rankers only"
                ) from None
            whole = Ensemble.load(path)
            return Ensemble(
                whole.rankers,
                whole.weights if weights is None else weights,
                whole.normalize if normalize is None else normalize,
            )
    if len(rankers) == 1:
        if weights is not None or normalize is not None:
            raise ConfigError(
                "weights and normalize are for several rankers or an ensemble, not for one ranker"
            )
        return rankers[0]
    return Ensemble(rankers, weights, normalize or "none")
