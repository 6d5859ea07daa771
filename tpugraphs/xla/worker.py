"""The child process that compiles, checks and times candidates, so that a crash ends only itself.

It is started as ``python -m tpugraphs.xla.worker FOLDER`` and exchanges lines of JSON: a request on standard
input, an answer on standard output. Programs and arrays are passed as files in the folder, never as pickles:
programs as written by :mod:`jax.export`, arrays in an ``.npz``. The parent removes the folder; if the parent
was killed, the child does.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import queue
import re
import shutil
import sys
import threading
import time
from pathlib import Path
from typing import Any

import jax
import jax.export
import numpy as np

_METADATA = re.compile(r', metadata=\{(?:[^"}]|"(?:[^"\\]|\\.)*")*\}')
_NAME = re.compile(r"%[\w.-]+")
_HAS_ELF = sys.platform == "linux"  # elsewhere any other option counts as another program


_ELF = b"\x7fELF\x02\x01"  # 64 bits, little-endian


def objects(executable: bytes) -> list[bytes]:
    """Return the object files (ELF) in a serialised executable: the machine code of its kernels."""
    found, start = [], executable.find(_ELF)
    while start >= 0:
        sections, entry, count = (
            int.from_bytes(executable[start + at : start + at + size], "little")
            for at, size in ((0x28, 8), (0x3A, 2), (0x3C, 2))
        )
        end = start + max(sections + entry * count, 64)  # the table of sections ends the file
        found.append(executable[start:end])
        start = executable.find(_ELF, end)
    return found


def program_hash(text: str, code: list[bytes]) -> str:
    """Hash an optimised program: its text without names, metadata and tables of source lines, and its code.

    The text shows library calls; kernels that XLA generates are in `code`, in any order.
    """
    start = re.search(r"^(?:%|ENTRY)", text, re.M)
    body = _METADATA.sub("", text[start.start() :] if start else text)
    names: dict[str, str] = {}
    body = _NAME.sub(lambda match: names.setdefault(match[0], f"%{len(names)}"), body)
    layouts = text.partition("\n")[0].partition(",")[2]
    parts = [layouts, body, *sorted(hashlib.sha256(part).hexdigest() for part in code)]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]


def deviation(found: list[Any], expected: list[Any]) -> float:
    """Return the largest relative L2 error of an output; infinite if types or places of NaN differ."""
    worst = 0.0
    for a, b in zip(found, expected, strict=True):
        a, b = np.asarray(a), np.asarray(b)
        if a.shape != b.shape or a.dtype != b.dtype:
            return float("inf")
        if not jax.numpy.issubdtype(a.dtype, np.inexact):
            if not np.array_equal(a, b):
                return float("inf")
            continue
        wide = np.complex128 if jax.numpy.issubdtype(a.dtype, np.complexfloating) else np.float64
        a, b = a.astype(wide), b.astype(wide)
        finite = np.isfinite(b)
        if not np.array_equal(finite, np.isfinite(a)) or not np.array_equal(
            np.where(finite, 0, a), np.where(finite, 0, b), equal_nan=True
        ):
            return float("inf")
        scale = np.abs(b[finite]).max(initial=0.0) or 1.0  # else squares of large numbers overflow
        error, size = np.linalg.norm((a[finite] - b[finite]) / scale), np.linalg.norm(b[finite] / scale)
        worst = max(worst, float(error / (size or 1.0)))
    return worst


class Worker:
    """Answers requests; each method is one kind of request."""

    def __init__(self) -> None:
        self._arguments: list[Any] = []
        self._modules: dict[str, Any] = {}
        self._programs: dict[str, tuple[Any, float]] = {}  # by hash: the program, its deviation
        self._expected: list[Any] | None = None

    def hello(self, x64: bool, platforms: str | None) -> dict[str, Any]:
        """Start JAX with the parent's settings, and describe the machine and device."""
        jax.config.update("jax_enable_x64", x64)
        jax.config.update("jax_platforms", platforms)
        # Programs from the cache on disk have no machine code to compare, and are not dumped.
        jax.config.update("jax_enable_compilation_cache", False)
        device = jax.devices()[0]
        cores = len(os.sched_getaffinity(0))
        return {
            "platform": device.platform,
            "device": processor() if device.platform == "cpu" else device.device_kind,
            "cores": cores,
            "threads": int(os.environ.get("PJRT_NPROC") or os.environ.get("NPROC") or cores),
            "jax": jax.__version__,
            "jaxlib": sys.modules["jaxlib"].__version__,
            "python": platform.python_version(),
            "system": platform.platform(),
            "xla_flags": os.environ.get("XLA_FLAGS", ""),
        }

    def arguments(self, path: str) -> dict[str, Any]:
        """Read the arguments of all programs."""
        with np.load(path, allow_pickle=False) as file:
            names = json.loads(file["dtypes"].tobytes())
            arrays = [file[f"arg_{i}"].view(jax.numpy.dtype(name)) for i, name in enumerate(names)]
        self._arguments = [jax.device_put(array) for array in arrays]
        return {}

    def module(self, key: str, path: str) -> dict[str, Any]:
        """Read a program and lower it; it is compiled later, with options."""
        exported = jax.export.deserialize(bytearray(Path(path).read_bytes()))
        self._modules[key] = jax.jit(exported.call).lower(*exported.in_avals)
        return {}

    def probe(self, options: dict[str, list[Any]]) -> dict[str, Any]:
        """Return the values of options that this version of XLA knows."""
        lowered = jax.jit(lambda x: x + 1).lower(np.zeros(8, np.float32))
        known: dict[str, list[Any]] = {}
        for name, values in options.items():
            for value in values:
                try:
                    lowered.compile(compiler_options={name: value})
                except Exception:  # whatever XLA raises, the option cannot be used
                    continue
                known.setdefault(name, []).append(value)
        return {"known": known}

    def compile(self, key: str, options: dict[str, Any]) -> dict[str, Any]:
        """Compile a candidate, run it once and compare its outputs with those of the first one."""
        start = time.perf_counter()
        compiled = self._modules[key].compile(compiler_options=options)
        seconds = time.perf_counter() - start
        executable = compiled.runtime_executable()
        code = objects(executable.serialize()) if _HAS_ELF else [json.dumps(options, sort_keys=True).encode()]
        found = program_hash(executable.hlo_modules()[0].to_string(), code)
        if found not in self._programs:
            outputs = jax.tree.leaves(jax.block_until_ready(compiled(*self._arguments)))
            if self._expected is None:
                self._expected = outputs
            self._programs[found] = compiled, deviation(outputs, self._expected)
        return {"hash": found, "seconds": seconds, "deviation": self._programs[found][1]}

    def dump(self, key: str, folder: str) -> dict[str, Any]:
        """Write the program before layout assignment and the optimised one; return their files."""
        options = {
            "xla_dump_to": folder,
            "xla_dump_hlo_as_proto": True,
            "xla_dump_hlo_pass_re": "layout-assignment",
        }
        compiled = self._modules[key].compile(compiler_options=options)
        before = sorted(Path(folder).glob("*before_layout-assignment*.pb"))
        after = Path(folder, "optimised.pb")
        after.write_bytes(compiled.runtime_executable().hlo_modules()[0].as_serialized_hlo_module_proto())
        return {"before": [str(path) for path in before], "optimised": str(after)}

    def time(self, key: str, least: float) -> dict[str, Any]:
        """Time a compiled program, given by its hash: the fastest of several runs, in seconds.

        It runs as often as fits into `least` seconds, from 1 to 32 times, after one warm-up run.
        """
        program, best, spent, runs = self._programs[key][0], float("inf"), 0.0, 0
        jax.block_until_ready(program(*self._arguments))
        while runs == 0 or (spent < least and runs < 32):
            start = time.perf_counter()
            jax.block_until_ready(program(*self._arguments))
            took = time.perf_counter() - start
            best, spent, runs = min(best, took), spent + took, runs + 1
        return {"seconds": best}


def processor() -> str:
    """Return the name of the processor."""
    try:
        text = Path("/proc/cpuinfo").read_text(errors="replace")
    except OSError:
        text = ""
    match = re.search(r"^model name\s*:\s*(.+)$", text, re.M)
    return match[1].strip() if match else platform.processor() or platform.machine()


def read(requests: queue.SimpleQueue[str]) -> None:
    """Read requests. At their end the parent is gone: remove the folder and exit at once."""
    for line in sys.stdin:
        requests.put(line)
    shutil.rmtree(sys.argv[1], ignore_errors=True)
    os._exit(0)


def main() -> None:
    """Answer requests until standard input ends."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # keeps output of libraries out of the answers
    worker = Worker()
    requests: queue.SimpleQueue[str] = queue.SimpleQueue()
    threading.Thread(target=read, args=(requests,), daemon=True).start()
    while True:
        request = json.loads(requests.get())
        try:
            answer = getattr(worker, request.pop("do"))(**request)
        except Exception as error:  # the parent interprets it
            text = " ".join(str(error).split())
            answer = {"error": f"{type(error).__name__}: {text[:500]}"}
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
