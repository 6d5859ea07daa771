"""Files of records: which formats there are, and how to tell them apart by their content."""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

from tpugraphs.errors import ConfigError, DataError
from tpugraphs.records import documents, tables
from tpugraphs.records.journal import MARK, read_journal, written
from tpugraphs.records.record import Record
from tpugraphs.system.files import absolute, write_whole
from tpugraphs.system.journal import held
from tpugraphs.system.texts import parsed, read_whole

_DOCUMENTS: dict[str, Callable[[Any, str], Iterator[Record]]] = {  # by a member that they have
    "results": documents.read_t4,
    "cache": documents.read_cache,
    "configs_timings": documents.read_triton,
    "device_kind": documents.read_tokamax,
}
_WRITERS = {
    "t4": ((".json",), documents.written_t4),
    "csv": ((".csv",), tables.written_csv),
    "journal": ((".jsonl", ".journal"), written),
}


def read(
    paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]], problem: str = "", device: str = ""
) -> list[Record]:
    r"""Read the records in files of any format, which is recognised by the content.

    Formats are journals of this package, T4 results, caches of Kernel Tuner (also cut off), Triton's
    ``*.autotune.json``, the CSV log of Helion, JSON of Tokamax, and tables in CSV or parquet. In a table,
    every column but ``runtime``, ``status``, ``device`` and ``problem`` is a parameter. Any of them but
    parquet may be compressed by gzip.

    Parameters
    ----------
    paths : path or list of paths
        The files.
    problem, device : str
        For records whose file does not name them.

    Returns
    -------
    list of Record
        In the order of the files. Times are milliseconds, those of tables and journals as written.

    Raises
    ------
    DataError
        A file is damaged, too large or of another format; names the file and the place in it.
    OSError
        A file cannot be read.
    ConfigError
        The file is parquet, and pandas or pyarrow is not installed.

    Examples
    --------
    >>> import tempfile, os
    >>> from tpugraphs import records
    >>> path = os.path.join(tempfile.mkdtemp(), "table.csv")
    >>> with open(path, "w") as file:
    ...     _ = file.write("block,runtime\n32,1.5\n64,nan\n")
    >>> [(one.config, one.runtime, one.status) for one in records.read(path, device="A100")]
    [({'block': 32}, 1.5, 'correct'), ({'block': 64}, nan, 'runtime')]
    """
    found = list[Record]()
    for path in map(absolute, [paths] if isinstance(paths, (str, os.PathLike)) else paths):
        with documents.inside("", path):
            found += _read(path)
    if not problem and not device:
        return found
    return [replace(one, problem=one.problem or problem, device=one.device or device) for one in found]


def _read(path: str) -> Iterable[Record]:
    """Read one file."""
    with open(path, "rb") as file:
        start = file.read(4)
    if start == b"PAR1":
        return tables.read_parquet(path)
    unpacked: Any = gzip.open if start.startswith(b"\x1f\x8b") else open
    try:
        with unpacked(path, "rb") as file:
            raw = file.read(len(MARK))
            if raw == MARK:
                file.seek(0)
                return list(read_journal(file, path))
            if not raw and Path(path).suffix in _WRITERS["journal"][0]:
                return []  # another process has made it, and not yet written a line
            raw += read_whole(file)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(f"damaged gzip: {error}") from error
    raw = raw.removeprefix(b"\xef\xbb\xbf")
    return _document(raw, path) if raw.lstrip()[:1] in (b"{", b"[") else tables.read_csv(raw, path)


def _document(raw: bytes, path: str) -> Iterator[Record]:
    """Yield the records in a text of JSON."""
    try:
        data = parsed(raw)
    except ValueError as error:
        try:
            data = documents.mended(raw)
        except ValueError:
            raise DataError(f"not JSON, or damaged: {error}") from None
    names = list(data) if isinstance(data, dict) else ["a list"]
    reader = next((read for name, read in _DOCUMENTS.items() if name in names), None)
    if reader is None and isinstance(data, dict) and b'"evaluation_times_ms"' in raw:
        reader = documents.read_tokamax
    if reader is None:
        todo = "tpugraphs.Space.read reads a space" if "ConfigurationSpace" in names else "check the path"
        expected = "a journal, a table, or JSON of T4, Kernel Tuner, Triton or Tokamax"
        raise DataError.of("format", expected, f"{', '.join(names[:5]):.200}", todo)
    yield from reader(data, path)


def write(path: str | os.PathLike[str], records: Iterable[Record], format: str | None = None) -> None:
    """Write records to a file, which appears whole or not at all. `read` returns equal records.

    Parameters
    ----------
    path : path
        The file; an older one is replaced.
    records : iterable of Record
        What to write.
    format : {"t4", "csv", "journal"}, optional
        By default the name decides: ``.json``, ``.csv``, or ``.jsonl`` and ``.journal``. T4 keeps problem,
        device, environment and round as additional members of a result.

    Raises
    ------
    ConfigError
        A name that leaves the format open; for CSV, no records, or a parameter called like a field.
    OSError
        The file cannot be written.
    """
    ending = Path(absolute(path)).suffix
    if format is None:
        format = next((name for name, (ends, _) in _WRITERS.items() if ending in ends), None)
    if format not in _WRITERS:
        ends = ", ".join(f"{' or '.join(ends)} ({name})" for name, (ends, _) in _WRITERS.items())
        found = repr(str(path)) if format is None else repr(format)
        raise ConfigError(f"format: expected a name that ends in {ends}, or format=, found {found}")
    write_whole(absolute(path), _WRITERS[format][1](records))


def merge(
    out: str | os.PathLike[str], paths: Sequence[str | os.PathLike[str]], format: str | None = None
) -> list[Record]:
    """Write the records of several files into one, each once.

    Parameters
    ----------
    out : path
        The file to write, see `write`. If it exists, its records are kept, and processes that append to it
        wait.
    paths : list of paths
        Files of any format.
    format : str, optional
        As for `write`.

    Returns
    -------
    list of Record
        What was written: sorted by time, equal times by digest, so that the order of the files does not
        matter.

    Raises
    ------
    DataError
        A file is damaged or of another format.
    ConfigError
        As for `write`.
    OSError
        A file cannot be read or written.
    """
    there = [out] if os.path.exists(absolute(out)) else []
    with held(out) if there else nullcontext():
        found = {one.digest: one for one in read([*there, *paths])}
        merged = [one for _, one in sorted(found.items(), key=lambda item: (item[1].time, item[0]))]
        write(out, merged, format)
    return merged
