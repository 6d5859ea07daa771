"""Arguments of scoring: configs given as arrays, and precisions."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from tpugraphs import _core, metrics
from tpugraphs.data import Graph, Rows, arrays
from tpugraphs.data.columns import MOST_DIGIT_VALUES
from tpugraphs.data.digits import ConfigFeatures
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
    if configs is None:
        return None
    columns, digits, given = graph.config_feat, bool(graph.schema.digits), cast(Any, configs)
    pair = isinstance(given, (list, tuple)) and len(given) == 2 and not np.isscalar(given[0])
    if columns is not None and digits and pair:
        both = _digits(graph, given[1]), _features(graph, given[0])
        if len(both[0]) != len(both[1]):
            raise _refused(graph, f"{len(both[1])} of one and {len(both[0])} of the other")
        return both
    arrays.check_mask("configs", given)
    dimensions = np.ndim(given)
    if dimensions not in (2, 3) or (dimensions == 2 and columns is None):
        return None
    if columns is not None and (digits or dimensions == 3):
        raise _refused(graph, f"shape {np.shape(given)}")
    return (_digits(graph, given), None) if columns is None else (None, _features(graph, given))


def _refused(graph: Graph, found: str) -> DataError:
    """Make the error for configs that do not fit a graph."""
    forms, columns = [], getattr(graph, "config_feat", None)
    if columns is not None:
        forms.append(f"features (n, {columns.shape[1]})")
    if graph.schema.digits:
        forms.append(f"digits (n, {graph.num_config_nodes}, {len(graph.schema.digits)})")
    expected = forms[0] if len(forms) == 1 else f"({', '.join(forms)})"
    todo = "give a row for each config, and in digits one for each configurable node"
    return DataError.of("configs", f"{expected} or row numbers (n,)", found, todo, file=str(graph.name))


def _features(graph: Graph, configs: Any) -> NDArray[np.float32]:
    width = 0 if graph.config_feat is None else graph.config_feat.shape[1]
    return _core.as_floats("configs", configs, "nT", (-1, width))


def _digits(graph: Graph, configs: Any) -> NDArray[np.int8]:
    width = len(graph.schema.digits)
    if np.shape(configs)[1:] != (graph.num_config_nodes, width):
        raise _refused(graph, f"shape {np.shape(configs)}")
    if isinstance(configs, ConfigFeatures):
        return configs.digits
    if isinstance(configs, np.ndarray) and configs.dtype == np.int8 and configs.flags.c_contiguous:
        return configs  # checked as they are read
    values = None if graph.schema.published else (MOST_DIGIT_VALUES,) * width
    return _core.as_digits("configs", configs, values)


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
    runtimes = np.asarray(graph.runtime)[rows[ran]] if measured else None
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
