"""Graphs out of files by the C library: npz, packs and HLO score as in Python; what is damaged is refused."""

import hlo_files
import numpy as np
import pytest
from rankers import same_as_the_library, small_any, small_graph, small_ranker, small_tile
from test_clib_score import run, with_digits
from test_hlo import Writer

import tpugraphs as tg

MAKE = {"first-layout": small_graph, "first-tile": small_tile, "graph-config": small_any}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A ranker for each kind of graphs, in RECIPE.tgr."""
    folder = tmp_path_factory.mktemp("files")
    for recipe, make in MAKE.items():
        ranker = small_ranker(recipe, steps=3)
        ranker.fit([make(0), make(1)])
        ranker.save(folder / f"{recipe}.tgr")
    return folder


def check(program, folder, recipe, path):
    """The scores of a file are those of Python."""
    done = run(program, folder / f"{recipe}.tgr", path, folder / "scores")
    assert (done.returncode, done.stderr) == (0, "")
    expected = tg.load_ranker(folder / f"{recipe}.tgr").predict(tg.load(path))
    assert len(expected) > 2
    assert same_as_the_library(np.fromfile(folder / "scores", np.float32), expected)


@pytest.mark.parametrize("ending", ["npz", "tgpack"])
@pytest.mark.parametrize("recipe", MAKE)
def test_saved_graphs_score_as_in_python(clib, folder, recipe, ending):
    path = folder / f"graph.{ending}"
    MAKE[recipe](3).save(path)
    check(clib("read"), folder, recipe, path)


@pytest.mark.parametrize("ending", ["npz", "tgpack"])
def test_digits_of_a_schema(clib, folder, ending):
    ranker = small_ranker("graph-config", steps=3)
    ranker.fit([with_digits(0), with_digits(1)])
    ranker.save(folder / "digits.tgr")
    with_digits(3).save(folder / f"digits.{ending}")
    check(clib("read"), folder, "digits", folder / f"digits.{ending}")


def test_hlo_scores_as_in_python(clib, folder):
    for recipe, content in (
        ("first-layout", Writer().tuned(hlo_files.layouts(3, rank=6))),
        ("first-tile", Writer().tuned(hlo_files.tiles(3, rank=6))),
    ):
        (folder / "program.pb").write_bytes(content)
        check(clib("read"), folder, recipe, folder / "program.pb")


def test_damaged_files_are_refused(clib, folder):
    """Cut off, or with a byte changed: an error of one line about the file, or the same graph."""
    program, rng = clib("read"), np.random.default_rng(0)
    for ending in ("npz", "tgpack"):
        path, bad = folder / f"whole.{ending}", folder / f"bad.{ending}"
        small_graph(3).save(path)
        whole = path.read_bytes()
        for cut in (0, 3, 30, len(whole) // 2, len(whole) - 1):
            bad.write_bytes(whole[:cut])
            done = run(program, folder / "first-layout.tgr", bad, folder / "scores")
            assert (
                done.returncode == 1 and done.stderr.startswith(f"{bad}: ") and done.stderr.count("\n") == 1
            )
        for at in rng.integers(0, len(whole), 20):
            changed = bytearray(whole)
            changed[at] ^= 1 << rng.integers(8)
            bad.write_bytes(changed)
            done = run(program, folder / "first-layout.tgr", bad, folder / "scores")
            assert done.returncode in (0, 1) and done.stderr.count("\n") == done.returncode


def test_graphs_of_another_kind_are_refused(clib, folder):
    small_any(3).save(folder / "other.npz")
    done = run(clib("read"), folder / "first-layout.tgr", folder / "other.npz", folder / "scores")
    assert done.stderr == f"{folder}/other.npz: node_feat: expected 140 columns, as the ranker has, found 2\n"
    done = run(clib("read"), folder / "first-layout.tgr", folder / "none.npz", folder / "scores")
    assert done.stderr == f"{folder}/none.npz: cannot open: No such file or directory\n"
