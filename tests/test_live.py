"""The learning curve while a fit runs: pictures in a notebook, lines elsewhere, axes of Matplotlib."""

from __future__ import annotations

import importlib.util
import io
import re
import sys
import types

import madeup
import numpy as np
import pytest
from refusals import refuses

import tpugraphs as tg
from tpugraphs.training import Callback, History, LiveCurve
from tpugraphs.training.callbacks import progress_line

SMALL = {"width": 32, "configs": 16, "evaluate_every": 5}


def fit(*callbacks, valid=0.2, steps=10, **options):
    ranker = tg.Ranker("first-layout", steps=steps, **SMALL)
    ranker.fit(madeup.graph("program"), valid, callbacks=callbacks, verbose=False, **options)
    return ranker.history_


class Screen:
    """Stands for IPython in a kernel: what was displayed, and what replaced it."""

    def __init__(self, monkeypatch):
        self.first, self.later = [], []
        ipython, display = types.ModuleType("IPython"), types.ModuleType("IPython.display")
        ipython.get_ipython = lambda: types.SimpleNamespace(kernel=object())
        display.display = self.display
        monkeypatch.setitem(sys.modules, "IPython", ipython)
        monkeypatch.setitem(sys.modules, "IPython.display", display)

    def display(self, what, display_id):
        assert display_id is True
        self.first.append(what)
        return types.SimpleNamespace(update=self.later.append)


@pytest.fixture
def notebook(monkeypatch):
    return Screen(monkeypatch)


@pytest.fixture
def terminal(monkeypatch):
    monkeypatch.delitem(sys.modules, "IPython", raising=False)


# ---- lines


def test_a_line_says_how_far_a_fit_is():
    history = History(total_steps=2000, loss=[0.5] * 1200, seconds=12.4)
    assert progress_line(history) == "step 1,200 of 2,000: loss 0.5000, 12 s"
    history.evaluated(1000, 0.75)
    history.evaluated(1200, 0.7)
    expected = "step 1,200 of 2,000: tau 0.7000, best 0.7500 after step 1,000, loss 0.5000, 12 s"
    assert progress_line(history) == expected
    assert progress_line(History(total_steps=3)) == "step 0 of 3: 0 s"


def test_a_line_per_evaluation(terminal, capsys):
    fit(LiveCurve(), steps=12)
    out, err = capsys.readouterr()
    lines = err.splitlines()
    assert out == "" and [line.split(":")[0] for line in lines] == [
        "step 5 of 12", "step 10 of 12", "step 12 of 12",
    ]  # fmt: skip
    assert all("tau" in line and "best" in line for line in lines)


def test_ten_lines_without_validation(terminal):
    file = io.StringIO()
    fit(LiveCurve(file=file), valid=None, steps=30)
    lines = file.getvalue().splitlines()
    assert [line.split(":")[0] for line in lines] == [f"step {n} of 30" for n in range(3, 31, 3)]


def test_lines_at_the_steps_asked_for_with_a_name_and_the_reason_of_the_end(terminal):
    class Stop(Callback):
        def on_step(self, fit):
            if fit.step == 8:
                fit.stop("enough")

    file = io.StringIO()
    fit(LiveCurve(4, name="seed 0", file=file), Stop())
    heads = [re.split(": (?:tau|loss) ", line)[0] for line in file.getvalue().splitlines()]
    assert heads == [
        "seed 0: step 4 of 10", "seed 0: step 5 of 10", "seed 0: step 8 of 10", "seed 0: enough after 8 steps",
    ]  # fmt: skip


def test_it_changes_nothing_in_the_fit(terminal):
    assert fit(LiveCurve(1, file=io.StringIO())).loss == fit().loss


def test_a_resumed_fit_shows_the_whole_curve(terminal, tmp_path):
    class Break(Callback):
        def on_step(self, fit):
            if fit.step == 6 and self.on:
                raise KeyboardInterrupt

        on = True

    how = {"checkpoint_dir": tmp_path, "checkpoint_every": 2}
    first = io.StringIO()
    with pytest.warns(UserWarning, match="interrupted after step 6"):
        fit(LiveCurve(file=first), Break(), **how)
    assert first.getvalue().splitlines()[-1] == "interrupted after 6 steps"
    Break.on = False
    second = io.StringIO()
    fit(LiveCurve(file=second), Break(), **how)
    assert second.getvalue().startswith("step 10 of 10: ") and "best" in second.getvalue()


def test_arguments_that_are_refused():
    from matplotlib.figure import Figure

    for every in (0, -1, 1.5, True, "10"):
        refuses(lambda: LiveCurve(every), tg.ConfigError, "every")
    refuses(lambda: LiveCurve(ax=Figure()), tg.ConfigError, "ax:", "Figure")
    refuses(lambda: LiveCurve(file="log.txt"), tg.ConfigError, "file", "'log.txt'")


