"""Straightforward NumPy versions of pruning, equal configs, codes, padding and scaling."""

import numpy as np


def prune_1hop(N, edges, configs):
    is_config = np.zeros(N, bool)
    is_config[configs] = True
    edges = edges[is_config[edges].any(1)]
    nodes = np.unique(np.concatenate([edges.ravel(), configs]))
    return nodes, np.searchsorted(nodes, edges), np.searchsorted(nodes, configs)


def prune_k_hop(N, edges, configs, hops):
    kept = np.zeros(N, bool)
    kept[configs] = True
    for _ in range(hops):
        touching = edges[kept[edges].any(1)]
        kept[touching] = True
    nodes = np.flatnonzero(kept)
    edges = edges[kept[edges].all(1)]
    return nodes, np.searchsorted(nodes, edges), np.searchsorted(nodes, configs)


def dedup(rows):
    seen, first, inverse = {}, [], []
    for i, row in enumerate(rows.reshape(len(rows), rows[:1].size)):
        key = tuple(row.tolist())
        if key not in seen:
            seen[key] = len(first)
            first.append(i)
        inverse.append(seen[key])
    return np.array(first, np.int64), np.array(inverse, np.int64)


def round_half_even(total, count):
    quotient, rest = divmod(total, count)
    return quotient + (2 * rest > count or (2 * rest == count and quotient % 2 == 1))


def encode_base7(digits):
    weights = 7 ** np.arange(6)
    return (digits.reshape(*digits.shape[:2], 3, 6).astype(np.int64) + 1) @ weights


def layout_digits(node_feat):
    rank = (node_feat[:, 21:27] != 0).sum(1)
    return np.where(np.arange(6) < rank[:, None], node_feat[:, 134:140], -1)


def scaler(x):
    x = x.astype(np.float64)
    scale = x.std(0)
    return x.mean(0), np.where(np.ptp(x, axis=0) == 0, 1.0, scale)
