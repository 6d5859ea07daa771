"""Published solutions written once more in PyTorch and PyG, a module per file of `tpugraphs/recipes/`.

A module has `CASES`. Its models are written from the papers and write-ups, in PyTorch's own words where there are
some, and read nothing of a recipe but the values of its fields and the names of its parameters. So an error in a
recipe is not made twice. `tests/test_solutions.py` compares scores, losses and gradients.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch_geometric.nn import SAGEConv

Weights = dict[str, Tensor]
Graph = dict[str, Tensor]


class Slate(NamedTuple):
    """Scores, runtimes and values (what losses of values fit) of the configs of a graph, (C,) each."""

    scores: Tensor
    runtimes: Tensor
    values: Tensor


class Case(NamedTuple):
    """One solution in a small size.

    `scores(w, g, fields)` returns (C,): `w` holds the parameters by their names in the recipe, `g` the arrays of
    a prepared graph: node_feat (N, F), node_opcode (N,), layout_digits (N, 6), edge_index (E, 2), config_nodes
    (K,), and digits (C, K, 18) or config_feat (C, 24). `loss(slates)` is that of a batch.
    """

    recipe: str
    fields: dict[str, Any]
    scores: Callable[[Weights, Graph, Any], Tensor]
    loss: Callable[[Sequence[Slate]], Tensor]


def cases() -> list[Case]:
    """All cases of all modules."""
    modules = [
        importlib.import_module(f"{__name__}.{found.name}") for found in pkgutil.iter_modules(__path__)
    ]
    return [case for module in modules for case in getattr(module, "CASES", ())]


def part(w: Weights, name: str) -> Weights:
    """Parameters of the step `name`, by their own names."""
    return {key.removeprefix(f"{name}."): value for key, value in w.items() if key.startswith(f"{name}.")}


def linear(w: Weights, name: str, x: Tensor) -> Tensor:
    """The linear layer `name`, with a bias if it has one."""
    return torch.nn.functional.linear(x, **part(w, name))


def conv(module: torch.nn.Module, w: Weights, x: Tensor, *arguments: Any) -> Tensor:
    """A module of PyG with the weights `w`, all of which it must have."""
    assert w.keys() == dict(module.named_parameters()).keys()
    made: Tensor = torch.func.functional_call(module, w, (x, *arguments))
    return made


SAGE = {"weight_l": "lin_l.weight", "bias_l": "lin_l.bias", "weight_r": "lin_r.weight"}


def sage(w: Weights, name: str, x: Tensor, edge_index: Tensor) -> Tensor:
    """The GraphSAGE layer `name`: a node v gets the mean of the rows of u over the edges (u, v)."""
    weights = {SAGE[key]: value for key, value in part(w, name).items()}
    return conv(SAGEConv(x.shape[-1], len(weights["lin_l.bias"])), weights, x, edge_index.T)


def every_node(g: Graph, scale: float = 1.0) -> Tensor:
    """(C, N, 18): the digits of a node's config times `scale`, 0 at nodes without."""
    digits = g["digits"]
    every = torch.zeros(len(digits), len(g["node_feat"]), digits.shape[-1], dtype=torch.float64)
    every[:, g["config_nodes"]] = scale * digits.double()
    return every


def join(*parts: Tensor) -> Tensor:
    """Columns next to each other; (N, F) is repeated for every config of (C, N, F)."""
    shape = torch.broadcast_shapes(*(some.shape[:-1] for some in parts))
    return torch.cat([some.expand(*shape, some.shape[-1]) for some in parts], -1)
