"""The promises of docs/c-library.md about memory, threads, arguments and names: tests/clib/promises.c keeps each of them."""

import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from rankers import small_any, small_graph, small_ranker, small_tile
from test_clib_score import run, write_graph

from tpugraphs.data.schema import LAYOUT, TILE

ROOT = Path(__file__).parents[1]
GRAPHS = {
    "first-layout": lambda seed, **more: small_graph(seed, **{"nodes": 60, "config_nodes": 9, **more}),
    "first-tile": small_tile,
    "graph-config": small_any,
}
GROUPS = ("node", "graph", "config", "digits")


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Rankers and a graph for each; the last is large enough for several threads."""
    folder = tmp_path_factory.mktemp("promises")
    for recipe, make in GRAPHS.items():
        ranker = small_ranker(recipe, steps=3)
        ranker.fit([make(seed) for seed in range(3)])
        ranker.save(folder / f"{recipe}.tgr")
        write_graph(folder / f"{recipe}.graph", make(3, configs=300))
        if recipe == "first-layout":
            ranker.save(folder / "large.tgr")
            write_graph(folder / "large.graph", make(3, nodes=2000, config_nodes=9))
    return folder


def kept(program, files, word, recipe):
    """What a promise prints, once it is kept."""
    done = run(program, word, files / f"{recipe}.tgr", files / f"{recipe}.graph")
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.parametrize("recipe", GRAPHS)
@pytest.mark.parametrize("word", ["memory", "many", "arguments", "bytes"])
def test_promises_are_kept(clib, files, word, recipe):
    assert kept(clib("promises"), files, word, recipe) == ""


def test_scores_do_not_depend_on_threads(clib, files):
    assert kept(clib("promises"), files, "spread", "large") == ""


def test_a_session_in_use_says_so(clib, files):
    assert kept(clib("promises"), files, "busy", "large") == ""


def test_configs_come_and_go(clib, files):
    assert kept(clib("promises"), files, "changes", "graph-config") == ""


@pytest.mark.parametrize("recipe", GRAPHS)
def test_names_are_those_of_the_schema(clib, files, recipe):
    """And means those of the training graphs, as the builder puts them in."""
    schema = {"first-layout": LAYOUT, "first-tile": TILE}.get(recipe, small_any().schema)
    lines = [line.split(" ") for line in kept(clib("promises"), files, "names", recipe).splitlines()]
    expected = [(str(g), one.name) for g, group in enumerate(GROUPS) for one in getattr(schema, group)]
    assert [(group, name) for group, name, _ in lines] == expected
    fill = {(group, name): float(value) for group, name, value in lines}
    seen = [GRAPHS[recipe](seed) for seed in range(3)]
    if recipe == "graph-config":
        config = np.concatenate([graph.config_feat for graph in seen]).astype(np.float64)
        assert np.isclose(fill["2", "block"], np.expm1(np.log1p(config[:, 0]).mean()), rtol=1e-5)
        assert np.isclose(fill["2", "unroll"], config[:, 1].mean(), rtol=1e-5)
        assert fill["2", "vector"] == (config[:, 2].mean() >= 0.5)
        assert fill["2", "order"] == np.bincount(config[:, 3].astype(int)).argmax()
    else:
        assert any(value != 0 for (group, _), value in fill.items() if group == "0")
    if recipe == "first-layout":
        assert {value for (group, _), value in fill.items() if group == "3"} == {-1}


def test_a_report_says_what_lies_outside(clib, tmp_path):
    """The same numbers from the training graphs themselves."""
    ranker = small_ranker("graph-config", steps=3)
    seen = [small_any(seed) for seed in range(3)]
    ranker.fit(seen)
    ranker.save(tmp_path / "one.tgr")
    graph = small_any(1)
    graph = graph.replace(graph_feat=np.array([1e9, 1.0], np.float32))
    write_graph(tmp_path / "one.graph", graph)
    said = kept(clib("promises"), tmp_path, "report", "one").splitlines()
    squares, values, most = 0.0, 0, {}
    for group in ("node_feat", "graph_feat", "config_feat"):
        stack = np.concatenate([np.atleast_2d(getattr(one, group)) for one in seen]).astype(np.float64)
        mine = np.atleast_2d(getattr(graph, group)).astype(np.float64)
        for c, column in enumerate(getattr(graph.schema, group.removesuffix("_feat"))):
            if column.kind == "category":
                continue
            past, now = ((np.log1p(x[:, c]) if column.kind == "log" else x[:, c]) for x in (stack, mine))
            z = np.abs(now - past.mean()) / past.std()
            squares, values = squares + (z**2).sum(), values + z.size
            most[column.name] = z.max()
    columns, outside, name, farthest, distance = said[0].split()
    assert (columns, outside, name) == ("8", str(sum(z > 6 for z in most.values())), "batch")
    assert np.isclose(float(farthest), most["batch"], rtol=1e-4)
    assert np.isclose(float(distance), (squares / values) ** 0.5, rtol=1e-4)
    assert said[1].split()[0] == "4" and float(said[1].split()[4]) > float(distance)
    order = np.argsort(ranker.predict(graph), kind="stable")[:5]
    assert [int(line) for line in said[2:]] == order.tolist()


@pytest.mark.slow
@pytest.mark.skipif("libasan" in os.environ.get("LD_PRELOAD", ""), reason="has sanitizers of its own")
@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")
@pytest.mark.parametrize("sanitizer", ["address,undefined", "thread"])
def test_sanitizers_find_nothing(files, tmp_path, sanitizer):
    """The library without OpenMP, compiled with its checks; eight threads score at once."""
    library = ROOT / "build" / f"lib-{sanitizer[:6]}"
    done = subprocess.run(
        ["make", "-s", "-j2", "lib", "CC=gcc", "SERIAL=1", "SMALL=1", f"OPT=-O1 -g -fsanitize={sanitizer}",
         f"LIB={library}", f"LIBRARY={library}/lib.a"],
        cwd=ROOT, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    command = ["gcc", "-std=gnu11", "-g", f"-fsanitize={sanitizer}", f"-I{ROOT}/include"]
    command += [
        ROOT / "tests/clib/promises.c",
        library / "lib.a",
        "-lm",
        "-lpthread",
        "-o",
        tmp_path / "program",
    ]
    done = run(*command)
    assert done.returncode == 0, done.stderr
    graph = files / "first-layout.tgpack"
    GRAPHS["first-layout"](3).save(graph)
    read = [str(one).replace("promises.c", "read.c").replace("/program", "/read") for one in command]
    assert run(*read).returncode == 0
    done = run(tmp_path / "read", files / "first-layout.tgr", graph, tmp_path / "scores")  # also not aligned
    assert (done.returncode, done.stderr) == (0, "")
    words = ["many"] if sanitizer == "thread" else ["many", "memory", "arguments", "bytes", "names"]
    for word in words:
        for recipe in GRAPHS:
            kept(tmp_path / "program", files, word, recipe)
