"""Pictures of training and of a report. Matplotlib is imported on use, and its global state is left alone."""

from __future__ import annotations

import io
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tpugraphs import metrics
from tpugraphs.errors import ConfigError, printable
from tpugraphs.system import counted, write_whole

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from tpugraphs.evaluation.report import Report, Row

__all__ = ["compared", "gains", "history", "kept", "learning_curve", "ranks", "report", "save", "to_png"]

_INK, _GRID = "#262626", "#e4e4e4"
_LOSS, _TAU = "#b0b7bf", "#1764ab"
_SCORERS = ("#1764ab", "#d9772b", "#9aa0a6", "#3b8f5a", "#8c5fa8")
_MARKS = "osD^v"  # markers, so that scorers differ without colours, too
_GAIN, _WORSE = "#a9cbe8", "#f0b9b0"
_Look = dict[str, Any]
_DASHED: _Look = {"color": _INK, "linewidth": 0.8, "linestyle": (0, (4, 4))}
_TIMES = (1, 1.2, 1.5, 2, 3, 5, 10, 20, 50, 100)  # ticks
DPI = 95
_LEGEND, _LEGEND_ROWS = 28, 16  # characters of a line of a legend, and its lines
_NAME = 52  # characters of a graph's name at an axis
_DOTS = 400  # up to this many configurations are drawn one by one


class Curves(Protocol):
    """The part of a :class:`tpugraphs.training.History` that is drawn."""

    @property
    def loss(self) -> Sequence[float]: ...
    @property
    def steps(self) -> Sequence[int]: ...
    @property
    def valid_steps(self) -> Sequence[int]: ...
    @property
    def valid_metric(self) -> Sequence[float]: ...


def learning_curve(ax: Axes, history: Curves) -> None:
    """Draw the training loss and the validation tau of a `History` against the step.

    Parameters
    ----------
    ax : matplotlib.axes.Axes
        Where it is drawn.
    history : History
        Of a fit.
    """
    loss, at = np.asarray(history.loss, np.float64), np.asarray(history.valid_steps, np.int64)
    tau = np.asarray(history.valid_metric, np.float64)
    _bare(ax, "Training", "step", "loss (moving mean)")
    if loss.size:
        ax.plot(history.steps, loss, color=_LOSS, linewidth=0.6, alpha=0.5)
        ax.plot(history.steps, moving_mean(loss), color="#6d7680", linewidth=1.6)
        low, high = 1.05 * np.quantile(loss, (0.005, 0.995))
        ax.set_ylim(min(0.0, low), max(0.0, high) or 1.0)  # a user's loss may be negative
        ax.set_xlim(0, max([history.steps[-1], *at[-1:]]))
    if tau.size:
        right, best = ax.twinx(), int(np.argmax(tau))
        right.plot(at, tau, color=_TAU, linewidth=1.8, marker="o", markersize=4, clip_on=False)
        ring: _Look = {"markersize": 10, "markerfacecolor": "none", "markeredgewidth": 1.4}
        right.plot(at[best], tau[best], "o", markeredgecolor=_TAU, clip_on=False, **ring)
        beside: _Look = {"textcoords": "offset points", "ha": "right", "color": _TAU, "fontweight": "bold"}
        right.annotate(f"{tau[best]:.3f}", (at[best], tau[best]), (-6, -18), **beside)
        right.set_ylabel(f"{getattr(history, 'metric', 'tau')} on validation configurations", color=_TAU)
        right.tick_params(axis="y", colors=_TAU, length=0, pad=8)
        right.set_ylim(min(0.0, float(tau.min())), max(0.8, float(tau.max()) * 1.05))
        right.spines[:].set_visible(False)


