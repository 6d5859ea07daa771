"""Tokens and encoder layers against PyTorch with the same weights."""

import warnings

import numpy as np
import pytest
from operators.encoder_layer import arguments

import tpugraphs as tg

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    torch = pytest.importorskip("torch")

pytestmark = [pytest.mark.parity, pytest.mark.filterwarnings("ignore")]


def relative(got, expected):
    return np.linalg.norm(got.astype(np.float64) - expected) / max(np.linalg.norm(expected), 1e-30)


def torch_name(name):
    """Name of a parameter of the op in a TransformerEncoderLayer."""
    if name.startswith("in_proj"):
        return f"self_attn.{name}"
    return ("self_attn." if name.startswith("out_proj") else "") + ".".join(name.rsplit("_", 1))


@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize("act", ["relu", "gelu"])
@pytest.mark.parametrize(
    ("rows", "tokens", "width", "hidden", "heads"),
    [(150, 6, 256, 256, 2), (70, 6, 32, 64, 4), (9, 20, 12, 7, 3)],
)
def test_encoder_layer(rows, tokens, width, hidden, heads, act, norm):
    given = {
        name: value.astype(np.float32)
        for name, value in arguments((rows,), tokens, width, hidden)(np.random.default_rng(rows)).items()
    }
    layer = torch.nn.TransformerEncoderLayer(
        width, heads, hidden, dropout=0.1, activation=act, batch_first=True, norm_first=norm == "pre"
    )
    weights = {torch_name(name): torch.tensor(value) for name, value in given.items() if name != "x"}
    layer.load_state_dict(weights)
    layer.eval()
    x = torch.tensor(given["x"].reshape(rows, tokens, width), requires_grad=True)
    expected = layer(x)
    dy = torch.randn(expected.shape, generator=torch.Generator().manual_seed(0))
    expected.backward(dy)
    attrs = {"tokens": tokens, "heads": heads, "hidden": hidden, "act": act, "norm": norm}
    flat = dy.numpy().reshape(rows, -1)
    assert (
        relative(tg.kernels.encoder_layer(**given, **attrs), expected.detach().numpy().reshape(rows, -1))
        <= 1e-5
    )
    got = tg.kernels.encoder_layer_backward(flat, **given, **attrs)
    parameters = dict(layer.named_parameters())
    assert relative(got["x"], x.grad.numpy().reshape(rows, -1)) <= 1e-5
    for name in given:
        if name != "x":
            assert relative(got[name], parameters[torch_name(name)].grad.numpy()) <= 1e-5, name


@pytest.mark.parametrize("act", ["none", "relu"])
def test_dimension_tokens_are_a_linear_layer_over_features_and_one_hot_positions(act):
    """Thirty columns, as the fifth place has them: nine features of a dimension, three times seven positions."""
    rng, nodes, configs, width = np.random.default_rng(0), 7, 5, 48
    digits = rng.permuted(np.tile(np.arange(6, dtype=np.int8), (configs, nodes, 3, 1)), axis=3)
    digits[..., 4:] = -1  # two dimensions are in no layout
    feat = rng.normal(size=(nodes, 140)).astype(np.float32)
    layer = torch.nn.Linear(30, width)
    columns = [21, 31, 37, 45, 53, 61, 69, 77, 85]
    one_hot = np.zeros((nodes, configs, 6, 3, 7), np.float32)
    for k, c, s in np.ndindex(nodes, configs, 3):
        for t in range(6):
            places = np.flatnonzero(digits[c, k, s] == t)
            one_hot[k, c, t, s, places[0] + 1 if len(places) else 0] = 1
    features = np.stack([feat[:, at : at + 6] for at in columns], 2)[:, None].repeat(configs, 1)
    rows = np.concatenate([features, one_hot.reshape(nodes, configs, 6, 21)], 3).reshape(-1, 6, 30)
    z = layer(torch.tensor(rows))
    y = torch.relu(z) if act == "relu" else z
    dy = torch.randn(y.shape, generator=torch.Generator().manual_seed(0))
    y.backward(dy)
    weight, bias = layer.weight.detach().numpy(), layer.bias.detach().numpy()
    # columns 21, 31 and 37, 45, ..., 85: one step each, summed by hand
    graph = digits.reshape(configs, nodes, 18), np.arange(nodes), feat
    first = {"cols": width, "column": 21, "groups": 2, "step": 10}
    second = {"cols": width, "column": 37, "groups": 7, "step": 8}
    position = np.ascontiguousarray(weight[:, 9:].T)
    nothing = np.zeros_like(position), np.zeros_like(bias)
    parts = [np.ascontiguousarray(weight[:, :2]), np.ascontiguousarray(weight[:, 2:9])]
    got = tg.kernels.dimension_tokens(*graph, position, bias, parts[0], x=feat, **first)
    got = got + tg.kernels.dimension_tokens(*graph, *nothing, parts[1], x=feat, **second)
    assert relative(got, z.detach().numpy().reshape(len(got), -1)) <= 1e-6
    g = np.where(got > 0, 1, 0 if act == "relu" else 1) * dy.numpy().reshape(got.shape)
    back = tg.kernels.dimension_tokens_backward(
        np.float32(g), *graph, position, bias, parts[0], x=feat, **first
    )
    expected = layer.weight.grad.numpy()
    assert relative(back["position"], expected[:, 9:].T) <= 1e-5
    assert relative(back["weight"], expected[:, :2]) <= 1e-5
    assert relative(back["bias"], layer.bias.grad.numpy()) <= 1e-5
