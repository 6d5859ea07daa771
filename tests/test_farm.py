"""Farms: executors measure, one measurement at a time on a device, machines of one kind, drift that is noticed."""

import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import BrokenExecutor, Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from refusals import refuses
from test_layertime_measure import LAYERS, MINE, Fake, same
from tuners import SPACE, Halves, cost

import tpugraphs as tg
from tpugraphs.distributed import on_device, open_executor
from tpugraphs.distributed.farm import check_kind, farmed
from tpugraphs.layertime import measure, measuring, read_table
from tpugraphs.layertime.frameworks import FRAMEWORKS
from tpugraphs.records import Journal, environment

QUICK = {"n_configs": 3, "rounds": 2, "passes": 1, "least": 1e-4}
FAMILY = ["--only", "mlp", "--configs", "3", "--rounds", "2", "--passes", "1"]


@contextmanager
def opened(kind):
    """Four workers: processes, or a cluster of Dask here."""
    if kind == "dask":
        distributed = pytest.importorskip("distributed")
        how = {"n_workers": 4, "threads_per_worker": 1, "dashboard_address": ":0"}
        with distributed.LocalCluster(**how) as cluster:
            with open_executor(f"dask:{cluster.scheduler_address}") as executor:
                yield executor
    else:
        with open_executor("4") as executor:
            yield executor


# ---- jobs


def test_jobs_are_done_here_without_an_executor():
    assert list(farmed(None, pow, [(2, 3), (3, 2)])) == [(0, 8), (1, 9)]


@pytest.mark.parametrize("kind", ["processes", "dask"])
def test_jobs_and_their_errors_come_back(kind):
    with opened(kind) as executor:
        assert sorted(farmed(executor, pow, [(2, 3), (3, 2), (5, 2)])) == [(0, 8), (1, 9), (2, 25)]
        refuses(
            lambda: list(farmed(executor, check_kind, [({}, {}, "a"), ({"x": 1}, {"x": 2}, "b", "do")])),
            tg.Error,
        )
        wrong = ({"x": 1}, {"x": 2}, "b", "go there")
        refuses(
            lambda: list(farmed(executor, check_kind, [wrong])), tg.ConfigError, "x 2", "found 1", "go there"
        )


def test_a_worker_that_ends_while_jobs_are_sent_is_an_error_that_keeps_what_is_done():
    class Broken(ThreadPoolExecutor):
        def submit(self, function, *arguments):
            if arguments == (5, 2):
                self.shutdown()
                raise BrokenExecutor("gone")
            return super().submit(function, *arguments)

    found = []

    def run():
        for one in farmed(Broken(1), pow, [(2, 3), (3, 2), (5, 2)], "; do this"):
            found.append(one)

    refuses(run, tg.Error, "a worker ended", "gone", "do this")
    assert sorted(found) == [(0, 8), (1, 9)]


@pytest.mark.parametrize("spec", ["", "0", "2000", "-1", "dask:", "slurm", "4 ", "１"])
def test_other_executors_are_refused(spec):
    with pytest.raises(tg.ConfigError, match="expected a number of processes"), open_executor(spec):
        pass


def test_processes_end_with_an_error_in_the_block():
    began = time.monotonic()
    with pytest.raises(ZeroDivisionError), open_executor("1") as executor:
        job = executor.submit(time.sleep, 60)
        while not job.running():
            time.sleep(0.01)
        raise ZeroDivisionError
    assert time.monotonic() - began < 30


# ---- devices


