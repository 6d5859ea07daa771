"""Configurations of a program: draw them (:func:`candidates`), measure them here (:func:`collect`)."""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, TypedDict, cast

import jax
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal

import tpugraphs
from tpugraphs import metrics
from tpugraphs.data import Graph, load
from tpugraphs.distributed.farm import ExecutorLike, check_executor, check_kind, farmed
from tpugraphs.errors import ConfigError, DataError, Error
from tpugraphs.names import SPACES
from tpugraphs.system import Interrupts, Progress, absolute, counted, locked, log, parsed
from tpugraphs.system.arguments import check_choice, check_number, check_whole
from tpugraphs.system.journal import append_lines, read_lines
from tpugraphs.xla.process import Child, ChildError
from tpugraphs.xla.programs import Program
from tpugraphs.xla.spaces import Candidate, Space

_LEAST_ROUNDS = 2  # noise needs two
_FEWEST = 4  # rounds of a program that is long: two to choose by, two to judge
_NS = 1e9
_DIGITS = 4  # significant digits of a time: noise is in the second or third
_SUFFIXES = (".npz", ".tgpack")
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")  # of functions in the text of a program
_above_zero = partial(check_number, least=0, most=1e9, above=True)


class CollectOptions(TypedDict, total=False):
    """Arguments of :func:`collect` for any program."""

    n_configs: int
    configs: Graph | None
    rounds: int
    passes: int
    seconds: float | None
    seed: int
    tolerance: float | None
    least: float
    timeout: float
    without: Sequence[str]
    costs: bool
    machine: Mapping[str, Any] | None
    executor: ExecutorLike | None
    verbose: bool | None


