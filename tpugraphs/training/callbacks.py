"""The history of a fit, and callbacks that watch or stop it."""

from __future__ import annotations

import logging
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING, Any, TextIO

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tpugraphs.errors import ConfigError
from tpugraphs.evaluation import plot
from tpugraphs.system import check_number, check_whole, counted, log, markup, notice, tables

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from tpugraphs.training.fit import Fit

__all__ = ["Callback", "EarlyStopping", "History", "LiveCurve", "RunningFit", "pass_on_interrupt"]

_PICTURES, _LINES = 40, 10  # of a fit: redrawn this often, and lines where there is no validation
_MEAN = 50  # steps that a loss is the mean of


def pass_on_interrupt(fitted: object) -> None:
    """Raise KeyboardInterrupt if Ctrl-C ended a fit that is one part of a larger work.

    An interrupted fit keeps its weights and returns. Work of several fits must end there: it must not start
    the next fit, nor take the interrupted one for a complete one.

    Parameters
    ----------
    fitted : object
        The fitted object; without a `History` as ``history_`` it counts as not interrupted.

    Raises
    ------
    KeyboardInterrupt
        The fit was interrupted.
    """
    history = getattr(fitted, "history_", None)
    if isinstance(history, History) and history.interrupted:
        raise KeyboardInterrupt


@dataclass
class History:
    """What happened in a fit.

    Attributes
    ----------
    loss : list of float
        Loss of every step.
    learning_rate : list of float
        Learning rate of every step.
    valid_steps : list of int
        Steps after which there was an evaluation.
    valid_metric : list of float
        Mean of `metric` over the validation graphs at these steps; greater is better.
    best_step : int or None
        Step whose parameters, or their average up to then, the ranker has now. None without validation: it
        has those of the last step.
    total_steps : int
        Number of steps planned.
    seconds : float
        Time spent, over all resumptions.
    step_seconds, evaluation_seconds : float
        The parts of it spent in optimizer steps of the core and in evaluations.
    stopped : str or None
        Why a callback or the field `stop_after` ended the fit early.
    interrupted : bool
        Whether Ctrl-C ended the fit.
    skipped : dict
        Name of each graph that could not be trained on -> reason.
    metric : str
        Validation metric, a key of :data:`tpugraphs.metrics.VALIDATION`.
    """

    total_steps: int = 0
    loss: list[float] = field(default_factory=list)
    learning_rate: list[float] = field(default_factory=list)
    valid_steps: list[int] = field(default_factory=list)
    valid_metric: list[float] = field(default_factory=list)
    best_step: int | None = None
    seconds: float = 0.0
    step_seconds: float = 0.0
    evaluation_seconds: float = 0.0
    stopped: str | None = None
    interrupted: bool = False
    skipped: dict[str, str] = field(default_factory=dict)
    metric: str = "tau"

    @property
    def steps(self) -> list[int]:
        """Numbers of the steps, 1 to the last one done."""
        return list(range(1, len(self.loss) + 1))

    @property
    def best_metric(self) -> float | None:
        """Greatest validation metric, None without validation."""
        return max(self.valid_metric) if self.valid_metric else None

    @property
    def without_better(self) -> int:
        """Number of evaluations since the best one."""
        return sum(self.best_step is not None and step > self.best_step for step in self.valid_steps)

    def evaluated(self, step: int, metric: float) -> bool:
        """Record an evaluation.

        Parameters
        ----------
        step : int
            The step it came after.
        metric : float
            Greater is better.

        Returns
        -------
        bool
            Whether it is the best so far.
        """
        best = self.best_metric is None or metric > self.best_metric
        self.valid_steps.append(step)
        self.valid_metric.append(metric)
        self.best_step = step if best else self.best_step
        return best

    @property
    def waiting(self) -> float:
        """Share of the time outside evaluations not spent in steps, but on data, callbacks, checkpoints."""
        training = self.seconds - self.evaluation_seconds
        return 1 - self.step_seconds / training if training > 0 else 0.0

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {**self.__dict__, "best_metric": self.best_metric}

    def to_frame(self) -> Any:
        """Return a pandas DataFrame with one row per step: step, loss, learning rate, validation metric.

        The last column is called like `metric`; it is NaN after steps without an evaluation.

        Raises
        ------
        ConfigError
            pandas is not installed.
        """
        valid = dict(zip(self.valid_steps, self.valid_metric, strict=True))
        lines = zip(self.steps, self.loss, self.learning_rate, strict=True)
        rows = [(*line, valid.get(line[0], math.nan)) for line in lines]
        return tables.frame(rows, ("step", "loss", "learning_rate", self.metric))

    def plot(self) -> Figure:
        """Draw the learning curve: loss of every step, and the validation metric.

        Returns
        -------
        matplotlib.figure.Figure
            ``history.plot().savefig("curve.png")`` writes it.
        """
        return plot.history(self)

    def __repr__(self) -> str:
        text = f"{len(self.loss):,} of {counted(self.total_steps, 'step')} in {self.seconds:.1f} s"
        if self.loss:
            text += f", loss {np.mean(self.loss[-100:]):.4f}"
        if self.best_step is not None:
            text += f", best {self.metric} {self.best_metric:.4f} after step {self.best_step}"
        if self.interrupted or self.stopped:
            text += f", {'interrupted' if self.interrupted else 'stopped: ' + str(self.stopped)}"
        return f"<History: {text}>"

    def _repr_html_(self) -> str:
        best = "" if self.best_step is None else f"{self.best_metric:.4f}, after step {self.best_step:,}"
        stopped = f"stopped: {self.stopped}" if self.stopped else ""
        facts = {
            "steps": f"{len(self.loss):,} of {self.total_steps:,}",
            "time": f"{self.seconds:.1f} s, of it {self.evaluation_seconds:.1f} s for evaluations",
            "loss": f"{np.mean(self.loss[-100:]):.4f}" if self.loss else None,
            f"best {self.metric}": best,
            "left out": counted(len(self.skipped), "graph") if self.skipped else None,
        }
        left_out = [f"{name}: {why}" for name, why in self.skipped.items()]
        parts = [markup.folded("graphs that were left out", markup.items(left_out))] if left_out else []
        state = "interrupted" if self.interrupted else stopped
        return markup.card("History", "", state, facts, self._curve(), *parts)

    def _curve(self) -> str:
        """Draw the loss, as a moving mean, and the validation metric as SVG; empty before the first step."""
        loss = plot.moving_mean(np.asarray(self.loss, np.float64)).tolist()
        lines = [
            markup.Line("loss", self.steps, loss, markup.ORANGE),
            markup.Line(self.metric, self.valid_steps, self.valid_metric, markup.BLUE, right=True, dots=True),
        ]
        return markup.chart(lines, "step", "loss", f"{self.metric} on validation")


