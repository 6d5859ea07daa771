"""Tables to graphs: :func:`from_frame` makes one graph of every problem in a table of measurements."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tpugraphs.data import arrays, columns
from tpugraphs.data.arrays import AnyArray, fail
from tpugraphs.data.columns import MOST_DIGIT_VALUES, Column, Digit, objects, plain, typed
from tpugraphs.data.published import Graph
from tpugraphs.data.schema import UNITS, Schema
from tpugraphs.errors import ConfigError, DataError

__all__ = ["from_frame"]

_ONE = "graph"  # name of the graph of a table that is one problem


def from_frame(
    table: Any,
    *,
    config: str | Sequence[str] = (),
    group: str | Sequence[str] = (),
    features: str | Sequence[str] = (),
    runtime: str | None = "ms",
    valid: str | None = None,
    repeats: str | Sequence[str] = (),
    digits: Mapping[int, Sequence[str]] | None = None,
    edges: Any = None,
    nodes: Any = None,
    opcodes: Any = None,
    unit: str | None = None,
    kinds: Mapping[str, str] | None = None,
    schema: Schema | None = None,
) -> list[Graph]:
    """Make graphs of a table with one measured configuration per row.

    Rows with equal values in the `group` columns are the configurations of one problem and become one graph,
    in the order in which the problems first occur. All graphs have one schema, inferred from the whole table:

    - strings are a category, whose values are those in the table in alphabetical order;
    - bools are a flag;
    - numbers are a log number if none is negative, the largest is at least 1 and at least 16 times the
      smallest that is not 0; all others are a number.

    `kinds` overrules this per column, and `schema` altogether. Columns go by name, so their order in the
    table does not matter; those that are not named are not read.

    Parameters
    ----------
    table : DataFrame or dict of str to (n,) array
        Anything with columns by name; pandas is not needed.
    config : str or list of str
        Columns that describe a configuration.
    group : str or list of str
        Columns that say which problem a row belongs to; none: the table is one problem.
    features : str or list of str
        Columns that describe the problem, such as its sizes or the device; one value per problem.
    runtime : str or None
        Column of the run times, each > 0. None: not measured, for graphs that only have to be ranked.
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
        Node features. Left out: nodes without features, as many as `opcodes` or `edges` name, or one.
    opcodes : (N,) array, or dict of problem to such arrays, optional
        Opcodes of the nodes.
    unit : {"ns", "us", "ms", "s"} or str, optional
        Unit of the run times, or the column that holds it, which must hold one unit only. By default the end
        of the column's name decides: ``ms`` and ``time_ms`` mean milliseconds, ``time`` says nothing.
    kinds : dict of str to str, optional
        Column to ``"number"``, ``"log"``, ``"category"`` or ``"flag"``.
    schema : Schema, optional
        Schema that the graphs must fit, for example that of the training graphs. Names, kinds and values of
        the columns are checked against it.

    Returns
    -------
    list of Graph
        One per problem, even if it has a single configuration, which leaves nothing to rank or learn.

    Raises
    ------
    DataError
        The table is ragged; a column is missing or there twice; a value is missing, not finite, of mixed
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
    for what, given, kind, wanted in (
        ("runtime", runtime, str, "the name of a column"),
        ("valid", valid, str, "the name of a column"),
        ("unit", unit, str, f"one of {', '.join(UNITS)} or the name of a column"),
        ("digits", digits, Mapping, "a dict of configurable nodes to their columns"),
        ("kinds", kinds, Mapping, "a dict of columns to their kinds"),
        ("schema", schema, Schema, "a tpugraphs.Schema"),
    ):
        if given is not None and not isinstance(given, kind):
            raise ConfigError(f"{what}: expected {wanted}, found {given!r:.60}")
    chosen = _Chosen(
        _names("config", config), _names("group", group), _names("features", features), runtime, valid,
        _names("repeats", repeats), digits or {},
    )  # fmt: skip
    chosen.check()
    if schema is not None:
        if kinds:
            raise ConfigError("kinds: expected kinds or a schema, which says them already, found both")
        chosen.fit(schema)
    rows = _Rows(table, chosen, unit if unit not in UNITS else None)
    found_unit = rows.unit(unit, schema)
    programs = _programs(rows, nodes, edges, opcodes)
    if schema is None:
        schema = _infer(rows, chosen, kinds or {}, found_unit, programs)
    else:
        rows.check_digits(tuple(digit.values for digit in schema.digits))
    return _graphs(rows, chosen, schema, programs)


