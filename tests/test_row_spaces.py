"""Ops that change what a row is: configurable nodes alone, edges, and sums over either; alone and in models."""

import warnings

import cases
import models
import numpy as np
import pytest
from models import COLUMNS, named, step
from refusals import refuses

import tpugraphs as tg
from tpugraphs import _core

MSE = [{"loss": "mse"}]


def relative(got, expected):
    return np.linalg.norm(got.astype(np.float64) - expected) / max(np.linalg.norm(expected), 1e-30)


# ---- rows of configurable nodes are pooled as those of nodes ----------------------------------------------


def graph_with(k, nodes):
    """`k` of the nodes are configurable, in no order."""
    ids = np.random.default_rng(0).permutation(nodes)[:k].astype(np.int64)
    return _core.ModelGraph(
        np.zeros((nodes, 1), np.float32), None, None, np.zeros((0, 2), np.int64), ids, None
    )


POOLS = [("pool", {"kind": kind}, 1) for kind in ("mean", "max", "sum", "mean+max+sum")]
POOLS += [("outer_pool", {"mean": mean}, 2) for mean in (0, 1)]


@pytest.mark.parametrize(("op", "attrs", "inputs"), POOLS)
@pytest.mark.parametrize(("k", "configs"), [(1, 0), (17, 5), (300, 0), (70, 40)])
def test_configurable_nodes_are_pooled_with_the_bits_of_nodes(op, attrs, inputs, k, configs):
    rng = np.random.default_rng(k)
    shape = (k, configs, 12) if configs else (k, 12)
    given = tuple(rng.normal(size=shape).astype(np.float32) for _ in range(inputs))
    calls = [(op, attrs, given, (), graph, max(configs, 1), 0, False) for graph in (k, graph_with(k, 2 * k))]
    alone, among = (_core.op_forward(*call) for call in calls)
    assert alone.tobytes() == among.tobytes()
    dy = rng.normal(size=alone.shape).astype(np.float32)
    for one, other in zip(*(_core.op_backward(*call, dy)[0] for call in calls), strict=True):
        assert one.tobytes() == other.tobytes()


@pytest.mark.parametrize(("op", "attrs", "inputs"), POOLS)
@pytest.mark.parametrize("configs", [0, 3])
def test_nothing_configurable_is_pooled_to_zeros(op, attrs, inputs, configs):
    x = np.zeros((0, configs, 5) if configs else (0, 5), np.float32)
    call = (op, attrs, (x,) * inputs, (), graph_with(0, 4), max(configs, 1), 0, False)
    y = _core.op_forward(*call)
    assert y.size and not y.any()
    assert all(dx.shape == x.shape for dx in _core.op_backward(*call, np.ones_like(y))[0])


# ---- digits as numbers --------------------------------------------------------------------------------------


def test_digits_as_numbers_have_a_column_each_and_no_table():
    plain = step("config_linear", "first", "node_feat", "y", out=3, values="numbers", scale=0.2)
    model = _core.Model([plain], 0, COLUMNS, outputs=["y"])
    assert {name: s for name, _, s in model.layout} == {"first.weight": (3, COLUMNS + 18), "first.bias": (3,)}
    embedded = step("config_linear", "other", "node_feat", "z", out=3)
    shares = plain | {"share": {"table": "other.table"}}
    refuses(lambda: _core.plan_parameters([embedded, shares], COLUMNS), tg.RecipeError, "'table'")


def test_a_digit_counts_as_its_number():
    """One weight of 1 per digit; 0 at the node that is not configurable."""
    digits = np.arange(-1, 6, dtype=np.int8).reshape(7, 1, 1).repeat(18, 2)
    h, weight = np.zeros((2, 1), np.float32), np.zeros((18, 19), np.float32)
    weight[:, 1:] = np.eye(18)
    y = tg.kernels.config_linear(h, digits, np.array([1]), weight, np.zeros(18, np.float32), scale=0.5)
    assert not y[0].any() and np.array_equal(y[1], 0.5 * digits[:, 0])


# ---- what is refused ----------------------------------------------------------------------------------------


def test_what_does_not_fit_is_refused():
    taken = step("take_config_nodes", "take", "node_feat", "taken")
    wide = step("linear", "wide", "node_feat", "wide", out=2048)
    for before, tested, *names in (
        (taken, step("config_linear", "t", "taken", "y", out=3, stats=1), "stats", "rows of nodes"),
        (taken, step("outer_pool", "t", "taken node_feat", "y"), "in common"),
        (wide, step("outer_pool", "t", "wide wide", "y"), "2048 columns of a", "2048 of b"),
        (taken, step("edge_ends", "t", "taken", "y"), "'x'", "one row per node"),
        (taken, step("edge_pool", "t", "taken", "y"), "'x'", "one row per edge"),
    ):
        refuses(lambda: _core.plan_parameters([before, tested], COLUMNS), tg.RecipeError, *names)


