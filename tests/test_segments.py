"""Training by segments: how graphs are cut, what is stored, the expectation of a score, exact fits and files."""

import copy

import models
import numpy as np
import pytest
from models import named
from rankers import Break, Lazy, networks, small_any, small_graph, small_ranker, state
from reference import preprocess as reference
from reference import segments as reference_segments
from refusals import refuses
from test_resume import same

import tpugraphs as tg
from tpugraphs import _core
from tpugraphs.kernels.streams import Stream
from tpugraphs.preprocess.pipeline import Pipeline
from tpugraphs.recipes import get_recipe
from tpugraphs.training import CHECKPOINT, Callback
from tpugraphs.training.optimizer import Optimizer

GRAPHS = [small_graph(i, configs=40 + i, nodes=14 + 5 * i, config_nodes=4 + i) for i in range(3)]
FIELDS = {"prune": "none", "segment": 4}


def prepared(graph, nodes):
    steps = [{"step": "dedup", "keep": "first"}, {"step": "segments", "nodes": nodes}]
    return Pipeline(steps).fit([graph]).apply(graph)


def by_hand(graph, nodes):
    """Core graphs of the segments, from the arrays of the stored graph."""
    where = np.asarray(graph.node_config_ids)
    feat, opcode = np.asarray(graph.node_feat), np.asarray(graph.node_opcode)
    return [
        _core.ModelGraph(feat[begin:end], opcode[begin:end], None, edges, where[mine] - begin,
                    np.ascontiguousarray(graph.config_digits[:, mine]))
        for begin, end, edges, mine in reference.segments(len(feat), graph.edge_index, where, nodes)
    ]  # fmt: skip


