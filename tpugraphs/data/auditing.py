"""Audits of measured graphs for duplicates, noise, level shifts and useless files: :func:`audit`."""

from __future__ import annotations

import glob
import math
import os
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tpugraphs import _core
from tpugraphs.data import corrupt
from tpugraphs.data.collections import Source, Split, source_of, sources_in
from tpugraphs.data.description import judge
from tpugraphs.data.identity import facts
from tpugraphs.data.published import Graph
from tpugraphs.data.schema import UNITS
from tpugraphs.distributed.ranks import CommunicatorLike, Ranks
from tpugraphs.errors import ConfigError, DataError
from tpugraphs.system import absolute, counted, markup, tables, tracked

__all__ = ["Audit", "Finding", "GraphAudit", "Shift", "audit"]

DUPLICATES = 0.1  # share of distinct configs below which an audit reports it
FEW = 5  # tile configs: with fewer, the best five are all of them
SHOWN = 40  # a table lists all graphs up to this many
_LISTED = 200  # findings in a notebook

# Kind of finding, whether such a file should be left out of training, and its name in a table.
_KINDS = {
    "unreadable": (True, "unreadable"),
    "known-corrupt": (True, "known corrupt"),
    "no-configs": (True, "no configs"),
    "single-config": (True, "one config only"),
    "constant": (True, "constant runtimes"),
    "zero-runtimes": (False, "runtimes of 0"),
    "all-failed": (True, "all configs failed"),
    "failed-configs": (False, "failed configs"),
    "shift": (False, "block shift"),
    "modes": (False, "two modes"),
    "duplicates": (False, "mostly duplicates"),
    "few-configs": (False, f"fewer than {FEW} configs"),
    "placeholder": (False, "placeholder runtimes"),
}
_QUIET = ("few-configs", "placeholder")  # normal in whole splits: counted, but not listed, in a long table


@dataclass(frozen=True)
class Finding:
    """One thing that the audit found in a file.

    Attributes
    ----------
    kind : str
        For example ``"known-corrupt"``.
    text : str
        A description in a few words.
    exclude : bool
        Whether the file should be left out of training and validation.
    """

    kind: str
    text: str
    exclude: bool


@dataclass(frozen=True)
class Shift:
    """A level shift of runtimes of equal configs between neighbouring blocks of a file.

    Attributes
    ----------
    row : int
        Number of a config near the shift.
    size : float
        Ratio of runtimes after it to those before, minus 1.
    error : float
        The standard error of `size`.
    """

    row: int
    size: float
    error: float


@dataclass(frozen=True)
class GraphAudit:
    """Findings in one file, and its measurements in numbers.

    Attributes
    ----------
    name, collection, kind, file : str or None
        The kind is ``"layout"``, ``"tile"``, ``"graph"``, or None if the file cannot be read.
    configs, distinct, largest : int
        Number of configs, of distinct configs, and of copies of the most frequent one.
    noise_median, noise_max : float or None
        Relative spread (slowest / fastest - 1) of the runtimes of equal configs, over the configs that occur
        several times; for tile graphs of normalised runtimes. If none does, the spread of single measurements
        of a config (`repeats`), if there are any.
    modes : float or None
        Relative distance between the two modes of runtimes of equal configs, if there are two.
    shift : Shift or None
        The largest level shift, if there is one.
    findings : tuple of Finding
    """

    name: str
    collection: str | None
    kind: str | None
    file: str | None
    configs: int = 0
    distinct: int = 0
    largest: int = 0
    noise_median: float | None = None
    noise_max: float | None = None
    modes: float | None = None
    shift: Shift | None = None
    findings: tuple[Finding, ...] = ()

    @property
    def exclude(self) -> bool:
        """Whether the graph should be left out of training and validation."""
        return any(finding.exclude for finding in self.findings)


