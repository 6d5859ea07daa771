"""Weights named as the authors' modules name them: the scores of the solutions in PyTorch (`tests/solutions`)."""

import numpy as np
import pytest
from broken.rankers import rewrite
from rankers import small_graph, small_wide
from reference import preprocess as reference
from refusals import refuses
from test_solutions import relative, tensors, torch

import tpugraphs as tg

pytest.importorskip("torch_geometric")
from solutions import seventh, third

pytestmark = [pytest.mark.parity, pytest.mark.filterwarnings("ignore")]
SAGE = {"linear": "self", "agg_linear_in": "in", "agg_linear_out": "out"}


def of_third(blocks):
    """Beginnings of names in the third place's network -> of ours."""
    names = {
        "embedding_layer.emb": "opcodes", "embedding_layer.mlp.0": "first", "embedding_layer.mlp.2": "x0_norm",
        "lpe_projection.0": "position", "projection_network": "head",
        "mlp.0": "mlp0", "mlp.2": "m0_norm", "mlp.3": "mlp1", "mlp.5": "m1_norm",
    }  # fmt: skip
    for i in range(blocks):
        feature, walk = f"feature_sage_convs.{i}", f"lpe_sage_convs.{i}"
        names |= {f"{feature}.{theirs}": f"sage{i}_{ours}" for theirs, ours in SAGE.items()}
        names |= {f"{walk}.{theirs}": f"p{i + 1}_{ours}" for theirs, ours in SAGE.items()}
        names |= {
            f"{feature}.mlp_out.1": f"sage{i}_mixed_norm", f"{feature}.mlp_out.2": f"sage{i}_linear",
            f"{feature}.mlp_out.4": f"sage{i}_norm", f"{walk}.mlp_out.1": f"p{i + 1}_linear",
            f"linformers.{i}.query_layer": f"attention{i}_q", f"linformers.{i}.key_layer": f"attention{i}_k",
            f"linformers.{i}.value_layer": f"attention{i}_v", f"combination_nets.{i}.0": f"join{i}",
            f"combination_nets.{i}.2": f"x{i + 1}_norm",
        }  # fmt: skip
    return names


def of_seventh(layers):
    """Names in the model of Graph Segment Training -> of ours; `model.` is that of a wrapper."""
    names = {
        "emb.weight": "embedding.weight", "op_weights": "opcode_scale.weight",
        "config_weights": "linear1.digit_scale", "linear_map.weight": "linear1.weight",
        "linear_map.bias": "linear1.bias", "model.pre_mp.Layer_0.post_layer.1.weight": "prelu.slope",
    }  # fmt: skip
    for kind in ("weight", "bias"):
        head = "model.post_mp.layer_post_mp.model"
        names |= {f"model.pre_mp.Layer_0.layer.model.{kind}": f"linear2.{kind}",
                  f"{head}.0.Layer_0.layer.model.{kind}": f"head1.{kind}",
                  f"{head}.1.model.{kind}": f"head2.{kind}"}  # fmt: skip
    for i in range(layers):
        names |= {
            f"model.gnn_layers.{i}.model.lin_l.{kind}": f"sage{i}.{kind}_l" for kind in ("weight", "bias")
        }
        names[f"model.gnn_layers.{i}.model.lin_r.weight"] = f"sage{i}.weight_r"
    return names


def random_weights(names, like):
    """Random arrays by the names in `names`, in the shapes that the ranker has."""
    rng = np.random.default_rng(4)
    return {
        theirs: rng.normal(0.1, 0.4, like.parameters[ours].shape).astype(np.float32)
        for theirs, ours in names.items()
    }


def arrays_of(ranker, graph, edges, configs):
    """What the solutions read of a graph as the ranker prepares it."""
    core = ranker.network.prepare(graph).nodes
    every = {
        "node_feat": core.node_feat,
        "node_opcode": core.node_opcode,
        "edge_index": edges,
        "config_nodes": configs,
        "digits": graph.config_digits,
    }
    return tensors(every)


def assert_equal_order(got, expected):
    """Equal scores, by what tells the configs apart."""
    assert np.abs(got - expected).max() <= 1e-3 * np.ptp(expected) and relative(got, expected) <= 1e-5


THIRD = {"opcode_columns": 4, "first": 12, "width": 8, "blocks": 2, "message": 5, "keys": 6, "position": 6,
         "position_message": 3, "directed_steps": 5, "undirected_steps": 7}  # fmt: skip


