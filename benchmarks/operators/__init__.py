"""Ops beside PyTorch and PyG: one module per op, called as the op.

A module has ``cases(setting)``, which yields a :class:`~benchmarks.sections.kernels.Case` per row: forward
and backward on 10,000 nodes, 64 wide (``setting.size`` makes it tiny in a quick run). The peers do the same
work; without ``setting.torch`` there are none. :class:`Sandwich` runs a step as models do, between an input
and scores.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from ..sections.kernels import Case, Setting

Array = np.ndarray[Any, Any]

NAMES = tuple(sorted(found.name for found in pkgutil.iter_modules(__path__)))
# Ops whose rows are elsewhere: the section that has them, and which of its rows they are.
ELSEWHERE = {
    "linear": ("kernels", "layers, epilogue"),
    "sage": ("kernels", "sage"),
    "embedding": ("profile", "embedding_opcode, embedding_layout"),
    "instance_norm": ("step", "fused into the first place's models"),
    "mix": ("profile", "mix1, mix2, block0, ..."),
}


def cases(name: str, setting: Setting) -> Iterator[Case]:
    """The rows of an op."""
    yield from importlib.import_module(f"{__name__}.{name}").cases(setting)


class Sandwich:
    """Steps from a fed slot ``x`` to a slot ``y``, both with rows of nodes and configs, and then to scores.

    ``y`` is averaged over the nodes, a linear layer makes it scores, a squared error is their loss. A pass is
    forward and backward, with the gradients of ``x``, of the slot ``weight`` (E, 1) if edges have weights,
    and of all parameters: the peers do the same.
    """

    def __init__(
        self, steps: list[dict[str, Any]], x: Array, edge_index: Array, weight: Array | None = None
    ) -> None:
        from tpugraphs import _core

        nodes, configs, width = x.shape
        to_scores = [
            {"op": "pool", "name": "pool", "in": ["y"], "out": "pooled", "attrs": {"kind": "mean"}},
            {"op": "linear", "name": "head", "in": ["pooled"], "out": "scores", "attrs": {"out": 1}},
        ]
        self.inputs = {"x": [x]} if weight is None else {"x": [x], "weight": [weight]}
        fed = {"x": ("NODE_CONFIG", width)} | ({} if weight is None else {"weight": ("EDGE", 1)})
        self.model = _core.Model([*steps, *to_scores], 0, 1, config_features=1, inputs=fed)
        self.trainer = _core.Trainer(self.model)
        none = np.zeros(0, np.int64)
        features = np.zeros((nodes, 1), np.float32), np.zeros((configs, 1), np.float32)
        graph = _core.ModelGraph(features[0], None, None, edge_index, none, None, features[1])
        self.slates = [(graph, np.arange(configs))]
        self.values = [np.arange(configs, dtype=np.float64)]

    def parameters(self) -> Mapping[str, Array]:
        """Views of the parameters by name."""
        flat = self.model.params
        return {n: flat[at : at + int(np.prod(s))].reshape(s) for n, at, s in self.model.layout}

    def __call__(self) -> Any:
        """Loss, scores and the gradients of inputs; those of the parameters are in ``trainer.grads``."""
        targets, loss = {"value": self.values}, [{"loss": "mse"}]
        return self.trainer.gradients(self.slates, targets, loss, inputs=self.inputs, of=[*self.inputs])


class TorchSandwich:
    """The same around a layer of PyTorch that takes rows (C * N, F), config by config, and edges of all."""

    def __init__(
        self, torch: Any, layer: Any, head: tuple[Array, Array], x: Array, edge_index: Array
    ) -> None:
        nodes, configs, _ = x.shape
        self.torch, self.layer, self.configs = torch, layer, configs
        self.head = [torch.from_numpy(array.copy()).requires_grad_() for array in head]
        self.x = torch.from_numpy(np.ascontiguousarray(x.swapaxes(0, 1)).reshape(configs * nodes, -1))
        self.x.requires_grad_()
        edges = torch.from_numpy(edge_index.T.copy())
        self.edges = torch.cat([edges + c * nodes for c in range(configs)], 1)
        self.values = torch.arange(configs, dtype=torch.float32)

    def __call__(self) -> Any:
        self.x.grad = None
        self.layer.zero_grad()
        y = self.layer(self.x, self.edges)
        pooled = y.view(self.configs, -1, y.shape[-1]).mean(1)
        scores = self.torch.nn.functional.linear(pooled, *self.head).flatten()
        loss = ((scores - self.values) ** 2).mean()
        loss.backward()
        return loss.item(), scores, self.x.grad


def same_job(ours: Sandwich, peer: TorchSandwich) -> TorchSandwich:
    """The peer, if its loss and its gradient of x are ours."""
    loss, _, gradients = ours()
    theirs, _, dx = peer()
    got = gradients["x"][0].swapaxes(0, 1).reshape(dx.shape)
    assert np.isclose(loss, theirs, rtol=1e-4), "not the same job: the losses differ"
    assert np.linalg.norm(got - dx.numpy()) <= 1e-3 * np.linalg.norm(got), (
        "not the same job: the gradients differ"
    )
    return peer


def config_graph(nodes: int, ids: Array, digits: Array | None = None, features: Array | None = None) -> Any:
    """A graph of the core without edges, which has configurable nodes."""
    from tpugraphs import _core

    features = np.zeros((nodes, 1), np.float32) if features is None else features
    return _core.ModelGraph(features, None, None, np.zeros((0, 2), np.int64), ids, digits)


def edge_graph(setting: Setting, nodes: int, edges: int) -> tuple[Any, Array]:
    """A graph of the core with edges, and its edges."""
    from tpugraphs import _core

    index = random_graph(setting, nodes, edges)
    features = np.zeros((nodes, 1), np.float32)
    return _core.ModelGraph(features, None, None, index, np.zeros(0, np.int64), None), index


def random_graph(setting: Setting, nodes: int, edges: int) -> Array:
    """(E,2) int64: mostly local edges from producers to consumers, as in compiled programs."""
    producer = setting.rng.integers(0, nodes - 1, edges)
    consumer = np.minimum(producer + setting.rng.geometric(0.05, edges), nodes - 1)
    return np.stack([producer, consumer], 1).astype(np.int64)
