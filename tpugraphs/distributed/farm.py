"""A farm: jobs that an executor runs elsewhere, on devices that are held by one measurement at a time."""

from __future__ import annotations

import fcntl
import functools
import hashlib
import multiprocessing
import os
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any, Protocol

from tpugraphs.errors import ConfigError, Error
from tpugraphs.system.arguments import check_type
from tpugraphs.system.extras import optional

_LONGEST = 300  # characters of a reason


class ExecutorLike(Protocol):
    """What the library needs of an executor: those of ``concurrent.futures``, mpi4py, Dask and submitit."""

    def submit(self, function: Callable[..., Any], /, *arguments: Any) -> Future[Any] | Any:
        """Start a job.

        Parameters
        ----------
        function : callable
            What to call elsewhere.
        *arguments : object
            Its arguments.

        Returns
        -------
        Future
            Or something else with ``done()``, ``result()`` and ``cancel()``.
        """
        ...


@contextmanager
def open_executor(spec: str) -> Iterator[ExecutorLike]:
    """Open an executor by name, and end its workers with the block.

    Parameters
    ----------
    spec : str
        A number of processes on this machine; ``"mpi"``: the other ranks of ``mpirun -n N python -m
        mpi4py.futures -m tpugraphs ...``; ``"dask:ADDRESS"``: the workers of a scheduler of Dask; ``"dask"``:
        a cluster of Dask on this machine.

    Yields
    ------
    Executor
        It takes jobs by ``submit``.

    Raises
    ------
    ConfigError
        Another name; mpi4py or Dask is not installed.

    Examples
    --------
    ::

        with tg.distributed.open_executor("dask:tcp://10.0.0.1:8786") as executor:
            tg.layertime.measure("dense", path="dense.csv", executor=executor)
    """
    name, _, address = spec.partition(":")
    if spec.isascii() and spec.isdigit() and 1 <= int(spec[:9]) <= 1024:
        # Not forks: threads of JAX and PyTorch would be missing there.
        executor: Any = ProcessPoolExecutor(int(spec), multiprocessing.get_context("spawn"), _end_with_parent)
        stops: list[Callable[[], Any]] = []
    elif spec == "mpi":
        futures = optional("mpi4py.futures", "the executor mpi needs mpi4py: pip install mpi4py mpich")
        executor, stops = futures.MPIPoolExecutor(), []
    elif name == "dask" and bool(address) == (":" in spec):
        dask = optional("distributed", "the executor dask needs Dask: pip install tpugraphs[dask]")
        client = dask.Client(address or None, set_as_default=False)
        executor, stops = client.get_executor(), [client.close]
    else:
        raise ConfigError(
            f"executor: expected a number of processes, mpi, dask or dask:ADDRESS, got {spec!r:.80}"
        )
    try:
        yield executor
    except BaseException:
        processes = list((getattr(executor, "_processes", None) or {}).values())
        executor.shutdown(wait=False, cancel_futures=True)
        for process in processes:
            process.terminate()  # a job may take minutes
        raise
    else:
        executor.shutdown()
    finally:
        for stop in stops:
            stop()


def _end_with_parent() -> None:
    """End this worker when the process that started it has ended; one that is killed cannot say so."""

    def watch() -> None:
        parent = multiprocessing.parent_process()
        if parent is not None:
            parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def check_executor(executor: Any) -> None:
    """Raise ConfigError for what takes no jobs; None is fine."""
    if executor is not None and not hasattr(executor, "submit"):
        raise ConfigError(f"executor: expected an object with submit(), got {type(executor).__name__}")


