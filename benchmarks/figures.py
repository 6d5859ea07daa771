"""Pictures of results. A new one is a function of the results here and its name in FIGURES."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from .record import Record, Results
from .workloads import PLAIN

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK, GRID = "#262626", "#e4e4e4"
OURS, PEER, ROOF, MISSED = "#1764ab", "#b0b7bf", "#c8401e", "#d9a679"
PRODUCTS = ("products", "layers")  # groups of the section of kernels
DPI = 110


def bars(results: Results) -> Figure | None:
    """Training and scoring: ours beside the peer, with the machine's limit as a line across our bar."""
    training = [r for r in results.of("step") if r.facts.get("kind") == "step" and r.ours]
    scoring = [r for r in results.of("score") if r.facts.get("kind") == "score" and r.ours]
    panels = [p for p in (("Training step", "ms", training), ("Scoring", "us per config", scoring)) if p[2]]
    if not panels:
        return None
    figure, axes = _figure(1, len(panels), (8.0, 0.0), [1.0 + 0.36 * len(records) for *_, records in panels])
    for ax, (title, unit, records) in zip(axes, panels, strict=True):
        _bars(ax, title, unit, records)
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False)
    return figure


def _bars(ax: Axes, title: str, unit: str, records: list[Record]) -> None:
    _bare(ax, title, f"{unit} (logarithmic; less is better)", "")
    place = np.arange(len(records), dtype=float)[::-1]
    ours = np.array([r.ours for r in records], float)
    peer = np.array([np.nan if r.peer is None else r.peer for r in records], float)
    ends = np.concatenate([ours, peer[np.isfinite(peer)], [r.roof for r in records if r.roof]])
    low, high = 0.6 * ends.min(), 3.0 * ends.max()
    _plain_log(ax, "x", high > 1000 * low)
    ax.set_xlim(low, high)
    ax.barh(place + 0.2, peer - low, 0.36, left=low, color=PEER, label="peer (PyTorch; int8: our bf16)")
    ax.barh(place - 0.2, ours - low, 0.36, left=low, color=OURS, label="tpugraphs")
    for i, record in enumerate(records):
        if record.roof:
            label = "limit of the machine" if i == 0 else None
            ax.plot(
                [record.roof] * 2, place[i] + np.array([-0.4, 0.0]), color=ROOF, linewidth=2.2, label=label
            )
        if record.ratio:
            text = f"{record.ratio:.1f}×"
            ax.annotate(text, (max(ours[i], record.peer or 0), place[i]), (5, 0), textcoords="offset points",
                        va="center", color=INK, fontsize=8.5)  # fmt: skip
    ax.set_yticks(place, [_named(record) for record in records])
    ax.set_ylim(-0.6, len(records) - 0.4)
    ax.grid(False, axis="y")


def _named(record: Record) -> str:
    """Return what a workload is: short names such as M64 say nothing to a reader."""
    facts, workload = record.facts, record.facts["workload"]
    size = f"{facts['nodes']:,} nodes × {facts['configs']} configs"
    program = "AlexNet, " if workload.removesuffix(PLAIN) == "S" else ""
    plain = ", no attention" if workload.endswith(PLAIN) else ""
    return f"{program}{size}{plain}, {record.case.split()[-1]}"


def products(results: Results) -> Figure | None:
    """Matrix products, kernel against kernel and as layers."""
    chosen = [r for r in results.of("kernels") if r.facts.get("group") in PRODUCTS and r.ratio]
    return _ratios([r for r in chosen if r.facts.get("precision") == "f32"], "Matrix products, f32")


def kernels(results: Results) -> Figure | None:
    """All other kernels."""
    chosen = [r for r in results.of("kernels") if r.facts.get("group") not in PRODUCTS and r.ratio]
    return _ratios(chosen, "Kernels")


