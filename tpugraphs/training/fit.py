"""The fit loop: evaluation, exact resume, interruption.

Everything random in a fit is a function of (seed, number of the step), so the state of a fit is small:
parameters, moments, and the number of steps done. A checkpoint holds that state. A fit that resumes from it
ends with the same bits as one that was never stopped.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import os
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tpugraphs import _core, metrics
from tpugraphs.data.graph import SampleWeight
from tpugraphs.errors import CheckpointError, ConfigError, DataError, Error, NotFiniteError, printable
from tpugraphs.evaluation.scorer import Scorer
from tpugraphs.kernels import schedules
from tpugraphs.kernels.streams import Stream
from tpugraphs.network.network import Network
from tpugraphs.preprocess.pipeline import Pipeline
from tpugraphs.recipes import plain
from tpugraphs.recipes.declared import plain_value
from tpugraphs.recipes.functions import function_name
from tpugraphs.system import files, tensorfile
from tpugraphs.system.interrupts import Interrupts
from tpugraphs.system.progress import Progress, wanted
from tpugraphs.system.words import counted
from tpugraphs.training.averaging import Average
from tpugraphs.training.callbacks import Callback, History, RunningFit
from tpugraphs.training.optimizer import Optimizer
from tpugraphs.training.sampling import (
    EvenVisits,
    OversampledVisits,
    Visits,
    WeightedVisits,
    any_rows,
    close_rows,
    fast_rows,
    happens,
)
from tpugraphs.training.segments import Drawn, Segments
from tpugraphs.training.trainset import TrainingSet
from tpugraphs.training.tuning import Tuning

__all__ = ["CHECKPOINT", "Fit", "FitOptions", "held"]

#: Name of the file with the state of a fit, in its folder of checkpoints.
CHECKPOINT = "checkpoint.safetensors"
_SOME, _FAR = 10, 100  # training diverged if the median of that many losses has grown that many times


class Networked(Protocol):
    """An object with a network, such as a :class:`tpugraphs.Ranker`."""

    @property
    def network(self) -> Network:
        """The network."""
        ...


@dataclass(frozen=True, kw_only=True)
class FitOptions:
    """Keyword arguments of a fit: names, types and defaults of those of :meth:`tpugraphs.Ranker.fit`.

    Attributes
    ----------
    y, sample_weight, epochs, steps, callbacks, checkpoint_dir, checkpoint_every, verbose
        See :meth:`tpugraphs.Ranker.fit`.
    init, freeze, learning_rate, groups
        See there.
    ranker : Scorer
        The ranker that is fitted, for callbacks. Not an argument of `fit`: the ranker adds itself.
    """

    y: Any = None
    sample_weight: SampleWeight = None
    epochs: int | None = None
    steps: int | None = None
    callbacks: Sequence[Callback] = ()
    checkpoint_dir: str | os.PathLike[str] | None = None
    checkpoint_every: int = 100
    verbose: bool | None = None
    init: Networked | None = None
    freeze: str | Sequence[str] = ()
    learning_rate: float | None = None
    groups: Sequence[Mapping[str, Any]] = ()
    ranker: Scorer | None = None

    @functools.cached_property
    def tuning(self) -> Tuning:
        """Parameters that stay unchanged or have another learning rate."""
        return Tuning(self.freeze, self.groups)


def _check_callbacks(callbacks: Any) -> None:
    given = callbacks if isinstance(callbacks, (list, tuple)) else [callbacks]
    wrong = [c for c in given if not isinstance(c, Callback)] if given is callbacks else given
    if wrong:
        todo = "; write [callback]" if isinstance(callbacks, Callback) else ""
        todo = " in it" if given is callbacks else todo
        raise ConfigError(
            "callbacks: expected a list of objects of classes derived from tpugraphs.training.Callback, got "
            f"{type(wrong[0]).__name__}{todo}"
        )


@contextmanager
def held(checkpoint_dir: str | os.PathLike[str] | None) -> Iterator[str | None]:
    """Make the folder and lock it for one fit: two would overwrite each other's state."""
    if checkpoint_dir is None:
        yield None
        return
    folder = files.absolute(checkpoint_dir)
    os.makedirs(folder, exist_ok=True)
    with files.locked(folder):
        yield folder


