"""The command line: the commands that train and rank, on small real data."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import madeup
import numpy as np
import pytest

import tpugraphs as tg
from tpugraphs import cli, evaluation, submission
from tpugraphs.cli import demo
from tpugraphs.cli import evaluate as cli_evaluate
from tpugraphs.names import KINDS

SMALL = ("--set", "width=32", "--set", "configs=16")


def run(capsys: pytest.CaptureFixture[str], *argv: object) -> tuple[int, str, str]:
    code = cli.main([str(arg) for arg in argv])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random collection of parts of AlexNet, and a ranker trained on it."""
    root = tmp_path_factory.mktemp("data")
    graph = madeup.graph("long")
    for place, split in enumerate(("train", "train", "valid", "test", "test")):
        path = root / "npz" / "layout" / "xla" / "random" / split
        path.mkdir(parents=True, exist_ok=True)
        part = graph.select(slice(300 * place, 300 * place + 300))
        if split == "test":
            part = part.replace(config_runtime=np.zeros(300, np.int64))
        part.save(path / f"part{place}.npz")
    code = cli.main(
        ["train", "--data", "layout:xla:random", "--root", str(root), "--out", str(root / "r.safetensors"),
         "--steps", "8", "--recipe", "first-layout-cross", *SMALL, "--json"]
    )  # fmt: skip
    assert code == 0
    return root


