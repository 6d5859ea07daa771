"""tpugraphs tune: command lines that are measured, from placeholders to the answer."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from refusals import refuses
from tuners import Sampled

import tpugraphs as tg
from tpugraphs import cli
from tpugraphs.records import Journal
from tpugraphs.tuning import Command, loop

KERNEL = r"""
#include <stdio.h>
#include <stdlib.h>
#define N 96
static double a[N][N], b[N][N], c[N][N];
int main(void) {
    for (int i = 0; i < N * N; i++) { a[0][i] = i % 7; b[0][i] = i % 5; }
    for (int again = 0; again < 4; again++)
        for (int ii = 0; ii < N; ii += BLOCK)
            for (int kk = 0; kk < N; kk += BLOCK)
                for (int i = ii; i < ii + BLOCK && i < N; i++)
                    for (int k = kk; k < kk + BLOCK && k < N; k++)
                        for (int j = 0; j < N; j++) c[i][j] += a[i][k] * b[k][j];
    double sum = 0;
    for (int i = 0; i < N * N; i++) sum += c[0][i];
    if (BLOCK == 7) abort();
    printf("block %d: checksum %.1f\nscore = %d points\n", BLOCK, sum, 1000 / BLOCK);
    return 0;
}
"""

SPACE = """
constraints = ["unroll == 0 or O != '0'"]
[parameters]
O = ["0", "1", "3"]
unroll = [0, 1]
block = [7, 8, 32]
[default]
O = "0"
unroll = 0
block = 8
"""

BUILD = 'gcc -O{O} $(test {unroll} = 1 && echo -funroll-loops) -DBLOCK={block} -o "{tmp}/a.out" kern.c'


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(loop, "Tuner", Sampled)
    Path("kern.c").write_text(KERNEL)
    Path("space.toml").write_text(SPACE)
    Path("ab.toml").write_text("[parameters]\na = [1, 2, 3]\nb = [10, 20]\n[default]\na = 1\nb = 10\n")
    return tmp_path


def tune(capsys, *argv, space="ab.toml"):
    code = cli.main(["tune", "--space", space, *map(str, argv)])
    out, err = capsys.readouterr()
    return code, out, err


@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")
def test_a_kernel_in_c_is_compiled_and_measured(folder, capsys):
    how = ("--build", BUILD, "--command", "{tmp}/a.out", "--budget", "15", "--repeats", "2", "--confirm", "3")
    code, out, err = tune(capsys, *how, "--journal", "j.jsonl", "--json", space="space.toml")
    assert code == 0, err
    found = json.loads(out)
    assert found["evaluations"] == 15 and found["failures"] == {"runtime": 5}
    assert any("signal 6" in reason or "exit code 134" in reason for reason in found["reasons"])
    best = found["config"]  # which one is a matter of the machine
    assert found["interval"][0] > 1 if best != found["default"] else found["gain"] == 1
    assert best["block"] != 7 and best in [one["config"] for one in found["finalists"]]
    kept = Journal("j.jsonl").read()
    assert kept[0].config == found["default"] == {"O": "0", "unroll": 0, "block": 8}
    good = [record for record in kept if record.status == "correct"]
    assert all(len(record.runtimes) == 2 and record.compile > record.runtime > 0 for record in good)
    again = tune(capsys, *how, "--journal", "j.jsonl", "--json", space="space.toml")
    assert len(Journal("j.jsonl").read()) == len(kept) and json.loads(again[1])["config"] == found["config"]


def test_a_printed_number_and_the_report(folder, capsys):
    code, out, err = tune(
        capsys,
        "--command",
        'echo "took 3 s, rate: $(({a} * {b}))"',
        "--metric",
        "printed",
        "--maximize",
        "--out",
        "r.json",
    )
    assert (code, err) == (0, "")
    assert out.startswith("best: a=3, b=20\nvalue: 60 (maximized), gain over the default: 6.000×")
    assert "6 evaluations" in out and "measured again in turn" in out
    assert json.loads(Path("r.json").read_text())["config"] == {"a": 3, "b": 20}


def test_with_our_own_tuner(folder, capsys, monkeypatch):
    monkeypatch.setattr(loop, "Tuner", tg.Tuner)
    how = ("--command", "echo {a}{b}", "--metric", "printed", "--maximize", "--json")
    assert json.loads(tune(capsys, *how)[1])["config"] == {"a": 3, "b": 20}


def test_a_regular_expression(folder, capsys):
    line = 'echo "n={a}; loss = -1; loss = {b}.5e-1 of 9"'
    found = json.loads(tune(capsys, "--command", line, "--metric", r"loss = (\d\S*)", "--json")[1])
    assert found["runtime"] == 1.05 and found["default"] == {"a": 1, "b": 10}
    code, _, err = tune(capsys, "--command", line, "--metric", "gain=")
    assert code == 1 and "all of 6 configs failed" in err and "no number" in err and "of 9" in err


def test_problem_device_and_records_reach_the_tuner(folder, capsys, monkeypatch):
    made = []
    monkeypatch.setattr(loop, "Tuner", lambda *a, **k: made.append((a, k)) or Sampled(*a, **k))
    how = ("--command", "echo {a}{b}", "--metric", "printed", "--budget", "4", "--confirm", "0")
    assert tune(capsys, *how, "--journal", "old.jsonl", "--device", "old", "--seed", "3")[0] == 0
    assert (
        tune(capsys, *how, "--records", "old.jsonl", "--problem", "p", "--device", "new", "--quiet")[0] == 0
    )
    (_, first), ((space,), second) = made
    assert first["records"] is None and first["seed"] == 3 and first["device"] == "old"
    assert [record.device for record in second["records"]] == ["old"] * 4 and second["problem"] == "p"
    assert space.names == ("a", "b") and second["direction"] == "minimize"


@pytest.mark.parametrize(
    "argv, tells",
    [
        (["--command", "echo {a}"], "{b}: stands in no command line"),
        (["--command", "echo {a} {b} {c}"], "{c}: is no parameter"),
        (["--command", " ", "--build", "echo {a} {b}"], "run: expected a command line"),
        (
            ["--command", "echo {a}{b}", "--metric", "("],
            "metric: expected time, printed or a regular expression",
        ),
        (["--command", "echo {a}{b}", "--budget", "soon"], "budget: expected a number"),
        (["--command", "echo {a}{b}", "--timeout", "soon"], "--timeout soon"),
        (["--command", "echo {a}{b}", "--timeout", "-1"], "timeout"),
        (["--command", "echo {a}{b}", "--repeats", "0"], "--repeats"),
        (["--command", "echo {a}{b}", "--confirm", "2"], "confirm"),
        ([], "--command"),
    ],
)
def test_wrong_usage(folder, capsys, argv, tells):
    code, out, err = tune(capsys, *argv)
    assert (code, out) == (2, "") and tells in err and err.count("\n") == 1


def test_files_that_are_not_there(folder, capsys):
    assert tune(capsys, "--command", "echo {a}{b}", space="none.toml")[0] == 1
    assert tune(capsys, "--command", "echo {a}{b}", "--out", "no/r.json")[0] == 1
    assert tune(capsys, "--command", "echo {a}{b}", "--records", "none.json")[0] == 1


def test_ctrl_c_keeps_the_journal_and_says_so(folder):
    where = os.pathsep.join([str(Path(tg.__file__).parents[1]), str(Path(__file__).parent)])
    code = "import sys; from tuners import Sampled; from tpugraphs import cli; from tpugraphs.tuning import loop; loop.Tuner = Sampled; sys.exit(cli.main())"
    line = "sleep 0.05; touch $$.pid; test {a}{b} = 110 || sleep 600; echo 1"
    command = [
        sys.executable,
        "-c",
        code,
        "tune",
        "--space",
        "ab.toml",
        "--command",
        line,
        "--journal",
        "j.jsonl",
        "--timeout",
        "none",
    ]
    process = subprocess.Popen(
        command, env={**os.environ, "PYTHONPATH": where}, stderr=subprocess.PIPE, text=True
    )
    while len(list(Path().glob("*.pid"))) < 2 and process.poll() is None:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert (
        process.returncode == 130
        and "j.jsonl" in err
        and "Traceback" not in err
        and err.strip().count("\n") == 0
    ), err
    assert len(Journal("j.jsonl").read()) == 1
    time.sleep(0.1)
    for pid in Path().glob("*.pid"):
        assert not Path("/proc", pid.stem).exists()


# ---- command lines


def test_values_are_quoted(tmp_path):
    config = {"a": "x y; 'z' $HOME", "b": True, "c": (2, 0, 1), "d": 1.5, "e": "ä"}
    line = "printf '%s|' {a} {b} {c} {d} {e} ${{HOME:+yes}} ${PWD:+no} {{}} > " + str(tmp_path / "out")
    Command(line, names=list(config))(config)
    assert (tmp_path / "out").read_text() == "x y; 'z' $HOME|1|2,0,1|1.5|ä|yes|no|{}|"


def test_a_time_is_that_of_the_run_alone():
    found = Command("sleep 0.05 # {a}", build="sleep 0.3", repeats=3)({"a": 1})
    assert (
        len(found.runtimes) == 3 and all(50 <= one < 250 for one in found.runtimes) and found.compile >= 300
    )


def test_folders_are_removed(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    Command("touch {tmp}/x && test -f {tmp}/built", build="touch {tmp}/built")({})
    with pytest.raises(tg.tuning.Failed):
        Command("touch {tmp}/x; chmod 500 {tmp}; exit 3")({})
    with pytest.raises(tg.tuning.Failed):
        Command("touch {tmp}/x; sleep 600")({}, timeout=0.2)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "how, status, says",
    [
        ({"run": "exit 7"}, "runtime", "exit code 7"),
        ({"run": "echo fine; echo 'bad news' >&2; exit 1"}, "runtime", "bad news"),
        ({"run": "kill -9 $$"}, "runtime", "signal 9"),
        ({"run": "echo 1", "build": "echo no >&2; false"}, "compile", "no"),
        ({"run": "no_such_program_here"}, "runtime", "not found"),
        ({"run": "echo hello world", "metric": "printed"}, "runtime", "hello world"),
        ({"run": "true", "metric": "printed"}, "runtime", "nothing"),
        ({"run": "echo a1b x2 3c", "metric": "printed"}, "runtime", "a1b"),
        ({"run": "printf '\\377\\376'", "metric": "x"}, "runtime", "no number"),
        ({"run": "echo x", "metric": "(y)|x"}, "runtime", "no number"),
    ],
)
def test_failures_of_commands(how, status, says):
    error = refuses(lambda: Command(**how)({}), tg.tuning.Failed, says)
    assert error.status == status


@pytest.mark.parametrize(
    "text, number",
    [("1e-3", 1e-3), ("t=5.25ms", None), ("t=5.25 ms", 5.25), ("a 7,", 7), ("+.5", 0.5), ("3.", 3)],
)
def test_numbers_that_are_printed(text, number):
    call = Command(f"echo '{text}'", metric="printed")
    if number is None:
        refuses(lambda: call({}), tg.tuning.Failed, text)
    else:
        assert call({}).runtimes == (number,)


def test_a_command_that_takes_too_long_is_killed_with_its_children(tmp_path):
    began = time.monotonic()
    line = f"(sleep 600; touch {tmp_path}/late) & echo $! > {tmp_path}/pid; wait"
    error = refuses(lambda: Command(line)({}, timeout=0.3), tg.tuning.Failed, "took too long")
    assert error.status == "timeout" and time.monotonic() - began < 30
    pid = (tmp_path / "pid").read_text().strip()
    for _ in range(100):
        stat = Path("/proc", pid, "stat")
        if not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] == "Z":
            return
        time.sleep(0.05)
    raise AssertionError("the child is still there")


def test_refusals_of_commands():
    wrong = tg.errors.ConfigError
    refuses(lambda: Command(3), wrong, "run", "int")
    refuses(lambda: Command("x", build=""), wrong, "build")
    refuses(lambda: Command("x", build=["gcc"]), wrong, "build", "list")
    refuses(lambda: Command("x\0"), wrong, "run")
    refuses(lambda: Command("x", metric=3), wrong, "metric")
    refuses(lambda: Command("x", repeats=0), wrong, "repeats")
    refuses(lambda: Command("{tmp}", names=["tmp"]), wrong, "{tmp}")
