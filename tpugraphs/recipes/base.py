"""What a recipe is: declared fields, presets of their values, and pure functions of the fields."""

from __future__ import annotations

import copy
import dataclasses
import difflib
import functools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from tpugraphs.data.schema import LAYOUT
from tpugraphs.errors import ConfigError, RecipeError
from tpugraphs.names import kind_named
from tpugraphs.preprocess.pipeline import Pipeline, Sizes
from tpugraphs.recipes import declared
from tpugraphs.recipes.blocks import Steps, choose, encode, opcodes, step
from tpugraphs.recipes.declared import EstimatorFields, TableFields, TrainingFields, option
from tpugraphs.recipes.functions import losses_need

__all__ = [
    "EstimatorFields", "Recipe", "Steps", "TableFields", "TrainingFields", "encode", "opcodes", "option",
    "step",
]  # fmt: skip


Order = dict[str, dict[str, Any]]


def _preprocessing(steps: Callable[..., Steps], fields: Any, *schema: Any) -> Steps:
    """Return the steps of a recipe, with those that the field `segment` adds."""
    cut = [{"step": "segments", "nodes": int(fields.segment)}] if fields.segment else []
    return [declared.of_numpy(one) for one in (*steps(fields, *schema), *cut)]


def _no_table(*args: Any) -> NDArray[np.float32]:
    return np.zeros((0, 0), np.float32)


def always(entries: Iterable[Mapping[str, Any]]) -> Callable[..., Steps]:
    """Return a function that returns these steps, losses or groups, whatever the fields of the recipe."""
    return functools.partial(_copied, [dict(entry) for entry in entries])


def _copied(entries: Any, *_: Any) -> Any:
    return copy.deepcopy(entries)


def chosen(*steps: dict[str, Any]) -> Callable[..., Steps]:
    """Return the preprocessing of a recipe: prune, keep one of equal configs, then these steps."""
    return functools.partial(_chosen, steps)


def _chosen(steps: Any, fields: Any) -> Steps:
    return [*choose(fields), *copy.deepcopy(steps)]


def hinge(reduction: str) -> Callable[[Any], Steps]:
    """Return the `loss` of a recipe: the hinge over pairs, with its field `margin`."""
    return functools.partial(_hinge, reduction)


def _hinge(reduction: str, fields: Any) -> Steps:
    return [{"loss": "pairwise_hinge", "margin": fields.margin, "reduction": reduction}]


_AS_THEY_ARE = functools.partial(_copied, {})
_NONE = always([])
_HINGE = always([{"loss": "pairwise_hinge", "margin": 1.0, "reduction": "mean-all"}])


def modules(pairs: Iterable[tuple[str, str]] = (), /, **names: str) -> tuple[tuple[str, str], ...]:
    r"""Return the rows of `published` for weight and bias of modules: our name, their name.

    Ours may be a pattern, with ``\1`` in theirs for its first group.
    """
    named = (*pairs, *names.items())
    return tuple((rf"{ours}\.(?P<of>weight|bias)", rf"{theirs}.\g<of>") for ours, theirs in named)


def kaggle(place: str) -> str:
    """Return the source of a solution of the Kaggle competition on the data set: ``kaggle("first")``."""
    return f"{place} place of the Kaggle competition 'Google - Fast or Slow? Predict AI Model Runtime', 2023"


