"""Recipe graph-config on graphs of every shape: tables, programs with edges, digits, and what of them is refused."""

import json

import madeup
import numpy as np
import pytest
from rankers import Break, having, small_any, small_graph, small_tile, state
from refusals import refuses
from scipy.stats import norm, rankdata

import tpugraphs as tg
from tpugraphs import cli
from tpugraphs.data.schema import Column, Digit, Schema
from tpugraphs.preprocess.targets import targets
from tpugraphs.ranker.baselines import LinearBaseline

SMALL = {"width": 16, "steps": 4, "evaluate_every": 2}


def ranker(**fields):
    return tg.Ranker("graph-config", seed=5, **{**SMALL, **fields})


def fitted(train, **fields):
    r = ranker(**fields)
    r.fit(train, verbose=False)
    return r


def table(seed=0, configs=30, **changes):
    """Configs of a program that nothing is known of: N = 1, E = 0, no features."""
    rng = np.random.default_rng(seed)
    feat = np.stack(
        [2.0 ** rng.integers(0, 9, configs), rng.integers(1, 9, configs), rng.normal(size=configs)], 1
    )
    given = {
        "config_feat": feat,
        "runtime": 1 + (feat[:, 1] - 4) ** 2 + np.arange(configs) / 1e3,
        "name": f"t{seed}",
    }
    return tg.Graph(**{**given, **changes})


def digits(seed=0, D=5, values=4, nodes=6, edges=True, **changes):
    """A program whose nodes are configured."""
    rng = np.random.default_rng(seed)
    x = rng.integers(-1, values, (30, 2, D))
    given = {
        "node_feat": rng.normal(size=(nodes, 3)), "node_config_ids": [1, 4], "node_config_feat": x,
        "edge_index": [(i + 1, i) for i in range(nodes - 1)] if edges else None,
        "runtime": 5 + x[:, 0, 0] * 3 + x[:, 1].sum(-1) / 9 + np.arange(30) / 1e4 + D, "name": f"d{seed}",
    }  # fmt: skip
    return tg.Graph(**{**given, **changes})


def both(seed=0, **changes):
    """Configs of the whole program and of its nodes."""
    config = np.random.default_rng(seed).integers(1, 9, (30, 2)) * 1.0
    cost = 3 * (config[:, 0] - 4) ** 2
    return digits(seed, **{"config_feat": config, "runtime": digits(seed).runtime + cost, **changes})


def with_opcodes(seed=0, **changes):
    return digits(seed, node_opcode=np.arange(6) * 40, **changes)


SHAPES = {
    "table": table,
    "problems": lambda seed=0: table(seed, graph_feat=[float(seed + 1), 3.0]),
    "one column": lambda seed=0: table(seed, config_feat=np.arange(1, 31)[:, None]),
    "program": small_any,
    "edges without features": lambda seed=0: table(
        seed, node_feat=np.zeros((4, 0)), edge_index=[[1, 0], [2, 0]]
    ),
    "digits": digits,
    "one digit of two values": lambda seed=0: digits(seed, D=1, values=2),
    "64 digits of 32 values": lambda seed=0: digits(seed, D=64, values=32),
    "5 digits of 6 values": lambda seed=0: digits(seed, D=5, values=6),
    "digits, opcodes": with_opcodes,
    "digits, no edges": lambda seed=0: digits(seed, edges=False),
    "digits, problems": lambda seed=0: digits(seed, graph_feat=[float(seed)]),
    "runtimes are whole": lambda seed=0: table(seed, runtime=np.arange(30) % 7 + 2),
    "some failed": lambda seed=0: small_any(seed, valid=np.arange(48) % 3 > 0),
    "digits, some failed": lambda seed=0: digits(seed, valid=np.arange(30) % 3 > 0),
    "digits and features": both,
    "digits and features, no nodes told apart": lambda seed=0: both(seed, node_feat=np.zeros((6, 0))),
    "digits and features, problems": lambda seed=0: both(
        seed, graph_feat=[float(seed)], valid=np.arange(30) % 3 > 0
    ),
    "repeats": lambda seed=0: table(seed, repeats=np.full((30, 4), 2.0)),
    "published layout": small_graph,
    "published tile": small_tile,
}


