"""What a newcomer gives by mistake is refused in words that name the next step."""

import types

import numpy as np
import pytest
from refusals import refuses

import tpugraphs as tg
from tpugraphs.cli import main

TABLE = tg.Graph(config_feat=np.arange(6).reshape(3, 2), runtime=[1.0, 2.0, 3.0], name="table")
MORE = tg.Graph(config_feat=np.arange(6).reshape(3, 2), runtime=[3.0, 2.0, 1.0], name="more")


@pytest.fixture(scope="module")
def ranker():
    return tg.Ranker("graph-config", steps=2).fit([TABLE, MORE])


def test_modules_whose_extra_is_missing_are_not_listed(monkeypatch):
    """help(tg) reads all that dir() names."""
    monkeypatch.setattr(tg, "find_spec", lambda name: None)
    assert not {"torch", "xla"} & set(dir(tg)) and "Ranker" in dir(tg)


def test_other_things_in_place_of_graphs(ranker):
    collection = tg.open_collection("options:xla:cpu")
    for use in (ranker.fit, ranker.score, ranker.evaluate):
        refuses(lambda: use(collection), tg.ConfigError, "Collection", "splits")
    frame = type("Frame", (list,), {"columns": ()})()
    data = type("Data", (dict,), {"__module__": "torch_geometric.data.data"})(schema=None, kind="graph")
    for given, todo in (
        (frame, "tg.from_frame"),
        (data, "tg.torch.from_pyg"),
        ({"a": TABLE}, "graphs.values"),
    ):
        refuses(lambda: ranker.evaluate(given), tg.ConfigError, todo)
    refuses(lambda: ranker.predict(data), tg.DataError, "tg.torch.from_pyg")
    refuses(lambda: ranker.predict("a.npz"), tg.DataError, "tg.load")
    refuses(lambda: ranker.score([]), tg.DataError, "graphs")
    refuses(lambda: tg.data.family("bert"), tg.ConfigError, "family", "got str")
    refuses(lambda: tg.pseudo_label(ranker, TABLE), tg.ConfigError, "graph", "Ranker")
    refuses(lambda: tg.pseudo_label(TABLE, "ranker"), tg.ConfigError, "scorer", "got str")


def test_scorers_show_themselves():
    """With the arguments that are not the usual ones."""
    process = tg.ranker.MultiTaskGaussianProcess(noise=2.0)
    assert repr(process) == "<MultiTaskGaussianProcess(noise=2.0): not fitted>"
    assert repr(tg.ranker.MeanEffect().fit([TABLE, MORE])) == "<MeanEffect: fitted>"


def test_any_scorer_is_cross_validated():
    graphs = [TABLE, MORE, TABLE.replace(name="third")]
    mean = tg.ranker.MeanEffect()
    for report in (tg.leave_out(mean, graphs), tg.cross_validate(mean, graphs, folds=3)):
        assert [row.graph for row in report.rows] == ["table", "more", "third"] and not mean.fitted
    assert len(tg.leave_out("graph-config", graphs, steps=1).rows) == 3
    assert len(tg.cross_validate("graph-config", graphs, group=list("aab"), folds=2, steps=1).rows) == 3
    refuses(lambda: tg.leave_out(3, graphs), tg.ConfigError, "ranker", "got 3")
    refuses(lambda: tg.cross_validate(mean, graphs, groups=[1, 2, 3]), tg.ConfigError, "group=")


def test_files_of_another_kind(tmp_path, ranker):
    ranker.save(tmp_path / "r.safetensors")
    TABLE.save(tmp_path / "g.npz")
    (tmp_path / "t.csv").write_text("a,b\n1,2\n")
    refuses(lambda: tg.load(tmp_path / "r.safetensors"), tg.DataError, "tg.load_ranker")
    refuses(lambda: tg.load(tmp_path / "t.csv"), tg.DataError, "tg.from_frame")
    refuses(lambda: tg.load_ranker(tmp_path / "g.npz"), tg.CheckpointError, "tg.load(path)")


def test_tables_and_arguments_that_are_none(ranker):
    for table, todo in (("t.csv", "read_csv"), ([{"a": 1}], "DataFrame")):
        refuses(
            lambda: tg.from_frame(table, group="a", config="b"), tg.ConfigError, "table", f"pandas.{todo}"
        )
    bare = {"a": [1], "b": [2]}
    refuses(lambda: tg.from_frame(bare, group="a", config="b"), tg.DataError, "'ms'", "runtime=")
    refuses(lambda: tg.train_seeds("graph-config", [TABLE], seed=3), tg.ConfigError, "seed", "seeds=[3]")
    refuses(lambda: tg.Ranker(tg.Model()), tg.RecipeError, "tg.Model", "model.recipe")
    refuses(lambda: tg.Ensemble(["r.safetensors"]), tg.ConfigError, "rankers[0]", "tg.load_ranker")
    curve = tg.training.LiveCurve()
    refuses(lambda: ranker.fit(TABLE, callbacks=curve), tg.ConfigError, "LiveCurve", "[callback]")
    refuses(lambda: ranker.evaluate(TABLE).mean("taux"), tg.ConfigError, "'taux'")


def test_methods_of_ops_keep_acronyms():
    assert tg.Model.sage.__doc__.startswith("Append a step: SAGEConv")
    assert tg.Model.linear.__doc__.startswith("Append a step: linear layer")
    assert isinstance(tg.Model.sage, types.FunctionType)


def test_options_that_a_command_does_not_have(capsys):
    assert main(["compare", "sample:tile_01", "--seeds", "5", "--trails", "x"]) == 2
    said = capsys.readouterr().err
    assert (
        "tpugraphs compare: error: unrecognized arguments: --trails" in said
        and "did you mean --trials" in said
    )
