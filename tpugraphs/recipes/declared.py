"""Fields of recipes: how to declare them, the values they may have, and their JSON form.

A field is an attribute like those of the core's ops, losses and steps, and the core checks its values.
Recipes declare fields with `option`; `attributes` returns them as dicts in the form of ``_core.ops()``.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import re
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tpugraphs import _core, metrics
from tpugraphs.errors import RecipeError
from tpugraphs.preprocess.targets import TARGETS
from tpugraphs.recipes.functions import function_name

_CORE = (*_core.prepare_steps(), *_core.ops())
_CHOICES = {(one["name"], attr["name"]): attr.get("choices") for one in _CORE for attr in one["attrs"]}


def option(
    default: Any,
    low: float | None = None,
    high: float | None = None,
    *,
    choices: Iterable[str] | None = None,
    doc: str | None = None,
) -> Any:
    """Declare a field of a recipe.

    Arguments left out keep their values in the base class: ``slates: int = 8`` changes only the default.

    Parameters
    ----------
    default : int, float, str, bool, list or None
        Default; its type is the field's.
    low, high : float, optional
        Least and greatest value, both allowed.
    choices : iterable of str, optional
        Allowed words.
    doc : str, optional
        What the field means, in a line.

    Returns
    -------
    dataclass field
        With these as metadata.
    """
    given = {"low": low, "high": high, "choices": choices and tuple(choices), "doc": doc}
    return dataclasses.field(
        default=default, metadata={key: value for key, value in given.items() if value is not None}
    )


_TRAINING = {attr["name"]: attr for attr in (*_core.optimizer_attrs(), *_core.schedule_attrs())}


def _of_core(name: str, high: float | None = None) -> Any:
    """Declare a field of the optimizer or schedule as the core does; `high` may be lower."""
    attr = _TRAINING[name]
    high = attr.get("high") if high is None else high
    return option(attr["default"], attr.get("low"), high, choices=attr.get("choices"), doc=attr["doc"])


class CommonFields:
    """Fields that many recipes share.

    A recipe that only gives a default, ``width: int = 64``, takes range and meaning from here.
    """

    opcode_columns: int = option(32, 1, 1024, doc="columns of the opcode embedding")
    width: int = option(256, 1, 4096, doc="columns of a layer")
    layers: int = option(3, 1, 16, doc="layers of message passing")
    dropout: float = option(0.1, 0.0, 0.95, doc="chance that an activation is dropped in training")
    direction: str = option("both", choices=_CHOICES["sage", "direction"], doc="of messages along edges")
    margin: float = option(1.0, 0.0, 1e6, doc="of the hinge: by how much a slower config must score higher")
    config_scale: str = option("none", choices=("none", "log"), doc="log: ln(1 + x) before standardisation")
    prune: str = option(
        "none", choices=_CHOICES["prune", "method"], doc="nodes kept: a method of tpugraphs.prune, or none"
    )


@dataclass(frozen=True)
class TrainingFields:
    """Fields of every recipe that trains a network: everything that a fit and a prediction read.

    A recipe derives its own fields from this class. It may declare any field again with another default or
    range.
    """

    slates: int = option(1, 1, 1024, doc="slates of a pass, each of one graph, whose losses are averaged")
    accumulate: int = option(1, 1, 65536, doc="passes whose mean gradient makes one step")
    close: float = option(0.0, 0.0, 1.0, doc="chance that a slate is drawn from configs of close runtimes")
    config_sampling: str = option(
        "even",
        choices=("even", "replacement", "gumbel"),
        doc="draw configs equally often, each for itself (one may come twice in a slate), or fast ones more "
        "often (Gumbel top-k of 1 - place / configs)",
    )
    config_temperature: float = option(1.0, 0.01, 100.0, doc="of the Gumbel top-k: low makes slow ones rare")
    graph_sampling: str = option(
        "even",
        choices=("even", "sqrt-configs", "slates"),
        doc="visit graphs equally often, in proportion to the root of their number of configs, of which an "
        "epoch draws sqrt(c c_max), or in proportion to the number of whole slates in them",
    )
    configs: int = option(64, 2, 1 << 20, doc="configs of a slate, at most")
    dedup: str = option("first", choices=_CHOICES["dedup", "keep"], doc="runtime of merged equal configs")
    steps: int | None = option(None, 1, 10**9, doc="optimizer steps; None: as many as the epochs take")
    epochs: int | None = option(1000, 1, 10**9, doc="visits of every graph (or draw), if steps is None")
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
    segment: int = option(0, 0, 1 << 30, doc="most nodes of a segment; a step trains one per graph; 0: none")
    segment_keep: float = option(0.5, 0.0, 1.0, doc="chance that another segment's stored score counts")
    optimizer: str = option("adamw", choices=_core.optimizers(), doc="rule of the updates")
    learning_rate: float = _of_core("learning_rate", 10.0)
    weight_decay: float = option(1e-5, 0.0, 10.0, doc="decoupled (adamw), or a part of the gradient")
    clip: float = option(1.0, 1e-6, 1e9, doc="global norm that a gradient is scaled down to")
    beta1: float = _of_core("beta1")
    beta2: float = _of_core("beta2")
    eps: float = _of_core("eps")
    momentum: float = _of_core("momentum")
    schedule: str = _of_core("schedule")
    learning_rate_end: float = _of_core("learning_rate_end", 10.0)
    warmup: float = _of_core("warmup")
    decay: float = _of_core("decay")
    decay_from: float | None = _of_core("decay_from")
    decay_every: float = _of_core("decay_every")
    average: str = option(
        "none",
        choices=("none", "ema", "swa"),
        doc="weights that are validated and kept: those of a step, a moving average (ema), or the mean of "
        "those of many steps (swa)",
    )
    ema_decay: float = option(0.999, 0.0, 0.9999999, doc="share of the average that a step leaves (ema)")
    swa_start: float = option(0.75, 0.0, 1.0, doc="share of the steps after which the mean begins (swa)")
    swa_every: int = option(10, 1, 10**9, doc="steps from one part of the mean to the next (swa)")
    evaluate_every: int = option(200, 0, 10**9, doc="steps between validations; 0: a visit of every graph")
    stop_after: int = option(0, 0, 10**9, doc="validations without a better one that end a fit; 0: never")
    valid_configs: int = option(4000, 2, 10**9, doc="configs validated on, evenly from the graphs")
    metric: str = option("tau", choices=metrics.VALIDATION, doc="what chooses the best parameters")
    chunk: int = option(128, 1, 1 << 20, doc="configs scored together in prediction")


@dataclass(frozen=True)
class EstimatorFields:
    """Fields of recipes whose estimator is not a network, for example trees."""

    steps: int | None = option(300, 1, 10**6, doc="trees; None: as many as the epochs")
    epochs: int | None = option(None, 1, 10**6, doc="another name for steps: every tree sees all rows")
    metric: str = option("tau", choices=metrics.VALIDATION, doc="what chooses the number of trees")


@dataclass(frozen=True)
class TableFields(EstimatorFields):
    """Fields of recipes that learn from tables, one row per config, in place of a network."""

    learning_rate: float = option(0.1, 1e-6, 10.0, doc="factor of every tree")
    configs: int = option(4000, 2, 1 << 20, doc="configs of a graph that are learnt from, at most")
    target: str = option("min-max", choices=TARGETS, doc="number that is learnt per config")
    evaluate_every: int = option(50, 1, 10**9, doc="trees from one validation to the next")
    valid_configs: int = option(4000, 2, 10**9, doc="configs validated on, evenly from the graphs")


_KINDS = {int: "int", float: "real", bool: "flag", str: "text", list: "list", Callable: "function"}
_WORDS = {"list": "a list of dicts", "function": "a function"}  # kinds that only Python has
Attribute = Mapping[str, Any]


def _attributes(options: Any) -> Mapping[str, Attribute]:
    """Return the fields of a dataclass by name, in the form of attributes of ops.

    A ``"kind"`` may name several, as in ``"text|list"``. ``"none"`` is whether None is allowed. A field with
    ``"only"`` takes no other value.
    """
    hints = typing.get_type_hints(options)
    return {
        field.name: _attribute(field.name, hints[field.name], field.default, _merged(options, field.name))
        for field in dataclasses.fields(options)
    }


attributes: Callable[[Any], Mapping[str, Attribute]] = functools.cache(_attributes)


def _merged(options: type[Any], name: str) -> Attribute:
    """Merge the declarations of a field; derived classes override their bases."""
    merged: dict[str, Any] = {}
    for cls in reversed(options.__mro__):
        if name in inspect.get_annotations(cls) and dataclasses.is_dataclass(cls):
            merged |= cls.__dataclass_fields__[name].metadata
    return merged or vars(CommonFields).get(name, dataclasses.field()).metadata


def _attribute(name: str, hint: Any, default: Any, own: Attribute) -> Attribute:
    union = typing.get_origin(hint) in (typing.Union, types.UnionType)
    hints = [typing.get_origin(one) or one for one in (typing.get_args(hint) if union else [hint])]
    kinds = [_KINDS.get(one, one.__name__) for one in hints if one is not types.NoneType]
    if "choices" in own:
        kinds = ["choice" if kind == "text" else kind for kind in kinds]
    row = {"name": name, "kind": "|".join(kinds), "none": types.NoneType in hints, "required": False}
    return {"doc": "", **row, "default": default, **own}


def takes(attr: Attribute, value: Any) -> bool:
    """Whether a field may have this value."""
    if "only" in attr:
        return type(value) is type(attr["only"]) and bool(value == attr["only"])
    if value is None:
        return bool(attr["none"])
    kinds = attr["kind"].split("|")
    if callable(value) or isinstance(value, (list, tuple)):
        kind = "function" if callable(value) else "list"
        return kind in kinds and (callable(value) or all(isinstance(term, Mapping) for term in value))
    return any(_core.attr_takes({**attr, "kind": kind}, value) for kind in kinds if kind not in _WORDS)


def expected(attr: Attribute) -> str:
    """Return the values that a field may have, in words."""
    if "only" in attr:
        return f"{attr['only']!r}, as in the file of its ranker"
    words = [
        _WORDS.get(kind) or _core.attr_expects({**attr, "kind": kind}) for kind in attr["kind"].split("|")
    ]
    return " or ".join([*words, *["None"] * attr["none"]])


def check_options(options: Any) -> None:
    """Make a class of fields and its bases frozen dataclasses, whether or not their authors did.

    Raises
    ------
    RecipeError
        A field lacks a `doc`, a type or a default, or the class has the wrong base.
    """
    if not (isinstance(options, type) and issubclass(options, (TrainingFields, EstimatorFields))):
        raise RecipeError(
            f"options: expected a dataclass that derives from TrainingFields or TableFields, got {options!r}"
        )
    for cls in reversed(options.__mro__):
        if issubclass(cls, (TrainingFields, EstimatorFields)) and "__dataclass_fields__" not in vars(cls):
            dataclass(frozen=True)(cls)
    for name, attr in attributes(options).items():
        if (given := getattr(options, name)) is not attr["default"]:
            raise RecipeError(f"{name}: {given!r} has no effect without a type, as in {name}: int = 3")
        if not attr["doc"]:
            raise RecipeError(f"{name}: say what it means: option(..., doc=...)")
        if not set(attr["kind"].split("|")) <= {*_KINDS.values(), "choice", ""}:
            raise RecipeError(
                f"{name}: expected int, float, str, bool, list or None as its type, got {attr['kind']}"
            )
        if not takes(attr, attr["default"]):
            raise RecipeError(f"{name}: the default must be {expected(attr)}, got {attr['default']!r}")


def plain(fields: Any) -> dict[str, Any]:
    """Return fields as plain Python values for JSON: a NumPy integer as an int, a function as its name.

    Parameters
    ----------
    fields : fields of a recipe
        A dataclass.

    Returns
    -------
    dict of str to value
        Values by field name.
    """
    return {field.name: plain_value(getattr(fields, field.name)) for field in dataclasses.fields(fields)}


def of_numpy(v: Any) -> Any:
    """Convert NumPy numbers to Python's, also in lists and dicts, for the core and JSON."""
    if isinstance(v, dict):
        return {key: of_numpy(item) for key, item in v.items()}
    if isinstance(v, (list, tuple)):
        return type(v)(of_numpy(item) for item in v) if type(v) in (list, tuple) else v
    return v.item() if isinstance(v, np.generic) else v


