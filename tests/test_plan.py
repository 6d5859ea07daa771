"""What the plan of a model must get right: chains of tiles, parameters taken twice by one call, cells that are counted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from models import COLUMNS, Trained, graph_arrays, named, randomize, rows, slate, step
from reference import losses
from reference import model as ref_model
from refusals import refuses

import tpugraphs as tg
from tpugraphs import _core

WIDTH = 8
Step = dict[str, Any]


def model_of(*middle: Step) -> list[Step]:
    """Steps between rows (node, config) of 8 columns, "z0", and the scores, which are made of "z"."""
    return [
        step("config_linear", "first", "node_feat", "z0", out=WIDTH, cols=3),
        *middle,
        step("pool", "pool", "z", "p"),
        step("linear", "head", "p", "scores", out=1),
    ]


def shared(made: Step, **params: str) -> Step:
    return made | {"share": params}


def compare(steps: list[Step], lean: bool) -> None:
    """Scores and gradients are those of the reference; twice, as gradients must not depend on those before."""
    model = Trained(steps, 2, COLUMNS, lean=lean)
    randomize(model, 2)
    arrays, one, runtimes = slate()
    params = {name: value.astype(np.float64) for name, value in named(model).items()}
    scores, _, grads = ref_model.scores_and_gradients(
        steps, params, arrays, one[1], lambda s: losses.pairwise_hinge(s, runtimes)
    )
    assert np.linalg.norm(model.scores([one])[0] - scores) <= 1e-4 * np.linalg.norm(scores)
    top = np.linalg.norm(np.concatenate([g.ravel() for g in grads.values()]))
    for _ in range(2):
        model.gradients([one], [runtimes])
        for name, got in named(model, "grads").items():
            scale = max(np.linalg.norm(grads[name]), 1e-3 * top)
            assert np.linalg.norm(got - grads[name]) <= 1e-3 * scale, name


# ---- chains of tiles --------------------------------------------------------------------------------------


def long_chain(length: int) -> list[Step]:
    """Steps that are all cheap to make again and read by one other step only."""
    names = [f"z{i}" for i in range(length)] + ["z"]
    turns = [("activation", {"act": "leaky"}), ("affine", {}), ("layer_norm", {}), ("l2_normalise", {})]
    return [step(turns[i % 4][0], f"s{i}", names[i], names[i + 1], **turns[i % 4][1]) for i in range(length)]


@pytest.mark.parametrize("lean", [True, False])
@pytest.mark.parametrize("length", [3, 4, 5, 6, 9, 125])
def test_chains_of_cheap_steps(length: int, lean: bool) -> None:
    compare(model_of(*long_chain(length)), lean)


# ---- one call that takes a parameter twice ----------------------------------------------------------------

SLOPES = {"act": "prelu", "per_column": 1}
TWICE = {
    "steps within each other": [
        step("linear", "l", "z0", "z1", out=WIDTH),
        step("affine", "a", "z1", "z2"),
        shared(step("activation", "b", "z2", "z3", **SLOPES), slope="a.weight"),
        step("linear", "m", "z3", "z", out=WIDTH, act="tanh"),
    ],
    "slopes of activations": [
        step("linear", "l", "z0", "z1", out=WIDTH, **SLOPES),
        shared(step("mix", "b", "z1", "z2", gate=3, **SLOPES), slope="l.slope"),
        step("activation", "c", "z2", "z3", act="prelu"),
        shared(step("linear", "m", "z3", "z4", out=WIDTH, act="prelu"), slope="c.slope"),
        step("mix", "d", "z4 z4", "z", norm=0, act="prelu"),
    ],
    "a gate around a scale": [
        step("linear", "l", "z0", "z1", out=WIDTH),
        step("affine", "a", "z1", "z2"),
        shared(step("mix", "b", "z2", "z", gate=WIDTH), gate2_bias="a.bias", gate1_bias="a.bias"),
    ],
    "gatv2": [
        step("gatv2", "g", "z0", "z1", cols=4, heads=2),
        shared(
            step("gatv2", "h", "z1", "z", cols=4, heads=2), weight_l="g.weight_l", weight_r="g.weight_l",
            bias_l="g.bias_l", bias_r="g.bias_l", bias="g.bias_l",
        ),
    ],
    "encoder_layer": [
        step("encoder_layer", "e", "z0", "z1", tokens=2, hidden=4),
        shared(
            step("encoder_layer", "f", "z1", "z", tokens=2, hidden=4), norm1_weight="e.norm1_weight",
            norm2_weight="e.norm1_weight", norm1_bias="e.norm1_weight", linear2_bias="e.norm1_weight",
        ),
    ],
    "graph_norm": [
        step("graph_norm", "g", "z0", "z1"),
        shared(step("graph_norm", "h", "z1", "z2"), weight="g.bias", bias="g.bias", mean_scale="g.bias"),
        step("linear", "m", "z2", "z", out=WIDTH, act="tanh"),
    ],
}  # fmt: skip


@pytest.mark.parametrize("lean", [True, False])
@pytest.mark.parametrize("case", TWICE)
def test_a_parameter_that_one_call_takes_twice(case: str, lean: bool) -> None:
    compare(model_of(*TWICE[case]), lean)


# ---- unique cells -----------------------------------------------------------------------------------------


def token_steps(source: str) -> list[Step]:
    return [
        step("cell_columns", "columns", source, "c"),
        step("dimension_tokens", "tokens", "c", "t", cols=4, column=0, groups=1),
        step("gather_unique", "gather", "t", "cells"),
        step("put_config_nodes", "put", "cells", "n"),
        step("pool", "pool", "n", "p"),
        step("linear", "head", "p", "scores", out=1),
    ]


def test_more_cells_than_can_be_numbered_are_refused() -> None:
    model = Trained(token_steps("node_feat"), 0, COLUMNS)
    graph = _core.ModelGraph(**graph_arrays(3000, 1, 3000, COLUMNS, 0))
    many = np.zeros(1_000_000, np.int64)
    for wanted in (lambda: model.bytes([(graph, many)]), lambda: model.scores([(graph, many)])):
        refuses(wanted, tg.ConfigError, "1000000", "3000")
    assert model.bytes([(graph, many[:1000])]) > 3_000_000


@pytest.mark.parametrize("source", ["extra", "made"])
def test_cells_are_equal_only_if_what_their_nodes_give_is(source: str) -> None:
    """Nodes with equal features and opcodes may still differ in rows that are fed or come from neighbours."""
    steps = token_steps(source)
    if source == "made":
        steps.insert(0, step("sage", "sage", "node_feat", "made", out=6))
    inputs = {"extra": ("NODE", 6)} if source == "extra" else {}
    model = Trained(steps, 1, COLUMNS, inputs=inputs)
    arrays = graph_arrays(9, 5, 6, COLUMNS, 0)
    arrays["node_feat"][:] = arrays["node_feat"][0]
    arrays["digits"][:] = arrays["digits"][0, 0]
    rng = np.random.default_rng(0)
    arrays["node_feat"][arrays["config_nodes"][0]] += 1  # not alike: its neighbours differ from the others
    given = {"inputs": {"extra": [rng.normal(size=(9, 6)).astype(np.float32)]}} if inputs else {}
    got, expected = (
        model.scores([(_core.ModelGraph(**(arrays | {"node_opcode": opcodes})), rows(5))], **given)[0]
        for opcodes in (np.zeros(9, np.uint8), np.arange(9, dtype=np.uint8))  # the model reads no opcodes
    )
    assert np.allclose(got, expected, rtol=1e-5, atol=1e-7)
