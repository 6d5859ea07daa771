"""What a recipe is: declared fields, presets of their values, and pure functions of the fields."""

from __future__ import annotations

import dataclasses
import difflib
import functools
import math
import numbers
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tpugraphs import _core, metrics
from tpugraphs.data.schema import Schema
from tpugraphs.errors import ConfigError, RecipeError
from tpugraphs.kernels.schedules import SCHEDULES
from tpugraphs.preprocess.pipeline import Pipeline, Sizes
from tpugraphs.preprocess.targets import TARGETS
from tpugraphs.recipes.functions import function_name

__all__ = ["SCHEDULES", "Recipe", "TableFields", "TrainingFields", "option"]

Terms = list[dict[str, Any]]
Order = dict[str, dict[str, list[int]]]


def option(
    default: Any,
    low: float | None = None,
    high: float | None = None,
    *,
    choices: Iterable[str] = (),
    doc: str = "",
) -> Any:
    """Declare a field of a recipe.

    Parameters
    ----------
    default : int, float, str, bool, list or None
        Its type is that of the field.
    low, high : float, optional
        Least and greatest value, both allowed.
    choices : iterable of str
        Allowed words.
    doc : str
        What the field means, in a line.

    Returns
    -------
    dataclass field
        With these as metadata.
    """
    metadata = {"low": low, "high": high, "choices": tuple(choices), "doc": doc}
    return dataclasses.field(default=default, metadata=metadata)


@dataclass(frozen=True)
class TrainingFields:
    """Fields of every recipe that trains a network: everything that a fit and a prediction read.

    A recipe derives its own fields from this class. It may declare any field again with another default or
    range.
    """

    slates: int = option(1, 1, 1024, doc="slates of a pass, each of one graph, whose losses are averaged")
    accumulate: int = option(
        1, 1, 65536, doc="passes whose gradients make one step: the same mean, in the memory of one pass"
    )
    close: float = option(0.0, 0.0, 1.0, doc="chance that a slate is drawn from configs of close runtimes")
    config_sampling: str = option(
        "even",
        choices=("even", "gumbel"),
        doc="draw configs equally often, or fast ones more often (Gumbel top-k of 1 - place / configs)",
    )
    config_temperature: float = option(
        1.0, 0.01, 100.0, doc="of the Gumbel top-k: the lower, the rarer are slow configs (gumbel)"
    )
    graph_sampling: str = option(
        "even",
        choices=("even", "sqrt-configs"),
        doc="visit graphs equally often, or in proportion to the root of their number of configs",
    )
    configs: int = option(64, 2, 1 << 20, doc="configs of a slate, at most")
    dedup: str = option(
        "first",
        choices=("none", "first", "min", "mean"),
        doc="runtime of equal configs, which are merged for training",
    )
    steps: int | None = option(None, 1, 10**9, doc="optimizer steps; None: as many as the epochs take")
    epochs: int | None = option(1000, 1, 10**9, doc="visits of every graph, where steps are not given")
    loss: str | list[dict[str, Any]] | Callable[..., Any] | None = option(  # noqa: RUF009
        None,
        doc="a loss by name, a function (scores, runtimes, lists) -> (loss, gradient), or several to be "
        "added up: [{'loss': 'list_mle', 'weight': 1.0}, ...]; None: those of the recipe",
    )
    target: str = option(
        "log-runtime",
        choices=TARGETS,
        doc="what losses of values fit (log_mse takes the logarithm itself); others compare runtimes",
    )
    lists: str = option(
        "slate",
        choices=("slate", "part", "batch"),
        doc="what a loss ranks together: a slate, each part of one, or all slates of a pass; the losses of "
        "the lists are averaged",
    )
    part: int = option(16, 2, 1 << 20, doc="configs of a part, at most: slates are cut evenly (lists=part)")
    segment: int = option(
        0, 0, 1 << 30, doc="nodes of a segment, at most: a step trains one per graph; 0: whole graphs"
    )
    segment_keep: float = option(
        0.5, 0.0, 1.0, doc="chance that the stored score of another segment counts in a step"
    )
    optimizer: str = option("adamw", choices=_core.optimizers(), doc="rule of the updates")
    learning_rate: float = option(1e-3, 0.0, 10.0, doc="peak of the schedule")
    weight_decay: float = option(1e-5, 0.0, 10.0, doc="decoupled (adamw), or a part of the gradient")
    clip: float = option(1.0, 1e-6, 1e9, doc="global norm that a gradient is scaled down to")
    beta1: float = option(0.9, 0.0, 0.9999999, doc="decay of the first moment (adamw, adam)")
    beta2: float = option(0.999, 0.0, 0.9999999, doc="decay of the second moment (adamw, adam)")
    eps: float = option(1e-8, 1e-30, 1.0, doc="added to the root of the second moment (adamw, adam)")
    momentum: float = option(0.9, 0.0, 0.9999999, doc="decay of the sum of gradients (sgd)")
    schedule: str = option("warmup-cosine", choices=SCHEDULES, doc="learning rate over the steps")
    warmup: float = option(
        0.05, 0.0, 1.0, doc="share of the steps in which the learning rate rises (warmup-)"
    )
    decay: float = option(0.1, 0.0, 1.0, doc="factor of the learning rate at every drop (step)")
    decay_from: float | None = option(
        None, 0.0, 1.0, doc="share of the steps before the first drop (step); None: as between two drops"
    )
    decay_every: float = option(0.3, 0.0, 1.0, doc="share of the steps from one drop to the next (step)")
    average: str = option(
        "none",
        choices=("none", "ema", "swa"),
        doc="weights that are validated and kept: those of a step, a moving average (ema), or the mean of "
        "those of many steps (swa)",
    )
    ema_decay: float = option(0.999, 0.0, 0.9999999, doc="share of the average that a step leaves (ema)")
    swa_start: float = option(0.75, 0.0, 1.0, doc="share of the steps after which the mean begins (swa)")
    swa_every: int = option(10, 1, 10**9, doc="steps from one part of the mean to the next (swa)")
    evaluate_every: int = option(200, 1, 10**9, doc="steps from one validation to the next")
    stop_after: int = option(
        0, 0, 10**9, doc="validations without a better one after which the training ends; 0: never"
    )
    valid_configs: int = option(4000, 2, 10**9, doc="configs validated on, evenly from the graphs")
    metric: str = option("tau", choices=metrics.VALIDATION, doc="what chooses the best parameters")
    chunk: int = option(128, 1, 1 << 20, doc="configs scored together in prediction")


