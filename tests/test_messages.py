"""Ops along edges (gatv2, edge_mean, drop_edge): against PyG, at random, and in whole models."""

import copy
import warnings

import cases
import numpy as np
import pytest
import scipy.stats
from models import named, rows, step
from operators import gatv2 as ref_gat
from reference import rng

import tpugraphs as tg
from tpugraphs import _core

MSE = [{"loss": "mse"}]
DIRECTIONS = ["forward", "reverse", "both"]
KINDS = ["random", "odd", "star", "line", "none"]


def relative(got, expected):
    return np.linalg.norm(got.astype(np.float64) - expected) / max(np.linalg.norm(expected), 1e-30)


def graph_of(nodes, configs, columns, edge_index, seed=0):
    """A core graph with node features and one feature per config."""
    rng = np.random.default_rng(seed)
    feat = rng.normal(size=(nodes, columns)).astype(np.float32)
    config = rng.normal(size=(configs, 1)).astype(np.float32)
    none = np.zeros(0, np.int64)
    return feat, (_core.ModelGraph(feat, None, None, edge_index, none, None, config), rows(configs))


# ---- drop_edge ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_dropped_edges_are_independent_draws(p):
    n, edges = 100, np.random.default_rng(0).integers(0, 100, (20_000, 2))
    weights = [
        tg.kernels.drop_edge(edges, num_nodes=n, p=p, training=True, key=key)[:, 0] for key in range(8)
    ]
    for weight in weights:
        assert set(np.unique(weight)) == {np.float32(0), np.float32(1 / (1 - p))}
        dropped = int((weight == 0).sum())
        assert scipy.stats.binomtest(dropped, len(edges), p).pvalue > 1e-6
        after = (weight[:-1] == 0) & (weight[1:] == 0)  # neighbours in the list
        assert abs(after.mean() - p * p) <= 6 * p / np.sqrt(len(edges))
    both = (weights[0] == 0) & (weights[1] == 0)
    assert abs(both.mean() - p * p) <= 6 * p / np.sqrt(len(edges))


def test_dropped_edges_depend_on_the_key_alone():
    edges = np.random.default_rng(0).integers(0, 50, (9000, 2))
    call = {"num_nodes": 50, "p": 0.4, "training": True, "key": 7}
    first = tg.kernels.drop_edge(edges, **call)
    for level in _core.isa_levels():
        _core.set_isa(level)
        for threads in (1, 2, 3):
            _core.set_num_threads(threads)
            assert tg.kernels.drop_edge(edges, **call).tobytes() == first.tobytes()
    assert tg.kernels.drop_edge(edges[:100], **call).tobytes() == first[:100].tobytes()
    assert (tg.kernels.drop_edge(edges, **call | {"key": 8}) != first).any()
    assert (tg.kernels.drop_edge(edges, **call | {"training": False}) == 1).all()
    assert (tg.kernels.drop_edge(edges, **call | {"p": 0.0}) == 1).all()


def test_a_drawn_chance_is_that_of_all_slates_of_a_step():
    """The score of a config is the number of edges that are kept."""
    edges, steps = np.random.default_rng(0).integers(0, 40, (4000, 2)), [
        step("drop_edge", "drop", "", "w", p=0.8, kept="one", chance="drawn"),
        step("edge_mean", "sum", "node_feat w", "kept", kind="sum"),
        step("pool", "pool", "kept", "pooled", kind="sum"),
        step("concat", "both", "config_feat pooled", "b"),
        step("linear", "head", "b", "scores", out=1, use_bias=False),
    ]  # fmt: skip
    model = _core.Model(steps, 2, 1, config_features=1)
    trainer, shares = _core.Trainer(model), []
    model.params[:] = 0, 1
    none = np.zeros(0, np.int64)
    graph = _core.ModelGraph(
        np.ones((40, 1), np.float32), None, None, edges, none, None, np.ones((2, 1), np.float32)
    )
    for number in range(60):
        targets = {"value": [np.arange(2.0)] * 3}
        _, scores = trainer.gradients([(graph, rows(2))] * 3, targets, MSE, step=number + 1, seed=7)
        shares.append(1 - np.array([one[0] for one in scores]) / len(edges))
    shares = np.array(shares)  # (steps, slates)
    assert np.ptp(shares, axis=1).max() < 0.06 and (np.ptp(shares, axis=1) > 0).mean() > 0.9
    assert scipy.stats.kstest(shares[:, 0] / 0.8, "uniform").pvalue > 1e-4 and shares.max() < 0.84
    assert (model.scores([(graph, rows(2))])[0] == len(edges)).all()


# ---- SAGE with DropEdge as a model --------------------------------------------------------------------------


