"""`-` is standard input or output, and --quiet leaves results, warnings and errors: what goes where."""

from __future__ import annotations

import csv
import io
import json
import os
import shutil
import sys

import madeup
import numpy as np
import pytest

import tpugraphs as tg
from tpugraphs import cli, submission

KERNELS = [madeup.path("kernel_00"), madeup.path("kernel_02")]


def run(capsys, *argv):
    code = cli.main([str(arg) for arg in argv])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.fixture
def feed(monkeypatch):
    """A function that puts text on standard input."""

    def put(text):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode()), "utf-8"))

    return put


@pytest.fixture(scope="module")
def ranker(tmp_path_factory):
    path = tmp_path_factory.mktemp("ranker") / "r.safetensors"
    graphs = [tg.load(madeup.path(name)) for name in ("kernel_01", "kernel_03")]
    made = tg.Ranker("first-tile", steps=3)
    made.fit(graphs, verbose=False)
    made.save(path)
    return path


def rankings():
    return {f"layout:xla:random:g{i}": np.random.default_rng(i).permutation(4 + i) for i in range(2)}


# ---- predict


def test_predict_prints_csv(capsys, ranker, tmp_path):
    code, out, err = run(capsys, "predict", ranker, *KERNELS, "--out", "-")
    assert (code, err) == (0, "wrote scores of 2 graphs to -\n")
    rows = list(csv.DictReader(io.StringIO(out)))
    graphs = [tg.load(path) for path in KERNELS]
    assert len(rows) == sum(graph.num_configs for graph in graphs)
    made = tg.Ranker.load(ranker)
    for graph in graphs:
        own = [row for row in rows if row["graph"] == graph.name]
        np.testing.assert_allclose([float(row["score"]) for row in own], made.predict(graph), rtol=1e-6)
        order = sorted(range(len(own)), key=lambda i: int(own[i]["place"]))
        np.testing.assert_array_equal(order, made.rank(graph))
    assert run(capsys, "predict", ranker, *KERNELS, "--out", tmp_path / "s.csv", "--quiet") == (0, "", "")
    assert (tmp_path / "s.csv").read_text() == out


def test_names_that_are_no_utf_8_are_written_as_they_are_printed(capsysbinary, ranker, tmp_path):
    """A file name may hold any bytes."""
    odd = tmp_path / os.fsdecode(b'odd,\xff".npz')
    shutil.copy(KERNELS[0], odd)
    predict = ["predict", str(ranker), str(odd), "--quiet", "--out"]
    assert cli.main([*predict, str(tmp_path / "s.csv")]) == 0 and cli.main([*predict, "-"]) == 0
    assert (tmp_path / "s.csv").read_bytes() == capsysbinary.readouterr().out
    rows = list(csv.DictReader(io.StringIO((tmp_path / "s.csv").read_text("utf-8"))))
    assert {row["graph"] for row in rows} == {'odd,\\udcff"'}


def test_predict_keeps_an_old_file_when_it_fails(capsys, ranker, tmp_path):
    """The first graph is scored, the second cannot be read."""
    (tmp_path / "s.csv").write_text("old")
    (tmp_path / "broken.npz").write_bytes(b"no zip")
    code, _, err = run(
        capsys, "predict", ranker, KERNELS[0], tmp_path / "broken.npz", "--out", tmp_path / "s.csv"
    )
    assert code == 1 and "broken.npz" in err
    assert (tmp_path / "s.csv").read_text() == "old" and len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize(
    "argv",
    [["predict", "r", "x", "--out", "-", "--json"], ["audit", KERNELS[0], "--write-exclude", "-", "--json"]],
)
def test_two_results_on_one_stream_are_refused(capsys, argv):
    code, out, err = run(capsys, *argv)
    assert code == 2 and "--json prints the result on standard output" in err
    assert set(json.loads(out)) >= {"error", "kind"}


# ---- lists of graphs to leave out


