"""``tpugraphs recipes``: what can be trained."""

from __future__ import annotations

import argparse
from typing import Any

from tpugraphs.cli import common

HELP = "list the recipes and their fields"
EXAMPLE = "tpugraphs recipes first-layout"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("recipe", nargs="?", metavar="RECIPE", help="show the fields of this recipe")


def run(args: argparse.Namespace) -> int:
    """List all recipes, or the fields of one."""
    from tpugraphs.ranker import Ranker
    from tpugraphs.recipes import get_recipe, list_recipes

    if args.recipe is None:
        summaries = {name: get_recipe(name).summary for name in list_recipes()}
        common.emit(args, summaries)
        width = max(map(len, summaries))
        common.say(args, "\n".join(f"{name:<{width}}  {text}" for name, text in summaries.items()))
        common.say(args, "\ntpugraphs recipes RECIPE shows the fields for --set")
        return 0
    recipe = get_recipe(args.recipe)
    fields: dict[str, Any] = Ranker(args.recipe).get_params()
    common.emit(args, {"recipe": recipe.name, "summary": recipe.summary, "fields": fields})
    width = max(map(len, fields))
    common.say(args, f"{recipe.name}: {recipe.summary}\nSource: {recipe.source}\n")
    common.say(args, "\n".join(f"  {name:<{width}}  {value!r}" for name, value in fields.items()))
    return 0
