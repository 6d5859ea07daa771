"""Times of layers on the command line, and their public tables: each command from end to end, and garbage."""

from __future__ import annotations

import csv
import gzip
import hashlib
import importlib.util
import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from refusals import refuses
from test_layertime import layers, write
from webserver import Server

import tpugraphs as tg
from tpugraphs import cli
from tpugraphs.cli.layertime import measure as measuring
from tpugraphs.cli.layertime import shared
from tpugraphs.data.samples import PublicFile
from tpugraphs.download import layer_times
from tpugraphs.layertime import DEVICES, KINDS, Device, LayerTimeModel, devices, read_table
from tpugraphs.system import machine

MINE = "mine:peak_gflops=100.5,bandwidth_gbps=20,clock_mhz=3000,units=1,cache_mb=32,memory_gb=16"
NET = [
    {"kind": "dense", "name": "first", "dim_input": 784, "dim_output": 512, "activation": "relu"},
    {"kind": "dense", "name": "last", "dim_input": 512, "dim_output": 10},
]


def run(capsys, *argv):
    code = cli.main([str(arg) for arg in argv])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def good(capsys, *argv):
    code, out, err = run(capsys, "layertime", *argv)
    assert (code, err) == (0, ""), err
    return out


def rows_of(text):
    return list(csv.DictReader(io.StringIO(text)))


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder with tables of made-up layers and a model of them."""
    folder = tmp_path_factory.mktemp("made")
    write(folder / "dense.csv", layers(400))
    table = layers(300, seed=1, devices=("K40",))
    del table["device"]
    write(folder / "dense_K40.csv.gz", table)
    write(folder / "few.csv", {name: values[:30] for name, values in table.items()})
    (folder / "net.json").write_text(json.dumps(NET))
    LayerTimeModel("dense", "roofline").fit(layers(400)).save(folder / "model.safetensors")
    return folder


@pytest.mark.parametrize(
    "argv, tells",
    [
        ([], "COMMAND"),
        (["fly"], "invalid choice: 'fly'"),
        (["fit", "dense.csv"], "--out"),
        (["fit", "dense.csv", "--out", "x"], "--out x: expected a name that ends in .safetensors"),
        (["fit", "few.csv", "--out", "x.safetensors"], "few.csv: no kind of layers in the name; say it by --kind"),
        (["fit", "dense.csv", "--kind", "gru", "--out", "x.safetensors"], "kind: expected one of"),
        (["fit", "dense.csv", "conv2d_K40.csv", "--out", "x.safetensors"], "files of several kinds: dense, conv2d"),
        (["fit", "dense.csv", "--out", "x.safetensors", "--held-out", "1"], "share: expected a share between 0 and 1"),
        (["fit", "dense.csv", "--out", "x.safetensors", "--held-out", "nan"], "share: expected"),
        (["fit", "dense.csv", "--out", "x.safetensors", "--set", "stops=1"], "method 'residual'"),
        (["fit", "few.csv", "--kind", "dense", "--out", "x.safetensors"], "no column 'device'"),
        (["predict", "model.safetensors"], "expected TABLE or --layer"),
        (["predict", "model.safetensors", "few.csv", "--layer", "batch=1"], "expected TABLE or --layer"),
        (["predict", "model.safetensors", "--layer", "batch=1"], "--layer: say where it runs by --device"),
        (["predict", "model.safetensors", "--layer", "bach=1", "--device", "K40"], "--layer bach=1: expected COL"),
        (["predict", "model.safetensors", "--layer", "batch", "--device", "K40"], "--layer batch: expected COL"),
        (["predict", "model.safetensors", "few.csv", "--device", "K400"], "did you mean 'K40'?"),
        (["predict", "model.safetensors", "few.csv", "--device", "A100"], "mean 'A100-40GB' or 'A100-80GB'?"),
        (["predict", "pytorch-cpu", "few.csv"], "16 models; name one, such as pytorch-cpu/attention"),
        (["predict", "pytorch-cpu/rnn", "few.csv"], "pytorch-cpu: kind: expected one of attention, "),
        (["predict", "model.safetensors", "dense.csv", "--level", "80"], "level: expected a share between 0 and 1"),
        (["predict", "model.safetensors", "few.csv", "--level", "x"], "invalid probability value: 'x'"),
        (["predict", "model.safetensors", "few.csv", "--out", "x.txt"], "expected a name that ends in .csv"),
        (["predict", "model.safetensors", "few.csv", "--device", "a:speed=3"], "found 'speed=3'"),
        (["predict", "model.safetensors", "few.csv", "--device", "a:units=3"], "no peak_gflops, bandwidth_gbps"),
        (["predict", "model.safetensors", "few.csv", "--device", "a:units=x"], "units: expected a number"),
        (["predict", "model.safetensors", "few.csv", "--device", MINE.replace("=1,", "=1.5,")], "a whole number"),
        (["predict", "model.safetensors", "few.csv", "--device", MINE.replace("=1,", "=inf,")], "a whole number"),
        (["predict", "model.safetensors", "few.csv", "--device", MINE.replace("20", "-2")], "expected a number from 1e-06"),
        (["predict", "model.safetensors", "few.csv", "--device", MINE[4:]], "a name of printable characters"),
        (["suggest", "model.safetensors", "--out", "x.csv"], "--device"),
        (
            ["suggest", "model.safetensors", "--device", "K40", "--out", "-", "--from", "few.csv", "--forward"],
            "without --from",
        ),
        (
            ["suggest", "model.safetensors", "--device", "K40", "--out", "-", "--from", "few.csv", "--count", "31"],
            "count: expected a whole number from 1 to 30, got 31",
        ),
        (["measure", "dense", "gru", "--out", "x"], "kind: expected one of"),
        (["measure", "dense", "softmax", "--out", "x.csv"], "one file cannot hold 2 kinds"),
        (["measure", "dense", "--out", "x.csv", "--layers", "few.csv", "--forward"], "--layers: expected one kind"),
        (["measure", "dense", "--out", "x.csv", "--training", "--forward"], "not allowed with"),
        (["measure", "dense", "--out", "x.csv", "--repeats", "0"], "--repeats: expected at least 1"),
        (["network", "model.safetensors", "--layers", "net.json", "--device", "K40"], "--batch-size"),
    ],
)  # fmt: skip
def test_wrong_usage_is_one_line_and_exit_code_2(made, monkeypatch, tmp_path, capsys, argv, tells):
    for path in made.iterdir():
        os.symlink(path, tmp_path / path.name)
    monkeypatch.chdir(tmp_path)
    before = sorted(os.listdir())
    code, out, err = run(capsys, "layertime", *argv)
    assert (code, out) == (2, "") and tells in err
    assert err.count("\n") == 1 and sorted(os.listdir()) == before


@pytest.mark.parametrize(
    "content", [b"", b"batch,ms\n", b"\xff\xfe\x00", b"batch,ms\n1,2,3\n", b"PK\x03\x04"]
)
def test_garbage_is_one_line_and_exit_code_1(made, tmp_path, capsys, content):
    (tmp_path / "dense.csv").write_bytes(content)
    model, bad, out = made / "model.safetensors", tmp_path / "dense.csv", tmp_path / "out.safetensors"
    device = ("--device", "K40")
    network = ("--batch-size", 8, *device)
    for argv in (
        ("fit", bad, "--out", out),
        ("calibrate", model, bad, *device, "--out", out),
        ("suggest", model, *device, "--from", bad, "--out", "-"),
        ("predict", model, bad, *device),
        ("predict", bad, made / "dense.csv"),
        ("network", model, "--layers", bad, *network),
        ("network", bad, "--layers", made / "net.json", *network),
        ("predict", model, tmp_path / "none.csv"),
        ("predict", model, made / "dense.csv", "--out", tmp_path / "none" / "x.csv"),
    ):
        code, told, err = run(capsys, "layertime", *argv)
        assert (code, told) == (1, "") and err.startswith(f"tpugraphs layertime {argv[0]}: error: ")
        assert err.count("\n") == 1 and [path.name for path in tmp_path.iterdir()] == ["dense.csv"]


# ---- fit, predict


@pytest.mark.parametrize("method", ["roofline", "residual"])
def test_fit_judges_on_layers_that_it_did_not_see(made, tmp_path, capsys, method):
    out = tmp_path / "model.safetensors"
    few = [] if method == "roofline" else ["--set", "members=1", "--set", "steps=60", "--set", "width=16"]
    argv = ("fit", made / "dense.csv", "--method", method, "--out", out, "--seed", 3, *few)
    told = json.loads(good(capsys, *argv, "--json", "--held-out", "0.25"))
    assert (told["kind"], told["layers"], set(told["devices"])) == ("dense", 300, {"K40", "P100"})
    known, unseen = tg.layertime.unseen_layers(read_table(layers(400), "dense"), 0.25, 3)
    model = LayerTimeModel.load(out)
    assert (model.method, model.seed) == (method, 3)
    assert model.fields == ({} if method == "roofline" else {"members": 1, "steps": 60, "width": 16})
    errors = np.abs(model.predict(unseen) / unseen.ms - 1)
    assert sum(line["layers"] for line in told["held_out"]) == 100
    for line in told["held_out"]:
        own = errors[unseen.per_device_name() == line["device"]]
        assert line["mean_error"] == pytest.approx(own.mean()) and line["layers"] == own.size
        assert 0 < line["median_error"] < 0.6 and 0.4 < line["within"] <= 1
    expected = LayerTimeModel("dense", method, 3, **model.fields).fit(known)
    np.testing.assert_array_equal(model.predict(unseen), expected.predict(unseen))


def test_fit_tells_people_what_it_found(made, tmp_path, capsys):
    out = tmp_path / "model.safetensors"
    argv = ("fit", made / "dense_K40.csv.gz", made / "dense.csv", "--method", "roofline", "--out", out)
    told = good(capsys, *argv)
    assert "dense, roofline: learning from 630 layers on K40, P100" in told
    assert "mean error %" in told and f"wrote {out}; next: tpugraphs layertime predict" in told
    few = ("--kind", "dense", "--device", MINE, "--held-out", 0)
    told = good(capsys, "fit", made / "few.csv", "--method", "roofline", "--out", out, *few)
    assert "error" not in told and LayerTimeModel.load(out).known_devices[0].peak_gflops == 100.5


def test_audit_tells_of_a_shift(tmp_path, capsys):
    table = layers(300, devices=("K40",))
    path = write(tmp_path / "dense.csv", table)
    assert "K40: 300 layers" in good(capsys, "audit", path)
    slow = {**table, "ms": np.where(np.arange(300) < 150, 1, 3) * table["ms"]}
    code, out, err = run(capsys, "layertime", "audit", write(tmp_path / "dense_slow.csv", slow), "--json")
    assert code == 1 and err == ""
    (found,) = json.loads(out)["devices"]
    assert found["device"] == "K40" and len(found["stretches"]) == 2


def test_kinds_are_in_the_names_of_files():
    for name, kind in (
        ("conv2d_K40.csv.gz", "conv2d"),
        ("a/dense.csv", "dense"),
        ("neusight_conv.csv.gz", "conv"),
        ("Linear-A100.csv", "linear"),
        ("dense/lstm_bmm.csv", "lstm"),
    ):
        assert shared.kind_of([name], None) == kind and shared.kind_of([name], "dense") == "dense"
    refuses(lambda: shared.kind_of(["dense.csv", "conv2dx.csv"], None), tg.ConfigError, "conv2dx.csv")


def test_predict_is_csv_and_json(made, tmp_path, capsys):
    model = LayerTimeModel.load(made / "model.safetensors")
    table = read_table(made / "few.csv", "dense", "V100", timed=False)
    argv = ("predict", made / "model.safetensors", made / "few.csv", "--device", "v100")
    found = rows_of(good(capsys, *argv))
    assert list(found[0]) == [*table.columns, "device", "ms", "low_ms", "high_ms", "out_of_range"]
    assert [row["device"] for row in found] == ["V100"] * 30
    assert [int(row["dim_output"]) for row in found] == table.columns["dim_output"].tolist()
    ms = [float(row["ms"]) for row in found]
    np.testing.assert_allclose(ms, model.predict(table), rtol=1e-5)
    ends = [(float(row["low_ms"]), float(row["high_ms"])) for row in found]
    np.testing.assert_allclose(ends, model.predict_interval(table), rtol=1e-5)
    assert [int(row["out_of_range"]) for row in found] == model.out_of_range(table).tolist()
    out = tmp_path / "times.csv"
    assert f"wrote 30 layers to {out}" in good(capsys, *argv, "--out", out)
    assert rows_of(out.read_text()) == found
    as_json = json.loads(good(capsys, *argv, "--json", "--level", "0.5"))
    assert [row["ms"] for row in as_json] == ms
    assert all(
        row["high_ms"] - row["low_ms"] < high - low for row, (low, high) in zip(as_json, ends, strict=True)
    )


def test_predict_layers_of_the_command_line(made, capsys):
    model, layer = made / "model.safetensors", "batch=32 dim_input=1000 dim_output=4000".split()
    own = ("--layer", *layer, "--layer", *layer, "optimizer=SGD", "--device")
    first, second = rows_of(good(capsys, "predict", model, *own, "K40"))
    assert (first["optimizer"], second["optimizer"]) == ("None", "SGD")
    assert float(second["ms"]) > 2 * float(first["ms"])
    same, _ = rows_of(good(capsys, "predict", model, *own, MINE, "--level", "none"))
    assert same["device"] == "mine" and same["low_ms"] == same["high_ms"] == ""
    assert float(same["ms"]) > float(first["ms"])
    code, _, err = run(capsys, "layertime", "predict", model, "--layer", "batch=0", "--device", "K40")
    assert code == 1 and "column" in err
    (far,) = rows_of(good(capsys, "predict", model, "--layer", "batch=99999", *layer[1:], "--device", "K40"))
    assert far["out_of_range"] == "1" and first["out_of_range"] == "0"


def test_this_is_the_processor_as_the_model_knows_it(made, tmp_path, capsys, monkeypatch):
    asked = []

    def measured(threads=None, name=None):
        asked.append(tg.get_num_threads())
        return Device("fresh", 200, 30, 3000, 1, 32, 16)

    monkeypatch.setattr(devices, "this_device", measured)
    argv = ("predict", made / "model.safetensors", made / "few.csv", "--threads", 1, "--device", "this")
    assert {row["device"] for row in rows_of(good(capsys, *argv))} == {"fresh"} and asked == [1]
    name, known = devices.cpu_name(1), tmp_path / "known.safetensors"
    figures = MINE.removeprefix("mine")
    few = ("--kind", "dense", "--method", "roofline", "--device", name + figures, "--out", known)
    good(capsys, "fit", made / "few.csv", *few)
    found = rows_of(good(capsys, "predict", known, *argv[2:]))
    assert {row["device"] for row in found} == {name} and asked == [1]
    assert found == rows_of(good(capsys, "predict", known, *argv[2:-1], name + figures))


# ---- suggest, calibrate


def test_suggest_and_calibrate(made, tmp_path, capsys):
    model, out = made / "model.safetensors", tmp_path / "layers.csv"
    told = good(capsys, "suggest", model, "--device", "M60", "--count", 20, "--out", out, "--forward")
    assert f"wrote 20 of 4,000 layers to {out}" in told and "measure dense --layers" in told
    table = read_table(out, "dense", "M60", timed=False)
    assert len(table) == 20 and set(table.columns["optimizer"]) == {"None"}
    again = good(capsys, "suggest", model, "--device", "M60", "--count", 20, "--out", "-", "--forward")
    assert again == out.read_text()
    chosen = rows_of(
        good(
            capsys,
            "suggest",
            model,
            "--device",
            "M60",
            "--from",
            made / "few.csv",
            "--count",
            5,
            "--out",
            "-",
        )
    )
    loaded = LayerTimeModel.load(model)
    candidates = read_table(made / "few.csv", "dense", "M60", timed=False)
    expected = candidates.take(loaded.suggest(5, candidates)).columns["dim_output"]
    assert [int(row["dim_output"]) for row in chosen] == expected.tolist()

    slow = {name: values for name, values in layers(60, seed=4, devices=("M60",)).items() if name != "device"}
    slow["ms"] = 3 * slow["ms"]
    few, after = write(tmp_path / "few.csv", slow), tmp_path / "after.safetensors"
    told = json.loads(good(capsys, "calibrate", model, few, "--device", MINE, "--out", after, "--json"))
    (line,) = told["devices"]
    assert (line["device"], line["layers"]) == ("mine", 60)
    assert line["mean_error_after"] < min(0.3, line["mean_error_before"])
    named = rows_of(good(capsys, "predict", after, few, "--device", "mine"))  # the file has its figures
    np.testing.assert_allclose([float(row["ms"]) for row in named], slow["ms"], rtol=0.7)
    assert loaded.devices == ("K40", "P100") == LayerTimeModel.load(after).devices[:2]
    told = good(capsys, "calibrate", model, few, "--device", "M60", "--out", after)
    assert "M60: 60 layers; mean error" in told and f"wrote {after}" in told


# ---- network


def test_network(made, capsys):
    model, net = made / "model.safetensors", made / "net.json"
    argv = ("network", model, "--layers", net, "--batch-size", 64, "--device", "K40")
    told = json.loads(good(capsys, *argv, "--json"))
    estimate = tg.layertime.network_time(
        {"dense": LayerTimeModel.load(model)}, tg.layertime.read_layers(net), 64, device="K40"
    )
    assert told["ms"] == estimate.ms and (told["low_ms"], told["high_ms"]) == estimate.interval
    assert [(one["name"], one["ms"]) for one in told["layers"]] == [row[:3:2] for row in estimate.per_layer]
    spans = ("--samples", 6400, "--epochs", 1000, "--optimizer", "SGD", "--replicas", 4, "--link-gbps", 0.5)
    told = json.loads(good(capsys, *argv, *spans, "--json"))
    assert told["layers"][-1]["kind"] == "link" and told["epoch_s"] == pytest.approx(told["ms"] / 10)
    assert told["run_s"] == pytest.approx(1000 * told["epoch_s"])
    text = good(capsys, *argv, *spans).splitlines()
    assert "training with SGD" in text[0] and text[1].split() == ["layer", "kind", "ms", "low", "high", "%"]
    assert [line.split()[0] for line in text[3:]] == ["first", "last", "all-reduce", "sum", "epoch:", "run:"]
    assert float(text[6].split()[1]) == pytest.approx(told["ms"], rel=0.01) and "min" in text[8]
    text = good(capsys, *argv, "--level", "none", "--without", "last", "--device", MINE).splitlines()
    assert text[1].split() == ["layer", "kind", "ms", "%"] and len(text) == 5
    for options, code, tells in (
        (("--epochs", 2), 2, "--epochs goes with --samples"),
        (("--replicas", 2, "--optimizer", "SGD"), 2, "link_gbps: expected"),
        (("--overlap", 2), 2, "overlap: expected"),
        (("--size", "n=x"), 2, "--size n=x: expected NAME=N"),
        (("--batch-size", "1" + "0" * 9), 1, "expected at most"),
    ):
        got, _, err = run(capsys, "layertime", *argv, *options)
        assert got == code and tells in err and err.count("\n") == 1
    code, _, err = run(capsys, "layertime", *argv[:2], model, *argv[2:])
    assert code == 2 and "a second model of kind 'dense'" in err
    told = json.loads(good(capsys, *argv, "--step-ms", 2, "--layer-ms", 0.5, "--json"))
    assert [told["layers"][-1][key] for key in ("kind", "ms")] == ["step", 3.0]
    models = tg.layertime.load_models("tensorflow-gpu")
    estimate = tg.layertime.network_time(models, tg.layertime.read_layers(net), 64, "SGD", "K40")
    for name in ("tensorflow-gpu", "tensorflow-gpu/dense"):
        told = json.loads(good(capsys, argv[0], name, *argv[2:], "--optimizer", "sgd", "--json"))
        assert told["ms"] == estimate.ms and told["optimizer"] == "SGD"


def test_network_of_onnx(made, tmp_path, capsys):
    onnx = pytest.importorskip("onnx")
    value = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("MatMul", ["x", "w"], ["y"])],
        "net",
        [value("x", 1, ["n", "tokens", 8])],
        [value("y", 1, ["n", "tokens", 4])],
        [onnx.numpy_helper.from_array(np.zeros((8, 4), np.float32), "w")],
    )
    onnx.save(onnx.helper.make_model(graph), tmp_path / "net.onnx")
    argv = ("network", made / "model.safetensors", "--layers", tmp_path / "net.onnx", "--batch-size", 2)
    code, _, err = run(capsys, "layertime", *argv, "--device", "K40")
    assert code == 1 and "size 'tokens'" in err
    assert "MatMul" in good(capsys, *argv, "--device", "K40", "--size", "tokens=16")


# ---- measure


@pytest.fixture(autouse=True)
def quiet(monkeypatch):
    """A machine that does nothing else, whatever other tests do."""
    monkeypatch.setattr(machine, "busy", lambda: 0.0)


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs torch")
def test_measure_several_kinds_and_continue(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(measuring.tg.layertime, "measure", _quick(tg.layertime.measure))
    out, threads = tmp_path / "times", ("--threads", 1, "--cpu", "--device-name", "mine", "--repeats", 2)
    argv = ("measure", "softmax", "elementwise", "--out", out, "--forward", "--seed", 3, *threads)
    told = json.loads(good(capsys, *argv, "--count", 4, "--json"))
    assert [(one["kind"], one["layers"], one["device"]) for one in told] == [
        ("softmax", 4, "mine"),
        ("elementwise", 4, "mine"),
    ]
    assert sorted(path.name for path in out.iterdir()) == ["elementwise.csv", "softmax.csv"]
    before = (out / "softmax.csv").read_text()
    text = good(capsys, *argv, "--count", 6)
    assert "softmax: 6 layers on mine, median" in text and f"fit {out / 'softmax.csv'}" in text
    assert (out / "softmax.csv").read_text().startswith(before)
    table = read_table(out / "softmax.csv", "softmax")
    assert len(table) == 6 and set(table.columns["optimizer"]) == {"None"} and table.devices[0].units == 1
    code, _, err = run(capsys, "layertime", *argv, "--seed", 4)
    assert code == 2 and "measured with other arguments" in err and err.count("\n") == 1

    layer = write(tmp_path / "layers.csv", {"B": [3, 5], "H": [7, 9]})
    text = good(capsys, "measure", "softmax", "--layers", layer, "--out", tmp_path / "a.csv", *threads)
    assert "calibrate MODEL" in text
    assert read_table(tmp_path / "a.csv", "softmax").columns["B"].tolist() == [3, 5]


def _quick(measure):
    return lambda *args, **options: measure(*args, **options, least_ms=0.01)


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs torch")
def test_layers_that_cannot_be_measured_are_told(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(measuring.tg.layertime, "measure", _quick(tg.layertime.measure))
    layer = write(tmp_path / "layers.csv", {"B": [3, 1 << 28], "H": [7, 1 << 28]})
    code, out, err = run(
        capsys, "layertime", "measure", "softmax", "--layers", layer, "--out", tmp_path / "a.csv", "--cpu"
    )
    assert code == 0 and "softmax: 1 layer" in out
    assert err == (
        "tpugraphs layertime measure: warning: softmax: 1 of 2 layers skipped: 1 with more memory than is free\n"
    )


@pytest.mark.skipif(os.name != "posix", reason="signals")
@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs torch")
def test_ctrl_c_keeps_what_was_measured(tmp_path):
    """In a process of its own, which the same command continues."""
    out = tmp_path / "softmax.csv"
    main = "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    main += "from tpugraphs import cli; sys.exit(cli.main())"
    argv = ["layertime", "measure", "softmax", "dense", "--out", tmp_path, "--count", "100000", "--cpu"]
    env = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, map(os.path.abspath, sys.path)))}
    command = [sys.executable, "-P", "-c", main, *map(str, argv)]
    child = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, env=env)
    try:
        while child.poll() is None and (not out.exists() or out.read_text().count("\n") < 3):
            time.sleep(0.02)
        child.send_signal(signal.SIGINT)
        _, err = child.communicate(timeout=20)
    finally:
        child.kill()
    assert child.returncode == 130, err
    assert "tpugraphs layertime measure: interrupted after" in err and "Traceback" not in err
    assert f"{out} keeps them for the same call" in err and not (tmp_path / "dense.csv").exists()
    assert len(read_table(out, "softmax")) >= 2


# ---- public tables


HEAD = "OPName,Latency,Device,Torch Version,Kernel Name,Kernels,B,H"
COMMIT = "0" * 40


@pytest.fixture
def publish(monkeypatch):
    """A server in place of GitHub's, with small files as the authors lay them out."""
    server, made = Server(), {}

    def public(name, content, folder="data/"):
        file = PublicFile(
            name, hashlib.sha256(content).hexdigest(), "some/body", COMMIT, len(content), folder
        )
        server.files[file.at("")] = content
        return file

    first = public(
        "Tesla T4.csv", f'{HEAD}\nsoftmax,0.25,Tesla T4,p2,"f<a, b>",;f,3,70\n'.encode(), "data/train/"
    )
    second = public(
        "softmax.csv", f"{HEAD}\nsoftmax,0.125,Tesla V100-PCIE-32GB,p2,g,;g,5,90\n".encode(), "data/test/"
    )
    jobs = {"k80": {"('LM (batch size 5)', 1)": {"null": 4.5, "('LM (batch size 5)', 1)": [2, 2]}}}
    third = public("simulation_throughputs.json", json.dumps(jobs).encode())
    made["neusight_softmax"] = layer_times.PublicTable("neusight_softmax", ("B", "H"), (first, second), "MIT")
    made["gavel_throughput"] = layer_times.PublicTable("gavel_throughput", (), (third,), "MIT")
    monkeypatch.setattr(layer_times, "tables", lambda what=(): [made[name] for name in what or made])
    server.made = made
    yield server
    server.close()


