"""The fit loop: evaluation, exact resume, interruption.

Everything random in a fit is a function of (seed, number of the step), so the state of a fit is small:
parameters, moments, and the number of steps done. A checkpoint holds that state. A fit that resumes from it
ends with the same bits as one that was never stopped.
"""

from __future__ import annotations

import functools
import os
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tpugraphs import _core, metrics
from tpugraphs.data.graph import SampleWeight
from tpugraphs.distributed.ranks import CommunicatorLike, Ranks
from tpugraphs.errors import ConfigError, DataError, Error, NotFiniteError
from tpugraphs.evaluation.scorer import Scorer
from tpugraphs.kernels import schedules
from tpugraphs.network.network import Network
from tpugraphs.system import Interrupts, Progress, check_type, counted, files, wanted
from tpugraphs.training import checkpoint
from tpugraphs.training.callbacks import Callback, History, RunningFit
from tpugraphs.training.checkpoint import CHECKPOINT
from tpugraphs.training.optimizer import Average, Optimizer, Tuning
from tpugraphs.training.sharing import Fresh, SharedStep
from tpugraphs.training.trainset import TrainingSet

_VISIT_FIELDS = ("configs", "graph_sampling", "config_sampling", "close", "config_temperature")
_SOME, _FAR = 10, 100  # training diverged if the median of that many losses has grown that many times


Visited = tuple[int, tuple[Any, ...]]  # number of a graph, and what is trained of it


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
    init, freeze, learning_rate, groups, communicator
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
    communicator: CommunicatorLike | None = None
    ranker: Scorer | None = None

    @functools.cached_property
    def tuning(self) -> Tuning:
        """Parameters that stay unchanged or have another learning rate."""
        return Tuning(self.freeze, self.groups)


