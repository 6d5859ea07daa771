"""The network of ml-performance-prediction: its inputs, architecture and training; as a method, all of a model."""

import models
import numpy as np
import pytest
from refusals import refuses

import tpugraphs as tg
from tpugraphs import _core
from tpugraphs.layertime import DEVICES, Device, LayerTimeModel, read_table
from tpugraphs.layertime.methods import inputs
from tpugraphs.preprocess.pipeline import Sizes
from tpugraphs.recipes import get_recipe
from tpugraphs.system import tensorfile

OPTIMIZERS = ("SGD", "Adadelta", "Adagrad", "Momentum", "Adam", "RMSProp")
ACTIVATIONS = ("relu", "tanh", "sigmoid")
DEVICE = ("bandwidth_gbps", "cores", "clock_mhz")


def layers(rows=3000, seed=0, devices=("K40", "P100", "M60")):
    """Random dense layers of 1 to 20 ms: products of sizes at a rate that is the device's bandwidth."""
    rng = np.random.default_rng(seed)
    table = {"batch": rng.integers(1, 65, rows), "dim_input": rng.integers(1, 4096, rows)}
    table["dim_output"] = rng.integers(1, 4096, rows)
    table["optimizer"] = rng.choice(["None", "SGD"], rows)
    table["device"] = rng.choice(devices, rows)
    bandwidth = np.array([DEVICES[name].bandwidth_gbps for name in table["device"]])
    work = table["dim_input"] / 4096 * (1 + table["dim_output"] / 4096)
    table["ms"] = 1 + 1000 / bandwidth * work * np.where(table["optimizer"] == "None", 1, 2)
    return table


def error(model, table):
    return float(np.mean(np.abs(model.predict(table) / table["ms"] - 1)))


# ---- inputs


def flags(prefix, words, chosen):
    return {f"{prefix}={word}": float(word == chosen) for word in words}


def seen(kind, device, **columns):
    table = read_table({name: [value] for name, value in columns.items()}, kind, device, timed=False)
    found = inputs(table)
    assert all(values.shape == (1,) and values.dtype == np.float64 for values in found.values())
    return {name: float(values[0]) for name, values in found.items()}


def test_inputs_of_a_convolution_are_the_published_ones():
    sizes = {"batch": 8, "kernelsize": 3, "channels_in": 5, "channels_out": 7, "strides": 2, "use_bias": 1}
    got = seen("conv2d", "P100", **sizes, matsize=64, padding="SAME", activation="tanh", optimizer="Adam")
    expected = sizes | {"matsize": 64 * 64, "kernelsize": 9, "padding=SAME": 1}
    expected |= flags("optimizer", OPTIMIZERS, "Adam") | flags("activation", ACTIVATIONS, "tanh")
    p100 = {"bandwidth_gbps": 732, "cores": 3584, "clock_mhz": 1328}
    assert got.keys() == {**expected, **p100}.keys() and len(got) == 20
    assert got == pytest.approx(expected | p100, rel=1e-4)


def test_inputs_of_other_kinds():
    device = Device(
        "mine", peak_gflops=4000, bandwidth_gbps=300, clock_mhz=1000, units=9, cache_mb=1, memory_gb=8
    )
    got = seen("dense", device, batch=8, dim_input=5, dim_output=7)
    expected = {"batch": 8, "dim_input": 5, "dim_output": 7}
    expected |= flags("optimizer", OPTIMIZERS, None) | flags("activation", ACTIVATIONS, None)
    assert len(got) == 15
    assert got == expected | {"bandwidth_gbps": 300, "cores": 2000, "clock_mhz": 1000}
    sides = {"batch": 1, "kernelsize": 3, "channels_in": 1, "channels_out": 1}
    assert seen("conv3d", device, **sides, matsize=4)["matsize"] == 64
    assert seen("conv1d", device, **sides, length=4)["kernelsize"] == 3
    assert (
        seen("pooling", device, batch=1, matsize=4, kernelsize=2, channels=1, op="average")["op=average"] == 1
    )


@pytest.mark.parametrize(
    ("name", "figures"), [("K40", 2880), ("K80", 2496), ("M60", 2048), ("P100", 3584), ("V100", 5120)]
)
def test_cores_follow_from_the_peak(name, figures):
    assert seen("linear", name, M=1, N=1, K=1)["cores"] == pytest.approx(figures, rel=1e-3)


# ---- the recipe


