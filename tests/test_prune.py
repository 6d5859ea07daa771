import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import preprocess as reference
from refusals import refuses

from tpugraphs import ConfigError, DataError, ShapeError, kernels

METHODS = ["config-1hop", "config-only", "k-hop", "consumers", "shortest-path", "meta", "merge"]


def edge_array(edges):
    return np.array(edges, np.int64).reshape(-1, 2)


@st.composite
def graphs(draw):
    """N, edges, configs: with isolated nodes, self loops, double edges, E = 0, K = N, K = 1, N = 1."""
    N = draw(st.integers(1, 12))
    node = st.integers(0, N - 1)
    edges = draw(st.lists(st.tuples(node, node), max_size=30))
    configs = draw(st.lists(node, unique=True, max_size=N))
    return N, edge_array(edges), np.array(configs, np.int64)


def check(got, expected):
    for a, b in zip(got, expected, strict=True):
        assert a.dtype == np.int64
        np.testing.assert_array_equal(a, b)


@settings(max_examples=150, deadline=None)
@given(graphs())
def test_1hop_is_the_reference(graph):
    check(kernels.prune(graph[1], graph[0], graph[2]), reference.prune_1hop(*graph))


@settings(max_examples=150, deadline=None)
@given(graphs(), st.integers(1, 14))
def test_k_hop_is_the_reference(graph, hops):
    N, edges, configs = graph
    check(kernels.prune(edges, N, configs, "k-hop", hops=hops), reference.prune_k_hop(*graph, hops))


@settings(max_examples=150, deadline=None)
@given(graphs(), st.integers(1, 14))
def test_consumers_are_the_reference(graph, hops):
    N, edges, configs = graph
    check(kernels.prune(edges, N, configs, "consumers", hops=hops), reference.prune_consumers(*graph, hops))


@settings(max_examples=150, deadline=None)
@given(graphs())
def test_methods_without_options_are_the_reference(graph):
    N, edges, configs = graph
    check(kernels.prune(edges, N, configs, "shortest-path"), reference.prune_shortest_path(*graph))
    check(kernels.prune(edges, N, configs, "meta"), reference.prune_meta(*graph))


@settings(max_examples=150, deadline=None)
@given(graphs(), st.sampled_from(["kept", "dummies"]))
def test_merge_is_the_reference(graph, neighbours):
    N, edges, configs = graph
    found = kernels.prune(edges, N, configs, "merge", neighbours=neighbours)
    check(found, reference.prune_merge(*graph, neighbours == "dummies"))


