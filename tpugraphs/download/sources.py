"""Download the published archives: :func:`commands` gives shell commands, :func:`run` downloads.

There is one archive per collection and split. They are downloaded to ``ROOT/.download``, unpacked to
``ROOT/npz`` where :func:`tpugraphs.open_collection` finds them, and removed.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tpugraphs.download.store import store_below
from tpugraphs.download.unpack import unpack
from tpugraphs.errors import ConfigError, DataError
from tpugraphs.names import COLLECTIONS, SPLITS
from tpugraphs.system.files import absolute, atomic_write, digest_of
from tpugraphs.system.progress import Progress, notice
from tpugraphs.system.texts import parsed, read_whole
from tpugraphs.system.transfer import Notice, Remote, Retries, check_url, fetch, on_disk, probe
from tpugraphs.system.words import counted

#: Folder of the archives that the authors of TpuGraphs published.
OFFICIAL = "https://download.tensorflow.org/data/tpu_graphs/v0"
#: Name of the competition at Kaggle.
KAGGLE = "predict-ai-model-runtime"


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

    def _folder(self, base: Path) -> Path:
        """Return where its files go below the root `base`."""
        return base / "npz" / self.place

    def _file(self, base: Path, suffix: str = "") -> Path:
        """Return the path of the archive below the root `base`; with suffix ``.done``, that of its record."""
        return base / ".download" / f"{self.name}{suffix}"


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
        if collection not in COLLECTIONS:
            raise ConfigError(f"no collection {collection!r}; collections are {', '.join(COLLECTIONS)}")
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
    if source not in ("official", "kaggle"):
        raise ConfigError(f"source: expected 'official' or 'kaggle', got {source!r}")
    folder, official = shlex.quote(absolute(root)), source == "official"
    found: dict[str, list[str]] = {"": [f"mkdir -p {folder} && cd {folder}"]}
    if not official:
        found[""].append(f"kaggle competitions download -c {KAGGLE}")
        found[""].append(f"unzip -n {KAGGLE}.zip sample_submission.csv")
    for archive in archives(what, url):
        lines = found.setdefault(archive.collection, [])
        if official:
            lines.append(f"curl -fL --retry 8 -C - -O {shlex.quote(archive.url)}")
            lines.append(f"tar -xf {archive.name} && rm {archive.name}")
        else:
            lines.append(f"unzip -n {KAGGLE}.zip {shlex.quote(f'npz_all/npz/{archive.place}/*')}")
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
    listed, base, retries = archives(what, url), Path(absolute(root)), retries or Retries()
    results: list[dict[str, Any]] = []
    with store_below(base) as store:
        done = {archive: _done(base, archive) for archive in listed}
        missing = [archive for archive, found in done.items() if found is None]
        remotes = {archive: probe(archive.url, retries, _notice(archive, verbose)) for archive in missing}
        _check_space(store, remotes, keep)
        for archive, found in done.items():
            files = _get(base, archive, keep, retries, verbose) if found is None else found
            results.append(
                {
                    "archive": archive.name,
                    "collection": archive.collection,
                    "split": archive.split,
                    "folder": str(archive._folder(base)),
                    "files": len(files),
                    "bytes": sum(size for _, size in files),
                    "state": "downloaded" if found is None else "already there",
                }
            )
    return results


def _notice(archive: Archive, verbose: bool | None) -> Notice:
    """Return a function that prints lines about an archive on stderr, above a progress bar."""
    return lambda text: notice(f"{archive.name}: {text}", verbose)


def _record(base: Path, archive: Archive) -> dict[str, Any]:
    """Read the record of an unpacked archive; empty if it is damaged or missing."""
    with suppress(OSError, ValueError, TypeError):
        return dict(**parsed(read_whole(archive._file(base, ".done"))))
    return {}


def _done(base: Path, archive: Archive) -> list[tuple[str, int]] | None:
    """Return the files (name, size) of an unpacked archive, None unless all are there, unchanged."""
    with suppress(OSError, ValueError, TypeError, KeyError, OverflowError):
        files = [(str(name), int(size)) for name, size in _record(base, archive)["files"]]
        if files and all((archive._folder(base) / name).stat().st_size == size for name, size in files):
            return files
    return None


def _check_space(store: Path, remotes: dict[Archive, Remote], keep: bool) -> None:
    """Raise DataError if an archive and its unpacked files will not fit."""
    used = most = 0
    for archive, remote in remotes.items():
        length = remote.length or 0
        missing = max(0, length - on_disk(store / archive.name))
        most = max(most, used + missing + length)
        used += length + (missing if keep else 0)
    most += most // 100  # overhead of the file system
    free = shutil.disk_usage(store).free
    if most > free:
        needed, todo = _bytes(most), "make room, choose fewer collections, or another --root"
        what = f"{needed} for the archives and what comes out of them"
        raise DataError.of("free space", what, _bytes(free), todo, file=str(store.parent))


def _get(
    base: Path, archive: Archive, keep: bool, retries: Retries, verbose: bool | None
) -> list[tuple[str, int]]:
    """Download one archive, unpack it, and write its record."""
    target, note, start = archive._file(base), _notice(archive, verbose), time.monotonic()
    if not target.is_file():
        with Progress(None, f"{archive.name}: download", "B", verbose) as bar:
            fetch(archive.url, target, retries, bar.move, note)
    size = target.stat().st_size
    seen = _seen(base, archive, target, note)
    try:
        with Progress(size, f"{archive.name}: unpack", "B", verbose) as bar:
            files = unpack(target, base / "npz", archive.place, lambda done: bar.move(done, size))
    except DataError:
        target.unlink(missing_ok=True)  # the next attempt downloads it again
        raise
    os.sync()  # once for all files; they are unpacked again if this was cut short
    with atomic_write(archive._file(base, ".done")) as file:
        file.write(json.dumps({"url": archive.url, **seen, "files": files}).encode())
    if not keep:
        target.unlink()
    graphs, seconds = counted(len(files), "graph"), time.monotonic() - start
    note(f"{_bytes(size)} in {seconds:.0f} s: {graphs} in {archive._folder(base)}")
    return files


def _seen(base: Path, archive: Archive, target: Path, note: Notice) -> dict[str, Any]:
    """Return size and SHA-256 of an archive; DataError if they differ from those of its first download.

    Its authors publish no digests.
    """
    digest = digest_of(target)
    seen, first = {"bytes": target.stat().st_size, "sha256": digest}, _record(base, archive)
    if first.get("url") != archive.url or "sha256" not in first:
        note(f"{seen['bytes']:,} bytes, sha256 {digest}: recorded, to compare later downloads")
    elif any(first.get(name) != value for name, value in seen.items()):
        target.unlink()
        old, new = (f"{one.get('bytes')} bytes, sha256 {one['sha256']}" for one in (first, seen))
        record = archive._file(base, ".done")
        todo = f"download it again; if a new version was published, delete {record} before that"
        raise DataError.of("sha256", f"the archive of the first download, {old}", new, todo, file=archive.url)
    else:
        note(f"sha256 {digest}: the same archive as at the first download")
    return seen


def _bytes(count: int) -> str:
    from tqdm import tqdm

    return f"{tqdm.format_sizeof(count)}B"
