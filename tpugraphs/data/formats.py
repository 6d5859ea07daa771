"""Kinds of files that graphs are in: a table from the ending of a name to what reads and writes it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["READERS", "WRITERS", "of"]

# Ending -> function of (path, most bytes of arrays) that gives the graph, or of (path, graph) that writes it.
# The module of a kind adds its own. What has none of these endings is npz.
READERS: dict[str, Callable[[str, int], Any]] = {}
WRITERS: dict[str, Callable[[str, Any], None]] = {}


def of(path: str, table: dict[str, Callable[..., Any]]) -> Callable[..., Any] | None:
    """Find what is for the ending of a path, None if nothing is."""
    return next((made for ending, made in table.items() if path.endswith(ending)), None)