@dataclass(frozen=True)
class TableFields:
    """Fields of recipes that learn from tables, one row per config, in place of a network."""

    steps: int | None = option(300, 1, 10**6, doc="trees; None: as many as the epochs")
    epochs: int | None = option(None, 1, 10**6, doc="another name for steps: every tree sees all rows")
    learning_rate: float = option(0.1, 1e-6, 10.0, doc="factor of every tree")
    configs: int = option(4000, 2, 1 << 20, doc="configs of a graph that are learnt from, at most")
    target: str = option("min-max", choices=TARGETS, doc="number that is learnt per config")
    evaluate_every: int = option(50, 1, 10**9, doc="trees from one validation to the next")
    valid_configs: int = option(4000, 2, 10**9, doc="configs validated on, evenly from the graphs")
    metric: str = option("tau", choices=metrics.VALIDATION, doc="what chooses the number of trees")


def _hinge(fields: Any) -> Terms:
    return [{"loss": "pairwise_hinge", "margin": 1.0, "reduction": "mean-all"}]


def _preprocessing(
    steps: Callable[..., list[dict[str, Any]]], fields: Any, *schema: Any
) -> list[dict[str, Any]]:
    """Return the steps of a recipe, and what the field `segment` adds to them."""
    cut = [{"step": "segments", "nodes": int(fields.segment)}] if fields.segment else []
    return [*steps(fields, *schema), *cut]


def _nothing(*args: Any) -> list[dict[str, Any]]:
    return []


def _no_table(*args: Any) -> NDArray[np.float32]:
    return np.zeros((0, 0), np.float32)


def _as_they_are(fields: Any) -> Order:
    return {}


