"""Times of layers: devices, kinds and their work, tables and what they refuse, models, files."""

import copy
import csv
import gzip
import math
import pickle

import numpy as np
import pytest
from refusals import refuses

import tpugraphs as tg
from tpugraphs.layertime import DEVICES, KINDS, Device, LayerTimeModel, read_table

DENSE = ("batch", "dim_input", "dim_output")


def layers(rows=400, seed=0, devices=("K40", "P100")):
    """Random dense layers whose times follow a law: overhead, roofline, a penalty for odd sizes, noise."""
    rng = np.random.default_rng(seed)
    table = {name: rng.integers(1, high, rows) for name, high in zip(DENSE, (65, 4096, 4096), strict=True)}
    table["optimizer"] = rng.choice(["None", "SGD", "Adam"], rows)
    table["activation"] = rng.choice(["None", "relu"], rows)
    table["device"] = rng.choice(devices, rows)
    read = read_table(table, "dense", timed=False)
    slow = 1 + 0.5 * (table["dim_output"] % 4 != 0)
    table["ms"] = (0.1 + 2 * tg.layertime.roofline_ms(read) * slow) * rng.lognormal(0, 0.01, rows)
    return table


def write(path, table):
    opened = gzip.open(path, "wt") if path.suffix == ".gz" else open(path, "w")
    with opened as file:
        out = csv.writer(file)
        out.writerow(table)
        out.writerows(zip(*table.values(), strict=True))
    return path


def error(model, table, **options):
    predicted = model.predict(table, **options)
    return float(np.mean(np.abs(predicted / np.asarray(table["ms"]) - 1)))


# ---- devices


def test_devices_by_all_their_names():
    assert tg.layertime.get_device("Tesla P4") is DEVICES["P4"] is tg.layertime.get_device(" p4 ")
    mine = Device("mine", 100, 20, 3000, 8, 32, 16)
    assert tg.layertime.get_device(mine) is mine
    refuses(lambda: tg.layertime.get_device("V10"), tg.ConfigError, "'V10'", "'V100'", "Device(")
    refuses(lambda: tg.layertime.get_device(3), tg.ConfigError, "Device")
    for bad in (0, -1, math.nan, math.inf, "fast", True):
        refuses(lambda: Device("mine", 100, bad, 3000, 8, 32, 16), tg.ConfigError, "'mine': bandwidth_gbps")


# ---- kinds: work counted by hand


def work(kind, **columns):
    table = read_table({name: [value] for name, value in columns.items()}, kind, "V100", timed=False)
    return table.kind.work(table.columns)


def test_work_of_a_convolution():
    sizes = {"batch": 2, "matsize": 8, "kernelsize": 3, "channels_in": 4, "channels_out": 16, "strides": 2}
    valid = work("conv2d", **sizes)
    assert valid.flops[0] == 2 * (2 * 3 * 3) * 16 * (9 * 4)  # 3 = ceil(6 / 2)
    assert valid.read[0] == 4 * 2 * 64 * 4 and valid.weights[0] == 4 * 9 * 4 * 16
    assert valid.written[0] == 4 * 2 * 9 * 16 and valid.update[0] == 0
    same = work("conv2d", **sizes, padding="SAME", optimizer="Adam")
    assert same.flops[0] == 3 * 2 * (2 * 4 * 4) * 16 * (9 * 4)
    assert same.update[0] == 7 * same.weights[0]
    assert same.moved[0] == 3 * (same.read + same.weights + same.written)[0] + same.update[0]
    states = {"SGD": 0, "Momentum": 1, "Adagrad": 1, "RMSProp": 2, "Adadelta": 2, "Adam": 2}
    for (
        name,
        kept,
    ) in states.items():  # reads weights and gradient, writes weights, and both for what it keeps
        assert work("conv2d", **sizes, optimizer=name).update[0] == (3 + 2 * kept) * same.weights[0]


