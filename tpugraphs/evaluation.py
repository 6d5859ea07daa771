"""Reports: how well a scorer ranks the configurations of graphs, with bootstrap intervals."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tpugraphs import metrics, tables
from tpugraphs import official as published
from tpugraphs.bootstrap import bootstrap_mean, bootstrap_tau
from tpugraphs.errors import ConfigError, DataError, ShapeError, not_a_graph
from tpugraphs.files import PICTURE_SUFFIXES, REPORT_SUFFIXES, absolute, atomic_write

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Group", "Report", "Row", "bootstrap_tau", "evaluate", "measured_runtimes"]

LAYOUT_METRICS = (
    "tau",
    "tau_order",
    "opa",
    "spearman",
    "slowdown@1",
    "slowdown@5",
    "slowdown@10",
    "slowdown@100",
    "ndcg@10",
)
TILE_METRICS = published.TILE_METRICS
_HEADS = {
    "tau": "tau",
    "tau_order": "tau (order)",
    "opa": "OPA",
    "spearman": "Spearman",
    "slowdown@1": "slow@1",
    "slowdown@5": "slow@5",
    "slowdown@10": "slow@10",
    "slowdown@100": "slow@100",
    "ndcg@10": "nDCG@10",
}
_SHOWN_DIFFERENCE = 5e-5  # two taus that differ less look the same in a table


def measured_runtimes(graph: Any, configs: ArrayLike | None = None) -> NDArray[Any]:
    """Runtimes of a graph that a score may be judged by.

    Parameters
    ----------
    graph : LayoutGraph or TileGraph
    configs : (n,) int, optional
        Rows; all of them if not given.

    Returns
    -------
    (n,) int64 or float64
        Nanoseconds for a layout graph, runtime / normalizer for a tile graph.

    Raises
    ------
    DataError
        The graph has no configurations, or its runtimes are placeholders (the published test files hold zeros
        where the answer would be), or one of `configs` has no positive runtime.
    """
    if not hasattr(graph, "config_runtime"):
        raise not_a_graph("graph", graph)
    runtimes = np.asarray(graph.config_runtime)
    name = getattr(graph, "name", None) or "graph"
    if runtimes.size == 0:
        raise DataError("has no configurations to judge a ranking by", file=name, field="config_runtime")
    try:
        rows = np.arange(runtimes.size)[slice(None) if configs is None else np.asarray(configs)]
    except IndexError as error:
        raise DataError(f"configs: {error}", file=name, field="configs") from None
    if int(runtimes.max()) <= 0:
        raise DataError(
            f"config_runtime: holds placeholders (from {int(runtimes.min())} to {int(runtimes.max())}), "
            "not measurements, so a ranking cannot be judged; use a train or valid file, "
            "or `submit` for a test file",
            file=name,
            field="config_runtime",
            found=f"{int(runtimes.min())}..{int(runtimes.max())}",
            expected="positive nanoseconds",
        )
    bad = rows[runtimes[rows] <= 0]
    if bad.size:
        raise DataError(
            f"config_runtime: config {int(bad[0])} has {int(runtimes[bad[0]])} ns ({bad.size} such in all), "
            "which is no measurement: drop it, with g.select(g.config_runtime > 0)",
            file=name,
            field="config_runtime",
            found=str(int(runtimes[bad[0]])),
            expected="positive nanoseconds",
        )
    normalizers = getattr(graph, "config_runtime_normalizers", None)
    if normalizers is not None:
        divisors = np.asarray(normalizers)
        if int(divisors.min()) <= 0:
            raise DataError(
                f"config_runtime_normalizers: expected positive nanoseconds, found {int(divisors.min())}",
                file=name,
                field="config_runtime_normalizers",
                found=str(int(divisors.min())),
                expected="positive",
            )
        runtimes = runtimes / divisors
    return runtimes if configs is None else runtimes[rows]


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
        names: Sequence[str] | None = None,
    ) -> Row:
        """Compute metrics of scores (n,) against runtimes (n,): those of the kind of graph, or `names`."""
        s, y = np.asarray(scores), np.asarray(runtimes)
        if s.shape != y.shape or s.ndim != 1:
            raise ShapeError(
                f"scores of {graph} by {scorer!r}: expected shape {y.shape}, one per configuration, "
                f"got {s.shape}"
            )
        if s.dtype.kind == "f" and np.isnan(s).any():
            raise DataError(
                f"score {int(np.flatnonzero(np.isnan(s))[0])} by {scorer!r} is NaN; a diverged ranker cannot "
                "be judged, train it with a smaller learning rate",
                file=graph,
                field="scores",
                found="NaN",
                expected="numbers",
            )
        if names is None:
            names = TILE_METRICS if collection.startswith("tile") else LAYOUT_METRICS
        values = {name: _metric(name, s, y) for name in names}
        return cls(graph, collection, scorer, int(s.size), values, s, y)

    @property
    def trivial(self) -> frozenset[str]:
        """Metrics that any order of a tile graph's configs would be perfect in: k is no less than it has."""
        if not self.collection.startswith("tile"):
            return frozenset()
        tops = {name: int(name.partition("@")[2]) for name in self.values if name.startswith("slowdown@")}
        return frozenset(name for name, k in tops.items() if self.configs <= k)


