"""The first place's layout model on both sides, as functions without arguments that can be timed."""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from tpugraphs import Error, _core
from tpugraphs.recipes import get_recipe

from . import workloads

HINGE = [{"loss": "pairwise_hinge", "margin": 1.0, "reduction": "mean-all"}]
TRAINING, SCORING = ("f32", "bf16"), ("f32", "bf16", "int8")
Call = Callable[[], Any]


def have_torch() -> bool:
    """Whether the peers of the [bench] extra are installed."""
    return all(importlib.util.find_spec(name) for name in ("torch", "torch_geometric"))


def extra(precision: str) -> dict[str, str]:
    """Keyword for a pass of the core: none for its default."""
    return {} if precision == "f32" else {"precision": precision}


def adamw(step: int, rate: float = 1e-3) -> dict[str, Any]:
    """Return the published optimizer at that step."""
    return {"kind": "adamw", "lr": rate, "weight_decay": 1e-5, "clip": 1.0, "step": step}


def works(call: Call) -> bool:
    """Whether this build and processor can do it: a version without `precision` says TypeError."""
    try:
        call()
    except (TypeError, ValueError, Error):
        return False
    return True


class Ours:
    """A model of the core on one workload."""

    def __init__(self, name: str, preset: str = "full") -> None:
        self.arrays, self.runtimes = workloads.load(name)
        self.cross = workloads.crosses(name)
        recipe = get_recipe("first-layout-cross" if self.cross else "first-layout")
        self.steps = recipe.steps(recipe.fields(preset, {}))
        self.graph = _core.ModelGraph(**self.arrays)
        self.rows = np.arange(len(self.runtimes))
        self.width = int(recipe.fields(preset, {}).width)

    def model(self) -> Any:
        """A new model, always with the same weights."""
        return _core.Model(self.steps, 0, 134)

    def stepper(self, precision: str = "f32", threads: int | None = None) -> Call:
        """Take one training step: dropout, hinge, clipping, AdamW; returns the loss."""
        trainer, count, keyword = _core.Trainer(self.model()), 0, extra(precision)
        slates, runtimes = [(self.graph, self.rows)], [self.runtimes]

        def step() -> float:
            nonlocal count
            count += 1
            return float(trainer.step(slates, runtimes, HINGE, adamw(count), **keyword))

        return with_threads(step, threads)

    def scorer(self, precision: str = "f32", threads: int | None = None) -> Call:
        """Score all configs."""
        model, keyword, slates = self.model(), extra(precision), [(self.graph, self.rows)]
        return with_threads(lambda: model.scores(slates, **keyword)[0], threads)


def with_threads(call: Call, threads: int | None) -> Call:
    """The call with so many threads of ours; those of before afterwards."""
    if threads is None:
        return call

    def limited() -> Any:
        before = _core.get_num_threads()
        _core.set_num_threads(threads)
        try:
            return call()
        finally:
            _core.set_num_threads(before)

    return limited


def setup_torch(threads: int) -> Any:
    """Torch with so many threads."""
    warnings.simplefilter("ignore")
    import torch

    torch.set_num_threads(threads)
    torch.manual_seed(0)
    return torch


class Peer:
    """The same model in PyTorch and PyG, with the weights of a model of ours if given."""

    def __init__(
        self,
        arrays: workloads.Arrays,
        runtimes: Any,
        cross: bool,
        weights: Any = None,
        compiled: bool = False,
        width: int = 256,
        precision: str = "f32",
    ) -> None:
        import torch
        import torch_model

        self.torch, self.hinge, self.precision = torch, torch_model.hinge, precision
        self.model = torch_model.Published(cross, width, dropout=0.2)
        if weights is not None:
            import models

            names, parameters = models.torch_names(2, cross), dict(self.model.named_parameters())
            for name, view in models.named(weights).items():
                parameters[names[name]].data = torch.tensor(view)
        self.inputs, self.times = torch_model.tensors(arrays), torch.tensor(runtimes)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-3, weight_decay=1e-5)
        self.forward = torch.compile(self.model, dynamic=False) if compiled else self.model

    def _batch(self, rows: Any) -> dict[str, Any]:
        return self.inputs if rows is None else self.inputs | {"digits": self.inputs["digits"][rows]}

    def _autocast(self) -> Any:
        return self.torch.autocast("cpu", self.torch.bfloat16, enabled=self.precision == "bf16")

    def step(self, rows: Any = None, rate: float | None = None) -> float:
        """Take one training step on these configs (all by default); returns the loss."""
        if rate is not None:
            for group in self.optimizer.param_groups:
                group["lr"] = rate
        self.optimizer.zero_grad(set_to_none=True)
        with self._autocast():
            scores = self.forward(self._batch(rows))
        loss = self.hinge(scores.float(), self.times if rows is None else self.times[rows])
        loss.backward()
        self.torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        return float(loss.detach())

    def scores(self, rows: Any = None) -> np.ndarray[Any, Any]:
        """Score these configs (all by default), without dropout."""
        self.model.eval()
        with self.torch.inference_mode(), self._autocast():
            scores = self.forward(self._batch(rows))
        self.model.train()
        return np.asarray(scores.float())
