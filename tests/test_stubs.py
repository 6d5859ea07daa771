"""Everything public has a name that resolves, a type and a documentation string."""

import ast
import importlib
import importlib.util
import inspect
import pkgutil
from pathlib import Path

import pytest

import tpugraphs as tg
from tpugraphs import _core

PACKAGE = Path(tg.__file__).parent
MAKER = Path(__file__).parents[1] / "docs" / "stubs.py"
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
    assert (PACKAGE / "__init__.pyi").exists() or _core.checked()  # a build with sanitizers makes none


@pytest.mark.parametrize("name", tg.__all__)
def test_public_name_resolves(name):
    assert getattr(tg, name) is not None


def test_dir_is_what_all_says():
    optional = {name for name, needed in tg._OPTIONAL.items() if importlib.util.find_spec(needed)}
    assert {*tg.__all__} | optional == set(dir(tg))
    names = {}
    exec("from tpugraphs import *", names)  # without the modules that need an extra
    assert set(tg.__all__) <= set(names) and not {"torch", "xla"} & set(names)
    assert len(tg.__all__) == len(set(tg.__all__))
    with pytest.raises(AttributeError, match="no attribute 'rankr'"):
        _ = tg.rankr


@pytest.mark.parametrize("module", MODULES)
def test_module_names_resolve_and_are_documented(module):
    if module == "tpugraphs.torch":
        pytest.importorskip("torch")
    loaded = importlib.import_module(module)
    assert (loaded.__doc__ or "").strip(), f"{module} does not say what it is for"
    for name in getattr(loaded, "__all__", ()):
        value = getattr(loaded, name)
        if inspect.isfunction(value) or inspect.isclass(value):
            assert (value.__doc__ or "").strip(), f"{module}.{name} has no docstring"


def made():
    """The module that writes stubs and types of fields."""
    spec = importlib.util.spec_from_file_location("stubs", MAKER)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_what_checkers_read_is_up_to_date():
    files = made().FILES
    stubs = {path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.pyi")} - {"_core.pyi"}
    assert {"__init__.pyi", "kernels/__init__.pyi", "recipes/fields.pyi"} < set(files)
    if stubs or not _core.checked():  # a build with sanitizers makes none
        assert stubs == {file for file in files if file.endswith(".pyi")}, "run `make build`"
    texts = {file: text() for file, text in files.items() if file in stubs or file.endswith(".py")}
    late = [file for file, text in texts.items() if (PACKAGE / file).read_text() != text]
    assert not late, "run `make build` for stubs, `make tables` for the rest"


def test_fields_of_recipes_have_types():
    """All fields of a recipe, each with a type that takes its default; words are listed."""
    body = ast.parse(made().FILES["recipes/fields.pyi"]()).body
    types = {
        one.target.id: ast.unparse(one.annotation)
        for cls in body
        if isinstance(cls, ast.ClassDef)
        for one in cls.body
        if isinstance(one, ast.AnnAssign)
    }
    named = {name for recipe in tg.recipes._built_in().values() for name in recipe.describe()["options"]}
    assert set(types) == named
    assert types["steps"] == "int | None"
    assert types["optimizer"] == "Literal['adam', 'adamw', 'sgd']"
    assert types["dedup"].endswith(" | None")  # which means "none" where a word is expected


@pytest.mark.parametrize(
    ("options", "function", "others"),
    [
        ("evaluation.evaluator.EvaluateOptions", tg.evaluation.evaluate, {"configs"}),
        ("evaluation.scorer.PredictOptions", tg.ranker.ScorerBase.predict, set()),
        ("ranker.arguments.AdaptOptions", tg.Ranker.adapt, set()),
        ("preprocess.pruning.PruneOptions", tg.kernels.prune, set()),
        ("xla.collecting.CollectOptions", "xla.collect", {"space", "name", "out"}),
        ("ranker.arguments.FitArguments", tg.Ranker.fit, set()),
        ("ranker.arguments.FitTogether", tg.train_members, {"weights", "normalize", "workers"}),
    ],
)
def test_options_that_are_handed_on_are_those_of_the_function(options, function, others):
    if function == "xla.collect":
        pytest.importorskip("jax")
        function = tg.xla.collect
    keyword = [p.name for p in inspect.signature(function).parameters.values() if p.kind is p.KEYWORD_ONLY]
    assert keys(*options.rsplit(".", 1)) == set(keyword) - others


def keys(module, name):
    """The keys of a TypedDict, which a stub or a module has."""
    stub = made().FILES.get(f"{module.replace('.', '/')}.pyi")
    if stub is None:
        return getattr(importlib.import_module(f"tpugraphs.{module}"), name).__optional_keys__
    classes = {one.name: one for one in ast.parse(stub()).body if isinstance(one, ast.ClassDef)}
    own = {one.target.id for one in classes[name].body if isinstance(one, ast.AnnAssign)}
    return own.union(*(keys(module, one.id) for one in classes[name].bases if one.id in classes))


def test_graphs_have_types():
    """No public function takes just anything for graphs, nor for what a fit learns from."""
    bare = []
    for module in (name for name in tg._MODULES if name not in ("cli", *tg._OPTIONAL)):
        for name in getattr(getattr(tg, module), "__all__", ()):
            value = getattr(getattr(tg, module), name)
            functions = [value] if inspect.isfunction(value) else []
            if inspect.isclass(value) and value.__module__.startswith("tpugraphs"):
                functions = [f for n, f in vars(value).items() if inspect.isfunction(f) and n[0] != "_"]
            for function in functions:
                for parameter in inspect.signature(function).parameters.values():
                    if parameter.name in ("graph", "graphs", "train", "valid", "sample_weight"):
                        bare += [f"{module}.{name}: {parameter}"] * (
                            parameter.annotation in ("Any", parameter.empty)
                        )
    assert not bare
