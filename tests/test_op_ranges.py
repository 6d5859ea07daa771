"""Rankers whose ops have attributes at the ends of their ranges: what can be built can be saved and read again."""

import contextlib

import pytest
from models import step
from rankers import small_graph

import tpugraphs as tg
from tpugraphs import _core, recipes
from tpugraphs.recipes import Recipe, TrainingFields, get_recipe

OPS = {op["name"]: op for op in _core.ops()}
SOURCES = {"NODE": "x", "UNIQUE": "cells", "CONFIG_NODE": "taken", "EDGE": "ends", "CONFIG": "q"}
ENDINGS = (  # from the slot "made" to one row per slate or config, by what rows it has
    [step("pool", "end", "made", "pooled")],
    [step("affine", "end", "made", "pooled")],
    [step("put_config_nodes", "put", "made", "put"), step("pool", "end", "put", "pooled")],
    [
        step("gather_unique", "gather", "made", "gathered"),
        step("put_config_nodes", "put", "gathered", "put"),
        step("pool", "end", "put", "pooled"),
    ],
    [step("edge_mean", "mean", "x made", "met"), step("pool", "end", "met", "pooled")],
    [step("edge_pool", "back", "made", "met"), step("pool", "end", "met", "pooled")],
)


def steps_of(op, attrs, ending):
    """A model with the op between a first layer and a head over the configs."""
    taken = [
        next(SOURCES[rows] for rows in SOURCES if rows in one["rows"])
        for one in OPS[op]["inputs"]
        if not one["optional"] or "NODE" in one["rows"]
    ]
    before = {
        "cells": [
            step("cell_columns", "columns", "", "columns"),
            step("dimension_tokens", "tokens", "columns", "cells", cols=24, column=0, groups=3, step=6),
        ],
        "taken": [step("take_config_nodes", "take", "x", "taken")],
        "ends": [step("edge_ends", "ends", "x", "ends")],
    }
    return [
        step("linear", "first", "node_feat", "x", out=144, stats=True),
        step("config_linear", "config", "x", "c", out=4, column=144),
        step("pool", "pool", "c", "q"),
        *(made for slot, all_made in before.items() if slot in taken for made in all_made),
        step(op, "tested", " ".join(taken), "made", **attrs),
        *ending,
        step("concat", "both", "q pooled", "b"),
        step("linear", "head", "b", "scores", out=1),
    ]


def builds(steps):
    with contextlib.suppress(tg.RecipeError):
        return bool(_core.plan_parameters(steps, 134))
    return False


NEEDS = {("config_linear", "shift"): {"values": "numbers"}}  # what else must be said


def ending_of(op):
    return next(ending for ending in ENDINGS if builds(steps_of(op, {}, ending)))


def ends():
    for op, meta in OPS.items():
        for attr in meta["attrs"]:
            ends = [False, True] if attr["kind"] == "flag" else [attr.get("low"), attr.get("high")]
            yield from ((op, attr["name"], value) for value in attr.get("choices", ends))


def read_again(steps, path):
    """Save a ranker of these steps; what its file gives."""
    first = get_recipe("first-layout")
    fields = first.fields()
    recipe = Recipe(
        name="ends",
        summary="Ends.",
        steps=lambda _: steps,
        preprocessing=lambda _: first.preprocessing(fields),
        options=TrainingFields,
        loss=lambda _: first.loss(fields),
    )
    recipes.register(recipe)
    try:
        ranker = tg.Ranker("ends")
        ranker.pipeline.fit([small_graph()])
        ranker.network.fitted = True
        ranker.save(path)
        again = tg.Ranker.load(path)
    finally:
        recipes.unregister("ends")
    assert (again.model.params == ranker.model.params).all()
    return again.network.steps


@pytest.mark.parametrize("op", OPS)
def test_attributes_at_the_ends_of_their_ranges_are_read_again(op, tmp_path):
    ending, read = ending_of(op), set()
    for _, name, value in (end for end in ends() if end[0] == op):
        steps = steps_of(op, {name: value, **NEEDS.get((op, name), {})}, ending)
        if builds(steps):
            assert read_again(steps, tmp_path / "r.safetensors") == steps
            read.add(name)
    assert read == {attr["name"] for attr in OPS[op]["attrs"]}


def test_some_of_them_are_negative_and_some_large():
    read = [value for op, name, value in ends() if builds(steps_of(op, {name: value}, ending_of(op)))]
    numbers = [value for value in read if not isinstance(value, str)]
    assert min(numbers) == -1e30 and max(numbers) == 1e30 and 65536 in numbers