_refuse = partial(fail, where="table: column")


def _names(what: str, given: Any) -> tuple[str, ...]:
    listed = (given,) if isinstance(given, str) else tuple(given) if isinstance(given, Iterable) else (given,)
    for name in listed:
        if not isinstance(name, str):
            raise ConfigError(f"{what}: expected names of columns, found {name!r}; rename it to a string")
    return listed


class _Chosen:
    """Which columns were asked for, and as what."""

    def __init__(
        self, config: tuple[str, ...], group: tuple[str, ...], features: tuple[str, ...], runtime: str | None,
        valid: str | None, repeats: tuple[str, ...], digits: Mapping[int, Sequence[str]],
    ) -> None:  # fmt: skip
        self.config, self.group, self.features, self.repeats = config, group, features, repeats
        self.runtime, self.valid = runtime, valid
        self.digits = {node: _names("digits", names) for node, names in digits.items()}

    def check(self) -> None:
        """Refuse columns that are named twice, except group columns that are also features."""
        if bool(self.config) == bool(self.digits):
            raise ConfigError(
                "config: expected config= or digits=, found " + ("both" if self.config else "neither")
            )
        widths = {len(names) for names in self.digits.values()}
        if len(widths) > 1 or widths == {0}:
            raise ConfigError(f"digits: expected as many columns for every node, found {sorted(widths)}")
        roles: dict[str, str] = {}
        for role, names in (
            ("config", self.config),
            ("digits", [name for several in self.digits.values() for name in several]),
            ("runtime", () if self.runtime is None else (self.runtime,)),
            ("valid", () if self.valid is None else (self.valid,)),
            ("repeats", self.repeats),
            ("features", self.features),
        ):
            for name in names:
                if name in roles:
                    raise ConfigError(f"{role}: column {name!r} is named in {roles[name]} too; name it once")
                roles[name] = role
        for place, name in enumerate(self.group):
            if name in self.group[:place] or roles.get(name, "features") != "features":
                raise ConfigError(
                    f"group: column {name!r} is named in {roles.get(name, 'group')} too; name it once"
                )

    def fit(self, schema: Schema) -> None:
        """Refuse columns that the schema lacks, and bring digits into its order."""
        first = next(iter(self.digits.values()), ())
        for what, group, names in (
            ("features", schema.graph, self.features),
            ("config", schema.config, self.config),
            ("digits", schema.digits, first),
        ):
            known = [column.name for column in group]
            missing = [name for name in known if name not in names]
            extra = [name for name in names if name not in known]
            if missing or extra:
                raise fail(
                    what, "the columns of the schema",
                    f"no {missing[0]!r}" if missing else f"{extra[0]!r} too",
                    "name the same columns as for the schema",
                )  # fmt: skip
        order = [first.index(digit.name) for digit in schema.digits]
        self.digits = {node: tuple(names[i] for i in order) for node, names in self.digits.items()}

    def all(self) -> list[str]:
        """Every column that is read."""
        digits = [name for names in self.digits.values() for name in names]
        single = [name for name in (self.runtime, self.valid) if name is not None]
        return list(
            dict.fromkeys([*self.group, *self.features, *self.config, *digits, *single, *self.repeats])
        )


