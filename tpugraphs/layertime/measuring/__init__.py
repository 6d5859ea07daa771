"""Measurements of layers on this machine: drawing, building, timing, and the file of the results."""

from tpugraphs.layertime.measuring.run import FRAMEWORKS, measure

__all__ = ["FRAMEWORKS", "measure"]
