"""Progress is asked for in one way, in Python by `verbose` and on the command line by --quiet."""

from __future__ import annotations

import importlib.util
import inspect
import pkgutil
import subprocess
import sys

import madeup
import pytest

import tpugraphs as tg
from tpugraphs import cli
from tpugraphs.system import progress

OTHER_NAMES = {"progress", "show_progress", "quiet", "silent", "pbar", "progress_bar", "disable"}


def callables():
    """(name, function) of all public functions and methods of the package."""
    for info in pkgutil.walk_packages(tg.__path__, "tpugraphs."):
        if info.name.endswith("__main__"):
            continue
        if info.name.startswith("tpugraphs.torch") and not importlib.util.find_spec("torch"):
            continue
        module = importlib.import_module(info.name)
        for name, value in vars(module).items():
            if name.startswith("_") or getattr(value, "__module__", None) != info.name:
                continue
            if inspect.isfunction(value):
                yield f"{info.name}.{name}", value
            elif inspect.isclass(value):
                for method, function in vars(value).items():
                    if inspect.isfunction(function) and (not method.startswith("_") or method == "__init__"):
                        yield f"{info.name}.{name}.{method}", function


def test_progress_has_one_name_and_one_meaning():
    """`verbose`: None shows a bar in a terminal or notebook, True and False decide it."""
    wrong, seen = [], 0
    for name, function in callables():
        for parameter in inspect.signature(function).parameters.values():
            is_function = "Callable" in str(parameter.annotation) or "Progress" in str(parameter.annotation)
            if parameter.name in OTHER_NAMES and not is_function:
                wrong.append(f"{name}({parameter})")
            if parameter.name == "verbose":
                seen += 1
                if str(parameter.annotation) != "bool | None" or parameter.default not in (
                    None,
                    parameter.empty,
                ):
                    wrong.append(f"{name}({parameter})")
    assert seen > 20
    assert not wrong


def as_terminal(monkeypatch):
    """Let standard error say that it is a terminal, and bars come at once."""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(progress, "_DELAY", 0)


def test_a_bar_by_default_in_a_terminal_alone(capsys, monkeypatch):
    as_terminal(monkeypatch)
    list(progress.tracked("abc", "letters", "letter", None))
    assert "letters" in capsys.readouterr().err
    list(progress.tracked("abc", "letters", "letter", False))
    with progress.quiet():
        list(progress.tracked("abc", "letters", "letter", None))
        progress.notice("a line")
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: False)
    monkeypatch.delitem(sys.modules, "ipykernel", raising=False)
    list(progress.tracked("abc", "letters", "letter", None))
    assert capsys.readouterr().err == ""
    list(progress.tracked(iter("abc"), "letters", "letter", True))
    progress.notice("a line")
    assert "letters" in (err := capsys.readouterr().err) and err.endswith("a line\n")


def test_python_without_a_console_shows_nothing(capsys, monkeypatch):
    monkeypatch.setattr(sys, "stderr", None)
    assert list(progress.tracked("abc", "letters", "letter", None)) == ["a", "b", "c"]
    progress.notice("a line")
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("how", ["--quiet", "--json"])
def test_commands_show_no_progress_if_asked(capsys, monkeypatch, how):
    """In a terminal a bar appears without it, so that this test can fail."""
    as_terminal(monkeypatch)
    argv = ["audit", str(madeup.path("kernel_00")), str(madeup.path("kernel_01"))]
    assert cli.main(argv) == 0
    assert "audit" in capsys.readouterr().err
    assert cli.main([*argv, how]) == 0
    assert capsys.readouterr().err == ""


def test_evaluate_takes_verbose(capsys, monkeypatch):
    as_terminal(monkeypatch)
    graph = tg.load(madeup.path("kernel_00"))
    tg.evaluation.evaluate(tg.ranker.random_scores, graph)
    assert "evaluate" in capsys.readouterr().err
    tg.evaluation.evaluate(tg.ranker.random_scores, graph, verbose=False)
    assert capsys.readouterr().err == ""
    with pytest.raises(TypeError, match="progress"):
        tg.evaluation.evaluate(tg.ranker.random_scores, graph, progress=True)


KILLED = """
import os, random, signal, sys, threading, time
from tpugraphs.system import progress

progress._DELAY = 0

def draw(count):
    list(progress.tracked(range(count), "bar", "step", True))

chance = random.Random(0)
draw(3)
for _ in range(200):
    pid = os.fork()
    if pid == 0:
        while True:
            draw(20)
    time.sleep(chance.uniform(0, 0.01))
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    draw(3)
assert threading.active_count() == 1, threading.enumerate()  # none that watches the bars
print("drawn", flush=True)  # a fork would write it again

progress._PATIENCE = 1000  # so that only a fresh lock helps the child
taken, ended = threading.Event(), threading.Event()

def hold():
    with progress._bars().get_lock():
        taken.set()
        ended.wait()

holder = threading.Thread(target=hold)
holder.start()
taken.wait()
pid = os.fork()
if pid == 0:
    signal.alarm(30)
    draw(3)
    os._exit(0)
print(os.waitpid(pid, 0)[1])
ended.set()
holder.join()
"""


def test_a_killed_child_does_not_keep_the_lock_of_bars():
    done = subprocess.run([sys.executable, "-c", KILLED], capture_output=True, text=True, timeout=120)
    assert done.stdout.split() == ["drawn", "0"], done.stderr[-2000:]


INTERRUPTED = """
import sys, threading
from tpugraphs.system import progress

progress._DELAY, progress._PATIENCE = 0, 0.02

def draw():
    list(progress.tracked("ab", "letters", "letter", True))
    progress.notice("a line")

def interrupted_at(event):
    left = event

    def trace(frame, what, argument):
        nonlocal left
        if frame.f_code.co_filename.endswith(("progress.py", "std.py")) and what == "line":
            left -= 1
            if left == 0:
                raise KeyboardInterrupt
        return trace

    sys.settrace(trace)
    try:
        draw()
    except KeyboardInterrupt:
        pass
    finally:
        sys.settrace(None)
    return left <= 0

draw()
event = 1
while interrupted_at(event):
    draw()
    other = threading.Thread(target=draw, daemon=True)
    other.start()
    other.join(20)
    if other.is_alive():
        sys.exit(f"a bar waits after Ctrl-C at line {event}")
    event += 1
print(event)
"""


def test_ctrl_c_at_any_line_keeps_no_bar_waiting():
    """Neither one of this thread nor one of another."""
    done = subprocess.run([sys.executable, "-c", INTERRUPTED], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and int(done.stdout) > 200, done.stderr[-2000:]
