"""Download the published archives: :func:`commands` gives shell commands, :func:`run` downloads.

There is one archive per collection and split. They are downloaded to ``ROOT/.download``, unpacked to
``ROOT/npz`` where :func:`tpugraphs.open_collection` finds them, and removed.

An archive is not trusted. Its collection and split decide where a file goes, and so does the last part of the
file's name, but nothing else. An archive with a name that points elsewhere, a link or a device is refused.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import tarfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tpugraphs.errors import ConfigError, DataError
from tpugraphs.names import COLLECTIONS, SPLITS
from tpugraphs.system import Progress, check_choice, counted, notice, parsed, read_whole
from tpugraphs.system.files import absolute, atomic_write, digest_of, locked, write_whole
from tpugraphs.system.transfer import Remote, Retries, check_url, fetch, on_disk, probe

#: Folder of the archives that the authors of TpuGraphs published.
OFFICIAL = "https://download.tensorflow.org/data/tpu_graphs/v0"
#: Name of the competition at Kaggle.
KAGGLE = "predict-ai-model-runtime"
_PIECE = 1 << 20
_BLOCK = 512  # bytes of a tar block; two of zeros end an archive


@dataclass(frozen=True)
class Archive:
    """One published archive.

    Attributes
    ----------
    collection, split : str
        What it holds.
    name : str
        Of the file, for example ``npz_layout_xla_random_valid.tar``.
    url : str
        Where it is published.
    """

    collection: str
    split: str
    name: str
    url: str

    @property
    def place(self) -> str:
        """Folder of its files, below the npz folder."""
        return f"{COLLECTIONS[self.collection]}/{self.split}"


def archives(what: Iterable[str] = (), url: str = OFFICIAL) -> list[Archive]:
    """List the published archives of collections.

    Parameters
    ----------
    what : list of str
        Collections, or collection/split such as ``layout:xla:random/valid``; all five if empty.
    url : str
        Where they are published.

    Returns
    -------
    list of Archive
        In the order in which they were named.

    Raises
    ------
    ConfigError
        No such collection or split, or not the address of a folder.
    """
    base, found = check_url(url), {}
    for word in [what] if isinstance(what, str) else (list(what) or COLLECTIONS):
        collection, _, split = word.partition("/")
        check_choice("collection", collection, COLLECTIONS)
        if split not in ("", *SPLITS):
            raise ConfigError(f"{word}: no split {split!r}; splits are {', '.join(SPLITS)}")
        for part in [split] if split else SPLITS:
            name = f"npz_{collection.replace(':', '_')}_{part}.tar"
            found[name] = Archive(collection, part, name, f"{base}/{name}")
    return list(found.values())


def commands(
    what: Iterable[str] = (),
    root: str | os.PathLike[str] = "~/data/tpugraphs",
    source: str = "official",
    url: str = OFFICIAL,
) -> dict[str, list[str]]:
    """Give the shell commands that download collections, in parts to be run one after the other.

    Parameters
    ----------
    what, url
        As for :func:`archives`.
    root : path
        Where they go.
    source : {"official", "kaggle"}
        The archives of the authors, or the Kaggle competition (needs the program ``kaggle`` and an account).

    Returns
    -------
    dict of str to list of str
        Commands by collection; those that come before all others by ``""``.

    Raises
    ------
    ConfigError
        Another source, no such collection or split, or not the address of a folder.
    """
    check_choice("source", source, ("official", "kaggle"))
    folder, official = shlex.quote(absolute(root)), source == "official"
    found: dict[str, list[str]] = {"": [f"mkdir -p {folder} && cd {folder}"]}
    if not official:
        found[""].append(f"kaggle competitions download -c {KAGGLE}")
        found[""].append(f"unzip -n {KAGGLE}.zip sample_submission.csv")
    for archive in archives(what, url):
        fetched = f"curl -fL --retry 8 -C - -O {shlex.quote(archive.url)}"
        unpacked = f"tar -xf {archive.name} && rm {archive.name}"
        part = f"unzip -n {KAGGLE}.zip {shlex.quote(f'npz_all/npz/{archive.place}/*')}"
        found.setdefault(archive.collection, []).extend([fetched, unpacked] if official else [part])
    return found


def run(
    what: Iterable[str] = (),
    root: str | os.PathLike[str] = "~/data/tpugraphs",
    url: str = OFFICIAL,
    *,
    keep: bool = False,
    retries: Retries | None = None,
    verbose: bool | None = None,
) -> list[dict[str, Any]]:
    """Download and unpack collections; the same call resumes where an earlier one was interrupted.

    Parameters
    ----------
    what, url
        As for :func:`archives`.
    root : path
        The files go to ``root/npz``, where :func:`tpugraphs.open_collection` finds them.
    keep : bool
        Keep the archives, in ``root/.download``, after they are unpacked.
    retries : Retries, optional
        When to try again, and when to give up.
    verbose : bool, optional
        Show progress bars, by default in a terminal or notebook. False: also no line per archive on stderr.

    Returns
    -------
    list of dict
        Per archive: archive, collection, split, folder, files, bytes, state (``"downloaded"`` or
        ``"already there"``).

    Raises
    ------
    DataError
        Not enough free space, a missing file, an archive that is damaged or differs from the first download,
        or no connection for too long.
    ConfigError
        No such collection, or another process downloads to the same root.
    KeyboardInterrupt
        Ctrl-C. The bytes so far are kept.
    """
    base, retries = Path(absolute(root)), retries or Retries()
    results: list[dict[str, Any]] = []
    downloads = [_Download(archive, base, verbose) for archive in archives(what, url)]
    with store_below(base) as store:
        done = {one: one.done() for one in downloads}
        missing = [one for one, found in done.items() if found is None]
        _check_space(store, {one: probe(one.archive.url, retries, one.note) for one in missing}, keep)
        for one, found in done.items():
            files, archive = one.get(keep, retries) if found is None else found, one.archive
            which = {"archive": archive.name, "collection": archive.collection, "split": archive.split}
            state = "downloaded" if found is None else "already there"
            sizes = {"files": len(files), "bytes": sum(size for _, size in files), "state": state}
            results.append({**which, "folder": str(one.folder), **sizes})
    return results


@contextmanager
def store_below(folder: Path) -> Iterator[Path]:
    """Make and lock ``folder/.download``, for unfinished downloads; at the end it is removed if it is empty.

    Raises
    ------
    ConfigError
        Another process downloads to the same folder.
    KeyboardInterrupt
        Ctrl-C; the message says where the bytes so far are kept.
    """
    store = folder / ".download"
    store.mkdir(parents=True, exist_ok=True)
    try:
        with locked(str(store), "another download"):
            yield store
    except KeyboardInterrupt:
        kept = f"(what is there is kept in {folder}; the same command resumes from there)"
        raise KeyboardInterrupt(kept) from None
    with suppress(OSError):  # it is not empty
        store.rmdir()


class _Download:
    """The way of one archive to its files below a root."""

    def __init__(self, archive: Archive, base: Path, verbose: bool | None) -> None:
        self.archive, self.base, self.verbose = archive, base, verbose
        self.folder, self.target = base / "npz" / archive.place, base / ".download" / archive.name
        self.record = self.target.with_name(f"{archive.name}.done")

    def note(self, text: str) -> None:
        """Print a line about the archive on stderr, above a progress bar."""
        notice(f"{self.archive.name}: {text}", self.verbose)

    def first(self) -> dict[str, Any]:
        """Read the record of the first download; empty if it is damaged or missing."""
        with suppress(OSError, ValueError, TypeError):
            return dict(**parsed(read_whole(self.record)))
        return {}

    def done(self) -> list[tuple[str, int]] | None:
        """Return the files (name, size) that were unpacked, None unless all are there, unchanged."""
        with suppress(OSError, ValueError, TypeError, KeyError, OverflowError):
            files = [(str(name), int(size)) for name, size in self.first()["files"]]
            if files and all((self.folder / name).stat().st_size == size for name, size in files):
                return files
        return None

    def get(self, keep: bool, retries: Retries) -> list[tuple[str, int]]:
        """Download the archive, unpack it, and write its record."""
        archive, target, start = self.archive, self.target, time.monotonic()
        if not target.is_file():
            with Progress(None, f"{archive.name}: download", "B", self.verbose) as bar:
                fetch(archive.url, target, retries, bar.move, self.note)
        size, seen = target.stat().st_size, self.seen()
        try:
            with Progress(size, f"{archive.name}: unpack", "B", self.verbose) as bar:
                files = unpack(target, self.base / "npz", archive.place, lambda done: bar.move(done, size))
        except DataError:
            target.unlink(missing_ok=True)  # the next attempt downloads it again
            raise
        os.sync()  # once for all files; they are unpacked again if this was cut short
        write_whole(self.record, json.dumps({"url": archive.url, **seen, "files": files}))
        if not keep:
            target.unlink()
        graphs, seconds = counted(len(files), "graph"), time.monotonic() - start
        self.note(f"{_bytes(size)} in {seconds:.0f} s: {graphs} in {self.folder}")
        return files

    def seen(self) -> dict[str, Any]:
        """Return size and SHA-256 of the archive; DataError if they differ from those of its first download.

        Its authors publish no digests.
        """
        digest, first, url = digest_of(self.target), self.first(), self.archive.url
        seen = {"bytes": self.target.stat().st_size, "sha256": digest}
        if first.get("url") != url or "sha256" not in first:
            self.note(f"{seen['bytes']:,} bytes, sha256 {digest}: recorded, to compare later downloads")
        elif any(first.get(name) != value for name, value in seen.items()):
            self.target.unlink()
            old, new = (f"{one.get('bytes')} bytes, sha256 {one['sha256']}" for one in (first, seen))
            todo = f"download it again; if a new version was published, delete {self.record} before that"
            raise DataError.of("sha256", f"the archive of the first download, {old}", new, todo, file=url)
        else:
            self.note(f"sha256 {digest}: the same archive as at the first download")
        return seen


def _check_space(store: Path, remotes: dict[_Download, Remote], keep: bool) -> None:
    """Raise DataError if an archive and its unpacked files will not fit."""
    used = most = 0
    for one, remote in remotes.items():
        length = remote.length or 0
        missing = max(0, length - on_disk(one.target))
        most = max(most, used + missing + length)
        used += length + (missing if keep else 0)
    most += most // 100  # overhead of the file system
    free = shutil.disk_usage(store).free
    if most > free:
        needed, todo = _bytes(most), "make room, choose fewer collections, or another --root"
        what = f"{needed} for the archives and what comes out of them"
        raise DataError.of("free space", what, _bytes(free), todo, file=str(store.parent))


def _bytes(count: int) -> str:
    from tqdm import tqdm

    return f"{tqdm.format_sizeof(count)}B"


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
                    shutil.copyfileobj(content, file, _PIECE)
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
            text = f"member {member.name!r} of {counted(member.size, 'byte')} in a file of {total}"
            raise tarfile.ReadError(text)
        parts = [part for part in member.name.split("/") if part not in ("", ".")]
        odd = any(c in member.name for c in "\\\0\n") or any(":" in part for part in parts[:1])
        if member.name.startswith("/") or ".." in parts or odd:
            raise _refuse(archive, member, "a name that leads elsewhere")
        if plain and parts:
            yield member, parts


def _refuse(archive: Path, member: tarfile.TarInfo, found: str) -> DataError:
    expected, todo = "plain files below its own folder", "this is not a published archive: use nothing of it"
    return DataError.of("archive", expected, f"{member.name!r}, {found}", todo, file=str(archive))
