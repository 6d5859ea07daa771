"""A fit that fails leaves what was learnt before, and until its end others predict with that."""

import importlib.util
import signal
import sys
import threading

import numpy as np
import pytest
from rankers import small_any, small_graph, small_ranker
from refusals import refuses

import tpugraphs as tg
from tpugraphs.ranker import (
    GaussianProcess,
    LinearBaseline,
    MeanEffect,
    MultiTaskGaussianProcess,
)
from tpugraphs.ranker.process import Process
from tpugraphs.training import Callback
from tpugraphs.training.fit import Fit

GRAPHS = [small_graph(0), small_graph(1)]
OTHER = small_graph(2)
needs_trees = pytest.mark.skipif(
    importlib.util.find_spec("lightgbm") is None, reason="needs LightGBM: pip install 'tpugraphs[lightgbm]'"
)


class Fails(Callback):
    """Does something after a step, the third by default."""

    def __init__(self, what, at=3):
        self.what, self.at = what, at

    def on_fit_begin(self, fit):
        self.on_step(fit)

    def on_step(self, fit):
        if fit.step == self.at:
            self.what()


def breaks():
    raise ZeroDivisionError("mine")


class Poison(Callback):
    def on_step(self, fit):
        if fit.step == 3:
            fit.model.params[:] = np.inf


def presses():
    signal.raise_signal(signal.SIGINT)


class Unreadable(list):
    """Graphs of which the second cannot be read."""

    def __getitem__(self, index):
        if index == 1:
            raise tg.DataError("damaged", file="b.npz")
        return super().__getitem__(index)


def nan_loss(scores, runtimes, lists):
    nan_loss.calls += 1
    return (float("nan") if nan_loss.calls > 3 else 1.0), np.ones_like(scores)


def ranker_of(recipe, steps):
    return (
        small_ranker(steps=steps)
        if recipe == "first-layout"
        else tg.Ranker(recipe, steps=steps, min_data_in_leaf=2)
    )


@pytest.mark.parametrize("recipe", ["first-layout", pytest.param("eighth-lightgbm", marks=needs_trees)])
@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize(
    ("failure", "error"),
    [
        ({"callbacks": [Fails(breaks)]}, ZeroDivisionError),
        ({"callbacks": [Fails(presses, 0)]}, KeyboardInterrupt),
        ({"train": Unreadable([OTHER, OTHER])}, tg.DataError),
        ({"train": [OTHER, 3]}, tg.ConfigError),
        ({"steps": -1}, tg.ConfigError),
    ],
)
def test_a_fit_that_fails_leaves_a_ranker_as_it_was(recipe, first, failure, error):
    ranker = ranker_of(recipe, 4)
    how = {"train": [OTHER], "verbose": False, **failure}
    if not first:
        ranker.fit(GRAPHS, verbose=False)
        before, history = ranker.predict(OTHER), ranker.history_
    with pytest.raises(error):
        ranker.fit(how.pop("train"), **how)
    assert ranker.fitted is not first
    if first:
        refuses(lambda: ranker.predict(OTHER), tg.Error, "call fit")
    else:
        assert (ranker.predict(OTHER) == before).all() and ranker.history_ is history
    assert ranker.fit([OTHER], verbose=False).history_.loss  # nothing is left locked


def test_training_that_diverges_leaves_a_ranker_as_it_was():
    ranker = small_ranker(steps=6).fit(GRAPHS, 0.2, verbose=False)
    before = ranker.predict(OTHER)
    refuses(lambda: ranker.fit([OTHER], callbacks=[Poison()], verbose=False), tg.Error, "diverged at step 4")
    assert (ranker.predict(OTHER) == before).all()
    own = tg.Ranker("graph-config", steps=2, width=16).fit(small_any(), verbose=False)
    before, nan_loss.calls = own.predict(small_any()), 0
    failing = tg.Ranker("graph-config", steps=6, width=16, loss=nan_loss)
    failing._take(own.estimator)
    refuses(lambda: failing.fit(small_any(1), verbose=False), tg.ConfigError, "nan_loss", "nan")
    assert (failing.predict(small_any()) == before).all()


def test_ctrl_c_ends_a_fit_with_what_it_learnt():
    """As promised: it returns, says so, and the ranker has the parameters so far."""
    ranker = small_ranker(steps=6).fit(GRAPHS, verbose=False)
    before = ranker.predict(OTHER)
    with pytest.warns(UserWarning, match="interrupted after step 3 of 6"):
        ranker.fit([OTHER], callbacks=[Fails(presses)], verbose=False)
    assert ranker.history_.interrupted and (ranker.predict(OTHER) != before).any()


