"""Names of the HLO opcodes as TpuGraphs numbers them."""

from __future__ import annotations

from tpugraphs import _core

_NAMES = _core.OPCODES.split()


def opcode_name(opcode: int) -> str:
    """Return the name of an opcode number; ``"unknown"`` for 0 and for numbers above 120."""
    return _NAMES[opcode - 1] if 1 <= opcode <= len(_NAMES) else "unknown"
