"""Masked arrays are refused wherever data comes in: NumPy would take what is under the mask for values."""

import madeup
import numpy as np
import pytest
from rankers import small_graph, small_ranker
from refusals import refuses

import tpugraphs as tg

LAYOUT = {name: np.asarray(value) for name, value in small_graph(configs=8).fields().items() if name in (
    "node_feat", "node_opcode", "edge_index", "node_config_ids", "node_config_feat", "config_runtime"
)}  # fmt: skip
TILE = {
    name: np.asarray(getattr(madeup.graph("kernel_00"), name))
    for name in (
        *("node_feat", "node_opcode", "edge_index", "config_feat"),
        *("config_runtime", "config_runtime_normalizers"),
    )
}
GRAPH = {
    "node_feat": np.ones((3, 2)),
    "node_opcode": np.arange(3),
    "edge_index": np.array([[1, 0]]),
    "graph_feat": np.ones(2),
    "config_feat": np.arange(8.0).reshape(4, 2),
    "runtime": np.arange(1.0, 5),
    "valid": np.array([True, True, True, False]),
    "repeats": np.ones((4, 2)),
}
FIELDS = [
    *((tg.LayoutGraph, LAYOUT, name) for name in LAYOUT),
    *((tg.TileGraph, TILE, name) for name in TILE),
    *((tg.Graph, GRAPH, name) for name in GRAPH),
]


def masked(array, count=1):
    """The array with its first values masked."""
    mask = np.zeros(array.shape, bool)
    mask.ravel()[:count] = True
    return np.ma.array(array, mask=mask)


@pytest.mark.parametrize(
    ("kind", "arrays", "field"), FIELDS, ids=[f"{kind.__name__}-{field}" for kind, _, field in FIELDS]
)
def test_graphs_refuse_masked_values(kind, arrays, field):
    unmasked = kind(**arrays | {field: np.ma.array(arrays[field])})  # nothing is lost
    assert unmasked.num_configs == kind(**arrays).num_configs
    with pytest.raises(tg.DataError, match=f"{field}.*: expected values without a mask, found 1 masked") as e:
        kind(**arrays | {field: masked(arrays[field])})
    assert e.value.field == field
    with pytest.raises(tg.DataError, match=f"{field}.*found 1 masked"):
        kind(**arrays | {field: list(masked(arrays[field]))})


@pytest.mark.parametrize("column", ["block", "time"])
def test_tables_refuse_masked_values(column):
    table = {"block": np.arange(6), "time": np.arange(1.0, 7)}
    with pytest.raises(tg.DataError, match=f"column '{column}'.*found 2 masked") as error:
        tg.from_frame({**table, column: masked(table[column], 2)}, config=["block"], runtime="time")
    assert error.value.field == column
    (graph,) = tg.from_frame(table, config=["block"], runtime="time")
    with pytest.raises(tg.DataError, match="'block'.*2 masked"):
        graph.schema.encode("config", {"block": masked(table["block"], 2)})


def test_metrics_refuse_masked_values():
    scores, runtimes = np.arange(6.0), np.arange(1, 7)
    assert tg.metrics.kendall_tau(np.ma.array(scores), runtimes) == 1
    for given in ((masked(scores), runtimes), (scores, masked(runtimes))):
        with pytest.raises(tg.ShapeError, match="(scores|runtimes): expected values without a mask"):
            tg.metrics.kendall_tau(*given)


def test_predictions_and_fits_refuse_masked_values():
    ranker, graph = small_ranker(steps=1), small_graph(configs=8)
    ranker.fit(graph, verbose=False)
    digits = np.asarray(graph.node_config_feat)
    for configs in (digits, digits.astype(np.int8), np.arange(4), np.ones(8, bool)):
        assert ranker.predict(graph, np.ma.array(configs)).size == len(configs)
        refuses(lambda: ranker.predict(graph, masked(configs)), tg.DataError, "configs", "1 masked")
    tile = tg.Ranker("first-tile", steps=1, width=16)
    tile.fit(madeup.graph("kernel_00"), verbose=False)
    with pytest.raises(tg.DataError, match="configs.*1 masked"):
        tile.predict(madeup.graph("kernel_00"), masked(TILE["config_feat"]))
    with pytest.raises(tg.DataError, match="sample_weight.*masked"):
        ranker.fit(graph, sample_weight=masked(np.ones(8)), verbose=False)
