"""Submission files: round trip of the real sample, and every kind of broken file named with its line."""

import os

import madeup
import numpy as np
import pytest
from broken.submissions import BROKEN, GOOD, A, B, T
from reference import submission as reference
from refusals import refuses

import tpugraphs as tg
from tpugraphs import submission
from tpugraphs.data import samples
from tpugraphs.submission import files

PUBLISHED = ("sample_submission.csv", "f226df1a065a8ed62a2738a06be492f480801ae7489889b7a0d9fd32c816fd8c")


@pytest.fixture(scope="module")
def sample(tmp_path_factory):
    return madeup.write_submission(tmp_path_factory.mktemp("sample") / "sample_submission.csv")


def save(tmp_path, content):
    path = tmp_path / "s.csv"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


@pytest.mark.parametrize("which", ["made up", "published"])
def test_sample_is_valid_and_survives_a_round_trip(which, sample, tmp_path):
    """Of the competition's own file, if it is in the data folder, and of one like it."""
    if which == "published":
        sample = samples.find(*PUBLISHED)
        if sample is None:
            pytest.skip(f"needs data of others: {PUBLISHED[0]} in a folder of {samples.VARIABLE}")
    report = submission.validate(sample, sample)
    assert report.ok and report.rows == 894 and report.problems == []
    assert "894 rows" in str(report)
    rankings = submission.read(sample)
    assert len(rankings) == 894
    sizes = {}
    for row_id, ranking in rankings.items():
        key = (row_id.rpartition(":")[0], len(ranking))
        sizes[key] = sizes.get(key, 0) + 1
    assert sizes == {(name, length): count for name, (count, length) in madeup.SUBMISSION.items()}
    out = tmp_path / "out.csv"
    submission.write(out, rankings)
    assert out.read_bytes() == sample.read_bytes()


def test_any_permutation_of_the_sample_is_valid(sample, tmp_path):
    rng = np.random.default_rng(0)
    rankings = {k: rng.permutation(len(v)) for k, v in reversed(submission.read(sample).items())}
    out = tmp_path / "out.csv"
    submission.write(out, rankings)
    assert submission.validate(out, sample).ok
    back = submission.read(out)
    assert all(np.array_equal(back[k], rankings[k]) for k in rankings)


@pytest.mark.parametrize("end", ["", "\n", "\r\n"])
def test_line_ends(tmp_path, end):
    text = GOOD.rstrip("\n") + end
    report = submission.validate(
        save(tmp_path, text.replace("\r", "").replace("\n", "\r\n") if "\r" in end else text)
    )
    assert report.ok and report.rows == 2


@pytest.mark.parametrize("name", BROKEN)
def test_broken_files_are_named_with_their_line(tmp_path, name):
    content, line, message = BROKEN[name]
    path = save(tmp_path, content)
    report = submission.validate(path)
    assert not report.ok
    assert report.problems[0].line == line and message in report.problems[0].message, report
    assert f"line {line}" in str(report) and str(path) in str(report)
    with pytest.raises(tg.DataError) as caught:
        report.raise_for_problems()
    assert caught.value.file == str(path)
    with pytest.raises(tg.DataError, match=f"line {line}"):
        submission.read(path)


def test_all_problems_of_a_file_are_reported(tmp_path):
    rows = [f"{A},0;0", "nonsense", f"{T},1;2;3;4;x", f"{B},0;1"]
    report = submission.validate(save(tmp_path, "ID,TopConfigs\n" + "\n".join(rows) + "\n"))
    assert [p.line for p in report.problems] == [2, 3, 4]
    assert report.rows == 4


def test_endless_problems_are_cut(tmp_path):
    report = submission.validate(save(tmp_path, "ID,TopConfigs\n" + "x\n" * 5000))
    assert len(report.problems) == 1000
    assert "at least 1,000" in str(report)


def test_endless_line_is_refused_without_reading_it(tmp_path):
    path = tmp_path / "long.csv"
    with open(path, "wb") as file:
        file.write(f"ID,TopConfigs\n{A},".encode())
        file.truncate(1 << 28)  # sparse: 256 MiB that are not there
    report = submission.validate(path)
    assert [p.line for p in report.problems] == [2] and "longer than" in report.problems[0].message
    refuses(lambda: submission.read(path), tg.DataError, "longer")


