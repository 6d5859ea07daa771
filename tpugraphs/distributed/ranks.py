"""Ranks: processes that work together, through MPI or through sockets of one machine."""

from __future__ import annotations

import ctypes
import functools
import hashlib
import itertools
import json
import os
import selectors
import signal
import socket
import struct
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from tpugraphs import __version__, _core
from tpugraphs.errors import ConfigError, Error
from tpugraphs.system.arguments import is_whole
from tpugraphs.system.extras import optional

_LOCAL = "TPUGRAPHS_RANKS"  # rank, size and the sockets of a process that `local` started
_LAUNCHERS = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMIX_RANK")  # environment of processes under mpirun
_PDEATHSIG = 1  # of prctl: the signal when the parent ends
_HEAD = struct.Struct("<4sBQ")  # of a message that `exchange` passes on: mark, kind and length
_MARK, _DONE, _STOPPED, _FAILED = b"tgrk", 0, 1, 2
_LONGEST = 1 << 34  # bytes of a message
_CHUNK = 1 << 20
_CONTENT = "\0content"  # stands for an array or bytes in a message
_ISA, _MIXED = "instruction set", "TPUGRAPHS_MIXED_ISA"
_REMEDY = f"; TPUGRAPHS_ISA sets one that all have, {_MIXED}=1 allows several, with other bits"


Message = bytes | bytearray | memoryview
Facts = Callable[[], Mapping[str, Any]]


class CommunicatorLike(Protocol):
    """What the library needs of ranks: bytes of all to all, in order of rank.

    Attributes
    ----------
    rank, size : int
        Number of this process, from 0 on, and of all.
    """

    rank: int
    size: int

    def allgather(self, mine: Message, sizes: Sequence[int], to: Message) -> None:
        """Gather the bytes of all ranks. A collective call: every rank must make it, with the same sizes.

        Parameters
        ----------
        mine : buffer
            Bytes of this rank.
        sizes : sequence of int
            Number of bytes of each rank.
        to : buffer
            Where the bytes of all ranks are written, in order.

        Raises
        ------
        Error
            Another rank has ended.
        """
        ...


class SingleCommunicator(CommunicatorLike):
    """One process alone: training by its bits equals training on any number of ranks."""

    def __init__(self) -> None:
        self.rank, self.size = 0, 1

    def allgather(self, mine: Message, sizes: Sequence[int], to: Message) -> None:  # noqa: D102  # see above
        memoryview(to)[:] = mine


class Communicator(CommunicatorLike):
    """Ranks of MPI.

    Parameters
    ----------
    comm : mpi4py.MPI.Comm, optional
        By default all processes that ``mpirun`` started.

    Raises
    ------
    ConfigError
        mpi4py is not installed: ``pip install mpi4py mpich`` brings it and an MPI for trying.

    Notes
    -----
    Only buffers travel, never pickled objects.
    """

    def __init__(self, comm: Any = None) -> None:
        self._mpi = optional("mpi4py.MPI", "ranks of MPI need mpi4py: pip install mpi4py mpich")
        self._comm = self._mpi.COMM_WORLD if comm is None else comm
        self.rank, self.size = int(self._comm.Get_rank()), int(self._comm.Get_size())

    def allgather(self, mine: Message, sizes: Sequence[int], to: Message) -> None:  # noqa: D102
        places = np.cumsum([0, *sizes[:-1]])
        self._comm.Allgatherv([mine, self._mpi.BYTE], [to, (sizes, places), self._mpi.BYTE])


