"""How far predictions are off on layers that were not learnt from, which makes intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tpugraphs.errors import ConfigError
from tpugraphs.layertime.table import LayerTable
from tpugraphs.system import tensorfile

__all__ = ["FAR", "HELD", "LEVELS", "ErrorQuantiles", "error_quantiles", "pooled"]

Floats = NDArray[np.float64]

LEVELS = np.linspace(0, 1, 101)
"""Levels of the quantiles that errors are kept at."""
FAR = math.log(2)
"""Excess of the logarithm of a size, or of the operations, at which most of what was learnt is given up."""
_GROWTH = 2.0  # of errors, for every e-fold of the excess
_MOST_LOG = 100.0  # of an error
HELD = 0.1
"""Share of the layers that are not learnt from, but tell the errors."""


@dataclass(frozen=True)
class ErrorQuantiles:
    """Quantiles of log(measured / predicted), at the levels `LEVELS`.

    Attributes
    ----------
    known : dict of str to (101,)
        By device, of layers that were not learnt from.
    other : (101,) or None
        Of devices that were not learnt from, each left out in turn; None if there is only one device.
    """

    known: dict[str, Floats]
    other: Floats | None

    def bounds(self, table: LayerTable, level: float, excess: Floats) -> Floats:
        """Return what to add to the predicted logarithms for a central interval (n, 2).

        `excess` (n,) tells how far layers are beyond those that were learnt from (`Space.excess`). There, a
        device that was learnt from is known less and less: its errors grow by their double for every e-fold,
        or by those of devices that were not learnt from, faded in; the wider interval counts.
        """
        found = np.empty((len(table), 2))
        levels = [(1 - level) / 2, (1 + level) / 2]
        for name, rows in table.by_device():
            own = self.known.get(name, self.other)
            if own is None:
                raise ConfigError(
                    f"device {name!r}: no interval for a device that was not learnt from: that takes "
                    "measurements of at least two others"
                )
            found[rows] = ends = np.interp(levels, LEVELS, own)
            beyond = excess[rows, None]
            if name in self.known and beyond.any():
                wide = ends * (1 + _GROWTH * beyond)
                if self.other is not None:
                    faded = ends + (1 - np.exp(-beyond / FAR)) * np.interp(levels, LEVELS, self.other)
                    wide = np.stack([np.minimum(wide, faded)[:, 0], np.maximum(wide, faded)[:, 1]], 1)
                found[rows] = np.where(beyond > 0, wide, ends)
        return found

    def to_file(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return metadata and tensors."""
        other = {} if self.other is None else {"other_errors": self.other}
        return {"judged": list(self.known)}, {"errors": np.array(list(self.known.values())), **other}

    @classmethod
    def from_file(
        cls, path: str, metadata: dict[str, Any], tensors: dict[str, NDArray[Any]]
    ) -> ErrorQuantiles:
        """Restore what `to_file` returned."""
        names = tensorfile.entry(path, metadata, "judged", list)
        rows = tensorfile.take(path, tensors, "errors", (len(names), LEVELS.size), np.float64)
        other = None
        if "other_errors" in tensors:
            other = tensorfile.take(path, tensors, "other_errors", LEVELS.shape, np.float64)
        every = rows if other is None else np.vstack([rows, other])
        if (np.diff(every) < -1e-9).any() or np.abs(every).max(initial=0) > _MOST_LOG:
            raise tensorfile.fail(path, "errors", "quantiles in ascending order", "others")
        return cls({str(name): row for name, row in zip(names, rows, strict=True)}, other)


def error_quantiles(table: LayerTable, log_ms: Floats) -> Floats:
    """Return the quantiles (101,) of log(measured / predicted), from predicted logarithms (n,)."""
    assert table.ms is not None
    found: Floats = np.quantile(np.log(table.ms) - log_ms, LEVELS)
    return found


def pooled(parts: Sequence[Floats]) -> Floats | None:
    """Return the quantiles (101,) of several devices together, each of equal weight; None of none."""
    if not parts:
        return None
    found: Floats = np.quantile(np.concatenate(parts), LEVELS)
    return found
