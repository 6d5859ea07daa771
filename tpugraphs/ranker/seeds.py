"""Training of several rankers side by side: members of an ensemble, or seeds, selected by a stated rule."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Unpack, overload

import numpy as np

from tpugraphs import __version__
from tpugraphs.data.graph import Graphs, Rows, Valid
from tpugraphs.data.identity import facts
from tpugraphs.distributed.ranks import CommunicatorLike, Ranks
from tpugraphs.errors import CheckpointError, ConfigError, Error
from tpugraphs.evaluation.evaluator import EvaluateOptions, evaluate
from tpugraphs.evaluation.report import Report
from tpugraphs.evaluation.scorer import ChooseOptions, Scorer
from tpugraphs.ranker.ensemble import Ensemble
from tpugraphs.ranker.estimator import NetworkEstimator
from tpugraphs.ranker.ranker import Ranker
from tpugraphs.ranker.scorer import scoring, unchanged_if_it_fails
from tpugraphs.ranker.together import train_together
from tpugraphs.recipes import Recipe, plain
from tpugraphs.system import check_whole, counted, files, json_text, markup, signatures, tables, texts
from tpugraphs.training.callbacks import Callback, History, curves, pass_on_interrupt
from tpugraphs.training.crew import Crew
from tpugraphs.training.fit import FitOptions, locked_folder
from tpugraphs.training.selection import ONE_STANDARD_ERROR, Rule, SeedMetrics
from tpugraphs.training.trainset import no_graphs

if TYPE_CHECKING:
    from tpugraphs.ranker.arguments import FitTogether, SeedArguments
    from tpugraphs.recipes.fields import FieldsButLength, RecipeName, Unknown

    class Seeding(FieldsButLength, SeedArguments, total=False):
        """Fields of the rankers, and arguments of their fits."""


__all__ = ["SeedRun", "SeedRuns", "train_seeds"]

# Arguments of a fit that rankers which are trained side by side have in common.
TOGETHER = (
    "sample_weight", "epochs", "steps", "checkpoint_dir", "checkpoint_every", "verbose", "communicator",
)  # fmt: skip
PLAN = "seeds.json"  # in the checkpoint folder: what was stated before the training


@dataclass
class SeedRun:
    """Training with one seed.

    Attributes
    ----------
    seed : int
    ranker : Ranker
        Not fitted if the training failed or Ctrl-C came before its first step.
    metric : float or None
        Mean validation metric over the graphs; None without validation, or without a usable ranker.
    values : list of float
        The metric of every validation graph.
    failed : str or None
        Why training ended without a ranker.
    selected : bool
    why : str
        Why it was or was not selected.
    """

    seed: int
    ranker: Ranker
    metric: float | None = None
    values: list[float] | None = None
    failed: str | None = None
    selected: bool = False
    why: str = "interrupted before its first step"

    @property
    def choice(self) -> str:
        """Whether the ranker was selected, in words."""
        return "kept" if self.selected else "not kept"

    @property
    def history(self) -> History | None:
        """History of the fit."""
        return getattr(self.ranker, "history_", None)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON, with the whole curves."""
        own = {name: value for name, value in vars(self).items() if name != "ranker"}
        return {**own, "history": self.history and self.history.to_dict()}


