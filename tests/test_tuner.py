"""Tuners: their surrogates against references, what they ask for, what they learn from, and what they refuse."""

import json
import math

import numpy as np
import pytest
from reference import surrogate
from refusals import refuses

import tpugraphs as tg
from tpugraphs import _core
from tpugraphs.errors import ConfigError
from tpugraphs.records import Record

SPACE = tg.Space({"a": tg.Space.integers(0, 15), "b": tg.Space.integers(0, 15)}, ["a + b <= 24"])
LARGE = tg.Space(
    {**{f"p{i}": tg.Space.integers(0, 9) for i in range(9)}, "order": tg.Space.permutation(5)},
    ["p0 + p1 <= 12"],
)


def bowl(config, a=11, b=4):
    return 1 + (config["a"] - a) ** 2 + 0.5 * (config["b"] - b) ** 2


def keys(configs):
    return [tuple(config.items()) for config in configs]


def run(tuner, cost, steps, batch=1):
    """Ask and tell; the best so far after each batch."""
    for _ in range(steps):
        asked = tuner.ask(batch)
        tuner.tell(asked, [cost(config) for config in asked])
    return tuner


def rows(n=30, m=50, F=4, seed=0):
    rng = np.random.default_rng(seed)
    x, pool = rng.random((n, F)), rng.random((m, F))
    y = np.sin(4 * x[:, 0]) + x[:, 1] ** 2 + 0.05 * rng.normal(size=n)
    return x, (y - y.mean()) / y.std(), pool


@pytest.fixture
def threads():
    before = tg.get_num_threads()
    yield tg.set_num_threads
    tg.set_num_threads(before)


# ---- trees ------------------------------------------------------------------------------------------------


def test_trees_are_exact_where_they_were_grown_and_stay_within_what_they_saw():
    x, y, pool = rows(60, 400)
    np.testing.assert_allclose(_core.tree_means(x, y, x, 20, 1), y, rtol=1e-6, atol=1e-7)
    found = _core.tree_means(x, y, 3 * pool - 1, 20, 1)
    assert found.min() >= y.min() - 1e-6 and found.max() <= y.max() + 1e-6
    assert np.unique(found).size > 20
    assert np.array_equal(_core.tree_means(x[:1], y[:1], pool, 3, 0), np.full(400, np.float32(y[0]), float))


def test_trees_find_the_column_that_counts():
    x, _, pool = rows(200, 300, 6, 2)
    found = _core.tree_means(x, x[:, 2] * 5, pool, 60, 0)
    assert np.corrcoef(found, pool[:, 2])[0, 1] > 0.95


def test_rows_that_are_alike_share_their_mean():
    x, y = np.repeat(np.eye(3), 2, 0), np.array([0.0, 2, 4, 6, 8, 10])
    np.testing.assert_allclose(_core.tree_means(x, y, np.eye(3), 10, 0), [1, 5, 9])


def test_trees_do_not_see_units_of_columns():
    """Powers of two and shifts by them change no bit of where thresholds lie."""
    x, y, pool = rows(40, 100)
    x, pool = np.round(x * 64) / 64, np.round(pool * 64) / 64
    by, shift = np.array([2.0, 0.5, 8, 1]), np.array([1.0, 4, 0, -2])
    expected = _core.tree_means(x, y, pool, 10, 3)
    found = _core.tree_means(x * by + shift, y, pool * by + shift, 10, 3)
    assert np.mean(np.isclose(expected, found)) > 0.98
    np.testing.assert_allclose(_core.tree_means(x, 2 * y, pool, 10, 3), 2 * expected, rtol=1e-6)


def test_trees_and_choices_are_the_same_bits_for_any_number_of_threads(threads):
    x, y, pool = rows(200, 3000, 6)
    cause = (np.arange(200) % 9 == 0).astype(np.int32)
    found = []
    for number in (1, 2, 3):
        threads(number)
        chosen, *how = _core.next_configs(x, y, cause, pool, 8, True, 5)
        mean = _core.process(x, y, pool, np.zeros(8), True, 6)
        found.append(
            [_core.tree_means(x, y, pool, 40, 7).tobytes(), chosen.tobytes(), repr(how)]
            + [np.asarray(one).tobytes() for one in mean]
        )
    assert found[0] == found[1] == found[2]
    assert found[0][0] != _core.tree_means(x, y, pool, 40, 8).tobytes()


