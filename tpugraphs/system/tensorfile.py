"""Ranker files and checkpoints: safetensors with JSON in the metadata; a crash leaves the old file.

The JSON stands under the metadata key ``tpugraphs``. Nothing in a file is executed, and nothing allocated by
a number in it that has not been compared with the size of the file.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tpugraphs import _core
from tpugraphs.data.schema import Schema
from tpugraphs.errors import CheckpointError, ConfigError, DataError, RecipeError
from tpugraphs.system.files import atomic_write

__all__ = ["read", "write"]

FORMAT_VERSION = 1
_KEY = "tpugraphs"
_DTYPES = ("F32", "F64", "I64")


def write(
    path: str | os.PathLike[str], kind: str, metadata: Mapping[str, Any], tensors: Mapping[str, Any]
) -> None:
    """Write a file of that kind. It appears under its name when it is complete and on disk.

    Parameters
    ----------
    path : path
    kind : str
        ``"ranker"`` or ``"checkpoint"``.
    metadata : mapping
        JSON values; floats keep every bit.
    tensors : mapping of str to ndarray
        float32, float64 or int64.
    """
    from safetensors.numpy import save

    text = json.dumps({"kind": kind, "version": FORMAT_VERSION, **metadata}, allow_nan=False)
    data = save({name: np.ascontiguousarray(array) for name, array in tensors.items()}, {_KEY: text})
    with atomic_write(path) as file:
        file.write(data)


def fail(path: str | os.PathLike[str], field: str, expected: str, found: str, todo: str) -> CheckpointError:
    """Error about one field of a file, to be raised."""
    message = f"{field}: expected {expected}, found {found}; {todo}"
    return CheckpointError(message, file=os.fspath(path), field=field, expected=expected, found=found)


def read(path: str | os.PathLike[str], kind: str) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Read a file that :func:`write` wrote.

    Returns
    -------
    metadata : dict
    tensors : dict of str to ndarray
        Owned by the caller.

    Raises
    ------
    CheckpointError
        Not such a file, of another kind or version, or damaged.
    OSError
        The file cannot be opened.
    """
    todo = f"give a file that this version of tpugraphs wrote as a {kind}"
    notes, tensors = tensors_of(path, todo, _DTYPES)
    return _json(path, kind, notes.get(_KEY), todo), tensors


def tensors_of(
    path: str | os.PathLike[str], todo: str, dtypes: tuple[str, ...] | None = None
) -> tuple[dict[str, str], dict[str, NDArray[Any]]]:
    """Metadata and tensors of any safetensors file; bfloat16 as float32.

    Parameters
    ----------
    path : path
        ``~`` is expanded.
    todo : str
        The remedy that an error names.
    dtypes : tuple of str, optional
        Types that tensors may have, as ``"F32"``.

    Raises
    ------
    CheckpointError
        No such file, or damaged.
    OSError
        The file cannot be opened.
    """
    name = os.path.expanduser(os.fspath(path))
    try:
        return _core.safetensors_load(name, dtypes, os.stat(name).st_size * 2)
    except DataError as error:
        expected, found = error.expected or "a complete safetensors file", error.found or str(error)
        raise fail(path, error.field or "header", expected, found, todo) from None


def _json(path: str | os.PathLike[str], kind: str, text: str | None, todo: str) -> dict[str, Any]:
    def refuse(constant: str) -> Any:
        raise ValueError(f"{constant} is not JSON")

    if text is None:
        raise fail(path, "metadata", f"the key {_KEY!r}", "none", todo)
    try:
        metadata = json.loads(text, parse_constant=refuse)
    except (ValueError, RecursionError) as error:
        raise fail(path, "metadata", "JSON", str(error), todo) from None
    if not isinstance(metadata, dict) or metadata.get("kind") != kind:
        found = metadata.get("kind") if isinstance(metadata, dict) else type(metadata).__name__
        raise fail(path, "kind", repr(kind), repr(found), todo)
    if metadata.get("version") != FORMAT_VERSION:
        raise fail(path, "version", str(FORMAT_VERSION), repr(metadata.get("version")),
                   "use the version of tpugraphs that wrote it, or train again")  # fmt: skip
    return metadata


def take(
    path: str | os.PathLike[str],
    tensors: Mapping[str, NDArray[Any]],
    name: str,
    shape: tuple[int, ...],
    dtype: Any,
) -> NDArray[Any]:
    """Tensor `name` with that shape and dtype and finite values, or a CheckpointError."""
    todo = "the file is damaged or was changed: write it again"
    if name not in tensors:
        raise fail(path, name, f"a tensor of shape {shape}", "none", todo)
    array = tensors[name]
    if array.shape != shape or array.dtype != dtype:
        raise fail(
            path, name, f"{np.dtype(dtype)} of shape {shape}", f"{array.dtype} of shape {array.shape}", todo
        )
    if not np.isfinite(array).all():
        raise fail(path, name, "finite numbers", "NaN or infinity", todo)
    return array


def entry(
    path: str | os.PathLike[str], metadata: Mapping[str, Any], name: str, kind: type | tuple[type, ...]
) -> Any:
    """Entry `name` of the metadata with that type, or a CheckpointError."""
    value = metadata.get(name)
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is int):
        kinds = kind if isinstance(kind, tuple) else (kind,)
        expected = " or ".join(k.__name__ for k in kinds)
        found = "none" if name not in metadata else repr(value)[:80]
        raise fail(path, name, expected, found, "the file is damaged or was changed: write it again")
    return value


def schema(path: str | os.PathLike[str], described: Any) -> Schema:
    """Return the schema that stands in the metadata, or raise CheckpointError."""
    try:
        return Schema.from_dict(described)
    except (ConfigError, DataError, TypeError, ValueError, KeyError) as error:
        todo = "the file is damaged, or was written by a later version of tpugraphs"
        raise fail(path, "schema", "a schema", str(error), todo) from None


def parameters(
    path: str | os.PathLike[str],
    steps: list[Any],
    columns: Mapping[str, Any],
    tensors: Mapping[str, NDArray[Any]],
) -> dict[str, NDArray[np.float32]]:
    """Take the weights of a model of these steps: all are in the file before the core makes room for one.

    Parameters
    ----------
    path : path
    steps : list
        As they stand in the file.
    columns : mapping
        Arguments of ``_core.plan_parameters``: what the graphs hold.
    tensors : mapping of str to ndarray

    Raises
    ------
    CheckpointError
        Steps that are no model, or a parameter that is missing or of another shape.
    """
    try:
        planned = _core.plan_parameters(steps, **columns)
    except (RecipeError, ValueError, TypeError) as error:
        todo = "the file is damaged, or was written by a later version of tpugraphs"
        raise fail(path, "steps", "the steps of a model", str(error), todo) from None
    return {name: take(path, tensors, name, shape, np.float32) for name, shape in planned}
