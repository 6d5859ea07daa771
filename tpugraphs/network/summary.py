"""A network in words: its preprocessing, and the steps of its model with shapes, parameters and times."""

import math
from collections.abc import Mapping
from numbers import Real
from typing import Any

from tpugraphs.kernels.faces import SHAPES
from tpugraphs.network.network import Network
from tpugraphs.recipes.functions import shortly
from tpugraphs.system import counted, tables

# Letters for the rows of a slot, by their name: "(N, C, F)" has N·C of them.
_ROWS = {rows: "·".join(shape[1:-1].split(", ")[:-1]) for rows, shape in SHAPES.items()}
_LETTERS = {
    "N": "nodes", "C": "configs", "K": "configurable nodes", "E": "edges", "U": "different cells",
}  # fmt: skip


def _described(step: Mapping[str, Any]) -> str:
    """Return a step of preprocessing with its short arguments."""
    short = [v for k, v in step.items() if k != "step" and isinstance(v, (str, Real)) and v not in ("", 0)]
    return f"{step['step']} ({', '.join(map(str, short))})" if short else str(step["step"])


def summary(network: Network) -> str:
    """Describe a network in lines of text: preprocessing, losses, and a table of the steps of the model.

    Parameters
    ----------
    network : Network

    Returns
    -------
    str
        For every step its op, its inputs, the shape of its result, its parameters, and how many milliseconds
        it took in the last pass, if the core ran one. A step without a time runs as part of the step that
        reads it.
    """
    lines = [f"preprocessing: {', '.join(map(_described, network.pipeline.steps)) or 'none'}"]
    losses = (term["loss"] for term in network.loss)
    lines.append("losses: " + ", ".join(one if isinstance(one, str) else shortly(one) for one in losses))
    if not network.known:
        return "\n".join([*lines, "the model follows from the graphs: call fit first"])
    model, times = network.model, dict[tuple[str, str], float]()
    for phase, name, seconds in model.profile:
        times[phase, name] = times.get((phase, name), 0.0) + seconds
    rows, letters = [], set()
    for step in network.steps:
        space, columns = model.slots[step["out"]]
        letters |= set(_ROWS[space])
        own = (shape for name, _, shape in model.layout if name.startswith(f"{step['name']}."))
        size = sum(math.prod(shape) for shape in own)
        row = [("step", step["name"]), ("op", step["op"]), ("in", " ".join(step["in"]))]
        row += [("out", f"{step['out']} ({_ROWS[space]}, {columns})")]
        row += [("parameters", f"{size:,}" if size else "-")]
        for phase in ("forward", "backward") if times else ():
            spent = times.get((phase, step["name"]))
            row.append((f"{phase} ms", "-" if spent is None else f"{1e3 * spent:.3f}"))
        rows.append(row)
    _, heads, cells = tables.section("", rows)
    lines += ["", tables.text("", heads, cells), ""]
    legend = ", ".join(f"{letter} {word}" for letter, word in _LETTERS.items() if letter in letters)
    lines.append(f"{counted(network.num_parameters, 'parameter')}; {legend}")
    if times:
        lines.append(f"times of the last pass: {1e3 * sum(times.values()):.3f} ms in all")
    return "\n".join(lines)
