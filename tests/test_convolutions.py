"""Graph convolutions written as steps: each is the layer of PyG that it is called after."""

import warnings

import cases
import models
import numpy as np
import pytest
from models import named, step

import tpugraphs as tg
from tpugraphs import _core

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    torch = pytest.importorskip("torch")
    pyg = pytest.importorskip("torch_geometric.nn")

pytestmark = [pytest.mark.parity, pytest.mark.filterwarnings("ignore")]


def relative(got, expected):
    return np.linalg.norm(got.astype(np.float64) - expected) / max(np.linalg.norm(expected), 1e-30)


def tensor_of(edge_index, direction="forward"):
    edges = torch.tensor(edge_index.T.copy())
    ways = {"forward": [edges], "reverse": [edges.flip(0)], "both": [edges, edges.flip(0)]}
    return torch.cat(ways[direction], 1)


@pytest.mark.parametrize("kind", ["random", "odd", "star", "none"])
@pytest.mark.parametrize("direction", ["forward", "reverse", "both"])
@pytest.mark.parametrize("configs", [0, 5])
@pytest.mark.parametrize(("steps", "alpha", "self_loops"), [(1, 0.0, True), (10, 0.1, True), (3, 0.5, False)])
def test_propagation_is_that_of_gcn_and_appnp(kind, direction, configs, steps, alpha, self_loops):
    """APPNP of one round and alpha 0 is GCNConv without its linear layer. "odd" has loops, some repeated."""
    rng = np.random.default_rng(0)
    edge_index = cases.edges(kind, 19, rng)
    edges, conv = tensor_of(edge_index, direction), pyg.APPNP(steps, alpha, add_self_loops=self_loops)
    x = torch.tensor(rng.normal(size=(19, 12) if configs == 0 else (19, configs, 12)).astype(np.float32))
    x.requires_grad_()
    expected = conv(x.flatten(1), edges).view(x.shape)
    dy = torch.randn(x.shape)
    expected.backward(dy)
    attrs = {"steps": steps, "alpha": alpha, "self_loops": self_loops, "direction": direction}
    given = {"x": x.detach().numpy(), "edge_index": edge_index}
    assert relative(tg.kernels.propagate(**given, **attrs), expected.detach().numpy()) <= 1e-6
    got = tg.kernels.propagate_backward(dy.numpy(), **given, **attrs)
    assert relative(got["x"], x.grad.numpy()) <= 1e-6


@pytest.mark.parametrize("norm", ["mean", "sum"])
def test_other_norms_are_those_of_simple_conv(norm):
    rng = np.random.default_rng(1)
    edge_index, x = cases.edges("odd", 30, rng), rng.normal(size=(30, 8)).astype(np.float32)
    expected = pyg.SimpleConv(aggr=norm)(torch.tensor(x), tensor_of(edge_index)).numpy()
    got = tg.kernels.propagate(x, edge_index, norm=norm, self_loops=False)
    assert relative(got, expected) <= 1e-6


class Theirs(torch.nn.Module):
    """A residual GCN layer, GAT, GAT of averaged heads, TransformerConv, APPNP; the mean, and a head."""

    def __init__(self):
        super().__init__()
        self.gcn = pyg.GCNConv(12, 12)
        self.gat = pyg.GATConv(12, 5, heads=3)
        self.mean = pyg.GATConv(15, 8, heads=2, concat=False)
        self.transformer = pyg.TransformerConv(8, 4, heads=2)
        self.appnp = pyg.APPNP(4, 0.2)
        self.head = torch.nn.Linear(9, 1)

    def forward(self, x, edges, config_feat):
        x = x + torch.relu(self.gcn(x, edges))
        x = torch.tanh(self.gat(x, edges))
        x = torch.tanh(self.mean(x, edges))
        x = torch.tanh(self.transformer(x, edges))
        pooled = self.appnp(x, edges).mean(0).expand(len(config_feat), -1)
        return self.head(torch.cat([pooled, config_feat], 1)).flatten()


