"""scikit-learn's convention: what is searched over, cross-validated, cloned and checked by it."""

from __future__ import annotations

import pickle
import re
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rankers import small_graph, small_ranker, small_tile
from refusals import refuses
from test_multitask import programs

import tpugraphs as tg
from tpugraphs.ranker import LinearBaseline, MeanEffect, MultiTaskGaussianProcess, RandomBaseline, ScorerBase

sklearn = pytest.importorskip("sklearn", minversion="1.6", reason="needs the extra [sklearn]")
from sklearn.base import clone  # noqa: E402
from sklearn.exceptions import NotFittedError  # noqa: E402
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold, cross_val_score  # noqa: E402
from sklearn.pipeline import make_pipeline  # noqa: E402
from sklearn.preprocessing import FunctionTransformer  # noqa: E402
from sklearn.utils import get_tags  # noqa: E402
from sklearn.utils.estimator_checks import check_estimator  # noqa: E402
from sklearn.utils.validation import check_is_fitted  # noqa: E402

PAGE = Path(__file__).parents[1] / "docs" / "scikit-learn.md"


@pytest.fixture(scope="module")
def graphs() -> list[tg.Graph]:
    return programs(8)


@pytest.fixture(scope="module")
def layouts() -> list[tg.LayoutGraph]:
    return [small_graph(i, configs=40) for i in range(6)]


def ranker(**fields: Any) -> tg.Ranker:
    return tg.Ranker("graph-config", **{"steps": 3, **fields})


# ---- the checks of scikit-learn ---------------------------------------------------------------------------


def expected() -> dict[str, str]:
    """The checks that cannot hold, as the page lists them, with the reason."""
    return dict(re.findall(r"^\| `(check_\w+)` \| (.+) \|$", PAGE.read_text(), re.M))


@pytest.fixture(scope="module")
def checks() -> list[dict[str, Any]]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # no BaseEstimator, checks that are skipped
        return check_estimator(ranker(), expected_failed_checks=expected(), on_fail=None)


def test_all_checks_hold_but_those_stated(checks: list[dict[str, Any]]) -> None:
    failed = {one["check_name"]: one["exception"] for one in checks if one["status"] == "failed"}
    assert not failed
    assert sum(one["status"] == "passed" for one in checks) >= 30


def test_the_page_lists_no_check_that_holds(checks: list[dict[str, Any]]) -> None:
    known = {one["check_name"] for one in checks}
    failed = {one["check_name"] for one in checks if one["status"] == "xfail"}
    assert failed == expected().keys() & known and len(failed) >= 4


def test_tags_and_what_is_fitted(layouts: list[Any]) -> None:
    layout, table = get_tags(small_ranker()), get_tags(ranker())
    assert not layout.input_tags.two_d_array and not layout.target_tags.required
    assert table.input_tags.two_d_array and table.requires_fit and not table.non_deterministic
    assert get_tags(MeanEffect()).estimator_type is None
    for unfitted in (small_ranker(), ranker(), MultiTaskGaussianProcess()):
        with pytest.raises(NotFittedError):
            check_is_fitted(unfitted)
    with pytest.raises(NotFittedError, match="learnt nothing yet") as caught:
        small_ranker().predict(layouts[0])
    assert isinstance(caught.value, tg.Error)
    again = pickle.loads(pickle.dumps(caught.value))
    assert type(again) is type(caught.value) and str(again) == str(caught.value)
    check_is_fitted(small_ranker(steps=1).fit(layouts[0], verbose=False))


