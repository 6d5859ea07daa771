"""Rank the five collections for the rows of one submission."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tpugraphs import _core
from tpugraphs.data.collections import DEFAULT_MAX_BYTES, Split, open_collection
from tpugraphs.data.graph import Graph
from tpugraphs.data.identity import facts
from tpugraphs.distributed.ranks import CommunicatorLike, Ranks
from tpugraphs.errors import ConfigError, DataError
from tpugraphs.evaluation.scorer import Scorer
from tpugraphs.metrics import COLLECTIONS

__all__ = ["Ranked", "counts", "open_splits", "rank_all", "ranker_files"]

_PathLike = str | os.PathLike[str]


class Ranked(NamedTuple):
    """A row of a submission, before it is written.

    Attributes
    ----------
    id : str
        ID of the graph.
    ranking : (n,) int64 or None
        Configs, fastest first; None if they cannot be ranked.
    configs : int
        How many the graph has.
    note : str
        What is unusual about it.
    """

    id: str
    ranking: NDArray[np.int64] | None
    configs: int
    note: str = ""


def ranker_files(folder: _PathLike) -> dict[str, list[str]]:
    """List the ranker files of a folder by the collection in their names.

    A name is the collection with ``-`` or ``_`` for its colons, and may go on after another one:
    ``layout-xla-random.safetensors``, ``tile_xla_seed1.safetensors``. Those of one collection rank together.

    Parameters
    ----------
    folder : path
        Where they are.

    Returns
    -------
    dict of str to list of str
        Paths by collection.

    Raises
    ------
    ConfigError
        A .safetensors file whose name says no collection, or no such files.
    OSError
        The folder cannot be read.
    """
    found: dict[str, list[str]] = {}
    for path in sorted(Path(folder).expanduser().iterdir()):
        if path.suffix != ".safetensors":
            continue
        words = re.split(r"[-_:.]", path.stem.lower())
        fitting = [name for name in COLLECTIONS if words[: name.count(":") + 1] == name.split(":")]
        if not fitting:
            such = f"{COLLECTIONS[0].replace(':', '-')}{path.suffix}"
            todo = f"call it {such} or the like, or give --ranker COLLECTION=FILE for each"
            raise ConfigError(f"{path}: the name says no collection; {todo}")
        found.setdefault(fitting[0], []).append(str(path))
    if not found:
        raise ConfigError(f"{os.fspath(folder)}: no .safetensors files in this folder; train rankers first")
    return found


def open_splits(
    root: _PathLike,
    split: str = "test",
    collections: Iterable[str] = COLLECTIONS,
    exclude: str | Iterable[str] | None = None,
) -> dict[str, Split]:
    """Open one split of all collections that are below `root`, in the order of `collections`.

    Parameters
    ----------
    root : path
        Folder of the data set: see :func:`tpugraphs.open_collection`.
    split : {"train", "valid", "test"}
        Which of the splits.
    collections : iterable of str
        Names of collections.
    exclude : str or iterable of str, optional
        Patterns of graphs to leave out.

    Returns
    -------
    dict of str to Split
        By collection.

    Raises
    ------
    DataError
        None of them is there.
    """
    found: dict[str, Split] = {}
    missing: Exception = ConfigError("no collection is named")
    for name in collections:
        try:
            found[name] = getattr(open_collection(name, root, exclude), split)
        except DataError as error:
            missing = error
    if not found:
        raise missing
    return found


def _count(split: Split, index: int) -> int:
    """Find the number of configs of a graph, in the header of its file if that is an .npz."""
    path = str(split.paths[index])
    fields = ("config_runtime", "node_config_feat", "config_feat")
    if not path.endswith(".npz"):
        return int(split[index].num_configs)
    members, _ = _core.npz_load(path, (), fields, DEFAULT_MAX_BYTES)
    return next((members[field][0][0] for field in fields if field in members and members[field][0]), 0)


def counts(splits: Mapping[str, Split]) -> dict[str, int]:
    """Count the configs of every graph, reading headers of files only.

    Parameters
    ----------
    splits : dict of str to Split
        By collection.

    Returns
    -------
    dict of str to int
        By ID, as :func:`tpugraphs.submission.validate` takes them.
    """
    places = [(name, split, i) for name, split in splits.items() for i in range(len(split))]
    return {f"{name}:{split.names[i]}": _count(split, i) for name, split, i in places}


def rank_all(
    rankers: Mapping[str, Scorer],
    splits: Mapping[str, Split],
    keep: Mapping[str, NDArray[np.int64]] | None = None,
    communicator: CommunicatorLike | None = None,
    **options: Any,
) -> Iterator[Ranked]:
    """Rank the graphs of several collections, one by one.

    Parameters
    ----------
    rankers : mapping of str to scorer
        Collection -> what ranks it, by ``rank(graph, **options)``. Collections without one are left out.
    splits : mapping of str to Split
        As `open_splits` returns them.
    keep : mapping of str to (n,) int64, optional
        ID -> ranking already made: its graph is not read.
    communicator : CommunicatorLike, optional
        Divide the graphs among these ranks. Every rank yields all rows.
    **options
        For ``rank``.

    Yields
    ------
    Ranked
        Without a ranking if there are no configs; in the order of the file where nothing can be configured.

    Raises
    ------
    ConfigError
        A ranker for graphs of another kind.
    DataError
        A graph that cannot be read or ranked.
    """
    for name, ranker in rankers.items():
        kind = getattr(ranker, "kind", None)
        if kind is not None and kind != name.partition(":")[0]:
            todo = f"give one that was trained on {name}"
            raise ConfigError(f"the ranker for {name} ranks {kind} graphs; {todo}")
    rows = [(name, split, i) for name, split in splits.items() if name in rankers for i in range(len(split))]

    def ranked(row: int) -> Ranked:
        name, split, i = rows[row]
        row_id = f"{name}:{split.names[i]}"
        if keep is not None and row_id in keep:
            return Ranked(row_id, keep[row_id], _count(split, i))
        return _rank(row_id, split[i], rankers[name], options)

    yield from map(Ranked._make, Ranks(communicator).each(len(rows), ranked, facts(splits)))


def _rank(row_id: str, graph: Graph, ranker: Any, options: Mapping[str, Any]) -> Ranked:
    count, note = int(graph.num_configs), ""
    if count == 0:
        return Ranked(row_id, None, 0, "has no configurations: no row")
    if count > 1 and not graph.configurable:
        note = "nothing of it can be configured: in the order of the file"
    ranking = np.arange(count) if note or count == 1 else ranker.rank(graph, **options)
    return Ranked(row_id, ranking, count, note)
