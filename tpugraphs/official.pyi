# Made by `make tables`.
from tpugraphs.evaluation.official import *  # noqa: F403