@pytest.mark.parametrize("shape", SHAPES)
def test_it_learns_from_every_shape(shape):
    make = SHAPES[shape]
    train, other = [make(0), make(1)], make(2)
    r = ranker(steps=250, learning_rate=1e-2)
    history = r.fit(train, verbose=False).history_
    assert np.mean(history.loss[-5:]) < 0.8 * np.mean(history.loss[:5])
    scores = r.predict(other)
    assert scores.shape == (other.num_configs,) and np.isfinite(scores).all() and np.ptp(scores) > 0
    report = r.evaluate([*train, other])
    assert report.rows[0].configs == len(getattr(train[0], "ran", scores))
    some = range(8) if getattr(other, "valid", None) is None else other.ran[:8]
    assert np.isfinite(r.partial_fit(other, some))


@pytest.mark.parametrize("shape", SHAPES)
def test_files_threads_and_configs_given_as_arrays_keep_bits(shape, tmp_path):
    make, found = SHAPES[shape], []
    for count in (1, 3):
        tg.set_num_threads(count)
        r = fitted([make(0), make(1)], dropout=0.3)
        found.append([*state(r), r.predict(make(2)).tobytes()])
    assert found[0] == found[1]
    r.save(tmp_path / "r.safetensors")
    again, other = tg.Ranker.load(tmp_path / "r.safetensors"), make(2)
    expected = r.predict(other)
    assert again.predict(other).tobytes() == expected.tobytes()
    arrays = [
        array[3:9]
        for array in (getattr(other, "config_feat", None), other._digits.get())
        if array is not None and array.shape[-1]
    ]
    lists = [array.astype(np.float64).tolist() for array in arrays]
    for one in (r, again):
        for configs in (tuple(arrays), lists) if len(arrays) == 2 else (arrays[0], lists[0]):
            assert one.predict(make(2), configs).tobytes() == r.predict(other, range(3, 9)).tobytes()
    assert again.pipeline.schema == r.pipeline.schema


@pytest.mark.parametrize("ending", ["npz", "tgpack"])
def test_configs_with_digits_and_features(ending, tmp_path):
    """Both are read, stored, merged and hashed; a graph that lacks one of them is another schema's."""
    g = both()
    g.save(tmp_path / f"g.{ending}")
    stored = tg.load(tmp_path / f"g.{ending}")
    assert stored.schema == g.schema and stored.num_configs == 30
    for name in ("config_feat", "config_digits", "node_config_ids"):
        assert np.array_equal(getattr(stored, name), getattr(g, name))
    r = fitted([stored, both(1)], steps=250)
    assert state(r) == state(fitted([g, both(1)], steps=250)) and r.predict(stored).shape == (30,)
    assert tg.metrics.kendall_tau(r.predict(g), g.runtime) > 0.8
    for name in ("config_feat", "node_config_feat"):  # neither is left aside
        level = np.array(getattr(g, name))
        level[:] = level[:1]
        assert not np.array_equal(r.predict(g.replace(**{name: level}, schema=g.schema)), r.predict(g))
    for other in (digits(), table(config_feat=g.config_feat)):
        with pytest.raises(tg.DataError, match=r"graph '.0': "):
            r.predict(other)


def test_equal_configs_agree_in_digits_and_features():
    g = both().select([0, 1, 0, 2, 1])
    feat = np.array(g.config_feat)
    feat[2, 1] += 1  # the same digits, other features
    g = g.replace(config_feat=feat)
    first, inverse = g.distinct_configs()
    assert first.tolist() == [0, 1, 2, 3] and inverse.tolist() == [0, 1, 2, 3, 1]
    assert tg.dedup(g).num_configs == 4 and ranker(dedup="first").fit(g, verbose=False).history_.loss


def test_configs_given_as_features_and_digits():
    g = both()
    r = fitted([g], steps=2)
    feat, cells = g.config_feat[:4], g.config_digits[:4]
    for wrong in (feat, cells, (feat, cells[:3]), (feat[:, :1], cells), (feat, cells[:, :1]), [feat, feat]):
        refuses(lambda: r.predict(g, wrong), tg.DataError, "configs")
    assert r.predict(g, [2, 5]).shape == (2,)  # rows
    refuses(lambda: g.replace(config_feat=feat), tg.DataError, "30 configs", "node_config_feat")
    refuses(lambda: LinearBaseline().fit(g), tg.ConfigError, "digits", "graph-config")


def test_trees_read_digits_and_features():
    pytest.importorskip("lightgbm")
    trees = tg.Ranker(recipe="eighth-lightgbm", steps=3, min_data_in_leaf=2)
    trees.fit([both()], verbose=False)
    assert trees.estimator.trees[0].width == 1 + 4 * 3 + 2 + 2 * 5 and trees.predict(both()).shape == (30,)


