"""Write a ranker as C: static data that a program compiles in and opens with libtpugraphs, without a file.

example:
  tpugraphs embed ranker.tgr --out model.c --name my_ranker
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from tpugraphs.cli.common import Args, Parser, emit, option, text_file, to_stdout
from tpugraphs.errors import ConfigError

if TYPE_CHECKING:
    from numpy.typing import NDArray

# What csrc/clib reads of a ranker's file.
_READ = (
    "kind version feature_schema precision fields schema extra preprocessing steps recipe graphs boosters "
    "rounds seed members"
).split()
_FIELDS = ("chunk", "occurrence", "bins", "references")
_PROCESSES = ("gaussian-process", "multi-task-gaussian-process")
_KINDS = {"float32": 0, "float64": 1, "int64": 2}  # of a tg_embedded_tensor
_OBJECT, _ARRAY, _STRING, _NUMBER, _LITERAL = 2, 3, 6, 7, 8  # tg_json_kind of csrc/base/json.h
_TOP = """/* A ranker of tpugraphs, written by `tpugraphs embed`:
   extern const tg_embedded {name};
   tg_ranker_open_embedded(&{name}, NULL, &ranker, &message); */
#include <tpugraphs.h>

extern const tg_embedded {name};

"""
_END = """
const tg_embedded {name} = {{sizeof(tg_embedded), 1, {checksum}u, {values}, {tensors}, {texts}u,
    value, tensor, (const char *)texts, data, {data}}};
"""


def add_arguments(parser: Parser) -> None:
    """Declare the options."""
    option(parser, "ranker RANKER", "file of a trained ranker: a network, trees or a Gaussian process")
    option(parser, "--out FILE", "file of C to write", required=True)
    option(parser, "--name NAME", "name of the variable in C", default="tg_model")


def run(args: Args) -> None:
    """Write the file; print how large the data is."""
    from tpugraphs.system import tensorfile

    if not re.fullmatch(r"[A-Za-z]\w{0,62}", args.name, re.ASCII):
        raise ConfigError(f"--name: expected a name of C, got {args.name!r:.80}")
    to_stdout(args, args.out)
    text, size = written(args.name, *tensorfile.read(args.ranker, "ranker", *_PROCESSES))
    with text_file(args.out) as file:
        file.write(text)
    result = {"out": args.out, "name": args.name, "bytes": size}
    emit(args, result, f"{args.out}: {size / 1000:,.1f} kB of data")


def written(name: str, metadata: Mapping[str, Any], tensors: Mapping[str, NDArray[Any]]) -> tuple[str, int]:
    """Return the C of a ranker, and how many bytes its data takes."""
    texts, places = bytearray(1), {b"": 0}

    def place(content: bytes) -> str:
        if content not in places:
            places[content] = len(texts)
            texts.extend(content + b"\0")
        return f"{places[content]}, {len(content)}"

    kept = {key: metadata[key] for key in _READ if key in metadata}
    if "fields" in kept:
        kept["fields"] = {key: kept["fields"][key] for key in _FIELDS if key in kept["fields"]}
    nodes = list(_nodes(kept))
    values = [
        f"    {{{kind}, {int(isinstance(number, int))}, 0, {place(key)}, {place(text)}, {count}, {first}, "
        f"{after}, {f'0, INT64_C({number})' if isinstance(number, int) else f'{number.hex()}, 0'}}}"
        for kind, key, text, count, first, after, number in nodes
    ]
    data, rows = bytearray(), list[str]()
    for key in sorted(tensors, key=str.encode):
        array = tensors[key]
        data.extend(bytes(-len(data) % 8))
        shape = ", ".join(map(str, [*array.shape, 1][:2]))
        kind = _KINDS[array.dtype.name]
        rows.append(f"    {{{place(key.encode())}, {kind}, {array.ndim}, {shape}, {len(data)}}}")
        data.extend(array.astype(array.dtype.newbyteorder("<")).tobytes())
    parts = [
        _TOP.format(name=name),
        _array("unsigned char texts", _numbers(texts)),
        _array("unsigned char data", _numbers(data or b"\0")),
        _array("tg_embedded_value value", values),
        _array("tg_embedded_tensor tensor", rows or ["    {0, 0, 0, 0, 0, 0, 0}"]),
    ]
    checksum = zlib.crc32(texts, zlib.crc32(data))
    sizes = {"values": len(values), "tensors": len(rows), "texts": len(texts), "data": len(data)}
    parts += [_END.format(name=name, checksum=checksum, **sizes)]
    return "".join(parts), len(texts) + len(data) + 56 * len(values) + 40 * len(rows)


def _nodes(root: Any) -> Iterator[tuple[int, bytes, bytes, int, int, int, int | float]]:
    """Yield (kind, key, text, entries, first, next, number) of all values, what one holds after it."""
    queue: list[tuple[bytes, Any, bool]] = [(b"", root, True)]
    for at, (key, value, last) in enumerate(queue):  # grows meanwhile
        text, below = b"", list[tuple[bytes, Any]]()
        number: int | float = 0
        if isinstance(value, dict):
            kind, below = _OBJECT, [(name.encode(), one) for name, one in value.items()]
        elif isinstance(value, list):
            kind, below = _ARRAY, [(b"", one) for one in value]
        elif isinstance(value, str):
            kind, text = _STRING, value.encode()
        elif value is None or isinstance(value, bool):
            kind, text = _LITERAL, {None: b"null", True: b"true", False: b"false"}[value]
        else:
            kind, number = _NUMBER, value if -(2**63) < value < 2**63 else float(value)
        first = len(queue) if below else 0
        queue += [(name, one, i == len(below) - 1) for i, (name, one) in enumerate(below)]
        yield kind, key, text, len(below), first, 0 if last else at + 1, number


def _array(declared: str, rows: list[str]) -> str:
    body = ",\n".join(rows)
    return f"static const {declared}[] = {{\n{body}}};\n"


def _numbers(content: bytes | bytearray) -> list[str]:
    return [",".join(map(str, content[i : i + 32])) for i in range(0, len(content), 32)]
