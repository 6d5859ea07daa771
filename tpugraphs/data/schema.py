"""Names and kinds of the columns of graphs: :class:`Schema`; :data:`LAYOUT` and :data:`TILE` of TpuGraphs.

A schema gives the name and the kind of every column of a graph. A ranker keeps the schema it was trained
on and refuses graphs that do not fit it. In arrays a category is stored as its position in ``values``, a flag
as 0 or 1 (both float32), a digit as int8 in ``-1..values-1``, where -1 stands for "not set".
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tpugraphs import _core
from tpugraphs.data.arrays import AnyArray, fail
from tpugraphs.data.columns import KINDS, Column, Digit, Place, encoded, in_row
from tpugraphs.errors import ConfigError, DataError
from tpugraphs.names import kind_named
from tpugraphs.system import check_choice, check_whole, counted, parsed

if TYPE_CHECKING:
    from tpugraphs.data.graph import Graph

__all__ = ["KINDS", "LAYOUT", "TILE", "UNITS", "Column", "Digit", "Schema"]

#: Units of runtimes -> their length in nanoseconds.
UNITS = {"ns": 1.0, "us": 1e3, "ms": 1e6, "s": 1e9}
DIRECTIONS = ("minimize", "maximize")
GROUPS = ("node", "graph", "config")
_KINDS: dict[str, type[Any]] = dict.fromkeys(GROUPS, Column) | {"digits": Digit}
_RATE = re.compile(
    r"(?!.*(inv|recip|per_op|per_byte))([kmgtp]?(fl)?ops?(/s)?$|.*flops?(_?/?s)?$|.*(throughput|bandwidth|speed-?_?up|utili[sz]ation|efficiency)"
    r"|.*(?<![a-z])(fps|qps|iops|[kmgt]i?b(it)?/?p?s)$|.*(/|_per_|[_ ]per )(s|sec|secs|second|seconds)$)",
    re.IGNORECASE,
)

_MOST_COLUMNS = 65536
_LONGEST_UNIT = 40  # characters
FORMAT = 2  # of an .npz that holds its schema; those of TpuGraphs, which do not, count as 1
MEMBER = "tpugraphs_schema"  # its name in the file
_NUMBERS = _core.SCHEMA  # the published schemas in numbers: csrc/features/schema.h


@dataclass(frozen=True)
class Schema:
    """Names and kinds of all columns of a graph. Schemas can be compared, hashed and written as JSON.

    Attributes
    ----------
    node, graph, config : tuple of Column
        Columns of ``node_feat``, ``graph_feat`` and ``config_feat``.
    digits : tuple of Digit
        Columns of ``node_config_feat``, at most 64. A schema may also have ``config``.
    opcodes : int or None
        Opcodes are 0..opcodes-1; None: nodes have no opcode. At most 256.
    unit : {"ns", "us", "ms", "s"} or None
        Unit of the runtimes; None: not known. With ``direction="maximize"`` any text, such as ``"gflops"``.
    direction : {"minimize", "maximize"}
        ``"maximize"``: more is better for the measured values, in that unit, and the runtimes of graphs are 1
        / value. So smaller runtimes are always better, and the ratios are those of the values.
    inferred : bool
        Whether the schema was inferred from the arrays of one graph instead of given. Equality ignores it;
        see :meth:`check`.
    """

    node: tuple[Column, ...] = ()
    graph: tuple[Column, ...] = ()
    config: tuple[Column, ...] = ()
    digits: tuple[Digit, ...] = ()
    opcodes: int | None = None
    unit: str | None = None
    direction: str = "minimize"
    inferred: bool = field(default=False, compare=False)

    def __post_init__(self) -> None:
        for group in _KINDS:
            object.__setattr__(self, group, _columns(group, getattr(self, group)))
        if self.opcodes is not None:
            object.__setattr__(self, "opcodes", check_whole("opcodes", self.opcodes, 1, 256))
        check_choice("direction", self.direction, DIRECTIONS)
        text = isinstance(self.unit, str) and 0 < len(self.unit) <= _LONGEST_UNIT and self.unit.isprintable()
        if self.unit is not None and not (text and (self.maximized or self.unit in UNITS)):
            one_of = f"one of {', '.join(UNITS)}"
            known = f"a text of at most {_LONGEST_UNIT} characters" if self.maximized else one_of
            todo = "; where more is better, give direction='maximize'" if is_rate(self.unit) else ""
            raise ConfigError(f"unit: expected {known} or None, found {self.unit!r:.80}{todo}")
        object.__setattr__(self, "inferred", bool(self.inferred))

    @property
    def maximized(self) -> bool:
        """Whether larger measured values are better."""
        return self.direction == "maximize"

    @property
    def digit_values(self) -> tuple[int, ...]:
        """How many values each digit has, besides "not set"."""
        return tuple(digit.values for digit in self.digits)

    @property
    def kind(self) -> str:
        """Kind of the graphs of this schema in published files: a key of `tpugraphs.names.KINDS`.

        Graphs in files that spell out the schema are of kind ``"graph"``, whatever it is.
        """
        return next((kind for kind, schema in _PUBLISHED.items() if schema == self), "graph")

    @property
    def published(self) -> bool:
        """Whether this is :data:`LAYOUT` or :data:`TILE`, which the published files do not spell out."""
        return not kind_named(self.kind).any_schema

    @property
    def metric(self) -> str:
        """Default metric of rankings of such graphs: ``"top5"`` for tile graphs, else ``"tau"``."""
        return kind_named(self.kind).metric

    @property
    def hlo(self) -> bool:
        """Whether nodes are instructions of HLO, with the features and opcode numbers of TpuGraphs."""
        return self.opcodes is not None and self.node[: len(LAYOUT.node)] == LAYOUT.node

    @classmethod
    def infer(
        cls,
        *,
        node_feat: AnyArray | None = None,
        graph_feat: AnyArray | None = None,
        config_feat: AnyArray | None = None,
        node_config_feat: AnyArray | None = None,
        node_opcode: AnyArray | None = None,
        unit: str | None = None,
        names: Mapping[str, Sequence[str]] | None = None,
    ) -> Schema:
        """Infer a schema from arrays as in :class:`tpugraphs.Graph`, with runtimes in `unit`.

        Every column is a number, and a digit has as many values as occur: float arrays show no more. Columns
        are called ``node_0``, ``graph_0``, ``config_0``, ``digit_0`` and so on, unless they have names.
        Tables also have types, so :func:`tpugraphs.from_frame` infers more.

        Parameters
        ----------
        node_feat, graph_feat, config_feat : array, optional
            Their last axis is the columns.
        node_config_feat : (C, K, D) array, optional
            Digits from -1 on.
        node_opcode : (N,) uint8, optional
            Opcode numbers.
        unit : str, optional
            Of the runtimes: a key of `tpugraphs.data.schema.UNITS`.
        names : mapping of str to sequence of str, optional
            By group (node, graph, config), the names of all its columns, where they are known.

        Returns
        -------
        Schema
            With `inferred` set.
        """
        groups: dict[str, Any] = {}
        for group, array in zip(GROUPS, (node_feat, graph_feat, config_feat), strict=True):
            width = 0 if array is None else np.shape(array)[-1]
            known = (names or {}).get(group, ())
            groups[group] = map(Column, known if len(known) == width else _unnamed(group, width))
        if node_config_feat is not None:
            most = np.ones(np.shape(node_config_feat)[2])
            for row in range(0, len(node_config_feat), 256):  # all at once: many times the packed size
                block = np.asarray(node_config_feat[row : row + 256])
                most = np.maximum(most, block.max((0, 1), initial=1))
            groups["digits"] = [Digit(f"digit_{i}", int(value) + 1) for i, value in enumerate(most)]
        has_opcodes = node_opcode is not None and np.size(node_opcode) > 0
        opcodes = int(np.max(node_opcode)) + 1 if has_opcodes else None  # type: ignore[arg-type]
        return cls(**groups, opcodes=opcodes, unit=unit, inferred=True)

    def difference(self, other: Schema) -> str | None:
        """Name the first difference from this schema to the other: group, position, name.

        Parameters
        ----------
        other : Schema
            The one to compare with.

        Returns
        -------
        str or None
            None if they are equal.
        """
        for group in _KINDS:
            mine, theirs = getattr(self, group), getattr(other, group)
            what = f"{group} column" if group in GROUPS else "digit"
            for place, (a, b) in enumerate(zip_longest(mine, theirs)):
                only = f"only {counted(place, what.split()[-1])}"
                if a is None:
                    return f"{what} {place}: expected {only}, found {b.name!r} too"
                found = f"expected {a.name!r}, found {only}" if b is None else a.difference(b)
                if found is not None:
                    turned = b is not None and a.name != b.name and _same_names(mine, theirs)
                    return f"{what} {place}: {found}" + (", the same ones in another order" if turned else "")
        for name in ("opcodes", "direction", "unit"):
            expected, found = getattr(self, name), getattr(other, name)
            if expected != found:
                return f"{name}: expected {expected or 'none'}, found {found or 'none'}"
        return None

    def join(self, other: Schema) -> Schema:
        """Make one schema for the graphs of both.

        Two inferred schemas join to the widest digits and opcodes of both, and to the first names present. If
        only one was inferred, the given one stays. Two given schemas must be equal; DataError names the first
        difference.

        Parameters
        ----------
        other : Schema
            Schema of another graph.

        Returns
        -------
        Schema
            One that both graphs fit.

        Raises
        ------
        DataError
            Two given schemas differ; the message names the first difference.
        """
        given, read = (other, self) if self.inferred and not other.inferred else (self, other)
        alike = self.direction == other.direction and len(self.digits) == len(other.digits)
        if self.inferred and other.inferred and alike and (self.opcodes is None) == (other.opcodes is None):
            same = [group for group in GROUPS if len(getattr(self, group)) == len(getattr(other, group))]
            named = {group: getattr(other, group) for group in same if not self.names(group)}
            wide, unit = self._over(other), self.unit or other.unit
            given = replace(self, **named, digits=wide.digits, opcodes=wide.opcodes, unit=unit)
        given._refuse(read)
        return given

    def names(self, group: str) -> tuple[str, ...]:
        """Return the column names of a group; empty if an inferred schema made them up.

        Parameters
        ----------
        group : {"node", "graph", "config"}
            Which columns.

        Returns
        -------
        tuple of str
            In their order.
        """
        found = tuple(column.name for column in getattr(self, group))
        return () if self.inferred and found == _unnamed(group, len(found)) else found

    def _over(self, read: Schema) -> Schema:
        """Give the inferred schema `read` the kinds of this one, and its names if either has none."""
        groups: dict[str, Any] = {}
        for group in GROUPS:
            mine, theirs = getattr(self, group), getattr(read, group)
            if (self.names(group) and read.names(group)) or _same_names(mine, theirs):
                mine = [replace(a, name=b.name) for a, b in zip(mine, theirs, strict=False)]
            groups[group] = (*mine[: len(theirs)], *theirs[len(mine) :])
        if len(self.digits) == len(read.digits):
            pairs = zip(self.digits, read.digits, strict=True)
            groups["digits"] = [replace(a, values=max(a.values, b.values)) for a, b in pairs]
        if self.opcodes is not None and read.opcodes is not None:
            groups["opcodes"] = max(self.opcodes, read.opcodes)
        same = read.unit is None and read.direction == self.direction
        return replace(read, **groups, unit=self.unit if same else read.unit)

    def check(self, graph: Graph, runtimes: bool = False) -> None:
        """Refuse a graph that does not fit.

        A graph with a given schema must have this one. If its schema was inferred, its columns are taken as
        those of this schema, unless their names differ, and its values must be possible for them. If its
        `runtimes` will be read, they must have the same unit.

        Parameters
        ----------
        graph : Graph
            The graph in question.
        runtimes : bool
            Whether its runtimes will be read.

        Raises
        ------
        DataError
            Naming the graph and the first difference, or the column and row of the first impossible value.
        """
        other = graph.schema
        if other is self:
            return
        if not runtimes:
            other = replace(other, unit=self.unit, direction=self.direction)
        self._refuse(other, f"graph {graph.name!r}: ", graph.path)
        if other.inferred:
            found_in = {group: getattr(graph, f"{group}_feat", None) for group in GROUPS}
            self.check_values(graph.name, found_in)

    def _refuse(self, other: Schema, where: str = "", file: str | None = None) -> None:
        """Refuse a schema that does not fit this one; an inferred one takes on its kinds and names."""
        found = self.difference(self._over(other) if other.inferred else other)
        if found is not None:
            todo = "give it the columns that were used for training"
            raise DataError(
                f"{where}does not fit the schema: {found}; {todo}",
                file=file, field="schema", expected="a graph of this schema", found=found,
            )  # fmt: skip

    def check_values(self, name: str, arrays: Mapping[str, AnyArray | None]) -> None:
        """Refuse values that the kind of their column does not allow.

        Parameters
        ----------
        name : str
            Of the graph, for messages.
        arrays : dict of str to array or None
            By group (node, graph, config): (n, columns) or (columns,).

        Raises
        ------
        DataError
            There is such a value; the message names graph, column and row.
        """
        for group, array in arrays.items():
            if array is not None:
                where = f"graph {name!r}: {group}_feat: column"
                _core.check_columns(where, getattr(self, group), np.atleast_2d(array))

    def encode(self, group: str, table: Mapping[str, Any], place: Place = in_row) -> NDArray[np.float32]:
        """Turn named columns into the array (n, columns) that a graph stores, in the order of the schema.

        Parameters
        ----------
        group : {"node", "graph", "config"}
        table : dict of str to (n,) array
            Columns outside the group are not read.
        place : callable
            Names a row in errors by its number; ``row 3`` by default.

        Returns
        -------
        (n, columns) float32
            A category is its position, a flag 0 or 1.

        Raises
        ------
        DataError
            A column is missing, or a value is missing or impossible, such as a category that the schema does
            not know; the error names value, column and row.
        """
        return encoded(getattr(self, group), table, place)

    def decode(self, group: str, row: Any) -> dict[str, Any]:
        """Turn one row of stored features into names and values: the inverse of :meth:`encode`.

        Parameters
        ----------
        group : {"node", "graph", "config"}
            Which columns.
        row : (columns,) array
            As a graph stores them.

        Returns
        -------
        dict of str to value
            Values by column name.

        Raises
        ------
        DataError
            The number of values is not that of the columns.
        """
        columns: tuple[Column, ...] = getattr(self, group)
        values = np.asarray(row).tolist()
        if len(values) != len(columns):
            raise fail(f"{group} row", counted(len(columns), "value"), str(len(values)))
        result = {}
        for column, value in zip(columns, values, strict=True):
            if column.kind == "category":
                value = column.values[int(value)]
            result[column.name] = bool(value) if column.kind == "flag" else value
        return result

    def to_dict(self) -> dict[str, Any]:
        """Return the schema as plain dicts, lists, strings and numbers, for JSON."""
        result: dict[str, Any] = {g: list(map(_entry, getattr(self, g))) for g in _KINDS}
        result |= {"opcodes": self.opcodes, "unit": self.unit, "inferred": self.inferred}
        return {**result, "direction": self.direction} if self.maximized else result

    @classmethod
    def from_dict(cls, data: Any) -> Schema:
        """Make a schema from what :meth:`to_dict` returned.

        Parameters
        ----------
        data : dict
            Plain values.

        Returns
        -------
        Schema
            Equal to the one it was made from.

        Raises
        ------
        ConfigError
            The values do not describe a schema.
        """
        known = sorted(one.name for one in fields(cls))
        if not isinstance(data, Mapping) or not set(data) <= set(known):
            raise ConfigError(f"schema: expected an object with {', '.join(known)}, found {data!r:.80}")
        try:
            made = {g: [kind(**entry) for entry in data.get(g, ())] for g, kind in _KINDS.items()}
        except TypeError as error:
            raise ConfigError(f"schema: expected columns with name, kind and values; {error}") from None
        read = cls(**{**data, **made, "inferred": data.get("inferred") is True})
        # the published one itself: it is compared with at every prediction
        return read if read.inferred else _PUBLISHED.get(read.kind, read)

    def to_json(self) -> str:
        """Return the schema as JSON text; equal schemas give equal text."""
        return json.dumps(self.to_dict(), separators=(",", ":"), allow_nan=False)

    @classmethod
    def from_json(cls, text: str | bytes) -> Schema:
        """Make a schema from the text that :meth:`to_json` returned.

        Parameters
        ----------
        text : str or bytes
            JSON.

        Returns
        -------
        Schema
            Equal to the one it was made from.

        Raises
        ------
        ConfigError
            The text does not describe a schema.
        """
        try:
            data = parsed(text)
        except ValueError as error:
            raise ConfigError(f"schema: expected JSON, found something else ({error})") from None
        return cls.from_dict(data)

    def __repr__(self) -> str:
        if self is _PUBLISHED.get(self.kind):
            return f"schema.{self.kind.upper()}"
        sizes = {g: len(getattr(self, g)) for g in (*GROUPS, "digits")}
        parts = [counted(n, g.removesuffix("s"), g) for g, n in sizes.items() if n]
        parts += [counted(self.opcodes, "opcode")] if self.opcodes else []
        more = ["more is better"] if self.maximized else []
        return f"Schema({', '.join([*parts, self.unit or 'no unit', *more])})"


def is_rate(name: Any) -> bool:
    """Return whether a name suggests a quantity where more is better, such as ``"gflops"``."""
    return isinstance(name, str) and _RATE.match(name) is not None


def _same_names(mine: Sequence[Any], theirs: Sequence[Any]) -> bool:
    return {column.name for column in mine} == {column.name for column in theirs}


def _unnamed(group: str, count: int) -> tuple[str, ...]:
    return tuple(f"{group}_{i}" for i in range(count))


def _entry(one: Column | Digit) -> dict[str, Any]:
    """Return a column or digit as plain values."""
    plain = {key: list(value) if isinstance(value, tuple) else value for key, value in vars(one).items()}
    return {key: value for key, value in plain.items() if value != []}


def _columns(group: str, given: Any) -> tuple[Any, ...]:
    """Return a group as a checked tuple of Column or Digit."""
    kind, most = _KINDS[group], _MOST_COLUMNS if group in GROUPS else _NUMBERS["most_digits"]
    listed = tuple(given) if isinstance(given, Iterable) and not isinstance(given, (str, bytes)) else (given,)
    for entry in listed:
        if not isinstance(entry, kind):
            raise ConfigError(f"{group}: expected objects of type {kind.__name__}, found {entry!r}")
    if len(listed) > most:
        raise ConfigError(f"{group}: expected at most {most} columns, found {len(listed)}")
    names = Counter(entry.name for entry in listed)
    if len(names) < len(listed):
        raise ConfigError(f"{group}: two columns are called {names.most_common(1)[0][0]!r}")
    return listed


# --- files --------------------------------------------------------------------------------------------------


def write_schema(schema: Schema, about: Mapping[str, Any]) -> NDArray[np.uint8]:
    """Return the bytes that a file holds for a schema and the facts about the measurements."""
    content = {"format": FORMAT, "schema": schema.to_dict()} | ({"about": about} if about else {})
    text = json.dumps(content, separators=(",", ":"))
    return np.frombuffer(text.encode(), np.uint8)


def read_schema(text: AnyArray) -> tuple[Schema, dict[str, Any]]:
    """Read both from the bytes of a file; DataError if these are of a later format or damaged."""
    if text.dtype != np.uint8 or text.ndim != 1:
        raise fail(MEMBER, "text of a schema, as bytes", f"{text.dtype} {text.shape}")
    try:
        data = parsed(text.tobytes())
        number = data["format"]
        schema = Schema.from_dict(data["schema"]) if number == FORMAT else None
        about = check_about(data.get("about"))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, ConfigError) as error:
        raise fail(MEMBER, "a schema as JSON", f"something else ({error!s:.200})") from None
    if schema is None:
        raise fail(MEMBER, f"format {FORMAT}", f"format {number!r:.40}", "open it with a later version")
    return schema, about


def check_about(about: Any) -> dict[str, Any]:
    """Return facts about measurements as plain JSON values; ConfigError if that is not possible."""
    try:
        plain_json = json.loads(json.dumps({} if about is None else about, allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise ConfigError(f"about: expected what JSON can hold, found something else ({error})") from None
    if not isinstance(plain_json, dict):
        raise ConfigError(f"about: expected names and values, found {about!r:.80}")
    return plain_json


# --- TpuGraphs ----------------------------------------------------------------------------------------------

_OPCODES = _core.OPCODES.split()


def opcode_name(opcode: int) -> str:
    """Return the name of an opcode number; ``"unknown"`` for 0 and for numbers above 120."""
    return _OPCODES[opcode - 1] if 1 <= opcode <= len(_OPCODES) else "unknown"


def spelled(names: str) -> Iterator[str]:
    """Yield the names that a pattern stands for: ``size_[2 sum]`` is size_0, size_1 and size_sum."""
    for stem, ends in re.findall(r"(\w+)(?:\[(.*?)\])?", names):
        for end in ends.split() or [""]:
            yield from (f"{stem}{i}" for i in range(int(end))) if end.isdigit() else (stem + end,)


_NODES = tuple(map(Column, spelled(_core.NODE_NAMES)))
_DIGITS = tuple(Digit(name, _NUMBERS["digit_max"] + 1) for name in spelled(_core.DIGIT_NAMES))

LAYOUT = Schema(node=_NODES, digits=_DIGITS, opcodes=_NUMBERS["opcodes"], unit="ns")
"""Layout graphs of TpuGraphs. (Any opcode is taken; from 120 on they count as 0, "unknown".)"""

TILE = Schema(
    node=_NODES, config=tuple(map(Column, spelled(_core.TILE_NAMES))), opcodes=_NUMBERS["opcodes"], unit="ns"
)
"""Tile graphs of TpuGraphs."""

_PUBLISHED = {"layout": LAYOUT, "tile": TILE}  # by kind
