"""Recipes from files: a ranker with a custom recipe loads where the recipe is not registered.

A file holds what the recipe's functions returned: steps of the model and of the preprocessing, losses,
groups. The recipe made from the file returns these. The core plans the steps before it allocates anything for
them, as for any other file, and nothing in a file is executed.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Mapping
from typing import Any

from tpugraphs.data.schema import Schema
from tpugraphs.errors import DataError
from tpugraphs.recipes.base import Recipe, always
from tpugraphs.recipes.declared import constants, plain_value
from tpugraphs.recipes.functions import extra_named
from tpugraphs.system import counted, tensorfile
from tpugraphs.system.arguments import is_number

ENTRY = "own_recipe"  # in the metadata of a file
_MOST_GROUPS, _MOST_STEPS = 256, 1024
Steps = list[dict[str, Any]]


def describe(recipe: Recipe, fields: Any) -> dict[str, Any]:
    """Return the JSON values that a file stores about a user's recipe, besides its steps."""
    texts = {name: getattr(recipe, name) for name in ("kind", "summary", "source")}
    return {**texts, "loss": plain_value(recipe.loss(fields)), "groups": plain_value(recipe.groups(fields))}


def restore(path: str, metadata: Mapping[str, Any]) -> Recipe:
    """Make a recipe from the metadata of a file.

    Fields of training may be changed, as with any recipe. The recipe's own fields keep the values in the
    file, because the steps depend on them.

    Raises
    ------
    CheckpointError
        An entry is missing or malformed; the message names it.
    """

    def entry(name: str, kind: type, within: Mapping[str, Any] = metadata) -> Any:
        return tensorfile.entry(path, within, name, kind)

    own, steps, prepare = entry(ENTRY, dict), entry("steps", list), entry("preprocessing", list)
    for name, found in (("steps", steps), ("preprocessing", prepare)):
        if len(found) > _MOST_STEPS or not all(isinstance(step, dict) for step in found):
            count = counted(len(found), "entry", "entries")
            raise tensorfile.fail(path, name, f"at most {_MOST_STEPS} steps", count, tensorfile.LATER)
    loss, groups = entry("loss", list, own), entry("groups", list, own)
    if len(groups) > _MOST_GROUPS or not all(_is_group(group) for group in groups):
        raise tensorfile.fail(path, "groups", "groups of parameters", repr(groups)[:80], tensorfile.LATER)
    kind, fields, preset = entry("kind", str, own), entry("fields", dict), entry("preset", str)
    prepare = [step for step in prepare if step.get("step") != "segments"]  # of a field
    extra = extra_of(path, metadata)
    with tensorfile.sound(path, ENTRY, "a recipe"):
        schema = Schema.from_dict(metadata["schema"]) if "schema" in metadata else None
        recipe = Recipe(
            name=entry("recipe", str),
            summary=entry("summary", str, own),
            source=entry("source", str, own),
            kind=kind,
            options=constants(fields),
            presets={"cpu": fields, preset: fields},
            steps=always(steps),
            preprocessing=functools.partial(_prepared, prepare, schema),
            loss=always(loss),
            groups=always(groups),
            extra=extra,
        )
    if (schema is None) == recipe.takes_schema:
        wanted, there = ("a schema", "none") if schema is None else (f"none for {kind} graphs", "one")
        raise tensorfile.fail(path, "schema", wanted, there, tensorfile.LATER)
    return recipe


def extra_of(path: str, metadata: Mapping[str, Any]) -> Callable[[Any], Mapping[str, Any]] | None:
    """Return the function that a file names for further features, or None.

    Raises
    ------
    CheckpointError
        It is not registered here.
    """
    if "extra" not in metadata:
        return None
    name = tensorfile.entry(path, metadata, "extra", str)
    function = extra_named(name)
    if function is None:
        todo = f"register the function first: tg.recipes.register_extra({name[:80]!r}, ...)"
        raise tensorfile.fail(path, "extra", "the name of a registered function", repr(name)[:80], todo)
    return function


def _prepared(steps: Steps, own: Schema | None, fields: Any, schema: Schema | None = None) -> Steps:
    """Return the preprocessing in the file; its steps fit only the schema they were made for."""
    found = own.difference(schema) if own is not None and schema is not None else None
    if found is not None:
        raise DataError(
            f"this recipe comes from a file, whose model is for graphs of another schema: {found}; fit with "
            "init=, or give the recipe it was made with to tpugraphs.recipes.register",
            field="schema", expected="the schema in the file", found=found,
        )  # fmt: skip
    return copy.deepcopy(steps)


def _is_group(group: Any) -> bool:
    numbers = {"learning_rate", "weight_decay"}
    return (
        isinstance(group, dict)
        and isinstance(group.get("match"), str)
        and group.keys() <= {"match", *numbers}
        and all(is_number(group[name], 0, 1e9) for name in numbers & group.keys())
    )
