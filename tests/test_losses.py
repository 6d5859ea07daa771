"""Pairwise hinge and ListMLE by themselves; what holds for every loss is in test_loss_table.py."""

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import losses as ref
from refusals import refuses

import tpugraphs as tg
from tpugraphs import _core

MARGIN = float(np.float32(0.1))
REDUCTIONS = ["mean-all", "sum", "mean-pairs"]


def lists(seed, length, ties=False):
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=length).astype(np.float32)
    runtimes = rng.integers(0, 5 if ties else 10 * length + 1, length) + 10**9
    return scores, runtimes


def close(got, expected):
    value, grad = got
    assert value == pytest.approx(expected[0], rel=1e-9, abs=1e-12)
    assert grad.dtype == np.float32
    norm = np.linalg.norm(expected[1])
    assert np.linalg.norm(grad - expected[1]) <= 1e-6 * norm + 1e-12


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("margin", [1.0, MARGIN, 0.0])
@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("length", [0, 1, 2, 3, 17, 64, 128, 255, 256, 257, 300, 1000])
def test_hinge_equals_reference(length, ties, margin, reduction):
    scores, runtimes = lists(length, length, ties)
    got = tg.kernels.pairwise_hinge(scores, runtimes, margin, reduction)
    close(got, ref.pairwise_hinge(scores, runtimes, margin, reduction))


@pytest.mark.parametrize("reduction", ["sum", "mean-all"])
@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("length", [0, 1, 2, 3, 17, 64, 128, 400])
def test_list_mle_equals_reference(length, ties, reduction):
    scores, runtimes = lists(length, length, ties)
    got = tg.kernels.list_mle(scores, runtimes, reduction, seed=7)
    close(got, ref.list_mle(scores, runtimes, reduction, seed=7))


@pytest.mark.parametrize("level", _core.isa_levels())
@pytest.mark.parametrize("length", [2, 7, 8, 31, 32, 33, 40, 63, 65, 97, 1000, 1531])
def test_list_mle_equals_reference_on_every_isa(level, length):
    """Lengths around the strands and vectors of the kernel; 1531 has more factors than one double holds."""
    scores, runtimes = lists(length, length)
    _core.set_isa(level)
    got = tg.kernels.list_mle(scores * np.float32(30), runtimes, "mean-all")
    close(got, ref.list_mle(scores * np.float32(30), runtimes, "mean-all"))


@pytest.mark.parametrize("spread", [599.0, 600.0, 601.0, 800.0])
@pytest.mark.parametrize("length", [5, 64, 300])
def test_list_mle_at_the_limit_between_its_two_ways(spread, length):
    scores, runtimes = lists(length, length)
    scores = ((scores - scores.min()) / np.ptp(scores) * np.float32(spread)).astype(np.float32)
    close(tg.kernels.list_mle(scores, runtimes), ref.list_mle(scores, runtimes))


@pytest.mark.parametrize("bits", [1, 8, 10, 11, 12, 23, 31, 32, 33, 44, 62])
@pytest.mark.parametrize("length", [50, 1000, 5000])
def test_orders_of_runtimes_of_any_width(length, bits):
    """Digits and passes of the sort depend on both; ranks have the same order and are at most 13 bits wide."""
    rng = np.random.default_rng(bits)
    runtimes = rng.integers(0, 1 << bits, length)
    scores = rng.normal(size=length).astype(np.float32)
    ranks = np.unique(runtimes, return_inverse=True)[1]
    assert np.array_equal(np.argsort(ranks, kind="stable"), np.argsort(runtimes, kind="stable"))
    value, grad = tg.kernels.list_mle(scores, runtimes, seed=3)
    again = tg.kernels.list_mle(scores, ranks, seed=3)
    assert value == again[0]
    np.testing.assert_array_equal(grad, again[1])


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(-6, 6), st.integers(-3, 3)), min_size=2, max_size=40),
    st.sampled_from([0.0, 0.5, 1.0]),
)
def test_short_and_long_hinge_count_the_same_pairs(entries, margin):
    """A list padded to more than 256 entries takes the other algorithm; the padding is far off."""
    scores = np.array([e[0] / 2 for e in entries], dtype=np.float32)
    runtimes = np.array([e[1] for e in entries], dtype=np.int64)
    pad = 300
    long_scores = np.concatenate([scores, np.full(pad, -1e3, np.float32)])
    long_runtimes = np.concatenate([runtimes, np.full(pad, -10, np.int64)])
    short = tg.kernels.pairwise_hinge(scores, runtimes, margin, "sum")
    long = tg.kernels.pairwise_hinge(long_scores, long_runtimes, margin, "sum")
    assert long[0] == pytest.approx(short[0], abs=1e-9)
    np.testing.assert_array_equal(long[1][: len(entries)], short[1])
    assert not long[1][len(entries) :].any()
    close(short, ref.pairwise_hinge(scores, runtimes, margin, "sum"))


