"""Broken safetensors files: name -> content. What is in `ONLY_OURS` the format's own library reads."""

import json


def entry(dtype="F32", shape=(2,), offsets=(0, 8)):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets)}


def file_of(header, data=b""):
    raw = (
        header
        if isinstance(header, bytes)
        else (header if isinstance(header, str) else json.dumps(header)).encode()
    )
    return len(raw).to_bytes(8, "little") + raw + data


EIGHT = b"12345678"
BROKEN = {
    "nothing": b"",
    "seven bytes": b"\0" * 7,
    "no header": b"\0" * 8,
    "header longer than the file": (9).to_bytes(8, "little") + b"{}",
    "huge header": b"\xff" * 8 + b"{}",
    "no object": file_of("[]"),
    "blank first": file_of(" {}", b"x"),
    "not closed": file_of("{"),
    "two values": file_of("{}{}"),
    "not UTF-8": file_of(b'{"__metadata__":{"a":"\xff"}}'),
    "surrogate in UTF-8": file_of(b'{"__metadata__":{"a":"\xed\xa0\x80"}}'),
    "long form in UTF-8": file_of(b'{"__metadata__":{"a":"\xc0\x80"}}'),
    "beyond Unicode": file_of(b'{"__metadata__":{"a":"\xf4\x90\x80\x80"}}'),
    "half a pair": file_of(r'{"__metadata__":{"a":"\ud800"}}'),
    "half a pair and more": file_of(r'{"__metadata__":{"a":"\ud800A"}}'),
    "second half": file_of(r'{"__metadata__":{"a":"\udc00"}}'),
    "unknown escape": file_of(r'{"__metadata__":{"a":"\x"}}'),
    "short escape": file_of(r'{"__metadata__":{"a":"\u12"}}'),
    "control character": file_of('{"__metadata__":{"a":"\n"}}'),
    "comma at the end": file_of('{"__metadata__":{},}'),
    "no comma": file_of('{"__metadata__":{"a":"" "b":""}}'),
    "no colon": file_of('{"__metadata__" {}}'),
    "single quotes": file_of("{'__metadata__':{}}"),
    "comment": file_of("{/**/}"),
    "wrong bracket": file_of('{"a":{"dtype":"F32","shape":[2},"data_offsets":[0,8]}}', EIGHT),
    "metadata is a list": file_of({"__metadata__": []}),
    "metadata of numbers": file_of({"__metadata__": {"a": 1}}),
    "metadata of objects": file_of({"__metadata__": {"a": {}}}),
    "metadata twice": file_of('{"__metadata__":{},"__metadata__":{}}'),
    "tensor is a list": file_of({"a": []}),
    "tensor is null": file_of({"a": None}),
    "no dtype": file_of({"a": {"shape": [2], "data_offsets": [0, 8]}}, EIGHT),
    "no shape": file_of({"a": {"dtype": "F32", "data_offsets": [0, 8]}}, EIGHT),
    "no offsets": file_of({"a": {"dtype": "F32", "shape": [2]}}, EIGHT),
    "dtype twice": file_of('{"a":{"dtype":"F32","dtype":"F32","shape":[2],"data_offsets":[0,8]}}', EIGHT),
    "unknown dtype": file_of({"a": entry("F33")}, EIGHT),
    "dtype in lower case": file_of({"a": entry("f32")}, EIGHT),
    "dtype is a number": file_of({"a": entry(32)}, EIGHT),
    "shape is a number": file_of('{"a":{"dtype":"F32","shape":2,"data_offsets":[0,8]}}', EIGHT),
    "negative length": file_of({"a": entry(shape=(-2,))}, EIGHT),
    "length is a float": file_of({"a": entry(shape=(2.0,))}, EIGHT),
    "length with an exponent": file_of('{"a":{"dtype":"F32","shape":[2e0],"data_offsets":[0,8]}}', EIGHT),
    "length with a zero before": file_of('{"a":{"dtype":"F32","shape":[02],"data_offsets":[0,8]}}', EIGHT),
    "length is text": file_of({"a": entry(shape=("2",))}, EIGHT),
    "length of 2^64": file_of({"a": entry(shape=(2**64,))}, EIGHT),
    "shape overflows": file_of({"a": entry(shape=(2**62, 2**62, 0), offsets=(0, 0))}),
    "bytes overflow": file_of({"a": entry(shape=(2**62 + 2,))}, EIGHT),
    "too few bytes": file_of({"a": entry(shape=(3,))}, EIGHT),
    "too many bytes": file_of({"a": entry(shape=(1,))}, EIGHT),
    "offsets turned": file_of({"a": entry(offsets=(8, 0))}, EIGHT),
    "one offset": file_of({"a": entry(offsets=(8,))}, EIGHT),
    "three offsets": file_of({"a": entry(offsets=(0, 8, 8))}, EIGHT),
    "gap at first": file_of({"a": entry(offsets=(4, 12))}, EIGHT + b"1234"),
    "gap between": file_of({"a": entry(), "b": entry(offsets=(12, 20))}, EIGHT * 3),
    "overlap": file_of({"a": entry(), "b": entry(offsets=(4, 12))}, EIGHT * 2),
    "bytes left": file_of({"a": entry()}, EIGHT + b"1"),
    "bytes missing": file_of({"a": entry()}, EIGHT[:7]),
    "data without tensors": file_of("{}", b"1"),
    "deep": file_of('{"a":' + "[" * 500 + "]" * 500 + "}"),
}  # fmt: skip

ONLY_OURS = {
    "endless beside zero": file_of({"a": entry(shape=(0, 2**62), offsets=(0, 0))}, b""),
    "endless before zero": file_of({"a": entry("BF16", (2**61, 0, 2), (0, 0))}, b""),
    "name twice": file_of('{"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}'),
    "note twice": file_of('{"__metadata__":{"a":"1","a":"2"}}'),
    "other integers": file_of({"a": entry("U16", (4,))}, EIGHT),
    "nine dimensions": file_of({"a": entry("F64", (1,) * 9)}, EIGHT),
    "truth of 2": file_of({"a": entry("BOOL", (8,))}, b"\0\1\0\2\0\0\0\0"),
}  # fmt: skip
