"""Ranking metrics as their definitions read, O(n^2), in plain Python integers and float64."""

import math

import numpy as np


def pairs(s, y):
    """Counts (concordant, discordant, tied in s only, tied in y only) over pairs i < j."""
    s = [v.item() for v in np.asarray(s)]
    y = [v.item() for v in np.asarray(y)]
    concordant = discordant = only_s = only_y = 0
    for i in range(len(s)):
        for j in range(i):
            ds = (s[i] > s[j]) - (s[i] < s[j])
            dy = (y[i] > y[j]) - (y[i] < y[j])
            concordant += ds * dy > 0
            discordant += ds * dy < 0
            only_s += ds == 0 and dy != 0
            only_y += dy == 0 and ds != 0
    return concordant, discordant, only_s, only_y


def kendall_tau(s, y):
    p, q, x, t = pairs(s, y)
    product = (p + q + x) * (p + q + t)
    return (p - q) / math.sqrt(product) if product else 0.0


def opa(s, y):
    p, q, x, _ = pairs(s, y)
    return p / (p + q + x) if p + q + x else 0.0


def mid_ranks(v):
    v = [x.item() for x in np.asarray(v)]
    return np.array([sum(b < a for b in v) + (sum(b == a for b in v) + 1) / 2 for a in v])


def spearman(s, y):
    a, b = mid_ranks(s), mid_ranks(y)
    if len(a) < 2 or np.ptp(a) == 0 or np.ptp(b) == 0:
        return 0.0
    a, b = a - a.mean(), b - b.mean()
    return float(a @ b / math.sqrt((a @ a) * (b @ b)))


def top_k_slowdown(s, y, k=5):
    order = sorted(range(len(s)), key=lambda i: (s[i], i))
    return min(y[i] for i in order[:k]) / min(y) - 1


def ndcg(s, y, k=10):
    def gain(order):
        return sum(1 / y[i] / math.log2(p + 2) for p, i in enumerate(order[:k]))

    order = sorted(range(len(s)), key=lambda i: (s[i], i))
    return gain(order) / gain(sorted(range(len(y)), key=lambda i: y[i]))
