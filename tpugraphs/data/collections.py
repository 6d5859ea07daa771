"""Files to graphs: :func:`load`, and the five collections of TpuGraphs."""

from __future__ import annotations

import atexit
import difflib
import gzip
import os
import shutil
import tarfile
import tempfile
import zlib
from collections.abc import Callable, Iterable, Sequence
from fnmatch import fnmatchcase
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple, SupportsIndex, TypedDict, Unpack, overload

from tpugraphs import _core
from tpugraphs.data import corrupt, formats
from tpugraphs.data.arrays import fail, naming
from tpugraphs.data.published import Graph, LayoutGraph, TileGraph
from tpugraphs.data.schema import MEMBER, read_schema
from tpugraphs.errors import ConfigError, DataError
from tpugraphs.names import FOLDERS, MEASURED, SPLITS, collection_of
from tpugraphs.system import absolute, counted, markup
from tpugraphs.system.arguments import is_number

DEFAULT_MAX_BYTES = 8 << 30
_LOOK = 4096  # unpacked bytes that are inspected
_LISTED = 200  # names of graphs in a notebook
OWN = Path(__file__).parents[1] / "measured"  # collections that come with the package
ARCHIVE = "graphs.tar.xz"  # made by release/measured.py

_NODES = ("node_feat", "node_opcode", "edge_index")
_LAYOUT = ("node_config_feat", "node_config_ids")
_TILE = ("config_feat", "config_runtime_normalizers")
_ANY = ("graph_feat", "runtime", "valid", "repeats")  # only in files with a schema
_READ = (MEMBER, *_NODES, "node_splits", "node_config_ids", *_TILE, "config_runtime", *_ANY)
_TABLE = "tg.from_frame({}, ...) makes graphs of a table"
_NO_GRAPHS = {  # ending -> what it is, and what to do with it
    ".safetensors": ("the file of a ranker", "tg.load_ranker(path) opens it"),
    ".csv": ("a table", _TABLE.format("pandas.read_csv(path)")),
    ".parquet": ("a table", _TABLE.format("pandas.read_parquet(path)")),
    ".json": ("JSON", "read it with json.load, then " + _TABLE.format("table")),
}
_GZIP = b"\x1f\x8b"


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
    file, limit = absolute(path), _limit(max_bytes)
    if options and not file.endswith(".pb"):
        raise ConfigError(f"{next(iter(options))}: expected a .pb file, where it can be chosen, found {file}")
    read: Callable[..., Graph] = formats.of(file, formats.READERS) or _read_npz
    return read(file, limit, **options)


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


def _read_npz(file: str, limit: int) -> Graph:
    with naming(file):
        try:
            members, stamp = _core.npz_load(file, _READ, ("node_config_feat",), limit)
        except DataError as error:
            other = _other_kind(file) if error.field == "zip" else None
            if other is None:
                raise
            raise fail("file", "a graph", *other) from None
        return _npz_graph(file, members, stamp)


def _npz_graph(file: str, members: dict[str, Any], stamp: tuple[int, int, int, int]) -> Graph:
    """Make the graph of an npz: of the schema that it holds, or of a published one."""
    if MEMBER in members:
        schema, about = read_schema(members[MEMBER])
        kind: Callable[..., Graph] = partial(Graph, schema=schema, about=about)
        values: tuple[int, ...] | None = schema.digit_values
        needed: tuple[str, ...] = ("node_feat", "edge_index", "runtime")
        members = {name: member for name, member in members.items() if name not in (MEMBER, "node_splits")}
        if wrong := [name for name in ("config_runtime", _TILE[1]) if name in members]:
            raise _structure(wrong[0], "no such array in a file with its own schema", "one")
    else:
        members = {name: member for name, member in members.items() if name not in _ANY}
        layout, tile = ([name for name in names if name in members] for names in (_LAYOUT[::-1], _TILE))
        if layout and tile:
            raise _structure(tile[0], "a layout or a tile graph", f"fields of both ({layout[0]}, {tile[0]})")
        kind, values, needed = TileGraph if tile else LayoutGraph, None, _NODES
        if tile or layout or "config_runtime" in members:
            needed += (*(_TILE if tile else _LAYOUT), "config_runtime")
    for name in needed:
        if name not in members:
            have = ", ".join(sorted(members)) or "none of the schema"
            raise _structure(name, "this array in the file", f"only {have}")
    digits = members.pop("node_config_feat", None)
    if digits is not None:
        shape, in_fortran_order = digits
        if values is None and in_fortran_order:
            raise fail("node_config_feat", "C order", "Fortran order", "save it again in C order")
        members["node_config_feat"] = _core.Digits(shape, path=file, stamp=stamp, values=values)
    return kind(**members, name=Path(file).stem, collection=collection_of(file), path=file)


