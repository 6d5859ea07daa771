"""Learning from a few measurements without forgetting what was learnt from many."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tpugraphs.errors import ConfigError

if TYPE_CHECKING:
    from tpugraphs.ranker import Ranker

__all__ = ["adapt"]


def adapt(ranker: Ranker, graph: Any, steps: int, anchor: float, only: Sequence[str] | None) -> None:
    """Train a ranker further on all configs of a graph, as :meth:`tpugraphs.Ranker.adapt` describes."""
    if isinstance(steps, bool) or not isinstance(steps, (int, np.integer)) or steps < 1:
        raise ConfigError(f"steps: expected a whole number of at least 1, got {steps!r}")
    if isinstance(anchor, bool) or not isinstance(anchor, (int, float, np.number)) or not 0 <= anchor <= 1:
        raise ConfigError(f"anchor: expected a number in 0..1, got {anchor!r}")
    kept = 1 - _way_back(ranker, float(anchor), only)
    weights = ranker.model.params
    before, rows = weights.copy(), np.arange(graph.num_configs)
    for _ in range(steps):
        ranker.partial_fit(graph, rows)
        weights[:] = before + kept * (weights - before)


def _way_back(ranker: Ranker, anchor: float, only: Sequence[str] | None) -> NDArray[np.float32]:
    """Part (P,) of the way back to where it was that each weight goes after a step; 1: it stays there."""
    if only is None:
        return np.full(ranker.num_parameters, anchor, np.float32)
    patterns = [only] if isinstance(only, str) else list(only)
    way, used = np.ones(ranker.num_parameters, np.float32), set()
    for name, offset, shape in ranker.model.layout:
        matching = [pattern for pattern in patterns if fnmatchcase(name, pattern)]
        used.update(matching)
        if matching:
            way[offset : offset + math.prod(shape)] = anchor
    if not patterns or used < set(patterns):
        names = ", ".join(ranker.parameters)
        raise ConfigError(f"only: expected patterns that match names of {names}; got {only!r}")
    return way
