"""Losses that are Python functions: values and gradients, what is refused, files, resuming."""

import copy
import functools
import itertools
import pickle
import warnings

import numpy as np
import pytest
from rankers import Break, small_any, small_graph, small_ranker, small_tile, state
from refusals import refuses
from sklearn.base import clone
from test_lists import GRAPHS, LISTS, PLAIN, batch, scores_of

import tpugraphs as tg
from tpugraphs.recipes.functions import function_name
from tpugraphs.training.optimizer import Optimizer


def log_squares(scores, runtimes, lists):
    """Mean over lists of mean (score - ln runtime)^2, in float64."""
    gradient, total = np.zeros(len(scores)), 0.0
    for begin, end in itertools.pairwise(lists):
        far = scores[begin:end].astype(np.float64) - np.log(runtimes[begin:end])
        total += np.mean(far**2) / (len(lists) - 1)
        gradient[begin:end] = 2 * far / len(far) / (len(lists) - 1)
    return total, gradient


def single(scores, runtimes, lists):
    value, gradient = log_squares(scores, runtimes, lists)
    return np.float32(value), gradient.astype(np.float32)


def slope_of(ranker, chosen, value):
    """Change of `value(scores)` along the gradient of the weights, by differences, over that of the gradient."""
    params, direction = ranker.model.params, ranker.trainer.grads.astype(np.float64)
    start, ends = params.copy(), []
    step = 1e-3 / np.linalg.norm(direction)
    for h in (step, -step):
        params[:] = start + h * direction
        ends.append(value(scores_of(ranker, chosen).astype(np.float64)))
    params[:] = start
    return (ends[0] - ends[1]) / (2 * step) / (direction @ direction)


@pytest.mark.parametrize("lists", LISTS)
def test_gradients_are_those_of_the_function_and_of_the_same_loss_of_the_core(lists):
    own, core = (
        small_ranker(lists=lists, part=6, loss=loss, target="log-runtime", **PLAIN)
        for loss in (log_squares, [{"loss": "mse"}])
    )
    chosen = batch(own)
    batch(core)
    times = np.concatenate([one.times[rows] for one, rows in chosen]).astype(np.float64)
    offsets = np.array(LISTS[lists])
    value = log_squares(scores_of(own, chosen), times, offsets)[0]
    got, expected = (Optimizer(r.network).gradients(1, chosen) for r in (own, core))
    assert got == pytest.approx(value, rel=1e-6) == pytest.approx(expected, rel=1e-6)
    difference = np.linalg.norm(own.trainer.grads - core.trainer.grads)
    assert 0 < np.linalg.norm(core.trainer.grads) and difference <= 1e-5 * np.linalg.norm(core.trainer.grads)
    slope = slope_of(own, chosen, lambda scores: log_squares(scores, times, offsets)[0])
    assert slope == pytest.approx(1, rel=0.02)


def test_it_sees_the_lists_after_scale_and_shift_and_the_gradient_is_of_the_scores():
    seen = []

    def spy(scores, runtimes, lists):
        seen.append((scores, runtimes, lists))
        return log_squares(scores, runtimes, lists)

    ranker = small_ranker(loss=spy, **PLAIN)
    chosen = batch(ranker)
    before = scores_of(ranker, chosen)
    moved = [(2.0, 1.0), None, (-0.5, 0.0)]
    slates = [(*one, None, pair) for one, pair in zip(chosen, moved, strict=True)]
    got = Optimizer(ranker.network).gradients(1, slates)
    ((scores, times, lists),) = seen
    scale, shift = np.repeat([2.0, 1.0, -0.5], [16, 11, 3]), np.repeat([1.0, 0.0, 0.0], [16, 11, 3])
    assert scores.dtype == np.float32 and times.dtype == np.float64 and lists.tolist() == [0, 16, 27, 30]
    np.testing.assert_allclose(scores, scale * before + shift, rtol=1e-6)
    assert times.tolist() == np.concatenate([one.measured[rows] for one, rows in chosen]).tolist()

    def value(raw):
        return log_squares(scale * raw + shift, times, lists)[0]

    assert got == pytest.approx(value(before), rel=1e-6)
    assert slope_of(ranker, chosen, value) == pytest.approx(1, rel=0.02)


