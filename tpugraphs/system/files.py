"""Files that exist whole or not at all."""

import errno
import fcntl
import glob
import hashlib
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, BinaryIO

from tpugraphs.errors import ConfigError

PICTURE_SUFFIXES = (".png", ".svg", ".pdf")
REPORT_SUFFIXES = (".json", ".md", ".txt", ".html", *PICTURE_SUFFIXES)  # what Report.save writes


def absolute(path: str | bytes | os.PathLike[str]) -> str:
    """Return the absolute path as text, ``~`` expanded. Raises ConfigError if `path` is not a path."""
    return os.path.abspath(os.path.expanduser(file_name(path)))


def file_name(path: str | bytes | os.PathLike[str]) -> str:
    """Return a path as text, or raise ConfigError."""
    try:
        text = os.fsdecode(path)
    except TypeError:
        raise ConfigError(f"expected a path, found {path!r} of type {type(path).__name__}") from None
    if "\0" in text:
        raise ConfigError(f"expected a path, found {text!r} with a NUL character in it")
    try:
        os.fsencode(text)
    except UnicodeEncodeError:
        raise ConfigError(f"expected a path, found {text!r} with a character that no path can have") from None
    return text


def name_of(source: Any) -> str:
    """Return the path of a file, or what an open one is called, for messages."""
    return str(getattr(source, "name", "stream")) if hasattr(source, "read") else os.fspath(source)


def no_memory(file: str | None, error: MemoryError) -> MemoryError:
    """Return an error that names the file that does not fit into memory, and how much was asked for."""
    text = str(error) or "not enough memory"
    if file is None or text.startswith(f"{file}: "):
        return error
    return MemoryError(f"{file}: {text}; free memory, or use a machine with more")


def digest_of(path: str | os.PathLike[str]) -> str:
    """Return the SHA-256 of a file in hexadecimal digits."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def opened(source: Any) -> Iterator[BinaryIO]:
    """Open a path to read bytes; a binary file that is open already, such as a pipe, is left open.

    Raises
    ------
    ConfigError
        Neither a path nor an open file.
    OSError
        The file cannot be opened; names the path.
    """
    if hasattr(source, "read"):
        yield source
        return
    with open(absolute(source), "rb") as file:
        yield file


@contextmanager
def atomic_write(path: str | os.PathLike[str], durable: bool = True) -> Iterator[BinaryIO]:
    """Open a file for writing that appears under its name when the block ends without an error.

    The content is on disk then (fsync of the file, rename, fsync of the folder). After an error or a crash an
    older file is as it was; an error also removes the unfinished one.

    Parameters
    ----------
    path : path
        ``~`` is expanded.
    durable : bool
        Wait for the disk; False for many files, after which the caller waits once.

    Raises
    ------
    OSError
        The file cannot be written, or the path is that of a folder, device or pipe. Names `path`, never the
        unfinished file next to it.
    """
    target = absolute(path)
    if os.path.exists(target) and not os.path.isfile(target):  # a rename would replace a device or a pipe
        raise OSError(errno.EINVAL, "expected a file or a new name, found a folder, device or pipe", target)
    folder = os.path.dirname(target)
    temporary = os.path.join(folder, f".{os.path.basename(target)}.{secrets.token_hex(6)}.tmp")
    try:
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        try:
            with os.fdopen(handle, "wb") as file:
                yield file
                if durable:
                    file.flush()
                    os.fsync(file.fileno())
            os.replace(temporary, target)
        except BaseException:
            os.unlink(temporary)
            raise
    except OSError as error:
        if error.errno is None or error.filename not in (None, temporary):
            raise  # of something else that the block did
        raise OSError(error.errno, error.strerror, target) from error
    if durable:
        directory = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)


def write_whole(target: Any, content: bytes | str) -> None:
    """Write a file as `atomic_write` does, or into one that is open already, such as a pipe."""
    data = content.encode() if isinstance(content, str) else content
    if hasattr(target, "write") and not isinstance(target, os.PathLike):
        target.write(data)
        return
    with atomic_write(target) as file:
        file.write(data)


@contextmanager
def locked(path: str, who: str = "another fit") -> Iterator[None]:
    """Lock an existing folder, or a file, against all others that call this.

    A missing file is made, and removed at the end if it is empty. The lock leaves nothing else behind: it
    ends with the process, even if that is killed. On file systems without locks (some network file systems)
    this does nothing.

    Raises
    ------
    ConfigError
        Another process holds the lock.
    OSError
        The file cannot be made or written.
    """
    folder = os.path.isdir(path)
    handle = _lock(path, folder, who)
    try:
        yield
    finally:
        with suppress(OSError):
            if not folder and os.fstat(handle).st_size == 0:
                os.unlink(path)
        with suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_UN)  # also for children made by fork, which have the handle too
        os.close(handle)


def _lock(path: str, folder: bool, who: str) -> int:
    """Open and lock; try again if the previous holder removed the file."""
    while True:
        handle = os.open(path, os.O_RDONLY if folder else os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(handle)
            what = "folder" if folder else "file"
            todo = f"wait for its end, or use another {what}"
            raise ConfigError(f"{path}: {who} is using this {what} now; {todo}") from None
        except OSError:
            return handle
        if has_name(handle, path):
            return handle
        os.close(handle)


def has_name(handle: int, path: str) -> bool:
    """Return whether an open file is the one of that name now: it may have been removed or replaced."""
    try:
        return os.path.samefile(handle, path)
    except FileNotFoundError:
        return False


def remove_unfinished(path: str | os.PathLike[str]) -> None:
    """Remove unfinished copies of that file that killed writers left behind."""
    folder, name = os.path.split(absolute(path))
    for left in glob.glob(os.path.join(glob.escape(folder), f".{glob.escape(name)}.*.tmp")):
        os.unlink(left)