def test_those_who_share_a_device_wait_for_a_measurement_and_do_not_starve_it(monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    seen = []

    def compiles(name):
        with on_device("d", alone=False):
            seen.append(f"+{name}")
            time.sleep(1.5)
            seen.append(f"-{name}")

    def measures():
        with on_device("d"):
            seen.append("+m")
            time.sleep(0.1)
            seen.append("-m")

    with ThreadPoolExecutor(4) as threads:
        for job in (lambda: compiles("a"), lambda: compiles("b"), measures, lambda: compiles("c")):
            threads.submit(job)
            time.sleep(0.2)
    assert seen == ["+a", "+b", "-a", "-b", "+m", "-m", "+c", "-c"]


# ---- the tuner


class Machines:
    """Workers of several kinds: the job of this number runs on another one."""

    def __init__(self, other):
        self.other, self.count = other, 0

    def submit(self, function, *arguments):
        job, self.count = Future(), self.count + 1
        outcome, here = function(*arguments)
        job.set_result((outcome, {**here, "processor": "i486"} if self.count == self.other else here))
        return job


def test_a_record_has_the_environment_of_its_worker(tmp_path):
    how = {"verbose": False, "journal": tmp_path / "j", "confirm": 0}
    tg.tune(cost, SPACE, 6, tuner=Halves(0), executor=Machines(0), **how)
    assert all(record.environment == environment() for record in Journal(tmp_path / "j").read())


def test_workers_and_journals_of_another_kind_of_machine_are_refused(tmp_path):
    path = tmp_path / "j"
    how = {"verbose": False, "journal": path, "confirm": 0, "batch": 1}
    words = "processor", "i486", "device="
    refuses(
        lambda: tg.tune(cost, SPACE, 9, tuner=Halves(0), executor=Machines(4), **how), tg.ConfigError, *words
    )
    kept = Journal(path).read()
    assert 1 <= len(kept) < 9 and all(one.environment["processor"] != "i486" for one in kept)
    there = [replace(one, environment={**one.environment, "processor": "i486"}) for one in kept]
    path.unlink()
    Journal(path).append(there)
    refuses(lambda: tg.tune(cost, SPACE, 9, tuner=Halves(0), **how), tg.ConfigError, *words)
    tg.tune(cost, SPACE, 9, tuner=Halves(0), device="here", **how)  # kept apart


# ---- programs of JAX


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["processes", "dask"])
def test_four_workers_measure_the_zoo(kind, tmp_path):
    """The same graphs as one process, but for their times."""
    pytest.importorskip("jax")
    seen = []
    families = {"only": ["mlp", "sort-top-k"], "sizes": 1}
    with opened(kind) as executor:
        folder = tg.xla.build(
            tmp_path, **families, **QUICK, executor=executor, report=lambda p, g: seen.append((p.name, g))
        )
    assert sorted(name for name, _ in seen) == ["mlp.0", "sort-top-k.0"]
    assert "mlp.0" in (folder / "README.md").read_text()
    alone = tg.xla.build(tmp_path / "alone", **families, **QUICK)
    for name, graph in seen:
        (path,) = alone.glob(f"*/{name}.npz")
        other = tg.load(path)
        np.testing.assert_array_equal(graph.config_feat, other.config_feat)
        assert graph.about["machine"] == other.about["machine"]
        assert graph.about["digest"] == other.about["digest"] and graph.about["drift"] > 0
        assert tg.load(next(folder.glob(f"*/{name}.npz"))).about == graph.about


@pytest.mark.slow
def test_a_held_device_is_waited_for(monkeypatch, tmp_path):
    pytest.importorskip("jax")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    out = tmp_path / "g.npz"
    with open_executor("1") as executor, ThreadPoolExecutor(1) as thread:
        with on_device("cpu"):
            job = thread.submit(tg.xla.collect, _tanh, np.ones((8, 8), np.float32), **QUICK,
                                executor=executor, out=out)  # fmt: skip
            time.sleep(6)
            assert not job.done()
        assert job.result(120).about["rounds"] == 2 and out.exists()


def _tanh(x):
    import jax.numpy as jnp

    return jnp.tanh(x @ x)


def test_machines_of_another_kind_measure_nothing(tmp_path):
    pytest.importorskip("jax")
    x = np.ones((8, 8), np.float32)
    graph = tg.xla.collect(_tanh, x, **QUICK)
    here = graph.about["machine"]
    tg.xla.collect(_tanh, x, **QUICK, machine={**here, "system": "another kernel"})
    out = tmp_path / "g.npz"
    other = {**here, "cores": 96}
    refuses(
        lambda: tg.xla.collect(_tanh, x, **QUICK, machine=other, out=out),
        tg.ConfigError,
        "cores 96",
        "machine",
    )
    assert not out.exists()


def test_what_cannot_be_sent_is_named():
    pytest.importorskip("jax")
    with open_executor("1") as executor:
        call = lambda: tg.xla.collect(lambda x: x, np.ones(3), **QUICK, executor=executor)  # noqa: E731
        refuses(call, tg.Error, "executor", "lambda", "modules")
    refuses(lambda: tg.xla.collect(_tanh, np.ones(3), executor=4), tg.ConfigError, "executor", "int")


SOURCE = """
import jax.numpy as jnp
import numpy as np
def build():
    return lambda x: jnp.tanh(x @ x), (np.eye(32, dtype=np.float32),)
"""


