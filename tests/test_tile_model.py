"""The tile model in the core: against the float64 reference, its plans, batches, bits; and graphs it refuses."""

import models
import numpy as np
import pytest
from models import COLUMNS, HINGE, Trained, first_tile, hinge, named, rows
from reference import losses
from reference import model as ref_model
from refusals import refuses

import tpugraphs as tg
from tpugraphs import _core


def make(lean=False, seed=1, **fields):
    steps = first_tile(width=fields.pop("width", 24), **fields)
    model = Trained(steps, seed, COLUMNS, lean, 24)
    models.randomize(model, seed)
    return model, steps


def slate(seed=0, nodes=23, configs=9, kind="random", use=None):
    arrays = models.tile_arrays(nodes, configs, COLUMNS, seed, kind)
    chosen = rows(configs) if use is None else np.array(use, np.int64)
    runtimes = np.random.default_rng(seed + 1000).integers(1, 10**6, len(chosen))
    return arrays, (_core.ModelGraph(**arrays), chosen), runtimes


@pytest.mark.parametrize("lean", [False, True], ids=["kept", "lean"])
@pytest.mark.parametrize(
    ("nodes", "configs", "kind", "fields"),
    [
        (23, 9, "random", {}),
        (40, 70, "odd", {"direction": "both"}),
        (1, 5, "none", {}),
        (7, 6, "star", {"blocks": 0}),
        (150, 30, "random", {"width": 32, "gate_reduction": 1}),
    ],
)
def test_scores_loss_and_gradients_equal_the_reference(lean, nodes, configs, kind, fields):
    model, steps = make(lean, **fields)
    use = [configs - 1, 0, *range(1, configs - 1), 0]  # a row twice, and in another order
    arrays, one, runtimes = slate(3, nodes, configs, kind, use)
    params = {name: value.astype(np.float64) for name, value in named(model).items()}
    scores, value, grads = ref_model.scores_and_gradients(
        steps, params, arrays, one[1], lambda s: losses.pairwise_hinge(s, runtimes, 1.0)
    )
    assert np.linalg.norm(model.scores([one])[0] - scores) <= 2e-5 * np.linalg.norm(scores)
    loss, (trained,) = model.gradients([one], [runtimes], loss=HINGE)
    assert loss == pytest.approx(value, rel=1e-5)
    assert np.linalg.norm(trained - scores) <= 2e-5 * np.linalg.norm(scores)
    everything = np.concatenate([grads[name].ravel() for name, _, _ in model.layout])
    assert np.linalg.norm(model.grads - everything) <= 5e-5 * np.linalg.norm(everything)
    top = max(np.linalg.norm(g) for g in grads.values())
    for name, got in named(model, "grads").items():
        scale = max(np.linalg.norm(grads[name]), 1e-2 * top)
        assert np.linalg.norm(got - grads[name]) <= 1e-4 * scale, name
    for name, got in named(model, "grads").items():
        if "temperature" in name:
            assert not got.any()  # without configs the softmax is 1 whatever it is


def test_the_graph_branch_runs_once_per_graph():
    model, _ = make()
    _, (graph, _), _ = slate(configs=400, nodes=50)
    few, many = (model.bytes([(graph, rows(count))]) for count in (1, 400))
    assert (many - few) / 399 < 4 * 24 * 40  # floats per config do not grow with the 50 nodes
    # what is computed for the graph cannot depend on the configs it is joined with
    together = model.scores([(graph, rows(400))])[0]
    alone = np.concatenate([model.scores([(graph, rows(1, i))])[0] for i in range(0, 400, 37)])
    assert alone.tobytes() == together[::37].tobytes()


@pytest.mark.parametrize("precision", ["f32", "bf16"])
def test_same_bits_for_any_number_of_threads_and_both_plans(precision):
    results = set()
    _, one, runtimes = slate(5, nodes=300, configs=500)
    for threads in (1, 2, 3):
        for lean in (False, True):
            _core.set_num_threads(threads)
            model, _ = make(lean, dropout=0.2, width=64)
            loss, scores = model.gradients([one], [runtimes], loss=HINGE, step=3, seed=9, precision=precision)
            results.add((loss, scores[0].tobytes(), model.grads.tobytes()))
    assert len(results) == 1


