"""Forward and backward of one function of single arrays: an op of the core, and a function of PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from .sections.kernels import Call, Case, Setting

Arrays = dict[str, np.ndarray[Any, Any]]


def ours(op: str, arrays: Arrays, dy: Any, kept: bool = False, **attrs: Any) -> Call:
    """Results go to arrays that are there. `kept`: backward needs what forward keeps, and runs it first."""
    from tpugraphs import kernels

    forward, backward = getattr(kernels, op), getattr(kernels, f"{op}_backward")
    y, grads = np.empty_like(dy), {name: np.empty_like(array) for name, array in arrays.items()}

    def run() -> Any:
        if not kept:
            forward(**arrays, **attrs, out=y)
        return backward(dy, **arrays, **attrs, out=grads)

    return run


def theirs(torch: Any, function: Callable[..., Any], arrays: Arrays, dy: Any) -> Call:
    """A function of tensors in the order of `arrays`."""
    tensors = [torch.from_numpy(array.copy()).requires_grad_() for array in arrays.values()]
    gradient = torch.from_numpy(dy)

    def run() -> Any:
        for tensor in tensors:
            tensor.grad = None
        y = function(*tensors)
        y.backward(gradient)
        return y

    return run


def case(
    setting: Setting,
    op: str,
    arrays: Arrays,
    function: Callable[..., Any] | None,
    *,
    what: str = "",
    peer: str = "PyTorch",
    required: float | None = None,
    flops: float = 0.0,
    kept: bool = False,
    random: bool = False,
    **attrs: Any,
) -> Iterator[Case]:
    """One row. Unless `random`, both sides must give the same result."""
    from tpugraphs import kernels

    y = getattr(kernels, op)(**arrays, **attrs)
    dy = setting.array(*y.shape)
    call, peers = ours(op, arrays, dy, kept, **attrs), dict[str, Call]()
    if setting.torch and function is not None:
        peers[peer] = theirs(setting.torch, function, arrays, dy)
        expected = peers[peer]().detach().numpy()
        assert random or np.allclose(y, expected, 1e-3, 1e-4), "not the same job"
    size = " x ".join(f"{n:,}" for n in y.shape)
    name = f"{op} {size}" + (f", {what}" if what else "")
    yield Case(name, call, peers, required, flops, "memory" if not flops else "")
