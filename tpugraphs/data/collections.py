"""Files to graphs: :func:`load`, and the five collections of TpuGraphs."""

from __future__ import annotations

import difflib
import gzip
import os
import zlib
from collections.abc import Callable, Iterable, Sequence
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, SupportsIndex, TypedDict, Unpack, overload

from tpugraphs import _core
from tpugraphs.data import corrupt, formats
from tpugraphs.data.arrays import fail, naming
from tpugraphs.data.published import Graph, LayoutGraph, TileGraph
from tpugraphs.data.schema import MEMBER, read_schema
from tpugraphs.errors import ConfigError, DataError
from tpugraphs.names import COLLECTIONS, FOLDERS, MEASURED, SPLITS, collection_of
from tpugraphs.system import markup
from tpugraphs.system.arguments import is_number
from tpugraphs.system.files import absolute
from tpugraphs.system.words import counted

__all__ = [
    "COLLECTIONS",
    "Collection",
    "Split",
    "load",
    "load_all",
    "open_collection",
]

DEFAULT_MAX_BYTES = 8 << 30
_LOOK = 4096  # unpacked bytes that are inspected
_LISTED = 200  # names of graphs in a notebook

_READ = (
    MEMBER, "node_feat", "node_opcode", "edge_index", "node_splits", "node_config_ids", "config_feat",
    "config_runtime", "config_runtime_normalizers",
)  # fmt: skip
_ANY = ("graph_feat", "runtime", "valid", "repeats")  # only in files with a schema
_TABLE = "tg.from_frame({}, ...) makes graphs of a table"
_NO_GRAPHS = {  # ending -> what it is, and what to do with it
    ".safetensors": ("the file of a ranker", "tg.load_ranker(path) opens it"),
    ".csv": ("a table", _TABLE.format("pandas.read_csv(path)")),
    ".parquet": ("a table", _TABLE.format("pandas.read_parquet(path)")),
    ".json": ("JSON", "read it with json.load, then " + _TABLE.format("table")),
}
_GZIP = b"\x1f\x8b"
_Member = Any  # an array, or for digits their shape and whether they are in Fortran order
_Stamp = tuple[int, int, int, int]


class HloOptions(TypedDict, total=False):
    """Options of a protocol buffer, see :func:`tpugraphs.data.hlo.read`."""

    padding: int
    extra: bool


def load(
    path: str | bytes | os.PathLike[str], max_bytes: int | None = None, **options: Unpack[HloOptions]
) -> Graph:
    """Read one graph from an .npz file, a pack or a protocol buffer of HLO.

    From an npz, everything but the config digits is read and checked. The digits are inflated on first use,
    into one byte each. Members that the schema does not name are ignored. From a pack (``.tgpack``, see
    :mod:`tpugraphs.data.packs`) only the header is read; arrays are checked when first used.

    Parameters
    ----------
    path : path
        File in the TpuGraphs schema (any integer or float dtype that holds the values exactly), one that
        :meth:`Graph.save` wrote with its own schema, a pack, or a program of XLA, measured or not (``.pb``,
        see :mod:`tpugraphs.data.hlo`).
    max_bytes : int, optional
        Refuse a file whose arrays would take more memory than this; 8 GiB by default.
    **options
        For a ``.pb``: see :func:`tpugraphs.data.hlo.read`.

    Returns
    -------
    LayoutGraph, TileGraph or Graph, or list of TileGraph from a TuningData
        A file without configs gives a LayoutGraph with K = 0 and C = 0. Type checkers see one graph;
        :func:`tpugraphs.data.load_all` always returns a list.

    Raises
    ------
    DataError
        When the file is damaged or not in the schema, naming file, field, what was found and what to do.
    ConfigError
        `path` is not a path, or `max_bytes` is not a number of bytes.
    OSError
        When it cannot be opened.
    """
    file = absolute(path)
    limit = _limit(max_bytes)
    read = formats.of(file, formats.READERS)
    if options and not file.endswith(".pb"):
        raise ConfigError(f"{next(iter(options))}: expected a .pb file, where it can be chosen, found {file}")
    if read is not None:
        found: Graph = read(file, limit, **options)
        return found
    with naming(file):
        try:
            members, stamp = _core.npz_load(file, _READ, ("node_config_feat",), limit)
        except DataError as error:
            other = _other_kind(file) if error.field == "zip" else None
            if other is None:
                raise
            raise fail("file", "a graph", *other) from None
        if MEMBER not in members:
            return _published_graph(file, members, stamp)
        left = limit - sum(array.nbytes for name, array in members.items() if name != "node_config_feat")
        more, again = _core.npz_load(file, _ANY, (), max(0, left))
        if again != stamp:
            raise _structure("file", "one file", "another one, written while it was read")
        return _any_graph(file, {**members, **more}, stamp)


