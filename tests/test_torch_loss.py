"""Custom losses written in PyTorch: equal to the same in NumPy, in training, files and digests."""

import functools
import itertools
import pickle

import numpy as np
import pytest
from rankers import Break, small_graph, small_ranker, small_tile, state
from refusals import refuses
from test_lists import GRAPHS, LISTS, PLAIN, batch, scores_of
from test_own_loss import log_squares, slope_of

import tpugraphs as tg
from tpugraphs.recipes.functions import function_name

torch = pytest.importorskip("torch", reason="the bridge needs PyTorch: pip install '.[torch]'")
pytestmark = [pytest.mark.parity, pytest.mark.filterwarnings("ignore")]


def parts(tensor, lists):
    return tensor.tensor_split(lists[1:-1])


def squares(scores, runtimes, lists):
    """`log_squares` in PyTorch."""
    pairs = zip(parts(scores, lists), parts(runtimes, lists), strict=True)
    return torch.stack([(s - t.log()).square().mean() for s, t in pairs]).mean()


def logistic(scores, runtimes, lists, sigma=1.0):
    """The loss `ranknet` of the core, in PyTorch: over the ordered pairs of every list."""
    total, count = 0 * scores.sum(), 0
    for s, t in zip(parts(scores, lists), parts(runtimes, lists), strict=True):
        slower = t[:, None] > t
        total = total + (torch.nn.functional.softplus(-sigma * (s[:, None] - s)) * slower).sum()
        count += int(slower.sum())
    return total / max(count, 1)


def by_hand(scores, runtimes, lists):
    """`logistic` in NumPy, float64, with its gradient."""
    total, count, gradient = 0.0, 0, np.zeros(len(scores))
    for begin, end in itertools.pairwise(lists):
        s, t = scores[begin:end].astype(np.float64), runtimes[begin:end]
        slower, far = t[:, None] > t, s[:, None] - s
        total += (np.logaddexp(0, -far) * slower).sum()
        pull = slower / -(1 + np.exp(far))
        gradient[begin:end] = pull.sum(1) - pull.sum(0)
        count += slower.sum()
    return total / max(count, 1), gradient / max(count, 1)


class Squares(torch.nn.Module):
    def __init__(self, power):
        super().__init__()
        self.power = power

    def forward(self, scores, runtimes, lists):
        return (scores - runtimes.log()).abs().pow(self.power).mean()


def case(seed=0, dtype=np.float32):
    rng = np.random.default_rng(seed)
    runtimes = rng.integers(5, 12, 30).astype(np.float64)  # with ties
    return rng.normal(size=30).astype(dtype), runtimes, np.array([0, 12, 13, 30])


@pytest.mark.parametrize(("mine", "numpy"), [(squares, log_squares), (logistic, by_hand)])
@pytest.mark.parametrize("double", [False, True])
def test_value_and_gradient_are_those_of_the_same_in_numpy_and_of_differences(mine, numpy, double):
    def function(scores, runtimes, lists):
        assert (
            scores.dtype == torch.float32 and runtimes.dtype == torch.float64 and lists.dtype == torch.int64
        )
        return mine(scores.double() if double else scores, runtimes, lists)

    loss, (scores, runtimes, lists) = tg.torch.as_loss(function), case()
    value, gradient = loss(scores.copy(), runtimes, lists)
    expected, wanted = numpy(scores, runtimes, lists)
    assert value == pytest.approx(expected, rel=1e-6) and gradient.dtype == scores.dtype
    np.testing.assert_allclose(gradient, wanted, rtol=2e-6, atol=1e-7)
    for d in np.random.default_rng(1).normal(size=(4, 30)):
        ends = [numpy(scores.astype(np.float64) + h * d, runtimes, lists)[0] for h in (1e-6, -1e-6)]
        assert gradient @ d == pytest.approx((ends[0] - ends[1]) / 2e-6, rel=1e-4, abs=1e-6)


@pytest.mark.parametrize("lists", LISTS)
def test_a_ranker_learns_with_it_as_with_the_same_in_numpy_and_in_the_core(lists):
    losses = (tg.torch.as_loss(logistic), by_hand, [{"loss": "ranknet", "reduction": "mean-pairs"}])
    rankers = [small_ranker(lists=lists, part=6, loss=loss, **PLAIN) for loss in losses]
    from tpugraphs.training.optimizer import Optimizer

    chosen = batch(rankers[0])
    values = [Optimizer(r.network).gradients(1, batch(r)) for r in rankers]
    slopes = [r.trainer.grads.astype(np.float64).copy() for r in rankers]
    assert values[0] == pytest.approx(values[1], rel=1e-6)
    size = np.linalg.norm(slopes[1])
    assert size > 0 and np.linalg.norm(slopes[0] - slopes[1]) <= 1e-5 * size
    if len(LISTS[lists]) == 2:  # one list: the core's mean over lists of means over pairs is the same
        assert values[0] == pytest.approx(values[2], rel=1e-5)
    times = np.concatenate([one.times[rows] for one, rows in chosen]).astype(np.float64)
    offsets = np.array(LISTS[lists])
    slope = slope_of(rankers[0], chosen, lambda scores: by_hand(scores, times, offsets)[0])
    assert slope == pytest.approx(1, rel=0.02)
    assert len(scores_of(rankers[0], chosen)) == offsets[-1]


