"""Float64 NumPy model: the list of steps that the core takes, composed of the references of its ops.

No dropout. `graph` is a dict of the arrays of ``_core.Graph``; parameters are a dict by name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from reference import ops

Array = np.ndarray[Any, Any]
Named = dict[str, Array]
Step = dict[str, Any]


def _call(
    step: Step, inputs: list[Array], params: Named, graph: Named, rows: Array
) -> tuple[str, Named, Step, Named]:
    """How a step calls its reference: function, arguments, attributes; then argument -> slot or parameter."""
    op, name, a = step["op"], step["name"], step.get("attrs", {})
    own = lambda key: params[f"{name}.{key}"]  # noqa: E731
    slots = step["in"]
    if op == "embedding":
        layout = a["source"] == "layout"
        index = graph["layout_digits"] if layout else graph["node_opcode"][:, None]
        return (
            "embedding",
            {"x": inputs[0], "index": index, "weight": own("weight")},
            {"source": a["source"]},
            {"x": slots[0], "weight": f"{name}.weight"},
        )
    if op == "config_linear":
        table = step["share"]["table"] if "share" in step else f"{name}.table"
        arguments = {
            "h": inputs[0],
            "digits": graph["digits"][rows],
            "config_nodes": graph["config_nodes"],
            "weight": own("weight"),
            "bias": own("bias"),
            "table": params[table],
        }
        targets = {"h": slots[0], "weight": f"{name}.weight", "bias": f"{name}.bias", "table": table}
        return "config_linear", arguments, {"column": a.get("column", 0)}, targets
    if op == "linear":
        arguments = dict(zip(("x", "row"), inputs, strict=False))
        arguments |= {"weight": own("weight"), "bias": own("bias")}
        targets = dict(zip(("x", "row"), slots, strict=False))
        targets |= {"weight": f"{name}.weight", "bias": f"{name}.bias"}
        return "linear", arguments, {"act": a.get("act", "none")}, targets
    if op == "sage":
        names = {"w_l": "weight_l", "b_l": "bias_l", "w_r": "weight_r"}
        arguments = {"x": inputs[0], "edge_index": graph["edge_index"]} | {
            k: own(v) for k, v in names.items()
        }
        targets = {"x": slots[0]} | {k: f"{name}.{v}" for k, v in names.items()}
        return "sage_conv", arguments, {"direction": a.get("direction", "forward")}, targets
    if op == "mix":
        names = {"w1": "gate1_weight", "b1": "gate1_bias", "w2": "gate2_weight", "b2": "gate2_bias"}
        names = (names if a.get("gate", 0) else {}) | (
            {"temperature": "temperature"} if a.get("cross") else {}
        )
        arguments = {"z": inputs[0]} | ({"residual": inputs[1]} if len(inputs) == 2 else {})
        targets = dict(zip(("z", "residual"), slots, strict=False)) | {
            k: f"{name}.{v}" for k, v in names.items()
        }
        attrs = {"norm": bool(a.get("norm")), "act": a.get("act", "none")}
        return "mix", arguments | {k: own(v) for k, v in names.items()}, attrs, targets
    if op in ("instance_norm", "pool"):
        return op, {"x": inputs[0]}, {"kind": a.get("kind", "mean")} if op == "pool" else {}, {"x": slots[0]}
    raise ValueError(op)


def scores_and_gradients(
    steps: list[Step],
    params: Named,
    graph: Named,
    rows: Array,
    loss: Callable[[Array], tuple[float, Array]],
) -> tuple[Array, float, Named]:
    """Scores (C,) of the configs `rows`, the loss, and its gradient with respect to every parameter."""
    slots: Named = {"node_feat": graph["node_feat"].astype(np.float64)}
    if "config_feat" in graph:
        slots["config_feat"] = graph["config_feat"][rows].astype(np.float64)
    calls = []
    for step in steps:
        inputs = [slots[s] for s in step["in"]]
        normed = step["op"] == "sage" and step.get("attrs", {}).get("norm")
        given = [ops.instance_norm(inputs[0])] if normed else inputs
        function, arguments, attrs, targets = _call(step, given, params, graph, rows)
        slots[step["out"]] = getattr(ops, function)(**arguments, **attrs)
        calls.append((step, function, arguments, attrs, targets, inputs[0] if normed else None))
    scores = slots["scores"][:, 0]
    value, dscores = loss(scores)
    grads: Named = {"scores": dscores[:, None]}
    for step, function, arguments, attrs, targets, unnormed in reversed(calls):
        back = getattr(ops, function + "_backward")(grads[step["out"]], **arguments, **attrs)
        if unnormed is not None:
            back["x"] = ops.instance_norm_backward(back["x"], unnormed)["x"]
        for argument, target in targets.items():
            grads[target] = grads[target] + back[argument] if target in grads else back[argument]
    return scores, value, {name: grads[name] for name in params}
