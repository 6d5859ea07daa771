"""Search for the configs that a scorer predicts to be fastest, among all combinations of values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tpugraphs import _core, kernels
from tpugraphs.data.graph import Graph
from tpugraphs.errors import ConfigError, DataError
from tpugraphs.evaluation.scorer import Scorer
from tpugraphs.system import tables
from tpugraphs.system.arguments import check_choice, check_whole
from tpugraphs.system.words import counted, json_text

__all__ = ["METHODS", "SearchResult", "minimize"]

_BATCH = {"genetic": 8, "annealing": 4, "langevin": 4, "sample": 64, "exhaustive": 256}
#: Methods of :func:`minimize`.
METHODS = tuple(_BATCH)
_GROWS = 256  # configs scored, after each of which the genetic algorithm asks for one batch more at once
_REMEMBERED = 1024  # best codes, of which those are returned that differ
_TRIED = 200  # infeasible codes for each one of the budget, after which there seem to be no others
_Whole = NDArray[np.int64]
_Callback = Callable[[int, float, Callable[[], dict[str, NDArray[Any]]]], object]


@dataclass(frozen=True)
class SearchResult:
    """What a search found.

    Attributes
    ----------
    method : str
        ``"exhaustive"`` if all configs were scored, whatever was asked for.
    scores : (m,) float64
        The best scores, ascending.
    configs : array or pair of arrays
        Their configs, as :meth:`tpugraphs.Ranker.predict` takes them: features (m, T), digits (m, K, D), or a
        pair of both.
    named : list of dict
        The same by names of columns; empty if configs are digits.
    evaluations : int
        Configs that were scored.
    size : int
        Number of all combinations, -1 if it is huge.
    history : (B, 2) float64
        After each batch: configs scored so far, and the best score among them.
    state : dict of str to array
        What `minimize` goes on from.
    """

    method: str
    scores: NDArray[np.float64]
    configs: Any = field(repr=False)
    named: list[dict[str, Any]] = field(repr=False)
    evaluations: int
    size: int
    history: NDArray[np.float64] = field(repr=False)
    state: dict[str, NDArray[Any]] = field(repr=False)

    def table(self) -> str:
        """Return a text table of the best configs.

        Returns
        -------
        str
            One line per config, best first.
        """
        lines = [{"#": str(i), "score": f"{score:.6g}"} for i, score in enumerate(self.scores)]
        for line, config in zip(lines, self.named, strict=False):
            line.update({name: f"{value}" for name, value in config.items()})
        return tables.text(
            *tables.section(f"{self.method}, {counted(self.evaluations, 'config')} scored", lines)
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers and strings, without `state`.

        Returns
        -------
        dict
            It can be written as JSON.
        """
        several = self.configs if isinstance(self.configs, tuple) else (self.configs,)
        return {
            "method": self.method, "evaluations": self.evaluations, "size": self.size,
            "scores": self.scores.tolist(), "configs": self.named or [one.tolist() for one in several],
            "history": self.history.tolist(),
        }  # fmt: skip

    def to_json(self) -> str:
        """Return `to_dict` as JSON text."""
        return json_text(self.to_dict()) + "\n"


