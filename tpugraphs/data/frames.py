"""Tables to graphs: :func:`from_frame` makes one graph of every problem in a table of measurements."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tpugraphs.data import columns
from tpugraphs.data.arrays import AnyArray, fail
from tpugraphs.data.columns import Column, Digit, plain, typed
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
        Column of the run times, each > 0; None: not measured, for graphs that are to be ranked.
    valid : str, optional
        Column that is False where a configuration failed. Its run time is not read and may be missing or a
        text.
    repeats : str or list of str
        Columns of single measurements, NaN where there is none.
    digits : dict of int to list of str, optional
        Instead of `config`: configurable node to the columns of its digits, as many for each node. The first
        node's columns name the digits.
    edges : (E, 2) array, or dict of problem to such arrays, optional
        Edges of every problem. As keys of such dicts stand the value of the group column, or a tuple of the
        values of several.
    nodes : (N, F) array, or dict of problem to such arrays, optional
        Node features. Left out: nodes without features, as many as `opcodes` or `edges` name, or one.
    opcodes : (N,) array, or dict of problem to such arrays, optional
        Opcodes of the nodes.
    unit : {"ns", "us", "ms", "s"} or str, optional
        Unit of the run times, or the column that holds it, which must hold one unit only. By default what the
        name of the column ends with: ``ms`` and ``time_ms`` mean milliseconds, ``time`` says nothing.
    kinds : dict of str to str, optional
        Column to ``"number"``, ``"log"``, ``"category"`` or ``"flag"``.
    schema : Schema, optional
        Of graphs to which these shall fit, for instance those of training: names, kinds and values of the
        columns are checked against it.

    Returns
    -------
    list of Graph
        A problem with a single configuration is one of them, though there is nothing to rank or to learn in
        it.

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
    chosen = _Chosen(
        _names("config", config), _names("group", group), _names("features", features), runtime, valid,
        _names("repeats", repeats), {} if digits is None else dict(digits),
    )  # fmt: skip
    chosen.check()
    rows = _Rows(table, chosen, unit if unit not in UNITS else None)
    found_unit = rows.unit(unit, schema)
    if schema is None:
        schema = _infer(rows, chosen, dict(kinds or {}), found_unit, nodes, opcodes)
    elif kinds:
        raise ConfigError("kinds: expected kinds or a schema, which says them already, found both")
    else:
        _check_names(schema, chosen)
    return [_graph(rows, problem, chosen, schema, nodes, edges, opcodes) for problem in rows.problems]


_refuse = partial(fail, where="table: column")


def _names(what: str, given: Any) -> tuple[str, ...]:
    listed = (given,) if isinstance(given, str) else tuple(given) if isinstance(given, Iterable) else (given,)
    for name in listed:
        if not isinstance(name, str):
            raise ConfigError(f"{what}: expected names of columns, found {name!r}")
    return listed


class _Chosen:
    """Which columns were asked for, and as what."""

    def __init__(
        self, config: tuple[str, ...], group: tuple[str, ...], features: tuple[str, ...], runtime: str | None,
        valid: str | None, repeats: tuple[str, ...], digits: dict[int, Sequence[str]],
    ) -> None:  # fmt: skip
        self.config, self.group, self.features, self.repeats = config, group, features, repeats
        self.runtime, self.valid = runtime, valid
        self.digits = {node: _names("digits", names) for node, names in digits.items()}

    def check(self) -> None:
        """Refuse columns that are named twice, but for group columns that are features too."""
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
        self._unit = raw.pop(unit_column) if unit_column else None
        self.raw = raw
        keys = [typed("table", name, raw[name]).tolist() for name in chosen.group]
        places: dict[tuple[Any, ...], list[int]] = {}
        for row, key in enumerate(zip(*keys, strict=True) if keys else [()] * self.count):
            places.setdefault(key, []).append(row)
        self.problems = {key: np.array(rows) for key, rows in places.items()}
        self.problem_of = {row: key for key, rows in places.items() for row in rows}
        self.valid = self._valid()
        self.columns = {name: self.typed(name) for name in (*chosen.config, *chosen.features)}
        for names in chosen.digits.values():
            self.columns |= {name: self.typed(name) for name in names}
        if chosen.runtime is not None:
            self.runtime: AnyArray | None = self._times(chosen.runtime)
        else:
            self.runtime = None

    def name(self, key: tuple[Any, ...]) -> str:
        """Name a problem."""
        return ", ".join(f"{c}={v}" for c, v in zip(self.chosen.group, key, strict=True)) or _ONE

    def place(self, row: int) -> str:
        """Where a row is, for errors."""
        return f"row {row}" + (f" (problem {self.name(self.problem_of[row])!r})" if self.chosen.group else "")

    def typed(self, name: str) -> AnyArray:
        """Values of a column, of one type."""
        return typed("table", name, self.raw[name], self.place)

    def _valid(self) -> NDArray[np.bool_] | None:
        name = self.chosen.valid
        if name is None:
            return None
        values = self.typed(name)
        bad = np.array([value not in (0, 1) for value in values.tolist()], np.bool_)
        if values.dtype.kind == "O" or bad.any():
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

    def _times(self, name: str) -> AnyArray:
        """Run times, of failed rows 1: they are not read."""
        given = np.asarray(_as_objects(self.raw[name]))
        rows = np.arange(self.count) if self.valid is None else np.flatnonzero(self.valid)
        try:
            times = typed("table", name, given[rows].tolist(), lambda row: self.place(int(rows[row])))
        except DataError as error:
            raise self._marked(error) from None
        bad = np.ones(len(rows), np.bool_) if times.dtype.kind in "Ob" else ~(times > 0)
        if bad.any():
            row = int(np.argmax(bad))
            raise self._marked(
                _refuse(
                    name,
                    "run times > 0",
                    f"{plain(times[row])!r} in {self.place(int(rows[row]))}",
                )
            )
        result = np.ones(self.count, times.dtype)
        result[rows] = times
        return result

    def _marked(self, error: DataError) -> DataError:
        """Say how failed configurations are told."""
        text = str(error).rpartition(";")[0]
        todo = "drop this row, or name a column in valid= that is False where a configuration failed"
        return DataError(f"{text}; {todo}", field=error.field, found=error.found, expected=error.expected)

    def unit(self, said: str | None, schema: Schema | None) -> str | None:
        """Find the unit of the run times; DataError for two."""
        name = self.chosen.runtime
        if name is None:
            return schema.unit if schema is not None else said if said in UNITS else None
        ending = name.rpartition("_")[2]
        found = ending if ending in UNITS else None
        if self._unit is not None and said is not None:
            units = typed("table", said, self._unit, self.place)
            other = units != units[0] if len(units) else np.zeros(0, np.bool_)
            if other.any():
                row = int(np.argmax(other))
                raise _refuse(
                    said, f"one unit for all, {units[0]!r} as in row 0",
                    f"{units[row]!r} in {self.place(row)}", "convert the run times to one unit",
                )  # fmt: skip
            said = units[0] if len(units) else None
            if said is not None and said not in UNITS:
                raise fail("unit", f"one of {', '.join(UNITS)}", repr(said), "convert the run times")
        for other_unit, where in ((said, "unit="), (None if schema is None else schema.unit, "schema=")):
            if other_unit is not None and found is not None and other_unit != found:
                raise _refuse(
                    name, f"run times in {other_unit}, as {where} says", f"in {found}",
                    "convert them or correct what is said",
                )  # fmt: skip
            found = found or other_unit
        return found


def _as_objects(values: Any) -> NDArray[Any]:
    """Take a column as it is, whatever is in it."""
    listed = values.tolist() if isinstance(values, np.ndarray) else list(values)
    result = np.empty(len(listed), object)
    result[:] = listed
    return result


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
            near = difflib.get_close_matches(name, [str(other) for other in have], n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(map(str, have[:20]))}"
            raise _refuse(name, "such a column", "none", hint)
        column = table[name]
        result[name] = column if isinstance(column, (list, tuple)) else np.asarray(column)
    return result


def _one_length(raw: Mapping[str, Any]) -> int:
    """Rows of a table; DataError for a ragged or an empty one."""
    lengths = {name: len(column) if np.ndim(column) else 0 for name, column in raw.items()}
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


def _infer(
    rows: _Rows, chosen: _Chosen, kinds: dict[str, str], unit: str | None, nodes: Any, opcodes: Any
) -> Schema:
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

    several = [tuple(rows.columns[name] for name in names) for names in chosen.digits.values()]
    digits = []
    for place, name in enumerate(next(iter(chosen.digits.values()), ())):
        highest = max(float(np.max(columns_of[place])) for columns_of in several)
        digits.append(Digit(name, max(2, int(highest) + 1)))
    read = Schema()
    for key in rows.problems:
        feat, codes = _of(nodes, key), _of(opcodes, key)
        here = Schema.infer(
            node_feat=None if feat is None else np.asarray(feat),
            node_opcode=None if codes is None else np.asarray(codes),
        )
        read = here if key == next(iter(rows.problems)) else read.join(here)
    return Schema(
        node=read.node,
        graph=tuple(column(name) for name in chosen.features),
        config=tuple(column(name) for name in chosen.config),
        digits=tuple(digits),
        opcodes=read.opcodes,
        unit=unit,
    )


def _check_names(schema: Schema, chosen: _Chosen) -> None:
    """Refuse columns that the given schema does not have; those that it has and nobody named, too."""
    first = next(iter(chosen.digits.values()), ())
    for what, group, names in (
        ("features", schema.graph, chosen.features),
        ("config", schema.config, chosen.config),
        ("digits", schema.digits, first),
    ):
        known = [column.name for column in group]
        missing = [name for name in known if name not in names]
        extra = [name for name in names if name not in known]
        if missing or extra:
            raise fail(
                what, "the columns of the schema", f"no {missing[0]!r}" if missing else f"{extra[0]!r} too",
                "name the same columns as for the schema",
            )  # fmt: skip


def _of(given: Any, key: tuple[Any, ...]) -> Any:
    """Find what belongs to a problem: the same for all, or out of a dict."""
    if not isinstance(given, Mapping):
        return given
    short = key[0] if len(key) == 1 else key
    if short not in given:
        raise fail("nodes, edges or opcodes", f"an entry for problem {short!r}", "none")
    return given[short]


def _graph(
    rows: _Rows, key: tuple[Any, ...], chosen: _Chosen, schema: Schema, nodes: Any, edges: Any, opcodes: Any
) -> Graph:
    """Graph of one problem."""
    at = rows.problems[key]
    fields: dict[str, Any] = {"name": rows.name(key), "schema": schema}

    def where(row: int) -> str:
        return rows.place(int(at[row]))

    part = {name: values[at] for name, values in rows.columns.items()}
    if schema.graph:
        for name in chosen.features:
            other = part[name] != part[name][0]
            if other.any():
                row = int(np.argmax(other))
                raise _refuse(
                    name, f"one value per problem, {plain(part[name][0])!r} as in row {at[0]}",
                    f"{plain(part[name][row])!r} in {where(row)}", "name it in config, or in group too",
                )  # fmt: skip
        first = {name: part[name][:1] for name in chosen.features}
        fields["graph_feat"] = schema.encode("graph", first, "table", where)[0]
    if chosen.digits:
        fields["node_config_ids"] = list(chosen.digits)
        fields["node_config_feat"] = np.stack(
            [np.stack([part[name] for name in names], 1) for names in chosen.digits.values()], 1
        )
    else:
        fields["config_feat"] = schema.encode("config", part, "table", where)
    if rows.runtime is not None:
        fields["runtime"] = rows.runtime[at]
    if rows.valid is not None:
        fields["valid"] = rows.valid[at]
    if chosen.repeats:
        several = [np.asarray(rows.raw[name])[at].astype(np.float64) for name in chosen.repeats]
        fields["repeats"] = np.stack(several, 1)
    ends, feat, codes = _of(edges, key), _of(nodes, key), _of(opcodes, key)
    if ends is not None:
        fields["edge_index"] = ends
        if feat is None and codes is None:
            feat = np.zeros((int(np.max(ends, initial=0)) + 1, 0))
    return Graph(**fields, node_feat=feat, node_opcode=codes)
