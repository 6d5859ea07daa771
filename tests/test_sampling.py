"""What a step takes: graphs in proportion, close runtimes, several slates, steps of several passes."""

import os
import signal
import threading
from collections import Counter

import models
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rankers import Break, Lazy, small_graph, small_ranker, state
from reference.visits import FitVisits
from refusals import refuses
from test_resume import same

import tpugraphs as tg
from tpugraphs import _core
from tpugraphs.training import Callback, trainset


def visits_to(counts, seed=0, configs=1, **how):
    return _core.Visits(np.array(counts, np.int64), seed, configs, **how)


def prepared(runtimes):
    """A prepared graph of configs that took so long."""
    graph = _core.ModelGraph(**models.graph_arrays(2, len(runtimes), 1, 3, 0))
    return _core.Prepared(graph, "g", measured=np.asarray(runtimes, np.int64))


# Visits


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_a_visit_chooses_what_the_reference_chooses(data):
    """Every graph and every row, whatever the order in which visits are asked for."""
    counts = np.array(data.draw(st.lists(st.integers(0, 60), min_size=1, max_size=8)), np.int64)
    how = {
        "seed": data.draw(st.integers(0, 2**64 - 1)),
        "configs": data.draw(st.integers(1, 30)),
        "each": data.draw(st.integers(1, 4)),
        "graph_sampling": data.draw(st.sampled_from(["even", "sqrt-configs", "slates"])),
        "config_sampling": data.draw(st.sampled_from(["even", "replacement", "gumbel"])),
        "close": data.draw(st.sampled_from([0.0, 0.5, 1.0])),
        "config_temperature": data.draw(st.sampled_from([0.01, 1.0, 100.0])),
    }
    found, expected = _core.Visits(counts, **how), FitVisits(counts, **how)
    assert (found.epoch, found.period) == (expected.visits.epoch, expected.visits.period)
    times = np.random.default_rng(0).permutation(60)
    merged = data.draw(st.integers(0, 3))  # equal configs of a graph, which are one when it is prepared
    for visit in data.draw(st.permutations(range(0, 40, 3))):
        index, before = found.at(visit)
        assert (index, before) == expected.visits.at(visit)
        graph = prepared(times[: max(1, counts[index] - merged)])
        assert found.rows(visit, graph).tolist() == expected.rows(visit, graph).tolist()


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(0, 10_000), min_size=1, max_size=12), st.integers(0, 9))
def test_weighted_visits_keep_their_shares(weights, seed):
    weights[0] += 1
    count, epochs = len(weights), 6
    visits = visits_to(weights, seed, graph_sampling="slates")
    seen, total = [], sum(weights)
    for visit in range(epochs * count):
        index, before = visits.at(visit)
        assert before == seen.count(index)
        seen.append(index)
    for epoch in range(epochs):
        times = Counter(seen[epoch * count : (epoch + 1) * count])
        for index, weight in enumerate(weights):
            share = count * weight / total
            assert np.floor(share) - 1e-9 <= times[index] <= np.ceil(share) + 1e-9
    again = visits_to(weights, seed, graph_sampling="slates")
    for visit in (epochs * count - 1, 0, count // 2, epochs * count // 2):  # in any order
        assert again.at(visit)[0] == seen[visit] and again.at(visit)[1] == seen[:visit].count(seen[visit])


def test_small_shares_come_now_and_then():
    visits = visits_to([1, 1, 30], 3, graph_sampling="slates")
    seen = Counter(visits.at(visit)[0] for visit in range(3 * 400))
    assert all(abs(seen[i] - 1200 / 32) < 20 for i in (0, 1)) and len(seen) == 3


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.integers(0, 300), min_size=1, max_size=6), st.integers(1, 40), st.integers(1, 5), st.integers(0, 9)
)  # fmt: skip
def test_oversampled_visits_are_those_of_the_fifth_place(counts, configs, each, seed):
    """Of a graph of c configs sqrt(c c_max) in an epoch, each about equally often, in slates of equal length."""
    counts[0] += 1
    visits = visits_to(counts, seed, configs, each=each, graph_sampling="sqrt-configs")
    draws = [int(np.sqrt(c * max(counts))) for c in counts]
    slates = [-(-d // configs) for d in draws]
    assert visits.epoch == (sum(slates) // each * each or sum(slates))
    for epoch in range(2):
        numbers = range(epoch * visits.epoch, (epoch + 1) * visits.epoch)
        taken = {visits.at(visit): visit for visit in numbers}
        assert len(taken) == visits.epoch and sum(slates) - len(taken) < each
        seen = Counter(index for index, _ in taken)
        for index, (c, d, n) in enumerate(zip(counts, draws, slates, strict=True)):
            assert seen[index] <= n
            which = sorted(slate for i, slate in taken if i == index)
            assert all(epoch * n <= slate < (epoch + 1) * n for slate in which)
            if c == 0 or seen[index] < n:
                continue
            graph = prepared(np.arange(1, c + 1))
            rows = np.concatenate([visits.rows(taken[index, slate], graph) for slate in which])
            times = np.bincount(rows[:d], minlength=c)
            assert len(rows) == n * configs and times.max() - times.min() <= 1 and len(times) == c
            assert (rows[d:] == np.resize(rows[:d], len(rows) - d)).all()  # filled from the first


def test_even_visits_are_once_per_epoch():
    visits = visits_to([9] * 5)
    epochs = [[visits.at(5 * epoch + i) for i in range(5)] for epoch in range(4)]
    for number, epoch in enumerate(epochs):
        assert sorted(epoch) == [(i, number) for i in range(5)]
    assert len({tuple(epoch) for epoch in epochs}) > 1


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"counts": []}, "expected 1 to 2.20 graphs, got 0"),
        ({"counts": [3, -1]}, "expected 0 to 2.40 configs of graph 1, got -1"),
        ({"configs": 0}, "expected 1 to 2.24 configs"),
        ({"each": 0}, "at least 1 slate"),
        ({"close": 1.5}, "chance of close runtimes in 0..1"),
        ({"close": np.nan}, "chance of close runtimes in 0..1"),
        ({"config_temperature": 0.0}, "temperature above 0"),
        ({"graph_sampling": "log"}, "graph_sampling: expected one of even"),
        ({"config_sampling": "odd"}, "config_sampling: expected one of even"),
    ],
)
def test_other_visits_are_refused(wrong, words):
    with pytest.raises(ValueError, match=words):
        visits_to(**{"counts": [3], **wrong})


