"""Rankers in words, and reports as pandas DataFrames and pictures."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
from rankers import networks, small_graph, small_ranker

import tpugraphs as tg
from tpugraphs import layertime, submission
from tpugraphs.submission.files import Validation
from tpugraphs.training import History

# ---- summary ----------------------------------------------------------------------------------------------


def cells(text: str) -> dict[str, list[str]]:
    """Lines of the table by the name of the step."""
    lines = text.split("\n\n")[1].splitlines()
    starts = [0, *(i + 1 for i in range(1, len(lines[1])) if lines[1][i : i + 2] == " -")]
    split = [[line[a:b].strip() for a, b in zip(starts, [*starts[1:], None], strict=True)] for line in lines]
    return {line[0]: line for line in split[2:]} | {"heads": split[0]}


def test_a_summary_tells_steps_shapes_and_parameters() -> None:
    ranker = tg.Ranker("first-layout")
    told = ranker.summary()
    table = cells(told)
    assert told.splitlines()[0] == repr(ranker) and "preprocessing: prune (config-1hop)" in told
    assert table["heads"] == ["step", "op", "in", "out", "parameters"] and "losses: pairwise_hinge" in told
    assert [step["name"] for step in ranker.steps] == [name for name in table if name != "heads"]
    assert table["sage0"][1] == "sage" and table["pool"][4] == "-"
    assert sum(int(line[4].replace(",", "")) for line in table.values() if line[4][0].isdigit()) == (
        ranker.num_parameters
    )
    assert "(N·C, 128)" in table["linear1"][3] and "N nodes, C configs" in told
    assert f"{ranker.num_parameters:,} parameters" in told


def test_times_are_those_of_the_last_pass() -> None:
    ranker = small_ranker(steps=1).fit(small_graph(), verbose=False)
    told = ranker.summary()
    table = cells(told)
    assert table["heads"][-2:] == ["forward ms", "backward ms"] and "times of the last pass" in told
    assert any(float(line[-2]) > 0 for line in table.values() if line[-2][0].isdigit())


def test_a_model_that_is_not_known_yet_and_none() -> None:
    assert "the model follows from the graphs" in tg.Ranker("graph-config").summary()
    assert tg.Ranker("eighth-lightgbm").summary() == repr(tg.Ranker("eighth-lightgbm"))


@pytest.mark.parametrize("recipe", networks())
def test_every_recipe_has_a_summary(recipe: str) -> None:
    ranker = tg.Ranker(recipe)
    told = ranker.summary()
    if ranker.network.known:
        assert [step["name"] for step in ranker.steps] == [name for name in cells(told) if name != "heads"]
    else:
        assert told.endswith("call fit first")


# ---- histories --------------------------------------------------------------------------------------------


def test_the_history_as_a_frame_and_a_picture() -> None:
    pytest.importorskip("pandas", reason="needs pandas")
    ranker = small_ranker(steps=10, evaluate_every=5).fit(small_graph(), 0.3, verbose=False)
    frame = ranker.history_.to_frame()
    assert list(frame.columns) == ["step", "loss", "learning_rate", "tau"] and len(frame) == 10
    assert frame["loss"].tolist() == ranker.history_.loss and frame["step"].tolist() == ranker.history_.steps
    assert frame["tau"].dropna().tolist() == ranker.history_.valid_metric and frame["tau"].isna().sum() == 8
    assert History().to_frame().empty
    figure = ranker.history_.plot()
    assert figure.axes[0].get_xlabel() == "step" and len(figure.axes) == 2
    png = tg.evaluation.plot.to_png(figure)
    assert png[:4] == b"\x89PNG" and len(png) > 5000
    assert len(History().plot().axes) == 1


def test_there_is_no_history_before_a_fit(tmp_path: Any) -> None:
    with pytest.raises(AttributeError, match="none before fit"):
        _ = tg.Ranker().history_
    assert not hasattr(tg.Ranker(), "history_")
    small_ranker(steps=1).fit(small_graph(), verbose=False).save(tmp_path / "r.safetensors")
    assert not hasattr(tg.load_ranker(tmp_path / "r.safetensors"), "history_")


# ---- frames -----------------------------------------------------------------------------------------------


@pytest.fixture
def pandas() -> Any:
    return pytest.importorskip("pandas", reason="needs pandas")


def test_reports(pandas: Any) -> None:
    ranker = small_ranker(steps=1).fit(small_graph(), verbose=False)
    report = ranker.evaluate([small_graph(1), small_graph(2)], draws=10)
    frame = report.to_frame()
    assert frame["graph"].tolist() == ["small1", "small2"]
    assert frame["tau"].tolist() == [row.values["tau"] for row in report.rows]
    (means,) = report.to_frame(means=True).to_dict("records")
    assert means["graphs"] == 2 and means["tau"] == report.mean() == pytest.approx(frame["tau"].mean())
    assert (means["tau_low"], means["tau_high"]) == report.groups[0].intervals["tau"]


def test_audits(pandas: Any) -> None:
    audit = tg.audit([small_graph(1), small_graph(2, copies=16)])
    frame = audit.to_frame()
    assert frame["name"].tolist() == ["small1", "small2"] and frame["distinct"].tolist() == [96, 80]
    assert frame["exclude"].tolist() == [False, False] and frame["shift"].isna().all()
    assert tg.data.auditing.Audit([]).to_frame().empty
    sizes = {"batch": [8] * 40, "dim_input": range(100, 140), "dim_output": [64] * 40}
    table = {**sizes, "ms": 0.1 + np.arange(40) / 100, "device": ["K40"] * 20 + ["P100"] * 20}
    layers = layertime.audit(table, "dense")
    assert layers.to_frame()["device"].tolist() == ["K40", "P100"]
    assert layers.to_frame()["stretch_layers"].tolist() == [20, 20]


def test_submissions(pandas: Any, tmp_path: Any) -> None:
    graphs = [small_graph(i, collection="layout:xla:random") for i in range(2)]
    rankings = {graph.submission_id: np.argsort(graph.config_runtime) for graph in graphs}
    submission.write(tmp_path / "s.csv", rankings)
    frame = submission.to_frame(submission.read(tmp_path / "s.csv"))
    assert frame.equals(pandas.read_csv(tmp_path / "s.csv", dtype=str).astype(frame.dtypes))
    assert submission.to_frame({}).columns.tolist() == ["ID", "TopConfigs"]
    with pytest.raises(tg.DataError, match="collection"):
        submission.to_frame({"nothing": [0, 1]})
    scored = submission.score(tmp_path / "s.csv", graphs, small_graph(3, collection="layout:xla:random"))
    frame = scored.to_frame()
    assert frame["score"].tolist() == [1, 1, 0] and frame["missing"].tolist() == [False, False, True]
    (tmp_path / "s.csv").write_text("ID,TopConfigs\nlayout:xla:random:a,1;1\n")
    problems = submission.validate(tmp_path / "s.csv").to_frame()
    assert problems["line"].tolist() == [2] and list(problems.columns) == ["line", "id", "message"]
    assert Validation("s.csv").to_frame().empty


def test_seeds_and_comparisons(pandas: Any) -> None:
    graphs = [small_graph(i, configs=40) for i in range(3)]
    short = {"steps": 2, "configs": 16, "verbose": False}
    runs = tg.train_seeds("first-layout", graphs[:2], graphs[2:], seeds=2, **short)
    frame = runs.to_frame()
    assert frame["seed"].tolist() == [0, 1] and frame["tau"].tolist() == [run.metric for run in runs.runs]
    folds = tg.ranker.unseen_graphs(graphs, seed=0)
    compared = tg.compare(["first-layout"], folds, seeds=1, **short)
    frame = compared.to_frame()
    assert len(frame) == len(compared.trials) and frame["tau"].tolist() == [
        t.values["tau"] for t in compared.trials
    ]


def test_without_pandas_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(tg.ConfigError, match=r"tpugraphs\[pandas\]"):
        History().to_frame()