def test_it_is_not_imported_with_the_package() -> None:
    code = (
        "import sys, tpugraphs as tg; r = tg.Ranker('graph-config', steps=1)\n"
        "import numpy as np; x = np.arange(8.)[:, None]; r.fit(x, x[:, 0] + 1, verbose=False).predict(x)\n"
        "try: tg.Ranker().predict(x)\nexcept tg.Error: pass\n"
        "print('sklearn' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


# ---- parameters and clones --------------------------------------------------------------------------------


def scorers(layouts: list[Any]) -> list[ScorerBase]:
    fitted = small_ranker(steps=1).fit(layouts[0], verbose=False)
    return [
        RandomBaseline(3, "layout"), LinearBaseline(0.1), MeanEffect(), MultiTaskGaussianProcess(length=0.7),
        tg.ranker.GaussianProcess(spread=0.5), tg.Nearest(small_ranker(steps=2), n=2),
        tg.Ensemble([fitted, fitted], [1, 2], "rank"), tg.Routed({"*": fitted}),
    ]  # fmt: skip


def test_all_scorers_have_parameters_and_clones(layouts: list[Any]) -> None:
    for scorer in scorers(layouts):
        made = clone(scorer)
        assert type(made) is type(scorer) and made is not scorer
        plain = {n: v for n, v in scorer.get_params(deep=False).items() if isinstance(v, (int, float, str))}
        assert {n: made.get_params()[n] for n in plain} == plain
        assert scorer.set_params() is scorer
        refuses(lambda: scorer.set_params(nothing=1), tg.errors.ConfigError, "'nothing'")


def test_parameters_of_a_scorer_in_a_scorer() -> None:
    nearest = tg.Nearest(small_ranker(steps=2), n=2)
    assert nearest.get_params()["ranker__steps"] == 2 and "ranker__steps" not in nearest.get_params(
        deep=False
    )
    other = clone(nearest)
    other.set_params(ranker__steps=5, n=1)
    assert (other.ranker.fields.steps, other.n, nearest.ranker.fields.steps) == (5, 1, 2)
    inner = nearest.ranker
    for refused in ({"n": -1}, {"ranker__width": -1}, {"nothing": 1}):
        with pytest.raises(tg.errors.ConfigError):
            nearest.set_params(ranker__steps=9, **refused)
        assert nearest.ranker is inner and inner.fields.steps == 2
    nearest.set_params(ranker__steps=3, ranker=small_ranker(steps=30, width=32))
    assert (nearest.ranker.fields.steps, nearest.ranker.fields.width, inner.fields.steps) == (3, 32, 2)


def test_changed_parameters_forget_what_was_learnt(graphs: list[Any]) -> None:
    process = MultiTaskGaussianProcess().fit(graphs)
    assert process.set_params(noise=2.0) is process and process.noise == 2.0 and not process.fitted
    process.set_fit_request()
    asked = process._metadata_request
    refuses(lambda: process.set_params(noise=-1), tg.errors.ConfigError, "noise")
    assert process.noise == 2.0 and process.get_params()["noise"] == 2.0  # a refused value changes nothing
    assert process.set_params(noise=3.0)._metadata_request is asked


def test_a_scorer_of_ones_own_keeps_its_arguments() -> None:
    class Odd(ScorerBase):
        kind = "layout"

        def __init__(self, place: int = 0) -> None:
            self.elsewhere = place

        def predict(self, graph: Any, configs: Any = None, tta: int = 0, **options: Any) -> Any:
            return np.zeros(graph.num_configs)

    refuses(Odd().get_params, tg.errors.ConfigError, "'place'")


def test_names_of_other_libraries_get_a_hint() -> None:
    for name, hint in (
        ("random_state", "seed="),
        ("n_jobs", "tg.set_num_threads"),
        ("lr", "learning_rate="),
        ("n_estimators", "steps="),
    ):
        refuses(lambda: tg.Ranker(**{name: 1}), tg.errors.ConfigError, repr(name), hint)
        refuses(lambda: tg.Ranker().set_params(**{name: 1}), tg.errors.ConfigError, hint)


# ---- cross-validation over graphs -------------------------------------------------------------------------


def test_cross_validation_by_groups(graphs: list[Any]) -> None:
    groups = [0, 0, 1, 1, 2, 2, 3, 3]
    scores = cross_val_score(ranker(seed=3), graphs, groups=groups, cv=GroupKFold(4), error_score="raise")
    by_hand = []
    for left_out in np.unique(groups):
        train = [graph for graph, group in zip(graphs, groups, strict=True) if group != left_out]
        test = [graph for graph, group in zip(graphs, groups, strict=True) if group == left_out]
        by_hand.append(ranker(seed=3).fit(train, verbose=False).score(test))
    assert sorted(scores) == sorted(by_hand) and len(set(scores)) == 4


def test_what_stands_for_a_list_of_graphs(graphs: list[Any]) -> None:
    array = np.empty(len(graphs), object)
    array[:] = graphs
    expected = cross_val_score(ranker(), graphs, cv=KFold(2), error_score="raise")
    for x in (array, tuple(graphs)):
        assert (cross_val_score(ranker(), x, cv=KFold(2), error_score="raise") == expected).all()
    times = [graph.runtime for graph in graphs]
    assert (cross_val_score(ranker(), graphs, times, cv=KFold(2), error_score="raise") == expected).all()
    for some in ([None if i % 2 == odd else t for i, t in enumerate(times)] for odd in (0, 1, 2)):
        assert (cross_val_score(ranker(), graphs, some, cv=KFold(2), error_score="raise") == expected).all()
    assert (ranker().fit(graphs, [None] * 8).model.params == ranker().fit(graphs).model.params).all()


def test_a_series_counts_by_place_and_not_by_label(graphs: list[Any]) -> None:
    pandas = pytest.importorskip("pandas", reason="needs pandas")
    times = [graph.runtime * (i + 1) for i, graph in enumerate(graphs)]
    labels = range(len(graphs) - 1, -1, -1)
    x, y = pandas.Series(graphs, index=labels), pandas.Series(times, index=labels)
    expected = ranker().fit(graphs, times, verbose=False).model.params
    assert (ranker().fit(x, y, verbose=False).model.params == expected).all()
    scores = cross_val_score(ranker(), x, y, cv=KFold(2), error_score="raise")
    assert (scores == cross_val_score(ranker(), graphs, times, cv=KFold(2), error_score="raise")).all()


def test_runtimes_replace_those_of_the_graphs(layouts: list[Any]) -> None:
    turned = [graph.config_runtime.max() + 1 - graph.config_runtime for graph in layouts]
    scorer = small_ranker(steps=1).fit(layouts[0], verbose=False)
    assert scorer.score(layouts, turned) == pytest.approx(-scorer.score(layouts), abs=1e-6)
    assert scorer.score(layouts[0], turned[0]) == pytest.approx(-scorer.score(layouts[0]), abs=1e-6)
    routed = tg.Routed({"*": scorer})
    assert routed.score(layouts, turned) == scorer.score(layouts, turned)
    other = [g.replace(config_runtime=t) for g, t in zip(layouts, turned, strict=True)]
    expected = small_ranker(steps=3).fit(other, verbose=False)
    for fit in (
        lambda r: r.fit(layouts, turned, verbose=False),
        lambda r: r.fit(layouts, y=turned, verbose=False),
    ):
        assert (fit(small_ranker(steps=3)).model.params == expected.model.params).all()
    held = small_ranker(steps=3).fit(layouts[:4], layouts[4:], y=turned[:4], verbose=False)
    assert held.history_.valid_metric


def test_every_scorer_of_several_graphs_takes_runtimes(graphs: list[Any], layouts: list[Any]) -> None:
    turned = [1e6 / graph.runtime for graph in graphs]
    other = [graph.replace(runtime=times) for graph, times in zip(graphs, turned, strict=True)]
    for make in (MeanEffect, MultiTaskGaussianProcess):
        assert make().fit(graphs, turned).score(other) == make().fit(other).score(other)
        assert make().fit(graphs, turned).score(other) > make().fit(graphs).score(other)
    times = [graph.config_runtime.max() + 1 - graph.config_runtime for graph in layouts]
    ends = [g.replace(config_runtime=t) for g, t in zip(layouts, times, strict=True)]
    own = small_ranker(steps=2)
    expected = tg.Nearest(own).fit(ends).predict(layouts[0])
    assert (tg.Nearest(own).fit(layouts, times).predict(layouts[0]) == expected).all()
    fitted = small_ranker(steps=2).fit(ends, verbose=False)
    for scorer in (tg.Ensemble([own.fit(layouts, verbose=False)]), tg.Routed({"*": small_ranker(steps=2)})):
        assert (scorer.fit(layouts, times, verbose=False).predict(ends[0]) == fitted.predict(ends[0])).all()
    made = tg.Ensemble([own, fitted], normalize="rank")
    scores = cross_val_score(made, layouts, times, cv=KFold(2), error_score="raise")
    assert len(set(scores)) == 2 and made.rankers == (own, fitted)


def test_runtimes_that_are_none(layouts: list[Any]) -> None:
    fresh, odd = small_ranker(steps=1), np.ma.masked_equal(np.arange(40), 7)
    for y, *names in (
        ([1.0, 2.0], "6 arrays", "got 2"),
        ([[1.0]] * 6, "(40,)"),
        ([["a"] * 40] * 6, "y:", "'a'"),
        ([np.ones(40, complex)] * 6, "y:", "real"),
        ([odd] * 6, "y:", "1 masked"),
        (np.ones(6), "(40,)"),
    ):
        refuses(lambda: fresh.fit(layouts, y), tg.Error, *names)
    refuses(lambda: fresh.fit(layouts, np.ones(6), y=np.ones(6)), tg.Error, "twice")
    refuses(lambda: fresh.fit(*table(), verbose=False), tg.errors.DataError, "layout")
    fresh.fit(layouts[0], verbose=False)
    refuses(lambda: fresh.predict(layouts), tg.errors.DataError, "list", "[ranker.predict")


def test_grid_search_over_fields(graphs: list[Any]) -> None:
    grid = {"learning_rate": [0.0, 1e-2], "seed": [1]}
    search = GridSearchCV(ranker(steps=40), grid, cv=KFold(2), error_score="raise").fit(graphs)
    assert search.best_params_["learning_rate"] == 1e-2 and search.best_estimator_.history_.loss
    assert search.score(graphs) == search.best_estimator_.score(graphs) > 0.2
    trial = search.cv_results_["mean_test_score"]
    assert len(trial) == 2 and trial[1] > trial[0]
    process = GridSearchCV(MultiTaskGaussianProcess(), {"noise": [0.5, 1.0]}, cv=KFold(2)).fit(graphs)
    assert process.best_estimator_.fitted


def test_a_search_in_a_search_and_another_metric(graphs: list[Any]) -> None:
    def slowdown(fitted: Any, x: Any, y: Any = None) -> float:
        fitted = getattr(fitted, "best_estimator_", fitted)
        return -float(fitted.evaluate(x, draws=2).mean("slowdown@5"))

    inner = GridSearchCV(MeanEffect(), {}, cv=KFold(2), scoring=slowdown, error_score="raise")
    scores = cross_val_score(inner, graphs, cv=KFold(2), scoring=slowdown, error_score="raise")
    assert len(scores) == 2 and (scores <= 0).all()


def test_pipelines_of_graphs(graphs: list[Any]) -> None:
    seen = []

    def halve(given: Any) -> list[Any]:
        seen.append(len(given))
        return [graph.select(slice(0, 12)) for graph in given]

    pipeline = make_pipeline(FunctionTransformer(halve), ranker())
    scores = cross_val_score(pipeline, graphs, cv=KFold(2), error_score="raise")
    assert seen == [4, 4, 4, 4]  # each fold is fitted, then judged
    assert list(scores) == list(
        cross_val_score(ranker(), [g.select(slice(0, 12)) for g in graphs], cv=KFold(2))
    )
    search = GridSearchCV(pipeline, {"ranker__steps": [1, 2]}, cv=KFold(2), error_score="raise").fit(graphs)
    assert search.best_params_["ranker__steps"] in (1, 2)


# ---- configs of one graph, and tables ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "graph", [small_graph(1, configs=60), small_tile(), programs(1)[0]], ids=lambda g: g.kind
)
def test_configs_as_samples(graph: Any) -> None:
    configs = tg.data.as_samples(graph)
    assert isinstance(configs, type(graph)) and configs.shape == (graph.num_configs,) == (len(configs),)
    assert tg.data.as_samples(configs) is configs and not hasattr(graph, "__len__")
    some = configs[np.array([4, 2])]
    assert np.array_equal(some.runtime, graph.runtime[[4, 2]], equal_nan=True)
    assert len(some[1]) == 1 and len(some[:1]) == 1 and len(list(some)) == 2
    assert len(configs[np.arange(len(configs)) < 3]) == 3
    again = pickle.loads(pickle.dumps(some))
    assert len(again) == 2 and type(again) is type(some) and repr(again) == repr(some)
    refuses(lambda: configs[len(configs)], tg.errors.DataError, "configs")
    refuses(lambda: tg.data.as_samples([graph]), tg.errors.ConfigError, "graph")