def collect(
    fn: Callable[..., object],
    *args: object,
    space: str = "options",
    n_configs: int = 128,
    configs: Graph | None = None,
    rounds: int = 12,
    passes: int = 3,
    seconds: float | None = None,
    seed: int = 0,
    name: str | None = None,
    out: str | os.PathLike[str] | None = None,
    tolerance: float | None = None,
    least: float = 2e-3,
    timeout: float = 60.0,
    without: Sequence[str] = (),
    costs: bool = False,
    machine: Mapping[str, Any] | None = None,
    executor: ExecutorLike | None = None,
    verbose: bool | None = None,
) -> Graph:
    """Compile a function in many ways, check and time each, and return the graph with its runtimes.

    Everything is compiled and run in a child process, which keeps its memory (:func:`keep_memory`).
    Candidates that compile to the same program share one measurement. Programs take turns, in a new order
    every time, so that other load on the machine affects all of them alike. The fastest round counts.
    Calls on one machine compile side by side, and take turns to measure.

    Parameters
    ----------
    fn : callable
        A function of JAX, ``jax.jit`` or not.
    *args : pytree of arrays
        Its arguments. Their values matter: outputs are compared. The child gets copies on its default device,
        wherever the arrays are. Other leaves (numbers, None) are constants.
    space : {"options", "transpose", "constraint", "combined"}
        What to vary. ``"options"``: compiler options. ``"transpose"``: layouts of values, as transpositions
        in the program. ``"constraint"``: layouts that the compiler must use; it inserts copies where it would
        choose others. ``"combined"``: options and transpositions.
    n_configs : int
        Number of configs to draw, 2 or more; fewer if the space is smaller.
    configs : Graph, optional
        Measure these instead, from an earlier call for the same program and space, for example the best ones:
        ``configs=measured.select(measured.best(8))``. They follow the default.
    rounds : int
        Measurements of each config, 2 or more.
    passes : int
        How often a round goes through all configs, 1 or more. The fastest time of a config counts. On a busy
        machine, passes, which are far apart, are better than many runs in a row.
    seconds : float, optional
        Time limit, checked after each round from the fourth on. If four rounds would exceed it, each round
        makes one pass instead of `passes`.
    seed : int
        Seed, 0 or more, of the draws and of the order of measurements. The options drawn do not depend on the
        program.
    name : str, optional
        Name of the graph, by default that of the function.
    out : path, optional
        File for the graph (``.npz`` or ``.tgpack``). Finished rounds are kept next to it, in ``OUT.journal``,
        until the graph is written, so the same call resumes after the last one. If the file already holds
        this measurement with as many rounds or more, it is returned; any other graph in it is replaced.
    tolerance : float, optional
        Largest relative L2 error of an output, compared with the default's. Whole numbers must be equal. A
        config with a larger error is invalid, however fast. By default four steps of the coarsest type in the
        program, which are 0.031 for bfloat16, but at least 0.001.
    least : float
        Seconds to fill: short programs run several times in a round, up to 32 times; the fastest run counts.
    timeout : float
        Seconds allowed for compiling a config and running it once, and for timing it in a round. A config
        that takes longer is invalid.
    without : sequence of str
        Options to leave out, by their names or ends of these: ``without=["fast_math"]``. What they risk is in
        :func:`risks`.
    costs : bool
        Add what XLA expects of each compiled config as columns (``cost:...``): floating-point operations,
        bytes read and written, transcendental functions, temporary and peak memory, as differences of
        ln(1 + value) from the default's, and whether it is the same program. Rankers that learn from them
        give a better order, most of all of long programs, but need every candidate compiled. Only with
        options.
    machine : dict, optional
        Measure on no other kind of machine than this one: ``about["machine"]`` of an earlier graph.
    executor : Executor, optional
        Measure in one of its workers, which must be able to import `fn` and JAX, and to write `out`.
    verbose : bool, optional
        Show progress; by default in a terminal or notebook.

    Returns
    -------
    Graph
        Row 0 is XLA's default. Runtimes are in nanoseconds, ``repeats`` has those of all rounds, ``valid``
        is False for configs that failed. Configs are the option columns (``config_feat``), layouts (digits
        of TpuGraphs, of which only the output's are set), or both. ``about`` names device, cores, threads and
        versions, counts what failed and gives the noise ceiling and the gain of the best config over the
        default without the winner's curse. Its ``drift`` is the median of the default's times in the later
        half of the rounds over that in the earlier half. Its ``memory`` has median seconds and page faults
        per call of the default, with memory as the system gives it and kept.

    Raises
    ------
    ConfigError
        A parameter out of range, a function that cannot be traced or exported, arguments without values,
        a machine of another kind, or rounds next to `out` that are of another measurement or in use by
        another process.
    DataError
        The rounds next to `out` are damaged; the message names the line.
    Error
        The default cannot be compiled and run, or it has no layouts to choose; a worker has ended, or `fn`
        cannot be sent to it.
    OSError
        `out` cannot be written.
    KeyboardInterrupt
        Ctrl-C before two rounds are done. After that, it ends the call with what was measured.

    Warns
    -----
    UserWarning
        When Ctrl-C has ended the measurement early.
    """
    settings = _drawing(space, n_configs, seed, timeout) | {
        "tolerance": None if tolerance is None else _above_zero("tolerance", tolerance),
        "least": _above_zero("least", least), "passes": check_whole("passes", passes, 1),
    }  # fmt: skip
    check_whole("rounds", rounds, _LEAST_ROUNDS)
    if seconds is not None:
        settings["seconds"] = _above_zero("seconds", seconds)
    target = _target(out)
    if executor is not None:
        check_executor(executor)
        how: dict[str, Any] = {
            "configs": configs, "rounds": rounds, "name": name, "out": target, "timeout": timeout,
            "without": without, "costs": costs, "machine": machine, "verbose": False,
        }  # fmt: skip
        ((_, measured),) = farmed(executor, partial(collect, **settings, **how), [(fn, *args)])
        return cast(Graph, measured)
    program = Program(fn, args, name)
    settings["tolerance"] = settings["tolerance"] or program.tolerance
    settings |= {"memory": "kept"} | ({"without": list(without)} if without else {})
    settings |= {"costs": True} if _with_costs(costs, space) else {}
    journal = _Journal(target)
    with journal.locked(), Child(program.arguments, timeout) as child:
        child.start()
        check_kind(child.device, machine or {}, "machine", "measure there, or call with another out")
        memory = child.memory(program.name, program.module, least, "plain" if SPACES[space].layouts else "")
        chosen = Space(program, child, SPACES[space], without)
        rng = np.random.default_rng([seed, 0])
        drawn = chosen.draw(n_configs, rng) if configs is None else chosen.again(configs)
        digest = fingerprint(program, drawn, settings, child.device)
        if (found := _finished(target, digest, rounds)) is not None:
            return found
        journal.read(digest)
        with Interrupts(armed=True) as interrupts:
            run = _Run(program.name, chosen, drawn, child, interrupts, settings, verbose)
            run.compile()
            log.info("collect %s: %d configs, up to %d rounds", program.name, len(run.candidates), rounds)
            with child.hold():
                early = run.time(rounds, np.random.default_rng([seed, 1]), journal)
        about = {
            **settings, "memory": memory, "rounds": len(run.rounds), "interrupted": early,
            "digest": digest, "machine": child.device, "tpugraphs": tpugraphs.__version__,
            "date": time.strftime("%Y-%m-%d", time.gmtime()),
        }  # fmt: skip
        graph = run.graph(about)
        log.info("collect %s: %d of %d configs ran, %d rounds", program.name, len(graph.ran),
                 graph.num_configs, len(run.rounds))  # fmt: skip
        if target is not None and not early:
            graph.save(target)
            journal.remove()
    if early:
        kept = f"; {journal.path} keeps them for the same call" if journal.path else ""
        warnings.warn(f"interrupted after {len(run.rounds)} of {rounds} rounds{kept}", stacklevel=2)
    return graph


