"""Data parallelism: the time of an all-reduce, and links fitted to measured steps."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tpugraphs.errors import ConfigError
from tpugraphs.layertime.networks.layer import Layer, table_of
from tpugraphs.system.arguments import check_number
from tpugraphs.system.words import counted

__all__ = ["Scaling", "exposed_ms", "fit_factor", "fit_scaling", "gradient_bytes", "ring_ms"]

Floats = NDArray[np.float64]
_SGD_PASSES = 3  # SGD reads weights and gradients, and writes weights
_MOST_GBPS, _MOST_MS = 1e4, 1e3  # of a link that is fitted


@overload
def ring_ms(gradient_bytes: float, replicas: int, link_gbps: float, latency_ms: float = 0.0) -> float: ...
@overload
def ring_ms(
    gradient_bytes: ArrayLike, replicas: ArrayLike, link_gbps: ArrayLike, latency_ms: ArrayLike = 0.0
) -> float | Floats: ...
def ring_ms(
    gradient_bytes: ArrayLike, replicas: ArrayLike, link_gbps: ArrayLike, latency_ms: ArrayLike = 0.0
) -> float | Floats:
    """Return the time of a ring all-reduce in milliseconds.

    Each of n replicas sends and receives 2 (n - 1) / n of the bytes, in 2 (n - 1) turns: Patarasuk and Yuan,
    Bandwidth optimal all-reduce algorithms for clusters of workstations (2009).

    Parameters
    ----------
    gradient_bytes : float or array
    replicas : int or array
    link_gbps : float or array
        1e9 bytes per second, in each direction, of the slowest link in the ring.
    latency_ms : float or array
        Latency of a turn.

    Returns
    -------
    float or array
        Of the shape that the arguments broadcast to; 0 for a single replica.
    """
    n = np.asarray(replicas, np.float64)
    sent = 2 * (n - 1) / n * np.asarray(gradient_bytes, np.float64)
    found = sent / (np.asarray(link_gbps, np.float64) * 1e6) + 2 * (n - 1) * np.asarray(latency_ms)
    return float(found) if found.ndim == 0 else found


@overload
def exposed_ms(link_ms: float, compute_ms: float, overlap: float = 0.0) -> float: ...
@overload
def exposed_ms(link_ms: ArrayLike, compute_ms: ArrayLike, overlap: ArrayLike = 0.0) -> float | Floats: ...
def exposed_ms(link_ms: ArrayLike, compute_ms: ArrayLike, overlap: ArrayLike = 0.0) -> float | Floats:
    """Return the part of the communication that computing does not hide, in ms.

    Parameters
    ----------
    link_ms, compute_ms : float or array
    overlap : float or array
        Share of the time of computing, 0 to 1, in which gradients are already sent.

    Returns
    -------
    float or array
        Milliseconds.
    """
    found = np.maximum(0.0, np.asarray(link_ms) - np.asarray(overlap) * np.asarray(compute_ms))
    return float(found) if found.ndim == 0 else found


def gradient_bytes(layers: Sequence[Layer]) -> float:
    """Return the bytes of the gradients of layers of known kinds, from the work of their kinds.

    Weights are float32. Biases are left out; tables of embeddings count whole. Weights that two layers share
    count twice.
    """
    total = 0.0
    for layer in layers:
        if layer.kind is not None:
            table = table_of(layer.kind, [layer], 1, "SGD")
            total += float(table.kind.work(table.columns).update[0]) / _SGD_PASSES
    return total


def fit_factor(predicted_ms: ArrayLike, measured_ms: ArrayLike) -> float:
    """Return how much sums of layers over-estimate whole networks: the median of predicted / measured.

    Layers are measured one by one, and each waits for its own start, which a network hides. Divide by the
    factor: ``network_time(..., factor=...)``.

    Parameters
    ----------
    predicted_ms, measured_ms : (n,) float
        Of the same networks.

    Returns
    -------
    float
        Above 1 if sums are too large.

    Raises
    ------
    ConfigError
        Different lengths, none at all, or a time that is not a finite number above 0.
    """
    predicted, measured = _positive(predicted_ms=predicted_ms, measured_ms=measured_ms)
    return float(np.median(predicted / measured))


@dataclass(frozen=True)
class Scaling:
    """A link between devices, and how much of its time is hidden.

    Attributes
    ----------
    link_gbps : float
        1e9 bytes per second.
    latency_ms : float
    overlap : float
        See `exposed_ms`.
    """

    link_gbps: float
    latency_ms: float = 0.0
    overlap: float = 0.0

    def together_per_s(
        self, replicas: ArrayLike, alone_per_s: ArrayLike, gradient_bytes: ArrayLike
    ) -> Floats:
        """Return steps per second of all replicas together (n,), each with the batch it has alone.

        Parameters
        ----------
        replicas : (n,) int
        alone_per_s : (n,) float
            Steps per second of one device alone.
        gradient_bytes : (n,) float

        Returns
        -------
        (n,) float64
            Steps per second, summed over the replicas.

        Raises
        ------
        ConfigError
            As `fit_scaling`.
        """
        n, alone, size = _rows(replicas, alone_per_s=alone_per_s, gradient_bytes=gradient_bytes)
        return self._together(n, alone, size)

    def _together(self, n: Floats, alone: Floats, size: Floats) -> Floats:
        compute = 1000 / alone
        link = ring_ms(size, n, self.link_gbps, self.latency_ms)
        found: Floats = 1000 * n / (compute + exposed_ms(link, compute, self.overlap))
        return found


def fit_scaling(
    replicas: ArrayLike,
    alone_per_s: ArrayLike,
    together_per_s: ArrayLike,
    gradient_bytes: ArrayLike,
    overlap: float | None = 0.0,
) -> Scaling:
    """Fit a link to measured throughputs, each replica with the batch that one device has alone.

    A step takes its time on one device plus the exposed part of a ring all-reduce; see `ring_ms` and
    `exposed_ms`. The fit minimises the mean of |log(predicted / measured)| on a grid that is refined around
    the best point, without random numbers.

    Parameters
    ----------
    replicas : (n,) int
        From 2 on.
    alone_per_s : (n,) float
        Steps per second of one device alone.
    together_per_s : (n,) float
        Sum over the replicas.
    gradient_bytes : (n,) float
        Four times the number of weights, in float32.
    overlap : float or None
        From 0 to 1. None: fitted, too. That did not improve predictions for other networks in
        docs/results/layertime-scaling.md.

    Returns
    -------
    Scaling
        The link, as `network_time` takes its parts.

    Raises
    ------
    ConfigError
        Different lengths, fewer than 3 rows, or a number out of its range.
    """
    columns = {"alone_per_s": alone_per_s, "together_per_s": together_per_s, "gradient_bytes": gradient_bytes}
    n, alone, together, size = _rows(replicas, **columns)
    if n.size < 3:
        raise ConfigError(f"fit_scaling: expected 3 rows or more, got {n.size}")
    if overlap is not None:
        check_number("overlap", overlap, 0, 1)

    def error(one: Scaling) -> float:
        return float(np.mean(np.abs(np.log(one._together(n, alone, size) / together))))

    shares = np.linspace(0, 1, 11) if overlap is None else np.array([float(overlap)])
    points = itertools.product(np.geomspace(0.01, 1000, 31), [0.0, *np.geomspace(1e-3, 100, 16)], shares)
    best = min((Scaling(*map(float, point)) for point in points), key=error)
    step = 0.3
    while step > 1e-3:
        near = [replace(best, link_gbps=min(best.link_gbps * math.exp(d), _MOST_GBPS)) for d in (-step, step)]
        near += [
            replace(best, latency_ms=min(best.latency_ms * math.exp(d), _MOST_MS)) for d in (-step, step)
        ]
        if overlap is None:
            near += [replace(best, overlap=min(1.0, max(0.0, best.overlap + d / 3))) for d in (-step, step)]
        found = min(near, key=error)
        if error(found) < error(best) - 1e-12:
            best = found
        else:
            step /= 2
    return best


def _rows(replicas: ArrayLike, **columns: ArrayLike) -> list[Floats]:
    """Return columns of one length (n,) as float64, checked."""
    n, *rest = _positive(replicas=replicas, **columns)
    if (n != np.floor(n)).any() or n.min() < 2:
        raise ConfigError("replicas: expected whole numbers from 2 on")
    return [n, *rest]


def _positive(**columns: ArrayLike) -> list[Floats]:
    found: list[Floats] = []
    for name, values in columns.items():
        try:
            array = np.asarray(values, np.float64)
        except (TypeError, ValueError):
            raise ConfigError(f"{name}: expected numbers, got {type(values).__name__}") from None
        if array.ndim != 1 or not array.size or (found and array.size != found[0].size):
            expected = (
                f"{counted(found[0].size, 'number')}, as in {next(iter(columns))}"
                if found
                else "a list of numbers"
            )
            raise ConfigError(f"{name}: expected {expected}, got an array of shape {array.shape}")
        wrong = np.flatnonzero(~(np.isfinite(array) & (array > 0)))
        if wrong.size:
            raise ConfigError(
                f"{name}: expected finite numbers above 0, got {array[wrong[0]]} in row {wrong[0]}"
            )
        found.append(array)
    return found
