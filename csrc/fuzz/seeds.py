"""Seeds for the fuzz targets: whole files, small ones of odd kinds, streams."""

import io
import json
import struct
import sys
import zipfile
import zlib
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))
import hlo_files
import rankers
import tree_models
from broken import npz
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

import tpugraphs as tg

out = Path(sys.argv[1])
whole, streams, tensors = (out / f"corpus_{name}" for name in ("npz", "inflate", "safetensors"))
for folder in (whole, streams, tensors):
    folder.mkdir(parents=True, exist_ok=True)
for dtype in ("<f4", ">f4", "<f8", "<f2", "i1", ">i8", "<u4"):
    digits = (np.arange(2 * 3 * 18) % 6).reshape(2, 3, 18).astype(dtype)
    for save, kind in ((np.savez, "stored"), (np.savez_compressed, "deflated")):
        file = io.BytesIO()
        save(file, node_config_feat=digits, node_opcode=np.arange(3, dtype=np.uint8))
        (whole / f"{kind}_{np.dtype(dtype).str.strip('|<>')}_{dtype[0] == '>'}.npz").write_bytes(
            file.getvalue()
        )
file = io.BytesIO()
with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
    archive.comment = b"comment"
    for version in ((1, 0), (2, 0), (3, 0)):
        with archive.open(f"v{version[0]}.npy", "w", force_zip64=True) as member:
            np.lib.format.write_array(member, np.ones((2, 2)), version=version)
(whole / "versions.npz").write_bytes(file.getvalue())
for make in (npz.layout, npz.tile):
    with open(whole / f"{make.__name__}.npz", "wb") as graph:
        np.savez_compressed(graph, **make())
    (whole / f"zip64_{make.__name__}.npz").write_bytes(npz.zip64(make()))
texts = {
    "zeros": bytes(70000),
    "text": bytes(range(256)) * 40,
    "short": b"abc",
    "floats": np.ones(9000, "f4").tobytes(),
}
for name, text in texts.items():
    for level, strategy in (
        (0, 0),
        (1, 0),
        (9, 0),
        (9, zlib.Z_FIXED),
        (9, zlib.Z_HUFFMAN_ONLY),
        (9, zlib.Z_RLE),
    ):
        packer = zlib.compressobj(level, zlib.DEFLATED, -15, 9, strategy)
        packed = packer.compress(text) + packer.flush()
        (streams / f"{name}_{level}_{strategy}").write_bytes(len(text).to_bytes(3, "little") + packed)


def tensor_file(header: str, data: bytes) -> bytes:
    """Safetensors by hand."""
    raw = header.encode()
    return len(raw).to_bytes(8, "little") + raw + data


def one(name: str, dtype: str, shape: list[int], begin: int, end: int) -> str:
    """Entry of one tensor."""
    return f'"{name}":{{"dtype":"{dtype}","shape":{shape},"data_offsets":[{begin},{end}]}}'


for name, header, size in (
    ("empty", "{}", 0),
    ("note", '{"__metadata__":{"a":"b\\u00e9\\n\\ud83d\\ude00","c":""}}  ', 0),
    ("two", "{" + one("a", "F32", [2, 3], 0, 24) + "," + one("b", "I64", [], 24, 32) + "}", 32),
    ("turned", "{" + one("z", "BF16", [3], 8, 14) + "," + one("y", "F64", [1], 0, 8) + "}", 14),
    ("none", "{" + one("a", "U8", [0, 5], 0, 0) + "," + one("b", "BOOL", [2], 0, 2) + "}", 2),
    ("later", '{"a":{"new":[1.5e3,{"x":null}],"dtype":"I8","shape":[4],"data_offsets":[0,4]}}', 4),
    ("twice", "{" + one("a", "F16", [1], 0, 2) + "," + one("a", "F16", [1], 2, 4) + "}", 4),
    ("gap", "{" + one("a", "F16", [1], 2, 4) + "}", 4),
):
    (tensors / name).write_bytes(tensor_file(header, bytes(size)))

