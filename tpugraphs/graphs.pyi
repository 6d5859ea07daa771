# Made by `make tables`.
from tpugraphs.data.published import *  # noqa: F403
