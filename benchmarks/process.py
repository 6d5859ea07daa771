"""Functions called in processes of their own: fresh memory, settings of the allocator, a peak of memory."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
MARK = "result of the benchmark: "

# glibc's own settings make PyTorch spend most of a step on page faults, and winning against that would prove
# nothing: the peer is measured with an allocator that keeps its memory and uses huge pages.
TUNED = {
    "MALLOC_MMAP_THRESHOLD_": str(1 << 34),
    "MALLOC_TRIM_THRESHOLD_": str(1 << 35),
    "MALLOC_TOP_PAD_": str(1 << 28),
    "THP_MEM_ALLOC_ENABLE": "1",
    "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",
}
# libgomp's default. Importing tpugraphs lowers it, which would slow the peer down where both share a process.
FAIR = {"GOMP_SPINCOUNT": "300000"}

# "tuned": the best for the peer. "default": glibc's own allocator. "own": as users of tpugraphs run it.
# "one thread": tuned, and every library on one.
SETTINGS = {
    "tuned": FAIR | TUNED,
    "default": FAIR,
    "own": {},
    "one thread": FAIR
    | TUNED
    | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"},
}


class ChildError(RuntimeError):
    """A child process failed; the message has the end of its output."""


@dataclass(frozen=True)
class Reply:
    """What the function returned, and the peak of the resident memory of its whole process."""

    value: Any
    peak_bytes: int


def memory(entry: str) -> int:
    """Bytes in a line of /proc/self/status: ``VmHWM`` (peak) or ``VmRSS`` (now).

    Not ru_maxrss: a process inherits that of the one that started it.
    """
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(entry + ":"):
            return int(line.split()[1]) << 10
    raise ChildError(f"no {entry} in /proc/self/status")


def call(function: str, /, settings: str = "tuned", **kwargs: Any) -> Reply:
    """Call ``"module:function"`` of this package with JSON arguments in a new process."""
    import tpugraphs

    own = {key: value for key, value in os.environ.items() if key not in SETTINGS["tuned"]}
    package = str(Path(tpugraphs.__file__).resolve().parents[1])  # the installed one, not sources beside us
    own["PYTHONPATH"] = os.pathsep.join(filter(None, [package, str(ROOT), os.environ.get("PYTHONPATH")]))
    own |= {"PYTHONSAFEPATH": "1", **SETTINGS[settings]}
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.process", function, json.dumps(kwargs)],
        env=own,
        capture_output=True,
        text=True,
        check=False,
    )
    for line in done.stdout.splitlines():
        if line.startswith(MARK):
            return Reply(**json.loads(line.removeprefix(MARK)))
    lines = (done.stderr or done.stdout).strip().splitlines()[-12:]
    raise ChildError(f"{function}({kwargs}) ended with {done.returncode}:\n" + "\n".join(lines))


def call_here(function: str, /, **kwargs: Any) -> Reply:
    """The same in this process, with the settings it has."""
    return Reply(**json.loads(_run(function, kwargs)))


def _run(function: str, kwargs: dict[str, Any]) -> str:
    module, name = function.split(":")
    value = getattr(importlib.import_module(f"benchmarks.{module}"), name)(**kwargs)
    return json.dumps({"value": value, "peak_bytes": memory("VmHWM")})


if __name__ == "__main__":
    print(MARK + _run(sys.argv[1], json.loads(sys.argv[2])), flush=True)
