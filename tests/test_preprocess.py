from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from reference import preprocess as reference
from refusals import refuses

import tpugraphs as tg
from tpugraphs import ConfigError, DataError, ShapeError, _core, kernels
from tpugraphs.preprocess import ConfigSampler, StandardScaler

DIGITS = hnp.arrays(
    np.int8, st.tuples(st.integers(0, 8), st.integers(0, 3), st.just(18)), elements=st.integers(-1, 5)
)


# ---- equal configs ----


@settings(max_examples=100, deadline=None)
@given(DIGITS, st.lists(st.integers(0, 7), max_size=20))
def test_dedup_is_the_reference(digits, copies):
    if len(digits):
        digits = np.concatenate([digits, digits[np.array(copies, int) % len(digits)]])
    first, inverse = kernels.dedup_configs(digits)
    expected = reference.dedup(digits)
    np.testing.assert_array_equal(first, expected[0])
    np.testing.assert_array_equal(inverse, expected[1])


@pytest.mark.parametrize("width", [1, 2, 7])
def test_dedup_sees_every_single_digit(width):
    base = np.zeros((1, width, 18), np.int8)
    digits = np.repeat(base, width * 18 + 1, axis=0)
    for i in range(width * 18):
        digits[i + 1].reshape(-1)[i] = 1
    first, inverse = kernels.dedup_configs(digits)
    np.testing.assert_array_equal(first, np.arange(len(digits)))
    np.testing.assert_array_equal(inverse, np.arange(len(digits)))


def test_dedup_is_the_same_for_any_number_of_threads():
    rng = np.random.default_rng(0)
    digits = rng.integers(-1, 6, (500, 4, 18), np.int8)[rng.integers(0, 500, 20_000)]
    results = []
    for n in (1, 2, 3):
        tg.set_num_threads(n)
        results.append(kernels.dedup_configs(digits))
    unique, index = np.unique(digits, axis=0, return_index=True)
    np.testing.assert_array_equal(results[0][0], np.sort(index))
    assert len(unique) == len(results[0][0])
    for other in results[1:]:
        for a, b in zip(results[0], other, strict=True):
            np.testing.assert_array_equal(a, b)


def test_dedup_rows_of_floats():
    rows = np.array([[0.0, 1], [-0.0, 1], [2, 3], [0, 1], [1e-45, 1]], np.float32)
    before = rows.tobytes()
    first, inverse = kernels.dedup_rows(rows)
    assert first.tolist() == [0, 2, 4]
    assert inverse.tolist() == [0, 0, 1, 0, 2]
    assert rows.tobytes() == before
    rows[3, 1] = np.nan
    refuses(lambda: kernels.dedup_rows(rows), DataError, "row 3, column 1")
    with pytest.raises(ShapeError):
        kernels.dedup_rows(rows.astype(np.float64))


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 4), st.integers(-3, 2**53 + 3)), min_size=1, max_size=30))
def test_mean_and_min_are_exact(items):
    values, runtimes = (np.array(x, np.int64) for x in zip(*items, strict=True))
    first, inverse = kernels.dedup_rows(values[:, None].astype(np.float32))
    groups = [runtimes[inverse == u].tolist() for u in range(len(first))]
    rows, mean, norm = kernels.merge_configs(first, inverse, runtimes, keep="mean")
    assert norm is None
    np.testing.assert_array_equal(rows, first)
    assert mean.tolist() == [reference.round_half_even(sum(g), len(g)) for g in groups]
    rows, least, _ = kernels.merge_configs(first, inverse, runtimes, keep="min")
    assert least.tolist() == [min(g) for g in groups]
    np.testing.assert_array_equal(runtimes[rows], least)
    np.testing.assert_array_equal(inverse[rows], np.arange(len(first)))
    rows, same, _ = kernels.merge_configs(first, inverse, runtimes)
    np.testing.assert_array_equal(rows, first)
    np.testing.assert_array_equal(same, runtimes[first])


