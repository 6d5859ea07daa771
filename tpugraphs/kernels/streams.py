"""Keys of the random streams: what is drawn for one purpose never depends on what another drew."""

from __future__ import annotations

from enum import IntEnum

__all__ = ["Stream"]


class Stream(IntEnum):
    """Second part of a key ``(seed, stream, ...)``. Results depend on the numbers: none ever changes."""

    ORDER = 1  # Order of the graphs in an epoch
    ROWS = 2  # Configs of a slate
    VALID = 3  # Configs that are validated on
    SPLIT = 4  # Parts of the configs of a graph
    AUGMENT = 5  # Orders of test-time augmentation
    CLOSE = 6  # Slates of configs with close runtimes
    TREES = 7  # Configs that trees are learnt from
    FAST = 8  # Slates that prefer fast configs
    SEGMENTS = 9  # Segments that are trained, and stored scores of others that count
    FOLDS = 10  # Folds of a cross-validation
    PSEUDO = 11  # Configs that are given pseudo-labels
