"""Base class of scorers: rankers, ensembles, baselines and your own."""

from __future__ import annotations

import inspect
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Self, Unpack

import numpy as np
from numpy.typing import NDArray

from tpugraphs import __version__
from tpugraphs.data.graph import Graph, Graphs, Rows, TableLike, Valid
from tpugraphs.distributed.ranks import Ranks
from tpugraphs.errors import ConfigError, DataError, Error, check_graphs
from tpugraphs.evaluation.evaluator import EvaluateOptions, evaluate, measured_runtimes
from tpugraphs.evaluation.report import Report
from tpugraphs.evaluation.scorer import ChooseOptions, Scorer, Scores
from tpugraphs.metrics import VALIDATION
from tpugraphs.names import kind_named
from tpugraphs.ranker.conventions import Convention, measured, not_fitted
from tpugraphs.system import check_whole, files, tensorfile

if TYPE_CHECKING:
    from tpugraphs.ranker.arguments import AdaptOptions


class ScorerBase(Convention, ABC):
    """Base of scorers: everything that follows from `predict`.

    A subclass defines `kind` and `predict`, which may take `tta`, `precision` and `verbose` as ``**options``
    and ignore them. To be saved, it also defines `to_file` and `from_file`, and is registered with
    :func:`tpugraphs.ranker.filekinds.register`.
    """

    #: Kind stored in files of this class; see :func:`tpugraphs.ranker.filekinds.register`.
    file_kind: str = ""
    #: Whether `predict` takes configs that the graph does not have, in place of rows.
    takes_configs: bool = False

    @property
    @abstractmethod
    def kind(self) -> str:
        """Kind of the graphs it scores: ``"layout"``, ``"tile"`` or ``"graph"`` (of any schema)."""

    @abstractmethod
    def predict(
        self,
        graph: Graph,
        configs: Rows | None = None,
        tta: int = 0,
        *,
        precision: str | None = None,
        verbose: bool | None = None,
    ) -> Scores:
        """Return scores (n,) of configs of a graph: smaller = predicted faster.

        Parameters
        ----------
        graph : Graph
            Of the scorer's `kind`.
        configs : slice, (n,) int or (C,) bool, optional
            Which configs, in which order, as for ``graph.select``; by default all.
        tta : int
            Mean over this many random orders of the configs; 0: the given order, once.
        precision : {"f32", "bf16", "int8"}, optional
            Of the operands of matrix products; by default the scorer's own.
        verbose : bool, optional
            Show a progress bar on long work; by default in a terminal or notebook.

        Returns
        -------
        (n,) float
            In the order of `configs`.
        """

    def fit(self, train: Graphs, valid: Valid = None) -> Self:
        """Learn from measured graphs and return the scorer. By default there is nothing to learn.

        Parameters
        ----------
        train : graph or sequence of graphs
            Graphs with measured runtimes.
        valid : the same, optional
            Graphs to validate on, for scorers that choose parameters.

        Returns
        -------
        scorer
            The instance itself.
        """
        return self

    @property
    def name(self) -> str:
        """Name in reports."""
        return type(self).__name__

    @property
    def metric(self) -> str:
        """Metric of `score`, a key of :data:`tpugraphs.metrics.VALIDATION`."""
        return kind_named(self.kind).metric

    @property
    def members(self) -> dict[str, Scorer]:
        """Scorers that it is made of, by their names in reports."""
        return {}

    @property
    def node_padding(self) -> int | None:
        """Padding that lists in the node features must have, None if any will do."""
        return None

    def share_prepared(self, other: object) -> bool:
        """Share prepared graphs with `other` if both prepare them in the same way. Return whether they do.

        Parameters
        ----------
        other : scorer
            One that scores the same graphs.

        Returns
        -------
        bool
            Whether both share them from now on.
        """
        return False

    def adapt(self, graph: Graph, configs: Rows | None = None, **options: Unpack[AdaptOptions]) -> Scorer:
        """Return a scorer that has also learnt from a few measurements: see :meth:`tpugraphs.Ranker.adapt`.

        Parameters
        ----------
        graph : Graph
            The graph that was measured.
        configs : slice, (n,) int or (C,) bool, optional
            Its measured configs; by default all that ran.
        **options
            As there.

        Returns
        -------
        scorer
            A new one; this one does not change.

        Raises
        ------
        Error
            The class does not support it.
        """
        raise Error(f"{type(self).__name__} cannot adapt: fit a new one on all measurements")

    def rank(
        self,
        graph: Graph,
        configs: Rows | None = None,
        tta: int = 0,
        precision: str | None = None,
        verbose: bool | None = None,
        together: int = 0,
    ) -> NDArray[np.int64]:
        """Return the positions (n,) int64 of the configs, predicted fastest first; ties keep their order.

        Parameters
        ----------
        graph, configs, tta, precision, verbose
            Those of `predict`.
        together : int
            Put this many configs from `choose` first, which is better if that many will be measured.

        Returns
        -------
        (n,) int64
            Positions among the given configs.
        """
        check_whole("together", together, 0)
        how: dict[str, Any] = {"tta": tta, "precision": precision, "verbose": verbose}
        order = np.argsort(self.predict(graph, configs, **how), kind="stable").astype(np.int64, copy=False)
        if together == 0:
            return order
        chosen = self.choose(graph, together, configs, **how)
        return np.concatenate([chosen, order[~np.isin(order, chosen)]])

    def choose(
        self, graph: Graph, count: int = 10, configs: Rows | None = None, **options: Unpack[ChooseOptions]
    ) -> NDArray[np.int64]:
        """Return the positions (n,) int64 of `count` configs to measure, if only the fastest will be kept.

        By default these are the first of `rank`. Some scorers choose better, such as
        :class:`tpugraphs.ranker.MultiTaskGaussianProcess`. If there are fewer configs, all are returned.

        Parameters
        ----------
        graph, configs, **options
            Those of `predict`.
        count : int
            How many are to be measured.

        Returns
        -------
        (n,) int64
            Positions among the given configs.

        Raises
        ------
        ConfigError
            `count` is not a whole number of at least 1.
        """
        return self.rank(graph, configs, **options)[: check_whole("count", count, 1)]

    def evaluate(
        self,
        graphs: Graphs,
        configs: Rows | None = None,
        tta: int = 0,
        precision: str | None = None,
        members: bool = False,
        together: int = 0,
        **options: Unpack[EvaluateOptions],
    ) -> Report:
        """Judge the ranking of graphs with measured runtimes; see :func:`tpugraphs.evaluation.evaluate`.

        Parameters
        ----------
        graphs, configs, **options
            Those of that function, for example ``official=True``.
        tta, precision
            Those of `predict`.
        members : bool
            Also judge the members of an ensemble.
        together : int
            As in `rank`: judge an order that begins with this many chosen together.

        Returns
        -------
        Report
            Of this scorer, with `members` also of each of them.

        Raises
        ------
        Error
            Not fitted.
        ConfigError, DataError
            See that function.
        """
        self.require_fit("evaluate")
        if getattr(configs, "ndim", 0) > 1:
            raise ConfigError("configs: expected row numbers: configs given as such have no runtimes here")
        known: dict[str, None] = {}

        def noted(score: Callable[..., Any], graph: Graph, *rows: Any) -> Any:
            known.update({str(graph.name): None} if self.knows(graph) else {})
            return score(graph, *rows)

        how: ChooseOptions = {"tta": tta, "precision": precision, "verbose": options.get("verbose")}
        noting = {n: partial(noted, score) for n, score in self.judged(members, together, **how).items()}
        report = evaluate(noting, graphs, configs=configs, **options)
        ranks = options.get("communicator")
        parts = [known] if ranks is None else Ranks(ranks).exchange(lambda: list(known))
        learnt = {name for part in parts for name in part}
        return replace(report, known=tuple(dict.fromkeys(r.graph for r in report.rows if r.graph in learnt)))

    def knows(self, graph: Graph) -> bool:
        """Return whether the scorer, or one that it is made of, is known to have learnt from this very graph.

        Parameters
        ----------
        graph : Graph
            With measured runtimes.

        Returns
        -------
        bool
            Reports mark such graphs as known.
        """
        return any(getattr(member, "knows", lambda _: False)(graph) for member in self.members.values())

    def judged(
        self, members: bool = False, together: int = 0, **options: Unpack[ChooseOptions]
    ) -> dict[str, Callable[..., Scores | NDArray[np.int64]]]:
        """Return the scoring functions that `evaluate` judges, by name.

        Parameters
        ----------
        members : bool
            Also those of members.
        together : int
            As in `rank`.
        **options
            Those of `predict`.

        Returns
        -------
        dict of str to callable
            Functions of a graph and rows, as :func:`tpugraphs.evaluation.evaluate` takes them.
        """
        scorers = {self.name: self, **(self.members if members else {})}
        return {name: scoring(scorer, together, **options) for name, scorer in scorers.items()}

    def score(self, graphs: Graphs | TableLike, y: Any = None) -> float:
        """Return the mean of the metric over graphs: greater is better, as in scikit-learn.

        Parameters
        ----------
        graphs : graph or iterable of graphs
            Graphs with measured runtimes. Configs that failed are left out.
        y : (C,) array, or list of one such array per graph, optional
            Runtimes to judge by, in place of those of the graphs.

        Returns
        -------
        float
            Kendall's tau, or for tile graphs 1 - the slowdown of the best of five.

        Raises
        ------
        ConfigError
            `graphs` holds no graphs.
        DataError
            No graph, or one without measured runtimes.
        """
        values: list[float] = []
        given: Any = measured(graphs, y, self)
        check_graphs("graphs", given)
        for graph in [given] if hasattr(given, "config_runtime") else given:
            rows = getattr(graph, "ran", None)
            runtimes = measured_runtimes(graph, rows)
            values.append(VALIDATION[self.metric](np.asarray(self.predict(graph, rows)), runtimes))
        if not values:
            raise DataError("graphs: expected at least one graph, got none", field="graphs", found="0 graphs")
        return float(np.mean(values))

    def __repr__(self) -> str:
        usual = inspect.signature(type(self)).parameters.items()
        own = ((name, repr(getattr(self, name)), repr(p.default)) for name, p in usual if hasattr(self, name))
        given = ", ".join(f"{name}={value}" for name, value, default in own if value != default)
        done = "fitted" if self.fitted else "not fitted"
        return f"<{type(self).__name__}{f'({given})' if given else ''}: {done}>"

    def require_fit(self, what: str) -> None:
        """Raise Error if nothing was learnt yet.

        Parameters
        ----------
        what : str
            What needs a fit, for the message.

        Raises
        ------
        Error
            Nothing was learnt.
        """
        if not self.fitted:
            raise not_fitted(f"this {type(self).__name__} has learnt nothing yet: call fit before {what}")

    def to_file(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return metadata (JSON values) and tensors (float32, float64 or int64) that `from_file` takes.

        Raises
        ------
        ConfigError
            The class does not define `to_file`.
        """
        todo = "register its kind of file with tpugraphs.ranker.filekinds.register"
        raise ConfigError(f"{type(self).__name__} cannot be saved: give it to_file and from_file, and {todo}")

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything that prediction needs to one safetensors file, atomically.

        Parameters
        ----------
        path : path
            Usually ends in ``.safetensors``.

        Raises
        ------
        Error
            Nothing was learnt.
        OSError
            The file cannot be written.
        """
        metadata, tensors = self.to_file()
        tensorfile.write(files.file_name(path), self.file_kind, {"package": __version__, **metadata}, tensors)

    @classmethod
    def from_file(cls, path: str, metadata: dict[str, Any], tensors: dict[str, NDArray[Any]]) -> Self:
        """Restore what `to_file` returned.

        Parameters
        ----------
        path : str
            The file, for messages.
        metadata : dict
            JSON values.
        tensors : dict of str to array
            Arrays by name.

        Returns
        -------
        scorer
            It predicts the same bits.

        Raises
        ------
        CheckpointError
            The file is damaged.
        ConfigError
            The class cannot be read from a file.
        """
        raise ConfigError(f"{cls.__name__} cannot be read from a file: give it from_file")

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read what `save` wrote; it predicts the same bits.

        Parameters
        ----------
        path : path
            A file of this class; :func:`tpugraphs.load_ranker` opens any kind.

        Returns
        -------
        scorer
            Ready to predict.

        Raises
        ------
        CheckpointError
            Not such a file, damaged, or of a version that is not known; the message names the field.
        """
        name = files.file_name(path)
        return cls.from_file(name, *tensorfile.read(name, cls.file_kind))


def check_scorer(name: str, value: Any) -> Scorer:
    """Return `value` if it is a fitted scorer, else raise ConfigError."""
    if not isinstance(value, Scorer):
        todo = "derive a class of your own from tpugraphs.ranker.ScorerBase"
        todo = "use tg.load_ranker(path) to read a file" if isinstance(value, (str, os.PathLike)) else todo
        found = type(value).__name__
        raise ConfigError(f"{name}: expected a fitted scorer such as a tg.Ranker, got {found}; {todo}")
    if not value.fitted:
        raise ConfigError(f"{name}: it has learnt nothing yet: fit or load it first")
    return value


@contextmanager
def unchanged_if_it_fails(*scorers: Any) -> Iterator[None]:
    """Restore scorers and their members if the block raises."""
    before = [(one, dict(vars(one))) for scorer in scorers for one in _parts(scorer)]
    try:
        yield
    except BaseException:
        for one, known in before:
            vars(one).update(known)
            for name in vars(one).keys() - known.keys():
                delattr(one, name)
        raise


def _parts(scorer: Any) -> Iterator[Any]:
    """Yield a scorer and all its members."""
    yield scorer
    for value in vars(scorer).values():
        held = value.values() if isinstance(value, dict) else value if isinstance(value, tuple) else (value,)
        for one in held:
            if isinstance(one, ScorerBase):
                yield from _parts(one)


def scoring(
    scorer: Any, together: int = 0, **options: Unpack[ChooseOptions]
) -> Callable[..., Scores | NDArray[np.int64]]:
    """Return a function of a graph (and rows) as :func:`tpugraphs.evaluation.evaluate` takes it.

    With `together` the scores are the places in the order of :meth:`ScorerBase.rank`.

    Parameters
    ----------
    scorer : scorer
        Any.
    together, **options
        Those of :meth:`ScorerBase.rank`.

    Returns
    -------
    callable
        Takes a graph, and optionally configs; returns scores (n,).
    """
    if check_whole("together", together, 0) == 0:
        return partial(scorer.predict, **options)

    def places(graph: Graph, configs: Rows | None = None) -> NDArray[np.int64]:
        order: NDArray[np.int64] = scorer.rank(graph, configs, together=together, **options)
        scores = np.empty_like(order)
        scores[order] = np.arange(order.size)
        return scores

    return places
