"""Measuring layers: what is drawn and built, how it is timed and kept, the device it runs on."""

import importlib.util
import os
import resource
import subprocess
import sys
import warnings
from types import SimpleNamespace

import numpy as np
import pytest

import tpugraphs as tg
from tpugraphs.layertime import DEVICES, KINDS, Device, devices, measure, measuring, read_table, this_device
from tpugraphs.layertime.devices import FIGURES
from tpugraphs.layertime.frameworks import FRAMEWORKS, Torch
from tpugraphs.layertime.kinds import OPTIMIZERS, Input, same_padding
from tpugraphs.layertime.measuring import MOST_HELD, Times, draw, held_bytes, time_step
from tpugraphs.system import machine

MINE = Device("mine", 100.5, 20, 3000, 1, 32, 16)
TIMES = ("time_median_ms", "time_min_ms", "time_max_ms", "time_std_ms")


def library(framework):
    """The framework on the CPU, or the test is skipped."""
    for needed in (framework, *(["optax"] if framework == "jax" else [])):
        if importlib.util.find_spec(needed) is None:
            pytest.skip(f"needs {needed}")
    return FRAMEWORKS[framework](False, None)


def small(kind, **chosen):
    """A layer of the kind, the sizes small."""
    layer = {}
    for column in KINDS[kind].columns:
        words = getattr(column, "values", None)
        layer[column.name] = words[0] if words else 1 if column.name in ("use_bias", "Padding") else 6
    steps = {name: 2 for name in ("strides", "Stride", "kernelsize", "Kernel_Size") if name in layer}
    return {**layer, **steps, **chosen}


def work(kind, layer):
    table = read_table({name: [value] for name, value in layer.items()}, kind, MINE, timed=False)
    return table.kind.work(table.columns)


# ---- every kind


def test_every_size_can_be_drawn_from_a_range_that_tables_may_hold():
    for kind in KINDS.values():
        for column in kind.columns:
            if not column.values:
                low, high = column.drawn
                assert column.low <= low < high <= column.high


@pytest.mark.slow
@pytest.mark.parametrize("optimizer", ["None", "Adam"])
@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize("kind", KINDS)
def test_layers_run_and_have_the_outputs_that_are_counted(kind, framework, optimizer):
    runs = library(framework)
    words = next((c.values for c in KINDS[kind].columns if c.name == "op"), (None,))
    for op in words:
        layer = small(kind, optimizer=optimizer, **({"op": op} if op else {}))
        assert time_step(runs.step(kind, layer), 2, 0.01).time_min_ms > 0
        function, *arrays, inputs = runs.forward(kind, layer)
        y, counted = np.asarray(function(*arrays, *inputs).tolist()), work(kind, layer)
        assert np.isfinite(y).all()
        assert y.size * 4 == counted.written[0] / (4 if kind == "lstm" else 1)  # gates are counted there
        floats = [one for one in inputs if "float" in str(one.dtype)]
        read = sum(int(np.prod(one.shape)) for one in floats)
        if kind == "bmm":
            assert read * 4 == counted.read[0] + counted.weights[0]
        elif kind != "embedding":
            assert read * 4 == counted.read[0]


@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize("padding", ["SAME", "VALID"])
@pytest.mark.parametrize("kind", ["conv1d", "conv2d", "conv3d", "depthwise", "pooling"])
def test_sizes_of_outputs_are_those_of_the_framework(kind, padding, framework):
    runs, side = library(framework), "length" if kind == "conv1d" else "matsize"
    for kernel, stride, size in (
        (1, 1, 5),
        (3, 1, 6),
        (2, 1, 5),
        (3, 2, 7),
        (4, 3, 10),
        (2, 4, 11),
        (5, 4, 6),
    ):
        for op in KINDS["pooling"].columns[-2].values if kind == "pooling" else (None,):
            chosen = {"kernelsize": kernel, "strides": stride, side: size, "padding": padding}
            layer = small(kind, **chosen, **({"op": op} if op else {}))
            function, *arrays, inputs = runs.forward(kind, layer)
            assert np.prod(function(*arrays, *inputs).shape) * 4 == work(kind, layer).written[0], chosen


