"""What a ranker looks at: how much worse it ranks when the values of a part of the graphs are exchanged."""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tpugraphs.data.graph import Graph, Graphs
from tpugraphs.data.schema import Schema
from tpugraphs.errors import ConfigError, DataError
from tpugraphs.evaluation.evaluator import measured_runtimes
from tpugraphs.metrics import VALIDATION
from tpugraphs.ranker.scorer import Scorer
from tpugraphs.system import tables
from tpugraphs.system.arguments import check_whole
from tpugraphs.system.progress import Progress
from tpugraphs.system.words import counted
from tpugraphs.training.trainset import as_graphs

__all__ = ["PARTS", "Importance", "PartImportance", "permutation_importance"]

PARTS = ("config", "digit", "node", "graph")
_MEMBER = re.compile(r"_(?:\d+|sum|product|true_count|false_count)$")  # of one feature of a node
_ELEMENT = "element_type"
_OPCODE = "opcode"
Exchange = Callable[[Graph, np.random.Generator], Graph]


@dataclass(frozen=True)
class PartImportance:
    """How much of the metric a part of the graphs carries.

    Attributes
    ----------
    part : {"config", "digit", "node", "graph"}
    name : str
        Column of the configs, digit, or group of node features, as the schema calls it.
    drops : tuple of float
        By how much the metric was lower, for every repeat.
    """

    part: str
    name: str
    drops: tuple[float, ...]

    @property
    def mean(self) -> float:
        """Mean of the drops: near 0, the ranker does without; negative, by chance or because it misleads."""
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
        What was judged by, greater is better: a key of :data:`tpugraphs.metrics.VALIDATION`.
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
        parts = [
            {**vars(one), "drops": list(one.drops), "mean": one.mean,
             "sd": one.sd if len(one.drops) > 1 else None}
            for one in self.parts
        ]  # fmt: skip
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
            Number of parts at most, the most important first; None: all.

        Returns
        -------
        str
            A line per part, and what a drop is.

        Raises
        ------
        ConfigError
            `most` is not a whole number of at least 1.
        """
        if most is not None:
            check_whole("most", most, 1)
        lines = [
            [("part", one.part), ("name", one.name), ("drop", f"{one.mean:.4f}"), ("sd", f"{one.sd:.4f}")]
            for one in self.parts[:most]
        ]
        _, heads, cells = tables.section("", lines)
        left = len(self.parts) - len(lines)
        notes = [f"{left} more, with drops of at most {self.parts[len(lines)].mean:.4f}"] if left else []
        notes.append(
            f"drop: how much lower {self.metric} is ({self.baseline:.4f} as they are) when the values of a "
            "part are exchanged: of configs and digits among configs, of nodes among nodes, of graphs among "
            "graphs"
        )
        return "\n".join([tables.text("", heads, cells), *notes])

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
    """Tell what a ranker looks at, by exchanging the values of one part of the graphs at a time.

    The values of a column of the configs, or of a digit at all nodes, are exchanged among the configs of each
    graph; those of a group of node features among its nodes. Scores are then compared with the runtimes as
    before. The drop of the metric says how much of the ranking hangs on that part (Breiman 2001, for random
    forests). Two parts that say the same share the drop, so that each may look unimportant.

    Parameters
    ----------
    scorer : Scorer
        Fitted: a ranker, an ensemble, a baseline.
    graphs : graph or sequence of graphs
        Measured graphs of one schema; graphs that were not learnt from say more.
    parts : sequence of {"config", "digit", "node", "graph"}, optional
        By default all that the graphs have. ``"graph"`` are all features of whole graphs together, exchanged
        among the graphs.
    node_groups : mapping of str to sequence of str, optional
        Names of columns by group. By default ``shape_dimension_0`` to ``shape_dimension_sum`` are one group,
        and so on; columns of an inferred schema are groups of their own. Opcodes are the group ``"opcode"``.
    repeats : int
        Exchanges of every part.
    configs : int
        Configs of each graph that are judged, at most: a sample.
    metric : str, optional
        A key of :data:`tpugraphs.metrics.VALIDATION`; by default the scorer's.
    seed : int
        The same seed gives the same exchanges, whatever else is judged.
    verbose : bool, optional
        Show a progress bar; by default in a terminal or notebook.

    Returns
    -------
    Importance
        The most important part first; ``to_frame()`` makes a table of it.

    Raises
    ------
    ConfigError
        Another part, metric or number, or columns that the schema does not have.
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
    metric = getattr(scorer, "metric", "tau") if metric is None else metric
    if metric not in VALIDATION:
        raise ConfigError(f"metric: expected one of {', '.join(VALIDATION)}, got {metric!r}")
    parts = PARTS if parts is None else parts
    if isinstance(parts, str) or not parts or not set(parts) <= set(PARTS):
        raise ConfigError(f"parts: expected some of {', '.join(PARTS)}, got {parts!r}")
    listed = as_graphs("graphs", graphs)
    judged = [_sampled(listed[i], check_whole("configs", configs, 2), seed) for i in range(len(listed))]
    for graph in judged[1:]:
        if graph.schema != judged[0].schema:
            expected = "graphs of one schema"
            raise DataError.of("schema", expected, f"another of {graph.name!r}", "judge them apart")
    schema, known = judged[0].schema, getattr(scorer, "schema", None)
    if known is not None and schema.inferred:
        known.check(judged[0])
        schema = known  # the same columns, with names
    features = list(_features(judged, schema, parts, node_groups))
    times = [measured_runtimes(graph) for graph in judged]

    def value(graph: Graph, i: int) -> float:
        return float(VALIDATION[metric](np.asarray(scorer.predict(graph, verbose=False)), times[i]))

    whole = [value(graph, i) for i, graph in enumerate(judged)]

    def judge(changed: Sequence[Graph]) -> float:
        pairs = enumerate(zip(changed, judged, strict=True))
        return float(np.mean([whole[i] if new is old else value(new, i) for i, (new, old) in pairs]))

    baseline, found = float(np.mean(whole)), []
    with Progress(len(features) * repeats, "importance", "exchange", verbose) as bar:
        for part, name, exchange in features:
            drops = []
            for repeat in range(repeats):
                key = [seed, repeat, zlib.crc32(f"{part} {name}".encode())]
                drops.append(baseline - judge(_exchanged(judged, part, exchange, key)))
                bar.update(1)
            found.append(PartImportance(part, name, tuple(drops)))
    found.sort(key=lambda one: -one.mean)
    return Importance(tuple(found), metric, baseline, len(judged), sum(g.num_configs for g in judged))


