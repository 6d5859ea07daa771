"""Show versions, processor, instruction set, threads and memory, and what looks wrong.

example:
  tpugraphs doctor --json
"""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import sys
import time
from pathlib import Path
from typing import Any

import tpugraphs as tg
from tpugraphs.cli.common import Args, Parser, emit
from tpugraphs.system import machine

_CGROUP = "/sys/fs/cgroup"
_THREAD_VARIABLES = ("TPUGRAPHS_NUM_THREADS", "OMP_NUM_THREADS")


def add_arguments(parser: Parser) -> None:
    """Declare the options: only those of every command."""


def run(args: Args) -> int:
    """Print what was found; 1 if the C core cannot be imported."""
    found, hints = examine()
    width = max(map(len, found))
    lines = []
    for name, value in found.items():
        label = name.replace("_", " ").replace(" gib", " (GiB)").replace(" ms", " (ms)")
        lines.append(f"{label:<{width}}  {value if value is not None else 'none, or not known'}")
    lines += [f"hint: {hint}" for hint in hints] or ["all is well"]
    emit(args, {**found, "hints": hints}, "\n".join(lines))
    return 0 if found["core"] == "ok" else 1


def examine() -> tuple[dict[str, Any], list[str]]:
    """Return what is on this machine, and hints of what could be better."""
    hints: list[str] = []
    found: dict[str, Any] = {
        "tpugraphs": tg.__version__,
        "location": str(Path(tg.__file__).parent),
        "python": f"{platform.python_version()} ({sys.executable})",
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "processor": machine.processor(),
    }
    for package in ("numpy", "safetensors", "tqdm", "matplotlib", "argcomplete"):
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            found[package] = None
            hints.append(f"{package} is missing: pip install {package}")
    found |= _core_facts(hints)
    found |= _limits()
    memory = found["memory_available_gib"]
    if memory is not None and memory < 2:
        hints.append(f"only {memory} GiB of memory are free: large graphs may not fit")
    for name in _THREAD_VARIABLES:
        if name in os.environ and not _count(name):
            hints.append(f"{name}={os.environ[name]!r} is not a number of threads and is ignored")
    return found, hints


def _core_facts(hints: list[str]) -> dict[str, Any]:
    start = time.perf_counter()
    try:
        from tpugraphs import _core
    except ImportError as error:
        reinstall = "the C core cannot be loaded: reinstall with `pip install --force-reinstall .`"
        hints.append(tg._core_missing() if "_core'" in str(error) else reinstall)
        return {"core": f"cannot be imported: {error}", "instruction_set": None, "threads": None}
    took = time.perf_counter() - start
    level, levels = _core.get_isa(), _core.isa_levels()
    threads = _core.get_num_threads()
    source = next((f"{name}={os.environ[name]}" for name in _THREAD_VARIABLES if _count(name)), None)
    own = level == "avx512_bf16"
    rounded = "rounded, then multiplied as float32: no faster than f32"
    facts = {
        "core": "ok",
        "core_import_ms": round(took * 1e3, 1),
        "instruction_set": level,
        "instruction_sets_available": ", ".join(levels),
        "bf16_products": "by the processor's own instruction" if own else rounded,
        "threads": f"{threads} ({source or 'processors this process may use, within its quota'})",
    }
    if level != levels[0]:
        hints.append(f"{level} is in use, but {levels[0]} is faster on this processor")
    if level == "baseline" and platform.machine().lower() in ("x86_64", "amd64"):
        hints.append("training without AVX2 or AVX-512 is several times slower")
    if threads == 1 and (os.cpu_count() or 1) > 1:
        why = source or "affinity or quota"
        hints.append(f"only 1 thread of {os.cpu_count()} processors is used ({why})")
    return facts


def _count(variable: str) -> int:
    """Return the threads that an environment variable asks for, 0 if it is not set or invalid."""
    text = os.environ.get(variable, "").split(",")[0].strip()
    return int(text) if text.isdigit() and 1 <= int(text) <= 4096 else 0


def _limits() -> dict[str, Any]:
    folders = _cgroup_folders()
    quota, period = (machine.read_text(f"{_CGROUP}/cpu/cpu.cfs_{what}_us") for what in ("quota", "period"))
    shares = [f"{quota} {period}", *(machine.read_text(f"{folder}/cpu.max") or "" for folder in folders)]
    quotas = [found for share in shares if (found := re.fullmatch(r"(\d+) (\d+)", share))]
    processors = [int(found[1]) / int(found[2]) for found in quotas]
    files = [f"{_CGROUP}/memory/memory.limit_in_bytes", *(f"{folder}/memory.max" for folder in folders)]
    texts = [machine.read_text(file) or "" for file in files]
    limits = [int(text) for text in texts if text.isdigit() and int(text) < 1 << 60]
    total, free = machine.memory_gib("MemTotal"), machine.memory_gib("MemAvailable")
    return {
        "processors": os.cpu_count(),
        "processors_allowed": machine.allowed_processors(),
        "cgroup_quota_processors": round(min(processors), 2) if processors else None,
        "cgroup_memory_limit_gib": round(min(limits) / 2**30, 2) if limits else None,
        "memory_gib": round(total, 1) if total else None,
        "memory_available_gib": None if free is None else round(free, 1),
    }


def _cgroup_folders() -> list[str]:
    """Return the folders of this process's control group (version 2), innermost first."""
    found = re.search("^0::(.*)", machine.read_text("/proc/self/cgroup") or "", re.M)
    inner = Path(_CGROUP, found[1].strip("/") if found else "")
    return [str(folder) for folder in (inner, *inner.parents) if folder.is_relative_to(_CGROUP)]
