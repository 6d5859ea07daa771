"""Calibration of a device by a few measured layers, with a Gaussian process; the choice of these layers."""

from __future__ import annotations

from functools import cache, partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tpugraphs.layertime.costs import Scales, evenly, fitted_scales
from tpugraphs.layertime.files import File
from tpugraphs.layertime.kinds import Floats

Places = tuple[Floats, Floats]  # of n layers: inputs of the linear part (n, L), and of the others (n, P)

LEAST_LAYERS, MOST_LAYERS = 3, 2000
"""Fewest and most layers to calibrate a device by, or to choose: memory grows with the square."""
_SLOPE = 0.3  # scale of the log time among the inputs of the linear part
_PLACE = 0.4  # scale of the log time among the places, times the root of their number
_MOST_TRIED = 200  # layers that the covariance is fitted to, evenly spaced
_MOST_JUDGED = 500  # candidates over which the variance is averaged
_MOST_SWEEPS = 4
_TRIED = {
    "linear": (0.01, 0.03, 0.1, 0.3, 1.0),
    "near": (1e-4, 1e-3, 1e-2, 3e-2, 1e-1),
    "each": (1e-5, 1e-2, 3e-2, 1e-1),
    "noise": (0.03, 0.06, 0.1),
    "length": (0.5, 1.5, 3.0),
    "reach": (0.1, 0.3),
}


class Covariance(NamedTuple):
    """Sum of a linear, a local and an additive covariance function.

    Attributes
    ----------
    linear : float
        Variance of the linear part.
    near : float
        Variance of the local part, which layers share if they are near in all columns of their places.
    length : float
        Length scale of that part, times the root of the number of columns.
    each : float
        Variance of the additive part, a sum over columns: layers with one size in common share a term
        (Duvenaud, Nickisch and Rasmussen: Additive Gaussian processes, 2011).
    reach : float
        Length scale of that part.
    noise : float
        Standard deviation of a measurement.
    """

    linear: float = 0.1
    near: float = 0.01
    length: float = 1.5
    each: float = 0.01
    reach: float = 0.3
    noise: float = 0.06

    @classmethod
    def learnt(cls, among: Places, wanted: Floats) -> Covariance:
        """Return the covariance of greatest marginal likelihood of the targets `wanted` (n,).

        Coordinate search from the defaults: each number is chosen in turn until none changes.
        """
        linear = among[0] @ among[0].T
        near, each = (cache(partial(part, among[1], among[1])) for part in (_near, _each))

        def likelihood(one: Covariance) -> float:
            whole = one.linear * linear + one.near * near(one.length)
            whole += one.each * each(one.reach) + one.noise**2 * np.eye(wanted.size)
            factor = np.linalg.cholesky(whole)
            half = np.linalg.solve(factor, wanted)
            return float(-0.5 * half @ half - np.log(np.diag(factor)).sum())

        found = cls()
        for _ in range(_MOST_SWEEPS):
            before = found
            for name, values in _TRIED.items():
                found = max((found._replace(**{name: value}) for value in values), key=likelihood)
            if found == before:
                break
        return found

    def between(self, a: Places, b: Places) -> Floats:
        """Return the covariance of all pairs of layers (n, m), without the noise."""
        found = self.linear * (a[0] @ b[0].T) + self.near * _near(a[1], b[1], self.length)
        return found + self.each * _each(a[1], b[1], self.reach)

    def within(self, among: Places) -> Floats:
        """Return the covariance of measured layers (n, n)."""
        return self.between(among, among) + self.noise**2 * np.eye(len(among[0]))

    def predict(self, of: Places, among: Places, weights: Floats) -> Floats:
        """Return the posterior mean at m layers (m,): `between` these and n measured ones @ weights (n,)."""
        found: Floats = self.linear * (of[0] @ (among[0].T @ weights))
        found += self.near * (_near(of[1], among[1], self.length) @ weights)
        alone = np.zeros(len(found))
        for own, known in zip(of[1].T, among[1].T, strict=True):
            values, place = np.unique(own, return_inverse=True)  # many columns have few values
            alone += (_alike(values, known, self.reach) @ weights)[place]
        found += self.each / of[1].shape[1] * alone
        return found


def _alike(a: Floats, b: Floats, reach: float) -> Floats:
    """Return exp(-(a - b)^2 / (2 r^2)) of all pairs of numbers (n, m)."""
    found: Floats = np.exp((a[:, None] - b) ** 2 / (-2 * reach**2))
    return found


def _near(a: Floats, b: Floats, length: float) -> Floats:
    """Return exp(-|a - b|^2 / (2 l^2 P)) of all pairs of places (n, P) and (m, P): (n, m)."""
    apart = (a**2).sum(1)[:, None] + (b**2).sum(1)[None] - 2 * a @ b.T
    found: Floats = np.exp(-np.maximum(apart, 0) / (2 * length**2 * a.shape[1]))
    return found


def _each(a: Floats, b: Floats, reach: float) -> Floats:
    """Return the mean of `_alike` over the columns of places (n, P) and (m, P): (n, m)."""
    found: Floats = np.zeros((len(a), len(b)))
    for own, known in zip(a.T, b.T, strict=True):
        found += _alike(own, known, reach)
    found /= a.shape[1]
    return found


class Views(NamedTuple):
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
        slope, root = self.usual - center, np.sqrt(self.places.shape[1])
        more = np.stack([np.ones_like(slope), own - self.usual, _SLOPE * slope], 1)
        linear = np.concatenate([self.seen - self.usual[:, None], more], 1)
        return linear, np.concatenate([self.places, _PLACE * root * slope[:, None]], 1)


class Calibration(NamedTuple):
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
        own = views.columns(self.scales, self.center)
        return views.usual + self.covariance.predict(own, self.among, self.weights)

    @property
    def among(self) -> Places:
        """Inputs and places of the measured layers."""
        return self.linear, self.places

    def write(self, file: File) -> None:
        """Add the process to a file."""
        arrays = {name: getattr(self, name) for name in ("linear", "places", "weights", "left")}
        numbers, covariance = np.array([*self.scales, self.center]), np.array(self.covariance)
        file.put(numbers=numbers, covariance=covariance, **arrays)

    @classmethod
    def read(cls, file: File, devices: int, columns: int) -> Calibration:
        """Restore what `write` added, for these numbers of training devices and of columns of places."""
        first = file.tensors.get(f"{file.prefix}weights")
        count = 0 if first is None else first.size
        right = LEAST_LAYERS <= count <= MOST_LAYERS
        file.check(right, "weights", f"{LEAST_LAYERS} to {MOST_LAYERS} numbers", count)
        a, b, center = file.get("numbers", 3).tolist()
        covariance = file.get("covariance", len(Covariance._fields))
        for name, least in (("numbers", min(a, b)), ("covariance", covariance.min())):
            file.check(least > 0, name, "scales and variances above 0", least)
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
        known = measured.among
        factor = np.linalg.cholesky(covariance.within(known))
        mine, theirs = (np.linalg.solve(factor, covariance.between(known, one)) for one in (here, there))
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