@pytest.mark.parametrize("shape", ["table", "program", "digits, some failed", "digits and features"])
def test_a_fit_goes_on_where_it_stopped(shape, tmp_path):
    make = SHAPES[shape]
    train, options = [make(0), make(1)], {"checkpoint_dir": tmp_path, "checkpoint_every": 1, "verbose": False}
    straight = ranker()
    straight.fit(train, make(2), callbacks=[Break()], verbose=False)
    with pytest.raises(OSError, match="broken"):
        ranker().fit(train, make(2), callbacks=[Break(3)], **options)
    resumed = ranker()
    resumed.fit(train, make(2), callbacks=[Break()], **options)
    assert state(straight) == state(resumed)
    with pytest.raises(tg.CheckpointError, match="train"):
        ranker().fit([make(0), make(3)], make(2), callbacks=[Break()], **options)


# ---- schemas --------------------------------------------------------------------------------------------


def measured(**change):
    rows = {
        "gpu": ["A", "A", "A", "B", "B", "B"], "block": [16, 32, 64, 16, 32, 256],
        "order": ["xy", "yx", "xy", "xy", "yx", "xy"], "fast": [True, False, True, False, True, True],
        "ms": [2.0, 1.5, 3.0, 2.5, 3.5, 1.0],
    }  # fmt: skip
    return {**rows, **change}


FRAME = {"group": ["gpu"], "features": ["gpu"], "config": ["block", "order", "fast"], "runtime": "ms"}


def test_a_table_of_measurements():
    a, b = tg.from_frame(measured(), **FRAME)
    r = fitted([a, b])
    new = tg.from_frame(measured(), schema=a.schema, **FRAME)
    assert r.predict(new[1]).tobytes() == r.predict(b).tobytes()
    assert r.pipeline.sizes.graph == 2
    assert r.pipeline.sizes.config == 1 + 2 + 1 + 3  # log2 and exponent of block, exponent of the product
    assert r.predict(b, b.config_feat[:1]).tobytes() == r.predict(b, [0]).tobytes()


def test_graphs_of_another_schema_are_refused():
    a, b = tg.from_frame(measured(), **FRAME)
    r = fitted([a, b])
    for change, words in (
        ({"config": ["block", "fast", "order"]}, "config column 1: expected 'order', found 'fast'"),
        ({"config": ["block", "order"]}, "config column 2: expected 'fast', found only 2"),
        ({"kinds": {"block": "number"}}, "config column 0: 'block' is a log column, found a number column"),
        ({"features": []}, "graph column 0: expected 'gpu', found only 0"),
    ):
        for use in (r.predict, r.rank, r.evaluate, lambda g: r.partial_fit(g, [0, 1]),
                    lambda g: fitted([a, g])):  # fmt: skip
            with pytest.raises(tg.DataError, match="schema") as caught:
                use(tg.from_frame(measured(), **{**FRAME, **change})[0])
            assert "graph 'gpu=A'" in str(caught.value) and words in str(caught.value)
            assert caught.value.field == "schema"
    refuses(lambda: r.predict(a, a.config_feat[:, :2]), tg.DataError, "configs")


def test_runtimes_of_two_units_are_not_mixed():
    unit = [Schema.infer(config_feat=np.zeros((1, 3)), unit=unit) for unit in ("ms", "us")]
    train = [table(i, schema=schema) for i, schema in enumerate(unit)]
    refuses(lambda: fitted(train), tg.DataError, "'t1'", "unit", "us")
    r = fitted(train[0])
    assert r.predict(train[1]).shape == (30,)  # whose runtimes are not read


def test_given_and_inferred_schemas_in_one_fit():
    schema = Schema(config=(Column("a"), Column("b"), Column("c")))
    given, bare = table(0, schema=schema), table(1)
    assert fitted([given, bare]).schema is schema
    refuses(lambda: fitted([bare, given]), tg.DataError, "t0", "schema")


def test_the_schema_of_a_ranker(tmp_path):
    assert ranker().schema is None
    r = fitted(tg.from_frame(measured(), **FRAME))
    r.save(tmp_path / "r.safetensors")
    loaded = tg.Ranker.load(tmp_path / "r.safetensors")
    assert loaded.schema == r.schema == tg.from_frame(measured(), **FRAME)[0].schema
    again = tg.from_frame(measured(), **FRAME, schema=loaded.schema)
    assert loaded.predict(again[0]).tobytes() == r.predict(again[0]).tobytes()


