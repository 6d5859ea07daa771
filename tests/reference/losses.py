"""Losses in float64 NumPy, O(L^2), as the definitions read. Each returns (value, gradient).

A loss of the core has its reference here under the same name. It takes the scores of one list, then by name what it
reads: y (runtimes), values, weights, its reduction, its attributes; seed and index (number of the list) if it draws.
"""

import inspect

import numpy as np
from reference import rng


def _weights(weights, length):
    return np.ones(length) if weights is None else np.asarray(weights, dtype=np.float64)


def _share(reduction, total, pairs=None):
    """What a sum is multiplied with: `total` weight of the entries, `pairs` that of the pairs."""
    divisor = {"sum": 1.0, "mean": total, "mean-pairs": pairs}.get(reduction)
    if reduction == "mean-all":
        divisor = total if pairs is None else total**2
    return 1.0 / divisor if divisor > 0 else 0.0


def _over_pairs(cost, slope, pair, weights, reduction):
    """Weighted sum of cost (L, L) over pairs [slower, faster]; slope is that by the difference of their scores."""
    w = np.outer(weights, weights) * pair
    share = _share(reduction, weights.sum(), w.sum())
    slope = w * slope
    return float((w * cost).sum() * share), (slope.sum(axis=1) - slope.sum(axis=0)) * share


def pairwise_hinge(s, y, margin=1.0, reduction="mean-all", weights=None):
    """sum over y_i > y_j of max(0, margin - (s_i - s_j)); s (L,), y (L,)."""
    s = np.asarray(s, dtype=np.float64)
    y = np.asarray(y)
    cost = margin - (s[:, None] - s[None, :])
    active = cost > 0
    pair = y[:, None] > y[None, :]
    return _over_pairs(cost * active, -1.0 * active, pair, _weights(weights, len(s)), reduction)


def dcg_hinge(s, y, margin=1.0, reduction="sum", weights=None):
    """1 / ln 2 - 1 / ln(2 + h) of the pairwise hinge h; lists of less than two have no pairs."""
    h, grad = pairwise_hinge(s, y, margin, reduction, weights)
    return 1 / np.log(2) - 1 / np.log(2 + h), grad / ((2 + h) * np.log(2 + h) ** 2)


def permuted_margin(s, y, margin=0.1, permutations=4, reduction="mean-pairs", weights=None, seed=0, index=0):
    """Hinge of each entry and its partner in permutations of the places by runtime, which list `index` draws."""
    s, y = np.asarray(s, dtype=np.float64), np.asarray(y)
    length, w = len(s), _weights(weights, len(s))
    places = np.argsort(y, kind="stable")
    value, grad, total = 0.0, np.zeros(length), 0.0
    for k in range(permutations):
        key = rng.key_of(seed, index, k)
        drawn = sorted(range(length), key=lambda p, key=key: rng.draw(key, p))
        for i, j in zip(places, places[drawn], strict=True):
            cost = margin - np.sign(y[i] - y[j]) * (s[i] - s[j])
            weight = w[i] * w[j] * (y[i] != y[j]) / permutations
            total += weight
            value += weight * max(cost, 0)
            grad[[i, j]] -= weight * (cost > 0) * np.sign(y[i] - y[j]) * np.array([1, -1])
    share = _share(reduction, w.sum(), total)
    return float(value * share), grad * share


def ranknet(s, y, sigma=1.0, reduction="mean-pairs", weights=None, pair_weights=1.0):
    """sum over y_i > y_j of log(1 + exp(-sigma (s_i - s_j)))."""
    s = np.asarray(s, dtype=np.float64)
    y = np.asarray(y)
    x = sigma * (s[:, None] - s[None, :])
    cost = np.logaddexp(0, -x)
    slope = -sigma * np.exp(-np.logaddexp(0, x))
    pair = y[:, None] > y[None, :]
    w = _weights(weights, len(s))
    total = (np.outer(w, w) * pair).sum()
    value, grad = _over_pairs(pair_weights * cost, pair_weights * slope, pair, w, "sum")
    share = _share(reduction, w.sum(), total)
    return value * share, grad * share


