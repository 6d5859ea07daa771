"""``tpugraphs recipes``: what can be trained."""

from __future__ import annotations

import argparse
import inspect
from typing import Any

from tpugraphs.cli import common

HELP = "list the recipes and their fields"
EXAMPLE = "tpugraphs recipes first-layout"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("recipe", nargs="?", metavar="RECIPE", help="show the fields of this recipe")


def run(args: argparse.Namespace) -> int:
    """List all recipes, or the fields of one."""
    from tpugraphs.ranker import Ranker, list_recipes

    names = list(list_recipes())
    if args.recipe is None:
        common.emit(args, names)
        common.say(args, "\n".join(names) + "\n\ntpugraphs recipes RECIPE shows the fields for --set")
        return 0
    ranker = Ranker(recipe=args.recipe)
    fields: dict[str, Any] = ranker.get_params()
    common.emit(args, {"recipe": args.recipe, "fields": fields})
    text = inspect.cleandoc(_describe(args.recipe))
    width = max(map(len, fields), default=0)
    common.say(args, f"{args.recipe}: {text}\n" if text else f"{args.recipe}\n")
    common.say(args, "\n".join(f"  {name:<{width}}  {value!r}" for name, value in fields.items()))
    return 0


def _describe(name: str) -> str:
    """Return the first line of what the recipe says about itself."""
    from tpugraphs import recipes

    recipe = recipes.get(name) if hasattr(recipes, "get") else None
    return (getattr(recipe, "__doc__", None) or "").strip().partition("\n")[0]
