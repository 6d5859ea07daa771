"""Search: what it finds, what it follows, that it goes on exactly, and what it refuses."""

from itertools import product

import numpy as np
import pytest
from refusals import refuses

import tpugraphs as tg
from tpugraphs import _core
from tpugraphs.errors import CheckpointError, ConfigError, DataError
from tpugraphs.search import METHODS

SIZES = np.array([7, 5, 1, 8, 3, 6], np.int32)
GOAL = np.array([6, 0, 0, 3, 1, 5])
CHAINS = ("annealing", "langevin")


def separable(codes):
    """A convex function of each parameter, summed."""
    return ((codes - GOAL) ** 2 * [1.0, 2.0, 1.0, 0.5, 3.0, 1.5]).sum(1)


def changes_of(function, codes, sizes):
    """(n, S): what every change of one parameter does to a function, by computing it."""
    changes = []
    for p, size in enumerate(sizes):
        for value in range(size):
            moved = codes.copy()
            moved[:, p] = value
            changes.append(function(moved) - function(codes))
    return np.stack(changes, 1).astype(np.float32)


def told(search, function, sizes, slopes=changes_of):
    """Tell the scores of what a search asks for next; return these codes."""
    codes = search.ask(8)
    changes = slopes(function, codes, sizes) if slopes is not None else None
    search.tell(function(codes), changes)
    return codes


def searching(method, seed=3, **options):
    options = {"members": 8, "starts": 16, "budget": 400, **options}
    return _core.Search(method, SIZES, seed, ordered=np.ones(SIZES.size, bool), **options)


def slopes_for(method):
    return changes_of if method == "langevin" else None


# ---- what it finds ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["genetic", "annealing", "langevin"])
@pytest.mark.parametrize("seed", range(5))
def test_a_separable_problem_is_solved_with_a_fraction_of_all_codes(method, seed):
    search = searching(method, seed)
    while search.scored < 400:
        assert len(told(search, separable, SIZES, slopes_for(method)))
    codes, scores = search.best(1)
    assert search.size == 5040 and scores[0] == search.least == 0 and (codes[0] == GOAL).all()


def test_all_codes_are_listed_once_in_their_order_or_a_random_one():
    every = np.array(list(product(*map(range, SIZES))))
    for method in ("exhaustive", "sample"):
        search, asked = searching(method), []
        while len(codes := search.ask(100)):
            search.tell(np.zeros(len(codes)))
            asked.append(codes)
        asked = np.concatenate(asked)
        assert (asked == every).all() == (method == "exhaustive")
        assert (asked[np.lexsort(asked.T[::-1])] == every).all()


@pytest.mark.parametrize("method", METHODS)
def test_no_code_is_asked_for_twice_until_all_are_known(method):
    sizes = np.array([3, 1, 4, 2], np.int32)
    search, seen = _core.Search(method, sizes, 1, members=4, starts=6), set()
    while len(codes := search.ask(3)):
        changes = np.zeros((len(codes), 10), np.float32) if method == "langevin" else None
        search.tell(codes.sum(1).astype(float), changes)
        asked = {tuple(code) for code in codes.tolist()}
        assert len(asked) == len(codes) and not asked & seen
        seen |= asked
    assert len(seen) == search.size == search.scored == 24


def test_codes_that_cannot_be_are_not_among_the_best_and_do_not_stop_a_search():
    for method in ("genetic", "annealing"):
        search = searching(method)
        while search.scored < 200:
            codes = search.ask(8)
            search.tell(np.where(codes.sum(1) % 2, np.inf, separable(codes)))
        codes, scores = search.best(50)
        assert search.failed > 0 and np.isfinite(scores).all() and not (codes.sum(1) % 2).any()
        assert scores[0] <= 2


def test_given_starts_come_first_and_once():
    start = np.array([[1, 1, 0, 1, 1, 1], [0, 0, 0, 0, 0, 0], [1, 1, 0, 1, 1, 1]], np.int32)
    assert (searching("genetic", start=start).ask(2) == start[:2]).all()
    search = searching("exhaustive", start=start)
    asked = np.concatenate([told(search, separable, SIZES, None) for _ in range(630)])
    assert (asked[:2] == start[:2]).all() and len(np.unique(asked, axis=0)) == 5040


def greedy(codes, scores, k, differ):
    """The best that differ, by definition."""
    chosen = []
    for i in np.argsort(scores, kind="stable"):
        if len(chosen) < k and all((codes[i] != codes[j]).sum() >= differ for j in chosen):
            chosen.append(i)
    return chosen