@pytest.mark.parametrize("kind", ["number", "flag"])
def test_one_column_of_nodes_is_read(kind):
    """Graphs without edges and opcodes, which differ in nothing but the one feature of their nodes."""
    schema = Schema(node=(Column("n", kind),), config=(Column("x"),))
    configs = np.arange(16.0)[:, None]
    a, b = (
        tg.Graph(node_feat=[[n], [0]], config_feat=configs, runtime=times, schema=schema, name=f"n{n}")
        for n, times in ((0, np.arange(1, 17)), (1, np.arange(16, 0, -1)))
    )
    r = fitted([a, b], steps=200)
    assert [step["op"] for step in r.steps].count("pool") == 1
    for graph in (a, b):
        assert r.evaluate(graph).rows[0].values["tau"] > 0.5  # of one order for both, one is negative
    plain = fitted(table(node_feat=np.zeros((3, 0))))
    assert not plain.pipeline.sizes.described and "pool" not in [step["op"] for step in plain.steps]


def test_categories_that_training_did_not_have():
    gpu = Column("gpu", "category", ("A", "B", "C"))
    schema = Schema(graph=(gpu,), config=(Column("x"), Column("order", "category", ("p", "q", "r"))))

    def graph(seed, gpu, orders):
        feat = np.stack([np.arange(12), np.arange(12) % orders], 1)
        return table(seed, config_feat=feat, runtime=np.arange(12) + 1, graph_feat=[gpu], schema=schema)

    train = [graph(0, 0, 2), graph(1, 1, 2)]
    r, zero = fitted(train), fitted(train, unknown="zero")
    with pytest.raises(tg.DataError, match="t2: config_feat: expected a value that was seen in training, found 'r' in "
                       "column 'order', row 2") as caught:  # fmt: skip
        r.predict(graph(2, 0, 3))
    assert caught.value.field == "config_feat"
    refuses(lambda: r.predict(graph(2, 2, 2)), tg.DataError, "t2", "graph_feat", "'C'", "'gpu'")
    refuses(lambda: r.predict(train[0], np.array([[1.0, 0.0], [2.0, 2.0]])), tg.DataError, "row 1")
    for new in (graph(2, 0, 3), graph(2, 2, 2)):
        assert np.isfinite(zero.predict(new)).all()


def test_inferred_schemas_widen_to_all_training_graphs():
    train = [digits(0, values=2), digits(1, values=5), digits(2)]
    r = fitted(train)
    assert r.pipeline.sizes.digits == (5, 7) and {d.values for d in r.pipeline.schema.digits} == {5}
    assert r.predict(train[0]).shape == r.predict(digits(3, values=3)).shape
    refuses(lambda: r.predict(digits(4, values=9)), tg.DataError, "'d4'", "'digit_0'", "found 9")
    with pytest.raises(tg.DataError, match="configs.*5 at config 1, node 0"):
        r.predict(train[0], np.array([[[1] * 5] * 2, [[5] * 5] * 2]))
    refuses(lambda: r.predict(train[0], np.full((2, 2, 5), 0.5)), tg.DataError, "whole numbers")
    refuses(lambda: r.predict(train[0], np.zeros((2, 2, 4), np.int8)), tg.DataError, "(n, 2, 5)")
    opcodes = fitted([with_opcodes(0), digits(1, node_opcode=np.arange(6))])
    assert opcodes.pipeline.schema.opcodes == 201
    with pytest.raises(tg.DataError, match="'d2'.*opcodes.*202"):
        opcodes.predict(digits(2, node_opcode=[201, 0, 0, 0, 0, 0]))
    refuses(lambda: opcodes.predict(digits(2)), tg.DataError, "opcodes", "none")


def test_digits_of_different_sizes():
    schema = Schema(node=tuple(Column(f"n{i}") for i in range(3)), digits=(Digit("a", 2), Digit("b", 6)))
    x = np.stack([np.arange(30) % 3 - 1, np.arange(30) % 7 - 1], -1)[:, None].repeat(2, 1)
    graph = digits(D=2, node_config_feat=x, schema=schema)
    r = fitted(graph)
    with pytest.raises(tg.DataError, match="2 at config 0, node 1, column 0"):
        r.predict(graph, np.array([[[1, 5], [2, 5]]]))


# ---- what was measured ----------------------------------------------------------------------------------


