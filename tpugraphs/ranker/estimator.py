"""Estimators: what a recipe trains, such as a network of the core or trees."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, Protocol

from numpy.typing import NDArray

from tpugraphs import _core
from tpugraphs.data.graph import Graph, Graphs, Rows, Valid
from tpugraphs.data.schema import Schema
from tpugraphs.errors import ConfigError, DataError
from tpugraphs.network.network import Network
from tpugraphs.preprocess.checks import check_measured
from tpugraphs.preprocess.pipeline import Pipeline
from tpugraphs.system.words import counted
from tpugraphs.training.callbacks import History
from tpugraphs.training.fit import Fit, FitOptions, locked_folder
from tpugraphs.training.optimizer import Optimizer
from tpugraphs.training.trainset import TrainingSet

__all__ = ["Estimator", "FitOptions", "NetworkEstimator"]


class Estimator(Protocol):
    """Protocol of the object that a recipe trains, and that :class:`tpugraphs.Ranker` delegates to.

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
    schema : Schema or None
        Of the graphs it learnt from, where its kind is ``"graph"``: tables are checked against its names.
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
    def schema(self) -> Schema | None:
        return None

    @property
    def node_padding(self) -> int | None:
        """Padding that lists in the node features must have, None if any will do."""
        return None

    def fit(self, train: Graphs, valid: Valid, how: FitOptions) -> History:
        """Learn from graphs: see :meth:`tpugraphs.Ranker.fit`."""

    def scores(
        self, graph: Graph, configs: Rows | None, tta: int, precision: str | None, verbose: bool | None
    ) -> NDArray[Any]:
        """Return scores (n,): see :meth:`tpugraphs.Ranker.predict`."""

    def share_prepared(self, other: Any) -> bool:
        """Share prepared graphs with `other` if both prepare graphs in the same way."""
        return False

    def to_file(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return metadata and tensors that `read` takes."""

    def read(self, path: str, metadata: Mapping[str, Any], tensors: Mapping[str, NDArray[Any]]) -> None:
        """Restore what `to_file` returned; CheckpointError if that is damaged."""


class NetworkEstimator(Network):
    """A network that the core trains.

    Parameters
    ----------
    recipe : Recipe
        With the steps of the model.
    fields : fields of the recipe
        What :meth:`tpugraphs.recipes.Recipe.fields` returned.
    seed : int
        Of everything random.
    precision : {"f32", "bf16"}
        Of the operands of matrix products.

    Attributes
    ----------
    history : History or None
    """

    history: History | None = None

    @property
    def size(self) -> int | None:
        """Number of weights; None while it depends on graphs that were not seen yet."""
        return self.num_parameters if self.known else None

    @property
    def schema(self) -> Schema | None:
        """Schema of the training graphs; None before a fit and for recipes of the published schemas."""
        return self.pipeline.schema

    @property
    def node_padding(self) -> int | None:
        """Padding that lists in the node features must have, None if any will do."""
        return self.pipeline.node_padding

    def fit(self, train: Graphs, valid: Valid, how: FitOptions) -> History:
        """Learn from graphs: see :meth:`tpugraphs.Ranker.fit`.

        Parameters
        ----------
        train, valid
            As there.
        how : FitOptions
            The other arguments.

        Returns
        -------
        History
            Losses and metrics of the fit.
        """
        with locked_folder(how.checkpoint_dir, how.communicator) as folder:
            return self.begin(train, valid, folder, how).run()

    def begin(
        self,
        train: Graphs,
        valid: Valid,
        folder: str | None,
        how: FitOptions,
        data: TrainingSet | None = None,
    ) -> Fit:
        """Return the fit on these graphs before its first step. The caller holds the lock on `folder`.

        Parameters
        ----------
        train, valid
            As for `fit`.
        folder : str or None
            Of checkpoints.
        how : FitOptions
            The other arguments.
        data : TrainingSet, optional
            The graphs, as a fit of the same recipe with another seed has prepared them.

        Returns
        -------
        Fit
            It has the current weights.
        """
        if data is None:
            pipeline = self.pipeline if how.init is None else self._begin_with(how.init.network)
            data = TrainingSet(self, pipeline, train, valid, how)
        fit = Fit(self, data, folder, how)
        self.history = fit.history
        return fit

    def _begin_with(self, other: Network) -> Pipeline:
        """Return the preprocessing of another network; ConfigError unless its weights fit this one."""
        pipeline = copy.deepcopy(other.pipeline)
        expected = self.recipe.model(self.fields, pipeline.sizes)
        if other.recipe.name != self.recipe.name or other.steps != expected:
            wanted = "a ranker of the same recipe, with the same fields of the model"
            found = f"{other.recipe.name!r} with {counted(other.num_parameters, 'parameter')}"
            raise ConfigError(f"init: expected {wanted}, got one of {found}")
        return pipeline

    def partial_fit(self, graph: Graph, configs: Rows) -> float:
        """Take one optimizer step; see :meth:`tpugraphs.Ranker.partial_fit`.

        Parameters
        ----------
        graph : Graph
            With measured runtimes.
        configs : slice, (n,) int or (C,) bool
            At least two configs that ran.

        Returns
        -------
        float
            Loss before the step.

        Raises
        ------
        DataError
            Fewer than two configs, or one that failed.
        """
        if self.judged.get(graph) is None:
            check_measured(graph, self.kind)  # reads all runtimes, so not in every step
            self.judged.put(graph, True, 1)
        rows, name = graph.row_numbers(configs), str(graph.name)
        if rows.size < 2:
            raise DataError(f"configs: expected at least two to compare, got {rows.size}", file=name)
        if graph.valid is not None and not graph.valid[rows].all():
            failed = int(rows[~graph.valid[rows]][0])
            found = f"config {failed}, which failed: nothing can be learnt from it"
            raise DataError.of("configs", "configs that ran", found, "give some of graph.ran", file=name)
        if not self.fitted:
            self.pipeline.fit([graph])
            self.follow()
        prepared = self.prepare(graph)
        optimizer, number = Optimizer(self), self.trained_steps + 1
        # a segment stands for the others, whose scores are unknown
        slate = _core.Segments(0.0, self.seed).draw(0, number, prepared, rows)
        loss = optimizer.gradients(number, [slate])
        optimizer.update(number, float(self.fields.learning_rate), [])
        self.trained_steps, self.fitted = number, True
        return loss

    def to_file(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return metadata and tensors that `read` takes."""
        metadata, tensors = super().to_file()
        best = {name: getattr(self.history, name, None) for name in ("best_step", "best_metric")}
        return {**metadata, "trained_steps": self.trained_steps, **best}, tensors
