"""Records in tables: CSV, parquet, and the log of Helion's autotuner."""

from __future__ import annotations

import ast
import csv
import io
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from tpugraphs.errors import ConfigError, DataError
from tpugraphs.records.documents import inside, json_object
from tpugraphs.records.record import Record
from tpugraphs.system.arguments import is_number
from tpugraphs.system.tables import frame
from tpugraphs.system.texts import csv_columns, parsed

_FIELDS = ("problem", "device", "status", "runtime")  # columns of any table that are not parameters
_MORE = ("runtimes", "time", "compile", "round", "environment")  # neither, where there are `runtimes`
_CHECK = "correct it, or remove the row"
_HELION = {
    "ok": "correct", "deduplicated": "correct", "error": "runtime", "timeout": "timeout",
    "peer_compilation_fail": "compile", "accuracy_error": "correctness",
    "filtered": "constraints", "source_rejected": "constraints",
}  # fmt: skip
_UNFINISHED = ("started", "unknown")
_WORDS = {"True": True, "False": False, "": math.nan}  # as Python writes them
_NO_TIME = ("nan", "inf", "-inf", "infinity", "-infinity")
_Columns = Mapping[str, Sequence[Any]]


class _Named(io.BytesIO):
    """Bytes of a file, with its name for messages."""

    def __init__(self, raw: bytes, name: str) -> None:
        super().__init__(raw)
        self.name = name


def read_csv(raw: bytes, path: str) -> Iterator[Record]:
    """Yield the records of a CSV file: Helion's log, or a table of parameters with a column ``runtime``."""
    columns = csv_columns(_Named(raw, path))
    if columns.keys() >= {"status", "perf_ms", "config"}:
        yield from _helion(columns)
        return
    texts = ("problem", "device", "status", *(("time", "environment") if "runtimes" in columns else ()))
    parts = {name: part if name in texts else list(map(_value, part)) for name, part in columns.items()}
    yield from read_columns(parts)


def read_parquet(path: str) -> Iterator[Record]:
    """Yield the records of a table in parquet."""
    try:
        import pandas

        table = pandas.read_parquet(path)
    except ImportError:
        raise ConfigError(f"{path}: parquet needs pandas and pyarrow: pip install pandas pyarrow") from None
    except (ValueError, OSError) as error:
        raise DataError(f"not a parquet file, or damaged: {error}", file=path) from None
    table = table.astype(object).where(table.notna(), math.nan)
    yield from read_columns({str(name): table[name].tolist() for name in table.columns})


def read_columns(columns: _Columns) -> Iterator[Record]:
    """Yield the records of columns. All but ``problem, device, status, runtime`` are parameters."""
    own = [*_FIELDS, *(_MORE if "runtimes" in columns else ())]
    if not {"runtime", "runtimes"} & columns.keys():
        found, todo = ", ".join(columns), "rename the column that holds the run times"
        raise DataError.of("columns", "one called runtime", f"{found:.200}", todo)
    for number, values in enumerate(zip(*columns.values(), strict=True)):
        row = dict(zip(columns, values, strict=True))
        with inside(f"row {number}"):
            row = {name: value for name, value in row.items() if value == value}  # without empty cells
            config = {name: value for name, value in row.items() if name not in own}
            given = {name: row[name] for name in own if row.get(name, "") != ""}
            single = given.pop("runtime", None)
            failed = single is None or str(single).lower() in _NO_TIME
            runtimes = given.pop("runtimes", () if failed else (single,))
            status = given.pop("status", "runtime" if not runtimes else "correct")
            given |= {name: _text(given[name]) for name in ("problem", "device", "time") if name in given}
            if "environment" in given:
                given["environment"] = json_object("environment", given["environment"])
            yield Record(config, runtimes, status, **given)


def _helion(columns: _Columns) -> Iterator[Record]:
    """Yield the finished configs of a log of Helion's autotuner."""
    count = len(columns["status"])
    kernels = columns.get("kernel_id") or columns.get("run_id") or [""] * count
    for number in range(count):
        row = {name: column[number] for name, column in columns.items()}
        with inside(f"row {number}"):
            if row["status"] in _UNFINISHED:
                continue
            if row["status"] not in _HELION:
                raise DataError.of("status", f"one of {', '.join(_HELION)}", repr(row["status"]), _CHECK)
            status = _HELION[row["status"]]
            runtimes = (_value(row["perf_ms"]),) if status == "correct" else ()
            seconds, batch = (_value(row.get(name) or "null") for name in ("compile_time_s", "generation"))
            if is_number(seconds):
                seconds *= 1000
            config, kernel = _call(row["config"]), kernels[number]
            yield Record(config, runtimes, status, kernel, compile=seconds, round=batch)


def _call(text: str) -> dict[str, Any]:
    """Return the arguments of ``Config(name=value, ...)``, or an object of JSON; nothing is evaluated."""
    try:
        tree = ast.parse(text.strip(), mode="eval").body
        if isinstance(tree, ast.Call) and not tree.args and all(one.arg for one in tree.keywords):
            return {str(one.arg): ast.literal_eval(one.value) for one in tree.keywords}
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        pass
    return json_object("config", text)


def _value(cell: str) -> Any:
    """Return what a cell of CSV holds: a value of JSON but an object, or else a text; NaN if it is empty."""
    if cell in _WORDS:
        return _WORDS[cell]
    try:
        value = parsed(cell, _no_number)
    except ValueError:
        return cell
    return cell if isinstance(value, dict) or value in (math.inf, -math.inf) else value


def _no_number(name: str) -> Any:
    raise ValueError(name)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _cell(value: Any) -> str:
    """Return the cell from which `_value` reads this value."""
    return value if isinstance(value, str) and value and _value(value) == value else json.dumps(value)


def rows(records: Iterable[Record]) -> list[dict[str, Any]]:
    """Return one dict per record, with the parameters first; ConfigError if one is called like a field."""
    result = []
    for record in records:
        if taken := {*_FIELDS, *_MORE} & record.config.keys():
            raise ConfigError(f"config: a parameter is called {min(taken)}, as a column is; rename it")
        values = {name: getattr(record, name) for name in (*_FIELDS, *_MORE)}
        result.append({**record.config, **values})
    return result


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
    return frame(rows(records))


def written_csv(records: Iterable[Record]) -> bytes:
    """Return a table with a column per parameter, from which the same records are read."""
    table = rows(records)
    if not table:
        raise ConfigError("records: expected at least one for a table, found none")
    names = list(dict.fromkeys(name for row in table for name in row if name not in (*_FIELDS, *_MORE)))
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow([*names, *_FIELDS, *_MORE])
    for row in table:
        runtime = "" if math.isnan(row["runtime"]) else _cell(row["runtime"])
        texts = [row["problem"], row["device"], row["status"], runtime, _cell(row["runtimes"]), row["time"]]
        numbers = ["" if row[name] is None else _cell(row[name]) for name in ("compile", "round")]
        about = json.dumps(row["environment"]) if row["environment"] else ""
        cells = [_cell(row[name]) if name in row else "" for name in names]
        writer.writerow([*cells, *texts, *numbers, about])
    return out.getvalue().encode()
