"""A model over per-dimension tokens: whole gradients, digits, dropout, and rows that are computed only once."""

import cases
import models
import numpy as np
import pytest
from cases import distance
from models import HINGE, named, step
from operators.encoder_layer import GRADIENTS, Layer, arguments
from reference import losses, rng
from reference import model as ref_model
from reference.cells import unique_cells
from refusals import refuses

import tpugraphs as tg
from tpugraphs import _core

COLUMNS = 60
WIDTH = 8


def token_model(norm="post", dropout=0.0, width=WIDTH, layers=2):
    """Tokens, two encoder layers, mean; at the configurable nodes of a layer, elsewhere the nodes' own rows."""
    columns = {"column": COLUMNS - 18, "groups": 6, "step": 6}  # features of a dimension, and its places
    steps = [
        step("cell_columns", "columns", "node_feat", "c"),
        step("dimension_tokens", "tokens", "c", "t0", cols=width, act="relu", number=True, **columns),
    ]
    steps += [
        step(
            "encoder_layer",
            f"encoder{i}",
            f"t{i}",
            f"t{i + 1}",
            heads=2,
            hidden=12,
            norm=norm,
            dropout=dropout,
        )
        for i in range(layers)
    ]
    return [
        *steps,
        step("pool_tokens", "pool_tokens", f"t{layers}", "unique"),
        step("gather_unique", "gather", "unique", "cells"),
        step("linear", "nodes", "node_feat", "h", out=width, act="gelu"),
        step("take_config_nodes", "taken", "h", "own"),
        step("put_config_nodes", "back", "own h", "same"),  # h, taken apart and put together
        step("put_config_nodes", "put", "cells same", "x"),
        step("sage", "sage", "x", "y", out=width, direction="both"),
        step("take_config_nodes", "take", "y", "z"),
        step("put_config_nodes", "put2", "z", "w"),  # zeros elsewhere
        step("pool", "pool", "w", "pooled", kind="mean+max"),
        step("linear", "head", "pooled", "scores", out=1),
    ]


def graph_arrays(seed=0, nodes=23, configs=9, k=14, kinds=6, settings=4):
    """A graph with nodes that are alike and configs that repeat: most cells equal another."""
    rng = np.random.default_rng(seed)
    arrays = models.graph_arrays(nodes, configs, k, COLUMNS, seed)
    like = rng.integers(0, kinds, nodes)
    for name in ("node_feat", "node_opcode"):
        arrays[name] = arrays[name][like]
    arrays["node_opcode"][:3] += 1  # same features, another opcode: not alike
    arrays["digits"] = layouts(rng, settings)[rng.integers(0, settings, (configs, k))]
    return arrays


def layouts(rng, count):
    """(count,18): of each tensor a permutation of its first dimensions."""
    rank = rng.integers(0, 7, (count, 3))
    out = np.full((count, 3, 6), -1, np.int8)
    for at in np.ndindex(count, 3):
        out[at][: rank[at]] = rng.permutation(rank[at])
    return out.reshape(count, 18)


def relative(got, expected):
    return np.linalg.norm(np.asarray(got, np.float64) - expected) / np.linalg.norm(expected)


def made(seed=3, **options):
    model = models.Trained(token_model(**options), seed, COLUMNS)
    models.randomize(model, seed)
    return model


def reference(model, steps, arrays, chosen, runtimes):
    params = {name: value.astype(np.float64) for name, value in named(model).items()}
    loss = lambda s: losses.pairwise_hinge(s, runtimes, 1.0)  # noqa: E731
    return ref_model.scores_and_gradients(steps, params, arrays, chosen, loss)