def test_sums_and_weights_and_parts_of_a_batch():
    def gradients(loss, parts=1):
        ranker = small_ranker(loss=loss, target="log-runtime", **PLAIN)
        chosen, optimizer = batch(ranker), Optimizer(ranker.network)
        found = [optimizer.gradients(1, chosen, (i, parts)) for i in range(parts)]
        return found[0], ranker.trainer.grads.astype(np.float64).copy()

    value, gradient = gradients([{"loss": log_squares, "weight": 0.25}, {"loss": "ranknet"}])
    expected, wanted = gradients([{"loss": "mse", "weight": 0.25}, {"loss": "ranknet"}])
    assert value == pytest.approx(expected, rel=1e-5)
    assert np.linalg.norm(gradient - wanted) <= 1e-5 * np.linalg.norm(wanted)
    two = gradients([{"loss": "ranknet"}, {"loss": single, "weight": 0.25}])
    assert two[0] == pytest.approx(value, rel=1e-5)
    assert np.linalg.norm(two[1] - wanted) <= 1e-4 * np.linalg.norm(wanted)
    twice = gradients(log_squares, 2)
    assert np.linalg.norm(twice[1] - gradients(log_squares)[1]) <= 1e-5 * np.linalg.norm(twice[1])


@pytest.mark.parametrize(
    ("recipe", "graph", "expected"),
    [
        ("graph-config", small_any(), lambda g: g.runtime),
        ("first-tile", small_tile(), lambda g: g.config_runtime / g.config_runtime_normalizers),
    ],
)
def test_runtimes_are_in_the_unit_of_the_graph_and_normalised_for_tiles(recipe, graph, expected):
    seen = set()

    def spy(scores, runtimes, lists):
        seen.update(runtimes.tolist())
        return single(scores, runtimes, lists)

    small_ranker(recipe, loss=spy, steps=1).fit(graph, verbose=False)
    assert seen and seen <= set(expected(graph).tolist())


def returns(result):
    def wrong(scores, runtimes, lists):
        return result(scores) if callable(result) else result

    return wrong


@pytest.mark.parametrize(
    ("result", "words"),
    [
        (None, r"a pair \(loss, gradient\), got NoneType"),
        (lambda s: [0.0, s], "a pair .* got list"),
        (lambda s: ("much", s), "a number as the loss, got 'much'"),
        (lambda s: (True, s), "a number as the loss"),
        (lambda s: (np.nan, s), "a finite loss, got nan"),
        (lambda s: (10**400, s), "a finite loss"),
        (lambda s: (0.0, s[:-1]), r"shape of the scores, \(16,\), got \(15,\)"),
        (lambda s: (0.0, s[:, None]), r"got \(16, 1\)"),
        (lambda s: (0.0, s.tolist()), "float32 or float64, got list"),
        (lambda s: (0.0, s.astype(np.float16)), "got float16"),
        (lambda s: (0.0, s / 0), "a finite gradient, got -?(inf|nan) at score 0"),
        (lambda s: (0.0, np.full(16, 1e300)), "a finite gradient, got 1e"),
    ],
)
@pytest.mark.filterwarnings("ignore:divide by zero")
def test_results_of_another_form_are_refused_by_the_name_of_the_function(result, words):
    ranker = small_ranker(loss=returns(result))
    with pytest.raises(tg.ConfigError, match=rf"loss returns\.<locals>\.wrong: .*{words}"):
        ranker.fit(GRAPHS[0], verbose=False)
    assert not ranker.fitted


