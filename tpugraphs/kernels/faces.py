"""Functions for the ops of the core, made from what each says about itself (`_core.ops`)."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tpugraphs import _core
from tpugraphs.errors import ShapeError
from tpugraphs.kernels.calls import Array, Outs, Precision

__all__ = ["faces"]

Meta = Mapping[str, Any]
_GRAPH = {  # what an op needs of a graph -> the arguments that give it
    "edges": ("edge_index",),
    "digits": ("digits", "config_nodes"),
    "unique": ("digits", "config_nodes"),
    "config nodes": ("config_nodes",),
    "opcodes": ("node_opcode",),
    "layout": ("layout_digits",),
}
_SHAPES = {
    "NODE": "(N, F)",
    "NODE_CONFIG": "(N, C, F)",
    "CONFIG_NODE": "(K, F)",
    "CONFIG_NODE_CONFIG": "(K, C, F)",
    "EDGE": "(E, F)",
    "EDGE_CONFIG": "(E, C, F)",
    "CONFIG": "(C, F)",
    "SLATE": "(1, F)",
    "UNIQUE": "(U, F)",
}
_ARRAYS = {
    "edge_index": "(E, 2) int64: rows (u, v); forward, v receives from u, in reverse u from v",
    "digits": "(C, K, D) int8: digits of the configs, -1: not set",
    "config_nodes": "(K,) int64: the configurable nodes",
    "node_opcode": "(N,) uint8",
    "layout_digits": "(N, 6) int8",
    "node_feat": "(N, F) float32: by which configurable nodes are alike",
}


def _graph_arguments(meta: Meta) -> list[str]:
    names = [name for flag, names in _GRAPH.items() if flag in meta["flags"] for name in names]
    if "unique" in meta["flags"]:
        names.append("node_feat")
    return list(dict.fromkeys(names))


def _has_nodes(meta: Meta) -> bool:
    """Whether an input that is always given has a row per node."""
    rows = [set(spec["rows"]) for spec in meta["inputs"] if not spec["optional"]]
    return any(spaces <= {"NODE", "NODE_CONFIG"} or len(spaces) == 9 for spaces in rows)


def _result(meta: Meta) -> str:
    """Name of the argument for arrays to write to: `out`, unless that is an attribute of the op."""
    return "result" if any(attr["name"] == "out" for attr in meta["attrs"]) else "out"


def _default(attr: Meta) -> Any:
    if attr["kind"] == "choice":
        return attr["choices"][int(attr["default"])]
    kinds: dict[str, type] = {"flag": bool, "int": int, "real": float}
    return kinds[attr["kind"]](attr["default"])


def _signature(meta: Meta, backward: bool) -> inspect.Signature:
    plain, named = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY
    names = ["dy"] if backward else []
    names += [spec["name"] for spec in meta["inputs"] if not spec["optional"]]
    names += _graph_arguments(meta)
    parameters = [inspect.Parameter(name, plain) for name in names]
    parameters += [inspect.Parameter(name, plain, default=None) for name in meta["params"]]
    optional = [spec["name"] for spec in meta["inputs"] if spec["optional"]]
    parameters += [inspect.Parameter(name, named, default=None) for name in optional]
    parameters += [inspect.Parameter(attr["name"], named, default=_default(attr)) for attr in meta["attrs"]]
    extra: dict[str, Any] = {} if _has_nodes(meta) else {"num_nodes": None}
    extra |= {"digit_rows": _core.SCHEMA["digit_states"]} if "digits" in _graph_arguments(meta) else {}
    extra |= {"training": False, "key": 0} if "random" in meta["flags"] else {}
    extra |= {"precision": "f32", _result(meta): None}
    parameters += [inspect.Parameter(name, named, default=value) for name, value in extra.items()]
    return inspect.Signature(parameters)


def _document(meta: Meta, backward: bool) -> str:
    if backward:
        names = [spec["name"] for spec in meta["inputs"]] + list(meta["params"])
        names += ["digits"] if "digits" in meta["flags"] else []
        return f"Gradients of `{meta['name']}` by name: {', '.join(f'``{name}``' for name in names)}."
    lines = [meta["doc"], "", "Parameters", "----------"]
    for spec in meta["inputs"]:
        shapes = " or ".join(_SHAPES[row] for row in spec["rows"])
        lines.append(f"{spec['name']} : {shapes} float32{', optional' if spec['optional'] else ''}")
    lines += [f"{name} : {_ARRAYS[name]}" for name in _graph_arguments(meta)]
    needs = {n: f", if {a['name']} = {c}" for a in meta["attrs"] for c, n in a.get("needs", {}).items()}
    lines += [f"{name} : float32 parameter{needs.get(name, '')}" for name in meta["params"]]
    for attr in meta["attrs"]:
        kind = "{" + ", ".join(attr["choices"]) + "}" if attr["kind"] == "choice" else attr["kind"]
        lines += [f"{attr['name']} : {kind}", f"    {attr['doc']}"]
    return "\n".join(lines)


class _Call:
    """One call: its arrays sorted into what the core takes."""

    def __init__(self, meta: Meta, given: Mapping[str, Any]) -> None:
        self.meta = meta
        self.inputs = [s["name"] for s in meta["inputs"] if given.get(s["name"]) is not None]
        self.params = [name for name in meta["params"] if given.get(name) is not None]
        attrs = {
            a["name"]: float(given[a["name"]]) if a["kind"] in ("flag", "real") else given[a["name"]]
            for a in meta["attrs"]
        }
        arrays = tuple(given[name] for name in self.inputs)
        self.arguments = (
            meta["name"],
            attrs,
            arrays,
            tuple(given[name] for name in self.params),
            self._slate(given),
            self._configs(given, arrays),
            int(given.get("key", 0)),
            bool(given.get("training", False)),
        )

    def _slate(self, given: Mapping[str, Any]) -> Any:
        nodes = given.get("num_nodes")
        wanted = _graph_arguments(self.meta)
        if nodes is None:
            candidates = [s["name"] for s in self.meta["inputs"] if {"NODE", "NODE_CONFIG"} & set(s["rows"])]
            array = next((given[name] for name in candidates if given.get(name) is not None), None)
            array = given["node_feat"] if "node_feat" in wanted else array
            nodes = None if array is None else len(array)
        if nodes is None:
            raise ShapeError(f"{self.meta['name']}: give num_nodes, which does not follow from the inputs")
        if not wanted:
            return int(nodes)
        opcode, edges, ids = given.get("node_opcode"), given.get("edge_index"), given.get("config_nodes")
        return _core.Graph(
            np.zeros((nodes, 1), np.float32) if "node_feat" not in wanted else given["node_feat"],
            opcode,
            given.get("layout_digits"),
            np.zeros((0, 2), np.int64) if edges is None else edges,
            np.zeros(0, np.int64) if ids is None else ids,
            given.get("digits"),
            digit_rows=int(given.get("digit_rows", _core.SCHEMA["digit_states"])),
        )

    def _configs(self, given: Mapping[str, Any], arrays: tuple[Array, ...]) -> int:
        if given.get("digits") is not None:
            return len(given["digits"])
        for spec in self.meta["inputs"]:
            array = given.get(spec["name"])
            if array is not None and array.ndim == 3:
                return int(array.shape[1])
            if array is not None and spec["rows"] == ["CONFIG"]:
                return len(array)
        return 1


def _make(meta: Meta) -> tuple[Callable[..., Any], Callable[..., Any]]:
    signatures = _signature(meta, False), _signature(meta, True)

    def forward(*args: Any, **kwargs: Any) -> Array:
        bound = signatures[0].bind(*args, **kwargs)
        bound.apply_defaults()
        given = bound.arguments
        precision: Precision = given["precision"]
        return _core.op_forward(*_Call(meta, given).arguments, None, given[_result(meta)], precision)

    def backward(*args: Any, **kwargs: Any) -> dict[str, Array]:
        bound = signatures[1].bind(*args, **kwargs)
        bound.apply_defaults()
        given = bound.arguments
        call = _Call(meta, given)
        names = call.inputs + call.params + (["digits"] if "digits" in meta["flags"] else [])
        out: Outs | None = given[_result(meta)]
        if out is not None and (unknown := sorted(set(out) - set(names))):
            raise ValueError(f"out: no gradient is called {unknown[0]!r}; expected {', '.join(names)}")
        outs = None if out is None else tuple(out.get(name) for name in names)
        dx, dw, digits = _core.op_backward(*call.arguments, given["dy"], outs, given["precision"])
        return dict(zip(names, [*dx, *dw, *([] if digits is None else [digits])], strict=True))

    function: Any
    for function, suffix, index in ((forward, "", 0), (backward, "_backward", 1)):
        function.__name__ = function.__qualname__ = meta["name"] + suffix
        function.__module__ = "tpugraphs.kernels"
        function.__doc__ = _document(meta, bool(index))
        function.__signature__ = signatures[index]
    return forward, backward


def faces(without: frozenset[str] = frozenset()) -> dict[str, Callable[..., Any]]:
    """Make ``<op>`` and ``<op>_backward`` for every op of the core, but those named."""
    made: dict[str, Callable[..., Any]] = {}
    for meta in _core.ops():
        if meta["name"] not in without:
            made[meta["name"]], made[meta["name"] + "_backward"] = _make(meta)
    return made