# ---- the process ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("n, F", [(1, 1), (2, 3), (25, 4), (80, 7)])
def test_the_process_agrees_with_its_reference(n, F, seed):
    rng = np.random.default_rng(seed)
    x, pool, y = rng.random((n, F)), rng.random((90, F)), rng.normal(size=n)
    logs = np.concatenate([rng.normal(size=F), [0.3 * rng.normal(), -3 + rng.normal()]])
    value, gradient, left_out, mean, bound, chosen = _core.process(x, y, pool, logs, False, 6)
    assert value == pytest.approx(surrogate.value(x, y, logs), rel=1e-10)
    expected = surrogate.gradient(x, y, logs)
    np.testing.assert_allclose(gradient, expected, rtol=1e-6, atol=1e-6 * np.abs(expected).max())
    expected, variance = surrogate.predict(x, y, pool, logs)
    np.testing.assert_allclose(mean, expected, rtol=1e-8, atol=1e-9)
    assert (bound >= variance - 1e-9).all() and (bound <= np.exp(logs[-2]) + 1e-12).all()
    if n > 1:
        np.testing.assert_allclose(left_out, surrogate.left_out(x, y, logs), rtol=1e-7, atol=1e-8)
    assert chosen.tolist() == surrogate.choose(x, y, pool, logs, False, 6)
    likely = _core.process(x, y, pool, logs, True, 6)[-1].tolist()
    assert likely == surrogate.choose(x, y, pool, logs, True, 6)


def test_a_batch_is_spread_and_ignorance_alone_decides_without_a_slope():
    x, y, pool = rows(5, 200, 2)
    logs = np.array([1.0, 1.0, 0.0, -4.0])
    chosen = _core.process(x, 0 * y, pool, logs, False, 10)[-1]
    assert np.unique(chosen).size == 10
    apart = np.sqrt(((pool[chosen][:, None] - pool[chosen][None]) ** 2).sum(2)) + 9 * np.eye(10)
    assert apart.min() > 0.1


def test_rows_that_are_equal_leave_a_process_definite():
    x, y, pool = np.ones((40, 2)), np.arange(40.0), np.random.default_rng(0).random((20, 2))
    value, gradient, *found, chosen = _core.process(x, y, pool, np.array([0.0, 0, 7, -7]), True, 20)
    assert (
        math.isfinite(value) and np.isfinite(gradient).all() and all(np.isfinite(one).all() for one in found)
    )
    assert sorted(chosen) == list(range(20))


# ---- faces of C: hostile arguments ------------------------------------------------------------------------

X, Y, POOL = rows(6, 9, 2)
NAN, HUGE = np.full((6, 2), np.nan), np.full((6, 2), 1e301)
CAUSE, LOGS = np.zeros(6, np.int32), np.zeros(4)