def test_a_ragged_batch_is_the_mean_of_its_slates():
    model, _ = make()
    slates = [slate(i, n, c) for i, (n, c) in enumerate(((23, 9), (5, 2), (60, 130)))]
    singles = []
    for _, one, runtimes in slates:
        loss, (scores,) = model.gradients([one], [runtimes], loss=HINGE)
        singles.append((loss, scores, model.grads.astype(np.float64)))
    loss, scores = model.gradients([s[1] for s in slates], [s[2] for s in slates], loss=HINGE)
    assert loss == pytest.approx(np.mean([s[0] for s in singles]), rel=1e-6)
    for got, (_, expected, _) in zip(scores, singles, strict=True):
        assert got.tobytes() == expected.tobytes()
    mean = np.mean([s[2] for s in singles], axis=0)
    assert np.linalg.norm(model.grads - mean) <= 1e-5 * np.linalg.norm(mean)


def test_gradient_with_dropout_is_the_slope_of_the_loss():
    model, _ = make(dropout=0.3, width=32)
    _, one, runtimes = slate(2, nodes=31, configs=40)
    args = {"loss": hinge(5.0), "step": 3, "seed": 17}
    model.gradients([one], [runtimes], **args)
    gradient, start = model.grads.copy(), model.params.copy()
    norm = np.linalg.norm(gradient.astype(np.float64))
    sides = []
    for sign in (1, -1):
        model.params[:] = start + np.float32(sign * 2e-3 / norm**2) * gradient
        sides.append(model.gradients([one], [runtimes], **args)[0])
    assert (sides[0] - sides[1]) / (4e-3 / norm) == pytest.approx(norm, rel=0.02)


@pytest.mark.parametrize("precision", ["bf16", "int8"])
def test_other_precisions_follow(precision):
    model, _ = make(width=64)
    _, one, _ = slate(4, configs=200)
    exact, rough = model.scores([one])[0], model.scores([one], precision=precision)[0]
    spread = np.linalg.norm(exact - exact.mean())
    assert 0 < np.linalg.norm(rough - exact - (rough - exact).mean()) < 0.2 * spread


def test_graphs_of_the_wrong_kind_are_refused():
    model, _ = make()
    arrays = models.graph_arrays(9, 4, 3, COLUMNS, 0)
    refuses(lambda: model.scores([(_core.ModelGraph(**arrays), rows(4))]), ValueError, "features of configs")
    tile = models.tile_arrays(9, 4, COLUMNS, 0)
    layout_model = models.make()
    refuses(lambda: layout_model.scores([(_core.ModelGraph(**tile), rows(4))]), ValueError, "another kind")
    for wrong, what in (
        ({"config_feat": tile["config_feat"].astype(np.float64)}, "float32"),
        ({"config_feat": np.zeros((4, 0), np.float32)}, "columns"),
        ({"digits": np.zeros((3, 0, 18), np.int8)}, "digits"),
    ):
        with pytest.raises((tg.Error, ValueError), match=what):
            _core.ModelGraph(**{**tile, **wrong})
    tile["config_feat"][2, 5] = np.nan
    with pytest.raises(tg.DataError, match="config_feat.*config 2, column 5"):
        model.scores([(_core.ModelGraph(**tile), rows(4))])
    refuses(lambda: model.scores([(_core.ModelGraph(**tile), rows(1, 4))]), tg.DataError, "rows")


def test_ratio_ranks_are_exact():
    rng = np.random.default_rng(0)
    y, n = rng.integers(1, 50, 400), rng.integers(1, 50, 400)
    big = 2**62 - rng.integers(0, 4, 400)  # quotients that are equal as floats
    from fractions import Fraction

    for runtimes, normalizers in ((y, n), (big, big[::-1].copy()), (y, np.ones(400, np.int64))):
        exact = [Fraction(int(a), int(b)) for a, b in zip(runtimes, normalizers, strict=True)]
        place = {value: i + 1 for i, value in enumerate(sorted(set(exact)))}
        assert tg.kernels.ratio_ranks(runtimes, normalizers).tolist() == [place[value] for value in exact]
    assert tg.kernels.ratio_ranks(y[:0], n[:0]).size == 0
    refuses(lambda: tg.kernels.ratio_ranks(y, n - 1), tg.DataError, "normalizers")
