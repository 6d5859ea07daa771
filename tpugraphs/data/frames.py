"""Tables to graphs: :func:`from_frame` makes one graph per problem in a table of measurements."""

from __future__ import annotations

import difflib
import os
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from types import NoneType
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tpugraphs import _core
from tpugraphs.data import arrays, columns
from tpugraphs.data.arrays import AnyArray, fail
from tpugraphs.data.columns import MOST_DIGIT_VALUES, Digit, plain, refuse_rows, wrong
from tpugraphs.data.published import Graph
from tpugraphs.data.schema import DIRECTIONS, UNITS, Schema, is_rate
from tpugraphs.errors import ConfigError, DataError
from tpugraphs.system import check_choice, check_type, counted

__all__ = ["Table", "from_frame"]

_ONE = "graph"  # graph name for a table of one problem


class Table(Protocol):
    """Anything with columns by name: a dict of arrays, a DataFrame of any library."""

    def keys(self) -> Any: ...  # noqa: D102
    def __getitem__(self, name: str, /) -> Any: ...


ByProblem = ArrayLike | Mapping[Any, ArrayLike] | None
"""An array for all problems, or one per problem."""


def from_frame(
    table: Table,
    *,
    config: str | Sequence[str] = (),
    group: str | Sequence[str] = (),
    features: str | Sequence[str] = (),
    runtime: str | None = "ms",
    valid: str | None = None,
    repeats: str | Sequence[str] = (),
    digits: Mapping[int, Sequence[str]] | None = None,
    edges: ByProblem = None,
    nodes: ByProblem = None,
    opcodes: ByProblem = None,
    unit: str | None = None,
    kinds: Mapping[str, str] | None = None,
    schema: Schema | None = None,
    direction: str | None = None,
) -> list[Graph]:
    """Make graphs from a table with one measured configuration per row.

    Rows with equal values in the `group` columns are the configurations of one problem and become one graph,
    in the order in which the problems first occur. All graphs have one schema, inferred from the whole table:

    - strings are a category, whose values are those in the table, in alphabetical order;
    - bools are a flag;
    - numbers are a log number if none is negative, the largest is at least 1 and at least 16 times the
      smallest that is not 0; all others are a number.

    `kinds` overrides this per column, and `schema` altogether. Columns are found by name, so their order in
    the table does not matter; columns that are not named are not read.

    Parameters
    ----------
    table : DataFrame or dict of str to (n,) array
        Anything with columns by name; pandas is not needed.
    config : str or list of str
        Columns that describe a configuration.
    group : str or list of str
        Columns whose values identify the problem of a row; without any, the table is one problem.
    features : str or list of str
        Columns that describe the problem, such as its sizes or the device; one value per problem.
    runtime : str or None
        Column of the run times, each > 0, or of another quantity, see `direction`. None: not measured, for
        graphs to rank only.
    valid : str, optional
        Column that is False where a configuration failed. Its run time is not read and may be missing or a
        text.
    repeats : str or list of str
        Columns of single measurements, NaN where there is none.
    digits : dict of int to list of str, optional
        Instead of `config`: configurable node -> the columns of its digits. Every node has the same number of
        columns; those of the first node name the digits.
    edges : (E, 2) array, or dict of problem to such arrays, optional
        Edges of every problem. The keys of such a dict are values of the group column, or tuples of values if
        there are several group columns.
    nodes : (N, F) array, or dict of problem to such arrays, optional
        Node features. By default nodes have none, and `opcodes` or `edges` imply their number, or it is 1.
    opcodes : (N,) array, or dict of problem to such arrays, optional
        Opcodes of the nodes.
    unit : {"ns", "us", "ms", "s"} or str, optional
        Unit of the run times, or the name of a column with a single unit. By default the end of the run time
        column's name decides: ``ms`` and ``time_ms`` mean milliseconds, ``time`` leaves it open.
    kinds : dict of str to str, optional
        Column to ``"number"``, ``"log"``, ``"category"`` or ``"flag"``.
    schema : Schema, optional
        Schema that the graphs must fit, for example that of the training graphs. Names, kinds and values of
        the columns are checked against it.
    direction : {"minimize", "maximize"}, optional
        Whether smaller or larger values of the column `runtime` are better. With ``"maximize"``, for example
        for operations per second, ``graph.runtime`` is 1 / value, so that smaller is better and ratios are
        kept; `unit` is any text, by default the name of the column. ``graph.measured`` holds the values of
        the table. By default that of `schema`, or ``"minimize"``, with a warning where the column is named
        like a rate.

    Returns
    -------
    list of Graph
        One per problem, even if it has a single configuration, which leaves nothing to rank or learn.

    Raises
    ------
    DataError
        The table is ragged; a column is missing or duplicated; a value is missing, not finite, of mixed
        types, not of its kind, or a category that `schema` does not know; a run time is not > 0; two units; a
        problem all of whose configurations failed. The error names column, row (from 0) and problem.
    ConfigError
        Arguments that do not go together, such as a column named twice.

    Examples
    --------
    >>> import tpugraphs as tg
    >>> table = {"gpu": ["A", "A", "B"], "block": [32, 64, 32], "ms": [2.0, 1.5, 3.0]}
    >>> tg.from_frame(table, group="gpu", config="block", runtime="ms")
    [Graph('gpu=A', nodes=1, edges=0, configs=2), Graph('gpu=B', nodes=1, edges=0, configs=1)]
    """
    check_type("runtime", runtime, str, NoneType, expected="the name of a column")
    check_type("valid", valid, str, NoneType, expected="the name of a column")
    check_type("unit", unit, str, NoneType, expected=f"one of {', '.join(UNITS)} or the name of a column")
    check_type("digits", digits, Mapping, NoneType, expected="a dict of configurable nodes to their columns")
    check_type("kinds", kinds, Mapping, NoneType, expected="a dict of columns to their kinds")
    check_type("schema", schema, Schema, NoneType, expected="a tpugraphs.Schema")
    by_node = {node: _names("digits", names) for node, names in (digits or {}).items()}
    given = dict(group=group, config=config, runtime=runtime, valid=valid, repeats=repeats, features=features)
    roles = {role: _names(role, names) for role, names in given.items()}
    roles["digits"] = tuple(chain(*by_node.values()))
    _check_roles(roles, by_node)
    if schema is not None:
        if kinds:
            raise ConfigError("kinds: expected kinds, or a schema, which holds them, found both")
        by_node = _fitted(schema, roles, by_node)
    maximize = _direction(direction, schema, runtime, unit) == "maximize"
    text = maximize and (unit == runtime or unit not in _listed(table))
    rows = _Rows(table, roles, by_node, None if text or unit in UNITS else unit, schema)
    found_unit = rows.unit(unit, schema, maximize)
    if maximize:
        rows.invert()
    programs = _programs(rows, nodes, edges, opcodes)
    if schema is None:
        schema = _infer(rows, kinds or {}, programs)
        schema = replace(schema, direction="maximize" if maximize else "minimize", unit=found_unit)
    return _graphs(rows, schema, programs)