def test_visits_that_there_are_not_are_refused():
    visits = visits_to([3, 3], configs=2, graph_sampling="slates")
    for visit in (-1, 2**60):
        with pytest.raises(tg.ConfigError, match="visit: expected 0 to 2.50"):
            visits.at(visit)
    with pytest.raises(TypeError):
        visits.rows(0, np.arange(3))


# Close runtimes


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 200), st.integers(1, 40), st.integers(0, 10**6))
def test_close_rows_lie_in_a_window(count, k, seed):
    k = min(k, count)
    times = np.random.default_rng(seed).permutation(count)
    rows = visits_to([count], seed, k, close=1.0).rows(7, prepared(times))
    assert rows.dtype == np.int64 and len(set(rows.tolist())) == k
    assert np.ptp(times[rows]) < min(count, 4 * k)
    assert (rows == visits_to([count], seed, k, close=1.0).rows(7, prepared(times))).all()


def test_windows_are_one_to_four_slates_anywhere():
    visits, graph = visits_to([1000], 1, 10, close=1.0), prepared(np.arange(1000))
    rows = np.array([visits.rows(visit, graph) for visit in range(800)])
    spans, lows = np.ptp(rows, axis=1).tolist(), rows.min(axis=1).tolist()
    assert min(spans) == 9 and 30 < max(spans) <= 39
    assert 150 < sum(span == 9 for span in spans) < 250  # one in four is no longer than the slate
    assert min(lows) < 20 and max(lows) > 940


# Fast configs


def gumbel(k, temperature, seed=5):
    return visits_to([9], seed, k, config_sampling="gumbel", config_temperature=temperature)


def test_fast_rows_are_drawn_in_proportion():
    """The probability of every pair in order is the product of those of its draws (Plackett and Luce)."""
    order, draws, temperature = np.array([2, 0, 1]), 6000, 0.5
    weight = np.exp((1 - np.arange(3) / 3) / temperature)  # of the places
    visits, graph = gumbel(2, temperature), prepared(np.argsort(order) + 1)
    seen = [tuple(visits.rows(i, graph).tolist()) for i in range(draws)]
    for a, b in [(0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1)]:
        chance = weight[a] / weight.sum() * weight[b] / (weight.sum() - weight[a])
        count = seen.count((int(order[a]), int(order[b])))
        assert abs(count - draws * chance) < 5 * np.sqrt(draws * chance)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 200), st.integers(1, 40), st.integers(0, 10**6), st.sampled_from([0.01, 1.0, 100.0]))
