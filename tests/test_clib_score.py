"""The core without Python: compiled by hand, it opens ranker files and gives the scores of `predict`."""

import json
import os
import shutil
import subprocess
from dataclasses import replace

import numpy as np
import pytest
from rankers import (
    SMALL_GRAPHS,
    networks,
    same_as_the_library,
    small_any,
    small_graph,
    small_ranker,
    small_tile,
)
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

import tpugraphs as tg
from tpugraphs import recipes
from tpugraphs.data.schema import Digit, Schema
from tpugraphs.recipes import get_recipe
from tpugraphs.system.tensorfile import with_digests


def run(*command):
    """What a program says; it is not what the sanitizers preload that is tested."""
    plain = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, env=plain, check=False)


@pytest.fixture(scope="module")
def program(clib):
    """tests/clib/score.c, linked with csrc without py/."""
    return clib("score")


def write_graph(path, graph):
    """The arrays of a graph as score.c reads them."""
    ids = np.asarray(getattr(graph, "node_config_ids", np.zeros(0)), np.int64)
    whole = getattr(graph, "graph_feat", None)
    whole = np.zeros(0, np.float32) if whole is None else whole
    feat = np.zeros((0, 0), np.float32) if graph.config_feat is None else graph.config_feat
    digits = graph.digits_of(slice(None) if len(ids) else [])
    opcode = np.zeros(0, np.uint8) if graph.node_opcode is None else graph.node_opcode
    sizes = [*graph.node_feat.shape, len(graph.edge_index), len(ids), whole.size]
    sizes += [graph.num_configs, (digits if len(ids) else feat).shape[-1]]
    sizes += [graph.node_opcode is not None, feat.shape[-1] if len(ids) else 0]
    arrays = [np.array(sizes, np.int64), graph.edge_index, ids, graph.node_feat, whole, feat, digits, opcode]
    path.write_bytes(b"".join(np.ascontiguousarray(array).tobytes() for array in arrays))


def scores_of(program, folder, ranker, graph):
    ranker.save(folder / "ranker")
    write_graph(folder / "graph", graph)
    done = run(program, folder / "ranker", folder / "graph", folder / "scores")
    assert (done.returncode, done.stderr) == (0, "")
    return np.fromfile(folder / "scores", np.float32)


def learnt(recipe, **fields):
    """A ranker that has seen three graphs, and one that it has not."""
    make = SMALL_GRAPHS[get_recipe(recipe).kind]
    ranker = small_ranker(recipe, steps=3, **fields)
    ranker.fit([make(0), make(1), make(2)])
    return ranker, make(3, configs=77)


@pytest.mark.parametrize("recipe", networks())
def test_the_scores_are_those_of_predict(program, tmp_path, recipe):
    ranker, graph = learnt(recipe)
    expected = ranker.predict(graph)
    assert np.unique(expected).size > 30
    assert same_as_the_library(scores_of(program, tmp_path, ranker, graph), expected)


@pytest.mark.parametrize(
    "fields",
    [{"precision": "bf16"}, {"chunk": 5}, {"prune": "none"}, {"prune": "none", "segment": 4}, {"segment": 2}],
)
def test_they_follow_the_fields(program, tmp_path, fields):
    ranker, graph = learnt("first-layout-cross", **fields)
    assert same_as_the_library(scores_of(program, tmp_path, ranker, graph), ranker.predict(graph))


PREPARED = [
    {"step": "virtual-node"},
    {"step": "prune", "method": "merge", "neighbours": "dummies"},
    {"step": "layout-digits"},
    {"step": "mod-features"},
    {"step": "log-columns", "form": "signed", "columns": [21, 22, 150]},
    {"step": "operand-shapes"},
    {"step": "take-columns", "columns": list(range(3, 137))},
    {"step": "standardize", "columns": 134},
    {"step": "merge-opcodes"},
]


@pytest.fixture
def prepared():
    """A recipe whose preprocessing has lists of numbers, and makes nodes."""
    recipe = replace(get_recipe("first-layout"), name="prepared", preprocessing=lambda fields: PREPARED)
    recipes.register(recipe)
    yield "prepared"
    recipes.unregister("prepared")


