"""What a fit learns from: graphs, splits of their configs, and graphs prepared for the core."""

from __future__ import annotations

import hashlib
import threading
import warnings
from collections import deque
from collections.abc import Iterable, Mapping
from numbers import Real
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tpugraphs import _core, kernels
from tpugraphs.data.graph import Graph
from tpugraphs.data.splits import split_configs
from tpugraphs.errors import ConfigError, DataError, check_graphs, graph_hint
from tpugraphs.kernels.streams import Stream
from tpugraphs.preprocess.checks import check_kind, check_measured, of_kind
from tpugraphs.preprocess.pipeline import Pipeline
from tpugraphs.system.logs import log
from tpugraphs.system.words import counted

CACHE_BYTES = 1 << 30  # of prepared training graphs kept in memory
MAPPED_BYTES = 256 << 20  # of the packs of these graphs whose pages may stay in memory after use
_VALID_LEAST = 50  # configs of a validation graph: with fewer, its metric is too noisy


class GraphSequence(Protocol):
    """A sequence of graphs, which may load them when indexed."""

    def __len__(self) -> int: ...
    def __getitem__(self, index: int, /) -> Graph: ...


def as_graphs(what: str, graphs: Any) -> GraphSequence:
    """Return one graph, or a sequence of graphs (which may load them when indexed), as a sequence."""
    if hasattr(graphs, "config_runtime"):
        return [graphs]
    if hasattr(graphs, "iloc"):
        graphs = list(graphs)  # a pandas Series is indexed by its labels
    check_graphs(what, graphs)
    if not (hasattr(graphs, "__len__") and hasattr(graphs, "__getitem__")):
        graphs = list(graphs)
    if len(graphs) == 0:
        raise DataError(f"{what}: expected at least one graph, got none", field=what, found="0 graphs")
    sequence: GraphSequence = graphs
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


Weights = list[NDArray[np.float32] | None]


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

    def refuse(found: str, expected: str) -> DataError:
        return DataError(
            f"sample_weight: expected {expected}, found {found}",
            file=str(graph.name), field="sample_weight", found=found, expected=expected,
        )  # fmt: skip

    if np.ma.is_masked(given):
        raise refuse("masked values", "one weight per config, and 0 for those to leave out")
    try:
        with np.errstate(over="ignore"):
            weights = np.asarray(given).astype(np.float32, casting="same_kind")
    except (TypeError, ValueError):
        raise refuse(type(given).__name__, "numbers") from None
    if weights.shape != (graph.num_configs,):
        raise refuse(f"shape {weights.shape}", f"one weight per config ({graph.num_configs},)")
    bad = np.flatnonzero(~((weights >= 0) & (weights < np.inf)))
    if bad.size:
        raise refuse(f"{weights[bad[0]]} of config {int(bad[0])}", "finite numbers >= 0")
    return weights


_PROGRAM = ("node_feat", "node_opcode", "edge_index")
_BLOCK = 16 << 20  # digits that are hashed at a time
_TILE = ("config_feat", "config_runtime", "config_runtime_normalizers")
_HASHED: dict[str, tuple[str, ...]] = {
    "graph": (*_PROGRAM, "graph_feat", "node_config_ids", *_TILE, "valid"),
    "layout": (*_PROGRAM, "node_config_ids", "config_runtime", "valid"),
    "tile": (*_PROGRAM, *_TILE),
}


def known_as(graph: Graph) -> str:
    """Return a digest that identifies a measured graph: of its name, size and runtimes."""
    identity = f"{graph.collection} {graph.name} {graph.num_nodes} {graph.num_edges}"
    h = hashlib.blake2b(identity.encode("utf-8", "surrogatepass"), digest_size=16)
    h.update(np.ascontiguousarray(graph.config_runtime).data)
    return h.hexdigest()


