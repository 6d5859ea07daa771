"""Checks that a recipe can rank the configs of a graph, or learn from them."""

import numpy as np
from numpy.typing import NDArray

from tpugraphs import kernels
from tpugraphs.data.graph import Graph, Times
from tpugraphs.data.hlo import EXTRA_LAYOUT
from tpugraphs.data.measured import require_measured
from tpugraphs.data.published import CLASSES
from tpugraphs.data.schema import LAYOUT
from tpugraphs.errors import DataError, graph_hint


def of_kind(graph: Graph, kind: str) -> bool:
    """Return whether a graph is of that kind; its content is not checked."""
    return kind in ("graph", graph.kind) or (kind == "layout" and graph.schema in (LAYOUT, EXTRA_LAYOUT))


def check_kind(graph: Graph, kind: str) -> None:
    """Raise DataError unless `graph` is of that kind, with something to configure."""
    name, known = str(getattr(graph, "name", "graph")), isinstance(graph, Graph)
    if not known or not of_kind(graph, kind):
        hint = "; see `tpugraphs recipes` for one that ranks these" if known else f"; {graph_hint(graph)}"
        if isinstance(graph, (list, tuple)):
            hint = "; graphs are ranked one by one: [ranker.predict(graph) for graph in graphs]"
        found = f"{'a ' if known else ''}{type(graph).__name__}{hint}"
        expected = f"this recipe ranks {kind} configs: expected a {CLASSES[kind].__name__}"
        raise DataError(f"{expected}, found {found}", file=name)
    if not graph.configurable:
        field, expected, found = "node_config_ids", "at least one configurable node", "none"
        if not graph.schema.digits:
            field, expected, found = "config_feat", "features of configs or configurable nodes", "neither"
        raise DataError.of(field, expected, found, "there is nothing to rank", file=name)


def check_measured(graph: Graph, kind: str) -> None:
    """Raise DataError unless a ranking can be learnt from the runtimes of `graph`."""
    check_kind(graph, kind)
    remedy = "train on a measured graph (test files of the collections have no runtimes)"
    require_measured(graph, graph.ran, "nothing can be learnt", remedy)
    check_order(str(graph.name), ran_only(graph).config_runtime, graph.config_runtime_normalizers)


def check_order(name: str, runtimes: Times, normalizers: NDArray[np.int64] | None) -> None:
    """Raise DataError if all runtimes, normalised if that is given, are equal."""
    if normalizers is None:
        equal, what = runtimes.min() == runtimes.max(), "runtimes"
    else:
        ranks = kernels.ratio_ranks(runtimes.astype(np.int64, copy=False), normalizers)
        equal, what = int(ranks.max()) == 1, "normalised runtimes"
    if equal:
        found = f"{len(runtimes)} equal {what}" if len(runtimes) > 1 else "only one config that ran"
        todo = "nothing can be learnt from it: leave it out"
        raise DataError.of("config_runtime", "different runtimes", found, todo, file=name)


def check_weighted(name: str, count: int) -> None:
    """Raise DataError unless at least two configs of a graph, of which `count` do, have a weight above 0."""
    if count < 2:
        expected, todo = "at least two configs of a weight above 0", "a weight of zero leaves a config out"
        raise DataError.of("sample_weight", expected, str(count), todo, file=name)


def ran_only(graph: Graph) -> Graph:
    """Leave out configs that failed."""
    return graph if graph.valid is None or graph.valid.all() else graph.select(graph.ran)