def kaggle(place: str) -> str:
    """Return the source of a solution of the competition over the data set: ``kaggle("first")``."""
    return f"{place} place of the Kaggle competition 'Google - Fast or Slow? Predict AI Model Runtime', 2023"


def step(op: str, name: str, inputs: list[str], slot: str | None = None, /, **attrs: Any) -> dict[str, Any]:
    """Describe one step of a model; its result has its name unless `slot` is given."""
    return {"op": op, "name": name, "in": inputs, "out": slot or name, "attrs": attrs}


def opcodes(slot: str, rows: int, cols: int, **attrs: Any) -> dict[str, Any]:
    """Describe the step `opcodes`: the slot with `cols` columns of an embedding of opcodes behind it."""
    return step("embedding", "opcodes", [slot], source="opcode", rows=rows, cols=cols, **attrs)


def encode(schema: Schema, **attrs: Any) -> dict[str, Any]:
    """Describe the step of preprocessing that encodes all columns of a schema."""
    columns = {
        name: [{"name": c.name, "kind": c.kind, "values": [str(v) for v in c.values]} for c in group]
        for name, group in (("node", schema.node), ("graph", schema.graph), ("config", schema.config))
    }
    return {"step": "encode", **columns, **attrs}


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """One way to build and train a ranker. It is checked when it is made.

    Attributes
    ----------
    name, summary : str
        `summary` is one sentence.
    steps : callable
        ``steps(fields)``: list of model steps, or a :class:`tpugraphs.Model`.
    preprocessing : callable
        ``preprocessing(fields)``: list of dicts, in order; see
        :class:`tpugraphs.preprocess.pipeline.Pipeline`.
    options : type
        Frozen dataclass of the fields, made with :func:`option`; derives from :class:`TrainingFields`, or
        from :class:`TableFields` for trees.
    presets : mapping of str to mapping
        Values of fields that differ from the defaults, for ``"cpu"`` and ``"full"``.
    loss : callable
        ``loss(fields)``: list of ``{"loss": name, "weight": 1.0, "reduction": ..., ...}``, added up. Further
        entries are the loss's own parameters. By default the pairwise hinge with margin 1.
    groups : callable
        ``groups(fields)``: list of ``{"match": "embedding*", "learning_rate": 0.1, "weight_decay": 0.0}``.
        The first pattern that matches a parameter's name decides about its weight decay and the factor of its
        learning rate. A pattern without a parameter is an error.
    source : str
        Where the method was published.
    kind : {"layout", "tile", "graph", "any"}
        Kind of the graphs it ranks. ``"graph"``: graphs of any schema. `steps` and `preprocessing` then take
        a second argument, :class:`tpugraphs.preprocess.pipeline.Sizes` and :class:`tpugraphs.Schema`, which
        are known once the training graphs are. ``"any"``: that of the training graphs; only for recipes that
        do not train a network.
    estimator : str or callable
        What is trained: ``"network"``, ``"trees"``, ``"tree-pairs"``, or a function ``estimator(recipe,
        fields, seed, precision)`` that returns a :class:`tpugraphs.ranker.estimator.Estimator`. Only networks
        use `steps`, `preprocessing`, `loss` and `groups`, and options that derive from `TrainingFields`.
    published : tuple of (pattern, name)
        Regular expressions of names of parameters, and their names in a published PyTorch model, which
        :meth:`tpugraphs.Ranker.from_torch` reads.
    published_order : callable
        ``published_order(fields)``: ``{parameter: {"rows": [...], "columns": [...]}}``, where the rows and
        columns of the parameter stand in the published array. What is not named has the same order.
    published_unread : tuple of str
        Regular expressions of published names that are not read: constants, and what has no effect.
    published_padding : {-1, 0}, optional
        What lists in the node features were padded with in its training. None: -1 for layout, 0 for tile.
    features : callable
        For trees: ``features(fields, graph, rows)`` returns a table (n, F) float32, one row per config.
    extra : callable, optional
        ``extra(graph)`` returns further features of a graph as arguments of :func:`tpugraphs.with_extra`,
        such as ``{"node": {"depth": (N,)}}``. It is called before all preprocessing, in training and
        prediction, also on graphs of some of the configs, so a number of a config must not depend on the
        others. Of layout and tile graphs it returns features of nodes alone, which stand, standardised,
        behind the other columns of ``node_feat``. A ranker is saved only if :func:`register_extra` knows it.

    Raises
    ------
    RecipeError
        Options that do not derive from `TrainingFields`, a field without a meaning or of an unknown type, a
        default or preset out of range.
    """

    name: str
    summary: str
    steps: Callable[..., list[dict[str, Any]]] = _nothing
    preprocessing: Callable[..., list[dict[str, Any]]] = _nothing
    options: type[TrainingFields] | type[TableFields] = TrainingFields
    presets: Mapping[str, Mapping[str, Any]] = dataclasses.field(
        default_factory=lambda: {"cpu": {}, "full": {}}
    )
    loss: Callable[[Any], Terms] = _hinge
    groups: Callable[[Any], list[dict[str, Any]]] = _nothing
    source: str = ""
    kind: str = "layout"
    estimator: str | Callable[..., Any] = "network"
    features: Callable[..., NDArray[np.float32]] = _no_table
    extra: Callable[[Any], Mapping[str, Any]] | None = None
    published: tuple[tuple[str, str], ...] = ()
    published_order: Callable[[Any], Order] = _as_they_are
    published_unread: tuple[str, ...] = ()
    published_padding: int | None = None

    def __post_init__(self) -> None:
        try:
            _check_options(self.options)
            for preset in self.presets:
                self.losses(self.fields(preset))
        except ConfigError as error:
            raise RecipeError(str(error)) from None
        except RecipeError as error:
            raise RecipeError(f"recipe {self.name}: {error}") from None
        if self.extra is not None and not callable(self.extra):
            raise RecipeError(f"recipe {self.name}: extra: expected a function, got {self.extra!r:.60}")
        if self.extra is not None and self.estimator != "network":
            raise RecipeError(
                f"recipe {self.name}: extra: expected a network, got estimator={self.estimator!r}: trees "
                "take further columns from features(fields, graph, rows)"
            )
        if "cpu" not in self.presets:
            raise RecipeError(
                f"recipe {self.name}: presets: expected 'cpu' among them, got {[*self.presets]}"
            )

    def pipeline(self, fields: Any) -> Pipeline:
        """Return the preprocessing, which has learnt nothing yet.

        Parameters
        ----------
        fields : fields of the recipe
            What `fields` returned.

        Returns
        -------
        Pipeline
            A new one.
        """
        make = functools.partial(_preprocessing, self.preprocessing, fields)
        if self.kind == "graph":
            return Pipeline([], self.kind, make=make, extra=self.extra)
        return Pipeline(make(), self.kind, extra=self.extra)

    def model(self, fields: Any, sizes: Sizes) -> list[dict[str, Any]]:
        """List the steps of the model for graphs of these sizes.

        Parameters
        ----------
        fields : fields of the recipe
            What `fields` returned.
        sizes : Sizes
            Numbers of columns of the prepared graphs.

        Returns
        -------
        list of dict
            One per step, as the core takes them.
        """
        return [*(self.steps(fields, sizes) if self.kind == "graph" else self.steps(fields))]

    def fields(self, preset: str = "cpu", given: Mapping[str, Any] | None = None) -> Any:
        """Return the values of all fields: those given, then the preset's, then the defaults.

        `epochs` given without `steps` win over the preset's `steps`. None means ``"none"`` in a text field.

        Parameters
        ----------
        preset : {"cpu", "full"}
            Which set of values.
        given : mapping of str to value, optional
            What overrides it.

        Returns
        -------
        fields of the recipe
            An instance of `options`.

        Raises
        ------
        ConfigError
            An unknown preset or field, or a value out of range; the message lists what is valid.
        """
        if preset not in self.presets:
            raise ConfigError(unknown("preset", preset, self.presets))
        given = given or {}
        values = {**self.presets[preset], **given}
        if given.get("epochs") is not None and "steps" not in given and "steps" in values:
            values["steps"] = None
        known = _declared(self.options)
        for name, value in values.items():
            if name not in known:
                raise ConfigError(unknown(f"field of recipe {self.name}", name, known, _ARGUMENTS))
            if value is None and str in known[name].kinds and types.NoneType not in known[name].kinds:
                values[name] = value = "none"
            if not known[name].fits(value):
                raise ConfigError(f"recipe {self.name}: {name} must be {known[name].expected}, got {value!r}")
        return self.options(**values)

    def losses(self, fields: Any) -> Terms:
        """Return the losses of a fit with these fields: those of the field `loss`, or the recipe's.

        A name among the recipe's own losses means that loss with the recipe's parameters.

        Parameters
        ----------
        fields : fields of the recipe
            What `fields` returned.

        Returns
        -------
        list of dict
            One per term; empty if no network is trained.

        Raises
        ------
        ConfigError
            A term of another form than losses have, or none.
        """
        if self.estimator != "network":
            return []
        terms = [dict(term) for term in self.loss(fields)]
        if callable(fields.loss):
            terms = [{"loss": fields.loss}]
        elif isinstance(fields.loss, str):
            own = [{**term, "weight": 1.0} for term in terms if term.get("loss") == fields.loss]
            terms = own[:1] or [{"loss": fields.loss}]
        elif fields.loss is not None:
            terms = [dict(term) for term in fields.loss]
        if not terms:
            raise ConfigError(f"recipe {self.name}: loss must have at least one term, got none")
        for term in terms:
            _check_term(self.name, term)
        return terms

    def describe(self) -> dict[str, Any]:
        """Return all declarations as plain values: fields with meaning, default, range; losses; groups."""
        values = {preset: self.fields(preset) for preset in self.presets}
        options = {
            name: {
                "meaning": one.doc,
                "expected": one.expected,
                "low": one.low,
                "high": one.high,
                "choices": list(one.choices),
                "default": {preset: plain(made)[name] for preset, made in values.items()},
            }
            for name, one in _declared(self.options).items()
        }
        return {
            "recipe": self.name,
            "summary": self.summary,
            "source": self.source,
            "kind": self.kind,
            "options": options,
            "losses": {preset: self.losses(made) for preset, made in values.items()},
            "groups": {preset: self.groups(made) for preset, made in values.items()},
        }


