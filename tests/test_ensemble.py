"""Ensembles: means of scores against a reference, files, mixtures that are refused; and test-time augmentation."""

import json
import os
import signal
import subprocess
import sys
import time

import madeup
import numpy as np
import pytest
from broken.rankers import rewrite
from rankers import small_graph, small_ranker
from refusals import refuses
from scipy.stats import rankdata

import tpugraphs as tg
from tpugraphs import cli, kernels
from tpugraphs.preprocess import pipeline
from tpugraphs.ranker.ensemble import NORMALIZE, open_rankers

WEIGHTS = [2.0, 0.5, 1.0]


@pytest.fixture(scope="module")
def graph():
    return small_graph(0, copies=20)


@pytest.fixture(scope="module")
def rankers(graph):
    """Two seeds of one recipe, and another recipe with another preprocessing."""
    made = [
        small_ranker(seed=0, chunk=20),
        small_ranker(seed=1, chunk=20),
        small_ranker("first-layout", seed=2, prune="none"),
    ]
    for ranker in made:
        ranker.fit(graph, verbose=False)
    return made


def reference(name, scores):
    if name == "minmax":
        return (scores - scores.min()) / (scores.max() - scores.min())
    return (rankdata(scores) - 1) / (scores.size - 1) if name == "rank" else scores


@pytest.mark.parametrize("weights", [None, WEIGHTS])
@pytest.mark.parametrize("normalize", NORMALIZE)
def test_scores_are_the_weighted_mean(graph, rankers, normalize, weights):
    ensemble = tg.Ensemble(rankers, weights, normalize)
    for configs, tta in ((None, 0), (np.arange(50)[::-1].copy(), 2)):
        own = [r.predict(graph, configs, tta).astype(np.float64) for r in rankers]
        expected = np.average([reference(normalize, s) for s in own], axis=0, weights=weights)
        scores = ensemble.predict(graph, configs, tta)
        assert scores.dtype == np.float32 and np.allclose(scores, expected, rtol=1e-6, atol=1e-7)
        assert (ensemble.rank(graph, configs, tta, None, False) == np.argsort(scores, kind="stable")).all()
    assert "3 x first-layout" in repr(ensemble) and len(ensemble) == 3
    assert ensemble.num_parameters == sum(r.num_parameters for r in ensemble)


@pytest.mark.parametrize("weights", [None, WEIGHTS])
@pytest.mark.parametrize("normalize", NORMALIZE)
def test_the_choice_has_something_for_each_ranker(graph, rankers, normalize, weights):
    ensemble = tg.Ensemble(rankers, weights, normalize)
    rows = np.arange(3, 40)
    scores = np.array([reference(normalize, r.predict(graph, rows).astype(np.float64)) for r in rankers])
    share = np.ones(3) / 3 if weights is None else np.array(weights) / sum(weights)
    chosen = ensemble.choose(graph, 5, rows)
    assert chosen.shape == (5,) and chosen.dtype == np.int64
    for place in range(5):
        ends = [share @ scores[:, [*chosen[:place], i]].min(1) for i in range(len(rows))]
        assert ends[chosen[place]] == pytest.approx(min(ends))
    ranked = ensemble.rank(graph, rows)
    assert ensemble.choose(graph, 1, rows)[0] == ranked[0]
    rest = ensemble.choose(graph, 20, rows)[3:]  # after one for each, the next by the mean
    assert rest.tolist() == [row for row in ranked if row in rest]
    assert sorted(ensemble.choose(graph, 99, rows)) == list(range(len(rows)))
    refuses(lambda: ensemble.choose(graph, 0), tg.ConfigError, "count")


def test_configs_as_digits_and_precision(graph, rankers):
    ensemble = tg.Ensemble(rankers, normalize="rank")
    assert (ensemble.predict(graph, graph.config_digits) == ensemble.predict(graph)).all()
    a, b = ensemble.predict(graph, precision="bf16"), ensemble.predict(graph)
    assert (a != b).any() and np.allclose(a, b, atol=0.1)


@pytest.mark.parametrize("normalize", NORMALIZE)
def test_few_or_equal_scores(graph, rankers, normalize):
    ensemble = tg.Ensemble(rankers, normalize=normalize)
    assert ensemble.predict(graph, [3]).shape == (1,) and np.isfinite(ensemble.predict(graph, [3])).all()
    assert ensemble.predict(graph, []).shape == (0,)
    level = graph.replace(node_config_feat=np.zeros_like(graph.config_digits))
    scores = ensemble.predict(level, np.arange(10))  # one chunk: they see the same
    assert np.ptp(scores) == 0 and np.isfinite(scores).all()