def test_steps_with_lists_are_those_of_the_library(program, tmp_path, prepared):
    ranker, graph = learnt(prepared)
    assert same_as_the_library(scores_of(program, tmp_path, ranker, graph), ranker.predict(graph))


@pytest.mark.parametrize("recipe", ["first-layout", "seventh-gst"])
def test_segments_of_large_graphs_are_cut_into_the_same_chunks(program, tmp_path, recipe):
    """Of the last segment, 24 configs would be fastest in one pass; of the first, 23."""
    ranker = small_ranker(recipe, steps=2, prune="none", segment=400)
    graph = small_graph(1, configs=60, nodes=682, config_nodes=9)
    ranker.fit([small_graph(0, nodes=500), graph])
    assert [one.num_nodes for one in ranker.network.prepare(graph).cuts] == [342, 340]
    assert ranker.model.chunk_size(128, 342) != ranker.model.chunk_size(128, 340)
    assert same_as_the_library(scores_of(program, tmp_path, ranker, graph), ranker.predict(graph))


def with_digits(seed, configs=40, **changes):
    """A program whose nodes have digits of a schema of its own."""
    rng = np.random.default_rng(seed)
    digits = np.stack([rng.integers(-1, 4, (configs, 2)), rng.integers(-1, 2, (configs, 2))], 2)
    given = {
        "config_feat": None, "node_config_ids": np.array([1, 3]), "node_config_feat": digits.astype(np.int8),
        "runtime": 9.0 + digits.sum((1, 2)) + rng.uniform(0, 0.1, configs), "graph_feat": None,
        "schema": Schema(node=small_any().schema.node, opcodes=7, unit="ms",
                         digits=(Digit("unroll", 4), Digit("order", 2))),
    }  # fmt: skip
    return small_any(seed, configs, **{**given, **changes})


def test_digits_of_a_schema_are_scored_and_checked(program, tmp_path):
    ranker = small_ranker("graph-config", steps=3)
    ranker.fit([with_digits(0), with_digits(1)])
    graph = with_digits(2)
    assert same_as_the_library(scores_of(program, tmp_path, ranker, graph), ranker.predict(graph))
    raw = (tmp_path / "graph").read_bytes()
    last = raw[: len(raw) - graph.num_nodes - 1]  # before the opcodes: the second digit of the last node
    (tmp_path / "graph").write_bytes(last + b"\3" + raw[len(last) + 1 :])
    done = run(program, tmp_path / "ranker", tmp_path / "graph", tmp_path / "scores")
    assert done.returncode == 1
    assert done.stderr == "configs: expected digits that the schema has, found 3 in column 1 of config 39\n"


def test_one_digit_per_node_is_scored(program, tmp_path):
    def make(seed):
        whole = with_digits(seed)
        schema = Schema(**{**vars(whole.schema), "digits": whole.schema.digits[:1]})
        return whole.replace(node_config_feat=whole.config_digits[..., :1].copy(), schema=schema)

    ranker = small_ranker("graph-config", steps=3)
    ranker.fit([make(0), make(1)])
    expected = ranker.predict(make(2))
    assert np.unique(expected).size > 9
    assert same_as_the_library(scores_of(program, tmp_path, ranker, make(2)), expected)


def test_digits_and_features_are_scored_together(program, tmp_path):
    ranker = small_ranker("graph-config", steps=3)
    ranker.fit([both(0), both(1)])
    graph = both(2)
    assert same_as_the_library(scores_of(program, tmp_path, ranker, graph), ranker.predict(graph))
    write_graph(tmp_path / "graph", with_digits(2))
    done = run(program, tmp_path / "ranker", tmp_path / "graph", tmp_path / "scores")
    assert done.returncode == 1 and done.stderr.endswith("found no features of configs\n")


def both(seed, **changes):
    """A program whose configs are digits and features, with features of its own."""
    schema = Schema(**{**vars(with_digits(seed).schema), "config": small_any().schema.config})
    return with_digits(seed, config_feat=small_any(seed, 40).config_feat, schema=schema, **changes)


