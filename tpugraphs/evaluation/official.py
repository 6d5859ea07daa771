"""The published validation protocol of TpuGraphs: which configs of which valid graphs are judged, and how.

Layout collections are judged on 1,000 fixed configs of every valid graph (Kendall tau, slowdown of the best
of the first 1, 10 and 100), the tile collection on all configs of all valid graphs (error of the best of the
first 1, 5 and 10, ordered pairs). The lists are those of the tpu_graphs repository. They are looked for in
the data folder and downloaded if they are not there, as samples are (:func:`tpugraphs.sample`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from tpugraphs.data.graph import Graph
from tpugraphs.data.samples import PublicFile, get
from tpugraphs.errors import ConfigError, DataError, check_graph
from tpugraphs.names import LAYOUTS, kind_named
from tpugraphs.system.words import counted

__all__ = ["LAYOUT_METRICS", "TILE_METRICS", "Coverage", "indices", "rows_of"]

#: Metrics of the published evaluation of layouts.
LAYOUT_METRICS = kind_named("layout").official
#: Metrics of the published evaluation of tiles.
TILE_METRICS = kind_named("tile").official

_REVISION = {
    "repository": "google-research-datasets/tpu_graphs",
    "commit": "ddd187c583cd3b0c72fb5adada905ad7b7532794",
    "folder": "tpu_graphs/baselines/layout/eval_indices/",
}
_FILES = {
    "layout:" + name.replace("_", ":"): PublicFile(f"{name}.json", sha256, size=size, **_REVISION)
    for name, sha256, size in (
        ("xla_random", "418f8a2fe24e53f17a3a55b33019391a1dc549fc57c999dfd5015f3b2c962b81", 40_969),
        ("xla_default", "3ff4f7c4ec498a3e788852742b960d1d332d9025c76d010b613bed8705ed3687", 41_845),
        ("nlp_random", "ddff5ace8cf6137ba9a1f7c02cbaa4bb22dbd57a56b740adeab37a9a84b39b1c", 136_562),
        ("nlp_default", "f8aa14f161cbb5f040c410d80e4cc5ed36921c54a8fc26fd581fc8a30b8566e2", 136_655),
    )
}


@cache
def _lists(collection: str) -> dict[str, NDArray[np.int64]]:
    lists = json.loads(get(_FILES[collection]).read_text(encoding="utf-8"))
    rows = np.array(list(lists.values()), np.int64)
    rows.flags.writeable = False
    return dict(zip(lists, rows, strict=True))


def indices(collection: str) -> dict[str, NDArray[np.int64]]:
    """Return the configs that the published evaluation judges, by valid graph of a layout collection.

    Parameters
    ----------
    collection : str
        ``layout:xla:random``, ``layout:xla:default``, ``layout:nlp:random`` or ``layout:nlp:default``.

    Returns
    -------
    dict of str to (1000,) int64
        Row numbers in the published valid file, read-only, in the published order. The list of
        ``unet_3d.4x4.bf16`` in ``layout:xla:random`` is kept as it is: the file has 481 configs, so they come
        several times.

    Raises
    ------
    ConfigError
        Not a layout collection. All configs of ``tile:xla`` are judged, so it has no list.
    DataError
        The list is not in the data folder and cannot be downloaded.
    """
    if collection not in LAYOUTS:
        why = "all configs of tile graphs are judged, " if str(collection).startswith("tile") else ""
        there = f"{why}lists are there for {', '.join(LAYOUTS)}"
        raise ConfigError(f"no list of configs for {collection!r}: {there}")
    return dict(_lists(collection))


def rows_of(graph: Graph) -> NDArray[np.int64] | None:
    """Return the configs of a graph that the published evaluation judges.

    Parameters
    ----------
    graph : Graph
        With its collection.

    Returns
    -------
    (n,) int64 or None
        Row numbers; None if the graph is not listed.

    Raises
    ------
    DataError
        The collection of the graph is unknown, the list names a config that the graph does not have, or it
        is not in the data folder and cannot be downloaded.
    """
    check_graph("graph", graph)
    count = int(graph.num_configs)
    if graph.kind == "tile":
        return np.arange(count)
    name, collection = str(graph.name), graph.collection
    if collection not in LAYOUTS:
        found = f"{collection}, so it is not known which configs the published evaluation judges"
        todo = "open the graph with tg.open_collection, or use g.replace(collection=...)"
        expected = f"one of {', '.join(LAYOUTS)}"
        raise DataError.of("collection", expected, found, todo, file=graph.path or name)
    rows = _lists(collection).get(name)
    last = -1 if rows is None else int(rows.max())
    if last >= count:
        judges = f"as the published evaluation of {collection} judges config {last} of this graph"
        expected = f"at least {counted(last + 1, 'config')}, {judges}"
        todo = "this is not the published valid file: download it again, or evaluate without published lists"
        raise DataError.of("config_runtime", expected, str(count), todo, file=graph.path or name)
    return rows


@dataclass(frozen=True)
class Coverage:
    """Differences between the published evaluation and the given graphs.

    Attributes
    ----------
    not_listed : tuple of str
        Given layout graphs that the published evaluation does not judge, as ``collection:name``.
    not_given : tuple of str
        Graphs that it judges and that were not given, in the collections of the given graphs.
    """

    not_listed: tuple[str, ...]
    not_given: tuple[str, ...]

    @classmethod
    def of(cls, judged: Iterable[tuple[str, str]], not_listed: Iterable[str]) -> Coverage:
        """Compare what was judged with the published lists.

        Parameters
        ----------
        judged : iterable of (str, str)
            Collection and graph.
        not_listed : iterable of str
            Graphs that are not in the lists.

        Returns
        -------
        Coverage
            What is missing on either side.
        """
        there = set(judged)
        seen = sorted({collection for collection, _ in there if collection in LAYOUTS})
        missing = [f"{c}:{name}" for c in seen for name in _lists(c) if (c, name) not in there]
        return cls(tuple(dict.fromkeys(not_listed)), tuple(missing))

    def notes(self) -> list[str]:
        """Return what was judged, one sentence each."""
        notes = ["Judged as published: 1,000 fixed configs per layout graph, all configs of tile graphs."]
        left_out = ("Left out, as not in the published lists", self.not_listed)
        missing = ("In the published lists, but not given", self.not_given)
        return notes + [f"{what}: {', '.join(graphs)}." for what, graphs in (left_out, missing) if graphs]

    def to_dict(self) -> dict[str, list[str]]:
        """Return plain values, for JSON."""
        return {name: list(graphs) for name, graphs in vars(self).items()}
