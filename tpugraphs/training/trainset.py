"""What a fit learns from: graphs, splits of their configs, and graphs prepared for the core."""

from __future__ import annotations

import functools
import threading
import warnings
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from numbers import Real
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tpugraphs import _core, kernels
from tpugraphs.data import Graph, arrays, split_configs
from tpugraphs.data.identity import digest, fingerprint, identities, known_as
from tpugraphs.distributed.ranks import Ranks
from tpugraphs.errors import ConfigError, DataError, check_graphs, graph_hint
from tpugraphs.kernels.streams import Stream
from tpugraphs.preprocess.checks import check_kind, check_measured, check_weighted, of_kind
from tpugraphs.preprocess.pipeline import Pipeline
from tpugraphs.system import check_share, counted, log

if TYPE_CHECKING:
    from tpugraphs.network.network import Network
    from tpugraphs.training.fit import FitOptions

CACHE_BYTES = 1 << 30  # of prepared training graphs kept in memory
MAPPED_BYTES = 256 << 20  # of the packs of these graphs whose pages may stay in memory after use
_VALID_LEAST = 50  # configs of a validation graph: with fewer, its metric is too noisy


GraphSequence = Sequence[Graph]
"""A sequence of graphs, which may load them when indexed."""


def as_graphs(what: str, graphs: Any) -> GraphSequence:
    """Return one graph, or a sequence of graphs (which may load them when indexed), as a sequence."""
    if hasattr(graphs, "config_runtime"):
        return [graphs]
    if hasattr(graphs, "iloc"):
        graphs = list(graphs)  # a pandas Series is indexed by its labels
    check_graphs(what, graphs)
    indexed = hasattr(graphs, "__len__") and hasattr(graphs, "__getitem__")
    sequence: GraphSequence = graphs if indexed else list(graphs)
    if len(sequence) == 0:
        raise DataError(f"{what}: expected at least one graph, got none", field=what, found="0 graphs")
    return sequence


def no_graphs(valid: Any) -> bool:
    """Return whether `valid` of a fit names no graphs."""
    return valid is None or (isinstance(valid, (list, tuple)) and not valid)


def check_graph(what: str, graph: Graph, kind: str) -> DataError | None:
    """Return why a graph cannot be ranked, None if it can be.

    Raises ConfigError if it is not a graph, DataError if it is of another kind.
    """
    if not isinstance(graph, Graph):
        raise ConfigError(f"{what}: expected graphs, found {type(graph).__name__}; {graph_hint(graph)}")
    try:
        check_kind(graph, kind)
    except DataError as error:
        if not of_kind(graph, kind):
            todo = "leave it out, or give each kind of graph its own ranker in tg.Routed"
            raise DataError(f"{what}: {error}; {todo}", field=what, found=type(graph).__name__) from None
        return error
    return None


def warn_of_skipped(skipped: Mapping[str, str], stacklevel: int) -> None:
    """Warn of graphs that a fit left out, by name and reason, with how many there are and the first."""
    if skipped:
        left_out = f"{counted(len(skipped), 'graph')} left out of the fit"
        more = "; history_.skipped lists all" if len(skipped) > 1 else ""
        for why in skipped.values():
            log.warning("left out of the fit: %s", why)
        warnings.warn(f"{left_out}: {next(iter(skipped.values()))}{more}", stacklevel=stacklevel + 1)


def as_weights(train: Any, graphs: GraphSequence, given: Any) -> list[Any] | None:
    """Return the weights of the configs, unchecked, as one entry per graph; None if there are none."""
    if given is None:
        return None
    if hasattr(train, "config_runtime"):
        return [given]
    listed = isinstance(given, (list, tuple)) or getattr(given, "dtype", None) == np.dtype(object)
    if not listed or len(given) != len(graphs):
        found = f"{len(given)}" if listed else f"a {type(given).__name__}"
        raise ConfigError(
            f"sample_weight: expected a list of {counted(len(graphs), 'array')}, one per graph "
            f"(None: all 1), got {found}"
        )
    return list(given)


def graph_weights(graph: Graph, given: Any) -> NDArray[np.float32] | None:
    """Return weights (C,) of a graph's configs; DataError unless they are numbers >= 0, one per config."""
    if given is None:
        return None
    with arrays.naming(str(graph.name)):
        weights = _core.as_floats("sample_weight", given, "C", (graph.num_configs,))
        arrays.refuse("sample_weight", weights < 0, weights, "numbers >= 0", "0 leaves a config out")
    return weights


