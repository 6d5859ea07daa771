"""Every recipe that trains a network against its solution in PyTorch and PyG (`tests/solutions`), with equal weights."""

import warnings
from types import SimpleNamespace

import models
import numpy as np
import pytest
from models import Trained, named, rows
from rankers import having

import tpugraphs as tg
from tpugraphs import _core
from tpugraphs.recipes import get_recipe

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    torch = pytest.importorskip("torch")
    pytest.importorskip("torch_geometric")
    import solutions

    CASES = solutions.cases()

pytestmark = [pytest.mark.parity, pytest.mark.filterwarnings("ignore")]
ELSEWHERE = {
    "first-layout": "test_parity.py",
    "first-layout-cross": "test_parity.py",
    "first-tile": "test_parity.py",
    "graph-config": "test_graph_config.py: not a published solution",
    "mlpredict": "test_layertime_mlpredict.py",
}


def name_of(case):
    return "-".join([case.recipe, *(f"{name}={value}" for name, value in case.fields.items())][:4])


def tensors(arrays):
    """As solutions read them: float64 and int64."""
    made = {name: torch.tensor(array) for name, array in arrays.items()}
    return {name: t.double() if t.is_floating_point() else t.long() for name, t in made.items()}


def layouts(rng, *shape):
    """Lists of six: dimensions in some order, then -1."""
    orders = np.argsort(rng.random((*shape, 6)), axis=-1)
    return np.where(np.arange(6) < rng.integers(0, 7, (*shape, 1)), orders, -1).astype(np.int8)


def example(case, seed=3):
    """Our model of the case, the fields, arrays of two graphs, and their runtimes, all different."""
    recipe = get_recipe(case.recipe)
    fields = recipe.fields("full", {**having(case.recipe, dropout=0.0, drop_edge=0.0), **case.fields})
    columns = _core.Prepare(recipe.preprocessing(fields), _core.SCHEMA["node_features"]).columns["node"]
    tile = recipe.kind == "tile"
    ours = Trained(recipe.steps(fields), seed, columns, config_features=24 if tile else 0)
    models.randomize(ours, seed)
    rng, graphs = np.random.default_rng(seed), []
    for kind, nodes, configs in (("random", 29, 7), ("odd", 18, 5)):
        sizes = (nodes, configs) if tile else (nodes, configs, 9)
        make = models.tile_arrays if tile else models.graph_arrays
        arrays = make(*sizes, columns, seed + nodes, kind)
        arrays["node_opcode"] %= 120  # smaller tables have no row for the last one
        arrays["layout_digits"] = layouts(rng, nodes)
        if tile:
            arrays["layout_digits"][-1] = -2  # as a virtual node has it
        else:
            arrays["digits"] = layouts(rng, configs, 9, 3).reshape(configs, 9, 18)
        graphs.append(arrays)
    runtimes = [rng.permutation(1000)[: 7 - 2 * i] + 1 for i in range(2)]
    return SimpleNamespace(recipe=recipe, fields=fields, ours=ours, graphs=graphs, runtimes=runtimes)


def relative(got, expected):
    return np.linalg.norm(got.astype(np.float64) - expected) / np.linalg.norm(expected)


@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_scores_loss_and_all_gradients(case):
    made = example(case)
    ours, losses = made.ours, made.recipe.losses(made.fields)
    w = {name: torch.tensor(view).double().requires_grad_() for name, view in named(ours).items()}
    expected = [case.scores(w, tensors(arrays), made.fields) for arrays in made.graphs]
    slates = [(models.core_graph(a), rows(len(y))) for a, y in zip(made.graphs, made.runtimes, strict=True)]
    for got, scores in zip(ours.scores(slates), expected, strict=True):
        assert scores.shape == got.shape and scores.std() > 1e-6 * scores.abs().max()  # configs matter
        assert relative(got, scores.detach().numpy()) <= 1e-4

    values = [y / 1000 for y in made.runtimes]
    batch = zip(expected, made.runtimes, values, strict=True)
    value = case.loss([solutions.Slate(s, torch.tensor(y), torch.tensor(v)) for s, y, v in batch])
    value.backward()
    targets = {"order": made.runtimes, "value": values}
    loss, _ = ours.gradients(slates, targets, loss=losses)
    assert loss == pytest.approx(value.item(), rel=1e-4)
    top = max(np.linalg.norm(tensor.grad) for tensor in w.values())  # a parameter not used is an error
    for name, got in named(ours, "grads").items():
        gradient = w[name].grad.numpy()
        if np.linalg.norm(gradient) <= 1e-5 * top:  # such as a bias before a norm: rounding on our side
            assert np.linalg.norm(got) <= 1e-5 * top, name
        else:
            assert relative(got, gradient) <= 1e-3, name


def test_every_network_has_a_solution():
    networks = {name for name in tg.list_recipes() if get_recipe(name).estimator == "network"}
    assert networks - ELSEWHERE.keys() == {case.recipe for case in CASES}
