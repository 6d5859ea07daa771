"""Tables of layouts: every column against its definition, node by node."""

from collections import Counter

import numpy as np
import pytest
from rankers import small_graph, small_tile
from reference import preprocess as reference
from refusals import refuses

import tpugraphs as tg
from tpugraphs import _core
from tpugraphs.preprocess import layout_table, layout_table_names

SIZES = 14


def graph(seed=0, nodes=24, config_nodes=9, configs=40):
    """A layout graph of configurable opcodes with few layouts, so that some agree and some are not given."""
    rng = np.random.default_rng(seed)
    g = small_graph(seed, configs=configs, nodes=nodes, config_nodes=config_nodes)
    feat, opcode = g.node_feat.copy(), g.node_opcode.copy()
    feat[:, 21:25] = rng.choice([1, 2, 3, 9, 100, 128, 130, 5000], (nodes, 4))
    feat[:, 93:107] = rng.integers(0, 3, (nodes, 14))
    opcode[g.node_config_ids] = rng.choice([26, 34, 75], config_nodes)
    layouts = np.array([[-1] * 6, [0, 1, 2, 3, -1, -1], [3, 2, 1, 0, -1, -1]], np.int8)
    digits = layouts[rng.integers(0, 3, (configs, config_nodes, 3))].reshape(configs, config_nodes, 18)
    return g.replace(node_feat=feat, node_opcode=opcode, node_config_feat=digits)


def columns(g, rows, bins, **options):
    names = layout_table_names(bins, **options)
    table = layout_table(g, rows, bins, **options)
    assert table.shape == (len(rows), len(names)) and table.dtype == np.float32
    return dict(zip(names, table.T, strict=True)), table


def copies(g, config, pairs):
    """Pairs of places among the configurable nodes (u, v) where the output of v is no operand of u."""
    found, size = 0, 0.0
    for u, v in pairs:
        made, read = config[v, :6], [config[u, 6:12], config[u, 12:]]
        given = [layout for layout in read if (layout >= 0).any()]
        if (made >= 0).any() and given and all((made != layout).any() for layout in read):
            found += 1
            size += g.node_feat[g.node_config_ids[v], 21:25].astype(np.float64).prod()
    return found, np.log1p(size)


@pytest.mark.parametrize("seed", range(3))
def test_copies(seed):
    g, rows = graph(seed), np.array([3, 0, 39, 3])
    found, _ = columns(g, rows, 4)
    place = {node: i for i, node in enumerate(g.node_config_ids.tolist())}
    direct = {(place[u], place[v]) for u, v in g.edge_index.tolist() if u in place and v in place and u != v}
    paths = reference.prune_meta(g.num_nodes, g.edge_index, g.node_config_ids)[1].tolist()
    assert paths and len(paths) > len(direct)
    for pairs, number, size in (
        (direct, "copies of neighbours", "size of them"),
        (paths, "copies along paths", "size of them along paths"),
    ):
        expected = [copies(g, g.config_digits[row], pairs) for row in rows]
        np.testing.assert_array_equal(found[number], [e[0] for e in expected])
        np.testing.assert_allclose(found[size], [e[1] for e in expected], rtol=1e-6)
    assert found["copies along paths"].any()