_Key = tuple[Any, ...]  # values of the group columns of a problem
Fits = Callable[[AnyArray], AnyArray]  # values (n,) -> whether each is possible


def _names(what: str, given: Any) -> tuple[str, ...]:
    if given is None:
        return ()
    listed = (given,) if isinstance(given, str) or not isinstance(given, Iterable) else tuple(given)
    for name in listed:
        if not isinstance(name, str):
            raise ConfigError(f"{what}: expected names of columns, found {name!r}; rename it to a string")
    return listed


def _direction(given: str | None, schema: Schema | None, runtime: str | None, unit: str | None) -> str:
    """Return the direction to use; warn if none is given and a name suggests that more is better."""
    known = None if schema is None else schema.direction
    if given is not None and known not in (None, check_choice("direction", given, DIRECTIONS)):
        raise ConfigError(f"direction: expected {known!r}, as in the schema, found {given!r}")
    rates = [name for name in (runtime, unit) if is_rate(name)]
    if given is None and known != "maximize" and rates:
        warnings.warn(
            f"runtime: less is taken as better, though {rates[0]!r} looks like a quantity of which more is: "
            "give direction='maximize', or direction='minimize' if less is better",
            stacklevel=3,
        )
    return given or known or "minimize"


def _check_roles(roles: Mapping[str, tuple[str, ...]], by_node: Mapping[int, tuple[str, ...]]) -> None:
    """Refuse columns that are named twice, except group columns that are also features."""
    if bool(roles["config"]) == bool(by_node):
        found = "both" if by_node else "neither"
        raise ConfigError(f"config: expected config= or digits=, found {found}")
    widths = {len(names) for names in by_node.values()}
    if len(widths) > 1 or widths == {0}:
        raise ConfigError(f"digits: expected as many columns for every node, found {sorted(widths)}")
    seen: dict[str, str] = {}
    for role in sorted(roles, key=lambda role: role == "group"):  # last
        for name in roles[role]:
            if name in seen and (role, seen[name]) != ("group", "features"):
                raise ConfigError(f"{role}: column {name!r} is named in {seen[name]} too; name it once")
            seen[name] = role