@pytest.mark.parametrize("make", [*SMALL_GRAPHS.values(), with_digits, both])
def test_trees_score_as_predict_does(program, tmp_path, make):
    pytest.importorskip("lightgbm", reason="needs the extra [lightgbm]")
    sizes = (
        {"nodes": 20, "config_nodes": 6} if make is small_graph else {}
    )  # then there are trees of two sizes
    ranker = tg.Ranker("eighth-lightgbm", steps=9, num_leaves=9, min_data_in_leaf=2)
    ranker.fit([make(0), make(1, **sizes)], verbose=False)
    for graph in (make(2), make(3, **sizes)):
        expected = ranker.predict(graph)
        assert np.unique(expected).size > 9
        assert same_as_the_library(scores_of(program, tmp_path, ranker, graph), expected)


@pytest.mark.parametrize("fields", [{}, {"references": 7, "bins": 3, "seed": 5}])
def test_trees_that_compare_configs_score_as_predict_does(program, tmp_path, fields):
    pytest.importorskip("lightgbm", reason="needs the extra [lightgbm]")
    ranker = tg.Ranker("eleventh-lightgbm", steps=9, num_leaves=9, min_data_in_leaf=2, **fields)

    def make(seed, **changes):
        graph = small_graph(seed, **changes)
        opcode, ids = graph.node_opcode.copy(), graph.node_config_ids
        opcode[ids] = np.random.default_rng(seed).choice([26, 34, 75], len(ids))
        return graph.replace(node_opcode=opcode)

    ranker.fit([make(0), make(1)], verbose=False)
    graph = make(3, configs=300, nodes=30, config_nodes=6)
    expected = ranker.predict(graph)
    assert np.unique(expected).size > 30
    assert same_as_the_library(scores_of(program, tmp_path, ranker, graph), expected)
    good = (tmp_path / "graph").read_bytes()
    wrong = good[:72] + np.int64(99).tobytes() + good[80:]
    assert refused(program, tmp_path, wrong, "graph").startswith("edge_index: expected")


def test_trees_that_c_programs_cannot_score_with_are_refused(program, tmp_path):
    pytest.importorskip("lightgbm", reason="needs the extra [lightgbm]")
    write_graph(tmp_path / "graph", small_tile())
    ranker = tg.Ranker("eighth-lightgbm", steps=2).fit(small_graph(), verbose=False)
    ranker.save(tmp_path / "good")
    shutil.copy(tmp_path / "good", tmp_path / "ranker")
    content = (tmp_path / "graph").read_bytes()
    expected = "configs: expected configs of the kind that the ranker learnt from, found others\n"
    assert refused(program, tmp_path, content, "graph") == expected
    write_graph(tmp_path / "graph", small_graph())
    wrong = {
        **json.loads(safe_metadata(tmp_path / "good"))["boosters"][0],
        "trees": "tree\nversion=v9\nTree=0",
    }
    for metadata, words in (
        ({"rounds": 0}, "rounds: expected a whole number in 1..1000000, found 0"),
        ({"boosters": []}, "boosters: expected a list of trees, found a list of 0"),
        ({"boosters": [3]}, "size: expected two whole numbers"),
        ({"boosters": [{**wrong, "width": 10**9}]}, "width: expected a whole number in"),
        ({"boosters": [wrong]}, "version: expected v2, v3 or v4"),
        ({"graphs": "none"}, "graphs: expected 'layout', 'tile' or 'graph'"),
        ({"recipe": "mine"}, "recipe: expected"),
        ({"recipe": "eleventh-lightgbm"}, "occurrence: expected false, found none"),
        (
            {"recipe": "eleventh-lightgbm", "fields": {"occurrence": False, "bins": 2, "references": 1}},
            "objective: expected binary",
        ),
    ):
        assert words in refused(program, tmp_path, changed(tmp_path, metadata))
    assert "0.columns: expected" in refused(program, tmp_path, changed(tmp_path, tensors=["0.columns"]))


