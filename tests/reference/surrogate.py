"""A Gaussian process with a Matern 5/2 covariance and a length per column, and its batches, by dense algebra."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
LEAST_NOISE = 1e-4
PRIOR_MEAN, PRIOR_SPREAD = (0.0, 0.0, -3.5), (1.0, 1.0, 1.5)  # of 1 / lengths, variance, noise


def covariance(a: Array, b: Array, logs: Array) -> Array:
    """(n, m) between rows of a(n, F) and b(m, F)."""
    by = np.exp(logs[:-2])
    r = np.sqrt(5 * (((a[:, None] - b[None]) * by) ** 2).sum(2))
    return np.exp(logs[-2]) * (1 + r + r**2 / 3) * np.exp(-r)


def noisy(x: Array, logs: Array) -> Array:
    return covariance(x, x, logs) + (np.exp(logs[-1]) + LEAST_NOISE) * np.eye(len(x))


def value(x: Array, y: Array, logs: Array) -> float:
    """Minus the logarithm of the posterior of the logs, without constants."""
    K = noisy(x, logs)
    sign, determinant = np.linalg.slogdet(K)
    assert sign > 0
    which = np.minimum(np.maximum(np.arange(len(logs)) - len(logs) + 3, 0), 2)
    far = (logs - np.array(PRIOR_MEAN)[which]) / np.array(PRIOR_SPREAD)[which]
    return float(0.5 * y @ np.linalg.solve(K, y) + 0.5 * determinant + 0.5 * (far**2).sum())


def gradient(x: Array, y: Array, logs: Array, step: float = 1e-4) -> Array:
    """Of `value`, by differences of the fourth order."""
    slopes = []
    for one in np.eye(len(logs)) * step:
        near = value(x, y, logs + one) - value(x, y, logs - one)
        far = value(x, y, logs + 2 * one) - value(x, y, logs - 2 * one)
        slopes.append((8 * near - far) / (12 * step))
    return np.array(slopes)


def predict(x: Array, y: Array, pool: Array, logs: Array) -> tuple[Array, Array]:
    """Mean (m,) and variance (m,) of pool(m, F), without noise."""
    across = np.linalg.solve(noisy(x, logs), covariance(x, pool, logs))
    return across.T @ y, np.exp(logs[-2]) - (across * covariance(x, pool, logs)).sum(0)


def left_out(x: Array, y: Array, logs: Array) -> Array:
    """Mean (n,) of each row by all others."""
    rows = np.arange(len(x))
    return np.array([predict(x[rows != i], y[rows != i], x[[i]], logs)[0][0] for i in rows])


def wanted(mean: Array, deviation: Array, best: float, gaining: bool) -> Array:
    """Minus the expected improvement, or a lower confidence bound; the least is wanted most."""
    if not gaining:
        return mean - deviation
    ahead = (best - mean) / deviation
    below = np.array([0.5 * math.erfc(-one / math.sqrt(2)) for one in ahead])
    expected = deviation * (ahead * below + np.exp(-(ahead**2) / 2) / math.sqrt(2 * math.pi))
    return -np.where(ahead < -5, 1e-9 * np.exp(np.minimum(ahead, 0)) * deviation, expected)


def choose(x: Array, y: Array, pool: Array, logs: Array, gaining: bool, count: int) -> list[int]:
    """Rows of the pool, each after the ones before have been measured at their mean."""
    chosen: list[int] = []
    mean = predict(x, y, pool, logs)[0]
    for _ in range(count):
        known = np.concatenate([x, pool[chosen]])
        variance = predict(known, np.zeros(len(known)), pool, logs)[1]
        value = wanted(mean, np.sqrt(np.maximum(variance, 1e-12)), y.min(), gaining)
        value[chosen] = np.inf
        chosen.append(int(np.argmin(value)))
    return chosen
