"""Files of tensors and plain values, such as rankers and checkpoints. A crash leaves the old file.

They are safetensors files with JSON under the metadata key ``tpugraphs``. Nothing in a file is executed, and
nothing allocated by a number in it that has not been compared with the size of the file. The JSON has a
digest of every tensor and of itself, so that one flipped bit is found. They have no
separate key, since the library writes several keys in random order: saving twice gives the same bytes.
"""

import hashlib
import json
import os
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tpugraphs import _core
from tpugraphs.errors import CheckpointError, DataError
from tpugraphs.system.files import file_name, no_memory, write_whole
from tpugraphs.system.texts import parsed

_Path = str | os.PathLike[str]
FORMAT_VERSION = 1
_KEY = "tpugraphs"
_DIGESTS = "_digests"  # entry of the JSON
_DAMAGED = "the file is damaged or was changed: write it again"
LATER = "the file is damaged, or was written by a later version of tpugraphs"
_DTYPES = ("F32", "F64", "I64")


def write(path: _Path, kind: str, metadata: Mapping[str, Any], tensors: Mapping[str, Any]) -> None:
    """Write a file of that kind. It appears under its name when it is complete and on disk.

    Parameters
    ----------
    path : path
    kind : str
        What is in it, such as ``"ranker"`` or ``"checkpoint"``.
    metadata : mapping
        JSON values; floats keep every bit.
    tensors : mapping of str to ndarray
        float32, float64 or int64.
    """
    from safetensors.numpy import save

    arrays = {name: np.ascontiguousarray(array) for name, array in tensors.items()}
    whole = with_digests({"kind": kind, "version": FORMAT_VERSION, **metadata}, arrays)
    write_whole(path, save(arrays, {_KEY: json.dumps(whole, allow_nan=False)}))


def with_digests(metadata: Mapping[str, Any], tensors: Mapping[str, NDArray[Any]]) -> dict[str, Any]:
    """Return the metadata with the digests that `read` compares; contiguous `tensors` by name."""
    digests = {
        "metadata": _digest(json.dumps(metadata).encode()),
        "tensors": {
            name: _digest(f"{name} {array.dtype} {array.shape}".encode(), array.tobytes())
            for name, array in tensors.items()
        },
    }
    return {**metadata, _DIGESTS: digests}


def _digest(*parts: bytes) -> str:
    state = hashlib.blake2b(digest_size=16)
    for part in parts:
        state.update(len(part).to_bytes(8, "little"))
        state.update(part)
    return state.hexdigest()


def fail(
    path: _Path, field: str, expected: str, found: str, todo: str = "the file is damaged"
) -> CheckpointError:
    """Make an error about one field of a file, to be raised."""
    return CheckpointError.of(field, expected, found, todo, file=os.fspath(path))


@contextmanager
def sound(path: _Path, field: str, expected: str) -> Iterator[None]:
    """Raise CheckpointError for `field` where the block refuses what it makes of the file."""
    try:
        yield
    except CheckpointError:
        raise
    except (TypeError, ValueError, KeyError) as error:
        raise fail(path, field, expected, str(error)[:300], LATER) from None


