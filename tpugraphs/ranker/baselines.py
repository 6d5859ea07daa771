"""Scorers that learn a few arrays; baselines: a random order, a linear model of a graph, mean effects."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from copy import copy
from typing import Any, ClassVar, NamedTuple, Self, Unpack

import numpy as np
from numpy.typing import NDArray

from tpugraphs.data.graph import Graph, Graphs, Rows, Valid
from tpugraphs.data.schema import Schema
from tpugraphs.errors import ConfigError, DataError, check_graph
from tpugraphs.evaluation.evaluator import measured_runtimes
from tpugraphs.evaluation.scorer import PredictOptions
from tpugraphs.metrics import mean_ranks
from tpugraphs.names import KINDS
from tpugraphs.network.network import schema_of
from tpugraphs.network.scoring import as_configs
from tpugraphs.preprocess.checks import check_kind
from tpugraphs.ranker import filekinds
from tpugraphs.ranker.conventions import every_graph, learnable
from tpugraphs.ranker.scorer import ScorerBase
from tpugraphs.system import check_number, check_whole, counted, tensorfile

__all__ = ["LinearBaseline", "MeanEffect", "RandomBaseline", "random_scores"]

Floats = NDArray[np.float64]
HUGE = 1e100  # numbers in files are below it, so that they can be squared


class Array(NamedTuple):
    """One array that a scorer learns.

    Attributes
    ----------
    shape : str
        A letter for each dimension; equal letters are equal sizes.
    dtype : type
    least, most : float or str
        Range of the numbers; a name refers to a limit that depends on the rest of the file.
    rows : int
        Maximum number of rows of a table.
    optional : bool
        Whether it may be missing.
    """

    shape: str
    dtype: Any = np.float64
    least: float = -HUGE
    most: float | str = HUGE
    rows: int = 10**9
    optional: bool = False

    def read(
        self, path: str, name: str, tensors: Mapping[str, NDArray[Any]], sizes: dict[str, int]
    ) -> NDArray[Any]:
        """Read the array from a file, and note sizes not known before; CheckpointError if it is damaged."""
        given = tensors[name].shape if name in tensors else ()
        if len(given) == len(self.shape):
            if len(given) > 1 and not 0 < given[0] <= self.rows:
                expected = f"a table of 1 to {counted(self.rows, 'row')}"
                raise tensorfile.fail(path, name, expected, f"shape {given}")
            sizes.update({**dict(zip(self.shape, given, strict=True)), **sizes})
        array = tensorfile.take(path, tensors, name, tuple(sizes.get(n, 0) for n in self.shape), self.dtype)
        least, most = np.float64(self.least), np.float64(sizes.get(str(self.most), self.most))
        if not ((array >= least) & (array <= most)).all():
            raise tensorfile.fail(path, name, f"numbers from {least:g} to {most:g}", "others")
        return array


class LearntScorer(ScorerBase):
    """Base of scorers that learn a few arrays from graphs of one schema.

    A subclass declares `arrays` and `arguments`, and scores rows in `_scores`. Its `fit` learns on a copy,
    whose state it then takes over.

    Attributes
    ----------
    learnt : dict of str to array
        Empty before a fit.
    schema : Schema
        Of the graphs that it learnt from.
    """

    #: Constructor arguments that are stored in files, with their types.
    arguments: ClassVar[Mapping[str, type | tuple[type, ...]]] = {}
    #: Learnt arrays.
    arrays: ClassVar[Mapping[str, Array]] = {}
    #: Kind of the graphs it scores.
    kind: str = "graph"
    schema: Schema

    def __init__(self) -> None:
        self.learnt: dict[str, NDArray[Any]] = {}

    @property
    def fitted(self) -> bool:
        """Whether it has learnt something."""
        return bool(self.learnt)

    def _become(self, made: Self) -> Self:
        """Take over what a copy has learnt, all at once, so that a fit that fails changes nothing."""
        vars(self).update(vars(made))
        return self

    def predict(
        self, graph: Graph, configs: Rows | None = None, tta: int = 0, **options: Unpack[PredictOptions]
    ) -> Floats:
        """Return scores (n,) of configs of a graph: smaller = predicted faster.

        Parameters
        ----------
        graph, configs, tta, **options
            As for `ScorerBase.predict`; `tta` and `options` have no effect.

        Returns
        -------
        (n,) float64
            In the order of `configs`.

        Raises
        ------
        Error
            Not fitted.
        ConfigError
            Configs that are not rows of the graph.
        DataError
            The graph is of another kind or does not fit the schema.
        """
        self = copy(self)  # one fit, whatever another thread does
        return self._scores(graph, self._rows(graph, configs))

    def _rows(self, graph: Graph, configs: Rows | None) -> NDArray[np.int64]:
        """Return the row numbers (n,), after checking that the graph can be scored."""
        self.require_fit("predict")
        check_kind(graph, self.kind)
        self.schema.check(graph)
        if as_configs(graph, configs) is not None:
            todo = "make a graph of these configs first"
            raise ConfigError(f"configs: expected rows of the graph for {self.name}: {todo}")
        return np.asarray(graph.row_numbers(configs), np.int64)

    @abstractmethod
    def _scores(self, graph: Graph, rows: NDArray[np.int64]) -> Floats:
        """Return scores (n,) of rows (n,) of a graph."""

    def to_file(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return the arguments of the constructor, the schema and what was learnt."""
        self.require_fit("save")
        arguments = {name: getattr(self, name) for name in self.arguments}
        return {"schema": self.schema.to_dict(), **arguments}, dict(self.learnt)

    @classmethod
    def from_file(cls, path: str, metadata: dict[str, Any], tensors: dict[str, NDArray[Any]]) -> Self:
        """Restore what `to_file` returned; CheckpointError if that is damaged."""
        made = filekinds.construct(cls, path, metadata, cls.arguments)
        made._restore(path, metadata, tensors)
        return made

    def _restore(self, path: str, metadata: dict[str, Any], tensors: dict[str, NDArray[Any]]) -> None:
        """Take over schema and arrays from a file."""
        self.schema = schema_of(path, metadata)
        sizes = self._limits(tensors)
        stored = {n: one for n, one in self.arrays.items() if n in tensors or not one.optional}
        self.learnt = {name: one.read(path, name, tensors, sizes) for name, one in stored.items()}

    def _limits(self, tensors: Mapping[str, NDArray[Any]]) -> dict[str, int]:
        """Return sizes that are known before the arrays of a file are read, and limits of their numbers."""
        return {}


