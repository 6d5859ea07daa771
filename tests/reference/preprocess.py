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


def prune_consumers(N, edges, configs, hops):
    kept = np.zeros(N, bool)
    kept[configs] = True
    for _ in range(hops):
        kept[edges[kept[edges[:, 1]], 0]] = True
    nodes = np.flatnonzero(kept)
    edges = edges[kept[edges].all(1)]
    return nodes, np.searchsorted(nodes, edges), np.searchsorted(nodes, configs)


def prune_shortest_path(N, edges, configs):
    far = N + 1
    steps = np.full(N, far)
    steps[N - 1] = 0
    for _ in range(N):  # Bellman and Ford, both ways
        for ends in (edges, edges[:, ::-1]):
            np.minimum.at(steps, ends[:, 0], steps[ends[:, 1]] + 1)
    before = {}
    for node in range(N):
        near = [
            v
            for u, v in [*edges.tolist(), *edges[:, ::-1].tolist()]
            if u == node and steps[v] < steps[u] < far
        ]
        if near:
            before[node] = min(near)
    kept, pairs = set(configs.tolist()), set()
    for node in configs.tolist():
        while node in before:
            pairs |= {(node, before[node]), (before[node], node)}
            node = before[node]
            kept.add(node)
    nodes = np.array(sorted(kept), np.int64)
    edges = np.array([edge for edge in edges.tolist() if tuple(edge) in pairs], np.int64).reshape(-1, 2)
    return nodes, np.searchsorted(nodes, edges), np.searchsorted(nodes, configs)


def prune_meta(N, edges, configs):
    """By elimination: a node that goes leaves edges from each of its consumers to each of its operands."""
    operands = [{v for u, v in edges.tolist() if u == node} for node in range(N)]
    for node in sorted(set(range(N)) - set(configs.tolist())):
        for other in operands:
            if node in other and other is not operands[node]:
                other |= operands[node]
        for other in operands:
            other.discard(node)
    order = configs.tolist()
    pairs = [(i, j) for i, u in enumerate(order) for j, v in enumerate(order) if i != j and v in operands[u]]
    return configs, np.array(pairs, np.int64).reshape(-1, 2), np.arange(len(configs))


def prune_merge(N, edges, configs, dummies=False):
    order, pairs = configs.tolist(), edges.tolist()
    near = {node for edge in pairs if set(edge) & set(order) for node in edge} - set(order)
    part = list(range(N))  # the smallest node of the part
    for _ in range(N):
        for u, v in pairs:
            if not {u, v} & (near | set(order)):
                part[u] = part[v] = min(part[u], part[v])
    others = sorted(set(part) - set(order))
    number = {node: i for i, node in enumerate([*others, *order])}
    nodes = [node if node in near and not dummies else -1 for node in others] + order
    found = {}
    for u, v in pairs:
        u, v = number[part[u]], number[part[v]]
        if u != v:
            found[u, v] = None  # a dict keeps the order
    merged = np.array(sorted(found, key=lambda edge: edge[0]), np.int64).reshape(-1, 2)
    return np.array(nodes, np.int64), merged, np.arange(len(others), len(nodes))


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


def self_loops(N, edges):
    """Edges without repeated loops, then (v, v) for every v that has none."""
    seen = set()
    kept = []
    for u, v in edges.tolist():
        if u != v or u not in seen:
            kept.append((u, v))
        if u == v:
            seen.add(u)
    return np.array(kept + [(v, v) for v in range(N) if v not in seen], np.int64)


def layout_digits(node_feat, padding=-1, least=-1):
    rank = (node_feat[:, 21:27] != 0).sum(1)
    digits = node_feat[:, 134:140]
    return np.where(((np.arange(6) < rank[:, None]) | (padding == 0)) & (digits >= least), digits, -1)


def scaler(x):
    x = x.astype(np.float64)
    scale = x.std(0)
    return x.mean(0), np.where(np.ptp(x, axis=0) == 0, 1.0, scale)


def standardized(training, x, zero_constant, log=False):
    """Float64 columns of x less the mean of the training rows, over their standard deviation."""
    if log:
        training, x = (np.log1p(np.maximum(a, 0).astype(np.float64)) for a in (training, x))
    training = training.astype(np.float64)
    mean, scale = scaler(training)
    result = (x - mean) / scale
    if zero_constant:
        result[:, np.ptp(training, axis=0) == 0] = 0
    return result


