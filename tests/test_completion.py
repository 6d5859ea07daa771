"""What the Tab key completes: the same in bash, zsh and fish, for every command and every option."""

from __future__ import annotations

import argparse
import io
import os
import pty
import select
import shutil
import subprocess
import sys

import argcomplete
import pytest

import tpugraphs as tg
from tpugraphs import cli
from tpugraphs.cli import common, completion, layertime
from tpugraphs.names import FOLDERS

RECIPES = sorted(tg.list_recipes())
LINES = [
    ("tpugraphs tr", ["train"]),
    ("tpugraphs layertime ", sorted(layertime.COMMANDS)),
    ("tpugraphs layertime m", ["measure"]),
    ("tpugraphs train --re", ["--recipe"]),
    ("tpugraphs layertime network --opt", ["--optimizer"]),
    ("tpugraphs train --preset ", ["cpu", "full"]),
    ("tpugraphs train --preset=f", ["--preset=full"]),
    ("tpugraphs submit --split t", ["test", "train"]),
    ("tpugraphs train --recipe ", RECIPES),
    ("tpugraphs recipes tenth", [name for name in RECIPES if name.startswith("tenth")]),
    ("tpugraphs compare x --recipes tenth-tile ele", [name for name in RECIPES if name.startswith("ele")]),
    ("tpugraphs download layout:nlp:", ["layout:nlp:default", "layout:nlp:random"]),
    ("tpugraphs layertime fit --kind de", ["dense", "depthwise"]),
    ("tpugraphs completion ", ["bash", "fish", "zsh"]),
    ("tpugraphs pack in", ["inner/"]),
    ("tpugraphs layertime audit only", ["only.csv"]),
    (r"tpugraphs inspect two\ ", [r"two\ words.csv"]),
    ("tpugraphs train --steps ", []),
]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder to complete in, and the command that a shell calls."""
    (tmp_path / "inner").mkdir()
    for name in ("inside.csv", "only.csv", "two words.csv"):
        (tmp_path / name).write_text("")
    command = tmp_path / "bin" / "tpugraphs"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -P -m tpugraphs "$@"\n')
    command.chmod(0o755)
    monkeypatch.setenv("PATH", f"{command.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, map(os.path.abspath, sys.path))))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def answer(monkeypatch, line, point=None, breaks=""):
    """What the command answers to a shell."""
    asked = {"_ARGCOMPLETE": "1", "COMP_LINE": line, "COMP_POINT": str(point or len(line))}
    asked |= {"_ARGCOMPLETE_IFS": "\n", "_ARGCOMPLETE_COMP_WORDBREAKS": breaks, "_ARGCOMPLETE_SHELL": "bash"}
    asked["_ARGCOMPLETE_SUPPRESS_SPACE"] = "1"
    for name, value in asked.items():
        monkeypatch.setenv(name, value)
    # which would be a file of descriptor 9, pytest's perhaps
    monkeypatch.setattr(argcomplete.CompletionFinder, "_init_debug_stream", lambda _: None)
    out = io.StringIO()
    with pytest.raises(SystemExit):
        completion.answer(cli._parser(), output_stream=out, exit_method=sys.exit)
    return sorted(out.getvalue().splitlines())


@pytest.mark.parametrize(("line", "expected"), LINES)
def test_the_command_answers(folder, monkeypatch, line, expected):
    assert answer(monkeypatch, line) == expected


def test_names_that_bash_cuts_at_colons_and_the_middle_of_a_line(folder, monkeypatch):
    assert answer(monkeypatch, "tpugraphs download layout:nlp:", breaks=" :=") == ["default", "random"]
    assert answer(monkeypatch, "tpugraphs tr --recipe x", 12) == ["train"]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("tpugraphs tr", "train"),
        ("tpugraphs train --preset f", "full"),
        ("tpugraphs layertime audit on", "only.csv"),
    ],
)
def test_bash(folder, line, expected):
    code = (
        'eval "$(tpugraphs completion bash)"; COMP_LINE=$0; COMP_POINT=${#0}; '
        '_python_argcomplete tpugraphs; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    command = ["bash", "--norc", "-c", code, line]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout.strip()) == (0, expected), done.stderr


@pytest.mark.skipif(shutil.which("fish") is None, reason="needs fish")
@pytest.mark.parametrize(("line", "expected"), LINES[:10])
def test_fish(folder, line, expected):
    ask = f"tpugraphs completion fish | source; complete -C {line!r}"
    command = ["fish", "--no-config", "-c", ask]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60)
    assert sorted(one.split("\t")[0] for one in done.stdout.splitlines()) == expected


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


@pytest.mark.skipif(shutil.which("zsh") is None, reason="needs zsh")
@pytest.mark.parametrize(
    ("typed", "wanted"),
    [
        ("tpugraphs tr\t", ["train "]),
        ("tpugraphs train --rec\t", ["--recipe "]),
        ("tpugraphs layertime \t\t", ["measure", "network", "calibrate", "adapt a model"]),
        ("tpugraphs train --recipe \t\t", ["first-layout", "tenth-tile"]),
        ("tpugraphs download layout:nlp:r\t", ["andom "]),
        ("tpugraphs layertime audit on\t", ["ly.csv"]),
    ],
)
def test_zsh(folder, typed, wanted):
    load = 'eval "$(tpugraphs completion zsh)"'
    zsh = Zsh(folder, f"autoload -U compinit; compinit -D -u; bindkey '^I' complete-word; {load}")
    try:
        screen = zsh.until(typed, *wanted)
    finally:
        zsh.close()
    assert all(one in screen for one in wanted), screen


def arguments(parser):
    """The arguments of a parser and of all commands below it."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                yield from arguments(command)
        else:
            yield action


def test_every_word_that_is_completed_stands_in_a_help():
    words = set()
    for action in arguments(cli._parser()):
        if action.nargs != 0 and not action.choices:
            (parts,) = action.completer.args
            assert parts == (action.metavar or "").split("|")
            words |= set(parts)
    assert {*common.NAMES, *common.FILES, "DIR"} <= words
    assert set(FOLDERS) <= set(common.NAMES["DATA"]())
    for names in common.NAMES.values():
        assert all(isinstance(name, str) for name in names())


@pytest.mark.parametrize("shell", completion.SHELLS)
def test_the_command_prints_the_script(capsys, shell):
    assert cli.main(["completion", shell]) == 0
    assert "tpugraphs" in capsys.readouterr().out


def test_another_shell_is_refused(capsys):
    assert cli.main(["completion", "csh"]) == 2
    assert "'bash', 'zsh', 'fish'" in capsys.readouterr().err


def test_without_the_library_the_command_says_what_to_install(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "argcomplete", None)
    assert cli.main(["completion", "bash"]) == 2
    assert "pip install argcomplete" in capsys.readouterr().err
