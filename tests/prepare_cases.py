"""Programs of preprocessing, graphs for them, and what of both is refused."""

import numpy as np

from tpugraphs import _core

PRUNE = {"step": "prune", "method": "config-1hop"}
LAYOUT = [PRUNE, {"step": "dedup", "keep": "first"}, {"step": "layout-digits"}]
NODES = {"step": "standardize", "columns": 134}
CONFIGS = {"step": "standardize-configs", "columns": 5, "scale": "log"}

COLUMNS = {
    "node": [
        {"name": "size", "kind": "number"},
        {"name": "op", "kind": "category", "values": ["conv", "dot", "add"]},
    ],
    "graph": [{"name": "batch", "kind": "log"}, {"name": "fast", "kind": "flag"}],
    "config": [
        {"name": "block", "kind": "log"},
        {"name": "unroll", "kind": "number"},
        {"name": "wide", "kind": "number"},
        {"name": "same", "kind": "number"},
        {"name": "vector", "kind": "flag"},
        {"name": "order", "kind": "category", "values": [1, "b", 2.5, True]},
    ],
}
ENCODE = {"step": "encode", **COLUMNS, "levels": 4}
EXTRA = {
    "step": "extra-columns",
    "node": [
        {"name": "depth", "kind": "number"},
        {"name": "bytes", "kind": "log"},
        {"name": "hot", "kind": "flag"},
        {"name": "same", "kind": "number"},
    ],
}
POWERS = {"step": "powers", "config": COLUMNS["config"]}


def extra(seed=0, N=40):
    """Further features (N, 4) of nodes, by EXTRA."""
    rng = np.random.default_rng(seed + 99)
    columns = [rng.normal(9, 3, N), rng.integers(0, 2**20, N), rng.integers(0, 2, N), np.full(N, 7)]
    return np.stack(columns, 1).astype(np.float32)


def as_graph(arrays):
    """Return arguments of fit and apply: the arrays as a graph, unchecked, and further features of its nodes."""
    graph = _core.Graph()
    names = {"config_nodes": "node_config_ids"}
    graph._set(**{names.get(name, name): array for name, array in arrays.items() if name != "extra"})
    return graph, arrays.get("extra")


def stored(
    seed=0, N=40, E=60, K=6, C=30, published=False, T=5, acyclic=True, further=False, program=False, **changes
):
    """Arrays of a graph as the core takes them: random, or with features by COLUMNS."""
    rng = np.random.default_rng(seed)
    u = rng.integers(1, N, E)
    v = rng.integers(0, u) if acyclic else rng.integers(0, N, E)
    arrays = {
        "node_feat": np.stack([rng.normal(3, 9, N), rng.integers(0, 3, N)], 1),
        "node_opcode": rng.integers(0, 120, N).astype(np.uint8),
        "edge_index": np.stack([u, v], 1),
        "config_nodes": rng.permutation(N)[:K],
        "graph_feat": np.array([float(seed + 1), seed % 2]),
        "config_feat": np.stack(
            [2.0 ** rng.integers(0, 9, C), rng.integers(1, 4, C), rng.normal(0, 1e5, C), np.full(C, 7.0),
             rng.integers(0, 2, C), rng.integers(0, 3, C)], 1,
        ),
    }  # fmt: skip
    if published:
        feat = np.zeros((N, 140 + 46 * program))
        feat[:, 140:] = rng.integers(-1, 300, (N, 46 * program))
        feat[:, 148:149] = 1
        feat[:, :20] = rng.normal(0, 100, (N, 20))
        feat[:, 21:23], feat[:, 134] = 8, 1
        arrays |= {"node_feat": feat, "graph_feat": None, "config_feat": rng.integers(-2, 99, (C, T))}
    if further:
        arrays["extra"] = extra(seed, N)
    arrays = {**arrays, **changes}
    for name in ("node_feat", "graph_feat", "config_feat"):
        if arrays[name] is not None:
            arrays[name] = np.ascontiguousarray(arrays[name], np.float32)
    return arrays


