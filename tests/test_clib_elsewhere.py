"""The C library by other compilers: for another processor under emulation, with another C library, with another OpenMP."""

import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from rankers import small_any
from test_clib_install import plain_scores
from test_clib_score import learnt, write_graph

import tpugraphs as tg

ROOT = Path(__file__).parents[1]
ARM = "aarch64-linux-gnu"
TOOLS = {f"{name}={ARM}-{tool}" for name, tool in [("LD", "ld"), ("AR", "ar"), ("OBJCOPY", "objcopy")]}
# Compiler; options of make and of linking a program; what runs it.
PLACES = {
    "aarch64": (f"{ARM}-gcc", ["SERIAL=1", *TOOLS], ["-lm"], ["qemu-aarch64-static", "-L", f"/usr/{ARM}"]),
    "musl": ("musl-gcc", ["SERIAL=1"], ["-lm", "-static"], []),
    "clang": ("clang", [], ["-fopenmp", "-lm", "-DOTHERS_ALLOCATE"], []),
}
PLAIN = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}


def run(*command):
    done = subprocess.run([*map(str, command)], cwd=ROOT, env=PLAIN, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def can_compile(compiler, options):
    command = [compiler, "-xc", "-", *options, "-o", "/dev/null"]
    text = "#ifdef _OPENMP\n#include <omp.h>\n#endif\nint main(void) { return 0; }\n"
    return subprocess.run(command, input=text, text=True, capture_output=True, env=PLAIN).returncode == 0


@pytest.fixture(scope="module", params=PLACES)
def program(request, tmp_path_factory):
    """How tests/clib/score.c runs there, with a library of one instruction set."""
    compiler, made, linked, by = PLACES[request.param]
    for tool in (compiler, *by[:1]):
        if shutil.which(tool) is None:
            pytest.skip(f"needs {tool}")
    if not can_compile(compiler, linked):
        pytest.skip(f"needs what {compiler} {' '.join(linked)} links")
    folder = tmp_path_factory.mktemp("there")
    run("make", "-s", f"-j{os.cpu_count()}", "install", "SMALL=1", "OPT=-Os", f"CC={compiler}", *made,
        f"LIB={folder}/lib", f"PREFIX={folder}")  # fmt: skip
    run(compiler, "-std=gnu11", "tests/clib/score.c", f"-I{folder}/include", folder / "lib/libtpugraphs.a",
        "-Wl,--gc-sections", "-lpthread", *linked, "-o", folder / "score")  # fmt: skip
    return [*by, folder / "score"]


def scores_there(program, folder, ranker, graph):
    ranker.save(folder / "ranker")
    write_graph(folder / "graph", graph)
    run(*program, folder / "ranker", folder / "graph", folder / "scores")
    return np.fromfile(folder / "scores", np.float32)


@pytest.mark.slow
@pytest.mark.parametrize(
    "recipe",
    ["graph-config", "first-layout-cross", "first-tile", "third-layout", "fourth-layout", "sixth-gin"],
)
def test_networks_score_as_here(program, tmp_path, recipe):
    ranker, graph = learnt(recipe)
    expected = plain_scores(ranker, graph)
    assert np.unique(expected).size > 9
    assert np.allclose(scores_there(program, tmp_path, ranker, graph), expected, 1e-4, 1e-4)


@pytest.mark.slow
def test_processes_score_as_here(program, tmp_path):
    graph = small_any(0, configs=60)
    process = tg.ranker.GaussianProcess().fit(graph, range(40))
    assert np.allclose(scores_there(program, tmp_path, process, graph), process.predict(graph), 1e-5, 1e-5)
