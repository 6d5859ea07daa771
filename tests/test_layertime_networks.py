"""Times of networks: lists of layers, sums of their times, several devices."""

import json
import math

import numpy as np
import pytest
from refusals import refuses

import tpugraphs as tg
from tpugraphs.layertime import Layer, LayerList, Scaling, network_time, read_layers
from tpugraphs.layertime.networks.estimate import gradient_bytes
from tpugraphs.layertime.networks.layer import TRANSLATIONS, in_kinds, places_of, table_of, window

VGG = (64, 64, "pool", 128, 128, "pool", 256, 256, 256, "pool", 512, 512, 512, "pool", 512, 512, 512, "pool")


class Fake:
    """A model whose times are the operations, in units of a million."""

    def __init__(self):
        self.tables = []

    def predict(self, table):
        self.tables.append(table)
        return table.kind.work(table.columns).flops / 1e6

    def predict_interval(self, table, level):
        ms = table.kind.work(table.columns).flops / 1e6
        return np.stack([ms * (1 - level / 2), ms * (1 + level)], 1)


def vgg16():
    """As the ml-performance-prediction project writes it, dense layers as convolutions, in numbered fields."""
    layers, side, channels = [], 224.0, 3
    conv = {"type": "Convolution", "strides": 1, "use_bias": 1, "activation": "relu"}
    for i, out in enumerate(VGG):
        if out == "pool":
            pool = {"type": "Max_pool", "pool_size": 2, "strides": 2, "padding": "SAME"}
            side /= 2
            layers.append({"name": f"pool{i}", **pool, "output_size": side, "channels_out": channels})
            continue
        sizes = {"matsize": side, "kernelsize": 3, "channels_in": channels, "channels_out": out}
        layers.append({"name": f"conv{i}", **conv, **sizes, "padding": "SAME", "output_size": side})
        channels = out
    for name, kernel, cin, out in (("fc6", 7, 512, 4096), ("fc7", 1, 4096, 4096), ("fc8", 1, 4096, 1000)):
        sizes = {"matsize": float(kernel), "kernelsize": kernel, "channels_in": cin, "channels_out": out}
        layers.append({"name": name, **conv, **sizes, "padding": "VALID", "output_size": 1.0})
    return {
        "layers": {str(i): layer for i, layer in enumerate(layers, 1)},
        "input": {"dimension": 3, "size": 224},
    }


def said(layers):
    return [(layer.kind, dict(layer.columns), layer.rows) for layer in layers]


# ---- lists of layers


def test_vgg16_has_its_layers_and_its_operations(tmp_path):
    path = tmp_path / "vgg16.json"
    path.write_text(json.dumps(vgg16()))
    layers = read_layers(path)
    assert [layer.kind for layer in layers].count("conv2d") == 13
    assert [layer.kind for layer in layers].count("dense") == 3 and not layers.unknown
    assert said(layers) == said(read_layers(vgg16()))
    estimate = network_time(dict.fromkeys(("conv2d", "dense", "pooling"), Fake()), layers, 1, device="V100")
    products = sum(row.ms for row in estimate.per_layer if row.kind != "pooling")
    assert round(products * 1e6 / 2) == 15_470_264_320  # multiply-adds of the published network
    assert gradient_bytes(layers) == 4 * (138_357_544 - 13_416)  # its weights, less biases


def test_layers_in_numbered_fields_are_in_the_order_of_the_numbers():
    backwards = vgg16()
    backwards["layers"] = dict(reversed(backwards["layers"].items()))
    assert said(read_layers(backwards)) == said(read_layers(vgg16()))


def test_sizes_that_follow_may_be_missing():
    whole = vgg16()
    for layer in whole["layers"].values():
        for name in ("matsize", "channels_in", "output_size"):
            layer.pop(name, None)
    assert said(read_layers(whole)) == said(read_layers(vgg16()))
    dense = [
        {"type": "Dense", "dim_input": 12, "dim_output": 5, "activation": "tanh"},
        {"type": "Fully_connected", "channels_out": 7},
    ]
    first, second = read_layers(dense)
    assert first.columns == {"dim_input": 12, "dim_output": 5, "activation": "tanh"}
    assert second.columns == {"dim_input": 5, "dim_output": 7, "activation": "None"}
    odd = {"matsize": 6.75, "kernelsize": 3, "channels_in": 2, "channels_out": 4, "padding": "same"}
    (layer,) = read_layers([{"type": "Convolution", **odd}])  # 27 places by a stride of 4, in their files
    assert layer.columns["matsize"] == 7 and layer.columns["padding"] == "SAME"


def test_layers_of_our_kinds(tmp_path):
    path = tmp_path / "mine.json"
    attention = {"kind": "attention", "heads": 8, "queries": 128, "keys": 64, "head_size": 32}
    path.write_text(json.dumps([attention, {"kind": "softmax", "H": 9, "rows": 7, "name": "last"}]))
    first, last = read_layers(path)
    assert first.name == "attention_1" and first.columns["keys"] == 64 and first.rows == 1
    assert last == Layer("last", "softmax", {"H": 9}, 7)
    assert table_of("softmax", [last], 4, "None").columns["B"].tolist() == [28]


