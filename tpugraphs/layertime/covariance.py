"""The covariance of a Gaussian process over layers: what the time of one tells of that of another."""

from __future__ import annotations

from dataclasses import astuple, dataclass, fields, replace

import numpy as np
from numpy.typing import NDArray

__all__ = ["COUNT", "Covariance", "Places"]

Floats = NDArray[np.float64]
Places = tuple[Floats, Floats]  # of n layers: what weighs linearly (n, L), and where they are (n, P)

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
    """Covariance of what is said of two layers, of three parts; the usual one by default.

    Attributes
    ----------
    linear : float
        Variance of what is linear in the columns that weigh so.
    near : float
        Variance of a correction that layers share which are close by in all columns of their places.
    length : float
        How far that reaches, times the root of the number of columns.
    each : float
        Variance of corrections by one column alone, added up over the columns: layers that have one size in
        common share a part (Duvenaud, Nickisch and Rasmussen: Additive Gaussian processes, 2011).
    reach : float
        How far these reach.
    noise : float
        Standard deviation of what is measured.
    """

    linear: float = 0.1
    near: float = 0.01
    length: float = 1.5
    each: float = 0.01
    reach: float = 0.3
    noise: float = 0.06

    @classmethod
    def learnt(cls, among: Places, wanted: Floats) -> Covariance:
        """Return the one of the greatest marginal likelihood of what is wanted (n,).

        Each number is chosen in turn, from the usual ones on, until none changes.
        """
        parts: dict[tuple[str, float], Floats] = {("linear", 0.0): among[0] @ among[0].T}

        def likelihood(one: Covariance) -> float:
            for name, size, made in (("near", one.length, _near), ("each", one.reach, _each)):
                if (name, size) not in parts:
                    parts[name, size] = made(among[1], among[1], size)
            whole = one.linear * parts["linear", 0.0] + one.near * parts["near", one.length]
            whole += one.each * parts["each", one.reach] + one.noise**2 * np.eye(wanted.size)
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

    def said(self, of: Places, among: Places, weights: Floats) -> Floats:
        """Return what measured layers of these weights (n,) say of m others: `between` @ weights (m,)."""
        found: Floats = self.linear * (of[0] @ (among[0].T @ weights))
        found += self.near * (_near(of[1], among[1], self.length) @ weights)
        alone = np.zeros(len(found))
        for own, known in zip(of[1].T, among[1].T, strict=True):
            values, place = np.unique(own, return_inverse=True)  # many columns have few values
            alone += (_alike(values, known, self.reach) @ weights)[place]
        found += self.each / of[1].shape[1] * alone
        return found

    def to_file(self) -> Floats:
        """Return one array (6,)."""
        return np.array(astuple(self))

    @classmethod
    def from_file(cls, numbers: Floats) -> Covariance:
        """Restore what `to_file` returned."""
        return cls(*(float(number) for number in numbers))


COUNT = len(fields(Covariance))
"""Numbers of a covariance in a file."""


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
    """Return the mean over the columns of how alike places (n, P) and (m, P) are in each alone: (n, m)."""
    found: Floats = np.zeros((len(a), len(b)))
    for own, known in zip(a.T, b.T, strict=True):
        found += _alike(own, known, reach)
    found /= a.shape[1]
    return found