@pytest.mark.parametrize(
    "call, names",
    [
        (lambda: _core.tree_means(NAN, Y, POOL, 3, 0), ["x"]),
        (lambda: _core.tree_means(HUGE, Y, POOL, 3, 0), ["x"]),
        (lambda: _core.tree_means(X, NAN[:, 0].copy(), POOL, 3, 0), ["y"]),
        (lambda: _core.tree_means(X, Y, np.full((2, 2), np.inf), 3, 0), ["pool"]),
        (lambda: _core.tree_means(X, Y[:5], POOL, 3, 0), ["y", "(5,)"]),
        (lambda: _core.tree_means(X, Y, POOL[:, :1].copy(), 3, 0), ["pool"]),
        (lambda: _core.tree_means(X[:0], Y[:0], POOL, 3, 0), ["rows"]),
        (lambda: _core.tree_means(X, Y, POOL, 0, 0), ["trees"]),
        (lambda: _core.tree_means(X, Y, POOL, 10**6, 0), ["trees"]),
        (lambda: _core.tree_means(X[:, :0].copy(), Y, POOL[:, :0].copy(), 3, 0), ["columns"]),
        (
            lambda: _core.tree_means(np.zeros((1, 5000)), Y[:1], np.zeros((1, 5000)), 3, 0),
            ["columns", "5000"],
        ),
        (lambda: _core.tree_means(X.astype(np.float32), Y, POOL, 3, 0), ["x", "float32"]),
        (lambda: _core.tree_means(X.tolist(), Y, POOL, 3, 0), ["x", "list"]),
        (lambda: _core.tree_means(X[::2], Y[:3], POOL, 3, 0), ["x"]),
        (lambda: _core.process(X, Y, POOL, LOGS[:3], True, 1), ["logs"]),
        (lambda: _core.process(X, Y, POOL, LOGS * np.nan, True, 1), ["logs"]),
        (lambda: _core.process(X, Y, POOL, LOGS, True, 10), ["count"]),
        (lambda: _core.process(X, Y, POOL, LOGS, True, -1), ["count"]),
        (lambda: _core.process(np.zeros((301, 2)), np.zeros(301), POOL, LOGS, True, 1), ["300"]),
        (lambda: _core.next_configs(X, Y, CAUSE, POOL, 10, True, 0), ["count"]),
        (lambda: _core.next_configs(X, Y, CAUSE, POOL, -1, True, 0), ["count"]),
        (lambda: _core.next_configs(X, Y, CAUSE - 1, POOL, 1, True, 0), ["cause", "-1"]),
        (lambda: _core.next_configs(X, Y, CAUSE + 8, POOL, 1, True, 0), ["cause", "8"]),
        (lambda: _core.next_configs(X, Y, CAUSE + 1, POOL, 1, True, 0), ["2 rows"]),
        (lambda: _core.next_configs(X, Y, CAUSE.astype(np.int64), POOL, 1, True, 0), ["cause", "int64"]),
        (lambda: _core.next_configs(NAN, Y, CAUSE, POOL, 1, True, 0), ["x"]),
        (lambda: _core.first_configs(X, POOL, 10, 0), ["count"]),
        (lambda: _core.first_configs(X, POOL, -1, 0), ["count"]),
        (lambda: _core.first_configs(X, POOL[:, :1].copy(), 1, 0), ["pool"]),
    ],
)
def test_arrays_that_are_refused(call, names):
    refuses(call, (ValueError, TypeError), *names)


def test_values_at_the_edge_of_floats_choose_distinct_rows():
    for x in (X * 1e299, X * 1e-299, X * 0):
        for y in (Y * 1e299, Y * 0, Y):
            for cause in (CAUSE, np.array([0, 0, 1, 2, 7, 1], np.int32)):
                chosen = _core.next_configs(x, y, cause, POOL * 1e299, 9, True, 2**64 - 1)[0]
                assert sorted(chosen) == list(range(9))
    for x in (NAN, HUGE, X[:0], X):
        for pool in (POOL, POOL * np.nan, POOL * 1e300):
            assert sorted(_core.first_configs(x, pool, 9, 0)) == list(range(9))


def test_nothing_to_choose_from_is_nothing_chosen():
    assert _core.next_configs(X, Y, CAUSE, POOL[:0], 0, True, 0)[0].size == 0
    assert _core.tree_means(X, Y, POOL[:0], 3, 0).shape == (0,)
    assert _core.first_configs(X, POOL[:0], 0, 0).size == 0


# ---- asking -----------------------------------------------------------------------------------------------


def test_asking_changes_nothing_and_a_tuner_told_again_asks_the_same(threads):
    told = []
    tuner = run(tg.Tuner(SPACE, seed=3), lambda config: told.append(config) or bowl(config), 6, 3)
    first = tuner.ask(5)
    assert len(told) == tuner.records >= 6
    assert tuner.ask(5) == first and tuner.ask(2) == tuner.ask(2)
    again = tg.Tuner(SPACE, seed=3)
    for number in (1, 2, 3):
        threads(number)
        again = tg.Tuner(SPACE, seed=3)
        for config in told:
            again.tell(config, bowl(config))
        assert again.ask(5) == first


