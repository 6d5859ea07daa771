"""The command ``tpugraphs``: one file per command.

A file with `run` is a command. Its docstring is the help: what the command does, and examples after an empty
line. `add_arguments` declares the options; it is called for the command that runs only, so it may import slow
modules. `run` returns the exit code, or None for 0. A folder groups commands under one name; its COMMANDS
lists those that come first in the help, in order.

Exit codes: 0 all is well, 1 failed on the data, 2 wrong usage, 130 interrupted.
"""

from __future__ import annotations

import argparse
import difflib
import importlib
import io
import json
import os
import pkgutil
import re
import shlex
import sys
import warnings
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from types import ModuleType
from typing import Any, NoReturn

from tpugraphs.cli import common, completion
from tpugraphs.errors import ConfigError, Error, RecipeError, printable
from tpugraphs.system import progress

__all__ = ["main"]

COMMANDS = (
    "demo download inspect audit pack recipes train compare evaluate predict submit collect tune records "
    "ranks layertime embed clib doctor completion"
).split()


class _Parser(argparse.ArgumentParser):
    """Parser whose errors are one line."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        found, left = super().parse_known_args(args, namespace)
        if left:  # refused here: the parser of the command knows its own options
            options = [name for action in self._actions for name in action.option_strings]
            near = _near(left[0].partition("=")[0], options, 0.8)
            self.error(f"unrecognized arguments: {' '.join(left)}{near}")
        return found, left

    def error(self, message: str) -> NoReturn:
        found = re.search(r"invalid choice: '(.*?)' \(choose from (.*)\)", message)
        if found:
            message += _near(found[1], re.findall(r"[^\s,']+", found[2]))
        self.exit(2, f"{self.prog}: error: {_line(message)}; `{self.prog} --help` shows how\n")


def _near(word: str, names: list[str], cutoff: float = 0.6) -> str:
    """Return a question for the end of an error: the name that was meant; empty if none is near."""
    near = difflib.get_close_matches(word, names, n=1, cutoff=cutoff)
    return f" (did you mean {near[0]}?)" if near else ""


def _parser(words: Iterable[str] | None = None) -> argparse.ArgumentParser:
    """Make the parser, with the options of the commands in a command line; by default of all."""
    from tpugraphs import __version__

    parser = _Parser(
        prog="tpugraphs",
        description="Learn from measured runtimes to rank compiler configurations of a graph, fastest first.",
        epilog="Start with: tpugraphs demo",
    )
    parser.add_argument("--version", action="version", version=f"tpugraphs {__version__}")
    _add_commands(parser, sys.modules[__name__], None if words is None else set(words))
    return parser


def commands(folder: ModuleType) -> dict[str, Any]:
    """Return the commands of a folder by name: files with `run`, and folders."""
    files = [file.name for file in pkgutil.iter_modules(folder.__path__)]
    names = dict.fromkeys([*folder.COMMANDS, *files])
    modules = {name: importlib.import_module(f"{folder.__name__}.{name}") for name in names}
    return {name: one for name, one in modules.items() if hasattr(one, "run") or hasattr(one, "COMMANDS")}


def _add_commands(parser: argparse.ArgumentParser, folder: ModuleType, words: set[str] | None) -> None:
    """Add the commands of a folder to a parser, and those of its folders below them."""
    below = parser.add_subparsers(metavar="COMMAND", required=True, parser_class=_Parser)
    for name, module in commands(folder).items():
        meaning, _, examples = (module.__doc__ or "").strip().partition("\n\n")
        command = below.add_parser(
            name,
            help=meaning[:1].lower() + meaning[1:].rstrip("."),
            description=meaning,
            epilog=examples,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        if words is not None and name not in words:
            continue
        if hasattr(module, "COMMANDS"):
            _add_commands(command, module, words)
            continue
        module.add_arguments(command)
        common.add_output(command)
        streams = {"piped": False, "stdin_taken": False}  # until `common.to_stdout` and `common.stdin`
        command.set_defaults(run=module.run, command=command.prog.partition(" ")[2], **streams)


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command.

    Parameters
    ----------
    argv : sequence of str, optional
        Arguments without the program's name; those of the process if not given.

    Returns
    -------
    int
        Exit code: 0 ok, 1 failed on the data, 2 wrong usage, 130 interrupted.
    """
    for name in ("stdout", "stderr"):  # a closed stream is None: its output is dropped
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w"))
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a name may hold what its encoding lacks
    code = 0
    try:
        code = _run(argv)
        sys.stdout.flush()
        return code
    except OSError as error:  # the disk is full, or the reader of our output has gone, as in `| head`
        # Discard the output that is left, so that it is not flushed again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if code == 0 and not isinstance(error, BrokenPipeError):
            print(f"tpugraphs: error: {_message(error)}", file=sys.stderr)
    return code or 1


def _run(argv: Sequence[str] | None) -> int:
    """Run a command and return its exit code; only errors of writing its output are raised."""
    if completion.ASKED in os.environ:
        completion.answer(_parser(os.environ["COMP_LINE"].split()))
    words = sys.argv[1:] if argv is None else argv
    try:
        args = _parser(words).parse_args(words)
        args.line = shlex.join(["tpugraphs", *words])
    except SystemExit as stop:  # argparse has printed help, version or the error
        return stop.code if isinstance(stop.code, int) else 2
    try:
        if args.threads is not None:
            from tpugraphs import _core

            _core.set_num_threads(args.threads)
        silent = progress.quiet() if args.quiet or args.json else nullcontext()
        with silent, warnings.catch_warnings():
            for shown_elsewhere in ("interrupted after (step|.* measurement)", ".* left out of the fit"):
                warnings.filterwarnings("ignore", message=shown_elsewhere)
            return args.run(args) or 0
    except KeyboardInterrupt as stop:
        print("\n" + _line(f"tpugraphs {args.command}: interrupted {stop}"), file=sys.stderr)
        return 130
    except BrokenPipeError:
        raise
    except (Error, OSError, MemoryError) as error:
        if args.debug:
            raise
        message = _message(error)
        if args.json:
            fields = common.error_fields(error)
            print(json.dumps({"error": message, "kind": type(error).__name__, **fields}))
        common.warn(args, message, "error")
        return 2 if isinstance(error, ConfigError | RecipeError) else 1


_LONGEST = 2000  # characters of a message

_REMEDIES: dict[type[OSError], str] = {
    FileNotFoundError: "check the path",
    IsADirectoryError: "give a file, not a directory",
    NotADirectoryError: "check the path",
    PermissionError: "check the permissions, or write somewhere else",
    FileExistsError: "choose another name",
}


def _message(error: BaseException) -> str:
    if isinstance(error, MemoryError):
        return _line(str(error)) or "not enough memory; use fewer or smaller graphs"
    if isinstance(error, OSError) and error.filename is not None:
        remedy = "".join(f"; {text}" for kind, text in _REMEDIES.items() if isinstance(error, kind))
        return _line(f"{os.fsdecode(error.filename)}: {error.strerror or type(error).__name__}{remedy}")
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return _line(text) or type(error).__name__


def _line(text: str) -> str:
    """Make one line of a message, without the middle if it is very long."""
    text = printable(" ".join(text.split()))
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 300]} ... {text[-300:]}"