def test_operations_are_those_that_pytorch_counts():
    torch = pytest.importorskip("torch")
    from torch.utils.flop_counter import FlopCounterMode

    runs = library("torch")
    for kind in ("conv1d", "conv2d", "conv3d", "depthwise", "conv", "dense", "linear", "bmm"):
        layer = small(kind)
        function, inputs = runs.forward(kind, layer)
        with FlopCounterMode(display=False) as counter, torch.no_grad():
            function(*inputs)
        assert counter.get_total_flops() == work(kind, layer).flops[0], kind


def test_padding_as_tensorflow_deals_it():
    assert same_padding(5, 1, 1) == (0, 0) and same_padding(5, 2, 1) == (0, 1)
    assert same_padding(6, 3, 2) == (0, 1) and same_padding(7, 3, 2) == (1, 1)
    assert same_padding(11, 2, 4) == (0, 0)  # nothing is taken back where strides leave places out


# ---- steps of training


@pytest.mark.parametrize("name", OPTIMIZERS[1:])
def test_optimizers_in_jax_compute_what_those_of_torch_do(name):
    torch, jax = pytest.importorskip("torch"), pytest.importorskip("jax")
    optax = pytest.importorskip("optax")
    rng = np.random.default_rng(0)
    start, gradients = rng.normal(size=(5, 3)).astype("f"), rng.normal(size=(3, 5, 3)).astype("f")
    theirs = torch.nn.Parameter(torch.from_numpy(start.copy()))
    optimizer = library("torch").optimizer(name, [theirs], lr=0.1)
    ours, update = {"w": jax.numpy.asarray(start)}, library("jax").optimizer(name, 0.1)
    state = update.init(ours)
    for gradient in gradients:
        theirs.grad = torch.from_numpy(gradient.copy())
        optimizer.step()
        changes, state = update.update({"w": gradient}, state, ours)
        ours = optax.apply_updates(ours, changes)
        np.testing.assert_allclose(ours["w"], theirs.detach().numpy(), rtol=1e-5, atol=1e-5)
    assert np.abs(ours["w"] - start).max() > 1e-5


def test_a_step_in_jax_has_all_gradients():
    pytest.importorskip("jax")
    runs = library("jax")
    function, weights, inputs = runs.forward("dense", small("dense", batch=3, activation="tanh"))
    dy = Input((3, 6)).draw(np.random.default_rng(2))
    rule = runs.optimizer("SGD")
    new, _, y, dx = runs.training(function, rule)(weights, rule.init(weights), inputs, dy)
    np.testing.assert_allclose(y, function(weights, *inputs), rtol=1e-6)
    slope = dy * (1 - np.asarray(y) ** 2)
    np.testing.assert_allclose(dx[0], slope @ np.asarray(weights["w"]).T, rtol=1e-4, atol=1e-5)
    changed = (np.asarray(weights["b"], np.float64) - np.asarray(new["b"])) / 1e-6
    np.testing.assert_allclose(changed, slope.sum(0), atol=0.1)  # what rounding leaves of so small a change


def test_a_step_in_torch_updates_weights_and_has_gradients_of_inputs(monkeypatch):
    torch = pytest.importorskip("torch")
    runs, seen = library("torch"), []
    forward = runs.forward
    monkeypatch.setattr(runs, "forward", lambda *given: seen.append(forward(*given)) or seen[-1])
    before = torch.random.get_rng_state()
    step = runs.step("linear", small("linear", optimizer="Adagrad"))
    assert torch.equal(torch.random.get_rng_state(), before)  # the user's draws stay what they are
    module, (x,) = seen[0]
    weights = module.weight.detach().clone()
    for _ in range(3):
        step()
    assert x.grad.shape == x.shape and not torch.equal(module.weight, weights)
    one = x.grad.clone()
    step()
    torch.testing.assert_close(x.grad, one, rtol=1e-3, atol=1e-3)  # not added up


