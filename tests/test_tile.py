"""Tile graphs from file to report: rankers, checkpoints, commands, leaving kernels out."""

import json

import madeup
import numpy as np
import pytest
from rankers import small_tile
from reference import losses
from refusals import refuses

import tpugraphs as tg
from tpugraphs import cli
from tpugraphs.evaluation import evaluate
from tpugraphs.training.optimizer import Optimizer

SMALL = {"width": 16, "gate_reduction": 4, "learning_rate": 3e-3, "evaluate_every": 10}
SETS = [part for name, value in SMALL.items() for part in ("--set", f"{name}={value}")]


@pytest.fixture(scope="module")
def kernels():
    return [madeup.graph(name) for name in madeup.KERNELS]


@pytest.fixture(scope="module")
def ranker(kernels):
    r = tg.Ranker("first-tile", steps=40, **SMALL)
    with pytest.warns(UserWarning, match="left out of the fit"):
        r.fit(kernels[2:], kernels[:2], verbose=False)
    return r


def times(graph):
    return graph.config_runtime / graph.config_runtime_normalizers


def test_losses_over_a_batch_compare_normalised_times_across_kernels(kernels):
    """As the fifth place trains: runtimes over normalizers, times the mean normalizer of the kernel, in float32."""
    chosen = kernels[2:5]
    r = tg.Ranker("fifth-tile", width=8, opcode_columns=4, token_columns=4, hidden=4, drop_edge=0.0)
    prepared = [r.pipeline.fit(chosen).apply_measured(g) for g in chosen]
    rows = [np.arange(one.num_configs) for one in prepared]
    made = [one.measured / (one.normalizers / one.normalizers.mean()) / 1e6 for one in prepared]
    made = np.concatenate(made).astype(np.float32)
    order = np.concatenate([one.across for one in prepared])
    assert (np.sign(made[:, None] - made) == np.sign(order[:, None] - order)).all()
    ranks = np.concatenate([one.runtimes for one in prepared])
    assert (np.sign(ranks[:, None] - ranks) != np.sign(order[:, None] - order)).any()
    scores = np.concatenate([r.network.score_rows(*one) for one in zip(prepared, rows, strict=True)])
    parts = np.split(np.arange(len(scores)), np.cumsum([len(one) for one in rows])[:-1])
    apart = np.mean([losses.pairwise_hinge(scores[at], made[at], 0.1)[0] for at in parts])
    expected = 0.5 * apart + 0.5 * losses.pairwise_hinge(scores, made, 0.1)[0]
    got = Optimizer(r.network).gradients(1, list(zip(prepared, rows, strict=True)))
    assert got == pytest.approx(expected, rel=1e-5)


def test_a_fit_ranks_and_tells(kernels, ranker):
    assert ranker.kind == "tile" and ranker.metric == ranker.history_.metric == "top5"
    best = np.mean([tg.metrics.tile_score(ranker.predict(g), times(g)) for g in kernels[:2]])
    assert ranker.history_.best_metric == pytest.approx(best, abs=1e-12)
    assert set(ranker.history_.skipped) == set(madeup.CONSTANT)
    assert "top5" in repr(ranker.history_)
    report = ranker.evaluate(kernels[2:8])
    assert report.mean("opa") > 0.6
    for graph in kernels:
        order = ranker.rank(graph)
        assert (np.sort(order) == np.arange(graph.num_configs)).all()


def test_the_order_that_is_learnt_is_that_of_normalised_runtimes():
    g = small_tile(configs=120)
    assert abs(tg.metrics.kendall_tau(times(g), g.config_runtime)) < 0.3
    r = tg.Ranker("first-tile", steps=150, **SMALL)
    r.fit(g, verbose=False)
    assert tg.metrics.kendall_tau(r.predict(g), times(g)) > 0.7
    prepared = r.pipeline.apply_measured(g)
    assert (np.argsort(prepared.runtimes) == np.argsort(times(g))).all()


def test_mean_of_the_predicted_best(kernels):
    y = times(kernels[1])
    assert tg.metrics.top_mean_score(y, y) == 1.0
    assert tg.metrics.top_mean_score(-y, y, 579) == 1.0
    s = np.random.default_rng(0).permutation(y.size)
    expected = 2 - y[np.argsort(s)[:50]].mean() / np.sort(y)[:50].mean()
    assert tg.metrics.top_mean_score(s, y) == pytest.approx(expected, rel=1e-12)
    r = tg.Ranker("first-tile", preset="full", steps=2, **SMALL)
    assert r.metric == "mean50" and r.fit(kernels[1], kernels[1], verbose=False).history_.best_metric < 1


