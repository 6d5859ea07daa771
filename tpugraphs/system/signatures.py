"""Arguments that are declared once, as fields of a dataclass, and shown by all functions that take them."""

import inspect
from collections.abc import Callable, Collection, Mapping
from dataclasses import fields
from typing import Any, TypeVar

FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])


def shows(declared: type, taken: Collection[str]) -> Callable[[FunctionT], FunctionT]:
    """Show arguments in place of a function's ``**options``, or before its ``**fields``, in `help`.

    Parameters
    ----------
    declared : dataclass
        Its fields have the types and defaults.
    taken : collection of str
        Names of the fields that the function takes.

    Returns
    -------
    callable
        A decorator.
    """
    keyword = inspect.Parameter.KEYWORD_ONLY
    shown = [
        inspect.Parameter(field.name, keyword, default=field.default, annotation=field.type)
        for field in fields(declared)
        if field.name in taken
    ]

    def add(function: FunctionT) -> FunctionT:
        signature = inspect.signature(function)
        own = {name: one for name, one in signature.parameters.items() if name != "options"}
        fields = [own.pop("fields")] if "fields" in own else []
        vars(function)["__signature__"] = signature.replace(parameters=[*own.values(), *shown, *fields])
        return function

    return add


def checked_names(function: str, taken: Collection[str], options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a function; TypeError for one that is not `taken`."""
    if unknown := options.keys() - set(taken):
        raise TypeError(f"{function}() got an unexpected keyword argument {min(unknown)!r}")
    return dict(options)