@dataclass(frozen=True)
class _Parameters:
    """What a config of a graph is made of: columns of features, then configurable nodes, called cells.

    A parameter sets one cell, or several that always change together. Value v of parameter p is what the
    cells have in row `row[first[p] + v]` of `features` and `digits`.
    """

    sizes: NDArray[np.int32]
    ordered: NDArray[np.bool_]
    row: _Whole
    of: _Whole  # the parameter of each cell
    features: NDArray[np.float32] | None
    digits: NDArray[np.int8] | None

    @classmethod
    def of_graph(cls, graph: Graph) -> _Parameters:
        if graph.ran.size == 0:
            raise DataError.of("graph", "configs to combine", "none", "give a space=", file=str(graph.name))
        graph = graph if graph.valid is None else graph.select(graph.ran)
        features, digits = graph.config_feat, graph.config_digits if graph.schema.digits else None
        bytes_of = [] if features is None else [features.view(np.int8).reshape(*features.shape, 4)]
        cells = [_core.cell_values(part) for part in (*bytes_of, digits) if part is not None]
        numbers = np.ascontiguousarray(np.concatenate(cells, 1).T)
        first, of = kernels.dedup_rows(numbers.view(np.float32))  # compares bytes
        seen = np.maximum.accumulate(numbers[first], 1)  # rises by one where a value first comes
        parameter, row = np.nonzero(np.diff(seen, axis=1, prepend=-1))
        ordered = np.zeros(len(first), np.bool_)
        if features is not None:
            ordered = np.array(_numeric(graph) + [False] * len(of))[first]
            key = np.where(ordered[parameter], features[row, first[parameter] * ordered[parameter]], row)
            row = row[np.lexsort((key, parameter))]
        return cls(
            np.bincount(parameter).astype(np.int32), ordered, np.ascontiguousarray(row), of, features, digits
        )

    @classmethod
    def of_space(cls, graph: Graph, space: Any) -> _Parameters:
        sizes, names = np.array(space.core.sizes, np.int32), list(space.names)
        every = np.minimum(np.arange(sizes.max())[:, None], sizes - 1).astype(np.int32)
        configs = space.core.configs(every)
        features = encode_configs(graph, names, configs)
        order = [names.index(name) for name in graph.schema.names("config")]
        ordered = np.array(_numeric(graph))[np.argsort(order)]
        row = np.concatenate([np.arange(size) for size in sizes])
        return cls(sizes, ordered, row, np.array(order), features, None)

    @cached_property
    def first(self) -> _Whole:
        first: _Whole = np.cumsum(self.sizes, dtype=np.int64) - self.sizes
        return first

    @cached_property
    def bytes(self) -> NDArray[np.int8] | None:
        return None if self.features is None else self.features.view(np.int8).reshape(*self.features.shape, 4)

    @cached_property
    def parts(self) -> tuple[_Whole, _Whole]:
        """The parameters of the columns of features and of the configurable nodes."""
        columns = 0 if self.features is None else self.features.shape[1]
        return self.of[:columns], self.of[columns:]

    @cached_property
    def sets(self) -> NDArray[np.bool_]:
        """Whether a value sets a cell (S, M)."""
        sets: NDArray[np.bool_] = self.of == np.repeat(np.arange(self.sizes.size), self.sizes)[:, None]
        return sets

    def configs(self, codes: NDArray[np.int32]) -> Any:
        """Return configs as a scorer takes them."""
        columns, nodes = self.parts
        features = digits = None
        if self.bytes is not None:
            cells = _core.cells_make(codes, self.first, self.row, columns, self.bytes)
            features = cells.view(np.float32)[..., 0]
        if self.digits is not None:
            digits = _core.cells_make(codes, self.first, self.row, nodes, self.digits)
        return features if digits is None else digits if features is None else (features, digits)

    def scores(
        self, scorer: Any, graph: Graph, codes: NDArray[np.int32], space: Any, sloped: bool
    ) -> tuple[Any, Any]:
        """Return scores (n,), inf for infeasible codes, and the changes that `slopes` returns if `sloped`."""
        fine = None if space is None else space.core.feasible(codes)
        if fine is None or fine.all():
            if sloped:
                scores, changes = self.slopes(scorer, graph, codes)
                return np.asarray(scores, np.float64), changes
            return score_configs(scorer, graph, self.configs(codes)), None
        scores = np.full(len(codes), np.inf)
        changes = np.zeros((len(codes), self.row.size), np.float32) if sloped else None
        if fine.any():
            scores[fine], some = self.scores(scorer, graph, codes[fine], None, sloped)
            if changes is not None:
                changes[fine] = some
        return scores, changes

    def slopes(self, scorer: Any, graph: Graph, codes: NDArray[np.int32]) -> tuple[Any, Any]:
        """Return scores (n,), and their first-order changes (n, S) for each other value of a parameter."""
        (columns, nodes), near = self.parts, None
        if self.features is not None:
            rows, T = self.row[self.first + codes][:, None, columns], len(columns)
            near = self.features[np.where(self.sets[:, :T], self.row[:, None], rows), np.arange(T)]
        scores, slope, changes = scorer.slopes(graph, self.configs(codes), near)
        if slope is not None and self.digits is not None:
            moved = _core.cells_changes(codes, self.first, self.row, nodes, self.digits, slope)
            changes = moved if changes is None else changes + moved
        return scores, np.zeros((len(codes), self.row.size), np.float32) if changes is None else changes


