"""Write docs/tables.md: what the core's tables of ops and losses say about themselves. `make tables`."""

from pathlib import Path
from typing import Any

from tpugraphs import _core

FILE = Path(__file__).with_name("tables.md")
HEAD = """# Ops and losses

Made by `make tables` from what the core says about itself; a test fails when the page is out of date.
How to write an op or a loss: [adding.md](adding.md). Rows are those of `TG_SPACE_LIST` (`csrc/ops/op.h`).
"""
SPACES = max(len(spec["rows"]) for op in _core.ops() for spec in op["inputs"])


def number(value: float) -> str:
    """0.5, 65536, 1e-05."""
    return str(int(value)) if float(value).is_integer() and abs(value) < 1e9 else f"{value:.6g}"


def attribute(attr: dict[str, Any]) -> str:
    """`out` = 1 (1..65536): columns of the result."""
    if attr["kind"] == "choice":
        shown, allowed = attr["choices"][int(attr["default"])], ", ".join(attr["choices"])
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
    lines = [f"### {op['name']}", "", op["doc"], ""]
    for spec in op["inputs"]:
        rows = "any rows" if len(spec["rows"]) == SPACES else " or ".join(spec["rows"])
        lines.append(f"- input `{spec['name']}`{' (optional)' if spec['optional'] else ''}: {rows}")
    if op["params"]:
        lines.append(f"- parameters: {', '.join(f'`{name}`' for name in op['params'])}")
    lines += [f"- {attribute(attr)}" for attr in op["attrs"]]
    if op["flags"]:
        lines.append(f"- flags: {', '.join(op['flags'])}")
    return "\n".join([*lines, ""])


def loss_section(loss: dict[str, Any]) -> str:
    """One loss."""
    lines = [f"### {loss['name']}", "", loss["doc"], "", f"- reductions: {', '.join(loss['reductions'])}"]
    lines.append(f"- reads: {', '.join(loss['reads']) or 'nothing'}")
    for attr in loss["attributes"]:
        allowed = (
            ", ".join(attr["choices"])
            if "choices" in attr
            else f"{number(attr['low'])}..{number(attr['high'])}"
        )
        default = attr["default"] if isinstance(attr["default"], str) else number(attr["default"])
        lines.append(f"- `{attr['name']}` = {default} ({allowed}): {attr['meaning']}")
    return "\n".join([*lines, ""])


def text() -> str:
    """Return the page."""
    ops = [op_section(op) for op in sorted(_core.ops(), key=lambda op: str(op["name"]))]
    losses = [loss_section(loss) for loss in _core.losses()]
    return "\n".join([HEAD, "## Ops", "", *ops, "## Losses", "", *losses])


if __name__ == "__main__":
    FILE.write_text(text())