def test_every_seed_counts_in_a_large_space():
    seeds = [0, 1, 2**32, 2**32 + 1, 2**40]
    assert len({str(tg.Tuner(LARGE, seed=seed).ask(3)) for seed in seeds}) == len(seeds)


@pytest.mark.parametrize("seed", range(3))
def test_what_is_asked_is_feasible_distinct_and_never_told(seed):
    tuner, seen = tg.Tuner(LARGE, seed=seed), set()
    for _ in range(8):
        asked = tuner.ask(4)
        assert len(asked) == 4 and all(config in LARGE for config in asked)
        assert len(set(keys(asked))) == 4 and not seen & set(keys(asked))
        seen |= set(keys(asked))
        tuner.tell(asked, [1 + sum(c[f"p{i}"] for i in range(9)) + c["order"][0] for c in asked])
    assert tuner.records == 32 and tuner.best_runtime < 25
    assert len(set(keys(tuner.ask(4000)))) == 4000


def test_a_space_is_asked_to_its_end():
    space = tg.Space({"a": [1, 2, 4], "b": tg.Space.flag()})
    tuner = tg.Tuner(space)
    assert len(tuner.ask(100)) == 6
    run(tuner, lambda c: c["a"] + c["b"], 3, 2)
    assert tuner.ask(3) == [] and tuner.records == 6
    assert tuner.best == {"a": 1, "b": False}


def test_the_default_comes_first_until_it_was_told_or_is_pending():
    space = tg.Space({"a": tg.Space.integers(0, 9)}, default={"a": 7})
    tuner = tg.Tuner(space)
    assert tuner.ask()[0] == {"a": 7} == tuner.ask(4)[0]
    assert {"a": 7} not in tuner.ask(9, pending=[{"a": 7}]) and len(tuner.ask(10, pending={"a": 7})) == 9
    for a in range(5):
        tuner.tell({"a": a}, 10 - a)
    assert tuner.ask()[0] == {"a": 7}
    tuner.tell({"a": 7}, 1.0)
    assert {"a": 7} not in tuner.ask(9)


def test_pending_configs_are_not_asked_for():
    tuner = run(tg.Tuner(SPACE), bowl, 8)
    first = tuner.ask(4)
    assert not {*keys(first)} & {*keys(tuner.ask(8, pending=first))}
    assert tuner.ask(4) == first


def test_the_order_of_values_in_a_table_is_the_only_one_that_counts():
    """The rows of a table that stand elsewhere are the same configs."""
    table = [{"a": a, "b": b} for a in range(6) for b in range(6)]
    tuners = [tg.Tuner(tg.Space.from_table(order)) for order in (table, sorted(table, key=lambda c: c["b"]))]
    for tuner in tuners:
        for config in table[::4]:
            tuner.tell(config, bowl(config))
        assert len(tuner.ask(27)) == 27 and all(config in table for config in tuner.ask(27))


# ---- learning ---------------------------------------------------------------------------------------------


def rugged(config):
    return 1 + abs(config["a"] - 12) + 2 * abs(config["b"] - 3) + 0.5 * abs(config["a"] - config["b"] - 9)


@pytest.mark.parametrize("cost", [bowl, rugged])
def test_smooth_problems_take_far_fewer_than_by_chance(cost):
    """The rank of the best of 20 of 228 configs, over 5 seeds."""
    ranks = {"tuner": 0, "chance": 0}
    every = np.sort([cost(config) for config in SPACE.sample(256, 0)])
    for seed in range(5):
        ranks["tuner"] += np.searchsorted(every, run(tg.Tuner(SPACE, seed=seed), cost, 20).best_runtime)
        ranks["chance"] += np.searchsorted(every, min(map(cost, SPACE.sample(20, seed))))
    assert ranks["tuner"] < 0.3 * ranks["chance"]
    assert ranks["tuner"] <= 10


