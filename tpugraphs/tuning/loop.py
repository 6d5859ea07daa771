"""The loop around a tuner: ask, measure, write down, tell; and the confirmation at its end."""

from __future__ import annotations

import fcntl
import hashlib
import json
import math
import os
import re
import time
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime
from statistics import fmean, median
from typing import Any, NamedTuple, Protocol

from tpugraphs.data.graph import Graph
from tpugraphs.data.schema import DIRECTIONS
from tpugraphs.distributed.farm import ExecutorLike, check_executor, check_kind
from tpugraphs.errors import ConfigError, Error
from tpugraphs.evaluation.scorer import Scorer
from tpugraphs.records import Journal, Record, read
from tpugraphs.system import Progress, absolute, check_choice, check_number, check_type, check_whole, counted
from tpugraphs.system.arguments import is_whole
from tpugraphs.tuning.measuring import Config, Measure, Runner
from tpugraphs.tuning.tuned import Tuned, finalists
from tpugraphs.tuning.tuner import Tuner

_UNITS = {"ms": 1e-3, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}
_FOREVER = 1_000_000  # evaluations
_STALE, _GAIN = 20, 0.01  # evaluations without such a gain, at least, after which none is likely
_BATCH = 8  # asked at once for an executor
_FIRST, _LEAST, _TIMES = 600.0, 1.0, 10  # most seconds of the first, of others, and times what was seen
_KIND = ("processor", "cores")  # that all measurements of a problem on a device share
_APART = "give each kind of machines its own device= and, if there is one, executor="
_FINALISTS = 3  # besides the default
_SHARE = 0.25  # of a budget of seconds that is kept for the confirmation, at most

clock = time.monotonic


class AskTell(Protocol):
    """What the loop needs of a tuner."""

    # Tuner documents each of these.
    # ruff: noqa: D102
    def ask(self, n: int = 1) -> list[Config]: ...
    def tell(self, configs: Sequence[Config], runtimes: Any, status: Any = None) -> object: ...


def tune(
    measure: Measure, space: Any, budget: int | str = 100, *, batch: int | None = None,
    timeout: float | str | None = None, executor: ExecutorLike | None = None,
    journal: str | os.PathLike[str] | None = None, direction: str = "minimize", seed: int = 0,
    graph: Graph | None = None, ranker: Scorer | None = None, records: Any = None,
    tuner: AskTell | None = None, problem: str = "", device: str = "",
    reference: int = 25, confirm: int = 5, verbose: bool | None = None,
) -> Tuned:  # fmt: skip
    """Find a good configuration by measuring some.

    The default of the space is measured first, then what the tuner asks for. At the end the three best and
    the default are measured again in turn, and these pairs alone decide: a gain within their noise is none,
    and the default is the answer then.

    Parameters
    ----------
    measure : callable
        Takes a config as a dict and returns its runtime, a positive number, or a list of them from repeats.
        Whatever it raises is a failure of that config; `tuning.Failed` says of which sort.
    space : Space
        The configs.
    budget : int or str
        Evaluations of the search, failed ones included; a time such as ``"90s"``, ``"5m"`` or ``"2h"``, which
        counts from this call; or ``"until no gain"``: as many evaluations as it took to find the best, and
        at least 20, have then brought less than 1 %. The confirmation adds to evaluations, and is part of a
        time.
    batch : int, optional
        Configs asked for at once; 1, or 8 for an executor.
    timeout : float or "auto", optional
        Seconds for one measurement, which then runs in a child process that is killed with its own children.
        ``"auto"``: ten times what nine of ten took, at least one second, and ten minutes for the first.
        By default measurements run in this process, without a limit.
    executor : Executor, optional
        Anything shaped like those of ``concurrent.futures``: measures a batch at once. The confirmation
        measures one after the other.
    journal : path, optional
        Every measurement is appended to this file as it ends. The same call goes on where an earlier one
        ended: it asks for the same configs in the same order, and measures only those that are missing.
    direction : str
        ``"minimize"``, or ``"maximize"`` for throughput.
    seed : int
        Of all that is random.
    graph, ranker, records
        What the tuner knows before, see `Tuner`.
    tuner : object, optional
        Your own, with `ask` and `tell`; it may depend on nothing but the measurements it was given.
    problem, device : str
        Names in the records. A journal may hold many problems and devices.
    reference : int
        The default is measured again after this many evaluations, to notice drift; 0 for never.
    confirm : int
        Rounds of the confirmation, 0 for none.
    verbose : bool, optional
        Show progress; by default in a terminal.

    Returns
    -------
    Tuned
        The answer, and everything that was measured.

    Raises
    ------
    ConfigError
        An argument that cannot be used; a journal of another seed, space or batch; a journal that another
        call is using for this problem and device; a worker, or a journal, whose processor or number of cores
        is another.
    Error
        All configs failed; the executor broke.
    OSError
        The journal cannot be written. What it holds is complete.
    KeyboardInterrupt
        Before anything is measured. After that Ctrl-C ends with what was measured.

    Warns
    -----
    UserWarning
        When Ctrl-C has ended the tuning.

    Notes
    -----
    ``tg.tune(measure, space, 200, journal="matmul.jsonl").config`` is the answer.
    """
    if not callable(measure):
        raise ConfigError(f"measure: expected a function of a config, got {type(measure).__name__}")
    check_choice("direction", direction, DIRECTIONS)
    check_whole("seed", seed, 0)
    check_whole("reference", reference, 0)
    if check_whole("confirm", confirm, 0, 1000) in (1, 2):
        raise ConfigError(f"confirm: expected 0 or at least 3 rounds, to see the noise, got {confirm}")
    size = check_whole("batch", (_BATCH if executor else 1) if batch is None else batch, 1, _FOREVER)
    if timeout != "auto" and timeout is not None:
        check_number("timeout", timeout, 0, 1e6, above=True)
    check_executor(executor)
    limit = Budget.of(budget)
    names = {"problem": check_type("problem", problem, str), "device": check_type("device", device, str)}
    with ExitStack() as stack:  # the runner is first: it may fork, before a tuner has threads
        runner = stack.enter_context(Runner(measure, timeout is not None, executor))
        kept = None if journal is None else absolute(journal)
        if kept is not None:
            stack.enter_context(_alone(kept, names))
        if tuner is None:
            prior: dict[str, Any] = {
                "graph": graph,
                "ranker": ranker,
                "records": _others(records, kept, names),
            }
            tuner = Tuner(space, seed=seed, direction=direction, problem=problem, device=device, **prior)
        bar = stack.enter_context(Progress(limit.evaluations, "tune", "config", verbose))
        run = _Run(runner, kept, names, space.default, tuner, limit, direction == "maximize", timeout, bar)
        return run.all(size, reference, confirm)


