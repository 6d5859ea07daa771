"""Whatever ranks configs: rankers, ensembles, rankers of several seeds, baselines."""

from tpugraphs.ranker.baselines import LinearBaseline
from tpugraphs.ranker.ensemble import Ensemble
from tpugraphs.ranker.leaveout import leave_out
from tpugraphs.ranker.ranker import Ranker, list_recipes
from tpugraphs.ranker.seeds import SeedRuns, train_seeds

__all__ = ["Ensemble", "LinearBaseline", "Ranker", "SeedRuns", "leave_out", "list_recipes", "train_seeds"]
