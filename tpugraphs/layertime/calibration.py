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
"""Fewest and most layers to calibrate a device by, or to choose: memory grows with the square."""
_SLOPE = 0.3  # scale of the log time among the inputs of the linear part
_PLACE = 0.4  # scale of the log time among the places, times the root of their number
_MOST_TRIED = 200  # layers that the covariance is fitted to, evenly spaced
_MOST_JUDGED = 500  # candidates over which the variance is averaged


@dataclass(frozen=True)
class Views:
    """Predictions for layers on a device: as if it were each of the training devices, and as itself.

    Attributes
    ----------
    seen : (n, D) float64
        Logarithms of milliseconds on each of the D training devices.
    fixed, working : (n,) float64
        Fixed overhead and work-dependent time on the device itself, in milliseconds.
    places : (n, F) float64
        Standardised features of the layers, see `Space.place`.
    """

    seen: Floats
    fixed: Floats
    working: Floats
    places: Floats

    @property
    def usual(self) -> Floats:
        """Mean logarithm of milliseconds over the training devices (n,)."""
        found: Floats = self.seen.mean(1)
        return found

    def columns(self, scales: Scales, center: float) -> Places:
        """Return inputs of the linear part (n, D + 3), and places with the usual time added (n, F + 1)."""
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
    """A Gaussian process of log(measured / usual) on a device: linear in the known devices, local in places.

    So a device is a mixture of the known ones, as far as its measured layers support that.

    Attributes
    ----------
    scales : (float, float)
        Factors of the fixed overhead and of the work-dependent time.
    center : float
        Mean of `Views.usual` over the measured layers.
    covariance : Covariance
        Covariance function over layers.
    linear : (n, D + 3) float64
        Inputs of the linear part, of the measured layers.
    places : (n, F + 1) float64
        Places of the measured layers.
    weights : (n,) float64
        Weights of the measured layers in a prediction.
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
        """Restore what `write` added, for these numbers of training devices and of columns of places."""
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

    Each choice minimises the mean variance of a Gaussian process over the candidates (integrated variance
    reduction; Cohn 1996). Of many candidates, an evenly spaced subset is considered.

    Parameters
    ----------
    count : int
        Up to `MOST_LAYERS`.
    views : Views
        Predictions for the n candidates.
    measured : Calibration or None
        Calibration by the layers that are measured already.

    Returns
    -------
    (count,) int64
        Indices of candidates.
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