def _metric(name: str, scores: NDArray[Any], runtimes: NDArray[Any]) -> float:
    """One metric by its name."""
    kind, _, k = name.partition("@")
    if kind == "slowdown":
        return metrics.top_k_slowdown(scores, runtimes, int(k))
    if kind == "ndcg":
        return metrics.ndcg(scores, runtimes, int(k))
    if kind == "tau_order":
        order = np.empty(scores.size, np.int64)
        order[np.argsort(scores, kind="stable")] = np.arange(scores.size)
        return metrics.kendall_tau(order, runtimes)
    by_name = {"tau": metrics.kendall_tau, "opa": metrics.opa, "spearman": metrics.spearman}
    return by_name[kind](scores, runtimes)


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
        Metric name to the number of tile graphs with so few configs that any order of them would be perfect.
        They are left out of the mean, unless the report is an official one; a metric that none is left for is
        missing in `values`.
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


class Report:
    """Results per graph, and means per collection and scorer with bootstrap intervals.

    Add reports (``a + b``) to see scorers or collections side by side.

    Parameters
    ----------
    rows : iterable of Row
    draws : int
        Bootstrap samples per interval.
    level : float
        Coverage of the intervals.
    seed : int
        Seed of the bootstrap.
    coverage : Coverage, optional
        Of a report in the published way; see `evaluate`.
    """

    def __init__(
        self,
        rows: Iterable[Row],
        *,
        draws: int = 1000,
        level: float = 0.95,
        seed: int = 0,
        coverage: published.Coverage | None = None,
    ) -> None:
        self.rows: tuple[Row, ...] = tuple(rows)
        self.draws, self.level, self.seed = draws, level, seed
        self.coverage = coverage
        if not self.rows:
            raise ConfigError("a report needs at least one graph; the list of graphs is empty")

    def __add__(self, other: Report) -> Report:
        if not isinstance(other, Report):
            return NotImplemented
        rows, coverage = self.rows + other.rows, None
        if self.coverage and other.coverage:
            judged = ((row.collection, row.graph) for row in rows)
            coverage = published.Coverage.of(judged, self.coverage.not_listed + other.coverage.not_listed)
        return Report(rows, draws=self.draws, level=self.level, seed=self.seed, coverage=coverage)

    def __len__(self) -> int:
        return len(self.rows)

    def __repr__(self) -> str:
        return f"<Report: {len(self.rows)} row{'s' * (len(self.rows) != 1)}>\n{self.table()}"

    @cached_property
    def groups(self) -> tuple[Group, ...]:
        """One per (collection, scorer), in order of appearance."""
        members: dict[tuple[str, str], list[Row]] = {}
        for row in self.rows:
            members.setdefault((row.collection, row.scorer), []).append(row)
        return tuple(self._group(*key, rows) for key, rows in members.items())

    def _group(self, collection: str, scorer: str, rows: Sequence[Row]) -> Group:
        names = [name for name in rows[0].values if all(name in row.values for row in rows)]
        left_out: dict[str, int] = {}
        if self.coverage is None:
            counts = {name: sum(name in row.trivial for row in rows) for name in names}
            left_out = {name: count for name, count in counts.items() if count}
        columns = {
            name: np.array([row.values[name] for row in rows if not left_out or name not in row.trivial])
            for name in names
            if left_out.get(name, 0) < len(rows)
        }
        intervals: dict[str, tuple[float, float]] = {}
        if len(rows) == 1:
            if "tau" in columns:
                intervals["tau"] = bootstrap_tau(
                    rows[0].scores, rows[0].runtimes, draws=self.draws, level=self.level, seed=self.seed
                )
        else:
            intervals = {
                name: bootstrap_mean(values, self.draws, self.level, self.seed)
                for name, values in columns.items()
                if values.size > 1
            }
        return Group(
            collection,
            scorer,
            len(rows),
            sum(row.configs for row in rows),
            {name: float(values.mean()) for name, values in columns.items()},
            intervals,
            "configs" if len(rows) == 1 else "graphs",
            left_out,
        )

    def at_least(self, configs: int) -> Report:
        """Report of the graphs with so many configs, for example 6 where the best of 5 is asked for.

        Raises
        ------
        ConfigError
            There is none.
        """
        rows = [row for row in self.rows if row.configs >= configs]
        if not rows:
            raise ConfigError(f"no graph of this report has {configs} configs")
        return Report(rows, draws=self.draws, level=self.level, seed=self.seed, coverage=self.coverage)

    def mean(self, metric: str = "tau", *, collection: str | None = None, scorer: str | None = None) -> float:
        """Mean of a metric over the collections (each the mean of its graphs), as the competition averages.

        Parameters
        ----------
        metric : str
            A key of `Row.values`, for example ``"tau"`` or ``"slowdown@5"``.
        collection, scorer : str, optional
            Only these.

        Raises
        ------
        ConfigError
            Nothing in the report has that metric, collection and scorer.
        """
        values = [
            group.values[metric]
            for group in self.groups
            if metric in group.values
            and collection in (None, group.collection)
            and scorer in (None, group.scorer)
        ]
        if not values:
            known = sorted({name for row in self.rows for name in row.values})
            raise ConfigError(
                f"no metric {metric!r} for collection {collection!r} and scorer {scorer!r} in this report; "
                f"metrics: {', '.join(known)}"
            )
        return float(np.mean(values))

    # Tables

    def _columns(self, names: Iterable[str], rows: Iterable[Row]) -> list[str]:
        """Metric columns to show: the tau of the order only where ties make it another number."""
        differ = any(
            abs(row.values["tau"] - row.values["tau_order"]) > _SHOWN_DIFFERENCE
            for row in rows
            if "tau_order" in row.values
        )
        return [name for name in names if name != "tau_order" or differ]

    def _sections(
        self, per_graph: bool, only: Sequence[str] | None
    ) -> Iterator[tuple[str, list[str], list[list[str]]]]:
        """Title, column heads and cells of every table; what is the same in all lines goes to the title."""
        for tile, names in ((False, LAYOUT_METRICS), (True, published.TILE_METRICS)):
            rows = [row for row in self.rows if row.collection.startswith("tile") == tile]
            groups = [group for group in self.groups if group.collection.startswith("tile") == tile]
            there = {name for row in rows for name in row.values}
            chosen = [name for name in names if name in there and (only is None or name in only)]
            if not rows or not chosen:
                continue
            shown = chosen if only is not None else self._columns(chosen, rows)
            if per_graph and len(rows) > len(groups):
                lines = [
                    [("collection", row.collection), ("graph", row.graph), ("scorer", row.scorer)]
                    + [("configs", f"{row.configs:,}")]
                    + [
                        (_HEADS[name], _number(name, row.values[name]) + "*" * (name in row.trivial))
                        for name in shown
                        if name in row.values
                    ]
                    for row in rows
                ]
                yield tables.section("", lines)
            lines = []
            for group in groups:
                line = [("collection", group.collection), ("scorer", group.scorer)]
                if group.graphs > 1:
                    line.append(("graphs", str(group.graphs)))
                else:
                    name = next(row.graph for row in rows if row.collection == group.collection)
                    line.append(("graph", name))
                line.append(("configs", f"{group.configs:,}"))
                for place, name in enumerate(shown):
                    if name not in group.values:
                        continue
                    line.append((_HEADS[name], _number(name, group.values[name])))
                    ends = group.intervals.get(name)
                    if place == 0 and ends:
                        text = " … ".join(_number(name, end) for end in ends)
                        line.append((f"{self.level:.0%} interval", text))
                lines.append(line)
            yield tables.section("mean, " if len(rows) > len(groups) else "", lines)

    def _notes(self, only: Sequence[str] | None) -> list[str]:
        """Say what the columns mean, one sentence each."""
        names = {name for row in self.rows for name in self._columns(row.values, self.rows)}
        names &= set(names if only is None else only)
        notes = [] if self.coverage is None else self.coverage.notes()
        if "tau" in names:
            notes.append("tau: Kendall's tau-b of scores and runtimes; 0 is chance, 1 is perfect.")
            if any(row.configs < 2 for row in self.rows if "tau" in row.values):
                notes.append("A graph with one config has no pairs to order: its tau is 0.")
        if "opa" in names and "tau" not in names:
            notes.append("OPA: share of pairs of configs that are in the right order; 0.5 is chance.")
        if "tau_order" in names:
            notes.append("tau (order): tau of the permutation, where equal scores follow their index.")
        if any(name.startswith("slowdown@") for name in names):
            notes.append("slow@k: how much slower than the best is the best of the k first; 0 % is perfect.")
        if any(names & row.trivial for row in self.rows):
            notes.append(
                "*: perfect in any order, as k is not below the number of configs"
                + ("." if self.coverage is not None else "; left out of the mean.")
            )
        over = sorted({group.over for group in self.groups if group.intervals})
        if over:
            notes.append(f"interval: bootstrap over {' or '.join(over)}, {self.draws} draws.")
        return notes

    def table(self, *, per_graph: bool = True, metrics: Sequence[str] | None = None) -> str:
        """Aligned text, for a terminal.

        Parameters
        ----------
        per_graph : bool
            Also list every graph, where there are several.
        metrics : sequence of str, optional
            Only these, for example ``("tau", "slowdown@5")``; all if not given.
        """
        blocks = [tables.text(*table) for table in self._sections(per_graph, metrics)]
        return "\n\n".join([*blocks, "\n".join(self._notes(metrics))])

    def to_markdown(self, *, per_graph: bool = True, metrics: Sequence[str] | None = None) -> str:
        """Tables in Markdown, for a README or an issue; parameters as of `table`."""
        blocks = [tables.markdown(*table) for table in self._sections(per_graph, metrics)]
        return "\n\n".join([*blocks, *self._notes(metrics)]) + "\n"

    def to_dict(self) -> dict[str, Any]:
        """Everything but the scores, as plain Python values."""
        return {
            **({} if self.coverage is None else {"official": self.coverage.to_dict()}),
            "level": self.level,
            "draws": self.draws,
            "seed": self.seed,
            "collections": [
                {
                    "collection": group.collection,
                    "scorer": group.scorer,
                    "graphs": group.graphs,
                    "configs": group.configs,
                    "means": group.values,
                    "intervals": {name: list(pair) for name, pair in group.intervals.items()},
                    "intervals_over": group.over,
                    **({"left_out": group.left_out} if group.left_out else {}),
                }
                for group in self.groups
            ],
            "graphs": [
                {
                    "collection": row.collection,
                    "graph": row.graph,
                    "scorer": row.scorer,
                    "configs": row.configs,
                    **row.values,
                    **({"trivial": sorted(row.trivial)} if row.trivial else {}),
                }
                for row in self.rows
            ],
        }

    def to_json(self) -> str:
        """JSON text of `to_dict`."""
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False) + "\n"

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the report. The suffix decides: ``.json .md .txt .html``, or a picture: ``.png .svg .pdf``.

        Raises
        ------
        ConfigError
            A suffix that is none of these.
        """
        target = Path(absolute(path))
        writers: dict[str, Callable[[], str]] = {
            ".json": self.to_json,
            ".md": self.to_markdown,
            ".txt": lambda: self.table() + "\n",
            ".html": self._repr_html_,
        }
        if target.suffix in writers:
            with atomic_write(target) as file:
                file.write(writers[target.suffix]().encode())
        elif target.suffix in PICTURE_SUFFIXES:
            from tpugraphs import plot

            plot.save(self.plot(), target)
        else:
            raise ConfigError(
                f"{target}: cannot tell the format from {target.suffix!r}; use one of "
                f"{', '.join(REPORT_SUFFIXES)}"
            )

    def _repr_html_(self) -> str:
        blocks = [tables.html(*table) for table in self._sections(True, None)]
        return "".join(blocks) + f"<p><small>{escape(' '.join(self._notes(None)))}</small></p>"

    def plot(self, *, history: Any = None) -> Figure:
        """Picture of the report: predicted against measured rank, and the cost of trying only the first k.

        Parameters
        ----------
        history : History, optional
            Adds the learning curve.

        Returns
        -------
        matplotlib.figure.Figure
        """
        from tpugraphs import plot

        figure: Figure = plot.report(self, history=history)
        return figure


def _number(metric: str, value: float) -> str:
    return f"{value:.2%}" if metric.startswith("slowdown@") else f"{value:.4f}"


def evaluate(
    scorer: Callable[..., ArrayLike] | Mapping[str, Callable[..., ArrayLike]],
    graphs: Any,
    *,
    configs: ArrayLike | None = None,
    official: bool = False,
    name: str = "ranker",
    draws: int = 1000,
    level: float = 0.95,
    seed: int = 0,
    progress: bool = False,
) -> Report:
    """Judge a scorer, or several side by side, on graphs with measured runtimes.

    Parameters
    ----------
    scorer : callable or mapping of name to callable
        ``scorer(graph)`` gives scores (C,), smaller = predicted faster; ``scorer(graph, configs)`` those of
        some rows, if `configs` is given.
    graphs : graph or iterable of graphs
        For example the ``valid`` split of a collection.
    configs : (n,) int, optional
        Judge only these rows; for one graph only.
    official : bool
        Judge in the published way (:mod:`tpugraphs.official`), so that numbers compare with published ones:
        1,000 fixed configs of every valid graph of a layout collection, all configs of tile graphs, and only
        the published metrics. Configs that a list repeats are scored once. Graphs that no list names are left
        out, and the report says so.
    name : str
        What to call a single scorer in the report.
    draws, level, seed
        Of the bootstrap, see `Report`.
    progress : bool
        Show a progress bar on stderr.

    Returns
    -------
    Report

    Raises
    ------
    DataError
        Placeholder runtimes, no configurations, or NaN scores. With `official`: a graph of unknown
        collection, a list that names configs a graph does not have, or no graph that is in a list.
    ConfigError
        `configs` together with several graphs or with `official`, or no graphs.
    """
    single = hasattr(graphs, "config_runtime")
    if not single and (
        isinstance(graphs, (str, bytes, Mapping))
        or not (isinstance(graphs, Iterable) or hasattr(graphs, "__getitem__"))
    ):
        raise ConfigError(
            f"graphs: expected a graph, a list of graphs or a split of a collection, got "
            f"{type(graphs).__name__}"
        )
    if configs is not None and not single:
        raise ConfigError("configs= names rows of one graph; give a single graph, not a list of graphs")
    if official and configs is not None:
        raise ConfigError("give configs= or official=True, not both: the published lists say which configs")
    scorers = dict(scorer) if isinstance(scorer, Mapping) else {name: scorer}
    for who, score in scorers.items():
        if not callable(score):
            raise ConfigError(
                f"scorer {who!r}: expected a function of a graph, such as ranker.predict, got "
                f"{type(score).__name__}"
            )
    sequence: Iterable[Any] = [graphs] if single else graphs
    if progress:
        from tqdm import tqdm

        sequence = tqdm(sequence, desc="evaluate", unit="graph", leave=False)
    rows: list[Row] = []
    not_listed: list[str] = []
    for graph in sequence:
        if not hasattr(graph, "config_runtime"):
            raise not_a_graph("graphs", graph)
        tile = getattr(graph, "config_runtime_normalizers", None) is not None
        collection = getattr(graph, "collection", None) or ("tile" if tile else "layout")
        title = getattr(graph, "name", None) or "graph"
        chosen = published.rows_of(graph) if official else configs
        if official and chosen is None:
            not_listed.append(f"{collection}:{title}")
            continue
        runtimes = measured_runtimes(graph, chosen)
        names = (published.TILE_METRICS if tile else published.LAYOUT_METRICS) if official else None
        for who, score in scorers.items():
            scores = _scores(score, graph, chosen, once=official)
            rows.append(Row.judge(title, collection, who, scores, runtimes, names))
    coverage = None
    if official:
        coverage = published.Coverage.of(((row.collection, row.graph) for row in rows), not_listed)
        if not_listed and not rows:
            raise DataError(
                f"none of these graphs is in the published lists of validation configs: {_some(not_listed)}; "
                "give the valid split of a collection, for example layout:xla:random/valid",
                field="name", expected="a published valid graph", found=not_listed[0],
            )  # fmt: skip
    return Report(rows, draws=draws, level=level, seed=seed, coverage=coverage)


def _scores(score: Callable[..., ArrayLike], graph: Any, configs: Any, *, once: bool) -> ArrayLike:
    """Scores of these configs; those that come several times are asked for once, if told so."""
    if configs is None:
        return score(graph)
    if not once:
        return score(graph, configs)
    if graph.kind == "tile":
        return score(graph)
    distinct, inverse = np.unique(configs, return_inverse=True)
    given = np.asarray(score(graph, distinct))
    if given.shape != distinct.shape:
        return given  # refused by the row, which tells the shapes
    return given[inverse]


def _some(names: Sequence[str]) -> str:
    """Name the first few."""
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
