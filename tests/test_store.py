"""Prepared graphs of the core, their targets, scores of their configs, and the store that keeps them."""

import gc
import threading
import weakref
from statistics import NormalDist

import models
import numpy as np
import pytest
from refusals import refuses

import tpugraphs as tg
from tpugraphs import _core

RNG = np.random.default_rng(0)
COLUMNS = 11


def core_graph(configs=12, seed=0):
    return _core.ModelGraph(**models.graph_arrays(9, configs, 3, COLUMNS, seed))


def trained():
    return models.Trained(models.zoo(), 1, COLUMNS)


def mean_places(values):
    """Places from 0 on; equal values share the mean of theirs."""
    return np.array([(values < v).sum() + ((values == v).sum() - 1) / 2 for v in values])


def reference(times, target):
    """Targets in float64 NumPy."""
    ran = ~np.isnan(times)
    found, some = np.full(times.shape, np.nan), times[ran]
    match target:
        case "runtime":
            found[ran] = some
        case "seconds":
            found[ran] = some / 1e9
        case "log-runtime":
            found[ran] = np.log(some)
        case "min-max":
            spread = np.ptp(some)
            found[ran] = (some - some.min()) / spread if spread else 0.0
        case "percentile":
            found[ran] = mean_places(some) / max(1, some.size - 1)
        case "normal-score":
            found[ran] = [NormalDist().inv_cdf((p + 0.5) / some.size) for p in mean_places(some)]
    return found


# ---- targets ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", _core.target_names())
@pytest.mark.parametrize("n", [1, 2, 7, 300, 5000])
@pytest.mark.parametrize("kind", ["different", "tied", "some failed", "equal"])
def test_targets_are_those_of_the_reference(target, n, kind):
    times = RNG.random(n) * 1e6 + 1
    if kind == "tied":
        times = np.floor(times / 1e5) + 1
    if kind == "some failed":
        times[RNG.random(n) < 0.3] = np.nan
        times[0] = 5.0
    if kind == "equal":
        times[:] = 3.0
    np.testing.assert_allclose(
        _core.target_values(times, target), reference(times, target), rtol=1e-13, atol=1e-15
    )


def test_there_is_no_such_target():
    refuses(lambda: _core.target_values(np.ones(3), "speed"), ValueError, "target", "'speed'")
    refuses(lambda: _core.Prepared(core_graph(), "g").values("speed"), ValueError, "target")


def prepared(runtimes, **given):
    return _core.Prepared(core_graph(len(runtimes)), "g", measured=runtimes, **given)


def test_what_losses_compare_keeps_the_order_of_the_measurements():
    whole = RNG.integers(1, 9, 12) * 1000
    one = prepared(whole)
    assert one.runtimes.tolist() == one.across.tolist() == whole.tolist() and one.times is one.measured
    assert one.by_runtime.tolist() == np.argsort(whole, kind="stable").tolist()
    real = RNG.random(12)
    one = prepared(real)
    assert one.runtimes.tolist() == (np.unique(real, return_inverse=True)[1] + 1).tolist()
    assert (np.argsort(one.across, kind="stable") == np.argsort(real, kind="stable")).all()
    assert one.times is one.measured


def test_runtimes_of_kernels_are_normalised():
    runtimes, norms = RNG.integers(1, 50, 40) * 1000, RNG.integers(1, 9, 40) * 1000
    one, quotient = prepared(runtimes, normalizers=norms), runtimes / norms
    assert (one.times == quotient).all() and one.normalizers is norms
    assert one.runtimes.tolist() == (np.unique(quotient, return_inverse=True)[1] + 1).tolist()
    across = (runtimes / (norms / norms.mean()) / 1e6).astype(np.float32)
    assert (np.unique(one.across, return_inverse=True)[1] == np.unique(across, return_inverse=True)[1]).all()
    bare = prepared(np.zeros(40, np.int64), normalizers=norms)  # not measured
    assert bare.times is bare.measured and (bare.runtimes == 0).all()


def test_configs_that_failed_have_no_time():
    ran = np.arange(12) % 3 > 0
    one = prepared(np.arange(1, 13), valid=ran)
    assert (np.isnan(one.times) == ~ran).all() and (one.times[ran] == np.arange(1, 13)[ran]).all()
    assert prepared(np.arange(1, 13), valid=np.ones(12, np.bool_)).times.dtype == np.int64