def test_it_is_a_term_of_a_sum_with_losses_of_the_core_and_trains_tiles():
    terms = [{"loss": tg.torch.as_loss(squares), "weight": 0.25}, {"loss": "ranknet"}]
    twins = [
        small_ranker(loss=loss, steps=3, target="log-runtime", **PLAIN)
        for loss in (terms, [{**terms[0], "loss": log_squares}, terms[1]])
    ]
    for ranker in twins:
        ranker.fit(GRAPHS, verbose=False)
    ours, theirs = (ranker.predict(small_graph(9)) for ranker in twins)
    np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-6)
    tile = small_ranker("first-tile", loss=tg.torch.as_loss(Squares(2)), steps=2)
    assert tile.fit(small_tile(), verbose=False) and np.isfinite(tile.predict(small_tile(1))).all()
    assert function_name(tile.fields.loss).startswith("python:Squares#")


def test_losses_of_the_core_work_inside():
    def mixed(scores, runtimes, lists):
        return 0.5 * tg.torch.list_mle(scores, runtimes, offsets=lists)

    scores, runtimes, lists = case()
    value, gradient = tg.torch.as_loss(mixed)(scores.copy(), runtimes, lists)
    expected, wanted = tg.kernels.list_mle(scores, runtimes, offsets=lists)
    assert value == pytest.approx(0.5 * expected, rel=1e-6)
    np.testing.assert_allclose(gradient, 0.5 * wanted, rtol=1e-6)


def returns(result):
    def wrong(scores, runtimes, lists):
        return result(scores)

    return tg.torch.as_loss(wrong)


@pytest.mark.parametrize(
    ("result", "words"),
    [
        (lambda s: 1.0, "a real torch.Tensor of one number, got float; the gradient"),
        (lambda s: None, "got NoneType"),
        (lambda s: (s.sum(), s), "got tuple"),
        (lambda s: s, r"got torch.float32 \(16,\); take its mean or sum"),
        (lambda s: s.argmax(), r"got torch.int64 \(\)"),
        (lambda s: s.sum() * 1j, r"got torch.complex64 \(\)"),
        (
            lambda s: s.sum().detach(),
            r"depends on the scores.*do not detach them.*return 0 \* scores.sum\(\)",
        ),
        (lambda s: torch.ones((), requires_grad=True) * 2, "depends on the scores"),
        (lambda s: (s - s).sqrt().sum(), "a finite gradient, got (inf|nan) at score 0"),
        (lambda s: s.sum() / 0, "a finite loss, got -?(inf|nan)"),
    ],
)
def test_other_results_are_refused_by_the_name_of_the_function(result, words):
    ranker = small_ranker(loss=returns(result))
    with pytest.raises(tg.ConfigError, match=rf"loss returns\.<locals>\.wrong: .*{words}"):
        ranker.fit(GRAPHS[0], verbose=False)
    assert not ranker.fitted


def test_what_is_no_function_of_three_tensors_is_refused():
    refuses(lambda: tg.torch.as_loss("list_mle"), tg.ConfigError, "as_loss", "got str")
    with pytest.raises(tg.ConfigError, match=r"three arguments \(scores, runtimes, lists\), got .*\(s, t\)"):
        small_ranker(loss=tg.torch.as_loss(lambda s, t: s.sum())).fit(GRAPHS[0], verbose=False)
    with torch.no_grad(), torch.inference_mode():  # as the caller has it outside
        assert tg.torch.as_loss(squares)(*case())[1].any()


def test_a_file_keeps_the_name_and_a_fit_asks_for_the_function(tmp_path):
    loss, path = tg.torch.as_loss(logistic), tmp_path / "r.safetensors"
    ranker = small_ranker(loss=loss, steps=3)
    ranker.fit(GRAPHS[0], verbose=False)
    ranker.save(path)
    loaded = tg.load_ranker(path)
    assert (loaded.predict(small_graph(9)) == ranker.predict(small_graph(9))).all()
    refuses(lambda: loaded.fit(GRAPHS[0], verbose=False), tg.ConfigError, "set_params(loss=logistic)")
    loaded.set_params(loss=loss)
    adapted = [r.adapt(GRAPHS[0], range(8), steps=2) for r in (ranker, loaded)]
    assert state(adapted[0]) == state(adapted[1])
    twin = pickle.loads(pickle.dumps(ranker))
    assert function_name(twin.fields.loss) == function_name(loss) and state(twin) == state(ranker)


def test_resuming_knows_the_function(tmp_path):
    def made(loss):
        return small_ranker(loss=tg.torch.as_loss(loss), steps=4)

    options = {"checkpoint_dir": tmp_path, "checkpoint_every": 1, "verbose": False}
    with pytest.raises(OSError, match="broken"):
        made(logistic).fit(GRAPHS, callbacks=[Break(2)], **options)
    with pytest.raises(tg.CheckpointError, match="loss.*logistic.*squares"):
        made(squares).fit(GRAPHS, callbacks=[Break()], **options)
    resumed, whole = made(logistic), made(logistic)
    resumed.fit(GRAPHS, callbacks=[Break()], **options)
    whole.fit(GRAPHS, verbose=False)
    assert state(resumed) == state(whole)


def test_names_tell_functions_apart():
    def weighted(weight):
        return lambda scores, runtimes, lists: (weight * scores).sum()

    functions = [
        squares, logistic, functools.partial(logistic, sigma=2.0), functools.partial(logistic, sigma=3.0),
        weighted(1.0), weighted(2.0), weighted(torch.ones(2)), weighted(torch.zeros(2)), Squares(2), Squares(3),
        weighted(torch.ones(2, requires_grad=True).bfloat16()[:1]),
    ]  # fmt: skip
    names = [function_name(tg.torch.as_loss(function)) for function in functions]
    assert len(set(names)) == len(names) and names[0].startswith("python:squares#")
    assert names == [function_name(tg.torch.as_loss(function)) for function in functions]
    assert names[3].startswith("python:logistic#")
