"""What a few measured layers tell of a device: which of the known ones it is like, and what is left over."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tpugraphs.layertime.costs import Scales, evenly, fitted_scales
from tpugraphs.system import tensorfile

__all__ = ["LEAST_LAYERS", "MOST_LAYERS", "Calibration", "Views", "choose"]

Floats = NDArray[np.float64]

LEAST_LAYERS, MOST_LAYERS = 3, 2000
"""Layers to calibrate a device by; as many at most are chosen: memory grows with the square."""
_LENGTH = 1.5  # of the kernel, times the root of the number of columns
_SLOPE = 0.3  # of the logarithm of the time, among the columns that weigh linearly
_PLACE = 0.4  # of the same, among those of the place, times the root of their number
_LINEAR = (0.01, 0.03, 0.1, 0.3, 1.0)  # variances that are tried: of the linear part,
_NEAR = (1e-4, 1e-3, 3e-3, 1e-2, 3e-2)  # of the correction near measured layers,
_NOISE = (0.03, 0.06, 0.1)  # and standard deviations of what is measured
_USUAL = (0.1, 0.01, 0.06)  # of each, before anything is measured
_MOST_TRIED = 200  # layers that variances are chosen by, evenly taken
_MOST_JUDGED = 500  # candidates that the choice is judged on


@dataclass(frozen=True)
class Views:
    """What a model says of layers on a device that it is to be calibrated for.

    Attributes
    ----------
    seen : (n, D) float64
        Logarithms of milliseconds, as if they ran on each of the devices that were learnt from.
    fixed, working : (n,) float64
        Milliseconds on the device itself that pass without work, and of the work.
    places : (n, F) float64
        Of the layers, in the space of those that were learnt from.
    """

    seen: Floats
    fixed: Floats
    working: Floats
    places: Floats

    @property
    def usual(self) -> Floats:
        """Logarithms of milliseconds in the mean over the devices that were learnt from (n,)."""
        found: Floats = self.seen.mean(1)
        return found

    def columns(self, scales: Scales, center: float) -> tuple[Floats, Floats]:
        """Return what weighs linearly (n, D + 3), and places with the usual time among them (n, F + 1)."""
        own = np.log(scales[0] * self.fixed + scales[1] * self.working)
        slope = self.usual - center
        linear = [
            self.seen - self.usual[:, None],
            np.stack([np.ones_like(slope), own - self.usual, _SLOPE * slope], 1),
        ]
        root = np.sqrt(self.places.shape[1])
        return np.concatenate(linear, 1), np.concatenate([self.places, _PLACE * root * slope[:, None]], 1)


def _near(a: Floats, b: Floats) -> Floats:
    """Return exp(-|a - b|^2 / (2 l^2)) of all pairs of places (n, F) and (m, F): (n, m)."""
    apart = (a**2).sum(1)[:, None] + (b**2).sum(1)[None] - 2 * a @ b.T
    found: Floats = np.exp(-np.maximum(apart, 0) / (2 * _LENGTH**2 * a.shape[1]))
    return found


@dataclass(frozen=True)
class Calibration:
    """A Gaussian process of log(measured / usual) on a device: linear in other devices, and near by place.

    A device is so a mixture of the known ones, as far as its layers say so.

    Attributes
    ----------
    scales : (float, float)
        Factors of the time that passes without work, and of the time of the work.
    center : float
        Mean of the usual logarithms of the measured layers.
    variances : (float, float)
        Of the linear part, and of the correction near measured layers.
    linear : (n, D + 3) float64
        Columns of the measured layers that weigh linearly.
    places : (n, F + 1) float64
        Of the measured layers.
    weights : (n,) float64
        Of the kernel between them and others.
    left : (n,) float64
        log(measured / predicted) of every layer, by what the others say.
    """

    scales: Scales
    center: float
    variances: tuple[float, float]
    linear: Floats
    places: Floats
    weights: Floats
    left: Floats

    @classmethod
    def fit(cls, views: Views, ms: Floats) -> Calibration:
        """Learn from measured layers; the variances are those of the greatest marginal likelihood."""
        scales, center = fitted_scales(views.fixed, views.working, ms), float(views.usual.mean())
        linear, places = views.columns(scales, center)
        wanted = np.log(ms) - views.usual
        some = evenly(ms.size, _MOST_TRIED)
        products, near = linear[some] @ linear[some].T, _near(places[some], places[some])
        best = max(
            itertools.product(_LINEAR, _NEAR, _NOISE),
            key=lambda one: _likelihood(products, near, wanted[some], *one),
        )
        covered = (
            best[0] * linear @ linear.T + best[1] * _near(places, places) + best[2] ** 2 * np.eye(ms.size)
        )
        inverse = np.linalg.inv(covered)
        weights = inverse @ wanted
        return cls(scales, center, best[:2], linear, places, weights, weights / np.diag(inverse))

    def log_ms(self, views: Views) -> Floats:
        """Predict the natural logarithm of the times in ms (m,)."""
        linear, places = views.columns(self.scales, self.center)
        found: Floats = views.usual + self.variances[0] * (linear @ (self.linear.T @ self.weights))
        found += self.variances[1] * (_near(places, self.places) @ self.weights)
        return found

    def to_file(self) -> dict[str, NDArray[Any]]:
        """Return tensors."""
        return {
            "numbers": np.array([*self.scales, self.center, *self.variances]),
            "linear": self.linear,
            "places": self.places,
            "weights": self.weights,
            "left": self.left,
        }

    @classmethod
    def from_file(
        cls, path: str, tensors: dict[str, NDArray[Any]], prefix: str, devices: int, columns: int
    ) -> Calibration:
        """Restore what `to_file` returned, from tensors whose names begin with `prefix`."""
        first = tensors.get(f"{prefix}weights")
        count = 0 if first is None else first.size
        if not LEAST_LAYERS <= count <= MOST_LAYERS:
            raise tensorfile.fail(
                path, f"{prefix}weights", f"{LEAST_LAYERS} to {MOST_LAYERS} numbers", f"{count}"
            )
        shapes = {
            "numbers": (5,),
            "linear": (count, devices + 3),
            "places": (count, columns + 1),
            "weights": (count,),
            "left": (count,),
        }
        numbers, *rest = (
            tensorfile.take(path, tensors, prefix + name, shape, np.float64) for name, shape in shapes.items()
        )
        a, b, center, u, v = (float(number) for number in numbers)
        if min(a, b, u, v) <= 0:
            raise tensorfile.fail(
                path, f"{prefix}numbers", "scales and variances above 0", f"{min(a, b, u, v):g}"
            )
        return cls((a, b), center, (u, v), *rest)


def _likelihood(
    products: Floats, near: Floats, wanted: Floats, linear: float, correction: float, noise: float
) -> float:
    """Return the logarithm of the marginal likelihood, but for a constant."""
    factor = np.linalg.cholesky(linear * products + correction * near + noise**2 * np.eye(wanted.size))
    half = np.linalg.solve(factor, wanted)
    return float(-0.5 * half @ half - np.log(np.diag(factor)).sum())


def choose(count: int, views: Views, measured: Calibration | None) -> NDArray[np.int64]:
    """Choose layers whose times tell most of all others, one after the other.

    Each is the one after which a Gaussian process is least uncertain in the mean over the candidates
    (integrated variance reduction; Cohn 1996). Of many candidates some are looked at, evenly.

    Parameters
    ----------
    count : int
        Up to `MOST_LAYERS`.
    views : Views
        Of the candidates (n).
    measured : Calibration or None
        Of layers that are measured already.

    Returns
    -------
    (count,) int64
        Numbers of candidates.
    """
    known, near, deviation = _USUAL
    noise = deviation**2
    columns = views.columns(
        (1.0, 1.0) if measured is None else measured.scales,
        float(views.usual.mean()) if measured is None else measured.center,
    )

    def kernel(a: tuple[Floats, Floats], b: tuple[Floats, Floats]) -> Floats:
        return known * a[0] @ b[0].T + near * _near(a[1], b[1])

    looked = evenly(len(views.places), MOST_LAYERS)
    judged = evenly(len(views.places), _MOST_JUDGED)
    here, there = ((columns[0][rows], columns[1][rows]) for rows in (looked, judged))
    between, within = kernel(here, there), kernel(here, here)
    variance = np.diag(within).copy()
    if measured is not None:
        before = measured.linear, measured.places
        factor = np.linalg.cholesky(kernel(before, before) + noise * np.eye(measured.weights.size))
        mine, theirs = (np.linalg.solve(factor, kernel(before, one)) for one in (here, there))
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
