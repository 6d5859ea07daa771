"""Fine-tuning: a fit that begins with another ranker, frozen parameters, rates by layer."""

import numpy as np
import pytest
from rankers import Break, small_any, small_graph, small_ranker, state
from refusals import refuses

import tpugraphs as tg
from tpugraphs.recipes import Recipe, TrainingFields, get_recipe
from tpugraphs.recipes.base import encode
from tpugraphs.training.optimizer import Tuning, parameter_groups

TRAIN, OTHER = [small_graph(0), small_graph(1)], small_graph(5)


@pytest.fixture(scope="module")
def ranker():
    r = small_ranker(dropout=0.0)
    r.fit(TRAIN, verbose=False)
    return r


def tuned(ranker, steps=4, **options):
    r = small_ranker(steps=steps, dropout=0.0)
    r.fit(OTHER, init=ranker, verbose=False, **options)
    return r


def changed(before, after):
    return {
        name for name, old in before.parameters.items() if not np.array_equal(old, after.parameters[name])
    }


@pytest.mark.parametrize("average", ["none", "ema", "swa"])
@pytest.mark.parametrize("optimizer", ["adamw", "adam", "sgd"])
def test_frozen_parameters_keep_their_bits_and_all_others_move(ranker, average, optimizer):
    fields = {
        "average": average,
        "optimizer": optimizer,
        "swa_start": 0.0,
        "swa_every": 1,
        "weight_decay": 0.1,
    }
    r = small_ranker(steps=4, dropout=0.0, **fields)
    r.fit(OTHER, OTHER, init=ranker, freeze=["embedding*", "*.bias"], verbose=False)
    still = {name for name in r.parameters if name.startswith("embedding") or name.endswith(".bias")}
    moved = changed(ranker, r)
    assert still and moved and not still & moved
    assert moved >= {name for name in r.parameters if name.endswith("weight")} - still


def test_frozen_gradients_do_not_clip_the_others(ranker):
    """With a tiny clip the step is the gradient of what is trained, scaled to it: sgd shows the norm."""
    fields = {"optimizer": "sgd", "momentum": 0.0, "clip": 1e-3, "weight_decay": 0.0, "schedule": "constant"}
    r = small_ranker(steps=1, learning_rate=1.0, dropout=0.0, **fields)
    r.fit(OTHER, init=ranker, freeze="[!h]*", verbose=False)
    moved = changed(ranker, r)
    assert moved and all(name.startswith("h") for name in moved)
    step = np.concatenate(
        [(r.parameters[n].astype(np.float64) - ranker.parameters[n]).ravel() for n in moved]
    )
    assert np.linalg.norm(step) == pytest.approx(1e-3, rel=1e-2)


def test_rates_of_layers_are_factors_of_that_of_the_fit(ranker):
    """Plain sgd: a parameter's step is proportional to its rate."""
    fields = {"optimizer": "sgd", "momentum": 0.0, "clip": 1e9, "weight_decay": 0.0, "schedule": "constant"}
    found = []
    for learning_rate, groups in (
        (0.5, []), (0.05, []), (0.05, [{"match": "head.*", "learning_rate": 10.0}, {"match": "*", "learning_rate": 0.5}]),
    ):  # fmt: skip
        r = small_ranker(steps=1, dropout=0.0, **fields)
        r.fit(OTHER, init=ranker, learning_rate=learning_rate, groups=groups, verbose=False)
        assert r.history_.learning_rate == [learning_rate] and r.fields.learning_rate == 3e-3
        found.append({n: r.parameters[n].astype(np.float64) - ranker.parameters[n] for n in r.parameters})
    whole, tenth, layered = found
    for name in whole:
        scale = np.abs(ranker.parameters[name]).max() * 1e-6 + 1e-9
        np.testing.assert_allclose(tenth[name], whole[name] / 10, rtol=1e-3, atol=scale)
        factor = 1 if name.startswith("head.") else 1 / 20
        np.testing.assert_allclose(layered[name], whole[name] * factor, rtol=1e-3, atol=scale)
    assert np.abs(whole["head.weight"]).max() > 0