_WORDS = {
    int: "a whole number",
    float: "a number",
    str: "a string",
    bool: "True or False",
    list: "a list of dicts",
    Callable: "a function",
}


@dataclass(frozen=True)
class _Declared:
    """A field as :func:`option` declares it; `kinds` are the types it takes, without their arguments."""

    kinds: tuple[type, ...]
    default: Any
    low: float | None = None
    high: float | None = None
    choices: tuple[str, ...] = ()
    doc: str = ""
    fixed: tuple[Any, ...] = ()  # the one value it may have

    def fits(self, value: Any) -> bool:
        """Whether the field may have this value."""
        if self.fixed:
            return type(value) is type(self.fixed[0]) and bool(value == self.fixed[0])
        return any(self._is(kind, value) for kind in self.kinds)

    def _is(self, kind: type, value: Any) -> bool:
        if kind is str:
            return isinstance(value, str) and (not self.choices or value in self.choices)
        if kind is list:
            return isinstance(value, (list, tuple)) and all(isinstance(term, Mapping) for term in value)
        if kind in (int, float):
            low = -math.inf if self.low is None else self.low
            high = math.inf if self.high is None else self.high
            return (
                is_number(value, numbers.Integral if kind is int else numbers.Real) and low <= value <= high
            )
        return isinstance(value, kind)

    @property
    def expected(self) -> str:
        """The values it may have, in words."""
        if self.fixed:
            return f"{self.fixed[0]!r}, as in the file of its ranker"
        ends = f" in {self.low}..{self.high}" if self.low is not None else ""
        words = []
        for kind in self.kinds:
            if kind is str and self.choices:
                words.append("one of " + ", ".join(self.choices))
            elif kind is not types.NoneType:
                words.append(_WORDS[kind] + (ends if kind in (int, float) else ""))
        return " or ".join(words + ["None"] * (types.NoneType in self.kinds))


