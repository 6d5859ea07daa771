"""Columns scaled to mean 0 and standard deviation 1."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tpugraphs import _core
from tpugraphs.errors import ConfigError, DataError

__all__ = ["StandardScaler"]


class StandardScaler:
    """Shift and scale columns to mean 0 and (population) standard deviation 1.

    Fitted in float64 by merging partial means and sums of squares (Chan, Golub and LeVeque, 1979), so large
    offsets do not cancel. A constant column has scale 1 and becomes 0.

    Attributes
    ----------
    count_ : int
        Rows seen.
    mean_, scale_ : (F,) float64
    """

    def __init__(self) -> None:
        self.count_ = 0
        self._fit: tuple[NDArray[np.float64], NDArray[np.float64]] | None = None  # mean, sums of squares

    def fit(self, x: Any) -> StandardScaler:
        """Fit anew on one (n, F) float32 array or graph (its ``node_feat``), or on several with equal F.

        Parameters
        ----------
        x : (n, F) float32, graph, or iterable of these
            Data to fit on.

        Returns
        -------
        StandardScaler
            The instance itself.

        Raises
        ------
        DataError
            A value that is not finite, or no rows at all.
        ShapeError
            Not float32, not two-dimensional, not C-contiguous, or a different F.
        """
        self.__init__()  # type: ignore[misc]
        for part in (x,) if isinstance(x, np.ndarray) or hasattr(x, "node_feat") else x:
            self.partial_fit(getattr(part, "node_feat", part))
        if self.count_ == 0:
            raise DataError("StandardScaler: nothing to fit, x has no rows")
        return self

    def partial_fit(self, x: NDArray[np.float32]) -> StandardScaler:
        """Add the rows of one (n, F) float32 array to the fit; an error (see `fit`) leaves it unchanged.

        Parameters
        ----------
        x : (n, F) float32
            C-contiguous and finite.

        Returns
        -------
        StandardScaler
            The instance itself.
        """
        columns = x.shape[1] if isinstance(x, np.ndarray) and x.ndim == 2 else 0
        mean, m2 = self._fit or (np.zeros(columns), np.zeros(columns))
        self.count_ = _core.scaler_merge(self.count_, mean, m2, x)
        self._fit = mean, m2
        return self

    def _fitted(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        if self._fit is None or self.count_ == 0:
            raise ConfigError("StandardScaler: not fitted yet; call fit first")
        return self._fit

    @property
    def mean_(self) -> NDArray[np.float64]:
        """Mean of each column, (F,) float64."""
        return self._fitted()[0].copy()

    @property
    def scale_(self) -> NDArray[np.float64]:
        """Standard deviation of each column, (F,) float64; 1 where it is 0."""
        return _core.scaler_scale(self.count_, self._fitted()[1])

    def transform(self, x: NDArray[np.float32]) -> NDArray[np.float32]:
        """Scale (n, F) float32, computed in float64, rounded once to a new float32 array.

        Parameters
        ----------
        x : (n, F) float32
            C-contiguous and finite.

        Returns
        -------
        (n, F) float32
            A new array.

        Raises
        ------
        DataError
            A value that is not finite, before or after scaling.
        ShapeError
            Not a C-contiguous (n, F) float32 array with the F of the fit.
        """
        return _core.scaler_transform(x, self._fitted()[0], self.scale_)

    def fit_transform(self, x: NDArray[np.float32]) -> NDArray[np.float32]:
        """Fit and scale one array: ``fit(x).transform(x)``.

        Parameters
        ----------
        x : (n, F) float32
            C-contiguous and finite.

        Returns
        -------
        (n, F) float32
            A new array.
        """
        return self.fit(x).transform(x)

    def get_state(self) -> dict[str, NDArray[Any]]:
        """Return the fit as plain arrays: count (1,) int64, mean (F,) and m2 (F,) float64."""
        mean, m2 = self._fitted()
        return {"count": np.array([self.count_], np.int64), "mean": mean.copy(), "m2": m2.copy()}

    def set_state(self, state: Mapping[str, NDArray[Any]]) -> StandardScaler:
        """Restore what `get_state` returned; partial fits may follow.

        Parameters
        ----------
        state : mapping of str to array
            Count, mean and m2.

        Returns
        -------
        StandardScaler
            The instance itself.

        Raises
        ------
        DataError
            The state is damaged.
        """
        try:
            count = int(np.asarray(state["count"]).reshape(()))
            mean, m2 = (np.array(state[key], np.float64) for key in ("mean", "m2"))
        except (KeyError, TypeError, ValueError) as error:
            raise DataError(f"StandardScaler: not a scaler's state: {error!r}") from error
        finite = np.isfinite(mean).all() and np.isfinite(m2).all()
        if count < 1 or mean.ndim != 1 or mean.shape != m2.shape or not finite or (m2 < 0).any():
            raise DataError(
                "StandardScaler: not a scaler's state: expected count >= 1 and finite mean (F,), m2 (F,) >= 0"
            )
        self.count_, self._fit = count, (mean, m2)
        return self
