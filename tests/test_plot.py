"""Pictures: drawn without pyplot, for any report."""

from __future__ import annotations

import os
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest

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
    with pytest.raises(tg.ConfigError, match="none for 'b'"):
        plot.gains(Report(rows, draws=10), {"a": 1.0})


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


@pytest.mark.parametrize("n", [1, 2, 30])
def test_small_reports(n: int) -> None:
    assert len(plot.to_png(report(n, 1).plot())) > 5000


@pytest.mark.parametrize("steps, valid", [(0, 0), (1, 0), (1, 1), (5, 2)])
def test_short_histories(steps: int, valid: int) -> None:
    assert len(plot.to_png(report(20).plot(history=history(steps, valid)))) > 5000


def test_unknown_graph() -> None:
    with pytest.raises(tg.ConfigError, match=r"no graph 'x'.*alexnet"):
        plot.report(report(10), graph="x")


def test_pyplot_is_never_imported() -> None:
    code = (
        "import sys, test_plot as t\n"
        "assert 'matplotlib' not in sys.modules, 'matplotlib was imported before it was needed'\n"
        "t.plot.to_png(t.report().plot(history=t.history()))\n"
        "assert 'matplotlib.pyplot' not in sys.modules\n"
    )
    path = os.pathsep.join(filter(None, sys.path))  # what this process imports, not what lies in the cwd
    subprocess.run([sys.executable, "-P", "-c", code], check=True, env=os.environ | {"PYTHONPATH": path})
