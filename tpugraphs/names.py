"""Names of the published data set: its collections, their folders, their splits."""

from __future__ import annotations

from pathlib import Path

__all__ = ["COLLECTIONS", "FOLDERS", "LAYOUTS", "MEASURED", "SPLITS", "collection_of"]

# Name of a collection -> its folder below npz/.
COLLECTIONS = {
    "tile:xla": "tile/xla",
    "layout:xla:random": "layout/xla/random",
    "layout:xla:default": "layout/xla/default",
    "layout:nlp:random": "layout/nlp/random",
    "layout:nlp:default": "layout/nlp/default",
}
# Those that tpugraphs measured itself: `tpugraphs collect --zoo` makes them on any machine.
MEASURED = {"options:xla:cpu": "options/xla/cpu", "layout:xla:cpu": "layout/xla/cpu"}
FOLDERS = COLLECTIONS | MEASURED
LAYOUTS = tuple(name for name in COLLECTIONS if name.startswith("layout"))
#: Splits of a collection, which are the names of its folders.
SPLITS = ("train", "valid", "test")


def collection_of(file: str) -> str | None:
    """Find the collection of a file by its folders, as in ``.../layout/xla/random/train/name.npz``.

    Parameters
    ----------
    file : str
        A path.

    Returns
    -------
    str or None
        None if the folders are those of no collection.
    """
    parts = Path(file).parts[:-1]
    for name, folder in FOLDERS.items():
        tail = tuple(folder.split("/"))
        if parts and parts[-1] in SPLITS and parts[-1 - len(tail) : -1] == tail:
            return name
    return None
