"""Reading, writing and handing out graphs."""

import io
import pickle
import struct
import subprocess
import sys
import tracemalloc
import zipfile
import zlib

import madeup
import numpy as np
import pytest
from refusals import refuses

import tpugraphs as tg
from tpugraphs import _core, data
from tpugraphs.data import description
from tpugraphs.data import published as graphs
from tpugraphs.system import files


def layout_arrays(nodes=7, configs=5, config_nodes=3, seed=0):
    rng = np.random.default_rng(seed)
    return {
        "node_feat": rng.normal(size=(nodes, 140)).astype(np.float32) * (np.arange(140) < 134),
        "node_opcode": rng.integers(0, 121, nodes).astype(np.uint8),
        "edge_index": rng.integers(0, nodes, (9, 2)),
        "node_config_ids": np.sort(rng.permutation(nodes)[:config_nodes]),
        "node_splits": np.array([[0, 3, nodes]]),
        "node_config_feat": rng.integers(-1, 6, (configs, config_nodes, 18)).astype(np.float32),
        "config_runtime": rng.integers(1, 10**12, configs),
    }


def tile_arrays(nodes=4, configs=6, seed=0):
    rng = np.random.default_rng(seed)
    return {
        "node_feat": rng.normal(size=(nodes, 140)).astype(np.float32) * (np.arange(140) < 134),
        "node_opcode": rng.integers(0, 121, nodes).astype(np.uint8),
        "edge_index": rng.integers(0, nodes, (3, 2)),
        "config_feat": rng.normal(size=(configs, 24)).astype(np.float32),
        "config_runtime": rng.integers(1, 10**9, configs),
        "config_runtime_normalizers": rng.integers(1, 10**9, configs),
    }


def same(graph, arrays):
    for field, array in arrays.items():
        have = np.asarray(getattr(graph, field))
        np.testing.assert_array_equal(have, np.asarray(array).reshape(have.shape), err_msg=field)


@pytest.mark.parametrize("name", madeup.NAMES)
def test_files_equal_numpy(name):
    graph = madeup.graph(name)
    with np.load(madeup.path(name), allow_pickle=False) as file:
        arrays = dict(file)
    same(graph, arrays)
    assert graph.kind == ("tile" if name in madeup.KERNELS else "layout")
    assert graph.name == name and graph.has_runtimes
    for field in arrays:
        if field != "node_config_feat":
            assert not getattr(graph, field).flags.writeable


def test_dtypes_and_sizes():
    g = madeup.graph("long")
    assert (g.num_nodes, g.num_config_nodes, g.num_configs) == (372, 26, 6000)
    dtypes = {
        "node_feat": np.float32, "node_opcode": np.uint8, "edge_index": np.int64, "node_splits": np.int64,
        "node_config_ids": np.int64, "config_runtime": np.int64, "config_digits": np.int8,
    }  # fmt: skip
    for field, dtype in dtypes.items():
        assert getattr(g, field).dtype == dtype
    u = madeup.graph("program")
    assert (u.num_nodes, u.num_edges, u.num_configs) == (1200, len(u.edge_index), 112)
    t = madeup.graph("kernel_01")
    assert t.config_feat.dtype == np.float32 and t.config_runtime_normalizers.dtype == np.int64
    assert t.node_splits.tolist() == [[0, 10]] and t.num_config_nodes == 0


@pytest.mark.parametrize(
    "arrays", [layout_arrays(), tile_arrays(), layout_arrays(configs=0), layout_arrays(1, 4, 0)]
)
def test_save_load_round_trip(tmp_path, arrays):
    arrays["edge_index"] = arrays["edge_index"].clip(0, len(arrays["node_feat"]) - 1)
    if "node_splits" in arrays:
        arrays["node_splits"] = arrays["node_splits"].clip(0, len(arrays["node_feat"]))
    cls = tg.TileGraph if "config_feat" in arrays else tg.LayoutGraph
    made = cls(**arrays, name="x")
    same(made, arrays)
    made.save(tmp_path / "x.npz")
    read = tg.load(tmp_path / "x.npz").validate()
    same(read, arrays)
    assert type(read) is cls and read.name == "x" and read.path == str(tmp_path / "x.npz")
    with np.load(tmp_path / "x.npz") as file:
        dtypes = {key: file[key].dtype for key in file}
        np.testing.assert_array_equal(file["edge_index"], arrays["edge_index"])
    want = {"node_feat": "f4", "node_opcode": "u1", "config_feat": "f4", "node_config_feat": "f4"}
    assert dtypes == {key: np.dtype(want.get(key, "i8")) for key in arrays}
    first = (tmp_path / "x.npz").read_bytes()
    read.save(tmp_path / "y.npz")
    assert (tmp_path / "y.npz").read_bytes() == first  # equal graphs give equal files
    assert sorted(p.name for p in tmp_path.iterdir()) == ["x.npz", "y.npz"]


