"""Permutation importance: how much worse a ranker is when values of the graphs are permuted."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tpugraphs.data import Graph, Graphs, Schema
from tpugraphs.errors import ConfigError, DataError
from tpugraphs.evaluation.evaluator import measured_runtimes
from tpugraphs.evaluation.scorer import Scorer, Scores
from tpugraphs.metrics import VALIDATION
from tpugraphs.ranker.conventions import every_graph
from tpugraphs.system import Progress, check_choice, check_whole, counted, tables

PARTS = ("config", "digit", "node", "graph")
_MEMBER = re.compile(r"_(?:\d+|sum|product|true_count|false_count)$")  # of one feature of a node
_ELEMENT = "element_type"
_OPCODE = "opcode"
_CONFIGS = {"config_feat", "node_config_feat"}


class _Feature(NamedTuple):
    """Values that are permuted together: those at an index of a field of the graphs."""

    part: str
    name: str
    field: str
    index: Any = np.s_[:]


@dataclass(frozen=True)
class PartImportance:
    """Importance of one part of the graphs.

    Attributes
    ----------
    part : {"config", "digit", "node", "graph"}
    name : str
        Column of the configs, digit, or group of node features, as the schema calls it.
    drops : tuple of float
        Drop of the metric in every repeat.
    """

    part: str
    name: str
    drops: tuple[float, ...]

    @property
    def mean(self) -> float:
        """Mean of the drops; near 0 if the ranker does not depend on the part."""
        return float(np.mean(self.drops))

    @property
    def sd(self) -> float:
        """Standard deviation of the drops over the repeats, NaN for a single one."""
        return float(np.std(self.drops, ddof=1)) if len(self.drops) > 1 else float("nan")


@dataclass(frozen=True, repr=False)
class Importance:
    """Report of `permutation_importance`.

    Attributes
    ----------
    parts : tuple of PartImportance
        The most important first.
    metric : str
        Metric, greater is better: a key of :data:`tpugraphs.metrics.VALIDATION`.
    baseline : float
        Mean of the metric over the graphs as they are.
    graphs, configs : int
        How many were judged.
    """

    parts: tuple[PartImportance, ...]
    metric: str
    baseline: float
    graphs: int
    configs: int

    def __len__(self) -> int:
        return len(self.parts)

    def __iter__(self) -> Iterator[PartImportance]:
        return iter(self.parts)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON; the deviation of a single repeat is None."""
        parts = []
        for one in self.parts:
            sd = one.sd if len(one.drops) > 1 else None
            parts.append({**vars(one), "drops": list(one.drops), "mean": one.mean, "sd": sd})
        return {**vars(self), "parts": parts}

    def to_frame(self) -> Any:
        """Return a pandas DataFrame with one row per part: part, name, mean and sd of the drop of the metric.

        Raises
        ------
        ConfigError
            pandas is not installed.
        """
        rows = [(one.part, one.name, one.mean, one.sd) for one in self.parts]
        return tables.frame(rows, ("part", "name", "mean", "sd"))

    def table(self, most: int | None = 20) -> str:
        """Return aligned text, for a terminal.

        Parameters
        ----------
        most : int, optional
            Maximum number of parts, the most important first; None: all.

        Returns
        -------
        str
            A line per part, and what a drop means.

        Raises
        ------
        ConfigError
            `most` is not a whole number of at least 1.
        """
        shown = self.parts[: None if most is None else check_whole("most", most, 1)]
        cells = [(one.part, one.name, f"{one.mean:.4f}", f"{one.sd:.4f}") for one in shown]
        left = self.parts[len(shown) :]
        notes = [f"{len(left)} more, with drops of at most {left[0].mean:.4f}"] if left else []
        among = "of configs and digits among configs, of nodes among nodes, of graphs among graphs"
        lower = f"how much lower {self.metric} is ({self.baseline:.4f} as they are)"
        notes.append(f"drop: {lower} when the values of a part are exchanged: {among}")
        return "\n".join([tables.text("", ("part", "name", "drop", "sd"), cells), *notes])

    def __repr__(self) -> str:
        return f"<Importance: {counted(len(self), 'part')}, {counted(self.graphs, 'graph')}>\n{self.table()}"


