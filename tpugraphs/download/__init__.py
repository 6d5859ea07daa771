"""Download the published collections, and public times of layers, resuming where a transfer stopped."""

from tpugraphs.download import layer_times
from tpugraphs.download.sources import KAGGLE, OFFICIAL, Archive, archives, commands, run

__all__ = ["KAGGLE", "OFFICIAL", "Archive", "archives", "commands", "layer_times", "run"]
