"""Unpack a published archive to graphs on disk, without trusting it.

The collection and split of the archive decide where a file goes, and so does the last part of its name, but
nothing else. An archive with a name that points elsewhere, a link or a device is refused.
"""

from __future__ import annotations

import shutil
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path

from tpugraphs.errors import DataError
from tpugraphs.system.files import atomic_write
from tpugraphs.system.words import counted

PIECE = 1 << 20
_BLOCK = 512  # bytes of a tar block; two of zeros end an archive


def unpack(
    archive: Path, root: Path, place: str, progress: Callable[[int], None] = lambda done: None
) -> list[tuple[str, int]]:
    """Unpack the .npz files of one split. Files appear under their names when they are complete.

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
    folder_parts = place.split("/")
    folder = root.joinpath(*folder_parts)
    folder.mkdir(parents=True, exist_ok=True)
    for unfinished in folder.glob(".*.npz.*.tmp"):
        unfinished.unlink()
    files: dict[str, int] = {}
    try:
        with open(archive, "rb") as raw, tarfile.open(fileobj=raw, mode="r:") as tar:
            for member, parts in _members(archive, tar):
                name, content = parts[-1], tar.extractfile(member)
                split = parts[:-1][-len(folder_parts) :] == folder_parts
                if not split or not name.endswith(".npz") or name.startswith(".") or content is None:
                    continue
                with atomic_write(folder / name, durable=False) as file:
                    shutil.copyfileobj(content, file, PIECE)
                    if file.tell() != member.size:
                        raise tarfile.ReadError(f"{name} is cut short")
                files[name] = member.size
                progress(raw.tell())
            raw.seek(tar.offset)
            if raw.read(_BLOCK) != bytes(_BLOCK):
                raise tarfile.ReadError("the end is missing")
    except (tarfile.TarError, EOFError, ValueError, OverflowError) as error:
        if isinstance(error, DataError):
            raise
        todo = "delete it and download it again"
        raise DataError.of("archive", "a whole tar file", str(error), todo, file=str(archive)) from None
    if not files:
        expected, todo = f"files .../{place}/NAME.npz", "is this the right archive?"
        raise DataError.of("archive", expected, "none", todo, file=str(archive))
    return sorted(files.items())


def _members(archive: Path, tar: tarfile.TarFile) -> Iterator[tuple[tarfile.TarInfo, list[str]]]:
    """Yield regular files of an archive and the parts of their names; refuse all but files and folders."""
    total = archive.stat().st_size
    while (member := tar.next()) is not None:
        plain = member.type in (tarfile.REGTYPE, tarfile.AREGTYPE) and not member.issparse()
        if not plain and not member.isdir():
            raise _refuse(archive, member, "a link, a device or a sparse file")
        if not 0 <= member.size <= total - member.offset_data:
            raise tarfile.ReadError(
                f"member {member.name!r} of {counted(member.size, 'byte')} in a file of {total}"
            )
        parts = [part for part in member.name.split("/") if part not in ("", ".")]
        odd = any(c in member.name for c in "\\\0\n") or any(":" in part for part in parts[:1])
        if member.name.startswith("/") or ".." in parts or odd:
            raise _refuse(archive, member, "a name that leads elsewhere")
        if plain and parts:
            yield member, parts


def _refuse(archive: Path, member: tarfile.TarInfo, found: str) -> DataError:
    expected, todo = "plain files below its own folder", "this is not a published archive: use nothing of it"
    return DataError.of("archive", expected, f"{member.name!r}, {found}", todo, file=str(archive))
