"""Shared by all tests: which tpugraphs is tested, on how many processes, what is put back after each, what is left out.

The whole suite leaves out slow tests, which `-m slow` runs: those that run compilers, many processes or long fits.
Parity tests are skipped, not failed, without PyTorch. Under the sanitizers tests of numbers are left out whose passes
through the core another test makes too, those of JAX, whose programs are not the core's, those of Python alone:
what users see of words, pictures, commands, notebooks and types, and those of the C library, which is built without.
What is left should run the same lines of the core: gcov counts them.
"""

import fcntl
import importlib.util
import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

# Several processes share the cores: idle threads sleep at once, and NumPy's BLAS has none. Read when libraries load.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import tpugraphs
from tpugraphs import _core

# Tests start Python processes from the checkout. They must import the package that is under test here, and
# after `pip install .` that is not the one in the checkout, which has no built core beside it.
SANITIZED = "libasan" in os.environ.get("LD_PRELOAD", "")
PLAIN = "clib clib_abi clib_elsewhere clib_files clib_install clib_promises clib_score"
JAX = "docstrings farm layertime_measure relayout work xla zoo"
PYTHON = """
    auto benchmarks cli cli_train cli_tune comparison competition completion copies direction docs download frictions
    hostile_names importance layertime layertime_cli layertime_mlpredict layertime_range live logs markup measured
    names notebooks operator_rows own_model package plot progress prose published records saves seeds site sklearn
    streams structure texts transfer tune tuning_yardstick types words
"""
LEFT_OUT = [f"test_{name}.py" for name in f"{PLAIN} {JAX} {PYTHON}".split()]
MOST_WORKERS = 8  # each has its own copies of what a session makes once
collect_ignore = LEFT_OUT if SANITIZED else []
PACKAGE = Path(tpugraphs.__file__).parent
if not list(PACKAGE.glob("_core*.so")):
    pytest.exit(
        f"{PACKAGE} has no built core: run `make build` first, or plain `pytest` after `pip install .`", 4
    )
os.environ["PYTHONSAFEPATH"] = "1"
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(PACKAGE.parent), os.environ.get("PYTHONPATH")]))

# A shell starts what runs in its background with Ctrl-C ignored, and programs inherit that: tests send it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Data of others is not in the repository. Tests that need it look where tpugraphs.sample looks, or next to the checkout.
DATA = Path(__file__).parents[2] / "shared" / "data"
if DATA.is_dir():
    os.environ.setdefault("TPUGRAPHS_DATA", str(DATA))


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config):
    """Run the whole suite, or a folder of it, on all cores; `-n 0` or files by name: in this process alone.

    Not by `addopts = -n auto`, which would be an error without pytest-xdist.
    """
    option, whole = config.option, any(Path(argument).is_dir() for argument in config.args)
    workers = len(os.sched_getaffinity(0))
    if getattr(option, "numprocesses", 0) is None and option.dist == "no" and whole and workers > 1:
        if "PYTEST_XDIST_WORKER" not in os.environ and not (option.usepdb or option.collectonly):
            option.numprocesses, option.dist = min(workers, MOST_WORKERS), "worksteal"


@pytest.fixture(autouse=True)
def seeded(request):
    """Let what a parity test draws from PyTorch be the same every time."""
    if request.node.get_closest_marker("parity") and importlib.util.find_spec("torch"):
        import torch

        torch.manual_seed(0)


@pytest.fixture(scope="session")
def real_sample():
    """A function that reads a sample, or skips the test if its file is not in the data folder."""

    def read(name):
        try:
            return tpugraphs.sample(name, download=False)
        except tpugraphs.DataError as error:
            pytest.skip(f"needs data of others: {error}")

    return read


@pytest.fixture(autouse=True)
def _restore_core():
    """A test may set threads and instruction set: the next one begins with those of before."""
    threads, level = _core.get_num_threads(), _core.get_isa()
    yield
    _core.set_num_threads(threads)
    _core.set_isa(level)
    # what lowers libgomp's own number, such as torch.set_num_threads(1), would limit all tests that follow
    assert _core.get_num_threads() == threads, "this test leaves a limit of threads behind"


class CLibrary:
    """The core as a static library, and programs of tests/clib that are linked with it."""

    def __init__(self, folder):
        self.root = Path(__file__).parents[1]
        self.library = self.root / "build" / "libtpugraphs.a"
        self.folder = folder
        self.library.parent.mkdir(exist_ok=True)
        with open(self.library.with_suffix(".lock"), "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # another worker may want it, too
            self._take_kernels()
            self._run("make", "-s", f"-j{os.cpu_count()}", "lib", "CC=gcc")

    def _take_kernels(self):
        """Take the largest objects, kernels of instruction sets, from the build of the package if they are current.

        They are the same sources by the same flags, and half a minute of the compiler. One is left to `make`.
        """
        for made in (self.root / "build").glob("temp.*/csrc/kernels/isa_*.o"):
            if made.stem == "isa_avx2":
                continue
            depends, command = (made.with_name(made.name + end).read_text() for end in (".d", ".command"))
            read = ["csrc/flags.mk", *depends.replace("\\\n", " ").split()[1:]]
            newest = max((self.root / name).stat().st_mtime for name in read)
            taken = self.root / "build" / "lib" / "csrc" / "kernels" / made.name
            if made.stat().st_mtime > newest and "TG_CHECKED" not in command and not taken.exists():
                taken.parent.mkdir(parents=True, exist_ok=True)
                taken.with_suffix(".d").write_text(depends.replace(depends.split(":")[0], str(taken), 1))
                shutil.copy(made, taken)

    def __call__(self, name):
        """The path of the program made of tests/clib/NAME.c."""
        source, made = self.root / "tests" / "clib" / f"{name}.c", self.folder / name
        warnings = ["-std=gnu11", "-Wall", "-Wextra", "-Werror", f"-I{self.root / 'csrc'}"]
        warnings += [f"-I{self.root / 'include'}"]
        self._run("gcc", *warnings, source, self.library, "-fopenmp", "-lm", "-o", made)
        return made

    def _run(self, *command):
        """Without what the sanitizers preload: the compiler is not what is tested."""
        plain = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
        done = subprocess.run(command, cwd=self.root, env=plain, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr


@pytest.fixture(scope="session")
def clib(tmp_path_factory):
    """The core without Python, made by `make lib`."""
    missing = [tool for tool in ("gcc", "make") if shutil.which(tool) is None]
    if missing:
        pytest.skip(f"needs {' and '.join(missing)}")
    return CLibrary(tmp_path_factory.mktemp("clib"))


def pytest_collection_modifyitems(config, items):
    """Leave slow tests out of a run of the whole suite; `-m slow`, `-k` and files by name run them."""
    option, whole = config.option, any(Path(argument).is_dir() for argument in config.args)
    left_out = {"slow"} if whole and not (option.markexpr or option.keyword) else set()
    if SANITIZED:
        left_out.add("values")
    dropped = [item for item in items if left_out.intersection(mark.name for mark in item.iter_markers())]
    if dropped:
        gone = set(dropped)
        items[:] = [item for item in items if item not in gone]
        config.hook.pytest_deselected(items=dropped)
    missing = [name for name in ("torch", "torch_geometric") if importlib.util.find_spec(name) is None]
    if not missing:
        return
    skip = pytest.mark.skip(reason=f"parity needs {' and '.join(missing)}: pip install '.[parity]'")
    for item in items:
        if item.get_closest_marker("parity"):
            item.add_marker(skip)
