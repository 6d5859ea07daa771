"""Inverted dropout with the core's random numbers made again in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
GRADIENTS = ("x",)
_ALL = (1 << 64) - 1


def _mixed(x: int) -> int:  # SplitMix64's finaliser
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 & _ALL
    x = (x ^ x >> 27) * 0x94D049BB133111EB & _ALL
    return x ^ x >> 31


def _key(key: int, label: int) -> int:
    return _mixed(key + 0x9E3779B97F4A7C15 * (label + 1) & _ALL)


def factors(shape: tuple[int, ...], p: float, key: int) -> Array:
    """0 or 1 / (1 - p) for every element: an element's hash is a product of numbers of its row and its column."""
    configs = shape[1] if len(shape) == 3 else 1
    keys = [_key(_key(key, node), config) for node in range(shape[0]) for config in range(configs)]
    low = np.array([k & 0xFFFFFFFF for k in keys], np.uint32)[:, None]
    high = np.array([k >> 32 for k in keys], np.uint32)[:, None]
    column = np.arange(shape[-1], dtype=np.uint32)
    mixed = (column + np.uint32(1)) * np.uint32(0x85EBCA6B)
    mixed = (mixed ^ mixed >> np.uint32(15)) * np.uint32(0xC2B2AE35)
    draws = (column * np.uint32(0x9E3779B1) + low) * ((mixed ^ high) | np.uint32(1))
    keep = draws >> np.uint32(1) >= round(p * 2**31)
    return (keep / (1.0 - p)).reshape(shape)


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
