"""Boosted trees in place of a network, for recipes with ``estimator="trees"`` or ``"tree-pairs"``.

LightGBM grows them. The core reads and checks the text that LightGBM writes, and scores. So a ranker that is
fitted or read from a file no longer needs LightGBM.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tpugraphs import _core, kernels, metrics
from tpugraphs.data.graph import Graph, Graphs, Rows, Valid
from tpugraphs.data.identity import known_as
from tpugraphs.data.schema import Schema
from tpugraphs.errors import ConfigError, DataError, Error
from tpugraphs.evaluation.evaluator import measured_runtimes
from tpugraphs.kernels.streams import Stream
from tpugraphs.names import kind_named
from tpugraphs.network.network import schema_of
from tpugraphs.network.scoring import as_configs
from tpugraphs.preprocess.checks import check_kind, check_measured, check_order, check_weighted
from tpugraphs.preprocess.pipeline import Pipeline
from tpugraphs.preprocess.targets import targets
from tpugraphs.ranker.conventions import every_graph
from tpugraphs.ranker.estimator import Estimator
from tpugraphs.recipes import Recipe, is_built_in
from tpugraphs.system import Interrupts, Progress, counted, optional
from tpugraphs.system.tensorfile import entry, fail, take
from tpugraphs.training import trainset
from tpugraphs.training.callbacks import History, RunningFit
from tpugraphs.training.fit import FitOptions

_VALID = 1 << 32  # numbers of validation graphs begin here
_MOST = 16 << 20  # columns, nodes: sizes in files are below


_MISSING = "LightGBM, which trains the trees, is missing: pip install tpugraphs[lightgbm]"


@dataclass
class Trees:
    """Trees of the graphs of one size.

    Attributes
    ----------
    size : (nodes, configurable nodes)
        ``(0, 0)`` if configs are features; these trees then rank all graphs.
    columns : (F,) int64
        The columns of the table that vary, which the trees use.
    width : int
        Number of columns of the table. Those that a graph of another size lacks are missing values.
    booster : lightgbm.Booster or None
        Grows the trees; None once they are complete.
    """

    size: tuple[int, int]
    columns: NDArray[np.int64]
    width: int
    booster: Any = None
    _read: _core.Forest | None = None

    @property
    def forest(self) -> _core.Forest:
        """The trees that score; while they grow, those so far."""
        if self._read is None or (self.booster is not None and self.booster.num_trees() > self._read.trees):
            text, _, _ = self.booster.model_to_string().partition("\nparameters:")  # and number of threads
            self._read = _core.Forest(f"{text}\n", self.columns, self.width)
        return self._read

    def grow(self) -> float:
        """Add one tree and return the training loss."""
        self.booster.update()
        ((_, _, loss, *_),) = self.booster.eval_train()
        return float(loss)


Floats = NDArray[np.float32]
# Rows to learn from, of one graph: features (n, F), targets (n,), weights (n,); of all graphs of one size.
Part = tuple[Floats, NDArray[np.float64], Floats]
Table = list[Part]
Score = Callable[[Floats], NDArray[Any]]  # of a table (n, F): scores (n,)


class TreeEstimator(Estimator):
    """Learn boosted trees from a recipe's table of features.

    Parameters
    ----------
    recipe : Recipe
        Its `features` make the table; its fields derive from :class:`tpugraphs.recipes.TableFields`.
    fields : object
    seed : int
    precision : str
        Not used.

    Attributes
    ----------
    kind : str
        Kind of the graphs it scores. With a recipe for any kind it is that of the training graphs.
    schema : Schema or None
        Schema of the training graphs, None if they were published ones.
    trees : list of Trees
    history : History or None
    """

    kind: str = ""
    schema: Schema | None = None
    _chunk = 1 << 14  # rows of a table that is scored at a time
    _times = 1  # how often trees see every column of the table

    def __init__(self, recipe: Recipe, fields: Any, seed: int, precision: str) -> None:
        self.recipe, self.fields, self.seed = recipe, fields, int(seed)
        self.trees: list[Trees] = []
        self.history: History | None = None
        self.kind, self._rounds = recipe.kind, 0
        self.learnt_from: frozenset[str] = frozenset()
        self._own: tuple[int, int] | None = None  # columns of a config, digits of a node: at a row's end

    @property
    def fitted(self) -> bool:
        """Whether there are trees."""
        return self._rounds > 0

    @property
    def size(self) -> int | None:
        """Most leaves that the trees can have, None without trees."""
        return sum(tree.forest.trees * self.fields.num_leaves for tree in self.trees) or None

    # Learning

    def fit(self, train: Graphs, valid: Valid, how: FitOptions) -> History:
        """Learn from graphs; see :meth:`tpugraphs.Ranker.fit`. Trees are learnt in one go: no checkpoints."""
        lightgbm = optional("lightgbm", _MISSING)
        graphs = trainset.as_graphs("train", train)
        weights = trainset.as_weights(train, graphs, how.sample_weight)
        self.kind = getattr(graphs[0], "kind", "layout") if self.recipe.kind == "any" else self.recipe.kind
        if isinstance(valid, Real):
            graphs, valid = trainset.hold_out(graphs, float(valid), self.seed, self.kind, weights)
        if kind_named(self.kind).any_schema:
            seen = every_graph("train", graphs)
            usable = (graph for graph in seen if trainset.check_graph("train", graph, self.kind) is None)
            self.schema = Pipeline([], self.kind, make=lambda schema: []).fit(usable).schema
        total = int(how.steps or how.epochs or 1)
        self.history = history = History(total_steps=total, metric=self.fields.metric)
        fit = RunningFit(how.ranker, history, how.callbacks)
        tables = self._tables(graphs, weights, history)
        began = time.monotonic()
        self.trees = [self._start(lightgbm, size, table) for size, table in tables.items()]
        held, judge = self._held(valid), metrics.VALIDATION[self.fields.metric]
        with Interrupts() as interrupts, Progress(fit.total, self.recipe.name, "tree", how.verbose) as bar:
            fit.notify("on_fit_begin")
            while fit.step < fit.total and history.stopped is None and not interrupts.pressed:
                history.loss.append(float(np.mean([tree.grow() for tree in self.trees])))
                history.learning_rate.append(float(self.fields.learning_rate))
                fit.step = self._rounds = fit.step + 1
                bar.update(1)
                fit.notify("on_step")
                if held and (fit.step % self.fields.evaluate_every == 0 or fit.step == fit.total):
                    value = float(np.mean([judge(self._scores(*one), times) for *one, times in held]))
                    history.evaluated(fit.step, value)
                    fit.notify("on_evaluate", value)
            history.interrupted = interrupts.pressed
        if fit.step == 0:
            raise KeyboardInterrupt
        self._rounds = history.best_step or fit.step
        history.seconds = time.monotonic() - began
        for tree in self.trees:
            _, tree.booster = tree.forest, None  # they are complete
        fit.notify("on_fit_end")
        trainset.warn_of_skipped(history.skipped, stacklevel=3)
        return history

    def _tables(
        self, graphs: trainset.GraphSequence, given: list[Any] | None, history: History
    ) -> dict[tuple[int, int], Table]:
        """Return the training rows by size of graph."""
        tables: dict[tuple[int, int], Table] = {}
        for i in range(len(graphs)):
            graph = graphs[i]
            trainset.check_graph("train", graph, self.kind)
            self.learnt_from |= {known_as(graph)}
            weights = trainset.graph_weights(graph, None if given is None else given[i])
            try:
                check_measured(graph, self.kind)
                rows = self._some(graph, self.fields.configs, i, weights)
                times = measured_runtimes(graph, rows)
                check_order(str(graph.name), times, None)
            except DataError as error:
                history.skipped[str(graph.name)] = str(error)
                if not tables and i + 1 == len(graphs):
                    raise
                continue
            features = self.recipe.features(self.fields, graph, rows)
            if is_built_in(self.recipe):
                columns = 0 if graph.config_feat is None else graph.config_feat.shape[1]
                self._own = (columns, int(graph._digits.shape[2]))
            own = np.ones(rows.size, np.float32) if weights is None else weights[rows]
            tables.setdefault(self._size(graph), []).append(self._learnt(features, times, own, i))
        return tables

    def _learnt(self, features: Floats, times: NDArray[Any], weights: Floats, number: int) -> Part:
        """Make training rows from features (n, F), runtimes (n,) and weights (n,) of a graph."""
        return features, targets(times, self.fields.target), weights

    def _size(self, graph: Graph) -> tuple[int, int]:
        """Return (nodes, configurable nodes) if configs are digits; graphs with features share one model."""
        digits = graph._digits.shape[2] > 0
        return (int(graph.num_nodes), int(graph.num_config_nodes)) if digits else (0, 0)

    def _options(self) -> dict[str, Any]:
        """Return the options of LightGBM."""
        f = self.fields
        return {
            "objective": f.objective, "metric": f.objective, "learning_rate": f.learning_rate,
            "num_leaves": f.num_leaves, "min_data_in_leaf": f.min_data_in_leaf,
            "feature_fraction": f.feature_fraction, "bagging_fraction": f.bagging_fraction,
            "bagging_freq": int(f.bagging_fraction < 1), "seed": self.seed % (1 << 31),
            "deterministic": True, "force_row_wise": True, "verbosity": -1,
            "num_threads": _core.get_num_threads(),
        }  # fmt: skip

    def _some(self, graph: Graph, most: int, number: int, weights: Floats | None = None) -> NDArray[np.int64]:
        """Return rows of configs that ran with a weight above 0, ascending: all, or a sample of `most`."""
        rows = np.asarray(graph.ran)
        if weights is not None:
            rows = rows[weights[rows] > 0]
            check_weighted(str(graph.name), rows.size)
        key = (self.seed, Stream.TREES, number)
        return rows[kernels.sample_without_replacement(rows.size, min(rows.size, most), key, order="sorted")]

    def _start(self, lightgbm: Any, size: tuple[int, int], table: Table) -> Trees:
        """Choose the columns, and return a booster without trees."""
        x, y, weights = map(np.concatenate, zip(*table, strict=True))
        varies = np.flatnonzero((x != x[:1]).any(0))
        _, first = np.unique(x[:, varies], axis=1, return_index=True)  # the first of equal columns
        columns = varies[np.sort(first)] if varies.size else np.zeros(1, np.int64)
        options = self._options()
        weight = None if (weights == 1).all() else weights
        data = lightgbm.Dataset(x[:, columns], y, weight=weight, params=options)
        return Trees(size, columns.astype(np.int64), x.shape[1], lightgbm.Booster(options, data))

    def _held(self, valid: Any) -> list[tuple[Any, NDArray[np.int64], NDArray[Any]]]:
        """Return the validation graphs, with rows and runtimes."""
        graphs, held = [] if trainset.no_graphs(valid) else trainset.as_graphs("valid", valid), []
        for i in range(len(graphs)):
            graph, most = graphs[i], max(50, self.fields.valid_configs // len(graphs))
            check_measured(graph, self.kind)
            rows = self._some(graph, most, _VALID + i)
            held.append((graph, rows, measured_runtimes(graph, rows)))
        return held

    # Scoring

    def scores(
        self, graph: Graph, configs: Rows | None, tta: int, precision: str | None, verbose: bool | None
    ) -> Floats:
        """Return scores (n,): see :meth:`tpugraphs.Ranker.predict`. `tta` and `precision` change nothing."""
        check_kind(graph, self.kind)
        if self.schema is not None:
            self.schema.check(graph)
        if as_configs(graph, configs) is not None:
            raise ConfigError("configs: trees score rows of a graph: make a graph of these configs first")
        rows = graph.row_numbers(configs)
        with Progress(rows.size, "predict", "config", verbose) as progress:
            return self._scores(graph, rows, progress)

    def _scores(self, graph: Graph, rows: NDArray[np.int64], progress: Progress | None = None) -> Floats:
        tree = self._nearest(self._size(graph))
        score, scores = self._scorer(graph, tree), np.empty(rows.size, np.float32)
        for start in range(0, rows.size, self._chunk):
            part = rows[start : start + self._chunk]
            table = self._table(graph, part)
            width = self._times * table.shape[1]
            if tree.size == (0, 0) and width != tree.width:
                expected = f"a table of {counted(tree.width, 'column')}"
                todo = "rank graphs with the columns that the trees learnt from"
                raise DataError.of("config_feat", expected, str(width), todo, file=str(graph.name))
            scores[start : start + self._chunk] = score(table)
            if progress is not None:
                progress.update(part.size)
        return scores

    def _scorer(self, graph: Graph, tree: Trees) -> Score:
        """Return the function that scores rows of a graph's table."""
        return lambda table: tree.forest.scores(table, self._rounds)

    def _table(self, graph: Graph, rows: NDArray[np.int64]) -> Floats:
        """Return the recipe's table (n, F), as the core takes it."""
        return np.ascontiguousarray(self.recipe.features(self.fields, graph, rows), np.float32)

    def _nearest(self, size: tuple[int, int]) -> Trees:
        """Return the trees of the nearest size; if several are equally near, the first."""
        if not self.trees:
            raise Error("there are no trees yet: call fit first")
        own = np.array(size)
        return min(self.trees, key=lambda tree: (np.abs(tree.size - own) / np.maximum(own, 1)).sum())

    def importances(self) -> NDArray[np.float64]:
        """Return the share of the gain of every column; see :class:`tpugraphs.Ranker`."""
        if not self.trees or self._own is None:
            who = "rankers of trees have it, from fit on, unless their recipe makes its own table"
            raise AttributeError(f"feature_importances_: {who}; tg.permutation_importance judges all rankers")
        gains = np.sum([self._gains(tree, *self._own) for tree in self.trees], 0)
        shares: NDArray[np.float64] = gains / (gains.sum() or 1.0)
        return shares

    def _gains(self, tree: Trees, columns: int, digits: int) -> NDArray[Any]:
        """Return gains by config column, then by digit, without columns that all configs share."""
        place = tree.columns - (tree.width - columns - tree.size[1] * digits)
        place = np.where(place < columns, place, columns + (place - columns) % max(digits, 1))
        own = place >= 0
        return np.bincount(place[own], tree.forest.gains(self._rounds)[own], columns + digits)

    # Files and copies

    def to_file(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return metadata and tensors that `read` takes."""
        entries = [{"size": list(t.size), "width": t.width, "trees": t.forest.text} for t in self.trees]
        tensors = {f"{i}.columns": tree.columns for i, tree in enumerate(self.trees)}
        metadata = {"graphs": self.kind, "rounds": self._rounds, "boosters": entries}
        metadata |= {} if self.schema is None else {"schema": self.schema.to_dict()}
        metadata |= {} if self._own is None else {"own": list(self._own)}
        return metadata, tensors

    def read(self, path: str, metadata: Mapping[str, Any], tensors: Mapping[str, NDArray[Any]]) -> None:
        """Restore what `to_file` returned; CheckpointError if that is damaged."""
        self.kind = entry(path, metadata, "graphs", str)
        self.schema = schema_of(path, metadata) if "schema" in metadata else None  # not in older files
        kinds = ("layout", "tile", "graph") if self.recipe.kind == "any" else (self.recipe.kind,)
        if self.kind not in kinds:
            raise fail(path, "graphs", " or ".join(kinds), repr(self.kind)[:80])
        rounds, trees = (entry(path, metadata, n, t) for n, t in (("rounds", int), ("boosters", list)))
        self.trees = [self._tree(path, i, one, tensors) for i, one in enumerate(trees)]
        if not self.trees or not 1 <= rounds <= 10**6:
            raise fail(path, "rounds", "trees", counted(rounds, "round"))
        self._rounds = rounds
        self._own = None  # not in earlier files
        if "own" in metadata:
            own = entry(path, metadata, "own", list)
            if not _sizes(own) or any(t.size[1] * own[1] + own[0] > t.width for t in self.trees):
                raise fail(path, "own", "columns and digits of the table", repr(own)[:80])
            self._own = (own[0], own[1])

    def _tree(self, path: str, i: int, one: Any, tensors: Mapping[str, NDArray[Any]]) -> Trees:
        """Return the trees of entry `i` of "boosters"."""
        place, name = f"boosters[{i}]", f"{i}.columns"
        if not isinstance(one, dict):
            raise fail(path, place, "an object", repr(one)[:80])
        width, size = entry(path, one, "width", int), entry(path, one, "size", list)
        if not _sizes(size):
            raise fail(path, f"{place}.size", "two whole numbers >= 0", repr(size)[:80])
        if not 1 <= width < _MOST:
            raise fail(path, f"{place}.width", f"1 to {_MOST - 1}", repr(width)[:80])
        length = tensors[name].size if name in tensors else 0
        columns = take(path, tensors, name, (length,), np.int64)
        text = entry(path, one, "trees", str)
        try:
            return Trees((size[0], size[1]), columns, width, _read=_core.Forest(text, columns, width))
        except DataError as error:
            field = f"{place}.{error.field}"
            raise fail(path, field, str(error.expected), str(error.found)) from None


def _sizes(pair: list[Any]) -> bool:
    """Whether a list is a pair of sizes."""
    return len(pair) == 2 and all(type(n) is int and 0 <= n < _MOST for n in pair)


class TreePairEstimator(TreeEstimator):
    """Learn trees that predict which of two configs of a graph is slower.

    A row is the features of one config and their difference from those of another (eleventh place of the
    Kaggle competition). The score of a config is the mean probability that it is slower than the configs of a
    fixed sample of its graph. All graphs share the trees. LightGBM's limits on queries and graded labels do
    not apply.

    Parameters
    ----------
    recipe : Recipe
        Its `features` make the table; its fields also have `pairs` and `references`.
    fields, seed, precision
        See :class:`TreeEstimator`.
    """

    _chunk = 1 << 12
    _times = 2  # as a value, and in the difference

    def _size(self, graph: Graph) -> tuple[int, int]:
        return 0, 0

    def _options(self) -> dict[str, Any]:
        return super()._options() | {"objective": "binary", "metric": "binary"}

    def _learnt(self, features: Floats, times: NDArray[Any], weights: Floats, number: int) -> Part:
        """Draw pairs of configs with different runtimes: [one | one - other], and whether one is slower."""
        n = times.size
        ones, others = [], []
        for k in range(self.fields.pairs):
            order = kernels.sample_without_replacement(n, n, (self.seed, Stream.TREES, number, k))
            other = np.roll(order, 1)  # a random circle: no config meets itself
            differ = times[order] != times[other]
            ones.append(order[differ])
            others.append(other[differ])
        i, j = np.concatenate(ones), np.concatenate(others)
        slower = (times[i] > times[j]).astype(np.float64)
        return _paired(features[i], features[j]), slower, np.sqrt(weights[i] * weights[j])

    def _scorer(self, graph: Graph, tree: Trees) -> Score:
        count = min(graph.num_configs, self.fields.references)
        key = (self.seed, Stream.TREES, 1 << 40)
        sample = kernels.sample_without_replacement(graph.num_configs, count, key, order="sorted")
        others = self._table(graph, sample)
        return lambda table: tree.forest.against(table, others, self._rounds)

    def _gains(self, tree: Trees, columns: int, digits: int) -> NDArray[Any]:
        """Return gains by column of the recipe's table, adding up those of the value and the difference."""
        F = tree.width // 2
        return np.bincount(tree.columns % F, tree.forest.gains(self._rounds), F)

    def _tree(self, path: str, i: int, one: Any, tensors: Mapping[str, NDArray[Any]]) -> Trees:
        tree = super()._tree(path, i, one, tensors)
        if not tree.forest.binary or tree.width % 2:
            raise fail(path, f"boosters[{i}].objective", "binary, of pairs", "another")
        return tree


def _paired(one: Floats, other: Floats) -> Floats:
    """Make the rows [one | one - other] (n, 2F)."""
    return np.hstack([one, one - other])
