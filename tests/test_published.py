"""Presets as the published code trains, and weights that it was trained with."""

import dataclasses
import itertools
import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from rankers import small_graph, small_ranker, small_tile

import tpugraphs as tg
from tpugraphs.recipes import get_recipe
from tpugraphs.training.optimizer import Optimizer

GUIDE = Path(__file__).parents[1] / "docs" / "weights-from-outside.md"


class Visits(tg.training.Callback):
    """Notes the graphs and rows of every visit."""

    def __init__(self):
        self.taken = []

    def on_fit_begin(self, fit):
        real = fit._next_slate

        def note():
            index, (prepared, rows, *moved) = real()
            self.taken.append((prepared.name, rows, prepared.num_configs))
            return index, (prepared, rows, *moved)

        fit._next_slate = note


def visits(graphs, **fields):
    noted = Visits()
    small_ranker(**fields).fit(graphs, verbose=False, callbacks=[noted])
    return noted.taken


# ---- how slates are drawn ----


def test_slates_with_replacement_are_full_and_train():
    taken = visits(small_graph(configs=9), config_sampling="replacement", configs=16, steps=30, dedup="none")
    assert all(rows.size == 16 and rows.max() < count for _, rows, count in taken)
    assert len({tuple(rows) for _, rows, _ in taken}) == 30
    even = visits(small_graph(configs=9), configs=16, steps=5, dedup="none")
    assert all(len(set(rows)) == rows.size <= 9 for _, rows, _ in even)


def test_graphs_come_in_proportion_to_their_slates():
    graphs = [small_graph(i, configs=n, name=f"g{n}") for i, n in enumerate((20, 50, 190))]
    graphs.append(small_graph(9, configs=5, name="few"))
    steps = 320
    taken = visits(
        graphs, graph_sampling="slates", configs=16, steps=steps, dedup="none", evaluate_every=1000
    )
    slates = {"g20": 1, "g50": 3, "g190": 11, "few": 1}
    seen = Counter(name for name, _, _ in taken)
    for name, count in slates.items():
        assert seen[name] == pytest.approx(steps * count / 16, abs=8), name
    assert {rows.size for name, rows, _ in taken if name == "few"} == {5}


def test_validation_after_every_visit_of_all_graphs_and_its_stop():
    train, valid = [small_graph(i) for i in range(5)], [small_graph(7)]
    ranker = small_ranker(evaluate_every=0, slates=2, epochs=4, steps=None)
    history = ranker.fit(train, valid, verbose=False).history_
    assert history.valid_steps == [3, 6, 9, 10]  # 5 graphs by 2 are 3 steps
    still = small_ranker(evaluate_every=0, slates=2, epochs=40, steps=None, stop_after=2, learning_rate=0.0)
    history = still.fit(train, valid, verbose=False).history_
    assert history.valid_steps == [3, 6, 9] and len(history.loss) == 9


def test_ordered_pairs_may_choose_the_best_weights():
    valid = [small_graph(7)]
    ranker = small_ranker(metric="opa", steps=4, evaluate_every=2, valid_configs=10**6)
    history = ranker.fit([small_graph(0)], valid, verbose=False).history_
    report = ranker.evaluate(valid)
    assert history.best_metric == pytest.approx(report.rows[0].values["opa"]) and ranker.metric == "opa"


# ---- second place ----


def second(recipe, **fields):
    return tg.Ranker(recipe, preset="full", first=8, width=8, layers=1, stages=1, **fields)


@pytest.mark.parametrize("recipe", ["second-xla", "second-tile", "second-nlp"])
def test_second_trains_as_its_code_did(recipe):
    found = get_recipe(recipe)
    f = found.fields("full")
    assert f.config_sampling == "replacement" and f.weight_decay == 0
    if recipe == "second-nlp":
        assert (f.optimizer, f.eps, f.clip, f.head_decay, f.negative) == ("adamw", 1e-6, 100, 1e-4, "signed")
    else:
        assert (f.optimizer, f.eps, f.head_decay, f.negative, f.pairs) == ("adam", 1e-8, 0, "zero", "all")
        assert f.clip >= 1e9  # theirs clips only what it logs
    cpu = found.fields("cpu")
    assert (cpu.config_sampling, cpu.negative, cpu.pairs) == ("even", "signed", "ordered")


