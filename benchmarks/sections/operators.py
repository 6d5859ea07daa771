"""Ops beside PyTorch and PyG, forward and backward: one module of benchmarks/operators per op."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .. import operators
from ..context import Context
from ..record import Record
from . import kernels

TITLE = "Operators"
ABOUT = (
    "Ops of the core, forward and backward, beside PyTorch and PyG doing the same on the same threads: "
    "10,000 nodes, 64 wide. Ops are called without the faces of `tg.kernels`, which models do not pass "
    "either: they take some 30 us. The roof of an op without products is a copy that moves as many bytes as "
    "its inputs, its result and their gradients hold, in turn with it. Rows of the ops that are not here: "
    + "; ".join(f"`{op}` in *{section}* ({which})" for op, (section, which) in operators.ELSEWHERE.items())
    + "."
)


def measure(name: str, **options: Any) -> list[dict[str, Any]]:
    """The rows of one op."""
    return kernels.measure(lambda setting: operators.cases(name, setting), **options)


def run(context: Context) -> Iterator[Record]:
    for name in operators.NAMES:
        with context.attempt(f"operators {name}"):
            yield from kernels.records(context, "operators", name, "sections.operators:measure")
