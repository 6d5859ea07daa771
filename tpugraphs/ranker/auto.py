"""The estimator of ``tg.Ranker("auto")``: chooses what to train by cross-validation, within a time."""

from __future__ import annotations

import itertools
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial, reduce
from numbers import Real
from typing import Any, Unpack

import numpy as np
from numpy.typing import NDArray

from tpugraphs import metrics
from tpugraphs.data import Graph, Graphs, Rows, Schema, family, split_configs
from tpugraphs.data.graph import Valid
from tpugraphs.data.identity import known_as
from tpugraphs.errors import ConfigError, DataError, Error, check_graph
from tpugraphs.evaluation.evaluator import measured_runtimes
from tpugraphs.evaluation.scorer import ChooseOptions
from tpugraphs.kernels import sample_without_replacement
from tpugraphs.kernels.streams import Stream
from tpugraphs.preprocess.checks import check_measured, check_order
from tpugraphs.ranker import filekinds
from tpugraphs.ranker.conventions import every_graph
from tpugraphs.ranker.ensemble import Ensemble
from tpugraphs.ranker.estimator import Estimator
from tpugraphs.ranker.folds import Fold, unseen_graphs
from tpugraphs.ranker.multitask import MultiTaskGaussianProcess
from tpugraphs.ranker.process import GaussianProcess, Process
from tpugraphs.ranker.ranker import ESTIMATORS, Ranker
from tpugraphs.recipes import Recipe
from tpugraphs.system import Progress, check_type, counted, log, tensorfile
from tpugraphs.training.callbacks import Callback, History, pass_on_interrupt
from tpugraphs.training.fit import FitOptions
from tpugraphs.training.trainset import as_graphs, no_graphs, warn_of_skipped

PROCESS, TREES, NETWORK, ROWS = "process", "trees", "network", "row network"
_NETWORKS: dict[str, dict[str, Any]] = {NETWORK: {}, ROWS: {"nodes": False}}
_STEPS = (250, 1000, 4000, 16_000, 64_000)  # of networks, as long as the time allows
_ROWS = 500  # of a single graph that the process learns: its time grows with the cube
_LEAST = 10  # configs of a single graph to choose by
_UNSEEN = 0.25  # of its configs, in a fold
_ERRORS = 2  # standard errors between what counts as equally good
_SHARE = 0.5  # of the time, for the first look at all that is short
_ENTRIES: dict[str, Any] = {  # of a choice in a file, with their types
    "members": list, "steps": int, "objective": str, "values": dict, "judged": int, "folds": int,
    "left_out": dict,
}  # fmt: skip

Values = NDArray[np.float64]


@dataclass(frozen=True)
class Choice:
    """What `auto` chose, and by which values.

    Attributes
    ----------
    members : tuple of str
        What is trained: its scores are averaged.
    steps : int
        Of the network.
    objective : str
        What was asked for.
    values : dict of str to float
        By what could be chosen: of the order, the mean tau; otherwise how much slower than the best, in %.
    judged : int
        Graphs, or parts of one, that were left out once each.
    folds : int
    left_out : dict of str to str
        What could not be tried, and why.
    """

    members: tuple[str, ...]
    steps: int
    objective: str
    values: dict[str, float]
    judged: int
    folds: int
    left_out: dict[str, str]

    def __str__(self) -> str:
        named = " + ".join(self.members)
        label = named.replace(NETWORK, f"{NETWORK} of {counted(self.steps, 'step')}")
        if not self.values:
            return f"{label}: not chosen by cross-validation"
        unit = "tau {:.3f}" if self.objective == "order" else "{:.2f} % above the best"
        order = sorted(self.values, key=lambda name: self.values[name] * (-1) ** (self.objective == "order"))
        others = "".join(f", {name} {self.values[name]:.3g}" for name in order if name != named)
        left_out = "; ".join(f"{name}, {text}" for name, text in self.left_out.items())
        why = f" Left out: {left_out}." if left_out else ""
        return (
            f"{label}: {unit.format(self.values[named])} ({self.objective}), by cross-validation over "
            f"{counted(self.judged, 'graph')} in {counted(self.folds, 'fold')}{others}.{why}"
        )


