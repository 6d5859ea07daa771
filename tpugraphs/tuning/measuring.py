"""One measurement: the user's function is called, here or in a child that can be killed, and judged.

What is measured in a child is sent back as JSON. The child is a fork of a process that was forked when the
tuning began, so the function need not be pickled, and no thread of this process is in its way.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from multiprocessing.connection import Connection, Pipe, wait
from typing import Any, NamedTuple, NoReturn, Self

from tpugraphs.distributed.farm import ExecutorLike, OnDevice, farmed, on_device, one_line
from tpugraphs.errors import Error
from tpugraphs.records import STATUSES, environment
from tpugraphs.system.arguments import check_choice, is_number

Config = dict[str, Any]
Measure = Callable[..., Any]

_MOST = 1e300  # a runtime
_REMEDY = "; give timeout=, which measures in children of the workers, so that a crash ends one measurement"


class Failed(Error):
    """What a measure function raises to say how a configuration failed.

    Parameters
    ----------
    status : str
        One of ``compile``, ``runtime``, ``timeout``, ``correctness`` and ``constraints``.
    reason : str
        For people.

    Examples
    --------
    >>> import tpugraphs as tg
    >>> raise tg.tuning.Failed("correctness", "differs from the reference")
    Traceback (most recent call last):
    tpugraphs.tuning.measuring.Failed: differs from the reference
    """

    def __init__(self, status: str = "runtime", reason: str = "") -> None:
        super().__init__(reason or status)
        self.status, self.reason = check_choice("status", status, STATUSES[1:]), reason or status


class Outcome(NamedTuple):
    """Result of one measurement; a measure function may return one to report the time of compiling, too.

    Parameters
    ----------
    runtimes : tuple of float
        Positive numbers, one per repeat; empty after a failure.
    status : str
        ``"correct"``, or as in `Failed`.
    reason : str
        Why it failed.
    compile : float, optional
        Milliseconds of compiling.
    seconds : float
        How long the whole measurement took; found by itself.
    """

    runtimes: tuple[float, ...] = ()
    status: str = "correct"
    reason: str = ""
    compile: float | None = None
    seconds: float = 0.0


Measured = tuple[Outcome, dict[str, str]]
"""With what the measurement depends on, see `environment`."""


def measured(measure: Measure, config: Mapping[str, Any], **limit: float | None) -> Outcome:
    """Call a measure function in this process. Whatever it raises or returns is an outcome."""
    began = time.perf_counter()
    try:
        found = _judged(measure({**config}, **limit))
    except Failed as error:
        found = Outcome(status=error.status, reason=one_line(error.reason))
    except (Exception, SystemExit) as error:  # whatever it raises: the other configurations are measured
        found = Outcome(status="runtime", reason=one_line(f"{type(error).__name__}: {error}"))
    return found._replace(seconds=time.perf_counter() - began)


def _judged(value: Any) -> Outcome:
    """Return the outcome that a returned value means."""
    given = value if isinstance(value, Outcome) else Outcome(value)
    if given.status != "correct":
        return given
    value = given.runtimes.tolist() if hasattr(given.runtimes, "tolist") else given.runtimes
    values = list(value) if isinstance(value, list | tuple) else [value]
    wrong = [one for one in values if not (is_number(one, 0, _MOST) and one > 0)]
    if wrong or not values:
        found = f"{wrong[0]!r:.80} of type {type(wrong[0]).__name__}" if wrong else "no number"
        reason = f"measure returned {found}; expected a positive number, or a list of them"
        return Outcome(status="runtime", reason=one_line(reason))
    return given._replace(runtimes=tuple(map(float, values)))


# ---- a child that can be killed


class Child:
    """A process that measures, one configuration after the other; use it in a ``with`` block.

    Parameters
    ----------
    measure : callable
        The function; it runs in a fork of this process as it is now.
    """

    def __init__(self, measure: Measure) -> None:
        self._process, self._connection = _fork(_serve, measure)

    def __call__(self, config: Mapping[str, Any], timeout: float) -> Outcome:
        """Measure, and end the measuring process with all of its children after `timeout` seconds."""
        self._connection.send_bytes(json.dumps([config, timeout], default=lambda one: one.item()).encode())
        try:
            runtimes, *others = json.loads(self._connection.recv_bytes())
            return Outcome(tuple(runtimes), *others)
        except EOFError:
            text = "the process that starts measurements was killed; call again to go on"
            raise Error(f"measure: {text}") from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        with suppress(OSError):
            self._connection.send_bytes(b"")
        self._connection.close()
        with suppress(ChildProcessError):
            os.waitpid(self._process, 0)


def _fork(run: Callable[[Connection, Measure], NoReturn], measure: Measure) -> tuple[int, Connection]:
    """Run a function in a fork, in a session of its own: Ctrl-C reaches this process only.

    Return its process ID and the parent's end of their connection; the function gets the other end.
    """
    _flush()  # or both would write what is waiting
    mine, theirs = Pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of threads, such as idle ones of NumPy and JAX
        process = os.fork()
    if process:
        theirs.close()
        return process, mine
    try:
        os.setsid()
        mine.close()
        run(theirs, measure)
    finally:
        os._exit(1)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError, ValueError, OSError):
            stream.flush()


def _serve(parent: Connection, measure: Measure) -> NoReturn:
    """Pass requests to a worker, which is killed when it takes too long; one that has ended is replaced."""
    worker, connection = 0, parent
    while (request := _next(parent)) is not None:
        if not worker:
            worker, connection = _fork(_work, measure)
        config, timeout = request
        with suppress(OSError):
            connection.send_bytes(json.dumps(config).encode())
        ready = wait([connection, parent], timeout)
        if parent in ready:
            break  # it has ended, or wants no more
        try:
            answer = connection.recv_bytes() if ready else b""
            why: tuple[str, str] = ("timeout", f"took more than {timeout:g} s")
        except (EOFError, OSError):
            answer, why = b"", ("runtime", "the process that measured ended")
        if not answer:
            how = _kill(worker)
            worker = 0
            answer = json.dumps(Outcome((), why[0], why[1] + how * (why[0] == "runtime"))).encode()
        parent.send_bytes(answer)
    if worker:
        _kill(worker)
    os._exit(0)


def _next(parent: Connection) -> Any:
    with suppress(EOFError, OSError):
        message = parent.recv_bytes()
        return json.loads(message) if message else None
    return None


def _kill(worker: int) -> str:
    """End a process and its children, and return how it had ended by itself."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(worker, signal.SIGKILL)
    os.kill(worker, signal.SIGKILL)  # one that has no group yet
    code = os.waitstatus_to_exitcode(os.waitpid(worker, 0)[1])
    return f" with exit code {code}" if code >= 0 else f" with signal {signal.Signals(-code).name}"


