"""Layers in PyTorch, eager."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from tpugraphs.errors import ConfigError
from tpugraphs.layertime.kinds import KINDS
from tpugraphs.layertime.kinds.base import Input, Layer
from tpugraphs.layertime.local import torch_library
from tpugraphs.layertime.measuring.base import LEARNING_RATE, Step

__all__ = ["Torch"]

_ACTIVATIONS = {"relu": "ReLU", "tanh": "Tanh", "sigmoid": "Sigmoid"}


class Torch:
    """PyTorch on the CPU or the current GPU."""

    name: ClassVar[str] = "torch"

    def __init__(self, gpu: bool | None, threads: int | None) -> None:
        self._torch = torch = torch_library()
        self.version = str(torch.__version__)
        self.gpu = torch.cuda.is_available() if gpu is None else gpu
        if self.gpu and not torch.cuda.is_available():
            raise ConfigError("gpu: expected a GPU that PyTorch can use, found none")
        self._device = torch.device("cuda" if self.gpu else "cpu")
        self._threads_before = torch.get_num_threads()
        if threads is not None:
            torch.set_num_threads(threads)

    @property
    def threads(self) -> int:
        """How many threads of the CPU a layer may take."""
        return int(self._torch.get_num_threads())

    def gpu_properties(self) -> Any:
        """Return name and figures of the GPU."""
        return self._torch.cuda.get_device_properties(self._device)

    def optimizer(self, name: str, parameters: Any, **options: Any) -> Any:
        """Return the optimizer that the column names."""
        optim, momentum = self._torch.optim, {"momentum": 0.9} if name == "Momentum" else {}
        known = {
            "SGD": optim.SGD, "Momentum": optim.SGD, "Adagrad": optim.Adagrad, "RMSProp": optim.RMSprop,
            "Adadelta": optim.Adadelta, "Adam": optim.Adam,
        }  # fmt: skip
        return known[name](parameters, **{"lr": LEARNING_RATE, **momentum, **options})

    def forward(self, kind: str, layer: Layer) -> tuple[Any, list[Any]]:
        """Return a layer as a module or function, and the arrays to call it with."""
        torch, rng = self._torch, np.random.default_rng(0)
        with torch.random.fork_rng(devices=[]), torch.device(self._device):
            function = KINDS[kind].torch(torch, layer)
        if layer.get("activation", "None") != "None":
            function = torch.nn.Sequential(function, getattr(torch.nn, _ACTIVATIONS[layer["activation"]])())
        inputs = KINDS[kind].inputs(layer)
        return function, [torch.from_numpy(one.draw(rng)).to(self._device) for one in inputs]

    def step(self, kind: str, layer: Layer) -> Step:
        """Build a layer and its arrays."""
        torch = self._torch
        function, inputs = self.forward(kind, layer)
        is_module = isinstance(function, torch.nn.Module)
        wait = torch.cuda.synchronize if self.gpu else lambda: None
        if layer["optimizer"] == "None":
            if is_module:
                function.eval()

            def forward() -> None:
                with torch.no_grad():
                    function(*inputs)
                wait()

            return forward
        for one in inputs:
            one.requires_grad_(one.is_floating_point())
        weights = list(function.parameters()) if is_module else []
        update = self.optimizer(layer["optimizer"], weights) if weights else None
        with torch.no_grad():
            shape = tuple(function(*inputs).shape)
        gradient = torch.from_numpy(Input(shape).draw(np.random.default_rng(1))).to(self._device)

        def train() -> None:
            for one in (*inputs, *weights):
                one.grad = None
            torch.autograd.backward(function(*inputs), gradient)
            if update is not None:
                update.step()
            wait()

        return train

    def close(self) -> None:
        """Restore the settings of the process."""
        self._torch.set_num_threads(self._threads_before)
