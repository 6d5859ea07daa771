"""Write docs/recipes.md: what every recipe does, read off its steps, fields and losses. `make tables`."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import tpugraphs as tg
from tpugraphs import _core, recipes
from tpugraphs.preprocess.pipeline import Sizes

FILE = Path(__file__).with_name("recipes.md")
HEAD = """# Recipes

A recipe is a complete way to build and train a ranker. The package has one or more for each winning solution
of the competition. This page shows what they reach, what each solution consists of, and its source.
`make tables` writes the page from the recipes themselves.

```python
import tpugraphs as tg

ranker = tg.Ranker("sixth-gin", seed=0)  # sized for a CPU
published = tg.Ranker("sixth-gin", preset="full")
ensemble = tg.train_members(["first-layout", "sixth-gin", "eighth-lightgbm"], train, valid)
```

`tpugraphs recipes NAME` lists the fields of a recipe; on the site they are in the reference, under Rankers.
`tpugraphs compare DATA` trains and judges several.
"""
REACHED = """
## What they reach

Every recipe with its preset for a CPU and three seeds, on measured runtimes. A table begins with the command
that made it. Trainings ran two at a time on two cores, each with one thread.

"""
RESULTS = (  # file in docs/results: data, learnt from, judged on
    ("recipes-alexnet", "AlexNet on a TPU", "27,694 runs", "runs of configs never seen, 1,000 at a time"),
    ("recipes-tile", "15 kernels on a TPU", "kernels of other folds", "8 kernels of more than five configs"),
    ("recipes-cpu", "`layout:xla:cpu`", "47 programs; 11 choose the weights", "16 programs never seen"),
    ("recipes-cpu-configs", "the same", "92 configs of 47 programs each", "17 configs of each, never seen"),
)
READING = """
- On AlexNet all recipes lie within 0.01. Two runs of an equal config differ there, and no order can pass
  about 0.8.
- Trees score many configs alike, which tau-b rewards. `tau (order)` is that of the order in a submission.
- Where the graph is known, trees on the configs' columns are strong. For programs never seen, networks are
  ahead: what a digit means depends on its node.
- `first-layout-cross` sees 1,000 configs at once; its scores are means over ten random orders (`--tta 10`).
- The rows of `fifth-*` were measured before these recipes became those of the authors' code. On
  `layout:xla:cpu` `fifth-layout` now has a tau of 0.297 ± 0.006 and `fifth-dimension` 0.301 ± 0.011.