@dataclass(repr=False, eq=False)
class SeedRuns:
    """Rankers of several seeds, their validation metrics, and which were selected.

    Attributes
    ----------
    runs : tuple of SeedRun
        One per seed, in the order given.
    rule : Rule
        Stated before the training.
    graphs : list of str
        Names of the validation graphs.
    judgement : SeedMetrics or None
        Validation metrics of the usable rankers; None without validation.
    interrupted : bool
        Whether Ctrl-C ended the training.
    seconds : float
        Time that this call took.
    """

    runs: tuple[SeedRun, ...]
    rule: Rule
    graphs: list[str]
    judgement: SeedMetrics | None
    interrupted: bool
    seconds: float

    @property
    def rankers(self) -> tuple[Ranker, ...]:
        """All usable rankers."""
        return tuple(run.ranker for run in self.runs if run.ranker.fitted)

    @property
    def selected(self) -> tuple[Ranker, ...]:
        """The rankers that the rule keeps."""
        return tuple(run.ranker for run in self.runs if run.selected)

    @property
    def metrics(self) -> dict[int, float | None]:
        """Validation metric by seed."""
        return {run.seed: run.metric for run in self.runs}

    @property
    def mean(self) -> float | None:
        """Mean of the validation metric over seeds."""
        return None if self.judgement is None else self.judgement.mean

    @property
    def sd(self) -> float | None:
        """Sample standard deviation of the validation metric over seeds."""
        return None if self.judgement is None else self.judgement.sd

    @property
    def interval(self) -> tuple[float, float] | None:
        """95 % bootstrap interval of `mean`, over graphs, or over the configs of a single one."""
        return None if self.judgement is None else self.judgement.interval

    def ensemble(self, weights: Sequence[float] | None = None, normalize: str = "none") -> Ensemble:
        """Make an ensemble of the selected rankers.

        Parameters
        ----------
        weights : sequence of float, optional
            One for each selected ranker; by default all equal.
        normalize : {"none", "minmax", "rank"}
            How to normalize each ranker's scores first.

        Returns
        -------
        Ensemble
            Of the selected rankers. If the default rule kept a single one of several, a warning says so.
        """
        if len(self.selected) == 1 and len(self.rankers) > 1 and self.rule.name == ONE_STANDARD_ERROR:
            warnings.warn(
                f"an ensemble of one: the rule kept 1 of {counted(len(self.rankers), 'ranker')}; "
                "train_seeds(..., select='all') keeps all, tg.Ensemble(runs.rankers) joins these",
                stacklevel=2,
            )
        return Ensemble(self.selected, weights, normalize)

    def evaluate(
        self,
        graphs: Graphs,
        configs: Rows | None = None,
        tta: int = 0,
        precision: str | None = None,
        normalize: str = "none",
        **options: Unpack[EvaluateOptions],
    ) -> Report:
        """Judge every ranker, and the ensemble of the selected ones; see :meth:`Ensemble.evaluate`.

        The scorers of the report are called ``"seed 0"`` and so on, and ``"ensemble"``.

        Parameters
        ----------
        graphs, configs, tta, precision, **options
            See :meth:`tpugraphs.Ranker.evaluate`.
        normalize : {"none", "minmax", "rank"}
            Of the ensemble.

        Returns
        -------
        Report
            With a row for every seed and the ensemble.
        """
        judged: dict[str, Scorer] = {f"seed {ranker.seed}": ranker for ranker in self.rankers}
        judged["ensemble"] = self.ensemble(normalize=normalize)
        how: ChooseOptions = {"tta": tta, "precision": precision, "verbose": options.get("verbose")}
        scorers = {name: scoring(one, **how) for name, one in judged.items()}
        return evaluate(scorers, graphs, configs=configs, **options)

    def spread(self, report: Report, metric: str = "tau") -> tuple[float, float]:
        """Return the mean of a metric over seeds, and its sample standard deviation.

        Parameters
        ----------
        report : Report
            What `evaluate` returned.
        metric : str
            A column of the report.

        Returns
        -------
        mean, sd : float
            The deviation of a single seed is NaN.
        """
        values = [report.mean(metric, scorer=f"seed {ranker.seed}") for ranker in self.rankers]
        return float(np.mean(values)), float(np.std(values, ddof=1)) if len(values) > 1 else float("nan")

    def to_frame(self) -> Any:
        """Return a pandas DataFrame with one row per seed: validation metric, whether selected, and why.

        Raises
        ------
        ConfigError
            pandas is not installed.
        """
        rows = [(run.seed, run.metric, run.selected, run.why, run.failed) for run in self.runs]
        return tables.frame(rows, ("seed", self.runs[0].ranker.metric, "selected", "why", "failed"))

    def to_dict(self) -> dict[str, Any]:
        """Return the log as plain values: rule, curves, and the choice with its reasons."""
        one, j = self.runs[0].ranker, self.judgement
        return {
            "package": __version__,
            **{name: getattr(one, name) for name in ("recipe", "preset", "precision", "metric")},
            "fields": plain(one.fields),
            "rule": {"select": self.rule.name, "text": self.rule.text},
            "validation_graphs": self.graphs,
            "mean": self.mean,
            "sd": None if j is None or len(j.means) < 2 else j.sd,
            "interval": None if j is None else list(j.interval),
            "interval_over": None if j is None else j.over,
            "selected": [run.seed for run in self.runs if run.selected],
            "interrupted": self.interrupted,
            "seconds": self.seconds,
            "runs": [run.to_dict() for run in self.runs],
        }

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the log as JSON.

        Parameters
        ----------
        path : path
            Usually ends in ``.json``.
        """
        files.write_whole(path, json_text(self.to_dict()) + "\n")

    def __repr__(self) -> str:
        return f"<SeedRuns: {counted(len(self.runs), 'seed')}>\n{self.table()}"

    def _repr_html_(self) -> str:
        metric = self.runs[0].ranker.metric
        facts = {"rule": self.rule.text, **self._summary(), "time": f"{self.seconds:.1f} s"}
        cells = [
            [str(run.seed), "-" if run.metric is None else f"{run.metric:.4f}", run.choice, run.why]
            for run in self.runs
        ]
        fits = {f"seed {run.seed}": run.history for run in self.runs if run.history is not None}
        parts = markup.table(("seed", metric, "choice", "why"), cells), curves(fits, metric)
        what = f"{counted(len(self.runs), 'seed')}{', interrupted' if self.interrupted else ''}"
        return markup.card("SeedRuns", self.runs[0].ranker.recipe, what, facts, *parts)

    def _summary(self) -> dict[str, str]:
        """Return the mean over seeds with its deviation, and its interval, in words."""
        if (j := self.judgement) is None:
            return {}
        spread = f" ± {j.sd:.4f}" if len(j.means) > 1 else ""
        return {
            f"validation {self.runs[0].ranker.metric}": f"{j.mean:.4f}{spread}",
            "95 % interval": "{:.4f} … {:.4f}".format(*j.interval) + f", over {j.over}",
        }

    def table(self) -> str:
        """Return a line of text about every seed, and the result."""
        lines = [f"seed {run.seed}: {run.choice}: {run.why}" for run in self.runs]
        if self.judgement is not None:
            (metric, mean), (heading, interval) = self._summary().items()
            seeds = counted(len(self.judgement.means), "seed")
            lines.append(f"{metric}: {mean} over {seeds}; {heading}: {interval}")
        return "\n".join([*lines, f"rule: {self.rule.text}"])


def _checked(
    rankers: Sequence[Ranker], how: FitOptions, folders: Iterable[str], callbacks: Any = None
) -> list[FitOptions]:
    """Return checked options of every fit, with its folder below `checkpoint_dir` and a seed's callbacks."""
    found = []
    for one, name in zip(rankers, folders, strict=True):
        folder = None if how.checkpoint_dir is None else os.path.join(how.checkpoint_dir, name)
        called = () if callbacks is None else callbacks(one.seed)
        found.append(one.checked(replace(how, checkpoint_dir=folder, callbacks=called, communicator=None)))
    return found


