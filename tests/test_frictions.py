"""Where strangers stumbled: each thing is taken, or says in its message what it is and what to do."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rankers import small_graph, small_ranker
from refusals import refuses

import tpugraphs as tg
from tpugraphs import submission
from tpugraphs.cli import main
from tpugraphs.layertime import Layer, network_time
from tpugraphs.layertime.table import read_table

TABLE = np.arange(24.0).reshape(12, 2)
TIMES = np.arange(12) + 1.0


def test_an_ensemble_of_one_says_how_to_keep_all() -> None:
    graphs = [small_graph(i) for i in range(3)]
    fields: dict[str, Any] = {"steps": 3, "width": 16, "seeds": 3, "verbose": False}
    runs = tg.train_seeds(train=graphs[:2], valid=graphs[2], select="one-standard-error", **fields)
    for run in runs.runs:
        run.selected = run.seed == 0
    with pytest.warns(UserWarning, match=r"the rule kept 1 of 3 rankers; .*select='all'") as told:
        assert len(runs.ensemble()) == 1
    assert told[0].filename == __file__
    asked = tg.train_seeds(train=graphs[:2], valid=graphs[2], select=1, **fields)
    assert len(asked.ensemble()) == 1  # as was said


def test_an_intact_gzip_and_json_are_not_called_damaged(tmp_path: Path) -> None:
    for name, content, *names in (
        ("t4.json.gz", b'{"results": []}', "JSON", "json.load(gzip.open"),
        ("odd.gz", b"\n [1, 2]", "JSON"),
        ("t.csv.gz", b"a,b\n1,2\n", "table", "tg.from_frame(pandas.read_csv(path)"),
        ("g.npz.gz", b"PK\3\4", "gunzip"),
        ("r.safetensors.gz", b"\x08", "ranker", "tg.load_ranker"),
    ):
        path = tmp_path / name
        path.write_bytes(gzip.compress(content))
        refuses(lambda: tg.load(path), tg.DataError, name, "an intact gzip file", *names)
        path.write_bytes(gzip.compress(content * 50)[:-20])  # this one is
        with pytest.raises(tg.DataError, match="damaged|intact gzip file of (JSON|a table|a ranker)"):
            tg.load(path)
        path.write_bytes(b"\x1f\x8bnonsense")
        refuses(lambda: tg.load(path), tg.DataError, "damaged")
    (tmp_path / "a.json").write_text("{}")
    refuses(lambda: tg.load(tmp_path / "a.json"), tg.DataError, "json.load", "tg.from_frame")


def test_steps_and_epochs_at_once_are_refused() -> None:
    for use in (
        lambda: tg.Ranker("graph-config", steps=5, epochs=3),
        lambda: tg.Ranker("graph-config").fit(TABLE, TIMES, steps=5, epochs=3),
        lambda: tg.train_seeds("graph-config", small_graph(), steps=5, epochs=3),
    ):
        refuses(use, tg.ConfigError, "epochs", "steps")
    ranker = tg.Ranker("first-layout", steps=5)  # whose preset has both
    assert tg.Ranker(**ranker.get_params()).get_params() == ranker.get_params()


def test_a_file_of_both_is_still_read(tmp_path: Path) -> None:
    from tpugraphs.system import tensorfile

    ranker = tg.Ranker("graph-config", steps=2).fit(TABLE, TIMES, verbose=False)
    metadata, tensors = ranker.to_file()
    metadata["fields"]["epochs"] = 3  # as earlier versions allowed
    tensorfile.write(str(tmp_path / "r.safetensors"), "ranker", metadata, tensors)
    assert (tg.load_ranker(tmp_path / "r.safetensors").predict(TABLE) == ranker.predict(TABLE)).all()


def dense(**columns: Any) -> dict[str, Any]:
    sizes: dict[str, Any] = {"batch": [8, 8], "dim_input": [64, 64], "dim_output": [64, 32]}
    return {**sizes, "activation": ["None", "None"], "ms": [1.0, 2.0], **columns}


@pytest.mark.parametrize("none", [None, "None", "", float("nan"), np.str_("None")])
def test_no_optimizer_is_none(none: Any, tmp_path: Path) -> None:
    table = read_table(dense(optimizer=[none, "SGD"]), "dense", "V100")
    assert table.columns["optimizer"].tolist() == ["None", "SGD"]
    pandas = pytest.importorskip("pandas", reason="needs pandas")
    frame = pandas.DataFrame(dense(optimizer=[none, "SGD"]))
    frame.to_csv(tmp_path / "dense_V100.csv", index=False)
    for source in (frame, frame.convert_dtypes(), tmp_path / "dense_V100.csv"):
        again = read_table(source, "dense", "V100")
        assert again.columns["optimizer"].tolist() == ["None", "SGD"]
    with pytest.raises(tg.DataError, match="row 0.*found 'sgd'"):
        read_table(dense(optimizer=["sgd", "SGD"]), "dense", "V100")


def test_a_network_without_an_optimizer() -> None:
    class Fake:
        def predict(self, table: Any) -> Any:
            assert set(table.columns["optimizer"]) == {"None"}
            return np.ones(len(table))

        def predict_interval(self, table: Any, level: float) -> Any:
            return np.ones((len(table), 2))

    layers = [Layer("a", "dense", {"dim_input": 3, "dim_output": 5})]
    estimates = [network_time({"dense": Fake()}, layers, 8, none, "V100") for none in (None, "None")]
    assert estimates[0] == estimates[1] and estimates[0].optimizer == "None"
    refuses(lambda: network_time({"dense": Fake()}, layers, 8, "sgdx", "V100"), tg.ConfigError, "optimizer")


def test_a_report_says_what_was_learnt_from() -> None:
    first, second = small_graph(0), small_graph(1)
    ranker = small_ranker(steps=3).fit(first, verbose=False)
    report = ranker.evaluate([first, second], draws=5)
    assert list(report.known) == ["small0"] and report.to_dict()["learnt_from"] == ["small0"]
    words = "Learnt from 1 graph (small0): this shows what is remembered"
    assert words in report.table() and words in report.to_markdown() and words in report._repr_html_()
    fresh = ranker.evaluate(second, draws=5)
    assert not fresh.known and "Learnt from" not in fresh.table() and "learnt_from" not in fresh.to_dict()
    assert (report + fresh).known == ("small0",) == (fresh + report).known
    for scorer in (tg.Ensemble([ranker, ranker]), tg.Routed({"*": ranker})):
        assert scorer.evaluate(first, draws=5).known == ("small0",)


def test_other_configs_of_a_graph_were_not_learnt_from() -> None:
    graph = small_graph(0)
    known, held = tg.training.split_configs(graph, (0.5, 0.5), 0)
    ranker = small_ranker(steps=3).fit(graph.select(known), verbose=False)
    assert ranker.knows(graph.select(known)) and not ranker.knows(graph.select(held))
    shared = small_ranker(steps=3).fit(graph, 0.25, verbose=False)
    assert shared.evaluate(graph, draws=5).known == ("small0",)
    assert not small_ranker(steps=3).knows(graph)


def test_trees_know_what_they_learnt_from() -> None:
    pytest.importorskip("lightgbm", reason="needs the extra [lightgbm]")
    graph = small_graph(0)
    ranker = tg.Ranker("eighth-lightgbm", steps=2, min_data_in_leaf=3).fit(graph, verbose=False)
    assert ranker.evaluate([graph, small_graph(1)], draws=5).known == ("small0",)


def test_splits_are_added(tmp_path: Path) -> None:
    for collection, split, seeds in (
        ("xla/random", "train", (0, 1)),
        ("xla/random", "valid", (2,)),
        ("nlp/random", "train", (3,)),
    ):
        folder = tmp_path / "npz" / "layout" / collection / split
        folder.mkdir(parents=True)
        for seed in seeds:
            small_graph(seed).save(folder / f"g{seed}.npz")
    xla, nlp = (tg.open_collection(f"layout:{name}:random", tmp_path) for name in ("xla", "nlp"))
    both = xla.train + xla.valid
    assert repr(both) == "Split('layout:xla:random', 3 graphs)" and both.names == ["g0", "g1", "g2"]
    assert [graph.name for graph in both] == ["g0", "g1", "g2"]
    three = both + nlp.train
    assert [graph.collection for graph in three] == ["layout:xla:random"] * 3 + ["layout:nlp:random"]
    assert three.collection == "layout:xla:random + layout:nlp:random"
    assert [graph.collection for graph in three[2:]] == ["layout:xla:random", "layout:nlp:random"]
    assert three.exclude("g2").names == ["g0", "g1", "g3"] and three[-1].collection == "layout:nlp:random"
    assert both.__add__([small_graph(0)]) is NotImplemented  # type: ignore[arg-type]
    alone = small_ranker(steps=3).fit([*both], verbose=False)
    assert (small_ranker(steps=3).fit(both, verbose=False).model.params == alone.model.params).all()


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (["trian"], "'trian' .*did you mean train?"),
        (["evalute", "x"], "did you mean evaluate?"),
        (["train", "first-layout", "x", "--preset", "ful"], "did you mean full?"),
    ],
)
def test_misspelt_commands(capsys: pytest.CaptureFixture[str], line: list[str], words: str) -> None:
    import re

    assert main(line) == 2
    assert re.search(words.replace("?", r"\?"), capsys.readouterr().err)


def test_a_command_like_none_gets_no_guess(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["xyzzy"]) == 2 and "did you mean" not in capsys.readouterr().err


def test_there_is_no_other_device_than_the_cpu() -> None:
    for name in ("device", "use_gpu"):
        for use in (tg.Ranker, tg.Ranker().set_params):
            refuses(lambda: use(**{name: "cuda"}), tg.ConfigError, name, "CPU", "'cuda'")


def test_runtimes_of_a_table_that_are_none() -> None:
    ranker = tg.Ranker("graph-config", steps=1)
    fitted = tg.Ranker("graph-config", steps=1).fit(TABLE, TIMES, verbose=False)
    for wrong in (np.nan, np.inf, 0.0, -1.0):
        times = TIMES.copy()
        times[3] = wrong
        for use in (ranker.fit, fitted.score):
            refuses(lambda: use(TABLE, times), tg.DataError, "y:", "at 3")


def test_numbers_of_numpy_in_models_and_recipes(tmp_path: Path) -> None:
    model = tg.Model()
    hidden = model.linear(model.config_feat, out=np.int64(8), act="silu", use_bias=np.bool_(True))
    model.linear(model.dropout(hidden, p=np.float32(0.5)), out=np.int32(1), to="scores")
    assert [type(step["attrs"].get("out")) for step in model.steps] == [int, type(None), int]
    recipe = model.recipe("of-numpy-numbers")
    ranker = tg.Ranker(recipe, steps=np.int64(2), learning_rate=np.float32(0.01))
    ranker.fit(TABLE, TIMES, verbose=False).save(tmp_path / "r.safetensors")
    assert (tg.load_ranker(tmp_path / "r.safetensors").predict(TABLE) == ranker.predict(TABLE)).all()
    again = tg.Model.from_steps(
        [{**step, "attrs": {k: np.array(v)[()] for k, v in step["attrs"].items()}} for step in model.steps]
    )
    assert again.steps == model.steps and json.dumps(again.steps)
    built = tg.Ranker("graph-config", width=np.int32(16), steps=np.int64(1), dropout=np.float64(0.1))
    built.fit(TABLE, TIMES, verbose=False).save(tmp_path / "b.safetensors")
    assert json.loads(json.dumps(built.get_params()))["width"] == 16
    own = tg.recipes.Recipe(
        name="of-numpy-steps",
        summary="Steps with numbers of NumPy.",
        kind="graph",
        steps=lambda fields, sizes: [
            {"op": "linear", "name": "scores", "in": ["config_feat"], "out": "scores", "attrs": {"out": np.int64(1)}}
        ],
        preprocessing=recipe.preprocessing,
        loss=lambda fields: [{"loss": "pairwise_hinge", "margin": np.float32(1.0)}],
    )  # fmt: skip
    tg.Ranker(own, steps=1).fit(TABLE, TIMES, verbose=False).save(tmp_path / "o.safetensors")


def test_the_data_of_pyg_is_shown_short() -> None:
    pytest.importorskip("torch_geometric", reason="needs the extra [pyg]")
    import torch
    from torch_geometric.data import Batch

    graphs = [small_graph(0), tg.Graph(config_feat=TABLE, runtime=TIMES, about={"device": "A"})]
    for graph in graphs:
        data = tg.torch.to_pyg(graph)
        assert len(repr(data)) < 500, "7,800 characters, most of them the schema"
        again = tg.torch.from_pyg(data)
        assert again.schema == graph.schema and again.about == graph.about
    data = tg.torch.to_pyg(graphs[1])
    text = bytes(data.schema.numpy())
    data.schema = text.decode()  # as earlier versions wrote it
    assert tg.torch.from_pyg(data).schema == graphs[1].schema
    other = graphs[1].replace(about={"device": "another one"})
    batch = Batch.from_data_list([tg.torch.to_pyg(graphs[1]), tg.torch.to_pyg(other)])
    assert [tg.torch.from_pyg(one).about["device"] for one in batch.to_data_list()] == ["A", "another one"]
    nodes = len(text)
    many = tg.Graph(node_feat=np.zeros((nodes, 0)), config_feat=TABLE, runtime=TIMES, about={"device": "A"})
    data = tg.torch.to_pyg(many)
    part = data.subgraph(torch.arange(3))
    assert part.schema.shape == data.schema.shape


def test_score_takes_the_collection_of_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    graph, out = small_graph(0), tmp_path / "s.csv"
    graph.save(tmp_path / "g.npz")
    submission.write(out, {"layout:xla:random:g": np.argsort(graph.config_runtime)})
    line = ["submit", "--score", str(out), str(tmp_path / "g.npz")]
    assert main([*line, "--collection", "layout:xla:random", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["collections"]["layout:xla:random"] == pytest.approx(1)
    assert main(line) == 1
    error = capsys.readouterr().err
    assert "give --collection, for example layout:xla:random" in error and "replace" not in error
    assert main([*line, "--collection", "layout:xla"]) == 2
    assert "--collection layout:xla: expected one of" in capsys.readouterr().err
    folder = tmp_path / "npz" / "layout" / "xla" / "random" / "valid"
    folder.mkdir(parents=True)
    graph.save(folder / "g.npz")
    alone = ["submit", "--score", str(out), "--root", str(tmp_path), "--collection", "layout:xla:random"]
    assert main([*alone, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == told
