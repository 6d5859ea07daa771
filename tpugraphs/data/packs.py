"""Packs of all files below a folder, several at a time."""

from __future__ import annotations

import errno
import functools
import os
import shutil
import time
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tpugraphs import __version__, _core
from tpugraphs.data import packfile
from tpugraphs.data.arrays import naming, with_file
from tpugraphs.data.collections import files_below, load_all, sources_of
from tpugraphs.data.packfile import SUFFIX, Pack, is_pack, open_pack, write
from tpugraphs.distributed.ranks import CommunicatorLike, Ranks, SingleCommunicator
from tpugraphs.errors import DataError
from tpugraphs.system import Progress, check_whole, counted
from tpugraphs.system.files import absolute, locked, no_memory

__all__ = ["SUFFIX", "Pack", "PackReport", "is_pack", "open_pack", "pack_tree", "write"]

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)  # every later file would fail, too
_SPARE = 16 << 20  # bytes of the disk to leave free


@dataclass
class PackReport:
    """Summary of a run of :func:`pack_tree`.

    Attributes
    ----------
    packed, skipped, verified : int
        Files packed now; files with packs that were up to date; packs that were read back completely.
    failed : list of dict
        ``file``, ``error``, ``field``, ``found`` and ``expected`` of the other files.
    bytes_in, bytes_out : int
        Size of the .npz files packed now, and of their packs.
    seconds : float
        Time it took.
    """

    packed: int = 0
    skipped: int = 0
    verified: int = 0
    failed: list[dict[str, str | None]] = field(default_factory=list)
    bytes_in: int = 0
    bytes_out: int = 0
    seconds: float = 0.0

    def fail(self, file: str, error: BaseException) -> None:
        """Record a file that could not be packed or is damaged.

        Parameters
        ----------
        file : str
            Its path.
        error : BaseException
            What was raised.
        """
        parts = {key: getattr(error, key, None) for key in ("field", "found", "expected")}
        text = str(no_memory(file, error) if isinstance(error, MemoryError) else error)
        self.failed.append({"file": file, "error": text, **parts})

    def plus(self, other: PackReport) -> PackReport:
        """Add what another rank did.

        Parameters
        ----------
        other : PackReport
            Its report.

        Returns
        -------
        PackReport
            Of both.
        """
        return PackReport(**{name: value + getattr(other, name) for name, value in vars(self).items()})

    def _add(self, job: _Job, verified: bool) -> None:
        """Count a pack that is up to date, made now, or only verified."""
        self.verified += verified
        self.skipped += job.fresh and job.source is not None
        if not job.fresh:
            self.packed += 1
            self.bytes_in += job.size
            self.bytes_out += os.path.getsize(job.target)


@dataclass
class _Job:
    """A pack to make, to make again if it is damaged, or only to verify."""

    target: str
    source: str | None = None  # None: the source of the pack is not here
    place: int = 0  # of the graph in the source
    fresh: bool = True  # the pack exists, and is of this source
    size: int = 0  # bytes of the source
    need: int = 0  # bytes of the pack, about
    done: NDArray[np.int64] = field(default_factory=lambda: np.zeros(2, np.int64))  # digits; 1: stop
    digits: int = 1  # all of them, once known

    def run(self, verify: bool) -> None:
        """Make the pack unless it is fresh, and with `verify` undamaged."""
        if self.done[1]:
            raise KeyboardInterrupt
        if self.fresh and verify:
            try:
                _verify(self.target)
            except (DataError, OSError):
                if self.source is None:
                    raise
                self.fresh = False
        if self.source is not None and not self.fresh:
            self._pack(self.source)
            if verify:
                _verify(self.target)
        self.done[0] = self.digits

    def _pack(self, source: str) -> None:
        origin, _ = packfile.origin_of(source)
        graph = load_all(source)[self.place]
        self.digits = max(1, graph.node_config_feat.size)
        try:
            packfile.write_pack(self.target, graph, origin, self.done)
        except DataError as error:
            raise with_file(error, source) from None
        now = os.stat(source)
        if (now.st_size, now.st_mtime_ns) != origin[:2]:
            os.unlink(self.target)
            raise DataError("file: changed while it was packed; run tpugraphs pack again", file=source)


def _verify(path: str) -> None:
    pack = Pack(path)
    try:
        pack.check()
    finally:
        pack.release()


