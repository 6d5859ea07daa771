"""Functions of tensors, made from `tpugraphs.kernels`: new ops and losses of the core are included."""

import inspect
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import reduce
from itertools import compress
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from tpugraphs import _core, kernels
from tpugraphs.errors import ConfigError, ShapeError
from tpugraphs.kernels.faces import GRAPH_ARRAYS
from tpugraphs.kernels.signatures import made
from tpugraphs.system.words import counted

OPS = tuple(name for name in kernels.__all__ if f"{name}_backward" in kernels.__all__)
"""Names of the ops of `tpugraphs.kernels` that have gradients."""
LOSSES = ("weighted_sum", *(loss["name"] for loss in _core.losses()))
"""Names of the losses."""

Array = NDArray[Any]
Slot = tuple[str, int | None]  # an argument, and the place in it if it is a sequence
Pair = tuple[Callable[..., Array], Callable[..., Mapping[str, Any]]]  # an op and its gradients, of arrays
SINGLE, DOUBLE = (torch.float32,), (torch.float64,)
# Dtypes allowed for arguments of losses, if not SINGLE; others are converted to the first.
_OF_LOSSES = {"runtimes": SINGLE + DOUBLE, "values": DOUBLE}


def as_array(name: str, tensor: Any, dtypes: tuple[Any, ...] = SINGLE) -> Array:
    """Return a C-contiguous array of a tensor: over its memory, or a copy if dtype or strides require one.

    Parameters
    ----------
    name : str
        Name of the argument, for errors.
    tensor : torch.Tensor
    dtypes : tuple of torch.dtype
        Allowed float dtypes; others are converted to the first. Whole numbers stay as they are.

    Raises
    ------
    ConfigError
        A tensor without plain CPU memory: on another device, sparse, nested, quantised, fake, within a
        transform, or with freed storage.
    """
    if found := _unreadable(name, tensor):
        raise ConfigError(f"{name}: expected {found}")
    if tensor.is_floating_point() and tensor.dtype not in dtypes:
        tensor = tensor.to(dtypes[0])
    try:
        array: Array = tensor.numpy(force=True)  # without gradients; it shares memory where it can
    except TypeError:
        text = f"{name}: expected numbers that NumPy has, found {tensor.dtype}"
        raise ConfigError(f"{text}; convert it with {name}.to()") from None
    return array if array.flags.c_contiguous else np.ascontiguousarray(array)


def _unreadable(name: str, tensor: Any) -> str:
    """Return what was expected and found, and what to do, if the memory cannot be read; else nothing."""
    if tensor.device.type != "cpu":
        return f"a tensor on the CPU, where the kernels run, found one on {tensor.device}; pass {name}.cpu()"
    if tensor.is_nested:
        return f"a dense tensor, found a nested one; pass {name}.to_padded_tensor(0.0), or its parts in turn"
    if tensor.layout != torch.strided:
        dense = "its edges as (2, E)" if name == "edge_index" else f"{name}.to_dense()"
        return f"a dense tensor, found {tensor.layout}; pass {dense}"
    if tensor.is_quantized:
        return f"plain numbers, found a quantised tensor; pass {name}.dequantize()"
    plain = getattr(tensor, "as_tensor", lambda: tensor)()  # PyG's EdgeIndex wraps another tensor
    try:
        storage = plain.untyped_storage()
        real = storage.device.type == "cpu" and (plain._is_zerotensor() or storage.data_ptr() >= 0)
        room = storage.nbytes()
    except (RuntimeError, ValueError):  # no data pointer: torch.vmap, wrappers, lazy modules
        real = False
    if not real:
        text = f"a tensor with memory of its own, found a {type(tensor).__name__} without: a fake one, one of"
        return f"{text} torch.vmap, or a wrapper; pass what is inside of it"
    last = sum((size - 1) * stride for size, stride in zip(plain.shape, plain.stride(), strict=True))
    wanted = (plain.storage_offset() + last + 1) * plain.element_size() if plain.numel() else 0
    if room < wanted:
        text = f"{counted(wanted, 'byte')} of memory for its shape {tuple(plain.shape)}, found {room}"
        return f"{text}: its storage was freed or shrunk; pass a tensor whose storage is whole"
    return ""


