"""Weights of configs in a fit."""

import numpy as np
import pytest
from rankers import Lazy, small_any, small_graph, small_ranker, small_tile, state

import tpugraphs as tg
from tpugraphs.training import Callback


def weights_of(graph, seed=0):
    """Weights of which a third is 0."""
    rng = np.random.default_rng(seed)
    return rng.integers(0, 3, graph.num_configs) * rng.uniform(0.5, 2, graph.num_configs)


def trained(train, weights=None, recipe="first-layout-cross", valid=None, **fields):
    ranker = small_ranker(recipe, steps=8, **fields)
    return ranker, ranker.fit(train, valid, sample_weight=weights, verbose=False).history_


def same(one, other):
    return state(one[0]) == state(other[0]) and one[1].loss == other[1].loss


LAYOUT, ANY, TILE = (
    ("first-layout-cross", small_graph),
    ("graph-config", small_any),
    ("first-tile", small_tile),
)


def test_a_weight_of_zero_leaves_a_config_out():
    graph = small_graph(1)
    weights = weights_of(graph)
    rows = np.flatnonzero(weights)
    assert same(trained(graph, weights), trained(graph.select(rows), weights[rows]))
    only = (weights > 0).astype(np.int64)
    assert same(trained(graph, only), trained(graph.select(rows)))
    assert not same(trained(graph, weights), trained(graph, only))


@pytest.mark.parametrize(("recipe", "make"), [LAYOUT, ANY, TILE])
def test_only_the_ratio_of_weights_counts_where_the_loss_is_a_mean(recipe, make):
    graph = make(2)
    weights = 1 + weights_of(graph)
    fields = {"loss": [{"loss": "pairwise_hinge", "reduction": "mean-pairs"}]}
    once = trained(graph, weights, recipe, **fields)
    assert same(once, trained(graph, 2 * weights, recipe, **fields))
    assert not same(once, trained(graph, weights[::-1], recipe, **fields))
    assert not same(once, trained(graph, None, recipe, **fields))
    summed = {"loss": [{"loss": "pairwise_hinge", "reduction": "sum"}]}
    once, twice = (trained(graph, w, recipe, **summed)[1].loss[0] for w in (weights, 2 * weights))
    assert twice == 4 * once  # a pair has the product of two weights


def test_weights_of_one_are_no_weights():
    graphs = [small_graph(seed) for seed in range(3)]
    plain = trained(graphs)
    assert same(plain, trained(graphs, [np.ones(96), None, np.ones(96, bool)]))
    assert same(plain, trained(Lazy(0, 1, 2), [None, np.ones(96), None]))


def test_several_graphs_of_which_some_have_weights():
    graphs, weights = [small_graph(seed) for seed in range(3)], weights_of(small_graph(1))
    fields = {"slates": 3, "graph_sampling": "sqrt-configs"}
    found = trained(graphs, [None, weights, None], **fields)
    rows = np.flatnonzero(weights)
    left = [graphs[0], graphs[1].select(rows), graphs[2]]
    assert same(found, trained(left, [None, weights[rows], None], **fields))
    assert not same(found, trained(graphs, None, **fields))
    with pytest.warns(UserWarning, match="left out of the fit"):
        none = trained(graphs, [None, np.zeros(96), None])
    assert "at least two configs of a weight above 0" in none[1].skipped["small1"]


@pytest.mark.parametrize("visits", ["even", "sqrt-configs", "slates"])
def test_graphs_of_which_none_is_of_use_are_refused(visits):
    """Also where no visit would come to those whose weights are all 0."""
    same = small_graph(1, configs=30).replace(node_config_feat=np.zeros((30, 4, 18), np.int8), name="same")
    with pytest.raises(tg.DataError, match="none of the 2 graphs can be trained on; the last: same: "):
        trained([small_graph(0), same], [np.zeros(96), None], graph_sampling=visits)