def test_configs_that_failed_are_not_learnt_from():
    whole = table()
    valid = np.arange(30) % 3 > 0
    nan, zero = (
        table(valid=valid, runtime=np.where(valid, whole.runtime, placeholder))
        for placeholder in (np.nan, 0.0)
    )
    some = fitted(nan)
    assert state(some) == state(fitted(zero)) and some.predict(nan).shape == (30,)
    value = some.partial_fit(nan, nan.ran[:9])
    assert np.isfinite(value)
    other = fitted(zero)
    assert other.partial_fit(zero, zero.ran[:9]) == value and state(other) == state(some)
    with pytest.raises(tg.DataError, match="found config 0, which failed") as caught:
        some.partial_fit(nan, range(9))
    assert caught.value.field == "configs"
    assert state(some.adapt(nan, steps=2)) == state(some.adapt(nan, nan.ran, steps=2))
    refuses(lambda: some.adapt(nan, range(9)), tg.DataError, "config 0", "failed")
    assert some.evaluate(nan).rows[0].configs == 20
    refuses(lambda: some.evaluate(nan, configs=[0, 1]), tg.DataError, "config 0", "failed")
    assert ranker().fit(nan, 0.4, verbose=False).history_.best_metric is not None
    refuses(lambda: table(valid=np.zeros(30, bool)), tg.DataError, "30")


def test_graphs_that_nothing_can_be_learnt_from():
    with pytest.warns(UserWarning, match="left out of the fit"):
        history = (
            ranker()
            .fit([table(), table(1, valid=np.arange(30) == 4), table(2, runtime=None)], verbose=False)
            .history_
        )
    assert [*history.skipped] == ["t1", "t2"]
    for graph, words in (
        (table(runtime=np.ones(30)), "found 30 equal runtimes"),
        (table(runtime=None), "expected measured runtimes"),
        (table(valid=np.arange(30) == 4), "only one config that ran"),
        (table(valid=np.arange(30) == 4).select([1, 2]), "all 2 configs failed"),
        (tg.Graph(node_feat=np.zeros((3, 1))), "features of configs or configurable nodes"),
        (table(config_feat=np.zeros((30, 0))), "features of configs or configurable nodes"),
    ):
        refuses(lambda: fitted(graph), tg.DataError, words)
        refuses(lambda: ranker().partial_fit(graph, [0, 1]), tg.DataError, words)
    refuses(
        lambda: fitted(table()).predict(tg.Graph(node_feat=np.zeros((3, 1)))), tg.DataError, "nothing to rank"
    )


@pytest.mark.parametrize("keep, expected", [("first", [4, 2]), ("min", [1, 2]), ("mean", [2.5, 2])])
@pytest.mark.parametrize("kind", [float, int])
def test_equal_configs_are_merged(keep, expected, kind):
    times = np.array([4, 2, 1], kind)
    for graph in (
        table(config_feat=[[1], [2], [1]], runtime=times),
        digits(node_config_feat=np.array([1, 2, 1])[:, None, None].repeat(2, 1), runtime=times),
    ):
        r = fitted(graph, dedup=keep)
        prepared = r.pipeline.apply_measured(graph)
        assert prepared.times.tolist() == expected
        assert tg.dedup(graph, keep).runtime.tolist() == expected


def test_runtimes_are_not_touched_before_a_metric_reads_them():
    """On the way of a prediction nothing is computed from them."""
    valid = np.arange(30) % 3 > 0
    graph, pipeline = table(valid=valid), ranker().pipeline
    pipeline.fit([table()])
    prepared = pipeline.apply(graph)
    assert prepared.measured is graph.runtime
    assert np.array_equal(np.isnan(prepared.times), ~valid)
    assert np.array_equal(prepared.times[valid], graph.runtime[valid])


@pytest.mark.parametrize("target", ["percentile", "normal-score", "log-runtime", "runtime"])
def test_targets_of_configs_that_failed_are_nan(target):
    times = np.array([3.0, np.nan, 1, 2, 2, np.nan])
    ran = ~np.isnan(times)
    found = targets(times, target)
    np.testing.assert_array_equal(found[ran], targets(times[ran], target))
    assert np.isnan(found[~ran]).all() and times[0] == 3


