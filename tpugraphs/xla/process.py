"""XLA in a child process that compiles, checks and times programs, so that a crash ends only the child.

`Child` is the parent's side, `Worker` the other one. They send each other objects of JSON: a request names a
method of `Worker` as ``do`` and has its arguments; the answer is what the method returns, or ``error``.
Programs and arrays are passed as files in a folder, never as pickles: programs as written by
:mod:`jax.export`, arrays in an ``.npz``. The parent removes the folder; if the parent was killed, the child
does.
"""

import hashlib
import json
import os
import platform
import queue
import re
import resource
import shutil
import signal
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from typing import Any, Self

import jax
import jax.export
import numpy as np

from tpugraphs.distributed.farm import device_name, on_device
from tpugraphs.errors import Error
from tpugraphs.system.machine import keep_memory, processor, resident, usable_processors

_FATAL = re.compile(r"F\d{4} |\S+: .*Assertion")  # lines of XLA and LLVM with the reason
_START = 120.0  # seconds that a child always has to import JAX and read arguments
_SETTLED = 10  # times as long until memory has settled: glibc learns from the first calls
_LONG = 10  # times `least`, from which on a program is warmed up once
_STATES = 3  # times that a program is timed in each state of memory
_MAIN = "from tpugraphs.xla.process import main; main()"
_METADATA = re.compile(r', metadata=\{(?:[^"}]|"(?:[^"\\]|\\.)*")*\}')
_NAME = re.compile(r"%[\w.-]+")
# What XLA expects of a compiled program: names in JAX's `cost_analysis` and `memory_analysis`.
WORK_COSTS = ("flops", "bytes accessed", "transcendentals")
MEMORY_COSTS = ("temp_size_in_bytes", "peak_memory_in_bytes")
_HAS_ELF = sys.platform == "linux"  # elsewhere any other option counts as another program
_ELF = b"\x7fELF\x02\x01"  # 64 bits, little-endian
# Of a header of ELF: place of the table of sections, size and count of its entries.
_SECTIONS, _HEADER = struct.Struct("<40xQ10xHH"), 64  # bytes of a header


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
    keep : bool
        Keep freed memory from the start.

    Attributes
    ----------
    device : dict of str to str or int
        Its platform, device, cores, threads, versions.
    programs : set of str
        Hashes of the programs compiled in the running process; empty after its start.
    plain : str
        Hash of the unchanged program, once `memory` has compiled it.
    """

    def __init__(self, arguments: list[Any], timeout: float, keep: bool = False) -> None:
        self.timeout, self.keep, self._holds = timeout, keep, False
        self.device: dict[str, Any] = {}
        self.plain = ""
        self.programs: set[str] = set()
        self._folder = tempfile.TemporaryDirectory(prefix="tpugraphs-")
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: Connection
        self._modules: dict[str, str] = {}  # files by name
        self._made: dict[str, tuple[str, dict[str, Any]]] = {}  # name and options of a program, by its hash
        self._first: tuple[str, dict[str, Any]] | None = None
        arrays = [np.asarray(array, order="C") for array in arguments]
        self._types = [array.dtype.name for array in arrays]  # a file has no names of types that JAX adds
        with self._file("arguments.npz").open("wb") as file:
            np.savez(file, *arrays)

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
            self._process.wait()
            self._connection.close()
            self._process = None
        self.programs.clear()

    @contextmanager
    def hold(self, alone: bool = True) -> Iterator[None]:
        """Hold the device: alone to measure, else to compile. Within a block that holds it this does nothing.

        Others on this machine wait, children of this process too.
        """
        if self._holds:
            yield
            return
        self.start()
        with on_device(device_name(self.device["platform"]), alone):
            self._holds = True
            try:
                yield
            finally:
                self._holds = False

    def time(self, key: str, least: float) -> dict[str, Any]:
        """Time a compiled program, given by its hash, see `Worker.time`; nobody else measures meanwhile.

        A new process compiles it again first.
        """
        if key not in self.programs and key in self._made:
            self.compile(*self._made[key])
        with self.hold():
            return self.ask("time", key=key, least=least)

    def add(self, key: str, make: Callable[[], bytes]) -> None:
        """Store a program under a name unless it exists: `make` writes it as :mod:`jax.export` does."""
        if key not in self._modules:
            path = self._file(f"module_{len(self._modules)}.bin")
            path.write_bytes(make())
            self._modules[key] = str(path)

    def build(self, key: str, options: dict[str, Any]) -> dict[str, Any]:
        """Compile a candidate without running it: ``hash``, and its ``costs``, see `costs`."""
        with self.hold(alone=False):
            return self.ask("build", path=self._modules[key], options=options)

    def compile(self, key: str, options: dict[str, Any]) -> dict[str, Any]:
        """Compile, run and check a candidate: ``hash``, ``costs``, and ``deviation`` from the first one.

        A new process compiles the first one before any other, to have outputs to compare with.
        """
        self._first = self._first or (key, options)
        if not self.programs and (key, options) != self._first:
            self._compile(*self._first)
        return self._compile(key, options)

    def _compile(self, key: str, options: dict[str, Any]) -> dict[str, Any]:
        with self.hold(alone=False):
            answer = self.ask("compile", path=self._modules[key], options=options)
        self.programs.add(answer["hash"])
        self._made.setdefault(answer["hash"], (key, options))
        return answer

    def dump(self, name: str, make: Callable[[], bytes]) -> tuple[bytes, bytes]:
        """Return the unchanged program, called "", as it is before layout assignment, and optimised.

        Raises
        ------
        Error
            XLA cannot compile it, with the reason.
        """
        self.add("", make)
        folder = tempfile.mkdtemp(dir=self._folder.name)
        try:
            answer = self.ask("dump", path=self._modules[""], folder=folder)
        except ChildError as error:
            raise Error(f"{name}: XLA cannot compile it: {error}") from error
        return Path(answer["before"]).read_bytes(), Path(answer["optimised"]).read_bytes()

    def memory(
        self, name: str, make: Callable[[], bytes], least: float, key: str = ""
    ) -> dict[str, dict[str, Any]]:
        """Time the unchanged program with memory as it is given, then kept; from now on it is, if possible.

        It comes first: glibc gives less back once a process has compiled much.

        Raises
        ------
        Error
            The program cannot be compiled and run.
        """
        self.add(key, make)

        def state() -> dict[str, Any]:
            self.time(self.plain, _SETTLED * least)
            asked = [self.time(self.plain, least) for _ in range(_STATES)]
            middle = statistics.median(one.pop("middle") for one in asked)  # the fastest has few faults
            return {**asked[-1], "seconds": middle}

        try:
            self.plain = self.build(key, {})["hash"]  # keeps no outputs
            self.programs.add(self.plain)
            self._first = ("", {}) if key == "" else None  # what others are compared with
            with self.hold():
                found = {"given": state()}
                if self.ask("keep_memory")["kept"]:
                    self.keep = True
                    found["kept"] = state()
        except ChildError as error:
            raise Error(f"{name}: the default cannot be compiled and run: {error}") from error
        return found

    def ask(self, do: str, **fields: Any) -> dict[str, Any]:
        """Send a request and wait for the answer.

        Raises
        ------
        ChildError
            The request failed, took longer than `timeout`, or ended the child.
        """
        self.start()
        return self._request(self.timeout, do, fields)

    def start(self) -> None:
        """Start the process, if there is none, so that `device` is known."""
        if self._process is not None:
            return
        # -P, and "" made explicit: import what the parent imports, in its order, and nothing else from this
        # folder.
        paths = os.pathsep.join(path or os.getcwd() for path in sys.path)
        self._connection, theirs = Pipe()
        with theirs, self._file("stderr.txt").open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-c", _MAIN, self._folder.name, str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, "PYTHONPATH": paths},
                pass_fds=[theirs.fileno()],
                start_new_session=True,  # only the parent handles Ctrl-C
            )
        setup = {"x64": bool(jax.config.jax_enable_x64), "platforms": jax.config.jax_platforms}
        setup |= {"path": str(self._file("arguments.npz")), "types": self._types, "keep": self.keep}
        try:
            self.device = self._request(max(_START, self.timeout), "start", setup)
        except ChildError as error:
            self.kill()  # useless without arguments
            raise ChildError(f"the process for XLA could not be started: {error}") from None

    def _request(self, timeout: float, do: str, fields: dict[str, Any]) -> dict[str, Any]:
        try:
            self._connection.send_bytes(json.dumps({"do": do, **fields}).encode())
            if not self._connection.poll(timeout):
                self.kill()
                raise ChildError(f"{do}: no answer within {timeout:g} s")
            answer: dict[str, Any] = json.loads(self._connection.recv_bytes())
        except (EOFError, OSError):
            raise self._ended(do) from None
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


def objects(executable: bytes) -> list[bytes]:
    """Return the object files (ELF) in a serialised executable: the machine code of its kernels."""
    last = len(executable) - _HEADER + len(_ELF)  # where the mark of a whole header ends
    found, start = [], executable.find(_ELF, 0, last)
    while start >= 0:
        sections, entry, count = _SECTIONS.unpack_from(executable, start)
        end = start + max(sections + entry * count, _HEADER)  # the table of sections ends the file
        found.append(executable[start:end])
        start = executable.find(_ELF, end, last)
    return found


def program_hash(text: str, code: list[bytes]) -> str:
    """Hash an optimised program: its text without names, metadata and tables of source lines, and its code.

    The text shows library calls; kernels that XLA generates are in `code`, in any order.
    """
    start = re.search(r"^(?:%|ENTRY)", text, re.M)
    body = _METADATA.sub("", text[start.start() :] if start else text)
    names: dict[str, str] = {}
    body = _NAME.sub(lambda match: names.setdefault(match[0], f"%{len(names)}"), body)
    layouts = text.partition("\n")[0].partition(",")[2]
    parts = [layouts, body, *sorted(hashlib.sha256(part).hexdigest() for part in code)]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]


def costs(compiled: Any) -> list[float]:
    """Return the work and the bytes of memory that XLA expects of a compiled program, 0 where it does not."""
    try:
        work, memory = compiled.cost_analysis() or {}, compiled.memory_analysis()
    except Exception:  # whatever a backend raises that has no analysis
        work, memory = {}, None
    sizes = [getattr(memory, name, 0) for name in MEMORY_COSTS]
    return [max(float(x), 0.0) for x in (*(work.get(name, 0) for name in WORK_COSTS), *sizes)]


def arguments(path: str, types: list[str]) -> list[Any]:
    """Read the arguments of all programs."""
    with np.load(path, allow_pickle=False) as file:
        arrays = [file[f"arr_{i}"].view(jax.numpy.dtype(name)) for i, name in enumerate(types)]
    return [jax.device_put(array) for array in arrays]


def deviation(found: list[Any], expected: list[Any]) -> float:
    """Return the largest relative L2 error of an output; infinite if types or places of NaN differ."""
    return max((_error(a, b) for a, b in zip(found, expected, strict=True)), default=0.0)


def _error(found: Any, expected: Any) -> float:
    a, b = np.asarray(found), np.asarray(expected)
    if a.shape != b.shape or a.dtype != b.dtype:
        return float("inf")
    if not jax.numpy.issubdtype(a.dtype, np.inexact):
        return 0.0 if np.array_equal(a, b) else float("inf")
    wide = np.complex128 if jax.numpy.issubdtype(a.dtype, np.complexfloating) else np.float64
    a, b = a.astype(wide), b.astype(wide)
    finite = np.isfinite(b)
    if not np.array_equal(np.where(np.isfinite(a), 0, a), np.where(finite, 0, b), equal_nan=True):
        return float("inf")
    scale = np.abs(b[finite]).max(initial=0.0) or 1.0  # else squares of large numbers overflow
    error, size = np.linalg.norm((a[finite] - b[finite]) / scale), np.linalg.norm(b[finite] / scale)
    return float(error / (size or 1.0))


class Worker:
    """Answers requests; each method is one kind of request."""

    def __init__(self) -> None:
        self._arguments: list[Any] = []
        self._modules: dict[str, Any] = {}
        self._programs: dict[str, Any] = {}  # by hash
        self._deviations: dict[str, float] = {}  # of those that ran
        self._fastest: dict[str, float] = {}  # seconds of a run, of those that were timed
        self._expected: list[Any] | None = None
        self._built: dict[tuple[str, str], dict[str, Any]] = {}  # file and options -> hash and costs

    def start(
        self, x64: bool, platforms: str | None, path: str, types: list[str], keep: bool
    ) -> dict[str, Any]:
        """Start JAX with the parent's settings, read the arguments, and describe the machine and device."""
        if keep:
            keep_memory()
        jax.config.update("jax_enable_x64", x64)
        jax.config.update("jax_platforms", platforms)
        # Programs from the cache on disk have no machine code to compare, and are not dumped.
        jax.config.update("jax_enable_compilation_cache", False)
        self._arguments = arguments(path, types)
        device = jax.devices()[0]
        cores = usable_processors()
        return {
            "platform": device.platform,
            "device": (processor() or platform.machine()) if device.platform == "cpu" else device.device_kind,
            "cores": cores,
            "threads": int(os.environ.get("PJRT_NPROC") or os.environ.get("NPROC") or cores),
            "jax": jax.__version__,
            "jaxlib": sys.modules["jaxlib"].__version__,
            "python": platform.python_version(),
            "system": platform.platform(),
            "xla_flags": os.environ.get("XLA_FLAGS", ""),
        }

    def _module(self, path: str) -> Any:
        """Read a program and lower it, once; it is compiled later, with options."""
        if path not in self._modules:
            exported = jax.export.deserialize(bytearray(Path(path).read_bytes()))
            self._modules[path] = jax.jit(exported.call).lower(*exported.in_avals)
        return self._modules[path]

    def probe(self, options: dict[str, list[Any]]) -> dict[str, Any]:
        """Return the values of options that this version of XLA knows."""
        lowered = jax.jit(lambda x: x + 1).lower(np.zeros(8, np.float32))
        known: dict[str, list[Any]] = {}
        for name, values in options.items():
            for value in values:
                try:
                    lowered.compile(compiler_options={name: value})
                except Exception:  # whatever XLA raises, the option cannot be used
                    continue
                known.setdefault(name, []).append(value)
        return {"known": known}

    def build(self, path: str, options: dict[str, Any]) -> dict[str, Any]:
        """Compile a candidate, once."""
        asked = path, json.dumps(options, sort_keys=True)
        if asked not in self._built:
            compiled = self._module(path).compile(compiler_options=options)
            executable = compiled.runtime_executable()
            code = objects(executable.serialize()) if _HAS_ELF else [asked[1].encode()]
            found = program_hash(executable.hlo_modules()[0].to_string(), code)
            self._built[asked] = {"hash": found, "costs": costs(compiled)}
            self._programs.setdefault(found, compiled)
        return self._built[asked]

    def compile(self, path: str, options: dict[str, Any]) -> dict[str, Any]:
        """Compile a candidate, run it once and compare its outputs with those of the first one."""
        built = self.build(path, options)
        found = built["hash"]
        if found not in self._deviations:
            outputs = jax.tree.leaves(jax.block_until_ready(self._programs[found](*self._arguments)))
            if self._expected is None:
                self._expected = outputs
            self._deviations[found] = deviation(outputs, self._expected)
        return {**built, "deviation": self._deviations[found]}

    def dump(self, path: str, folder: str) -> dict[str, Any]:
        """Write the program before layout assignment and the optimised one; return their files."""
        options = {
            "xla_dump_to": folder,
            "xla_dump_hlo_as_proto": True,
            "xla_dump_hlo_pass_re": "layout-assignment",
        }
        compiled = self._module(path).compile(compiler_options=options)
        before = sorted(Path(folder).glob("*before_layout-assignment*.pb"))
        if not before:
            raise RuntimeError("XLA wrote no program before layout assignment")
        after = Path(folder, "optimised.pb")
        after.write_bytes(compiled.runtime_executable().hlo_modules()[0].as_serialized_hlo_module_proto())
        return {"before": str(before[-1]), "optimised": str(after)}

    def keep_memory(self) -> dict[str, Any]:
        """Keep freed memory from now on; return whether that is possible here."""
        return {"kept": keep_memory()}

    def time(self, key: str, least: float) -> dict[str, Any]:
        """Time a compiled program, given by its hash: the fastest of several runs, in seconds.

        Run it once to warm up, then 1 to 32 times, as often as fits into `least` seconds. If a run takes ten
        times `least` or more, only the first call warms up. `middle` is the median, `faults` are page faults
        per run, `memory` is that of the process afterwards, in MiB.
        """
        program, took = self._programs[key], list[float]()
        if self._fastest.get(key, 0.0) < _LONG * least:
            jax.block_until_ready(program(*self._arguments))
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        while not took or (sum(took) < least and len(took) < 32):
            start = time.perf_counter()
            jax.block_until_ready(program(*self._arguments))
            took.append(time.perf_counter() - start)
        faults = (resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before) / len(took)
        fastest, middle = min(took), statistics.median(took)
        self._fastest[key] = min(fastest, self._fastest.get(key, fastest))
        return {"seconds": fastest, "middle": middle, "faults": round(faults, 1), "memory": resident()}


def _read(connection: Connection, requests: queue.SimpleQueue[bytes]) -> None:
    """Read requests. At their end the parent is gone: remove the folder and exit at once."""
    try:
        while True:
            requests.put(connection.recv_bytes())
    finally:
        shutil.rmtree(sys.argv[1], ignore_errors=True)
        os._exit(0)


def main() -> None:
    """Answer requests until the parent ends."""
    worker, connection = Worker(), Connection(int(sys.argv[2]))
    requests: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(connection, requests), daemon=True).start()
    while True:
        request = json.loads(requests.get())
        try:
            answer = getattr(worker, request.pop("do"))(**request)
        except Exception as error:  # the parent interprets it
            text = " ".join(str(error).split())
            answer = {"error": f"{type(error).__name__}: {text[:500]}"}
        connection.send_bytes(json.dumps(answer).encode())
