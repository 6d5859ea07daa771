"""A ranker per graph, trained on the training graphs that are most like it."""

from __future__ import annotations

import threading
from typing import Any, NoReturn, Self, Unpack

import numpy as np
from numpy.typing import NDArray

from tpugraphs.data.graph import Graph, Graphs, Rows, Valid
from tpugraphs.data.kinship import check_nearest, closest, traits
from tpugraphs.errors import ConfigError
from tpugraphs.ranker.arguments import FitArguments
from tpugraphs.ranker.conventions import learnable
from tpugraphs.ranker.ranker import Ranker
from tpugraphs.ranker.scorer import PredictOptions, ScorerBase, Scores
from tpugraphs.system.words import counted
from tpugraphs.training.callbacks import pass_on_interrupt
from tpugraphs.training.trainset import GraphSequence, as_graphs

__all__ = ["Nearest"]


class Nearest(ScorerBase):
    """Rank every graph by a ranker that is trained on its nearest training graphs alone.

    The eighth place learnt like this, as most test programs have a twin of another batch size among the
    training programs. A ranker is trained when scores of a graph are first asked for, and serves all graphs
    with the same nearest ones.

    Parameters
    ----------
    ranker : Ranker
        New rankers with the same arguments are trained. This one is not changed.
    n, by
        How many training graphs, and by which distance: see :func:`tpugraphs.nearest`.

    Attributes
    ----------
    rankers : dict of tuple of int to Ranker
        What was trained so far, by the positions of the training graphs.

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
        if not isinstance(ranker, Ranker):
            raise ConfigError(f"ranker: expected a tg.Ranker, got {type(ranker).__name__}")
        check_nearest(n, by)
        self.ranker, self.n, self.by = ranker, n, by
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
                raise ConfigError(
                    f"{name}: Nearest trains several rankers, on some of the graphs each: leave it out"
                )
        train, valid = learnable(train, valid, options.pop("y", None))
        self._graphs, self._options = as_graphs("train", train), {"verbose": False, **options, "valid": valid}
        self._traits, self.rankers = None, {}
        return self

    def of(self, graph: Graph) -> Ranker:
        """Return the ranker of a graph, which is trained if need be.

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

    def predict(
        self, graph: Graph, configs: Rows | None = None, tta: int = 0, **options: Unpack[PredictOptions]
    ) -> Scores:
        """Return the scores (n,) that the graph's ranker gives: smaller = predicted faster."""
        return np.asarray(self.of(graph).predict(graph, configs, tta=tta, **options))

    def to_file(self) -> NoReturn:
        """Refuse: it needs the training graphs. The rankers in `rankers` can be saved."""
        raise ConfigError(
            "Nearest cannot be saved: it trains on its graphs when scores are asked for; save its `rankers`"
        )

    def __repr__(self) -> str:
        count = len(self._graphs) if self.fitted else 0
        return f"<Nearest: {self.n} of {counted(count, 'graph')} by {self.by}, {self.ranker!r}>"
