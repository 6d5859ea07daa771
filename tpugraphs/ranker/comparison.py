"""Comparison of recipes: train each with several seeds on the same folds, and judge all in the same way."""

from __future__ import annotations

import itertools
import json
import math
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Unpack

import numpy as np
from numpy.typing import NDArray

from tpugraphs import __version__, metrics
from tpugraphs.data.identity import digest, facts, fingerprint
from tpugraphs.distributed.ranks import CommunicatorLike, Ranks
from tpugraphs.errors import CheckpointError, ConfigError
from tpugraphs.evaluation import evaluate, measured_runtimes, plot
from tpugraphs.evaluation.report import HEADS, SHOWN_DIFFERENCE
from tpugraphs.names import KINDS, Kind, kind_named
from tpugraphs.ranker.baselines import random_scores
from tpugraphs.ranker.ensemble import NORMALIZE, fitted_weights, mixed, normalized
from tpugraphs.ranker.folds import Fold, trained
from tpugraphs.ranker.ranker import Ranker
from tpugraphs.recipes import Recipe, get_recipe, is_built_in, plain
from tpugraphs.recipes.functions import function_name
from tpugraphs.system import check_whole, files, machine, progress, tables, tensorfile

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from tpugraphs.recipes.fields import RecipeFields

Parts = list[NDArray[np.float32]]  # scores (C,) of every graph
_PARTS = ("train", "valid", "unseen")  # of a fold
_SCORES = ("scores", "choosing")  # parts of a trial that are tensors of its file
_ENTRIES: dict[str, Any] = {  # in the file of a trial, with their types
    "recipe": str, "variant": str, "seed": int, "fold": str, "parameters": int, "seconds": float,
    "peak": (int, type(None)), "per_1000": float, "values": dict,
}  # fmt: skip


def compare(
    recipes: Iterable[str | Recipe | tuple[str | Recipe, Mapping[str, Any]]],
    folds: Sequence[Fold],
    *,
    seeds: int = 3,
    preset: str = "cpu",
    folder: str | os.PathLike[str] | None = None,
    tta: int = 0,
    verbose: bool | None = None,
    communicator: CommunicatorLike | None = None,
    **fields: Unpack[RecipeFields],
) -> Comparison:
    """Train every recipe with several seeds on every fold, and judge all in the same way.

    Parameters
    ----------
    recipes : names or recipes
        A pair (recipe, fields) is a variant of it. Its fields may also be ``preset`` and ``precision``.
    folds : sequence of Fold
        From :func:`tpugraphs.ranker.unseen_configs`, :func:`tpugraphs.ranker.unseen_graphs`, or your own.
    seeds : int
        Number of seeds, counted from 0.
    preset : str
    folder : path, optional
        Folder of finished trials. The same call reads them from there, so it can be interrupted and resumed.
        A trial runs again when anything its result depends on has changed: recipe, fields, seed, graphs,
        version of the package.
    tta : int
        Test-time augmentation of rankers that look across configs; see :meth:`tpugraphs.Ranker.predict`.
    verbose : bool, optional
        Show a progress bar over the trials.
    communicator : CommunicatorLike, optional
        Divide the trials among these ranks. Every rank returns all trials. They may share the `folder`.
    **fields
        Fields of all recipes that have them, for example ``steps=500``.

    Returns
    -------
    Comparison

    Raises
    ------
    ConfigError
        No recipes, or one given twice; no folds, two of the same name, or one without graphs; a field that no
        recipe has.
    DataError
        Graphs to judge on without measured runtimes; graphs that a recipe does not rank.
    CheckpointError
        A file in `folder` is damaged.
    KeyboardInterrupt
        Ctrl-C; the trial that was under way is not kept.

    Examples
    --------
    >>> import tpugraphs as tg
    >>> programs = tg.open_collection("options:xla:cpu")
    >>> folds = tg.ranker.unseen_graphs(programs.train[:4], folds=2)
    >>> found = tg.compare(["graph-config", "mlpredict"], folds, seeds=1, steps=5, verbose=False)
    >>> [(trial.recipe, trial.fold) for trial in found.trials]  # doctest: +NORMALIZE_WHITESPACE
    [('graph-config', 'fold 0'), ('graph-config', 'fold 1'),
     ('mlpredict', 'fold 0'), ('mlpredict', 'fold 1')]
    """
    divided = _checked(folds)
    tasks = _tasks(recipes, divided, check_whole("seeds", seeds, 1), preset, fields, tta)
    run: Callable[[Task], Trial] = Task.run
    if folder is not None:
        os.makedirs(folder, exist_ok=True)
        run = partial(_kept, Path(folder), {fold.name: _content(fold) for fold in divided})
    parts = {f"{part} of {fold.name}": vars(fold)[part] for fold in divided for part in _PARTS}
    found = Ranks(communicator).each(len(tasks), lambda i: vars(run(tasks[i])), facts(parts))
    shown = progress.tracked(found, "compare", "trial", verbose, len(tasks))
    return Comparison(tuple(Trial(**one) for one in shown), divided)


