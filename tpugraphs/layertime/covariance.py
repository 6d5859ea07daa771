"""The covariance function over layers of a Gaussian process."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache, partial

import numpy as np
from numpy.typing import NDArray

__all__ = ["Covariance", "Places"]

Floats = NDArray[np.float64]
Places = tuple[Floats, Floats]  # of n layers: inputs of the linear part (n, L), and of the others (n, P)

_MOST_SWEEPS = 4
_TRIED = {
    "linear": (0.01, 0.03, 0.1, 0.3, 1.0),
    "near": (1e-4, 1e-3, 1e-2, 3e-2, 1e-1),
    "each": (1e-5, 1e-2, 3e-2, 1e-1),
    "noise": (0.03, 0.06, 0.1),
    "length": (0.5, 1.5, 3.0),
    "reach": (0.1, 0.3),
}


@dataclass(frozen=True)
class Covariance:
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
                found = max((replace(found, **{name: value}) for value in values), key=likelihood)
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
