"""Print the script that lets a shell complete commands, options, choices and names.

example:
  tpugraphs completion bash      in ~/.bashrc: eval "$(tpugraphs completion bash)"
  tpugraphs completion zsh > ~/.zfunc/_tpugraphs   a folder of $fpath
  tpugraphs completion fish > ~/.config/fish/completions/tpugraphs.fish
"""

# The script for the shell runs ``tpugraphs`` itself at every Tab; argcomplete reads the parser then. The
# metavar of a value decides what completes it: RECIPE stands for the name of one. A new option needs nothing
# here, unless its metavar is new and can be completed.

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import tpugraphs as tg
from tpugraphs.cli import common
from tpugraphs.errors import ConfigError
from tpugraphs.names import FOLDERS

SHELLS = ("bash", "zsh", "fish")
ASKED = "_ARGCOMPLETE"  # the variable that the script sets when it asks what to complete


# Metavars -> names that complete them.
NAMES: dict[str, Callable[[], Iterable[str]]] = {
    "COLLECTION": lambda: FOLDERS,
    "DATA": lambda: [*FOLDERS, *(f"sample:{name}" for name in tg.data.list_samples())],
    "DEVICE": lambda: ["this", *(name for name in tg.layertime.DEVICES if " " not in name)],
    "KIND": lambda: tg.layertime.KINDS,
    "PATTERN": lambda: ("known-corrupt",),
    "RECIPE": lambda: tg.list_recipes(),
    "RULE": lambda: ("one-standard-error", "best-3", "all"),
}
# Metavars that files complete, or folders alone.
FILES = ("DATA", "FILE", "FILE.py:FUNCTION", "MODEL", "MODEL2", "PATH", "RANKER", "TABLE")
FOLDERS_ONLY = ("DIR",)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    common.option(parser, "shell", "the shell that reads it", choices=SHELLS)


def run(args: argparse.Namespace) -> None:
    """Print the script."""
    text = _argcomplete().shellcode(["tpugraphs"], shell=args.shell, complete_arguments=["-o", "nospace"])
    common.emit(args, {"shell": args.shell, "script": text})
    common.say(args, text)


def answer(parser: argparse.ArgumentParser, **how: Any) -> None:
    """Print the completions at the cursor for the shell, and end the process."""
    for action in arguments(parser):
        if action.nargs != 0 and not action.choices:
            action.completer = _completer(str(action.metavar).split("|"))  # type: ignore[attr-defined]
    _argcomplete().autocomplete(parser, always_complete_options=False, **how)


def arguments(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """Yield the arguments of a parser and of all commands below it."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                yield from arguments(command)
        else:
            yield action


def _completer(words: list[str]) -> Callable[..., Iterator[str]]:
    """Return argcomplete's completer for an argument with these metavars."""
    completers = _argcomplete().completers

    def values(prefix: str, **_: Any) -> Iterator[str]:
        for word in words:
            yield from NAMES.get(word, tuple)()
        if any(word in FILES for word in words):
            yield from completers.FilesCompleter()(prefix=prefix)
        elif any(word in FOLDERS_ONLY for word in words):
            yield from completers.DirectoriesCompleter()(prefix=prefix)

    return values


def _argcomplete() -> Any:
    try:
        import argcomplete
    except ImportError:
        raise ConfigError("completion needs argcomplete, which is missing: pip install argcomplete") from None
    return argcomplete