def test_against_a_template(sample, tmp_path):
    rankings = submission.read(sample)
    layout = next(k for k in rankings if k.startswith("layout:nlp"))
    tile = next(k for k in rankings if k.startswith("tile"))
    rankings[layout] = np.arange(999)
    del rankings[tile]
    rankings[A] = np.arange(3)
    path = tmp_path / "s.csv"
    submission.write(path, rankings)
    assert submission.validate(path).ok
    found = {p.id: p for p in submission.validate(path, sample).problems}
    assert set(found) == {layout, tile, A}
    assert (
        "999 indices, expected at least the 1,000 of the template" in found[layout].message
        and found[layout].line is not None
    )
    assert found[tile].line is None and "missing" in found[tile].message
    assert "template does not have" in found[A].message


def test_against_counts(tmp_path):
    path = save(tmp_path, GOOD)
    assert submission.validate(path, {A: 3, T: 10}).ok
    assert "out of range" in submission.validate(path, {A: 3, T: 9}).problems[0].message
    assert "expected 4" in submission.validate(path, {A: 4, T: 10}).problems[0].message
    small = save(tmp_path, f"ID,TopConfigs\n{T},1;0;2\n")
    assert submission.validate(small, {T: 3}).ok
    assert "3 indices, expected 5" in submission.validate(small, {T: 8}).problems[0].message
    assert "expected 2" in submission.validate(small, {T: 2}).problems[0].message


def test_known_counts_win_over_a_template(tmp_path):
    """Kaggle's sample lists 1,000 indices of graphs that have 1,001."""
    template, path = tmp_path / "template.csv", tmp_path / "s.csv"
    submission.write(template, {A: np.arange(1000), T: np.arange(5)})
    submission.write(path, {A: np.arange(1001)[::-1], T: [6, 5, 4, 3, 2]})
    assert submission.validate(path, template).ok
    assert submission.validate(path, template, {A: 1001}).ok
    found = submission.validate(path, template, {A: 1000, T: 6}).problems
    assert [p.message for p in found] == [
        "1,001 indices, expected 1,000", "index 6 is out of range 0..5 (graph of 6 configs)",
    ]  # fmt: skip
    submission.write(path, {A: np.arange(1000), T: np.arange(5)})
    found = submission.validate(path, template, {A: 1001}).problems
    assert [p.message for p in found] == ["1,000 indices, expected 1,001"]
    assert "expected 1,001" in submission.validate(path, {A: 1000, T: 9}, {A: 1001}).problems[0].message


def test_other_files_are_refused(tmp_path):
    bad = tmp_path / "template.csv"
    bad.write_text("ID,TopConfigs\nnonsense\n")
    refuses(lambda: submission.validate(save(tmp_path, GOOD), bad), tg.DataError, "template.csv")
    refuses(lambda: submission.validate(tmp_path / "none.csv"), FileNotFoundError, "none.csv")
    refuses(lambda: submission.validate(tmp_path), OSError)


@pytest.mark.parametrize(
    ("row_id", "ranking", "message"),
    [
        (A, [0, 2], "out of range"),
        (A, [0, 0], "appears 2 times"),
        (A, [0, -1], "negative"),
        (A, [], "integers"),
        (A, np.array([], dtype=np.int64), "no indices"),
        (A, [0.0, 1.0], "integers"),
        (A, [[0, 1]], "one-dimensional"),
        (A, [True, False], "integers"),
        (T, [4, 5, 6], "out of range"),
        (T, [4, 5, 6, 7, 4], "appears 2 times"),
        ("alexnet", [0, 1], "is not <collection>"),
        (A + ",x", [0, 1], "is not <collection>"),
        (A + "\n", [0, 1], "is not <collection>"),
    ],
)
def test_write_refuses_bad_rankings_and_leaves_the_old_file(tmp_path, row_id, ranking, message):
    path = save(tmp_path, GOOD)
    refuses(lambda: submission.write(path, {B: [1, 0], row_id: ranking}), tg.DataError, message)
    assert path.read_text() == GOOD
    assert os.listdir(tmp_path) == ["s.csv"]


def test_write_checks_counts_and_cuts_tiles(tmp_path):
    path = tmp_path / "s.csv"
    submission.write(path, {T: np.arange(9)[::-1].astype(np.uint16), A: (2, 0, 1)}, counts={T: 9, A: 3})
    assert path.read_text() == f"ID,TopConfigs\n{T},8;7;6;5;4\n{A},2;0;1\n"
    refuses(lambda: submission.write(path, {A: [2, 0, 1]}, counts={A: 4}), tg.DataError, "expected 4")


