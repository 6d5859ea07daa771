"""Functions for the ops of the core, made from what each says about itself (`_core.ops`)."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from typing import Any, Literal, ParamSpec

import numpy as np
from numpy.typing import NDArray

from tpugraphs import _core
from tpugraphs.errors import ShapeError
from tpugraphs.system.arguments import check_whole

__all__ = ["SHAPES", "attribute_type", "faces", "named_faces"]

P = ParamSpec("P")
Array = NDArray[np.float32]
Precision = Literal["f32", "bf16", "int8"]
Meta = Mapping[str, Any]
Gradients = dict[str, Array]

_OPS: dict[str, Meta] = {meta["name"]: meta for meta in _core.ops()}
_GRAPH = {  # what an op needs of a graph -> the arguments that give it
    "edges": ("edge_index",),
    "digits": ("digits", "config_nodes"),
    "unique": ("digits", "config_nodes"),
    "config nodes": ("config_nodes",),
    "opcodes": ("node_opcode",),
    "layout": ("layout_digits",),
}
SHAPES = {
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
GRAPH_ARRAYS = {
    "edge_index": "(E, 2) int64: rows (u, v); forward, v receives from u, in reverse u from v",
    "digits": "(C, K, D) int8: digits of the configs, -1: not set",
    "config_nodes": "(K,) int64: the configurable nodes",
    "node_opcode": "(N,) uint8",
    "layout_digits": "(N, 6) int8",
    "node_feat": "(N, F) float32: by which configurable nodes are alike",
}
_PLAIN = {  # keyword arguments that are not attributes -> their types
    "num_nodes": "int | None",
    "digit_rows": "int",
    "training": "bool",
    "key": "int",
    "precision": "Precision",
}
_KINDS = {"flag": "bool", "int": "int", "real": "float"}


# What many ops have in common, and what all of them have.
_COMMON = {
    "num_nodes": "num_nodes : int, optional\n    N, where it does not follow from the inputs.",
    "digit_rows": 'digit_rows : int\n    Values that a digit may have, with -1 and "no digit".',
    "training": "training : bool\n    Whether random numbers are drawn.",
    "key": "key : int\n    Of the random numbers.",
}
_RESULT = (
    'precision : {"f32", "bf16", "int8"}',
    "    Of the operands of matrix products.",
    "out : float32, optional",
    "    Array of the shape of the result, where it goes.",
    "",
    "Returns",
    "-------",
    "float32 array",
    "    The rows of the op, with its columns last.",
    "",
    "Raises",
    "------",
    "ShapeError",
    "    An array that is not C-contiguous, or of another dtype or shape than above.",
    "RecipeError",
    "    An attribute out of range.",
    "ValueError",
    "    Another precision, or an array to write to that is read-only or overlaps an argument.",
)


def _document_backward(name: str, signature: inspect.Signature, result: str) -> str:
    """Return the docstring of the gradients of an op."""
    given = ", ".join(one for one in signature.parameters if one != result)
    lines = f"""Return the gradients of `{name}` with respect to its arrays.

Parameters
----------
dy : float32
    Gradient of the result, and of its shape.
{given}
    Those of `{name}`.
{result} : mapping of str to float32 array, optional
    Where gradients go, by names of arrays.
only : collection of str, optional
    Names of the gradients to make; by default all.

Returns
-------
dict of str to float32 array
    By names of the arrays, each of the shape of the array.

Raises
------
ShapeError
    An array that is not C-contiguous, or of another dtype or shape than it must be.