def test_work_of_other_kinds():
    assert work("dense", batch=3, dim_input=5, dim_output=7).flops[0] == 2 * 3 * 5 * 7
    product = work("bmm", B=4, M=3, N=5, K=7)
    assert product.flops[0] == 2 * 4 * 3 * 5 * 7 and product.read[0] == 4 * 4 * 3 * 5
    assert product.weights[0] == 4 * 4 * 5 * 7 and product.written[0] == 4 * 4 * 3 * 7
    conv = {"B": 2, "Input_Channel": 4, "Output_Channel": 16, "Kernel_Szie": 3, "Input_Size": 8, "Padding": 1}
    assert work("conv", **conv).flops[0] == 2 * (2 * 64) * 16 * 36
    two, one = work("elementwise", B=3, H=5, op="add"), work("elementwise", B=3, H=5, op="relu")
    assert two.read[0] == 2 * one.read[0] == 2 * one.written[0] == 2 * 4 * 15
    assert work("softmax", B=3, H=5).moved[0] == 2 * 4 * 15
    norm = work("layernorm", B=3, H=5, optimizer="SGD")
    assert norm.moved[0] == 2 * (2 * 4 * 15 + 4 * 10) + norm.update[0] and norm.update[0] == 3 * 4 * 10
    linear = work("linear", B=4, M=3, N=5, K=7)
    assert (
        linear.flops[0] == product.flops[0] and linear.weights[0] == 4 * 5 * 7 and linear.product[0][0] == 12
    )
    assert work("bmm", B=4, M=3, N=5, K=7, optimizer="SGD").update[0] == 0
    sizes = {"batch": 2, "kernelsize": 3, "channels_in": 4, "channels_out": 16, "padding": "SAME"}
    assert work("conv1d", **sizes, length=8).flops[0] == 2 * (2 * 8) * 16 * (3 * 4)
    assert work("conv3d", **sizes, matsize=8).flops[0] == 2 * (2 * 8**3) * 16 * (27 * 4)
    thin = {"batch": 2, "matsize": 8, "kernelsize": 3, "channels": 4, "strides": 2}
    assert work("depthwise", **thin).flops[0] == 2 * (2 * 9) * 9 * 4
    assert work("pooling", **thin).moved[0] == 4 * 2 * 4 * (64 + 9)
    assert work("batchnorm", batch=2, matsize=8, channels=4).moved[0] == 4 * (2 * 2 * 64 * 4 + 8)
    both = work("attention", batch=2, heads=3, queries=5, keys=7, head_size=11)
    assert both.flops[0] == 2 * (2 * 2 * 3 * 5 * 7 * 11)
    assert both.moved[0] == 4 * 2 * 3 * 11 * (5 + 2 * 7 + 5)
    lstm = work("lstm", batch=2, length=3, dim_input=5, dim_hidden=7)
    assert lstm.flops[0] == 3 * 2 * 2 * 28 * 12 and lstm.weights[0] == 4 * 28 * 12
    taken = work("embedding", batch=2, length=3, dim_input=100, dim_output=5, optimizer="SGD")
    assert taken.read[0] == taken.written[0] == 4 * 30 and taken.update[0] == 3 * 4 * 500


@pytest.mark.parametrize("kind", KINDS)
def test_features_are_finite_numbers_with_names(kind):
    rng = np.random.default_rng(0)
    columns = {}
    for column in KINDS[kind].columns:
        values = getattr(column, "values", None)
        columns[column.name] = rng.choice(values, 50) if values else rng.integers(column.low, 40, 50)
        if getattr(column, "high", None) == 1:
            columns[column.name] = rng.integers(0, 2, 50)
    for kernel, sides in (("kernelsize", ("matsize", "length")), ("Kernel_Size", ("Input_Size",))):
        for side in set(sides) & set(columns) if kernel in columns else ():
            columns[kernel] = np.minimum(columns[kernel], columns[side])
    found = tg.layertime.features(read_table(columns, kind, "T4", timed=False))
    assert all(values.shape == (50,) and np.isfinite(values).all() for values in found.values())
    assert all(values.dtype == np.float32 for values in found.values())


