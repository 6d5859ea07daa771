"""A table of broken packs: name -> (the field an error must name, the bytes). Deterministic, like those of `npz`.

Where it is not the checksums that are broken, they are right: otherwise nothing else would be looked at.
"""

from __future__ import annotations

import struct
import tempfile
import zlib
from collections.abc import Iterator
from pathlib import Path

from broken import npz

import tpugraphs as tg
from tpugraphs.data.schema import read_schema

HEADER = 1024
# As in csrc/io/pack.h.
PARTS = (
    "node_feat",
    "node_opcode",
    "edge_index",
    "node_splits",
    "config_runtime",
    "node_config_ids",
    "config_feat",
    "config_runtime_normalizers",
    "node_config_feat",
    "config_table",
)
ANY_PARTS = (
    "node_feat",
    "node_opcode",
    "edge_index",
    "graph_feat",
    "runtime",
    "valid",
    "repeats",
    "config_feat",
    "node_config_ids",
    "node_config_feat",
    "schema",
)
ITEM, CRC, OFFSET, BYTES, SHAPE = 0, 4, 8, 16, 24  # places in the entry of an array


def good(kind: str) -> bytes:
    """Bytes of a good pack, "layout", "tile" or "any_schema"."""
    arrays = getattr(npz, kind)()
    if kind == "any_schema":
        arrays["schema"], arrays["about"] = read_schema(arrays.pop("tpugraphs_schema"))
    classes = {"layout": tg.LayoutGraph, "tile": tg.TileGraph, "any_schema": tg.Graph}
    graph = classes[kind](**arrays)
    with tempfile.TemporaryDirectory() as folder:
        graph.save(Path(folder, "g.tgpack"))
        return Path(folder, "g.tgpack").read_bytes()


def parts_of(content: bytes) -> tuple[str, ...]:
    """Names of the arrays by entry."""
    return ANY_PARTS if content[12] == 2 else PARTS


def entries(content: bytes) -> dict[str, tuple[int, int, int]]:
    """Array -> place of its entry, offset and bytes of what is there."""
    found = {}
    for i, name in enumerate(parts_of(content)):
        at = 64 + 64 * i
        item, _, offset, size = struct.unpack_from("<IIQQ", content, at)
        if item:
            found[name] = (at, offset, size)
    return found


def with_crc(content: bytes) -> bytes:
    """The same with the right checksum of the header."""
    return content[: HEADER - 4] + struct.pack("<I", zlib.crc32(content[: HEADER - 4])) + content[HEADER:]


def put(content: bytes, at: int, fmt: str, *values: float) -> bytes:
    """The same with other numbers somewhere, and every checksum right."""
    data = bytearray(content)
    struct.pack_into(fmt, data, at, *values)
    for place, offset, size in entries(content).values():
        struct.pack_into("<I", data, place + CRC, zlib.crc32(data[offset : offset + size]))
    return with_crc(bytes(data))


def header(content: bytes, at: int, fmt: str, value: int) -> bytes:
    """The same with another number in the header, whose checksum is right."""
    data = bytearray(content)
    struct.pack_into(fmt, data, at, value)
    return with_crc(bytes(data))


