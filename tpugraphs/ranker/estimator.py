"""Estimators: what a recipe trains, be it a network of the core, trees, or an object of the recipe's own."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tpugraphs.data.graph import Graph
from tpugraphs.errors import DataError
from tpugraphs.network.network import Network
from tpugraphs.preprocess.pipeline import check_measured
from tpugraphs.recipes import Recipe
from tpugraphs.training.adaptation import adapt
from tpugraphs.training.callbacks import Callback, History
from tpugraphs.training.fit import Fit, held
from tpugraphs.training.optimizer import Optimizer
from tpugraphs.training.trainset import Material

__all__ = ["Estimator", "FitOptions", "NetworkEstimator"]


@dataclass(frozen=True)
class FitOptions:
    """Options of :meth:`tpugraphs.Ranker.fit`; `owner` is the ranker, for callbacks."""

    steps: int | None
    epochs: int | None
    callbacks: Sequence[Callback]
    checkpoint_every: int
    verbose: bool | None
    owner: Any
    checkpoint_dir: str | os.PathLike[str] | None = None
    sample_weight: Any = None


class Estimator(Protocol):
    """What :class:`tpugraphs.Ranker` expects of the object that its recipe trains.

    Attributes
    ----------
    kind : str
        Kind of the graphs it scores.
    fitted : bool
        Whether it can score.
    history : History or None
        History of its last fit.
    size : int or None
        Number of learnt parameters; None while it is not known.
    """

    history: History | None

    # ruff: noqa: D102
    @property
    def kind(self) -> str: ...
    @property
    def fitted(self) -> bool: ...
    @property
    def size(self) -> int | None: ...
    @property
    def node_padding(self) -> int | None: ...

    def fit(self, train: Any, valid: Any, how: FitOptions) -> History:
        """Learn from graphs: see :meth:`tpugraphs.Ranker.fit`."""
        ...

    def scores(
        self, graph: Graph, configs: ArrayLike | None, tta: int, precision: str | None, verbose: bool | None
    ) -> NDArray[Any]:
        """Return scores (n,): see :meth:`tpugraphs.Ranker.predict`."""
        ...

    def share_prepared(self, other: Any) -> bool: ...

    def to_file(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Metadata and tensors that `read` takes."""
        ...

    def read(self, path: str, metadata: Mapping[str, Any], tensors: Mapping[str, NDArray[Any]]) -> None:
        """Take over what `to_file` gave; CheckpointError if that is damaged."""
        ...


class NetworkEstimator:
    """Train a network with the core.

    Attributes
    ----------
    network : Network
    history : History or None
    """

    def __init__(self, recipe: Recipe, fields: Any, seed: int, precision: str) -> None:
        self.network = Network(recipe, fields, seed, precision)
        self.history: History | None = None

    @property
    def kind(self) -> str:
        """Kind of the graphs it scores."""
        return self.network.kind

    @property
    def fitted(self) -> bool:
        """Whether the weights were trained or read."""
        return self.network.fitted

    @property
    def size(self) -> int | None:
        """Number of weights; None while it depends on graphs that were not seen yet."""
        return self.network.num_parameters if self.network.known else None

    @property
    def node_padding(self) -> int | None:
        """Padding that lists in the node features must have, None if any will do."""
        return self.network.pipeline.node_padding

    def fit(self, train: Any, valid: Any, how: FitOptions) -> History:
        """Learn from graphs: see :meth:`tpugraphs.Ranker.fit`."""
        net = self.network
        with held(how.checkpoint_dir) as folder:
            most, hashed = net.fields.valid_configs, folder is not None
            material = Material(net.pipeline, train, valid, most, net.seed, hashed, how.sample_weight)
            return self.start(material, folder, how).run()

    def start(self, material: Material, folder: str | None, how: FitOptions) -> Fit:
        """Return the fit before its first step. The caller holds the lock on `folder`."""
        fit = Fit(
            self.network, material, how.steps, how.epochs, how.callbacks, folder, how.checkpoint_every,
            how.verbose, how.owner,
        )  # fmt: skip
        self.history = fit.history
        return fit

    def partial_fit(self, graph: Graph, configs: ArrayLike) -> float:
        """Take one optimizer step; see :meth:`tpugraphs.Ranker.partial_fit`."""
        net = self.network
        if net.last.get(graph) is None or not net.last.measured:
            check_measured(graph, net.kind)  # which looks at all runtimes: not in every step
        rows = graph.row_numbers(configs)
        if rows.size < 2:
            raise DataError(
                f"configs: expected at least two to compare, got {rows.size}", file=str(graph.name)
            )
        ran = getattr(graph, "valid", None)
        if ran is not None and not ran[rows].all():
            failed = int(rows[~ran[rows]][0])
            raise DataError(
                f"configs: config {failed} failed, so nothing can be learnt from it: give some of graph.ran",
                file=str(graph.name), field="configs", found=f"config {failed}", expected="configs that ran",
            )  # fmt: skip
        if not net.fitted:
            net.pipeline.fit([graph])
        prepared = net.prepare(graph)
        net.last.measured = True
        optimizer, number = Optimizer(net), net.trained_steps + 1
        loss = optimizer.gradients(number, [(prepared, rows)])
        optimizer.update(number, float(net.fields.learning_rate), [])
        net.trained_steps, net.fitted = number, True
        return loss

    def adapt(self, graph: Graph, steps: int, anchor: float, only: Sequence[str] | None) -> None:
        """Train further on all configs of a graph; see :meth:`tpugraphs.Ranker.adapt`."""
        self.network.rest()
        rows = np.arange(graph.num_configs)
        adapt(self.network, lambda: self.partial_fit(graph, rows), steps, anchor, only)

    def scores(
        self, graph: Graph, configs: ArrayLike | None, tta: int, precision: str | None, verbose: bool | None
    ) -> NDArray[np.float32]:
        """Return scores (n,): see :meth:`tpugraphs.Ranker.predict`."""
        return self.network.scores(graph, configs, tta, precision, verbose)

    def share_prepared(self, other: Any) -> bool:
        """Share prepared graphs with `other` if both prepare graphs in the same way."""
        return isinstance(other, NetworkEstimator) and self.network.share_prepared(other.network)

    def to_file(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Metadata and tensors that `read` takes."""
        metadata, tensors = self.network.to_file()
        history = self.history
        return {
            **metadata,
            "trained_steps": self.network.trained_steps,
            "best_step": history.best_step if history else None,
            "best_metric": history.best_metric if history else None,
        }, tensors

    def read(self, path: str, metadata: Mapping[str, Any], tensors: Mapping[str, NDArray[Any]]) -> None:
        """Take over what `to_file` gave; CheckpointError if that is damaged."""
        self.network.read(path, metadata, tensors)
