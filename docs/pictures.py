"""The picture of rooms and wings in docs/architecture.md, made from the tables of tests/test_structure.py."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
PICTURE = ROOT / "docs" / "img" / "rooms.svg"
WIDTH, HEIGHT, GAP = 780, 26, 6  # of the picture, of a box, between boxes
LEFT = 96  # where boxes begin
STYLE = {"wing": ("#e8f0fb", "#2f6db5"), "room": ("#fdf1e3", "#c77a1c")}  # ground, line


def floors(table: str) -> list[list[str]]:
    """Return the parts of WINGS or ROOMS floor by floor, the highest first."""
    text = (ROOT / "tests" / "test_structure.py").read_text()
    found = re.search(rf"^{table} = (\{{.*?^\}})", text, re.S | re.M)
    assert found is not None, table
    parts: dict[str, int] = ast.literal_eval(found[1])
    numbers = sorted(set(parts.values()), reverse=True)
    return [[name for name, floor in parts.items() if floor == number] for number in numbers]


def row(names: list[str], style: str, y: int) -> str:
    """Return the boxes of one floor, side by side."""
    ground, line = STYLE[style]
    width = (WIDTH - LEFT - GAP - GAP * (len(names) - 1)) / len(names)
    boxes = []
    for i, name in enumerate(names):
        x = LEFT + i * (width + GAP)
        boxes.append(
            f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="{HEIGHT}" rx="4" fill="{ground}" '
            f'stroke="{line}"/><text x="{x + width / 2:.1f}" y="{y + 17}" text-anchor="middle">{name}</text>'
        )
    return "\n".join(boxes)


def text() -> str:
    """Return the picture as SVG: wings above rooms, each floor using only floors below."""
    y, parts = GAP, []
    for heading, sort, style in (("tpugraphs/", "WINGS", "wing"), ("csrc/", "ROOMS", "room")):
        parts.append(f'<text x="10" y="{y + 17}" font-weight="bold">{heading}</text>')
        for names in floors(sort):
            parts.append(row(names, style, y))
            y += HEIGHT + GAP
        y += 2 * GAP
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y}" width="{WIDTH}" height="{y}" '
        'font-family="sans-serif" font-size="13" fill="#1b1b1b">\n'
        f'<rect width="{WIDTH}" height="{y}" rx="8" fill="#ffffff"/>\n'
    )
    return head + "\n".join(parts) + "\n</svg>\n"


if __name__ == "__main__":
    PICTURE.write_text(text())