def hold_out(
    train: Any, share: float, seed: int, kind: str = "layout", weights: list[Any] | None = None
) -> tuple[list[Any], list[Any]]:
    """Hold out a share of the configs of every graph; equal configs stay together.

    Returns the graphs without these configs, and graphs of these configs. `weights` of the configs of each
    graph become those of the remaining configs.

    Raises
    ------
    ConfigError
        `share` is not between 0 and 1, or the graphs are not in memory.
    DataError
        No graph can be split.
    """
    graphs = as_graphs("train", train)
    check_share("valid", share)
    if not _whole(graphs):
        raise ConfigError(
            "valid: a share of the configs can be held out of graphs in memory only; give graphs"
        )
    train_graphs: list[Any] = []
    valid_graphs: list[Any] = []
    for i, graph in enumerate(graphs):
        check_graph("train", graph, kind)
        try:
            check_measured(graph, kind)
            valid_rows, train_rows = split_configs(graph, (share, 1 - share), seed)
        except DataError:
            if not valid_graphs and i + 1 == len(graphs):
                raise
            train_graphs.append(graph)  # left out of the fit if it cannot be trained on
            continue
        if weights is not None and weights[i] is not None:
            weights[i] = graph_weights(graph, weights[i])[train_rows]  # type: ignore[index]
        train_graphs.append(graph.select(train_rows))
        valid_graphs.append(graph.select(valid_rows))
    return train_graphs, valid_graphs


def _whole(graphs: GraphSequence) -> bool:
    """Return whether fingerprints include configs: not for a lazy collection, which would read them all."""
    return isinstance(graphs, (list, tuple))


class Looked(NamedTuple):
    """What a first look at a training graph found.

    Attributes
    ----------
    name : str
    configs : int
        That are trained on, 0: the graph is left out.
    known, content : str
        Digests by `known_as` (empty of a graph that was not looked into) and, for checkpoints, by
        `fingerprint`.
    why : str or None
        Why the graph is left out.
    """

    name: str
    configs: int
    known: str
    content: str
    why: str | None


