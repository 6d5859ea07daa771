"""tg.Model: every op as a method, checked at once, printed, and made into steps and recipes."""

import copy
import importlib.util
import inspect
import pickle
import re
from pathlib import Path

import numpy as np
import pytest
from rankers import SMALL_GRAPHS, Break, networks, small_any, state
from refusals import refuses

import tpugraphs as tg
from tpugraphs import _core
from tpugraphs.recipes import functions, get_recipe
from tpugraphs.recipes.model import Model

OPS = {op["name"]: op for op in _core.ops()}


def written():
    model = tg.Model()
    x = model.linear(model.config_feat, out=16, act="silu")
    x = model.linear(model.layer_norm(x), out=16, act="silu")
    model.linear(x, out=1, to="scores")
    return model


def test_six_lines_in_a_notebook_train_and_print():
    model = written()
    ranker = tg.Ranker(recipe=model.recipe("two-layers"), steps=20)
    ranker.fit([small_any(0), small_any(1)], verbose=False)
    assert ranker.score(small_any(2)) > 0.2
    assert repr(model).splitlines() == [
        "Model of 4 steps",
        "  linear     = linear(config_feat, out=16, act='silu')    (C, 16)",
        "  layer_norm = layer_norm(linear)                         (C, 16)",
        "  linear2    = linear(layer_norm, out=16, act='silu')     (C, 16)",
        "  scores     = linear(linear2, out=1)                     (C, 1)",
    ]
    assert list(ranker.parameters) == [
        "linear.weight", "linear.bias", "layer_norm.weight", "layer_norm.bias", "linear2.weight", "linear2.bias",
        "scores.weight", "scores.bias",
    ]  # fmt: skip
    assert len(model) == 4 and list(model) == model.steps == ranker.steps


def test_every_op_is_a_documented_method_with_what_its_table_says():
    assert not {"name", "to", "share"} & {
        one["name"] for op in OPS.values() for one in (*op["inputs"], *op["attrs"])
    }
    for name, op in OPS.items():
        method = getattr(tg.Model, name)
        parameters = inspect.signature(method).parameters
        assert list(parameters)[-3:] == ["name", "to", "share"]
        assert list(parameters)[1:-3] == [one["name"] for one in (*op["inputs"], *op["attrs"])]
        for attr in op["attrs"]:
            default = parameters[attr["name"]].default
            expected = attr["default"]
            assert default == expected and re.search(rf"^{attr['name']} : .*default", method.__doc__, re.M)
        for one in (*op["params"], *(i["name"] for i in op["inputs"])):
            assert one in method.__doc__


def by_methods(steps, sizes=None):
    """The same steps, each written as a call."""
    model = tg.Model(sizes)
    for one in steps:
        given = {"share": one["share"]} if "share" in one else {}
        slot = getattr(model, one["op"])(*one["in"], name=one["name"], to=one["out"], **given, **one["attrs"])
        assert slot == one["out"]
    return model


@pytest.mark.parametrize("name", networks())
def test_every_recipe_can_be_written_so(name):
    recipe, (graph, other) = (
        get_recipe(name),
        [SMALL_GRAPHS[get_recipe(name).kind](seed) for seed in range(2)],
    )
    fields = recipe.fields("full")
    pipeline = recipe.pipeline(fields).fit([graph, other])
    steps = recipe.model(fields, pipeline.sizes)
    model = by_methods(steps, pipeline.sizes)
    assert model.steps == steps == Model.from_steps(steps).steps
    columns = pipeline.sizes
    made = _core.Model(
        steps, 0, node_features=columns.node, config_features=columns.config, graph_features=columns.graph,
        digits=columns.digits,
    )  # fmt: skip
    assert made.slots == model.slots
    known = {slot: shape for slot, shape in Model.from_steps(steps).slots.items() if shape[1] is not None}
    assert all(made.slots[slot] == shape for slot, shape in known.items()) and "scores" in known
    assert str(model).count("\n") == len(steps)


