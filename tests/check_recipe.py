"""What every recipe must do. Each check takes a recipe, by name or as it is, and knows nothing else about it."""

import dataclasses
import json

import numpy as np
import pytest
from rankers import SMALL_GRAPHS, Break, having, state
from sklearn.base import clone

import tpugraphs as tg
from tpugraphs import _core
from tpugraphs.recipes import TrainingFields, get_recipe, plain
from tpugraphs.recipes.base import EstimatorFields

SMALL = {
    "width": 16, "configs": 12, "valid_configs": 64, "chunk": 16, "evaluate_every": 1, "num_leaves": 4,
    "min_data_in_leaf": 2,
}  # fmt: skip


def ranker(recipe, steps=2, **fields):
    return tg.Ranker(recipe, seed=3, **{**having(recipe, **SMALL), "steps": steps, **fields})


def graphs(recipe):
    """Two to learn from, one to validate on, one to rank."""
    kind = get_recipe(recipe).kind
    return [SMALL_GRAPHS["layout" if kind == "any" else kind](seed) for seed in range(4)]


def is_network(recipe):
    return get_recipe(recipe).estimator == "network"


def chooses(recipe):
    return get_recipe(recipe).estimator == "auto"


def needs(recipe):
    """Skip where an extra is missing that the recipe names."""
    if get_recipe(recipe).estimator in ("trees", "tree-pairs"):
        pytest.importorskip("lightgbm", reason="needs the extra [lightgbm]")


def with_model(r, recipe):
    """The ranker with a model of random weights; it follows from the graphs, where these have a schema."""
    r.pipeline.fit(graphs(recipe)[:2])
    return r


def described(recipe):
    found = get_recipe(recipe)
    assert found.summary.endswith(".") and issubclass(found.options, (TrainingFields, EstimatorFields))
    told = json.loads(json.dumps(found.describe()))
    assert told["options"].keys() == {field.name for field in dataclasses.fields(found.options)}
    for name, option in told["options"].items():
        assert len(option["meaning"]) > 5 and option["meaning"][-1] != ".", name
        assert option["expected"] and option["default"].keys() == found.presets.keys(), name
        number = any(word in option["expected"] for word in ("number", "whole"))
        assert not number or option["low"] < option["high"], f"{name} has no range"


def builds_models_of_plain_values(recipe):
    found = get_recipe(recipe)
    for preset in found.presets:
        fields = found.fields(preset)
        r, twin = (with_model(tg.Ranker(recipe, preset=preset), recipe) for _ in range(2))
        assert (r.steps, r.pipeline.steps) == (twin.steps, twin.pipeline.steps), "its functions are not pure"
        for made in (r.steps, r.pipeline.steps, found.losses(fields), found.groups(fields)):
            assert json.loads(json.dumps(made)) == made
        assert r.num_parameters > 0
    again = found.fields("cpu", json.loads(json.dumps(plain(found.fields("cpu")))))
    assert again == found.fields("cpu")


def fits(recipe):
    *train, valid, unseen = graphs(recipe)
    r = ranker(recipe)
    assert not r.fitted
    history = r.fit(train, [valid], verbose=False).history_
    assert len(history.loss) == len(history.valid_metric) == 2 and np.isfinite(history.loss).all()
    assert r.fitted and r.kind == train[0].kind
    scores = r.predict(unseen)
    assert scores.shape == (unseen.num_configs,) and np.isfinite(scores).all() and np.ptp(scores) > 0
    assert -1 <= r.score(unseen) <= 1 and r.evaluate(unseen, draws=5).rows[0].scorer == r.recipe


def learns_by_steps(recipe):
    """Of a network: a fit changes its weights, and `partial_fit` takes one step."""
    train, r = graphs(recipe)[0], ranker(recipe)
    before = with_model(ranker(recipe), recipe).model.params.copy()
    r.fit(train, verbose=False)
    assert not (r.model.params == before).all()
    assert np.isfinite(r.partial_fit(train, range(8)))


def adapts_to_the_same_bits_when_loaded(recipe, folder):
    train, *_, unseen = graphs(recipe)
    r = ranker(recipe)
    r.fit(train, verbose=False)
    r.save(folder / "r.safetensors")
    adapted = [
        some.adapt(unseen, range(8), steps=2) for some in (r, tg.Ranker.load(folder / "r.safetensors"))
    ]
    assert state(adapted[0]) == state(adapted[1]) != state(r)


