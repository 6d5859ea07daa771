"""User functions that recipes name: losses, and columns made from a graph.

A file holds no code. It keeps the name of a loss, which is enough to predict; a further fit needs the
function. Every prediction needs the columns, so their function must be registered by name before a ranker is
saved, and again where its file is opened.
"""

from __future__ import annotations

import functools
import hashlib
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tpugraphs import _core
from tpugraphs.errors import ConfigError

PREFIX = "python:"
_EXTRA: dict[str, Callable[[Any], Mapping[str, Any]]] = {}


def plain_name(function: Any) -> str:
    """Return the readable name of a function, such as ``my_loss``."""
    name = getattr(function, "__qualname__", None)
    if name is None and isinstance(function, functools.partial):
        return plain_name(function.func)
    return str(name or type(function).__qualname__)


def shortly(value: Any) -> str:
    """Return a readable value of a field: a function by its name."""
    return plain_name(value) if callable(value) else repr(value)


def function_name(function: Any) -> str:
    """Return the name of a function in files, with a digest: ``python:my_loss#1f0c9a7e``.

    The digest changes with the code, its constants or the plain values it was made with, so that a checkpoint
    or a finished trial of another function is not mistaken for one of this function.
    """
    digest = hashlib.blake2b(digest_size=4)
    _add(digest, function)
    return f"{PREFIX}{plain_name(function)}#{digest.hexdigest()}"


def is_lost(loss: object) -> bool:
    """Whether `loss` stands for a function that a file could not hold."""
    return isinstance(loss, str) and loss.startswith(PREFIX)


def losses_need(terms: Sequence[dict[str, Any]]) -> tuple[str, ...]:
    """Return what losses read: runtimes, values, times. A loss that a file could not hold reads nothing.

    Raises
    ------
    ConfigError
        A malformed term, or no term.
    """
    known = [term for term in terms if not is_lost(term.get("loss"))]
    return _core.losses_need(known) if known or not terms else ()


def _add(digest: Any, value: Any, inside: tuple[int, ...] = ()) -> None:
    """Hash the code and constants of a function, plain values, and the type of other objects.

    `inside` are the objects that this one is part of: a function may refer to itself, a list hold itself.
    """
    if id(value) in inside:
        digest.update(b"again;")
        return
    inside = (*inside, id(value))
    parts = next((parts for kind, parts in _PARTS.items() if isinstance(value, kind)), None)
    if parts is not None:
        value = parts(value)
    elif hasattr(value, "untyped_storage"):  # a tensor of PyTorch
        value = value.double().numpy(force=True)
    if isinstance(value, np.ndarray):
        value = (value.dtype.str, value.shape, value.tobytes())
    if isinstance(value, (tuple, list)):
        for item in value:
            _add(digest, item, inside)
        digest.update(b")")
    elif value is None or isinstance(value, (str, bytes, bool, int, float)):
        digest.update(f"{value!r};".encode())
    else:
        digest.update(f"{type(value).__qualname__};".encode())
        code = getattr(type(value).__call__, "__code__", None) if callable(value) else None
        if code is not None:
            plain = (f"{k}={v!r}" for k, v in vars(value).items() if isinstance(v, (str, int, float)))
            _add(digest, (code, *plain), inside)


_PARTS: dict[Any, Callable[[Any], Any]] = {  # type of a value -> what is hashed of it
    functools.partial: lambda v: (v.func, v.args, sorted(v.keywords.items())),
    types.CodeType: lambda v: (v.co_code.hex(), v.co_names, v.co_consts),
    types.FunctionType: lambda v: (v.__code__, v.__defaults__, tuple(map(_content, v.__closure__ or ()))),
    types.MethodType: lambda v: (v.__func__, v.__self__),
    (set, frozenset): lambda v: sorted(v, key=repr),
    Mapping: lambda v: sorted(v.items(), key=repr),
}


def _content(cell: types.CellType) -> Any:
    """Return what a closure's cell holds; None before it is set."""
    try:
        return cell.cell_contents
    except ValueError:
        return None


def register_extra(name: str, function: Callable[[Any], Mapping[str, Any]]) -> None:
    """Register a function that makes columns under the name by which files of rankers refer to it.

    Parameters
    ----------
    name : str
    function : callable
        ``function(graph)`` returns arguments of :func:`tpugraphs.with_extra`: ``{"node": {"depth": (N,)}}``.

    Raises
    ------
    ConfigError
        Another function has the name, or an argument has the wrong type.
    """
    if not isinstance(name, str) or not name:
        raise ConfigError(f"register_extra: expected a name, got {name!r:.60}")
    if not callable(function):
        raise ConfigError(f"register_extra: expected a function of a graph, got {type(function).__name__}")
    if _EXTRA.get(name, function) is not function:
        raise ConfigError(f"register_extra: another function is called {name!r}; give yours another name")
    _EXTRA[name] = function


def extra_named(name: str) -> Callable[[Any], Mapping[str, Any]] | None:
    """Return the function that is registered under a name, or None."""
    return _EXTRA.get(name)


def name_of_extra(function: Any) -> str | None:
    """Return the name that a function is registered under, or None."""
    return next((name for name, known in _EXTRA.items() if known is function), None)