def test_fast_rows_are_distinct_and_follow_from_the_key(count, k, seed, temperature):
    graph = prepared(np.random.default_rng(seed).permutation(count))
    rows = gumbel(k, temperature, seed).rows(3, graph)
    assert rows.dtype == np.int64 and len(set(rows.tolist())) == min(k, count) and rows.max() < count
    assert (rows == gumbel(k, temperature, seed).rows(3, graph)).all()


def test_a_low_temperature_draws_the_fastest_and_a_high_one_all_alike():
    graph = prepared(np.arange(1000))
    cold = [gumbel(10, 0.01).rows(i, graph).mean() for i in range(50)]
    hot = [gumbel(10, 100.0).rows(i, graph).mean() for i in range(200)]
    assert np.mean(cold) < 15 and abs(np.mean(hot) - 499.5) < 30


def test_rows_drawn_with_replacement_are_even_and_come_twice():
    visits, graph = visits_to([7], 3, 5, config_sampling="replacement"), prepared(np.arange(7))
    drawn = np.stack([visits.rows(visit, graph) for visit in range(4000)])
    assert drawn.min() == 0 and drawn.max() == 6
    assert np.abs(np.bincount(drawn.ravel()) / drawn.size - 1 / 7).max() < 0.01
    distinct = np.mean([len(set(rows)) for rows in drawn])
    assert distinct == pytest.approx(7 * (1 - (6 / 7) ** 5), abs=0.05)  # of 5 independent draws
    assert (visits_to([1], 0, 3, config_sampling="replacement").rows(0, prepared([5])) == 0).all()


def slates_of(fields, steps=30, graphs=None):
    """Runtimes of every slate that a fit takes, sorted, and its ranker."""
    taken = []

    class Record(Callback):
        def on_fit_begin(self, fit):
            real = fit._next_slate

            def note():
                index, (graph, rows, *moved) = real()
                taken.append((graph.name, np.sort(graph.runtimes[rows]), graph.num_configs))
                return index, (graph, rows, *moved)

            fit._next_slate = note

    r = small_ranker(steps=steps, **fields)
    r.fit(graphs or small_graph(configs=400), verbose=False, callbacks=[Record()])
    return taken, r


def test_close_draws_from_neighbours_in_runtime_order():
    g = small_graph(configs=400)
    place = {int(runtime): i for i, runtime in enumerate(np.sort(g.config_runtime))}
    for chance, low, high in ((0.0, 0, 0), (0.5, 0.25, 0.75), (1.0, 1, 1)):
        taken, _ = slates_of({"close": chance}, graphs=g)
        close = [place[int(t[-1])] - place[int(t[0])] < 4 * 16 for _, t, _ in taken]
        assert low <= np.mean(close) <= high


def test_gumbel_prefers_fast_configs():
    g = small_graph(configs=400)
    place = {int(runtime): i for i, runtime in enumerate(np.sort(g.config_runtime))}
    means = {}
    for sampling in ("even", "gumbel"):
        taken, _ = slates_of({"config_sampling": sampling, "config_temperature": 0.3}, graphs=g)
        means[sampling] = np.mean([place[int(t)] for _, times, _ in taken for t in times])
    assert means["gumbel"] < 130 and abs(means["even"] - 200) < 15


# Steps of several slates and passes


@pytest.mark.parametrize(("slates", "accumulate"), [(4, 1), (1, 4), (2, 2)])
def test_slates_and_passes_make_the_same_step(slates, accumulate):
    fields = {"steps": 12, "dropout": 0.3, "seed": 3}
    graphs = [small_graph(i, configs=40 + 20 * i) for i in range(3)]
    one, cut = small_ranker(slates=4, **fields), small_ranker(slates=slates, accumulate=accumulate, **fields)
    expected, got = one.fit(graphs, verbose=False).history_, cut.fit(graphs, verbose=False).history_
    assert got.loss == pytest.approx(expected.loss, rel=1e-4)
    # Adam makes full steps of gradients that are zero but for rounding: of biases before a norm.
    assert np.isclose(cut.model.params, one.model.params, rtol=1e-3, atol=1e-4).mean() > 0.9
    alone = small_ranker(**fields)
    assert alone.fit(graphs, verbose=False).history_.loss[1] != pytest.approx(expected.loss[1], rel=1e-3)


