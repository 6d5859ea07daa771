"""Names of others: no terminal obeys them, no report runs them, and halves of surrogate pairs end nothing."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from rankers import small_tile
from refusals import refuses

import tpugraphs as tg
from tpugraphs import cli
from tpugraphs.evaluation import evaluate
from tpugraphs.system import progress
from tpugraphs.training import LiveCurve

NAME = "evil\x1b[31m\x9b2J\x7f\u202e<script>alert(1)<script>|[x](y)\r"
SHOWN = r"evil\x1b[31m\x9b2J\x7f\u202e<script>alert(1)<script>"
HALF = "half\ud800"


def obeyed(text):
    """Characters of a text that a terminal would obey."""
    return {letter for letter in text if not letter.isprintable() and letter != "\n"}


@pytest.fixture
def graph(tmp_path):
    """A graph in a file, both called so."""
    path = tmp_path / f"{NAME}.npz"
    small_tile().save(path)
    return tg.load(path)


@pytest.fixture(scope="module")
def ranker(tmp_path_factory):
    path = tmp_path_factory.mktemp("rankers") / "r.safetensors"
    tg.Ranker(recipe="fifth-tile").fit(small_tile(), steps=1, verbose=False).save(path)
    return path


def test_reports(graph, tmp_path):
    report = evaluate(tg.ranker.random_scores, [graph, small_tile()])
    shown = [str(report), repr(report), report.table(), repr(tg.audit([graph])), repr(graph)]
    for text in shown:
        assert SHOWN in text and not obeyed(text)
    markdown = report.to_markdown()
    assert "&lt;script&gt;alert(1)&lt;script&gt;\\|\\[x](y)" in markdown and "<" not in markdown
    assert not obeyed(markdown)
    text = report.to_json()
    assert json.loads(text)["graphs"][0]["graph"] == NAME
    assert not obeyed(text)
    assert "<script>" not in report._repr_html_()
    for suffix in (".md", ".txt", ".json", ".html", ".png"):
        report.save(tmp_path / f"report{suffix}")


def test_errors(graph):
    with pytest.raises(tg.Error) as caught:
        tg.Ranker(recipe="fifth-tile").fit(graph.replace(config_runtime=np.zeros(graph.num_configs, int)))
    assert SHOWN in str(caught.value) and not obeyed(str(caught.value))
    with pytest.raises(tg.Error) as caught:
        tg.load_ranker(graph.path)
    assert SHOWN in str(caught.value) and not obeyed(str(caught.value))


def test_bars_and_lines(capsys, monkeypatch):
    monkeypatch.setattr(progress, "_DELAY", 0)
    list(progress.tracked("ab", NAME, "letter", True))
    assert SHOWN in (err := capsys.readouterr().err) and obeyed(err) == {"\r"}
    progress.notice(NAME)
    assert SHOWN in (err := capsys.readouterr().err) and not obeyed(err.strip("\r"))
    tg.Ranker(recipe="fifth-tile").fit(
        small_tile(), steps=1, verbose=False, callbacks=[LiveCurve(every=1, name=NAME)]
    )
    assert SHOWN in (err := capsys.readouterr().err) and not obeyed(err.strip("\r"))


COMMANDS = {
    "inspect": ["inspect", "GRAPH"],
    "inspect --json": ["inspect", "GRAPH", "--json"],
    "audit": ["audit", "GRAPH"],
    "audit --json": ["audit", "GRAPH", "--json"],
    "predict": ["predict", "RANKER", "GRAPH"],
    "evaluate": ["evaluate", "RANKER", "GRAPH"],
    "evaluate --json": ["evaluate", "RANKER", "GRAPH", "--json"],
    "no ranker": ["predict", "GRAPH", "GRAPH"],
    "no file": ["inspect", "GRAPH.npz"],
    "unknown option": ["inspect", "GRAPH", "--GRAPH"],
    "unknown choice": ["train", "--recipe", "GRAPH", "--data", "GRAPH"],
}


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_commands(name, graph, ranker, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    argv = [one.replace("GRAPH", graph.path).replace("RANKER", str(ranker)) for one in COMMANDS[name]]
    cli.main(argv)
    out, err = capsys.readouterr()
    assert not obeyed(out) and not obeyed(err)
    assert r"\x1b[31m" in out + err or r"\u001b[31m" in out


@pytest.fixture
def half():
    return small_tile(name=HALF)


PATHS = {
    "tg.load": tg.load,
    "tg.load_ranker": tg.load_ranker,
    "graph.save": lambda path: small_tile().save(path),
    "submission.write": lambda path: tg.submission.write(path, {"tile:xla:a": [0, 1]}),
    "submission.validate": tg.submission.validate,
    "checkpoint_dir": lambda path: tg.Ranker("fifth-tile").fit(small_tile(), steps=1, checkpoint_dir=path),
}


@pytest.mark.parametrize("name", sorted(PATHS))
def test_paths_of_half_a_pair(name, tmp_path):
    refuses(lambda: PATHS[name](f"{tmp_path}/{HALF}.npz"), tg.ConfigError, "path", "half\\ud800")


def test_graphs_of_half_a_pair(half, tmp_path, ranker):
    half.save(tmp_path / "graph.npz")
    report = evaluate(tg.ranker.random_scores, [half, small_tile()])
    for suffix in (".md", ".txt", ".json", ".html", ".png"):
        report.save(tmp_path / f"report{suffix}")
        if suffix != ".png":
            assert r"half\ud800" in Path(tmp_path / f"report{suffix}").read_text()
    made = tg.Ranker("fifth-tile").fit(
        [half, small_tile()], steps=1, verbose=False, checkpoint_dir=tmp_path / "c"
    )
    made.save(tmp_path / "r.safetensors")
    tg.load_ranker(tmp_path / "r.safetensors").predict(half)


def test_tables_of_half_a_pair():
    table = {"program": ["a"] * 3, "how": [HALF, "x", "y"], "ms": [1.0, 2.0, 3.0]}
    with pytest.raises(tg.Error, match=r"how.*UTF-8.*half.ud800"):
        tg.from_frame(table, group=["program"], config=["how"], runtime="ms")
    refuses(lambda: tg.Schema(config_feat=[tg.data.Column(HALF)]), tg.ConfigError, "UTF-8")