def test_cross_validation_over_configs() -> None:
    graph = small_graph(1, configs=200)
    configs = tg.data.as_samples(graph)
    scores = cross_val_score(LinearBaseline(), configs, cv=KFold(2), error_score="raise")
    half = np.arange(100)
    assert scores[1] == LinearBaseline().fit(graph, half).score(graph.select(half + 100)) > 0.3
    own = small_ranker(steps=3)
    scores = cross_val_score(own, configs, cv=KFold(2), error_score="raise")
    by_hand = small_ranker(steps=3).fit(graph.select(half), verbose=False).score(graph.select(half + 100))
    assert scores[1] == by_hand
    assert (cross_val_score(own, configs, graph.runtime, cv=KFold(2)) == scores).all()
    search = GridSearchCV(own, {"seed": [0, 1]}, cv=KFold(2), error_score="raise")
    assert len(cross_val_score(search, configs, cv=KFold(2), error_score="raise")) == 2


def table(rows: int = 60) -> tuple[Any, Any]:
    x = np.random.default_rng(0).normal(size=(rows, 3))
    return x, np.exp(x[:, 0])


def test_tables_in_place_of_graphs() -> None:
    x, y = table()
    r = ranker(steps=60).fit(x, y)
    graph = tg.Graph(config_feat=x, runtime=y)
    same = ranker(steps=60).fit(graph, verbose=False)
    assert (r.model.params == same.model.params).all() and r.n_features_in_ == 3
    assert (r.predict(x) == same.predict(graph)).all() and r.score(x, y) == same.score(graph) > 0.6
    assert cross_val_score(ranker(steps=60), x, y, cv=3, error_score="raise").min() > 0.5
    pandas = pytest.importorskip("pandas", reason="needs pandas")
    frame = pandas.DataFrame(x, columns=["a", "b", "c"])
    assert (ranker(steps=60).fit(frame, pandas.Series(y)).predict(frame) == r.predict(x)).all()
    with pytest.raises(AttributeError):
        _ = small_ranker().fit(small_graph(), steps=1, verbose=False).n_features_in_


