"""Splits of a table of layers into training and held-out layers."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tpugraphs.errors import ConfigError
from tpugraphs.layertime.table import LayerTable
from tpugraphs.system.arguments import check_share

__all__ = ["unseen_devices", "unseen_layers"]


def unseen_layers(table: LayerTable, share: float = 0.1, seed: int = 0) -> tuple[LayerTable, LayerTable]:
    """Divide the layers of every device at random.

    Parameters
    ----------
    table : LayerTable
    share : float
        Share of held-out layers, above 0 and below 1. Both parts have at least one layer of each device.
    seed : int

    Returns
    -------
    known, unseen : LayerTable

    Raises
    ------
    ConfigError
        A wrong share, or a device of a single layer.
    """
    check_share("share", share)
    rng, held_out = np.random.default_rng(seed), np.zeros(len(table), bool)
    for name, rows in table.by_device():
        own = rng.permutation(np.flatnonzero(rows))
        if own.size < 2:
            raise ConfigError(f"device {name!r}: expected at least two layers to divide, got {own.size}")
        held_out[own[: min(own.size - 1, max(1, round(share * own.size)))]] = True
    return table.take(~held_out), table.take(held_out)


def unseen_devices(table: LayerTable) -> Iterator[tuple[str, LayerTable, LayerTable]]:
    """Leave out every device in turn.

    Parameters
    ----------
    table : LayerTable
        Layers that ran on several devices.

    Yields
    ------
    device : str
    known, unseen : LayerTable
        Layers of the other devices, and of this one.

    Raises
    ------
    ConfigError
        Layers of one device only.
    """
    found = dict(table.by_device())
    if len(found) < 2:
        raise ConfigError(f"table: expected layers of at least two devices, got {', '.join(found) or 'none'}")
    for name, rows in found.items():
        yield name, table.take(~rows), table.take(rows)