# ---- cutting ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("nodes", [1, 2, 3, 5, 7, 13, 14, 15, 1 << 30])
@pytest.mark.parametrize("count", [1, 2, 12, 14])
def test_every_node_is_in_one_segment_and_edges_are_inside(count, nodes):
    rng = np.random.default_rng(count)
    edges, where = rng.integers(0, count, (40, 2)), rng.permutation(count)[: count // 2]
    feat = np.arange(count, dtype=np.float32)[:, None]
    whole = _core.ModelGraph(feat, np.arange(count, dtype=np.uint8), None, edges, where)
    cuts, expected = whole.cut(nodes), list(reference.segments(count, edges, where, nodes))
    assert len(cuts) == len(expected) <= count // nodes + 1
    assert np.concatenate([one.node_feat for one in cuts]).tolist() == feat.tolist()
    for one, (begin, end, inside, mine) in zip(cuts, expected, strict=True):
        assert 1 <= one.num_nodes == end - begin <= nodes
        assert one.node_opcode.tolist() == list(range(begin, end))
        assert (one.num_edges, one.num_config_nodes) == (len(inside), len(mine))
    refuses(lambda: whole.cut(0), ValueError, "nodes", "got 0")


@pytest.mark.parametrize("nodes", [3, 8, 13])
def test_a_model_sees_the_segments_as_if_they_were_graphs(nodes):
    """Features, edges in their order, digits: every bit."""
    graph = GRAPHS[2].select(np.arange(32))
    steps = [
        {"op": "embedding", "name": "o", "in": ["node_feat"], "out": "o", "attrs": {"source": "opcode"}},
        {"op": "config_linear", "name": "c", "in": ["o"], "out": "c", "attrs": {"out": 8, "column": 156}},
        {"op": "sage", "name": "s", "in": ["c"], "out": "s", "attrs": {"out": 8, "direction": "both"}},
        {"op": "pool", "name": "p", "in": ["s"], "out": "p", "attrs": {"kind": "mean+max"}},
        {"op": "linear", "name": "y", "in": ["p"], "out": "scores", "attrs": {"out": 1}},
    ]
    model, rows = _core.Model(steps, 3, node_features=140), np.arange(32)
    found = prepared(graph, nodes)
    expected = [model.scores([(one, rows)])[0] for one in by_hand(graph, nodes)]
    for slate, one in zip(found.slates(rows), expected, strict=True):
        assert model.scores([slate])[0].tobytes() == one.tobytes()
    assert (model.score_prepared(found, rows, 64, "f32") == sum(expected[1:], expected[0])).all()
    others = found.with_configs(graph.config_digits[::-1].copy())
    assert (
        model.score_prepared(others, rows, 64, "f32")
        == model.score_prepared(found, rows[::-1].copy(), 64, "f32")
    ).all()


def test_configs_of_packs_are_read_in_place(tmp_path):
    GRAPHS[1].save(tmp_path / "g.tgpack")
    packed = tg.load(tmp_path / "g.tgpack")
    ranker = small_ranker(**FIELDS)
    ranker.fit(GRAPHS[1], verbose=False)
    assert (ranker.predict(packed) == ranker.predict(GRAPHS[1])).all()
    assert ranker.network.prepare(packed).num_segments > 1


# ---- what is stored ---------------------------------------------------------------------------------------


def cut(count):
    """A prepared graph in so many segments."""
    graph = _core.ModelGraph(**models.graph_arrays(count, 8, min(count, 2), 3, 0))
    return _core.Prepared(graph, "cut", segments=1 if count > 1 else 0)


def stored(segments):
    """What is stored: graph -> config -> scores of its segments."""
    given, found = segments.tensors(), {}
    configs, scores = given["segments.configs"].tolist(), given["segments.scores"]
    for graph, own, count in given["segments.sizes"].tolist():
        table, scores = scores[: own * count].reshape(own, count), scores[own * count :]
        found[graph], configs = dict(zip(configs[:own], table, strict=True)), configs[own:]
    return found


def test_what_was_stored_comes_back_and_nothing_else():
    rng, segments = np.random.default_rng(0), _core.Segments(1.0, 0)
    truth = np.full((500, 3), np.nan, np.float32)
    for _ in range(60):
        configs, segment = rng.permutation(500)[:7], int(rng.integers(3))
        truth[configs, segment] = scores = rng.normal(size=7).astype(np.float32)
        segments.store(4, 3, segment, configs, scores)
        found = stored(segments)[4]
        np.testing.assert_array_equal(list(found.values()), truth[list(found)])
    seen = ~np.isnan(truth).all(1)
    assert 200 < seen.sum() < 400 and list(found) == np.flatnonzero(seen).tolist()


def test_a_config_twice_in_a_slate_is_stored_once():
    segments = _core.Segments(1.0, 0)
    segments.store(0, 2, 1, np.array([5, 3, 5]), np.array([1, 2, 3], np.float32))
    assert {config: scores[1] for config, scores in stored(segments)[0].items()} == {3: 2, 5: 3}


def test_scores_of_no_segment_are_refused():
    segments, scores = _core.Segments(1.0, 0), np.zeros(2, np.float32)
    for wrong in (3, -1):
        with pytest.raises(IndexError, match="segment: expected 0..2"):
            segments.store(0, 3, wrong, ROWS, scores)
    with pytest.raises(tg.ShapeError, match="scores"):
        segments.store(0, 3, 1, ROWS, scores[:1])
    with pytest.raises(TypeError):
        segments.store(0, 3, None, ROWS, scores)
    assert segments.tensors() == {}


def drawn(segments, visits, count, rows, moved=None):
    return [segments.draw(0, visit, cut(count), rows, moved)[2:] for visit in range(visits)]


ROWS = np.array([5, 3])


def test_before_anything_is_stored_the_segment_stands_for_all():
    found = drawn(_core.Segments(1.0, 0), 400, 5, ROWS)
    assert all((scale == 5).all() and (shift == 0).all() for _, (scale, shift) in found)
    counts = np.bincount([segment for segment, _ in found])
    assert len(counts) == 5 and (abs(counts - 80) < 40).all()
    again = drawn(_core.Segments(1.0, 1), 400, 5, ROWS)
    assert [segment for segment, _ in again] != [segment for segment, _ in found]
    for visit, (segment, _) in enumerate(found[:50]):
        key = (0, Stream.SEGMENTS, visit, 0)
        assert segment == int(tg.kernels.sample_without_replacement(5, 1, key)[0])


def test_a_segment_counts_where_it_is_kept_and_all_configs_of_the_slate_are_known():
    segments = _core.Segments(1.0, 0)
    segments.store(0, 4, 1, np.array([3, 5, 7]), np.array([1, 2, 3], np.float32))
    segments.store(0, 4, 2, np.array([5]), np.array([40], np.float32))  # not of config 3
    segments.store(1, 4, 3, ROWS, np.array([500, 600], np.float32))  # of another graph
    for segment, (scale, shift) in drawn(segments, 50, 4, ROWS):
        known = segment != 1
        assert set(scale.tolist()) == {3 if known else 4}
        assert shift.tolist() == ([2, 1] if known else [0, 0])
    nothing = _core.Segments(0.0, 0)
    nothing.store(0, 4, 1, ROWS, np.zeros(2, np.float32))
    assert nothing.tensors() == {}


@pytest.mark.parametrize("keep", [0.1, 0.5, 0.9])
def test_coins_and_sums_are_those_of_the_reference(keep):
    rng, segments, table, least = np.random.default_rng(3), _core.Segments(keep, 11), {}, 9.0
    for visit in range(300):
        rows = rng.permutation(12)[:4]
        segment, (scale, shift) = segments.draw(0, visit, cut(9), rows)[2:]
        expected = reference_segments.others(table, rows, segment, 9, keep, (11, Stream.SEGMENTS, visit, 1))
        assert scale.tolist() == [expected[0]] * 4 and shift.tolist() == expected[1].tolist()
        scores = rng.normal(size=4).astype(np.float32)
        segments.store(0, 9, segment, rows, scores)
        for config, score in zip(rows.tolist(), scores, strict=True):
            table.setdefault(config, np.full(9, np.nan))[segment] = score
        least = min(least, scale[0])
    assert len(table) == 12 and least < 9


@pytest.mark.parametrize("keep", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("known", [0, 2, 5])
def test_the_expectation_is_the_score_of_the_graph(keep, known):
    """Where stored scores are fresh ones: over the segments drawn now and those that happened to be stored."""
    rng, truth = np.random.default_rng(1), np.array([[1, -2, 4, 8, -16], [3, 0, -5, 7, 9]], np.float32)
    total, draws, graph = np.zeros(2), 6000, cut(5)
    squares = np.zeros(2)
    for visit in range(draws):
        segments = _core.Segments(keep, 7)
        for other in rng.permutation(5)[:known]:
            segments.store(0, 5, int(other), ROWS, truth[:, other].copy())
        segment, (scale, shift) = segments.draw(0, visit, graph, ROWS)[2:]
        seen = scale * truth[:, segment] + shift
        total, squares = total + seen, squares + seen**2
    mean = total / draws
    error = np.sqrt((squares / draws - mean**2) / draws)
    assert (abs(mean - truth.sum(1)) <= 4 * error + 1e-4).all()
    if keep == 1 and known == 5:
        assert (error < 1e-4).all()  # nothing is left to chance
    elif keep == 0.5 or known < 5:
        assert (error > 0.05).all()


def test_a_callback_scales_and_shifts_the_score_of_the_graph():
    segments = _core.Segments(1.0, 0)
    segments.store(0, 2, 0, ROWS, np.array([10, 20], np.float32))
    segments.store(0, 2, 1, ROWS, np.array([30, 40], np.float32))
    for segment, (scale, shift) in drawn(segments, 9, 2, ROWS, (3, [1, 2])):
        assert scale.tolist() == [3, 3] and shift.tolist() == ([91, 122] if segment == 0 else [31, 62])
    assert drawn(segments, 2, 1, ROWS) == [(None, None)] * 2
    assert drawn(segments, 2, 1, ROWS, (3, 1)) == [(None, (3, 1))] * 2
    with pytest.raises(tg.ConfigError, match=r"shift: expected a number .* 2 configs .*, got \[1, 2, 3\]"):
        drawn(segments, 1, 2, ROWS, (1, [1, 2, 3]))


# ---- fits -------------------------------------------------------------------------------------------------


class Watch(Callback):
    """What a fit has stored after each step, and checks of it."""

    def __init__(self):
        self.scores = []

    def on_step(self, fit):
        (scores,) = fit.optimizer.scores
        (table,) = stored(fit.segments).values()
        self.scores.append((np.array(list(table.values())), scores))


def test_fresh_scores_are_stored_after_the_step_and_the_loss_sees_the_graph():
    graph, watch = GRAPHS[2], Watch()
    r = small_ranker(
        **FIELDS, steps=8, configs=100, segment_keep=1.0, loss="ranknet", dropout=0.0, dedup="none"
    )
    prepared = r.pipeline.fit([graph]).apply_measured(graph)
    before = [r.model.scores([slate])[0] for slate in prepared.slates(np.arange(graph.num_configs))]
    history = r.fit(graph, verbose=False, callbacks=[watch]).history_
    table, scores = watch.scores[0]
    (segment,) = np.flatnonzero(~np.isnan(table).all(0))
    assert sorted(table[:, segment]) == sorted(scores) and len(scores) == graph.num_configs
    np.testing.assert_allclose(table[:, segment], before[segment], rtol=1e-4, atol=1e-5)
    twin = small_ranker(**FIELDS, loss="ranknet", dropout=0.0, configs=100)
    whole = (float(prepared.num_segments), 0.0)
    slates = [(prepared, np.arange(graph.num_configs), int(segment), whole)]
    loss = Optimizer(twin.network).gradients(1, slates)
    assert history.loss[0] == pytest.approx(loss, rel=1e-5)
    later, _ = watch.scores[-1]
    assert 1 < (~np.isnan(later).any(0)).sum() <= prepared.num_segments


@pytest.mark.parametrize("fields", [{}, {"slates": 2, "lists": "batch"}, {"accumulate": 2, "close": 0.5}])
def test_in_one_segment_it_is_the_ordinary_fit(fields):
    results = []
    for segment in (0, 25, 1 << 30):
        r = small_ranker(steps=6, prune="none", segment=segment, **fields)
        history = r.fit(GRAPHS, [small_graph(7)], verbose=False).history_
        results.append([history.loss, history.valid_metric, state(r), r.predict(GRAPHS[0]).tobytes()])
    assert results[0] == results[1] == results[2]
    r = small_ranker(steps=6, prune="none", segment=24, **fields)  # the largest graph has 24 nodes: two
    assert r.fit(GRAPHS, verbose=False).history_.loss != results[0][0]


@pytest.mark.parametrize("recipe", ["first-layout-cross", "seventh-gst"])
@pytest.mark.parametrize("changes", [{}, {"slates": 2, "accumulate": 2}])
def test_a_fit_resumes_exactly_and_has_the_bits_of_any_number_of_threads(tmp_path, recipe, changes):
    def fit(folder, at=None, **more):
        r = small_ranker(
            recipe, **{**FIELDS, "steps": 20, "configs": 30, "loss": "list_mle", **changes, **more}
        )
        options = {"checkpoint_dir": folder, "checkpoint_every": 4, "verbose": False}
        return r, r.fit(
            Lazy(0, 1, 2, configs=20), [small_graph(3)], callbacks=[Break(at)], **options
        ).history_

    tg.set_num_threads(1)
    whole, history = fit(None)
    tg.set_num_threads(3)
    with pytest.raises(OSError, match="broken"):
        fit(tmp_path, 14)
    assert (tmp_path / CHECKPOINT).exists()
    for name, other in (("segment", 5), ("segment_keep", 0.25)):
        with pytest.raises(tg.CheckpointError, match=f"field {name}"):
            fit(tmp_path, **{name: other})
    again, resumed = fit(tmp_path)
    assert same(history, resumed) and state(whole) == state(again)
    assert fit(None, segment_keep=0.0)[1].loss != history.loss  # what is stored matters


def test_a_table_of_a_checkpoint_comes_back_or_is_refused():
    segments = _core.Segments(0.5, 3)
    for graph, count in ((4, 3), (2, 5)):
        for segment in range(count - 1):
            rows = np.arange(segment, 20, 1 + graph)
            segments.store(graph, count, segment, rows, rows.astype(np.float32) / 7)
    tensors, twin = segments.tensors(), _core.Segments(0.5, 3)
    twin.restore("file", tensors, 5)
    assert tensors.keys() == twin.tensors().keys() and stored(twin).keys() == {2, 4}
    for name, array in tensors.items():
        np.testing.assert_array_equal(array, twin.tensors()[name])
    changes = {
        "segments.sizes": [
            tensors["segments.sizes"] * -1, tensors["segments.sizes"] + 1, tensors["segments.sizes"][:1],
            np.ones(4, np.int64), tensors["segments.sizes"].astype(float), np.zeros((1, 3), np.int64),
            np.array([[0, 2**62, 2**62]]),
        ],
        "segments.configs": [tensors["segments.configs"][::-1], -tensors["segments.configs"], np.zeros(3, np.int64)],
        "segments.scores": [tensors["segments.scores"][1:], tensors["segments.scores"] + np.inf],
    }  # fmt: skip
    for name, values in changes.items():
        for value in values:
            with pytest.raises(tg.CheckpointError, match="segments"):
                _core.Segments(0.5, 3).restore("file", {**tensors, name: value}, 5)
    with pytest.raises(
        tg.CheckpointError,
        match="cut: segments.sizes: expected as many segments as the graph has, found 3 of 4",
    ):
        twin.draw(4, 1, cut(4), ROWS)


def test_several_seeds_share_the_segments():
    alone = [small_ranker(**FIELDS, seed=seed, steps=6) for seed in (0, 1)]
    for r in alone:
        r.fit(GRAPHS, verbose=False)
    fields = {**alone[0].get_params(), "epochs": None}
    fields = {
        name: value for name, value in fields.items() if name in vars(alone[0].fields) and value is not None
    }
    both = tg.train_seeds("first-layout-cross", GRAPHS, seeds=[0, 1], verbose=False, **fields)
    assert [state(run.ranker) for run in both.runs] == [state(r) for r in alone]


# ---- rankers ----------------------------------------------------------------------------------------------


WHOLE = [
    name for name in networks("layout") if hasattr(get_recipe(name).options, "prune")
]  # may be taken whole


@pytest.mark.parametrize("recipe", WHOLE)
def test_scores_are_sums_over_segments_also_of_loaded_rankers_and_given_configs(tmp_path, recipe):
    r = small_ranker(recipe, **FIELDS, steps=3)
    r.fit(GRAPHS[:2], verbose=False)
    graph, rows = GRAPHS[2], np.arange(GRAPHS[2].num_configs)
    found = r.network.prepare(graph)
    assert found.num_segments == 6 and {one.num_config_nodes for one in found.cuts} >= {0, 1}
    parts = [r.model.scores([slate])[0] for slate in found.slates(rows)]
    scores = r.predict(graph)
    np.testing.assert_allclose(scores, np.sum(parts, axis=0), rtol=1e-4, atol=1e-5)
    r.save(tmp_path / "r.safetensors")
    loaded = tg.load_ranker(tmp_path / "r.safetensors")
    assert (loaded.predict(graph) == scores).all() and loaded.fields.segment == 4
    assert (loaded.predict(graph, graph.config_digits) == scores).all()
    assert (copy.deepcopy(r).predict(graph) == scores).all()
    assert not loaded.network.pipeline.same_as(small_ranker(recipe, prune="none").network.pipeline)
    whole = loaded.model.scores([found.slate(rows)])[0]
    assert abs(whole - scores).max() > 1e-3 * abs(scores).max()


@pytest.mark.parity
@pytest.mark.filterwarnings("ignore")
def test_a_score_is_the_sum_of_what_pytorch_makes_of_the_segments():
    torch = pytest.importorskip("torch")
    pytest.importorskip("torch_geometric")
    from solutions import seventh

    r = small_ranker("seventh-gst", **FIELDS, steps=3)
    r.fit(GRAPHS[:2], verbose=False)
    graph, scores = GRAPHS[2], 0.0
    whole = r.network.prepare(graph).graph
    feat, opcode = torch.tensor(whole.node_feat).double(), torch.tensor(whole.node_opcode).long()
    digits = torch.tensor(graph.config_digits).long()
    w = {name: torch.tensor(view).double() for name, view in named(r.model).items()}
    where = np.asarray(graph.node_config_ids)
    for begin, end, edges, mine in reference.segments(len(feat), graph.edge_index, where, 4):
        g = {
            "node_feat": feat[begin:end],
            "node_opcode": opcode[begin:end],
            "edge_index": torch.tensor(edges),
        }
        g |= {"config_nodes": torch.tensor(where[mine] - begin), "digits": digits[:, mine]}
        scores += seventh.scores(w, g, r.fields).numpy()
    assert np.linalg.norm(r.predict(graph) - scores) <= 1e-4 * np.linalg.norm(scores)


def test_any_schema_is_cut_too():
    r = small_ranker("graph-config", segment=4, steps=4)
    r.fit([small_any(0), small_any(1)], verbose=False)
    found = r.network.prepare(small_any(2))
    assert [one.num_nodes for one in found.cuts] == [4, 4, 1]
    parts = [r.model.scores([slate])[0] for slate in found.slates(np.arange(48))]
    np.testing.assert_allclose(r.predict(small_any(2)), np.sum(parts, axis=0), rtol=1e-4, atol=1e-5)


def test_single_steps_and_adaptation_train_a_segment_that_stands_for_all():
    r = small_ranker(**FIELDS, steps=3, dropout=0.0)
    losses = [r.partial_fit(GRAPHS[0], range(20)) for _ in range(3)]
    assert np.isfinite(losses).all()
    adapted = r.adapt(GRAPHS[1], range(10), steps=3)
    assert state(adapted) != state(r) and np.isfinite(adapted.predict(GRAPHS[1])).all()


def test_it_learns():
    graph = small_graph(2, configs=80, nodes=20)
    r = small_ranker("seventh-gst", segment=6, steps=250, width=32)
    r.fit(graph, verbose=False)
    assert r.network.prepare(graph).num_segments == 4 and r.score(graph) > 0.4


def test_a_constant_factor_begins_at_a_column_that_there_is():
    step = {"op": "affine", "name": "a", "in": ["node_feat"], "out": "scores", "attrs": {"column": 3}}
    refuses(lambda: _core.Model([step], 0, node_features=3), tg.RecipeError, "column", "got 3")


def test_the_fields_are_declared():
    options = get_recipe("first-layout").describe()["options"]
    assert options["segment"]["default"]["cpu"] == 0 and options["segment_keep"]["default"]["cpu"] == 0.5
    assert get_recipe("seventh-gst").fields("full").segment == 1000
    for wrong in ({"segment": -1}, {"segment": 2.5}, {"segment_keep": 1.5}):
        with pytest.raises(tg.ConfigError, match=next(iter(wrong))):
            small_ranker(**wrong)