def pack_tree(
    folder: str | os.PathLike[str],
    out: str | os.PathLike[str] | None = None,
    *,
    jobs: int | None = None,
    verify: bool = False,
    communicator: CommunicatorLike | None = None,
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
        Root of the tree of packs; by default next to the .npz files.
    jobs : int, optional
        Files at a time; by default as many as there are threads.
    verify : bool
        Also read all packs back and compare every checksum; a damaged older pack is made again.
    communicator : CommunicatorLike, optional
        Ranks that share the files, on a disk that all see. See :mod:`tpugraphs.distributed`.
    verbose : bool, optional
        Progress bar; by default in a terminal or notebook.

    Returns
    -------
    PackReport
        It lists files that could not be packed; all others are packed.

    Raises
    ------
    DataError
        Nothing to pack.
    ConfigError
        Fewer jobs than one, or another run is packing into the same folder.
    OSError
        Not enough space, or a folder that is not writable.
    """
    began, ranks = time.monotonic(), Ranks(communicator or SingleCommunicator())
    ranks.agree(lambda: {"version": __version__})
    root = absolute(folder)
    os.stat(root)  # raises if it is missing, before any work
    threads = _core.get_num_threads() if jobs is None else check_whole("jobs", jobs, 1)
    base = root if os.path.isdir(root) else os.path.dirname(root)
    to = base if out is None else absolute(out)
    os.makedirs(to, exist_ok=True)
    with ExitStack() as stack:

        def plan() -> Any:
            if ranks.rank > 0:
                return None
            stack.enter_context(locked(to, "another packing run"))  # until all ranks have ended
            return _plan(root, base, to, root if out is None else to, verify)

        failed, todo = ranks.exchange(plan)[0]

        def work() -> dict[str, Any]:
            own = PackReport(failed=failed if ranks.rank == 0 else [])
            _run(threads, [_Job(*one) for one in todo[ranks.rank :: ranks.size]], verify, own, verbose)
            return vars(own)

        parts = [PackReport(**part) for part in ranks.exchange(work)]
    report = functools.reduce(PackReport.plus, parts)
    report.seconds = time.monotonic() - began
    return report


def _plan(root: str, base: str, to: str, packs: str, verify: bool) -> Any:
    """Clean up, and list what is to be done: the files that cannot be opened, and the jobs."""
    report, targets = PackReport(), _targets(_below(root, ("pb", "npz")), base, to)
    for place in {os.path.dirname(path) for path in targets}:
        os.makedirs(place, exist_ok=True)
        for left in Path(place).glob(f".*{SUFFIX}.????????????.tmp"):  # by a killed run; the lock is held
            left.unlink()
    found = _below(packs, ("tgpack",)) if verify else []
    alone = [_Job(path, size=os.path.getsize(path)) for path in found if path not in targets]
    if not targets and not alone:
        text = "no .npz files below this folder, and no .pb files"
        raise DataError.of("folder", "graphs", text, "give the one that holds them", file=root)
    todo = [*_todo(targets, report), *alone]
    _check_space(to, sum(job.need for job in todo))
    jobs = [(job.target, job.source, job.place, job.fresh, job.size, job.need) for job in todo]
    return report.failed, jobs


def _below(path: str, suffixes: tuple[str, ...]) -> list[str]:
    """Return the files of graphs in and below a folder, or this one file if it is of that sort."""
    if os.path.isdir(path):
        return files_below(path, suffixes)
    return [path] if is_pack(path) == ("tgpack" in suffixes) else []


def _targets(sources: list[str], base: str, to: str) -> dict[str, tuple[str, int]]:
    """Return the packs of the graphs in these files, each with the file and the graph's place there."""
    targets = {}
    for path in sources:
        folder = os.path.normpath(os.path.join(to, os.path.relpath(os.path.dirname(path), base)))
        for place, source in enumerate(sources_of(path)):
            targets[os.path.join(folder, source.name + SUFFIX)] = (path, place)
    return targets


def _todo(targets: dict[str, tuple[str, int]], report: PackReport) -> list[_Job]:
    """List the packs of sources that can be opened: those to make first, largest first."""
    todo = []
    for target, (source, place) in targets.items():
        try:
            with naming(source):
                size = 0 if place else os.path.getsize(source)  # a file of several kernels counts once
                fresh = _up_to_date(target, source)
                need = 0 if fresh else packfile.origin_of(source)[1]
                todo.append(_Job(target, source, place, fresh, size, need))
        except (DataError, OSError) as error:
            report.fail(source, error)
    return sorted(todo, key=lambda job: -job.need)


def _up_to_date(target: str, source: str) -> bool:
    try:
        return os.path.exists(target) and packfile.made_from(Pack(target).origin, source)
    except DataError:
        return False  # damaged or of another version: made again


def _check_space(folder: str, need: int) -> None:
    free = shutil.disk_usage(folder).free
    if need and need + _SPARE > free:
        needed = (
            f"about {need / 1e6:,.0f} MB and {_SPARE / 1e6:.0f} MB to spare, {free / 1e6:,.0f} MB are free"
        )
        todo = "make room, or pack to another disk with --out"
        raise OSError(errno.ENOSPC, f"packing needs {needed}: {todo}", folder)


def _run(threads: int, todo: list[_Job], verify: bool, report: PackReport, verbose: bool | None) -> None:
    """Run the jobs in threads, in the core without the GIL. Errors are recorded; a full disk ends the work.

    Ctrl-C is for the main thread, which shows progress and stops the others when it is interrupted.
    """
    full: list[OSError] = []

    def stop() -> None:
        for job in todo:
            job.done[1] = 1

    size, executor = sum(job.size for job in todo), ThreadPoolExecutor(threads, "pack")
    with Progress(size, "packing", "B", verbose) as bar:
        try:
            waiting = {executor.submit(job.run, verify): job for job in todo}
            while waiting:
                done, _ = wait(waiting, timeout=0.1, return_when=FIRST_COMPLETED)
                bar.move(sum(int(job.size * min(1.0, job.done[0] / job.digits)) for job in todo), size)
                for future in done:
                    job, error = waiting.pop(future), future.exception()
                    if error is None:
                        report._add(job, verify)
                    elif isinstance(error, OSError) and error.errno in _FULL:
                        full.append(error)
                        stop()
                    elif not isinstance(error, KeyboardInterrupt):
                        report.fail(job.source or job.target, error)
        except BaseException:
            stop()
            raise
        finally:
            executor.shutdown(cancel_futures=True)
    if full:
        after = f"after {counted(report.packed, 'file')}: make room and run the same command, which resumes"
        raise OSError(full[0].errno, f"{full[0].strerror} {after}", full[0].filename)