class TrainingSet:
    """Training graphs and their preprocessing. Fits of one recipe with several seeds may share them.

    Over ranks, each looks at its share of the graphs, one rank after the other, and then prepares the graphs
    of its own slates.

    Parameters
    ----------
    network : Network
        What is trained: its fields and seed say how graphs are split.
    pipeline : Pipeline
        Preprocessing. It is fitted to the graphs, unless the fit begins with another network's weights.
    train, valid
        See `Ranker.fit`.
    how : FitOptions
        The other arguments. Only fits with checkpoints need fingerprints.

    Attributes
    ----------
    graphs : sequence of graphs
        To train on.
    looked : list of Looked
        What is known of each.
    sizes : dict of int to int
        Nodes times configs in a slate of each graph that some rank has prepared, by number.
    useless : dict of int to str
        Names of graphs that cannot be trained on, by number.
    valid : list of (_core.Prepared, rows)
        Graphs to validate on: over ranks, those of this one.
    validates : bool
        Whether there are such graphs on any rank.
    skipped : dict of str to str
        Name of each graph that was left out -> reason.
    known : set of str
        Digests by `known_as` of the training graphs.
    hashes : dict of str to str
        Digests of the graphs to train and to validate on.
    """

    def __init__(self, network: Network, pipeline: Pipeline, train: Any, valid: Any, how: FitOptions) -> None:
        self.pipeline, self.hashed, self.warned = pipeline, how.checkpoint_dir is not None, False
        self.ranks = Ranks(how.communicator)
        self.skipped, self.looked, self.sizes = dict[str, str](), list[Looked](), dict[int, int]()
        self._slate = int(network.fields.configs)
        self._store, self._lock = _core.Store(CACHE_BYTES, MAPPED_BYTES), threading.Lock()
        self.useless = dict[int, str]()  # graphs that cannot be trained on, and their names
        held: GraphSequence = []
        self.graphs: GraphSequence = as_graphs("train", train)
        self.weights = as_weights(train, self.graphs, how.sample_weight)
        self.known = set[str]()
        if isinstance(valid, Real):
            given = self.graphs
            self.graphs, held = hold_out(given, float(valid), network.seed, pipeline.kind, self.weights)
            self.known.update(known_as(given[i]) for i in range(len(given)))
        elif not no_graphs(valid):
            held = as_graphs("valid", valid)
        self._given = {"graphs to train on": self.graphs, "graphs to validate on": held}
        self.ranks.agree_on_bits(lambda: self._described)
        if len(self.graphs) == 1 and self.ranks.alone:
            check_measured(self.graphs[0], pipeline.kind)
        self._look(learn=how.init is None)
        self.known.update(one.known for one in self.looked if one.known)
        self.valid, self.validates, own = self._prepare_valid(held, network.fields.valid_configs)
        self.hashes = {
            name: f"{len(parts)} graphs, {digest([' '.join(parts)], 8)}"
            for name, parts in (("train", [one.content for one in self.looked] * self.hashed), ("valid", own))
        }

    def contents(self) -> dict[str, Any]:
        """Return digests of what is learnt from and validated on, for ranks to compare."""
        found = self._described | {"contents of graphs to train on": digest(sorted(self.known))}
        if self.ranks.alone:  # all are here
            valid = [digest([prepared.name, np.asarray(prepared.times)]) for prepared, _ in self.valid]
            found["contents of graphs to validate on"] = digest(valid)
        return found

    @functools.cached_property
    def _described(self) -> dict[str, Any]:
        weights = [None if one is None else np.asarray(one).tolist() for one in self.weights or ()]
        graphs = {what: identities(one) for what, one in self._given.items()}
        return {"sample weights": digest(map(str, weights)), **graphs}

    def prepared(self, index: int) -> _core.Prepared | None:
        """Return graph `index`, or None if it cannot be trained on. If it is the only graph, raise."""
        with self._lock:
            known: _core.Prepared | None = self._store.get(index)
            if known is None and index not in self.useless:
                known = self._prepare(index)
            return known

    def agree(self, indices: Iterable[int]) -> bool:
        """Prepare graphs that no rank has prepared yet, on all ranks; return whether all are of use."""
        new = [index for index in dict.fromkeys(indices) if index not in self.sizes]

        def size(which: int) -> Any:
            prepared = self.prepared(index := new[which])
            if prepared is None:
                name = self.useless[index]
                return name, self.skipped[name]
            return prepared.num_nodes * min(prepared.num_configs, self._slate)

        for index, found in zip(new, self.ranks.each(len(new), size), strict=True):
            if isinstance(found, int):
                self.sizes[index] = found
            elif index not in self.useless:
                self._leave_out(index, *found)
        return not any(index in self.useless for index in new)

    def as_agreed(self, index: int) -> _core.Prepared:
        """Return a graph that some rank has prepared."""
        prepared = self.prepared(index)
        if prepared is None:
            raise self._differs(index)
        return prepared

    def _differs(self, index: int) -> ConfigError:
        expected, todo = "the graph that another rank has opened", "give all ranks the same files"
        return ConfigError(
            f"communicator: expected of {self.looked[index].name} {expected}, got another; {todo}"
        )

    def _prepare(self, index: int) -> _core.Prepared | None:
        graph, looked = self.graphs[index], self.looked[index]
        weights = graph_weights(graph, self.weights[index]) if self.weights else None
        try:
            if not self.ranks.alone and known_as(graph) != looked.known:
                raise self._differs(index)
            prepared = self.pipeline.apply_measured(graph, weights)
        except DataError as error:
            if len(self.graphs) == 1:
                raise
            self._leave_out(index, error.file or f"graph {index}", str(error))
            return None
        return self._store.put(index, prepared, prepared.nbytes)

    def _leave_out(self, index: int, name: str, why: str) -> None:
        self.useless[index], self.skipped[name] = name, why
        self.require_some()

    def require_some(self) -> None:
        """Raise DataError if no graph can be trained on."""
        if len(self.useless) == len(self.graphs):
            why = self.skipped[[*self.useless.values()][-1]]
            raise DataError(f"none of the {len(self.graphs)} graphs can be trained on; the last: {why}")

    def _look(self, learn: bool) -> None:
        """Look at all graphs and fit the preprocessing to them."""
        count, ranks, pipeline = len(self.graphs), self.ranks, self.pipeline

        def look(own: range) -> Any:
            if learn:
                pipeline.add(self._usable(own))
            else:
                deque(self._usable(own), maxlen=0)
            return pipeline.half_fitted() if learn else None, self.looked[own.start :]

        if learn:
            pipeline.begin()
        for rank in range(ranks.size):  # one by one: sums have one order
            own = functools.partial(look, ranks.share(count, rank))
            found = ranks.exchange(own if rank == ranks.rank else lambda: None)[rank]
            if rank != ranks.rank:
                self._take_over(*found)
        if learn:
            pipeline.finish()

    def _take_over(self, fit: Any, looked: list[Any]) -> None:
        """Go on from what another rank found."""
        for one in map(Looked._make, looked):
            self.looked.append(one)
            if one.why is not None:
                self._leave_out(len(self.looked) - 1, one.name, one.why)
        if fit is not None:
            self.pipeline.go_on(fit)

    def _usable(self, which: Iterable[int]) -> Iterator[Graph]:
        """Look at graphs, and yield those that can be trained on."""
        for i in which:
            graph = self.graphs[i]
            why = check_graph("train", graph, self.pipeline.kind)
            name, content = str(graph.name), self._content(graph, why, self.graphs)
            if why is not None:
                self.looked.append(Looked(name, 0, "", content, str(why)))
                self._leave_out(i, name, str(why))
                continue
            count, reason = int(graph.num_configs), None
            if self.weights is not None:
                self.weights[i] = weights = graph_weights(graph, self.weights[i])
                if weights is not None and (weights != 1).any():
                    count = int(np.count_nonzero(weights))
                    content += digest([weights]) if self.hashed else ""
                    reason = self._without_weights(name, count)
            self.looked.append(Looked(name, count, known_as(graph), content, reason))
            if reason is not None:
                self._leave_out(i, name, reason)
            yield graph

    def _without_weights(self, name: str, count: int) -> str | None:
        """Return why a graph with so many configs of a weight above 0 is left out: no visit may ever find it.

        The only graph is refused when it is prepared.
        """
        try:
            check_weighted(name, count)
        except DataError as error:
            return str(error) if len(self.graphs) > 1 else None
        return None

    def _content(self, graph: Graph, why: DataError | None, graphs: GraphSequence) -> str:
        """Return what a checkpoint compares of a graph, which is left out if `why` is not None."""
        if not self.hashed:
            return ""
        return fingerprint(graph, _whole(graphs)) if why is None else f"without {graph.name}"

    def warn(self, stacklevel: int) -> None:
        """Warn once of the graphs that were left out."""
        if not self.warned:
            self.warned = True
            warn_of_skipped(self.skipped, stacklevel + 1)

    def _prepare_valid(
        self, graphs: GraphSequence, configs: int
    ) -> tuple[list[tuple[_core.Prepared, NDArray[np.int64]]], bool, list[str]]:
        """Prepare validation graphs with the rows that are scored: all, or a sample, ascending.

        Returns those of this rank, whether there are any on some rank, and fingerprints of all graphs.
        """
        result: list[tuple[_core.Prepared, NDArray[np.int64]]] = []
        hashes, left_out = list[str](), dict[str, str]()

        def work() -> Any:
            for i in self.ranks.share(len(graphs)):
                graph = graphs[i]
                why = check_graph("valid", graph, self.pipeline.kind)
                hashes.extend([self._content(graph, why, graphs)] * self.hashed)
                try:
                    check_measured(graph, self.pipeline.kind)
                except DataError as error:
                    left_out[error.file or f"valid graph {i}"] = str(error)
                    if len(left_out) == len(graphs):
                        raise
                    continue
                graph = graph if graph.valid is None else graph.select(graph.ran)
                n = min(graph.num_configs, max(_VALID_LEAST, configs // len(graphs)))
                key = (Stream.VALID, i)
                rows = kernels.sample_without_replacement(graph.num_configs, n, key, order="sorted")
                small = graph if n == graph.num_configs else graph.select(rows)
                result.append((self.pipeline.apply(small), np.arange(n)))
            return len(result), hashes, left_out

        counts, found, whys = zip(*self.ranks.exchange(work), strict=True)
        for why in whys:
            self.skipped.update(why)
        if len(graphs) and not sum(counts):  # on several ranks
            raise DataError(f"none of the graphs can be validated on; the last: {[*why.values()][-1]}")
        return result, sum(counts) > 0, [one for part in found for one in part]