def ranks(ax: Axes, scores: ArrayLike, runtimes: ArrayLike, *, title: str = "") -> None:
    """Draw predicted against measured rank of every configuration; a perfect ranking is the diagonal.

    Parameters
    ----------
    ax : matplotlib.axes.Axes
        Where it is drawn.
    scores, runtimes : (n,) array
        Smaller scores mean predicted faster.
    title : str
        Stands before the tau.
    """
    s, y = np.asarray(scores), np.asarray(runtimes)
    tau = metrics.kendall_tau(s, y)
    _bare(ax, f"{title + ': ' if title else ''}tau {tau:.3f}", "measured rank", "predicted rank")
    measured, predicted = (100 * metrics.mean_ranks(v) / max(v.size - 1, 1) for v in (y, s))
    if s.size <= _DOTS:
        dots: _Look = {"color": _TAU, "markersize": 4, "alpha": 0.6, "markeredgewidth": 0}
        ax.plot(measured, predicted, "o", clip_on=False, **dots)
    else:
        size = int(np.clip(np.sqrt(s.size) / 1.6, 20, 48))
        cells: _Look = {"gridsize": size, "bins": "log", "mincnt": 1, "linewidths": 0.1}
        ax.hexbin(measured, predicted, extent=(0, 100, 0, 100), cmap="Blues", **cells)
    ax.plot([0, 100], [0, 100], **_DASHED)
    ax.set(xlim=(0, 100), ylim=(0, 100), aspect="equal")
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_ticks([0, 50, 100], ["fastest", "half", "slowest"])
    inward = ("left", "bottom"), ("center", "center"), ("right", "top")
    for below, beside, (across, up) in zip(ax.get_xticklabels(), ax.get_yticklabels(), inward, strict=True):
        below.set(horizontalalignment=across)
        beside.set(rotation=90, verticalalignment=up)
    ax.grid(False)


def kept(ax: Axes, rows: list[Row]) -> None:
    """Draw how slow configurations are on average if only those predicted fastest are kept.

    Parameters
    ----------
    ax : matplotlib.axes.Axes
        Where it is drawn.
    rows : list of Row
        Of one graph, one per scorer.
    """
    _bare(ax, "Keep only the predicted fastest", "kept (%)", "mean runtime, above the best (%)")

    def curve(name: str, scores: NDArray[Any], times: NDArray[Any], **style: Any) -> None:
        runtimes = times.astype(np.float64)
        count = np.arange(1, runtimes.size + 1)
        mean = np.cumsum(runtimes[np.argsort(scores, kind="stable")]) / count
        share = 100 * count / count[-1]
        ax.plot(share, 100 * (mean / runtimes.min() - 1), label=_short(name, _LEGEND), **style)

    for i, row in enumerate(rows):
        again, place = divmod(i, len(_SCORERS))
        dashes = ":" if again else "-"
        curve(row.scorer, row.scores, row.runtimes, color=_SCORERS[place], linewidth=1.8, linestyle=dashes)
    best = rows[0].runtimes
    curve("perfect", best, best, **_DASHED)
    ax.set_xlim(0, 100)
    ax.set_ylim(bottom=0)
    columns = math.ceil(len(ax.lines) / _LEGEND_ROWS)
    ax.legend(frameon=False, loc="upper left", bbox_to_anchor=(1, 1), fontsize=9, ncols=columns)


