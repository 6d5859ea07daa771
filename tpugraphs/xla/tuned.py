"""A function with the options that tuning found for it."""

from __future__ import annotations

import math
import os
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import jax
import numpy as np

from tpugraphs import __version__
from tpugraphs.errors import DataError
from tpugraphs.records import Record
from tpugraphs.system import absolute, counted, json_text, parsed, read_whole, write_whole
from tpugraphs.system.machine import keep_memory
from tpugraphs.tuning import Finalist
from tpugraphs.tuning.tuned import compared, ends
from tpugraphs.xla.spaces import risks

_ARRAYS = (jax.Array, np.ndarray, np.generic, jax.core.Tracer)
_SAVED = (
    "name",
    "options",
    "keeps_memory",
    "gain",
    "interval",
    "memory",
    "seconds",
    "machine",
    "evaluations",
)
_SHARED = re.compile(r"LIBRARY_FUSION_TYPE_|CPU_SCHEDULER_TYPE_|^xla_(?:cpu_)?(?:experimental_)?")  # of names


@dataclass(frozen=True)
class Memory:
    """Gain from keeping freed memory, measured in fresh processes without any option.

    Attributes
    ----------
    gain : float
        How many times faster the program runs.
    interval : (float, float)
        Its confidence interval, at 95 %.
    faults : (float, float)
        Page faults per call, first without and then with :func:`keep_memory`.
    resident : (float, float)
        MiB of the process after the runs, in both states.
    """

    gain: float
    interval: tuple[float, float]
    faults: tuple[float, float]
    resident: tuple[float, float]