def test_weight_zero_leaves_a_ranker_out(graph, rankers):
    assert (tg.Ensemble(rankers, [0, 1, 0]).predict(graph) == rankers[1].predict(graph)).all()


def test_a_graph_is_prepared_once_for_equal_preprocessing(graph, rankers, monkeypatch):
    calls = []
    real = pipeline.Pipeline.apply
    monkeypatch.setattr(
        pipeline.Pipeline, "apply", lambda self, *a, **k: calls.append(1) or real(self, *a, **k)
    )
    other = small_graph(5)
    tg.Ensemble(rankers).predict(other)
    assert len(calls) == 2  # three rankers, two preprocessings


def test_reports(graph, rankers):
    ensemble = tg.Ensemble(rankers)
    report = ensemble.evaluate([graph, small_graph(1)], draws=10)
    assert {row.scorer for row in report.rows} == {"ensemble"} and len(report) == 2
    tau = tg.metrics.kendall_tau(ensemble.predict(graph), graph.config_runtime)
    assert report.rows[0].values["tau"] == tau
    every = ensemble.evaluate(graph, members=True, tta=2, draws=10)
    assert len(every) == 4 and "1: first-layout-cross, seed 1" in {row.scorer for row in every.rows}
    refuses(lambda: ensemble.evaluate(graph, graph.config_digits), tg.ConfigError, "row numbers")


# What is refused


def test_wrong_arguments(rankers):
    r = rankers
    for given, *names in (
        (([],), "at least one"),
        ((r[0],), "at least one"),
        (([r[0], "b.safetensors"],), "rankers[1]", "str"),
        (([r[0], small_ranker()],), "rankers[1]", "learnt nothing"),
        ((r, [1, 2]), "3 numbers"),
        ((r, [1, -1, 1]), "weights[1]"),
        ((r, [0, 0, 0]), "not all 0"),
        ((r, [1, float("nan"), 1]), "weights[1]"),
        ((r, "abc"), "3 numbers"),
        ((r, [True, 1, 1]), "weights[0]"),
        ((r, None, "softmax"), "none, minmax, rank"),
    ):
        refuses(lambda: tg.Ensemble(*given), tg.ConfigError, *names)


def test_rankers_for_different_paddings_are_refused(graph, rankers):
    made = []
    for value in (-1, 0):
        ranker = small_ranker(steps=1)
        ranker.fit(graph, verbose=False)
        ranker.pipeline.require_padding(value)
        made.append(ranker)
    refuses(lambda: tg.Ensemble([rankers[0], *made]), tg.ConfigError, "-1", "padded")
    assert len(tg.Ensemble([rankers[0], made[1]])) == 2  # one that takes any, and one that does not


def tiles():
    return [madeup.graph(name) for name in ("kernel_00", "kernel_01", "kernel_05", "kernel_06")]


def test_rankers_of_other_graphs_are_refused_and_those_of_tiles_work(rankers, tmp_path):
    made = [tg.Ranker("first-tile", seed=seed, width=16, steps=4) for seed in range(2)]
    for ranker in made:
        ranker.fit(tiles(), verbose=False)
    refuses(lambda: tg.Ensemble([rankers[0], rankers[1], made[0]]), tg.ConfigError, "rankers[2]", "tile")
    graph = tiles()[1]
    for normalize in NORMALIZE:
        ensemble = tg.Ensemble(made, normalize=normalize)
        ensemble.save(tmp_path / "e.safetensors")
        scores = tg.Ensemble.load(tmp_path / "e.safetensors").predict(graph)
        own = [r.predict(graph).astype(np.float64) for r in made]
        expected = np.mean([reference(normalize, s) for s in own], axis=0)
        assert np.allclose(scores, expected, rtol=1e-6, atol=1e-7)
    assert len(ensemble.evaluate(tiles(), members=True, draws=10)) == 12


# Files


def test_adapt_adapts_every_ranker(graph, rankers):
    ensemble = tg.Ensemble(rankers, WEIGHTS, "rank")
    adapted = ensemble.adapt(graph, slice(9), steps=2, anchor=0.3)
    assert (adapted.weights, adapted.normalize) == (ensemble.weights, "rank")
    for before, after in zip(rankers, adapted, strict=True):
        expected = before.adapt(graph, slice(9), steps=2, anchor=0.3)
        assert (after.model.params == expected.model.params).all()
        assert (after.model.params != before.model.params).any()


