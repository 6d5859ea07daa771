"""Reports: metrics of scorers on graphs with bootstrap intervals, as tables, JSON and pictures."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tpugraphs import metrics
from tpugraphs.errors import ConfigError, DataError, ShapeError
from tpugraphs.evaluation import official as published
from tpugraphs.evaluation import plot
from tpugraphs.evaluation.bootstrap import bootstrap_mean, bootstrap_tau
from tpugraphs.names import KINDS, kind_named
from tpugraphs.system import check_share, counted, few, json_text, tables
from tpugraphs.system.files import PICTURE_SUFFIXES, REPORT_SUFFIXES, absolute, write_whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Metrics of a report of layouts, and of graphs of any schema.
LAYOUT_METRICS = kind_named("layout").judged_by
#: Metrics of a report of tiles, as published.
TILE_METRICS = kind_named("tile").judged_by
HEADS = {"tau_order": "tau (order)", "opa": "OPA", "spearman": "Spearman", "ndcg@10": "nDCG@10"}
_METRICS: dict[str, Callable[..., float]] = {
    "tau": metrics.kendall_tau,
    "opa": metrics.opa,
    "spearman": metrics.spearman,
    "slowdown": metrics.top_k_slowdown,
    "ndcg": metrics.ndcg,
}
SHOWN_DIFFERENCE = 5e-5  # two taus that differ less look the same in a table


def _is_tile(judged: Row | Group) -> bool:
    """Whether tile graphs were judged."""
    return kind_named(judged.collection) == KINDS["tile"]


@dataclass(frozen=True)
class Row:
    """Result of one scorer on one graph.

    Attributes
    ----------
    graph, collection, scorer : str
    configs : int
        Configurations judged.
    values : dict
        Metric name to value.
    scores, runtimes : (configs,) arrays
        What was judged; runtimes of tile graphs are divided by their normalizers.
    """

    graph: str
    collection: str
    scorer: str
    configs: int
    values: dict[str, float]
    scores: NDArray[Any] = field(repr=False, compare=False)
    runtimes: NDArray[Any] = field(repr=False, compare=False)

    @classmethod
    def judge(
        cls,
        graph: str,
        collection: str,
        scorer: str,
        scores: ArrayLike,
        runtimes: ArrayLike,
        names: Sequence[str] = (),
    ) -> Row:
        """Compute metrics of scores against runtimes.

        Parameters
        ----------
        graph, collection, scorer : str
            Names in the row.
        scores, runtimes : (n,) array
            Smaller scores mean predicted faster.
        names : sequence of str, optional
            Metrics; those of the kind of graph if there are none.

        Returns
        -------
        Row
            With the metrics in `values`.

        Raises
        ------
        ShapeError
            Not as many scores as runtimes.
        DataError
            A score is NaN.
        """
        s, y = np.asarray(scores), np.asarray(runtimes)
        if s.shape != y.shape or s.ndim != 1:
            expected = f"expected shape {y.shape}, one per configuration, got {s.shape}"
            raise ShapeError(f"scores of {graph} by {scorer!r}: {expected}")
        if s.dtype.kind == "f" and np.isnan(s).any():
            todo = "a diverged ranker cannot be judged, train it with a smaller learning rate"
            text = f"score {int(np.isnan(s).argmax())} by {scorer!r} is NaN; {todo}"
            raise DataError(text, file=graph, field="scores", found="NaN", expected="numbers")
        values = {name: _metric(name, s, y) for name in names or kind_named(collection).judged_by}
        return cls(graph, collection, scorer, int(s.size), values, s, y)

    tile = property(_is_tile)

    @property
    def trivial(self) -> frozenset[str]:
        """Metrics that are perfect for any order of a tile graph's configs, because it has at most k."""
        tops = [name for name in self.values if name.startswith("slowdown@")] if self.tile else []
        return frozenset(name for name in tops if self.configs <= int(name.partition("@")[2]))


def _metric(name: str, scores: NDArray[Any], runtimes: NDArray[Any]) -> float:
    """Compute a metric by its name."""
    kind, _, k = name.partition("@")
    if kind == "tau_order":
        kind, scores = "tau", scores.argsort(kind="stable").argsort()
    return _METRICS[kind](scores, runtimes, *([int(k)] if k else []))


@dataclass(frozen=True)
class Group:
    """Mean of one scorer over the graphs of one collection.

    Attributes
    ----------
    collection, scorer : str
    graphs, configs : int
        How many graphs, and configurations in all.
    values, intervals : dict
        Metric name to mean, and to its bootstrap interval (low, high).
    left_out : dict
        Metric name -> number of tile graphs with so few configs that any order of them would be perfect. They
        are left out of the mean, except in an official report. A metric without any graph is missing in
        `values`.
    over : str
        What was redrawn for the intervals: ``"configs"`` (one graph; tau only) or ``"graphs"``.
    """

    collection: str
    scorer: str
    graphs: int
    configs: int
    values: dict[str, float]
    intervals: dict[str, tuple[float, float]]
    over: str
    left_out: dict[str, int] = field(default_factory=dict)

    tile = property(_is_tile)


