"""How much memory this process takes."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path

from tpugraphs.system.machine import read_text

_PROCESS = Path("/proc/self")
_FORGET_PEAK = "5"  # see proc(5), clear_refs


def forget_peak() -> None:
    """Let `peak` count from now on. Does nothing where the system has no such counter."""
    with suppress(OSError):
        (_PROCESS / "clear_refs").write_text(_FORGET_PEAK)


def peak() -> int | None:
    """Return the most memory in bytes that was resident since `forget_peak`; None if that is not known."""
    found = re.search(r"VmHWM:\s*(\d+) kB", read_text(_PROCESS / "status") or "")
    return None if found is None else 1024 * int(found[1])
