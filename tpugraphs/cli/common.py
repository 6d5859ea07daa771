"""What the commands share: naming data on the command line, and output that is text or JSON."""

from __future__ import annotations

import argparse
import ast
import json
import os
import sys
import warnings
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from tpugraphs.errors import ConfigError, DataError
from tpugraphs.names import SPLITS

if TYPE_CHECKING:
    from tpugraphs.data.published import Graph
    from tpugraphs.ranker.ranker import Ranker
    from tpugraphs.training.callbacks import Callback, History
    from tpugraphs.training.fit import Fit

DATA_HELP = (
    "graphs: an .npz file, pack or .pb file of HLO, a directory of them, sample:NAME (an embedded graph), "
    "or COLLECTION[/SPLIT] such as layout:xla:random/valid below --root"
)


def default_root() -> str:
    """Where collections are looked for without --root."""
    return os.environ.get("TPUGRAPHS_ROOT", "~/data/tpugraphs")


def whole(least: int, most: int = 2**31 - 1) -> Callable[[str], int]:
    """Make the `type` of an option that takes a whole number of `least` to `most`."""

    def parse(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"expected a whole number, got {text!r}") from None
        if not least <= value <= most:
            bound = f"least {least}" if value < least else f"most {most}"
            raise argparse.ArgumentTypeError(f"expected at {bound}, got {text}")
        return value

    return parse


def add_data_options(parser: argparse.ArgumentParser) -> None:
    """Add --root, where collections are looked for."""
    parser.add_argument(
        "--root",
        default=default_root(),
        metavar="DIR",
        help="directory of the downloaded collections (default: $TPUGRAPHS_ROOT or ~/data/tpugraphs)",
    )
    parser.add_argument(
        "--exclude",
        action="append",
        default=[],
        metavar="PATTERN",
        help="leave out graphs of that name, as '*unet*'; known-corrupt: those whose published measurements "
        "are known to be corrupt; @FILE: those of `tpugraphs audit --write-exclude FILE`; repeatable",
    )


def add_precision(parser: argparse.ArgumentParser, training: bool = False) -> None:
    """Add --precision, of matrix products."""
    choices = ("f32", "bf16") if training else ("f32", "bf16", "int8")
    parser.add_argument(
        "--precision",
        choices=choices,
        default="f32" if training else None,
        help="of the operands of matrix products (default: "
        + ("%(default)s)" if training else "what the ranker was trained with)"),
    )


def add_rankers(parser: argparse.ArgumentParser, *, optional: bool = False) -> None:
    """Add RANKER, and what belongs to several of them; see `open_rankers`."""
    parser.add_argument(
        "ranker",
        metavar="RANKER",
        nargs="?" if optional else None,
        help="ranker or ensemble file, from `tpugraphs train`; several .safetensors files rank together",
    )
    group = parser.add_argument_group("several rankers, or an ensemble")
    group.add_argument(
        "--normalize",
        choices=("none", "minmax", "rank"),
        help="before the mean of their scores: nothing, scale to 0..1, or take places (default: none, or as "
        "the ensemble was made)",
    )
    group.add_argument("--weights", metavar="W,W,...", help="of the mean, one each (default: equal)")
    parser.add_argument(
        "--tta",
        type=whole(0, 10_000),
        default=0,
        metavar="K",
        help="mean over K random orders of the configurations, for recipes with attention across them",
    )


def open_rankers(args: argparse.Namespace) -> Any:
    """Read RANKER and the ranker files that follow it, which are taken from args.data.

    Raises
    ------
    ConfigError
        No graphs are left, or weights that are not numbers.
    """
    from tpugraphs.ranker.ensemble import open_rankers

    paths = [args.ranker]
    while args.data and args.data[0].endswith(".safetensors"):
        paths.append(args.data.pop(0))
    if not args.data:
        raise ConfigError("give the graphs after the rankers, for example layout:xla:random")
    weights = None
    if args.weights is not None:
        try:
            weights = [float(weight) for weight in args.weights.split(",")]
        except ValueError:
            raise ConfigError(f"--weights {args.weights}: expected numbers, for example 2,1,1") from None
    return open_rankers(paths, weights, args.normalize)


