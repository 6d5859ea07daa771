"""Pictures: drawn without pyplot, for any report."""

from __future__ import annotations

import os
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from refusals import refuses

import tpugraphs as tg
from tpugraphs.evaluation import Report, Row, plot


def history(steps: int = 300, valid: int = 6) -> SimpleNamespace:
    at = np.linspace(0, steps, valid + 1)[1:].astype(int)
    return SimpleNamespace(
        steps=np.arange(1, steps + 1),
        loss=1 / np.sqrt(np.arange(1, steps + 1)),
        valid_steps=at,
        valid_metric=0.7 * (1 - np.exp(-at / 100)),
    )


def report(n: int = 800, scorers: int = 2) -> Report:
    rng = np.random.default_rng(0)
    runtimes = rng.integers(10**6, 10**8, n)
    return Report(
        [
            Row.judge(
                "alexnet", "layout", f"s{i}", runtimes + 10.0 ** (6 + i) * rng.standard_normal(n), runtimes
            )
            for i in range(scorers)
        ],
        draws=10,
    )


def texts(figure) -> str:
    from matplotlib.text import Text

    return "\n".join(t.get_text() for t in figure.findobj(Text))


def test_gains_are_the_way_from_what_was_chosen_to_the_best_tried():
    runtimes = np.array([130, 100, 120, 110, 150, 200, 180.0])
    scores = {"ours": np.array([3, 5, 0, 4, 1, 2, 6]), "theirs": np.array([0, 9, 8, 7, 1, 2, 3])}
    rows = [Row.judge(name, "c", who, s, runtimes) for name in "ab" for who, s in scores.items()]
    figure = plot.gains(Report(rows, draws=10), {"a": 130.0, "b": 115.0}, k=3)
    (ax,) = figure.axes
    lines = {line.get_label(): np.asarray(line.get_xdata(), float) for line in ax.lines}
    assert np.allclose(lines["ours, best of 3: 20.0 % above it on average"], 1.2)  # of 120, 150 and 200
    assert np.allclose(lines["theirs, best of 3: 30.0 % above it on average"], 1.3)
    assert np.allclose(
        lines["XLA's choice: 22.5 % above it on average"], [1.15, 1.3]
    )  # b was 15 % above, a 30 %
    assert [t.get_text() for t in ax.get_yticklabels()] == ["b", "a"]
    spans = {tuple(segment[:, 0]) for lines in ax.collections for segment in lines.get_segments()}
    assert {tuple(np.round(span, 9)) for span in spans} == {(1.2, 1.3), (1.2, 1.15)}
    refuses(lambda: plot.gains(Report(rows, draws=10), {"a": 1.0}), tg.ConfigError, "'b'")


def test_gains_need_every_graph_of_every_scorer():
    runtimes = np.array([3.0, 1.0, 2.0])
    judged = [("a", "ours"), ("b", "ours"), ("a", "theirs")]
    rows = [Row.judge(graph, "c", who, runtimes, runtimes) for graph, who in judged]
    with pytest.raises(tg.ConfigError, match="'b'.*'theirs'"):
        plot.gains(Report(rows, draws=10), {"a": 2.0, "b": 2.0})


def test_names_are_no_formulas():
    """Dollars and backslashes of names are drawn as they are; Matplotlib would read them as TeX."""
    name, runtimes = r"$\frac$ _{", np.array([3.0, 1.0, 2.0])
    odd = Report([Row.judge(name, "c", name, runtimes, runtimes)], draws=10)
    for figure in (
        odd.plot(),
        plot.gains(odd, {name: 2.0}, by=name),
        plot.compared({name: [0.1, 0.2]}, "tau", 0.0),
    ):
        assert len(plot.to_png(figure)) > 5000


def test_every_scorer_is_drawn_with_what_it_was_judged_by():
    """More scorers than colours; one of them with other configs, and one that is called like a curve."""
    names = [*(f"s{i}" for i in range(6)), "perfect"]
    rng = np.random.default_rng(0)
    rows = [
        Row.judge("g", "c", name, rng.random(size), np.arange(1.0, size + 1))
        for name, size in zip(names, (20, 20, 20, 20, 20, 20, 8), strict=True)
    ]
    (_, ax) = Report(rows, draws=10).plot().axes
    assert [line.get_label() for line in ax.lines] == [*names, "perfect"]
    assert [line.get_xdata().size for line in ax.lines] == [20] * 6 + [8, 20]
    looks = {(line.get_color(), line.get_linestyle(), line.get_linewidth()) for line in ax.lines}
    assert len(looks) == 8
    best = ax.lines[-1].get_ydata()
    assert (np.diff(best) > 0).all() and best[0] == 0