def test_weights_go_with_their_configs():
    """Through configs held out, equal ones merged, failed ones, and packs."""
    graph = small_graph(3, copies=20)
    weights = weights_of(graph)
    rows = np.flatnonzero(weights)
    found = trained(graph, weights, dedup="min")
    assert same(found, trained(graph.select(rows), weights[rows], dedup="min"))
    order = np.random.default_rng(0).permutation(graph.num_configs)
    loss = {"configs": 96, "dedup": "none", "dropout": 0.0}
    losses = [trained(g, w, **loss)[1].loss[0] for g, w in (
        (graph, weights + 1), (graph.select(order), weights[order] + 1))]  # fmt: skip
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    held = trained(graph, weights, valid=0.3)
    assert held[1].valid_metric and not same(held, trained(graph, valid=0.3))
    failed = np.ones(48, bool)
    failed[5:15] = False
    partly = small_any(4, valid=failed)
    w = 1 + weights_of(partly)
    once = trained(partly, w, "graph-config")
    w[5:15] = 7  # nobody reads the weight of a config that failed
    assert same(once, trained(partly, w, "graph-config"))


def test_graphs_in_files_have_the_same_weights(tmp_path):
    graph = small_graph(5, copies=10)
    weights = weights_of(graph)
    graph.save(tmp_path / "one.npz")
    graph.save(tmp_path / "one.tgpack")
    found = trained(graph, weights)
    for name in ("one.npz", "one.tgpack"):
        assert same(found, trained(tg.load(tmp_path / name), weights))


@pytest.mark.parametrize(
    ("weights", "words"),
    [
        (np.ones(95), r"sample_weight: expected shape \(96,\), found shape \(95,\)"),
        (np.ones((96, 1)), "expected shape"),
        (np.full(96, -1.0), "numbers >= 0, found -1.0 at 0"),
        ([1.0] * 95 + [np.nan], "finite numbers, found nan at 95"),
        ([1.0] * 95 + [1e39], "found 1e.39 at 95"),
        (["a"] * 96, "expected an array of numbers"),
        (np.zeros(96), "at least two configs of a weight above 0, found 0"),
    ],
)
@pytest.mark.parametrize("visits", ["even", "sqrt-configs"])
def test_weights_that_make_no_sense_are_refused(weights, words, visits):
    graph, ranker = small_graph(1), small_ranker(steps=2, graph_sampling=visits)
    with pytest.raises(tg.DataError, match=words) as caught:
        ranker.fit(graph, sample_weight=weights, verbose=False)
    assert (caught.value.file, caught.value.field) == ("small1", "sample_weight")
    assert not ranker.fitted
    if "at least two" not in words:  # of several graphs too: it is no graph to leave out
        with pytest.raises(tg.DataError, match=words):
            ranker.fit([small_graph(0), graph], sample_weight=[None, weights], verbose=False)
        with pytest.raises(tg.DataError, match=words):
            ranker.fit(graph, 0.2, sample_weight=weights, verbose=False)


@pytest.mark.parametrize("weights", [np.ones(96), [np.ones(96)], {"small0": np.ones(96)}, 1.0])
def test_a_list_of_graphs_has_a_list_of_weights(weights):
    with pytest.raises(tg.ConfigError, match="sample_weight.*2 arrays"):
        small_ranker(steps=2).fit([small_graph(0), small_graph(1)], sample_weight=weights, verbose=False)


class Stop(Callback):
    """End a fit early."""

    def on_step(self, fit):
        if fit.step == 4:
            raise KeyboardInterrupt


def test_a_checkpoint_belongs_to_its_weights(tmp_path):
    graph = small_graph(1)
    weights = weights_of(graph)
    with pytest.warns(UserWarning, match="interrupted"):
        small_ranker(steps=8).fit(
            graph, sample_weight=weights, callbacks=[Stop()], checkpoint_dir=tmp_path, checkpoint_every=3,
            verbose=False,
        )  # fmt: skip
    for other in (None, weights[::-1].copy()):
        with pytest.raises(tg.CheckpointError, match="another fit.*train"):
            small_ranker(steps=8).fit(
                graph, sample_weight=other, callbacks=[Stop()], checkpoint_dir=tmp_path, verbose=False
            )


def test_seeds_share_the_weights():
    graph = small_graph(1)
    weights = weights_of(graph)
    alone = small_ranker(steps=4, seed=1)
    alone.fit(graph, sample_weight=weights, verbose=False)
    runs = tg.train_seeds(
        "first-layout-cross", graph, seeds=2, sample_weight=weights, steps=4, verbose=False,
        **{k: v for k, v in alone.get_params().items() if k in ("width", "gate_reduction", "configs",
                                                                "valid_configs", "learning_rate", "evaluate_every")},
    )  # fmt: skip
    assert runs.rankers[1].model.params.tobytes() == alone.model.params.tobytes()