def test_the_loss_of_a_step_is_the_mean_over_its_slates():
    g = [small_graph(i) for i in range(4)]
    r = small_ranker(steps=1, slates=2, accumulate=2, dropout=0.0)
    loss = r.fit(g, verbose=False).history_.loss[0]
    taken, _ = slates_of({"slates": 2, "accumulate": 2, "dropout": 0.0}, steps=1, graphs=g)
    assert sorted(name for name, _, _ in taken) == ["small0", "small1", "small2", "small3"]
    singles = []
    for name, times, _ in taken:
        graph = next(graph for graph in g if graph.name == name)
        fresh = small_ranker(steps=1, dropout=0.0)
        fresh.pipeline.fit(g)
        found = fresh.pipeline.apply(graph)
        rows = np.flatnonzero(np.isin(found.runtimes, times))
        singles.append(fresh.trainer.gradients([found.slate(rows)], [found.runtimes[rows]], fresh.loss)[0])
    assert loss == pytest.approx(np.mean(singles), rel=1e-4)


def test_an_epoch_is_one_visit_of_every_graph():
    graphs = [small_graph(i) for i in range(5)]
    for fields, steps in (({}, 15), ({"slates": 5}, 3), ({"slates": 2, "accumulate": 2}, 4)):
        taken, r = slates_of({"epochs": 3, **fields}, steps=None, graphs=graphs)
        assert len(r.history_.loss) == steps
        assert Counter(name for name, _, _ in taken[:15]) == {f"small{i}": 3 for i in range(5)}


def test_threads_do_not_change_a_bit():
    graphs, results = [small_graph(i, nodes=40) for i in range(3)], set()
    for count in (1, 2, 3):
        tg.set_num_threads(count)
        r = small_ranker(steps=6, slates=3, accumulate=2, close=0.5, graph_sampling="sqrt-configs", width=64)
        r.fit(graphs, verbose=False)
        results.add(r.model.params.tobytes())
    assert len(results) == 1


FIELDS = {
    "steps": 20,
    "slates": 2,
    "accumulate": 3,
    "close": 0.5,
    "graph_sampling": "sqrt-configs",
    "seed": 5,
}


@pytest.mark.parametrize("at", [1, 7, 10])
def test_everything_resumes_exactly(tmp_path, at):
    graphs = [small_graph(i, configs=40 * 4**i) for i in range(3)]

    def fit(folder, at=None):
        r = small_ranker(**FIELDS)
        options = {"checkpoint_dir": folder, "checkpoint_every": 2, "verbose": False}
        return r, r.fit(graphs, [small_graph(3)], callbacks=[Break(at)], **options).history_

    whole, h = fit(None)
    with pytest.raises(OSError, match="broken"):
        fit(tmp_path, at)
    again, history = fit(tmp_path)
    assert same(h, history)
    assert state(whole) == state(again)
    with pytest.raises(tg.CheckpointError, match="field accumulate"):
        small_ranker(**{**FIELDS, "accumulate": 2}).fit(
            graphs, [small_graph(3)], callbacks=[Break()], checkpoint_dir=tmp_path, verbose=False
        )


class PressSoon(Callback):
    """Ctrl-C from another thread some time after step 3."""

    def __init__(self, delay=None):
        self.delay = delay

    def on_step(self, fit):
        if fit.step == 3 and self.delay is not None:
            threading.Timer(self.delay, os.kill, (os.getpid(), signal.SIGINT)).start()


def test_an_interrupt_between_the_passes_of_a_step_is_exact(tmp_path):
    g = [small_graph(i, configs=200, nodes=60) for i in range(2)]
    fields = {"steps": 100, "accumulate": 5, "width": 64, "close": 0.3}  # long enough for the last Ctrl-C
    whole = small_ranker(**fields)
    expected = whole.fit(g, verbose=False, callbacks=[PressSoon()]).history_
    for attempt in range(4):
        r, folder = small_ranker(**fields), tmp_path / str(attempt)
        with pytest.warns(UserWarning, match="interrupted"):
            h = r.fit(
                g, verbose=False, callbacks=[PressSoon(0.004 * attempt)], checkpoint_dir=folder
            ).history_
        assert 3 <= len(h.loss) < 100 and h.loss == expected.loss[: len(h.loss)]
        assert r.predict(g[0]).shape == (200,)
        h = r.fit(g, verbose=False, callbacks=[PressSoon()], checkpoint_dir=folder).history_
        assert h.loss == expected.loss and (r.model.params == whole.model.params).all()