# ---- what is drawn


@pytest.mark.parametrize("kind", KINDS)
def test_drawn_layers_are_bounded_and_varied(kind):
    known = KINDS[kind]
    columns = draw(kind, 300, 0)
    table = read_table(columns, kind, MINE, timed=False)
    counted = known.work(table.columns)
    assert counted.flops.max() <= known.most_flops and counted.moved.max() <= MOST_HELD
    assert held_bytes(known, table.columns).max() <= MOST_HELD
    for column in known.columns:
        values = table.columns[column.name]
        if column.values:
            assert set(values) == set(column.values)
        else:
            low, high = column.drawn
            assert low <= values.min() and values.max() <= high and len(set(values)) > min(3, high - low)
    assert 110 < np.sum(columns["optimizer"] == "None") < 190
    for training in (True, False):
        assert ((draw(kind, 50, 0, training)["optimizer"] == "None") != training).all()
    for name, values in draw(kind, 20, 0).items():
        np.testing.assert_array_equal(values, columns[name][:20])
    assert any((values != columns[name]).any() for name, values in draw(kind, 300, 1).items())


def test_layers_hold_scores_and_tables_besides_their_arrays():
    sizes = {"batch": 2, "heads": 3, "queries": 5, "keys": 7, "head_size": 11, "optimizer": "None"}
    columns = {name: np.array([value]) for name, value in sizes.items()}
    arrays = 2 * 3 * 11 * (5 + 2 * 7) + 2 * 3 * 5 * 11
    assert held_bytes(KINDS["attention"], columns) == 4 * (arrays + 2 * 3 * 5 * 7)
    sizes = {"batch": 2, "length": 3, "dim_input": 100, "dim_output": 7, "optimizer": "None"}
    columns = {name: np.array([value]) for name, value in sizes.items()}
    assert held_bytes(KINDS["embedding"], columns) == 4 * (2 * (2 * 3 * 7) + 100 * 7)


# ---- timing


def test_blocks_have_as_many_calls_as_they_need(monkeypatch):
    clock = SimpleNamespace(now=0, calls=0)
    monkeypatch.setattr(
        "tpugraphs.layertime.measuring.time", SimpleNamespace(perf_counter_ns=lambda: clock.now)
    )

    def step():
        clock.calls += 1
        clock.now += 50_000_000 if clock.calls == 1 else 1_000_000 + 1000 * clock.calls

    times = time_step(step, 3, 4.5)
    assert clock.calls == 3 + 5 + 3 * 5  # warm-up, a block to be sure, and the blocks
    means = [1 + 1e-3 * np.mean(np.arange(9, 14) + 5 * i) for i in range(3)]
    expected = (np.median(means), np.min(means), np.max(means), np.std(means))
    found = (times.time_median_ms, times.time_min_ms, times.time_max_ms, times.time_std_ms)
    np.testing.assert_allclose(found, expected, rtol=1e-9)


# ---- the loop, with a framework that takes no time


class Fake:
    """Times that follow from the layer; `ends` are raised at these numbers of layers."""

    name, version, gpu, threads = "fake", "1", False, 1
    ends, built = {}, 0

    def __init__(self, gpu, threads):
        pass

    def step(self, kind, layer):
        Fake.built += 1
        if layer["batch"] in self.ends:
            raise self.ends[layer["batch"]]
        ms = layer["dim_input"] + layer["dim_output"] / 7
        return lambda: Times(ms, ms / 2, ms * 2, ms / 3)

    def close(self):
        pass


LAYERS = {"batch": list(range(1, 9)), "dim_input": [3] * 8, "dim_output": list(range(5, 13))}


