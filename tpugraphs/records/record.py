"""One measurement of one configuration."""

from __future__ import annotations

import functools
import hashlib
import json
import math
import platform
import statistics
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from tpugraphs import __version__
from tpugraphs.errors import DataError
from tpugraphs.system.arguments import is_number, is_whole
from tpugraphs.system.machine import processor, usable_processors

STATUSES = ("correct", "compile", "runtime", "timeout", "correctness", "constraints")
"""What became of a config: `correct`, or why it failed, in the words of T4's `invalidity`."""

_DEEPEST, _MOST = 4, 2**63 - 1  # tuples in tuples; size of whole numbers
_CHECK = "correct it, or leave the record out"
_REPORTED = ("numpy", "jax", "jaxlib", "torch", "triton")  # of which the environment names the version


@functools.cache
def environment() -> dict[str, str]:
    """Return what a measurement depends on besides the device.

    Returns
    -------
    dict of str to str
        Versions of this package, Python and numerical packages imported so far; operating system, processor
        and number of cores. Nothing in it names the machine or its user. The same for the whole process.

    Examples
    --------
    >>> from tpugraphs import records
    >>> list(records.environment())[:5]
    ['tpugraphs', 'python', 'platform', 'processor', 'cores']
    """
    loaded = {name: sys.modules[name] for name in _REPORTED if name in sys.modules}
    return {
        "tpugraphs": __version__, "python": platform.python_version(), "platform": platform.platform(),
        "processor": processor() or "unknown", "cores": str(usable_processors()),
    } | {name: str(getattr(module, "__version__", "unknown")) for name, module in loaded.items()}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Record:
    """A configuration of a problem, its measured runtimes on a device, and what became of it.

    Parameters
    ----------
    config : dict of str to value
        Values of the parameters: numbers, texts, True or False, None, or tuples of these. Lists become
        tuples, NumPy's numbers those of Python.
    runtimes : tuple of float
        Single measurements, in any one unit. Readers of files return milliseconds where the format has a
        unit. At least one for a correct config.
    status : str
        ``"correct"``, or why it failed: ``"compile"``, ``"runtime"``, ``"timeout"``, ``"correctness"`` (a
        wrong result) or ``"constraints"`` (not allowed).
    problem : str
        What was tuned, for example kernel and sizes.
    device : str
        What it ran on.
    environment : dict of str to str
        What else the measurement depends on; see `environment`.
    time : str
        When, in ISO 8601.
    compile : float, optional
        Milliseconds of compilation.
    round : int, optional
        Number of the batch or generation in which the config was asked for.

    Raises
    ------
    DataError
        A value of another type, out of range, or not finite; names the field.

    Examples
    --------
    >>> from tpugraphs import records
    >>> record = records.Record({"block": 32}, runtimes=(2.0, 1.5, 1.75), problem="matmul")
    >>> record.runtime
    1.75
    """

    config: dict[str, Any]
    runtimes: tuple[float, ...] = ()
    status: str = "correct"
    problem: str = ""
    device: str = ""
    environment: dict[str, str] = field(default_factory=dict)
    time: str = ""
    compile: float | None = None
    round: int | None = None

    def __post_init__(self) -> None:
        for name, (convert, expected) in _RULES.items():
            value = getattr(self, name)
            try:
                object.__setattr__(self, name, convert(value))
            except DataError:
                raise
            except (TypeError, ValueError, AttributeError):
                raise DataError.of(name, expected, _shown(value), _CHECK) from None
        if self.status == "correct" and not self.runtimes:
            raise DataError.of("runtimes", "at least one of a correct config", "none", _CHECK)

    @property
    def runtime(self) -> float:
        """Median of the runtimes; NaN if the config failed."""
        return statistics.median(self.runtimes) if self.status == "correct" else math.nan

    @property
    def digest(self) -> str:
        """Hash of all fields. Records with equal digests are one and the same."""
        text = json.dumps(self.to_dict(), sort_keys=True, allow_nan=False)
        return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()

    def to_dict(self) -> dict[str, Any]:
        """Return all fields by name.

        Returns
        -------
        dict
            For JSON.
        """
        return {name: getattr(self, name) for name in _RULES}

    @classmethod
    def of(cls, entry: Any) -> Self:
        """Make a record of the fields in an object of JSON.

        Parameters
        ----------
        entry : dict
            As `to_dict` returns it; fields with defaults may be missing.

        Returns
        -------
        Record
            With all fields checked.

        Raises
        ------
        DataError
            A field is missing, unknown or wrong.
        """
        try:
            return cls(**entry)
        except TypeError as error:
            expected = f"an object with {', '.join(_RULES)}"
            raise DataError.of("record", expected, str(error), _CHECK) from None


def _text(value: Any) -> str:
    """Return a text that UTF-8 can hold, or raise ValueError, as the other rules do."""
    if type(value) is not str or any("\ud800" <= one <= "\udfff" for one in value):
        raise ValueError
    return value


def _status(value: Any) -> str:
    return STATUSES[STATUSES.index(value)]


def _number(value: Any) -> float:
    if not is_number(value, -sys.float_info.max, sys.float_info.max):
        raise ValueError
    return float(value)


def _whole(value: Any) -> int:
    if not is_whole(value, -_MOST, _MOST):
        raise ValueError
    return int(value)


def _plain(name: str, value: Any, deep: int = 0) -> Any:
    """Convert a value of a config to plain Python; DataError if it cannot be."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, (tuple, list, np.ndarray)) and deep < _DEEPEST:
        return tuple(_plain(name, one, deep + 1) for one in value)
    if value is None or type(value) is bool:
        return value
    try:
        return {int: _whole, float: _number, str: _text}[type(value)](value)
    except (KeyError, ValueError):
        expected = "a finite number of at most 64 bits, text in UTF-8, bool, None or a tuple of these"
        raise DataError.of(name, expected, _shown(value), _CHECK) from None


def _shown(value: Any) -> str:
    try:
        return f"{value!r:.80}"
    except ValueError:  # Python does not write out numbers of thousands of digits
        return f"{type(value).__name__} of thousands of digits"


_RULES: dict[str, tuple[Callable[[Any], Any], str]] = {
    "config": (lambda v: {_text(n): _plain(f"config.{n}", one) for n, one in v.items()}, "a dict of names"),
    "runtimes": (lambda v: tuple(map(_number, v)), "a list of finite numbers"),
    "status": (_status, f"one of {', '.join(STATUSES)}"),
    "problem": (_text, "a text in UTF-8"),
    "device": (_text, "a text in UTF-8"),
    "environment": (lambda v: {_text(n): _text(one) for n, one in v.items()}, "a dict of texts"),
    "time": (_text, "a text in UTF-8"),
    "compile": (lambda v: None if v is None else _number(v), "milliseconds or None"),
    "round": (lambda v: None if v is None else _whole(v), "a whole number or None"),
}
