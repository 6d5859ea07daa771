"""Everything that ranks behind one face: networks, trees, ensembles, routes, baselines, a custom class."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import madeup
import numpy as np
import pytest
from rankers import small_graph, small_ranker, small_tile
from refusals import refuses

import tpugraphs as tg
from tpugraphs.cli import main
from tpugraphs.names import COLLECTIONS
from tpugraphs.ranker import LinearBaseline, MeanEffect, RandomBaseline, Scorer, ScorerBase, filekinds
from tpugraphs.system import tensorfile

COLLECTION = "layout:xla:random"


@filekinds.register("first-digit")
class FirstDigit(ScorerBase):
    """Ranks by one digit of the first configurable node: an analytic cost model."""

    def __init__(self, place: int = 0) -> None:
        self.place = place

    @property
    def kind(self) -> str:
        return "layout"

    def predict(self, graph: Any, configs: Any = None, **options: Any) -> Any:
        rows = graph.row_numbers(configs)
        return graph.digits_of(rows)[:, 0, self.place].astype(np.float64)

    def to_file(self) -> Any:
        return {"place": self.place}, {}

    @classmethod
    def from_file(cls, path: str, metadata: Any, tensors: Any) -> FirstDigit:
        return cls(tensorfile.entry(path, metadata, "place", int))


class Plain(ScorerBase):
    """Does not say how it is saved."""

    @property
    def kind(self) -> str:
        return "layout"

    def predict(self, graph: Any, configs: Any = None, **options: Any) -> Any:
        return np.zeros(graph.row_numbers(configs).size)


@pytest.fixture(scope="module")
def graphs() -> list[Any]:
    return [small_graph(seed) for seed in range(3)]


@pytest.fixture(scope="module")
def network(graphs: list[Any]) -> tg.Ranker:
    ranker = small_ranker(steps=5)
    ranker.fit(graphs[:2], verbose=False)
    return ranker


@pytest.fixture(scope="module")
def trees(graphs: list[Any]) -> tg.Ranker:
    pytest.importorskip("lightgbm", reason="needs the extra [lightgbm]")
    ranker = tg.Ranker("eighth-lightgbm", steps=20, min_data_in_leaf=3)
    ranker.fit(graphs[:2], verbose=False)
    return ranker


def same(a: Any, b: Any) -> bool:
    return bool((np.asarray(a) == np.asarray(b)).all())


def test_everything_satisfies_the_protocol(network: tg.Ranker, trees: tg.Ranker, graphs: list[Any]) -> None:
    linear = LinearBaseline().fit(graphs[2])
    ensemble = tg.Ensemble([network, trees])
    for scorer in (
        network, trees, ensemble, tg.Routed({"layout": network}), linear, RandomBaseline(), FirstDigit(), Plain(),
    ):  # fmt: skip
        assert isinstance(scorer, Scorer) and scorer.fitted
        scores = scorer.predict(graphs[2], [3, 1, 2])
        assert np.shape(scores) == (3,) and np.isfinite(scores).all()
        assert sorted(scorer.rank(graphs[2], [3, 1, 2])) == [0, 1, 2]
        report = scorer.evaluate(graphs[2], draws=5)
        assert [row.scorer for row in report.rows] == [scorer.name]
        assert -1 <= scorer.score(graphs) <= 1
    assert not isinstance("ranker", Scorer) and not isinstance(np.zeros(3), Scorer)


def test_an_ensemble_of_all_kinds(
    network: tg.Ranker, trees: tg.Ranker, graphs: list[Any], tmp_path: Path
) -> None:
    members = [network, trees, FirstDigit(2), RandomBaseline(5), tg.Ensemble([network, trees], [2, 1])]
    ensemble = tg.Ensemble(members, [1, 2, 3, 4, 5], normalize="rank")
    places = [np.argsort(np.argsort(one.predict(graphs[2]), kind="stable")) for one in members]
    assert ensemble.kind == "layout" and len(places) == 5
    ensemble.save(tmp_path / "e.safetensors")
    loaded = tg.load_ranker(tmp_path / "e.safetensors")
    assert same(loaded.predict(graphs[2]), ensemble.predict(graphs[2]))
    assert [type(one) for one in loaded.rankers] == [type(one) for one in members]
    assert loaded.rankers[2].place == 2 and loaded.rankers[3].seed == 5
    judged = ensemble.evaluate(graphs[2], members=True, draws=5)
    assert [row.scorer for row in judged.rows][:3] == [
        "ensemble", f"0: {network.recipe}, seed 0", "1: eighth-lightgbm, seed 0",
    ]  # fmt: skip
    before = ensemble.predict(graphs[2])
    assert tg.Ensemble([small_ranker(steps=2), RandomBaseline()][1:]).fit(graphs[:2]).fitted
    assert same(ensemble.predict(graphs[2]), before)


def test_trees_next_to_a_network_in_a_submission(
    network: tg.Ranker, trees: tg.Ranker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "npz" / COLLECTIONS[COLLECTION] / "test"
    folder.mkdir(parents=True)
    for seed in (4, 5):
        graph = small_graph(seed)
        graph.replace(config_runtime=np.zeros(graph.num_configs, np.int64)).save(folder / f"t{seed}.npz")
    ensemble = tg.Ensemble([network, trees], normalize="rank")
    ensemble.save(tmp_path / "e.safetensors")
    out = tmp_path / "s.csv"
    code = main(
        ["submit", str(tmp_path / "e.safetensors"), COLLECTION, "--root", str(tmp_path), "--out", str(out)]
    )
    assert code == 0, capsys.readouterr()
    found = tg.submission.read(out)
    for seed in (4, 5):
        assert same(found[f"{COLLECTION}:t{seed}"], ensemble.rank(small_graph(seed)))
    capsys.readouterr()
    assert main(["evaluate", str(tmp_path / "e.safetensors"), madeup.path("long"), "--json"]) in (0, 1)


def test_routes_lead_by_collection_and_kind(network: tg.Ranker, graphs: list[Any], tmp_path: Path) -> None:
    tile = small_ranker("first-tile", steps=3)
    tile.fit(small_tile(), verbose=False)
    routed = tg.Routed({"layout:nlp:*": FirstDigit(), "layout": network, "tile": tile})
    nlp = graphs[0].replace(collection="layout:nlp:random")
    assert same(routed.predict(nlp), FirstDigit().predict(nlp))
    assert same(routed.predict(graphs[0]), network.predict(graphs[0]))
    assert same(routed.predict(small_tile(3)), tile.predict(small_tile(3)))
    assert routed.kind == "any" and tg.Routed({"tile": tile}).kind == "tile"
    parts = [FirstDigit().score(nlp), network.score(graphs[0]), tile.score(small_tile(3))]
    assert routed.score([nlp, graphs[0], small_tile(3)]) == pytest.approx(np.mean(parts))
    routed.save(tmp_path / "r.safetensors")
    loaded = tg.load_ranker(tmp_path / "r.safetensors")
    for graph in (nlp, graphs[0], small_tile(3)):
        assert same(loaded.predict(graph), routed.predict(graph))
    assert "layout:nlp:* -> FirstDigit" in repr(loaded)
    refuses(lambda: tg.Routed({"layout": network}).predict(small_tile()), tg.DataError, "'tile'", "layout")


def test_routes_are_fitted_on_their_graphs(graphs: list[Any]) -> None:
    rankers = {"layout": small_ranker(steps=2), "tile": small_ranker("first-tile", steps=2)}
    routed = tg.Routed(rankers)
    assert not routed.fitted
    refuses(lambda: routed.evaluate(graphs[0]), tg.Error, "learnt nothing")
    routed.fit([graphs[0], small_tile(0), graphs[1]], [graphs[2], small_tile(1)], verbose=False)
    alone = small_ranker("first-tile", steps=2)
    alone.fit([small_tile(0)], [small_tile(1)], verbose=False)
    assert routed.fitted and same(routed.predict(small_tile(2)), alone.predict(small_tile(2)))


def test_routes_that_are_none() -> None:
    routes: Any
    for routes in ({}, None, {"layout": 3}, {4: RandomBaseline()}, ["layout"]):
        refuses(lambda: tg.Routed(routes), tg.ConfigError, "routes")


def test_baselines_are_saved(graphs: list[Any], tmp_path: Path) -> None:
    for number, one in enumerate((LinearBaseline().fit(graphs[0]), RandomBaseline(3, "layout"))):
        one.save(tmp_path / f"{number}.safetensors")
        loaded = tg.load_ranker(tmp_path / f"{number}.safetensors")
        assert same(loaded.predict(graphs[0]), one.predict(graphs[0])) and loaded.kind == one.kind == "layout"
        assert same(
            type(one).load(tmp_path / f"{number}.safetensors").predict(graphs[0]), one.predict(graphs[0])
        )
    tile = LinearBaseline().fit(small_tile())
    tile.save(tmp_path / "t.safetensors")
    assert same(tg.load_ranker(tmp_path / "t.safetensors").predict(small_tile()), tile.predict(small_tile()))
    refuses(lambda: LinearBaseline().save(tmp_path / "n.safetensors"), tg.Error, "learnt nothing")


def test_the_mean_effect_of_shared_configs(tmp_path: Path) -> None:
    configs = np.array([[0, 0], [0, 1], [1, 0], [1, 1]], np.float32)
    one = tg.Graph(config_feat=configs, runtime=[1.0, 2.0, 4.0, 8.0], name="one")
    valid = [True, True, False, True]
    two = tg.Graph(config_feat=configs, runtime=[10.0, 10.0, np.nan, 40.0], valid=valid, name="two")
    mean = MeanEffect().fit([one, two])
    logs = [np.log([1, 2, 4, 8]), np.log([10, 10, np.nan, 40])]
    expected = np.nanmean([log - np.nanmean(log) for log in logs], axis=0)
    unseen = tg.Graph(config_feat=[[1, 1], [0, 0], [2, 2]], runtime=[1.0, 2.0, 3.0])
    np.testing.assert_allclose(mean.predict(one), expected)
    np.testing.assert_allclose(mean.predict(unseen), [expected[3], expected[0], 0])
    np.testing.assert_allclose(mean.predict(unseen, [1]), [expected[0]])
    mean.save(tmp_path / "m.safetensors")
    assert same(tg.load_ranker(tmp_path / "m.safetensors").predict(unseen), mean.predict(unseen))
    assert mean.score([one]) == tg.metrics.kendall_tau(expected, one.runtime)
    refuses(lambda: mean.predict(tg.Graph(config_feat=[[1.0]])), tg.DataError, "schema")
    refuses(lambda: MeanEffect().fit(small_graph()), tg.DataError, "configs", "features")
    refuses(lambda: MeanEffect().predict(one), tg.Error, "learnt nothing")


def test_files_of_other_kinds(network: tg.Ranker, tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    tensorfile.write(path, "unheard-of", {}, {})
    with pytest.raises(tg.CheckpointError, match="kind: expected .*'ensemble'.*found 'unheard-of'") as caught:
        tg.load_ranker(path)
    assert caught.value.file == str(path) and caught.value.field == "kind"
    network.save(path)
    refuses(lambda: tg.Ensemble.load(path), tg.CheckpointError, "kind", "'ensemble'", "'ranker'")
    tensorfile.write(
        path, "ensemble", {"weights": [1.0], "normalize": "none", "members": [{"kind": "odd"}]}, {}
    )
    refuses(lambda: tg.load_ranker(path), tg.CheckpointError, "members[0].kind", "register")
    refuses(lambda: Plain().save(tmp_path / "p.safetensors"), tg.ConfigError, "Plain", "to_file")
    refuses(lambda: filekinds.register("ranker")(Plain), tg.ConfigError, "another class")


def test_a_ranker_of_trees_has_no_network(trees: tg.Ranker, graphs: list[Any]) -> None:
    for use in (
        lambda: trees.parameters, lambda: trees.model, lambda: trees.pipeline, lambda: trees.steps,
        lambda: trees.partial_fit(graphs[0], range(5)), lambda: trees.adapt(graphs[0], range(5)),
    ):  # fmt: skip
        refuses(use, tg.Error, "eighth-lightgbm", "network")
    refuses(lambda: tg.train_seeds("eighth-lightgbm", graphs[0], seeds=2), tg.ConfigError, "network", "seed")
    refuses(lambda: RandomBaseline().adapt(graphs[0]), tg.Error, "RandomBaseline")


def test_trees_of_the_nearest_size(graphs: list[Any]) -> None:
    """Layout: graphs are ranked by the trees of graphs of the nearest (nodes, configurable nodes)."""
    pytest.importorskip("lightgbm", reason="needs the extra [lightgbm]")
    large = small_graph(7, nodes=60, config_nodes=9)
    both, one = (tg.Ranker("eighth-lightgbm", steps=5, min_data_in_leaf=3) for _ in range(2))
    both.fit([graphs[0], large], verbose=False)
    one.fit(graphs[0], verbose=False)
    near = small_graph(8, nodes=16, config_nodes=5)
    assert same(both.predict(near), one.predict(near)) and len(both.estimator.trees) == 2
    weights = np.ones(graphs[0].num_configs)
    weights[:50] = 0
    weighted = tg.Ranker("eighth-lightgbm", steps=5, min_data_in_leaf=3)
    weighted.fit(graphs[0], sample_weight=weights, verbose=False)
    assert not same(weighted.predict(near), one.predict(near))


def test_damaged_files_of_trees(trees: tg.Ranker, tmp_path: Path) -> None:
    metadata, tensors = trees.to_file()
    path = tmp_path / "t.safetensors"
    first = metadata["boosters"][0]
    for change, words in (
        ({"rounds": 0}, "rounds"),
        ({"boosters": []}, "rounds"),
        ({"boosters": [7]}, r"boosters\[0\]: expected an object"),
        ({"boosters": [{**first, "width": 1}]}, r"boosters\[0\].columns: expected ascending"),
        ({"boosters": [{**first, "size": [-1, 2]}]}, r"boosters\[0\]"),
        ({"boosters": [{**first, "trees": "tree"}]}, r"boosters\[0\]"),
    ):
        tensorfile.write(path, "ranker", {**metadata, **change}, tensors)
        with pytest.raises(tg.CheckpointError, match=words):
            tg.load_ranker(path)
    assert json.dumps(metadata)


@pytest.mark.parametrize("recipe", ["eighth-lightgbm", "eleventh-lightgbm"])
def test_trees_leave_out_configs_of_weight_0(graphs: list[Any], recipe: str) -> None:
    pytest.importorskip("lightgbm", reason="needs the extra [lightgbm]")
    graph, rows = graphs[0], np.arange(0, 96, 2)
    some, weighted = (tg.Ranker(recipe, steps=5, min_data_in_leaf=3) for _ in range(2))
    some.fit(graph.select(rows), verbose=False)
    weighted.fit(graph, sample_weight=(np.arange(96) % 2 == 0).astype(np.float32), verbose=False)
    if recipe == "eighth-lightgbm":  # the other compares with configs of the whole graph
        assert (some.predict(graph) == weighted.predict(graph)).all()
    tied = graph.replace(config_runtime=np.where(np.arange(96) < 10, 7, graph.config_runtime))
    for one, weights, words in (
        (graph, np.arange(96) == 3, "at least two configs of a weight above 0, found 1"),
        (tied, np.arange(96) < 10, "found 10 equal runtimes"),
    ):
        with pytest.raises(tg.DataError, match=words):
            tg.Ranker(recipe).fit(one, sample_weight=weights.astype(np.float32), verbose=False)
        both = tg.Ranker(recipe, steps=2)
        with pytest.warns(UserWarning, match="1 graph left out of the fit") as told:
            both.fit([one, graphs[1]], sample_weight=[weights.astype(np.float32), None], verbose=False)
        assert list(both.history_.skipped) == [one.name] and told[0].filename == __file__


def test_without_lightgbm(graphs: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "lightgbm", None)
    with pytest.raises(tg.ConfigError, match=r"pip install tpugraphs\[lightgbm\]"):
        tg.Ranker("eighth-lightgbm").fit(graphs[0], verbose=False)
