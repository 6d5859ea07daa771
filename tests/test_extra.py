"""Further features of a graph by name, given with it or made by a function of the user's own."""

import copy
import dataclasses
import subprocess
import sys

import numpy as np
import pytest
from broken.rankers import rewrite
from rankers import ANY, FIELDS, Break, small_any, small_graph, small_tile, state
from refusals import refuses

import tpugraphs as tg
from tpugraphs.recipes import Recipe, TrainingFields, functions
from tpugraphs.recipes.base import encode, step

RNG = np.random.default_rng(0)


def depth(graph):
    """Whether somebody reads a node, and how far a config's first number is from 5."""
    return {
        "node": {"read": np.bincount(graph.edge_index[:, 1], minlength=graph.num_nodes).astype(float)},
        "config": {"far": np.abs(np.log2(graph.config_feat[:, 0]) - 5)},
        "graph": {"nodes": graph.num_nodes},
    }


def recipe(extra=depth, name="with-extra"):
    return Recipe(
        name=name, summary="Sees more.", kind="graph", options=TrainingFields, extra=extra,
        preprocessing=lambda fields, schema: [encode(schema)],
        steps=lambda fields, sizes: [
            step("pool", "pool", ["node_feat"], "pooled", kind="mean"),
            step("concat", "about", ["pooled", "graph_feat"]),
            step("linear", "first", ["config_feat", "about"], "x", out=8, act="silu"),
            step("linear", "head", ["x"], "scores", out=1),
        ],
    )  # fmt: skip


@pytest.fixture
def registered():
    tg.recipes.register_extra("depth", depth)
    yield
    del functions._EXTRA["depth"]


def fitted(graphs, **changes):
    ranker = tg.Ranker(recipe(**changes), steps=4)
    ranker.fit(graphs, verbose=False)
    return ranker


# ---- given with the graph ---------------------------------------------------------------------------------


def test_columns_stand_behind_those_of_the_graph_and_in_its_schema(tmp_path):
    graph = small_any()
    size, fits, cost = RNG.normal(size=9), RNG.random(48) < 0.5, RNG.uniform(1, 9, 48)
    more = tg.with_extra(graph, node={"size2": size}, config={"fits": fits, "cost": cost}, graph={"year": 2024}, kinds={"cost": "log"})  # fmt: skip
    assert [(c.name, c.kind) for c in more.schema.config[-2:]] == [("fits", "flag"), ("cost", "log")]
    assert more.schema.node == (*ANY.node, more.schema.node[-1]) and more.schema.graph[-1].name == "year"
    np.testing.assert_array_equal(more.node_feat, np.c_[graph.node_feat, size.astype(np.float32)])
    np.testing.assert_array_equal(more.config_feat[:, -2:], np.c_[fits, cost].astype(np.float32))
    np.testing.assert_array_equal(more.graph_feat, [*graph.graph_feat, 2024])
    assert (more.runtime == graph.runtime).all() and more.name == graph.name and more.schema.unit == "ms"
    for name in ("g.npz", "g.tgpack"):
        more.save(tmp_path / name)
        read = tg.load(tmp_path / name)
        assert read.schema == more.schema and (read.config_feat == more.config_feat).all()


@pytest.mark.parametrize("make", [small_graph, small_tile], ids=["layout", "tile"])
def test_published_graphs_become_graphs_of_any_schema(make):
    graphs = []
    for seed in range(3):
        graph = make(seed)
        values = RNG.normal(100, 5, graph.num_nodes)
        more = tg.with_extra(graph, node={"heat": values}, config={"far": RNG.normal(size=graph.num_configs)})
        assert (
            more.kind == "graph" and more.node_feat.shape[1] == 141 and more.schema.config[-1].name == "far"
        )
        if make is small_tile:
            np.testing.assert_allclose(more.runtime, graph.config_runtime / graph.config_runtime_normalizers)
        else:
            assert (more.runtime == graph.config_runtime).all() and (
                more.config_digits == graph.config_digits
            ).all()
        graphs.append(more)
    ranker = tg.Ranker("graph-config", steps=2)
    ranker.fit(graphs[:2], verbose=False)
    assert np.ptp(ranker.predict(graphs[2])) > 0
    refuses(lambda: ranker.predict(make(4)), tg.DataError, "schema")


def test_they_are_standardised_like_the_others():
    values = RNG.normal(1000, 50, 48)
    graph = tg.with_extra(small_any(), config={"far": values})
    ranker = tg.Ranker("graph-config", steps=1)
    ranker.fit(graph, verbose=False)
    found = ranker.network.prepare(graph).nodes.config_feat
    expected = (values - values.mean()) / values.std()
    distance = np.abs(found - expected[:, None].astype(np.float32)).max(0)
    assert distance.min() < 1e-5