@pytest.mark.parametrize(
    ("given", "names"),
    [
        ([{"kind": "gru"}], ("'gru_1'", "kind", "conv1d")),
        ([{"kind": "dense", "dim_input": 3}], ("'dense_1'", "'dim_output'")),
        ([{"kind": "softmax", "H": 0}], ("'H', row 0",)),
        ([{"kind": "softmax", "H": 3, "B": 4}], ("'B'", "rows=")),
        ([{"kind": "softmax", "H": 3, "rows": 0}], ("rows", "got 0")),
        ([{"kind": "softmax", "H": [3]}], ("'softmax_1'", "'H', row 0")),
        ([{"kind": "softmax", "H": 10**400}], ("'softmax_1'", "'H', row 0")),
        ([{"kind": ["softmax"]}], ("kind", "['softmax']")),
        ([{"type": "Deconvolution", "name": "up"}], ("'up'", "type", "Convolution")),
        ([{"type": "Max_pool", "pool_size": 2}], ("Max_pool", "matsize", "None")),
        ([{"type": "Convolution", "matsize": 4, "kernelsize": 7}], ("kernelsize", "4")),
        ([{"type": "Max_pool", "matsize": 8, "pool_size": 2, "strides": 2, "output_size": 5}], ("output_size", "4", "5")),
        ([{"type": "Max_pool", "matsize": 8, "pool_size": 2, "padding": "FULL"}], ("padding", "VALID")),
        ([3], ("layer 0", "found 3")),
        ([], ("layers", "[]")),
        ({"nodes": []}, ("'layers'", "nodes")),
        ({"layers": 7}, ("layers", "found 7")),
    ],
)  # fmt: skip
def test_wrong_lists_are_refused(given, names):
    refuses(lambda: read_layers(given), tg.DataError, *names)


def test_wrong_files_are_refused(tmp_path):
    for name, content in (("a.json", b"{"), ("b.json", b"\xff\xfe"), ("c.json", b"[" * 100_000)):
        (tmp_path / name).write_bytes(content)
        refuses(lambda: read_layers(tmp_path / name), tg.DataError, name)
    refuses(lambda: read_layers(tmp_path / "none.json"), FileNotFoundError, "none.json")


# ---- kinds in place of others


@pytest.mark.parametrize(("own", "other"), [pair for pair in TRANSLATIONS if pair[0] != "attention"])
def test_translated_layers_do_the_same_work(own, other):
    rng = np.random.default_rng(0)
    for _ in range(60):
        side, kernel, stride, cin, cout = (int(rng.integers(1, high)) for high in (40, 8, 4, 20, 20))
        columns = {
            "dense": {"dim_input": cin, "dim_output": cout},
            "linear": {"B": stride, "N": cin, "K": cout},
            "conv2d": {
                "matsize": max(side, kernel), "kernelsize": kernel, "strides": stride, "channels_in": cin,
                "channels_out": cout, "padding": str(rng.choice(["SAME", "VALID"])),
            },
            "conv": {
                "Input_Size": max(side, kernel), "Kernel_Size": kernel, "Stride": stride, "Input_Channel": cin,
                "Output_Channel": cout, "Padding": int(rng.integers(0, 4)),
            },
        }  # fmt: skip
        layer = Layer("it", own, columns[own], int(rng.integers(1, 4)))
        (said,) = in_kinds(layer, (other,))
        assert said.kind == other and in_kinds(layer, (own, other)) == [layer]
        before, after = (table_of(one.kind, [one], 3, "SGD") for one in (layer, said))
        works = [table.kind.work(table.columns) for table in (before, after)]
        for field in ("flops", "weights", "written", "update"):
            assert getattr(works[0], field) == getattr(works[1], field)


def test_attention_is_products_and_a_softmax_where_no_model_has_it():
    columns = {"heads": 4, "queries": 6, "keys": 10, "head_size": 8}
    layer = Layer("it", "attention", columns, 2)
    assert in_kinds(layer, ("attention", "bmm", "softmax")) == [layer]
    parts = in_kinds(layer, ("bmm", "softmax"))
    assert [(one.name, one.kind) for one in parts] == [
        ("it.scores", "bmm"), ("it.softmax", "softmax"), ("it.values", "bmm"),
    ]  # fmt: skip
    tables = {one.name: table_of(one.kind, [one], 3, "None") for one in (layer, *parts)}
    work = {name: table.kind.work(table.columns) for name, table in tables.items()}
    assert work["it.scores"].flops + work["it.values"].flops == work["it"].flops
    assert work["it.values"].written == work["it"].written
    assert work["it.softmax"].written == work["it.scores"].written == 4 * 3 * 2 * 4 * 6 * 10  # float32
    models = {"bmm": Fake(), "softmax": Fake()}
    assert len(network_time(models, [layer], 3, device="V100").per_layer) == 3
    refuses(
        lambda: network_time({"bmm": Fake()}, [layer], 3, device="V100"),
        tg.ConfigError,
        "softmax",
        "it.softmax",
    )