def _kept(folder: Path, data: Mapping[str, str], task: Task) -> Trial:
    """Read a trial from the folder, or run it and write it there; `data` are digests of the folds."""
    file = folder / task.key(data[task.fold.name])
    if file.exists():
        return replace(Trial.load(file), variant=task.variant)  # the same fields may be named otherwise
    trial = task.run()
    trial.save(file)
    return trial


def _checked(folds: Iterable[Fold]) -> list[Fold]:
    """Check that folds have different names, and graphs to learn from and to judge on."""
    divided = list(folds)
    if not divided or not all(isinstance(fold, Fold) for fold in divided):
        raise ConfigError("folds: expected at least one, from tpugraphs.ranker.unseen_configs for example")
    names = [fold.name for fold in divided]
    if again := [name for i, name in enumerate(names) if name in names[:i]]:
        raise ConfigError(f"folds: expected a name of its own for each, got several called {again[0]!r}")
    for fold in divided:
        for name in ("train", "unseen"):
            if len(getattr(fold, name)) == 0:
                raise ConfigError(f"folds: {fold.name!r}: expected at least one graph in `{name}`, got none")
        first = fold.unseen[0]
        measured_runtimes(first, np.asarray(first.ran))  # published test files have none: say so at once
    return divided


def _tasks(
    recipes: Iterable[Any], folds: list[Fold], seeds: int, preset: str, fields: Mapping[str, Any], tta: int
) -> list[Task]:
    tasks, used, names = [], set[str](), set[str]()
    if isinstance(recipes, (str, Recipe)):
        raise ConfigError(f"recipes: expected a list of them, got {recipes!r:.60}")
    for given in recipes:
        one, own = given if isinstance(given, (tuple, list)) and len(given) == 2 else (given, {})
        if not isinstance(one, (str, Recipe)) or not isinstance(own, Mapping):
            expected = "names, recipes, or pairs (recipe, fields)"
            raise ConfigError(f"recipes: expected {expected}, got {given!r:.60}")
        recipe = get_recipe(one)
        common = {name: value for name, value in fields.items() if hasattr(recipe.options, name)}
        used |= common.keys()
        variant = ", ".join(f"{name}={value}" for name, value in own.items())
        if "seed" in own:
            todo = "a variant has the seeds of all others; seeds= says how many"
            raise ConfigError(f"{recipe.name}: seed: {todo}")
        name = f"{recipe.name}, {variant}" if variant else recipe.name
        if name in names:
            raise ConfigError(f"recipes: expected each once, got {name!r} twice")
        names.add(name)
        for fold in folds:
            for seed in range(seeds):
                ranker = Ranker(recipe, **{"seed": seed, "preset": preset, **common, **own})
                tasks.append(Task(ranker, variant, fold, tta))
    if not tasks:
        raise ConfigError("recipes: expected at least one; tpugraphs.list_recipes() names them")
    if unused := set(fields) - used:
        raise ConfigError(f"{min(unused)}: none of these recipes has a field of that name")
    return tasks


def _content(fold: Fold) -> str:
    """Hash of all graphs of a fold."""
    parts = ([*(fingerprint(graph, True) for graph in vars(fold)[part]), "/"] for part in _PARTS)
    return digest(itertools.chain.from_iterable(parts), 8)


