"""Graph Segment Training: a step trains one segment of a graph, the others add the scores they had last.

Cao et al., "Learning Large Graph Property Prediction via Graph Segment Training", 2023. The score of a graph
is the sum over its P segments. A step computes fresh scores f_i of one of them, i, drawn at random, and
the loss sees

    eta f_i + sum of the stored scores of the segments that are represented.

Another segment is represented if a coin keeps it and all configs of the slate have a stored score in it. eta
is the number of segments that are not represented, including i. So P segments count in every draw and, by
symmetry, each is expected to count once: the expectation is the score of the graph, up to the age of stored
scores. The published form has eta = 1 + (P - 1)(1 - keep), which assumes that all others are stored, and uses
zeros where they are not. Until all configs were visited in all segments, its scores are too small, and those
of different configs cannot be compared.

Coins are tossed per slate, not per config: what a segment adds to the scores of all configs must cancel when
two of them are compared.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tpugraphs import kernels
from tpugraphs.errors import CheckpointError
from tpugraphs.kernels.streams import Stream
from tpugraphs.system import tensorfile
from tpugraphs.training.optimizer import Moved, per_config
from tpugraphs.training.sampling import happens

if TYPE_CHECKING:
    from tpugraphs import _core

__all__ = ["Drawn", "ScoreTable", "Segments"]

_TENSORS = {"sizes": np.int64, "configs": np.int64, "scores": np.float32}


class ScoreTable:
    """Scores of the segments of one graph, as they were last computed.

    Memory grows with the configs that were visited: 16 bytes and 4 per segment each, and at most twice the
    latter while it grows.

    Parameters
    ----------
    segments : int
        P.
    """

    def __init__(self, segments: int) -> None:
        self.configs = np.zeros(0, np.int64)  # ascending
        self._rows = np.zeros(0, np.int64)
        self._scores = np.zeros((0, segments), np.float32)

    @property
    def segments(self) -> int:
        """P."""
        return self._scores.shape[1]

    @property
    def nbytes(self) -> int:
        """Memory it takes."""
        return self.configs.nbytes + self._rows.nbytes + self._scores.nbytes

    def get(self, configs: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return stored scores (n, P) of configs (n,); NaN where there is none."""
        found = np.full((len(configs), self.segments), np.nan, np.float32)
        rows = self._find(configs)
        found[rows >= 0] = self._scores[rows[rows >= 0]]
        return found

    def put(self, configs: NDArray[np.int64], segment: int, scores: ArrayLike) -> None:
        """Store scores (n,) of different configs (n,) in a segment."""
        self._add(configs[self._find(configs) < 0])
        self._scores[self._find(configs), segment] = scores

    def _find(self, configs: NDArray[np.int64]) -> NDArray[np.int64]:
        rows = np.full(len(configs), -1)
        at = np.searchsorted(self.configs, configs)
        known = np.flatnonzero(at < self.configs.size)
        known = known[self.configs[at[known]] == configs[known]]
        rows[known] = self._rows[at[known]]
        return rows

    def _add(self, configs: NDArray[np.int64]) -> None:
        count = self.configs.size + configs.size
        if count > len(self._scores):
            more = np.full((max(count, 2 * len(self._scores)), self.segments), np.nan, np.float32)
            more[: len(self._scores)] = self._scores
            self._scores = more
        rows = np.concatenate([self._rows, np.arange(self.configs.size, count)])
        joined = np.concatenate([self.configs, configs])
        order = np.argsort(joined, kind="stable")
        self.configs, self._rows = joined[order], rows[order]


@dataclass(frozen=True)
class Drawn:
    """The part of a graph that a step trains: one segment, and what the loss sees as the graph's score.

    Attributes
    ----------
    graph : int
        Number of the graph.
    count : int
        P.
    segment : int, optional
        None: the whole graph.
    rows : (n,) int64
        Configs of the slate.
    scale : float
        eta.
    shift : (n,) float32
        Sums of the stored scores that count.
    """

    graph: int
    count: int
    segment: int | None
    rows: NDArray[np.int64]
    scale: float = 1.0
    shift: NDArray[np.float32] | float = 0.0

    def moved(self, given: Moved | None = None) -> Moved | None:
        """Return scale and shift of the segment's scores; `given`: a further pair, of the graph's score."""
        if self.segment is None or given is None:
            return given if self.segment is None else (self.scale, self.shift)
        scale, shift = (
            per_config(name, value, len(self.rows))
            for name, value in zip(("scale", "shift"), given, strict=True)
        )
        return scale * self.scale, scale * self.shift + shift


