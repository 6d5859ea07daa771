"""List the recipes, or what one does: its fields, losses and optimizer.

example:
  tpugraphs recipes first-layout
"""

import textwrap
from collections.abc import Iterator, Mapping
from typing import Any

import tpugraphs as tg
from tpugraphs.cli.common import Args, Parser, emit, option, remark
from tpugraphs.names import kind_named

_WIDTH = 100


def add_arguments(parser: Parser) -> None:
    """Declare the options."""
    option(parser, "recipe RECIPE", "show the fields of this recipe", nargs="?")


def run(args: Args) -> None:
    """List all recipes, or the fields of one."""
    if args.recipe is None:
        summaries = {name: tg.recipes.get_recipe(name).summary for name in tg.list_recipes()}
        width = max(map(len, summaries))
        lines = [f"{name:<{width}}  {text}" for name, text in summaries.items()]
        emit(args, summaries, "\n".join(lines))
        remark(args, "\ntpugraphs recipes RECIPE shows the fields for --set")
        return
    about = tg.recipes.get_recipe(args.recipe).describe()
    fields = tg.Ranker(args.recipe).get_params()
    emit(args, {**about, "fields": fields}, "\n".join(_lines(about)))


def _lines(about: Mapping[str, Any]) -> Iterator[str]:
    options = about["options"]

    def default(name: str, show: Any = str) -> str:
        return _by_preset(options[name]["default"], show)

    yield f"{about['recipe']}: {about['summary']}"
    source = f" Source: {about['source']}." if about["source"] else ""
    yield f"Ranks {kind_named(about['kind']).graphs}.{source}"
    if "optimizer" in options:
        yield f"\nLosses:     {_by_preset(about['losses'], _terms)}"
        yield f"Optimizer:  {default('optimizer')}, learning rate {default('learning_rate')}"
        yield f"Schedule:   {default('schedule')}"
        yield f"Groups:     {_by_preset(about['groups'], _terms)}"
    yield "\nFields, for --set FIELD=VALUE: default; values. Meaning."
    for name, field in options.items():
        yield f"  {name} = {default(name, repr)}; {field['expected']}"
        meaning = field["meaning"][0].upper() + field["meaning"][1:] + "."
        yield textwrap.fill(meaning, _WIDTH, initial_indent=" " * 6, subsequent_indent=" " * 6)


def _by_preset(values: Mapping[str, Any], show: Any) -> str:
    """Return one value, or that of each preset where they differ."""
    shown = {preset: show(value) for preset, value in values.items()}
    if len(set(shown.values())) == 1:
        return str(next(iter(shown.values())))
    return ", ".join(f"{text} ({preset})" for preset, text in shown.items())


def _terms(terms: list[dict[str, Any]]) -> str:
    """Describe losses, or parameter groups, in words."""
    words = [
        name[1] + (" with " + ", ".join(f"{key} {value}" for key, value in fields) if fields else "")
        for name, *fields in (term.items() for term in terms)
    ]
    return " + ".join(words) or "none"
