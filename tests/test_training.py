import itertools
import math
import os
import signal
import sys
import threading

import madeup
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from models import HINGE, Trained
from rankers import Lazy, small_graph, small_ranker
from refusals import refuses

import tpugraphs as tg
from tpugraphs import training
from tpugraphs.preprocess.pipeline import Pipeline
from tpugraphs.recipes import get_recipe
from tpugraphs.training import Callback, EarlyStopping, learning_rate, split_configs, trainset

# Schedule


def test_the_rate_warms_up_then_falls_as_a_cosine():
    rates = [learning_rate(step, 100, 2.0, 0.05) for step in range(1, 101)]
    assert rates[:5] == pytest.approx([0.4, 0.8, 1.2, 1.6, 2.0])
    assert rates[5] == 2.0 and all(a > b for a, b in itertools.pairwise(rates[5:]))
    assert rates[52] == pytest.approx(1 + math.cos(math.pi * 47 / 95))
    assert 0 < rates[-1] < 0.002
    assert learning_rate(1, 1, 2.0, 0.0) == 2.0


# Splits


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 5), st.integers(20, 60), st.integers(0, 15), st.integers(0, 3))
def test_splits_keep_equal_configs_together(seed, configs, copies, split_seed):
    g = small_graph(seed, configs=configs, copies=min(copies, configs // 2))
    parts = split_configs(g, (0.5, 0.25, 0.25), split_seed)
    assert sorted(np.concatenate(parts)) == list(range(configs))
    kinds = [{g.config_digits[row].tobytes() for row in part} for part in parts]
    assert not (kinds[0] & kinds[1] or kinds[0] & kinds[2] or kinds[1] & kinds[2])
    distinct = sum(map(len, kinds))
    assert abs(len(kinds[0]) - distinct / 2) <= 1
    again = split_configs(g, (0.5, 0.25, 0.25), split_seed)
    assert all((a == b).all() for a, b in zip(parts, again, strict=True))


def test_bad_splits_are_refused():
    g = small_graph(configs=5)
    for fractions in ((), (0.5, -0.1), (0.7, 0.7), (float("nan"),), (0.0, 1.0)):
        refuses(lambda: split_configs(g, fractions), tg.ConfigError, "fractions")
    refuses(lambda: split_configs(g, (0.98, 0.01)), tg.DataError, "distinct")


# Fits


def test_same_seed_same_bits_for_any_number_of_threads():
    g = small_graph()
    results = []
    for count in (1, 2, 3):
        tg.set_num_threads(count)
        r = small_ranker(steps=8)
        r.fit(g, verbose=False)
        results.append(r.model.params.copy())
    assert (results[0] == results[1]).all() and (results[0] == results[2]).all()
    other = small_ranker(steps=8, seed=1)
    other.fit(g, verbose=False)
    assert (other.model.params != results[0]).any()


def test_a_fit_begins_anew():
    g, r = small_graph(), small_ranker(steps=5)
    r.fit(g, verbose=False)
    first = r.model.params.copy()
    r.partial_fit(g, [0, 1, 2])
    r.fit(g, verbose=False)
    assert (r.model.params == first).all()


def test_history_tells_what_happened():
    g = small_graph()
    rows = split_configs(g, (0.7, 0.3))
    r = small_ranker(steps=12)
    assert r.fit(g.select(rows[0]), g.select(rows[1]), verbose=False) is r
    h = r.history_
    assert h is r.history_ and h.steps == list(range(1, 13)) and len(h.loss) == len(h.learning_rate) == 12
    assert h.valid_steps == [5, 10, 12] and len(h.valid_metric) == 3
    assert h.best_metric == max(h.valid_metric)
    assert h.best_step == h.valid_steps[int(np.argmax(h.valid_metric))]
    assert not h.interrupted and h.stopped is None
    assert 0 < h.step_seconds < h.step_seconds + h.evaluation_seconds <= h.seconds and 0 <= h.waiting < 1
    assert "12 of 12 steps" in repr(h) and h.to_dict()["total_steps"] == 12


def test_the_best_parameters_are_kept():
    g = small_graph()
    held, rest = split_configs(g, (0.3, 0.7))
    valid = g.select(held)
    seen = {}

    class Record(Callback):
        def on_evaluate(self, fit, metric):
            seen[fit.step] = fit.model.params.copy()

    # A rate that destroys what was learnt makes the best parameters earlier ones for some seed.
    for seed in range(5):
        r = small_ranker(seed=seed, steps=20, evaluate_every=2, learning_rate=0.05)
        h = r.fit(g.select(rest), valid, verbose=False, callbacks=[Record()]).history_
        assert (r.model.params == seen[h.best_step]).all()
        assert tg.metrics.kendall_tau(r.predict(valid), valid.config_runtime) == h.best_metric
        if h.best_step < 20:
            return
    pytest.fail("no seed had its best parameters before the end")


def test_a_share_of_the_configs_can_be_held_out():
    r = small_ranker(steps=5)
    h = r.fit([small_graph(0), small_graph(1)], 0.25, verbose=False).history_
    assert len(h.valid_metric) == 1
    for share in (0.0, 1.0, -0.5):
        refuses(lambda: r.fit(small_graph(), share, verbose=False), tg.ConfigError, "valid")


def test_graphs_come_in_any_iterable():
    g, r = small_graph(), small_ranker(steps=5)
    expected = r.fit([g], (small_graph(i) for i in (1, 2)), verbose=False).history_.valid_metric
    assert r.fit((g,), [small_graph(1), small_graph(2)], verbose=False).history_.valid_metric == expected
    assert r.fit(iter([g]), [], verbose=False).history_.valid_metric == []


def test_evaluations_share_their_configs_among_the_graphs(monkeypatch):
    sizes = []
    real = tg.metrics.kendall_tau
    monkeypatch.setitem(
        training.fit.metrics.VALIDATION, "tau", lambda s, t: sizes.append(len(s)) or real(s, t)
    )
    r = small_ranker(steps=5, valid_configs=120)
    for valid, expected in (([small_graph(1)], [96]), ([small_graph(1), small_graph(2)], [60, 60])):
        sizes.clear()
        r.fit(small_graph(), valid, verbose=False)
        assert sizes == expected
    sizes.clear()
    r.fit(small_graph(), [small_graph(i) for i in range(4)], verbose=False)
    assert sizes == [50] * 4


def test_length_in_steps_or_epochs():
    g, r = small_graph(), small_ranker(steps=4)
    assert r.fit(g, verbose=False).history_.total_steps == 4
    assert r.fit([g, small_graph(1)], epochs=3, verbose=False).history_.total_steps == 6
    assert r.fit(g, steps=2, verbose=False).history_.total_steps == 2
    assert len(small_ranker(steps=None, epochs=3).fit([g, small_graph(1)], verbose=False).history_.loss) == 6
    for wrong in ({"steps": 0}, {"epochs": -1}, {"steps": 1, "epochs": 1}, {"steps": 2.5}):
        with pytest.raises(tg.ConfigError, match=r"steps|epochs"):
            r.fit(g, verbose=False, **wrong)


def test_collections_are_read_lazily_and_visited_once_per_epoch(monkeypatch):
    visited = []
    real = trainset.TrainingSet.prepared

    def get(self, index):
        visited.append(index)
        return real(self, index)

    monkeypatch.setattr(trainset.TrainingSet, "prepared", get)
    split = Lazy(0, 1, 2, 3)
    small_ranker(steps=12).fit(split, verbose=False)
    epochs = [visited[i : i + 4] for i in (0, 4, 8)]
    assert all(sorted(epoch) == [0, 1, 2, 3] for epoch in epochs) and len({tuple(e) for e in epochs}) > 1
    assert split.reads == 8  # once for the scaler, once to prepare
    monkeypatch.setattr(trainset, "CACHE_BYTES", 1)
    again = Lazy(0, 1, 2, 3)
    small_ranker(steps=12).fit(again, verbose=False)
    assert 8 < again.reads <= 16


def test_memory_does_not_change_the_result(monkeypatch):
    a, b = small_ranker(steps=10), small_ranker(steps=10)
    a.fit(Lazy(0, 1, 2), verbose=False)
    monkeypatch.setattr(trainset, "CACHE_BYTES", 1)
    b.fit(Lazy(0, 1, 2), verbose=False)
    assert (a.model.params == b.model.params).all()


def test_graphs_that_teach_nothing_are_left_out():
    same = small_graph(1, configs=30)
    same = same.replace(node_config_feat=np.zeros((30, 4, 18), np.int8), name="same")
    bare = small_graph(2).replace(config_runtime=np.zeros(96, np.int64), name="bare")
    r = small_ranker(steps=9)
    with pytest.warns(
        UserWarning, match="2 graphs left out of the fit: (same: node_config_feat|bare)"
    ) as told:
        h = r.fit([same, small_graph(0), bare], verbose=False).history_
    assert set(h.skipped) == {"same", "bare"} and len(h.loss) == 9
    assert len(told) == 1 and told[0].filename == __file__
    refuses(lambda: r.fit([same, bare], verbose=False), tg.DataError, "2 graphs")
    refuses(lambda: r.fit(same, verbose=False), tg.DataError, "same")
    refuses(lambda: r.fit(bare, verbose=False), tg.DataError, "placeholders")
    r = small_ranker(steps=5, seed=np.int64(3))
    with pytest.warns(UserWarning, match="left out of the fit"):
        h = r.fit((small_graph(0), bare), [bare, small_graph(1)], verbose=False).history_
    assert set(h.skipped) == {"bare"} and len(h.valid_metric) == 1
    refuses(lambda: r.fit(small_graph(0), [bare], verbose=False), tg.DataError, "placeholders")
    level = small_graph().replace(config_runtime=np.full(96, 7))
    refuses(lambda: r.fit(level, verbose=False), tg.DataError, "equal")
    refuses(lambda: r.fit([], verbose=False), tg.DataError, "one graph")
    for wrong in ("alexnet.npz", 3):
        refuses(lambda: r.fit(wrong, verbose=False), tg.ConfigError, "train")


def tile_graph():
    return madeup.graph("kernel_00")


def test_graphs_of_the_other_kind_are_refused_in_training_and_validation(tmp_path):
    tile, layout = tile_graph(), small_graph(0)
    for train, valid, what in (
        ([layout, tile], None, "train"),
        ([layout, tile], [layout], "train"),
        ([layout, tile], 0.25, "train"),
        (Both(layout, tile), None, "train"),
        ([tile, tile], None, "train"),
        (layout, [small_graph(1), tile], "valid"),
        (layout, [tile, small_graph(1)], "valid"),
    ):
        for checkpoints in (None, tmp_path):
            r = small_ranker(steps=4)
            with pytest.raises(tg.DataError, match=f"^{what}: kernel_00: .* found a TileGraph.*tg.Routed"):
                r.fit(train, valid, verbose=False, checkpoint_dir=checkpoints)
            assert not r.fitted
    with pytest.raises(tg.DataError, match="train: kernel_00.*TileGraph"):
        tg.train_seeds(train=[layout, tile], seeds=2, steps=2, verbose=False)
    refuses(lambda: r.fit(tile, verbose=False), tg.DataError, "TileGraph")


@pytest.mark.parametrize("recipe", ["eighth-lightgbm", "eleventh-lightgbm"])
def test_trees_refuse_graphs_of_the_other_kind(recipe):
    pytest.importorskip("lightgbm", reason="needs the extra [lightgbm]")
    with pytest.raises(tg.DataError, match="train: kernel_00.*TileGraph"):
        tg.Ranker(recipe, steps=2).fit([small_graph(0), tile_graph()], verbose=False)


class Both:
    """A sequence that reads its graphs when asked."""

    def __init__(self, *graphs):
        self.graphs = graphs

    def __len__(self):
        return len(self.graphs)

    def __getitem__(self, i):
        return self.graphs[i]


def test_the_warning_of_graphs_left_out_comes_once_for_all_seeds():
    bare = small_graph(2).replace(config_runtime=np.zeros(96, np.int64), name="bare")
    with pytest.warns(UserWarning, match="1 graph left out of the fit: bare: ") as told:
        tg.train_seeds(train=[small_graph(0), bare], seeds=2, steps=3, verbose=False)
    assert len(told) == 1


def test_fits_that_are_refused():
    g, r = small_graph(), small_ranker(steps=2)
    for wrong, fit in (
        ("stps", r.fit),
        ("ranker", r.fit),
        ("callbacks", lambda *a, **how: tg.train_members([r], *a, **how)),
    ):
        refuses(lambda: fit(g, **{wrong: []}), TypeError, f"'{wrong}'")
    for callbacks in (EarlyStopping(), [EarlyStopping], [print], print, None):
        refuses(lambda: r.fit(g, verbose=False, callbacks=callbacks), tg.ConfigError, "callbacks")
    odd = g.replace(config_runtime=np.where(np.arange(g.num_configs) == 3, 0, g.config_runtime))
    for use in (lambda: r.fit(odd, verbose=False), lambda: small_ranker().partial_fit(odd, [0, 1])):
        refuses(use, tg.DataError, "config 3")
    small_ranker(steps=2).fit(odd.select(odd.config_runtime > 0), verbose=False)
    for loss, target in (
        ({"loss": "log_mse"}, "percentile"),
        ({"loss": "lambda_rank", "gain": "inverse"}, "normal-score"),
    ):
        strict = small_ranker(loss=[loss], target=target, configs=96)
        refuses(
            lambda: strict.fit(g, verbose=False), tg.ConfigError, f"target='{target}'", "small0", loss["loss"]
        )


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (("x",), "tg.load"),
        (({"a": small_graph()},), "values"),
        ((["x", "y"],), "train: expected graphs"),
        ((small_graph(), ["x", small_graph()]), "valid: expected graphs"),
        ((small_graph(), 3), "between 0 and 1"),
        ((small_graph(), np.float32(1.5)), "between 0 and 1"),
    ],
)
def test_wrong_arguments_say_what_is_expected_and_leave_the_ranker_alone(arguments, word):
    g, r = small_graph(), small_ranker(steps=3)
    history = r.fit(g, verbose=False).history_
    scores = r.predict(g)
    refuses(lambda: r.fit(*arguments, verbose=False), tg.ConfigError, word)
    assert r.history_ is history and (r.predict(g) == scores).all()