class Segments:
    """The segments that the steps of a fit train, and the scores of the others.

    A graph in one segment is trained as a whole, with the same bits as without segments.

    Parameters
    ----------
    keep : float
        Chance that the stored scores of another segment count. With 0 none are stored.
    seed : int
        Seed of the segments that are drawn.
    """

    def __init__(self, keep: float, seed: int) -> None:
        self.keep, self.seed = float(keep), seed
        self.tables: dict[int, ScoreTable] = {}

    def draw(self, graph: int, visit: int, prepared: _core.Prepared, rows: NDArray[np.int64]) -> Drawn:
        """Draw the segment of a visit to the graph of that number, which follows from seed and visit."""
        count = prepared.num_segments
        if count == 1:
            return Drawn(graph, count, None, rows)
        key = (self.seed, Stream.SEGMENTS, visit)
        segment = int(kernels.sample_without_replacement(count, 1, (*key, 0))[0])
        if graph not in self.tables:
            return Drawn(graph, count, segment, rows, float(count))
        table = self.tables[graph]
        if table.segments != count:
            raise CheckpointError(
                f"{prepared.name}: has {count} segments, found {table.segments} in the checkpoint: "
                "the file is damaged; delete it to start again",
                field="segments.sizes",
            )
        stored = table.get(rows)
        there: NDArray[np.bool_] = ~np.any(np.isnan(stored), axis=0)
        there[segment] = False
        there &= [happens(self.keep, (*key, 1, other)) for other in range(count)]
        shift = stored[:, there].sum(axis=1, dtype=np.float64).astype(np.float32)
        return Drawn(graph, count, segment, rows, float(count - there.sum()), shift)

    def store(self, drawn: Drawn, scores: NDArray[np.float32]) -> None:
        """Store the fresh scores (n,) of a segment that was drawn."""
        if drawn.segment is None or self.keep == 0:
            return
        self.tables.setdefault(drawn.graph, ScoreTable(drawn.count)).put(drawn.rows, drawn.segment, scores)

    # Checkpoints: stored scores cannot be computed again, since the weights have changed

    def tensors(self) -> dict[str, NDArray[Any]]:
        """Return everything stored, as tensors of a checkpoint; none if nothing is."""
        if not self.tables:
            return {}
        of = [(graph, table, table.configs) for graph, table in sorted(self.tables.items())]
        return {
            "segments.sizes": np.array([(graph, len(own), one.segments) for graph, one, own in of], np.int64),
            "segments.configs": np.concatenate([own for *_, own in of]),
            "segments.scores": np.concatenate([one.get(own).ravel() for _, one, own in of]),
        }

    def restore(self, path: str, tensors: Mapping[str, NDArray[Any]], graphs: int) -> None:
        """Take back what `tensors` returned; `path` names the file in errors, `graphs` is their number."""
        found = {name: tensors.get(f"segments.{name}", np.zeros(0, kind)) for name, kind in _TENSORS.items()}
        for name, kind in _TENSORS.items():
            self._check(path, name, found[name].dtype == kind, f"{np.dtype(kind)}", found[name].dtype)
        self._check(path, "sizes", found["sizes"].size % 3 == 0, "rows of three", found["sizes"].shape)
        sizes = found["sizes"].reshape(-1, 3)
        self._check(path, "sizes", (sizes >= (0, 1, 2)).all() and (sizes[:, 0] < graphs).all(),
                    "numbers of graphs, configs and segments", sizes.tolist())  # fmt: skip
        cells = [configs * segments for _, configs, segments in sizes.tolist()]
        for name, sum_ in (("configs", sum(sizes[:, 1].tolist())), ("scores", sum(cells))):
            self._check(path, name, found[name].shape == (sum_,), f"shape ({sum_},)", found[name].shape)
        self._check(path, "scores", not np.isinf(found["scores"]).any(), "scores", "infinity")
        self.tables, at, cell = {}, 0, 0
        for (graph, configs, segments), size in zip(sizes.tolist(), cells, strict=True):
            own = found["configs"][at : at + configs]
            self._check(path, "configs", own[0] >= 0 and (np.diff(own) > 0).all(), "rising numbers", own[:9])
            table = self.tables[graph] = ScoreTable(segments)
            scores = found["scores"][cell : cell + size].reshape(configs, segments)
            for segment in range(segments):
                table.put(own, segment, scores[:, segment])
            at, cell = at + configs, cell + size

    @staticmethod
    def _check(path: str, name: str, fine: Any, expected: str, found: Any) -> None:
        if not fine:
            raise tensorfile.fail(path, f"segments.{name}", expected, str(found)[:80])
