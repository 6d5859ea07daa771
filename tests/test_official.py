"""The published validation protocol: lists of configs, and reports on them."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace

import madeup
import numpy as np
import pytest
from rankers import small_graph, small_ranker
from refusals import refuses
from scipy.stats import kendalltau

import tpugraphs as tg
from tpugraphs import cli, data, evaluation
from tpugraphs.data import samples
from tpugraphs.evaluation import official

LAYOUT = [name for name in data.COLLECTIONS if name.startswith("layout")]
UNET = "unet_3d.4x4.bf16"


def graph_of(name=UNET, collection="layout:xla:random", configs=481, **changes):
    return small_graph(3, configs=configs, name=name, collection=collection, **changes)


def made_up_lists():
    """As the published ones: 7 and 20 graphs, 1,000 rows each; the first has only 481 configs, which come again."""
    names = {
        "xla": (UNET, "bert_pretraining.4x4.fp16", "inception_v3_batch_128_train", "mlperf_bert_batch_24_2x2",
                "resnet50.4x4.fp16", "resnet_v1_50_official_batch_128_bf16", "tf2_bert_pretrain_dynamic_batch_size"),
        "nlp": tuple(f"small_bert_batch_size_{i}_test" for i in range(20)),
    }  # fmt: skip
    rng, lists = np.random.default_rng(0), {}
    for collection in LAYOUT:
        for name in names[collection.split(":")[1]]:
            few = (collection, name) == ("layout:xla:random", UNET)
            rows = np.resize(rng.permutation(481), 1000) if few else rng.permutation(4680)[:1000]
            lists.setdefault(collection, {})[name] = rows
    return lists


@pytest.fixture
def lists(monkeypatch):
    """Lists like the published ones, instead of those in a data folder."""
    made = made_up_lists()
    monkeypatch.setattr(official, "_lists", made.__getitem__)
    return made


def test_the_published_lists():
    for file in official._FILES.values():
        if samples.find(file.name, file.sha256) is None:
            pytest.skip(f"needs data of others: {file.name} in a folder of {samples.VARIABLE}")
    counts = {}
    for collection in LAYOUT:
        lists = official.indices(collection)
        counts[collection] = len(lists)
        for name, rows in lists.items():
            assert rows.shape == (1000,) and rows.dtype == np.int64 and rows.min() >= 0
            assert not rows.flags.writeable
            distinct = 481 if (collection, name) == ("layout:xla:random", UNET) else 1000
            assert len(np.unique(rows)) == distinct
    assert list(counts.values()) == [7, 7, 20, 20]
    # names and largest rows as the published files have them
    xla = official.indices("layout:xla:random")
    assert xla["resnet50.4x4.fp16"].max() == 5700 and xla["inception_v3_batch_128_train"].max() == 4671
    assert set(xla) == set(official.indices("layout:xla:default"))
    assert "albert_en_xlarge_batch_size_16_test" in official.indices("layout:nlp:default")
    xla.clear()
    assert len(official.indices("layout:xla:random")) == 7


def test_lists_are_read_from_the_data_folder(monkeypatch, tmp_path):
    made = made_up_lists()["layout:nlp:default"]
    content = json.dumps({name: rows.tolist() for name, rows in made.items()}).encode()
    file = official._FILES["layout:nlp:default"]
    (tmp_path / "nlp_default.json").write_bytes(content)
    monkeypatch.setenv(samples.VARIABLE, str(tmp_path))
    same = replace(file, sha256=hashlib.sha256(content).hexdigest())
    monkeypatch.setitem(official._FILES, "layout:nlp:default", same)
    official._lists.cache_clear()
    try:
        found = official.indices("layout:nlp:default")
    finally:
        official._lists.cache_clear()
    assert list(found) == list(made)
    for name, rows in found.items():
        assert rows.dtype == np.int64 and not rows.flags.writeable and (rows == made[name]).all()


def test_errors(lists):
    for name, word in (("tile:xla", "tile graphs"), ("xla", "lists"), (3, "no list")):
        refuses(lambda: official.indices(name), tg.ConfigError, word)
    graph, short, bare = graph_of(), graph_of(configs=480), graph_of(collection=None)
    judge = evaluation.evaluate
    error = refuses(
        lambda: judge(lambda g, r: r, short, official=True), tg.DataError, "config 480", "found 480"
    )
    assert error.field == "config_runtime" and error.file == UNET
    refuses(lambda: judge(lambda g, r: r, bare, official=True), tg.DataError, "collection")
    refuses(lambda: judge(lambda g, r: r, graph, configs=[1, 2], official=True), tg.ConfigError, "both")
    refuses(lambda: judge(lambda g, r: [1.0, 2.0], graph, official=True), tg.ShapeError, "(1000,)")


def test_only_the_listed_configs_count(lists):
    graph = graph_of()
    rows = lists["layout:xla:random"][UNET]
    rng = np.random.default_rng(0)
    scores = rng.normal(size=graph.num_configs).astype(np.float32)
    asked = []

    def scorer(g, configs):
        asked.append(np.array(configs))
        return scores[configs]

    report = evaluation.evaluate(scorer, [graph], official=True)
    (row,) = report.rows
    assert list(row.values) == ["tau", "slowdown@1", "slowdown@10", "slowdown@100"]
    assert row.configs == 1000  # repeats are kept ...
    assert len(asked) == 1 and np.array_equal(asked[0], np.arange(481))  # ... but scored once
    y = graph.config_runtime[rows]
    assert row.values["tau"] == pytest.approx(kendalltau(scores[rows], y).statistic, abs=1e-12)
    for k in (1, 10, 100):
        best = y[np.argsort(scores[rows], kind="stable")[:k]].min() / y.min() - 1
        assert row.values[f"slowdown@{k}"] == pytest.approx(best, abs=1e-12)


def test_configs_outside_the_list_do_not_count(lists):
    name, collection = "inception_v3_batch_128_train", "layout:xla:random"
    rows = lists[collection][name]
    graph = graph_of(name, collection, configs=4688)
    runtime = np.ones(4688, np.int64)
    runtime[rows] = np.arange(1000) + 10
    graph = graph.replace(config_runtime=runtime)
    report = evaluation.evaluate(lambda g, r: g.config_runtime[r], graph, official=True)
    assert report.rows[0].values == {"tau": 1.0, "slowdown@1": 0, "slowdown@10": 0, "slowdown@100": 0}
    assert report.rows[0].configs == 1000


def test_names_that_are_not_listed_or_not_given(lists):
    graphs = [graph_of(), graph_of("mine"), graph_of("yours", "layout:nlp:random")]
    report = evaluation.evaluate(lambda g, rows: -np.asarray(rows), graphs, official=True)
    assert [row.graph for row in report.rows] == [UNET]
    assert report.coverage.not_listed == ("layout:xla:random:mine", "layout:nlp:random:yours")
    assert len(report.coverage.not_given) == 6
    assert "layout:xla:random:resnet50.4x4.fp16" in report.coverage.not_given
    for text in (report.table(), report.to_markdown(), report._repr_html_()):
        assert "Left out, as not in the published lists: layout:xla:random:mine" in text
        assert "not given: layout:xla:random:bert_pretraining.4x4.fp16" in text
    assert json.loads(report.to_json())["official"]["not_listed"][0] == "layout:xla:random:mine"
    with pytest.raises(tg.DataError, match="published lists.*valid"):
        evaluation.evaluate(lambda g, rows: rows, graphs[1:], official=True)


def test_reports_add_up(lists):
    def scorer(g, rows):
        return -np.asarray(rows)

    first = evaluation.evaluate(scorer, [graph_of(), graph_of("mine")], official=True)
    other = graph_of("mlperf_bert_batch_24_2x2", configs=5288)
    both = first + evaluation.evaluate(scorer, other, official=True)
    assert len(both.rows) == 2 and both.coverage.not_listed == ("layout:xla:random:mine",)
    assert len(both.coverage.not_given) == 5
    usual = evaluation.evaluate(lambda g: g.config_runtime, graph_of())
    mixed = first + usual
    assert mixed.coverage is None and "tau" in mixed.table() and "nDCG" in mixed.table()


def test_tile_graphs_count_whole():
    graph = madeup.graph("kernel_00")
    report = evaluation.evaluate(lambda g: -evaluation.measured_runtimes(g), [graph], official=True)
    values = report.rows[0].values
    assert list(values) == ["slowdown@1", "slowdown@5", "slowdown@10", "opa"]
    assert report.rows[0].configs == 61 and values["opa"] == 0.0 and values["slowdown@1"] > 1
    assert "OPA" in report.table() and "0.5 is chance" in report.table()


def test_ranker_and_command(tmp_path, capsys, lists):
    graph = graph_of()
    ranker = small_ranker("first-layout")
    ranker.fit(graph, steps=1)
    report = ranker.evaluate([graph], official=True)
    rows = lists["layout:xla:random"][UNET]
    tau = tg.metrics.kendall_tau(ranker.predict(graph)[rows], graph.config_runtime[rows])
    assert report.mean() == pytest.approx(tau, abs=1e-6)

    folder = tmp_path / "npz" / "layout" / "xla" / "random" / "valid"
    folder.mkdir(parents=True)
    for name in (UNET, "mine"):
        graph.save(folder / f"{name}.npz")
    ranker.save(tmp_path / "r.safetensors")
    argv = ["evaluate", tmp_path / "r.safetensors", "layout:xla:random", "--root", tmp_path, "--official"]
    assert cli.main([str(arg) for arg in [*argv, "--json", "--random"]]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["official"]["not_listed"] == ["layout:xla:random:mine"]
    assert [g["configs"] for g in told["graphs"]] == [1000, 1000]
    assert told["graphs"][0]["tau"] == pytest.approx(tau, abs=1e-6)
    assert cli.main([str(arg) for arg in [*argv, "--exclude", UNET]]) == 1
    assert "none of these graphs is in the published lists" in capsys.readouterr().err
