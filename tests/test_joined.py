"""Small ops inside models: slots given twice, inputs repeated, values that backward still reads, dropout, refusals."""

import cases
import models
import numpy as np
import pytest
from models import named, step
from reference import model as ref_model
from refusals import refuses

import tpugraphs as tg
from tpugraphs import _core


def example(nodes=40, configs=9, columns=7, seed=0):
    arrays = models.tile_arrays(nodes, configs, columns, seed)
    return arrays, (_core.ModelGraph(**arrays), models.rows(configs))


def head(slot):
    return [
        step("pool", "pool", slot, "pooled", kind="mean"),
        step("linear", "head", "pooled", "scores", out=1),
    ]


def mixed(out=8):
    """A slot of nodes and configs, of nodes, and of configs."""
    return [
        step("linear", "node", "node_feat", "n", out=out, act="tanh"),
        step("linear", "config", "config_feat", "c", out=out),
        step("add", "both", "n c", "b"),
        step("linear", "wide", "b", "h", out=out, act="gelu"),
    ]


TWICE = {
    "attention": [step("linear_attention", "x", "h h h", "y", heads=2)],
    "attention-plain": [step("linear_attention", "x", "h h h", "y", normalise=0)],
    "attention-values": [step("linear_attention", "x", "b h b", "y")],
    "attention-keys": [step("linear_attention", "x", "b h h", "y")],
    "softmax": [step("attention", "x", "h h h", "y", heads=2)],
    "softmax-values": [step("attention", "x", "b h b", "y")],
    "softmax-of-nodes": [step("attention", "x", "h n n", "y", heads=2)],
    "softmax-of-configs": [step("attention", "x", "c n n", "t"), step("add", "z", "t h", "y")],
    "softmax-of-its-config": [step("attention", "x", "c h b", "t"), step("add", "z", "t b", "y")],
    "softmax-kept": [step("attention", "x", "h b h", "a"), step("activation", "z", "a", "y", act="relu")],
    "linformer": [step("linformer", "x", "h h h", "y", heads=2, project=6, bins=12)],
    "linformer-keys": [step("linformer", "x", "b h h", "y", project=6, bins=12)],
    "linformer-of-configs": [
        step("linformer", "x", "c n n", "t", project=6, bins=12),
        step("add", "z", "t h", "y"),
    ],
    "linformer-shared": [
        step("linformer", "x", "n n n", "m", project=6, bins=12),
        step("linformer", "z", "h b h", "t", project=6, bins=12)
        | {"share": {"project_k": "x.project_k", "project_v": "x.project_v"}},
        step("add", "w", "t m", "y"),
    ],
    "gate": [step("gate", "x", "h h h", "y")],
    "gate-of-nodes": [step("gate", "x", "n h c", "y")],
    "gate-unit": [step("gate", "x", "h b", "a"), step("activation", "z", "a", "y", act="relu")],
    "add": [step("add", "x", "h h h", "y")],
    "concat": [step("concat", "x", "h h", "y")],
    "repeated": [step("add", "x", "n h n c", "t"), step("concat", "z", "c t c n", "y")],
    # what a producer still reads is not overwritten with its own gradient
    "kept": [step("linear_attention", "x", "h b h", "a"), step("activation", "z", "a", "y", act="relu")],
    "normed": [step("graph_norm", "x", "h", "a"), step("activation", "z", "a", "y", act="elu")],
    "chain": [
        step("affine", "x", "h", "a", scale=2.0),
        step("layer_norm", "v", "a", "e"),
        step("activation", "z", "e", "f", act="leaky"),
        step("l2_normalise", "w", "f", "y"),
    ],
}


@pytest.mark.parametrize("name", TWICE)
def test_models_equal_the_reference(name):
    arrays, slate = example()
    steps = mixed() + TWICE[name] + head("y")
    model = models.Trained(steps, 3, 7, config_features=24)
    models.randomize(model, 4)
    values = np.linspace(-1, 1, 9)
    weights = {key: value.astype(np.float64) for key, value in named(model).items()}

    def loss(scores):
        return float(np.mean((scores - values) ** 2)), 2 * (scores - values) / scores.size

    scores, _, expected = ref_model.scores_and_gradients(steps, weights, arrays, models.rows(9), loss)
    model.gradients([slate], {"value": [values]}, loss=[{"loss": "mse"}])
    assert cases.distance(model.scores([slate])[0], scores) <= 1e-5
    top = max(np.linalg.norm(g) for g in expected.values())
    for key, got in named(model, "grads").items():
        assert np.linalg.norm(got - expected[key]) <= 1e-4 * max(np.linalg.norm(expected[key]), 1e-2 * top), (
            key
        )