def gat(name, before, after, cols, heads, merge):
    values = f"{name}_v"
    return [
        step("linear", f"{name}_lin", before, values, out=cols * heads, use_bias=False),
        step("head_dots", f"{name}_src", values, f"{name}_k", heads=heads),
        step("head_dots", f"{name}_dst", values, f"{name}_q", heads=heads),
        step("edge_attention", name, f"{name}_q {name}_k {values}", f"{name}_y", score="additive",
             heads=heads, merge=merge),
        step("affine", f"{name}_bias", f"{name}_y", f"{name}_z", learn="bias"),
        step("activation", f"{name}_act", f"{name}_z", after, act="tanh"),
    ]  # fmt: skip


STEPS = [
    step("linear", "gcn", "node_feat", "g0", out=12, use_bias=False),
    step("propagate", "gcn_edges", "g0", "g1"),
    step("affine", "gcn_bias", "g1", "g2", learn="bias"),
    step("activation", "gcn_act", "g2", "g3", act="relu"),
    step("add", "residual", "node_feat g3", "h0"),
    *gat("gat", "h0", "h1", 5, 3, "concat"),
    *gat("mean", "h1", "h2", 8, 2, "mean"),
    *(step("linear", f"transformer_{part}", "h2", part, out=8) for part in ("q", "k", "v", "skip")),
    step("edge_attention", "transformer", "q k v", "a", heads=2),
    step("add", "root", "a skip", "t"),
    step("activation", "transformer_act", "t", "h3", act="tanh"),
    step("propagate", "appnp", "h3", "h4", steps=4, alpha=0.2),
    step("pool", "pool", "h4", "pooled", kind="mean"),
    step("linear", "head", "config_feat pooled", "scores", out=1),
]


def names():
    """Parameters of the steps, and those of PyG."""
    found = {"gcn.weight": "gcn.lin.weight", "gcn_bias.bias": "gcn.bias"}
    for layer in ("gat", "mean"):
        found |= {f"{layer}_lin.weight": f"{layer}.lin.weight", f"{layer}_bias.bias": f"{layer}.bias"}
        found |= {f"{layer}_src.att": f"{layer}.att_src", f"{layer}_dst.att": f"{layer}.att_dst"}
    for ours, theirs in (("q", "query"), ("k", "key"), ("v", "value"), ("skip", "skip")):
        found |= {f"transformer_{ours}.{p}": f"transformer.lin_{theirs}.{p}" for p in ("weight", "bias")}
    return found | {"head.weight": "head.weight", "head.bias": "head.bias"}


def test_a_model_of_convolutions_is_pygs():
    """Loops are a step of preprocessing here, and part of GATConv there; TransformerConv has the same edges."""
    rng, configs = np.random.default_rng(2), 4
    edge_index = cases.edges("odd", 40, rng)
    x, config_feat = (rng.normal(size=shape).astype(np.float32) for shape in ((40, 12), (configs, 1)))
    core = _core.Prepare([{"step": "self-loops"}])
    graph = core.apply(tg.Graph(node_feat=x, edge_index=edge_index, config_feat=config_feat)).nodes
    model, theirs = models.Trained(STEPS, 0, 12, config_features=1), Theirs()
    models.randomize(model, 1)
    ours, parameters = named(model), dict(theirs.named_parameters())
    assert set(ours) == set(names()) and set(parameters) == set(names().values())
    with torch.no_grad():
        for name, other in names().items():
            parameters[other][:] = torch.tensor(ours[name]).view(parameters[other].shape)
    from torch_geometric.utils import add_self_loops, remove_self_loops

    looped = add_self_loops(remove_self_loops(tensor_of(edge_index))[0], num_nodes=40)[0]
    expected = theirs(torch.tensor(x), looped, torch.tensor(config_feat))
    slates = [(graph, models.rows(configs))]
    assert relative(model.scores(slates)[0], expected.detach().numpy()) <= 1e-5
    values = rng.normal(size=configs)
    ((expected - torch.tensor(values, dtype=torch.float32)) ** 2).mean().backward()
    model.gradients(slates, {"value": [values]}, loss=[{"loss": "mse"}])
    top = max(float(p.grad.norm()) for p in parameters.values())
    for name, gradient in named(model, "grads").items():
        wanted = parameters[names()[name]].grad.numpy().reshape(gradient.shape)
        assert np.linalg.norm(gradient - wanted) <= 1e-4 * max(np.linalg.norm(wanted), 1e-3 * top), name
