"""Types of the fields of methods. Made by docs/stubs.py; a test fails when it is out of date."""

# ruff: noqa
from __future__ import annotations

from typing import TypedDict

__all__ = ["MethodFields"]


class MethodFields(TypedDict, total=False):
    """Fields of the methods that predict times of layers."""

    leaves: int
    members: int
    preset: str
    rounds: int
    steps: int | None
    width: int
