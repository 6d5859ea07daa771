import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import preprocess as reference

from tpugraphs import ConfigError, DataError, ShapeError, kernels


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
    for row in (0, E // 2, E - 1):
        for bad in (N, -1, 2**31, 2**31 + N, 2**32, -(2**63), 2**63 - 1):
            broken = edges.copy()
            broken[row, row % 2] = bad
            for method in ("config-1hop", "config-only", "k-hop"):
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


@pytest.mark.parametrize("method", ["config-1hop", "config-only", "k-hop"])
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
    with pytest.raises(ConfigError, match="k-hop"):
        kernels.prune(edges, 3, configs, "3-hop")
    with pytest.raises(ConfigError, match="hops"):
        kernels.prune(edges, 3, configs, "k-hop", hops=0)
    with pytest.raises(DataError):
        kernels.prune(edges, -3, configs)
    with pytest.raises(DataError):
        kernels.prune(edges, 2**33, configs)
    with pytest.raises(ShapeError, match="edge_index"):
        kernels.prune(edges.astype(np.int32), 3, configs)
    with pytest.raises(ShapeError, match="edge_index"):
        kernels.prune(np.ascontiguousarray(edges.T), 3, np.array([0]))