def test_large_values_are_sought_where_these_are_good():
    tuner = run(tg.Tuner(SPACE, direction="maximize"), lambda c: 1000 / bowl(c), 20)
    assert tuner.best_runtime >= 1000 / 3
    report = tuner.report()
    assert report.runtime == max(report.runtimes) == report.curve()[-1]
    assert (np.diff(report.curve()) >= 0).all()
    other = run(tg.Tuner(SPACE), bowl, 20)
    assert other._measured().tolist() == tuner._measured().tolist()


@pytest.mark.parametrize("gaining", [False, True])
@pytest.mark.parametrize("cause", [1, 3, 7])
def test_a_half_that_fails_is_kept_away_from(cause, gaining):
    rng = np.random.default_rng(cause)
    x, pool = rng.random((60, 2)), rng.random((500, 2))
    bad, y = x[:, 0] > 0.6, (x[:, 1] - 0.5) ** 2 * 8
    causes = np.where(bad, cause, 0).astype(np.int32)
    chosen = _core.next_configs(x, np.where(bad, 0, y - y.mean()), causes, pool, 8, gaining, 0)[0]
    assert (pool[chosen, 0] > 0.6).sum() <= 1  # of 8; by chance 3


@pytest.mark.parametrize("status", ["compile", "runtime", "timeout", "correctness", "constraints"])
def test_what_failed_is_never_asked_again_and_the_best_that_runs_is_near(status):
    """Half of the space fails, the half in which small costs would be; 17 is the least of the other."""
    tuner, failed = tg.Tuner(SPACE, seed=1), set()
    for _ in range(30):
        (config,) = tuner.ask()
        bad = config["a"] > 7
        assert tuple(config.items()) not in failed
        tuner.tell(config, math.nan if bad else bowl(config), status if bad else None)
        failed |= {tuple(config.items())} if bad else set()
    assert tuner.best["a"] <= 7 and tuner.best_runtime <= 25
    assert tuner.report().failures == {status: len(failed)}


def test_a_tuner_goes_on_when_all_fail():
    tuner = tg.Tuner(SPACE)
    run(tuner, lambda c: math.nan, 10)
    assert tuner.best is None and math.isnan(tuner.best_runtime) and len(tuner.ask(3)) == 3
    assert tuner.report().failures == {"runtime": 10}


def test_repeats_count_by_their_median_and_telling_again_adds_to_them():
    tuner = tg.Tuner(SPACE)
    one, two = {"a": 0, "b": 0}, {"a": 1, "b": 1}
    tuner.tell([one, two], [[1.0, 9.0, 5.0], [4.0, math.nan, 4.0]])
    assert tuner.best == two and tuner.best_runtime == 4 and tuner.records == 2
    tuner.tell(one, [1.0, 1.0])
    assert tuner.best == one and tuner.best_runtime == 1 and tuner.records == 3
    tuner.tell(one, math.nan, "timeout")
    assert tuner.best == two
    tuner.tell(np.array([two]).tolist(), np.float32([[0.5, 0.5, 0.5]]))
    assert tuner.best_runtime == 0.5
    tuner.tell([], [])
    assert tuner.records == 5


def test_nothing_is_learnt_from_a_telling_that_is_refused():
    tuner = tg.Tuner(SPACE)
    good = {"a": 0, "b": 0}
    refuses(lambda: tuner.tell([good, {"a": 1, "b": 1}], [1.0, -1.0]), ConfigError, "-1.0")
    assert tuner.records == 0 and tuner.best is None


# ---- priors -----------------------------------------------------------------------------------------------


def records_of(cost, device, problem="p", every=3):
    configs = SPACE.sample(256, 0)[::every]
    return [Record(config, (cost(config),), problem=problem, device=device) for config in configs]