def _fitted(
    schema: Schema, roles: Mapping[str, tuple[str, ...]], by_node: Mapping[int, tuple[str, ...]]
) -> dict[int, tuple[str, ...]]:
    """Refuse columns that the schema lacks, and put digits in its order."""
    first = next(iter(by_node.values()), ())
    groups = {"features": schema.graph, "config": schema.config, "digits": schema.digits}
    for what, group in groups.items():
        known, names = [column.name for column in group], first if what == "digits" else roles[what]
        other = [f"no {name!r}" for name in known if name not in names]
        other += [f"{name!r} too" for name in names if name not in known]
        if other:
            todo = "name the same columns as for the schema"
            raise fail(what, "the columns of the schema", other[0], todo)
    order = [first.index(digit.name) for digit in schema.digits]
    return {node: tuple(names[i] for i in order) for node, names in by_node.items()}


class _Rows:
    """The columns of a table, checked, and which rows make up which problem."""

    def __init__(
        self, table: Any, roles: Mapping[str, tuple[str, ...]], by_node: Mapping[int, tuple[str, ...]],
        unit_column: str | None, schema: Schema | None,
    ) -> None:  # fmt: skip
        self.roles, self.by_node, self.unit_column = roles, by_node, unit_column
        self.raw = _columns(table, [*chain(*roles.values()), *([unit_column] if unit_column else [])])
        self.count = len(next(iter(self.raw.values())))
        keys = [columns.typed(name, self.raw[name]).tolist() for name in roles["group"]]
        at: dict[_Key, list[int]] = {}
        for row, key in enumerate(zip(*keys, strict=True) if keys else [()] * self.count):
            at.setdefault(key, []).append(row)
        self.problems: dict[_Key, NDArray[np.int64]] = {key: np.array(rows) for key, rows in at.items()}
        # A graph refuses a problem all of whose configurations failed.
        self.ran = np.ones(self.count, np.bool_)
        for name in roles["valid"]:
            self.ran = self.values(name, "True or False", lambda v: (v == 0) | (v == 1)).astype(np.bool_)
        self.columns = {name: self.values(name) for name in (*roles["config"], *roles["features"])}
        for names in by_node.values():
            for place, name in enumerate(names):
                most = MOST_DIGIT_VALUES if schema is None else schema.digits[place].values
                self.columns[name] = self._digits(name, most)
        todo = "drop this row, or name a column in valid= that is False where a configuration failed"
        times = [self._times(name, self.ran, 1, todo) for name in roles["runtime"]]
        self.runtime = times[0] if times else None
        todo = "leave it out: NaN stands for no measurement"
        self.repeats = [
            self._times(name, self.ran & ~self._missing(name), np.nan, todo) for name in roles["repeats"]
        ]

    def name(self, key: _Key) -> str:
        """Name a problem."""
        return ", ".join(f"{c}={v}" for c, v in zip(self.roles["group"], key, strict=True)) or _ONE

    def place(self, row: int, rows: AnyArray | None = None) -> str:
        """Return where a row is, for errors; with `rows`, the number is a position among these."""
        row = row if rows is None else int(rows[row])
        key = next((key for key, mine in self.problems.items() if row in mine), ())
        return f"row {row} (problem {self.name(key)!r})" if key else f"row {row}"

    def values(
        self, name: str, expected: str = "", fits: Fits | None = None, kinds: str = "bif",
        todo: str | None = None, rows: AnyArray | None = None,
    ) -> AnyArray:  # fmt: skip
        """Return the values of a column, all of one type, in some rows; refuse values that do not fit."""
        place = partial(self.place, rows=rows)
        raw = self.raw[name] if rows is None else self.raw[name][rows]
        values = columns.typed(name, raw, place, todo)
        if fits is not None:
            bad = ~fits(values) if values.dtype.kind in kinds else np.ones(len(values), np.bool_)
            refuse_rows(name, bad, values, expected, place, todo or arrays.CHECK)
        return values

    def _digits(self, name: str, most: int) -> AnyArray:
        expected = f"digits, whole numbers in -1..{most - 1}"
        return self.values(name, expected, lambda v: (v >= -1) & (v < most) & (np.floor(v) == v))

    def _missing(self, name: str) -> NDArray[np.bool_]:
        """Return which rows have no value: None or NaN."""
        missing = (
            value is None or (isinstance(value, (float, np.floating)) and bool(value != value))
            for value in self.raw[name]
        )
        return np.fromiter(missing, np.bool_, self.count)

    def _times(self, name: str, read: NDArray[np.bool_], instead: float, todo: str) -> AnyArray:
        """Return run times of the rows to read; `instead` for all others."""
        rows = np.flatnonzero(read)
        times = self.values(name, "run times > 0", lambda v: v > 0, "if", todo, rows)
        result = np.full(self.count, instead, np.float64 if np.isnan(instead) else times.dtype)
        result[rows] = times
        return result

    def one_value(self, name: str, values: AnyArray, at: AnyArray, expected: str, todo: str) -> None:
        """Refuse a second value in a column; `at`: the rows of the values (n,)."""
        expected = f"{expected}, {plain(values[0])!r} as in row {at[0]}"
        refuse_rows(name, values != values[0], values, expected, partial(self.place, rows=at), todo)

    def invert(self) -> None:
        """Replace measured values by 1 / value, so that smaller is better."""
        with np.errstate(over="ignore", divide="ignore"):  # the graph refuses these
            self.runtime = None if self.runtime is None else 1 / self.runtime
            self.repeats = [1 / several for several in self.repeats]

    def unit(self, given: str | None, schema: Schema | None, maximize: bool) -> str | None:
        """Return the unit from the column's name, the argument or the schema; DataError if they differ."""
        known = None if schema is None else schema.unit
        if self.runtime is None:
            return known if schema is not None else given if maximize or given in UNITS else None
        if self.unit_column is not None:
            units = self.values(self.unit_column)
            todo = "convert the run times to one unit"
            self.one_value(self.unit_column, units, np.arange(self.count), "one unit for all", todo)
            given = plain(units[0])
            if given not in UNITS and not maximize:
                raise fail("unit", f"one of {', '.join(UNITS)}", repr(given), "convert the run times")
        (name,) = self.roles["runtime"]
        ending = name.rpartition("_")[2]
        found = ending if ending in UNITS and not maximize else None
        for other, where in ((given, "unit="), (known, "schema=")):
            if other is not None and found is not None and other != found:
                expected = f"run times in {other}, as {where} says"
                raise wrong(name, expected, f"in {found}", "convert them or correct the unit")
            found = found or other
        return name if maximize and found is None else found


