"""Checks of arguments against a declared range, choice or type, with one form of message.

``check_...`` return the argument or raise ConfigError; ``is_...`` are for callers that raise another error.
True and False are never numbers here.
"""

from collections.abc import Iterable
from math import inf
from numbers import Integral, Real
from typing import Any, TypeVar

from tpugraphs.errors import ConfigError

_Value = TypeVar("_Value")
_MOST = 2**63 - 1


def is_whole(value: Any, least: float = -inf, most: float = inf) -> bool:
    """Return whether `value` is a whole number from `least` to `most`, Python's or NumPy's."""
    number = isinstance(value, Integral) and not isinstance(value, bool)
    return number and bool(least <= value <= most)


def is_number(value: Any, least: float = -inf, most: float = inf) -> bool:
    """Return whether `value` is a whole or floating-point number from `least` to `most`; NaN is not."""
    number = isinstance(value, Real) and not isinstance(value, bool)
    return number and bool(least <= value <= most)


def check_whole(name: str, value: Any, least: int, most: int = _MOST) -> int:
    """Return an argument that is a whole number from `least` to `most`, or raise ConfigError."""
    if not is_whole(value, least, most):
        expected = f"of at least {least}" if most == _MOST else f"from {least} to {most}"
        raise ConfigError(f"{name}: expected a whole number {expected}, got {_shown(value)}")
    return int(value)


def check_number(
    name: str, value: Any, least: float = 1e-6, most: float = 1e6, *, above: bool = False
) -> float:
    """Return an argument that is a number from `least` to `most`, or raise ConfigError.

    With `above`, `least` itself is refused.
    """
    if not is_number(value, least, most) or (above and value == least):
        limits = f"above {least:g}, at most {most:g}" if above else f"from {least:g} to {most:g}"
        raise ConfigError(f"{name}: expected a number {limits}, got {_shown(value)}")
    return float(value)


def check_share(name: str, value: Any, such_as: float = 0.1) -> float:
    """Return an argument that is above 0 and below 1, or raise ConfigError with an example."""
    if not is_number(value, 0, 1) or value in (0, 1):
        expected = f"a share between 0 and 1 such as {such_as:g}"
        raise ConfigError(f"{name}: expected {expected}, got {_shown(value)}")
    return float(value)


def check_choice(name: str, value: Any, choices: Iterable[_Value]) -> _Value:
    """Return an argument that is one of the `choices`, or raise ConfigError."""
    choices = list(choices)
    for choice in choices:
        same_kind = isinstance(value, type(choice)) and isinstance(value, bool) == isinstance(choice, bool)
        if same_kind and value == choice:
            return choice
    raise ConfigError(f"{name}: expected one of {', '.join(map(str, choices))}, got {_shown(value):.200}")


def check_type(name: str, value: _Value, *types: type, expected: str = "") -> _Value:
    """Return an argument of one of these types, or raise ConfigError. True and False are bool alone."""
    if not isinstance(value, types) or (isinstance(value, bool) and bool not in types):
        expected = expected or " or ".join(one.__name__ for one in types)
        raise ConfigError(f"{name}: expected {expected}, got {type(value).__name__}")
    return value


def _shown(value: Any) -> str:
    """Return a value for an error; Python refuses to write out numbers of thousands of digits."""
    long = isinstance(value, int) and value.bit_length() > 64
    return f"one of {value.bit_length():,} bits" if long else repr(value)