def encoded(columns, training, x, levels=0):
    """Float64 columns (n, O) of the features x (n, F) by their schema, learnt from training rows (m, F)."""
    out = []
    for column, seen, values in zip(
        columns, training.astype(np.float64).T, x.astype(np.float64).T, strict=True
    ):
        constant = np.ptp(seen) == 0
        if column["kind"] == "category":
            for value in range(len(column["values"])):
                out.append((values == value) * (not constant) * (value in seen))
            continue
        if column["kind"] == "flag":
            out.append(values * (not constant))
            continue
        if column["kind"] == "log":
            seen, values = np.log1p(seen), np.log1p(values)
        out.append(np.zeros(len(x)) if constant else (values - seen.mean()) / seen.std())
        different = np.unique(seen)
        if column["kind"] == "number" and 2 <= len(different) <= levels:
            out += [values == level for level in different]
    return np.array(out, np.float64).reshape(len(out), len(x)).T


def virtual(N, edges, roots, size=None):
    """Ends of the edges with those of virtual nodes, and how many these are: over the roots, or clusters of a size."""
    nodes = np.flatnonzero(roots) if size is None else np.arange(N)
    more = np.stack([N + (0 * nodes if size is None else nodes // size), nodes], 1)
    return np.concatenate([edges, more]), 1 if size is None else -(-N // size)


def log_columns(x, columns=None, offset=1, signed=False):
    x = x.astype(np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.sign(x) * np.log1p(np.abs(x)) if signed else np.log(np.maximum(x + offset, 1))
    chosen = np.isin(np.arange(x.shape[1]), np.arange(x.shape[1]) if columns is None else columns)
    return np.where(chosen, logs, x)


def range_columns(x, columns, low, high):
    x = x.astype(np.float64)
    ends = np.array([low, high], np.float64)
    x[:, columns] = 2 * (x[:, columns] - ends[0]) / (ends[1] - ends[0]) - 1
    return x


def fifth_columns(node_feat, scrambled=True):
    """(N, 53 + 138): scalars, then 23 numbers of six dimensions each: what the fifth place of the competition made.

    Ranged ones from -1 to 1 first, then sizes as logarithms; their reshaping takes 54 numbers of nine lists for
    six dimensions of nine.
    """
    x = node_feat.astype(np.float64)

    def ranged(columns, low, high):
        return 2 * (x[:, columns] - low) / (high - low) - 1

    def sizes(columns, least=0):
        return np.log(np.maximum(x[:, columns] - least + 1, 1))

    flags = [0, 3, 6, 7, 10, 13, 15, 18, 20]
    scalars = [
        ranged(flags, 0, 1), ranged([30], 0, 35), ranged([91], 0, 3), ranged([92], 0, 5), ranged([113, 114], 0, 1),
        ranged([115], 0, 5), ranged([125, 128, 133], 0, 1),
        sizes([27]), sizes([28], 1), sizes([29, 43]), sizes([44], 1), sizes([51]), sizes([52], 1), sizes([59, 60]),
        sizes([67], -2), sizes([68, 75]), sizes([76], 1), sizes([83]), sizes([84], 1), sizes(range(107, 113)),
        sizes([117, 118, 119]), sizes([120], 1), sizes([121, 122, 123]), sizes([124], 1), sizes([126]),
        sizes([127], -39), sizes([129, 130]), sizes([131], -24), sizes([132]),
    ]  # fmt: skip
    lists = [
        ranged(range(31, 37), 0, 5), ranged(range(45, 51), 0, 4), ranged(range(61, 67), -1, 4),
        ranged(range(69, 75), 0, 4), ranged(range(77, 83), 0, 4), ranged(range(85, 91), 0, 1),
        sizes(range(21, 27)), sizes(range(37, 43)), sizes(range(53, 59)),
    ]  # fmt: skip
    numbers = np.concatenate(lists, 1)
    numbers = numbers.reshape(-1, 6, 9).swapaxes(1, 2) if scrambled else numbers.reshape(-1, 9, 6)
    return np.concatenate([*scalars, numbers.reshape(-1, 54), dimension_flags(node_feat)], 1)


def mod_features(node_feat):
    """(N, 60): of 30 columns the place within 128, then the number of whole 128s."""
    x = node_feat[:, [*range(21, 27), *range(31, 43), *range(53, 59), *range(61, 67)]].astype(np.float64)
    return np.concatenate([((x + 127) % 128) / 128, x // 128 / 10], 1)


def dimension_flags(node_feat):
    """(N, 84): of 14 numbers of dimensions which dimension they are; 0 may mean none, and counts as none."""
    numbers = node_feat[:, 93:107]
    flags = (numbers[:, :, None] == np.arange(6)) & (numbers[:, :, None] > 0)
    return flags.reshape(len(node_feat), 84).astype(np.float64)


def operand_shapes(node_feat, opcodes, edges):
    """(N, 16): ln(x + 3) of the columns 21-28 of the two operands of convolutions and dots."""
    out = np.full((len(node_feat), 16), -2.0)
    for node in np.flatnonzero(np.isin(opcodes, [26, 34])):
        shapes = [node_feat[v, 21:29] for u, v in edges if u == node] + [np.full(8, -1.0)] * 2
        out[node] = np.concatenate(shapes[:2])
    return np.log(out + 3)


def program_columns(node_feat, virtual):
    """(N, 186) of stored rows (N, 186): some of the last 46 are logarithms. Virtual nodes (N,) have x = -1, others made 0."""
    out = node_feat.astype(np.float64).copy()
    dynamic = node_feat[:, 148].max()  # the same of all stored nodes
    out[virtual, 140:], out[virtual, 148] = -1, dynamic
    out[:, 144:148] = np.log(out[:, 144:148] + 2)
    out[:, 170:] = np.log(out[:, 170:] + 3)
    return out


def _factors(x):
    """log2, exponent of two, log2 of the odd part, whether that is 1; 0 of all but positive whole numbers."""
    if not (1 <= x <= 2**31 and x == int(x)):
        return 0.0, 0, 0.0, False
    twos = (int(x) & -int(x)).bit_length() - 1
    odd = int(x) >> twos
    return twos + float(np.log2(odd)), twos, float(np.log2(odd)), odd == 1


def powers(columns, training, x):
    """Float64 columns (n, O) that tell of powers of two in features x (n, T), learnt from training rows (m, T)."""

    def derived(row):
        parts = [
            _factors(value) if column["kind"] in ("number", "log") else (0.0, 0, 0.0, False)
            for column, value in zip(columns, row.tolist(), strict=True)
        ]
        pairs = [a[3] and b[3] for i, a in enumerate(parts) for b in parts[i + 1 :]]
        twos, odd = sum(part[1] for part in parts), sum(part[2] for part in parts)
        return [*(n for part in parts for n in part), *pairs, twos, odd, odd == 0]

    told, rows = (np.array([derived(row) for row in a], np.float64) for a in (training, x))
    many = [len(np.unique(values)) > 2 for values in training.T]
    useful = [own for own in many for _ in range(4)]
    useful += [own and other for i, own in enumerate(many) for other in many[i + 1 :]] + [True] * 3
    kept = np.array(useful) & (np.ptp(told, axis=0) > 0)
    return ((rows - told.mean(0)) / np.where(kept, told.std(0), 1))[:, kept]


def walk_encoding(N, edges, directed=False, loops=False, first=1, steps=8, arriving=False):
    """(N, steps - first + 1): the diagonal of P^k, or what arrives from elsewhere, by dense matrix powers."""
    A = np.zeros((N, N))
    for u, v in edges:
        A[v, u] += 1  # from a node to its consumer
        if not directed:
            A[u, v] += 1
    A += loops * np.eye(N)
    degree = A.sum(1, keepdims=True)
    P = np.divide(A, degree, out=np.zeros_like(A), where=degree > 0)
    power, columns = np.eye(N), []
    for k in range(1, steps + 1):
        power = power @ P
        column = np.diag(power)
        columns.append(power.sum(0) - column if arriving and k >= 2 else column)
    return np.array(columns)[first - 1 :].T


def segments(N, edges, config_nodes, nodes):
    """Begin, end, edges inside and places of the configurable nodes of every segment (Cao et al. 2023)."""
    step = N // (N // nodes + 1) + 1
    for begin in range(0, N, step):
        end = min(begin + step, N)
        inside = [(u - begin, v - begin) for u, v in edges if begin <= u < end and begin <= v < end]
        mine = [k for k, node in enumerate(config_nodes) if begin <= node < end]
        yield begin, end, np.array(inside, np.int64).reshape(-1, 2), np.array(mine, np.int64)