# ---- whole models ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize(
    "shape", [{}, {"nodes": 5, "k": 5, "kinds": 1}, {"k": 0}, {"configs": 3, "k": 1}, {"configs": 1}]
)
def test_scores_loss_and_gradients_equal_the_reference(norm, shape):
    arrays, model = graph_arrays(**shape), made(norm=norm)
    chosen = np.array([0, 0, len(arrays["digits"]) - 1, *range(len(arrays["digits"]))], np.int64)
    runtimes = np.random.default_rng(1).integers(1, 10**6, len(chosen))
    scores, value, grads = reference(model, token_model(norm), arrays, chosen, runtimes)
    one = (_core.ModelGraph(**arrays), chosen)
    assert np.abs(model.scores([one])[0] - scores).max() <= 1e-5 * np.abs(scores).max()
    loss, _ = model.gradients([one], [runtimes])
    assert loss == pytest.approx(value, rel=1e-5)
    everything = np.concatenate([grads[name].ravel() for name, _, _ in model.layout])
    top = max(np.linalg.norm(everything), 1e-2)
    for name, gradient in grads.items():
        scale = max(np.linalg.norm(gradient), 1e-2 * top)
        assert np.linalg.norm(named(model, "grads")[name] - gradient) <= 1e-4 * scale + 1e-6, name
    assert np.linalg.norm(model.grads - everything) <= 2e-5 * top + 1e-6


def test_training_stays_with_the_reference():
    """Plain gradient descent on both sides, from the same weights."""
    arrays, model = graph_arrays(5, configs=24, settings=8), made(5)
    chosen = models.rows(24)
    runtimes = np.argsort(np.argsort(arrays["digits"].astype(np.int64)[:, :, ::5].sum((1, 2))))
    params = {name: value.astype(np.float64) for name, value in named(model).items()}
    one, seen = (_core.ModelGraph(**arrays), chosen), []
    loss = lambda s: losses.pairwise_hinge(s, runtimes, 1.0)  # noqa: E731
    for number in range(1, 13):
        _, value, grads = ref_model.scores_and_gradients(token_model(), params, arrays, chosen, loss)
        params = {name: value_ - 0.2 * grads[name] for name, value_ in params.items()}
        got, _ = model.gradients([one], [runtimes])
        model.update({"kind": "sgd", "lr": 0.2, "momentum": 0.0, "step": number})
        assert got == pytest.approx(value, rel=1e-4), number
        seen.append(got)
    assert seen[-1] < 0.95 * seen[0]
    for name, value_ in named(model).items():
        assert np.linalg.norm(value_ - params[name]) <= 1e-4 * max(np.linalg.norm(params[name]), 1e-2), name


def test_bits_do_not_depend_on_threads():
    arrays = graph_arrays(2, nodes=150, configs=40, k=120, kinds=100, settings=30)
    runtimes, results = np.arange(40), []
    for threads in (1, 2, 3):
        _core.set_num_threads(threads)
        model = made(dropout=0.2)
        model.gradients([(_core.ModelGraph(**arrays), models.rows(40))], [runtimes], loss=HINGE, seed=4)
        results.append(model.grads.tobytes())
    assert len(set(results)) == 1


# ---- what is computed once ------------------------------------------------------------------------------


def many_cells(repeated):
    """300 nodes with 20 configs; of the cells `repeated` repeat others."""
    arrays = graph_arrays(7, nodes=300, configs=20, k=300, kinds=300)
    arrays["node_feat"] = np.random.default_rng(0).normal(size=(300, COLUMNS)).astype(np.float32)
    arrays["digits"] = np.random.default_rng(1).integers(-1, 6, (20, 300, 18)).astype(np.int8)
    if repeated:
        arrays["digits"][2:] = arrays["digits"][np.random.default_rng(2).integers(0, 2, 18)]
    of, at = unique_cells(
        arrays["digits"], arrays["config_nodes"], arrays["node_feat"], arrays["node_opcode"]
    )
    assert of.size == 6000 and len(at) == (600 if repeated else 6000)
    return _core.ModelGraph(**arrays), models.rows(20)


def test_equal_cells_are_encoded_once():
    """Nine of ten cells repeat another: a tenth of the memory, and not much more than a tenth of the time."""
    model, seconds, memory = made(width=64), {}, {}
    for repeated in (False, True):
        one, best = many_cells(repeated), []
        workspace = _core.Workspace()
        model.model.run([one], ["scores"], workspace=workspace)
        memory[repeated] = workspace.memory
        for _ in range(5):
            model.scores([one])
            best.append(sum(s for _, name, s in model.profile if name.startswith("encoder")))
        seconds[repeated] = min(best)
    assert memory[True] < 0.4 * memory[False]
    assert seconds[True] < 0.3 * seconds[False]