def test_a_broken_checkpoint_leaves_the_ranker_alone(tmp_path):
    g, r = small_graph(), small_ranker(steps=3)
    r.fit(g, verbose=False)
    scores = r.predict(g)
    (tmp_path / training.CHECKPOINT).write_bytes(b"nonsense")
    with pytest.raises(tg.CheckpointError):
        r.fit(g, verbose=False, checkpoint_dir=tmp_path)
    assert (r.predict(g) == scores).all()


def test_a_share_may_be_any_real_number():
    h = small_ranker(steps=2).fit(small_graph(), np.float32(0.25), verbose=False).history_
    assert len(h.valid_metric) == 1


def test_divergence_is_reported():
    r = small_ranker(steps=30, learning_rate=10.0, clip=1e9, warmup=0.0, weight_decay=0.0)

    class Poison(Callback):
        def on_step(self, fit):
            if fit.step == 3:
                fit.model.params[:] = np.inf

    with pytest.raises(tg.Error, match=r"step 4.*learning_rate"):
        r.fit(small_graph(), verbose=False, callbacks=[Poison()])


def test_divergence_to_finite_losses_is_warned_of():
    def fit(factor, steps=40):
        class Shake(Callback):
            def on_step(self, fit):
                if fit.step == steps // 2:
                    fit.model.params[:] *= factor

        return small_ranker(steps=steps).fit(small_graph(), verbose=False, callbacks=[Shake()]).history_

    assert np.isfinite(fit(1).loss).all()
    with pytest.warns(UserWarning, match=r"diverged: the loss was 0\.\d+ in .*learning_rate below") as warned:
        history = fit(1000)
    assert np.isfinite(history.loss).all() and warned[0].filename == __file__
    with pytest.warns(UserWarning, match="diverged"):  # as few steps as there are
        fit(1000, steps=4)
    fit(1000, steps=1)


