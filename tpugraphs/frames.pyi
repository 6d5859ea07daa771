# Made by `make tables`.
from tpugraphs.data.frames import *  # noqa: F403
