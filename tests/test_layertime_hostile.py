"""Times of layers: tables, devices and files that are damaged, empty or out of all range."""

import itertools
import os

import numpy as np
import pytest
from refusals import refuses

import tpugraphs as tg
from tpugraphs.layertime import Device, LayerTimeModel, measure, read_table
from tpugraphs.layertime.methods import METHODS
from tpugraphs.system import tensorfile
from tpugraphs.system.files import locked

ROWS = 40
LAYERS = {"batch": [8, 16, 32, 64] * 10, "dim_input": list(range(100, 140)), "dim_output": [64] * ROWS}
MS = [0.1 + 0.001 * i for i in range(ROWS)]
TIMED = {**LAYERS, "ms": MS}


def roofline(**columns):
    return LayerTimeModel("dense", "roofline").fit({**TIMED, **columns}, None if columns else "K40")


# ---- tables


@pytest.mark.parametrize(
    ("kind", "columns"),
    [
        ("conv2d", {"batch": [1], "matsize": [1], "kernelsize": [3], "channels_in": [1], "channels_out": [1]}),
        ("conv", {"B": [1], "Input_Channel": [1], "Output_Channel": [1], "Kernel_Size": [9], "Input_Size": [1]}),
        ("pooling", {"batch": [1], "matsize": [2], "kernelsize": [5], "channels": [1]}),
    ],
)  # fmt: skip
def test_a_kernel_much_larger_than_its_images_has_no_outputs(kind, columns):
    refuses(lambda: read_table(columns, kind, "K40", timed=False), tg.DataError, "row 0", "outputs")


def test_a_device_of_several_names_is_one(tmp_path):
    model = roofline(device=["T4", "Tesla T4", "t4", "K40"] * 10)
    assert model.devices == ("K40", "T4")
    model.save(tmp_path / "model")
    loaded = LayerTimeModel.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict(LAYERS, "T4"), model.predict(LAYERS, "T4"))
    table = read_table({**TIMED, "device": ["T4", "Tesla T4", "t4", "K40"] * 10}, "dense")
    assert table.per_device_name().tolist() == ["T4", "T4", "T4", "K40"] * 10


def test_columns_times_and_devices_that_are_none_are_refused():
    for value, *names in (
        (32, "'batch'", "found 32"),
        ("32", "'batch'", "found '32'"),
        (np.ones((ROWS, 2)), "'batch'", "one value per row"),
        ([[1]] * ROWS, "'batch', row 0", "[1]"),
        ([10**400] * ROWS, "'batch', row 0"),
    ):
        table = {**LAYERS, "batch": value}
        refuses(lambda: read_table(table, "dense", "K40", timed=False), tg.DataError, *names)
    for ms in (1e-300, 1e300):
        table = {**LAYERS, "ms": [ms] * ROWS}
        refuses(lambda: read_table(table, "dense", "K40"), tg.DataError, "milliseconds")
    for figure in (1e-320, 1e300, 10**400):
        refuses(lambda: Device("mine", figure, 1, 1, 1, 1, 1), tg.ConfigError, "peak_gflops")


def test_parts_of_tables():
    table, model = read_table(TIMED, "dense", "K40"), roofline()
    np.testing.assert_array_equal(
        model.predict(table.take(slice(None, None, -1)))[::-1], model.predict(table)
    )
    assert len(table.take(3)) == 1 and model.predict(table.take(3))[0] == model.predict(table)[3]
    for none in (table.take([]), table.take(slice(0)), table.take(np.zeros(ROWS, bool))):
        assert len(none) == 0
        for use in (model.predict, model.fit, model.calibrate, tg.layertime.audit):
            refuses(lambda: use(none), tg.ConfigError, "one layer")


def test_tables_without_times_teach_nothing():
    table, model = read_table(LAYERS, "dense", "K40", timed=False), roofline()
    for use in (model.fit, model.calibrate, tg.layertime.audit):
        refuses(lambda: use(table), tg.ConfigError, "measured times")
    assert model.predict(table).shape == (ROWS,)