@pytest.mark.parametrize("loss", [[-1.0, -2.0, -3.0], [1.0, -2.0, -3.0], [0.0, 0.0], [3.0]])
def test_losses_of_any_sign_are_inside(loss):
    made = tg.training.History(loss=loss)
    low, high = made.plot().axes[0].get_ylim()
    assert low <= min(loss) and max(loss) <= high and low <= 0 <= high


def test_report_picture_says_what_it_shows(tmp_path) -> None:
    r = report()
    figure = r.plot(history=history())
    plot.save(figure, tmp_path / "r.png")
    assert (tmp_path / "r.png").read_bytes().startswith(b"\x89PNG")
    shown = texts(figure)
    assert f"tau {r.rows[0].values['tau']:.3f}" in shown
    for word in ("alexnet", "800", "s0", "s1", "measured rank", "predicted rank", "step", "fastest"):
        assert word in shown
    assert len(figure.axes) == 4  # three panels, one with two scales


def apart(figure, legends=1):
    """What is written overlaps no panel but its own, no other text, and stays inside."""
    figure.canvas.draw()
    panels = [ax.get_window_extent() for ax in figure.axes]
    found = [legend for legend in [*figure.legends, *(ax.get_legend() for ax in figure.axes)] if legend]
    assert len(found) == legends
    heads = [ax._left_title for ax in figure.axes if ax._left_title.get_text()]
    heads += [figure._suptitle] if figure._suptitle else []
    boxes = [one.get_window_extent() for one in (*found, *heads)]
    for i, box in enumerate(boxes):
        assert not any(box.overlaps(panel) for panel in panels)
        assert not any(box.overlaps(other) for other in boxes[:i])
        assert figure.bbox.x0 <= box.x0 and box.x1 <= figure.bbox.x1 + 1 and box.y1 <= figure.bbox.y1 + 1
    for ax in figure.axes:
        assert ax.get_window_extent().width > 150


@pytest.mark.parametrize("scorers", [1, 9, 40])
@pytest.mark.parametrize("name", ["g", "bert_en_cased_L-12_H-768_A-12_batch_size_16_test", "long_name_" * 30])
def test_legends_and_titles_are_apart_from_the_curves(name, scorers):
    rng = np.random.default_rng(0)
    runtimes = np.arange(1.0, 31)
    rows = [
        Row.judge(name, "c", f"scorer {i} of {name}", rng.random(30) + i, runtimes) for i in range(scorers)
    ]
    made = Report(rows, draws=10)
    for fitted in (None, history()):
        apart(made.plot(history=fitted))
    apart(plot.gains(made, {name: 20.0}))
    apart(plot.compared({f"{i}{name}": [0.1, 0.2] for i in range(scorers)}, "tau", 0.0))


@pytest.mark.parametrize("n", [1, 2, 30])
def test_small_reports(n: int) -> None:
    assert len(plot.to_png(report(n, 1).plot())) > 5000


@pytest.mark.parametrize("steps, valid", [(0, 0), (1, 0), (1, 1), (5, 2)])
def test_short_histories(steps: int, valid: int) -> None:
    assert len(plot.to_png(report(20).plot(history=history(steps, valid)))) > 5000


def test_unknown_graph() -> None:
    refuses(lambda: plot.report(report(10), graph="x"), tg.ConfigError, "'x'", "alexnet")


def test_pyplot_is_never_imported() -> None:
    code = (
        "import sys, test_plot as t\n"
        "assert 'matplotlib' not in sys.modules, 'matplotlib was imported before it was needed'\n"
        "t.plot.to_png(t.report().plot(history=t.history()))\n"
        "assert 'matplotlib.pyplot' not in sys.modules\n"
    )
    path = os.pathsep.join(filter(None, sys.path))  # what this process imports, not what lies in the cwd
    subprocess.run([sys.executable, "-P", "-c", code], check=True, env=os.environ | {"PYTHONPATH": path})
