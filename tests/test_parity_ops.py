"""Single ops, and a model of them, against the layers of PyTorch and PyG that they are called after."""

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
    fn = torch.nn.functional

pytestmark = [pytest.mark.parity, pytest.mark.filterwarnings("ignore")]


def relative(got, expected):
    return np.linalg.norm(got.astype(np.float64) - expected) / np.linalg.norm(expected)


def check(op, layer, inputs, params=None, tolerance=1e-5, **attrs):
    """`layer(*inputs, **params)` in PyTorch, its result and all gradients, on nodes alone and with configs."""
    rng = np.random.default_rng(0)
    for rows in ((300,), (40, 7)):
        arrays = {name: rng.normal(size=(*rows, cols)).astype(np.float32) for name, cols in inputs.items()}
        weights = {name: rng.normal(size=n).astype(np.float32) for name, n in (params or {}).items()}
        tensors = {k: torch.tensor(v, requires_grad=True) for k, v in (arrays | weights).items()}
        expected = layer(*(tensors[name] for name in inputs), **{name: tensors[name] for name in weights})
        dy = rng.normal(size=expected.shape).astype(np.float32)
        expected.backward(torch.tensor(dy))
        y = cases.FACES[op](**arrays, **weights, **attrs)
        assert y.shape == expected.shape and relative(y, expected.detach().numpy()) <= tolerance
        got = cases.FACES[f"{op}_backward"](dy, **arrays, **weights, **attrs)
        for name, tensor in tensors.items():
            assert relative(got[name], tensor.grad.numpy()) <= tolerance, name


@pytest.mark.parametrize("eps", [1e-5, 1e-2])
def test_layer_norm(eps):
    affine = {"weight": 48, "bias": 48}
    check("layer_norm", lambda x, **p: fn.layer_norm(x, (48,), **p, eps=eps), {"x": 48}, affine, eps=eps)
    check("layer_norm", lambda x: fn.layer_norm(x, (48,), eps=eps), {"x": 48}, affine=False, eps=eps)


def test_graph_norm_of_pyg():
    def layer(x, weight, bias, mean_scale):
        norm = pyg.GraphNorm(19)
        for name, value in (("weight", weight), ("bias", bias), ("mean_scale", mean_scale)):
            delattr(norm, name)
            setattr(norm, name, value)
        if x.ndim == 2:
            return norm(x)
        return torch.stack([norm(x[:, c]) for c in range(x.shape[1])], 1)  # every config is a graph

    check("graph_norm", layer, {"x": 19}, {"weight": 19, "bias": 19, "mean_scale": 19})


@pytest.mark.parametrize("eps", [1e-12, 4.0])
def test_l2_normalise(eps):
    check("l2_normalise", lambda x: fn.normalize(x, dim=-1, eps=eps), {"x": 17}, eps=eps)


ACTIVATIONS = {
    "relu": fn.relu,
    "gelu": fn.gelu,
    "leaky": fn.leaky_relu,
    "elu": fn.elu,
    "silu": fn.silu,
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
}


@pytest.mark.parametrize("act", ACTIVATIONS)
def test_activations(act):
    check("activation", lambda x: ACTIVATIONS[act](x), {"x": 21}, act=act)


def test_activations_with_their_own_slope():
    check("activation", lambda x: fn.leaky_relu(x, 0.2), {"x": 21}, act="leaky", negative_slope=0.2)
    check("activation", lambda x: fn.elu(x, 1.5), {"x": 21}, act="elu", alpha=1.5)


def test_prelu():
    def layer(x, slope):
        return fn.prelu(x.reshape(-1, x.shape[-1]), slope).reshape(x.shape)

    check("activation", layer, {"x": 21}, {"slope": 1}, act="prelu")
    check("activation", layer, {"x": 21}, {"slope": 21}, act="prelu", per_column=True)
    steps = [
        step("activation", "prelu", "config_feat", "a", act="prelu"),
        step("linear", "head", "a", "scores", out=1),
    ]
    model = _core.Model(steps, 0, 5, config_features=5)
    assert np.array_equal(named(model)["prelu.slope"], torch.nn.PReLU().weight.detach().numpy())


def slope_layer(middle):
    """`middle(x, **weights)` and PReLU."""

    def layer(x, slope, **weights):
        z = middle(x, **weights)
        return fn.prelu(z.reshape(-1, z.shape[-1]), slope).reshape(z.shape)

    return layer