def test_public_tables_are_written_as_they_are_read(publish, tmp_path, capsys):
    folder = tmp_path / "layers"
    argv = ("download", "layer-times", folder, "--run", "--url", publish.url)
    code, out, err = run(capsys, *argv)
    assert (code, err) == (0, "") and "neusight_softmax: downloaded" in out
    assert f"fit {folder}/neusight_softmax.csv.gz" in out and "some/body, commit 0000000, MIT" in out
    assert gzip.open(folder / "neusight_softmax.csv.gz", "rt").read().splitlines() == [
        "ms,device,kernel,B,H,op,part",
        '0.25,Tesla T4,"f<a, b>",3,70,softmax,train',
        "0.125,Tesla V100-PCIE-32GB,g,5,90,softmax,test",
    ]
    table = read_table(folder / "neusight_softmax.csv.gz", "softmax")
    assert table.devices == (DEVICES["T4"], DEVICES["V100"]) and table.ms.tolist() == [0.25, 0.125]
    assert (folder / "gavel_throughput.csv").read_text() == (
        "device,job,workers,steps_per_second\nk80,LM (batch size 5),1,4.5\n"
    )
    assert sorted(os.listdir(folder)) == ["gavel_throughput.csv", "neusight_softmax.csv.gz"]
    asked, first = len(publish.requests), (folder / "neusight_softmax.csv.gz").read_bytes()
    code, out, _ = run(capsys, *argv, "--json")
    assert {one["state"] for one in json.loads(out)} == {"already there"} and len(publish.requests) == asked
    other = tmp_path / "other"
    run(capsys, "download", "layer-times", other, "neusight_softmax", "--run", "--keep", "--url", publish.url)
    assert (other / "neusight_softmax.csv.gz").read_bytes() == first
    assert sorted(os.listdir(other / ".download")) == sorted(
        part.sha256 for part in publish.made["neusight_softmax"].parts
    )


