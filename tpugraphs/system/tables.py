"""Tables of a report, made of lines of (head, cell): as aligned text, Markdown and HTML."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

WORDS = ("collection", "graph", "scorer", "findings")  # words are set to the left, numbers to the right


def section(title: str, lines: Sequence[Sequence[tuple[str, str]]]) -> tuple[str, list[str], list[list[str]]]:
    """Table of lines of (head, cell). Columns of words and counts that never change go to the title."""
    heads = list(dict.fromkeys(head for line in lines for head, _ in line))
    cells = [[dict(line).get(head, "-") for head in heads] for line in lines]
    constant = {
        head: column[0]
        for head, column in zip(heads, zip(*cells, strict=True), strict=True)
        if head in (*WORDS, "graphs", "configs") and len(set(column)) == 1
    }
    parts = [constant[head] for head in ("collection", "graph", "scorer") if head in constant]
    parts += [
        f"{constant[head]} {head[:-1] if constant[head] == '1' else head}"
        for head in ("graphs", "configs")
        if head in constant
    ]
    left = [place for place, head in enumerate(heads) if head not in constant]
    return title + ", ".join(parts), [heads[i] for i in left], [[line[i] for i in left] for line in cells]


def text(title: str, heads: Sequence[str], cells: Sequence[Sequence[str]]) -> str:
    """Lay out a text table: words to the left, numbers to the right, a rule under the heads."""
    width = [max(map(len, column)) for column in zip(heads, *cells, strict=True)]

    def line(parts: Sequence[str]) -> str:
        padded = (
            part.ljust(w) if head in WORDS else part.rjust(w)
            for part, w, head in zip(parts, width, heads, strict=True)
        )
        return "  ".join(padded).rstrip()

    lines = [line(heads), "  ".join("-" * w for w in width), *(line(parts) for parts in cells)]
    return "\n".join(([title] if title else []) + lines)


def markdown(title: str, heads: Sequence[str], cells: Sequence[Sequence[str]]) -> str:
    """Lay out a Markdown table."""
    align = ["---" if head in WORDS else "---:" for head in heads]
    escaped = [[cell.replace("|", "\\|") for cell in line] for line in cells]
    lines = ["| " + " | ".join(line) + " |" for line in [heads, align, *escaped]]
    return "\n".join(([f"**{title}**", ""] if title else []) + lines)


def html(title: str, heads: Sequence[str], cells: Sequence[Sequence[str]]) -> str:
    """Lay out an HTML table."""
    head = "".join(f"<th>{escape(name)}</th>" for name in heads)
    body = "".join(
        "<tr>"
        + "".join(
            f'<td style="text-align:{"left" if name in WORDS else "right"}">{escape(cell)}</td>'
            for cell, name in zip(line, heads, strict=True)
        )
        + "</tr>"
        for line in cells
    )
    caption = f"<caption>{escape(title)}</caption>" if title else ""
    return f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
