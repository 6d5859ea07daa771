"""Ranks: processes that work together, through MPI or through sockets of one machine."""

from __future__ import annotations

import ctypes
import functools
import hashlib
import json
import math
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
from numpy.typing import NDArray

from tpugraphs import __version__, _core
from tpugraphs.errors import ConfigError, Error
from tpugraphs.system.arguments import is_whole
from tpugraphs.system.extras import optional

_LOCAL = "TPUGRAPHS_RANKS"  # rank, size and the sockets of a process that `local` started
_LAUNCHERS = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMIX_RANK")  # environment of processes under mpirun
_PDEATHSIG = 1  # of prctl: the signal when the parent ends
_LENGTH = struct.Struct("<q")
_LONGEST = 1 << 34  # bytes of a message
_CHUNK = 1 << 20
_ISA, _MIXED = "instruction set", "TPUGRAPHS_MIXED_ISA"
_REMEDY = f"; TPUGRAPHS_ISA sets one that all have, {_MIXED}=1 allows several, with other bits"


Message = bytes | bytearray
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

    def allgather(self, message: Message) -> list[Message]:
        """Gather the messages of all ranks. A collective call: every rank must make it.

        Parameters
        ----------
        message : bytes or bytearray
            Of this rank.

        Returns
        -------
        list of bytes or bytearray
            Of all ranks, in order.
        """
        ...


class SingleCommunicator(CommunicatorLike):
    """One process alone: training by its bits equals training on any number of ranks."""

    def __init__(self) -> None:
        self.rank, self.size = 0, 1

    def allgather(self, message: Message) -> list[Message]:  # noqa: D102  # see CommunicatorLike
        return [message]


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

    def allgather(self, message: Message) -> list[Message]:  # noqa: D102
        lengths = np.empty(self.size, np.int64)
        self._comm.Allgather(np.array([len(message)], np.int64), lengths)
        ends = np.cumsum(lengths)
        received = np.empty(int(ends[-1]), np.uint8)
        parts = [received, (lengths, ends - lengths), self._mpi.BYTE]
        self._comm.Allgatherv([np.frombuffer(message, np.uint8), self._mpi.BYTE], parts)
        return [bytearray(received[end - n : end]) for n, end in zip(lengths, ends, strict=True)]


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

    def allgather(self, message: Message) -> list[Message]:
        """Gather the messages of all ranks. A collective call: every rank must make it.

        Parameters
        ----------
        message : bytes or bytearray
            Of this rank.

        Returns
        -------
        list of bytes or bytearray
            Of all ranks, in order.

        Raises
        ------
        Error
            Another rank has ended; it is named.
        """
        length = _LENGTH.pack(len(message))
        sent = {i: [memoryview(length), memoryview(message)] for i in self._sockets}
        found = {i: _Inbox() for i in sent}
        with selectors.DefaultSelector() as waiting:
            for i in sent:
                waiting.register(self._sockets[i], selectors.EVENT_READ | selectors.EVENT_WRITE, i)
            while waiting.get_map():
                for key, events in waiting.select():
                    self._move(key.data, sent[key.data], found[key.data], events)
                    left = (selectors.EVENT_READ if found[key.data].rest else 0) | (
                        selectors.EVENT_WRITE if sent[key.data] else 0
                    )
                    if not left:
                        waiting.unregister(key.fileobj)
                    elif left != key.events:
                        waiting.modify(key.fileobj, left, key.data)
        return [message if i == self.rank else found[i].message for i in range(self.size)]

    def _move(self, other: int, sent: list[memoryview], found: _Inbox, events: int) -> None:
        """Send and receive what can be moved without waiting, and not a byte of the next message."""
        one = self._sockets[other]
        try:
            if events & selectors.EVENT_WRITE and sent:
                sent[0] = sent[0][one.send(sent[0][:_CHUNK]) :]
                while sent and not sent[0]:
                    sent.pop(0)
            if events & selectors.EVENT_READ and found.rest:
                got = one.recv_into(found.rest[:_CHUNK])
                if not got:
                    raise ConnectionResetError
                found.move(got)
        except (BlockingIOError, InterruptedError):
            pass
        except OSError:
            raise Error(
                f"rank {other} has ended: this fit cannot go on without it; start it again with the same "
                "checkpoint_dir, on any number of ranks"
            ) from None