class _Rows:
    """The columns of a table, checked, and which rows make up which problem."""

    def __init__(self, table: Any, chosen: _Chosen, unit_column: str | None) -> None:
        self.chosen = chosen
        raw = _columns(table, [*chosen.all(), *([unit_column] if unit_column else [])])
        self.count = _one_length(raw)
        self._unit = raw[unit_column] if unit_column else None
        self.raw = raw
        self.problems = self._problems()
        self._problem_of = np.empty(self.count, np.int64)
        for number, rows in enumerate(self.problems.values()):
            self._problem_of[rows] = number
        self._names = [self.name(key) for key in self.problems]
        self.valid = self._valid()
        self.columns = {name: self.typed(name) for name in (*chosen.config, *chosen.features)}
        self.digits = [[self.typed(name) for name in names] for names in chosen.digits.values()]
        self.check_digits((MOST_DIGIT_VALUES,) * len(self.digits[0]) if self.digits else ())
        self.runtime = None if chosen.runtime is None else self._runtime(chosen.runtime)
        self.repeats = [self._repeats(name) for name in chosen.repeats]

    def _problems(self) -> dict[tuple[Any, ...], NDArray[np.int64]]:
        """Rows of every problem, by the values of its group columns; problems in the order of the table."""
        keys = [typed("table", name, self.raw[name]) for name in self.chosen.group]
        code = np.zeros(self.count, np.int64)
        for values in keys:
            _, number = np.unique(values, return_inverse=True)
            _, code = np.unique(code * (int(number.max()) + 1) + number, return_inverse=True)
        _, first, code = np.unique(code, return_index=True, return_inverse=True)
        together = np.split(np.argsort(code, kind="stable"), np.cumsum(np.bincount(code))[:-1])
        return {
            tuple(values[[rows[0]]].tolist()[0] for values in keys): rows
            for rows in (together[place] for place in np.argsort(first))
        }

    def name(self, key: tuple[Any, ...]) -> str:
        """Name a problem."""
        return ", ".join(f"{c}={v}" for c, v in zip(self.chosen.group, key, strict=True)) or _ONE

    def place(self, row: int) -> str:
        """Return where a row is, for errors."""
        problem = f" (problem {self._names[self._problem_of[row]]!r})" if self.chosen.group else ""
        return f"row {row}{problem}"

    def typed(self, name: str) -> AnyArray:
        """Values of a column, of one type."""
        return typed("table", name, self.raw[name], self.place)

    def _valid(self) -> NDArray[np.bool_] | None:
        name = self.chosen.valid
        if name is None:
            return None
        values = self.typed(name)
        bad = np.full(self.count, values.dtype.kind == "O") | (values != 0) & (values != 1)
        if bad.any():
            row = int(np.argmax(bad))
            raise _refuse(name, "True or False", f"{plain(values[row])!r} in {self.place(row)}")
        good = values.astype(np.bool_)
        for key, rows in self.problems.items():
            if not good[rows].any():
                raise _refuse(
                    name, "at least one configuration that ran",
                    f"none of {len(rows)} of problem {self.name(key)!r}", "leave this problem out",
                )  # fmt: skip
        return good

    def _times(self, name: str, rows: NDArray[np.int64], todo: str) -> AnyArray:
        """Run times of these rows."""

        def place(row: int) -> str:
            return self.place(int(rows[row]))

        raw = self.raw[name]
        try:
            times = typed("table", name, (raw if isinstance(raw, np.ndarray) else objects(raw))[rows], place)
            bad = np.ones(len(rows), np.bool_) if times.dtype.kind in "Ob" else ~(times > 0)
            if bad.any():
                row = int(np.argmax(bad))
                raise _refuse(name, "run times > 0", f"{plain(times[row])!r} in {place(row)}")
        except DataError as error:
            if " in row " not in str(error.found):
                raise
            text = str(error).rpartition(";")[0]
            fields = {"field": error.field, "found": error.found, "expected": error.expected}
            raise DataError(f"{text}; {todo}", **fields) from None
        return times

    def _ran(self) -> NDArray[np.bool_]:
        return np.ones(self.count, np.bool_) if self.valid is None else self.valid

    def _runtime(self, name: str) -> AnyArray:
        """Return run times; failed rows are not read and become 1."""
        rows = np.flatnonzero(self._ran())
        todo = "drop this row, or name a column in valid= that is False where a configuration failed"
        times = self._times(name, rows, todo)
        result = np.ones(self.count, times.dtype)
        result[rows] = times
        return result

    def _repeats(self, name: str) -> NDArray[np.float64]:
        """Return single measurements; missing ones and those of failed rows are NaN."""
        raw = self.raw[name]
        missing = np.array([value is None or _is_nan(value) for value in raw], np.bool_)
        rows = np.flatnonzero(self._ran() & ~missing)
        result = np.full(self.count, np.nan)
        result[rows] = self._times(name, rows, "leave it out: NaN stands for no measurement")
        return result

    def check_digits(self, values: tuple[int, ...]) -> None:
        """Refuse digits other than whole numbers in -1..values-1; name column and row."""
        for names, several in zip(self.chosen.digits.values(), self.digits, strict=True):
            for name, column, most in zip(names, several, values, strict=True):
                bad = np.ones(self.count, np.bool_)
                if column.dtype.kind != "O":
                    bad = (column < -1) | (column >= most) | (np.floor(column) != column)
                if bad.any():
                    row = int(np.argmax(bad))
                    raise _refuse(
                        name, f"digits, whole numbers in -1..{most - 1}",
                        f"{plain(column[row])!r} in {self.place(row)}",
                    )  # fmt: skip

    def one_value(self, name: str, values: AnyArray, at: AnyArray, expected: str, todo: str) -> None:
        """Refuse a second value in a column; `at`: the rows of the values (n,)."""
        other = values != values[0]
        if other.any():
            row = int(np.argmax(other))
            raise _refuse(
                name, f"{expected}, {plain(values[0])!r} as in row {at[0]}",
                f"{plain(values[row])!r} in {self.place(int(at[row]))}", todo,
            )  # fmt: skip

    def unit(self, said: str | None, schema: Schema | None) -> str | None:
        """Find the unit of the run times; DataError for two."""
        name = self.chosen.runtime
        if name is None:
            return schema.unit if schema is not None else said if said in UNITS else None
        ending = name.rpartition("_")[2]
        found = ending if ending in UNITS else None
        if self._unit is not None and said is not None:
            units = typed("table", said, self._unit, self.place)
            self.one_value(
                said, units, np.arange(self.count), "one unit for all", "convert the run times to one unit"
            )
            said = plain(units[0])
            if said not in UNITS:
                raise fail("unit", f"one of {', '.join(UNITS)}", repr(said), "convert the run times")
        for other_unit, where in ((said, "unit="), (None if schema is None else schema.unit, "schema=")):
            if other_unit is not None and found is not None and other_unit != found:
                raise _refuse(
                    name, f"run times in {other_unit}, as {where} says", f"in {found}",
                    "convert them or correct what is said",
                )  # fmt: skip
            found = found or other_unit
        return found