def test_a_recipe_may_return_a_model():
    recipe = tg.recipes.Recipe(
        name="returned", summary="Two layers.", kind="graph", steps=lambda fields, sizes: written(),
        preprocessing=lambda fields, schema: [tg.recipes.base.encode(schema)],
    )  # fmt: skip
    one, two = tg.Ranker(recipe, steps=2), tg.Ranker(written().recipe("other", powers=False), steps=2)
    for ranker in (one, two):
        ranker.fit(small_any(), verbose=False)
        assert ranker.steps == written().steps and type(ranker.steps) is list


WRONG = {
    "an op": (lambda m, x: m.linearr(x), r"unknown op: 'linearr' \(did you mean 'linear'\?\)"),
    "an attribute": (lambda m, x: m.linear(x, outs=3), r"unknown attribute of linear: 'outs' \(did you mean 'out'"),
    "too small": (lambda m, x: m.linear(x, out=0), r"out: expected a whole number in 1\.\.65536, found 0"),
    "half": (lambda m, x: m.linear(x, out=1.5), "out: expected a whole number"),
    "true": (lambda m, x: m.linear(x, out=True), "out: expected a whole number"),
    "text": (lambda m, x: m.dropout(x, p="much"), r"dropout.*p: expected a number in 0\.\."),
    "nan": (lambda m, x: m.dropout(x, p=np.nan), "p: expected a number"),
    "a flag": (lambda m, x: m.linear(x, use_bias=2), "use_bias: expected true or false, found 2"),
    "a choice": (lambda m, x: m.linear(x, act="silo"), "act: expected one of none, .*silu.* found 'silo'"),
    "a number for a choice": (lambda m, x: m.linear(x, act=1), "act: expected one of none, .*found 1"),
    "a slot": (lambda m, x: m.linear("liner"), r"unknown slot: 'liner' \(did you mean 'linear'"),
    "an array": (lambda m, x: m.linear(np.zeros(3)), "x must be a slot, as the methods return them, got ndarray"),
    "no slot": (lambda m, x: m.linear(), "linear: missing a required argument: 'x'; its slots are: x, row"),
    "too many": (lambda m, x: m.linear(x, x, x), "linear: too many positional arguments; its slots are: x, row"),
    "twice": (lambda m, x: m.linear(x, x=x), "linear: multiple values for argument 'x'"),
    "a gap": (lambda m, x: m.add(x, x, u=x), "add: z is missing"),
    "rows": (lambda m, x: m.sage(x, out=3), "sage.*one row per node.*found one per config"),
    "columns": (lambda m, x: m.take_columns(x, first=12, count=12), "take_columns"),
    "no text": (lambda m, x: m.linear(x, name=3), "linear: name must be a text, got 3"),
    "a name again": (lambda m, x: m.linear(x, name="linear"), "used twice|made twice"),
    "a slot again": (lambda m, x: m.linear(x, to="linear"), "made twice"),
    "shared with nobody": (lambda m, x: m.linear(x, share={"weight": "no.weight"}), "cannot share 'no.weight'"),
    "scores of nodes": (lambda m, x: m.linear(m.node_feat, to="scores"), "one row per config"),
    "scores that are read": (lambda m, x: m.linear(m.linear(x, to="scores")), "'scores' is used as an input"),
}  # fmt: skip


@pytest.mark.parametrize("wrong", WRONG)
def test_what_is_wrong_is_refused_at_once_and_leaves_the_model(wrong):
    model, (call, words) = tg.Model(), WRONG[wrong]
    x = model.linear(model.config_feat, out=16)
    with pytest.raises(tg.RecipeError, match=words):
        call(model, x)
    assert model.steps[0]["op"] == "linear" and len(model) == 1 + (wrong == "scores that are read")
    model.linear(x, to="fine")