def _other_kind(file: str) -> tuple[str, str] | None:
    """Return what a file that is no graph contains, and what to do with it; None if unknown."""
    plain = file.removesuffix(".gz")
    with open(file, "rb") as opened:
        packed = opened.read(2) == _GZIP
    if not packed:
        return formats.of(file, _NO_GRAPHS)
    try:
        with gzip.open(file) as unpacked:
            start = unpacked.read(_LOOK).lstrip()[:1]
    except (OSError, EOFError, zlib.error):
        return None  # damaged
    known = formats.of(plain, _NO_GRAPHS) or (_NO_GRAPHS[".json"] if start in (b"{", b"[") else None)
    if known is None:
        return "an intact gzip file", "unpack it with gunzip, then tg.load what was in it"
    what, todo = known
    todo = todo.replace("json.load", "json.load(gzip.open(path))")
    return f"an intact gzip file of {what.removeprefix('the file of ')}", todo


def load_all(path: str | os.PathLike[str], max_bytes: int | None = None) -> list[Graph]:
    """Read the graphs of a file: one, or the kernels of a TuningData.

    Parameters
    ----------
    path : path
        As for :func:`load`, with the same errors.
    max_bytes : int, optional
        Maximum bytes of the arrays of the file.

    Returns
    -------
    list of Graph
        In the order of the file.
    """
    found: Any = load(path, max_bytes)
    return found if isinstance(found, list) else [found]


def _limit(max_bytes: Any) -> int:
    """Return `max_bytes` in the form the core takes."""
    if max_bytes is None:
        return DEFAULT_MAX_BYTES
    if not is_number(max_bytes, 0):
        raise ConfigError(f"max_bytes: expected a number of bytes, 0 or more, found {max_bytes!r}")
    return int(min(max_bytes, 2**63 - 1))


def _published_graph(file: str, members: dict[str, _Member], stamp: _Stamp) -> Graph:
    layout = [name for name in ("node_config_ids", "node_config_feat") if name in members]
    tile = [name for name in ("config_feat", "config_runtime_normalizers") if name in members]
    if layout and tile:
        raise _structure(tile[0], "a layout or a tile graph", f"fields of both ({layout[0]}, {tile[0]})")
    configs: tuple[str, ...] = ()
    if tile:
        configs = ("config_feat", "config_runtime", "config_runtime_normalizers")
    elif layout or "config_runtime" in members:
        configs = ("node_config_feat", "node_config_ids", "config_runtime")
    for name in ("node_feat", "node_opcode", "edge_index", *configs):
        if name not in members:
            have = ", ".join(sorted(members)) or "none of the schema"
            raise _structure(name, "this array in the file", f"only {have}")
    fields = _fields(file, members)
    if layout:
        fields["node_config_feat"] = _digits(file, members, stamp, _core.SCHEMA["digits"], None)
        if members["node_config_feat"][1]:
            raise fail("node_config_feat", "C order", "Fortran order", "save it again in C order")
    return TileGraph(**fields) if tile else LayoutGraph(**fields)


def _any_graph(file: str, members: dict[str, _Member], stamp: _Stamp) -> Graph:
    """Return the graph of a file that holds its schema."""
    schema, about = read_schema(members.pop(MEMBER))
    members.pop("node_splits", None)
    for name in ("config_runtime", "config_runtime_normalizers"):
        if name in members:
            raise _structure(name, "no such array in a file with a schema of its own", "one")
    for name in ("node_feat", "edge_index", "runtime"):
        if name not in members:
            raise _structure(name, "this array in the file", "none")
    fields = _fields(file, members)
    if "node_config_feat" in members:
        values = tuple(digit.values for digit in schema.digits)
        fields["node_config_feat"] = _digits(file, members, stamp, len(values), values)
    return Graph(**fields, schema=schema, about=about)


def _structure(field: str, expected: str, found: str) -> DataError:
    return fail(field, expected, found, "is this a TpuGraphs file?")