def test_an_audit_is_piped_into_exclude(capsys, feed):
    constant = madeup.path(madeup.CONSTANT[0])
    code, out, err = run(capsys, "audit", *KERNELS, constant, "--write-exclude", "-")
    assert code == 0 and out.splitlines()[-1] == madeup.CONSTANT[0]
    assert "3 graphs" in err and "findings" in err  # the table makes room
    assert run(capsys, "audit", *KERNELS, constant, "--write-exclude", "-", "--quiet") == (0, out, "")
    feed(out)
    code, told, _ = run(capsys, "inspect", *KERNELS, constant, "--exclude", "@-", "--json")
    assert code == 0 and [one["name"] for one in json.loads(told)] == ["kernel_00", "kernel_02"]


def test_standard_input_is_read_once(capsys, feed):
    feed("kernel_02\n")
    code, _, err = run(capsys, "inspect", *KERNELS, "--exclude", "@-", "--exclude", "@-")
    assert code == 2 and "it can be read once" in err


def test_closed_standard_input(capsys, monkeypatch):
    monkeypatch.setattr(sys, "stdin", None)
    code, _, err = run(capsys, "submit", "--validate", "-")
    assert code == 2 and "standard input is closed" in err


# ---- submissions


def written(rows):
    content = io.BytesIO()
    submission.write(content, rows)
    return content.getvalue().decode()


def test_submissions_are_read_and_written_as_open_files(tmp_path):
    rows = rankings()
    submission.write(tmp_path / "s.csv", rows)
    assert written(rows) == (tmp_path / "s.csv").read_text()
    with open(tmp_path / "s.csv", "rb") as file:
        found = submission.read(file)
        assert not file.closed
    assert list(found) == list(rows) and all((found[k] == rows[k]).all() for k in rows)
    broken = io.BytesIO(b"ID,TopConfigs\nlayout:xla:random:a,0;0\n")
    broken.name = "<stdin>" if hasattr(broken, "__dict__") else None
    assert submission.validate(broken).problems[0].line == 2


def test_merge_validate_and_score_stream(capsys, feed, tmp_path):
    rows = rankings()
    first, second = ({key: rows[key]} for key in rows)
    submission.write(tmp_path / "second.csv", second)
    feed(written(first))
    code, out, err = run(capsys, "submit", "--merge", "-", tmp_path / "second.csv", "--out", "-")
    assert (code, out) == (0, written(rows))
    assert "wrote -: 2 graphs" in err and "valid, 2 rows" in err
    feed(out)
    assert run(capsys, "submit", "--merge", "-", "--out", "-", "--quiet") == (0, out, "")
    feed(out)
    partial = ["submit", "--merge", "-", "--out", "-", "--template", tmp_path / "second.csv", "--quiet"]
    code, again, err = run(capsys, *partial)
    assert (code, again) == (1, out) and "does not have this ID" in err
    feed(out)
    code, told, err = run(capsys, "submit", "--validate", "-", "--template", tmp_path / "second.csv")
    assert code == 1 and "does not have this ID" in told and err == ""
    feed(out)
    code, told, _ = run(capsys, "submit", "--validate", "-")
    assert code == 0 and told.endswith(": valid, 2 rows\n")
    feed(out)
    code, _, err = run(capsys, "submit", "--validate", "-", "--template", "-")
    assert code == 2 and "it can be read once" in err


def test_a_ranking_is_piped_into_a_score(capsys, feed, ranker):
    name = ["--collection", "tile:xla"]
    code, out, err = run(capsys, "submit", ranker, KERNELS[0], *name, "--out", "-")
    assert code == 0 and out.startswith("ID,TopConfigs\ntile:xla:kernel_00,") and "wrote -: 1 graph\n" in err
    graph = tg.load(KERNELS[0]).replace(collection="tile:xla")
    piped = submission.score(io.BytesIO(out.encode()), graph)
    assert 0 < piped.graphs["tile:xla:kernel_00"] <= 1


# ---- tables of layers


