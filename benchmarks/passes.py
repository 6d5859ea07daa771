"""Forward and backward of one function of single arrays: an op of the core, and a function of PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from .sections.kernels import Call, Case, Setting

Arrays = dict[str, np.ndarray[Any, Any]]


LINE = 64  # bytes


def aligned(array: Any) -> Any:
    """A copy on a cache line, where PyTorch's tensors and the slots of models are."""
    room = np.empty(array.nbytes + LINE, np.uint8)
    at = -room.ctypes.data % LINE
    copy = room[at : at + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


def ours(
    op: str,
    arrays: Arrays,
    dy: Any,
    graph: Any = None,
    configs: int = 1,
    kept: bool = False,
    training: bool = False,
    **attrs: Any,
) -> Call:
    """The op as models call it: its arguments are sorted once, its results go to arrays that are there.

    `graph`: a graph, or None for as many nodes as the first input has rows. `kept`: backward needs what
    forward keeps, and runs it first.
    """
    from tpugraphs import _core

    about = next(about for about in _core.ops() if about["name"] == op)
    inputs = tuple(aligned(arrays[spec["name"]]) for spec in about["inputs"] if spec["name"] in arrays)
    params = tuple(arrays[name] for name in about["params"] if name in arrays)
    nodes = len(inputs[0]) if graph is None else graph
    call: Any = (op, attrs, inputs, params, nodes, configs, 0, training)
    y, dy, grads = aligned(dy), aligned(dy), [aligned(array) for array in (*inputs, *params)]
    outs = (*grads, None) if "digits" in about["flags"] else tuple(grads)

    def run() -> Any:
        if not kept:
            _core.op_forward(*call, None, y)
        return y, _core.op_backward(*call, dy, outs)

    return run


def theirs(torch: Any, function: Callable[..., Any], arrays: Arrays, dy: Any) -> Call:
    """A function of tensors in the order of `arrays`."""
    tensors = [torch.tensor(array, requires_grad=True) for array in arrays.values()]
    gradient = torch.tensor(dy)

    def run() -> Any:
        for tensor in tensors:
            tensor.grad = None
        y = function(*tensors)
        y.backward(gradient)
        return y

    return run


def moved(y: Any, arrays: Arrays) -> float:
    """Bytes that forward and backward move at least: inputs, result and their gradients once each."""
    return 2.0 * (y.nbytes + sum(array.nbytes for array in arrays.values()))


def alike(y: Any, expected: Any) -> bool:
    """Up to rounding, which in a sum over many rows is that of large numbers, however small the sum is."""
    usual = np.sqrt(np.mean(np.square(expected, dtype=np.float64)))
    return bool(np.allclose(y, expected, 1e-3, 1e-4 * usual))


def beside(
    setting: Setting,
    name: str,
    op: str,
    arrays: Arrays,
    function: Callable[..., Any],
    graph: Any,
    configs: int,
    required: float,
    **attrs: Any,
) -> Case:
    """A row of an op that asks for a graph; its result must be that of the function of PyTorch."""
    from tpugraphs import _core

    about = next(about for about in _core.ops() if about["name"] == op)
    inputs = tuple(arrays[spec["name"]] for spec in about["inputs"] if spec["name"] in arrays)
    params = tuple(arrays[param] for param in about["params"] if param in arrays)
    y = _core.op_forward(op, attrs, inputs, params, graph, configs, 0, False)
    dy, peers = setting.array(*y.shape), dict[str, Call]()
    if setting.torch:
        peers["PyTorch"] = theirs(setting.torch, function, arrays, dy)
        assert alike(y, peers["PyTorch"]().detach().numpy()), "not the same job"
    call = ours(op, arrays, dy, graph, configs, **attrs)
    return Case(name, call, peers, required, moved=moved(y, arrays))


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
    edge_index: Any = None,
    nodes: int | None = None,
    configs: int | None = None,
    **attrs: Any,
) -> Iterator[Case]:
    """One row. Unless `random`, both sides must give the same result.

    `edge_index`: of ops along edges. `nodes`, `configs`: if they do not follow from the rows of the first
    array, and of those with configs.
    """
    from tpugraphs import _core, kernels

    graph, edges = None, {} if edge_index is None else {"edge_index": edge_index}
    if edges:
        features = np.zeros((len(next(iter(arrays.values()))), 1), np.float32)
        graph = _core.ModelGraph(features, None, None, edge_index, np.zeros(0, np.int64), None)
    y = getattr(kernels, op)(**arrays, **edges, **attrs)
    dy = setting.array(*y.shape)
    configs = configs or max([1, *(array.shape[1] for array in arrays.values() if array.ndim == 3)])
    call = ours(op, arrays, dy, nodes if graph is None else graph, configs, kept, **attrs)
    peers = dict[str, Call]()
    if setting.torch and function is not None:
        peers[peer] = theirs(setting.torch, function, arrays, dy)
        assert random or alike(y, peers[peer]().detach().numpy()), "not the same job"
    size = " x ".join(f"{n:,}" for n in y.shape)
    name = f"{op} {size}" + (f", {what}" if what else "")
    yield Case(name, call, peers, required, flops, moved=0.0 if flops else moved(y, arrays))
