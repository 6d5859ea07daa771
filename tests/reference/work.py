"""The work of an optimised program (csrc/hlo/work.c), counted by a reader of protocol buffers of its own."""

from __future__ import annotations

import math
import re
from typing import NamedTuple

import numpy as np

_KINDS = {
    "dot": ("dot",),
    "convolution": ("convolution",),
    "reduce": ("reduce",),
    "window": ("reduce-window", "select-and-scatter"),
    "transcendental": (
        *("atan2", "cbrt", "cosine", "divide", "erf", "exponential", "exponential-minus-one", "log"),
        *("log-plus-one", "logistic", "power", "rsqrt", "sine", "sqrt", "tan", "tanh"),
    ),
    "broadcast": ("broadcast", "iota"),
    "move": ("transpose", "copy", "reverse"),
    "join": ("concatenate", "pad", "slice"),
    "gather": ("gather",),
    "scatter": ("scatter",),
    "dynamic": ("dynamic-slice", "dynamic-update-slice"),
    "sort": ("sort",),
    "other": ("fft", "custom-call", "topk", "cholesky", "triangular-solve", "rng-bit-generator"),
}
_KIND = {opcode: kind for kind, opcodes in _KINDS.items() for opcode in opcodes}
_NOTHING = {"parameter", "constant", "get-tuple-element", "tuple", "bitcast", "reshape", "after-all"}
_PLACES = ("library", "fused", "alone")
_COUNTS = (
    *("kernels", "small kernels", "library kernels", "fused kernels", "parallel kernels", "loops"),
    *("most runs of a loop", "largest array", "traffic", "parallel elements"),
    *("dot transposed left", "dot transposed right", "dot batched", "dot with a vector"),
)
_NAMES = (*_COUNTS, *(f"{place} {kind}" for place in _PLACES for kind in (*_KINDS, "cheap")))
_SMALL = 4096  # elements of all arrays of a small kernel
_UNKNOWN = 10  # runs of a loop whose number is not known
_DEEPEST = 16  # loops and calls within each other
_LONGEST = 10**9  # runs of a loop that are believed
_MOST = 1e30
_TRIPS = re.compile(rb'"known_trip_count":\{"n":"(\d+)"')
_PARALLEL = re.compile(rb'"outer_dimension_partitions":\["')


class _Instruction(NamedTuple):
    opcode: str
    elements: int
    dimensions: tuple[int, ...]
    operands: tuple[int, ...]
    called: tuple[int, ...]
    config: bytes
    sides: tuple[tuple[int, ...], ...]  # of a product: dimensions summed over left and right, batch of left


def work(module: bytes):
    """The numbers of hlo_work_columns()."""
    counter = _Counter(module)
    counter.computation(counter.entry, 1.0, 0)
    return np.array([min(counter.counts[name], _MOST) for name in _NAMES], np.float32)


class _Counter:
    """Instructions of a module by id, and what has been counted."""

    def __init__(self, module: bytes) -> None:
        self.entry, self._computations = _module(module)
        self._all = {number: one for some in self._computations.values() for number, one in some}
        self.counts = dict.fromkeys(_NAMES, 0.0)

    def computation(self, number: int, times: float, depth: int) -> None:
        """Add a computation that runs so often, and what it calls."""
        for _, one in self._computations.get(number, []):
            if one.opcode in _NOTHING:
                continue
            if one.opcode == "while" and one.called and depth < _DEEPEST:
                known = _TRIPS.search(one.config)
                trips = times * (min(int(known[1]), _LONGEST) if known else _UNKNOWN)
                self.counts["loops"] += times
                self._largest("most runs of a loop", trips)
                self.computation(one.called[0], trips, depth + 1)
            elif one.opcode in ("call", "conditional") and depth < _DEEPEST:
                for called in one.called:
                    self.computation(called, times, depth + 1)
            else:
                self._kernel(one, times)

    def _kernel(self, one: _Instruction, times: float) -> None:
        """Add a fusion, or an instruction on its own."""
        touched = [*self._read(one), one.elements]
        self.counts["kernels"] += times
        self.counts["small kernels"] += times * (sum(touched) < _SMALL)
        self.counts["traffic"] += times * sum(touched)
        self._largest("largest array", max(touched))
        if _PARALLEL.search(one.config):
            self.counts["parallel kernels"] += times
            self.counts["parallel elements"] += times * one.elements
        place, inner = "alone", [one]
        if one.opcode == "fusion" and one.called:
            place = "library" if b'"fusion_config"' in one.config else "fused"
            self.counts[f"{place} kernels"] += times
            inner = [part for _, part in self._computations.get(one.called[0], [])]
        for part in inner:
            if part.opcode not in _NOTHING:
                self._work(part, place, times)

    def _work(self, one: _Instruction, place: str, times: float) -> None:
        """Add the elements that an instruction goes through, or the multiplications of a product."""
        kind, read = _KIND.get(one.opcode, "cheap"), self._read(one)
        amount = float(max([*read, one.elements]) if kind in _READING else one.elements)
        if kind == "dot":
            amount = self._product(one, times)
        self.counts[f"{place} {kind}"] += times * amount

    def _product(self, one: _Instruction, times: float) -> float:
        """Return the multiplications of a product, and add them by the shape of its sides."""
        sides = [self._all[operand].dimensions for operand in one.operands if operand in self._all]
        if len(sides) != 2:
            return float(one.elements)
        (left, right), (summed, summed_right, batch) = sides, one.sides
        each = math.prod(left[place] for place in summed)
        amount = float(one.elements) * each
        shared = max(each * math.prod(left[place] for place in batch), 1)
        rows, columns = math.prod(left) // shared, math.prod(right) // shared
        self.counts["dot transposed left"] += times * amount * (len(left) - 1 not in summed)
        self.counts["dot transposed right"] += (
            times * amount * (columns > 1 and len(right) - 1 in summed_right)
        )
        self.counts["dot batched"] += times * amount * bool(batch)
        self.counts["dot with a vector"] += times * amount * (min(rows, columns) == 1)
        return amount

    def _read(self, one: _Instruction) -> list[int]:
        """Elements of the operands."""
        return [self._all[operand].elements for operand in one.operands if operand in self._all]

    def _largest(self, name: str, value: float) -> None:
        self.counts[name] = max(self.counts[name], value)


