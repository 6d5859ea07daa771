# Made by `make tables`.
from tpugraphs.network.scoring import *  # noqa: F403