def curves(histories: Mapping[str, History], metric: str) -> str:
    """Draw the validation metric of several fits by name as SVG; empty without validation."""
    lines = [
        markup.Line(name, one.valid_steps, one.valid_metric, markup.BLUE, dots=True)
        for name, one in histories.items()
    ]
    return markup.chart(lines, "step", f"{metric} on validation")


class Callback:
    """Base of callbacks: override what you need.

    `fit` is the :class:`RunningFit`; ``fit.stop(why)`` ends it. A callback with memory returns it from
    `state` as JSON values and takes it back in `restore`, so that a resumed fit continues exactly.
    """

    def on_fit_begin(self, fit: Fit) -> None:
        """Run before the first step, also of a resumed fit.

        Parameters
        ----------
        fit : Fit
            The running fit.
        """

    def scale_and_shift(
        self, fit: Fit, graph: str, rows: NDArray[np.int64]
    ) -> tuple[ArrayLike, ArrayLike] | None:
        """Run before the gradients of a slate: losses see ``scale * scores + shift``, or the scores if None.

        A pair of numbers, or of arrays (n,) for the n configs `rows` of the graph of that name. The first
        callback that returns a pair decides. For a graph in segments, the scores are the part of
        their sum that the step knows. Over ranks, it runs for the slates of its own rank.

        Parameters
        ----------
        fit : Fit
            The running fit.
        graph : str
            Name of the graph of the slate.
        rows : (n,) int64
            Its configs.

        Returns
        -------
        (scale, shift) or None
            Numbers or (n,) arrays.
        """

    def on_step(self, fit: Fit) -> None:
        """Run after every step.

        Parameters
        ----------
        fit : Fit
            The running fit.
        """

    def on_evaluate(self, fit: Fit, metric: float) -> None:
        """Run after every evaluation on the validation graphs.

        Parameters
        ----------
        fit : Fit
            The running fit.
        metric : float
            Mean of `History.metric` over these graphs.
        """

    def on_fit_end(self, fit: Fit) -> None:
        """Run at the end, also when stopped or interrupted.

        Parameters
        ----------
        fit : Fit
            The fit.
        """

    def state(self) -> dict[str, Any]:
        """Return the memory of the callback, as JSON values."""
        return {}

    def restore(self, state: dict[str, Any]) -> None:
        """Take back what `state` returned.

        Parameters
        ----------
        state : dict
            From a checkpoint.
        """


