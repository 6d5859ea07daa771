"""Packs of all files below a folder, several at a time."""

from __future__ import annotations

import errno
import os
import re
import shutil
import time
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tpugraphs import _core
from tpugraphs.data.arrays import with_file
from tpugraphs.data.collections import file_stem, graphs_in, load_all
from tpugraphs.data.packfile import (
    SUFFIX,
    Origin,
    Pack,
    is_pack,
    made_from,
    open_pack,
    origin_of,
    write,
    write_pack,
)
from tpugraphs.errors import ConfigError, DataError
from tpugraphs.system.files import absolute, locked
from tpugraphs.system.progress import Progress

__all__ = ["SUFFIX", "Pack", "PackReport", "is_pack", "open_pack", "pack_tree", "write"]

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)  # no later file would fare better
_SPARE = 16 << 20  # bytes of the disk that are left alone
_UNFINISHED = re.compile(r"\..*\.tgpack\.[0-9a-f]{12}\.tmp")


@dataclass
class PackReport:
    """What :func:`pack_tree` did.

    Attributes
    ----------
    packed, skipped, verified : int
        Files packed now, packs that were up to date, packs read back completely.
    failed : list of dict
        ``file``, ``error``, ``field``, ``found``, ``expected`` of those that could not be.
    bytes_in, bytes_out : int
        Of the .npz files packed now, and of their packs.
    seconds : float
    """

    packed: int = 0
    skipped: int = 0
    verified: int = 0
    failed: list[dict[str, str | None]] = field(default_factory=list)
    bytes_in: int = 0
    bytes_out: int = 0
    seconds: float = 0.0

    def fail(self, file: str, error: Exception) -> None:
        """Note a file that could not be packed or is damaged."""
        parts = {key: getattr(error, key, None) for key in ("field", "found", "expected")}
        text = str(error) if not isinstance(error, MemoryError) else f"{file}: not enough memory"
        self.failed.append({"file": file, "error": text, **parts})


@dataclass
class _Job:
    source: str
    place: int  # of the graph in the source
    target: str
    size: int  # of the source
    need: int  # bytes of the pack, about
    origin: Origin
    done: NDArray[np.int64] = field(default_factory=lambda: np.zeros(2, np.int64))
    digits: int = 1  # that there are, once it is known
    shown: int = 0

    def megabytes(self) -> int:
        """Of the source that are dealt with."""
        return int(self.size * min(1.0, int(self.done[0]) / self.digits) / 1e6)


def pack_tree(
    folder: str | os.PathLike[str],
    out: str | os.PathLike[str] | None = None,
    *,
    jobs: int | None = None,
    verify: bool = False,
    verbose: bool | None = None,
) -> PackReport:
    """Make packs of all .npz files below a folder, and of .pb files without an .npz, or of one file.

    A pack appears under its name when it is complete and on disk. Packs that exist and are of the same .npz
    are left as they are, so a run that was killed resumes where it stopped.

    Parameters
    ----------
    folder : path
        Or one file.
    out : path, optional
        Where the tree of packs goes; by default next to the .npz files.
    jobs : int, optional
        Files at a time; by default as many as there are threads.
    verify : bool
        Also read all packs back and compare every checksum; one that was there before and is damaged is made
        again.
    verbose : bool, optional
        Progress bar; by default in a terminal or notebook.

    Returns
    -------
    PackReport
        Also of the files that could not be packed; the others are.

    Raises
    ------
    DataError
        Nothing there to pack.
    ConfigError
        Fewer jobs than one, or another run is packing into the same folder.
    OSError
        Not enough space, or a folder that cannot be written to.
    """
    began, report = time.monotonic(), PackReport()
    if jobs is not None and (not isinstance(jobs, int) or jobs < 1):
        raise ConfigError(f"jobs: expected at least 1, got {jobs!r}")
    root = absolute(folder)
    sources, packs = _files_below(root)
    base = os.path.dirname(root) if os.path.isfile(root) else root
    to = base if out is None else absolute(out)
    targets = {target: graph for path in sources for target, graph in _targets(path, base, to)}
    os.makedirs(to, exist_ok=True)
    with locked(to, "another packing run"), _Pool(jobs or _core.get_num_threads()) as pool:
        if out is not None:
            packs = _files_below(to)[1] if os.path.isdir(to) else []
        for place in {os.path.dirname(path) for path in targets}:
            os.makedirs(place, exist_ok=True)
            _remove_unfinished(place)
        checked: dict[str, Exception | None] = {}
        if verify:
            if not packs and os.path.isfile(root):
                packs = [path for path in targets if os.path.exists(path)]
            checked = pool.all(_verified, sorted(packs), "verifying", verbose)
        todo = _todo(targets, checked, report)
        _check_space(to, todo)
        _pack_all(pool, todo, report, verbose)
        if verify:
            made = [job.target for job in todo if os.path.exists(job.target)]
            checked |= pool.all(_verified, made, "verifying", verbose)
            report.verified = sum(error is None for error in checked.values())
            for path, error in checked.items():
                if error is not None:
                    report.fail(path, error)
    report.seconds = time.monotonic() - began
    return report


