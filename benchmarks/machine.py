"""What the figures were measured on: processor, memory, versions, load, and peak operations per second."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shutil
import subprocess
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
PACKAGES = ("tpugraphs", "numpy", "torch", "torch_geometric", "scipy")


def describe(quick: bool = False) -> dict[str, Any]:
    """Processor, cores, caches, memory, versions, and what others do before anything is measured."""
    from tpugraphs import _core
    from tpugraphs.system.machine import busy

    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "cpu": _cpu_name(),
        "cores": len(os.sched_getaffinity(0)),
        "caches": _caches(),
        "memory_gib": round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30, 1),
        "system": f"{platform.system()} {platform.release()}, {' '.join(platform.libc_ver())}",
        "python": platform.python_version(),
        "packages": {name: version for name in PACKAGES if (version := _version(name))},
        "commit": _commit(),
        "isa": _core.get_isa(),
        "busy": None if quick else busy(2.0),
    }


def peaks(threads: int, quick: bool = False) -> dict[str, dict[str, float]]:
    """Operations per second by precision and number of threads; empty without a C compiler."""
    compiler = next((found for name in ("cc", "gcc", "clang") if (found := shutil.which(name))), None)
    if compiler is None:
        return {}
    rates: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        program = os.path.join(folder, "peak")
        flags = ["-O3", "-march=native", "-ffp-contract=fast", "-fopenmp"]
        done = subprocess.run(
            [compiler, *flags, str(HERE / "peak.c"), "-o", program], capture_output=True, check=False
        )
        if done.returncode:
            return {}
        for count in sorted({1, threads}):
            peak = subprocess.run(
                [program, str(count), "0.01" if quick else "0.2"], capture_output=True, text=True, check=True
            )
            for line in peak.stdout.splitlines():
                precision, rate = line.split()
                rates.setdefault(precision, {})[str(count)] = float(rate)
    return rates


def _cpu_name() -> str:
    fields: dict[str, str] = {}
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        key, _, value = line.partition(":")
        fields.setdefault(key.strip(), value.strip())
    name = fields.get("model name", platform.machine())
    if "cpu family" in fields:
        name += f" (family {fields['cpu family']}, model {fields['model']})"
    return name


def _caches() -> str:
    found = []
    for folder in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        level, kind, size = ((folder / name).read_text().strip() for name in ("level", "type", "size"))
        if kind != "Instruction":
            found.append(f"L{level} {size}")
    return ", ".join(found)


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        if name == "tpugraphs":
            import tpugraphs

            return tpugraphs.__version__
        return None


def _commit() -> str | None:
    """Short id of the checkout these benchmarks lie in, with + if it was changed; None if it is none."""
    git = ["git", "-C", str(HERE)]
    try:
        name = subprocess.run(
            [*git, "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True
        )
        changes = [*git, "status", "--porcelain", "--untracked-files=no"]
        changed = subprocess.run(changes, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None
    return name.stdout.strip() + ("+" if changed else "")