def test_optimizers_are_named_in_any_case():
    def ms(name):
        return network_time({"dense": Fake(), "bmm": Fake()}, NET, 8, name, "V100").ms

    assert ms("sgd") == ms("SGD") and ms("AdamW") == ms("adamw") == ms("Adam") and ms(None) == ms("none")
    for wrong in ("adamx", "", 3, True):
        refuses(lambda wrong=wrong: ms(wrong), tg.ConfigError, "optimizer", "AdamW")


def test_activations_become_layers_of_their_own():
    dense = Layer("a", "dense", {"dim_input": 3, "dim_output": 5, "activation": "relu"}, 2)
    product, activation = in_kinds(dense, ("linear", "elementwise"))
    assert product.kind == "linear" and activation == Layer(
        "a.relu", "elementwise", {"H": 5, "op": "relu"}, 2
    )
    conv = {"matsize": 8, "kernelsize": 3, "channels_in": 3, "channels_out": 5, "activation": "tanh"}
    _, activation = in_kinds(Layer("b", "conv2d", conv), ("conv",))
    assert activation == Layer("b.tanh", "elementwise", {"H": 5, "op": "tanh"}, 36)
    models = {"linear": Fake()}
    refuses(lambda: network_time(models, [dense], 1, device="V100"), tg.ConfigError, "elementwise", "a.relu")
    assert len(network_time(models, [dense], 1, device="V100", without=["elementwise"]).per_layer) == 1


def test_windows_take_the_places_that_were_seen():
    assert window(224, 3, 1, 224) == (224, "SAME") and window(224, 2, 2, 112) == (224, "VALID")
    rng = np.random.default_rng(0)
    for _ in range(200):
        kernel, stride, around, dilation = (int(rng.integers(1, high)) for high in (6, 4, 4, 3))
        side = int(rng.integers(dilation * kernel, 40))
        places = (side + 2 * around - dilation * (kernel - 1) - 1) // stride + 1
        matsize, padding = window(side, kernel, stride, places)
        assert places_of(matsize, kernel, stride, padding) == places


# ---- modules of PyTorch


@pytest.fixture
def torch():
    return pytest.importorskip("torch", reason="needs PyTorch")


def vgg_module(nn, widths, side, classes, dense):
    parts, channels = [], 3
    for width in widths:
        if width == "pool":
            parts.append(nn.MaxPool2d(2))
            side //= 2
        else:
            parts += [nn.Conv2d(channels, width, 3, padding=1), nn.ReLU(inplace=True)]
            channels = width
    parts += [nn.Flatten(), nn.Linear(channels * side**2, dense), nn.ReLU(), nn.Dropout()]
    parts += [nn.Linear(dense, dense), nn.ReLU(), nn.Dropout(), nn.Linear(dense, classes), nn.ReLU()]
    return nn.Sequential(*parts)


def test_a_module_has_the_layers_of_its_list(torch):
    with torch.device("meta"):  # shapes alone
        layers = read_layers(vgg_module(torch.nn, VGG, 224, 1000, 4096), torch.empty(2, 3, 224, 224))
    assert said(layers) == said(read_layers(vgg16()))
    small = vgg_module(torch.nn, (4, "pool", 6), 8, 5, 7)
    found = read_layers(small, torch.zeros(3, 3, 8, 8))
    assert [layer.kind for layer in found] == ["conv2d", "pooling", "conv2d", "dense", "dense", "dense"]
    assert [layer.name for layer in found] == ["0", "2", "3", "6", "9", "12"]


def test_modules_are_as_before(torch):
    nn = torch.nn
    module = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Dropout(), nn.ReLU())
    module[2].eval()
    before = {name: value.clone() for name, value in module.state_dict().items()}
    read_layers(module, torch.randn(2, 3, 8, 8))
    with pytest.raises(RuntimeError):
        read_layers(module, torch.randn(2, 5, 8, 8))
    for one in module.modules():
        assert not one._forward_hooks and not one._forward_pre_hooks
    assert [one.training for one in module] == [True, True, False, True] and module.training
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())
    assert torch.is_grad_enabled()


