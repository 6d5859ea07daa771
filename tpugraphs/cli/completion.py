"""``tpugraphs completion``: what the Tab key completes in a shell, made from the tree of commands.

What a value may be follows from the word that stands for it in the help: a RECIPE is the name of one. A new
option needs nothing here, unless it has a word of its own, which one of the tables below then says.
"""

from __future__ import annotations

import argparse
import re
import shlex
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import tpugraphs as tg
from tpugraphs import cli
from tpugraphs.cli import common
from tpugraphs.cli.layertime.words import KINDS
from tpugraphs.names import FOLDERS

HELP = "print the script that lets a shell complete commands, options, choices and names"
EXAMPLE = (
    'tpugraphs completion bash      in ~/.bashrc: eval "$(tpugraphs completion bash)"\n'
    "  tpugraphs completion zsh > ~/.zfunc/_tpugraphs   a folder of $fpath\n"
    "  tpugraphs completion fish > ~/.config/fish/completions/tpugraphs.fish"
)
SHELLS = ("bash", "zsh", "fish")


def _data() -> list[str]:
    return [*FOLDERS, *(f"sample:{name}" for name in tg.data.list_samples())]


def _devices() -> list[str]:
    return ["this", *(name for name in tg.layertime.DEVICES if " " not in name)]


# Words of the help -> names, files or neither.
NAMES: dict[str, Callable[[], Iterable[str]]] = {
    "COLLECTION": lambda: FOLDERS,
    "DATA": _data,
    "DEVICE": _devices,
    "KIND": lambda: KINDS,
    "PATTERN": lambda: ("known-corrupt",),
    "RECIPE": lambda: tg.list_recipes(),
    "RULE": lambda: ("one-standard-error", "best-3", "all"),
}
FILES = ("DATA", "FILE", "FILE.py:FUNCTION", "MODEL", "MODEL2", "PATH", "RANKER", "TABLE")
FOLDERS_ONLY = ("DIR",)
FREE = (
    *("COLLECTION=FILE", "COLUMN=VALUE", "E", "FAMILY", "FIELD=VALUE", "K", "N", "NAME", "NAME=N", "P"),
    *("SHARE", "URL", "W,W,...", "X"),
)


@dataclass
class Argument:
    """An option or a positional argument."""

    names: list[str]  # none of a positional
    help: str
    takes: bool = False
    many: bool = False
    words: list[str] = field(default_factory=list)
    files: str = ""  # "file", "dir" or neither


@dataclass
class Command:
    """A command, its own arguments and the commands below it."""

    path: list[str]
    help: str
    arguments: list[Argument] = field(default_factory=list)
    commands: list[Command] = field(default_factory=list)

    @property
    def options(self) -> list[Argument]:
        """Those with a name."""
        return [one for one in self.arguments if one.names]

    @property
    def values(self) -> Argument:
        """What may stand without a name, in one."""
        own = [one for one in self.arguments if not one.names]
        words = dict.fromkeys(word for one in own for word in one.words)
        return Argument([], "", True, True, list(words), max((one.files for one in own), default=""))

    def all(self) -> Iterator[Command]:
        """Yield this command and all below it."""
        yield self
        for one in self.commands:
            yield from one.all()


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    common.option(parser, "shell", "the shell that reads it", choices=SHELLS)


def run(args: argparse.Namespace) -> int:
    """Print the script."""
    tree = read(cli._parser())
    text = {"bash": bash, "zsh": zsh, "fish": fish}[args.shell](tree)
    common.emit(args, {"shell": args.shell, "script": text})
    common.say(args, text)
    return 0


def read(parser: argparse.ArgumentParser, path: Iterable[str] = (), meaning: str = "") -> Command:
    """Read what can be completed of a parser and the parsers of its commands."""
    found = Command(list(path), meaning)
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            told = {one.dest: one.help or "" for one in action._choices_actions}
            for name, below in action.choices.items():
                found.commands.append(read(below, [*found.path, name], told.get(name, "")))
        else:
            found.arguments.append(_argument(action))
    return found


