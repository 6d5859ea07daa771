"""Intervals, from the errors on layers that were held out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tpugraphs.errors import ConfigError
from tpugraphs.layertime.files import File
from tpugraphs.layertime.table import LayerTable

__all__ = ["FAR", "HELD_OUT", "LEVELS", "ErrorQuantiles", "error_quantiles", "pooled"]

Floats = NDArray[np.float64]

LEVELS = np.linspace(0, 1, 101)
"""Levels of the quantiles that errors are kept at."""
FAR = math.log(2)
"""Scale of the excess, a log size or log operations, over which a device turns into an unseen one."""
_GROWTH = 2.0  # of errors, per e-fold beyond the training range
_MOST_LOG = 100.0  # bound of log(measured / predicted)
HELD_OUT = 0.1
"""Share of the layers that are held out, for the errors."""


@dataclass(frozen=True)
class ErrorQuantiles:
    """Quantiles of log(measured / predicted), at the levels `LEVELS`.

    Attributes
    ----------
    known : dict of str to (101,)
        By device, on its held-out layers.
    other : (101,) or None
        On unseen devices, each left out in turn; None if there is only one device.
    """

    known: dict[str, Floats]
    other: Floats | None

    def bounds(self, table: LayerTable, level: float, excess: Floats) -> Floats:
        """Return what to add to the predicted logarithms for a central interval (n, 2).

        `excess` (n,) is how far layers are outside the training range (`Space.excess`). There, errors on a
        training device grow by twice their size per e-fold, or by those on unseen devices, faded in. The
        wider interval counts.
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

    def write(self, file: File) -> None:
        """Add names and quantiles to a file."""
        file.metadata["judged"] = list(self.known)
        file.put(errors=np.array(list(self.known.values())))
        if self.other is not None:
            file.put(other_errors=self.other)

    @classmethod
    def read(cls, file: File) -> ErrorQuantiles:
        """Restore what `write` added."""
        names = file.entry("judged", list)
        rows = file.get("errors", len(names), LEVELS.size)
        other = file.get("other_errors", LEVELS.size) if "other_errors" in file.tensors else None
        every = rows if other is None else np.vstack([rows, other])
        if (np.diff(every) < -1e-9).any() or np.abs(every).max(initial=0) > _MOST_LOG:
            raise file.wrong("errors", "quantiles in ascending order", "others")
        return cls({str(name): row for name, row in zip(names, rows, strict=True)}, other)


def error_quantiles(table: LayerTable, log_ms: Floats) -> Floats:
    """Return the quantiles (101,) of log(measured / predicted), from predicted logarithms (n,)."""
    assert table.ms is not None
    found: Floats = np.quantile(np.log(table.ms) - log_ms, LEVELS)
    return found


def pooled(parts: Sequence[Floats]) -> Floats | None:
    """Return the quantiles (101,) of several devices, each of equal weight; None if `parts` is empty."""
    if not parts:
        return None
    found: Floats = np.quantile(np.concatenate(parts), LEVELS)
    return found
