"""Journals: files to which lines are appended, read up to a last line that was cut off."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO

from tpugraphs.errors import DataError
from tpugraphs.system.files import absolute, has_name
from tpugraphs.system.texts import MOST_BYTES

MOST_LINE = 16 << 20  # bytes of a line
_BLOCK = 1 << 16  # bytes read at a time, back from the end


def read_lines(file: IO[bytes], path: str) -> Iterator[bytes]:
    """Yield the lines of a journal without their ends; a last line without end was cut off, and is left out.

    Raises
    ------
    DataError
        A line, or the file, is too long.
    """
    length, number, line = 0, 0, b"\n"
    while line.endswith(b"\n"):
        line = file.readline(MOST_LINE + 1)
        number += 1
        length += len(line)
        if len(line) > MOST_LINE or length > MOST_BYTES:
            most = f"at most {MOST_LINE >> 20} MiB in a line and {MOST_BYTES >> 20} MiB in all"
            raise DataError.of(f"line {number}", most, "more", "is this the right file?", file=path)
        if line.endswith(b"\n"):
            yield line[:-1]


def append_lines(path: str | os.PathLike[str], lines: bytes, alone: bool = False) -> None:
    """Append whole lines to a file, which is made if it is missing; other processes may do so, too.

    A last line that a killed writer has cut off is removed first. After an error, such as a full disk, all
    lines that were there are there. The operating system has the lines when this returns; a crash of the
    machine can lose those of the last seconds.

    Parameters
    ----------
    path : path
        ``~`` is expanded.
    lines : bytes
        Ends with a newline.
    alone : bool
        The caller already holds the lock of the file, by `tpugraphs.system.files.locked`.

    Raises
    ------
    OSError
        The file cannot be written, or its file system has no locks. Names the file.
    """
    with held(path, alone) as handle:
        size = _remove_torn(handle)
        try:
            rest = memoryview(lines)
            while rest:
                rest = rest[os.write(handle, rest) :]
        except BaseException:
            with suppress(OSError):
                if os.fstat(handle).st_size < size + len(lines):  # Ctrl-C may come when all are there
                    os.ftruncate(handle, size)
            raise


@contextmanager
def held(path: str | os.PathLike[str], alone: bool = False) -> Iterator[int]:
    """Open a file to append, make it if it is missing, and wait until no other process holds it here."""
    target = absolute(path)
    try:
        while True:
            handle = os.open(target, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)
            try:
                if not alone:
                    fcntl.flock(handle, fcntl.LOCK_EX)
                if has_name(handle, target):
                    yield handle
                    return
            finally:
                os.close(handle)  # ends the lock
    except OSError as error:
        if error.filename is None:
            raise OSError(error.errno, error.strerror, target) from error
        raise


def _remove_torn(handle: int) -> int:
    """Remove a last line without end, and return the size of the others."""
    size = end = os.fstat(handle).st_size
    while end > 0:
        start = max(0, end - _BLOCK)
        if at := os.pread(handle, end - start, start).rfind(b"\n") + 1:
            end = start + at
            break
        end = start
    if end < size:
        os.ftruncate(handle, end)
    return end