@contextmanager
def locked_folder(
    checkpoint_dir: str | os.PathLike[str] | None, communicator: CommunicatorLike | None = None
) -> Iterator[str | None]:
    """Make the folder and lock it for one fit: two would overwrite each other's state.

    Of several ranks the first one writes.
    """
    folder = None if checkpoint_dir is None else files.absolute(checkpoint_dir)
    if folder is None or (communicator is not None and communicator.rank > 0):
        yield folder
        return
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
        expected = "a list of objects of classes derived from tpugraphs.training.Callback"
        hint = f"{expected}: write [callback]" if isinstance(how.callbacks, Callback) else expected
        check_type("callbacks", how.callbacks, list, tuple, expected=hint)
        for callback in how.callbacks:
            check_type("callbacks", callback, Callback, expected=expected)
        self.network, self.fields, self.seed = network, network.fields, network.seed
        if how.learning_rate is not None:
            self.fields = replace(self.fields, learning_rate=how.learning_rate)
        self.data, network.pipeline = data, data.pipeline
        network.learnt_from = frozenset(data.known)
        network.follow()
        self.model = network.model
        self.ranks = Ranks(how.communicator)
        if how.init is not None:
            self.model.params[:] = how.init.network.model.params
        self.optimizer = Optimizer(network, how.tuning)
        size = self.model.params.size
        self.shared = None if how.communicator is None else SharedStep(self.ranks, self.optimizer.units, size)
        self.segments = _core.Segments(float(self.fields.segment_keep), self.seed)
        self.checkpoint_every = how.checkpoint_every
        self.verbose, self.valid = wanted(how.verbose) and self.ranks.rank == 0, data.valid
        f, self.per_step = self.fields, self.fields.slates * self.fields.accumulate  # visits
        sampling = {name: getattr(f, name) for name in _VISIT_FIELDS}
        # if no graph can be trained on, the first visit says why
        counts = np.array([one.configs for one in data.looked], np.int64)
        self.visits = _core.Visits(counts, self.seed, each=self.per_step, **sampling)
        epoch = self.visits.epoch
        total = how.steps or -(-int(how.epochs or 1) * epoch // self.per_step)
        self.evaluate_every = f.evaluate_every or -(-epoch // self.per_step)
        history = History(total_steps=total, skipped=data.skipped, metric=network.metric)
        super().__init__(how.ranker, history, how.callbacks)
        self.visit, self.finished = 0, False
        self.instruction_sets = [_core.get_isa()]  # that it has run on; the last one is in use
        self.average = Average(f, self.total)
        self.best: NDArray[np.float32] | None = None
        self.path = None if folder is None else os.path.join(folder, CHECKPOINT)
        self.written = self.path if self.ranks.rank == 0 else None  # by the first rank
        if self.written is not None:
            files.remove_unfinished(self.written)
        self.identity = checkpoint.identity(self, how)
        self.ranks.agree(self.facts)

    def facts(self) -> dict[str, Any]:
        """Return graphs, fields and options that must be equal on all ranks."""
        return {**self.data.contents(), **self.identity}

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
        with self._timed("seconds"):
            if self.path is not None and os.path.exists(self.path):
                checkpoint.restore(self, self.path, checkpoint.read(self.path))
            self.ranks.agree(lambda: {"the step of the checkpoint": self.step})
            self.notify("on_fit_begin")
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
        going = not self.finished and (self.shared is not None or not interrupts.pressed)
        if going:
            with self._timed("seconds"):
                self._train_step(interrupts)
                self.notify("on_step")
                self._evaluate_if_due(interrupts)
        due = self.step % self.checkpoint_every == 0 if going else self.finished
        if self.written is not None and due:
            with self._timed("seconds"):
                checkpoint.write(self, self.written)
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
            if self.written is not None:
                checkpoint.write(self, self.written)
        self._restore_best()
        self._warn_of_divergence()
        self.notify("on_fit_end")
        self.data.warn(stacklevel=5)

    @contextmanager
    def _timed(self, clock: str) -> Iterator[None]:
        """Add the seconds that the block takes to an attribute of the history."""
        began = time.monotonic()
        try:
            yield
        finally:
            setattr(self.history, clock, getattr(self.history, clock) + time.monotonic() - began)

    @contextmanager
    def _armed(self, interrupts: Interrupts, clock: str, armed: bool = True) -> Iterator[None]:
        """Let Ctrl-C interrupt the block at once; the core then leaves everything unchanged."""
        with self._timed(clock):
            try:
                interrupts.armed = armed
                yield
            finally:
                interrupts.armed = False

    def _next_visit(self) -> tuple[int, int]:
        """Return the number of the next visit to a graph that may be trained on, and of that graph."""
        index = None
        while index is None or index in self.data.useless:
            self.data.require_some()  # another fit may have found that there is none
            index, _ = self.visits.at(self.visit)
            self.visit += 1
        return self.visit - 1, index

    def _slate(self, visit: int, index: int, prepared: _core.Prepared) -> Visited:
        """Return what a visit trains."""
        rows = self.visits.rows(visit, prepared)
        given = (callback.scale_and_shift(self, prepared.name, rows) for callback in self.callbacks)
        moved = next((pair for pair in given if pair is not None), None)  # the first that returns one
        return index, self.segments.draw(index, visit + 1, prepared, rows, moved)

    def _next_slate(self) -> Visited:
        """Return the graph of the next visit that finds one to learn from, and what is trained of it."""
        prepared = None
        while prepared is None:
            visit, index = self._next_visit()
            prepared = self.data.prepared(index)
        return self._slate(visit, index, prepared)

    def _shared_visits(self, count: int) -> list[tuple[int, int]]:
        """Return the next visits, which are the same on all ranks, as (visit, graph)."""
        start, agreed = self.visit, False
        while not agreed:
            self.visit = start
            visits = [self._next_visit() for _ in range(count)]
            agreed = self.data.agree(index for _, index in visits)
        return visits

    def _train_step(self, interrupts: Interrupts) -> None:
        number, visit = self.step + 1, self.visit
        parts = int(self.fields.accumulate) if self.shared is None else self.optimizer.units
        rate = schedules.rate(number, self.total, self.fields)
        losses: list[float] = []
        norms: list[float] = []
        fresh: list[Fresh] = []  # to be stored once the step is taken
        graphs: list[int] = []
        each = self.per_step // parts
        try:
            if self.shared is None:
                for part in range(parts):
                    visited = [self._next_slate() for _ in range(each)]
                    losses.append(self._part(interrupts, number, visited, (part, parts)))
                    fresh += self._fresh(visited)
                    graphs += [index for index, _ in visited]
            else:
                visits = self._shared_visits(self.per_step)
                graphs = [index for _, index in visits]
                units = [visits[part * each : (part + 1) * each] for part in range(parts)]

                def unit(part: int) -> tuple[float, list[Fresh]]:
                    visited = [self._slate(v, i, self.data.as_agreed(i)) for v, i in units[part]]
                    return self._part(interrupts, number, visited, (part, parts)), self._fresh(visited)

                work = [sum(self.data.sizes[index] for _, index in one) for one in units]
                losses, fresh = self.shared.take(work, unit, self.network.trainer.grads, interrupts.check)
            with self._in_core(interrupts, graphs, self.shared is None):  # ranks stop in an exchange
                self.optimizer.update(number, rate, norms)
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

    def _part(
        self, interrupts: Interrupts, number: int, visited: Sequence[Any], part: tuple[int, int]
    ) -> float:
        """Return the loss of a part of a step, and add its gradients to those of earlier parts."""
        if interrupts.pressed and part[0] > 0:
            raise KeyboardInterrupt
        with self._in_core(interrupts, [index for index, _ in visited]):
            return self.optimizer.gradients(number, [slate for _, slate in visited], part)

    def _fresh(self, visited: Sequence[Visited]) -> list[Fresh]:
        """Return the scores of segments that were just trained."""
        pairs = zip(visited, self.optimizer.scores, strict=True)
        return [
            (index, prepared.num_segments, segment, rows, scores)
            for (index, (prepared, rows, segment, _)), scores in pairs if segment is not None
        ]  # fmt: skip

    @contextmanager
    def _in_core(self, interrupts: Interrupts, graphs: Sequence[int], armed: bool = True) -> Iterator[None]:
        """Let the block do a part of a step; explain what may go wrong with these graphs."""
        try:
            with self._armed(interrupts, "step_seconds", armed):
                yield
        except DataError as error:
            self._restore_best()
            names = ", ".join(dict.fromkeys(self.data.looked[index].name for index in graphs))
            if error.field == "values":
                text = f"{names} has numbers that a loss does not take ({error})"
                todo = "choose another target, or an offset of the loss"
                raise ConfigError(f"target={self.fields.target!r}: {text}; {todo}") from error
            if not isinstance(error, NotFiniteError):
                raise
            text = f"training diverged at step {self.step + 1} on {names} ({error})"
            raise Error(f"{text}; {self._calmer}") from error

    @property
    def _calmer(self) -> str:
        """What to do about a training that diverges."""
        return f"use a learning_rate below {self.fields.learning_rate} or a clip below {self.fields.clip}"

    def _evaluate_if_due(self, interrupts: Interrupts) -> None:
        due = self.step % self.evaluate_every == 0 or self.step == self.total
        if not self.data.validates or not due or self.step in (0, *self.history.valid_steps[-1:]):
            return
        with self.average.in_use(self.model.params):
            value = self._judged(interrupts)
            if self.history.evaluated(self.step, value):
                self.best = self.model.params.copy()
        if 0 < self.fields.stop_after <= self.history.without_better:
            self.stop(f"no better metric in {counted(self.fields.stop_after, 'validation')}")
        self.notify("on_evaluate", value)

    def _judged(self, interrupts: Interrupts) -> float:
        """Return the mean metric of the current parameters over the validation graphs."""

        def judged() -> list[float]:
            with self._armed(interrupts, "evaluation_seconds"):
                return [self.judge(scores, times) for _, scores, times in self.valid_scores()]

        return float(np.mean([value for own in self.ranks.exchange(judged) for value in own]))

    def valid_scores(self) -> Iterator[tuple[str, NDArray[np.float32], NDArray[Any]]]:
        """Yield name, scores by the current weights and runtimes (tile: normalised) of validation graphs.

        Over ranks, each has its share of them.

        Yields
        ------
        tuple
            Name, scores (n,), runtimes (n,).
        """
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
            grown = f"the loss was {first:.3g} in the first {some} steps and {last:.3g} in the last"
            warnings.warn(f"training diverged: {grown}; {self._calmer}", stacklevel=6)

    def _warn(self) -> None:
        has = "best parameters so far" if self.best is not None else "parameters of that step"
        todo = "; call fit again with the same checkpoint_dir to continue" if self.path is not None else ""
        text = f"interrupted after step {self.step} of {self.total}: the ranker has the {has}{todo}"
        warnings.warn(text, stacklevel=5)

    def _shown(self) -> dict[str, float]:
        """Return the values next to the progress bar."""
        shown = {"loss": float(np.mean(self.history.loss[-50:]))}
        if self.history.best_metric is not None:
            shown |= {self.network.metric: self.history.valid_metric[-1], "best": self.history.best_metric}
        return shown

    # Checkpoints

    def state(self) -> checkpoint.State:
        """Return what a checkpoint would hold now.

        Returns
        -------
        (dict, dict of str to array)
            Its metadata and tensors, for `adopt`.
        """
        return checkpoint.contents(self)

    def adopt(self, state: checkpoint.State, interrupted: bool) -> None:
        """Take over the final state of the same fit, which has ended in another process.

        Parameters
        ----------
        state : (dict, dict of str to array)
            What `state` returned there.
        interrupted : bool
            Whether Ctrl-C ended it.
        """
        checkpoint.restore(self, "the state on another rank", state)
        self.finished = self.step == self.total or self.history.stopped is not None
        self.history.interrupted = interrupted and not self.finished
