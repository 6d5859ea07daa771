"""The filter of blocks that are too like their neighbours."""

from itertools import pairwise

import numpy as np
import pytest
from rankers import small_any, small_graph, small_tile
from refusals import refuses

import tpugraphs as tg
from tpugraphs.preprocess import block_divergence


def divergence(runtimes, size, window):
    """By its definition, one block after the other."""
    r = (runtimes - runtimes.min() + 0.0005) / (runtimes.max() - runtimes.min() + 0.001)
    blocks = [r[i : i + size] / r[i : i + size].sum() for i in range(0, len(r) - size + 1, size)]
    each = [sum(p * np.log(p / q) for p, q in zip(b, a, strict=True)) for a, b in pairwise(blocks)]
    near = [[each[j] for j in range(i - (window - 1) // 2, i + window // 2 + 1) if 0 <= j < len(each)]
            for i in range(len(each))]  # fmt: skip
    return [sum(n) / len(n) for n in near]


@pytest.mark.parametrize("window", [1, 2, 5, 50])
@pytest.mark.parametrize("count", [20, 25, 30, 199])
def test_divergence_is_the_definition(count, window):
    runtimes = np.random.default_rng(count).integers(1, 10**9, count).astype(float)
    np.testing.assert_allclose(
        block_divergence(runtimes, 10, window), divergence(runtimes, 10, window), rtol=1e-9
    )


def test_divergence_of_what_repeats_is_0():
    block = np.random.default_rng(0).integers(10, 99, 10).astype(float)
    found = block_divergence(np.concatenate([block, block, block[::-1]]), 10, 1)
    assert found[0] == 0 and found[1] > 0.1
    assert block_divergence(np.full(40, 7.0), 10, 1).tolist() == [0, 0, 0]
    assert block_divergence(np.arange(19.0), 10).size == 0


def settled(make, **fields):
    """A graph of 205 configs, whose rows 60 to 119 hardly vary."""
    runtimes = np.random.default_rng(1).integers(10**6, 10**9, 205)
    runtimes[60:120] = 10**8 + np.arange(60)
    return make(configs=205, **{**fields, "config_runtime": runtimes})


def test_blocks_that_are_alike_go():
    graph = settled(small_graph)
    rows = np.r_[:60, 120:200]  # the blocks around differ from them; the last five are no block
    kept = tg.filter_blocks(graph, 0.1, size=20, window=1)
    np.testing.assert_array_equal(kept.config_runtime, graph.config_runtime[rows])
    np.testing.assert_array_equal(kept.config_digits, graph.config_digits[rows])
    assert tg.filter_blocks(graph, 0.1, size=20, window=1, least=0.69) is None
    assert tg.filter_blocks(graph, 99, size=20) is None
    assert tg.filter_blocks(graph, -1, size=20, window=1).num_configs == 200
    assert tg.filter_blocks(graph, size=103) is graph
    smooth = tg.filter_blocks(graph, 0.1, size=20, window=7).num_configs
    assert smooth == 200  # the averages are all above it


def test_runtimes_are_normalised_and_those_that_failed_go():
    tile = settled(small_tile, config_runtime_normalizers=np.full(205, 9))
    assert tg.filter_blocks(tile, 0.1, size=20, window=1).num_configs == 140
    factors = np.random.default_rng(2).integers(1, 9, 205)
    same = tile.replace(config_runtime=tile.config_runtime * factors, config_runtime_normalizers=9 * factors)
    np.testing.assert_array_equal(
        tg.filter_blocks(same, 0.1, size=20, window=1).config_feat,
        tg.filter_blocks(tile, 0.1, size=20, window=1).config_feat,
    )
    graph = small_any(configs=60)
    failed = np.arange(60) % 3 == 1
    runtime = np.where(failed, np.nan, graph.config_runtime)
    left = tg.filter_blocks(graph.replace(runtime=runtime, valid=~failed), 0, size=10)
    np.testing.assert_array_equal(left.config_feat, graph.config_feat[~failed])


def test_what_is_refused():
    graph = small_graph()
    for wrong in ({"size": 1}, {"window": 0}, {"least": 1.5}, {"least": -0.1}):
        refuses(lambda: tg.filter_blocks(graph, **wrong), tg.ConfigError, *wrong)
    refuses(lambda: tg.filter_blocks(3), tg.ConfigError, "got int")
    unmeasured = graph.replace(config_runtime=np.zeros_like(graph.config_runtime))
    refuses(lambda: tg.filter_blocks(unmeasured), tg.DataError, "from 0 to 0")