def _ratios(records: list[Record], title: str) -> Figure | None:
    """How many times faster each is than its fastest peer, and the goal."""
    if not records:
        return None
    figure, axes = _figure(1, 1, (8.4, 1.2 + 0.21 * len(records)))
    ax = axes[0]
    _bare(ax, title, "times as fast as the fastest peer (logarithmic)", "")
    place = np.arange(len(records), dtype=float)[::-1]
    ratios = np.array([r.ratio for r in records], float)
    asked = [r.required or 1.0 for r in records]
    _plain_log(ax, "x", ratios.max() > 300 * ratios.min())
    ax.set_xlim(min(0.7, 0.8 * ratios.min()), 1.6 * max(ratios.max(), *asked))
    colours = [OURS if r.reached is not False else MISSED for r in records]
    ax.barh(place, ratios - 1, 0.7, left=1.0, color=colours)
    for at, record in zip(place, records, strict=True):
        if record.required:
            ax.plot([record.required] * 2, [at - 0.42, at + 0.42], color=INK, linewidth=1.6)
        ratio = record.ratio or 0.0
        text = f"{ratio:.2g}" if ratio < 10 else f"{ratio:.0f}"
        end = max(ratio, 1.0, record.required or 0.0)
        ax.annotate(text, (end, at), (5, 0), textcoords="offset points", va="center", color=INK, fontsize=7)
    ax.axvline(1.0, color=INK, linewidth=0.8)
    ax.set_yticks(place, [r.case for r in records], fontsize=7.5)
    ax.set_ylim(-0.8, len(records) - 0.2)
    ax.grid(False, axis="y")
    marks = [("tpugraphs", OURS)] + [("below the goal", MISSED)] * (MISSED in colours)
    for label, colour in marks:
        ax.barh([np.nan], [np.nan], color=colour, label=label)
    if any(r.required for r in records):
        ax.plot([np.nan], [np.nan], color=INK, linewidth=1.6, label="goal")
    figure.legend(*ax.get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False)
    return figure


def scaling(results: Results) -> Figure | None:
    """Time over nodes and configs, and speed over threads."""
    records = results.of("scaling")
    if not records:
        return None
    figure, axes = _figure(2, 2, (4.1, 3.5))
    axes[3].set_axis_off()
    names = {"nodes": "nodes (64 configs)", "configs": "configs (500 nodes)"}
    for ax, (axis, label) in zip(axes, names.items(), strict=False):
        chosen = [r for r in records if r.facts.get("axis") == axis and r.ours]
        _bare(ax, f"Training step over {axis}", label, "ms")
        _plain_log(ax, "x")
        _plain_log(ax, "y")
        for name, colour, style in (("peer", PEER, "o-"), ("ours", OURS, "o-"), ("roof", ROOF, "--")):
            points = [(r.facts["at"], getattr(r, name)) for r in chosen if getattr(r, name)]
            legend = {"peer": "PyTorch f32", "ours": "tpugraphs f32", "roof": "limit of the machine"}[name]
            if points:
                ax.plot(*zip(*points, strict=True), style, color=colour, label=legend, markersize=4)
        at = [r.facts["at"] for r in chosen]
        ax.set_xticks(at, [f"{value:,}" for value in at])
        if chosen:
            ax.legend(frameon=False, fontsize=8)
    _threads(axes[2], results)
    return figure


def _threads(ax: Axes, results: Results) -> None:
    _bare(ax, "Speed over threads", "threads", "times as fast as one thread")
    chosen = [r for r in results.of("scaling") if r.facts.get("axis") == "threads" and r.ours]
    counts = [r.facts["at"] for r in chosen]
    if not counts:
        return
    first = chosen[0].ours or 1.0
    ax.plot(counts, counts, "--", color=ROOF, label="ideal")
    ax.plot(
        counts, [first / (r.ours or 1.0) for r in chosen], "o-", color=OURS, label="1,000 nodes, 64 configs"
    )
    pairs = [
        r
        for r in results.of("step")
        if r.facts.get("kind") == "threads" and r.ratio and r.facts["precision"] == "f32"
    ]
    for record in pairs:
        if record.facts["threads"] in counts and record.facts["workload"] in ("S", "L64"):
            size = f"{record.facts['nodes']:,} nodes, {record.facts['configs']} configs"
            mark = "D" if record.facts["workload"] == "S" else "s"
            ax.plot(record.facts["threads"], record.ratio, mark, color=INK, markersize=5, label=size)
    ax.set_xticks(counts)
    ax.set_ylim(bottom=0.9)
    ax.legend(frameon=False, fontsize=8)


