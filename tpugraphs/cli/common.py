"""What the commands share: naming data on the command line, and output that is text or JSON."""

from __future__ import annotations

import argparse
import ast
import io
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any, TextIO

import tpugraphs as tg
from tpugraphs.errors import ConfigError, DataError, printable
from tpugraphs.names import FOLDERS, SPLITS
from tpugraphs.system import atomic_write, json_text, progress, read_whole

DATA_HELP = (
    "graphs: an .npz file, pack or .pb file of HLO, a directory of them, sample:NAME (a measured graph), "
    "or COLLECTION[/SPLIT] such as layout:xla:random/valid below --root"
)
Args = argparse.Namespace
Parser = argparse.ArgumentParser


def default_root() -> str:
    """Return the folder where collections are looked for without --root."""
    return os.environ.get("TPUGRAPHS_ROOT", "~/data/tpugraphs")


def whole(least: int, most: int = 2**31 - 1) -> Callable[[str], int]:
    """Make the `type` of an option that takes a whole number from `least` to `most`."""

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


# Arguments for argparse of options that several commands have, by usage.
SHARED: dict[str, dict[str, Any]] = {
    "--exclude PATTERN ...": {
        "help": "leave out graphs of that name, as '*unet*'; known-corrupt: those whose published "
        "measurements are known to be corrupt; @FILE: those of `tpugraphs audit --write-exclude FILE`, "
        "@- reads them"
    },
    "--executor WORKERS": {
        "help": "measure in workers: a number of processes here, mpi, dask, or dask:ADDRESS"
    },
    "--kind KIND": {"help": "kind of the layers (default: the one in the names of the files)"},
    "model MODEL": {
        "help": "from `tpugraphs layertime fit`, or one of the package: a set and a kind, such as "
        "pytorch-cpu/dense"
    },
    "--precision": {
        "help": "of the operands of matrix products (default: what the ranker was trained with)",
        "choices": ("f32", "bf16", "int8"),
    },
    "--preset": {"help": "sized for a CPU, or as published", "choices": ("cpu", "full"), "default": "cpu"},
    "--seed": {"help": "of all that is random", "type": whole(0, 2**63 - 1), "default": 0},
    "--tta K": {
        "help": "mean over K random orders of the configurations, for recipes with attention across them",
        "type": whole(0, 10_000),
        "default": 0,
    },
}


def option(to: Any, usage: str, meaning: str = "", **how: Any) -> None:
    """Add an option to a parser or group, from its usage: ``"--out FILE"``; ``"--all"`` is a switch.

    ``"--only NAME ..."`` may be given several times. What the call leaves out of an option that several
    commands have stands in SHARED. The help shows a default, unless `meaning` says what happens without the
    option.
    """
    how = {**SHARED.get(usage, {}), **how}
    shared = how.pop("help", "")
    meaning = meaning or shared
    name, metavar, several = (*usage.split(" "), "", "")[:3]
    if several:
        how |= {"action": "append", "default": []}
        meaning += "; repeatable"
    if metavar:
        how["metavar"] = metavar
    elif not how:
        how["action"] = "store_true"
    if how.get("default") not in (None, []) and "default" not in meaning:
        meaning += " (default: %(default)s)"
    action = to.add_argument(name, help=meaning, **how)
    if action.nargs != 0 and not action.choices:
        action.completer = partial(complete, metavar.split("|"))


# The metavar of a value decides what completes it at the Tab key: a key of NAMES stands for these names, a
# word of FILES for a file, DIR for a folder. A new option needs nothing here, unless its metavar is new and
# can be completed.
NAMES: dict[str, Callable[[], Iterable[str]]] = {
    "COLLECTION": lambda: FOLDERS,
    "DATA": lambda: [*FOLDERS, *(f"sample:{name}" for name in tg.data.list_samples())],
    "DEVICE": lambda: ["this", *(name for name in tg.layertime.DEVICES if " " not in name)],
    "KIND": lambda: tg.layertime.KINDS,
    "PATTERN": lambda: ("known-corrupt",),
    "RECIPE": lambda: tg.list_recipes(),
    "RULE": lambda: ("one-standard-error", "best-3", "all"),
}
FILES = ("DATA", "FILE", "FILE.py:FUNCTION", "MODEL", "MODEL2", "PATH", "RANKER", "TABLE")