def test_the_roofline_is_the_slower_of_both():
    wide = {"batch": [1, 4096], "dim_input": [4096, 4096], "dim_output": [4096, 4096]}
    table = read_table(wide, "dense", "V100", timed=False)
    device = DEVICES["V100"]
    bytes_of_first = 4 * (4096 + 4096 * 4096 + 4096)
    expected = [bytes_of_first / device.bandwidth_gbps * 1e-6, 2 * 4096**3 / device.peak_gflops * 1e-6]
    np.testing.assert_allclose(tg.layertime.roofline_ms(table), expected, rtol=1e-12)


# ---- tables


def test_files_name_their_devices(tmp_path):
    table = layers(20)
    del table["device"]
    paths = [
        write(tmp_path / f"dense_{device}.csv{end}", table) for device, end in (("K40", ".gz"), ("M60", ""))
    ]
    found = read_table(paths, "dense")
    assert [device.name for device in found.devices] == ["K40", "M60"] and len(found) == 40
    np.testing.assert_array_equal(found.device, np.repeat([0, 1], 20))
    np.testing.assert_allclose(found.ms, np.tile(table["ms"], 2))
    part = found.take(found.device == 1)
    assert len(part) == 20 and part.per_device("bandwidth_gbps")[0] == DEVICES["M60"].bandwidth_gbps
    assert read_table(str(paths[0]), "dense", device="T4").devices == (DEVICES["T4"],)


def test_wrong_tables_are_refused():
    right = {"batch": [1, 2], "dim_input": [3, 4], "dim_output": [5, 6], "ms": [1.0, 2.0]}
    for change, *names in (
        ({"batch": [0, 1]}, "'batch', row 0", "from 1 to 1048576", "found 0"),
        ({"batch": [1, 1.5]}, "'batch', row 1", "whole number"),
        ({"batch": [1, math.nan]}, "'batch', row 1", "whole number"),
        ({"batch": ["1", "x"]}, "'batch', row 1", "'x'"),
        ({"batch": [1, 2, 3]}, "3 rows", "found 2"),
        ({"optimizer": ["SGD", "Lion"]}, "row 1", "SGD", "'Lion'"),
        ({"ms": [1.0, 0.0]}, "'ms', row 1", "milliseconds"),
        ({"ms": None}, "time_median_ms, ms"),
        ({"dim_input": None}, "'dim_input'", "batch"),
    ):
        given = {name: values for name, values in (right | change).items() if values is not None}
        refuses(lambda: read_table(given, "dense", "V100"), tg.DataError, *names)
    layer = {"batch": [1], "dim_input": [3], "dim_output": [5]}
    tables = [read_table(layer, "dense", Device("mine", f, 20, 3000, 8, 32, 16), timed=False) for f in (1, 2)]
    refuses(lambda: read_table(tables, "dense", timed=False), tg.ConfigError, "'mine'", "figures")


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda table: pickle.loads(pickle.dumps(table))])
def test_tables_can_be_sent_to_other_processes(copied):
    for kind in ("dense", "conv2d"):
        table = tg.layertime.measured_layers(kind)
        again = copied(table)
        assert again.kind is table.kind and again.devices == table.devices
        np.testing.assert_array_equal(again.ms, table.ms)


def test_times_are_read_only_where_they_are_needed():
    layer = {"batch": [1], "dim_input": [3], "dim_output": [5], "ms": [math.nan]}
    assert read_table(layer, "dense", "V100", timed=False).ms is None
    assert LayerTimeModel("dense", "roofline").fit(layers(50)).predict(layer, device="V100").shape == (1,)


def test_words_that_pandas_reads_as_missing():
    layer = {"batch": [1, 2], "dim_input": [3, 3], "dim_output": [5, 5], "optimizer": [math.nan, "SGD"]}
    found = read_table(layer, "dense", "V100", timed=False)
    assert found.columns["optimizer"].tolist() == ["None", "SGD"]
    with pytest.raises(tg.DataError, match="column 'op', row 0.*found 'nan'"):
        read_table({"B": [1], "H": [1], "op": [math.nan]}, "elementwise", "V100", timed=False)


