import dataclasses
import json

import models
import numpy as np
import pytest

import tpugraphs as tg
from tpugraphs import _core
from tpugraphs.recipes import get_recipe, plain


def test_the_recipes_are_listed_and_described():
    assert tg.list_recipes() == ["first-layout", "first-layout-cross", "first-tile"]
    assert tg.list_recipes("tile") == ["first-tile"]
    for name in tg.list_recipes():
        recipe = get_recipe(name)
        assert set(recipe.presets) == {"cpu", "full"}
        assert recipe.summary.endswith(".") and recipe.source
        assert dataclasses.is_dataclass(recipe.options)
        described = recipe.options.__doc__
        for field in dataclasses.fields(recipe.options):
            assert field.name in described or field.name.endswith("_columns")


@pytest.mark.parametrize(
    ("name", "parameters"),
    [("first-layout", 460577), ("first-layout-cross", 215013), ("first-tile", 540645)],
)
def test_the_full_presets_have_the_published_number_of_parameters(name, parameters):
    assert tg.Ranker(name, preset="full").num_parameters == parameters


def test_parameters_have_the_shapes_of_the_published_model():
    shapes = {
        name: array.shape for name, array in tg.Ranker("first-layout-cross", preset="full").parameters.items()
    }
    assert shapes["embedding_opcode.weight"] == (120, 16)
    assert shapes["embedding_layout.weight"] == (8, 4)
    assert shapes["linear1.weight"] == (128, 246)
    assert shapes["linear2.weight"] == (128, 256)
    assert shapes["mix1.gate1_weight"] == (16, 128) and shapes["mix1.temperature"] == (1,)
    assert shapes["sage1.weight_l"] == shapes["sage1.weight_r"] == (128, 256)
    assert shapes["head.weight"] == (1, 256)
    assert not any("temperature" in name for name in tg.Ranker("first-layout").parameters)


@pytest.mark.parametrize("name", ["first-layout", "first-layout-cross", "first-tile"])
@pytest.mark.parametrize(
    "fields", [{"blocks": 0}, {"blocks": 3, "direction": "both"}, {"gate_reduction": 64}]
)
def test_fields_give_models_that_can_be_built(name, fields):
    recipe = get_recipe(name)
    steps = recipe.steps(recipe.fields("cpu", {"width": 32, **fields}))
    configs = 24 if recipe.kind == "tile" else 0
    assert _core.Model(steps, 0, config_features=configs).num_parameters > 0
    assert json.loads(json.dumps(steps)) == steps


def test_fields_are_plain_values():
    values = plain(get_recipe("first-layout").fields("cpu", {"steps": np.int64(7), "clip": np.float32(0.5)}))
    assert json.loads(json.dumps(values))["steps"] == 7 and values["clip"] == 0.5


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"widht": 3}, ["widht", "did you mean 'width'", "learning_rate"]),
        ({"width": 1}, ["width", "16..4096", "1"]),
        ({"width": 32.5}, ["width", "whole number", "32.5"]),
        ({"width": True}, ["width", "True"]),
        ({"steps": "many"}, ["steps", "many"]),
        ({"dropout": float("nan")}, ["dropout", "nan"]),
        ({"direction": "sideways"}, ["direction", "forward, reverse, both"]),
        ({"prune": 3}, ["prune", "string"]),
    ],
)
def test_bad_fields_are_refused_with_what_is_valid(fields, words):
    with pytest.raises(tg.ConfigError) as error:
        tg.Ranker(**fields)
    assert all(word in str(error.value) for word in words)


def test_bad_names_are_refused_with_what_is_valid():
    with pytest.raises(tg.RecipeError, match=r"did you mean 'first-layout'.*first-layout-cross"):
        tg.Ranker("first-layuot")
    with pytest.raises(tg.ConfigError, match="cpu, full"):
        tg.Ranker(preset="gpu")
    with pytest.raises(tg.ConfigError, match="precision"):
        tg.Ranker(precision="f64")
    for seed in (-1, 1.5, "x", True):
        with pytest.raises(tg.ConfigError, match="seed"):
            tg.Ranker(seed=seed)


@pytest.mark.parametrize(("name", "cross"), [("first-layout", False), ("first-layout-cross", True)])
def test_the_recipes_build_the_model_that_is_compared_with_pytorch(name, cross):
    def numbered(steps):
        """Slots by order of appearance: their names do not matter."""
        slots = {}
        return [
            {
                **s,
                "in": [slots.setdefault(i, len(slots)) for i in s["in"]],
                "out": slots.setdefault(s["out"], len(slots)),
            }
            for s in steps
        ]

    recipe = get_recipe(name)
    ours = recipe.steps(recipe.fields("full"))
    assert numbered(ours) == numbered(models.first_layout(cross=cross, dropout=0.2))