def test_hinge_compares_runtimes_beyond_float64():
    runtimes = np.array([2**60, 2**60 + 1], dtype=np.int64)
    value, grad = tg.kernels.pairwise_hinge(np.zeros(2, np.float32), runtimes, 1.0, "sum")
    assert value == 1.0
    np.testing.assert_array_equal(grad, [1.0, -1.0])


@pytest.mark.parametrize("length", [10, 300])
def test_pair_on_the_margin_has_no_gradient(length):
    scores = np.zeros(length, np.float32)
    scores[0] = 1.0
    runtimes = np.zeros(length, np.int64)
    runtimes[0] = 5
    value, grad = tg.kernels.pairwise_hinge(scores, runtimes, 1.0, "sum")
    assert value == 0.0 and not grad.any()
    scores[0] = np.nextafter(np.float32(1), np.float32(0))
    value, grad = tg.kernels.pairwise_hinge(scores, runtimes, 1.0, "sum")
    assert 0 < value < 1e-4 and grad[0] == 1 - length


def weighted_hinge(scores, runtimes, weights):
    return tg.kernels.weighted_sum(scores, [{"loss": "pairwise_hinge"}], runtimes, weights=weights)


@pytest.mark.parametrize("length", [10, 300])
def test_pairs_apart_have_no_gradient_with_weights(length):
    weights = np.random.default_rng(0).random(length).astype(np.float32)
    value, grad = weighted_hinge(np.arange(0, 2 * length, 2, dtype=np.float32), np.arange(length), weights)
    assert value == 0.0 and not grad.any()


def test_sample_weights_do_not_make_long_lists_slow():
    """The direct way, over all pairs, takes fifty times as long as the sorted one."""
    scores, runtimes = lists(0, 8000)
    seconds = {}
    for weights in (None, np.random.default_rng(1).random(8000).astype(np.float32)):
        times = []
        for _ in range(5):
            began = time.perf_counter()
            weighted_hinge(scores, runtimes, weights)
            times.append(time.perf_counter() - began)
        seconds[weights is None] = min(times)
    assert seconds[False] < 10 * seconds[True]


@pytest.mark.parametrize("length", [2, 300])
def test_margin_is_not_rounded_into_the_scores(length):
    """2**24 - 0.25 is no float32 and rounds up to 2**24, which would lose every pair."""
    scores = np.full(length, 2.0**24, np.float32)
    value, _ = tg.kernels.pairwise_hinge(scores, np.arange(length), 0.25, "mean-pairs")
    assert value == pytest.approx(0.25, rel=1e-12)


@pytest.mark.parametrize("length", [5, 500])
def test_all_tied_is_zero(length):
    scores = np.random.default_rng(0).normal(size=length).astype(np.float32)
    for reduction in REDUCTIONS:
        value, grad = tg.kernels.pairwise_hinge(scores, np.full(length, 4), 1.0, reduction)
        assert value == 0.0 and not grad.any()