class Graphs(Sequence["Graph"]):
    """Graphs that are read when asked for, and not kept."""

    def __init__(self, readers: Iterable[tuple[str, Callable[[], Graph]]]) -> None:
        self._readers = list(readers)

    @property
    def names(self) -> list[str]:
        """Names, without reading."""
        return [name for name, _ in self._readers]

    def every(self, n: int) -> tuple[Graphs, Graphs]:
        """Split off every `n`-th graph: the others, and these."""
        chosen = self._readers[n - 1 :: n]
        return Graphs(reader for reader in self._readers if reader not in chosen), Graphs(chosen)

    def __len__(self) -> int:
        return len(self._readers)

    @overload
    def __getitem__(self, index: int) -> Graph: ...
    @overload
    def __getitem__(self, index: slice) -> Graphs: ...
    def __getitem__(self, index: int | slice) -> Graph | Graphs:
        if isinstance(index, slice):
            return Graphs(self._readers[index])
        return self._readers[index][1]()


def open_graphs(specs: Sequence[str], args: argparse.Namespace, split: str) -> Graphs:
    """Graphs named on the command line; collections without a split mean `split`.

    Raises
    ------
    ConfigError
        A name that is not a file, directory, sample or collection.
    DataError
        A directory without .npz files, or everything excluded.
    """
    from tpugraphs.data.collections import excluded

    readers = [reader for spec in specs for reader in _readers(spec, args.root, split)]
    exclude = patterns(args.exclude)
    kept = [(name, read) for name, of, read in readers if not excluded(name, of, exclude)]
    if not kept:
        raise DataError(f"no graphs are left of {', '.join(specs)}; --exclude leaves out all of them")
    return Graphs(kept)


def _readers(spec: str, root: str, split: str) -> list[tuple[str, str | None, Callable[[], Graph]]]:
    """Name, collection if it is known, and reader of every graph that `spec` names."""
    from tpugraphs import data

    if spec.startswith("sample:"):
        name = spec.removeprefix("sample:")
        data.sample_info(name)  # refuses an unknown name now, not in the middle of the work
        return [(name, None, lambda: data.sample(name))]
    collection, _, part = spec.partition("/")
    if collection in data.COLLECTIONS:
        if part not in ("", *SPLITS):
            raise ConfigError(f"{spec}: no split {part!r}; splits are {', '.join(SPLITS)}")
        graphs = getattr(data.open_collection(collection, root=root), part or split)
        return [
            (name, collection, lambda i=i: graphs[i])  # type: ignore[misc]
            for i, name in enumerate(graphs.names)
        ]
    path = Path(spec).expanduser()
    if path.is_dir():
        files = data.collections.graph_files(path)
        if not files:
            raise DataError(
                "no .npz files in this directory, and no packs; give the one that holds them, or COLLECTION "
                "with --root",
                file=spec,
                expected=".npz files",
                found="none",
            )
        of = data.collection_of(str(files[0].absolute()))
        return [(name, of, read) for file in files for name, read in data.collections.graphs_in(file)]
    if not path.exists() and ":" in spec and os.sep not in spec:
        raise ConfigError(
            f"{spec}: no such file, and no collection or sample of that name; "
            f"collections are {', '.join(data.COLLECTIONS)}; samples are sample:NAME with NAME one of "
            f"{', '.join(data.list_samples()[:3])}, ..."
        )
    if not path.exists():
        raise FileNotFoundError(2, os.strerror(2), spec)
    of = data.collection_of(str(path.absolute()))
    return [(name, of, read) for name, read in data.collections.graphs_in(path)]


def patterns(exclude: Sequence[str]) -> list[str]:
    """Patterns of --exclude; ``@FILE`` stands for the lines of a file, comments left out."""
    found = []
    for pattern in exclude:
        if not pattern.startswith("@"):
            found.append(pattern)
            continue
        try:
            lines = Path(pattern[1:]).expanduser().read_text(encoding="utf-8").splitlines()
        except UnicodeDecodeError as error:
            raise ConfigError(
                f"--exclude {pattern}: expected UTF-8 text, found byte {error.object[error.start]:#04x} at "
                f"{error.start}; save the file as UTF-8"
            ) from None
        found += [line.strip() for line in lines if line.strip() and not line.startswith("#")]
    return found