ValueError
    A name in `{result}` that no array has."""
    return lines


def _text(shape: tuple[int | str, ...]) -> str:
    return str(shape).replace("'", "")


def _fits(array: object, dtype: type, shape: tuple[int | str, ...]) -> bool:
    if not isinstance(array, np.ndarray) or array.dtype != dtype or not array.flags.c_contiguous:
        return False
    sizes = array.shape
    if shape[0] == "...":
        shape, sizes = shape[1:], sizes[max(0, len(sizes) - len(shape) + 1) :]
    if len(shape) != len(sizes):
        return False
    for want, size in zip(shape, sizes, strict=True):  # a loop: small products notice a generator
        if want != size and not isinstance(want, str):
            return False
    return True


def require(array: object, name: str, *shapes: tuple[int | str, ...], dtype: type = np.float32) -> None:
    """Raise ShapeError unless `array` is C-contiguous, of `dtype` and of a shape (letters: any size)."""
    for shape in shapes:
        if _fits(array, dtype, shape):
            return
    found = type(array).__name__
    if isinstance(array, np.ndarray):
        found = f"{array.dtype} {array.shape}{'' if array.flags.c_contiguous else ', not C-contiguous'}"
    expected = " or ".join(map(_text, shapes))
    raise ShapeError(f"{name}: expected {np.dtype(dtype)} array of shape {expected}, got {found}")


def _shapes(spec: Meta) -> tuple[tuple[int | str, ...], ...]:
    """Shapes that an input may have."""
    if len(spec["rows"]) == len(SHAPES):
        return ("rows", "F"), ("rows", "C", "F")
    return tuple(SHAPES[row] for row in spec["rows"])


def _graph_arguments(meta: Meta) -> list[str]:
    names = [name for flag, names in _GRAPH.items() if flag in meta["flags"] for name in names]
    if "unique" in meta["flags"]:
        names.append("node_feat")
    return list(dict.fromkeys(names))


def _of_configs(meta: Meta) -> bool:
    """Whether the op has rows of configs alone: then nothing depends on the number of nodes."""
    return bool(meta["inputs"]) and all(set(spec["rows"]) == {"CONFIG"} for spec in meta["inputs"])


def _has_nodes(meta: Meta) -> bool:
    """Whether an input that is always given has a row per node: any, if none is known to be configurable."""
    rows = [set(spec["rows"]) for spec in meta["inputs"] if not spec["optional"]]
    nodes = _NODES
    if "config_nodes" not in _graph_arguments(meta):
        nodes = nodes | {"CONFIG_NODE", "CONFIG_NODE_CONFIG"}
    return any(spaces <= nodes or len(spaces) == len(SHAPES) for spaces in rows)


def _result(meta: Meta) -> str:
    """Name of the argument for arrays to write to: `out`, unless that is an attribute of the op."""
    return "result" if any(attr["name"] == "out" for attr in meta["attrs"]) else "out"


def literal(choices: Iterable[str]) -> str:
    """Return the annotation of an argument that has these values: ``Literal['mean', 'sum']``."""
    return f"Literal[{', '.join(map(repr, choices))}]"


def attribute_type(attr: Meta) -> str:
    """Return the annotation of an attribute of an op or a loss."""
    return literal(attr["choices"]) if attr["kind"] == "choice" else _KINDS[attr["kind"]]


def _types(meta: Meta) -> dict[str, str]:
    """Annotations by the names of arguments."""
    dtypes = {name: text.split(":")[0].split()[-1] for name, text in GRAPH_ARRAYS.items()}
    found = {name: f"NDArray[np.{dtypes[name]}]" for name in _graph_arguments(meta)}
    found |= {spec["name"]: "Array | None" if spec["optional"] else "Array" for spec in meta["inputs"]}
    found |= dict.fromkeys(meta["params"], "Array | None")
    found |= {attr["name"]: attribute_type(attr) for attr in meta["attrs"]}
    return {**_PLAIN, _result(meta): "Array | None", **found}


def _signature(meta: Meta) -> inspect.Signature:
    plain, named = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY
    names = [spec["name"] for spec in meta["inputs"] if not spec["optional"]] + _graph_arguments(meta)
    parameters = [inspect.Parameter(name, plain) for name in names]
    parameters += [inspect.Parameter(name, plain, default=None) for name in meta["params"]]
    extra: dict[str, Any] = {spec["name"]: None for spec in meta["inputs"] if spec["optional"]}
    extra |= {attr["name"]: attr["default"] for attr in meta["attrs"]}
    extra |= {} if _has_nodes(meta) or _of_configs(meta) else {"num_nodes": None}
    extra |= {"digit_rows": _core.SCHEMA["digit_states"]} if "digits" in _graph_arguments(meta) else {}
    extra |= {"training": False, "key": 0} if "random" in meta["flags"] else {}
    extra |= {"precision": "f32", _result(meta): None}
    parameters += [inspect.Parameter(name, named, default=value) for name, value in extra.items()]
    types = _types(meta)
    typed = [parameter.replace(annotation=types[parameter.name]) for parameter in parameters]
    return inspect.Signature(typed, return_annotation="Array")


def _document(meta: Meta) -> str:
    lines = [meta["doc"], "", "Parameters", "----------"]
    for spec in meta["inputs"]:
        shapes = " or ".join(map(_text, _shapes(spec)))
        lines.append(f"{spec['name']} : {shapes} float32{', optional' if spec['optional'] else ''}")
    for name in _graph_arguments(meta):
        form, _, said = GRAPH_ARRAYS[name].partition(": ")
        lines += [f"{name} : {form}", *([f"    {said}"] if said else [])]
    needs = {n: f", if {a['name']} = {c}" for a in meta["attrs"] for c, n in a.get("needs", {}).items()}
    lines += [f"{name} : float32 parameter{needs.get(name, '')}" for name in meta["params"]]
    for attr in meta["attrs"]:
        kind = "{" + ", ".join(attr["choices"]) + "}" if attr["kind"] == "choice" else attr["kind"]
        lines += [f"{attr['name']} : {kind}", f"    {attr['doc']}"]
    random = "random" in meta["flags"]
    for name, said in _COMMON.items():
        if name in _signature(meta).parameters and (random or name not in ("training", "key")):
            lines += said.split("\n")
    result = "\n".join(_RESULT).replace("out :", f"{_result(meta)} :")
    return "\n".join([*lines, result])


class _Op:
    """What calls of an op need of its row of the table."""

    def __init__(self, meta: Meta) -> None:
        self.name, self.params, self.graph = meta["name"], tuple(meta["params"]), _graph_arguments(meta)
        self.inputs = tuple((spec["name"], _shapes(spec)) for spec in meta["inputs"])
        self.required = {spec["name"] for spec in meta["inputs"] if not spec["optional"]}
        self.defaults = {attr["name"]: attr["default"] for attr in meta["attrs"]}
        self.digits, self.of_configs = "digits" in meta["flags"], _of_configs(meta)
        rows = {s["name"]: set(s["rows"]) for s in meta["inputs"]}
        sources = [name for name in rows if rows[name] & _NODES]
        sources.sort(key=lambda name: not rows[name] <= _NODES)  # those that can be nothing else first
        self.sources = ["node_feat"] if "node_feat" in self.graph else sources  # of the number of nodes
        self.per_config = {name for name in rows if rows[name] == {"CONFIG"}}
        # of configs, if they are not as many as the nodes
        self.either = [name for name in rows if rows[name] == _NODES | {"CONFIG"}]

    def nodes(self, given: Mapping[str, Any]) -> int:
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

    def slate(self, given: Mapping[str, Any]) -> _core.Graph | int:
        """Make the graph of a call; just count its nodes if the op asks for nothing else."""
        nodes = self.nodes(given)
        if nodes < 1:
            raise ShapeError(f"{self.name}: expected at least one node (N >= 1), got no rows")
        if not self.graph:
            return nodes
        edges, ids = given.get("edge_index"), given.get("config_nodes")
        digit_rows = given.get("digit_rows", _core.SCHEMA["digit_states"])
        return _core.Graph(
            given["node_feat"] if "node_feat" in self.graph else np.zeros((nodes, 1), np.float32),
            given.get("node_opcode"),
            given.get("layout_digits"),
            np.zeros((0, 2), np.int64) if edges is None else edges,
            np.zeros(0, np.int64) if ids is None else ids,
            given.get("digits"),
            digit_rows=check_whole("digit_rows", digit_rows, 0, 2**31 - 1),
        )

    def configs(self, given: Mapping[str, Any], inputs: Mapping[str, Array]) -> int:
        if (digits := given.get("digits")) is not None:
            require(digits, "digits", ("C", "K", "D"), dtype=np.int8)
            return len(digits)
        for name, array in inputs.items():
            if array.ndim == 3:
                return int(array.shape[1])
            if name in self.per_config:
                return len(array)
        nodes = self.nodes(given) if self.either else 0
        return next((len(inputs[name]) for name in self.either if len(inputs[name]) != nodes), 1)


_TABLE = {name: _Op(meta) for name, meta in _OPS.items()}


class _Call:
    """One call: its arrays sorted into what the core takes.

    `names` maps the op's names of arrays to those of the arguments; `attrs` are attributes that do not stand
    in `given` under their own names.
    """

    def __init__(self, op: _Op, attrs: Meta, names: Mapping[str, str], given: Mapping[str, Any]) -> None:
        self._names = names
        inputs = {}
        for name, shapes in op.inputs:
            if (array := given.get(name)) is not None:
                require(array, self.name(name), *shapes)
                inputs[name] = array
            elif name in op.required:
                form = " or ".join(map(_text, shapes))
                raise ShapeError(f"{self.name(name)}: expected a float32 array {form}, got None")
        params = {name: given[name] for name in op.params if given.get(name) is not None}
        values = {name: attrs.get(name, given.get(name, value)) for name, value in op.defaults.items()}
        self.arrays = inputs | params
        self.gradients = [self.name(name) for name in self.arrays] + ["digits"] * op.digits
        configs = op.configs(given, inputs)
        if configs == 0:
            found = ", ".join(str(array.shape) for array in inputs.values())
            raise ShapeError(
                f"{op.name}: expected at least one config (C >= 1), got C = 0 with input {found}"
            )
        self.arguments = (
            op.name,
            values,
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
        except ShapeError as error:  # which begins with the op's name of an array
            name, colon, text = str(error).partition(":")
            if self.name(name) == name:
                raise
            raise ShapeError(self.name(name) + colon + text) from None

    def forward(self, out: Array | None, precision: Precision) -> Array:
        y: Array = self.run(_core.op_forward, None, out, precision)
        return y

    def _known(self, names: Iterable[str], argument: str) -> None:
        if unknown := sorted(set(names) - set(self.gradients)):
            expected = ", ".join(self.gradients)
            raise ValueError(f"{argument}: no gradient is called {unknown[0]!r}; expected {expected}")

    def backward(
        self,
        dy: Array,
        out: Mapping[str, Array] | None,
        precision: Precision,
        only: Collection[str] | None = None,
    ) -> Gradients:
        outs: list[Array | Literal[False] | None] = [None] * len(self.gradients)
        if out is not None:
            self._known(out, "out")
            for name, array in zip(self.gradients, self.arrays.values(), strict=False):
                if name in out:
                    require(out[name], f"out[{name!r}]", array.shape)
            outs = [out.get(name) for name in self.gradients]
        if only is not None:
            self._known(only, "only")
            pairs = zip(self.gradients, outs, strict=True)
            outs = [array if name in only else False for name, array in pairs]
        dx, dw, digits = self.run(_core.op_backward, dy, tuple(outs), precision)
        made = dict(zip(self.gradients, [*dx, *dw, digits], strict=False))  # there may be no digits
        wanted = self.gradients if only is None else [name for name in self.gradients if name in only]
        return {name: made[name] for name in wanted}


def _flatten(given: dict[str, Any]) -> tuple[int, ...] | None:
    """Make matrices of all arrays (..., F) of a call; returns the dimensions in front, None if it is one."""
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


def binder(name: str, signature: inspect.Signature) -> Callable[[Any, dict[str, Any]], dict[str, Any]]:
    """Make a `Signature.bind` with defaults that is fast where nothing is wrong: small products notice it."""
    parameters = signature.parameters
    plain = [name for name, one in parameters.items() if one.kind is one.POSITIONAL_OR_KEYWORD]
    defaults = {name: one.default for name, one in parameters.items() if one.default is not one.empty}

    def bind(args: Any, kwargs: dict[str, Any]) -> dict[str, Any]:
        placed = dict(zip(plain, args, strict=False))
        given = {**defaults, **placed, **kwargs}
        whole = len(given) == len(parameters) and len(placed) == len(args)  # with as many, none is missing
        if whole and kwargs.keys() <= parameters.keys() and placed.keys().isdisjoint(kwargs):
            return given
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{name}: {error}") from None
        bound.apply_defaults()
        return bound.arguments

    return bind


def _pair(
    name: str,
    doc: str,
    signature: inspect.Signature,
    call: Callable[[dict[str, Any]], _Call],
    result: str = "out",
    flat: bool = False,
) -> tuple[Callable[..., Array], Callable[..., Gradients]]:
    """Make both functions of an op out of what turns their arguments into a call.

    `result` is the argument for arrays to write to; `flat`: see `named_faces`.
    """
    dy = inspect.Parameter("dy", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation="Array")
    outs = signature.parameters[result].replace(annotation="Mapping[str, Array] | None")
    only = inspect.Parameter(
        "only", inspect.Parameter.KEYWORD_ONLY, default=None, annotation="Collection[str] | None"
    )
    mine = {"dy": dy, **signature.parameters, result: outs, "only": only}
    behind = inspect.Signature(list(mine.values()), return_annotation="dict[str, Array]")
    bind_forward, bind_backward = binder(name, signature), binder(f"{name}_backward", behind)

    def forward(*args: Any, **kwargs: Any) -> Array:
        given = bind_forward(args, kwargs)
        out, front = given[result], _flatten(given) if flat else None
        y = call(given).forward(given[result], given.get("precision", "f32"))
        return y if front is None else y.reshape(*front, y.shape[-1]) if out is None else out

    def backward(*args: Any, **kwargs: Any) -> Gradients:
        given = bind_backward(args, kwargs)
        out, front = given[result], _flatten(given) if flat else None
        precision, only = given.get("precision", "f32"), given.pop("only")
        grads = call(given).backward(given["dy"], given[result], precision, only)
        if front is not None and "x" in grads:
            grads["x"] = out["x"] if out and "x" in out else grads["x"].reshape(*front, -1)
        return grads

    function: Any
    for function, suffix, shown in ((forward, "", signature), (backward, "_backward", behind)):
        function.__name__ = function.__qualname__ = name + suffix
        function.__module__ = "tpugraphs.kernels"
        function.__doc__ = doc if shown is signature else _document_backward(name, signature, result)
        function.__signature__ = shown
    return forward, backward


def named_faces(
    op: str,
    function: Callable[P, Mapping[str, Any]],
    flat: bool = False,
    names: Mapping[str, str] | None = None,
) -> tuple[Callable[P, Array], Callable[..., Gradients]]:
    """Make ``<name>`` and ``<name>_backward`` of an op with arguments of their own.

    Parameters
    ----------
    op : str
    function : callable
        Has the name, signature and docstring. It returns what its arguments imply for the op: attributes, and
        arrays under the op's names.
    flat : bool
        ``x`` may have any number of dimensions in front of its columns.
    names : mapping of str to str
        Arguments that the op calls otherwise, and its names of them.
    """
    names = names or {}
    theirs = {ours: given for given, ours in names.items()}

    def call(given: dict[str, Any]) -> _Call:
        implied = function(**{key: value for key, value in given.items() if key != "dy"})  # type: ignore[call-arg]
        named = {names.get(key, key): value for key, value in given.items() if key != "out"}
        return _Call(_TABLE[op], implied, theirs, named | dict(implied))

    signature = inspect.signature(function).replace(return_annotation="Array")
    return _pair(function.__name__.lstrip("_"), inspect.getdoc(function) or "", signature, call, flat=flat)


def faces(without: Iterable[str] = ()) -> dict[str, Callable[..., Any]]:
    """Make ``<op>`` and ``<op>_backward`` for every op of the core, but those named."""
    made: dict[str, Callable[..., Any]] = {}
    for name, meta in _OPS.items():
        if name not in without:
            call = partial(_Call, _TABLE[name], {}, {})
            made[name], made[name + "_backward"] = _pair(
                name, _document(meta), _signature(meta), call, _result(meta)
            )
    return made