@pytest.mark.parametrize("columns", [False, True])
def test_prelu_within_other_ops(columns):
    attrs = {"act": "prelu", "per_column": columns}
    weights = {"weight": (21, 9), "bias": 21, "slope": 21 if columns else 1}
    check("linear", slope_layer(fn.linear), {"x": 9}, weights, out=21, **attrs)
    gate = {"gate1_weight": (4, 9), "gate1_bias": 4, "gate2_weight": (9, 4), "gate2_bias": 9}

    def gated(x, gate1_weight, gate1_bias, gate2_weight, gate2_bias):
        hidden = fn.relu(fn.linear(x, gate1_weight, gate1_bias))
        return torch.sigmoid(fn.linear(hidden, gate2_weight, gate2_bias)) * x

    slope = {"slope": 9 if columns else 1}
    check("mix", slope_layer(gated), {"z": 9}, gate | slope, gate=4, **attrs)


@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize("columns", [False, True])
def test_prelu_within_an_encoder_layer(columns, norm):
    tokens, width, hidden = 3, 8, 10
    layer = torch.nn.TransformerEncoderLayer(
        width, 2, hidden, 0.0, batch_first=True, norm_first=norm == "pre", activation=lambda z: fn.prelu(
            z.reshape(-1, hidden), slope).reshape(z.shape)
    )  # fmt: skip
    slope = torch.linspace(-0.5, 0.5, hidden if columns else 1, requires_grad=True)
    x = torch.randn((40, tokens, width), requires_grad=True)
    y = layer(x)
    dy = torch.randn(y.shape)
    y.backward(dy)
    theirs = {name.replace("self_attn.", "").replace(".", "_"): p for name, p in layer.named_parameters()}
    theirs["slope"] = slope
    given = {name: p.detach().numpy() for name, p in theirs.items()}
    attrs = {
        "tokens": tokens,
        "heads": 2,
        "hidden": hidden,
        "norm": norm,
        "act": "prelu",
        "per_column": columns,
    }
    rows, start = (v.detach().numpy().reshape(40, -1) for v in (x, dy))
    assert (
        relative(tg.kernels.encoder_layer(rows, **given, **attrs).ravel(), y.detach().numpy().ravel()) <= 1e-5
    )
    got = tg.kernels.encoder_layer_backward(start, rows, **given, **attrs)
    for name, p in (theirs | {"x": x}).items():
        assert relative(got[name].ravel(), p.grad.numpy().ravel()) <= 1e-5, name


def test_add_concat_and_affine():
    check("add", lambda x, y: x + y, {"x": 9, "y": 9})
    check("concat", lambda x, y, z: torch.cat([x, y, z], -1), {"x": 9, "y": 4, "z": 1})
    affine = {"weight": 9, "bias": 9}
    check("affine", lambda x, weight, bias: 0.5 * x * weight + bias, {"x": 9}, affine, scale=0.5)


def test_dropout_keeps_the_mean_and_the_share_of_pytorch():
    x = np.ones((1000, 64), np.float32)
    y = tg.kernels.dropout(x, p=0.3, training=True, key=5)
    theirs = fn.dropout(torch.tensor(x), 0.3).numpy()
    assert np.array_equal(np.unique(y), np.unique(theirs))
    assert abs((y > 0).mean() - 0.7) < 0.01 and abs((theirs > 0).mean() - 0.7) < 0.01