@pytest.mark.parametrize(("recipe", "margin"), [("second-xla", 1e-2), ("second-tile", 0.1)])
def test_the_hinge_of_second_is_the_mean_over_all_pairs_of_drawn_slates(recipe, margin):
    """The published loss in NumPy, by whose slope the gradient is judged; equal runtimes cost a margin each."""
    torch = pytest.importorskip("torch")
    tile = recipe == "second-tile"
    ranker = second(recipe, seed=1)
    graphs = [(small_tile if tile else small_graph)(i) for i in range(2)]
    count, rng = ranker.fields.configs, np.random.default_rng(0)
    ranker.fit(graphs, steps=1, verbose=False)
    ranker.model.params[:] *= 3
    chosen = [(ranker.network.prepare(graph), rng.integers(0, 6, count)) for graph in graphs]
    scores = [torch.tensor(ranker.network.score_rows(*one), requires_grad=True) for one in chosen]
    total = 0.0
    for (prepared, rows), s in zip(chosen, scores, strict=True):
        y = torch.tensor(np.asarray(prepared.times[rows], np.float64) * (1 if tile else 1e-9))
        pairs = list(itertools.combinations(range(count), 2))
        i, j = map(list, zip(*pairs, strict=True))
        sign = torch.sign(y[i] - y[j])
        assert (sign == 0).any()  # drawn twice
        apart = torch.nn.functional.margin_ranking_loss(
            s[i].double(), s[j].double(), sign, margin, reduction="none"
        )
        total = total + (apart * (sign != 0)).mean() / (1 if tile else margin) / len(chosen)
        if not tile:
            total = total + ((s - y).abs() / y.abs()).mean() / len(chosen)
    got = Optimizer(ranker.network).gradients(1, chosen)
    assert got == pytest.approx(total.item(), rel=1e-5)
    slopes = torch.autograd.grad(total, scores)
    ours = ranker.trainer.grads.astype(np.float64).copy()
    start, step = ranker.model.params.copy(), 1e-3 / np.linalg.norm(ours)
    ends = []
    for h in (step, -step):
        ranker.model.params[:] = start + h * ours
        ends.append(
            sum(
                float(d.double().numpy() @ ranker.network.score_rows(*one))
                for d, one in zip(slopes, chosen, strict=True)
            )
        )
    assert (ends[0] - ends[1]) / (2 * step) == pytest.approx(ours @ ours, rel=0.02)


@pytest.mark.parametrize("recipe", ["second-xla", "second-tile", "second-nlp"])
def test_weights_of_second_see_negative_features_as_in_their_training(recipe):
    given = {
        get_name(recipe, name): np.array(view)
        for name, view in tg.Ranker(recipe, preset="full", seed=2).parameters.items()
    }
    ranker = tg.Ranker.from_torch(given)
    assert ranker.recipe == recipe
    graph = (small_tile if recipe == "second-tile" else small_graph)(0)
    feat = graph.node_feat.copy()
    feat[:, :5] = -np.arange(1.0, 6.0)
    changed = feat.copy()
    changed[:, :5] *= 2
    same = (
        ranker.predict(graph.replace(node_feat=feat)) == ranker.predict(graph.replace(node_feat=changed))
    ).all()
    assert same == (recipe != "second-nlp")
    signed = tg.Ranker.from_torch(given, recipe, negative="signed")
    assert (
        signed.predict(graph.replace(node_feat=feat)) != signed.predict(graph.replace(node_feat=changed))
    ).any()


def get_name(recipe, name):
    return tg.network.weights.published_name(get_recipe(recipe), name)


# ---- sixth place ----


@pytest.mark.parametrize("recipe", ["sixth-layout", "sixth-gin", "sixth-tile"])
def test_sixth_visits_graphs_by_their_slates(recipe):
    assert get_recipe(recipe).fields("full").graph_sampling == "slates"
    assert get_recipe(recipe).fields("cpu").graph_sampling == "even"


# ---- the baselines ----


def leaky(x):
    return np.where(x > 0, x, 0.2 * x)


def dense(w, name, x):
    return x @ w[f"{name}/kernel"] + w.get(f"{name}/bias", 0)