def _structure(field: str, expected: str, found: str) -> DataError:
    return fail(field, expected, found, "is this a TpuGraphs file?")


# --- collections --------------------------------------------------------------------------------------------


def file_stem(path: str | os.PathLike[str]) -> str:
    """Return the name of a file without its ending, which may be ``.hlo.pb``."""
    name = Path(path).name
    return name.removesuffix(".pb").removesuffix(".hlo") if name.endswith(".pb") else Path(name).stem


def graph_files(
    folder: str | os.PathLike[str], suffixes: Sequence[str] = ("pb", "npz", "tgpack")
) -> list[Path]:
    """Return the files of the graphs in a folder, by name: a graph's pack, or else its .npz, or its .pb."""
    files = [path for suffix in suffixes for path in Path(folder).glob(f"[!.]*.{suffix}")]
    found = {file_stem(path): path for path in files}
    several = {stem.rpartition(".00.")[0] for stem in found}  # .pb files whose kernels have packs
    found = {stem: path for stem, path in found.items() if stem not in several or path.suffix != ".pb"}
    return [found[stem] for stem in sorted(found, key=lambda stem: f"{stem}.npz")]  # one order for both kinds


def files_below(folder: str, suffixes: Sequence[str] = ("pb", "npz", "tgpack")) -> list[str]:
    """Return the files of the graphs in a folder and its subfolders; see `graph_files`."""
    places = sorted(Path(place) for place, _, _ in os.walk(folder))
    return [str(path) for place in places for path in graph_files(place, suffixes)]


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
    files = files_below(str(path)) if below else graph_files(path)
    if not files:
        found = f"no .npz files {'in or below' if below else 'in'} this directory, and no packs"
        todo = "give the one that holds them, or download them with `tpugraphs download`"
        raise DataError.of("folder", "graphs", found, todo, file=str(path))
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
    sources : iterable of Source
        In the order of the split; for example, from `sources` of another split.
    collection : str, optional
        Its name; by default the names of the graphs' collections.
    """

    def __init__(self, sources: Iterable[Source], collection: str | None = None) -> None:
        self.sources = list(sources)
        known = dict.fromkeys(source.collection for source in self.sources if source.collection)
        self.collection = " + ".join(known) if collection is None else collection

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
            return Split(self.sources[index], self.collection)
        if not isinstance(index, SupportsIndex):
            todo = "for a name: split[split.names.index(name)]"
            raise TypeError(f"a split is indexed by numbers and slices, not {index!r}; {todo}")
        return self.sources[index].read()

    def __add__(self, other: Split) -> Split:
        """Join splits, of one collection or several, into a lazy one; a graph in both occurs twice."""
        if not isinstance(other, Split):
            return NotImplemented
        return Split(self.sources + other.sources)

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

        def matches(source: Source) -> bool:
            known = corrupt.KEYWORD in listed and corrupt.reason(source.name, source.collection)
            return bool(known) or any(fnmatchcase(source.name, pattern) for pattern in listed)

        return Split((one for one in self.sources if not matches(one)), self.collection)

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
        paths = graph_files(folder)
        if not paths:
            found = "no .npz files in this folder, and no packs"
            found = found if folder.is_dir() else f"no folder {split!r} in this collection"
            raise DataError.of(split, "graphs", found, _how_to_get(self.name), file=str(folder))
        sources = (
            Source(file_stem(path), self.name, path, partial(_only_graph, path, self.name, self._max_bytes))
            for path in map(str, paths)
        )
        return Split(sources, self.name).exclude(self._exclude)

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


@cache
def _unpacked() -> Path:
    """Make the folder that collections of the package are unpacked into; it is removed when Python ends."""
    folder = tempfile.mkdtemp(prefix="tpugraphs-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


@cache
def _own(name: str) -> str | None:
    """Unpack a collection that comes with the package."""
    archive = OWN / FOLDERS[name] / ARCHIVE
    if name not in MEASURED or not archive.is_file():
        return None
    folder = _unpacked() / FOLDERS[name]
    with tarfile.open(archive) as file:
        file.extraction_filter = lambda entry, _: entry  # nothing to guard against: the archive is our own
        file.extractall(folder)
    return str(folder)


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
    patterns = exclude_patterns(exclude)
    folder = next((str(place) for place in places if place.is_dir()), None) or _own(name)
    if folder is not None:
        return Collection(name, folder, patterns, max_bytes)
    found = f"none in {', '.join(map(str, places))}"
    raise DataError.of(name, f"a folder {FOLDERS[name]}", found, _how_to_get(name), file=str(base))
