# Made by `make tables`.
from tpugraphs.ranker.leaveout import *  # noqa: F403