def test_priors_of_equal_names_are_told_apart(tmp_path):
    paths = [tmp_path / name / "gpu.csv" for name in ("one", "two")]
    for path in paths:
        path.parent.mkdir()
        path.write_text("a,b,runtime\n" + "".join(f"{a},{a},{a + 1}\n" for a in range(8)))
    tuner = run(tg.Tuner(SPACE, records=paths), bowl, 5)
    assert list(tuner.report().priors) == ["gpu.csv", "gpu.csv (2)"]


def test_asking_one_by_one_is_as_asking_for_several():
    """What is wanted depends on what was told when the tuner last learnt, not on how often it was asked."""
    tuner, other = (run(tg.Tuner(SPACE, seed=3), bowl, 81) for _ in range(2))
    several = tuner.ask(3)
    for config in several:
        assert other.ask() == [config]
        other.tell(config, bowl(config))
    tuner.tell(several, [bowl(config) for config in several])
    assert tuner.ask(5) == other.ask(5)
    fresh = tg.Tuner(SPACE, seed=3)
    for config, value in [(c, bowl(c)) for c in other.space.configs(other._measured())]:
        fresh.tell(config, value)
    assert fresh.ask(5) == other.ask(5)


@pytest.mark.parametrize(
    ("best_at", "count", "gaining"), [(3, 59, True), (3, 60, False), (39, 60, False), (40, 60, True)]
)
def test_without_a_gain_for_20_measurements_it_looks_elsewhere(best_at, count, gaining, monkeypatch):
    said, ask = [], _core.next_configs

    def asked(*given):
        said.append(given[5])
        return ask(*given)

    monkeypatch.setattr(_core, "next_configs", asked)
    tuner = tg.Tuner(SPACE, seed=1)
    for i, config in enumerate(tg.Tuner(SPACE, seed=2).ask(count)):
        tuner.tell(config, 0.5 if i == best_at else bowl(config))
    assert len(tuner.ask(2)) == 2 and said == [gaining]


def test_records_of_another_device_lead_the_first_configs():
    tuner = tg.Tuner(SPACE, records=records_of(bowl, "old"), problem="p", device="new")
    assert tuner.records == 0
    assert np.median([bowl(config) for config in tuner.ask(8)]) < 12
    assert np.median([bowl(config) for config in tg.Tuner(SPACE).ask(8)]) > 24
    run(tuner, bowl, 6)
    assert tuner.best_runtime <= 2
    ((name, tau),) = tuner.report().priors.items()
    assert "p" in name and "old" in name and tau > 0.3


@pytest.mark.parametrize("seed", range(3))
def test_a_prior_that_misleads_is_corrected(seed):
    records = records_of(lambda c: 1 / bowl(c), "old")
    tuner = run(tg.Tuner(SPACE, records=records, seed=seed, problem="p", device="new"), bowl, 30)
    assert tuner.best_runtime <= 3
    assert next(iter(tuner.report().priors.values())) < 0


def test_records_of_the_same_problem_and_device_count_as_told(tmp_path):
    records = [*records_of(bowl, "new", every=9), Record({"a": 0, "b": 1}, (), "compile", "p", "new")]
    tuner = tg.Tuner(SPACE, records=records, problem="p", device="new")
    told = tg.Tuner(SPACE)
    for one in records:
        told.tell(one.config, one.runtimes or math.nan, one.status)
    assert tuner.records == len(records) == told.records
    assert tuner.ask(4) == told.ask(4) and tuner.best == told.best
    assert tuner.report().failures == {"compile": 1} and not tuner.report().priors
    path = str(tmp_path / "journal.jsonl")
    tg.records.Journal(path).append(records)
    assert tg.Tuner(SPACE, records=path, problem="p", device="new").ask(4) == told.ask(4)
    assert tg.Tuner(SPACE, records=records).records == 0


@pytest.mark.parametrize("direction", ["minimize", "maximize"])
@pytest.mark.parametrize("device", ["new", "old"])
def test_records_may_have_runtimes_of_0(direction, device):
    records = [Record({"a": a, "b": 0}, (float(a),), problem="p", device=device) for a in range(8)]
    tuner = tg.Tuner(SPACE, records=records, problem="p", device="new", direction=direction)
    assert len(tuner.ask(3)) == 3
    if device == "new":
        assert tuner.best == {"a": 0 if direction == "minimize" else 7, "b": 0}


