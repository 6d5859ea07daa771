"""Checks of arrays from users."""

from __future__ import annotations

import numpy as np

from tpugraphs.errors import ShapeError

__all__ = ["Shape", "require", "shape_text"]

Shape = tuple[int | str, ...]  # letters stand for any size, "..." for any dimensions in front


def shape_text(*shapes: Shape) -> str:
    """Return shapes as messages and documentation show them: ``(N, F) or (N, C, F)``."""
    return " or ".join(str(shape).replace("'", "") for shape in shapes)


def _fits(array: object, dtype: type, shape: Shape) -> bool:
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


def require(array: object, name: str, *shapes: Shape, dtype: type = np.float32) -> None:
    """Raise ShapeError unless `array` is C-contiguous, of `dtype` and of one of the shapes."""
    for shape in shapes:
        if _fits(array, dtype, shape):
            return
    found = type(array).__name__
    if isinstance(array, np.ndarray):
        found = f"{array.dtype} {array.shape}{'' if array.flags.c_contiguous else ', not C-contiguous'}"
    expected = f"{np.dtype(dtype)} array of shape {shape_text(*shapes)}"
    raise ShapeError(f"{name}: expected {expected}, got {found}")