@pytest.mark.parametrize("degrees", ["published", "receiver"])
@pytest.mark.parametrize("variant", ["config-1hop", "config-only"])
def test_third_layout(variant, degrees):
    graph = small_wide(5)
    edges = [(u, v) for u in range(1, graph.num_nodes) for v in range(u) if (u + v) % 3 == 0 or v + 1 == u]
    graph = graph.replace(node_opcode=np.arange(1, graph.num_nodes + 1), edge_index=edges)
    root = graph.node_feat.copy()
    root[:, 0] = 0
    root[graph.node_config_ids[0], 0] = 1  # so that the virtual node stays
    graph = graph.replace(node_feat=root)
    fields = {**THIRD, "variant": variant, "degrees": degrees}
    names = of_third(2)
    like = tg.Ranker("third-layout", preset="full", program=True, **fields)
    names = {
        f"{theirs}.{kind}": f"{ours}.{kind}"
        for theirs, ours in names.items()
        for kind in ("weight", "bias")
        if f"{ours}.{kind}" in like.parameters
    }
    assert set(names.values()) == set(like.parameters)
    theirs = random_weights(names, like)
    ranker = tg.Ranker.from_torch({f"module.{name}": value for name, value in theirs.items()}, **fields)
    assert ranker.recipe == "third-layout" and ranker.num_parameters == like.num_parameters

    edges, more = reference.virtual(graph.num_nodes, graph.edge_index, graph.node_feat[:, 0] == 1, None)
    _, edges, configs = reference.prune_1hop(graph.num_nodes + more, edges, graph.node_config_ids)
    if variant == "config-only":
        edges, configs = np.zeros((0, 2), np.int64), np.arange(len(configs))
    g = arrays_of(ranker, graph, edges, configs)
    w = {names[name]: torch.tensor(value).double() for name, value in theirs.items()}
    e = THIRD["opcode_columns"]
    first, opcodes = w["first.weight"], w["opcodes.weight"].clone()
    w["first.weight"] = torch.cat([first[:, e:], first[:, :e]], -1)  # theirs has the opcodes first
    opcodes[0] = w["opcodes.weight"][127]  # of the virtual node
    w["opcodes.weight"] = opcodes
    expected = third.layout_scores(w, g, ranker.fields).numpy()
    assert_equal_order(ranker.predict(graph), expected)
    others = {"published": "receiver", "receiver": "published"}[degrees]
    other = tg.Ranker.from_torch(theirs, **{**fields, "degrees": others}).predict(graph)
    assert (np.abs(other - expected).max() > 1e-2 * np.ptp(expected)) == (variant == "config-1hop")


def test_seventh():
    graph, fields = small_graph(3), {"width": 16, "opcode_columns": 8, "layers": 2, "segment": 0}
    names, like = of_seventh(2), tg.Ranker("seventh-gst", preset="full", **fields)
    assert set(names.values()) == set(like.parameters)
    theirs = random_weights(names, like)
    theirs["op_weights"], theirs["config_weights"] = (
        theirs["op_weights"].reshape(1, 1),
        theirs["config_weights"][None],
    )
    mean, std = graph.node_feat.mean(0), graph.node_feat.std(0)
    ranker = tg.Ranker.from_torch(theirs, scaler=(mean, std), **fields)
    assert ranker.recipe == "seventh-gst"
    w = {names[name]: torch.tensor(value).double() for name, value in theirs.items()}
    scaled = (graph.node_feat - mean.astype(float)) / np.where(std == 0, 1, std)
    g = tensors({"node_feat": scaled, "node_opcode": graph.node_opcode, "edge_index": graph.edge_index,
                 "config_nodes": graph.node_config_ids, "digits": graph.config_digits})  # fmt: skip
    expected = seventh.scores(w, g, ranker.fields).numpy()
    assert_equal_order(ranker.predict(graph), expected)


# ---- graphs that protocol buffers tell more of ---------------------------------------------------------------


def ranker(**fields):
    return tg.Ranker(
        "third-layout", **{**THIRD, "steps": 2, "configs": 8, "slates": 1, "valid_configs": 16, **fields}
    )


def test_columns_of_programs_are_used_where_graphs_have_them(tmp_path):
    wide, narrow = [small_wide(seed) for seed in range(3)], [small_graph(seed) for seed in range(3)]
    assert tg.Ranker("third-layout", preset="full").num_parameters == 3_657_088
    assert tg.Ranker("third-layout", preset="full", program=True).num_parameters == 3_672_448
    without, plain = ranker(), ranker(program=False)
    few = without.num_parameters
    for some in (without, plain):
        some.fit(narrow, verbose=False)
        assert some.num_parameters == few
    assert (without.predict(wide[0]) == without.predict(narrow[0])).all()  # the others are not read
    assert (plain.fit(wide, verbose=False).predict(narrow[0]) == without.predict(narrow[0])).all()

    r = ranker()
    assert r.num_parameters == few  # before the fit: unless graphs say otherwise
    r.fit(wide[:2], [wide[2]], verbose=False)
    assert r.num_parameters == few + 30 * THIRD["first"] and r.fields.program is None
    r.save(tmp_path / "r.safetensors")
    loaded = tg.load_ranker(tmp_path / "r.safetensors")
    assert (loaded.predict(wide[2]) == r.predict(wide[2])).all() and loaded.get_params() == r.get_params()
    for some in (r, loaded):
        refuses(lambda: some.predict(narrow[2]), tg.DataError, "186 columns", "140")
    assert r.fit(narrow, verbose=False).num_parameters == few  # a fit is that of its graphs alone
    assert (r.predict(narrow[0]) == without.predict(narrow[0])).all()

    step = ranker()
    assert step.num_parameters == few and np.isfinite(step.partial_fit(wide[0], range(6)))
    assert step.num_parameters == few + 30 * THIRD["first"]
    refuses(lambda: ranker(program=True).fit(narrow, verbose=False), tg.DataError, "186 columns")


def test_other_recipes_leave_them_out():
    r = tg.Ranker("first-layout", steps=1, width=16)
    r.fit([small_wide(1)], verbose=False)
    assert (r.predict(small_wide(2)) == r.predict(small_graph(2))).all()


def test_a_file_means_the_defaults_of_fields_that_are_younger_than_it(tmp_path):
    r, path = ranker(preset="full", steps=1), tmp_path / "r.safetensors"
    r.fit([small_graph()], verbose=False)
    assert r.fields.degrees == "published"
    r.save(path)

    def older(metadata, tensors):
        for name in ("degrees", "neighbours", "program", "learning_rate_end"):
            del metadata["fields"][name]

    rewrite(path, path, older)
    loaded = tg.load_ranker(path)
    assert loaded.fields.degrees == "receiver" and loaded.fields.learning_rate_end == 0
    assert (loaded.predict(small_graph()) == r.predict(small_graph())).all()  # the steps stand in the file
