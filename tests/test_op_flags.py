"""What ops say of themselves and what they do: rows of a graph combined, parameters that a choice needs."""

from __future__ import annotations

from typing import Any

import cases
import numpy as np
import pytest
from models import COLUMNS, graph_arrays, rows, step
from reference.activations import ACTIVATIONS

import tpugraphs as tg
from tpugraphs import _core

OPS = {op["name"]: op for op in _core.ops()}
SMALL = 40  # rows of an input
PER_EDGE = {"EDGE", "EDGE_CONFIG"}


# ---- per graph --------------------------------------------------------------------------------------------


def without_edges(case: cases.Case) -> dict[str, Any]:
    """The arguments of a case, its edges and what is given per edge taken away."""
    arguments = cases.single(case.arguments())
    per_edge = [spec["name"] for spec in OPS[case.op]["inputs"] if set(spec["rows"]) <= PER_EDGE]
    for name in ("edge_index", *per_edge):
        if name in arguments:
            arguments[name] = arguments[name][:0].copy()
    return arguments


def combines_rows(case: cases.Case) -> bool:
    """Whether a row of the result depends on several rows of one input that differ in node, cell ..., without edges.

    Rows of another config of the same node do not count, nor those of configs alone.
    """
    arguments = without_edges(case)
    y = cases.FACES[case.op](**arguments, **case.attrs)
    rng = np.random.default_rng(0)
    for spec in OPS[case.op]["inputs"]:
        x = arguments.get(spec["name"])
        if x is None or spec["rows"] == ["CONFIG"] or not 2 <= len(x) <= SMALL:
            continue
        met = np.zeros(y.shape[:-1], int)
        for i in range(len(x)):
            other = x.copy()
            other[i] = rng.normal(size=x[i].shape)
            met += (cases.FACES[case.op](**(arguments | {spec["name"]: other}), **case.attrs) != y).any(-1)
        if (met > 1).any():
            return True
    return False


@pytest.mark.parametrize("op", OPS)
def test_ops_that_combine_the_rows_of_a_graph_say_so(op: str) -> None:
    of_op = [case for case in cases.CASES if case.op == op]
    given_per_edge = {spec["name"] for spec in OPS[op]["inputs"] if set(spec["rows"]) <= PER_EDGE}
    needed = {spec["name"] for spec in OPS[op]["inputs"] if not spec["optional"]} - given_per_edge
    seen = [{name for name, x in without_edges(case).items() if 2 <= len(x) <= SMALL} for case in of_op]
    assert all(any(name in names for names in seen) for name in needed), "no case shows it"
    assert any(combines_rows(case) for case in of_op) == ("per graph" in OPS[op]["flags"])


PER_NODE = [
    ("linear", {"out": 3}, False),
    ("sage", {"out": 3}, False),
    ("sage", {"out": 3, "norm": 1}, True),
    ("mix", {}, False),
    ("mix", {"norm": 1}, True),
    ("graph_norm", {}, True),
    ("instance_norm", {}, True),
    ("pool", {}, False),  # rows of a graph, not of its nodes
]


@pytest.mark.parametrize(("op", "attrs", "expected"), PER_NODE)
def test_rows_of_a_segment_are_those_of_the_graph_unless_a_model_is_per_graph(
    op: str, attrs: dict[str, Any], expected: bool
) -> None:
    """Two pieces without an edge between them."""
    before = step("linear", "first", "node_feat", "x", out=5, stats=1)
    steps = [before, step(op, "tested", "x", "y", **attrs)]
    model = _core.Model(steps, 0, COLUMNS, outputs=["y"])
    assert model.per_graph == expected
    whole = graph_arrays(12, 3, 2, COLUMNS, 0)
    inner = whole["edge_index"]
    whole["edge_index"] = inner[(inner < 6).all(1) | (inner >= 6).all(1)]
    piece = {"node_feat": whole["node_feat"][:6], "node_opcode": whole["node_opcode"][:6]}
    piece["edge_index"] = whole["edge_index"][(whole["edge_index"] < 6).all(1)]
    piece |= {"config_nodes": np.zeros(0, np.int64), "layout_digits": whole["layout_digits"][:6]}
    piece["digits"] = np.zeros((3, 0, 18), np.int8)
    ys = [model.run([(_core.ModelGraph(**arrays), rows(2))], ["y"])["y"][0] for arrays in (whole, piece)]
    if len(ys[0]) == 12:
        assert np.allclose(ys[0][:6], ys[1], rtol=1e-5, atol=1e-6) != expected


