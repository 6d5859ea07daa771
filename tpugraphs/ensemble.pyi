# Made by `make tables`.
from tpugraphs.ranker.ensemble import *  # noqa: F403
