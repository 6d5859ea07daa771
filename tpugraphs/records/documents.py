"""Records in JSON: T4, caches of Kernel Tuner, Triton's timings, Tokamax."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tpugraphs.errors import DataError
from tpugraphs.records.record import Record
from tpugraphs.system.texts import parsed

_OWN = ("problem", "device", "environment", "round")  # fields of a record that T4 has no place for
_CHECK = "correct it, or remove the entry"
_ERRORS = {"CompilationFailedConfig": "compile", "RuntimeFailedConfig": "runtime"}
_ERRORS |= {"InvalidConfig": "constraints"}
_WORDS = {dict: "an object", list: "a list", str: "a text", float: "a number", bool: "true or false"}
_FAILED = 1e20  # the time of a failed config in early caches of Kernel Tuner
_SIGNS = re.compile(rb'"(?:\\.|[^"\\])*"|[{}]', re.S)
_VALUES = (int, float, str, bool, list, type(None))
_UNSET = ("pre_hook", "ir_override", "maxnreg")  # of a Config of Triton, left out where they are null


@contextmanager
def inside(place: str, file: str | None = None) -> Iterator[None]:
    """Add a place, or the file, to an error that does not name it."""
    try:
        yield
    except DataError as error:
        if error.file is not None or (file and str(error).startswith(file)):
            raise
        where = ".".join(filter(None, (place, error.field)))
        parts = {"field": where, "found": error.found, "expected": error.expected}
        raise DataError(f"{place}: {error}" if place else str(error), file=file, **parts) from None


def member(entry: Any, name: str, *kinds: type) -> Any:
    """Return a member of an object of JSON that has one of these types, or raise DataError."""
    if not isinstance(entry, dict):
        raise DataError.of(name, "an object with it", type(entry).__name__, _CHECK)
    value = entry.get(name)
    fits = isinstance(value, kinds) and (bool in kinds or not isinstance(value, bool))
    if name not in entry or not fits:
        words = " or ".join(_WORDS[kind] for kind in kinds if kind in _WORDS)
        raise DataError.of(name, words, f"{value!r:.80}" if name in entry else "none", _CHECK)
    return value


def is_t4(data: Any) -> bool:
    """Return whether it has results as T4 has."""
    return isinstance(data, dict) and "results" in data


def read_t4(data: Any, path: str) -> Iterator[Record]:
    """Yield the records of T4 results, of both spellings."""
    for number, entry in enumerate(member(data, "results", list)):
        with inside(f"results[{number}]"):
            times = member(entry, "times", dict)
            status = member(entry, "invalidity", str)
            own: dict[str, Any] = {name: entry[name] for name in _OWN if name in entry}
            own |= {"time": entry.get("timestamp", ""), "status": status}
            own |= {"compile": times.get("compilation_time", times.get("compilation"))}
            runtimes = times.get("runtimes", [])
            if not runtimes and status == "correct":
                runtimes = [_objective(entry)]
            yield Record(member(entry, "configuration", dict), runtimes, **own)


def _objective(entry: dict[str, Any]) -> Any:
    """Return the value of the first objective among the measurements."""
    name = [*member({"objectives": ["time"]} | entry, "objectives", list), "time"][0]
    for one in member(entry, "measurements", list):
        if isinstance(one, dict) and one.get("name") == name:
            return one.get("value")
    raise DataError.of("measurements", f"times.runtimes, or a measurement {name!r:.80}", "neither", _CHECK)


def written_t4(records: Iterable[Record]) -> bytes:
    """Return T4 results; what T4 has no place for stands beside it."""
    results = []
    for record in records:
        failed, values = record.status != "correct", record.to_dict()
        times = {} if record.compile is None else {"compilation_time": record.compile}
        measured = {"name": "time", "value": record.status if failed else record.runtime, "unit": ""}
        results.append({
            "timestamp": record.time, "configuration": record.config,
            "times": {**times, "runtimes": record.runtimes},
            "invalidity": record.status, "correctness": int(not failed), "measurements": [measured],
            "objectives": ["time"], **{name: values[name] for name in _OWN if name in values},
        })  # fmt: skip
    return json.dumps({"schema_version": "1.0.0", "results": results}, indent=1, allow_nan=False).encode()


def is_cache(data: Any) -> bool:
    """Return whether it is a cache of Kernel Tuner."""
    return isinstance(data, dict) and "cache" in data and "tune_params_keys" in data


def mended(raw: bytes) -> Any:
    """Parse a cache of Kernel Tuner that was cut off, up to its last whole entry; None if it is not one."""
    if b'"tune_params_keys"' not in raw or b'"cache"' not in raw:
        return None
    depth, end = 0, None
    for sign in _SIGNS.finditer(raw):
        depth += {b"{": 1, b"}": -1}.get(sign[0], 0)
        if (depth, sign[0]) in ((2, b"}"), (1, b'"cache"')):
            end = sign
    if end is None:
        return None
    kept = raw[: end.end()] + (b"}}" if end[0] == b"}" else b":{}}")
    try:
        return parsed(kept)
    except ValueError:
        return None


def read_cache(data: Any, path: str) -> Iterator[Record]:
    """Yield the records of a cache of Kernel Tuner."""
    names, entries = member(data, "tune_params_keys", list), member(data, "cache", dict)
    sizes, objective = data.get("problem_size", ()), data.get("objective", "time")
    text = "x".join(map(str, sizes)) if isinstance(sizes, list) else str(sizes or "")
    problem = f"{data.get('kernel_name', '')} {text}".strip()
    for key, entry in entries.items():
        with inside(f"cache[{key}]"):
            config = {name: member(entry, name, *_VALUES) for name in map(str, names)}
            found = [entry.get(name) for name in ("__error__", str(objective), "time")]
            error = next((one for one in found if isinstance(one, str)), None)
            if error is not None and error not in _ERRORS:
                raise DataError.of("time", f"a number or one of {', '.join(_ERRORS)}", repr(error), _CHECK)
            status = "correct" if error is None else _ERRORS[error]
            if error is None and entry.get("time") == _FAILED:
                status = "runtime"
            runtimes: Any = (entry.get("times") or [entry.get("time")]) if status == "correct" else []
            own: dict[str, Any] = {"time": entry.get("timestamp", ""), "compile": entry.get("compile_time")}
            yield Record(config, runtimes, status, problem, data.get("device_name", ""), **own)


def is_triton(data: Any) -> bool:
    """Return whether it holds the timings of Triton's autotuner."""
    return isinstance(data, dict) and "configs_timings" in data