def test_the_core_takes_nothing_else_either():
    ranker = small_ranker()
    chosen = batch(ranker)
    slates = [one.slate(rows) for one, rows in chosen]
    targets = {"time": [one.times[rows].astype(np.float64) for one, rows in chosen]}
    for function in (lambda *a: None, lambda *a: (1.0,), lambda *a: ("x", a[0]), lambda *a: (1.0, a[0][:3])):
        with pytest.raises(tg.ConfigError, match=r"loss .*<lambda>: expected it to return"):
            ranker.trainer.gradients(slates, targets, [{"loss": function}])
    for named in (functools.partial(returns(None)), functools.partial(functools.partial(returns(None)))):
        with pytest.raises(
            tg.ConfigError, match=r"loss returns\.<locals>\.wrong: expected it to return a pair"
        ):
            ranker.trainer.gradients(slates, targets, [{"loss": named}])
    with pytest.raises(TypeError):
        ranker.trainer.gradients(slates, targets, [{"loss": lambda: 1}])
    with pytest.raises(tg.ConfigError, match="reads times"):
        ranker.trainer.gradients(
            slates, {"order": [one.runtimes[rows] for one, rows in chosen]}, [{"loss": max}]
        )
    for key in ("margin", "over", "reduction"):
        with pytest.raises(
            tg.ConfigError, match=f"a loss of your own: attributes: expected only weight, found '{key}'"
        ):
            tg.Ranker("graph-config", loss=[{"loss": log_squares, key: "batch"}])
    with pytest.raises(tg.ConfigError, match="margin"):
        tg.Ranker("graph-config", loss=[{"loss": log_squares, "margin": 1.0}])


def test_an_error_or_ctrl_c_inside_comes_out_as_it_is_and_leaves_the_ranker():
    for error in (ZeroDivisionError("mine"), KeyboardInterrupt()):

        def fails(scores, runtimes, lists, error=error):
            raise error

        ranker = small_ranker(loss=fails)
        with pytest.raises(type(error)) as found:
            ranker.fit(GRAPHS[0], verbose=False)
        assert not ranker.fitted and str(found.value) == str(error)
        ranker.set_params(loss="ranknet").fit(GRAPHS[0], steps=2, verbose=False)
        assert ranker.fitted


def test_the_arrays_are_copies_and_the_loss_may_rank_with_the_ranker():
    ranker = small_ranker(steps=3, **PLAIN)

    def careless(scores, runtimes, lists):
        value, gradient = log_squares(scores, runtimes, lists)
        scores[:], runtimes[:], lists[:] = np.nan, -1, 7
        ranker.model.scores([(ranker.network.prepare(GRAPHS[0]).graph, np.arange(4))])
        return value, gradient

    expected = small_ranker(steps=3, loss=log_squares, **PLAIN)
    expected.fit(GRAPHS[0], verbose=False)
    ranker.set_params(loss=careless).fit(GRAPHS[0], verbose=False)
    assert state(ranker) == state(expected)


def test_bits_are_the_same_for_any_number_of_threads_and_after_resuming(tmp_path):
    before, found = tg.get_num_threads(), []
    try:
        for count in (1, 2, 3):
            tg.set_num_threads(count)
            ranker = small_ranker(loss=log_squares, steps=4)
            ranker.fit(GRAPHS, verbose=False)
            found.append(state(ranker))
    finally:
        tg.set_num_threads(before)
    assert found[0] == found[1] == found[2]
    options = {"checkpoint_dir": tmp_path, "checkpoint_every": 1, "verbose": False}
    with pytest.raises(OSError, match="broken"):
        small_ranker(loss=log_squares, steps=4).fit(GRAPHS, callbacks=[Break(2)], **options)
    with pytest.raises(tg.CheckpointError, match="loss.*log_squares.*single"):
        small_ranker(loss=single, steps=4).fit(GRAPHS, callbacks=[Break()], **options)
    resumed = small_ranker(loss=log_squares, steps=4)
    resumed.fit(GRAPHS, callbacks=[Break()], **options)
    assert state(resumed) == found[0]


def test_copies_keep_the_function():
    ranker = small_ranker(loss=log_squares, steps=2)
    assert clone(ranker).fields.loss is log_squares and ranker.get_params()["loss"] is log_squares
    ranker.fit(GRAPHS[0], verbose=False)
    for twin in (copy.deepcopy(ranker), pickle.loads(pickle.dumps(ranker))):
        assert twin.fields.loss is log_squares
        assert twin.partial_fit(GRAPHS[0], range(8)) == copy.deepcopy(ranker).partial_fit(GRAPHS[0], range(8))


