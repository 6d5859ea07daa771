"""The ranker: learns from measured runtimes to rank the configs of a graph, fastest first."""

from __future__ import annotations

import copy
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, Self, Unpack, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tpugraphs import _core
from tpugraphs.data.graph import Graph, Graphs, Rows, TableLike, Valid
from tpugraphs.data.identity import known_as
from tpugraphs.data.schema import Schema
from tpugraphs.errors import ConfigError, Error
from tpugraphs.evaluation.scorer import ChooseOptions
from tpugraphs.names import kind_named
from tpugraphs.network import weights as outside
from tpugraphs.network.scoring import TRAINING, check_precision
from tpugraphs.network.summary import summary
from tpugraphs.preprocess.checks import check_kind
from tpugraphs.preprocess.pipeline import SCHEMA, Pipeline
from tpugraphs.ranker import filekinds
from tpugraphs.ranker.conventions import as_graph, is_table, learnable, not_fitted
from tpugraphs.ranker.estimator import Estimator, NetworkEstimator
from tpugraphs.ranker.scorer import ScorerBase
from tpugraphs.ranker.trees import TreeEstimator, TreePairEstimator
from tpugraphs.recipes import Recipe, described, get_recipe, is_built_in, is_registered, list_recipes, plain
from tpugraphs.recipes.functions import is_lost, shortly
from tpugraphs.system import check_whole, counted, markup, tensorfile
from tpugraphs.system.signatures import checked_names, shows
from tpugraphs.training.callbacks import History
from tpugraphs.training.fit import FitOptions
from tpugraphs.training.optimizer import adapt, parameter_groups

if TYPE_CHECKING:
    from tpugraphs.ranker.arguments import FitArguments
    from tpugraphs.ranker.auto import Choice
    from tpugraphs.recipes.fields import RecipeFields, RecipeName, Unknown

_OWN = ("recipe", "seed", "preset", "precision")  # arguments of all rankers, besides the recipe's fields
_ARGUMENTS = [one.name for one in fields(FitOptions) if one.name != "ranker"]  # of `fit`, by keyword
# What a recipe may train, by the name in its `estimator`.
ESTIMATORS: dict[str, Callable[..., Estimator]] = {
    "network": NetworkEstimator,
    "trees": TreeEstimator,
    "tree-pairs": TreePairEstimator,
}


