"""What a few measured layers tell of a device: which of the known ones it is like, and what is left over."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tpugraphs.layertime.costs import Scales, evenly, fitted_scales
from tpugraphs.layertime.covariance import COUNT, Covariance, Places
from tpugraphs.system import tensorfile

__all__ = ["LEAST_LAYERS", "MOST_LAYERS", "Calibration", "Views", "choose"]

Floats = NDArray[np.float64]

LEAST_LAYERS, MOST_LAYERS = 3, 2000
"""Layers to calibrate a device by; as many at most are chosen: memory grows with the square."""
_SLOPE = 0.3  # of the logarithm of the time, among the columns that weigh linearly
_PLACE = 0.4  # of the same, among those of the place, times the root of their number
_MOST_TRIED = 200  # layers that the covariance is chosen by, evenly taken
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

    def columns(self, scales: Scales, center: float) -> Places:
        """Return what weighs linearly (n, D + 3), and places with the usual time among them (n, F + 1)."""
        own = np.log(scales[0] * self.fixed + scales[1] * self.working)
        slope = self.usual - center
        linear = [
            self.seen - self.usual[:, None],
            np.stack([np.ones_like(slope), own - self.usual, _SLOPE * slope], 1),
        ]
        root = np.sqrt(self.places.shape[1])
        return np.concatenate(linear, 1), np.concatenate([self.places, _PLACE * root * slope[:, None]], 1)


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
    covariance : Covariance
        Of the time of two layers.
    linear : (n, D + 3) float64
        Columns of the measured layers that weigh linearly.
    places : (n, F + 1) float64
        Of the measured layers.
    weights : (n,) float64
        Of the covariance between them and others.
    left : (n,) float64
        log(measured / predicted) of every layer, by what the others say.
    """

    scales: Scales
    center: float
    covariance: Covariance
    linear: Floats
    places: Floats
    weights: Floats
    left: Floats

    @classmethod
    def fit(cls, views: Views, ms: Floats) -> Calibration:
        """Learn from measured layers."""
        scales, center = fitted_scales(views.fixed, views.working, ms), float(views.usual.mean())
        linear, places = views.columns(scales, center)
        wanted = np.log(ms) - views.usual
        some = evenly(ms.size, _MOST_TRIED)
        covariance = Covariance.learnt((linear[some], places[some]), wanted[some])
        inverse = np.linalg.inv(covariance.within((linear, places)))
        weights = inverse @ wanted
        return cls(scales, center, covariance, linear, places, weights, weights / np.diag(inverse))

    def log_ms(self, views: Views) -> Floats:
        """Predict the natural logarithm of the times in ms (m,)."""
        among = self.linear, self.places
        said = self.covariance.said(views.columns(self.scales, self.center), among, self.weights)
        return views.usual + said

    def to_file(self) -> dict[str, NDArray[Any]]:
        """Return tensors."""
        return {
            "numbers": np.array([*self.scales, self.center]),
            "covariance": self.covariance.to_file(),
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
            "numbers": (3,),
            "covariance": (COUNT,),
            "linear": (count, devices + 3),
            "places": (count, columns + 1),
            "weights": (count,),
            "left": (count,),
        }
        numbers, covariance, *rest = (
            tensorfile.take(path, tensors, prefix + name, shape, np.float64) for name, shape in shapes.items()
        )
        a, b, center = (float(number) for number in numbers)
        for name, found in (("numbers", min(a, b)), ("covariance", covariance.min())):
            if found <= 0:
                raise tensorfile.fail(path, f"{prefix}{name}", "scales and variances above 0", f"{found:g}")
        return cls((a, b), center, Covariance.from_file(covariance), *rest)


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
    covariance = Covariance()
    noise = covariance.noise**2
    columns = views.columns(
        (1.0, 1.0) if measured is None else measured.scales,
        float(views.usual.mean()) if measured is None else measured.center,
    )
    looked = evenly(len(views.places), MOST_LAYERS)
    judged = evenly(len(views.places), _MOST_JUDGED)
    here, there = ((columns[0][rows], columns[1][rows]) for rows in (looked, judged))
    between, within = covariance.between(here, there), covariance.between(here, here)
    variance = np.diag(within).copy()
    if measured is not None:
        before = measured.linear, measured.places
        factor = np.linalg.cholesky(covariance.within(before))
        mine, theirs = (np.linalg.solve(factor, covariance.between(before, one)) for one in (here, there))
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