def lambda_rank(
    s, y, gain="rank", k=0, sigma=1.0, scheme="lambdarank", reduction="sum", weights=None, values=None
):
    """RankNet with pairs weighted by the change of nDCG at k when two swap their predicted places, or by `scheme`.

    Equal scores: the slower has the better place; equal runtimes too: the means of their places and discounts.
    """
    s = np.asarray(s, dtype=np.float64)
    y = np.asarray(y)
    length = len(s)
    if length < 2:
        return 0.0, np.zeros(length)
    faster = (y[None, :] < y[:, None]).sum(axis=1)
    gains = {"rank": 1 / (1 + faster), "linear": 1 - faster / length}.get(gain)
    if gain == "inverse":
        gains = np.min(values) / np.asarray(values)
    discounts = np.where(np.arange(length) < (k or length), 1 / np.log2(np.arange(length) + 2), 0)
    ideal = (gains[np.argsort(faster, kind="stable")] * discounts).sum()
    ahead = (s[None, :] < s[:, None]) | ((s[None, :] == s[:, None]) & (faster[None, :] > faster[:, None]))
    equal = (s[None, :] == s[:, None]) & (faster[None, :] == faster[:, None])
    ahead, equal = ahead.sum(axis=1), equal.sum(axis=1)
    discount = np.array([discounts[a : a + n].mean() for a, n in zip(ahead, equal, strict=True)])
    apart = np.abs(gains[:, None] - gains[None, :])
    if scheme == "lambdarank":
        swap = apart * np.abs(discount[:, None] - discount[None, :]) / ideal
        return ranknet(s, y, sigma, reduction, weights, swap)
    if scheme in ("ndcg2", "arp2"):
        place = ahead + (equal - 1) / 2
        d = np.maximum(1, np.abs(place[:, None] - place[None, :]))
        seen = (discount[:, None] > 0) | (discount[None, :] > 0)
        fall = seen * (1 / np.log2(1 + d) - 1 / np.log2(2 + d)) / ideal
        weighed = apart * (fall if scheme == "ndcg2" else 1)
        return ranknet(s, y, sigma, reduction, weights, weighed / np.log(2))
    weight = (gains * discount / ideal if scheme == "ndcg1" else gains)[None, :] / np.log(
        2
    )  # [j, the faster i]
    x = sigma * (s[:, None] - s[None, :])
    cost, slope = weight * np.logaddexp(0, -x), -sigma * weight * np.exp(-np.logaddexp(0, x))
    return _over_pairs(cost, slope, 1 - np.eye(length), _weights(weights, length), reduction)


def _pointwise(cost, slope, reduction, weights):
    w = _weights(weights, len(cost))
    share = _share(reduction, w.sum())
    return float((w * cost).sum() * share), w * slope * share


def mse(s, values, reduction="mean", weights=None):
    """(s - value)^2."""
    error = np.asarray(s, dtype=np.float64) - values
    return _pointwise(error**2, 2 * error, reduction, weights)


def log_mse(s, values, offset=0.0, reduction="mean", weights=None):
    """(s - ln(offset + value))^2."""
    return mse(s, np.log(offset + np.asarray(values)), reduction, weights)


def msle(s, values, reduction="mean", weights=None):
    """(ln(1 + s) - ln(1 + value))^2, with s in place of ln(1 + s) below 0."""
    s = np.asarray(s, dtype=np.float64)
    error = np.where(s > 0, np.log(1 + np.maximum(s, 0)), s) - np.log(1 + np.asarray(values))
    return _pointwise(error**2, 2 * error / (1 + np.maximum(s, 0)), reduction, weights)


def mape(s, values, epsilon=1e-8, reduction="mean", weights=None):
    """|s - value| / max(|value|, epsilon)."""
    size = np.maximum(np.abs(values), epsilon)
    error = (np.asarray(s, dtype=np.float64) - values) / size
    return _pointwise(np.abs(error), np.sign(error) / size, reduction, weights)


