"""The model's contract: outputs by name, inputs fed per call, gradients of inputs, lists, sharing, other schemas."""

from __future__ import annotations

import json
import resource
from typing import Any

import numpy as np
import pytest
from models import COLUMNS, HINGE, SPECS, Trained, graph_arrays, make, named, randomize, rows, slate, step
from operators import linear
from reference import losses
from reference import model as ref_model
from refusals import refuses

import tpugraphs as tg
from tpugraphs import _core

Array = np.ndarray[Any, Any]
ADAMW = {"kind": "adamw", "lr": 1e-3, "weight_decay": 1e-2, "clip": 1e-3, "step": 3}


def relative(got: Array, expected: Array) -> float:
    return float(np.linalg.norm(got - expected) / max(np.linalg.norm(expected), 1e-30))


def resident() -> int:
    """Most bytes that this process ever had in memory."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


# ---- models that read everything there is -----------------------------------------------------------------

WIDTH, GRAPH_FEATURES = 6, 4
FED = {"extra": ("CONFIG", 3), "context": ("SLATE", 5), "more": ("NODE_CONFIG", WIDTH)}
CELLS = {"cells": ("CONFIG_NODE_CONFIG", 3), "nodes": ("CONFIG_NODE", 2), "edges": ("EDGE", 4)}


def layout_steps(columns: int = 4, **attrs: Any) -> list[dict[str, Any]]:
    """Digits, features of the graph, and three inputs per call; `emb` is a table of the digits' values."""
    return [
        step("config_linear", "first", "node_feat", "z", out=WIDTH, column=2, cols=columns, stats=1, **attrs),
        step("mix", "mix", "z more", "m", norm=1, gate=3, act="gelu", stats=1),
        step("sage", "sage", "m", "s", out=WIDTH, norm=1, direction="both"),
        step("mix", "cross", "s", "x", cross=1),
        step("pool", "pool", "x", "p", kind="mean+max"),
        step("linear", "own", "extra graph_feat", "e", out=4 * WIDTH, act="gelu"),
        step("mix", "join", "p e", "j", gate=2, act="silu"),
        step("linear", "head", "j context", "scores", out=1),
    ]


def tile_steps() -> list[dict[str, Any]]:
    """A graph branch and features of configs."""
    return [
        step("sage", "sage", "node_feat", "n", out=WIDTH, stats=1),
        step("instance_norm", "norm", "n", "nn"),
        step("pool", "pool", "nn", "g", kind="max"),
        step("linear", "one", "config_feat g", "h", out=7, act="gelu"),
        step("linear", "two", "h graph_feat", "scores", out=1),
    ]


def fed(space: str, columns: int, graph: dict[str, Array], configs: int, seed: int) -> Array:
    """Rows to feed for one slate."""
    nodes, cells, edges = len(graph["node_feat"]), len(graph["config_nodes"]), len(graph["edge_index"])
    shape = {
        "NODE": (nodes,), "NODE_CONFIG": (nodes, configs), "CONFIG": (configs,), "SLATE": (1,), "EDGE": (edges,),
        "CONFIG_NODE": (cells,), "CONFIG_NODE_CONFIG": (cells, configs), "EDGE_CONFIG": (edges, configs),
    }[space]  # fmt: skip
    return np.random.default_rng([seed, len(space)]).normal(size=(*shape, columns)).astype(np.float32)


class Case:
    """A model with its reference, two slates, and what they are fed."""

    def __init__(self, kind: str, **kwargs: Any) -> None:
        inputs = FED if kind == "layout" else {}
        columns = {} if kind == "layout" else {"config_features": 24}
        self.steps = layout_steps() if kind == "layout" else tile_steps()
        self.model = Trained(
            self.steps, 1, COLUMNS, graph_features=GRAPH_FEATURES, inputs=inputs, **columns, **kwargs
        )
        randomize(self.model, 1)
        self.graphs, self.slates, self.inputs = [], [], {name: [] for name in inputs}
        for seed, (nodes, configs) in enumerate(((13, 5), (6, 3))):
            arrays = graph_arrays(nodes, configs, 4, COLUMNS, seed)
            rng = np.random.default_rng(seed)
            arrays["graph_feat"] = rng.normal(size=GRAPH_FEATURES).astype(np.float32)
            if kind == "tile":
                arrays |= {"config_nodes": np.zeros(0, np.int64), "digits": None}
                arrays["config_feat"] = rng.normal(size=(configs, 24)).astype(np.float32)
            self.graphs.append(arrays)
            chosen = rows(configs)[::-1].copy()
            self.slates.append((_core.ModelGraph(**arrays), chosen))
            for name, (space, width) in inputs.items():
                self.inputs[name].append(fed(space, width, arrays, configs, seed))
        self.dscores = [
            np.random.default_rng(9).normal(size=len(s[1])).astype(np.float32) for s in self.slates
        ]

    @property
    def given(self) -> dict[str, Any]:
        return {"inputs": self.inputs} if self.inputs else {}

    def reference(self, i: int, **changes: Array) -> tuple[dict[str, Array], Any]:
        """Slots of slate i, and what backward takes; arrays and inputs may be changed."""
        params = {name: value.astype(np.float64) for name, value in named(self.model).items()}
        inputs = {name: arrays[i].astype(np.float64) for name, arrays in self.inputs.items()}
        inputs = {name: changes.get(name, value) for name, value in inputs.items()}
        graph = {**self.graphs[i], **{k: v for k, v in changes.items() if k not in inputs}}
        return ref_model.forward(self.steps, params, graph, self.slates[i][1], inputs)

    def score(self, i: int, **changes: Array) -> float:
        """What the gradients are those of."""
        return float(self.reference(i, **changes)[0]["scores"][:, 0] @ self.dscores[i].astype(np.float64))