def sage_steps(weights, direction="forward"):
    """SAGEConv out of its parts, the weights of edges being the slot `weights`."""
    return [
        step("linear", "first", "node_feat", "h", out=12, act="gelu"),
        step("edge_mean", "mean", f"h {weights}", "m", direction=direction),
        step("linear", "left", "m", "l", out=9),
        step("linear", "right", "h", "r", out=9),
        step("mix", "sum", "l r", "s", act="gelu"),
        step("pool", "pool", "s", "pooled", kind="mean"),
        step("linear", "head", "config_feat pooled", "scores", out=1),
    ]


def trained(weights, fed=None, seed=5, number=3, nodes=40, direction="forward", p=0.4):
    """Loss, gradients by name and scores without training of the model of `sage_steps`."""
    edges = cases.edges("random", nodes, np.random.default_rng(1))
    dropping = [{"op": "drop_edge", "name": "drop", "in": [], "out": "w", "attrs": {"p": p}}]
    inputs = {"fed": ("EDGE", 1)} if weights == "fed" else {}
    model = _core.Model(
        [*(dropping if weights == "w" else []), *sage_steps(weights, direction)],
        2,
        6,
        config_features=1,
        inputs=inputs,
    )
    trainer = _core.Trainer(model)
    _, slate = graph_of(nodes, 5, 6, edges)
    given = {} if fed is None else {"inputs": {"fed": [fed]}}
    loss, _ = trainer.gradients([slate], {"value": [np.arange(5.0)]}, MSE, step=number, seed=seed, **given)
    grads = {n: trainer.grads[at : at + int(np.prod(shape))].copy() for n, at, shape in model.layout}
    return loss, grads, model.scores([slate], **given)[0], len(edges)


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_sage_with_dropped_edges_is_sage_with_these_weights(direction):
    loss, grads, scores, count = trained("w", direction=direction)
    key = rng.key_of(5, 0xD409, 3, 0)  # seed, stream of dropout, number of the step, slate and place
    weights = np.array([[0.0 if rng.uniform(key, e) < 0.4 else 1 / 0.6] for e in range(count)], np.float32)
    fed_loss, fed_grads, _, _ = trained("fed", weights, direction=direction)
    assert 0 < (weights == 0).sum() < count
    assert loss == fed_loss
    assert all(grads[name].tobytes() == fed_grads[name].tobytes() for name in grads)
    kept = trained("fed", np.ones((count, 1), np.float32), direction=direction)
    assert scores.tobytes() == kept[2].tobytes() and loss != kept[0]
    again = trained("w", direction=direction)
    assert again[0] == loss and trained("w", number=4, direction=direction)[0] != loss


# ---- gatv2 --------------------------------------------------------------------------------------------------


def test_a_hub_with_many_edges_and_configs():
    """A degree far above what fits a vector, tiles that are parts of a node, both directions."""
    case = cases.Case(
        "gatv2", "hub", ref_gat.make("star", 250, 90, 5, 16, 2), {"cols": 16, "heads": 2, "direction": "both"}
    )
    arguments = case.arguments()
    y = cases.forward64(case, arguments)
    dy = cases.direction_of(case, y)
    got = tg.kernels.gatv2_backward(np.float32(dy), **cases.single(arguments), **case.attrs)
    assert relative(tg.kernels.gatv2(**cases.single(arguments), **case.attrs), y) <= 1e-5
    for name, gradient in cases.backward64(case, dy, arguments).items():
        assert relative(got[name], gradient) <= 2e-5, name


def test_large_scores_do_not_overflow():
    case = cases.Case("gatv2", "steep", ref_gat.make("random", 30, 3, 8, 8, 2), {"cols": 8, "heads": 2})
    arguments = case.arguments()
    arguments["att"] *= 300
    y = cases.forward64(case, arguments)
    got = tg.kernels.gatv2(**cases.single(arguments), **case.attrs)
    assert np.isfinite(got).all() and relative(got, y) <= 1e-3


# ---- PyG ----------------------------------------------------------------------------------------------------


