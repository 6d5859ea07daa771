"""Names of collections, their folders and splits, and of the spaces that configurations are drawn from."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

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


class SpaceRow(NamedTuple):
    """What a space of configurations varies in a JAX program.

    Attributes
    ----------
    options : bool
        Whether it varies compile options, those of :mod:`tpugraphs.xla.spaces`.
    layouts : str
        Function of :mod:`tpugraphs.xla.relayout` that carries layouts out; empty if they are not varied.
    changes : float
        Mean number of layouts that a candidate changes.
    collection : str
        First part of the name of a measured collection, where it is not the name of the space.
    """

    options: bool = False
    layouts: str = ""
    changes: float = 0.0
    collection: str = ""


#: Spaces of configurations by name. Every constraint makes another program; many transpositions are the same
#: to the compiler, so that candidates change more of them.
SPACES = {
    "options": SpaceRow(options=True),
    "transpose": SpaceRow(layouts="transposed", changes=4.0),
    "constraint": SpaceRow(layouts="constrained", changes=2.5, collection="layout"),
    "combined": SpaceRow(options=True, layouts="transposed", changes=4.0),
}


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
