"""Pages of the reference: one for every public name and module, made from the package. Used by conf.py.

Public is what `tpugraphs.__all__` names and what the `__all__` of these modules name. A name that several
modules export has one page, under the shortest of its paths; the others lead there.
"""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
import re
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import tpugraphs

NAME = tpugraphs.__name__
HEADINGS = {"class": "Classes", "exception": "Exceptions", "function": "Functions", "data": "Constants"}
# Modules below a wing that pages and docstrings lead users to.
BELOW = (
    *("data.auditing", "data.corrupt", "data.frames", "data.hlo", "data.packs", "data.published"),
    *("data.schema", "preprocess.padding", "preprocess.pipeline", "network.scoring", "training.callbacks"),
    *("training.selection", "ranker.baselines", "ranker.ensemble", "ranker.estimator", "ranker.filekinds"),
    *("ranker.seeds", "evaluation.official"),
)
# Modules that users work with, by what for. All others are parts of these, or for those who extend them.
GROUPS = {
    "Start here": ("",),
    "Measurements": ("data", "data.packs", "download", "xla", "records"),
    "Rankers": ("ranker", "search", "recipes", "training", "distributed", "preprocess"),
    "Judging and submissions": ("evaluation", "metrics", "evaluation.plot", "submission"),
    "Tuning": ("tuning",),
    "Times of layers": ("layertime",),
    "Building blocks": ("kernels", "torch", "errors"),
}
# Pages that stand in a group next to its modules.
PAGES = {
    "Rankers": (
        "Fields of recipes",
        "/generated/fields/index",
        "Every keyword of a ranker: default, range, meaning.",
    ),
    "Building blocks": (
        "Ops and losses",
        "/tables",
        "What models are built of, and what they are trained with.",
    ),
}
INTERNALS = "Parts and internals"
# Members of scorers by what one does with them; of other classes they stand as in the source.
USE = {
    "Learn": ("fit", "partial_fit", "adapt", "from_torch"),
    "Rank": ("predict", "rank", "choose"),
    "Judge": ("evaluate", "score"),
    "Keep": ("save", "load"),
    "Settings": ("get_params", "set_params", "reset"),
    "What it is": (
        *("fitted", "history_", "num_parameters", "parameters", "summary", "schema", "members", "weighted"),
        *("kind", "name", "metric", "n_features_in_", "takes_tables"),
    ),
}
REST = "For those who extend it"
# Members of these are Python's, and stand in Python's documentation.
FOREIGN = "BaseException, tuple, list, dict, Sequence, Mapping, Enum, Protocol, Generic, object"

ABSENT: dict[str, str] = {}
_MODULES: dict[str, ModuleType] = {}


def modules() -> dict[str, ModuleType]:
    """Return the public modules by the names under which users import them."""
    if _MODULES:
        return _MODULES
    found: dict[str, ModuleType] = {}

    def add(path: str, module: ModuleType) -> None:
        if module in found.values():
            return
        found[path] = module
        for name in listed(module):
            if isinstance(getattr(module, name), ModuleType):
                add(f"{path}.{name}", getattr(module, name))

    add(NAME, tpugraphs)
    for name in BELOW:
        add(f"{NAME}.{name}", importlib.import_module(f"{NAME}.{name}"))
    _MODULES.update(found)
    return _MODULES


def listed(module: ModuleType) -> list[str]:
    """Return the public names of a module: its `__all__`, or the classes that it defines.

    A module that needs an extra which is not installed is left out, and noted in `ABSENT`.
    """
    if not hasattr(module, "__all__"):
        own = module.__name__
        return [name for name, value in vars(module).items() if getattr(value, "__module__", "") == own]
    names = []
    for name in [*module.__all__, *getattr(module, "_OPTIONAL", ())]:
        try:
            getattr(module, name)
        except ImportError as error:
            ABSENT[f"{module.__name__}.{name}"] = str(error)
        else:
            names += [] if name.startswith("__") else [name]
    return names


def kind(value: object) -> str:
    """Return the kind of page: class, exception, function or data."""
    if inspect.isclass(value):
        return "exception" if issubclass(value, BaseException) else "class"
    return "function" if inspect.isroutine(value) else "data"