def _listed(table: Any) -> list[Any]:
    """Return the names of the columns of a DataFrame or mapping."""
    found = table if isinstance(table, Mapping) else getattr(table, "columns", None)
    if found is None or not hasattr(table, "__getitem__"):
        path = isinstance(table, (str, os.PathLike))
        raise ConfigError(
            f"table: expected a DataFrame or a dict of column names to arrays, got {type(table).__name__}; "
            f"pandas.{'read_csv(path)' if path else 'DataFrame(rows)'} makes one"
        )
    return list(found)


def _columns(table: Any, names: Iterable[str]) -> dict[str, AnyArray]:
    """Return the named columns of a DataFrame or a mapping, all of one length."""
    have, result = _listed(table), dict[str, AnyArray]()
    for name in dict.fromkeys(names):
        if have.count(name) != 1:
            todo = "rename or drop one" if name in have else _hint(name, table, have)
            raise wrong(name, "one such column", str(have.count(name) or "none"), todo)
        result[name] = columns.given_column(name, table[name])
    first, column = next(iter(result.items()))
    for name in result:
        if len(result[name]) != len(column):
            expected = f"{counted(len(column), 'row')}, as {first!r} has"
            raise wrong(name, expected, str(len(result[name])), "the table is ragged")
    if len(column) == 0:
        raise fail("table", "at least one row", "none")
    return result


