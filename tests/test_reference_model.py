"""The published cross-config layout model on AlexNet, against stored results of PyTorch (tests/data/README.md)."""

from pathlib import Path

import models
import numpy as np
import pytest
from models import HINGE, Trained, first_layout, named
from reference import losses
from reference import model as ref_model

from tpugraphs import _core

FILE = Path(__file__).parent / "data" / "first_layout_cross.npz"
STEPS = first_layout()


def floats(planes):
    """Float32 from byte planes (3 or 4, ...), lowest first; of three, the lowest byte is 0."""
    whole = np.zeros((4, *planes.shape[1:]), np.uint8)
    whole[4 - len(planes) :] = planes
    return np.ascontiguousarray(np.moveaxis(whole, 0, -1)).view("<f4")[..., 0]


@pytest.fixture(scope="module")
def stored():
    with np.load(FILE) as file:
        data = {key: file[key] for key in file.files}
    graph = {
        key: data[key]
        for key in ("node_feat", "node_opcode", "layout_digits", "edge_index", "config_nodes", "digits")
    }
    names = models.torch_names()
    weights = {ours: floats(data[f"w.{theirs}"]) for ours, theirs in names.items()}
    grads = {ours: floats(data[f"g.{theirs}"]) for ours, theirs in names.items()}
    assert {f"w.{theirs}" for theirs in names.values()} == {key for key in data if key.startswith("w.")}
    return graph, weights, grads, data


def compare(gradients, expected, tolerance):
    top = max(np.linalg.norm(g) for g in expected.values())
    for name, gradient in expected.items():
        # a bias before a norm and the head's bias have no gradient at all, and a temperature's is a small sum
        # of large terms: float32 leaves 1e-7 of the largest there, on the baseline instruction set as well
        scale = max(np.linalg.norm(gradient), 1e-2 * top)
        assert gradients[name].shape == gradient.shape
        assert np.linalg.norm(gradients[name].astype(np.float64) - gradient) <= tolerance * scale, name


def test_the_core_equals_pytorch(stored):
    graph, weights, grads, data = stored
    model = Trained(STEPS, 0, 134)
    assert model.num_parameters == 215_013
    for name, view in named(model).items():
        view[:] = weights[name]
    slate = (_core.Graph(**graph), models.rows(16))
    scores = model.scores([slate])[0]
    assert np.linalg.norm(scores - data["scores"]) <= 1e-5 * np.linalg.norm(data["scores"])
    loss, (trained,) = model.gradients([slate], [data["order"]], loss=HINGE)
    assert loss == pytest.approx(float(data["loss"]), rel=1e-5)
    assert np.array_equal(trained, scores)
    got = named(model, "grads")
    compare(got, grads, 1e-4)
    ours, theirs = (np.concatenate([g[name].ravel() for name in grads]) for g in (got, grads))
    assert np.linalg.norm(ours - theirs) <= 2e-5 * np.linalg.norm(theirs)


def test_the_float64_reference_equals_pytorch(stored):
    graph, weights, grads, data = stored
    weights = {name: value.astype(np.float64) for name, value in weights.items()}
    loss = lambda scores: losses.pairwise_hinge(scores, data["order"])  # noqa: E731
    scores, value, gradients = ref_model.scores_and_gradients(STEPS, weights, graph, models.rows(16), loss)
    assert np.allclose(scores, data["scores"], rtol=1e-11, atol=1e-12)
    assert value == pytest.approx(float(data["loss"]), rel=1e-11)
    compare(gradients, grads, 1e-5)  # stored with a mantissa of 16 bits


def test_reversed_edges_do_not_pass(stored):
    graph, weights, _, data = stored
    model = Trained(first_layout(direction="reverse"), 0, 134)
    for name, view in named(model).items():
        view[:] = weights[name]
    scores = model.scores([(_core.Graph(**graph), models.rows(16))])[0]
    assert np.linalg.norm(scores - data["scores"]) > 1e-2 * np.linalg.norm(data["scores"])