def permutation_importance(
    scorer: Scorer,
    graphs: Graphs,
    *,
    parts: Sequence[str] | None = None,
    node_groups: Mapping[str, Sequence[str]] | None = None,
    repeats: int = 5,
    configs: int = 1000,
    metric: str | None = None,
    seed: int = 0,
    verbose: bool | None = None,
) -> Importance:
    """Measure what a ranker depends on by permuting the values of one part of the graphs at a time.

    The values of a config column, or of a digit at all nodes, are permuted among the configs of each graph;
    those of a group of node features among its nodes. The new scores are compared with the same runtimes. The
    drop of the metric shows how much the ranking depends on that part (Breiman 2001, for random forests). Two
    parts with the same information share the drop, so each may look unimportant.

    Parameters
    ----------
    scorer : Scorer
        Fitted: a ranker, an ensemble, a baseline.
    graphs : graph or sequence of graphs
        Measured graphs of one schema; graphs that were not learnt from show more.
    parts : sequence of {"config", "digit", "node", "graph"}, optional
        By default all that the graphs have. ``"graph"`` stands for all features of whole graphs together,
        permuted among the graphs.
    node_groups : mapping of str to sequence of str, optional
        Names of columns by group. By default ``shape_dimension_0`` to ``shape_dimension_sum`` are one group,
        and so on; each column of an inferred schema is a group. Opcodes are the group ``"opcode"``.
    repeats : int
        Permutations of every part.
    configs : int
        Maximum number of configs to judge per graph; of more, a random sample is judged.
    metric : str, optional
        A key of :data:`tpugraphs.metrics.VALIDATION`; by default the scorer's.
    seed : int
        The same seed gives the same permutations, whatever else is judged.
    verbose : bool, optional
        Show a progress bar; by default in a terminal or notebook.

    Returns
    -------
    Importance
        The most important part first; ``to_frame()`` makes a table of it.

    Raises
    ------
    ConfigError
        An unknown part or metric, a number out of range, or columns that the schema does not have.
    DataError
        Graphs without runtimes or of different schemas, or that the scorer cannot rank.

    Examples
    --------
    >>> import tpugraphs as tg
    >>> programs = tg.open_collection("options:xla:cpu")
    >>> ranker = tg.Ranker("graph-config", steps=5).fit(programs.train[:4], verbose=False)
    >>> found = tg.permutation_importance(ranker, programs.valid[:2], repeats=2, verbose=False)
    >>> len(found), found.metric
    (52, 'tau')
    """
    check_whole("repeats", repeats, 1)
    check_whole("seed", seed, 0)
    own = getattr(scorer, "metric", "tau")
    metric = check_choice("metric", own if metric is None else metric, VALIDATION)
    parts = PARTS if parts is None else parts
    if isinstance(parts, str) or not parts or not set(parts) <= set(PARTS):
        raise ConfigError(f"parts: expected some of {', '.join(PARTS)}, got {parts!r}")
    check_whole("configs", configs, 2)
    judged = [_sampled(graph, configs, seed) for graph in every_graph("graphs", graphs)]
    for graph in judged[1:]:
        if graph.schema != judged[0].schema:
            expected = "graphs of one schema"
            raise DataError.of("schema", expected, f"another of {graph.name!r}", "judge them apart")
    schema, known = judged[0].schema, getattr(scorer, "schema", None)
    if known is not None and schema.inferred:
        known.check(judged[0])
        schema = known  # the same columns, with names
    features = list(_features(judged, schema, parts, node_groups))
    values = np.empty((len(features), repeats, len(judged)))
    whole = np.empty(len(judged))
    with Progress(values.size, "importance", "exchange", verbose) as bar:
        for i, graph in enumerate(judged):
            times = measured_runtimes(graph)
            whole[i] = VALIDATION[metric](np.asarray(scorer.predict(graph, verbose=False)), times)
            for which, one in enumerate(features):
                for repeat in range(repeats):
                    values[which, repeat, i] = whole[i]
                    key = [seed, repeat, zlib.crc32(f"{one.part} {one.name}".encode())]
                    if changes := _exchanged(judged, i, one, key):
                        scores = np.asarray(_scores(scorer, graph, changes))
                        values[which, repeat, i] = VALIDATION[metric](scores, times)
                    bar.update(1)
    baseline = float(np.mean(whole))
    found = []
    for one, repeated in zip(features, values, strict=True):
        drops = tuple(baseline - float(np.mean(own)) for own in repeated)
        found.append(PartImportance(one.part, one.name, drops))
    found.sort(key=lambda one: -one.mean)
    return Importance(tuple(found), metric, baseline, len(judged), sum(g.num_configs for g in judged))