def fit(results: Results) -> Figure | None:
    """Tau on unseen configs over wall time."""
    records = [r for r in results.of("fit") if r.facts.get("kind") == "target"]
    if not records:
        return None
    figure, axes = _figure(1, 1, (6.4, 3.8))
    ax = axes[0]
    _bare(
        ax,
        "AlexNet: tau on unseen configs",
        "seconds of training and evaluation (logarithmic)",
        "Kendall's tau",
    )
    colours = {"f32": OURS, "bf16": "#3b8f5a"}
    curves = [("PyTorch f32", PEER, records[0].facts["peer"])]
    for record in records:
        precision = record.case.split()[-1]
        curves.append((f"tpugraphs {precision}", colours.get(precision, INK), record.facts["ours"]))
    for label, colour, fits in curves:
        for i, points in enumerate(fits):
            ax.plot([p[1] for p in points], [p[2] for p in points], color=colour, linewidth=1.4,
                    label=label if i == 0 else None)  # fmt: skip
    ax.axhline(0.76, color=ROOF, linestyle="--", linewidth=1.0, label="target")
    _plain_log(ax, "x")
    ax.legend(frameon=False, loc="lower right")
    return figure


FIGURES: dict[str, Callable[[Results], Any]] = {
    "bars": bars, "scaling": scaling, "products": products, "kernels": kernels, "fit": fit,
}  # fmt: skip


def draw(results: Results) -> dict[str, bytes]:
    """PNG bytes of every figure there is something for."""
    made = {}
    for name, function in FIGURES.items():
        figure = function(results)
        if figure is not None:
            buffer = io.BytesIO()
            figure.savefig(buffer, format="png", dpi=DPI, pil_kwargs={"optimize": True})
            made[name] = buffer.getvalue()
    return made


def _figure(
    columns: int, rows: int, panel: tuple[float, float], heights: list[float] | None = None
) -> tuple[Figure, list[Axes]]:
    """Return a figure of panels of one size in inches, or with rows of these heights."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    heights = heights or [panel[1]] * rows
    size = (panel[0] * columns, sum(heights))
    figure = Figure(figsize=size, dpi=DPI, layout="constrained", facecolor="white")
    FigureCanvasAgg(figure)
    return figure, list(np.ravel(figure.subplots(rows, columns, squeeze=False, height_ratios=heights)))


def _plain_log(ax: Axes, axis: str, wide: bool = False) -> None:
    """Logarithmic, with 1, 2, 5, 10, ... written as such, or only 1, 10, ... if it is wide."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    ax.set(**{f"{axis}scale": "log"})
    found = getattr(ax, f"{axis}axis")
    found.set_major_locator(LogLocator(subs=(1.0,) if wide else (1.0, 2.0, 5.0), numticks=30))
    found.set_minor_locator(NullLocator())
    found.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))


def _bare(ax: Axes, title: str, x: str, y: str) -> None:
    ax.set_title(title, loc="left", fontsize=10.5, fontweight="bold", color=INK)
    ax.set_xlabel(x, color=INK)
    ax.set_ylabel(y, color=INK)
    ax.grid(True, color=GRID, linewidth=0.8)
    ax.set_axisbelow(True)
    ax.tick_params(colors=INK, length=0)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        ax.spines[side].set_color("#9a9a9a")