# ---- slates -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("across", [False, True])
def test_prepared_slates_train_as_the_arrays_that_they_stand_for(weighted, across):
    graphs = [core_graph(12, seed) for seed in range(3)]
    kept = np.array([0, 3, 4, 7, 11, 2], np.int64)
    runtimes = [RNG.integers(1, 99, 6) for _ in graphs]
    weights = [RNG.random(6).astype(np.float32) if weighted and i != 1 else None for i in range(3)]
    made = [
        _core.Prepared(g, "g", measured=y, kept=kept, weights=w)
        for g, y, w in zip(graphs, runtimes, weights, strict=True)
    ]
    rows = [RNG.permutation(6)[:4].astype(np.int64) for _ in graphs]
    loss = [{"loss": "mse", "weight": 0.5}, *models.HINGE]
    one, other = trained(), trained()
    targets = {
        "order": [y[r] for y, r in zip(runtimes, rows, strict=True)],
        "value": [reference(y.astype(float), "percentile")[r] for y, r in zip(runtimes, rows, strict=True)],
    }
    if weighted:
        targets["weight"] = [
            np.ones(4, np.float32) if w is None else w[r] for w, r in zip(weights, rows, strict=True)
        ]
    plain = [(g, kept[r]) for g, r in zip(graphs, rows, strict=True)]
    expected, scores = one.trainer.gradients(plain, targets, loss, seed=3)
    slates = list(zip(made, rows, strict=True))
    found, again = other.trainer.gradients(slates, ("percentile", across), loss, seed=3)
    assert found == expected and all((a == b).all() for a, b in zip(scores, again, strict=True))
    assert (one.trainer.grads == other.trainer.grads).all()


def test_arrays_and_slates_that_cannot_be_are_refused():
    graph, two, whole = core_graph(), models.rows(2), np.arange(1, 13)
    for name, wrong in (
        ("measured", np.ones(3, np.float32)),
        ("measured", np.ones((2, 2))),
        ("normalizers", np.ones(5, np.int64)),
        ("kept", np.zeros(12)),
        ("weights", np.ones(12)),
        ("valid", np.ones(12, np.int8)),
    ):
        given = {"measured": whole, name: wrong}
        refuses(lambda: _core.Prepared(graph, "g", **given), ValueError, name)
    merged = _core.Prepared(graph, "g", measured=np.arange(1, 4), kept=np.array([0, 5, 11]))
    outside = _core.Prepared(graph, "g", measured=np.arange(1, 3), kept=np.array([0, 99]))
    bare = _core.Prepared(graph, "g", configs=False)
    fresh = trained()
    trainer, model = fresh.trainer, fresh.model
    for slates, error, *names in (
        ([(merged, np.array([0, 3]))], ValueError, "rows", "0..2", "got 3"),
        ([(merged, np.array([-1, 0]))], ValueError, "rows", "0..2", "got -1"),
        ([(bare, two)], ValueError, "configs"),
        ([(graph, two, 0)], TypeError, "tuple"),
        ([(merged, two, "first")], TypeError, "int"),
        ([merged], TypeError, "tuple"),
        ([(merged, two, 1, 2)], TypeError, "tuple"),
        ([(outside, two)], tg.DataError, "rows", "0..C-1"),
    ):
        refuses(lambda: model.scores(slates), error, *names)
    full = _core.Prepared(graph, "g", measured=whole)
    for slate, targets, error, *names in (
        ((graph, two), (None, False), ValueError, "prepared graph"),
        ((full, np.array([0, 12])), (None, False), ValueError, "rows", "12"),
        ((merged, two), (1, 2, 3), TypeError, "(value, across)"),
    ):
        refuses(lambda: trainer.gradients([slate], targets, models.HINGE), error, *names)
    one = _core.Prepared(graph, "some program")
    for arguments, error, *names in (
        ((one, two, 0), ValueError),
        ((one, two, 8, "f16"), ValueError),
        ((one, np.arange(2.0), 8), ValueError),
        ((graph, two, 8), TypeError),
        ((bare, two, 8), ValueError),
        ((one, np.array([99]), 8), tg.DataError, "config rows"),
    ):
        refuses(lambda: model.score_prepared(*arguments), error, *names)
    model.params[:] = np.nan
    refuses(
        lambda: model.score_prepared(one, np.array([7, 2]), 8), tg.Error, "some program", "config 7", "nan"
    )