def _is_nan(value: Any) -> bool:
    return isinstance(value, (float, np.floating)) and bool(value != value)


def _columns(table: Any, names: Sequence[str]) -> dict[str, Any]:
    """Named columns of a DataFrame or a mapping."""
    have = list(table) if isinstance(table, Mapping) else getattr(table, "columns", None)
    if have is None or not hasattr(table, "__getitem__"):
        raise ConfigError(
            f"table: expected a DataFrame or a dict of column names to arrays, got {type(table).__name__}"
        )
    have = list(have)
    result = {}
    for name in names:
        count = have.count(name)
        if count != 1:
            if count:
                raise _refuse(name, "one such column", f"{count}", "rename or drop one")
            raise _refuse(name, "such a column", "none", _hint(name, table, have))
        column = table[name]
        arrays.check_mask(name, column, "table: column")
        result[name] = column if isinstance(column, (list, tuple)) else np.asarray(column)
        shape = getattr(result[name], "shape", (0,))
        if len(shape) != 1:
            found = f"an array of shape {shape}" if shape else f"one {type(column).__name__}"
            raise _refuse(name, "one value per row", found, "make it a list or an array (n,)")
    return result


def _hint(name: str, table: Any, have: list[Any]) -> str:
    """Say what to do about a missing column."""
    if name in (getattr(getattr(table, "index", None), "names", None) or ()):
        return "it is a level of the index: give table.reset_index()"
    near = difflib.get_close_matches(name, [str(other) for other in have], n=1)
    if near:
        return f"did you mean {near[0]!r}?"
    return f"there are {', '.join(map(str, have[:20])) or 'no columns at all'}"


def _one_length(raw: Mapping[str, Any]) -> int:
    """Rows of a table; DataError for a ragged or an empty one."""
    lengths = {name: len(column) for name, column in raw.items()}
    first, count = next(iter(lengths.items()))
    for name, length in lengths.items():
        if length != count:
            raise _refuse(
                name,
                f"{count} rows, as {first!r} has",
                str(length),
                "the table is ragged",
            )
    if count == 0:
        raise fail("table", "at least one row", "none")
    return count