def test_cross_entropy_takes_targets_that_are_shares():
    terms = [{"loss": "cross_entropy"}]
    with pytest.raises(tg.ConfigError, match="target='log-runtime'.*cross_entropy"):
        small_ranker(loss=terms).fit(small_graph(), verbose=False)
    for target in ("min-max", "percentile"):
        ranker = small_ranker(loss=terms, target=target, steps=150)
        ranker.fit(small_graph(), verbose=False)
        graph = small_graph()
        assert tg.metrics.kendall_tau(ranker.predict(graph), graph.config_runtime) > 0.2


def test_a_bar_is_shown_when_asked_for(capsys, monkeypatch):
    monkeypatch.delitem(sys.modules, "ipykernel", raising=False)  # another test may have imported it
    small_ranker(steps=5).fit(small_graph(), 0.2, verbose=True)
    shown = capsys.readouterr().err
    assert "5/5" in shown and "loss=" in shown and "tau=" in shown
    small_ranker(steps=5).fit(small_graph())
    assert capsys.readouterr().err == ""


# Callbacks


def test_callbacks_see_every_event_and_can_stop():
    events = []

    class Watch(Callback):
        def on_fit_begin(self, fit):
            events.append(("begin", fit.step, fit.total))

        def on_step(self, fit):
            events.append(("step", fit.step))
            if fit.step == 6:
                fit.stop("enough")

        def on_evaluate(self, fit, metric):
            events.append(("evaluate", fit.step, metric))

        def on_fit_end(self, fit):
            events.append(("end", fit.step))

    h = small_ranker(steps=20).fit(small_graph(), 0.2, verbose=False, callbacks=[Watch()]).history_
    assert events[0] == ("begin", 0, 20) and events[-1] == ("end", 6)
    assert [e[1] for e in events if e[0] == "step"] == [1, 2, 3, 4, 5, 6]
    assert [e[1:] for e in events if e[0] == "evaluate"] == [(5, h.valid_metric[0])]
    assert h.stopped == "enough" and len(h.loss) == 6


