"""One table of cases for every op: arguments, attributes and tolerances, by the op's name in the core.

A case is a name and a function that makes its arguments (float64, to be rounded to float32 for the core). The
tests run every case against the float64 reference, over threads and over instruction sets.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import operators
from reference import ops as ref

Array = np.ndarray[Any, Any]
Arrays = dict[str, Any]
Rng = np.random.Generator


@dataclass(frozen=True)
class Op:
    """How an op is called: the name of its kernel and reference, and what it has gradients for."""

    kernel: str
    gradients: tuple[str, ...]


OPS = {
    "embedding": Op("embedding", ("x", "weight")),
    "config_linear": Op("config_linear", ("h", "weight", "bias", "table")),
    "linear": Op("linear", ("x", "row", "weight", "bias")),
    "sage": Op("sage_conv", ("x", "w_l", "b_l", "w_r")),
    "instance_norm": Op("instance_norm", ("x",)),
    "mix": Op("mix", ("z", "residual", "w1", "b1", "w2", "b2", "temperature")),
    "pool": Op("pool", ("x",)),
}


BY_HAND = set(OPS)
OPS |= {name: Op(name, module.GRADIENTS) for name, module in operators.MODULES.items()}


@dataclass(frozen=True)
class Case:
    """One call of an op. `make` returns its array arguments by name."""

    op: str
    name: str
    make: Callable[[Rng], Arrays]
    attrs: Arrays = field(default_factory=dict)
    tolerance: float = 1e-5  # relative L2 of the core's result and of each gradient
    floor: float = 1e-4  # size per element below which an expected value counts as this: see `distance`

    @property
    def id(self) -> str:
        return f"{self.op}-{self.name}"

    def arguments(self) -> Arrays:
        """The array arguments, float64 holding float32 values; None left out. The same ones every time."""
        rng = np.random.default_rng(list(self.id.encode()))
        out = {k: v for k, v in self.make(rng).items() if v is not None}
        for key, value in out.items():
            if value.dtype == np.float64:
                out[key] = value.astype(np.float32).astype(np.float64)
        return out

    def gradients(self, arguments: Arrays) -> list[str]:
        """Names of the arguments given that have a gradient."""
        return [name for name in OPS[self.op].gradients if name in arguments]


def single(arguments: Arrays) -> Arrays:
    """The arguments as the core wants them: float32 for float64."""
    return {
        k: np.ascontiguousarray(v, np.float32) if v.dtype == np.float64 else np.ascontiguousarray(v)
        for k, v in arguments.items()
    }


def forward_of(op: str) -> Callable[..., Array]:
    """The reference of an op."""
    module = operators.MODULES.get(op)
    return getattr(ref, OPS[op].kernel) if module is None else module.forward


def backward_of(op: str) -> Callable[..., Arrays]:
    """The reference of its gradients."""
    module = operators.MODULES.get(op)
    return getattr(ref, OPS[op].kernel + "_backward") if module is None else module.backward


def forward64(case: Case, arguments: Arrays) -> Array:
    """The reference's result."""
    return forward_of(case.op)(**arguments, **case.attrs)


def backward64(case: Case, dy: Array, arguments: Arrays) -> Arrays:
    """The reference's gradients by name."""
    return backward_of(case.op)(dy, **arguments, **case.attrs)


def direction_of(case: Case, y: Array) -> Array:
    """A gradient of the result to start backward from, float32 values."""
    rng = np.random.default_rng([*case.id.encode(), 1])
    return rng.normal(size=y.shape).astype(np.float32).astype(np.float64)


def distance(got: Array, expected: Array, floor: float = 1e-4) -> float:
    """Relative L2; `floor` (per element) keeps an expected 0 from dividing rounding by nothing."""
    assert got.shape == expected.shape
    scale = max(np.linalg.norm(expected), floor * np.sqrt(expected.size), 1e-30)
    return float(np.linalg.norm(got.astype(np.float64) - expected) / scale)


# ---- graphs ---------------------------------------------------------------------------------------------


