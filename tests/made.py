"""Made-up programs and kernels in the published schema, for trying things without measured ones.

A program is a small network: parameters, convolutions, products of matrices, reshapes and elementwise
instructions, with shapes that fit each other and every feature where the extractor puts it. Its runtimes
follow from a simple model of memory traffic: a tensor is slow to read or write if its minor dimension is
short, and is copied where two neighbours want different layouts. Nothing was measured, so results on these
graphs say nothing about compilers.
"""

from __future__ import annotations

import itertools
from functools import cache
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tpugraphs import _core
from tpugraphs.data.published import LayoutGraph, TileGraph
from tpugraphs.data.schema import LAYOUT, TILE
from tpugraphs.errors import ConfigError
from tpugraphs.system.words import counted

__all__ = ["kernel", "program"]

_OPCODE = {name: number for number, name in enumerate(_core.OPCODES.split(), 1)}
_NODE, _TILE = ({column.name: i for i, column in enumerate(c)} for c in (LAYOUT.node, TILE.config))
_DIMENSIONS = _core.SCHEMA["layout_digits"]
_TENSORS = {"convolution": 3, "dot": 3, "reshape": 2}  # output, input, kernel: what a config lays out
_UNARY, _BINARY = ("exponential", "tanh", "negate", "rsqrt"), ("add", "multiply", "maximum", "subtract")
_LANES = 128  # elements of a minor dimension that are moved at once
_COPIES = 0.15  # share of the configs that are measured again
_MODES = 8e-4  # between the two speeds at which a machine runs, as share of the runtime


class _Node(NamedTuple):
    opcode: str
    shape: tuple[int, ...]
    operands: tuple[int, ...] = ()
    window: tuple[int, int] | None = None  # size and stride of a convolution, the same for both dimensions


def program(
    seed: int = 0, nodes: int = 100, configurable: int = 12, configs: int = 300, name: str | None = None
) -> LayoutGraph:
    """Make a program with layout configs; the first one sets nothing, and some come several times.

    Parameters
    ----------
    seed : int
        The same program and configs for the same arguments.
    nodes, configurable, configs : int
        At least 8 nodes, and 4 for each configurable one.
    name : str, optional

    Returns
    -------
    LayoutGraph
        With made-up runtimes in nanoseconds.

    Raises
    ------
    ConfigError
        Too few nodes, or no configs.
    """
    if nodes < max(8, 4 * configurable) or min(configurable, configs) < 1:
        raise ConfigError(
            "expected 1 configurable node and 1 config or more, and 8 nodes or more, 4 for each configurable "
            f"one; found {counted(nodes, 'node')}, {configurable} configurable, {counted(configs, 'config')}"
        )
    rng = np.random.default_rng((seed, nodes, configurable, configs))
    made = _instructions(rng, nodes, configurable)
    places = [i for i, node in enumerate(made) if node.opcode in _TENSORS]
    places = sorted(rng.permutation(places)[:configurable].tolist())
    digits, runtime = _layouts(
        rng, [made[i] for i in places], [made[made[i].operands[0]] for i in places], configs
    )
    return LayoutGraph(
        **_published(made),
        node_config_ids=np.array(places, np.int64),
        node_config_feat=digits,
        config_runtime=runtime,
        name=name or f"program_{seed}",
    )


