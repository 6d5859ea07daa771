"""Steps of preprocessing in the core: against float64 NumPy, on threads, from state, and what they refuse."""

import copy
import pickle
import threading
import weakref
from pathlib import Path

import madeup
import numpy as np
import pytest
from prepare_cases import (
    BAD_GRAPHS,
    BAD_STEPS,
    COLUMNS,
    CONFIGS,
    ENCODE,
    EXTRA,
    LAYOUT,
    NODES,
    POWERS,
    PROGRAMS,
    PRUNE,
    as_graph,
    extra,
    stored,
)
from rankers import small_any, small_graph, small_ranker
from reference import preprocess as reference

import tpugraphs as tg
from tpugraphs import _core
from tpugraphs.data.schema import Column, Schema
from tpugraphs.preprocess.pipeline import Pipeline
from tpugraphs.recipes import get_recipe


def fitted(steps, graphs):
    core = _core.Prepare(steps)
    for graph in graphs:
        core.fit(*as_graph(graph))
    core.finish()
    return core


def outputs(graph):
    """Everything in a prepared graph that a model reads, as bytes."""
    names = ("node_feat", "node_opcode", "layout_digits", "graph_feat", "config_feat")
    arrays = [getattr(graph, name) for name in names]
    return [None if a is None else (a.shape, a.tobytes()) for a in arrays]


def close(found, expected):
    scale = max(1.0, np.abs(expected).max(initial=0))
    np.testing.assert_allclose(found, expected, rtol=2e-6, atol=2e-6 * scale)


# ---- each step against float64 --------------------------------------------------------------------------


def node_rows(table, nodes):
    """Rows of the nodes; of -1, which stands for a new one, zeros."""
    made = np.reshape(nodes < 0, (-1,) + (1,) * (table.ndim - 1))
    return np.where(made, 0, table[nodes])


@pytest.mark.parametrize(
    "method", ["none", "config-1hop", "config-only", "k-hop", "consumers", "shortest-path", "meta", "merge"]
)
def test_nodes_are_pruned_then_scaled(method):
    training = [stored(seed, published=True) for seed in range(3)]
    prune = {"step": "prune", "method": method, "hops": 1, "neighbours": "dummies"}
    steps = [prune, *LAYOUT[2:], NODES]
    core = fitted(steps, training)
    kept = []
    for g in training:
        N, edges, configs = len(g["node_feat"]), g["edge_index"], g["config_nodes"]
        nodes = {
            "none": np.arange(N),
            "config-only": configs,
            "config-1hop": reference.prune_1hop(N, edges, configs)[0],
            "k-hop": reference.prune_k_hop(N, edges, configs, 1)[0],
            "consumers": reference.prune_consumers(N, edges, configs, 1)[0],
            "shortest-path": reference.prune_shortest_path(N, edges, configs)[0],
            "meta": configs,
            "merge": reference.prune_merge(N, edges, configs, True)[0],
        }[method]
        kept.append((g, nodes))
    rows = np.concatenate([node_rows(g["node_feat"], nodes) for g, nodes in kept])[:, :134]
    for g, nodes in kept:
        out, feat = core.apply(*as_graph(g)).nodes, node_rows(g["node_feat"], nodes)
        close(out.node_feat, reference.standardized(rows, feat[:, :134], False))
        np.testing.assert_array_equal(out.node_opcode, node_rows(g["node_opcode"], nodes))
        np.testing.assert_array_equal(out.layout_digits, reference.layout_digits(feat))
        assert out.num_config_nodes == len(g["config_nodes"])
    assert core.get_state()["scaler.count"] == [len(rows)]


@pytest.mark.parametrize("scale", ["none", "log"])
def test_configs_stay_as_they_are_or_become_logarithms(scale):
    core = fitted([{**CONFIGS, "step": "scale-configs", "scale": scale}], [])
    g = stored(published=True, K=0)
    out = core.apply(*as_graph(g)).nodes
    rows = g["config_feat"].astype(np.float64)
    close(out.config_feat, np.log1p(rows.clip(0)) if scale == "log" else rows)
    assert core.configs(g["config_feat"]).tobytes() == out.config_feat.tobytes() and core.get_state() == {}
    with pytest.raises(tg.DataError, match="4 instead of 5"):
        core.apply(*as_graph(stored(published=True, K=0, T=4)))


@pytest.mark.parametrize("scale", ["none", "log"])
def test_configs_are_scaled_and_constants_become_0(scale):
    training = [stored(seed, published=True, K=0) for seed in range(3)]
    for g in training:
        g["config_feat"][:, 3] = 4
    core = fitted([*LAYOUT[2:], NODES, {**CONFIGS, "scale": scale}], training)
    other = stored(9, published=True, K=0)
    other["node_feat"][:, 50] += 3e6  # constant in training
    out = core.apply(*as_graph(other)).nodes
    rows, configs = (np.concatenate([g[name] for g in training]) for name in ("node_feat", "config_feat"))
    close(out.node_feat, reference.standardized(rows[:, :134], other["node_feat"][:, :134], True))
    close(out.config_feat, reference.standardized(configs, other["config_feat"], True, scale == "log"))
    assert core.configs(other["config_feat"]).tobytes() == out.config_feat.tobytes()
    kept = (
        fitted([*LAYOUT[2:], {**NODES, "constant": "keep"}, CONFIGS], training).apply(*as_graph(other)).nodes
    )
    assert (kept.node_feat[:, 50] == 3e6).all() and (out.node_feat[:, 50] == 0).all()


def test_logarithms_are_those_of_numpy():
    """Rankers were trained when NumPy took them; a float32 of its results is what the core must give."""
    x = np.concatenate([np.arange(200_000), 2.0 ** np.arange(-30, 60, 0.37)]).astype(np.float32)[:, None]
    graph = stored(published=True, K=0, config_feat=x)
    core = fitted([*LAYOUT[2:], NODES, {**CONFIGS, "columns": 1}], [graph])
    by_numpy = tg.preprocess.StandardScaler().fit(np.log1p(x.astype(np.float64)).astype(np.float32))
    assert core.get_state()["config_scaler.mean"].tobytes() == by_numpy.mean_.tobytes()
    out = core.configs(x)
    assert out.tobytes() == by_numpy.transform(np.log1p(x.astype(np.float64)).astype(np.float32)).tobytes()


