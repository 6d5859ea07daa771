"""The fit loop: evaluation, exact resume, interruption.

Everything random in a fit is a function of (seed, number of the step), so the state of a fit is small:
parameters, moments, and how far it is. That state is what a checkpoint holds, and a fit that goes on from it
ends with the same bits as one that was never stopped.
"""

from __future__ import annotations

import functools
import hashlib
import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tpugraphs import files, kernels, metrics, progress, rankerfile
from tpugraphs.callbacks import Callback, EarlyStopping, History
from tpugraphs.errors import CheckpointError, ConfigError, DataError, Error
from tpugraphs.interrupts import Interrupts
from tpugraphs.kernels import warmup_cosine as learning_rate
from tpugraphs.pipeline import Pipeline, Prepared, check_measured
from tpugraphs.recipes import plain
from tpugraphs.trainset import Graphs, Store, as_graphs, fingerprint, not_layout, split_configs

if TYPE_CHECKING:
    from tpugraphs.ranker import Ranker

__all__ = ["Callback", "EarlyStopping", "Fit", "History", "learning_rate", "split_configs"]

CHECKPOINT = "checkpoint.safetensors"
_VALID_LEAST = 50  # configs of a validation graph: fewer tell little
# Keys of the random streams of a fit; trainset.SPLIT is the next.
_ORDER, _ROWS, _VALID = range(1, 4)


def _check_callbacks(callbacks: Any) -> None:
    given = callbacks if isinstance(callbacks, (list, tuple)) else [callbacks]
    wrong = [c for c in given if not isinstance(c, Callback)] if given is callbacks else given
    if wrong:
        raise ConfigError(
            "callbacks: expected a list of objects of classes derived from tpugraphs.training.Callback, got "
            f"{type(wrong[0]).__name__}{'' if given is not callbacks else ' in it'}"
        )


@contextmanager
def held(checkpoint_dir: str | os.PathLike[str] | None) -> Iterator[str | None]:
    """Make the folder and hold it for one fit alone: two would overwrite each other's state."""
    if checkpoint_dir is None:
        yield None
        return
    folder = files.absolute(checkpoint_dir)
    os.makedirs(folder, exist_ok=True)
    with files.locked(folder):
        yield folder


