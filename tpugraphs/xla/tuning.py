"""Make a function fast: measure in stages, confirm in fresh processes, give back a callable."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from functools import partial
from statistics import median
from typing import Any

import numpy as np

from tpugraphs.data import Graph
from tpugraphs.errors import Error
from tpugraphs.evaluation.scorer import Scorer
from tpugraphs.names import SPACES
from tpugraphs.records import Journal, Record, environment
from tpugraphs.system import check_number, check_whole, log
from tpugraphs.tuning import Failed, Finalist, Outcome
from tpugraphs.tuning import Space as Configs
from tpugraphs.tuning import tune as search
from tpugraphs.tuning.loop import Budget, key
from tpugraphs.tuning.tuned import finalists
from tpugraphs.xla.collecting import fingerprint
from tpugraphs.xla.process import Child, ChildError
from tpugraphs.xla.programs import Program
from tpugraphs.xla.spaces import Candidate, Space, has_costs
from tpugraphs.xla.stages import WORK, Stages, learn
from tpugraphs.xla.tuned import Memory, TunedFunction

_MEMORY = "memory"  # in `without`
_WORTH = 0.97  # of the default's time, at which keeping memory is looked into
_FINALISTS = 2
_PASSES = 3  # of a measurement in the search
_TURNS = 5  # of a confirmation in one process
_AT_ONCE = 2  # processes that compile for the confirmation at the same time
_SHARE = 0.6  # of a budget of seconds that is kept for the confirmation, at most
_DRAWN = 112  # configs that the shipped ranker knows


def tune(
    fn: Callable[..., Any], *args: Any, budget: int | str = 10, ranker: Scorer | None = None,
    without: Sequence[str] = (), n_configs: int = _DRAWN, journal: str | os.PathLike[str] | None = None,
    confirm: int = 4, tolerance: float | None = None, least: float = 0.02, timeout: float = 60.0,
    seed: int = 0, name: str | None = None, verbose: bool | None = None,
) -> TunedFunction:  # fmt: skip
    """Find compiler options that make a function fast on this machine, and prove it.

    First the default is measured with memory as the system gives it, and kept (:func:`keep_memory`). Then
    options are measured one after the other, each chosen by what a ranker expects and what was measured.
    At the end the default and the best run in turn in fresh processes, and these pairs alone decide.

    Parameters
    ----------
    fn : callable
        A function of JAX, ``jax.jit`` or not.
    *args : pytree of arrays
        Its arguments, as for :func:`collect`.
    budget : int or str
        Measurements besides the default's; or a time such as ``"60s"``, which includes the confirmation.
        Options that compile to a program that was measured already are no measurement.
    ranker : Scorer, optional
        What expects which options are fast: by default that of :func:`learn`, from the programs that come
        with the package. If it learnt from costs (:func:`collect`), all candidates are compiled first, which
        takes its part of a budget of seconds.
    without : sequence of str
        Options to leave out, as for :func:`collect`; ``"memory"`` leaves memory alone.
    n_configs : int
        Sets of options to choose from, drawn as by :func:`candidates`.
    journal : path, optional
        Every measurement is appended to this file; the same call goes on from there, and :func:`learn` learns
        from it.
    confirm : int
        Fresh processes in which the best are compared with the default, at least 3.
    tolerance, least, timeout
        As for :func:`collect`.
    seed : int
        Of the sets that are drawn.
    name : str, optional
        Name of the program, by default that of the function.
    verbose : bool, optional
        Show progress; by default in a terminal or notebook.

    Returns
    -------
    TunedFunction
        A callable. Without options if none are faster than the default beyond the noise.

    Raises
    ------
    ConfigError
        A parameter out of range, a function that cannot be traced or exported, or arguments without values.
    Error
        The default cannot be compiled and run.
    KeyboardInterrupt
        Before anything is measured, or in the confirmation. In between Ctrl-C ends the search.

    Warns
    -----
    UserWarning
        When Ctrl-C has ended the search; when the ranker does not know the options of this version of XLA.

    Notes
    -----
    ``step = tg.xla.tune(step, state, batch, budget="60s")`` is all that a program needs.
    """
    began = time.monotonic()
    limit = Budget.of(budget)
    check_whole("confirm", confirm, 3, 100)
    for label, value in (("least", least), ("timeout", timeout), ("tolerance", tolerance)):
        if value is not None:
            check_number(label, value, 0, 1e9, above=True)
    program = Program(fn, args, name)
    tolerance = program.tolerance if tolerance is None else tolerance
    options = [one for one in without if one != _MEMORY]
    with ThreadPoolExecutor(1) as learner, Child(program.arguments, timeout) as child:
        learnt = None if ranker is not None and hasattr(ranker, "prior") else learner.submit(learn)
        child.ask("probe", options={})
        started = time.monotonic() - began
        states = child.memory(program.name, program.module, least)
        compiled = time.monotonic() - began - started
        space = Space(program, child, SPACES["options"], options)
        drawn = space.draw(check_whole("n_configs", n_configs, 2), np.random.default_rng([seed, 0]))
        built = space.compiled(drawn, child) if _needs_costs(ranker) else None
        graph = Graph(**space.fields(drawn, built), name=program.name)
        runs = _Runs(space, drawn, child, tolerance, least)
        base = None if learnt is None else learnt.result()
        known = base if ranker is None else ranker
        assert known is not None
        stages = runs.stages = Stages(graph, known, base, runs.known)
        given, kept = states["given"]["seconds"], states.get("kept", states["given"])["seconds"]
        keep = _MEMORY not in without and kept < _WORTH * given
        problem = f"{program.name} {fingerprint(program, drawn, {}, {})[:8]}"
        device = f"{child.device['device']}, {child.device['threads']} threads"
        if journal is not None:
            runs.describe(Journal(journal), stages.configs[0], problem, device)
        spent = time.monotonic() - began
        left: int | str = (limit.evaluations or 0) + 1
        if limit.seconds is not None:
            one = started + (1 + _FINALISTS) * (compiled + _TURNS * (least + 2 * kept))
            reserve = min(confirm * one, _SHARE * limit.seconds)
            left = f"{max(limit.seconds - spent - reserve, 0.1):.3f}s"
        elif limit.evaluations is None:
            left = "until no gain"
        found = search(
            runs.measure, Configs.from_table(stages.configs, stages.configs[0]), left, tuner=stages,
            journal=journal, problem=problem, device=device, reference=0, confirm=0, seed=seed,
            verbose=verbose,
        )  # fmt: skip
        best = runs.best(found.records)
        machine = child.device
    log.info("tune %s: %d measurements, confirming %d", program.name, found.evaluations - 1, len(best))
    proof = _Proof(program, space, [drawn[row] for row in best], timeout, least, keep)
    memory, judged = proof.rounds(confirm) if best or keep else (None, [])
    chosen = next((one for one in judged if one.config and one.interval[0] > 1), None)
    keep = memory is not None and memory.interval[0] > 1
    first = chosen or next((one for one in judged if one.config), None)
    return TunedFunction(
        fn, program.name, chosen.config if chosen else {}, keep, chosen.gain if chosen else 1.0,
        first.interval if first else None, memory, round(time.monotonic() - began, 2), machine,
        found.evaluations - 1, judged, found.records,
    )  # fmt: skip


def _needs_costs(ranker: Any) -> bool:
    """Return whether a ranker, or a member of an ensemble, learnt from costs."""
    schema = getattr(ranker, "schema", None)
    return any(map(_needs_costs, getattr(ranker, "rankers", ()))) if schema is None else has_costs(schema)


class _Runs:
    """Compile and time configs in one child."""

    def __init__(
        self, space: Space, drawn: list[Candidate], child: Child, tolerance: float, least: float
    ) -> None:
        self.space, self.drawn, self.child, self.tolerance, self.least = space, drawn, child, tolerance, least
        self._hashes: dict[int, str | Failed] = {}  # by row
        self.stages: Stages
        default = self._hash(0)  # its outputs are those that all others are compared with
        if isinstance(default, Failed):
            raise Error(f"{space.graph.name}: the default cannot be compiled and run: {default}")

    def describe(self, journal: Journal, config: dict[str, Any], problem: str, device: str) -> None:
        """Write the work of the program to a journal, for `learn`."""
        if any(one.problem == problem and WORK in one.environment for one in journal.read()):
            return
        work = json.dumps([float(f"{value:.9g}") for value in self.space.work])
        seconds = self.child.time(str(self._hash(0)), self.least)["seconds"]
        journal.append(Record(config, (1e3 * seconds,), problem=problem, device=device,
                              environment={**environment(), WORK: work}))  # fmt: skip

    def _hash(self, row: int) -> str | Failed:
        """Return the hash of a config's program, or why it has none."""
        if row not in self._hashes:
            try:
                answer = self.child.compile("", dict(self.drawn[row].options))
                error = answer["deviation"]
                wrong = Failed("correctness", f"relative error {error:.2g}")
                self._hashes[row] = answer["hash"] if error <= self.tolerance else wrong
            except ChildError as error:
                self._hashes[row] = Failed("compile", str(error))
        return self._hashes[row]

    def known(self, row: int) -> float | None:
        """Return the time of a config whose program was measured already."""
        found = self._hash(row)
        same = (time for other, time in self.stages.runtimes.items() if self._hash(other) == found)
        return next(same, None)

    def measure(self, config: dict[str, Any]) -> Outcome:
        """Time a config: milliseconds, the fastest runs of some passes."""
        row = self.stages.rows[key(config)]
        found = self._hash(row)
        if isinstance(found, Failed):
            raise found
        try:
            asked = [self.child.time(found, self.least) for _ in range(_PASSES)]
        except ChildError as error:
            raise Failed("runtime", str(error)) from None
        return Outcome(tuple(1e3 * one["seconds"] for one in asked))

    def best(self, records: Sequence[Record]) -> list[int]:
        """Return rows of the fastest that were faster than the default, one of each program."""
        rows, ran = self.stages.rows, [one for one in records if one.status == "correct"]
        good = sorted((one.runtime, rows[key(one.config)]) for one in ran)
        default = next((runtime for runtime, row in good if row == 0), 0.0)
        return [row for runtime, row in good if row and runtime < default][:_FINALISTS]