def sizes(config, graph=0):
    return Sizes(
        node=1, described=False, graph=graph, config=config, digits=(0, 0), opcodes=None, edges=False
    )


def test_architecture_and_training_are_the_published_ones():
    recipe = get_recipe("mlpredict")
    fields = recipe.fields("full")
    steps = recipe.model(fields, sizes(20))
    assert _core.Model(steps, 0, 1, config_features=20).num_parameters == 60_768
    assert _core.Model(recipe.model(fields, sizes(15)), 0, 1, config_features=15).num_parameters == 60_608
    widths = [step["attrs"]["out"] for step in steps if step["op"] == "linear"]
    assert widths == [32, 64, 128, 128, 128, 128, 1]
    assert recipe.losses(fields) == [{"loss": "msle"}]
    assert fields.optimizer == "adam" and fields.eps == 0.1 and fields.weight_decay == 1e-5
    assert fields.configs == 128 and fields.dropout == 0.2
    rates = [tg.kernels.schedules.rate(1 + epoch, 300, fields) for epoch in (0, 39, 40, 79, 80, 299)]
    assert rates == pytest.approx([0.1, 0.1, 0.05, 0.05, 0.025, 0.1 / 128])
    refuses(lambda: recipe.model(fields, sizes(0)), tg.RecipeError, "mlpredict", "config_feat")


def example(fields, sign):
    """Our model with an output of that sign, nine rows of numbers, their slates and their milliseconds."""
    recipe, rng = get_recipe("mlpredict"), np.random.default_rng(0)
    ours = models.Trained(recipe.model(fields, sizes(20)), 3, 1, config_features=20)
    models.randomize(ours, 3)
    head = models.named(ours)["head.weight"]
    head[:] = sign * np.abs(head)
    feat, ms = rng.normal(size=(9, 20)).astype(np.float32), rng.uniform(0.1, 5, 9)
    nodes = {"node_feat": np.zeros((1, 1), np.float32), "node_opcode": np.zeros(1, np.uint8)}
    empty = {"layout_digits": np.zeros((1, 6), np.int8), "edge_index": np.zeros((0, 2), np.int64)}
    graph = _core.ModelGraph(**nodes, **empty, config_nodes=np.zeros(0, np.int64), config_feat=feat)
    return ours, feat, [(graph, models.rows(9))], ms


@pytest.mark.parity
def test_scores_loss_and_gradients_are_those_of_torch():
    torch = pytest.importorskip("torch")
    fields = get_recipe("mlpredict").fields("full", {"width": 16, "dropout": 0.0})
    ours, feat, slates, ms = example(fields, 1)
    w = {name: torch.tensor(view).double().requires_grad_() for name, view in models.named(ours).items()}
    x = torch.tensor(feat).double()
    for i in range(2 + fields.layers):
        x = torch.relu(torch.nn.functional.linear(x, w[f"hidden{i}.weight"], w[f"hidden{i}.bias"]))
    scores = torch.relu(torch.nn.functional.linear(x, w["head.weight"]))[:, 0]
    loss = torch.mean((torch.log(1 + scores) - torch.log(1 + torch.tensor(ms))) ** 2)
    loss.backward()
    np.testing.assert_allclose(ours.scores(slates)[0], scores.detach(), rtol=1e-4)
    got, _ = ours.gradients(slates, {"value": [ms]}, loss=[{"loss": "msle"}])
    assert got == pytest.approx(loss.item(), rel=1e-5)
    for name, gradient in models.named(ours, "grads").items():
        expected = w[name].grad.numpy()
        assert np.linalg.norm(gradient - expected) <= 1e-4 * np.linalg.norm(expected) > 0, name


def test_a_network_that_begins_below_zero_can_learn():
    fields = get_recipe("mlpredict").fields("full", {"width": 16, "dropout": 0.0})
    ours, _, slates, ms = example(fields, -1)
    assert (ours.scores(slates)[0] < 0).all()
    for step in range(1, 201):
        ours.step(slates, {"value": [ms]}, [{"loss": "msle"}], 0.01, 0.0, 1e9, step)
    assert (ours.scores(slates)[0] > 0).all()


# ---- the method


@pytest.fixture(scope="module")
def trained():
    return LayerTimeModel("dense", "mlpredict", steps=1200).fit(layers())