def candidates(
    fn: Callable[..., object],
    *args: object,
    space: str = "options",
    n_configs: int = 128,
    seed: int = 0,
    name: str | None = None,
    timeout: float = 60.0,
    without: Sequence[str] = (),
    costs: bool = False,
) -> Graph:
    """Return the graph of a function with unmeasured configs, for a ranker to choose from.

    Nothing is run, and only XLA's default is compiled unless `costs` is true. Let a ranker choose a few
    configs, and measure these:
    ``collect(fn, *args, space=space, configs=graph.select(ranker.choose(graph, 5)))``.

    Parameters
    ----------
    fn, *args, space, n_configs, seed, name, timeout, without, costs
        As for :func:`collect`, which measures the same configs. Only shapes and types of `args` matter, so
        ``jax.ShapeDtypeStruct`` does as well.

    Returns
    -------
    Graph
        Without runtimes. Row 0 is XLA's default.

    Raises
    ------
    ConfigError
        A parameter out of range, or a function that cannot be traced or exported.
    Error
        XLA cannot compile it, or it has no layouts to choose.
    """
    about = _drawing(space, n_configs, seed, timeout)
    compiles = _with_costs(costs, space)
    program = Program(fn, args, name)
    with Child([], timeout) as child:
        chosen = Space(program, child, SPACES[space], without)
        drawn = chosen.draw(n_configs, np.random.default_rng([seed, 0]))
        about["machine"] = child.device
        fields = chosen.fields(drawn, chosen.compiled(drawn, child) if compiles else None)
        return Graph(**fields, about=about, name=program.name)


def _drawing(space: str, n_configs: int, seed: int, timeout: float) -> dict[str, Any]:
    """Check the arguments that choose the configs, and the time limit of the compiler."""
    _above_zero("timeout", timeout)
    return {
        "space": check_choice("space", space, SPACES), "n_configs": check_whole("n_configs", n_configs, 2),
        "seed": check_whole("seed", seed, 0),
    }  # fmt: skip


def _with_costs(costs: bool, space: str) -> bool:
    """Return whether there are columns of costs."""
    if costs and not SPACES[space].options:
        raise ConfigError(f"costs: expected a space with options of the compiler, found {space!r}")
    return costs


