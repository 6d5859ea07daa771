"""The protocol of everything that ranks, and the types of its arguments."""

from __future__ import annotations

import os
from typing import Any, Protocol, TypedDict, Unpack, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from tpugraphs.data.graph import Graph, Graphs, Rows, Valid
from tpugraphs.evaluation.report import Report

Scores = NDArray[np.float32] | NDArray[np.float64]
"""Scores (n,): smaller = predicted faster."""


class PredictOptions(TypedDict, total=False):
    """Keyword arguments of :meth:`tpugraphs.ranker.ScorerBase.predict`, except `tta`."""

    precision: str | None
    verbose: bool | None


class ChooseOptions(PredictOptions, total=False):
    """Keyword arguments of :meth:`tpugraphs.ranker.ScorerBase.predict`."""

    tta: int


@runtime_checkable
class Scorer(Protocol):
    """Protocol of everything that scores configs, for ensembles, reports and submissions.

    Derive a class of your own from :class:`tpugraphs.ranker.ScorerBase`, which lacks only `kind` and
    `predict`.
    """

    # ScorerBase documents each of these.
    # ruff: noqa: D102
    @property
    def kind(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def fitted(self) -> bool: ...
    @property
    def node_padding(self) -> int | None: ...
    def fit(self, train: Graphs, valid: Valid = None) -> object: ...
    def predict(
        self,
        graph: Graph,
        configs: Rows | None = None,
        *,
        tta: int = 0,
        precision: str | None = None,
        verbose: bool | None = None,
    ) -> Scores: ...
    def rank(self, graph: Graph, configs: Rows | None = None, *, together: int = 0) -> NDArray[np.int64]: ...
    def choose(
        self, graph: Graph, count: int = 10, configs: Rows | None = None, **options: Unpack[ChooseOptions]
    ) -> NDArray[np.int64]: ...
    def adapt(self, graph: Graph, configs: Rows | None = None) -> Scorer: ...
    def evaluate(self, graphs: Graphs, configs: Rows | None = None) -> Report: ...
    def score(self, graphs: Graphs, y: Any = None) -> float: ...
    def share_prepared(self, other: object) -> bool: ...
    def to_file(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]: ...
    def save(self, path: str | os.PathLike[str]) -> None: ...
