"""Checks of numbers and words that users give."""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any

import numpy as np

from tpugraphs.errors import ConfigError

__all__ = ["check_known", "check_number", "check_positive", "check_share", "check_whole"]


def check_whole(name: str, value: Any, least: int, most: int = 2**63 - 1) -> int:
    """Return an argument that is a whole number from `least` to `most`, or raise ConfigError."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or not least <= value <= most:
        expected = f"of at least {least}" if most == 2**63 - 1 else f"from {least} to {most}"
        raise ConfigError(f"{name}: expected a whole number {expected}, got {_shown(value)}")
    return int(value)


def check_number(name: str, value: Any, least: float = 1e-6, most: float = 1e6) -> float:
    """Return an argument that is a number from `least` to `most`, or raise ConfigError."""
    if not _is_number(value) or not least <= value <= most:
        raise ConfigError(f"{name}: expected a number from {least:g} to {most:g}, got {_shown(value)}")
    return float(value)


def check_positive(name: str, value: Any, most: float = math.inf) -> float:
    """Return an argument that is a number above 0, `most` at most, or raise ConfigError."""
    if not _is_number(value) or not 0 < value <= most:
        raise ConfigError(f"{name}: expected a number above 0, at most {most:g}, got {_shown(value)}")
    return float(value)


def check_share(name: str, value: Any) -> float:
    """Return an argument that is a number above 0 and below 1, or raise ConfigError."""
    if not _is_number(value) or not 0 < value < 1:
        raise ConfigError(f"{name}: expected a number above 0 and below 1, got {_shown(value)}")
    return float(value)


def check_known(what: str, name: Any, known: Collection[str]) -> None:
    """Raise ConfigError unless a name is among those known."""
    if not isinstance(name, str) or name not in known:
        raise ConfigError(f"{what} {_shown(name)}: unknown; expected one of {', '.join(known)}")


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)


def _shown(value: Any) -> str:
    """Return a value for an error; Python refuses to write out numbers of thousands of digits."""
    long = isinstance(value, int) and value.bit_length() > 64
    return f"one of {value.bit_length():,} bits" if long else repr(value)