class Looks(Callback):
    """Predicts with the ranker that is fitted, here and in another thread."""

    def __init__(self):
        self.seen = []

    def look(self, fit):
        here, there = [], []

        def predict(found):
            try:
                found.append(fit.ranker.predict(OTHER))
            except tg.Error as error:
                found.append(str(error))

        predict(here)
        thread = threading.Thread(target=predict, args=(there,))
        thread.start()
        thread.join()
        self.seen.append((here[0], there[0]))

    def on_fit_begin(self, fit):
        self.look(fit)

    def on_step(self, fit):
        self.look(fit)


@pytest.mark.parametrize("recipe", ["first-layout", pytest.param("eighth-lightgbm", marks=needs_trees)])
def test_predict_during_a_fit(recipe):
    """Callbacks see what is trained from the first step on, other threads what was learnt before."""
    ranker = ranker_of(recipe, 3)
    first = Looks()
    ranker.fit(GRAPHS, callbacks=[first], verbose=False)
    assert "has learnt nothing yet: its first fit is running" in first.seen[0][0]
    assert all(
        "its first fit is running: wait for its end before predict" in there for _, there in first.seen
    )
    old, again = ranker.predict(OTHER), Looks()
    assert (first.seen[-1][0] == old).all()
    ranker.fit([OTHER], callbacks=[again], verbose=False)
    assert (again.seen[0][0] == old).all()
    assert all((there == old).all() for _, there in again.seen) and len(again.seen) == 4
    assert all((here != old).any() for here, _ in again.seen[1:])
    assert (again.seen[-1][0] == ranker.predict(OTHER)).all()


def test_saved_and_copied_during_a_fit(tmp_path):
    """A callback may save what it has so far."""

    class Saves(Callback):
        def on_step(self, fit):
            fit.ranker.save(tmp_path / f"{fit.step}.safetensors")

    ranker = small_ranker(steps=3).fit(OTHER, callbacks=[Saves()], verbose=False)
    scores = [tg.load_ranker(tmp_path / f"{step}.safetensors").predict(OTHER) for step in (1, 3)]
    assert (scores[0] != scores[1]).any() and (scores[1] == ranker.predict(OTHER)).all()


# --- other scorers ------------------------------------------------------------------------------------------------


def failing_scorers(monkeypatch):
    """Fitted scorers, what they score, and a refit that fails midway."""
    layout, any_ = small_graph(), small_any()
    yield LinearBaseline().fit(layout), layout, lambda one: one.fit(small_any(5, configs=9))
    yield GaussianProcess().fit(any_), any_, lambda one: one.fit(small_any(5))
    yield MultiTaskGaussianProcess().fit([any_, small_any(1)]), any_, lambda one: one.fit([small_any(5)])
    other = tg.Graph(config_feat=np.ones((3, 1), np.float32), runtime=np.arange(1.0, 4.0))
    yield MeanEffect().fit([any_]), any_, lambda one: one.fit([other, layout])


@pytest.mark.parametrize("number", range(4))
def test_other_scorers_keep_what_they_learnt(number, monkeypatch):
    scorer, graph, refit = [*failing_scorers(monkeypatch)][number]
    before, state = scorer.predict(graph), dict(vars(scorer))
    if number < 3:
        monkeypatch.setattr(np.linalg, "solve", lambda *a: breaks())
        monkeypatch.setattr(np.linalg, "cholesky", lambda *a: breaks())
        monkeypatch.setattr(np.linalg, "eigh", lambda *a: breaks())
    with pytest.raises((ZeroDivisionError, tg.DataError)):
        refit(scorer)
    monkeypatch.undo()
    assert vars(scorer).keys() == state.keys()
    assert all(vars(scorer)[name] is value for name, value in state.items())
    assert (scorer.predict(graph) == before).all()
    assert not isinstance(scorer, Process) or scorer.choose(graph, 3).size == 3


def test_others_predict_with_one_fit_while_another_runs():
    """Threads take turns at any place: no prediction has parts of two fits."""
    two = [small_graph(seed, configs=300) for seed in (0, 3)]
    tables = [{**{name: [1, 2, 3, 4] * 9 for name in ("batch", "dim_input", "dim_output")}} for _ in range(2)]
    for i, table in enumerate(tables):
        table["ms"] = [0.1 + (1 + 3 * i) * value for value in table["batch"]]
    cases = [
        (LinearBaseline(), [lambda one, g=g: one.fit(g) for g in two], lambda one: one.predict(two[0])),
        (GaussianProcess(), [lambda one, s=s: one.fit(small_any(s, configs=9 + s)) for s in (0, 3)],
         lambda one: one.predict(small_any())),
        (tg.layertime.LayerTimeModel("dense", "roofline"), [lambda one, t=t: one.fit(t, "K40") for t in tables],
         lambda one: one.predict({**tables[0]}, "K40")),
    ]  # fmt: skip
    interval = sys.getswitchinterval()
    for scorer, fits, predict in cases:
        known = [predict(fit(scorer)) for fit in fits]
        found, done = [], threading.Event()

        def look(scorer=scorer, predict=predict, found=found, done=done):
            while not done.is_set():
                found.append(predict(scorer))

        thread = threading.Thread(target=look)
        sys.setswitchinterval(1e-6)
        try:
            thread.start()
            for _ in range(15):
                for fit in fits:
                    fit(scorer)
        finally:
            sys.setswitchinterval(interval)
            done.set()
            thread.join()
        assert found and (known[0] != known[1]).any()
        assert all(any((one == each).all() for each in known) for one in found)


