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
def test_dimension_tokens_are_a_linear_layer_over_features_and_places(act):
    """Nineteen numbers: fifteen features of a dimension, its places in three layouts, its own number."""
    rng, nodes, configs, width = np.random.default_rng(0), 7, 5, 48
    digits = rng.permuted(np.tile(np.arange(6, dtype=np.int8), (configs, nodes, 3, 1)), axis=3)
    digits[..., 4:] = -1  # two dimensions are in no layout
    feat = rng.normal(size=(nodes, 100)).astype(np.float32)
    layer = torch.nn.Linear(19, width)
    places = torch.full((configs, nodes, 3, 6), -1.0)
    for c, k, s, place in np.argwhere(digits >= 0):
        places[c, k, s, digits[c, k, s, place]] = place
    own = torch.tensor(feat[:, 10:].reshape(nodes, 15, 6)).mT.expand(configs, -1, -1, -1)
    numbers = torch.arange(6.0)[:, None].expand(configs, nodes, -1, -1)
    rows = torch.cat([own, places.mT, numbers], -1).transpose(0, 1).reshape(-1, 6, 19)
    z = layer(rows)
    y = torch.relu(z) if act == "relu" else z
    dy = torch.randn(y.shape, generator=torch.Generator().manual_seed(0))
    y.backward(dy)
    weight, bias = layer.weight.detach().numpy(), layer.bias.detach().numpy()
    cells = tg.kernels.cell_columns(digits.reshape(configs, nodes, 18), np.arange(nodes), feat, x=feat)
    attrs = {"cols": width, "column": 10, "groups": 18, "step": 6, "number": True, "act": act}
    got = tg.kernels.dimension_tokens(cells, weight, bias, **attrs)
    assert relative(got, y.detach().numpy().reshape(len(got), -1)) <= 1e-6
    back = tg.kernels.dimension_tokens_backward(dy.numpy().reshape(got.shape), cells, weight, bias, **attrs)
    assert relative(back["weight"], layer.weight.grad.numpy()) <= 1e-5
    assert relative(back["bias"], layer.bias.grad.numpy()) <= 1e-5
