"""Notebooks run from top to bottom, and are stored without outputs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")

NOTEBOOKS = sorted((Path(__file__).parent.parent / "notebooks").glob("*.ipynb"))


def test_there_are_notebooks() -> None:
    assert NOTEBOOKS


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_stored_without_outputs(path: Path) -> None:
    for cell in nbformat.read(path, as_version=4).cells:
        if cell.cell_type == "code":
            assert not cell.outputs and cell.execution_count is None, "clear all outputs before committing"


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
@pytest.mark.filterwarnings("ignore")  # of the Jupyter client, not of ours
def test_runs(path: Path, tmp_path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    shortened = 0
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.source, count = re.subn(r"^STEPS = \d+", "STEPS = 10", cell.source, flags=re.M)
            shortened += count
    assert shortened == 1, "the test shortens training by the line `STEPS = ...`"
    client = nbclient.NotebookClient(
        notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}
    )
    client.execute()
    outputs = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    assert not [output for output in outputs if output.output_type == "error"]
    assert any("image/png" in output.get("data", {}) for output in outputs), "no picture was drawn"
    assert any("tau" in output.get("data", {}).get("text/html", "") for output in outputs), "no report table"
    assert not list(tmp_path.iterdir()), "the notebook leaves files behind"