@dataclass(frozen=True)
class Trial:
    """One recipe, trained with one seed on one fold.

    Attributes
    ----------
    recipe : str
    variant : str
        Fields given for this recipe alone, such as ``"prune=merge"``; empty if none.
    seed : int
    fold : str
    parameters : int
        Number of learnt parameters.
    seconds : float
        Training time.
    peak : int or None
        Peak memory of the process in bytes during training and scoring, graphs included.
    per_1000 : float
        Seconds to score 1,000 configs of the unseen graphs, including reading and preparing these.
    values : dict
        Metric name to mean over the unseen graphs.
    scores : list of (C,) float32
        Of the unseen graphs.
    choosing : list of (C,) float32
        Scores of the validation graphs.
    """

    recipe: str
    variant: str
    seed: int
    fold: str
    values: dict[str, float]
    parameters: int = 0
    seconds: float = math.nan
    peak: int | None = None
    per_1000: float = math.nan
    scores: Parts = field(default_factory=list, repr=False, compare=False)
    choosing: Parts = field(default_factory=list, repr=False, compare=False)

    @property
    def name(self) -> str:
        """Recipe and variant."""
        return f"{self.recipe}, {self.variant}" if self.variant else self.recipe

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON, without the scores."""
        return {name: value for name, value in vars(self).items() if name not in _SCORES}

    def save(self, path: Path) -> None:
        """Write the trial to a file.

        Parameters
        ----------
        path : path
            Where it is written.
        """
        scores = {f"{part}.{i}": one for part in _SCORES for i, one in enumerate(getattr(self, part))}
        tensorfile.write(path, "trial", self.to_dict(), scores)

    @classmethod
    def load(cls, path: Path) -> Trial:
        """Read a trial that `save` wrote.

        Parameters
        ----------
        path : path
            File of a trial.

        Returns
        -------
        Trial
            With its scores.

        Raises
        ------
        CheckpointError
            The file is damaged.
        """
        try:
            metadata, tensors = tensorfile.read(path, "trial")
            own: dict[str, Any] = {part: [] for part in _SCORES}
            for name in sorted(tensors, key=lambda name: (len(name), name)):
                part = name.partition(".")[0]
                if part not in own:
                    raise tensorfile.fail(path, name, "scores.0, choosing.0 and so on", "another name")
                own[part].append(tensors[name])
            own |= {name: tensorfile.entry(path, metadata, name, kind) for name, kind in _ENTRIES.items()}
            return cls(**own)
        except CheckpointError as error:
            error.add_note("delete this file, and the same call does the trial again")
            raise


class Task(NamedTuple):
    """A trial to be run."""

    ranker: Ranker
    variant: str
    fold: Fold
    tta: int

    def key(self, data: str) -> str:
        """Return the name of its file: a hash of everything the result depends on."""
        ranker, recipe = self.ranker, self.ranker._recipe
        known = recipe.estimator == "network" and ranker.network.known
        functions: list[Any] = [recipe.steps, recipe.preprocessing, recipe.features, recipe.extra]
        functions = [] if is_built_in(recipe) else functions
        identity = {
            "package": __version__,
            "recipe": recipe.name,
            "fields": plain(ranker.fields),
            "losses": recipe.losses(ranker.fields),
            "model": [*ranker.pipeline.steps, *ranker.steps] if known else [],
            "functions": [function_name(function) for function in functions if function is not None],
            "seed": ranker.seed,
            "tta": self.tta,
            "data": data,
            **({} if ranker.precision == "f32" else {"precision": ranker.precision}),
        }
        hashed = digest([json.dumps(identity, sort_keys=True)], 8)
        return f"{recipe.name}-{ranker.seed}-{hashed}.safetensors"

    def run(self) -> Trial:
        """Train and judge, then free the scorer: it would count in the peak memory of other trials."""
        ranker, fold = self.ranker, self.fold
        machine.forget_peak()
        began = time.monotonic()
        trained(ranker, fold)
        seconds = time.monotonic() - began
        began = time.monotonic()
        scores = self._scores(fold.unseen)
        per_config = (time.monotonic() - began) / sum(part.size for part in scores)
        trial = Trial(
            recipe=ranker.recipe,
            variant=self.variant,
            seed=ranker.seed,
            fold=fold.name,
            parameters=ranker.num_parameters,
            seconds=seconds,
            peak=machine.peak(),
            per_1000=1000 * per_config,
            values=judged(fold.unseen, scores),
            scores=scores,
            choosing=self._scores(fold.valid),
        )
        ranker.reset()
        return trial

    def _scores(self, graphs: Iterable[Any]) -> Parts:
        return [np.asarray(self.ranker.predict(g, tta=self.tta, verbose=False), np.float32) for g in graphs]


def judged(graphs: Sequence[Any], scores: Sequence[NDArray[Any]]) -> dict[str, float]:
    """Return the mean of every metric over graphs, leaving out graphs where any order is perfect."""
    found: dict[str, list[float]] = {}
    for graph, own in zip(graphs, scores, strict=True):
        (row,) = evaluate(lambda _, own=own: own, graph, verbose=False).rows
        for name in (name for name in row.values if name not in row.trivial):
            found.setdefault(name, []).append(row.values[name])
    return {name: float(np.mean(values)) for name, values in found.items()}


@dataclass(frozen=True)
class Summary:
    """Metrics and costs of one recipe, over its trials.

    Attributes
    ----------
    name : str
        Recipe and variant.
    mean, sd : dict
        Metric name to mean, and standard deviation over seeds of the mean over folds; NaN for a single seed.
        A fold does not count for a metric on which any order is perfect.
    seconds, per_1000 : float
        Means over the trials; `seconds` is the training time.
    parameters : int
    peak : int or None
    """

    name: str
    mean: dict[str, float]
    sd: dict[str, float]
    seconds: float = math.nan
    per_1000: float = math.nan
    parameters: int = 0
    peak: int | None = None

    @classmethod
    def of(cls, name: str, trials: Sequence[Trial]) -> Summary:
        """Summarise the trials of all folds and seeds."""
        of: dict[str, dict[int, list[float]]] = {}  # metric, then seed -> its values
        for trial in trials:
            for metric, value in trial.values.items():
                of.setdefault(metric, {}).setdefault(trial.seed, []).append(value)
        means = {metric: [float(np.mean(own)) for own in by_seed.values()] for metric, by_seed in of.items()}
        return cls(
            name,
            mean={metric: float(np.mean(each)) for metric, each in means.items()},
            sd={n: float(np.std(each, ddof=1)) if len(each) > 1 else math.nan for n, each in means.items()},
            seconds=float(np.mean([trial.seconds for trial in trials])),
            per_1000=float(np.mean([trial.per_1000 for trial in trials])),
            parameters=max(trial.parameters for trial in trials),
            peak=max((trial.peak for trial in trials if trial.peak is not None), default=None),
        )


def _summaries(trials: Iterable[Trial]) -> list[Summary]:
    """Return one summary per name."""
    groups: dict[str, list[Trial]] = {}
    for trial in trials:
        groups.setdefault(trial.name, []).append(trial)
    return [Summary.of(name, own) for name, own in groups.items()]


@dataclass(frozen=True)
class Comparison:
    """Finished trials of several recipes on the same folds.

    Attributes
    ----------
    trials : tuple of Trial
    folds : list of Fold
    """

    trials: tuple[Trial, ...]
    folds: list[Fold]

    @cached_property
    def _kind(self) -> Kind:
        """What follows from the kind of the graphs."""
        return kind_named(self.folds[0].unseen[0].kind)

    @property
    def tile(self) -> bool:
        """Whether tile graphs are judged."""
        return self._kind == KINDS["tile"]

    @property
    def metric(self) -> str:
        """The metric that recipes are ordered by."""
        return self._kind.compared_by[0]

    @property
    def shown(self) -> tuple[str, ...]:
        """Metrics in the table; `tau_order` only where ties make it differ from `tau`."""
        first, *others = self._kind.compared_by
        gaps = [abs(v["tau"] - v["tau_order"]) for v in (t.values for t in self.trials) if "tau_order" in v]
        ties = ("tau_order",) if max(gaps, default=0) > SHOWN_DIFFERENCE else ()
        return (first, *ties, *others)

    @cached_property
    def summaries(self) -> list[Summary]:
        """One per recipe or variant, best first."""
        sign = 1 if self.tile else -1
        last = sign * math.inf  # without a value to order by
        return sorted(_summaries(self.trials), key=lambda one: sign * one.mean.get(self.metric, last))

    @cached_property
    def random(self) -> Summary:
        """Summary of a random order on the same folds, with as many seeds."""
        found = []
        for seed in sorted({trial.seed for trial in self.trials}):
            for fold in self.folds:
                values = judged(fold.unseen, [random_scores(graph, seed=seed) for graph in fold.unseen])
                found.append(Trial("random", "", seed, fold.name, values, seconds=0.0, per_1000=0.0))
        return Summary.of("random", found)

    def ensembles(self) -> list[Summary]:
        """Return the ensembles of all trials of a fold: equal weights, and weights fitted on `valid`.

        Members are the trials of all recipes and seeds. There is one ensemble of each kind per fold, so that
        the standard deviation is over folds.
        """
        return list(self._ensembles)

    @cached_property
    def _ensembles(self) -> list[Summary]:
        found = []
        for number, fold in enumerate(self.folds):
            members = [trial for trial in self.trials if trial.fold == fold.name]
            # raw scores of different recipes have different units
            kinds: list[tuple[str, str, Any]] = [(f"ensemble of all, {n}", n, None) for n in NORMALIZE[1:]]
            if len(fold.valid):
                kinds.append(("ensemble, weights fitted", "rank", self._weights(members, fold)))
            for name, normalize, weights in kinds:
                mean = _mixed([trial.scores for trial in members], normalize, weights)
                found.append(Trial(name, "", number, fold.name, judged(fold.unseen, mean)))
        return _summaries(found)

    def _weights(self, members: list[Trial], fold: Fold) -> NDArray[np.float64]:
        judge = metrics.VALIDATION[self._kind.metric]
        ran = [np.asarray(graph.ran) for graph in fold.valid]
        times = [measured_runtimes(graph, rows) for graph, rows in zip(fold.valid, ran, strict=True)]
        parts = [[own[rows] for own, rows in zip(t.choosing, ran, strict=True)] for t in members]
        return fitted_weights(parts, times, judge)

    # Tables and plots

    def _lines(self) -> Iterator[dict[str, str]]:
        for one in (*self.summaries, *self.ensembles(), self.random):
            was_trained = one.seconds > 0
            yield {
                "scorer": one.name,
                **{HEADS.get(metric, metric): _spread(metric, one) for metric in self.shown},
                "parameters": f"{one.parameters:,}" if one.parameters else "-",
                "training s": f"{one.seconds:.0f}" if was_trained else "-",
                "peak MB": f"{one.peak / 1e6:.0f}" if one.peak is not None else "-",
                "ms per 1,000": f"{1e3 * one.per_1000:.1f}" if was_trained else "-",
            }

    def table(self) -> str:
        """Return aligned text: one line per recipe, best first; then ensembles and a random order."""
        return tables.text(*tables.section("", self._lines()))

    def to_markdown(self) -> str:
        """Return the table as Markdown."""
        return tables.markdown(*tables.section("", self._lines()))

    def to_frame(self) -> Any:
        """Return a pandas DataFrame with one row per trial, and one column per metric.

        Raises
        ------
        ConfigError
            pandas is not installed.
        """
        names = ("recipe", "variant", "seed", "fold", "parameters", "seconds", "peak", "per_1000")
        return tables.frame({**{n: getattr(one, n) for n in names}, **one.values} for one in self.trials)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON: every trial without its scores, and the summaries."""
        return {
            "package": __version__,
            "trials": [trial.to_dict() for trial in self.trials],
            "summaries": [_finite(vars(s)) for s in (*self.summaries, *self.ensembles(), self.random)],
        }

    def plot(self) -> Figure:
        """Draw the metric of every recipe, seed by seed, above that of a random order.

        Returns
        -------
        matplotlib.figure.Figure
            A line for each recipe.
        """
        values: dict[str, list[float]] = {summary.name: [] for summary in self.summaries}
        for trial in self.trials:
            values[trial.name] += [trial.values[self.metric]] if self.metric in trial.values else []
        shown = {name: found or [math.nan] for name, found in values.items()}
        return plot.compared(shown, self.metric, self.random.mean.get(self.metric, math.nan))

    def save(self, path: str | os.PathLike[str], heading: str = "") -> None:
        """Write a table, the values and a picture: ``<path>.md``, ``<path>.json`` and ``<path>.png``.

        Parameters
        ----------
        path : path
            Without an ending.
        heading : str
            Stands above the table.
        """
        base, above = os.fspath(path), f"{heading}\n\n" if heading else ""
        plot.save(self.plot(), f"{base}.png")
        json_text = json.dumps(self.to_dict(), indent=1, allow_nan=False)
        for suffix, text in ((".md", above + self.to_markdown()), (".json", json_text)):
            files.write_whole(base + suffix, text + "\n")


def _mixed(members: Sequence[Parts], normalize: str, weights: NDArray[np.float64] | None) -> Parts:
    """Return the weighted mean of the normalized scores of every graph, as an ensemble computes it."""
    shares = np.ones(len(members)) if weights is None else weights
    shares = shares / math.fsum(shares)
    found = []
    for graph in zip(*members, strict=True):
        parts = zip(graph, shares, strict=True)
        found.append(mixed((normalized(own, normalize), share) for own, share in parts if share > 0))
    return found


def _spread(metric: str, one: Summary) -> str:
    """Return mean and standard deviation as shown in tables; slowdowns in per cent."""
    mean, sd = one.mean.get(metric, math.nan), one.sd.get(metric, math.nan)
    scale, digits, unit = (100, 1, " %") if metric.startswith("slowdown") else (1, 3, "")
    if math.isnan(mean):
        return "-"
    return f"{scale * mean:.{digits}f}{unit}" + (f" ± {scale * sd:.{digits}f}" if math.isfinite(sd) else "")


def _finite(value: Any) -> Any:
    """Replace NaN by None, for JSON."""
    if isinstance(value, dict):
        return {name: _finite(one) for name, one in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value
