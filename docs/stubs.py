"""Write what type checkers read of names and arguments that are made at run time.

    python docs/stubs.py           # everything: `make tables`
    python docs/stubs.py CORE      # the stubs alone, asking this extension module: setup.py

The lazy names of the package, the functions of the ops and losses, the fields of recipes and of models of
layers, and the arguments of `Ranker.fit` that other functions pass on: each has one home, from which these
files follow. Stubs (``.pyi``) are made whenever the package is built, and are not committed.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import inspect
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from textwrap import indent
from typing import Any

PACKAGE = Path(__file__).parents[1] / "tpugraphs"


def use(core: str) -> None:
    """Import the package next to this file with a core that need not be in it."""
    sys.path.insert(0, str(PACKAGE.parent))
    spec = importlib.util.spec_from_file_location("tpugraphs._core", core)
    assert spec is not None and spec.loader is not None
    sys.modules[spec.name] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)


if __name__ == "__main__" and len(sys.argv) > 1:
    use(sys.argv[1])

import tpugraphs as tg  # noqa: E402
from tpugraphs import _core, kernels, recipes  # noqa: E402
from tpugraphs.kernels.signatures import literal  # noqa: E402
from tpugraphs.ranker.seeds import TOGETHER  # noqa: E402
from tpugraphs.recipes.declared import attributes  # noqa: E402
from tpugraphs.training.fit import FitOptions  # noqa: E402

MADE = '"""{} Made by docs/stubs.py; a test fails when it is out of date."""\n'
Fields = Mapping[str, Iterable[str]]  # name -> types it may have


def package() -> str:
    """Return the stub of the package: its lazy names, imported."""
    lines = [MADE.format("Types of the public names."), "# ruff: noqa"]
    for name, module in tg._LAZY.items():
        lines.append(f"from tpugraphs.{module} import {name} as {name}")
    lines += [f"from tpugraphs import {name} as {name}" for name in tg._MODULES]
    # a name of another one is public to all checkers only if it stands here
    everything = "".join(f'    "{name}",\n' for name in [*tg.__all__, *tg._OPTIONAL])
    own = ["__version__: str", "", "def _core_missing() -> str: ...", ""]
    return "\n".join([*lines, "", f"__all__ = [\n{everything}]", "", *own])


def function(name: str, signature: inspect.Signature) -> str:
    """Return a function as a stub has it, an argument on each line."""
    lines, keyword = [f"def {name}("], False
    for one in signature.parameters.values():
        if one.kind is one.KEYWORD_ONLY and not keyword:
            lines.append("    *,")
            keyword = True
        default = "" if one.default is one.empty else " = ..."
        typed = "" if one.annotation is one.empty else f": {quoted(one.annotation)}"
        lines.append(f"    {one.name}{typed}{default},")
    return "\n".join([*lines, f") -> {quoted(signature.return_annotation)}: ..."])


def quoted(annotation: str) -> str:
    """Return an annotation with the quotes that the formatter wants."""
    return annotation.replace("'", '"')


def functions() -> str:
    """Return the stub of `tpugraphs.kernels`: functions made at run time, and imports of the others."""
    imports, made = list[str](), list[str]()
    for name in kernels.__all__:
        value = getattr(kernels, name)
        home = "kernels" if name in kernels.losses.FACES else value.__module__.rpartition(".")[2]
        if home == "kernels":  # made at run time
            made.append(function(name, inspect.signature(value)))
        else:
            imports.append(f"from tpugraphs.kernels.{home} import {name} as {name}")
    head = [
        MADE.format("Types of the kernels over arrays."),
        "# ruff: noqa",
        "from collections.abc import Collection, Mapping",
        "from typing import Literal",
        "",
        "import numpy as np",
        "from numpy.typing import NDArray",
        "",
        *(f"from tpugraphs.kernels import {name} as {name}" for name in ("losses", "ops", "streams")),
        "from tpugraphs.kernels.faces import Array, Precision",
        "from tpugraphs.kernels.losses import Result, Runtimes",
        "from tpugraphs.kernels.ops import Activation",
        *imports,
    ]
    return "\n".join([*head, "", "__all__: list[str]", "", *made, ""])


def of_tensors() -> str:
    """Return the stub of `tpugraphs.torch`: the ops that have gradients, and the losses, for tensors."""
    ops = [name for name in kernels.__all__ if f"{name}_backward" in kernels.__all__]
    losses = ["weighted_sum", *(loss["name"] for loss in _core.losses())]
    arrays, made = re.compile(r"NDArray\[[\w.]+\]|\b(Array|Runtimes)\b"), list[str]()
    for name in (*ops, *losses):
        signature = inspect.signature(getattr(kernels, name))
        parameters = [
            one.replace(annotation=arrays.sub("Tensor", one.annotation).replace("Tensor | Tensor", "Tensor"))
            for one in signature.parameters.values()
            if one.name not in ("out", "result")
        ]
        made.append(function(name, inspect.Signature(parameters, return_annotation="Tensor")))
    everything = ["LOSSES", "OPS", "as_loss", "from_pyg", "to_pyg", *ops, *losses]
    head = [
        MADE.format("Types of the functions of tensors."),
        "# ruff: noqa",
        "from collections.abc import Sequence",
        "from typing import Any, Literal",
        "",
        "from torch import Tensor",
        "",
        "from tpugraphs.kernels.faces import Precision",
        "from tpugraphs.kernels.ops import Activation",
        *(f"from tpugraphs.torch.bridge import {name} as {name}" for name in everything[:2]),
        "from tpugraphs.torch.own_loss import as_loss as as_loss",
        *(f"from tpugraphs.torch.pyg import {name} as {name}" for name in everything[3:5]),
        "",
        "__all__ = [",
        *(f'    "{name}",' for name in everything),
        "]",
    ]
    return "\n".join([*head, "", *made, ""])


def methods() -> str:
    """Return `OpMethods`: the methods of `tg.Model`, one per op, as checkers see them."""
    made = []
    for op in _core.ops():
        lines = function(op["name"], inspect.signature(getattr(tg.Model, op["name"]))).split("\n")
        made += [f"    {line}" for line in lines]
    head = ["class OpMethods:", '    """Methods of :class:`tpugraphs.Model`, one per op."""', ""]
    text = "\n".join([*head, *made])
    return module("Types of the methods of models.", text, ["OpMethods"]).replace("\n\n\n", "\n\n")


TYPES = {  # of a field -> as checkers write it
    "int": "int",
    "real": "float",
    "flag": "bool",
    "text": "str",
    "list": "Sequence[Mapping[str, object]]",
    "function": "Callable[..., Any]",
}


def kinds(attr: Mapping[str, Any]) -> Iterable[str]:
    """Yield the types that a field of a recipe takes. None stands for "none" where a text is expected."""
    for kind in attr["kind"].split("|"):
        if kind == "choice":
            yield from (f"={choice}" for choice in attr["choices"])
        else:
            yield TYPES[kind]
        if kind == "text" or (kind == "choice" and "none" in attr["choices"]):
            yield "None"
    if attr["none"]:
        yield "None"


def union(types: Iterable[str]) -> str:
    """Return the union of types; those that begin with ``=`` are texts."""
    each = list(dict.fromkeys(types))
    texts = sorted(text[1:] for text in each if text.startswith("="))
    plain = [one for one in each if not one.startswith("=") and one != "None"]
    words = [literal(texts)] if texts and "str" not in plain else []
    return quoted(" | ".join([*plain, *words, *(["None"] if "None" in each else [])]))


def typed_dict(name: str, doc: str, fields: Mapping[str, str], base: str = "TypedDict, total=False") -> str:
    """Return a dict with these keys, of which each may be missing."""
    lines = [f"class {name}({base}):", f'    """{doc}"""', ""]
    return "\n".join([*lines, *(typed(key, types) for key, types in fields.items())])


def typed(key: str, types: str) -> str:
    """Return the line of a key, broken where it is too long."""
    line = f"    {key}: {types}"
    if len(line) <= 110:
        return line
    found = re.fullmatch(r"Literal\[([^\[\]]+)\](.*)", types)
    assert found is not None, f"{key}: {types} is too long"
    choices = "".join(f"    {choice},\n" for choice in found[1].split(", "))
    broken = f"Literal[\n{choices}]"
    if found[2]:
        inside = indent(f"{broken}\n{found[2].strip()}", "    ")
        broken = f"(\n{inside}\n)"
    return indent(f"{key}: {broken}", "    ")


UNKNOWN = """StrT_co = TypeVar("StrT_co", bound=str, covariant=True)


