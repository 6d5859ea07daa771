"""Files of records: which formats there are, and how to tell them apart by their content."""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tpugraphs.errors import ConfigError, DataError
from tpugraphs.records import documents, tables
from tpugraphs.records.journal import MARK, read_journal, written
from tpugraphs.records.record import Record
from tpugraphs.system.arguments import check_choice
from tpugraphs.system.files import absolute, write_whole
from tpugraphs.system.journal import held
from tpugraphs.system.texts import MOST_BYTES, parsed, read_whole

_GZIP, _PARQUET = b"\x1f\x8b", b"PAR1"


@dataclass(frozen=True)
class _Document:
    """A format in JSON."""

    name: str
    fits: Callable[[Any], bool]
    read: Callable[[Any, str], Iterator[Record]]


_DOCUMENTS = (
    _Document("T4", documents.is_t4, documents.read_t4),
    _Document("Kernel Tuner's cache", documents.is_cache, documents.read_cache),
    _Document("Triton's timings", documents.is_triton, documents.read_triton),
    _Document("Tokamax", documents.is_tokamax, documents.read_tokamax),
)
_WRITERS: dict[str, tuple[tuple[str, ...], Callable[[Iterable[Record]], bytes]]] = {
    "t4": ((".json",), documents.written_t4),
    "csv": ((".csv",), tables.written_csv),
    "journal": ((".jsonl", ".journal"), written),
}


def read(
    paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]], problem: str = "", device: str = ""
) -> list[Record]:
    """Read the records in files of any format, which is recognised by the content.

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
        Parquet without pandas and pyarrow.

    Examples
    --------
    >>> from tpugraphs import records
    >>> records.read("cache.json", device="A100")  # doctest: +SKIP
    """
    found = list[Record]()
    for path in map(absolute, [paths] if isinstance(paths, (str, os.PathLike)) else paths):
        with documents.inside("", path):
            found += _read(path)
    return [
        replace(record, problem=record.problem or problem, device=record.device or device)
        if (problem and not record.problem) or (device and not record.device)
        else record
        for record in found
    ]


def _read(path: str) -> list[Record]:
    """Read one file."""
    with open(path, "rb") as file:
        start = file.read(len(MARK))
    if start.startswith(_PARQUET):
        return list(tables.read_parquet(path))
    try:
        unpacked: Any = gzip.open if start.startswith(_GZIP) else open
        with unpacked(path, "rb") as file:
            start = file.read(len(MARK))
            file.seek(0)
            if start == MARK:
                return list(read_journal(file, path))
            raw = read_whole(file, MOST_BYTES // 4)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(f"damaged gzip: {error}", file=path) from error
    raw = raw.removeprefix(b"\xef\xbb\xbf")
    if raw.lstrip()[:1] not in (b"{", b"["):
        return list(tables.read_csv(raw, path))
    try:
        data = parsed(raw)
    except ValueError as error:
        data = documents.mended(raw)
        if data is None:
            raise DataError(f"not JSON, or damaged: {error}", file=path) from None
    for document in _DOCUMENTS:
        if document.fits(data):
            return list(document.read(data, path))
    names = ", ".join(document.name for document in _DOCUMENTS)
    found = f"an object with {', '.join(list(data)[:5])}" if isinstance(data, dict) else "a list"
    todo = "a space is read by tpugraphs.Space.read" if "ConfigurationSpace" in found else "check the path"
    raise DataError.of("format", f"one of {names}, a journal or a table", f"{found:.200}", todo, file=path)


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
    if format is None:
        ending = Path(absolute(path)).suffix
        format = next((name for name, (ends, _) in _WRITERS.items() if ending in ends), None)
        if format is None:
            ends = ", ".join(one for ends, _ in _WRITERS.values() for one in ends)
            text = f"expected a name that ends in {ends}, found {str(path)!r}; or give format="
            raise ConfigError(f"format: {text}")
    write_whole(absolute(path), _WRITERS[check_choice("format", format, _WRITERS)][1](records))


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
    exists = os.path.exists(absolute(out))
    with held(out) if exists else nullcontext():
        found = {one.digest: one for one in read([*([out] if exists else []), *paths])}
        merged = [one for _, one in sorted(found.items(), key=lambda item: (item[1].time, item[0]))]
        write(out, merged, format)
    return merged