class RunningFit:
    """A running fit, as callbacks see it.

    Parameters
    ----------
    callbacks : sequence of Callback
        Those that `notify` calls.

    Attributes
    ----------
    ranker : Ranker
        The ranker that is fitted.
    history : History
    step, total : int
        Steps done and planned.
    """

    step: int
    total: int

    def __init__(self, ranker: Any, history: History, callbacks: Sequence[Callback]) -> None:
        self.ranker, self.history, self.callbacks = ranker, history, list(callbacks)
        self.step, self.total = 0, history.total_steps

    def stop(self, why: str = "a callback asked for it") -> None:
        """End the fit after this step.

        Parameters
        ----------
        why : str
            For ``history.stopped``.
        """
        self.history.stopped = why

    def notify(self, event: str, *args: Any) -> None:
        """Call a method of every callback.

        Parameters
        ----------
        event : str
            Name of the method.
        *args
            Its arguments after the fit.
        """
        for callback in self.callbacks:
            getattr(callback, event)(self, *args)
        self._log(event, *args)

    def _log(self, event: str, *args: Any) -> None:
        """Log an event of the callbacks."""
        level = logging.DEBUG if event == "on_step" else logging.INFO
        if not log.isEnabledFor(level):
            return
        who = f"fit of {getattr(self.ranker, 'recipe', '?')}, seed {getattr(self.ranker, 'seed', '?')}"
        h, at = self.history, f"step {self.step} of {self.total}"
        text = f"begins at {at}"
        if event != "on_fit_begin":
            text = f"{at}, loss {h.loss[-1]:.6g}" if h.loss else f"{at}, no loss yet"
        if event == "on_evaluate":
            text += f", {h.metric} {args[0]:.6g}"
        if event == "on_fit_end":
            best = "" if h.best_metric is None else f", best {h.metric} {h.best_metric:.6g}"
            text = f"{'interrupted' if h.interrupted else h.stopped or 'done'} after {text}{best}"
        log.log(level, "%s: %s", who, text)


