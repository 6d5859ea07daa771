"""Recipes: named, complete ways to build and train a ranker. One file per published solution.

A recipe has fields (a frozen dataclass of plain JSON values), presets of their values, and pure functions of
the fields. These return the steps of the model (see `docs/architecture.md`), the preprocessing, the losses,
and the groups of parameters that are trained differently. The package finds every module in this folder that
has `RECIPES`. Pass your own recipe to :class:`tpugraphs.Ranker`, or make it known with :func:`register`.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil

from tpugraphs.errors import RecipeError
from tpugraphs.recipes.base import Recipe, TableFields, TrainingFields, option, unknown
from tpugraphs.recipes.declared import plain
from tpugraphs.recipes.functions import register_extra

__all__ = [
    "Recipe", "TableFields", "TrainingFields", "get_recipe", "is_registered", "list_recipes", "option",
    "plain", "register", "register_extra", "unregister",
]  # fmt: skip

_registered: dict[str, Recipe] = {}


@functools.cache
def _built_in() -> dict[str, Recipe]:
    found: dict[str, Recipe] = {}
    for module in pkgutil.iter_modules(__path__):
        for recipe in getattr(importlib.import_module(f"{__name__}.{module.name}"), "RECIPES", ()):
            if recipe.name in found:
                raise RecipeError(f"recipe {recipe.name} of {module.name}.py: another module has that name")
            found[recipe.name] = recipe
    return found


def _known() -> dict[str, Recipe]:
    return {**_built_in(), **_registered}


def register(recipe: Recipe) -> None:
    """Register a recipe under its name for `Ranker`, `list_recipes`, and `Ranker.load` of its files.

    Parameters
    ----------
    recipe : Recipe
        Your recipe.

    Raises
    ------
    RecipeError
        Another recipe has the name.
    """
    if not isinstance(recipe, Recipe):
        raise RecipeError(f"register: expected a tpugraphs.recipes.Recipe, got {type(recipe).__name__}")
    _registered[get_recipe(recipe).name] = recipe


def unregister(name: str) -> None:
    """Remove a registered recipe, so that its name is free.

    Parameters
    ----------
    name : str
        Name of a registered recipe.

    Raises
    ------
    RecipeError
        No recipe of that name was registered.
    """
    if name not in _registered:
        raise RecipeError(unknown("registered recipe", name, _registered))
    del _registered[name]


def is_built_in(recipe: Recipe) -> bool:
    """Whether a recipe comes with the package, and so is known on every machine."""
    return _built_in().get(recipe.name) == recipe


def is_registered(recipe: Recipe) -> bool:
    """Return whether `get_recipe` finds a recipe by its name.

    Parameters
    ----------
    recipe : Recipe
        Any.

    Returns
    -------
    bool
        False if another has its name.
    """
    return _known().get(recipe.name) == recipe


def list_recipes(kind: str | None = None) -> list[str]:
    """Return the names of all recipes, or of those for one kind of graph.

    Parameters
    ----------
    kind : {"layout", "tile", "graph"}, optional
        Kind of the graphs.

    Returns
    -------
    list of str
        In alphabetical order.
    """
    return sorted(name for name, recipe in _known().items() if kind is None or recipe.kind in (kind, "any"))


def get_recipe(recipe: str | Recipe) -> Recipe:
    """Return the recipe of this name; a `Recipe` is checked and returned.

    Parameters
    ----------
    recipe : str or Recipe
        A name, or the recipe itself.

    Returns
    -------
    Recipe
        A registered recipe, or the one given.

    Raises
    ------
    RecipeError
        There is no recipe of this name (the message lists all), or another recipe has the same name.
    """
    known = _known()
    if not isinstance(recipe, Recipe):
        if callable(getattr(recipe, "recipe", None)):
            raise RecipeError(
                "recipe: expected a recipe or its name, found a tg.Model; use model.recipe(name)"
            )
        if recipe not in known:
            raise RecipeError(unknown("recipe", recipe, known))
        return known[recipe]
    if known.get(recipe.name, recipe) != recipe:
        raise RecipeError(f"recipe {recipe.name}: another recipe has that name; give yours a name of its own")
    return recipe