def test_common_offset_does_not_change_the_value():
    scores, runtimes = lists(0, 500)
    scores = np.round(scores * 64) / 64
    a = tg.kernels.pairwise_hinge(scores.astype(np.float32), runtimes)
    b = tg.kernels.pairwise_hinge((scores + 65536).astype(np.float32), runtimes)
    assert a[0] == pytest.approx(b[0], rel=1e-12)
    np.testing.assert_array_equal(a[1], b[1])


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int32])
def test_runtimes_of_other_types_give_the_same_order(dtype):
    scores, runtimes = lists(5, 90, ties=True)
    runtimes = runtimes - 10**9 - 2
    other = runtimes.astype(dtype)
    if dtype != np.int32:
        other[other == 0] = -0.0
        other[5], runtimes[5] = 0.0, 0
    for loss in (tg.kernels.pairwise_hinge, tg.kernels.list_mle):
        a, b = loss(scores, runtimes), loss(scores, other)
        assert a[0] == b[0]
        np.testing.assert_array_equal(a[1], b[1])


def test_list_mle_survives_extreme_scores():
    scores = np.array([3e38, -3e38, 0, 1e4, -1e4, 80, 1e-30], dtype=np.float32)
    runtimes = np.array([1, 2, 3, 4, 5, 6, 7])
    value, grad = tg.kernels.list_mle(scores, runtimes)
    assert np.isfinite(value) and np.isfinite(grad).all()
    close((value, grad), ref.list_mle(scores, runtimes))


def test_list_mle_ties_depend_on_the_seed_only():
    scores, _ = lists(1, 30)
    same = np.zeros(30, np.int64)
    values = {tg.kernels.list_mle(scores, same, seed=seed)[0] for seed in range(8)}
    assert len(values) > 4
    assert tg.kernels.list_mle(scores, same, seed=3)[0] == tg.kernels.list_mle(scores, same, seed=3)[0]


@pytest.mark.parametrize("name", ["pairwise_hinge", "list_mle"])
def test_same_bits_for_any_thread_count(name):
    scores, runtimes = lists(2, 20_000, ties=True)
    offsets = np.array([0, 5000, *range(5100, 15_001, 100), 15_050, 20_000])
    results = []
    for threads in (1, 2, 3):
        tg.set_num_threads(threads)
        results.append(getattr(tg.kernels, name)(scores, runtimes, offsets=offsets))
    for value, grad in results[1:]:
        assert value == results[0][0]
        assert grad.tobytes() == results[0][1].tobytes()


def test_long_list_is_not_quadratic():
    scores, runtimes = lists(4, 100_000)
    value, grad = tg.kernels.pairwise_hinge(scores, runtimes)
    assert 0 < value < 2
    assert abs(grad.sum(dtype=np.float64)) < 1e-6


def test_bad_input_is_named():
    scores, runtimes = lists(0, 8)
    nan, inf = np.where(np.arange(8) == 3, np.float32(np.nan), scores), np.full(8, np.inf, np.float32)
    hinge, list_mle = tg.kernels.pairwise_hinge, tg.kernels.list_mle
    for loss in (hinge, list_mle):
        refuses(lambda: loss(nan, runtimes), tg.DataError, "scores", "index 3")
        refuses(lambda: loss(inf, runtimes), tg.DataError, "inf")
        times = np.where(np.arange(8) == 2, np.nan, 1.0)
        refuses(lambda: loss(scores, times), tg.DataError, "runtimes", "NaN", "index 2")
        refuses(lambda: loss(scores.astype(np.float64), runtimes), tg.ShapeError, "scores")
        refuses(lambda: loss(scores, runtimes[:-1]), tg.ShapeError, "8 scores", "7 runtimes")
        refuses(lambda: loss(scores[:1].copy(), runtimes[:2].copy()), tg.ShapeError, "1 score", "2 runtimes")
        refuses(lambda: loss(scores, runtimes.astype(np.uint8)), tg.ShapeError, "runtimes")
        refuses(lambda: loss(scores, runtimes, reduction="mean"), tg.ConfigError, "reduction")
        for offsets in ([0, 7], [1, 8], [0, 9, 8], [0, 5, 3, 8], []):
            given = np.array(offsets, dtype=np.int64)
            refuses(lambda: loss(scores, runtimes, offsets=given), tg.ShapeError, "offsets")
    refuses(lambda: list_mle(scores, runtimes, reduction="mean-pairs"), tg.ConfigError, "mean-pairs")
    for margin in (-1.0, np.nan, np.inf, 1e300):
        refuses(lambda: hinge(scores, runtimes, margin), tg.ConfigError, "margin")