def _target(out: str | os.PathLike[str] | None) -> Path | None:
    """Check the file for the result, before hours of measurement."""
    if out is None:
        return None
    path = Path(absolute(out))
    if path.suffix not in _SUFFIXES:
        raise ConfigError(f"out: expected a name that ends in {' or '.join(_SUFFIXES)}, found {str(out)!r}")
    if not os.access(path.parent, os.W_OK | os.X_OK):
        folder = str(path.parent)
        raise ConfigError(f"out: expected a folder that can be written, found {folder!r}; make it first")
    return path


def fingerprint(
    program: Program, candidates: list[Candidate], settings: dict[str, Any], device: dict[str, Any]
) -> str:
    """Hash everything that a measurement depends on, including the values of arguments."""
    h = hashlib.blake2b(digest_size=16)
    drawn = [[dict(candidate.options), candidate.key] for candidate in candidates]
    h.update(json.dumps([settings, device, drawn], sort_keys=True).encode())
    h.update(_ADDRESS.sub("", str(program.jaxpr.jaxpr)).encode())
    for array in (*_constants(program.jaxpr), *program.arguments):
        keys = jax.numpy.issubdtype(array.dtype, jax.dtypes.extended)
        plain = np.asarray(jax.random.key_data(array) if keys else array)
        h.update(f"{plain.dtype} {plain.shape}".encode())
        h.update(plain.tobytes())
    return h.hexdigest()


def _constants(part: Any) -> Iterator[Any]:
    """Yield the arrays in a part of a program: its text does not show their values."""
    if isinstance(part, ClosedJaxpr):
        yield from part.consts
        part = part.jaxpr
    if isinstance(part, Jaxpr):
        part = [*chain(*((*eqn.invars, *eqn.params.values()) for eqn in part.eqns)), *part.outvars]
    if isinstance(part, list | tuple):
        for one in part:
            yield from _constants(one)
    elif isinstance(part, Literal) and hasattr(part.val, "dtype"):
        yield part.val


def _finished(target: Path | None, digest: str, rounds: int) -> Graph | None:
    """Return the graph of a file if it is of this measurement."""
    if target is None or not target.exists():
        return None
    graph = load(target)
    least = rounds if graph.about.get("seconds") is None else min(rounds, _FEWEST)
    enough = graph.about.get("rounds", 0) >= least
    return graph if enough and graph.about.get("digest") == digest else None


class _Journal:
    """Finished rounds, one per line, in a file next to the result; does nothing without a file.

    The first line names the measurement and its programs, in the order of the times in the other lines. Every
    line has the digest of its measurement, except in earlier versions, and rounds have their number.
    """

    def __init__(self, target: Path | None) -> None:
        self.path = None if target is None else target.with_name(target.name + ".journal")
        self._digest = ""
        self._programs: list[Any] | None = None  # None without a first line
        self._rounds: list[list[float]] = []

    def locked(self) -> AbstractContextManager[None]:
        """Lock the file, from before it is read until the result is written."""
        return nullcontext() if self.path is None else locked(str(self.path), "another measurement")

    def read(self, digest: str) -> None:
        """Read the file, of which every line must be of this measurement.

        Raises
        ------
        ConfigError
            It is of another measurement.
        DataError
            A line is damaged, of another measurement, or occurs twice.
        """
        self._digest = digest
        if self.path is None or not self.path.exists():
            return
        with self.path.open("rb") as file:
            for number, line in enumerate(read_lines(file, str(self.path))):
                entry = None  # of a line that is damaged
                with suppress(ValueError):
                    entry = parsed(line)
                if wrong := self._take(number, entry):
                    text = f"line {number + 1}: {wrong}; remove the file to measure again"
                    raise DataError(text, file=str(self.path), field=f"line {number + 1}")

    def _take(self, number: int, entry: Any) -> str:
        """Keep the programs of the first line, or the times of a round; return what is wrong with it."""
        if isinstance(entry, list):
            entry = {"digest": self._digest, "round": number, "seconds": entry}  # in earlier versions
        if not isinstance(entry, dict) or (number == 0 and not isinstance(entry.get("programs"), list)):
            return "not a round of a measurement" if number else "expected the programs of a measurement"
        if entry.get("digest") != self._digest:
            if number:
                return "of another measurement than line 1"
            todo = "call with the same function and arguments, choose another out, or remove the file"
            raise ConfigError(f"{self.path}: line 1: rounds of another measurement; {todo}")
        if number == 0:
            self._programs = entry["programs"]
            return ""
        seconds, count = entry.get("seconds"), len(self._programs or ())
        if entry.get("round") != number:
            return f"expected round {number}, found {entry.get('round')!r:.40}"
        if not isinstance(seconds, list) or len(seconds) != count or not all(map(_is_time, seconds)):
            return f"expected {counted(count, 'time')} in seconds"
        self._rounds.append(seconds)
        return ""

    def start(self, programs: list[str]) -> list[list[float]]:
        """Make the file ready for more rounds and return the rounds in it, if they are of these programs."""
        if self.path is None:
            return []
        if self._programs != programs:
            if self._programs is not None:
                warnings.warn(f"{self.path}: other programs than before: measured again", stacklevel=4)
            self._rounds = []
            self.path.write_bytes(b"")
            self._append({"programs": programs})
        append_lines(self.path, b"", alone=True)  # removes a line that was cut off
        return self._rounds

    def add(self, number: int, seconds: list[float]) -> None:
        """Add a round; the first has number 1."""
        self._append({"round": number, "seconds": seconds})

    def _append(self, line: dict[str, Any]) -> None:
        if self.path is not None:
            entry = json.dumps({"digest": self._digest, **line})
            append_lines(self.path, entry.encode() + b"\n", alone=True)

    def remove(self) -> None:
        """Remove the file."""
        if self.path is not None:
            self.path.unlink(missing_ok=True)