def _numeric(graph: Graph) -> list[bool]:
    return [column.kind in ("number", "log") for column in graph.schema.config]


def encode_configs(
    graph: Graph, names: Sequence[str], configs: Sequence[Mapping[str, Any]]
) -> NDArray[np.float32]:
    """Return configs of a space with these parameters as columns (n, T) of a graph."""
    columns = graph.schema.names("config")
    if sorted(columns) != sorted(names) or graph.schema.digits:
        expected, found = f"the graph's columns {', '.join(columns)}", ", ".join(names)
        raise ConfigError(f"space: expected {expected}, found {found}: give it these parameters")
    return graph.schema.encode("config", {name: [one[name] for one in configs] for name in columns})


def score_configs(scorer: Any, graph: Graph, configs: Any) -> NDArray[np.float64]:
    """Score configs that the graph does not have: as arrays, or else as those of a graph."""
    if getattr(scorer, "takes_configs", False):
        return np.asarray(scorer.predict(graph, configs, verbose=False), np.float64)
    features, digits = configs if isinstance(configs, tuple) else (configs, configs)
    none = np.zeros(len(features), np.int64)
    made: dict[str, Any] = {"valid": None, "repeats": None, "runtime": none, "config_runtime": none}
    made["config_runtime_normalizers"] = none + 1
    made["node_config_feat"] = digits if graph.schema.digits else None
    made["config_feat"] = None if graph.config_feat is None else features
    own = graph.replace(**{name: made[name] for name in graph.fields() if name in made})
    return np.asarray(scorer.predict(own, verbose=False), np.float64)


def _check(scorer: Any, method: str, across: bool) -> None:
    if not isinstance(scorer, Scorer) or not scorer.fitted:
        todo = "fit a tg.Ranker, or derive a class from tpugraphs.ranker.ScorerBase"
        raise ConfigError(f"scorer: expected a fitted scorer, got {type(scorer).__name__}: {todo}")
    if getattr(scorer, "across_configs", False) and not across:
        why = "its scores depend on which configs are scored together, so they hardly compare"
        raise ConfigError(f"scorer: {why}; across=True searches all the same")
    if method == "langevin" and not (hasattr(scorer, "slopes") and getattr(scorer, "takes_configs", False)):
        others = ", ".join(repr(name) for name in METHODS if name != method)
        raise ConfigError(
            f"method: this {type(scorer).__name__} has no gradients for 'langevin': use {others}"
        )