@pytest.fixture
def fake(monkeypatch):
    monkeypatch.setitem(FRAMEWORKS, "fake", Fake)
    monkeypatch.setattr(measuring, "time_step", lambda step, repeats, least_ms: step())
    monkeypatch.setattr(Fake, "ends", {})

    def go(path=None, framework="fake", kind="dense", **options):
        given = {"layers": LAYERS, "device": MINE} | options
        Fake.built = 0
        return measure(kind, framework, path, **given)

    return go


def same(a, b):
    assert a.devices == b.devices and a.kind is b.kind
    np.testing.assert_array_equal(a.device, b.device)
    np.testing.assert_array_equal(a.ms, b.ms)
    for name, values in a.columns.items():
        np.testing.assert_array_equal(values, b.columns[name])


def test_the_file_holds_the_table(fake, tmp_path):
    path = tmp_path / "dense_here.csv"
    table = fake(path)
    assert table.devices == (MINE,) and len(table) == 8
    np.testing.assert_allclose(table.ms, 3 + np.arange(5, 13) / 7, rtol=1e-5)
    same(table, read_table(path, "dense"))
    same(table, fake())
    head, first = path.read_text().splitlines()[:2]
    assert head.split(",") == [
        "layer", *(column.name for column in KINDS["dense"].columns), *TIMES,
        "framework", "version", "repeats", "device", *FIGURES,
    ]  # fmt: skip
    assert first == "0,1,3,5,None,None,3.71429,1.85714,7.42857,1.2381,fake,1,5,mine,100.5,20,3000,1,32,16"
    model = tg.layertime.LayerTimeModel("dense", "roofline").fit(table)
    assert model.devices == ("mine",) and (model.predict(path) > 0).all()
    rows = model.suggest(3, table)
    same(fake(layers=table.take(rows)), table.take(rows))


@pytest.mark.parametrize("cut", ["in a row", "at a row", "in the head", "empty"])
def test_a_killed_measurement_continues(fake, tmp_path, cut):
    whole, path = tmp_path / "whole.csv", tmp_path / "path.csv"
    fake(whole)
    content = whole.read_bytes()
    ends = [i + 1 for i, byte in enumerate(content) if byte == 10]
    path.write_bytes(
        content[: {"in a row": ends[5] + 20, "at a row": ends[5], "in the head": 30, "empty": 0}[cut]]
    )
    same(fake(path), read_table(whole, "dense"))
    assert Fake.built == (3 if cut.endswith("a row") else 8)
    assert path.read_bytes() == content
    fake(path)
    assert Fake.built == 0 and path.read_bytes() == content
    path.write_bytes(content + b"8,3")
    fake(path)
    assert path.read_bytes() == content


def test_a_full_disk_is_an_error_and_leaves_whole_rows(fake, tmp_path):
    """A disk that is nearly full takes a part of a row, and says nothing of it."""
    whole, path = tmp_path / "whole.csv", tmp_path / "a.csv"
    fake(whole)
    lines = whole.read_bytes().splitlines(keepends=True)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    for rows in (0, 3):
        most = len(b"".join(lines[: rows + 1])) + 9
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, limits[1]))
        try:
            with pytest.raises(OSError, match="too large"):
                fake(path)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert path.read_bytes() == b"".join(lines[: rows + 1] if rows else [])
    fake(path)
    assert Fake.built == 5 and path.read_bytes() == whole.read_bytes()


