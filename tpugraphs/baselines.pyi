# Made by `make tables`.
from tpugraphs.ranker.baselines import *  # noqa: F403
