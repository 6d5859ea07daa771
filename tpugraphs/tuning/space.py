"""Spaces of configurations: parameters, their values, and which combinations are allowed."""

from __future__ import annotations

import ast
import inspect
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from tpugraphs import _core
from tpugraphs.data.columns import plain
from tpugraphs.errors import ConfigError, DataError
from tpugraphs.system import check_number, check_type, check_whole, parsed, read_whole

__all__ = ["Space", "Values"]

Config = dict[str, Any]
"""A configuration: parameter to value."""
Constraint = str | Callable[..., Any]
"""An expression over parameters, or a function of some of them."""


@dataclass(frozen=True)
class Values:
    """The values of one parameter, as the functions of `Space` make them.

    Attributes
    ----------
    values : tuple, range or int
        The values; of a permutation the number of its elements.
    scale : {"number", "log"}, optional
        What a surrogate sees of numbers. By default the values decide.
    """

    values: tuple[Any, ...] | range | int
    scale: str | None = None


class Space:
    """Parameters with their values, and constraints that configurations must meet.

    A configuration is a dict of parameter to value. Configurations are drawn uniformly from those that meet
    all constraints, without trying others and without listing the space first.

    Constraints are expressions in a part of Python's language, which are parsed and never executed as Python:
    arithmetic, comparisons, ``in``, ``and``, ``or``, ``not``, ``a if c else b``, ``min``, ``max``, ``abs``,
    and ``layout[0]`` of a permutation. A constraint is not met where Python would divide by zero. Functions
    are constraints too: their arguments name the parameters that they read, and a function with one argument
    that is no parameter takes the whole configuration as a dict.

    Parameters
    ----------
    parameters : dict of str to list, range or Values
        Name to values. A list of numbers is ordered, other values are categories. The functions below make
        `Values`.
    constraints : list of str or callable
        What configurations must meet.
    default : dict, optional
        The configuration in use today, for a tuner to measure first.

    Raises
    ------
    ConfigError
        A value is no number, text, True or False, or occurs twice; a constraint cannot be read; no
        configuration meets all constraints; `default` does not meet them.

    Examples
    --------
    >>> import tpugraphs as tg
    >>> space = tg.Space(
    ...     {"block": [16, 32, 64], "unroll": tg.Space.powers(1, 16), "fast": tg.Space.flag()},
    ...     constraints=["block * unroll <= 256"],
    ... )
    >>> space.size
    24
    >>> {"block": 64, "unroll": 8, "fast": True} in space
    False
    >>> len(space.sample(5, seed=0))
    5
    """

    core: _core.Space
    """The space of codes: a configuration as the numbers of its values."""
    default: Config | None
    """The configuration in use today."""

    def __init__(
        self,
        parameters: Mapping[str, Values | Iterable[Any]],
        constraints: Sequence[Constraint] = (),
        default: Mapping[str, Any] | None = None,
    ) -> None:
        check_type("parameters", parameters, Mapping, expected="a dict of name to values")
        check_type("constraints", constraints, list, tuple, expected="a list")
        specs = {check_type("parameters", name, str): _spec(name, v) for name, v in parameters.items()}
        rules = tuple(_rule(given, list(specs)) for given in constraints)
        self._finish(_core.Space(specs, rules), default)

    def _finish(self, core: _core.Space, default: Mapping[str, Any] | None) -> None:
        self.core, self.default = core, None
        if default is not None:
            self.core.codes([dict(check_type("default", default, Mapping, expected="a dict"))])
            self.default = dict(default)

    @classmethod
    def from_table(cls, table: Any, default: Mapping[str, Any] | None = None) -> Self:
        """Make a space whose configurations are exactly the rows of a table.

        Parameters
        ----------
        table : DataFrame, dict of str to sequence, or list of dicts
            One configuration per row. Equal rows count once.
        default : dict, optional
            As for `Space`.

        Returns
        -------
        Space
            Its neighbours are the rows that differ in the fewest parameters.

        Raises
        ------
        ConfigError
            There are no rows, columns of different lengths or rows without a parameter.
        """
        if isinstance(table, Sequence) and len(table) and isinstance(table[0], Mapping):
            try:
                table = {name: [row[name] for row in table] for name in table[0]}
            except KeyError as missing:
                raise ConfigError(f"table: every row must have the parameter {missing}") from None
        if isinstance(table, Sequence) or not hasattr(table, "keys") or not len(list(table.keys())):
            raise ConfigError(f"table: expected columns or a list of dicts, found {type(table).__name__}")
        columns = {str(name): [plain(v) for v in table[name]] for name in table.keys()}
        specs: dict[str, Any] = {name: (_distinct(name, values), None) for name, values in columns.items()}
        self = cls.__new__(cls)
        self._finish(_core.Space(specs, (), tuple(columns.values())), default)
        return self

    @classmethod
    def read(cls, path: str | Path) -> Self:
        """Read a space from a file.

        TOML has a list ``constraints``, a table ``default``, and a table ``parameters`` of lists or of tables
        such as ``{powers = [1, 16]}``, ``{integers = [1, 1000]}``, ``{number = [0.1, 10], log = true}``,
        ``{flag = true}`` and ``{permutation = 4}``. JSON is the same, or the input format T1 of autotuners,
        or has ``tune_params`` and ``restrictions`` as in Kernel Tuner. Values in texts are parsed, never
        evaluated. A default of T1 that its own constraints forbid is dropped.

        Parameters
        ----------
        path : str or Path
            The file.

        Returns
        -------
        Space
            The space.

        Raises
        ------
        DataError
            The file is none of these.
        ConfigError
            As for `Space`.
        """
        path = Path(path)
        raw = read_whole(path)
        try:
            found = tomllib.loads(raw.decode()) if path.suffix == ".toml" else parsed(raw)
        except (ValueError, RecursionError) as error:
            raise DataError(f"not TOML or JSON: {error}", file=str(path)) from None
        try:
            parameters, constraints, default, strict = _described(found)
            space = cls(parameters, constraints, default if strict else None)
        except (ConfigError, DataError) as error:
            raise type(error)(f"{path}: {error}") from None
        if not strict and default in space:
            space.default = default
        return space

    @staticmethod
    def integers(low: int, high: int, step: int = 1) -> Values:
        """Make the whole numbers from `low` to `high`.

        Parameters
        ----------
        low, high : int
            Ends, both included where `step` meets them.
        step : int
            Distance of one number from the next.

        Returns
        -------
        Values
            For `Space`. They are never listed, so there may be up to 2,147,483,647.
        """
        check_whole("step", step, 1)
        check_whole("high", high, check_whole("low", low, -(2**62)), 2**62)
        return Values(range(low, high + 1, step))

    @staticmethod
    def powers(low: int, high: int) -> Values:
        """Make the powers of two from `low` to `high`.

        Parameters
        ----------
        low, high : int
            Ends, which are powers of two and included.

        Returns
        -------
        Values
            For `Space`.

        Raises
        ------
        ConfigError
            `low` or `high` is no power of two.
        """
        for name, value in (("low", low), ("high", high)):
            if check_whole(name, value, 1, 2**62) & (value - 1):
                raise ConfigError(f"{name}: expected a power of two, got {value}")
        return Values(tuple(1 << i for i in range(low.bit_length() - 1, high.bit_length())), "log")

    @staticmethod
    def number(low: float, high: float, *, log: bool = False, steps: int = 101) -> Values:
        """Make numbers from `low` to `high`.

        Parameters
        ----------
        low, high : float
            Ends, both included.
        log : bool
            Whether one number comes from the last by a factor, and not by a difference.
        steps : int
            How many numbers.

        Returns
        -------
        Values
            For `Space`.
        """
        check_number("low", low, 1e-300 if log else -1e300, 1e300)
        check_number("high", high, low, 1e300, above=True)
        spaced = (np.geomspace if log else np.linspace)(low, high, check_whole("steps", steps, 2, 10**6))
        return Values(tuple(spaced.tolist()), "log" if log else "number")

    @staticmethod
    def flag() -> Values:
        """Make a flag.

        Returns
        -------
        Values
            False and True, for `Space`.
        """
        return Values((False, True))

    @staticmethod
    def permutation(elements: int) -> Values:
        """Make all orders of some elements, such as of the loops of a nest or the dimensions of an array.

        Parameters
        ----------
        elements : int
            How many, from 2 to 12.

        Returns
        -------
        Values
            For `Space`; in configurations tuples of the numbers ``0 ... elements - 1``.
        """
        return Values(check_whole("elements", elements, 2, 12))

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the parameters."""
        return self.core.names

    @property
    def size(self) -> int | None:
        """Number of configurations that meet all constraints; None where it is not known exactly."""
        return self.core.size

    def estimate(self) -> tuple[float, float]:
        """Return the number of configurations that meet all constraints, and its standard error.

        Returns
        -------
        size, error : float
            The error is 0 where `size` is known.
        """
        return self.core.estimate()

    def sample(self, n: int, seed: int = 0) -> list[Config]:
        """Draw distinct configurations, uniformly.

        Parameters
        ----------
        n : int
            How many; fewer come only where the space has no others.
        seed : int
            The same seed draws the same configurations, and those of a smaller `n` come first.

        Returns
        -------
        list of dict
            The configurations.
        """
        return self.configs(self.core.sample(check_whole("n", n, 0), check_whole("seed", seed, 0)))

    def neighbours(self, config: Mapping[str, Any]) -> list[Config]:
        """Return the configurations in the space that differ in one parameter.

        Parameters
        ----------
        config : dict
            One in the space.

        Returns
        -------
        list of dict
            Of a parameter with more than 256 values those 1, 2, 4, ... values away; of a permutation those
            with two elements exchanged. Where constraints leave none, those that differ in two dependent
            parameters; of a table the rows that differ in the fewest.
        """
        return self.configs(self.core.neighbours(self.codes([config])[0]))

    def codes(self, configs: Iterable[Mapping[str, Any]], *, strict: bool = True) -> NDArray[np.int32]:
        """Return configurations as the numbers of their values.

        Parameters
        ----------
        configs : list of dict
            Configurations.
        strict : bool
            Whether one that is not in the space is an error; if not, its row is -1.

        Returns
        -------
        (n, P) int32 array
            Codes.

        Raises
        ------
        ConfigError
            A configuration is not in the space. The message names parameter and value, or the constraint.
        """
        return self.core.codes([dict(config) for config in configs], strict)

    def configs(self, codes: NDArray[np.int32]) -> list[Config]:
        """Return the configurations that codes stand for.

        Parameters
        ----------
        codes : (n, P) int32 array
            Numbers of values.

        Returns
        -------
        list of dict
            Configurations.
        """
        return self.core.configs(codes)

    def __contains__(self, config: object) -> bool:
        return isinstance(config, Mapping) and bool(self.codes([config], strict=False)[0, 0] >= 0)

    def __len__(self) -> int:
        if self.size is None:
            raise TypeError("the size of this space is not known exactly; use space.estimate()")
        return self.size

    def __repr__(self) -> str:
        size = f"about {self.estimate()[0]:.3g}" if self.size is None else f"{self.size:,}"
        return f"Space({', '.join(self.names)}; size {size})"


def _spec(name: str, given: Any) -> tuple[Any, str | None]:
    """Return the values of a parameter as the core takes them, and their scale."""
    if isinstance(given, Values):
        return given.values, given.scale
    if isinstance(given, range):
        return given, None
    if isinstance(given, (str, bytes, Mapping)) or not isinstance(given, Iterable):
        expected = "a list of values, or Space.integers(...) and the like"
        raise ConfigError(f"parameter {name!r}: expected {expected}, found {type(given).__name__}")
    return tuple(plain(value) for value in given), None


def _distinct(name: str, column: list[Any]) -> tuple[Any, ...]:
    """Return the values of a column, numbers by size."""
    try:
        values = dict.fromkeys(column)
        return tuple(sorted(values)) if all(isinstance(v, (int, float)) for v in values) else tuple(values)
    except TypeError:
        expected = "numbers, texts, True or False"
        raise ConfigError(f"parameter {name!r}: expected {expected}") from None


def _rule(given: Constraint, names: list[str]) -> Any:
    """Return a constraint as the core takes it: a text, or a function and the numbers of its parameters."""
    if isinstance(given, str):
        return given
    if not callable(given):
        raise ConfigError(f"constraints: expected a text or a function, found {type(given).__name__}")
    called = getattr(given, "__name__", type(given).__name__)
    try:
        has = list(inspect.signature(given).parameters.values())
    except (TypeError, ValueError):
        raise ConfigError(f"constraint {called}: its arguments cannot be seen; wrap it in a lambda") from None
    takes = [p for p in has if p.default is p.empty or p.name in names]
    in_order = [p for p in has if p.kind <= p.POSITIONAL_OR_KEYWORD]
    simple = takes == in_order[: len(takes)]
    found = tuple(names.index(p.name) for p in takes if p.name in names)
    if len(takes) == 1 and simple and not found:
        return given, None, called
    if len(found) < len(takes) or not (takes and simple):
        unknown = ", ".join(p.name for p in takes if p.name not in names) or "no arguments"
        expected = f"arguments among {', '.join(names)}"
        raise ConfigError(f"constraint {called}: expected {expected}, found {unknown}")
    return given, found, called


def _described(found: Any) -> tuple[dict[str, Any], list[Any], Any, bool]:
    """Return parameters, constraints, default of a file, and whether the default must be allowed."""
    try:
        if "ConfigurationSpace" in found:
            rows = found["ConfigurationSpace"]["TuningParameters"]
            parameters = {row["Name"]: _literal(row["Name"], row["Values"]) for row in rows}
            default = {row["Name"]: row["Default"] for row in rows if "Default" in row}
            conditions = found["ConfigurationSpace"].get("Conditions", [])
            return parameters, [row["Expression"] for row in conditions], default, False
        if "tune_params" in found:
            return dict(found["tune_params"]), list(found.get("restrictions", [])), None, True
        parameters = {name: _made(name, given) for name, given in found["parameters"].items()}
        return parameters, list(found.get("constraints", [])), found.get("default"), True
    except (KeyError, TypeError, AttributeError) as error:
        todo = "parameters, ConfigurationSpace or tune_params, see Space.read"
        raise DataError(f"expected {todo}; wrong or missing: {error}") from None


def _literal(name: str, text: Any) -> Any:
    """Parse a list of values that is written as text."""
    try:
        return ast.literal_eval(text) if isinstance(text, str) else text
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        expected, todo = "a list of values, written out", "correct the file"
        raise DataError.of(f"Values of {name}", expected, f"{text:.80}", todo) from None


def _made(name: str, given: Any) -> Any:
    """Return the values of a parameter in a file: a list, or a table that names a function of `Space`."""
    if not isinstance(given, dict):
        return given
    kinds = ("integers", "powers", "number", "flag", "permutation")
    kind = next((kind for kind in kinds if kind in given), None)
    if kind is None:
        raise DataError(f"parameter {name!r}: expected a list or one of {', '.join(kinds)}")
    options = {key: value for key, value in given.items() if key != kind}
    args = given[kind] if isinstance(given[kind], list) else [] if kind == "flag" else [given[kind]]
    try:
        made: Values = getattr(Space, kind)(*args, **options)
    except TypeError as error:
        raise DataError(f"parameter {name!r}: {error}") from None
    return made
