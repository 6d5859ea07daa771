"""Scorers that route every graph to another scorer."""

from __future__ import annotations

import threading
from abc import abstractmethod
from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from numbers import Real
from typing import TYPE_CHECKING, Any, NoReturn, Self, Unpack

import numpy as np
from numpy.typing import NDArray

from tpugraphs.data.graph import Graph, Graphs, Rows, TableLike, Valid
from tpugraphs.data.splits import check_nearest, closest, family, traits
from tpugraphs.errors import ConfigError, DataError
from tpugraphs.evaluation.scorer import ChooseOptions, PredictOptions, Scorer, Scores
from tpugraphs.ranker import filekinds
from tpugraphs.ranker.conventions import every_graph, learnable, measured
from tpugraphs.ranker.ranker import Ranker
from tpugraphs.ranker.scorer import ScorerBase, unchanged_if_it_fails
from tpugraphs.system import check_choice, check_type, counted, tensorfile
from tpugraphs.training.callbacks import pass_on_interrupt
from tpugraphs.training.trainset import GraphSequence, as_graphs, no_graphs

if TYPE_CHECKING:
    from tpugraphs.ranker.arguments import FitArguments


_LABELS: dict[str, Callable[[Graph], list[str]]] = {
    "collection": lambda graph: [name for name in (graph.collection, graph.kind) if name],
    "family": lambda graph: [family(graph)],
    "shape": lambda graph: [f"{graph.num_nodes}x{graph.num_edges}"],
}


class _Router(ScorerBase):
    """Base of scorers that hand every graph to another scorer."""

    @abstractmethod
    def route(self, graph: Graph) -> Scorer:
        """Return the scorer of a graph."""

    def predict(
        self, graph: Graph, configs: Rows | None = None, tta: int = 0, **options: Unpack[PredictOptions]
    ) -> Scores:
        """Return the scores (n,) that the graph's ranker gives: smaller = predicted faster."""
        return self.route(graph).predict(graph, configs, tta=tta, **options)

    def choose(
        self, graph: Graph, count: int = 10, configs: Rows | None = None, **options: Unpack[ChooseOptions]
    ) -> NDArray[np.int64]:
        """Return the positions of the `count` configs to measure that the graph's ranker chooses."""
        return self.route(graph).choose(graph, count, configs, **options)

    def knows(self, graph: Graph) -> bool:
        """Return whether the graph's ranker is known to have learnt from it."""
        return bool(getattr(self.route(graph), "knows", lambda _: False)(graph))


