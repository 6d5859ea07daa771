"""What a ranker looks at: parts whose values matter are found, others are not, and the same seed says the same."""

from __future__ import annotations

import functools
import json
from typing import Any

import madeup
import numpy as np
import pytest
from rankers import small_any, small_graph, small_ranker, small_tile
from refusals import refuses
from test_multitask import programs

import tpugraphs as tg
from tpugraphs.ranker import MultiTaskGaussianProcess, ScorerBase


class FirstColumn(ScorerBase):
    """Ranks by the first column of configs, or the first digit of the node with the greatest feature."""

    kind = "any"
    metric = "tau"

    def predict(self, graph: Any, configs: Any = None, tta: int = 0, **options: Any) -> Any:
        if graph.config_feat is not None:
            return graph.config_feat[:, 0]
        node = int(np.argmax(graph.node_feat[graph.node_config_ids, 0]))
        return graph.config_digits[:, node, 0]


def of(report: Any, part: str) -> dict[str, float]:
    return {one.name: one.mean for one in report if one.part == part}


def tables(count: int = 3) -> list[tg.Graph]:
    rng = np.random.default_rng(0)
    made = []
    for i in range(count):
        x = rng.normal(size=(200, 3))
        made.append(tg.Graph(config_feat=x, runtime=np.exp(x[:, 0]), name=f"t{i}"))
    return made


def test_the_column_that_counts_is_found() -> None:
    found = tg.permutation_importance(FirstColumn(), tables(), repeats=3, verbose=False)
    drops = of(found, "config")
    assert found.baseline == 1.0 and (found.graphs, found.configs, found.metric) == (3, 600, "tau")
    assert 0.9 < drops["config_0"] < 1.1 and drops["config_1"] == drops["config_2"] == 0
    assert found.parts[0].name == "config_0" and len(found) == 3
    assert found.parts[0].sd > 0 and len(found.parts[0].drops) == 3
    one = tg.permutation_importance(FirstColumn(), tables(1)[0], repeats=1, verbose=False)
    assert np.isnan(one.parts[0].sd) and one.graphs == 1


def test_a_drop_is_what_the_exchanged_column_is_worth() -> None:
    graph, seen = tables(1)[0], []

    class Seen(FirstColumn):
        def predict(self, graph: Any, configs: Any = None, tta: int = 0, **options: Any) -> Any:
            seen.append(graph)
            return super().predict(graph)

    found = tg.permutation_importance(Seen(), graph, repeats=2, verbose=False)
    assert len(seen) == 1 + 3 * 2 and seen[0] is graph
    for part, column in enumerate(seen[1::2]):
        changed = [(one.config_feat != graph.config_feat).any(0) for one in (column, seen[2 + 2 * part])]
        assert [list(np.flatnonzero(columns)) for columns in changed] == [[part], [part]]
        assert (np.sort(column.config_feat, 0) == np.sort(graph.config_feat, 0)).all()
    taus = [tg.metrics.kendall_tau(one.config_feat[:, 0], graph.runtime) for one in seen[1:3]]
    assert found.parts[0].drops == tuple(1.0 - tau for tau in taus)


def test_exchanged_configs_need_no_other_graph() -> None:
    graphs, seen = tables(2), []

    class Takes(FirstColumn):
        takes_configs = True

        def predict(self, graph: Any, configs: Any = None, tta: int = 0, **options: Any) -> Any:
            seen.append(graph)
            return (graph.config_feat if configs is None else configs)[:, 0]

    found = tg.permutation_importance(Takes(), graphs, repeats=2, verbose=False)
    assert found == tg.permutation_importance(FirstColumn(), graphs, repeats=2, verbose=False)
    assert [one is graphs[0] for one in seen] == [True] * 7 + [False] * 7 and seen[7:] == [graphs[1]] * 7


