# Made by `make tables`.
from tpugraphs.data.packs import *  # noqa: F403