@pytest.mark.parametrize("levels", [0, 2, 4, 64])
def test_any_schema_is_encoded(levels):
    training = [stored(seed) for seed in range(4)]
    core = fitted([{**ENCODE, "levels": levels}], training)
    other = stored(11, C=50)
    out = core.apply(*as_graph(other)).nodes
    for table, columns in COLUMNS.items():
        rows, x = (
            np.concatenate([np.atleast_2d(g[f"{table}_feat"]) for g in graphs])
            for graphs in (training, [other])
        )
        expected = reference.encoded(columns, rows, x, levels)
        close(np.atleast_2d(getattr(out, f"{table}_feat")), expected)
        assert core.columns[table] == expected.shape[1]
    assert out.layout_digits is None
    one_hot = out.config_feat[:, -4:]
    assert one_hot[:, 3].max() == 0 and set(one_hot.sum(1)) == {1}  # the last value never occurs


def test_categories_that_training_did_not_have():
    training = [stored(seed) for seed in range(2)]
    new = stored(5)
    new["config_feat"][7, 5] = 3
    core = fitted([ENCODE], training)
    with pytest.raises(
        tg.DataError,
        match="config_feat: expected a value that was seen in training, found '[^']*' in column 'order', row 7",
    ) as caught:
        core.apply(*as_graph(new))
    assert caught.value.field == "config_feat"
    zero = fitted([{**ENCODE, "unknown": "zero"}], training)
    assert (zero.apply(*as_graph(new)).nodes.config_feat[7, -4:] == 0).all()
    for value in (-1, 4, 1e9):  # such as the schema does not have at all
        new["config_feat"][7, 5] = value
        assert (zero.configs(new["config_feat"])[7, -4:] == 0).all()
        with pytest.raises(tg.DataError, match="row 7"):
            core.configs(new["config_feat"])


SIZES = [
    {"name": "block", "kind": "log"}, {"name": "tile", "kind": "number"}, {"name": "three", "kind": "number"},
    {"name": "two", "kind": "number"}, {"name": "same", "kind": "number"}, {"name": "vector", "kind": "flag"},
    {"name": "order", "kind": "category", "values": [1, 2, 3]},
]  # fmt: skip


def sizes(seed, C=40):
    """A table of configs: numbers with and without powers of two, fractions and signs, few values, others."""
    rng = np.random.default_rng(seed)
    feat = np.stack(
        [rng.integers(1, 99, C), rng.choice([0, -4, 2.5, 48, 2**30, 2.0**33, 1e-3, 12], C),
         rng.integers(1, 4, C), rng.integers(1, 3, C) * 4, np.full(C, 8), rng.integers(0, 2, C),
         rng.integers(0, 3, C)], 1,
    )  # fmt: skip
    return stored(seed, N=1, E=0, K=0, acyclic=False, node_feat=np.zeros((1, 0)), graph_feat=None, config_feat=feat,
                  node_opcode=None, edge_index=np.zeros((0, 2), np.int64))  # fmt: skip


@pytest.mark.parametrize("encoded", [False, True])
def test_powers_of_two(encoded):
    training, other = [sizes(seed) for seed in range(3)], sizes(9, C=70)
    steps = [{"step": "encode", "config": SIZES}] * encoded + [{"step": "powers", "config": SIZES}]
    core = fitted(steps, training)
    rows = np.concatenate([g["config_feat"] for g in training])
    before = reference.encoded(SIZES, rows, other["config_feat"]) if encoded else other["config_feat"]
    expected = reference.powers(SIZES, rows, other["config_feat"])
    out = core.apply(*as_graph(other)).nodes
    close(out.config_feat[:, : before.shape[1]], before)
    np.testing.assert_allclose(out.config_feat[:, before.shape[1] :], expected, rtol=1e-5, atol=1e-5)
    assert core.configs(other["config_feat"]).tobytes() == out.config_feat.tobytes()
    assert core.columns["config"] == (before.shape[1] + expected.shape[1] if encoded else -1)
    assert expected.shape[1] == 3 * 4 + 3 + 3  # of block, tile and three, of their pairs, of the product


def test_powers_of_numbers_that_never_vary():
    one = sizes(0)
    one["config_feat"][:] = 8
    columns = [{"name": f"c{i}", "kind": "number"} for i in range(7)]
    core = fitted([{"step": "powers", "config": columns}], [one])
    np.testing.assert_array_equal(core.apply(*as_graph(one)).nodes.config_feat, one["config_feat"])


def test_a_graph_without_node_features_has_a_column_of_0():
    table = {"step": "encode", "config": COLUMNS["config"]}
    one = stored(N=1, E=0, K=0, acyclic=False, node_feat=np.zeros((1, 0)), graph_feat=None, node_opcode=None)
    core = fitted([table], [one])
    out = core.apply(*as_graph(one)).nodes
    assert (out.num_nodes, out.num_edges, out.num_features, out.num_graph_features) == (1, 0, 1, 0)
    assert out.node_feat.tolist() == [[0]] and out.node_opcode is None and out.graph_feat is None
    assert core.columns == {"node": 1, "graph": 0, "config": 9, "layout": False}


@pytest.mark.parametrize("acyclic", [True, False])
@pytest.mark.parametrize("loops", [False, True])
@pytest.mark.parametrize("form", ["return", "arriving"])
@pytest.mark.parametrize("graph", ["undirected", "directed"])
def test_walks(graph, form, loops, acyclic):
    for seed, N in ((0, 40), (1, 9), (2, 300)):
        g = stored(seed, N=N, E=int(1.5 * N), acyclic=acyclic)
        if not acyclic:
            g["edge_index"][:3, 1] = g["edge_index"][:3, 0]  # edges from a node to itself
        for first, steps in ((1, 1), (1, 8), (2, 9)):
            walk = {"step": "walk-encoding", "graph": graph, "form": form, "loops": loops}
            core = _core.Prepare([PRUNE, walk | {"first": first, "steps": steps}])
            out = core.apply(*as_graph(g)).nodes.node_feat
            nodes = reference.prune_1hop(N, g["edge_index"], g["config_nodes"])[0]
            expected = reference.walk_encoding(
                N, g["edge_index"], graph == "directed", loops, first, steps, form == "arriving"
            )
            np.testing.assert_array_equal(out[:, :2], g["node_feat"][nodes])
            np.testing.assert_allclose(out[:, 2:], expected[nodes], rtol=1e-6, atol=1e-7)
            everything = (
                _core.Prepare([walk | {"first": first, "steps": steps}]).apply(*as_graph(g)).nodes.node_feat
            )
            np.testing.assert_array_equal(everything[nodes], out)  # and not that of the pruned graph