def complete(words: Sequence[str], prefix: str, **_: Any) -> Iterator[str]:
    """Yield what completes the value of an option that has these metavars, for argcomplete."""
    from argcomplete import completers

    for word in words:
        yield from NAMES.get(word, tuple)()
    if not set(FILES).isdisjoint(words):
        yield from completers.FilesCompleter()(prefix=prefix)
    elif "DIR" in words:
        yield from completers.DirectoriesCompleter()(prefix=prefix)


def add_output(parser: Parser) -> None:
    """Add the options of every command."""
    option(parser, "--json", "print the result as JSON, and nothing else")
    option(parser, "--quiet", "print results, warnings and errors only: no progress, no remarks")
    option(parser, "--threads N", "use N threads (default: all allowed)", type=whole(1, 4096))
    option(parser, "--debug", "show the traceback of an error")


def add_data(parser: Parser, split: str = "", name: str = "data", meaning: str = "", **how: Any) -> None:
    """Add the graphs to work on, where collections are looked for, and which graphs are left out."""
    meaning = meaning or DATA_HELP + (f"; a collection means its {split} split" if split else "")
    option(parser, f"{name} DATA", meaning, **{"nargs": "+", **how})
    add_root(parser, "directory of the downloaded collections")
    option(parser, "--exclude PATTERN ...")


def add_root(parser: Parser, meaning: str) -> None:
    """Add --root."""
    meaning += " (default: $TPUGRAPHS_ROOT or ~/data/tpugraphs)"
    option(parser, "--root DIR", meaning, default=default_root())


def executor(args: Args) -> AbstractContextManager[tg.distributed.ExecutorLike | None]:
    """Open the executor that --executor names, if it is given."""
    return nullcontext() if args.executor is None else tg.distributed.open_executor(args.executor)


def add_normalize(to: Any, default: str) -> None:
    """Add --normalize."""
    from tpugraphs.ranker.ensemble import NORMALIZE

    meaning = f"leave scores, scale them to 0..1 or take places, before their mean (default: {default})"
    option(to, "--normalize", meaning, choices=NORMALIZE)


def add_rankers(parser: Parser, *, usage: str = "RANKER", optional: bool = False) -> None:
    """Declare RANKER, and the options for several rankers; see `open_rankers`."""
    meaning = "ranker or ensemble file, from `tpugraphs train`; several .safetensors files rank together"
    option(parser, f"ranker {usage}", meaning, nargs="?" if optional else None)
    group = parser.add_argument_group("several rankers, or an ensemble")
    add_normalize(group, "none, or as the ensemble was made")
    option(group, "--weights W,W,...", "of the mean, one each (default: equal)")
    option(parser, "--tta K")


def join_ranks(args: Args) -> tg.distributed.CommunicatorLike | None:
    """Return the communicator of this process, if it is one of several ranks.

    Only the first of them speaks, and writes files: `args.first` is False on the others.
    """
    comm = tg.distributed.communicator()
    args.first = comm is None or comm.rank == 0
    if not args.first:
        args.quiet, args.json = True, False
        progress.hush()
        sys.stdout = open(os.devnull, "w", encoding="utf-8")
    return comm


def agree_on_files(ranks: tg.distributed.CommunicatorLike | None, paths: Iterable[str]) -> None:
    """Raise ConfigError unless all ranks have the same ranker files, version and instruction set."""
    if ranks is not None:
        one = tg.distributed.ranks.Ranks(ranks)
        one.agree_on_bits(lambda: {"rankers": [*map(tg.data.identity.checksum, paths)]})


