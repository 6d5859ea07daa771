"""Notebooks run from top to bottom, and are stored with small outputs that say nothing of the machine."""

from __future__ import annotations

import base64
import importlib.util
import io
import re
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image  # Matplotlib brings it

from tpugraphs import submission
from tpugraphs.data.collections import OWN
from tpugraphs.names import MEASURED

nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")

OURS = [name for name, folder in MEASURED.items() if (OWN / folder).is_dir()]
LEFT = {
    "01_quickstart": [],
    "02_kaggle_submission": sorted(
        ["submission.csv", *(f"rankers/{name.replace(':', '-')}.safetensors" for name in OURS)]
    ),
    "04_three_solutions": [],
    "05_how_long_will_my_network_take": [],
    "06_your_own_model_and_loss": [],
    "07_your_own_kernels": [],
    "08_tune_anything": [],
    "09_make_my_function_fast": [],
}
TIMES = "05_how_long_will_my_network_take"  # ranks nothing
TUNES = "08_tune_anything"
SHORT = {
    "STEPS": 10,
    "CONFIGS": 8,
    "ROUNDS": 2,
    "WIDTH": 32,
    "COUNTS": [3, 10],
    "BUDGET": 3,
}  # of what makes a notebook take its time
ROOT = Path(__file__).parents[1]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
spec = importlib.util.spec_from_file_location("tutorials", ROOT / "docs" / "tutorials.py")
tutorials = importlib.util.module_from_spec(spec)
spec.loader.exec_module(tutorials)