def test_a_model_is_per_graph_if_rows_of_nodes_are_given_a_sum_over_the_graph() -> None:
    pooled = step("pool", "pool", "node_feat", "pooled")
    for steps in (
        [step("linear", "tested", "node_feat pooled", "y", out=3)],
        [step("linear", "hidden", "pooled", "h", out=3), step("concat", "tested", "node_feat h", "y")],
    ):
        model = _core.Model([pooled, *steps], 0, COLUMNS, outputs=["y"])
        whole = graph_arrays(12, 3, 2, COLUMNS, 0)
        other = whole | {"node_feat": whole["node_feat"].copy()}
        other["node_feat"][11] += 1
        ys = [model.run([(_core.ModelGraph(**arrays), rows(2))], ["y"])["y"][0] for arrays in (whole, other)]
        assert (ys[0][:11] != ys[1][:11]).any()
        assert model.per_graph
    to_configs = step("linear", "hidden", "pooled", "h", out=3)
    assert not _core.Model([pooled, to_configs], 0, COLUMNS, outputs=["h"]).per_graph


@pytest.mark.parametrize("op", ["attention", "linformer"])
def test_configs_that_meet_all_nodes_leave_the_rows_of_nodes_alone(op: str) -> None:
    keys = step("linear", "keys", "node_feat", "k", out=3)
    queries = step("linear", "queries", "config_feat", "q", out=3)
    of_configs = [keys, queries, step(op, "tested", "q k k", "y")]
    assert not _core.Model(of_configs, 0, COLUMNS, config_features=2, outputs=["y"]).per_graph
    assert _core.Model([keys, step(op, "tested", "k k k", "y")], 0, COLUMNS, outputs=["y"]).per_graph


@pytest.mark.parametrize(("op", "slots"), [("pool", "taken"), ("outer_pool", "taken taken")])
def test_a_model_is_per_graph_if_rows_of_nodes_are_given_a_sum_over_the_configurable_nodes(
    op: str, slots: str
) -> None:
    taken = step("take_config_nodes", "take", "node_feat", "taken")
    steps = [taken, step(op, "pool", slots, "pooled")]
    assert not _core.Model(steps, 0, COLUMNS, outputs=["pooled"]).per_graph
    model = _core.Model([*steps, step("concat", "tested", "taken pooled", "y")], 0, COLUMNS, outputs=["y"])
    assert model.per_graph
    whole = graph_arrays(12, 3, 4, COLUMNS, 0)
    first, last = (whole["config_nodes"][k] for k in (0, 3))
    other = next(v for v in range(12) if v not in whole["config_nodes"])
    seen = {}
    for name, node in (("as it is", None), ("configurable", last), ("other", other)):
        features = whole["node_feat"].copy()
        if node is not None:
            features[node] += 1
        graph = _core.ModelGraph(**whole | {"node_feat": features})
        seen[name] = model.run([(graph, rows(2))], ["y"])["y"][0][0]  # the row of `first`
    assert first != last and (seen["as it is"] != seen["configurable"]).any()
    assert (seen["as it is"] == seen["other"]).all()