@pytest.mark.parametrize("make", [small_graph, small_tile, small_any])
def test_exchanged_configs_have_the_scores_that_a_graph_of_them_has(make: Any, monkeypatch: Any) -> None:
    recipe = {small_graph: "first-layout-cross", small_tile: "first-tile", small_any: "graph-config"}[make]
    graphs = [make(seed) for seed in range(2)]
    ranker = tg.Ranker(recipe, steps=3).fit(graphs, verbose=False)
    found = tg.permutation_importance(ranker, graphs, repeats=1, verbose=False)
    assert ranker.takes_configs and tg.Ensemble([ranker]).takes_configs
    monkeypatch.setattr(tg.Ranker, "takes_configs", False)
    assert tg.permutation_importance(ranker, graphs, repeats=1, verbose=False) == found


def test_the_same_seed_gives_the_same_exchanges_whatever_else_is_judged() -> None:
    graph = tables(1)[0]
    found = tg.permutation_importance(FirstColumn(), graph, repeats=2, seed=4, verbose=False)
    again = tg.permutation_importance(
        FirstColumn(), graph, repeats=1, seed=4, parts=["config"], verbose=False
    )
    assert again.parts[0].drops[0] == found.parts[0].drops[0]
    assert tg.permutation_importance(FirstColumn(), graph, repeats=2, seed=5, verbose=False) != found
    assert tg.permutation_importance(FirstColumn(), graph, repeats=2, seed=4, verbose=False) == found


def test_digits_and_nodes_of_layouts() -> None:
    graph = small_graph(2, configs=120, nodes=14)
    digits = graph.config_digits
    node = int(np.argmax(graph.node_feat[graph.node_config_ids, 0]))
    graph = graph.replace(config_runtime=1000 + 100 * digits[:, node, 0].astype(np.int64))
    found = tg.permutation_importance(FirstColumn(), graph, repeats=3, verbose=False)
    drop = of(found, "digit")
    assert len(drop) == 18 and drop["output_0"] > 0.8 and sum(v != 0 for v in drop.values()) == 1
    nodes = of(found, "node")
    assert {"opcode", "element_type", "shape_dimension", "window_size", "is_root"} <= nodes.keys()
    assert "shape_dimension_0" not in nodes and nodes["is_root"] > 0.2
    assert sum(value != 0 for value in nodes.values()) == 1
    groups = {"mine": ["is_root", "zero"], "rest": ["is_stable"]}
    own = tg.permutation_importance(FirstColumn(), graph, parts=["node"], node_groups=groups, verbose=False)
    assert set(of(own, "node")) == {"mine", "rest", "opcode"} and of(own, "node")["mine"] > 0.2


def test_networks_and_trees_of_their_kind() -> None:
    layouts = [small_graph(i) for i in range(3)]
    trained = small_ranker(steps=30, preset="cpu").fit(layouts, verbose=False)
    found = tg.permutation_importance(trained, layouts, repeats=2, configs=30, verbose=False)
    assert found.configs == 90 and found.metric == "tau" and max(of(found, "digit").values()) > 0
    kernels = [madeup.graph(name) for name in madeup.KERNELS[:3]]
    ranker = tg.Ranker("first-tile", steps=20).fit(kernels, verbose=False)
    found = tg.permutation_importance(ranker, kernels, repeats=1, metric="tau", configs=50, verbose=False)
    assert {one.part for one in found} == {"config", "node"} and found.metric == "tau"


def test_graph_features_are_exchanged_among_graphs() -> None:
    graphs = programs(20)
    process = MultiTaskGaussianProcess().fit(graphs)
    found = tg.permutation_importance(process, graphs, repeats=3, verbose=False)
    assert of(found, "graph")["all"] > 0.1 and of(found, "config")["config_0"] > 0.1
    assert not of(tg.permutation_importance(process, graphs[0], repeats=1, verbose=False), "graph")


def test_what_never_differs_is_not_scored_again() -> None:
    calls = []

    class Counted(FirstColumn):
        def predict(self, graph: Any, configs: Any = None, tta: int = 0, **options: Any) -> Any:
            calls.append(graph.name)
            return super().predict(graph)

    x = np.random.default_rng(0).normal(size=(50, 3))
    x[:, 1] = 7
    graph = tg.Graph(config_feat=x, runtime=np.exp(x[:, 0]))
    found = tg.permutation_importance(Counted(), graph, repeats=4, verbose=False)
    assert len(calls) == 1 + 2 * 4 and of(found, "config")["config_1"] == 0