def test_layers_without_outputs_are_refused():
    layer = {"batch": [1, 1], "matsize": [5, 2], "kernelsize": [3, 3], "channels_in": [1, 1]}
    table = {**layer, "channels_out": [1, 1], "padding": ["VALID", "VALID"]}
    with pytest.raises(tg.DataError, match="row 1.*outputs.*matsize 2"):
        read_table(table, "conv2d", "V100", timed=False)
    assert len(read_table({**table, "padding": ["SAME", "SAME"]}, "conv2d", "V100", timed=False)) == 2


def test_wrong_files_and_names_are_refused(tmp_path):
    refuses(lambda: read_table({}, "gru"), tg.ConfigError, "kind", "conv2d", "'gru'")
    layer = {"batch": [1], "dim_input": [1], "dim_output": [1]}
    refuses(lambda: read_table(layer, "dense", timed=False), tg.ConfigError, "'device'", "device=")
    refuses(lambda: read_table(3, "dense"), tg.ConfigError, "path")
    refuses(lambda: read_table([], "dense"), tg.ConfigError, "file")
    for name, content, *names in (
        ("a.csv", b"batch,ms\n", "at least one row"),
        ("b.csv", b"batch,ms\n1,2,3\n", "line 2", "2 fields"),
        ("c.csv.gz", b"\x1f\x8b\x08\x00garbage", "damaged"),
        ("d.csv", b"\xff\xfe\x00", "UTF-8"),
        ("e.csv.gz", gzip.compress(b"batch\n" * 1000)[:-9], "damaged"),
    ):
        (tmp_path / name).write_bytes(content)
        refuses(lambda: read_table(tmp_path / name, "dense", "V100"), tg.DataError, name, *names)
    refuses(lambda: read_table(tmp_path / "none.csv", "dense", "V100"), FileNotFoundError, "none.csv")


def test_splits_divide_and_repeat():
    table = read_table(layers(200), "dense")
    known, unseen = tg.layertime.unseen_layers(table, 0.25, seed=1)
    assert len(known) == 150 and len(unseen) == 50
    np.testing.assert_array_equal(np.sort(np.concatenate([known.ms, unseen.ms])), np.sort(table.ms))
    np.testing.assert_array_equal(tg.layertime.unseen_layers(table, 0.25, seed=1)[1].ms, unseen.ms)
    assert not np.array_equal(tg.layertime.unseen_layers(table, 0.25, seed=2)[1].ms, unseen.ms)
    for name, rest, own in tg.layertime.unseen_devices(table):
        assert set(own.per_device_name()) == {name} and name not in rest.per_device_name()
        assert len(rest) + len(own) == 200
    refuses(lambda: tg.layertime.unseen_layers(table, 1), tg.ConfigError, "share")
    with pytest.raises(tg.ConfigError, match="got K40"):
        next(tg.layertime.unseen_devices(read_table(layers(9, devices=("K40",)), "dense")))


# ---- models


def test_the_roofline_method_finds_its_law():
    rng = np.random.default_rng(1)
    table = layers(600)
    read = read_table(table, "dense", timed=False)
    table["ms"] = (0.1 + 2 * tg.layertime.roofline_ms(read)) * rng.lognormal(0, 0.01, 600)
    model = LayerTimeModel("dense", "roofline").fit(table)
    assert model.devices == ("K40", "P100") and error(model, table) < 0.012
    assert error(model, {**table, "device": ["V100"] * 600}) < 1  # a device never seen has the usual line


@pytest.fixture(scope="module")
def trained():
    return LayerTimeModel("dense", members=1, steps=500, width=32).fit(layers(3000))


def test_networks_learn_what_the_roofline_leaves_over(trained):
    new = layers(500, seed=1)
    line = LayerTimeModel("dense", "roofline").fit(layers(3000))
    assert error(trained, new) < 0.06 < error(line, new)
    other = layers(500, seed=2, devices=("M60",))
    assert error(trained, other) < 0.10  # the law holds for it, too
    layer = {name: [2048] for name in DENSE}
    assert trained.predict(layer, device="K40").shape == (1,)
    assert trained.predict(layer, device="K40") > trained.predict(layer, device="P100") > 0