def _declared(options: type[Any]) -> dict[str, _Declared]:
    """Fields of a dataclass of options by name."""

    def split(hint: Any) -> tuple[Any, ...]:
        if typing.get_origin(hint) in (typing.Union, types.UnionType):
            return tuple(kind for part in typing.get_args(hint) for kind in split(part))
        return (typing.get_origin(hint) or hint,)

    hints = typing.get_type_hints(options)
    return {
        f.name: _Declared(split(hints[f.name]), f.default, **f.metadata) for f in dataclasses.fields(options)
    }


def _check_options(options: Any) -> None:
    if not (isinstance(options, type) and issubclass(options, (TrainingFields, TableFields))):
        raise RecipeError(
            f"options: expected a dataclass that derives from TrainingFields or TableFields, got {options!r}"
        )
    if "__dataclass_fields__" not in vars(options):
        raise RecipeError(f"options: {options.__name__} lacks @dataclass(frozen=True)")
    for name, one in _declared(options).items():
        if not one.doc:
            raise RecipeError(f"{name}: say what it means: option(..., doc=...)")
        if any(kind not in (*_WORDS, types.NoneType) for kind in one.kinds):
            kinds = ", ".join(kind.__name__ for kind in one.kinds)
            raise RecipeError(
                f"{name}: expected int, float, str, bool, list or None as its type, got {kinds}"
            )
        if not one.fits(one.default):
            raise RecipeError(f"{name}: the default must be {one.expected}, got {one.default!r}")