def test_mean_does_not_overflow():
    top = 2**63 - 1
    first, inverse = np.array([0]), np.zeros(5, np.int64)
    for runtimes in ([top] * 5, [top, top - 1, top, top - 1, top]):
        _, mean, _ = kernels.merge_configs(first, inverse, np.array(runtimes), keep="mean")
        assert mean[0] == reference.round_half_even(sum(runtimes), 5)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 2**53), st.integers(1, 2**53)), min_size=1, max_size=10))
def test_min_of_tile_compares_exact_quotients(items):
    runtimes, norms = (np.array(x, np.int64) for x in zip(*items, strict=True))
    zeros = np.zeros(len(items), np.int64)
    rows, runtime, norm = kernels.merge_configs(zeros[:1], zeros, runtimes, norms, "min")
    quotients = [Fraction(*pair) for pair in items]
    assert rows[0] == quotients.index(min(quotients))
    assert (runtime[0], norm[0]) == items[rows[0]]


def test_merge_refuses_what_does_not_belong_together():
    one, two = np.array([0]), np.array([0, 0])
    bad = [
        (np.array([2]), two, two, None),
        (np.array([-1]), two, two, None),
        (np.array([0, 1]), two, two, None),
        (one, np.array([0, 1]), two, None),
        (one, np.array([0, -1]), two, None),
        (np.array([], np.int64), two, two, None),
    ]
    for keep in ("first", "min", "mean"):
        for arguments in bad:
            with pytest.raises(DataError):
                kernels.merge_configs(*arguments, keep)
    placeholders = np.array([0, 0])  # as in test files: no quotient to compare, but a first copy
    refuses(lambda: kernels.merge_configs(one, two, two, placeholders, "min"), DataError, "normalizers")
    assert kernels.merge_configs(one, two, two, placeholders, "first")[2].tolist() == [0]
    refuses(lambda: kernels.merge_configs(one, two, two, None, "median"), ConfigError, "median")
    refuses(lambda: kernels.merge_configs(one, two, one, None), ShapeError, "runtime")


# ---- digits ----


@settings(max_examples=100, deadline=None)
@given(DIGITS)
def test_base7_round_trip(digits):
    codes = kernels.encode_base7(digits)
    assert codes.dtype == np.int32
    np.testing.assert_array_equal(codes, reference.encode_base7(digits))
    np.testing.assert_array_equal(kernels.decode_base7(codes), digits)


def test_base7_ends_of_the_range():
    codes = np.array([[[0, 117_648, 1]]], np.int32)
    digits = kernels.decode_base7(codes)
    assert digits.tolist() == [[[-1] * 6 + [5] * 6 + [0] + [-1] * 5]]


def test_base7_into_arrays_that_are_there():
    digits = np.random.default_rng(1).integers(-1, 6, (40, 3, 18)).astype(np.int8)
    codes, again = np.full((40, 3, 3), -5, np.int32), np.full_like(digits, 9)
    assert kernels.encode_base7(digits, out=codes) is codes
    np.testing.assert_array_equal(codes, kernels.encode_base7(digits))
    assert kernels.decode_base7(codes, out=again) is again
    np.testing.assert_array_equal(again, digits)
    shared = np.zeros(40 * 3 * 18, np.int8)
    overlapping = shared[: 40 * 3 * 12].view(np.int32).reshape(40, 3, 3)
    for out in (again[:39], again.astype(np.int16), shared.reshape(40, 3, 18)[:, ::-1]):
        refuses(lambda: kernels.decode_base7(codes, out=out), ShapeError, "out")
    refuses(lambda: kernels.decode_base7(overlapping, out=shared.reshape(40, 3, 18)), ValueError, "out")


@pytest.fixture(params=_core.isa_levels())
def level(request):
    _core.set_isa(request.param)


