"""Builds with checks (TPUGRAPHS_DEBUG=1, TPUGRAPHS_SANITIZE=1) notice what others cannot."""

import subprocess
import sys

import pytest

from tpugraphs import _core

MEMORIES = {"shared": 0, "partial": 1, "scratch": 2}
needs_checks = pytest.mark.skipif(not _core.checked(), reason="the core was built without checks")


def write(memory, past):
    """Exit code of a process in which an op writes `past` floats behind its memory."""
    code = f"from tpugraphs import _core; print(_core.overrun({MEMORIES[memory]}, {past}))"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)


@needs_checks
@pytest.mark.parametrize("memory", MEMORIES)
def test_an_overrun_is_caught(memory):
    done = write(memory, 1)
    assert done.returncode != 0
    assert "overwritten" in done.stderr or "AddressSanitizer" in done.stderr, done.stderr


@needs_checks
@pytest.mark.parametrize("memory", MEMORIES)
def test_the_last_float_is_not_an_overrun(memory):
    done = write(memory, 0)
    assert done.returncode == 0 and float(done.stdout) == 1.0, done.stderr


@pytest.mark.skipif(_core.checked(), reason="the core was built with checks")
def test_a_build_without_checks_refuses_the_fault():
    with pytest.raises(RuntimeError, match="TPUGRAPHS_DEBUG"):
        _core.overrun(0, 1)