def heads() -> Iterator[tuple[str, str, bytes]]:
    """What is wrong with the file as a whole."""
    pack = good("layout")
    for n in (1, 7, 8, 100, HEADER - 1):
        yield f"cut_at_{n}", "header", pack[:n]
    yield "empty", "header", b""
    yield "only_header", "file", pack[:HEADER]
    yield "a_byte_less", "file", pack[:-1]
    yield "a_byte_more", "file", pack + b"\0"
    yield "twice", "file", pack + pack
    yield "an_npz", "header", npz.npz(npz.layout())
    yield "magic", "header", with_crc(b"\x89TGPACk\n" + pack[8:])
    yield "as_text", "header", with_crc(pack.replace(b"\n", b"\r\n", 1)[: len(pack)])
    yield "zeros", "header", bytes(len(pack))
    yield "header_checksum", "header", npz.flipped(pack, HEADER - 2)
    for version in (0, 2, 3, 2**32 - 1):
        yield f"version_{version}", "version", header(pack, 8, "<I", version)
    yield "published_of_any_schema", "version", header(pack, 12, "<I", 2)
    for kind in (3, 2**31):
        yield f"kind_{kind}", "header", header(pack, 12, "<I", kind)
    yield "layout_as_tile", "node_config_ids", header(pack, 12, "<I", 1)
    yield "tile_as_layout", "node_config_ids", header(good("tile"), 12, "<I", 0)
    for size in (0, 1, HEADER, len(pack) - 1, len(pack) + 1, 2**63, 2**64 - 1):
        yield f"size_{size}", "file", header(pack, 16, "<Q", size)
    yield "size_of_source", "header", header(pack, 24, "<Q", 2**63)
    for count in (0, 9, 11, 2**32 - 1):
        yield f"entries_{count}", "header", header(pack, 44, "<I", count)
    for at in (48, 56, 64 + 48, 64 + 56, 64 + 64 * len(PARTS), HEADER - 12):
        yield f"not_zero_{at}", "header", header(pack, at, "<Q", 1)