class UnknownFieldOrValue(Protocol[StrT_co]):
    \"\"\"The type of no value: an overload with it fits what is meant in all but this.

    So checkers name the wrong argument, in place of all overloads with all fields.
    \"\"\"

    def __format__(self, spec: str, /) -> StrT_co: ...

Unknown = UnknownFieldOrValue[Never]"""


def recipe_fields() -> str:
    """Return `RecipeFields`: all fields of all recipes of the package."""
    found: dict[str, list[str]] = {}
    for recipe in recipes._built_in().values():
        for name, attr in attributes(recipe.options).items():
            found.setdefault(name, []).extend(kinds(attr))
    fields = {name: union(types) for name, types in sorted(found.items())}
    length = {name: fields.pop(name) for name in ("epochs", "steps")}
    doc = "Fields of the recipes of the package"
    text = typed_dict("FieldsButLength", f"{doc}, but `epochs` and `steps`.", fields)
    more = f"{doc}. Which of them a recipe has: `tpugraphs recipes NAME`."
    text += "\n\n\n" + typed_dict("RecipeFields", more, length, "FieldsButLength, total=False")
    names = "".join(f'    "{name}",\n' for name in sorted(recipes._built_in()))
    known = f'RecipeName = Literal[\n{names}]\n"""Names of the recipes of the package."""'
    everything = ["FieldsButLength", "RecipeFields", "RecipeName", "Unknown"]
    stub = module("Types of the fields of recipes.", f"{known}\n\n{UNKNOWN}\n\n{text}", everything)
    return stub.replace("\n\n\n", "\n\n")


def fit_arguments() -> str:
    """Return `FitArguments`: what `Ranker.fit` takes by keyword, for functions that hand it on."""
    fields = {one.name: quoted(one.type) for one in dataclasses.fields(FitOptions) if one.name != "ranker"}
    together = {name: fields[name] for name in TOGETHER}
    some = {name: fields.pop(name) for name in ("verbose", "groups")}  # which other functions have, too
    all_of = "Arguments of :meth:`tpugraphs.Ranker.fit` by keyword"
    text = typed_dict("FitButShared", f"{all_of}, but `verbose` and `groups`.", fields)
    text += "\n\n\n" + typed_dict("FitArguments", f"{all_of}.", some, "FitButShared, total=False")
    text += "\n\n\n" + typed_dict("FitTogether", f"{all_of}, for several rankers together.", together)
    doc = "Arguments of :func:`tpugraphs.train_seeds` by keyword, but the fields of the rankers."
    seeds = {name: types for name, types in by_keyword(tg.train_seeds).items() if name not in TOGETHER}
    text += "\n\n\n" + typed_dict("SeedArguments", doc, seeds, "FitTogether, total=False")
    doc = "Arguments of :meth:`tpugraphs.Ranker.adapt` by keyword."
    text += "\n\n\n" + typed_dict("AdaptOptions", doc, by_keyword(tg.Ranker.adapt))
    names = ["AdaptOptions", "FitArguments", "FitButShared", "FitTogether", "SeedArguments"]
    return module("Types of arguments that functions hand on.", text, names)


def by_keyword(function: Callable[..., Any]) -> dict[str, str]:
    """Return the types of the arguments that a function takes by keyword alone."""
    parameters = inspect.signature(function).parameters.values()
    return {one.name: quoted(one.annotation) for one in parameters if one.kind is one.KEYWORD_ONLY}


IMPORTS = {  # name in a type -> where it is from
    "os.": "import os",
    "Callable": "from collections.abc import Callable",
    "Iterable": "from collections.abc import Iterable",
    "Mapping": "from collections.abc import Mapping",
    "Sequence": "from collections.abc import Sequence",
    "Any": "from typing import Any",
    "Literal": "from typing import Literal",
    "Never": "from typing import Never",
    "Protocol": "from typing import Protocol",
    "TypedDict": "from typing import TypedDict",
    "TypeVar": "from typing import TypeVar",
    "ArrayLike": "from numpy.typing import ArrayLike",
    "NDArray": "from numpy.typing import NDArray",
    "np.": "import numpy as np",
    "SampleWeight": "from tpugraphs.data.graph import SampleWeight",
    "Graphs": "from tpugraphs.data.graph import Graphs",
    "Callback": "from tpugraphs.training.callbacks import Callback",
    "CommunicatorLike": "from tpugraphs.distributed import CommunicatorLike",
    "Networked": "from tpugraphs.training.fit import Networked",
}


def module(doc: str, text: str, names: Iterable[str]) -> str:
    """Return a module around classes."""
    imports = [line for name, line in IMPORTS.items() if re.search(rf"\b{re.escape(name)}", text)]
    everything = ", ".join(f'"{name}"' for name in names)
    lines = [MADE.format(doc), "# ruff: noqa", "from __future__ import annotations", "", *imports]
    return "\n".join([*lines, "", f"__all__ = [{everything}]", "", "", text, ""])


FILES: dict[str, Callable[[], str]] = {  # file in the package -> its text
    "__init__.pyi": package,
    "kernels/__init__.pyi": functions,
    "torch/__init__.pyi": of_tensors,
    "recipes/fields.pyi": recipe_fields,
    "recipes/methods.pyi": methods,
    "ranker/arguments.pyi": fit_arguments,
}


if __name__ == "__main__":
    for file, text in FILES.items():
        if len(sys.argv) == 1 or file.endswith(".pyi"):
            (PACKAGE / file).write_text(text())