@dataclass
class _Tried:
    """Scores of what was trained without the judged graphs, by graph, and the configs it would measure."""

    scores: list[Values]
    chosen: list[NDArray[np.int64]] | None
    seconds: float


class AutoEstimator(Estimator):
    """Choose a process, trees, a network or a mean of them, and train it.

    Each is trained on a part of the graphs and judged on those left out, short trainings first; networks
    become longer as long as the time allows. Of all that are within two standard errors of the best, it takes
    the one with the best order. The time decides what is tried, so two machines may choose differently; with
    `members` and `steps` nothing depends on it.

    Parameters
    ----------
    recipe : Recipe
    fields : AutoFields
    seed : int
    precision : {"f32", "bf16"}
        Of the network.

    Attributes
    ----------
    kind : str
        It ranks graphs of any schema.
    ensemble : Ensemble or None
        What was trained.
    choice : Choice or None
    """

    kind: str = "graph"

    def __init__(self, recipe: Recipe, fields: Any, seed: int, precision: str) -> None:
        self.recipe, self.fields, self.seed, self.precision = recipe, fields, int(seed), precision
        self.ensemble: Ensemble | None = None
        self.choice: Choice | None = None
        self.history: History | None = None
        self.learnt_from: frozenset[str] = frozenset()
        self.single = False  # whether all that is learnt is one graph

    @property
    def fitted(self) -> bool:
        """Whether something was trained."""
        return self.ensemble is not None

    @property
    def size(self) -> int | None:
        """Number of weights and leaves of what was trained."""
        return None if self.ensemble is None else self.ensemble.num_parameters

    @property
    def schema(self) -> Schema | None:
        """Schema of the training graphs."""
        rankers = () if self.ensemble is None else self.ensemble.rankers
        return next((one for member in rankers if (one := getattr(member, "schema", None)) is not None), None)

    def _member(
        self, name: str, train: Sequence[Graph], steps: int, callbacks: Sequence[Callback] = ()
    ) -> Any:
        """Train one on graphs."""
        if name == PROCESS and self.single:
            (graph,) = train
            key = (self.seed, Stream.TREES)
            some = sample_without_replacement(graph.ran.size, min(graph.ran.size, _ROWS), key, order="sorted")
            return GaussianProcess(seed=self.seed).fit(graph, np.asarray(graph.ran)[some])
        if name == PROCESS:
            return MultiTaskGaussianProcess(seed=self.seed).fit(train)
        if name == TREES:
            if any(graph.kind != self.kind for graph in train):
                raise ConfigError("trees of published graphs are those of eighth-lightgbm, alone")
            made = Ranker("eighth-lightgbm", self.seed, objective="l2", target="normal-score")
        else:
            own = _NETWORKS[name]
            made = Ranker("graph-config", self.seed, precision=self.precision, steps=steps, **own)
        made.fit(train, callbacks=callbacks, verbose=False)
        pass_on_interrupt(made)
        return made

    def fit(self, train: Graphs, valid: Valid, how: FitOptions) -> History:
        """Choose and train; see :meth:`tpugraphs.Ranker.fit`.

        Graphs of `valid` replace cross-validation; a share of the configs has no effect. Callbacks see what
        is trained in the end, if that takes steps.
        """
        for callback in how.callbacks:
            check_type("callbacks", callback, Callback)
        for name in ("sample_weight", "communicator", "checkpoint_dir"):
            if getattr(how, name) is not None:
                raise ConfigError(f"{name}: auto, which trains several rankers, takes none; name one of them")
        began = time.monotonic()
        self.history = History(metric=self.fields.metric)
        graphs = _of_use(list(every_graph("train", train)), self.history.skipped)
        self.single = len(graphs) == 1
        steps = how.steps or how.epochs
        with Progress(None, "auto", "fit", how.verbose) as bar:
            search = _Search(self, graphs, valid, steps, began, bar)
            while self.ensemble is None:
                choice = search.choose()
                for name in choice.members:
                    try:
                        search.made[name] = self._member(name, graphs, choice.steps, how.callbacks)
                    except Error as error:  # fewer graphs could be learnt
                        search.leave_out(name, error)
                        break
                else:
                    self.ensemble = Ensemble([search.made[name] for name in choice.members])
        self.learnt_from = frozenset(known_as(graph) for graph in graphs)
        self.choice = choice
        log.info("auto: %s", choice)
        self.history.seconds = time.monotonic() - began
        warn_of_skipped(self.history.skipped, stacklevel=3)
        return self.history

    def scores(
        self, graph: Graph, configs: Rows | None, tta: int, precision: str | None, verbose: bool | None
    ) -> NDArray[Any]:
        """Return scores (n,): see :meth:`tpugraphs.Ranker.predict`."""
        assert self.ensemble is not None
        return self.ensemble.predict(graph, configs, tta, precision=precision, verbose=verbose)

    def choose(
        self, graph: Graph, count: int, configs: Rows | None = None, **options: Unpack[ChooseOptions]
    ) -> NDArray[np.int64] | None:
        """Return the configs to measure, as the process chooses them; None without a process."""
        assert self.ensemble is not None
        one = next((one for one in self.ensemble.rankers if isinstance(one, Process)), None)
        return None if one is None else one.choose(graph, count, configs, **options)

    # Files

    def to_file(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return metadata and tensors that `read` takes."""
        assert self.ensemble is not None
        members, tensors = filekinds.write_members(self.ensemble.rankers)
        return {"members": members, "choice": asdict(self.choice)}, tensors  # type: ignore[arg-type]

    def read(self, path: str, metadata: Mapping[str, Any], tensors: Mapping[str, NDArray[Any]]) -> None:
        """Restore what `to_file` returned; CheckpointError if that is damaged."""
        rankers = filekinds.read_members(path, metadata, tensors)
        given = tensorfile.entry(path, metadata, "choice", dict)
        choice = {name: tensorfile.entry(path, given, name, kind) for name, kind in _ENTRIES.items()}
        with tensorfile.sound(path, "choice", "what was chosen, and by which values"):
            choice["members"] = tuple(map(str, choice["members"]))
            choice["values"] = {name: float(value) for name, value in choice["values"].items()}
            self.ensemble, self.choice = Ensemble(rankers), Choice(**choice)
            str(self.choice)  # its values have the name of what was chosen


class _Search:
    """Tries what can be trained on folds of the graphs, as long as there is time.

    Parameters
    ----------
    auto : AutoEstimator
        Trains them.
    graphs : list of graphs
    valid : graphs or None
        Graphs to judge on; None: cross-validation.
    steps : int or None
        Of the network, if the user gave them.
    began : float
        When the time began.
    bar : Progress
    """

    def __init__(
        self, auto: AutoEstimator, graphs: list[Graph], valid: Any, steps: int | None, began: float,
        bar: Progress,
    ) -> None:  # fmt: skip
        self.auto, self.fields, self.began, self.bar = auto, auto.fields, began, bar
        self.lengths = _STEPS if steps is None else (steps,)
        self.tried: dict[tuple[str, int], _Tried] = {}
        self.left_out: dict[str, str] = {}
        self.folds = _folds(graphs, valid, self.fields.cv, auto.seed)
        self.times: list[Values] = []  # of the judged graphs
        self.made: dict[str, Any] = {}  # members, trained on all graphs
        first = graphs[0]  # without features of its own a graph is nothing but its nodes
        described = first.graph_feat is not None and first.num_nodes > 1
        self.names = (PROCESS, TREES, *(_NETWORKS if described else [NETWORK]))

    def _left(self) -> float:
        return float(self.fields.seconds) - (time.monotonic() - self.began)

    def choose(self) -> Choice:
        """Return what ranks best.

        Raises
        ------
        Error
            Nothing can be trained on these graphs.
        """
        fields = self.fields
        if fields.members:
            named = tuple(dict.fromkeys(part.strip() for part in fields.members.split("+")))
            if unknown := [name for name in named if name not in (PROCESS, TREES, *_NETWORKS)]:
                expected = f"some of {PROCESS}, {TREES}, {NETWORK} and {ROWS}, joined by +"
                raise ConfigError(f"members: expected {expected}, got {unknown[0]!r:.40}")
            if failed := [name for name in named if name in self.left_out]:
                raise Error(f"auto: {failed[0]}: {self.left_out[failed[0]]}")
            return Choice(named, self.lengths[len(self.lengths) > 1], fields.objective, {}, 0, 0, {})
        if self.folds and not self.times:
            self._first_look()
            self._longer_networks()
        if self.tried:
            return self._best()
        if left := [name for name in self.names if name not in self.left_out]:
            return Choice((left[0],), self.lengths[-1], fields.objective, {}, 0, 0, self.left_out)
        why = "; ".join(f"{name}: {text}" for name, text in self.left_out.items())
        raise Error(f"auto: nothing can be trained on these graphs: {why}")

    def leave_out(self, name: str, why: Exception) -> None:
        """Leave out a candidate that cannot be trained: note why, and drop its scores."""
        self.left_out[name] = str(why)
        self.tried = {key: tried for key, tried in self.tried.items() if key[0] != name}

    def _first_look(self) -> None:
        """Try all that is short on the first fold; then on as many more as half of the time allows."""
        for number, fold in enumerate(self.folds):
            began = time.monotonic()
            for name in self.names:
                if name not in self.left_out:
                    self._try((name, self.lengths[0]), fold)
            taken = time.monotonic() - began
            runtimes = (measured_runtimes(graph, graph.ran) for graph in fold.unseen)
            self.times += [np.asarray(times, np.float64) for times in runtimes]
            if number + 1 < len(self.folds) and taken > _SHARE * self._left() - taken:
                self.folds = self.folds[: number + 1]
                break

    def _longer_networks(self) -> None:
        """Try longer networks while they get better, and all folds and the final fit fit into the time."""
        share = 1 / len(self.folds)
        growing = [name for name in _NETWORKS if (name, self.lengths[0]) in self.tried]
        for before, steps in itertools.pairwise(self.lengths):
            for name in list(growing):
                one = self.tried[name, before]
                others = sum(tried.seconds for key, tried in self.tried.items() if key[0] not in _NETWORKS)
                if one.seconds * steps / before * (1 + share) + others * share > self._left():
                    growing.remove(name)
                    continue
                whole = all(self._try((name, steps), fold) for fold in self.folds)
                if not whole or not self._better((name, steps), (name, before)):
                    growing.remove(name)

    def _better(self, key: tuple[str, int], other: tuple[str, int]) -> bool:
        """Return whether a candidate beats another by the objective or by Kendall's tau."""
        objectives = {self.fields.objective, "order"}
        return any(self._values([key], one).mean() < self._values([other], one).mean() for one in objectives)

    def _try(self, key: tuple[str, int], fold: Fold) -> bool:
        """Train one without the graphs of a fold, and keep its scores of these; return whether it could."""
        began = time.monotonic()
        try:
            scorer = self.auto._member(key[0], list(fold.train), key[1])
        except Error as error:
            if key[1] == self.lengths[0]:
                self.leave_out(key[0], error)
            self.tried.pop(key, None)  # a longer network: the shorter one stays
            return False
        chooses = key[0] == PROCESS and self.fields.objective == "best-of-k"
        tried = self.tried.setdefault(key, _Tried([], [] if chooses else None, 0.0))
        for graph in fold.unseen:
            tried.scores.append(np.asarray(scorer.predict(graph, graph.ran), np.float64))
            if tried.chosen is not None:
                tried.chosen.append(scorer.choose(graph, self.fields.tried, graph.ran))
        tried.seconds += time.monotonic() - began
        self.bar.update(1)
        return True

    def _values(self, keys: Sequence[tuple[str, int]], objective: str) -> Values:
        """Return how bad the mean of the scores is on every judged graph."""
        found, count = np.empty(len(self.times)), self.fields.tried
        chosen = next((one for key in keys if (one := self.tried[key].chosen) is not None), None)
        for i, times in enumerate(self.times):
            scores = np.mean([self.tried[key].scores[i] for key in keys], 0)
            if objective == "order":
                found[i] = -metrics.kendall_tau(scores, times)
            elif objective == "best-of-k" and chosen is not None:
                found[i] = 100 * (times[chosen[i]].min() / times.min() - 1)
            else:
                k = count if objective == "best-of-k" else 1
                found[i] = 100 * metrics.top_k_slowdown(scores, times, k)
        return found

    def _best(self) -> Choice:
        objective = self.fields.objective
        judge = partial(self._values, objective=objective)
        networks = [key for key in self.tried if key[0] in _NETWORKS]
        network = min(networks, key=lambda key: float(judge([key]).mean()), default=None)
        keys = [key for key in self.tried if key not in networks or key == network]
        means = [c for size in range(1, len(keys) + 1) for c in itertools.combinations(keys, size)]
        values = [judge(c) for c in means]
        best = min(values, key=lambda value: float(value.mean()))
        close = [i for i, value in enumerate(values) if _as_good(value, best)]
        taken = means[min(close, key=lambda i: float(self._values(means[i], "order").mean()))]
        sign = -1 if objective == "order" else 1
        values_of = dict[str, float]()
        for one, value in zip(means, values, strict=True):
            values_of[" + ".join(name for name, _ in one)] = sign * float(value.mean())
        for name, steps in networks:
            if (name, steps) != network:
                values_of[f"{name} of {counted(steps, 'step')}"] = sign * float(judge([(name, steps)]).mean())
        named = tuple(name for name, _ in taken)
        length = self.lengths[0] if network is None else network[1]
        return Choice(named, length, objective, values_of, len(self.times), len(self.folds), self.left_out)


def _of_use(graphs: list[Graph], skipped: dict[str, str]) -> list[Graph]:
    """Return the graphs with an order to learn, in a schema that fits all; note why others have none."""
    found = []
    for graph in graphs:
        check_graph("train", graph)
        try:
            check_measured(graph, "graph")
            check_order(str(graph.name), measured_runtimes(graph, np.asarray(graph.ran)), None)
            found.append(graph)
        except DataError as error:
            if len(graphs) == 1:
                raise
            skipped[str(graph.name)] = str(error)
    if not found:
        last = [*skipped.values()][-1]
        raise DataError(f"none of the {len(graphs)} graphs can be trained on; the last: {last}")
    schemas = [graph.schema for graph in found if graph.schema.inferred]
    if len(schemas) == len(found) and any(schema != schemas[0] for schema in schemas):
        whole = replace(reduce(Schema.join, schemas), inferred=False)  # a fold may not show all of it
        found = [graph.replace(schema=whole) for graph in found]
    return found


def _as_good(value: Values, best: Values) -> bool:
    """Return whether the mean is within some standard errors of the best one, compared graph by graph."""
    worse = value - best
    error = worse.std() / np.sqrt(max(1, worse.size - 1))
    return bool(worse.mean() <= _ERRORS * error)


def _folds(graphs: list[Graph], valid: Any, count: int, seed: int) -> list[Fold]:
    """Return what to judge on: given graphs, graphs left out by family, or configs of the only graph."""
    if not isinstance(valid, Real) and not no_graphs(valid):
        return [Fold("valid", graphs, (), list(as_graphs("valid", valid)))]
    if len(graphs) == 1:
        if graphs[0].ran.size < _LEAST:
            return []
        try:
            parts = [split_configs(graphs[0], (1 - _UNSEEN, _UNSEEN), seed + i) for i in range(count)]
        except DataError:  # too few that differ
            return []
        halves = [[[graphs[0].select(rows)] for rows in part] for part in parts]
        return [Fold(f"split {i}", known, (), unseen) for i, (known, unseen) in enumerate(halves)]
    families = [family(graph) for graph in graphs]
    groups = families if len(set(families)) > 1 else range(len(graphs))
    return unseen_graphs(graphs, [*groups], folds=min(count, len(set(groups))), seed=seed)


ESTIMATORS["auto"] = AutoEstimator