def test_minor_dimensions_and_padding():
    g, rows = graph(5), np.arange(40)
    found, _ = columns(g, rows, 1)
    for row in rows:
        bins, added, every = Counter(), 0.0, 0.0
        for node, config in zip(g.node_config_ids, g.config_digits[row], strict=True):
            order = config[:2] if (config[:6] >= 0).any() else g.node_feat[node, 134:136].astype(int)
            shape = g.node_feat[node, 21:25].astype(np.float64)
            minor, second = shape[order[0]], shape[order[1]]
            bins["minor", min(int(np.log2(minor)) + 1, SIZES - 1)] += 1
            bins["second minor", min(int(np.log2(second)) + 1, SIZES - 1)] += 1
            padded = shape.prod() / minor / second * (-(-minor // 128) * 128) * (-(-second // 8) * 8)
            added, every = added + padded - shape.prod(), every + padded
        for which in ("minor", "second minor"):
            assert [found[f"{which} dimension {b}"][row] for b in range(SIZES)] == [
                bins[which, b] for b in range(SIZES)
            ]
        np.testing.assert_allclose(found["padding"][row], np.log1p(added), rtol=1e-6)
        np.testing.assert_allclose(found["padded share"][row], added / every, rtol=1e-5)


def test_types_are_counted():
    """Nodes of a type share a bin; of many bins hardly any two types do. Convolutions differ by their dimensions."""
    g, rows, bins = graph(7, config_nodes=20), np.arange(3), 100_000
    feat = g.node_feat.copy()
    feat[:, 21:25] = [[4, 5, 6, 7]] * 12 + [[4, 5, 6, 8]] * 12
    feat[:, 93:107] = 0
    feat[::2, 95] = 1
    g = g.replace(node_feat=feat)
    found = layout_table(g, rows, bins)[:, : 3 * bins].reshape(3, 3, bins)
    for row in rows:
        for place, opcode in enumerate((26, 34, 75)):
            types = Counter()
            for node, config in zip(g.node_config_ids, g.config_digits[row], strict=True):
                if g.node_opcode[node] == opcode:
                    types[node < 12, opcode == 26 and node % 2 == 0, config.tobytes()] += 1
            counts = found[row, place]
            assert sorted(counts[counts > 0]) == sorted(types.values())
    few = layout_table(g, rows, 3)[:, :9].reshape(3, 3, 3)
    np.testing.assert_array_equal(few.sum(2), found.sum(2))
    moved = g.replace(node_config_ids=g.node_config_ids[::-1], node_config_feat=g.config_digits[:, ::-1])
    np.testing.assert_array_equal(layout_table(moved, rows, bins)[:, : 3 * bins], found.reshape(3, -1))


def test_occurrence():
    g, rows = graph(2, configs=1200), np.array([5, 1199])  # more than are worked on at a time
    table = columns(g, rows, 2, occurrence=True)[1]
    digits = g.config_digits
    for i, row in enumerate(rows):
        rates = [(digits[:, k] == digits[row, k]).all(1).mean() for k in range(9)]
        expected = [np.log(rates).mean(), np.mean(rates), np.min(rates)]
        np.testing.assert_allclose(table[i, -3:], expected, rtol=1e-6)
    assert layout_table(g, rows, 2, occurrence=True).tobytes() == table.tobytes()
    half = g.select(slice(0, 600))  # whose rates are its own
    rates = [(digits[:600, k] == digits[5, k]).all(1).mean() for k in range(9)]
    assert layout_table(half, rows[:1], 2, occurrence=True)[0, -2] == np.float32(np.mean(rates))
    plain = columns(g, rows, 2)[1]
    np.testing.assert_array_equal(table[:, :-3], plain)


def test_occurrence_in_a_pack_is_that_in_memory(tmp_path):
    g, rows = graph(2), np.arange(5)
    g.save(tmp_path / "g.tgpack")
    packed = tg.load(tmp_path / "g.tgpack")
    one, other = (layout_table(each, rows, 2, occurrence=True) for each in (g, packed))
    np.testing.assert_array_equal(one, other)
    for cells in (np.zeros((2, 3)), np.zeros((2, 3, 4)), [[[1]]]):
        refuses(lambda: _core.layout_rates(cells), ValueError, "whole numbers")


def test_rows_do_not_depend_on_each_other():
    g = graph(1, configs=1100)
    whole = layout_table(g, np.arange(1100))
    for rows in (np.array([1099, 4]), np.zeros(0, np.int64)):
        np.testing.assert_array_equal(layout_table(g, rows), whole[rows])


def test_what_is_refused():
    refuses(lambda: layout_table(small_tile(), np.arange(2)), tg.ConfigError, "layout graph")
    refuses(lambda: layout_table(graph(), np.arange(2), 0), tg.ConfigError, "bins", "0")
    refuses(lambda: layout_table_names(0), tg.ConfigError, "bins", "0")