def pyg(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch = pytest.importorskip("torch")
        return torch, getattr(pytest.importorskip("torch_geometric.nn"), name)


def parity(function):
    return pytest.mark.parity(pytest.mark.filterwarnings("ignore")(function))


def directed(torch, edge_index, direction):
    edges = torch.tensor(edge_index.T.copy())
    return {"forward": edges, "reverse": edges.flip(0), "both": torch.cat([edges, edges.flip(0)], 1)}[
        direction
    ]


def per_config(torch, conv, x, edges):
    """A layer of PyG over (N,F) or, config by config, (N,C,F)."""
    if x.dim() == 2:
        return conv(x, edges)
    return torch.stack([conv(x[:, c], edges) for c in range(x.shape[1])], 1)


GAT_NAMES = {
    "weight_l": "lin_l.weight", "bias_l": "lin_l.bias", "weight_r": "lin_r.weight", "bias_r": "lin_r.bias",
    "att": "att", "bias": "bias",
}  # fmt: skip


@parity
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize(("heads", "merge"), [(1, "concat"), (4, "concat"), (3, "mean")])
@pytest.mark.parametrize("configs", [0, 5])
def test_gatv2_is_pyg(kind, direction, heads, merge, configs):
    torch, conv_type = pyg("GATv2Conv")
    attrs = {"cols": 7, "heads": heads, "merge": merge, "slope": 0.3, "direction": direction}
    case = cases.Case("gatv2", "parity", ref_gat.make(kind, 19, configs, 12, 7, heads, merge), attrs)
    a = cases.single(case.arguments())
    conv = conv_type(12, 7, heads, concat=merge == "concat", negative_slope=0.3, add_self_loops=False)
    parameters = dict(conv.named_parameters())
    assert set(parameters) == set(GAT_NAMES.values())
    with torch.no_grad():
        for name, theirs in GAT_NAMES.items():
            parameters[theirs][:] = torch.tensor(a[name]).view(parameters[theirs].shape)
    x = torch.tensor(a["x"], requires_grad=True)
    expected = per_config(torch, conv, x, directed(torch, a["edge_index"], direction))
    dy = torch.randn(expected.shape, generator=torch.Generator().manual_seed(0))
    expected.backward(dy)
    assert relative(tg.kernels.gatv2(**a, **attrs), expected.detach().numpy()) <= 1e-6
    got = tg.kernels.gatv2_backward(dy.numpy(), **a, **attrs)
    exact = copy.deepcopy(conv).double()  # PyTorch's own rounding is half as large as ours
    exact.zero_grad()
    x = x.detach().double().requires_grad_()
    per_config(torch, exact, x, directed(torch, a["edge_index"], direction)).backward(dy.double())
    parameters = dict(exact.named_parameters())
    wanted = {name: parameters[theirs].grad.numpy() for name, theirs in GAT_NAMES.items()} | {
        "x": x.grad.numpy()
    }
    scale = max(np.linalg.norm(gradient) for gradient in wanted.values())
    for name, gradient in wanted.items():
        difference = np.linalg.norm(got[name].ravel() - gradient.ravel())
        assert difference <= 1e-5 * max(np.linalg.norm(gradient), 1e-2 * scale), name


@parity
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("configs", [0, 5])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("aggregation", ["mean", "sum"])
def test_edge_mean_is_pyg(kind, direction, configs, weighted, aggregation):
    torch, conv_type = pyg("SimpleConv")
    rng = np.random.default_rng(0)
    edge_index = cases.edges(kind, 19, rng)
    x = torch.randn((19, 12) if configs == 0 else (19, configs, 12), requires_grad=True)
    weight = torch.rand(len(edge_index), 1).add_(0.1).requires_grad_() if weighted else None
    edges = directed(torch, edge_index, direction)
    sums = conv_type(aggr="sum")
    ways = 2 if direction == "both" else 1

    def total(values):
        factors = None if weight is None else weight[:, 0].repeat(ways)
        return per_config(torch, lambda rows_, e: sums(rows_, e, factors), values, edges)

    expected = total(x)
    if aggregation == "mean":
        expected = expected / total(torch.ones_like(x)).clamp(min=1e-6)
    dy = torch.randn(expected.shape)
    expected.backward(dy)
    given = {"x": x.detach().numpy(), "edge_index": edge_index}
    given |= {} if weight is None else {"weight": weight.detach().numpy()}
    attrs = {"kind": aggregation, "direction": direction}
    assert relative(tg.kernels.edge_mean(**given, **attrs), expected.detach().numpy()) <= 1e-6
    got = tg.kernels.edge_mean_backward(dy.numpy(), **given, **attrs)
    assert relative(got["x"], x.grad.numpy()) <= 1e-6
    if weight is not None and len(edge_index):
        assert np.linalg.norm(got["weight"] - weight.grad.numpy()) <= 1e-5 * np.linalg.norm(dy.numpy())


def test_shares_have_no_weights():
    edge_index, x = np.array([[0, 1], [2, 1], [0, 2]]), np.eye(3, dtype=np.float32)
    y = tg.kernels.edge_mean(x=x, edge_index=edge_index, kind="share", eps=0.5)
    assert y.tolist() == [[0, 0, 0], [2, 0, 1], [2, 0, 0]]  # nothing is sent to 0, one message to 2
    with pytest.raises(tg.RecipeError, match="weight.*share"):
        tg.kernels.edge_mean(x=x, edge_index=edge_index, weight=np.ones((3, 1), np.float32), kind="share")


@parity
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_edge_mean_between_linear_layers_is_sageconv(direction):
    torch, conv_type = pyg("SAGEConv")
    edge_index = cases.edges("odd", 30, np.random.default_rng(1))
    feat, slate = graph_of(30, 4, 12, edge_index)
    steps = [
        step("edge_mean", "mean", "node_feat", "m", direction=direction),
        step("linear", "left", "m", "l", out=7),
        step("linear", "right", "node_feat", "r", out=7),
        step("mix", "sum", "l r", "s"),
        step("pool", "pool", "s", "pooled", kind="sum"),
        step("linear", "head", "config_feat pooled", "scores", out=1),
    ]
    model = _core.Model(steps, 0, 12, config_features=1)
    conv, ours = conv_type(12, 7), named(model)
    ours["right.bias"][:] = 0
    with torch.no_grad():
        conv.lin_l.weight[:] = torch.tensor(ours["left.weight"])
        conv.lin_l.bias[:] = torch.tensor(ours["left.bias"])
        conv.lin_r.weight[:] = torch.tensor(ours["right.weight"])
    expected = conv(torch.tensor(feat), directed(torch, edge_index, direction)).detach().numpy()
    assert relative(model.run([slate], ["s"])["s"][0], expected) <= 1e-6


@parity
def test_all_gradients_of_a_model_with_gatv2_are_pytorchs():
    torch, conv_type = pyg("GATv2Conv")
    configs, edge_index = 6, cases.edges("odd", 50, np.random.default_rng(2))
    feat, slate = graph_of(50, configs, 11, edge_index)
    steps = [
        step("linear", "first", "node_feat", "h", out=24, act="gelu"),
        step("gatv2", "gat", "h", "a", cols=6, heads=4),
        step("mix", "residual", "a h", "b", act="gelu"),
        step("gatv2", "mean", "b", "c", cols=10, heads=3, merge="mean", direction="both"),
        step("pool", "pool", "c", "pooled", kind="mean+max"),
        step("linear", "hidden", "config_feat pooled", "d", out=16, act="gelu"),
        step("linear", "head", "d", "scores", out=1),
    ]
    model = _core.Model(steps, 0, 11, config_features=1)
    trainer, values = _core.Trainer(model), np.random.default_rng(3).normal(size=configs)

    class Theirs(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.hidden, self.head = (
                torch.nn.Linear(i, o) for i, o in ((11, 24), (21, 16), (16, 1))
            )
            self.gat = conv_type(24, 6, 4, add_self_loops=False)
            self.mean = conv_type(24, 10, 3, concat=False, add_self_loops=False)

        def forward(self, x, config):
            gelu = torch.nn.functional.gelu
            h = gelu(self.first(x))
            b = gelu(self.gat(h, directed(torch, edge_index, "forward")) + h)
            c = self.mean(b, directed(torch, edge_index, "both"))
            row = torch.cat([c.mean(0), c.amax(0)])
            return self.head(
                gelu(self.hidden(torch.cat([row.expand(len(config), -1), config], -1)))
            ).flatten()

    theirs, ours = Theirs(), named(model)
    parameters = dict(theirs.named_parameters())

    def their_name(name):
        layer, _, parameter = name.partition(".")
        return f"{layer}.{GAT_NAMES[parameter]}" if layer in ("gat", "mean") else name

    assert {their_name(name) for name in ours} == set(parameters)
    with torch.no_grad():
        for name, view in ours.items():
            parameter = parameters[their_name(name)]
            parameter[:] = torch.tensor(view).view(parameter.shape)
    config = np.random.default_rng(0)
    config.normal(size=feat.shape)  # as graph_of draws
    scores = theirs(torch.tensor(feat), torch.tensor(config.normal(size=(configs, 1)).astype(np.float32)))
    expected = ((scores - torch.tensor(values)) ** 2).mean()
    expected.backward()
    loss, (got,) = trainer.gradients([slate], {"value": [values]}, MSE)
    assert loss == pytest.approx(expected.item(), rel=1e-5)
    assert relative(got, scores.detach().numpy()) <= 1e-5
    top = max(np.linalg.norm(p.grad.numpy()) for p in parameters.values())
    for name, at, shape in model.layout:
        gradient = parameters[their_name(name)].grad.numpy().ravel()
        mine = trainer.grads[at : at + int(np.prod(shape))]
        assert np.linalg.norm(mine - gradient) <= 1e-4 * max(np.linalg.norm(gradient), 1e-2 * top), name