def test_gaussian_processes_score(program, tmp_path):
    """In double precision, whose sums have another order in Python."""
    process = tg.ranker.GaussianProcess().fit(small_any(0, configs=60), range(40))
    graph = small_any(0, configs=60)
    expected = process.predict(graph)
    scores = scores_of(program, tmp_path, process, graph)
    assert np.unique(scores).size > 30
    assert np.allclose(scores, expected, 1e-6, 1e-6)
    assert (np.argsort(scores)[:5] == np.argsort(expected)[:5]).all()
    for count in (1, 7, 60):  # together, as Python chooses
        done = run(program, tmp_path / "ranker", tmp_path / "graph", tmp_path / "scores", str(count))
        assert [*map(int, done.stdout.split())] == process.choose(graph, count).tolist()


@pytest.mark.parametrize("recipe", ["graph-config", "eighth-lightgbm", "process"])
def test_processes_with_the_scores_of_a_base_score(program, tmp_path, recipe):
    graph = small_any(0, configs=60)
    if recipe == "process":
        inner = tg.ranker.GaussianProcess(learnt("graph-config")[0]).fit(graph, range(10))
        base = tg.ranker.GaussianProcess(inner).fit(graph, range(20))
    elif "lightgbm" in recipe:
        pytest.importorskip("lightgbm", reason="needs the extra [lightgbm]")
        base = tg.Ranker(recipe, steps=9, num_leaves=9, min_data_in_leaf=2).fit(small_any(1), verbose=False)
    else:
        base = learnt(recipe)[0]
    process = tg.ranker.GaussianProcess(base).fit(graph, range(40))
    scores, expected = scores_of(program, tmp_path, process, graph), process.predict(graph)
    assert np.unique(scores).size > 30
    assert np.allclose(scores, expected, 1e-5, 1e-5)
    assert not np.allclose(
        scores, tg.ranker.GaussianProcess().fit(graph, range(40)).predict(graph), 1e-3, 1e-3
    )
    done = run(program, tmp_path / "ranker", tmp_path / "graph", tmp_path / "scores", "5")
    assert [*map(int, done.stdout.split())] == process.choose(graph, 5).tolist()


def plain_programs(seed, **changes):
    """Described by their opcodes alone."""
    schema = Schema(config=small_any().schema.config, opcodes=7)
    return small_any(seed, graph_feat=None, node_feat=np.zeros((9, 0), np.float32), schema=schema, **changes)


@pytest.mark.parametrize("make", [small_any, plain_programs])
def test_processes_over_programs_score(program, tmp_path, make):
    process = tg.ranker.MultiTaskGaussianProcess().fit([make(seed) for seed in range(4)])
    graph = make(5, configs=60)
    scores, expected = scores_of(program, tmp_path, process, graph), process.predict(graph)
    assert np.unique(scores).size > 30
    assert np.allclose(scores, expected, 1e-5, 1e-5)
    assert np.abs(scores - process.predict(make(6, config_feat=graph.config_feat, configs=60))).max() > 1e-3
    shutil.copy(tmp_path / "ranker", tmp_path / "good")
    done = run(program, tmp_path / "ranker", tmp_path / "graph", tmp_path / "scores", "3")
    assert [*map(int, done.stdout.split())] == np.argsort(scores, kind="stable")[:3].tolist()
    for name in ("program", "program.column", "config.mean", "weight"):
        said = refused(program, tmp_path, changed(tmp_path, tensors=[name]))
        assert "expected" in said and name.split(".")[0] in said
    if make is plain_programs:
        shutil.copy(tmp_path / "good", tmp_path / "ranker")
        content = (tmp_path / "graph").read_bytes()
        said = refused(program, tmp_path, content[:-1] + b"\x07", "graph")
        assert said == "node_opcode: expected opcodes of the schema, found 7\n"


