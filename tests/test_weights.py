"""Weights from outside: names, what does not fit, constants, and the padding they were trained with."""

import dataclasses

import madeup
import models
import numpy as np
import pytest
import safetensors.numpy
from rankers import FIELDS, small_graph, small_ranker, small_wide
from refusals import refuses

import tpugraphs as tg
from tpugraphs.network import weights
from tpugraphs.preprocess import padding
from tpugraphs.recipes import get_recipe

SIZES = {"width": 16, "gate_reduction": 8, "blocks": 2}
RECIPES = ("first-layout", "first-layout-cross")


def padded(seed=0, value=-1, **kw):
    """A graph whose lists are padded with -1, as the first place made them."""
    graph = small_graph(seed, **kw)
    feat = graph.node_feat.copy()
    feat[:, padding.COLUMNS] = value
    feat[:4, 31] = [0, 1, 2, 3]
    return graph.replace(node_feat=feat)


def constants(seed=0):
    rng = np.random.default_rng(seed)
    std = rng.uniform(0.5, 2, 134)
    std[5] = 0
    return rng.normal(size=134), std


def published(recipe="first-layout-cross", seed=3, prefix="", **fields):
    """Random weights by published name."""
    ranker = tg.Ranker(recipe, seed=seed, **{**SIZES, **fields})
    rng = np.random.default_rng(seed)
    shapes = {name: () if "temperature" in name else view.shape for name, view in ranker.parameters.items()}
    return {
        prefix + weights.published_name(get_recipe(recipe), name): np.array(
            rng.uniform(0.1, 0.5, shape), np.float32
        )
        for name, shape in shapes.items()
    }


@pytest.mark.parametrize("recipe", RECIPES)
def test_names_are_those_of_the_published_model(recipe):
    ranker = tg.Ranker(recipe, preset="full")
    ours = {name: weights.published_name(get_recipe(recipe), name) for name in ranker.parameters}
    assert ours == models.torch_names(2, recipe.endswith("cross"))
    with pytest.raises(tg.RecipeError, match="no published weights"):
        weights.published_name(get_recipe("first-layout"), "nonsense.weight")


def test_a_recipe_of_ones_own_says_its_published_names():
    known = get_recipe("first-layout")
    own = dataclasses.replace(known, name="own", published=((r"(.*)\.(\w+)", r"net_of_\1.\2"),))
    theirs = published("first-layout")
    given = {
        f"net_of_{name}": theirs[weights.published_name(known, name)]
        for name in tg.Ranker(known, **SIZES).parameters
    }
    ranker = tg.Ranker.from_torch(given, own, scaler=constants(), **SIZES)
    assert all((view == given[f"net_of_{name}"]).all() for name, view in ranker.parameters.items())
    with pytest.raises(tg.CheckpointError, match="missing: net_of_"):
        tg.Ranker.from_torch(theirs, own, scaler=constants(), **SIZES)


@pytest.mark.parametrize("recipe", RECIPES)
def test_weights_and_constants_arrive(recipe, tmp_path):
    given, (mean, std) = published(recipe), constants()
    ranker = tg.Ranker.from_torch(given, scaler=(mean, std), **SIZES)
    assert ranker.recipe == recipe and ranker.fitted and ranker.preset == "full"
    for name, view in ranker.parameters.items():
        np.testing.assert_array_equal(
            view.ravel(), given[weights.published_name(get_recipe(recipe), name)].ravel()
        )
    learnt = ranker.pipeline.tensors()
    np.testing.assert_array_equal(learnt["scaler.mean"], mean)
    np.testing.assert_allclose(learnt["scaler.m2"], np.where(std == 0, 1, std) ** 2, rtol=1e-15)
    graph = padded()
    scores = ranker.predict(graph)
    ranker.save(tmp_path / "r.safetensors")
    again = tg.Ranker.load(tmp_path / "r.safetensors")
    assert (again.predict(graph) == scores).all() and again.pipeline.node_padding == -1
    safetensors.numpy.save_file(given, tmp_path / "w.safetensors")
    fromfile = tg.Ranker.from_torch(tmp_path / "w.safetensors", recipe, scaler=(mean, std), **SIZES)
    assert (fromfile.predict(graph) == scores).all()


@pytest.mark.parametrize("prefix", ["module.", "model.", "_orig_mod.", "model._orig_mod.module.", "net."])
def test_prefixes_of_wrappers_are_dropped(prefix):
    given = published(prefix=prefix)
    ranker = tg.Ranker.from_torch(given, scaler=constants(), **SIZES)
    np.testing.assert_array_equal(ranker.parameters["head.bias"], given[prefix + "classifier.bias"])


