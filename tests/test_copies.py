"""Scorers are copied and go into other processes: with copy, pickle, joblib and scikit-learn."""

import copy
import multiprocessing
import pickle
import tempfile
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

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
    RandomBaseline,
)
from tpugraphs.recipes import Recipe, TrainingFields, get_recipe, option

ANY, LAYOUT = [small_any(0), small_any(1)], [small_graph(0), small_graph(1)]
SMALL = {"steps": 2, "width": 8}


def of_model(**how):
    """A recipe out of a list of steps."""
    model = tg.Model()
    x = model.linear(model.config_feat, out=8, act="silu")
    model.linear(x, out=1, to="scores")
    return model.recipe("of-model", **how)


@dataclass(frozen=True)
class Fields(TrainingFields):
    """Fields of a custom recipe."""

    wide: int = option(8, 1, 64, doc="columns")


def steps(fields, sizes):
    model = tg.Model(sizes)
    model.linear(model.linear(model.config_feat, out=fields.wide, act="silu"), out=1, to="scores")
    return model


def preprocessing(fields, schema):
    return get_recipe("graph-config").preprocessing(get_recipe("graph-config").fields(), schema)


OWN = Recipe(
    name="own", summary="Two layers.", kind="graph", options=Fields, steps=steps, preprocessing=preprocessing
)


def from_file(scorer):
    """The scorer as another machine has it."""
    with tempfile.TemporaryDirectory() as folder:
        scorer.save(Path(folder) / "a.safetensors")
        return tg.load_ranker(Path(folder) / "a.safetensors")


def fitted(recipe, **fields):
    return tg.Ranker(recipe, steps=2, **fields).fit(ANY, verbose=False)


SCORERS = {
    "package's": lambda: fitted("graph-config", width=8),
    "layout": lambda: small_ranker(steps=2).fit(LAYOUT, verbose=False),
    "of a model": lambda: fitted(of_model()),
    "of a model, with a loss": lambda: fitted(of_model(loss=[{"loss": "ranknet"}], learning_rate=0.01)),
    "own": lambda: fitted(OWN, wide=4),
    "own from a file": lambda: from_file(fitted(OWN, wide=4)),
    "of a model from a file": lambda: from_file(fitted(of_model())),
    "ensemble": lambda: tg.Ensemble([fitted(of_model()), from_file(fitted(OWN))]),
    "routed": lambda: tg.Routed({"graph": fitted(OWN)}),
    "nearest": lambda: tg.Nearest(tg.Ranker(of_model(), steps=2)).fit(ANY),
    "process": lambda: GaussianProcess(fitted(of_model())).fit(ANY[0]),
    "multitask": lambda: MultiTaskGaussianProcess().fit(ANY),
    "mean": lambda: MeanEffect().fit(ANY),
    "linear": lambda: LinearBaseline().fit(LAYOUT[0]),
    "random": lambda: RandomBaseline(3),
}


def graph_of(scorer):
    return LAYOUT[0] if scorer.kind == "layout" else ANY[0]


@pytest.mark.parametrize("name", SCORERS)
def test_copies_predict_the_same_bits(name):
    scorer = SCORERS[name]()
    graph = graph_of(scorer)
    expected = scorer.predict(graph)
    for made in (copy.copy(scorer), copy.deepcopy(scorer), pickle.loads(pickle.dumps(scorer))):
        assert type(made) is type(scorer) and (made.predict(graph) == expected).all()
    if name != "nearest":
        assert (from_file(pickle.loads(pickle.dumps(scorer))).predict(graph) == expected).all()


@pytest.mark.parametrize("recipe", [of_model(), OWN, "file"])
def test_what_is_not_fitted_goes_and_learns_the_same(recipe):
    if recipe == "file":
        ranker = from_file(fitted(OWN))
    else:
        ranker = tg.Ranker(recipe, steps=3)
    again = pickle.loads(pickle.dumps(ranker))
    assert again.get_params().keys() == ranker.get_params().keys() and again.fields == ranker.fields
    one, other = (some.fit(ANY, steps=3, verbose=False).predict(ANY[0]) for some in (ranker, again))
    assert (one == other).all()
    twin = pickle.loads(pickle.dumps(again))
    assert twin.partial_fit(ANY[0], slice(8)) == again.partial_fit(
        ANY[0], slice(8)
    )  # with the optimizer's state


def test_the_same_fields_of_a_file_are_of_one_class():
    ranker = from_file(fitted(OWN, wide=4))
    again, other = pickle.loads(pickle.dumps(ranker)), from_file(fitted(OWN, wide=5))
    assert type(again.fields) is type(ranker.fields) and again.fields == ranker.fields
    assert type(other.fields) is not type(ranker.fields)
    refuses(lambda: again.set_params(wide=5), tg.ConfigError, "wide")


def scores_of(scorer):
    return scorer.predict(ANY[0])


def test_other_processes_score_and_learn():
    """Processes that are started anew get scorers as pickles."""
    scorers = [SCORERS[name]() for name in ("of a model", "own from a file", "ensemble")]
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        for scorer, scores in zip(scorers, pool.map(scores_of, scorers), strict=True):
            assert (scores == scores_of(scorer)).all()


@pytest.mark.parametrize("recipe", [of_model(), OWN], ids=["model", "own"])
def test_scikit_learn_clones_and_validates_in_processes(recipe):
    sklearn = pytest.importorskip("sklearn", reason="needs scikit-learn: pip install 'tpugraphs[sklearn]'")
    from sklearn.model_selection import KFold, cross_val_score

    graphs = [small_any(seed) for seed in range(4)]
    ranker = tg.Ranker(recipe, steps=3)
    assert sklearn.base.clone(ranker).get_params() == ranker.get_params()
    how = {"cv": KFold(2), "error_score": "raise"}
    alone, two = (cross_val_score(ranker, graphs, n_jobs=jobs, **how) for jobs in (1, 2))
    assert (alone == two).all()
    made = tg.Ensemble([ranker.fit(graphs, verbose=False), from_file(ranker)])
    alone, two = (cross_val_score(made, graphs, n_jobs=jobs, **how) for jobs in (1, 2))
    assert (alone == two).all() and len(sklearn.base.clone(made)) == 2


@pytest.mark.parametrize("method", ["residual", "mlpredict", "roofline"])
def test_layer_models(method):
    rng = np.random.default_rng(0)
    table = {name: rng.integers(1, 500, 120) for name in ("batch", "dim_input", "dim_output")}
    table["ms"] = 1e-3 * table["batch"] * table["dim_input"] + 0.1
    fields = {} if method == "roofline" else {"steps": 20}
    model = tg.layertime.LayerTimeModel("dense", method=method, **fields).fit(table, "V100")
    for made in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert (made.predict(table, "V100") == model.predict(table, "V100")).all()
