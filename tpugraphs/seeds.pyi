# Made by `make tables`.
from tpugraphs.ranker.seeds import *  # noqa: F403
