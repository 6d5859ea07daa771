"""Ranking losses in float64 NumPy, O(L^2), as the definitions read. Each returns (value, gradient)."""

import numpy as np

MASK = (1 << 64) - 1


def pairwise_hinge(s, y, margin=1.0, reduction="mean-all"):
    """sum over y_i > y_j of max(0, margin - (s_i - s_j)); s (L,), y (L,)."""
    s = np.asarray(s, dtype=np.float64)
    y = np.asarray(y)
    length = len(s)
    if length < 2:
        return 0.0, np.zeros(length)
    pair = y[:, None] > y[None, :]
    cost = margin - (s[:, None] - s[None, :])
    active = pair & (cost > 0)
    scale = {"sum": 1.0, "mean-all": 1.0 / length**2, "mean-pairs": 1.0 / max(1, pair.sum())}[reduction]
    grad = active.sum(axis=0) - active.sum(axis=1).astype(np.float64)
    return float(cost[active].sum() * scale), grad * scale


def _mix(x):
    x ^= x >> 30
    x = x * 0xBF58476D1CE4E5B9 & MASK
    x ^= x >> 27
    x = x * 0x94D049BB133111EB & MASK
    return x ^ (x >> 31)


def draw(key, counter):
    """The core's counter-based generator, 64 bits."""
    return _mix(key ^ _mix((counter + 0x9E3779B97F4A7C15) & MASK))


def list_key(seed, index):
    """Key of list `index`."""
    return _mix((seed + 0x9E3779B97F4A7C15 * (index + 1)) & MASK)


def slowest_first(y, seed=0, index=0):
    """Order of the list: descending runtime, ties by the draws of list `index`."""
    key = list_key(seed, index)
    y = [v.item() for v in np.asarray(y)]
    return sorted(range(len(y)), key=lambda i: (-y[i], draw(key, i)))


def list_mle(s, y, reduction="sum", seed=0, index=0):
    """sum_k log sum_{l >= k} exp(s_l) - s_k in the order slowest first; s (L,), y (L,)."""
    s = np.asarray(s, dtype=np.float64)
    length = len(s)
    if length < 2:
        return 0.0, np.zeros(length)
    order = slowest_first(y, seed, index)
    value, grad = 0.0, np.zeros(length)
    for k in range(length):
        rest = order[k:]
        top = s[rest].max()
        weights = np.exp(s[rest] - top)
        value += top + np.log(weights.sum()) - s[order[k]]
        grad[rest] += weights / weights.sum()
        grad[order[k]] -= 1
    scale = {"sum": 1.0, "mean-all": 1.0 / length}[reduction]
    return float(value * scale), grad * scale


def over_lists(loss, s, y, offsets, **options):
    """Mean of `loss` over lists; `index=` is passed on to losses that draw."""
    lists = len(offsets) - 1
    value, grad = 0.0, np.zeros(len(s))
    for b in range(lists):
        part = slice(offsets[b], offsets[b + 1])
        extra = {"index": b} if loss is list_mle else {}
        v, g = loss(s[part], y[part], **options, **extra)
        value += v / lists
        grad[part] = g / lists
    return value, grad