class Audit:
    """Result of :func:`audit`: `graphs` holds one :class:`GraphAudit` per file.

    Parameters
    ----------
    graphs : iterable of GraphAudit
        One per file.
    """

    def __init__(self, graphs: Iterable[GraphAudit]) -> None:
        self.graphs = tuple(graphs)

    def __len__(self) -> int:
        return len(self.graphs)

    @property
    def exclude(self) -> list[str]:
        """Patterns for ``exclude=`` of :func:`tpugraphs.open_collection`.

        Graphs of a test split, or with placeholder runtimes, are never excluded: a submission must rank them.
        """
        patterns = set()
        for graph in filter(lambda one: one.exclude, self.graphs):
            known = any(finding.kind == "known-corrupt" for finding in graph.findings)
            patterns.add(corrupt.KEYWORD if known else glob.escape(graph.name))
        return sorted(patterns, key=lambda pattern: (pattern != corrupt.KEYWORD, pattern))

    def counts(self) -> dict[str, int]:
        """Return the number of graphs with each kind of finding."""
        kinds = [kind for graph in self.graphs for kind in dict.fromkeys(f.kind for f in graph.findings)]
        return {kind: kinds.count(kind) for kind in _KINDS if kind in kinds}

    def table(self, every: bool | None = None) -> str:
        """Return aligned text, for a terminal.

        Parameters
        ----------
        every : bool, optional
            Also list graphs without findings; by default if there are at most 40 graphs.

        Returns
        -------
        str
            A table, and a summary below.
        """
        summary = "\n".join(self._summary())
        if not (shown := self._shown(every)):
            return summary
        return f"{tables.text(*tables.section('', list(map(_line, shown))))}\n\n{summary}"

    def _shown(self, every: bool | None) -> list[GraphAudit]:
        """Return the graphs of a table; see `table`."""
        every = len(self) <= SHOWN if every is None else every
        return [g for g in self.graphs if every or any(f.kind not in _QUIET for f in g.findings)]

    def _summary(self) -> list[str]:
        """Return lines about all graphs."""
        clean = sum(not graph.findings for graph in self.graphs)
        summary = [f"{counted(len(self), 'graph')}; {clean} without findings"]
        summary += [f"{_KINDS[kind][1]}: {count}" for kind, count in self.counts().items()]
        equal = "of the runtimes of equal configs"
        if any(graph.noise_median is not None for graph in self.graphs):
            summary.append(f"noise: slowest / fastest - 1 {equal}, over such configs.")
        if any(graph.shift is not None for graph in self.graphs):
            summary.append(f"shift: step {equal} from one block of the file to the next.")
        summary.append(f"suggestion: exclude={self.exclude!r}" if self.exclude else "nothing to exclude")
        return summary

    def exclude_file(self) -> str:
        """Return the text of a file for ``--exclude @FILE``: a pattern per line, the reasons as comments."""
        lines = ["# Graphs to leave out, found by `tpugraphs audit`; for --exclude @FILE"]
        for graph in self.graphs:
            for finding in graph.findings:
                if finding.exclude:
                    name = f"{graph.collection}:{graph.name}" if graph.collection else graph.name
                    lines.append(f"# {name}: {' '.join(finding.text.split())}")
        return "\n".join([*lines, *self.exclude]) + "\n"

    def to_frame(self) -> Any:
        """Return a pandas DataFrame with one row per graph: the fields of a `GraphAudit`, and `exclude`.

        `shift` is the size of the shift, NaN without one; `findings` are their kinds, joined by commas.

        Raises
        ------
        ConfigError
            pandas is not installed.
        """
        rows = []
        for graph in self.graphs:
            shift = math.nan if graph.shift is None else graph.shift.size
            kinds = ", ".join(dict.fromkeys(finding.kind for finding in graph.findings))
            rows.append({**vars(graph), "shift": shift, "findings": kinds, "exclude": graph.exclude})
        return tables.frame(rows, None if rows else [one.name for one in fields(GraphAudit)])

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values, for JSON."""
        graphs = [{**asdict(graph), "exclude": graph.exclude} for graph in self.graphs]
        return {"graphs": graphs, "counts": self.counts(), "exclude": self.exclude}

    def __repr__(self) -> str:
        return f"<Audit: {counted(len(self), 'graph')}>\n{self.table()}"

    def _repr_html_(self) -> str:
        parts, summary = [markup.items(self._summary())], counted(len(self), "graph")
        if shown := self._shown(None):
            title, heads, cells = tables.section("", list(map(_line, shown)))
            parts.append(markup.table(heads, cells, title))
        if texts := [f"{graph.name}: {finding.text}" for graph in self.graphs for finding in graph.findings]:
            parts.append(markup.folded("findings in full", markup.items(texts, _LISTED)))
        return markup.card("Audit", "", summary, {}, *parts)


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value:.3%}"


def _line(graph: GraphAudit) -> list[tuple[str, str]]:
    """Return the row of a graph in a table, as heads and cells."""
    known = [("collection", graph.collection)] if graph.collection else []
    return [
        *known,
        ("graph", graph.name),
        ("configs", f"{graph.configs:,}"),
        ("distinct", f"{graph.distinct:,}"),
        ("most copies", f"{graph.largest:,}"),
        ("noise, median", _percent(graph.noise_median)),
        ("max", _percent(graph.noise_max)),
        ("shift", f"{graph.shift.size:+.3%}" if graph.shift else "-"),
        ("findings", "; ".join(map(_short, graph.findings)) or "-"),
    ]


def _short(finding: Finding) -> str:
    return finding.text if finding.kind in ("modes", "shift") else _KINDS[finding.kind][1]


# --- one graph ----------------------------------------------------------------------------------------------


def _findings(
    name: str, collection: str | None, needed: bool, found: Iterable[tuple[str, str]]
) -> tuple[Finding, ...]:
    """Make findings; none advises excluding a graph that is `needed` in a submission."""
    known = corrupt.reason(name, collection)
    parts = [("known-corrupt", f"known to be corrupt: {known}")] if known else []
    return tuple(Finding(kind, text, _KINDS[kind][0] and not needed) for kind, text in (*parts, *found))


def _audit_graph(graph: Graph) -> GraphAudit:
    """Audit one graph. Raises DataError if its configs are damaged."""
    first, inverse = graph.distinct_configs()
    configs, distinct = graph.num_configs, len(first)
    found = list(judge(graph, distinct, DUPLICATES))
    if graph.schema.metric == "top5" and 1 < configs < FEW:
        found.append(("few-configs", f"{counted(configs, 'config')}: the best {FEW} are all there are"))
    needed = "placeholder" in dict(found)
    noise = _measurements(graph, inverse, found) if graph.has_runtimes else {}
    findings = _findings(graph.name, graph.collection, needed, found)
    largest = int(np.bincount(inverse, minlength=1).max())
    source = (graph.name, graph.collection, graph.kind, graph.path)
    return GraphAudit(*source, configs, distinct, largest, **noise, findings=findings)


def _measurements(graph: Graph, inverse: NDArray[np.int64], found: list[tuple[str, str]]) -> dict[str, Any]:
    """Return noise, modes and shift of measured runtimes; append findings to `found`."""
    repeats = _core.repeats(inverse, graph.relative_runtime)
    if repeats is None:  # single measurements, of the configs that have two or more
        several = np.empty((0, 1)) if graph.repeats is None else graph.repeats[graph.runtime > 0]
        several = several[np.isfinite(several).sum(axis=1) > 1]
        if len(several) == 0:
            return {}
        spread = np.nanmax(several, axis=1) / np.nanmin(several, axis=1) - 1
        return {"noise_median": float(np.median(spread)), "noise_max": float(spread.max())}
    median, most, modes, step = repeats
    shift = None if step is None else Shift(*step)
    if modes is not None:
        about = f"{modes:.2%}"
        if not graph.schema.maximized and graph.schema.unit is not None:
            scale = UNITS[graph.schema.unit] / UNITS["us"]
            apart = modes * float(np.median(graph.runtime[graph.runtime > 0])) * scale
            about = f"about {apart:,.0f} us ({modes:.2%})"
        found.append(("modes", f"two modes {about} apart"))
    if shift is not None:
        found.append(("shift", f"runtimes shift by {shift.size:+.2%} near config {shift.row:,}"))
    return {"noise_median": median, "noise_max": most, "modes": modes, "shift": shift}


# --- many files ---------------------------------------------------------------------------------------------


_One = Graph | str | bytes | os.PathLike[str] | Split
Data = _One | Iterable[_One]


def audit(
    data: Data,
    *,
    exclude: str | Iterable[str] | None = None,
    max_bytes: int | None = None,
    verbose: bool | None = None,
    communicator: CommunicatorLike | None = None,
) -> Audit:
    """Check measured graphs for duplicates, noise, level shifts and useless or harmful files.

    Files are read one at a time and not kept, so memory is that of the largest.

    Parameters
    ----------
    data : path, graph, or list of these, or split of a collection
        A folder means all .npz files, packs and .pb files in and below it. Of a graph with several of these,
        the pack is read, or else the .npz.
    exclude : str or list of str, optional
        As for :func:`tpugraphs.open_collection`.
    max_bytes : int, optional
        As for :func:`tpugraphs.load`.
    verbose : bool, optional
        Show a progress bar; by default in a terminal or notebook.
    communicator : CommunicatorLike, optional
        Divide the files among these ranks. Every rank returns all findings.

    Returns
    -------
    Audit

    Raises
    ------
    ConfigError
        Not a path, a graph, or a list of these.
    DataError
        A folder without such files, or all are excluded. Files that cannot be read are findings.
    OSError
        A path that does not exist.

    Examples
    --------
    >>> import tpugraphs as tg
    >>> tg.audit(tg.open_collection("options:xla:cpu").valid[0]).exclude
    []
    """
    sources = Split(_sources(data, max_bytes)).exclude(exclude).sources
    if not sources:
        raise DataError("audit: no graphs are left; the list is empty, or exclude leaves out all of them")

    def audited(i: int) -> dict[str, Any]:
        name, collection, file, read = sources[i]
        try:
            return asdict(_audit_graph(read()))
        except (DataError, OSError) as error:
            text = str(error).removeprefix(f"{file}: ")
            needed = collection is not None and file is not None and Path(file).parent.name == "test"
            findings = _findings(name, collection, needed, [("unreadable", text)])
            return asdict(GraphAudit(name, collection, None, file, findings=findings))

    every = Ranks(communicator).each(len(sources), audited, facts({"graphs": Split(sources)}))
    return Audit([_restored(one) for one in tracked(every, "audit", "graph", verbose, len(sources))])


def _restored(found: dict[str, Any]) -> GraphAudit:
    findings = tuple(Finding(**one) for one in found["findings"])
    shift = None if found["shift"] is None else Shift(**found["shift"])
    return GraphAudit(**{**found, "findings": findings, "shift": shift})


def _sources(data: Any, max_bytes: int | None) -> Iterator[Source]:
    if isinstance(data, Graph):
        yield source_of(data)
    elif isinstance(data, (str, bytes, os.PathLike)):
        yield from sources_in(absolute(data), max_bytes, below=True)
    elif isinstance(data, Split):
        yield from data.sources  # whose files are not read now
    elif isinstance(data, Iterable):
        for part in data:
            yield from _sources(part, max_bytes)
    else:
        raise ConfigError(f"audit: expected paths or graphs, found {type(data).__name__}")
