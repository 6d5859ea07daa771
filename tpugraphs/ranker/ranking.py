"""What everything that scores configs can do with its scores."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray


class Ranks(ABC):
    """Base of what has `predict`: single rankers and ensembles."""

    @abstractmethod
    def predict(
        self,
        graph: Any,
        configs: ArrayLike | None = None,
        tta: int = 0,
        precision: str | None = None,
        verbose: bool | None = None,
    ) -> NDArray[np.float32]:
        """Scores (n,) of configs of a graph: smaller = predicted faster."""

    def rank(
        self,
        graph: Any,
        configs: ArrayLike | None = None,
        tta: int = 0,
        precision: str | None = None,
        verbose: bool | None = None,
    ) -> NDArray[np.int64]:
        """Positions of the configs, predicted fastest first; equal scores in the given order. (n,) int64.

        Parameters as of `predict`.
        """
        scores = self.predict(graph, configs, tta, precision, verbose)
        return np.argsort(scores, kind="stable").astype(np.int64, copy=False)