class _Inbox:
    """A message that arrives in pieces: its length, then itself."""

    def __init__(self) -> None:
        self._length, self.message = bytearray(_LENGTH.size), bytearray()
        self.rest, self._begun = memoryview(self._length), False

    def move(self, got: int) -> None:
        """Count bytes that were written to `rest`."""
        self.rest = self.rest[got:]
        if not self.rest and not self._begun:
            (length,) = _LENGTH.unpack(self._length)
            if not 0 <= length <= _LONGEST:
                raise Error(f"ranks: expected messages of at most {_LONGEST:,} bytes, got one of {length:,}")
            self.message, self._begun = bytearray(length), True
            self.rest = memoryview(self.message)


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


# ---- what ranks agree on


class Ranks:
    """The ranks of one piece of work: they share it, add up what they found, and end together.

    Parameters
    ----------
    comm : CommunicatorLike
        Between them.
    """

    def __init__(self, comm: CommunicatorLike) -> None:
        self._comm = comm
        self.rank, self.size = comm.rank, comm.size

    def share(self, count: int, rank: int | None = None) -> range:
        """Return which of `count` units a rank works on: neighbours."""
        rank = self.rank if rank is None else rank
        return range(count * rank // self.size, count * (rank + 1) // self.size)

    def exchange(self, work: Callable[[], Message]) -> list[Message]:
        """Return what the work of every rank returned; what one raises ends it on all.

        Raises
        ------
        KeyboardInterrupt
            Ctrl-C on any rank.
        Error
            The work of another rank failed; its number and message.
        """
        sent: Message = b""
        raised, why = None, b""
        try:
            sent = work()
        except KeyboardInterrupt as error:
            raised, why = error, b"^"
        except Exception as error:
            raised, why = error, b"!" + f"{type(error).__name__}: {error}".encode(errors="replace")  # type: ignore[assignment]
        found = self._comm.allgather(why)
        if raised is not None:
            raise raised
        for rank, message in enumerate(found):
            if message[:1] == b"!":
                raise Error(f"rank {rank}: {message[1:].decode(errors='replace')}")
        if any(found):
            raise KeyboardInterrupt
        return self._comm.allgather(sent)

    def each(
        self, count: int, work: Callable[[int], Message], facts: Facts | None = None
    ) -> Iterator[Message]:
        """Yield what the work on each of `count` items returned, in order; the ranks take turns with them.

        Ranks whose `facts` differ are refused first, see `agree_on_bits`.
        """
        if facts is not None:
            self.agree_on_bits(lambda: {"number of items": count, **facts()})
        for start in range(0, count, self.size):
            own = start + self.rank
            job = functools.partial(work, own) if own < count else bytes
            yield from self.exchange(job)[: count - start]

    def agree(self, facts: Facts) -> None:
        """Raise unless all ranks have the same facts. Only if they differ more than a digest of them travels.

        Raises
        ------
        ConfigError
            The first that differs, and on which rank.
        """
        text = b""

        def hashed() -> bytes:
            nonlocal text
            text = json.dumps(facts(), default=str).encode()
            return hashlib.blake2b(text).digest()

        if len(set(map(bytes, self.exchange(hashed)))) == 1:
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
        if mixed and len(found := {one.decode() for one in self.exchange(isa.encode)}) > 1:
            sets = " and ".join(sorted(found))
            text = f"ranks use the instruction sets {sets}: last bits differ from those of ranks with one"
            warnings.warn(text, stacklevel=2)


def _first_difference(one: Any, other: Any) -> tuple[Any, Any]:
    """Return where two lists of equal length differ first; anything else whole."""
    if not (isinstance(one, list) and isinstance(other, list) and len(one) == len(other)):
        return one, other
    return next(pair for pair in zip(one, other, strict=True) if pair[0] != pair[1])


def in_turns(
    comm: CommunicatorLike | None, count: int, work: Callable[[int], Any], facts: Facts
) -> Iterator[Any]:
    """Divide `count` items among ranks, and yield the result of `work` for each, in order.

    Parameters
    ----------
    comm : CommunicatorLike, optional
        The ranks; None: this process works alone.
    count : int
        Number of items.
    work : callable
        Takes the number of an item, from 0 on, and returns a value that JSON can hold.
    facts : callable
        Returns what must be equal on all ranks, by name.

    Yields
    ------
    object
        The result for the next item, the same on every rank.
    """
    if comm is None:
        yield from map(work, range(count))
    else:
        for message in Ranks(comm).each(count, lambda i: json.dumps(work(i)).encode(), facts):
            yield json.loads(message)


Vector = NDArray[np.float32]
Vectors = dict[tuple[int, int], Vector]  # of subtrees: level and place


def balanced(work: Sequence[float]) -> list[int]:
    """Order the units of a `TreeSum` so that the two children of a vector take about as much work.

    Ranks, which get neighbours, then end at about the same time. The order does not depend on their number.
    """
    if len(work) < 2:
        return [*range(len(work))]
    room = 1 << (len(work) - 1).bit_length() - 1  # leaves below the left child
    sides: tuple[list[int], list[int]] = ([], [])
    for i in sorted(range(len(work)), key=lambda i: (-work[i], i)):
        left, right = (sum(work[j] for j in side) for side in sides)
        full = len(sides[0]) == room, len(sides[1]) == len(work) - room
        sides[full[0] or (right < left and not full[1])].append(i)
    return [side[j] for side in sides for j in balanced([work[i] for i in side])]


class TreeSum:
    """Vectors of units added in a fixed order: the same bits, however units are shared out.

    Units are the leaves of a binary tree. A vector is the sum of those of its two children, the left one
    first. A rank adds up what lies below it alone, and sends the roots of its subtrees.

    Parameters
    ----------
    count : int
        Number of units.
    """

    def __init__(self, count: int) -> None:
        self.count, self.levels = count, max(1, math.ceil(math.log2(max(1, count))) + 1)
        self._free = list[Vector]()

    def put(self, vectors: Vectors, unit: int, vector: Vector) -> None:
        """Add a unit to subtrees below it that are whole. The vector is copied, to one that is free."""
        level, place, added = 0, unit, vector
        while place % 2 and (level, place - 1) in vectors:
            left = vectors.pop((level, place - 1))
            left += added
            if added is not vector:
                self._free.append(added)
            level, place, added = level + 1, place // 2, left
        if added is vector:
            added = self._free.pop() if self._free else np.empty_like(vector)
            added[:] = vector
        vectors[level, place] = added

    def free(self, vectors: Vectors) -> None:
        """Let the memory of vectors be used again."""
        self._free += vectors.values()
        vectors.clear()

    def roots(self, units: range) -> list[tuple[int, int]]:
        """Return the largest subtrees of neighbouring units, as (level, place)."""
        found, at = list[tuple[int, int]](), units.start
        while at < units.stop:
            level = 0
            while (
                level + 1 < self.levels
                and at % (2 << level) == 0
                and min(at + (2 << level), self.count) <= units.stop
            ):
                level += 1
            found.append((level, at >> level))
            at = min((at >> level) + 1 << level, self.count)
        return found

    def add(self, vectors: Vectors, level: int, place: int) -> Vector:
        """Return the vector of a subtree, out of those of subtrees below it; their memory is used."""
        if (level, place) in vectors:
            return vectors[level, place]
        left = self.add(vectors, level - 1, 2 * place)
        if (2 * place + 1) << (level - 1) < self.count:
            left += self.add(vectors, level - 1, 2 * place + 1)
        return left
