"""Checks of numbers that users give."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np

from tpugraphs.errors import ConfigError

__all__ = ["check_choice", "check_number", "check_whole"]


def check_whole(name: str, value: Any, least: int, most: int = 2**63 - 1) -> int:
    """Return an argument that is a whole number from `least` to `most`, or raise ConfigError."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or not least <= value <= most:
        expected = f"of at least {least}" if most == 2**63 - 1 else f"from {least} to {most}"
        long = isinstance(value, int) and value.bit_length() > 64
        found = f"one of {value.bit_length():,} bits" if long else repr(value)
        raise ConfigError(f"{name}: expected a whole number {expected}, got {found}")
    return int(value)


def check_number(name: str, value: Any, least: float = 1e-6, most: float = 1e6) -> float:
    """Return an argument that is a number from `least` to `most`, or raise ConfigError."""
    number = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
    if not number or not least <= value <= most:
        raise ConfigError(f"{name}: expected a number from {least:g} to {most:g}, got {value!r}")
    return float(value)


def check_choice(name: str, value: Any, choices: Collection[str]) -> str:
    """Return an argument that is one of some words, or raise ConfigError."""
    if not isinstance(value, str) or value not in choices:
        raise ConfigError(f"{name}: expected one of {', '.join(choices)}, got {value!r}")
    return value