def test_an_op_that_is_per_graph_takes_no_other_rows() -> None:
    tokens = step("cell_columns", "tokens", "", "cells")
    taken = step("take_config_nodes", "take", "node_feat", "taken")
    ends = step("edge_ends", "ends", "node_feat", "edges")
    refused = ((tokens, "cells"), (ends, "edges"), (taken, "taken"))
    for op, attrs in (("mix", {"norm": 1}), ("graph_norm", {}), ("pool", {}), ("outer_pool", {})):
        pools = "pool" in op  # takes rows of all configurable nodes, too
        for made, slot in refused[: 2 if pools else 3]:
            slots = f"{slot} {slot}" if op == "outer_pool" else slot
            with pytest.raises(tg.RecipeError, match=r"unique cell|edge|configurable node"):
                _core.plan_parameters([made, step(op, "tested", slots, "y", **attrs)], COLUMNS)
    with pytest.raises(tg.RecipeError, match="rows per node"):
        _core.plan_parameters([tokens, step("mix", "tested", "cells", "y", norm=1)], COLUMNS)
    _core.Model([tokens, step("mix", "tested", "cells", "y")], 0, COLUMNS, outputs=["y"])


# ---- parameters that a choice needs -----------------------------------------------------------------------


NEEDING = {
    (op["name"], attr["name"]): attr["needs"]
    for op in OPS.values()
    for attr in op["attrs"]
    if "needs" in attr
}


def test_every_activation_can_be_chosen_wherever_there_is_one() -> None:
    acts = {op["name"]: attr for op in OPS.values() for attr in op["attrs"] if attr["name"] == "act"}
    assert acts and all(set(attr["choices"]) == set(ACTIVATIONS) for attr in acts.values())
    assert {(op, "act"): {"prelu": "slope"} for op in acts} == {
        key: needs for key, needs in NEEDING.items() if key[1] == "act"
    }
    for op in acts:
        shapes = {len(case.arguments()["slope"]) > 1 for case in cases.CASES
                  if case.op == op and case.attrs.get("act") == "prelu"}  # fmt: skip
        assert shapes == {False, True}, op


@pytest.mark.parametrize(("op", "attribute"), NEEDING)
def test_a_parameter_is_there_with_its_choice_and_with_no_other(op: str, attribute: str) -> None:
    ((choice, param),) = NEEDING[op, attribute].items()
    case = next(case for case in cases.CASES if case.op == op and case.attrs.get(attribute) == choice)
    arguments = cases.single(case.arguments())
    assert param in cases.backward32(case, cases.forward32(case, arguments), arguments)
    without = {name: value for name, value in arguments.items() if name != param}
    choices = next(attr["choices"] for attr in OPS[op]["attrs"] if attr["name"] == attribute)
    plain = case.attrs | {attribute: next(other for other in choices if other != choice)}
    hint = (
        rf"{op}: expected the parameters .*got {{}}; {param} goes with {attribute}={choice}, and nothing else"
    )
    given = len([name for name in OPS[op]["params"] if name in arguments])
    with pytest.raises(ValueError, match=hint.format(given - 1)):
        cases.FACES[op](**without, **case.attrs)
    with pytest.raises(ValueError, match=hint.format(given)):
        cases.FACES[op](**arguments, **plain)
    with pytest.raises(ValueError, match=hint.format(given)):
        cases.FACES[op + "_backward"](cases.forward32(case, arguments), **arguments, **plain)
    cases.FACES[op](**without, **plain)


def test_slopes_of_a_model_start_as_those_of_pytorch_and_can_be_shared() -> None:
    first = step("linear", "first", "node_feat", "x", out=5, act="prelu", per_column=1)
    last = step("linear", "last", "x", "y", out=5, act="prelu", per_column=1)
    model = _core.Model([first, last], 0, COLUMNS, outputs=["y"])
    found = {name: model.params[at : at + int(np.prod(shape))] for name, at, shape in model.layout}
    assert {name: shape for name, _, shape in model.layout if "slope" in name} == {
        "first.slope": (5,),
        "last.slope": (5,),
    }
    assert (found["first.slope"] == 0.25).all()
    shared = _core.Model([first, last | {"share": {"slope": "first.slope"}}], 0, COLUMNS, outputs=["y"])
    assert "last.slope" not in {name for name, _, _ in shared.layout}
    with pytest.raises(tg.RecipeError, match="'slope' to share"):
        plain = last | {"attrs": {"out": 5, "act": "relu"}, "share": {"slope": "first.slope"}}
        _core.plan_parameters([first, plain], COLUMNS)