@signatures.shows(FitOptions, TOGETHER)
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
    communicator : CommunicatorLike, optional
        Ranks that share the rankers: each trains some, and all get all, with the same bits. See
        :mod:`tpugraphs.distributed`.
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
    given = FitOptions(**signatures.checked_names("train_members", TOGETHER, options))
    comm, folders = options.pop("communicator", None), [f"member-{i}" for i in range(len(members))]
    every = dict(zip(members, _checked(members, given, folders), strict=True))
    networks = {one: made for one in members if isinstance(made := one._fresh(), NetworkEstimator)}
    interrupted = False
    with unchanged_if_it_fails(*members):
        if networks:
            those = [every[one] for one in networks]
            crew = train_together([*networks.values()], train, valid, those, workers, False, comm)
            for fit, text in crew.failed.items():
                raise Error(f"{fit.ranker.recipe}: {text}")
            interrupted = crew.stop.pressed
            whole = len(networks) == len(members) and all(fit.step > 0 for fit in crew.fits)
            if interrupted and not whole:
                raise KeyboardInterrupt
        for one, network in networks.items():
            one._take(network)
        _fit_trees([one for one in members if one not in networks], train, valid, options, comm)
    if interrupted:
        warnings.warn("interrupted: the rankers are usable", stacklevel=2)
    return Ensemble(members, weights, normalize)


def _fit_trees(
    rankers: Sequence[Ranker], train: Graphs, valid: Valid, options: Any, comm: CommunicatorLike | None
) -> None:
    """Fit rankers without networks one by one, or those of each rank there."""
    ranks = Ranks(comm)

    def fitted(i: int) -> Any:
        pass_on_interrupt(rankers[i].fit(train, valid, **options))
        return None if ranks.alone else rankers[i].to_file()

    same = facts({"graphs to train on": train, "graphs to validate on": valid})
    for i, learnt in enumerate(ranks.each(len(rankers), fitted, same)):
        if (rank := i % ranks.size) != ranks.rank:
            rankers[i]._take(Ranker.from_file(f"rank {rank}", *learnt).estimator)


