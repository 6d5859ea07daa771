"""Parts of a serialised ``xla.HloModuleProto``: the fused computations as modules of their own."""

from __future__ import annotations

from collections.abc import Iterator

__all__ = ["fields", "fusions", "numbers"]

# Numbers of fields: of the module, of a computation, of an instruction.
_COMPUTATIONS = 3
_NAME, _INSTRUCTIONS, _ID = 1, 2, 5
_OPCODE, _CALLED = 2, 38
_VARINT, _BYTES = 0, 2


def fusions(module: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield every fused computation: its name, and a module whose entry it is, with what it calls."""
    computations: dict[int, tuple[str, bytes, list[tuple[bytes, list[int]]]]] = {}
    order = []
    for number, body in fields(module):
        if number != _COMPUTATIONS or isinstance(body, int):
            continue
        name, own, instructions = "", 0, []
        for field, value in fields(body):
            if field == _NAME and isinstance(value, bytes):
                name = value.decode(errors="replace")
            elif field == _ID and isinstance(value, int):
                own = value
            elif field == _INSTRUCTIONS and isinstance(value, bytes):
                instructions.append(_instruction(value))
        computations[own] = (name, body, instructions)
        order.append(own)
    for caller in order:
        for opcode, called in computations[caller][2]:
            if opcode == b"fusion" and called:
                name, kept = computations[called[0]][0], []
                waiting = [called[0]]
                while waiting:
                    number = waiting.pop()
                    if number not in kept:
                        kept.append(number)
                        waiting += [n for _, more in computations[number][2] for n in more]
                # Callees come first, as everywhere in XLA.
                parts = [_field(_COMPUTATIONS, computations[n][1]) for n in order if n in kept]
                head = [_field(1, name.encode()), _field(2, name.encode())]
                yield name, b"".join([*head, *parts, _varint(6 << 3 | _VARINT), _varint(called[0])])


def _instruction(data: bytes) -> tuple[bytes, list[int]]:
    """Return the opcode of an instruction and the computations that it calls."""
    opcode, called = b"", []
    for number, value in fields(data):
        if number == _OPCODE and isinstance(value, bytes):
            opcode = value
        elif number == _CALLED:
            called += numbers(value)
    return opcode, called


def fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield the numbers of fields with their values; fixed-width ones are skipped."""
    place = 0
    while place < len(data):
        tag, place = _read(data, place)
        kind = tag & 7
        if kind == _VARINT:
            value, place = _read(data, place)
            yield tag >> 3, value
        elif kind == _BYTES:
            length, place = _read(data, place)
            yield tag >> 3, data[place : place + length]
            place += length
        else:
            place += {1: 8, 5: 4}[kind]


def _read(data: bytes, place: int) -> tuple[int, int]:
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
        number, place = _read(value, place)
        found.append(number)
    return found


def _varint(value: int) -> bytes:
    found = bytearray()
    while value >= 128:
        found.append(value & 127 | 128)
        value >>= 7
    return bytes([*found, value])


def _field(number: int, data: bytes) -> bytes:
    return _varint(number << 3 | _BYTES) + _varint(len(data)) + data
