"""What the Tab key completes: the same in bash, zsh and fish, for every command and every option."""

from __future__ import annotations

import argparse
import os
import pty
import select
import shutil
import subprocess

import pytest

import tpugraphs as tg
from tpugraphs import cli
from tpugraphs.cli import completion, layertime
from tpugraphs.names import FOLDERS

RECIPES = sorted(tg.list_recipes())
LINES = [
    ("tpugraphs tr", ["train"]),
    ("tpugraphs layertime ", sorted(layertime.COMMANDS)),
    ("tpugraphs layertime m", ["measure"]),
    ("tpugraphs train --re", ["--recipe"]),
    ("tpugraphs layertime network --opt", ["--optimizer"]),
    ("tpugraphs train --preset ", ["cpu", "full"]),
    ("tpugraphs submit --split t", ["test", "train"]),
    ("tpugraphs train --recipe ", RECIPES),
    ("tpugraphs recipes tenth", [name for name in RECIPES if name.startswith("tenth")]),
    ("tpugraphs compare x --recipes tenth-tile ele", [name for name in RECIPES if name.startswith("ele")]),
    ("tpugraphs download layout:nlp:", ["layout:nlp:default", "layout:nlp:random"]),
    ("tpugraphs layertime fit --kind de", ["dense", "depthwise"]),
    ("tpugraphs completion ", ["bash", "fish", "zsh"]),
    ("tpugraphs pack in", ["inner"]),
    ("tpugraphs layertime audit only", ["only.csv"]),
]


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "inner").mkdir()
    (tmp_path / "inside.csv").write_text("")
    (tmp_path / "only.csv").write_text("")
    return tmp_path


def script(shell, folder):
    """The path of the script for a shell."""
    if shutil.which(shell) is None:
        pytest.skip(f"needs {shell}")
    path = folder / f"_tpugraphs.{shell}"
    path.write_text(getattr(completion, shell)(completion.read(cli._parser())))
    return path


def lines_of(folder, *command):
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and done.stderr == "", done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize("breaks", [":=", "="], ids=["names cut at colons", "whole names"])
@pytest.mark.parametrize(("line", "expected"), LINES)
def test_bash(folder, line, expected, breaks):
    code = (
        'source "$0"; COMP_WORDBREAKS="$2"; COMP_LINE=$1; COMP_POINT=${#1}; _tpugraphs; '
        'printf "%s\\n" "${COMPREPLY[@]}"'
    )
    found = lines_of(folder, "bash", "--norc", "-uc", code, script("bash", folder), line, breaks)
    if ":" in line and ":" in breaks:  # bash keeps what stands before the last colon
        found = [line.split()[-1] + name for name in found]
    assert sorted(found) == expected


def test_bash_completes_within_a_line_and_after_an_equals_sign(folder):
    code = 'source "$0"; COMP_LINE=$1; COMP_POINT=$2; _tpugraphs; printf "%s\\n" "${COMPREPLY[@]}"'
    path = script("bash", folder)
    assert lines_of(folder, "bash", "-c", code, path, "tpugraphs tr --recipe x", "12") == ["train"]
    assert lines_of(folder, "bash", "-c", code, path, "tpugraphs train --preset=f", "26") == ["full"]
    (folder / "two words.csv").write_text("")
    for line in (r"tpugraphs inspect two\ ", r"tpugraphs inspect x\ y two\ wo", "tpugraphs inspect two"):
        assert lines_of(folder, "bash", "-c", code, path, line, str(len(line))) == ["two words.csv"]


@pytest.mark.parametrize(("line", "expected"), LINES)
def test_fish(folder, line, expected):
    ask = f"source {script('fish', folder)}; complete -C {line!r}"
    found = [one.split("\t")[0].rstrip("/") for one in lines_of(folder, "fish", "--no-config", "-c", ask)]
    # fish takes a colon for the beginning of a path, too
    assert (
        sorted(one for one in found if not ("/" in one or one.endswith(".csv")) or one in expected)
        == expected
    )


class Zsh:
    """An interactive zsh, whose screen is read until something is on it."""

    def __init__(self, folder, setup):
        self.terminal, end = pty.openpty()
        env = os.environ | {"TERM": "dumb", "COLUMNS": "200", "LINES": "60", "ZDOTDIR": str(folder)}
        # not pty.fork: JAX, if another test has loaded it, warns of any fork
        command = ["setsid", "--ctty", "--wait", "zsh", "-f", "-i"]
        self.process = subprocess.Popen(command, cwd=folder, env=env, stdin=end, stdout=end, stderr=end)
        os.close(end)
        self.until(f"{setup}; echo 'set'\"tled\"\r", "settled")

    def until(self, typed, *wanted):
        """Type, and return the screen when all of `wanted` has come on it, or when nothing comes any more."""
        os.write(self.terminal, typed.encode())
        screen = ""
        while not all(one in screen for one in wanted) and select.select([self.terminal], [], [], 15)[0]:
            screen += os.read(self.terminal, 1 << 16).decode(errors="replace")
        return screen

    def close(self):
        os.close(self.terminal)
        self.process.wait()


@pytest.mark.parametrize(
    ("typed", "wanted"),
    [
        ("tpugraphs tr\t", ["train "]),
        ("tpugraphs train --rec\t", ["--recipe "]),
        ("tpugraphs layertime \t\t", ["measure", "network", "calibrate", "adapt a model"]),
        ("tpugraphs train --recipe \t\t", ["first-layout", "tenth-tile"]),
        ("tpugraphs download layout:nlp:r\t", ["andom "]),
        ("tpugraphs train --preset=f\t", ["ull"]),
        ("tpugraphs layertime audit on\t", ["ly.csv"]),
    ],
)
def test_zsh(folder, typed, wanted):
    path = script("zsh", folder)
    zsh = Zsh(folder, f"autoload -U compinit; compinit -D -u; bindkey '^I' complete-word; source {path}")
    try:
        screen = zsh.until(typed, *wanted)
    finally:
        zsh.close()
    assert all(one in screen for one in wanted), screen


def actions(parser, path=()):
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, below in action.choices.items():
                yield from actions(below, (*path, name))
        else:
            yield path, action


def test_every_word_of_the_help_says_what_its_value_may_be():
    """A new word belongs in one of the tables of completion.py, FREE if nothing can be completed."""
    known = {*completion.NAMES, *completion.FILES, *completion.FOLDERS_ONLY, *completion.FREE}
    words = {
        part
        for _, action in actions(cli._parser())
        if action.metavar and action.nargs != 0 and not action.choices
        for part in action.metavar.split("|")
    }
    assert words <= known, words - known
    assert known - {"DATA"} <= words, known - words


def test_the_tree_has_every_command_and_option():
    tree = completion.read(cli._parser())
    found = {" ".join(command.path): command for command in tree.all()}
    assert set(found) == {"", *cli.COMMANDS, *(f"layertime {name}" for name in layertime.COMMANDS)}
    for path, action in actions(cli._parser()):
        names = [name for one in found[" ".join(path)].options for name in one.names]
        assert set(action.option_strings) <= set(names)
    assert set(FOLDERS) <= set(found["inspect"].values.words)


@pytest.mark.parametrize("shell", completion.SHELLS)
def test_the_command_prints_the_script(capsys, shell):
    assert cli.main(["completion", shell]) == 0
    assert capsys.readouterr().out == getattr(completion, shell)(completion.read(cli._parser())) + "\n"


def test_another_shell_is_refused(capsys):
    assert cli.main(["completion", "csh"]) == 2
    assert "'bash', 'zsh', 'fish'" in capsys.readouterr().err
