"""Records in tables: CSV, parquet, and the log of Helion's autotuner."""

from __future__ import annotations

import ast
import csv
import io
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from tpugraphs.errors import ConfigError, DataError
from tpugraphs.records.documents import inside, json_object
from tpugraphs.records.record import Record
from tpugraphs.system.arguments import is_number
from tpugraphs.system.tables import frame
from tpugraphs.system.texts import csv_columns, parsed

_FIELDS = ("problem", "device", "status", "runtime")  # columns of any table that are not parameters
_OWN = (*_FIELDS, "runtimes", "time", "compile", "round", "environment")  # of one with `runtimes`
_TEXTS = ("problem", "device", "status", "time", "environment")
_CHECK = "correct it, or remove the row"
_HELION = {
    "ok": "correct", "deduplicated": "correct", "error": "runtime", "timeout": "timeout",
    "peer_compilation_fail": "compile", "accuracy_error": "correctness",
    "filtered": "constraints", "source_rejected": "constraints", "started": "", "unknown": "",
}  # fmt: skip
_WORDS = {"True": True, "False": False, "": math.nan}  # as Python writes them
_NO_TIME = ("none", "nan", "inf", "-inf", "infinity", "-infinity")


def read_csv(raw: bytes, path: str) -> Iterator[Record]:
    """Return the records of a CSV file: Helion's log, or a table of parameters with a column ``runtime``."""
    columns = csv_columns(io.BytesIO(raw), path=path)
    helion = columns.keys() >= {"status", "perf_ms", "config"}
    texts = columns if helion else _TEXTS if "runtimes" in columns else _FIELDS[:3]
    parts = {name: part if name in texts else list(map(_value, part)) for name, part in columns.items()}
    return _each(parts, _helion) if helion else read_columns(parts)


def read_parquet(path: str) -> Iterator[Record]:
    """Return the records of a table in parquet."""
    try:
        import pandas

        table = pandas.read_parquet(path).astype(object)
    except ImportError:
        raise ConfigError(f"{path}: parquet needs pandas and pyarrow: pip install pandas pyarrow") from None
    except (ValueError, OSError) as error:
        raise DataError(f"not a parquet file, or damaged: {error}") from None
    table = table.where(table.notna(), math.nan)
    return read_columns({str(name): table[name].tolist() for name in table.columns})


def _each(columns: Mapping[str, Sequence[Any]], make: Callable[[dict[str, Any]], Any]) -> Iterator[Record]:
    """Yield the result of `make` for each row, without empty cells; errors name the row."""
    for number, values in enumerate(zip(*columns.values(), strict=True)):
        with inside(f"row {number}"):
            record = make({name: v for name, v in zip(columns, values, strict=True) if v == v})
        if record is not None:
            yield record


def read_columns(columns: Mapping[str, Sequence[Any]]) -> Iterator[Record]:
    """Return the records of columns. All but ``problem, device, status, runtime`` are parameters."""
    if "runtime" not in columns and "runtimes" not in columns:
        found, todo = ", ".join(columns), "rename the column that holds the run times"
        raise DataError.of("columns", "one called runtime", f"{found:.200}", todo)
    own = _OWN if "runtimes" in columns else _FIELDS
    return _each(columns, lambda row: _record(row, own))


def _record(row: dict[str, Any], own: Sequence[str]) -> Record:
    """Make a record of a row, of which `own` are not parameters."""
    given = {name: row.pop(name) for name in own if name in row}
    given = {name: value for name, value in given.items() if value != ""}
    single = given.pop("runtime", None)
    given.setdefault("runtimes", () if str(single).lower() in _NO_TIME else (single,))
    given.setdefault("status", "correct" if given["runtimes"] else "runtime")
    given |= {name: str(given[name]) for name in _FIELDS[:2] if name in given}
    if "environment" in given:
        given["environment"] = json_object("environment", given["environment"])
    return Record(row, **given)


def _helion(row: dict[str, Any]) -> Record | None:
    """Make a record of a line in the log of Helion's autotuner; None if it is not of a finished config."""
    if row["status"] not in _HELION:
        raise DataError.of("status", f"one of {', '.join(_HELION)}", repr(row["status"]), _CHECK)
    status = _HELION[row["status"]]
    times = (_value(row["perf_ms"]),) if status == "correct" else ()
    spent, batch = (_value(row.get(name) or "null") for name in ("compile_time_s", "generation"))
    spent = 1000 * spent if is_number(spent) else spent
    kernel = row.get("kernel_id") or row.get("run_id", "")
    return Record(_call(row["config"]), times, status, kernel, compile=spent, round=batch) if status else None


def _call(text: str) -> dict[str, Any]:
    """Return the arguments of ``Config(name=value, ...)``, or an object of JSON; nothing is evaluated."""
    with suppress(ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        tree = ast.parse(text.strip(), mode="eval").body
        if isinstance(tree, ast.Call) and not tree.args and all(one.arg for one in tree.keywords):
            return {str(one.arg): ast.literal_eval(one.value) for one in tree.keywords}
    return json_object("config", text)


def _value(cell: str) -> Any:
    """Return what a cell of CSV holds: a value of JSON but an object, or else a text; NaN if it is empty."""
    if cell in _WORDS:
        return _WORDS[cell]
    with suppress(ValueError):
        value = parsed(cell, float.fromhex)  # which takes no name of JSON's for a number
        return cell if isinstance(value, dict) or value in (math.inf, -math.inf) else value
    return cell


def _cell(name: str, value: Any) -> str:
    """Return the cell from which this value is read."""
    if (value is None and name in _OWN) or value != value or value == {}:
        return ""
    plain = name in _TEXTS or (value and _value(value) == value) if isinstance(value, str) else False
    return value if plain else json.dumps(value)


def to_frame(records: Iterable[Record]) -> Any:
    """Return records as a table, with a column per parameter and field.

    Parameters
    ----------
    records : iterable of Record
        Of any problems.

    Returns
    -------
    DataFrame
        Column ``runtime`` is the median, NaN for failed configs; `tpugraphs.from_frame` takes such tables.

    Raises
    ------
    ConfigError
        pandas is missing, or a parameter is called like a field.
    """
    return frame(_named(records))


def _named(records: Iterable[Record]) -> list[dict[str, Any]]:
    """Return parameters and fields of every record."""
    rows = [(one.config, {name: getattr(one, name) for name in _OWN}) for one in records]
    if taken := [name for config, fields in rows for name in config if name in fields]:
        raise ConfigError(f"config: a parameter is called {taken[0]}, as a column is; rename it")
    return [config | fields for config, fields in rows]


def written_csv(records: Iterable[Record]) -> bytes:
    """Return a table with a column per parameter, from which the same records are read."""
    rows = _named(records)
    if not rows:
        raise ConfigError("records: expected at least one for a table, found none")
    names = sorted({name: 0 for row in rows for name in row}, key=_OWN.__contains__)  # parameters first
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(names)
    writer.writerows([_cell(name, row.get(name, math.nan)) for name in names] for row in rows)
    return out.getvalue().encode()
