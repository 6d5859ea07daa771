"""The op `noise`: its draws are standard normal numbers of row and column, the same for any number of threads."""

import numpy as np
import scipy.stats
from refusals import refuses

import tpugraphs as tg
from tpugraphs import _core


def draws(rows, columns, key):
    x = np.zeros((rows, columns), np.float32)
    return tg.kernels.noise(x, std=1.0, training=True, key=key)


def test_draws_are_standard_normal_and_independent():
    z = draws(4000, 25, 3).astype(np.float64)
    assert scipy.stats.kstest(z.ravel(), "norm").pvalue > 1e-3
    correlation = np.corrcoef(z.T) - np.eye(25)
    assert np.abs(correlation).max() < 0.08
    assert abs(np.corrcoef(z[:-1].ravel(), z[1:].ravel())[0, 1]) < 0.02


def test_draws_depend_on_key_and_not_on_threads():
    found = []
    for count in (1, 2, 3):
        _core.set_num_threads(count)
        found.append(draws(3000, 24, 9).tobytes())
    assert len(set(found)) == 1
    assert draws(3000, 24, 10).tobytes() != found[0]


def test_noise_scales_and_the_gradient_goes_through():
    x, dy = np.ones((5, 4), np.float32), np.arange(20, dtype=np.float32).reshape(5, 4)
    one, two = (tg.kernels.noise(x, std=s, training=True, key=1) - x for s in (1.0, 2.0))
    assert np.allclose(two, 2 * one, atol=1e-6)
    assert np.array_equal(tg.kernels.noise_backward(dy, x, std=2.0, training=True, key=1)["x"], dy)
    assert np.array_equal(tg.kernels.noise(x, std=2.0), x)
    refuses(lambda: tg.kernels.noise(x, std=-1.0), tg.Error, "std")