def test_a_longer_table_continues_a_shorter_one(fake, tmp_path):
    short = fake(tmp_path / "a.csv", layers=None, count=5, seed=3)
    longer = fake(tmp_path / "a.csv", layers=None, count=9, seed=3)
    assert Fake.built == 4 and len(longer) == 9
    same(longer.take(np.arange(5)), short)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"layers": {**LAYERS, "batch": [1, 2, 30, 4, 5, 6, 7, 8]}}, r"column 'batch', row 2: expected 30, found 3"),
        ({"layers": {name: values[:2] for name, values in LAYERS.items()}}, r"'layer', row 2: expected a number from"),
        ({"repeats": 3}, "column 'repeats', row 0: expected 3, found 5: the file was measured with other arg"),
        ({"device": Device("other", 1, 1, 1, 1, 1, 1)}, "column 'device', row 0: expected other, found mine"),
        ({"device": Device("mine", 100.5, 20, 2000, 1, 32, 16)}, "'clock_mhz', row 0: expected 2000, found 3000"),
        ({"kind": "lstm", "layers": None, "count": 8}, "columns layer,batch,length.*found layer,batch,dim_input"),
        ({"layers": None, "count": 8}, r"a\.csv: column 'batch', row 0: expected"),
        ({"framework": "other"}, "column 'framework', row 0: expected other, found fake"),
    ],
)  # fmt: skip
def test_other_arguments_are_refused(fake, tmp_path, monkeypatch, change, message):
    path = tmp_path / "a.csv"
    fake(path)
    before = path.read_bytes()
    monkeypatch.setitem(FRAMEWORKS, "other", type("Other", (Fake,), {"name": "other"}))
    with pytest.raises(tg.ConfigError, match=message):
        fake(path, **change)
    assert path.read_bytes() == before


def test_files_of_others_are_left_alone(fake, tmp_path):
    for content, error, message in (
        (b"a,b\n1,2\n", tg.ConfigError, "found a,b; choose another path"),
        (b"a,b", tg.ConfigError, "found a,b"),
        (None, tg.DataError, "line 3: expected 20 fields as in line 1, found 3"),
    ):
        path = tmp_path / "a.csv"
        path.unlink(missing_ok=True)
        if content is None:
            fake(path)
            lines = path.read_bytes().splitlines(keepends=True)
            content = b"".join([*lines[:2], b"1,2,3\n", *lines[2:]])
        path.write_bytes(content)
        with pytest.raises(error, match=message):
            fake(path)
        assert path.read_bytes() == content
    path = tmp_path / "large.csv"
    path.touch()
    os.truncate(path, (1 << 30) + 1)  # without a byte on the disk
    with pytest.raises(tg.DataError, match="more than 256 MiB of text"):
        fake(path)
    with pytest.raises(tg.ConfigError, match=r"ends in \.csv, got .*a\.csv\.gz"):
        fake(tmp_path / "a.csv.gz")
    with pytest.raises(tg.ConfigError, match="expected a folder that can be written, found"):
        fake(tmp_path / "none" / "a.csv")


def test_ctrl_c_keeps_what_was_measured(fake, tmp_path):
    path = tmp_path / "a.csv"
    Fake.ends = {4: KeyboardInterrupt()}
    with pytest.warns(UserWarning, match=r"interrupted after 3 of 8 layers; .*a\.csv keeps them"):
        assert len(fake(path)) == 3
    with pytest.warns(UserWarning, match="interrupted after 3 of 8 layers$"):
        assert len(fake()) == 3
    Fake.ends = {}
    assert len(fake(path)) == 8 and Fake.built == 5
    Fake.ends = {1: KeyboardInterrupt()}
    with pytest.raises(KeyboardInterrupt):
        fake(tmp_path / "b.csv")


def test_layers_that_fail_are_skipped_and_counted(fake, tmp_path):
    path = tmp_path / "a.csv"
    Fake.ends = {2: RuntimeError("out of\n memory"), 5: RuntimeError("out of memory"), 8: TypeError("odd")}
    said = "3 of 8 layers skipped: 2 with RuntimeError: out of memory; 1 with TypeError: odd"
    with pytest.warns(UserWarning, match=said):
        table = fake(path)
    assert table.columns["batch"].tolist() == [1, 3, 4, 6, 7]
    Fake.ends = {}
    with pytest.warns(UserWarning, match="2 of 8 layers skipped: 2 in an earlier call"):
        again = fake(path)  # the last one is tried again: nobody knows that it failed
    assert again.columns["batch"].tolist() == [1, 3, 4, 6, 7, 8]
    Fake.ends = {batch: RuntimeError("no") for batch in range(9)}
    with pytest.raises(tg.Error, match="none of 8 layers could be measured: 8 with RuntimeError: no"):
        fake()