def test_alexnet_is_ranked_by_the_layout_of_outputs(real_sample: Any) -> None:
    graph = real_sample("alexnet")
    rest, held = tg.training.split_configs(graph, (0.9, 0.1), 0)
    ranker = tg.Ranker("first-layout", steps=60).fit(graph.select(rest), verbose=False)
    found = tg.permutation_importance(
        ranker, graph.select(held), parts=["digit"], configs=300, repeats=2, verbose=False
    )
    assert found.baseline > 0.6 and found.parts[0].name == "output_0" and found.parts[0].mean > 0.1


def test_configs_that_failed_are_left_out() -> None:
    graphs = programs(2)
    process = MultiTaskGaussianProcess().fit(graphs)
    found = tg.permutation_importance(process, graphs, repeats=1, verbose=False)
    assert found.configs == sum(graph.ran.size for graph in graphs) < sum(g.num_configs for g in graphs)


def test_digits_of_any_graph_count() -> None:
    some = small_graph(2, configs=60)
    none = some.replace(node_config_ids=[], node_config_feat=np.zeros((60, 0, 18), np.int8), name="none")

    class OfSome(FirstColumn):
        def predict(self, graph: Any, configs: Any = None, tta: int = 0, **options: Any) -> Any:
            return super().predict(graph) if graph.num_config_nodes else graph.config_runtime

    for graphs in ([some, none], [none, some]):
        found = tg.permutation_importance(OfSome(), graphs, parts=["digit"], repeats=1, verbose=False)
        assert len(found) == 18


def test_the_report() -> None:
    found = tg.permutation_importance(FirstColumn(), tables(), repeats=2, verbose=False)
    text = found.table(1)
    assert "config_0" in text and "config_1" not in text and "2 more, with drops of at most 0.0000" in text
    assert "tau is (1.0000 as they are)" in text and repr(found).startswith("<Importance: 3 parts, 3 graphs>")
    for most in (0, -1):
        refuses(lambda: found.table(most), tg.errors.ConfigError, "most")
    told = found.to_dict()
    assert told["baseline"] == 1.0 and told["parts"][0]["drops"] == list(found.parts[0].drops)
    assert list(told) == ["parts", "metric", "baseline", "graphs", "configs"]
    once = tg.permutation_importance(FirstColumn(), tables(), repeats=1, verbose=False)
    assert json.loads(json.dumps(once.to_dict(), allow_nan=False))["parts"][0]["sd"] is None
    pandas = pytest.importorskip("pandas", reason="needs pandas")
    frame = found.to_frame()
    assert isinstance(frame, pandas.DataFrame) and list(frame.columns) == ["part", "name", "mean", "sd"]
    assert frame["mean"].tolist() == [one.mean for one in found]


def test_arguments_and_graphs_that_are_refused() -> None:
    first = FirstColumn()
    for given, *names in (
        ({"repeats": 0}, "repeats"),
        ({"configs": 1}, "configs"),
        ({"seed": -1}, "seed"),
        ({"metric": "accuracy"}, "metric", "tau"),
        ({"parts": ["edges"]}, "parts", "config"),
        ({"parts": "config"}, "parts"),
        ({"parts": []}, "parts", "[]"),
        ({"node_groups": ["zero"]}, "node_groups", "list"),
        ({"node_groups": {"a": ["nothing"]}}, "node_groups", "'nothing'"),
        ({"node_groups": {"a": "zero"}}, "node_groups", "'zero'"),
    ):
        call = functools.partial(tg.permutation_importance, first, small_graph(), **given)
        refuses(call, tg.errors.ConfigError, *names)
    unmeasured = small_graph(config_runtime=np.zeros(96, np.int64))
    for graphs, word in (([tables(1)[0], small_tile()], "judge them apart"), (unmeasured, "placeholders")):
        refuses(lambda: tg.permutation_importance(first, graphs), tg.errors.DataError, word)
    unfitted = small_ranker()
    refuses(lambda: tg.permutation_importance(unfitted, small_graph(), repeats=1), tg.Error, "learnt nothing")