def trained(steps, threads, **options):
    """Bits of the scores and gradients of one pass."""
    _core.set_num_threads(threads)
    _, slate = example(600, 5)
    model = models.Trained(steps, 3, 7, config_features=24)
    values = np.arange(5.0)
    _, (scores,) = model.gradients([slate], {"value": [values]}, loss=[{"loss": "mse"}], **options)
    return np.array(scores), np.array(model.trainer.grads)


@pytest.mark.parametrize("name", TWICE)
def test_same_bits_for_any_thread_count(name):
    one, three = (trained(mixed() + TWICE[name] + head("y"), threads) for threads in (1, 3))
    assert all(a.tobytes() == b.tobytes() for a, b in zip(one, three, strict=True))


def test_partial_sums_of_attention_take_no_more_memory_than_a_few_slots():
    """A share of the gradient of q per chunk, of the phase that has shares, not of one with more chunks."""
    nodes, configs, columns = 4000, 8, 32
    _, slate = example(nodes, configs)
    steps = [*mixed(columns), step("attention", "x", "h n n", "y"), *head("y")]
    used = models.Trained(steps, 3, 7, config_features=24).bytes([slate])
    assert used < 25 * 4 * nodes * configs * columns


def test_dropout_in_a_model_is_that_of_training_alone():
    """Fused into what reads it or not, it drops the same elements forward and backward."""
    steps = [
        *mixed(),
        step("dropout", "drop", "h", "d", p=0.4),
        step("linear", "next", "d", "y", out=6),
        *head("y"),
    ]
    scores, grads = trained(steps, 1, seed=5)
    again, same = trained(steps, 2, seed=5)
    assert scores.tobytes() == again.tobytes() and grads.tobytes() == same.tobytes()
    other, _ = trained(steps, 1, seed=6)
    assert not np.allclose(scores, other)
    _, slate = example(600, 5)
    plain = [s | {"in": ["h"]} if s["name"] == "next" else s for s in steps if s["op"] != "dropout"]
    never = [models.Trained(s, 3, 7, config_features=24) for s in (steps, plain)]
    never[1].model.params[:] = never[0].model.params
    assert np.array_equal(*(model.scores([slate])[0] for model in never))


# ---- refusals ------------------------------------------------------------------------------------------------


def node(out):
    return step("linear", f"to{out}", "node_feat", f"n{out}", out=out)


def test_what_does_not_fit_is_refused():
    three, four, wide = node(3), node(4), node(2048)
    for before, op, slots, attrs, *names in (
        ([three, four], "add", "n3 n4", {}, "3 and 4 columns"),
        ([three], "add", "n3", {}, "2 to 4 inputs"),
        ([three], "concat", "n3 n3 n3 n3 n3", {}, "2 to 4 inputs"),
        ([three], "linear_attention", "n3 n3 n3", {"heads": 2}, "2 heads"),
        ([three, four], "linear_attention", "n3 n4 n3", {}, "q has 3 columns, k has 4"),
        (mixed(3), "linear_attention", "h n h", {}, "q has one row per node and config", "k one per node"),
        ([node(9000)], "linear_attention", "n9000 n9000 n9000", {}, "too wide"),
        (mixed(3), "attention", "n h h", {}, "q has one row per node", "k one per node and config"),
        (mixed(3), "attention", "h h n", {}, "k has one row per node and config", "v one per node"),
        ([three, four], "attention", "n3 n4 n3", {}, "q has 3 columns, k has 4"),
        ([three], "attention", "n3 n3 n3", {"heads": 2}, "2 heads"),
        ([], "attention", "node_feat config_feat config_feat", {}, "one row per node"),
        ([wide], "linformer", "n2048 n2048 n2048", {"bins": 65536}, "65536 bins", "2048 columns"),
        ([three, four], "gate", "n3 n4", {}, "a has 3 columns, x has 4"),
        ([three, four], "gate", "n3 n3 n4", {}, "a has 3 columns, y has 4"),
        ([], "graph_norm", "config_feat", {}, "one row per node"),
        ([three], "activation", "n3 n3", {}, "1 input, got 2"),
        ([three], "activation", "n3", {"act": "swish"}, "act:", "relu"),
        ([three], "dropout", "n3", {"p": 1.0}, "p:"),
        ([three], "affine", "n3", {"learn": "some"}, "learn:", "weight+bias"),
    ):
        steps = [*before, step(op, "x", slots, "y", **attrs), *head("y")]
        refuses(lambda: _core.Model(steps, 0, 7, config_features=24), tg.RecipeError, *names)
    inputs = {"e": ("EDGE", 3), "v": ("NODE", 3), "c": ("CONFIG", 3)}
    pooled = [step("cell_columns", "t", "", "u"), step("pool_tokens", "p", "u", "w", tokens=6)]
    for before, slots, name in (([], "e v", "common"), (pooled, "w c", "configs")):
        steps = [*before, step("add", "x", slots, "y"), *head("y")]
        refuses(lambda: _core.Model(steps, 0, 7, inputs=inputs), tg.RecipeError, name)