def by_edge(edges: Any) -> Array:
    """Return the (E, 2) edges of the kernels, C-contiguous, for the (2, E) of PyTorch Geometric.

    Raises
    ------
    ShapeError
        Not two rows. (E, 2) is not accepted, as both shapes are the same for E = 2.
    """
    shape = getattr(edges, "shape", type(edges).__name__)
    if len(shape) != 2 or shape[0] != 2:
        does = "transpose it: edge_index.T" if shape[1:] == (2,) else "pass sources and targets as two rows"
        text = f"edge_index: expected int64 of shape (2, E), as in PyTorch Geometric, found {shape}"
        raise ShapeError(f"{text}; {does}")
    return np.ascontiguousarray(edges.T)


def _sorted(given: Mapping[str, Any]) -> tuple[dict[str, Any], dict[Slot, Any]]:
    """Return the arguments that are not tensors, and those that are, with their names."""
    plain: dict[str, Any] = {}
    tensors: dict[Slot, Any] = {}
    for name, value in given.items():
        if isinstance(value, torch.Tensor):
            tensors[name, None] = value
        elif isinstance(value, (list, tuple)) and any(isinstance(one, torch.Tensor) for one in value):
            for place, one in enumerate(value):
                if not isinstance(one, torch.Tensor):
                    text = f"{name}: expected tensors only, found {type(one).__name__} at index {place}"
                    raise ConfigError(f"{text}; pass a torch.Tensor there, too")
                tensors[name, place] = one
        else:
            plain[name] = value
    return plain, tensors


def _arrays(slots: Iterable[Slot], tensors: Iterable[Any], **dtypes: tuple[Any, ...]) -> dict[str, Any]:
    """Return the arrays of tensors by argument, with sequences put together again."""
    given: dict[str, Any] = {}
    for (name, place), tensor in zip(slots, tensors, strict=True):
        array = as_array(name, tensor, dtypes.get(name, SINGLE))
        array = by_edge(array) if name == "edge_index" else array
        if place is None:
            given[name] = array
        else:
            given.setdefault(name, []).append(array)
    return given


class _Function(torch.autograd.Function):  # type: ignore[misc]
    """Common base of the functions below: no transforms except first derivatives."""

    @staticmethod
    def vmap(info: Any, dims: Any, *arguments: Any) -> Any:
        text = "tg.torch: expected plain tensors, found those of torch.vmap"
        raise ConfigError(f"{text}; call it outside, or in a loop")

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        raise ConfigError("tg.torch: expected reverse mode, found forward mode; differentiate with backward")


class _Once(_Function):
    """Gradients that `function` computes; differentiating them again raises ConfigError."""

    @staticmethod
    def forward(name: str, function: Callable[..., tuple[Any, ...]], *tensors: Any) -> tuple[Any, ...]:
        return function(*tensors)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.name = inputs[0]

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        text = f"tg.torch.{ctx.name}: expected to be differentiated once, found a second derivative"
        raise ConfigError(f"{text}; compute it with PyTorch's own functions")


def _once(name: str, function: Callable[..., tuple[Any, ...]], *tensors: Any) -> tuple[Any, ...]:
    """Call `function`; with ``create_graph`` its results can be used, but not differentiated."""
    if not torch.is_grad_enabled():
        return function(*tensors)
    results: tuple[Any, ...] = _Once.apply(name, function, *tensors)
    return results


class _Op(_Function):
    """One call of an op: `plain` are the arguments that are not tensors, `slots` name the tensors."""

    @staticmethod
    def forward(pair: Pair, plain: Mapping[str, Any], slots: Sequence[Slot], *tensors: Any) -> Any:
        y = torch.from_numpy(pair[0](**plain, **_arrays(slots, tensors)))
        dtypes = {tensor.dtype for tensor in tensors if tensor.is_floating_point()}
        return y if dtypes <= {torch.float32} else y.to(reduce(torch.promote_types, dtypes))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.pair, ctx.plain, ctx.slots, *tensors = inputs
        ctx.save_for_backward(*tensors)

    @staticmethod
    def backward(ctx: Any, dy: Any) -> tuple[Any, ...]:
        pair, plain, slots, wanted = ctx.pair, ctx.plain, ctx.slots, ctx.needs_input_grad[3:]
        names = {name for (name, _), want in zip(slots, wanted, strict=True) if want}

        def gradients(dy: Any, *tensors: Any) -> tuple[Any, ...]:
            arrays = _arrays(slots, tensors)
            made = pair[1](as_array("dy", dy), **plain, **arrays, only=names)
            found = []
            for (name, place), tensor in compress(zip(slots, tensors, strict=True), wanted):
                array = made[name] if place is None else made[name][place]
                found.append(torch.from_numpy(array).to(tensor.dtype))
            return tuple(found)

        found = iter(_once(pair[0].__name__, gradients, dy, *ctx.saved_tensors))
        return None, None, None, *(next(found) if want else None for want in wanted)