def test_normal_scores():
    times = np.random.default_rng(0).integers(1, 40, 100)
    expected = norm.ppf((rankdata(times) - 0.5) / 100)
    np.testing.assert_allclose(targets(times, "normal-score"), expected, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(targets([7.5], "normal-score"), [0], atol=1e-15)


# ---- together with the rest -----------------------------------------------------------------------------


def test_rankers_of_digits_of_other_sizes_in_one_ensemble():
    """Without node features nothing but the schema tells their preprocessing apart."""
    train = [digits(0, D=2, values=n, node_feat=np.zeros((6, 0))) for n in (3, 9)]
    few, many = (fitted(graph) for graph in train)
    assert not few.pipeline.same_as(many.pipeline) and few.pipeline.same_as(fitted(train[0]).pipeline)
    scores = tg.Ensemble([many, few]).predict(train[0])
    assert scores.shape == (30,)


@pytest.mark.parametrize("shape", ["digits", "published tile"])
def test_a_checkpoint_knows_what_was_measured(shape, tmp_path):
    graph = SHAPES[shape]()
    other = (
        graph.replace(node_config_ids=[1, 5])
        if shape == "digits"
        else graph.replace(config_runtime_normalizers=graph.config_runtime_normalizers + 1)
    )
    ranker().fit(graph, checkpoint_dir=tmp_path, verbose=False)
    refuses(lambda: ranker().fit(other, checkpoint_dir=tmp_path, verbose=False), tg.CheckpointError, "graphs")


def test_losses_seeds_and_ensembles(tmp_path):
    train, other = [small_any(0), small_any(1)], small_any(2)
    for loss in ("pairwise_hinge", "list_mle", [{"loss": "mse"}, {"loss": "pairwise_hinge", "weight": 0.5}]):
        assert np.isfinite(fitted(train, loss=loss).predict(other)).all()
    runs = tg.train_seeds("graph-config", train, other, seeds=2, verbose=False, **SMALL)
    alone = tg.Ranker("graph-config", seed=1, **SMALL)
    alone.fit(train, other, verbose=False)
    assert runs.rankers[1].predict(other).tobytes() == alone.predict(other).tobytes()
    ensemble = tg.Ensemble(runs.rankers)
    ensemble.save(tmp_path / "e.safetensors")
    assert (
        tg.Ensemble.load(tmp_path / "e.safetensors").predict(other).tobytes()
        == ensemble.predict(other).tobytes()
    )
    assert len(tg.leave_out(ranker(), [*train, other]).rows) == 3


def test_the_first_layer_starts_with_variance_one():
    r = ranker(width=512)
    r.pipeline.fit([table()])
    weights, bias = r.parameters["hidden0.weight"], r.parameters["hidden0.bias"]
    columns = weights.shape[1]
    assert abs(weights.var() * columns - 1) < 0.05 and np.abs(weights).max() <= np.sqrt(3 / columns)
    assert np.abs(bias).max() <= np.sqrt(1 / columns) < np.abs(weights).max()


def test_a_model_is_not_known_before_the_schema():
    r = ranker()
    assert repr(r).endswith("not fitted>") and "parameters" not in repr(r)
    with pytest.raises(tg.Error, match="follows from the graphs: call fit"):
        _ = r.num_parameters
    r.fit(table(), verbose=False)
    assert f"{r.num_parameters:,} parameters, fitted" in repr(r) and "noise" in {s["op"] for s in r.steps}
    with pytest.raises(tg.DataError):
        r.fit(table(runtime=None), verbose=False)
    assert r.fitted and r.predict(table()).shape == (30,)


@pytest.mark.parametrize("shape", ["table", "program", "digits, opcodes"])
def test_the_command_line(shape, tmp_path, capsys):
    make = SHAPES[shape]
    for seed in range(3):
        make(seed).save(tmp_path / f"g{seed}.npz")
    make(3).save(tmp_path / "g3.tgpack")
    data, out = [str(tmp_path / f"g{seed}.npz") for seed in range(3)], str(tmp_path / "r.safetensors")
    small = [
        word
        for name, value in having("graph-config", **SMALL).items()
        for word in ("--set", f"{name}={value}")
    ]

    def run(*argv):
        code = cli.main([*argv, "--json"])
        text = capsys.readouterr()
        assert code == 0, text.err
        return json.loads(text.out)

    told = run("train", "--recipe", "graph-config", "--data", *data, "--valid", "0.3", "--out", out, *small)
    r = tg.Ranker.load(out)
    assert told["parameters"] == r.num_parameters
    assert run("evaluate", out, *data)
    (scores,) = run("predict", out, str(tmp_path / "g3.tgpack"))
    np.testing.assert_array_equal(np.array(scores["scores"], np.float32), r.predict(make(3)))
    assert cli.main(["predict", out, madeup.path("kernel_00")]) != 0
    assert "does not fit the schema" in capsys.readouterr().err