def unit(x):
    return x / np.sqrt(np.maximum((x * x).sum(-1, keepdims=True), 1e-12))


def adjacency(graph, n):
    a = np.zeros((n, n))
    np.add.at(a, (graph.edge_index[:, 1], graph.edge_index[:, 0]), 1)
    return a


def wide(x, configs):
    return np.broadcast_to(x[:, None], (len(x), configs, x.shape[1]))


def tile_scores(w, graph, node, config, variant):
    """What the Keras models compute, with their weights and their order of columns; node (N, F), config (C, T)."""
    join, _, kind = variant.rpartition("-")
    embedded = w["_op_embedding/embedding_layer/embeddings"][graph.node_opcode]
    count, late = len(config), [embedded, node]
    if kind == "mlp":
        x = np.concatenate(
            [
                np.broadcast_to(
                    np.r_[node.sum(0), embedded.sum(0)], (count, node.shape[1] + embedded.shape[1])
                ),
                config,
            ],
            1,
        )
        for i in range(2):
            x = leaky(dense(w, f"_mlp/layer_with_weights-{i}", x))
        return dense(w, "_mlp/layer_with_weights-2", x)[:, 0]
    if join == "early":
        every = np.broadcast_to(config, (len(node), *config.shape))
        x = np.concatenate([wide(embedded, count), every, wide(node, count)], -1)
    else:
        x = wide(np.concatenate(late, 1), 1)
    a = adjacency(graph, len(node))
    if kind == "sage":
        for i in range(3):
            y = np.einsum("uv,vcf->ucf", a + a.T, x)
            x = unit(leaky(dense(w, f"_gnn_layers/{i}/layer_with_weights-0", np.concatenate([y, x], -1))))
    else:
        p = a + np.eye(len(a))
        p /= p.sum(1, keepdims=True)
        x = dense(w, "_prenet/layer_with_weights-1", leaky(dense(w, "_prenet/layer_with_weights-0", x)))
        for i in range(3):
            y = leaky(x)
            y = np.einsum("uv,vcf->ucf", p + p.T + np.eye(len(a)), y)
            name = f"_gc_layers/{i}/0/layer_with_weights-"
            x = x + dense(w, f"{name}1", leaky(dense(w, f"{name}0", y)))
        x = leaky(x)
    x = x.sum(0)
    if join == "late":
        x = np.concatenate([np.broadcast_to(x, (count, x.shape[1])), config], 1)
    last = 2 if kind == "sage" else 1
    for i in range(last):
        x = leaky(dense(w, f"_postnet/layer_with_weights-{i}", x))
    return dense(w, f"_postnet/layer_with_weights-{last}", x)[:, 0]


def layout_scores(w, graph, node, digits):
    """The same for layouts; digits (C, K, P) are scaled to 0..1."""
    n, count = len(node), len(digits)
    config = np.zeros((n, count, digits.shape[2]))
    config[graph.node_config_ids] = 100 * digits.transpose(1, 0, 2)
    embedded = w["_op_embedding/embedding_layer/embeddings"][graph.node_opcode]
    a = adjacency(graph, n)
    a = a + a.T + np.eye(n)
    a = a / np.sqrt(np.outer(a.sum(0), a.sum(0)))
    x = np.concatenate([config, wide(node, count), wide(embedded, count)], -1)
    x = leaky(dense(w, "_prenet/layer_with_weights-1", leaky(dense(w, "_prenet/layer_with_weights-0", x))))
    for i in range(2):
        name = f"_gc_layers/{i}/layer_with_weights-"
        y = np.einsum("uv,vcf->ucf", a, np.concatenate([config, x], -1))
        x = x + leaky(dense(w, f"{name}1", leaky(dense(w, f"{name}0", y))))
    pooled = [x.mean(0), unit(x.sum(0)), unit(x[graph.node_config_ids].sum(0))]
    y = leaky(dense(w, "_postnet/layer_with_weights-0", np.concatenate(pooled, -1)))
    return dense(w, "_postnet/layer_with_weights-1", y)[:, 0]


