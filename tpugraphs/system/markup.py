"""HTML of objects in notebooks: self-contained, every text escaped, legible on light and dark backgrounds.

Colours of text and background are those of the page. Lines and shades are half-transparent grey, and the two
colours of a chart have enough contrast with white and with black (at least 3:1) and differ for the
colour-blind, too. Styles are inline: notebooks that are not trusted drop style sheets.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape

from tpugraphs.system import tables

BLUE, ORANGE = "#2f7fd0", "#cc6b1a"
_GREY = "rgba(128,128,128,.45)"
_LEFT = "text-align:left;padding:2px 14px 2px 0;vertical-align:top;background:none;border:none"
_HEAD = f"{_LEFT};font-weight:normal;opacity:.7;white-space:nowrap"
_POINTS = 400  # of a line; more are averaged
_WIDTH, _HEIGHT = 640, 220
_MARGIN = (64, 26, 64, 30)  # of a chart: left, above, right, below


def card(title: str, name: str, state: str, facts: Mapping[str, object], *parts: str) -> str:
    """Return a block with a heading and a list of facts; `parts` are HTML, everything else is text."""
    shown = f' <span style="opacity:.7">{escape(state)}</span>' if state else ""
    named = f" <code style='background:none;color:inherit'>{escape(name)}</code>" if name else ""
    rows = "".join(
        f'<tr style="background:none"><th style="{_HEAD}">{escape(key)}</th>'
        f'<td style="{_LEFT}">{escape(str(value))}</td></tr>'
        for key, value in facts.items()
        if value is not None and value != ""
    )
    listed = f'<table style="border-collapse:collapse;margin:4px 0">{rows}</table>' if rows else ""
    return (
        '<div style="font-family:system-ui,sans-serif;font-size:13px;line-height:1.45;max-width:60em">'
        f'<div style="border-bottom:1px solid {_GREY};padding-bottom:3px"><strong>{escape(title)}</strong>'
        f"{named}{shown}</div>{listed}{''.join(parts)}</div>"
    )


def table(heads: Sequence[str], cells: Sequence[Sequence[str]], title: str = "") -> str:
    """Return a table that scrolls where it is wider than the page."""
    return f'<div style="overflow-x:auto;margin:6px 0">{tables.html(title, heads, cells)}</div>'


def folded(title: str, *parts: str) -> str:
    """Return HTML that is shown on a click."""
    head = f'<summary style="cursor:pointer">{escape(title)}</summary>'
    return f'<details style="margin:4px 0">{head}{"".join(parts)}</details>'


def items(texts: Iterable[object], most: int | None = None) -> str:
    """Return a list of texts: the first `most`, and how many more there are."""
    listed = [str(text) for text in texts]
    if most is not None and len(listed) > most:
        listed[most:] = [f"and {len(listed) - most:,} more"]
    return f"<ul style='margin:4px 0'>{''.join(f'<li>{escape(text)}</li>' for text in listed)}</ul>"


@dataclass
class Line:
    """A line of a chart.

    Attributes
    ----------
    name : str
    x, y : sequence of float
        Values that are not finite are left out.
    colour : str
    right : bool
        Its scale is on the right.
    dots : bool
        Mark every value.
    """

    name: str
    x: Sequence[float]
    y: Sequence[float]
    colour: str
    right: bool = False
    dots: bool = False


def chart(lines: Sequence[Line], along: str, left: str = "", right: str = "") -> str:
    """Draw lines over one axis as SVG, with a scale on the left, on the right, or on both.

    Parameters
    ----------
    lines : sequence of Line
    along, left, right : str
        What the axes show.

    Returns
    -------
    str
        The SVG; empty if there is nothing to draw.
    """
    drawn = [(line, points) for line in lines if (points := _points(line))]
    if not drawn:
        return ""
    begin, above, end, below = _MARGIN
    first, last, across = _axis([x for _, points in drawn for x, _ in points], begin, _WIDTH - end)
    body = []
    for side, name, anchor, at, edge, inward in (
        (False, left, "end", begin - 6, begin, "start"),
        (True, right, "start", _WIDTH - end + 6, _WIDTH - end, "end"),
    ):
        own = [(line, points) for line, points in drawn if line.right == side]
        if not own:
            continue
        low, high, up = _axis([y for _, points in own for _, y in points], _HEIGHT - below, above)
        colour = own[0][0].colour
        for value in (low, low / 2 + high / 2, high):  # a sum of the largest numbers is not finite
            body.append(_text(at, up(value) + 4, anchor, f"{value:.4g}", colour))
        body.append(_text(edge, above - 10, inward, name, colour))
        for line, points in own:
            places = [(across(x), up(y)) for x, y in points]
            path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
            body.append(
                f'<polyline points="{path}" fill="none" stroke="{line.colour}" stroke-width="1.6">'
                f"<title>{escape(line.name)}</title></polyline>"
            )
            marked = places if line.dots or len(places) == 1 else []
            body += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.6" fill="{line.colour}"/>' for x, y in marked]
    for x in dict.fromkeys((first, last)):
        body.append(_text(across(x), _HEIGHT - 12, "middle", f"{x:,.0f}", "currentColor"))
    body.append(_text(_WIDTH / 2, _HEIGHT - 12, "middle", along, "currentColor"))
    outline = f"M{begin} {above}V{_HEIGHT - below}H{_WIDTH - end}V{above}"
    frame = f'<path d="{outline}" fill="none" stroke="currentColor" stroke-opacity=".35"/>'
    label = escape(f"{' and '.join(filter(None, (left, right)))} by {along}")
    return (
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{label}" '
        f'style="width:100%;max-width:{_WIDTH}px;height:auto;display:block;font:12px system-ui,sans-serif">'
        f"{frame}{''.join(body)}</svg>"
    )


def _text(x: float, y: float, anchor: str, text: str, colour: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}">{escape(text)}</text>'


def _points(line: Line) -> list[tuple[float, float]]:
    """Return the points of a line, means of neighbours where there are many."""
    pairs = zip(map(float, line.x), map(float, line.y), strict=True)
    points = [(x, y) for x, y in pairs if math.isfinite(x) and math.isfinite(y)]
    size = -(-len(points) // _POINTS)
    if size < 2:
        return points
    parts = [points[i : i + size] for i in range(0, len(points), size)]
    return [(part[-1][0], math.fsum(y / len(part) for _, y in part)) for part in parts]


def _axis(
    values: Sequence[float], first: float, last: float
) -> tuple[float, float, Callable[[float], float]]:
    """Return the ends of the values, and the function from these to first..last.

    It returns the middle if all values are equal.
    """
    low, high = min(values), max(values)

    def place(value: float) -> float:
        share, whole = value / 2 - low / 2, high / 2 - low / 2  # their difference may not be finite
        return first + (last - first) * (share / whole if whole > 0 else 0.5)

    return low, high, place