class LocalCommunicator(CommunicatorLike):
    """Ranks of one machine, through sockets, without MPI: what ``tpugraphs ranks`` starts.

    Parameters
    ----------
    rank : int
        Number of this process.
    sockets : list of socket or None
        One to each rank, None for this one.
    """

    def __init__(self, rank: int, sockets: Sequence[socket.socket | None]) -> None:
        self.rank, self.size = rank, len(sockets)
        self._sockets = {i: one for i, one in enumerate(sockets) if one is not None}
        for one in self._sockets.values():
            one.setblocking(False)

    @classmethod
    def inherited(cls) -> LocalCommunicator:
        """Return the communicator of a process that `tpugraphs ranks` started.

        Raises
        ------
        ConfigError
            Nothing started it.
        """
        try:
            rank, *handles = map(int, os.environ[_LOCAL].split(","))
            if not 0 <= rank < len(handles):
                raise ValueError(rank)
            found = [None if i == rank else socket.socket(fileno=one) for i, one in enumerate(handles)]
        except (KeyError, ValueError, OSError) as error:
            raise ConfigError(
                "communicator: this process was not started as a rank; start it by "
                "`tpugraphs ranks N script.py`, or by mpirun"
            ) from error
        if sys.platform == "linux":  # a launcher that is killed takes its ranks with it
            ctypes.CDLL(None).prctl(_PDEATHSIG, signal.SIGTERM)
        return cls(rank, found)

    def allgather(self, mine: Message, sizes: Sequence[int], to: Message) -> None:  # noqa: D102
        ends = itertools.accumulate(sizes)
        found = [memoryview(to)[end - size : end] for size, end in zip(sizes, ends, strict=True)]
        found[self.rank][:] = mine
        sent = {i: memoryview(mine) for i in self._sockets}
        with selectors.DefaultSelector() as waiting:
            for i, one in self._sockets.items():
                if events := _events(found[i], sent[i]):
                    waiting.register(one, events, i)
            while waiting.get_map():
                for key, events in waiting.select():
                    i = key.data
                    self._move(i, sent, found, events)
                    left = _events(found[i], sent[i])
                    if not left:
                        waiting.unregister(key.fileobj)
                    elif left != key.events:
                        waiting.modify(key.fileobj, left, i)

    def _move(self, other: int, sent: dict[int, memoryview], found: list[memoryview], events: int) -> None:
        """Send and receive what can be moved without waiting, and not a byte of the next message."""
        one = self._sockets[other]
        try:
            if events & selectors.EVENT_WRITE:
                sent[other] = sent[other][one.send(sent[other][:_CHUNK]) :]
            if events & selectors.EVENT_READ:
                got = one.recv_into(found[other][:_CHUNK])
                if not got:
                    raise ConnectionResetError
                found[other] = found[other][got:]
        except (BlockingIOError, InterruptedError):
            pass
        except OSError:
            raise Error(
                f"rank {other} has ended: this fit cannot go on without it; start it again with the same "
                "checkpoint_dir, on any number of ranks"
            ) from None


def _events(to_receive: memoryview, to_send: memoryview) -> int:
    """Return what a socket has to wait for."""
    return (selectors.EVENT_READ if to_receive else 0) | (selectors.EVENT_WRITE if to_send else 0)


def local(size: int) -> list[tuple[dict[str, str], list[int]]]:
    """Return environment and sockets to pass on for each of several processes on this machine.

    Parameters
    ----------
    size : int
        Number of processes.

    Returns
    -------
    list of (dict, list of int)
        What `subprocess.Popen` takes as a part of ``env`` and as ``pass_fds``. The caller closes the sockets
        when all have started.
    """
    if not is_whole(size, 1, 1024):
        raise ConfigError(f"ranks: expected 1 to 1,024, got {size!r}")
    ends = [[-1] * size for _ in range(size)]
    for i in range(size):
        for j in range(i):
            ends[i][j], ends[j][i] = (one.detach() for one in socket.socketpair())
    return [
        ({_LOCAL: ",".join(map(str, [i, *line]))}, [one for one in line if one >= 0])
        for i, line in enumerate(ends)
    ]


@functools.cache
def communicator() -> CommunicatorLike | None:
    """Return the communicator of this process, by how it was started; None if it works alone.

    Returns
    -------
    LocalCommunicator, Communicator or None
        Of ``tpugraphs ranks``, of ``mpirun``.
    """
    if _LOCAL in os.environ:
        return LocalCommunicator.inherited()
    if any(name in os.environ for name in _LAUNCHERS):
        return Communicator()
    return None


# ---- what ranks pass on


def _packed(value: Any) -> bytes:
    """Return a value as JSON in one line, and then the contents of the arrays and bytes in it."""
    contents = list[bytes]()

    def apart(one: Any) -> dict[str, Any]:
        if not isinstance(one, (bytes, np.ndarray)):
            raise TypeError(f"ranks: expected values of JSON, bytes and arrays, got {type(one).__name__}")
        kind = (one.dtype.str, one.shape) if isinstance(one, np.ndarray) else None
        contents.append(one.tobytes() if isinstance(one, np.ndarray) else one)
        return {_CONTENT: [len(contents[-1]), kind]}

    text = json.dumps(value, default=apart).encode()
    return b"\n".join([text, b"".join(contents)])


def _unpacked(message: bytes) -> Any:
    """Return what `_packed` was given."""
    text, _, contents = message.partition(b"\n")
    at = 0

    def whole(entry: dict[str, Any]) -> Any:
        nonlocal at
        if entry.keys() != {_CONTENT}:
            return entry
        size, kind = entry[_CONTENT]
        at += size
        own = contents[at - size : at]
        return own if kind is None else np.frombuffer(own, kind[0]).reshape(kind[1]).copy()

    return json.loads(text, object_hook=whole)


# ---- what ranks agree on


