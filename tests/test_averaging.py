"""Averages of the weights: what is in them, that they are what is validated and kept, and that they resume."""

from types import SimpleNamespace

import numpy as np
import pytest
from broken.rankers import rewrite
from rankers import Break, Lazy, small_graph, small_ranker, state
from refusals import refuses

import tpugraphs as tg
from tpugraphs import _core
from tpugraphs.training import CHECKPOINT, Callback
from tpugraphs.training.optimizer import Average

SOME = {
    "ema": {"average": "ema", "ema_decay": 0.8},
    "swa": {"average": "swa", "swa_start": 0.3, "swa_every": 3},
}
each = pytest.mark.parametrize("kind", SOME)


class Watch(Callback):
    """Keeps the weights after every step."""

    def __init__(self):
        self.seen = []

    def on_step(self, fit):
        self.seen.append(fit.model.params.copy())

    def state(self):
        return {}

    def restore(self, state):
        pass


def average(total, weights, **fields):
    given = {"average": "swa", "ema_decay": 0.999, "swa_start": 0.75, "swa_every": 10} | fields
    made = Average(SimpleNamespace(**given), total)
    for step, w in enumerate(weights, 1):
        assert (made.value is None) == (not made.begun(step - 1))
        made.add(step, np.array([w], np.float32))
    return None if made.value is None else float(made.value[0])


@pytest.mark.parametrize("n", [0, 1, 7, 100_000])
def test_an_average_moves_by_a_share_as_in_numpy(n):
    rng = np.random.default_rng(n)
    mean, w, found = rng.normal(size=n), rng.normal(size=n).astype(np.float32), []
    for threads in (1, 3):
        tg.set_num_threads(threads)
        moved = mean.copy()
        _core.average(moved, w, 0.3)
        found.append(moved.tobytes())
        np.testing.assert_allclose(moved, mean + 0.3 * (w - mean), rtol=1e-15, atol=1e-16)
    assert found[0] == found[1]
    for wrong in ((mean, w[:0].astype(np.float64), 0.3), (mean, np.zeros(n + 1, np.float32), 0.3)):
        with pytest.raises(tg.ShapeError, match="w: expected"):
            _core.average(*wrong)
    mean.flags.writeable = False
    with pytest.raises(ValueError, match="must be writable"):
        _core.average(mean, w, 0.3)


def test_the_mean_has_the_weights_that_are_said():
    steps = np.arange(1, 101)
    assert average(100, steps, swa_start=0.75, swa_every=10) == pytest.approx(np.mean([80, 90, 100]))
    assert average(100, steps, swa_start=0.0, swa_every=1) == pytest.approx(50.5)
    assert average(100, steps, swa_start=1.0, swa_every=7) == 100
    assert average(100, steps[:79], swa_start=0.75, swa_every=10) is None
    assert average(100, steps, average="none") is None
    assert average(1, [3], swa_every=10**9) == 3


def test_the_moving_average_follows_its_definition():
    weights = np.random.default_rng(0).normal(size=300).astype(np.float32)
    expected = float(weights[0])
    for step, w in enumerate(weights[1:].tolist(), 2):
        d = min(0.9, (1 + step) / (10 + step))
        expected = d * expected + (1 - d) * w
    assert average(300, weights, average="ema", ema_decay=0.9) == pytest.approx(expected, rel=1e-12)
    assert average(300, weights, average="ema", ema_decay=0.0) == weights[-1]


@each
def test_training_goes_on_as_without_and_the_ranker_has_the_average(kind):
    watch, plain = Watch(), Watch()
    ranker, without = small_ranker(**SOME[kind]), small_ranker()
    ranker.fit(small_graph(), callbacks=[watch], verbose=False)
    without.fit(small_graph(), callbacks=[plain], verbose=False)
    assert all((a == b).all() for a, b in zip(watch.seen, plain.seen, strict=True))
    if kind == "swa":  # after the steps 8, 11, 14, 17 and 20
        expected = np.mean([watch.seen[i].astype(np.float64) for i in range(7, 20, 3)], 0)
        np.testing.assert_allclose(ranker.model.params, expected, rtol=1e-6, atol=1e-9)
    assert (ranker.model.params != without.model.params).any()


@each
def test_averages_are_validated_and_the_best_is_kept(kind):
    graph, judged = small_graph(3), []

    class Judge(Callback):
        def on_evaluate(self, fit, metric):
            with fit.average.in_use(fit.model.params):
                judged.append((fit.step, metric, fit.model.params.copy()))

    ranker = small_ranker(**SOME[kind], valid_configs=96)
    history = ranker.fit(small_graph(), [graph], callbacks=[Judge()], verbose=False).history_
    best = next(params for step, _, params in judged if step == history.best_step)
    assert (ranker.model.params == best).all()
    assert tg.metrics.kendall_tau(ranker.predict(graph), graph.config_runtime) == history.best_metric


@each
@pytest.mark.parametrize("at", [1, 8, 12])
def test_a_fit_resumes_with_its_average(tmp_path, kind, at):
    def fit(folder, at=None):
        ranker = small_ranker(**SOME[kind])
        callbacks = [Break(at), Watch()]
        options = {"checkpoint_dir": folder, "checkpoint_every": 1, "verbose": False}
        return ranker, ranker.fit(Lazy(0, 1, 2), [small_graph(3)], callbacks=callbacks, **options).history_

    straight, history = fit(None)
    with pytest.raises(OSError, match="broken"):
        fit(tmp_path, at)
    again, resumed = fit(tmp_path)
    assert state(straight) == state(again) and history.valid_metric == resumed.valid_metric


def test_a_checkpoint_without_its_average_is_refused(tmp_path):
    def fit():
        small_ranker(**SOME["ema"]).fit(small_graph(), checkpoint_dir=tmp_path, verbose=False)

    fit()
    rewrite(tmp_path / CHECKPOINT, tmp_path / CHECKPOINT, lambda m, t: t.pop("average"))
    refuses(fit, tg.CheckpointError, "average")