def _sampled(graph: Graph, most: int, seed: int) -> Graph:
    """Return a graph of at most this many configs, all of which ran."""
    rows = graph.ran
    if rows.size > most:
        random = np.random.default_rng([seed, zlib.crc32(graph.name.encode())])
        rows = np.sort(random.permutation(rows)[:most])
    return graph if rows.size == graph.num_configs else graph.select(rows)


def _exchanged(graphs: Sequence[Graph], part: str, exchange: Exchange, key: list[int]) -> list[Graph]:
    """Return the graphs with the values of one part exchanged."""
    if part == "graph":
        order = np.random.default_rng(key).permutation(len(graphs))
        return [
            graph.replace(graph_feat=graphs[i].graph_feat) for graph, i in zip(graphs, order, strict=True)
        ]
    return [exchange(graph, np.random.default_rng([*key, i])) for i, graph in enumerate(graphs)]


def _features(
    graphs: Sequence[Graph],
    schema: Schema,
    parts: Sequence[str],
    given: Mapping[str, Sequence[str]] | None,
) -> Iterator[tuple[str, str, Exchange]]:
    """Yield part, name and what exchanges the values, of everything that the graphs have."""
    if "config" in parts:
        for place, column in enumerate(schema.config):
            yield "config", column.name, _columns("config_feat", [place])
    if "digit" in parts and any(graph.num_config_nodes for graph in graphs):
        for place, digit in enumerate(schema.digits):
            yield "digit", digit.name, _digit(place)
    if "node" in parts and any(graph.num_nodes > 1 for graph in graphs):
        for name, places in _groups(schema, given).items():
            yield "node", name, _columns("node_feat", places)
        if schema.opcodes is not None:
            yield "node", _OPCODE, _opcode
    if "graph" in parts and schema.graph and len(graphs) > 1:
        yield "graph", "all", lambda graph, random: graph


def _groups(schema: Schema, given: Mapping[str, Sequence[str]] | None) -> dict[str, list[int]]:
    """Places of the columns of every group of node features."""
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


def _columns(field: str, places: Sequence[int]) -> Exchange:
    """Exchange columns among the rows of features, together."""

    def exchange(graph: Graph, random: np.random.Generator) -> Graph:
        array: NDArray[np.float32] = getattr(graph, field).copy()
        own = array[:, places]
        if (own == own[:1]).all():
            return graph
        array[:, places] = own[random.permutation(len(own))]
        return graph.replace(**{field: array})

    return exchange


def _digit(place: int) -> Exchange:
    """Exchange a digit among the configs, at all nodes together."""

    def exchange(graph: Graph, random: np.random.Generator) -> Graph:
        digits = np.array(graph.config_digits)
        if (digits[:, :, place] == digits[:1, :, place]).all():
            return graph
        digits[:, :, place] = digits[random.permutation(len(digits)), :, place]
        return graph.replace(node_config_feat=digits)

    return exchange


def _opcode(graph: Graph, random: np.random.Generator) -> Graph:
    """Exchange opcodes among the nodes."""
    assert graph.node_opcode is not None  # else there is no such part
    return graph.replace(node_opcode=random.permutation(graph.node_opcode))
