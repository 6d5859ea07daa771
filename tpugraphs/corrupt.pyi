# Made by `make tables`.
from tpugraphs.data.corrupt import *  # noqa: F403
