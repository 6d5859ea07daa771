"""The ranker: learns from measured runtimes to rank the configs of a graph, fastest first."""

from __future__ import annotations

import copy
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tpugraphs import _core, evaluation, kernels, rankerfile
from tpugraphs.errors import CheckpointError, ConfigError, DataError, Error, RecipeError
from tpugraphs.files import file_name
from tpugraphs.optimizer import Optimizer
from tpugraphs.pipeline import SCHEMA, Pipeline, Prepared, check_kind, check_measured
from tpugraphs.progress import Progress
from tpugraphs.ranking import Ranks
from tpugraphs.recipes import Recipe, get_recipe, is_registered, list_recipes, plain
from tpugraphs.scoring import SCORING, TRAINING, Last, as_configs, check_precision, chunk_size, score
from tpugraphs.trainset import Material

if TYPE_CHECKING:
    from tpugraphs.report import Report
    from tpugraphs.schema import Schema
    from tpugraphs.training import Callback, Fit, History

__all__ = ["Ranker", "list_recipes"]

_TTA = 5  # key of the random stream of test-time augmentation
_STATE = ("moment1", "moment2")  # arrays of a trainer


class Ranker(Ranks):
    """Learn from measured runtimes to rank the configs of a graph that was not measured.

    Parameters
    ----------
    recipe : str or Recipe
        One of :func:`tpugraphs.list_recipes`, or a recipe of your own (see :mod:`tpugraphs.recipes`).
    seed : int
        Of everything random; the same seed gives the same bits, for any number of threads.
    preset : {"cpu", "full"}
        Sizes for a CPU, or as published.
    precision : {"f32", "bf16"}
        Of the operands of matrix products, in training and (unless asked otherwise) in prediction. Sums,
        statistics, weights and the optimizer are float32 in any case. bf16 needs no special processor, but is
        faster only on one with such instructions.
    **fields
        Any field of the recipe, for example ``steps=``, ``learning_rate=`` or ``prune=``; `get_params` lists
        them.

    Attributes
    ----------
    history : History or None
        Of the last fit.

    Raises
    ------
    RecipeError
        Unknown recipe.
    ConfigError
        Unknown preset or field, or a value out of range; the message lists what is valid.

    Notes
    -----
    A recipe with attention across configs scores the configs of a chunk together: a score then depends on
    which others are asked for with it. `predict` cuts the configs, in the given order, into chunks of nearly
    equal size, at most the field `chunk`; in smaller ones, as they are faster, if it has no such attention.

    Examples
    --------
    >>> import tpugraphs as tg
    >>> ranker = tg.Ranker("first-layout-cross", preset="full")
    >>> ranker.num_parameters
    215013
    """

    def __init__(
        self,
        recipe: str | Recipe = "first-layout",
        seed: int = 0,
        preset: str = "cpu",
        precision: str = "f32",
        **fields: Any,
    ) -> None:
        self._configure(recipe, seed, preset, precision, fields)

    def _configure(
        self, recipe: str | Recipe, seed: int, preset: str, precision: str, given: dict[str, Any]
    ) -> None:
        found = get_recipe(recipe)
        if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or not 0 <= seed < 2**63:
            raise ConfigError(f"seed: expected a whole number in 0..2^63-1, got {seed!r}")
        check_precision(precision, TRAINING)
        fields = found.fields(preset, given)
        _core.losses_need(found.losses(fields))
        self._recipe, self.fields = found, fields
        self.recipe, self.seed, self.preset, self.precision = found.name, seed, preset, precision
        self._reset()

    def _reset(self) -> None:
        self._model: _core.Model | None = None
        self._trainer: _core.Trainer | None = None
        self.pipeline = self._recipe.pipeline(self.fields)
        self._steps: list[dict[str, Any]] | None = None
        self._fitted = False
        self._step = 0
        self._last = Last()
        self.history: History | None = None

    # Parameters

    @property
    def schema(self) -> Schema | None:
        """What graphs of any schema must fit, once fitted; None for recipes of the published schemas."""
        return self.pipeline.schema

    @property
    def steps(self) -> list[dict[str, Any]]:
        """Steps of the model. Of a recipe for any schema, known when it has been fitted."""
        if self._steps is None:
            if self._recipe.kind == "graph" and self.pipeline.schema is None:
                raise Error(
                    "the model follows from the schema of the graphs: call fit (or Ranker.load) first"
                )
            self._steps = self._recipe.model(self.fields, self.pipeline.sizes)
        return self._steps

    @steps.setter
    def steps(self, steps: list[dict[str, Any]]) -> None:
        self._steps = steps

    @property
    def model(self) -> _core.Model:
        """The model in the core; its `params` are a view (P,) of all weights."""
        if self._model is None:
            self._model = _core.Model(self.steps, int(self.seed), **self._columns)
        return self._model

    @property
    def _columns(self) -> dict[str, Any]:
        """What prepared graphs hold, as the core asks for it."""
        sizes = self.pipeline.sizes
        return {
            "node_features": sizes.node,
            "config_features": sizes.config,
            "graph_features": sizes.graph,
            "digits": sizes.digits,
        }

    @property
    def num_parameters(self) -> int:
        """P, number of weights."""
        return int(self.model.num_parameters)

    @property
    def fitted(self) -> bool:
        """Whether it has learnt something."""
        return self._fitted

    @property
    def kind(self) -> str:
        """Kind of the graphs it ranks: ``"layout"``, ``"tile"`` or ``"graph"`` (of any schema)."""
        return self.pipeline.kind

    @property
    def metric(self) -> str:
        """What its fits are validated by: see :data:`tpugraphs.metrics.VALIDATION`."""
        return str(self.fields.metric)

    @property
    def parameters(self) -> dict[str, NDArray[np.float32]]:
        """All weights by name, as views."""
        flat = self.model.params
        return {
            name: flat[offset : offset + int(np.prod(shape))].reshape(shape)
            for name, offset, shape in self.model.layout
        }

    @property
    def loss(self) -> list[dict[str, Any]]:
        """Losses that are added up, as :class:`tpugraphs.recipes.Recipe` describes them."""
        return [dict(term) for term in self._recipe.losses(self.fields)]

    @property
    def reads_values(self) -> bool:
        """Whether a loss fits values, and not only the order of runtimes."""
        return "values" in _core.losses_need(self.loss)

    @property
    def trainer(self) -> _core.Trainer:
        """Gradients and optimizer state of the model."""
        if self._trainer is None:
            self._trainer = _core.Trainer(self.model)
        return self._trainer

    @property
    def groups(self) -> list[dict[str, Any]]:
        """Parameters that the recipe trains differently: see :class:`tpugraphs.recipes.Recipe`."""
        return self._recipe.groups(self.fields)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """All constructor arguments, every field of the recipe among them; ``sklearn.base.clone`` uses it."""
        names = self.fields.__dataclass_fields__
        recipe = self.recipe if is_registered(self._recipe) else self._recipe
        own = {"recipe": recipe, "seed": self.seed, "preset": self.preset, "precision": self.precision}
        return {**own, **{name: getattr(self.fields, name) for name in names}}

    def set_params(self, **params: Any) -> Self:
        """Change constructor arguments. What was learnt is forgotten if any of them changes.

        Fields that had the values of the old preset or recipe get those of a new one.
        """
        old = self.get_params()
        by_epochs = params.get("epochs") is not None and "steps" not in params
        same = all(name in old and old[name] == value for name, value in params.items())
        if same and not (by_epochs and old.get("steps") is not None):
            return self
        defaults = plain(self._recipe.fields(self.preset))
        given = {name: value for name, value in old.items() if name in defaults and defaults[name] != value}
        known = get_recipe(params.get("recipe", old["recipe"])).options.__dataclass_fields__
        given = {name: value for name, value in given.items() if name in known}
        if by_epochs:
            given.pop("steps", None)
        own = {name: params.pop(name, old[name]) for name in ("recipe", "seed", "preset", "precision")}
        self._configure(**own, given={**given, **params})
        return self

    def __repr__(self) -> str:
        defaults = self._recipe.fields(self.preset)
        shown = {"seed": self.seed, "preset": self.preset}
        shown |= {} if self.precision == "f32" else {"precision": self.precision}
        shown |= {n: v for n, v in vars(self.fields).items() if getattr(defaults, n) != v}
        arguments = ", ".join([repr(self.recipe), *(f"{name}={value!r}" for name, value in shown.items())])
        known = self._steps is not None or self._recipe.kind != "graph" or self.pipeline.schema is not None
        size = f"{self.num_parameters:,} parameters, " if known else ""
        return f"<Ranker({arguments}): {size}{'fitted' if self._fitted else 'not fitted'}>"

    # Copies (copy.deepcopy, worker processes): the model goes as its arrays

    def __getstate__(self) -> dict[str, Any]:
        left_out = {"_model", "_trainer", "_last", *(["_recipe"] if is_registered(self._recipe) else [])}
        state = {name: v for name, v in vars(self).items() if name not in left_out}
        model, trainer = self._model, self._trainer
        arrays = {} if trainer is None else {name: getattr(trainer, name).copy() for name in _STATE}
        return {**state, "arrays": ({} if model is None else {"params": model.params.copy()}) | arrays}

    def __setstate__(self, state: dict[str, Any]) -> None:
        arrays = state.pop("arrays")
        recipe = state.get("_recipe") or get_recipe(state["recipe"])
        vars(self).update(state, _model=None, _trainer=None, _last=Last(), _recipe=recipe)
        if "params" in arrays:
            self.model.params[:] = arrays.pop("params")
        for name, array in arrays.items():
            getattr(self.trainer, name)[:] = array

    # Learning

    def fit(
        self,
        train: Any,
        valid: Any = None,
        *,
        sample_weight: Any = None,
        epochs: int | None = None,
        steps: int | None = None,
        callbacks: Sequence[Callback] = (),
        checkpoint_dir: str | os.PathLike[str] | None = None,
        checkpoint_every: int = 100,
        verbose: bool | None = None,
    ) -> History:
        """Learn anew from graphs with measured runtimes.

        If it fails before the first step is done, the ranker stays as it was.

        Every step takes one graph and some of its configs, or several such slates (fields `slates` and
        `accumulate`); graphs come in random order, each once per epoch, and its configs evenly. Graphs that
        cannot be learnt from (no runtimes, one distinct config) are left out and listed in
        ``history.skipped``, unless it is the only one.

        Parameters
        ----------
        train : graph, list of graphs, or split of a collection
            For some of the configs of a graph: ``g.select(rows)``, with rows from
            :func:`tpugraphs.training.split_configs`.
        valid : the same, or float, optional
            With graphs, these are ranked every `evaluate_every` steps, and at the end the ranker has the
            parameters with the best mean tau. A number like 0.1 holds out that share of the configs of
            `train`.
        sample_weight : (C,) array, or list of these and None, optional
            Weights >= 0 of the configs of the graph, or of each graph of `train`, in the loss. A pair of
            configs counts with the product of their weights. A config of weight 0 is left out, but the
            preprocessing is fitted to it. Of equal configs that are merged, the one whose runtime is kept
            (``keep="mean"``: the first) gives the weight. Validation has no weights.
        epochs, steps : int, optional
            Length, instead of the recipe's. An epoch is one visit per graph.
        callbacks : list of Callback
            See :class:`tpugraphs.training.Callback` and :class:`tpugraphs.training.EarlyStopping`.
        checkpoint_dir : path, optional
            Where the state is written every `checkpoint_every` steps, and at the end. A fit with the same
            arguments goes on from there, exactly: it ends with the same bits as one that was never stopped.
        verbose : bool, optional
            Show a progress bar; by default in a terminal or notebook.

        Returns
        -------
        History
            With ``interrupted`` set (and a warning) after Ctrl-C: the ranker is then usable, with the best
            parameters so far. Before the first step is done, Ctrl-C raises KeyboardInterrupt.

        Raises
        ------
        DataError
            Nothing to learn from.
        CheckpointError
            The checkpoint is damaged or of another fit; the message says what differs.
        ConfigError
            A value out of range, or another fit is using `checkpoint_dir`.
        """
        from tpugraphs.training import Fit, held

        epochs, steps = self.length(epochs, steps, checkpoint_every)
        before, fit = vars(self).copy(), None
        self._reset()
        try:
            with held(checkpoint_dir) as folder:
                material = Material(
                    self.pipeline,
                    train,
                    valid,
                    self.fields.valid_configs,
                    int(self.seed),
                    folder is not None,
                    sample_weight,
                )
                fit = Fit(self, material, steps, epochs, callbacks, folder, checkpoint_every, verbose)
                self.history = fit.run()
        finally:
            if fit is not None and fit.step > 0:
                self._learnt(fit)
            else:  # refused before anything was learnt
                vars(self).update(before)
        return self.history

    def length(
        self, epochs: int | None, steps: int | None, checkpoint_every: int
    ) -> tuple[int | None, int | None]:
        """Epochs or steps of a fit: those given, or the recipe's; ConfigError for what is none."""
        if epochs is not None and steps is not None:
            raise ConfigError("give epochs or steps, not both")
        given = {name: value for name, value in (("epochs", epochs), ("steps", steps)) if value is not None}
        self._recipe.fields(self.preset, given)  # checks the values
        if not given:
            steps, epochs = self.fields.steps, self.fields.epochs
        if not isinstance(checkpoint_every, (int, np.integer)) or checkpoint_every < 1:
            raise ConfigError(
                f"checkpoint_every: expected a whole number of at least 1, got {checkpoint_every!r}"
            )
        return epochs, steps

    def _learnt(self, fit: Fit) -> None:
        """Take over the result of a fit."""
        self._fitted, self._step, self.history = True, fit.step, fit.history
        self._last.clear()

    def partial_fit(self, graph: Any, configs: ArrayLike) -> float:
        """Take one optimizer step on exactly these configs of a graph, with the recipe's learning rate.

        The first call on a ranker that is not fitted fits the preprocessing on this graph.

        Parameters
        ----------
        graph : LayoutGraph
        configs : slice, (n,) int or (C,) bool
            As for ``graph.select``.

        Returns
        -------
        float
            Loss before the step.
        """
        if self._last.get(graph) is None or not self._last.measured:
            check_measured(graph, self.kind)  # which looks at all runtimes: not in every step
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
        if not self._fitted:
            self.pipeline.fit([graph])
        prepared = self._prepare(graph)
        self._last.measured = True
        optimizer, number = Optimizer(self), self._step + 1
        loss = optimizer.gradients(number, [(prepared, rows)])
        optimizer.update(number, float(self.fields.learning_rate), [])
        self._step, self._fitted = number, True
        return loss

    def adapt(
        self,
        graph: Any,
        configs: ArrayLike | None = None,
        *,
        steps: int = 60,
        anchor: float = 0.1,
        only: Sequence[str] | None = None,
    ) -> Ranker:
        """Return a ranker that has also learnt from a few measurements of one graph; this one stays as it is.

        For a new device or program of which some dozen configs were measured. Every step is one of
        `partial_fit` on all of them; after it the weights go a part of the way back to what they are here,
        so that a few measurements shift what was learnt from many and do not replace it. The optimizer
        begins from rest: a ranker that was loaded gives the same bits as the one that was saved.

        Parameters
        ----------
        graph : graph
        configs : slice, (n,) int or (C,) bool, optional
            Those measured, as for ``graph.select``; all that ran by default.
        steps : int
        anchor : float
            Part of the way back after each step: 0 for none, 1 for all of it.
        only : sequence of str, optional
            Patterns of names of `parameters`; the other weights stay as they are. Of ``graph-config``,
            ``("head.*", "past.*")`` are those next to the scores.

        Raises
        ------
        ConfigError
            A value out of range, or a pattern that matches no parameter.
        DataError
            As of `partial_fit`.
        """
        from tpugraphs.adaptation import adapt

        self._require_fit("adapt")
        check_kind(graph, self.kind)
        made = copy.deepcopy(self)
        made._trainer, made._step = None, 0
        adapt(made, graph.select(graph.ran if configs is None else configs), steps, anchor, only)
        return made

    # Ranking

    def predict(
        self,
        graph: Any,
        configs: ArrayLike | None = None,
        tta: int = 0,
        precision: str | None = None,
        verbose: bool | None = None,
    ) -> NDArray[np.float32]:
        """Scores of configs of a graph: smaller = predicted faster.

        Works chunk by chunk: besides the digits, one byte each, it needs no memory that grows with the number
        of configs, but some bytes per config for the scores. Ctrl-C ends it within a chunk.

        Parameters
        ----------
        graph : LayoutGraph or TileGraph
            Of the kind the recipe is made for.
        configs : slice, (n,) int, (C,) bool, (n, K, 18) or (n, 24), optional
            Which configs of the graph, in which order, as for ``graph.select``; all by default. Or other
            configs. Layout: digits, whole numbers in -1..5, as in ``graph.node_config_feat``. int8
            (C-contiguous) is used as it is, of other types a copy of one byte per digit is made. Tile: the 24
            numbers of ``graph.config_feat``.
        tta : int
            Test-time augmentation: mean over so many random orders of the configs, which matters to recipes
            with attention across configs. 0: the given order, once.
        precision : {"f32", "bf16", "int8"}, optional
            Of the operands of matrix products; the ranker's own by default. int8 needs no training for it:
            weights and activations are scaled to 8 bits as they are multiplied.
        verbose : bool, optional
            Show a progress bar on long work; by default in a terminal or notebook.

        Returns
        -------
        (n,) float32

        Raises
        ------
        Error
            Not fitted, or a score that is not a finite number.
        ConfigError
            `tta` or `precision` is none of these.
        DataError
            The graph cannot be ranked, or `configs` are not as described.
        """
        self._require_fit("predict")
        if isinstance(tta, bool) or not isinstance(tta, (int, np.integer)) or not 0 <= tta <= 10_000:
            raise ConfigError(f"tta: expected a whole number in 0..10000, got {tta!r}")
        precision = check_precision(self.precision if precision is None else precision, SCORING)
        check_kind(graph, self.kind)
        given = as_configs(graph, configs)
        if given is None:
            prepared, rows = self._prepare(graph), graph.row_numbers(configs)
        else:
            prepared = self._prepare_nodes(graph).with_configs(self.pipeline.configs(given))
            rows = np.arange(len(given))
        count = max(1, int(tta)) * rows.size
        with Progress(count, "predict", "config", verbose) as progress:
            if tta == 0:
                return self.score_rows(prepared, rows, precision, progress)
            total = np.zeros(rows.size)
            for k in range(int(tta)):
                order = kernels.sample_without_replacement(rows.size, rows.size, (int(self.seed), _TTA, k))
                total[order] += self.score_rows(prepared, rows[order], precision, progress)
        return (total / tta).astype(np.float32)

    def score_rows(
        self,
        prepared: Prepared,
        rows: NDArray[np.int64],
        precision: str | None = None,
        progress: Progress | None = None,
    ) -> NDArray[np.float32]:
        """Scores (n,) of rows (n,) of a prepared graph, in chunks of nearly equal size."""
        chunk = chunk_size(self.model, int(self.fields.chunk), prepared.num_nodes)
        done = (lambda count: None) if progress is None else progress.update
        return score(self.model, prepared, rows, chunk, precision or self.precision, done)

    def evaluate(
        self,
        graphs: Any,
        configs: ArrayLike | None = None,
        tta: int = 0,
        precision: str | None = None,
        *,
        official: bool = False,
        **options: Any,
    ) -> Report:
        """Judge the ranking of graphs with measured runtimes; see :func:`tpugraphs.evaluation.evaluate`.

        `tta` and `precision` as of `predict`; with `official`, on the published validation configs and by the
        published metrics only.
        """
        self._require_fit("evaluate")
        verbose = bool(options.get("progress", False))
        if getattr(configs, "ndim", 0) > 1:
            raise ConfigError("configs: expected row numbers: configs given as such have no runtimes here")

        def score(graph: Any, rows: ArrayLike | None = None) -> NDArray[np.float32]:
            return self.predict(graph, rows, tta, precision, verbose)

        return evaluation.evaluate(
            score, graphs, configs=configs, official=official, name=self.recipe, **options
        )

    def _require_fit(self, what: str) -> None:
        if not self._fitted:
            raise Error(f"this ranker has learnt nothing yet: call fit (or Ranker.load) before {what}")

    def share_prepared(self, other: Ranker) -> None:
        """Keep the graph that was prepared last together with a ranker of the same preprocessing."""
        self._last = other._last

    def _prepare(self, graph: Any) -> Prepared:
        """Prepare a graph and its configs, which are read now if they were not before."""
        known = self._last.get(graph)
        if known is None or known.graph is None:
            known = self._last.keep(graph, self.pipeline.apply(graph))
        return known

    def _prepare_nodes(self, graph: Any) -> Prepared:
        """Prepare a graph without reading its configs."""
        known = self._last.get(graph)
        if known is None:
            known = self._last.keep(graph, self.pipeline.apply(graph, configs=False))
        return known

    # Files

    @classmethod
    def from_torch(
        cls,
        weights: str | os.PathLike[str] | Mapping[str, Any],
        recipe: str | None = None,
        preset: str = "full",
        *,
        scaler: tuple[ArrayLike, ArrayLike] | None = None,
        config_scaler: tuple[ArrayLike, ArrayLike] | None = None,
        graphs: Any = None,
        node_padding: int = -1,
        rename: Mapping[str, str] | None = None,
        seed: int = 0,
        precision: str = "f32",
        **fields: Any,
    ) -> Ranker:
        """Make a ranker of the weights of a published PyTorch model, trained elsewhere.

        The ranker, and its file, say which padding of node features the weights were trained with, and
        graphs with another one are refused. `docs/weights-from-outside.md` tells how to convert a .pt file.

        Parameters
        ----------
        weights : path, or mapping of str to array
            A .safetensors file, or arrays, with the names of the published model (the table is in
            ``tpugraphs/recipes/first.py``); ``module.``, ``model.``, ``_orig_mod.`` and ``net.`` before them
            are ignored. Nothing is unpickled.
        recipe : str, optional
            Found by the names, unless given.
        preset, seed, precision, **fields
            As of the constructor; sizes are those published, unless fields say otherwise.
        scaler : (mean, std), optional
            Each (134,): what the node features were scaled with, 0 in `std` counting as 1.
        config_scaler : (mean, std), optional
            Each (24,): the same of the configs of tile graphs, for ``first-tile``.
        graphs : graph, list of graphs, or split, optional
            To compute them from, instead: the graphs the weights were trained on.
        node_padding : {-1, 0}
            What lists in the node features were padded with in training; the first place's with -1
            (:mod:`tpugraphs.padding`).
        rename : mapping of str to str, optional
            Beginnings of names -> what this package knows them by, such as ``{"cfg_net.": "config_mlp."}``.

        Raises
        ------
        CheckpointError
            No such file, or weights that do not fit; all that is missing, not expected or of another shape is
            named.
        ConfigError, RecipeError
            As the constructor, or neither `scaler` nor `graphs`.
        DataError
            `graphs` with another padding.

        Examples
        --------
        >>> ranker = tg.Ranker.from_torch("weights.safetensors", scaler=(mean, std))  # doctest: +SKIP
        """
        from tpugraphs import weights as outside

        read, path = outside.read_weights(weights, rename)
        ranker = cls(recipe or outside.recipe_of(read), seed, preset, precision, **fields)
        ranker.pipeline.require_padding(node_padding)
        scalers = {"scaler": scaler, "config_scaler": config_scaler}
        outside.load(ranker, read, path, scalers, graphs)
        ranker._fitted = True
        return ranker

    def to_file(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return metadata and tensors of a ranker file: all that prediction needs."""
        self._require_fit("save")
        from tpugraphs import __version__

        history = self.history
        metadata = {
            "package": __version__,
            "feature_schema": SCHEMA,
            "recipe": self.recipe,
            "seed": int(self.seed),
            "preset": self.preset,
            "precision": self.precision,
            "fields": plain(self.fields),
            "preprocessing": self.pipeline.steps,
            **({} if self.pipeline.schema is None else {"schema": self.pipeline.schema.to_dict()}),
            "steps": self.steps,
            "trained_steps": self._step,
            "best_step": history.best_step if history else None,
            "best_metric": history.best_metric if history else None,
        }
        return metadata, {**self.parameters, **self.pipeline.tensors()}

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write all that prediction needs to one safetensors file: weights, steps, preprocessing, fields."""
        rankerfile.write(file_name(path), "ranker", *self.to_file())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Ranker:
        """Read a ranker that `save` wrote; it predicts the same bits.

        Raises
        ------
        CheckpointError
            Not such a file, damaged, or of a version that is not known; the message names the field.
        """
        path = file_name(path)
        return cls.from_file(path, *rankerfile.read(path, "ranker"))

    @classmethod
    def from_file(cls, path: str, metadata: dict[str, Any], tensors: dict[str, NDArray[Any]]) -> Ranker:
        """Make the ranker of what `to_file` gave, from the file `path`; CheckpointError as `load`."""

        def entry(name: str, *kinds: type) -> Any:
            return rankerfile.entry(path, metadata, name, kinds)

        if metadata.get("feature_schema") != SCHEMA:
            raise rankerfile.fail(path, "feature_schema", str(SCHEMA), repr(metadata.get("feature_schema")),
                                  "use the version of tpugraphs that wrote it")  # fmt: skip
        own = {name: entry(name, str) for name in ("recipe", "preset", "precision")}
        if own["recipe"] not in list_recipes():
            todo = "give the recipe it was trained with to tpugraphs.recipes.register, then load again"
            raise rankerfile.fail(path, "recipe", ", ".join(list_recipes()), repr(own["recipe"]), todo)
        try:
            ranker = cls(seed=entry("seed", int), **own, **entry("fields", dict))
        except (RecipeError, ConfigError, ValueError, TypeError) as error:
            message = f"{error}; the file is damaged, or was written by a later version of tpugraphs"
            raise CheckpointError(message, file=os.fspath(path), field="fields") from None
        ranker.steps = steps = entry("steps", list)
        if "schema" in metadata:
            ranker.pipeline.schema = rankerfile.schema(path, metadata["schema"])
        ranker.pipeline = Pipeline.from_file(path, metadata.get("preprocessing"), tensors, ranker.pipeline)
        weights = rankerfile.parameters(path, steps, ranker._columns, tensors)
        for name, view in ranker.parameters.items():
            view[:] = weights[name]
        ranker._fitted, ranker._step = True, 0
        return ranker
