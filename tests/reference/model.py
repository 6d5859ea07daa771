"""Float64 NumPy model: the list of steps that the core takes, composed of the references of its ops.

No dropout. `graph` is a dict of the arrays of ``_core.ModelGraph``, and may have a `nudge` of the digits' one-hot vectors,
for finite differences; parameters are a dict by name.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import cases
import numpy as np

from tpugraphs import _core

Array = np.ndarray[Any, Any]
Named = dict[str, Array]
Step = dict[str, Any]


_WITHOUT_VALUE = {"stats", "init"}  # attributes that change no result of given parameters
_OPS = {meta["name"]: meta for meta in _core.ops()}


def _graph_arguments(op: str, graph: Named, rows: Array) -> Named:
    """What the op's reference takes of the graph, by name."""
    digits = graph.get("digits")
    found = graph | {"num_nodes": len(graph["node_feat"]), "digits": None if digits is None else digits[rows]}
    known = inspect.signature(cases.forward_of(op)).parameters
    return {name: value for name, value in found.items() if name in known and value is not None}


def _call(
    step: Step, inputs: list[Array], params: Named, graph: Named, rows: Array
) -> tuple[str, Named, Step, dict[str, str]]:
    """How a step calls its reference: op, arguments, attributes; then argument -> slot or parameter."""
    op, given, meta = step["op"], step.get("attrs", {}), _OPS[step["op"]]
    shared = step.get("share", {})
    arguments = _graph_arguments(op, graph, rows)
    targets: dict[str, str] = {}
    for spec, slot, value in zip(meta["inputs"], step["in"], inputs, strict=False):
        arguments[spec["name"]], targets[spec["name"]] = value, slot
    for param in meta["params"]:
        full = shared.get(param, f"{step['name']}.{param}")
        if full in params:
            arguments[param], targets[param] = params[full], full
    attrs = {a["name"]: a["default"] for a in meta["attrs"]} | given
    attrs = {name: value for name, value in attrs.items() if name not in _WITHOUT_VALUE}
    return op, arguments, attrs, targets


@dataclass(frozen=True)
class _Done:
    """A step that was run: what its backward takes."""

    step: Step
    op: str
    arguments: Named
    attrs: Step
    targets: dict[str, str]


def forward(
    steps: list[Step], params: Named, graph: Named, rows: Array, inputs: Named | None = None
) -> tuple[Named, list[_Done]]:
    """Run all steps for the configs `rows`: every slot by name, and what `backward` takes.

    `inputs`: what is fed by the call.
    """
    slots: Named = {"node_feat": graph["node_feat"].astype(np.float64)} | (inputs or {})
    if "graph_feat" in graph:
        slots["graph_feat"] = graph["graph_feat"][None].astype(np.float64)
    if "config_feat" in graph:
        slots["config_feat"] = graph["config_feat"][rows].astype(np.float64)
    done = []
    for step in steps:
        given = [slots[s] for s in step["in"]]
        op, arguments, attrs, targets = _call(step, given, params, graph, rows)
        slots[step["out"]] = cases.forward_of(op)(**arguments, **attrs)
        done.append(_Done(step, op, arguments, attrs, targets))
    return slots, done


def backward(done: list[_Done], grads: Named) -> Named:
    """Gradients of all slots, parameters and ``"digits"`` that something in `grads` depends on, and those."""
    grads = dict(grads)
    for made in reversed(done):
        if made.step["out"] not in grads:
            continue
        back = cases.backward_of(made.op)(grads[made.step["out"]], **made.arguments, **made.attrs)
        for argument, target in {**made.targets, "digits": "digits"}.items():
            if argument in back:
                grads[target] = grads[target] + back[argument] if target in grads else back[argument]
    return grads


def scores_and_gradients(
    steps: list[Step],
    params: Named,
    graph: Named,
    rows: Array,
    loss: Callable[[Array], tuple[float, Array]],
) -> tuple[Array, float, Named]:
    """Scores (C,) of the configs `rows`, the loss, and its gradient with respect to every parameter."""
    slots, done = forward(steps, params, graph, rows)
    scores = slots["scores"][:, 0]
    value, dscores = loss(scores)
    grads = backward(done, {"scores": dscores[:, None]})
    return scores, value, {name: grads[name] for name in params}
