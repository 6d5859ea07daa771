"""Recipes out of a list of steps, with the preprocessing and the training of a recipe that is known."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from tpugraphs.errors import ConfigError
from tpugraphs.recipes import get_recipe
from tpugraphs.recipes.base import Recipe, TrainingFields, always, unknown
from tpugraphs.recipes.declared import plain
from tpugraphs.system.words import counted

__all__ = ["adapted"]

Steps = list[dict[str, Any]]


def adapted(
    steps: Steps,
    name: str,
    like: str | Recipe,
    summary: str,
    loss: Sequence[Mapping[str, Any]] | None,
    groups: Sequence[Mapping[str, Any]],
    extra: Callable[[Any], Mapping[str, Any]] | None,
    fields: Mapping[str, Any],
) -> Recipe:
    """Make the recipe; parameters and errors: see :meth:`tpugraphs.Model.recipe`."""
    other = get_recipe(like)
    if other.estimator != "network":
        raise ConfigError(f"like: expected a recipe that trains a network, got {other.name!r}")
    trained = TrainingFields.__dataclass_fields__
    own = other.options.__dataclass_fields__
    for field in fields:
        if field not in trained and field not in own:
            raise ConfigError(unknown("field", field, [*trained, *own]))
    given = {field: value for field, value in fields.items() if field in trained}
    fixed = {field: value for field, value in fields.items() if field not in trained}
    other.fields("cpu", fixed)  # checks the values

    def preset(which: str) -> dict[str, Any]:
        values = plain(other.fields(which))
        return {**{field: values[field] for field in trained if field in values}, **given}

    return Recipe(
        name=name,
        summary=summary
        or f"A model of one's own of {counted(len(steps), 'step')}, trained like {other.name}.",
        kind=other.kind,
        options=TrainingFields,
        presets={which: preset(which) for which in other.presets},
        steps=always(steps),
        preprocessing=partial(_of_other, other, "preprocessing", fixed),
        loss=partial(_of_other, other, "loss", fixed) if loss is None else always(loss),
        groups=always(groups),
        extra=other.extra if extra is None else extra,
    )


# Functions of the recipe: with what they are made of they go into other processes, which closures do not.


def _of_other(other: Recipe, name: str, fixed: Mapping[str, Any], values: Any, *schema: Any) -> Steps:
    """Call a function of the other recipe: its fields of training have the values of this one."""
    own = other.options.__dataclass_fields__
    shared = {field: value for field, value in dataclasses.asdict(values).items() if field in own}
    shared.pop("loss", None)
    made: Steps = getattr(other, name)(
        other.options(**{**vars(other.fields("cpu")), **shared, **fixed}), *schema
    )
    return made