def _fields(file: str, members: dict[str, _Member]) -> dict[str, Any]:
    """Return arguments of a graph: its arrays except the digits, and where it comes from."""
    fields = {name: array for name, array in members.items() if name != "node_config_feat"}
    return {**fields, "name": Path(file).stem, "collection": collection_of(file), "path": file}


def _digits(
    file: str, members: dict[str, _Member], stamp: _Stamp, width: int, values: tuple[int, ...] | None
) -> _core.Digits:
    shape = members["node_config_feat"][0]
    if len(shape) != 3 or shape[2] != width:
        raise _structure("node_config_feat", f"shape (C, K, {width})", f"shape {shape}")
    return _core.Digits((shape[0], shape[1], shape[2]), path=file, stamp=stamp, values=values)


_OWN = Path(__file__).parents[1] / "measured"  # collections that come with the package

# --- collections --------------------------------------------------------------------------------------------


def file_stem(path: str | os.PathLike[str]) -> str:
    """Return the name of a file without its ending, which may be ``.hlo.pb``."""
    name = Path(path).name
    return name.removesuffix(".pb").removesuffix(".hlo") if name.endswith(".pb") else Path(name).stem


def graph_files(folder: str | os.PathLike[str]) -> list[Path]:
    """Return the files of the graphs in a folder, by name: a graph's pack, or else its .npz, or its .pb."""
    files = [path for suffix in ("pb", "npz", "tgpack") for path in Path(folder).glob(f"*.{suffix}")]
    found = {file_stem(path): path for path in files}
    several = {stem.rpartition(".00.")[0] for stem in found}  # .pb files whose kernels have packs
    found = {stem: path for stem, path in found.items() if stem not in several or path.suffix != ".pb"}
    return [found[stem] for stem in sorted(found, key=lambda stem: f"{stem}.npz")]  # one order for both kinds


class Source(NamedTuple):
    """A graph that has not been read: its name, its origin, and the function that reads it."""

    name: str
    collection: str | None
    path: str | None
    read: Callable[[], Graph]


def sources_of(file: str | os.PathLike[str], max_bytes: int | None = None) -> list[Source]:
    """List the graphs of a file.

    A protocol buffer is read for their names; several kernels stay in memory. A file that cannot be read
    counts as a graph whose reader raises the error.
    """
    path = os.fspath(file)
    collection = collection_of(absolute(path))
    try:
        graphs = load_all(path, max_bytes) if path.endswith(".pb") else []
    except (DataError, OSError):
        graphs = []
    if len(graphs) < 2:
        return [Source(file_stem(path), collection, path, partial(load, path, max_bytes))]
    return [source_of(graph, path) for graph in graphs]


def source_of(graph: Graph, path: str | None = None) -> Source:
    """Return a source for a graph in memory."""
    return Source(graph.name, graph.collection, path or graph.path, partial(_same, graph))


def _same(graph: Graph) -> Graph:
    return graph


def sources_in(
    folder: str | os.PathLike[str], max_bytes: int | None = None, below: bool = False
) -> list[Source]:
    """List the graphs of a folder or of one file; with `below`, also those of its subfolders.

    Raises
    ------
    DataError
        A folder without graphs.
    OSError
        There is no such file or folder.
    """
    path = Path(folder)
    if not path.is_dir():
        os.stat(path)  # raises if it is missing, before any work
        return sources_of(path, max_bytes)
    inner = sorted(one for one in path.rglob("*") if one.is_dir()) if below else []
    files = [file for one in (path, *inner) for file in graph_files(one)]
    if not files:
        where = "in or below" if below else "in"
        todo = "give the one that holds them, or download them with `tpugraphs download`"
        text = f"no .npz files {where} this directory, and no packs; {todo}"
        raise DataError(text, file=str(path), expected=".npz files", found="none")
    return [source for file in files for source in sources_of(file, max_bytes)]


def _only_graph(path: str, collection: str, max_bytes: int | None) -> Graph:
    """Read the only graph of a collection's file."""
    graphs = load_all(path, max_bytes)
    if len(graphs) != 1:
        raise _structure("file", "one graph in every file of a collection", counted(len(graphs), "kernel"))
    return graphs[0]._with(collection=collection)


