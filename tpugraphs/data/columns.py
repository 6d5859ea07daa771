"""Columns: what they mean in a graph (:class:`Column`, :class:`Digit`), and their values in a table."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tpugraphs import _core
from tpugraphs.data.arrays import CHECK, AnyArray, check_mask, fail
from tpugraphs.errors import ConfigError
from tpugraphs.system import check_choice, check_whole, counted, few

#: Kinds of columns: how a ranker encodes their values.
KINDS = ("number", "log", "category", "flag")
MOST_DIGIT_VALUES = _core.SCHEMA["most_digit_values"]


def plain(value: Any) -> Any:
    """Turn a NumPy scalar into Python's own type."""
    return value.item() if isinstance(value, np.generic) else value


class _Named:
    """Common part of columns and digits."""

    name: str
    kind = "digit"
    values: Any

    def _title(self, texts: Iterable[Any] = ()) -> str:
        """Return the title for errors; refuse a name or texts that no file can hold."""
        what = type(self).__name__.lower()
        if not isinstance(self.name, str) or not self.name:
            raise ConfigError(f"{what}: expected a name of one character or more, found {self.name!r}")
        for text in filter(lambda one: isinstance(one, str), (self.name, *texts)):
            try:
                text.encode()
            except UnicodeEncodeError:
                expected = "text that UTF-8 can write"
                raise ConfigError(f"{what} {self.name!r}: expected {expected}, found {text!r:.80}") from None
        return f"{what} {self.name!r}"

    def difference(self, other: Any) -> str | None:
        """Describe the first difference from this one to another.

        Parameters
        ----------
        other : Column or Digit
            The one to compare with, of the same class.

        Returns
        -------
        str or None
            None if they are equal.
        """
        if self.name != other.name:
            return f"expected {self.name!r}, found {other.name!r}"
        if self.kind != other.kind:
            return f"{self.name!r} is a {self.kind} column, found a {other.kind} column"
        count, found = self.values, other.values
        if isinstance(count, tuple):
            for mine, theirs in zip(self.values, other.values, strict=False):
                if mine != theirs or type(mine) is not type(theirs):
                    return f"{self.name!r} has the value {mine!r}, found {theirs!r} in its place"
            count, found = len(count), len(found)
        return None if count == found else f"{self.name!r} has {counted(count, 'value')}, found {found}"


@dataclass(frozen=True)
class Column(_Named):
    """One column of node, graph or config features.

    Attributes
    ----------
    name : str
    kind : {"number", "log", "category", "flag"}
        ``number`` is standardised; ``log`` is a number >= 0, of which ln(1 + x) is standardised; ``category``
        is one of ``values``; ``flag`` is 0 or 1.
    values : tuple
        The values of a category: all strings, all whole numbers or all floats, each once.
    """

    name: str
    kind: str = "number"
    values: tuple[str | float | bool, ...] = ()

    def __post_init__(self) -> None:
        title, values, wanted = self._title(), self.values, None
        check_choice(f"{title}: kind", self.kind, KINDS)
        if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
            raise ConfigError(f"{title}: expected a tuple of values, found {values!r}")
        values = tuple(plain(value) for value in values)
        types = {type(value) for value in values}
        if bool(values) != (self.kind == "category"):
            wanted = f"{'values' if self.kind == 'category' else 'no values'} of a {self.kind} column"
        elif len(types) > 1 or not types <= {str, int, float}:
            wanted = "values that are all strings, all whole numbers or all floats"
        elif any(isinstance(value, float) and not math.isfinite(value) for value in values):
            wanted = "finite values"
        elif len(set(values)) < len(values):
            wanted = "every value once"
        if wanted is not None:
            raise ConfigError(f"{title}: expected {wanted}, found {values!r:.200}")
        if values:
            self._title(values)
        object.__setattr__(self, "values", values)


@dataclass(frozen=True)
class Digit(_Named):
    """One small choice per configurable node: int8 in ``-1..values-1``, -1 for "not set".

    Attributes
    ----------
    name : str
    values : int
        Number of values besides "not set": 2 to 32.
    """

    name: str
    values: int

    def __post_init__(self) -> None:
        values = check_whole(f"{self._title()}: values", self.values, 2, MOST_DIGIT_VALUES)
        object.__setattr__(self, "values", values)


# --- columns of tables --------------------------------------------------------------------------------------


Place = Callable[[int], str]  # row -> where it is, for errors
WHERE = "table: column"
REPAIR = "drop or repair this row"
wrong = partial(fail, where=WHERE)
_TYPES = {str: "string", bool: "bool", int: "number", float: "number"}


def in_row(row: int) -> str:
    """Return where a row is, by its number alone."""
    return f"row {row}"


def objects(values: Sequence[Any]) -> AnyArray:
    """Return values (n,) unchanged: NumPy would turn mixed ones into strings, and lists into rows."""
    return np.fromiter(values, object, len(values))