def test_early_stopping_waits_for_its_patience():
    class Fake:
        step, why = 0, None

        def stop(self, why):
            self.why = why

    fit, stopping = Fake(), EarlyStopping(patience=2, min_delta=0.01)
    stopping.on_fit_begin(fit)
    for metric, waited in ((0.5, 0), (0.505, 1), (0.6, 0), (0.6, 1), (0.609, 2)):
        assert fit.why is None
        stopping.on_evaluate(fit, metric)
        assert stopping.waited == waited
    assert "2 evaluations" in fit.why
    for name, wrong in (("patience", 0), ("min_delta", -1.0)):
        with pytest.raises(tg.ConfigError, match=f"{name}: expected a"):
            EarlyStopping(**{name: wrong})


# Interruption


def test_an_interrupt_leaves_a_usable_ranker(tmp_path):
    class Press(Callback):
        def on_step(self, fit):
            if fit.step == 7 and fit.total == 20 and not fit.history.interrupted:
                signal.raise_signal(signal.SIGINT)

    g = small_graph()
    r = small_ranker()
    with pytest.warns(UserWarning, match="interrupted after step 7 of 20"):
        h = r.fit(g, 0.2, verbose=False, callbacks=[Press()]).history_
    assert h.interrupted and len(h.loss) == 7 and h.best_step == 5
    r.predict(g)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler

    r = small_ranker()
    with pytest.warns(UserWarning, match="same checkpoint_dir"):
        r.fit(g, 0.2, verbose=False, callbacks=[Press()], checkpoint_dir=tmp_path)
    resumed = r.fit(
        g, 0.2, verbose=False, callbacks=[type("Press", (Callback,), {})()], checkpoint_dir=tmp_path
    ).history_
    whole = small_ranker()
    assert whole.fit(g, 0.2, verbose=False).history_.loss == resumed.loss
    assert (whole.model.params == r.model.params).all()


