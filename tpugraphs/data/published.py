"""Measured graphs of TpuGraphs: :class:`LayoutGraph` and :class:`TileGraph`. Both are :class:`Graph`."""

from __future__ import annotations

from collections.abc import Iterator
from types import MappingProxyType
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from tpugraphs._core import SCHEMA
from tpugraphs.data import arrays
from tpugraphs.data.digits import DIGITS, ConfigFeatures, Digits
from tpugraphs.data.graph import Graph
from tpugraphs.data.schema import LAYOUT, TILE

__all__ = ["ConfigFeatures", "Graph", "LayoutGraph", "TileGraph"]

NODE_FEATURES, TILE_FEATURES = SCHEMA["node_features"], SCHEMA["tile_features"]


class _Published(Graph):
    """Common part of the layout and tile graphs of TpuGraphs."""

    graph_feat = valid = repeats = None
    about = MappingProxyType[str, Any]({})  # files of the published schema cannot hold it
    node_opcode: npt.NDArray[np.uint8]
    runtime: npt.NDArray[np.int64]

    def _init_published(
        self, node_feat: Any, node_opcode: Any, edge_index: Any, node_splits: Any, name: str,
        collection: str | None, path: str | None,
    ) -> None:  # fmt: skip
        self._init_nodes(node_feat, NODE_FEATURES, node_opcode, edge_index)
        nodes = self.num_nodes
        splits = arrays.integers("node_splits", [[0, nodes]] if node_splits is None else node_splits)
        if splits.ndim == 2 and splits.shape[0] == 1:
            splits = splits[0]
        arrays.shaped("node_splits", splits, ("S",))
        arrays.in_range("node_splits", splits, 0, nodes, "node numbers")
        if (np.diff(splits) < 0).any():
            raise arrays.fail("node_splits", "rising node numbers", f"{splits.tolist()[:8]}")
        splits = arrays.frozen(splits.reshape(1, -1).copy(), None)
        title = "graph" if name is None else str(name)
        self._set(node_splits=splits, name=title, collection=collection, path=path)

    def _times(
        self, field: str, value: Any, count: int, least: int, measured: bool | None = None
    ) -> npt.NDArray[np.int64]:
        """Check nanoseconds (C,). Any pass if not `measured`; by default that is if none is above 0."""
        value = np.full(count, least, np.int64) if value is None else value
        times = arrays.integers(field, arrays.shaped(field, value, (count,)))
        measured = bool((times > 0).any()) if measured is None else measured
        expected, todo = f"nanoseconds {'> 0' if least else '>= 0'}", "drop this config or measure it again"
        arrays.refuse(field, (times < least) & measured, times, expected, todo)
        result: npt.NDArray[np.int64] = arrays.frozen(times, value)
        return result

    def _saved(self) -> Iterator[tuple[str, Any]]:
        """Return the arrays of a file in the published schema."""
        return ((field, getattr(self, field)) for field in self._SAVED)

    def validate(self) -> Self:
        """Check as :meth:`Graph.validate`, and the layouts in the node features, which are digits too."""
        super().validate()
        first = SCHEMA["scaled_features"]
        layout = self.node_feat[:, first:]
        low, high = SCHEMA["digit_min"], SCHEMA["digit_max"]
        bad = ~((layout >= low) & (layout <= high) & (np.floor(layout) == layout))
        if bad.any():
            node, column = (int(i) for i in np.argwhere(bad)[0])
            found = f"{layout[node, column].item()!r} at node {node}, column {first + column}"
            error = arrays.fail("node_feat", f"layout digits, whole numbers in {low}..{high}", found)
            raise arrays.with_file(error, self.path)
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

    kind = "layout"
    schema = LAYOUT
    config_feat = None
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
        node_config_feat: npt.ArrayLike | ConfigFeatures | Digits | None = None,
        config_runtime: npt.ArrayLike | None = None,
        node_splits: npt.ArrayLike | None = None,
        name: str = "graph",
        collection: str | None = None,
        path: str | None = None,
    ) -> None:
        self._init_published(node_feat, node_opcode, edge_index, node_splits, name, collection, path)
        self._init_config_nodes(node_config_ids)
        ids = self.node_config_ids
        if node_config_feat is None:
            configs = 0 if config_runtime is None else np.size(config_runtime)
            if configs:
                raise arrays.fail(
                    "node_config_feat", f"shape ({configs}, {len(ids)}, {DIGITS})", "no such array"
                )
            node_config_feat = np.zeros((0, len(ids), DIGITS), np.int8)
        digits = Digits.of(node_config_feat)
        if digits.shape[1] != len(ids) or digits.shape[2] != DIGITS:
            expected = f"shape (C, {len(ids)}, {DIGITS}), as there are {len(ids)} node_config_ids"
            raise arrays.fail("node_config_feat", expected, f"shape {digits.shape}")
        runtime = self._times("config_runtime", config_runtime, digits.shape[0], 0)
        self._set(runtime=runtime, _digits=digits)


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

    kind = "tile"
    schema = TILE
    node_config_ids = arrays.frozen(np.zeros(0, np.int64), None)
    _UNSAVED = ("node_splits",)
    _PER_CONFIG = (*Graph._PER_CONFIG, "config_runtime_normalizers")
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
        self._init_published(node_feat, node_opcode, edge_index, node_splits, name, collection, path)
        self._init_features("config_feat", config_feat, ("C", TILE_FEATURES))
        self._set(runtime=self._times("config_runtime", config_runtime, len(self.config_feat), 0))
        given = config_runtime_normalizers
        normalizers = self._times("config_runtime_normalizers", given, self.num_configs, 1, self.has_runtimes)
        self._set(config_runtime_normalizers=normalizers)

    @property
    def _digits(self) -> Digits:  # type: ignore[override]
        """None per node: configs are features."""
        shape = (self.num_configs, 0, 0)
        return Digits(shape, np.zeros(shape, np.int8), values=())


#: Kind -> class, as packs and PyTorch Geometric name it.
KINDS: dict[str, type[Graph]] = {one.kind: one for one in (Graph, LayoutGraph, TileGraph)}
