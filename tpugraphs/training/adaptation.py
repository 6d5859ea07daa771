"""Learning from a few measurements without forgetting what was learnt from many."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tpugraphs.errors import ConfigError
from tpugraphs.network.network import Network
from tpugraphs.system.arguments import check_number, check_whole

__all__ = ["adapt"]


def adapt(
    network: Network, step: Callable[[], Any], steps: int, anchor: float, only: Sequence[str] | None
) -> None:
    """Train a network further, as :meth:`tpugraphs.Ranker.adapt` describes; `step` takes one step."""
    check_whole("steps", steps, 1)
    kept = 1 - _way_back(network, check_number("anchor", anchor, 0, 1), only)
    weights = network.model.params
    before = weights.copy()
    for _ in range(steps):
        step()
        weights[:] = before + kept * (weights - before)


def _way_back(network: Network, anchor: float, only: Sequence[str] | None) -> NDArray[np.float32]:
    """Return the share (P,) of its way that each weight moves back after a step; 1 leaves it unchanged."""
    if only is None:
        return np.full(network.num_parameters, anchor, np.float32)
    patterns = [only] if isinstance(only, str) else list(only)
    way, used = np.ones(network.num_parameters, np.float32), set()
    for name, offset, shape in network.model.layout:
        matching = [pattern for pattern in patterns if fnmatchcase(name, pattern)]
        used.update(matching)
        if matching:
            way[offset : offset + math.prod(shape)] = anchor
    if not patterns or used < set(patterns):
        names = ", ".join(network.parameters)
        raise ConfigError(f"only: expected patterns that match names of {names}; got {only!r}")
    return way
