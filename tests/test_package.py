"""What is installed: light to import, one stable-ABI extension, no pickle, samples inside."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tpugraphs as tg
from tpugraphs import _core
from tpugraphs.data.collections import ARCHIVE, OWN
from tpugraphs.names import SPLITS

PACKAGE = Path(tg.__file__).parent
HEAVY = {"matplotlib", "scipy", "torch", "pandas", "sklearn", "IPython", "safetensors", "tqdm"}


def imported(code):
    """Top-level modules in a fresh process after `code`."""
    code += "\nimport json, sys; print(json.dumps(sorted({m.split('.')[0] for m in sys.modules})))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout))


def test_import_loads_nothing_heavy():
    assert not imported("import tpugraphs") & (HEAVY | {"numpy"})


def test_loading_and_scoring_loads_nothing_heavy():
    used = imported(
        "import tpugraphs as tg; tg.open_collection('options:xla:cpu').test[0].num_configs; "
        "tg.metrics, tg.kernels, tg.submission"
    )
    assert "numpy" in used and not used & HEAVY


def test_extension_is_stable_abi():
    assert Path(_core.__file__).name == "_core.abi3.so"


def test_no_pickle():
    danger = re.compile(
        r"\b(?:import|from)\s+(?:pickle|marshal|shelve|dill|joblib)\b|allow_pickle\s*=\s*True"
    )
    assert not [p.name for p in PACKAGE.rglob("*.py") if danger.search(p.read_text())]


def test_all_data_is_our_own():
    """Graphs and layers in the package are those that its own programs measured, each with its data sheet."""
    suffixes = {".npz", ".pb", ".csv", ".gz", ".xz", ".tgpack", ".npy", ".parquet"}
    held = [path for path in PACKAGE.rglob("*") if path.suffix in suffixes]
    assert held and all(path.is_relative_to(OWN) and (path.parent / "README.md").is_file() for path in held)
    for path in held:
        if path.name == ARCHIVE:
            collection = tg.open_collection(":".join(path.parts[-4:-1]), root="/nonexistent")
            assert all(graph.about["machine"] for split in SPLITS for graph in getattr(collection, split))
        else:
            assert tg.layertime.read_table(path, path.name.removesuffix(".csv.gz")).devices


def test_a_wrong_dtype_names_both():
    with pytest.raises(
        tg.ShapeError, match=r"weight: expected float32 array of shape .*, got float64 \(3, 4\)"
    ):
        tg.kernels.linear(np.zeros((2, 4), np.float32), np.zeros((3, 4)), np.zeros(3, np.float32))


@pytest.mark.parametrize("use", ["tg.open_collection('options:xla:cpu').test[0]", "tg.set_num_threads(1)"])
def test_an_instruction_set_that_is_not_there_is_refused(use):
    """A misspelt name must not train with other bits than were asked for."""
    env = os.environ | {"TPUGRAPHS_ISA": "avx51"}
    command = [sys.executable, "-c", f"import tpugraphs as tg; {use}"]
    told = subprocess.run(command, env=env, capture_output=True, text=True).stderr
    expected = f"expected one of {', '.join(_core.isa_levels())} on this machine, found 'avx51'"
    assert f"ConfigError: TPUGRAPHS_ISA: {expected}" in told
    command = [sys.executable, "-m", "tpugraphs", "recipes", "first-layout"]
    for name, code in (("avx51", 2), ("baseline", 0), ("", 0)):
        env = os.environ | {"TPUGRAPHS_ISA": name}
        done = subprocess.run(command, env=env, capture_output=True, text=True)
        assert done.returncode == code and (code == 0) == (done.stderr == "")
        assert done.stderr.count("\n") <= 1


def test_an_unbuilt_clone_says_what_to_do(tmp_path):
    shutil.copytree(
        PACKAGE, tmp_path / "tpugraphs", ignore=shutil.ignore_patterns("*.so", "*.npz", "__pycache__")
    )
    (tmp_path / "setup.py").touch()
    env = os.environ | {"PYTHONPATH": str(tmp_path)}
    # an editable install finds the core of its own clone, for any tpugraphs that lacks one
    alone = (
        "import sys; sys.meta_path[:] = [finder for finder in sys.meta_path "
        "if '__editable__' not in str(getattr(finder, '__module__', ''))]"
    )
    for use in ("tg.load('a.npz')", "tg.set_num_threads(1)", "from tpugraphs import data"):
        command = [sys.executable, "-c", f"{alone}; import tpugraphs as tg; {use}"]
        told = subprocess.run(command, env=env, capture_output=True, text=True).stderr
        assert f"\nImportError: the C core is not built in {tmp_path}" in told and "make build" in told
    command = [sys.executable, "-c", f"{alone}; from tpugraphs.cli import main; sys.exit(main(['doctor']))"]
    done = subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 1 and "make build" in done.stdout
