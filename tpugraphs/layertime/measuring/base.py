"""What builders of layers and the loop that times them share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

__all__ = ["LEARNING_RATE", "Framework", "Input", "Layer", "Step", "same_padding"]

Layer = Mapping[str, Any]
"""One layer: the columns of its kind, whole numbers and words."""

Step = Callable[[], Any]
"""Runs a layer once, forward or in training, and returns when that is done."""

LEARNING_RATE = 1e-6
"""Of all optimizers: weights stay as they are, however often a step is repeated."""


@dataclass(frozen=True)
class Input:
    """An array that a layer takes: normal numbers, or whole numbers from 0 to `below` - 1.

    Powers have the absolute values (`positive`), since others are not numbers and take another time.
    """

    shape: tuple[int, ...]
    below: int | None = None
    positive: bool = False

    def draw(self, rng: np.random.Generator) -> NDArray[Any]:
        """Return the array, float32 or int32."""
        if self.below is not None:
            return rng.integers(0, self.below, self.shape, np.int32)
        drawn = rng.standard_normal(self.shape, np.float32)
        return np.abs(drawn) + np.float32(0.1) if self.positive else drawn


class Framework(Protocol):
    """What runs the layers."""

    name: ClassVar[str]
    kinds: ClassVar[Sequence[str]]  # that it has a builder of
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
        """Put back what was set for all of the process."""


def same_padding(side: int, kernel: int, stride: int) -> tuple[int, int]:
    """Return the zeros before and after a side for ceil(side / stride) outputs, as TensorFlow deals them."""
    total = max((-(-side // stride) - 1) * stride + kernel - side, 0)
    return total // 2, total - total // 2
