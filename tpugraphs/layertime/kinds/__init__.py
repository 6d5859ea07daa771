"""Kinds of layers: a row of `KINDS` each, in the file of its family."""

from tpugraphs.layertime.kinds import convolutions, pointwise, products
from tpugraphs.layertime.kinds.base import KINDS, OPTIMIZERS, Choice, Kind, Size, Work

__all__ = ["KINDS", "OPTIMIZERS", "Choice", "Kind", "Size", "Work"]

KINDS.update({kind.name: kind for family in (convolutions, products, pointwise) for kind in family.KINDS})
