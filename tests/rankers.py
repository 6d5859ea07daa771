"""Small graphs that something can be learnt from, for the tests of rankers."""

import numpy as np

import tpugraphs as tg
from tpugraphs import _core
from tpugraphs.data.hlo import EXTRA_LAYOUT
from tpugraphs.data.schema import Column, Schema
from tpugraphs.recipes import get_recipe
from tpugraphs.training import Callback

FIELDS = {"width": 16, "gate_reduction": 4, "configs": 16, "valid_configs": 64, "learning_rate": 3e-3}


def small_graph(seed=0, configs=96, nodes=14, config_nodes=4, copies=0, **changes):
    """A layout graph whose runtimes follow from the configs."""
    rng = np.random.default_rng(seed)
    feat = np.zeros((nodes, 140), np.float32)
    feat[:, :20] = rng.normal(size=(nodes, 20)).astype(np.float32)
    feat[:, 21:25] = rng.integers(1, 9, (nodes, 4))
    feat[:, 134:138] = [3, 2, 1, 0]
    edges = np.array([(u, rng.integers(0, u)) for u in range(1, nodes)], np.int64)
    ids = np.sort(rng.permutation(nodes)[:config_nodes])
    digits = rng.integers(-1, 6, (configs, config_nodes, 18)).astype(np.int8)
    cost = rng.normal(size=(config_nodes, 18, 7))
    total = sum(cost[k, j, digits[:, k, j] + 1] for k in range(config_nodes) for j in range(18))
    runtime = (1e6 * (50 + total)).astype(np.int64)
    if copies:
        digits[-copies:] = digits[:copies]
    given = {
        "node_feat": feat,
        "node_opcode": rng.integers(1, 120, nodes),
        "edge_index": edges,
        "node_config_ids": ids,
        "node_config_feat": digits,
        "config_runtime": runtime,
        "name": f"small{seed}",
    }
    return tg.LayoutGraph(**{**given, **changes})


def small_wide(seed=0, **changes):
    """The same as it is read from a protocol buffer with extra=True: with 46 more columns of nodes."""
    graph, rng = small_graph(seed, **changes), np.random.default_rng(seed + 100)
    more = rng.integers(-1, 4, (graph.num_nodes, 46))
    more[:, 30:] *= 50  # shapes of operands
    more[:, 30:].clip(-2, out=more[:, 30:])
    more[:, 8] = seed % 2  # of the whole program
    return tg.Graph(
        node_feat=np.c_[graph.node_feat, more], node_opcode=graph.node_opcode, edge_index=graph.edge_index,
        node_config_ids=graph.node_config_ids, node_config_feat=graph.node_config_feat,
        runtime=graph.config_runtime, schema=EXTRA_LAYOUT, name=graph.name,
    )  # fmt: skip


def small_tile(seed=0, configs=40, **changes):
    """A kernel whose normalised runtimes follow from the configs, and whose plain ones do not."""
    rng = np.random.default_rng(seed)
    feat = np.zeros((9, 140), np.float32)
    feat[:, :30] = rng.normal(size=(9, 30))
    config = rng.integers(1, 64, (configs, 24)).astype(np.float32)
    normalizers = rng.integers(10**4, 10**7, configs)
    given = {
        "node_feat": feat,
        "node_opcode": rng.integers(1, 120, 9),
        "edge_index": np.stack([np.arange(1, 9), np.arange(8)], 1),
        "config_feat": config,
        "config_runtime": (normalizers * (1 + config[:, :8].sum(1) / 100)).astype(np.int64),
        "config_runtime_normalizers": normalizers,
        "name": f"small{seed}",
    }
    return tg.TileGraph(**{**given, **changes})


ANY = Schema(
    node=(Column("size", "log"), Column("where", "category", ("host", "device"))),
    graph=(Column("batch", "log"), Column("fast", "flag")),
    config=(
        Column("block", "log"), Column("unroll"), Column("vector", "flag"),
        Column("order", "category", ("row", "column", "tiled")),
    ),
    opcodes=7,
    unit="ms",
)  # fmt: skip


def small_any(seed=0, configs=48, **changes):
    """A program with a schema of its own, whose runtimes follow from the configs."""
    rng = np.random.default_rng(seed)
    config = np.stack(
        [2.0 ** rng.integers(0, 9, configs), rng.integers(1, 9, configs), rng.integers(0, 2, configs),
         rng.permutation(np.arange(configs) % 3)], 1,
    ).astype(np.float32)  # fmt: skip
    given = {
        "node_feat": np.stack([2.0 ** rng.integers(0, 20, 9), np.arange(9) % 2], 1),
        "node_opcode": rng.integers(0, 7, 9),
        "edge_index": np.stack([np.arange(1, 9), rng.integers(0, np.arange(1, 9))], 1),
        "graph_feat": np.array([float(1 + seed), seed % 2]),
        "config_feat": config,
        "runtime": 0.1 + np.abs(np.log2(config[:, 0]) - 5) + config[:, 3] + rng.uniform(0, 0.1, configs),
        "schema": ANY,
        "name": f"small{seed}",
    }
    return tg.Graph(**{**given, **changes})


SMALL_GRAPHS = {"layout": small_graph, "tile": small_tile, "graph": small_any}  # one of every kind, by seed


def networks(kind=None):
    """Names of the recipes that train a network."""
    return [name for name in tg.list_recipes(kind) if get_recipe(name).estimator == "network"]


def having(recipe, **fields):
    """Those of the fields that the recipe has: models differ in what can be made small."""
    known = get_recipe(recipe).options.__dataclass_fields__
    return {name: value for name, value in fields.items() if name in known}


def small_ranker(recipe="first-layout-cross", **fields):
    return tg.Ranker(recipe, **{**having(recipe, **FIELDS), "steps": 20, "evaluate_every": 5, **fields})


def state(ranker):
    """The bits of a ranker: of a network its weights and the state of its optimizer."""
    if get_recipe(ranker.recipe).estimator != "network":
        metadata, tensors = ranker.to_file()
        return [repr(metadata), *(array.tobytes() for array in tensors.values())]
    trainer = ranker.trainer
    return [vector.tobytes() for vector in (ranker.model.params, trainer.moment1, trainer.moment2)]


def same_as_the_library(scores, expected):
    """Bits, unless the extension is a checked build, which is compiled with other flags than the library."""
    if _core.checked():
        return np.allclose(scores, expected, 1e-2, 1e-2)  # bf16 may round to the next number
    return np.asarray(scores, np.float32).tobytes() == np.asarray(expected, np.float32).tobytes()


class Break(Callback):
    """An error at a step, as from a full disk."""

    def __init__(self, at=None):
        self.at = at

    def on_step(self, fit):
        if fit.step == self.at:
            raise OSError("broken")


class Lazy:
    """A split of a collection: graphs come into being when asked for."""

    def __init__(self, *seeds, **changes):
        self.seeds, self.changes, self.reads = seeds, changes, 0

    def __len__(self):
        return len(self.seeds)

    def __getitem__(self, i):
        self.reads += 1
        return small_graph(self.seeds[i], **self.changes)
