"""Preprocessing of whole graphs, made up and real."""

import madeup
import numpy as np
import pytest
from reference import preprocess as reference
from refusals import refuses

import tpugraphs as tg
from tpugraphs import ConfigError, DataError, kernels
from tpugraphs.preprocess import StandardScaler, fix_padding


def layout_graph(**changed):
    feat = np.arange(6 * 140, dtype=np.float32).reshape(6, 140)
    feat[:, 21:27] = [[8, 4, 0, 0, 0, 0]] * 5 + [[0] * 6]
    feat[:, 134:140] = [[1, 0, 0, 0, 0, 0]] * 5 + [[0] * 6]
    digits = np.full((4, 2, 18), -1, np.int8)
    digits[1:3, 0, 0] = 2
    arrays = {
        "node_feat": feat,
        "node_opcode": np.array([1, 26, 3, 4, 5, 34], np.uint8),
        "edge_index": np.array([(2, 0), (2, 1), (1, 0), (4, 3), (2, 1)]),
        "node_config_ids": np.array([5, 1]),
        "node_config_feat": digits,
        "config_runtime": np.array([5, 8, 3, 6]),
        "node_splits": np.array([[0, 2, 6]]),
        "name": "six",
    }
    return tg.LayoutGraph(**{**arrays, **changed})


def tile_graph():
    feat = np.zeros((4, 24), np.float32)
    feat[1, 0] = 7
    feat[2, 3] = -0.0
    return tg.TileGraph(
        node_feat=np.zeros((2, 140), np.float32),
        node_opcode=np.array([1, 2], np.uint8),
        edge_index=np.array([(1, 0)]),
        config_feat=feat,
        config_runtime=np.array([10, 50, 12, 30]),
        config_runtime_normalizers=np.array([20, 20, 30, 41]),
    )


def test_prune_takes_everything_along():
    g = layout_graph()
    p = tg.prune(g)
    assert p.node_opcode.tolist() == [1, 26, 3, 34]
    np.testing.assert_array_equal(p.node_feat, g.node_feat[[0, 1, 2, 5]])
    assert p.edge_index.tolist() == [[2, 1], [1, 0], [2, 1]]
    assert p.node_config_ids.tolist() == [3, 1]
    assert p.node_opcode[p.node_config_ids].tolist() == g.node_opcode[g.node_config_ids].tolist()
    np.testing.assert_array_equal(p.config_digits, g.config_digits)
    np.testing.assert_array_equal(p.config_runtime, g.config_runtime)
    assert p.node_splits.tolist() == [[0, 4]]  # as of a graph without splits
    assert p.name == g.name
    only = tg.prune(g, "config-only")
    assert (only.node_opcode.tolist(), only.node_config_ids.tolist(), only.num_edges) == ([34, 26], [0, 1], 0)
    hops = tg.prune(g, "k-hop", hops=1)
    assert hops.edge_index.tolist() == [[2, 0], [2, 1], [1, 0], [2, 1]]
    assert hops.num_nodes == 4


def test_nodes_that_pruning_makes_have_no_features():
    g = layout_graph()
    m = tg.prune(g, "merge")
    assert m.node_opcode.tolist() == [1, 3, 0, 34, 26]  # 3 and 4 became one, 5 and 1 are configurable
    assert m.edge_index.tolist() == [[1, 0], [1, 4], [4, 0]] and m.node_config_ids.tolist() == [3, 4]
    np.testing.assert_array_equal(
        m.node_feat, np.stack([*g.node_feat[[0, 2]], np.zeros(140), *g.node_feat[[5, 1]]])
    )
    dummies = tg.prune(g, "merge", neighbours="dummies")
    assert dummies.node_opcode.tolist() == [0, 0, 0, 34, 26] and not dummies.node_feat[:3].any()
    assert m.node_feat.dtype == np.float32 and m.node_opcode.dtype == np.uint8
    assert tg.prune(g, "consumers").node_opcode.tolist() == [26, 3, 34]


def test_prune_says_what_is_wrong():
    g = layout_graph()
    refuses(lambda: tg.prune(g, "magic"), ConfigError, "'magic'", "config-1hop, config-only, k-hop")
    refuses(lambda: tg.prune(g, hops=3), ConfigError, "'hops'", "no options")
    refuses(lambda: tg.prune(g, "k-hop", hop=3), ConfigError, "'hop'", "only hops")
    refuses(lambda: tg.prune(g, "k-hop", hops=0), ConfigError, "hops")
    with pytest.raises(ConfigError, match=r"'six'.*no configurable nodes"):
        tg.prune(layout_graph(node_config_ids=None, node_config_feat=None, config_runtime=None))
    refuses(lambda: tg.prune(tile_graph()), ConfigError, "TileGraph")


