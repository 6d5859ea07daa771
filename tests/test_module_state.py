"""The core imported more than once: each import owns its types, none is kept when it goes, other imports' are refused."""

from __future__ import annotations

import gc
import importlib
import importlib.util
import os
import subprocess
import sys
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from models import first_layout, graph_arrays, rows
from refusals import refuses

import tpugraphs
from tpugraphs import _core

STEPS = first_layout()
# Run in one sub-interpreter after the other: NumPy may refuse to be loaded there, and then the core is refused too.
INSIDE = """
import warnings
warnings.simplefilter("ignore")
try:
    import numpy
except ImportError:
    numpy = None
try:
    from tpugraphs import _core as core
except ImportError:
    assert numpy is None, "the core refuses what NumPy takes"
else:
    assert numpy is not None, "the core takes what NumPy refuses"
    made = core.ModelGraph(numpy.zeros((3, 4), "f4"), None, None, numpy.zeros((1, 2), "i8"), numpy.arange(2))
    assert type(made) is core.ModelGraph
"""
INTERPRETERS = """
import sys
try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters
import numpy
from tpugraphs import _core
for _ in range(3):
    one = interpreters.create()
    failed = interpreters.run_string(one, {code!r})
    assert failed is None, failed
    interpreters.destroy(one)
_core.ModelGraph(numpy.zeros((3, 4), "f4"), None, None, numpy.zeros((1, 2), "i8"), numpy.arange(2))
"""


def imported() -> Any:
    """A new import of the core, next to the package's own."""
    spec = importlib.util.spec_from_file_location("tpugraphs._core", _core.__file__)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def scores(core: Any) -> np.ndarray:
    graph = core.ModelGraph(**graph_arrays(30, 8, 5, 134, 0))
    return np.concatenate(core.Model(STEPS, 0, 134).scores([(graph, rows(8))]))


def test_every_import_has_its_own_types() -> None:
    other = imported()
    for name in ("ModelGraph", "Model", "Workspace", "Trainer", "Prepare"):
        assert getattr(other, name) is not getattr(_core, name)
    assert np.array_equal(scores(other), scores(_core))


def test_imported_again_after_leaving_sys_modules() -> None:
    kept = sys.modules.pop("tpugraphs._core")
    try:
        again = importlib.import_module("tpugraphs._core")
        assert again is not kept and again.ModelGraph is not kept.ModelGraph
        assert np.array_equal(scores(again), scores(kept))
    finally:
        sys.modules["tpugraphs._core"] = kept
        tpugraphs._core = kept


def test_objects_of_another_import_are_refused() -> None:
    other = imported()
    graph, model = other.Graph(**graph_arrays(30, 8, 5, 134, 0)), _core.Model(STEPS, 0, 134)
    refuses(lambda: model.scores([(graph, rows(8))]), TypeError, "Graph")
    refuses(lambda: _core.Trainer(model, other.Model(STEPS, 0, 134)), TypeError, "workspace")
    with pytest.raises(TypeError):
        model.share_memory(other.Model(STEPS, 0, 134))


def test_what_an_import_made_goes_with_it() -> None:
    other = imported()
    assert len(scores(other)) == 8
    made = [
        weakref.ref(kind) for kind in (other, other.ModelGraph, other.Model, other.Workspace, other.Trainer)
    ]
    graph = other.ModelGraph(**graph_arrays(30, 8, 5, 134, 0))
    del other
    gc.collect()
    assert all(ref() is not None for ref in made), "an instance keeps its type, its module and its state"
    assert graph.with_configs(np.zeros((2, graph.num_config_nodes, 18), np.int8)).num_configs == 2
    del graph
    gc.collect()
    assert [ref() for ref in made] == [None] * len(made)


def test_sub_interpreters() -> None:
    """An interpreter that NumPy refuses is refused by the core, and the first one works after that."""
    environment = {**os.environ, "PYTHONPATH": str(Path(tpugraphs.__file__).parents[1])}
    done = subprocess.run(
        [sys.executable, "-c", INTERPRETERS.format(code=INSIDE)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
