"""Lists of a loss as a recipe chooses them: slates, parts of slates, whole batches; scores scaled and shifted."""

import numpy as np
import pytest
from rankers import Break, small_graph, small_ranker, state
from reference import losses as ref
from test_resume import same

import tpugraphs as tg
from tpugraphs.recipes import get_recipe
from tpugraphs.training import Callback, EarlyStopping
from tpugraphs.training.optimizer import Optimizer

GRAPHS = [small_graph(i, configs=30 + 40 * i) for i in range(3)]
SIZES = (16, 11, 3)
LISTS = {"slate": [0, 16, 27, 30], "part": [0, 5, 10, 16, 21, 27, 30], "batch": [0, 30]}  # parts of at most 6
SUM = [{"loss": "ranknet", "reduction": "sum"}]
PLAIN = {"dropout": 0.0, "weight_decay": 0.0}


def batch(ranker):
    """Slates of 16, 11 and 3 configs."""
    network = ranker.network
    network.pipeline.fit(GRAPHS)
    rng = np.random.default_rng(0)
    prepared = [network.pipeline.apply_measured(graph) for graph in GRAPHS]
    return [(one, rng.permutation(one.num_configs)[:n]) for one, n in zip(prepared, SIZES, strict=True)]


def scores_of(ranker, chosen):
    return np.concatenate(ranker.model.scores([one.slate(rows) for one, rows in chosen]))


def expected(ranker, chosen, **lists):
    runtimes = np.concatenate([one.runtimes[rows] for one, rows in chosen])
    return ref.weighted_sum(scores_of(ranker, chosen), ranker.loss, runtimes=runtimes, **lists)


def slope_of(ranker, chosen, **lists):
    """Change of the loss along the gradient, by differences, over that of the gradient itself."""
    params, direction = ranker.model.params, ranker.trainer.grads.astype(np.float64)
    start, ends = params.copy(), []
    step = 1e-3 / np.linalg.norm(direction)
    for h in (step, -step):
        params[:] = start + h * direction
        ends.append(expected(ranker, chosen, **lists)[0])
    params[:] = start
    return (ends[0] - ends[1]) / (2 * step) / (direction @ direction)


@pytest.mark.parametrize("loss", ["pairwise_hinge", SUM, "list_mle"], ids=str)
@pytest.mark.parametrize("lists", LISTS)
def test_a_recipe_chooses_the_lists_of_its_losses(lists, loss):
    ranker = small_ranker(lists=lists, part=6, loss=loss, **PLAIN)
    chosen = batch(ranker)
    got = Optimizer(ranker.network).gradients(1, chosen)
    offsets = np.array(LISTS[lists])
    assert got == pytest.approx(expected(ranker, chosen, offsets=offsets)[0], rel=1e-4)
    others = [expected(ranker, chosen, offsets=np.array(LISTS[name]))[0] for name in LISTS if name != lists]
    assert all(other != pytest.approx(got, rel=1e-3) for other in others)
    assert slope_of(ranker, chosen, offsets=offsets) == pytest.approx(1, rel=0.02)


def test_scores_are_scaled_and_shifted_before_the_losses_see_them():
    ranker = small_ranker(lists="part", part=6, loss="ranknet", **PLAIN)
    chosen = batch(ranker)
    shift = np.random.default_rng(1).normal(size=16).astype(np.float32)
    got = Optimizer(ranker.network).gradients(1, chosen, moved=[(2.0, shift), None, (-0.5, 1)])
    whole = {
        "offsets": np.array(LISTS["part"]),
        "scale": np.repeat([2.0, 1.0, -0.5], SIZES),
        "shift": np.concatenate([shift, np.zeros(11), np.ones(3)]),
    }
    assert got == pytest.approx(expected(ranker, chosen, **whole)[0], rel=1e-4)
    assert slope_of(ranker, chosen, **whole) == pytest.approx(1, rel=0.02)
    for wrong in (np.zeros(5), "a"):
        with pytest.raises(tg.ConfigError, match="shift.*11"):
            Optimizer(ranker.network).gradients(1, chosen, moved=[None, (1.0, wrong), None])
    with pytest.raises(tg.DataError, match="shift"):
        Optimizer(ranker.network).gradients(1, chosen, moved=[None, None, (1.0, np.nan)])