def farmed(
    executor: ExecutorLike | None, work: Callable[..., Any], jobs: Sequence[tuple[Any, ...]], remedy: str = ""
) -> Iterator[tuple[int, Any]]:
    """Call a function for many arguments, elsewhere by an executor, or here.

    Parameters
    ----------
    executor : Executor, optional
        None: the calls are made here, in order.
    work : callable
        The executor must be able to send it: a function of a module.
    jobs : sequence of tuple
        Arguments of each call.
    remedy : str
        What to do about a worker that has ended.

    Yields
    ------
    (int, object)
        Number of a job and what the call returned, as the jobs end. When the caller stops, or a job fails,
        those that have not begun are cancelled.

    Raises
    ------
    Error
        A worker has ended, or the executor cannot send the function or its answer. What `work` raises is
        raised here.
    """
    if executor is None:
        yield from ((number, work(*job)) for number, job in enumerate(jobs))
        return
    waiting: dict[Any, int] = {}
    try:
        for number, arguments in enumerate(jobs):  # a worker may end meanwhile
            waiting[_elsewhere(functools.partial(executor.submit, work, *arguments), remedy)] = number
        while waiting:
            for job in [job for job in waiting if job.done()] or [next(iter(waiting))]:
                yield waiting.pop(job), _elsewhere(job.result, remedy)
    except (Exception, KeyboardInterrupt):
        for job in [job for job in waiting if job.done()]:
            with suppress(Exception):
                yield waiting.pop(job), job.result()
        raise
    finally:
        for job in waiting:
            job.cancel()


def _elsewhere(call: Callable[[], Any], remedy: str) -> Any:
    """Submit a job or wait for its result; raise Error with the remedy if its worker has ended."""
    try:
        return call()
    except Error:
        raise
    except BrokenExecutor as error:
        raise Error(f"executor: a worker ended: {one_line(str(error))}{remedy}") from error
    except Exception as error:  # of the executor, which could not pass on the function or its answer
        text = one_line(f"{type(error).__name__}: {error}")
        todo = "; workers call functions of modules that they can import" if "pickle" in text else ""
        raise Error(f"executor: {text}{todo}") from error


def one_line(text: str) -> str:
    """Return a reason as a short line."""
    return " ".join(text.split())[:_LONGEST]


def check_kind(found: Mapping[str, Any], expected: Mapping[str, Any], whose: str, todo: str) -> None:
    """Raise ConfigError if machines differ in what both descriptions have; names the first difference.

    Their operating systems may differ: kernels of a cluster are seldom all the same.
    """
    for name in expected:
        if name not in ("platform", "system", "python") and found.get(name, expected[name]) != expected[name]:
            raise ConfigError(
                f"{whose}: expected a machine of the same kind, {name} {expected[name]!s:.80}, found "
                f"{found[name]!s:.80}; {todo}"
            )


# ---- one measurement at a time


def device_name(platform: str) -> str:
    """Return the name for `on_device` of the processor, ``"cpu"``, or of the first GPU that is visible."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "0").partition(",")[0]
    return platform if platform == "cpu" else platform + visible


@contextmanager
def on_device(device: str, alone: bool = True) -> Iterator[None]:
    """Lock a device, so that one process of this machine measures on it at a time.

    Parameters
    ----------
    device : str
        Its name, such as ``"gpu0"``. The locks are files in the folder for temporary files.
    alone : bool
        False: together with others that say so and do not measure, such as compilers.

    Yields
    ------
    None
        Once no other process holds the lock. Processes get it in the order in which they asked.

    Examples
    --------
    ::

        def measure(config):
            kernel = build(config)
            with tg.distributed.on_device("gpu0"):
                return run(kernel)
    """
    check_type("device", device, str)
    name = hashlib.sha256(device.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    path = f"{tempfile.gettempdir()}/tpugraphs-{os.getuid()}-{name}"
    with _locked(f"{path}.door", fcntl.LOCK_EX) as leave:  # or those who share it could keep others out
        with _locked(f"{path}.lock", fcntl.LOCK_EX if alone else fcntl.LOCK_SH):
            leave()
            yield


@contextmanager
def _locked(path: str, how: int) -> Iterator[Callable[[], None]]:
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(handle, how)
        yield lambda: fcntl.flock(handle, fcntl.LOCK_UN)
    finally:
        fcntl.flock(handle, fcntl.LOCK_UN)  # also for children made by fork meanwhile
        os.close(handle)


class OnDevice:
    """A measure function that holds a device while it runs, see `on_device`; waiting counts for no timeout.

    Parameters
    ----------
    measure : callable
        The function.
    device : str
        Name of the device.
    """

    def __init__(self, measure: Callable[..., Any], device: str) -> None:
        self.measure, self.device = measure, check_type("device", device, str)

    def __call__(self, config: dict[str, Any]) -> Any:
        """Measure while nobody else does.

        Parameters
        ----------
        config : dict
            The configuration.

        Returns
        -------
        object
            What the function returns.
        """
        with on_device(self.device):
            return self.measure(config)