class _Proof:
    """Compare configs with the default in fresh processes."""

    def __init__(
        self, program: Program, space: Space, best: list[Candidate], timeout: float, least: float, keep: bool
    ) -> None:
        self.name, self.make = program.name, partial(Child, program.arguments, timeout)
        self.module, self.least, self.keep = partial(space.module, Candidate()), least, keep
        self.configs = [dict(one.options) for one in (*best, Candidate())]  # the default last

    def rounds(self, count: int) -> tuple[Memory | None, list[Finalist]]:
        """Return what memory brings, and the configs judged."""
        states: list[dict[str, dict[str, Any]]] = []
        turns: list[list[float]] = []
        for start in range(0, count, _AT_ONCE):
            with ExitStack() as stack, ThreadPoolExecutor(_AT_ONCE) as pool:
                children = [stack.enter_context(self.make()) for _ in range(min(_AT_ONCE, count - start))]
                list(pool.map(partial(Child.ask, do="probe", options={}), children))  # start together
                if self.keep:
                    states += [child.memory(self.name, self.module, self.least) for child in children]
                keys = list(pool.map(self._compile, children))
                turns += [self._turns(child, some, start) for child, some in zip(children, keys, strict=True)]
        judged = finalists(self.configs, turns, False) if len(self.configs) > 1 else []
        return self._memory(states), judged

    def _compile(self, child: Child) -> list[str]:
        child.add("", self.module)
        keys = [""] * len(self.configs)
        # The default first: a child that starts again begins with it.
        for number in reversed(range(len(keys))):
            with suppress(ChildError):  # `_turns` meets it again
                keys[number] = child.compile("", self.configs[number])["hash"]
        return keys

    def _turns(self, child: Child, keys: list[str], start: int) -> list[float]:
        """Return milliseconds of each program, the fastest of its turns."""
        times = np.full((_TURNS, len(keys)), np.nan)
        for turn in range(_TURNS):
            for place in range(len(keys)):
                number = (place + turn + start) % len(keys)
                with suppress(ChildError):  # NaN, and so it is for all turns
                    keys[number] = keys[number] or child.compile("", self.configs[number])["hash"]
                    times[turn, number] = 1e3 * child.time(keys[number], self.least)["seconds"]
        found: list[float] = times.min(0).tolist()
        return found

    def _memory(self, states: Sequence[dict[str, dict[str, Any]]]) -> Memory | None:
        both = [one for one in states if "kept" in one]
        if len(both) < 2:
            return None
        rounds = [[one["kept"]["seconds"], one["given"]["seconds"]] for one in both]
        (judged,) = (one for one in finalists([{"kept": True}, {}], rounds, False) if one.config)

        def middle(what: str) -> tuple[float, float]:
            return median(one["given"][what] for one in both), median(one["kept"][what] for one in both)

        return Memory(judged.gain, judged.interval, middle("faults"), middle("memory"))
