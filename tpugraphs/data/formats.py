"""Formats of graph files: tables that map the ending of a file name to its reader or writer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from tpugraphs.data.graph import Graph

T = TypeVar("T")
# Ending -> function (path, max_bytes) that returns the graph, or (path, graph) that writes it. The module of
# a format adds its own entries. A file with any other ending is an npz.
READERS: dict[str, Callable[..., Graph]] = {}
WRITERS: dict[str, Callable[[str, Graph], None]] = {}


def of(path: str, table: Mapping[str, T]) -> T | None:
    """Return the entry for the ending of a path, or None."""
    return next((made for ending, made in table.items() if path.endswith(ending)), None)