def attention(q, k, v, heads=1, normalise=True, eps=1e-6):
    """Katharopoulos et al. 2020, over the nodes: (N, F) or (N, C, F)."""
    shape = v.shape
    q, k, v = (x.reshape(len(x), -1, heads, x.shape[-1] // heads) for x in (q, k, v))
    q, k = fn.elu(q) + 1, fn.elu(k) + 1
    y = torch.einsum("nchd,chde->nche", q, torch.einsum("nchd,nche->chde", k, v))
    if normalise:
        y = y / (torch.einsum("nchd,chd->nch", q, k.sum(0))[..., None] + eps)
    return y.reshape(shape)


@pytest.mark.parametrize("heads", [1, 4])
@pytest.mark.parametrize("normalise", [True, False])
def test_linear_attention(heads, normalise):
    def layer(q, k, v):
        return attention(q, k, v, heads, normalise)

    check(
        "linear_attention",
        layer,
        {"q": 32, "k": 32, "v": 16},
        heads=heads,
        normalise=normalise,
        tolerance=2e-5,
    )


def in_heads(x, heads):
    """(..., R, F) -> (..., heads, R, F / heads)"""
    return x.unflatten(-1, (heads, -1)).transpose(-2, -3)


def scaled_dot_product(q, k, v, heads):
    """PyTorch's own over the first dimension, configs apart: (N, F) or (N, C, F)."""
    q, k, v = (in_heads(x.movedim(0, -2), heads) for x in (q, k, v))
    return fn.scaled_dot_product_attention(q, k, v).transpose(-2, -3).flatten(-2).movedim(-2, 0)


@pytest.mark.parametrize("heads", [1, 4])
def test_attention(heads):
    wide = {"q": 32, "k": 32, "v": 16}
    check("attention", lambda q, k, v: scaled_dot_product(q, k, v, heads), wide, heads=heads)


@pytest.mark.parametrize(
    ("q", "k"), [((9,), (300,)), ((40, 7), (40,)), ((7,), (40, 7))], ids=["configs", "cells", "their-nodes"]
)
def test_attention_between_different_rows(q, k):
    rng = np.random.default_rng(1)
    shapes = {"q": (*q, 24), "k": (*k, 24), "v": (*k, 12)}
    arrays = {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    tensors = {name: torch.tensor(array, requires_grad=True) for name, array in arrays.items()}
    rows = (
        tensors["q"][None] if len(k) == 2 else tensors["q"].flatten(0, -2)
    )  # every config meets its own nodes
    expected = scaled_dot_product(rows, tensors["k"], tensors["v"], 3).reshape(*q, 12)
    dy = rng.normal(size=expected.shape).astype(np.float32)
    expected.backward(torch.tensor(dy))
    assert relative(tg.kernels.attention(**arrays, heads=3), expected.detach().numpy()) <= 1e-5
    got = tg.kernels.attention_backward(dy, **arrays, heads=3)
    for name, tensor in tensors.items():
        assert relative(got[name], tensor.grad.numpy()) <= 1e-5, name


def test_linformer():
    def means(x, bins):
        at = torch.arange(len(x)) * bins // len(x)
        sums = torch.zeros((bins, *x.shape[1:])).index_add(0, at, x)
        return sums / torch.bincount(at, minlength=bins).clamp(min=1).view(-1, *[1] * (x.ndim - 1))

    def layer(q, k, v, project_k, project_v):
        few = [
            torch.einsum("pb,b...->p...", w, means(x, w.shape[1]))
            for w, x in ((project_k, k), (project_v, v))
        ]
        return scaled_dot_product(q, *few, 2)

    weights = {"project_k": (12, 64), "project_v": (12, 64)}  # more bins than one of the two has nodes
    attrs = {"heads": 2, "project": 12, "bins": 64}
    check("linformer", layer, {"q": 16, "k": 16, "v": 8}, weights, **attrs, tolerance=2e-5)


def test_gate():
    check("gate", lambda a, x: fn.glu(torch.cat([x, a], -1)), {"a": 21, "x": 21})
    check("gate", lambda a, x, y: torch.lerp(y, x, torch.sigmoid(a)), {"a": 21, "x": 21, "y": 21})


def test_embedding_with_a_largest_norm():
    """PyTorch scales rows of its table in place, and gives the gradients of these."""
    rng = np.random.default_rng(0)
    opcode, table = rng.integers(0, 50, 200), rng.normal(size=(50, 9)).astype(np.float32)
    layer = torch.nn.Embedding.from_pretrained(torch.tensor(table), freeze=False, max_norm=2.5)
    expected = layer(torch.tensor(opcode)).detach().numpy()
    assert 0 < (np.linalg.norm(table, axis=1) > 2.5).sum() < 50
    arrays = {"x": np.zeros((200, 1), np.float32), "index": opcode.astype(np.uint8), "weight": table}
    y = tg.kernels.embedding(**arrays, max_norm=2.5)
    assert relative(y[:, 1:], expected) <= 1e-6
    weight = torch.tensor(table, requires_grad=True)
    dy = rng.normal(size=y.shape).astype(np.float32)
    read = torch.renorm(weight, 2, 0, 2.5)[opcode]
    read.backward(torch.tensor(dy[:, 1:]))
    assert relative(read.detach().numpy(), expected) <= 1e-6
    got = tg.kernels.embedding_backward(dy, **arrays, max_norm=2.5)["weight"]
    assert relative(got, weight.grad.numpy()) <= 1e-5


# ---- a model ---------------------------------------------------------------------------------------------


def transformer(width=24):
    """Two blocks over nodes and configs: attention and a wide layer, each after a norm and beside a residual."""
    steps = [
        step("linear", "node", "node_feat", "n", out=width),
        step("linear", "config", "config_feat", "c", out=width),
        step("add", "join", "n c", "h0"),
    ]
    for i, normalise in enumerate((1, 0)):
        h = f"h{i}"
        steps += [
            step("layer_norm", f"norm{i}", h, f"x{i}"),
            *(step("linear", f"{part}{i}", f"x{i}", f"{part}{i}", out=width) for part in "qkv"),
            step(
                "linear_attention", f"attention{i}", f"q{i} k{i} v{i}", f"a{i}", heads=4, normalise=normalise
            ),
            step("activation", f"act{i}", f"a{i}", f"b{i}", act="silu"),
            step("add", f"residual{i}", f"{h} b{i}", f"r{i}"),
            step("graph_norm", f"graph{i}", f"r{i}", f"g{i}"),
            step("linear", f"wide{i}", f"g{i}", f"w{i}", out=2 * width, act="gelu"),
            step("linear", f"narrow{i}", f"w{i}", f"s{i}", out=width),
            step("add", f"out{i}", f"s{i} r{i} c", f"h{i + 1}"),
        ]
    return [
        *steps,
        step("affine", "scale", "h2", "t"),
        step("concat", "both", "t n", "u"),
        step("activation", "bend", "u", "v", act="prelu", per_column=1),
        step("pool", "pool", "v", "p", kind="mean"),
        step("l2_normalise", "unit", "p", "e"),
        step("linear", "head", "e", "scores", out=1),
    ]


class Transformer:
    """The same in PyTorch: tensors are (N, C, F)."""

    def __init__(self, weights):
        self.weights = {name: torch.tensor(value, requires_grad=True) for name, value in weights.items()}

    def linear(self, name, x):
        return fn.linear(x, self.weights[f"{name}.weight"], self.weights[f"{name}.bias"])

    def graph_norm(self, name, x):
        w = {part: self.weights[f"{name}.{part}"] for part in ("weight", "bias", "mean_scale")}
        o = x - w["mean_scale"] * x.mean(0)
        return o / ((o * o).mean(0) + 1e-5).sqrt() * w["weight"] + w["bias"]

    def scores(self, nodes, configs):
        w = self.weights
        n, c = self.linear("node", torch.tensor(nodes))[:, None], self.linear("config", torch.tensor(configs))
        h = n + c
        for i, normalise in enumerate((True, False)):
            norm = f"norm{i}."
            x = fn.layer_norm(h, h.shape[-1:], w[norm + "weight"], w[norm + "bias"])
            a = attention(*(self.linear(f"{part}{i}", x) for part in "qkv"), 4, normalise)
            r = h + fn.silu(a)
            g = fn.gelu(self.linear(f"wide{i}", self.graph_norm(f"graph{i}", r)))
            h = self.linear(f"narrow{i}", g) + r + c
        t = h * w["scale.weight"] + w["scale.bias"]
        u = torch.cat([t, n.expand_as(t)], -1)
        v = torch.where(u > 0, u, u * w["bend.slope"])
        return self.linear("head", fn.normalize(v.mean(0), dim=-1)).flatten()


@pytest.mark.parametrize("nodes", [33, 700])
def test_a_model_with_linear_attention(nodes):
    configs = 6
    model = models.Trained(transformer(), 3, 11, config_features=5)
    models.randomize(model, 1)
    rng = np.random.default_rng(0)
    feat = rng.normal(size=(nodes, 11)).astype(np.float32)
    config_feat = rng.normal(size=(configs, 5)).astype(np.float32)
    none = np.zeros(0, np.int64)
    graph = _core.ModelGraph(feat, None, None, np.zeros((0, 2), np.int64), none, None, config_feat)
    theirs = Transformer(named(model))
    expected = theirs.scores(feat, config_feat)
    values = np.arange(configs, dtype=np.float64)
    loss = ((expected - torch.tensor(values, dtype=torch.float32)) ** 2).mean()
    loss.backward()
    slates = [(graph, models.rows(configs))]
    assert relative(model.scores(slates)[0], expected.detach().numpy()) <= 1e-4
    got, _ = model.gradients(slates, {"value": [values]}, loss=[{"loss": "mse"}])
    assert got == pytest.approx(loss.item(), rel=1e-4)
    top = max(np.linalg.norm(t.grad.numpy()) for t in theirs.weights.values())
    for name, gradient in named(model, "grads").items():
        wanted = theirs.weights[name].grad.numpy()
        assert np.linalg.norm(gradient - wanted) <= 1e-4 * max(np.linalg.norm(wanted), 1e-3 * top), name