class PressSoon(Callback):
    """Ctrl-C from another thread some time after step 7: in a step, in an evaluation, or between."""

    def __init__(self, delay=None):
        self.delay = delay

    def on_step(self, fit):
        if fit.step == 7 and self.delay is not None:
            threading.Timer(self.delay, os.kill, (os.getpid(), signal.SIGINT)).start()


def test_an_interrupt_at_any_moment_is_exact(tmp_path):
    g = small_graph(configs=300)
    fields = {"steps": 400, "evaluate_every": 4, "valid_configs": 300, "width": 64}
    whole = small_ranker(**fields)
    expected = whole.fit(g, 0.3, verbose=False, callbacks=[PressSoon()]).history_
    for attempt in range(6):
        r = small_ranker(**fields)
        folder = tmp_path / str(attempt)
        with pytest.warns(UserWarning, match="interrupted"):
            h = r.fit(
                g, 0.3, verbose=False, callbacks=[PressSoon(0.003 * attempt)], checkpoint_dir=folder
            ).history_
        assert 7 <= len(h.loss) < 400 and h.loss == expected.loss[: len(h.loss)]
        h = r.fit(g, 0.3, verbose=False, callbacks=[PressSoon()], checkpoint_dir=folder).history_
        assert h.loss == expected.loss and h.valid_metric == expected.valid_metric
        assert (r.model.params == whole.model.params).all()


