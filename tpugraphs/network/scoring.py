"""Arguments of scoring: configs given as arrays, and precisions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tpugraphs import metrics
from tpugraphs.data import arrays
from tpugraphs.data.columns import MOST_DIGIT_VALUES
from tpugraphs.data.digits import ConfigFeatures, as_digits, packed_digits
from tpugraphs.data.graph import Graph, Rows
from tpugraphs.errors import ConfigError, DataError
from tpugraphs.evaluation.scorer import Scorer
from tpugraphs.preprocess.pipeline import Configs

__all__ = ["SCORING", "TRAINING", "as_configs", "check_precision", "compare_precisions"]

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


def as_configs(graph: Graph, configs: Rows | None) -> Configs | None:
    """Check configs that are given as arrays, and not as rows of the graph.

    Layout: digits (n, K, 18) in one byte each; int8 arrays are not copied, others exactly once. Tile:
    features (n, 24). If a graph has both, so must they: ``(features, digits)``.

    Parameters
    ----------
    graph : Graph
        The graph whose kind of configs is expected.
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
    columns, digits = getattr(graph, "config_feat", None), bool(graph.schema.digits)
    width = None if columns is None else columns.shape[1]
    if width is not None and digits and isinstance(configs, (list, tuple)) and _is_pair(configs):
        both = _digits(graph, configs[1]), _features(configs[0], width)
        if len(both[0]) == len(both[1]):
            return both
        expected, found = "equally many rows of features and digits", f"{len(both[1])} and {len(both[0])}"
        raise DataError(f"configs: expected {expected}, found {found}", file=str(graph.name), field="configs")
    arrays.check_mask("configs", configs)
    given: Any = configs
    dimensions = np.ndim(given)
    if dimensions not in (2, 3) or (dimensions == 2 and width is None):
        return None
    if width is None:
        return _digits(graph, given), None
    if not digits and dimensions == 2:
        return None, _features(given, width)
    also = f", digits (n, {int(graph.num_config_nodes)}, {len(graph.schema.digits)}))" if digits else ""
    expected = f"{'(' * digits}features (n, {width}){also} or row numbers (n,)"
    raise DataError(
        f"configs: expected {expected}, got shape {np.shape(given)}", file=str(graph.name), field="configs"
    )


def _is_pair(given: Sequence[Any]) -> bool:
    """Return whether these are a pair of arrays, not row numbers."""
    return len(given) == 2 and not np.isscalar(given[0])


def _features(configs: Any, width: int) -> NDArray[np.float32]:
    return arrays.floats("configs", arrays.shaped("configs", configs, ("n", width)))


def _digits(graph: Graph, configs: Any) -> NDArray[np.int8]:
    nodes, width = int(graph.num_config_nodes), len(graph.schema.digits)
    configs = np.asarray(configs) if isinstance(configs, (list, tuple)) else configs
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
    if isinstance(configs, np.ndarray) and configs.dtype == np.int8 and configs.flags.c_contiguous:
        return configs  # the core checks digits as it reads them
    return packed_digits("configs", configs)


def compare_precisions(
    ranker: Scorer, graph: Graph, configs: Rows | None = None, k: int = 100
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