def read(path: _Path, *kinds: str) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Read a file of one of these kinds that :func:`write` wrote.

    Returns
    -------
    metadata : dict
        The kind is its entry ``"kind"``.
    tensors : dict of str to ndarray
        Owned by the caller.

    Raises
    ------
    CheckpointError
        Not such a file, of another kind or version, or damaged.
    OSError
        The file cannot be opened.

    Warns
    -----
    UserWarning
        The file has no digests, as an earlier version wrote it.
    """
    which = f"a {kinds[0]}" if len(kinds) == 1 else f"one of {', '.join(kinds)}"
    todo = f"give a file that this version of tpugraphs wrote as {which}"
    if os.fspath(path).endswith((".npz", ".tgpack", ".pb")):
        todo = "tg.load(path) opens a graph"
    notes, tensors = tensors_of(path, todo, _DTYPES)
    metadata = _json(path, kinds, notes.get(_KEY), todo)
    if _DIGESTS in metadata:
        _compare(path, metadata, tensors)
    else:
        text = "this file has no digests, so damage to it cannot be seen"
        warnings.warn(f"{os.fspath(path)}: {text}; save the loaded ranker again to add them", stacklevel=2)
    return metadata, tensors


def _compare(path: _Path, metadata: dict[str, Any], tensors: Mapping[str, NDArray[Any]]) -> None:
    """Remove the digests from the metadata; CheckpointError unless they match what was read."""
    found = metadata.pop(_DIGESTS)
    try:
        expected = with_digests(metadata, tensors)[_DIGESTS]
    except RecursionError as error:
        raise fail(path, "metadata", "JSON", str(error), _DAMAGED) from None
    if found != expected:
        field, known = "metadata", found.get("tensors") if isinstance(found, dict) else None
        if isinstance(known, dict) and found.get(field) == expected[field]:
            own = expected["tensors"].items()
            field = next((name for name, digest in own if known.get(name) != digest), field)
        raise fail(path, field, "contents that have the digest in the file", "others", _DAMAGED)


def tensors_of(
    path: _Path, todo: str, dtypes: tuple[str, ...] | None = None
) -> tuple[dict[str, str], dict[str, NDArray[Any]]]:
    """Read metadata and tensors of any safetensors file; bfloat16 becomes float32.

    `dtypes` are the types that tensors may have, as ``"F32"``; None allows all that can be read. Raises
    CheckpointError, which names the remedy `todo`, for anything but a whole file, and OSError.
    """
    name = os.path.expanduser(file_name(path))
    try:
        return _core.safetensors_load(name, dtypes, os.stat(name).st_size * 2)
    except MemoryError as error:
        raise no_memory(name, error) from None
    except DataError as error:
        expected, found = error.expected or "a complete safetensors file", error.found or str(error)
        raise fail(path, error.field or "header", expected, found, todo) from None


def _json(path: _Path, kinds: tuple[str, ...], text: str | None, todo: str) -> dict[str, Any]:
    def refuse(constant: str) -> Any:
        raise ValueError(f"{constant} is not JSON")

    if text is None:
        raise fail(path, "metadata", f"the key {_KEY!r}", "none", todo)
    try:
        metadata = parsed(text, refuse)
    except ValueError as error:
        raise fail(path, "metadata", "JSON", str(error), todo) from None
    found = metadata.get("kind") if isinstance(metadata, dict) else type(metadata).__name__
    if not isinstance(metadata, dict) or found not in kinds:
        raise fail(path, "kind", " or ".join(map(repr, kinds)), repr(found), todo)
    if metadata.get("version") != FORMAT_VERSION:
        todo = "use the version of tpugraphs that wrote it, or train again"
        raise fail(path, "version", str(FORMAT_VERSION), repr(metadata.get("version")), todo)
    return metadata


def take(
    path: _Path, tensors: Mapping[str, NDArray[Any]], name: str, shape: tuple[int, ...], dtype: Any
) -> NDArray[Any]:
    """Return tensor `name` if it has that shape and dtype and finite values, or raise a CheckpointError."""
    array = tensors.get(name)
    if array is None or array.shape != shape or array.dtype != dtype:
        found = "none" if array is None else f"{array.dtype} of shape {array.shape}"
        raise fail(path, name, f"{np.dtype(dtype)} of shape {shape}", found, _DAMAGED)
    if not np.isfinite(array).all():
        raise fail(path, name, "finite numbers", "NaN or infinity", _DAMAGED)
    return array


def entry(path: _Path, metadata: Mapping[str, Any], name: str, kind: type | tuple[type, ...]) -> Any:
    """Return entry `name` if it has that type, or raise a CheckpointError. What may be a float is finite."""
    value = metadata.get(name)
    kinds = kind if isinstance(kind, tuple) else (kind,)
    endless = float in kinds and isinstance(value, (int, float)) and not abs(value) <= sys.float_info.max
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is int) or endless:
        expected = " or ".join(k.__name__ for k in kinds)
        found = "none" if name not in metadata else repr(value)[:80]
        raise fail(path, name, expected, found, _DAMAGED)
    return value
