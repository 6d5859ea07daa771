"""Every file that tpugraphs writes is there whole or not at all: full disk, read-only folder, SIGKILL."""

import errno
import os
import random
import resource
import signal
import stat
import tempfile
import time
import warnings
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from rankers import small_graph, small_ranker

import tpugraphs as tg
from tpugraphs import submission
from tpugraphs.cli import main
from tpugraphs.system import tensorfile as rankerfile
from tpugraphs.system.files import atomic_write
from tpugraphs.training import CHECKPOINT, Callback


def trained(seed):
    ranker = small_ranker(seed=seed, steps=2)
    ranker.fit(small_graph(), verbose=False)
    return ranker


@pytest.fixture(scope="module")
def two():
    """Two of everything that can be saved, so that old and new differ."""
    graphs = [small_graph(seed, configs=60 + seed) for seed in range(2)]
    rankers = [trained(seed) for seed in range(2)]
    few = {"width": 16, "gate_reduction": 4, "configs": 16}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)  # `read_only` reads it as somebody else
        for i in range(2):
            graphs[i].save(folder / f"{i}.npz")
            graphs[i].select([i]).save(folder / f"single{i}.npz")
            rankers[i].save(folder / f"{i}.safetensors")
            submission.write(folder / f"{i}.csv", {f"layout:xla:random:{'ab'[i]}": np.arange(900)})
        yield SimpleNamespace(
            folder=folder,
            graphs=graphs,
            rankers=rankers,
            ensembles=[tg.Ensemble(rankers[: i + 1]) for i in range(2)],
            reports=[rankers[i].evaluate(graphs[i]) for i in range(2)],
            runs=[tg.train_seeds("first-layout", g, seeds=1, steps=1, verbose=False, **few) for g in graphs],
            submissions=[{f"layout:xla:random:{'ab'[i]}": np.arange(900 + i)} for i in range(2)],
        )


def table(seed):
    """A graph with a schema of its own."""
    rng = np.random.default_rng(seed)
    return tg.Graph(config_feat=rng.random((500, 4)), runtime=rng.random(500) + 1)


def command(*arguments):
    """Run a command; its OSError goes on, instead of a line and a code."""
    code = main([str(argument) for argument in arguments])
    if code != 0:
        raise OSError(errno.EIO, f"exit {code}")


WRITERS = {
    "graph.npz": lambda two, i, path: two.graphs[i].save(path),
    "graph.tgpack": lambda two, i, path: two.graphs[i].save(path),
    "table.npz": lambda two, i, path: table(i).save(path),
    "table.tgpack": lambda two, i, path: table(i).save(path),
    "ranker.safetensors": lambda two, i, path: two.rankers[i].save(path),
    "ensemble.safetensors": lambda two, i, path: two.ensembles[i].save(path),
    "submission.csv": lambda two, i, path: submission.write(path, two.submissions[i]),
    "merged.csv": lambda two, i, path: submission.merge([two.folder / f"{i}.csv"], out=path),
    CHECKPOINT: lambda two, i, path: rankerfile.write(path, "checkpoint", {"step": i}, {"params": two.rankers[i].model.params}),
    "report.json": lambda two, i, path: two.reports[i].save(path),
    "report.md": lambda two, i, path: two.reports[i].save(path),
    "report.txt": lambda two, i, path: two.reports[i].save(path),
    "report.html": lambda two, i, path: two.reports[i].save(path),
    "report.png": lambda two, i, path: two.reports[i].save(path),
    "seeds.json": lambda two, i, path: two.runs[i].save(path),
    "scores.csv": lambda two, i, path: command(
        "predict",  two.folder / f"{i}.safetensors", two.folder / f"{i}.npz", "--out", path
    ),
    "scores.npy": lambda two, i, path: command(
        "predict",  two.folder / f"{i}.safetensors", two.folder / f"{i}.npz", "--out", path
    ),
    "exclude.txt": lambda two, i, path: command(
        "audit", two.folder / f"single{i}.npz", "--write-exclude", path
    ),
}  # fmt: skip


@pytest.fixture(params=WRITERS)
def case(request, two):
    """Folder with the old file, its bytes, those of the new one, and what writes old (0) or new (1)."""
    if request.param == "report.png":
        pytest.importorskip("matplotlib")
    with tempfile.TemporaryDirectory() as name:
        path = Path(name, request.param)
        contents = []
        for i in (1, 0):
            WRITERS[request.param](two, i, path)
            contents.append(path.read_bytes())
        assert len(contents[0]) > 8 and list(path.parent.iterdir()) == [path]
        yield SimpleNamespace(
            path=path, old=contents[1], new=contents[0], write=lambda i: WRITERS[request.param](two, i, path)
        )


