# Made by `make tables`.
from tpugraphs.data.schema import *  # noqa: F403