def edges(kind: str, n: int, rng: Rng) -> Array:
    """(E,2) int64. All but `none` are asymmetric where n allows it."""
    if kind == "none":
        return np.zeros((0, 2), np.int64)
    if kind == "line":  # 0 consumes 1 consumes 2 ...
        return np.stack([np.arange(n - 1), np.arange(1, n)], 1).astype(np.int64)
    if kind == "star":  # one hub takes from all others: a long row beside empty ones
        return np.stack([np.zeros(n - 1, int), np.arange(1, n)], 1).astype(np.int64)
    drawn = rng.integers(0, n, (2 * n, 2))
    if kind == "random":
        return drawn[drawn[:, 0] != drawn[:, 1]].astype(np.int64)
    if kind == "odd":  # self loops, duplicates, and the upper half of the nodes isolated
        drawn = drawn % max(n // 2, 1)
        return np.concatenate([drawn, drawn[:3], drawn[:3], [[0, 0], [0, 0]]]).astype(np.int64)
    raise ValueError(kind)


# ---- arguments per op -----------------------------------------------------------------------------------


def _linear(rows: tuple[int, ...], f: int, o: int, joined: int = 0) -> Callable[[Rng], Arrays]:
    def make(rng: Rng) -> Arrays:
        scale = 1.0 / np.sqrt(joined + f)
        return {
            "x": rng.normal(size=(*rows, f)),
            "weight": rng.normal(size=(o, joined + f)) * scale,
            "bias": rng.normal(size=o),
            "row": rng.normal(size=(1, joined)) if joined else None,
        }

    return make


def _embedding(n: int, f: int, v: int, d: int, source: str) -> Callable[[Rng], Arrays]:
    def make(rng: Rng) -> Arrays:
        if source == "layout":
            index = rng.integers(-2, 6, (n, 6)).astype(np.int8)
        else:
            index = rng.integers(0, 256, (n, 1)).astype(np.uint8)  # ids outside the table included
        return {"x": rng.normal(size=(n, f)), "index": index, "weight": rng.normal(size=(v, d))}

    return make


def _config_linear(n: int, c: int, k: int, f: int, o: int, d: int = 4) -> Callable[[Rng], Arrays]:
    def make(rng: Rng) -> Arrays:
        wide = f + 18 * d
        return {
            "h": rng.normal(size=(n, f)),
            "digits": rng.integers(-1, 6, (c, k, 18)).astype(np.int8),
            "config_nodes": rng.permutation(n)[:k].astype(np.int64),  # in no order
            "weight": rng.normal(size=(o, wide)) / np.sqrt(wide),
            "bias": rng.normal(size=o),
            "table": rng.normal(size=(8, d)),
        }

    return make


def _sage(kind: str, n: int, c: int, f: int, o: int) -> Callable[[Rng], Arrays]:
    def make(rng: Rng) -> Arrays:
        scale = 1.0 / np.sqrt(f)
        return {
            "x": rng.normal(size=(n, f) if c == 0 else (n, c, f)),
            "edge_index": edges(kind, n, rng),
            "w_l": rng.normal(size=(o, f)) * scale,
            "b_l": rng.normal(size=o),
            "w_r": rng.normal(size=(o, f)) * scale,
        }

    return make


def _x(n: int, c: int, f: int, offset: float = 0.0) -> Callable[[Rng], Arrays]:
    shape = (n, f) if c == 0 else (n, c, f)
    return lambda rng: {"x": rng.normal(size=shape) * rng.uniform(0.5, 2.0, f) + offset}


def _mix(
    n: int, c: int, d: int, r: int = 0, cross: bool = False, residual: bool = False, spread: float = 1.0
) -> Callable[[Rng], Arrays]:
    def make(rng: Rng) -> Arrays:
        width, rows = 2 * d if cross else d, (n,) if c == 0 else (n, c)
        return {
            "z": rng.normal(size=(*rows, d)) * spread,
            "residual": rng.normal(size=(*rows, width)) if residual else None,
            "w1": rng.normal(size=(r, d)) / np.sqrt(d) if r else None,
            "b1": rng.normal(size=r) if r else None,
            "w2": rng.normal(size=(d, r)) / np.sqrt(max(r, 1)) if r else None,
            "b2": rng.normal(size=d) if r else None,
            "temperature": np.array([0.5]) if cross else None,
        }

    return make


def _cases() -> list[Case]:
    out: list[Case] = []

    def add(op: str, name: str, make: Callable[[Rng], Arrays], floor: float = 1e-4, **attrs: Any) -> None:
        out.append(Case(op, name, make, attrs, floor=floor))

    for n, f, v, d in ((1, 1, 1, 1), (7, 140, 120, 16), (30, 3, 17, 5), (5, 17, 256, 3)):
        add("embedding", f"opcode-{n}x{f}-{v}x{d}", _embedding(n, f, v, d, "opcode"), source="opcode")
    for n, f, d in ((1, 1, 1), (9, 134, 4), (40, 3, 7)):
        add("embedding", f"layout-{n}x{f}-{d}", _embedding(n, f, 8, d, "layout"), source="layout")

    for n, c, k, f, o in (
        (1, 1, 0, 1, 1),  # nothing configurable
        (1, 1, 1, 3, 2),
        (5, 3, 5, 17, 3),  # every node configurable
        (9, 11, 4, 174, 32),
        (40, 17, 13, 24, 17),
        (3, 64, 2, 8, 128),
    ):
        add("config_linear", f"n{n}c{c}k{k}-{f}to{o}", _config_linear(n, c, k, f, o))
    add("config_linear", "column-0", _config_linear(6, 5, 3, 11, 9), column=0)
    add("config_linear", "column-inside", _config_linear(6, 5, 3, 11, 9, 3), column=4)

    for rows, f, o in (((1,), 1, 1), ((5,), 3, 17), ((7, 3), 140, 1), ((33,), 17, 140), ((20, 13), 64, 48)):
        name = f"{'x'.join(map(str, rows))}-{f}to{o}"
        for act in ref.ACTIVATIONS:
            add("linear", f"{name}-{act}", _linear(rows, f, o), act=act)
        add("linear", f"{name}-joined", _linear(rows, f, o, 1 + f % 5), act="gelu")
    add("linear", "long-joined-700x64-512to40", _linear((700,), 64, 40, 512))
    add("linear", "long-2000x3-256to5", _linear((2000, 3), 256, 5))

    for direction in ("forward", "reverse", "both"):
        for kind, n, c, f, o in (
            ("none", 1, 1, 1, 1),
            ("none", 5, 3, 17, 3),
            ("line", 6, 0, 3, 17),  # no config axis
            ("star", 40, 1, 8, 5),
            ("random", 30, 13, 24, 16),
            ("odd", 21, 5, 17, 33),
        ):
            add("sage", f"{direction}-{kind}-n{n}c{c}-{f}to{o}", _sage(kind, n, c, f, o), direction=direction)
    add("sage", "default-wide", _sage("random", 40, 9, 140, 128))

    # One or two nodes: the gradient is a difference of terms of size 1/std, up to 316, that cancel.
    for n, c, f, floor in ((1, 3, 5, 10.0), (2, 1, 1, 10.0), (17, 13, 3, 1e-4), (50, 4, 140, 1e-4)):
        add("instance_norm", f"n{n}c{c}f{f}", _x(n, c, f), floor)
    add("instance_norm", "no-configs", _x(130, 0, 19))
    add("instance_norm", "offset", _x(33, 3, 17, offset=20.0))

    add("mix", "nothing", _mix(3, 2, 5))
    add("mix", "one", _mix(1, 1, 1, 1, True, True), act="gelu")
    add("mix", "one-normed", _mix(1, 1, 3, 2, True), 10.0, norm=True)
    add("mix", "norm", _mix(9, 3, 17), norm=True)
    add("mix", "gate", _mix(5, 7, 24, 3))
    add("mix", "gate-odd", _mix(6, 17, 17, 5), act="relu")
    add("mix", "gate-16", _mix(4, 6, 48, 16, True))  # these two widths have products of their own
    add("mix", "gate-32", _mix(3, 7, 32, 32, residual=True), norm=True)
    add("mix", "cross", _mix(4, 13, 17, cross=True))
    # one config: the softmax is 1 whatever the temperature, its gradient is a sum of zeros
    add("mix", "cross-one-config", _mix(4, 1, 17, 2, True), 1e-2, act="gelu")
    add("mix", "cross-spread", _mix(4, 20, 8, cross=True, spread=15.0))  # softmax close to one-hot
    add("mix", "residual", _mix(5, 3, 19, residual=True), act="relu")
    add("mix", "residual-normed", _mix(5, 3, 19, residual=True), norm=True, act="gelu")
    add("mix", "many-configs", _mix(3, 150, 12, 2, residual=True), norm=True, act="gelu")
    add("mix", "many-configs-cross", _mix(3, 150, 12, 2, True), norm=True, act="gelu")
    # rows of nodes alone; the softmax of a group of one is 1, and the temperature has no gradient
    add("mix", "no-configs", _mix(150, 0, 17), act="gelu")
    add("mix", "no-configs-normed", _mix(70, 0, 24, 3, residual=True), norm=True, act="gelu")
    add("mix", "no-configs-cross", _mix(9, 0, 20, 4, True, True), norm=True, act="relu")
    add("mix", "no-configs-first-place", _mix(90, 0, 128, 16, True, True), norm=True, act="gelu")
    for act in ref.ACTIVATIONS:
        add("mix", f"all-{act}", _mix(11, 9, 20, 4, True, True), norm=True, act=act)
    add("mix", "first-place", _mix(30, 16, 128, 16, True, True), act="gelu")

    for kind in ("mean", "max", "sum", "mean+max", "mean+max+sum"):
        for n, c, f in ((1, 1, 1), (17, 5, 3), (40, 3, 140), (200, 0, 30)):
            add("pool", f"{kind}-n{n}c{c}f{f}", _x(n, c, f), kind=kind)
    for op, module in operators.MODULES.items():
        for made in module.cases():
            add(op, *made[:2], **(made[2] if len(made) > 2 else {}))
    return out


CASES = _cases()
LARGE = [
    Case(op, f"large-{i}", make, attrs)
    for op, module in operators.MODULES.items()
    for i, (make, attrs) in enumerate(module.large())
]