def test_divergence_in_any_pass_is_reported():
    class Poison(Callback):
        def on_step(self, fit):
            fit.model.params[:] = np.inf

    for fields in ({"accumulate": 3}, {"slates": 2}):
        with pytest.raises(tg.Error, match="diverged at step 2.*small"):
            small_ranker(**fields).fit([small_graph(0), small_graph(1)], verbose=False, callbacks=[Poison()])


# Many graphs of different sizes


def uneven():
    """Graphs from 3 nodes and 8 configs to 400 nodes and 2,000 configs, and two that teach nothing."""
    sizes = [(3, 1, 8), (9, 3, 40), (60, 20, 500), (400, 5, 100), (30, 6, 2000)]
    graphs = [small_graph(i, nodes=n, config_nodes=k, configs=c) for i, (n, k, c) in enumerate(sizes)]
    bare = small_graph(8).replace(config_runtime=np.zeros(96, np.int64), name="bare")
    level = small_graph(9, configs=20)
    return [*graphs, bare, level.replace(node_config_feat=np.zeros_like(level.config_digits), name="level")]


def test_graphs_of_very_different_sizes_train_together(monkeypatch):
    graphs, configs = uneven(), 16
    kept = []

    class Watch(Callback):
        def on_step(self, fit):
            kept.append((fit.data._store.nbytes, len(fit.data._store)))

    results = []
    for limit in (trainset.CACHE_BYTES, 200_000):
        monkeypatch.setattr(trainset, "CACHE_BYTES", limit)
        kept.clear()
        r = small_ranker(steps=40, slates=2, configs=configs, graph_sampling="sqrt-configs")
        with pytest.warns(UserWarning, match="left out of the fit"):
            h = r.fit(graphs, graphs[:5], verbose=False, callbacks=[Watch()]).history_
        assert set(h.skipped) == {"bare", "level"} and len(h.loss) == 40
        assert all(size <= limit or count == 1 for size, count in kept)
        report = r.evaluate(graphs[:5])
        taus = [row.values["tau"] for row in report.rows]
        assert report.mean("tau") == pytest.approx(np.mean(taus)) == pytest.approx(h.best_metric, abs=0.2)
        results.append(r.model.params.tobytes())
    assert results[0] == results[1]


def test_sqrt_configs_visits_in_proportion():
    graphs = uneven()
    fields = {"graph_sampling": "sqrt-configs", "evaluate_every": 1000}
    with pytest.warns(UserWarning, match="left out of the fit"):
        taken, _ = slates_of(fields, steps=350, graphs=graphs)
    seen = Counter(name for name, _, _ in taken)
    counts = np.array([g.num_configs for g in graphs[:5]])
    shares = np.sqrt(counts) / np.sqrt(counts).sum()
    for i, share in enumerate(shares):
        assert seen[f"small{i}"] == pytest.approx(350 * share, abs=8)
    assert all(times.size == 16 for _, times, _ in taken)  # of 8 configs each comes twice


def test_an_epoch_of_sqrt_configs_has_all_draws():
    graphs = uneven()[:5]
    counts = np.array([g.num_configs for g in graphs])
    slates = np.ceil(np.floor(np.sqrt(counts * 2000)) / 16).sum()
    r = small_ranker(steps=None, epochs=1, slates=4, configs=16, graph_sampling="sqrt-configs")
    assert len(r.fit(graphs, verbose=False).history_.loss) == slates // 4


def test_graphs_without_anything_to_configure_are_never_visited(tmp_path):
    graph = small_graph(1)
    empty = graph.replace(node_config_ids=[], node_config_feat=np.zeros((96, 0, 18)), name="empty")
    r = small_ranker(steps=6, graph_sampling="sqrt-configs")
    with pytest.warns(UserWarning, match="1 graph left out of the fit: empty: node_config_ids"):
        h = r.fit([empty, small_graph(0)], verbose=False, checkpoint_dir=tmp_path).history_
    assert set(h.skipped) == {"empty"} and len(h.loss) == 6
    lazy = Lazy(0, 1, 2)
    small_ranker(steps=6, graph_sampling="sqrt-configs").fit(lazy, verbose=False)
    assert lazy.reads == 6  # the numbers of configs come from the pass that fits the scaler


def test_values_out_of_range_are_refused():
    for name, *wrong in (
        ("slates", 0, 1.5),
        ("accumulate", 0),
        ("close", 1.5, -0.1),
        ("graph_sampling", "log"),
    ):
        for value in wrong:
            refuses(lambda: small_ranker(**{name: value}), tg.ConfigError, name)
