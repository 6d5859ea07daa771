"""Download the published collections, resuming where a transfer stopped."""

from tpugraphs.download.sources import KAGGLE, OFFICIAL, Archive, archives, commands, run

__all__ = ["KAGGLE", "OFFICIAL", "Archive", "archives", "commands", "run"]