def test_new_nodes_have_no_walks():
    g = stored(3, N=60, E=60, acyclic=False)
    walk = {"step": "walk-encoding", "steps": 5}
    out = _core.Prepare([{"step": "prune", "method": "merge"}, walk]).apply(*as_graph(g)).nodes.node_feat
    nodes = reference.prune_merge(60, g["edge_index"], g["config_nodes"])[0]
    expected = node_rows(reference.walk_encoding(60, g["edge_index"], steps=5), nodes)
    assert (nodes < 0).sum() > 3 and expected.any()
    np.testing.assert_allclose(out[:, 2:], expected, rtol=1e-6, atol=1e-7)


def sized(seed, **changes):
    """A published graph with sizes in its columns, roots, convolutions, dots and unary opcodes."""
    g, rng = stored(seed, published=True, N=50, E=70, acyclic=False, **changes), np.random.default_rng(seed)
    g["node_feat"][:, 21:67] = rng.choice([-3, -1, 0, 1, 5, 127, 128, 129, 300, 4096, 2**24], (50, 46))
    g["node_feat"][:, 21:29] = rng.integers(0, 3000, (50, 8))
    g["node_feat"][:, 134:] = 0
    g["node_feat"][:, 0] = rng.random(50) < 0.2
    g["node_opcode"][:] = rng.choice([1, 26, 34, 75, 96, 118], 50)
    return g


def test_columns_of_sizes():
    g = sized(4)
    feat, edges = g["node_feat"], g["edge_index"]
    nodes = reference.prune_1hop(50, edges, g["config_nodes"])[0]
    kept = feat[nodes]
    logs = [21, 22, 28]
    steps = [
        PRUNE,
        {"step": "log-columns", "columns": logs},
        {"step": "mod-features"},
        {"step": "operand-shapes"},
    ]
    out = _core.Prepare(steps).apply(*as_graph(g)).nodes.node_feat
    close(out[:, :140], reference.log_columns(kept, logs))
    close(out[:, 140:200], reference.mod_features(kept))
    operands = reference.operand_shapes(feat, g["node_opcode"], edges)[nodes]  # of nodes that are gone, too
    close(out[:, 200:], operands)
    assert len(np.unique(operands)) > 20 and (operands == np.log(2)).any() and (operands == 0).any()
    core = _core.Prepare([{"step": "mod-features"}, {"step": "operand-shapes"}])
    assert core.columns["node"] == 216
    mod = core.apply(*as_graph(stored(published=True))).nodes.node_feat[0, 140:]
    assert mod[0] == np.float32(7 / 128) and mod[2] == np.float32(127 / 128)  # of 8 and of 0
    with pytest.raises(tg.DataError, match="node_opcode: expected opcodes, .*found none"):
        core.apply(*as_graph({**g, "node_opcode": None}))
    with pytest.raises(tg.DataError, match="the 140 published columns, found 2"):
        core.apply(*as_graph(stored()))


@pytest.mark.parametrize("prune", [[], [PRUNE], [{"step": "prune", "method": "merge"}]])
def test_columns_of_a_program(prune):
    g = stored(3, published=True, program=True)
    g["node_feat"][g["config_nodes"][:3], 0] = 1  # so that the virtual node stays
    g["node_feat"][:, 21:29] = np.random.default_rng(0).integers(0, 3000, (40, 8))
    before = [{"step": "virtual-node"}, *prune]
    core = _core.Prepare(
        [*before, {"step": "program-columns"}, {"step": "mod-features", "virtual": True}], 140
    )
    assert core.columns["node"] == 246
    out, edges = core.apply(*as_graph(g)).nodes, g["edge_index"]
    edges, _ = reference.virtual(40, edges, g["node_feat"][:, 0] == 1, None)
    nodes = np.arange(41)
    if prune:
        method = reference.prune_merge if prune[0]["method"] == "merge" else reference.prune_1hop
        nodes = method(41, edges, g["config_nodes"], *[False][: method is reference.prune_merge])[0]
    assert (nodes == 40).sum() == 1
    rows = np.where(((nodes >= 0) & (nodes < 40))[:, None], g["node_feat"][np.clip(nodes, 0, 39)], 0)
    made = nodes < 0
    expected = np.c_[reference.program_columns(rows, nodes == 40), reference.mod_features(rows)]
    expected[made] = 0
    close(out.node_feat, expected)
    assert expected[nodes == 40, 148] == 1 and expected[nodes == 40, 200] == 127 / 128
    plain = _core.Prepare([*before, {"step": "operand-shapes", "virtual": True}])
    shapes = plain.apply(*as_graph({**g, "node_feat": g["node_feat"][:, :140].copy()})).nodes.node_feat[
        :, 140:
    ]
    close(shapes[nodes == 40], np.full((1, 16), np.log(2)))
    for refused, found, wanted in (
        (core, 140, "186 columns that tpugraphs.load"),
        (plain, 186, "140 published"),
    ):
        with pytest.raises(tg.DataError, match=f"{wanted}.*found {found}"):
            refused.apply(*as_graph({**g, "node_feat": np.zeros((40, found), np.float32)}))


def test_flags_of_dimensions():
    g = sized(4)
    g["node_feat"][:, 93:107] = np.random.default_rng(0).integers(0, 6, (len(g["node_feat"]), 14))
    g["node_feat"][0, 93:95] = 7, 2.5  # neither is a dimension
    out = _core.Prepare([{"step": "dimension-flags"}]).apply(*as_graph(g)).nodes.node_feat
    assert (out[:, 140:] == reference.dimension_flags(g["node_feat"])).all()
    assert out[0, 140:152].sum() == 0 and 0 < out[:, 140:].sum(1).mean() < 14


@pytest.mark.parametrize("form", ["shifted", "signed"])
def test_columns_are_logarithms(form):
    g = sized(1)
    for offset, columns in ((1, None), (3, [21, 35, 139]), (0, [30, 30]), (2, [])):
        more = {} if columns is None else {"columns": columns}
        step = {"step": "log-columns", "form": form, "offset": offset, **more}
        out = _core.Prepare([step]).apply(*as_graph(g)).nodes.node_feat
        expected = reference.log_columns(g["node_feat"], columns, offset, form == "signed")
        np.testing.assert_allclose(out, expected, rtol=1e-6)
    with pytest.raises(
        tg.DataError, match="node_feat: expected the columns that .* names, found 140, without 150"
    ):
        _core.Prepare([{"step": "log-columns", "columns": [3, 150]}]).apply(*as_graph(g))
    for wrong in (np.nan, np.inf, -np.inf):
        g["node_feat"][3, 30] = wrong
        if form == "signed" or wrong != -np.inf:  # which counts as 1
            with pytest.raises(tg.DataError, match="node_feat: expected finite numbers"):
                _core.Prepare([{"step": "log-columns", "form": form}]).apply(*as_graph(g))


