"""A table of broken .npz files: name -> (the field an error must name, what to write).

`files()` is deterministic, so the table can also be written to a folder for other tests (`write_all`).
"""

from __future__ import annotations

import io
import json
import struct
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

Content = bytes | Callable[[Path], None]


def layout() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(1)
    return {
        "node_feat": rng.normal(size=(9, 140)).astype(np.float32) * (np.arange(140) < 134),
        "node_opcode": rng.integers(0, 121, 9).astype(np.uint8),
        "edge_index": rng.integers(0, 9, (12, 2)),
        "node_config_ids": np.array([1, 4, 7]),
        "node_splits": np.array([[0, 4, 9]]),
        "node_config_feat": rng.integers(-1, 6, (30, 3, 18)).astype(np.float32),
        "config_runtime": rng.integers(1, 10**9, 30),
    }


def tile() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(2)
    nodes = {key: layout()[key] for key in ("node_feat", "node_opcode", "edge_index")}
    return {
        **nodes,
        "config_feat": rng.normal(size=(6, 24)).astype(np.float32),
        "config_runtime": rng.integers(1, 10**9, 6),
        "config_runtime_normalizers": rng.integers(1, 10**9, 6),
    }


def any_schema() -> dict[str, np.ndarray]:
    """Arrays of a graph with a schema of its own."""
    rng = np.random.default_rng(3)
    return {
        "tpugraphs_schema": np.frombuffer(SCHEMA.encode(), np.uint8),
        "node_feat": rng.random((4, 2)).astype(np.float32),
        "node_opcode": np.array([0, 1, 2, 2], np.uint8),
        "edge_index": np.array([[1, 0], [2, 1], [3, 2]]),
        "graph_feat": np.array([512, 1], np.float32),
        "node_config_ids": np.array([1, 3]),
        "node_config_feat": rng.integers(-1, 2, (5, 2, 3)).astype(np.int8),
        "runtime": rng.random(5) + 1,
        "valid": np.array([True, True, False, True, True]),
        "repeats": rng.random((5, 2)) + 1,
    }


SCHEMA = json.dumps({"format": 2, "schema": {
    "node": [{"name": "size", "kind": "log"}, {"name": "weight", "kind": "number"}],
    "graph": [{"name": "batch", "kind": "log"}, {"name": "gpu", "kind": "category", "values": ["A", "B"]}],
    "config": [], "digits": [{"name": f"d{i}", "values": 2 + i} for i in range(3)],
    "opcodes": 3, "unit": "ms", "inferred": False,
}})  # fmt: skip


def npz(arrays: dict[str, np.ndarray], compressed: bool = True) -> bytes:
    file = io.BytesIO()
    (np.savez_compressed if compressed else np.savez)(file, allow_pickle=True, **arrays)
    return file.getvalue()


def members(arrays: dict[str, np.ndarray]) -> dict[str, bytes]:
    result = {}
    for key, array in arrays.items():
        file = io.BytesIO()
        np.lib.format.write_array(file, array)
        result[f"{key}.npy"] = file.getvalue()
    return result