def test_tables_that_are_refused() -> None:
    x = np.zeros((4, 2))
    for given, y, *names in (
        (x, None, "requires y"),
        (x, [1, 2, 3], "(4,)", "(3,)"),
        (np.full((4, 2), np.nan), [1, 2, 3, 4], "NaN", "row 0"),
        (np.zeros(4), [1, 2, 3, 4], "Reshape your data"),
        (np.zeros((4, 0)), [1, 2, 3, 4], "0 feature"),
        (np.zeros((0, 2)), [], "0 sample"),
        (np.zeros((1, 2)), [1], "1 sample"),
        (np.array([["a", "b"]] * 4), [1, 2, 3, 4], "tg.from_frame"),
        (x, [1, 2, -3, 4], "-3"),
        (np.zeros((4, 2), complex), [1, 2, 3, 4], "Complex data not supported"),
        (x, 0.5, "requires y"),
        (np.ma.masked_equal([[1.0], [2.0]], 2), [1, 2], "X:", "mask"),
        ([[1.0], [2.0]], [1, 2], "X:", "list", "np.asarray(X)"),
    ):
        refuses(lambda: ranker().fit(given, y, verbose=False), tg.Error, *names)


# ---- weights ----------------------------------------------------------------------------------------------


def test_weights_through_cross_validation(graphs: list[Any]) -> None:
    rng = np.random.default_rng(0)
    weights = [rng.random(graph.num_configs).astype(np.float32) for graph in graphs]
    by_hand = ranker().fit(graphs[4:], sample_weight=weights[4:], verbose=False).score(graphs[:4])
    array = np.empty(len(weights), object)
    array[:] = weights
    for given in (weights, array):
        scores = cross_val_score(
            ranker(), graphs, cv=KFold(2), params={"sample_weight": given}, error_score="raise"
        )
        assert scores[0] == by_hand
    assert by_hand != ranker().fit(graphs[4:], verbose=False).score(graphs[:4])


def test_weights_are_routed(graphs: list[Any]) -> None:
    weights = [np.linspace(0.1, 1, graph.num_configs, dtype=np.float32) for graph in graphs]
    asks = ranker().set_fit_request(sample_weight=True)
    expected = ranker().fit(graphs[4:], sample_weight=weights[4:], verbose=False).score(graphs[:4])
    with sklearn.config_context(enable_metadata_routing=True):
        given = {"params": {"sample_weight": weights}, "cv": KFold(2), "error_score": "raise"}
        assert cross_val_score(clone(asks), graphs, **given)[0] == expected
        refuses(lambda: cross_val_score(ranker(), graphs, **given), ValueError, "sample_weight")
        search = GridSearchCV(asks, {"seed": [0]}, cv=KFold(2), error_score="raise")
        assert search.fit(graphs, sample_weight=weights).cv_results_["split0_test_score"][0] == expected
    twin = pickle.loads(pickle.dumps(asks))
    assert twin.get_params() == asks.get_params()