@filekinds.register("ranker")
class Ranker(ScorerBase):
    """Learn from measured runtimes to rank the configs of graphs that were not measured.

    Parameters
    ----------
    recipe : str or Recipe
        One of :func:`tpugraphs.list_recipes`, or your own recipe (see :mod:`tpugraphs.recipes`).
    seed : int
        Seed of everything random. The same seed gives the same bits for any number of threads.
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
    history_ : History
        History of the last fit. Missing before a fit and for a ranker from a file.
    n_features_in_ : int
    feature_names_in_ : (F,) object
        Number and names of the columns of configs, for recipes of any schema. A table whose columns have
        other names, or another order, is refused.

    Raises
    ------
    RecipeError
        Unknown recipe.
    ConfigError
        Unknown preset or field, or a value out of range; the message lists what is valid.

    Notes
    -----
    `predict` cuts the configs, in the given order, into chunks of nearly equal size, at most the field
    `chunk`. A recipe with attention across configs scores the configs of a chunk together, so a score depends
    on the other configs of its chunk. Without such attention smaller chunks are used, which are faster.

    Examples
    --------
    >>> import tpugraphs as tg
    >>> ranker = tg.Ranker("first-layout-cross", preset="full")
    >>> ranker.num_parameters
    215013
    """

    @overload
    def __init__(
        self,
        recipe: RecipeName | str = "first-layout",
        seed: int = 0,
        preset: str = "cpu",
        precision: str = "f32",
        **fields: Unpack[RecipeFields],
    ) -> None: ...
    @overload
    def __init__(
        self, recipe: Recipe, seed: int = 0, preset: str = "cpu", precision: str = "f32", **fields: Any
    ) -> None: ...
    @overload
    def __init__(
        self, recipe: str = ..., seed: int = ..., preset: str = ..., precision: str = ..., **fields: Unknown
    ) -> None: ...
    def __init__(
        self,
        recipe: str | Recipe = "first-layout",
        seed: int = 0,
        preset: str = "cpu",
        precision: str = "f32",
        **fields: Any,
    ) -> None:
        found = get_recipe(recipe)
        seed, precision = check_whole("seed", seed, 0), check_precision(precision, TRAINING)
        self._recipe, self.fields = found, found.fields(preset, fields)  # the last that may be refused
        self.recipe, self.seed, self.preset, self.precision = found.name, seed, preset, precision
        self._learning, self._thread = threading.Lock(), 0
        self.reset()

    def reset(self) -> None:
        """Forget what was learnt."""
        self._take(self._fresh())

    def _take(self, estimator: Estimator) -> None:
        """Rank with a trained estimator from now on."""
        self._learnt = self._training = estimator

    def _fresh(self) -> Estimator:
        """Return a new estimator of the recipe."""
        named = self._recipe.estimator
        make = ESTIMATORS[named] if isinstance(named, str) else named
        return make(self._recipe, self.fields, self.seed, self.precision)

    # While a fit runs, its own thread (callbacks, losses) sees what is trained, and scores with it from the
    # first step on. Other threads see what was learnt before, and so do all after a fit that fails.

    @property
    def estimator(self) -> Estimator:
        """What the recipe trains, for example a :class:`tpugraphs.ranker.estimator.NetworkEstimator`."""
        return self._training if threading.get_ident() == self._thread else self._learnt

    @property
    def _scoring(self) -> Estimator:
        return self.estimator if self.estimator.fitted else self._learnt

    # Parameters

    @property
    def network(self) -> NetworkEstimator:
        """The network that the recipe trains.

        Raises
        ------
        Error
            The recipe trains something else, for example trees.
        """
        if not isinstance(estimator := self.estimator, NetworkEstimator):
            raise Error(f"recipe {self.recipe} trains no network: it has neither steps nor weights by name")
        return estimator

    @property
    def history_(self) -> History:
        """History of the last fit.

        Raises
        ------
        AttributeError
            Nothing was fitted here: the ranker is new, or its weights come from a file.
        """
        if self.estimator.history is None:
            raise AttributeError("history_: there is none before fit, and files of rankers do not hold it")
        return self.estimator.history

    @property
    def choice_(self) -> Choice:
        """What the recipe ``auto`` chose, and why: ``print(ranker.choice_)``.

        Raises
        ------
        AttributeError
            Nothing was fitted, or another recipe, which has no choice.
        """
        if (choice := getattr(self.estimator, "choice", None)) is None:
            raise AttributeError("choice_: rankers of the recipe auto have it, from fit on")
        found: Choice = choice
        return found

    @property
    def takes_tables(self) -> bool:  # type: ignore[override]
        """Whether tables (n, F) may stand in for graphs; true of recipes for any schema."""
        return kind_named(self.kind).any_schema

    @property
    def takes_configs(self) -> bool:  # type: ignore[override]
        """Whether `predict` takes configs that the graph does not have; rankers with a network do."""
        return isinstance(self.estimator, NetworkEstimator)

    @property
    def n_features_in_(self) -> int:
        """Number of config columns it learnt from, under scikit-learn's name.

        Raises
        ------
        AttributeError
            Nothing was learnt, or the recipe is for one of the published schemas.
        """
        if not self.fitted or self.schema is None:
            raise AttributeError("n_features_in_: rankers of any schema have it, from fit on")
        return len(self.schema.config)

    @property
    def feature_names_in_(self) -> NDArray[np.object_]:
        """Names of these columns, under scikit-learn's name. Tables to rank must have the same.

        Raises
        ------
        AttributeError
            As `n_features_in_`, or the columns had no names.
        """
        names = self.schema.names("config") if self.fitted and self.schema is not None else ()
        if not names:
            raise AttributeError("feature_names_in_: rankers have it that learnt from columns with names")
        return np.array(names, dtype=object)

    @property
    def feature_importances_(self) -> NDArray[np.float64]:
        """Share of the trees' split gain by config column (F,).

        They sum to 1, or are 0 if no tree splits on the configs. Columns are in the order of the schema:
        those of the configs, then the digits of a configurable node, each over all nodes; for
        ``eleventh-lightgbm``, those of :func:`tpugraphs.preprocess.layout_table_names`. Columns that all
        configs of a graph share are left out: they cannot change its ranking. For rankers of any kind there
        is :func:`tpugraphs.permutation_importance`.

        Raises
        ------
        AttributeError
            Nothing was learnt, the ranker trains a network, its recipe makes its own table, or its file is of
            an earlier version.
        """
        if (importances := getattr(self.estimator, "importances", None)) is None:
            others = "tg.permutation_importance judges all rankers"
            raise AttributeError(f"feature_importances_: rankers of trees have it; {others}")
        found: NDArray[np.float64] = importances()
        return found

    @property
    def pipeline(self) -> Pipeline:
        """Preprocessing of the network."""
        return self.network.pipeline

    @property
    def schema(self) -> Schema | None:
        """Schema of the training graphs; None before a fit and for recipes of the published schemas."""
        return getattr(self.estimator, "schema", None)

    @property
    def steps(self) -> list[dict[str, Any]]:
        """Steps of the model. With a recipe for any schema they are known after the fit."""
        return self.network.steps

    @property
    def model(self) -> _core.Model:
        """The model in the core; its `params` are a view (P,) of all weights."""
        return self.network.model

    @property
    def trainer(self) -> _core.Trainer:
        """Gradients and optimizer state of the model."""
        return self.network.trainer

    @property
    def num_parameters(self) -> int:
        """Number of learnt parameters: weights of a network, leaves of trees."""
        size = self.estimator.size
        return self.network.num_parameters if size is None else size

    @property
    def name(self) -> str:
        """Name in reports: the recipe's."""
        return self.recipe

    @property
    def fitted(self) -> bool:
        """Whether it has learnt something."""
        return self._scoring.fitted

    @property
    def kind(self) -> str:
        """Kind of the graphs it ranks: ``"layout"``, ``"tile"`` or ``"graph"`` (of any schema)."""
        return self.estimator.kind

    @property
    def metric(self) -> str:
        """Metric of its validation, a key of :data:`tpugraphs.metrics.VALIDATION`."""
        return str(self.fields.metric)

    @property
    def node_padding(self) -> int | None:
        """Padding that lists in the node features must have, None if any will do."""
        return self.estimator.node_padding

    @property
    def parameters(self) -> dict[str, NDArray[np.float32]]:
        """All weights by name, as views."""
        return self.network.parameters

    @property
    def loss(self) -> list[dict[str, Any]]:
        """Losses that are added up, as :class:`tpugraphs.recipes.Recipe` describes them."""
        return self.network.loss

    @property
    def groups(self) -> list[dict[str, Any]]:
        """Parameters that the recipe trains differently: see :class:`tpugraphs.recipes.Recipe`."""
        return self.network.groups

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return all constructor arguments, including every field of the recipe.

        Parameters
        ----------
        deep : bool
            Has no effect; ``sklearn.base.clone`` passes it.

        Returns
        -------
        dict of str to value
            What ``Ranker(**params)`` takes.
        """
        own: dict[str, Any] = {name: getattr(self, name) for name in _OWN}
        own |= {} if is_registered(self._recipe) else {"recipe": self._recipe}
        return {**own, **{name: getattr(self.fields, name) for name in self.fields.__dataclass_fields__}}

    def set_params(self, **params: Any) -> Self:
        """Change constructor arguments. If any of them changes, the ranker forgets what it has learnt.

        Fields at the default of the old preset or recipe get the default of the new one. The ranker's file
        cannot hold a loss that is a Python function: setting it again keeps what was learnt.

        Parameters
        ----------
        **params
            Constructor arguments, as `get_params` names them.

        Returns
        -------
        Ranker
            The instance itself.
        """
        old = self.get_params()
        lost = [*params] == ["loss"] and self.fitted  # a function that was left behind when it was saved
        if lost and any(is_lost(term["loss"]) for term in self._recipe.losses(self.fields)):
            self.fields = self._recipe.fields(self.preset, {**vars(self.fields), **params})
            self.network.take(self.fields)
            return self
        by_epochs = params.get("epochs") is not None and "steps" not in params
        same = all(name in old and old[name] == value for name, value in params.items())
        if same and not (by_epochs and old.get("steps") is not None):
            return self
        known = get_recipe(params.get("recipe", old["recipe"])).options.__dataclass_fields__
        given = {name: value for name, value in self._changed().items() if name in known}
        if by_epochs:
            given.pop("steps", None)
        elif params.get("steps") is not None and "epochs" not in params:
            given.pop("epochs", None)
        Ranker.__init__(self, **{**{name: old[name] for name in _OWN}, **given, **params})
        return self

    def summary(self) -> str:
        """Describe the ranker in lines of text: preprocessing, losses, and every step of the model.

        Returns
        -------
        str
            Text to print: ``print(ranker.summary())``. For a recipe without a network, the `repr` alone.
        """
        network = isinstance(self.estimator, NetworkEstimator)
        return f"{self!r}\n{summary(self.network)}" if network else repr(self)

    def _changed(self) -> dict[str, Any]:
        """Return the fields that differ from those of the preset."""
        defaults = self._recipe.fields(self.preset)
        return {n: v for n, v in vars(self.fields).items() if getattr(defaults, n) != v}

    def __repr__(self) -> str:
        shown = {"seed": self.seed, "preset": self.preset}
        shown |= {} if self.precision == "f32" else {"precision": self.precision}
        shown |= self._changed()
        arguments = ", ".join([repr(self.recipe), *(f"{n}={shortly(v)}" for n, v in shown.items())])
        size = "" if self.estimator.size is None else f"{counted(self.estimator.size, 'parameter')}, "
        return f"<Ranker({arguments}): {size}{'fitted' if self.fitted else 'not fitted'}>"

    def _repr_html_(self) -> str:
        """Return the `repr`, every field, and the curve of the last fit."""
        size, history = self.estimator.size, self.estimator.history
        facts = {
            "what": self._recipe.summary,
            "ranks": kind_named(self.kind).graphs,
            "parameters": None if size is None else f"{size:,}",
            **{name: getattr(self, name) for name in _OWN[1:]},
            "changed": ", ".join(f"{name}={shortly(value)}" for name, value in self._changed().items()),
        }
        rows = [(name, shortly(value)) for name, value in vars(self.fields).items()]
        folded = markup.folded("all fields", markup.table(("field", "value"), rows))
        curve = "" if history is None else history._repr_html_()
        state = "fitted" if self.fitted else "not fitted"
        return markup.card(type(self).__name__, self.recipe, state, facts, folded, curve)

    def __getstate__(self) -> dict[str, Any]:
        left_out = {"_learning", "_thread", "_training"}
        left_out |= {"_recipe"} if is_registered(self._recipe) else set()
        state = {name: value for name, value in vars(self).items() if name not in left_out}
        return {**state, "_learnt": self._scoring}

    def __setstate__(self, state: dict[str, Any]) -> None:
        recipe = state.get("_recipe") or get_recipe(state["recipe"])
        vars(self).update(state, _recipe=recipe, _learning=threading.Lock(), _thread=0)
        self._training = self._learnt

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Lock the ranker for one fit; a second one is refused."""
        if not self._learning.acquire(blocking=False):
            raise Error("this ranker is being fitted by another thread: wait for it, or fit another ranker")
        self._training, self._thread = self._learnt, threading.get_ident()
        try:
            yield
        finally:
            self._training, self._thread = self._learnt, 0
            self._learning.release()

    # Learning

    @shows(FitOptions, _ARGUMENTS)
    def fit(self, train: Graphs | TableLike, valid: Valid = None, **options: Unpack[FitArguments]) -> Self:
        """Learn from graphs with measured runtimes, from scratch.

        Every step takes one slate (a graph and some of its configs) or several (fields `slates` and
        `accumulate`). Graphs come in random order, each once per epoch; the configs of a graph come equally
        often. Graphs without runtimes or with a single distinct config are left out with a warning and listed
        in ``history_.skipped``; if there is no other graph, that is an error, as is a graph of another kind.
        A fit that raises leaves the ranker as it was. While a fit runs, callbacks predict with the model in
        training, from the first step on; other threads predict with the previous one.

        Parameters
        ----------
        train : graph, list of graphs, or split of a collection
            For recipes of any schema also a table (n, F), one config per row, with runtimes (n,) as `y`.
            To train on some of the configs of a graph, give ``g.select(rows)``, with rows from
            :func:`tpugraphs.training.split_configs`.
        valid : the same, or float, optional
            Graphs that are ranked every `evaluate_every` steps; the ranker ends with the parameters that had
            the best mean metric. A number such as 0.1 holds out that share of the configs of `train`.
            Also takes `y`, which scikit-learn passes in this place.
        y : (C,) array, or list of one such array per graph, optional
            Runtimes to learn from, in place of those of the graph or graphs (None in the list: the graph's
            own).
        sample_weight : (C,) array, or list of these and None, optional
            Weight >= 0 of every config in the loss, for the graph or for each graph of `train`. A pair of
            configs counts with the product of their weights. A config of weight 0 is left out, but the
            preprocessing is fitted to it. Where equal configs are merged, the weight is that of the
            config whose runtime is kept (with ``keep="mean"``, of the first). Validation has no weights.
        epochs, steps : int, optional
            Length of the training, instead of the recipe's. An epoch is one visit per graph.
        callbacks : list of Callback
            See :class:`tpugraphs.training.Callback` and :class:`tpugraphs.training.EarlyStopping`.
        checkpoint_dir : path, optional
            Folder to which the state is written every `checkpoint_every` steps and at the end. A fit with the
            same arguments resumes from it and ends with the same bits as one that was never stopped.
        verbose : bool, optional
            Show a progress bar; by default in a terminal or notebook. The logger ``tpugraphs`` of the
            standard library logs the beginning, the evaluations and the end in any case.
        init : Ranker, optional
            A fitted ranker of the same recipe. Training begins with its weights and keeps its preprocessing,
            for example to go on from all collections to one of them.
        checkpoint_every : int
            Number of steps from one checkpoint to the next.
        freeze : str or sequence of str
            Patterns of names of `parameters` that stay as they are, such as ``"embedding*"``.
        learning_rate : float, optional
            Peak of the schedule in this fit, in place of the field.
        groups : sequence of mapping
            Parameters with a different learning rate: ``[{"match": "head.*", "learning_rate": 10.0}]``, where
            the number is a factor of the learning rate. The first pattern that matches decides. Its factor
            multiplies the recipe's own, its ``weight_decay`` replaces the recipe's.
        communicator : object, optional
            See :mod:`tpugraphs.distributed`. Every rank calls `fit` with the same arguments; the slates of a
            step are shared out, and all end with the same weights. Their bits do not depend on the number of
            ranks, but may differ from those of a fit without a communicator.

        Returns
        -------
        Ranker
            The instance itself. After Ctrl-C ``history_.interrupted`` is set, a warning is issued, and the
            ranker has the best parameters so far. Before the end of the first step Ctrl-C raises
            KeyboardInterrupt.

        Raises
        ------
        DataError
            Nothing to learn from, or a graph of another kind.
        CheckpointError
            The checkpoint is damaged or of another fit; the message says what differs.
        ConfigError
            A value out of range, or another fit is using `checkpoint_dir`.
        """
        how = FitOptions(**checked_names("fit", _ARGUMENTS, options))
        given, valid = learnable(train, valid, how.y)
        with self._alone():
            how = self.checked(how)
            self._training = made = self._fresh()
            made.fit(given, valid, how)
            if made.fitted:  # a callback may have stopped it before its first step
                self._take(made)
        return self

    def checked(self, how: FitOptions) -> FitOptions:
        """Check the options of a fit, and add the length and this ranker.

        Parameters
        ----------
        how : FitOptions
            As the user gave them. Without a length of the training they get the recipe's.

        Returns
        -------
        FitOptions
            Checked, before anything is trained.

        Raises
        ------
        ConfigError
            A value out of range.
        Error
            `init` has learnt nothing, or something is set that only networks have.
        """
        given = ((name, getattr(how, name)) for name in ("epochs", "steps", "learning_rate"))
        numbers = {name: value for name, value in given if value is not None}
        if {"epochs", "steps"} <= numbers.keys():
            raise ConfigError("give epochs or steps, not both")
        if how.tuning.patterns or how.learning_rate is not None or how.init is not None:
            _ = self.network  # an error for trees
        self._recipe.fields(self.preset, numbers)  # checks the values
        check_whole("checkpoint_every", how.checkpoint_every, 1)
        if how.epochs is None and how.steps is None:
            how = replace(how, epochs=self.fields.epochs, steps=self.fields.steps)
        init: Any = how.init
        if init is not None and not isinstance(init, Ranker):
            todo = "; tg.load_ranker(path) opens a file" if isinstance(init, (str, os.PathLike)) else ""
            raise ConfigError(f"init: expected a fitted tg.Ranker, got {type(init).__name__}{todo}")
        if init is not None:
            init.require_fit("fit(init=...)")
        return replace(how, ranker=self, init=copy.deepcopy(init) if init is self else init)

    def partial_fit(self, graph: Graph | TableLike, configs: Rows) -> float:
        """Take one optimizer step on exactly these configs of a graph, with the recipe's learning rate.

        The first call on an unfitted ranker fits the preprocessing on this graph. If the graph is cut into
        segments, one drawn at random stands for all.

        Parameters
        ----------
        graph : graph, or (n, F) table
            As for `predict`. With a table, `configs` are its runtimes, as `y` in :meth:`fit`.
        configs : slice, (n,) int or (C,) bool
            As for ``graph.select``.

        Returns
        -------
        float
            Loss before the step.
        """
        given: Any = graph
        if self.takes_tables and is_table(graph):
            given = as_graph(graph, configs, self)
            configs = np.arange(given.num_configs)
        with self._alone():
            return self.network.partial_fit(given, configs)

    def adapt(
        self,
        graph: Graph,
        configs: Rows | None = None,
        *,
        steps: int = 60,
        anchor: float = 0.1,
        only: Sequence[str] | None = None,
    ) -> Ranker:
        """Return a ranker that has also learnt from a few measurements of one graph; this one is not changed.

        Use it for a new device or program with a few dozen measured configs. Every step is a `partial_fit` on
        all of them, after which the weights move back part of the way to those of this ranker. So a few
        measurements shift what was learnt from many, instead of replacing it. The optimizer starts without
        state, so a loaded ranker gives the same bits as the one that was saved.

        Parameters
        ----------
        graph : graph
        configs : slice, (n,) int or (C,) bool, optional
            The measured configs, as for ``graph.select``; by default all that ran.
        steps : int
        anchor : float
            Part of the way back after each step: 0 for none, 1 for the whole way.
        only : sequence of str, optional
            Patterns of names of `parameters` to train; all other weights stay. In ``graph-config``,
            ``("head.*", "past.*")`` are the layers that make the scores.

        Returns
        -------
        Ranker
            A new one.

        Raises
        ------
        ConfigError
            A value out of range, or a pattern that matches no parameter.
        DataError
            See `partial_fit`.
        """
        self.require_fit("adapt")
        check_kind(graph, self.kind)
        made, part = copy.deepcopy(self), graph.select(graph.ran if configs is None else configs)
        network = made.network
        network.reset_optimizer()
        adapt(network, lambda: network.partial_fit(part, slice(None)), steps, anchor, only)
        return made

    # Ranking

    def predict(
        self,
        graph: Graph | TableLike,
        configs: Rows | None = None,
        tta: int = 0,
        precision: str | None = None,
        verbose: bool | None = None,
    ) -> NDArray[np.float32]:
        """Return scores of configs of a graph: smaller = predicted faster.

        Scores are computed chunk by chunk. Only the digits (one byte each) and the scores themselves take
        memory that grows with the number of configs. Ctrl-C ends the call within a chunk.

        Parameters
        ----------
        graph : graph, or (n, F) table
            Of the kind the recipe is made for. Recipes for any schema also take a table, one config per row.
        configs : slice, (n,) int, (C,) bool, (n, K, 18) or (n, 24), optional
            Configs of the graph, in this order, as for ``graph.select``; by default all. Or configs that the
            graph does not have. Layout: digits, whole numbers in -1..5, as in ``graph.node_config_feat``;
            C-contiguous int8 is used in place, other types are copied to one byte per digit. Tile: the 24
            numbers of ``graph.config_feat``. Of a graph with both: ``(features, digits)``.
        tta : int
            Test-time augmentation: mean over this many random orders of the configs, which matters to recipes
            with attention across configs. 0: the given order, once.
        precision : {"f32", "bf16", "int8"}, optional
            Precision of the operands of matrix products; by default the ranker's own. int8 needs no special
            training: weights and activations are scaled to 8 bits as they are multiplied.
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
            `tta` or `precision` has another value.
        DataError
            The graph cannot be ranked, or `configs` are not as described.
        """
        self.require_fit("predict")
        given: Any = as_graph(graph, scorer=self) if self.takes_tables else graph
        return self._scoring.scores(given, configs, tta, precision, verbose)

    def choose(  # noqa: D102  # see ScorerBase
        self,
        graph: Graph | TableLike,
        count: int = 10,
        configs: Rows | None = None,
        **options: Unpack[ChooseOptions],
    ) -> NDArray[np.int64]:
        self.require_fit("choose")
        given: Any = as_graph(graph, scorer=self) if self.takes_tables else graph
        own = getattr(self._scoring, "choose", None)
        chosen: NDArray[np.int64] | None = None if own is None else own(given, count, configs, **options)
        return super().choose(given, count, configs, **options) if chosen is None else chosen

    def slopes(
        self, graph: Graph, configs: Any, near: NDArray[np.float32] | None = None
    ) -> tuple[NDArray[np.float32], NDArray[np.float32] | None, NDArray[np.float32] | None]:
        """Return scores of configs with their slopes: how a score changes, to the first order, with a config.

        Parameters
        ----------
        graph : Graph
            Of the kind the recipe is made for.
        configs : (n, K, D), (n, T), or a pair of both
            Configs as arrays, as for `predict`.
        near : (n, m, T) float32, optional
            Further features around those of each config.

        Returns
        -------
        scores : (n,) float32
        digits : (n, K, D, V) float32 or None
            The derivative with respect to "digit d of node k has value v - 2": differences of two of them are
            changes of the score. None for configs without digits.
        changes : (n, m) float32 or None
            Changes of the score from the features of the config to those in `near`.

        Raises
        ------
        ConfigError
            The ranker has no network, or one that scores segments.
        DataError
            See `predict`.
        """
        self.require_fit("slopes")
        if not self.takes_configs:
            raise ConfigError(f"recipe {self.recipe} has no gradients: only rankers with a network do")
        network: Any = self._scoring
        return network.slopes(graph, configs, near)  # type: ignore[no-any-return]

    @property
    def across_configs(self) -> bool:
        """Whether a score depends on the other configs that are scored with it."""
        network: Any = self._scoring
        return self.takes_configs and bool(network.model.across_configs)

    def require_fit(self, what: str) -> None:
        """Raise Error if nothing was learnt yet."""
        if not self.fitted:
            todo = f"call fit (or tg.load_ranker) before {what}"
            todo = f"its first fit is running: wait for its end before {what}" if self._thread else todo
            raise not_fitted(f"this ranker has learnt nothing yet: {todo}")

    def knows(self, graph: Graph) -> bool:
        """Return whether it was fitted to this very graph, with these configs, since it was made or loaded.

        Parameters
        ----------
        graph : Graph
            Compared by name, size and runtimes.

        Returns
        -------
        bool
            False for a ranker from a file, which does not record its training graphs.
        """
        return known_as(graph) in getattr(self.estimator, "learnt_from", ())

    def share_prepared(self, other: object) -> bool:
        """Share prepared graphs with `other` if both prepare them in the same way. Return whether they do."""
        if not isinstance(other, Ranker) or type(self.estimator) is not type(other.estimator):
            return False
        return self.estimator.share_prepared(other.estimator)

    # Files

    @classmethod
    def from_torch(
        cls,
        weights: str | os.PathLike[str] | Mapping[str, ArrayLike],
        recipe: str | Recipe | None = None,
        preset: str = "full",
        *,
        scaler: tuple[ArrayLike, ArrayLike] | None = None,
        config_scaler: tuple[ArrayLike, ArrayLike] | None = None,
        graphs: Graphs | None = None,
        node_padding: int | None = None,
        rename: Mapping[str, str] | None = None,
        seed: int = 0,
        precision: str = "f32",
        **fields: Unpack[RecipeFields],
    ) -> Ranker:
        """Make a ranker from the weights of a published PyTorch model that was trained elsewhere.

        The ranker and its file record which padding of node features the weights were trained with. Graphs
        with another padding are refused. `docs/weights-from-outside.md` says how to convert a .pt file.

        Parameters
        ----------
        weights : path, or mapping of str to array
            A .safetensors file, or arrays, with the names of the published model (the table is in the
            recipe's file, such as ``tpugraphs/recipes/first.py``); ``module.``, ``model.``, ``_orig_mod.``
            and ``net.`` before them are ignored. Nothing is unpickled.
        recipe : str or Recipe, optional
            One with `published` names. By default it follows from the names of the weights.
        preset, seed, precision, **fields
            See the constructor; sizes are those published, unless fields say otherwise.
        scaler : (mean, std), optional
            Each (134,), or as many as the recipe scales: what the node features were scaled with; 0 in
            `std` counts as 1. Recipes that scale nothing take none.
        config_scaler : (mean, std), optional
            Each (24,): what the configs of tile graphs were scaled with, for recipes that scale them.
        graphs : graph, list of graphs, or split, optional
            Graphs the weights were trained on, to compute the scalers from instead.
        node_padding : {-1, 0}, optional
            Padding of lists in the node features during training. With 0 the layout columns stay as they are,
            with -1 they are padded with -1. None: as in the published training, for the first place -1 for
            layout and 0 for tile (:mod:`tpugraphs.preprocess.padding`).
        rename : mapping of str to str, optional
            Prefixes of names -> the prefixes in this package, such as ``{"cfg_net.": "dense_cfg."}``.

        Returns
        -------
        Ranker
            Fitted.

        Raises
        ------
        CheckpointError
            No such file, or weights that do not fit. The message names everything that is missing, not
            expected or of another shape.
        ConfigError, RecipeError
            See the constructor; or neither `scaler` nor `graphs` is given.
        DataError
            `graphs` with another padding.

        Notes
        -----
        ``tg.Ranker.from_torch("weights.safetensors", scaler=(mean, std))`` is a typical call.
        """
        read, path = outside.read_weights(weights, rename)
        known = get_recipe(recipe or outside.recipe_of(read))
        own: dict[str, Any] = {**known.published_fields, **fields}
        ranker = cls(known, seed, preset, precision, **own)
        stated = (node_padding, known.published_padding, kind_named(ranker.kind).padding, -1)
        ranker.pipeline.require_padding(next(value for value in stated if value is not None))
        scalers = {"scaler": scaler, "config_scaler": config_scaler}
        outside.load(ranker.network, read, path, scalers, graphs, preset)
        ranker.network.fitted = True
        return ranker

    def to_file(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return metadata and tensors of a ranker file: everything that prediction needs."""
        self.require_fit("save")
        metadata, tensors = self._scoring.to_file()
        custom = self._recipe.estimator == "network" and not is_built_in(self._recipe)
        return {
            "feature_schema": SCHEMA,
            **{name: getattr(self, name) for name in _OWN},
            "fields": plain(self.fields),
            **({described.ENTRY: described.describe(self._recipe, self.fields)} if custom else {}),
            **metadata,
        }, tensors

    @classmethod
    def from_file(cls, path: str, metadata: dict[str, Any], tensors: dict[str, NDArray[Any]]) -> Self:
        """Restore a ranker from what `to_file` returned. `path` and errors: see `load`."""
        if metadata.get("feature_schema") != SCHEMA:
            raise tensorfile.fail(path, "feature_schema", str(SCHEMA), repr(metadata.get("feature_schema")),
                                  "use the version of tpugraphs that wrote it")  # fmt: skip
        kinds = {"recipe": str, "preset": str, "precision": str, "seed": int, "fields": dict}
        own = {name: tensorfile.entry(path, metadata, name, kind) for name, kind in kinds.items()}
        known = own["recipe"] in list_recipes()
        if not known and described.ENTRY in metadata:
            own["recipe"] = described.restore(path, metadata)
        elif not known:
            todo = "give the recipe it was trained with to tpugraphs.recipes.register, then load again"
            raise tensorfile.fail(path, "recipe", ", ".join(list_recipes()), repr(own["recipe"]), todo)
        defaults = plain(get_recipe(own["recipe"]).options())  # for fields that earlier versions did not have
        fields = {**defaults, **own.pop("fields")}
        if fields.get("steps") is not None:
            fields.pop("epochs", None)  # `steps` wins
        with tensorfile.sound(path, "fields", "fields of its recipe"):
            ranker = cls(**own, **fields)
        ranker.estimator.read(path, metadata, tensors)
        if not known:
            with tensorfile.sound(path, described.ENTRY, "groups of its parameters"):
                parameter_groups(ranker.groups, ranker.model.layout, 0.0)
        return ranker