def kernel(seed: int = 0, nodes: int = 16, configs: int = 40, name: str | None = None) -> TileGraph:
    """Make a fused kernel with tile sizes; the first config is the default, by which others are normalised.

    Parameters
    ----------
    seed : int
        The same kernel and configs for the same arguments.
    nodes, configs : int
        At least 8 nodes. Some configs come several times.
    name : str, optional

    Returns
    -------
    TileGraph
        With made-up runtimes in nanoseconds.

    Raises
    ------
    ConfigError
        Too few nodes, or no configs.
    """
    if nodes < 8 or configs < 1:
        raise ConfigError(
            f"expected 8 nodes and 1 config or more, found {counted(nodes, 'node')}, "
            f"{counted(configs, 'config')}"
        )
    rng = np.random.default_rng((seed, nodes, configs))
    made = _instructions(rng, nodes, 1)
    shape = made[-1].shape
    sizes = [2 ** np.arange(int(np.log2(dim)) + 1) for dim in shape]
    tiles = np.stack([rng.choice(size, configs) for size in sizes], 1)
    tiles[0] = [size[-1] for size in sizes]
    table = np.zeros((configs, len(TILE.config)), np.float32)
    _fill(table.T, _TILE, "output_bounds", tiles.T)
    count = np.prod(-(-np.array(shape) // tiles), 1)
    volume, lanes = tiles.prod(1), np.minimum(_LANES, tiles[:, -1]) / _LANES
    cycles = count * (600 + volume / (0.1 + 0.9 * lanes) * np.where(volume > 2**16, 3.0, 1.0))
    runtime = _measured(rng, 2000 + cycles / 16)
    return TileGraph(
        **_published(made),
        config_feat=table,
        config_runtime=runtime,
        config_runtime_normalizers=np.full(configs, runtime[0]),
        name=name or f"kernel_{seed}",
    )


# --- instructions -------------------------------------------------------------------------------------------


def _instructions(rng: np.random.Generator, count: int, needed: int) -> list[_Node]:
    """Draw the instructions (count) of a network, operands before users; `needed` have layouts to choose."""
    size, width = int(2 ** rng.integers(3, 7)), int(2 ** rng.integers(2, 6))
    made = [_Node("parameter", (int(2 ** rng.integers(0, 6)), size, size, width))]
    value, done = 0, 0
    while len(made) < count - 1:
        room = count - 1 - len(made)
        due = done < needed and (needed - done) * 2 >= room - 2
        kind = rng.random()
        shape = made[value].shape
        if room >= 2 and (due or kind < 0.2):
            value = _product(rng, made, value)
            done += 1
        elif kind < 0.3:
            flat = (shape[0], prod(shape[1:])) if len(shape) == 4 else (shape[0], 1, 1, shape[1])
            made.append(_Node("reshape", flat, (value,)))
            value, done = len(made) - 1, done + 1
        elif kind < 0.4:
            made.append(_Node("constant", ()))
            if room >= 3:
                made.append(_Node("broadcast", shape, (len(made) - 1,)))
        else:
            alike = [i for i, node in enumerate(made) if node.shape == shape and i != value]
            if alike and kind < 0.8:
                pair = (value, int(rng.choice(alike)))
                made.append(_Node(str(rng.choice(_BINARY)), shape, pair))
            else:
                made.append(_Node(str(rng.choice(_UNARY)), shape, (value,)))
            value = len(made) - 1
    made.append(_Node("negate", made[value].shape, (value,)))
    return made


def _product(rng: np.random.Generator, made: list[_Node], value: int) -> int:
    """Append weights and a convolution, or a product of matrices, of a value; return where its result is."""
    shape, wide = made[value].shape, int(2 ** rng.integers(3, 9))
    operands = (value, len(made))
    if len(shape) == 2:
        made.append(_Node("parameter", (shape[1], wide)))
        made.append(_Node("dot", (shape[0], wide), operands))
    else:
        window, stride = int(rng.choice([1, 3, 5])), int(rng.choice([1, 1, 2])) if shape[1] > 1 else 1
        made.append(_Node("parameter", (window, window, shape[3], wide)))
        out = (shape[0], -(-shape[1] // stride), -(-shape[2] // stride), wide)
        made.append(_Node("convolution", out, operands, (window, stride)))
    return len(made) - 1


def _published(made: list[_Node]) -> dict[str, Any]:
    """Features, opcodes and edges of instructions, as the extractor gives them."""
    table = np.zeros((len(made), len(LAYOUT.node)), np.float32)
    empty = [place for name, place in _NODE.items() if name.endswith("_product")]
    table[:, empty] = 1  # products of empty lists
    parameters = itertools.count()
    for row, node in zip(table, made, strict=True):
        row[_NODE["element_type_f32"]] = 1
        _fill(row, _NODE, "shape_dimension", node.shape)
        order = range(len(node.shape))[::-1]
        row[_NODE["layout_minor_to_major_0"] :][: len(order)] = order
        if node.opcode == "parameter":
            row[_NODE["parameter_number"]] = next(parameters)
        if node.window:
            _convolution(row, *node.window)
    table[-1, _NODE["is_root"]] = 1
    edges = sorted({(user, operand) for user, node in enumerate(made) for operand in node.operands})
    return {
        "node_feat": table,
        "node_opcode": np.array([_OPCODE[node.opcode] for node in made], np.uint8),
        "edge_index": np.array(edges, np.int64).reshape(-1, 2),
        "node_splits": np.array([[0, len(made)]], np.int64),
    }


def _convolution(row: NDArray[np.float32], window: int, stride: int) -> None:
    """Set the features that only a convolution over two dimensions (N, H, W, C) has."""
    for name, value in (("size", window), ("stride", stride), ("window_dilation", 1), ("base_dilation", 1)):
        _fill(row, _NODE, f"window_{name}", (value, value))
    for name, value in (("low", (window - 1) // 2), ("high", window // 2)):
        _fill(row, _NODE, f"window_padding_{name}", (value, value))
    row[_NODE["window_reversal_false_count"]] = 2
    for name, value in {
        "conv_input_feature": 3, "conv_input_spatial_0": 1, "conv_input_spatial_1": 2,
        "conv_kernel_input_feature": 2, "conv_kernel_output_feature": 3, "conv_kernel_spatial_1": 1,
        "conv_output_feature": 3, "feature_group_count": 1, "batch_group_count": 1,
    }.items():  # fmt: skip
        row[_NODE[name]] = value


def _fill(row: NDArray[np.float32], places: dict[str, int], name: str, values: object) -> None:
    """Set entries, sum and product of a list; `row` and the values may be columns of several rows."""
    given = np.asarray(values, np.int64)
    row[places[f"{name}_0"] :][: len(given)] = given
    row[places[f"{name}_sum"]] = given.sum(0)
    row[places[f"{name}_product"]] = given.prod(0)


# --- configs ------------------------------------------------------------------------------------------------


@cache
def _orders(rank: int) -> NDArray[np.int8]:
    """All layouts of a tensor (rank!, digits), minor to major, behind the one that sets nothing."""
    orders = [*itertools.permutations(range(rank))]
    table = np.full((1 + len(orders), _DIMENSIONS), -1, np.int8)
    table[1:, :rank] = orders
    return table


def _layouts(
    rng: np.random.Generator, nodes: list[_Node], inputs: list[_Node], configs: int
) -> tuple[NDArray[np.int8], NDArray[np.int64]]:
    """Draw digits (C, K, digits) of configurable nodes, and runtimes (C,) by the model of memory traffic."""
    digits = np.full((configs, len(nodes), len(LAYOUT.digits)), -1, np.int8)
    unset = rng.random((configs, len(nodes))) < 0.3
    unset[0] = True
    copies = int(_COPIES * configs)
    again = rng.integers(0, configs - copies, copies)
    cost = np.full(configs, 2e4)
    result: tuple[int, NDArray[np.int64] | None] = (0, None)  # rank and layouts of what the node before gives
    for k, (node, given) in enumerate(zip(nodes, inputs, strict=True)):
        side = node.window[:1] * 2 if node.window else ()
        shapes = (node.shape, given.shape, (*side, given.shape[-1], node.shape[-1]))
        orders = []
        for tensor, shape in enumerate(shapes[: _TENSORS[node.opcode]]):
            table = _orders(len(shape))
            chosen = np.where(unset[:, k], 0, rng.integers(1, len(table), configs))
            chosen[configs - copies :] = chosen[again]
            digits[:, k, tensor * _DIMENSIONS :][:, :_DIMENSIONS] = table[chosen]
            order = np.where(
                chosen == 0, len(table) - 1, chosen
            )  # unset: the last dimension is the minor one
            lanes = np.minimum(_LANES, np.array(shape)[table[order, 0]]) / _LANES
            cost += prod(shape) / 64 / (0.2 + 0.8 * lanes)
            orders.append(order)
        if result[1] is not None and result[0] == len(given.shape):
            cost += np.where(result[1] != orders[1], prod(given.shape) / 16, 0.0)
        result = (len(node.shape), orders[0])
    return digits, _measured(rng, cost)


def _measured(rng: np.random.Generator, nanoseconds: NDArray[np.float64]) -> NDArray[np.int64]:
    """Turn modelled times into runtimes in whole tenths of a microsecond, with the noise of a machine."""
    noisy = nanoseconds * (1 + _MODES * rng.integers(0, 2, len(nanoseconds)))
    return np.maximum(1, np.rint(noisy / 100)).astype(np.int64) * 100
