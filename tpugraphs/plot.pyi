# Made by `make tables`.
from tpugraphs.evaluation.plot import *  # noqa: F403