@pytest.mark.parametrize("share", [0.0, 0.01, 0.3, 1.0])
@pytest.mark.parametrize(("N", "E"), [(1, 3), (64, 1023), (65, 1024), (700, 1025), (3000, 2600), (129, 4099)])
def test_larger_graphs_are_the_reference(N, E, share):
    """Sizes around the words and blocks the nodes and edges are worked on in, few and many configs."""
    rng = np.random.default_rng(N + E)
    edges = rng.integers(0, N, (E, 2))
    configs = rng.permutation(N)[: round(share * N)]
    check(kernels.prune(edges, N, configs), reference.prune_1hop(N, edges, configs))
    for hops in (1, 2, 3, 9):
        expected = reference.prune_k_hop(N, edges, configs, hops)
        check(kernels.prune(edges, N, configs, "k-hop", hops=hops), expected)
        expected = reference.prune_consumers(N, edges, configs, hops)
        check(kernels.prune(edges, N, configs, "consumers", hops=hops), expected)
    for row in (0, E // 2, E - 1):
        for bad in (N, -1, 2**31, 2**31 + N, 2**32, -(2**63), 2**63 - 1):
            broken = edges.copy()
            broken[row, row % 2] = bad
            for method in METHODS:
                with pytest.raises(DataError, match=f"{bad} in row {row} "):
                    kernels.prune(broken, N, configs, method)


@settings(max_examples=50, deadline=None)
@given(graphs())
def test_config_only_keeps_their_order(graph):
    N, edges, configs = graph
    nodes, kept, new = kernels.prune(edges, N, configs, "config-only")
    np.testing.assert_array_equal(nodes, configs)
    assert kept.shape == (0, 2)
    np.testing.assert_array_equal(new, np.arange(len(configs)))


@settings(max_examples=50, deadline=None)
@given(graphs(), st.randoms())
def test_renaming_nodes_renames_the_result(graph, random):
    N, edges, configs = graph
    new_name = list(range(N))
    random.shuffle(new_name)
    new_name = np.array(new_name)
    a = kernels.prune(edges, N, configs)
    b = kernels.prune(np.ascontiguousarray(new_name[edges]), N, new_name[configs])
    np.testing.assert_array_equal(np.sort(new_name[a[0]]), b[0])
    np.testing.assert_array_equal(new_name[a[0][a[1]]], b[0][b[1]])
    np.testing.assert_array_equal(new_name[a[0][a[2]]], b[0][b[2]])


def test_edges_between_neighbours_go_and_isolated_configs_stay():
    # 1 is configurable with neighbours 0 and 2, joined by an edge of their own; 5 has no edge at all.
    edges = edge_array([(0, 2), (2, 1), (1, 0), (4, 3), (1, 1), (2, 1)])
    nodes, kept, configs = kernels.prune(edges, 6, np.array([5, 1]))
    assert nodes.tolist() == [0, 1, 2, 5]
    assert kept.tolist() == [[2, 1], [1, 0], [1, 1], [2, 1]]
    assert configs.tolist() == [3, 1]


# 6 is the last node; 2 and 4 are configurable; 0-1 and 8-9 are parts far from both, 5 is alone
CHAIN = edge_array([(1, 0), (2, 1), (3, 2), (4, 3), (6, 4), (7, 4), (7, 3), (9, 8), (8, 9)])


def test_consumers_go_one_way():
    nodes, edges, _ = kernels.prune(CHAIN, 10, np.array([2]), "consumers", hops=2)
    assert nodes.tolist() == [2, 3, 4, 7] and len(edges) == 4
    assert kernels.prune(CHAIN, 10, np.array([2]), "consumers", hops=1)[0].tolist() == [2, 3]


def test_paths_lead_to_the_last_node():
    """To 2 by 4 and 3 or by 7 and 3: by the smaller. Without a way there, configurable nodes stay alone."""
    nodes, edges, configs = kernels.prune(CHAIN[:7], 8, np.array([2, 5]), "shortest-path")
    assert nodes.tolist() == [2, 3, 5, 7] and configs.tolist() == [0, 2]
    assert edges.tolist() == [[1, 0], [3, 1]]
    square = edge_array([(2, 1), (3, 1), (4, 2), (4, 3), (1, 0), (2, 4)])
    nodes, edges, _ = kernels.prune(square, 5, np.array([0]), "shortest-path")
    assert nodes.tolist() == [0, 1, 2, 4] and edges.tolist() == [[2, 1], [3, 2], [1, 0], [2, 3]]
    alone = kernels.prune(CHAIN, 10, np.array([5, 2]), "shortest-path")
    assert [a.tolist() for a in alone] == [[2, 5], [], [1, 0]]


def test_paths_of_the_meta_graph_pass_no_configurable_node():
    edges = edge_array([(1, 0), (2, 1), (3, 2), (4, 3), (5, 4), (0, 5), (3, 1)])
    found = kernels.prune(edges, 6, np.array([4, 2, 0]), "meta")
    assert [a.tolist() for a in found] == [[4, 2, 0], [[0, 1], [0, 2], [1, 2], [2, 0]], [0, 1, 2]]


def test_parts_far_from_configurable_nodes_become_one_node():
    nodes, edges, configs = kernels.prune(CHAIN, 10, np.array([4, 2]), "merge")
    assert nodes.tolist() == [-1, 1, 3, -1, 6, 7, -1, 4, 2] and configs.tolist() == [7, 8]
    assert edges.tolist() == [[1, 0], [2, 8], [4, 7], [5, 7], [5, 2], [7, 2], [8, 1]]
    dummies = kernels.prune(CHAIN, 10, np.array([4, 2]), "merge", neighbours="dummies")
    assert dummies[0].tolist() == [-1] * 7 + [4, 2]
    np.testing.assert_array_equal(dummies[1], edges)


@pytest.mark.parametrize("N", [20_000])
def test_larger_graphs_are_merged(N):
    """A path of N nodes with one configurable end: one part, found without recursion and in linear time."""
    path = np.stack([np.arange(1, N), np.arange(N - 1)], 1)
    for edges in (path, path[::-1].copy()):
        nodes, merged, _ = kernels.prune(edges, N, np.array([0]), "merge")
        assert nodes.tolist() == [1, -1, 0] and merged.tolist() == [[0, 2], [1, 0]]
        assert len(kernels.prune(edges, N, np.array([0]), "shortest-path")[0]) == N
        ends = kernels.prune(edges, N, np.array([0, N - 1]), "meta")
        assert ends[1].tolist() == [[1, 0]]


def test_a_meta_graph_may_have_more_edges_than_the_graph():
    """All of 60 consume one node that consumes all of 60 others."""
    many = np.arange(60)
    edges = np.concatenate([np.stack([many, 0 * many + 120], 1), np.stack([0 * many + 120, many + 60], 1)])
    _, found, _ = kernels.prune(edges, 121, np.arange(120), "meta")
    np.testing.assert_array_equal(found, np.stack([np.repeat(many, 60), np.tile(many + 60, 60)], 1))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    ("edges", "configs", "field"),
    [
        ([(0, 3)], [0], "edge_index"),
        ([(-1, 0)], [0], "edge_index"),
        ([(0, 1), (2**40, 0)], [0], "edge_index"),
        ([(0, 1)], [3], "node_config_ids"),
        ([(0, 1)], [-1], "node_config_ids"),
        ([(0, 1)], [1, 2, 1], "node_config_ids"),
    ],
)
def test_bad_indices_are_named(method, edges, configs, field):
    with pytest.raises(DataError, match=field) as caught:
        kernels.prune(edge_array(edges), 3, np.array(configs), method)
    assert caught.value.field == field


def test_bad_arguments():
    edges, configs = edge_array([(0, 1)]), np.array([0])
    refuses(lambda: kernels.prune(edges, 3, configs, "3-hop"), ConfigError, "'3-hop'", *METHODS)
    merge = {"neighbours": "gone"}
    refuses(
        lambda: kernels.prune(edges, 3, configs, "merge", **merge),
        ConfigError,
        "kept, dummies",
        "'gone'",
    )
    refuses(lambda: kernels.prune(edges, 3, configs, "k-hop", hops=0), ConfigError, "hops")
    refuses(lambda: kernels.prune(edges, -3, configs), ConfigError, "num_nodes")
    refuses(lambda: kernels.prune(edges, 2**33, configs), DataError)
    refuses(lambda: kernels.prune(edges.astype(np.int32), 3, configs), ShapeError, "edge_index")
    refuses(lambda: kernels.prune(np.ascontiguousarray(edges.T), 3, configs), ShapeError, "edge_index")
