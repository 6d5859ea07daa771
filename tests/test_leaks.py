"""Repeated work, successful or refused, leaves no memory behind."""

import ctypes
import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
SANITIZED = "libasan" in os.environ.get("LD_PRELOAD", "")


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallinfo2"), reason="needs glibc 2.33's mallinfo2")
@pytest.mark.skipif(SANITIZED, reason="AddressSanitizer has an allocator of its own")
@pytest.mark.parametrize(
    ("work", "limit"),
    # A leaked array is 100 bytes or more, 10 times; a leak of an op shows in each of its cases.
    [
        ("ops", 5000),
        ("model", 1000),
        ("store", 1000),
        ("optimizer", 1000),
        ("data", 1000),
        ("bad_data", 2000),
        ("packs", 2000),
        ("protocol_buffers", 2000),
        ("prepare", 1000),
        ("tensors", 1000),
        ("losses_and_metrics", 1000),
        ("attributes", 1000),
        ("imports", 5000),
    ],
)
def test_nothing_is_left_behind(work, limit):
    path = os.pathsep.join([str(HERE), os.environ["PYTHONPATH"]])
    settings = {
        "PYTHONPATH": path,
        "MALLOC_ARENA_MAX": "1",
        "PYTHONMALLOC": "malloc",
        "TPUGRAPHS_NUM_THREADS": "1",
    }
    done = subprocess.run(
        [sys.executable, HERE / "isolated" / "leaks.py", work, str(limit)],
        env={**os.environ, **settings},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < limit, f"{work}: {int(done.stdout):,} bytes left by 10 repetitions"