def refuse_rows(
    name: str, bad: AnyArray, values: AnyArray, expected: str, place: Place, todo: str = CHECK
) -> None:
    """Refuse a column with bad rows; the error names the first."""
    if bad.any():
        row = int(np.argmax(bad))
        raise wrong(name, expected, f"{plain(values[row])!r} in {place(row)}", todo)


def given_column(name: str, given: Any) -> AnyArray:
    """Return the values (n,) of a column, of any type; DataError if they are masked or not one per row."""
    check_mask(name, given, WHERE)
    array: AnyArray = objects(given) if isinstance(given, (list, tuple)) else np.asarray(given)
    if array.ndim != 1:
        found = f"an array of shape {array.shape}" if array.ndim else f"one {type(given).__name__}"
        raise wrong(name, "one value per row", found, "make it a list or an array (n,)")
    return array


def typed(name: str, given: Any, place: Place = in_row, todo: str | None = None) -> AnyArray:
    """Return values (n,) of one column, all of one type: bool, int64, float64 or strings (object).

    `todo` is the remedy that errors give.

    Raises
    ------
    DataError
        Values are missing, not finite, of other types or of mixed types, naming column and row.
    """
    array = given_column(name, given)
    kind = array.dtype.kind
    if kind not in "OUSbiuf":
        raise wrong(name, "strings, numbers or bools", f"dtype {array.dtype}", "convert it before")
    if kind in "OUS":
        return _typed_objects(name, array, place, todo)
    if kind == "b":
        return array
    wide: AnyArray = array.astype(np.float64 if kind == "f" else np.int64)
    bad, expected = ~np.isfinite(wide), "a finite number"
    if kind != "f":
        bad, expected = (wide < 0) & (array > 0), "a number below 2^63"
    refuse_rows(name, bad, array, expected, place, todo or REPAIR)
    return wide


def _typed_objects(name: str, array: AnyArray, place: Place, todo: str | None) -> AnyArray:
    """Return the values of Python objects, which must all have the type of the first."""
    values = objects([plain(value) for value in array.tolist()])
    first = _TYPES.get(type(values[0])) if len(values) else "string"
    for row, value in enumerate(values):
        kind = _TYPES.get(type(value))
        if kind is None or (type(value) is float and not math.isfinite(value)):
            expected, found = "a string, a bool or a finite number", f"{value!r} in {place(row)}"
            raise wrong(name, expected, found, todo or REPAIR)
        if kind != first:
            expected = f"values of one type, {first}s as in {place(0)}"
            fix = "make all of them strings or all numbers"
            raise wrong(name, expected, f"{value!r} ({kind}) in {place(row)}", todo or fix)
    if first == "string":
        return values
    whole = all(type(value) is int for value in values)
    try:
        return values.astype(np.bool_ if first == "bool" else np.int64 if whole else np.float64)
    except OverflowError:
        raise wrong(name, "numbers below 2^63", "a larger one") from None


def infer_column(name: str, array: AnyArray, kind: str | None = None) -> Column:
    """Infer the kind of a column of a table, unless it is given; its values come from :func:`typed`.

    See :func:`tpugraphs.from_frame`.
    """
    if kind is None and array.dtype.kind in "Ob":
        kind = "category" if array.dtype.kind == "O" else "flag"
    if kind is None:
        some = array[array > 0]
        spread = len(some) > 0 and array.min() >= 0 and array.max() >= max(1.0, 16.0 * float(some.min()))
        kind = "log" if spread else "number"
    return Column(name, kind, tuple(sorted(set(array.tolist()))) if kind == "category" else ())


def encoded(columns: Sequence[Column], table: Mapping[str, Any], place: Place) -> NDArray[np.float32]:
    """Return columns of a table as a graph stores them; see :meth:`tpugraphs.Schema.encode`."""
    for column in columns:
        if column.name not in table:
            raise wrong(column.name, "the column that the schema names", "none")
    arrays = [typed(column.name, table[column.name], place) for column in columns]
    lengths = sorted({len(array) for array in arrays})
    if len(lengths) > 1:
        raise fail("table", "columns of one length", f"{', '.join(map(str, lengths))} rows")
    values = np.zeros((lengths[0] if lengths else 0, len(columns)))
    for number, (column, array) in enumerate(zip(columns, arrays, strict=True)):
        if column.kind == "category":
            array = _positions(column, array, place)
        if array.dtype.kind == "O":
            found = f"{array[0]!r} in {place(0)}" if len(array) else "strings"
            raise wrong(column.name, f"numbers ({column.kind})", found)
        values[:, number] = array
    _core.check_columns(WHERE, tuple(columns), values, place)
    return values.astype(np.float32)


def _positions(column: Column, array: AnyArray, place: Place) -> AnyArray:
    """Return the positions (n,) of typed values among those of a category."""
    known = {value: number for number, value in enumerate(column.values)}
    numbers = [-1 if type(value) is bool else known.get(value, -1) for value in array.tolist()]
    result: AnyArray = np.array(numbers, np.int64)
    expected = f"one of {few([repr(value) for value in column.values], 8)}"
    todo = "a category that the schema does not know; drop the row or train with it"
    refuse_rows(column.name, result < 0, array, expected, place, todo)
    return result