def keras(sizes, opcodes, seed=0):
    """Random weights by the names of a checkpoint: kernels (in, out)."""
    rng, made = np.random.default_rng(seed), {}
    for name, (inputs, outputs) in sizes.items():
        made[f"{name}/kernel"] = rng.normal(size=(inputs, outputs)) / np.sqrt(inputs)
        if not (name.startswith("_postnet") and opcodes[1] == "layout"):
            made[f"{name}/bias"] = rng.normal(size=outputs) / 5
    made["_op_embedding/embedding_layer/embeddings"] = rng.normal(size=(117, opcodes[0]))
    return {name: array.astype(np.float32) for name, array in made.items()}


def layers(name, sizes):
    return {f"{name}/layer_with_weights-{i}": pair for i, pair in enumerate(itertools.pairwise(sizes))}


def minimum_and_range(arrays):
    whole = np.concatenate(arrays).astype(np.float64)
    return whole.min(0), np.ptp(whole, 0)


def blocks():
    """Blocks of code of the section of the guide."""
    section = GUIDE.read_text().partition("## 6.")[2]
    return re.findall(r"```python\n(.*?)```", section, re.S)


def scaled(x, low, width):
    return (x[..., width > 0] - low[width > 0]) / width[width > 0]


def few(graph):
    """Some columns of nodes and configs are constant."""
    feat = graph.node_feat.copy()
    feat[:, [3, 20]] = 2, 7
    graph = graph.replace(node_feat=feat, node_opcode=graph.node_opcode % 117)
    if graph.kind == "tile":
        config = np.array(graph.config_feat)
        config[:, 4] = 1
        return graph.replace(config_feat=config)
    digits = np.array(graph.node_config_feat[:])
    digits[..., 16:] = -1
    digits[..., 5] = np.minimum(digits[..., 5], 2)
    return graph.replace(node_config_feat=digits)


VARIANTS = ("early-sage", "late-sage", "early-resgcn", "late-resgcn", "mlp")


@pytest.mark.parametrize("variant", VARIANTS)
def test_weights_of_the_tile_baselines(variant):
    """The order of scores is that of the Keras models, whose columns and left-out inputs are others."""
    train, unseen = [few(small_tile(i)) for i in range(2)], few(small_tile(5))
    node_min, node_range = minimum_and_range([graph.node_feat for graph in train])
    config_min, config_range = minimum_and_range([graph.config_feat for graph in train])
    nodes, configs = int((node_range > 0).sum()), int((config_range > 0).sum())
    join, _, kind = variant.rpartition("-")
    table, early = 64 if kind == "sage" else 32, configs * (join == "early")
    first, late = table + early + nodes, configs * (join == "late")
    sizes = {
        "sage": {
            **layers("_gnn_layers/0", (2 * first, 64)), **layers("_gnn_layers/1", (128, 64)),
            **layers("_gnn_layers/2", (128, 64)), **layers("_postnet", (64 + late, 64, 64, 1)),
        },
        "resgcn": {
            **layers("_prenet", (first, 64, 64)), **layers("_postnet", (64 + late, 64, 1)),
            **{k: v for i in range(3) for k, v in layers(f"_gc_layers/{i}/0", (64, 64, 64)).items()},
        },
        "mlp": layers("_mlp", (nodes + table + configs, 64, 64, 1)),
    }[kind]  # fmt: skip
    w = keras(sizes, (table, "tile"))
    node, config = (
        scaled(unseen.node_feat, node_min, node_range),
        scaled(unseen.config_feat, config_min, config_range),
    )
    expected = tile_scores(w, unseen, node, np.asarray(config), variant)

    given = {f"model/{name}/.ATTRIBUTES/VARIABLE_VALUE": array for name, array in w.items()}
    names = {
        "weights": {
            n.removeprefix("model/").removesuffix("/.ATTRIBUTES/VARIABLE_VALUE"): a for n, a in given.items()
        }
    }
    names |= {
        "node_min": node_min,
        "node_range": node_range,
        "config_min": config_min,
        "config_range": config_range,
        "tg": tg,
    }
    guide = blocks()[1]
    if variant == "early-sage":
        exec(guide, names)
        ranker = names["ranker"]
    else:
        exec(guide.partition("name =")[0], names)
        weights, widened, opcodes = names["weights"], names["widened"], names["opcodes"]
        seen = {
            "node": node_range > 0,
            "config": config_range > 0,
            "opcode": opcodes,
            "64 of the graph": np.ones(64, bool),
        }
        for row in re.findall(
            r"^\| `.*\|$", GUIDE.read_text().partition("## 6.")[2], re.M
        ):  # what the table says
            variants, kernel, inputs = (cell.strip() for cell in row.strip("| ").split("|"))
            if f"`{variant}`" in variants:
                used = np.concatenate([seen[one] for one in inputs.removeprefix("twice: ").split(", ")])
                name = re.search(r"`(.*)`", kernel)[1]
                weights[name] = widened(weights[name], np.tile(used, 1 + inputs.startswith("twice")))
        ranker = tg.Ranker.from_torch(
            {f"model/{n}/.ATTRIBUTES/VARIABLE_VALUE": a for n, a in weights.items()},
            variant=variant, scaler=(node_min, node_range), config_scaler=(config_min, config_range),
        )  # fmt: skip
    assert ranker.recipe == "official-tile" and ranker.fields.variant == variant
    found = ranker.predict(unseen)
    np.testing.assert_allclose(found, expected, atol=1e-4 * np.abs(expected).max())
    assert np.ptp(expected) > 0.01 * np.abs(expected).max()


