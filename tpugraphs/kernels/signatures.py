"""Signatures and documentation of functions that are made at run time from tables of the core."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

Meta = Mapping[str, Any]
_KINDS = {"flag": "bool", "int": "int", "real": "float"}


class Argument(NamedTuple):
    """An argument of a function made at run time."""

    name: str
    type: str  # its annotation, if any
    form: str = ""  # its form in the documentation, if different
    doc: str = ""
    default: Any = inspect.Parameter.empty
    keyword: bool = False


def signature(arguments: Iterable[Argument], returns: str) -> inspect.Signature:
    """Return the signature of a function with these arguments."""
    of = inspect.Parameter
    kinds = (of.POSITIONAL_OR_KEYWORD, of.KEYWORD_ONLY)
    parameters = [
        of(one.name, kinds[one.keyword], default=one.default, annotation=one.type or of.empty)
        for one in arguments
    ]
    return inspect.Signature(parameters, return_annotation=returns)


def declared(
    function: Callable[..., Any], types: Mapping[str, str], names: Mapping[str, str], returns: str
) -> inspect.Signature:
    """Return the signature of a function; arguments without an annotation have the types of a table.

    `names` are arguments with other names in the table. A required argument is never None, unless its
    annotation allows it.
    """
    found = []
    for name, one in inspect.signature(function).parameters.items():
        if one.annotation is one.empty:
            known = types[names.get(name, name)]
            one = one.replace(annotation=known.removesuffix(" | None") if one.default is one.empty else known)
        found.append(one)
    return inspect.Signature(found, return_annotation=returns)


def document(summary: str, arguments: Iterable[Argument], rest: str) -> str:
    """Return a docstring in numpydoc's form; `rest` follows the arguments."""
    lines = [summary, "", "Parameters", "----------"]
    for one in arguments:
        lines.append(f"{one.name} : {one.form}" if one.form else one.name)
        lines += [f"    {one.doc}"] if one.doc else []
    return "\n".join([*lines, rest])


def literal(choices: Iterable[str]) -> str:
    """Return the annotation of an argument that has these values: ``Literal['mean', 'sum']``."""
    return f"Literal[{', '.join(map(repr, choices))}]"


def attribute(attr: Meta) -> Argument:
    """Return the argument of an attribute of an op or a loss, with its default and range."""
    kind = literal(attr["choices"]) if attr["kind"] == "choice" else _KINDS[attr["kind"]]
    default = attr["default"]
    form = f"{kind}, default {default!r}"
    if "choices" in attr:
        form = "{" + ", ".join(f'"{choice}"' for choice in attr["choices"]) + f'}}, default "{default}"'
    doc = attr["doc"] if attr["doc"].split()[0].endswith(":") else attr["doc"][0].upper() + attr["doc"][1:]
    limits = f" From {attr['low']:.10g} to {attr['high']:.10g}." if "low" in attr else ""
    return Argument(attr["name"], kind, form, f"{doc}.{limits}", default, True)


def made(
    run: Callable[[dict[str, Any]], Any],
    name: str,
    doc: str,
    signature: inspect.Signature,
    module: str = "tpugraphs.kernels",
) -> Callable[..., Any]:
    """Make a function that calls `run` with a dict of its arguments, defaults among them.

    `Signature.bind` is called only if something is wrong: it would slow down small products.
    """
    parameters = signature.parameters
    plain = [key for key, one in parameters.items() if one.kind is one.POSITIONAL_OR_KEYWORD]
    defaults = {key: one.default for key, one in parameters.items() if one.default is not one.empty}

    def function(*args: Any, **kwargs: Any) -> Any:
        placed = dict(zip(plain, args, strict=False))
        given = {**defaults, **placed, **kwargs}
        whole = len(given) == len(parameters) and len(placed) == len(args)  # with as many, none is missing
        if whole and kwargs.keys() <= parameters.keys() and placed.keys().isdisjoint(kwargs):
            return run(given)
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{name}: {error}") from None
        bound.apply_defaults()
        return run(bound.arguments)

    shown: Any = function
    shown.__name__ = shown.__qualname__ = name
    shown.__module__, shown.__doc__, shown.__signature__ = module, doc, signature
    return function