@contextmanager
def no_more_than(size):
    """Files cannot grow beyond that many bytes; the signal for it is ignored by Python."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


@contextmanager
def read_only(folder):
    """Nobody may write there, not even root."""
    folder.chmod(0o555)
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)
        folder.chmod(0o755)


def check_old(case):
    assert case.path.read_bytes() == case.old
    assert list(case.path.parent.iterdir()) == [case.path]


def test_a_full_disk_leaves_the_old_file(case, capsys):
    for size in sorted({0, 1, len(case.new) // 2, len(case.new) - 1}):
        with pytest.raises(OSError) as caught, no_more_than(size):
            case.write(1)
        assert caught.value.errno == errno.EIO or caught.value.filename == str(case.path)
        assert caught.value.errno in (errno.EFBIG, errno.EIO)
        check_old(case)
    case.write(1)
    assert case.path.read_bytes() == case.new


def test_a_read_only_folder_leaves_the_old_file(case, capsys):
    with pytest.raises(OSError) as caught, read_only(case.path.parent):
        case.write(1)
    assert caught.value.errno in (errno.EACCES, errno.EIO)
    check_old(case)


@contextmanager
def dies_at(call):
    """A child in which the given one of the calls that make a file appear ends the process, before it is done."""
    count = 0

    def deadly(real):
        def do(*arguments, **named):
            nonlocal count
            count += 1
            if count == call:
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*arguments, **named)

        return do

    for name in ("fsync", "replace"):
        setattr(os, name, deadly(getattr(os, name)))
    yield


def child(do):
    """Fork, and do that in the child; its process ID. The exit code of the child is 0 if it ends well."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of forks in processes with threads, by Python and by JAX
        pid = os.fork()
    if pid == 0:
        code = 1
        try:
            do()
            code = 0
        finally:
            os._exit(code)
    return pid


@pytest.mark.slow
def test_killed_at_any_step_of_a_save(case):
    def save(call):
        with dies_at(call):
            case.write(1)

    ends = []
    for call in range(1, 5):
        case.write(0)
        status = os.waitpid(child(lambda call=call: save(call)), 0)[1]
        ends.append(os.waitstatus_to_exitcode(status))
        assert case.path.read_bytes() == (case.old if call <= 2 else case.new), call
    assert ends == [-signal.SIGKILL] * 3 + [0]  # fsync, replace, fsync of the folder, none


@pytest.mark.slow
def test_killed_at_any_moment(case):
    def save():
        while True:
            case.write(1)
            case.write(0)

    chance = random.Random(case.path.name)
    for _ in range(6):
        pid = child(save)
        time.sleep(chance.uniform(0.0, 0.06))
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        content = case.path.read_bytes()
        assert content in (case.old, case.new)
    case.write(1)
    assert case.path.read_bytes() == case.new


def test_a_fit_whose_disk_is_full_goes_on_later(tmp_path):
    """The checkpoint before stays, and the same call ends with the bits of a fit that nothing stopped."""
    graph, whole = small_graph(), small_ranker(steps=6)
    whole.fit(graph, verbose=False)
    options = {"checkpoint_dir": tmp_path, "checkpoint_every": 2, "verbose": False}

    class Full(Callback):
        full = True

        def on_step(self, fit):
            if fit.step == 3 and self.full:
                limits = resource.getrlimit(resource.RLIMIT_FSIZE)
                resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))

    with pytest.raises(OSError) as caught, no_more_than(resource.getrlimit(resource.RLIMIT_FSIZE)[0]):
        small_ranker(steps=6).fit(graph, callbacks=[Full()], **options)
    assert caught.value.filename == str(tmp_path / CHECKPOINT)
    assert [path.name for path in tmp_path.iterdir()] == [CHECKPOINT]
    again, Full.full = small_ranker(steps=6), False
    again.fit(graph, callbacks=[Full()], **options)
    assert (again.model.params == whole.model.params).all()


def test_a_pipe_is_not_replaced_by_a_file(tmp_path):
    """Nor a device: /dev/null would become a file for everybody."""
    os.mkfifo(tmp_path / "pipe")
    with (
        pytest.raises(OSError, match="found a folder, device or pipe"),
        atomic_write(tmp_path / "pipe") as file,
    ):
        file.write(b"x")
    assert stat.S_ISFIFO(os.stat(tmp_path / "pipe").st_mode)
    assert os.listdir(tmp_path) == ["pipe"]
