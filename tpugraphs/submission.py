"""Kaggle submission files: write, read, check and merge.

A submission is a CSV file with the header ``ID,TopConfigs``. An ID is ``<collection>:<file name>``, without
``.npz``; TopConfigs are config indices joined by ``;``, fastest first: for a layout graph all of them, for a
tile graph the best five.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import BinaryIO, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tpugraphs.errors import DataError
from tpugraphs.files import absolute, atomic_write
from tpugraphs.metrics import COLLECTIONS

__all__ = ["Problem", "Validation", "merge", "read", "validate", "write"]

HEADER = "ID,TopConfigs"
TILE_PLACES = 5
_MAX_LINE = 8 << 20  # bytes; the longest list in the data has about 100,000 indices, 0.7 MB
_MAX_PROBLEMS = 1000
_ID = re.compile(rf"(?:{'|'.join(COLLECTIONS)}):[^\s,;:\"]+")
_INDICES = re.compile(r"[0-9]{1,10}(?:;[0-9]{1,10})*")
_PathLike = str | os.PathLike[str]


@dataclass(frozen=True)
class Problem:
    """One thing wrong with a submission file: where (None: the file as a whole) and what."""

    line: int | None
    id: str | None
    message: str

    def __str__(self) -> str:
        place = f"line {self.line}: " if self.line is not None else ""
        return f"{place}{self.id + ': ' if self.id else ''}{self.message}"


@dataclass(frozen=True)
class Validation:
    """Result of `validate`.

    Attributes
    ----------
    path : str
    rows : int
        Rows below the header.
    problems : list of Problem
        In order of lines, then IDs that are missing. At most 1000 are kept.
    """

    path: str
    rows: int = 0
    problems: list[Problem] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """True if the file has no problem."""
        return not self.problems

    def raise_for_problems(self) -> None:
        """Raise a DataError with the first problem, if there is one."""
        if self.problems:
            more = f" (and {len(self.problems) - 1} more)" if len(self.problems) > 1 else ""
            raise DataError(f"{self.problems[0]}{more}", file=self.path, field=self.problems[0].id)

    def __str__(self) -> str:
        if self.ok:
            return f"{self.path}: valid, {self.rows} rows"
        shown = "\n".join(f"  {problem}" for problem in self.problems[:20])
        rest = f"\n  ... and {len(self.problems) - 20} more" if len(self.problems) > 20 else ""
        limit = "at least " if len(self.problems) >= _MAX_PROBLEMS else ""
        return f"{self.path}: {limit}{len(self.problems)} problems in {self.rows} rows\n{shown}{rest}"


@dataclass(frozen=True)
class _Row:
    line: int
    id: str | None = None
    ranking: NDArray[np.int64] | None = None
    problem: str | None = None  # then the fields above are as far as they could be read


def _is_tile(row_id: str) -> bool:
    return row_id.startswith("tile:")


def _id_problem(row_id: str) -> str | None:
    if not isinstance(row_id, str):
        return f"an ID must be text, found {type(row_id).__name__}; use graph.submission_id"
    if _ID.fullmatch(row_id):
        return None
    return f"ID {row_id[:80]!r} is not <collection>:<name> with a collection of {', '.join(COLLECTIONS)}"


def _ranking_problem(row_id: str, ranking: NDArray[np.int64], count: int | None) -> str | None:
    """Say what is wrong with a ranking of a graph of `count` configs (None: not known)."""
    n = len(ranking)
    if n == 0:
        return "no indices"
    whole = not _is_tile(row_id) or n < TILE_PLACES
    if count is not None and n != count and (n > count or whole):
        needed = count if not _is_tile(row_id) else min(count, TILE_PLACES)
        return f"{n} indices, expected {needed}"
    limit = count if count is not None else n if whole else None
    low, high = int(ranking.min()), int(ranking.max())
    if low < 0:
        return f"index {low} is negative"
    if limit is not None and high >= limit:
        return f"index {high} is out of range 0..{limit - 1} ({n} indices, graph of {limit} configs)"
    values, counts = np.unique(ranking, return_counts=True)
    if len(values) < n:
        repeated = counts > 1
        return f"index {values[repeated][0]} appears {counts[repeated][0]} times, expected once"
    return None


def _indices(text: str) -> tuple[NDArray[np.int64] | None, str | None]:
    """Return the indices of a TopConfigs field, or what is wrong with it."""
    if _INDICES.fullmatch(text):
        return np.array([int(token) for token in text.split(";")], dtype=np.int64), None
    if text == "":
        return None, "no indices"
    for separator in (",", " ", "\t", "|", ":"):
        if separator in text.strip():
            return None, f"indices must be joined by ';', found {separator!r}"
    bad = next(token for token in text.split(";") if not re.fullmatch(r"[0-9]{1,10}", token))
    return (
        None,
        f"{bad[:40]!r} is not a config index (digits only)" if bad else "an index is empty: ';' too many",
    )


def _parse_row(line: int, text: str) -> _Row:
    if text == "":
        return _Row(line, problem="empty line")
    row_id, comma, indices = text.partition(",")
    if not comma:
        other = next((s for s in ("\t", " ", "|", ";") if s in text), None)
        found = f"found {other!r}" if other else "found none"
        return _Row(line, problem=f"ID and indices must be separated by ',', {found}")
    problem = _id_problem(row_id)
    if problem:
        return _Row(line, problem=problem)
    ranking, problem = _indices(indices)
    return _Row(line, row_id, ranking, problem)


def _header_problem(text: str) -> str | None:
    if text == HEADER:
        return None
    if text == "":
        return f"the file is empty; expected the header {HEADER!r}"
    bom = " (the file starts with a byte-order mark: save it without)" if text.startswith("\ufeff") else ""
    return f"expected the header {HEADER!r}, found {text[:80]!r}{bom}"


def _text(raw: bytes) -> str | None:
    try:
        return raw.removesuffix(b"\n").removesuffix(b"\r").decode("utf-8")
    except UnicodeDecodeError:
        return None


def _rows(file: BinaryIO) -> Iterator[_Row]:
    """Rows one by one; the header comes as a row only if something is wrong with it."""
    number = 0
    while (raw := file.readline(_MAX_LINE + 1)) or number == 0:
        number += 1
        if len(raw) > _MAX_LINE:
            yield _Row(
                number, problem=f"longer than {_MAX_LINE >> 20} MiB: this is not a submission file; stopped"
            )
            return
        text = _text(raw)
        if text is None:
            yield _Row(number, problem="not text in UTF-8")
        elif number > 1:
            yield _parse_row(number, text)
        elif problem := _header_problem(text):
            yield _Row(number, problem=problem)


def _template_counts(template: _PathLike | Mapping[str, int]) -> dict[str, int | None]:
    """Return the number of configs per ID; a template file does not tell that of a tile graph."""
    if isinstance(template, Mapping):
        return {row_id: int(count) for row_id, count in template.items()}
    return {row_id: None if _is_tile(row_id) else len(ranking) for row_id, ranking in read(template).items()}


def validate(path: _PathLike, template: _PathLike | Mapping[str, int] | None = None) -> Validation:
    """Check a submission file and name every problem with its line.

    Header, separators, IDs, integers, duplicates and missing rows; a layout row must be a permutation of all
    configs, a tile row at least five different ones (all, if the graph has fewer).

    Parameters
    ----------
    path : path
    template : path or mapping of str to int, optional
        Which IDs there must be: Kaggle's sample_submission.csv, or ID -> number of configs of the graph. A
        mapping is the stricter: it also bounds tile indices, and it is right where a sample lists fewer
        indices than the graph has configs.

    Returns
    -------
    Validation
        ``.ok``, ``.problems``, ``.rows``; never raises for what stands in `path`.

    Raises
    ------
    OSError
        The file cannot be read.
    DataError
        The template is itself broken.
    """
    full = absolute(path)
    expected = None if template is None else _template_counts(template)
    result = Validation(os.fspath(path))
    seen: dict[str, int] = {}
    rows = 0
    with open(full, "rb") as file:
        for row in _rows(file):
            rows += row.line > 1
            problem = row.problem
            if row.id is not None:
                if row.id in seen:
                    problem = f"appears again; it is already on line {seen[row.id]}"
                elif expected is not None and row.id not in expected:
                    problem = "the template does not have this ID"
                elif row.ranking is not None:
                    problem = _ranking_problem(row.id, row.ranking, expected[row.id] if expected else None)
                seen.setdefault(row.id, row.line)
            if problem:
                result.problems.append(Problem(row.line, row.id, problem))
                if len(result.problems) >= _MAX_PROBLEMS:
                    break
    for row_id in expected or ():
        if row_id not in seen and len(result.problems) < _MAX_PROBLEMS:
            result.problems.append(Problem(None, row_id, "missing: the template has this ID"))
    return Validation(result.path, rows, result.problems)


def read(path: _PathLike) -> dict[str, NDArray[np.int64]]:
    """Read a submission file.

    Parameters
    ----------
    path : path

    Returns
    -------
    dict of str to (n,) int64
        ID -> config indices, fastest first, in the order of the file.

    Raises
    ------
    DataError
        The first problem `validate` would name.
    OSError
        The file cannot be read.
    """
    rankings: dict[str, NDArray[np.int64]] = {}
    with open(absolute(path), "rb") as file:
        for row in _rows(file):
            problem = row.problem
            if problem is None and row.id is not None and row.ranking is not None:
                problem = (
                    "appears twice" if row.id in rankings else _ranking_problem(row.id, row.ranking, None)
                )
                rankings[row.id] = row.ranking
            if problem:
                raise DataError(str(Problem(row.line, row.id, problem)), file=os.fspath(path), field=row.id)
    return rankings


def _checked(row_id: str, ranking: ArrayLike, count: int | None) -> NDArray[np.int64]:
    problem = _id_problem(row_id)
    array = np.asarray(ranking)
    if problem is None and (array.ndim != 1 or array.dtype.kind not in "iu"):
        found = f"{array.dtype} {array.shape}"
        problem = f"a ranking must be a one-dimensional array of integers, got {found}"
    if problem is None:
        problem = _ranking_problem(row_id, array.astype(np.int64), count)
    if problem:
        raise DataError(f"{row_id}: {problem}", field=row_id)
    return array.astype(np.int64)


def write(
    path: _PathLike, rankings: Mapping[str, ArrayLike], counts: Mapping[str, int] | None = None
) -> None:
    """Write a submission file; the old file stays whole until the new one is complete on disk.

    Parameters
    ----------
    path : path
    rankings : mapping of str to (n,) integers
        ID -> config indices, fastest first: for a layout graph a permutation of all configs; for a tile graph
        at least five different ones (all, if it has fewer), of which the first five are written.
    counts : mapping of str to int, optional
        ID -> number of configs of the graph, against which rankings are then checked too.

    Raises
    ------
    DataError
        An ID without a known collection, or a ranking that is not as described. Nothing is written then.
    OSError
        The file cannot be written.
    """
    if not isinstance(rankings, Mapping):
        raise DataError(
            "rankings: expected a mapping such as {graph.submission_id: ranker.rank(graph)}, "
            f"found {type(rankings).__name__}",
            field="rankings",
        )
    if counts is not None and not isinstance(counts, Mapping):
        raise DataError(
            f"counts: expected a mapping of ID to number of configs, found {type(counts).__name__}",
            field="counts",
        )
    lines = [HEADER]
    for row_id, ranking in rankings.items():
        array = _checked(row_id, ranking, None if counts is None else counts.get(row_id))
        if _is_tile(row_id):
            array = array[:TILE_PLACES]
        lines.append(f"{row_id},{';'.join(map(str, array.tolist()))}")
    with atomic_write(path) as file:
        file.write(("\n".join(lines) + "\n").encode())


def merge(
    paths: _PathLike | Iterable[_PathLike], out: _PathLike | None = None, overwrite: bool = False
) -> dict[str, NDArray[np.int64]]:
    """Put submission files together, for example one per collection.

    Parameters
    ----------
    paths : path or iterable of paths
    out : path, optional
        Where to write the merged file.
    overwrite : bool
        Let a later file replace an ID of an earlier one. Otherwise different rankings of one ID are an error.

    Returns
    -------
    dict of str to (n,) int64
        As `read`.

    Raises
    ------
    DataError
        A broken file, or one ID with two rankings.
    OSError
        A file cannot be read or written.
    """
    merged: dict[str, NDArray[np.int64]] = {}
    source: dict[str, str] = {}
    single = isinstance(paths, (str, bytes, os.PathLike)) or not isinstance(paths, Iterable)
    for path in [cast(_PathLike, paths)] if single else cast(Iterable[_PathLike], paths):
        for row_id, ranking in read(path).items():
            if row_id in merged and not overwrite and not np.array_equal(merged[row_id], ranking):
                raise DataError(
                    f"{row_id}: {source[row_id]} ranks it differently; remove one, or pass overwrite=True "
                    "to let the later file win",
                    file=os.fspath(path),
                    field=row_id,
                )
            merged[row_id] = ranking
            source[row_id] = os.fspath(path)
    if out is not None:
        write(out, merged)
    return merged