def test_modules_and_functions_of_every_kind(torch):
    nn, functional = torch.nn, torch.nn.functional

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.twice = nn.Conv2d(8, 8, (1, 9), padding=(0, 4))
            self.thin = nn.Conv2d(8, 8, 3, groups=8, stride=2, padding=1)
            self.norm, self.pool = nn.BatchNorm2d(8), nn.AdaptiveAvgPool2d(1)
            self.weight = nn.Parameter(torch.zeros(8, 6))

        def forward(self, x):
            x = self.twice(self.twice(x))
            x = functional.relu(self.thin(x)) * 2
            x = self.norm(x) + x
            x = functional.silu(self.pool(x).flatten(1)) @ self.weight
            return functional.softmax(x, dim=-1)

    layers = read_layers(Net(), torch.zeros(4, 8, 16, 16))
    kinds = ["conv2d", "conv2d", "depthwise", "elementwise", "batchnorm", "elementwise", "pooling"]
    assert [layer.kind for layer in layers] == [*kinds, "elementwise", "dense", "softmax"]
    assert layers[0] == layers[1] and layers[0].columns["kernelsize"] == 3  # the side of equal area
    assert layers[0].columns["padding"] == "SAME" and layers[2].columns["activation"] == "relu"
    assert [layer.columns["op"] for layer in layers if layer.kind == "elementwise"] == ["mulu", "add", "silu"]
    assert layers[6].columns == {
        "matsize": 8, "kernelsize": 8, "channels": 8, "strides": 8, "padding": "VALID", "op": "average"
    }  # fmt: skip
    text = nn.Sequential(
        nn.Embedding(50, 8), nn.LayerNorm(8), nn.LSTM(8, 5, 2, bidirectional=True, batch_first=True)
    )
    found = read_layers(text, torch.zeros(2, 7, dtype=torch.int64))
    assert said(found)[:2] == [
        ("embedding", {"length": 7, "dim_input": 50, "dim_output": 8}, 1), ("layernorm", {"H": 8}, 7),
    ]  # fmt: skip
    sizes = [(layer.columns["dim_input"], layer.columns["length"], layer.name) for layer in found[2:]]
    assert sizes == [(8, 7, "2.0"), (8, 7, "2.0.reverse"), (10, 7, "2.1"), (10, 7, "2.1.reverse")]


def test_attention_is_projections_and_products(torch):
    module = torch.nn.MultiheadAttention(8, 2, batch_first=True)
    own, other = torch.zeros(3, 5, 8), torch.zeros(3, 9, 8)
    parts = [(layer.kind, layer.columns, layer.rows) for layer in read_layers(module, (own, own, own))]
    assert [kind for kind, _, _ in parts] == ["dense", "attention", "dense"]
    assert parts[0][1]["dim_output"] == 24 and parts[0][2] == 5
    assert parts[1][1] == {"heads": 2, "queries": 5, "keys": 5, "head_size": 4} and parts[1][2] == 1
    crossed = read_layers(module, {"query": own, "key": other, "value": other})
    assert [layer.rows for layer in crossed] == [5, 9, 1, 5] and crossed[1].columns["dim_output"] == 16
    assert crossed[2].columns["keys"] == 9

    class Plain(torch.nn.Module):
        def forward(self, x):
            return torch.nn.functional.scaled_dot_product_attention(x, x, x) @ x.transpose(-1, -2)

    both = read_layers(Plain(), torch.zeros(3, 2, 5, 4))
    assert said(both) == [
        ("attention", {"heads": 2, "queries": 5, "keys": 5, "head_size": 4}, 1),
        ("bmm", {"M": 5, "N": 4, "K": 5}, 2),
    ]


def test_what_has_no_kind_is_named(torch):
    nn = torch.nn

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.ModuleDict({"gru": nn.GRU(4, 4), "act": nn.Hardswish()})
            self.groups, self.last = nn.Conv2d(4, 4, 3, groups=2), nn.Linear(4, 2)

        def forward(self, x):
            x = self.inner["act"](self.groups(x)).mean([2, 3])
            return self.last(torch.einsum("ij,ik->ik", x, self.inner["gru"](x[None])[0][0]))

    layers = read_layers(Net(), torch.zeros(2, 4, 8, 8))
    named = [("groups", "Conv2d with 2 groups"), ("inner.act", "Hardswish"), ("inner.gru", "GRU")]
    assert [(one.name, one.source) for one in layers.unknown] == [*named, ("Net.einsum", "einsum")]
    with pytest.raises(tg.ConfigError, match=r"without a kind: groups \(Conv2d with 2 groups\), inner.act"):
        network_time({"dense": Fake()}, layers, 1, device="V100")
    without = ["groups", "Hardswish", "GRU", "einsum"]
    assert (
        network_time({"dense": Fake()}, layers, 1, device="V100", without=without).per_layer[0].name == "last"
    )


def test_examples_that_do_not_do(torch):
    module = torch.nn.Linear(4, 2)
    refuses(lambda: read_layers(module), tg.ConfigError, "example")
    refuses(lambda: read_layers(module, 3), tg.ConfigError, "example")
    with pytest.raises(tg.ConfigError, match="batch_size.*got 0"):
        read_layers(module, torch.zeros(2, 4), batch_size=0)
    with pytest.raises(tg.ConfigError, match=r"expected a torch.nn.Module, got int"):
        tg.layertime.layers_of_torch(3, torch.zeros(2, 4))
    (layer,) = read_layers(module, torch.zeros(6, 2, 4), batch_size=2)
    assert layer.rows == 6


# ---- ONNX


