"""The C library as others get it: installed from the sources, found by pkg-config or CMake, used through its header."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from rankers import ANY, SMALL_GRAPHS, networks, same_as_the_library, small_any, small_ranker
from test_clib_score import learnt, scores_of, write_graph

import tpugraphs as tg
from tpugraphs import _core
from tpugraphs.cli import main
from tpugraphs.recipes import get_recipe

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


@pytest.mark.skipif(shutil.which("rustc") is None, reason="needs Rust")
def test_the_example_in_rust_gives_the_same(installed, ranker, tmp_path):
    command = ["rustc", "--edition", "2021", "-D", "warnings", ROOT / "examples" / "embed.rs", "-o", "embed"]
    command += [
        "-L",
        f"native={installed}/lib",
        "-l",
        "tpugraphs",
        "-C",
        f"link-arg=-Wl,-rpath,{installed}/lib",
    ]
    run(*command, cwd=tmp_path)
    lines = [line.split() for line in run(tmp_path / "embed", ranker[1]).splitlines()]
    check_best("\n".join(f"{i} {float(x).hex()}" for i, x in lines), ranker[0].predict(example_graph()))


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


EMBEDDED = """
#include <stdio.h>
#include "job.h"
extern const tg_embedded one, changed;
int main(int argc, char **argv) {
    tg_ranker *ranker;
    tg_message message = TG_MESSAGE;
    job j;
    if (argc != 3 || !read_job(argv[1], &j)) return failed("usage");
    if (tg_ranker_open_embedded(&one, NULL, &ranker, &message) != TG_OK) return failed(message.text);
    float *scores = malloc(sizeof *scores * (size_t)j.configs.count);
    if (tg_ranker_score(ranker, &j.graph, &j.configs, scores, &message) != TG_OK) return failed(message.text);
    FILE *file = fopen(argv[2], "wb");
    fwrite(scores, sizeof *scores, (size_t)j.configs.count, file);
    fclose(file);
    tg_ranker_close(ranker);
    tg_embedded other = one;
    other.checksum++;
    if (tg_ranker_open_embedded(&other, NULL, &ranker, &message) != TG_E_CHECKPOINT) return failed("checksum");
    other = one, other.version++;
    if (tg_ranker_open_embedded(&other, NULL, &ranker, &message) != TG_E_CHECKPOINT) return failed("version");
    free(scores);
    free(j.bytes);
    return 0;
}
"""


def process(name):
    """A Gaussian process of one program with the scores of a network as a column, or one over programs."""
    if name == "tasks":
        return tg.ranker.MultiTaskGaussianProcess().fit([small_any(0), small_any(1)])
    base = small_ranker("graph-config", steps=3).fit([small_any(0), small_any(1)])
    return tg.ranker.GaussianProcess(base).fit(small_any(3))


@pytest.mark.parametrize(
    "recipe",
    ["graph-config", "first-tile", "first-layout", "sixth-gin", "eighth-lightgbm", "process", "tasks"],
)
def test_embedded_rankers_score_as_their_files_do(installed, tmp_path, recipe):
    """`tpugraphs embed` writes strict C99; what it has written is whole, or refused."""
    if recipe in ("process", "tasks"):
        ranker, make = process(recipe), small_any
    elif "lightgbm" in recipe:
        pytest.importorskip("lightgbm", reason="needs the extra [lightgbm]")
        ranker = tg.Ranker(recipe, steps=7, num_leaves=9, min_data_in_leaf=2)
        make = small_any
    else:
        ranker, make = small_ranker(recipe, steps=3), SMALL_GRAPHS[get_recipe(recipe).kind]
    if not ranker.fitted:
        ranker.fit([make(0), make(1)])
    ranker.save(tmp_path / "ranker.tgr")
    assert (
        main(["embed", str(tmp_path / "ranker.tgr"), "--out", str(tmp_path / "model.c"), "--name", "one"])
        == 0
    )
    graph = make(3)
    write_graph(tmp_path / "graph", graph)
    (tmp_path / "main.c").write_text(EMBEDDED.replace(", changed", ""))
    run("gcc", "-std=c99", *STRICT, "-c", "model.c", f"-I{installed}/include", cwd=tmp_path)
    command = [
        "gcc",
        "-std=gnu11",
        "main.c",
        "model.o",
        f"-I{ROOT}/tests/clib",
        "-o",
        "main",
        *flags(installed),
    ]
    run(*command, f"-Wl,-rpath,{installed}/lib", cwd=tmp_path)
    run(tmp_path / "main", tmp_path / "graph", tmp_path / "scores")
    scores = np.fromfile(tmp_path / "scores", np.float32)
    if recipe in ("process", "tasks"):  # whose sums have another order
        assert np.allclose(scores, ranker.predict(graph), 1e-5, 1e-5)
    else:
        assert same_as_the_library(scores, ranker.predict(graph))


def test_names_that_c_does_not_have_are_refused(ranker, tmp_path, capsys):
    assert main(["embed", str(ranker[1]), "--out", str(tmp_path / "m.c"), "--name", "9 lives"]) == 2
    assert "--name: expected a name of C" in capsys.readouterr().err


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """What `tpugraphs clib --serial --small` installs: in a checkout from its own sources, else from the package's."""
    prefix = tmp_path_factory.mktemp("small")
    assert main(["clib", "--prefix", str(prefix), "--serial", "--small", "--quiet"]) == 0
    return prefix


