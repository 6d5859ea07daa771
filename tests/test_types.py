"""Type checkers see every public name: mypy and pyright, both strict, read a program, and reveal the type of each name."""

import importlib.util
import inspect
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import tpugraphs as tg

PROGRAM = Path(__file__).parent / "checked" / "program.py"
NEEDS = {"xla": "jax", "torch": "torch", "layers_of_torch": "torch"}  # what a type is of
MODULES = [name for name in tg._MODULES if importlib.util.find_spec(NEEDS.get(name, "tpugraphs"))]
# Types that are known to the caller alone (the default of an option, the fields of a recipe), or not installed.
UNKNOWN = ("recipes.option", "Recipe.fields", "Table.keys", "Graph.to_networkx", ".to_frame", "torch.to_pyg")
# All graphs have types, and so has whatever a fit learns from.
TYPED = "graph|graphs|train|valid|sample_weight|scorer|ranker|rankers|table|layers"

COMPLAINT = re.compile(r"\s*\S+:\d+(:\d+)?(:| -) (error|warning)\b")  # of either checker


def public_names():
    """Every public name, and the public methods and properties of every public class."""
    names = [f"tg.{name}" for name in dir(tg) if name in MODULES or name not in tg._MODULES]
    names += [f"tg.{m}.{name}" for m in MODULES for name in getattr(getattr(tg, m), "__all__", ())]
    for name in list(names):
        value = tg
        for part in name.split(".")[1:]:
            value = getattr(value, part)
        if inspect.ismodule(value) and name.count(".") == 2:  # of a wing
            names += [f"{name}.{one}" for one in value.__all__]
        if inspect.isclass(value) and value.__module__.startswith("tpugraphs"):
            own = [method for method, made in vars(value).items() if method[0] != "_" and callable(made)]
            names += [f"{name}.{method}" for method in own]
    return [n for n in names if importlib.util.find_spec(NEEDS.get(n.rpartition(".")[2], "tpugraphs"))]


def checked(folder, command, pattern):
    """Run a checker over the program and a file that reveals all names; return type by name, and its complaints."""
    names = public_names()
    assert len(names) > 600
    reveals = folder / "reveals.py"
    reveals.write_text("import tpugraphs as tg\n" + "".join(f"reveal_type({name})\n" for name in names))
    program = folder / "program.py"
    program.write_text(PROGRAM.read_text())
    done = subprocess.run(
        [sys.executable, "-m", *command, str(reveals), str(program)],
        cwd=folder, capture_output=True, text=True, timeout=500,
    )  # fmt: skip
    lines = (done.stdout + done.stderr).splitlines()
    found = dict(re.search(pattern, line).groups() for line in lines if re.search(pattern, line))
    assert len(found) == len(names), "\n".join(lines[-20:])
    types = {names[int(line) - 2]: text for line, text in found.items()}
    return types, [line for line in lines if COMPLAINT.match(line)]


def without_types(types):
    """Names whose type, result or parameter for graphs is not known."""
    unknown = re.compile(rf"^(type\[)?(Any|Unknown)\b|-> (Any|Unknown)$|\b({TYPED}): (Any|Unknown)\b")
    return {name: text for name, text in types.items() if not name.endswith(UNKNOWN) and unknown.search(text)}


def test_what_counts_as_unknown():
    for text in (
        "Any",
        "Unknown",
        "type[Any]",
        "def (x: int) -> Any",
        "(graph: Any) -> int",
        "(self, valid: Any = ...)",
    ):
        assert without_types({"tg.name": text})
    assert not without_types({"tg.name": "(graph: Graph, valid: float) -> dict[str, Any]"})


@pytest.mark.slow
def test_mypy(tmp_path):
    pytest.importorskip("mypy", reason="needs mypy: pip install '.[dev]'")
    command = ["mypy", "--strict", "--config-file=", "--no-error-summary"]
    types, complaints = checked(tmp_path, command, r"^reveals\.py:(\d+): note: Revealed type is \"(.*)\"$")
    assert not complaints
    assert not without_types(types)


