"""Pages of the fields of recipes: one for every recipe, and one of all fields by name. Used by conf.py.

All of it is what the recipes declare, as `tpugraphs recipes NAME` prints it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tpugraphs import recipes
from tpugraphs.recipes.declared import attributes

HEAD = """# Fields of recipes

Fields are the settings of a recipe: keyword arguments of {py:obj}`tpugraphs.Ranker` and `set_params`, and
`--set FIELD=VALUE` of the commands. A preset, `cpu` or `full`, gives all of them values, and what you pass
overrides it:

```python
ranker = tg.Ranker("sixth-gin", preset="full", config_sampling="gumbel", config_temperature=0.5)
ranker.get_params()  # every field with its value
```

`tpugraphs recipes NAME` prints the fields of one recipe.
"""
MANY = 8  # recipes with the same default, which are not listed
Described = Mapping[str, Mapping[str, Any]]  # recipe -> what it declares


def cell(text: object) -> str:
    """Return text for a cell of a table."""
    return str(text).replace("|", r"\|")


def sentence(text: str) -> str:
    """Return a meaning as a sentence."""
    return f"{text[:1].upper()}{text[1:]}."


def default(option: Mapping[str, Any]) -> str:
    """Return the value of each preset, or that of all."""
    values = {preset: f"`{value!r}`" for preset, value in option["default"].items()}
    if len(set(values.values())) == 1:
        return next(iter(values.values()))
    return ", ".join(f"{value} ({preset})" for preset, value in values.items())


def recipe_page(described: Mapping[str, Any]) -> str:
    """Return the page of one recipe."""
    kind = {"graph": "graphs of any schema", "any": "graphs of every kind"}.get(
        described["kind"], f"{described['kind']} graphs"
    )
    lines = [
        f"# Fields of {described['recipe']}",
        "",
        described["summary"],
        "",
        f"Ranks {kind}. From: {described['source']}.",
        "",
    ]
    lines += ["| field | default | meaning | values |", "| --- | --- | --- | --- |"]
    for name, option in described["options"].items():
        parts = (
            f"[`{name}`](index.md#{name})",
            default(option),
            sentence(option["meaning"]),
            option["expected"],
        )
        lines.append("| " + " | ".join(map(cell, parts)) + " |")
    return "\n".join([*lines, ""])


def links(names: list[str]) -> str:
    """Return recipes, each with a link to its page."""
    return ", ".join(f"[`{name}`]({name}.md)" for name in names)


def section(name: str, described: Described) -> list[str]:
    """Describe a field: meanings, values and defaults with the recipes that have them."""
    lines = [f"### {name}", ""]
    meanings: dict[tuple[str, str], dict[str, list[str]]] = {}
    for recipe, one in described.items():
        if option := one["options"].get(name):
            meaning = option["meaning"], option["expected"]
            meanings.setdefault(meaning, {}).setdefault(default(option), []).append(recipe)
    for (meaning, expected), defaults in meanings.items():
        usual = max(defaults, key=lambda value: len(defaults[value]))
        most = len(defaults[usual]) > MANY
        parts = [
            f"{value} for {links(names)}" for value, names in defaults.items() if not most or value != usual
        ]
        given = "; ".join([usual, *parts] if most else parts)
        lines += [sentence(meaning), "", f"Values: {expected}. Default: {given}.", ""]
    return lines


def pages() -> dict[str, str]:
    """Return all pages by name."""
    described = {name: recipes.get_recipe(name).describe() for name in recipes._built_in()}
    common = [*attributes(recipes.TrainingFields)]
    others = sorted({name for one in described.values() for name in one["options"]} - set(common))
    rows = [f"| {links([name])} | {cell(one['summary'])} |" for name, one in described.items()]
    lines = [HEAD, "## By recipe", "", "| recipe | what it is |", "| --- | --- |", *rows, ""]
    for heading, names in (("Of every network", common), ("Of single recipes", others)):
        lines += [f"## {heading}", "", *(line for name in names for line in section(name, described))]
    hidden = ["```{toctree}", ":hidden:", "", *(f"{name} <{name}>" for name in described), "```", ""]
    return {"index.md": "\n".join([*lines, *hidden])} | {
        f"{name}.md": recipe_page(one) for name, one in described.items()
    }
