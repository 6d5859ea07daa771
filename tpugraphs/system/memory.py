"""How much memory this process takes."""

from __future__ import annotations

import re
from pathlib import Path

__all__ = ["forget_peak", "peak"]

_PROCESS = Path("/proc/self")
_FORGET_PEAK = "5"  # see proc(5), clear_refs


def forget_peak() -> None:
    """Let `peak` count from now on. Does nothing where the system has no such counter."""
    try:
        (_PROCESS / "clear_refs").write_text(_FORGET_PEAK)
    except OSError:
        return


def peak() -> int | None:
    """Return the most memory in bytes that was resident since `forget_peak`; None if that is not known."""
    try:
        status = (_PROCESS / "status").read_text()
    except OSError:
        return None
    found = re.search(r"VmHWM:\s*(\d+) kB", status)
    return None if found is None else 1024 * int(found[1])
