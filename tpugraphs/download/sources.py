"""The published data to this machine: :func:`commands` says how, :func:`run` does it.

The archives are those of the tpu_graphs repository, one per collection and split. They are downloaded to
``ROOT/.download``, unpacked to ``ROOT/npz`` where :func:`tpugraphs.open_collection` finds them, and removed.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import shutil
import sys
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tpugraphs.download.transfer import Remote, Retries, check_url, fetch, finished, here, probe
from tpugraphs.download.unpack import unpack
from tpugraphs.errors import ConfigError, DataError
from tpugraphs.names import COLLECTIONS, SPLITS
from tpugraphs.system import progress as bars
from tpugraphs.system.files import absolute, atomic_write, locked

__all__ = ["KAGGLE", "OFFICIAL", "Archive", "archives", "commands", "run"]

OFFICIAL = "https://download.tensorflow.org/data/tpu_graphs/v0"
KAGGLE = "predict-ai-model-runtime"
_STORE = ".download"
_LINES = 5.0  # seconds between lines of progress where there is no bar


@dataclass(frozen=True)
class Archive:
    """One published archive.

    Attributes
    ----------
    collection, split : str
    name : str
        Of the file, for example ``npz_layout_xla_random_valid.tar``.
    url : str
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
        Commands by collection; what comes before all of them by ``""``.
    """
    listed, folder = archives(what, url), shlex.quote(absolute(root))
    found: dict[str, list[str]] = {"": [f"mkdir -p {folder} && cd {folder}"]}
    if source == "kaggle":
        found[""].append(f"kaggle competitions download -c {KAGGLE}")
        found[""].append(f"unzip -n {KAGGLE}.zip sample_submission.csv")
        for archive in listed:
            pattern = shlex.quote(f"npz_all/npz/{archive.place}/*")
            found.setdefault(archive.collection, []).append(f"unzip -n {KAGGLE}.zip {pattern}")
    elif source == "official":
        for archive in listed:
            found.setdefault(archive.collection, []).extend(
                (
                    f"curl -fL --retry 8 -C - -O {shlex.quote(archive.url)}",
                    f"tar -xf {archive.name} && rm {archive.name}",
                )
            )
    else:
        raise ConfigError(f"source: expected 'official' or 'kaggle', got {source!r}")
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
        How to deal with failures.
    verbose : bool, optional
        Show a progress bar; by default in a terminal or notebook, else a line now and then on stderr.

    Returns
    -------
    list of dict
        Per archive: archive, collection, split, folder, files, bytes, state (``"downloaded"`` or
        ``"already there"``).

    Raises
    ------
    DataError
        Not enough free space, a file that is not there, a wrong checksum, an archive that is not what it
        should be, or no connection for too long.
    ConfigError
        No such collection, or another process downloads to the same root.
    KeyboardInterrupt
        Ctrl-C. What is there is kept.
    """
    listed, base, retries = archives(what, url), Path(absolute(root)), retries or Retries()
    store = base / _STORE
    store.mkdir(parents=True, exist_ok=True)
    results = []
    with locked(str(store), "another download"):
        missing = [archive for archive in listed if _done(base, archive) is None]
        with _Show(verbose) as show:
            try:
                remotes = {archive: probe(archive.url, retries, show.notice) for archive in missing}
                _check_space(base, remotes, keep)
                for archive in listed:
                    files = _done(base, archive)
                    state = "already there" if files is not None else "downloaded"
                    if files is None:
                        files = _get(base, archive, keep, retries, show)
                    results.append(_result(base, archive, files, state))
            except KeyboardInterrupt:
                raise KeyboardInterrupt(
                    f"(what is there is kept in {base}; the same command resumes from there)"
                ) from None
    return results


def _result(base: Path, archive: Archive, files: list[tuple[str, int]], state: str) -> dict[str, Any]:
    return {
        "archive": archive.name,
        "collection": archive.collection,
        "split": archive.split,
        "folder": str(base / "npz" / archive.place),
        "files": len(files),
        "bytes": sum(size for _, size in files),
        "state": state,
    }


def _recorded(base: Path, archive: Archive) -> Path:
    return base / _STORE / f"{archive.name}.done"


def _record(base: Path, archive: Archive) -> dict[str, Any]:
    """Read what was noted down when the archive was unpacked; nothing if that is damaged or not there."""
    with suppress(OSError, ValueError, RecursionError):
        record = json.loads(_recorded(base, archive).read_text(encoding="utf-8"))
        if isinstance(record, dict):
            return record
    return {}


def _done(base: Path, archive: Archive) -> list[tuple[str, int]] | None:
    """Files (name, size) of an archive that was unpacked, if all are still there as they were."""
    with suppress(OSError, ValueError, TypeError, KeyError, OverflowError):
        files = [(str(name), int(size)) for name, size in _record(base, archive)["files"]]
        folder = base / "npz" / archive.place
        if files and all((folder / name).stat().st_size == size for name, size in files):
            return files
    return None