def onnx_model(onnx):
    made, kind = onnx.helper, onnx.TensorProto.FLOAT
    sizes = {
        "w": (8, 3, 3, 3),
        "b": (8,),
        "scale": (8,),
        "shift": (8,),
        "mean": (8,),
        "var": (8,),
        "m": (8, 5),
        "c": (5,),
    }
    weights = [made.make_tensor(name, kind, size, np.zeros(size).ravel()) for name, size in sizes.items()]
    nodes = [
        made.make_node("Conv", ["x", "w", "b"], ["1"], "conv", kernel_shape=[3, 3], pads=[1] * 4),
        made.make_node("Relu", ["1"], ["2"], "relu"),
        made.make_node("BatchNormalization", ["2", "scale", "shift", "mean", "var"], ["3"], "norm"),
        made.make_node("MaxPool", ["3"], ["4"], "pool", kernel_shape=[2, 2], strides=[2, 2]),
        made.make_node("GlobalAveragePool", ["4"], ["5"], "mean"),
        made.make_node("Flatten", ["5"], ["6"], "flat"),
        made.make_node("MatMul", ["6", "m"], ["7"], "dense"),
        made.make_node("Add", ["7", "c"], ["8"], "bias"),
        made.make_node("Tanh", ["8"], ["9"], "tanh"),
        made.make_node("Add", ["9", "9"], ["10"], "sum"),
        made.make_node("Softmax", ["10"], ["11"], "softmax"),
        made.make_node("Elu", ["11"], ["y"], "elu"),
    ]  # fmt: skip
    x = made.make_tensor_value_info("x", kind, ["N", 3, "side", 32])
    y = made.make_tensor_value_info("y", kind, None)
    graph = made.make_graph(nodes, "net", [x], [y], weights)
    return made.make_model(graph, opset_imports=[made.make_opsetid("", 18)])


def test_layers_of_an_onnx_model(tmp_path):
    onnx = pytest.importorskip("onnx", reason="needs the package onnx")
    path = tmp_path / "net.onnx"
    path.write_bytes(onnx_model(onnx).SerializeToString())
    layers = read_layers(path, sizes={"side": 32})
    kinds = ["conv2d", "batchnorm", "pooling", "pooling", "dense", "elementwise", "softmax", None]
    assert [layer.kind for layer in layers] == kinds
    assert layers[0].columns["activation"] == "relu" and layers[0].columns["padding"] == "SAME"
    assert layers[4].columns == {"dim_input": 8, "dim_output": 5, "activation": "tanh"}
    assert (layers.unknown[0].name, layers.unknown[0].source) == ("elu", "Elu")
    assert said(read_layers(onnx_model(onnx), sizes={"N": 4, "side": 32})) == said(layers)
    refuses(lambda: read_layers(path), tg.DataError, "'side'", "'x'", "sizes=")
    wrong = onnx_model(onnx)
    wrong.graph.node[10].attribute.append(onnx.helper.make_attribute("axis", 7))
    refuses(lambda: read_layers(wrong, sizes={"side": 32}), tg.DataError, "node 'softmax'")
    path.write_bytes(b"no protobuf")
    refuses(lambda: read_layers(path), tg.DataError, "net.onnx")


@pytest.mark.parametrize(
    "opset, axis, numbers", [(12, None, 12), (12, 2, 4), (12, -1, 4), (13, None, 4), (13, 1, 3)]
)
def test_rows_of_a_softmax_of_onnx(opset, axis, numbers):
    """Before opset 13 they were all that follows the axis, which was the first after the batch."""
    onnx = pytest.importorskip("onnx", reason="needs the package onnx")
    made, kind = onnx.helper, onnx.TensorProto.FLOAT
    node = made.make_node("Softmax", ["x"], ["y"], **({} if axis is None else {"axis": axis}))
    x, y = (made.make_tensor_value_info(name, kind, [2, 3, 4]) for name in "xy")
    model = made.make_model(
        made.make_graph([node], "net", [x], [y]), opset_imports=[made.make_opsetid("", opset)]
    )
    (layer,) = read_layers(model)
    assert layer.columns["H"] == numbers


def test_onnx_is_asked_for(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "onnx", None)
    refuses(lambda: read_layers("net.onnx"), tg.ConfigError, "pip install tpugraphs[onnx]")


# ---- times of networks


NET = LayerList(
    [
        Layer("a", "dense", {"dim_input": 100, "dim_output": 50}),
        Layer("b", "bmm", {"M": 10, "N": 20, "K": 30}, 4),
        Layer("c", "dense", {"dim_input": 50, "dim_output": 10}),
    ]
)
A, B, C = 2 * 100 * 50 / 1e6, 2 * 4 * 10 * 20 * 30 / 1e6, 2 * 50 * 10 / 1e6  # of one sample, forward