class Budget(NamedTuple):
    """When the search ends."""

    evaluations: int | None = None
    seconds: float | None = None

    @classmethod
    def of(cls, budget: Any) -> Budget:
        """Read a budget.

        Parameters
        ----------
        budget : int or str
            As in `tune`.

        Returns
        -------
        Budget
            Neither number means: until no gain is likely.

        Raises
        ------
        ConfigError
            Something else.
        """
        if isinstance(budget, str):
            if budget.isascii() and budget.isdigit() and len(budget) < 8:
                return cls.of(int(budget))
            if budget in ("until no gain", "until no gain is likely"):
                return cls()
            found = re.fullmatch(r"(\d{1,9}(?:\.\d{1,9})?)\s*(ms|s|min|m|h)", budget)
            if found and (seconds := float(found[1]) * _UNITS[found[2]]) > 0:
                return cls(None, seconds)
        elif is_whole(budget, 1, _FOREVER):
            return cls(int(budget))
        raise ConfigError(
            f"budget: expected a number of evaluations from 1 to {_FOREVER:,}, a time such as '60s', '5m' or "
            f"'2h', or 'until no gain', got {budget!r:.80}"
        )


class _Watch:
    """Seconds since it was made, by a clock that may stand still or run backwards."""

    def __init__(self) -> None:
        self._last, self._sum = clock(), 0.0

    def seconds(self) -> float:
        now = clock()
        self._sum, self._last = self._sum + max(now - self._last, 0.0), now
        return self._sum


def key(config: Mapping[str, Any]) -> str:
    """Return a text that is the same for equal configs, also after they were in a file."""
    return json.dumps(config, sort_keys=True, default=lambda value: value.item())