# ---- scores -----------------------------------------------------------------------------------------------


def test_scores_of_chunks_and_of_segments_are_those_of_passes():
    model, done = trained().model, []
    whole = _core.Prepared(core_graph(40), "g", segments=4)
    rows = RNG.permutation(40)[:33].astype(np.int64)
    found = model.score_prepared(whole, rows, 10, done=done.append)
    assert done == [9, 8, 8, 8] and whole.num_segments > 1
    expected, at = [], 0
    for size in done:
        parts = [model.scores([slate])[0] for slate in whole.slates(rows[at : at + size])]
        expected.append(np.add.reduce(parts) if len(parts) < 3 else sum(parts[1:], parts[0]))
        at += size
    assert (found == np.concatenate(expected)).all()
    assert model.score_prepared(whole, rows[:0], 10).shape == (0,)


def test_progress_that_raises_ends_the_scoring():
    def stop(count):
        raise LookupError(f"after {count}")

    model, one = trained().model, _core.Prepared(core_graph(40), "g")
    refuses(lambda: model.score_prepared(one, models.rows(40), 8, done=stop), LookupError, "after 8")
    assert model.score_prepared(one, models.rows(40), 8).shape == (40,)


# ---- the store --------------------------------------------------------------------------------------------


class Key:
    """Something that can be weakly referenced."""


def test_what_was_used_longest_ago_goes_first():
    store, keys = _core.Store(nbytes=100), [Key() for _ in range(3)]
    for key in keys[:2]:
        store.put(key, id(key), 40)
    assert store.get(keys[0]) == id(keys[0]) and store.nbytes == 80
    store.put(keys[2], "c", 40)
    assert store.get(keys[1]) is None and store.get(keys[0]) is not None and len(store) == 2
    assert store.put(keys[2], "d", 10) == "d" and store.get(keys[2]) == "d" and store.nbytes == 50
    store.put(7, "large", 1000)  # what was used last stays, whatever its size
    assert store.get(7) == "large" and len(store) == 1
    store.clear()
    assert len(store) == store.nbytes == 0


def test_values_go_with_their_keys():
    store, key, value = _core.Store(), Key(), Key()
    gone = weakref.ref(value)
    store.put(key, value)
    del value
    assert gone() is not None
    del key
    gc.collect()
    assert gone() is None and len(store) == 0
    key = Key()
    store.put(key, "x")
    del store, key  # a key may outlive its store, too
    refuses(lambda: _core.Store().put(3.5, "x"), TypeError, "weak reference")


class Mapped:
    def __init__(self):
        self.nbytes, self.released = 50, 0
        self.mapped = self

    def release(self):
        self.released += 1


def test_pages_of_what_was_used_longest_ago_are_given_back():
    store, values = _core.Store(mapped=120), [Mapped() for _ in range(3)]
    for number, value in enumerate(values):
        store.put(number, value)
    assert [value.released for value in values] == [1, 0, 0] and len(store) == 3
    assert store.get(0) is values[0]  # its pages come back, and others go
    assert [value.released for value in values] == [1, 1, 0]


def test_errors_of_values_are_those_of_the_store():
    class Broken(Mapped):
        def release(self):
            raise LookupError("no such pages")

    store = _core.Store(mapped=1)
    store.put(0, Broken())
    with pytest.raises(LookupError):
        store.put(1, Mapped())
    broken = Mapped()
    broken.nbytes = "many"
    with pytest.raises(TypeError):
        store.put(2, broken)


def test_a_store_that_changes_itself_meanwhile():
    class Rude:
        def __del__(self):
            store.clear()

    store = _core.Store(nbytes=1)
    store.put(0, Rude(), 1)
    store.put(1, "x", 1)
    store.put(2, "y", 1)
    assert len(store) <= 1


def test_threads_may_share_a_store():
    store, keys = _core.Store(nbytes=5), [Key() for _ in range(8)]

    def work(seed):
        rng = np.random.default_rng(seed)
        for i in rng.integers(0, 8, 2000):
            found = store.get(keys[i])
            assert found in (None, int(i))
            if found is None:
                store.put(keys[i], int(i), 1)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(store) == 5