def test_what_is_no_column_is_refused():
    ones = np.ones(48)
    for arguments, error, *names in (
        ({"node": {"a": np.zeros(8)}}, tg.DataError, "node column 'a'", "(9,)"),
        ({"config": {"a": np.zeros((48, 1))}}, tg.DataError, "config column 'a'"),
        ({"config": {"a": np.full(48, np.nan)}}, tg.DataError, "config column 'a'"),
        ({"config": {"a": ["x"] * 48}}, tg.DataError, "config column 'a'"),
        ({"graph": {"a": np.zeros(2)}}, tg.DataError, "graph column 'a'"),
        ({"config": {"block": np.zeros(48)}}, tg.ConfigError, "'block'"),
        ({"config": {"a": -ones}, "kinds": {"a": "log"}}, tg.DataError, "'a'"),
        ({"config": {"a": ones}, "kinds": {"a": "colour"}}, tg.ConfigError, "kind"),
        ({"config": {"a": ones}, "kinds": {"b": "log"}}, tg.ConfigError, "'b'"),
        ({"node": [1, 2]}, tg.ConfigError, "node", "names"),
        ({"config": np.zeros((48, 1))}, tg.ConfigError, "config", "ndarray"),
        ({"graph": {"a": np.nan}}, tg.DataError, "graph column 'a'", "nan"),
    ):
        refuses(lambda: tg.with_extra(small_any(), **arguments), error, *names)


# ---- made by a function -----------------------------------------------------------------------------------


def test_a_function_gives_what_the_same_columns_in_the_graphs_give():
    graphs = [small_any(0), small_any(1)]
    by_function = fitted(graphs)
    given = fitted([tg.with_extra(graph, **depth(graph)) for graph in graphs], extra=None)
    assert state(by_function.network) == state(given.network)
    graph = small_any(2)
    expected = given.predict(tg.with_extra(graph, **depth(graph)))
    assert (by_function.predict(graph) == expected).all()
    assert (by_function.predict(graph, [5, 3, 8]) == expected[[5, 3, 8]]).all()
    assert (copy.deepcopy(by_function).predict(graph) == expected).all()
    by_function.fit(graphs, 0.3, verbose=False)  # on graphs of some of the configs
    assert np.isfinite(by_function.adapt(graph, range(8), steps=1).predict(graph)).all()


def test_new_configs_need_a_graph():
    ranker, graph = fitted([small_any(0)]), small_any(2)
    refuses(lambda: ranker.predict(graph, graph.config_feat[:4]), tg.DataError, "need a graph")
    only = tg.Ranker(recipe(lambda graph: {key: depth(graph)[key] for key in ("node", "graph")}), steps=2)
    only.fit(small_any(0), verbose=False)
    assert (only.predict(graph, graph.config_feat[:4].copy()) == only.predict(graph)[:4]).all()


def test_what_a_function_returns_is_checked():
    for function, error, *names in (
        (lambda graph: None, tg.ConfigError, "extra", "NoneType"),
        (lambda graph: {"nodes": {}}, tg.ConfigError, "nodes"),
        (lambda graph: {"node": {"a": np.zeros(3)}}, tg.DataError, "node column 'a'"),
        (lambda graph: 1 / 0, ZeroDivisionError, "division"),
    ):
        refuses(lambda: fitted([small_any(0)], extra=function), error, *names)
    for function, *names in (
        (lambda graph: {"config": {"a": np.zeros(40)}}, "tile graph", "config"),
        (lambda graph: {**hot(graph), "graph": {"a": 1.0}}, "got graph"),
        (lambda graph: {}, "tile graph", "none"),
        (lambda graph: {"node": {"a": np.zeros(3)}}, "node column 'a'"),
        (lambda graph: {"node": 3}, "node", "int"),
        (lambda graph: {"node": {"a": np.full(9, np.nan)}}, "node column 'a'"),
        (lambda graph: {"node": {graph.name: np.zeros(9)}}, "extra", "small0 (number)", "small1 (number)"),
    ):
        tiles = seen("tile", function)
        refuses(lambda: tiles.fit([small_tile(0), small_tile(1)], verbose=False), tg.Error, *names)
    refuses(lambda: recipe(3), tg.RecipeError, "extra", "3")
    trees = tg.recipes.get_recipe("eighth-lightgbm")
    refuses(lambda: dataclasses.replace(trees, extra=depth), tg.RecipeError, "extra", "'trees'")