def quantile(s, values, level=0.5, reduction="mean", weights=None):
    """level (value - s) where s is below the value, (level - 1) (value - s) above it."""
    above = np.asarray(values) - np.asarray(s, dtype=np.float64)
    slope = np.where(above > 0, -level, np.where(above < 0, 1 - level, 0.5 - level))
    return _pointwise(np.maximum(level * above, (level - 1) * above), slope, reduction, weights)


def cross_entropy(s, values, reduction="mean", weights=None):
    """-t ln(q) - (1 - t) ln(1 - q) with q = 1 / (1 + exp(-s)), t a value."""
    s, t = np.asarray(s, dtype=np.float64), np.asarray(values)
    cost = t * np.logaddexp(0, -s) + (1 - t) * np.logaddexp(0, s)
    return _pointwise(cost, np.exp(-np.logaddexp(0, -s)) - t, reduction, weights)


def slowest_first(y, seed=0, index=0):
    """Order of the list: descending runtime, ties by the draws of list `index`."""
    key = rng.key_of(seed, index)
    y = [v.item() for v in np.asarray(y)]
    return sorted(range(len(y)), key=lambda i: (-y[i], rng.draw(key, i)))


def list_mle(s, y, reduction="sum", seed=0, index=0, weights=None, temperature=1.0, max_norm=0.0):
    """sum_k log sum_{l >= k} exp(s_l / T) - s_k / T in the order slowest first; s (L,), y (L,)."""
    s = np.asarray(s, dtype=np.float64)
    length, norm = len(s), np.linalg.norm(s)
    if length < 2:
        return 0.0, np.zeros(length)
    if 0 < max_norm < norm:
        unit = s / norm
        value, grad = list_mle(max_norm * unit, y, reduction, seed, index, weights, temperature)
        return value, max_norm / norm * (grad - unit * (unit @ grad))
    s = s / temperature
    w = _weights(weights, length)
    order = slowest_first(y, seed, index)
    value, grad = 0.0, np.zeros(length)
    for k in range(length):
        rest = order[k:]
        top = s[rest].max()
        shares = np.exp(s[rest] - top)
        value += w[order[k]] * (top + np.log(shares.sum()) - s[order[k]])
        grad[rest] += w[order[k]] * shares / shares.sum()
        grad[order[k]] -= w[order[k]]
    share = _share(reduction, w.sum())
    return float(value * share), grad * share / temperature


def weighted_sum(s, terms, offsets=None, index=None, scale=None, shift=None, seed=0, **targets):
    """Sum over terms of weight times the mean over lists; targets: runtimes, values, weights (L,) or None."""
    s = np.asarray(s, dtype=np.float64)
    seen = s
    if scale is not None or shift is not None:
        seen = s * (1 if scale is None else scale) + (0 if shift is None else shift)
        seen = seen.astype(np.float32).astype(np.float64)
    entries = np.arange(len(s)) if index is None else np.asarray(index)
    lists = np.split(entries, offsets[1:-1]) if offsets is not None else [entries]
    value, grad = 0.0, np.zeros(len(s))
    for term in terms:
        options = {k: v for k, v in term.items() if k not in ("loss", "weight", "over")}
        loss = globals()[term["loss"]]
        groups = [entries] if term.get("over") == "batch" else lists
        for number, part in enumerate(groups):
            given = {k: v[part] for k, v in targets.items() if v is not None}
            given |= {"y": given.get("runtimes"), "seed": seed, "index": number}
            given = {k: v for k, v in given.items() if k in inspect.signature(loss).parameters}
            if len(part) == 0:
                continue
            v, g = loss(seen[part], **given, **options)
            share = term.get("weight", 1.0) / len(groups)
            value += share * v
            grad[part] += share * g
    return value, grad * (1 if scale is None else scale)