def _members(rankers: Any) -> list[Ranker]:
    """Return the rankers, new ones for recipe names; ConfigError for anything else, or one given twice."""
    several = isinstance(rankers, Iterable) and not isinstance(rankers, str)
    members = [Ranker(one) if isinstance(one, str) else one for one in (rankers if several else ())]
    if not members or not all(isinstance(one, Ranker) for one in members):
        raise ConfigError(f"rankers: expected a list of rankers or names of recipes, got {rankers!r:.80}")
    if len({id(one) for one in members}) < len(members):
        raise ConfigError("rankers: expected different ones, got one twice; make another with another seed")
    return members


@overload
def train_seeds(
    recipe: RecipeName | str = ..., train: Graphs | None = ..., valid: Valid = ..., **options: Unpack[Seeding]
) -> SeedRuns: ...
@overload
def train_seeds(recipe: Recipe, train: Graphs, valid: Valid = None, **options: Any) -> SeedRuns: ...
@overload
def train_seeds(
    recipe: str = ..., train: Graphs | None = ..., valid: Valid = ..., **options: Unknown
) -> SeedRuns: ...
@signatures.shows(FitOptions, TOGETHER)  # type: ignore[misc]  # no value fits the third
def train_seeds(
    recipe: str | Recipe = "first-layout",
    train: Graphs | None = None,
    valid: Valid = None,
    *,
    seeds: int | Iterable[int] = 5,
    select: str | int | None = None,
    callbacks: Callable[[int], Sequence[Callback]] | None = None,
    workers: int | None = None,
    preset: str = "cpu",
    precision: str = "f32",
    **fields: Any,
) -> SeedRuns:
    """Train rankers with several seeds side by side, and select some of them by a rule stated in advance.

    The graphs are read and prepared once, for all. Each ranker has the same bits as alone, from
    ``Ranker(recipe, seed=seed, ...).fit(train, valid, ...)``.

    Parameters
    ----------
    recipe, preset, precision, **fields
        See :class:`tpugraphs.Ranker`.
    train, valid, sample_weight, epochs, steps, checkpoint_every, verbose
        See :meth:`tpugraphs.Ranker.fit`. If `valid` is a share of the configs, all seeds hold out the same
        ones: those of the first seed.
    seeds : int or ints
        Number of seeds, counted from 0, or the seeds themselves.
    select : {"one-standard-error", "all", "best-<k>"} or int, optional
        Which rankers to keep. By default: those whose validation metric is at most one standard error below
        the best one's; the error is that of the difference, over graphs or, with a single graph, over redrawn
        configs. Without validation the default is to keep all. A number keeps that many of the best.
    callbacks : callable, optional
        ``callbacks(seed)`` returns the callbacks of that seed's fit. They are called in threads.
    communicator : CommunicatorLike, optional
        Ranks that share the seeds: each trains some, and all get all, with the same bits. See
        :mod:`tpugraphs.distributed`.
    checkpoint_dir : path, optional
        Folder of the states, ``seed-<seed>`` for each, and of the rule, which is written before training
        begins. The same call resumes from it exactly; another rule is refused.
    workers : int, optional
        Number of steps taken at the same time, each in a separate thread with its share of the core's
        threads; by default the number of seeds or threads, whichever is less. It changes the time and the
        working memory, but no result.

    Returns
    -------
    SeedRuns
        After Ctrl-C `interrupted` is set, a warning is issued, and the rankers have their best parameters so
        far.

    Raises
    ------
    ConfigError
        A value out of range; a rule that needs validation without it.
    CheckpointError
        `checkpoint_dir` was begun with another rule, other seeds or another recipe.
    Error
        All seeds failed. A seed whose training diverges is left out; the log says so.
    KeyboardInterrupt
        Ctrl-C before the end of any step.

    Examples
    --------
    >>> import tpugraphs as tg
    >>> programs = tg.open_collection("options:xla:cpu")
    >>> train, valid = programs.train[:4], programs.valid[:2]
    >>> runs = tg.train_seeds(
    ...     "graph-config", train, valid, seeds=2, select="all", steps=5, verbose=False
    ... )
    >>> runs.ensemble()
    <Ensemble: 2 x graph-config, normalize='none'>
    """
    began = time.monotonic()
    numbers = seed_numbers(seeds)
    how = FitOptions(**{name: fields.pop(name) for name in fields.keys() & set(TOGETHER)})
    if "seed" in fields:
        raise ConfigError(f"seed: every ranker has its own; give seeds=[{fields['seed']!r}] for this one")
    no_valid = no_graphs(valid)
    rule = Rule.parse(select if select is not None else "all" if no_valid else ONE_STANDARD_ERROR)
    if no_valid and rule.name != "all":
        raise ConfigError(f"select={rule.name!r} compares validation metrics: give valid, or select='all'")
    if callbacks is not None and not callable(callbacks):
        raise ConfigError("callbacks: expected a function of the seed that gives a list of callbacks")
    rankers = [Ranker(recipe, seed=s, preset=preset, precision=precision, **fields) for s in numbers]
    networks = [one.estimator for one in rankers if isinstance(one.estimator, NetworkEstimator)]
    if not networks:
        todo = "fit a ranker per seed, then tg.Ensemble(rankers)"
        raise ConfigError(f"recipe {rankers[0].recipe} trains no network: {todo}")
    every = _checked(rankers, how, [f"seed-{seed}" for seed in numbers], callbacks)
    comm = how.communicator
    with locked_folder(how.checkpoint_dir, comm) as folder:
        if folder is not None and (comm is None or comm.rank == 0):
            _state_plan(folder, rankers[0], numbers, rule)
        crew = train_together(networks, train, valid, every, workers, True, comm)
    return _runs(crew, rule, began)


