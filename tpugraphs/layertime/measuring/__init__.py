"""Measuring layers on the machine at hand: what is drawn, how it is built and timed, where it is kept."""

from tpugraphs.layertime.measuring.run import FRAMEWORKS, measure
from tpugraphs.layertime.measuring.spaces import SPACES

__all__ = ["FRAMEWORKS", "SPACES", "measure"]
