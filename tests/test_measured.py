"""The collections that come with the package: measured by tpugraphs, whole, and split by family."""

import os
import subprocess
import sys

import numpy as np
import pytest

import tpugraphs as tg
from tpugraphs.data.collections import ARCHIVE, OWN
from tpugraphs.names import FOLDERS, SPLITS

NAMES = [name for name, folder in FOLDERS.items() if (OWN / folder / ARCHIVE).is_file()]


@pytest.fixture(scope="module", params=NAMES)
def collection(request):
    return tg.open_collection(request.param, root="/nonexistent")


def graphs_of(collection):
    return {split: list(getattr(collection, split)) for split in SPLITS}


def test_one_is_here():
    assert "options:xla:cpu" in NAMES
    graphs = [path for path in OWN.rglob("*") if path.is_file() and "layers" not in path.parts]
    size = sum(path.stat().st_size for path in graphs)  # that of layers: test_layertime_shipped.py
    assert size <= 1_200_000


def test_graphs_are_measured(collection):
    graphs = [graph for split in graphs_of(collection).values() for graph in split]
    assert len(graphs) >= 72
    for graph in graphs:
        graph.validate()
        assert graph.collection == collection.name and graph.has_runtimes
        ran = 63 if graph.name == "composed-windows-gradient.2" else 98  # others overflow there
        assert graph.num_configs >= 100 and len(graph.ran) >= ran, graph.name
        assert graph.valid[0], "row 0 is the default"
        repeats = graph.repeats[graph.ran]
        assert repeats.shape[1] >= (10 if graph.name.endswith((".0", ".1")) else 4)  # fewer of long programs
        np.testing.assert_array_equal(graph.runtime[graph.ran], np.rint(repeats.min(1)))
        assert graph.about["noise_ceiling"] == pytest.approx(tg.metrics.noise_ceiling(repeats))
        assert graph.about["machine"]["platform"] == "cpu"


def test_families_are_in_one_split(collection):
    families = {
        split: {graph.name.rpartition(".")[0] for graph in graphs}
        for split, graphs in graphs_of(collection).items()
    }
    assert sum(map(len, families.values())) == len(set().union(*families.values())) >= 24
    assert all(len(some) >= 4 for some in families.values())


def test_options_are_shared_by_programs():
    collection = tg.open_collection("options:xla:cpu", root="/nonexistent")
    first = collection.train[0]
    for graph in (*collection.valid, *collection.test):
        assert graph.schema == first.schema
        np.testing.assert_array_equal(graph.config_feat, first.config_feat)


def test_the_data_sheet_is_of_these_graphs(collection):
    pytest.importorskip("jax", reason="needs JAX: pip install 'tpugraphs[jax]'")
    sheet = (OWN / FOLDERS[collection.name] / "README.md").read_text()
    assert sheet == tg.xla.data_sheet(collection.folder)


def test_a_collection_is_unpacked_once_and_removed_at_the_end(tmp_path):
    program = """if True:
        import os, tpugraphs as tg
        first, again = (tg.open_collection("options:xla:cpu", root="/nonexistent") for _ in range(2))
        assert first.folder == again.folder
        print(len(first.train), len(os.listdir(os.environ["TMPDIR"])))
    """
    env = os.environ | {"TMPDIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", program], env=env, capture_output=True, text=True, check=True
    )
    graphs, folders = map(int, done.stdout.split())
    assert graphs >= 72 and folders == 1 and not any(tmp_path.iterdir())
