"""Scores of many configs: chunk by chunk, in memory that does not grow with their number."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tpugraphs import _core, metrics
from tpugraphs.data import arrays
from tpugraphs.data.columns import MOST_DIGIT_VALUES
from tpugraphs.data.digits import ConfigFeatures, as_digits, packed_digits
from tpugraphs.data.graph import Graph, Rows
from tpugraphs.errors import ConfigError, DataError, Error
from tpugraphs.preprocess.prepared import Configs, Prepared

__all__ = [
    "SCORING",
    "TRAINING",
    "PreparedCache",
    "as_configs",
    "check_precision",
    "compare_precisions",
    "score",
]

#: Precisions of products that a ranker can be trained with.
TRAINING = ("f32", "bf16")
#: Precisions of products that a ranker can score with.
SCORING = (*TRAINING, "int8")


def check_precision(precision: object, allowed: tuple[str, ...]) -> str:
    """Return the precision if it is one of those allowed.

    Parameters
    ----------
    precision : str
        What a caller gave.
    allowed : tuple of str
        `SCORING` or `TRAINING`.

    Returns
    -------
    str
        The same.

    Raises
    ------
    ConfigError
        Another value; the message lists those allowed.
    """
    if isinstance(precision, str) and precision in allowed:
        return precision
    expected = ", ".join(map(repr, allowed[:-1])) + f" or {allowed[-1]!r}"
    hint = "; int8 is for scoring only: predict(..., precision='int8')" if precision == "int8" else ""
    raise ConfigError(f"precision: expected {expected}, got {precision!r}{hint}")


def score(
    model: _core.Model,
    prepared: Prepared,
    rows: NDArray[np.int64],
    chunk: int,
    precision: str,
    done: Callable[[int], object] = lambda count: None,
) -> NDArray[np.float32]:
    """Return scores (n,) of rows (n,) of a prepared graph, in chunks of nearly equal size, at most `chunk`.

    Those of a graph in segments are the sums of theirs, in order. Memory is that of one segment.

    Parameters
    ----------
    done : callable
        Called with the number of configs after every chunk.
    model : _core.Model
        With its weights.
    prepared : Prepared
        The graph after preprocessing.
    rows : (n,) int64
        Which configs.
    chunk : int
        Most configs that are scored together.
    precision : {"f32", "bf16", "int8"}
        Of the operands of matrix products.

    Returns
    -------
    (n,) float32
        Smaller means predicted faster.

    Raises
    ------
    Error
        A score that is not a finite number.
    KeyboardInterrupt
        At Ctrl-C, from within a chunk.
    """
    scores = np.empty(rows.size, np.float32)
    cuts = max(1, -(-rows.size // chunk))
    for some, out in zip(np.array_split(rows, cuts), np.array_split(scores, cuts), strict=True):
        if some.size == 0:
            break
        parts = (model.scores([slate], precision=precision)[0] for slate in prepared.slates(some))
        part = functools.reduce(np.add, parts)
        bad = np.flatnonzero(~np.isfinite(part))
        if bad.size:
            raise Error(
                f"{prepared.name}: the score of config {int(some[bad[0]])} is {part[bad[0]]}: the "
                "ranker's weights are not usable; train again, with a smaller learning_rate"
            )
        out[:] = part
        done(some.size)
    return scores


def as_configs(graph: Graph, configs: Rows | None) -> Configs | None:
    """Check configs that are given as such, and not as rows of the graph.

    Layout: digits (n, K, 18) in one byte each; int8 arrays are not copied, others exactly once. Tile:
    features (n, 24). Where a graph has both, so must they: ``(features, digits)``.

    Parameters
    ----------
    graph : Graph
        Whose kind of configs is expected.
    configs : array, pair of arrays, or rows
        What a caller gave.

    Returns
    -------
    (digits, features) or None
        One of the two may be None. None: they are row numbers.

    Raises
    ------
    DataError
        Not as many configurable nodes as the graph has, values that are not digits, or not finite numbers.
    """
    features, digits = getattr(graph, "config_feat", None) is not None, bool(graph.schema.digits)
    if features and digits and isinstance(configs, (list, tuple)) and _is_pair(configs):
        both = _digits(graph, _array(configs[1])), _features(graph, configs[0])
        if len(both[0]) == len(both[1]):
            return both
        expected, found = "equally many rows of features and digits", f"{len(both[1])} and {len(both[0])}"
        raise DataError(f"configs: expected {expected}, found {found}", file=str(graph.name), field="configs")
    arrays.check_mask("configs", configs)
    array = _array(configs)
    dimensions = getattr(array, "ndim", 0)
    if dimensions not in (2, 3) or (dimensions == 2 and not features):
        return None
    if features and (digits or dimensions == 3):
        also = f", digits (n, {int(graph.num_config_nodes)}, {len(graph.schema.digits)}))" if digits else ""
        raise DataError(
            f"configs: expected {'(' * digits}features (n, {_width(graph)}){also} or row "
            f"numbers (n,), got shape {tuple(array.shape)}",
            file=str(graph.name), field="configs",
        )  # fmt: skip
    return (None, _features(graph, array)) if features else (_digits(graph, array), None)


def _is_pair(given: Sequence[Any]) -> bool:
    """Whether these are not row numbers."""
    return len(given) == 2 and not np.isscalar(given[0])


def _array(given: Any) -> Any:
    return np.asarray(given) if isinstance(given, (list, tuple)) else given


def _width(graph: Graph) -> int:
    return 0 if graph.config_feat is None else graph.config_feat.shape[1]


def _features(graph: Graph, configs: Any) -> NDArray[np.float32]:
    array = arrays.shaped("configs", configs, ("n", _width(graph)))
    return np.ascontiguousarray(arrays.floats("configs", array))


def _digits(graph: Graph, configs: Any) -> NDArray[np.int8]:
    nodes, width = int(graph.num_config_nodes), len(graph.schema.digits)
    if configs.shape[1:] != (nodes, width):
        raise DataError(
            f"configs: expected digits (n, {nodes}, {width}), one row per configurable node, or row numbers "
            f"(n,), got shape {tuple(configs.shape)}",
            file=str(graph.name), field="configs", expected=f"(n, {nodes}, {width})",
            found=str(tuple(configs.shape)),
        )  # fmt: skip
    if isinstance(configs, ConfigFeatures):
        return configs.digits
    if graph.kind == "graph":
        return as_digits("configs", configs, (MOST_DIGIT_VALUES,) * width)
    array = np.asarray(configs)
    if array.dtype == np.int8 and array.flags.c_contiguous:
        return array  # the core checks digits as it reads them
    return packed_digits("configs", array)


class Predicts(Protocol):
    """What scores in a precision, such as a :class:`tpugraphs.Ranker`."""

    def predict(
        self,
        graph: Graph,
        configs: Rows | None = None,
        *,
        precision: str | None = None,
        verbose: bool | None = None,
    ) -> NDArray[np.float32]:
        """Return scores (n,)."""
        ...


def compare_precisions(
    ranker: Predicts, graph: Graph, configs: Rows | None = None, k: int = 100
) -> dict[str, dict[str, float | None]]:
    """Measure what scoring in bf16 or int8 costs in accuracy, for a ranker and a graph.

    Parameters
    ----------
    ranker : Ranker
    graph : LayoutGraph
    configs : (n,) int, (C,) bool, optional
        Rows to score, preferably some that the ranker was not trained on; by default all.
    k : int
        How many of the predicted fastest to compare.

    Returns
    -------
    dict of str to dict
        For each precision: ``tau`` of scores and runtimes of the configs that ran (None if they were not
        measured); ``tau_to_f32`` of its scores and those of f32; ``overlap``: share of the k predicted
        fastest that f32 has among its k.

    Examples
    --------
    >>> import tpugraphs as tg
    >>> programs = tg.open_collection("options:xla:cpu")
    >>> ranker = tg.Ranker("graph-config", steps=5).fit(programs.train[:4], verbose=False)
    >>> found = compare_precisions(ranker, programs.test[0])
    >>> {name: round(row["overlap"], 1) for name, row in found.items()}
    {'f32': 1.0, 'bf16': 1.0, 'int8': 1.0}
    """
    scores = {name: ranker.predict(graph, configs, precision=name, verbose=False) for name in SCORING}
    rows = graph.row_numbers(configs)
    ran = np.ones(rows.size, np.bool_) if graph.valid is None else np.asarray(graph.valid)[rows]
    measured = graph.has_runtimes and ran.any()
    runtimes = np.asarray(graph.config_runtime)[rows[ran]] if measured else None
    exact = scores["f32"]
    _, places = np.unique(exact, return_inverse=True)  # tau takes runtimes > 0
    best = np.argsort(exact, kind="stable")[:k]
    return {
        name: {
            "tau": None if runtimes is None else metrics.kendall_tau(mine[ran], runtimes),
            "tau_to_f32": metrics.kendall_tau(mine, places + 1),
            "overlap": np.intersect1d(best, np.argsort(mine, kind="stable")[:k]).size / max(1, best.size),
        }
        for name, mine in scores.items()
    }


class PreparedCache:
    """Cache of the graph that was prepared last, as long as that graph lives.

    Several threads may use it at once: the graph and its prepared form are one attribute.
    """

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Forget the graph that was kept."""
        self._kept: tuple[weakref.ref[Any], Prepared] | None = None
        self.measured = False

    def get(self, graph: Graph) -> Prepared | None:
        """Return what was kept of this graph, None if it was another.

        Parameters
        ----------
        graph : Graph
            Compared by identity.

        Returns
        -------
        Prepared or None
            What `keep` was given.
        """
        kept = self._kept
        return kept[1] if kept is not None and kept[0]() is graph else None

    def keep(self, graph: Graph, prepared: Prepared) -> Prepared:
        """Keep a prepared graph instead of another, as long as the graph itself is in use.

        Parameters
        ----------
        graph : Graph
            What it was made of.
        prepared : Prepared
            What is kept.

        Returns
        -------
        Prepared
            The same.
        """
        self.clear()
        me = weakref.ref(self)

        def gone(which: weakref.ref[Any]) -> None:
            cache = me()
            if cache is not None and cache._kept is not None and cache._kept[0] is which:
                cache.clear()

        self._kept = weakref.ref(graph, gone), prepared
        return prepared