@pytest.mark.parametrize("differ", [0, 1, 2, 4, 6])
@pytest.mark.parametrize("keep", [64, 1000])
def test_the_best_that_differ_are_those_of_a_plain_loop(differ, keep):
    """With room for fewer than were scored, they are taken from the best of all."""
    search, asked, scores = searching("sample", keep=keep), [], []
    while search.scored < 600:
        codes = search.ask(8)
        scores.append(np.round(separable(codes) / 8))  # many are equal
        search.tell(scores[-1])
        asked.append(codes)
    asked, scores = np.concatenate(asked), np.concatenate(scores)
    held = np.sort(np.argsort(scores, kind="stable")[:keep])
    expected = held[greedy(asked[held], scores[held], 7, differ)]
    codes, found = search.best(7, differ)
    assert (codes == asked[expected]).all() and (found == scores[expected]).all()


# ---- what a chain follows ---------------------------------------------------------------------------------

TINY = np.array([3, 2, 4], np.int32)
TABLE = np.random.default_rng(5).normal(size=24)


def table(codes):
    return TABLE[np.ravel_multi_index(codes.T, TINY)]


def wrong_slopes(function, codes, sizes):
    """Slopes that mislead, each a function of its code."""
    noise = np.random.default_rng(9).normal(size=(24, 9)).astype(np.float32)
    return noise[np.ravel_multi_index(codes.T, TINY)]


@pytest.mark.slow
@pytest.mark.parametrize("slopes", [changes_of, wrong_slopes])
@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("method", CHAINS)
def test_chains_at_one_temperature_follow_its_distribution(method, ordered, slopes):
    """Once all codes are known, every call moves all chains; 2400 calls of 12 chains, a chi-square of 23 degrees."""
    T, flags = 0.7, np.full(3, ordered)
    search = _core.Search(method, TINY, 11, ordered=flags, members=12, starts=24, hot=T, cold=T, rate=2.0)
    slopes = slopes if method == "langevin" else None
    while search.scored < 24:
        told(search, table, TINY, slopes)
    counts = np.zeros(24)
    for _ in range(2400):
        assert len(search.ask(8)) == 0
        np.add.at(counts, np.ravel_multi_index(search.members.T, TINY), 1)
    assert search.temperature == T

    def distance(temperature):
        chance = np.exp(-TABLE / temperature)
        expected = counts.sum() * chance / chance.sum()
        return ((counts - expected) ** 2 / expected).sum()

    assert distance(T) < 49.7  # one in a thousand is above
    assert min(distance(0.9 * T), distance(1.1 * T)) > 100


def test_chains_get_colder():
    search = searching("annealing", hot=4.0, cold=0.25)
    seen = []
    while search.scored < 400:
        told(search, separable, SIZES, None)
        seen.append((search.scored, search.temperature))
    assert len(seen) > 40 and all(
        temperature == pytest.approx(4.0 * (0.25 / 4.0) ** min(1, (scored - 16) / 384))
        for scored, temperature in seen
        if scored >= 16
    )


# ---- going on ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("waiting", [False, True])
@pytest.mark.parametrize("method", METHODS)
def test_a_restored_search_goes_on_as_the_other(method, waiting):
    for before in (0, 1, 9):
        first, second = searching(method), searching(method)
        for _ in range(before):
            told(first, separable, SIZES, slopes_for(method))
        asked = first.ask(8) if waiting else None
        second.restore(first.state())
        if waiting:
            assert (second.ask(3) == asked).all()
        for _ in range(20):
            codes = [told(search, separable, SIZES, slopes_for(method)) for search in (first, second)]
            assert (codes[0] == codes[1]).all()
        for name, array in first.state().items():
            assert array.tobytes() == second.state()[name].tobytes(), name
        assert first.least == second.least


def test_damaged_states_are_refused_and_leave_a_new_search():
    search = searching("annealing")
    for _ in range(9):
        told(search, separable, SIZES, None)
    search.ask(8)
    state, fresh = search.state(), searching("annealing")
    for name in state:
        missing = {key: array for key, array in state.items() if key != name}
        refuses(lambda missing=missing: fresh.restore(missing), CheckpointError, name)
    for name, change in {
        "codes": lambda a: a + 9,
        "scores": lambda a: a * np.nan,
        "members": lambda a: a + 1000,
        "owners": lambda a: a[:0],
        "best_codes": lambda a: a[:1],
        "numbers": lambda a: a + 1,
    }.items():
        fresh = searching("annealing")
        with pytest.raises(CheckpointError):
            fresh.restore(state | {name: change(state[name])})
        assert fresh.scored == 0 and (fresh.ask(8) == searching("annealing").ask(8)).all()
    refuses(lambda: searching("annealing", seed=4).restore(state), CheckpointError, "settings")
    refuses(lambda: searching("genetic").restore(state), CheckpointError, "settings")


