"""The choice of graph and configs of every visit of a fit in NumPy, with float64 arithmetic."""

import math
from collections.abc import Iterable
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from tpugraphs import _core, kernels
from tpugraphs.kernels.streams import Stream

Key = tuple[int, ...]
_WINDOWS = 4  # windows of close runtimes are at most this many slates long
_RESOLUTION = 1 << 53


class Visits(Protocol):
    """Order in which graphs are visited. In `period` visits even the rarest graph comes about once."""

    epoch: int  # visits
    period: int

    def at(self, visit: int) -> tuple[int, int]:
        """Return the graph of a visit, and how often it was visited before."""

    def rows(self, index: int, before: int, count: int, most: int, key: Key) -> NDArray[np.int64]:
        """Return configs of a visit: at most `most` of the graph's `count`, each once per walk over all."""
        return kernels.sample_epoch(count, min(most, count), (*key, index), before)


class EvenVisits(Visits):
    """Every one of `count` graphs once per epoch, in an order that follows from `key`."""

    def __init__(self, count: int, key: Key) -> None:
        self.count = self.epoch = self.period = count
        self.key = key

    def at(self, visit: int) -> tuple[int, int]:
        """Return the graph of a visit, and how often it was visited before."""
        return int(kernels.sample_epoch(self.count, 1, self.key, visit)[0]), visit // self.count


class WeightedVisits(Visits):
    """Graphs in proportion to weights, in random order. An epoch has as many visits as there are graphs.

    In every epoch a graph comes its share of times, rounded down or up (systematic sampling with a
    random start; Madow 1949). Over the epochs its share is exact to within one visit.

    Parameters
    ----------
    weights : (n,) numbers
        Not negative, at least one positive. A graph of weight 0 is never visited.
    key : ints
        Of the random stream.
    """

    def __init__(self, weights: Iterable[float], key: Key) -> None:
        given = np.array(list(weights), np.float64)
        self.count, self.epoch, self.key = given.size, given.size, key
        ends = np.cumsum(given) / given.sum() * given.size
        ends[np.flatnonzero(given)[-1] :] = given.size  # despite rounding
        self._ends = np.concatenate([[0.0], ends])
        self.period = math.ceil(given.sum() / given[given > 0].min())
        self._epoch, self._before = -1, np.zeros(given.size, np.int64)
        self._order = self._times = self._before[:0]

    def _counts(self, epoch: int) -> NDArray[np.int64]:
        start = _uniform((*self.key, epoch))
        return np.diff(np.floor(self._ends + start)).astype(np.int64)

    def _go_to(self, epoch: int) -> None:
        if epoch < self._epoch:
            self._epoch, self._before = -1, np.zeros(self.count, np.int64)
        while self._epoch < epoch:
            if self._epoch >= 0:
                self._before = self._before + self._counts(self._epoch)
            self._epoch += 1
        counts = self._counts(epoch)
        visits = np.repeat(np.arange(self.count), counts)
        # Number of a visit among those of the same graph in this epoch.
        times = np.arange(self.count) - np.repeat(np.cumsum(counts) - counts, counts)
        shuffle = kernels.sample_without_replacement(self.count, self.count, (*self.key, epoch, 1))
        order = visits[shuffle]
        ranks = np.empty(self.count, np.int64)
        ranks[np.argsort(order, kind="stable")] = times
        self._order, self._times = order, self._before[order] + ranks

    def at(self, visit: int) -> tuple[int, int]:
        """Return the graph of a visit, and how often it was visited before."""
        epoch, place = divmod(visit, self.count)
        if epoch != self._epoch:
            self._go_to(epoch)
        return int(self._order[place]), int(self._times[place])


