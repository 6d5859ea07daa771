"""Texts of files take a limited amount of memory, whatever is packed in them."""

import gzip
import io
import subprocess
import sys
import zipfile

import madeup
import numpy as np
import pytest
from refusals import refuses

import tpugraphs as tg
from tpugraphs.layertime import read_table
from tpugraphs.system import texts

HEAD = b"batch,dim_input,dim_output,ms\n"
ROW = b"1,1,1,1\n"
SCRIPT = """
import sys, tpugraphs as tg, tpugraphs.layertime, numpy
from tpugraphs.system import machine
machine.forget_peak()
before = machine.peak()
try:
    found = eval(sys.argv[1])(sys.argv[2])
    print("read", len(found))
except tg.Error as error:
    print(error)
print((machine.peak() - before) >> 20)
"""
TABLE = "lambda path: tg.layertime.read_table(path, 'dense', 'V100')"


def read_alone(path, how=TABLE):
    """What reading it in a process of its own says, and the MiB that it took."""
    run = [sys.executable, "-c", SCRIPT, how, path]
    *said, mib = subprocess.run(run, capture_output=True, text=True, check=True).stdout.splitlines()
    return "\n".join(said), int(mib)


BOMBS = {
    "rows": (HEAD + ROW * 6_000_000, "more than 256 MiB of memory; split it, and give a list of its parts"),
    "a row": (HEAD + b"1," * 25_000_000, "line 2: longer than 1 MiB"),
    "a head": (b"," * 50_000_000, "line 1: longer than 1 MiB"),
    "a word": (HEAD + b"1" * 50_000_000, "line 2: longer than 1 MiB"),
    "quotes": (HEAD + b'"\n"' + b',"\n"' * 12_000_000, "longer than 1 MiB"),
    "empty lines": (HEAD + ROW + b"\n" * 5_000_000 + ROW, "line 3: expected 4 fields as in line 1, found 0"),
    "zeros": (bytes(50_000_000), "line 1: longer than 1 MiB"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", BOMBS)
def test_what_is_packed_in_a_table_does_not_fill_the_memory(name, tmp_path):
    """Some 49 kB, which hold 50 MB: they took 1 GiB when the text was read whole."""
    content, expected = BOMBS[name]
    path = tmp_path / "dense_V100.csv.gz"
    path.write_bytes(gzip.compress(content))
    said, mib = read_alone(path)
    assert said.startswith(f"{path}: ") and said.endswith(expected) and mib < 120, (said, mib)


def test_the_longest_table_takes_little_memory(tmp_path):
    """Columns that no model reads take none."""
    path = tmp_path / "dense_V100.csv.gz"
    path.write_bytes(
        gzip.compress(
            HEAD[:-1] + b",why\n" + ROW[:-1] + b",why not?\n" + (ROW[:-1] + b",%d\n" % 10**30) * 10**6
        )
    )
    said, mib = read_alone(path)
    assert said == "read 1000001" and mib < 350, (said, mib)


def test_one_long_word_does_not_make_columns_wide(tmp_path):
    """Arrays of text are as wide as their longest: 100 kB in one of 100,000 rows were 40 GB."""
    path = tmp_path / "dense.csv"
    rows = b"1,1,1,1,V100\n" * 100_000
    for row, said in (
        (b"1,1,1,1,%s\n", "device 'xxx"),
        (b"1,1,%s,1,V100\n", "row 100000: expected a number, found 'xxx"),
    ):
        path.write_bytes(HEAD[:-1] + b",device\n" + rows + row % (b"x" * 100_000))
        found, mib = read_alone(path, "lambda path: tg.layertime.read_table(path, 'dense')")
        assert said in found and mib < 150, (found[:300], mib)
    path.write_bytes(HEAD[:-1] + b",optimizer\n" + b"1,1,1,1,Adam\n" * 9 + b"1,1,1,1," + b"x" * 10_000)
    with pytest.raises(tg.DataError, match="row 9: expected one of None.*found 'xxx") as caught:
        read_table(path, "dense", "V100")
    assert len(str(caught.value)) < 500


class Blocks(io.BytesIO):
    """A file that gives `size` bytes at a time."""

    def read1(self, _=-1):
        return super().read1(self.size)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_blocks_end_anywhere(end):
    """Rows, line ends, letters of several bytes and quoted lines are cut by the blocks, and read all the same."""
    rows = [["a", "b"], ["1", "zwölf"], ["", 'he said "no"'], [f"two{end}lines", "x,y"], ["é", "4"]]
    quoted = [",".join(f'"{word.replace(chr(34), 2 * chr(34))}"' for word in row) for row in rows]
    for mark in ("", "\ufeff"):
        for size in range(1, 60):
            given = Blocks((mark + end.join(quoted) + 2 * end).encode())
            given.size = size
            assert texts.csv_columns(given) == {
                "a": [row[0] for row in rows[1:]],
                "b": [row[1] for row in rows[1:]],
            }


def test_damaged_tables(tmp_path):
    for content, *names in (
        (b"", "column names", "0 lines"),
        (b"a,b\n\n", "column names", "1 line"),
        (b"\na,b\n1,2\n", "line 1", "found 0"),
        (b"a,b,a\n1,2,3\n", "line 1", "'a' twice"),
        (b"a,b\n1,2\n1\n", "line 3", "2 fields as in line 1", "found 1"),
        (b"a,b\n1,\xff\n", "UTF-8"),
        (b"a,b\n1," + b"2" * 200_000, "damaged"),
    ):
        (tmp_path / "a.csv").write_bytes(content)
        refuses(lambda: texts.csv_columns(tmp_path / "a.csv"), tg.DataError, "a.csv", *names)
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(b"a\n1\n" * 9)[:-9])
    refuses(lambda: texts.csv_columns(tmp_path / "a.csv.gz"), tg.DataError, "a.csv.gz", "UTF-8")


# --- JSON ---------------------------------------------------------------------------------------------------------


def test_a_schema_that_is_packed_does_not_fill_the_memory(tmp_path):
    """An npz of some 50 kB, whose schema is 48 MB of empty lists: they took more than a GiB."""
    graph = tg.Graph(
        node_feat=np.ones((1, 1), np.float32), edge_index=np.zeros((0, 2), np.int64),
        config_feat=np.ones((2, 1), np.float32), runtime=np.array([1, 2]),
    )  # fmt: skip
    graph.save(tmp_path / "a.npz")
    with zipfile.ZipFile(tmp_path / "a.npz") as whole, zipfile.ZipFile(tmp_path / "b.npz", "w", 8) as other:
        for name in whole.namelist():
            content = whole.read(name)
            if name == "tpugraphs_schema.npy":
                array = io.BytesIO()
                np.save(array, np.frombuffer(b"[" + b"[]," * 16_000_000 + b"[]]", np.uint8))
                content = array.getvalue()
            other.writestr(name, content)
    said, mib = read_alone(tmp_path / "b.npz", "tg.load")
    assert "schema" in said and "more than 256 MiB of memory" in said and mib < 250, (said, mib)


def test_lists_of_layers_do_not_fill_the_memory(tmp_path):
    path = tmp_path / "layers.json"
    path.write_text("[" + "[]," * 10_000_000 + "[]]")
    said, mib = read_alone(path, "tg.layertime.read_layers")
    assert "more than 256 MiB of memory" in said and mib < 120, (said, mib)
    path.write_text(" " * (65 << 20))
    assert "more than 64 MiB" in read_alone(path, "tg.layertime.read_layers")[0]


def test_texts_of_json():
    assert texts.parsed(b'{"a": [1, "\xc3\xa9"]}') == texts.parsed('{"a": [1, "é"]}') == {"a": [1, "é"]}
    for wrong in (b"[" * 100_000, b"{", b"\xff", "\ud800", ""):
        with pytest.raises(ValueError, match="nested too deep|Expecting|decode|invalid"):
            texts.parsed(wrong)


def test_lists_of_names_that_never_end(tmp_path):
    """`--exclude @-` reads standard input, which may be anything."""
    run = [sys.executable, "-m", "tpugraphs", "inspect", madeup.path("program"), "--exclude", "@/dev/zero"]
    result = subprocess.run(run, capture_output=True, text=True, timeout=120)
    assert result.returncode in (1, 2), result
    assert "/dev/zero: more than 16 MiB of text; is this the right file?" in result.stderr
