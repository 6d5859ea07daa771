"""Matrix products of every precision against NumPy, over instruction sets and sizes."""

import os
import platform
import re
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refuses

import tpugraphs as tg
from tpugraphs import _core

LEVELS = _core.isa_levels()
PRECISIONS = ["f32", "bf16", "int8"]
SIZES = [
    (1, 1, 1),
    (1, 7, 3),
    (3, 1, 2),
    (5, 16, 1),
    (13, 33, 65),
    (24, 32, 127),
    (37, 100, 140),
    (128, 16, 128),
    (128, 128, 16),
    (9, 20, 1024),
    (26, 40, 2305),
]
ACCURACY = 1e-6  # relative L2 of float32 sums


@pytest.fixture(params=LEVELS)
def level(request):
    _core.set_isa(request.param)
    return request.param


def bf16(x):
    """Float32 rounded to bfloat16, nearest even; NaN stays NaN."""
    bits = x.view(np.uint32).astype(np.uint64)
    rounded = ((bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000).astype(np.uint32).view(np.float32)
    return np.where(np.isnan(x), x, rounded)


def quantised(x):
    """Rows of x (R, K) as integers -127..127 in float64, and their scales (R, 1) float32."""
    top = np.abs(x).max(axis=1, keepdims=True)
    ok = np.isfinite(top) & (top >= np.float32(1e-30))
    safe = np.where(ok, top, np.float32(1))
    q = np.where(ok, np.rint(np.where(ok, x, 0) * (np.float32(127) / safe)), 0)
    scale = np.where(ok, top / np.float32(127), np.where(np.isfinite(top), np.float32(0), np.float32(np.nan)))
    return q.astype(np.float64), scale


def int8_product(a, w):
    """What int8 means, operation by operation; bit for bit."""
    wq, w_scale = quantised(w)
    total = None
    for k in range(0, a.shape[1], 1024):
        aq, a_scale = quantised(a[:, k : k + 1024])
        sums = (aq @ wq[:, k : k + 1024].T).astype(np.float32)  # integers below 2^24: exact
        part = sums * (a_scale * w_scale.T)
        total = part if total is None else total + part
    return total


def reference(a, w, precision):
    """Float64 product of the operands as `precision` rounds them."""
    if precision == "int8":
        return int8_product(a, w).astype(np.float64)
    if precision == "bf16":
        a, w = bf16(a), bf16(w)
    return a.astype(np.float64) @ w.T.astype(np.float64)


def operands(m, n, k, seed=0):
    rng = np.random.default_rng([seed, m, n, k])
    return rng.standard_normal((m, k), np.float32), rng.standard_normal((n, k), np.float32)


def error(got, expected):
    return np.linalg.norm(got - expected) / max(np.linalg.norm(expected), 1e-30)


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_product_equals_numpy(level, precision, size):
    a, w = operands(*size)
    assert error(_core.product(a, w, precision), reference(a, w, precision)) <= ACCURACY
    nn = _core.product(a, np.ascontiguousarray(w.T), precision, None, None, True)
    assert np.array_equal(nn, _core.product(a, w, precision))


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_int8_equals_its_integer_model_bit_for_bit(level, size):
    a, w = operands(*size)
    a[:, ::3] *= 100  # rows whose largest value is far from the rest
    expected = int8_product(a, w)
    got = _core.product(a, w, "int8")
    if size[2] <= 1024:
        assert np.array_equal(got, expected)
    else:  # slices are added with or without fused multiply-add
        assert error(got, expected) <= ACCURACY


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_bias_add_and_wider_rows(level, precision, size):
    m, n, k = size
    a, w = operands(m, n, k)
    rng = np.random.default_rng(1)
    wide = np.concatenate([a, rng.standard_normal((m, 5), np.float32)], axis=1)
    wide[:, k:] = np.nan  # never read
    bias, add = rng.standard_normal(n, np.float32), rng.standard_normal((m, n), np.float32)
    expected = reference(a, w, precision) + bias + add
    assert error(_core.product(wide, w, precision, bias, add), expected) <= ACCURACY


@pytest.mark.parametrize("precision", PRECISIONS)
def test_depth_zero_is_the_bias(level, precision):
    a, w = operands(30, 40, 3)
    bias, add = w[:, 0].copy(), np.ones((30, 40), np.float32)
    nothing = w[:, :0].copy()
    assert (_core.product(a, nothing, precision) == 0).all()
    assert (_core.product(a, nothing, precision, bias) == bias).all()
    assert (_core.product(a, nothing, precision, bias, add) == bias + 1).all()


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize(
    "size", [*SIZES, (300, 140, 150), (30, 48, 300), (600, 5, 200), (35, 3, 129)], ids=str
)
def test_product_tn_equals_numpy(level, precision, size):
    m, n, rows = size
    a, b = (x.T.copy() for x in operands(m, n, rows))
    add = np.random.default_rng(2).standard_normal((m, n), np.float32)
    used = "f32" if precision == "int8" else precision
    expected = reference(a.T.copy(), b.T.copy(), used)
    assert error(_core.product_tn(a, b, precision, None), expected) <= ACCURACY
    assert error(_core.product_tn(a, b, precision, add), expected + add) <= ACCURACY
    guarded = np.full(m * n + 64, 7, np.float32)  # nothing is written beside the result
    _core.product_tn(a, b, precision, add, guarded[32:-32].reshape(m, n))
    assert (guarded[:32] == 7).all() and (guarded[-32:] == 7).all()


def test_levels_agree():
    a, w = operands(31, 45, 333)
    results = {}
    for name in LEVELS:
        _core.set_isa(name)
        results[name] = [_core.product(a, w, precision) for precision in PRECISIONS]
    for name in LEVELS[1:]:
        for i in (0, 1):
            assert error(results[name][i], results[LEVELS[0]][i].astype(np.float64)) <= ACCURACY
        assert np.array_equal(results[name][2], results[LEVELS[0]][2])


def one_by_one(values, precision):
    """Each value through a product with 1."""
    return _core.product(np.float32(values).reshape(-1, 1), np.ones((1, 1), np.float32), precision)[:, 0]


def test_bf16_rounds_to_nearest_even(level):
    rng = np.random.default_rng(3)
    bits = rng.integers(0, 2**32, 15000, dtype=np.uint32)
    ties = (bits & 0xFFFF0000) | 0x8000
    edges = np.uint32([0, 0x80000000, 0x7F7FFFFF, 0x7F7F7FFF, 0x7F7F8000, 0x3F808000, 0x3F818000, 0x3F80FFFF])
    x = np.concatenate([bits, ties, ties - 1, ties + 1, edges]).view(np.float32)
    expected = bf16(x)
    normal = ~(np.abs(x) < np.finfo(np.float32).tiny) | (x == 0)
    for values in (
        one_by_one(x, "bf16"),
        _core.product_tn(x[:, None].T.copy(), np.float32([[1]]), "bf16", None)[:, 0],
    ):
        assert np.array_equal(values[normal], expected[normal], equal_nan=True)
        assert (np.abs(values[~normal]) <= np.finfo(np.float32).tiny).all()  # or flushed to 0
    # the weights' side
    w = x[:4096, None].copy()
    got = _core.product(np.ones((1, 1), np.float32), w, "bf16")[0]
    assert np.array_equal(got[normal[:4096]], expected[:4096][normal[:4096]], equal_nan=True)


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_stays_so(level, precision, bad):
    a, w = operands(6, 20, 37)
    clean = _core.product(a, w, precision)
    a[2, 36] = bad
    y = _core.product(a, w, precision)
    assert not np.isfinite(y[2]).any()
    assert np.array_equal(np.delete(y, 2, 0), np.delete(clean, 2, 0))
    if precision == "int8":
        assert np.isnan(y[2]).all()
    a, w = operands(6, 20, 37)
    w[17, 0] = bad
    y = _core.product(a, w, precision)
    assert not np.isfinite(y[:, 17]).any()
    assert np.array_equal(np.delete(y, 17, 1), np.delete(clean, 17, 1))


@pytest.mark.parametrize("payload", [0x7F800001, 0xFF800001, 0x7FFFFFFF, 0x7F80FFFF])
def test_any_nan_stays_nan_in_bf16(level, payload):
    x = np.uint32([payload, 0x3F800000]).view(np.float32)
    assert np.isnan(one_by_one(x, "bf16")).tolist() == [True, False]


def test_int8_zero_rows_and_extremes_are_exact(level):
    a, w = operands(30, 33, 64)
    a[4], w[5] = 0, 0
    bias = np.random.default_rng(4).standard_normal(33, np.float32)
    y = _core.product(a, w, "int8", bias)
    assert np.array_equal(y[4], bias) and (y[:, 5] == bias[5]).all()
    # the largest sums there are: nothing saturates
    for sign in (1, -1):
        a, w = np.full((25, 1024), 1, np.float32), np.full((33, 1024), sign, np.float32)
        assert np.array_equal(_core.product(a, w, "int8"), int8_product(a, w))
    tiny = np.full((2, 8), 1e-38, np.float32)
    assert (_core.product(tiny, np.ones((3, 8), np.float32), "int8") == 0).all()
    huge = np.full((2, 8), 3e38, np.float32)
    assert error(_core.product(huge, np.full((3, 8), 0.1, np.float32), "int8") / 1e38, 2.4) <= 1e-5


@pytest.mark.parametrize("precision", PRECISIONS)
def test_bits_do_not_depend_on_threads_or_neighbours(level, precision):
    a, w = operands(1000, 64, 96)
    results = []
    for threads in (1, 2, 3):
        _core.set_num_threads(threads)
        results.append(_core.product(a, w, precision))
    assert np.array_equal(results[0], results[1]) and np.array_equal(results[0], results[2])
    for i in (0, 5, 23, 999):
        assert np.array_equal(_core.product(a[i : i + 1], w, precision)[0], results[0][i])


@settings(max_examples=60, deadline=None)
@given(
    m=st.integers(1, 60),
    n=st.integers(1, 70),
    k=st.integers(1, 150),
    level=st.sampled_from(LEVELS),
    precision=st.sampled_from(PRECISIONS),
)
def test_any_size(m, n, k, level, precision):
    _core.set_isa(level)
    a, w = operands(m, n, k)
    expected = reference(a, w, precision)
    allowed = ACCURACY * np.linalg.norm(np.abs(a) @ np.abs(w).T)  # the terms of a small sum may cancel
    assert np.linalg.norm(_core.product(a, w, precision) - expected) <= allowed
    if precision != "int8":
        assert np.linalg.norm(_core.product_tn(a.T.copy(), w.T.copy(), precision, None) - expected) <= allowed


# ---- the public face ------------------------------------------------------------------------------------


@pytest.mark.parametrize("precision", PRECISIONS)
def test_matmul(precision):
    x, w = operands(50, 40, 30)
    bias = np.arange(40, dtype=np.float32)
    assert np.array_equal(tg.kernels.matmul(x, w, precision=precision), _core.product(x, w, precision))
    y = tg.kernels.matmul(x, w, bias, precision=precision)
    assert y.dtype == np.float32 and error(y, reference(x, w, precision) + bias) <= ACCURACY
    assert error(y, x.astype(np.float64) @ w.T + bias) <= {"f32": 1e-6, "bf16": 5e-3, "int8": 2e-2}[precision]


def test_matmul_refuses_what_does_not_fit():
    x, w = operands(4, 3, 5)
    for bad_x, bad_w, bias in [
        (x[:, :4].copy(), w, None),
        (x.astype(np.float64), w, None),
        (x[:, ::2], w[:, ::2].copy(), None),
        (x, w[0], None),
        (x, w, np.zeros(4, np.float32)),
    ]:
        with pytest.raises(tg.ShapeError):
            tg.kernels.matmul(bad_x, bad_w, bias)
    refuses(lambda: tg.kernels.matmul(x, w, precision="fp8"), ValueError, "'fp8'")  # type: ignore[arg-type]


def test_core_products_refuse_what_does_not_fit():
    x, w = operands(4, 3, 5)
    refuses(lambda: _core.product(x[:, :4].copy(), w, "f32"), ValueError, "K = 5")
    refuses(lambda: _core.product(x[:, :0].copy(), w[:, :1].copy(), "f32"), ValueError, "K = 1", "0")
    refuses(lambda: _core.product(x, w[:0], "f32"), ValueError, "N:", "got 0")
    with pytest.raises(ValueError, match="K:.*65537"):
        _core.product(np.zeros((1, 65537), np.float32), np.zeros((1, 65537), np.float32), "f32")
    refuses(lambda: _core.product(x, w, "f32", None, np.zeros((4, 4), np.float32)), tg.ShapeError, "add")
    refuses(lambda: _core.product_tn(x, w, "f32", None), tg.ShapeError, "b:")
    assert _core.product(x[:0], w, "int8").shape == (0, 3)


# ---- which instruction set a processor gets -----------------------------------------------------------------

AVX2 = "avx2 fma bmi2"
AVX512 = f"{AVX2} avx512f avx512vl avx512bw avx512dq"
PROCESSORS = {  # vendor, features, levels, fastest first
    "without AVX": ("GenuineIntel", "", ["baseline"]),
    "Sandy Bridge": ("GenuineIntel", "avx fma4", ["baseline"]),
    "Haswell": ("GenuineIntel", AVX2, ["avx2", "baseline"]),
    "Zen 3": ("AuthenticAMD", AVX2, ["avx2", "baseline"]),
    "Knights Landing": ("GenuineIntel", f"{AVX2} avx512f", ["avx2", "baseline"]),
    "Skylake": ("GenuineIntel", AVX512, ["avx512", "avx2", "baseline"]),
    "Ice Lake": ("GenuineIntel", f"{AVX512} avx512vnni", ["avx512_vnni", "avx512", "avx2", "baseline"]),
    "Sapphire Rapids": (
        "GenuineIntel", f"{AVX512} avx512vnni avx512bf16",
        ["avx512_vnni", "avx512_bf16", "avx512", "avx2", "baseline"],
    ),
    "Zen 4": (
        "AuthenticAMD", f"{AVX512} avx512vnni avx512bf16",
        ["avx512_bf16", "avx512_vnni", "avx512", "avx2", "baseline"],
    ),
    "unknown": (
        "", f"{AVX512} avx512vnni avx512bf16", ["avx512_vnni", "avx512_bf16", "avx512", "avx2", "baseline"],
    ),
}  # fmt: skip
X86 = pytest.mark.skipif(
    platform.machine().lower() not in ("x86_64", "amd64"), reason="elsewhere there is one instruction set"
)


@X86
@pytest.mark.parametrize("name", PROCESSORS)
def test_levels_of_processors(name):
    vendor, features, levels = PROCESSORS[name]
    assert _core.isa_levels_of(vendor, features) == levels


@X86
@pytest.mark.skipif(not os.path.exists("/proc/cpuinfo"), reason="asks /proc/cpuinfo")
def test_levels_of_this_processor():
    with open("/proc/cpuinfo") as file:
        told = dict(re.split(r"\s*:\s*", line, maxsplit=1) for line in file if ":" in line)
    features = told["flags"].replace("avx512_", "avx512").strip()
    assert _core.isa_levels_of(told["vendor_id"].strip(), features) == LEVELS


def test_the_environment_chooses_the_level():
    for level in LEVELS:
        code = "from tpugraphs import _core; print(_core.get_isa())"
        env = os.environ | {"TPUGRAPHS_ISA": level, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        done = subprocess.run(
            [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True
        )
        assert done.stdout.strip() == level


@pytest.mark.skipif("avx512_bf16" not in LEVELS, reason="one way to multiply bf16 only")
@pytest.mark.parametrize("size", SIZES)
def test_bf16_by_its_instruction_and_as_float32_differ_in_summation_only(size):
    a, w = operands(*size)
    products = []
    for level in ("avx512_bf16", "avx512_vnni", "avx512"):
        _core.set_isa(level)
        products.append(_core.product(a, w, "bf16"))
    by_instruction, as_float, plain = products
    assert np.array_equal(as_float, plain)  # the same operations
    assert error(by_instruction, as_float.astype(np.float64)) <= ACCURACY
    rounded = bf16(a).astype(np.float64) @ bf16(w).T.astype(np.float64)
    assert error(by_instruction, rounded) <= ACCURACY
    if size == (128, 128, 16):  # not float32 under another name, and not one kernel under two
        assert error(as_float, a.astype(np.float64) @ w.T) > 1e-4
        assert not np.array_equal(by_instruction, as_float)
