"""Ranking metrics against their definitions and against SciPy."""

import warnings

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import metrics as ref
from refusals import refuses

import tpugraphs as tg
from tpugraphs import _core, metrics

PAIRED = ["kendall_tau", "opa", "spearman"]
TOP = ["top_k_slowdown", "ndcg"]
entries = st.lists(st.tuples(st.integers(-5, 5), st.integers(1, 8)), max_size=70)


def scipy_value(function, s, y):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return float(np.nan_to_num(function(s, y).statistic))


@settings(max_examples=60, deadline=None)
@given(entries)
def test_equal_to_definitions_with_ties(rows):
    s = np.array([r[0] / 4 for r in rows], dtype=np.float32)
    y = np.array([r[1] for r in rows], dtype=np.int64)
    for name in PAIRED:
        assert getattr(metrics, name)(s, y) == pytest.approx(getattr(ref, name)(s, y), abs=1e-12), name
    for k in (1, 3, 200) if rows else ():
        for name in TOP:
            assert getattr(metrics, name)(s, y, k) == pytest.approx(getattr(ref, name)(s, y, k), abs=1e-12), (
                name
            )


@pytest.mark.parametrize("levels", [3, 100, 2**33, 10**12])
@pytest.mark.parametrize("n", [2, 7, 8, 9, 16, 47, 48, 49, 100, 1001, 5000, 20_000])
def test_equal_to_scipy(n, levels):
    rng = np.random.default_rng(n + levels % 97)
    y = rng.integers(1, levels + 1, n)
    for s in (
        (y + rng.normal(size=n) * levels / 2).astype(np.float32),
        rng.normal(size=n),
        rng.integers(-levels, levels, n),
    ):
        assert metrics.kendall_tau(s, y) == pytest.approx(
            scipy_value(scipy.stats.kendalltau, s, y), abs=1e-12
        )
        assert metrics.spearman(s, y) == pytest.approx(scipy_value(scipy.stats.spearmanr, s, y), abs=1e-12)


@pytest.mark.parametrize("name", PAIRED)
def test_constants_and_short_input_give_zero(name):
    metric = getattr(metrics, name)
    assert metric([], []) == 0.0
    assert metric([1.0], [5]) == 0.0
    assert metric(np.arange(50), np.full(50, 3)) == 0.0
    if name != "opa":
        assert metric(np.full(50, 3.0), np.arange(50)) == 0.0
    assert metrics.opa(np.full(50, 3.0), np.arange(50)) == 0.0


def test_perfect_and_reversed():
    y = np.arange(1, 101)
    assert metrics.kendall_tau(y, y) == metrics.spearman(y, y) == metrics.opa(y, y) == 1.0
    assert metrics.kendall_tau(-y, y) == metrics.spearman(-y, y) == -1.0
    assert metrics.opa(-y, y) == 0.0
    assert metrics.ndcg(y, y) == 1.0 and metrics.top_k_slowdown(y, y, 1) == 0.0
    assert metrics.top_k_slowdown(-y, y, 5) == 95.0


@pytest.mark.parametrize("n", [20, 300])
def test_runtimes_beyond_float64(n):
    """Neighbours that float64 cannot tell apart are in order all the same."""
    y = 2**53 + np.arange(n)
    s = np.arange(n, dtype=np.float32)
    assert metrics.kendall_tau(s, y) == metrics.spearman(s, y) == metrics.opa(s, y) == 1.0
    wide = np.array([-(2**63), -1, 0, 1, 2**62, 2**63 - 1], dtype=np.int64)
    assert metrics.kendall_tau(np.arange(6), wide) == 1.0
    assert metrics.top_k_slowdown([2, 1], np.array([2**60, 2**60 + 2**10]), 1) == 2**10 / 2**60


def test_signed_zeros_tie_and_infinities_have_a_place():
    assert metrics.opa([0.0, -0.0], [2, 1]) == 0.0
    assert metrics.opa(np.array([-0.0, 0.0], np.float32), [1, 2]) == 0.0
    assert metrics.kendall_tau([-np.inf, 0.0, np.inf], [1, 2, 3]) == 1.0
    tiny = np.nextafter(np.float32(0), np.float32(1))
    assert metrics.opa(np.array([-tiny, 0, tiny], np.float32), [1, 2, 3]) == 1.0


