"""Files of scorers and layer models with something changed at random, and digests that agree with it."""

import copy
import json
import struct

import numpy as np

HOSTILE = (
    -1, 0, 1, 2, 3, 7, -(2**31), 2**31, 2**63 - 1, 2**63, 10**30, -(10**30), 0.5, -0.5, 1e-300, 1e308, -1e308,
    True, False, None, "", "x" * 500, "ß\0\n", "layout", "graph", [], {}, [[]], [-1], {"a": 1}, [0] * 1000,
)  # fmt: skip
NUMBERS = (np.nan, np.inf, -np.inf, 3e38, -3e38, 1e-40, 0.0, -0.0, -1.0, 1e30)
WHOLE = (-1, -2, 0, 1, 2, 10**6, 2**31, 2**62, -(2**63), 2**63 - 1)


def parts(data):
    """Metadata, without digests, and tensors of a file."""
    from safetensors.numpy import load

    size = struct.unpack("<Q", data[:8])[0]
    metadata = json.loads(json.loads(data[8 : 8 + size])["__metadata__"]["tpugraphs"])
    metadata.pop("_digests")
    return metadata, dict(sorted(load(data).items()))


def joined(metadata, tensors):
    """A file of these, with digests."""
    from safetensors.numpy import save

    from tpugraphs.system.tensorfile import with_digests

    tensors = {name: np.ascontiguousarray(array) for name, array in tensors.items()}
    return save(tensors, {"tpugraphs": json.dumps(with_digests(metadata, tensors))})


def mutated(rng, data):
    """The bytes of a file with one to three things changed."""
    if rng.random() < 0.15:
        return in_bytes(rng, bytearray(data))
    metadata, tensors = parts(data)
    for _ in range(int(rng.integers(1, 4))):
        if tensors and rng.random() < 0.4:
            in_tensors(rng, tensors)
        else:
            in_metadata(rng, metadata)
    return joined(metadata, tensors)


def in_bytes(rng, data):
    place = int(rng.integers(len(data)))
    what = rng.integers(4)
    if what == 0:
        data[place] ^= 1 << int(rng.integers(8))
    elif what == 1:
        del data[place:]
    elif what == 2:
        del data[place : place + int(rng.integers(1, 64))]
    else:
        data[place:place] = rng.bytes(int(rng.integers(1, 64)))
    return bytes(data)


def in_metadata(rng, metadata):
    """Change a value somewhere, leave it out, or take it from somewhere else."""
    places = [*_places(metadata)]
    inside, key = places[rng.integers(len(places))]
    what = rng.integers(6)
    old = inside[key]
    if what == 0:
        del inside[key]
    elif what == 1 and isinstance(inside, list):
        inside.insert(key, copy.deepcopy(inside[rng.integers(len(inside))]))
    elif what == 2:
        other, place = places[rng.integers(len(places))]
        inside[key] = copy.deepcopy(other[place])
    elif what == 3 and isinstance(old, (int, float)) and not isinstance(old, bool):
        inside[key] = old + int(rng.choice([-1, 1])) if rng.random() < 0.5 else float(old)
    else:
        inside[key] = copy.deepcopy(HOSTILE[rng.integers(len(HOSTILE))])


def _places(value):
    for key in [*value] if isinstance(value, dict) else range(len(value)):
        yield value, key
        if isinstance(value[key], (dict, list)):
            yield from _places(value[key])


def in_tensors(rng, tensors):
    """Change numbers, the shape or the type of a tensor; leave it out, or take another in its place."""
    names = [*tensors]
    name = names[rng.integers(len(names))]
    array, what = tensors[name].copy(), rng.integers(9)
    if what < 4 and array.size:
        flat = array.reshape(-1)
        some = rng.integers(array.size, size=int(rng.choice([1, 1, array.size])))
        flat[some] = rng.choice(WHOLE if array.dtype.kind == "i" else NUMBERS)
    elif what == 4:
        del tensors[name]
        return
    elif what == 5:
        array = tensors[names[rng.integers(len(names))]]
    elif what == 6:
        shapes = [
            array[:-1] if array.ndim else array,
            array.reshape(-1),
            array[None],
            np.concatenate([array] * 2) if array.ndim else array,
        ]
        array = shapes[rng.integers(len(shapes))]
    elif what == 7:
        with np.errstate(all="ignore"):
            array = array.astype(rng.choice(["f4", "f8", "i8", "i4", "u1"]))
    else:
        array = array[:0] if array.ndim else array
    tensors[name] = array