def packed(parts: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return file.getvalue()


def zip64(arrays: dict[str, np.ndarray]) -> bytes:
    """As tools write archives beyond 4 GiB: sizes in zip64 extra fields, and a zip64 end record that is needed."""
    limit, zipfile.ZIP64_LIMIT = zipfile.ZIP64_LIMIT, 0
    try:
        data = npz(arrays)
    finally:
        zipfile.ZIP64_LIMIT = limit
    return patched(data, end(data) + 8, b"\xff" * 12)  # counts, size and place of the directory


def npy(descr: object, shape: object, data: bytes, fortran: object = False, version: int = 1) -> bytes:
    text = f"{{'descr': {descr}, 'fortran_order': {fortran}, 'shape': {shape}, }}".encode()
    return raw_npy(text, data, version)


def raw_npy(text: bytes, data: bytes, version: int = 1) -> bytes:
    return (
        b"\x93NUMPY"
        + bytes([version, 0])
        + struct.pack("<H" if version == 1 else "<I", len(text))
        + text
        + data
    )


def with_member(field: str, content: bytes) -> bytes:
    return packed({**members(layout()), f"{field}.npy": content})


def patched(data: bytes, at: int, new: bytes) -> bytes:
    return data[:at] + new + data[at + len(new) :]


def flipped(data: bytes, at: int, bit: int = 3) -> bytes:
    return patched(data, at, bytes([data[at] ^ 1 << bit]))


def central(data: bytes, field: str) -> int:
    """Where the directory entry of a member begins."""
    return data.rindex(b"PK\1\2", 0, data.rindex(f"{field}.npy".encode()))


def local(data: bytes, field: str) -> int:
    return data.rindex(b"PK\3\4", 0, data.index(f"{field}.npy".encode()))


def end(data: bytes) -> int:
    return data.rindex(b"PK\5\6")


def wrong_arrays() -> Iterator[tuple[str, str, Content]]:
    """Right zip, right npy, wrong content."""
    one = layout()
    nan, inf, huge = np.float32("nan"), np.float32("inf"), 10**12

    def put(field, at, value, dtype=None):
        array = one[field].astype(dtype or one[field].dtype)
        array[at] = value
        return array

    changes = {
        "node_feat": [
            put("node_feat", (3, 7), nan),
            put("node_feat", (0, 0), inf),
            put("node_feat", (8, 139), -inf),
            put("node_feat", (0, 1), 1e300, np.float64),
            one["node_feat"][:, :139],
            one["node_feat"].reshape(-1),
            np.concatenate([one["node_feat"]] * 2, 1),
            one["node_feat"].T,
            one["node_feat"][None],
            one["node_feat"].astype("S4"),
            one["node_feat"].astype(complex),
            np.zeros((0, 140), np.float32),
            one["node_feat"].astype(object),
            np.zeros((9, 140), "M8[s]"),
            np.array(3.0, np.float32),
        ],
        "node_opcode": [
            put("node_opcode", 2, 256, np.int64),
            put("node_opcode", 2, -1, np.int64),
            put("node_opcode", 2, 1.5, "f4"),
            put("node_opcode", 2, nan, "f4"),
            one["node_opcode"][:8],
            np.zeros(10, np.uint8),
            one["node_opcode"][:, None],
            one["node_opcode"].astype("U3"),
            one["node_opcode"].astype(object),
            put("node_opcode", 0, 2**63, np.uint64),
        ],
        "edge_index": [
            put("edge_index", (0, 0), 9),
            put("edge_index", (11, 1), -1),
            put("edge_index", (5, 0), huge),
            put("edge_index", (5, 0), 3.5, np.float64),
            put("edge_index", (5, 0), nan, np.float32),
            one["edge_index"].T,
            put("edge_index", (5, 0), 2**64 - 1, np.uint64),
            put("edge_index", (5, 0), 1e30, np.float64),
            one["edge_index"].reshape(-1),
            np.concatenate([one["edge_index"]] * 2, 1),
            one["edge_index"].astype(object),
            np.zeros((2, 2, 2, 2), np.int64),
        ],
        "node_splits": [
            np.array([0, 10]),
            np.array([-1, 9]),
            np.array([0, 5, 4, 9]),
            np.array([[0, 4], [4, 9]]),
            np.array(0.5),
            np.array([0, np.nan]),
            np.zeros((1, 1, 1), np.int64),
            np.array(["a"]),
        ],
        "node_config_ids": [
            np.array([1, 4, 9]),
            np.array([-1, 4, 7]),
            np.array([1, 4, 4]),
            np.array([1, 4, 4.5]),
            np.array([[1, 4, 7]]),
            np.array([b"1", b"4", b"7"]),
            np.array([1, 4, huge]),
            np.array(4),
            np.array([1, 4, 7], object),
        ],
        "node_config_feat": [
            put("node_config_feat", (29, 2, 17), 6),
            put("node_config_feat", (0, 0, 0), -2),
            put("node_config_feat", (1, 1, 1), 0.5),
            put("node_config_feat", (1, 1, 1), nan),
            put("node_config_feat", (1, 1, 1), inf),
            put("node_config_feat", (1, 1, 1), 1e30),
            put("node_config_feat", (1, 1, 1), 2**63 - 1, np.int64),
            put("node_config_feat", (1, 1, 1), -128, np.int8),
            put("node_config_feat", (1, 1, 1), nan, np.float16),
            one["node_config_feat"][:, :2],
            one["node_config_feat"][:, :, :17],
            one["node_config_feat"].reshape(30, 54),
            one["node_config_feat"][..., None],
            np.asfortranarray(one["node_config_feat"]),
            one["node_config_feat"].astype("S2"),
            one["node_config_feat"].astype(object),
            np.swapaxes(one["node_config_feat"], 1, 2),
        ],
        "config_runtime": [
            put("config_runtime", 3, -5),
            put("config_runtime", 3, 2.5, np.float64),
            one["config_runtime"][:29],
            put("config_runtime", 3, nan, np.float64),
            np.zeros(31, np.int64),
            one["config_runtime"][:, None],
            put("config_runtime", 3, inf, np.float32),
            put("config_runtime", 3, 2**63, np.uint64),
            one["config_runtime"].astype("m8[ns]"),
            np.array(5),
        ],
    }
    for field, arrays in changes.items():
        for i, array in enumerate(arrays):
            yield f"layout_{field}_{i}", field, npz({**one, field: array})
    for field in (
        "node_feat",
        "node_opcode",
        "edge_index",
        "node_config_ids",
        "node_config_feat",
        "config_runtime",
    ):
        yield f"layout_without_{field}", field, npz({k: v for k, v in one.items() if k != field})

    two = tile()
    bad_feat, bad_norm = two["config_feat"].copy(), two["config_runtime_normalizers"].copy()
    bad_feat[2, 3], bad_norm[1] = nan, 0
    tiles = {
        "config_feat": [
            bad_feat,
            two["config_feat"][:5],
            two["config_feat"][:, :23],
            two["config_feat"].astype(object),
        ],
        "config_runtime": [two["config_runtime"][:5], -two["config_runtime"] + np.arange(6) * 10**10],
        "config_runtime_normalizers": [
            bad_norm,
            two["config_runtime_normalizers"][:5],
            two["config_runtime_normalizers"] + 0.5,
        ],
    }
    for field, arrays in tiles.items():
        for i, array in enumerate(arrays):
            # A wrong number of configs shows in the runtimes, which are checked against the features.
            named = "config_runtime" if field == "config_feat" and i == 1 else field
            yield f"tile_{field}_{i}", named, npz({**two, field: array})
        yield f"tile_without_{field}", field, npz({k: v for k, v in two.items() if k != field})
    yield "mixed_tile_and_layout", "config_feat", npz({**one, **two})
    yield "runtime_only", "node_config_feat", npz({"config_runtime": two["config_runtime"], **{
        key: two[key] for key in ("node_feat", "node_opcode", "edge_index")}})  # fmt: skip
    yield "nothing_known", "node_feat", npz({"a": np.ones(3)})
    yield "no_members", "node_feat", npz({})


def wrong_schemas() -> Iterator[tuple[str, str, Content]]:
    """Files with a schema of their own."""
    good = any_schema()

    def put(field: str, at: object, value: float, dtype: object = None) -> bytes:
        array = good[field].astype(dtype or good[field].dtype)
        array[at] = value
        return npz({**good, field: array})

    field = "tpugraphs_schema"
    texts = {
        "empty": "", "list": "[]", "text": "schema", "later": SCHEMA.replace(': 2, "schema"', ': 3, "schema"'),
        "no_format": SCHEMA.replace('"format": 2, ', ""), "cut": SCHEMA[:-9], "deep": "[" * 100_000,
        "unknown_kind": SCHEMA.replace('"log"', '"ln"'), "unknown_unit": SCHEMA.replace('"ms"', '"min"'),
        "unknown_field": SCHEMA.replace('"opcodes"', '"opcode"'), "name_twice": SCHEMA.replace('"size"', '"weight"'),
        "no_values": SCHEMA.replace(', "values": ["A", "B"]', ""), "values_twice": SCHEMA.replace('"B"', '"A"'),
        "mixed_values": SCHEMA.replace('"B"', "1"), "number_as_name": SCHEMA.replace('"size"', "7"),
        "too_many_opcodes": SCHEMA.replace('"opcodes": 3', '"opcodes": 300'),
        "one_value": SCHEMA.replace('"values": 2', '"values": 1'),
        "33_values": SCHEMA.replace('"values": 2', '"values": 33'), "not_utf8": "\xff",
        "null": SCHEMA.replace('"config": []', '"config": null'),
    }  # fmt: skip
    for name, text in texts.items():
        yield f"schema_{name}", field, npz({**good, field: np.frombuffer(text.encode("latin-1"), np.uint8)})
    yield "schema_floats", field, npz({**good, field: np.ones(3)})
    for missing in (
        "node_feat",
        "edge_index",
        "runtime",
        "node_config_ids",
        "node_config_feat",
        "node_opcode",
    ):
        yield f"schema_without_{missing}", missing, npz({k: v for k, v in good.items() if k != missing})
    yield "schema_graph_feat_missing", "graph_feat", npz({k: v for k, v in good.items() if k != "graph_feat"})
    yield (
        "schema_digits_of_fewer",
        "node_config_feat",
        npz({**good, "node_config_feat": good["node_config_feat"][:, :, :2]}),
    )
    yield (
        "schema_digits_flat",
        "node_config_feat",
        npz({**good, "node_config_feat": good["node_config_feat"][0]}),
    )
    yield "schema_features_too", "config_feat", npz({**good, "config_feat": np.ones((5, 2), np.float32)})
    yield "schema_published_runtime", "config_runtime", npz({**good, "config_runtime": np.arange(5)})
    yield "schema_category_2", "gpu", put("graph_feat", 1, 2)
    yield "schema_category_half", "gpu", put("graph_feat", 1, 0.5)
    yield "schema_log_below_0", "size", put("node_feat", (2, 0), -1)
    yield "schema_feature_nan", "node_feat", put("node_feat", (2, 1), np.nan)
    yield "schema_graph_infinite", "graph_feat", put("graph_feat", 0, np.inf)
    yield "schema_opcode_3", "node_opcode", put("node_opcode", 0, 3)
    yield "schema_edge_beyond", "edge_index", put("edge_index", (0, 0), 4)
    yield "schema_config_node_twice", "node_config_ids", put("node_config_ids", 0, 3)
    yield "schema_runtime_0", "runtime", put("runtime", 0, 0)
    yield "schema_runtime_nan", "runtime", put("runtime", 0, np.nan)
    yield "schema_runtime_infinite", "runtime", put("runtime", 1, np.inf)
    yield "schema_runtime_below_0", "runtime", put("runtime", 1, -1)
    yield "schema_runtime_short", "runtime", npz({**good, "runtime": good["runtime"][:4]})
    yield "schema_valid_ints", "valid", npz({**good, "valid": np.ones(5)})
    yield "schema_valid_none", "valid", npz({**good, "valid": np.zeros(5, bool)})
    yield "schema_repeats_0", "repeats", put("repeats", (0, 1), 0)
    yield "schema_repeats_short", "repeats", npz({**good, "repeats": good["repeats"][:4]})
    yield "schema_digit_2", "node_config_feat", put("node_config_feat", (4, 1, 0), 2)
    yield "schema_digit_below", "node_config_feat", put("node_config_feat", (4, 1, 0), -2)
    yield "schema_digit_half", "node_config_feat", put("node_config_feat", (0, 0, 2), 0.5, np.float32)
    yield "schema_digit_nan", "node_config_feat", put("node_config_feat", (0, 0, 2), np.nan, np.float32)


def wrong_headers() -> Iterator[tuple[str, str, Content]]:
    """Right zip, wrong npy."""
    field = "node_opcode"
    cases = {
        "empty": b"",
        "short": b"\x93NUMPY",
        "no_magic": b"NUMPY" + bytes(200),
        "version_0": npy("'|u1'", "(9,)", bytes(9), version=0),
        "version_4": npy("'|u1'", "(9,)", bytes(9), version=4),
        "header_longer_than_member": b"\x93NUMPY\x01\x00\xff\xff" + b"{",
        "header_4_gib": b"\x93NUMPY\x02\x00\xff\xff\xff\xff" + b"{" * 100,
        "header_70_kb": raw_npy(b"{'descr': '|u1'" + b" " * 70000 + b"}", bytes(9), 2),
        "not_a_dict": raw_npy(b"[1, 2, 3]", bytes(9)),
        "unclosed_dict": raw_npy(b"{'descr': '|u1', 'fortran_order': False, 'shape': (9,)", bytes(9)),
        "text_after_dict": raw_npy(b"{'descr': '|u1', 'fortran_order': False, 'shape': (9,)} x", bytes(9)),
        "no_shape": raw_npy(b"{'descr': '|u1', 'fortran_order': False}", bytes(9)),
        "two_shapes": raw_npy(
            b"{'descr': '|u1', 'fortran_order': False, 'shape': (9,), 'shape': (8,)}", bytes(9)
        ),
        "extra_key": raw_npy(b"{'descr': '|u1', 'fortran_order': False, 'shape': (9,), 'x': 1}", bytes(9)),
        "code_in_shape": npy("'|u1'", "(__import__('os').system('true'),)", bytes(9)),
        "list_shape": npy("'|u1'", "[9]", bytes(9)),
        "number_shape": npy("'|u1'", "(9)", bytes(9)),
        "negative_shape": npy("'|u1'", "(-9,)", bytes(9)),
        "float_shape": npy("'|u1'", "(9.0,)", bytes(9)),
        "too_long_shape": npy("'|u1'", "(10,)", bytes(9)),
        "too_short_shape": npy("'|u1'", "(8,)", bytes(9)),
        "lying_item_size": npy("'<i8'", "(9,)", bytes(9)),
        "overflow_one": npy("'<i8'", "(9223372036854775807,)", bytes(9)),
        "overflow_product": npy("'<i8'", "(4294967296, 4294967296)", bytes(9)),
        "overflow_digits": npy("'|u1'", "(99999999999999999999999999,)", bytes(9)),
        "wraps_to_9": npy("'|u1'", "(18446744073709551625,)", bytes(9)),
        "product_with_zero": npy("'|u1'", "(0, 9223372036854775807, 9)", bytes(9)),
        "endless_beside_zero": npy("'<f4'", "(0, 4611686018427387904)", b""),
        "endless_before_zero": npy("'<i8'", "(2305843009213693952, 0, 1)", b""),
        "four_dimensions": npy("'|u1'", "(9, 1, 1, 1)", bytes(9)),
        "many_dimensions": npy("'|u1'", "(" + "1, " * 200 + ")", bytes(9)),
        "structured": npy("[('a', '|u1')]", "(9,)", bytes(9)),
        "object": npy("'|O'", "(9,)", b"\x80\x04N."),
        "void": npy("'|V1'", "(9,)", bytes(9)),
        "string": npy("'|S1'", "(9,)", bytes(9)),
        "float16_byte": npy("'<f1'", "(9,)", bytes(9)),
        "long_double": npy("'<f16'", "(1,)", bytes(16)),
        "three_byte_ints": npy("'<i3'", "(3,)", bytes(9)),
        "no_order": npy("'|i4'", "(1,)", bytes(4)),
        "bad_order": npy("'!i4'", "(1,)", bytes(4)),
        "long_dtype": npy("'<i" + "4" * 90 + "'", "(1,)", bytes(4)),
        "fortran_maybe": npy("'|u1'", "(9,)", bytes(9), fortran="Maybe"),
        "control_characters": npy("'\x01\x02'", "(9,)", bytes(9)),
        "pickle": b"\x80\x04\x95" + bytes(50),
        "trailing_bytes": npy("'|u1'", "(9,)", bytes(30)),
    }
    for name, content in cases.items():
        yield f"npy_{name}", field, with_member(field, content)
    big = npy("'<f4'", "(1000000000, 3, 18)", bytes(100))
    yield "npy_config_bomb", "node_config_feat", with_member("node_config_feat", big)


def wrong_zips() -> Iterator[tuple[str, str, Content]]:
    """Damage to the zip itself."""
    good, stored = npz(layout()), npz(layout(), compressed=False)
    size = len(good)
    for i, at in enumerate([1, 2, 4, 21, 22, 30, 100, *np.linspace(200, size - 1, 25).astype(int).tolist()]):
        yield f"cut_{i:02d}_at_{at}", "zip", good[:at]
    for i, at in enumerate([30, 1000, len(stored) // 2, len(stored) - 2]):
        yield f"cut_stored_{i}", "zip", stored[:at]
    yield "empty_file", "zip", b""
    yield "zeros", "zip", bytes(5000)
    yield "text", "zip", b"node_feat,node_opcode\n1,2\n" * 50
    yield "npy_not_npz", "zip", members(layout())["node_feat.npy"]
    yield "gzip", "zip", b"\x1f\x8b\x08" + bytes(500)
    yield "html", "zip", b"<!DOCTYPE html><html>sign in</html>"
    yield "trailing_garbage", "zip", good + b"garbage"
    yield "trailing_zeros", "zip", good + bytes(100_000)
    yield "leading_garbage", "zip", b"garbage" + good
    yield "twice", "zip", good + good
    for field in ("node_feat", "edge_index", "node_config_feat", "config_runtime"):
        at, entry = local(good, field), central(good, field)
        data = at + 30 + len(field) + 4 + struct.unpack_from("<H", good, at + 28)[0]
        length = struct.unpack_from("<I", good, entry + 20)[0]
        for place in (0, 1, 40 if length > 60 else 20, length // 2, length - 2):
            yield f"flip_{field}_{place}", field, flipped(good, data + place)
        stored_at = local(stored, field)
        stored_data = stored_at + 30 + len(field) + 4 + struct.unpack_from("<H", stored, stored_at + 28)[0]
        yield f"flip_stored_{field}", field, flipped(stored, stored_data + 140)
        yield f"zeroed_{field}", field, patched(good, data + 10, bytes(20))
        for name, where, width in (("crc", 16, 4), ("packed", 20, 4), ("size", 24, 4), ("method", 10, 2)):
            value = struct.unpack_from("<I" if width == 4 else "<H", good, entry + where)[0]
            for delta in (1, 77):
                new = struct.pack("<I" if width == 4 else "<H", value + delta)
                yield f"directory_{name}_{field}_{delta}", field, patched(good, entry + where, new)
        huge = patched(good, entry + 24, struct.pack("<I", 0xFFFFFFF0))
        yield f"directory_4_gib_{field}", field, huge
        yield f"encrypted_{field}", field, patched(patched(good, entry + 8, b"\1"), at + 6, b"\1")
        yield f"lzma_{field}", field, patched(patched(good, entry + 10, b"\16"), at + 8, b"\16")
        yield f"offset_{field}", field, patched(good, entry + 42, struct.pack("<I", 3))
        yield f"offset_far_{field}", field, patched(good, entry + 42, struct.pack("<I", 0x7FFFFFFF))
        yield f"local_signature_{field}", field, patched(good, at, b"XX")
        yield f"local_name_{field}", field, patched(good, at + 30, b"X")
        yield f"local_crc_{field}", field, flipped(good, at + 14)
    bytes_in = members(layout())["node_opcode.npy"]
    for name, method in (("deflated", zipfile.ZIP_DEFLATED), ("stored", zipfile.ZIP_STORED)):
        lying = packed({**members(layout()), "node_opcode.npy": bytes_in}, method)
        for delta in (-1, 1, 1000):
            wrong = struct.pack("<I", len(bytes_in) + delta)
            entry, at = central(lying, "node_opcode"), local(lying, "node_opcode")
            both = patched(patched(lying, entry + 24, wrong), at + 22, wrong)
            yield f"sizes_agree_but_lie_{name}_{delta}", "node_opcode", both
    yield "duplicate_member", "node_opcode", duplicate()
    yield "overlapping_members", "node_opcode", overlapping()
    where = end(good)
    yield "end_count", "zip", patched(good, where + 10, b"\3\0")
    yield "end_size", "zip", flipped(good, where + 12)
    yield "end_offset", "zip", flipped(good, where + 16)
    yield "end_disk", "zip", patched(good, where + 4, b"\1\0")
    yield "end_zip64_missing", "zip", patched(good, where + 16, b"\xff" * 4)
    large = zip64(layout())
    record, locator = large.rindex(b"PK\6\6"), large.rindex(b"PK\6\7")
    yield "end64_signature", "zip", flipped(large, record)
    yield "end64_length", "zip", flipped(large, record + 4)
    yield "end64_disk", "zip", flipped(large, record + 16)
    yield "end64_count", "zip", flipped(large, record + 32)
    yield "end64_size", "zip", flipped(large, record + 40)
    yield "end64_offset", "zip", flipped(large, record + 48)
    yield "end64_locator", "zip", flipped(large, locator)
    yield "end64_place", "zip", flipped(large, locator + 8)
    yield "end_many_members", "zip", patched(good, where + 8, b"\xfe\xff\xfe\xff")
    yield "directory_entry", "zip", patched(good, central(good, "edge_index"), b"XXXX")
    yield "directory_name_length", "zip", patched(good, central(good, "edge_index") + 28, b"\xff\xff")
    yield "bzip2", "node_feat", packed(members(layout()), zipfile.ZIP_BZIP2)
    yield "directory", "file", lambda path: path.mkdir()
    yield "fifo", "file", lambda path: __import__("os").mkfifo(path)


def duplicate() -> bytes:
    """Two members of one name, as tools that append make them; zipfile warns, so it is patched in."""
    parts = {**members(layout()), "node_opcodX.npy": members(layout())["node_opcode.npy"]}
    return packed(parts).replace(b"node_opcodX", b"node_opcode")


def overlapping() -> bytes:
    """Two directory entries that share one member's bytes."""
    data = packed({**members(layout()), "node_opcodX.npy": members(layout())["node_opcode.npy"]})
    first, second = central(data, "node_opcode"), central(data, "node_opcodX")
    data = data.replace(b"node_opcode.npy", b"node_opcodZ.npy", 1) if first > second else data
    offset = data[first + 42 : first + 46]
    data = patched(data, second + 42, offset)
    return data.replace(b"node_opcodX", b"node_opcode")


def files() -> dict[str, tuple[str, Content]]:
    table: dict[str, tuple[str, Content]] = {}
    for part in (wrong_arrays, wrong_schemas, wrong_headers, wrong_zips):
        for name, field, content in part():
            assert name not in table
            table[name] = (field, content)
    return table


def write(content: Content, path: Path) -> Path:
    if callable(content):
        content(path)
    else:
        path.write_bytes(content)
    return path


def write_all(folder: Path) -> list[Path]:
    """Write the whole table as <folder>/<name>.npz."""
    return [write(content, Path(folder, f"{name}.npz")) for name, (_, content) in files().items()]