def test_layers_that_are_too_large_are_not_tried(fake):
    table = {
        "batch": [1, 1 << 20, 9],
        "dim_input": [3, 1 << 30, 1 << 14],
        "dim_output": [5, 1 << 30, 1 << 14],
    }
    slow = Device("mine", 1e-3, 20, 3000, 1, 32, 16)
    with pytest.warns(UserWarning, match="1 with more memory than is free; 1 that take more than 20 s"):
        assert len(fake(layers=table, device=slow)) == 1
    assert Fake.built == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kind": "gru"}, "kind: expected one of conv1d"),
        ({"framework": "keras"}, "framework: expected one of torch, jax"),
        ({"count": 0}, "count: expected a whole number from 1"),
        ({"count": True}, "count: expected a whole number"),
        ({"seed": -1}, "seed: expected a whole number of at least 0"),
        ({"repeats": 1.5}, "repeats: expected a whole number"),
        ({"threads": 0}, "threads, at most the usable processors: expected a whole number"),
        ({"least_ms": 0}, "least_ms: expected a number above 0"),
        ({"least_ms": "long"}, "least_ms: expected a number above 0"),
        ({"training": True}, "training: layers that are given say it"),
        ({"name": "this"}, "name: the device is given"),
        ({"device": "Abacus"}, "'Abacus': unknown"),
        (
            {"device": Device("wide", 1, 1, 1, 8, 1, 1)},
            "expected units 1, the threads that fake takes here, got 8",
        ),
        ({"layers": 3}, "expected a path, dict of arrays or DataFrame"),
    ],
)
def test_wrong_arguments_are_refused(fake, options, message):
    with pytest.raises(tg.ConfigError, match=message):
        fake(**options)


def test_frameworks_that_are_missing_name_their_extra(monkeypatch):
    for name, said in (("torch", "PyTorch is not installed"), ("jax", "JAX is not installed")):
        monkeypatch.setitem(sys.modules, name, None)
        with pytest.raises(tg.ConfigError, match=rf"{said}: pip install tpugraphs\[{name}\]"):
            measure("dense", name, layers=LAYERS, device=MINE)


def test_the_package_imports_without_frameworks():
    code = "import sys, tpugraphs as tg; tg.layertime.measure; print({'torch', 'jax'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


# ---- real measurements


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_measured_tables_train_models(framework, tmp_path):
    threads = library(framework).threads
    path = tmp_path / "dense.csv"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(devices, "_rates", lambda threads, least: (50.0, 10.0))
        table = measure("dense", framework, path, count=12, repeats=2, least_ms=0.1, name="here")
        patch.setattr(devices, "_rates", lambda threads, least: (51.0, 11.0))
        same(measure("dense", framework, path, count=12, repeats=2, least_ms=0.1, name="here"), table)
    (device,) = table.devices
    assert (device.name, device.units, device.peak_gflops) == ("here", threads, 50)  # as the file says
    assert len(table) == 12 and (table.ms > 0).all()
    found = read_table(path, "dense")
    same(found, table)
    assert tg.layertime.LayerTimeModel("dense", "roofline").fit(path).predict(table).shape == (12,)