def _files_below(root: str) -> tuple[list[str], list[str]]:
    """All .npz and all packs, in order."""
    if not os.path.isdir(root):
        if not os.path.exists(root):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), root)
        return ([], [root]) if is_pack(root) else ([root], [])
    found = [os.path.join(place, name) for place, _, names in os.walk(root) for name in names]
    found = sorted(path for path in found if not os.path.basename(path).startswith("."))
    arrays = {p.removesuffix(".npz") for p in found if p.endswith(".npz")}  # an .npz is packed, not its .pb
    sources = [p for p in found if p.endswith(".npz") or (p.endswith(".pb") and _stem(p) not in arrays)]
    return sources, [p for p in found if p.endswith(SUFFIX)]


def _stem(path: str) -> str:
    return os.path.join(os.path.dirname(path), file_stem(path))


def _targets(path: str, base: str, to: str) -> list[tuple[str, tuple[str, int]]]:
    """Packs of the graphs in a file, each with the file and the graph's place there."""
    folder = os.path.normpath(os.path.join(to, os.path.relpath(os.path.dirname(path), base)))
    names = [name for name, _ in graphs_in(path)]
    return [(os.path.join(folder, name + SUFFIX), (path, place)) for place, name in enumerate(names)]


def _remove_unfinished(folder: str) -> None:
    """Remove what killed runs left behind; the lock is held."""
    for name in os.listdir(folder):
        if _UNFINISHED.fullmatch(name):
            os.unlink(os.path.join(folder, name))


def _verified(path: str) -> None:
    pack = Pack(path)
    try:
        pack.check()
    finally:
        pack.release()


def _todo(
    targets: dict[str, tuple[str, int]], checked: dict[str, Exception | None], report: PackReport
) -> list[_Job]:
    """List what is to be packed, the largest first; damaged packs with a source go out of `checked`."""
    if not targets and not checked:
        raise DataError(
            "no .npz files below this folder, and no .pb files; give the one that holds them",
            expected=".npz files",
            found="none",
        )
    todo = []
    for target, (source, place) in targets.items():
        try:
            if checked.get(target) is None and os.path.exists(target):
                try:
                    if made_from(Pack(target).origin, source):
                        report.skipped += 1
                        continue
                except DataError:
                    pass  # damaged or of another version: made again
            origin, need = origin_of(source)
            size = origin[0] if place == 0 else 0  # of kernels of one file it is counted once
            todo.append(_Job(source, place, target, size, need, origin))
            checked.pop(target, None)
        except DataError as error:
            report.fail(source, with_file(error, source))
        except OSError as error:
            report.fail(source, type(error)(error.errno, os.strerror(error.errno or 0), source))
    return sorted(todo, key=lambda job: -job.need)