class Split(Sequence[Graph]):
    """Lazy sequence of graphs, read on access and not kept: a split of a collection, or files anywhere.

    Indexing reads one graph; slicing, :meth:`exclude` and ``+`` return another lazy split. `collection` is
    the name of the collection, or several names joined by plus signs.

    Parameters
    ----------
    collection : str
        Its name.
    paths : iterable of path
        Files, in order of name.
    max_bytes : int, optional
        As for :func:`tpugraphs.load`.
    """

    def __init__(
        self, collection: str, paths: Iterable[str | os.PathLike[str]], max_bytes: int | None = None
    ) -> None:
        self.collection = collection
        self.sources = [
            Source(file_stem(path), collection, path, partial(_only_graph, path, collection, max_bytes))
            for path in [os.fspath(path) for path in paths]
        ]

    @classmethod
    def of(cls, sources: Iterable[Source], collection: str | None = None) -> Split:
        """Make a split of graphs from anywhere.

        Parameters
        ----------
        sources : iterable of Source
            In the order of the split; for example, from `sources` of another split.
        collection : str, optional
            Its name; by default the names of the graphs' collections.

        Returns
        -------
        Split
            A lazy one; no graph is read.
        """
        listed = list(sources)
        known = dict.fromkeys(source.collection for source in listed if source.collection)
        split = cls(" + ".join(known) if collection is None else collection, ())
        split.sources = listed
        return split

    @property
    def names(self) -> list[str]:
        """File names without ``.npz`` or ``.tgpack``."""
        return [source.name for source in self.sources]

    @property
    def paths(self) -> list[str]:
        """Files of the graphs; empty text where there is none."""
        return [source.path or "" for source in self.sources]

    def __len__(self) -> int:
        return len(self.sources)

    @overload
    def __getitem__(self, index: int) -> Graph: ...
    @overload
    def __getitem__(self, index: slice) -> Split: ...
    def __getitem__(self, index: int | slice) -> Graph | Split:
        """Return one graph, or a lazy split of several."""
        if isinstance(index, slice):
            return self.of(self.sources[index], self.collection)
        if not isinstance(index, SupportsIndex):
            todo = "for a name: split[split.names.index(name)]"
            raise TypeError(f"a split is indexed by numbers and slices, not {index!r}; {todo}")
        return self.sources[index].read()

    def __add__(self, other: Split) -> Split:
        """Join splits, of one collection or several, into a lazy one; a graph in both occurs twice."""
        if not isinstance(other, Split):
            return NotImplemented
        return self.of(self.sources + other.sources)

    def exclude(self, patterns: str | Iterable[str] | None) -> Split:
        """Make a split without some graphs.

        Parameters
        ----------
        patterns : str or list of str
            Names, with ``*`` and ``?`` as in a shell. ``"known-corrupt"`` stands for the graphs of this
            collection whose published measurements are known to be corrupt (:mod:`tpugraphs.data.corrupt`).

        Returns
        -------
        Split
            A lazy one without these graphs.
        """
        listed = exclude_patterns(patterns)

        def matches(source: Source, pattern: str) -> bool:
            if pattern == corrupt.KEYWORD:
                return corrupt.reason(source.name, source.collection) is not None
            return fnmatchcase(source.name, pattern)

        kept = (one for one in self.sources if not any(matches(one, pattern) for pattern in listed))
        return self.of(kept, self.collection)

    def __repr__(self) -> str:
        return f"Split({self.collection!r}, {counted(len(self), 'graph')})"


def exclude_patterns(patterns: Any) -> list[str]:
    """Return the patterns of ``exclude=``, or None, as a list; ConfigError if they are not strings."""
    if patterns is None:
        return []
    listed = [patterns] if isinstance(patterns, str) or not isinstance(patterns, Iterable) else list(patterns)
    for pattern in listed:
        if not isinstance(pattern, str):
            raise ConfigError(f"exclude: expected names of graphs such as '*unet*', found {pattern!r}")
    return listed