@pytest.mark.parametrize(
    ("keep", "runtimes"), [("first", [5, 8]), ("min", [5, 3]), ("mean", [6, 6])]
)  # both means are 5.5: rounded to the even 6
def test_dedup_of_layouts(keep, runtimes):
    g = layout_graph()
    d = tg.dedup(g, keep=keep)
    np.testing.assert_array_equal(d.config_digits, g.config_digits[:2])
    assert d.config_runtime.tolist() == runtimes
    assert g.config_runtime.tolist() == [5, 8, 3, 6]


def test_dedup_of_tiles():
    g = tile_graph()  # rows 0, 2 and 3 are equal: 10 / 20, 12 / 30, 30 / 41
    for keep, runtime, norm in (("first", 10, 20), ("min", 12, 30), ("mean", 17, 30)):
        d = tg.dedup(g, keep=keep)
        np.testing.assert_array_equal(d.config_feat, g.config_feat[:2])
        assert d.config_runtime.tolist() == [runtime, 50]
        assert d.config_runtime_normalizers.tolist() == [norm, 20]
    refuses(lambda: tg.dedup(g, keep="last"), ConfigError, "last")


@pytest.mark.parametrize("keep", ["first", "min", "mean"])
def test_dedup_of_almost_nothing(keep):
    none = {"node_config_ids": None, "node_config_feat": None, "config_runtime": None}
    assert tg.dedup(layout_graph(**none), keep).num_configs == 0
    one = tg.dedup(layout_graph().select([2]), keep)
    assert (one.num_configs, one.config_runtime.tolist()) == (1, [3])
    same = layout_graph(node_config_ids=[], node_config_feat=np.zeros((3, 0, 18)), config_runtime=[4, 2, 3])
    assert tg.dedup(same, keep).config_runtime.tolist() == [{"first": 4, "min": 2, "mean": 3}[keep]]


def test_fix_padding():
    g = layout_graph()
    fixed = fix_padding(g)
    assert fixed.node_feat[0, 134:140].tolist() == [1, 0, -1, -1, -1, -1]
    assert fixed.node_feat[5, 134:140].tolist() == [-1] * 6
    np.testing.assert_array_equal(fixed.node_feat[:, :134], g.node_feat[:, :134])
    assert g.node_feat[5, 134] == 0
    assert (fix_padding(tile_graph()).node_feat[:, 134:] == -1).all()
    wrong = g.node_feat.copy()
    wrong[2, 135] = 9
    refuses(lambda: fix_padding(layout_graph(node_feat=wrong)), DataError, "node 2, column 135")


@pytest.mark.parametrize("function", [tg.prune, tg.dedup, fix_padding])
def test_what_is_no_graph_is_refused(function):
    refuses(lambda: function(None), tg.ConfigError, "graph", "NoneType")


def test_scaler_takes_graphs():
    g = layout_graph()
    scaler = StandardScaler().fit([g, g])
    assert scaler.count_ == 12
    np.testing.assert_allclose(scaler.mean_, reference.scaler(g.node_feat)[0])


@pytest.mark.parametrize("name", [*madeup.NAMES, *tg.list_samples()])
def test_graphs(name, real_sample):
    g = madeup.graph(name) if name in madeup.NAMES else real_sample(name)
    rank = (g.node_feat[:, 21:27] != 0).sum(1)
    for order, r in zip(kernels.layout_digits(g.node_feat), rank, strict=True):
        assert sorted(order[:r]) == list(range(r))  # a permutation of the dimensions, then padding
        assert (order[r:] == -1).all()
    scaled = StandardScaler().fit(g).transform(g.node_feat)
    np.testing.assert_allclose(scaled.mean(0, dtype=np.float64), 0, atol=1e-5)
    if not isinstance(g, tg.LayoutGraph):
        assert len(tg.dedup(g).config_runtime) == len(np.unique(g.config_feat, axis=0))
        return
    p = tg.prune(g)
    nodes, edges, configs = reference.prune_1hop(g.num_nodes, g.edge_index, g.node_config_ids)
    np.testing.assert_array_equal(p.node_feat, g.node_feat[nodes])
    np.testing.assert_array_equal(p.edge_index, edges)
    np.testing.assert_array_equal(p.node_config_ids, configs)
    digits = g.config_digits
    first, inverse = kernels.dedup_configs(digits)
    assert len(first) == len({row.tobytes() for row in digits})
    np.testing.assert_array_equal(digits[first[inverse]], digits)
    np.testing.assert_array_equal(kernels.decode_base7(kernels.encode_base7(digits)), digits)