"""
PLACES = {
    "official": "official", "first": "1st", "second": "2nd", "third": "3rd", "fourth": "4th", "fifth": "5th",
    "sixth": "6th", "seventh": "7th", "eighth": "8th", "ninth": "9th", "tenth": "10th", "eleventh": "11th",
}  # fmt: skip


def solutions() -> Iterator[tuple[str, Any]]:
    """Name and module of every solution, in the order of places."""
    found = {module.name for module in pkgutil.iter_modules(recipes.__path__)}
    for name in PLACES:
        assert name in found, name
        yield name, importlib.import_module(f"tpugraphs.recipes.{name}")


class Facts:
    """What is known about one recipe: values of fields, names of ops, steps of preprocessing, losses."""

    def __init__(self, recipe: Any, preset: str = "full") -> None:
        self.recipe, self.fields = recipe, recipe.fields(preset)
        network = recipe.estimator == "network"
        self.steps = self._steps() if network else []
        self.ops = {step["op"] for step in self.steps}
        self.prepared = recipe.preprocessing(self.fields) if network else []
        self.losses = {term["loss"] for term in recipe.losses(self.fields)}
        self.over_batch = any(term.get("over") == "batch" for term in recipe.losses(self.fields))

    def _steps(self) -> list[dict[str, Any]]:
        s = _core.SCHEMA
        digits = s["digits"], s["digit_states"]
        sizes = Sizes(s["node_features"], True, 0, s["tile_features"], digits, s["opcodes"], True)
        return list(self.recipe.model(self.fields, sizes))

    def attr(self, op: str, name: str, value: Any) -> bool:
        """Whether a step has an attribute of that value."""
        return any(step["op"] == op and step["attrs"].get(name) == value for step in self.steps)

    def prepares(self, step: str, **attrs: Any) -> bool:
        """Whether a step of preprocessing with these attributes is there."""
        return any(
            one["step"] == step and all(one.get(name) == value for name, value in attrs.items())
            for one in self.prepared
        )

    def field(self, name: str) -> Any:
        """Value of a field, None if there is none."""
        return getattr(self.fields, name, None)

    def chosen(self, name: str) -> tuple[str, ...]:
        """Words that a field may have."""
        found = self.recipe.describe()["options"].get(name)
        return tuple(found["choices"]) if found else ()


def _prunes(facts: Facts) -> bool:
    return any(one["step"] == "prune" and one["method"] != "none" for one in facts.prepared)


def _joins(facts: Facts, early: bool) -> bool:
    """Whether configs meet nodes before message passing, or after pooling."""
    if facts.recipe.kind != "tile":
        return early and bool({"config_linear", "config_columns"} & facts.ops) and not _late(facts)
    first = next((i for i, step in enumerate(facts.steps) if "config_feat" in step["in"]), None)
    pool = next((i for i, step in enumerate(facts.steps) if step["op"] == "pool"), len(facts.steps))
    return first is not None and (first < pool) == early and "attention" not in facts.ops


def _late(facts: Facts) -> bool:
    """Whether configs join at the configurable nodes alone, or as queries, after the graph was computed."""
    taken = {step["out"] for step in facts.steps if step["op"] == "take_config_nodes"}
    return any(step["op"] == "config_linear" and set(step["in"]) & taken for step in facts.steps)


CAPABILITIES: dict[str, Callable[[Facts], bool]] = {
    "tile configs": lambda f: f.recipe.kind in ("tile", "any"),
    "layout configs": lambda f: f.recipe.kind in ("layout", "any"),
    "part of the graph (pruning, compression)": _prunes,
    "equal configs merged": lambda f: any(
        one["step"] == "dedup" and one["keep"] != "none" for one in f.prepared
    ),
    "logarithms of node features": lambda f: f.prepares("log-columns"),
    "sizes in digits, shapes of operands": lambda f: f.prepares("mod-features"),
    "features per dimension": lambda f: f.prepares("dimension-flags"),
    "random-walk encodings": lambda f: f.prepares("walk-encoding"),
    "virtual nodes": lambda f: f.prepares("virtual-node"),
    "-1 as padding of layouts": lambda f: f.prepares("layout-digits"),
    "embedding of opcodes": lambda f: "embedding" in f.ops,
    "embedding shared by layouts and configs": lambda f: any(
        "embedding_layout" in str(step.get("share")) for step in f.steps
    ),
    "GraphSAGE": lambda f: (
        "sage" in f.ops or ("edge_mean" in f.ops and not f.attr("edge_mean", "kind", "sum"))
    ),
    "sums of neighbours (GIN, official SAGE)": lambda f: f.attr("edge_mean", "kind", "sum"),
    "GCN, residual GCN, APPNP": lambda f: "propagate" in f.ops,
    "attention over edges (GAT, GATv2, TransformerConv)": lambda f: bool({"gatv2", "edge_attention"} & f.ops),
    "attention over all nodes": lambda f: bool({"attention", "linear_attention"} & f.ops),
    "transformer over dimensions": lambda f: "encoder_layer" in f.ops,
    "channel gate": lambda f: any(s["op"] == "mix" and s["attrs"].get("gate") for s in f.steps),
    "attention across configs": lambda f: any(s["op"] == "mix" and s["attrs"].get("cross") for s in f.steps),
    "gated units": lambda f: "gate" in f.ops,
    "a network over edges": lambda f: "edge_ends" in f.ops,
    "instance norm": lambda f: (
        "instance_norm" in f.ops or any(s["attrs"].get("norm") is True for s in f.steps)
    ),
    "layer norm": lambda f: "layer_norm" in f.ops,
    "configs join early": lambda f: _joins(f, early=True),
    "configs join late (after pooling)": lambda f: f.recipe.kind == "tile" and _joins(f, early=False),
    "configs join in between (graph computed once)": lambda f: _late(f) or "attention" in f.ops,
    "segments with stored scores": lambda f: (f.field("segment") or 0) > 0,
    "pairwise hinge": lambda f: "pairwise_hinge" in f.losses,
    "logistic loss of pairs": lambda f: "ranknet" in f.losses,
    "ListMLE": lambda f: "list_mle" in f.losses,
    "hinge as DCG": lambda f: "dcg_hinge" in f.losses,
    "values or ranks are fitted": lambda f: (
        bool({"mse", "mape", "log_mse", "cross_entropy"} & f.losses) or f.recipe.estimator == "trees"
    ),
    "pairs across graphs": lambda f: f.over_batch,
    "mean of weights (EMA, SWA)": lambda f: f.field("average") not in (None, "none"),
    "fast configs drawn more often": lambda f: f.field("config_sampling") == "gumbel",
    "graphs drawn by number of configs": lambda f: f.field("graph_sampling") in ("sqrt-configs", "slates"),
    "boosted trees": lambda f: f.recipe.estimator in ("trees", "tree-pairs"),
    "pairs of configs compared by trees": lambda f: f.recipe.estimator == "tree-pairs",
}


def variants(recipe: Any) -> Iterator[Facts]:
    """Yield the recipe with every other choice of the fields that change its model."""
    for name in ("variant", "unit", "block"):
        for choice in Facts(recipe).chosen(name):
            yield Facts(_with(recipe, name, choice))


def _with(recipe: Any, name: str, value: str) -> Any:
    """Return the recipe with another value of a field in its presets."""
    presets = {preset: {**values, name: value} for preset, values in recipe.presets.items()}
    return replace(recipe, presets=presets)


def cell(plain: list[Facts], others: list[Facts], has: Callable[[Facts], bool]) -> str:
    """Return a dot, a ring, or nothing."""
    return "●" if any(map(has, plain)) else "○" if any(map(has, others)) else ""


def row(cells: list[str]) -> str:
    """One line of a table."""
    return "| " + " | ".join(cells) + " |"


def parameters(recipe: Any, preset: str) -> str:
    """Return the number of weights, "-" for trees."""
    return f"{tg.Ranker(recipe, preset=preset).num_parameters:,}" if recipe.estimator == "network" else "-"


def recipe_table() -> list[str]:
    """Every recipe: what it ranks, its size, loss and schedule."""
    heads = ["recipe", "ranks", "weights as published", "for a CPU", "loss", "optimizer, schedule"]
    lines = [row(heads), row(["---", "---", "---:", "---:", "---", "---"])]
    for _, module in solutions():
        for recipe in module.RECIPES:
            facts = Facts(recipe)
            if recipe.estimator == "network":
                loss = " + ".join(dict.fromkeys(term["loss"] for term in recipe.losses(facts.fields)))
                training = [loss, f"{facts.fields.optimizer}, {facts.fields.schedule}"]
            elif recipe.estimator == "trees":
                training = [facts.fields.objective, "LightGBM"]
            else:
                training = ["binary, of pairs", "LightGBM"]
            kind = "layout, tile" if recipe.kind == "any" else recipe.kind
            sizes = [parameters(recipe, preset) for preset in ("full", "cpu")]
            lines.append(row([f"`{recipe.name}`", kind, *sizes, *training]))
    return lines


def capability_table() -> list[str]:
    """List what is done, by solution."""
    facts = [
        ([Facts(recipe) for recipe in module.RECIPES], [*chain.from_iterable(map(variants, module.RECIPES))])
        for _, module in solutions()
    ]
    lines = [row(["", *PLACES.values()]), row(["---", *[":-:"] * len(PLACES)])]
    for name, has in CAPABILITIES.items():
        cells = [cell(plain, others, has) for plain, others in facts]
        assert any(cells), f"nobody does: {name}"
        lines.append(row([name, *cells]))
    return lines


def other_recipes() -> list[str]:
    """List recipes that are not solutions of the competition."""
    known = {recipe.name for _, module in solutions() for recipe in module.RECIPES}
    found = [recipes.get_recipe(name) for name in tg.list_recipes() if name not in known]
    return [f"- `{recipe.name}`: {recipe.summary} From: {recipe.source}." for recipe in found]


def results_table() -> list[str]:
    """Lines of the table of measured comparisons."""
    lines = ["| data | learnt from | judged on | |", "| --- | --- | --- | --- |"]
    for file, *cells in RESULTS:
        links = (
            f"[{what}](results/{file}.{ending})" for what, ending in (("table", "md"), ("picture", "png"))
        )
        lines.append(f"| {' | '.join([*cells, ', '.join(links)])} |")
    return lines


def text() -> str:
    """Return the page."""
    parts = [
        HEAD + REACHED.rstrip(),
        "",
        *results_table(),
        READING,
        "## All recipes",
        "",
        *recipe_table(),
        "",
        "The others are not solutions of the competition:",
        "",
        *other_recipes(),
        "",
        "## What each solution does",
        "",
        "A dot: a recipe of the solution does it by default. A ring: it does it with a field set.",
        "",
        *capability_table(),
    ]
    for name, module in solutions():
        first, _, rest = module.__doc__.partition("\n\n")
        names = ", ".join(f"`{recipe.name}`" for recipe in module.RECIPES)
        parts += [
            "",
            f"## {name.capitalize()}",
            "",
            f"{names}. {first}",
            "",
            re.sub(r":\w+:`~?([^`]*)`", r"`\1`", rest.replace("``", "`")).rstrip(),
        ]
    return "\n".join([*parts, ""])


if __name__ == "__main__":
    FILE.write_text(text())