class _Run:
    """One call of `tune`."""

    def __init__(
        self, runner: Runner, path: str | None, names: dict[str, str], default: Config | None,
        tuner: AskTell, limit: Budget, maximize: bool, timeout: Any, bar: Progress,
    ) -> None:  # fmt: skip
        self.runner, self.default, self.tuner, self.limit = runner, default, tuner, limit
        self.names, self.maximize, self.timeout, self.bar = names, maximize, timeout, bar
        self.watch = _Watch()
        self.path, self.journal = path, None if path is None else Journal(path)
        self.past: dict[int, dict[str, Record]] = defaultdict(dict)
        self.kind: Mapping[str, str] = {}  # of machine, to which all measurements belong
        for record in self.journal.read() if self.journal is not None else ():
            if record.round is not None and {"problem": record.problem, "device": record.device} == names:
                self.past[record.round].setdefault(key(record.config), record)
                self.kind = self.kind or record.environment
        self.number = 0  # of the round
        self.search: list[Record] = []  # in the order asked
        self.again: list[Record] = []  # of the confirmation
        self.took: list[float] = []  # seconds of good ones of this call
        self.reasons: Counter[str] = Counter()

    # ---- measuring

    def seconds_left(self) -> Any:
        """Return the limit of the next measurement."""
        if self.timeout != "auto":
            return self.timeout
        if not self.took:
            return _FIRST
        return max(_LEAST, _TIMES * sorted(self.took)[int(0.9 * (len(self.took) - 1))])

    def measure(
        self, number: int, configs: Sequence[Config], more: Callable[[], bool] = lambda: True
    ) -> list[Record]:
        """Return records of a round, in the order of its configs; measure what is not in the journal."""
        found = dict(self.past[number])
        missing = [config for config in configs if key(config) not in found]
        for i, (outcome, environment) in self.runner.run(missing, self.seconds_left, more):
            self.kind = self.kind or environment
            kind = {name: self.kind[name] for name in _KIND if name in self.kind}
            check_kind(environment, kind, "tune", _APART)
            if outcome.status == "correct":
                self.took.append(outcome.seconds)
            else:
                self.reasons[f"{outcome.status}: {outcome.reason}"] += 1
            record = Record(
                config={**missing[i]}, runtimes=outcome.runtimes, status=outcome.status, round=number,
                compile=outcome.compile, environment=environment, **self.names,
                time=datetime.now(UTC).isoformat(timespec="seconds"),
            )  # fmt: skip
            if self.journal is not None:
                self.journal.append(record)
            found[key(record.config)] = self.past[number][key(record.config)] = record
            self.bar.update(int(number >= 0))
        return [found[one] for config in configs if (one := key(config)) in found]

    # ---- searching

    def all(self, size: int, reference: int, confirm: int) -> Tuned:
        """Search and confirm; Ctrl-C ends with what was measured."""
        best: list[Config] = []
        turns: list[list[float]] = []
        interrupted = False
        try:
            self.rounds(size, reference, confirm)
            best = self.best() if confirm else []
            turns = list(self.turns(best, confirm))
        except KeyboardInterrupt:
            self.search += [one for one in self.past[self.number].values() if one not in self.search]
            if all(one.status != "correct" for one in self.search):
                raise
            interrupted = True
            kept = f"; the same call goes on from {self.path}" if self.path else ""
            done = counted(sum(map(len, self.past.values())), "measurement")
            warnings.warn(f"interrupted after {done}{kept}", stacklevel=3)
        return self.tuned(best, turns, interrupted)

    def rounds(self, size: int, reference: int, confirm: int) -> None:
        """Ask, measure and tell, until the budget is spent or the space is."""
        last, failed = 0, set[str]()
        for number in range(_FOREVER):
            self.number, default = number, [] if self.default is None else [self.default]
            asked, probe = default, 0
            if number:
                asked = self.tuner.ask(size)
                if again := [config for config in asked if key(config) in failed]:
                    raise Error(f"tuner: asked again for {again[0]}, which failed")
                if not asked:
                    return
                probe = int(self.due(reference, last) and self.default not in asked)
            if probe:
                last, asked = len(self.search), [*default, *asked]
            self.check(number, asked)
            left = len(asked) if self.limit.evaluations is None else self.limit.evaluations - len(self.search)
            found = self.measure(number, asked[:left], lambda: not (self.search and self.late(confirm)))
            self.search += found
            failed |= {key(record.config) for record in found if record.status != "correct"}
            if new := found[probe:]:
                status = [record.status for record in new]
                self.tuner.tell([one.config for one in new], [one.runtime for one in new], status)
            if len(found) < len(asked) or self.spent() or self.late(confirm):
                return

    def due(self, reference: int, last: int) -> bool:
        """Return whether it is time to measure the default again."""
        works = self.default is not None and self.search[0].status == "correct"
        return works and 0 < reference <= len(self.search) - last

    def check(self, number: int, asked: Sequence[Config]) -> None:
        """Refuse a journal that holds something else of this round."""
        known = {key(config) for config in asked}
        for text in self.past[number]:
            if text not in known:
                expected = ", ".join(map(str, asked[:3]))
                raise ConfigError(
                    f"{self.path}: round {number}: expected {expected}, found {text}: it was written with "
                    "another seed, space, batch, direction or prior knowledge; call with the same, or choose "
                    "another journal and give this one as records="
                )

    def late(self, confirm: int) -> bool:
        """Return whether the time is spent but for the confirmation."""
        if self.limit.seconds is None:
            return False
        kept = (_FINALISTS + 1) * confirm * fmean(self.took or [0.0])
        return self.watch.seconds() >= self.limit.seconds - min(kept, _SHARE * self.limit.seconds)

    def spent(self) -> bool:
        """Return whether evaluations are spent, or no gain is likely."""
        if self.limit.seconds is not None:
            return False
        if self.limit.evaluations is not None:
            return len(self.search) >= self.limit.evaluations
        best, at = math.inf, 0
        for number, cost in enumerate(map(self.cost, self.search), 1):
            if cost < best and not (best < math.inf and abs(best - cost) < _GAIN * abs(best)):
                best, at = cost, number
        return len(self.search) - at >= max(at, _STALE)

    def cost(self, record: Record) -> float:
        """Return the value to minimize; infinity after a failure."""
        if record.status != "correct":
            return math.inf
        value: float = record.runtime
        return 1 / value if self.maximize else value

    # ---- confirming

    def best(self) -> list[Config]:
        """Return the finalists, the default last, or without one the best; none if there is one alone."""
        costs = {key(one.config): (self.cost(one), one.config) for one in reversed(self.search)}
        good = sorted((pair for pair in costs.values() if pair[0] < math.inf), key=lambda pair: pair[0])
        found = [config for _, config in good]
        if self.default is None or key(self.default) not in map(key, found):
            return [*found[1:_FINALISTS], found[0]] if len(found) > 1 else []
        others = [config for config in found if key(config) != key(self.default)]
        return [*others[:_FINALISTS], self.default] if others else []

    def turns(self, configs: Sequence[Config], confirm: int) -> Iterator[list[float]]:
        """Measure finalists in turn and yield the runtimes of each round; its numbers are below zero.

        Rounds of an earlier call are used if they are of these finalists.
        """
        keys = set(map(key, configs))
        known = [number for number in sorted(self.past, reverse=True) if number < 0 and self.past[number]]
        numbers = [number for number in known if set(self.past[number]) <= keys]
        first = min(known, default=0) - 1
        numbers += range(first, first - confirm, -1)
        for turn, number in enumerate(numbers[:confirm] if configs else ()):
            start = turn % len(configs)
            order = [*configs[start:], *configs[:start]]
            found = {key(config): self.measure(number, [config])[0] for config in order}  # one at a time
            self.again += found.values()
            yield [found[key(config)].runtime for config in configs]

    # ---- answering

    def tuned(self, best: Sequence[Config], rounds: Sequence[Sequence[float]], interrupted: bool) -> Tuned:
        """Make the answer."""
        good = [one for one in self.search if one.status == "correct"]
        if not good:
            why = "; ".join(f"{times:,} × {text}" for text, times in self.reasons.most_common(3))
            all_of = f"all of {counted(len(self.search), 'config')}"
            raise Error(f"measure: {all_of} failed: {why or 'in an earlier call'}")
        judged = finalists(best, rounds, self.maximize)
        top = min(good, key=self.cost)
        defaults = [one for one in good if one.config == self.default]
        config, runtime, interval = top.config, top.runtime, None
        gain = self.cost(defaults[0]) / self.cost(top) if defaults else math.nan
        if judged:
            plain = next(one for one in judged if one.config == best[-1])
            chosen = next((one for one in judged if one.interval[0] > 1), plain)
            config, runtime = chosen.config, chosen.runtime
            if plain.config == self.default:
                gain, interval = chosen.gain, chosen.interval
        repeated = [one.runtime for one in defaults]
        half = len(repeated) // 2
        return Tuned(
            config, runtime, self.default, gain, interval, judged, [*self.search, *self.again],
            len(self.search), dict(Counter(one.status for one in self.search if one.status != "correct")),
            dict(self.reasons), median(repeated[-half:]) / median(repeated[:half]) if half else None,
            self.watch.seconds(), interrupted, DIRECTIONS[self.maximize], self.tuner,
        )  # fmt: skip


def _others(records: Any, kept: str | None, names: Mapping[str, str]) -> Any:
    """Return records without those in the call's own journal of its problem and device, which are resumed."""
    if records is None or kept is None:
        return records
    given = [records] if isinstance(records, (str, os.PathLike, Record)) else list(records)
    own, found = [*names.values()], list[Any]()
    for one in given:
        if isinstance(one, Record) or absolute(one) != kept:
            found.append(one)
        else:
            found += [record for record in read(one) if [record.problem, record.device] != own]
    return found


@contextmanager
def _alone(path: str, names: Mapping[str, str]) -> Iterator[None]:
    """Lock a problem and device of a journal against other calls, by a file next to it.

    The lock is not that of children, so workers that outlive this process keep none.
    """
    own = hashlib.sha256(json.dumps([*names.values()]).encode()).hexdigest()[:12]
    lock = f"{path}.{own}.lock"
    handle = os.open(lock, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        os.close(handle)
        text = "another call tunes this problem with this journal; wait for its end, or use another"
        raise ConfigError(f"{path}: {text}") from None
    try:
        yield
    finally:
        with suppress(OSError):
            os.unlink(lock)
        os.close(handle)