def test_factors_multiply_those_of_the_recipe_and_decays_replace_them():
    layout = [("a.weight", 0, (3, 2)), ("a.bias", 6, (3,)), ("b.weight", 9, (2, 3)), ("b.bias", 15, (2,))]
    recipe = [{"match": "a.*", "learning_rate": 0.1}, {"match": "*.bias", "weight_decay": 0.0}]
    own = Tuning(
        "b.weight", [{"match": "a.weight", "learning_rate": 3.0}, {"match": "a.*", "weight_decay": 0.5}]
    )
    assert parameter_groups(recipe, layout, 0.2, own.patterns) == [
        (0, 6, pytest.approx(0.3), 0.2), (6, 9, 0.1, 0.5), (9, 15, 0.0, 0.0), (15, 17, 1.0, 0.0),
    ]  # fmt: skip
    assert own.frozen(layout) == [(9, 15)]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"freeze": ["embeding_opcode.weight"]}, "freeze: 'embeding.*did you mean 'embedding"),
        ({"freeze": ["head.*", "head.bias"]}, "freeze: 'head.bias' matches no parameter that an earlier"),
        ({"freeze": "*"}, "some parameter to be left to train"),
        ({"freeze": 3}, "freeze: expected patterns of names of parameters, got 3"),
        ({"freeze": [3]}, "freeze: expected patterns"),
        ({"groups": {"match": "head.*"}}, "groups: expected a list of dicts"),
        ({"groups": [{"match": "head.*"}]}, "groups: expected dicts such as"),
        ({"groups": [{"match": "head.*", "rate": 1.0}]}, "groups: expected dicts such as"),
        ({"groups": [{"match": "head.*", "learning_rate": 1.0, "x": 1}]}, "groups: expected dicts such as"),
        (
            {"groups": [{"match": "head.*", "learning_rate": -1.0}]},
            "groups: learning_rate of 'head.*': expected a number from 0",
        ),
        (
            {"groups": [{"match": "head.*", "weight_decay": np.nan}]},
            "expected a number from 0 to 1e.09, got nan",
        ),
        ({"groups": [{"match": "tail.*", "learning_rate": 2.0}]}, "groups: 'tail.*' matches no parameter"),
        ({"learning_rate": -1.0}, "learning_rate must be a number in"),
        ({"learning_rate": "much"}, "learning_rate must be a number in"),
    ],
)
def test_what_makes_no_sense_is_refused_and_changes_nothing(ranker, options, words):
    before = state(ranker)
    with pytest.raises(tg.ConfigError, match=words):
        ranker.fit(OTHER, init=ranker, verbose=False, **options)
    assert state(ranker) == before and ranker.fitted


def test_trees_have_no_parameters_to_freeze():
    name = next(n for n in tg.list_recipes() if get_recipe(n).estimator == "trees")
    for options in (
        {"freeze": "a"},
        {"learning_rate": 0.1},
        {"groups": [{"match": "a", "learning_rate": 1.0}]},
    ):
        refuses(lambda: tg.Ranker(name).fit(TRAIN, verbose=False, **options), tg.Error, "network")


def test_it_resumes_to_the_same_bits_and_refuses_another_tuning(ranker, tmp_path):
    how = {
        "freeze": ["embedding*"],
        "groups": [{"match": "head.*", "learning_rate": 3.0}],
        "learning_rate": 1e-3,
    }
    straight = tuned(ranker, **how, callbacks=[Break()])
    options = {"checkpoint_dir": tmp_path, "checkpoint_every": 1}
    with pytest.raises(OSError, match="broken"):
        tuned(ranker, **how, callbacks=[Break(2)], **options)
    for other, field in (
        ({"freeze": ()}, "freeze"), ({"groups": ()}, "groups"), ({"learning_rate": 2e-3}, "field learning_rate"),
    ):  # fmt: skip
        with pytest.raises(tg.CheckpointError) as error:
            tuned(ranker, **{**how, **other}, callbacks=[Break()], **options)
        assert error.value.field == field
    assert state(tuned(ranker, **how, callbacks=[Break()], **options)) == state(straight)


def test_a_schema_of_ones_own_is_tuned_too():
    r = tg.Ranker("graph-config", steps=5)
    r.fit([small_any(0), small_any(1)], verbose=False)
    new = tg.Ranker("graph-config", steps=5)
    new.fit(small_any(2), init=r, freeze=["nodes.*", "sage*"], learning_rate=1e-3, verbose=False)
    moved = changed(r, new)
    assert "head.weight" in moved and not {n for n in moved if n.startswith(("nodes", "sage"))}


def test_the_parts_of_a_recipe_that_it_covers_are_no_error():
    recipe = Recipe(
        name="covered", summary="One layer.", options=TrainingFields, kind="graph",
        steps=lambda fields, sizes: [{"op": "linear", "name": "head", "in": ["config_feat"], "out": "scores", "attrs": {"out": 1}}],
        preprocessing=lambda fields, schema: [encode(schema)],
        groups=lambda fields: [{"match": "head.weight", "learning_rate": 0.5}],
    )  # fmt: skip
    r = tg.Ranker(recipe, steps=2)
    r.fit(small_any(), freeze="head.weight", verbose=False)
    assert r.fitted
