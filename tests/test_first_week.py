"""What a newcomer gives by mistake is refused in words that name the next step."""

import types

import numpy as np
import pytest

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


def test_a_collection_in_place_of_its_graphs(ranker):
    data = tg.open_collection("options:xla:cpu")
    for use in (ranker.fit, ranker.score, ranker.evaluate):
        with pytest.raises(tg.ConfigError, match="got Collection; give one of its splits"):
            use(data)


def test_other_things_in_place_of_graphs(ranker):
    frame = type("Frame", (list,), {"columns": ()})()
    data = type("Data", (dict,), {"__module__": "torch_geometric.data.data"})(schema=None, kind="graph")
    for given, todo in (
        (frame, "tg.from_frame"),
        (data, "tg.torch.from_pyg"),
        ({"a": TABLE}, "graphs.values"),
    ):
        with pytest.raises(tg.ConfigError, match=todo):
            ranker.evaluate(given)
    with pytest.raises(tg.DataError, match="found Data; use tg.torch.from_pyg"):
        ranker.predict(data)
    with pytest.raises(tg.DataError, match="found str; use tg.load"):
        ranker.predict("a.npz")
    with pytest.raises(tg.DataError, match="graphs: expected at least one"):
        ranker.score([])
    with pytest.raises(tg.ConfigError, match="family: expected a graph, got str"):
        tg.data.family("bert")
    with pytest.raises(tg.ConfigError, match="graph: expected a graph, got Ranker"):
        tg.pseudo_label(ranker, TABLE)
    with pytest.raises(tg.ConfigError, match="scorer: expected a fitted scorer.*got str"):
        tg.pseudo_label(TABLE, "ranker")


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
    with pytest.raises(tg.ConfigError, match="ranker: expected a tg.Ranker or a recipe, got 3"):
        tg.leave_out(3, graphs)
    with pytest.raises(tg.ConfigError, match="groups: here it is group="):
        tg.cross_validate(mean, graphs, groups=[1, 2, 3])


def test_files_of_another_kind(tmp_path, ranker):
    ranker.save(tmp_path / "r.safetensors")
    TABLE.save(tmp_path / "g.npz")
    (tmp_path / "t.csv").write_text("a,b\n1,2\n")
    with pytest.raises(tg.DataError, match="tg.load_ranker"):
        tg.load(tmp_path / "r.safetensors")
    with pytest.raises(tg.DataError, match="tg.from_frame"):
        tg.load(tmp_path / "t.csv")
    with pytest.raises(tg.CheckpointError, match="tg.load.path. opens a graph"):
        tg.load_ranker(tmp_path / "g.npz")


def test_tables_that_are_none():
    for table, todo in (("t.csv", "read_csv"), ([{"a": 1}], "DataFrame")):
        with pytest.raises(tg.ConfigError, match=f"table: .*pandas.{todo}"):
            tg.from_frame(table, group="a", config="b")
    with pytest.raises(tg.DataError, match="'ms': .*give runtime="):
        tg.from_frame({"a": [1], "b": [2]}, group="a", config="b")


def test_arguments_of_another_shape(ranker):
    with pytest.raises(tg.ConfigError, match=r"seed: .*give seeds=\[3\]"):
        tg.train_seeds("graph-config", [TABLE], seed=3)
    with pytest.raises(tg.RecipeError, match=r"found a tg.Model; use model.recipe"):
        tg.Ranker(tg.Model())
    with pytest.raises(tg.ConfigError, match=r"rankers.0.: .*got str; use tg.load_ranker"):
        tg.Ensemble(["r.safetensors"])
    with pytest.raises(tg.ConfigError, match=r"write \[callback\], got LiveCurve"):
        ranker.fit(TABLE, callbacks=tg.training.LiveCurve())
    with pytest.raises(tg.ConfigError, match="no metric 'taux' in this report"):
        ranker.evaluate(TABLE).mean("taux")


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
