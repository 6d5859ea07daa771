"""The core without Python: `make lib` compiles csrc but py/ into a library, and a C program that links it runs a model."""

import re
import subprocess
from pathlib import Path

import numpy as np
import pytest
from models import step
from rankers import same_as_the_library

from tpugraphs import _core

ROOT = Path(__file__).parents[1]
NODES, COLUMNS, CONFIGS = 5, 4, 3


def test_a_program_runs_a_model(clib):
    """tests/clib/model.c, which makes the same model and graph."""
    steps = [
        step("config_linear", "config", "node_feat", "c", out=6),
        step("sage", "sage", "c", "s", out=6),
        step("pool", "pool", "s", "y"),
        step("linear", "out", "y", "scores", out=1),
    ]
    graph = _core.ModelGraph(
        (np.arange(NODES * COLUMNS, dtype=np.float32) / 8 - 1).reshape(NODES, COLUMNS),
        None,
        None,
        np.array([[i, i + 1] for i in range(NODES - 1)]),
        np.array([1, 3]),
        (np.arange(CONFIGS * 2 * 18) % 7 - 1).astype(np.int8).reshape(CONFIGS, 2, 18),
    )
    (expected,) = _core.Model(steps, 7, COLUMNS).scores([(graph, np.arange(CONFIGS))])
    done = subprocess.run([clib("model")], capture_output=True, text=True, check=True)
    assert same_as_the_library([float.fromhex(line) for line in done.stdout.split()], expected)


def test_the_library_needs_no_python(clib):
    """No symbol of Python's or NumPy's is asked for, and no header of theirs was read."""
    library = clib.library
    undefined = subprocess.run(["nm", "-u", library], capture_output=True, text=True, check=True).stdout
    assert re.search(r"\bU malloc\b", undefined)
    assert not re.findall(r"\bU (_?Py\w+|tpugraphs_array_api)", undefined)
    read = [path.read_text() for path in (library.parent / "lib").rglob("*.d")]
    assert len(read) > 60
    assert not [text for text in read if re.search(r"/Python\.h|numpy/|csrc/py/", text)]


IDLE, BUSY = (1.0, 1.8), (2.0, 1.1)  # seconds of a pass on all threads, and on one


@pytest.mark.parametrize("noise", [0, 0.2])
def test_small_passes_take_as_many_threads_as_serve(clib, noise):
    """A neighbour comes after 3,000 passes and leaves after 6,000 (tests/clib/pace.c)."""
    rng = np.random.default_rng(0)
    times = np.array([IDLE] * 3000 + [BUSY] * 3000 + [IDLE] * 3000)
    times *= 1 + noise * rng.random(times.shape)
    lines = "\n".join(f"{both} {one}" for both, one in times)
    done = subprocess.run([clib("pace")], input=lines, capture_output=True, text=True, check=True)
    one = np.array(done.stdout.split(), int)
    assert len(one) == len(times)
    assert 0 < one[:3000].mean() < 0.02
    assert one[3060:6000].mean() > 0.95
    assert one[7100:].mean() < 0.02
    taken = times[np.arange(len(one)), one].sum()
    assert taken < 1.1 * times.min(axis=1).sum()
