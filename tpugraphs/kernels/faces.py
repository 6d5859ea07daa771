"""Functions for the ops of the core, made from the op table (`_core.ops`)."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tpugraphs import _core
from tpugraphs._core import require
from tpugraphs.errors import ShapeError
from tpugraphs.kernels import signatures
from tpugraphs.kernels.signatures import Argument, Meta, attribute, made
from tpugraphs.system.arguments import check_whole

Array = NDArray[np.float32]
Precision = Literal["f32", "bf16", "int8"]
Gradients = dict[str, Array]
Names = Mapping[str, str]
Declared = Callable[..., Mapping[str, Any]]

_OPS: dict[str, Meta] = {meta["name"]: meta for meta in _core.ops()}
SHAPES = _core.row_shapes()  # of arrays, by the name of their rows
GRAPH_ARRAYS = {  # array of a graph -> flags of the ops that take it, shape and dtype, meaning
    "edge_index": (
        {"edges"},
        "(E, 2) int64",
        "Rows (u, v): forward, v receives from u, in reverse u from v.",
    ),
    "digits": ({"digits", "unique"}, "(C, K, D) int8", "Digits of the configs, -1: not set."),
    "config_nodes": ({"digits", "unique", "config nodes"}, "(K,) int64", "The configurable nodes."),
    "node_opcode": ({"opcodes"}, "(N,) uint8", ""),
    "layout_digits": ({"layout"}, "(N, 6) int8", ""),
    "node_feat": ({"unique"}, "(N, F) float32", "Features; digits of nodes with equal ones share a cell."),
}
_NUM_NODES = "N, where it does not follow from the inputs."
_DIGIT_ROWS = 'Values that a digit may have, with -1 and "no digit".'
_WHOLE = {"num_nodes": (1, 2**30), "digit_rows": (0, 2**31 - 1), "key": (-(2**63), 2**64 - 1)}


def shapes_of(spec: Meta) -> str:
    """Return the shapes that an input of an op may have: ``(N, F) or (N, C, F)``."""
    every = len(spec["rows"]) == len(SHAPES)
    return "(rows, F) or (rows, C, F)" if every else " or ".join(SHAPES[row] for row in spec["rows"])


def _arguments(meta: Meta, result: str) -> list[Argument]:
    """Return the arguments of an op: inputs, arrays of the graph, parameters, then keyword arguments."""
    required, optional = list[Argument](), list[Argument]()
    for spec in meta["inputs"]:
        form = f"{shapes_of(spec)} float32"
        if spec["optional"]:
            optional.append(Argument(spec["name"], "Array | None", f"{form}, optional", "", None, True))
        else:
            required.append(Argument(spec["name"], "Array", form))
    graph = [name for name, (needing, *_) in GRAPH_ARRAYS.items() if needing & {*meta["flags"]}]
    for name in graph:
        _, form, doc = GRAPH_ARRAYS[name]
        required.append(Argument(name, f"NDArray[np.{form.split()[-1]}]", form, doc))
    choices = [(attr["name"], *need) for attr in meta["attrs"] for need in attr.get("needs", {}).items()]
    needs = {param: f", if {name} = {choice}" for name, choice, param in choices}
    for name in meta["params"]:
        required.append(Argument(name, "Array | None", f"float32 parameter{needs.get(name, '')}", "", None))
    rest = [*optional, *map(attribute, meta["attrs"])]
    if meta["num_nodes"]:
        rest.append(Argument("num_nodes", "int | None", "int, optional", _NUM_NODES, None, True))
    if "digits" in graph:
        rest.append(Argument("digit_rows", "int", "int", _DIGIT_ROWS, _core.SCHEMA["digit_states"], True))
    if "random" in meta["flags"]:
        rest.append(Argument("training", "bool", "bool", "Whether random numbers are drawn.", False, True))
        rest.append(Argument("key", "int", "int", "Key of the random numbers.", 0, True))
    operands = ('{"f32", "bf16", "int8"}', "What operands of matrix products are rounded to.")
    rest.append(Argument("precision", "Precision", *operands, "f32", True))
    where = "Array for the result, of its shape."
    rest.append(Argument(result, "Array | None", "float32, optional", where, None, True))
    return [*required, *rest]


def _flatten(given: dict[str, Any]) -> tuple[int, ...] | None:
    """Reshape all arrays (..., F) of a call to matrices; return the dimensions in front, or None."""
    if getattr(given["x"], "ndim", 0) == 2:
        return None
    require(given["x"], "x", ("...", "F"))
    front: tuple[int, ...] = given["x"].shape[:-1]

    def flat(array: Array, name: str) -> Array:
        require(array, name, (*front, "F"))
        return array.reshape(-1, array.shape[-1])

    out = given["out"]
    if isinstance(out, Mapping):
        given["out"] = {key: flat(array, "out['x']") if key == "x" else array for key, array in out.items()}
    elif out is not None:
        given["out"] = flat(out, "out")
    given.update({key: flat(given[key], key) for key in ("x", "dy") if key in given})
    return front


class Face:
    """An op as two functions of arrays, `forward` and `backward`.

    Parameters
    ----------
    meta : mapping
        The op's row of the table.
    declaration : callable, optional
        Has the name, arguments and docstring of `forward`, and returns attributes, and arrays under the op's
        names, for the op. Arguments without an annotation have the op's types. By default everything is as in
        the op.
    names : mapping of str to str
        Arguments of the declaration with another name in the op, and that name.
    flat : bool
        ``x`` may have any number of dimensions in front of its columns.
    """

    def __init__(
        self, meta: Meta, declaration: Declared | None = None, names: Names | None = None, flat: bool = False
    ) -> None:
        self.op, self._implied, self._names, self._flat = meta["name"], declaration, names or {}, flat
        self._theirs = {ours: given for given, ours in self._names.items()}
        taken = declaration is None and any(attr["name"] == "out" for attr in meta["attrs"])
        self._result = "result" if taken else "out"  # the argument for arrays to write to
        arguments, common = _arguments(meta, self._result), inspect.cleandoc(self._forward.__doc__ or "")
        if declaration is None:
            doc = signatures.document(meta["doc"], arguments, common.partition("\n")[2])
            self.name, shown = self.op, signatures.signature(arguments, "Array")
        else:
            types = {one.name: one.type for one in arguments} | {"out": "Array | None"}
            doc = (inspect.getdoc(declaration) or "") + "".join(common.partition("\n\nRaises")[1:])
            self.name = declaration.__name__
            shown = signatures.declared(declaration, types, self._names, "Array")
        given = ", ".join(one for one in shown.parameters if one != self._result)
        back = inspect.cleandoc(self._backward.__doc__ or "")
        back = back.format(name=self.name, arguments=given, result=self._result)
        self.forward: Callable[..., Array] = made(self._forward, self.name, doc, shown)
        self.backward: Callable[..., Gradients] = made(
            self._backward, f"{self.name}_backward", back, self._behind(shown)
        )

    def functions(self) -> dict[str, Callable[..., Any]]:
        """Return both functions by name."""
        return {self.name: self.forward, f"{self.name}_backward": self.backward}

    def _behind(self, shown: inspect.Signature) -> inspect.Signature:
        """Return the signature of `backward`."""
        first, last = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY
        dy = inspect.Parameter("dy", first, annotation="Array")
        outs = shown.parameters[self._result].replace(annotation="Mapping[str, Array] | None")
        only = inspect.Parameter("only", last, default=None, annotation="Collection[str] | None")
        parameters = {"dy": dy, **shown.parameters, self._result: outs, "only": only}
        return inspect.Signature(list(parameters.values()), return_annotation="dict[str, Array]")

    def _run(self, function: Callable[..., Any], *given: Any) -> Any:
        """Call the core; its errors begin with the op's name of an array."""
        try:
            return function(*given)
        except ShapeError as error:
            name, colon, text = str(error).partition(":")
            raise ShapeError(self._theirs.get(name, name) + colon + text) from None

    def _sorted(self, given: dict[str, Any]) -> tuple[tuple[Any, ...], list[str]]:
        """Return a call's arguments as the core takes them, and the names of its gradients."""
        if self._implied is not None:
            arrays = {self._names.get(key, key): value for key, value in given.items() if key != "out"}
            given = {**arrays, **self._implied(**given)}
        for name in given.keys() & _WHOLE.keys():
            if given[name] is not None or name != "num_nodes":
                given[name] = check_whole(name, given[name], *_WHOLE[name])
        call, names = self._run(_core.op_arguments, self.op, given)
        return call, [self._theirs.get(name, name) for name in names]

    def _forward(self, given: dict[str, Any]) -> Array:
        """Run the op.

        Returns
        -------
        float32 array
            The rows of the op, with its columns last.

        Raises
        ------
        ShapeError
            An array that is not C-contiguous, or of another dtype or shape than above.
        RecipeError
            An attribute out of range.
        ValueError
            Another precision, or an array to write to that is read-only or overlaps an argument.
        """
        out, front = given[self._result], _flatten(given) if self._flat else None
        call, _ = self._sorted(given)
        precision = given.get("precision", "f32")
        y: Array = self._run(_core.op_forward, *call, None, given[self._result], precision)
        if front is None:
            return y
        return y.reshape(*front, y.shape[-1]) if out is None else out

    def _backward(self, given: dict[str, Any]) -> Gradients:
        """Return the gradients of `{name}` with respect to its arrays.

        Parameters
        ----------
        dy : float32
            Gradient of the result, with its shape.
        {arguments}
            As for `{name}`.
        {result} : mapping of str to float32 array, optional
            Arrays for the gradients, by argument name.
        only : collection of str, optional
            Names of the gradients to make; by default all.

        Returns
        -------
        dict of str to float32 array
            Gradients by argument name, with the shapes of the arguments.

        Raises
        ------
        ShapeError
            An array that is not C-contiguous, or of another dtype or shape than it must be.
        ValueError
            A name in `{result}` that no array has.
        """
        out, front = given[self._result] or {}, _flatten(given) if self._flat else None
        dy, only, outs = given.pop("dy"), given.pop("only"), given[self._result] or {}
        call, names = self._sorted(given)
        for argument, chosen in (("out", outs), ("only", only or ())):
            if unknown := sorted({*chosen} - {*names}):
                expected = ", ".join(names)
                raise ValueError(f"{argument}: no gradient is called {unknown[0]!r}; expected {expected}")
        for name, array in zip(names, (*call[2], *call[3]), strict=False):  # not digits
            if name in outs:
                require(outs[name], f"out[{name!r}]", array.shape)
        wanted = [name for name in names if only is None or name in only]
        places = tuple(outs.get(name) if name in wanted else False for name in names)
        dx, dw, digits = self._run(_core.op_backward, *call, dy, places, given.get("precision", "f32"))
        found = dict(zip(names, [*dx, *dw, digits], strict=False))
        if front is not None and "x" in wanted:
            found["x"] = out["x"] if "x" in out else found["x"].reshape(*front, -1)
        return {name: found[name] for name in wanted}


def named(op: str, flat: bool = False, **names: str) -> Callable[[Declared], Face]:
    """Declare the face of an op with other arguments than the op's: see `Face`."""
    return lambda declaration: Face(_OPS[op], declaration, names, flat)


def faces(named: Iterable[Face] = ()) -> dict[str, Callable[..., Any]]:
    """Return both functions of every op of the core by name, from `named` where it has the op."""
    every = list(named)
    done = {face.op for face in every}
    every += [Face(meta) for name, meta in _OPS.items() if name not in done]
    return {name: function for face in every for name, function in face.functions().items()}
