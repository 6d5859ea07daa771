"""Exceptions. Every message says what was found, what was expected and what to do."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Self


def printable(text: str, keep: str = "\n") -> str:
    r"""Escape control characters: names come from other people's files, and a terminal would obey them.

    Parameters
    ----------
    text : str
        For people.
    keep : str
        Characters that stay although they print nothing.

    Returns
    -------
    str
        The text, with ``\x1b`` in place of that character, and so on.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in keep else ascii(c)[1:-1] for c in text)


class Error(Exception):
    """Base class of all errors that tpugraphs raises on purpose."""

    def __str__(self) -> str:
        return printable(super().__str__())


class DataError(Error, ValueError):
    """A file or an array that cannot be used.

    Parameters
    ----------
    message : str
        The sentence for people; `file` stands before it.

    Attributes
    ----------
    file, field, found, expected : str or None
        The file, the field in it, what was found there, and what was expected.
    """

    def __init__(
        self,
        message: str,
        *,
        file: str | None = None,
        field: str | None = None,
        found: str | None = None,
        expected: str | None = None,
    ) -> None:
        super().__init__(f"{file}: {message}" if file else message)
        self.file, self.field, self.found, self.expected = file, field, found, expected

    @classmethod
    def of(cls, field: str, expected: str, found: str, todo: str, *, file: str | None = None) -> Self:
        """Make an error whose message has all of its fields, and what to do.

        Parameters
        ----------
        field : str
            The field or argument.
        expected, found : str
            What was expected there, and what was found.
        todo : str
            What the user can do about it.
        file : str, optional
            The file.

        Returns
        -------
        DataError
            To be raised.
        """
        message = f"{field}: expected {expected}, found {found}; {todo}"
        return cls(message, file=file, field=field, expected=expected, found=found)


class NotFiniteError(DataError):
    """Scores or gradients that overflowed or are NaN, as when a training diverges.

    Parameters
    ----------
    message, file, field, found, expected
        As in `DataError`.
    """


class ConfigError(Error, ValueError):
    """Options that are unknown, out of range or do not go together."""


class RecipeError(Error, ValueError):
    """A recipe or model description that cannot be built."""


class ShapeError(Error, ValueError):
    """An array argument has the wrong dtype, shape or memory order."""


class CheckpointError(DataError):
    """A ranker or checkpoint file that cannot be used.

    Parameters
    ----------
    message, file, field, found, expected
        As in `DataError`.
    """


_LOAD = "use tg.load(path) to read a file"


def check_graph(what: str, given: object) -> None:
    """Raise ConfigError unless `given` is a graph. Nothing of the graph is read.

    Parameters
    ----------
    what : str
        Name of the argument.
    given : object
        What was given.

    Raises
    ------
    ConfigError
        Its message says how to make a graph of it.
    """
    if not hasattr(given, "row_numbers"):
        raise ConfigError(f"{what}: expected a graph, got {type(given).__name__}; {graph_hint(given)}")


def check_graphs(what: str, given: object) -> None:
    """Raise ConfigError unless `given` is a graph or a sequence, and not a path or a collection.

    Parameters
    ----------
    what : str
        Name of the argument.
    given : object
        What was given.

    Raises
    ------
    ConfigError
        Its message says how to make graphs of it.
    """
    many = isinstance(given, Iterable) or hasattr(given, "__getitem__")
    usable = hasattr(given, "config_runtime") or (many and not isinstance(given, (str, bytes)))
    if not usable or graph_hint(given) != _LOAD:
        expected = "expected a graph, a list of graphs or a split of a collection"
        raise ConfigError(f"{what}: {expected}, got {type(given).__name__}; {graph_hint(given)}")


def graph_hint(found: object) -> str:
    """Return how to make a graph of something.

    Parameters
    ----------
    found : object
        What was given in place of a graph.

    Returns
    -------
    str
        The end of a message.
    """
    kind = type(found)
    if kind.__module__.startswith("torch_geometric."):
        return "use tg.torch.from_pyg(data)"
    if hasattr(kind, "train") and hasattr(kind, "valid"):  # a collection, whose splits are not read here
        return "give one of its splits, such as collection.train"
    if hasattr(kind, "columns"):
        return "use tg.from_frame(table, ...)"
    if hasattr(kind, "values"):
        return "use list(graphs.values())"
    return _LOAD


# By the numbers of tg_status in csrc/base/status.h.
_KINDS: dict[int, type[Error]] = {1: DataError, 2: ConfigError, 3: RecipeError, 4: ShapeError}
_KINDS |= {5: CheckpointError, 9: NotFiniteError}
_IO = 6


def from_core(
    code: int, errno: int, message: str, field: str, found: str, expected: str, file: str | None
) -> Exception:
    """Make the exception for a ``tg_error`` record; the C core calls this.

    Parameters
    ----------
    code, errno : int
        Status of the core, and of the system for errors of files.
    message, field, found, expected : str
        The record's texts, some empty.
    file : str or None
        The file.

    Returns
    -------
    Exception
        To be raised.
    """
    if code == _IO:
        return OSError(errno, f"{message}: {os.strerror(errno)}", file)
    kind = _KINDS.get(code, Error)
    if issubclass(kind, DataError):
        fields = {"field": field or None, "found": found or None, "expected": expected or None}
        return kind(message, file=file, **fields)
    return kind(message)
