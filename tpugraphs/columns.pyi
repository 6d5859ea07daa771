# Made by `make tables`.
from tpugraphs.data.columns import *  # noqa: F403