@pytest.mark.slow
def test_pyright(tmp_path):
    pytest.importorskip("pyright", reason="needs pyright: pip install '.[dev]'")
    (tmp_path / "pyrightconfig.json").write_text(
        '{"typeCheckingMode": "strict", "reportUnnecessaryTypeIgnoreComment": "error", "reportMissingModuleSource": "none"}'
    )
    command = ["pyright", "--pythonpath", sys.executable]
    types, complaints = checked(
        tmp_path, command, r"reveals\.py:(\d+):\d+ - information: Type of \".*?\" is \"(.*)\"$"
    )
    assert not complaints
    assert not without_types(types)


MISTAKES = """import tpugraphs as tg
tg.Ranker("first-layout", leraning_rate=1e-3)
tg.Ranker("first-layout", learning_rate="fast")
tg.train_seeds("first-layout", tg.sample("alexnet"), widht=32)
name: str = input()
tg.Ranker(name, steps=3)
tg.load_ranker("r.safetensors").adapt(tg.sample("alexnet"), steps=3, anchor=0.2)
"""


@pytest.mark.slow
@pytest.mark.parametrize("checker", ["mypy", "pyright"])
def test_a_mistake_in_a_field_is_named_in_a_short_message(checker, tmp_path):
    """Not in a list of all overloads with all fields, of 6,000 characters."""
    pytest.importorskip(checker, reason=f"needs {checker}: pip install '.[dev]'")
    (tmp_path / "mistakes.py").write_text(MISTAKES)
    command = ["mypy", "--strict", "--config-file=", "--no-error-summary"]
    command = command if checker == "mypy" else ["pyright", "--pythonpath", sys.executable]
    done = subprocess.run(
        [sys.executable, "-m", *command, "mistakes.py"],
        cwd=tmp_path, capture_output=True, text=True, timeout=500,
    )  # fmt: skip
    wrong = {int(line) for line in re.findall(r"mistakes\.py:(\d+)[^\n]* error", done.stdout)}
    assert wrong == {2, 3, 4} and len(done.stdout) < 3500, done.stdout
    for name in ("leraning_rate", "learning_rate", "widht"):
        assert re.search(rf"\"{name}\" (to|of type) \"", done.stdout), done.stdout


# What mypy says of cells that are right, or wrong on purpose.
EXPECTED = {
    r'incompatible type "dict\[str, function\]"': "scorers in a dict lose their types",
    r"^\S+ error: Dict entry \d has": "scorers are added to a dict of others",
    r'incompatible type "\*\*dict\[': "arguments of several types in a dict",
    r'variable has type "dict\[str, str\]"': "names of collections take the place of all of them",
    r'"linearr"|Literal\[.silo.\]': "mistakes that the notebook shows",
}


@pytest.mark.slow
def test_notebooks(tmp_path):
    """Their cells fit the types, but for what a notebook need not say: which results are None."""
    pytest.importorskip("mypy", reason="needs mypy: pip install '.[dev]'")
    notebooks = sorted((Path(__file__).parents[1] / "notebooks").glob("*.ipynb"))
    assert notebooks
    for path in notebooks:
        cells = [cell for cell in json.loads(path.read_text())["cells"] if cell["cell_type"] == "code"]
        lines = [line for cell in cells for line in "".join(cell["source"]).splitlines()]
        plain = [line for line in lines if line[:1] not in ("%", "!")]
        text = "\n".join(["from IPython.display import display", *plain, ""])
        (tmp_path / f"n{path.stem}.py").write_text(text)
    options = ["--check-untyped-defs", "--no-strict-optional", "--ignore-missing-imports", "--config-file="]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *options, "--no-error-summary", *(f"n{path.stem}.py" for path in notebooks)],
        cwd=tmp_path, capture_output=True, text=True, timeout=500,
    )  # fmt: skip
    complaints = [line for line in (done.stdout + done.stderr).splitlines() if COMPLAINT.match(line)]
    assert not [line for line in complaints if not any(re.search(known, line) for known in EXPECTED)]
    assert not [known for known in EXPECTED if not any(re.search(known, line) for line in complaints)]
