"""Models and graphs that several tests use, and the view of a core model as named arrays."""

from __future__ import annotations

from typing import Any

import cases
import numpy as np

from tpugraphs import _core
from tpugraphs.recipes import get_recipe

Array = np.ndarray[Any, Any]


def hinge(margin: float = 1.0) -> list[dict[str, Any]]:
    """The published loss."""
    return [{"loss": "pairwise_hinge", "margin": margin, "reduction": "mean-all"}]


HINGE = hinge()
LIST_MLE = [{"loss": "list_mle", "reduction": "sum"}]


class Trained:
    """A model and its trainer under one name, for tests that use both."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.model = _core.Model(*args, **kwargs)
        self.trainer = _core.Trainer(self.model)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.trainer if hasattr(_core.Trainer, name) else self.model, name)

    def gradients(self, slates: Any, runtimes: Any, loss: Any = HINGE, **options: Any) -> Any:
        """Loss and scores; the gradients are in `grads`."""
        return self.trainer.gradients(slates, runtimes, loss, **options)

    def step(
        self, slates: Any, runtimes: Any, loss: Any, lr: float, weight_decay: float, clip: float, step: int,
        **options: Any
    ) -> float:  # fmt: skip
        """One step of AdamW."""
        optimizer = {"kind": "adamw", "lr": lr, "weight_decay": weight_decay, "clip": clip, "step": step}
        optimizer |= {name: options.pop(name) for name in ("beta1", "beta2", "eps") if name in options}
        return self.trainer.step(slates, runtimes, loss, optimizer, **options)


def step(
    op: str, name: str, inputs: str, slot: str, share: str | None = None, **attrs: Any
) -> dict[str, Any]:
    """One step; `inputs` are slot names separated by spaces."""
    made: dict[str, Any] = {"op": op, "name": name, "in": inputs.split(), "out": slot, "attrs": attrs}
    return made | {"share": {"table": share}} if share else made


def first_layout(
    cross: bool = True, columns: int = 134, dropout: float = 0.0, **fields: Any
) -> list[dict[str, Any]]:
    """The recipe of the first place's layout model in its published size, but by default without dropout.

    `columns`: how many node features there are.
    """
    recipe = get_recipe("first-layout-cross" if cross else "first-layout")
    steps = recipe.steps(recipe.fields("full", {"dropout": dropout, **fields}))
    for made in steps:
        if made["op"] == "config_linear":
            made["attrs"]["column"] = columns
    return steps


def first_tile(columns: int = 134, dropout: float = 0.0, **fields: Any) -> list[dict[str, Any]]:
    """The recipe of the first place's tile model in its published size, but by default without dropout."""
    recipe = get_recipe("first-tile")
    return recipe.steps(recipe.fields("full", {"dropout": dropout, **fields}))


def zoo() -> list[dict[str, Any]]:
    """Everything the first place does not use: node-only layers, slots read several times, own table, all pools."""
    return [
        step("linear", "pre", "node_feat", "p", out=9, act="relu"),
        step("sage", "nodes", "p", "q", out=7, direction="reverse"),
        step("config_linear", "config", "q", "c", out=12, column=3, cols=5),
        step("linear", "wide", "c", "w", out=12, act="gelu", stats=1),
        step("instance_norm", "norm", "w", "n"),
        step("sage", "both", "n", "s", out=12, direction="both"),
        step("mix", "add", "s c", "m", act="relu", stats=1),  # c and n are read twice
        step("sage", "normed", "m", "t", out=12, norm=1),
        step("mix", "gated", "t n", "g", gate=3, act="gelu", stats=1),
        step("mix", "twice", "g g", "u", norm=1),  # one slot in both places
        step("mix", "crossed", "u", "x", cross=1),
        step("pool", "pool", "x", "y", kind="mean+max+sum"),
        step("linear", "hidden", "y", "z", out=10, act="gelu"),
        step("linear", "out", "z", "scores", out=1),
    ]


def graph_arrays(
    nodes: int, configs: int, k: int, columns: int, seed: int, kind: str = "random"
) -> dict[str, Array]:
    """Arguments of ``_core.ModelGraph``."""
    rng = np.random.default_rng(seed)
    return {
        "node_feat": rng.normal(size=(nodes, columns)).astype(np.float32),
        "node_opcode": rng.integers(0, 121, nodes).astype(np.uint8),
        "layout_digits": rng.integers(-1, 6, (nodes, 6)).astype(np.int8),
        "edge_index": cases.edges(kind, nodes, rng),
        "config_nodes": rng.permutation(nodes)[:k].astype(np.int64),
        "digits": rng.integers(-1, 6, (configs, k, 18)).astype(np.int8),
    }