@pytest.mark.parametrize(
    "dtype", ["f2", "f4", "f8", ">f8", "i1", "u1", "i2", "i4", "u4", "i8", "u8", ">i8", "?"]
)
def test_any_dtype_of_numbers(dtype):
    rng = np.random.default_rng(1)
    values = rng.integers(0, 2 if dtype == "?" else 60, 200)
    y = rng.integers(1, 50, 200)
    assert metrics.kendall_tau(values.astype(dtype), y) == metrics.kendall_tau(values, y)
    assert metrics.kendall_tau(y, values.astype(dtype)) == metrics.kendall_tau(y, values)
    assert metrics.opa(values.astype(dtype)[::2], y[::2]) == metrics.opa(values[::2], y[::2])


def test_ties_in_scores_go_by_index():
    assert metrics.top_k_slowdown([0, 0, 0], [4, 2, 1], 1) == 3.0
    assert metrics.top_k_slowdown([0, 0, 0], [4, 2, 1], 2) == 1.0
    assert metrics.top_k_slowdown([0, 0, 0], [4.0, 2.0, 1.0], 9) == 0.0
    assert metrics.ndcg([0, 0], [2, 1], 1) == 0.5


@pytest.mark.parametrize("name", PAIRED + TOP)
def test_bad_input_is_named(name):
    metric = getattr(metrics, name)
    refuses(lambda: metric([0.0, np.nan, 1.0], [1, 2, 3]), tg.DataError, "scores", "NaN", "index 1")
    refuses(lambda: metric([0.0, 2.0, 1.0], [1, 2, np.nan]), tg.DataError, "runtimes", "at index 2")
    refuses(lambda: metric([0.0, 1.0], [1, 2, 3]), tg.ShapeError, "2 scores", "3 runtimes")
    refuses(lambda: metric([1], [2, 3]), tg.ShapeError, "1 score", "2 runtimes")
    refuses(lambda: metric(np.zeros((2, 2)), [1, 2, 3]), tg.ShapeError, "scores")
    refuses(lambda: metric(1.0, [1]), tg.ShapeError, "scores")
    refuses(lambda: metric(["a", "b"], [1, 2]), tg.ShapeError, "scores")
    refuses(lambda: metric([1, 2], np.array([1, 2**64 - 1], dtype=np.uint64)), tg.ShapeError, "uint64")


@pytest.mark.parametrize("name", TOP)
def test_top_metrics_refuse_impossible_runtimes(name):
    metric = getattr(metrics, name)
    for runtimes in ([1, 0, 2], [1, -5, 2], [1.0, np.inf, 2.0]):
        refuses(lambda: metric([1, 2, 3], runtimes), tg.DataError, "runtimes", "index 1")
    refuses(lambda: metric([], []), tg.DataError, "at least one")
    refuses(lambda: metric([1, 2], [1, 2], 0), tg.ConfigError, "k:")


def test_competition_score():
    assert metrics.competition_score({"tile:xla": 0.95}) == pytest.approx(0.19)
    full = {name: [0.5, 0.7] for name in metrics.COLLECTIONS}
    assert metrics.competition_score(full) == pytest.approx(0.6)
    assert metrics.competition_score({"layout:xla:random": np.float32(1.0), "tile:xla": []}) == pytest.approx(
        0.2
    )
    refuses(lambda: metrics.competition_score({"layout:xla": 1.0}), tg.ConfigError, "layout:xla")
    assert metrics.tile_score([1, 2], [2.0, 1.0], k=1) == 0.0


def _lists(rng, n):
    """(scores, runtimes) that take every path of the sort: float and wide integer keys, ties, outliers."""
    x = rng.standard_normal(n)
    y = x + rng.standard_normal(n)
    yield x, y
    yield np.float32(np.round(x, 2)), np.round(1000 * y).astype(np.int64)
    yield np.zeros(n), rng.integers(0, 3, n)
    wide = rng.integers(0, 200, n) + rng.integers(0, 3, n) * (1 << 45)  # differ in the lowest bits
    wide[0] = 1 << 62
    yield x, wide
    yield wide, np.int64(10) ** 6 - wide // 7


@pytest.mark.parametrize("n", [31, 33, 300, 4097, 70_001])
def test_kendall_tau_on_every_path(n):
    for scores, runtimes in _lists(np.random.default_rng(n), n):
        got = []
        for count in (1, 2, 3):
            _core.set_num_threads(count)
            got.append(tg.metrics.kendall_tau(scores, runtimes))
        expected = scipy_value(scipy.stats.kendalltau, scores, runtimes)
        assert got[0] == pytest.approx(expected, abs=1e-12)
        assert got == [got[0]] * 3


def test_mean_ranks_share_the_places_of_equal_values():
    assert tg.metrics.mean_ranks([5, 1, 5, 3]).tolist() == [2.5, 0, 2.5, 1]
    assert tg.metrics.mean_ranks([]).tolist() == []
