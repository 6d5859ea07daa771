"""The logger `tpugraphs`: what it tells, whatever `verbose` says, and that it is silent by itself."""

from __future__ import annotations

import logging
import subprocess
import sys

import numpy as np
import pytest
from rankers import small_graph, small_ranker

import tpugraphs as tg
from tpugraphs.system.progress import notice, quiet


def told(caplog: pytest.LogCaptureFixture, level: int) -> list[str]:
    return [one.getMessage() for one in caplog.records if one.name == "tpugraphs" and one.levelno >= level]


@pytest.mark.parametrize("verbose", [False, True])
def test_a_fit_is_told(caplog: pytest.LogCaptureFixture, verbose: bool) -> None:
    caplog.set_level(logging.INFO, "tpugraphs")
    ranker = small_ranker(steps=6, evaluate_every=3, seed=5)
    ranker.fit(small_graph(0), small_graph(1), verbose=verbose)
    lines = told(caplog, logging.INFO)
    who = f"fit of {ranker.recipe}, seed 5: "
    h = ranker.history_
    assert lines == [
        f"{who}begins at step 0 of 6",
        f"{who}step 3 of 6, loss {h.loss[2]:.6g}, tau {h.valid_metric[0]:.6g}",
        f"{who}step 6 of 6, loss {h.loss[5]:.6g}, tau {h.valid_metric[1]:.6g}",
        f"{who}done after step 6 of 6, loss {h.loss[5]:.6g}, best tau {h.best_metric:.6g}",
    ]


def test_steps_and_other_work_are_details(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "tpugraphs")
    ranker = small_ranker(steps=2).fit(small_graph(0), verbose=False)
    ranker.predict(small_graph(1))
    lines = told(caplog, logging.DEBUG)
    assert sum(", seed 0: step " in line for line in lines) == 2
    assert any(line.startswith("predict: 96 config, over after ") for line in lines), lines


def test_graphs_left_out_are_all_told(caplog: pytest.LogCaptureFixture) -> None:
    bare = [small_graph(i).replace(config_runtime=np.zeros(96, np.int64), name=f"b{i}") for i in range(2)]
    with pytest.warns(UserWarning, match="2 graphs left out"):
        small_ranker(steps=4).fit([small_graph(3), *bare], verbose=False)
    names = {line.split(": ")[1] for line in told(caplog, logging.WARNING)}
    assert names == {"b0", "b1"}


def test_trees_are_told(caplog: pytest.LogCaptureFixture) -> None:
    pytest.importorskip("lightgbm", reason="needs the extra [lightgbm]")
    caplog.set_level(logging.INFO, "tpugraphs")
    tg.Ranker("eighth-lightgbm", steps=3, min_data_in_leaf=3).fit(small_graph(0), verbose=False)
    first, last = told(caplog, logging.INFO)
    assert (
        first == "fit of eighth-lightgbm, seed 0: begins at step 0 of 3" and "done after step 3 of 3" in last
    )


def test_notices_are_told(caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]) -> None:
    caplog.set_level(logging.INFO, "tpugraphs")
    with quiet():
        notice("the file of 100 % was read again")
    assert told(caplog, logging.INFO) == ["the file of 100 % was read again"] and not capsys.readouterr().err


def test_a_break_is_told(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "tpugraphs")
    from tpugraphs.system.progress import Progress

    with pytest.raises(KeyError), Progress(None, "work", "piece", False):
        raise KeyError
    assert told(caplog, logging.DEBUG)[0].startswith("work: piece, broken off after ")


def test_it_is_silent_until_asked() -> None:
    code = (
        "import numpy as np, tpugraphs as tg, logging\n"
        "x = np.arange(8.)[:, None]; y = x[:, 0] + 1\n"
        "tg.Ranker('graph-config', steps=1).fit(x, y)\n"
        "assert type(logging.getLogger('tpugraphs').handlers[0]) is logging.NullHandler\n"
        "logging.basicConfig(level='INFO')\n"
        "tg.Ranker('graph-config', steps=1).fit(x, y)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    begin, end = done.stderr.splitlines()
    assert begin == "INFO:tpugraphs:fit of graph-config, seed 0: begins at step 0 of 1"
    assert end.startswith("INFO:tpugraphs:fit of graph-config, seed 0: done after step 1 of 1, loss ")