def test_a_sum_has_the_figures_of_its_layers():
    models = {"dense": Fake(), "bmm": Fake()}
    found = network_time(models, NET, 8, device="V100", level=0.5, factor=2.0)
    assert found.ms == pytest.approx(8 * (A + B + C) / 2)
    assert [(row.name, row.kind) for row in found.per_layer] == [("a", "dense"), ("b", "bmm"), ("c", "dense")]
    assert [row.ms for row in found.per_layer] == pytest.approx([4 * A, 4 * B, 4 * C])
    assert found.interval == pytest.approx((0.75 * found.ms, 1.5 * found.ms))
    assert sum(row.share for row in found.per_layer) == pytest.approx(1)
    assert [len(model.tables) for model in models.values()] == [1, 1]  # one call for each kind
    assert found.epoch_s(17) == pytest.approx(3 * found.ms / 1000)
    assert found.run_s(16, 5) == pytest.approx(10 * found.ms / 1000)
    trained = network_time(models, NET, 8, "SGD", "V100", level=None)
    assert trained.ms == pytest.approx(3 * 8 * (A + B + C)) and math.isnan(trained.interval[0])
    text = str(found)
    assert text.startswith("0.236 ms (50 %: 0.177 to 0.354)") and "batch of 8 on V100, inference" in text
    assert [line.split()[0] for line in text.splitlines()[3:]] == ["b", "a", "c"]  # the slowest first
    many = network_time(models, [NET[0]] * 12, 8, "SGD", "V100", 2, link_gbps=1)
    assert "3 others" in str(many) and "2 x V100, training with SGD" in str(many)


def test_sums_of_real_models():
    rng = np.random.default_rng(0)
    table = {name: rng.integers(1, 2000, 300) for name in ("batch", "dim_input", "dim_output")}
    table |= {"optimizer": rng.choice(["None", "SGD"], 300), "device": rng.choice(["K40", "P100"], 300)}
    read = tg.layertime.read_table(table, "dense", timed=False)
    table["ms"] = (0.1 + tg.layertime.roofline_ms(read)) * rng.lognormal(0, 0.05, 300)
    model = tg.layertime.LayerTimeModel("dense", "roofline").fit(table)
    layers = [Layer("a", "linear", {"N": 100, "K": 50}), NET[2]]
    found = network_time({"dense": model}, layers, 32, "SGD", "K40")
    one = {"batch": [32], "optimizer": ["SGD"]}
    rows = [one | {"dim_input": [i], "dim_output": [j]} for i, j in ((100, 50), (50, 10))]
    assert found.ms == pytest.approx(sum(model.predict(row, "K40")[0] for row in rows))
    ends = sum(model.predict_interval(row, 0.8, "K40")[0] for row in rows)
    np.testing.assert_allclose(found.interval, ends)
    single = {name: values[table["device"] == "K40"] for name, values in table.items()}
    model = tg.layertime.LayerTimeModel("dense", "roofline").fit(single)
    with pytest.raises(tg.ConfigError, match="'dense'.*'P100'.*interval"):
        network_time({"dense": model}, layers, 32, device="P100")
    assert network_time({"dense": model}, layers, 32, device="P100", level=None).ms > 0
    far = tg.layertime.Device("core", 100, 20, 3000, 1, 32, 16)
    with pytest.raises(
        tg.ConfigError, match="'dense'.*'core': over 10 times as fast or slow as K40.*calibrate"
    ):
        network_time({"dense": model}, layers, 32, device=far, level=None)


def test_frames():
    pandas = pytest.importorskip("pandas", reason="needs pandas")
    frame = network_time({"dense": Fake(), "bmm": Fake()}, NET, 8, device="V100").to_frame()
    assert isinstance(frame, pandas.DataFrame) and frame["name"].tolist() == ["a", "b", "c"]
    assert list(frame.columns) == ["name", "kind", "ms", "low", "high", "share", "out_of_range"]


def test_replicas_share_the_batch_and_send_gradients():
    models = {"dense": Fake(), "bmm": Fake()}
    link = {"link_gbps": 0.001, "latency_ms": 0.25}
    size = 4 * (100 * 50 + 50 * 10)
    sent = 2 * 2 / 3 * size / 1e3 + 2 * 2 * 0.25  # ms by hand: 0.001 GB/s are 1e3 bytes per ms
    found = network_time(models, NET, 10, "SGD", "V100", 3, **link)
    assert found.ms == pytest.approx(3 * 4 * (A + B + C) + sent)  # 4 = 10 / 3, rounded up
    assert found.per_layer[-1][:3] == ("all-reduce", "link", pytest.approx(sent))
    hidden = network_time(models, NET, 10, "SGD", "V100", 3, **link, overlap=0.5)
    assert hidden.ms == pytest.approx(3 * 4 * (A + B + C) * 0.5 + sent)
    assert network_time(models, NET, 10, "None", "V100", 3).ms == pytest.approx(4 * (A + B + C))
    last = network_time(models, NET, 10, "SGD", "V100", 3, **link, method="last-layer", factor=1.5)
    assert last.ms == pytest.approx(3 * 4 * (A + B) / 1.5 + 3 * 10 * C + sent)
    other = Fake()
    other.kind = "linear"
    again = network_time(models, NET, 10, "SGD", "V100", 3, **link, method="last-layer", last_model=other)
    assert again.ms == pytest.approx(3 * 4 * (A + B) + 3 * 10 * C + sent)
    assert [table.kind.name for table in other.tables] == ["linear"]
    active = [*NET[:2], Layer("c", "dense", {**NET[2].columns, "activation": "relu"})]
    ends = {"method": "last-layer", "last_model": other, "device": "V100"}
    rows = network_time(models | {"elementwise": Fake()}, active, 10, **ends).per_layer
    assert [(row.name, row.kind) for row in rows[2:]] == [("c", "linear"), ("c.relu", "elementwise")]