def test_columns_are_scaled_from_ranges():
    g = sized(1)
    ranges = {"columns": [3, 139, 0, 3], "low": [-1, 0, 5, -1], "high": [4, 1, 7, 4]}
    out = _core.Prepare([{"step": "range-columns", **ranges}]).apply(*as_graph(g)).nodes.node_feat
    close(out, reference.range_columns(g["node_feat"], *ranges.values()))
    assert (out[:, 1:3] == g["node_feat"][:, 1:3]).all()
    for wrong in ({"low": [0, 0, 0]}, {"high": [4, 1, 7]}, {"low": [-1, 1, 5, -1]}):
        with pytest.raises(
            tg.ConfigError, match="'range-columns': expected (low and high of every|each high)"
        ):
            _core.Prepare([{"step": "range-columns", **ranges, **wrong}])
    g["node_feat"][3, 0] = np.inf
    with pytest.raises(tg.DataError, match="node_feat: expected finite numbers"):
        _core.Prepare([{"step": "range-columns", **ranges}]).apply(*as_graph(g))


@pytest.mark.parametrize("dimensions", ["scrambled", "straight"])
def test_columns_of_the_fifth_place(dimensions):
    """All that it reads of a node, and nodes that it adds, of which everything is 0."""
    g, rng = sized(3, config_feat=np.zeros((2, 24))), np.random.default_rng(3)
    g["node_feat"][:, 27:] = rng.integers(-1, 9, (50, 113))
    g["node_feat"][:, 93:107] = rng.integers(0, 6, (50, 14))
    g["node_feat"][:, 134:] = rng.integers(0, 6, (50, 6))
    expected = reference.fifth_columns(g["node_feat"], dimensions == "scrambled")
    for recipe, more, least in (("fifth-layout", 0, 1), ("fifth-dimension", 0, 1), ("fifth-tile", 2, 6)):
        found = get_recipe(recipe)
        fields = found.fields("full", {"dimensions": dimensions} | ({"cluster": 25} if more else {}))
        out = _core.Prepare(found.preprocessing(fields)).apply(*as_graph(g)).nodes
        close(out.node_feat[:50, :191], expected)
        assert not out.node_feat[50:].any() and not out.node_feat[:, 191:].any()
        digits = reference.layout_digits(g["node_feat"], 0, least)
        np.testing.assert_array_equal(out.layout_digits[:50], digits)
        assert (out.layout_digits[50:] == -2).all() and out.num_nodes == 50 + more
        assert out.node_feat.shape[1] == (191 if more else 209)


def test_what_is_learnt_is_learnt_from_the_columns_before():
    training, other = [sized(seed) for seed in range(3)], sized(7)
    taken = [139, 21, 22, 27]
    steps = [
        PRUNE, {"step": "log-columns", "form": "signed"}, {"step": "take-columns", "columns": taken},
        {"step": "mod-features"}, {"step": "standardize", "columns": 40}, {"step": "operand-shapes"},
    ]  # fmt: skip
    core = fitted(steps, training)
    assert core.columns["node"] == 56

    def before(g):
        nodes = reference.prune_1hop(50, g["edge_index"], g["config_nodes"])[0]
        feat = g["node_feat"][nodes]
        logs = reference.log_columns(feat, signed=True)[:, taken]
        return np.concatenate([logs, reference.mod_features(feat)], 1).astype(np.float32)[:, :40]

    rows = np.concatenate([before(g) for g in training])
    close(
        core.apply(*as_graph(other)).nodes.node_feat[:, :40],
        reference.standardized(rows, before(other), False),
    )
    three = fitted([{**NODES, "columns": 3}], [stored(node_feat=np.eye(40, 3))])
    for refused in (three.apply, three.fit):
        with pytest.raises(
            tg.DataError, match="expected as many columns as in training, or more, found 2 of 3"
        ):
            refused(*as_graph(stored()))


@pytest.mark.parametrize("prune", [[], [PRUNE], [{"step": "prune", "method": "merge"}]])
def test_further_columns_stand_behind_the_others(prune):
    *training, other = [stored(seed, published=True, further=True) for seed in range(4)]
    for g in (*training, other):
        g["node_feat"][::5, 0] = 1  # roots, over which a virtual node stands
    core = fitted([VIRTUAL, *prune, NODES, EXTRA], training)
    plain = fitted([VIRTUAL, *prune, NODES], training)
    assert core.columns["node"] == 138 and plain.columns["node"] == 134

    def kept(g):
        """Ids of the stored nodes that stay, in their order; behind them are nodes that were made."""
        edges = np.concatenate([g["edge_index"], [(40, n) for n in range(0, 40, 5)]])
        if not prune:
            return np.arange(41)
        if prune[0]["method"] == "merge":
            return reference.prune_merge(41, edges, g["config_nodes"], False)[0]
        return reference.prune_1hop(41, edges, g["config_nodes"])[0]

    real = [nodes[(nodes >= 0) & (nodes < 40)] for nodes in map(kept, training)]
    rows = np.concatenate([g["extra"][nodes] for g, nodes in zip(training, real, strict=True)])
    nodes, found = kept(other), core.apply(*as_graph(other)).nodes
    without = plain.apply(*as_graph({name: other[name] for name in other if name != "extra"})).nodes
    np.testing.assert_array_equal(found.node_feat[:, :134], without.node_feat)
    stands = (nodes >= 0) & (nodes < 40)
    expected = np.zeros((len(nodes), 4))
    expected[stands] = reference.encoded(EXTRA["node"], rows, other["extra"][nodes[stands]])
    close(found.node_feat[:, 134:], expected)
    assert core.get_state()["extra.count"] == [len(rows)] and not found.node_feat[:, 137].any()


def test_further_columns_are_checked():
    core = fitted([EXTRA], [stored(published=True, further=True)])
    for changes, words in (
        ({"extra": None}, "extra: expected as many columns as in training, found 0 instead of 4"),
        ({"extra": np.zeros((40, 3), np.float32)}, "found 3 instead of 4"),
        ({"extra": extra()[:9].copy()}, "extra: expected"),
        ({"extra": np.where(extra() > 5, np.nan, 0).astype(np.float32)}, "extra: .*nan in column 'depth'"),
        ({"extra": extra() - [0, 2**21, 0, 0]}, "extra: expected float32"),
        ({"extra": (extra() - [0, 2**21, 0, 0]).astype(np.float32)}, "numbers >= 0 in a log column"),
        ({"extra": (extra() / 2).astype(np.float32)}, "0 or 1 in a flag"),
    ):
        for refused in (core.apply, core.fit):
            with pytest.raises((tg.DataError, tg.ShapeError, TypeError), match=words):
                refused(*as_graph({**stored(published=True), **changes}))
        core = fitted([EXTRA], [stored(published=True, further=True)])
    for wrong in ({"extra.count": np.array([0])}, {"extra.m2": -np.ones(4)}, {"extra.mean": np.ones(3)}):
        with pytest.raises((tg.DataError, tg.ShapeError), match="extra"):
            core.set_state({**core.get_state(), **wrong})