def test_trees_have_it_too(terminal):
    pytest.importorskip("lightgbm")
    recipe = next(name for name in tg.list_recipes() if tg.recipes.get_recipe(name).estimator == "trees")
    kind = tg.recipes.get_recipe(recipe).kind
    graph = madeup.graph("kernel_00" if kind == "tile" else "program")
    file = io.StringIO()
    tg.Ranker(recipe, steps=3).fit([graph], 0.2, callbacks=[LiveCurve(1, file=file)], verbose=False)
    assert "step 3 of 3: loss" in file.getvalue()


# ---- pictures


def test_a_notebook_has_one_picture_that_is_redrawn(notebook, capsys):
    fit(LiveCurve())
    assert len(notebook.first) == 1 and len(notebook.later) >= 9
    pages = [picture._repr_html_() for picture in (*notebook.first, *notebook.later)]
    assert "1 of 10" in pages[0] and "10 of 10" in pages[-1]
    assert all("<svg" in page for page in pages) and "tau on validation" in pages[-1]
    assert repr(notebook.later[-1]).startswith("step 10 of 10")
    assert capsys.readouterr() == ("", "")


def test_every_fit_has_a_picture_of_its_own(notebook):
    live = LiveCurve(name="<seed>")
    fit(live)
    fit(live)
    assert len(notebook.first) == 2
    assert "&lt;seed&gt;" in notebook.first[0]._repr_html_()


def test_long_fits_are_not_drawn_at_every_step(notebook):
    live = LiveCurve()
    running = types.SimpleNamespace(history=History(total_steps=100_000))
    live.on_fit_begin(running)
    for step in range(1, 100_001):
        running.history.loss.append(1 / step)
        live.on_step(running)
    assert len(notebook.first) + len(notebook.later) == 40


def test_lines_into_a_file_in_a_notebook_too(notebook):
    file = io.StringIO()
    fit(LiveCurve(file=file))
    assert not notebook.first and len(file.getvalue().splitlines()) == 2


@pytest.mark.skipif(importlib.util.find_spec("jupyter_client") is None, reason="needs jupyter_client")
def test_a_kernel_gets_a_display_and_its_updates(tmp_path):
    from jupyter_client.manager import start_new_kernel

    code = (
        "import types, tpugraphs as tg\n"
        "from tpugraphs.training import History, LiveCurve\n"
        "live, fit = LiveCurve(1), types.SimpleNamespace(history=History(total_steps=2))\n"
        "live.on_fit_begin(fit)\n"
        "for loss in (2.0, 1.0):\n"
        "    fit.history.loss.append(loss)\n"
        "    live.on_step(fit)\n"
    )
    manager, client = start_new_kernel(kernel_name="python3", cwd=str(tmp_path))
    found = []
    try:
        reply = client.execute_interactive(code, timeout=60, output_hook=found.append)
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
    assert reply["content"]["status"] == "ok", reply["content"]
    kinds = [message["msg_type"] for message in found if "display" in message["msg_type"]]
    assert kinds == ["display_data", "update_display_data"]
    places = {
        message["content"]["transient"]["display_id"] for message in found if "display" in message["msg_type"]
    }
    assert len(places) == 1
    assert all("<svg" in m["content"]["data"]["text/html"] for m in found if "display" in m["msg_type"])


# ---- axes


def test_axes_are_drawn_again_without_a_display(terminal, capsys):
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure()
    FigureCanvasAgg(figure)
    ax, other = figure.subplots(1, 2)
    fit(LiveCurve(2, ax=ax, name="seed 3"))
    assert len(figure.axes) == 3  # the curve with its second scale, and what somebody else draws
    assert other in figure.axes and ax.get_title(loc="right") == "seed 3"
    np.testing.assert_array_equal(ax.get_lines()[0].get_xdata(), np.arange(1, 11))
    assert capsys.readouterr() == ("", "")
    figure.canvas.draw()


@pytest.mark.parametrize("end", ["closed", "removed"])
def test_a_window_that_is_closed_does_not_end_the_fit(terminal, capsys, end):
    from matplotlib.backend_bases import CloseEvent
    from matplotlib.figure import Figure

    figure = Figure()
    ax = figure.subplots()

    class Leave(Callback):
        def on_step(self, fit):
            if fit.step == 6:
                if end == "removed":
                    return ax.remove()
                figure.canvas.callbacks.process("close_event", CloseEvent("close_event", figure.canvas))
                figure.canvas.draw_idle = None  # as in a window that is gone

    fit(LiveCurve(ax=ax), Leave())
    assert len(ax.get_lines()[0].get_xdata()) < 10
    assert capsys.readouterr().err.splitlines()[-1].startswith("step 10 of 10: tau")


def test_matplotlib_is_not_imported_for_lines(terminal):
    import subprocess

    code = "import sys, tpugraphs.training as t; t.LiveCurve(); assert 'matplotlib' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