@pytest.mark.filterwarnings("ignore:.* left out of the fit")
def test_files_checkpoints_and_threads_keep_bits(kernels, ranker, tmp_path):
    ranker.save(tmp_path / "r.safetensors")
    loaded = tg.Ranker.load(tmp_path / "r.safetensors")
    assert loaded.kind == "tile"
    for graph in kernels[:3]:
        assert loaded.predict(graph).tobytes() == ranker.predict(graph).tobytes()

    class Stop(tg.training.Callback):
        def on_step(self, fit):
            if fit.step == self.at:
                raise RuntimeError

    results = []
    for threads, stops in ((1, False), (2, True)):
        tg.set_num_threads(threads)
        r = tg.Ranker("first-tile", seed=3, steps=12, slates=2, **SMALL)
        stop = Stop()
        stop.at = 7 if stops else -1
        args = {"valid": kernels[1], "checkpoint_dir": tmp_path / str(threads), "checkpoint_every": 3}
        try:
            r.fit(kernels, callbacks=[stop], verbose=False, **args)
        except RuntimeError:
            stop.at = -1
            r.fit(kernels, callbacks=[stop], verbose=False, **args)
        results.append(r.predict(kernels[0]).tobytes())
    assert results[0] == results[1]
    changed = [kernels[0].replace(config_feat=kernels[0].config_feat + 1), *kernels[1:]]
    refuses(lambda: r.fit(changed, callbacks=[stop], verbose=False, **args), tg.CheckpointError, "train")


@pytest.mark.filterwarnings("ignore:.* left out of the fit")
def test_configs_can_be_rows_or_given_as_such(kernels, ranker):
    g = kernels[0]
    everything = ranker.predict(g)
    np.testing.assert_allclose(ranker.predict(g, [5, 3, 3]), everything[[5, 3, 3]], rtol=1e-5, atol=1e-6)
    given = ranker.predict(g, g.config_feat[[5, 3, 3]])
    np.testing.assert_allclose(given, everything[[5, 3, 3]], rtol=1e-5, atol=1e-6)
    chunked = tg.Ranker(**{**ranker.get_params(), "chunk": 7})
    chunked.fit(kernels[2:], kernels[:2], verbose=False)
    np.testing.assert_allclose(chunked.predict(g), everything, rtol=1e-5, atol=1e-6)
    for bad in (g.config_feat[:, :23], g.config_feat[:2] * np.nan, np.zeros((1, 2, 18), np.int8)):
        refuses(lambda: ranker.predict(g, bad), tg.DataError, "configs")
    assert ranker.predict(g, []).shape == (0,)


def test_graphs_of_the_other_kind_are_refused(kernels, ranker):
    layout = madeup.graph("long").select(slice(0, 60))
    refuses(lambda: ranker.predict(layout), tg.DataError, "tile configs", "a LayoutGraph")
    refuses(lambda: tg.Ranker().fit(kernels[0]), tg.DataError, "layout configs", "a TileGraph")
    r = tg.Ranker("first-tile", steps=2, **SMALL)
    with pytest.raises(tg.DataError, match="train: long.*TileGraph.*LayoutGraph"):
        r.fit([kernels[0], layout], verbose=False)
    with pytest.raises(tg.DataError, match="found 40 equal normalised runtimes"):
        g = small_tile()
        r.fit(g.replace(config_runtime=g.config_runtime_normalizers * 3), verbose=False)
    with pytest.raises(tg.DataError, match="placeholders"):
        r.fit(small_tile(config_runtime=np.zeros(40, np.int64)), verbose=False)
    test = small_tile(
        config_runtime=np.zeros(40, np.int64), config_runtime_normalizers=np.zeros(40, np.int64)
    )
    assert ranker.predict(test).shape == (40,)  # a test file


def test_partial_fit_and_unusual_columns(kernels):
    r = tg.Ranker("first-tile", **SMALL)
    before = r.partial_fit(kernels[0], np.arange(40))
    for _ in range(30):
        after = r.partial_fit(kernels[0], np.arange(40))
    assert after < before
    g = kernels[0]
    never = np.flatnonzero((g.config_feat == g.config_feat[0]).all(0))  # constant in training: tells nothing
    changed = g.config_feat.copy()
    changed[:, never] += 1e6
    assert never.size and (r.predict(g, changed) == r.predict(g)).all()


def test_log_of_configs_is_part_of_the_file(kernels, tmp_path):
    r = tg.Ranker("first-tile", steps=2, config_scale="log", **SMALL)
    r.fit([kernels[1], kernels[3]], verbose=False)
    r.save(tmp_path / "r.safetensors")
    loaded = tg.Ranker.load(tmp_path / "r.safetensors")
    assert loaded.pipeline.steps[-1]["scale"] == "log"
    assert loaded.predict(kernels[1]).tobytes() == r.predict(kernels[1]).tobytes()


# ---- reports --------------------------------------------------------------------------------------------


