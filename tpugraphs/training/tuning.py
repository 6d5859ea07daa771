"""Fine-tuning: parameters that a fit leaves unchanged, or trains at another learning rate."""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from tpugraphs.errors import ConfigError
from tpugraphs.system.arguments import is_number

__all__ = ["Tuning"]

Layout = Sequence[tuple[str, int, tuple[int, ...]]]


class Tuning:
    """What a fit trains differently from its recipe; see :meth:`tpugraphs.Ranker.fit`.

    Parameters
    ----------
    freeze : str or sequence of str
        Patterns of names of parameters that do not change.
    groups : sequence of mapping
        ``{"match": "head.*", "learning_rate": 10.0}``: a factor of the rate, ``weight_decay``, or both.

    Attributes
    ----------
    patterns : list of dict
        All of them; the first that matches a parameter decides.

    Raises
    ------
    ConfigError
        Anything else, or a number that is negative or not finite.
    """

    def __init__(self, freeze: Any = (), groups: Any = ()) -> None:
        given = [freeze] if isinstance(freeze, str) else freeze
        if not isinstance(given, (list, tuple)) or not all(isinstance(pattern, str) for pattern in given):
            raise ConfigError(f"freeze: expected patterns of names of parameters, got {freeze!r:.80}")
        if not isinstance(groups, (list, tuple)) or not all(isinstance(group, Mapping) for group in groups):
            raise ConfigError(f"groups: expected a list of dicts, got {groups!r:.80}")
        self.freeze, self.groups = list(given), [_checked(group) for group in groups]
        still = [{"match": pattern, "learning_rate": 0.0, "weight_decay": 0.0} for pattern in self.freeze]
        self.patterns: list[dict[str, Any]] = [*still, *self.groups]

    def frozen(self, layout: Layout) -> list[tuple[int, int]]:
        """Return begin and end of the parameters that stay as they are.

        Raises
        ------
        ConfigError
            A pattern that applies to no parameter, or no parameter is left to train.
        """
        ranges, used = [], set()
        for name, begin, shape in layout:
            found = next((i for i, p in enumerate(self.patterns) if fnmatchcase(name, p["match"])), None)
            used.add(found)
            if found is not None and found < len(self.freeze):
                ranges.append((begin, begin + math.prod(shape)))
        names = [name for name, _, _ in layout]
        for i, pattern in enumerate(self.patterns):
            if i not in used:
                what = "freeze" if i < len(self.freeze) else "groups"
                raise ConfigError(_unmatched(what, pattern["match"], names))
        if len(ranges) == len(layout):
            raise ConfigError(
                "freeze: expected some parameter to be left to train, got patterns of all of them"
            )
        return ranges


def _checked(group: Mapping[str, Any]) -> dict[str, Any]:
    """Return a group as plain values."""
    numbers = {name: value for name, value in group.items() if name in ("learning_rate", "weight_decay")}
    if not isinstance(group.get("match"), str) or not numbers or len(group) != len(numbers) + 1:
        raise ConfigError(
            "groups: expected dicts such as {'match': 'head.*', 'learning_rate': 10.0, 'weight_decay': 0.0}, "
            f"got {dict(group)!r:.80}"
        )
    for name, value in numbers.items():
        if not is_number(value, 0, 1e9):
            raise ConfigError(
                f"groups: {name} of {group['match']!r} must be a number in 0..1e9, got {value!r}"
            )
    return {"match": group["match"], **{name: float(value) for name, value in numbers.items()}}


def _unmatched(what: str, pattern: str, names: list[str]) -> str:
    near = difflib.get_close_matches(pattern, names, 1)
    hint = f" (did you mean {near[0]!r}?)" if near else ""
    return (
        f"{what}: {pattern!r} matches no parameter that an earlier pattern left{hint}; there are "
        f"{', '.join(names)}"
    )