def test_commands_take_an_executor(tmp_path):
    pytest.importorskip("jax")
    (tmp_path / "model.py").write_text(SOURCE)
    command = [sys.executable, "-m", "tpugraphs", "collect", "model.py:build", "--out", "g.npz", *FAMILY[2:]]
    done = subprocess.run(
        [*command, "--executor", "2"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0 and "gain" in done.stdout + done.stderr, done.stderr
    assert tg.load(tmp_path / "g.npz").num_configs == 3
    done = subprocess.run(
        [*command, "--executor", "two"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2 and "expected a number of processes" in done.stderr


@pytest.mark.slow
def test_mpi_measures(tmp_path):
    pytest.importorskip("jax")
    pytest.importorskip("mpi4py")
    if shutil.which("mpirun") is None:
        pytest.skip("needs mpirun")
    command = [
        "mpirun",
        "-n",
        "3",
        sys.executable,
        "-m",
        "mpi4py.futures",
        "-m",
        "tpugraphs",
        "collect",
        "--zoo",
    ]
    command += [*FAMILY, "--sizes", "2", "--executor", "mpi", "--out", str(tmp_path)]
    root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    how = {"capture_output": True, "text": True, "timeout": 300, "check": False, "env": os.environ | root}
    done = subprocess.run(command, **how)
    assert done.returncode == 0, done.stderr
    assert sorted(path.stem for path in tmp_path.rglob("*.npz")) == ["mlp.0", "mlp.1"]


def alive(group):
    """Processes of a group that run."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            found.append(path.read_text().rpartition(")")[2].split())
    return [one for one in found if int(one[2]) == group and one[0] != "Z"]


@pytest.mark.parametrize("how", ["SIGINT", "SIGKILL"])
def test_workers_end_with_their_parent(how, tmp_path):
    pytest.importorskip("jax")
    command = [
        sys.executable,
        "-m",
        "tpugraphs",
        "collect",
        "--zoo",
        "--executor",
        "2",
        "--out",
        str(tmp_path),
    ]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL, start_new_session=True) as parent:
        limit = time.monotonic() + 120
        while not list(tmp_path.rglob("*.journal")) and time.monotonic() < limit:
            time.sleep(0.05)
        assert len(alive(parent.pid)) >= 3
        began = time.monotonic()
        parent.send_signal(signal.Signals[how])
        code = parent.wait(30)
    assert code == (130 if how == "SIGINT" else -signal.SIGKILL) and time.monotonic() - began < 10
    while alive(parent.pid) and time.monotonic() < began + 20:
        time.sleep(0.05)
    assert not alive(parent.pid)


# ---- layers


@pytest.fixture
def fake(monkeypatch):
    monkeypatch.setitem(FRAMEWORKS, "fake", Fake)
    monkeypatch.setattr(Fake, "ends", {5: ValueError("no")})
    monkeypatch.setattr(measuring, "time_step", lambda step, *_: time.sleep(random.random() / 50) or step())
    return lambda *given, **how: measure("dense", "fake", *given, **{"layers": LAYERS, "device": MINE} | how)


@pytest.mark.filterwarnings("ignore:1 of 8 layers skipped")
def test_layers_are_kept_in_order_whoever_ends_first(fake, tmp_path):
    same_bytes = []
    for number in range(3):
        with ThreadPoolExecutor(4) as executor:
            table = fake(tmp_path / f"{number}.csv", executor=executor)
        same_bytes.append((tmp_path / f"{number}.csv").read_bytes())
    same(table, fake(tmp_path / "alone.csv"))
    assert {*same_bytes} == {(tmp_path / "alone.csv").read_bytes()}


def test_a_machine_that_slows_down_is_noticed(fake, monkeypatch):
    calls = []

    def slower(step, *_):
        calls.append(step())
        return type(calls[0])(*(one * (1 + len(calls) / 100) for one in calls[-1]))

    monkeypatch.setattr(measuring, "time_step", slower)
    layers = {"batch": [7] * 70, "dim_input": [3] * 70, "dim_output": [4] * 70}
    with pytest.warns(UserWarning, match=r"first layer took 1\.6\d times as long"):
        assert len(fake(layers=layers)) == 70
    assert len(calls) == 72  # twice the first, which is no row


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["processes", "dask"])
def test_four_workers_measure_layers(kind, tmp_path):
    pytest.importorskip("jax")
    pytest.importorskip("optax")
    path, how = tmp_path / "dense.csv", {"count": 12, "seed": 1, "repeats": 1, "least_ms": 0.01}
    with opened(kind) as executor:
        table = measure("dense", "jax", path, executor=executor, **how)
    same(table, read_table(path, "dense"))
    drawn = measuring.draw("dense", 12, 1)
    assert len(table) == 12 and all(
        (table.columns[name] == drawn[name]).all() for name in ("batch", "dim_input")
    )
    before = path.read_bytes()
    measure("dense", "jax", path, **how)  # goes on from there without an executor
    assert path.read_bytes() == before


def test_workers_with_another_framework_are_refused(fake, monkeypatch):
    class Later(ThreadPoolExecutor):
        def submit(self, function, *arguments):
            if function is measuring._timed:
                Fake.version = "2"
            return super().submit(function, *arguments)

    monkeypatch.setattr(Fake, "version", "1")
    with Later(1) as executor:
        refuses(lambda: fake(executor=executor), tg.ConfigError, "version 1", "found 2", "one kind")