def test_a_law_is_learnt(trained):
    new = layers(500, seed=1)
    assert error(trained, new) < 0.05
    assert trained.devices == ("K40", "M60", "P100")
    low, high = trained.predict_interval(new, 0.8).T
    assert 0.7 < np.mean((low <= new["ms"]) & (new["ms"] <= high)) < 0.9
    other = layers(300, seed=2, devices=("GTX1080Ti",))
    low, high = trained.predict_interval(other, 0.8).T
    known = trained.predict_interval({**other, "device": ["P100"] * 300}, 0.8)
    assert np.mean(np.log(high / low)) > 2 * np.mean(np.log(known[:, 1] / known[:, 0]))


def test_no_time_is_below_the_least_learnt_from(trained):
    tiny = {"batch": [1], "dim_input": [1], "dim_output": [1]}
    fast = Device("fast", 1e5, 1e4, 2000, 100, 50, 80)
    assert trained.predict(tiny, device=fast) >= np.min(layers()["ms"])
    assert trained.predict(tiny, device="K40") == pytest.approx(1, rel=0.2)


def test_files_hold_all_of_it(trained, tmp_path):
    new = layers(100, seed=1)
    again = LayerTimeModel("dense", "mlpredict", steps=1200).fit(layers())
    np.testing.assert_array_equal(again.predict_interval(new), trained.predict_interval(new))
    path = tmp_path / "model.safetensors"
    trained.save(path)
    loaded = LayerTimeModel.load(path)
    np.testing.assert_array_equal(loaded.predict(new), trained.predict(new))
    np.testing.assert_array_equal(loaded.predict_interval(new), trained.predict_interval(new))
    assert loaded.devices == trained.devices and loaded.fields == {"steps": 1200}
    metadata, tensors = tensorfile.read(str(path), "layer-time")
    for change, name in (
        ({"least_ms": 0.0}, "least_ms:"),
        ({"least_ms": "1"}, "least_ms:"),
        ({"devices": [["K40"]]}, "devices:"),
        ({"devices": [1]}, "devices:"),
        ({"fields": {"preset": []}}, "method:"),
    ):
        tensorfile.write(tmp_path / "wrong", "layer-time", {**metadata, **change}, tensors)
        refuses(lambda: LayerTimeModel.load(tmp_path / "wrong"), tg.CheckpointError, name)


def test_a_few_layers_calibrate_a_device(trained, tmp_path):
    trained.save(tmp_path / "a")
    model = LayerTimeModel.load(tmp_path / "a")
    new = layers(500, seed=4, devices=("T4",))
    new["ms"] = 3 * np.asarray(new["ms"])  # three times as slow as its figures say
    before, rows = error(model, new), model.suggest(40, new)
    few = {name: np.asarray(values)[rows] for name, values in new.items()}
    model.calibrate(few)
    assert error(model, new) < 0.3 * before and model.devices[-1] == "T4"


def test_one_device_has_a_smaller_network():
    model = LayerTimeModel("dense", "mlpredict", steps=20).fit(layers(100, devices=("K40",)))
    assert model._method._network.num_parameters == 60_608 - 2 * (128 * 128 + 128)
    other = layers(5, devices=("P100",))
    assert np.isfinite(model.predict(other)).all()
    refuses(lambda: model.predict_interval(other), tg.ConfigError, "'P100'", "interval")


@pytest.mark.parametrize("kind", tg.layertime.KINDS)
def test_every_kind_is_learnt(kind):
    columns = {}
    rng = np.random.default_rng(0)
    for column in tg.layertime.KINDS[kind].columns:
        values = getattr(column, "values", None)
        low, high = (4, 40) if getattr(column, "high", 0) > 1 else (0, 2)
        columns[column.name] = rng.choice(values, 60) if values else rng.integers(low, high, 60)
    for kernel in ("kernelsize", "Kernel_Size"):
        if kernel in columns:
            columns[kernel] = np.full(60, 3)
    table = {**columns, "ms": rng.uniform(0.1, 1, 60), "device": ["K40", "T4"] * 30}
    model = LayerTimeModel(kind, "mlpredict", steps=2).fit(table)
    predicted = model.predict(table)
    assert predicted.shape == (60,) and np.isfinite(predicted).all() and (predicted > 0).all()


def test_wrong_fields_are_refused():
    for wrong, *names in (
        ({"steps": 0}, "steps", "got 0"),
        ({"steps": True}, "steps"),
        ({"preset": "huge"}, "preset", "'huge'"),
        ({"width": 3}, "'mlpredict'", "width"),
    ):
        refuses(lambda: LayerTimeModel("dense", "mlpredict", **wrong), tg.ConfigError, *names)
