"""The core's random numbers in Python: functions of a key and a counter."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
_WORD = (1 << 64) - 1
_GOLDEN = 0x9E3779B97F4A7C15


def _mix(x: int) -> int:  # SplitMix64's finaliser
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 & _WORD
    x = (x ^ x >> 27) * 0x94D049BB133111EB & _WORD
    return x ^ x >> 31


def key_of(key: int, *labels: int) -> int:
    """The key that the labels lead to, one after the other."""
    for label in labels:
        key = _mix(key + _GOLDEN * (label + 1) & _WORD)
    return key


def draw(key: int, counter: int) -> int:
    """Draw number `counter` under `key`, 64 bits."""
    return _mix(key ^ _mix(counter + _GOLDEN & _WORD))


def uniform(key: int, counter: int) -> float:
    """The same in [0, 1)."""
    return (draw(key, counter) >> 11) * 2.0**-53


def dropout(keys: list[int], columns: int, p: float) -> Array:
    """(keys, columns) of 0 or 1 / (1 - p): an element's hash is a product of numbers of its row's key and its column."""
    low = np.array([k & 0xFFFFFFFF for k in keys], np.uint32)[:, None]
    high = np.array([k >> 32 for k in keys], np.uint32)[:, None]
    column = np.arange(columns, dtype=np.uint32)
    mixed = (column + np.uint32(1)) * np.uint32(0x85EBCA6B)
    mixed = (mixed ^ mixed >> np.uint32(15)) * np.uint32(0xC2B2AE35)
    draws = (column * np.uint32(0x9E3779B1) + low) * ((mixed ^ high) | np.uint32(1))
    return (draws >> np.uint32(1) >= round(p * 2**31)) / (1.0 - p)