def test_what_is_inside_of_a_process_is_checked(program, tmp_path):
    graph = small_any(0, configs=60)
    process = tg.ranker.GaussianProcess(learnt("graph-config")[0]).fit(graph, range(40))
    write_graph(tmp_path / "graph", graph)
    process.save(tmp_path / "good")
    member = json.loads(safe_metadata(tmp_path / "good"))["members"][0]
    for members, words in (
        ([member, member], "members: expected a list of at most one base, found a list of 2"),
        (3, "members: expected a list of at most one base, found 3"),
        ([3], "feature_schema: expected 1, found none"),
        ([{**member, "kind": "ensemble"}], "members: expected a network, trees or a Gaussian process"),
        ([{**member, "steps": []}], "no step makes 'scores'"),
        ([], "column: expected"),
    ):
        assert words in refused(program, tmp_path, changed(tmp_path, {"members": members})), words
    assert "head.bias: expected" in refused(program, tmp_path, changed(tmp_path, tensors=["0.head.bias"]))
    for _ in range(3):
        process = tg.ranker.GaussianProcess(process).fit(graph, range(40))
    process.save(tmp_path / "ranker")
    content = (tmp_path / "ranker").read_bytes()
    assert "members: expected at most three rankers inside each other" in refused(program, tmp_path, content)