def resumes_to_the_same_bits(recipe, folder):
    *train, valid, _ = graphs(recipe)
    straight, resumed = ranker(recipe, 4), ranker(recipe, 4)
    expected = straight.fit(train, [valid], callbacks=[Break()], verbose=False).history_
    options = {"checkpoint_dir": folder, "checkpoint_every": 1, "verbose": False}
    with pytest.raises(OSError, match="broken"):
        ranker(recipe, 4).fit(train, [valid], callbacks=[Break(3)], **options)
    history = resumed.fit(train, [valid], callbacks=[Break()], **options).history_
    assert history.loss == expected.loss and history.valid_metric == expected.valid_metric
    assert state(straight) == state(resumed)


def loads_to_the_same_bits(recipe, folder):
    train, *_, unseen = graphs(recipe)
    r = ranker(recipe)
    r.fit(train, verbose=False)
    r.save(folder / "r.safetensors")
    loaded = tg.load_ranker(folder / "r.safetensors")
    assert loaded.get_params() == r.get_params()
    assert (loaded.predict(unseen) == r.predict(unseen)).all()
    both = tg.Ensemble([r, tg.ranker.RandomBaseline()], normalize="rank")
    both.save(folder / "e.safetensors")
    assert (tg.load_ranker(folder / "e.safetensors").predict(unseen) == both.predict(unseen)).all()


def keeps_bits_over_threads(recipe):
    train, *_, unseen = graphs(recipe)
    results = []
    for count in (1, 2, 3):
        tg.set_num_threads(count)
        r = ranker(recipe)
        r.fit(train, verbose=False)
        results.append([*state(r), r.predict(unseen).tobytes()])
    assert results[0] == results[1] == results[2]


def refuses_other_kinds(recipe):
    r = ranker(recipe)
    r.fit(graphs(recipe)[0], verbose=False)
    kind, any_kind = r.kind, get_recipe(recipe).kind in ("graph", "any")
    for other, make in SMALL_GRAPHS.items():
        if other != kind:
            for use in (lambda g: ranker(recipe).fit(g, verbose=False), r.predict, r.rank):
                if any_kind and use.__name__ == "<lambda>":
                    continue  # every graph may be learnt from
                with pytest.raises(tg.DataError, match="schema" if kind == "graph" else kind):
                    use(make())
    for nothing in (None, "graph.npz", 3):
        with pytest.raises(tg.ConfigError):
            ranker(recipe).fit(nothing, verbose=False)


def is_cloned(recipe):
    r = ranker(recipe, learning_rate=2e-3)
    copy = clone(r)
    assert copy.get_params() == r.get_params() and repr(copy) == repr(r)
    assert tg.Ranker(**r.get_params()).fields == r.fields
    assert r.set_params(**r.get_params()) is r
    assert r.set_params(steps=3).fields.steps == 3 and r.fields.learning_rate == 2e-3


def takes_every_loss(recipe):
    """A loss of the table by name goes through a copy."""
    r = ranker(recipe, loss=[{"loss": "list_mle"}])
    assert clone(r).loss == r.loss and r.loss[0]["loss"] == "list_mle"


def takes_every_optimizer(recipe):
    train = graphs(recipe)[0]
    ends = set()
    for kind in _core.optimizers():
        r = ranker(recipe, optimizer=kind, learning_rate=1e-2, schedule="constant", weight_decay=1e-2)
        history = r.fit(train, verbose=False).history_
        assert np.isfinite(r.predict(train)).all() and history.learning_rate == [1e-2, 1e-2]
        ends.add(r.model.params.tobytes())
    assert len(ends) == len(_core.optimizers())


def check_recipe(recipe, folder):
    """All of it: for a recipe of your own."""
    for name, check in checks(recipe).items():
        (folder / name).mkdir()
        check(recipe, *([folder / name] if name in WITH_FILES else []))


CHECKS = {
    check.__name__: check
    for check in (
        described,
        builds_models_of_plain_values,
        fits,
        learns_by_steps,
        adapts_to_the_same_bits_when_loaded,
        resumes_to_the_same_bits,
        loads_to_the_same_bits,
        keeps_bits_over_threads,
        refuses_other_kinds,
        is_cloned,
        takes_every_loss,
        takes_every_optimizer,
    )
}
NETWORK = {
    "adapts_to_the_same_bits_when_loaded", "builds_models_of_plain_values", "learns_by_steps", "takes_every_loss", "takes_every_optimizer",
}  # fmt: skip
TRAINED = {"fits", "resumes_to_the_same_bits", "is_cloned"}  # by steps, which have losses


def checks(recipe):
    """Checks of a recipe by name: some only mean something for networks."""
    lacks = set() if is_network(recipe) else NETWORK | (TRAINED if chooses(recipe) else set())
    return {name: check for name, check in CHECKS.items() if name not in lacks}


WITH_FILES = {
    "adapts_to_the_same_bits_when_loaded", "resumes_to_the_same_bits", "loads_to_the_same_bits",
}  # fmt: skip