class Ranks:
    """The ranks of one piece of work: they share it, add up what they found, and end together.

    Parameters
    ----------
    comm : CommunicatorLike or None
        Between them; None: this process works alone, and has nobody to agree with.
    """

    def __init__(self, comm: CommunicatorLike | None) -> None:
        self.alone, self.comm = comm is None, SingleCommunicator() if comm is None else comm
        self.rank, self.size = self.comm.rank, self.comm.size

    def share(self, count: int, rank: int | None = None) -> range:
        """Return which of `count` units a rank works on: neighbours."""
        rank = self.rank if rank is None else rank
        return range(count * rank // self.size, count * (rank + 1) // self.size)

    def exchange(self, work: Callable[[], Any]) -> list[Any]:
        """Call `work` on every rank, and return the results of all, in the order of ranks.

        Results are values of JSON, which may contain NumPy arrays and bytes. Tuples arrive as lists. An
        exception on one rank ends the work on all.

        Raises
        ------
        KeyboardInterrupt
            Ctrl-C on any rank.
        Error
            The work of another rank failed; its number and message.
        """
        if self.alone:
            return [work()]
        sent, kind = b"", _DONE
        raised: BaseException | None = None
        try:
            sent = _packed(work())
        except KeyboardInterrupt as error:
            raised, kind = error, _STOPPED
        except Exception as error:
            raised, kind, sent = error, _FAILED, f"{type(error).__name__}: {error}".encode(errors="replace")
        found = self._gather(_HEAD.pack(_MARK, kind, len(sent)), [_HEAD.size] * self.size)
        marks, kinds, lengths = zip(*map(_HEAD.unpack, found), strict=True)
        if set(marks) != {_MARK} or max(lengths) > _LONGEST:
            raise Error(f"ranks: expected messages of at most {_LONGEST:,} bytes, got something else")
        if any(kinds):
            lengths = tuple(n if kind == _FAILED else 0 for n, kind in zip(lengths, kinds, strict=True))
        found = self._gather(sent if lengths[self.rank] else b"", lengths)
        if raised is not None:
            raise raised
        if _FAILED in kinds:
            rank = kinds.index(_FAILED)
            raise Error(f"rank {rank}: {found[rank].decode(errors='replace')}")
        if _STOPPED in kinds:
            raise KeyboardInterrupt
        return list(map(_unpacked, found))

    def _gather(self, mine: bytes, sizes: Sequence[int]) -> list[bytes]:
        to = bytearray(sum(sizes))
        self.comm.allgather(mine, sizes, to)
        ends = itertools.accumulate(sizes)
        return [bytes(memoryview(to)[end - n : end]) for n, end in zip(sizes, ends, strict=True)]

    def each(self, count: int, work: Callable[[int], Any], facts: Facts | None = None) -> Iterator[Any]:
        """Yield what the work on each of `count` items returned, in order; the ranks take turns with them.

        Values are passed on as by `exchange`. Ranks whose `facts` differ are refused first, see
        `agree_on_bits`.
        """
        if facts is not None:
            self.agree_on_bits(lambda: {"number of items": count, **facts()})
        for start in range(0, count, self.size):
            own = start + self.rank
            job = functools.partial(work, own) if own < count else lambda: None
            yield from self.exchange(job)[: count - start]

    def agree(self, facts: Facts) -> None:
        """Raise unless all ranks have the same facts. Only if they differ more than a digest of them travels.

        Raises
        ------
        ConfigError
            The first that differs, and on which rank.
        """
        text = ""

        def hashed() -> str:
            nonlocal text
            text = json.dumps(facts(), default=str)
            return hashlib.blake2b(text.encode()).hexdigest()

        if self.alone or len(set(self.exchange(hashed))) == 1:
            return
        mine = json.loads(text)
        for rank, message in enumerate(self.exchange(lambda: text)):
            theirs = json.loads(message)
            for name in mine:
                if theirs.get(name) != mine[name]:
                    own, other = _first_difference(mine[name], theirs.get(name))
                    found = f"{other!r:.200} on rank {rank}, {own!r:.200} on {self.rank}"
                    remedy = _REMEDY if name == _ISA else ""
                    raise ConfigError(f"communicator: ranks differ in {name}: {found}{remedy}")

    def agree_on_bits(self, facts: Facts) -> None:
        """Raise unless all ranks have the same facts and would compute the same bits.

        Raises
        ------
        ConfigError
            The first fact that differs: also the version of the package, and the instruction set unless
            ``TPUGRAPHS_MIXED_ISA`` is set.

        Warns
        -----
        UserWarning
            Of several instruction sets, if that is set.
        """
        isa, mixed = _core.get_isa(), bool(os.environ.get(_MIXED))
        self.agree(lambda: {"version": __version__, **({} if mixed else {_ISA: isa}), **facts()})
        if mixed and len(found := set(self.exchange(lambda: isa))) > 1:
            sets = " and ".join(sorted(found))
            text = f"ranks use the instruction sets {sets}: last bits differ from those of ranks with one"
            warnings.warn(text, stacklevel=2)


def _first_difference(one: Any, other: Any) -> tuple[Any, Any]:
    """Return where two lists of equal length differ first; anything else whole."""
    if not (isinstance(one, list) and isinstance(other, list) and len(one) == len(other)):
        return one, other
    return next(pair for pair in zip(one, other, strict=True) if pair[0] != pair[1])
