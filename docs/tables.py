"""Write docs/tables.md: what the core's tables of ops and losses say about themselves. `make tables`."""

import itertools
from pathlib import Path
from typing import Any

from tpugraphs import _core
from tpugraphs.kernels.faces import SHAPES

FILE = Path(__file__).with_name("tables.md")
HEAD = """# Ops and losses

This page lists every op that models can use and every loss that rankers can train with, with attributes and
ranges. `make tables` writes it from the core's own tables. To build a model of these ops, read
[own-models.md](own-models.md); to add an op or a loss, [adding.md](adding.md).

Rows are those of `TG_SPACE_LIST` (`csrc/ops/op.h`): NODE (N, F), NODE_CONFIG (N, C, F), CONFIG_NODE (K, F),
CONFIG_NODE_CONFIG (K, C, F), EDGE (E, F), EDGE_CONFIG (E, C, F), CONFIG (C, F), SLATE (1, F), UNIQUE (U, F).
N are nodes, C configs, K configurable nodes, E edges, U unique cells, F columns, D digits of such a node.
"""
WIDE, WIDTHS = 40, (24, 36, 144)  # columns by which it is seen what an op's follow from
MANY = 12  # rows of inputs that are no longer listed
NAMED = ("out", "cols", "count")  # attributes that are a number of columns
SPACES = max(len(spec["rows"]) for op in _core.ops() for spec in op["inputs"])


def number(value: float) -> str:
    """0.5, 65536, 1e-05."""
    return str(int(value)) if float(value).is_integer() and abs(value) < 1e9 else f"{value:.6g}"


def attribute(attr: dict[str, Any]) -> str:
    """`out` = 1 (1..65536): columns of the result."""
    if attr["kind"] == "choice":
        shown, allowed = attr["default"], ", ".join(attr["choices"])
    elif attr["kind"] == "flag":
        shown, allowed = str(bool(attr["default"])).lower(), "flag"
    else:
        shown, allowed = number(attr["default"]), f"{number(attr['low'])}..{number(attr['high'])}"
    needs = "".join(
        f"; {choice} needs the parameter `{name}`" for choice, name in attr.get("needs", {}).items()
    )
    return f"`{attr['name']}` = {shown} ({allowed}): {attr['doc']}{needs}"


def op_section(op: dict[str, Any]) -> str:
    """One op."""
    lines = [f"### {op['name']}", "", op["doc"], "", f"`{call(op)}`", ""]
    for spec in op["inputs"]:
        rows = "any rows" if len(spec["rows"]) == SPACES else " or ".join(spec["rows"])
        lines.append(f"- input `{spec['name']}`{' (optional)' if spec['optional'] else ''}: {rows}")
    lines.append(f"- output: {outputs(op)}")
    if op["params"]:
        lines.append(f"- parameters: {', '.join(f'`{name}`' for name in op['params'])}")
    lines += [f"- {attribute(attr)}" for attr in op["attrs"]]
    if op["flags"]:
        lines.append(f"- flags: {', '.join(op['flags'])}")
    return "\n".join([*lines, ""])


def call(op: dict[str, Any]) -> str:
    """Return the op as a method of `tg.Model`: `model.linear(x, row)`."""
    given = [spec["name"] + "=None" * spec["optional"] for spec in op["inputs"]]
    return f"model.{op['name']}({', '.join([*given, '...'] if op['attrs'] else given)})"


