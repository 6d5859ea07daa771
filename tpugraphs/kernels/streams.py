"""Keys of the random streams: draws for one purpose never depend on draws for another."""

from __future__ import annotations

from enum import IntEnum

__all__ = ["Stream"]


class Stream(IntEnum):
    """Second part of a key ``(seed, stream, ...)``. Results depend on the numbers, so none ever changes.

    ``csrc/store/visits.c`` and ``csrc/store/segments.c`` draw from some of them by the same numbers.
    """

    ORDER = 1  # Order of the graphs in an epoch
    ROWS = 2  # Configs of a slate
    VALID = 3  # Configs to validate on
    SPLIT = 4  # Parts of the configs of a graph
    AUGMENT = 5  # Orders of test-time augmentation
    CLOSE = 6  # Slates of configs with close runtimes
    TREES = 7  # Configs to learn trees from
    FAST = 8  # Slates that prefer fast configs
    SEGMENTS = 9  # Segments to train, and stored scores of others that count
    FOLDS = 10  # Folds of a cross-validation
    PSEUDO = 11  # Configs that get pseudo-labels