def _check_space(base: Path, remotes: dict[Archive, Remote], keep: bool) -> None:
    """Refuse to begin if an archive and what comes out of it will not fit."""
    held = most = 0
    for archive, remote in remotes.items():
        length = remote.length or 0
        left = max(0, length - here(base / _STORE / archive.name))
        most = max(most, held + left + length)
        held += length + (left if keep else 0)
    most += most // 100  # of the file system's own
    free = shutil.disk_usage(base).free
    if most > free:
        raise DataError(
            f"free space: expected {_bytes(most)} for the archives and what comes out of them, found "
            f"{_bytes(free)}; make room, choose fewer collections, or another --root",
            file=str(base), field="free space", expected=_bytes(most), found=_bytes(free),
        )  # fmt: skip


def _get(base: Path, archive: Archive, keep: bool, retries: Retries, show: _Show) -> list[tuple[str, int]]:
    """Download one archive, unpack it, and note down that it is done."""
    target = base / _STORE / archive.name
    start = time.monotonic()
    if not finished(target, archive.url):
        target.unlink(missing_ok=True)
        show.begin(archive.name, "download")
        fetch(archive.url, target, retries, show.at, show.notice)
    size = target.stat().st_size
    show.begin(archive.name, "check")
    seen = _seen(base, archive, target, show)
    show.begin(archive.name, "unpack")
    try:
        files = unpack(target, base / "npz", archive.place, lambda done: show.at(done, size))
    except DataError:
        target.unlink(missing_ok=True)  # the next attempt is to get another one
        raise
    if hasattr(os, "sync"):
        os.sync()  # one for all files: they are compared if this was cut short
    with atomic_write(_recorded(base, archive)) as file:
        file.write(json.dumps({"url": archive.url, **seen, "files": files}).encode())
    if not keep:
        target.unlink()
        target.with_name(target.name + ".json").unlink(missing_ok=True)
    seconds = time.monotonic() - start
    show.notice(f"{_bytes(size)} in {seconds:.0f} s: {len(files):,} graphs in {base / 'npz' / archive.place}")
    return files


def _seen(base: Path, archive: Archive, target: Path, show: _Show) -> dict[str, Any]:
    """Size and SHA-256 of an archive, as at its first use or DataError: its authors publish no digests."""
    with open(target, "rb") as file:
        seen = {"bytes": target.stat().st_size, "sha256": hashlib.file_digest(file, "sha256").hexdigest()}
    first = _record(base, archive)
    if first.get("url") != archive.url or "sha256" not in first:
        show.notice(f"{seen['bytes']:,} bytes, sha256 {seen['sha256']}: recorded, to compare later downloads")
    elif any(first.get(name) != value for name, value in seen.items()):
        target.unlink()
        expected, found = (f"{one.get('bytes')} bytes, sha256 {one['sha256']}" for one in (first, seen))
        raise DataError(
            f"sha256: expected the archive of the first download ({expected}), found another ({found}); "
            f"download it again; if a new version was published, delete {_recorded(base, archive)} before",
            file=archive.url, field="sha256", expected=expected, found=found,
        )  # fmt: skip
    else:
        show.notice(f"sha256 {seen['sha256']}: the same archive as at the first download")
    return seen


def _bytes(count: float) -> str:
    """Write a number of bytes for people."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000 or unit == "GB":
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    raise AssertionError


class _Show:
    """Progress of downloads: a bar, or lines on stderr."""

    def __init__(self, verbose: bool | None) -> None:
        self._bar: Any = None
        self._wanted, self._silent = bars.wanted(verbose), verbose is False
        self._title, self._last = "", 0.0

    def __enter__(self) -> _Show:
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    def _close(self) -> None:
        if self._bar is not None:
            self._bar.close()
            self._bar = None

    def begin(self, name: str, what: str) -> None:
        """Start with another archive."""
        self._close()
        self._title, self._last = f"{name}: {what}", time.monotonic()
        if self._wanted:
            from tqdm.auto import tqdm

            self._bar = tqdm(
                desc=self._title, unit="B", unit_scale=True, leave=False, delay=1, dynamic_ncols=True
            )

    def at(self, done: int, total: int | None) -> None:
        """Show how much is done."""
        if self._bar is not None:
            self._bar.total = total
            self._bar.update(done - self._bar.n)
        elif time.monotonic() - self._last > _LINES:
            self._last = time.monotonic()
            self.notice(f"{_bytes(done)}{f' of {_bytes(total)}' if total else ''}")

    def notice(self, text: str) -> None:
        """Tell something worth knowing."""
        if not self._silent:
            line = f"{self._title}: {text}" if self._title else text
            if self._bar is not None:
                self._bar.write(line, file=sys.stderr)
            else:
                print(line, file=sys.stderr, flush=True)