class Others(Callback):
    """The other segments of a graph, which already tell all its configs apart, as far as `strength` says."""

    def __init__(self, strength):
        self.strength, self.seen = strength, set()

    def scale_and_shift(self, fit, graph, rows):
        (prepared,) = (one for one in map(fit.data.prepared, range(len(GRAPHS))) if one.name == graph)
        self.seen.add((graph, len(rows)))
        return 1.0, self.strength * np.argsort(np.argsort(prepared.runtimes[rows]))


def test_a_fit_learns_what_the_scores_of_other_segments_leave():
    """A callback gives what they add; where that is enough for every pair, nothing is left to learn."""
    ranker = small_ranker(steps=3, **PLAIN)
    before = ranker.model.params.copy()
    others = Others(1e3)
    history = ranker.fit(GRAPHS, verbose=False, callbacks=[EarlyStopping(), others]).history_
    assert history.loss == [0.0] * 3 and (ranker.model.params == before).all()
    assert others.seen == {(graph.name, 16) for graph in GRAPHS}
    ranker.fit(GRAPHS, verbose=False, callbacks=[Others(-1e3), Others(1e3)])  # the first decides
    assert min(ranker.history_.loss) > 1e3 and (ranker.model.params != before).any()


def test_a_callback_that_gives_something_else_is_refused():
    class Wrong(Callback):
        def scale_and_shift(self, fit, graph, rows):
            return 2.0

    with pytest.raises(tg.ConfigError, match=r"expected \(scale, shift\) or None, got 2.0"):
        small_ranker(steps=1).fit(GRAPHS, verbose=False, callbacks=[Wrong()])


@pytest.mark.parametrize("lists", ["part", "batch"])
def test_fits_resume_exactly_and_have_the_bits_of_any_number_of_threads(tmp_path, lists):
    fields = {"steps": 8, "slates": 2, "accumulate": 2, "loss": "list_mle", "lists": lists, "part": 5}

    def fit(folder, at=None, **changes):
        ranker = small_ranker(**{**fields, **changes})
        return ranker, ranker.fit(
            GRAPHS, callbacks=[Break(at)], checkpoint_dir=folder, checkpoint_every=2, verbose=False
        ).history_

    tg.set_num_threads(1)
    whole, history = fit(None)
    tg.set_num_threads(3)
    with pytest.raises(OSError, match="broken"):
        fit(tmp_path, 5)
    for name, other in (("lists", "slate"), ("part", 7)):
        with pytest.raises(tg.CheckpointError, match=f"field {name}"):
            fit(tmp_path, **{name: other})
    again, resumed = fit(tmp_path)
    assert same(history, resumed) and state(whole) == state(again)
    assert state(fit(None, lists="slate")[0]) != state(whole)


def test_parts_of_whole_slates_are_slates():
    results = set()
    for fields in ({}, {"lists": "part", "part": 16}, {"lists": "part", "part": 1000}):
        ranker = small_ranker(steps=4, slates=2, loss="list_mle", **fields)
        ranker.fit(GRAPHS, verbose=False)
        results.add(ranker.model.params.tobytes())
    assert len(results) == 1


def test_passes_draw_ties_as_the_whole_batch_does():
    level = [graph.replace(config_runtime=graph.config_runtime // 10**7) for graph in GRAPHS]
    losses = []
    for slates, passes in ((4, 1), (2, 2)):
        fields = {"slates": slates, "accumulate": passes, "lists": "part", "part": 4, "loss": "list_mle"}
        losses.append(small_ranker(steps=3, dropout=0.0, **fields).fit(level, verbose=False).history_.loss)
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)


def test_the_fields_are_declared():
    options = get_recipe("first-layout").describe()["options"]
    assert options["lists"]["choices"] == ["slate", "part", "batch"] and options["part"]["low"] == 2
    for wrong in ({"lists": "graph"}, {"part": 1}, {"part": 2.5}):
        with pytest.raises(tg.ConfigError, match=next(iter(wrong))):
            small_ranker(**wrong)
