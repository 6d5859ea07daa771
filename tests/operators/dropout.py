"""Inverted dropout with the core's random numbers made again in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
from reference import rng

Array = np.ndarray[Any, Any]
GRADIENTS = ("x",)


def factors(shape: tuple[int, ...], p: float, key: int) -> Array:
    """0 or 1 / (1 - p) for every element."""
    configs = shape[1] if len(shape) == 3 else 1
    keys = [rng.key_of(key, node, config) for node in range(shape[0]) for config in range(configs)]
    return rng.dropout(keys, shape[-1], p).reshape(shape)


def forward(x: Array, p: float = 0.5, training: bool = False, key: int = 0) -> Array:
    """x times the factors"""
    return x * factors(x.shape, p, key) if training else x


def backward(dy: Array, x: Array, p: float = 0.5, training: bool = False, key: int = 0) -> dict[str, Array]:
    """The same factors"""
    return {"x": forward(dy, p, training, key)}


def _draw(*shape: int) -> Any:
    return lambda rng: {"x": rng.normal(size=shape)}


def cases() -> list[Any]:
    """In training and out of it."""
    return [
        ("scoring", _draw(9, 5, 17)),
        ("never", _draw(9, 17), {"p": 0.0, "training": True}),
        ("nodes", _draw(70, 33), {"p": 0.3, "training": True, "key": 7}),
        ("configs", _draw(9, 5, 17), {"training": True, "key": 8}),
        ("parts-of-nodes", _draw(3, 150, 17), {"p": 0.9, "training": True, "key": (1 << 63) + 5}),
    ]


def large() -> list[Any]:
    """Several chunks."""
    training = {"p": 0.2, "training": True, "key": 3}
    return [(_draw(3000, 50), training), (_draw(300, 24, 20), training)]
