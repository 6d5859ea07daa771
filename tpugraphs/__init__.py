"""Learn from measured runtimes to rank the compiler configurations of an XLA graph, fastest first."""

import importlib
import os
from importlib.util import find_spec
from pathlib import Path
from typing import Any

__version__ = "0.1.0"

# libgomp reads this when the core is loaded. By default (300000) its waiting threads spin so long that a step
# takes up to four times as long on a machine with other work. With this many a step on 20 nodes takes as long
# as by default on an idle one; with 1000 a fifth longer.
if "OMP_WAIT_POLICY" not in os.environ:
    os.environ.setdefault("GOMP_SPINCOUNT", "4000")

# Module -> public names that it defines; imported on first use (PEP 562), so `import tpugraphs` stays fast.
_HOMES = {
    "errors": "Error DataError ConfigError RecipeError ShapeError CheckpointError",
    "data": "load sample list_samples open_collection audit "
    "Graph LayoutGraph TileGraph Schema from_frame nearest with_extra",
    "preprocess": "prune dedup filter_blocks",
    "ranker": "Ranker Ensemble Routed load_ranker list_recipes leave_out cross_validate train_seeds SeedRuns "
    "Nearest compare pseudo_label distill train_members permutation_importance",
    "tuning": "Space Tuner tune",
    "recipes.model": "Model",
    "_core": "set_num_threads get_num_threads",
}
_LAZY = {name: module for module, names in _HOMES.items() for name in names.split()}
_MODULES = (
    *("errors", "metrics", "kernels", "data", "preprocess", "recipes", "training", "ranker"),
    *("evaluation", "submission", "download", "records", "search", "tuning", "cli"),
    *("xla", "layertime", "torch", "distributed"),
)
_OPTIONAL = {"xla": "jax", "torch": "torch"}  # need an extra, so `import *` leaves them out
__all__ = ["__version__", *_LAZY, *(name for name in _MODULES if name not in _OPTIONAL)]


def _core_missing() -> str:
    """Say why there is no C core, and what to do."""
    here = Path(__file__).resolve().parent
    if (here.parent / "setup.py").is_file():
        return (
            f"the C core is not built in {here}, which is the source folder: change to another directory "
            "to use the installed package, or build it here with `make build`"
        )
    return f"the C core is missing from {here}: reinstall with `pip install --force-reinstall .` in a clone"


def __getattr__(name: str) -> Any:
    if name not in _LAZY and name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        module = importlib.import_module(f"{__name__}.{_LAZY.get(name, name)}")
    except ImportError as error:
        if "_core'" not in str(error):  # a core that exists but cannot be loaded says why
            raise
        raise ImportError(_core_missing(), name=f"{__name__}._core") from None
    value = getattr(module, name) if name in _LAZY else module
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    there = [name for name, needed in _OPTIONAL.items() if find_spec(needed)]  # help() reads all of these
    return sorted([*__all__, *there])