def planned(op: dict[str, Any], rows: tuple[str, ...], columns: tuple[int, ...]) -> tuple[str, int] | None:
    """Return rows and columns of what the op makes of inputs of these, None if it does not take them."""
    inputs = {f"in{i}": pair for i, pair in enumerate(zip(rows, columns, strict=True)) if pair[0] != "UNIQUE"}
    wide = {attr["name"]: WIDE for attr in op["attrs"] if attr["name"] in NAMED}
    one = {"op": op["name"], "name": "one", "in": [f"in{i}" for i in range(len(rows))], "out": "made"}
    tokens = {"column": 0, "groups": 3, "step": 6, "cols": sum(columns[:1]) // 6}
    cells = [
        {"op": "cell_columns", "name": "c", "in": [], "out": "cells"},
        {"op": "dimension_tokens", "name": "t", "in": ["cells"], "out": "in0", "attrs": tokens},
    ]
    stats = {"op": "linear", "name": "s", "in": ["in0"], "out": "with"}
    before = cells if "UNIQUE" in rows else []
    known = [[*before, {**one, "attrs": wide}]]  # and once more with an input whose statistics are known
    known.append(
        [{**stats, "attrs": {"out": sum(columns[:1]), "stats": True}}, {**one, "in": ["with"], "attrs": wide}]
    )
    for steps in known if columns else known[:1]:
        try:
            return _core.plan_slots(steps, ["made"], inputs)[0]["made"]
        except ValueError:
            continue
    return None


def widths(op: dict[str, Any], columns: tuple[int, ...], made: int) -> str:
    """Say a number of columns by what it follows from."""
    attr = next((one["name"] for one in op["attrs"] if one["name"] in NAMED), None)
    names = [spec["name"] for spec in op["inputs"]]
    alike = len(set(columns)) < 2
    each = ["F" if alike else f"F of {name}" for name in names[: len(columns)]]
    known = {18: "D"} | dict(zip(reversed(columns), reversed(each), strict=True))
    if columns:
        known |= {columns[0] // 6: "F / `tokens`", columns[0] + WIDE: f"F + `{attr}`"}
    if len(columns) == 2 and not alike:
        known |= {sum(columns): " + ".join(each), columns[0] * columns[1]: " × ".join(each)}
    if len(columns) == 1:
        known[2 * columns[0]] = "2 F"
    return ({WIDE: f"`{attr}`", 6 * WIDE: f"`tokens` × `{attr}`"} if attr else {}).get(made) or known.get(
        made, str(made)
    )


def outputs(op: dict[str, Any]) -> str:
    """Say which rows and columns the op makes, attributes by default."""
    needed = [spec for spec in op["inputs"] if not spec["optional"]]
    distinct = sorted(itertools.product(WIDTHS, repeat=len(needed)), key=lambda columns: -len(set(columns)))
    found: dict[tuple[str, ...], tuple[str, str]] = {}
    for rows in itertools.product(*(spec["rows"] for spec in needed)):
        made = next(((c, p) for c in distinct if (p := planned(op, rows, c)) is not None), None)
        if made is not None:
            found[rows] = made[1][0], widths(op, made[0], made[1][1])
    columns = {text for _, text in found.values()}
    assert columns, f"{op['name']}: no input was taken"
    if len(columns) == 1 and needed and all(space == rows[0] for rows, (space, _) in found.items()):
        return f"rows of `{needed[0]['name']}`, {columns.pop()} columns".replace(", 1 columns", ", 1 column")
    if len(columns) == 1 and len(found) > MANY:
        return f"rows that all inputs can be repeated to, {columns.pop()} columns"
    shapes: dict[str, list[str]] = {}
    for rows, (space, text) in found.items():
        shapes.setdefault(SHAPES[space].replace("F", text), []).append(" and ".join(rows))
    several = len(shapes) > 1
    return "; ".join(f"{shape} of {' or '.join(of)}" if several else shape for shape, of in shapes.items())


def loss_section(loss: dict[str, Any]) -> str:
    """One loss."""
    lines = [f"### {loss['name']}", "", loss["doc"], "", f"- reductions: {', '.join(loss['reductions'])}"]
    lines.append(f"- reads: {', '.join(loss['reads']) or 'nothing'}")
    for attr in loss["attrs"]:
        allowed = (
            ", ".join(attr["choices"])
            if "choices" in attr
            else f"{number(attr['low'])}..{number(attr['high'])}"
        )
        default = attr["default"] if isinstance(attr["default"], str) else number(attr["default"])
        lines.append(f"- `{attr['name']}` = {default} ({allowed}): {attr['doc']}")
    return "\n".join([*lines, ""])


def text() -> str:
    """Return the page."""
    ops = [op_section(op) for op in sorted(_core.ops(), key=lambda op: str(op["name"]))]
    losses = [loss_section(loss) for loss in _core.losses()]
    return "\n".join([HEAD, "## Ops", "", *ops, "## Losses", "", *losses])


if __name__ == "__main__":
    FILE.write_text(text())
