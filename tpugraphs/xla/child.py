"""The parent's side of the child process (:mod:`tpugraphs.xla.worker`): requests, time limits, crashes."""

from __future__ import annotations

import json
import os
import re
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import jax
import numpy as np

from tpugraphs.errors import Error

__all__ = ["Child", "ChildError"]

_FATAL = re.compile(r"F\d{4} |\S+: .*Assertion")  # lines of XLA and LLVM with the reason
_START = 120.0  # seconds that a child always has to import JAX and read arguments


class ChildError(Error):
    """A request failed, perhaps because the child has ended."""


class Child:
    """A child process with a folder of programs; the first request starts it. Use it in a ``with`` block.

    Parameters
    ----------
    arguments : list of (...) array
        Arguments of all programs.
    timeout : float
        Seconds that a request may take.

    Attributes
    ----------
    device : dict of str to str or int
        Its platform, device, cores, threads, versions.
    programs : set of str
        Hashes of the programs compiled in the running process; empty after its start.
    """

    def __init__(self, arguments: list[Any], timeout: float) -> None:
        self.timeout = timeout
        self.device: dict[str, Any] = {}
        self._folder = tempfile.TemporaryDirectory(prefix="tpugraphs-")
        self._process: subprocess.Popen[bytes] | None = None
        self._modules: dict[str, Path] = {}
        self._loaded: set[str] = set()
        self.programs: set[str] = set()
        self._first: tuple[str, dict[str, Any]] | None = None
        self._pending = b""
        plain = [np.asarray(array, order="C") for array in arguments]
        names = json.dumps([array.dtype.name for array in plain]).encode()
        with self._file("arguments.npz").open("wb") as file:
            arrays: dict[str, Any] = {f"arg_{i}": _storable(array) for i, array in enumerate(plain)}
            np.savez(file, dtypes=np.frombuffer(names, np.uint8), **arrays)

    def _file(self, name: str) -> Path:
        return Path(self._folder.name, name)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.kill()
        self._folder.cleanup()

    def kill(self) -> None:
        """End the process, and lose its compiled programs."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None
        self._loaded.clear()
        self.programs.clear()

    def add(self, key: str, make: Callable[[], bytes]) -> None:
        """Store a program under a name unless it exists: `make` writes it as :mod:`jax.export` does."""
        if key not in self._modules:
            path = self._file(f"module_{len(self._modules)}.bin")
            path.write_bytes(make())
            self._modules[key] = path

    def compile(self, key: str, options: dict[str, Any]) -> dict[str, Any]:
        """Compile, run and check a candidate: ``hash``, ``seconds`` and ``deviation`` from the first one.

        A new process compiles the first one before any other, to have outputs to compare with.
        """
        self._first = self._first or (key, options)
        if not self.programs and (key, options) != self._first:
            self._compile(*self._first)
        return self._compile(key, options)

    def _compile(self, key: str, options: dict[str, Any]) -> dict[str, Any]:
        self._load(key)
        answer = self.ask("compile", key=key, options=options)
        self.programs.add(answer["hash"])
        return answer

    def dump(self, key: str) -> tuple[Path, Path]:
        """Write the program before layout assignment, and the optimised one; return both files."""
        self._load(key)
        folder = tempfile.mkdtemp(dir=self._folder.name)
        answer = self.ask("dump", key=key, folder=folder)
        if not answer["before"]:
            raise ChildError("XLA wrote no program before layout assignment")
        return Path(answer["before"][-1]), Path(answer["optimised"])

    def _load(self, key: str) -> None:
        if key not in self._loaded:
            self.ask("module", key=key, path=str(self._modules[key]))
            self._loaded.add(key)

    def ask(self, do: str, **fields: Any) -> dict[str, Any]:
        """Send a request and wait for the answer.

        Raises
        ------
        ChildError
            The request failed, took longer than `timeout`, or ended the child.
        """
        if self._process is None:
            self._start()
        return self._request({"do": do, **fields}, self.timeout)

    def _start(self) -> None:
        self._pending = b""
        # -P, and "" made explicit: import what the parent imports, in its order, and nothing else from this
        # folder.
        paths = os.pathsep.join(path or os.getcwd() for path in sys.path)
        log = self._file("stderr.txt").open("wb")
        with log:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "tpugraphs.xla.worker", self._folder.name],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env={**os.environ, "PYTHONPATH": paths},
                start_new_session=True,  # only the parent handles Ctrl-C
            )
        limit = max(_START, self.timeout)
        hello = {"x64": bool(jax.config.jax_enable_x64), "platforms": jax.config.jax_platforms}
        try:
            self.device = self._request({"do": "hello", **hello}, limit)
            self._request({"do": "arguments", "path": str(self._file("arguments.npz"))}, limit)
        except ChildError as error:
            self.kill()  # useless without arguments
            raise ChildError(f"the process for XLA could not be started: {error}") from None

    def _request(self, request: dict[str, Any], timeout: float) -> dict[str, Any]:
        process = self._process
        assert process is not None and process.stdin is not None and process.stdout is not None
        try:
            process.stdin.write(json.dumps(request).encode() + b"\n")
            process.stdin.flush()
        except BrokenPipeError:
            raise self._ended(request["do"]) from None
        limit = time.monotonic() + timeout
        while b"\n" not in self._pending:
            left = limit - time.monotonic()
            if left <= 0:
                self.kill()
                raise ChildError(f"{request['do']}: no answer within {timeout:g} s")
            ready, _, _ = select.select([process.stdout], [], [], min(left, 1.0))
            if ready:
                some = os.read(process.stdout.fileno(), 1 << 16)
                if not some:
                    raise self._ended(request["do"])
                self._pending += some
        line, _, self._pending = self._pending.partition(b"\n")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise ChildError(answer["error"])
        return answer

    def _ended(self, do: str) -> ChildError:
        """Return an error that says how the child ended."""
        assert self._process is not None
        code = self._process.wait()
        how = f"exit code {code}" if code >= 0 else f"signal {signal.Signals(-code).name}"
        log = self._file("stderr.txt").read_text(errors="replace").strip().splitlines()
        fatal = [line for line in log if _FATAL.match(line)] or log[-1:]
        self.kill()
        why = "".join(f": {line[:300]}" for line in fatal[:1])
        return ChildError(f"{do}: the process ended with {how}{why}")


def _storable(array: Any) -> Any:
    """View an array of a type that only JAX knows (bfloat16, float8) as whole numbers."""
    return array if array.dtype.kind in "biufc" else array.view(f"u{array.dtype.itemsize}")
