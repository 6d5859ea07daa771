"""Averages of the weights over the steps of a fit, which depend less on the last few steps."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Average"]


class Average:
    """Average of a network's weights over steps of a fit.

    ``"ema"``: ``value = d value + (1 - d) params`` after every step. d is `ema_decay`, but at first
    ``(1 + step) / (10 + step)``, so that the weights of the beginning are forgotten.

    ``"swa"`` (Izmailov et al. 2018): the mean of the weights after some steps. These are the last step and
    every `swa_every`-th before it, as far as they come after the share `swa_start` of all steps.

    Parameters
    ----------
    fields : object
        `average`, `ema_decay`, `swa_start`, `swa_every`.
    total : int
        Steps of the fit.

    Attributes
    ----------
    value : (P,) float64 or None
        None as long as no step is part of it.
    """

    def __init__(self, fields: Any, total: int) -> None:
        self._kind, self._decay, self._every = fields.average, float(fields.ema_decay), int(fields.swa_every)
        start = min(int(fields.swa_start * total), total - 1)
        self._first = start + 1 + (total - start - 1) % self._every
        self.value: NDArray[np.float64] | None = None

    def begun(self, step: int) -> bool:
        """Return whether there is an average after this many steps."""
        return step >= {"none": np.inf, "ema": 1, "swa": self._first}[self._kind]

    def _share(self, step: int) -> float:
        """Return the share of the weights after this step in the average of those up to it."""
        if self._kind == "ema":
            return max(1 - self._decay, 9 / (10 + step))
        number, remainder = divmod(step - self._first, self._every)
        return 0.0 if remainder else 1 / (number + 1)

    def add(self, step: int, params: NDArray[np.float32]) -> None:
        """Take the weights (P,) after a step into the average, if that is one of its steps."""
        if not self.begun(step):
            return
        if self.value is None:
            self.value = params.astype(np.float64)
        elif (share := self._share(step)) > 0:
            apart = params - self.value
            apart *= share
            self.value += apart

    @contextmanager
    def in_use(self, params: NDArray[np.float32]) -> Iterator[None]:
        """Put the average into the weights (P,) as long as the context lasts, if there is one."""
        if self.value is None:
            yield
            return
        own = params.copy()
        params[:] = self.value
        try:
            yield
        finally:
            params[:] = own