def seed_numbers(seeds: Any) -> list[int]:
    """Return the seeds: those given, or that many from 0 on. Raises ConfigError for anything else."""
    listed = isinstance(seeds, Iterable) and not isinstance(seeds, (str, bytes))
    given = list(seeds) if listed else range(check_whole("seeds", seeds, 1, 10_000))
    numbers = [check_whole("seeds", one, 0) for one in given]
    if not numbers or len(set(numbers)) < len(numbers):
        raise ConfigError(f"seeds: expected how many, or a list of different whole numbers, got {seeds!r}")
    return numbers


def _state_plan(folder: str, ranker: Ranker, seeds: list[int], rule: Rule) -> None:
    """Write recipe, seeds and rule to the folder; refuse to resume with others."""
    path = os.path.join(folder, PLAN)
    plan = {"recipe": ranker.recipe, "seeds": seeds, "select": rule.name, "text": rule.text}
    if not os.path.exists(path):
        files.write_whole(path, json_text(plan) + "\n")
        return
    try:
        stated = texts.parsed(texts.read_whole(path))
    except ValueError as error:
        raise CheckpointError(f"not JSON: {error}; delete it to state another rule", file=path) from None
    for key in ("recipe", "seeds", "select"):
        found = stated.get(key) if isinstance(stated, dict) else None
        if found != plan[key]:
            before = f"{found!r}, which was stated before the training"
            todo = "continue with that, or use another checkpoint_dir"
            raise CheckpointError.of(key, repr(plan[key]), before, todo, file=path)


def _runs(crew: Crew, rule: Rule, began: float) -> SeedRuns:
    """Judge and select the rankers that have learnt something."""
    runs = {fit: SeedRun(fit.seed, fit.ranker) for fit in crew.fits}
    for fit, text in crew.failed.items():
        fit.ranker.reset()
        runs[fit].failed, runs[fit].why = text, f"failed: {text}"
    usable = [fit for fit in crew.fits if fit.ranker.fitted]
    if not usable:
        if crew.stop.pressed:
            raise KeyboardInterrupt
        raise Error(f"training failed with every seed; the first: {next(iter(crew.failed.values()))}")
    judgement, names = None, []
    if usable[0].valid:
        judged = [list(fit.valid_scores()) for fit in usable]
        names, runtimes = [name for name, _, _ in judged[0]], [times for _, _, times in judged[0]]
        judgement = SeedMetrics([[s for _, s, _ in own] for own in judged], runtimes, usable[0].judge)
        for i, choice in enumerate(judgement.choose(rule)):
            run = runs[usable[i]]
            run.metric, run.values = float(judgement.means[i]), judgement.values[i].tolist()
            run.selected, run.why = choice.selected, choice.why
    else:
        for fit in usable:
            runs[fit].selected, runs[fit].why = True, "all are kept"
    if crew.stop.pressed:
        steps = ", ".join(f"{fit.step} of {fit.total}" for fit in crew.fits)
        resumes = crew.fits[0].path is not None
        again = "; the same call with the same checkpoint_dir resumes" if resumes else ""
        warnings.warn(f"interrupted after steps {steps}: the rankers are usable{again}", stacklevel=3)
    seconds = time.monotonic() - began
    return SeedRuns(tuple(runs.values()), rule, names, judgement, crew.stop.pressed, seconds)
