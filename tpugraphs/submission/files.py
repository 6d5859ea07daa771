"""Kaggle submission files: write, read, check, merge and score.

A submission is a CSV file with the header ``ID,TopConfigs``. An ID is ``<collection>:<file name>``, without
``.npz``; TopConfigs are config indices joined by ``;``, fastest first: for a layout graph all of them, for a
tile graph the best five. Nothing in it is quoted, so a row is split at its comma.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count as count_from
from typing import Any, BinaryIO, NamedTuple, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tpugraphs.data.graph import Graph, Graphs
from tpugraphs.errors import ConfigError, DataError
from tpugraphs.evaluation.evaluator import measured_runtimes
from tpugraphs.metrics import COLLECTIONS, VALIDATION, competition_score
from tpugraphs.names import FOLDERS, kind_named
from tpugraphs.system import counted, few, tables, tracked
from tpugraphs.system.files import name_of, opened, write_whole

HEADER = "ID,TopConfigs"
_MAX_PROBLEMS = 1000
_MAX_LINE = 8 << 20  # bytes; a row of 100,000 indices has 0.7 MB
_ID = re.compile(rf"(?:{'|'.join(FOLDERS)}):[^\s\x00-\x1f\x7f,;:\"]+")
_INDEX = re.compile(r"[0-9]{1,10}")
_INDICES = re.compile(r"[0-9]{1,10}(?:;[0-9]{1,10})*+")  # possessive: without memory for every index
_PathLike = str | os.PathLike[str] | BinaryIO  # a file may be open: a pipe, bytes in memory


@dataclass(frozen=True)
class Problem:
    """One thing wrong with a submission file: where (None: the file as a whole) and what.

    Attributes
    ----------
    line : int or None
        Where it is; None: the file as a whole.
    id : str or None
        ID of the graph.
    message : str
        What is wrong.
    """

    line: int | None
    id: str | None
    message: str

    def __str__(self) -> str:
        place = f"line {self.line}: " if self.line is not None else ""
        return f"{place}{self.id + ': ' if self.id else ''}{self.message}"


@dataclass(frozen=True)
class Validation:
    """Result of `validate`: what is wrong with a file.

    Attributes
    ----------
    path : str
        The file.
    rows : int
        How many there are below the header.
    problems : list of Problem
        By line, then missing IDs; at most 1000.
    """

    path: str
    rows: int = 0  # below the header
    problems: list[Problem] = field(default_factory=list)  # by line, then missing IDs; at most 1000

    @property
    def ok(self) -> bool:
        """True if the file has no problem."""
        return not self.problems

    def raise_for_problems(self) -> None:
        """Raise a DataError with the first problem, if there is one.

        Raises
        ------
        DataError
            The file has a problem; the message is the first one.
        """
        if self.problems:
            more = f" (and {len(self.problems) - 1} more)" if len(self.problems) > 1 else ""
            raise DataError(f"{self.problems[0]}{more}", file=self.path, field=self.problems[0].id)

    def to_frame(self) -> Any:
        """Return `problems` as a pandas DataFrame: line, id, message.

        Raises
        ------
        ConfigError
            pandas is not installed.
        """
        rows = [(one.line, one.id, one.message) for one in self.problems]
        return tables.frame(rows, ("line", "id", "message"))

    def __str__(self) -> str:
        if self.ok:
            return f"{self.path}: valid, {counted(self.rows, 'row')}"
        n = len(self.problems)
        limit = "at least " if n >= _MAX_PROBLEMS else ""
        lines = [f"{self.path}: {limit}{counted(n, 'problem')} in {counted(self.rows, 'row')}"]
        lines += [f"  {problem}" for problem in self.problems[:20]]
        return "\n".join(lines + [f"  ... and {n - 20} more"] * (n > 20))


def _id_problem(row_id: str) -> str | None:
    if not isinstance(row_id, str):
        return f"an ID must be text, found {type(row_id).__name__}; use graph.submission_id"
    if _ID.fullmatch(row_id):
        return None
    return f"ID {row_id[:80]!r} is not <collection>:<name> with a collection of {', '.join(FOLDERS)}"


def _ranking_problem(row_id: str, ranking: NDArray[np.int64], count: int | None) -> str | None:
    """Return what is wrong with a ranking of a graph of `count` configs (None: not known)."""
    n = len(ranking)
    if n == 0:
        return "no indices"
    most = kind_named(row_id).places
    best = most is not None and n >= most  # a choice of the configs, else all of them
    if count is not None and (n > count or (n < count and not best)):
        return f"{counted(n, 'index', 'indices')}, expected {min(count, most or count):,}"
    limit = n if count is None and not best else count
    ordered = np.sort(ranking)
    if ordered[0] < 0:
        return f"index {ordered[0]} is negative"
    if limit is not None and ordered[-1] >= limit:
        return f"index {ordered[-1]} is out of range 0..{limit - 1} (graph of {counted(limit, 'config')})"
    repeated = ordered[1:][ordered[1:] == ordered[:-1]]
    if repeated.size:
        return f"index {repeated[0]} appears {counted((ranking == repeated[0]).sum(), 'time')}, expected once"
    return None


class _Row(NamedTuple):
    """A line of a file. If its text has a problem, the ID and the ranking may be empty."""

    line: int
    id: str
    ranking: NDArray[np.int64]
    problem: str | None

    def wrong(self) -> Problem:
        """Return the problem with its place."""
        return Problem(self.line, self.id or None, str(self.problem))


def _rows(path: _PathLike) -> Iterator[_Row]:
    """Yield rows one by one; the header only if something is wrong with it."""
    try:
        with opened(path) as file:
            for number in count_from(1):
                raw = file.readline(_MAX_LINE + 1)
                if number > 1 and not raw:
                    return
                row_id, listed, problem = _split(raw, number == 1)
                ranking = np.fromstring(listed, np.int64, sep=";")
                if problem or number > 1:
                    yield _Row(number, row_id, ranking, problem)
                if len(raw) > _MAX_LINE:
                    return
    except OSError as error:
        error.filename = error.filename or name_of(path)
        raise


def _split(raw: bytes, first: bool) -> tuple[str, str, str | None]:
    """Split a line into ID and indices, as text, and say what is wrong with it; `first` is the header."""
    if len(raw) > _MAX_LINE:
        return "", "", f"longer than {_MAX_LINE >> 20} MiB: this is not a submission file; stopped"
    try:
        text = raw.removesuffix(b"\n").removesuffix(b"\r").decode()
    except UnicodeDecodeError:
        return "", "", "not text in UTF-8"
    if first:
        mark = " (the file starts with a byte-order mark: save it without)" if text[:1] == "\ufeff" else ""
        found = f"found {text[:80]!r}{mark}" if text else "the file is empty"
        return "", "", None if text == HEADER else f"expected the header {HEADER!r}, {found}"
    row_id, comma, listed = text.partition(",")
    if not comma:
        mark = next((repr(mark) for mark in "\t |;" if mark in text), "none")
        return "", "", f"ID and indices must be separated by ',', found {mark}" if text else "empty line"
    if problem := _id_problem(row_id):
        return "", "", problem
    if _INDICES.fullmatch(listed):
        return row_id, listed, None
    return row_id, "", _indices_problem(listed)


def _indices_problem(listed: str) -> str:
    """Return why a text is not a list of indices."""
    for mark in ", \t|:":
        if mark in listed.strip():
            return f"indices must be joined by ';', found {mark!r}"
    wrong = next(part for part in listed.split(";") if not _INDEX.fullmatch(part))
    if wrong:
        return f"{wrong[:40]!r} is not a config index (digits only)"
    return "an index is empty: ';' too many" if listed else "no indices"


def _error(path: _PathLike, row: _Row) -> DataError:
    return DataError(str(row.wrong()), file=name_of(path), field=row.id or None)


def _checked_rows(
    path: _PathLike, known: Mapping[str, int], expected: Mapping[str, int] | None = None
) -> Iterator[_Row]:
    """Yield rows, each with its problem; ID -> number of configs, `known`, or `expected` at the least."""
    lines: dict[str, int] = {}
    for row in _rows(path):
        problem, count = row.problem, known.get(row.id)
        if row.id in lines:
            problem = f"appears again; it is already on line {lines[row.id]}"
        elif row.id and expected is not None and row.id not in expected:
            problem = "the template does not have this ID"
        elif problem is None:
            problem = _ranking_problem(row.id, row.ranking, count)
            listed = expected[row.id] if expected else 0
            whole = kind_named(row.id).places is None
            if problem is None and count is None and len(row.ranking) < listed and whole:
                found = counted(len(row.ranking), "index", "indices")
                problem = f"{found}, expected at least the {listed:,} of the template"
        if row.id:
            lines.setdefault(row.id, row.line)
        yield row._replace(problem=problem)


def _sound_rows(path: _PathLike) -> dict[str, _Row]:
    """Read the rows by ID, or raise a DataError for the first problem."""
    rows: dict[str, _Row] = {}
    for row in _checked_rows(path, {}):
        if row.problem:
            raise _error(path, row)
        rows[row.id] = row
    return rows


def validate(
    path: _PathLike,
    template: _PathLike | Mapping[str, int] | None = None,
    counts: Mapping[str, int] | None = None,
) -> Validation:
    """Check a submission file and name every problem with its line.

    Header, separators, IDs, integers, duplicates and missing rows; a layout row must be a permutation of all
    configs, a tile row at least five different ones (all, if the graph has fewer).

    Parameters
    ----------
    path : path
    template : path or mapping of str to int, optional
        Required IDs: Kaggle's sample_submission.csv, or ID -> number of configs of the graph. That file lists
        1,000 configs of every layout graph, though some have 1,001: a row may be longer than in the template,
        but not shorter.
    counts : mapping of str to int, optional
        ID -> number of configs of the graph, where that is known. It overrides the template: a row must have
        exactly that many, and tile indices are below it.

    Returns
    -------
    Validation
        ``.ok``, ``.problems``, ``.rows``; never raises for the contents of `path`.

    Raises
    ------
    OSError
        The file cannot be read.
    DataError
        The template is itself broken.
    """
    known, expected = dict(counts or {}), None
    if isinstance(template, Mapping):
        expected = {row_id: int(count) for row_id, count in template.items()}
        known = {**expected, **known}
    elif template is not None:
        expected = {row_id: len(ranking) for row_id, ranking in read(template).items()}
    problems: list[Problem] = []
    seen: set[str] = set()
    rows = 0
    for row in _checked_rows(path, known, expected):
        rows += row.line > 1
        seen.add(row.id)
        problems += [row.wrong()] if row.problem else []
        if len(problems) >= _MAX_PROBLEMS:
            break
    missing = [row_id for row_id in expected or () if row_id not in seen]
    problems += [Problem(None, row_id, "missing: the template has this ID") for row_id in missing]
    return Validation(name_of(path), rows, problems[:_MAX_PROBLEMS])


def read(path: _PathLike) -> dict[str, NDArray[np.int64]]:
    """Read a submission file: ID -> config indices (n,), fastest first, in the order of the file.

    Parameters
    ----------
    path : path
        A CSV file.

    Returns
    -------
    dict of str to (n,) int64
        By ID.

    Raises
    ------
    DataError
        The first problem `validate` would name.
    OSError
        The file cannot be read.
    """
    return {row_id: row.ranking for row_id, row in _sound_rows(path).items()}


def to_frame(rankings: Mapping[str, ArrayLike]) -> Any:
    """Return rankings as a pandas DataFrame with the columns of a submission file, ID and TopConfigs.

    Parameters
    ----------
    rankings : mapping of str to (n,) integers
        What `read` returns and `write` takes.

    Returns
    -------
    pandas.DataFrame
        One row per ID.

    Raises
    ------
    ConfigError
        pandas is not installed.
    DataError
        A ranking that `write` would refuse.
    """
    rows = [line.split(",") for line in _lines(rankings, {})]
    return tables.frame(rows[1:], rows[0])


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
    write_whole(path, "\n".join(_lines(rankings, {} if counts is None else counts)) + "\n")


def _lines(rankings: Mapping[str, ArrayLike], counts: Mapping[str, int]) -> list[str]:
    """Return the lines of a submission file, checked."""
    for name, given in {"rankings": rankings, "counts": counts}.items():
        if not isinstance(given, Mapping):
            todo = "give one such as {graph.submission_id: ranker.rank(graph)}, for counts graph.num_configs"
            raise DataError.of(name, "a mapping of IDs", type(given).__name__, todo)
    lines = [HEADER]
    for row_id, ranking in rankings.items():
        array, problem = np.asarray(ranking), _id_problem(row_id)
        if problem is None and (array.ndim != 1 or array.dtype.kind not in "iu"):
            problem = (
                f"a ranking must be a one-dimensional array of integers, got {array.dtype} {array.shape}"
            )
        if problem := problem or _ranking_problem(row_id, array.astype(np.int64), counts.get(row_id)):
            raise DataError(f"{row_id}: {problem}", field=row_id)
        places = array[: kind_named(row_id).places].tolist()
        lines.append(f"{row_id},{';'.join(map(str, places))}")
    return lines


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
    single = isinstance(paths, (str, bytes, os.PathLike)) or hasattr(paths, "read")
    single = single or not isinstance(paths, Iterable)
    for path in [cast(_PathLike, paths)] if single else cast(Iterable[_PathLike], paths):
        for row_id, ranking in read(path).items():
            if row_id in merged and not overwrite and not np.array_equal(merged[row_id], ranking):
                todo = "remove one, or pass overwrite=True to let the later file win"
                other = f"{row_id}: {source[row_id]} ranks it differently; {todo}"
                raise DataError(other, file=name_of(path), field=row_id)
            merged[row_id], source[row_id] = ranking, name_of(path)
    if out is not None:
        write(out, merged)
    return merged


@dataclass(frozen=True)
class Score:
    """Result of `score`.

    Attributes
    ----------
    path : str
    total : float
        The competition's: unweighted mean over its five collections; others do not count.
    collections : dict of str to float
        Mean over the graphs of a collection. A missing collection had no graphs and counts as 0.
    graphs : dict of str to float
        ID -> tau-b of a layout graph, 1 - slowdown of the best five of a tile graph.
    missing : tuple of str
        IDs of graphs that the file does not rank; each counts as 0.
    unknown : tuple of str
        IDs in the file of which no graph was given; they do not count.
    """

    path: str
    total: float
    collections: dict[str, float]
    graphs: dict[str, float]
    missing: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()

    def to_frame(self) -> Any:
        """Return a pandas DataFrame with one row per graph: id, collection, score, whether it is missing.

        Raises
        ------
        ConfigError
            pandas is not installed.
        """
        missing = set(self.missing)
        rows = [(k, k.rpartition(":")[0], v, k in missing) for k, v in self.graphs.items()]
        return tables.frame(rows, ("id", "collection", "score", "missing"))

    def __str__(self) -> str:
        competes = any(name in COLLECTIONS for name in self.collections)
        lines = [f"{self.path}: competition score {self.total:.6f}" if competes else f"{self.path}:"]
        for name in FOLDERS:
            count = sum(row_id.startswith(f"{name}:") for row_id in self.graphs)
            if count:
                lines.append(f"  {name:<20} {self.collections[name]:.6f}, {counted(count, 'graph')}")
            elif competes and name in COLLECTIONS:
                lines.append(f"  {name:<20} no graphs given: counts as 0")
        for what, ids in (("not in the file, count as 0", self.missing), ("of no graph given", self.unknown)):
            lines += [f"  {what}: {few(ids)}"] if ids else []
        return "\n".join(lines)


def _value(graph: Graph, ranking: NDArray[np.int64]) -> float:
    """Score of one graph, over its configs that ran."""
    place = np.full(graph.num_configs, graph.num_configs)
    place[ranking] = np.arange(len(ranking))
    metric = VALIDATION[kind_named(graph.submission_id).metric]
    return metric(place[graph.ran], measured_runtimes(graph, graph.ran))


def score(path: _PathLike, *graphs: Graphs, verbose: bool | None = None) -> Score:
    """Score a submission on graphs whose runtimes are known, as the competition does.

    A layout graph scores Kendall's tau-b of places and runtimes (0 where it is not defined). A tile graph
    scores 1 - slowdown of the best of its first five (of all, if it has fewer), on runtime / normalizer. A
    collection scores the mean of its graphs; the total is the mean of the five collections.

    Parameters
    ----------
    path : path
    *graphs : graph, or iterable of graphs
        For example ``*(tg.open_collection(name, root).valid for name in tg.metrics.COLLECTIONS)``. They are
        read one after another.
    verbose : bool, optional
        Show a progress bar; by default in a terminal or notebook.

    Returns
    -------
    Score

    Raises
    ------
    DataError
        A broken file, a row that does not rank its graph, or a graph without a collection or runtimes.
    ConfigError
        No graphs.
    OSError
        The file cannot be read.
    """
    rows = _sound_rows(path)
    values: dict[str, float] = {}
    given: tuple[Any, ...] = graphs
    count = sum(len(part) if hasattr(part, "__len__") else 1 for part in given)
    each = (graph for part in given for graph in ([part] if hasattr(part, "submission_id") else part))
    for graph in tracked(each, "score", "graph", verbose, count):
        row_id = graph.submission_id
        if row_id in values:
            raise DataError(f"{row_id} is given twice; leave one out", field=row_id)
        row = rows.get(row_id)
        values[row_id] = 0.0
        if row is None:
            measured_runtimes(graph)  # refuses a graph that cannot be scored
        elif problem := _ranking_problem(row_id, row.ranking, graph.num_configs):
            raise _error(path, row._replace(problem=problem))
        else:
            values[row_id] = _value(graph, row.ranking)
    if not values:
        raise ConfigError("score: give the graphs to score on, for example a collection's valid split")
    groups = {name: [v for k, v in values.items() if k.rpartition(":")[0] == name] for name in FOLDERS}
    means = {name: float(np.mean(group)) for name, group in groups.items() if group}
    total = competition_score({name: mean for name, mean in means.items() if name in COLLECTIONS})
    missing = tuple(row_id for row_id in values if row_id not in rows)
    unknown = tuple(row_id for row_id in rows if row_id not in values)
    return Score(name_of(path), total, means, values, missing, unknown)
