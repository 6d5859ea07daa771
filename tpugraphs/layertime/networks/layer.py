"""Layers of a network, without a batch size: what kind each is, and its columns."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tpugraphs.errors import ConfigError, DataError
from tpugraphs.layertime.devices import DEVICES, Device
from tpugraphs.layertime.kinds import KINDS, Choice
from tpugraphs.layertime.table import LayerTable, read_table
from tpugraphs.system.arguments import check_choice, check_whole
from tpugraphs.system.words import counted

__all__ = ["Layer", "LayerList", "equal_side", "places_of", "table_of", "window"]

_SET_LATER = ("batch", "B", "M", "optimizer")
_ANY_DEVICE = next(iter(DEVICES.values()))


@dataclass(frozen=True)
class Layer:
    """A layer of a network.

    Attributes
    ----------
    name : str
        In its network; need not be unique.
    kind : str or None
        One of `tpugraphs.layertime.KINDS`; None for what has no kind.
    columns : mapping of str to int or str
        Columns of the kind, without ``optimizer`` and without the one that grows with the batch. Missing ones
        have their defaults.
    rows : int
        How much that column grows per sample: usually 1, but the number of tokens for a dense layer over a
        text, or the number of rows for a softmax.
    source : str
        Class or operator that it was read from; ignored in comparisons.

    Raises
    ------
    DataError
        No such kind; a column is missing, unknown or out of its range; the layer has no outputs.
    """

    name: str
    kind: str | None
    columns: Mapping[str, int | str] = field(default_factory=dict)
    rows: int = 1
    source: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        where = f"layer {self.name!r}"
        try:
            check_whole(f"{where}: rows", self.rows, 1, (1 << 40) - 1)
            if self.kind is None:
                return
            check_choice(f"{where}: kind", self.kind, KINDS)
        except ConfigError as error:
            raise DataError(str(error)) from None
        kind, counts = KINDS[self.kind], KINDS[self.kind].per_sample
        own = [column for column in kind.columns if column.name not in (counts, "optimizer")]
        known = [name for column in own for name in (column.name, *column.aliases)]
        if wrong := [name for name in self.columns if name not in known]:
            hint = "; the batch size and the optimizer are set later, rows= says how often a sample counts"
            raise DataError(
                f"{where}: column {wrong[0]!r}: unknown; a layer of kind {self.kind!r} has "
                f"{', '.join(known)}{hint if wrong[0] in _SET_LATER else ''}"
            )
        row = {name: [value] for name, value in self.columns.items()} | {counts: [1]}
        try:
            found = read_table(row, self.kind, _ANY_DEVICE, timed=False).columns
        except DataError as error:
            raise DataError(f"{where}: {str(error).removeprefix('table: ')}") from None
        object.__setattr__(self, "columns", {column.name: found[column.name][0].item() for column in own})


class LayerList(list[Layer]):
    """The layers of a network, in the order in which they run.

    Parameters
    ----------
    iterable : iterable of Layer
        The layers; none by default.
    """

    @property
    def unknown(self) -> list[Layer]:
        """Layers that have no kind."""
        return [layer for layer in self if layer.kind is None]


def table_of(
    kind: str, layers: Sequence[Layer], batch_size: int, optimizer: str, device: Device = _ANY_DEVICE
) -> LayerTable:
    """Return layers of one kind at a batch size as a table, a row each.

    Raises
    ------
    DataError
        A column grows beyond its range with the batch.
    """
    counts = KINDS[kind].per_sample
    columns: dict[str, list[int | str]] = {counts: [batch_size * layer.rows for layer in layers]}
    for column in KINDS[kind].columns:
        if column.name == "optimizer":
            columns["optimizer"] = [optimizer] * len(layers)
        elif column.name != counts:
            columns[column.name] = [layer.columns[column.name] for layer in layers]
    limit = next(c.high for c in KINDS[kind].columns if c.name == counts and not isinstance(c, Choice))
    for layer, count in zip(layers, columns[counts], strict=True):
        if int(count) > limit:
            raise DataError(
                f"layer {layer.name!r} ({kind}): {counts} would be {count:,} for "
                f"{counted(batch_size, 'sample')}, expected at most {limit:,}"
            )
    return read_table(columns, kind, device, timed=False)


def equal_side(sizes: Sequence[int]) -> int:
    """Return the side of the square (cube) with the area (volume) of a rectangle, rounded, 1 at least."""
    if not sizes or min(sizes) < 1:
        raise DataError(f"expected sizes from 1 on, found {list(sizes)}")
    if len(set(sizes)) == 1:
        return sizes[0]
    return max(1, round(math.pow(math.prod(sizes), 1 / len(sizes))))


def places_of(side: int, kernel: int, stride: int, padding: str) -> int:
    """Return how many places a kernel takes along a side."""
    return -((side if padding == "SAME" else side - kernel + 1) // -stride)


def window(side: int, kernel: int, stride: int, places: int) -> tuple[int, str]:
    """Return the side and padding at which a kernel takes that many places.

    The side is changed if neither padding gives the number, as with uneven padding or dilation.
    """
    for padding in ("VALID", "SAME"):
        if places_of(side, kernel, stride, padding) == places:
            return side, padding
    return (places - 1) * stride + kernel, "VALID"
