"""Losses that are Python functions: what the core calls in a training step, and what it accepts from them."""

from __future__ import annotations

import inspect
import math
import numbers
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tpugraphs.errors import ConfigError
from tpugraphs.recipes.functions import PREFIX, is_lost, plain_name

__all__ = ["OwnLoss", "with_own"]


class OwnLoss:
    """A function ``(scores, runtimes, lists) -> (loss, gradient)`` whose result is checked.

    Parameters
    ----------
    function : callable
        Takes `scores` (E,) float32, smaller is faster; `runtimes` (E,) float64, in nanoseconds or the unit of
        the schema, of tile graphs normalised; and `lists` (B+1,) int64: list i is ``[lists[i], lists[i+1])``.
        Configs of different lists are not to be compared. All three are copies. It returns the loss, a finite
        number, and its gradient with respect to the scores, (E,) float32 or float64.

    Raises
    ------
    ConfigError
        It takes other arguments.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function, self.name = function, plain_name(function)
        try:
            signature = inspect.signature(function)
        except (TypeError, ValueError):  # of a function in C it may not be known
            return
        try:
            signature.bind(None, None, None)
        except TypeError:
            raise ConfigError(
                f"loss {self.name}: expected a function of three arguments (scores, runtimes, lists), got "
                f"{self.name}{signature}"
            ) from None

    def __call__(
        self, scores: NDArray[np.float32], runtimes: NDArray[np.float64], lists: NDArray[np.int64]
    ) -> tuple[float, NDArray[np.float32]]:
        """Return value and gradient (E,); ConfigError, naming the function, if they are anything else."""
        n = len(scores)
        given = self.function(scores, runtimes, lists)
        if not isinstance(given, tuple) or len(given) != 2:
            raise self._wrong("a pair (loss, gradient)", f"{type(given).__name__}")
        value, gradient = given
        if isinstance(value, np.ndarray) and value.ndim == 0:
            value = value[()]
        if isinstance(value, bool) or not isinstance(value, numbers.Real):
            raise self._wrong("a number as the loss", f"{value!r:.60}")
        number = _float(value)
        if not math.isfinite(number):
            raise self._wrong("a finite loss", f"{value!r:.60}", _DIVERGED)
        if not isinstance(gradient, np.ndarray) or gradient.dtype not in (np.float32, np.float64):
            found = gradient.dtype if isinstance(gradient, np.ndarray) else type(gradient).__name__
            raise self._wrong(f"a gradient ({n},) float32 or float64", f"{found}")
        if gradient.shape != (n,):
            raise self._wrong(f"a gradient of the shape of the scores, ({n},)", f"{gradient.shape}")
        with np.errstate(over="ignore"):
            single = np.ascontiguousarray(gradient, np.float32)
        bad = np.flatnonzero(~np.isfinite(single))
        if bad.size:
            raise self._wrong("a finite gradient", f"{gradient[bad[0]]} at score {bad[0]}", _DIVERGED)
        return number, single

    def _wrong(self, expected: str, found: str, todo: str = "") -> ConfigError:
        return ConfigError(f"loss {self.name}: expected it to return {expected}, got {found}{todo}")


def _float(value: Any) -> float:
    """Return a value as a float; a whole number beyond all floats becomes infinite."""
    try:
        return float(value)
    except OverflowError:
        return math.inf


_DIVERGED = "; see that it is defined for equal scores and runtimes, or lower the learning_rate"


def with_own(terms: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return terms of a loss as the core takes them.

    Raises
    ------
    ConfigError
        A term is a function that was not in the file of the ranker.
    """
    for term in terms:
        if is_lost(term["loss"]):
            name = term["loss"].removeprefix(PREFIX).partition("#")[0]
            raise ConfigError(
                f"loss: this ranker was trained with the Python function {name}, and files hold no code: "
                f"give it with ranker.set_params(loss={name}), which keeps what was learnt, or choose another"
            )
    return [{**t, "loss": t["loss"] if isinstance(t["loss"], str) else OwnLoss(t["loss"])} for t in terms]
