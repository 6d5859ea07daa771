"""Functions for the ops of the core, made from the op table (`_core.ops`)."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tpugraphs import _core
from tpugraphs.errors import ShapeError
from tpugraphs.kernels.arrays import Shape, require, shape_text
from tpugraphs.kernels.signatures import (
    Argument,
    Meta,
    attribute,
    declared,
    document,
    made,
    signature,
)
from tpugraphs.system.arguments import check_whole

__all__ = ["GRAPH_ARRAYS", "SHAPES", "Array", "Face", "Precision", "faces", "named"]

Array = NDArray[np.float32]
Precision = Literal["f32", "bf16", "int8"]
Gradients = dict[str, Array]
Implied = Mapping[str, Any]

_OPS: dict[str, Meta] = {meta["name"]: meta for meta in _core.ops()}
SHAPES: dict[str, Shape] = {
    "NODE": ("N", "F"),
    "NODE_CONFIG": ("N", "C", "F"),
    "CONFIG_NODE": ("K", "F"),
    "CONFIG_NODE_CONFIG": ("K", "C", "F"),
    "EDGE": ("E", "F"),
    "EDGE_CONFIG": ("E", "C", "F"),
    "CONFIG": ("C", "F"),
    "SLATE": (1, "F"),
    "UNIQUE": ("U", "F"),
}
_NODES = {"NODE", "NODE_CONFIG"}
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


def _shapes(spec: Meta) -> tuple[Shape, ...]:
    """Return the shapes that an input may have."""
    if len(spec["rows"]) == len(SHAPES):
        return ("rows", "F"), ("rows", "C", "F")
    return tuple(SHAPES[row] for row in spec["rows"])


def _arguments(op: Op) -> list[Argument]:
    """Return the arguments of an op: inputs, arrays of the graph, parameters, then keyword arguments."""
    required, optional = list[Argument](), list[Argument]()
    for name, shapes in op.inputs.items():
        form = f"{shape_text(*shapes)} float32"
        if name in op.required:
            required.append(Argument(name, "Array", form))
        else:
            optional.append(Argument(name, "Array | None", f"{form}, optional", "", None, True))
    for name in op.graph:
        _, form, doc = GRAPH_ARRAYS[name]
        required.append(Argument(name, f"NDArray[np.{form.split()[-1]}]", form, doc))
    choices = [(attr["name"], *need) for attr in op.attrs for need in attr.get("needs", {}).items()]
    needs = {param: f", if {name} = {choice}" for name, choice, param in choices}
    for name in op.params:
        required.append(Argument(name, "Array | None", f"float32 parameter{needs.get(name, '')}", "", None))
    rest = [*optional, *map(attribute, op.attrs)]
    if op.asks_for_nodes:
        rest.append(Argument("num_nodes", "int | None", "int, optional", _NUM_NODES, None, True))
    if "digits" in op.graph:
        rest.append(Argument("digit_rows", "int", "int", _DIGIT_ROWS, _core.SCHEMA["digit_states"], True))
    if op.random:
        rest.append(Argument("training", "bool", "bool", "Whether random numbers are drawn.", False, True))
        rest.append(Argument("key", "int", "int", "Key of the random numbers.", 0, True))
    operands = ('{"f32", "bf16", "int8"}', "What operands of matrix products are rounded to.")
    rest.append(Argument("precision", "Precision", *operands, "f32", True))
    where = "Array for the result, of its shape."
    rest.append(Argument(op.result, "Array | None", "float32, optional", where, None, True))
    return [*required, *rest]


class Op:
    """An op of the core: the entries of its table row that calls need."""

    def __init__(self, meta: Meta) -> None:
        flags, self.attrs = set(meta["flags"]), meta["attrs"]
        self.name, self.doc, self.params = meta["name"], meta["doc"], tuple(meta["params"])
        self.graph = [name for name, (needing, *_) in GRAPH_ARRAYS.items() if needing & flags]
        self.inputs = {spec["name"]: _shapes(spec) for spec in meta["inputs"]}
        self.required = {spec["name"] for spec in meta["inputs"] if not spec["optional"]}
        self.defaults = {attr["name"]: attr["default"] for attr in self.attrs}
        self.result = "result" if "out" in self.defaults else "out"  # the argument for arrays to write to
        self.digits, self.random = "digits" in flags, "random" in flags
        rows = {spec["name"]: set(spec["rows"]) for spec in meta["inputs"]}
        # With rows of configs alone, nothing depends on the number of nodes.
        self.of_configs = bool(rows) and all(spaces == {"CONFIG"} for spaces in rows.values())
        # Without known configurable nodes, their rows are like those of any nodes.
        nodes = _NODES if "config_nodes" in self.graph else {*_NODES, "CONFIG_NODE", "CONFIG_NODE_CONFIG"}
        given = [rows[name] for name in self.required]
        has_nodes = any(spaces <= nodes or len(spaces) == len(SHAPES) for spaces in given)
        self.asks_for_nodes = not has_nodes and not self.of_configs
        # Inputs that imply the number of nodes, unambiguous ones first.
        sources = sorted((name for name in rows if rows[name] & _NODES), key=lambda n: not rows[n] <= _NODES)
        self.sources = ["node_feat"] if "node_feat" in self.graph else sources
        self.per_config = {name for name in rows if rows[name] == {"CONFIG"}}
        # Rows of configs, if their number is not that of the nodes.
        self.either = [name for name in rows if rows[name] == _NODES | {"CONFIG"}]

    def nodes(self, given: Mapping[str, Any]) -> int:
        """Return the number of nodes of a call."""
        if given.get("num_nodes") is not None:
            return check_whole("num_nodes", given["num_nodes"], 1, 2**30)
        found = [given[name] for name in self.sources if given.get(name) is not None]
        if len(found) > 1:  # of two dimensions, rows may be those of configs, and one may be the graph's
            found = [min(found, key=lambda array: (array.ndim < 3, len(array) == 1))]
        if found:
            return len(found[0])
        if self.of_configs:
            return 1
        raise ShapeError(f"{self.name}: give num_nodes, which does not follow from the inputs")

    def slate(self, given: Mapping[str, Any]) -> _core.ModelGraph | int:
        """Make the graph of a call, or only count its nodes if the op needs nothing else."""
        nodes = self.nodes(given)
        if nodes < 1:
            raise ShapeError(f"{self.name}: expected at least one node (N >= 1), got no rows")
        if not self.graph:
            return nodes
        edges, ids = given.get("edge_index"), given.get("config_nodes")
        digit_rows = given.get("digit_rows", _core.SCHEMA["digit_states"])
        return _core.ModelGraph(
            given["node_feat"] if "node_feat" in self.graph else np.zeros((nodes, 1), np.float32),
            given.get("node_opcode"),
            given.get("layout_digits"),
            np.zeros((0, 2), np.int64) if edges is None else edges,
            np.zeros(0, np.int64) if ids is None else ids,
            given.get("digits"),
            digit_rows=check_whole("digit_rows", digit_rows, 0, 2**31 - 1),
        )

    def configs(self, given: Mapping[str, Any], inputs: Mapping[str, Array]) -> int:
        """Return the number of configs of a call, or raise ShapeError if there are none."""
        if (digits := given.get("digits")) is not None:
            require(digits, "digits", ("C", "K", "D"), dtype=np.int8)
        nodes = self.nodes(given) if self.either else 0
        sizes = [len(digits)] if digits is not None else []
        for name, array in inputs.items():
            sizes += [array.shape[1]] if array.ndim == 3 else [len(array)] if name in self.per_config else []
        sizes += [len(inputs[name]) for name in self.either if name in inputs and len(inputs[name]) != nodes]
        if (configs := next(iter(sizes), 1)) < 1:
            found = ", ".join(str(array.shape) for array in inputs.values())
            raise ShapeError(
                f"{self.name}: expected at least one config (C >= 1), got C = 0 with input {found}"
            )
        return configs


class _Call:
    """One call of an op: its arguments by the op's names, sorted for the core.

    `names` maps the op's names of arrays to those in errors and gradients.
    """

    def __init__(self, op: Op, names: Mapping[str, str], given: Mapping[str, Any]) -> None:
        self._names = names
        inputs = {}
        for name, shapes in op.inputs.items():
            if (array := given.get(name)) is not None:
                require(array, self.name(name), *shapes)
                inputs[name] = array
            elif name in op.required:
                raise ShapeError(
                    f"{self.name(name)}: expected a float32 array {shape_text(*shapes)}, got None"
                )
        params = {name: given[name] for name in op.params if given.get(name) is not None}
        self.arrays = inputs | params
        self.gradients = [self.name(name) for name in self.arrays] + ["digits"] * op.digits
        configs = op.configs(given, inputs)
        self.arguments = (
            op.name,
            {name: given.get(name, default) for name, default in op.defaults.items()},
            tuple(inputs.values()),
            tuple(params.values()),
            op.slate(given),
            configs,
            check_whole("key", given.get("key", 0), -(2**63), 2**64 - 1),
            bool(given.get("training", False)),
        )

    def name(self, name: str) -> str:
        return self._names.get(name, name)

    def run(self, function: Callable[..., Any], *rest: Any) -> Any:
        try:
            return function(*self.arguments, *rest)
        except ShapeError as error:  # begins with the op's name of an array
            name, colon, text = str(error).partition(":")
            raise ShapeError(self.name(name) + colon + text) from None

    def backward(
        self, dy: Array, out: Mapping[str, Array], only: Collection[str] | None, precision: Precision
    ) -> Gradients:
        """Make the gradients that `only` names, in the arrays of `out`."""
        for argument, names in (("out", out), ("only", only or ())):
            if unknown := sorted(set(names) - set(self.gradients)):
                expected = ", ".join(self.gradients)
                raise ValueError(f"{argument}: no gradient is called {unknown[0]!r}; expected {expected}")
        for name, array in zip(self.gradients, self.arrays.values(), strict=False):  # not digits
            if name in out:
                require(out[name], f"out[{name!r}]", array.shape)
        wanted = [name for name in self.gradients if only is None or name in only]
        outs = tuple(out.get(name) if name in wanted else False for name in self.gradients)
        dx, dw, digits = self.run(_core.op_backward, dy, outs, precision)
        found = dict(zip(self.gradients, [*dx, *dw, digits], strict=False))
        return {name: found[name] for name in wanted}


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
    op : Op
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
        self,
        op: Op,
        declaration: Callable[..., Implied] | None = None,
        names: Mapping[str, str] | None = None,
        flat: bool = False,
    ) -> None:
        self.op, self._implied, self._names, self._flat = op, declaration, names or {}, flat
        self._theirs = {ours: given for given, ours in self._names.items()}
        arguments, common = _arguments(op), inspect.cleandoc(self._forward.__doc__ or "")
        if declaration is None:
            doc = document(op.doc, arguments, common.partition("\n")[2])
            self.name, self._result = op.name, op.result
            shown = signature(arguments, "Array")
        else:
            types = {one.name: one.type for one in arguments} | {"out": "Array | None"}
            doc = (inspect.getdoc(declaration) or "") + "".join(common.partition("\n\nRaises")[1:])
            self.name, self._result = declaration.__name__, "out"
            shown = declared(declaration, types, self._names, "Array")
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

    def _call(self, given: dict[str, Any]) -> _Call:
        if self._implied is None:
            return _Call(self.op, {}, given)
        arrays = {self._names.get(key, key): value for key, value in given.items() if key != "out"}
        return _Call(self.op, self._theirs, {**arrays, **self._implied(**given)})

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
        precision = given.get("precision", "f32")
        y: Array = self._call(given).run(_core.op_forward, None, given[self._result], precision)
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
        dy, only = given.pop("dy"), given.pop("only")
        outs, precision = given[self._result] or {}, given.get("precision", "f32")
        grads = self._call(given).backward(dy, outs, only, precision)
        if front is not None and "x" in grads:
            grads["x"] = out["x"] if "x" in out else grads["x"].reshape(*front, -1)
        return grads


def named(op: str, flat: bool = False, **names: str) -> Callable[[Callable[..., Implied]], Face]:
    """Declare the face of an op with other arguments than the op's: see `Face`."""
    return lambda declaration: Face(Op(_OPS[op]), declaration, names, flat)


def faces(named: Iterable[Face] = ()) -> dict[str, Callable[..., Any]]:
    """Return both functions of every op of the core by name, from `named` where it has the op."""
    every = list(named)
    done = {face.op.name for face in every}
    every += [Face(Op(meta)) for name, meta in _OPS.items() if name not in done]
    return {name: function for face in every for name, function in face.functions().items()}