def score_program(prefix, made):
    """tests/clib/score.c with a library of one instruction set."""
    run("gcc", "-std=gnu11", ROOT / "tests/clib/score.c", f"-I{prefix}/include", prefix / "lib/libtpugraphs.a",
        "-Wl,--gc-sections", "-lm", "-lpthread", "-o", made)  # fmt: skip
    return made


def plain_scores(ranker, graph):
    """Those of Python with the kernels of the plainest processor, as a small library has them."""
    level = _core.get_isa()
    _core.set_isa("baseline")
    try:
        return ranker.predict(graph)
    finally:
        _core.set_isa(level)


@pytest.fixture(scope="module")
def small_program(small, tmp_path_factory):
    return score_program(small, tmp_path_factory.mktemp("program") / "score")


@pytest.mark.slow
@pytest.mark.parametrize("recipe", networks())
def test_a_small_library_scores_every_network(small_program, tmp_path, recipe):
    """It has no kernel of training, and those of the plainest processor: then Python gives the same bits, too."""
    ranker, graph = learnt(recipe)
    expected = plain_scores(ranker, graph)
    scores = scores_of(small_program, tmp_path, ranker, graph)
    assert np.allclose(scores, expected, 1e-4, 1e-4)
    if _core.isa_levels()[-1] == "baseline":
        assert same_as_the_library(scores, expected)


@pytest.mark.slow
def test_a_library_for_one_ranker_is_smaller(ranker, small, tmp_path):
    """It scores with that ranker, embedded in it or not, and says of another what it lacks."""
    main(["clib", "--prefix", str(tmp_path), "--serial", "--only", str(ranker[1]), "--quiet"])
    main(["embed", str(ranker[1]), "--out", str(tmp_path / "model.c"), "--quiet"])
    run("gcc", "-c", tmp_path / "model.c", f"-I{tmp_path}/include", "-o", tmp_path / "model.o")
    size = (tmp_path / "lib" / "libtpugraphs.so").stat().st_size
    assert size + (tmp_path / "model.o").stat().st_size < 250_000
    assert size < (small / "lib" / "libtpugraphs.so").stat().st_size * 0.6
    run("gcc", ROOT / "examples/embed.c", f"-I{tmp_path}/include", tmp_path / "lib/libtpugraphs.a", "-lm", "-lpthread",
        "-o", tmp_path / "embed")  # fmt: skip
    expected = plain_scores(ranker[0], example_graph())
    lines = run(tmp_path / "embed", ranker[1]).split()
    assert np.allclose([float.fromhex(score) for score in lines[1::2]], np.sort(expected)[:5], 1e-4, 1e-4)
    other, _ = learnt("first-layout")
    other.save(tmp_path / "other.tgr")
    refused = subprocess.run(
        [tmp_path / "embed", tmp_path / "other.tgr"], capture_output=True, text=True, env=PLAIN
    )
    assert refused.returncode == 1 and "other.tgr: " in refused.stderr


@pytest.mark.slow
def test_kernels_that_are_mostly_for_training_stay_where_scores_need_them(tmp_path):
    """Pairs of columns are summed by outer products, as the gradients of other ops are."""
    ranker, graph = learnt("fourth-layout")
    ranker.save(tmp_path / "ranker.tgr")
    main(["clib", "--prefix", str(tmp_path), "--serial", "--only", str(tmp_path / "ranker.tgr"), "--quiet"])
    scores = scores_of(score_program(tmp_path, tmp_path / "score"), tmp_path, ranker, graph)
    assert np.allclose(scores, plain_scores(ranker, graph), 1e-4, 1e-4)


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