def test_trivially_perfect_graphs_are_marked_and_not_in_the_mean(kernels):
    report = evaluate(lambda g: -times(g), kernels)  # the worst order
    (group,) = report.groups
    few = {k: sum(g.num_configs <= k for g in kernels) for k in (1, 5, 10)}
    assert (
        group.left_out
        == {"slowdown@5": few[5], "slowdown@10": few[10]}
        == {"slowdown@5": 7, "slowdown@10": 8}
    )
    worst = [tg.metrics.top_k_slowdown(-times(g), times(g), 5) for g in kernels if g.num_configs > 5]
    assert group.values["slowdown@5"] == pytest.approx(np.mean(worst)) and group.graphs == 15
    assert report.table().count("0.00%*") == 15 and "left out of the mean" in report.table()
    assert report.to_dict()["collections"][0]["left_out"] == group.left_out
    eight = report.at_least(6)
    assert len(eight) == 8 and eight.groups[0].values["slowdown@5"] == group.values["slowdown@5"]
    alone = evaluate(times, kernels[-1])
    assert set(alone.groups[0].values) == {"slowdown@1", "opa"}
    refuses(lambda: report.at_least(600), tg.ConfigError, "600 configs")


def test_leave_out_ranks_each_by_all_others(kernels):
    some, r = kernels[:4], tg.Ranker("first-tile", steps=15, **SMALL)
    report = tg.leave_out(r, some, beside={"truth": times}, verbose=False)
    assert [(row.graph, row.scorer) for row in report.rows] == [
        (g.name, who) for g in some for who in ("first-tile", "truth")
    ]
    other = tg.Ranker("first-tile", steps=15, **SMALL)
    other.fit([*some[:2], some[3]], verbose=False)
    assert report.rows[4].scores.tobytes() == other.predict(some[2]).tobytes()
    assert not r.fitted
    halves = tg.leave_out(r, some, groups=["a", "b", "a", "b"], verbose=False)
    other.fit([some[1], some[3]], verbose=False)
    assert halves.rows[2].scores.tobytes() == other.predict(some[2]).tobytes()
    for wrong in ({"graphs": some[:1]}, {"graphs": some, "groups": [1, 2]}):
        with pytest.raises(tg.ConfigError):
            tg.leave_out(r, **wrong, verbose=False)
    with pytest.raises(tg.ConfigError, match="graphs: expected a graph, got int; use tg.load"):
        tg.leave_out(r, [*some[:2], 3], verbose=False)
    with pytest.raises(tg.DataError):  # nothing to learn from in what is left
        tg.leave_out(r, [kernels[0], kernels[-1]], verbose=False)


# ---- commands -------------------------------------------------------------------------------------------


def run(capsys, *argv):
    code = cli.main([str(arg) for arg in argv])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_commands(capsys, tmp_path):
    out, data = tmp_path / "tile.safetensors", [madeup.path(name) for name in madeup.KERNELS]
    code, text, err = run(
        capsys, "train", "--recipe", "first-tile", "--data", *data, "--steps", 12, *SETS, "--out", out
    )
    assert code == 0 and "best validation top5" in text and "12 of 12: top5" in err
    code, text, _ = run(capsys, "predict", out, madeup.path("kernel_00"), "--json")
    assert code == 0 and len(json.loads(text)[0]["scores"]) == 61
    code, text, _ = run(capsys, "evaluate", out, *data, "--random")
    assert code == 0 and "OPA" in text and "0.00%*" in text and "random" in text
    submission = tmp_path / "s.csv"
    code, text, _ = run(capsys, "submit", out, *data[:3], "--collection", "tile:xla", "--out", submission)
    assert code == 0
    lines = submission.read_text().splitlines()
    assert lines[1].startswith("tile:xla:kernel_00,") and lines[1].count(";") == 4
    code, _, err = run(capsys, "predict", out, madeup.path("long"))
    assert code == 1 and "expected a TileGraph" in err


def test_evaluate_leave_out(capsys, tmp_path):
    data = [madeup.path(name) for name in ("kernel_05", "kernel_06", "kernel_10")]
    code, text, _ = run(
        capsys, "evaluate", "first-tile", *data, "--leave-out", "--steps", 2, "--random", "--json",
        "--out", tmp_path / "r.json",
    )  # fmt: skip
    told = json.loads(text)
    assert code == 0 and [row["scorer"] for row in told["graphs"]] == ["first-tile", "random"] * 3
    assert json.loads((tmp_path / "r.json").read_text()) == told
    code, text, _ = run(capsys, "evaluate", "first-tile", *data, "--leave-out", "--steps", 2)
    assert code == 0 and "Graphs with more than 5 configurations" in text
    for wrong in (["--leave-out", "--official"], ["--steps", "3"]):
        assert run(capsys, "evaluate", "first-tile", *data, *wrong)[0] == 2
