"""Trials: one recipe, trained with one seed on one fold, and judged on graphs it has not seen."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tpugraphs import __version__
from tpugraphs.errors import CheckpointError
from tpugraphs.evaluation.evaluator import measured_runtimes
from tpugraphs.evaluation.report import Row
from tpugraphs.ranker.folds import Fold
from tpugraphs.ranker.ranker import Ranker
from tpugraphs.recipes import Recipe, is_built_in, plain
from tpugraphs.recipes.functions import function_name
from tpugraphs.system import memory, tensorfile
from tpugraphs.training.callbacks import pass_on_interrupt

__all__ = ["Scores", "Task", "Trial", "judged"]

#: Scores (C,) of every graph.
Scores = list[NDArray[np.float32]]
_ENTRIES: dict[str, Any] = {  # of the file of a trial
    "recipe": str, "variant": str, "seed": int, "fold": str, "parameters": int, "seconds": float,
    "peak": (int, type(None)), "per_1000": float, "values": dict,
}  # fmt: skip


@dataclass(frozen=True)
class Trial:
    """One recipe, trained with one seed on one fold.

    Attributes
    ----------
    recipe : str
    variant : str
        Fields that were given for this recipe alone, as ``"prune=merge"``; empty: none.
    seed : int
    fold : str
    parameters : int
        Learnt numbers.
    seconds : float
        Time of the training.
    peak : int or None
        Most memory in bytes that the process took in training and scoring, all its graphs included.
    per_1000 : float
        Seconds to score 1,000 configs of the unseen graphs, which are read and prepared in that time.
    values : dict
        Metric name to mean over the unseen graphs.
    scores : list of (C,) float32
        Of the unseen graphs.
    choosing : list of (C,) float32
        Scores of the graphs that parameters were chosen by.
    """

    recipe: str
    variant: str
    seed: int
    fold: str
    parameters: int
    seconds: float
    peak: int | None
    per_1000: float
    values: dict[str, float]
    scores: Scores = field(repr=False, compare=False)
    choosing: Scores = field(repr=False, compare=False)

    @property
    def name(self) -> str:
        """Recipe and variant."""
        return f"{self.recipe}, {self.variant}" if self.variant else self.recipe

    def save(self, path: Path) -> None:
        """Write the trial to a file.

        Parameters
        ----------
        path : path
            Where it is written.
        """
        tensors = {
            f"{name}.{i}": scores
            for name, part in (("scores", self.scores), ("choosing", self.choosing))
            for i, scores in enumerate(part)
        }
        own = {name: value for name, value in vars(self).items() if name not in ("scores", "choosing")}
        tensorfile.write(path, "trial", own, tensors)

    @classmethod
    def load(cls, path: Path) -> Trial:
        """Read a trial that `save` wrote.

        Parameters
        ----------
        path : path
            Of a trial.

        Returns
        -------
        Trial
            With its scores.

        Raises
        ------
        CheckpointError
            The file is damaged.
        """
        metadata, tensors = tensorfile.read(path, "trial")
        own: dict[str, Any] = {"scores": [], "choosing": []}
        for name in sorted(tensors, key=lambda name: (len(name), name)):
            part = name.partition(".")[0]
            if part not in own:
                raise tensorfile.fail(path, name, "scores.0, choosing.0 and so on", "another name")
            own[part].append(tensors[name])
        for name, kinds in _ENTRIES.items():
            own[name] = tensorfile.entry(os.fspath(path), metadata, name, kinds)
        return cls(**own)


@dataclass(frozen=True)
class Task:
    """What a trial is made of."""

    recipe: Recipe
    variant: str
    ranker: Ranker
    fold: Fold
    tta: int

    def key(self, data: str) -> str:
        """Name of its file: a hash of everything that the result follows from."""
        told = {
            "package": __version__,
            "recipe": self.recipe.name,
            "fields": plain(self.ranker.fields),
            "losses": self.recipe.losses(self.ranker.fields),
            "model": self._model(),
            "functions": self._functions(),
            "seed": int(self.ranker.seed),
            "tta": self.tta,
            "data": data,
        }
        if self.ranker.precision != "f32":
            told["precision"] = self.ranker.precision
        digest = hashlib.blake2b(json.dumps(told, sort_keys=True).encode(), digest_size=8).hexdigest()
        return f"{self.recipe.name}-{self.ranker.seed}-{digest}.safetensors"

    def _model(self) -> list[Any]:
        """Preprocessing and steps of a network, where they do not depend on the graphs."""
        if self.recipe.estimator != "network" or not self.ranker.network.known:
            return []
        return [*self.ranker.pipeline.steps, *self.ranker.steps]

    def _functions(self) -> list[str]:
        """Tell a recipe of one's own from others of its name."""
        recipe = self.recipe
        if is_built_in(recipe):
            return []
        own = (recipe.steps, recipe.preprocessing, recipe.features, recipe.extra)
        return [function_name(function) for function in own if function is not None]

    def done(self, file: Path) -> Trial:
        """Read the trial, which is finished."""
        try:
            return replace(Trial.load(file), variant=self.variant)  # the same fields may be named otherwise
        except CheckpointError as error:
            error.add_note("delete this file, and the same call does the trial again")
            raise

    def run(self) -> Trial:
        """Train and judge; then drop what was learnt, which the peaks of other trials would include."""
        memory.forget_peak()
        began = time.monotonic()
        valid = self.fold.valid if len(self.fold.valid) else None
        pass_on_interrupt(self.ranker.fit(self.fold.train, valid, verbose=False))
        trained = time.monotonic()
        scores = self._scores(self.fold.unseen)
        seconds = time.monotonic() - trained
        configs = sum(part.size for part in scores)
        trial = Trial(
            self.recipe.name,
            self.variant,
            int(self.ranker.seed),
            self.fold.name,
            self.ranker.num_parameters,
            trained - began,
            memory.peak(),
            1000 * seconds / configs,
            judged(self.fold.unseen, scores),
            scores,
            self._scores(self.fold.valid),
        )
        self.ranker.reset()
        return trial

    def _scores(self, graphs: Iterable[Any]) -> Scores:
        return [np.asarray(self.ranker.predict(g, tta=self.tta, verbose=False), np.float32) for g in graphs]


def judged(graphs: Sequence[Any], scores: Sequence[NDArray[Any]]) -> dict[str, float]:
    """Mean of every metric over graphs; metrics that any order of a tile graph satisfies are left out."""
    found: dict[str, list[float]] = {}
    for graph, own in zip(graphs, scores, strict=True):
        ran = np.asarray(graph.ran)
        row = Row.judge(
            str(graph.name), graph.collection or graph.kind, "", own[ran], measured_runtimes(graph, ran)
        )
        for name, value in row.values.items():
            if name not in row.trivial:
                found.setdefault(name, []).append(value)
    return {name: float(np.mean(values)) for name, values in found.items()}