def parse_fields(assignments: Sequence[str]) -> dict[str, Any]:
    """Values of ``--set field=value``: Python literals, or else text.

    Raises
    ------
    ConfigError
        An assignment without ``=``.
    """
    fields: dict[str, Any] = {}
    for assignment in assignments:
        name, equals, text = assignment.partition("=")
        if not equals or not name.isidentifier():
            raise ConfigError(f"--set {assignment}: expected field=value, for example --set dropout=0.1")
        if any("\ud800" <= letter <= "\udfff" for letter in text):
            raise ConfigError(f"--set {assignment!r}: expected UTF-8 text")
        try:
            fields[name] = ast.literal_eval(text)
            repr(fields[name])  # a number of thousands of digits cannot be shown
        except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
            fields[name] = {"true": True, "false": False}.get(text.lower(), text)
    return fields


def say(args: argparse.Namespace, text: str = "") -> None:
    """Print text for people, unless the result is asked for as JSON."""
    if not args.json:
        print(text, flush=True)


def emit(args: argparse.Namespace, result: Any) -> None:
    """Print the result as JSON, if asked for."""
    if args.json:
        print(json.dumps(result, indent=2, ensure_ascii=False))


def show_progress(args: argparse.Namespace) -> bool:
    """Tell whether progress bars (on stderr) are wanted."""
    return not args.json and sys.stderr.isatty()


def fit(args: argparse.Namespace, ranker: Ranker, train: Any, **options: Any) -> History:
    """Fit a ranker, with a progress bar in a terminal and a line per evaluation in a log.

    Raises
    ------
    KeyboardInterrupt
        After Ctrl-C, with one line that says how to resume.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="interrupted after step")  # told below
        history = ranker.fit(train, callbacks=[progress_lines(args)], verbose=show_progress(args), **options)
    tell_skipped(args, history)
    if history.interrupted:
        hint = going_on(options.get("checkpoint_dir"))
        raise KeyboardInterrupt(f"after step {len(history.loss)} of {history.total_steps}; {hint}")
    return history


def tell_skipped(args: argparse.Namespace, history: History | None) -> None:
    """Warn of graphs that were left out."""
    for name, why in history.skipped.items() if history is not None else ():
        print(f"tpugraphs {args.command}: warning: {name} is left out: {why}", file=sys.stderr)


def going_on(folder: str | None) -> str:
    """Say how to resume after Ctrl-C."""
    return f"the same command resumes from {folder}" if folder else "nothing is saved"


def progress_lines(args: argparse.Namespace, who: str = "") -> Callback:
    """Make the callback for logs. In a terminal it is there too, silent: a checkpoint knows its callbacks."""
    from tpugraphs.training.callbacks import Callback

    class ProgressLines(Callback):
        def on_evaluate(self, fit: Fit, metric: float) -> None:
            if not args.json and not sys.stderr.isatty():
                text = (
                    f"{who}step {fit.step:,} of {fit.total:,}: {fit.history.metric} {metric:.4f}, "
                    f"{fit.history.seconds:.0f} s"
                )
                print(text, file=sys.stderr, flush=True)

    return ProgressLines()


def output_directory(path: str) -> Path:
    """Make a directory for output and return it."""
    folder = Path(path).expanduser()
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def check_writable(path: str | None) -> None:
    """Refuse an output file whose directory does not exist, before the long work rather than after it."""
    if path is None:
        return
    folder = Path(path).expanduser().parent
    if not folder.is_dir():
        raise FileNotFoundError(2, "no such directory to write to", str(folder))
    if Path(path).expanduser().is_dir():
        raise IsADirectoryError(21, "is a directory", path)
    if not os.access(folder, os.W_OK):
        raise PermissionError(13, os.strerror(13), str(folder))
