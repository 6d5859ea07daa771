"""Types of the arguments of a fit. Made by docs/stubs.py; a test fails when it is out of date."""

# ruff: noqa
from __future__ import annotations

import os
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any
from typing import TypedDict
from tpugraphs.data.graph import SampleWeight
from tpugraphs.training.callbacks import Callback
from tpugraphs.training.fit import Networked

__all__ = ["FitArguments", "FitButShared", "FitTogether"]


class FitButShared(TypedDict, total=False):
    """Arguments of :meth:`tpugraphs.Ranker.fit` by keyword, but `verbose` and `groups`."""

    y: Any
    sample_weight: SampleWeight
    epochs: int | None
    steps: int | None
    callbacks: Sequence[Callback]
    checkpoint_dir: str | os.PathLike[str] | None
    checkpoint_every: int
    init: Networked | None
    freeze: str | Sequence[str]
    learning_rate: float | None


class FitArguments(FitButShared, total=False):
    """Arguments of :meth:`tpugraphs.Ranker.fit` by keyword."""

    verbose: bool | None
    groups: Sequence[Mapping[str, Any]]


class FitTogether(TypedDict, total=False):
    """Arguments of :meth:`tpugraphs.Ranker.fit` by keyword, for several rankers together."""

    sample_weight: SampleWeight
    epochs: int | None
    steps: int | None
    checkpoint_dir: str | os.PathLike[str] | None
    checkpoint_every: int
    verbose: bool | None