_CHUNK = 4096  # rows whose one-hot columns exist at a time
_MAX_COLUMNS = 3000


def random_scores(graph: Graph, configs: Rows | None = None, *, seed: int = 0) -> Floats:
    """Return scores of a random order: a permutation of 0..n-1.

    Parameters
    ----------
    graph : LayoutGraph or TileGraph
    configs : (n,) int, optional
        Rows to score; all if not given.
    seed : int

    Returns
    -------
    (n,) float64

    Raises
    ------
    ConfigError
        A seed that is not a whole number, or is below 0.
    """
    check_graph("graph", graph)
    n = graph.row_numbers(configs).size
    return np.random.default_rng(check_whole("seed", seed, 0)).permutation(n).astype(np.float64)


@filekinds.register("random-baseline")
class RandomBaseline(ScorerBase):
    """Rank in a random order, the same in every call.

    Parameters
    ----------
    seed : int
    kind : {"any", "layout", "tile", "graph"}
        Kind of the graphs it ranks; all members of an ensemble must have the same.
    """

    name = "random"
    #: Kind of the graphs.
    kind: str = "any"

    def __init__(self, seed: int = 0, kind: str = "any") -> None:
        self.seed, self.kind = check_whole("seed", seed, 0), kind

    def predict(
        self, graph: Graph, configs: Rows | None = None, tta: int = 0, **options: Unpack[PredictOptions]
    ) -> Floats:
        """Return scores (n,) of a random order; `tta` and `options` have no effect."""
        return random_scores(graph, configs, seed=self.seed)

    def to_file(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return the seed."""
        return {"seed": self.seed, "graphs": self.kind}, {}

    @classmethod
    def from_file(cls, path: str, metadata: dict[str, Any], tensors: dict[str, NDArray[Any]]) -> Self:
        """Restore what `to_file` returned; CheckpointError if that is damaged."""
        return filekinds.construct(cls, path, metadata, {"seed": int}, kind=_kind_in(path, metadata))


@filekinds.register("linear-baseline")
class LinearBaseline(LearntScorer):
    """Ridge regression of the runtime's rank on the columns of the configuration, for one graph.

    Layout: one column per (configurable node, digit position, value) that occurs in some but not all
    training rows; tile: the 24 numbers, standardised. The target is the rank of the runtime in [0, 1] (mean
    rank for equal runtimes), so the heavy tail of runtimes does not dominate the fit. It uses no features of
    the graph and cannot rank another one.

    Parameters
    ----------
    alpha : float
        Weight of the squared coefficients, per training row.
    """

    name = "linear"
    #: Kind of the graph it was fitted on.
    kind: str = "any"
    arguments: ClassVar = {"alpha": (int, float)}
    arrays: ClassVar = {
        "column": Array("F", np.int64, 0, "columns"),
        "digit": Array("F", np.int64, -1, "digits", optional=True),
        "mean": Array("F"),
        "scale": Array("F", least=1e-100),
        "weight": Array("F"),
    }

    def __init__(self, alpha: float = 1e-4) -> None:
        super().__init__()
        self.alpha = check_number("alpha", alpha, 1e-100, HUGE)

    def fit(  # type: ignore[override]
        self, graph: Graph, configs: Rows | None = None, *, valid: Valid = None
    ) -> LinearBaseline:
        """Fit on measured rows of one graph.

        Parameters
        ----------
        graph : Graph
            With measured runtimes.
        configs : slice, (n,) int or (C,) bool, optional
            Its rows; by default all that ran.
        valid : object
            Not used.

        Returns
        -------
        LinearBaseline
            The instance itself.

        Raises
        ------
        ConfigError
            Configs that are features and digits at once.
        DataError
            Placeholder runtimes, or no configurations.
        """
        check_graph("graph", graph)
        rows = graph.ran if configs is None else graph.row_numbers(configs)
        ranks = mean_ranks(measured_runtimes(graph, rows)) / max(rows.size - 1, 1)
        made = copy(self)
        made.kind, made.schema, made.intercept = graph.kind, graph.schema, float(ranks.mean())
        made.learnt = _columns(graph, rows)
        width = made.learnt["column"].size
        gram, moment = np.zeros((width, width)), np.zeros(width)
        for start in range(0, rows.size, _CHUNK):
            x = made._features(graph, rows[start : start + _CHUNK])
            gram += x.T @ x
            moment += x.T @ (ranks[start : start + _CHUNK] - made.intercept)
        gram[np.diag_indices(width)] += made.alpha * rows.size
        made.learnt["weight"] = np.linalg.solve(gram, moment)
        return self._become(made)

    def _scores(self, graph: Graph, rows: NDArray[np.int64]) -> Floats:
        weight, scores = self.learnt["weight"], np.empty(rows.size)
        for start in range(0, rows.size, _CHUNK):
            part = slice(start, start + _CHUNK)
            scores[part] = self.intercept + self._features(graph, rows[part]) @ weight
        return scores

    def _features(self, graph: Graph, rows: NDArray[np.int64]) -> Floats:
        """Return centred feature columns (rows, width)."""
        column, mean, scale = (self.learnt[name] for name in ("column", "mean", "scale"))
        if "digit" in self.learnt:
            digits = graph.digits_of(rows).reshape(rows.size, -1)
            if column.size and int(column.max()) >= digits.shape[1]:
                raise ConfigError("LinearBaseline was fitted on a graph with more configurable nodes")
            raw = digits[:, column] == self.learnt["digit"]
        else:
            raw = np.asarray(graph.config_feat)[rows][:, column]
        return np.asarray((raw.astype(np.float64) - mean) / scale)

    def to_file(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return what was learnt."""
        metadata, tensors = super().to_file()
        return {"graphs": self.kind, "intercept": self.intercept, **metadata}, tensors

    def _restore(self, path: str, metadata: dict[str, Any], tensors: dict[str, NDArray[Any]]) -> None:
        self.kind = _kind_in(path, metadata)
        self.intercept = float(tensorfile.entry(path, metadata, "intercept", (int, float)))
        if not abs(self.intercept) < HUGE:
            raise tensorfile.fail(path, "intercept", f"a number below {HUGE:g}", f"{self.intercept:g}")
        super()._restore(path, metadata, tensors)

    def _limits(self, tensors: Any) -> dict[str, int]:
        most = max((digit.values for digit in self.schema.digits), default=0)
        any_node = 1 << 62  # the number of nodes is not limited
        columns = any_node if "digit" in tensors else len(self.schema.config)
        return {"columns": columns - 1, "digits": most - 1}


def _columns(graph: Graph, rows: NDArray[np.int64]) -> dict[str, NDArray[Any]]:
    """Return mean, scale and (layout) column number and value of every feature that varies."""
    if graph.config_feat is not None:
        if graph.schema.digits:
            both = f"graph {graph.name!r} has both: use the recipe graph-config"
            raise ConfigError(f"LinearBaseline reads configs as features or as digits, and {both}")
        x = np.asarray(graph.config_feat)[rows].astype(np.float64)
        scale = x.std(axis=0)
        column = np.flatnonzero(scale > 0)
        return {"column": column, "mean": x.mean(axis=0)[column], "scale": scale[column]}
    most = max((digit.values for digit in graph.schema.digits), default=0)
    counts = np.zeros((most + 1, graph.node_config_feat.shape[1] * graph.node_config_feat.shape[2]), np.int64)
    for start in range(0, rows.size, _CHUNK):
        digits = graph.digits_of(rows[start : start + _CHUNK])
        for value in range(-1, most):
            counts[value + 1] += (digits == value).sum(axis=0).ravel()
    share = counts / max(rows.size, 1)
    spread = share * (1 - share)
    best = np.argsort(-spread, axis=None, kind="stable")[:_MAX_COLUMNS]
    best = np.sort(best[spread.ravel()[best] > 0])
    places, column = np.unravel_index(best, spread.shape)
    own = {"column": column, "mean": share[places, column], "scale": np.ones(column.size)}
    return own | {"digit": places - 1}


def _kind_in(path: str, metadata: dict[str, Any]) -> str:
    """Return the kind of graphs that a file names, or raise CheckpointError."""
    kind: str = tensorfile.entry(path, metadata, "graphs", str)
    if kind not in KINDS:
        raise tensorfile.fail(path, "graphs", f"one of {', '.join(KINDS)}", repr(kind)[:80])
    return kind


@filekinds.register("mean-effect")
class MeanEffect(LearntScorer):
    """Rank configs by their mean effect on other programs.

    The effect of a config on a program is ln(runtime / geometric mean of the program's runtimes). Configs are
    equal if all their features are. Programs must share configs, as those that :func:`tpugraphs.xla.collect`
    measures with compiler options do. A config that was never measured scores 0, the average effect. The
    program itself is not used.
    """

    name = "mean effect"
    arrays: ClassVar = {"configs": Array("CT", np.float32), "effects": Array("C")}

    def fit(self, train: Graphs, valid: Valid = None) -> Self:
        """Average the effects over graphs. `valid` is not used, unless it is y (runtimes).

        Raises
        ------
        DataError
            A graph without features of configs, without runtimes or of another schema.
        """
        made, tables, effects = copy(self), list[NDArray[np.float32]](), list[Floats]()
        for graph in every_graph("train", learnable(train, valid)[0]):
            table = feature_table(graph)
            if not tables:
                made.schema = graph.schema
            made.schema.check(graph, runtimes=True)
            logs = np.log(measured_runtimes(graph, graph.ran))
            tables.append(table[graph.ran])
            effects.append(logs - logs.mean())
        every = np.concatenate(tables)
        configs, which, counts = np.unique(every, axis=0, return_inverse=True, return_counts=True)
        sums = np.bincount(which.ravel(), np.concatenate(effects))
        made.learnt = {"configs": configs, "effects": sums / counts}
        return self._become(made)

    def _scores(self, graph: Graph, rows: NDArray[np.int64]) -> Floats:
        known, table = self.learnt["configs"], feature_table(graph)[rows]
        distinct, which = np.unique(np.concatenate([known, table]), axis=0, return_inverse=True)
        effects = np.zeros(len(distinct))
        effects[which.ravel()[: len(known)]] = self.learnt["effects"]
        return effects[which.ravel()[len(known) :]]

    def _limits(self, tensors: Any) -> dict[str, int]:
        return {"T": len(self.schema.config)}


def feature_table(graph: Graph, todo: str = "give programs that share configs") -> NDArray[np.float32]:
    """Return configs (C, T) that are features alone, with -0 replaced by 0; DataError for digits."""
    if graph.config_feat is None or graph.schema.digits:
        expected = "configs that are features and nothing else"
        raise DataError.of("config_feat", expected, "digits of nodes", todo, file=str(graph.name))
    table: NDArray[np.float32] = graph.config_feat + np.float32(0)
    return table