def _argument(action: argparse.Action) -> Argument:
    takes = action.nargs != 0
    words, files = list(map(str, action.choices or ())), ""
    for part in str(action.metavar or "").split("|") if takes and not words else ():
        words += NAMES.get(part, tuple)()
        files = "file" if part in FILES else "dir" if part in FOLDERS_ONLY and not files else files
    meaning = re.split(r"[;:(]|\. ", action.help or "")[0].strip()
    meaning = "" if "%" in meaning else meaning
    many = action.nargs in ("+", "*") or not action.option_strings
    return Argument(list(action.option_strings), meaning, takes, many, words, files)


# --- bash and zsh: one table of shell arrays, and a few lines for each shell


def bash(tree: Command) -> str:
    """Return the script for bash."""
    return "\n".join(["# bash completion of tpugraphs", *_table(tree, described=False), _BASH])


def zsh(tree: Command) -> str:
    """Return the script for zsh, which shows what each option means."""
    return "\n".join(["#compdef tpugraphs", *_table(tree, described=True), _ZSH])


def _table(tree: Command, described: bool) -> Iterator[str]:
    """Yield functions that set `commands`, `flags`, `choices`, `files` and `many` by command and option."""

    def entry(name: str, meaning: str) -> str:
        return shlex.quote(f"{name}:{meaning.replace(':', ' ')}" if described else name)

    def values(one: Argument) -> str:
        return f"choices=({' '.join(map(shlex.quote, one.words))}) files={one.files}"

    yield '_tpugraphs_command() {\n    case "$1" in'
    for command in tree.all():
        commands = " ".join(entry(one.path[-1], one.help) for one in command.commands)
        flags = " ".join(entry(name, one.help) for one in command.options for name in one.names)
        yield f"    {shlex.quote(' '.join(command.path))})"
        yield f"        commands=({commands})\n        flags=({flags})\n        {values(command.values)} ;;"
    yield '    *) return 1 ;;\n    esac\n}\n_tpugraphs_option() {\n    case "$1" in'
    for command in tree.all():
        for one in command.options:
            if one.takes:
                keys = "|".join(shlex.quote(" ".join([*command.path, name])) for name in one.names)
                yield f"    {keys}) many={'1' if one.many else ''} {values(one)} ;;"
    yield "    *) return 1 ;;\n    esac\n}"


# Both walk the words before the cursor: which command it is, and whether a value of an option comes now.
_WALK = r"""        if _tpugraphs_command "${where:+$where }$word"; then
            where="${where:+$where }$word" option=
        elif [[ $word == -* ]]; then
            option=$word
        elif [[ -n $option ]] && { ! _tpugraphs_option "$where $option" || [[ -z $many ]]; }; then
            option=
        fi"""

_BASH = (
    r"""_tpugraphs() {
    local line=${COMP_LINE:0:COMP_POINT} where= option= many= files= current= word
    local -a typed=() commands=() flags=() choices=()
    # not COMP_WORDS, which cuts names such as layout:xla:random at their colons
    read -a typed <<<"$line" # without -r: a space after a backslash belongs to a name
    if [[ $line == *[![:space:]] || $line == *\\[[:space:]] ]]; then
        current=${typed[${#typed[@]} - 1]}
        typed=("${typed[@]:0:${#typed[@]}-1}")
    fi
    for word in "${typed[@]:1}"; do
"""
    + _WALK
    + r"""
    done
    _tpugraphs_command "$where"
    local before=
    if [[ $current == --*=* ]]; then
        option=${current%%=*} before=${current%%=*}= current=${current#*=}
    fi
    if [[ $current == -?* ]]; then
        choices=("${flags[@]}") files=
    elif [[ -n $option ]] && _tpugraphs_option "$where $option"; then
        :
    elif [[ ${#commands[@]} -gt 0 ]]; then
        choices=("${commands[@]}")
    fi
    local IFS=$'\n'
    COMPREPLY=($(compgen -W "${choices[*]}" -- "$current"))
    [[ ${#COMPREPLY[@]} -gt 0 || -z $files ]] || compopt -o filenames 2>/dev/null
    [[ $files != file ]] || COMPREPLY+=($(compgen -f -- "$current"))
    [[ $files != dir ]] || COMPREPLY+=($(compgen -d -- "$current"))
    # bash puts in the place of what stands after the last of its breaks
    local cut=$before$current i
    [[ $COMP_WORDBREAKS == *:* ]] && cut=${cut##*[:=]} || cut=${cut##*=}
    cut=${current%"$cut"}
    for i in "${!COMPREPLY[@]}"; do
        COMPREPLY[i]=${COMPREPLY[i]#"$cut"}
    done
}
complete -F _tpugraphs tpugraphs
"""
)

