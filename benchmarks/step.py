"""A training step of the first place's layout model beside PyTorch's: same weights and loss, interleaved."""

from __future__ import annotations

import statistics
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from tpugraphs import _core
from tpugraphs.recipes import get_recipe

from . import workloads


def ours(arrays: workloads.Arrays, runtimes: Any, cross: bool) -> tuple[Callable[[], float], Any]:
    """A function that takes one step, and the model."""
    recipe = get_recipe("first-layout-cross" if cross else "first-layout")
    model = _core.Model(recipe.steps(recipe.fields("full", {})), 0, 134)
    graph, rows = _core.Graph(**arrays), np.arange(len(runtimes))
    count = 0

    def step() -> float:
        nonlocal count
        count += 1
        hinge = ("pairwise_hinge", 1.0, "mean-all")
        return float(model.step([(graph, rows)], [runtimes], hinge, 1e-3, 1e-5, 1.0, count))

    return step, model


def theirs(
    arrays: workloads.Arrays, runtimes: Any, model: Any, cross: bool, threads: int
) -> Callable[[], float]:
    """The same for PyTorch, with the weights of our model."""
    warnings.simplefilter("ignore")
    import models
    import torch
    import torch_model

    torch.set_num_threads(threads)
    peer = torch_model.Published(cross, dropout=0.2)
    names = models.torch_names(2, cross)
    for name, view in models.named(model).items():
        dict(peer.named_parameters())[names[name]].data = torch.tensor(view)
    optimizer = torch.optim.AdamW(peer.parameters(), lr=1e-3, weight_decay=1e-5)

    def step() -> float:
        optimizer.zero_grad(set_to_none=True)
        loss = torch_model.hinge(peer(arrays), runtimes)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(peer.parameters(), 1.0)
        optimizer.step()
        return float(loss.detach())

    return step


def timed(step: Callable[[], float]) -> tuple[float, float]:
    start = time.perf_counter()
    loss = step()
    return time.perf_counter() - start, loss


def race(name: str, cross: bool, rounds: int, threads: int) -> dict[str, Any]:
    """Medians of interleaved steps (seconds), after one warm-up of each."""
    arrays, runtimes = workloads.load(name)
    _core.set_num_threads(threads)
    step, model = ours(arrays, runtimes, cross)
    peer = theirs(arrays, runtimes, model, cross, threads)
    first = step(), peer()
    times = [(timed(step)[0], timed(peer)[0]) for _ in range(rounds)]
    mine, other = (statistics.median(column) for column in zip(*times, strict=True))
    return {
        "workload": name,
        "recipe": "first-layout-cross" if cross else "first-layout",
        "nodes": len(arrays["node_feat"]),
        "edges": len(arrays["edge_index"]),
        "configs": len(runtimes),
        "threads": threads,
        "ours_ms": 1e3 * mine,
        "peer_ms": 1e3 * other,
        "ratio": statistics.median(b / a for a, b in times),
        "first_losses": first,
    }
