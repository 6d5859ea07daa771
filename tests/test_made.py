"""Made-up programs and kernels: what the published schema says of real ones holds for them."""

import made
import numpy as np
import pytest
from refusals import refuses

import tpugraphs as tg
from tpugraphs import kernels
from tpugraphs.data import schema
from tpugraphs.data.schema import LAYOUT

PLACE = {column.name: i for i, column in enumerate(LAYOUT.node)}
SIZES = [(0, 120, 12, 300), (1, 8, 1, 2), (2, 8, 2, 1), (3, 500, 120, 50), (4, 9, 1, 40)]


@pytest.mark.parametrize("seed, nodes, configurable, configs", SIZES)
def test_programs(seed, nodes, configurable, configs):
    g = made.program(seed, nodes, configurable, configs).validate()
    assert (g.num_nodes, g.num_config_nodes, g.num_configs) == (nodes, configurable, configs)
    names = [schema.opcode_name(int(code)) for code in g.node_opcode]
    assert {names[i] for i in g.node_config_ids} <= {"convolution", "dot", "reshape"}
    assert (g.edge_index[:, 0] > g.edge_index[:, 1]).all()  # operands come before their users
    assert len(np.unique(g.edge_index, axis=0)) == g.num_edges
    shape = g.node_feat[:, PLACE["shape_dimension_0"] :][:, :6]
    rank = (shape != 0).sum(1)
    assert (g.node_feat[:, PLACE["shape_dimension_sum"]] == shape.sum(1)).all()
    product = np.where(shape == 0, 1, shape).prod(1)
    assert (g.node_feat[:, PLACE["shape_dimension_product"]] == product).all()
    for i, name in enumerate(names):
        users = g.edge_index[g.edge_index[:, 0] == i, 1]
        if name == "reshape":
            assert product[users] == product[i]
        if name == "convolution":
            window = g.node_feat[i, PLACE["window_size_product"]]
            assert len(users) == 2 and shape[users[1], :2].prod() == window
            assert shape[users[0], 3] == shape[users[1], 2] and shape[users[1], 3] == shape[i, 3]
    assert g.node_feat[:, PLACE["is_root"]].tolist() == [0] * (nodes - 1) + [1]
    for order, r in zip(kernels.layout_digits(g.node_feat), rank, strict=True):
        assert sorted(order[:r]) == list(range(r))


def test_layouts_are_permutations_of_the_dimensions():
    g = made.program(0, 120, 20, 200)
    digits = g.config_digits.reshape(200, 20, 3, 6)
    assert (digits[0] == -1).all()
    rank = (g.node_feat[:, PLACE["shape_dimension_0"] :][:, :6] != 0).sum(1)
    for k, node in enumerate(g.node_config_ids):
        for tensor in range(3):
            for row in digits[:, k, tensor]:
                length = int((row >= 0).sum())
                assert sorted(row[:length]) == list(range(length)) and (row[length:] == -1).all()
                assert tensor > 0 or length in (0, rank[node])


def test_runtimes_follow_from_the_configs_but_for_noise_and_come_several_times():
    g = made.program(2, 120, 26, 4000)
    first, inverse = g.distinct_configs()
    assert 3000 < len(first) < 3700
    assert len(np.unique(g.config_runtime)) < len(first)  # ties between different configs
    low, high = np.full(len(first), np.iinfo(np.int64).max), np.zeros(len(first), np.int64)
    np.minimum.at(low, inverse, g.config_runtime)
    np.maximum.at(high, inverse, g.config_runtime)
    spread = high / low - 1
    assert 0 < spread.max() < 0.01 < g.config_runtime.max() / g.config_runtime.min() - 1


@pytest.mark.parametrize("seed, nodes, configs", [(0, 16, 61), (1, 31, 579), (2, 8, 1)])
def test_kernels(seed, nodes, configs):
    g = made.kernel(seed, nodes, configs).validate()
    assert (g.num_nodes, g.num_configs, g.kind) == (nodes, configs, "tile")
    assert (g.config_runtime_normalizers == g.config_runtime[0]).all()
    bounds = g.config_feat[:, 8:16]
    rank = (bounds[0, :6] > 0).sum()
    assert (bounds[:, 6] == bounds[:, :6].sum(1)).all() and (bounds[:, 7] == bounds[:, :rank].prod(1)).all()
    root = g.node_feat[-1, PLACE["shape_dimension_0"] :][:6]
    assert (bounds[0, :6] == root).all() and (bounds[:, :6] <= root).all()
    assert not g.config_feat[:, :8].any() and not g.config_feat[:, 16:].any()


def test_the_same_arguments_give_the_same_graph():
    for make in (made.program, made.kernel):
        one, same, other = (make(seed).config_runtime for seed in (3, 3, 4))
        assert (one == same).all() and not (one == other).all()


@pytest.mark.parametrize(
    "make, wrong",
    [
        (made.program, {"nodes": 7, "configurable": 1}),
        (made.program, {"nodes": 20, "configurable": 6}),
        (made.program, {"configurable": 0}),
        (made.program, {"configs": 0}),
        (made.kernel, {"nodes": 7}),
        (made.kernel, {"configs": 0}),
    ],
)
def test_sizes_that_cannot_be_are_refused(make, wrong):
    refuses(lambda: make(**wrong), tg.ConfigError, "8 nodes")
