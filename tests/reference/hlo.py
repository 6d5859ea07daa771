"""What the extractor of TpuGraphs makes of a program, from the program (tests/hlo_files.py) instead of a file."""

import numpy as np

from tpugraphs import _core

OPCODES = {name: i + 1 for i, name in enumerate(_core.OPCODES.split())}
TYPES = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 16, 15, 18, 13, 14, 17]  # in the order of their columns
CLOSING = ("cluster", "while", "cond")


def wrap(number):
    """As int64."""
    return (number + 2**63) % 2**64 - 2**63


def first(values, count, padding=0):
    return [*values[:count], *[padding] * (count - len(values))]


def summed(values, count, empty=1):
    """The first ones, then sum and product of all."""
    product = 1 if values else empty
    for value in values:
        product = wrap(product * value)
    return [*first(values, count), wrap(sum(values)), product]


def features(i, is_root, padding):
    """Row (140,) of an instruction."""
    shape = i.get("shape", {"type": 0})
    window = [list(column) for column in zip(*i.get("window", []), strict=True)] or [[]] * 7
    reversal = window[6]
    c = i.get("convolution", {"kernel": [0, 0], "input": [0, 0], "output": [0, 0]})
    start, limit, stride = [list(column) for column in zip(*i.get("slices", []), strict=True)] or [[]] * 3
    low, high, _ = [list(column) for column in zip(*i.get("padding", []), strict=True)] or [[]] * 3
    row = [is_root, 0, *(shape.get("type", 11) == t for t in TYPES)]
    row += [*summed(shape.get("dims", []), 6), len(shape.get("tuple", [])), i.get("parameter_number", 0)]
    row += first(i.get("dimensions", []), 6, padding)
    for column in window[:6]:
        row += summed(column, 6)
    row += [*first(reversal, 6), sum(reversal), len(reversal) - sum(reversal)]
    row += [*c["input"], *first(c.get("input_spatial", []), 4, padding), *c["kernel"]]
    row += [*first(c.get("kernel_spatial", []), 4, padding), *c["output"]]
    row += [i.get("feature_groups", 0), i.get("batch_groups", 0)]
    for values in (start, stride, limit, i.get("dynamic_sizes", []), low, high):
        row += summed(values, 2)
    row += [i.get("stable", 0), *first(shape.get("layout", []), 6, padding)]
    return np.array([float(value) for value in row]).astype(np.float32)


def extra(i, is_root, dynamic):
    """Row (30,) of the third place."""
    contracting, right, batch, right_batch = i.get("dot", [[]] * 4)
    offset, collapsed, index_map, vector = i.get("gather", [[], [], [], 0])
    lists = (batch, contracting, offset, right_batch, right, index_map)
    three = [value for values in lists for value in first(values, 3, -1)]
    row = [*first(collapsed, 3, -1), *first(i.get("gather_sizes", []), 5, -1), dynamic, vector]
    return np.array([*row, i.get("sorted", 0), is_root, *three], np.float32)


def graph(module, padding=0):
    """Arrays of a program by name."""
    computations, rows, extras, opcodes, edges, splits = module["computations"], [], [], [], [], [0]
    starts = np.cumsum([0, *(len(c["instructions"]) for c in computations)]).tolist()
    roots = {}
    for c, start in zip(computations, starts, strict=False):
        ids = [i["id"] for i in c["instructions"]]
        roots[c["id"]] = start + ids.index(c["root"])
    for c, start in zip(computations, starts, strict=False):
        ids = [i["id"] for i in c["instructions"]]
        for place, i in enumerate(c["instructions"]):
            is_root = i["id"] == c["root"]
            rows.append(features(i, is_root, padding))
            opcodes.append(OPCODES.get(i["opcode"], 0))
            shown = np.full(16, -1 if i["opcode"] in ("dot", "convolution") else -2, np.float32)
            operands = i.get("operands", [])
            for k, operand in enumerate(operands[:2] if shown[0] == -1 else []):
                shown[8 * k : 8 * k + 8] = rows[start + ids.index(operand)][21:29]
            extras.append(np.concatenate([extra(i, is_root, module.get("dynamic", 0)), shown]))
            edges += [(start + place, start + ids.index(o)) for o in sorted(set(operands))]
            edges += [(start + place, roots[called]) for called in i.get("calls", [])]
        if any(word in c["name"] for word in CLOSING):
            splits.append(start + len(ids))
    return {
        "node_feat": np.stack(rows),
        "node_opcode": np.array(opcodes, np.uint8),
        "extra": np.stack(extras),
        "insertion_order": np.array(edges, np.int64).reshape(-1, 2),
        "edge_index": np.array(sorted(set(edges)), np.int64).reshape(-1, 2),
        "node_splits": np.array([*splits, starts[-1]], np.int64),
        "instruction_ids": np.array([i["id"] for c in computations for i in c["instructions"]], np.int64),
        "computation_sizes": np.diff(starts),
    }


def layouts(tuned):
    """Measurements of a layout graph by name."""
    kept = [run for run in tuned["runs"] if "layout" in run and not run.get("error") and "ns" in run]
    configs = np.full((len(kept), len(tuned["nodes"]), 18), -1, np.int8)
    for config, run in zip(configs, kept, strict=True):
        for row, node in zip(config, run["layout"], strict=True):
            for tensor, dims in enumerate(node):
                row[6 * tensor : 6 * tensor + 6] = first(dims, 6, -1)
    return {
        "node_config_ids": np.array(tuned["nodes"], np.int64),
        "node_config_feat": configs,
        "config_runtime": np.array([run["ns"] for run in kept], np.int64),
    }


def tiles(tuned):
    """Measurements of a tile graph by name."""
    kept = [run for run in tuned["runs"] if not run.get("error") and run.get("ns", 0) > 1]
    default = next(run["ns"] for run in kept if run.get("default"))
    rows = [[float(x) for bounds in run["tile"] for x in summed(bounds, 6, 0)] for run in kept]
    return {
        "config_feat": np.array(rows).astype(np.float32),
        "config_runtime": np.array([run["ns"] for run in kept], np.int64),
        "config_runtime_normalizers": np.full(len(kept), default),
    }
