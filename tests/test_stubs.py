"""Everything public has a name that resolves, a type and a documentation string."""

import ast
import importlib
import inspect
import pkgutil
from pathlib import Path

import pytest

import tpugraphs as tg
from tpugraphs import _core

PACKAGE = Path(tg.__file__).parent
STUBS = ast.parse((PACKAGE / "_core.pyi").read_text())
MODULES = sorted(
    m.name for m in pkgutil.walk_packages(tg.__path__, "tpugraphs.") if not m.name.endswith("__main__")
)


def public(names):
    return {name for name in names if not name.startswith("_")}


def declared(body):
    """Names that a stub's module or class body declares."""
    names = set()
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.AnnAssign):
            names.add(node.target.id)
    return public(names)


def test_stubs_name_what_the_core_has():
    assert declared(STUBS.body) == public(dir(_core))


def test_stubs_name_what_the_core_types_have():
    classes = [node for node in STUBS.body if isinstance(node, ast.ClassDef)]
    for node in classes:
        assert declared(node.body) == public(vars(getattr(_core, node.name))), node.name


def test_stubs_annotate_every_argument():
    for node in ast.walk(STUBS):
        if isinstance(node, ast.FunctionDef):
            arguments = node.args.posonlyargs + node.args.args + node.args.kwonlyargs
            bare = [a.arg for a in arguments if a.annotation is None and a.arg not in ("self", "cls")]
            assert node.returns is not None and not bare, f"{node.name}: {bare}"


def test_the_core_documents_itself():
    functions = [getattr(_core, name) for name in public(dir(_core))]
    assert not [f.__name__ for f in functions if not (f.__doc__ or "").strip()]


def test_typing_files_are_shipped():
    assert (PACKAGE / "py.typed").exists()
    assert (PACKAGE / "_core.pyi").exists()


@pytest.mark.parametrize("name", tg.__all__)
def test_public_name_resolves(name):
    assert getattr(tg, name) is not None


def test_dir_is_what_all_says():
    assert set(tg.__all__) <= set(dir(tg))
    assert len(tg.__all__) == len(set(tg.__all__))
    with pytest.raises(AttributeError, match="no attribute 'rankr'"):
        _ = tg.rankr


@pytest.mark.parametrize("module", MODULES)
def test_module_names_resolve_and_are_documented(module):
    loaded = importlib.import_module(module)
    assert (loaded.__doc__ or "").strip(), f"{module} does not say what it is for"
    for name in getattr(loaded, "__all__", ()):
        value = getattr(loaded, name)
        if inspect.isfunction(value) or inspect.isclass(value):
            assert (value.__doc__ or "").strip(), f"{module}.{name} has no docstring"