class EarlyStopping(Callback):
    """End a fit when the validation metric has not risen for some evaluations.

    Parameters
    ----------
    patience : int
        Evaluations without a rise.
    min_delta : float
        Smallest difference that counts as a rise.
    """

    def __init__(self, patience: int = 5, min_delta: float = 0.0) -> None:
        self.patience = check_whole("patience", patience, 1)
        self.min_delta = check_number("min_delta", min_delta, 0)
        self.best: float | None = None
        self.waited = 0

    def on_fit_begin(self, fit: Fit) -> None:
        """Forget an earlier fit."""
        if fit.step == 0:
            self.best, self.waited = None, 0

    def on_evaluate(self, fit: Fit, metric: float) -> None:
        """Count evaluations without a rise."""
        if self.best is None or metric > self.best + self.min_delta:
            self.best, self.waited = metric, 0
            return
        self.waited += 1
        if self.waited >= self.patience:
            fit.stop(f"no better metric in {counted(self.patience, 'evaluation')}")

    def state(self) -> dict[str, Any]:
        """Return the best metric, and the number of evaluations since."""
        return {"best": self.best, "waited": self.waited}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from what `state` returned."""
        best = state["best"]
        self.best, self.waited = best if best is None else float(best), int(state["waited"])


# The learning curve of a fit while it runs


def progress_line(history: History) -> str:
    """Return one line of text on how far a fit is.

    ``step 200 of 2,000: tau 0.7012, best 0.7104 after step 150, loss 0.4123, 12 s``; the last evaluation and
    the best one only if there are any.
    """
    text = f"step {len(history.loss):,} of {history.total_steps:,}"
    parts = []
    if history.valid_metric:
        parts.append(f"{history.metric} {history.valid_metric[-1]:.4f}")
        parts.append(f"best {history.best_metric:.4f} after step {history.best_step:,}")
    if history.loss:
        parts.append(f"loss {np.mean(history.loss[-_MEAN:]):.4f}")
    return f"{text}: {', '.join([*parts, f'{history.seconds:.0f} s'])}"


class LiveCurve(Callback):
    """Show the learning curve of a fit while it runs.

    In a notebook it is a picture that is redrawn in its place, without Matplotlib. Anywhere else it is a line
    of text per evaluation; without validation, ten lines in a fit.

    Parameters
    ----------
    every : int, optional
        Steps from one update to the next, in addition to every evaluation; by default a 40th of the fit for
        pictures.
    ax : matplotlib.axes.Axes, optional
        Draw here instead, with Matplotlib, for example into your own window. The axes are cleared. Once
        their window is closed, or they are removed from their figure, the fit continues with lines of text.
    name : str
        Shown before the lines and above the pictures, for example ``"seed 3"``.
    file : text file, optional
        Where lines go; standard error by default, above a progress bar.

    Raises
    ------
    ConfigError
        `every` is not a whole number of at least 1, `ax` are not axes, or `file` is not an open file.

    Notes
    -----
    A fit that continues from a checkpoint must be given the same callbacks again, this one among them.

    Examples
    --------
    >>> import tpugraphs as tg
    >>> programs = tg.open_collection("options:xla:cpu")
    >>> live = tg.training.LiveCurve(every=10)
    >>> ranker = tg.Ranker("graph-config", steps=20)
    >>> ranker.fit(programs.train[:4], programs.valid[:1], callbacks=[live], verbose=False)
    <Ranker('graph-config', seed=0, preset='cpu', steps=20): 90,090 parameters, fitted>
    """

    def __init__(
        self, every: int | None = None, *, ax: Axes | None = None, name: str = "", file: TextIO | None = None
    ) -> None:
        if every is not None:
            check_whole("every", every, 1)
        if ax is not None and not hasattr(ax, "twinx"):
            raise ConfigError(
                f"ax: expected axes of Matplotlib, got {type(ax).__name__}; use figure.subplots()"
            )
        if file is not None and not hasattr(file, "write"):
            raise ConfigError(f"file: expected an open text file, got {file!r}; use open(path, 'w')")
        self.every, self.ax, self.name, self.file = every, ax, name, file
        self._handle: Any = None
        self._shown: tuple[int, int] = (-1, -1)

    def on_fit_begin(self, fit: Fit) -> None:
        """Begin a new picture for every fit."""
        self._handle, self._shown = None, (-1, -1)
        if self.ax is not None and (figure := self.ax.get_figure()) is not None:
            figure.canvas.mpl_connect("close_event", self._closed)

    def _closed(self, event: object) -> None:
        self.ax = None  # drawing into a closed window would end the fit

    def on_step(self, fit: Fit) -> None:
        """Update if it is time to."""
        steps, total = len(fit.history.loss), fit.history.total_steps
        every = self.every
        if every is None and self._pictures():
            every = max(1, total // _PICTURES)
        elif every is None and not getattr(fit, "valid", None) and not fit.history.valid_steps:
            every = max(1, total // _LINES)
        if every is not None and steps % every == 0:
            self._show(fit.history)

    def on_evaluate(self, fit: Fit, metric: float) -> None:
        """Draw the curve with this evaluation."""
        self._show(fit.history)

    def on_fit_end(self, fit: Fit) -> None:
        """Show the end, and why it came early."""
        self._show(fit.history)
        if why := "interrupted" if fit.history.interrupted else fit.history.stopped:
            self._say(f"{why} after {counted(len(fit.history.loss), 'step')}")

    def _pictures(self) -> bool:
        return self.ax is not None or (self.file is None and _in_notebook())

    def _show(self, history: History) -> None:
        """Draw or print, once for every step and evaluation."""
        now = (len(history.loss), len(history.valid_steps))
        if now == self._shown:
            return
        self._shown = now
        if self.ax is not None and self.ax.get_figure() is None:  # removed from it
            self.ax = None
        if self.ax is not None:
            _draw(self.ax, history, self.name)
            if _in_notebook():  # its figure may have no window
                self._display(self.ax.get_figure())
        elif self._pictures():
            self._display(_Picture(history, self.name))
        else:
            self._say(progress_line(history))

    def _display(self, picture: Any) -> None:
        from IPython.display import display

        if self._handle is None:
            self._handle = display(picture, display_id=True)  # type: ignore[no-untyped-call]
        else:
            self._handle.update(picture)

    def _say(self, text: str) -> None:
        notice(f"{self.name}: {text}" if self.name else text, True, self.file)


class _Picture:
    """A history as it is now, for one display."""

    def __init__(self, history: History, name: str) -> None:
        head = f"<strong>{escape(name)}</strong>" if name else ""
        self.html = head + history._repr_html_()
        self.text = f"{name}: {progress_line(history)}" if name else progress_line(history)

    def _repr_html_(self) -> str:
        return self.html

    def __repr__(self) -> str:
        return self.text


def _in_notebook() -> bool:
    """Return whether this runs in a kernel, whose front end shows pictures."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return hasattr(shell, "kernel")


def _draw(ax: Axes, history: History, name: str) -> None:
    """Draw again into axes of Matplotlib, and into the window that may show them."""
    figure = ax.get_figure()
    assert figure is not None
    for other in list(figure.axes):  # the second scale of the last drawing
        if other is not ax and getattr(other, "_tpugraphs_scale_of", None) is ax:
            other.remove()
    there = set(figure.axes)
    ax.clear()
    plot.learning_curve(ax, history)
    for other in set(figure.axes) - there:
        other._tpugraphs_scale_of = ax  # type: ignore[attr-defined]
    if name:
        ax.set_title(name, loc="right", fontsize=9)
    figure.canvas.draw_idle()
    figure.canvas.flush_events()
