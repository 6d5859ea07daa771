"""The learning curve of a fit while it runs."""

from __future__ import annotations

import sys
from html import escape
from typing import TYPE_CHECKING, Any, TextIO

import numpy as np

from tpugraphs.errors import ConfigError
from tpugraphs.evaluation import plot
from tpugraphs.system.arguments import check_whole
from tpugraphs.system.progress import notice
from tpugraphs.system.words import counted
from tpugraphs.training.callbacks import Callback, History

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from tpugraphs.training.fit import Fit

__all__ = ["LiveCurve", "progress_line"]

_PICTURES, _LINES = 40, 10  # of a fit: redrawn this often, and lines where there is no validation
_MEAN = 50  # steps that a loss is the mean of


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
        self,
        every: int | None = None,
        *,
        ax: Axes | None = None,
        name: str = "",
        file: TextIO | None = None,
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
