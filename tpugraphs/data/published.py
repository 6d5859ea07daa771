"""Measured graphs of TpuGraphs: :class:`LayoutGraph` and :class:`TileGraph`. Both are :class:`Graph`."""

from __future__ import annotations

from collections.abc import Iterator
from types import MappingProxyType
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from tpugraphs import _core
from tpugraphs.data import arrays
from tpugraphs.data.digits import ConfigFeatures
from tpugraphs.data.graph import Graph
from tpugraphs.data.schema import LAYOUT, TILE

__all__ = ["ConfigFeatures", "Graph", "LayoutGraph", "TileGraph"]


class _Published(Graph):
    """Common part of the layout and tile graphs of TpuGraphs."""

    __slots__ = ()
    about = MappingProxyType[str, Any]({})  # files of the published schema cannot hold it
    node_opcode: npt.NDArray[np.uint8]
    runtime: npt.NDArray[np.int64]

    def _init_published(
        self, given: dict[str, Any], name: str, collection: str | None, path: str | None
    ) -> None:
        self._set(name="graph" if name is None else str(name), collection=collection, path=path)
        self._take(given)

    def _saved(self) -> Iterator[tuple[str, Any]]:
        """Return the arrays of a file in the published schema."""
        return ((field, getattr(self, field)) for field in self._SAVED)

    def validate(self) -> Self:
        """Check as :meth:`Graph.validate`, and the layouts in the node features, which are digits too."""
        super().validate()
        with arrays.naming(self.path):
            _core.layout_digits(self.node_feat)
        return self


class LayoutGraph(_Published):
    """A graph with a choice of layouts per configurable node.

    All other arguments and attributes are as in :class:`Graph`; `schema` is
    :data:`tpugraphs.data.schema.LAYOUT`.

    Parameters
    ----------
    node_feat : (N, 140) float
    node_opcode : (N,) int in 0..255
        Opcode numbers.
    edge_index : (E, 2) int
    node_config_ids : (K,) int, optional
    node_config_feat : (C, K, 18), optional
        Configs: whole numbers in -1..5 (6 digits of output, input and kernel layout each).
    config_runtime : (C,) int, optional
        Run times in nanoseconds. Left out (or all <= 0): not measured.
    node_splits : (S,) or (1, S) int, optional
        Where the major computations start; by default 0 and N. The attribute is (1, S).
    name : str
        Name of the program.
    collection, path : str, optional
        Where it is from: see :class:`Graph`.

    Raises
    ------
    DataError
        When an array is not as described, naming field and place.
    """

    __slots__ = ()
    schema = LAYOUT
    kind = schema.kind
    _UNSAVED = ()
    _SAVED = (
        "node_feat", "node_opcode", "edge_index", "node_config_ids", "node_splits", "node_config_feat",
        "config_runtime",
    )  # fmt: skip

    def __init__(
        self,
        *,
        node_feat: npt.ArrayLike,
        node_opcode: npt.ArrayLike,
        edge_index: npt.ArrayLike,
        node_config_ids: npt.ArrayLike | None = None,
        node_config_feat: npt.ArrayLike | ConfigFeatures | _core.Digits | None = None,
        config_runtime: npt.ArrayLike | None = None,
        node_splits: npt.ArrayLike | None = None,
        name: str = "graph",
        collection: str | None = None,
        path: str | None = None,
    ) -> None:
        given = {
            "node_feat": node_feat, "node_opcode": node_opcode, "edge_index": edge_index,
            "node_config_ids": node_config_ids, "node_config_feat": node_config_feat,
            "config_runtime": config_runtime, "node_splits": node_splits,
        }  # fmt: skip
        self._init_published(given, name, collection, path)


class TileGraph(_Published):
    """A kernel with a choice of tile sizes; all else is as in :class:`LayoutGraph`.

    Parameters
    ----------
    config_feat : (C, 24) float
        Kernel, output and input bounds with their sums and products.
    config_runtime_normalizers : (C,) int, optional
        Run times of the default config in the same run; all 1 when left out.
    node_feat, node_opcode, edge_index, config_runtime, node_splits, name, collection, path
        As in :class:`LayoutGraph`.
    """

    __slots__ = ()
    schema = TILE
    kind = schema.kind
    _UNSAVED = ("node_splits",)
    config_feat: npt.NDArray[np.float32]
    config_runtime_normalizers: npt.NDArray[np.int64]
    _SAVED = (
        "node_feat", "node_opcode", "edge_index", "config_feat", "config_runtime",
        "config_runtime_normalizers",
    )  # fmt: skip

    def __init__(
        self,
        *,
        node_feat: npt.ArrayLike,
        node_opcode: npt.ArrayLike,
        edge_index: npt.ArrayLike,
        config_feat: npt.ArrayLike,
        config_runtime: npt.ArrayLike | None = None,
        config_runtime_normalizers: npt.ArrayLike | None = None,
        node_splits: npt.ArrayLike | None = None,
        name: str = "graph",
        collection: str | None = None,
        path: str | None = None,
    ) -> None:
        given = {
            "node_feat": node_feat, "node_opcode": node_opcode, "edge_index": edge_index,
            "config_feat": config_feat, "config_runtime": config_runtime,
            "config_runtime_normalizers": config_runtime_normalizers, "node_splits": node_splits,
        }  # fmt: skip
        self._init_published(given, name, collection, path)


#: By kind, as packs and PyTorch Geometric name it.
CLASSES: dict[str, type[Graph]] = {one.kind: one for one in (Graph, LayoutGraph, TileGraph)}