def is_number(value: Any, kind: Any = numbers.Real) -> bool:
    """Whether `value` is a finite number; math.isfinite alone raises for whole numbers beyond floats."""
    if not isinstance(value, kind) or isinstance(value, bool):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def _check_term(recipe: str, term: Mapping[str, Any]) -> None:
    named = isinstance(term.get("loss"), str) or callable(term.get("loss"))
    others = [value for name, value in term.items() if name != "loss"]
    if not named or not all(isinstance(value, str) or is_number(value) for value in others):
        raise ConfigError(
            f"recipe {recipe}: loss must be a list of dicts of names and numbers such as "
            f"{{'loss': 'pairwise_hinge', 'weight': 1.0, 'margin': 1.0}}, got {term!r}"
        )


_ARGUMENTS = ("recipe", "seed", "preset", "precision")  # of a ranker, besides fields
# What other libraries call it -> what to write here.
_ELSEWHERE = {
    "random_state": "seed=",
    "n_jobs": "tg.set_num_threads(n), for the whole process",
    "num_threads": "tg.set_num_threads(n), for the whole process",
    "lr": "learning_rate=",
    "max_iter": "steps=",
    "n_estimators": "steps=",
    "batch_size": "configs=, the configs of a slate, and slates=",
    "verbose": "fit(..., verbose=)",
    "callbacks": "fit(..., callbacks=)",
    "early_stopping": "stop_after=, or tg.training.EarlyStopping among the callbacks of fit",
}


def unknown(what: str, name: object, known: Iterable[str], others: Iterable[str] = ()) -> str:
    """Return the message for an unknown name, with what to write instead: the closest of both."""
    known = sorted(known)
    near = difflib.get_close_matches(str(name), [*known, *others], 1)
    hint = f" (did you mean {near[0]!r}?)" if near else ""
    hint = f" (here it is {_ELSEWHERE[name]})" if isinstance(name, str) and name in _ELSEWHERE else hint
    return f"unknown {what}: {name!r}{hint}; valid: {', '.join(known)}"


def plain(fields: Any) -> dict[str, Any]:
    """Return fields as plain Python values for JSON: a NumPy integer as an int, a function as its name.

    Parameters
    ----------
    fields : fields of a recipe
        A dataclass.

    Returns
    -------
    dict of str to value
        By names of fields.
    """
    return {field.name: plain_value(getattr(fields, field.name)) for field in dataclasses.fields(fields)}


def plain_value(v: Any) -> Any:
    """Return a value of a field, or lists and dicts of such values, for JSON."""
    if v is None or isinstance(v, (str, bool)):
        return v
    if isinstance(v, Mapping):
        return {str(key): plain_value(item) for key, item in v.items()}
    if isinstance(v, (list, tuple)):
        return [plain_value(item) for item in v]
    if callable(v):
        return function_name(v)
    return int(v) if isinstance(v, numbers.Integral) else float(v)