def _is_time(seconds: Any) -> bool:
    """Return whether a number can be a measured time; NaN stands for a run that failed."""
    return isinstance(seconds, float) and (0 < seconds < float("inf") or seconds != seconds)


@dataclass
class _Run:
    """The measurement of one program: its candidates, their failures and their times."""

    name: str
    space: Space
    candidates: list[Candidate]
    child: Child
    interrupts: Interrupts
    settings: Mapping[str, Any]  # arguments of `collect`: tolerance, least, passes, maybe seconds
    verbose: bool | None
    compiled: dict[int, dict[str, Any]] = field(default_factory=dict)  # candidate -> the child's answer
    hashes: dict[int, str] = field(default_factory=dict)  # candidate -> its program
    failed: dict[int, tuple[str, str]] = field(default_factory=dict)  # candidate -> kind, what happened
    rounds: list[list[float]] = field(default_factory=list)  # seconds by program
    _broken: dict[str, str] = field(default_factory=dict)  # program -> what happened in a later run

    def compile(self) -> None:
        """Compile and check all candidates; the child compiles one while the next is traced here."""
        progress = Progress(len(self.candidates), f"{self.name}: compile", "config", self.verbose)
        with progress as bar, ThreadPoolExecutor(1) as tracer:
            coming = tracer.submit(self._trace, 0)
            for number in range(len(self.candidates)):
                module, coming = coming, tracer.submit(self._trace, number + 1)
                try:
                    module.result()
                    answer = self._compile(number)
                except (ChildError, ConfigError) as error:
                    if number == 0:
                        text = f"{self.name}: the default cannot be compiled and run: {error}"
                        raise Error(text) from error
                    self.failed[number] = "not compiled or run", str(error)
                else:
                    self.compiled[number] = answer
                    if answer["deviation"] <= self.settings["tolerance"]:
                        self.hashes[number] = answer["hash"]
                    else:
                        self.failed[number] = "other outputs", f"relative error {answer['deviation']:.2g}"
                bar.update(1)
                self.interrupts.check()

    def _trace(self, number: int) -> None:
        """Write the program of a candidate, if there is one of this number, unless its layouts are known."""
        for candidate in self.candidates[number : number + 1]:
            self.child.add(candidate.key, partial(self.space.module, candidate))

    def _compile(self, number: int) -> dict[str, Any]:
        candidate = self.candidates[number]
        return self.child.compile(candidate.key, dict(candidate.options))

    def time(self, rounds: int, rng: np.random.Generator, journal: _Journal) -> bool:
        """Time all programs in turn, up to `rounds` times; return whether Ctrl-C ended it early."""
        programs = list(dict.fromkeys(self.hashes.values()))
        first = {name: number for number, name in reversed(self.hashes.items())}
        self.rounds = journal.start(programs)[:rounds]
        for program, *seconds in zip(programs, *self.rounds, strict=True):
            if np.isnan(seconds).any():
                self._broken[program] = "before this call continued"
        passes, limit = self.settings["passes"], self.settings.get("seconds", math.inf)
        orders = [[rng.permutation(len(programs)) for _ in range(passes)] for _ in range(rounds)]
        runs = passes * len(programs)
        began, before = time.monotonic(), len(self.rounds)
        with Progress(rounds * runs, f"{self.name}: time", "run", self.verbose) as bar:
            bar.update(before * runs)
            try:
                for order in orders[len(self.rounds) :]:
                    fastest, begun = np.full(len(programs), np.inf), time.monotonic()
                    for count, through in enumerate(order, 1):
                        for place in through:
                            took = self._time(programs[place], first[programs[place]])
                            fastest[place] = np.minimum(fastest[place], took)  # NaN stays
                            bar.update(1)
                            self.interrupts.check()
                        if (time.monotonic() - begun) * passes * _FEWEST > limit * count:
                            bar.update(runs - count * len(programs))
                            break
                    self.rounds.append(fastest.tolist())
                    journal.add(len(self.rounds), self.rounds[-1])
                    each = (time.monotonic() - began) / (len(self.rounds) - before)
                    if len(self.rounds) >= _FEWEST and each * len(self.rounds) > limit:
                        break
            except KeyboardInterrupt:
                if len(self.rounds) < _LEAST_ROUNDS:
                    raise
                return True
        return False

    def _time(self, program: str, number: int) -> float:
        """Time a program once; NaN if the child ends or hangs, now or in an earlier round."""
        if program in self._broken:
            return float("nan")
        try:
            return float(self.child.time(program, self.settings["least"])["seconds"])
        except ChildError as error:
            if number == 0:
                raise Error(f"{self.name}: the default could not be run again: {error}") from error
            self._broken[program] = str(error)
            return float("nan")

    def graph(self, about: dict[str, Any]) -> Graph:
        """Make the graph with its measurements."""
        count = len(self.candidates)
        programs = list(dict.fromkeys(self.hashes.values()))
        times = [[float(f"{seconds * _NS:.{_DIGITS}g}") for seconds in row] for row in self.rounds]
        of_program = dict(zip(programs, np.transpose(times), strict=True))
        repeats = np.full((count, len(self.rounds)), np.nan)
        for number, name in self.hashes.items():
            repeats[number] = of_program[name]
            if np.isnan(repeats[number]).any():
                self.failed[number] = "ended or hung in a later run", self._broken[name]
        valid = np.array([number not in self.failed for number in range(count)])
        repeats[~valid] = np.nan
        runtime = np.zeros(count, np.int64)
        runtime[valid] = np.maximum(np.rint(repeats[valid].min(1)), 1)
        about["distinct_programs"] = len(programs)
        about["failures"] = {str(number): text for number, (_, text) in sorted(self.failed.items())}
        about["failed"] = dict(Counter(kind for kind, _ in self.failed.values()))
        about["noise_ceiling"] = metrics.noise_ceiling(repeats[valid])
        earlier, later = np.array_split(repeats[0], [len(self.rounds) // 2])
        about["drift"] = round(float(np.median(later) / np.median(earlier)), _DIGITS)
        about["gain_of_best"] = round(metrics.gain_of_best(repeats), _DIGITS)
        compiled = map(self.compiled.get, range(count)) if self.settings.get("costs") else None
        fields = self.space.fields(self.candidates, compiled)
        return Graph(**fields, runtime=runtime, valid=valid, repeats=repeats, about=about, name=self.name)
