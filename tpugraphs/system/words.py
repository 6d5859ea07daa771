"""Numbers with their nouns, for people."""

import json
from collections.abc import Sequence
from typing import Any


def plural(count: int, one: str, many: str | None = None) -> str:
    """Return the form of a noun that follows a number.

    Parameters
    ----------
    count : int
    one : str
        The noun after 1, such as ``"graph"``.
    many : str, optional
        The noun after any other number; `one` with an s by default.
    """
    return one if count == 1 else many or f"{one}s"


def counted(count: int, one: str, many: str | None = None) -> str:
    """Return a number with its noun, ``1 graph`` or ``1,234 graphs``; arguments: see `plural`."""
    return f"{count:,} {plural(count, one, many)}"


def few(names: Sequence[str], most: int = 5) -> str:
    """Return the first names of a list, and how many others there are."""
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown} and {counted(len(names) - most, 'other')}"


def json_text(value: Any) -> str:
    """Return readable JSON, with control characters and unpaired surrogates escaped."""
    text = json.dumps(value, indent=2, ensure_ascii=False)
    if text.replace("\n", "").isprintable():
        return text
    return "".join(c if c.isprintable() or c == "\n" else json.dumps(c)[1:-1] for c in text)
