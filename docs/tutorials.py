"""The notebooks as pages of the site, used by conf.py, and what makes their outputs: `make notebooks`.

Notebooks are stored with outputs, so that they show wherever the repository does. Bars, widgets, times
of execution and folders of the machine are left out, and pictures have few colours, whoever makes them.
`make notebooks ONLY="03 05"` makes those again, without names all.
"""

from __future__ import annotations

import base64
import io
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

import nbformat

NOTEBOOKS = Path(__file__).parents[1] / "notebooks"
COLOURS = 64  # of a picture: lines, bars and the grey between them
# Folders of the machine in outputs: of the package, wherever it was imported from, and temporary ones.
PLACES = re.compile(
    rf"(?:/[^/\s\"'<>\\]+)+/(?=tpugraphs/measured\b)|{re.escape(tempfile.gettempdir())}/(?:tmp|tpugraphs-)\w+/"
)
HEAD = re.compile(r"^# (?P<title>.+?)$.*?^(?P<facts>\*\*Takes\*\* .+?)$", re.M | re.S)


def execute(notebook: nbformat.NotebookNode) -> None:
    """Run all cells in an empty folder."""
    import nbclient

    with tempfile.TemporaryDirectory() as folder:
        resources = {"metadata": {"path": folder}}
        nbclient.NotebookClient(
            notebook, timeout=1200, kernel_name="python3", resources=resources, record_timing=False
        ).execute()


def smaller(picture: str) -> str:
    """Return a PNG picture, in base64, with few colours."""
    from PIL import Image

    made = io.BytesIO()
    with Image.open(io.BytesIO(base64.b64decode(picture))) as image:
        image.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE).save(made, "png", optimize=True)
    return base64.b64encode(made.getvalue()).decode()


def tidy(value: Any) -> Any:
    """Return an output without folders of the machine on which it was made."""
    if isinstance(value, dict):
        return {key: smaller(item) if key == "image/png" else tidy(item) for key, item in value.items()}
    if isinstance(value, list):
        return [tidy(item) for item in value]
    return PLACES.sub("", value) if isinstance(value, str) else value


def shown(output: nbformat.NotebookNode) -> bool:
    """Whether an output says something without a running kernel: not a progress bar."""
    widget = any("widget" in kind for kind in output.get("data", {}))
    return not widget and output.get("name") != "stderr"


def make(path: Path) -> None:
    """Execute a notebook and store it with its outputs."""
    notebook = nbformat.read(path, as_version=4)
    execute(notebook)
    notebook.metadata.pop("widgets", None)
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
        if cell.cell_type == "code":
            cell.outputs = [nbformat.from_dict(tidy(output)) for output in cell.outputs if shown(output)]
    notebook.metadata.language_info = {"name": "python"}
    nbformat.write(notebook, path)


def facts(path: Path) -> tuple[str, str]:
    """Return the title of a notebook, and the line of its first cell that says what it takes and needs."""
    found = HEAD.search(nbformat.read(path, as_version=4).cells[0].source)
    if not found:
        raise ValueError(f"{path.name}: the first cell lacks a title, or a line '**Takes** … **Needs** …'")
    return found["title"], found["facts"]


def pages() -> dict[str, str]:
    """Return the notebooks as pages of the site, and the table of all of them."""
    rows, found = ["| notebook | takes | needs |", "| --- | --- | --- |"], {}
    for path in sorted(NOTEBOOKS.glob("*.ipynb")):
        title, line = facts(path)
        takes, needs = line.removeprefix("**Takes** ").split(" **Needs** ")
        rows.append(f"| [{title}](/generated/tutorials/{path.name}) | {takes} | {needs} |")
        found[path.name] = path.read_text()
    return {**found, "table.txt": "\n".join([*rows, ""])}


if __name__ == "__main__":
    for path in sorted(NOTEBOOKS.glob("*.ipynb")):
        if not sys.argv[1:] or path.name.startswith(tuple(sys.argv[1:])):
            make(path)
            print(f"{path.name}: {path.stat().st_size >> 10} KiB", flush=True)