# ---- outputs ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["layout", "tile"])
def test_any_slot_can_be_fetched(kind: str) -> None:
    case = Case(kind)
    slots = case.model.slots
    fetched = case.model.run(case.slates, list(slots), **case.given)
    assert fetched.keys() == slots.keys()
    for i in range(2):
        expected, _ = case.reference(i)
        for name, (space, columns) in slots.items():
            got = fetched[name][i]
            assert got.shape[-1] == columns and got.dtype == np.float32
            assert got.ndim == (3 if space == "NODE_CONFIG" else 2)
            assert np.linalg.norm(got - expected[name]) <= 1e-4 * np.linalg.norm(expected[name]), name
    scores = case.model.scores(case.slates, **case.given)
    for got, one in zip(fetched["scores"], scores, strict=True):
        assert np.allclose(got[:, 0], one, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("spec", SPECS)
def test_one_output_at_a_time_has_the_same_values(spec: str) -> None:
    """What is fetched decides what exists as a whole: nothing else may depend on it."""
    model = make(spec)
    _, one, _ = slate()
    together = model.run([one], list(model.slots)[0:1] + [s["out"] for s in SPECS[spec](COLUMNS)])
    for name, (expected,) in together.items():
        (got,) = model.run([one], (name,))[name]
        assert np.allclose(got, expected, rtol=1e-4, atol=1e-5), name


def test_outputs_that_there_are_not() -> None:
    model = make("cross")
    _, one, _ = slate()
    for wrong in (["nothing"], ["scores", "scores"], [3], ["config_feat"], ["graph_feat"], 7):
        with pytest.raises((ValueError, TypeError)):
            model.run([one], wrong)
    assert model.run([one], []) == {}


def test_auxiliary_outputs() -> None:
    steps = [
        *SPECS["plain"](COLUMNS),
        step("pool", "aux_pool", "h1", "q"),
        step("linear", "aux", "q", "aux", out=3),
    ]
    refuses(lambda: _core.Model(steps, 1, COLUMNS), tg.RecipeError, "'aux'")
    model = Trained(steps, 1, COLUMNS, outputs=("scores", "aux"))
    plain = Trained(SPECS["plain"](COLUMNS), 1, COLUMNS)
    assert plain.layout == model.layout[: len(plain.layout)]
    plain.params[:] = model.params[: plain.num_parameters]
    _, one, runtimes = slate()
    assert model.run([one], ["aux"])["aux"][0].shape == (9, 3)
    assert np.allclose(model.scores([one])[0], plain.scores([one])[0], rtol=1e-4, atol=1e-5)
    # no score depends on them: their parameters have a gradient of 0, the others the one they had
    model.grads[:] = np.nan
    model.gradients([one], [runtimes])
    plain.gradients([one], [runtimes])
    gradients = named(model, "grads")
    assert not gradients["aux.weight"].any() and not gradients["aux.bias"].any()
    rest = model.grads[: plain.num_parameters]
    assert relative(rest, plain.grads.astype(np.float64)) <= 1e-4
    for wrong in (("scores", "nothing"), ("scores", "node_feat"), (3,)):
        with pytest.raises((tg.RecipeError, ValueError)):
            _core.Model(steps, 1, COLUMNS, outputs=wrong)


def test_a_model_without_scores_gives_its_outputs_only() -> None:
    model = Trained([step("linear", "one", "node_feat", "y", out=3)], 0, COLUMNS, outputs=("y",))
    _, one, runtimes = slate()
    (got,) = model.run([one], ["y"])["y"]
    assert got.shape == (23, 3) and model.bytes([one], training=False) > 0
    for use in (
        lambda: model.scores([one]),
        lambda: model.gradients([one], [runtimes]),
        lambda: model.bytes([one]),
    ):
        refuses(use, ValueError, "scores")


# ---- inputs -----------------------------------------------------------------------------------------------


def test_inputs_of_every_space_and_their_outputs() -> None:
    inputs = {**FED, **CELLS, "pairs": ("EDGE_CONFIG", 2), "flat": ("NODE", 3)}
    steps = [step("linear", f"on_{name}", name, f"y_{name}", out=2, act="gelu") for name in inputs]
    model = _core.Model(steps, 0, COLUMNS, inputs=inputs, outputs=[s["out"] for s in steps])
    arrays, _, _ = slate(configs=4)
    for graph, configs in ((arrays, 4), (graph_arrays(3, 4, 0, COLUMNS, 1, "none"), 4)):
        given = {name: [fed(space, n, graph, configs, 3)] for name, (space, n) in inputs.items()}
        found = model.run(
            [(_core.ModelGraph(**graph), rows(configs))], [s["out"] for s in steps], inputs=given
        )
        for name, (x,) in given.items():
            params = named(model)
            y = linear.forward(
                *(v.astype(np.float64) for v in (x, params[f"on_{name}.weight"], params[f"on_{name}.bias"])),
                act="gelu",
            )
            assert np.allclose(found[f"y_{name}"][0], y, rtol=1e-5, atol=1e-6), name
            assert found[f"y_{name}"][0].shape == (*x.shape[:-1], 2)


def test_inputs_that_do_not_fit_are_refused() -> None:
    case = Case("layout")
    good, extra = case.inputs, case.inputs["extra"]
    wrong: dict[str, Any] = {
        "not one per slate": {**good, "extra": extra[:1]},
        "other rows": {**good, "extra": extra[::-1]},
        "other columns": {**good, "extra": [np.zeros((len(x), 4), np.float32) for x in extra]},
        "no configs": {**good, "more": [x[:, 0].copy() for x in good["more"]]},
        "float64": {**good, "extra": [x.astype(np.float64) for x in extra]},
        "not contiguous": {**good, "extra": [np.asfortranarray(x) for x in extra]},
        "missing": {name: value for name, value in good.items() if name != "extra"},
        "another": {**{name: value for name, value in good.items() if name != "extra"}, "other": extra},
        "too many": {**good, "other": extra},
        "none": None,
        "no dict": [extra],
    }
    before = case.model.params.tobytes()
    for what, inputs in wrong.items():
        for use in (
            lambda inputs=inputs: case.model.scores(case.slates, inputs=inputs),
            lambda inputs=inputs: case.model.run(case.slates, ["p"], inputs=inputs),
            lambda inputs=inputs: case.model.gradients(case.slates, [rows(5), rows(3)], HINGE, inputs=inputs),
        ):
            with pytest.raises((ValueError, TypeError)) as caught:
                use()
            assert str(caught.value), what
    assert case.model.params.tobytes() == before
    for inputs in ({"node_feat": ("NODE", 3)}, {"x": ("ROWS", 3)}, {"x": ("CONFIG", 0)}, {"x": ("UNIQUE", 2)}, {"x": 3},
                   {"digits": ("CONFIG", 2)}, {"x": ("CONFIG", 3, 4)}, {f"x{i}": ("CONFIG", 1) for i in range(20)}):  # fmt: skip
        with pytest.raises((tg.RecipeError, ValueError, TypeError)):
            _core.Model(case.steps, 0, COLUMNS, graph_features=4, inputs=inputs)


def test_inputs_and_outputs_are_read_as_those_of_texts() -> None:
    steps, inputs = SPECS["plain"](COLUMNS), {"fed": ("CONFIG", np.int64(3))}
    slots = _core.plan_slots(steps, ("scores",), inputs, COLUMNS)
    assert slots[0]["fed"] == ("CONFIG", 3)
    text = json.dumps({"fed": ["CONFIG", 3]})
    assert _core.plan_slots(json.dumps(steps), '["scores"]', text, COLUMNS) == slots
    for wrong, *names in (
        ({"fed": ("ROWS", 3)}, "inputs: fed: rows", "NODE_CONFIG", "'ROWS'"),
        ({"fed": ("CONFIG", 2.5)}, "inputs: fed: columns", "1..65536", "2.5"),
        ({"fed": ("CONFIG", 3, 4)}, "inputs: fed", "[rows, columns]", "a list of 3"),
        ({"x" * 64: ("CONFIG", 3)}, "inputs", "63 characters", "'xxx"),
        ({3: ("CONFIG", 3)}, "inputs", "text as the keys"),
        ([("fed", "CONFIG", 3)], "inputs", "{name: [rows, columns]}", "a list of 1"),
    ):
        refuses(lambda: _core.plan_slots(steps, ["scores"], wrong, COLUMNS), tg.RecipeError, *names)
    for outputs, *names in (
        (3, "outputs", "a list of slot names", "3"),
        (["scores", 3], "outputs", "63 characters", "3"),
        (["nothing"], "no step makes 'nothing'"),
        ({"scores": 1}, "outputs", "an object of 1"),
    ):
        refuses(lambda: _core.Model(steps, 0, COLUMNS, outputs=outputs), tg.RecipeError, *names)


def test_graphs_without_the_features_of_the_model_are_refused() -> None:
    case = Case("layout")
    arrays = {**case.graphs[0], "graph_feat": np.zeros(3, np.float32)}
    inputs = {name: arrays_[:1] for name, arrays_ in case.inputs.items()}
    for feat in (np.zeros(3, np.float32), None):
        graph = _core.ModelGraph(**{**arrays, "graph_feat": feat})
        refuses(lambda: case.model.scores([(graph, rows(5))], inputs=inputs), ValueError, "graph features")


# ---- gradients of inputs ----------------------------------------------------------------------------------

GRADIENTS = {
    "layout": ["node_feat", "graph_feat", "extra", "context", "more", "digits"],
    "tile": ["node_feat", "graph_feat", "config_feat"],
}


def nudge(case: Case, i: int, name: str, direction: Array, h: float) -> float:
    """The score with an input moved along a direction of the shape of its gradient."""
    if name == "digits":
        return case.score(i, nudge=h * direction)
    if name in case.inputs:
        return case.score(i, **{name: case.inputs[name][i].astype(np.float64) + h * direction})
    array = case.graphs[i][name].astype(np.float64)
    if name == "config_feat":
        array[case.slates[i][1]] += h * direction
    else:
        array += h * (direction[0] if name == "graph_feat" else direction)
    return case.score(i, **{name: array})


@pytest.mark.parametrize("lean", [False, True], ids=["kept", "lean"])
@pytest.mark.parametrize("kind", GRADIENTS)
def test_input_gradients_are_those_of_the_reference_and_its_slopes(kind: str, lean: bool) -> None:
    case = Case(kind, lean=lean)
    scores, gradients = case.model.input_gradients(case.slates, case.dscores, GRADIENTS[kind], **case.given)
    assert gradients.keys() == set(GRADIENTS[kind])
    for i in range(2):
        slots, done = case.reference(i)
        assert np.allclose(scores[i], slots["scores"][:, 0], rtol=1e-4, atol=1e-5)
        expected = ref_model.backward(done, {"scores": case.dscores[i][:, None].astype(np.float64)})
        for name in GRADIENTS[kind]:
            got = gradients[name][i]
            assert got.shape == expected[name].shape and got.any(), name
            assert relative(got, expected[name]) <= 1e-4, name
            direction = np.random.default_rng(i).normal(size=got.shape)
            slope = [nudge(case, i, name, direction, h) for h in (1e-5, -1e-5)]
            exact = float((expected[name] * direction).sum())
            assert (slope[0] - slope[1]) / 2e-5 == pytest.approx(exact, rel=1e-5, abs=1e-7), name


@pytest.mark.parametrize("kind", GRADIENTS)
def test_one_gradient_at_a_time_is_the_same(kind: str) -> None:
    """Without gradients of weights and of other inputs, plans leave out what leads nowhere else."""
    case = Case(kind)
    together = case.model.input_gradients(case.slates, case.dscores, GRADIENTS[kind], **case.given)[1]
    case.model.grads[:] = 7
    for name in GRADIENTS[kind]:
        scores, alone = case.model.input_gradients(case.slates, case.dscores, [name], **case.given)
        assert alone.keys() == {name} and len(scores) == 2
        for got, expected in zip(alone[name], together[name], strict=True):
            assert relative(got, expected.astype(np.float64)) <= 1e-5, name
        if kind == "layout" and name in ("extra", "context"):
            assert not any(phase == "backward" and at == "sage" for phase, at, _ in case.model.profile)
    assert (case.model.grads == 7).all()
    assert case.model.input_gradients(case.slates, case.dscores, [], **case.given)[1] == {}


def test_gradients_of_inputs_come_with_those_of_weights() -> None:
    case = Case("layout")
    times = [np.array([3, 1, 2, 5, 4]), np.array([2, 1, 3])]
    loss, scores = case.model.gradients(case.slates, times, HINGE, **case.given)
    alone = case.model.grads.copy()
    again, same, inputs = case.model.gradients(
        case.slates, times, HINGE, **case.given, of=GRADIENTS["layout"]
    )
    assert (again, [s.tobytes() for s in same]) == (loss, [s.tobytes() for s in scores])
    assert case.model.grads.tobytes() == alone.tobytes()
    starts = [losses.pairwise_hinge(s, y)[1] / 2 for s, y in zip(scores, times, strict=True)]
    for i, start in enumerate(starts):
        _, done = case.reference(i)
        expected = ref_model.backward(done, {"scores": start[:, None]})
        for name in GRADIENTS["layout"]:  # slopes of a hinge add up to 0, so what shifts all scores has none
            scale = max(np.linalg.norm(expected[name]), 1e-3)
            assert np.linalg.norm(inputs[name][i] - expected[name]) <= 2e-4 * scale, name


def test_an_input_that_no_score_depends_on_has_no_gradient() -> None:
    steps = [*SPECS["plain"](COLUMNS), step("linear", "aux", "spare", "aux", out=2)]
    model = _core.Model(steps, 1, COLUMNS, inputs={"spare": ("CONFIG", 3)}, outputs=("scores", "aux"))
    _, one, _ = slate()
    given = {"spare": [np.ones((9, 3), np.float32)]}
    gradients = model.input_gradients([one], [np.ones(9, np.float32)], ["spare", "node_feat"], given)[1]
    assert not gradients["spare"][0].any() and gradients["node_feat"][0].any()


def test_input_gradients_are_those_of_scores_without_dropout() -> None:
    model, plain = make("cross", dropout=0.5), make("cross")
    _, one, _ = slate()
    start = [np.ones(9, np.float32)]
    found, expected = (m.input_gradients([one], start, ["node_feat"]) for m in (model, plain))
    assert found[0][0].tobytes() == model.scores([one])[0].tobytes()
    assert found[1]["node_feat"][0].tobytes() == expected[1]["node_feat"][0].tobytes()


def test_gradients_that_there_are_not() -> None:
    model, case = make("cross"), Case("tile")
    _, one, _ = slate()
    start = [np.ones(9, np.float32)]
    for wrong in (["scores"], ["config_feat"], ["node_feat", "node_feat"], ["node_feat"] * 20, [3], 5):
        with pytest.raises((ValueError, TypeError)):
            model.input_gradients([one], start, wrong)
    refuses(lambda: case.model.input_gradients(case.slates, case.dscores, ["digits"]), ValueError, "digits")
    for dscores in ([], [start[0][:3]], [start[0].astype(np.float64)], None):
        with pytest.raises((ValueError, TypeError)):
            model.input_gradients([one], dscores, ["node_feat"])


def test_input_gradients_do_not_depend_on_threads() -> None:
    results = set()
    _, one, _ = slate(0, 150, 24, 40)
    start = [np.linspace(-1, 1, 24, dtype=np.float32)]
    for count in (1, 2, 3):
        _core.set_num_threads(count)
        _, found = make("cross").input_gradients([one], start, ["node_feat", "digits"])
        results.add(found["node_feat"][0].tobytes() + found["digits"][0].tobytes())
    assert len(results) == 1 and found["digits"][0].shape == (24, 40, 18, 8)


# ---- steps ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["cross", "plain", "zoo"])
def test_gradients_and_update_are_a_step(kind: str) -> None:
    options = {} if kind == "zoo" else {"dropout": 0.3}
    one, two = make(kind, **options), make(kind, **options)
    _, batch, runtimes = slate()
    for number in (1, 2, 3):
        optimizer = {**ADAMW, "step": number}
        loss = one.trainer.step([batch], [runtimes], HINGE, optimizer, seed=5)
        value, _ = two.trainer.gradients([batch], [runtimes], HINGE, step=number, seed=5)
        norm = two.trainer.update(optimizer)
        assert loss == value
        assert norm == pytest.approx(np.linalg.norm(two.grads.astype(np.float64)), rel=1e-5)
        for vector in ("params", "grads", "moment1", "moment2"):
            assert getattr(one, vector).tobytes() == getattr(two, vector).tobytes(), vector


def test_a_trainer_has_its_own_state() -> None:
    model = make("cross").model
    one, two = _core.Trainer(model), _core.Trainer(model, workspace=_core.Workspace())
    assert one.model is model and two.model is model
    _, batch, runtimes = slate()
    one.step([batch], [runtimes], HINGE, ADAMW)
    assert one.moment1.any() and not two.moment1.any() and not two.grads.any()
    one.gradients([batch], [runtimes], HINGE)
    two.gradients([batch], [runtimes], HINGE)
    assert one.grads.tobytes() == two.grads.tobytes()
    for wrong in (None, 3, one):
        with pytest.raises(TypeError):
            _core.Trainer(wrong)
    refuses(lambda: _core.Trainer(model, workspace=model), TypeError, "Workspace")


# ---- losses, targets, lists -------------------------------------------------------------------------------

SLATES = [slate(i, nodes, configs, 3) for i, (nodes, configs) in enumerate(((12, 6), (7, 4)))]
BATCH, TIMES = [s[1] for s in SLATES], [s[2] for s in SLATES]
LOG_MSE = {"loss": "log_mse", "offset": 1.0}


def expect(model: Any, starts: list[Array]) -> dict[str, Array]:
    """Gradients of the parameters from those of the scores, one array per slate."""
    params, total = {name: v.astype(np.float64) for name, v in named(model).items()}, {}
    for (arrays, (_, chosen), _), start in zip(SLATES, starts, strict=True):
        _, done = ref_model.forward(SPECS["plain"](COLUMNS), params, arrays, chosen)
        grads = ref_model.backward(done, {"scores": start[:, None]})
        total = {name: total.get(name, 0) + grads[name] for name in params}
    return total


def compare(model: Any, starts: list[Array]) -> None:
    expected = expect(model, starts)
    flat = np.concatenate([expected[name].ravel() for name, _, _ in model.layout])
    assert relative(model.grads, flat) <= 5e-5


def test_losses_are_summed_over_order_and_values() -> None:
    model = make("plain")
    values = [y / 1e5 for y in TIMES]
    terms = [{**LOG_MSE, "weight": 0.5}, {**HINGE[0], "weight": 2.0}]
    loss, scores = model.gradients(BATCH, {"order": TIMES, "value": values}, terms)
    expected, starts = 0.0, []
    for s, y, value in zip(scores, TIMES, values, strict=True):
        s = s.astype(np.float64)
        error = s - np.log(1 + value)
        hinge, slope = losses.pairwise_hinge(s, y)
        expected += (0.5 * np.mean(error**2) + 2 * hinge) / 2
        starts.append((0.5 * 2 * error / len(s) + 2 * slope) / 2)
    assert loss == pytest.approx(expected, rel=1e-5)
    compare(model, starts)


def test_samples_have_weights() -> None:
    model = make("plain")
    values = [y / 1e5 for y in TIMES]
    weights = [np.arange(len(y), dtype=np.float32) for y in TIMES]
    loss, scores = model.gradients(BATCH, {"value": values, "weight": weights}, [LOG_MSE])
    starts, expected = [], 0.0
    for s, value, w in zip(scores, values, weights, strict=True):
        error = s.astype(np.float64) - np.log(1 + value)
        expected += (w * error**2).sum() / w.sum() / 2
        starts.append(2 * w * error / w.sum() / 2)
    assert loss == pytest.approx(expected, rel=1e-5)
    compare(model, starts)


def test_a_segment_is_scored_on_top_of_an_outside_offset() -> None:
    """A large graph in pieces: the loss sees the score of this piece plus that of all others."""
    model = make("plain")
    total = sum(len(y) for y in TIMES)
    rng = np.random.default_rng(4)
    shift, scale = (
        rng.normal(size=total).astype(np.float32) * 3,
        rng.uniform(0.5, 2, total).astype(np.float32),
    )
    lists = {"offsets": np.array([0, 6, 10]), "shift": shift}
    for given in (lists, {**lists, "scale": scale}):
        factor = given.get("scale", np.ones(total, np.float32)).astype(np.float64)
        loss, scores = model.gradients(BATCH, TIMES, HINGE, lists=given)
        seen = np.concatenate(scores).astype(np.float64) * factor + shift
        value, slope = losses.weighted_sum(seen, HINGE, [0, 6, 10], runtimes=np.concatenate(TIMES))
        assert loss == pytest.approx(value, rel=1e-5)
        compare(model, np.split(slope * factor, [6]))
        for got, plain in zip(scores, model.scores(BATCH), strict=True):
            assert got.tobytes() == plain.tobytes()  # the scores themselves are not shifted


def test_lists_over_the_whole_batch() -> None:
    """One list of entries from both slates, in any order, and one of the rest; an entry may be in none."""
    model = make("plain")
    index, offsets = np.array([9, 0, 3, 7, 1, 8, 2]), np.array([0, 4, 7])
    loss, scores = model.gradients(BATCH, TIMES, HINGE, lists={"offsets": offsets, "index": index})
    s, y = np.concatenate(scores).astype(np.float64), np.concatenate(TIMES)
    value, slope = losses.weighted_sum(s, HINGE, offsets, index, runtimes=y)
    assert loss == pytest.approx(value, rel=1e-5)
    compare(model, np.split(slope, [6]))
    whole = {"offsets": np.array([0, 10])}
    loss, scores = model.gradients(BATCH, TIMES, HINGE, lists=whole)
    assert loss == pytest.approx(losses.pairwise_hinge(np.concatenate(scores), y)[0], rel=1e-5)
    twin, optimizer = make("plain"), {**ADAMW, "clip": 0.0}
    assert twin.trainer.step(BATCH, TIMES, HINGE, optimizer, lists=whole) == loss
    assert twin.grads.tobytes() == model.grads.tobytes()


def test_targets_and_lists_that_do_not_fit() -> None:
    model = make("plain")
    ones = [np.ones(len(y)) for y in TIMES]
    long = np.array([0, 10])
    for targets, loss, lists, words in (
        ({"value": ones}, HINGE, None, "order"),
        ({"order": TIMES}, [LOG_MSE], None, "value"),
        ({"value": [v.astype(np.float32) for v in ones]}, [LOG_MSE], None, "value"),
        ({"value": ones, "weight": ones}, [LOG_MSE], None, "weight"),
        ({"value": ones, "weight": [-v.astype(np.float32) for v in ones]}, [LOG_MSE], None, "weight"),
        ({"value": [v * np.nan for v in ones]}, [LOG_MSE], None, "value"),
        (TIMES[:1], HINGE, None, "runtimes"),
        (TIMES, [LOG_MSE], None, "value"),
        (TIMES, HINGE, {}, "offsets"),
        (TIMES, HINGE, {"offsets": long.astype(np.int32)}, "offsets"),
        (TIMES, HINGE, {"offsets": np.array([0])}, "offsets"),
        (TIMES, HINGE, {"offsets": np.array([0, 9])}, "offsets"),
        (TIMES, HINGE, {"offsets": np.array([1, 10])}, "offsets"),
        (TIMES, HINGE, {"offsets": np.array([0, 11, 10])}, "offsets"),
        (TIMES, HINGE, {"offsets": np.array([0, 2]), "index": np.array([0, 10])}, "index"),
        (TIMES, HINGE, {"offsets": np.array([0, 2]), "index": np.array([-1, 2])}, "index"),
        (TIMES, HINGE, {"offsets": np.array([0, 2]), "index": np.array([2, 2])}, "index"),
        (TIMES, HINGE, {"offsets": long, "shift": np.zeros(9, np.float32)}, "shift"),
        (TIMES, HINGE, {"offsets": long, "shift": np.full(10, np.nan, np.float32)}, "shift"),
        (TIMES, HINGE, {"offsets": long, "scale": np.zeros(10)}, "scale"),
    ):
        before = model.params.tobytes()
        either = ValueError, TypeError
        refuses(lambda: model.gradients(BATCH, targets, loss, lists=lists), either, words)
        refuses(lambda: model.trainer.step(BATCH, targets, loss, ADAMW, lists=lists), either, words)
        assert model.params.tobytes() == before
    model.gradients(BATCH, TIMES, HINGE)


# ---- parameters -------------------------------------------------------------------------------------------


def chain() -> list[dict[str, Any]]:
    return [
        step("config_linear", "first", "node_feat", "z0", out=COLUMNS, cols=3, stats=1),
        step("linear", "a", "z0", "z1", out=COLUMNS, act="gelu"),
        step("sage", "s", "z1", "z2", out=COLUMNS, direction="reverse"),
        step("linear", "b", "z2", "z3", out=COLUMNS, act="tanh"),
        step("sage", "t", "z3", "z4", out=COLUMNS),
        step("mix", "g", "z4", "z5", gate=4),
        step("mix", "h", "z5", "z6", gate=4),
        step("pool", "pool", "z6", "p"),
        step("linear", "head", "p", "scores", out=1),
    ]


@pytest.mark.parametrize(
    "shared",
    [
        {"b": {"weight": "a.weight"}},
        {"b": {"weight": "a.weight", "bias": "a.bias"}},
        {"t": {"weight_l": "s.weight_l", "weight_r": "s.weight_l", "bias_l": "a.bias"}},
        {"t": {"weight_r": "a.weight"}, "b": {"weight": "s.weight_r"}},
        {"h": {"gate1_weight": "g.gate1_weight", "gate2_bias": "a.bias", "gate1_bias": "g.gate1_bias"}},
    ],
    ids=str,
)
def test_any_parameter_can_be_shared(shared: dict[str, dict[str, str]]) -> None:
    steps = [s | ({"share": shared[s["name"]]} if s["name"] in shared else {}) for s in chain()]
    model = Trained(steps, 2, COLUMNS)
    taken = {f"{name}.{param}" for name, given in shared.items() for param in given}
    assert {name for name, _, _ in model.layout} == {
        n for n, _, _ in Trained(chain(), 2, COLUMNS).layout
    } - taken
    randomize(model, 2)
    arrays, one, runtimes = slate()
    params = {name: v.astype(np.float64) for name, v in named(model).items()}
    scores, _, grads = ref_model.scores_and_gradients(
        steps, params, arrays, one[1], lambda s: losses.pairwise_hinge(s, runtimes)
    )
    assert relative(model.scores([one])[0], scores) <= 1e-5
    model.gradients([one], [runtimes])
    flat = np.concatenate([grads[name].ravel() for name, _, _ in model.layout])
    assert relative(model.grads, flat) <= 5e-5
    assert _core.plan_parameters(steps, COLUMNS) == [(name, shape) for name, _, shape in model.layout]


def test_sharing_that_does_not_fit() -> None:
    for name, shared, word in (
        ("b", {"weight": "head.weight"}, "earlier"),
        ("b", {"weights": "a.weight"}, "'weights'"),
        ("b", {"weight": "a.bias"}, "shape"),
        ("head", {"weight": "a.weight"}, "shape"),
        ("h", {"temperature": "head.bias"}, "temperature"),
    ):
        steps = [s | ({"share": shared} if s["name"] == name else {}) for s in chain()]
        refuses(lambda: _core.Model(steps, 0, COLUMNS), tg.RecipeError, word)


@pytest.mark.parametrize("spec", SPECS)
def test_parameters_are_known_without_a_model(spec: str) -> None:
    steps = SPECS[spec](COLUMNS)
    model = _core.Model(steps, 0, COLUMNS)
    assert _core.plan_parameters(steps, COLUMNS) == [(name, shape) for name, _, shape in model.layout]
    assert _core.plan_parameters(tile_steps(), COLUMNS, config_features=24, graph_features=3)[-1] == (
        "two.bias",
        (1,),
    )


def steps_after(slot: str) -> list[dict[str, Any]]:
    """From rows of nodes and configs to scores."""
    return [step("pool", "pool", slot, "p"), step("linear", "head", "p", "scores", out=1)]


def test_parameters_are_known_before_there_is_memory_for_them() -> None:
    steps = SPECS["zoo"](COLUMNS)
    wide = [step("config_linear", "a", "node_feat", "b", out=65536), *steps_after("b")]
    before = resident()
    assert _core.plan_parameters(wide, 3900)[0] == ("a.weight", (65536, 3900 + 72))  # a gigabyte
    assert resident() - before < 1e8
    for wrong in ([{}], [3], None):
        with pytest.raises((ValueError, TypeError)):
            _core.plan_parameters(wrong)
    refuses(lambda: _core.plan_parameters([]), tg.RecipeError, "scores")
    refuses(lambda: _core.plan_parameters(steps, COLUMNS, digits=(65, 8)), ValueError, "digits")


# ---- other schemas ----------------------------------------------------------------------------------------


def other_digits(nodes: int, configs: int, k: int, columns: int, values: int, seed: int) -> dict[str, Array]:
    """Arrays of a graph whose configurable nodes have `columns` digits of `values` values."""
    arrays = graph_arrays(nodes, configs, k, COLUMNS, seed)
    rng = np.random.default_rng([seed, 7])
    return {**arrays, "digits": rng.integers(-1, values, (configs, k, columns)).astype(np.int8)}


@pytest.mark.parametrize(("columns", "table"), [(7, 12), (1, 4), (64, 34), (18, 9), (17, 8)])
@pytest.mark.parametrize("lean", [False, True], ids=["kept", "lean"])
def test_digits_of_another_schema(columns: int, table: int, lean: bool) -> None:
    steps = [
        step("config_linear", "first", "node_feat", "z", out=9, column=3, cols=5, stats=1),
        step("mix", "mix", "z", "m", norm=1, gate=2, act="gelu"),
        step("pool", "pool", "m", "p", kind="mean+max"),
        step("linear", "head", "p", "scores", out=1),
    ]
    model = Trained(steps, 3, COLUMNS, lean=lean, digits=(columns, table))
    randomize(model, 3)
    arrays = other_digits(12, 70, 5, columns, table - 2, 1)
    one = (_core.ModelGraph(**arrays, digit_rows=table), rows(70))
    runtimes = np.random.default_rng(0).integers(1, 10**6, 70)
    params = {name: v.astype(np.float64) for name, v in named(model).items()}
    assert params["first.table"].shape == (table, 5)
    scores, value, grads = ref_model.scores_and_gradients(
        steps, params, arrays, one[1], lambda s: losses.pairwise_hinge(s, runtimes)
    )
    loss, (got,) = model.gradients([one], [runtimes])
    assert loss == pytest.approx(value, rel=1e-5) and relative(got, scores) <= 1e-5
    flat = np.concatenate([grads[name].ravel() for name, _, _ in model.layout])
    assert relative(model.grads, flat) <= 2e-5
    start = np.random.default_rng(1).normal(size=70).astype(np.float32)
    _, inputs = model.input_gradients([one], [start], ["digits", "node_feat"])
    _, done = ref_model.forward(steps, params, arrays, one[1])
    expected = ref_model.backward(done, {"scores": start[:, None].astype(np.float64)})
    for name in ("digits", "node_feat"):
        assert relative(inputs[name][0], expected[name]) <= 1e-4, name


def test_digits_of_another_schema_than_the_model_are_refused() -> None:
    steps = SPECS["zoo"](COLUMNS)
    model = _core.Model(steps, 0, COLUMNS, digits=(7, 12))
    good = _core.ModelGraph(**other_digits(9, 4, 3, 7, 10, 0), digit_rows=12)
    assert model.scores([(good, rows(4))])[0].shape == (4,)
    for columns, table in ((6, 12), (7, 11)):
        graph = _core.ModelGraph(**other_digits(9, 4, 3, columns, 4, 0), digit_rows=table)
        refuses(lambda: model.scores([(graph, rows(4))]), ValueError, "digits")
    refuses(lambda: _core.Model(steps, 0, COLUMNS).scores([(good, rows(4))]), ValueError, "digits")
    wild = other_digits(9, 4, 3, 7, 10, 0)
    wild["digits"][1, 2, 3] = 10
    with pytest.raises(tg.DataError, match="config 1, node 2, column 3"):
        model.scores([(_core.ModelGraph(**wild, digit_rows=12), rows(4))])
    refuses(lambda: _core.Model(steps, 0, COLUMNS, digits=(0, 0)), tg.RecipeError, "config digits")


def test_a_graph_of_nothing_but_features() -> None:
    """No opcodes, layout or edges; nothing asks for them."""
    steps = [
        step("linear", "one", "node_feat", "n", out=5, act="gelu"),
        step("sage", "sage", "n", "s", out=5),
        step("pool", "pool", "s", "g", kind="mean+max"),
        step("linear", "two", "config_feat g", "scores", out=1),
    ]
    arrays = {
        "node_feat": np.random.default_rng(0).normal(size=(6, 3)).astype(np.float32),
        "node_opcode": None,
        "layout_digits": None,
        "edge_index": np.zeros((0, 2), np.int64),
        "config_nodes": np.zeros(0, np.int64),
        "config_feat": np.random.default_rng(1).normal(size=(8, 2)).astype(np.float32),
    }
    model = Trained(steps, 0, 3, config_features=2)
    one = (_core.ModelGraph(**arrays), rows(8))
    runtimes = np.arange(1, 9)
    params = {name: v.astype(np.float64) for name, v in named(model).items()}
    scores, value, grads = ref_model.scores_and_gradients(
        steps, params, arrays, one[1], lambda s: losses.pairwise_hinge(s, runtimes)
    )
    loss, (got,) = model.gradients([one], [runtimes])
    assert relative(got, scores) <= 1e-5 and loss == pytest.approx(value, rel=1e-5)
    flat = np.concatenate([grads[name].ravel() for name, _, _ in model.layout])
    assert relative(model.grads, flat) <= 2e-5
    for source, words in (("opcode", "no opcodes"), ("layout", "no layout digits")):
        asks = [
            step("embedding", "e", "node_feat", "x", source=source),
            {**steps[0], "in": ["x"]},
            *steps[1:],
        ]
        refuses(lambda: _core.Model(asks, 0, 3, config_features=2).scores([one]), ValueError, words)


def test_nodes_without_features() -> None:
    """0 columns where only opcodes and digits are read."""
    arrays = {**graph_arrays(9, 5, 3, 1, 0), "node_feat": np.zeros((9, 0), np.float32)}
    steps = [
        step("linear", "one", "per_node", "n", out=4, act="relu"),
        step("config_linear", "digits", "n", "z", out=6, column=4),
        step("pool", "pool", "z", "p"),
        step("linear", "head", "p", "scores", out=1),
    ]
    model = Trained(steps, 0, 0, inputs={"per_node": ("NODE", 2)})
    one = (_core.ModelGraph(**arrays), rows(5))
    given = {"per_node": [np.random.default_rng(0).normal(size=(9, 2)).astype(np.float32)]}
    params = {name: v.astype(np.float64) for name, v in named(model).items()}
    inputs = {"per_node": given["per_node"][0].astype(np.float64)}
    slots, done = ref_model.forward(steps, params, arrays, one[1], inputs)
    loss, (got,) = model.gradients([one], [np.arange(5)], inputs=given)
    assert relative(got, slots["scores"][:, 0]) <= 1e-5
    _, start = losses.pairwise_hinge(slots["scores"][:, 0], np.arange(5))
    expected = ref_model.backward(done, {"scores": start[:, None]})
    flat = np.concatenate([expected[name].ravel() for name, _, _ in model.layout])
    assert relative(model.grads, flat) <= 2e-5 and np.isfinite(loss)
    with pytest.raises(tg.RecipeError, match="node_feat"):
        _core.Model([step("linear", "one", "node_feat", "n", out=4)], 0, 0)