def test_configs_of_records_that_are_elsewhere_are_left_out():
    outside = [Record({"a": 99, "b": 1}, (1.0,), problem="p", device="new"), Record({"c": 1}, (1.0,))]
    tuner = tg.Tuner(SPACE, records=outside, problem="p", device="new")
    assert tuner.records == 0 and len(tuner.ask(2)) == 2 and tuner.report().priors == {}


@pytest.fixture(scope="module")
def flags():
    """A fitted ranker of compiler flags, a graph it has not seen, and its measured configs as dicts."""
    programs = tg.open_collection("options:xla:cpu")
    ranker = tg.Ranker("graph-config", steps=20).fit(list(programs.train[:4]), verbose=False)
    graph = programs.train[20]
    return ranker, graph, [graph.schema.decode("config", row) for row in graph.config_feat]


def test_a_ranker_leads_the_first_configs_and_is_weighed_by_what_is_told(flags):
    ranker, graph, configs = flags
    tuner = tg.Tuner(tg.Space.from_table(configs), graph, ranker)
    scores = dict(zip(keys(configs), ranker.predict(graph, verbose=False), strict=True))
    assert scores[keys(tuner.ask())[0]] == pytest.approx(min(scores.values()), rel=1e-5, abs=1e-6)
    runtimes = dict(zip(keys(configs), graph.runtime, strict=True))
    for _ in range(10):
        asked = tuner.ask(2)
        tuner.tell(asked, [float(runtimes[key]) for key in keys(asked)])
    assert list(tuner.report().priors) == ["ranker"] and "tau of ranker" in tuner.report().table()


def test_a_ranker_scores_configs_of_a_large_space(flags):
    ranker, graph, configs = flags
    space = tg.Space({name: sorted({one[name] for one in configs}) for name in configs[0]})
    assert space.size > 20_000
    tuner = tg.Tuner(space, graph, ranker)
    run(tuner, lambda config: 1.0 + sum(value is True for value in config.values()), 4, 3)
    assert tuner.ask(2) == tuner.ask(2) and tuner.records == 12


def test_the_parameters_are_the_columns_of_the_graph(flags):
    ranker, graph, _ = flags
    refuses(lambda: tg.Tuner(SPACE, graph, ranker), ConfigError, "space", "xla_cpu_scheduler_type", "a, b")
    refuses(lambda: tg.Tuner(SPACE, graph, tg.Ranker("graph-config")), ConfigError, "ranker", "fitted")


# ---- reports ----------------------------------------------------------------------------------------------


def test_a_report_is_a_table_json_and_a_picture():
    tuner = tg.Tuner(SPACE, records=records_of(bowl, "old"))
    empty = tuner.report()
    assert "NaN" not in empty.to_json() and json.loads(empty.to_json())["runtime"] is None
    assert empty.curve().size == 0 and empty.best is None
    run(tuner, lambda c: math.nan if c["a"] == 3 else bowl(c), 12)
    tuner.tell({"a": 3, "b": 3}, math.nan, "compile")
    report = tuner.report()
    plain = json.loads(report.to_json(), parse_constant=pytest.fail)
    assert plain["best"] == tuner.best and plain["runtime"] == tuner.best_runtime
    assert plain["runtimes"][-1] is None and len(plain["runtimes"]) == 13
    assert (
        report.curve()[-1] == tuner.best_runtime
        and (np.diff(report.curve()[~np.isnan(report.curve())]) <= 0).all()
    )
    assert report.surrogate["model"] in ("process", "trees") and -1 <= report.surrogate["process"] <= 1
    for word in ("13", "failed: compile", f"{tuner.best_runtime:.6g}", "surrogate: model", "tau of p, old"):
        assert word in report.table() == str(report)