def tile_arrays(nodes: int, configs: int, columns: int, seed: int, kind: str = "random") -> dict[str, Array]:
    """Arguments of ``_core.ModelGraph`` of a tile graph."""
    arrays = graph_arrays(nodes, configs, 0, columns, seed, kind)
    del arrays["digits"]
    feat = np.random.default_rng([seed, 1]).normal(size=(configs, 24)).astype(np.float32)
    return arrays | {"config_feat": feat}


def named(model: Any, vector: str = "params") -> dict[str, Array]:
    """Views of a flat vector of the model by parameter name."""
    flat = getattr(model, vector)
    return {name: flat[at : at + int(np.prod(shape))].reshape(shape) for name, at, shape in model.layout}


def randomize(model: Any, seed: int) -> None:
    """Move every parameter, so that none (bias, temperature) keeps a special value."""
    model.params[:] += np.random.default_rng(seed).normal(size=model.num_parameters).astype(np.float32) * 0.05


def rows(count: int, start: int = 0) -> Array:
    """Config rows start, start + 1, ..."""
    return np.arange(start, start + count, dtype=np.int64)


def core_graph(arrays: dict[str, Array]) -> Any:
    """The core's graph."""
    return _core.ModelGraph(**arrays)


def torch_names(blocks: int = 2, cross: bool = True) -> dict[str, str]:
    """Parameter names of `first_layout` -> those of the published PyTorch model."""
    names = {
        "embedding_opcode.weight": "embedding_op.weight",
        "embedding_layout.weight": "embedding_layout_cfg.weight",
        "head.weight": "classifier.weight",
        "head.bias": "classifier.bias",
    }
    mixes = {"mix1": "linear", "mix2": "linear2"} | {f"block{i}": f"convs.{i}" for i in range(blocks)}
    for ours, theirs in mixes.items():
        for i in (1, 2):
            for part in ("weight", "bias"):
                names[f"{ours}.gate{i}_{part}"] = f"{theirs}.attn.linear{i}.{part}"
        if cross:
            names[f"{ours}.temperature"] = f"{theirs}.cross_attn.temperature"
    for ours, theirs in {"linear1": "linear", "linear2": "linear2"}.items():
        for part in ("weight", "bias"):
            names[f"{ours}.{part}"] = f"{theirs}.linear.{part}"
    for i in range(blocks):
        names |= {
            f"sage{i}.weight_l": f"convs.{i}.conv.lin_l.weight",
            f"sage{i}.bias_l": f"convs.{i}.conv.lin_l.bias",
        }
        names[f"sage{i}.weight_r"] = f"convs.{i}.conv.lin_r.weight"
    return names


def torch_tile_names(blocks: int = 2) -> dict[str, str]:
    """Parameter names of `first_tile` -> those of the PyTorch model."""
    names = {ours: theirs for ours, theirs in torch_names(blocks).items() if not ours.startswith("head")}
    for part in ("weight", "bias"):
        names |= {f"config{i + 1}.{part}": f"dense_cfg.{at}.{part}" for i, at in enumerate((0, 3))}
        names |= {f"head{i + 1}.{part}": f"dense.{at}.{part}" for i, at in enumerate((0, 3, 6))}
    return names


SPECS = {
    "cross": lambda columns, **kw: first_layout(True, width=24, columns=columns, **kw),
    "plain": lambda columns, **kw: first_layout(False, width=24, columns=columns, **kw),
    "both-ways": lambda columns, **kw: first_layout(
        True, width=16, blocks=1, columns=columns, direction="both", **kw
    ),
    "zoo": lambda columns: zoo(),
}
COLUMNS = 11


def make(spec="cross", seed=1, **kw):
    model = Trained(SPECS[spec](COLUMNS, **kw), seed, COLUMNS)
    randomize(model, seed)
    return model


def slate(seed=0, nodes=23, configs=9, k=8, kind="random", use=None):
    """(arrays, (ModelGraph, rows), runtimes)."""
    arrays = graph_arrays(nodes, configs, k, COLUMNS, seed, kind)
    chosen = rows(configs) if use is None else np.array(use, np.int64)
    runtimes = np.random.default_rng(seed + 1000).integers(1, 10**6, len(chosen))
    return arrays, (_core.ModelGraph(**arrays), chosen), runtimes