def test_configs_with_equal_cells_have_equal_scores_and_order_does_not_matter():
    arrays = graph_arrays(4, settings=3)
    arrays["digits"][5] = arrays["digits"][2]
    model, graph = made(), _core.ModelGraph(**arrays)
    scores = model.scores([(graph, models.rows(9))])[0]
    assert scores[5] == scores[2]
    turned = model.scores([(graph, models.rows(9)[::-1].copy())])[0]
    assert np.allclose(turned[::-1], scores, rtol=1e-5, atol=1e-6)
    alone = [model.scores([(graph, np.array([c]))])[0][0] for c in range(9)]
    assert np.allclose(alone, scores, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("shape", [{}, {"k": 0}, {"configs": 1}])
def test_rows_of_unique_cells_can_be_fetched(shape):
    model, slates = made(), []
    for seed in (0, 1):
        arrays = graph_arrays(seed, **shape)
        slates.append((arrays, (_core.ModelGraph(**arrays), models.rows(len(arrays["digits"])))))
    names = ["t1", "unique", "cells", "scores", "unique_of"]
    got = model.run([one for _, one in slates], names)
    assert list(got) == names
    for i, (arrays, one) in enumerate(slates):
        of, at = unique_cells(
            arrays["digits"], arrays["config_nodes"], arrays["node_feat"], arrays["node_opcode"]
        )
        assert got["unique_of"][i].dtype == np.int32 and np.array_equal(got["unique_of"][i], of)
        assert got["t1"][i].shape == (len(at), 6 * WIDTH) and got["unique"][i].shape == (len(at), WIDTH)
        assert np.array_equal(got["cells"][i], got["unique"][i][of])
        assert np.array_equal(got["scores"][i][:, 0], model.scores([one])[0])
        assert np.array_equal(model.run([one], ["unique"])["unique"][0], got["unique"][i])


def test_numbers_of_unique_cells_are_an_output_of_models_that_have_them():
    one = (_core.ModelGraph(**graph_arrays()), models.rows(9))
    model = made()
    refuses(lambda: model.run([one], ["unique_of", "unique_of"]), ValueError, "'unique_of'", "twice")
    plain = _core.Model([step("linear", "one", "node_feat", "unique_of", out=3)], 0, COLUMNS,
                        outputs=["unique_of"])  # fmt: skip
    assert plain.run([one], ["unique_of"])["unique_of"][0].shape == (23, 3)  # its own slot of that name
    other = _core.Model([step("linear", "one", "node_feat", "y", out=3)], 0, COLUMNS, outputs=["y"])
    refuses(lambda: other.run([one], ["unique_of"]), ValueError, "unique cells")
    with pytest.raises(tg.RecipeError, match="CONFIG_NODE_CONFIG"):
        _core.Model(token_model(), 0, COLUMNS, inputs={"fed": ("UNIQUE", 3)})


# ---- digits ---------------------------------------------------------------------------------------------


def test_digit_gradient_is_the_change_of_a_digit():
    """A place is linear in every digit's one-hot vector: the difference is exact."""
    case = next(c for c in cases.CASES if c.id == "cell_columns-places-only")
    attrs = case.attrs
    arrays = case.arguments()
    rng = np.random.default_rng(3)
    arrays["node_feat"] = rng.normal(size=arrays["node_feat"].shape)  # all cells apart
    arrays["digits"] = np.concatenate([layouts(rng, 7), rng.integers(-1, 6, (7, 18), np.int8)])[
        :, None
    ].repeat(7, 1)
    forward = cases.forward_of("cell_columns")
    y = forward(**arrays, **attrs)
    dy = rng.normal(size=y.shape)
    gradient = cases.backward_of("cell_columns")(dy, **arrays, **attrs)["digits"]
    got = tg.kernels.cell_columns_backward(np.float32(dy), **cases.single(arrays), **attrs)["digits"]
    assert distance(got, gradient) <= 1e-5
    for _ in range(100):
        c, k, j = (int(rng.integers(0, size)) for size in arrays["digits"].shape)
        old, new = int(arrays["digits"][c, k, j]), int(rng.integers(-1, 6))
        changed = arrays["digits"].copy()
        changed[c, k, j] = new
        change = np.sum(dy * (forward(**arrays | {"digits": changed}, **attrs) - y))
        expected = gradient[c, k, j, new + 2] - gradient[c, k, j, old + 2]
        assert change == pytest.approx(expected, rel=1e-9, abs=1e-9)


def test_gradients_of_digits_and_inputs_are_those_of_every_cell():
    """Equal cells count once in the scores, but each has a gradient of its own: as without any equal cell."""
    arrays, model = graph_arrays(6), made()
    dscores = np.random.default_rng(0).normal(size=9).astype(np.float32)
    one = (_core.ModelGraph(**arrays), models.rows(9))
    scores, got = model.input_gradients([one], [dscores], ["digits", "node_feat"])
    assert np.allclose(scores[0], model.scores([one])[0], rtol=1e-6, atol=1e-7)
    assert got["digits"][0].any()
    for c in range(9):  # one config at a time: equal cells at other configs are gone
        _, alone = model.input_gradients([(one[0], np.array([c]))], [dscores[c : c + 1]], ["digits"])
        assert np.allclose(got["digits"][0][c], alone["digits"][0][0], rtol=1e-4, atol=1e-7)
    x = arrays["node_feat"].astype(np.float64)
    v = np.random.default_rng(1).normal(size=x.shape)
    params = {name: value.astype(np.float64) for name, value in named(model).items()}

    def total(h):  # no two nodes are alike any more, and nothing else changes
        moved = arrays | {"node_feat": x + h * v}
        loss = lambda s: (float(s @ dscores), dscores.astype(np.float64))  # noqa: E731
        return ref_model.scores_and_gradients(token_model(), params, moved, models.rows(9), loss)[1]

    slope = (total(1e-6) - total(-1e-6)) / 2e-6
    assert np.sum(got["node_feat"][0] * v) == pytest.approx(slope, rel=1e-3)


# ---- dropout --------------------------------------------------------------------------------------------


def masks(shape, tokens, heads, hidden, p, key):
    """Of every site, from key, node, config and place alone."""
    rows = shape[:-1]
    width = shape[-1] // tokens
    sizes = [heads * tokens * tokens, tokens * width, tokens * hidden, tokens * width]
    items = [(row, 0) for row in range(rows[0])] if len(rows) == 1 else list(np.ndindex(rows))
    names = "attention", "branch1", "hidden", "branch2"
    return {
        name: rng.dropout([rng.key_of(key, a, b, site) for a, b in items], size, p)
        for site, (name, size) in enumerate(zip(names, sizes, strict=True))
    }


@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize("rows", [(37,), (5, 9)])
def test_dropout_is_where_torch_has_it_and_depends_on_key_and_place_only(norm, rows):
    attrs = {"tokens": 6, "heads": 2, "hidden": 20, "act": "gelu", "norm": norm}
    given = {k: v.astype(np.float32) for k, v in arguments(rows, 6, 16, 20)(np.random.default_rng(2)).items()}
    exact = {k: v.astype(np.float64) for k, v in given.items()}
    where = masks(given["x"].shape, 6, 2, 20, 0.3, 11)
    layer = Layer(exact["x"], exact, attrs, where)
    assert all(0.6 < (mask > 0).mean() < 0.8 for mask in where.values())
    options = {"dropout": 0.3, "training": True, "key": 11}
    dy = np.random.default_rng(3).normal(size=given["x"].shape).astype(np.float32)
    expected = {"y": layer.y, **layer.backward(dy.astype(np.float64))}
    for level in _core.isa_levels():
        _core.set_isa(level)
        got = {"y": tg.kernels.encoder_layer(**given, **attrs, **options)}
        got |= tg.kernels.encoder_layer_backward(dy, **given, **attrs, **options)
        assert set(got) == {"y", *GRADIENTS} - {"slope"}
        for name, value in expected.items():
            assert distance(got[name], value) <= 1e-5, (level, name)
    plain = tg.kernels.encoder_layer(**given, **attrs)
    scored = tg.kernels.encoder_layer(**given, **attrs, dropout=0.3)
    assert np.array_equal(plain, scored)  # none outside training


def test_dropout_bits_do_not_depend_on_threads():
    given = {
        k: v.astype(np.float32) for k, v in arguments((900,), 6, 16, 20)(np.random.default_rng(2)).items()
    }
    results = set()
    for threads in (1, 2, 3):
        _core.set_num_threads(threads)
        y = tg.kernels.encoder_layer(**given, heads=4, hidden=20, dropout=0.5, training=True, key=3)
        results.add(y.tobytes())
    assert len(results) == 1


def test_glorot_weights_are_xavier_uniform():
    """As torch.nn.init.xavier_uniform_; biases as torch.nn.Linear has them, those of the attention 0."""
    steps = token_model(width=24)
    for one in steps:
        one["attrs"] |= {"init": "glorot"} if one["op"] in ("dimension_tokens", "encoder_layer") else {}
    for name, value in named(models.Trained(steps, 3, COLUMNS)).items():
        kind = name.partition(".")[2].removeprefix("linear1_").removeprefix("linear2_")
        if name.startswith(("tokens.", "encoder")) and value.ndim == 2:
            bound = np.sqrt(6 / sum(value.shape))
            assert 0.9 * bound < np.abs(value).max() <= bound * (1 + 1e-6), name
        elif name.startswith("encoder") and kind == "bias":
            fan_in = 24 if "linear1" in name else 12
            assert 0.5 < np.abs(value).max() * np.sqrt(fan_in) <= 1 + 1e-6, name
        elif name.startswith("encoder") and "proj_bias" in name:
            assert not value.any()


# ---- what is refused ------------------------------------------------------------------------------------


def test_what_does_not_fit_is_refused():
    for op, attrs, *names in (
        ("encoder_layer", {"tokens": 7}, "60 columns", "7 tokens"),
        ("encoder_layer", {"tokens": 6, "heads": 3}, "10 columns", "3 heads"),
        ("encoder_layer", {"tokens": 65}, "tokens"),
        ("pool_tokens", {"tokens": 7}, "60 columns", "7 tokens"),
        ("cell_columns", {"tokens": 4}, "18 digits", "4"),
        ("dimension_tokens", {"groups": 6}, "columns 21..66", "60"),
    ):
        steps = [step(op, "one", "node_feat", "y", **attrs)]
        refuses(lambda: _core.Model(steps, 0, COLUMNS, outputs=["y"]), tg.RecipeError, *names)
    steps = [
        step("take_config_nodes", "take", "node_feat", "a"),
        step("linear", "b", "node_feat", "b", out=5),
        step("put_config_nodes", "put", "a b", "y"),
    ]
    names = "'rest'", "60 columns", "'x'", "5"
    refuses(lambda: _core.Model(steps, 0, COLUMNS, outputs=["y"]), tg.RecipeError, *names)


def test_a_gradient_too_large_for_caches_is_zero_where_nothing_was_taken():
    """Zeros of 32 MB and more are written past the caches; rows here do not lie on cache lines."""
    nodes, configs, width = 4100, 16, 129
    ids = np.arange(3, nodes, 7, dtype=np.int64)
    x = np.broadcast_to(np.float32(1), (nodes, configs, width)).copy()
    dy = np.random.default_rng(0).normal(size=(len(ids), configs, width)).astype(np.float32)
    dx = np.full_like(x, np.nan)
    tg.kernels.take_config_nodes_backward(dy, x, ids, out={"x": dx})
    assert dx.nbytes > 32 << 20 and np.array_equal(dx[ids], dy)
    dx[ids] = 0
    assert not dx.any()