def _scores(scorer: Scorer, graph: Graph, changes: dict[str, NDArray[Any]]) -> Scores:
    """Score a graph with permuted values; its nodes are prepared once if only configs differ."""
    if changes.keys() <= _CONFIGS and getattr(scorer, "takes_configs", False):
        digits, features = graph.config_digits if graph.schema.digits else None, graph.config_feat
        digits, features = changes.get("node_config_feat", digits), changes.get("config_feat", features)
        given: Any = digits if features is None else features if digits is None else (features, digits)
        return scorer.predict(graph, given, verbose=False)
    return scorer.predict(graph.replace(**changes), verbose=False)


def _sampled(graph: Graph, most: int, seed: int) -> Graph:
    """Return a graph of at most this many configs, all of which ran."""
    rows = graph.ran
    if rows.size > most:
        random = np.random.default_rng([seed, zlib.crc32(graph.name.encode())])
        rows = np.sort(random.permutation(rows)[:most])
    return graph if rows.size == graph.num_configs else graph.select(rows)


def _features(
    graphs: Sequence[Graph], schema: Schema, parts: Sequence[str], given: Mapping[str, Sequence[str]] | None
) -> Iterator[_Feature]:
    """Yield everything that the graphs have."""
    if "config" in parts:
        for place, column in enumerate(schema.config):
            yield _Feature("config", column.name, "config_feat", np.s_[:, place])
    if "digit" in parts and any(graph.num_config_nodes for graph in graphs):
        for place, digit in enumerate(schema.digits):
            yield _Feature("digit", digit.name, "node_config_feat", np.s_[:, :, place])
    if "node" in parts and any(graph.num_nodes > 1 for graph in graphs):
        for name, places in _groups(schema, given).items():
            yield _Feature("node", name, "node_feat", np.s_[:, places])
        if schema.opcodes is not None:
            yield _Feature("node", _OPCODE, "node_opcode")
    if "graph" in parts and schema.graph and len(graphs) > 1:
        yield _Feature("graph", "all", "graph_feat")


def _groups(schema: Schema, given: Mapping[str, Sequence[str]] | None) -> dict[str, list[int]]:
    """Return the places of the columns of every group of node features."""
    places = {column.name: place for place, column in enumerate(schema.node)}
    groups: dict[str, list[int]] = {}
    if given is not None:
        if not isinstance(given, Mapping):
            text = f"node_groups: expected a mapping of names to columns, got {type(given).__name__}"
            raise ConfigError(f"{text}; use {{'mine': ['is_root']}}")
        for group, names in given.items():
            unknown = [name for name in names if name not in places]
            if unknown or isinstance(names, str):
                wrong = names if isinstance(names, str) else unknown[0]
                raise ConfigError(f"node_groups: expected lists of names of node columns, got {wrong!r}")
            groups[group] = [places[name] for name in names]
        return groups
    for name, place in places.items():
        group = name if schema.inferred else _MEMBER.sub("", name)
        groups.setdefault(_ELEMENT if group.startswith(f"{_ELEMENT}_") else group, []).append(place)
    return groups


def _exchanged(graphs: Sequence[Graph], i: int, one: _Feature, key: list[int]) -> dict[str, NDArray[Any]]:
    """Return the permuted values of graph `i` by field; nothing if none of them changes."""
    if one.part == "graph":
        other: Any = graphs[np.random.default_rng(key).permutation(len(graphs))[i]]
        return {"graph_feat": other.graph_feat}
    array = np.array(getattr(graphs[i], "config_digits" if one.part == "digit" else one.field))
    own = array[one.index]
    if (own == own[:1]).all():
        return {}
    array[one.index] = own[np.random.default_rng([*key, i]).permutation(len(own))]
    return {one.field: array}