def test_threads_are_set_and_put_back():
    torch = pytest.importorskip("torch")
    before = torch.get_num_threads()
    one = Torch(False, 1)
    assert one.threads == torch.get_num_threads() == 1
    one.close()
    assert torch.get_num_threads() == before
    if importlib.util.find_spec("jax"):
        with pytest.raises(tg.ConfigError, match="threads: JAX takes all .* processors"):
            FRAMEWORKS["jax"](False, machine.usable_processors() + 1)
    if not torch.cuda.is_available():
        for call in (lambda: this_device(gpu=True), lambda: Torch(True, None)):
            with pytest.raises(tg.ConfigError, match="gpu: expected a GPU that PyTorch can use, found none"):
                call()


# ---- devices


def test_this_device_is_read_and_measured():
    before = tg.get_num_threads()
    found = this_device(1, "here")
    assert found.name == "here" and found.units == 1 and tg.get_num_threads() == before
    assert found.peak_gflops > 0 and found.bandwidth_gbps > 0
    assert this_device(1) == this_device(1)  # measured once
    assert "1 thread" in this_device(1).name
    with pytest.raises(
        tg.ConfigError,
        match="threads, at most the usable processors: expected a whole number from 1 to .*, got 0",
    ):
        this_device(0)
    with pytest.raises(tg.ConfigError, match="expected a name of printable characters"):
        this_device(1, "two\nlines")


@pytest.mark.parametrize("others, warns", [(90, True), (10, False)])
def test_a_busy_machine_is_named(monkeypatch, tmp_path, others, warns):
    idle, ticks = 100 - others, iter(range(100))

    def stat(seconds):
        n = next(ticks)
        (tmp_path / "stat").write_text(f"cpu  {n * others} 0 0 {n * idle} 0 0 0 0 0 0\ncpu0 1 1 1 1\n")

    stat(0)
    monkeypatch.setattr(machine, "_STAT", str(tmp_path / "stat"))
    monkeypatch.setattr(machine.time, "sleep", stat)
    assert machine.busy() == others / 100
    devices._rates.cache_clear()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        this_device(1)
    assert any("other work takes 90%" in str(one.message) for one in caught) == warns
    monkeypatch.setattr(machine, "_STAT", str(tmp_path / "none"))
    assert machine.busy() is None


def test_a_system_that_tells_nothing(monkeypatch, tmp_path):
    monkeypatch.setattr(machine, "_CPU", tmp_path)
    monkeypatch.setattr(machine, "_CPUINFO", str(tmp_path / "cpuinfo"))
    with pytest.raises(
        tg.ConfigError, match=r"does not report clock_mhz, cache_mb; describe .*Device\(name, peak"
    ):
        this_device(1)
    (tmp_path / "cpuinfo").write_text("processor : 0\ncpu MHz\t\t: 2000.5\n\ncpu MHz\t\t: 2400.25\n")
    assert machine.clock_mhz() == 2400.25
    for index, (level, size) in enumerate((("1", "48K"), ("3", "32M"), ("2", "1024K"))):
        (tmp_path / "cache" / f"index{index}").mkdir(parents=True)
        (tmp_path / "cache" / f"index{index}" / "level").write_text(level + "\n")
        (tmp_path / "cache" / f"index{index}" / "size").write_text(size + "\n")
    assert machine.cache_mb() == (32 << 20) / 1e6
    (tmp_path / "cpufreq").mkdir()
    (tmp_path / "cpufreq" / "cpuinfo_max_freq").write_text("3500000\n")
    assert machine.clock_mhz() == 3500
    assert machine.memory_gib("NoSuchLine") is None


