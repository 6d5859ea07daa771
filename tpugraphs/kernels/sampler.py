"""Samples of config rows for training steps, without replacement over an epoch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tpugraphs.errors import ConfigError
from tpugraphs.kernels.graph import sample_epoch
from tpugraphs.system.arguments import check_whole

__all__ = ["ConfigSampler"]


class ConfigSampler:
    """Endless samples of k distinct config rows that visit all n rows of a graph evenly.

    The steps walk a pseudo-random permutation of the rows, k at a time, and a new one after each epoch, so
    every row comes exactly once per epoch. Where a step reaches into the next epoch, rows that it already has
    move to the following step. With n < 2k each step is a fresh sample instead, and with n < k it is all n
    rows. Rows are a pure function of (seed, n, k, step): restoring the step number resumes exactly.

    Parameters
    ----------
    n, k : int
        Rows of the graph, rows per step; n >= 0, k >= 1.
    seed : int or ints
        Key of the random numbers, e.g. ``(seed, graph number)``.

    Examples
    --------
    >>> sampler = ConfigSampler(1000, 4, seed=0)
    >>> len(next(sampler)), sampler.state()["step"]
    (4, 1)
    """

    def __init__(self, n: int, k: int, seed: int | Iterable[int] = 0) -> None:
        self.n, self.k, self.step = check_whole("n", n, 0), check_whole("k", k, 1), 0
        self.seed = tuple(seed) if isinstance(seed, Iterable) else (seed,)

    def __iter__(self) -> Iterator[NDArray[np.int64]]:
        return self

    def __next__(self) -> NDArray[np.int64]:
        rows = sample_epoch(self.n, min(self.k, self.n), self.seed, self.step)
        self.step += 1
        return rows

    def state(self) -> dict[str, Any]:
        """Return everything needed to resume: plain integers, fit for JSON."""
        return {"n": self.n, "k": self.k, "seed": list(self.seed), "step": self.step}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Resume where a sampler with the same n, k and seed stopped.

        Parameters
        ----------
        state : mapping
            What `state` returned.

        Raises
        ------
        ConfigError
            The state is of another sampler.
        """
        for key, mine in (("n", self.n), ("k", self.k), ("seed", list(self.seed))):
            if state.get(key) != mine:
                raise ConfigError(
                    f"ConfigSampler: the state has {key} = {state.get(key)!r}, this sampler {mine!r}"
                )
        self.step = check_whole("ConfigSampler: step in the state", state.get("step"), 0)