# ---- a model ------------------------------------------------------------------------------------------------


def pairs_steps(edge_kind, end):
    """Rows of edges and back, those of configurable nodes alone, their outer products and their pool."""
    return [
        step("edge_ends", "ends", "node_feat", "ends"),
        step("linear", "edge", "ends", "e", out=9, act="silu"),
        step("edge_pool", "back", "e", "b", kind=edge_kind, end=end),
        step("concat", "join", "node_feat b", "n"),
        step("take_config_nodes", "take", "n", "k"),
        step("config_linear", "plain", "k", "p", out=10, column=4, values="numbers", scale=0.2),
        step("activation", "bend", "p", "q", act="silu"),
        step("config_linear", "embedded", "k", "r", out=6, column=20, cols=3),
        step("linear", "own", "k", "o", out=5),
        step("outer_pool", "both", "q r", "qr", mean=1),
        step("outer_pool", "one", "o r", "or", mean=1),
        step("outer_pool", "self", "q q", "qq", mean=1),
        step("pool", "pool", "q", "pooled", kind="mean+max"),
        step("put_config_nodes", "put", "q", "all"),
        step("edge_ends", "configs", "all", "pairs"),
        step("edge_pool", "mean", "pairs", "met", end="operand"),
        step("pool", "rest", "met", "rest", kind="mean"),
        step("concat", "wide", "qr or qq pooled", "w"),
        step("concat", "wider", "w rest", "v"),
        step("linear", "head", "v", "scores", out=1),
    ]


def pairs_torch(torch, w, arrays, onehot, edge_kind, end):
    """The same of tensors; `onehot` (C,K,18,8) are the digits."""
    fn = torch.nn.functional
    feat = torch.tensor(arrays["node_feat"])
    edges, ids = torch.tensor(arrays["edge_index"]), torch.tensor(arrays["config_nodes"])

    def linear(name, x):
        return fn.linear(x, w[f"{name}.weight"], w[f"{name}.bias"])

    def back(x, end_, kind):
        at = edges[:, 0 if end_ == "consumer" else 1]
        y = x.new_zeros((len(feat), *x.shape[1:])).index_add(0, at, x)
        counts = torch.bincount(at, minlength=len(feat)).clamp(min=1).view(-1, *[1] * (x.ndim - 1))
        return y / counts if kind == "mean" else y

    def joined(k, values, column):
        """(K,C,..): columns of k, the digits between."""
        cells = torch.einsum("ckpv,vd->kcpd", onehot, values).flatten(2)
        wide = k[:, None].expand(-1, len(onehot), -1)
        return torch.cat([wide[..., :column], cells, wide[..., column:]], -1)

    e = fn.silu(linear("edge", torch.cat([feat[edges[:, 0]], feat[edges[:, 1]]], -1)))
    k = torch.cat([feat, back(e, end, edge_kind)], -1)[ids]
    numbers = 0.2 * torch.tensor([0.0, *range(-1, 6)])[:, None]
    q = fn.silu(linear("plain", joined(k, numbers, 4)))
    r = linear("embedded", joined(k, w["embedded.table"], 20))
    o = linear("own", k)[:, None].expand(-1, len(onehot), -1)
    outer = [torch.einsum("kcf,kcg->cfg", *pair).flatten(1) / len(k) for pair in ((q, r), (o, r), (q, q))]
    everywhere = q.new_zeros((len(feat), *q.shape[1:])).index_copy(0, ids, q)
    pairs = torch.cat([everywhere[edges[:, 0]], everywhere[edges[:, 1]]], -1)
    rest = back(pairs, "operand", "mean").mean(0)
    return linear("head", torch.cat([*outer, q.mean(0), q.max(0).values, rest], -1)).flatten()


