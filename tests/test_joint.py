"""Layout and tile graphs under one schema."""

import numpy as np
from rankers import small_any, small_graph, small_tile
from refusals import refuses

import tpugraphs as tg
from tpugraphs.data import JOINT, as_joint


def test_both_kinds_have_the_same_columns():
    layout, tile = small_graph(0), small_tile(0)
    for graph in (layout, tile):
        joint = as_joint(graph)
        assert joint.schema == JOINT and joint.kind == "graph" and joint.name == graph.name
        assert (joint.node_feat == graph.node_feat).all() and (joint.edge_index == graph.edge_index).all()
    one, other = as_joint(layout), as_joint(tile)
    assert not one.config_feat.any() and (one.config_digits == layout.config_digits).all()
    assert (one.runtime == layout.config_runtime).all()
    assert (other.config_feat[:, :24] == tile.config_feat).all() and (other.config_feat[:, 24] == 1).all()
    assert other.num_config_nodes == 0
    assert np.allclose(other.runtime, tile.config_runtime / tile.config_runtime_normalizers)
    refuses(lambda: as_joint(small_any()), tg.ConfigError, "as_joint")


def test_graphs_that_were_not_measured():
    layout, tile = small_graph(0), small_tile(0)
    none = np.zeros_like(tile.config_runtime)
    for graph in (
        layout.replace(config_runtime=np.zeros_like(layout.config_runtime)),
        tile.replace(config_runtime=none, config_runtime_normalizers=none),
    ):
        joint = as_joint(graph)
        assert not joint.has_runtimes and joint.num_configs == graph.num_configs


def test_one_ranker_learns_both(tmp_path):
    layouts, tiles = [small_graph(0), small_graph(1)], [small_tile(0), small_tile(1)]
    train = [as_joint(graph) for graph in (*layouts, *tiles)]
    ranker = tg.Ranker("graph-config", seed=0, width=48, dropout=0.0)
    ranker.fit(train, steps=400, verbose=False)
    taus = [tg.metrics.kendall_tau(ranker.predict(graph), graph.runtime) for graph in train]
    assert min(taus) > 0.5, taus
    ranker.save(tmp_path / "both.safetensors")
    again = tg.load_ranker(tmp_path / "both.safetensors")
    for graph in train:
        assert (again.predict(graph) == ranker.predict(graph)).all()