@pytest.mark.parametrize(
    ("change", "names"),
    [
        ({"models": {"bmm": Fake()}}, ("dense: a, c",)),
        ({"models": {}}, ("dense: a, c", "bmm: b")),
        ({"device": "V10"}, ("'V10'", "'V100'")),
        ({"device": None}, ("device", "None")),
        ({"batch_size": 0}, ("batch_size", "got 0")),
        ({"replicas": 9}, ("replicas", "8", "got 9")),
        ({"optimizer": "Lion"}, ("optimizer", "SGD")),
        ({"method": "tree"}, ("method", "ring", "last-layer")),
        ({"factor": 0}, ("factor",)),
        ({"overlap": 1.5}, ("overlap", "1.5")),
        ({"level": 80}, ("level",)),
        ({"level": 1}, ("level", "got 1")),
        ({"replicas": 2, "optimizer": "SGD"}, ("link_gbps",)),
        ({"last_model": Fake()}, ("last_model", "'last-layer'")),
        ({"without": ["dense", "bmm"]}, ("layers", "none")),
        ({"without": "dense"}, ("without", "'dense'")),
        ({"layers": [3]}, ("layers", "int", "read_layers")),
    ],
)
def test_what_cannot_be_predicted_is_refused(change, names):
    given = {"models": {"dense": Fake(), "bmm": Fake()}, "layers": NET, "batch_size": 8, "device": "V100"}
    refuses(lambda: network_time(**(given | change)), tg.ConfigError, *names)


def test_what_a_model_cannot_answer_is_refused():
    class Bad(Fake):
        def predict(self, table):
            return [math.nan] * len(table)

    def time(batch_size, **models):
        return network_time({"dense": Fake(), "bmm": Fake(), **models}, NET, batch_size, device="V100")

    refuses(lambda: time(1 << 21), tg.DataError, "'a'", "batch", "2,097,152")
    refuses(lambda: time(8, dense=Bad()), tg.ConfigError, "'dense'", "shape")


# ---- several devices


def test_a_ring_sends_its_share():
    assert tg.layertime.ring_ms(1e9, 1, 10) == 0
    assert tg.layertime.ring_ms(1e9, 2, 10) == pytest.approx(100)  # all bytes once
    assert tg.layertime.ring_ms(1e9, 4, 10, 0.5) == pytest.approx(150 + 3)
    assert tg.layertime.ring_ms(1e9, 4, math.inf) == 0
    np.testing.assert_allclose(tg.layertime.ring_ms([1e9, 2e9], [2, 8], 10), [100, 350])
    assert tg.layertime.exposed_ms(10, 8, 0.5) == 6 and tg.layertime.exposed_ms(3, 8, 0.5) == 0


def steps_of(depths, batch=1, optimizer="None", **cost):
    layer = Layer("it", "dense", {"dim_input": 300, "dim_output": 200})
    return [network_time({"dense": Fake()}, [layer] * n, batch, optimizer, "V100", **cost) for n in depths]


def test_a_fixed_cost_is_found_again():
    plain = steps_of((3, 30, 12))
    true = tg.layertime.StepCost(0.4, 0.05)
    real = steps_of((3, 30, 12), **true._asdict())
    assert [one.ms for one in real] == pytest.approx(
        [a.ms + 0.4 + 0.05 * n for a, n in zip(plain, (3, 30, 12), strict=True)]
    )
    fixed = real[0].per_layer[-1]
    assert (fixed.kind, fixed.ms) == ("step", pytest.approx(0.55)) and fixed.low == fixed.ms == fixed.high
    measured = [one.ms for one in real]
    for given in (plain, real):  # what an estimate has already does not count
        assert tg.layertime.calibrate_network(given[:2], measured[:2]) == pytest.approx(true)
    one = tg.layertime.calibrate_network(plain[1:2], measured[1:2])
    assert one == pytest.approx((0.0, (0.4 + 30 * 0.05) / 30))
    two = steps_of((30, 30))
    assert tg.layertime.calibrate_network(two, [2.0 * two[0].ms, 2.0 * two[0].ms]).step_ms == 0


def test_no_fixed_cost_is_below_0():
    plain = steps_of((3, 30))
    assert tg.layertime.calibrate_network(plain, [0.5 * one.ms for one in plain]) == (0, 0)
    ms = [one.ms for one in plain]
    deep = tg.layertime.calibrate_network(plain, [ms[0] + 1.0, ms[1] + 0.5])  # less for the deeper one
    assert deep.layer_ms == 0
    weights = 1 / np.array([ms[0] + 1.0, ms[1] + 0.5])
    assert deep.step_ms == pytest.approx(np.sum(weights**2 * [1.0, 0.5]) / np.sum(weights**2))


