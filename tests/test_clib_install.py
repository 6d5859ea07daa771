"""The C library as others get it: installed from the sources, found by pkg-config or CMake, used through its header."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from rankers import ANY, same_as_the_library, small_any, small_ranker

import tpugraphs as tg

ROOT = Path(__file__).parents[1]
PLAIN = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
STRICT = ["-pedantic", "-Wall", "-Wextra", "-Werror"]


def run(*command, **options):
    """What a command says."""
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, env=PLAIN, **options)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def installed(clib, tmp_path_factory):
    """A folder that `make install` has filled."""
    prefix = tmp_path_factory.mktemp("prefix")
    run("make", "-s", f"-j{os.cpu_count()}", "install", f"PREFIX={prefix}", "CC=gcc", cwd=ROOT)
    return prefix


def flags(prefix, *asked):
    """What pkg-config says; without it, the same by hand."""
    if shutil.which("pkg-config") is None:
        static = ["-lgomp", "-lm", "-lpthread"] if "--static" in asked else []
        return [f"-I{prefix}/include", f"-L{prefix}/lib", "-ltpugraphs", *static]
    path = {"PKG_CONFIG_PATH": f"{prefix}/lib/pkgconfig", "PATH": PLAIN["PATH"]}
    done = subprocess.run(
        ["pkg-config", *asked, "--cflags", "--libs", "tpugraphs"], env=path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.fixture(scope="module")
def ranker(tmp_path_factory):
    """A ranker of graphs with the features that the examples set, and its file."""
    ranker = small_ranker("graph-config", steps=6)
    ranker.fit([small_any(seed) for seed in range(3)])
    path = tmp_path_factory.mktemp("ranker") / "ranker.tgr"
    ranker.save(path)
    return ranker, path


def example_graph():
    """What examples/embed.c builds; what it leaves out is the mean or the commonest value in training."""
    seen = [small_any(seed) for seed in range(3)]
    i = np.arange(1000)
    orders = np.bincount(np.concatenate([one.config_feat[:, 3] for one in seen]).astype(int))
    order = np.where(i % 3 == 0, 2, orders.argmax())
    fast = float(np.mean([one.graph_feat[1] for one in seen]) >= 0.5)
    return tg.Graph(
        node_feat=np.stack([4.0 ** np.arange(5), np.ones(5)], 1),
        node_opcode=np.arange(5) % 3,
        edge_index=np.stack([np.arange(1, 5), np.arange(4)], 1),
        graph_feat=np.array([32.0, fast]),
        config_feat=np.stack([2.0 ** (i % 9), 1.0 + i % 8, i % 2, order], 1),
        schema=ANY,
    )


def advised(loop):
    """What examples/mlgo.cpp asks about a loop: one node without features, four choices."""
    seen = [small_any(seed) for seed in range(3)]
    node, graph, config = (np.concatenate([getattr(one, name).reshape(-1, width) for one in seen])
                           for name, width in (("node_feat", 2), ("graph_feat", 2), ("config_feat", 4)))  # fmt: skip

    def log_mean(column):
        return np.float32(
            np.expm1(np.log1p(column.astype(np.float64)).astype(np.float32).astype(float).mean())
        )

    common = [np.bincount(column.astype(int)).argmax() for column in (node[:, 1], config[:, 3])]
    return tg.Graph(
        node_feat=np.array([[log_mean(node[:, 0]), common[0]]]),
        node_opcode=np.zeros(1, int),
        edge_index=np.zeros((0, 2), int),
        graph_feat=np.array([log_mean(graph[:, 0]), graph[:, 1].mean() >= 0.5]),
        config_feat=np.array([[2.0**loop, 2.0**i, config[:, 2].mean() >= 0.5, common[1]] for i in range(4)]),
        schema=ANY,
    )


def check_best(text, expected):
    """Lines of configs and scores are the first of the ranking, by bits."""
    best = np.argsort(expected, kind="stable")[:5]
    lines = [line.split() for line in text.splitlines()]
    assert [int(config) for config, _ in lines] == best.tolist()
    assert same_as_the_library([float.fromhex(score) for _, score in lines], expected[best])


COMPILERS = [c for c in ("gcc", "clang") if shutil.which(c)]


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("how", ["shared", "static"])
def test_the_example_gives_the_scores_of_python(installed, ranker, tmp_path, compiler, how):
    """In an empty folder, against what is installed; strict C99."""
    shutil.copy(ROOT / "examples" / "embed.c", tmp_path)
    static, how = how == "static", flags(installed, *(["--static"] if how == "static" else []))
    if static:
        how = [str(installed / "lib" / "libtpugraphs.a") if f == "-ltpugraphs" else f for f in how]
    run(
        compiler,
        "-std=c99",
        *STRICT,
        "embed.c",
        "-o",
        "embed",
        *how,
        f"-Wl,-rpath,{installed}/lib",
        cwd=tmp_path,
    )
    check_best(run(tmp_path / "embed", ranker[1]), ranker[0].predict(example_graph()))


@pytest.mark.parametrize("compiler", [c for c in ("g++", "clang++") if shutil.which(c)])
def test_the_example_in_cpp_gives_the_same(installed, ranker, tmp_path, compiler):
    source = ROOT / "examples" / "embed.cpp"
    command = [compiler, "-std=c++11", *STRICT, source, "-o", "embed", *flags(installed)]
    run(*command, f"-Wl,-rpath,{installed}/lib", cwd=tmp_path)
    check_best(run(tmp_path / "embed", ranker[1]), ranker[0].predict(example_graph()))


@pytest.mark.skipif(shutil.which("cmake") is None, reason="needs CMake")
def test_cmake_finds_it(installed, ranker, tmp_path):
    """All examples; the advisor takes the first choice unless another is better by the margin."""
    run("cmake", "-S", ROOT / "examples", "-B", tmp_path, f"-DCMAKE_PREFIX_PATH={installed}")
    run("cmake", "--build", tmp_path)
    expected = ranker[0].predict(example_graph())
    for name in ("embed_c", "embed_cpp", "embed_static"):
        check_best(run(tmp_path / name, ranker[1]), expected)
    lines = [line.split() for line in run(tmp_path / "mlgo_cpp", ranker[1]).splitlines()]
    for loop, (number, choice, first, taken) in enumerate(lines):
        scores = ranker[0].predict(advised(loop))
        best = int(scores.argmin())
        expected = best if np.float64(scores[0]) - np.float64(scores[best]) > 0.001 else 0
        assert (int(number), int(choice)) == (loop, expected)
        assert same_as_the_library([float.fromhex(first), float.fromhex(taken)], scores[[0, expected]])


def test_nothing_but_the_header_is_shown(installed):
    """Neither library exports what the header does not declare, and both export all of it."""
    header = (ROOT / "include" / "tpugraphs.h").read_text()
    declared = set(re.findall(r"^TG_API [^;(]*?\b(tg_\w+)\(", header, re.M))
    assert len(declared) > 25
    for name, options in (("libtpugraphs.so", ["-D"]), ("libtpugraphs.a", ["-g"])):
        shown = run("nm", *options, "--defined-only", installed / "lib" / name)
        assert {line.split()[2] for line in shown.splitlines() if len(line.split()) == 3} == declared


def test_the_library_has_a_soname(installed):
    dynamic = run("readelf", "-d", installed / "lib" / "libtpugraphs.so")
    assert "soname: [libtpugraphs.so.1]" in dynamic
    asked = run("nm", "-D", "--undefined-only", installed / "lib" / "libtpugraphs.so")
    assert not re.findall(r"\b(abort|exit|_exit|printf|puts|fputs|fprintf|perror|__assert_fail)\b", asked)