def read_triton(data: Any, path: str) -> Iterator[Record]:
    """Yield the median of every config; the name of the file is that of the kernel."""
    kernel = Path(path).name.partition(".autotune.json")[0]
    problem = f"{kernel}: {', '.join(map(str, member(data, 'key', list)))}"
    for number, pair in enumerate(member(data, "configs_timings", list)):
        with inside(f"configs_timings[{number}]"):
            if not isinstance(pair, list) or len(pair) != 2:
                raise DataError.of("pair", "a config and its timings", f"{pair!r:.80}", _CHECK)
            given, timing = pair
            config = {**member(given, "kwargs", dict), **given}
            del config["kwargs"]
            config = {n: v for n, v in config.items() if n not in _UNSET or v is not None}
            median = timing[0] if isinstance(timing, list) and timing else timing
            failed = median == math.inf
            yield Record(config, () if failed else (median,), "compile" if failed else "correct", problem)


def is_tokamax(data: Any) -> bool:
    """Return whether it holds timings of Tokamax: by arguments and config, or its results for a device."""
    if not isinstance(data, dict):
        return False
    first = next(iter(data.values()), None)
    timed = next(iter(first.values()), None) if isinstance(first, dict) else None
    by_args = isinstance(timed, dict) and "evaluation_times_ms" in timed
    return by_args or data.keys() >= {"device_kind", "data"}


def read_tokamax(data: Any, path: str) -> Iterator[Record]:
    """Yield the records of all arguments of an op."""
    device, pairs = "", list(data.items())
    if "device_kind" in data:
        device, pairs = member(data, "device_kind", str), member(data, "data", list)
    for number, pair in enumerate(pairs):
        with inside(f"arguments {number}"):
            if not isinstance(pair, (list, tuple)) or len(pair) != 2 or not isinstance(pair[1], dict):
                raise DataError.of("pair", "arguments and their configs", f"{pair!r:.80}", _CHECK)
        problem = pair[0] if isinstance(pair[0], str) else json.dumps(pair[0], sort_keys=True)
        for text, entry in pair[1].items():
            with inside(f"arguments {number}, config {text:.80}"):
                times = tuple(member(entry, "evaluation_times_ms", list))
                config, spent = json_object("config", text), entry.get("compile_time_ms")
                yield Record(config, times, problem=problem, device=device, compile=spent)


def json_object(name: str, text: Any) -> dict[str, Any]:
    """Return an object of JSON that stands in a text, or raise DataError."""
    try:
        found = parsed(text) if isinstance(text, str) else None
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise DataError.of(name, "an object of JSON in a text", f"{text!r:.80}", _CHECK)
    return found