_READING = ("convolution", "reduce", "window", "scatter", "sort", "gather", "other")  # more than they write


# Numbers of fields: of the module, a computation, an instruction, a shape, the dimensions of a product.
_COMPUTATIONS, _ENTRY = 3, 6
_INSTRUCTIONS, _OWN = 2, 5
_OPCODE, _SHAPE, _DOT, _ID, _OPERANDS, _CALLED, _CONFIG = 2, 3, 30, 35, 36, 38, 43
_DIMENSIONS, _TUPLE = 3, 4


def _module(module: bytes) -> tuple[int, dict[int, list[tuple[int, _Instruction]]]]:
    """Entry, and the instructions of every computation with their ids."""
    entry, computations = 0, {}
    for number, value in fields(module):
        if number == _ENTRY and isinstance(value, int):
            entry = value
        elif number == _COMPUTATIONS and isinstance(value, bytes):
            own, found = 0, []
            for field, part in fields(value):
                if field == _OWN and isinstance(part, int):
                    own = part
                elif field == _INSTRUCTIONS and isinstance(part, bytes):
                    found.append(_instruction(part))
            computations[own] = found
    return entry, computations


def _instruction(data: bytes) -> tuple[int, _Instruction]:
    found: dict[int, bytes] = {}
    listed: dict[int, list[int]] = {_ID: [0], _OPERANDS: [], _CALLED: []}
    for number, value in fields(data):
        if number in listed:
            listed[number] += numbers(value)
        elif isinstance(value, bytes):
            found[number] = value
    sides: dict[int, list[int]] = {1: [], 2: [], 3: []}
    for number, value in fields(found.get(_DOT, b"")):
        if number in sides:
            sides[number] += numbers(value)
    elements, dimensions = _elements(found.get(_SHAPE, b""))
    return listed[_ID][-1], _Instruction(
        found.get(_OPCODE, b"").decode(errors="replace"), elements, dimensions, tuple(listed[_OPERANDS]),
        tuple(listed[_CALLED]), found.get(_CONFIG, b""), tuple(tuple(side) for side in sides.values()),
    )  # fmt: skip


def _elements(shape: bytes) -> tuple[int, tuple[int, ...]]:
    """Elements of an array, or of all arrays of a tuple; dimensions."""
    dimensions, parts = list[int](), list[int]()
    for number, value in fields(shape):
        if number == _DIMENSIONS:
            dimensions += numbers(value)
        elif number == _TUPLE and isinstance(value, bytes):
            parts.append(_elements(value)[0])
    return sum(parts) if parts else math.prod(dimensions), tuple(dimensions)


def fields(data: bytes):
    """Yield the numbers of fields with their values; fixed-width ones and groups are skipped."""
    place = depth = 0
    while place < len(data):
        tag, place = _varint(data, place)
        kind, value = tag & 7, None
        if kind == 0:
            value, place = _varint(data, place)
        elif kind == 2:
            length, place = _varint(data, place)
            value = data[place : place + length]
            place += length
        else:
            depth += {3: 1, 4: -1}.get(kind, 0)
            place += {1: 8, 5: 4}.get(kind, 0)
        if depth == 0 and value is not None:
            yield tag >> 3, value


def _varint(data: bytes, place: int) -> tuple[int, int]:
    """Read a varint; its value and where it ends."""
    value = shift = 0
    while True:
        byte = data[place]
        value |= (byte & 127) << shift
        place, shift = place + 1, shift + 7
        if byte < 128:
            return value, place


def numbers(value: int | bytes) -> list[int]:
    """Return the whole numbers of a field that may be packed."""
    if isinstance(value, int):
        return [value]
    found, place = [], 0
    while place < len(value):
        number, place = _varint(value, place)
        found.append(number)
    return found
