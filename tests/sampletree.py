"""The five collections in small: made-up graphs in the folders of the published data.

With it you can try everything that works on the whole data set: ``open_collection``, the commands, the
notebook of a competitor's day. Nothing in it was measured (:mod:`made`), and the splits of a
layout collection are different configs of one program, so its scores say nothing about real programs.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

import made
import numpy as np

from tpugraphs.data.published import Graph
from tpugraphs.data.splits import split_configs
from tpugraphs.errors import DataError
from tpugraphs.names import COLLECTIONS
from tpugraphs.system.files import absolute

__all__ = ["write"]

# (split, share of the distinct configs, configs at most) of every graph of a layout collection
_LAYOUT_PARTS = (("train", 0.3, 1500), ("train", 0.3, 1500), ("valid", 0.2, 1000), ("test", 0.2, 1000))
# nodes, configurable nodes and configs of the program of a layout collection
_LAYOUTS = {"xla": (372, 26, 6000), "nlp": (1500, 62, 600)}
_KERNEL_CONFIGS = (61, 579, 16, 16, 16, 23, 10, 11, 5, 3)
_TILE_SPLITS = ("train", "train", "valid", "train", "test")  # in turn


def _graph(name: str) -> Graph:
    """Return the graph that the collections are made of: ``xla``, ``nlp`` or ``tile_NN``."""
    if name in _LAYOUTS:
        nodes, configurable, configs = _LAYOUTS[name]
        return made.program(0, nodes, configurable, configs, name=name)
    number = int(name.removeprefix("tile_"))
    return made.kernel(number, 8 + number, _KERNEL_CONFIGS[number], name=name)


def write(root: str | os.PathLike[str]) -> Path:
    """Write made-up graphs as the five collections, for :func:`tpugraphs.open_collection`.

    Layout: a program for `xla` and one for `nlp`; their configs are shared out to two training graphs, one
    validation and one test graph. Tile: ten kernels, one in five for validation and one for test. Test files
    have hashes for names and placeholders for runtimes, as published.

    Parameters
    ----------
    root : path
        A new or empty folder.

    Returns
    -------
    Path
        The folder.

    Raises
    ------
    DataError
        When there is something in the folder already.
    OSError
        When it cannot be written.
    """
    folder = Path(absolute(root))
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        text = "expected a new or empty folder, found something in it; choose another one"
        expected, found = "a new or empty folder", "something in it"
        raise DataError(text, file=str(folder), field="root", expected=expected, found=found)
    for number, (collection, below) in enumerate(COLLECTIONS.items()):
        kind, source, *_ = collection.split(":")
        graphs = _tiles() if kind == "tile" else _layouts(source, number)
        for split, graph in graphs:
            place = folder / "npz" / below / split
            place.mkdir(parents=True, exist_ok=True)
            if split == "test":
                name = hashlib.blake2b(f"{collection}/{graph.name}".encode(), digest_size=16).hexdigest()
                graph = graph.replace(name=name, config_runtime=np.zeros(graph.num_configs, np.int64))
            graph.save(place / f"{graph.name}.npz")
    return folder


def _layouts(source: str, seed: int) -> Iterator[tuple[str, Graph]]:
    graph = _graph(source)
    parts = split_configs(graph, [share for _, share, _ in _LAYOUT_PARTS], seed)
    for i, ((split, _, most), rows) in enumerate(zip(_LAYOUT_PARTS, parts, strict=True)):
        some = np.random.default_rng(seed).permutation(rows)[:most]
        yield split, graph.select(some).replace(name=f"{graph.name}_{i}")


def _tiles() -> Iterator[tuple[str, Graph]]:
    for i in range(len(_KERNEL_CONFIGS)):
        yield _TILE_SPLITS[i % len(_TILE_SPLITS)], _graph(f"tile_{i:02}")