def test_train_with_valid_share_and_json(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    out = tmp_path / "u.safetensors"
    code, text, err = run(
        capsys, "train", "--data", madeup.path("program"), "--valid", "0.2", "--steps", "3", *SMALL,
        "--set", "evaluate_every=1", "--out", out, "--json",
    )  # fmt: skip
    told = json.loads(text)
    assert (code, err) == (0, "")
    assert told["out"] == str(out) and len(told["history"]["loss"]) == 3
    assert told["history"]["valid_steps"] == [1, 2, 3]
    assert tg.Ranker.load(out).num_parameters == told["parameters"]


def test_train_tells_what_to_do_next(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    out = tmp_path / "u.safetensors"
    code, text, _ = run(
        capsys, "train", "--data", madeup.path("program"), "--steps", "2", *SMALL, "--out", out
    )
    assert code == 0 and "best validation tau" in text and f"tpugraphs evaluate {out} DATA" in text


@pytest.mark.parametrize("kind", ["layout", "tile", "graph"])
def test_the_recipe_fits_the_kind_of_the_data(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, kind: str
) -> None:
    for name in ("g", "h"):
        if kind == "graph":
            frame = {"width": np.arange(40) % 8, "runtime": np.arange(1, 41) * 1.5}
            graph = tg.from_frame(frame, config="width", runtime="runtime")[0]
        else:
            graph = madeup.graph("long").select(slice(40)) if kind == "layout" else madeup.graph("kernel_05")
        graph.save(tmp_path / f"{name}.npz")
    out = tmp_path / "r.safetensors"
    code, text, err = run(
        capsys, "train", "--data", tmp_path, "--valid", "0", "--steps", "1", "--out", out, "--json"
    )  # fmt: skip
    assert code == 0, err
    assert json.loads(text)["recipe"] == KINDS[kind].recipe == tg.load_ranker(out).recipe
    assert tg.recipes.get_recipe(KINDS[kind].recipe).kind == kind


def test_train_on_a_directory_sets_whole_graphs_aside(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    graph = madeup.graph("long")
    for i in range(11):
        graph.select(slice(40 * i, 40 * i + 40)).save(tmp_path / f"g{i:02}.npz")
    arguments = ("train", "--data", tmp_path, "--steps", "2", *SMALL, "--out", tmp_path / "r.safetensors")
    code, text, _ = run(capsys, *arguments)
    assert code == 0 and "10 graphs to train on, 1 graph to validate on" in text
    code, text, _ = run(capsys, *arguments, "--exclude", "g0[5-9]", "--valid", tmp_path / "g01.npz")
    assert code == 0 and "6 graphs to train on, 1 graph to validate on" in text


def test_a_recipe_for_other_graphs_is_refused_in_one_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    options = ("--recipe", "first-layout", "--out", tmp_path / "r.safetensors")
    code, _, err = run(capsys, "train", "--data", madeup.path("kernel_00"), *options)
    assert code == 1 and "kernel_00" in err and "layout" in err and err.count("\n") == 1


@pytest.mark.parametrize(
    "options, tells",
    [
        (["--recipe", "second-place"], "second-place"),
        (["--set", "breadth=3"], "breadth"),
        (["--set", "width"], "--set width: expected field=value"),
        (["--valid", "1.5"], "--valid 1.5"),
    ],
)
def test_wrong_usage(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, options: list[str], tells: str
) -> None:
    out = tmp_path / "x"
    code, _, err = run(
        capsys, "train", "--data", madeup.path("program"), "--steps", "1", "--out", out, *options
    )
    assert code == 2 and tells in err and err.count("\n") == 1
    assert not out.exists()


def test_output_is_checked_before_the_work(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    out = tmp_path / "no" / "x.safetensors"
    code, _, err = run(capsys, "train", "--data", madeup.path("long"), "--out", out)
    assert code == 1 and str(tmp_path / "no") in err and err.count("\n") == 1


@pytest.mark.parametrize(
    ("argv", "tells"),
    [
        (["train", "--data", madeup.path("program"), "--steps", "0"], "--steps: expected at least 1, got 0"),
        (
            ["train", "--data", madeup.path("program"), "--epochs", "-1"],
            "--epochs: expected at least 1, got -1",
        ),
        (["demo", "--steps", "0"], "--steps: expected at least 1, got 0"),
        (
            ["evaluate", "no.safetensors", madeup.path("program"), "--out", "a.xyz"],
            "--out a.xyz: the name must",
        ),
        (
            ["submit", "no.safetensors", madeup.path("program"), "--collection", "zzz"],
            "--collection zzz: expected",
        ),
    ],
)
def test_options_are_checked_before_the_work(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    argv: list[str],
    tells: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    code, _, err = run(capsys, *argv)
    assert code == 2 and tells in err
    assert not list(tmp_path.iterdir())


def test_evaluate_knows_what_a_report_can_be(tmp_path: Path) -> None:
    report = evaluation.evaluate(lambda graph: graph.config_runtime, madeup.graph("program"))
    for suffix in cli_evaluate.SUFFIXES:
        report.save(tmp_path / f"report{suffix}")
    with pytest.raises(tg.ConfigError):
        report.save(tmp_path / "report.xyz")


def test_evaluate(capsys: pytest.CaptureFixture[str], folder: Path, tmp_path: Path) -> None:
    arguments = ("evaluate", folder / "r.safetensors", "layout:xla:random", "--root", folder)
    code, text, _ = run(capsys, *arguments, "--random", "--out", tmp_path / "r.md")
    assert code == 0 and "part2" in text and "random" in text and "95% interval" in text
    assert "| ranker |" in (tmp_path / "r.md").read_text()
    code, text, _ = run(capsys, *arguments, "--json")
    told = json.loads(text)
    assert code == 0 and told["graphs"][0]["graph"] == "part2"
    ranker, graph = (
        tg.Ranker.load(folder / "r.safetensors"),
        tg.open_collection("layout:xla:random", folder).valid[0],
    )
    expected = tg.metrics.kendall_tau(ranker.predict(graph), graph.config_runtime)
    assert told["graphs"][0]["tau"] == pytest.approx(expected, abs=1e-12)


def test_evaluate_refuses_test_files_and_what_is_no_ranker(
    capsys: pytest.CaptureFixture[str], folder: Path, tmp_path: Path
) -> None:
    code, _, err = run(
        capsys, "evaluate", folder / "r.safetensors", "layout:xla:random/test", "--root", folder
    )
    assert code == 1 and "placeholders" in err and "part3" in err and err.count("\n") == 1
    (tmp_path / "no.safetensors").write_bytes(b"x" * 100)
    code, _, err = run(capsys, "evaluate", tmp_path / "no.safetensors", madeup.path("program"))
    assert code == 1 and "no.safetensors" in err and err.count("\n") == 1


def test_predict(capsys: pytest.CaptureFixture[str], folder: Path, tmp_path: Path) -> None:
    ranker = folder / "r.safetensors"
    expected = tg.Ranker.load(ranker).predict(madeup.graph("program"))
    code, text, _ = run(capsys, "predict", ranker, madeup.path("program"), "--out", tmp_path / "s.npy")
    assert code == 0 and "112 configurations" in text
    np.testing.assert_array_equal(np.load(tmp_path / "s.npy"), expected)
    code, _, _ = run(capsys, "predict", ranker, madeup.path("program"), "--out", tmp_path / "s.csv")
    lines = (tmp_path / "s.csv").read_text().splitlines()
    assert lines[0] == "graph,config,place,score" and len(lines) == 113
    places = [int(line.split(",")[2]) for line in lines[1:]]
    assert np.argsort(places).tolist() == np.argsort(expected, kind="stable").tolist()
    scores = np.array([line.split(",")[3] for line in lines[1:]], np.float32)
    np.testing.assert_array_equal(scores, expected)
    code, text, _ = run(capsys, "predict", ranker, madeup.path("program"), "--json")
    assert json.loads(text)[0]["scores"] == pytest.approx(expected.tolist())
    code, _, err = run(
        capsys, "predict", ranker, "layout:xla:random", "--root", folder, "--out", tmp_path / "s.npy"
    )
    assert code == 2 and "use .csv" in err


def test_precision_is_an_option_of_training_and_scoring(
    capsys: pytest.CaptureFixture[str], folder: Path, tmp_path: Path
) -> None:
    out, graph = tmp_path / "b.safetensors", madeup.graph("program")
    code, *_ = run(
        capsys, "train", "--data", madeup.path("program"), "--valid", "0", "--steps", "2", *SMALL,
        "--precision", "bf16", "--out", out,
    )  # fmt: skip
    ranker = tg.Ranker.load(out)
    assert code == 0 and ranker.precision == "bf16"
    for option, precision in (
        ([], "bf16"),
        (["--precision", "int8"], "int8"),
        (["--precision", "f32"], "f32"),
    ):
        code, *_ = run(capsys, "predict", out, madeup.path("program"), "--out", tmp_path / "s.npy", *option)
        expected = ranker.predict(graph, precision=precision)
        assert code == 0 and (np.load(tmp_path / "s.npy") == expected).all()
        code, text, _ = run(capsys, "evaluate", out, madeup.path("program"), "--json", *option)
        tau = tg.metrics.kendall_tau(expected, graph.config_runtime)
        assert code == 0 and json.loads(text)["graphs"][0]["tau"] == tau
    code, _, _ = run(
        capsys, "submit", folder / "r.safetensors", "layout:xla:random", "--root", folder, "--out",
        tmp_path / "s.csv", "--precision", "int8",
    )  # fmt: skip
    rankings = submission.read(tmp_path / "s.csv")
    part = tg.open_collection("layout:xla:random", folder).test[0]
    loaded = tg.Ranker.load(folder / "r.safetensors")
    assert code == 0 and (rankings["layout:xla:random:part3"] == loaded.rank(part, precision="int8")).all()
    code, _, err = run(capsys, "train", "--data", madeup.path("program"), "--precision", "int8")
    assert code == 2 and "invalid choice: 'int8'" in err


def test_submit(capsys: pytest.CaptureFixture[str], folder: Path, tmp_path: Path) -> None:
    ranker, out = folder / "r.safetensors", tmp_path / "submission.csv"
    code, text, _ = run(capsys, "submit", ranker, "layout:xla:random", "--root", folder, "--out", out)
    assert code == 0 and "valid, 2 rows" in text
    rankings = submission.read(out)
    assert sorted(rankings) == ["layout:xla:random:part3", "layout:xla:random:part4"]
    graph = tg.open_collection("layout:xla:random", folder).test[0]
    np.testing.assert_array_equal(rankings["layout:xla:random:part3"], tg.Ranker.load(ranker).rank(graph))
    code, _, err = run(capsys, "submit", ranker, madeup.path("program"), "--out", out)
    assert code == 1 and "give --collection" in err
    code, text, _ = run(
        capsys,
        "submit",
        ranker,
        madeup.path("program"),
        "--out",
        out,
        "--collection",
        "layout:xla:default",
        "--json",
    )
    assert code == 0 and json.loads(text)["valid"]


def test_recipes(capsys: pytest.CaptureFixture[str]) -> None:
    code, text, _ = run(capsys, "recipes")
    assert code == 0 and all(name in text for name in tg.list_recipes())
    for name in tg.list_recipes():
        code, text, _ = run(capsys, "recipes", name, "--json")
        told = json.loads(text)
        assert (
            code == 0
            and told["fields"]["recipe"] == name
            and told["losses"].keys() == told["options"]["steps"]["default"].keys()
        )
        code, text, _ = run(capsys, "recipes", name)
        shown = " ".join(text.split())
        for field, option in told["options"].items():
            assert f" {field} = " in shown and option["expected"] in shown
            assert option["meaning"][1:] in shown
        if "clip" in told["options"]:
            assert "Losses: " in shown and "learning rate" in shown
            for head, field in (("Optimizer", "optimizer"), ("Schedule", "schedule")):
                assert f"{head}: {told['options'][field]['default']['cpu']}" in shown


@pytest.mark.slow
def test_demo_quick(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Where JAX is, with a program that is measured now."""
    out, live = tmp_path / "demo", find_spec("jax") is not None
    monkeypatch.setattr(demo, "LIVE", {"n_configs": 8, "rounds": 2})
    code, text, _ = run(capsys, "demo", "--quick", *["--live"] * live, "--out", out)
    assert code == 0 and ("gated-layer" in text) == live
    if live:
        graph = tg.load(out / "live.npz")
        assert graph.num_configs == 8 and graph.about["rounds"] == 2
    for word in ("ranker", "mean effect", "random", "95% interval", "XLA's own choice", "tpugraphs collect"):
        assert word in text
    assert (out / "report.png").read_bytes().startswith(b"\x89PNG")
    assert (out / "report.png").stat().st_size < 150_000
    test = tg.open_collection("options:xla:cpu").test
    rows = submission.read(out / "submission.csv")
    assert list(rows) == [graph.submission_id for graph in test]
    told = json.loads((out / "report.json").read_text())
    by_scorer = {group["scorer"]: group for group in told["collections"]}
    assert set(by_scorer) == {"ranker", "graph-config", "mean effect", "random"}
    for metric, better in (("tau", 1), ("slowdown@5", -1)):
        ours, mean = (better * by_scorer[name]["means"][metric] for name in ("ranker", "mean effect"))
        assert ours > mean
    assert {row["graph"] for row in told["graphs"]} == {graph.name for graph in test}
    ranker = tg.load_ranker(out / "ranker.safetensors")
    assert np.array_equal(rows[test[0].submission_id], ranker.rank(test[0], together=5))


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_ctrl_c_says_how_to_go_on_and_going_on_works(tmp_path: Path) -> None:
    state, out = tmp_path / "state", tmp_path / "r.safetensors"
    command = [
        sys.executable, "-P", "-m", "tpugraphs", "train", "--data", madeup.path("program"), "--valid", "0",
        "--steps", "500", "--threads", "1", *SMALL, "--out", str(out), "--checkpoint-dir", str(state),
    ]  # fmt: skip
    path = os.pathsep.join(filter(None, map(os.path.abspath, sys.path)))
    options = {"env": os.environ | {"PYTHONPATH": path}, "text": True}
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)
    deadline = time.monotonic() + 60
    while not state.is_dir() and child.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    time.sleep(0.2)
    child.send_signal(signal.SIGINT)
    _, err = child.communicate(timeout=120)
    assert child.returncode == 130 and err.strip().count("\n") == 0 and "interrupted" in err
    assert not out.exists()
    if list(state.iterdir()):  # at least one step was done
        assert f"resumes from {state}" in err
    done = subprocess.run(command, capture_output=True, timeout=300, **options)
    assert done.returncode == 0, done.stderr
    assert out.exists()