def test_the_picture_shows_measurements_and_the_best_so_far():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    report = run(tg.Tuner(SPACE), bowl, 6).report()
    axes = report.plot()
    points, steps = axes.lines
    assert points.get_ydata().tolist() == report.runtimes
    assert np.array_equal(steps.get_ydata(), report.curve())
    assert report.plot(axes) is axes
    plt.close(axes.figure)


# ---- refusals ---------------------------------------------------------------------------------------------

GOOD = {"a": 1, "b": 2}


@pytest.mark.parametrize(
    "call, names",
    [
        (lambda: tg.Tuner({"a": [1]}), ["space", "dict"]),
        (lambda: tg.Tuner(SPACE, seed=-1), ["seed", "-1"]),
        (lambda: tg.Tuner(SPACE, seed=2**80), ["seed"]),
        (lambda: tg.Tuner(SPACE, direction="up"), ["direction", "up", "minimize"]),
        (lambda: tg.Tuner(SPACE, problem=3), ["problem", "int"]),
        (lambda: tg.Tuner(SPACE, device=None), ["device"]),
        (lambda: tg.Tuner(SPACE, ranker="r"), ["graph", "ranker"]),
        (lambda: tg.Tuner(SPACE, "g", "r"), ["graph", "str"]),
        (lambda: tg.Tuner(SPACE, records=3), ["records", "int"]),
        (lambda: tg.Tuner(SPACE, records=[3]), ["records", "int"]),
        (lambda: tg.Tuner(SPACE).ask(0), ["n", "0"]),
        (lambda: tg.Tuner(SPACE).ask(1.5), ["n", "1.5"]),
        (lambda: tg.Tuner(SPACE).ask(1, [{"a": 99, "b": 0}]), ["a", "99"]),
        (lambda: tg.Tuner(SPACE).ask(1, [{"a": 1}]), ["b"]),
        (lambda: tg.Tuner(SPACE).tell({"a": 15, "b": 15}, 1.0), ["a + b <= 24"]),
        (lambda: tg.Tuner(SPACE).tell(GOOD, "fast"), ["runtimes", "fast"]),
        (lambda: tg.Tuner(SPACE).tell(GOOD, 0.0), ["runtimes", "0.0"]),
        (lambda: tg.Tuner(SPACE).tell(GOOD, -2.0), ["runtimes", "-2.0"]),
        (lambda: tg.Tuner(SPACE).tell(GOOD, math.inf), ["runtimes", "inf"]),
        (lambda: tg.Tuner(SPACE).tell(GOOD, math.nan, "correct"), ["runtimes", "nan"]),
        (lambda: tg.Tuner(SPACE).tell(GOOD, 1.0, "slow"), ["status", "slow"]),
        (lambda: tg.Tuner(SPACE).tell(GOOD, []), ["runtimes"]),
        (lambda: tg.Tuner(SPACE).tell([GOOD], [1.0, 2.0]), ["runtimes", "1 config"]),
        (lambda: tg.Tuner(SPACE).tell([GOOD, GOOD], [1.0, 2.0, 3.0, 4.0]), ["runtimes", "2 configs"]),
        (lambda: tg.Tuner(SPACE).tell([GOOD, GOOD], 1.0), ["runtimes", "2 configs"]),
        (lambda: tg.Tuner(SPACE).tell([GOOD, GOOD], [1.0, 2.0], ["correct"]), ["status", "2 configs"]),
        (lambda: tg.Tuner(SPACE).tell([], [1.0]), ["runtimes"]),
    ],
)
def test_what_a_tuner_refuses(call, names):
    refuses(call, ConfigError, *names)


def test_the_curve_of_a_report_knows_only_what_had_been_told():
    tuner, (one, other) = tg.Tuner(SPACE), SPACE.sample(2)
    for config, runtime in ((one, 5.0), (other, 4.0), (one, 1.0), (other, math.nan)):
        tuner.tell(config, runtime)
    report = tuner.report()
    assert report.runtimes[:3] == [5, 4, 1] and math.isnan(report.runtimes[3])
    assert report.curve().tolist() == [5, 4, 1, 1]
