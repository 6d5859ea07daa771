"""Formats of graph files: tables that map the ending of a file name to what reads or writes it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["READERS", "WRITERS", "of"]

# Ending -> function (path, max_bytes) that returns the graph, or (path, graph) that writes it. The module of
# a format adds its own entries. A file with any other ending is an npz.
READERS: dict[str, Callable[[str, int], Any]] = {}
WRITERS: dict[str, Callable[[str, Any], None]] = {}


def of(path: str, table: dict[str, Callable[..., Any]]) -> Callable[..., Any] | None:
    """Return the entry for the ending of a path, or None."""
    return next((made for ending, made in table.items() if path.endswith(ending)), None)