def test_there_are_notebooks() -> None:
    assert NOTEBOOKS


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_stored_with_outputs(path: Path) -> None:
    """As `make notebooks` leaves them, from one run from top to bottom."""
    notebook = nbformat.read(path, as_version=4)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in cells] == [*range(1, len(cells) + 1)], "run `make notebooks`"
    outputs = [output for cell in cells for output in cell.outputs]
    kinds = {kind for output in outputs for kind in output.get("data", {})}
    assert "image/png" in kinds
    assert not {output.output_type for output in outputs} & {"error"}
    assert not [output for output in outputs if output.get("name") == "stderr"], "warnings or bars"
    assert not [kind for kind in kinds if "widget" in kind] and "widgets" not in notebook.metadata
    assert not [cell.id for cell in notebook.cells if "execution" in cell.metadata], "times of execution"


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_stored_outputs_name_no_folder_of_a_machine(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    outputs = [str(cell.outputs) for cell in notebook.cells if cell.cell_type == "code"]
    assert not re.findall(
        r"(?<![\w.:/~])/(?:home|root|tmp|usr|opt|var|mnt|work|srv|Users)/.{0,40}", "".join(outputs)
    )


def test_stored_notebooks_are_small() -> None:
    sizes = {path.stem: path.stat().st_size for path in NOTEBOOKS}
    assert max(sizes.values()) <= 300_000 and sum(sizes.values()) <= 1_500_000, sizes


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_first_cell_says_what_it_takes_and_needs(path: Path) -> None:
    title, facts = tutorials.facts(path)
    assert re.fullmatch(r"\*\*Takes\*\* .+\. \*\*Needs\*\* .+\.", facts)
    words = {word.lower() for word in re.findall(r"\w+", title)}
    assert path.stem == "01_quickstart" or words & set(path.stem.split("_")[1:]), "title and name of the file"


def test_what_is_stored_of_an_output() -> None:
    """Bars and widgets are not; folders of the machine are cut off; a picture has fewer colours."""
    new = nbformat.v4.new_output
    widget = {"application/vnd.jupyter.widget-view+json": {}, "text/plain": "bar"}
    bars = new("stream", name="stderr", text="50 %"), new("display_data", widget)
    assert not any(map(tutorials.shown, bars))
    of_a_machine = (
        f"{tempfile.gettempdir()}/tmpa_1/x.csv",
        f"{tempfile.gettempdir()}/tpugraphs-b_2/test/y.npz",
    )
    text = f"{of_a_machine[0]} in /usr/lib/tpugraphs/measured, {of_a_machine[1]}"
    printed = new("stream", text=text)
    assert (
        tutorials.shown(printed)
        and tutorials.tidy(printed)["text"] == "x.csv in tpugraphs/measured, test/y.npz"
    )
    pixels = np.random.default_rng(0).integers(0, 256, (40, 50, 4), np.uint8)
    Image.fromarray(pixels).save(file := io.BytesIO(), "png")
    drawn = new("display_data", {"image/png": base64.b64encode(file.getvalue()).decode()})
    small = Image.open(io.BytesIO(base64.b64decode(tutorials.tidy(drawn)["data"]["image/png"])))
    assert small.size == (50, 40) and len(small.getcolors()) <= tutorials.COLOURS


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
@pytest.mark.filterwarnings("ignore")  # of the Jupyter client, not of ours
def test_runs(path: Path, tmp_path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    if "jax" in "".join(cell.source for cell in notebook.cells if cell.cell_type == "code"):
        pytest.importorskip("jax", reason="measuring a program needs jax")
    shortened = set()
    for cell in notebook.cells:
        for name, short in SHORT.items() if cell.cell_type == "code" else ():
            cell.source, count = re.subn(
                rf"^{name} = (?:\d+|\[.*\])", f"{name} = {short}", cell.source, flags=re.M
            )
            shortened |= {name} if count else set()
    assert shortened & {"STEPS", "CONFIGS"}, "the test shortens what takes time by lines like `STEPS = ...`"
    client = nbclient.NotebookClient(
        notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}
    )
    client.execute()
    outputs = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    assert not [output for output in outputs if output.output_type == "error"]
    pictures = sum("image/png" in output.get("data", {}) for output in outputs)
    if path.stem == TIMES:
        printed = "".join(output.get("text", "") for output in outputs)
        assert pictures == (4 if "needs PyTorch" in printed else 5), "one of each section"
        assert "80 %" in printed and "hours of an epoch" in printed
    elif path.stem == TUNES:
        printed = "".join(output.get("text", "") for output in outputs)
        assert pictures == 2, "what was measured, and the curves"
        assert (
            "measured again: 0 - the same answer: True" in printed and "a budget of five more: 5" in printed
        )
        assert len(re.findall("^ *tau of kernel, (?:red|green|blue)", printed, re.M)) == 3
    else:
        assert pictures, "no picture was drawn"
        assert any("tau" in output.get("data", {}).get("text/html", "") for output in outputs), (
            "no report table"
        )
    left = sorted(file.relative_to(tmp_path).as_posix() for file in tmp_path.rglob("*") if file.is_file())
    assert left == LEFT[path.stem], "files in the working folder, after the last cell"
    if "submission.csv" in left:
        collections = {name.rpartition(":")[0] for name in submission.read(tmp_path / "submission.csv")}
        assert collections == set(OURS)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_long_cells_show_their_progress(path: Path) -> None:
    """Training takes minutes: by default there is a bar. Only where it is short there is none."""
    code = "".join(c.source for c in nbformat.read(path, as_version=4).cells if c.cell_type == "code")
    assert ("verbose=False" in code) == (path.stem == "01_quickstart")


FIT = """
import tpugraphs as tg
from tpugraphs.training import Callback

class Tell(Callback):
    def on_step(self, fit):
        if fit.step == 3:
            print("three steps", flush=True)

data = tg.open_collection("options:xla:cpu")
"""
ONE = """
ranker = tg.Ranker("graph-config")
ranker.fit(data.train, data.valid, steps=100_000, callbacks=[Tell()])
print("interrupted:", ranker.history_.interrupted)
"""
SEVERAL = """
options = {"seeds": 2, "steps": 100_000, "callbacks": lambda seed: [Tell()]}
runs = tg.train_seeds("graph-config", data.train, data.valid, **options)
ranker = runs.ensemble()
print("interrupted:", runs.interrupted)
"""
USE = """
scores = ranker.predict(data.test[0])
assert scores.shape == (data.test[0].num_configs,) and scores.std() > 0
print("usable")
"""


@pytest.mark.parametrize("fit", [ONE, SEVERAL], ids=["fit", "train_seeds"])
@pytest.mark.filterwarnings("ignore")
def test_interrupting_a_cell_leaves_a_usable_ranker(fit: str, tmp_path: Path) -> None:
    """As the stop button of a notebook does: a signal to the kernel, whose next cells go on."""
    from jupyter_client.manager import start_new_kernel

    manager, client = start_new_kernel(kernel_name="python3", cwd=str(tmp_path))
    printed: list[str] = []

    def hook(message: Any) -> None:
        content = message["content"]
        before = "".join(printed)
        printed.append(content.get("text", ""))
        if (
            "three steps" in printed[-1] and "three steps" not in before
        ):  # a second one would end the fit at once
            manager.interrupt_kernel()

    try:
        for cell, text in ((FIT, ""), (fit, "interrupted: True"), (USE, "usable")):
            reply = client.execute_interactive(cell, output_hook=hook, timeout=120)
            assert reply["content"]["status"] == "ok", reply["content"]
            assert text in "".join(printed)
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
