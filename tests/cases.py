"""One table of cases for every op: arguments, attributes and tolerances, by the op's name in the core.

A case is a name and a function that makes its arguments (float64, to be rounded to float32 for the core). The
tests run every case against the float64 reference, over threads and over instruction sets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import operators

from tpugraphs.kernels.faces import faces

Array = np.ndarray[Any, Any]
Arrays = dict[str, Any]
Rng = np.random.Generator


FACES = faces()  # of every op by its name, of its gradients by <name>_backward


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
        return [name for name in operators.MODULES[self.op].GRADIENTS if name in arguments]


def single(arguments: Arrays) -> Arrays:
    """The arguments as the core wants them: float32 for float64."""
    return {
        k: np.ascontiguousarray(v, np.float32) if v.dtype == np.float64 else np.ascontiguousarray(v)
        for k, v in arguments.items()
    }


def forward_of(op: str) -> Callable[..., Array]:
    """The reference of an op."""
    return operators.MODULES[op].forward


def backward_of(op: str) -> Callable[..., Arrays]:
    """The reference of its gradients."""
    return operators.MODULES[op].backward


def forward32(case: Case, arguments: Arrays) -> Array:
    """The core's result."""
    return FACES[case.op](**single(arguments), **case.attrs)


def backward32(case: Case, dy: Array, arguments: Arrays, **options: Any) -> Arrays:
    """The core's gradients by name."""
    return FACES[case.op + "_backward"](np.float32(dy), **single(arguments), **case.attrs, **options)


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


def _cases() -> Iterator[Case]:
    for op, module in operators.MODULES.items():
        for name, make, *attrs in module.cases():
            found = dict(*attrs)
            yield Case(op, name, make, found, floor=found.pop("floor", 1e-4))


CASES = list(_cases())
LARGE = [
    Case(op, f"large-{i}", make, attrs)
    for op, module in operators.MODULES.items()
    for i, (make, attrs) in enumerate(module.large())
]