def test_steps_that_say_nothing_of_a_fixed_cost():
    plain = steps_of((3,)) + steps_of((3,), optimizer="SGD")
    for given, measured, *names in (
        ([], [], "predicted_ms"),
        (plain[:1], [1.0, 2.0], "measured_ms: expected 1 number"),
        (plain[:1], [0.0], "measured_ms"),
        (plain, [1.0, 2.0], "inference", "training"),
        ([1.0], [1.0], "estimates", "float"),
    ):
        refuses(lambda: tg.layertime.calibrate_network(given, measured), tg.ConfigError, *names)
    for name in ("step_ms", "layer_ms"):
        refuses(lambda: steps_of((3,), **{name: -1}), tg.ConfigError, name)


def test_factors_are_medians():
    assert tg.layertime.fit_factor([3, 8, 5], [2, 4, 5]) == 1.5
    for predicted, measured, *names in (
        ([], [], "predicted_ms:"),
        ([1, 2], [1], "measured_ms: expected 2 numbers"),
        ([1, 0], [1, 1], "predicted_ms:", "0.0 in row 1"),
        ([1, 1], [1, math.nan], "measured_ms:", "nan in row 1"),
        (["x"], [1], "predicted_ms:", "list"),
    ):
        refuses(lambda: tg.layertime.fit_factor(predicted, measured), tg.ConfigError, *names)


@pytest.mark.parametrize("link", [Scaling(1.2, 0.0, 0.0), Scaling(8.0, 0.4, 0.0), Scaling(0.7, 0.1, 0.6)])
def test_links_are_found_again(link):
    rng = np.random.default_rng(0)
    n, alone = rng.choice([2, 4, 8], 60), rng.uniform(1, 100, 60)
    size = rng.choice([4.5e7, 1e8, 5e6], 60)
    together = link.together_per_s(n, alone, size)
    found = tg.layertime.fit_scaling(n, alone, together, size, overlap=None)
    np.testing.assert_allclose(found.together_per_s(n, alone, size), together, rtol=0.02)
    assert found.link_gbps == pytest.approx(link.link_gbps, rel=0.1)
    fixed = tg.layertime.fit_scaling(n, alone, together, size, overlap=link.overlap)
    assert fixed.overlap == link.overlap


def test_wrong_throughputs_are_refused():
    for given, *names in (
        (([2, 4], [1, 1], [1, 1], [1, 1]), "3 rows", "got 2"),
        (([1, 2, 4], [1] * 3, [1] * 3, [1] * 3), "replicas"),
        (([2, 2, 4], [1, 0, 1], [1] * 3, [1] * 3), "alone_per_s"),
        (([2, 2, 4], [1] * 3, [1] * 2, [1] * 3), "together_per_s"),
        (([2, 2, 4], [1] * 3, [1] * 3, [1] * 3, 2), "overlap", "got 2"),
    ):
        refuses(lambda: tg.layertime.fit_scaling(*given), tg.ConfigError, *names)


def test_each_model_takes_a_name_for_the_device_it_knows():
    slow, fast = (tg.layertime.Device("mine", peak, 40, 3000, 4, 16, 32) for peak in (100, 200))
    models = {"dense": Fake(), "softmax": Fake()}
    models["dense"].known_devices, models["softmax"].known_devices = (
        (slow,),
        (tg.layertime.DEVICES["K40"], fast),
    )
    net = [Layer("a", "dense", {"dim_input": 3, "dim_output": 5}), Layer("b", "softmax", {"H": 5})]
    assert network_time(models, net, 2, device="mine").device == "mine"
    assert [one.tables[0].devices for one in models.values()] == [(slow,), (fast,)]
    last = Fake()
    network_time(models, net, 2, device="mine", method="last-layer", last_model=last)
    assert last.tables[0].devices == (slow,)  # knows none: that of the first model
    network_time(models, net, 2, device=fast)
    assert models["dense"].tables[-1].devices == (fast,)
    del models["dense"].known_devices, models["softmax"].known_devices
    refuses(lambda: network_time(models, net, 2, device="mine"), tg.ConfigError, "'mine'")


def test_layers_beyond_what_was_learnt_are_marked():
    models = tg.layertime.load_models("tensorflow-gpu")
    layers = [
        Layer("usual", "dense", {"dim_input": 1000, "dim_output": 1000}),
        Layer("huge", "dense", {"dim_input": 25088, "dim_output": 4096}),
    ]
    found = tg.layertime.network_time(models, layers, 16, "SGD", "P100")
    assert [row.out_of_range for row in found.per_layer] == [False, True]
    assert "huge*" in str(found) and "usual*" not in str(found)
    assert "* beyond what the model learnt from: 1 layer, " in str(found)
