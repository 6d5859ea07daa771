"""The sections, in the order of the report. A new one is a file here and its name in NAMES."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Protocol

from ..context import Context
from ..record import Record

NAMES = (
    "step", "score", "kernels", "operators", "data", "packs", "small", "scaling", "isa", "profile", "fit",
)  # fmt: skip


class Section(Protocol):
    """What a file of a section defines."""

    TITLE: str
    ABOUT: str

    def run(self, context: Context, /) -> Iterator[Record]: ...


def get(name: str) -> Section:
    """The module of a section."""
    section: Section = importlib.import_module(f"{__name__}.{name}")
    return section