def test_walks_before_the_scaler_are_scaled():
    training = [stored(seed) for seed in range(2)]
    core = fitted([{"step": "walk-encoding", "steps": 3}, {"step": "standardize", "columns": 5}], training)
    rows = [
        np.concatenate([g["node_feat"], reference.walk_encoding(40, g["edge_index"], steps=3)], 1)
        for g in training
    ]
    found = core.apply(*as_graph(training[1])).nodes.node_feat
    np.testing.assert_allclose(
        found, reference.standardized(np.concatenate(rows), rows[1], False), rtol=1e-4, atol=1e-4
    )


def test_unary_opcodes_are_one():
    names = _core.OPCODES.split()
    g = stored(published=True, N=121, K=1, node_opcode=np.arange(121, dtype=np.uint8))
    out = _core.Prepare([{"step": "merge-opcodes"}]).apply(*as_graph(g)).nodes.node_opcode
    merged = {names[i - 1] for i in np.flatnonzero(out == 1)}
    assert (
        len(merged) == 21 and {"abs", "tan", "tanh", "cbrt", "not", "sign", "logistic", "is-finite"} <= merged
    )
    others = np.array([i for i in range(121) if i == 0 or names[i - 1] not in merged])
    np.testing.assert_array_equal(out[others], others)
    assert not merged & {"add", "convert", "copy", "dot", "reshape", "real", "popcnt"}
    assert (
        _core.Prepare([{"step": "merge-opcodes"}])
        .apply(*as_graph({**g, "node_opcode": None}))
        .nodes.node_opcode
        is None
    )


VIRTUAL = {"step": "virtual-node"}
# the sum over the operands of a node: of column 1, which tells the nodes apart
OPERANDS = {"op": "edge_mean", "name": "sum", "in": ["node_feat"], "out": "h", "attrs": {"kind": "sum", "direction": "reverse"}}  # fmt: skip


def sums_over_operands(graph, columns):
    model = _core.Model([OPERANDS], 0, columns, config_features=1, outputs=["h"])
    return model.run([(graph, np.zeros(1, np.int64))], ["h"])["h"][0].reshape(graph.num_nodes, columns)


@pytest.mark.parametrize("size", [None, 1, 7, 50, 10**9])
@pytest.mark.parametrize("pruned", ["no", "before", "after"])
def test_virtual_nodes(size, pruned):
    g = sized(2, K=8, config_feat=np.zeros((1, 1)))
    g["node_feat"][:, 1] = np.arange(50) + 1
    over = {} if size is None else {"over": "clusters", "size": size}
    virtual = {**VIRTUAL, **over}
    steps = {"no": [virtual], "before": [PRUNE, virtual], "after": [virtual, PRUNE]}[pruned]
    core = _core.Prepare([*steps, {"step": "walk-encoding", "steps": 4}])
    kept = core.fit(*as_graph(g))
    core.finish()
    out = core.apply(*as_graph(g), kept=kept).nodes
    assert outputs(out) == outputs(core.apply(*as_graph(g)).nodes)
    N, edges, configs, nodes = 50, g["edge_index"], g["config_nodes"], np.arange(50)
    if pruned == "before":
        nodes, edges, configs = reference.prune_1hop(N, edges, configs)
    edges, more = reference.virtual(len(nodes), edges, g["node_feat"][nodes, 0] == 1, size)
    nodes = np.concatenate([nodes, np.full(more, -1)])
    walks = reference.walk_encoding(N, g["edge_index"], steps=4)
    walks = node_rows(walks, nodes)  # of a virtual node made after pruning: none
    if pruned != "before":
        walks = reference.walk_encoding(N + more, edges, steps=4)
    if pruned == "after":
        rows, edges, configs = reference.prune_1hop(N + more, edges, configs)
        nodes, walks = nodes[rows], walks[rows]
    feat = node_rows(g["node_feat"], nodes)
    np.testing.assert_array_equal(out.node_feat[:, :140], feat)
    np.testing.assert_allclose(out.node_feat[:, 140:], walks, rtol=1e-6, atol=1e-7)
    np.testing.assert_array_equal(out.node_opcode, node_rows(g["node_opcode"], nodes))
    assert out.num_edges == len(edges) and out.num_config_nodes == 8
    expected = np.zeros(len(nodes))
    np.add.at(expected, edges[:, 0], feat[edges[:, 1], 1])
    np.testing.assert_allclose(sums_over_operands(out, 144)[:, 1], expected, rtol=1e-6)


def test_a_virtual_node_is_fitted_to_and_needs_roots():
    g = sized(5)
    core = fitted([VIRTUAL, *LAYOUT[2:], NODES], [g])
    assert core.get_state()["scaler.count"] == [51]
    out = core.apply(*as_graph(g)).nodes
    assert out.num_nodes == 51 and out.node_opcode[50] == 0 and (out.layout_digits[50] == -1).all()
    with pytest.raises(tg.DataError, match="the 140 published columns, found 2"):
        _core.Prepare([VIRTUAL]).apply(*as_graph(stored()))
    clusters = {**VIRTUAL, "over": "clusters", "size": 30}
    assert _core.Prepare([clusters]).apply(*as_graph(stored())).nodes.num_nodes == 42
    bad = sized(5)
    bad["edge_index"][7, 1] = 50
    with pytest.raises(tg.DataError, match="50 in row 7"):
        _core.Prepare([VIRTUAL, PRUNE]).apply(*as_graph(bad))


def test_walks_on_a_path_and_a_ring():
    """Undirected, from the end of a path: back after 2 steps with 1/2. Directed, a ring of 5: after 5 steps."""
    path = stored(N=3, K=1, edge_index=np.array([[1, 0], [2, 1]]), node_feat=np.zeros((3, 1)))
    walk = {"step": "walk-encoding", "steps": 4}
    assert _core.Prepare([walk]).apply(*as_graph(path)).nodes.node_feat[:, 1:].tolist() == [
        [0, 0.5, 0, 0.5], [0, 1, 0, 1], [0, 0.5, 0, 0.5]
    ]  # fmt: skip
    ring = stored(N=5, K=1, edge_index=np.array([[i, (i + 1) % 5] for i in range(5)]))
    out = _core.Prepare([walk | {"steps": 10, "graph": "directed"}]).apply(*as_graph(ring)).nodes.node_feat
    assert out[:, 2:].tolist() == [[0, 0, 0, 0, 1] * 2] * 5