def _programs(rows: _Rows, nodes: Any, edges: Any, opcodes: Any) -> dict[tuple[Any, ...], Graph]:
    """Make a graph without configs of every problem: its nodes and edges, checked."""

    def of(key: tuple[Any, ...]) -> Graph:
        ends, feat, codes = _of("edges", edges, key), _of("nodes", nodes, key), _of("opcodes", opcodes, key)
        if ends is not None and feat is None and codes is None:
            ends = arrays.integers("edge_index", ends)
            feat = np.zeros((int(np.max(ends, initial=0)) + 1, 0))
        return Graph(name=rows.name(key), node_feat=feat, edge_index=ends, node_opcode=codes)

    if any(isinstance(given, Mapping) for given in (nodes, edges, opcodes)):
        return {key: of(key) for key in rows.problems}
    return dict.fromkeys(rows.problems, of(next(iter(rows.problems))))


def _infer(
    rows: _Rows, chosen: _Chosen, kinds: Mapping[str, str], unit: str | None,
    programs: Mapping[tuple[Any, ...], Graph],
) -> Schema:  # fmt: skip
    """One schema for all problems of the table."""
    unknown = [name for name in kinds if name not in (*chosen.config, *chosen.features)]
    if unknown:
        raise ConfigError(f"kinds: {unknown[0]!r} is none of the config and feature columns")

    def column(name: str) -> Column:
        values = rows.columns[name]
        kind = kinds.get(name)
        if kind is None:
            return columns.infer_column(name, values)
        return Column(name, kind, columns.categories(values) if kind == "category" else ())

    digits = []
    for place, name in enumerate(next(iter(chosen.digits.values()), ())):
        highest = max(int(np.max(several[place])) for several in rows.digits)
        digits.append(Digit(name, max(2, highest + 1)))
    read = next(iter(programs.values())).schema
    for program in programs.values():
        try:
            read = read.join(program.schema)
        except DataError as error:
            raise DataError(
                f"graph {program.name!r}: expected nodes that are described as in the problems before, "
                f"found a difference: {error.found}; give all problems the same columns of nodes",
                field="nodes", found=error.found,
            ) from None  # fmt: skip
    return Schema(
        node=read.node,
        graph=tuple(column(name) for name in chosen.features),
        config=tuple(column(name) for name in chosen.config),
        digits=tuple(digits),
        opcodes=read.opcodes,
        unit=unit,
    )


def _of(what: str, given: Any, key: tuple[Any, ...]) -> Any:
    """Return what belongs to a problem: an entry of a dict, or the same for all."""
    if not isinstance(given, Mapping):
        return given
    short = key[0] if len(key) == 1 else key
    if short not in given:
        raise fail(what, f"an entry for problem {short!r}", "none", "keys are values of the group columns")
    return given[short]


def _graphs(
    rows: _Rows, chosen: _Chosen, schema: Schema, programs: Mapping[tuple[Any, ...], Graph]
) -> list[Graph]:
    """One graph of every problem."""
    for at in rows.problems.values():
        for name in chosen.features:
            rows.one_value(
                name,
                rows.columns[name][at],
                at,
                "one value per problem",
                "name it in config, or in group too",
            )
    columns: dict[str, Any] = {
        "runtime": rows.runtime,
        "valid": rows.valid,
        "repeats": np.stack(rows.repeats, 1) if rows.repeats else None,
        "config_feat": schema.encode("config", rows.columns, place=rows.place) if chosen.config else None,
        "node_config_feat": np.stack([np.stack(one, 1) for one in rows.digits], 1) if rows.digits else None,
    }
    about = schema.encode("graph", rows.columns, place=rows.place) if schema.graph else None
    return [
        Graph(
            name=rows.name(key),
            schema=schema,
            node_feat=programs[key].node_feat,
            node_opcode=programs[key].node_opcode,
            edge_index=programs[key].edge_index,
            graph_feat=None if about is None else about[at[0]],
            node_config_ids=list(chosen.digits) if chosen.digits else None,
            **{field: values[at] for field, values in columns.items() if values is not None},
        )
        for key, at in rows.problems.items()
    ]
