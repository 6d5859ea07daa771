# Made by `make tables`.
from tpugraphs.data.auditing import *  # noqa: F403