def paths() -> dict[str, str]:
    """Return every public path of every public object, with the path that has its page."""
    places: dict[object, list[str]] = {}
    for module_path, module in modules().items():
        for name in listed(module):
            value = getattr(module, name)
            path = f"{module_path}.{name}"
            if not isinstance(value, ModuleType):
                plain = isinstance(value, (int, float, str))  # equal ones may be one object by chance
                places.setdefault(path if plain else id(value), []).append(path)
    return {path: min(group, key=_worth) for group in places.values() for path in group}


def _worth(path: str) -> tuple[bool, int]:
    """Sort the paths of an object: those under its own name first, then the shortest."""
    name = path.rpartition(".")[2]
    return getattr(look_up(path), "__name__", name) != name, path.count(".")


def look_up(path: str) -> Any:
    """Return the object of a public path."""
    module, _, name = path.rpartition(".")
    return getattr(modules()[module], name)


def comment(module: ModuleType, name: str) -> str:
    """Return the comment above, behind or below a constant in the module that defines it."""
    source = inspect.getsource(module)
    lines = source.splitlines()
    body = ast.parse(source).body
    for i, node in enumerate(body):
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                if (alias.asname or alias.name) == name:
                    return comment(importlib.import_module(node.module), alias.name)
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        if any(isinstance(target, ast.Name) and target.id == name for target in targets):
            first = node.lineno - 1
            while first and lines[first - 1].startswith("#"):
                first -= 1
            above = " ".join(line.lstrip("#: ") for line in lines[first : node.lineno - 1])
            below = body[i + 1] if i + 1 < len(body) else None
            if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant):
                return " ".join(str(below.value.value).split())
            return above or lines[node.lineno - 1].partition("  # ")[2]
    return ""


def summary(path: str) -> str:
    """Return the first line of what is documented about a public path."""
    value = look_up(path)
    if kind(value) == "data":
        module, _, name = path.rpartition(".")
        return comment(modules()[module], name)
    return (inspect.getdoc(value) or "").partition("\n\n")[0].replace("\n", " ")


def fields(cls: type) -> dict[str, str]:
    """Return the fields of a class of recipes' fields with what each says about itself."""
    found = getattr(cls, "__dataclass_fields__", {})
    return {name: one.metadata["doc"] for name, one in found.items() if one.metadata.get("doc")}


def escaped(text: str) -> str:
    """Return text whose bars are not read as substitutions; literals stay as they are."""
    parts = text.split("``")
    return "``".join(part if i % 2 else part.replace("|", "\\|") for i, part in enumerate(parts))


def heading(text: str, line: str = "=") -> list[str]:
    """Return the lines of a heading."""
    return [text, line * len(text), ""]


def used(cls: type) -> dict[str, list[str]]:
    """Return the members of a scorer by use; nothing for other classes."""
    names = [
        name for name in dir(cls) if not name.startswith("_") and inspect.getdoc(getattr(cls, name, None))
    ]
    if not {"predict", "rank"} <= {*names}:
        return {}
    found = {title: [name for name in of if name in names] for title, of in USE.items()}
    found[REST] = [name for name in names if not any(name in of for of in USE.values())]
    return {title: of for title, of in found.items() if of}


def directive(cls: type, name: str) -> str:
    """Return the directive that documents a member."""
    value = inspect.getattr_static(cls, name)
    if isinstance(value, (property, functools.cached_property)):
        return "autoproperty"
    return "automethod" if inspect.isroutine(getattr(cls, name)) else "autoattribute"


def name_page(path: str, also: list[str], backward: bool) -> list[str]:
    """Return the page of one object; of an op of the kernels with its gradients."""
    module, _, name = path.rpartition(".")
    value, what = look_up(path), kind(look_up(path))
    lines = [*heading(path), f".. currentmodule:: {module}", ""]
    if what == "data":
        lines += [f".. py:data:: {name}", "", f"   {escaped(summary(path))}", ""]
        shown = repr(value)
        if len(shown) < 400 and "<" not in shown:
            lines += ["   .. code-block:: python", "", f"      {name} = {shown}", ""]
    elif what == "function":
        lines += [f".. autofunction:: {one}" for one in ([name, f"{name}_backward"] if backward else [name])]
    elif members := used(value):
        lines += [f".. auto{what}:: {name}", ""]
        if path == f"{NAME}.Ranker":
            lines += [
                ":doc:`The fields of every recipe </generated/fields/index>`, with default and range.",
                "",
            ]
        for title, names in members.items():
            lines += [
                *heading(title, "-"),
                *(f".. {directive(value, one)}:: {name}.{one}" for one in names),
                "",
            ]
    else:
        lines += [f".. auto{what}:: {name}", "   :members:", f"   :inherited-members: {FOREIGN}"]
    if also:
        lines += ["", "Also: " + ", ".join(f"``{one}``" for one in also) + "."]
    return lines