def test_half_precision_is_widened(tmp_path):
    given = {name: array.astype(np.float16) for name, array in published().items()}
    safetensors.numpy.save_file(given, tmp_path / "w.safetensors")
    ranker = tg.Ranker.from_torch(tmp_path / "w.safetensors", scaler=constants(), **SIZES)
    np.testing.assert_array_equal(ranker.parameters["head.weight"], given["classifier.weight"])


def test_all_that_does_not_fit_is_named_at_once():
    given = published()
    del given["classifier.bias"], given["convs.1.conv.lin_l.bias"]
    given["linear.linear.weight"] = given["linear.linear.weight"][:, :-1]
    given["scheduler.step"] = np.zeros(1, np.float32)
    with pytest.raises(tg.CheckpointError) as caught:
        tg.Ranker.from_torch(given, scaler=constants(), **SIZES)
    for part in (
        "first-layout-cross",
        "missing: convs.1.conv.lin_l.bias, classifier.bias",
        "not expected: scheduler.step",
        "linear.linear.weight (8, 245) instead of (8, 246)",
    ):
        assert part in str(caught.value)
    with pytest.raises(tg.CheckpointError, match=r"and \d+ others"):
        tg.Ranker.from_torch(given, scaler=constants())  # of another width


def test_values_that_are_no_weights(tmp_path):
    given = published()
    for name, value, *names in (
        ("classifier.bias", np.array([np.nan], np.float32), "classifier.bias", "NaN"),
        ("classifier.bias", np.array([1]), "classifier.bias", "int64"),
        ("classifier.bias", np.array([1e300]), "classifier.bias", "infinity"),
        ("module.classifier.bias", given["classifier.bias"], "twice"),
        ("state_dict", {}, "state_dict", "dict"),
    ):
        both = {**given, name: value}
        refuses(lambda: tg.Ranker.from_torch(both, scaler=constants(), **SIZES), tg.CheckpointError, *names)
    safetensors.numpy.save_file({"step": np.zeros(1, np.int64)}, tmp_path / "w.safetensors")
    with pytest.raises(tg.CheckpointError, match="step.*found I64"):
        tg.Ranker.from_torch(tmp_path / "w.safetensors", scaler=constants())


def test_pickles_are_never_loaded(tmp_path):
    for start in (b"PK\x03\x04", b"\x80\x02\x8a\n"):
        (tmp_path / "w.pt").write_bytes(start + b"x" * 100)
        with pytest.raises(tg.CheckpointError, match=r"pickle.*weights-from-outside"):
            tg.Ranker.from_torch(tmp_path / "w.pt", scaler=constants())
    (tmp_path / "w.pt").write_bytes(b"x" * 100)
    refuses(lambda: tg.Ranker.from_torch(tmp_path / "w.pt", scaler=constants()), tg.CheckpointError, "header")
    with pytest.raises(FileNotFoundError):
        tg.Ranker.from_torch(tmp_path / "no.safetensors", scaler=constants())
    refuses(lambda: tg.Ranker.from_torch(3), tg.ConfigError, "path", "3")


def test_constants_are_given_or_fitted():
    given, graphs = published(), [padded(1), padded(2)]
    fitted = tg.Ranker.from_torch(given, graphs=graphs, **SIZES)
    one = tg.Ranker.from_torch(given, graphs=graphs[0], **SIZES)
    own = small_ranker(steps=1)
    own.fit(graphs, verbose=False)
    of_one, of_two, of_fit = (r.pipeline.tensors() for r in (one, fitted, own))
    np.testing.assert_array_equal(of_two["scaler.mean"], of_fit["scaler.mean"])
    assert of_one["scaler.count"] < of_two["scaler.count"]
    mean, std = constants()
    for wrong, *names in (
        ({}, "constants"),
        ({"scaler": (mean, std), "graphs": graphs}, "constants"),
        ({"scaler": mean}, "pair"),
        ({"scaler": (mean[:-1], std)}, "mean:", "134"),
        ({"scaler": (mean, -std)}, "std:", "134"),
        ({"scaler": (mean * np.nan, std)}, "mean:", "134"),
        ({"scaler": (mean, std), "node_padding": 1}, "node_padding", "-1, 0"),
    ):
        refuses(lambda: tg.Ranker.from_torch(given, **wrong, **SIZES), tg.ConfigError, *names)
    refuses(lambda: tg.Ranker.from_torch(given, "second"), tg.RecipeError)


