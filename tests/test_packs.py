"""Packs: what goes in comes out, whole or not at all, and a damaged one is refused."""

import copy
import errno
import hashlib
import os
import pickle
import shutil
import signal
import struct
import subprocess
import sys
import time
import zlib
from pathlib import Path

import madeup
import numpy as np
import pytest
from broken import packs as broken_packs
from refusals import refuses
from test_distributed import together

import tpugraphs as tg
from tpugraphs import _core, data, training
from tpugraphs.cli import main
from tpugraphs.data import packs
from tpugraphs.system.files import locked

HEADER, PARTS = broken_packs.HEADER, broken_packs.PARTS


def small(configs=30, nodes=9, config_nodes=3, values=6, seed=0, **other):
    rng = np.random.default_rng(seed)
    feat = rng.normal(size=(nodes, 140)).astype(np.float32)
    feat[:, 134:] = 0
    arrays = {
        "node_feat": feat,
        "node_opcode": rng.integers(0, 121, nodes).astype(np.uint8),
        "edge_index": rng.integers(0, nodes, (12, 2)),
        "node_config_ids": np.sort(rng.permutation(nodes)[:config_nodes]),
        "node_splits": np.array([[0, nodes // 2, nodes]]),
        "node_config_feat": rng.integers(-1, values, (configs, config_nodes, 18)).astype(np.float32),
        "config_runtime": rng.integers(1, 10**9, configs),
    }
    return tg.LayoutGraph(**{**arrays, **other})


def tile(configs=6):
    rng = np.random.default_rng(2)
    return tg.TileGraph(
        node_feat=rng.normal(size=(5, 140)) * (np.arange(140) < 134),
        node_opcode=rng.integers(0, 121, 5),
        edge_index=np.zeros((0, 2), int),
        config_feat=rng.normal(size=(configs, 24)),
        config_runtime=rng.integers(1, 10**9, configs),
        config_runtime_normalizers=rng.integers(1, 10**9, configs),
    )


def any_schema(configs=20, seed=0, **other):
    """A graph with a schema of its own, digits and failed configs."""
    rng = np.random.default_rng(seed)
    arrays = {
        "node_feat": rng.random((6, 3)),
        "node_opcode": rng.integers(0, 9, 6),
        "edge_index": rng.integers(0, 6, (8, 2)),
        "graph_feat": rng.random(2),
        "node_config_ids": [4, 1],
        "node_config_feat": rng.integers(-1, 32, (configs, 2, 5)),
        "runtime": rng.random(configs) + 0.5,
        "valid": np.arange(configs) % 7 != 3,
        "repeats": rng.random((configs, 4)) + 0.5,
    }
    return tg.Graph(**{**arrays, **other})


def equal(a, b):
    assert type(a) is type(b) and a.schema == b.schema
    for field, value in a.fields().items():
        other = getattr(b, field)
        if isinstance(value, np.ndarray):
            assert value.dtype == other.dtype and not other.flags.writeable
        if field not in ("path", "name", "collection"):
            np.testing.assert_array_equal(np.asarray(other), np.asarray(value), err_msg=field)


def packed(graph, path):
    graph.save(path)
    return tg.load(path)


@pytest.fixture
def tree(tmp_path):
    """A collection of three layout graphs and one tile graph as .npz."""
    root = tmp_path / "npz"
    for i, split in enumerate(("train", "train", "valid")):
        folder = root / "layout/xla/random" / split
        folder.mkdir(parents=True, exist_ok=True)
        small(configs=40 + i, seed=i).save(folder / f"g{i}.4x4.npz")
    (root / "tile/xla/train").mkdir(parents=True)
    tile().save(root / "tile/xla/train/t.npz")
    return root


def cheap(configs, nodes):
    """Digits of many configs, made in no time: a few different tensors."""
    digits = np.random.default_rng(0).integers(-1, 6, (37, nodes, 18)).astype(np.int8)
    return digits[np.arange(configs) % 37]


def store(graph, path):
    """As an npz that is not compressed: made in no time."""
    arrays = {name: np.asarray(value) for name, value in graph.fields().items() if hasattr(value, "dtype")}
    np.savez(path, **arrays)


def test_packs_are_what_they_were(tmp_path):
    """Bytes of packs as the version wrote them that had no other schemas."""
    for graph, digest in (
        (small(), "ad721f90ee9c5b3175e8d477305290c6acbf55c9f5318dcdecc1447fadd33a53"),
        (tile(), "8457109436ce966bf6f962124fec3778df1655e825bd2b4cbccbf61d18a0c3b2"),
    ):
        graph.save(tmp_path / "g.tgpack")
        assert hashlib.sha256((tmp_path / "g.tgpack").read_bytes()).hexdigest() == digest


def test_packs_of_samples_are_what_they_were(tmp_path, real_sample):
    digests = {
        "tile_03": "9e0815584d1d89b8cc3db85f4d7b7f9213a22c06abe07b527a069b84c3b0b94e",
        "unet3d_train": "cc16d3eaa359e0dadfe3ce19cc17fc494d12017d430e76d50979ffb456a87477",
    }
    for name, digest in digests.items():
        real_sample(name).save(tmp_path / "g.tgpack")
        assert hashlib.sha256((tmp_path / "g.tgpack").read_bytes()).hexdigest() == digest


def test_a_pack_of_any_schema_is_lazy_and_checked(tmp_path):
    graph = any_schema(60)
    graph.save(tmp_path / "g.tgpack")
    content = bytearray((tmp_path / "g.tgpack").read_bytes())
    names = broken_packs.parts_of(content)
    at, offset, size = next(
        (at, p[2], p[3]) for i, at, p in entries(content) if names[i] == "node_config_feat"
    )
    content[offset + 45 * 10 + 7] = 77  # config 45, node 1, column 2: no digit of any schema
    struct.pack_into("<I", content, at + 4, zlib.crc32(content[offset : offset + size]))
    (tmp_path / "bad.tgpack").write_bytes(broken_packs.with_crc(bytes(content)))
    read = tg.load(tmp_path / "bad.tgpack")
    np.testing.assert_array_equal(read.digits_of([3, 44]), graph.digits_of([3, 44]))
    with pytest.raises(tg.DataError, match="config 45, node 1, column 2") as caught:
        read.digits_of([1, 45])
    assert caught.value.file.endswith("bad.tgpack") and caught.value.field == "node_config_feat"
    with pytest.raises(tg.DataError):
        read.validate()
    again = pickle.loads(pickle.dumps(tg.load(tmp_path / "g.tgpack")))
    equal(graph, again)
    assert again.select([3, 5]).num_configs == 2


def test_trees_and_commands_take_any_schema(tmp_path, capsys):
    any_schema(300).save(tmp_path / "a.npz")
    tg.Graph(config_feat=np.eye(4), runtime=[1.5, 2, 3, 1]).save(tmp_path / "b.npz")
    assert main(["pack", str(tmp_path), "--verify"]) == 0
    for name in "ab":
        equal(tg.load(tmp_path / f"{name}.npz"), tg.load(tmp_path / f"{name}.tgpack"))
        assert packs.Pack(str(tmp_path / f"{name}.tgpack")).origin[0] == os.path.getsize(
            tmp_path / f"{name}.npz"
        )
    assert packs.pack_tree(tmp_path).skipped == 2
    need = _core.npz_origin(str(tmp_path / "a.npz"))[1]
    assert 0.8 < need / os.path.getsize(tmp_path / "a.tgpack") < 2
    capsys.readouterr()
    assert main(["inspect", str(tmp_path / "a.tgpack")]) == 0
    assert "digit_4 (32 values)" in capsys.readouterr().out
    assert main(["inspect", "--json", str(tmp_path / "b.npz")]) == 0
    assert '"config_3"' in capsys.readouterr().out


def names(folder):
    return sorted(str(p.relative_to(folder)) for p in Path(folder).rglob("*") if p.is_file())


# ---- round trip -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", madeup.NAMES)
def test_graphs_come_back(name, tmp_path):
    shutil.copy(madeup.path(name), tmp_path)
    assert packs.pack_tree(tmp_path, verify=True).verified == 1
    a, b = tg.load(tmp_path / f"{name}.npz"), tg.load(tmp_path / f"{name}.tgpack")
    equal(a, b.validate())
    assert b.name == name and b.path == str(tmp_path / f"{name}.tgpack")
    for x, y in zip(a.distinct_configs(), b.distinct_configs(), strict=True):
        np.testing.assert_array_equal(x, y)
    assert a.describe() | {"file": 0} == b.describe() | {"file": 0}


@pytest.mark.parametrize(
    "graph",
    [
        small(),
        small(configs=0),
        small(configs=4, config_nodes=0),
        small(1, 1, 1, edge_index=np.zeros((0, 2), int), node_splits=None),
        small(config_runtime=np.zeros(30, int)),
        tile(),
        tile(0),
        tg.LayoutGraph(node_feat=np.ones((3, 140)), node_opcode=[1, 2, 3], edge_index=[[0, 1]]),
        any_schema(),
        any_schema(1, valid=None, repeats=None, graph_feat=None, node_opcode=None),
        any_schema(runtime=np.arange(1, 21)),
        any_schema(runtime=None, valid=None),
        tg.Graph(),
        tg.Graph(config_feat=np.eye(3), runtime=[3, 1, 2]),
        tg.Graph(config_feat=np.zeros((0, 4)), graph_feat=[1.0]),
        tg.Graph(node_config_ids=[], node_config_feat=np.zeros((3, 0, 2))),
    ],
)
def test_odd_graphs_come_back(graph, tmp_path):
    read = packed(graph, tmp_path / "g.tgpack")
    equal(graph, read.validate())
    read.save(tmp_path / "g.npz")
    equal(graph, tg.load(tmp_path / "g.npz"))
    packed(read, tmp_path / "h.tgpack").validate()
    assert (tmp_path / "h.tgpack").read_bytes() == (tmp_path / "g.tgpack").read_bytes()


@pytest.mark.parametrize("codes, size", [(256, 1), (257, 2), (65536, 2), (65537, 4)])
def test_numbers_are_as_wide_as_they_must_be(codes, size, tmp_path):
    """As many different tensors as there are numbers, and one more; out of an array and out of an npz."""
    nodes = 3
    rows = -(-codes // (3 * nodes))
    numbers = np.random.default_rng(0).permutation(117649)[:codes].astype(np.int32)
    numbers = np.pad(numbers, (0, rows * nodes * 3 - codes), "edge")
    digits = tg.kernels.decode_base7(numbers.reshape(rows, nodes, 3))
    graph = small(rows, nodes, nodes, node_config_feat=digits)
    read = packed(graph, tmp_path / "a.tgpack")
    assert read._digits.codes[0].itemsize == size
    np.testing.assert_array_equal(read.validate().config_digits, digits)
    np.testing.assert_array_equal(packed(graph, tmp_path / "b.npz").config_digits, digits)
    packs.pack_tree(tmp_path / "b.npz")
    np.testing.assert_array_equal(tg.load(tmp_path / "b.tgpack").config_digits, digits)
    rows = np.array([rows - 1, 0, 1])
    model_graph = _core.ModelGraph(
        read.node_feat, read.node_opcode, None, read.edge_index, read.node_config_ids, read._digits.stored()
    )
    assert model_graph.num_configs == len(digits)
    np.testing.assert_array_equal(read.digits_of(rows), digits[rows])


@pytest.mark.parametrize("dtype", ["<f4", ">f4", "<f8", "<f2", "i1", ">i8", "<u4"])
def test_every_dtype_of_an_npz_is_packed(dtype, tmp_path):
    digits = np.random.default_rng(0).integers(-1 if dtype != "<u4" else 0, 6, (700, 3, 18))
    arrays = {k: np.asarray(v) for k, v in small(700).fields().items() if isinstance(v, np.ndarray)}
    np.savez_compressed(tmp_path / "g.npz", **arrays, node_config_feat=digits.astype(dtype))
    assert packs.pack_tree(tmp_path).packed == 1
    np.testing.assert_array_equal(tg.load(tmp_path / "g.tgpack").config_digits, digits)


def test_rows_are_as_those_of_an_array(tmp_path):
    graph = packed(small(), tmp_path / "g.tgpack")
    whole = np.asarray(graph.node_config_feat)
    mask = np.arange(30) % 3 == 0
    for key in (
        0, -1, np.int64(3), slice(2, 9, 2), slice(None), [1, 5, 5, -2], np.array([3, 0]), mask, list(mask), (4, 1),
        (slice(3, 6), 2), (slice(None), slice(1), -1), (2, Ellipsis, 3), Ellipsis, (7, None, 1),
        ([1, 2], [0, 1]), (slice(0, 4), [0, 2]), np.zeros(0, int), (3, [0, 1]), [],
    ):  # fmt: skip
        key = np.array(key, int) if isinstance(key, list) and key == [] else key
        np.testing.assert_array_equal(graph.node_config_feat[key], whole[key], err_msg=str(key))
    for key in (30, -31, [0, 30], np.zeros(29, bool), 1.5, (3, 7)):
        with pytest.raises(IndexError):
            graph.node_config_feat[key]
    for rows in (slice(3, 9), mask, [4, -1, 4]):
        np.testing.assert_array_equal(graph.digits_of(rows), whole[rows])
        chosen = graph.select(rows)
        np.testing.assert_array_equal(chosen.config_digits, whole[rows])
        np.testing.assert_array_equal(chosen.config_runtime, graph.config_runtime[rows])
        chosen.validate()
    refuses(lambda: graph.digits_of([30]), tg.DataError, "numbers")
    equal(tg.dedup(small(), "min"), tg.dedup(graph, "min"))


def test_graph_of_a_pack_can_be_copied_and_pickled(tmp_path):
    for made in (small(), tile()):
        graph = packed(made, tmp_path / "g.tgpack")
        for other in (pickle.loads(pickle.dumps(graph)), copy.deepcopy(graph), copy.copy(graph)):
            equal(made, other)
        graph = packed(made, tmp_path / "g.tgpack")
        assert graph.num_nodes == made.num_nodes
        assert graph.replace(name="other").name == "other"
        with pytest.raises(AttributeError, match="nodefeat"):
            _ = graph.nodefeat


def test_arrays_live_as_long_as_they_are_used(tmp_path):
    feat = packed(small(), tmp_path / "g.tgpack").node_feat
    (tmp_path / "g.tgpack").unlink()
    np.testing.assert_array_equal(feat, small().node_feat)


# ---- the same bits ----------------------------------------------------------------------------------------


def params(train, **options):
    ranker = tg.Ranker("first-layout-cross", seed=3, width=32, configs=16)
    history = ranker.fit(train, steps=6, verbose=False, **options).history_
    return ranker.model.params.copy(), history.loss, ranker


def test_training_and_scoring_give_the_same_bits(tree):
    sides = []
    for step in range(2):
        if step:
            packs.pack_tree(tree)
        split = tg.open_collection("layout:xla:random", tree)
        assert [Path(path).suffix for path in split.train.paths] == [(".npz", ".tgpack")[step]] * 2
        weights, loss, ranker = params(split.train, valid=split.valid)
        held, _, _ = params([split.train[0], split.train[1]], valid=0.25)
        sides.append([weights, loss, held, *(ranker.predict(graph) for graph in split.valid)])
    for a, b in zip(*sides, strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_file_trains_to_the_same_bits(tmp_path):
    graph = madeup.graph("long")
    from_pack = packed(graph, tmp_path / "a.tgpack")
    (one, losses, _), (other, again, _) = params(graph), params(from_pack)
    assert losses == again
    np.testing.assert_array_equal(one, other)


def test_a_fit_begun_on_npz_goes_on_with_packs(tree, tmp_path):
    def fit(stop):
        split = tg.open_collection("layout:xla:random", tree)
        ranker = tg.Ranker("first-layout", width=32, configs=16)
        stops = type(
            "Stop", (training.Callback,), {"on_step": lambda self, fit: stop and fit.step == 3 and die()}
        )
        try:
            ranker.fit(
                [split.train[0]], steps=6, verbose=False, callbacks=[stops()], checkpoint_dir=tmp_path / "c",
                checkpoint_every=2,
            )  # fmt: skip
        except ZeroDivisionError:
            return None
        return ranker.model.params.copy()

    def die():
        raise ZeroDivisionError

    assert fit(stop=True) is None
    packs.pack_tree(tree)
    resumed = fit(stop=False)
    shutil.rmtree(tmp_path / "c")
    np.testing.assert_array_equal(fit(stop=False), resumed)


def test_pages_of_packs_used_long_ago_are_given_back(tree, monkeypatch):
    """What the store calls is looked at in test_store.py: here, that packs can bear it."""
    packs.pack_tree(tree)
    expected, _, _ = params(tg.open_collection("layout:xla:random", tree).train)
    monkeypatch.setattr("tpugraphs.training.trainset.MAPPED_BYTES", 1)
    weights, _, _ = params(tg.open_collection("layout:xla:random", tree).train)
    np.testing.assert_array_equal(weights, expected)


# ---- trees ------------------------------------------------------------------------------------------------


def test_a_tree_is_packed_once(tree, tmp_path):
    first = packs.pack_tree(tree, jobs=2)
    assert (first.packed, first.skipped, first.failed) == (4, 0, [])
    before = {p: os.stat(p).st_mtime_ns for p in tree.rglob("*.tgpack")}
    again = packs.pack_tree(tree)
    assert (again.packed, again.skipped) == (0, 4)
    changed = tree / "layout/xla/random/train/g0.4x4.npz"
    small(configs=41, seed=9).save(changed)
    os.utime(tree / "tile/xla/train/t.npz")  # touched, not changed
    third = packs.pack_tree(tree)
    assert (third.packed, third.skipped) == (1, 3)
    after = {p: os.stat(p).st_mtime_ns for p in tree.rglob("*.tgpack")}
    assert [p.name for p in after if after[p] != before[p]] == ["g0.4x4.tgpack"]
    equal(small(configs=41, seed=9), tg.load(changed.with_suffix(".tgpack")))
    assert not [name for name in names(tree) if name.endswith(".tmp")]

    out = tmp_path / "packs"
    assert packs.pack_tree(tree, out).packed == 4
    assert names(out) == sorted(n.replace(".npz", ".tgpack") for n in names(tree) if n.endswith(".npz"))
    split = tg.open_collection("layout:xla:random", out)
    assert split.train.names == ["g0.4x4", "g1.4x4"] and split.train[0].collection == "layout:xla:random"
    assert packs.pack_tree(tree, out, verify=True).verified == 4


@pytest.mark.parametrize("size", [1, 2, 3])
def test_ranks_share_the_files(tree, tmp_path, size):
    (tree / "broken.npz").write_bytes(b"PK")
    alone = packs.pack_tree(tree, tmp_path / "alone", verify=True, verbose=False)

    def work(comm):
        return packs.pack_tree(tree, tmp_path / "shared", verify=True, verbose=False, communicator=comm)

    for turn in range(2):
        for report in together(size, work):
            counts = report.packed, report.skipped, report.verified, len(report.failed)
            assert counts == (((alone.packed, 0), (0, alone.packed))[turn] + (alone.verified, 1))
            if not turn:
                assert (report.bytes_in, report.bytes_out) == (alone.bytes_in, alone.bytes_out)
    files = sorted(path.relative_to(tmp_path / "alone") for path in (tmp_path / "alone").rglob("*.tgpack"))
    assert files == sorted(
        path.relative_to(tmp_path / "shared") for path in (tmp_path / "shared").rglob("*.tgpack")
    )
    for file in files:
        assert (tmp_path / "alone" / file).read_bytes() == (tmp_path / "shared" / file).read_bytes()
    with locked(str(tmp_path / "shared"), "another packing run"):
        errors = together(size, work)
    assert all("another packing run" in str(one) for one in errors)


def test_an_old_pack_beside_a_new_npz_is_refused(tree):
    packs.pack_tree(tree)
    source = tree / "layout/xla/random/train/g0.4x4.npz"
    os.utime(source)
    tg.load(source.with_suffix(".tgpack"))  # touched only
    small(configs=41, seed=9).save(source)
    refuses(lambda: tg.load(source.with_suffix(".tgpack")), tg.DataError, "version", "pack again")
    packs.pack_tree(source)
    source.write_bytes(bytes(source.stat().st_size))  # no zip at all
    refuses(lambda: tg.load(source.with_suffix(".tgpack")), tg.DataError, "g0.4x4.tgpack", "version")
    source.unlink()
    tg.load(source.with_suffix(".tgpack")).validate()


def test_order_is_that_of_the_npz_files(tmp_path):
    for name in ("a", "a-b", "a_b", "a.b", "B"):
        tile().save(tmp_path / f"{name}.npz")
    before = [p.stem for p in data.collections.graph_files(tmp_path)]
    assert before == [p.stem for p in sorted(tmp_path.glob("*.npz"))]
    (tmp_path / "._a.npz").write_bytes(b"left by a file manager")
    assert packs.pack_tree(tmp_path).failed == []
    assert [p.name for p in data.collections.graph_files(tmp_path)] == [f"{name}.tgpack" for name in before]


def test_bad_files_are_told_and_the_others_packed(tree, capsys):
    bad = tree / "layout/xla/random/train"
    (bad / "broken.npz").write_bytes(b"PK")
    arrays = {k: np.asarray(v) for k, v in small().fields().items() if isinstance(v, np.ndarray)}
    digits = np.zeros((30, 3, 18))
    digits[7, 1, 2] = 9
    np.savez_compressed(bad / "digit.npz", **arrays, node_config_feat=digits)
    assert main(["pack", str(tree)]) == 1
    said = capsys.readouterr()
    assert "4 packed" in said.out and "2 failed" in said.out
    assert "broken.npz" in said.err and "9 at row 7, node 1, column 2" in said.err and "digit.npz" in said.err
    assert not (bad / "broken.tgpack").exists() and not (bad / "digit.tgpack").exists()
    assert not [name for name in names(tree) if name.endswith(".tmp")]
    report = packs.pack_tree(tree)
    assert [Path(f["file"]).name for f in report.failed] == ["broken.npz", "digit.npz"]
    assert report.failed[1]["field"] == "node_config_feat"


def test_verify_finds_and_mends(tree, capsys):
    packs.pack_tree(tree)
    victim = tree / "layout/xla/random/train/g1.4x4.tgpack"
    content = bytearray(victim.read_bytes())
    content[-300] ^= 4
    victim.write_bytes(content)
    assert packs.pack_tree(tree).skipped == 4  # the header is all that is looked at
    assert main(["pack", str(tree), "--verify", "--json"]) == 0
    assert '"packed": 1' in capsys.readouterr().out
    tg.load(victim).validate()
    assert packs.pack_tree(victim, verify=True).verified == 1  # of one file
    refuses(lambda: packs.pack_tree(victim), tg.DataError, ".npz")
    victim.with_suffix(".npz").unlink()
    victim.write_bytes(content)
    assert main(["pack", str(tree), "--verify"]) == 1  # nothing to make it from
    assert "g1.4x4.tgpack" in capsys.readouterr().err


def test_command_line_errors(tmp_path, capsys, tree):
    assert main(["pack", str(tmp_path / "none")]) == 1
    assert "check the path" in capsys.readouterr().err
    (tmp_path / "empty").mkdir()
    assert main(["pack", str(tmp_path / "empty")]) == 1
    assert "no .npz files" in capsys.readouterr().err
    assert main(["pack", str(tree), "--jobs", "0"]) == 2
    assert "jobs" in capsys.readouterr().err
    assert main(["pack"]) == 2
    assert main(["pack", str(tree), "--out", str(tree / "tile/xla/train/t.npz")]) == 1
    assert main(["inspect", str(tree / "tile/xla/train")]) == 0


def test_two_runs_do_not_meet(tree):
    from tpugraphs.system.files import locked

    with locked(str(tree)), pytest.raises(tg.ConfigError, match="another packing run"):
        packs.pack_tree(tree)


# ---- whole or not at all ----------------------------------------------------------------------------------


def test_too_little_space_is_told_before(tree, monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(10**9, 10**9, 1000))
    with pytest.raises(OSError, match="make room") as caught:
        packs.pack_tree(tree)
    assert caught.value.errno == errno.ENOSPC
    assert not list(tree.rglob("*.tgpack"))


LIMITED = """
import resource, sys
from tpugraphs.cli import main
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]),) * 2)
sys.exit(main(["pack", sys.argv[1], "--jobs", "1"]))
"""


@pytest.mark.parametrize("limit", [0, 900, 20_000, 90_000])
def test_a_write_that_fails_leaves_the_old_pack(limit, tmp_path):
    old = small(seed=1)
    old.save(tmp_path / "g.npz")
    packs.pack_tree(tmp_path)
    before = (tmp_path / "g.tgpack").read_bytes()
    store(small(20_000, seed=2), tmp_path / "g.npz")
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, str(tmp_path), str(limit)], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 1 and "File too large" in done.stderr and "g.tgpack" in done.stderr, done.stderr
    assert (tmp_path / "g.tgpack").read_bytes() == before
    assert names(tmp_path) == ["g.npz", "g.tgpack"]


def test_a_full_disk_ends_the_work_and_the_next_run_goes_on(tree, monkeypatch):
    real, calls = _core.pack_write, []

    def write(fd, *rest):
        calls.append(fd)
        if len(calls) == 3:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(fd, *rest)

    monkeypatch.setattr(_core, "pack_write", write)
    with pytest.raises(OSError, match=r"after [23] files: make room"):  # another may have been under way
        packs.pack_tree(tree, jobs=1)
    monkeypatch.undo()
    there = len(list(tree.rglob("*.tgpack")))
    assert there in (2, 3) and not [n for n in names(tree) if n.endswith(".tmp")]
    report = packs.pack_tree(tree)
    assert (report.packed, report.skipped) == (4 - there, there)


def test_killed_in_the_middle(tmp_path):
    """SIGKILL leaves the old pack or none, and the next run goes on and cleans up."""
    store(small(40_000, 40, 30, seed=4, node_config_feat=cheap(40_000, 30)), tmp_path / "a.npz")
    for name in "bc":
        os.link(tmp_path / "a.npz", tmp_path / f"{name}.npz")
    small(seed=1).save(tmp_path / "a.tgpack")
    before = (tmp_path / "a.tgpack").read_bytes()
    command = [sys.executable, "-m", "tpugraphs", "pack", str(tmp_path), "--jobs", "2"]
    for _ in range(2):
        run = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while run.poll() is None and not list(tmp_path.glob(".*.tmp")):
            time.sleep(0.001)
        run.send_signal(signal.SIGKILL)
        run.wait()
    for path in tmp_path.glob("*.tgpack"):
        assert path.read_bytes() == before or tg.load(path).validate().num_configs == 40_000
    assert packs.pack_tree(tmp_path, verify=True).verified == 3
    assert names(tmp_path) == [f"{name}.{kind}" for name in "abc" for kind in ("npz", "tgpack")]


def test_ctrl_c_stops_soon_and_leaves_nothing_half(tmp_path):
    store(small(40_000, 40, 30, seed=4, node_config_feat=cheap(40_000, 30)), tmp_path / "a.npz")
    for name in "bcdefgh":
        os.link(tmp_path / "a.npz", tmp_path / f"{name}.npz")
    run = subprocess.Popen(
        [sys.executable, "-m", "tpugraphs", "pack", str(tmp_path), "--jobs", "1"],
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    while run.poll() is None and not list(tmp_path.glob(".*.tmp")):
        time.sleep(0.001)
    began = time.monotonic()
    run.send_signal(signal.SIGINT)
    said = run.communicate(timeout=30)[1]
    assert run.returncode == 130 and "interrupted" in said and time.monotonic() - began < 5
    assert not list(tmp_path.glob(".*.tmp"))
    for path in tmp_path.glob("*.tgpack"):
        tg.load(path).validate()


def test_packing_takes_memory_that_does_not_grow(tmp_path):
    graph = small(200_000, 12, 8, node_config_feat=cheap(200_000, 8))  # 29 MB of digits, 115 MB in the npz
    store(graph, tmp_path / "a.npz")
    store(small(1000, 12, 8), tmp_path / "b.npz")
    code = (
        "import sys; from pathlib import Path; from tpugraphs.data import packs\n"
        "def peak(): return int(Path('/proc/self/status').read_text().split('VmHWM:')[1].split()[0])\n"
        "packs.pack_tree(sys.argv[1] + '/b.npz'); before = peak()\n"
        "packs.pack_tree(sys.argv[1] + '/a.npz'); print(peak() - before)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True
    )
    assert int(done.stdout) < 16 << 10, f"{done.stdout} KiB"  # runtimes, 1.6 MB, some copies of them


# ---- damage -----------------------------------------------------------------------------------------------


def refused(content, path, match=None):
    path.write_bytes(content)
    with pytest.raises(tg.DataError, match=match) as caught:
        tg.load(path).validate()
    assert caught.value.file == str(path) and caught.value.field
    return caught.value


def contents():
    folder = Path(os.environ.get("TMPDIR", "/tmp"))
    path = folder / f"packs-{os.getpid()}.tgpack"
    try:
        for graph in (small(), tile(), any_schema()):
            graph.save(path)
            yield path.read_bytes()
    finally:
        path.unlink(missing_ok=True)


LAYOUT, TILE, ANY = contents()


@pytest.mark.parametrize("content", [LAYOUT, TILE, ANY], ids=["layout", "tile", "any"])
def test_every_flipped_byte_of_the_header_is_noticed(content, tmp_path):
    path = tmp_path / "g.tgpack"
    path.write_bytes(content)
    with path.open("r+b", buffering=0) as file:
        for at in range(HEADER):
            os.pwrite(file.fileno(), bytes([content[at] ^ 1 << at % 8]), at)
            with pytest.raises(tg.DataError):
                _core.pack_open(str(path))
            os.pwrite(file.fileno(), content[at : at + 1], at)
        _core.pack_open(str(path))


@pytest.mark.parametrize("content", [LAYOUT, TILE, ANY], ids=["layout", "tile", "any"])
def test_every_flipped_byte_of_the_rest_is_noticed(content, tmp_path):
    for at in range(HEADER, len(content), 29):
        damaged = bytearray(content)
        damaged[at] ^= 1 << at % 8
        refused(damaged, tmp_path / "g.tgpack")


@pytest.mark.parametrize("make", [small, any_schema])
def test_configs_damaged_in_a_pack_are_told_at_first_use(make, tmp_path):
    """Not as a training that diverged, and whatever row is asked for; opening does not read them."""
    path = tmp_path / "g.tgpack"
    make(200).save(path)
    content = bytearray(path.read_bytes())
    place = next(p for i, _, p in entries(content) if broken_packs.parts_of(content)[i] == "node_config_feat")
    content[place[2] + place[3] - 1] ^= 4
    path.write_bytes(content)
    recipe = "first-layout" if make is small else next(iter(tg.list_recipes("graph")))
    uses = {
        "fit": lambda graph: tg.Ranker(recipe, steps=3).fit(graph, verbose=False),
        "rows": lambda graph: graph.node_config_feat[:1],
        "all": lambda graph: np.asarray(graph.node_config_feat),
        "copy": pickle.dumps,
        "select": lambda graph: graph.select([0]).node_config_feat[:],
        "dedup": lambda graph: graph._digits.distinct(),
    }
    for name, use in uses.items():
        graph = tg.load(path)
        assert graph.num_configs == 200
        for _ in range(2):
            with pytest.raises(tg.DataError, match="node_config_feat: expected the checksum") as error:
                use(graph)
            assert error.value.file == str(path), name


def entries(content):
    for i in range(len(broken_packs.parts_of(content))):
        at = 64 + 64 * i
        yield i, at, struct.unpack_from("<IIQQQQQ", content, at)


@pytest.mark.parametrize("content", [LAYOUT, TILE, ANY], ids=["layout", "tile", "any"])
def test_cut_off_anywhere(content, tmp_path):
    cuts = {0, 1, 7, 8, 64, HEADER - 1, HEADER, len(content) - 1}
    for _, _, (_, _, offset, size, *_) in entries(content):
        cuts |= {offset, offset + size // 2, offset + size - 1}
    for cut in sorted(cut for cut in cuts if 0 <= cut < len(content)):
        refused(content[:cut], tmp_path / "g.tgpack")
        if cut >= HEADER:  # also with a header that says so
            claimed = broken_packs.with_crc(content[:16] + struct.pack("<Q", cut) + content[24:cut])
            refused(claimed, tmp_path / "g.tgpack")
    refused(content + b"\0", tmp_path / "g.tgpack")
    (tmp_path / "g.tgpack").write_bytes(b"")
    refuses(lambda: tg.load(tmp_path / "g.tgpack"), tg.DataError, "empty")


@pytest.mark.parametrize("content", [LAYOUT, TILE, ANY], ids=["layout", "tile", "any"])
def test_absurd_numbers_with_a_right_checksum(content, tmp_path):
    """Every field of the header set to what could overflow a product, a sum or a file."""
    absurd = (0, 1, 2, 63, 2**32 - 1, 2**47, 2**61, 2**63 - 1, 2**63, 2**64 - 64)
    places = [(8, 4), (12, 4), (16, 8), (24, 8), (44, 4), (48, 8)]
    parts = len(broken_packs.parts_of(content))
    for i in range(parts):
        places += [(64 + 64 * i, 4), *((64 + 64 * i + at, 8) for at in range(8, 64, 8))]
    places.append((64 + 64 * parts, 8))
    accepted = []
    for at, width in places:
        for value in absurd:
            field = (value % (1 << 8 * width)).to_bytes(width, "little")
            damaged = content[:at] + field + content[at + width :]
            if damaged == content:
                continue
            (tmp_path / "g.tgpack").write_bytes(broken_packs.with_crc(damaged))
            try:
                tg.load(tmp_path / "g.tgpack").validate()
                accepted.append(at)
            except tg.DataError as error:
                assert error.file
    assert set(accepted) <= {24}, accepted  # of the origin nothing can be known


BROKEN = broken_packs.files()


@pytest.mark.parametrize("name", list(BROKEN))
def test_broken_pack(name, tmp_path):
    field, content = BROKEN[name]
    assert refused(content, tmp_path / f"{name}.tgpack").field == field


def test_wrong_contents_with_right_checksums(tmp_path):
    """What the checksums cannot tell: arrays that are no graph."""
    many = packed(small(1, 2, 2, values=1), tmp_path / "few.tgpack")._digits.codes[1].shape[0]
    assert many <= 12
    digits = np.array([[[0] * 18, [1] * 18]])
    small(1, 2, 2, node_config_feat=digits).save(tmp_path / "two.tgpack")
    content = bytearray((tmp_path / "two.tgpack").read_bytes())
    for i, at, (_, _, offset, size, *_) in list(entries(content)):
        if PARTS[i] == "node_config_feat":
            content[offset + 4] = 2
            struct.pack_into("<I", content, at + 4, zlib.crc32(content[offset : offset + size]))
    path = tmp_path / "two.tgpack"
    error = refused(broken_packs.with_crc(bytes(content)), path)
    assert error.field == "node_config_feat"
    graph = tg.load(path)
    ranker = tg.Ranker(steps=1)
    ranker.fit([small(4, 2, 2)])
    handle = packs.Pack(str(path)).handle
    for use in (
        lambda: graph.digits_of([0]), graph.distinct_configs, lambda: ranker.predict(graph),
        lambda: _core.pack_check(handle, True), lambda: graph._digits.stored(),
    ):  # fmt: skip
        refuses(use, tg.DataError, "two.tgpack", "config 0, node 1, tensor 1")


def test_codes_are_checked_by_the_core(tmp_path):
    graph = small(4, 3, 2)
    nodes = (graph.node_feat, graph.node_opcode, None, graph.edge_index % 3, graph.node_config_ids)
    codes, table = np.zeros((4, 2, 3), np.uint8), np.zeros((1, 6), np.int8)
    assert _core.ModelGraph(*nodes, (codes, table)).num_configs == 4
    for wrong in (codes.astype(np.int32), codes[:, :1], codes[:, :, :2], codes[0], codes[::-1], None, [1]):
        with pytest.raises((tg.ShapeError, TypeError)):
            _core.ModelGraph(*nodes, (wrong, table))
    for wrong in (table.astype(np.int16), table[:, :5], None):
        with pytest.raises((tg.ShapeError, TypeError)):
            _core.ModelGraph(*nodes, (codes, wrong))
    for pair in ((codes,), (codes, table, table), ()):
        with pytest.raises(TypeError):
            _core.ModelGraph(*nodes, pair)
    refuses(lambda: _core.ModelGraph(*nodes, (codes, table + 9)), tg.DataError, "digits", "-1..5")
    for rows in ([4], [-5]):
        refuses(
            lambda: _core.Digits((4, 2, 18), codes=codes, table=table).take(rows), IndexError, "4 configs"
        )
    with pytest.raises(tg.DataError):
        _core.Digits((4, 2, 18), codes=codes + 1, table=table).take([0])
    with pytest.raises(ValueError):
        _core.pack_check(object(), True)
    with pytest.raises(ValueError):
        _core.pack_release(None)


def test_what_is_no_pack(tmp_path):
    for content, match in ((b"hello", "something else"), (b"PK\3\4" + bytes(2000), "something else")):
        refused(content, tmp_path / "x.tgpack", match)
    version = broken_packs.with_crc(LAYOUT[:8] + struct.pack("<I", 2) + LAYOUT[12:])
    refused(version, tmp_path / "x.tgpack", "version 1 of the format, found version 2")
    refuses(lambda: tg.load(tmp_path / "none.tgpack"), FileNotFoundError, "none.tgpack")
    (tmp_path / "folder.tgpack").mkdir()
    refuses(lambda: tg.load(tmp_path / "folder.tgpack"), tg.DataError, "a directory")
    os.mkfifo(tmp_path / "pipe.tgpack")
    with pytest.raises(tg.DataError):
        tg.load(tmp_path / "pipe.tgpack")
    graph = tmp_path / "g.tgpack"
    graph.write_bytes(LAYOUT)
    refuses(lambda: tg.load(graph, max_bytes=100), tg.DataError, "max_bytes")


def test_open_files_do_not_pile_up(tmp_path):
    path = tmp_path / "g.tgpack"
    path.write_bytes(LAYOUT)
    graphs = [tg.load(path) for _ in range(300)]
    assert len(os.listdir("/proc/self/fd")) < 200 and graphs[0].num_configs == 30


def test_a_dict_that_changes_while_its_arrays_are_written(tmp_path):
    arrays = {"node_feat": np.ones((40_000, 140), np.float32)}  # so large that it goes back to the system

    class Path:
        def __fspath__(self):
            arrays.clear()
            return str(tmp_path / "none.npz")

    with open(tmp_path / "x.tgpack", "wb") as file, pytest.raises((OSError, tg.Error)):
        digits = (Path(), (0, 0, 0, 0), (1, 1, 18))
        _core.pack_write(file.fileno(), "layout", arrays, digits, (0, 0, 0), np.zeros(2, np.int64))
    assert not arrays
    written = (tmp_path / "x.tgpack").read_bytes()[1024 : 1024 + 40_000 * 560]
    assert written == np.ones((40_000, 140), np.float32).tobytes()