@pytest.mark.parametrize("made", ["ensemble", "routed", "nested"])
@pytest.mark.parametrize("press", [breaks, presses])
@pytest.mark.filterwarnings("ignore:interrupted after")
def test_members_keep_what_they_learnt(made, press):
    """The first member has been trained again when the second one fails."""
    members = [small_ranker(steps=4, seed=seed).fit(GRAPHS, verbose=False) for seed in range(2)]
    if made == "routed":
        key = f"{OTHER.num_nodes}x{OTHER.num_edges}"
        small = small_graph(3, nodes=9)
        scorer = tg.Routed({key: members[0], "*": members[1]}, by="shape")
        train = [OTHER, small]
    else:
        scorer = tg.Ensemble(members)
        scorer = tg.Ensemble([scorer, members[1]]) if made == "nested" else scorer
        train = [OTHER]
    before = [member.predict(OTHER) for member in members]
    trained = []

    class Second(Callback):
        def on_step(self, fit):
            trained.append(fit.ranker.seed)
            if fit.ranker.seed == 1 and fit.step == 2:
                press()

    with pytest.raises((ZeroDivisionError, KeyboardInterrupt)):
        scorer.fit(train, callbacks=[Second()], verbose=False)
    assert trained.count(0) == 4 and trained.count(1) >= 2
    assert all((m.predict(OTHER) == b).all() for m, b in zip(members, before, strict=True))


def test_routes_that_had_learnt_nothing_keep_what_was_finished():
    members = [small_ranker(steps=2, seed=seed) for seed in range(2)]
    scorer = tg.Routed({f"{OTHER.num_nodes}x{OTHER.num_edges}": members[0], "*": members[1]}, by="shape")
    with pytest.raises(tg.DataError):
        scorer.fit([OTHER, small_graph(3, nodes=9, config_runtime=np.ones(96, np.int64))], verbose=False)
    assert [member.fitted for member in members] == [True, False]


def test_train_members_that_fails_keeps_what_they_learnt(monkeypatch):
    members = [small_ranker(steps=4, seed=seed).fit(GRAPHS, verbose=False) for seed in range(2)]
    before = [member.predict(OTHER) for member in members]

    def poisoned(fit, interrupts):
        if fit.step == 3:
            fit.model.params[:] = np.inf
        return real(fit, interrupts)

    real = Fit.advance
    with monkeypatch.context() as patch:
        patch.setattr(Fit, "advance", poisoned)
        with pytest.raises(tg.Error, match="diverged at step 4"):
            tg.train_members(members, [OTHER], steps=30, verbose=False)
    assert all((m.predict(OTHER) == b).all() for m, b in zip(members, before, strict=True))
    assert len(tg.train_members(members[:1], [OTHER], steps=3, verbose=False)) == 1
    assert (members[0].predict(OTHER) != before[0]).any()


def test_layer_models_keep_what_they_learnt(monkeypatch):
    rng = np.random.default_rng(0)
    table = {name: rng.integers(1, 500, 120) for name in ("batch", "dim_input", "dim_output")}
    table["ms"] = 1e-3 * table["batch"] * table["dim_input"] + 0.1
    model = tg.layertime.LayerTimeModel("dense", method="residual", steps=20).fit(table, "V100")
    before, state = model.predict(table, "V100"), dict(vars(model))
    calls = []

    def third(self, *args, **kwargs):
        calls.append(self)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return real(self, *args, **kwargs)

    real = tg.Ranker.fit
    monkeypatch.setattr(tg.Ranker, "fit", third)
    with pytest.raises(KeyboardInterrupt):
        model.fit({**table, "ms": 2 * table["ms"]}, "V100")
    with pytest.raises(tg.DataError):
        model.fit({**table, "ms": -table["ms"]}, "V100")
    assert all(vars(model)[name] is value for name, value in state.items())
    assert (model.predict(table, "V100") == before).all()