def refused(program, tmp_path, content, name="ranker"):
    """The one line that the program says about such a file, without the file's name."""
    (tmp_path / name).write_bytes(content)
    done = run(program, tmp_path / "ranker", tmp_path / "graph", tmp_path / "scores")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    if name == "graph":
        return done.stderr
    assert done.stderr.startswith(f"{tmp_path / 'ranker'}"[:200])
    return done.stderr


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A folder with a ranker file and a graph."""
    folder = tmp_path_factory.mktemp("saved")
    ranker, graph = learnt("first-layout")
    ranker.save(folder / "good")
    write_graph(folder / "graph", graph)
    return folder


@pytest.fixture
def files(saved, tmp_path):
    shutil.copytree(saved, tmp_path, dirs_exist_ok=True)
    shutil.copy(saved / "good", tmp_path / "ranker")
    return tmp_path


def safe_metadata(path):
    with safe_open(path, "numpy") as file:
        return file.metadata()["tpugraphs"]


def changed(folder, metadata=(), tensors=()):
    """The good file with other metadata or without some tensors."""
    notes = json.loads(safe_metadata(folder / "good"))
    arrays = {name: a for name, a in load_file(folder / "good").items() if name not in tensors}
    del notes["_digests"]
    notes = {name: v for name, v in {**notes, **dict(metadata)}.items() if v is not None}
    save_file(arrays, folder / "changed", {"tpugraphs": json.dumps(with_digests(notes, arrays))})
    return (folder / "changed").read_bytes()


def test_a_file_cut_off_anywhere_is_refused(program, files):
    whole = (files / "ranker").read_bytes()
    for size in (0, 7, 8, 100, 3000, len(whole) // 2, len(whole) - 1):
        assert "expected" in refused(program, files, whole[:size])


@pytest.mark.parametrize(
    ("metadata", "words"),
    [
        ({"kind": "ensemble"}, "kind: expected 'ranker', found 'ensemble'"),
        ({"version": 2}, "version: expected 1, found 2"),
        ({"feature_schema": None}, "feature_schema: expected 1, found none"),
        ({"precision": "f64"}, "precision: expected 'f32' or 'bf16', found 'f64'"),
        ({"fields": {"chunk": 0}}, "chunk: expected a whole number in 1..1048576, found 0"),
        ({"preprocessing": {}}, "preprocessing: expected a list of steps, found an object of 0"),
        ({"preprocessing": [{"step": "no\nsuch"}]}, "found 'no?such'"),
        ({"preprocessing": [{"step": "prune", "method": 3}]}, "step 'prune': method: expected one of"),
        (
            {"preprocessing": [{"step": "prune", "x": 3}]},
            "step 'prune': attributes: expected only method, hops, neighbours, found 'x'",
        ),
        (
            {"preprocessing": [{"step": "log-columns", "columns": [1, 2.5]}]},
            "whole numbers in 0..65535, found 2.5",
        ),
        (
            {"preprocessing": [{"step": "take-columns", "columns": 2}]},
            "columns: expected a list of at most 65536",
        ),
        ({"steps": None}, "steps: expected a list of steps of a model, found none"),
        ({"steps": [{"op": "linear"}]}, "steps: name: expected text of at most 63 characters, found none"),
        ({"steps": []}, "no step makes 'scores'"),
        ({"extra": "depth"}, "extra: expected no features that a Python function makes, found 'depth'"),
        ({"schema": {"digits": [{"values": 99}]}}, "values: expected a whole number in 2..32, found 99"),
    ],
)
def test_other_metadata_is_refused(program, files, metadata, words):
    assert words in refused(program, files, changed(files, metadata))


def test_a_tensor_that_is_missing_is_named(program, files):
    names = [name for name in load_file(files / "good") if name.startswith(("scaler.", "head"))]
    assert len(names) > 2
    for name in names:
        said = refused(program, files, changed(files, tensors=[name]))
        assert f"{name}: expected " in said and " of shape (" in said and "found none" in said


@pytest.mark.parametrize("seed", range(8))
def test_one_changed_bit_is_found(program, files, seed):
    """Anywhere: in the length, the header, the metadata, their digests or a tensor."""
    whole = bytearray((files / "good").read_bytes())
    rng = np.random.default_rng(seed)
    data = 8 + int.from_bytes(whole[:8], "little")
    for low, high in ((0, data), (data, len(whole))):
        damaged = whole.copy()
        damaged[rng.integers(low, high)] ^= 1 << rng.integers(8)
        refused(program, files, bytes(damaged))


def test_the_digests_are_those_of_python(program, files):
    """Metadata of every length modulo a block of the digest; the part that differs is named."""
    for length in range(130):
        content = changed(files, {"length": "x" * length})
        (files / "ranker").write_bytes(content)
        done = run(program, files / "ranker", files / "graph", files / "scores")
        assert (done.returncode, done.stderr) == (0, "")
    wrong = content.replace(b"x" * 9, b"x" * 8 + b"y", 1)
    assert "metadata: expected contents that have the digest in the file" in refused(program, files, wrong)
    name = min(load_file(files / "good"))
    digest = json.loads(safe_metadata(files / "good"))["_digests"]["tensors"][name].encode()
    good = (files / "good").read_bytes()
    assert f"{name}: expected contents that" in refused(program, files, good.replace(digest, digest[::-1]))


def test_files_without_digests_open(program, files):
    notes = json.loads(safe_metadata(files / "good"))
    del notes["_digests"]
    save_file(load_file(files / "good"), files / "ranker", {"tpugraphs": json.dumps(notes)})
    done = run(program, files / "ranker", files / "graph", files / "scores")
    assert (done.returncode, done.stderr) == (0, "")


def test_what_is_no_ranker_file_is_refused(program, files):
    save_file({}, files / "other", {"theirs": "{}"})
    assert "the key 'tpugraphs'" in refused(program, files, (files / "other").read_bytes())
    save_file({}, files / "other", {"tpugraphs": '{"kind": ranker}'})
    assert "metadata: expected JSON, found something that is not a value at its byte 9" in refused(
        program, files, (files / "other").read_bytes()
    )
    (files / "ranker").unlink()
    done = run(program, files / "ranker", files / "graph", files / "scores")
    assert done.returncode == 1 and "cannot open: No such file or directory\n" in done.stderr


def test_graphs_that_cannot_be_ranked_are_refused(program, files):
    graph = small_graph(3)
    write_graph(files / "graph", graph)
    good = (files / "graph").read_bytes()
    edge = np.int64(99).tobytes()
    assert refused(program, files, good[:72] + edge + good[80:], "graph").startswith("edge_index: expected")
    none = np.array([0, 140, 0, 0, 0, 0, 0, 0, 0], np.int64).tobytes()
    assert refused(program, files, none, "graph") == "nodes: expected at least one, found 0\n"
    narrow = good[:48] + np.int64(17).tobytes() + good[56:]
    expected = (
        "expected a graph of the kind that the ranker learnt from, found config digits of another kind\n"
    )
    assert refused(program, files, narrow, "graph") == expected