class Fit:
    """A running fit, as callbacks see it.

    Attributes
    ----------
    ranker : Ranker
    history : History
    step : int
        Steps done.
    total : int
        Steps planned.
    """

    def __init__(
        self,
        ranker: Ranker,
        train: Any,
        valid: Any,
        total: int | None,
        epochs: int | None,
        callbacks: Sequence[Callback],
        checkpoint_dir: str | None,
        checkpoint_every: int,
        verbose: bool | None,
    ) -> None:
        _check_callbacks(callbacks)
        self.ranker, self.fields, self.model = ranker, ranker.fields, ranker.model
        self.callbacks, self.checkpoint_every = list(callbacks), checkpoint_every
        self.verbose, self.seed = progress.wanted(verbose), int(ranker.seed)
        self.graphs = as_graphs("train", train)
        held = None
        if isinstance(valid, Real):
            self.graphs, held = self._hold_out(float(valid))
        elif valid is not None and not (isinstance(valid, (list, tuple)) and not valid):
            held = as_graphs("valid", valid)
        self.total = total if total is not None else int(epochs or 1) * len(self.graphs)
        self.history = History(total_steps=self.total)
        self.step = self.visit = 0
        self.finished = False
        self.best: NDArray[np.float32] | None = None

        self.path = None
        if checkpoint_dir is not None:
            self.path = os.path.join(checkpoint_dir, CHECKPOINT)
            files.remove_unfinished(self.path)
        hashes = self._fit_pipeline()
        self.valid = self._prepare_valid(held)
        self.identity = self._identity(hashes, held)
        self.store = Store(self.graphs, ranker.pipeline, self.history.skipped)

    # Set-up

    def _hold_out(self, share: float) -> tuple[Graphs, Graphs]:
        if not 0 < share < 1:
            raise ConfigError(
                f"valid: expected graphs, or a share of the configs between 0 and 1, got {share}"
            )
        if not self._whole():
            raise ConfigError(
                "valid: a share of the configs can be held out of graphs in memory only; give graphs"
            )
        train: list[Any] = []
        valid: list[Any] = []
        for i in range(len(self.graphs)):
            graph = self.graphs[i]
            not_layout("train", graph)
            try:
                check_measured(graph)
                held, rest = split_configs(graph, (share, 1 - share), self.seed)
            except DataError:
                if not valid and i + 1 == len(self.graphs):
                    raise
                train.append(graph)  # if nothing can be learnt from it, it is left out there
                continue
            train.append(graph.select(rest))
            valid.append(graph.select(held))
        return train, valid

    def _whole(self) -> bool:
        """Whether to fingerprint configs too: only a collection, which is lazy, would have to read them."""
        return isinstance(self.graphs, (list, tuple))

    def _fit_pipeline(self) -> list[str]:
        """Fit the preprocessing; the fingerprints of the graphs come from the same pass over them."""
        hashes = []
        if len(self.graphs) == 1:
            check_measured(self.graphs[0])

        def usable() -> Iterable[Any]:
            left_out = 0
            for i in range(len(self.graphs)):
                graph = self.graphs[i]
                why = not_layout("train", graph)
                if self.path is not None:
                    hashes.append(fingerprint(graph, self._whole()))
                if why is None:
                    yield graph
                    continue
                left_out += 1
                self.history.skipped[str(graph.name)] = str(why)
                if left_out == len(self.graphs):
                    raise DataError(
                        f"none of the {left_out} graphs can be trained on; the last: {why}"
                    ) from why

        self.ranker.pipeline.fit(usable())
        return hashes

    def _prepare_valid(self, graphs: Graphs | None) -> list[tuple[Prepared, NDArray[np.int64]]]:
        """Prepare the validation graphs with the rows that are scored: all, or a sample, ascending."""
        result: list[tuple[Prepared, NDArray[np.int64]]] = []
        for i in range(len(graphs) if graphs is not None else 0):
            assert graphs is not None
            graph = graphs[i]
            not_layout("valid", graph)
            try:
                check_measured(graph)
            except DataError as error:
                self.history.skipped[error.file or f"valid graph {i}"] = str(error)
                if not result and i + 1 == len(graphs):
                    raise
                continue
            n = min(graph.num_configs, max(_VALID_LEAST, self.fields.valid_configs // len(graphs)))
            rows = kernels.sample_without_replacement(graph.num_configs, n, (_VALID, i), order="sorted")
            small = graph if n == graph.num_configs else graph.select(rows)
            result.append((self.ranker.pipeline.apply(small), np.arange(n)))
        return result

    def _identity(self, hashes: list[str], held: Graphs | None) -> dict[str, Any]:
        """Say what a checkpoint must agree with to be gone on from."""
        if self.path is None:
            return {}
        valid = [fingerprint(held[i], self._whole()) for i in range(len(held))] if held is not None else []

        def digest(parts: list[str]) -> str:
            return (
                f"{len(parts)} graphs, {hashlib.blake2b(' '.join(parts).encode(), digest_size=8).hexdigest()}"
            )

        return {
            "recipe": self.ranker.recipe,
            "seed": self.seed,
            "precision": self.ranker.precision,
            **{
                f"field {name}": value
                for name, value in plain(self.fields).items()
                if name not in ("steps", "epochs")
            },
            "total steps": self.total,
            "train": digest(hashes),
            "valid": digest(valid),
            "callbacks": [type(callback).__name__ for callback in self.callbacks],
        }

    # The loop

    def run(self) -> History:
        """Train to the end, or until stopped or interrupted; then give the ranker the best parameters."""
        began = time.monotonic()
        if self.path is not None and os.path.exists(self.path):
            self._resume(self.path)
        before = self.history.seconds
        with Interrupts() as interrupts:
            bar = self._bar()
            self._tell("on_fit_begin")
            try:
                self._evaluate_if_due(interrupts)  # a fit may have been interrupted between a step and this
                while self._going(interrupts):
                    self._train_step(interrupts)
                    self._tell("on_step")
                    self._evaluate_if_due(interrupts)
                    self.history.seconds = before + time.monotonic() - began
                    self._update(bar)
                    if self.path is not None and self.step % self.checkpoint_every == 0:
                        self._save(self.path)
                if self.finished and self.path is not None:
                    self._save(self.path)
            except KeyboardInterrupt:
                interrupts.pressed = True
                if self.step == 0:
                    raise
            finally:
                self.history.seconds = before + time.monotonic() - began
                if bar is not None:
                    bar.close()
            if interrupts.pressed and not self.finished:
                self._interrupted()
            self._restore_best()
            self._tell("on_fit_end")
        return self.history

    def stop(self, why: str = "a callback asked for it") -> None:
        """End the fit after this step."""
        self.history.stopped = why

    def _going(self, interrupts: Interrupts) -> bool:
        self.finished = self.step == self.total or self.history.stopped is not None
        return not self.finished and not interrupts.pressed

    def _tell(self, event: str, *args: Any) -> None:
        for callback in self.callbacks:
            getattr(callback, event)(self, *args)

    def _next_slate(self) -> tuple[Prepared, NDArray[np.int64]]:
        """Graph and rows of the next step. One visit per graph and epoch, in random order."""
        count = len(self.graphs)
        while True:
            epoch = self.visit // count
            index = int(kernels.sample_epoch(count, 1, (self.seed, _ORDER), self.visit)[0])
            self.visit += 1
            prepared = self.store.get(index)
            if prepared is not None:
                break
        rows = min(self.fields.configs, prepared.num_configs)
        return prepared, kernels.sample_epoch(prepared.num_configs, rows, (self.seed, _ROWS, index), epoch)

    def _train_step(self, interrupts: Interrupts) -> None:
        visit = self.visit
        prepared, rows = self._next_slate()
        f, history, number = self.fields, self.history, self.step + 1
        rate = learning_rate(number, self.total, f.learning_rate, f.warmup)
        call = functools.partial(
            self.model.step,
            loss=self.ranker.loss,
            lr=rate,
            weight_decay=float(f.weight_decay),
            clip=float(f.clip),
            step=number,
            seed=self.seed,
            precision=self.ranker.precision,
        )
        # Appending happens in C right after the step, with no place in between where Ctrl-C could come up: so
        # the length of the list tells whether the step was taken.
        began = time.monotonic()
        try:
            interrupts.armed = True
            history.loss.extend(map(call, [[prepared.slate(rows)]], [[prepared.runtimes[rows]]]))
        except KeyboardInterrupt:
            interrupts.pressed = True
            if len(history.loss) < number:
                self.visit = visit
                raise
        except DataError as error:  # the digits were checked, so it is the scores that are not finite
            self._restore_best()
            raise Error(
                f"training diverged at step {number} on {prepared.name} ({error}); "
                f"use a learning_rate below {f.learning_rate} or a clip below {f.clip}"
            ) from error
        finally:
            interrupts.armed = False
            history.step_seconds += time.monotonic() - began
        self.step = number
        history.learning_rate.append(rate)

    def _evaluate_if_due(self, interrupts: Interrupts) -> None:
        due = self.step % self.fields.evaluate_every == 0 or self.step == self.total
        if not self.valid or not due or self.step in (0, *self.history.valid_steps[-1:]):
            return
        began = time.monotonic()
        try:
            interrupts.armed = True
            taus = [
                metrics.kendall_tau(self.ranker.score_rows(prepared, rows), prepared.runtimes)
                for prepared, rows in self.valid
            ]
        finally:
            interrupts.armed = False
            self.history.evaluation_seconds += time.monotonic() - began
        tau = float(np.mean(taus))
        history = self.history
        if history.best_metric is None or tau > history.best_metric:
            self.best, history.best_step = self.model.params.copy(), self.step
        history.valid_steps.append(self.step)
        history.valid_metric.append(tau)
        self._tell("on_evaluate", tau)

    def _restore_best(self) -> None:
        if self.best is not None:
            self.model.params[:] = self.best

    def _interrupted(self) -> None:
        import warnings

        self.history.interrupted = True
        again = ""
        if self.path is not None:
            self._save(self.path)
            again = "; call fit again with the same checkpoint_dir to go on"
        warnings.warn(
            f"interrupted after step {self.step} of {self.total}: the ranker has the "
            f"{'best parameters so far' if self.best is not None else 'parameters of that step'}{again}",
            stacklevel=4,
        )

    def _bar(self) -> Any:
        if not self.verbose:
            return None
        from tqdm.auto import tqdm

        return tqdm(
            total=self.total, initial=self.step, desc=self.ranker.recipe, unit="step", dynamic_ncols=True
        )

    def _update(self, bar: Any) -> None:
        if bar is None:
            return
        shown = {"loss": f"{np.mean(self.history.loss[-50:]):.4f}"}
        if self.history.best_metric is not None:
            shown["tau"] = f"{self.history.valid_metric[-1]:.4f}"
            shown["best"] = f"{self.history.best_metric:.4f}"
        bar.set_postfix(shown, refresh=False)
        bar.update(1)

    # Checkpoints

    def _save(self, path: str) -> None:
        history, pipeline = self.history, self.ranker.pipeline
        metadata = {
            "identity": self.identity,
            "preprocessing": pipeline.steps,
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
            "moment1": self.model.moment1,
            "moment2": self.model.moment2,
            "loss": np.asarray(history.loss, np.float64),
            "learning_rate": np.asarray(history.learning_rate, np.float64),
            "valid_steps": np.asarray(history.valid_steps, np.int64),
            "valid_metric": np.asarray(history.valid_metric, np.float64),
            **pipeline.tensors(),
        }
        if self.best is not None:
            tensors["best_params"] = self.best
        rankerfile.write(path, "checkpoint", metadata, tensors)

    def _resume(self, path: str) -> None:
        metadata, tensors = rankerfile.read(path, "checkpoint")
        identity = rankerfile.entry(path, metadata, "identity", dict)
        self._compare(path, identity)

        def entry(name: str, *kinds: type) -> Any:
            return rankerfile.entry(path, metadata, name, kinds)

        def take(name: str, count: int, dtype: Any) -> NDArray[Any]:
            return rankerfile.take(path, tensors, name, (count,), dtype)

        parameters = self.ranker.num_parameters
        step, sampler = entry("step", int), entry("sampler", dict)
        visit = rankerfile.entry(path, sampler, "visit", int)
        valid = tensors["valid_steps"].shape[0] if tensors.get("valid_steps", np.zeros(())).ndim == 1 else 0
        states = entry("callbacks", list)
        skipped = entry("skipped", dict)
        best_step = entry("best_step", int, type(None))
        if not 0 <= step <= self.total or visit < step or len(states) != len(self.callbacks):
            raise rankerfile.fail(
                path, "step", f"a step of {self.total}", repr((step, visit)), "the file is damaged"
            )
        arrays = {name: take(name, parameters, np.float32) for name in ("params", "moment1", "moment2")}
        best = take("best_params", parameters, np.float32) if best_step is not None else None
        loss, rates = take("loss", step, np.float64), take("learning_rate", step, np.float64)
        valid_steps, valid_metric = (
            take("valid_steps", valid, np.int64),
            take("valid_metric", valid, np.float64),
        )
        seconds, stopped = float(entry("seconds", float, int)), entry("stopped", str, type(None))
        parts = entry("seconds_of", list)
        if len(parts) != 2 or not all(isinstance(part, (float, int)) for part in parts):
            raise rankerfile.fail(path, "seconds_of", "two numbers", repr(parts)[:80], "the file is damaged")
        pipeline = Pipeline.from_file(
            path, entry("preprocessing", list), tensors, self.ranker.pipeline.columns
        )
        for name, mine in self.ranker.pipeline.tensors().items():
            if not np.array_equal(mine, pipeline.tensors()[name]):
                raise rankerfile.fail(
                    path, name, "the constants of these graphs", "others", "the file is damaged"
                )
        for name, array in arrays.items():
            getattr(self.model, name)[:] = array
        self.best, self.step, self.visit = best, step, visit
        for callback, state in zip(self.callbacks, states, strict=True):
            callback.restore(state)
        history = self.history
        history.loss, history.learning_rate = loss.tolist(), rates.tolist()
        history.valid_steps, history.valid_metric = valid_steps.tolist(), valid_metric.tolist()
        history.best_step, history.seconds, history.stopped = best_step, seconds, stopped
        history.step_seconds, history.evaluation_seconds = map(float, parts)
        history.skipped.update(skipped)

    def _compare(self, path: str, theirs: Mapping[str, Any]) -> None:
        mine = self.identity
        differ = [key for key in {**mine, **theirs} if mine.get(key) != theirs.get(key)]
        if differ:
            parts = [f"{key}: {theirs.get(key)!r} there, {mine.get(key)!r} here" for key in differ]
            raise CheckpointError(
                f"this checkpoint belongs to another fit ({'; '.join(parts)}); "
                "use another checkpoint_dir, or delete it to begin anew",
                file=path,
                field=differ[0],
                found=repr(theirs.get(differ[0])),
                expected=repr(mine.get(differ[0])),
            )