def test_save_failure_leaves_old_file(tmp_path, monkeypatch):
    g = tg.LayoutGraph(**layout_arrays())
    g.save(tmp_path / "g.npz")
    before = (tmp_path / "g.npz").read_bytes()

    def fail(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", fail)
    refuses(lambda: g.replace(name="other").save(tmp_path / "g.npz"), OSError, "No space")
    assert (tmp_path / "g.npz").read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["g.npz"]


INTEGERS = [
    "i1",
    "u1",
    "<i2",
    ">i2",
    "<u2",
    ">u2",
    "<i4",
    ">i4",
    "<u4",
    "<i8",
    ">i8",
    "<u8",
    ">u8",
    "<f4",
    ">f4",
    "<f8",
]


@pytest.mark.parametrize("dtype", [*INTEGERS, "<f2"])
@pytest.mark.parametrize("compressed", [True, False])
def test_every_dtype_variant(tmp_path, dtype, compressed):
    arrays = layout_arrays(config_nodes=3)
    arrays["config_runtime"] = np.arange(1, 6)
    if np.dtype(dtype).kind == "u":
        arrays["node_config_feat"] = np.abs(arrays["node_config_feat"])
    stored = {key: value.astype(dtype) for key, value in arrays.items() if key != "node_feat"}
    stored["node_feat"] = arrays["node_feat"].astype(">f8")
    stored["unknown_extra"] = np.array(["text"], dtype=object)
    stored["node_splits"] = stored["node_splits"].reshape(-1)
    save = np.savez_compressed if compressed else np.savez
    save(tmp_path / "g.npz", **stored, allow_pickle=True)
    same(tg.load(tmp_path / "g.npz").validate(), arrays)
    same(tg.LayoutGraph(**{k: v for k, v in stored.items() if k != "unknown_extra"}), arrays)


def test_fortran_order_and_booleans(tmp_path):
    arrays = layout_arrays()
    arrays["node_config_feat"] = (arrays["node_config_feat"] > 0).astype(bool)
    stored = {**arrays, "edge_index": np.asfortranarray(arrays["edge_index"])}
    stored["node_feat"] = np.asfortranarray(arrays["node_feat"])
    np.savez(tmp_path / "g.npz", **stored)
    same(tg.load(tmp_path / "g.npz"), arrays)


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
def test_npy_versions(tmp_path, version):
    arrays = tile_arrays()
    with zipfile.ZipFile(tmp_path / "g.npz", "w") as archive:
        for key, value in arrays.items():
            member = io.BytesIO()
            np.lib.format.write_array(member, value, version=version)
            archive.writestr(f"{key}.npy", member.getvalue())
    same(tg.load(tmp_path / "g.npz"), arrays)


def test_streamed_zip_with_data_descriptors(tmp_path):
    """A writer that cannot seek puts sizes and CRC behind the data."""

    class Pipe(io.RawIOBase):
        def __init__(self):
            self.data = bytearray()

        def writable(self):
            return True

        def write(self, b):
            self.data += bytes(b)
            return len(b)

    arrays, pipe = layout_arrays(), Pipe()
    with zipfile.ZipFile(pipe, "w", zipfile.ZIP_DEFLATED) as archive:
        for key, value in arrays.items():
            with archive.open(f"{key}.npy", "w") as member:
                np.lib.format.write_array(member, value)
    (tmp_path / "g.npz").write_bytes(bytes(pipe.data))
    assert pipe.data[6] & 8
    same(tg.load(tmp_path / "g.npz").validate(), arrays)


def test_zip_comment_is_allowed(tmp_path):
    np.savez(tmp_path / "g.npz", **tile_arrays())
    with zipfile.ZipFile(tmp_path / "g.npz", "a") as archive:
        archive.comment = b"made by hand"
    same(tg.load(tmp_path / "g.npz"), tile_arrays())


@pytest.mark.parametrize("level", [1, 6, 9])
@pytest.mark.parametrize("seed", range(6))
def test_inflate_equals_zlib(tmp_path, level, seed):
    """Noise, runs, text-like and mixed data, long enough for several windows and pieces."""
    rng = np.random.default_rng(seed)
    n = 400_000
    kinds = [
        rng.integers(0, 256, n), np.zeros(n), rng.integers(0, 3, n),
        np.tile(rng.integers(0, 256, 33), n // 33 + 1)[:n],
        np.repeat(rng.integers(0, 256, n // 200 + 1), 200)[:n], rng.geometric(0.02, n) % 256,
    ]  # fmt: skip
    noise = kinds[seed].astype(np.uint8)
    noise = np.concatenate([noise, noise[1 : int(rng.integers(2, 40000))]])
    with zipfile.ZipFile(tmp_path / "a.npz", "w", zipfile.ZIP_DEFLATED, compresslevel=level) as archive:
        member = io.BytesIO()
        np.lib.format.write_array(member, noise)
        archive.writestr("node_feat.npy", member.getvalue())
    members, _ = _core.npz_load(str(tmp_path / "a.npz"), ("node_feat",), (), 1 << 30)
    np.testing.assert_array_equal(members["node_feat"], noise)


def zip_of(name, content, deflated):
    """A zip with one deflated member, by hand: zipfile offers no choice of strategy."""
    sizes = struct.pack("<HHHIII", 8, 0, 0, zlib.crc32(content), len(deflated), len(content))
    local = b"PK\3\4" + struct.pack("<HH", 20, 0) + sizes + struct.pack("<HH", len(name), 0) + name + deflated
    entry = b"PK\1\2" + struct.pack("<HHH", 20, 20, 0) + sizes
    entry += struct.pack("<HHHHHII", len(name), 0, 0, 0, 0, 0, 0) + name
    return local + entry + b"PK\5\6" + struct.pack("<HHHHIIH", 0, 0, 1, 1, len(entry), len(local), 0)


STRATEGIES = [zlib.Z_DEFAULT_STRATEGY, zlib.Z_FILTERED, zlib.Z_HUFFMAN_ONLY, zlib.Z_RLE, zlib.Z_FIXED]
FLUSHES = [zlib.Z_NO_FLUSH, zlib.Z_SYNC_FLUSH, zlib.Z_FULL_FLUSH, zlib.Z_PARTIAL_FLUSH]


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("level", [0, 1, 9])
@pytest.mark.parametrize("flush", FLUSHES)
def test_every_kind_of_block(tmp_path, strategy, level, flush):
    """Stored, fixed and dynamic blocks in a row, broken off anywhere, around the sizes of the buffers."""
    rng = np.random.default_rng(level)
    pieces = [
        rng.integers(0, 256, int(n), np.uint8) if i % 3 else np.full(int(n), i % 251, np.uint8)
        for i, n in enumerate(rng.integers(0, 30000, 40))
    ]
    pieces += [np.tile(rng.integers(0, 4, d, np.uint8), 900 // d) for d in range(1, 70)]
    array = np.concatenate(pieces)
    file = io.BytesIO()
    np.lib.format.write_array(file, array)
    content = file.getvalue()
    packer = zlib.compressobj(level, zlib.DEFLATED, -15, 8, strategy)
    deflated = packer.compress(content[: len(content) - array.size])
    for piece in pieces:
        deflated += packer.compress(piece.tobytes()) + packer.flush(flush)
    deflated += packer.flush()
    (tmp_path / "a.npz").write_bytes(zip_of(b"node_feat.npy", content, deflated))
    members, _ = _core.npz_load(str(tmp_path / "a.npz"), ("node_feat",), (), 1 << 30)
    np.testing.assert_array_equal(members["node_feat"], array)


@pytest.mark.parametrize(
    "size", [*range(20), 63, 64, 65, 127, 128, 129, 143, 144, 145, 255, 1000, 4096, 100_003]
)
def test_crc_of_any_length(tmp_path, size):
    """Stored members, so that the CRC runs over pieces of every length and alignment: a wrong one is refused."""
    noise = np.random.default_rng(size).integers(0, 256, size).astype(np.uint8)
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        member = io.BytesIO()
        np.lib.format.write_array(member, noise)
        archive.writestr("node_feat.npy", member.getvalue())
    members, _ = _core.npz_load(str(tmp_path / "a.npz"), ("node_feat",), (), 1 << 30)
    np.testing.assert_array_equal(members["node_feat"], noise)


def test_config_features_behave_like_an_array(tmp_path):
    arrays = layout_arrays(configs=40)
    np.savez_compressed(tmp_path / "g.npz", **arrays)
    g, feat = tg.load(tmp_path / "g.npz"), arrays["node_config_feat"]
    x = g.node_config_feat
    assert (x.shape, x.dtype, x.ndim, len(x), x.size) == (feat.shape, np.float32, 3, 40, feat.size)
    for key in (
        3,
        -1,
        slice(2, 30, 3),
        [5, 1, 1],
        np.arange(40) % 2 == 0,
        (slice(None), 1),
        ...,
        np.array([], int),
    ):
        np.testing.assert_array_equal(x[key], feat[key])
        assert np.asarray(x[key]).dtype == np.float32
    rows = x[[1, 2]]
    rows[:] = 9  # a copy: the graph stays as it is
    np.testing.assert_array_equal(np.asarray(x), feat)
    np.testing.assert_array_equal(np.asarray(x, dtype=np.float64), feat)
    with pytest.raises(IndexError):
        x[40]
    assert g.config_digits.dtype == np.int8 and not g.config_digits.flags.writeable
    with pytest.raises(ValueError):
        g.config_digits.flags.writeable = True
    with pytest.raises(ValueError):
        g.edge_index[0, 0] = 99


def test_digits_are_read_on_first_use(tmp_path):
    arrays = layout_arrays()
    np.savez(tmp_path / "g.npz", **arrays)
    g = tg.load(tmp_path / "g.npz")
    np.savez(tmp_path / "g.npz", **{**arrays, "node_config_feat": 1 - arrays["node_config_feat"].clip(0, 1)})
    refuses(lambda: g.node_config_feat[[0]], tg.DataError, "g.npz: node_config_feat", "changed since")
    g = tg.load(tmp_path / "g.npz")
    first = g.config_digits
    (tmp_path / "g.npz").unlink()
    assert g.config_digits is first
    copy = pickle.loads(pickle.dumps(g))
    np.testing.assert_array_equal(copy.config_digits, first)
    assert not copy.config_digits.flags.writeable and not copy.edge_index.flags.writeable


def test_bad_digit_is_found_where_it_is(tmp_path):
    for value in (7, -2, 0.5, np.nan, np.inf, 1e30):
        arrays = layout_arrays(configs=2000)
        arrays["node_config_feat"][1234, 2, 17] = value
        np.savez_compressed(tmp_path / "g.npz", **arrays)
        g = tg.load(tmp_path / "g.npz")
        for use in (g.validate, lambda g=g: g.node_config_feat[[0]], lambda a=arrays: tg.LayoutGraph(**a)):
            with pytest.raises(tg.DataError, match="row 1234, node 2, column 17") as caught:
                use()
            assert caught.value.field == "node_config_feat"
        assert tg.load(tmp_path / "g.npz").num_configs == 2000


def test_module_without_configs(tmp_path):
    arrays = {key: layout_arrays()[key] for key in ("node_feat", "node_opcode", "edge_index", "node_splits")}
    np.savez(tmp_path / "g.npz", **arrays)
    g = tg.load(tmp_path / "g.npz").validate()
    assert isinstance(g, tg.LayoutGraph) and (g.num_configs, g.num_config_nodes) == (0, 0)
    assert g.config_digits.shape == (0, 0, 18) and not g.has_runtimes
    assert "no configs" in g.describe()["warnings"][0]
    g.save(tmp_path / "h.npz")
    assert tg.load(tmp_path / "h.npz").num_configs == 0


def test_one_node_without_edges(tmp_path):
    arrays = {**tile_arrays(nodes=1), "edge_index": np.array([])}  # shape (0,), float64
    np.savez(tmp_path / "g.npz", **arrays)
    g = tg.load(tmp_path / "g.npz")
    assert g.edge_index.shape == (0, 2) and g.edge_index.dtype == np.int64 and g.num_edges == 0
    assert g.describe()["isolated_nodes"] == 1


def test_placeholder_runtimes():
    arrays = layout_arrays()
    for runtime in (np.zeros(5, int), np.full(5, -1), None):
        g = tg.LayoutGraph(**{**arrays, "config_runtime": runtime})
        assert not g.has_runtimes and g.num_configs == 5 and g.describe()["runtime_ns"] is None
    assert tg.LayoutGraph(**{**arrays, "config_runtime": [0, 1, 2, 3, 4]}).has_runtimes
    with pytest.raises(tg.DataError, match="config_runtime"):
        tg.LayoutGraph(**{**arrays, "config_runtime": [-1, 1, 2, 3, 4]})
    assert not tg.TileGraph(**{**tile_arrays(), "config_runtime": np.zeros(6, int)}).has_runtimes


@pytest.mark.parametrize("made", [tg.LayoutGraph(**layout_arrays()), tg.TileGraph(**tile_arrays())])
@pytest.mark.parametrize("rows", [[3, 0, 3], slice(1, 4), np.array([], int), [], [-1]])
def test_select(made, rows):
    part = made.select(rows)
    index = np.asarray(rows, int) if isinstance(rows, list) else rows
    np.testing.assert_array_equal(part.config_runtime, made.config_runtime[index])
    field = "node_config_feat" if made.kind == "layout" else "config_feat"
    np.testing.assert_array_equal(np.asarray(getattr(part, field)), np.asarray(getattr(made, field))[index])
    assert part.name == made.name and part.node_feat is made.node_feat
    assert not part.config_runtime.flags.writeable
    mask = made.config_runtime > np.median(made.config_runtime)
    assert made.select(mask).num_configs == mask.sum()
    with pytest.raises(tg.DataError):
        made.select([made.num_configs])
    refuses(lambda: made.select([0.5]), tg.DataError, "rows")


@pytest.mark.parametrize("kind", ["layout", "tile"])
@pytest.mark.parametrize(
    ("rows", "found"),
    [
        ([1, 1000], "1000 at 1"),
        ([-7], "-7 at 0"),
        (np.array([6], np.uint8), "6 at 0"),
        ([True] * 5, r"shape \(5,\)"),
        ([0.5], "float64"),
        ([[0]], r"\(1, 1\)"),
        ("ab", "<U2"),
    ],
)
def test_select_refuses_rows_that_are_not_there(kind, rows, found):
    arrays = layout_arrays(configs=6) if kind == "layout" else tile_arrays(configs=6)
    graph = (tg.LayoutGraph if kind == "layout" else tg.TileGraph)(**arrays, name="mine")
    with pytest.raises(tg.DataError, match=f"rows: expected .*{found}"):
        graph.select(rows)
    refuses(lambda: graph.select([6]), tg.DataError, "'mine'", "6 configs")
    assert graph.select([-1, -6]).config_runtime.tolist() == graph.config_runtime[[5, 0]].tolist()


def test_arithmetic_with_config_features():
    graph = tg.LayoutGraph(**layout_arrays())
    features, plain = graph.node_config_feat, np.asarray(graph.node_config_feat)
    for result, expected in (
        (features + 1, plain + 1),
        (2 * features, 2 * plain),
        (-features, -plain),
        (features == plain, plain == plain),
        (features - features, plain - plain),
        (np.add.reduce(features), plain.sum(0)),
        (features.astype(np.int64), plain.astype(np.int64)),
    ):
        assert isinstance(result, np.ndarray) and result.dtype == expected.dtype
        assert np.array_equal(result, expected)
    assert features.nbytes == plain.nbytes
    with pytest.raises(TypeError, match="read-only"):
        features += 1


def test_replace_checks_and_graphs_are_read_only():
    g = tg.LayoutGraph(**layout_arrays(), name="a")
    h = g.replace(config_runtime=g.config_runtime[::-1], name="b")
    assert (
        h.name == "b" and (h.config_runtime == g.config_runtime[::-1]).all() and h.node_feat.base is not None
    )
    refuses(lambda: g.replace(edge_index=g.edge_index + 100), tg.DataError, "edge_index")
    refuses(lambda: g.replace(nodes=3), TypeError, "'nodes'")
    with pytest.raises(AttributeError, match="replace"):
        g.edge_index = g.edge_index + 100
    mine = layout_arrays()
    held = tg.LayoutGraph(**mine)
    mine["edge_index"][:] = 10**9  # the graph has its own copy
    assert held.edge_index.max() < 7 and mine["edge_index"].flags.writeable


def test_describe_and_reprs():
    g = madeup.graph("program")
    d = g.describe()
    assert d["distinct_configs"] == len(np.unique(g.config_digits.reshape(112, -1), axis=0))
    assert d["runtime_ns"]["median"] == np.median(g.config_runtime)
    assert sum(d["configurable_opcodes"].values()) == 62 and len(d["opcodes"]) == 10
    assert d["degree"]["in"]["mean"] == pytest.approx(g.num_edges / 1200)
    assert "reshape" in description.format_description(d)
    assert "nodes=1200" in repr(g)
    evil = g.replace(name="<script>alert(1)</script>")
    assert "<script>" not in evil._repr_html_() and "1,200" in evil._repr_html_()
    constant = tg.LayoutGraph(**{**layout_arrays(), "config_runtime": np.full(5, 7)})
    assert any("all runtimes are equal" in text for text in constant.describe()["warnings"])


def test_a_failed_write_names_the_file_asked_for(tmp_path):
    graph = madeup.graph("kernel_00")
    (tmp_path / "folder.npz").mkdir()
    for path in (tmp_path / "missing" / "g.npz", tmp_path / "folder.npz"):
        with pytest.raises(OSError) as caught:
            graph.save(path)
        assert caught.value.filename == str(path) and caught.value.filename2 is None
    with pytest.raises(FileNotFoundError) as caught, files.atomic_write(tmp_path / "a"):
        open(tmp_path / "other")
    assert caught.value.filename == str(tmp_path / "other")
    assert [p.name for p in tmp_path.iterdir()] == ["folder.npz"]


def test_max_bytes_and_file_errors(tmp_path):
    g = madeup.graph("long")
    assert tg.load(g.path, max_bytes=3_500_000).num_configs == 6000  # 2.8 MB of digits
    with pytest.raises(tg.DataError, match="max_bytes") as caught:
        tg.load(g.path, max_bytes=2_500_000)
    assert caught.value.field == "node_config_feat" and caught.value.file == g.path
    with pytest.raises(FileNotFoundError) as missing:
        tg.load(tmp_path / "none.npz")
    assert missing.value.filename == str(tmp_path / "none.npz")
    odd = tmp_path / "gr\udcffaph.npz"  # a name that is no UTF-8
    np.savez(odd, **tile_arrays())
    assert tg.load(odd).num_configs == 6
    odd.write_bytes(b"")
    with pytest.raises(tg.DataError):
        tg.load(odd)


def test_paths_and_limits_of_any_kind(tmp_path):
    path = tmp_path / "g.npz"
    madeup.graph("kernel_00").save(str(path).encode())
    for limit in (2**70, float("inf"), np.int64(10**9), 1e9):
        assert tg.load(str(path).encode(), max_bytes=limit).kind == "tile"
    for limit in ("3", -1, float("nan"), True, b"1"):
        refuses(lambda: tg.load(path, max_bytes=limit), tg.ConfigError, "max_bytes")
        with pytest.raises(tg.ConfigError, match="max_bytes"):
            tg.open_collection("tile:xla", tmp_path, max_bytes=limit)
    for call in (
        lambda: tg.load(None),
        lambda: tg.load(3),
        lambda: tg.load("a\0b"),
        lambda: madeup.graph("kernel_00").save(None),
        lambda: tg.open_collection("tile:xla", None),
    ):
        refuses(call, tg.ConfigError, "path")


def test_wrong_kinds_of_names():
    for name in (None, 3, ["alexnet"]):
        refuses(lambda: tg.open_collection(name), tg.ConfigError, "collection")
    arrays = tile_arrays()
    assert tg.TileGraph(**arrays, name=None).name == tg.TileGraph(**arrays).name == "graph"


def test_memory_stays_at_the_packed_size(tmp_path):
    """63 MB of float32 never exist: neither for NumPy (tracemalloc) nor for a process (a fresh one)."""
    digits = np.random.default_rng(0).integers(-1, 6, (33_774, 26, 18), np.int8)
    _with_configs(tmp_path / "g.npz", digits.astype(np.float32))
    tracemalloc.start()
    g = tg.load(tmp_path / "g.npz").validate()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1.3 * g.config_digits.nbytes
    code = (
        "import resource, sys, tpugraphs as tg; tg.load(sys.argv[1]).validate(); "
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss; g = tg.load(sys.argv[2]).validate(); "
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)"
    )
    command = [sys.executable, "-c", code, madeup.path("kernel_00"), tmp_path / "g.npz"]
    grown = int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    assert grown * 1024 < 22e6


def test_cancellation(tmp_path):
    """Ctrl-C while a long member is inflated: it stops within a second,"""
    code = """
import signal, sys, time, numpy as np, tpugraphs as tg, zipfile
g = tg.load(sys.argv[1])
def stop(*_): raise KeyboardInterrupt
signal.signal(signal.SIGALRM, stop)
signal.setitimer(signal.ITIMER_REAL, 0.02)
start = time.perf_counter()
try:
    g.validate()
    print("not stopped", time.perf_counter() - start)
except KeyboardInterrupt:
    print("stopped", time.perf_counter() - start < 1.0)
"""
    configs, pack = 300_000, np.zeros((1, 30, 18), np.float32).tobytes()
    arrays = layout_arrays(nodes=40, config_nodes=30, configs=0)
    del arrays["node_config_feat"]
    arrays["config_runtime"] = np.zeros(configs, np.int8)
    with zipfile.ZipFile(tmp_path / "g.npz", "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        header = {"descr": "<f4", "fortran_order": False, "shape": (configs, 30, 18)}
        with archive.open("node_config_feat.npy", "w", force_zip64=True) as member:
            np.lib.format.write_array_header_1_0(member, header)
            for _ in range(configs // 1000):
                member.write(pack * 1000)
        for key, value in arrays.items():
            with archive.open(f"{key}.npy", "w") as member:
                np.lib.format.write_array(member, value)
    result = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "g.npz")], check=True, capture_output=True, text=True
    )
    assert result.stdout.split() == ["stopped", "True"]


# --- collections ---


def make_collection(folder, kind="layout"):
    for split, names in {"train": ["b", "a_unet", "a"], "valid": ["v"], "test": ["0" * 32]}.items():
        (folder / split).mkdir(parents=True)
        for i, name in enumerate(names):
            np.savez(
                folder / split / f"{name}.npz", **(layout_arrays if kind == "layout" else tile_arrays)(seed=i)
            )


@pytest.mark.parametrize("middle", ["npz", "npz_all/npz", ""])
@pytest.mark.parametrize("name", list(data.COLLECTIONS))
def test_collections(tmp_path, name, middle):
    make_collection(tmp_path / middle / data.COLLECTIONS[name], name.split(":")[0])
    col = tg.open_collection(name, root=tmp_path)
    assert col.train.names == ["a", "a_unet", "b"] and len(col.test) == 1 and len(col.train) == 3
    g = col.train[-1]
    assert g.name == "b" and g.collection == name and g.kind == name.split(":")[0]
    assert col.test[0].submission_id == f"{name}:{'0' * 32}"
    assert [h.name for h in col.train] == ["a", "a_unet", "b"]
    assert col.train[1:].names == ["a_unet", "b"] and isinstance(col.train[:1][0], graphs.Graph)
    assert tg.load(col.valid.paths[0]).collection == name
    with pytest.raises(IndexError):
        col.train[3]
    assert tg.open_collection(name, root=tmp_path, exclude=["*unet*", "b"]).train.names == ["a"]
    assert tg.open_collection(name, root=tmp_path, exclude="b").train.names == ["a", "a_unet"]


def test_a_split_says_how_to_find_a_name(tmp_path):
    folder = tmp_path / "tile" / "xla" / "train"
    folder.mkdir(parents=True)
    madeup.graph("kernel_00").save(folder / "g0.npz")
    train = tg.open_collection("tile:xla", tmp_path).train
    refuses(lambda: train["g0"], TypeError, "split[split.names.index(name)]")
    assert train[np.int64(0)].name == train[train.names.index("g0")].name == "g0"
    for patterns in (3, ["g0", None]):
        refuses(lambda: train.exclude(patterns), tg.ConfigError, "exclude")
        refuses(lambda: tg.open_collection("tile:xla", tmp_path, exclude=patterns), tg.ConfigError, "exclude")
    with pytest.raises(tg.DataError) as caught:
        tg.open_collection("tile:xla", tmp_path / "nowhere")
    assert "  " not in str(caught.value)


def test_collection_errors(tmp_path):
    with pytest.raises(tg.ConfigError, match="'layout:xla:random'"):
        tg.open_collection("layout:xla:randon", root=tmp_path)
    with pytest.raises(tg.DataError, match=r"npz_all/npz/tile/xla.*download"):
        tg.open_collection("tile:xla", root=tmp_path)
    (tmp_path / "npz/tile/xla/train").mkdir(parents=True)
    col = tg.open_collection("tile:xla", root=tmp_path)
    refuses(lambda: col.train[0], tg.DataError, ".npz")
    refuses(lambda: col.test[0], tg.DataError, "'test'")
    with pytest.raises(tg.DataError, match="collection"):
        _ = madeup.graph("long").submission_id


@pytest.mark.parametrize("dtype", [np.float32, np.int8, np.float64, np.int64])
@pytest.mark.parametrize(
    ("C", "K", "kinds"), [(1, 1, 1), (40, 3, 5), (500, 26, 500), (9000, 13, 700), (9000, 13, 1)]
)
def test_distinct_configs_of_a_file_are_those_in_memory(tmp_path, C, K, kinds, dtype):
    """More than one batch of rows, rows cut by the pieces they come in, first copies anywhere."""
    rng = np.random.default_rng(C)
    different = rng.integers(-1, 6, (kinds, K, 18))
    digits = different[rng.integers(0, kinds, C)].astype(dtype)
    path = tmp_path / "g.npz"
    _with_configs(path, digits)
    graph = tg.load(path)
    assert graph._digits.in_file
    found, first, inverse = graph._digits.read_distinct()
    assert graph._digits.in_file
    expected_first, expected_inverse = graph.distinct_configs()
    assert not graph._digits.in_file
    np.testing.assert_array_equal(first, expected_first)
    np.testing.assert_array_equal(inverse, expected_inverse)
    np.testing.assert_array_equal(found, graph.config_digits[first])
    assert found.dtype == np.int8 and found.flags.c_contiguous


def test_distinct_configs_of_a_bad_file_are_refused(tmp_path):
    digits = np.zeros((3000, 20, 18), np.float32)
    digits[2500, 7, 3] = 6
    _with_configs(tmp_path / "g.npz", digits)
    graph = tg.load(tmp_path / "g.npz")
    with pytest.raises(tg.DataError, match="6 at row 2500, node 7, column 3") as caught:
        graph._digits.read_distinct()
    assert caught.value.file == str(tmp_path / "g.npz")
    _with_configs(tmp_path / "g.npz", digits[:9])
    refuses(graph._digits.read_distinct, tg.DataError, "changed")


def _with_configs(path, digits):
    """A layout graph with these configs."""
    graph, (C, K, _) = madeup.graph("long"), digits.shape
    np.savez_compressed(
        path,
        node_feat=graph.node_feat,
        node_opcode=graph.node_opcode,
        edge_index=graph.edge_index,
        node_splits=np.array([[0, graph.num_nodes]]),
        node_config_ids=np.arange(K),
        node_config_feat=digits,
        config_runtime=np.arange(1, C + 1),
    )