def adjacency(graph):
    """(N, N): edges from node j into node i of a prepared graph."""
    each = np.eye(graph.num_nodes, dtype=np.float32)
    attrs = {"kind": "sum"}
    return _core.op_forward("edge_mean", attrs, (each,), (), graph, 1, 0, False)


def counted(nodes, edges):
    found = np.zeros((nodes, nodes))
    np.add.at(found, (edges[:, 1], edges[:, 0]), 1)
    return found


@pytest.mark.parametrize("pruned", [False, True])
def test_every_node_gets_one_loop(pruned):
    for seed, N in ((0, 40), (1, 2), (2, 300)):
        g = stored(seed, N=N, E=2 * N, K=1, acyclic=False)
        g["edge_index"][:3, 1] = g["edge_index"][:3, 0] = min(7, N - 1)  # the same loop three times
        before, nodes, edges = g["edge_index"].copy(), np.arange(N), g["edge_index"]
        if pruned:
            g["config_nodes"][:] = min(7, N - 1)
            nodes, edges, _ = reference.prune_1hop(N, edges, g["config_nodes"])
        core = _core.Prepare([PRUNE] * pruned + [{"step": "self-loops"}])
        out, expected = core.apply(*as_graph(g)).nodes, reference.self_loops(len(nodes), edges)
        assert (out.num_nodes, out.num_edges) == (len(nodes), len(expected))
        np.testing.assert_array_equal(adjacency(out), counted(len(nodes), expected))
        assert (np.diag(adjacency(out)) == 1).all()
        np.testing.assert_array_equal(g["edge_index"], before)
        twice = _core.Prepare([PRUNE] * pruned + [{"step": "self-loops"}] * 2).apply(*as_graph(g)).nodes
        np.testing.assert_array_equal(adjacency(twice), adjacency(out))


def test_walks_know_nothing_of_added_loops():
    g, loops = stored(3), {"step": "self-loops"}
    walk = {"step": "walk-encoding", "steps": 5}
    for order in ([loops, walk], [walk, loops]):
        out = _core.Prepare(order).apply(*as_graph(g)).nodes
        assert outputs(out) == outputs(_core.Prepare([walk]).apply(*as_graph(g)).nodes)
        assert out.num_edges == len(g["edge_index"]) + len(g["node_feat"])


def test_loops_are_edges_to_a_recipe():
    lone = Pipeline([{"step": "self-loops"}], "graph")
    assert lone.sizes.edges and not Pipeline([], "graph").sizes.edges


def test_padding():
    good, bad = stored(published=True), stored(published=True)
    bad["node_feat"][39, 104] = -1
    core = fitted([*LAYOUT, NODES, {"step": "node-padding", "value": 0}], [good])
    core.apply(*as_graph(good))
    with pytest.raises(tg.DataError, match="trained on features padded with 0") as caught:
        core.apply(*as_graph(bad))
    assert (caught.value.field, caught.value.found) == ("node_feat", "padding -1")
    assert _core.list_padding(bad["node_feat"]) == -1


# ---- bits -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PROGRAMS)
def test_bits_do_not_depend_on_threads_repetition_or_where_the_state_comes_from(name):
    steps, options = PROGRAMS[name]
    training = [stored(seed, N=3000, E=5000, C=3000, acyclic=False, **options) for seed in range(2)]
    found = []
    for threads in (1, 2, 3, 8):
        tg.set_num_threads(threads)
        core = fitted(steps, training)
        found += [outputs(core.apply(*as_graph(training[1])).nodes) for _ in range(2)]
        again = _core.Prepare(steps)
        again.set_state(core.get_state())
        found.append(outputs(again.apply(*as_graph(training[1])).nodes))
    assert all(other == found[0] for other in found) and again.columns == core.columns


def test_threads_may_apply_one_program():
    steps, options = PROGRAMS["layout"]
    graphs = [stored(seed, N=500, E=900, **options) for seed in range(4)]
    core = fitted(steps, graphs)
    alone, found = [outputs(core.apply(*as_graph(g)).nodes) for g in graphs], [[] for _ in graphs]

    def work(i):
        for _ in range(20):
            found[i].append(outputs(core.apply(*as_graph(graphs[i])).nodes))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(len(graphs))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(one == alone[i] for i in range(len(graphs)) for one in found[i])


def test_a_pipeline_can_be_copied():
    graph = small_graph()
    one = Pipeline([*LAYOUT, NODES]).fit([graph])
    for other in (copy.deepcopy(one), pickle.loads(pickle.dumps(one))):
        assert other.same_as(one) and outputs(other.apply(graph).graph) == outputs(one.apply(graph).graph)


# ---- how often a graph is worked on ---------------------------------------------------------------------


def test_a_graph_is_pruned_once_and_checked_once():
    graphs = [small_graph(seed) for seed in range(3)]
    pipeline = Pipeline([*LAYOUT, NODES]).fit(graphs)
    for graph in graphs:
        for part in (graph, graph.select(slice(0, 40))):  # which has the nodes of the whole
            pipeline.apply_measured(part)
            pipeline.apply(part)
    assert pipeline._core.counts == {"fitted": 3, "applied": 12, "pruned": 3, "checked": 3}
    new = small_graph(7)
    before = weakref.ref(new.edge_index)
    pipeline.apply(new)
    assert pipeline._core.counts["pruned"] == 4
    pipeline.fit([new])
    assert len(pipeline._kept) == 4
    del new
    assert before() is None and len(pipeline._kept) == 3  # nothing of a graph outlives it


def test_what_pruning_kept_is_used_for_that_graph_alone():
    """Graphs of the same sizes are told apart by their edges and configurable nodes."""
    graph = stored(0, published=True)
    core = _core.Prepare([PRUNE, NODES])
    kept = core.fit(*as_graph(graph))
    core.finish()
    same = {**graph, "node_feat": graph["node_feat"] + 1, "edge_index": graph["edge_index"].copy()}
    assert outputs(core.apply(*as_graph(same), kept=kept).nodes) == outputs(core.apply(*as_graph(same)).nodes)
    for field in ("edge_index", "config_nodes"):
        other = {**graph, field: graph[field][::-1].copy()}
        with pytest.raises(tg.DataError, match="another graph"):
            core.apply(*as_graph(other), kept=kept)
        assert core.apply(*as_graph(other)).nodes.num_nodes


def test_a_fit_prunes_once():
    graphs = [small_graph(seed) for seed in range(3)]
    ranker = small_ranker(steps=6)
    ranker.fit(graphs, valid=0.3, verbose=False)
    counts = ranker.pipeline._core.counts
    assert (counts["fitted"], counts["pruned"]) == (3, 3) and counts["applied"] == 6


