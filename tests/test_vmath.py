"""Sweeps of the elementary functions of csrc/kernels/vmath.h, through the ops that use them, on every level."""

import numpy as np
import pytest
from scipy.special import erf, expit

import tpugraphs as tg
from tpugraphs import _core

ONE, ZERO = np.ones((1, 1), np.float32), np.zeros(1, np.float32)


@pytest.fixture(autouse=True, params=_core.isa_levels())
def level(request):
    _core.set_isa(request.param)


def sweep() -> np.ndarray:
    """Every exponent of both signs, and the range where the functions bend, (n, 1) float32."""
    wide = np.ldexp(np.linspace(1, 2, 17), np.arange(-126, 12)[:, None]).ravel()
    x = np.float32(np.concatenate([wide, -wide, np.linspace(-12, 12, 200_001), borders(), [0.0]]))
    return x[:, None]


def borders() -> np.ndarray:
    """Where the piecewise polynomials change over: eight floats to either side of every border."""
    half = np.arange(32) + 0.5
    at = np.float32(np.concatenate([half * 5.75 / 31, half / 2, [5.25, 5.5, 5.75, 15.5]]))
    near = (at.view(np.int32)[:, None] + np.arange(-8, 9, dtype=np.int32)).view(np.float32).ravel()
    return np.concatenate([near, -near])


def normal(x: np.ndarray) -> np.ndarray:
    return 0.5 * (1 + erf(x / np.sqrt(2)))


def test_gelu():
    x = sweep()
    y = tg.kernels.linear(x, ONE, ZERO, "gelu")
    exact = x.astype(np.float64) * normal(x.astype(np.float64))
    assert (np.abs(y - exact) <= 4e-7 * np.abs(x)).all()


def test_slope_of_gelu():
    x = sweep()
    slope = tg.kernels.linear_backward(np.ones_like(x), x, ONE, ZERO, "gelu")["x"]
    d = np.clip(x.astype(np.float64), -40, 40)
    exact = normal(d) + d * np.exp(-d * d / 2) / np.sqrt(2 * np.pi)
    assert np.abs(slope - exact).max() <= 1e-6


def gate_of(x: np.ndarray, precision: str = "f32") -> np.ndarray:
    """sigmoid(x) for x (n,), as the gate of a row of ones."""
    zeros = np.zeros((1, x.size), np.float32)
    z = np.ones((1, 1, x.size), np.float32)
    w2 = np.ascontiguousarray(zeros.T)
    return tg.kernels.mix(z, w1=zeros, b1=ZERO, w2=w2, b2=x, precision=precision).ravel()


def test_sigmoid():
    x = sweep().ravel()
    b2 = np.concatenate([x[::4], borders()])
    y = gate_of(b2)
    assert np.abs(y - expit(b2.astype(np.float64))).max() <= 3e-7


@pytest.mark.parametrize("precision", ["bf16", "int8"])
def test_rough_functions(precision):
    """Beside products of rounded operands: ten times finer than a bfloat16, and still saturating."""
    x = sweep().ravel()
    x = x[: len(x) // 64 * 64]
    wide = np.clip(x.astype(np.float64), -40, 40)
    z = x.reshape(-1, 1, 64)
    gelu = tg.kernels.mix(z, act="gelu", precision=precision).ravel()
    assert (np.abs(gelu - x * normal(x.astype(np.float64))) <= 7e-5 * np.abs(x)).all()
    assert (gelu[x > 5.75] == x[x > 5.75]).all() and np.abs(gelu[x < -5.75]).max() <= 1e-6
    slope = tg.kernels.mix_backward(np.ones_like(z), z, act="gelu", precision=precision)["z"].ravel()
    exact = normal(wide) + wide * np.exp(-wide * wide / 2) / np.sqrt(2 * np.pi)
    assert np.abs(slope - exact).max() <= 2.5e-4
    b2 = np.concatenate([x[::4], borders()])
    assert np.abs(gate_of(b2, precision) - expit(b2.astype(np.float64))).max() <= 3e-5
    pair = np.float32(np.linspace(-80, 80, 8001))
    both = np.stack([pair, np.zeros_like(pair)])[None]
    y = tg.kernels.mix(both, temperature=np.ones(1, np.float32), precision=precision)[0, 0, pair.size :]
    exact = pair.astype(np.float64) * expit(pair.astype(np.float64))
    assert (np.abs(y - exact) <= 1.3e-4 * np.abs(exact) + 1e-30).all()


def test_softmax_over_two_configs():
    """softmax([x, 0])_0 = sigmoid(x), through exp."""
    x = np.float32(np.linspace(-80, 80, 8001))
    z = np.stack([x, np.zeros_like(x)])[None]
    y = tg.kernels.mix(z, temperature=np.ones(1, np.float32))[0, 0, x.size :]
    exact = x.astype(np.float64) * expit(x.astype(np.float64))
    assert (np.abs(y - exact) <= 1e-6 * np.abs(exact) + 1e-30).all()


def test_softmax_far_below_its_maximum():
    """Logits down to -1e30 give weights of zero, not NaN."""
    x = -np.float32(np.logspace(1, 30, 300))
    z = np.stack([x, np.zeros_like(x)])[None]
    y = tg.kernels.mix(z, temperature=np.ones(1, np.float32))[0, :, x.size :]
    assert np.isfinite(y).all()
    exact = x.astype(np.float64) * expit(x.astype(np.float64))
    assert (np.abs(y[0] - exact) <= np.maximum(1e-6 * np.abs(exact), 1.8e-38 * np.abs(x))).all()


def test_limits():
    x = np.float32([[np.inf], [-np.inf], [1e30], [-1e30]])
    value = tg.kernels.linear(x, ONE, ZERO, "gelu").ravel()
    assert value[0] == np.inf and value[2] == x[2, 0]
    assert np.abs(value[[1, 3]]).max() <= 1e-6
    slope = tg.kernels.linear_backward(np.ones_like(x), x, ONE, ZERO, "gelu")["x"].ravel()
    assert np.abs(slope - [1, 0, 1, 0]).max() <= 1e-6
    assert np.abs(gate_of(x.ravel()) - [1, 0, 1, 0]).max() <= 3e-7


def test_nan_stays_nan():
    x = np.full((1, 1), np.nan, np.float32)
    assert np.isnan(tg.kernels.linear(x, ONE, ZERO, "gelu")).all()
    assert np.isnan(tg.kernels.linear_backward(ONE, x, ONE, ZERO, "gelu")["x"]).all()
    assert np.isnan(gate_of(x.ravel())).all()
