"""A CSV file of measured rows, which is written row by row and can be continued."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tpugraphs.errors import ConfigError
from tpugraphs.system.files import absolute
from tpugraphs.system.texts import MOST_BYTES, csv_columns, read_whole

__all__ = ["Rows"]

NUMBER = "layer"  # column with the number of a row's layer


class Rows:
    """Rows of text with named columns, in memory, and in a file if there is a path.

    Parameters
    ----------
    path : path, optional
        Rows of an earlier call are read. A last line that was cut off is ignored, and `resume` removes it.
    names : sequence of str
        Columns.

    Raises
    ------
    ConfigError
        The file has other columns, or its name does not end in ``.csv``.
    DataError
        It is not such a file.
    """

    def __init__(self, path: str | os.PathLike[str] | None, names: Sequence[str]) -> None:
        self.names, self.rows = tuple(names), list[list[str]]()
        self.path = None if path is None else Path(absolute(path))
        self._whole = 0  # bytes of the file that count
        if self.path is None:
            return
        if self.path.suffix != ".csv":
            raise ConfigError(f"path: expected a name that ends in .csv, got {str(path)!r}")
        if not os.access(self.path.parent, os.W_OK | os.X_OK):
            folder = str(self.path.parent)
            raise ConfigError(f"path: expected a folder that can be written, found {folder!r}; make it first")
        if self.path.exists():
            self._read(read_whole(self.path, MOST_BYTES))

    def _read(self, content: bytes) -> None:
        head = _line(self.names)
        if not content.startswith(head):
            if head.startswith(content):
                return  # cut off, or empty
            found = content.partition(b"\n")[0].decode("utf-8", "replace").strip()
            raise ConfigError(
                f"{self.path}: expected a table of this kind of layers to continue, with the columns "
                f"{','.join(self.names)}; found {found:.300}; choose another path"
            )
        self._whole = content.rindex(b"\n") + 1
        if self._whole > len(head):
            text = io.BytesIO(content[: self._whole])
            text.name = str(self.path)
            self.rows = [
                list(row) for row in zip(*csv_columns(text, most=4 * MOST_BYTES).values(), strict=True)
            ]

    def __len__(self) -> int:
        return len(self.rows)

    def first(self, name: str) -> str | None:
        """Return the value of the first row in a column; None if there are no rows."""
        return self.rows[0][self.names.index(name)] if self.rows else None

    def resume(self, layers: Sequence[Mapping[str, Any]]) -> int:
        """Check the rows against the layers, and return how many layers are done.

        Raises
        ------
        ConfigError
            A row has another layer, or was measured with other arguments.
        """
        last = -1
        for i, row in enumerate(self.rows):
            found = dict(zip(self.names, row, strict=True))
            digits = found[NUMBER].isascii() and found[NUMBER].isdigit() and len(found[NUMBER]) < 10
            number = int(found[NUMBER]) if digits else -1
            if not last < number < len(layers):
                wanted = f"a number from {last + 1} to {len(layers) - 1}"
                raise self._other(i, NUMBER, wanted, found[NUMBER])
            for name, value in layers[number].items():
                if found[name] != str(value):
                    raise self._other(i, name, str(value), found[name])
            last = number
        if self.path is not None and self.path.exists():
            os.truncate(self.path, self._whole)
        return last + 1

    def _other(self, row: int, name: str, expected: str, found: str) -> ConfigError:
        return ConfigError(
            f"{self.path}: column {name!r}, row {row}: expected {expected}, found {found or 'nothing'}: the "
            "file was measured with other arguments; call with the same, or choose another path"
        )

    def add(self, values: Mapping[str, Any]) -> None:
        """Add a row, to the file in one piece."""
        row = [str(values[name]) for name in self.names]
        if self.path is not None:
            text = _line(row) if self._whole else _line(self.names) + _line(row)
            with open(self.path, "ab", buffering=0) as file:
                file.write(text)
            self._whole += len(text)
        self.rows.append(row)

    def columns(self) -> dict[str, list[str]]:
        """Return the rows by column."""
        return {name: [row[i] for row in self.rows] for i, name in enumerate(self.names)}


def _line(row: Iterable[str]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(row)
    return text.getvalue().encode()
