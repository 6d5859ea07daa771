"""Prepared graphs of the core, their targets, scores of their configs, and the store that keeps them."""

import gc
import threading
import weakref
from statistics import NormalDist

import models
import numpy as np
import pytest

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
    with pytest.raises(ValueError, match="target: there is none called 'speed'"):
        _core.target_values(np.ones(3), "speed")
    with pytest.raises(ValueError, match="target"):
        _core.Prepared(core_graph(), "g").values("speed")


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


def test_slates_that_cannot_be_are_refused():
    graph, model = core_graph(), trained()
    merged = _core.Prepared(graph, "g", measured=np.arange(1, 4), kept=np.array([0, 5, 11]))
    bare = _core.Prepared(graph, "g", configs=False)
    two = models.rows(2)
    for slates, error, text in (
        ([(merged, np.array([0, 3]))], ValueError, r"rows: expected 0\.\.2, got 3"),
        ([(merged, np.array([-1, 0]))], ValueError, r"rows: expected 0\.\.2, got -1"),
        ([(bare, two)], ValueError, "without its configs"),
        ([(graph, two, 0)], TypeError, "every entry must be a tuple"),
        ([(merged, two, "first")], TypeError, "int"),
        ([merged], TypeError, "every entry must be a tuple"),
        ([(merged, two, 1, 2)], TypeError, "every entry must be a tuple"),
    ):
        with pytest.raises(error, match=text):
            model.model.scores(slates)
    with pytest.raises(ValueError, match="no prepared graph"):
        model.trainer.gradients([(graph, two)], (None, False), models.HINGE)
    with pytest.raises(ValueError, match=r"rows: expected 0\.\.11, got 12"):
        whole = _core.Prepared(graph, "g", measured=np.arange(1, 13))
        model.trainer.gradients([(whole, np.array([0, 12]))], (None, False), models.HINGE)
    with pytest.raises(TypeError, match=r"targets must be \(value, across\)"):
        model.trainer.gradients([(merged, two)], (1, 2, 3), models.HINGE)


@pytest.mark.parametrize(
    "name, wrong",
    [
        ("measured", np.ones(3, np.float32)),
        ("measured", np.ones((2, 2))),
        ("normalizers", np.ones(5, np.int64)),
        ("kept", np.zeros(12)),
        ("weights", np.ones(12)),
        ("valid", np.ones(12, np.int8)),
    ],
)
def test_arrays_of_other_shapes_and_types_are_refused(name, wrong):
    given = {"measured": np.arange(1, 13), name: wrong}
    with pytest.raises(ValueError, match=name):
        _core.Prepared(core_graph(), "g", **given)


def test_rows_that_are_kept_are_rows_of_the_graph():
    one = _core.Prepared(core_graph(), "g", measured=np.arange(1, 3), kept=np.array([0, 99]))
    with pytest.raises(tg.DataError, match="config rows in 0..C-1"):
        trained().model.scores([(one, models.rows(2))])


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
    with pytest.raises(LookupError, match="after 8"):
        model.score_prepared(one, models.rows(40), 8, done=stop)
    assert model.score_prepared(one, models.rows(40), 8).shape == (40,)


def test_scores_that_are_no_numbers_name_graph_and_config():
    model, one = trained().model, _core.Prepared(core_graph(), "some program")
    model.params[:] = np.nan
    with pytest.raises(tg.Error, match=r"some program: the score of config 7 is -?nan: .* train again"):
        model.score_prepared(one, np.array([7, 2]), 8)


def test_what_cannot_be_scored():
    model, one = trained().model, _core.Prepared(core_graph(), "g")
    for arguments, error in (
        ((one, models.rows(2), 0), ValueError),
        ((one, models.rows(2), 8, "f16"), ValueError),
        ((one, np.arange(2.0), 8), ValueError),
        ((core_graph(), models.rows(2), 8), TypeError),
        ((_core.Prepared(core_graph(), "g", configs=False), models.rows(2), 8), ValueError),
    ):
        with pytest.raises(error):
            model.score_prepared(*arguments)
    with pytest.raises(tg.DataError, match="config rows"):
        model.score_prepared(one, np.array([99]), 8)


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
    with pytest.raises(TypeError, match="weak reference"):
        _core.Store().put(3.5, "x")


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