def test_a_search_refuses_what_it_cannot_use():
    search = searching("genetic")
    search.ask(5)
    refuses(lambda: search.tell(np.zeros(4)), ConfigError, "scores", "4", "5")
    refuses(lambda: search.tell(np.full(5, np.nan)), ConfigError, "scores", "nan")
    refuses(lambda: search.tell(np.zeros(5, np.float32)), tg.ShapeError, "scores")
    refuses(lambda: search.tell(np.zeros(5), np.zeros((5, 30), np.float32)), ConfigError, "changes")
    sloped = searching("langevin")
    sloped.ask(5)
    refuses(lambda: sloped.tell(np.zeros(5)), ConfigError, "changes")
    refuses(lambda: sloped.tell(np.zeros(5), np.full((5, 30), np.inf, np.float32)), ConfigError, "changes")
    refuses(lambda: _core.Search("tabu", SIZES, 0), ValueError, "tabu")
    refuses(lambda: _core.Search("sample", SIZES * 0, 0), ConfigError, "sizes", "0")
    refuses(
        lambda: _core.Search("sample", SIZES, 0, start=np.full((1, 6), 9, np.int32)),
        ConfigError,
        "start",
        "9",
    )
    refuses(lambda: _core.Search("genetic", SIZES, 0, members=9, starts=8), ValueError, "members")
    refuses(lambda: search.ask(0), ValueError, "ask")


# ---- graphs and scorers -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def options():
    programs = tg.open_collection("options:xla:cpu")
    ranker = tg.Ranker("graph-config", steps=20).fit(list(programs.train[:4]), verbose=False)
    return ranker, programs.test[0]


@pytest.fixture(scope="module")
def layouts():
    """A ranker whose scores are linear in the digits."""
    programs = tg.open_collection("layout:xla:cpu")
    model = tg.Model()
    cells = model.config_linear(model.node_feat, out=8)
    model.linear(model.pool(cells), out=1, to="scores")
    ranker = tg.Ranker(model.recipe("linear-layout", like="first-layout", prune="none"), steps=20)
    return ranker.fit(list(programs.train[:4]), verbose=False), programs.test[0]


@pytest.mark.parametrize("method", METHODS[:-1])
def test_the_best_found_have_the_scores_that_the_ranker_gives_them(options, layouts, method):
    for ranker, graph in (options, layouts):
        found = tg.search.minimize(ranker, graph, method, budget=120, keep=5, differ=2)
        assert found.evaluations == 120 and found.method == method and len(found.scores) == 5
        again = ranker.predict(graph, found.configs, verbose=False)
        assert np.allclose(again, found.scores, rtol=1e-4, atol=1e-4)
        assert (np.diff(found.scores) >= 0).all() and found.scores[0] == found.history[-1, 1]
        assert found.history[-1, 0] == 120 and (np.diff(found.history[:, 1]) <= 0).all()


def test_a_linear_model_is_solved_by_its_slopes(layouts):
    """The slopes are then the exact changes: one look at them gives the optimum of each parameter."""
    ranker, graph = layouts
    parameters = tg.search._Parameters.of_graph(graph)
    rng = np.random.default_rng(0)
    codes = rng.integers(0, parameters.sizes, (3, parameters.sizes.size)).astype(np.int32)

    def scores(codes):
        return ranker.predict(graph, parameters.configs(codes), verbose=False).astype(float)

    own, changes = parameters.slopes(ranker, graph, codes)
    assert np.allclose(own, scores(codes), rtol=1e-5, atol=1e-5)
    exact = changes_of(scores, codes, parameters.sizes)
    assert np.abs(changes - exact).max() <= 1e-4 * np.abs(exact).max()
    found = tg.search.minimize(ranker, graph, "langevin", budget=300)
    first = np.cumsum(parameters.sizes) - parameters.sizes
    optimum = own[0] + np.minimum.reduceat(changes[0], first).sum()
    assert found.scores[0] == pytest.approx(optimum, rel=1e-4, abs=1e-4)