def test_base7_of_every_code(level):
    every = np.random.default_rng(7).permutation(7**6).astype(np.int32)
    for count in (3, 9, 12, 30, 33, 7**6 // 3 * 3):  # less than a block, blocks with any rest
        codes = every[:count].reshape(-1, 1, 3)
        digits = kernels.decode_base7(codes)
        np.testing.assert_array_equal(reference.encode_base7(digits), codes)
        np.testing.assert_array_equal(kernels.encode_base7(digits), codes)


def test_base7_notices_every_bad_place(level):
    for at in range(54):
        digits = np.zeros((3, 1, 18), np.int8)
        digits.ravel()[at] = 6 if at % 2 else -2
        with pytest.raises(DataError, match=f"row {at // 18}, node 0, column {at % 18}"):
            kernels.encode_base7(digits)
    for at in range(30):
        codes = np.zeros((10, 1, 3), np.int32)
        codes.ravel()[at] = 117_649 if at % 2 else -1
        with pytest.raises(DataError, match=f"row {at // 3}, node 0, column {at % 3}"):
            kernels.decode_base7(codes)


def test_bad_digits_and_codes_are_located():
    for bad in (-2, 6, 127, -128):
        digits = np.zeros((3, 2, 18), np.int8)
        digits[2, 1, 13] = bad
        with pytest.raises(DataError, match=r"row 2, node 1, column 13") as caught:
            kernels.encode_base7(digits)
        assert str(bad) in caught.value.found
    for bad in (-1, 117_649, 2**31 - 1, -(2**31)):
        codes = np.zeros((3, 2, 3), np.int32)
        codes[1, 0, 2] = bad
        refuses(lambda: kernels.decode_base7(codes), DataError, "row 1, node 0, column 2")
    for bad in (-2, 6, 0.5, 4.999, -1.0001, np.nan, np.inf, -np.inf, 1e30):
        x = np.zeros((3, 2, 18), np.float32)
        x[2, 0, 17] = bad
        refuses(lambda: kernels.pack_digits(x), DataError, "row 2, node 0, column 17")


@settings(max_examples=30, deadline=None)
@given(DIGITS)
def test_pack_digits(digits):
    packed = kernels.pack_digits(digits.astype(np.float32))
    assert packed.dtype == np.int8
    np.testing.assert_array_equal(packed, digits)


def test_pack_digits_of_fewer_dimensions():
    x = np.arange(36, dtype=np.float32).reshape(2, 18) % 7 - 1
    np.testing.assert_array_equal(kernels.pack_digits(x), x)
    np.testing.assert_array_equal(kernels.pack_digits(x[0]), x[0])
    for bad in (x[:, :17].copy(), x.astype(np.float64), x[:, ::-1], np.float32(1), None):
        with pytest.raises(ShapeError):
            kernels.pack_digits(bad)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.permutations(range(6)).flatmap(lambda p: st.tuples(st.just(p), st.integers(0, 6))), max_size=9
    )
)
def test_layout_digits_is_the_reference(nodes):
    feat = np.zeros((len(nodes), 140), np.float32)
    for row, (order, rank) in zip(feat, nodes, strict=True):
        row[21 : 21 + rank] = 8
        row[134 : 134 + rank] = [d for d in order if d < rank]
    digits = kernels.layout_digits(feat)
    assert digits.dtype == np.int8
    np.testing.assert_array_equal(digits, reference.layout_digits(feat))
    again = feat.copy()
    again[:, 134:140] = digits
    np.testing.assert_array_equal(kernels.layout_digits(again), digits)  # fixing twice changes nothing


def test_bad_layouts_are_located():
    for bad in (-2, 6, 0.5, np.nan, np.inf):
        feat = np.zeros((4, 140), np.float32)
        feat[3, 137] = bad
        refuses(lambda: kernels.layout_digits(feat), DataError, "node 3, column 137")
    with pytest.raises(ShapeError):
        kernels.layout_digits(np.zeros((4, 139), np.float32))


# ---- scaling ----


