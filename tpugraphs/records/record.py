"""One measurement of one configuration."""

from __future__ import annotations

import functools
import hashlib
import json
import math
import platform
import statistics
import sys
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, Self

import numpy as np

from tpugraphs import __version__
from tpugraphs.errors import DataError
from tpugraphs.system.arguments import is_number, is_whole
from tpugraphs.system.machine import processor, usable_processors

STATUSES = ("correct", "compile", "runtime", "timeout", "correctness", "constraints")
"""What became of a config: `correct`, or why it failed, in the words of T4's `invalidity`."""

_DEEPEST = 4  # tuples in tuples
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
    >>> sorted(records.environment())[-2:]
    ['python', 'tpugraphs']
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
        def put(name: str, value: Any, good: bool, expected: str) -> None:
            if not good:
                raise DataError.of(name, expected, f"{getattr(self, name)!r:.80}", _CHECK)
            object.__setattr__(self, name, value)

        if not _texts(self.config):
            raise DataError.of("config", "a dict of parameters to values", f"{self.config!r:.80}", _CHECK)
        config = {name: _plain(f"config.{name}", value) for name, value in self.config.items()}
        put("config", config, True, "")
        several = isinstance(self.runtimes, (tuple, list, np.ndarray))
        put("runtimes", self.runtimes, several and all(map(_finite, self.runtimes)), "finite numbers")
        put("runtimes", tuple(map(float, self.runtimes)), True, "")
        put("status", self.status, self.status in STATUSES, f"one of {', '.join(STATUSES)}")
        for name in ("problem", "device", "time"):
            put(name, getattr(self, name), _text(getattr(self, name)), "a text in UTF-8")
        named = _texts(self.environment) and all(map(_text, self.environment.values()))
        put("environment", named and dict(self.environment), named, "a dict of texts")
        put("compile", self.compile, self.compile is None or _finite(self.compile), "milliseconds or None")
        put("round", self.round, self.round is None or is_whole(self.round), "a whole number or None")
        enough = bool(self.runtimes) or self.status != "correct"
        put("runtimes", self.runtimes, enough, "at least one runtime of a correct config")

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
        """Return the fields by name, without those that have their default value.

        Returns
        -------
        dict
            For JSON.
        """
        values = {one.name: getattr(self, one.name) for one in fields(self)}
        keep = ("config", "runtimes")
        return {name: value for name, value in values.items() if name in keep or value != _DEFAULTS[name]}

    @classmethod
    def of(cls, entry: Any) -> Self:
        """Make a record of the fields in an object of JSON.

        Parameters
        ----------
        entry : dict
            As `to_dict` returns it.

        Returns
        -------
        Record
            With all fields checked.

        Raises
        ------
        DataError
            A field is missing, unknown or wrong.
        """
        if not isinstance(entry, dict) or "config" not in entry:
            raise DataError.of("record", "an object with a config", f"{entry!r:.80}", _CHECK)
        if unknown := entry.keys() - _DEFAULTS.keys():
            raise DataError.of("record", f"fields {', '.join(_DEFAULTS)}", min(unknown), _CHECK)
        return cls(**entry)


_DEFAULTS = {
    one.name: one.default if one.default_factory is MISSING else one.default_factory()
    for one in fields(Record)
}


def _text(given: Any) -> bool:
    """Return whether it is a text that UTF-8 can hold."""
    return type(given) is str and (given.isascii() or not any("\ud800" <= one <= "\udfff" for one in given))


def _texts(given: Any) -> bool:
    """Return whether it is a dict with texts as keys."""
    return isinstance(given, Mapping) and all(map(_text, given))


def _finite(value: Any) -> bool:
    return is_number(value) and math.isfinite(value)


def _plain(name: str, value: Any, deep: int = 0) -> Any:
    """Return a value of a config as one of Python, or raise DataError."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, (tuple, list, np.ndarray)) and deep < _DEEPEST:
        return tuple(_plain(name, one, deep + 1) for one in value)
    small = type(value) is int and abs(value) < 2**63
    finite = type(value) is float and _finite(value)
    if value is None or small or finite or type(value) is bool or _text(value):
        return value
    found = f"{value!r:.80}" if type(value) is not int else "one of more than 64 bits"
    raise DataError.of(name, "a finite number, text in UTF-8, bool, None or a tuple", found, _CHECK)
