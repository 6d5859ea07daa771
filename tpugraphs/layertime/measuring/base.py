"""The interface of frameworks that run layers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Protocol

from tpugraphs.layertime.kinds.base import Layer

__all__ = ["LEARNING_RATE", "Framework", "Step"]

Step = Callable[[], Any]
"""Runs a layer once, forward or in training, and returns when that is done."""

LEARNING_RATE = 1e-6
"""Learning rate of all optimizers: weights hardly change, however often a step is repeated."""


class Framework(Protocol):
    """A framework that runs layers."""

    name: ClassVar[str]
    version: str
    gpu: bool

    def __init__(self, gpu: bool | None, threads: int | None) -> None:
        """Import the framework, and choose where it runs; see `measure`."""

    @property
    def threads(self) -> int:
        """How many threads of the CPU a layer may take."""

    def gpu_properties(self) -> Any:
        """Return name and figures of the GPU."""

    def step(self, kind: str, layer: Layer) -> Step:
        """Build a layer and its arrays."""

    def close(self) -> None:
        """Restore the settings of the process."""