@settings(max_examples=60, deadline=None)
@given(
    hnp.arrays(
        np.float32,
        st.tuples(st.integers(1, 20), st.integers(1, 4)),
        elements=st.floats(-1e6, 1e6, width=32, allow_subnormal=False),
    ),
    st.integers(0, 20),
)
def test_scaler_is_the_reference(x, cut):
    mean, scale = reference.scaler(x)
    scaler = StandardScaler().fit([x[:cut], x[cut:]])
    size = np.abs(x).max(0).astype(np.float64) + 1e-300
    assert scaler.count_ == len(x)
    assert (np.abs(scaler.mean_ - mean) <= 1e-13 * size).all()
    varies = np.ptp(x, axis=0) > 1e-5 * size
    np.testing.assert_allclose(scaler.scale_[varies], scale[varies], rtol=1e-9)
    constant = np.ptp(x, axis=0) == 0
    np.testing.assert_array_equal(scaler.scale_[constant], 1)
    y = scaler.transform(x)
    assert y.dtype == np.float32
    np.testing.assert_array_equal(y[:, constant], 0)
    np.testing.assert_allclose(
        y, (x.astype(np.float64) - scaler.mean_) / scaler.scale_, rtol=1e-6, atol=1e-12
    )


def test_scaler_over_many_rows_with_a_large_offset():
    rng = np.random.default_rng(0)
    x = (rng.standard_normal((10_001, 5)) * [1, 1e-3, 1e4, 0, 1] + [1e6, 0, 1e9, 0.1, 3]).astype(np.float32)
    mean, scale = reference.scaler(x)
    assert scale[3] == 1
    scaler = StandardScaler().fit(x)
    np.testing.assert_allclose(scaler.mean_, mean, rtol=1e-14, atol=1e-15)
    np.testing.assert_allclose(scaler.scale_, scale, rtol=1e-12)
    parts = StandardScaler()
    for part in np.array_split(x, 17):
        parts.partial_fit(np.ascontiguousarray(part))
    np.testing.assert_allclose(parts.scale_, scale, rtol=1e-10)
    y = scaler.fit_transform(x).astype(np.float64)
    np.testing.assert_allclose(y[:, [0, 1, 2, 4]].std(0), 1, atol=1e-6)


def test_scaler_state_goes_on_exactly():
    x = np.random.default_rng(1).standard_normal((300, 3)).astype(np.float32)
    whole = StandardScaler().fit([x[:100], x[100:]])
    half = StandardScaler().fit(x[:100])
    other = StandardScaler().set_state(half.get_state()).partial_fit(x[100:])
    for a, b in zip(whole.get_state().values(), other.get_state().values(), strict=True):
        assert a.tobytes() == b.tobytes()
    assert half.count_ == 100  # the state is a copy


def test_scaler_refuses():
    x = np.ones((5, 3), np.float32)
    for bad in (np.nan, np.inf, -np.inf):
        wrong = x.copy()
        wrong[4, 2] = bad
        scaler = StandardScaler().fit(x)
        before = {k: v.tobytes() for k, v in scaler.get_state().items()}
        for act in (scaler.partial_fit, scaler.transform):
            refuses(lambda: act(wrong), DataError, "row 4, column 2")
        assert {k: v.tobytes() for k, v in scaler.get_state().items()} == before
    refuses(lambda: StandardScaler().transform(x), ConfigError, "fitted")
    refuses(lambda: StandardScaler().fit(x[:0]), DataError, "no rows")
    for wrong in (x.astype(np.float64), x[0], x[:, :2].copy(), x[:, ::-1]):
        with pytest.raises(ShapeError):
            StandardScaler().fit(x).transform(wrong)
    for state in (
        {},
        {"count": [0], "mean": [0.0], "m2": [0.0]},
        {"count": [1], "mean": [0.0], "m2": [-1.0]},
    ):
        with pytest.raises(DataError):
            StandardScaler().set_state(state)