class NoArithmetic(np.ndarray):
    """An array that can be handed over and looked at, but not computed with."""

    def __array_ufunc__(self, ufunc, method, *inputs, **options):
        raise AssertionError(f"NumPy computes {ufunc.__name__} on the way of a prediction")

    def __array_function__(self, function, *rest):
        raise AssertionError(f"NumPy computes {function.__name__} on the way of a prediction")


@pytest.mark.parametrize("recipe", ["first-layout", "first-tile", "graph-config"])
def test_a_prediction_has_no_arithmetic_in_numpy(recipe):
    if recipe != "first-layout":
        graph = madeup.graph("kernel_00") if recipe == "first-tile" else small_any()
        ranker = small_ranker(recipe, steps=2)
        given = graph.config_feat[:9]
    else:
        graph, ranker = small_graph(), small_ranker(recipe, steps=2)
        given = graph.config_digits[:9]
    ranker.fit(graph, verbose=False)
    expected = ranker.predict(graph), ranker.predict(graph, given)
    state = graph.__getstate__()
    bare = {name: a.view(NoArithmetic) for name, a in state.items() if isinstance(a, np.ndarray)}
    guarded = graph._with(**bare)
    with pytest.raises(AssertionError, match="computes add"):
        guarded.node_feat + 1
    assert ranker.predict(guarded).tobytes() == expected[0].tobytes()
    assert ranker.predict(guarded, given).tobytes() == expected[1].tobytes()


# ---- what is refused ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", BAD_STEPS)
def test_programs_that_cannot_be(name):
    steps, words = BAD_STEPS[name]
    with pytest.raises(tg.ConfigError, match=words):
        _core.Prepare(steps)


@pytest.mark.parametrize("name", BAD_GRAPHS)
def test_graphs_that_do_not_fit(name):
    change, words = BAD_GRAPHS[name]
    core, graph = fitted([ENCODE], [stored(seed) for seed in range(2)]), stored(3)
    change(graph)
    if words is None:  # large, but it fits
        assert np.isfinite(core.apply(*as_graph(graph)).nodes.config_feat).all()
        return
    for threads in (1, 4):
        tg.set_num_threads(threads)
        with pytest.raises((tg.DataError, tg.ShapeError), match=words):
            core.apply(*as_graph(graph))
    assert outputs(core.apply(*as_graph(stored(3))).nodes)


def test_values_that_were_checked_at_the_door_are_not_checked_again():
    columns = [column for group in ("node", "graph", "config") for column in COLUMNS[group]]
    numbers = ["number", "log", "category", "flag"]
    kinds = bytes(numbers.index(column["kind"]) for column in columns)
    graph = stored(3)
    graph["config_feat"][8, 4] = 0.5  # a flag
    flag = len(kinds) - 2
    for checked in (None, kinds[:-1], kinds + b"\0", kinds[:flag] + b"\0" + kinds[flag + 1 :]):
        given, _ = as_graph(graph)
        given._set(_checked=checked)
        for use in (fitted([ENCODE], [stored()]).apply, _core.Prepare([ENCODE]).fit):
            with pytest.raises(tg.DataError, match="0 or 1 in a flag, found 0.5"):
                use(given)
    given._set(_checked=kinds)  # never true of these
    fitted([ENCODE], [stored()]).apply(given)
    _core.Prepare([ENCODE]).fit(given)


def test_the_door_writes_down_as_what_it_has_checked():
    kinds = [("size", "log", ()), ("op", "category", (1, 2)), ("hot", "flag", ()), ("x", "number", ())]
    columns = [Column(*column) for column in kinds]
    arrays = {
        "node_feat": [[1.0, 1]], "graph_feat": [1.0], "config_feat": [[3.0], [4.0]], "runtime": [1.0, 2.0],
    }  # fmt: skip
    schema = Schema(node=columns[:2], graph=columns[2:3], config=columns[3:])
    given, inferred = tg.Graph(schema=schema, **arrays), tg.Graph(**arrays)
    assert given._checked == bytes([1, 2, 3, 0]) and inferred._checked == bytes(4)
    for kept in (given.select([1]), given.replace(name="other"), pickle.loads(pickle.dumps(given))):
        assert kept._checked == given._checked
    failed = tg.Graph.__new__(tg.Graph)
    with pytest.raises(tg.DataError, match="0 or 1 in a flag"):
        failed.__init__(schema=schema, **arrays | {"graph_feat": [0.5]})
    assert failed._checked is None
    assert small_graph()._checked == bytes(140)


def test_published_graphs_that_do_not_fit():
    core = fitted([*LAYOUT, NODES], [stored(published=True)])
    with pytest.raises(tg.DataError, match="the 140 published columns, found 2"):
        core.apply(*as_graph(stored()))
    wrong = stored(published=True)
    wrong["node_feat"][:, 137] = 6.0
    with pytest.raises(tg.DataError, match="a layout digit"):
        core.apply(*as_graph(wrong))
    with pytest.raises(tg.DataError, match="at least one configurable node"):
        core.apply(*as_graph(stored(published=True, K=0)))
    tile = fitted([*LAYOUT[1:], NODES, CONFIGS], [stored(published=True, K=0)])
    with pytest.raises(
        tg.DataError, match="config_feat: expected as many columns as in training, found 4 instead"
    ):
        tile.configs(np.zeros((3, 4), np.float32))


def test_state_that_cannot_be():
    core = fitted([ENCODE, POWERS], [stored(seed) for seed in range(2)])
    state = core.get_state()
    for name, wrong, words in (
        ("powers.count", state["powers.count"] * 0, "powers"),
        ("powers.m2", state["powers.m2"] - 1e30, "powers"),
        ("powers.mean", state["powers.mean"] * np.nan, "finite"),
        ("powers.mean", state["powers.mean"][:-1], "powers.mean"),
        ("powers.more", None, "powers.more"),
        ("encode.count", np.array([0, 1, 1]), "encode"),
        ("encode.mean", state["encode.mean"] * np.nan, "finite"),
        ("encode.m2", state["encode.m2"] - 1e30, "encode"),
        ("encode.seen", state["encode.seen"] - 1, "encode"),
        ("encode.seen", state["encode.seen"] + 10**6, "encode"),
        ("encode.level_count", state["encode.level_count"] + 5, "encode"),
        ("encode.mean", state["encode.mean"][:-1], "encode.mean"),
        ("encode.seen", state["encode.seen"].astype(np.float64), "encode.seen"),
        ("encode.seen", None, "encode.seen"),
    ):
        other = _core.Prepare([ENCODE, POWERS])
        with pytest.raises((tg.DataError, tg.ShapeError), match=words):
            other.set_state({**state, name: wrong})
        assert not other.fitted
        with pytest.raises(tg.ConfigError, match="not fitted"):
            other.apply(*as_graph(stored()))