def open_rankers(args: Args, ranks: tg.distributed.CommunicatorLike | None = None) -> Any:
    """Read RANKER and the ranker files that follow it, which are taken from args.data; the same on all ranks.

    Raises
    ------
    ConfigError
        No graphs are left, or weights that are not numbers.
    """
    paths = [args.ranker]
    while args.data and args.data[0].endswith(".safetensors"):
        paths.append(args.data.pop(0))
    if not args.data:
        raise ConfigError("give the graphs to rank after the rankers, for example layout:xla:random")
    try:
        weights = None if args.weights is None else [float(weight) for weight in args.weights.split(",")]
    except ValueError:
        raise ConfigError(f"--weights {args.weights}: expected numbers, for example 2,1,1") from None
    agree_on_files(ranks, paths)
    return tg.ranker.open_rankers(paths, weights, args.normalize)


def open_graphs(specs: Sequence[str], args: Args, split: str) -> tg.data.Split:
    """Open the graphs named on the command line; collections without a split mean `split`.

    Raises
    ------
    ConfigError
        A name that is not a file, directory, sample or collection.
    DataError
        A directory without .npz files, or everything excluded.
    """
    named = [source for spec in specs for source in _sources(spec, args.root, split)]
    kept = tg.data.Split(named).exclude(patterns(args))
    if len(kept) == 0:
        raise DataError(f"no graphs are left of {', '.join(specs)}; --exclude leaves out all of them")
    return kept


def collection_split(spec: str) -> tuple[str, str] | None:
    """Return collection and split ("" if none is given) that `spec` names; None if it names something else.

    Raises
    ------
    ConfigError
        Unknown split.
    """
    name, _, split = spec.partition("/")
    if name not in FOLDERS:
        return None
    if split not in ("", *SPLITS):
        raise ConfigError(f"{spec}: no split {split!r}; splits are {', '.join(SPLITS)}")
    return name, split


def _sources(spec: str, root: str, split: str) -> list[tg.data.collections.Source]:
    """List the graphs that `spec` names, without reading them."""
    if spec.startswith("sample:"):
        name = spec.removeprefix("sample:")
        tg.data.sample_info(name)  # refuses an unknown name now, not in the middle of the work
        return [tg.data.collections.Source(name, None, None, partial(tg.data.sample, name))]
    if (found := collection_split(spec)) is not None:
        graphs: tg.data.Split = getattr(tg.data.open_collection(found[0], root=root), found[1] or split)
        return graphs.sources
    path = Path(spec).expanduser()
    if not path.exists() and ":" in spec and os.sep not in spec:
        raise ConfigError(
            f"{spec}: no such file, and no collection or sample of that name; "
            f"collections are {', '.join(FOLDERS)}; samples are sample:NAME with NAME one of "
            f"{', '.join(tg.data.list_samples()[:3])}, ..."
        )
    return tg.data.collections.sources_in(path)


_MOST_PATTERNS = 16 << 20  # bytes of a file of patterns


def patterns(args: Args) -> list[str]:
    """Return the patterns of --exclude; ``@FILE`` stands for the lines of a file, comments left out."""
    if hasattr(args, "excluded"):
        return list(args.excluded)  # standard input is read once
    found = []
    for pattern in args.exclude:
        if not pattern.startswith("@"):
            found.append(pattern)
            continue
        try:
            lines = read_whole(stdin(args, pattern[1:]), _MOST_PATTERNS).decode("utf-8-sig").splitlines()
        except UnicodeDecodeError as error:
            raise ConfigError(
                f"--exclude {pattern}: expected UTF-8 text, found byte {error.object[error.start]:#04x} at "
                f"{error.start}; save the file as UTF-8"
            ) from None
        found += [line.strip() for line in lines if line.strip() and not line.startswith("#")]
    args.excluded = found
    return found


def chosen(args: Args, *names: str) -> dict[str, Any]:
    """Return options by name, for a function that takes them under the same names."""
    return {name: getattr(args, name) for name in names}