def test_slopes_of_features_are_those_of_small_steps():
    rng = np.random.default_rng(2)
    table = rng.uniform(1, 4, (60, 5)).astype(np.float32)
    graph = tg.Graph(
        config_feat=table, runtime=(table @ np.arange(1, 6) + table[:, 0] ** 2).astype(np.float64)
    )
    ranker = tg.Ranker("graph-config", steps=40).fit(graph, verbose=False)
    near = table[:3, None] + 1e-2 * np.eye(5, dtype=np.float32)
    scores, digits, changes = ranker.slopes(graph, table[:3], near)
    assert digits is None and np.allclose(scores, ranker.predict(graph, [0, 1, 2], verbose=False), atol=1e-5)
    back = ranker.predict(graph, (2 * table[:3, None] - near).reshape(-1, 5), verbose=False).reshape(3, 5)
    moved = ranker.predict(graph, near.reshape(-1, 5), verbose=False).reshape(3, 5)
    assert np.abs((moved - back) / 2 - changes).max() <= 0.02 * np.abs(changes).max()


def test_rankers_without_a_network_have_no_slopes(layouts):
    pytest.importorskip("lightgbm")
    trees = tg.Ranker("eighth-lightgbm").fit(layouts[1], verbose=False)
    refuses(
        lambda: trees.slopes(layouts[1], layouts[1].config_digits),
        ConfigError,
        "eighth-lightgbm",
        "gradients",
    )
    refuses(lambda: tg.search.minimize(trees, layouts[1], "langevin"), ConfigError, "langevin", "genetic")
    assert tg.search.minimize(trees, layouts[1], budget=30).evaluations == 30


def test_candidates_combine_the_values_of_the_graph(options, layouts):
    _, graph = options
    found = tg.search.minimize(options[0], graph, "sample", budget=50, keep=50)
    for column, values in zip(found.configs.T, graph.config_feat.T, strict=True):
        assert set(column) <= set(values)
    _, graph = layouts
    found = tg.search.minimize(layouts[0], graph, "sample", budget=50, keep=50)
    for k in range(graph.num_config_nodes):
        known = {row.tobytes() for row in graph.config_digits[:, k]}
        assert {row.tobytes() for row in found.configs[:, k]} <= known


def test_what_always_changes_together_is_one_parameter():
    rng = np.random.default_rng(0)
    a, b, c = rng.integers(0, 3, 40), rng.integers(0, 2, 40), np.full(40, 5)
    rows = np.stack([a, b, 10 - 3 * a, c, 1 - b], 1).astype(np.float32)
    graph = tg.Graph(config_feat=rows, runtime=np.arange(1, 41))
    parameters = tg.search._Parameters.of_graph(graph)
    assert sorted(parameters.sizes.tolist()) == [1, 2, 3]
    every = np.array(list(product(*map(range, parameters.sizes))), np.int32)
    made = parameters.configs(every)
    assert {tuple(row) for row in made} == {tuple(row) for row in rows}


class Sum(tg.ranker.ScorerBase):
    """A scorer that takes no arrays of configs: the sum of all columns or digits."""

    kind, fitted = "any", True

    def predict(self, graph, configs=None, **options):
        each = graph.config_feat if graph.config_feat is not None else graph.config_digits
        return np.asarray(each, np.float64).reshape(graph.num_configs, -1).sum(1)[graph.row_numbers(configs)]


def test_any_scorer_is_searched_and_a_small_space_as_a_whole(layouts):
    rows = np.array(list(product([1, 4], [2, 3, 9], [0, 1])), np.float32)
    graph = tg.Graph(config_feat=rows[[0, 3, 6, 8, 11]], runtime=np.arange(1, 6), valid=np.arange(5) < 4)
    found = tg.search.minimize(Sum(), graph, budget=50, keep=3)
    assert (found.method, found.evaluations, found.size) == ("exhaustive", 8, 8)  # 9 ran nowhere
    assert found.scores.tolist() == sorted(rows[rows[:, 1] < 9].sum(1))[:3]
    assert len(found.named) == 3 and "exhaustive" in found.table() and '"evaluations"' in found.to_json()
    graph = layouts[1]
    least = sum(graph.config_digits[:, k].astype(int).sum(1).min() for k in range(graph.num_config_nodes))
    assert tg.search.minimize(Sum(), graph, budget=800).scores[0] <= least + 8


