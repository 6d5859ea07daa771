"""Public docstrings say what a reader of the reference needs: parameters, results, errors, in numpydoc's form.

Public is what docs/reference.py makes pages of. A method that overrides one of a base class of the package may leave
to that one what it does not change.
"""

import ast
import doctest
import importlib
import importlib.util
import inspect
import re
import textwrap
import types
from pathlib import Path

import pytest

spec = importlib.util.spec_from_file_location(
    "reference", Path(__file__).parents[1] / "docs" / "reference.py"
)
reference = importlib.util.module_from_spec(spec)
spec.loader.exec_module(reference)

SECTION = re.compile(r"^([A-Z][\w ]+)\n-{3,}$", re.M)
LISTED = re.compile(r"^([*\\]*\w+(?:, *[*\\]*\w+)*)(?: :.*)?$", re.M)


def sections(doc):
    """Sections of a docstring by name; the summary and what follows it under ""."""
    parts = SECTION.split(doc or "")
    return {"": parts[0], **dict(zip(parts[1::2], parts[2::2], strict=True))}


def names(text):
    """Names that a section of parameters lists."""
    return {name.strip("*\\ ") for found in LISTED.findall(text) for name in found.split(",")}


def own(value):
    """Whether it is made in this package."""
    return (getattr(value, "__module__", None) or "").startswith("tpugraphs")


def members(path, cls):
    """(path, function or property, the same members of base classes) of what a class's page shows."""
    for name, value in vars(cls).items():
        value = getattr(value, "__func__", value)
        if isinstance(value, types.FunctionType) and name in getattr(cls, "__dataclass_fields__", {}):
            continue  # the default of a field, which the class documents
        if not name.startswith("_") and (inspect.isfunction(value) or isinstance(value, property)):
            bases = [vars(base)[name] for base in cls.__mro__[1:] if own(base) and name in vars(base)]
            yield f"{path}.{name}", value, [getattr(base, "__func__", base) for base in bases]


def everything():
    """(path, object, what it may leave its documentation to) of all classes, functions and members."""
    for path in sorted(set(reference.paths().values())):
        value = reference.look_up(path)
        if reference.kind(value) == "data" or inspect.isbuiltin(value):
            continue
        yield path, value, []
        # ScorerBase documents what the protocol asks for.
        if inspect.isclass(value) and own(value) and not getattr(value, "_is_protocol", False):
            yield from members(path, value)


def raises(function):
    """Whether the body raises an error by itself, not in a function inside."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, TypeError, SyntaxError):
        return False
    return any(isinstance(node, ast.Raise) and node.exc is not None for node in ast.walk(tree))


def parameters(value, bases=()):
    """Names of the parameters that a caller gives, without those that are only passed on to a base's method."""
    try:
        found = inspect.signature(value).parameters.values()
    except (TypeError, ValueError):
        return []
    if getattr(value, "_is_protocol", False):  # nobody makes one
        return []
    found = [one.name for one in found if not (bases and one.kind is one.VAR_KEYWORD)]
    return [name for name in found if name not in ("self", "cls") and not name.startswith("_")]


def missing(value, bases):
    """What a docstring lacks."""
    docs = [one for doc in (value, *bases) if (one := getattr(doc, "__doc__", None))]
    if not docs:
        return ["a docstring"]
    found = [sections(inspect.cleandoc(doc)) for doc in docs]
    lacks = []
    first = found[0][""].strip().partition("\n\n")[0]
    if len(first.split()) < 3 or not first.endswith((".", ":")):
        lacks.append(f"a sentence at the top, not {first!r}")
    if isinstance(value, property):
        function = value.fget
    else:
        function = value
        listed = set(reference.fields(value)) if inspect.isclass(value) else set()
        for one in found:
            for section in ("Parameters", "Other Parameters", "Attributes"):
                listed |= names(one.get(section, ""))
        unknown = [name for name in parameters(value, bases) if name not in listed]
        lacks += [f"parameters {', '.join(unknown)}"] if unknown else []
    if not inspect.isclass(value):
        if not isinstance(value, property):
            result = inspect.signature(value).return_annotation
            told = any({"Returns", "Yields"} & set(one) for one in found)
            told |= not parameters(value) and first.startswith(("Return ", "Yield "))
            if result not in (None, "None", "NoReturn") and not told:
                lacks.append("what it returns")
        if raises(function) and not any("Raises" in one for one in found):
            lacks.append("errors")
    return lacks