def tables() -> Iterator[tuple[str, str, bytes]]:
    """Entries of arrays that cannot be."""
    for kind in ("layout", "tile", "any_schema"):
        pack = good(kind)
        parts = entries(pack)
        for name, (at, offset, size) in parts.items():
            if kind == "tile" and name in entries(good("layout")) and name != "config_runtime":
                continue
            changes = {
                "item": (ITEM, "<I", 3),
                "absent": (ITEM, "<I", 0),
                "wide": (ITEM, "<I", 2**32 - 1),
                "beyond": (OFFSET, "<Q", len(pack) + 64 - len(pack) % 64),
                "below_zero": (OFFSET, "<Q", 2**64 - 64),
                "in_header": (OFFSET, "<Q", 0),
                "off_by_one": (OFFSET, "<Q", offset + 1),
                "shorter": (BYTES, "<Q", max(0, size - 1)),
                "huge": (BYTES, "<Q", 2**62),
                "long": (SHAPE, "<Q", 2**47),
                "overflow": (SHAPE, "<Q", 2**61),
                "one_more": (SHAPE, "<Q", struct.unpack_from("<Q", pack, at + SHAPE)[0] + 1),
            }
            for what, (place, fmt, value) in changes.items():
                yield f"{kind}_{name}_{what}", name, header(pack, at + place, fmt, value)
            yield f"{kind}_{name}_flipped", name, npz.flipped(pack, offset + size // 2)
            yield f"{kind}_{name}_checksum", name, header(pack, at + CRC, "<I", 1)
            if offset % 4096 and pack[offset - 1] == 0 and offset - 1 >= HEADER:
                before = [end for _, begin, length in parts.values() if (end := begin + length) <= offset]
                if max(before, default=HEADER) < offset:
                    yield f"{kind}_{name}_gap", name, npz.patched(pack, offset - 1, b"x")


def schema_contents() -> Iterator[tuple[str, str, bytes]]:
    """Arrays that do not fit the schema of the pack, or are none of a graph."""
    pack = good("any_schema")
    places = entries(pack)
    at = {name: offset for name, (_, offset, _) in places.items()}
    nan, inf = float("nan"), float("inf")
    for name, part, field, place, fmt, value in (
        ("nan", "node_feat", "node_feat", 4, "<f", nan),
        ("log_below_0", "node_feat", "size", 8, "<f", -1.0),
        ("opcode_3", "node_opcode", "node_opcode", 1, "<B", 3),
        ("edge_beyond", "edge_index", "edge_index", 0, "<q", 4),
        ("category_2", "graph_feat", "gpu", 4, "<f", 2.0),
        ("runtime_nan", "runtime", "runtime", 8, "<d", nan),
        ("runtime_infinite", "runtime", "runtime", 8, "<d", inf),
        ("runtime_0", "runtime", "runtime", 0, "<d", 0.0),
        ("runtime_below_0", "runtime", "runtime", 0, "<d", -1.0),
        ("valid_2", "valid", "valid", 0, "<B", 2),
        ("repeat_0", "repeats", "repeats", 0, "<d", 0.0),
        ("ids_twice", "node_config_ids", "node_config_ids", 0, "<q", 3),
        ("id_beyond", "node_config_ids", "node_config_ids", 0, "<q", 4),
        ("digit_2", "node_config_feat", "node_config_feat", 0, "<b", 2),
        ("digit_below", "node_config_feat", "node_config_feat", 29, "<b", -2),
        ("format_3", "schema", "tpugraphs_schema", 10, "1s", b"3"),
        ("no_json", "schema", "tpugraphs_schema", 0, "1s", b"["),
    ):
        yield f"any_{name}", field, put(pack, at[part] + place, fmt, value)
    start = places["runtime"][0]
    yield "any_type", "runtime", header(pack, start + 48, "<Q", ord("u"))
    yield "any_type_wide", "runtime", header(pack, start + 48, "<Q", ord("f") + 256)
    for name, other in (("graph_feat", "graph_feat"), ("node_config_ids", "node_config_feat")):
        gone = bytearray(pack)
        gone[places[name][0] : places[name][0] + 64] = bytes(64)
        yield f"any_without_{name}", "runtime" if name == "graph_feat" else other, with_crc(bytes(gone))


def contents() -> Iterator[tuple[str, str, bytes]]:
    """Arrays that are no graph, with right checksums."""
    pack = good("layout")
    at = {name: offset for name, (_, offset, _) in entries(pack).items()}
    nan, inf = float("nan"), float("inf")
    for name, part, place, fmt, value in (
        ("nan", "node_feat", 40, "<f", nan),
        ("infinite", "node_feat", 0, "<f", -inf),
        ("edge_to_nowhere", "edge_index", 8, "<q", 9),
        ("edge_from_below", "edge_index", 0, "<q", -1),
        ("edge_huge", "edge_index", 16, "<q", 2**62),
        ("splits_beyond", "node_splits", 8, "<q", 10**12),
        ("splits_falling", "node_splits", 16, "<q", 1),
        ("runtime_below_zero", "config_runtime", 8, "<q", -5),
        ("config_node_beyond", "node_config_ids", 0, "<q", 9),
        ("config_node_twice", "node_config_ids", 8, "<q", 1),
        ("digit_6", "config_table", 3, "<b", 6),
        ("digit_below", "config_table", 3, "<b", -2),
    ):
        yield name, part, put(pack, at[part] + place, fmt, value)
    yield (
        "entry_twice",
        "config_table",
        put(pack, at["config_table"] + 6, "6s", pack[at["config_table"] :][:6]),
    )
    for place in (0, 100, 538):  # two bytes each: there are 270 different random tensors
        yield f"number_{place}", "node_config_feat", put(pack, at["node_config_feat"] + place, "<H", 65535)
    yield from schema_contents()
    tile = good("tile")
    at = {name: offset for name, (_, offset, _) in entries(tile).items()}
    yield "tile_nan", "config_feat", put(tile, at["config_feat"] + 4, "<f", nan)
    yield "normalizer_0", "config_runtime_normalizers", put(tile, at["config_runtime_normalizers"], "<q", 0)


def files() -> dict[str, tuple[str, bytes]]:
    """Give the whole table."""
    table: dict[str, tuple[str, bytes]] = {}
    for part in (heads, tables, contents):
        for name, field, content in part():
            assert name not in table
            table[name] = (field, content)
    return table