def test_intervals_hold_what_they_say(trained):
    for method in (trained, LayerTimeModel("dense", "roofline").fit(layers(3000))):
        new = layers(1500, seed=3)
        for level, least, most in ((0.8, 0.74, 0.86), (0.5, 0.42, 0.58)):
            low, high = method.predict_interval(new, level).T
            assert least < np.mean((low <= new["ms"]) & (new["ms"] <= high)) < most
        other = layers(500, seed=2, devices=("M60",))
        low, high = method.predict_interval(other, 0.8).T
        assert np.mean((low <= other["ms"]) & (other["ms"] <= high)) > 0.5
    refuses(lambda: trained.predict_interval(new, 80), tg.ConfigError, "level", "got 80")
    single = LayerTimeModel("dense", "roofline").fit(layers(100, devices=("K40",)))
    refuses(lambda: single.predict_interval(other), tg.ConfigError, "'M60'", "interval")


def test_a_model_of_one_device_serves_others(trained):
    single = LayerTimeModel("dense", members=1, steps=200, width=16).fit(layers(500, devices=("K40",)))
    other = layers(100, devices=("M60",))
    assert np.isfinite(single.predict(other)).all() and error(single, other) < 0.5
    with pytest.raises(tg.ConfigError, match="'K40'.*two layers"):
        LayerTimeModel("dense").fit(layers(1, devices=("K40",)))


def slower(table):
    """The same layers on a device that its figures describe badly: another overhead, half as fast where wide."""
    factor = np.where(np.asarray(table["dim_output"]) > 2048, 2.0, 1.0)
    return {**table, "ms": 0.3 + (np.asarray(table["ms"]) - 0.1) * factor}


@pytest.mark.parametrize("method", ["residual", "roofline"])
def test_a_few_layers_calibrate_a_device(trained, tmp_path, method):
    if method == "residual":
        trained.save(tmp_path / "a")
        model = LayerTimeModel.load(tmp_path / "a")
    else:
        model = LayerTimeModel("dense", "roofline").fit(layers(3000))
    new, rest = slower(layers(800, seed=4, devices=("M60",))), layers(200, seed=5)
    before, other = error(model, new), model.predict(rest)
    rows = model.suggest(40, new)
    assert len(set(rows.tolist())) == 40
    few = {name: np.asarray(values)[rows] for name, values in new.items()}
    assert model.calibrate(few) is model
    assert error(model, new) < min(0.25, 0.6 * before)
    assert error(model, few) < 0.75 * error(model, new)  # best near what was measured
    np.testing.assert_array_equal(model.predict(rest), other)  # the other devices are not forgotten
    low, high = model.predict_interval(new, 0.8).T
    assert 0.6 < np.mean((low <= new["ms"]) & (new["ms"] <= high)) <= 1
    model.save(tmp_path / "model")
    loaded = LayerTimeModel.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict_interval(new), model.predict_interval(new))
    assert not set(loaded.suggest(10, new).tolist()) & set(rows.tolist())  # those are known
    for count in (2, 2001):
        with pytest.raises(tg.ConfigError, match=rf"'T4': expected 3 to 2,000 layers .* got {count:,}"):
            model.calibrate(layers(count, devices=("T4",)))
    refuses(lambda: model.suggest(3, rest), tg.ConfigError, "one device", "K40", "P100")
    refuses(lambda: model.suggest(801, new), tg.ConfigError, "count", "got 801")


