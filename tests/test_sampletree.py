"""Made-up graphs in the folders of the five collections."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import sampletree
from refusals import refuses

import tpugraphs as tg
from tpugraphs.data import COLLECTIONS


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return sampletree.write(tmp_path_factory.mktemp("samples") / "data")


@pytest.mark.parametrize("name", COLLECTIONS)
def test_collections_open(root: Path, name: str) -> None:
    collection = tg.open_collection(name, root)
    assert all(graph.has_runtimes for graph in collection.train)
    assert all(graph.has_runtimes for graph in collection.valid)
    for graph in collection.test:
        assert not graph.has_runtimes
        assert re.fullmatch("[0-9a-f]{32}", graph.name)
    names = [graph.name for split in ("train", "valid", "test") for graph in getattr(collection, split)]
    assert len(set(names)) == len(names) >= 4


def test_parts_share_no_config(root: Path) -> None:
    collection = tg.open_collection("layout:xla:random", root)
    seen: set[bytes] = set()
    for split in (collection.train, collection.valid, collection.test):
        for graph in split:
            here = {row.tobytes() for row in graph.node_config_feat.digits}
            assert not here & seen
            seen |= here


def test_same_files_again(root: Path, tmp_path: Path) -> None:
    again = sampletree.write(tmp_path / "again")
    ours, theirs = (
        {path.relative_to(top): path.read_bytes() for path in top.rglob("*.npz")} for top in (root, again)
    )
    assert ours == theirs


def test_refuses_a_folder_in_use(root: Path) -> None:
    refuses(lambda: sampletree.write(root), tg.DataError, "folder")