def test_failed_replacement_leaves_nothing_behind(tmp_path, monkeypatch):
    path = save(tmp_path, GOOD)

    def fail(*_):
        raise OSError("disk on fire")

    monkeypatch.setattr(os, "replace", fail)
    refuses(lambda: submission.write(path, {A: [0, 1]}), OSError, "on fire")
    assert path.read_text() == GOOD and os.listdir(tmp_path) == ["s.csv"]


def test_arguments_of_a_wrong_kind(tmp_path):
    refuses(lambda: submission.write(tmp_path / "a.csv", {3: [0]}), tg.DataError, "ID", "int")
    refuses(lambda: submission.write(tmp_path / "a.csv", [0]), tg.DataError, "rankings", "found list")
    assert not list(tmp_path.iterdir())
    submission.write(tmp_path / "a.csv", {"layout:xla:random:g": [1, 0]})
    for one in (tmp_path / "a.csv", str(tmp_path / "a.csv")):
        assert submission.merge(one)["layout:xla:random:g"].tolist() == [1, 0]


def test_home_is_known_to_readers_too(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    submission.write("~/a.csv", {"layout:xla:random:g": [1, 0]})
    assert list(submission.read("~/a.csv")) == ["layout:xla:random:g"] and submission.validate("~/a.csv").ok
    refuses(lambda: submission.read(None), tg.ConfigError, "path", "None")


def test_merge(tmp_path):
    one, two, three = (tmp_path / name for name in ("1.csv", "2.csv", "3.csv"))
    submission.write(one, {A: [1, 0], T: [4, 3, 2, 1, 0]})
    submission.write(two, {B: [0, 1], A: [1, 0]})
    submission.write(three, {A: [0, 1]})
    merged = submission.merge([one, two], tmp_path / "all.csv")
    assert list(merged) == [A, T, B]
    back = submission.read(tmp_path / "all.csv")
    assert all(np.array_equal(back[k], merged[k]) for k in merged)
    refuses(lambda: submission.merge([one, three]), tg.DataError, "1.csv")
    np.testing.assert_array_equal(submission.merge([one, three], overwrite=True)[A], [0, 1])


@pytest.mark.parametrize("seed", range(4))
def test_rows_are_those_of_a_plain_reader(tmp_path, seed):
    """The reader against the reference, on files with random damage: same lines, IDs, verdicts and rankings."""
    rng = np.random.default_rng(seed)
    good = [
        f"{A},2;0;1",
        f"{T},9;3;4;0;7",
        f"{T}2,1;0;2",
        f"{B}," + ";".join(map(str, rng.permutation(150))),
        f"{T}3," + ";".join(str(7 * k) for k in rng.permutation(90)),
        f"{A}\u00e9,0",
    ]
    alphabet = [*b'0123456789;;,,:\n\r \t-"x', 0xC2, 0xA0, 0xFF]
    states = set()
    for _ in range(400):
        rows = [good[k] for k in rng.integers(0, len(good), 3)]
        data = bytearray("\n".join(["ID,TopConfigs", *rows]).encode())
        for at in rng.integers(14, len(data), rng.integers(0, 4)):
            how, byte = rng.integers(0, 3), int(rng.choice(alphabet))
            data[at : at + int(how != 1)] = b"" if how == 2 else bytes([byte])
        path = save(tmp_path, bytes(data))
        found = []
        for row in files._rows(path):
            wrong = row.problem or files._ranking_problem(row.id, row.ranking, None)
            found.append((row.line, row.id or None, None if wrong else row.ranking.tolist()))
        expected = reference.rows(bytes(data))
        assert found == expected, bytes(data)
        states |= {(row_id is None, ranking is None) for _, row_id, ranking in found}
    assert len(states) == 3  # no ID, no ranking, good


def test_long_rows(tmp_path):
    rng = np.random.default_rng(0)
    rankings = {f"{A}{k}": rng.permutation(n) for k, n in enumerate((30_000, 1, 9_999, 120_000, 2))}
    submission.write(tmp_path / "s.csv", rankings)
    back = submission.read(tmp_path / "s.csv")
    assert list(back) == list(rankings) and all((back[k] == v).all() for k, v in rankings.items())
    data = (tmp_path / "s.csv").read_bytes()
    assert not submission.validate(save(tmp_path, data.replace(b";119999", b";119998"))).ok
    many = rng.permutation(50_000)
    many[-1] = many[7]
    problem = submission.validate(
        save(tmp_path, f"ID,TopConfigs\n{T},{';'.join(map(str, many))}\n")
    ).problems[0]
    assert problem.message == f"index {many[7]} appears 2 times, expected once"
