"""Recipes: named, complete ways to build and train a ranker. One file per published solution.

A recipe is a frozen dataclass of fields (plain JSON values), presets of their values, and two
functions of the fields: the steps of the model (see `docs/architecture.md`) and what happens to a graph
before the model.
"""

from __future__ import annotations

import dataclasses
import difflib
import math
import numbers
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tpugraphs.errors import ConfigError, RecipeError

__all__ = ["Recipe", "Sampling", "get_recipe", "list_recipes", "option"]

PRESETS = ("cpu", "full")

_MODULES = ("first",)
_registry: dict[str, Recipe] = {}


@dataclass(frozen=True)
class Recipe:
    """One way to build and train a ranker.

    Attributes
    ----------
    name, summary : str
        `summary` is one sentence.
    options : type
        Frozen dataclass of the fields, made with :func:`option`.
    presets : mapping of str to mapping
        Values of fields that differ from the defaults, for ``"cpu"`` and ``"full"``.
    steps : callable
        ``steps(fields)``: list of model steps.
    preprocessing : callable
        ``preprocessing(fields)``: list of dicts, in order; see :class:`tpugraphs.pipeline.Pipeline`.
    source : str
        Where the method was published.
    kind : {"layout", "tile"}
        Graphs it is made for.
    """

    name: str
    summary: str
    options: type[Any]
    presets: Mapping[str, Mapping[str, Any]]
    steps: Callable[[Any], list[dict[str, Any]]]
    preprocessing: Callable[[Any], list[dict[str, Any]]]
    source: str = ""
    kind: str = "layout"

    def fields(self, preset: str = "cpu", given: Mapping[str, Any] | None = None) -> Any:
        """Values of all fields: those given, then the preset's, then the defaults.

        Given `epochs` without `steps` go before the preset's `steps`. None is ``"none"`` for a field of text.

        Raises
        ------
        ConfigError
            An unknown preset or field, or a value out of range; the message lists what is valid.
        """
        if preset not in self.presets:
            raise ConfigError(_unknown("preset", preset, self.presets))
        given = given or {}
        values = {**self.presets[preset], **given}
        if given.get("epochs") is not None and "steps" not in given and "steps" in values:
            values["steps"] = None
        known = {field.name: field for field in dataclasses.fields(self.options)}
        for name, value in list(values.items()):
            if name not in known:
                raise ConfigError(_unknown(f"field of recipe {self.name}", name, known))
            if value is None and str(known[name].type) == "str":
                values[name] = value = "none"
            _check(self.name, known[name], value)
        return self.options(**values)


def option(
    default: Any, low: float | None = None, high: float | None = None, *, choices: Iterable[str] = ()
) -> Any:
    """Field of a recipe: its default, and the values allowed (`low` and `high` included)."""
    return dataclasses.field(default=default, metadata={"low": low, "high": high, "choices": tuple(choices)})


@dataclass(frozen=True)
class Sampling:
    """Fields that every recipe has: what a step takes. The fields of a recipe derive from these.

    `slates` of a pass, each of one graph, whose losses are averaged; `accumulate` so many passes into one
    step: the same mean, in the memory of one pass. `close`: chance that a slate is drawn from configs whose
    runtimes are close, see :func:`tpugraphs.sampling.close_rows`. `graph_sampling`: graphs are visited
    equally often, or in proportion to the square root of their number of configs.
    """

    slates: int = option(1, 1, 1024)
    accumulate: int = option(1, 1, 65536)
    close: float = option(0.0, 0.0, 1.0)
    graph_sampling: str = option("even", choices=("even", "sqrt-configs"))


def _unknown(what: str, name: object, known: Iterable[str]) -> str:
    known = sorted(known)
    near = difflib.get_close_matches(str(name), known, 1)
    hint = f" (did you mean {near[0]!r}?)" if near else ""
    return f"unknown {what}: {name!r}{hint}; valid: {', '.join(known)}"


def _check(recipe: str, field: dataclasses.Field[Any], value: Any) -> None:
    low, high, choices = (field.metadata[key] for key in ("low", "high", "choices"))
    kind = str(field.type)
    if value is None and "None" in kind:
        return
    if kind.startswith("str"):
        ok, expected = isinstance(value, str) and (not choices or value in choices), "a string"
        if choices:
            expected = "one of " + ", ".join(choices)
    else:
        whole = kind.startswith("int")
        number = isinstance(value, numbers.Integral if whole else numbers.Real) and not isinstance(
            value, bool
        )
        ok = (
            number
            and math.isfinite(value)
            and (low is None or value >= low)
            and (high is None or value <= high)
        )
        expected = "a whole number" if whole else "a number"
        expected += f" in {low}..{high}" if low is not None else ""
    if not ok:
        raise ConfigError(f"recipe {recipe}: {field.name} must be {expected}, got {value!r}")


def plain(fields: Any) -> dict[str, Any]:
    """Fields as plain Python values for JSON (a NumPy integer becomes an int)."""

    def value(v: Any) -> Any:
        if v is None or isinstance(v, str):
            return v
        return int(v) if isinstance(v, numbers.Integral) else float(v)

    return {field.name: value(getattr(fields, field.name)) for field in dataclasses.fields(fields)}


def _load() -> dict[str, Recipe]:
    if not _registry:
        import importlib

        found: dict[str, Recipe] = {}
        for module in _MODULES:
            for recipe in importlib.import_module(f"{__name__}.{module}").RECIPES:
                found[recipe.name] = recipe
        _registry.update(found)
    return _registry


def list_recipes(kind: str | None = None) -> list[str]:
    """Names of all recipes, for :class:`tpugraphs.Ranker`; of those for ``"layout"`` or ``"tile"`` graphs."""
    return sorted(name for name, recipe in _load().items() if kind in (None, recipe.kind))


def get_recipe(name: str) -> Recipe:
    """Recipe of that name.

    Raises
    ------
    RecipeError
        There is none; the message lists those there are.
    """
    recipes = _load()
    if name not in recipes:
        raise RecipeError(_unknown("recipe", name, recipes))
    return recipes[name]
