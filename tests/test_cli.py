"""The command line: what needs no training."""

from __future__ import annotations

import importlib
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import madeup
import numpy as np
import pytest
from refusals import refuses

import tpugraphs as tg
from tpugraphs import _core, cli, submission
from tpugraphs.cli import layertime, records


def run(capsys: pytest.CaptureFixture[str], *argv: object) -> tuple[int, str, str]:
    code = cli.main([str(arg) for arg in argv])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def one_line(err: str) -> str:
    """The error, which must be one line and no traceback."""
    assert err.endswith("\n") and err.count("\n") == 1, err
    assert "Traceback" not in err
    return err.strip()


def python(*args: str, timeout: float = 60, **options: object) -> subprocess.CompletedProcess[str]:
    """A child that imports what this process imports, whatever lies in its working directory."""
    env = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, map(os.path.abspath, sys.path)))}
    command = [sys.executable, "-P", *args]
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout, env=env, **options)


INNER = [f"layertime {name}" for name in layertime.COMMANDS]
INNER += [f"records {name}" for name in records.COMMANDS]


@pytest.mark.parametrize("command", [*cli.COMMANDS, *INNER])
def test_every_command_has_help_with_an_example(capsys: pytest.CaptureFixture[str], command: str) -> None:
    code, out, _ = run(capsys, *command.split(), "--help")
    assert code == 0
    assert "example:\n  tpugraphs " + command in out
    if command in ("layertime", "records"):
        return
    for option in ("--json", "--threads", "--debug"):
        assert option in out


@pytest.mark.parametrize("command", [*cli.COMMANDS, *INNER])
def test_examples_can_be_parsed(command: str) -> None:
    module = importlib.import_module(".".join(["tpugraphs.cli", *command.split()]))
    examples = re.sub(r" \\\n +", " ", module.__doc__.partition("example:\n")[2])
    assert examples
    for line in examples.strip().splitlines():
        words = shlex.split(re.split(r" {3,}| [|>] ", line.strip())[0])
        args = cli._parser().parse_args(words[1:])
        assert words[0] == "tpugraphs" and f"{args.command} ".startswith(f"{command} ")


def test_a_new_file_is_a_command(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "hello.py").write_text(
        '"""Greet.\n\nexample:\n  tpugraphs hello --to you\n"""\n'
        "from tpugraphs.cli.common import emit, option, say\n"
        "def add_arguments(parser): option(parser, '--to NAME', 'who', default='world')\n"
        "def run(args): say(args, f'hello {args.to}'); emit(args, args.to)\n"
    )
    (tmp_path / "helper.py").write_text("")
    monkeypatch.setattr(cli, "__path__", [*cli.__path__, str(tmp_path)])
    assert run(capsys, "hello") == (0, "hello world\n", "")
    assert run(capsys, "hello", "--to", "you", "--json")[1] == '"you"\n'
    told = run(capsys, "--help")[1]
    assert "hello     greet\n" in told and "helper" not in told and "common" not in told
    assert "who (default: world)" in run(capsys, "hello", "--help")[1]
    for name in ("hello", "helper"):
        monkeypatch.delitem(sys.modules, f"tpugraphs.cli.{name}")
        monkeypatch.delattr(cli, name)


