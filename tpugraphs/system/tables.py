"""Tables of a report, made of lines of (head, cell): aligned text, Markdown, HTML; and pandas DataFrames."""

import re
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from tpugraphs.errors import printable
from tpugraphs.system.extras import optional

# Columns of words, which are set to the left; numbers to the right.
WORDS = (
    *("collection", "graph", "scorer", "findings", "step", "op", "in", "out", "part", "name"),
    *("split", "field", "value", "choice", "why", "problem", "best config"),
)
_COUNTS = ("graphs", "configs")
_Lines = Sequence[Sequence[str]]
Section = tuple[str, list[str], list[list[str]]]  # title, heads, cells


def section(title: str, lines: Iterable[Mapping[str, str] | Sequence[tuple[str, str]]]) -> Section:
    """Return title, heads and cells. Columns of words and counts that never change go to the title."""
    rows = [dict(line) for line in lines]
    heads = dict.fromkeys(head for row in rows for head in row)
    columns = {head: [row.get(head, "-") for row in rows] for head in heads}
    parts = []
    for head in ("collection", "graph", "scorer", *_COUNTS):
        if len(set(columns.get(head, ()))) == 1:
            value = columns.pop(head)[0]
            parts.append(f"{value} {head[:-1] if value == '1' else head}" if head in _COUNTS else value)
    cells = [list(line) for line in zip(*columns.values(), strict=True)]
    return title + ", ".join(parts), list(columns), cells


def _printable(title: str, heads: Sequence[str], cells: _Lines) -> Section:
    lines = [[printable(cell, "") for cell in line] for line in (heads, *cells)]
    return printable(title), lines[0], lines[1:]


def text(title: str, heads: Sequence[str], cells: _Lines) -> str:
    """Lay out a text table, with a rule under the heads."""
    columns = []
    title, heads, cells = _printable(title, heads, cells)
    for head, *column in zip(heads, *cells, strict=True):
        width = max(map(len, (head, *column)))
        rows = (head, "-" * width, *column)
        columns.append([cell.ljust(width) if head in WORDS else cell.rjust(width) for cell in rows])
    lines = ["  ".join(line).rstrip() for line in zip(*columns, strict=True)]
    return "\n".join(([title] if title else []) + lines)


def markdown(title: str, heads: Sequence[str], cells: _Lines) -> str:
    """Lay out a Markdown table, with HTML and links in names escaped."""
    align = ["---" if head in WORDS else "---:" for head in heads]
    cells = [list(map(plain_markdown, line)) for line in (heads, *cells)]
    lines = ["| " + " | ".join(line) + " |" for line in [cells[0], align, *cells[1:]]]
    return "\n".join(([f"**{plain_markdown(title)}**", ""] if title else []) + lines)


def plain_markdown(text: str) -> str:
    """Escape what is HTML, a link or the end of a cell in Markdown."""
    return re.sub(r"[|[]", r"\\\g<0>", escape(printable(text, ""), quote=False))


def html(title: str, heads: Sequence[str], cells: _Lines) -> str:
    """Lay out an HTML table."""
    title, heads, cells = _printable(title, heads, cells)
    sides = ["left" if head in WORDS else "right" for head in heads]

    def row(tag: str, line: Sequence[str]) -> str:
        look = "padding:2px 12px 2px 0"
        pairs = zip(sides, line, strict=True)
        return "".join(
            f'<{tag} style="text-align:{side};{look}">{escape(cell)}</{tag}>' for side, cell in pairs
        )

    body = "".join(f"<tr>{row('td', line)}</tr>" for line in cells)
    return f"<table><caption>{escape(title)}</caption><tr>{row('th', heads)}</tr>{body}</table>"


def frame(rows: Iterable[Any], columns: Sequence[str] | None = None) -> Any:
    """Make a pandas DataFrame of rows: mappings, or sequences with the names of the `columns`.

    Raises
    ------
    ConfigError
        pandas is not installed.
    """
    pandas = optional("pandas", "to_frame needs pandas, which is missing: pip install 'tpugraphs[pandas]'")
    return pandas.DataFrame(list(rows), columns=None if columns is None else list(columns))