def plain_value(v: Any) -> Any:
    """Return a value of a field, or lists and dicts of such values, for JSON."""
    if isinstance(v, Mapping):
        return {str(key): plain_value(item) for key, item in v.items()}
    if isinstance(v, (list, tuple)):
        return [plain_value(item) for item in v]
    return function_name(v) if callable(v) else of_numpy(v)


# Fields of a recipe from a file: those of training, and the recipe's own as constants

_FIELD = re.compile(r"[a-z][a-z0-9_]{0,63}")
_MOST_FIELDS = 256
_TAKEN = {"recipe", "seed", "preset", "precision"}  # arguments of a ranker


def constants(fields: Mapping[str, Any]) -> type[Any]:
    """Return the declarations of a recipe's fields, where its own fields take only these values.

    The same fields give the same class. It and its objects are pickled as the fields they are made from.

    Raises
    ------
    RecipeError
        An invalid field name, or a value that is not plain.
    """
    known = TrainingFields.__dataclass_fields__
    own = {name: value for name, value in fields.items() if name not in known}
    for name, value in own.items():
        plain = value is None or isinstance(value, (str, bool)) or _core.attr_takes({"kind": "real"}, value)
        if not _FIELD.fullmatch(name) or name in _TAKEN or len(own) > _MOST_FIELDS or not plain:
            raise RecipeError(f"field {name[:80]!r}: expected a name and a plain value, got {value!r:.80}")
    return _declared_as(tuple((name, type(value), value) for name, value in own.items()))


@functools.lru_cache
def _declared_as(own: tuple[tuple[str, type, Any], ...]) -> type[Any]:
    about = {"doc": "what the steps in the file were made with"}
    made = [
        (name, kind, dataclasses.field(default=value, metadata={**about, "only": value}))
        for name, kind, value in own
    ]
    more = {"of_file": {name: value for name, _, value in own}, "__reduce__": _reduced}
    return dataclasses.make_dataclass(
        "FieldsOfFile", made, bases=(TrainingFields,), namespace=more, frozen=True
    )


def _reduced(values: Any) -> tuple[Any, ...]:
    return _restored, (values.of_file, vars(values))


def _restored(own: Mapping[str, Any], values: Mapping[str, Any]) -> Any:
    return constants(own)(**values)
