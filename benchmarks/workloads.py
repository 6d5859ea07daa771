"""Graphs to race on. Every workload is already pruned; both sides get the same arrays."""

from __future__ import annotations

from typing import Any

import made
import numpy as np

import tpugraphs as tg
from tpugraphs import kernels, preprocess

Arrays = dict[str, np.ndarray[Any, Any]]

# name -> nodes, edges, configurable nodes, configs of a synthetic graph; "S" is AlexNet
SYNTHETIC = {
    "tiny": (20, 24, 6, 16),
    "M64": (1000, 1300, 200, 64),
    "M": (1000, 1300, 200, 128),
    "L64": (4000, 5200, 800, 64),
    "L": (4000, 5200, 800, 128),
    "FULL": (10000, 16000, 800, 64),
}
PLAIN = "-plain"  # suffix of a workload without attention across configs
NAMES = tuple(name + suffix for name in ("S", *SYNTHETIC) for suffix in ("", PLAIN))


ALEXNET = (372, 26, 33_774)  # its nodes, configurable nodes and configs


def alexnet(quick: bool = False) -> Any:
    """AlexNet as it was measured; in a quick run a made-up program, so that it needs no data."""
    if not quick:
        return tg.sample("alexnet", download=False)
    nodes, configurable, configs = ALEXNET
    return made.program(0, nodes, configurable, configs // 10)


def missing(name: str) -> str | None:
    """Why a workload, or ``S`` for all that is about AlexNet, cannot be raced here; None if it can."""
    if name.removesuffix(PLAIN) == "S":
        try:
            alexnet()
        except tg.DataError as error:
            return str(error)
    return None


def prepared(graph: Any, configs: int | None = None) -> tuple[Arrays, np.ndarray[Any, Any]]:
    """Prune a layout graph as the first place does, with this many of its configs, or all."""
    graph = tg.prune(graph)
    rows = np.arange(graph.num_configs)
    if configs is not None:
        rows = kernels.sample_without_replacement(graph.num_configs, configs, (0,))
    scaled = np.ascontiguousarray(graph.node_feat[:, :134])
    arrays = {
        "node_feat": preprocess.StandardScaler().fit(scaled).transform(scaled),
        "node_opcode": graph.node_opcode,
        "layout_digits": kernels.layout_digits(graph.node_feat),
        "edge_index": graph.edge_index,
        "config_nodes": graph.node_config_ids,
        "digits": np.ascontiguousarray(graph.config_digits[rows]),
    }
    return arrays, graph.config_runtime[rows]


def synthetic(nodes: int, edges: int, configurable: int, configs: int) -> tuple[Arrays, np.ndarray[Any, Any]]:
    """A random directed acyclic graph with mostly local edges, consumers after producers."""
    rng = np.random.default_rng(0)
    producer = rng.integers(0, max(nodes - 1, 1), edges)
    consumer = np.minimum(producer + rng.geometric(0.05, edges), nodes - 1)
    arrays = {
        "node_feat": rng.standard_normal((nodes, 134)).astype(np.float32),
        "node_opcode": rng.integers(0, 120, nodes).astype(np.uint8),
        "layout_digits": rng.integers(-1, 6, (nodes, 6)).astype(np.int8),
        "edge_index": np.stack([consumer, producer], 1).astype(np.int64),
        "config_nodes": np.sort(rng.choice(nodes, configurable, replace=False)).astype(np.int64),
        "digits": rng.integers(-1, 6, (configs, configurable, 18)).astype(np.int8),
    }
    return arrays, rng.permutation(configs).astype(np.int64)


def of_size(nodes: int, configs: int) -> tuple[Arrays, np.ndarray[Any, Any]]:
    """A graph with M's proportions: 1.3 edges per node, every fifth node configurable."""
    return synthetic(nodes, nodes * 13 // 10 if nodes > 1 else 0, max(1, nodes // 5), configs)


def load(name: str) -> tuple[Arrays, np.ndarray[Any, Any]]:
    """Arrays of a ``_core.ModelGraph``, and runtimes (C,) int64, of NAMES or ``"<nodes>x<configs>"``."""
    name = name.removesuffix(PLAIN)
    if name == "S":
        return prepared(alexnet(), 64)
    if name in SYNTHETIC:
        return synthetic(*SYNTHETIC[name])
    nodes, configs = name.split("x")
    return of_size(int(nodes), int(configs))


def crosses(name: str) -> bool:
    """Whether the model of a workload has attention across configs."""
    return not name.endswith(PLAIN)
