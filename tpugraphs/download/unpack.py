"""A published archive to graphs on disk, without trusting it.

Where a file goes is decided by the collection and split that the archive is of, and by the last part of its
name alone; an archive with a name that points elsewhere, a link or a device is refused.
"""

from __future__ import annotations

import os
import secrets
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

from tpugraphs.errors import DataError

__all__ = ["unpack"]

PIECE = 1 << 20
_BLOCK = 512  # bytes of a tar block; two of zeros end an archive


def unpack(
    archive: Path, root: Path, place: str, progress: Callable[[int], None] = lambda done: None
) -> list[tuple[str, int]]:
    """Unpack the .npz files of one split.

    Existing files with the same content stay; others appear under their names when they are complete.

    Parameters
    ----------
    archive : Path
        An uncompressed tar file with members ``.../PLACE/NAME.npz``; other regular files are left out.
    root : Path
        The files are written to ``root/PLACE``.
    place : str
        For example ``layout/xla/random/valid``.
    progress : callable
        Called with the bytes of the archive that are done.

    Returns
    -------
    list of (str, int)
        Names and sizes of all files.

    Raises
    ------
    DataError
        Not a tar file, cut short, with members other than plain files below it, or without any graph.
    """
    folder = root.joinpath(*place.split("/"))
    folder.mkdir(parents=True, exist_ok=True)
    for unfinished in folder.glob(".*.npz.*.tmp"):
        unfinished.unlink()
    files: dict[str, int] = {}
    try:
        with open(archive, "rb") as raw, tarfile.open(fileobj=raw, mode="r:") as tar:
            for member in _members(archive, tar):
                name = _name(archive, member, place)
                if name is None:
                    continue
                content = tar.extractfile(member)
                if content is None:
                    raise _refuse(archive, member, "a plain file")
                _write(content, folder / name, member.size)
                files[name] = member.size
                progress(raw.tell())
            raw.seek(tar.offset)
            if raw.read(_BLOCK) != bytes(_BLOCK):
                raise tarfile.ReadError("the end is missing")
    except (tarfile.TarError, EOFError, ValueError, OverflowError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(
            f"expected a whole tar file, found: {error}; delete it and download it again",
            file=str(archive), field="archive", expected="a tar file", found=str(error),
        ) from None  # fmt: skip
    if not files:
        raise DataError(
            f"expected files .../{place}/NAME.npz in the archive, found none; is this the right archive?",
            file=str(archive), field="archive", expected=f"{place}/NAME.npz", found="none",
        )  # fmt: skip
    return sorted(files.items())


def _members(archive: Path, tar: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    """Regular files of an archive; everything that is neither file nor folder is refused."""
    total = archive.stat().st_size
    while (member := tar.next()) is not None:
        plain = member.type in (tarfile.REGTYPE, tarfile.AREGTYPE) and not member.issparse()
        if not plain and not member.isdir():
            raise _refuse(archive, member, "a plain file or folder")
        if not 0 <= member.size <= total - member.offset_data:
            raise tarfile.ReadError(f"member {member.name!r} of {member.size} bytes in a file of {total}")
        if plain:
            yield member
        else:
            _parts(archive, member)


def _refuse(archive: Path, member: tarfile.TarInfo, expected: str) -> DataError:
    kinds = {tarfile.SYMTYPE: "a symbolic link", tarfile.LNKTYPE: "a hard link", tarfile.FIFOTYPE: "a pipe",
             tarfile.CHRTYPE: "a device", tarfile.BLKTYPE: "a device"}  # fmt: skip
    found = "a sparse file" if member.issparse() else kinds.get(member.type, "something else")
    if member.type in (tarfile.REGTYPE, tarfile.AREGTYPE, tarfile.DIRTYPE) and not member.issparse():
        found = "a name that leads elsewhere"
    return DataError(
        f"member {member.name!r}: expected {expected} below the archive's folder, found {found}; this is "
        "not a published archive, nothing of it should be used",
        file=str(archive), field="archive", expected=expected, found=found,
    )  # fmt: skip


def _parts(archive: Path, member: tarfile.TarInfo) -> list[str]:
    """Parts of a member's name; refused if it is absolute or leads out of the archive's folder."""
    parts = [part for part in member.name.split("/") if part not in ("", ".")]
    odd = any(c in member.name for c in "\\\0\n") or any(":" in part for part in parts[:1])
    if member.name.startswith("/") or ".." in parts or odd:
        raise _refuse(archive, member, "a relative name")
    return parts


def _name(archive: Path, member: tarfile.TarInfo, place: str) -> str | None:
    """Name of the graph's file, or None for a file of no graph of this split."""
    parts = _parts(archive, member)
    wanted = parts[-1:] and parts[-1].endswith(".npz") and not parts[-1].startswith(".")
    return parts[-1] if wanted and parts[:-1][-len(place.split("/")) :] == place.split("/") else None


def _write(content: IO[bytes], target: Path, size: int) -> None:
    """Write a file next to its place and move it there, unless it is there already."""
    if _same(content, target, size):
        return
    content.seek(0)
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(6)}.tmp")
    try:
        with open(temporary, "xb") as file:
            while data := content.read(PIECE):
                file.write(data)
            if file.tell() != size:
                raise tarfile.ReadError(f"{target.name} is cut short")
        os.replace(temporary, target)
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.filename is None and error.errno is not None:
            raise OSError(error.errno, error.strerror, str(target)) from None
        raise


def _same(content: IO[bytes], target: Path, size: int) -> bool:
    """Whether a file with this content is there."""
    if target.is_symlink() or not target.is_file() or target.stat().st_size != size:
        return False
    with open(target, "rb") as file:
        while data := content.read(PIECE):
            if file.read(len(data)) != data:
                return False
        return not file.read(1)
