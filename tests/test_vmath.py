"""Sweeps of the elementary functions of csrc/kernels/vmath.h, through the ops that use them, on every level."""

import numpy as np
import pytest
from scipy.special import erf, expit

import tpugraphs as tg
from tpugraphs import _core

ONE, ZERO = np.ones((1, 1), np.float32), np.zeros(1, np.float32)


@pytest.fixture(autouse=True, params=_core.isa_levels())
def level(request):
    before = _core.get_isa()
    _core.set_isa(request.param)
    yield
    _core.set_isa(before)


def sweep() -> np.ndarray:
    """Every exponent of both signs, and the range where the functions bend, (n, 1) float32."""
    wide = np.ldexp(np.linspace(1, 2, 17), np.arange(-126, 12)[:, None]).ravel()
    return np.float32(np.concatenate([wide, -wide, np.linspace(-12, 12, 200_001), [0.0]]))[:, None]


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


def test_sigmoid():
    b2 = np.ascontiguousarray(sweep().ravel()[::4])
    width = b2.size
    z = np.ones((1, 1, width), np.float32)
    zeros = np.zeros((1, width), np.float32)
    y = tg.kernels.mix(z, w1=zeros, b1=ZERO, w2=np.ascontiguousarray(zeros.T), b2=b2)
    assert np.abs(y.ravel() - expit(b2.astype(np.float64))).max() <= 3e-7


def test_softmax_over_two_configs():
    """softmax([x, 0])_0 = sigmoid(x), through exp."""
    x = np.float32(np.linspace(-80, 80, 8001))
    z = np.stack([x, np.zeros_like(x)])[None]
    y = tg.kernels.mix(z, temperature=np.ones(1, np.float32))[0, 0, x.size :]
    exact = x.astype(np.float64) * expit(x.astype(np.float64))
    assert (np.abs(y - exact) <= 1e-6 * np.abs(exact) + 1e-30).all()
