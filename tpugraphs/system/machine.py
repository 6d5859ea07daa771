"""Facts about this machine: processor, memory, cache, clock; and how much memory this process takes."""

import os
import platform
import re
from contextlib import suppress
from pathlib import Path

_CPU = Path("/sys/devices/system/cpu/cpu0")
_CPUINFO, _MEMINFO = "/proc/cpuinfo", "/proc/meminfo"
_PROCESS, _FORGET_PEAK = Path("/proc/self"), "5"  # see proc(5), clear_refs
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def read_text(path: str | Path) -> str | None:
    """Return the text of a small file of the system, None if it cannot be read."""
    try:
        return Path(path).read_text(encoding="ascii", errors="replace").strip()
    except OSError:
        return None


def processor() -> str | None:
    """Return the name of the processor."""
    found = re.search(r"^model name\s*:\s*(.*)", read_text(_CPUINFO) or "", re.M)
    return found[1] if found else platform.processor() or None


def allowed_processors() -> int | None:
    """Return how many processors this process may use; None where the system has no such limit."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else None


def usable_processors() -> int:
    """Return how many processors this process may use, or as many as there are."""
    return allowed_processors() or os.cpu_count() or 1


def memory_gib(name: str) -> float | None:
    """Return a line of the system's table of memory, ``MemTotal`` or ``MemAvailable``, in GiB."""
    found = re.search(rf"^{name}:\s*(\d+) kB", read_text(_MEMINFO) or "", re.M)
    return int(found[1]) / 2**20 if found else None


def clock_mhz() -> float | None:
    """Return the highest clock of the first processor in MHz, else the highest at this moment."""
    most = read_text(_CPU / "cpufreq" / "cpuinfo_max_freq")
    if most and most.isdigit() and int(most):
        return int(most) / 1000
    now = re.findall(r"^cpu MHz\s*:\s*([\d.]+)", read_text(_CPUINFO) or "", re.M)
    return max(map(float, now), default=0) or None


def cache_mb() -> float | None:
    """Return the size of the last-level cache in MB (1e6 bytes)."""
    sizes = {}
    for folder in (_CPU / "cache").glob("index*"):
        level, text = read_text(folder / "level"), read_text(folder / "size") or ""
        size = re.fullmatch(r"(\d+)([KMG]?)", text)
        if level and size and int(size[1]):
            sizes[level] = int(size[1]) * _UNITS[size[2]] / 1e6
    return sizes[max(sizes)] if sizes else None


def forget_peak() -> None:
    """Let `peak` count from now on. Does nothing where the system has no such counter."""
    with suppress(OSError):
        (_PROCESS / "clear_refs").write_text(_FORGET_PEAK)


def peak() -> int | None:
    """Return the most memory in bytes that was resident since `forget_peak`; None if that is not known."""
    found = re.search(r"VmHWM:\s*(\d+) kB", read_text(_PROCESS / "status") or "")
    return None if found is None else 1024 * int(found[1])
