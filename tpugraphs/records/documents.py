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
_FAILED = 1e20  # the time of a failed config in early caches of Kernel Tuner
_SIGNS = re.compile(rb'"(?:\\.|[^"\\])*"|[{}]', re.S)
_UNSET = ("pre_hook", "ir_override", "maxnreg")  # of a Config of Triton, left out where they are null
_WORDS = {dict: "an object", list: "a list", str: "a text", object: "a value"}


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


def member(entry: Any, name: str, kind: type = object) -> Any:
    """Return a member of an object of JSON that has this type, or raise DataError."""
    if not isinstance(entry, dict) or name not in entry or not isinstance(entry[name], kind):
        found = entry.get(name, "none") if isinstance(entry, dict) else entry
        raise DataError.of(name, f"{_WORDS[kind]} of that name in an object", f"{found!r:.80}", _CHECK)
    return entry[name]


def json_object(name: str, text: Any) -> dict[str, Any]:
    """Return an object of JSON that stands in a text, or raise DataError."""
    try:
        return dict(member({name: parsed(text)}, name, dict))
    except (ValueError, TypeError):
        raise DataError.of(name, "an object of JSON in a text", f"{text!r:.80}", _CHECK) from None


def read_t4(data: Any, path: str) -> Iterator[Record]:
    """Yield the records of T4 results, of both spellings."""
    for number, entry in enumerate(member(data, "results", list)):
        with inside(f"results[{number}]"):
            config, times = member(entry, "configuration", dict), member(entry, "times", dict)
            yield Record(
                config,
                times.get("runtimes", ()),
                member(entry, "invalidity"),
                time=entry.get("timestamp", ""),
                compile=times.get("compilation_time", times.get("compilation")),
                **{name: entry[name] for name in _OWN if name in entry},
            )


def written_t4(records: Iterable[Record]) -> bytes:
    """Return T4 results; what T4 has no place for stands beside it."""
    results = []
    for record in records:
        failed = record.status != "correct"
        times = {} if record.compile is None else {"compilation_time": record.compile}
        measured = {"name": "time", "value": record.status if failed else record.runtime, "unit": ""}
        results.append({
            "timestamp": record.time, "configuration": record.config,
            "times": {**times, "runtimes": record.runtimes},
            "invalidity": record.status, "correctness": int(not failed), "measurements": [measured],
            "objectives": ["time"], **{name: getattr(record, name) for name in _OWN},
        })  # fmt: skip
    return json.dumps({"schema_version": "1.0.0", "results": results}, indent=1, allow_nan=False).encode()


def read_cache(data: Any, path: str) -> Iterator[Record]:
    """Yield the records of a cache of Kernel Tuner."""
    names, sizes = member(data, "tune_params_keys", list), data.get("problem_size", ())
    text = "x".join(map(str, sizes)) if isinstance(sizes, list) else str(sizes or "")
    problem = f"{data.get('kernel_name', '')} {text}".strip()
    for key, entry in member(data, "cache", dict).items():
        with inside(f"cache[{key}]"):
            config = {name: member(entry, name) for name in map(str, names)}
            given = [entry.get(name) for name in ("__error__", str(data.get("objective")), "time")]
            error = next((one for one in given if isinstance(one, str)), None)
            if error is not None and error not in _ERRORS:
                raise DataError.of("time", f"a number or one of {', '.join(_ERRORS)}", repr(error), _CHECK)
            status = "runtime" if given[-1] == _FAILED else _ERRORS.get(error or "", "correct")
            times: Any = (entry.get("times") or [given[-1]]) if status == "correct" else ()
            at, spent = entry.get("timestamp", ""), entry.get("compile_time")
            yield Record(config, times, status, problem, data.get("device_name", ""), time=at, compile=spent)


def mended(raw: bytes) -> Any:
    """Parse a cache of Kernel Tuner that was cut off, up to its last whole entry, or raise ValueError."""
    depth, end, close = 0, 0, b""
    for sign in _SIGNS.finditer(raw) if b'"tune_params_keys"' in raw else ():
        depth += {b"{": 1, b"}": -1}.get(sign[0], 0)
        if (depth, sign[0]) in ((1, b'"cache"'), (2, b"}")):
            end, close = sign.end(), b"}}" if depth == 2 else b":{}}"
    return parsed(raw[:end] + close)


def read_triton(data: Any, path: str) -> Iterator[Record]:
    """Yield the median of every config; the name of the file is that of the kernel."""
    kernel = Path(path).name.partition(".autotune.json")[0]
    problem = f"{kernel}: {', '.join(map(str, member(data, 'key', list)))}"
    for number, pair in enumerate(member(data, "configs_timings", list)):
        with inside(f"configs_timings[{number}]"):
            given, timing = _pair(pair, "a config and its timings")
            config = {**member(given, "kwargs", dict), **given}
            config = {n: v for n, v in config.items() if n != "kwargs" and (n not in _UNSET or v is not None)}
            median = timing[0] if isinstance(timing, list) and timing else timing
            times, status = ((), "compile") if median == math.inf else ((median,), "correct")
            yield Record(config, times, status, problem)


def read_tokamax(data: Any, path: str) -> Iterator[Record]:
    """Yield the records of all arguments of an op, of a table that is shipped or of one result."""
    device = data.get("device_kind", "")
    for number, pair in enumerate(member(data, "data", list) if device else data.items()):
        with inside(f"arguments {number}"):
            given, configs = _pair(pair, "arguments and their configs")
            problem = given if isinstance(given, str) else json.dumps(given, sort_keys=True)
            for text in member({"configs": configs}, "configs", dict):
                config, entry = json_object("config", text), member(configs, text, dict)
                times, spent = member(entry, "evaluation_times_ms", list), entry.get("compile_time_ms")
                yield Record(config, tuple(times), problem=problem, device=device, compile=spent)


def _pair(given: Any, expected: str) -> Any:
    if not isinstance(given, (list, tuple)) or len(given) != 2:
        raise DataError.of("pair", expected, f"{given!r:.80}", _CHECK)
    return given
