"""The yardstick of tuners: exhaustively measured spaces that are replayed, and score P of Willemsen et al.

A tuner asks for configs of a measured space and is told what is in its table, so no device is needed. Score
P (doi 10.1016/j.future.2024.05.021) is ``(baseline - F) / (baseline - optimum)``: F is the mean over repeats
of the best found so far, the baseline what random search without replacement is expected to have found after
as many evaluations. P is averaged over the evaluations of a window: from where the baseline has come 1 % of
the way from the median to the optimum, to where it has come 95 %. 0 = as random search, 1 = optimum at once.

Here on the axis of evaluations. A config that failed costs one evaluation and has no runtime. Before anything
ran, the best found so far counts as the worst of the space, which is the baseline after 0 evaluations, too.
Needs NumPy only.
"""

from __future__ import annotations

import gzip
import json
import math
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

KERNELS, DEVICES = ("convolution", "dedispersion"), ("A100", "A4000", "A6000", "W6600")
CUTOFFS = (0.01, 0.95)
WITHIN = 1.05  # of the optimum: what "close to the optimum" means
LEAST = 100  # evaluations of a replay
PARTS = ("compilation", "compilation_time", "framework", "search_algorithm", "validation")  # of an evaluation
Floats = NDArray[np.float64]
Rows = NDArray[np.int64]


class Asked(Protocol):
    """What a tuner must have to be replayed; it has nothing left to ask when `ask` returns an empty list."""

    def ask(self, n: int) -> list[dict[str, Any]]: ...

    def tell(self, configs: list[dict[str, Any]], runtimes: list[float], status: list[str]) -> Any: ...