def test_weights_of_the_layout_baseline():
    train, unseen = [few(small_graph(i)) for i in range(2)], few(small_graph(5))
    node_min, node_range = minimum_and_range([graph.node_feat for graph in train])
    digit_min, digit_range = minimum_and_range(
        [np.array(g.node_config_feat[:]).reshape(-1, 18) for g in train]
    )
    assert (digit_min == -1).all() and digit_range[5] == 3 and (digit_range[16:] == 0).all()
    nodes, places = int((node_range > 0).sum()), int((digit_range > 0).sum())
    w = keras(
        {
            **layers("_prenet", (places + nodes + 32, 32, 32)),
            **layers("_gc_layers/0", (places + 32, 32, 32)),
            **layers("_gc_layers/1", (places + 32, 32, 32)),
            **layers("_postnet", (96, 32, 1)),
        },
        (32, "layout"),
    )
    digits = scaled(np.array(unseen.node_config_feat[:]), digit_min, digit_range)
    expected = layout_scores(w, unseen, scaled(unseen.node_feat, node_min, node_range), digits)
    names = {
        "weights": dict(w),
        "node_min": node_min,
        "node_range": node_range,
        "digit_range": digit_range,
        "tg": tg,
    }
    exec(blocks()[1].partition("name =")[0] + blocks()[2], names)
    ranker = names["ranker"]
    assert ranker.recipe == "official-layout"
    np.testing.assert_allclose(ranker.predict(unseen), expected, atol=1e-4 * np.abs(expected).max())
    assert np.ptp(expected) > 0.01 * np.abs(expected).max()


def test_baselines_stop_early_and_the_digits_of_others_are_as_before():
    for recipe, stop in (("official-tile", 20), ("official-layout", 25)):
        f = get_recipe(recipe).fields("full")
        assert (f.stop_after, f.evaluate_every, f.metric) == (stop, 0, "opa")
        assert get_recipe(recipe).fields("cpu").stop_after == 0
    steps = tg.Ranker("official-layout").steps
    assert all("shift" not in one["attrs"] for one in steps)
    assert any(one["attrs"].get("shift") == 1 for one in tg.Ranker("official-layout", preset="full").steps)


def test_a_shift_is_of_plain_digits_alone():
    for op, inputs, attrs in (  # a step of each, with what it reads
        ("config_columns", [], {"form": "positions"}),
        ("config_linear", ["node_feat"], {"values": "embedded"}),
    ):
        model = [
            {"op": op, "name": "a", "in": inputs, "out": "a", "attrs": {**attrs, "shift": 1.0}},
            {"op": "pool", "name": "b", "in": ["a"], "out": "scores", "attrs": {}},
        ]
        own = dataclasses.replace(
            get_recipe("first-layout"), name="own", steps=lambda fields, model=model: model
        )
        with pytest.raises(tg.RecipeError, match="'a'.*shift.*digits"):
            tg.Ranker(own).fit(small_graph(0), steps=1, verbose=False)
