"""Texts of files, read within a limit of memory: a few bytes of a compressed file can hold gigabytes."""

import csv
import gzip
import io
import json
import sys
import zlib
from collections import Counter
from collections.abc import Callable, Collection, Generator, Iterator
from contextlib import closing
from itertools import count as count_from
from pathlib import Path
from typing import Any

from tpugraphs.errors import DataError
from tpugraphs.system.files import name_of, opened
from tpugraphs.system.words import counted

MOST_BYTES = 256 << 20  # of memory, for what is read from one file
_MOST_LINE = 1 << 20  # bytes of a row of CSV
_PER_CELL = 40  # bytes of a cell: of its place in a list, and of the number that it becomes
_MOST_WORDS = 4096  # distinct words of a column that are stored once each
_PER_SIGN = {b"{": 256, b"[": 96, b",": 64, b":": 64}  # most bytes of objects per sign of JSON


def read_whole(source: Any, most: int = MOST_BYTES // 4) -> bytes:
    """Read a path or an open file; DataError if it has more than `most` bytes."""
    with opened(source) as file:
        raw: bytes = file.read(most + 1)
    if len(raw) > most:
        raise DataError(f"more than {most >> 20} MiB of text; is this the right file?", file=name_of(source))
    return raw


def parsed(raw: bytes | str, parse_constant: Callable[[str], Any] | None = None) -> Any:
    """Parse a text of JSON; ValueError if it is invalid, or its objects could take too much memory."""
    text = raw.encode("utf-8", "surrogatepass") if isinstance(raw, str) else bytes(raw)
    if sum(text.count(sign) * size for sign, size in _PER_SIGN.items()) > MOST_BYTES:
        raise ValueError(f"its objects could take more than {MOST_BYTES >> 20} MiB of memory")
    try:
        return json.loads(raw, parse_constant=parse_constant)
    except RecursionError:
        raise ValueError("nested too deep") from None


def csv_columns(
    source: Any, wanted: Collection[str] | None = None, most: int = MOST_BYTES, path: str = ""
) -> dict[str, list[str]]:
    """Read the columns of a CSV file in UTF-8, block by block; a Path may be compressed (``.gz``).

    Columns that are not `wanted` are as long as the others, and empty. By default all are wanted. Errors name
    the `path`, by default that of the source.

    Raises
    ------
    DataError
        The file is damaged, has no rows, rows of different lengths or two columns of one name, or takes more
        than `most` bytes of memory.
    """
    path, count, taken = path or name_of(source), 0, 0
    packed = isinstance(source, Path) and source.suffix == ".gz"
    try:
        with gzip.open(source) if packed else opened(source) as file, closing(_rows(file, path)) as rows:
            head = next(rows, [])
            if len(set(head)) < len(head):
                again = Counter(head).most_common(1)[0][0]
                raise DataError(f"{path}: line 1: expected every column once, found {again!r:.80} twice")
            places = [i for i, name in enumerate(head) if wanted is None or name in wanted]
            kept = [(i, list[str](), dict[str, str]()) for i in places]
            for row in rows:
                count += 1
                for i, column, words in kept:
                    word = words.get(row[i])
                    if word is None:
                        word = row[i]
                        taken += sys.getsizeof(word)
                        if len(words) < _MOST_WORDS:
                            words[word] = word
                    column.append(word)
                if taken + _PER_CELL * (len(kept) + 1) * count > most:
                    todo = "split it, and give a list of its parts"
                    raise DataError(f"{path}: line {count + 1}: more than {most >> 20} MiB of memory; {todo}")
    except (UnicodeDecodeError, csv.Error, EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(f"{path}: not a CSV file in UTF-8, or damaged: {error}") from error
    if not count:
        lines = counted(1 if head else 0, "line")
        raise DataError(f"{path}: expected a line of column names and at least one row, found {lines}")
    return dict.fromkeys(head, [""] * count) | {head[i]: column for i, column, _ in kept}


def _rows(file: Any, path: str) -> Generator[list[str], None, None]:
    """Yield the rows, all as long as the first; empty ones at the end do not count."""
    text = io.TextIOWrapper(file, "utf-8-sig", newline="")  # lines of any ending
    length = empty = fields = 0

    def lines() -> Iterator[str]:
        nonlocal length
        for number in count_from(1):
            line = text.readline(_MOST_LINE + 1)
            length += len(line)
            if length > _MOST_LINE:
                raise DataError(f"{path}: line {number}: longer than {_MOST_LINE >> 20} MiB")
            if not line:
                return
            yield line

    try:
        for number, row in enumerate(csv.reader(lines()), 1):
            length, fields = 0, fields or len(row)
            if not row:
                empty = empty or number
            elif empty or len(row) != fields:
                where, found = (empty, 0) if empty else (number, len(row))
                expected = f"{counted(fields, 'field')} as in line 1" if where > 1 else "names of columns"
                raise DataError(f"{path}: line {where}: expected {expected}, found {found}")
            else:
                yield row
    finally:
        text.detach()  # who opened the file closes it