def test_a_model_that_makes_no_scores_or_leaves_a_slot_is_no_recipe():
    model = tg.Model()
    x = model.linear(model.config_feat, out=16)
    refuses(lambda: model.recipe("x"), tg.RecipeError, "'scores'")
    model.linear(x, to="scores")
    model.linear(x, to="left")
    refuses(lambda: model.recipe("x"), tg.RecipeError, "'left'")


def test_columns_of_the_graphs_are_left_open_or_given():
    model = tg.Model()
    both = model.concat(model.config_feat, model.linear(model.config_feat, out=3))
    assert model.slots[both] == ("CONFIG", None) and "(C, F)" in repr(model)
    recipe = get_recipe("graph-config")
    sizes = recipe.pipeline(recipe.fields()).fit([small_any()]).sizes
    exact = tg.Model(sizes)
    exact.concat(exact.config_feat, exact.linear(exact.config_feat, out=3))
    assert exact.slots[both] == ("CONFIG", sizes.config + 3)
    refuses(lambda: exact.take_columns(exact.config_feat, first=sizes.config), tg.RecipeError, "take_columns")
    refuses(lambda: tg.Model(3), tg.RecipeError, "sizes")
    late = tg.Model()
    late.take_columns(late.config_feat, first=100, count=1, to="scores")
    with pytest.raises(tg.RecipeError, match="take_columns"):
        tg.Ranker(late.recipe("late"), steps=1).fit(small_any(), verbose=False)


@pytest.mark.parametrize("kind", ["layout", "tile", "graph"])
def test_recipes_take_preprocessing_and_training_from_another(kind, tmp_path):
    like = {"layout": "first-layout", "tile": "first-tile", "graph": "graph-config"}[kind]
    other, model, graph = get_recipe(like), tg.Model(), SMALL_GRAPHS[kind]()
    if kind == "layout":
        z = model.config_linear(model.node_feat, out=8, column=134, cols=2)
        model.linear(model.pool(z, kind="mean"), out=1, to="scores")
    else:
        model.linear(model.config_feat, out=1, to="scores")
    own = {"layout": {"prune": "none"}, "tile": {}, "graph": {"powers": False}}[kind]
    recipe = model.recipe(f"own-{kind}", like=like, summary="Mine.", learning_rate=0.5, dedup="min", **own)
    fields = recipe.fields()
    assert recipe.kind == kind and recipe.summary == "Mine." and fields.learning_rate == 0.5
    assert fields.configs == other.fields().configs and recipe.losses(fields) == other.losses(other.fields())
    ranker = tg.Ranker(recipe, steps=2)
    ranker.fit(graph, verbose=False)
    expected = other.pipeline(other.fields("cpu", {"dedup": "min", **own})).fit([graph])
    assert ranker.pipeline.steps == expected.steps
    ranker.save(tmp_path / "r.safetensors")
    assert (tg.load_ranker(tmp_path / "r.safetensors").predict(graph) == ranker.predict(graph)).all()
    later = tg.Ranker(recipe, dedup="mean")
    later.pipeline.fit([graph])
    assert [one["keep"] for one in later.pipeline.steps if one["step"] == "dedup"] == ["mean"]


def test_recipes_take_losses_groups_and_refuse_fields_that_there_are_not():
    model = written()
    recipe = model.recipe(
        "own", loss=[{"loss": "ranknet"}], groups=[{"match": "*.bias", "weight_decay": 0.0}]
    )
    assert recipe.losses(recipe.fields()) == [{"loss": "ranknet"}]
    assert recipe.groups(recipe.fields()) == [{"match": "*.bias", "weight_decay": 0.0}]
    for fields, error, words in (
        ({"widht": 3}, tg.ConfigError, "did you mean 'width'"), ({"powers": 3}, tg.ConfigError, "powers must be True"),
        ({"learning_rate": -1}, tg.ConfigError, "learning_rate must be"), ({"like": "first"}, tg.RecipeError, "unknown recipe"),
        ({"like": "eighth-trees"}, (tg.ConfigError, tg.RecipeError), "expected a recipe that trains a network|unknown recipe"),
    ):  # fmt: skip
        with pytest.raises(error, match=words):
            model.recipe("own", **fields)
    assert (
        "learning_rate" in tg.recipes.plain(recipe.fields())
        and "width" not in recipe.options.__dataclass_fields__
    )