def module_page(path: str, module: ModuleType, home: dict[str, str], below: list[str]) -> list[str]:
    """Return the page of a module: a table of its names by kind."""
    lines = [*heading(path), f".. py:module:: {path}", "", inspect.getdoc(module) or "", ""]
    if module.__name__ != path:
        lines += [f"The module is ``{module.__name__}``, and can be imported under both names.", ""]
    names = [name for name in listed(module) if not isinstance(getattr(module, name), ModuleType)]
    for what, title in HEADINGS.items():
        rows = [name for name in names if kind(getattr(module, name)) == what]
        rows = [name for name in rows if not (name.endswith("_backward") and name[:-9] in names)]
        if rows:
            lines += [*heading(title, "-"), ".. list-table::", "   :widths: 40 60", "   :class: names", ""]
        for name in rows:
            target = home[f"{path}.{name}"]
            lines += [f"   * - :py:obj:`{name} <{target}>`", f"     - {escaped(summary(f'{path}.{name}'))}"]
        lines.append("")
    if below:
        lines += [".. toctree::", "   :hidden:", "", *(f"   {one}" for one in below)]
    return lines


def groups() -> dict[str, list[str]]:
    """Return the paths of all modules by group."""
    found = {title: [f"{NAME}.{name}".rstrip(".") for name in names] for title, names in GROUPS.items()}
    listed_there = [path for paths in found.values() for path in paths]
    return {**found, INTERNALS: sorted(set(modules()) - set(listed_there))}


def overview() -> str:
    """Return the list of modules for the page of the reference, a line each, in groups."""
    lines = []
    for title, paths in groups().items():
        rows = [
            (f"`{path}`", f"/generated/reference/{place(path)}", summary_of(modules()[path]))
            for path in paths
            if path in modules()
        ]
        rows += [PAGES[title]] if title in PAGES else []
        lines += [f"## {title}", "", "| page | what it holds |", "| --- | --- |"]
        lines += [f"| [{name}]({to}{'.md' if to == '/tables' else ''}) | {text} |" for name, to, text in rows]
        lines += [
            "",
            "```{toctree}",
            ":hidden:",
            f":caption: {title}",
            "",
            *(to for _, to, _ in rows),
            "```",
            "",
        ]
    return "\n".join(lines)


def summary_of(module: ModuleType) -> str:
    """Return the first paragraph of a module's docstring, for a page in Markdown."""
    text = " ".join((inspect.getdoc(module) or "").partition("\n\n")[0].split())
    return re.sub(r":\w+:`~?([^`]*)`", r"`\1`", text.replace("``", "`"))


def place(path: str) -> str:
    """Return where a page is: folders by kind keep names apart that differ in case alone."""
    folder = "modules" if path in modules() else kind(look_up(path))
    return f"{folder}/{path}"


def pages() -> dict[str, str]:
    """Return all pages of the reference by their places."""
    home, found = paths(), {}
    for path in sorted(set(home.values())):
        first = path.removesuffix("_backward")
        if first != path and first in home:
            continue  # on the page of its op
        also = sorted(other for other, target in home.items() if target == path != other)
        found[path] = name_page(path, also, f"{path}_backward" in home)
    for path, module in modules().items():
        below = sorted(name for name in found if name.rpartition(".")[0] == path and name not in modules())
        found[path] = module_page(
            path,
            module,
            home,
            [f"{name.rpartition('.')[2]} </generated/reference/{place(name)}>" for name in below],
        )
    made = {f"{place(path)}.rst": "\n".join([*lines, ""]) for path, lines in found.items()}
    return {**made, "overview.txt": overview()}


def aliases() -> Iterator[tuple[str, str]]:
    """Yield names by which docstrings call public objects, with the path of the page."""
    for path, target in paths().items():
        yield path, target
        value = look_up(target)
        if hasattr(value, "__qualname__"):
            yield f"{value.__module__}.{value.__qualname__}", target
    for path, module in modules().items():
        yield module.__name__, path
