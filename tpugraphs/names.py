"""Names of collections, their folders and splits, of kinds of graphs, and of spaces of configurations."""

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


class Kind(NamedTuple):
    """Properties of a kind of graphs, and of the recipes and scorers for it.

    Attributes
    ----------
    graphs : str
        The graphs, in words.
    recipe : str
        Default recipe of ``tpugraphs train``; empty if there is none.
    any_schema : bool
        Whether each graph has a schema of its own, stored in its file. A recipe then uses the schema of the
        training graphs. Otherwise all graphs of the kind share one schema.
    padding : int or None
        Padding of the lists in the node features of published graphs.
    places : int or None
        Maximum number of configs in a row of a submission; None: all.
    metric : str
        Metric of validation, a key of :data:`tpugraphs.metrics.VALIDATION`.
    judged_by, official : tuple of str
        Metrics of a report, and of one by the published protocol.
    compared_by : tuple of str
        Metrics of a comparison of recipes, which are ordered by the first.
    """

    graphs: str
    recipe: str
    any_schema: bool = False
    padding: int | None = None
    places: int | None = None
    metric: str = "tau"
    judged_by: tuple[str, ...] = (
        *("tau", "tau_order", "opa", "spearman"),
        *("slowdown@1", "slowdown@5", "slowdown@10", "slowdown@100", "ndcg@10"),
    )
    official: tuple[str, ...] = ("tau", "slowdown@1", "slowdown@10", "slowdown@100")
    compared_by: tuple[str, ...] = ("tau", "slowdown@1", "slowdown@5")


_TILE = ("slowdown@1", "slowdown@5", "slowdown@10", "opa")
#: Kinds by name. Recipes and scorers for all graphs are of kind ``"any"``; no graph is.
KINDS = {
    "layout": Kind("layout graphs", recipe="first-layout", padding=-1),
    "tile": Kind(
        "tile graphs", recipe="first-tile", padding=0, places=5, metric="top5", judged_by=_TILE,
        official=_TILE, compared_by=("slowdown@1", "slowdown@5", "opa"),
    ),
    "graph": Kind("graphs of any schema", recipe="graph-config", any_schema=True),
    "any": Kind("graphs of every kind", recipe="", any_schema=True),
}  # fmt: skip


def kind_named(name: str) -> Kind:
    """Return the kind of this name, or that of the graphs in a collection.

    Parameters
    ----------
    name : str
        For example ``"tile"``, or ``"tile:xla"``.

    Returns
    -------
    Kind
        If the name is not known, that of graphs of any schema.
    """
    return KINDS.get(name.partition(":")[0], KINDS["graph"])


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