PROGRAMS = {
    "layout": (
        [
            *LAYOUT,
            NODES,
            {"step": "walk-encoding", "steps": 7, "loops": True},
            {"step": "self-loops"},
            {"step": "node-padding", "value": 0},
            {"step": "segments", "nodes": 5},
        ],
        {"published": True},
    ),
    "tile": ([*LAYOUT[1:], NODES, CONFIGS], {"published": True, "K": 0}),
    "configs": ([{**CONFIGS, "step": "scale-configs"}], {"published": True, "K": 0}),
    "powers": ([ENCODE, POWERS], {}),
    "sizes": (
        [
            {"step": "virtual-node"},
            PRUNE,
            *LAYOUT[2:],
            {"step": "mod-features"},
            {"step": "dimension-flags"},
            {"step": "operand-shapes"},
            {"step": "log-columns", "columns": [21, 22, 27]},
            {"step": "walk-encoding", "steps": 3},
            {"step": "standardize", "columns": 303},
        ],
        {"published": True},
    ),
    "program": (
        [
            {"step": "virtual-node"},
            PRUNE,
            {"step": "program-columns"},
            {"step": "mod-features", "virtual": True},
            {"step": "operand-shapes", "virtual": True},
            {"step": "standardize", "columns": 262},
        ],
        {"published": True, "program": True},
    ),
    "columns": (
        [
            {"step": "prune", "method": "merge"},
            {"step": "layout-digits", "padding": 0, "least": 1},
            {"step": "range-columns", "columns": [5, 21], "low": [-3, 0], "high": [8, 1]},
            {"step": "virtual-node", "over": "clusters", "size": 7},
            {"step": "log-columns", "form": "signed"},
            {"step": "take-columns", "columns": [5, 3, 21]},
            {"step": "standardize", "columns": 3},
            {"step": "merge-opcodes"},
        ],
        {"published": True},
    ),
    "extra": ([{"step": "virtual-node"}, *LAYOUT, NODES, EXTRA], {"published": True, "further": True}),
    "encode": ([ENCODE, {"step": "walk-encoding", "steps": 6, "graph": "directed", "form": "arriving"}], {}),
}


class SequenceWithoutLength:
    """Something that can be indexed, and is no list."""

    def __getitem__(self, index):
        raise IndexError(index)


BAD_STEPS = {
    "no list": (4, "a list of steps, found 4"),
    "no dict": ([4], "found 4"),
    "no name": ([{}], "found an object of 0"),
    "unknown": ([{"step": "crop"}], "found 'crop'"),
    "unknown attribute": (
        [{**PRUNE, "hop": 2}],
        "step 'prune': attributes: expected only method, hops, neighbours, found 'hop'",
    ),
    "missing": ([{"step": "prune"}], "method: expected a value"),
    "choice": ([{"step": "prune", "method": "haircut"}], "one of none, config-1hop.*found 'haircut'"),
    "choice is no text": ([{"step": "prune", "method": 1}], "found 1"),
    "range": ([{**NODES, "columns": 0}], r"columns: expected a whole number in 1\.\.65536, found 0"),
    "huge": ([{**NODES, "columns": 10**400}], "columns: expected"),
    "half": ([{**NODES, "columns": 3.5}], r"found 3\.5"),
    "bool": ([{**NODES, "columns": True}], "found true"),
    "flag": ([{"step": "walk-encoding", "steps": 2, "loops": 2}], "true or false, found 2"),
    "order": ([NODES, PRUNE], "'prune': expected to come before"),
    "pruned after loops": ([{"step": "self-loops"}, PRUNE], "'prune': expected to come before"),
    "digits too late": ([NODES, {"step": "layout-digits"}], "'layout-digits': expected to come before"),
    "twice": ([NODES, NODES], "'standardize' once"),
    "two that scale": ([NODES, ENCODE], "'encode': expected to come before"),
    "too many columns": ([{"step": "layout-digits"}, {**NODES, "columns": 141}], "at most as many columns"),
    "first after last": ([{"step": "walk-encoding", "steps": 2, "first": 3}], "first to be at most steps"),
    "configs twice": (
        [{**CONFIGS, "step": "scale-configs"}, CONFIGS],
        "'standardize-configs': expected to come",
    ),
    "pruned twice": ([PRUNE, {**PRUNE, "method": "k-hop"}], "'prune' once"),
    "merged twice": ([LAYOUT[1], {**LAYOUT[1], "keep": "min"}], "'dedup' once"),
    "cut twice": ([{"step": "segments", "nodes": 5}, {"step": "segments", "nodes": 6}], "'segments' once"),
    "many": ([{"step": "node-padding", "value": 0}] * 33, "at most 32 steps"),
    "columns that are no list": (
        [{"step": "encode", "node": SequenceWithoutLength()}],
        "found SequenceWithoutLength",
    ),
    "columns": ([{"step": "encode", "node": "x"}], "a list of"),
    "column": ([{"step": "encode", "node": [{"name": "a"}]}], "columns {'name'"),
    "kind": ([{"step": "encode", "node": [{"name": "a", "kind": "word"}]}], "a: expected.*found 'word'"),
    "values": ([{"step": "encode", "node": [{"name": "a", "kind": "category"}]}], "a: expected a list of"),
    "levels": ([{**ENCODE, "levels": 65}], r"0\.\.64"),
    "columns too large": (
        [{"step": "log-columns", "columns": [65536]}],
        r"columns: expected a list of at most 65536 whole numbers in 0\.\.65535, found 65536",
    ),
    "columns that are no numbers": (
        [{"step": "log-columns", "columns": [1, True]}],
        "a list of at most 65536 whole",
    ),
    "number for a list": ([{"step": "take-columns", "columns": 4}], "a list of at most 65536 whole numbers"),
    "huge column": (
        [{"step": "take-columns", "columns": [10**400]}],
        "a list of at most 65536 whole numbers",
    ),
    "too many of them": ([{"step": "take-columns", "columns": [0] * 65537}], "a list of at most 65536 whole"),
    "no columns": ([{"step": "take-columns", "columns": []}], "'take-columns': expected at least one column"),
    "columns that went": (
        [{"step": "take-columns", "columns": [9, 3]}, {"step": "log-columns", "columns": [0, 2]}],
        "'log-columns': expected columns that the nodes have",
    ),
    "program columns too late": (
        [{"step": "log-columns"}, {"step": "program-columns"}],
        "'program-columns': expected to come before",
    ),
    "virtual after layouts": (
        [{"step": "layout-digits"}, {"step": "log-columns"}, {"step": "virtual-node"}],
        "'virtual-node': expected to come before every step that changes",
    ),
    "virtual after scaling": (
        [NODES, {"step": "virtual-node", "over": "clusters"}],
        "'virtual-node': expected to come before every step that changes",
    ),
    "virtual after loops": (
        [{"step": "self-loops"}, {"step": "virtual-node"}],
        "'virtual-node': expected to come before the step that adds loops",
    ),
    "ranges of none": (
        [{"step": "range-columns", "columns": [1], "low": [], "high": [1]}],
        "'range-columns': expected low and high",
    ),
    "extra twice": ([EXTRA, EXTRA], "'extra-columns' once"),
    "no extra": ([{**EXTRA, "node": []}], "'extra-columns': expected at least one column"),
    "extra categories": ([{**EXTRA, "node": COLUMNS["node"]}], "numbers, logs and flags, not a category"),
    "scaled after extra": ([EXTRA, NODES], "'standardize': expected to come before every other"),
    "virtual twice": ([{"step": "virtual-node"}] * 2, "'virtual-node' once"),
    "pruned after columns": ([{"step": "log-columns"}, PRUNE], "'prune': expected to come before"),
    "powers of nothing": ([ENCODE, {"step": "powers"}], "config: expected"),
    "powers of too many": (
        [{"step": "powers", "config": [{"name": f"c{i}", "kind": "number"} for i in range(359)]}],
        "'powers': expected at most 358 columns",
    ),
}