def test_graphs_padded_otherwise_are_refused(tmp_path):
    given, plain = published(), small_graph()
    assert padding.padding_of(plain) == 0 and padding.padding_of(padded()) == -1
    assert all(padding.padding_of(madeup.graph(name)) == 0 for name in madeup.NAMES)
    ranker = tg.Ranker.from_torch(given, scaler=constants(), **SIZES)
    ranker.save(tmp_path / "r.safetensors")
    for r in (ranker, tg.Ranker.load(tmp_path / "r.safetensors")):
        with pytest.raises(tg.DataError, match=r"padded with -1 .* padded with 0; .*\.pb files") as caught:
            r.predict(plain)
        assert caught.value.field == "node_feat" and caught.value.expected == "padding -1"
        refuses(lambda: r.partial_fit(plain, [0, 1]), tg.DataError, "padded with 0")
        assert np.isfinite(r.partial_fit(padded(), np.arange(8)))
    refuses(lambda: tg.Ranker.from_torch(given, graphs=plain, **SIZES), tg.DataError, "padded with 0")
    published_data = tg.Ranker.from_torch(given, scaler=constants(), node_padding=0, **SIZES)
    assert published_data.predict(plain).shape == (96,)
    refuses(lambda: published_data.predict(padded()), tg.DataError, "published")


def test_rankers_trained_here_ask_for_nothing():
    ranker = small_ranker(steps=1)
    ranker.fit(small_graph(), verbose=False)
    assert ranker.pipeline.node_padding is None and len(ranker.pipeline.steps) == 4
    ranker.predict(padded())


def test_a_wrong_padding_in_a_file_is_refused(tmp_path):
    ranker, path = tg.Ranker.from_torch(published(), scaler=constants(), **SIZES), tmp_path / "r.safetensors"
    for value in (2, True, -1.0, None):
        ranker.pipeline.steps[-1]["value"] = value
        ranker.save(path)
        refuses(lambda: tg.Ranker.load(path), tg.CheckpointError, "preprocessing")


def test_sizes_are_fields():
    given = published("first-layout", width=24, blocks=1, gate_reduction=4)
    with pytest.raises(tg.CheckpointError, match="do not fit"):
        tg.Ranker.from_torch(given, scaler=constants(), **SIZES)
    ranker = tg.Ranker.from_torch(given, scaler=constants(), **{**FIELDS, "width": 24, "blocks": 1})
    assert ranker.fields.blocks == 1


def test_the_tile_model(tmp_path):
    given, rng = published("first-tile"), np.random.default_rng(0)
    graph = madeup.graph("kernel_00")
    configs = rng.normal(size=24), rng.uniform(1, 2, 24)
    ranker = tg.Ranker.from_torch(given, scaler=constants(), config_scaler=configs, **SIZES)
    assert ranker.recipe == "first-tile" and np.isfinite(ranker.predict(graph)).all()
    for name, view in ranker.parameters.items():
        there = given[weights.published_name(get_recipe("first-tile"), name)]
        if name == "head1.weight":  # [config, maximum, mean] there
            there = np.hstack([there[:, 32:], there[:, 16:32], there[:, :16]])
        np.testing.assert_array_equal(view.ravel(), there.ravel())
    ranker.save(tmp_path / "r.safetensors")
    assert (tg.Ranker.load(tmp_path / "r.safetensors").predict(graph) == ranker.predict(graph)).all()
    assert tg.Ranker.from_torch(given, graphs=[graph], **SIZES).fitted
    other = {
        name.replace("dense_cfg.", "cfg.").replace("dense.", "head."): array for name, array in given.items()
    }
    other["head.0.weight"] = np.hstack(np.hsplit(other["head.0.weight"], 3)[::-1])
    renamed = tg.Ranker.from_torch(
        other, scaler=constants(), config_scaler=configs, rename={"cfg.": "config_mlp."}, **SIZES
    )
    assert (renamed.predict(graph) == ranker.predict(graph)).all()
    assert weights.read_weights({"w": np.ones(1)}, {"": "head."})[0].keys() == {"head.w"}
    for wrong in ({"scaler": constants()}, {"config_scaler": configs}):
        with pytest.raises(tg.ConfigError, match="scaler=.*config_scaler="):
            tg.Ranker.from_torch(given, **wrong, **SIZES)
    feat = graph.node_feat.copy()
    feat[:, padding.COLUMNS] = -1
    with pytest.raises(tg.DataError, match="padded with 0.*padded with -1"):
        ranker.predict(graph.replace(node_feat=feat))
    either = tg.Ranker.from_torch(given, scaler=constants(), config_scaler=configs, node_padding=-1, **SIZES)
    assert either.node_padding is None and (either.predict(graph) != ranker.predict(graph)).any()
    assert np.isfinite(either.predict(graph.replace(node_feat=feat))).all()


OTHERS = [name for name in tg.list_recipes() if get_recipe(name).published and not name.startswith("first")]


def theirs_of(array, order):
    """An array as it is published: row and column i of ours is that number `order` of theirs."""
    for axis, name in enumerate(("rows", "columns")):
        if name in order:
            array = np.take(array, np.argsort(order[name]), axis)
    return array


