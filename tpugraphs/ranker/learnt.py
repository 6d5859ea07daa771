"""Scorers that learn a few arrays, declared in a table from which files, copies and refits follow."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from copy import copy
from typing import Any, ClassVar, NamedTuple, Self, Unpack

import numpy as np
from numpy.typing import NDArray

from tpugraphs.data.graph import Graph, Rows
from tpugraphs.data.schema import Schema
from tpugraphs.errors import ConfigError
from tpugraphs.evaluation.scorer import PredictOptions
from tpugraphs.network.network import schema_of
from tpugraphs.network.scoring import as_configs
from tpugraphs.preprocess.checks import check_kind
from tpugraphs.ranker import filekinds
from tpugraphs.ranker.scorer import ScorerBase
from tpugraphs.system import tensorfile
from tpugraphs.system.words import counted

__all__ = ["HUGE", "Array", "Floats", "LearntScorer"]

Floats = NDArray[np.float64]
HUGE = 1e100  # numbers in files are below it, so that they can be squared


class Array(NamedTuple):
    """One array that a scorer learns.

    Attributes
    ----------
    shape : str
        A letter for each dimension; equal letters are equal sizes.
    dtype : type
    least, most : float or str
        Range of the numbers; a name refers to a limit that depends on the rest of the file.
    rows : int
        Maximum number of rows of a table.
    optional : bool
        Whether it may be missing.
    """

    shape: str
    dtype: Any = np.float64
    least: float = -HUGE
    most: float | str = HUGE
    rows: int = 10**9
    optional: bool = False

    def read(
        self, path: str, name: str, tensors: Mapping[str, NDArray[Any]], sizes: dict[str, int]
    ) -> NDArray[Any]:
        """Read the array from a file, and note sizes not known before; CheckpointError if it is damaged."""
        given = tensors[name].shape if name in tensors else ()
        if len(given) == len(self.shape) > 1 and not 0 < given[0] <= self.rows:
            raise tensorfile.fail(
                path, name, f"a table of 1 to {counted(self.rows, 'row')}", f"shape {given}"
            )
        if len(given) == len(self.shape):
            sizes.update(
                {letter: n for letter, n in zip(self.shape, given, strict=True) if letter not in sizes}
            )
        array = tensorfile.take(path, tensors, name, tuple(sizes.get(n, 0) for n in self.shape), self.dtype)
        least, most = np.float64(self.least), np.float64(sizes.get(str(self.most), self.most))
        if not ((array >= least) & (array <= most)).all():
            raise tensorfile.fail(path, name, f"numbers from {least:g} to {most:g}", "others")
        return array


class LearntScorer(ScorerBase):
    """Base of scorers that learn a few arrays from graphs of one schema.

    A subclass declares `arrays` and `arguments`, and scores rows in `_scores`. Its `fit` learns on a copy,
    whose state it then takes over.

    Attributes
    ----------
    learnt : dict of str to array
        Empty before a fit.
    schema : Schema
        Of the graphs that it learnt from.
    """

    #: Constructor arguments that are stored in files, with their types.
    arguments: ClassVar[Mapping[str, type | tuple[type, ...]]] = {}
    #: Learnt arrays.
    arrays: ClassVar[Mapping[str, Array]] = {}
    schema: Schema

    def __init__(self) -> None:
        self.learnt: dict[str, NDArray[Any]] = {}

    @property
    def kind(self) -> str:
        """Kind of the graphs: any schema whose configs are features."""
        return "graph"

    @property
    def fitted(self) -> bool:
        """Whether it has learnt something."""
        return bool(self.learnt)

    def _become(self, made: Self) -> Self:
        """Take over what a copy has learnt, all at once, so that a fit that fails changes nothing."""
        vars(self).update(vars(made))
        return self

    def predict(
        self, graph: Graph, configs: Rows | None = None, tta: int = 0, **options: Unpack[PredictOptions]
    ) -> Floats:
        """Return scores (n,) of configs of a graph: smaller = predicted faster.

        Parameters
        ----------
        graph, configs, tta, **options
            As for `ScorerBase.predict`; `tta` and `options` have no effect.

        Returns
        -------
        (n,) float64
            In the order of `configs`.

        Raises
        ------
        Error
            Not fitted.
        ConfigError
            Configs that are not rows of the graph.
        DataError
            The graph is of another kind or does not fit the schema.
        """
        self = copy(self)  # one fit, whatever another thread does
        return self._scores(graph, self._rows(graph, configs))

    def _rows(self, graph: Graph, configs: Rows | None) -> NDArray[np.int64]:
        """Return the row numbers (n,), after checking that the graph can be scored."""
        self.require_fit("predict")
        check_kind(graph, self.kind)
        self.schema.check(graph)
        if as_configs(graph, configs) is not None:
            raise ConfigError(
                f"configs: expected rows of the graph for {self.name}: make a graph of these configs first"
            )
        return np.asarray(graph.row_numbers(configs), np.int64)

    @abstractmethod
    def _scores(self, graph: Graph, rows: NDArray[np.int64]) -> Floats:
        """Return scores (n,) of rows (n,) of a graph."""

    def to_file(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return the arguments of the constructor, the schema and what was learnt."""
        self.require_fit("save")
        arguments = {name: getattr(self, name) for name in self.arguments}
        return {"schema": self.schema.to_dict(), **arguments}, dict(self.learnt)

    @classmethod
    def from_file(cls, path: str, metadata: dict[str, Any], tensors: dict[str, NDArray[Any]]) -> Self:
        """Restore what `to_file` returned; CheckpointError if that is damaged."""
        made = filekinds.construct(cls, path, metadata, cls.arguments)
        made._restore(path, metadata, tensors)
        return made

    def _restore(self, path: str, metadata: dict[str, Any], tensors: dict[str, NDArray[Any]]) -> None:
        """Take over schema and arrays from a file."""
        self.schema = schema_of(path, metadata)
        sizes = self._limits(tensors)
        self.learnt = {
            name: one.read(path, name, tensors, sizes)
            for name, one in self.arrays.items()
            if name in tensors or not one.optional
        }

    def _limits(self, tensors: Mapping[str, NDArray[Any]]) -> dict[str, int]:
        """Return sizes that are known before the arrays of a file are read, and limits of their numbers."""
        return {}