def test_devices_without_rows_need_no_interval():
    both = read_table({**TIMED, "device": ["K40", "P100"] * 20}, "dense")
    own = both.take(both.per_device_name() == "K40")
    assert roofline().predict_interval(own).shape == (20, 2)


# ---- models


def test_no_layer_takes_no_time():
    """All that takes time in these is what no cache holds: nothing of a small layer."""
    layers = {"B": [1 << k for k in range(14, 22)] * 5, "H": [4096] * ROWS, "op": ["relu"] * ROWS}
    table = read_table(layers, "elementwise", "K40", timed=False)
    ms = (table.kind.work(table.columns).moved - 1.5e6) / 288e6
    model = LayerTimeModel("elementwise", "roofline").fit({**layers, "ms": ms}, "K40")
    assert model.predict({"B": [1], "H": [1], "op": ["relu"]}, "K40")[0] == pytest.approx(1e-6)


def test_layers_that_are_all_alike():
    alike = {name: [64] * ROWS for name in LAYERS}
    with pytest.raises(tg.DataError, match="'roofline'"):
        LayerTimeModel("dense", members=1, steps=1).fit({**alike, "ms": MS}, "K40")
    model = LayerTimeModel("dense", "roofline").fit({**alike, "ms": MS}, "K40")
    assert 0.1 <= model.predict(alike, "K40")[0] <= 0.14


def test_a_fit_that_is_interrupted_leaves_the_model(monkeypatch):
    model = roofline()
    before = model.predict(LAYERS, "K40")

    class Stopped(METHODS["roofline"]):
        def fit(self, table, verbose):
            super().fit(table, verbose)
            raise KeyboardInterrupt

    monkeypatch.setitem(METHODS, "roofline", Stopped)
    model._method.__class__ = Stopped
    with pytest.raises(KeyboardInterrupt):
        model.fit({**TIMED, "ms": [5.0] * ROWS}, "P100")
    assert model.devices == ("K40",)
    np.testing.assert_array_equal(model.predict(LAYERS, "K40"), before)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    path = tmp_path_factory.mktemp("saved") / "model"
    model = LayerTimeModel("dense", members=1, steps=2, width=8)
    model.fit({**TIMED, "device": ["K40", "P100"] * 20}).calibrate(TIMED, "T4").save(path)
    return tensorfile.read(path, "layer-time")


def first(value):
    """Return what puts a value in the first place of an array."""

    def change(array):
        changed = array.copy()
        changed.flat[0] = value
        return changed

    return change


DAMAGE = {
    "space": (
        *(lambda a: a[:, 1:], lambda a: a[:3], first(np.nan), lambda a: a * [[1], [1], [1], [0]]),
        *(
            first(1e308),
            first(-1e308),
            lambda a: a[[1, 0, 2, 3]],
            lambda a: a + np.array([[0], [0], [9], [0]]),
        ),
    ),
    "0.space": (lambda a: a[:, 1:], lambda a: a.ravel()),
    "1.space": (lambda a: a[:, 1:], lambda a: -a),
    "products": (lambda a: a[:, 1:, 1:], lambda a: a[:1], first(np.inf)),
    "moments": (lambda a: a[:, 1:], first(np.nan)),
    "size": (lambda a: a[1:], first(0.0), first(-1.0)),
    "errors": (lambda a: a[:, ::-1], lambda a: a + 1e300, lambda a: a[1:]),
    "other_errors": (lambda a: a[::-1], lambda a: a[1:]),
    "calibration.0.numbers": (first(-1.0), first(np.nan), lambda a: a[1:]),
    "calibration.0.covariance": (first(0.0), first(np.nan), lambda a: a[1:]),
    "calibration.0.weights": (lambda a: a[:0], lambda a: np.zeros(2001), lambda a: a[None]),
    "calibration.0.linear": (lambda a: a[:, 1:], first(np.nan)),
    "calibration.0.places": (lambda a: a[:, 1:], lambda a: a[1:]),
    "calibration.0.left": (lambda a: a[1:], first(np.inf)),
}


