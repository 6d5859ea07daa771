# Made by `make tables`.
from tpugraphs.data.sampletree import *  # noqa: F403
