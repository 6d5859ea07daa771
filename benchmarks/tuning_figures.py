"""Pictures of tuners: mean of best over optimum by evaluations, a panel for each space."""

from __future__ import annotations

import io
from typing import Any

from .figures import DPI, INK, OURS, _bare, _figure, _plain_log
from .tuning_peers import TUNERS

COLOURS = {
    "ours": OURS, "ours_others": OURS, "random": "#9a9a9a", "genetic_algorithm": "#c8401e",
    "extra_trees": "#3b8f5a", "extra_trees_others": "#3b8f5a", "tpe": "#8a5fbf", "hybrid_vndx": "#d99a2b",
    "adaptive_tabu_greywolf": "#b5527a", "smac": "#4aa3a3", "others_order": INK,
}  # fmt: skip


def draw(found: dict[str, Any]) -> dict[str, bytes]:
    """PNG bytes by file name: tuners from scratch, and those with records."""
    made = {}
    for name, others in (("scratch", False), ("records", True)):
        some = [one for one in found["records"] if TUNERS[one["tuner"]].others == others]
        if some:
            made[f"tuning-{name}.png"] = _panels(found["spaces"], some)
    return made


def _panels(spaces: list[dict[str, Any]], records: list[dict[str, Any]]) -> bytes:
    from PIL import Image  # comes with matplotlib

    columns = min(4, len(spaces))
    rows = -(-len(spaces) // columns)
    figure, axes = _figure(columns, rows, (3.0, 2.7))
    lines: dict[str, Any] = {}
    for ax, space in zip(axes, spaces, strict=False):
        _bare(ax, space["space"], "evaluations", "best ÷ optimum" if ax in axes[::columns] else "")
        mine = [one for one in records if one["space"] == space["space"]]
        for one in mine:
            tuner = one["tuner"]
            (line,) = ax.plot(one["at"], one["mean"], color=COLOURS[tuner], linewidth=1.2,
                              zorder=3 if tuner.startswith("ours") else 2)  # fmt: skip
            lines[TUNERS[tuner].title] = line
            if tuner.startswith("ours"):
                ax.fill_between(one["at"], one["low"], one["high"], color=OURS, alpha=0.15, linewidth=0)
        _plain_log(ax, "x", wide=True)
        ax.axvline(space["end"], color=INK, linewidth=0.7, linestyle=":")
        ends = [one["mean"][min(len(one["mean"]) - 1, 6)] for one in mine]
        ax.set_ylim(0.98, max(1.1, min(3.0, 1.02 * max(ends))))
    for ax in axes[len(spaces) :]:
        ax.set_axis_off()
    figure.legend(
        lines.values(), lines.keys(), loc="outside lower center", ncols=4, frameon=False, fontsize=8
    )
    drawn, small = io.BytesIO(), io.BytesIO()
    figure.savefig(drawn, format="png", dpi=DPI)
    Image.open(drawn).convert("RGB").quantize(64).save(small, format="png", optimize=True)
    return small.getvalue()