def test_fitting_to_nothing():
    core = _core.Prepare([NODES])
    with pytest.raises(tg.DataError, match="at least one row"):
        core.finish()
    with pytest.raises(tg.ConfigError, match="not fitted"):
        core.apply(*as_graph(stored(published=True)))


def test_a_new_fit_forgets_the_one_before():
    graphs = [stored(seed) for seed in range(3)]
    core = fitted([ENCODE], graphs[:2])
    core.fit(*as_graph(graphs[2]))
    assert not core.fitted
    core.finish()
    for other in (core, fitted([ENCODE], graphs[2:])):
        assert {name: a.tolist() for name, a in other.get_state().items()} == {
            name: a.tolist() for name, a in core.get_state().items()
        }


def test_errors_name_the_graph():
    graph = small_graph()
    with pytest.raises(tg.ConfigError, match="at most as many columns as the nodes have"):
        Pipeline([{"step": "prune", "method": "none"}, {**NODES, "columns": 141}])
    pipeline = Pipeline([{"step": "prune", "method": "none"}, {"step": "node-padding", "value": -1}])
    with pytest.raises(tg.DataError, match=f"{graph.name}: node_feat: this ranker.s weights") as caught:
        pipeline.fit([graph])
    assert caught.value.file == graph.name and caught.value.field == "node_feat"


# ---- the table ------------------------------------------------------------------------------------------


def test_the_table_says_what_there_is():
    table = {step["name"]: step for step in _core.prepare_steps()}
    assert {use["step"] for steps, _ in PROGRAMS.values() for use in steps} == set(table)
    here = "".join(
        (Path(__file__).parent / f"{name}.py").read_text() for name in ("test_prepare", "prepare_cases")
    )
    for name, step in table.items():
        assert step["doc"].endswith(".") and f'"step": "{name}"' in here, f"{name} has no test here"
        for attr in step["attrs"]:
            assert attr["doc"] and attr["kind"] in ("int", "flag", "choice", "list", "numbers")
            assert (attr["default"] is None) == (attr["required"] or attr["kind"] in ("list", "numbers"))
    assert table["dedup"]["training"] and table["encode"]["learns"] and not table["prune"]["learns"]


def test_a_state_that_was_refused_leaves_nothing_behind():
    graphs = [stored(seed, published=True) for seed in range(2)]
    expected = fitted([NODES], graphs).get_state()
    for wrong in ({"scaler.m2": -np.ones(134)}, {"scaler.m2": None}):
        core = _core.Prepare([NODES])
        with pytest.raises((tg.DataError, tg.ShapeError)):
            core.set_state({"scaler.count": np.array([7]), "scaler.mean": np.ones(134), **wrong})
        for graph in graphs:
            core.fit(*as_graph(graph))
        core.finish()
        for name, array in core.get_state().items():
            assert array.tobytes() == expected[name].tobytes()
    core = _core.Prepare([ENCODE])
    bad = stored(1)
    bad["config_feat"][3, 2] = np.nan  # the last table: the others have been added
    with pytest.raises(tg.DataError, match="finite numbers, found nan"):
        core.fit(*as_graph(bad))
    assert core.get_state()["encode.count"].tolist() == [0, 0, 0]


def test_powers_need_finite_numbers_and_a_row():
    bad = sizes(0)
    bad["config_feat"][3, 1] = np.nan
    core = _core.Prepare([{"step": "powers", "config": SIZES}])
    with pytest.raises(
        tg.DataError, match=r"config_feat: expected finite values, found nan \(row 3, column 1"
    ):
        core.fit(*as_graph(bad))
    with pytest.raises(tg.DataError, match="config_feat: expected at least one row to fit to"):
        core.finish()
    empty = {"step": "powers", "config": []}
    state = fitted([empty], [stored(config_feat=np.zeros((3, 0)))]).get_state()
    again = _core.Prepare([empty])
    again.set_state(state)
    assert again.fitted


def test_configs_are_features_digits_or_both():
    """A graph of features of configs has no digits by itself, even where it has configurable nodes."""
    graph = stored(K=3, config_feat=np.ones((5, 2)))
    core = _core.Prepare([])
    digits = np.zeros((9, 3, 18), np.int8)
    with pytest.raises(tg.ShapeError, match="digits"):
        core.apply(*as_graph(graph), digits=digits)  # of another number of configs
    pair = np.zeros((5, 3, 3), np.uint8), np.zeros((1, 6), np.int8)
    with pytest.raises(TypeError, match=r"a pair \(codes, table\) without config_feat"):
        core.apply(*as_graph(graph), digits=pair)
    rows = np.zeros(2, np.int64)
    linear = {"op": "linear", "name": "head", "in": ["config_feat"], "out": "scores", "attrs": {"out": 1}}
    model = _core.Model([linear], 0, 2, config_features=2, graph_features=2)
    (scores,) = model.scores([(core.apply(*as_graph(graph)).nodes, rows)])
    assert scores.shape == (2,) and scores[0] == scores[1]
    table = {"op": "config_linear", "name": "t", "in": ["node_feat"], "out": "h", "attrs": {"out": 2}}
    asks = _core.Model([table], 0, 2, graph_features=2, outputs=["h"])
    for columns in (0, 2):
        graph["config_feat"] = np.ones((5, columns), np.float32)
        with pytest.raises(ValueError, match="configs of another kind|config digits"):
            asks.run([(core.apply(*as_graph(graph)).nodes, rows)], ["h"])
    graph["config_feat"] = np.ones((9, 2), np.float32)
    mixed = _core.Model([table, linear], 0, 2, config_features=2, graph_features=2, outputs=["h", "scores"])
    found = mixed.run([(core.apply(*as_graph(graph), digits=digits).nodes, rows)], ["h", "scores"])
    assert found["h"][0].shape[1:] == (2, 2) and found["scores"][0].shape == (2, 1)
    for wrong in (-5, 1, 35, 2**31 - 1):
        with pytest.raises(ValueError, match=r"digit_rows: expected 4\.\.34"):
            core.apply(*as_graph({**graph, "config_feat": None}), digits=digits, digit_rows=wrong)


def test_more_columns_than_there_may_be():
    for columns in (65537, 2**32 + 1, 2**32 - 5):  # of no rows, which takes no memory
        with pytest.raises(ValueError, match="at most .* 65536 columns"):
            _core.Prepare([]).configs(np.zeros((0, columns), np.float32))
