"""The reader of safetensors files against the format's own library: same arrays, and nothing broken gets through."""

import math

import numpy as np
import pytest
import safetensors
import safetensors.numpy
from broken.tensors import BROKEN, EIGHT, ONLY_OURS, entry, file_of
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refuses

from tpugraphs import CheckpointError, DataError, _core
from tpugraphs.system import tensorfile as rankerfile

DTYPES = {
    "F16": "f2",
    "F32": "f4",
    "F64": "f8",
    "I8": "i1",
    "I16": "i2",
    "I32": "i4",
    "I64": "i8",
    "U8": "u1",
    "BOOL": "?",
}
LIMIT = 1 << 30


def ours(path, content, dtypes=None, limit=LIMIT):
    path.write_bytes(content)
    return _core.safetensors_load(str(path), dtypes, limit)


def theirs(content):
    """What the library reads, or None where it refuses."""
    try:
        safetensors.deserialize(content)
        return safetensors.numpy.load(content)
    except (safetensors.SafetensorError, TypeError, KeyError):
        return None


def same(mine, other):
    assert mine.keys() == other.keys()
    for name, array in mine.items():
        assert array.dtype == other[name].dtype and array.shape == other[name].shape, name
        assert array.tobytes() == other[name].tobytes(), name


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("safetensors") / "x.safetensors"


arrays = st.tuples(
    st.sampled_from(sorted(DTYPES)), st.lists(st.integers(0, 4), max_size=4), st.integers(0, 2**32 - 1)
)


@settings(max_examples=150, deadline=None)
@given(
    st.dictionaries(st.text(max_size=8), arrays, max_size=6),
    st.dictionaries(st.text(), st.text(), max_size=4),
)
def test_valid_files_are_read_as_the_library_reads_them(path, tensors, notes):
    made = {}
    for name, (dtype, shape, seed) in tensors.items():
        rng = np.random.default_rng(seed)
        raw = rng.integers(
            0, 2 if dtype == "BOOL" else 256, math.prod(shape) * np.dtype(DTYPES[dtype]).itemsize, np.uint8
        )
        made[name] = raw.view(DTYPES[dtype]).reshape(shape)
    made.pop("__metadata__", None)
    content = safetensors.numpy.save(made, notes or None)  # with {} the library writes broken JSON
    read_notes, read = ours(path, content)
    assert read_notes == notes
    same(read, safetensors.numpy.load(content))


def test_bfloat16_is_widened(path):
    import struct

    halves = np.array([0x3F80, 0xC0A0, 0x7F80, 0x0001, 0x7FC1, 0x8000], np.uint16)
    content = file_of(
        {"a": entry("BF16", (2, 3), (0, 12)), "b": entry("U8", (3,), (12, 15))}, halves.tobytes() + b"xyz"
    )
    _, read = ours(path, content)
    expected = [struct.unpack("<f", struct.pack("<HH", 0, h))[0] for h in halves]
    assert read["a"].dtype == np.float32 and read["a"].shape == (2, 3)
    np.testing.assert_array_equal(read["a"].ravel(), np.array(expected, np.float32))
    assert read["b"].tobytes() == b"xyz"


@pytest.mark.parametrize("name", BROKEN)
def test_broken_files_are_refused_by_both(path, name):
    if name != "blank first":
        assert theirs(BROKEN[name]) is None
    with pytest.raises(DataError) as caught:
        ours(path, BROKEN[name])
    assert caught.value.file == str(path) and caught.value.field in ("header", "a", "b")
    assert caught.value.found and caught.value.expected and "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ONLY_OURS)
def test_what_can_be_misunderstood_is_refused_too(path, name):
    with pytest.raises(DataError):
        ours(path, ONLY_OURS[name])


def test_later_versions_may_say_more(path):
    header = '{"a":{"new":[1.5e+3,{"x":[null,true]}],"dtype":"F32","shape":[2],"data_offsets":[0,8]}}   '
    same(ours(path, file_of(header, EIGHT))[1], theirs(file_of(header, EIGHT)))


@pytest.mark.parametrize("seed", range(3))
def test_random_damage_is_refused_or_read_as_the_library_does(path, seed):
    rng = np.random.default_rng(seed)
    made = {
        "a.weight": np.arange(6, dtype=np.float32).reshape(2, 3),
        "b": np.zeros((0, 2), np.int64),
        "c": np.ones(3, "u1"),
    }
    good = safetensors.numpy.save(made, {"note": 'text \u00e9 "\\'})
    refused = 0
    for _ in range(700):
        data = bytearray(good)
        for at in rng.integers(0, len(data), rng.integers(1, 3)):
            data[at] = rng.choice([rng.integers(0, 256), ord("0"), ord("1"), ord('"'), ord(","), ord("]")])
        try:
            _, mine = ours(path, bytes(data))
        except DataError:
            refused += 1
            continue
        other = theirs(bytes(data))
        assert other is not None, bytes(data)
        same(mine, other)
    assert 100 < refused < 700


def test_types_and_sizes_are_limited(path):
    content = file_of({"a": entry(), "b": entry("F16", (4,), (8, 16))}, EIGHT * 2)
    refuses(lambda: ours(path, content, ("F32", "I64")), DataError, "b:", "F16")
    refuses(lambda: ours(path, content, limit=15), DataError, "b:", "max_bytes")
    refuses(lambda: ours(path, content, limit=1), DataError, "1 byte")
    assert set(ours(path, content, limit=16)[1]) == {"a", "b"}
    refuses(lambda: _core.safetensors_load(str(path.parent), None, LIMIT), DataError, "a directory")
    with pytest.raises(FileNotFoundError):
        _core.safetensors_load(str(path) + "no", None, LIMIT)


def test_arrays_are_the_readers_own(path):
    _, read = ours(path, file_of({"a": entry()}, EIGHT))
    path.write_bytes(file_of({"a": entry()}, b"\0" * 8))
    assert read["a"].tobytes() == EIGHT and read["a"].flags.writeable and read["a"].flags.owndata


def test_fields_are_named_in_one_line(path):
    assert refuses(lambda: ours(path, file_of({"a\nb\x7f": entry("F33")}, EIGHT)), DataError).field == "a?b?"
    path.write_bytes(BROKEN["too few bytes"])
    refuses(lambda: rankerfile.read(path, "ranker"), CheckpointError, "a:", "3 elements")
