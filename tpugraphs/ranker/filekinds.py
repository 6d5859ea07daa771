"""Files of scorers: the table that maps the kind named in a file to the class that reads it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from numpy.typing import NDArray

from tpugraphs.errors import CheckpointError, ConfigError
from tpugraphs.system import tensorfile
from tpugraphs.system.files import file_name

__all__ = ["FromFile", "load_ranker", "read_member", "register", "write", "write_member"]

RANKER = "ranker"  # kind of a member of an ensemble whose metadata names none, as files of version 1 do


class FromFile(Protocol):
    """Restores a scorer from what its ``to_file`` returned; raises CheckpointError if that is damaged."""

    def __call__(self, path: str, metadata: dict[str, Any], tensors: dict[str, NDArray[Any]], /) -> Any:
        """Restore it; `path` names the file in errors."""


_KINDS: dict[str, FromFile] = {}


def register(kind: str) -> Callable[[type[Any]], type[Any]]:
    """Class decorator: let the class's ``from_file`` read the files of this kind.

    Parameters
    ----------
    kind : str
        Name that stands in the file. It becomes the class's ``file_kind``.

    Raises
    ------
    ConfigError
        Another class has the name.

    Examples
    --------
    >>> @register("my-scorer")  # doctest: +SKIP
    ... class MyScorer(ScorerBase):
    ...     @classmethod
    ...     def from_file(cls, path, metadata, tensors): ...
    """

    def add(cls: type[Any]) -> type[Any]:
        known = _KINDS.get(kind)
        if known is not None and getattr(known, "__self__", None) is not cls:
            raise ConfigError(
                f"file kind {kind!r}: another class has that name; give yours a name of its own"
            )
        _KINDS[kind] = cls.from_file
        cls.file_kind = kind
        return cls

    return add


def write(path: str, scorer: Any) -> None:
    """Write a scorer to one safetensors file, which appears when it is complete."""
    metadata, tensors = scorer.to_file()
    tensorfile.write(path, scorer.file_kind, metadata, tensors)


def load_ranker(path: str | os.PathLike[str]) -> Any:
    """Read any scorer from its file: a ranker, an ensemble, a baseline, a registered class of your own.

    Parameters
    ----------
    path : path

    Returns
    -------
    Scorer
        Its predictions have the same bits as those of the scorer that was saved.

    Raises
    ------
    CheckpointError
        Not the file of a scorer, damaged, or of an unknown kind or version; the message names the field.
    OSError
        The file cannot be opened.
    """
    name = file_name(path)
    metadata, tensors = tensorfile.read(name, *_KINDS)
    return _KINDS[metadata["kind"]](name, metadata, tensors)


def write_member(scorer: Any) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return metadata (with the kind) and tensors of a scorer that is stored inside another's file."""
    metadata, tensors = scorer.to_file()
    return {**({} if scorer.file_kind == RANKER else {"kind": scorer.file_kind}), **metadata}, tensors


def read_member(
    path: str, place: str, metadata: Any, tensors: Mapping[str, NDArray[Any]], prefix: str
) -> Any:
    """Restore a scorer from what `write_member` returned; names of its tensors begin with `prefix`.

    Parameters
    ----------
    path, place : str
        File, and the entry in it, for errors.
    """
    if not isinstance(metadata, dict):
        raise tensorfile.fail(path, place, "an object", repr(metadata)[:80], "the file is damaged")
    kind = metadata.get("kind", RANKER)
    if kind not in _KINDS:
        todo = "register the class that wrote it (tpugraphs.ranker.filekinds), then load again"
        raise tensorfile.fail(path, f"{place}.kind", ", ".join(sorted(_KINDS)), repr(kind), todo)
    mine = {key.removeprefix(prefix): array for key, array in tensors.items() if key.startswith(prefix)}
    try:
        return _KINDS[kind](path, metadata, mine)
    except CheckpointError as error:
        error.add_note(f"in {place} of this file")
        raise