def put(name, at, value):
    def change(g):
        g[name][at] = value

    return change


BAD_GRAPHS = {
    "edge": (put("edge_index", (3, 1), 40), "edge_index.*40 in row 3"),
    "negative edge": (put("edge_index", (3, 1), -1), "edge_index.*-1 in row 3"),
    "config node": (put("config_nodes", 2, 99), "99 at 2"),
    "config node twice": (lambda g: put("config_nodes", 2, g["config_nodes"][0])(g), "node"),
    "NaN": (put("node_feat", (4, 0), np.nan), "node_feat: expected finite numbers, found nan in column 'size', row 4"),
    "infinity": (put("config_feat", (4, 2), np.inf), "config_feat.*inf in column 'wide', row 4"),
    "negative log": (put("config_feat", (8, 0), -1), "numbers >= 0 in a log column, found -1 in column 'block', row 8"),
    "flag": (put("config_feat", (8, 4), 0.5), "0 or 1 in a flag, found 0.5 in column 'vector', row 8"),
    "half a category": (put("node_feat", (8, 1), 0.5), "0.5 in column 'op', row 8"),
    "overflow": (put("config_feat", (8, 2), 3e38), None),
    "fewer columns": (
        lambda g: g.update(config_feat=g["config_feat"][:, :4].copy()),
        "config_feat: expected 6 columns.*'vector' is the first that is missing, found 4",
    ),
    "more columns": (lambda g: g.update(node_feat=np.zeros((40, 3), np.float32)), "node_feat: expected 2 columns"),
    "no graph features": (lambda g: g.update(graph_feat=None), "graph_feat: expected 2 columns.*'batch'"),
    "no configs": (lambda g: g.update(config_feat=None), "config_feat: expected 6 columns"),
    "no nodes": (lambda g: g.update(node_feat=np.zeros((0, 2), np.float32), node_opcode=None), "one node"),
    "float64": (lambda g: g.update(node_feat=g["node_feat"].astype(np.float64)), "node_feat: expected float32"),
    "short opcodes": (lambda g: g.update(node_opcode=g["node_opcode"][:-1].copy()), "node_opcode: expected"),
}  # fmt: skip
