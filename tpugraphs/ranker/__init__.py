"""Scorers: rankers, ensembles, training with several seeds, routing, baselines, a base class for yours."""

from tpugraphs.evaluation.scorer import Scorer
from tpugraphs.ranker.auto import Choice
from tpugraphs.ranker.baselines import LinearBaseline, MeanEffect, RandomBaseline, random_scores
from tpugraphs.ranker.comparison import Comparison, Trial, compare
from tpugraphs.ranker.ensemble import Ensemble, distill, open_rankers, pseudo_label
from tpugraphs.ranker.filekinds import load_ranker
from tpugraphs.ranker.folds import Fold, cross_validate, leave_out, unseen_configs, unseen_graphs
from tpugraphs.ranker.importance import Importance, permutation_importance
from tpugraphs.ranker.multitask import MultiTaskGaussianProcess
from tpugraphs.ranker.process import GaussianProcess
from tpugraphs.ranker.ranker import Ranker
from tpugraphs.ranker.routed import Nearest, Routed
from tpugraphs.ranker.scorer import ScorerBase
from tpugraphs.ranker.seeds import SeedRuns, train_members, train_seeds
from tpugraphs.recipes import list_recipes

__all__ = [
    "Choice", "Comparison", "Ensemble", "Fold", "GaussianProcess", "Importance", "LinearBaseline",
    "MeanEffect", "MultiTaskGaussianProcess", "Nearest", "RandomBaseline", "Ranker", "Routed", "Scorer",
    "ScorerBase", "SeedRuns", "Trial", "compare", "cross_validate", "distill", "leave_out", "list_recipes",
    "load_ranker", "open_rankers", "permutation_importance", "pseudo_label", "random_scores",
    "train_members", "train_seeds", "unseen_configs", "unseen_graphs",
]  # fmt: skip