@pytest.mark.parametrize("recipe", OTHERS)
def test_weights_of_other_solutions(recipe, tmp_path):
    known = get_recipe(recipe)
    ranker = tg.Ranker(recipe, preset="full", seed=1, **known.published_fields)
    order = known.published_order(ranker.fields)
    given = {
        weights.published_name(known, name): theirs_of(view, order.get(name, {}))
        for name, view in ranker.parameters.items()
    }
    given = {name: array.T if name.endswith("/kernel") else array for name, array in given.items()}
    assert len(given) == len(ranker.parameters) and set(order) <= set(ranker.parameters)
    rng, scalers = np.random.default_rng(0), {}
    if recipe.startswith(("sixth", "official")):
        scalers["scaler"] = rng.normal(size=140), rng.uniform(1, 2, 140)
    if recipe in ("sixth-tile", "official-tile"):
        scalers["config_scaler"] = rng.normal(size=24), rng.uniform(1, 2, 24)
    if recipe.startswith("sixth"):
        given |= {
            "node_feat_std": np.ones((1, 140)),
            "early_mlp.1.bias": np.ones(256),
            "norm.3.weight": np.ones(256),
        }
    if recipe == "seventh-gst":
        scalers["scaler"] = rng.normal(size=140), rng.uniform(1, 2, 140)
    if recipe == "sixth-tile":
        given["config_feat_mean"] = np.ones((1, 24))
    if recipe == "fifth-tile":  # has the names and shapes of fifth-dimension
        assert tg.Ranker.from_torch(given).recipe == "fifth-dimension"
    chosen = {"recipe": recipe} if recipe == "fifth-tile" else {}
    read = tg.Ranker.from_torch(given, **chosen, **scalers)
    assert read.recipe == recipe and read.pipeline.node_padding == 0
    for name, view in ranker.parameters.items():
        np.testing.assert_array_equal(read.parameters[name], view)
    graph = madeup.graph("kernel_00") if read.kind == "tile" else small_graph()
    graph = small_wide() if recipe == "third-layout" else graph
    scores = read.predict(graph)
    assert np.isfinite(scores).all() and np.ptp(scores) > 0
    read.save(tmp_path / "r.safetensors")
    assert (tg.Ranker.load(tmp_path / "r.safetensors").predict(graph) == scores).all()
    with pytest.raises(tg.CheckpointError, match="not expected: early_mlp.9"):
        tg.Ranker.from_torch({**given, "early_mlp.9": np.ones(2)}, recipe, **scalers)
    if not scalers:
        with pytest.raises(tg.ConfigError, match="needs no constants"):
            tg.Ranker.from_torch(given, recipe, scaler=constants())


def test_a_trainable_scale_was_never_published():
    with pytest.raises(
        tg.RecipeError, match="no published weights are known for its scale.weight, with these"
    ):
        tg.Ranker.from_torch({"early_mlp.0.weight": np.ones((2, 2))}, trainable_scale=True)


def test_old_files_that_ask_for_0_keep_their_layout(tmp_path):
    """They were written when layout columns were padded with -1 always."""
    given, graph = published(), small_graph()
    new = tg.Ranker.from_torch(given, scaler=constants(), node_padding=0, **SIZES)
    old = tg.Ranker.from_torch(given, scaler=constants(), node_padding=0, **SIZES)
    del next(step for step in old.pipeline.steps if step["step"] == "layout-digits")["padding"]
    old.save(tmp_path / "r.safetensors")
    old = tg.Ranker.load(tmp_path / "r.safetensors")
    assert (old.predict(graph) != new.predict(graph)).any()
    feat = graph.node_feat.copy()
    feat[:, 134:] = tg.kernels.layout_digits(feat)
    assert (old.predict(graph) == new.predict(graph.replace(node_feat=feat))).all()


def test_tensors_are_read_or_refused_as_the_bridge_does():
    torch = pytest.importorskip("torch", reason="needs PyTorch")
    given = {name: torch.from_numpy(array).bfloat16() for name, array in published().items()}
    given = {name: tensor.requires_grad_() for name, tensor in given.items()}
    ranker = tg.Ranker.from_torch(given, scaler=constants(), **SIZES)
    for name, view in ranker.parameters.items():
        theirs = given[weights.published_name(ranker.network.recipe, name)]
        assert np.array_equal(view, theirs.detach().float().numpy().reshape(view.shape)), name
    name = next(name for name in given if given[name].ndim == 2)
    freed = torch.ones(given[name].shape)
    freed.untyped_storage().resize_(0)
    with pytest.raises(tg.CheckpointError, match=f"{name}.*storage was freed"):
        tg.Ranker.from_torch({**given, name: freed}, scaler=constants(), **SIZES)