def test_gpus_are_known_by_name_or_by_their_properties():
    assert devices.gpu_device(SimpleNamespace(name="NVIDIA H100 80GB HBM3")) is DEVICES["H100"]
    assert devices.gpu_device(SimpleNamespace(name="Tesla T4"), "mine") == Device(
        "mine", *(getattr(DEVICES["T4"], figure) for figure in FIGURES)
    )
    told = SimpleNamespace(
        name="NVIDIA A10", major=8, minor=6, multi_processor_count=72, clock_rate=1695000,
        memory_bus_width=384, memory_clock_rate=6251000, L2_cache_size=6 << 20, total_memory=24 * 10**9,
    )  # fmt: skip
    found = devices.gpu_device(told)
    assert (found.name, found.units, found.clock_mhz, found.memory_gb) == ("NVIDIA A10", 72, 1695, 24)
    assert found.peak_gflops == pytest.approx(31200, rel=0.01)  # as its data sheet says
    assert found.bandwidth_gbps == pytest.approx(600, rel=0.01)
    for change in ({"major": 99}, {"memory_clock_rate": 0}):
        with pytest.raises(
            tg.ConfigError, match=r"'NVIDIA A10': the system does not report \w+; describe the dev"
        ):
            devices.gpu_device(SimpleNamespace(**{**vars(told), **change}))


# ---- devices in tables


def described(**changes):
    table = {"batch": [1, 2, 3], "dim_input": [3] * 3, "dim_output": [5] * 3, "ms": [1.0, 2, 3]}
    table |= {"device": ["mine", "yours", "mine"], "peak_gflops": [100.5, 50, 100.5]}
    table |= {"bandwidth_gbps": [20, 10, 20], "clock_mhz": [3000] * 3, "units": [1, 4, 1]}
    table |= {"cache_mb": [32] * 3, "memory_gb": [16] * 3}
    return {name: values for name, values in (table | changes).items() if values is not None}


def test_tables_describe_their_devices(tmp_path):
    yours = Device("yours", 50, 10, 3000, 4, 32, 16)
    found = read_table(described(), "dense")
    assert found.devices == (MINE, yours) and found.device.tolist() == [0, 1, 0]
    assert isinstance(found.devices[0].units, int)
    path = tmp_path / "dense_K40.csv"
    lines = [
        ",".join(described()),
        *(",".join(map(str, row)) for row in zip(*described().values(), strict=True)),
    ]
    path.write_text("\n".join(lines) + "\n")
    assert read_table(path, "dense").devices == (
        MINE,
        yours,
    )  # the columns say more than the name of the file
    assert read_table(path, "dense", "T4").devices == (DEVICES["T4"],)
    assert len(read_table([path, described()], "dense")) == 6
    other = described(clock_mhz=[2000] * 3)
    with pytest.raises(tg.ConfigError, match="two tables give it different figures"):
        read_table([path, other], "dense")
    plain = described(**{figure: None for figure in FIGURES if figure != "units"}, device=["P4"] * 3)
    assert read_table(plain, "dense").devices == (DEVICES["P4"],)  # units alone may be of something else


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"clock_mhz": None}, "no column 'clock_mhz'; a table that describes its devices has device, peak_gflops"),
        ({"device": None}, "no column 'device'; a table that describes"),
        ({"cache_mb": [32, 0, 32]}, "column 'cache_mb', row 1: expected a number above 0, .* found 0"),
        ({"memory_gb": [16, 16, np.nan]}, "column 'memory_gb', row 2: expected a number above 0, .* found nan"),
        ({"peak_gflops": [1, "fast", 1]}, "column 'peak_gflops', row 1: expected a number, found 'fast'"),
        ({"units": [1.5, 4, 1.5]}, "column 'units', row 0: expected a whole number from 1"),
        ({"clock_mhz": [3000, 1, 2000]}, "'clock_mhz', row 2: expected 3000 as in row 0 of the same device 'mine'"),
        ({"device": ["mine", "", "mine"]}, "column 'device', row 1: device: expected a name"),
    ],
)  # fmt: skip
def test_wrong_figures_are_refused(change, message):
    with pytest.raises(tg.DataError, match=message):
        read_table(described(**change), "dense")


def test_two_measurements_do_not_share_a_folder(fake, tmp_path):
    from tpugraphs.system.files import locked

    with locked(os.fspath(tmp_path)), pytest.raises(tg.ConfigError, match="another measurement is using"):
        fake(tmp_path / "a.csv")
