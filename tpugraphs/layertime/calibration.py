"""Calibration of a device by a few measured layers: a mixture of known devices, and a correction."""

from __future__ import annotations

from dataclasses import astuple, dataclass, fields

import numpy as np
from numpy.typing import NDArray

from tpugraphs.layertime.costs import Scales, evenly, fitted_scales
from tpugraphs.layertime.covariance import Covariance, Places
from tpugraphs.layertime.files import File

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
    """Predictions of a model for layers on a device, as if it were each known device and as itself.

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
        """Return inputs of the linear part (n, D + 3), and of the others with the usual time (n, F + 1)."""
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

    So a device is a mixture of the known ones, as far as its layers support that.

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
        log(measured / predicted) of every layer, predicted from the others (leave-one-out).
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
        own = views.columns(self.scales, self.center)
        return views.usual + self.covariance.predict(own, among, self.weights)

    def write(self, file: File) -> None:
        """Add the process to a file."""
        file.put(
            numbers=np.array([*self.scales, self.center]),
            covariance=np.array(astuple(self.covariance)),
            linear=self.linear,
            places=self.places,
            weights=self.weights,
            left=self.left,
        )

    @classmethod
    def read(cls, file: File, devices: int, columns: int) -> Calibration:
        """Restore what `write` added, for that many known devices and columns of places."""
        first = file.tensors.get(f"{file.prefix}weights")
        count = 0 if first is None else first.size
        if not LEAST_LAYERS <= count <= MOST_LAYERS:
            raise file.wrong("weights", f"{LEAST_LAYERS} to {MOST_LAYERS} numbers", f"{count}")
        a, b, center = file.get("numbers", 3).tolist()
        covariance = file.get("covariance", len(fields(Covariance)))
        for name, least in (("numbers", min(a, b)), ("covariance", covariance.min())):
            if least <= 0:
                raise file.wrong(name, "scales and variances above 0", f"{least:g}")
        linear, places = file.get("linear", count, devices + 3), file.get("places", count, columns + 1)
        weights, left = file.get("weights", count), file.get("left", count)
        return cls((a, b), center, Covariance(*covariance.tolist()), linear, places, weights, left)


def choose(count: int, views: Views, measured: Calibration | None) -> NDArray[np.int64]:
    """Choose the most informative layers, one after the other.

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
