"""Records in an append-only file that many processes share."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from typing import IO, Any

from tpugraphs.errors import DataError
from tpugraphs.records.record import Record
from tpugraphs.system.files import absolute
from tpugraphs.system.journal import append_lines, read_lines
from tpugraphs.system.texts import parsed

_VERSION = 1
MARK = b'{"record":'  # how every line begins


class Journal:
    """A file of records, one checksummed line of JSON each, to which many processes may append.

    A process that is killed while it appends loses no more than the line that it is writing. Readers leave
    out such a line, and the next writer removes it.

    Parameters
    ----------
    path : path
        The file; ``~`` is expanded. The first record makes it.

    Examples
    --------
    >>> import tempfile, os
    >>> from tpugraphs import records
    >>> journal = records.Journal(os.path.join(tempfile.mkdtemp(), "tuning.jsonl"))
    >>> journal.append(records.Record({"block": 32}, runtimes=(1.5,)))
    >>> journal.read()[0].config
    {'block': 32}
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = absolute(path)

    def __repr__(self) -> str:
        return f"Journal({self.path!r})"

    def append(self, records: Record | Iterable[Record]) -> None:
        """Append one record or several; after an error none of them is in the file.

        Parameters
        ----------
        records : Record or iterable of Record
            What to append.

        Raises
        ------
        OSError
            The file cannot be written, for example because the disk is full. Records in it are safe.
        """
        several = [records] if isinstance(records, Record) else records
        append_lines(self.path, written(several))

    def read(self) -> list[Record]:
        """Return all records, in the order in which they were appended; none if there is no file.

        Returns
        -------
        list of Record
            Without a last line that was cut off.

        Raises
        ------
        DataError
            A line is damaged; names file and line.
        """
        try:
            with open(self.path, "rb") as file:
                return list(read_journal(file, self.path))
        except FileNotFoundError:
            return []


def written(records: Iterable[Record]) -> bytes:
    """Return the lines of records."""
    lines = (
        json.dumps({"record": _VERSION, "digest": one.digest, **one.to_dict()}, separators=(",", ":"))
        for one in records
    )
    return "".join(f"{line}\n" for line in lines).encode()


def read_journal(file: IO[bytes], path: str) -> Iterator[Record]:
    """Yield the records of an open journal; DataError names a damaged line."""
    for number, line in enumerate(read_lines(file, path), 1):
        try:
            record = _taken(line)
        except ValueError as error:
            text = f"line {number}: {error}"
            raise DataError(text, file=path, field=f"line {number}") from None
        yield record


def _taken(line: bytes) -> Record:
    """Return the record in a line; ValueError if it is damaged."""
    todo = "remove the line to go on without it"
    try:
        entry: Any = parsed(line)
    except ValueError as error:
        raise DataError.of("record", "JSON", f"{line[:40]!r} ({error})", todo) from None
    if not isinstance(entry, dict) or entry.pop("record", None) != _VERSION:
        raise DataError.of("record", f"a record of version {_VERSION}", f"{line[:40]!r}", todo)
    digest = entry.pop("digest", None)
    record = Record.of(entry)
    if record.digest != digest:
        raise DataError.of("digest", f"{record.digest}, of what the line holds", f"{digest!r:.40}", todo)
    return record