@dataclass(eq=False, repr=False)
class TunedFunction:
    """A function with the compiler options that make it fast; call it as the function itself.

    Under ``jax.vmap`` the options apply. Inside of ``jax.jit``, ``jax.grad`` and the like XLA takes those of
    the outermost ``jax.jit`` only, so there the function runs without them, with a warning: give them to that
    one, ``jax.jit(step, compiler_options=tuned.options)``, or tune ``jax.grad(fn)``.

    Attributes
    ----------
    fn : callable
        The function.
    name : str
        Of the program.
    options : dict of str to value
        For ``jax.jit(fn, compiler_options=...)``; empty if none were better than XLA's default.
    keeps_memory : bool
        Whether freed memory is kept (:func:`tpugraphs.xla.keep_memory`), which making this object begins. It
        is where that is faster beyond the noise.
    gain : float
        How many times faster than the default the options are, memory being the same; 1 without options.
    interval : (float, float) or None
        Confidence interval of the gain of the best options, at 95 % for all finalists together.
    memory : Memory or None
        What keeping memory brings by itself; None where it was left out or is impossible.
    finalists : list of Finalist
        What was compared with the default in fresh processes, best first; configs are options.
    records : list of Record
        Everything that was measured in the search, in milliseconds.
    evaluations : int
        Measurements of the search besides the default.
    seconds : float
        How long it took.
    machine : dict
        Where it was measured.
    """

    fn: Callable[..., Any]
    name: str
    options: dict[str, Any]
    keeps_memory: bool
    gain: float
    interval: tuple[float, float] | None
    memory: Memory | None
    seconds: float
    machine: dict[str, Any]
    evaluations: int
    finalists: list[Finalist] = field(default_factory=list)
    records: list[Record] = field(default_factory=list)
    _made: dict[Any, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.keeps_memory:
            self.keeps_memory = keep_memory()
        self._direct = jax.jit(self.fn, compiler_options=self.options or None)

    def __call__(self, *args: Any, **named: Any) -> Any:
        """Call the function. Leaves of the arguments that are not arrays are constants of the program."""
        if not named and all(isinstance(one, _ARRAYS) for one in args):  # sooner than by leaves
            return self._called(self._direct, args, args, named)
        leaves, tree = jax.tree.flatten((args, named))
        fixed = tuple((i, leaf) for i, leaf in enumerate(leaves) if not isinstance(leaf, _ARRAYS))
        arrays = [leaf for leaf in leaves if isinstance(leaf, _ARRAYS)]
        run = self._made.get((tree, fixed))
        if run is None:

            def flat(*given: Any) -> Any:
                rest, constants = iter(given), dict(fixed)
                filled = [constants[i] if i in constants else next(rest) for i in range(len(leaves))]
                inner, by_name = jax.tree.unflatten(tree, filled)
                return self.fn(*inner, **by_name)

            run = self._made[tree, fixed] = jax.jit(flat, compiler_options=self.options or None)
        return self._called(run, arrays, args, named)

    def _called(
        self, run: Callable[..., Any], arrays: Sequence[Any], args: Sequence[Any], named: Mapping[str, Any]
    ) -> Any:
        """Call the compiled function, or inside of others the function itself."""
        try:
            return run(*arrays)
        except ValueError as error:
            if "compiler_options" not in str(error) or "top-level" not in str(error):
                raise
        todo = "give them to the outermost jax.jit: compiler_options=tuned.options; or tune jax.grad(fn)"
        warnings.warn(
            f"{self.name}: options do not apply inside of jax.jit or jax.grad; {todo}", stacklevel=3
        )
        return self.fn(*args, **named)

    def __repr__(self) -> str:
        return f"TunedFunction({self.name}, {self.options}, {self._gain()})"

    def _gain(self) -> str:
        between = self.interval and ends(self.interval, 2)
        if self.options and between:
            return f"{self.gain:.2f}× ({between})"
        return "no difference beyond the noise" + (f" (the best found: {between})" if between else "")

    def report(self) -> str:
        """Return a text for people: what memory brings, what options bring, what they risk."""
        lines = [f"{self.name}: {counted(self.evaluations, 'measurement')} in {self.seconds:.1f} s"]
        if self.memory is not None:
            one = self.memory
            clear = "no difference beyond the noise" if not one.interval[0] > 1 else f"{one.gain:.2f}×"
            lines.append(
                f"memory kept: {clear} ({ends(one.interval, 2)}); page faults per call "
                f"{one.faults[0]:,.0f} → {one.faults[1]:,.0f}, memory of the process "
                f"{one.resident[0]:,.0f} → {one.resident[1]:,.0f} MiB"
            )
        lines.append(f"options: {self._gain()}")
        lines += [f"  {name} = {value}" for name, value in self.options.items()]
        lines += [f"  risk: {name}: {text}" for name, text in risks(self.options).items()]
        if self.options and self.keeps_memory and self.memory:
            lines.append(f"together {self.gain * self.memory.gain:.2f}×")
        if self.finalists:
            short = [{_short(k): _short(v) for k, v in one.config.items()} for one in self.finalists]
            pairs = zip(self.finalists, short, strict=True)
            lines += ["", compared([replace(one, config=config) for one, config in pairs])]
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Return what `save` writes, as plain Python values."""
        found = {name: getattr(self, name) for name in _SAVED}
        found["memory"] = self.memory and asdict(self.memory)
        return {"tpugraphs": __version__, **found}

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the options, the gain and the machine as JSON, for :func:`apply`.

        Parameters
        ----------
        path : path
            Where it is written, whole or not at all.
        """
        write_whole(path, json_text(self.to_dict()) + "\n")


def apply(path: str | os.PathLike[str], fn: Callable[..., Any]) -> TunedFunction:
    """Return a function with the options that tuning found for it earlier.

    Parameters
    ----------
    path : path
        From :meth:`TunedFunction.save`.
    fn : callable
        The function.

    Returns
    -------
    TunedFunction
        Without finalists and records.

    Raises
    ------
    DataError
        The file is something else; names what is missing.
    OSError
        It cannot be read.

    Warns
    -----
    UserWarning
        It was tuned on another device or for another version of XLA.
    """
    file = absolute(path)
    try:
        found = parsed(read_whole(file))
        made = {name: found[name] for name in _SAVED}
        made["memory"] = found["memory"] and Memory(**{k: _pair(v) for k, v in found["memory"].items()})
        if not isinstance(made["options"], Mapping) or not isinstance(made["machine"], Mapping):
            raise TypeError("options and machine are no objects")
    except (ValueError, TypeError, KeyError) as error:
        text = f"expected what TunedFunction.save writes, found something else ({error}); tune again"
        raise DataError(text, file=file) from None
    made["interval"] = _pair(made["interval"])
    here = {"jaxlib": jax.lib.__version__, "platform": jax.default_backend()}
    there = made["machine"]
    other = [f"{k} {there.get(k)}, here {v}" for k, v in here.items() if there.get(k) != v]
    if other:
        warnings.warn(f"{file}: tuned for {'; '.join(other)}: tune again", stacklevel=2)
    return TunedFunction(fn, **made)


def _short(value: Any) -> str:
    """Return a name or value of XLA's without the words that all of them have."""
    return _SHARED.sub("", str(value))


def _pair(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(math.inf if one is None else one for one in value)
    return value
