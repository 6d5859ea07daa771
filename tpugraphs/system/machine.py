"""Facts about this machine: processor, memory, cache, clock; and how much memory this process takes."""

import ctypes
import os
import platform
import re
import time
import warnings
from contextlib import suppress
from pathlib import Path

_CPU = Path("/sys/devices/system/cpu/cpu0")
_CPUINFO, _MEMINFO, _STAT = "/proc/cpuinfo", "/proc/meminfo", "/proc/stat"
_PROCESS, _FORGET_PEAK = Path("/proc/self"), "5"  # see proc(5), clear_refs
_MMAP, _TRIM = -3, -1  # names of parameters in malloc.h
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


def busy(seconds: float = 0.2) -> float | None:
    """Return the share of the processors that other work, or the host, takes while this process sleeps."""

    def ticks() -> list[int]:
        found = re.findall(r"\d+", (read_text(_STAT) or "").partition("\n")[0])[:8]
        return [int(one) for one in found]

    before = ticks()
    time.sleep(seconds)
    spent = [now - then for now, then in zip(ticks(), before, strict=True)]
    idle = sum(spent[3:5])  # idle, and waiting for disks
    return None if sum(spent) <= 0 else round(1 - idle / sum(spent), 3)


def keep_memory() -> bool:
    """Let this process keep the memory that its programs free, instead of giving it back to the system.

    glibc gives large buffers back whenever they are freed, and the system fills their pages with zeros when
    they are needed again: thousands of page faults at every call of a program. What is kept stays with the
    process: as much as it ever needed at once. ``MALLOC_MMAP_THRESHOLD_`` and ``MALLOC_TRIM_THRESHOLD_`` in
    the environment do the same for programs that are not in Python.

    Returns
    -------
    bool
        Whether it is possible: False, with a warning, where the C library is not glibc.

    Warns
    -----
    UserWarning
        It is not possible; names the system.

    Notes
    -----
    ``tg.xla.keep_memory()`` at the start of a program; any later time will do, too.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if platform.libc_ver()[0] == "glibc" else None
    if mallopt is None or not (any(mallopt(_MMAP, 1 << n) for n in (30, 25)) and mallopt(_TRIM, 2**31 - 1)):
        text = f"keep_memory: expected the C library glibc, found {platform.platform()}: nothing is changed"
        warnings.warn(text, stacklevel=2)
        return False
    return True


def resident() -> float | None:
    """Return the memory of this process in MiB; None if that is not known."""
    pages = (read_text(_PROCESS / "statm") or "").split()
    return round(int(pages[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20, 1) if len(pages) > 1 else None


def forget_peak() -> None:
    """Let `peak` count from now on. Does nothing where the system has no such counter."""
    with suppress(OSError):
        (_PROCESS / "clear_refs").write_text(_FORGET_PEAK)


def peak() -> int | None:
    """Return the most memory in bytes that was resident since `forget_peak`; None if that is not known."""
    found = re.search(r"VmHWM:\s*(\d+) kB", read_text(_PROCESS / "status") or "")
    return None if found is None else 1024 * int(found[1])
