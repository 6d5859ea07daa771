"""Kaggle submission files: write, read, check and merge.

A submission is a CSV file with the header ``ID,TopConfigs``. An ID is ``<collection>:<file name>``, without
``.npz``; TopConfigs are config indices joined by ``;``, fastest first: for a layout graph all of them, for a
tile graph the best five.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tpugraphs import _core
from tpugraphs.errors import DataError
from tpugraphs.files import absolute, atomic_write
from tpugraphs.metrics import COLLECTIONS

__all__ = ["Problem", "Validation", "merge", "read", "validate", "write"]

HEADER = "ID,TopConfigs"
TILE_PLACES = 5
_MAX_PROBLEMS = 1000
_UNREADABLE = 1  # tg_row_state
_ID = re.compile(rf"(?:{'|'.join(COLLECTIONS)}):[^\s\x00-\x1f\x7f,;:\"]+")
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


def _is_tile(row_id: str) -> bool:
    return row_id.startswith("tile:")


def _id_problem(row_id: str) -> str | None:
    if not isinstance(row_id, str):
        return f"an ID must be text, found {type(row_id).__name__}; use graph.submission_id"
    if _ID.fullmatch(row_id):
        return None
    return f"ID {row_id[:80]!r} is not <collection>:<name> with a collection of {', '.join(COLLECTIONS)}"


def _count_problem(row_id: str, n: int, count: int) -> str | None:
    whole = not _is_tile(row_id) or n < TILE_PLACES
    if n == count or (n < count and not whole):
        return None
    return f"{n} indices, expected {count if not _is_tile(row_id) else min(count, TILE_PLACES)}"


def _ranking_problem(row_id: str, ranking: NDArray[np.int64], count: int | None) -> str | None:
    """Say what is wrong with a ranking of a graph of `count` configs (None: not known)."""
    n = len(ranking)
    if n == 0:
        return "no indices"
    if count is not None and (problem := _count_problem(row_id, n, count)):
        return problem
    limit = count if count is not None else n if not _is_tile(row_id) or n < TILE_PLACES else None
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


class _Row(NamedTuple):
    """A row as the C reader gives it: what is wrong with it is part of it."""

    line: int
    id: str | None
    ranking: NDArray[np.int64] | None
    length: int
    high: int  # the largest
    state: int
    problem: str

    def problem_for(self, count: int | None) -> str | None:
        """Say what is wrong with it as the ranking of a graph of `count` configs (None: not known)."""
        if self.state != _UNREADABLE and count is not None and self.id is not None:
            problem = _count_problem(self.id, self.length, count)
            if problem is None and self.high >= count:
                problem = f"index {self.high} is out of range 0..{count - 1} (graph of {count} configs)"
            if problem is not None:
                return problem
        return self.problem or None


def _rows(path: _PathLike) -> Iterator[_Row]:
    """Rows one by one; the header comes as a row only if something is wrong with it."""
    full = absolute(path)
    if os.path.isdir(full):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), full)
    try:
        yield from map(_Row._make, _core.SubmissionRows(full, COLLECTIONS))
    except OSError as error:
        raise type(error)(error.errno, os.strerror(error.errno or 0), full) from None


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
    expected = None if template is None else _template_counts(template)
    result = Validation(os.fspath(path))
    seen: dict[str, int] = {}
    rows = 0
    for row in _rows(path):
        rows += row.line > 1
        problem: str | None = row.problem
        if row.id is not None:
            if row.id in seen:
                problem = f"appears again; it is already on line {seen[row.id]}"
            elif expected is not None and row.id not in expected:
                problem = "the template does not have this ID"
            else:
                problem = row.problem_for(expected[row.id] if expected else None)
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
    for row in _rows(path):
        problem = "appears twice" if row.id in rankings else row.problem
        if problem or row.id is None or row.ranking is None:
            raise DataError(str(Problem(row.line, row.id, problem)), file=os.fspath(path), field=row.id)
        rankings[row.id] = row.ranking
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