class Collection:
    """One of the five collections: ``.train``, ``.valid`` and ``.test`` are lazy :class:`Split` objects.

    Parameters
    ----------
    name : str
        Such as ``layout:xla:random``.
    folder : str
        Holds the folders ``train``, ``valid`` and ``test``.
    exclude : iterable of str
        Patterns of graphs to leave out.
    max_bytes : int, optional
        As for :func:`tpugraphs.load`.
    """

    def __init__(
        self, name: str, folder: str, exclude: Iterable[str] = (), max_bytes: int | None = None
    ) -> None:
        self.name, self.folder = name, folder
        self._exclude, self._max_bytes = list(exclude), max_bytes

    def _split(self, split: str) -> Split:
        folder = Path(self.folder, split)
        if not folder.is_dir():
            text = f"no folder {split!r} in this collection; {_how_to_get(self.name)}"
            expected = f"a folder {split}"
            raise DataError(text, file=self.folder, field=split, expected=expected, found="none")
        paths = graph_files(folder)
        if not paths:
            text = f"no .npz files in this folder, and no packs; {_how_to_get(self.name)}"
            raise DataError(text, file=str(folder), field=split, expected=".npz files", found="none")
        return Split(self.name, paths, self._max_bytes).exclude(self._exclude)

    @property
    def train(self) -> Split:
        """Graphs to learn from.

        Raises
        ------
        DataError
            No such folder, or no graphs in it.
        """
        return self._split("train")

    @property
    def valid(self) -> Split:
        """Graphs to validate on."""
        return self._split("valid")

    @property
    def test(self) -> Split:
        """Graphs to rank; their runtimes are placeholders."""
        return self._split("test")

    def __repr__(self) -> str:
        return f"Collection({self.name!r}, {self.folder!r})"

    def _repr_html_(self) -> str:
        """Return the splits with the names of their graphs, without reading files."""
        rows, lists = [], []
        for name in SPLITS:
            try:
                split = self._split(name)
            except DataError:
                rows.append((name, "not here", "-"))
                continue
            size = sum(os.path.getsize(path) for path in split.paths if os.path.exists(path))
            rows.append((name, f"{len(split):,}", f"{size / 1e6:,.1f}"))
            lists.append(markup.folded(f"graphs of {name}", markup.items(split.names, _LISTED)))
        facts = {"folder": self.folder, "left out": ", ".join(self._exclude)}
        parts = (markup.table(("split", "graphs", "MB"), rows), *lists)
        return markup.card("Collection", self.name, "", facts, *parts)


def _how_to_get(name: str) -> str:
    if name in MEASURED:
        return "`tpugraphs collect --zoo --out DIR` measures it on this machine"
    return (
        f"`tpugraphs download {name} --root DIR --run` downloads it, without --run it shows the commands, "
        "with --source kaggle those for Kaggle's copy"
    )


def open_collection(
    name: str,
    root: str | os.PathLike[str] = "~/data/tpugraphs",
    exclude: str | Iterable[str] | None = None,
    max_bytes: int | None = None,
) -> Collection:
    """Open a collection that was downloaded or measured, or that comes with the package; nothing is read yet.

    A graph that has a pack (``tpugraphs pack``) is read from it, even if its .npz exists too.

    Parameters
    ----------
    name : str
        ``tile:xla``, ``layout:xla:random``, ``layout:xla:default``, ``layout:nlp:random`` or
        ``layout:nlp:default``, as published; ``options:xla:cpu`` or ``layout:xla:cpu``, measured by
        tpugraphs, which come with the package.
    root : path
        Folder that contains ``npz`` (the published archives) or ``npz_all/npz`` (Kaggle's), or the npz folder
        itself.
    exclude : str or list of str, optional
        Names of graphs to leave out of every split, with ``*`` and ``?`` as in a shell. ``"known-corrupt"``
        stands for those of this collection whose published measurements are known to be corrupt
        (:mod:`tpugraphs.data.corrupt`). It can be combined, as in ``["known-corrupt", "*unet*"]``.
    max_bytes : int, optional
        As for :func:`load`.

    Returns
    -------
    Collection
        With the lazy splits `train`, `valid` and `test`.

    Raises
    ------
    ConfigError
        When there is no collection of this name, or another argument is of the wrong kind.
    DataError
        When it is not below `root`, naming the folders that were looked at.
    """
    if not isinstance(name, str) or name not in FOLDERS:
        near = difflib.get_close_matches(str(name), FOLDERS, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise ConfigError(f"no collection {name!r}; {hint}Collections are {', '.join(FOLDERS)}")
    base = Path(absolute(root))
    _limit(max_bytes)
    places = [base / middle / FOLDERS[name] for middle in ("npz", "npz_all/npz", "")]
    if name in MEASURED:
        places.append(_OWN / FOLDERS[name])
    patterns = exclude_patterns(exclude)
    for place in places:
        if place.is_dir():
            return Collection(name, str(place), patterns, max_bytes)
    text = f"{name} is not here; looked at {', '.join(map(str, places))}; {_how_to_get(name)}"
    expected = f"a folder {FOLDERS[name]}"
    raise DataError(text, file=str(base), field=name, expected=expected, found="none")