class Interrupted(Callback):
    """Ctrl-C in the first step: while the gradients are made, or right after the update."""

    def __init__(self, after_update):
        self.after_update = after_update

    def on_fit_begin(self, fit):
        self.optimizer, fit.optimizer = fit.optimizer, self

    def gradients(self, *batch):
        if not self.after_update:
            raise KeyboardInterrupt
        return self.optimizer.gradients(*batch)

    @property
    def scores(self):
        return self.optimizer.scores

    def update(self, *step):
        self.optimizer.update(*step)
        raise KeyboardInterrupt


def test_an_interrupt_before_the_first_step_is_passed_on():
    r = small_ranker()
    with pytest.raises(KeyboardInterrupt):
        r.fit(small_graph(), verbose=False, callbacks=[Interrupted(after_update=False)])
    refuses(lambda: r.predict(small_graph()), tg.Error, "call fit")


def test_an_interrupt_after_an_update_keeps_the_step():
    r, twin = small_ranker(), small_ranker()
    with pytest.warns(UserWarning, match="interrupted after step 1 of 20"):
        h = r.fit(small_graph(), verbose=False, callbacks=[Interrupted(after_update=True)]).history_
    assert h.interrupted and len(h.loss) == len(h.learning_rate) == 1
    with pytest.warns(UserWarning, match="interrupted after step 1 of 20"):
        twin.fit(small_graph(), verbose=False, callbacks=[Interrupted(after_update=True)])
    assert (r.model.params == twin.model.params).all() and r.trainer.moment1.any()


def test_tile_graphs_can_be_split_too():
    graph = madeup.graph("kernel_01")
    parts = training.split_configs(graph, (0.5, 0.5), seed=1)
    assert sorted(np.concatenate(parts).tolist()) == list(range(graph.num_configs))
    chosen = [{row.tobytes() for row in graph.config_feat[part]} for part in parts]
    assert not chosen[0] & chosen[1]


def test_graphs_in_files_and_in_memory_train_alike(tmp_path):
    """Of a file only the different configs are inflated; nothing else may depend on it."""
    path = tmp_path / "g.npz"
    madeup.graph("long").select(np.resize(np.arange(6000), 9000)).save(path)
    results = []
    for touch in (False, True):
        graph, recipe = tg.load(path), get_recipe("first-layout")
        if touch:
            assert len(graph.config_digits) == graph.num_configs
        pipeline = Pipeline(recipe.preprocessing(recipe.fields())).fit([graph])
        prepared = pipeline.apply_measured(graph)
        assert graph._digits.in_file is not touch
        assert (prepared.kept is None) is not touch
        rows = np.array([0, 5, 9, 4_000, prepared.num_configs - 1])
        model = Trained(recipe.steps(recipe.fields()), 3, node_features=prepared.nodes.num_features)
        slate = prepared.slate(rows)
        results.append((prepared.runtimes, model.scores([slate])[0], prepared.nbytes))
        loss = model.step(
            [slate],
            [prepared.runtimes[rows]],
            loss=HINGE,
            lr=1e-3,
            weight_decay=0.0,
            clip=1.0,
            step=1,
            seed=7,
        )
        results[-1] += (loss, model.params.copy())
    for a, b in zip(*results, strict=True):
        if not isinstance(a, int):
            np.testing.assert_array_equal(a, b)
    assert results[0][2] < 0.7 * results[1][2]


def test_training_stops_after_validations_without_a_better_one(tmp_path):
    """With a learning rate of 0 no validation is better than the first."""

    def fit(steps=40, **fields):
        ranker = small_ranker(steps=steps, learning_rate=0.0, **fields)
        return ranker.fit(small_graph(), [small_graph(1)], checkpoint_dir=tmp_path, verbose=False).history_

    history = fit(stop_after=3)
    assert history.valid_steps == [5, 10, 15, 20] and len(history.loss) == 20
    assert history.stopped == "no better metric in 3 validations" and history.best_step == 5
    assert fit(stop_after=3).stopped == history.stopped  # from the checkpoint
    unlimited = (
        small_ranker(steps=40, learning_rate=0.0).fit(small_graph(), [small_graph(1)], verbose=False).history_
    )
    assert unlimited.stopped is None and len(unlimited.loss) == 40