@filekinds.register("routed")
class Routed(_Router):
    """Rank every graph by the ranker for its collection, family or shape.

    The ninth place had members for architecture families, the seventh for graphs of one shape.

    Parameters
    ----------
    routes : mapping of str to Scorer
        Pattern -> ranker. The first pattern that matches a label of the graph decides; ``"*"`` matches all.
    by : {"collection", "family", "shape"}
        The labels. ``"collection"``: the collection (``"layout:xla:*"``), and the kind of graph (``"tile"``).
        ``"family"``: the architecture by the program's name, see :func:`tpugraphs.data.family`.
        ``"shape"``: numbers of nodes and edges, as ``"372x597"``.

    Raises
    ------
    ConfigError
        No routes, a route to something that is not a scorer, or unknown labels.

    Examples
    --------
    >>> import tpugraphs as tg
    >>> programs = tg.open_collection("options:xla:cpu")
    >>> ranker = tg.Ranker("graph-config", steps=5).fit(programs.train[:4], verbose=False)
    >>> tg.Routed({"options:*": ranker, "layout:*": tg.Ensemble([ranker])})
    <Routed: options:* -> graph-config, layout:* -> ensemble>
    """

    name = "routed"

    def __init__(self, routes: Mapping[str, Scorer], by: str = "collection") -> None:
        if not isinstance(routes, Mapping) or not routes:
            raise ConfigError(f"routes: expected at least one pattern with its ranker, got {routes!r}")
        for pattern, ranker in routes.items():
            if not isinstance(pattern, str) or not isinstance(ranker, Scorer):
                found = f"{pattern!r}: {type(ranker).__name__}"
                raise ConfigError(f"routes: expected patterns with rankers, got {found}")
        self.routes, self.by = dict(routes), check_choice("by", by, _LABELS)

    def route(self, graph: Graph) -> Scorer:
        """Return the ranker of a graph.

        Parameters
        ----------
        graph : Graph
            The graph to be ranked.

        Returns
        -------
        scorer
            The first whose pattern matches.

        Raises
        ------
        DataError
            No pattern matches it.
        """
        names = _LABELS[self.by](graph)
        for pattern, ranker in self.routes.items():
            if any(fnmatchcase(name, pattern) for name in names):
                return ranker
        known, found = ", ".join(self.routes), " or ".join(names)
        text = f"no route for {' or '.join(map(repr, names))}; there are {known}"
        raise DataError(text, file=str(graph.name), field=self.by, found=found, expected=known)

    @property
    def kind(self) -> str:
        """Kind of the graphs it ranks, ``"any"`` if its rankers differ in this."""
        kinds = {ranker.kind for ranker in self.routes.values()}
        return kinds.pop() if len(kinds) == 1 else "any"

    @property
    def fitted(self) -> bool:
        """Whether all rankers can predict."""
        return all(ranker.fitted for ranker in self.routes.values())

    def fit(self, train: Graphs, valid: Valid = None, **options: Unpack[FitArguments]) -> Self:
        """Fit every ranker on the graphs routed to it. Arguments: see :meth:`tpugraphs.Ranker.fit`.

        A ranker to which no training graph is routed stays as it is. If `valid` is a share of the configs,
        every ranker holds out that share of its own. Ctrl-C raises KeyboardInterrupt. After any error,
        rankers that were fitted before are unchanged.
        """
        train, valid = learnable(train, valid, options.pop("y", None))
        share = isinstance(valid, Real)
        parts = self._parted("train", train)
        held = {} if share or no_graphs(valid) else self._parted("valid", valid)
        with unchanged_if_it_fails(*(ranker for ranker, _ in parts.values() if ranker.fitted)):
            for ranker, mine in parts.values():
                own = valid if share else held[id(ranker)][1] if id(ranker) in held else None
                handed: Any = options if own is None else {"valid": own, **options}
                pass_on_interrupt(ranker.fit(mine, **handed))
        return self

    def _parted(self, what: str, graphs: Any) -> dict[int, tuple[Scorer, list[Any]]]:
        """Group graphs by the ranker that they are routed to."""
        parts: dict[int, tuple[Scorer, list[Any]]] = {}
        for graph in every_graph(what, graphs):
            ranker = self.route(graph)
            parts.setdefault(id(ranker), (ranker, []))[1].append(graph)
        return parts

    def score(self, graphs: Graphs | TableLike, y: Any = None) -> float:
        """Return the mean of the rankers' scores, each weighted by the number of graphs routed to it."""
        parts = self._parted("graphs", measured(graphs, y, self)).values()
        means = [(len(mine), ranker.score(mine)) for ranker, mine in parts]
        return sum(count * mean for count, mean in means) / sum(count for count, _ in means)

    def __repr__(self) -> str:
        return f"<Routed: {', '.join(f'{pattern} -> {r.name}' for pattern, r in self.routes.items())}>"

    def to_file(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return metadata, and tensors of all rankers."""
        members, tensors = filekinds.write_members(self.routes.values())
        return {"patterns": list(self.routes), "by": self.by, "members": members}, tensors

    @classmethod
    def from_file(cls, path: str, metadata: dict[str, Any], tensors: dict[str, NDArray[Any]]) -> Self:
        """Restore what `to_file` returned; CheckpointError if that is damaged."""
        patterns = tensorfile.entry(path, metadata, "patterns", list)
        members = filekinds.read_members(path, metadata, tensors)
        if len(patterns) != len(members) or not all(isinstance(p, str) for p in patterns):
            raise tensorfile.fail(path, "patterns", counted(len(members), "string"), repr(patterns)[:80])
        stated = {"by": "collection", **metadata}  # earlier files have no "by"
        routes = dict(zip(patterns, members, strict=True))
        return filekinds.construct(cls, path, stated, {"by": str}, routes=routes)


class Nearest(_Router):
    """Rank every graph with a ranker that is trained on its nearest training graphs alone.

    The eighth place did this: most test programs have a twin with another batch size among the training
    programs. A ranker is trained when scores of a graph are first requested, and serves all graphs with the
    same nearest ones.

    Parameters
    ----------
    ranker : Ranker
        New rankers with the same arguments are trained. This one is not changed.
    n, by
        How many training graphs, and by which distance: see :func:`tpugraphs.nearest`.

    Attributes
    ----------
    rankers : dict of tuple of int to Ranker
        Rankers trained so far, by the positions of their training graphs.

    Raises
    ------
    ConfigError
        `ranker` is not a Ranker, `n` is below 1, or the distance is unknown.

    Examples
    --------
    >>> import tpugraphs as tg
    >>> programs = tg.open_collection("options:xla:cpu")
    >>> twins = tg.Nearest(tg.Ranker("graph-config", steps=5), n=2, by="opcodes").fit(programs.train[:4])
    >>> twins.predict(programs.test[0]).shape
    (112,)
    """

    def __init__(self, ranker: Ranker, n: int = 1, by: str = "size") -> None:
        check_nearest(n, by)
        self.ranker, self.n, self.by = check_type("ranker", ranker, Ranker, expected="a tg.Ranker"), n, by
        self.rankers: dict[tuple[int, ...], Ranker] = {}
        self._graphs: GraphSequence = ()
        self._traits: NDArray[np.float64] | None = None  # of the training graphs, which are read once
        self._options: dict[str, Any] = {}
        self._training = threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_training"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _training=threading.Lock())

    @property
    def kind(self) -> str:
        """Kind of the graphs it ranks."""
        return self.ranker.kind

    @property
    def name(self) -> str:
        """Name in reports."""
        return f"{self.ranker.recipe} of the nearest"

    @property
    def fitted(self) -> bool:
        """Whether it has training graphs."""
        return len(self._graphs) > 0

    @property
    def node_padding(self) -> int | None:
        """Padding that lists in the node features must have, None if any will do."""
        return self.ranker.node_padding

    def fit(self, train: Graphs, valid: Valid = None, **options: Unpack[FitArguments]) -> Self:
        """Keep the training graphs; `valid` and `options` are those of every :meth:`tpugraphs.Ranker.fit`.

        Raises
        ------
        ConfigError
            `sample_weight` or `checkpoint_dir`, which belong to one training.
        """
        for name in ("sample_weight", "checkpoint_dir"):
            if options.get(name) is not None:
                why = "Nearest trains several rankers, on some of the graphs each"
                raise ConfigError(f"{name}: {why}: leave it out")
        train, valid = learnable(train, valid, options.pop("y", None))
        self._graphs, self._options = as_graphs("train", train), {"verbose": False, **options, "valid": valid}
        self._traits, self.rankers = None, {}
        return self

    def route(self, graph: Graph) -> Ranker:
        """Return the ranker of a graph; it is trained on first use.

        Parameters
        ----------
        graph : Graph
            The graph to be ranked.

        Returns
        -------
        Ranker
            Trained on the graphs that are nearest to it.

        Raises
        ------
        DataError
            Nothing can be learnt from its nearest graphs.
        """
        self.require_fit("predict")
        with self._training:
            if self._traits is None:
                self._traits = traits(self._graphs, self.by)
            chosen = tuple(closest(self._traits, graph, self.n, self.by).tolist())
            if chosen not in self.rankers:
                fresh = Ranker(**self.ranker.get_params())
                pass_on_interrupt(fresh.fit([self._graphs[i] for i in chosen], **self._options))
                self.rankers[chosen] = fresh
            return self.rankers[chosen]

    of = route

    def to_file(self) -> NoReturn:
        """Raise ConfigError: files cannot hold training graphs. The rankers in `rankers` can be saved."""
        why = "it trains on its graphs when scores are asked for"
        raise ConfigError(f"Nearest cannot be saved: {why}; save its `rankers`")

    def __repr__(self) -> str:
        return f"<Nearest: {self.n} of {counted(len(self._graphs), 'graph')} by {self.by}, {self.ranker!r}>"