def _work(connection: Connection, measure: Measure) -> NoReturn:
    while (config := _next(connection)) is not None:
        config = {name: tuple(value) if isinstance(value, list) else value for name, value in config.items()}
        outcome = measured(measure, config)
        _flush()
        connection.send_bytes(json.dumps(outcome).encode())
    os._exit(0)


# ---- many measurements


class Runner:
    """Measures many configurations, in turn or by an executor; use it in a ``with`` block.

    Parameters
    ----------
    measure : callable
        If its attribute `keeps_time` is true, it takes ``timeout=`` and ends by itself.
    limited : bool
        There will be timeouts, so a child measures.
    executor : Executor, optional
        Anything shaped like those of ``concurrent.futures``.
    """

    def __init__(self, measure: Measure, limited: bool, executor: ExecutorLike | None = None) -> None:
        self._given, self._executor, self._device = measure, executor, ""
        if isinstance(measure, OnDevice):
            self._device, measure = measure.device, measure.measure
        self._measure, self._keeps_time = measure, getattr(measure, "keeps_time", False)
        here = executor is not None or self._keeps_time or not limited
        self._child = None if here else Child(measure)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._child is not None:
            self._child.__exit__(*error)

    def one(self, config: Mapping[str, Any], timeout: float | None) -> Outcome:
        """Measure one configuration here."""
        with on_device(self._device) if self._device else nullcontext():
            if self._child is not None and timeout is not None:
                return self._child(config, timeout)
            limit = {"timeout": timeout} if self._keeps_time else {}
            return measured(self._measure, config, **limit)

    def run(
        self, configs: Sequence[Config], timeout: Callable[[], float | None], more: Callable[[], bool]
    ) -> Iterator[tuple[int, Measured]]:
        """Yield number and outcome of configs as they end. Without an executor `more` may stop them."""
        if self._executor is None:
            here = environment()
            for number, config in enumerate(configs):
                if not more():
                    return
                yield number, (self.one(config, timeout()), here)
            return
        jobs = [(self._given, config, timeout()) for config in configs]
        yield from farmed(self._executor, _job, jobs, _REMEDY)


def _job(measure: Measure, config: Config, timeout: float | None) -> Measured:
    """Measure one configuration in a worker of an executor."""
    with Runner(measure, timeout is not None) as runner:
        return runner.one(config, timeout), environment()