def test_a_file_names_a_registered_function_only(tmp_path, registered):
    ranker, graph, path = fitted([small_any(0)]), small_any(2), tmp_path / "r.safetensors"
    unknown = fitted([small_any(0)], extra=lambda graph: depth(graph))
    refuses(lambda: unknown.save(path), tg.ConfigError, "extra", "<lambda>", "register_extra")
    assert not path.exists()
    ranker.save(path)
    loaded = tg.load_ranker(path)
    assert (loaded.predict(graph) == ranker.predict(graph)).all()
    loaded.fit([small_any(0)], verbose=False)
    assert state(loaded.network) == state(ranker.network)
    kept = functions._EXTRA.pop("depth")
    try:
        with pytest.raises(tg.CheckpointError, match=r"extra: .*'depth'.*register_extra\('depth'") as error:
            tg.load_ranker(path)
        assert error.value.field == "extra"
    finally:
        functions._EXTRA["depth"] = kept
    for broken in (3, ["depth"], "other", None):
        bad = rewrite(path, tmp_path / "bad.safetensors", lambda m, t, broken=broken: m.update(extra=broken))
        refuses(lambda: tg.load_ranker(bad), tg.CheckpointError, "extra")
    code = f"import tpugraphs as tg; tg.load_ranker({str(path)!r})"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "register_extra('depth', ...)" in found.stderr


def test_names_are_taken_once(registered):
    tg.recipes.register_extra("depth", depth)
    for name, function, words in (
        ("depth", lambda graph: {}, "another function"), ("", depth, "a name"), (3, depth, "a name"), ("a", 3, "a function"),
    ):  # fmt: skip
        refuses(lambda: tg.recipes.register_extra(name, function), tg.ConfigError, words)


def test_a_checkpoint_of_another_function_is_refused(tmp_path):
    options = {"checkpoint_dir": tmp_path, "checkpoint_every": 1, "verbose": False}
    with pytest.raises(OSError, match="broken"):
        tg.Ranker(recipe(), steps=4).fit(small_any(), callbacks=[Break(2)], **options)
    with pytest.raises(tg.CheckpointError) as error:
        tg.Ranker(recipe(lambda graph: {**depth(graph)}), steps=4).fit(
            small_any(), callbacks=[Break()], **options
        )
    assert error.value.field == "extra"
    resumed = tg.Ranker(recipe(), steps=4)
    resumed.fit(small_any(), callbacks=[Break()], **options)
    assert state(resumed.network) == state(fitted([small_any()]).network)


# ---- made of layout and tile graphs -----------------------------------------------------------------------


def hot(graph):
    """How often a node's output is read, and whether it is never read."""
    read = np.bincount(graph.edge_index[:, 1], minlength=graph.num_nodes)
    return {"node": {"read": read.astype(float), "last": read == 0}, "kinds": {"read": "log"}}


def seen(kind, extra=hot, **fields):
    """A ranker like the first place's whose nodes have further features."""
    like = tg.recipes.get_recipe(f"first-{kind}")
    return tg.Ranker(
        dataclasses.replace(like, name=f"mine-{kind}", extra=extra), **{**FIELDS, "steps": 4, **fields}
    )


PUBLISHED = [("layout", small_graph), ("tile", small_tile)]


@pytest.mark.parametrize(("kind", "make"), PUBLISHED)
def test_published_recipes_see_further_features_of_nodes(tmp_path, kind, make):
    tg.recipes.register_extra("hot", hot)
    try:
        graphs, graph, path = [make(0), make(1)], make(2), tmp_path / "r.safetensors"
        ranker = seen(kind)
        refuses(lambda: ranker.num_parameters, tg.Error, "call fit")
        ranker.fit(graphs, verbose=False)
        plain = tg.Ranker(f"first-{kind}", **FIELDS, steps=4)
        plain.fit(graphs, verbose=False)
        assert ranker.num_parameters > plain.num_parameters
        nodes = ranker.network.prepare(graph).graph.node_feat
        expected = plain.network.prepare(graph).graph.node_feat
        assert nodes.shape[1] == expected.shape[1] + 2 and (nodes[:, :-2] == expected).all()
        scores = ranker.predict(graph)
        ranker.save(path)
        loaded = tg.load_ranker(path)
        for other in (loaded, copy.deepcopy(ranker)):
            assert (other.predict(graph) == scores).all()
        loaded.fit(graphs, verbose=False)
        assert state(loaded.network) == state(ranker.network)
        assert np.isfinite(ranker.adapt(graph, range(8), steps=1).predict(graph)).all()
        assert (tg.Ensemble([ranker, plain]).predict(graph) != scores).any()
    finally:
        del functions._EXTRA["hot"]


def test_a_fit_of_published_graphs_resumes_with_its_further_features(tmp_path):
    options = {"checkpoint_dir": tmp_path, "checkpoint_every": 1, "verbose": False}
    with pytest.raises(OSError, match="broken"):
        seen("layout").fit(small_graph(), callbacks=[Break(2)], **options)
    resumed, whole = seen("layout"), seen("layout")
    resumed.fit(small_graph(), callbacks=[Break()], **options)
    whole.fit(small_graph(), verbose=False)
    assert state(resumed.network) == state(whole.network)