class _Loss(_Function):
    """One call of a loss, which returns value and gradient together; the first tensor is the scores."""

    @staticmethod
    def forward(name: str, plain: Mapping[str, Any], slots: Sequence[Slot], *tensors: Any) -> tuple[Any, Any]:
        arrays = _arrays(slots, tensors, **_OF_LOSSES)
        value, gradient = getattr(kernels, name)(**arrays, **plain)
        return torch.tensor(value, dtype=tensors[0].dtype), torch.from_numpy(gradient)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Any, Any]) -> None:
        ctx.name, _, _, scores, *targets = inputs
        ctx.others = (None,) * len(targets)
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(scores, output[1])

    @staticmethod
    def backward(ctx: Any, dloss: Any, unused: Any) -> tuple[Any, ...]:
        def product(dloss: Any, gradient: Any, scores: Any) -> tuple[Any, ...]:
            return (gradient.to(scores.dtype) * dloss,)

        scores, gradient = ctx.saved_tensors
        return None, None, None, *_once(ctx.name, product, dloss, gradient, scores), *ctx.others


# Return section of a loss over arrays.
_PAIR = re.compile(r"^loss : float\ndscores : .*(?:\n    .*)*", re.M)


def _face(
    name: str, of: Callable[..., Any], apply: Callable[..., Any], without_gradient: Callable[[str], bool]
) -> Callable[..., Any]:
    """Make a function of tensors from one of arrays.

    `apply` takes the arguments that are not tensors, slots and tensors; `without_gradient` names arguments
    whose gradient is refused.
    """
    parameters = dict(inspect.signature(of).parameters)
    parameters.pop("result", None) or parameters.pop("out", None)
    signature = inspect.Signature(list(parameters.values()))

    def run(given: dict[str, Any]) -> Any:
        """Call the kernel with tensors.

        Raises
        ------
        ConfigError
            Tensors on another device or of another layout, or a non-tensor among tensors.

        Notes
        -----
        Takes tensors of any strides and float dtype instead of arrays, and no ``out``; `tpugraphs.torch`
        lists what is copied and what is returned.
        """
        plain, tensors = _sorted({key: given[key] for key in parameters})
        if "edge_index" in plain:
            plain["edge_index"] = by_edge(plain["edge_index"])
        for (key, _), tensor in tensors.items():
            if without_gradient(key) and tensor.requires_grad and torch.is_grad_enabled():
                text = f"tg.torch.{name}: {key} requires a gradient, and has none here"
                raise ConfigError(f"{text}; pass {key}.detach()")
        return apply(plain, list(tensors), *tensors.values())

    doc = _PAIR.sub("torch.Tensor\n    The loss, without dimensions.", inspect.getdoc(of) or "").rstrip()
    doc = doc.replace("edge_index : (E, 2) int64", "edge_index : (2, E) int64, as in PyTorch Geometric")
    doc += (inspect.getdoc(run) or "").partition("------")[2]  # after the errors, which all have
    return made(run, of.__name__, doc, signature, "tpugraphs.torch")


def op_function(
    name: str, forward: Callable[..., Array], backward: Callable[..., Mapping[str, Any]]
) -> Callable[..., Any]:
    """Make a function of tensors from the two functions of arrays of an op."""

    def apply(*given: Any) -> Any:
        return _Op.apply((forward, backward), *given)

    return _face(name, forward, apply, GRAPH_ARRAYS.__contains__)


def loss_function(name: str) -> Callable[..., Any]:
    """Make a function of tensors from the function of arrays of a loss."""

    def apply(plain: dict[str, Any], slots: Sequence[Slot], *tensors: Any) -> Any:
        if "scores" in plain:
            text = f"tg.torch.{name}: scores: expected a torch.Tensor, found {type(plain['scores']).__name__}"
            raise ConfigError(f"{text}; tg.kernels.{name} takes arrays of NumPy")
        return _Loss.apply(name, plain, slots, *tensors)[0]

    return _face(name, getattr(kernels, name), apply, lambda key: key != "scores")


def faces() -> dict[str, Callable[..., Any]]:
    """Return the functions of all ops and losses by name."""
    ops = {name: op_function(name, *(getattr(kernels, name + s) for s in ("", "_backward"))) for name in OPS}
    return ops | {name: loss_function(name) for name in LOSSES}


_FUNCTIONS: tuple[Any, ...] = (_Op, _Loss)
for _function in _FUNCTIONS:  # `apply` looks it up in every call
    _function.forward.__signature__ = inspect.signature(_function.forward)