texts = out / "corpus_jsontree"
texts.mkdir(parents=True, exist_ok=True)
for name, text in {
    "ranker": '{"kind":"ranker","version":1,"fields":{"p":0.1,"n":-3,"on":true,"no":null},"steps":[[]]}',
    "numbers": "[0,-0,1e5,-2.5E-3,9223372036854775807,-9223372036854775808,123456789012345678901,1e308]",
    "texts": r'{"a\u00e9":"\ud83d\ude00\n","":"\u0000","b":""}',
    "deep": "[" * 64 + "]" * 64,
    "deeper": "[" * 65 + "]" * 65,
    "twice": '{"a":{"b":1,"c":2},"b":1,"a":2}',
    "huge": "[1e999]",
    "blanks": " [ 1 ,\t{ } , [ ] ]\r\n",
}.items():
    (texts / name).write_text(text, "utf-8", newline="")


def pack(kind: int, arrays: dict[int, np.ndarray]) -> bytes:
    """Make a pack as csrc/io/pack.h describes it; the keys are numbers of entries."""
    head, body = bytearray(1024), b""
    version, count, paged = (2, 11, 9) if kind == 2 else (1, 10, 8)
    for part, array in sorted(arrays.items()):
        end, step = 1024 + len(body), 4096 if part == paged else 64
        begin = -(-end // step) * step
        body += bytes(begin - end) + array.tobytes()
        crc = zlib.crc32(array.tobytes())
        sizes = (begin, array.nbytes, *array.shape)
        struct.pack_into(f"<II{len(sizes)}Q", head, 64 + 64 * part, array.itemsize, crc, *sizes)
        if kind == 2 and part == 4:
            struct.pack_into("<Q", head, 64 + 64 * part + 48, ord(array.dtype.kind))
    struct.pack_into("<8sIIQQqII", head, 0, b"\x89TGPACK\n", version, kind, 1024 + len(body), 7, 7, 7, count)
    struct.pack_into("<I", head, 1020, zlib.crc32(head[:1020]))
    return bytes(head) + body


packs = out / "corpus_pack"
packs.mkdir(parents=True, exist_ok=True)
for size, count in ((1, 3), (1, 0), (2, 40), (4, 2)):
    nodes = {
        0: np.zeros((2, 140), "<f4"),
        1: np.arange(2, dtype="u1"),
        2: np.array([[1, 0]], "<i8"),
        3: np.array([0, 2], "<i8"),
        4: np.arange(count, dtype="<i8"),
    }
    table = np.arange(18, dtype="i1").reshape(3, 6) % 7 - 1
    codes = (np.arange(count * 6) % 3).reshape(count, 2, 3).astype(f"<u{size}")
    layout = {**nodes, 5: np.array([0, 1], "<i8"), 8: codes, 9: table}
    (packs / f"layout_{size}_{count}").write_bytes(pack(0, layout))
    tile = {**nodes, 6: np.ones((count, 24), "<f4"), 7: np.ones(count, "<i8")}
    (packs / f"tile_{count}").write_bytes(pack(1, tile))

for kind, count in (("f", 3), ("i", 0)):
    schema = np.frombuffer(b'{"format":2,"schema":{}}', "u1")
    table = {
        0: np.zeros((2, 3), "<f4"),
        2: np.array([[1, 0]], "<i8"),
        4: np.ones(count, f"<{kind}8"),
        7: np.ones((count, 4), "<f4"),
        10: schema,
    }
    (packs / f"table_{kind}").write_bytes(pack(2, table))
    nodes = {
        **table,
        1: np.zeros(2, "u1"),
        3: np.ones(2, "<f4"),
        5: np.ones(count, "u1"),
        6: np.ones((count, 2), "<f8"),
    }
    digits = {8: np.array([0, 1], "<i8"), 9: np.zeros((count, 2, 5), "i1")}
    del nodes[7]
    (packs / f"digits_{kind}").write_bytes(pack(2, {**nodes, **digits}))

programs = out / "corpus_hlo"
programs.mkdir(parents=True, exist_ok=True)
for style, writer in enumerate((hlo_files.Writer(), hlo_files.Writer(packed=False, unknown=True))):
    for seed in range(6):
        small = hlo_files.program(seed, 1 + seed % 3, 5)
        for name, raw in {
            "module": writer.module(small),
            "hlo": writer.hlo(small),
            "layouts": writer.tuned(hlo_files.layouts(seed, 3)),
            "tiles": writer.tuned(hlo_files.tiles(seed)),
            "several": writer.tuning([{**hlo_files.tiles(seed + i), "module": small} for i in range(2)]),
            "chain": writer.module(hlo_files.chain()),
            "optimised": writer.module(hlo_files.optimised()),
        }.items():
            (programs / f"{name}_{style}_{seed}").write_bytes(raw)

models = out / "corpus_modeltext"
models.mkdir(parents=True, exist_ok=True)
for name, text in {
    "small": tree_models.SMALL,
    "chain": tree_models.chain(20).replace("max_feature_idx=0", "max_feature_idx=2"),
    "linear": tree_models.SMALL.replace("is_linear=0", "is_linear=1"),
    "mean": tree_models.SMALL.replace("feature_names", "average_output\nfeature_names"),
}.items():
    (models / name).write_text(text, newline="")

expressions = out / "corpus_expr"
expressions.mkdir(parents=True, exist_ok=True)
for i, text in enumerate(
    (
        "a * b <= 512 and (c == 0 or a % c == 0)",
        "1 < a <= b != c",
        "a in [1, 2, 3] or s not in ('x', \"y\\n\",)",
        "min(a, b, 3) ** 2 // max([c, 1]) if not a else abs(-b) << 2",
        "p[0] < p[-1] and True | False ^ ~a & 0x1f",
        "1_000.5e-3 / a > .5 or 9223372036854775807 * a",
        "((((a))))",
    )
):
    (expressions / str(i)).write_text(text)


# Rankers without digests, which would refuse every change, and calls that build a graph of such a ranker.
calls = out / "corpus_builder"
(out / "corpus_ranker").mkdir(exist_ok=True)
calls.mkdir(exist_ok=True)
seeds = {}
for recipe in ("graph-config", "first-layout", "first-tile", "sixth-gin"):
    make = rankers.SMALL_GRAPHS[rankers.get_recipe(recipe).kind]
    seeds[recipe] = rankers.small_ranker(recipe, steps=1, width=16)
    seeds[recipe].fit([make(0), make(1)], verbose=False)
processes = tg.ranker.GaussianProcess(seeds["graph-config"]), tg.ranker.MultiTaskGaussianProcess()
seeds["process"] = processes[0].fit(rankers.small_any(0, configs=9))
seeds["tasks"] = processes[1].fit([rankers.small_any(i, configs=5) for i in range(3)])
for recipe, ranker in seeds.items():
    ranker.save(out / "fuzz_ranker.tgr")
    with safe_open(out / "fuzz_ranker.tgr", "np") as file:
        notes = json.loads(file.metadata()["tpugraphs"])
    del notes["_digests"]
    arrays = load_file(out / "fuzz_ranker.tgr")
    save_file(arrays, out / "corpus_ranker" / recipe, {"tpugraphs": json.dumps(notes)})
ranker = rankers.small_ranker("graph-config", steps=1, width=16)
ranker.fit([rankers.small_any(0), rankers.small_any(1)], verbose=False)
ranker.save(out / "fuzz_ranker.tgr")
(calls / "chain").write_bytes(
    bytes(
        [
            0,
            1,
            1,
            0,
            2,
            1,
            0,
            3,
            0,
            3,
            1,
            0,
            4,
            2,
            1,
            8,
            0,
            0,
            1,
            1,
            5,
            255,
            5,
            0,
            8,
            2,
            0,
            0,
            4,
            14,
            12,
            0,
            9,
            7,
            1,
            14,
        ]
    )
)
