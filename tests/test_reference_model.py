"""The published cross-config layout model in its published size: core, float64 reference, PyTorch in float64."""

import warnings

import made
import models
import numpy as np
import pytest
from models import HINGE, Trained, first_layout, named
from reference import losses
from reference import model as ref_model

import tpugraphs as tg
from tpugraphs import _core, kernels
from tpugraphs.preprocess import StandardScaler

STEPS = first_layout()
CONFIGS = 16


@pytest.fixture(scope="module")
def case():
    """A program as the recipe prepares it, the order of its runtimes, weights, and what the reference makes of them."""
    program = tg.prune(made.program(5, 150, 26, CONFIGS))
    scaled = np.ascontiguousarray(program.node_feat[:, :134])
    graph = {
        "node_feat": StandardScaler().fit(scaled).transform(scaled),
        "node_opcode": program.node_opcode,
        "layout_digits": kernels.layout_digits(program.node_feat),
        "edge_index": program.edge_index,
        "config_nodes": program.node_config_ids,
        "digits": np.ascontiguousarray(program.config_digits),
    }
    order = np.unique(program.config_runtime, return_inverse=True)[1].astype(np.int64)
    model = Trained(STEPS, 0, 134)
    assert model.num_parameters == 215_013
    models.randomize(model, 0)
    weights = {name: view.astype(np.float64) for name, view in named(model).items()}
    loss = lambda scores: losses.pairwise_hinge(scores, order)  # noqa: E731
    found = ref_model.scores_and_gradients(STEPS, weights, graph, models.rows(CONFIGS), loss)
    return graph, order, weights, found


def fill(model, weights):
    for name, view in named(model).items():
        view[:] = weights[name]
    return model


def compare(gradients, expected, tolerance):
    top = max(np.linalg.norm(g) for g in expected.values())
    for name, gradient in expected.items():
        # a bias before a norm and the head's bias have no gradient at all, and a temperature's is a small sum
        # of large terms: float32 leaves 1e-7 of the largest there, on the baseline instruction set as well
        scale = max(np.linalg.norm(gradient), 1e-2 * top)
        assert gradients[name].shape == gradient.shape
        assert np.linalg.norm(gradients[name].astype(np.float64) - gradient) <= tolerance * scale, name


def test_the_core_equals_the_reference(case):
    graph, order, weights, (expected, value, gradients) = case
    model = fill(Trained(STEPS, 0, 134), weights)
    slate = (_core.ModelGraph(**graph), models.rows(CONFIGS))
    scores = model.scores([slate])[0]
    assert np.linalg.norm(scores - expected) <= 1e-5 * np.linalg.norm(expected)
    loss, (trained,) = model.gradients([slate], [order], loss=HINGE)
    assert loss == pytest.approx(float(value), rel=1e-5)
    assert np.array_equal(trained, scores)
    got = named(model, "grads")
    compare(got, gradients, 1e-4)
    ours, theirs = (np.concatenate([g[name].ravel() for name in gradients]) for g in (got, gradients))
    assert np.linalg.norm(ours - theirs) <= 2e-5 * np.linalg.norm(theirs)


def test_reversed_edges_do_not_pass(case):
    graph, _, weights, (expected, _, _) = case
    model = fill(Trained(first_layout(direction="reverse"), 0, 134), weights)
    scores = model.scores([(_core.ModelGraph(**graph), models.rows(CONFIGS))])[0]
    assert np.linalg.norm(scores - expected) > 1e-2 * np.linalg.norm(expected)


@pytest.mark.parity
@pytest.mark.filterwarnings("ignore")
def test_the_reference_equals_pytorch(case):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch = pytest.importorskip("torch")
        pytest.importorskip("torch_geometric")
        from torch_model import Published, hinge, tensors

    graph, order, weights, (scores, value, gradients) = case
    theirs, names = Published(cross=True).double(), models.torch_names()
    parameters = dict(theirs.named_parameters())
    assert set(parameters) == set(names.values())
    with torch.no_grad():
        for ours, other in names.items():
            parameters[other][:] = torch.from_numpy(weights[ours].reshape(parameters[other].shape))
    given = tensors(graph)
    found = theirs(given | {"node_feat": given["node_feat"].double()})
    loss = hinge(found, order)
    loss.backward()
    np.testing.assert_allclose(found.detach().numpy(), scores, rtol=1e-11, atol=1e-12)
    assert loss.item() == pytest.approx(float(value), rel=1e-11)
    expected = {
        ours: parameters[other].grad.numpy().reshape(gradients[ours].shape) for ours, other in names.items()
    }
    compare(gradients, expected, 1e-9)
