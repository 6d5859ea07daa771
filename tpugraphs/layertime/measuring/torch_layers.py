"""Layers in PyTorch, eager: a builder for every kind."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from tpugraphs.errors import ConfigError
from tpugraphs.layertime.local import torch_library
from tpugraphs.layertime.measuring.base import LEARNING_RATE, Input, Layer, Step, same_padding

__all__ = ["BUILDERS", "Torch"]

Built = tuple[Callable[..., Any], tuple[Input, ...]]
"""A module or function, and what it is called with."""


def _activated(torch: Any, layer: Layer, module: Any) -> Any:
    """Return a module followed by its activation."""
    nn = torch.nn
    after = {"relu": nn.ReLU, "tanh": nn.Tanh, "sigmoid": nn.Sigmoid}.get(layer["activation"])
    return module if after is None else nn.Sequential(module, after())


def _padded(torch: Any, layer: Layer, side: int, dimensions: int) -> tuple[int, tuple[int, ...]]:
    """Return zeros that a convolution adds on both ends, and those to be added before it, if these differ."""
    if layer["padding"] == "VALID":
        return 0, ()
    before, after = same_padding(side, layer["kernelsize"], layer["strides"])
    return (before, ()) if before == after else (0, (before, after) * dimensions)


def _convolution(dimensions: int, size: str = "matsize", depthwise: bool = False) -> Callable[..., Built]:
    def build(torch: Any, layer: Layer) -> Built:
        nn, side = torch.nn, layer[size]
        cin, cout = (layer["channels" + ("" if depthwise else end)] for end in ("_in", "_out"))
        both, ends = _padded(torch, layer, side, dimensions)
        module: Any = (nn.Conv1d, nn.Conv2d, nn.Conv3d)[dimensions - 1](
            cin, cout, layer["kernelsize"], layer["strides"], both,
            groups=cin if depthwise else 1, bias=bool(layer["use_bias"]),
        )  # fmt: skip
        if ends:
            pad = (nn.ConstantPad1d, nn.ConstantPad2d, nn.ConstantPad3d)[dimensions - 1]
            module = nn.Sequential(pad(ends, 0.0), module)
        return _activated(torch, layer, module), (Input((layer["batch"], cin, *[side] * dimensions)),)

    return build


def _conv(torch: Any, layer: Layer) -> Built:
    cin, side = layer["Input_Channel"], layer["Input_Size"]
    sizes = (layer[name] for name in ("Output_Channel", "Kernel_Size", "Stride", "Padding"))
    return torch.nn.Conv2d(cin, *sizes, bias=False), (Input((layer["B"], cin, side, side)),)


def _dense(torch: Any, layer: Layer) -> Built:
    module = torch.nn.Linear(layer["dim_input"], layer["dim_output"])
    return _activated(torch, layer, module), (Input((layer["batch"], layer["dim_input"])),)


def _linear(torch: Any, layer: Layer) -> Built:
    return torch.nn.Linear(layer["N"], layer["K"]), (Input((layer["B"], layer["M"], layer["N"])),)


def _bmm(torch: Any, layer: Layer) -> Built:
    count, rows, depth, cols = (layer[name] for name in "BMNK")
    return torch.bmm, (Input((count, rows, depth)), Input((count, depth, cols)))


def _attention(torch: Any, layer: Layer) -> Built:
    batch, heads, width = (layer[name] for name in ("batch", "heads", "head_size"))
    queries, keys = (Input((batch, heads, layer[name], width)) for name in ("queries", "keys"))
    return torch.nn.functional.scaled_dot_product_attention, (queries, keys, keys)


def _lstm(torch: Any, layer: Layer) -> Built:
    module = torch.nn.LSTM(layer["dim_input"], layer["dim_hidden"], batch_first=True)

    class Outputs(torch.nn.Module):  # type: ignore[misc]  # of all steps, without the last state
        def __init__(self) -> None:
            super().__init__()
            self.inner = module

        def forward(self, x: Any) -> Any:
            return self.inner(x)[0]

    return Outputs(), (Input((layer["batch"], layer["length"], layer["dim_input"])),)


def _elementwise(torch: Any, layer: Layer) -> Built:
    op, one = layer["op"], Input((layer["B"], layer["H"]), positive="pow" in layer["op"])
    functional = torch.nn.functional
    two = {"add": torch.add, "mul": torch.mul, "div": torch.div, "pow": torch.pow}
    if op in two:
        return two[op], (one, one)
    if op[:-1] in two:  # with a number instead of the second array
        return lambda x: two[op[:-1]](x, 1.5), (one,)
    known = {"relu": torch.relu, "tanh": torch.tanh, "sigmoid": torch.sigmoid}
    return {**known, "gelu": functional.gelu, "silu": functional.silu}[op], (one,)


def _softmax(torch: Any, layer: Layer) -> Built:
    return torch.nn.Softmax(-1), (Input((layer["B"], layer["H"])),)


def _layernorm(torch: Any, layer: Layer) -> Built:
    return torch.nn.LayerNorm(layer["H"]), (Input((layer["B"], layer["H"])),)


def _batchnorm(torch: Any, layer: Layer) -> Built:
    side, channels = layer["matsize"], layer["channels"]
    return torch.nn.BatchNorm2d(channels), (Input((layer["batch"], channels, side, side)),)


def _pooling(torch: Any, layer: Layer) -> Built:
    nn, side = torch.nn, layer["matsize"]
    both, ends = _padded(torch, layer, side, 2)
    largest = layer["op"] == "max"
    module: Any = (nn.MaxPool2d if largest else nn.AvgPool2d)(layer["kernelsize"], layer["strides"], both)
    if ends:
        module = nn.Sequential(nn.ConstantPad2d(ends, -np.inf if largest else 0.0), module)
    return module, (Input((layer["batch"], layer["channels"], side, side)),)


def _embedding(torch: Any, layer: Layer) -> Built:
    module = torch.nn.Embedding(layer["dim_input"], layer["dim_output"])
    return module, (Input((layer["batch"], layer["length"]), below=layer["dim_input"]),)


BUILDERS: dict[str, Callable[[Any, Layer], Built]] = {
    "conv1d": _convolution(1, "length"),
    "conv2d": _convolution(2),
    "conv3d": _convolution(3),
    "depthwise": _convolution(2, depthwise=True),
    "conv": _conv,
    "dense": _dense,
    "linear": _linear,
    "bmm": _bmm,
    "attention": _attention,
    "lstm": _lstm,
    "elementwise": _elementwise,
    "softmax": _softmax,
    "layernorm": _layernorm,
    "batchnorm": _batchnorm,
    "pooling": _pooling,
    "embedding": _embedding,
}


class Torch:
    """PyTorch on the CPU or the current GPU."""

    name: ClassVar[str] = "torch"
    kinds: ClassVar[Sequence[str]] = tuple(BUILDERS)

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
        """Return the optimizer of the column's word."""
        optim, momentum = self._torch.optim, {"momentum": 0.9} if name == "Momentum" else {}
        known = {
            "SGD": optim.SGD, "Momentum": optim.SGD, "Adagrad": optim.Adagrad, "RMSProp": optim.RMSprop,
            "Adadelta": optim.Adadelta, "Adam": optim.Adam,
        }  # fmt: skip
        return known[name](parameters, **{"lr": LEARNING_RATE, **momentum, **options})

    def forward(self, kind: str, layer: Layer) -> tuple[Any, list[Any]]:
        """Return a layer as module or function, and the arrays it is called with."""
        torch, rng = self._torch, np.random.default_rng(0)
        with torch.random.fork_rng(devices=[]), torch.device(self._device):
            function, inputs = BUILDERS[kind](torch, layer)
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
        """Put back what was set for all of the process."""
        self._torch.set_num_threads(self._threads_before)