def test_public_docstrings_say_what_readers_need():
    lacking = {path: lacks for path, value, bases in everything() if (lacks := missing(value, bases))}
    assert not lacking, "\n".join(f"{path}: no {'; no '.join(lacks)}" for path, lacks in lacking.items())


def test_public_constants_say_what_they_are():
    found = sorted(set(reference.paths().values()))
    found = [path for path in found if reference.kind(reference.look_up(path)) == "data"]
    assert len(found) > 20
    assert not [path for path in found if len(reference.summary(path).split()) < 3]


def test_every_public_name_is_on_a_page():
    """On the page of its module, and on one that documents it; modules are pages too."""
    pages = reference.pages()
    text = "\n".join(pages.values())
    home = reference.paths()
    assert len(home) > 350
    for path, module in reference.modules().items():
        page = pages[f"modules/{path}.rst"]
        for name in reference.listed(module):
            if (target := home.get(f"{path}.{name}")) is None:
                assert inspect.ismodule(getattr(module, name)), f"{path}.{name}"
                continue
            shown = name.removesuffix("_backward")
            assert f"`{name} <" in page or f"`{shown} <" in page, f"{path}.{name}"
            documented = rf"^\.\. (?:auto\w+|py:data):: {target.rpartition('.')[2]}$"
            assert re.search(documented, text, re.M), target


def test_the_measure_measures():
    """Of docstrings that lack something, each thing is named."""

    def good(rows):
        """Return the rows, twice.

        Parameters
        ----------
        rows : (n,) int
            Which.

        Returns
        -------
        (2 n,) int

        Raises
        ------
        ValueError
            None given.
        """
        raise ValueError

    def bad(rows, n):
        raise ValueError

    good.__annotations__ = bad.__annotations__ = {"return": int}
    assert missing(good, []) == []
    assert missing(bad, []) == ["a docstring"]
    bad.__doc__ = "N."
    assert missing(bad, []) == [
        "a sentence at the top, not 'N.'",
        "parameters rows, n",
        "what it returns",
        "errors",
    ]
    assert missing(bad, [good]) == ["a sentence at the top, not 'N.'", "parameters n"]
    assert missing(property(lambda self: 1, doc="K."), []) == ["a sentence at the top, not 'K.'"]


ROOT = Path(__file__).parents[1]
EXAMPLES = sorted(path for path in (ROOT / "tpugraphs").rglob("*.py") if ">>> " in path.read_text())


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_examples_run(path):
    needed = {"xla": "jax", "torch": "torch"}.get(path.parent.name)
    if needed is not None:
        pytest.importorskip(needed)
    parts = path.relative_to(ROOT).with_suffix("").parts
    module = importlib.import_module(".".join(part for part in parts if part != "__init__"))
    result = doctest.testmod(module)
    assert not result.failed


def test_every_example_runs_and_shows_what_comes_out():
    finder, skip = doctest.DocTestFinder(), doctest.OPTIONFLAGS_BY_NAME["SKIP"]
    tests = [
        test
        for path in EXAMPLES
        if path.parent.name not in ("xla", "torch")
        for test in finder.find(
            importlib.import_module(".".join(path.relative_to(ROOT).with_suffix("").parts))
        )
        if test.examples
    ]
    assert len(tests) > 20
    assert not [test.name for test in tests if any(skip in example.options for example in test.examples)]
    assert not [test.name for test in tests if not any(example.want for example in test.examples)]


@pytest.mark.parametrize(
    "page", [*sorted((ROOT / "docs").rglob("*.md")), ROOT / "README.md"], ids=lambda page: page.name
)
def test_code_of_pages_is_python(page):
    for block in re.findall(r"```python\n(.*?)```", page.read_text(), re.S):
        ast.parse(block)


@pytest.mark.parametrize("name", sorted(reference.modules()))
def test_modules_say_what_they_hold(name):
    assert len((reference.modules()[name].__doc__ or "").split()) > 3