@pytest.mark.parametrize(
    ("name", "change"), [(name, change) for name, changes in DAMAGE.items() for change in changes]
)
def test_damaged_tensors_are_refused(saved, tmp_path, name, change):
    metadata, tensors = saved
    tensorfile.write(tmp_path / "model", "layer-time", metadata, {**tensors, name: change(tensors[name])})
    with pytest.raises(tg.CheckpointError, match=name if name != "other_errors" else "errors"):
        LayerTimeModel.load(tmp_path / "model")


@pytest.mark.parametrize(
    "change",
    [
        {"devices": []},
        {"devices": [["K40", 1, 1, 1, 1, 1, 1]] * 2},
        {"devices": [["K40", 1, 1, 1, 1, 1, -1], ["P100", 1, 1, 1, 1, 1, 1]]},
        {"calibrated": [["T4", 1, 1, 1, 1, 1, 1]] * 2},
        {"fields": {"members": 10**9}},
        {"fields": {"seed": 3}},
        {"share": -0.25},
        {"share": "half"},
        {"method": "roof"},
        {"kind_of_layer": "conv2d"},
    ],
)
def test_damaged_entries_are_refused(saved, tmp_path, change):
    metadata, tensors = saved
    tensorfile.write(tmp_path / "model", "layer-time", {**metadata, **change}, tensors)
    with pytest.raises(tg.CheckpointError):
        LayerTimeModel.load(tmp_path / "model")


def test_whole_files_are_read(saved, tmp_path):
    metadata, tensors = saved
    tensorfile.write(tmp_path / "model", "layer-time", metadata, tensors)
    model = LayerTimeModel.load(tmp_path / "model")
    for name, interval in itertools.product(("K40", "T4", "V100"), (0.5, 0.999)):
        assert (model.predict_interval(LAYERS, interval, name) > 0).all()


def test_predictions_that_are_no_times_are_refused(saved, tmp_path):
    metadata, tensors = saved
    tensorfile.write(
        tmp_path / "model", "layer-time", metadata, {**tensors, "calibration.0.weights": np.full(ROWS, 1e300)}
    )
    with pytest.raises(tg.DataError, match="row 0.*finite"):
        LayerTimeModel.load(tmp_path / "model").predict(LAYERS, "T4")


def test_costs_out_of_all_range_are_refused(saved, tmp_path):
    metadata, tensors = saved
    absurd = {
        "products": np.full_like(tensors["products"], 1e-9),
        "moments": np.full_like(tensors["moments"], 1e308),
    }
    tensorfile.write(tmp_path / "model", "layer-time", metadata, {**tensors, **absurd})
    with pytest.raises(tg.DataError, match="'K40'.*costs"):
        LayerTimeModel.load(tmp_path / "model").predict(LAYERS, "K40")


# ---- measuring


def test_a_file_in_use_is_not_read(tmp_path):
    (tmp_path / "dense.csv").write_text("of another kind\n")
    with locked(os.fspath(tmp_path)), pytest.raises(tg.ConfigError, match="another measurement is using"):
        measure("dense", path=tmp_path / "dense.csv")


def test_a_mark_of_bytes_and_blank_lines_at_the_end_are_no_harm(tmp_path):
    path = tmp_path / "dense_K40.csv"
    path.write_text("\ufeffbatch,dim_input,dim_output,ms\n1,2,3,0.5\n\n\n", encoding="utf-8")
    assert len(tg.layertime.read_table(path, "dense")) == 1
    path.write_text("batch,dim_input,dim_output,ms,ms\n1,2,3,0.5,0.6\n")
    refuses(lambda: tg.layertime.read_table(path, "dense"), tg.DataError, "line 1", "'ms' twice")