@dataclass(frozen=True, eq=False)
class Measured:
    """A space of which every config was measured: ``runtimes`` (N,) in ms, nan = failed."""

    kernel: str
    device: str
    configs: list[dict[str, Any]]
    runtimes: Floats
    status: list[str]
    seconds: Floats  # (N,) that an evaluation took, compiling included
    values: dict[str, list[Any]] = field(default_factory=dict)  # of each parameter, in order

    @property
    def name(self) -> str:
        return f"{self.kernel} {self.device}"

    @cached_property
    def optimum(self) -> float:
        return float(np.nanmin(self.runtimes))

    @cached_property
    def worst(self) -> float:
        return float(np.nanmax(self.runtimes))

    @cached_property
    def window(self) -> tuple[int, int]:
        return window(self.runtimes)

    @cached_property
    def evaluations(self) -> int:
        """Evaluations of a replay: the window, and half of what random search needs to come within 5 %."""
        return max(self.window[1], LEAST, -(-random_until_close(self) // 2))

    @cached_property
    def codes(self) -> NDArray[np.int32]:
        """Codes (N, P) of the configs: the place of each value among those of its parameter."""
        places = {name: {value: i for i, value in enumerate(has)} for name, has in self.values.items()}
        return np.array([[places[n][c[n]] for n in self.values] for c in self.configs], np.int32)

    @cached_property
    def rows(self) -> dict[tuple[Any, ...], int]:
        """Rows of the table, by the values of a config in the order of ``values``."""
        return {tuple(config[name] for name in self.values): i for i, config in enumerate(self.configs)}

    def row(self, config: dict[str, Any]) -> int:
        """Row of a config in the table; KeyError if it isn't in the space."""
        return self.rows[tuple(config[name] for name in self.values)]


def data_folder() -> Path:
    """Folder of the measurements: in ``TPUGRAPHS_DATA``, or next to the checkout."""
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    return Path(os.environ.get("TPUGRAPHS_DATA") or beside) / "measured"


def path_of(kernel: str, device: str, data: Path | None = None) -> Path:
    return (data or data_folder()) / f"kernel_tuner_{kernel}_{device}_T4.json.gz"


def missing(data: Path | None = None) -> str | None:
    """Why there is nothing to replay, None if there is."""
    paths = [path_of(kernel, device, data) for kernel in KERNELS for device in DEVICES]
    absent = [path for path in paths if not path.exists()]
    return f"no {absent[0].name} in {absent[0].parent}" if absent else None


def load_space(kernel: str, device: str, data: Path | None = None) -> Measured:
    """Read one space."""
    with gzip.open(path_of(kernel, device, data)) as file:
        results = json.load(file)["results"]
    configs = [result["configuration"] for result in results]
    ran = [result["invalidity"] == "correct" for result in results]
    runtimes = [r["measurements"][0]["value"] if ok else math.nan for r, ok in zip(results, ran, strict=True)]
    spent = [
        sum(times.get(part, 0.0) for part in PARTS) + sum(times.get("runtimes", ()))
        for times in (result["times"] for result in results)
    ]
    values = {name: sorted({config[name] for config in configs}) for name in configs[0]}
    status = [result["invalidity"] for result in results]
    return Measured(kernel, device, configs, np.array(runtimes), status, np.array(spent) / 1000, values)


def load_spaces(
    kernels: Sequence[str] = KERNELS, devices: Sequence[str] = DEVICES, data: Path | None = None
) -> list[Measured]:
    """Read the spaces, in the order of kernels and then devices."""
    return [load_space(kernel, device, data) for kernel in kernels for device in devices]


# ---- baseline and window --------------------------------------------------------------------------------


def baseline(runtimes: Floats, evaluations: Any) -> Floats:
    """What random search without replacement is expected to have found after these numbers of evaluations."""
    worst_first = np.sort(runtimes[~np.isnan(runtimes)])[::-1]
    count, spent = len(worst_first), np.asarray(evaluations, np.float64)
    place = np.rint(spent * (count + 1) / (spent + 1)).astype(np.int64)
    return worst_first[np.minimum(count - 1, place)]


def window(runtimes: Floats, cutoffs: tuple[float, float] = CUTOFFS) -> tuple[int, int]:
    """First and last number of evaluations that score P counts."""
    start, end = (_until(runtimes, cutoff) for cutoff in cutoffs)
    if end - start < 2:  # as the methodology widens it
        start, end = (0, end + 2) if start == 0 else (start - 1, end + 1)
    return start, end


def _until(runtimes: Floats, cutoff: float) -> int:
    """Evaluations until random search is expected this far on the way from the median to the optimum."""
    worst_first = np.sort(runtimes[~np.isnan(runtimes)])[::-1]
    count, optimum = len(worst_first), worst_first[-1]
    target = optimum + (np.median(worst_first) - optimum) * (1 - cutoff)
    place = int(np.argmax(worst_first <= target))
    if worst_first[place] == optimum:
        place -= 1
    return math.ceil(place / (count + 1 - place))


# ---- curves and scores ----------------------------------------------------------------------------------


def curve(order: Sequence[int] | Rows, space: Measured, evaluations: int | None = None) -> Floats:
    """Best runtime found after 0, 1, 2, ... evaluations of these rows, as long as a replay unless given.

    After a tuner has nothing left to ask, its best stands.
    """
    length = space.evaluations if evaluations is None else evaluations
    measured = space.runtimes[np.asarray(order[:length], np.int64)]
    padded = np.full(length + 1, space.worst)
    padded[1 : len(measured) + 1] = np.where(np.isnan(measured), space.worst, measured)
    return np.minimum.accumulate(padded)


def score_p(curves: Any, space: Measured) -> Floats:
    """Return score P of each repeat (R,): its mean is score P of the tuner, since P is linear in F.

    ``curves`` (R, 1 + evaluations) hold the best runtime after 0, 1, 2, ... evaluations, up to the end of the
    window at least.
    """
    found = np.atleast_2d(np.asarray(curves, np.float64))
    start, end = space.window
    base = baseline(space.runtimes, np.arange(start, end + 1))
    return np.mean((base - found[:, start : end + 1]) / (base - space.optimum), axis=1)


def score_p_time(orders: NDArray[np.int32], own: Floats, space: Measured, points: int = 10_000) -> Floats:
    """Return score P of each repeat on the axis of time: what evaluating and the tuner itself took.

    The window is that of the evaluations times the median time of one. The baseline evaluates as many configs
    as fit by their mean time, and takes no time itself. Own time is spread evenly over the evaluations.
    """
    start, end = np.array(space.window) * np.median(space.seconds)
    times = np.linspace(start, end, points)
    ran = ~np.isnan(space.runtimes)
    each = np.mean(space.seconds[ran])
    if not ran.all():  # the authors' mean
        each += np.mean(~ran) * np.mean(space.seconds[~ran])
    base = baseline(space.runtimes, np.maximum(1, np.rint(times / each)))
    scores = []
    for line, seconds in zip(orders, own, strict=True):
        order = line[line >= 0]
        ended = np.cumsum(space.seconds[order] + seconds / max(1, len(order)))
        found = curve(order, space, len(order))[np.searchsorted(ended, times, side="right")]
        scores.append(np.mean((base - found) / (base - space.optimum)))
    return np.array(scores)


def until_close(order: Sequence[int] | Rows, space: Measured) -> float:
    """Evaluations until a config within 5 % of the optimum was measured; inf if none was."""
    close = np.flatnonzero(space.runtimes[np.asarray(order, np.int64)] <= WITHIN * space.optimum)
    return float(close[0] + 1) if len(close) else math.inf


def random_until_close(space: Measured, quantile: float = 0.5) -> int:
    """Evaluations until random search without replacement has one within 5 % with this probability."""
    total, close = len(space.runtimes), int(np.sum(space.runtimes <= WITHIN * space.optimum))
    left = 1.0  # probability that none was drawn
    for drawn in range(total):
        left *= (total - close - drawn) / (total - drawn)
        if left <= 1 - quantile:
            return drawn + 1
    return total


def interval(scores: Floats, draws: int = 2000, level: float = 0.95) -> tuple[float, float]:
    """Bootstrap interval of a mean over repeats; of scores (S, R) of spaces, of the mean over both."""
    table = np.atleast_2d(scores)
    rng = np.random.default_rng(0)
    means = np.mean([row[rng.integers(0, len(row), (draws, len(row)))].mean(axis=1) for row in table], axis=0)
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


# ---- replay ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Replayed:
    """The rows that a tuner evaluated, in order, and the processor seconds that it took itself."""

    order: list[int]
    own: float


def replay(
    make: Callable[[], Asked],
    space: Measured,
    evaluations: int | None = None,
    batch: int = 1,
    limit: float = math.inf,
) -> Replayed:
    """Let a tuner ask until the replay ends or it took `limit` seconds; what it asks again counts once."""
    length = space.evaluations if evaluations is None else evaluations
    order, seen, own, idle = list[int](), set[int](), 0.0, 0
    began = time.process_time()
    tuner = make()
    own += time.process_time() - began
    while len(order) < length and idle < 100 and own < limit:
        began = time.process_time()
        configs = tuner.ask(min(batch, length - len(order)))
        own += time.process_time() - began
        if not configs:
            break
        rows = [space.row(config) for config in configs]
        fresh = [row for row in dict.fromkeys(rows) if row not in seen]
        idle = 0 if fresh else idle + 1
        order += fresh
        seen.update(fresh)
        began = time.process_time()
        tuner.tell(configs, [float(space.runtimes[r]) for r in rows], [space.status[r] for r in rows])
        own += time.process_time() - began
    return Replayed(order, own)


class Runs:
    """Repeats of a tuner on a space, in one npz file: what is written stays when more are added."""

    def __init__(self, evaluations: int) -> None:
        self.orders = np.empty((0, evaluations), np.int32)  # -1 after the last
        self.own = np.empty(0)  # seconds of each

    def __len__(self) -> int:
        return len(self.orders)

    @property
    def lengths(self) -> Rows:
        return np.sum(self.orders >= 0, axis=1)

    def add(self, replayed: Replayed) -> None:
        line = np.full((1, self.orders.shape[1]), -1, np.int32)
        line[0, : len(replayed.order)] = replayed.order
        self.orders = np.concatenate([self.orders, line])
        self.own = np.append(self.own, replayed.own)

    def curves(self, space: Measured) -> Floats:
        """Best found (R, 1 + evaluations)."""
        return np.array([curve(line[line >= 0], space) for line in self.orders])

    @classmethod
    def read(cls, path: Path) -> Runs:
        with np.load(path) as file:
            made = cls(file["orders"].shape[1])
            made.orders, made.own = file["orders"], file["own"]
        return made

    def write(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        beside = path.with_suffix(".part.npz")
        np.savez_compressed(beside, orders=self.orders, own=self.own)
        beside.replace(path)


def runs_path(folder: Path, tuner: str, space: Measured) -> Path:
    return folder / f"{tuner}-{space.kernel}-{space.device}.npz"
