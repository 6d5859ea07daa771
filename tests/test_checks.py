"""Builds with checks (TPUGRAPHS_DEBUG=1, TPUGRAPHS_SANITIZE=1) notice what others cannot."""

import subprocess
import sys

import pytest

from tpugraphs import _core

PLACES = ["shared", "partial", "scratch", "slot", "tile", "configs", "loss"]
needs_checks = pytest.mark.skipif(not _core.checked(), reason="the core was built without checks")


def write(place, past):
    """A process in which an op or a loss writes `past` bytes behind its memory."""
    code = f"from tpugraphs import _core; _core.overrun({place!r}, {past})"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)


@needs_checks
@pytest.mark.parametrize("past", [1, 64])
@pytest.mark.parametrize("place", PLACES)
def test_an_overrun_is_caught(place, past):
    done = write(place, past)
    assert done.returncode != 0
    assert "overwritten" in done.stderr or "AddressSanitizer" in done.stderr, done.stderr


@needs_checks
def test_a_broken_precondition_is_caught():
    done = write("assert", 1)
    assert done.returncode != 0 and "check failed: items >= 0" in done.stderr, done.stderr


@needs_checks
@pytest.mark.parametrize("place", [*PLACES, "assert"])
def test_what_stays_within_its_memory_passes(place):
    done = write(place, 0)
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(_core.checked(), reason="the core was built with checks")
def test_a_build_without_checks_refuses_the_fault():
    with pytest.raises(RuntimeError, match="TPUGRAPHS_DEBUG"):
        _core.overrun("shared", 1)
