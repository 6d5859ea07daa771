"""What a few measured layers tell of a device: how fast it is, and a correction of the rest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tpugraphs.layertime.costs import Scales
from tpugraphs.system import tensorfile

__all__ = ["MOST_LAYERS", "Calibration", "choose"]

Floats = NDArray[np.float64]

MOST_LAYERS = 2000
"""Layers to calibrate a device by, or to choose, at a time: memory grows with the square."""
_LENGTH = 1.5  # of the kernel, times the root of the number of features
_MOST_JUDGED = 500  # candidates that the choice is judged on
_NOISE = 0.05  # standard deviation of the logarithm of a measured time


def _kernel(a: Floats, b: Floats) -> Floats:
    """Return exp(-|a - b|^2 / (2 l^2)) of all pairs of places (n, F) and (m, F): (n, m)."""
    apart = (a**2).sum(1)[:, None] + (b**2).sum(1)[None] - 2 * a @ b.T
    found: Floats = np.exp(-np.maximum(apart, 0) / (2 * _LENGTH**2 * a.shape[1]))
    return found


@dataclass(frozen=True)
class Calibration:
    """A device as a few of its layers show it.

    Attributes
    ----------
    scales : (float, float)
        Factors of the time that passes without work, and of the time of the work.
    places : (n, F) float64
        Of the measured layers.
    weights : (n,) float64
        Of the kernel around them.
    left : (n,) float64
        log(measured / predicted) of every layer, by what the others say.
    """

    scales: Scales
    places: Floats
    weights: Floats
    left: Floats

    @classmethod
    def fit(cls, scales: Scales, places: Floats, residuals: Floats) -> Calibration:
        """Fit a Gaussian process to log(measured / predicted) of layers at `places`."""
        scale = float(np.mean(residuals**2)) / _NOISE**2 + 1e-6
        inverse = np.linalg.inv(scale * _kernel(places, places) + np.eye(len(places)))
        solved = inverse @ residuals
        return cls(scales, places, scale * solved, solved / np.diag(inverse))

    def correction(self, places: Floats) -> Floats:
        """Return what to add to predicted logarithms at `places` (m, F): (m,)."""
        found: Floats = _kernel(places, self.places) @ self.weights
        return found

    def to_file(self) -> dict[str, NDArray[Any]]:
        """Return tensors."""
        return {
            "scales": np.array(self.scales),
            "places": self.places,
            "weights": self.weights,
            "left": self.left,
        }

    @classmethod
    def from_file(cls, path: str, tensors: dict[str, NDArray[Any]], prefix: str, columns: int) -> Calibration:
        """Restore what `to_file` returned, from tensors whose names begin with `prefix`."""
        first = tensors.get(f"{prefix}weights")
        count = 0 if first is None else first.size
        shapes = {"scales": (2,), "places": (count, columns), "weights": (count,), "left": (count,)}
        scales, *rest = (
            tensorfile.take(path, tensors, prefix + name, shape, np.float64) for name, shape in shapes.items()
        )
        return cls((float(scales[0]), float(scales[1])), *rest)


def choose(count: int, places: Floats, measured: Floats | None) -> NDArray[np.int64]:
    """Choose layers whose times tell most of all others, one after the other.

    Each is the one after which a Gaussian process is least uncertain in the mean over the candidates
    (integrated variance reduction; Cohn 1996). Of many candidates some are looked at, evenly.

    Parameters
    ----------
    count : int
        Up to `MOST_LAYERS`.
    places : (n, F) float64
        Of the candidates.
    measured : (m, F) float64 or None
        Of layers that are measured already.

    Returns
    -------
    (count,) int64
        Numbers of candidates.
    """
    noise = _NOISE**2
    looked = _evenly(len(places), MOST_LAYERS)
    here, there = places[looked], places[_evenly(len(places), _MOST_JUDGED)]
    between, variance = _kernel(here, there), np.ones(len(here))
    within = _kernel(here, here)
    if measured is not None and len(measured):
        factor = np.linalg.cholesky(_kernel(measured, measured) + noise * np.eye(len(measured)))
        mine, theirs = (np.linalg.solve(factor, _kernel(measured, one)) for one in (here, there))
        between -= mine.T @ theirs
        within -= mine.T @ mine
        variance -= (mine**2).sum(0)
    found = np.empty(count, np.int64)
    for i in range(count):
        gain = (between**2).sum(1) / (np.maximum(variance, 0) + noise)
        gain[found[:i]] = -1
        best = found[i] = int(np.argmax(gain))
        scale = max(float(variance[best]), 0.0) + noise
        row, seen = within[best].copy(), between[best].copy()
        between -= np.outer(row, seen) / scale
        within -= np.outer(row, row) / scale
        variance -= row**2 / scale
    return looked[found]


def _evenly(count: int, most: int) -> NDArray[np.int64]:
    """Return at most `most` of `count` numbers, evenly spaced."""
    return np.unique(np.linspace(0, count - 1, min(count, most)).round().astype(np.int64))
