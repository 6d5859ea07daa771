"""Every broken file is a tpugraphs.Error that names file and field, quickly and in little memory."""

import os
import subprocess
import sys
import time
import tracemalloc

import madeup
import numpy as np
import pytest
from broken import json_files, npz, packs, rankers, submissions, tensors
from refusals import refuses

import tpugraphs as tg

TABLE = npz.files()


def test_tables_are_long():
    """Each is run through by the tests of what reads such files."""
    lengths = {
        "npz": len(TABLE),
        "packs": len(packs.files()),
        "submissions": len(submissions.BROKEN),
        "safetensors": len(tensors.BROKEN) + len(tensors.ONLY_OURS),
        "rankers": len(rankers.BROKEN),
        "JSON": len(json_files.BROKEN),
    }
    assert min(lengths.values()) >= 25 and sum(lengths.values()) >= 450, lengths


def test_origin_of_the_table_is_good(tmp_path):
    for name, arrays in {"layout": npz.layout(), "tile": npz.tile()}.items():
        for content in (
            npz.npz(arrays),
            npz.npz(arrays, compressed=False),
            npz.packed(npz.members(arrays)),
        ):
            g = tg.load(npz.write(content, tmp_path / f"{name}.npz")).validate()
            assert g.kind == name and g.num_configs == len(arrays["config_runtime"])


@pytest.mark.parametrize("name", list(TABLE))
def test_broken_file(tmp_path, name):
    field, content = TABLE[name]
    path = npz.write(content, tmp_path / f"{name}.npz")
    tracemalloc.start()
    start = time.perf_counter()
    try:
        with pytest.raises(tg.Error) as caught:
            tg.load(path).validate()
        seconds = time.perf_counter() - start
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    error = caught.value
    assert isinstance(error, tg.DataError)
    assert error.file == str(path) and str(path) in str(error)
    assert error.field == field and field in str(error)
    assert error.found and error.expected and "\n" not in str(error)
    assert str(error).count(";") >= 1  # what to do
    assert seconds < 1.0
    assert peak < 8e6


@pytest.mark.parametrize("make", [npz.layout, npz.tile, npz.any_schema])
def test_a_zip64_end_record_is_read(make, tmp_path):
    content = npz.zip64(make())
    assert b"PK\6\6" in content and b"PK\6\7" in content
    (tmp_path / "large.npz").write_bytes(content)
    (tmp_path / "plain.npz").write_bytes(npz.npz(make()))
    large, plain = (tg.load(tmp_path / f"{name}.npz").validate() for name in ("large", "plain"))
    for field in make():
        if hasattr(plain, field) and field != "schema":
            np.testing.assert_array_equal(
                np.asarray(getattr(large, field)), np.asarray(getattr(plain, field))
            )


@pytest.mark.parametrize("seed", range(4))
def test_random_damage_never_gets_through_wrong(tmp_path, seed):
    """Random bytes overwritten: an Error, or exactly the arrays that were saved (damage to a date, say)."""
    rng = np.random.default_rng(seed)
    arrays = npz.layout() if seed % 2 else npz.tile()
    good = npz.npz(arrays, compressed=seed < 2)
    path = tmp_path / "g.npz"
    refused = 0
    for _ in range(400):
        data = bytearray(good)
        for at in rng.integers(0, len(data), rng.integers(1, 4)):
            data[at] = rng.integers(0, 256)
        path.write_bytes(bytes(data))
        try:
            g = tg.load(path).validate()
        except tg.Error:
            refused += 1
            continue
        for field, array in arrays.items():
            have = getattr(g, field, None)
            # A member may have been renamed to something unknown only if it was optional.
            if have is not None and field != "node_splits":
                np.testing.assert_array_equal(np.asarray(have), array.reshape(np.shape(have)))
    assert refused > 300


@pytest.mark.parametrize("seed", range(2))
def test_random_damage_inside_arrays(seed):
    """From arrays: whatever is accepted has indices that C code may use."""
    rng = np.random.default_rng(seed)
    for _ in range(100):
        arrays = {key: value.copy() for key, value in npz.layout().items()}
        field = rng.choice(list(arrays))
        flat = arrays[field].reshape(-1)
        flat[rng.integers(len(flat))] = rng.choice([-1, 0, 5, 6, 9, 200])
        try:
            g = tg.LayoutGraph(**arrays)
        except tg.DataError as error:
            assert error.field == field and error.file is None
            continue
        assert g.edge_index.min() >= 0 and g.edge_index.max() < g.num_nodes
        assert g.config_digits.min() >= -1 and g.config_digits.max() <= 5
        assert len(set(g.node_config_ids)) == g.num_config_nodes and g.node_config_ids.max() < g.num_nodes


def test_none_is_named_where_a_graph_or_a_file_should_be(tmp_path):
    from tpugraphs import evaluation, submission, training
    from tpugraphs.ranker import baselines

    ranking, program = {"layout:xla:random:a": [0]}, madeup.graph("program")
    for use, *names in (
        (lambda: submission.validate(None), "path", "None"),
        (lambda: submission.merge(None), "path", "None"),
        (lambda: submission.merge([None]), "path", "None"),
        (lambda: submission.write(tmp_path / "s.csv", ranking, counts=3), "counts", "mapping"),
        (lambda: evaluation.measured_runtimes(None), "graph:", "NoneType"),
        (lambda: evaluation.evaluate({"x": len}, [None]), "graphs:", "NoneType"),
        (lambda: training.split_configs(None, (0.5,)), "graph:", "NoneType"),
        (lambda: training.split_configs(program, None), "fractions:"),
        (lambda: training.EarlyStopping(None), "patience"),
        (lambda: baselines.random_scores(None), "graph:", "NoneType"),
        (lambda: baselines.LinearBaseline().fit(None), "graph:", "NoneType"),
        (lambda: tg.Ranker().fit(program, checkpoint_every=None), "checkpoint_every:"),
        (lambda: tg.Ranker().fit(program, checkpoint_dir=3), "path", "3"),
    ):
        refuses(use, tg.Error, *names)
    assert not list(tmp_path.iterdir())


LIMITED = """
import re, resource, sys
import tpugraphs as tg
tg.load(sys.argv[2])  # all of the code is there
used = int(re.search(r"VmSize:\\s*(\\d+)", open("/proc/self/status").read())[1]) * 1024
resource.setrlimit(resource.RLIMIT_AS, (used + (64 << 20), -1))
try:
    tg.load(sys.argv[1])
except MemoryError as error:
    print(error)
for command in ("inspect", "pack"):
    print(tg.cli.main([command, sys.argv[1]]))
"""


@pytest.mark.skipif("libasan" in os.environ.get("LD_PRELOAD", ""), reason="which takes memory of its own")
def test_too_little_memory_names_the_file(tmp_path):
    paths = [str(tmp_path / "large.npz"), str(tmp_path / "small.npz")]
    for path, nodes in zip(paths, (200_000, 4), strict=True):
        feat, opcode = np.zeros((nodes, 140), np.float32), np.zeros(nodes, np.uint8)
        edges = np.zeros((0, 2), np.int64)
        tg.LayoutGraph(node_feat=feat, node_opcode=opcode, edge_index=edges).save(path)
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", LIMITED, *paths], env=env, capture_output=True, text=True)
    said = "large.npz: Unable to allocate 107. MiB for an array with shape (112000000,)"
    lines = [line for line in (done.stdout + done.stderr).splitlines() if said in line]
    assert len(lines) == 3 and all("free memory" in line for line in lines), done.stdout + done.stderr