@dataclass(eq=False, repr=False)
class Report:
    """Results per graph, and means per collection and scorer with bootstrap intervals.

    Add reports (``a + b``) to see scorers or collections side by side.

    Parameters
    ----------
    rows : sequence of Row
    draws : int
        Bootstrap samples per interval.
    level : float
        Coverage of the intervals.
    seed : int
        Seed of the bootstrap.
    coverage : Coverage, optional
        What a report by the published protocol covers; see `evaluate`.
    known : sequence of str
        Names of graphs that the scorer was trained on.
    """

    rows: Sequence[Row]
    _: KW_ONLY
    draws: int = 1000
    level: float = 0.95
    seed: int = 0
    coverage: published.Coverage | None = None
    known: Sequence[str] = ()

    def __post_init__(self) -> None:
        self.rows = tuple(self.rows)
        if not self.rows:
            raise ConfigError("a report needs at least one graph; the list of graphs is empty")
        check_share("level", self.level, 0.95)

    def __add__(self, other: Report) -> Report:
        if not isinstance(other, Report):
            return NotImplemented
        rows, coverage = [*self.rows, *other.rows], None
        if self.coverage and other.coverage:
            judged = ((row.collection, row.graph) for row in rows)
            coverage = published.Coverage.of(judged, self.coverage.not_listed + other.coverage.not_listed)
        known = tuple(dict.fromkeys([*self.known, *other.known]))
        return replace(self, rows=rows, coverage=coverage, known=known)

    def __len__(self) -> int:
        return len(self.rows)

    def __repr__(self) -> str:
        return f"<Report: {counted(len(self.rows), 'row')}>\n{self.table()}"

    def _settings(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("level", "draws", "seed")}

    @cached_property
    def groups(self) -> tuple[Group, ...]:
        """One per (collection, scorer), in order of appearance."""
        members: dict[tuple[str, str], list[Row]] = {}
        for row in self.rows:
            members.setdefault((row.collection, row.scorer), []).append(row)
        return tuple(self._group(*key, rows) for key, rows in members.items())

    def _group(self, collection: str, scorer: str, rows: Sequence[Row]) -> Group:
        values: dict[str, float] = {}
        intervals: dict[str, tuple[float, float]] = {}
        left_out: dict[str, int] = {}
        one, bootstrap = rows[0], self._settings()
        for name in one.values:
            if any(name not in row.values for row in rows):
                continue
            judged = [row for row in rows if self.coverage is not None or name not in row.trivial]
            if len(judged) < len(rows):
                left_out[name] = len(rows) - len(judged)
            if judged:
                column = np.array([row.values[name] for row in judged])
                values[name] = float(column.mean())
            if len(judged) > 1:
                intervals[name] = bootstrap_mean(column, **bootstrap)
            elif len(rows) == 1 and name == "tau":
                intervals[name] = bootstrap_tau(one.scores, one.runtimes, **bootstrap)
        over = "configs" if len(rows) == 1 else "graphs"
        configs = sum(row.configs for row in rows)
        return Group(collection, scorer, len(rows), configs, values, intervals, over, left_out)

    def at_least(self, configs: int) -> Report:
        """Return the report of the graphs with at least this many configs, for example 6 for the best of 5.

        Parameters
        ----------
        configs : int
            How many.

        Returns
        -------
        Report
            Of these graphs.

        Raises
        ------
        ConfigError
            No graph has that many.
        """
        rows = [row for row in self.rows if row.configs >= configs]
        if not rows:
            raise ConfigError(f"no graph of this report has {counted(configs, 'config')}")
        return replace(self, rows=rows)

    def mean(self, metric: str = "tau", *, collection: str | None = None, scorer: str | None = None) -> float:
        """Return the mean of a metric over collections, each the mean of its graphs, as the competition does.

        Parameters
        ----------
        metric : str
            A key of `Row.values`, for example ``"tau"`` or ``"slowdown@5"``.
        collection, scorer : str, optional
            Only these.

        Returns
        -------
        float
            In the unit of the metric; a slowdown of 0.1 is 10 %.

        Raises
        ------
        ConfigError
            Nothing in the report has that metric, collection and scorer.
        """
        asked = {"collection": collection, "scorer": scorer}
        groups = [g for g in self.groups if all(name in (None, getattr(g, of)) for of, name in asked.items())]
        values = [group.values[metric] for group in groups if metric in group.values]
        if not values:
            where = "".join(f" of {of} {name!r}" for of, name in asked.items() if name is not None)
            known = {f"{of}s": dict.fromkeys(getattr(g, of) for g in self.groups) for of in asked}
            known = {"metrics": dict.fromkeys(sorted({n for row in self.rows for n in row.values})), **known}
            there = "; ".join(f"{what}: {', '.join(names)}" for what, names in known.items())
            raise ConfigError(f"no metric {metric!r}{where} in this report; {there}")
        return float(np.mean(values))

    # Tables

    def _names(self, only: Sequence[str] | None = None) -> set[str]:
        """Return the metrics to show: tau of the order only if asked for, or if ties make it differ."""
        names = {name for row in self.rows for name in row.values}
        if only is not None:
            known = list(dict.fromkeys((*LAYOUT_METRICS, *TILE_METRICS)))
            if isinstance(only, str) or not set(only) <= set(known):
                raise ConfigError(f"metrics: expected a list of some of {', '.join(known)}, got {only!r}")
            return names & set(only)
        gaps = [abs(v["tau"] - v["tau_order"]) for v in (row.values for row in self.rows) if "tau_order" in v]
        return names if max(gaps, default=0) > SHOWN_DIFFERENCE else names - {"tau_order"}

    def _sections(self, per_graph: bool, only: Sequence[str] | None) -> Iterator[tables.Section]:
        """Yield title, heads and cells of every table; values that are equal in all lines go to the title."""
        for names in dict.fromkeys(kind.judged_by for kind in KINDS.values()):
            rows = [row for row in self.rows if kind_named(row.collection).judged_by == names]
            groups = [group for group in self.groups if kind_named(group.collection).judged_by == names]
            there = {name for row in rows for name in row.values} & self._names(only)
            if not (shown := [name for name in names if name in there]):
                continue
            several = len(rows) > len(groups)
            if per_graph and several:
                lines = [
                    _named(row, _ROW) | {"configs": f"{row.configs:,}"} | _cells(row, shown, row.trivial)
                    for row in rows
                ]
                yield tables.section("", lines)
            yield tables.section("mean, " if several else "", [self._group_line(g, shown) for g in groups])

    def _group_line(self, group: Group, shown: Sequence[str]) -> dict[str, str]:
        """Return the cells of a group; the interval follows the first metric."""
        line = {"collection": group.collection, "scorer": group.scorer}
        if group.graphs > 1:
            line["graphs"] = str(group.graphs)
        else:
            key = (group.collection, group.scorer)
            line["graph"] = next(row.graph for row in self.rows if (row.collection, row.scorer) == key)
        line |= {"configs": f"{group.configs:,}", **_cells(group, shown[:1])}
        if interval := group.intervals.get(shown[0]):
            line[f"{self.level:.0%} interval"] = " … ".join(_number(shown[0], end) for end in interval)
        return line | _cells(group, shown[1:])

    def _notes(self, only: Sequence[str] | None) -> list[str]:
        """Return what the columns mean, one sentence each."""
        names, left_out = self._names(only), "." if self.coverage else "; left out of the mean."
        over = " or ".join(sorted({group.over for group in self.groups if group.intervals}))
        single = any(row.configs < 2 for row in self.rows if "tau" in row.values)
        slow = any(name.startswith("slowdown@") for name in names)
        trivial = any(names & row.trivial for row in self.rows)
        alone, order = "opa" in names and "tau" not in names, "tau_order" in names
        learnt = f"{counted(len(self.known), 'graph')} ({few(self.known, 3)})"
        notes = [
            (self.known, f"Learnt from {learnt}: this shows what is remembered, not how others are ranked."),
            ("tau" in names, "tau: Kendall's tau-b of scores and runtimes; 0 is chance, 1 is perfect."),
            ("tau" in names and single, "A graph with one config has no pairs to order: its tau is 0."),
            (alone, "OPA: share of pairs of configs that are in the right order; 0.5 is chance."),
            (order, "tau (order): tau of the permutation, where equal scores follow their index."),
            (slow, "slow@k: how much slower than the best is the best of the k first; 0 % is perfect."),
            (trivial, f"*: perfect in any order, as k is not below the number of configs{left_out}"),
            (over, f"interval: bootstrap over {over}, {counted(self.draws, 'draw')}."),
        ]
        covered = [] if self.coverage is None else self.coverage.notes()
        return covered + [note for shown, note in notes if shown]

    def table(self, *, per_graph: bool = True, metrics: Sequence[str] | None = None) -> str:
        """Return aligned text, for a terminal.

        Parameters
        ----------
        per_graph : bool
            Also list every graph, where there are several.
        metrics : sequence of str, optional
            Only these, for example ``("tau", "slowdown@5")``; all if not given.

        Returns
        -------
        str
            Tables, and notes below.

        Raises
        ------
        ConfigError
            `metrics` names another one.
        """
        blocks = [tables.text(*table) for table in self._sections(per_graph, metrics)]
        return "\n\n".join([*blocks, "\n".join(self._notes(metrics))])

    def to_markdown(self, *, per_graph: bool = True, metrics: Sequence[str] | None = None) -> str:
        """Return tables in Markdown, for a README or an issue.

        Parameters
        ----------
        per_graph, metrics
            Those of `table`.

        Returns
        -------
        str
            Ends in a line break.

        Raises
        ------
        ConfigError
            `metrics` names another one.
        """
        blocks = [tables.markdown(*table) for table in self._sections(per_graph, metrics)]
        return "\n\n".join([*blocks, *self._notes(metrics)]) + "\n"

    def to_dict(self) -> dict[str, Any]:
        """Return everything but the scores, as plain Python values."""
        official = None if self.coverage is None else self.coverage.to_dict()
        groups = [
            {
                **_named(group, _GROUP),
                "means": group.values,
                "intervals": {name: list(pair) for name, pair in group.intervals.items()},
                "intervals_over": group.over,
                **_filled(left_out=group.left_out),
            }
            for group in self.groups
        ]
        rows = [
            {**_named(row, _ROW), **row.values, **_filled(trivial=sorted(row.trivial))} for row in self.rows
        ]
        top = {**_filled(official=official, learnt_from=list(self.known)), **self._settings()}
        return {**top, "collections": groups, "graphs": rows}

    def to_frame(self, means: bool = False) -> Any:
        """Return a pandas DataFrame with one row per graph and scorer, and one column per metric.

        Parameters
        ----------
        means : bool
            One row per collection and scorer instead: `graphs` and `configs` judged, the means of the
            metrics, and the ends of their bootstrap intervals as ``tau_low``, ``tau_high``.

        Returns
        -------
        pandas.DataFrame
            Of one row each.

        Raises
        ------
        ConfigError
            pandas is not installed.
        """
        if not means:
            return tables.frame({**_named(row, _ROW), **row.values} for row in self.rows)
        rows = []
        for group in self.groups:
            rows.append({**_named(group, _GROUP), **group.values})
            for name, (low, high) in group.intervals.items():
                rows[-1] |= {f"{name}_low": low, f"{name}_high": high}
        return tables.frame(rows)

    def to_json(self) -> str:
        """Return `to_dict` as JSON text."""
        return json_text(self.to_dict()) + "\n"

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the report. The suffix decides: ``.json .md .txt .html``, or a picture: ``.png .svg .pdf``.

        Parameters
        ----------
        path : path
            Where it is written.

        Raises
        ------
        ConfigError
            Another suffix.
        """
        target = Path(absolute(path))
        writers: dict[str, Callable[[], str]] = {
            ".json": self.to_json,
            ".md": self.to_markdown,
            ".txt": lambda: self.table() + "\n",
            ".html": self._repr_html_,
        }
        if target.suffix in writers:
            write_whole(target, writers[target.suffix]())
        elif target.suffix in PICTURE_SUFFIXES:
            plot.save(self.plot(), target)
        else:
            text = f"{target}: cannot tell the format from {target.suffix!r}"
            raise ConfigError(f"{text}; use one of {', '.join(REPORT_SUFFIXES)}")

    def _repr_html_(self) -> str:
        blocks = [tables.html(*table) for table in self._sections(True, None)]
        return "".join(blocks) + f"<p><small>{escape(' '.join(self._notes(None)))}</small></p>"

    def plot(self, *, history: plot.Curves | None = None) -> Figure:
        """Draw predicted against measured rank, and the cost of trying only the first k.

        Parameters
        ----------
        history : History, optional
            Adds the learning curve.

        Returns
        -------
        matplotlib.figure.Figure
        """
        return plot.report(self, history=history)


_ROW = ("collection", "graph", "scorer", "configs")
_GROUP = ("collection", "scorer", "graphs", "configs")


def _named(one: Row | Group, names: Sequence[str]) -> dict[str, Any]:
    return {name: getattr(one, name) for name in names}


def _filled(**entries: Any) -> dict[str, Any]:
    return {name: value for name, value in entries.items() if value}


def _cells(one: Row | Group, shown: Sequence[str], marked: Collection[str] = ()) -> dict[str, str]:
    """Return metrics by the heads of their columns; a star marks what is perfect in any order."""
    there = [name for name in shown if name in one.values]
    return {_head(name): _number(name, one.values[name]) + "*" * (name in marked) for name in there}


def _head(metric: str) -> str:
    return HEADS.get(metric, metric.replace("slowdown", "slow"))


def _number(metric: str, value: float) -> str:
    return f"{value:.2%}" if metric.startswith("slowdown@") else f"{value:.4f}"
