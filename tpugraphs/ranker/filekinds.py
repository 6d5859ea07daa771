"""Files of scorers: which class reads a file, by the kind that the file names."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from numpy.typing import NDArray

from tpugraphs import __version__
from tpugraphs.errors import CheckpointError, ConfigError
from tpugraphs.system import files, tensorfile

if TYPE_CHECKING:
    from tpugraphs.ranker.scorer import ScorerBase

ScorerT = TypeVar("ScorerT", bound=type[Any])
ScorerOf = TypeVar("ScorerOf")

__all__ = ["FromFile", "construct", "load_ranker", "read_members", "register", "write_members"]

_DEEPEST = 32
RANKER = "ranker"  # kind of an ensemble member whose metadata names none, as in files of version 1


# Restores a scorer from what its ``to_file`` returned, and the path for errors.
FromFile = Callable[[str, dict[str, Any], dict[str, NDArray[Any]]], Any]
_KINDS: dict[str, FromFile] = {}


def register(kind: str) -> Callable[[ScorerT], ScorerT]:
    """Register the class that reads files of a kind: a decorator.

    Parameters
    ----------
    kind : str
        Name in the file. It becomes the class's ``file_kind``.

    Returns
    -------
    callable
        Takes the class and returns it.

    Raises
    ------
    ConfigError
        Another class has the name.

    Examples
    --------
    >>> import tpugraphs as tg
    >>> @tg.ranker.filekinds.register("my-scorer")
    ... class MyScorer(tg.ranker.ScorerBase):
    ...     @classmethod
    ...     def from_file(cls, path, metadata, tensors): ...
    >>> MyScorer.file_kind
    'my-scorer'
    """

    def add(cls: ScorerT) -> ScorerT:
        known = _KINDS.get(kind)
        if known is not None and getattr(known, "__self__", None) is not cls:
            todo = "another class has that name; give yours a name of its own"
            raise ConfigError(f"file kind {kind!r}: {todo}")
        _KINDS[kind] = cls.from_file
        cls.file_kind = kind
        return cls

    return add


def load_ranker(path: str | os.PathLike[str]) -> ScorerBase:
    """Read any scorer from its file: a ranker, an ensemble, a baseline, or your own registered class.

    Parameters
    ----------
    path : path

    Returns
    -------
    Scorer
        Predicts the same bits as the scorer that was saved.

    Raises
    ------
    CheckpointError
        Not the file of a scorer, damaged, or of an unknown kind or version; the message names the field.
    OSError
        The file cannot be opened.
    """
    name = files.file_name(path)
    metadata, tensors = tensorfile.read(name, *_KINDS)
    scorer: ScorerBase = _KINDS[metadata["kind"]](name, metadata, tensors)
    return scorer


def construct(
    cls: Callable[..., ScorerOf],
    path: str,
    metadata: Mapping[str, Any],
    arguments: Mapping[str, type | tuple[type, ...]],
    **more: Any,
) -> ScorerOf:
    """Make a scorer from constructor arguments in its file.

    Parameters
    ----------
    cls : class
        Of the scorer.
    path : str
        The file, for messages.
    metadata : mapping
        JSON values of the file.
    arguments : mapping of str to type or types
        Names of arguments, with the types that their values may have.
    **more
        Other arguments.

    Returns
    -------
    scorer
        Not fitted yet.

    Raises
    ------
    CheckpointError
        A value that is missing, of another type, or refused by the class.
    """
    own = {name: tensorfile.entry(path, metadata, name, kind) for name, kind in arguments.items()}
    try:
        return cls(**own, **more)
    except ConfigError as error:
        field = str(error).partition(":")[0]
        raise CheckpointError(f"{error}; the file is damaged", file=path, field=field) from None


def write_members(scorers: Iterable[Any]) -> tuple[list[dict[str, Any]], dict[str, NDArray[Any]]]:
    """Return metadata and tensors of scorers that are stored inside another's file.

    Parameters
    ----------
    scorers : iterable of scorer
        The members.

    Returns
    -------
    entries : list of dict
        For the entry "members" of the metadata.
    tensors : dict of str to array
        For the tensors of the file.
    """
    entries, tensors = list[dict[str, Any]](), dict[str, NDArray[Any]]()
    for i, scorer in enumerate(scorers):
        metadata, own = scorer.to_file()
        kind = {} if scorer.file_kind == RANKER else {"kind": scorer.file_kind}
        entries.append({**kind, "package": __version__, **metadata})
        tensors |= {f"{i}.{name}": array for name, array in own.items()}
    return entries, tensors


def read_members(path: str, metadata: Mapping[str, Any], tensors: Mapping[str, NDArray[Any]]) -> list[Any]:
    """Restore the scorers that `write_members` stored in the entry "members".

    Parameters
    ----------
    path : str
        The file, for messages.
    metadata : mapping
        JSON values of the file.
    tensors : mapping of str to array
        Arrays of the file.

    Returns
    -------
    list of scorer
        In their order.

    Raises
    ------
    CheckpointError
        The file is damaged.
    """
    inside = entries = tensorfile.entry(path, metadata, "members", list)
    for _ in range(_DEEPEST):
        held = [one["members"] for one in inside if isinstance(one, dict) and "members" in one]
        inside = [one for part in held if isinstance(part, list) for one in part]
    if inside:
        raise tensorfile.fail(path, "members", f"at most {_DEEPEST} scorers inside each other", "more")
    return [_read_member(path, i, own, tensors) for i, own in enumerate(entries)]


def _read_member(path: str, i: int, metadata: Any, tensors: Mapping[str, NDArray[Any]]) -> Any:
    place, prefix = f"members[{i}]", f"{i}."
    if not isinstance(metadata, dict):
        raise tensorfile.fail(path, place, "an object", repr(metadata)[:80])
    kind = metadata.get("kind", RANKER)
    if not isinstance(kind, str) or kind not in _KINDS:
        todo = "register the class that wrote it (tpugraphs.ranker.filekinds), then load again"
        raise tensorfile.fail(path, f"{place}.kind", ", ".join(sorted(_KINDS)), repr(kind)[:80], todo)
    mine = {key.removeprefix(prefix): array for key, array in tensors.items() if key.startswith(prefix)}
    try:
        return _KINDS[kind](path, metadata, mine)
    except CheckpointError as error:
        error.add_note(f"in {place} of this file")
        raise