def fingerprint(graph: Graph, kind: str, digits: bool) -> str:
    """Hash of the content of a graph; with `digits` also of all layout configs, which must then be read.

    For a graph that is left out because of its kind only the name is hashed.
    """
    if check_graph("graphs", graph, kind) is not None:
        return f"without {graph.name}"
    h = hashlib.blake2b(digest_size=16)
    if kind == "graph":
        h.update(graph.schema.to_json().encode())
    for name in _HASHED[kind]:
        if getattr(graph, name, None) is None:
            continue
        array = np.ascontiguousarray(getattr(graph, name))
        h.update(f"{name}{array.shape}{array.dtype.str}".encode())
        h.update(array.data)
    if digits and graph._digits.shape[2]:
        count, nodes, width = graph._digits.shape
        step = max(1, _BLOCK // max(1, nodes * width))
        for i in range(0, count, step):
            h.update(graph._digits.take(slice(i, i + step)).data)
    return h.hexdigest()


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
    if not 0 < share < 1:
        raise ConfigError(f"valid: expected graphs, or a share of the configs between 0 and 1, got {share}")
    if not _whole(graphs):
        raise ConfigError(
            "valid: a share of the configs can be held out of graphs in memory only; give graphs"
        )
    train_graphs: list[Any] = []
    valid_graphs: list[Any] = []
    for i in range(len(graphs)):
        graph = graphs[i]
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


class TrainingSet:
    """Training graphs and their preprocessing. Fits of one recipe with several seeds may share them.

    Parameters
    ----------
    pipeline : Pipeline
        Preprocessing, which is fitted to the graphs.
    train, valid, sample_weight
        See `Ranker.fit`.
    valid_configs : int
        Configs to validate on in all.
    seed : int
        Seed of the split, if `valid` is a share.
    hashed : bool
        Whether fingerprints are needed.
    fitted : bool
        Leave the preprocessing as it is: it was fitted to other graphs.

    Attributes
    ----------
    graphs : sequence of graphs
        To train on.
    counts : list of int
        Configs of each, 0 where it cannot be trained on.
    valid : list of (_core.Prepared, rows)
    skipped : dict
    known : set of str
        Digests by `known_as` of the training graphs.
    hashes : dict of str to str
        Digests of the graphs to train and to validate on.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        train: Any,
        valid: Any,
        valid_configs: int,
        seed: int,
        hashed: bool,
        sample_weight: Any = None,
        fitted: bool = False,
    ) -> None:
        self.pipeline, self.hashed, self.skipped = pipeline, hashed, dict[str, str]()
        self.warned = False
        self.known = set[str]()
        self.counts: list[int] = []
        held: GraphSequence = []
        self.graphs: GraphSequence = as_graphs("train", train)
        self.weights = as_weights(train, self.graphs, sample_weight)
        if isinstance(valid, Real):
            given = self.graphs
            self.graphs, held = hold_out(given, float(valid), seed, pipeline.kind, self.weights)
            self.known.update(known_as(given[i]) for i in range(len(given)))
        elif not no_graphs(valid):
            held = as_graphs("valid", valid)
        self.hashes = {"train": self._fit_pipeline(fitted)}
        self.valid = self._prepare_valid(held, valid_configs)
        prints = [fingerprint(held[i], pipeline.kind, _whole(held)) for i in range(len(held) * hashed)]
        self.hashes["valid"] = _digest(prints)
        self._store, self._lock = _core.Store(CACHE_BYTES, MAPPED_BYTES), threading.Lock()
        self._useless = set[int]()

    def prepared(self, index: int) -> _core.Prepared | None:
        """Return graph `index`, or None if it cannot be trained on. If it is the only graph, raise."""
        with self._lock:
            known: _core.Prepared | None = self._store.get(index)
            if known is None and index not in self._useless:
                known = self._prepare(index)
            return known

    def _prepare(self, index: int) -> _core.Prepared | None:
        weights = self.weights[index] if self.weights else None
        try:
            prepared = self.pipeline.apply_measured(self.graphs[index], weights)
        except DataError as error:
            if len(self.graphs) == 1:
                raise
            self.skipped[error.file or f"graph {index}"] = str(error)
            self._useless.add(index)
            if len(self._useless) == len(self.graphs):
                raise DataError(
                    f"none of the {len(self.graphs)} graphs can be trained on; the last: {error}"
                ) from error
            return None
        self._store.put(index, prepared, prepared.nbytes)
        return prepared

    def _fit_pipeline(self, fitted: bool) -> str:
        """Fit the preprocessing, unless it is; fingerprints of the graphs come from the same pass."""
        hashes: list[str] = []
        if len(self.graphs) == 1:
            check_measured(self.graphs[0], self.pipeline.kind)

        def usable() -> Iterable[Any]:
            left_out = 0
            for i in range(len(self.graphs)):
                graph = self.graphs[i]
                why = check_graph("train", graph, self.pipeline.kind)
                if self.hashed:
                    hashes.append(fingerprint(graph, self.pipeline.kind, _whole(self.graphs)))
                self.counts.append(int(graph.num_configs) if why is None else 0)
                if why is None:
                    self.known.add(known_as(graph))
                    self._weigh(i, graph, hashes)
                    yield graph
                    continue
                left_out += 1
                self.skipped[str(graph.name)] = str(why)
                if left_out == len(self.graphs):
                    raise DataError(
                        f"none of the {left_out} graphs can be trained on; the last: {why}"
                    ) from why

        if fitted:
            deque(usable(), maxlen=0)
        else:
            self.pipeline.fit(usable())
        return _digest(hashes)

    def _weigh(self, i: int, graph: Graph, hashes: list[str]) -> None:
        """Check the weights of graph `i`, and add them to its fingerprint."""
        weights = graph_weights(graph, self.weights[i]) if self.weights else None
        if weights is None:
            return
        assert self.weights is not None
        self.weights[i] = weights
        if (weights == 1).all():
            return
        self.counts[i] = int(np.count_nonzero(weights))
        if self.hashed:
            hashes[i] += hashlib.blake2b(weights.tobytes(), digest_size=16).hexdigest()

    def warn(self, stacklevel: int) -> None:
        """Warn once of the graphs that were left out."""
        if not self.warned:
            self.warned = True
            warn_of_skipped(self.skipped, stacklevel + 1)

    def _prepare_valid(
        self, graphs: GraphSequence, configs: int
    ) -> list[tuple[_core.Prepared, NDArray[np.int64]]]:
        """Prepare the validation graphs with the rows that are scored: all, or a sample, ascending."""
        result: list[tuple[_core.Prepared, NDArray[np.int64]]] = []
        for i in range(len(graphs)):
            graph = graphs[i]
            check_graph("valid", graph, self.pipeline.kind)
            try:
                check_measured(graph, self.pipeline.kind)
            except DataError as error:
                self.skipped[error.file or f"valid graph {i}"] = str(error)
                if not result and i + 1 == len(graphs):
                    raise
                continue
            graph = graph if graph.valid is None else graph.select(graph.ran)
            n = min(graph.num_configs, max(_VALID_LEAST, configs // len(graphs)))
            rows = kernels.sample_without_replacement(graph.num_configs, n, (Stream.VALID, i), order="sorted")
            small = graph if n == graph.num_configs else graph.select(rows)
            result.append((self.pipeline.apply(small), np.arange(n)))
        return result


def _digest(parts: list[str]) -> str:
    return f"{len(parts)} graphs, {hashlib.blake2b(' '.join(parts).encode(), digest_size=8).hexdigest()}"