def test_same_seed_same_bits_and_files(trained, tmp_path):
    new = layers(100, seed=1)
    again = LayerTimeModel("dense", members=1, steps=500, width=32).fit(layers(3000))
    np.testing.assert_array_equal(again.predict(new), trained.predict(new))
    for model in (trained, LayerTimeModel("dense", "roofline").fit(layers(100))):
        model.save(tmp_path / "model.safetensors")
        loaded = LayerTimeModel.load(tmp_path / "model.safetensors")
        np.testing.assert_array_equal(loaded.predict(new), model.predict(new))
        np.testing.assert_array_equal(loaded.predict_interval(new), model.predict_interval(new))
        assert loaded.devices == model.devices and loaded.fields == model.fields
    data = bytearray((tmp_path / "model.safetensors").read_bytes())
    data[-1] ^= 1
    (tmp_path / "damaged").write_bytes(data)
    with pytest.raises(tg.CheckpointError):
        LayerTimeModel.load(tmp_path / "damaged")


def test_models_know_their_devices_by_name(tmp_path):
    mine, yours = Device("my CPU", 300, 40, 3000, 4, 16, 32), Device("yours", 900, 60, 3000, 8, 32, 64)
    table = layers(300, devices=("K40",))
    del table["device"]
    old = Device("K40", 1000, 288, 745, 15, 1.5, 12)  # other figures than those of its data sheet
    both = [read_table(table, "dense", one) for one in (mine, old)]
    model = LayerTimeModel("dense", "roofline").fit(both).calibrate(table, yours)
    model.save(tmp_path / "model")
    for one in (model, LayerTimeModel.load(tmp_path / "model")):
        assert one.devices == ("my CPU", "K40", "yours") and one.known_devices == (mine, old, yours)
        for device, name in ((mine, "my CPU"), (yours, "yours"), (old, "K40"), (old, " k40")):
            np.testing.assert_array_equal(one.predict(table, name), one.predict(table, device))
        assert not np.allclose(one.predict(table, "K40"), one.predict(table, DEVICES["K40"]), rtol=0.01)
        named = {**table, "device": ["yours", "P100"] * 150}
        np.testing.assert_allclose(one.predict(named)[::2], one.predict(table, yours)[::2], rtol=1e-9)
        refuses(lambda: one.predict(table, "m CPU"), tg.ConfigError, "'m CPU'", "'my CPU'")
        refuses(lambda: one.out_of_range(table, "abacus"), tg.ConfigError, "'abacus'", "my CPU", "K80")
        assert list(one.calibrations) == ["yours"] and one.calibrations["yours"].left.shape == (300,)
    with pytest.raises(tg.ConfigError, match="'my CPU': unknown"):
        model.fit(table, "my CPU")  # what is learnt stands for itself
    assert model.fit(both).known_devices == (mine, old)


def test_wrong_models_are_refused(trained):
    for wrong, *names in (
        ({"kind": "gru"}, "kind", "gru"),
        ({"kind": "dense", "method": "magic"}, "method", "residual, roofline"),
        ({"kind": "dense", "seed": -1}, "seed"),
        ({"kind": "dense", "steps": 0}, "steps"),
        ({"kind": "dense", "method": "roofline", "steps": 3}, "'roofline'", "steps"),
    ):
        refuses(lambda: LayerTimeModel(**wrong), tg.ConfigError, *names)
    refuses(lambda: LayerTimeModel("dense").predict(layers(3)), tg.ConfigError, "not trained")
    refuses(lambda: trained.predict(layers(3), device="Abacus"), tg.ConfigError, "unknown")
    refuses(
        lambda: read_table(read_table(layers(3), "dense"), "conv2d"), tg.ConfigError, "'dense'", "'conv2d'"
    )


def test_numbers_of_numpy_are_numbers(tmp_path):
    mine = Device("mine", np.float32(300), np.int64(40), 3000, np.int64(4), 16, 32)
    model = LayerTimeModel("dense", "roofline", np.int64(3)).fit(
        {name: values for name, values in layers(50).items() if name != "device"}, mine
    )
    model.save(tmp_path / "model")
    assert LayerTimeModel.load(tmp_path / "model").known_devices == (mine,)
    LayerTimeModel("dense", members=np.int64(1), steps=2, width=8).fit(layers(50)).save(tmp_path / "model")
    assert LayerTimeModel.load(tmp_path / "model").fields == {"members": 1, "steps": 2, "width": 8}