def _check_space(folder: str, todo: list[_Job]) -> None:
    need, free = sum(job.need for job in todo), shutil.disk_usage(folder).free
    if todo and need + _SPARE > free:
        raise OSError(
            errno.ENOSPC,
            f"packing needs about {need / 1e6:,.0f} MB and {_SPARE / 1e6:.0f} MB to spare, {free / 1e6:,.0f} "
            "MB are free: make room, or pack to another disk with --out",
            folder,
        )


def _pack_one(job: _Job) -> None:
    graph: Any = load_all(job.source)[job.place]
    if graph.kind == "layout":
        job.digits = max(1, graph.node_config_feat.size)
    if job.done[1]:
        raise KeyboardInterrupt
    try:
        write_pack(job.target, graph, job.origin, job.done)
    except DataError as error:
        raise with_file(error, job.source) from None
    now = os.stat(job.source)
    if (now.st_size, now.st_mtime_ns) != job.origin[:2]:
        os.unlink(job.target)
        raise DataError("file: changed while it was packed; run tpugraphs pack again", file=job.source)
    job.done[0] = job.digits


def _pack_all(pool: _Pool, todo: list[_Job], report: PackReport, verbose: bool | None) -> None:
    """Pack them in parallel. What is wrong with one file is noted, a full disk ends the work."""
    full: OSError | None = None
    with Progress(sum(int(job.size / 1e6) for job in todo), "packing", "MB", verbose) as bar:

        def tick() -> None:
            for job in todo:
                now = job.megabytes()
                if now > job.shown:
                    bar.update(now - job.shown)
                    job.shown = now

        def stop() -> None:
            for job in todo:
                job.done[1] = 1

        for job, error in pool.run(_pack_one, todo, tick, stop):
            if error is None:
                report.packed += 1
                report.bytes_in += job.size
                report.bytes_out += os.path.getsize(job.target)
            elif isinstance(error, OSError) and error.errno in _FULL:
                full = full or error
                stop()
            elif not isinstance(error, KeyboardInterrupt):
                report.fail(job.source, error)  # type: ignore[arg-type]
    if full is not None:
        raise OSError(
            full.errno,
            f"{full.strerror} after {report.packed} files: make room and run the same command, which resumes",
            full.filename,
        )


class _Pool:
    """Threads that call functions of the core, which work without the GIL; Ctrl-C is for the main thread."""

    def __init__(self, jobs: int) -> None:
        self._executor = ThreadPoolExecutor(jobs, "pack")

    def __enter__(self) -> _Pool:
        return self

    def __exit__(self, *error: object) -> None:
        self._executor.shutdown(cancel_futures=True)

    def run(
        self,
        work: Callable[[Any], None],
        items: Iterable[Any],
        tick: Callable[[], None] = lambda: None,
        stop: Callable[[], None] = lambda: None,
    ) -> Iterable[tuple[Any, BaseException | None]]:
        """Items and their errors, as they are done; `tick` now and then, `stop` when interrupted."""
        waiting: dict[Future[None], Any] = {self._executor.submit(work, item): item for item in items}
        try:
            while waiting:
                done, _ = wait(waiting, timeout=0.1, return_when=FIRST_COMPLETED)
                tick()
                for future in done:
                    yield waiting.pop(future), future.exception()
        except BaseException:
            stop()
            for future in waiting:
                future.cancel()
            raise

    def all(
        self, work: Callable[[str], None], paths: list[str], what: str, verbose: bool | None
    ) -> dict[str, Exception | None]:
        """Say what went wrong with each path, None where nothing did."""
        result: dict[str, Exception | None] = {}
        with Progress(len(paths), what, "file", verbose) as bar:
            for path, error in self.run(work, paths):
                if error is not None and not isinstance(error, Exception):
                    raise error
                result[path] = error
                bar.update(1)
        return result