def test_a_command_does_not_wait_for_the_options_of_others(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("train", "layertime.fit"):
        monkeypatch.setattr(f"tpugraphs.cli.{name}.add_arguments", None)
    assert run(capsys, "recipes")[0] == 0 and run(capsys, "layertime", "--help")[0] == 0
    with pytest.raises(TypeError):
        cli._parser()


def test_version_and_module_entry() -> None:
    done = python("-m", "tpugraphs", "--version")
    assert (done.returncode, done.stdout) == (0, f"tpugraphs {tg.__version__}\n")


def test_help_imports_neither_numpy_nor_the_core() -> None:
    code = (
        "import sys; from tpugraphs import cli; assert cli.main(['--help']) == 0\n"
        "heavy = {'numpy', 'tpugraphs._core', 'matplotlib', 'tqdm'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    done = python("-c", code)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "argv, tells",
    [
        ([], "COMMAND"),
        (["fly"], "invalid choice: 'fly'"),
        (["inspect"], "DATA"),
        (["train"], "--data"),
        (["train", "--steps", "many", "--data", "x"], "--steps: expected a whole number, got 'many'"),
        (["inspect", "sample:nothing"], "no sample 'nothing'"),
        (["inspect", "layout:xla:best"], "no collection or sample of that name"),
        (["inspect", "layout:xla:random/middle"], "no split 'middle'"),
        (["inspect", madeup.path("kernel_00"), "--threads", "0"], "at least 1"),
        (["train", "--data", madeup.path("kernel_00"), "--set", "loss=\udcff"], "expected UTF-8 text"),
        (
            ["inspect", madeup.path("kernel_00"), "--threads", "100000"],
            "--threads: expected at most 4096, got 100000",
        ),
        (["inspect", madeup.path("kernel_00"), "--threads", "9" * 400], "--threads: expected at most 4096"),
        (
            ["inspect", madeup.path("kernel_00"), "--threads", "9" * 9000],
            "--threads: expected a whole number",
        ),
        (["pack", "x", "--jobs", "9" * 400], "--jobs: expected at most 4096"),
        (["demo", "--steps", "9" * 400], "--steps: expected at most"),
        (["demo", "--seed", "-1"], "--seed: expected at least 0, got -1"),
        (["evaluate", "r", "x", "--seed", "-1"], "--seed: expected at least 0, got -1"),
        (["predict", "r", "x", "--tta", "9" * 400], "--tta: expected at most 10000"),
        (["train", "--data", "x", "--seeds", "9" * 400], "--seeds: expected at most 1000"),
        *[
            (
                ["train", "--data", madeup.path("program"), "--set", f"learning_rate={text}"],
                "learning_rate must be",
            )
            for text in ("1" + "0" * 400, "1e400", "0x1" + "0" * 9000, "(" * 300, "{[]: 1}")
        ],
        (
            ["inspect", madeup.path("kernel_00"), "--exclude", "@latin.txt"],
            "expected UTF-8 text, found byte 0xe9 at 3",
        ),
        (["submit"], "RANKER and DATA, or --merge"),
        (["submit", "r.safetensors"], "give the graphs to rank"),
        (["submit", "r.safetensors", "--validate", "x"], "RANKER and DATA, or --merge"),
        (
            ["train", "--data", madeup.path("long"), "--steps", "1", "--epochs", "1"],
            "--epochs: not allowed with",
        ),
    ],
)
def test_wrong_usage_is_exit_code_2(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    argv: list[str],
    tells: str,
) -> None:
    (tmp_path / "latin.txt").write_bytes("xyz\u00e9\n".encode("latin-1"))
    monkeypatch.chdir(tmp_path)
    code, out, err = run(capsys, *argv)
    assert (code, out) == (2, "")
    assert tells in one_line(err) and len(err) < 2500


def test_missing_and_broken_files_are_exit_code_1(capsys: pytest.CaptureFixture[str], tmp_path) -> None:
    code, _, err = run(capsys, "inspect", tmp_path / "none.npz")
    assert code == 1 and "none.npz: No such file" in one_line(err) and "check the path" in err
    broken = tmp_path / "broken.npz"
    broken.write_bytes(b"no zip file at all")
    code, _, err = run(capsys, "inspect", broken)
    assert code == 1 and str(broken) in one_line(err)
    (tmp_path / "empty").mkdir()
    code, _, err = run(capsys, "inspect", tmp_path / "empty")
    assert code == 1 and "no .npz files in this directory" in one_line(err)
    code, _, err = run(capsys, "inspect", "layout:xla:random", "--root", tmp_path)
    assert code == 1 and str(tmp_path) in one_line(err)


def test_errors_as_json_and_with_traceback(capsys: pytest.CaptureFixture[str], tmp_path) -> None:
    broken = tmp_path / "broken.npz"
    broken.write_bytes(b"PK nothing")
    code, out, _ = run(capsys, "inspect", broken, "--json")
    told = json.loads(out)
    assert code == 1 and told["kind"] == "DataError" and told["file"] == str(broken)
    with pytest.raises(tg.DataError):
        run(capsys, "inspect", broken, "--debug")


def test_inspect(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "inspect", madeup.path("program"))
    assert code == 0 and "1,200 nodes" in out and "112 configs" in out
    code, out, _ = run(capsys, "inspect", madeup.path("kernel_00"), "--json")
    told = json.loads(out)
    assert code == 0 and told["kind"] == "tile" and told["configs"] == 61


def test_inspect_directory_goes_on_after_a_broken_file(capsys: pytest.CaptureFixture[str], tmp_path) -> None:
    for name in ("a", "c"):
        madeup.graph("kernel_05").save(tmp_path / f"{name}.npz")
    (tmp_path / "b.npz").write_bytes(b"")
    code, out, err = run(capsys, "inspect", tmp_path)
    assert code == 1 and "3 graphs, 1 broken" in out and "b.npz" in one_line(err)
    code, out, _ = run(capsys, "inspect", tmp_path, "--json", "--exclude", "b")
    assert code == 0 and [told["name"] for told in json.loads(out)] == ["a", "c"]
    code, _, err = run(capsys, "inspect", tmp_path, "--exclude", "*")
    assert code == 1 and "--exclude leaves out all" in one_line(err)


def test_collections_open_below_root(capsys: pytest.CaptureFixture[str], tmp_path) -> None:
    folder = tmp_path / "npz" / "tile" / "xla" / "valid"
    folder.mkdir(parents=True)
    madeup.graph("kernel_05").save(folder / "kernel.npz")
    code, out, _ = run(capsys, "inspect", "tile:xla/valid", "--root", tmp_path, "--json")
    assert code == 0 and json.loads(out)["collection"] == "tile:xla"


def test_submit_validate(capsys: pytest.CaptureFixture[str], tmp_path) -> None:
    good, bad = tmp_path / "good.csv", tmp_path / "bad.csv"
    submission.write(good, {"layout:xla:random:g": np.array([2, 0, 1])})
    bad.write_text("ID,TopConfigs\nlayout:xla:random:g,0;0;1\n")
    code, out, _ = run(capsys, "submit", "--validate", good)
    assert code == 0 and "valid, 1 row" in out
    code, out, _ = run(capsys, "submit", "--validate", bad, "--json")
    told = json.loads(out)
    assert code == 1 and not told["valid"] and told["problems"][0]["line"] == 2
    submission.write(tmp_path / "t.csv", {f"layout:xla:random:{x}": np.arange(3) for x in "gh"})
    code, out, _ = run(capsys, "submit", "--validate", good, "--template", tmp_path / "t.csv")
    assert code == 1 and "layout:xla:random:h: missing" in out


def test_submit_merge(capsys: pytest.CaptureFixture[str], tmp_path) -> None:
    paths = []
    for name, order in (("a", [0, 1]), ("b", [1, 0])):
        paths.append(tmp_path / f"{name}.csv")
        submission.write(paths[-1], {f"layout:xla:random:{name}": order, "layout:nlp:default:c": order})
    out = tmp_path / "all.csv"
    code, _, err = run(capsys, "submit", "--merge", *paths, "--out", out)
    assert code == 1 and "layout:nlp:default:c" in one_line(err) and not out.exists()
    code, text, _ = run(capsys, "submit", "--merge", *paths, "--out", out, "--overwrite")
    assert code == 0 and "3 graphs" in text
    assert submission.read(out)["layout:nlp:default:c"].tolist() == [1, 0]
    code, _, err = run(capsys, "submit", "--merge", *paths, "--out", tmp_path / "no" / "x.csv")
    assert code == 1 and "no such directory" in one_line(err)


def test_doctor(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setenv("TPUGRAPHS_NUM_THREADS", "2")
    code, out, _ = run(capsys, "doctor", "--json")
    told = json.loads(out)
    assert code == 0 and told["core"] == "ok" and told["tpugraphs"] == tg.__version__
    assert "TPUGRAPHS_NUM_THREADS=2" in told["threads"]
    assert isinstance(told["hints"], list) and told["processors"] == os.cpu_count()
    monkeypatch.setenv("TPUGRAPHS_NUM_THREADS", "many")
    code, out, _ = run(capsys, "doctor")
    assert code == 0 and "hint: TPUGRAPHS_NUM_THREADS='many' is not a number of threads" in out
    assert "all is well" not in out


@pytest.mark.parametrize("level", _core.isa_levels())
def test_doctor_tells_how_bf16_is_multiplied(capsys: pytest.CaptureFixture[str], level: str) -> None:
    best = _core.isa_levels()[0]
    _core.set_isa(level)
    code, out, _ = run(capsys, "doctor", "--json")
    told = json.loads(out)
    assert code == 0 and told["instruction_set"] == level
    assert ("own instruction" in told["bf16_products"]) == (level == "avx512_bf16")
    slower = f"{level} is in use, but {best} is faster on this processor"
    assert (slower in told["hints"]) == (level != best)


def test_interrupt_is_one_line(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr("tpugraphs.cli.doctor.run", interrupted)
    code, _, err = run(capsys, "doctor")
    assert code == 130 and err == "\ntpugraphs doctor: interrupted\n"


@pytest.mark.skipif(os.name != "posix", reason="a shell")
@pytest.mark.parametrize(
    "redirection, code, tells",
    [
        (">&-", 0, ""),
        (">&- 2>&-", 0, ""),
        ("| exec true", 1, ""),
        (">/dev/full", 1, "error: No space left on device\n"),
    ],
)
@pytest.mark.parametrize("arguments", ["recipes", "recipes --json", "--help"])
def test_an_output_that_takes_nothing(redirection: str, code: int, tells: str, arguments: str) -> None:
    path = os.pathsep.join(filter(None, map(os.path.abspath, sys.path)))
    wait = "import sys, time; time.sleep(0.5 * ('|' in sys.argv.pop(1)))"  # until the reader has gone
    command = [sys.executable, f"{wait}; from tpugraphs import cli; sys.exit(cli.main())", redirection]
    done = subprocess.run(
        ["bash", "-c", f'"$0" -P -c "$1" "$2" {arguments} {redirection}; exit ${{PIPESTATUS[0]}}', *command],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": path, "PYTHONUNBUFFERED": ""},  # which hides errors of --help
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (code, "") and tells in done.stderr
    assert done.stderr.count("\n") == bool(tells), done.stderr


@pytest.mark.skipif(os.name != "posix", reason="names of bytes")
def test_a_broken_file_whose_name_is_not_utf_8(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for end in (".npz", ".safetensors"):
        path = os.fsencode(tmp_path) + b"/\xff" + end.encode()
        with open(path, "wb") as file:
            file.write(b"nothing")
        command = "inspect" if end == ".npz" else "evaluate"
        code, _, err = run(
            capsys, command, os.fsdecode(path), *([madeup.path("kernel_05")] * (end != ".npz"))
        )
        assert code == 1 and "\\udcff" in ascii(one_line(err))


@pytest.mark.skipif(os.name != "posix", reason="names of bytes")
def test_names_that_the_output_cannot_encode(tmp_path: Path) -> None:
    madeup.graph("kernel_05").save(tmp_path / "xyz\u00e9.npz")
    for encoding in ("ascii", "utf-8"):
        child = {"PYTHONIOENCODING": encoding, "PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path))}
        done = subprocess.run(
            [sys.executable, "-P", "-m", "tpugraphs", "inspect", "xyz\u00e9.npz"],
            capture_output=True,
            env=os.environ | child,
            cwd=tmp_path,
            timeout=60,
        )
        shown = b"xyz\\xe9" if encoding == "ascii" else "xyz\u00e9".encode()
        assert (done.returncode, done.stderr) == (0, b"") and shown in done.stdout


def test_set_values() -> None:
    parse = cli.common.parse_fields
    assert parse(["a=1", "b=0.5", "c=x", "d=true", "e=(1, 2)", "f=None", "prune=none"]) == {
        "a": 1, "b": 0.5, "c": "x", "d": True, "e": (1, 2), "f": None, "prune": "none",
    }  # fmt: skip
    refuses(lambda: parse(["a"]), tg.ConfigError, "--set a")
