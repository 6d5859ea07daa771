# Made by `make tables`.
from tpugraphs.training.selection import *  # noqa: F403
