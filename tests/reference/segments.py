"""Graph Segment Training in NumPy: which stored scores count, and what they add."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray
from reference.visits import happens


def others(
    stored: Mapping[int, NDArray[np.float64]],
    rows: NDArray[np.int64],
    segment: int,
    count: int,
    keep: float,
    key: tuple[int, ...],
) -> tuple[float, NDArray[np.float32]]:
    """Return eta, and the sums (n,) of the stored scores of other segments that count."""
    none = np.full(count, np.nan)
    scores = np.stack([stored.get(config, none) for config in rows.tolist()])
    there = ~np.isnan(scores).any(axis=0)
    there &= [other != segment and happens(keep, (*key, other)) for other in range(count)]
    return count - there.sum(), scores[:, there].sum(axis=1).astype(np.float32)