class OversampledVisits(Visits):
    """Visit graphs by the root of their number of configs, and draw configs, as the fifth place did.

    An epoch draws ``floor(sqrt(c * c_max))`` configs from a graph of c: each about equally often, in random
    order. They are cut into slates, the last of which is filled from the first. The slates of all graphs come
    in random order; those that would not fill the last step of an epoch are left out.

    Parameters
    ----------
    counts : (n,) ints
        Configs of each graph, at least one of them positive.
    configs : int
        Draws of a slate.
    each : int
        Slates of a step.
    key : ints
        Of the random stream.
    """

    def __init__(self, counts: Iterable[int], configs: int, each: int, key: Key) -> None:
        given = np.array(list(counts), np.int64)
        self.draws = np.sqrt(given * float(given.max())).astype(np.int64)
        self.slates = -(-self.draws // configs)
        self.configs, self.key = configs, key
        self._ends = np.cumsum(self.slates)
        self.count = int(self._ends[-1])
        self.epoch = self.period = self.count // each * each or self.count

    def at(self, visit: int) -> tuple[int, int]:
        """Return the graph of a visit, and which of its slates."""
        epoch, place = divmod(visit, self.epoch)
        slate = int(kernels.sample_epoch(self.count, 1, (*self.key, 0), epoch * self.count + place)[0])
        index = int(np.searchsorted(self._ends, slate, side="right"))
        return index, int(epoch * self.slates[index] + slate - (self._ends[index] - self.slates[index]))

    def rows(self, index: int, slate: int, count: int, *_: object) -> NDArray[np.int64]:
        """Return the configs of a slate, of `count` that the graph has; some may come twice."""
        draws, (epoch, part) = int(self.draws[index]), divmod(slate, int(self.slates[index]))
        places = (part * self.configs + np.arange(self.configs)) % draws + epoch * draws
        key = (*self.key, 1, index)
        drawn = [int(kernels.sample_epoch(draws, 1, key, int(place))[0]) for place in places]
        return np.array(drawn, np.int64) % count


def _below(bound: int, key: Key) -> int:
    return int(kernels.sample_without_replacement(bound, 1, key)[0])


def _uniform(key: Key) -> float:
    return _below(_RESOLUTION, key) / _RESOLUTION


def happens(chance: float, key: Key) -> bool:
    """Return True with that chance (0 to 1), as a function of the key."""
    return chance > 0 and _uniform(key) < chance


def close_rows(order: NDArray[np.int64], k: int, key: Key) -> NDArray[np.int64]:
    """Draw k configs with close runtimes from a random window of configs in the order of their runtimes.

    The window is 1 to 4 times k configs long, at most all of them. The first place had this as an option.

    Parameters
    ----------
    order : (C,) int64
        Configs by runtime.
    k : int
        At most C.
    key : ints

    Returns
    -------
    (k,) int64
    """
    window = min(order.size, k * (1 + _below(_WINDOWS, (*key, 0))))
    start = _below(order.size - window + 1, (*key, 1))
    return order[start + kernels.sample_without_replacement(window, k, (*key, 2))]


def any_rows(count: int, k: int, key: Key) -> NDArray[np.int64]:
    """Draw k of `count` configs independently: the second place's slates may have one twice.

    Parameters
    ----------
    count, k : int
        At least 1.
    key : ints

    Returns
    -------
    (k,) int64
    """
    drawn = kernels.sample_without_replacement(_RESOLUTION, k, key) * (count / _RESOLUTION)
    return np.minimum(drawn.astype(np.int64), count - 1)


def fast_rows(order: NDArray[np.int64], k: int, temperature: float, key: Key) -> NDArray[np.int64]:
    """Draw k configs, fast ones more often: the official baseline draws its slates like this.

    Configs are drawn one by one without replacement, in proportion to ``exp((1 - place / C) / temperature)``,
    where place 0 is the fastest. This is Gumbel top-k sampling (Kool et al. 2019) by exponential clocks, of
    which the Gumbel noise is the logarithm: the first k to ring are drawn.

    Parameters
    ----------
    order : (C,) int64
        Configs by runtime.
    k : int
        From 1 to C.
    temperature : float
        The chances of the fastest and the slowest config to be drawn next differ by a factor of almost
        ``exp(1 / temperature)``.
    key : ints

    Returns
    -------
    (k,) int64
    """
    count = order.size
    uniform = (1.0 + kernels.sample_without_replacement(_RESOLUTION, count, key)) / _RESOLUTION
    rings = -np.log(uniform) * np.exp(np.arange(count) / (count * temperature))
    first = np.argpartition(rings, k - 1)[:k]
    return order[first[np.argsort(rings[first], kind="stable")]]


class FitVisits:
    """What a fit with these fields chooses: `_core.Visits` must choose the same."""

    def __init__(
        self,
        counts: NDArray[np.int64],
        seed: int,
        configs: int,
        each: int = 1,
        graph_sampling: str = "even",
        config_sampling: str = "even",
        close: float = 0.0,
        config_temperature: float = 1.0,
    ) -> None:
        self.seed, self.configs, self.sampling = seed, configs, config_sampling
        self.close, self.temperature = close, config_temperature
        self.visits: Visits = EvenVisits(len(counts), (seed, Stream.ORDER))
        if graph_sampling == "sqrt-configs" and counts.any():
            self.visits = OversampledVisits(counts, configs, each, (seed, Stream.ORDER))
        if graph_sampling == "slates" and counts.any():
            self.visits = WeightedVisits(np.maximum(counts // configs, counts > 0), (seed, Stream.ORDER))

    def rows(self, visit: int, prepared: _core.Prepared) -> NDArray[np.int64]:
        """Return the configs of a visit; keys count visits from 1."""
        count, number = min(self.configs, prepared.num_configs), visit + 1
        if happens(self.close, (self.seed, Stream.CLOSE, number, 0)):
            return close_rows(prepared.by_runtime, count, (self.seed, Stream.CLOSE, number, 1))
        if self.sampling == "replacement":
            return any_rows(prepared.num_configs, self.configs, (self.seed, Stream.ROWS, number))
        if self.sampling == "gumbel":
            return fast_rows(prepared.by_runtime, count, self.temperature, (self.seed, Stream.FAST, number))
        index, before = self.visits.at(visit)
        return self.visits.rows(index, before, prepared.num_configs, self.configs, (self.seed, Stream.ROWS))