@pytest.mark.parametrize(
    "loss", [log_squares, [{"loss": "ranknet"}, {"loss": log_squares, "weight": 0.5}]], ids=["one", "sum"]
)
def test_a_file_predicts_without_the_function_and_a_fit_asks_for_it(loss, tmp_path):
    ranker, path = small_ranker(loss=loss, steps=3), tmp_path / "r.safetensors"
    ranker.fit(GRAPHS[0], verbose=False)
    ranker.save(path)
    loaded, graph = tg.load_ranker(path), small_graph(9)
    assert (loaded.predict(graph) == ranker.predict(graph)).all()
    for use in (
        lambda: loaded.fit(GRAPHS[0], verbose=False),
        lambda: loaded.partial_fit(GRAPHS[0], range(8)),
        lambda: loaded.adapt(GRAPHS[0], range(8), steps=1),
    ):
        refuses(use, tg.ConfigError, "set_params(loss=log_squares)")
    again = tmp_path / "again.safetensors"
    loaded.save(again)  # the name goes on
    assert loaded.set_params(loss=loss) is loaded and loaded.fitted
    assert (loaded.predict(graph) == ranker.predict(graph)).all()
    adapted = [r.adapt(GRAPHS[0], range(8), steps=2) for r in (ranker, loaded)]
    assert state(adapted[0]) == state(adapted[1])
    tuned = [r.fit(GRAPHS[0], init=r, verbose=False) and state(r) for r in (ranker, loaded)]
    assert tuned[0] == tuned[1]
    assert (
        tg.load_ranker(again).set_params(loss="ranknet").predict(graph) == tg.load_ranker(path).predict(graph)
    ).all()


def test_names_tell_functions_apart():

    def make(factor):
        return lambda scores, runtimes, lists: (factor, scores)

    class Margin:
        def __init__(self, margin):
            self.margin = margin

        def __call__(self, scores, runtimes, lists):
            return self.margin, scores

    functions = [
        make(1.0), make(2.0), make({"a": 1.0}), make({"a": 2.0}), make(np.ones(3)), make(np.arange(3.0)),
        make({"a", "b"}), Margin(1.0), Margin(2.0), Margin(1.0).__call__, functools.partial(single, lists=1),
        functools.partial(single, lists=2), single, log_squares, max,
    ]  # fmt: skip
    names = [function_name(function) for function in functions]
    assert len(set(names)) == len(names) and all(name.startswith("python:") for name in names)
    assert function_name(make(1.0)) == names[0] and function_name(make({"b", "a"})) == names[6]
    assert function_name(Margin(2.0)) == names[8]


def test_seeds_train_side_by_side():
    with warnings.catch_warnings(action="ignore"):
        runs = tg.train_seeds(
            "graph-config", [small_any()], [small_any(1)], seeds=2, steps=3, loss=single, verbose=False
        )
    alone = tg.Ranker("graph-config", steps=3, loss=single)
    alone.fit([small_any()], [small_any(1)], verbose=False)
    assert (runs.rankers[0].predict(small_any(2)) == alone.predict(small_any(2))).all()


def test_functions_that_refer_to_themselves_have_names():
    def descend(depth=3):
        return descend(depth - 1) if depth else later

    loop = [1]
    loop.append(loop)
    cyclic = functools.partial(descend, loop)
    first, again = function_name(descend), function_name(descend)  # `later` is not set yet
    assert first == again != function_name(cyclic)
    later = 2
    assert descend() == later


def test_a_function_of_other_arguments_is_refused():
    for function in (lambda scores, runtimes: None, lambda: None, lambda a, b, c, d: None):
        ranker = tg.Ranker("graph-config", steps=1, loss=function)
        names = "loss", "(scores, runtimes, lists)", "<lambda>("
        refuses(lambda: ranker.fit(small_any(), verbose=False), tg.ConfigError, *names)
    tg.Ranker("graph-config", steps=1, loss=lambda s, *rest: (0.0, 0 * s)).fit(small_any(), verbose=False)