class Fit(RunningFit):
    """A running fit of a network, which has the current weights.

    Parameters
    ----------
    network : Network
        What is trained.
    data : TrainingSet
        Prepared graphs.
    folder : str or None
        Folder of checkpoints.
    how : FitOptions
        Arguments of `fit`.

    Attributes
    ----------
    network : Network
        Its model and preprocessing.
    """

    def __init__(self, network: Network, data: TrainingSet, folder: str | None, how: FitOptions) -> None:
        _check_callbacks(how.callbacks)
        self.network, self.fields = network, network.fields
        if how.learning_rate is not None:
            self.fields = dataclasses.replace(self.fields, learning_rate=how.learning_rate)
        self.data, network.pipeline = data, data.pipeline
        network.learnt_from = frozenset(data.known)
        network.follow()
        self.model, self.trainer = network.model, network.trainer
        if how.init is not None:
            self.model.params[:] = how.init.network.model.params
        self.optimizer, self.seed = Optimizer(network, how.tuning), network.seed
        self.segments = Segments(self.fields.segment_keep, network.seed)
        self.checkpoint_every = how.checkpoint_every
        self.verbose, self.valid = wanted(how.verbose), data.valid
        self.visits = self._visits()
        each = self.fields.slates * self.fields.accumulate  # visits per step
        total = how.steps if how.steps is not None else -(-int(how.epochs or 1) * self.visits.epoch // each)
        self.evaluate_every = self.fields.evaluate_every or -(-self.visits.epoch // each)
        history = History(total_steps=total, skipped=data.skipped, metric=network.metric)
        super().__init__(how.ranker, history, how.callbacks)
        self.visit, self.finished = 0, False
        self.instruction_sets = [_core.get_isa()]  # that it has run on; the last one is in use
        self.average = Average(self.fields, self.total)
        self.best: NDArray[np.float32] | None = None
        self.path = None
        if folder is not None:
            self.path = os.path.join(folder, CHECKPOINT)
            files.remove_unfinished(self.path)
        self.identity = self._identity(how)

    def _visits(self) -> Visits:
        # if no graph can be trained on, the first visit says why
        how, counts, key = self.fields.graph_sampling, np.array(self.data.counts), (self.seed, Stream.ORDER)
        if how == "sqrt-configs" and any(counts):
            each = self.fields.slates * self.fields.accumulate
            return OversampledVisits(counts, self.fields.configs, each, key)
        if how == "slates" and any(counts):
            return WeightedVisits(np.maximum(counts // self.fields.configs, counts > 0), key)
        return EvenVisits(len(self.data.graphs), key)

    def _given(self, how: FitOptions) -> dict[str, str]:
        """Return the name of the function of further features and the digest of given weights, if any."""
        extra = self.network.pipeline.extra
        found = {} if extra is None else {"extra": function_name(extra)}
        if how.init is None:
            return found
        return found | {
            "init": hashlib.blake2b(how.init.network.model.params.tobytes(), digest_size=16).hexdigest()
        }

    def _model_digest(self) -> str:
        """Return a hash of steps, losses and groups, which a custom recipe's name and fields do not fix."""
        network = self.network
        parts = [network.pipeline.steps, network.steps, network.recipe.losses(self.fields), network.groups]
        return hashlib.blake2b(json.dumps(plain_value(parts)).encode(), digest_size=8).hexdigest()

    def _identity(self, how: FitOptions) -> dict[str, Any]:
        """Return the entries that a checkpoint must match before a fit resumes from it."""
        return {
            "recipe": self.network.recipe.name,
            "seed": self.seed,
            "precision": self.network.precision,
            **{f"field {n}": v for n, v in plain(self.fields).items() if n not in ("steps", "epochs")},
            "total steps": self.total,
            **self.data.hashes,
            **self._given(how),
            "model": self._model_digest(),
            **{name: given for name in ("freeze", "groups") if (given := getattr(how.tuning, name))},
            "callbacks": [type(callback).__name__ for callback in self.callbacks],
        }

    # The loop

    def run(self) -> History:
        """Train to the end, or until stopped or interrupted; then give the ranker the best parameters.

        Returns
        -------
        History
            What happened.

        Raises
        ------
        KeyboardInterrupt
            Ctrl-C before the end of the first step.
        """
        name = self.network.recipe.name
        with Interrupts() as interrupts:
            with Progress(self.total, name, "step", self.verbose) as bar:
                try:
                    self.begin(interrupts)
                    while self.advance(interrupts):
                        if self.verbose:
                            bar.show(self.step, self._shown())
                except KeyboardInterrupt:
                    interrupts.pressed = True
            if interrupts.pressed and self.step == 0:
                raise KeyboardInterrupt
            self.end(interrupts.pressed)
        if self.history.interrupted:
            self._warn()
        return self.history

    def begin(self, interrupts: Interrupts) -> None:
        """Resume from a checkpoint if there is one.

        Parameters
        ----------
        interrupts : Interrupts
            Whether Ctrl-C was pressed.
        """
        with self._timed():
            if self.path is not None and os.path.exists(self.path):
                self._resume(self.path)
            self.tell("on_fit_begin")
            self._evaluate_if_due(interrupts)  # a fit may have been interrupted between a step and this

    def advance(self, interrupts: Interrupts) -> bool:
        """Take one step and do what is due after it.

        Parameters
        ----------
        interrupts : Interrupts
            Whether Ctrl-C was pressed.

        Returns
        -------
        bool
            False at the end, where no step is taken.
        """
        self.finished = self.step == self.total or self.history.stopped is not None
        going = not self.finished and not interrupts.pressed
        if going:
            with self._timed():
                self._train_step(interrupts)
                self.tell("on_step")
                self._evaluate_if_due(interrupts)
        if self.path is not None and (self.step % self.checkpoint_every == 0 if going else self.finished):
            with self._timed():
                self._save(self.path)
        return going

    def end(self, interrupted: bool) -> None:
        """Give the ranker the best parameters. The state of an interrupted fit is written first.

        Parameters
        ----------
        interrupted : bool
            Whether Ctrl-C ended it.
        """
        if interrupted and not self.finished:
            self.history.interrupted = True
            if self.path is not None:
                self._save(self.path)
        self._restore_best()
        self._warn_of_divergence()
        self.tell("on_fit_end")
        self.data.warn(stacklevel=5)

    @contextmanager
    def _timed(self) -> Iterator[None]:
        began = time.monotonic()
        try:
            yield
        finally:
            self.history.seconds += time.monotonic() - began

    def _next_slate(self) -> tuple[int, _core.Prepared, NDArray[np.int64]]:
        """Return number, graph and rows of the next visit that finds a graph to learn from."""
        while True:
            index, before = self.visits.at(self.visit)
            self.visit += 1
            prepared = self.data.prepared(index)
            if prepared is not None:
                break
        return index, prepared, self._rows(index, before, prepared)

    def _rows(self, index: int, before: int, prepared: _core.Prepared) -> NDArray[np.int64]:
        """Choose the configs (n,) of a visit to graph `index`, the number `before` among its visits."""
        count, key = min(self.fields.configs, prepared.num_configs), (self.seed, Stream.CLOSE, self.visit)
        if happens(self.fields.close, (*key, 0)):
            return close_rows(prepared.by_runtime, count, (*key, 1))
        if self.fields.config_sampling == "replacement":
            return any_rows(prepared.num_configs, self.fields.configs, (self.seed, Stream.ROWS, self.visit))
        if self.fields.config_sampling == "gumbel":
            key = (self.seed, Stream.FAST, self.visit)
            return fast_rows(prepared.by_runtime, count, self.fields.config_temperature, key)
        return self.visits.rows(
            index, before, prepared.num_configs, self.fields.configs, (self.seed, Stream.ROWS)
        )

    def _next_slates(self) -> tuple[list[tuple[_core.Prepared, NDArray[np.int64]]], list[Drawn], str]:
        """Return graphs and rows of the next pass, what is trained of each, and the graphs' names."""
        chosen, drawn = [], []
        for _ in range(self.fields.slates):
            index, prepared, rows = self._next_slate()
            chosen.append((prepared, rows))
            drawn.append(self.segments.draw(index, self.visit, prepared, rows))
        return chosen, drawn, ", ".join(dict.fromkeys(prepared.name for prepared, _ in chosen))

    def _scale_and_shift(self, graph: str, rows: NDArray[np.int64]) -> tuple[Any, Any] | None:
        """Return scale and shift of the scores of a slate, from the first callback that returns them."""
        given = (callback.scale_and_shift(self, graph, rows) for callback in self.callbacks)
        pair = next((pair for pair in given if pair is not None), None)
        if pair is not None and not (isinstance(pair, tuple) and len(pair) == 2):
            raise ConfigError(f"scale_and_shift: expected (scale, shift) or None, got {pair!r:.60}")
        return pair

    def _train_step(self, interrupts: Interrupts) -> None:
        number, visit, parts = self.step + 1, self.visit, int(self.fields.accumulate)
        rate = schedules.rate(number, self.total, self.fields)
        losses: list[float] = []
        norms: list[float] = []
        fresh: list[tuple[Drawn, NDArray[np.float32]]] = []
        try:
            for part in range(parts):
                if interrupts.pressed and part > 0:
                    raise KeyboardInterrupt
                chosen, drawn, names = self._next_slates()
                moved = [
                    one.moved(self._scale_and_shift(prepared.name, rows))
                    for one, (prepared, rows) in zip(drawn, chosen, strict=True)
                ]
                add = functools.partial(
                    self.optimizer.gradients, number, chosen, (part, parts), moved, [d.segment for d in drawn]
                )
                losses.append(self._in_core(interrupts, names, add))
                fresh += zip(drawn, self.optimizer.scores, strict=True)
            update = functools.partial(self.optimizer.update, number, rate, norms)
            self._in_core(interrupts, names, update)
        except KeyboardInterrupt:
            interrupts.pressed = True
            if not norms:
                self.visit = visit
                raise
        self.average.add(number, self.model.params)
        for one in fresh:
            self.segments.store(*one)
        self.step = self.network.trained_steps = number
        self.network.fitted = True
        self.history.loss.append(sum(losses) / parts)
        self.history.learning_rate.append(rate)

    def _in_core(self, interrupts: Interrupts, names: str, work: Callable[[], Any]) -> Any:
        """Allow Ctrl-C to interrupt this work at once: the core then leaves everything unchanged."""
        began = time.monotonic()
        try:
            interrupts.armed = True
            return work()
        except DataError as error:
            self._restore_best()
            if error.field == "values":
                raise ConfigError(
                    f"target={self.fields.target!r}: {names} has numbers that a loss does not take "
                    f"({error}); choose another target, or an offset of the loss"
                ) from error
            if not isinstance(error, NotFiniteError):
                raise
            raise Error(
                f"training diverged at step {self.step + 1} on {names} ({error}); use a learning_rate below "
                f"{self.fields.learning_rate} or a clip below {self.fields.clip}"
            ) from error
        finally:
            interrupts.armed = False
            self.history.step_seconds += time.monotonic() - began

    def _evaluate_if_due(self, interrupts: Interrupts) -> None:
        due = self.step % self.evaluate_every == 0 or self.step == self.total
        if not self.valid or not due or self.step in (0, *self.history.valid_steps[-1:]):
            return
        with self.average.in_use(self.model.params):
            value = self._evaluate(interrupts)
            if self.history.evaluated(self.step, value):
                self.best = self.model.params.copy()
        if 0 < self.fields.stop_after <= self.history.without_better:
            self.stop(f"no better metric in {counted(self.fields.stop_after, 'validation')}")
        self.tell("on_evaluate", value)

    def _evaluate(self, interrupts: Interrupts) -> float:
        """Return the mean metric of the current parameters over the validation graphs."""
        began = time.monotonic()
        try:
            interrupts.armed = True
            return float(np.mean([self.judge(scores, times) for _, scores, times in self.valid_scores()]))
        finally:
            interrupts.armed = False
            self.history.evaluation_seconds += time.monotonic() - began

    def valid_scores(self) -> Iterator[tuple[str, NDArray[np.float32], NDArray[Any]]]:
        """Yield name, scores by the current weights and runtimes (tile: normalised) of validation graphs."""
        for prepared, rows in self.valid:
            yield prepared.name, self.network.score_rows(prepared, rows), prepared.times

    def judge(self, scores: NDArray[Any], times: NDArray[Any]) -> float:
        """Return the validation metric of one graph, `Ranker.metric`: greater is better.

        Parameters
        ----------
        scores, times : (n,) array
            Of one graph.

        Returns
        -------
        float
            In the unit of the metric.
        """
        return metrics.VALIDATION[self.network.metric](scores, times)

    def _restore_best(self) -> None:
        best = self.average.value if self.best is None else self.best
        if best is not None:
            self.model.params[:] = best

    def _warn_of_divergence(self) -> None:
        """Warn if the losses at the end are far above those at the beginning."""
        loss = self.history.loss
        some = min(_SOME, len(loss) // 2)
        if some == 0:
            return
        with np.errstate(over="ignore"):  # a checkpoint may hold any numbers
            first, last = float(np.median(loss[:some])), float(np.median(loss[-some:]))
        if 0 < first < last / _FAR:
            warnings.warn(
                f"training diverged: the loss was {first:.3g} in the first {some} steps and {last:.3g} in "
                f"the last; use a learning_rate below {self.fields.learning_rate} or a clip below "
                f"{self.fields.clip}",
                stacklevel=6,
            )

    def _warn(self) -> None:
        warnings.warn(
            f"interrupted after step {self.step} of {self.total}: the ranker has the "
            f"{'best parameters so far' if self.best is not None else 'parameters of that step'}"
            + ("; call fit again with the same checkpoint_dir to continue" if self.path is not None else ""),
            stacklevel=5,
        )

    def _shown(self) -> dict[str, float]:
        """Return the values next to the progress bar."""
        shown = {"loss": float(np.mean(self.history.loss[-50:]))}
        if self.history.best_metric is not None:
            shown |= {self.network.metric: self.history.valid_metric[-1], "best": self.history.best_metric}
        return shown

    # Checkpoints

    def _save(self, path: str) -> None:
        history, pipeline = self.history, self.network.pipeline
        metadata = {
            "identity": self.identity,
            "preprocessing": pipeline.steps,
            "instruction_sets": self.instruction_sets,
            "step": self.step,
            "sampler": {"visit": self.visit},
            "best_step": history.best_step,
            "seconds": history.seconds,
            "seconds_of": [history.step_seconds, history.evaluation_seconds],
            "stopped": history.stopped,
            "skipped": history.skipped,
            "callbacks": [callback.state() for callback in self.callbacks],
        }
        tensors = {
            "params": self.model.params,
            "moment1": self.trainer.moment1,
            "moment2": self.trainer.moment2,
            "loss": np.asarray(history.loss, np.float64),
            "learning_rate": np.asarray(history.learning_rate, np.float64),
            "valid_steps": np.asarray(history.valid_steps, np.int64),
            "valid_metric": np.asarray(history.valid_metric, np.float64),
            **pipeline.tensors(),
            **self.segments.tensors(),
        }
        if self.best is not None:
            tensors["best_params"] = self.best
        if self.average.value is not None:
            tensors["average"] = self.average.value
        tensorfile.write(path, "checkpoint", metadata, tensors)

    def _resume(self, path: str) -> None:
        metadata, tensors = tensorfile.read(path, "checkpoint")
        identity = tensorfile.entry(path, metadata, "identity", dict)
        self._compare(path, identity)

        def entry(name: str, *kinds: type) -> Any:
            return tensorfile.entry(path, metadata, name, kinds)

        def take(name: str, count: int, dtype: Any) -> NDArray[Any]:
            return tensorfile.take(path, tensors, name, (count,), dtype)

        def refuse(name: str, expected: str, found: Any) -> CheckpointError:
            return tensorfile.fail(path, name, expected, repr(found)[:80])

        step, sampler = entry("step", int), entry("sampler", dict)
        visit = tensorfile.entry(path, sampler, "visit", int)
        states, skipped, spent = entry("callbacks", list), entry("skipped", dict), entry("seconds_of", list)
        sets = entry("instruction_sets", list) if "instruction_sets" in metadata else []  # a later addition
        if not all(isinstance(name, str) for name in sets):
            raise refuse("instruction_sets", "names", sets)
        if not 0 <= step <= self.total or len(states) != len(self.callbacks):
            raise refuse("step", f"a step of {self.total}", step)
        least = step * self.fields.slates * self.fields.accumulate
        most = least if not skipped else 100 * (least + 1) * self.visits.period
        if not least <= visit <= most:  # every visit too many costs time
            raise refuse("sampler.visit", f"{least} to {most} after {counted(step, 'step')}", visit)
        if len(spent) != 2:
            raise refuse("seconds_of", "two numbers", spent)
        named = {f"seconds_of[{i}]": part for i, part in enumerate(spent)}
        times = [float(tensorfile.entry(path, named, name, (float, int))) for name in named]
        seconds, stopped = float(entry("seconds", float, int)), entry("stopped", str, type(None))
        best_step = entry("best_step", int, type(None))
        parameters = self.network.num_parameters
        arrays = {name: take(name, parameters, np.float32) for name in ("params", "moment1", "moment2")}
        best = take("best_params", parameters, np.float32) if best_step is not None else None
        average = take("average", parameters, np.float64) if self.average.begun(step) else None
        valid = tensors["valid_steps"].shape[0] if tensors.get("valid_steps", np.zeros(())).ndim == 1 else 0
        lists = {name: take(name, step, np.float64).tolist() for name in ("loss", "learning_rate")}
        lists["valid_steps"] = take("valid_steps", valid, np.int64).tolist()
        lists["valid_metric"] = take("valid_metric", valid, np.float64).tolist()
        pipeline = Pipeline.from_file(path, entry("preprocessing", list), tensors, self.network.pipeline)
        for name, mine in self.network.pipeline.tensors().items():
            if not np.array_equal(mine, pipeline.tensors()[name]):
                raise tensorfile.fail(path, name, "the constants of these graphs", "others")
        try:
            for callback, state in zip(self.callbacks, states, strict=True):
                callback.restore(state)
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise refuse("callbacks", "states of these callbacks", error) from error
        self.segments.restore(path, tensors, len(self.data.graphs))
        self.model.params[:] = arrays.pop("params")
        for name, array in arrays.items():
            getattr(self.trainer, name)[:] = array
        self.best, self.step, self.visit, self.average.value = best, step, visit, average
        self.network.trained_steps, self.network.fitted = step, step > 0
        history = self.history
        vars(history).update(lists)
        history.best_step, history.seconds, history.stopped = best_step, seconds, stopped
        history.step_seconds, history.evaluation_seconds = times
        history.skipped.update(skipped)
        self._note_instruction_sets(sets)

    def _note_instruction_sets(self, before: list[str]) -> None:
        """Warn if steps of the fit were taken with another instruction set: the last bits of sums differ."""
        here = self.instruction_sets[-1]
        self.instruction_sets = [*(name for name in before if name != here), here]
        if before in ([], [here]):
            return
        same = len(before) == 1 and before[0] in _core.isa_levels()
        theirs = printable(" and ".join(before))
        warnings.warn(
            f"the steps of this checkpoint were taken with the instruction set {theirs}, here {here} is in "
            "use: the fit continues, but not with the bits of one that was never stopped"
            + (f"; TPUGRAPHS_ISA={before[0]} keeps them" if same else ""),
            stacklevel=7,
        )

    def _compare(self, path: str, theirs: Mapping[str, Any]) -> None:
        defaults = {f"field {field.name}": field.default for field in fields(self.fields)}
        mine = self.identity
        newer = mine.keys() & defaults.keys() - theirs.keys()  # fields that are newer than the checkpoint
        theirs = {**theirs, **{key: defaults[key] for key in newer}}
        differ = [key for key in {**mine, **theirs} if mine.get(key) != theirs.get(key)]
        if differ:
            parts = [f"{key}: {theirs.get(key)!r} there, {mine.get(key)!r} here" for key in differ]
            raise CheckpointError(
                f"this checkpoint belongs to another fit ({'; '.join(parts)}); "
                "use another checkpoint_dir, or delete it to start again",
                file=path,
                field=differ[0],
                found=repr(theirs.get(differ[0])),
                expected=repr(mine.get(differ[0])),
            )
