"""How far predictions are off on layers that were not learnt from, which makes intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tpugraphs.errors import ConfigError
from tpugraphs.layertime.table import LayerTable
from tpugraphs.system import tensorfile

__all__ = ["LEVELS", "ErrorQuantiles", "divided", "error_quantiles", "pooled"]

Floats = NDArray[np.float64]

LEVELS = np.linspace(0, 1, 101)
"""Levels of the quantiles that errors are kept at."""
_MOST_LOG = 100.0  # of an error
_HELD = 0.1  # share of the layers that are not learnt from, for the errors


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

    def bounds(self, table: LayerTable, level: float) -> Floats:
        """Return what to add to the predicted logarithms for a central interval (n, 2)."""
        found = np.empty((len(table), 2))
        for name, rows in table.by_device():
            own = self.known.get(name, self.other)
            if own is None:
                raise ConfigError(
                    f"device {name!r}: no interval for a device that was not learnt from: that takes "
                    "measurements of at least two others"
                )
            found[rows] = np.interp([(1 - level) / 2, (1 + level) / 2], LEVELS, own)
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


def divided(table: LayerTable, seed: int) -> tuple[LayerTable, LayerTable]:
    """Return layers to learn from, and layers that tell the errors: a tenth of every device's, one at least.

    Raises
    ------
    ConfigError
        A device with a single layer.
    """
    rng, held = np.random.default_rng(seed), np.zeros(len(table), bool)
    for name, rows in table.by_device():
        own = rng.permutation(np.flatnonzero(rows))
        if own.size < 2:
            raise ConfigError(f"device {name!r}: expected at least two layers to learn from, got {own.size}")
        held[own[: max(1, int(_HELD * own.size))]] = True
    return table.take(~held), table.take(held)
