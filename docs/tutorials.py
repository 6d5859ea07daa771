"""The notebooks with their outputs, as pages of the site. Used by conf.py.

`TPUGRAPHS_NOTEBOOKS` names a folder of notebooks that were executed already: the test suite leaves them
there. Others are executed here, once for every version of the notebook.
"""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path

import nbformat

NOTEBOOKS = Path(__file__).parents[1] / "notebooks"
# Outputs name files of the package, on the machine where they were made.
PLACES = re.compile(r"(?:/[^/\s\"'<>\\]+)+/(tpugraphs/measured\b)")


def code(notebook: nbformat.NotebookNode) -> list[str]:
    """Return the sources of all cells."""
    return [cell.source for cell in notebook.cells]


def execute(notebook: nbformat.NotebookNode) -> None:
    """Run all cells in an empty folder."""
    import nbclient

    with tempfile.TemporaryDirectory() as folder:
        resources = {"metadata": {"path": folder}}
        nbclient.NotebookClient(notebook, timeout=600, kernel_name="python3", resources=resources).execute()


def take(notebook: nbformat.NotebookNode, done: nbformat.NotebookNode) -> None:
    """Take the outputs of an executed copy, cell by cell."""
    for cell, other in zip(notebook.cells, done.cells, strict=True):
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = other.outputs, other.execution_count


def write(folder: Path) -> None:
    """Write every notebook with its outputs; the text of its cells is that of the notebook in any case."""
    folder.mkdir(parents=True, exist_ok=True)
    given = os.environ.get("TPUGRAPHS_NOTEBOOKS")
    for old in folder.glob("*.ipynb"):
        if not (NOTEBOOKS / old.name).is_file():
            old.unlink()
    for path in sorted(NOTEBOOKS.glob("*.ipynb")):
        notebook, made = nbformat.read(path, as_version=4), folder / path.name
        executed = Path(given) / path.name if given else made
        done = nbformat.read(executed, as_version=4) if executed.is_file() else None
        if done and len(done.cells) == len(notebook.cells) and (given or code(done) == code(notebook)):
            take(notebook, done)
        else:
            execute(notebook)
        text = PLACES.sub(r"\1", nbformat.writes(notebook))
        if not made.is_file() or made.read_text() != text:
            made.write_text(text)