def minimize(
    scorer: Scorer,
    graph: Graph,
    method: str = "genetic",
    budget: int = 1000,
    seed: int = 0,
    *,
    space: Any = None,
    keep: int = 10,
    differ: int = 1,
    batch: int | None = None,
    callback: _Callback | None = None,
    state: Mapping[str, NDArray[Any]] | None = None,
    across: bool = False,
) -> SearchResult:
    """Search for the configs of a graph with the least scores.

    Candidates are all combinations of the values that the graph's configs have: column by column, and at
    each configurable node its digits together. Columns and nodes that always change together count as one.
    If there are no more combinations than `budget`, all of them are scored. No config is scored twice.

    Parameters
    ----------
    scorer : scorer
        Anything fitted that scores configs: a ranker, an ensemble, trees, a baseline, your own.
    graph : Graph
        The program or kernel, with the configs whose values are combined. They need not be measured.
    method : {"genetic", "annealing", "langevin", "sample", "exhaustive"}
        ``"genetic"`` combines the best so far. ``"annealing"`` runs several chains that get colder.
        ``"langevin"`` runs chains whose proposals follow the gradient of the score, which rankers with a
        network have. ``"sample"`` scores random configs, ``"exhaustive"`` all.
    budget : int
        How many configs are scored.
    seed : int
        The same seed gives the same result.
    space : Space, optional
        Candidates instead: a space whose parameters are the columns of the graph's configs.
    keep, differ : int
        Return this many of the best, each of which differs in at least `differ` parameters from every better
        one.
    batch : int, optional
        Number of configs scored at once. The default is small, since small batches find better configs. For
        ``"genetic"`` it starts at 8 and grows by 8 after every 256 configs.
    callback : callable, optional
        Called after each batch with the number of configs scored, the best score, and a function that returns
        the state so far. True ends the search.
    state : mapping of str to array, optional
        Go on where an earlier search with the same arguments was, which may have had a smaller budget.
    across : bool
        Also take a scorer that looks across configs, whose scores of different batches hardly compare.

    Returns
    -------
    SearchResult
        The best configs and their scores.

    Raises
    ------
    ConfigError
        An argument out of range, a scorer that the method cannot use, or more configs than an exhaustive
        search may score.
    DataError
        The graph has no configs, or the scorer refuses it.
    CheckpointError
        `state` is of another search.

    Examples
    --------
    >>> import tpugraphs as tg
    >>> programs = tg.open_collection("options:xla:cpu")
    >>> ranker = tg.Ranker("graph-config", steps=5).fit(programs.train[:4], verbose=False)
    >>> found = tg.search.minimize(ranker, programs.test[0], budget=100, keep=3)
    >>> found.evaluations, len(found.named)
    (100, 3)
    """
    check_choice("method", method, METHODS)
    budget, keep = check_whole("budget", budget, 1), check_whole("keep", keep, 1, _REMEMBERED)
    seed, differ = check_whole("seed", seed, 0), check_whole("differ", differ, 1)
    _check(scorer, method, across)
    parameters = _Parameters.of_graph(graph) if space is None else _Parameters.of_space(graph, space)
    every = None if space is None else space.core.all(budget)
    size = len(every) if every is not None else int(np.prod(parameters.sizes, dtype=object))
    if method == "exhaustive" and size > budget:
        expected = f"at least the {counted(size, 'config')} to score"
        raise ConfigError(f"budget: expected {expected}, got {budget:,}: raise it, or sample")
    method, budget = ("exhaustive", size) if size <= budget else (method, budget)
    more = _GROWS if method == "genetic" and batch is None else budget
    batch = check_whole("batch", _BATCH[method] if batch is None else batch, 1)
    members = batch + 2 if method == "genetic" else batch
    starts = members * (2 if method == "genetic" else 4)
    drawn = budget if method == "sample" else starts
    search = _core.Search(
        method, parameters.sizes, seed, ordered=parameters.ordered, budget=budget, members=members,
        start=every if space is None or every is not None else space.core.sample(drawn, seed), starts=starts,
        rate=0.5 if method == "genetic" else 1.0, keep=_REMEMBERED,
    )  # fmt: skip
    history: list[list[float]] = []
    if state is not None:
        search.restore(dict(state))
        history = np.asarray(state["history"], np.float64).tolist()

    def saved() -> dict[str, NDArray[Any]]:
        return {**search.state(), "history": np.array(history, np.float64).reshape(-1, 2)}

    while search.scored < budget and search.failed < _TRIED * budget:
        codes = search.ask(min(batch * (1 + search.scored // more), budget - search.scored))
        if not len(codes):
            break
        scores, changes = parameters.scores(scorer, graph, codes, space, method == "langevin")
        search.tell(scores, changes)
        history.append([search.scored, search.least])
        if callback is not None and callback(search.scored, search.least, saved) is True:
            break
    codes, scores = search.best(keep, differ)
    configs = parameters.configs(codes)
    plain = isinstance(configs, np.ndarray) and configs.ndim == 2
    named = [graph.schema.decode("config", row) for row in configs] if plain else []
    whole, found = size if size < 2**62 else -1, saved()
    return SearchResult(method, scores, configs, named, search.scored, whole, found["history"], found)
