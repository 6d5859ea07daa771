"""Layers of a PyTorch module, from one run of it with an example."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tpugraphs.errors import ConfigError
from tpugraphs.layertime.networks.builder import Builder
from tpugraphs.layertime.networks.layer import LayerList
from tpugraphs.layertime.networks.torch_functions import FUNCTIONS, UNKNOWN, Call
from tpugraphs.system.arguments import check_whole

if TYPE_CHECKING:
    import torch

__all__ = ["is_module", "layers_of_torch"]

# Modules without children that take no time, or only move numbers.
_FREE = (
    *("Identity", "Flatten", "Unflatten", "_DropoutNd", "PixelShuffle", "PixelUnshuffle", "ChannelShuffle"),
    *("_ConstantPadNd", "_ReflectionPadNd", "_ReplicationPadNd", "ModuleList", "ModuleDict", "Sequential"),
)


def is_module(source: Any) -> bool:
    """Return whether something is a PyTorch module, without importing PyTorch."""
    return "Module" in _torch_names(source)


def layers_of_torch(module: torch.nn.Module, example: object, batch_size: int | None = None) -> LayerList:
    """Return the layers that a PyTorch module runs for an example, in the order in which they run.

    The module runs once, without gradients and as in evaluation. Hooks on it and its modes of training are
    restored, also after an error. On the device ``meta`` shapes alone are computed, so a large network takes
    no time and no memory.

    These have a kind, as modules and as functions: convolutions (of one group, or of as many as channels in
    two dimensions), Linear and products of matrices, MultiheadAttention (its projections and its products
    apart), `scaled_dot_product_attention`, LSTM (each layer and direction apart), BatchNorm, LayerNorm,
    MaxPool2d, AvgPool2d and their adaptive forms, ReLU, GELU, SiLU, Sigmoid, Tanh, Softmax, Embedding, and
    arithmetic of arrays. A ReLU, Tanh or Sigmoid of a convolution or dense layer becomes its column
    ``activation``. What is used twice counts twice.

    Dropout is left out, as in inference, and so are functions that only move or sum numbers (`cat`,
    `contiguous`, `mean`, slices). Other modules without children, and other functions that take time such as
    `einsum`, are listed without a kind: see `LayerList.unknown`.

    Images and kernels that are not square count as the square of equal area, rounded to a whole side.

    Parameters
    ----------
    module : torch.nn.Module
    example : tensor, tuple of arguments, or dict of named arguments
    batch_size : int, optional
        Samples in the example; the first size of its first tensor otherwise.

    Returns
    -------
    LayerList
        In the order in which they run.

    Raises
    ------
    ConfigError
        PyTorch is not installed; not a module; the example holds no tensor, and `batch_size` is missing.
    """
    try:
        torch = importlib.import_module("torch")
    except ImportError:
        raise ConfigError("layers of a module need PyTorch, which is missing: pip install torch") from None
    if not isinstance(module, torch.nn.Module):
        raise ConfigError(f"module: expected a torch.nn.Module, got {type(module).__name__}")
    named: dict[str, Any] = dict(example) if isinstance(example, Mapping) else {}
    args = () if named else tuple(example) if isinstance(example, (tuple, list)) else (example,)
    if batch_size is None:
        shapes = [tuple(one.shape) for one in (*args, *named.values()) if isinstance(one, torch.Tensor)]
        if not shapes or not shapes[0]:
            raise ConfigError("example: expected a tensor with a batch in it; or give batch_size=")
        batch_size = int(shapes[0][0])
    trace = _Trace(torch, check_whole("batch_size", batch_size, 1))
    training = [(one, one.training) for one in module.modules()]
    handles = []
    try:
        for name, one in module.named_modules():
            handles.append(one.register_forward_pre_hook(trace.entering(name, one)))
            handles.append(one.register_forward_hook(trace.leave))
        module.eval()
        with torch.no_grad(), trace.mode():
            module(*args, **named)
    finally:
        for handle in handles:
            handle.remove()
        for one, was in training:
            one.training = was
    return trace.builder.layers


class _Trace:
    """A recorder of the functions and modules of a run."""

    def __init__(self, torch: Any, batch: int) -> None:
        self.torch, self.builder = torch, Builder(batch)
        self.path: list[tuple[str, Any, int]] = []  # modules that run, and calls that were seen before
        self.calls = 0

    def entering(self, name: str, module: Any) -> Any:
        """Return a hook that runs before a module."""
        return lambda *_: self.path.append((name or type(module).__name__, module, self.calls))

    def leave(self, module: Any, args: Any, out: Any) -> None:
        """Record a module without children that called no known function."""
        name, _, before = self.path.pop()
        free = not _is_leaf(module) or set(_torch_names(module)) & set(_FREE)
        if not free and self.calls == before and not any(out is one for one in args):
            self.builder.at(name, type(module).__name__)
            self.builder.add(None)

    def call(self, function: Any, args: Any, named: Any, out: Any) -> None:
        """Record a function that has run."""
        first = out[0] if isinstance(out, tuple) and out else out
        if not self.torch.is_tensor(first) or not first.is_floating_point() or not first.dim():
            return
        plain = getattr(function, "__name__", "").strip("_")
        reader = FUNCTIONS.get(plain)
        if reader is None and plain not in UNKNOWN and not plain.startswith(("fft_", "linalg_", "conv")):
            return
        self.calls += 1
        name, module, _ = self.path[-1]
        source = type(module).__name__
        if not _is_leaf(module) or source not in _torch_names(module):  # may call several functions
            name, source = f"{name}.{plain}".removeprefix("."), plain
        self.builder.at(name, source)
        if reader is None:
            self.builder.add(None)
        else:
            reader(Call(self.builder, plain, args, named, out))

    def mode(self) -> Any:
        """Return the context in which functions are seen."""
        trace, base = self, importlib.import_module("torch.overrides").TorchFunctionMode

        class Mode(base):  # type: ignore[misc, valid-type]
            def __torch_function__(
                self, function: Any, types: Any, args: Any = (), kwargs: Any = None
            ) -> Any:
                out = function(*args, **(kwargs or {}))
                trace.call(function, args, kwargs or {}, out)
                return out

        return Mode()


def _torch_names(module: Any) -> list[str]:
    """Return the names of the classes of PyTorch that something derives from."""
    return [c.__name__ for c in type(module).__mro__ if c.__module__.startswith("torch.nn.")]


def _is_leaf(module: Any) -> bool:
    """Return whether a module has no modules in it; those of attention are called as functions."""
    names = _torch_names(module)
    return "MultiheadAttention" in names or next(module.children(), None) is None
