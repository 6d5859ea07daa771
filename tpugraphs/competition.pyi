# Made by `make tables`.
from tpugraphs.submission.competition import *  # noqa: F403