def test_models_are_copied_and_are_no_other_objects():
    model = written()
    for twin in (copy.copy(model), copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert twin.steps == model.steps
    twin = copy.deepcopy(model)
    twin.linear("linear", to="more")
    assert len(twin) == len(model) + 1 and not hasattr(model, "teleport") and hasattr(model, "linear")
    model.steps[0]["attrs"]["out"] = 99
    assert model.steps[0]["attrs"]["out"] == 16


def test_the_same_model_gives_the_same_bits_as_its_steps_by_hand():
    one, two = (tg.Ranker(written().recipe(name), steps=3) for name in ("first", "second"))
    for ranker in (one, two):
        ranker.fit(small_any(), verbose=False)
    assert state(one.network) == state(two.network)
    feat = one.network.prepare(small_any()).nodes.config_feat.astype(np.float64)
    w = {name: view.astype(np.float64) for name, view in one.parameters.items()}

    def silu(x):
        return x / (1 + np.exp(-x))

    x = silu(feat @ w["linear.weight"].T + w["linear.bias"])
    x = (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5)
    x = x * w["layer_norm.weight"] + w["layer_norm.bias"]
    x = silu(x @ w["linear2.weight"].T + w["linear2.bias"])
    expected = (x @ w["scores.weight"].T + w["scores.bias"])[:, 0]
    np.testing.assert_allclose(one.predict(small_any()), expected, rtol=1e-4, atol=1e-5)


def test_the_page_on_own_models_runs_and_shows_what_is_printed(capsys):
    text = (Path(__file__).parents[1] / "docs" / "own-models.md").read_text()
    names = {"graphs": [small_any(0), small_any(1)]}
    first, *others = re.findall(r"```python\n(.*?)```", text, re.S)
    exec(first, names)
    shown = re.search(r"```\n(Model of.*?)```", text, re.S).group(1)
    assert capsys.readouterr().out == shown == f"{names['model']!r}\n"
    try:
        for block in others:
            if "import torch" in block and importlib.util.find_spec("torch") is None:
                continue
            if "tuned" in block:
                names["ranker"].fit(names["graphs"], steps=3, verbose=False)
            exec(block, names)
    finally:
        functions._EXTRA.pop("shape", None)
    assert names["tuned"].fitted and names["ranker"].recipe == "with-shape"


@pytest.mark.parametrize(
    "changes",
    [
        {"width": 5},
        {"act": "relu"},
        {"loss": [{"loss": "list_mle"}]},
        {"groups": [{"match": "linear.*", "learning_rate": 0.5}]},
        {"powers": False},
    ],
)
def test_a_checkpoint_of_another_model_is_refused(tmp_path, changes):
    """Nothing in the names and fields of these recipes tells them apart."""

    def own(width=4, act="silu", **more):
        model = tg.Model()
        model.linear(model.linear(model.config_feat, out=width, act=act), out=1, to="scores")
        return tg.Ranker(model.recipe("own", **more), steps=4)

    options = {"checkpoint_dir": tmp_path, "checkpoint_every": 1, "verbose": False}
    with pytest.raises(OSError, match="broken"):
        own().fit(small_any(), callbacks=[Break(2)], **options)
    with pytest.raises(tg.CheckpointError, match=r"belongs to another fit \(model: ") as error:
        own(**changes).fit(small_any(), callbacks=[Break()], **options)
    assert error.value.field == "model"
    own().fit(small_any(), callbacks=[Break()], **options)