def _hint(name: str, table: Any, have: list[Any]) -> str:
    """Return what to do about a missing column."""
    if name in (getattr(getattr(table, "index", None), "names", None) or ()):
        return "it is a level of the index: give table.reset_index()"
    if name == "ms":  # the default of runtime=
        return "give runtime= the column of run times, or None if nothing was measured"
    near = difflib.get_close_matches(name, [str(other) for other in have], n=1)
    if near:
        return f"did you mean {near[0]!r}?"
    return f"there are {', '.join(map(str, have[:20])) or 'no columns at all'}"


def _programs(rows: _Rows, nodes: Any, edges: Any, opcodes: Any) -> dict[_Key, Graph]:
    """Make a graph without configs for every problem: its nodes and edges, checked."""

    def of(key: _Key) -> Graph:
        ends, feat, codes = _of("edges", edges, key), _of("nodes", nodes, key), _of("opcodes", opcodes, key)
        if ends is not None and feat is None and codes is None:
            ends = _core.as_whole("edge_index", ends, "E2")
            feat = np.zeros((int(np.max(ends, initial=0)) + 1, 0))
        return Graph(name=rows.name(key), node_feat=feat, edge_index=ends, node_opcode=codes)

    if any(isinstance(given, Mapping) for given in (nodes, edges, opcodes)):
        return {key: of(key) for key in rows.problems}
    return dict.fromkeys(rows.problems, of(next(iter(rows.problems))))


def _of(what: str, given: Any, key: _Key) -> Any:
    """Return the value for a problem: an entry of a dict, or the same for all."""
    if not isinstance(given, Mapping):
        return given
    short = key[0] if len(key) == 1 else key
    if short not in given:
        raise fail(what, f"an entry for problem {short!r}", "none", "keys are values of the group columns")
    return given[short]


def _infer(rows: _Rows, kinds: Mapping[str, str], programs: Mapping[_Key, Graph]) -> Schema:
    """Infer one schema for all problems of the table."""
    described = {role: rows.roles[role] for role in ("features", "config")}
    unknown = [name for name in kinds if name not in chain(*described.values())]
    if unknown:
        raise ConfigError(f"kinds: {unknown[0]!r} is none of the config and feature columns")
    graph, config = (
        tuple(columns.infer_column(name, rows.columns[name], kinds.get(name)) for name in names)
        for names in described.values()
    )
    digits = [
        Digit(names[0], max(2, 1 + max(int(np.max(rows.columns[name])) for name in names)))
        for names in zip(*rows.by_node.values(), strict=True)
    ]
    read = next(iter(programs.values())).schema
    for program in programs.values():
        try:
            read = read.join(program.schema)
        except DataError as error:
            expected, found = "nodes that are described as in the problems before", error.found
            todo = "give all problems the same columns of nodes"
            raise arrays.with_graph(fail("nodes", expected, str(found), todo), program.name) from None
    return Schema(read.node, graph, config, tuple(digits), opcodes=read.opcodes)


def _graphs(rows: _Rows, schema: Schema, programs: Mapping[_Key, Graph]) -> list[Graph]:
    """Make one graph per problem."""
    for at in rows.problems.values():
        for name in rows.roles["features"]:
            values, todo = rows.columns[name][at], "name it in config, or in group too"
            rows.one_value(name, values, at, "one value per problem", todo)
    digits = [np.stack([rows.columns[name] for name in names], 1) for names in rows.by_node.values()]
    per_config: dict[str, Any] = {
        "runtime": rows.runtime,
        "valid": rows.ran if rows.roles["valid"] else None,
        "repeats": np.stack(rows.repeats, 1) if rows.repeats else None,
        "config_feat": None if digits else schema.encode("config", rows.columns, rows.place),
        "node_config_feat": np.stack(digits, 1) if digits else None,
    }
    about = schema.encode("graph", rows.columns, rows.place) if schema.graph else None
    return [
        programs[key].replace(
            name=rows.name(key),
            schema=schema,
            graph_feat=None if about is None else about[at[0]],
            node_config_ids=list(rows.by_node) or None,
            **{field: None if values is None else values[at] for field, values in per_config.items()},
        )
        for key, at in rows.problems.items()
    ]