def layers(count=40):
    rng = np.random.default_rng(0)
    sizes = rng.integers(16, 2048, (count, 3))
    lines = ["batch,dim_input,dim_output,device,ms"]
    lines += [f"{b},{i},{o},V100,{1e-9 * b * i * o + 0.01:.6g}" for b, i, o in sizes.tolist()]
    return "\n".join(lines) + "\n"


def test_tables_of_layers_stream(capsys, feed, tmp_path):
    model = tmp_path / "m.safetensors"
    feed(layers())
    fit = ["layertime", "fit", "-", "--method", "roofline", "--out", model]
    code, _, err = run(capsys, *fit)
    assert code == 2 and "say it by --kind" in err
    code, out, err = run(capsys, *fit, "--kind", "dense")
    assert (code, err) == (0, "") and "learning from 36 layers on V100" in out
    feed(layers())
    code, predicted, _ = run(capsys, "layertime", "predict", model, "-", "--level", "none")
    assert code == 0 and len(predicted.splitlines()) == 41
    feed(layers())
    code, out, _ = run(capsys, "layertime", "audit", "-", "--kind", "dense")
    assert "V100: 40 layers" in out
    feed(layers(20))
    adapted = tmp_path / "adapted.safetensors"
    assert run(capsys, "layertime", "calibrate", model, "-", "--out", adapted, "--quiet")[0] == 0
    feed(layers())
    code, out, _ = run(
        capsys, "layertime", "suggest", model, "--device", "V100", "--count", 3, "--from", "-", "--out", "-"
    )
    assert code == 0 and len(out.splitlines()) == 4
    feed('[{"kind": "dense", "dim_input": 784, "dim_output": 10}]')
    network = ["layertime", "network", model, "--layers", "-", "--batch-size", 32, "--device", "V100"]
    code, out, err = run(capsys, *network, "--level", "none")
    assert (code, err) == (0, "") and "for a batch of 32 on V100" in out


def test_what_is_wrong_in_a_stream_is_said_of_it(capsys, feed, tmp_path):
    feed("batch,dim_input\n1\n")
    code, _, err = run(
        capsys, "layertime", "fit", "-", "--kind", "dense", "--out", tmp_path / "m.safetensors"
    )
    assert code == 1 and "line 2: expected 2 fields" in err
    feed("no submission")
    code, out, _ = run(capsys, "submit", "--validate", "-")
    assert code == 1 and "expected the header" in out


# ---- --quiet


def test_quiet_leaves_results_and_errors(capsys, ranker, tmp_path):
    out = tmp_path / "r.safetensors"
    train = ["train", "--data", *KERNELS, "--steps", "2", "--out", out]
    assert "next: tpugraphs evaluate" in run(capsys, *train)[1]
    assert run(capsys, *train, "--quiet") == (0, "", "")
    loud = run(capsys, "evaluate", ranker, *KERNELS, "--out", tmp_path / "r.md")[1]
    silent = run(capsys, "evaluate", ranker, *KERNELS, "--out", tmp_path / "r.md", "--quiet")[1]
    assert loud == silent + f"wrote {tmp_path / 'r.md'}\n" and "slow@" in silent
    assert run(capsys, "pack", madeup.path("kernel_00"), "--out", tmp_path / "p", "--quiet") == (0, "", "")
    code, text, err = run(capsys, "inspect", tmp_path / "none.npz", "--quiet")
    assert (code, text) == (1, "") and "No such file" in err
    assert (
        run(capsys, "recipes", "--quiet")[1] + "\n"
        == run(capsys, "recipes")[1].partition("tpugraphs recipes")[0]
    )


def test_a_log_without_lines_of_progress(capsys, tmp_path):
    """Standard error is no terminal here: a training tells its evaluations in lines, unless --quiet."""
    train = [
        "train",
        "--data",
        madeup.path("program"),
        "--steps",
        "2",
        "--set",
        "evaluate_every=1",
        "--valid",
        "0.2",
    ]
    train += ["--set", "width=32", "--set", "configs=16", "--out", tmp_path / "r.safetensors"]
    assert "step 2 of 2: " in run(capsys, *train)[2]
    assert run(capsys, *train, "--quiet")[1:] == ("", "")