@dataclass(frozen=True, kw_only=True, repr=False)
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
        Class of the fields, made with :func:`option`; derives from :class:`TrainingFields`, or from
        :class:`TableFields` for trees. It becomes a frozen dataclass.
    presets : mapping of str to mapping
        Values of fields that differ from the defaults, for ``"cpu"`` and ``"full"``.
    loss : callable
        ``loss(fields)``: list of ``{"loss": name, "weight": 1.0, "reduction": ..., ...}``, added up. Further
        entries are parameters of the loss. By default the pairwise hinge with margin 1.
    groups : callable
        ``groups(fields)``: list of ``{"match": "embedding*", "learning_rate": 0.1, "weight_decay": 0.0}``.
        The first pattern that matches a parameter's name sets its weight decay and the factor of its learning
        rate. A pattern that matches nothing is an error.
    source : str
        Where the method was published.
    kind : {"layout", "tile", "graph", "any"}
        Kind of the graphs it ranks. ``"graph"``: graphs of any schema. `steps` and `preprocessing` then take
        a second argument, :class:`tpugraphs.preprocess.pipeline.Sizes` and :class:`tpugraphs.Schema`, which
        depend on the training graphs. ``"any"``: the kind of the training graphs; only for recipes that do
        not train a network.
    estimator : str or callable
        What to train: ``"network"``, ``"trees"``, ``"tree-pairs"``, or a function ``estimator(recipe, fields,
        seed, precision)`` that returns a :class:`tpugraphs.ranker.estimator.Estimator`. Only networks use
        `steps`, `preprocessing`, `loss` and `groups`, and options that derive from `TrainingFields`.
    published : tuple of (pattern, name)
        Regular expressions of names of parameters, and their names in a published PyTorch model, which
        :meth:`tpugraphs.Ranker.from_torch` reads. Keras kernels, (in, out), have names that end in
        ``/kernel``.
    published_marks : tuple of str
        Regular expressions for the beginning of published names. Weights belong to this recipe if each of
        them matches a name, unless another recipe matches with more of them, or with fitting shapes.
    published_order : callable
        ``published_order(fields)``: ``{parameter: {"rows": [...], "columns": [...]}}``, the rows and columns
        of the published array that hold those of the parameter. Parameters not named have the same order.
        ``"name"`` gives the published name for these fields, whatever `published` says.
    published_unread : tuple of str
        Regular expressions of published names that are not read: constants, and arrays without effect.
    published_padding : {-1, 0}, optional
        Padding of lists in the node features during its training. None: -1 for layout, 0 for tile.
    published_fields : mapping of str to value
        Fields in which its training differs from the preset ``"full"``.
    by_schema : bool
        Whether `steps` and `preprocessing` of a layout recipe also take the second argument of kind
        ``"graph"``: graphs read with ``extra=True`` have their own schema.
    features : callable
        For trees: ``features(fields, graph, rows)`` returns a table (n, F) float32, one row per config.
    extra : callable, optional
        ``extra(graph)`` returns further features of a graph as arguments of :func:`tpugraphs.with_extra`,
        such as ``{"node": {"depth": (N,)}}``. It is called before all preprocessing, in training and
        prediction, also on graphs with some of the configs, so a feature of a config must not depend on the
        others. For layout and tile graphs it returns node features alone; standardised, they are appended to
        ``node_feat``. A ranker is saved only if :func:`register_extra` knows it.

    Raises
    ------
    RecipeError
        Options that do not derive from `TrainingFields`, a field without a `doc` or of an unknown type, a
        default or preset out of range.
    """

    name: str
    summary: str
    steps: Callable[..., Steps] = _NONE
    preprocessing: Callable[..., Steps] = _NONE
    options: type[TrainingFields] | type[EstimatorFields] = TrainingFields
    presets: Mapping[str, Mapping[str, Any]] = dataclasses.field(
        default_factory=lambda: {"cpu": {}, "full": {}}
    )
    loss: Callable[[Any], Steps] = _HINGE
    groups: Callable[[Any], Steps] = _NONE
    source: str = ""
    kind: str = "layout"
    estimator: str | Callable[..., Any] = "network"
    features: Callable[..., NDArray[np.float32]] = _no_table
    extra: Callable[[Any], Mapping[str, Any]] | None = None
    published: tuple[tuple[str, str], ...] = ()
    published_marks: tuple[str, ...] = ()
    published_order: Callable[[Any], Order] = _AS_THEY_ARE
    published_unread: tuple[str, ...] = ()
    published_padding: int | None = None
    published_fields: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    by_schema: bool = False

    def __post_init__(self) -> None:
        try:
            declared.check_options(self.options)
            for preset in self.presets:
                self.losses(self.fields(preset))
            self._check()
        except ConfigError as error:
            raise RecipeError(str(error)) from None
        except RecipeError as error:
            raise RecipeError(f"recipe {self.name}: {error}") from None

    def _check(self) -> None:
        if self.extra is not None and not callable(self.extra):
            raise RecipeError(f"extra: expected a function, got {self.extra!r:.60}")
        if self.extra is not None and self.estimator != "network":
            todo = "trees take further columns from features(fields, graph, rows)"
            raise RecipeError(f"extra: expected a network, got estimator={self.estimator!r}: {todo}")
        kinds = ("layout", "tile", "graph", *["any"] * (self.estimator != "network"))
        if self.kind not in kinds:
            raise RecipeError(f"kind: expected one of {', '.join(kinds)}, got {self.kind!r:.60}")
        if "cpu" not in self.presets:
            raise RecipeError(f"presets: expected 'cpu' among them, got {[*self.presets]}")

    def __deepcopy__(self, memo: Any) -> Self:
        return self  # it does not change

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "options": getattr(self.options, "of_file", self.options)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        given = state["options"]
        made = declared.constants(given) if isinstance(given, dict) else given
        vars(self).update(state, options=made)

    def __repr__(self) -> str:
        return f"<Recipe {self.name!r} ({self.kind}): {self.summary}>"

    @property
    def takes_schema(self) -> bool:
        """Whether steps and preprocessing depend on the training graphs."""
        return self.by_schema or kind_named(self.kind).any_schema

    def pipeline(self, fields: Any) -> Pipeline:
        """Return the preprocessing, not fitted yet.

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
        if not self.takes_schema:
            return Pipeline(make(), self.kind, extra=self.extra)
        known = [] if kind_named(self.kind).any_schema else make(LAYOUT)
        return Pipeline(known, self.kind, make=make, extra=self.extra)

    def model(self, fields: Any, sizes: Sizes) -> Steps:
        """Return the steps of the model for graphs of these sizes.

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
        steps = self.steps(fields, sizes) if self.takes_schema else self.steps(fields)
        return [declared.of_numpy(step) for step in steps]

    def fields(self, preset: str = "cpu", given: Mapping[str, Any] | None = None) -> Any:
        """Return the values of all fields: those given, then the preset's, then the defaults.

        `epochs` given without `steps` override the preset's `steps`. None means ``"none"`` in a text field.

        Parameters
        ----------
        preset : {"cpu", "full"}
            Which set of values.
        given : mapping of str to value, optional
            Values that override it.

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
        values = {name: declared.of_numpy(value) for name, value in {**self.presets[preset], **given}.items()}
        if given.get("epochs") is not None and "steps" not in given and "steps" in values:
            values["steps"] = None
        known = declared.attributes(self.options)
        usual = self.presets[preset].get("epochs", known["epochs"]["default"]) if "epochs" in known else None
        if given.get("steps") is not None and given.get("epochs") not in (None, usual):
            raise ConfigError(f"recipe {self.name}: give epochs or steps, not both")
        for name, value in values.items():
            if name in _DEVICES and name not in known:
                todo = "leave it out; tg.set_num_threads(n) says how many threads it uses"
                raise ConfigError(f"{name}: tpugraphs computes on the CPU only, got {value!r}; {todo}")
            if name not in known:
                raise ConfigError(unknown(f"field of recipe {self.name}", name, known, _ARGUMENTS))
            attr = known[name]
            if value is None and not attr["none"] and {"text", "choice"} & {*attr["kind"].split("|")}:
                values[name] = value = "none"
            if not declared.takes(attr, value):
                wanted = declared.expected(attr)
                raise ConfigError(f"recipe {self.name}: {name} must be {wanted}, got {value!r}")
        return self.options(**values)

    def losses(self, fields: Any) -> Steps:
        """Return the losses of a fit with these fields: from the field `loss`, or else the recipe's.

        The name of one of the recipe's losses means that loss with the recipe's parameters.

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
            A malformed term, or no term.
        """
        if self.estimator != "network":
            return []
        terms = self.loss(fields)
        if callable(fields.loss) or isinstance(fields.loss, str):
            own = [{**term, "weight": 1.0} for term in terms if term.get("loss") == fields.loss]
            terms = own[:1] or [{"loss": fields.loss}]
        elif fields.loss is not None:
            terms = fields.loss
        terms = [declared.of_numpy(dict(term)) for term in terms]
        try:
            losses_need(terms)
        except ConfigError as error:
            text = str(error).removeprefix("loss: ")
            raise ConfigError(f"recipe {self.name}: loss: {text}") from None
        return terms

    def describe(self) -> dict[str, Any]:
        """Return all declarations as plain values: fields with meaning, default, range; losses; groups."""
        values = {preset: self.fields(preset) for preset in self.presets}
        options = {
            name: {
                "meaning": attr["doc"],
                "expected": declared.expected(attr),
                "low": attr.get("low"),
                "high": attr.get("high"),
                "choices": list(attr.get("choices", ())),
                "default": {preset: declared.plain(made)[name] for preset, made in values.items()},
            }
            for name, attr in declared.attributes(self.options).items()
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


_DEVICES = ("device", "gpu", "cuda", "use_gpu")
_ARGUMENTS = ("recipe", "seed", "preset", "precision")  # of a ranker, besides fields
# Name in other libraries -> name here.
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
    """Return the message for an unknown name, with the closest of both as the suggestion."""
    known = sorted(known)
    near = difflib.get_close_matches(str(name), [*known, *others], 1)
    hint = f" (did you mean {near[0]!r}?)" if near else ""
    hint = f" (here it is {_ELSEWHERE[name]})" if isinstance(name, str) and name in _ELSEWHERE else hint
    return f"unknown {what}: {name!r}{hint}; valid: {', '.join(known)}"