# ---- sampling ----


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 40), st.integers(0, 40), st.integers(-5, 2**64), st.sampled_from(["random", "sorted"]))
def test_samples_are_distinct_and_in_range(n, k, key, order):
    if k > n:
        with pytest.raises(ConfigError):
            kernels.sample_without_replacement(n, k, key, order=order)
        return
    rows = kernels.sample_without_replacement(n, k, key, order=order)
    assert rows.dtype == np.int64
    assert len(set(rows.tolist())) == k
    assert all(0 <= row < n for row in rows)
    np.testing.assert_array_equal(rows, kernels.sample_without_replacement(n, k, key, order=order))
    np.testing.assert_array_equal(
        np.sort(rows), kernels.sample_without_replacement(n, k, key, order="sorted")
    )


def test_every_pair_in_every_order_is_equally_likely():
    counts = np.zeros((5, 5))
    draws = 20_000
    for i in range(draws):
        a, b = kernels.sample_without_replacement(5, 2, (7, i))
        counts[a, b] += 1
    assert (np.diag(counts) == 0).all()
    expected = draws / 20
    chi2 = ((counts[~np.eye(5, dtype=bool)] - expected) ** 2 / expected).sum()
    assert chi2 < 55  # 19 degrees of freedom: passed by chance in all but 3e-5 of cases


def test_sampling_from_a_huge_range():
    rows = kernels.sample_without_replacement(2**60, 1000, (1, 2))
    assert len(np.unique(rows)) == 1000
    assert rows.max() > 2**59
    assert not np.array_equal(rows, kernels.sample_without_replacement(2**60, 1000, (2, 1)))


@settings(max_examples=80, deadline=None)
@given(st.integers(2, 60), st.integers(1, 30), st.integers(0, 2**64 - 1))
def test_sampler_visits_every_row_once_per_epoch(n, k, seed):
    if n < 2 * k:
        k = n // 2
    sampler = ConfigSampler(n, k, seed)
    steps = [next(sampler) for _ in range(5 * n // k + 2)]
    for rows in steps:
        assert len(set(rows.tolist())) == k
    walk = np.concatenate(steps)
    for epoch in range(5):
        np.testing.assert_array_equal(np.sort(walk[epoch * n : (epoch + 1) * n]), np.arange(n))


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 10), st.integers(1, 12), st.integers(0, 9))
def test_sampler_resumes_exactly(n, k, steps):
    whole, first, second = (ConfigSampler(n, k, (3, 4)) for _ in range(3))
    expected = [next(whole) for _ in range(steps + 5)]
    for _ in range(steps):
        next(first)
    second.restore(first.state())
    for rows in expected[steps:]:
        got = next(second)
        np.testing.assert_array_equal(got, rows)
        assert len(set(got.tolist())) == min(n, k)


def test_sampler_refuses():
    for n, k in ((-1, 1), (5, 0)):
        refuses(lambda: ConfigSampler(n, k), ConfigError)
    sampler = ConfigSampler(10, 3, 1)
    for changed in ({"n": 11}, {"k": 2}, {"seed": [2]}, {"step": -1}, {"step": "1"}):
        refuses(lambda: sampler.restore({**sampler.state(), **changed}), ConfigError)
    refuses(lambda: kernels.sample_epoch(10, 3, 1, -1), ConfigError, "step")
    assert kernels.sample_epoch(10, 0, 1, 0).size == kernels.sample_epoch(0, 0, 1, 0).size == 0


def test_permutations_of_epochs_look_random():
    """Each row is at each place of the first epoch about equally often, over many seeds."""
    counts = np.zeros((6, 6))
    seeds = 6000
    for seed in range(seeds):
        order = np.concatenate([kernels.sample_epoch(6, 1, seed, step) for step in range(6)])
        counts[order, np.arange(6)] += 1
    chi2 = ((counts - seeds / 6) ** 2 / (seeds / 6)).sum()
    assert chi2 < 65  # 25 degrees of freedom