_ZSH = (
    r"""_tpugraphs() {
    local where= option= many= files= word current=$PREFIX
    local -a commands flags choices
    for word in "${(@)words[2,CURRENT-1]}"; do
"""
    + _WALK
    + r"""
    done
    _tpugraphs_command "$where"
    if [[ $current == --*=* ]] && _tpugraphs_option "$where ${current%%=*}"; then
        compset -P '*='
    elif [[ $current == -?* ]]; then
        _describe -o option flags
        return
    elif [[ -n $option ]] && _tpugraphs_option "$where $option"; then
        :
    elif (( ${#commands} )); then
        _describe command commands
        return
    fi
    (( ${#choices} )) && compadd -a choices
    [[ $files == file ]] && _files
    [[ $files == dir ]] && _files -/
}
if [[ $funcstack[1] == _tpugraphs ]]; then
    _tpugraphs "$@" # as a file in $fpath
else
    compdef _tpugraphs tpugraphs
fi
"""
)


# --- fish: a line per command, option and positional argument

_FISH = r"""# fish completion of tpugraphs
function __tpugraphs_at # the words before the cursor begin with these
    set -l typed (commandline -opc)
    set -e typed[1]
    test (count $typed) -ge (count $argv); or return 1
    for i in (seq (count $argv))
        test "$typed[$i]" = "$argv[$i]"; or return 1
    end
end
function __tpugraphs_is # and there are no others
    test (count (commandline -opc)) -eq (math (count $argv) + 1); and __tpugraphs_at $argv
end
function __tpugraphs_in # the last option before the cursor is the first of these, of the command in the rest
    __tpugraphs_at $argv[2..-1]; or return 1
    set -l options (string match -- '-*' (commandline -opc))
    test (count $options) -gt 0; and test "$options[-1]" = "$argv[1]"
end
complete -c tpugraphs -f"""


def fish(tree: Command) -> str:
    """Return the script for fish."""
    return "\n".join([_FISH, *_fish_lines(tree)])


def _fish_lines(tree: Command) -> Iterator[str]:
    def line(condition: str, *parts: str) -> str:
        return " ".join(["complete -c tpugraphs -n", shlex.quote(condition.strip()), *filter(None, parts)])

    def values(one: Argument) -> list[str]:
        words = " ".join(one.words)
        if one.files == "dir":
            words = f"{words} (__fish_complete_directories)".strip()
        return [f"-a {_fish_quoted(words)}" if words else "", "-F" if one.files == "file" else ""]

    for command in tree.all():
        at = f"__tpugraphs_at {' '.join(command.path)}"
        for below in command.commands:
            told = f"-a {below.path[-1]} -d {_fish_quoted(below.help)}"
            yield line(f"__tpugraphs_is {' '.join(command.path)}", told)
        for one in command.options:
            names = " ".join(f"-l {n[2:]}" if n.startswith("--") else f"-s {n[1:]}" for n in one.names)
            told = f"-d {_fish_quoted(one.help)}" if one.help else ""
            takes = "" if not one.takes else "-r" if one.files == "file" else "-x"
            yield line(at, names, takes, *values(one), told)
            if one.many and any(values(one)):
                yield line(f"__tpugraphs_in {one.names[0]} {' '.join(command.path)}", *values(one))
        if any(values(command.values)):
            yield line(at, *values(command.values))


def _fish_quoted(text: Any) -> str:
    escaped = str(text).replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
