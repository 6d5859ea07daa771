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

from tpugraphs.errors import CheckpointError
from tpugraphs.files import atomic_write

__all__ = ["read", "write"]

FORMAT_VERSION = 1
MAX_HEADER = 16 << 20
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
    from safetensors import SafetensorError, safe_open

    name = os.path.expanduser(os.fspath(path))
    todo = f"give a file that this version of tpugraphs wrote as a {kind}"
    size = os.stat(name).st_size  # the usual OSError if it is missing
    if not os.path.isfile(name):
        found = "a directory" if os.path.isdir(name) else "something else"
        raise fail(path, "file", f"a {kind} file", found, todo)
    with open(name, "rb") as raw:
        length = int.from_bytes(raw.read(8).ljust(8, b"\xff"), "little")
        if length > min(size, MAX_HEADER):
            raise fail(path, "header", "a safetensors header", f"none in {size} bytes", todo)
        header = raw.read(length)
    try:
        with safe_open(name, framework="numpy") as file:
            metadata = _json(path, kind, (file.metadata() or {}).get(_KEY), todo)
            dtypes = {
                key: entry["dtype"] for key, entry in json.loads(header).items() if key != "__metadata__"
            }
            for key, dtype in dtypes.items():
                if dtype not in _DTYPES:
                    raise fail(path, key, f"a tensor of {' or '.join(_DTYPES)}", dtype, todo)
            tensors = {key: np.array(file.get_tensor(key)) for key in dtypes}
    except SafetensorError as error:
        raise fail(path, "header", "a complete safetensors file", str(error), todo) from None
    return metadata, tensors


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