def parse_fields(assignments: Sequence[str]) -> dict[str, Any]:
    """Read ``--set field=value``: values are Python literals, or else text.

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


STREAM = "-"  # standard input or output, where a file is expected


def stdin(args: Args, path: Any) -> Any:
    """Return a path as it is, or standard input as an open binary file for ``-``.

    Raises
    ------
    ConfigError
        Standard input is closed, or asked for a second time.
    """
    if path != STREAM:
        return path
    if sys.stdin is None or args.stdin_taken:
        raise ConfigError("-: standard input is closed, or given twice; it can be read once")
    args.stdin_taken = True
    return sys.stdin.buffer


def to_stdout(args: Args, path: str | None) -> bool:
    """Return whether an output is standard output, ``-``; texts for people then go to stderr.

    Raises
    ------
    ConfigError
        The JSON of the result would go there, too.
    OSError
        The output is a file that cannot be written, see `check_writable`.
    """
    if path != STREAM:
        check_writable(path)
        return False
    if args.json:
        raise ConfigError("-: --json prints the result on standard output, too; write to a file")
    args.piped = True
    return True


@contextmanager
def text_file(path: str) -> Iterator[TextIO]:
    """Open a text file that appears when it is complete, or standard output for ``-``."""
    if path == STREAM:
        yield sys.stdout
        return
    with atomic_write(path) as file:
        text = io.TextIOWrapper(file, "utf-8", "backslashreplace", newline="")  # as `main` sets stdout
        yield text
        text.detach()  # flushes, and leaves closing to `atomic_write`


def say(args: Args, text: str = "") -> None:
    """Print a result for people, unless JSON is asked for; on stderr if standard output is piped."""
    if not (args.json or (args.quiet and args.piped)):
        print(printable(text), flush=True, file=sys.stderr if args.piped else sys.stdout)


def remark(args: Args, text: str = "") -> None:
    """Print a remark, such as progress or what to do next, unless --quiet."""
    if not args.quiet:
        say(args, text)


def emit(args: Args, result: Any, text: str | None = None) -> None:
    """Print the result: as JSON if that is asked for, else as `text` for people."""
    if args.json:
        print(json_text(result))
    elif text is not None:
        say(args, text)


def error_fields(error: BaseException) -> dict[str, str | None]:
    """Return file, field, found and expected of an error, None where it has none."""
    return {key: getattr(error, key, None) for key in ("file", "field", "found", "expected")}


def warn(args: Args, text: object, kind: str = "warning") -> None:
    """Print a line on stderr."""
    print(printable(f"tpugraphs {args.command}: {kind}: {text}"), file=sys.stderr)


def fit(args: Args, ranker: tg.Ranker, train: Any, **options: Any) -> tg.training.History:
    """Fit a ranker, with a progress bar in a terminal and a line per evaluation in a log.

    Raises
    ------
    KeyboardInterrupt
        After Ctrl-C, with one line that says how to resume.
    """
    ranker.fit(train, callbacks=[progress_lines(args)], **options)
    history = ranker.history_
    done = f"after step {len(history.loss):,} of {history.total_steps:,}"
    after_fit(args, history, done if history.interrupted else None)
    return history


def after_fit(args: Args, history: tg.training.History, done: str | None) -> None:
    """Warn of graphs that were left out. After Ctrl-C at `done`, raise with how to resume."""
    for name, why in history.skipped.items():
        warn(args, f"{name} is left out: {why}")
    if done is not None:
        folder = getattr(args, "checkpoint_dir", None)
        hint = f"the same command resumes from {folder}" if folder else "nothing is saved"
        raise KeyboardInterrupt(f"{done}; {hint}")


def progress_lines(args: Args, who: str = "") -> tg.training.Callback:
    """Make the callback for logs. In a terminal it is silent, but there: a checkpoint lists its callbacks."""
    from tpugraphs.training.callbacks import progress_line

    class ProgressLines(tg.training.Callback):
        def on_evaluate(self, fit: tg.training.fit.Fit, metric: float) -> None:
            if not (args.json or args.quiet or sys.stderr.isatty()):
                print(printable(f"{who}{progress_line(fit.history)}"), file=sys.stderr, flush=True)

    return ProgressLines()


def check_writable(path: str | None) -> None:
    """Refuse an output file whose directory does not exist, before the long work rather than after it."""
    if path is None or path == STREAM:
        return
    file = Path(path).expanduser()
    if not file.parent.is_dir():
        raise FileNotFoundError(2, "no such directory to write to", str(file.parent))
    if file.is_dir():
        raise IsADirectoryError(21, "is a directory", path)
    if not os.access(file.parent, os.W_OK):
        raise PermissionError(13, os.strerror(13), str(file.parent))
