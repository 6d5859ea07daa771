"""Models written op by op: a list of steps, each checked when it is appended."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any

from tpugraphs import _core
from tpugraphs.errors import ConfigError, RecipeError
from tpugraphs.kernels.faces import SHAPES, shapes_of
from tpugraphs.kernels.signatures import Argument, attribute, document, signature
from tpugraphs.preprocess.pipeline import Sizes
from tpugraphs.recipes import get_recipe
from tpugraphs.recipes.base import Recipe, Steps, TrainingFields, always, unknown
from tpugraphs.recipes.declared import of_numpy, plain
from tpugraphs.system.words import counted

Meta = Mapping[str, Any]
Shape = tuple[str, int | None]
_OPS: dict[str, Meta] = {meta["name"]: meta for meta in _core.ops()}
# Arguments of every method besides those of the op, with their types.
_OWN = {"name": "str | None", "to": "str | None", "share": "Mapping[str, str] | None"}
# Columns that features of graphs might have while unknown: most widths divide one of them.
_GUESSES = (_core.SCHEMA["scaled_features"], _core.SCHEMA["node_features"], 8, 4096, 5040)


class UnknownOp(RecipeError, AttributeError):
    """Unknown op; also an AttributeError, so that `hasattr` and `copy` work."""


if TYPE_CHECKING:
    from tpugraphs.recipes.methods import OpMethods as _Methods
else:
    _Methods = object


class Model(_Methods):
    """A model as a list of steps. Every op of the core is a method that appends a step.

    A method takes the slots that the op reads and its attributes, checks all, and returns the name of the
    slot it makes, for later steps to read. The last slot is called ``"scores"``: one number per config,
    smaller is faster. ``help(tg.Model.linear)`` and `docs/tables.md` list the arguments of an op.

    Every method also takes `name`, the name of the step and the prefix of its parameters; `to`, the name of
    the slot, by default that of the step; and `share`, parameters to share with an earlier step:
    ``share={"weight": "first.weight"}``.

    Parameters
    ----------
    sizes : Sizes, optional
        Numbers of feature columns, as passed to ``Recipe.steps(fields, sizes)``. Without it, those that
        depend on the graphs are checked when the model is used.

    Attributes
    ----------
    node_feat, config_feat, graph_feat : str
        Slots filled by the graphs: features (N, F) of the nodes, (C, T) of the configs, (1, G) of the graph.
        Digits, opcodes and edges are read by the ops that need them.

    Raises
    ------
    RecipeError
        From every method: an unknown op (with the closest one), slot or attribute, a value out of its range,
        rows that the op does not take, columns that do not fit.

    Examples
    --------
    >>> import tpugraphs as tg
    >>> model = tg.Model()
    >>> x = model.linear(model.config_feat, out=64, act="silu")
    >>> x = model.linear(model.layer_norm(x), out=64, act="silu")
    >>> scores = model.linear(x, out=1, to="scores")
    >>> ranker = tg.Ranker(model.recipe("two-layers"))
    >>> model
    Model of 4 steps
      linear     = linear(config_feat, out=64, act='silu')    (C, 64)
      layer_norm = layer_norm(linear)                         (C, 64)
      linear2    = linear(layer_norm, out=64, act='silu')     (C, 64)
      scores     = linear(linear2, out=1)                     (C, 1)
    """

    node_feat, config_feat, graph_feat = "node_feat", "config_feat", "graph_feat"

    def __init__(self, sizes: Sizes | None = None) -> None:
        if sizes is not None and not isinstance(sizes, Sizes):
            raise RecipeError(f"sizes: expected those that steps(fields, sizes) is given, got {sizes!r:.60}")
        self._sizes, self._steps = sizes, list[dict[str, Any]]()
        self._shapes: dict[str, Shape] = self._plan([])

    @classmethod
    def from_steps(cls, steps: Iterable[Mapping[str, Any]], sizes: Sizes | None = None) -> Model:
        """Make a model from a list of steps, such as ``ranker.steps``, to read or extend it.

        Parameters
        ----------
        steps : iterable of mapping
            Each with ``op``, ``name``, ``in``, ``out`` and ``attrs``.
        sizes : Sizes, optional
            Numbers of columns of the graphs, if known.

        Returns
        -------
        Model
            With these steps.

        Raises
        ------
        RecipeError
            The steps make no model.
        """
        model = cls(sizes)
        for step in steps:
            model._append(of_numpy({**step}))
        return model

    @property
    def steps(self) -> list[dict[str, Any]]:
        """The steps as plain values, as recipes, files and ``_core.Model`` take them."""
        return [{**step, "in": [*step["in"]], "attrs": {**step.get("attrs", {})}} for step in self._steps]

    @property
    def slots(self) -> dict[str, Shape]:
        """Rows and columns of every slot; None where the number of columns depends on the graphs."""
        return {**self._shapes}

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self.steps)

    def __len__(self) -> int:
        return len(self._steps)

    def __repr__(self) -> str:
        lines = [(step["out"], _call(step), _text(self._shapes[step["out"]])) for step in self._steps]
        left, middle = (max((len(line[i]) for line in lines), default=0) for i in (0, 1))
        shown = [f"  {out:{left}} = {call:{middle}}    {shape}" for out, call, shape in lines]
        return "\n".join([f"Model of {counted(len(lines), 'step')}", *shown])

    def recipe(
        self,
        name: str,
        *,
        like: str | Recipe = "graph-config",
        summary: str = "",
        loss: Sequence[Mapping[str, Any]] | None = None,
        groups: Sequence[Mapping[str, Any]] = (),
        extra: Callable[[Any], Mapping[str, Any]] | None = None,
        **fields: Any,
    ) -> Recipe:
        """Make a recipe of this model, for ``tg.Ranker(recipe)``.

        Parameters
        ----------
        name : str
            Unique name of the recipe.
        like : str or Recipe
            Recipe that provides the preprocessing, the losses and the defaults of training:
            ``"graph-config"`` for graphs of any schema, ``"first-layout"`` or ``"first-tile"`` for published
            ones.
        summary : str
            Summary in one sentence.
        loss : list of dict, optional
            Losses in place of those of `like`; see :class:`tpugraphs.recipes.Recipe`.
        groups : list of dict
            Parameters that are trained differently; see :class:`tpugraphs.recipes.Recipe`.
        extra : callable, optional
            Further features, made from a graph; see :class:`tpugraphs.recipes.Recipe`.
        **fields
            Other defaults of its fields, and values of fields of `like` that its preprocessing reads, such as
            ``powers=False``.

        Returns
        -------
        Recipe
            Not registered; a ranker of it saves its steps.

        Raises
        ------
        RecipeError
            The model makes no ``"scores"``, or a slot is never read.
        ConfigError
            An unknown field, or a value out of range.
        """
        self._plan(self._steps, finished=True)
        other, trained = get_recipe(like), TrainingFields.__dataclass_fields__
        if other.estimator != "network":
            raise ConfigError(f"like: expected a recipe that trains a network, got {other.name!r}")
        other.fields("cpu", fields)  # checks them
        given = {field: value for field, value in fields.items() if field in trained}
        fixed = {field: value for field, value in fields.items() if field not in trained}
        presets = {
            which: {field: value for field, value in plain(other.fields(which)).items() if field in trained}
            for which in other.presets
        }
        return Recipe(
            name=name,
            summary=summary or f"A model of {counted(len(self), 'step')}, trained like {other.name}.",
            kind=other.kind,
            presets={which: {**values, **given} for which, values in presets.items()},
            steps=always(self.steps),
            preprocessing=partial(_of_other, other, "preprocessing", fixed),
            loss=partial(_of_other, other, "loss", fixed) if loss is None else always(loss),
            groups=always(groups),
            extra=other.extra if extra is None else extra,
        )

    if not TYPE_CHECKING:  # else type checkers would accept any name

        def __getattr__(self, name: str) -> Any:
            if name.startswith("_"):
                raise AttributeError(name)
            raise UnknownOp(unknown("op", name, _OPS))

    def _add(self, meta: Meta, signature: inspect.Signature, *args: Any, **given: Any) -> str:
        """Append the step that a call describes."""
        op, known = meta["name"], [attr["name"] for attr in meta["attrs"]]
        for key in given:
            if key not in signature.parameters:
                raise RecipeError(unknown(f"attribute of {op}", key, [*known, *_OWN]))
        try:
            call = signature.bind(self, *args, **given).arguments
        except TypeError as error:
            known = [spec["name"] for spec in meta["inputs"]]
            raise RecipeError(f"{op}: {error}; its slots are: {', '.join(known) or 'none'}") from None
        for what in ("name", "to"):
            text = call.get(what)
            if text is not None and (not isinstance(text, str) or not text):
                raise RecipeError(f"{op}: {what} must be a text, got {text!r:.60}")
        slots, to = self._inputs(meta, call), call.get("to")
        name = call.get("name") or self._free(to or op)
        attrs = of_numpy({key: value for key, value in call.items() if key in known})
        step = {"op": op, "name": name, "in": slots, "out": to or name, "attrs": attrs}
        if call.get("share"):
            step["share"] = {**call["share"]}
        return self._append(step)

    def _append(self, step: dict[str, Any]) -> str:
        self._shapes = self._plan([*self._steps, step])
        self._steps.append(step)
        return str(step["out"])

    def _inputs(self, meta: Meta, call: Mapping[str, Any]) -> list[str]:
        """Return the slots that a step reads: the required ones, and others up to the last one given."""
        op, specs = meta["name"], meta["inputs"]
        while specs and specs[-1]["optional"] and call.get(specs[-1]["name"]) is None:
            specs = specs[:-1]
        for name in (spec["name"] for spec in specs):
            slot = call.get(name)
            if slot is None:
                raise RecipeError(f"{op}: {name} is missing: give the slot it reads")
            if not isinstance(slot, str):
                expected = f"a slot, as the methods return them, got {type(slot).__name__}"
                raise RecipeError(f"{op}: {name} must be {expected}")
            if slot not in self._shapes:
                raise RecipeError(unknown("slot", slot, self._shapes))
        return [call[spec["name"]] for spec in specs]

    def _free(self, op: str) -> str:
        """Return an unused name for a step."""
        taken = {*self._shapes, *(step["name"] for step in self._steps)}
        return next(name for n in count(1) if (name := op if n == 1 else f"{op}{n}") not in taken)

    def _plan(self, steps: list[dict[str, Any]], finished: bool = False) -> dict[str, Shape]:
        """Return the slots of the steps, as the core plans them."""
        outputs = ["scores"] if finished else [step["out"] for step in steps]
        s, known = self._sizes, list[Any]((guess, guess, guess) for guess in _GUESSES)
        found, refused = list[dict[str, tuple[str, int]]](), list[RecipeError]()
        for columns in known if s is None else [(s.node, s.config, s.graph, s.digits)]:
            try:
                found.append(_core.plan_slots(steps, outputs, None, *columns)[0])
            except RecipeError as error:
                refused.append(error)
        if not found:
            raise refused[-1]
        return {
            slot: (rows, columns if all(other[slot][1] == columns for other in found) else None)
            for slot, (rows, columns) in found[0].items()
        }


def _of_other(other: Recipe, name: str, fixed: Mapping[str, Any], values: Any, *schema: Any) -> Steps:
    """Call a function of the other recipe with this one's values of the training fields.

    As a partial function it can be pickled, which a closure cannot.
    """
    shared = {field: value for field, value in vars(values).items() if field != "loss"}
    fields = other.options(**{**vars(other.fields("cpu")), **shared, **fixed})
    made: Steps = getattr(other, name)(fields, *schema)
    return made


def _call(step: Mapping[str, Any]) -> str:
    """Return a step as the call that makes it, without its slot."""
    named = {} if step["name"] == step["out"] else {"name": step["name"]}
    rest = {**step.get("attrs", {}), **named, **({"share": step["share"]} if step.get("share") else {})}
    return f"{step['op']}({', '.join([*step['in'], *(f'{key}={value!r}' for key, value in rest.items())])})"


def _text(shape: Shape) -> str:
    """Return a shape as the tables write it: ``(N, C, 64)``."""
    rows, columns = shape
    return SHAPES[rows].replace("F", "F" if columns is None else str(columns))


def _slot(spec: Meta) -> Argument:
    """Return the argument of a method for a slot that the op reads."""
    rows = "of any rows" if len(spec["rows"]) == len(SHAPES) else shapes_of(spec)
    if spec["optional"]:
        return Argument(spec["name"], "str | None", f"slot {rows}, optional", "", None)
    return Argument(spec["name"], "str", f"slot {rows}")


def _method(meta: Meta) -> Callable[..., str]:
    """Make the method of an op."""
    given = [*map(_slot, meta["inputs"]), *map(attribute, meta["attrs"])]
    own = [Argument(name, kind, default=None, keyword=True) for name, kind in _OWN.items()]
    shown = signature([Argument("self", ""), *given, *own], "str")

    def add(self: Model, *args: Any, **given: Any) -> str:
        return self._add(meta, shown, *args, **given)

    summary = meta["doc"] if meta["doc"][1].isupper() else meta["doc"][0].lower() + meta["doc"][1:]
    listed = [*given, Argument("name, to, share", "", "", "See :class:`tpugraphs.Model`.")]
    result = ["", "Returns", "-------", "str", "    The slot that it makes."]
    notes = [f"Parameters it may learn: {', '.join(f'``{name}``' for name in meta['params'])}."]
    needs = ", ".join(flag for flag in meta["flags"] if flag in ("edges", "digits", "opcodes", "layout"))
    notes = notes * bool(meta["params"]) + [f"It reads from the graph: {needs}."] * bool(needs)
    rest = [*result, *(["", "Notes", "-----", *notes] if notes else [])]
    made: Any = add
    made.__name__, made.__qualname__ = meta["name"], f"Model.{meta['name']}"
    made.__doc__, made.__signature__ = document(f"Append a step: {summary}", listed, "\n".join(rest)), shown
    return add


if not TYPE_CHECKING:
    for _meta in _OPS.values():
        setattr(Model, _meta["name"], _method(_meta))