def test_public_files_with_another_digest_are_never_read(publish, tmp_path, capsys):
    part = publish.made["neusight_softmax"].parts[1]
    publish.files[part.at("")] = publish.files[part.at("")].replace(b"0.125", b"0.126")
    argv = ("download", "layer-times", tmp_path / "layers", "--run", "--url", publish.url)
    code, out, err = run(capsys, *argv)
    assert (code, out) == (1, "") and f"sha256: expected {part.sha256}" in err and "softmax.csv" in err
    assert os.listdir(tmp_path / "layers") == [".download"]
    assert os.listdir(tmp_path / "layers" / ".download") == [publish.made["neusight_softmax"].parts[0].sha256]
    publish.files[part.at("")] = publish.files[part.at("")].replace(b"0.126", b"0.125")
    asked = len(publish.gets())
    assert run(capsys, *argv)[0] == 0 and len(publish.gets()) == asked + 2  # the first file was kept
    del publish.files[part.at("")]
    code, _, err = run(capsys, "download", "layer-times", tmp_path / "other", "--run", "--url", publish.url)
    assert code == 1 and "found 404" in err and err.count("\n") == 1


def test_where_public_tables_come_from(capsys):
    listed = layer_times.tables()
    assert {one.name.removeprefix("neusight_") for one in listed[:-1]} <= set(KINDS)
    for one in listed:
        assert one.licence == "MIT" and all(len(part.commit) == 40 for part in one.parts)
        assert all(int(part.sha256, 16) < 1 << 256 and part.size > 0 for part in one.parts)
        assert all(part.url.startswith("https://raw.githubusercontent.com/") for part in one.parts)
        assert not any(" " in part.url for part in one.parts)
        if one.columns:
            known = {
                n for c in KINDS[one.name.removeprefix("neusight_")].columns for n in (c.name, *c.aliases)
            }
            assert set(one.columns) <= known
    code, out, _ = run(capsys, "download", "layer-times", "x")
    assert (
        code == 0
        and "neusight_linear: 6 files" in out
        and "of stanford-futuredata/gavel, commit c4fa400" in out
    )
    assert "pickles alone" in out and "time_median_ms" in out and not Path("x").exists()
    for argv, tells in (
        (["layer-times"], "give the folder"),
        (["layer-times", "x", "none", "--run"], "table: expected one of neusight_linear"),
        (["layer-times", "x", "ml-performance-prediction", "--run"], "can run any program"),
        (["layer-times", "x", "--run", "--url", "ftp://x"], "expected an address"),
    ):
        code, _, err = run(capsys, "download", *argv)
        assert code == 2 and tells in err and err.count("\n") == 1 and not Path("x").exists()