def _figure(width: float, height: float = 4.2, panels: int = 1) -> tuple[Figure, Any]:
    """Make a figure of a size in inches with empty axes, without Matplotlib's global state."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=DPI, layout="constrained", facecolor="white")
    FigureCanvasAgg(figure)
    return figure, figure.subplots(1, panels)


def history(history: Curves) -> Figure:
    """Draw the learning curve of a `History` alone; see `learning_curve`.

    Parameters
    ----------
    history : History
        Of a fit.

    Returns
    -------
    matplotlib.figure.Figure
        With one panel.
    """
    figure, ax = _figure(6.4)
    learning_curve(ax, history)
    return figure


def report(report: Report, *, history: Curves | None = None, graph: str | None = None) -> Figure:
    """Draw one graph of a report: learning curve (if there is a history), ranks, mean runtime of those kept.

    Parameters
    ----------
    report : Report
    history : History, optional
    graph : str, optional
        Graph of the report to draw; by default the one with the most configurations.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    ConfigError
        The report has no such graph.
    """
    first = max(
        (row for row in report.rows if graph in (None, row.graph)), key=lambda row: row.configs, default=None
    )
    if first is None:
        names = ", ".join(dict.fromkeys(row.graph for row in report.rows))
        raise ConfigError(f"no graph {graph!r} in this report; it has {names}")
    rows = [row for row in report.rows if (row.graph, row.collection) == (first.graph, first.collection)]
    panels = 2 + (history is not None)
    longest = max(len(name) for name in ("perfect", *(row.scorer for row in rows)))
    legend = (0.6 + 0.075 * min(longest, _LEGEND)) * math.ceil((len(rows) + 1) / _LEGEND_ROWS)
    # The legend is outside of the panels, which keep their size.
    figure, axes = _figure(4.2 * panels + legend, panels=panels)
    if history is not None:
        learning_curve(axes[0], history)
    ranks(axes[-2], rows[0].scores, rows[0].runtimes, title=_short(rows[0].scorer, _LEGEND))
    kept(axes[-1], rows)
    room = int(9 * figure.get_figwidth()) - 26
    title = f"{counted(first.configs, 'configuration')} of {_short(first.graph, room)}"
    figure.suptitle(title, x=0.01, ha="left", fontsize=11, fontweight="bold", color=_INK)
    return figure


def gains(report: Report, chosen: Mapping[str, float], *, by: str = "XLA's choice", k: int = 5) -> Figure:
    """Draw the runtime of every graph over its best: as it was, and with the best of the first k ranked.

    A line leads from one to the other, so the gain is its length.

    Parameters
    ----------
    report : Report
        Its first scorer is drawn in colour, the others as small dots.
    chosen : mapping of str to float
        Graph -> runtime of the configuration that is used without a ranking, in the unit of the report.
    by : str
        Who chose it, for the legend.
    k : int
        How many configurations are tried; the fastest of them is kept.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    ConfigError
        A graph of the report is not in `chosen`, or was not judged by all of its scorers.
    """
    names = list(dict.fromkeys(row.graph for row in report.rows))
    if missing := [name for name in names if name not in chosen]:
        raise ConfigError(f"chosen: expected a runtime for each graph of the report, none for {missing[0]!r}")
    before = {row.graph: chosen[row.graph] / float(row.runtimes.min()) for row in report.rows}
    names.sort(key=before.__getitem__)
    scorers = list(dict.fromkeys(row.scorer for row in report.rows))
    figure, ax = _figure(8.6, 1.2 + 0.24 * len(names) + 0.2 * (1 + len(scorers)))
    _bare(ax, "", "runtime, as a multiple of the fastest measured", "")
    places = _named(ax, names, 8)
    ends = [before[name] for name in names]
    for i, scorer in reversed(list(enumerate(scorers))):
        judged = [row for row in report.rows if row.scorer == scorer]
        found = {row.graph: 1 + metrics.top_k_slowdown(row.scores, row.runtimes, k) for row in judged}
        if unjudged := [name for name in names if name not in found]:
            text = f"found none called {unjudged[0]!r} for {scorer!r}; evaluate all on the same graphs"
            raise ConfigError(f"report: expected the same graphs for each scorer, {text}")
        after = [found[name] for name in names]
        colour, mark, size = _SCORERS[i % len(_SCORERS)], _MARKS[i % len(_MARKS)], 4.5 if i else 7
        label = f"{_short(scorer, _NAME)}, best of {k}: {_above(after)}"
        ax.plot(after, places, mark, color=colour, markersize=size, label=label, zorder=3)
    for compares, colour in ((np.less, _GAIN), (np.greater, _WORSE)):  # of the first scorer, drawn last
        some = compares(after, ends)
        ax.hlines(places[some], np.array(after)[some], np.array(ends)[some], color=colour, linewidth=3)
    ring: _Look = {"markerfacecolor": "white", "markeredgecolor": _INK, "markersize": 6, "zorder": 2}
    ax.plot(ends, places, "o", label=f"{_short(by, _NAME)}: {_above(ends)}", **ring)
    ax.set_xscale("log")
    ax.set_xlim(left=0.97)
    ticks = [tick for tick in _TIMES if tick <= ax.get_xlim()[1]]
    ax.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    ax.set_xticks([], minor=True)
    handles, labels = ax.get_legend_handles_labels()
    figure.legend(handles[::-1], labels[::-1], frameon=False, loc="outside upper left", fontsize=9)
    return figure


def compared(values: Mapping[str, list[float]], metric: str, random: float) -> Figure:
    """Draw what every scorer reached, one dot per training, in the given order from the top.

    Parameters
    ----------
    values : mapping of str to list of float
    metric : str
        Its name, as a report calls it; slowdowns are drawn in per cent.
    random : float
        What a random order reaches: a dashed line, or a word where that would be far from all dots.

    Returns
    -------
    matplotlib.figure.Figure
    """
    slow = metric.startswith("slowdown")
    scale = 100 if slow else 1
    figure, ax = _figure(7.2, 1.1 + 0.26 * len(values))
    first = metric.partition("@")[2]
    what = f"runtime of the {'first' if first == '1' else f'best of the first {first}'}, above the best (%)"
    _bare(ax, "", what if slow else "Kendall's tau", "")
    places = _named(ax, list(values)[::-1], 9)
    for place, found in zip(places[::-1], values.values(), strict=True):
        reached = scale * np.array(found)
        ax.plot(reached, np.full(reached.size, place), "o", color=_TAU, alpha=0.45, markersize=5)
        ax.plot(reached.mean(), place, "|", color=_INK, markersize=13, markeredgewidth=2)
    whole = scale * np.concatenate([np.asarray(found) for found in values.values()])
    away = max(whole.min() - scale * random, scale * random - whole.max())
    if away > 3 * (whole.max() - whole.min()):  # the line would press all dots together
        ax.set_title(f"a random order: {scale * random:.2f}", fontsize=9, loc="right", color=_INK)
    else:
        ax.axvline(scale * random, label="random order", **_DASHED)
        figure.legend(frameon=False, fontsize=9, loc="outside upper right")
    return figure


def _named(ax: Axes, names: Sequence[str], size: float) -> NDArray[np.int64]:
    """Write names at the vertical axis, from the bottom; return their places."""
    places = np.arange(len(names))
    ax.set_yticks(places, [_short(name, _NAME) for name in names], fontsize=size)
    ax.set_ylim(-0.7, len(names) - 0.3)
    return places


def _above(times: list[float]) -> str:
    return f"{100 * (np.mean(times) - 1):.1f} % above it on average"


def to_png(figure: Figure, *, dpi: int = DPI) -> bytes:
    """Return a figure as the bytes of a PNG.

    Parameters
    ----------
    figure : matplotlib.figure.Figure
        What is drawn.
    dpi : int
        Pixels per inch.

    Returns
    -------
    bytes
        A file's content.
    """
    return _rendered(figure, "png", dpi)


def save(figure: Figure, path: str | os.PathLike[str], *, dpi: int = DPI) -> None:
    """Write a figure; the suffix (``.png .svg .pdf``) decides the format.

    Parameters
    ----------
    figure : matplotlib.figure.Figure
        What is written.
    path : path
        The file appears when it is complete.
    dpi : int
        Pixels per inch.
    """
    write_whole(path, _rendered(figure, Path(path).suffix.lstrip(".").lower() or "png", dpi))


def _rendered(figure: Figure, kind: str, dpi: int) -> bytes:
    buffer = io.BytesIO()
    options: dict[str, Any] = {"pil_kwargs": {"optimize": True}} if kind == "png" else {}
    figure.savefig(buffer, format=kind, dpi=dpi, **options)
    return buffer.getvalue()


def _short(name: str, most: int) -> str:
    """Shorten a long name to its beginning and end, in which names of graphs differ.

    Dollars are escaped, since Matplotlib would read text between two of them as a formula.
    """
    end = most // 2
    shown = name if len(name) <= most else f"{name[: most - end - 1]}…{name[-end:]}"
    return printable(shown, "").replace("$", r"\$")


def moving_mean(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the trailing mean over a fortieth of the series, over fewer values at its beginning."""
    width = max(1, values.size // 40)
    total = np.cumsum(values)
    total[width:] -= total[:-width].copy()
    return np.asarray(total / np.minimum(np.arange(1, values.size + 1), width))


def _bare(ax: Axes, title: str, x: str, y: str) -> None:
    ax.set_title(title, loc="left", fontsize=10.5, fontweight="bold", color=_INK)
    ax.set_xlabel(x, color=_INK)
    ax.set_ylabel(y, color=_INK)
    ax.grid(True, color=_GRID, linewidth=0.8)
    ax.set_axisbelow(True)
    ax.tick_params(colors=_INK, length=0)
    ax.spines[["top", "right"]].set_visible(False)
    ax.spines[["left", "bottom"]].set_color("#9a9a9a")
