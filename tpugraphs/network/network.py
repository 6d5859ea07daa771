"""A network: the model of a recipe, its weights, the preprocessing before it, and how both are stored."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tpugraphs import _core, kernels
from tpugraphs.data import Graph, Rows, Schema
from tpugraphs.errors import ConfigError, Error
from tpugraphs.kernels.streams import Stream
from tpugraphs.network.scoring import SCORING, as_configs, check_precision
from tpugraphs.preprocess.checks import check_kind
from tpugraphs.preprocess.pipeline import Pipeline
from tpugraphs.recipes import Recipe, get_recipe, is_registered
from tpugraphs.recipes.described import extra_of
from tpugraphs.recipes.functions import losses_need, name_of_extra, plain_name
from tpugraphs.system import Progress, check_whole, tensorfile

_MOMENTS = ("moment1", "moment2")  # arrays of a trainer


class Network:
    """The model of a recipe with its preprocessing.

    Parameters
    ----------
    recipe : Recipe
    fields : object
        Values of the recipe's fields.
    seed : int
        Seed of the initial weights and of everything random in training.
    precision : {"f32", "bf16"}
        Precision of the operands of matrix products.

    Attributes
    ----------
    kind : str
        Kind of the graphs it scores: ``"layout"``, ``"tile"`` or ``"graph"`` (of any schema).
    pipeline : Pipeline
        The preprocessing.
    trained_steps : int
        Optimizer steps taken since the weights were initialised or read.
    fitted : bool
        Whether the weights were trained or read.
    loss, groups : list of dict
        Losses that are added up, and parameters that the recipe trains differently: see
        :class:`tpugraphs.recipes.Recipe`.
    reads : tuple of str
        What the losses read: the order of runtimes (``"order"``), ``"values"`` that they fit, or ``"times"``
        where one is a user's function.
    last : _core.Store
        The graph that was prepared last, while it lives.
    judged : _core.Store
        The graph that was last found to have measurements, while it lives.
    """

    def __init__(self, recipe: Recipe, fields: Any, seed: int, precision: str) -> None:
        self.recipe, self.seed, self.precision = recipe, int(seed), precision
        self.kind = recipe.kind
        self.take(fields)
        self.pipeline = recipe.pipeline(fields)
        self.trained_steps, self.fitted = 0, False
        self.learnt_from: frozenset[str] = frozenset()  # digests by `data.identity.known_as`
        self._steps: list[dict[str, Any]] | None = None
        self._begin()

    def _begin(self) -> None:
        """Begin without weights, and without graphs."""
        self._model: _core.Model | None = None
        self._trainer: _core.Trainer | None = None
        self.last, self.judged = _core.Store(nbytes=0), _core.Store(nbytes=0)  # each keeps its last graph

    def take(self, fields: Any) -> None:
        """Replace the values of fields that do not change the model."""
        self.fields, self.loss, self.groups = fields, self.recipe.losses(fields), self.recipe.groups(fields)
        self.reads = losses_need(self.loss)

    # What it is

    @property
    def steps(self) -> list[dict[str, Any]]:
        """Steps of the model. If they depend on the graphs, they are known after the fit."""
        if self._steps is None:
            if not self.known:
                raise Error("the model follows from the graphs: call fit (or tg.load_ranker) first")
            self._steps = self.recipe.model(self.fields, self.pipeline.sizes)
        return self._steps

    def follow(self) -> None:
        """Rebuild the model if the training graphs need another one."""
        if self.recipe.by_schema and self._steps is not None:
            steps = self.recipe.model(self.fields, self.pipeline.sizes)
            if steps != self._steps:
                self._steps, self._model, self._trainer = steps, None, None

    @property
    def known(self) -> bool:
        """Whether the steps of the model are known."""
        return self._steps is not None or self.pipeline.known

    @property
    def model(self) -> _core.Model:
        """The model in the core; its `params` are a view (P,) of all weights."""
        if self._model is None:
            self._model = _core.Model(self.steps, self.seed, **self.columns)
        return self._model

    @property
    def columns(self) -> dict[str, Any]:
        """Columns of prepared graphs, as arguments of ``_core.Model``."""
        sizes = self.pipeline.sizes
        return {
            "node_features": sizes.node,
            "config_features": sizes.config,
            "graph_features": sizes.graph,
            "digits": sizes.digits,
        }

    @property
    def trainer(self) -> _core.Trainer:
        """Gradients and optimizer state of the model."""
        if self._trainer is None:
            self._trainer = _core.Trainer(self.model)
        return self._trainer

    def reset_optimizer(self) -> None:
        """Drop the state of the optimizer and its count of steps."""
        self._trainer, self.trained_steps = None, 0

    @property
    def num_parameters(self) -> int:
        """P, number of weights."""
        return int(self.model.num_parameters)

    @property
    def parameters(self) -> dict[str, NDArray[np.float32]]:
        """All weights by name, as views."""
        flat = self.model.params
        return {
            name: flat[offset : offset + int(np.prod(shape))].reshape(shape)
            for name, offset, shape in self.model.layout
        }

    @property
    def metric(self) -> str:
        """Metric of its validation, a key of :data:`tpugraphs.metrics.VALIDATION`."""
        return str(self.fields.metric)

    # Scoring

    def prepare(self, graph: Graph, configs: bool = True) -> _core.Prepared:
        """Prepare a graph and keep it until the next one. Without `configs`, its configs are not read."""
        known: _core.Prepared | None = self.last.get(graph)
        if known is None or (configs and known.graph is None):
            known = self.pipeline.apply(graph, configs=configs)
            self.last.put(graph, known, 1)
        return known

    def share_prepared(self, other: Network) -> bool:
        """Share the last prepared graph with `other` if both prepare graphs in the same way."""
        same = self.pipeline.same_as(other.pipeline)
        if same:
            self.last = other.last
        return same

    def scores(
        self, graph: Graph, configs: Rows | None, tta: int, precision: str | None, verbose: bool | None
    ) -> NDArray[np.float32]:
        """Return scores (n,) of configs; parameters and errors: see :meth:`tpugraphs.Ranker.predict`."""
        tta = check_whole("tta", tta, 0, 10_000)
        precision = check_precision(self.precision if precision is None else precision, SCORING)
        prepared, rows = self._chosen(graph, configs)
        with Progress(max(1, tta) * rows.size, "predict", "config", verbose) as progress:
            if tta == 0:
                return self.score_rows(prepared, rows, precision, progress.update)
            total = np.zeros(rows.size)
            for k in range(tta):
                order = kernels.sample_without_replacement(
                    rows.size, rows.size, (self.seed, Stream.AUGMENT, k)
                )
                total[order] += self.score_rows(prepared, rows[order], precision, progress.update)
        return (total / tta).astype(np.float32)

    def _chosen(self, graph: Graph, configs: Rows | None) -> tuple[_core.Prepared, NDArray[np.int64]]:
        """Return a graph as the model takes it, and which of its configs: its own, or those given."""
        check_kind(graph, self.kind)
        given = as_configs(graph, configs)
        if given is not None:
            prepared = self.prepare(graph, configs=False).with_configs(*self.pipeline.configs(given))
            return prepared, np.arange(prepared.num_configs)
        rows = graph.row_numbers(configs)
        return self.prepare(graph), rows

    def score_rows(
        self,
        prepared: _core.Prepared,
        rows: NDArray[np.int64],
        precision: str | None = None,
        done: Callable[[int], object] | None = None,
    ) -> NDArray[np.float32]:
        """Return scores (n,) of rows (n,) of a prepared graph, in chunks of nearly equal size."""
        chunk = int(self.fields.chunk)
        return self.model.score_prepared(prepared, rows, chunk, precision or self.precision, done)

    def slopes(
        self, graph: Graph, configs: Any, near: NDArray[np.float32] | None
    ) -> tuple[NDArray[np.float32], NDArray[np.float32] | None, NDArray[np.float32] | None]:
        """Return scores and their slopes; parameters and errors: see :meth:`tpugraphs.Ranker.slopes`."""
        prepared, rows = self._chosen(graph, configs)
        if prepared.num_segments > 1:
            raise ConfigError("configs: a model of segments has no gradients of the whole graph: only scores")
        of = (["digits"] if graph.schema.digits else []) + ([] if near is None else ["config_feat"])
        start = [np.ones(rows.size, np.float32)]
        (scores,), found = self.model.input_gradients([prepared.slate(rows)], start, of)
        changes = None
        if near is not None:
            given = as_configs(graph, configs)
            assert given is not None
            flat = near.reshape(-1, near.shape[2])
            own, others = (np.asarray(self.pipeline.configs((None, x))[1]) for x in (given[1], flat))
            moved = others.reshape(*near.shape[:2], -1) - own[:, None]
            changes = np.einsum("nmt,nt->nm", moved, found["config_feat"][0])
        return scores, found["digits"][0] if "digits" in found else None, changes

    # Files and copies (copy.deepcopy, worker processes): the model goes as its arrays

    def to_file(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return what scoring needs: metadata, and tensors by name."""
        metadata: dict[str, Any] = {"preprocessing": self.pipeline.steps}
        if self.pipeline.schema is not None:
            metadata["schema"] = self.pipeline.schema.to_dict()
        if (function := self.pipeline.extra) is not None:
            metadata["extra"] = name_of_extra(function)
            if metadata["extra"] is None:
                raise ConfigError(
                    f"extra: {plain_name(function)} makes features of graphs, and files hold no code: give "
                    "it a name, here and where the file is opened: tg.recipes.register_extra(name, function)"
                )
        return metadata | {"steps": self.steps}, {**self.parameters, **self.pipeline.tensors()}

    def read(self, path: str, metadata: Mapping[str, Any], tensors: Mapping[str, NDArray[Any]]) -> None:
        """Restore what `to_file` returned; `path` names the file in errors.

        Raises
        ------
        CheckpointError
            An entry or tensor that is missing, or of another type or shape, or steps that make no model.
        """
        self._steps = steps = tensorfile.entry(path, metadata, "steps", list)
        self.pipeline.extra = extra_of(path, metadata)
        if "schema" in metadata:
            self.pipeline.schema = schema_of(path, metadata)
        self.pipeline = Pipeline.from_file(path, metadata.get("preprocessing"), tensors, self.pipeline)
        with tensorfile.sound(path, "steps", "the steps of a model"):
            planned = _core.plan_parameters(steps, **self.columns)
        # All are found in the file before the core allocates any.
        weights = {name: tensorfile.take(path, tensors, name, shape, np.float32) for name, shape in planned}
        for name, view in self.parameters.items():
            view[:] = weights[name]
        self.fitted, self.trained_steps = True, 0

    def weights(self) -> dict[str, NDArray[np.float32]]:
        """Return all weights, and the state of the optimizer if there is one, each a view (P,), by name."""
        moments = {} if self._trainer is None else {name: getattr(self._trainer, name) for name in _MOMENTS}
        return moments if self._model is None else moments | {"params": self._model.params}

    def set_weights(self, arrays: Mapping[str, NDArray[np.float32]]) -> None:
        """Copy arrays that `weights` returned into this network."""
        for name, array in arrays.items():
            getattr(self.trainer if name in _MOMENTS else self.model, name)[:] = array

    def __getstate__(self) -> dict[str, Any]:
        left_out = {"_model", "_trainer", "last", "judged"}
        if is_registered(self.recipe):
            left_out.add("recipe")
        state = {name: value for name, value in vars(self).items() if name not in left_out}
        arrays = {name: array.copy() for name, array in self.weights().items()}
        return {**state, "recipe_name": self.recipe.name, "arrays": arrays}

    def __setstate__(self, state: dict[str, Any]) -> None:
        arrays, name = state.pop("arrays"), state.pop("recipe_name")
        vars(self).update({"recipe": state.get("recipe") or get_recipe(name)} | state)
        self._begin()
        self.set_weights(arrays)


def schema_of(path: str, metadata: Mapping[str, Any]) -> Schema:
    """Return the schema in the metadata of a file, or raise CheckpointError."""
    with tensorfile.sound(path, "schema", "a schema"):
        return Schema.from_dict(metadata["schema"])