@pytest.mark.parametrize("method", ["genetic", "annealing", "langevin"])
def test_searches_do_not_depend_on_threads_and_go_on_from_their_state(options, method):
    ranker, graph = options
    found, kept, before = [], [], tg.get_num_threads()
    try:
        for threads in (1, 2, 3):
            tg.set_num_threads(threads)
            found.append(tg.search.minimize(ranker, graph, method, budget=100, seed=5))
    finally:
        tg.set_num_threads(before)
    assert len({one.scores.tobytes() + one.configs.tobytes() for one in found}) == 1

    def stop(done, best, state):
        kept.append((done, best, state()))
        return done >= 40

    half = tg.search.minimize(ranker, graph, method, budget=100, seed=5, callback=stop)
    assert half.evaluations == kept[-1][0] < 60 and half.scores[0] == kept[-1][1]
    rest = tg.search.minimize(ranker, graph, method, budget=100, seed=5, state=kept[-1][2])
    assert rest.scores.tobytes() == found[0].scores.tobytes()
    assert rest.history.tobytes() == found[0].history.tobytes()


class Even:
    """A space of the columns of a table in which the numbers of a config add up to an even one."""

    def __init__(self, values):
        self.names, self.values, self.core = list(values), list(values.values()), self
        self.sizes = tuple(map(len, self.values))

    def feasible(self, codes):
        return codes.sum(1) % 2 == 0

    def all(self, most):
        every = np.array(list(product(*map(range, self.sizes))), np.int32)
        every = every[self.feasible(every)]
        return every if len(every) <= most else None

    def sample(self, n, seed):
        every = self.all(10**9)
        return every[np.random.default_rng(seed).permutation(len(every))[:n]]

    def configs(self, codes):
        return [{n: v[c] for n, v, c in zip(self.names, self.values, code, strict=True)} for code in codes]


@pytest.mark.parametrize("budget", [60, 10_000])
@pytest.mark.parametrize("method", ["genetic", "annealing", "sample"])
def test_a_space_restricts_what_is_scored(method, budget):
    columns = {
        "a": [3.0, 1.0, 2.0],
        "b": ["x", "y"],
        "c": [1.0, 2.0, 3.0, 4.0],
        "d": [0.0, 1.0, 5.0, 7.0, 8.0, 9.0],
    }
    rows = list(product(*columns.values()))[::7]
    data = {name: [row[i] for row in rows] for i, name in enumerate(columns)}
    (graph,) = tg.from_frame({**data, "t": np.arange(1, len(rows) + 1.0)}, config=list(columns), runtime="t")
    space = Even(dict(reversed(columns.items())))
    found = tg.search.minimize(Sum(), graph, method, budget=budget, space=space, keep=100)
    for config in found.named:
        code = [values.index(config[name]) for name, values in zip(space.names, space.values, strict=True)]
        assert sum(code) % 2 == 0
    assert found.evaluations == min(budget, 72) and len(found.named) == found.evaluations
    assert found.scores[0] <= 4
    refuses(
        lambda: tg.search.minimize(Sum(), graph, space=Even({"a": [1.0], "z": [2.0]})),
        ConfigError,
        "space",
        "z",
    )


def test_minimize_refuses(options):
    ranker, graph = options

    def call(*args, **options):
        return lambda: tg.search.minimize(*args, **options)

    refuses(call(ranker, graph, "tabu"), ConfigError, "method", "tabu", "genetic")
    refuses(call(ranker, graph, budget=0), ConfigError, "budget", "0")
    refuses(call(ranker, graph, seed=-1), ConfigError, "seed", "-1")
    refuses(call(ranker, graph, keep=0), ConfigError, "keep", "0")
    refuses(call(ranker, graph, batch=0), ConfigError, "batch", "0")
    refuses(call(ranker, graph, "exhaustive"), ConfigError, "budget", "786,432")
    refuses(call("ranker.safetensors", graph), ConfigError, "scorer", "str")
    refuses(call(tg.Ranker("graph-config"), graph), ConfigError, "scorer", "fit")
    refuses(call(Sum(), graph, "langevin"), ConfigError, "method", "langevin", "genetic", "annealing")
    refuses(call(ranker, graph.select([]), budget=5), DataError, "configs", "space")
    refuses(call(ranker, graph, state={}), CheckpointError, "numbers")


def test_scorers_that_look_across_configs_are_refused_unless_asked(layouts):
    programs = tg.open_collection("layout:xla:cpu")
    cross = tg.Ranker("first-layout-cross", steps=2).fit(programs.train[0], verbose=False)
    refuses(lambda: tg.search.minimize(cross, layouts[1], budget=5), ConfigError, "scorer", "across=True")
    assert tg.search.minimize(cross, layouts[1], budget=5, across=True).evaluations == 5
    both = tg.Ensemble([layouts[0], layouts[0]], normalize="rank")
    refuses(lambda: tg.search.minimize(both, layouts[1], budget=5), ConfigError, "scorer", "across=True")
