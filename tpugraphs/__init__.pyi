"""Types of the public names. Made by `make tables`; a test fails when it is out of date."""

# ruff: noqa
from tpugraphs.errors import Error as Error
from tpugraphs.errors import DataError as DataError
from tpugraphs.errors import ConfigError as ConfigError
from tpugraphs.errors import RecipeError as RecipeError
from tpugraphs.errors import ShapeError as ShapeError
from tpugraphs.errors import CheckpointError as CheckpointError
from tpugraphs.data import load as load
from tpugraphs.data import sample as sample
from tpugraphs.data import list_samples as list_samples
from tpugraphs.data import open_collection as open_collection
from tpugraphs.data import audit as audit
from tpugraphs.data import Graph as Graph
from tpugraphs.data import LayoutGraph as LayoutGraph
from tpugraphs.data import TileGraph as TileGraph
from tpugraphs.data import Schema as Schema
from tpugraphs.data import from_frame as from_frame
from tpugraphs.data import nearest as nearest
from tpugraphs.data import with_extra as with_extra
from tpugraphs.preprocess import prune as prune
from tpugraphs.preprocess import dedup as dedup
from tpugraphs.preprocess import filter_blocks as filter_blocks
from tpugraphs.ranker import Ranker as Ranker
from tpugraphs.ranker import Ensemble as Ensemble
from tpugraphs.ranker import Routed as Routed
from tpugraphs.ranker import load_ranker as load_ranker
from tpugraphs.ranker import list_recipes as list_recipes
from tpugraphs.ranker import leave_out as leave_out
from tpugraphs.ranker import cross_validate as cross_validate
from tpugraphs.ranker import train_seeds as train_seeds
from tpugraphs.ranker import SeedRuns as SeedRuns
from tpugraphs.ranker import Nearest as Nearest
from tpugraphs.ranker import compare as compare
from tpugraphs.ranker import pseudo_label as pseudo_label
from tpugraphs.ranker import distill as distill
from tpugraphs.ranker import train_members as train_members
from tpugraphs.ranker import permutation_importance as permutation_importance
from tpugraphs.recipes.model import Model as Model
from tpugraphs._core import set_num_threads as set_num_threads
from tpugraphs._core import get_num_threads as get_num_threads
from tpugraphs import errors as errors
from tpugraphs import metrics as metrics
from tpugraphs import kernels as kernels
from tpugraphs import data as data
from tpugraphs import preprocess as preprocess
from tpugraphs import recipes as recipes
from tpugraphs import training as training
from tpugraphs import ranker as ranker
from tpugraphs import evaluation as evaluation
from tpugraphs import submission as submission
from tpugraphs import download as download
from tpugraphs import cli as cli
from tpugraphs import xla as xla
from tpugraphs import layertime as layertime
from tpugraphs import torch as torch

__all__ = [
    "__version__",
    "Error",
    "DataError",
    "ConfigError",
    "RecipeError",
    "ShapeError",
    "CheckpointError",
    "load",
    "sample",
    "list_samples",
    "open_collection",
    "audit",
    "Graph",
    "LayoutGraph",
    "TileGraph",
    "Schema",
    "from_frame",
    "nearest",
    "with_extra",
    "prune",
    "dedup",
    "filter_blocks",
    "Ranker",
    "Ensemble",
    "Routed",
    "load_ranker",
    "list_recipes",
    "leave_out",
    "cross_validate",
    "train_seeds",
    "SeedRuns",
    "Nearest",
    "compare",
    "pseudo_label",
    "distill",
    "train_members",
    "permutation_importance",
    "Model",
    "set_num_threads",
    "get_num_threads",
    "errors",
    "metrics",
    "kernels",
    "data",
    "preprocess",
    "recipes",
    "training",
    "ranker",
    "evaluation",
    "submission",
    "download",
    "cli",
    "layertime",
    "xla",
    "torch",
]

__version__: str

def _core_missing() -> str: ...
