"""Search for the configs that a scorer predicts to be fastest, among all combinations of values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from tpugraphs import _core, kernels
from tpugraphs.data.graph import Graph
from tpugraphs.errors import ConfigError, DataError
from tpugraphs.evaluation.scorer import Scorer
from tpugraphs.system import tables
from tpugraphs.system.arguments import check_choice, check_type, check_whole
from tpugraphs.system.words import json_text

__all__ = ["METHODS", "SearchResult", "minimize"]

#: Methods of :func:`minimize`.
METHODS = ("genetic", "annealing", "langevin", "sample", "exhaustive")
_BATCH = {"genetic": 8, "annealing": 8, "langevin": 8, "sample": 64, "exhaustive": 256}
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
        return tables.text(*tables.section(f"{self.method}, {self.evaluations:,} configs scored", lines))

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

    def __str__(self) -> str:
        return self.table()


@dataclass(frozen=True)
class _Parameters:
    """What a config of a graph is made of: columns of features, then configurable nodes, called cells.

    A parameter sets one cell, or several that always change together. Value v of parameter p is what the cells
    have in row `row[first[p] + v]` of `features` and `digits`.
    """

    sizes: NDArray[np.int32]
    ordered: NDArray[np.bool_]
    row: _Whole
    of: _Whole  # the parameter of each cell
    features: NDArray[np.float32] | None
    digits: NDArray[np.int8] | None

    @classmethod
    def of_graph(cls, graph: Graph) -> _Parameters:
        graph = graph if graph.valid is None or not graph.valid.any() else graph.select(graph.ran)
        features, digits = graph.config_feat, graph.config_digits if graph.schema.digits else None
        if graph.num_configs == 0:
            raise DataError.of("graph", "configs to combine", "none", "give a space=", file=str(graph.name))
        columns = [] if features is None else [features.view(np.int8).reshape(*features.shape, 4)]
        columns += [] if digits is None else [digits]
        cells = np.concatenate([_core.cell_values(column) for column in columns], 1)
        first, of = kernels.dedup_rows(np.ascontiguousarray(cells.T).view(np.float32))
        numbers = np.ascontiguousarray(cells[:, first].T)
        seen = np.maximum.accumulate(numbers, 1)  # numbers rise by one where a value first comes
        parameter, row = np.nonzero(np.diff(seen, axis=1, prepend=-1))
        sortable = np.zeros(len(first), np.bool_)
        if features is not None:
            kinds = np.array([column.kind in ("number", "log") for column in graph.schema.config])
            inside = first < features.shape[1]
            sortable[inside] = kinds[first[inside]]
            key = np.where(sortable[parameter], features[row, first[parameter] * sortable[parameter]], row)
            row = row[np.lexsort((key, parameter))]
        sizes = np.bincount(parameter, minlength=len(first)).astype(np.int32)
        return cls(sizes, sortable, row, of, features, digits)

    @classmethod
    def of_space(cls, graph: Graph, space: Any) -> _Parameters:
        columns, names = [column.name for column in graph.schema.config], list(space.names)
        if sorted(columns) != sorted(names) or graph.schema.digits:
            expected, found = f"the graph's columns {', '.join(columns)}", ", ".join(names)
            raise ConfigError(f"space: expected {expected}, found {found}: give it these parameters")
        sizes = np.array(space.core.sizes, np.int32)
        every = np.minimum(np.arange(sizes.max())[:, None], sizes - 1).astype(np.int32)
        configs = space.core.configs(every)
        table = {name: [config[name] for config in configs] for name in names}
        features = graph.schema.encode("config", table)
        kinds = {column.name: column.kind in ("number", "log") for column in graph.schema.config}
        row = np.concatenate([np.arange(size) for size in sizes])
        of = np.array([names.index(name) for name in columns])
        return cls(sizes, np.array([kinds[name] for name in names]), row, of, features, None)

    def rows(self, codes: NDArray[np.int32]) -> _Whole:
        return self.row[(np.cumsum(self.sizes) - self.sizes) + codes][:, self.of]

    def configs(self, rows: _Whole) -> Any:
        """Return configs whose cells are those of `rows` (n, cells)."""
        columns = 0 if self.features is None else self.features.shape[1]
        parts: list[Any] = []
        if self.features is not None:
            parts.append(self.features[rows[:, :columns], np.arange(columns)])
        if self.digits is not None:
            parts.append(self.digits[rows[:, columns:], np.arange(self.digits.shape[1])])
        return parts[0] if len(parts) == 1 else tuple(parts)

    def slopes(self, scorer: Any, graph: Graph, codes: NDArray[np.int32]) -> tuple[Any, Any]:
        """Return scores (n,), and changes (n, S) to the first order if one parameter took another value."""
        rows, parameter = self.rows(codes), np.repeat(np.arange(self.sizes.size), self.sizes)
        near = None
        columns = 0 if self.features is None else self.features.shape[1]
        if self.features is not None:
            moved = self.of[:columns] == parameter[:, None]
            index = np.where(moved, self.row[:, None], rows[:, None, :columns])
            near = self.features[index, np.arange(columns)]
        scores, gradient, changes = scorer.slopes(graph, self.configs(rows), near)
        changes = np.zeros((len(codes), self.row.size), np.float32) if changes is None else changes
        if gradient is not None and self.digits is not None:
            value, cell = np.nonzero(self.of[columns:] == parameter[:, None])
            every = np.arange(self.digits.shape[2])
            new = gradient[:, cell[:, None], every, self.digits[self.row[value], cell] + _FIRST]
            own = np.take_along_axis(
                gradient, self.digits[rows[:, columns:], np.arange(rows.shape[1] - columns)][..., None] + _FIRST, 3
            )
            np.add.at(changes.T, value, (new.sum(2) - own.sum((2, 3))[:, cell]).T)
        return scores, changes


_FIRST = 2  # place of digit 0 in a gradient


def _score(scorer: Any, graph: Graph, configs: Any) -> NDArray[np.float64]:
    """Score configs that the graph does not have."""
    if getattr(scorer, "takes_configs", False):
        return np.asarray(scorer.predict(graph, configs, verbose=False), np.float64)
    both = configs if isinstance(configs, tuple) else (configs, configs)
    fields: dict[str, Any] = {} if graph.config_feat is None else {"config_feat": both[0]}
    fields |= {"node_config_feat": both[1]} if graph.schema.digits else {}
    gone = dict.fromkeys((name for name in graph.fields() if name in ("valid", "repeats")))
    own = next(name for name in graph.fields() if name in ("runtime", "config_runtime"))
    n = len(both[0])
    if "config_runtime_normalizers" in graph.fields():
        gone["config_runtime_normalizers"] = np.ones(n, np.int64)
    made = graph.replace(**fields, **gone, **{own: np.zeros(n, np.int64)})
    return np.asarray(scorer.predict(made, verbose=False), np.float64)


def _check(scorer: Scorer, method: str, across: bool) -> None:
    todo = "give a fitted tg.Ranker, or a scorer derived from tpugraphs.ranker.ScorerBase"
    check_type("scorer", scorer, Scorer, expected=f"a scorer; {todo}")  # type: ignore[type-abstract]
    if not scorer.fitted:
        raise ConfigError("scorer: it has learnt nothing yet: fit or load it first")
    if getattr(scorer, "across_configs", False) and not across:
        why = "its scores depend on which configs are scored together, so they cannot be compared"
        raise ConfigError(f"scorer: {why}; across=True searches all the same")
    if method == "langevin" and not hasattr(scorer, "slopes"):
        others = ", ".join(map(repr, (*METHODS[:2], *METHODS[3:])))
        raise ConfigError(f"method: {type(scorer).__name__} has no gradients for 'langevin': use {others}")


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

    Candidates are all combinations of the values that the graph's configs have: column by column, and at each
    configurable node its digits together. Columns and nodes that always change together count as one. If there
    are no more combinations than `budget`, all of them are scored. No config is scored twice.

    Parameters
    ----------
    scorer : scorer
        Anything fitted that scores configs: a ranker, an ensemble, trees, a baseline, your own.
    graph : Graph
        The program or kernel, with the configs whose values are combined. They need not be measured.
    method : {"genetic", "annealing", "langevin", "sample", "exhaustive"}
        ``"genetic"`` combines the best so far. ``"annealing"`` runs several chains that get colder.
        ``"langevin"`` runs chains whose proposals follow the gradient of the score; rankers with a network have
        it. ``"sample"`` scores random configs, ``"exhaustive"`` all.
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
        How many configs are scored at once.
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
    seed, differ = check_whole("seed", seed, 0, 2**64 - 1), check_whole("differ", differ, 1)
    _check(scorer, method, across)
    parameters = _Parameters.of_graph(graph) if space is None else _Parameters.of_space(graph, space)
    size, every = int(np.prod(parameters.sizes, dtype=object)), None
    if space is not None and (every := space.core.all(budget)) is not None:
        size = len(every)
    if method == "exhaustive" and size > budget:
        raise ConfigError(f"budget: there are {size:,} configs to score: raise it from {budget:,}, or sample")
    method = "exhaustive" if size <= budget else method
    batch = _BATCH[method] if batch is None else check_whole("batch", batch, 1)
    members = batch if method in ("annealing", "langevin") else 16
    starts = every if space is None or every is not None else space.core.sample(2 * members, seed)
    search = _core.Search(
        method, parameters.sizes, seed, ordered=parameters.ordered, start=starts, budget=budget,
        members=members, starts=2 * members, keep=_REMEMBERED, **({"rate": 2.0} if method == "langevin" else {}),
    )  # fmt: skip
    history: list[tuple[float, float]] = []
    if state is not None:
        history = [tuple(line) for line in state["history"].tolist()]
        search.restore(dict(state))

    def saved() -> dict[str, NDArray[Any]]:
        return {**search.state(), "history": np.array(history, np.float64).reshape(-1, 2)}

    limit = min(budget, size)
    while search.scored < limit and search.failed < _TRIED * budget:
        codes = search.ask(min(batch, limit - search.scored))
        if not len(codes):
            break
        fine = np.ones(len(codes), np.bool_) if space is None else space.core.feasible(codes)
        scores, changes = np.full(len(codes), np.inf), None
        if method == "langevin":
            changes = np.zeros((len(codes), search.values), np.float32)
            if fine.any():
                scores[fine], changes[fine] = parameters.slopes(scorer, graph, codes[fine])
        elif fine.any():
            scores[fine] = _score(scorer, graph, parameters.configs(parameters.rows(codes[fine])))
        search.tell(scores, changes)
        if search.scored:
            history.append((search.scored, float(search.best(1)[1][0])))
            if callback is not None and callback(*map(cast, (int, float), history[-1]), saved) is True:
                break
    codes, scores = search.best(keep, differ)
    configs = parameters.configs(parameters.rows(codes))
    plain = isinstance(configs, np.ndarray) and configs.ndim == 2
    named = [graph.schema.decode("config", row) for row in configs] if plain else []
    return SearchResult(
        method, scores, configs, named, search.scored, size if size < 2**62 else -1,
        np.array(history, np.float64).reshape(-1, 2), saved(),
    )  # fmt: skip
