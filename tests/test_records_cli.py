"""`tpugraphs records`: show, merge, export."""

from __future__ import annotations

import json

import pytest

from tpugraphs import cli, records
from tpugraphs.records import Journal, Record

SOME = [
    Record({"x": 1, "order": (1, 0)}, (2.0, 4.0), problem="p", device="a"),
    Record({"x": 2}, (1.0, 1.5), problem="p", device="a"),
    Record({"x": 3}, (), "compile", problem="p"),
]


@pytest.fixture
def run(capsys):
    def call(*argv):
        code = cli.main(["records", *map(str, argv)])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


@pytest.fixture
def journal(tmp_path):
    Journal(tmp_path / "a.jsonl").append(SOME)
    return tmp_path / "a.jsonl"


def test_show(run, journal):
    code, out, err = run("show", journal)
    head, _, first, second = out.splitlines()
    assert (code, err) == (0, "")
    assert head.split()[:5] == ["problem", "device", "records", "configs", "failed"]
    assert first.split() == ["p", "a", "2", "2", "-", "1.25", "37.7%", "x=2"]
    assert second.split() == ["p", "-", "1", "1", "1", "compile", "-", "-", "-"]
    code, out, _ = run("show", journal, "--json", "--device", "b", "--maximize")
    found = json.loads(out)
    assert code == 0 and [one["device"] for one in found] == ["a", "b"]
    assert found[0]["config"] == {"x": 1, "order": [1, 0]} and found[1]["statuses"] == {"compile": 1}


def test_show_of_an_empty_journal(run, tmp_path):
    (tmp_path / "a.jsonl").write_text('{"record":')
    assert run("show", tmp_path / "a.jsonl") == (0, "no records\n", "")


def test_export_and_merge(run, journal, tmp_path):
    made = [tmp_path / name for name in ("a.csv", "b.json", "c.txt")]
    for path in made:
        code, out, _ = run("export", journal, path, *(["--format", "t4"] if path.suffix == ".txt" else []))
        assert code == 0 and out == f"wrote 3 records to {path}\n"
        assert records.read(path) == SOME
    code, out, _ = run("merge", tmp_path / "all.jsonl", *made, journal, "--json")
    assert code == 0 and json.loads(out) == {"file": str(tmp_path / "all.jsonl"), "records": 3}
    assert {one.digest for one in records.read(tmp_path / "all.jsonl")} == {one.digest for one in SOME}


def test_errors_are_one_line(run, journal, tmp_path):
    journal.write_bytes(journal.read_bytes().replace(b'"x":2', b'"x":5'))
    for argv, names, expected in [
        (["show", journal], ["a.jsonl", "line 2"], 1),
        (["show", tmp_path / "none.json"], ["none.json"], 1),
        (["export", journal, tmp_path / "no" / "a.csv"], ["no"], 1),
        (["export", journal, tmp_path / "a.odd"], [], 1),
        (["merge", tmp_path / "all.jsonl", journal], ["line 2"], 1),
    ]:
        code, out, err = run(*argv)
        assert (code, out, err.count("\n")) == (expected, "", 1) and all(name in err for name in names), err
    assert not (tmp_path / "all.jsonl").exists()