@pytest.mark.parity
@pytest.mark.parametrize(("edge_kind", "end"), [("mean", "consumer"), ("sum", "operand")])
@pytest.mark.parametrize(("nodes", "k", "configs"), [(30, 12, 7), (200, 90, 20)])
def test_a_model_over_pairs_has_the_gradients_of_pytorch(edge_kind, end, nodes, k, configs):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch = pytest.importorskip("torch")
    arrays = models.graph_arrays(nodes, configs, k, COLUMNS, 3, "odd")
    model = models.Trained(pairs_steps(edge_kind, end), 0, COLUMNS)
    models.randomize(model, 1)
    slates, values = [(_core.ModelGraph(**arrays), models.rows(configs))], np.arange(float(configs))
    theirs = {name: torch.tensor(value, requires_grad=True) for name, value in named(model).items()}
    onehot = torch.tensor(np.eye(8, dtype=np.float32)[arrays["digits"] + 2], requires_grad=True)
    expected = pairs_torch(torch, theirs, arrays, onehot, edge_kind, end)
    loss = ((expected - torch.tensor(values, dtype=torch.float32)) ** 2).mean()
    loss.backward()
    assert relative(model.scores(slates)[0], expected.detach().numpy()) <= 1e-5
    got, _, inputs = model.gradients(slates, {"value": [values]}, loss=MSE, of=["digits"])
    assert got == pytest.approx(loss.item(), rel=1e-5)
    for name, gradient in named(model, "grads").items():
        assert relative(gradient, theirs[name].grad.numpy()) <= 1e-4, name
    assert relative(inputs["digits"][0], onehot.grad.numpy()) <= 1e-4


@pytest.mark.parametrize(("nodes", "k"), [(30, 12), (200, 90), (9, 0)])
def test_threads_do_not_change_a_bit_of_a_model_over_pairs(nodes, k):
    arrays = models.graph_arrays(nodes, 6, k, COLUMNS, 3, "odd")
    slates, found = [(_core.ModelGraph(**arrays), models.rows(6))], []
    for threads in (1, 2, 3):
        _core.set_num_threads(threads)
        model = models.Trained(pairs_steps("mean", "consumer"), 0, COLUMNS)
        loss, scores = model.gradients(slates, {"value": [np.arange(6.0)]}, loss=MSE)
        found.append((loss, scores[0].tobytes(), model.grads.tobytes()))
        assert np.isfinite(loss) and np.isfinite(model.grads).all()
    assert found[0] == found[1] == found[2]


# ---- single ops against formulas of PyTorch ---------------------------------------------------------------


def against(torch, function, arrays, op, **attrs):
    """The result and all gradients of an op; arrays of integers are the same for both."""
    tensors = {name: torch.tensor(x) for name, x in arrays.items()}
    floats = [name for name, x in arrays.items() if x.dtype == np.float32]
    for name in floats:
        tensors[name].requires_grad_()
    expected = function(**tensors)
    dy = torch.randn(expected.shape, generator=torch.Generator().manual_seed(0))
    expected.backward(dy)
    assert relative(cases.FACES[op](**arrays, **attrs), expected.detach().numpy()) <= 1e-5
    got = cases.FACES[f"{op}_backward"](dy.numpy(), **arrays, **attrs)
    for name in floats:
        assert relative(got[name], tensors[name].grad.numpy()) <= 1e-5, name


@pytest.mark.parity
@pytest.mark.parametrize("configs", [0, 7])
@pytest.mark.parametrize("kind", ["random", "odd"])
def test_ops_over_edges_are_those_of_pytorch(configs, kind):
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    edges, middle = cases.edges(kind, 40, rng), (configs,) if configs else ()

    def ends(x, edge_index):
        return torch.cat([x[edge_index[:, 0]], x[edge_index[:, 1]]], -1)

    x = rng.normal(size=(40, *middle, 21)).astype(np.float32)
    against(torch, ends, {"x": x, "edge_index": edges}, "edge_ends")
    for column, end in enumerate(("consumer", "operand")):

        def total(x, edge_index, column=column):
            return x.new_zeros((40, *x.shape[1:])).index_add(0, edge_index[:, column], x)

        x = rng.normal(size=(len(edges), *middle, 21)).astype(np.float32)
        against(torch, total, {"x": x, "edge_index": edges}, "edge_pool", kind="sum", end=end, num_nodes=40)


@pytest.mark.parity
@pytest.mark.parametrize("mean", [False, True])
@pytest.mark.parametrize(("a", "b"), [((), ()), ((7,), (7,)), ((), (7,)), ((7,), ())])
def test_outer_pool_is_a_product_of_pytorch(a, b, mean):
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    arrays = {
        name: rng.normal(size=(300, *middle, cols)).astype(np.float32)
        for name, middle, cols in (("a", a, 12), ("b", b, 17))
    }

    def product(a, b):
        a, b = (x if x.ndim == 3 else x[:, None] for x in (a, b))
        y = (a.permute(1, 2, 0) @ b.transpose(0, 1)).flatten(1)
        return y / len(a) if mean else y

    against(torch, product, arrays, "outer_pool", mean=mean)