@pytest.mark.parametrize("normalize", NORMALIZE)
def test_a_saved_ensemble_predicts_the_same_bits(graph, rankers, tmp_path, normalize):
    ensemble = tg.Ensemble(rankers, WEIGHTS, normalize)
    ensemble.save(tmp_path / "e.safetensors")
    assert [p.name for p in tmp_path.iterdir()] == ["e.safetensors"]
    loaded = tg.Ensemble.load(tmp_path / "e.safetensors")
    assert loaded.weights == tuple(WEIGHTS) and loaded.normalize == normalize
    for other in (graph, small_graph(4)):
        assert (loaded.predict(other, tta=2) == ensemble.predict(other, tta=2)).all()
    for a, b in zip(loaded, rankers, strict=True):
        assert (a.predict(graph) == b.predict(graph)).all() and a.recipe == b.recipe and a.seed == b.seed


DAMAGE = {
    "weights": lambda m, t: m.update(weights=[1.0]),
    "negative": lambda m, t: m.update(weights=[-1.0, 1.0, 1.0]),
    "weights are text": lambda m, t: m.update(weights="1"),
    "normalize": lambda m, t: m.update(normalize="log"),
    "no members": lambda m, t: m.update(members=[]),
    "a member less": lambda m, t: m["members"].pop(),
    "a member is text": lambda m, t: m["members"].__setitem__(1, "x"),
    "a member without recipe": lambda m, t: m["members"][1].pop("recipe"),
    "other steps": lambda m, t: m["members"][2].update(steps=[]),
    "a tensor": lambda m, t: t.pop("1.head.weight"),
    "a shape": lambda m, t: t.update({"2.head.weight": t["2.head.weight"][:, :-1].copy()}),
    "not finite": lambda m, t: t["0.head.bias"].fill(np.nan),
    "version": lambda m, t: m.update(version=0),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_damaged_files_are_refused(rankers, tmp_path, name):
    path = tmp_path / "e.safetensors"
    tg.Ensemble(rankers).save(path)
    rewrite(path, path, DAMAGE[name])
    with pytest.raises(tg.CheckpointError) as error:
        tg.Ensemble.load(path)
    assert error.value.file == str(path) and error.value.field


def test_cut_files_and_other_files_are_refused(rankers, tmp_path):
    path, single = tmp_path / "e.safetensors", tmp_path / "r.safetensors"
    tg.Ensemble(rankers).save(path)
    rankers[0].save(single)
    refuses(lambda: tg.Ensemble.load(single), tg.CheckpointError, "'ensemble'", "'ranker'")
    refuses(lambda: tg.Ranker.load(path), tg.CheckpointError, "'ensemble'", "'ranker'")
    data = path.read_bytes()
    for size in (0, 9, len(data) // 2, len(data) - 1):
        path.write_bytes(data[:size])
        with pytest.raises(tg.CheckpointError):
            tg.Ensemble.load(path)


def test_killed_while_saving_leaves_the_old_file(rankers, tmp_path):
    path = tmp_path / "e.safetensors"
    tg.Ensemble(rankers[:1]).save(path)
    old = path.read_bytes()
    with pytest.raises(tg.Error):
        tg.Ensemble([*rankers, small_ranker()]).save(path)
    code = (
        "import sys, tpugraphs as tg\n"
        "e = tg.Ensemble.load(sys.argv[1])\n"
        "big = tg.Ensemble(list(e) * 40)\n"
        "print('ready', flush=True)\n"
        "while True: big.save(sys.argv[1])\n"
    )
    child = subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE, text=True)
    assert child.stdout.readline() == "ready\n"
    time.sleep(0.05)
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    child.stdout.close()
    loaded = tg.Ensemble.load(path)
    assert path.read_bytes() == old or len(loaded) == 40


def test_opening_several(rankers, tmp_path):
    paths = [tmp_path / f"{i}.safetensors" for i in range(3)]
    for ranker, path in zip(rankers, paths, strict=True):
        ranker.save(path)
    assert isinstance(open_rankers(paths[:1]), tg.Ranker)
    ensemble = open_rankers(paths, [1, 2, 3], "rank")
    assert ensemble.weights == (1.0, 2.0, 3.0) and ensemble.normalize == "rank"
    ensemble.save(tmp_path / "e.safetensors")
    again = open_rankers([tmp_path / "e.safetensors"])
    assert again.weights == ensemble.weights and again.normalize == "rank"
    assert open_rankers([tmp_path / "e.safetensors"], normalize="none").normalize == "none"
    assert len(open_rankers([paths[0], tmp_path / "e.safetensors"])) == 2  # a member may be an ensemble
    refuses(lambda: open_rankers(paths[:1], normalize="rank"), tg.ConfigError, "one ranker")


# Test-time augmentation


def augmented(ranker, graph, count, chunk):
    """By the description: random orders, cut in order into near-equal chunks, put back, averaged."""
    prepared, n = ranker.pipeline.apply(graph), graph.num_configs
    mean = np.zeros(n)
    for k in range(count):
        order = kernels.sample_without_replacement(n, n, (ranker.seed, 5, k))
        assert sorted(order) == list(range(n))
        scores = np.full(n, np.nan)
        for part in np.array_split(order, -(-n // chunk)):
            assert n // -(-n // chunk) <= part.size <= chunk
            (scores[part],) = ranker.model.scores([(prepared.graph, part)])
        mean += scores / count
    return mean


@pytest.mark.parametrize("chunk", [20, 32, 96, 200])
def test_augmentation_is_as_described(graph, chunk):
    ranker = small_ranker(chunk=chunk, steps=5, seed=3)
    ranker.fit(graph, verbose=False)
    for count in (1, 4):
        expected = augmented(ranker, graph, count, chunk)
        np.testing.assert_allclose(ranker.predict(graph, tta=count), expected, rtol=2e-7)
        tau = tg.metrics.kendall_tau(ranker.predict(graph, tta=count), graph.config_runtime)
        assert ranker.evaluate(graph, tta=count).mean("tau") == tau


# The command line


def run(capsys, *argv):
    code = cli.main([str(a) for a in argv])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.fixture(scope="module")
def files(graph, rankers, tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    for i, ranker in enumerate(rankers):
        ranker.save(folder / f"r{i}.safetensors")
    tg.Ensemble(rankers, normalize="rank").save(folder / "e.safetensors")
    graph.save(folder / "g.npz")
    graph.replace(config_runtime=np.zeros(96, np.int64)).save(folder / "t.npz")
    return folder


def test_predict_takes_several_rankers(capsys, files, graph, rankers):
    several = [files / f"r{i}.safetensors" for i in range(3)]
    out = files / "s.npy"
    options = ("--tta", 3, "--normalize", "minmax", "--weights", "2,0.5,1", "--out", out)
    assert run(capsys, "predict", *several, files / "g.npz", *options)[0] == 0
    expected = tg.Ensemble(rankers, WEIGHTS, "minmax").predict(tg.load(files / "g.npz"), tta=3)
    assert (np.load(out) == expected).all()
    assert run(capsys, "predict", files / "e.safetensors", files / "g.npz", "--out", out)[0] == 0
    assert (np.load(out) == tg.Ensemble(rankers, normalize="rank").predict(graph)).all()


def test_evaluate_takes_several_rankers(capsys, files, graph, rankers):
    several = [files / f"r{i}.safetensors" for i in range(2)]
    code, text, _ = run(capsys, "evaluate", *several, files / "g.npz", "--members", "--tta", 2, "--json")
    told = {row["scorer"]: row["tau"] for row in json.loads(text)["graphs"]}
    assert code == 0 and len(told) == 3
    expected = tg.metrics.kendall_tau(tg.Ensemble(rankers[:2]).predict(graph, tta=2), graph.config_runtime)
    assert told["ensemble"] == expected
    code, text, _ = run(capsys, "evaluate", several[0], files / "g.npz", "--tta", 10, "--json")
    expected = tg.metrics.kendall_tau(rankers[0].predict(graph, tta=10), graph.config_runtime)
    assert json.loads(text)["graphs"][0]["tau"] == expected


def test_submit_takes_several_rankers(capsys, files, rankers):
    several = [files / f"r{i}.safetensors" for i in range(2)]
    out = files / "s.csv"
    collection = ("--collection", "layout:xla:random", "--out", out, "--tta", 2)
    assert run(capsys, "submit", *several, files / "t.npz", *collection)[0] == 0
    ranking = tg.submission.read(out)["layout:xla:random:t"]
    assert (ranking == tg.Ensemble(rankers[:2]).rank(tg.load(files / "t.npz"), tta=2)).all()


@pytest.mark.parametrize(
    ("options", "word"),
    [
        (["--weights", "1,x"], "--weights 1,x"),
        (["--weights", "1,2,3"], "expected 2 numbers"),
        (["--tta", "-1"], "--tta"),
    ],
)
def test_wrong_options(capsys, files, options, word):
    several = [files / f"r{i}.safetensors" for i in range(2)]
    code, _, err = run(capsys, "predict", *several, files / "g.npz", *options)
    assert code == 2 and word in err and err.count("\n") == 1


def test_rankers_without_graphs(capsys, files):
    code, _, err = run(capsys, "predict", files / "r0.safetensors", files / "r1.safetensors")
    assert code == 2 and "graphs to rank after the rankers" in err
    code, _, err = run(capsys, "predict", files / "r0.safetensors", files / "g.npz", "--normalize", "rank")
    assert code == 2 and "not for one ranker" in err
