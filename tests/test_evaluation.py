"""Reports, bootstrap intervals, baselines."""

from __future__ import annotations

import json
import math
import time

import numpy as np
import pytest
from refusals import refuses

import tpugraphs as tg
from tpugraphs import evaluation
from tpugraphs.evaluation import Report, Row, bootstrap_tau, evaluate, measured_runtimes
from tpugraphs.ranker import baselines


def layout(c: int = 200, *, seed: int = 0, name: str = "g", runtime: object = None) -> tg.LayoutGraph:
    """A graph whose runtime is a noisy function of its digits."""
    rng = np.random.default_rng(seed)
    digits = rng.integers(-1, 6, size=(c, 2, 18)).astype(np.float32)
    effect = rng.standard_normal((2, 18))
    if runtime is None:
        runtime = (1e6 * (50 + (digits * effect).sum((1, 2)) + 0.5 * rng.standard_normal(c))).astype(np.int64)
    return tg.LayoutGraph(
        node_feat=np.zeros((3, 140), np.float32),
        node_opcode=np.ones(3, np.uint8),
        edge_index=np.array([[1, 0], [2, 1]]),
        node_config_ids=np.array([0, 2]),
        node_config_feat=digits,
        config_runtime=runtime,
        name=name,
        collection="layout:xla:random",
    )


def tile(c: int = 30, *, seed: int = 0) -> tg.TileGraph:
    rng = np.random.default_rng(seed)
    features = rng.integers(1, 9, size=(c, 24)).astype(np.float32)
    return tg.TileGraph(
        node_feat=np.zeros((2, 140), np.float32),
        node_opcode=np.ones(2, np.uint8),
        edge_index=np.array([[1, 0]]),
        config_feat=features,
        config_runtime=(100 * features[:, 0] + 1000).astype(np.int64),
        config_runtime_normalizers=np.full(c, 2000),
        name=f"kernel{seed}",
        collection="tile:xla",
    )


def truth(graph: tg.LayoutGraph | tg.TileGraph) -> np.ndarray:
    return measured_runtimes(graph)


def test_perfect_scorer() -> None:
    report = evaluate(truth, layout())
    values = report.rows[0].values
    assert values["tau"] == pytest.approx(1.0)
    assert values["opa"] == 1.0
    assert values["spearman"] == pytest.approx(1.0)
    assert all(values[f"slowdown@{k}"] == 0 for k in (1, 5, 10, 100))
    assert report.mean() == pytest.approx(1.0)
    assert report.groups[0].over == "configs"


def test_reversed_scorer_and_known_slowdown() -> None:
    graph = layout(4, runtime=[100, 110, 150, 200])
    values = evaluate(lambda g: -truth(g), graph).rows[0].values
    assert values["tau"] == pytest.approx(-1.0)
    assert values["slowdown@1"] == pytest.approx(1.0)
    assert values["slowdown@5"] == 0.0  # more than there are: all are measured


def test_ties_show_both_taus() -> None:
    graph = layout(40)
    tied = evaluate(lambda g: np.arange(40) // 8, graph)
    assert tied.rows[0].values["tau"] != tied.rows[0].values["tau_order"]
    assert "tau (order)" in tied.table()
    assert "tau (order)" not in evaluate(truth, graph).table()


def test_configs_restrict_and_are_passed_on() -> None:
    graph, rows = layout(), np.array([3, 5, 8, 100])
    seen = []

    def scorer(g: tg.LayoutGraph, configs: np.ndarray) -> np.ndarray:
        seen.append(configs)
        return g.config_runtime[configs]

    report = evaluate(scorer, graph, configs=rows)
    assert report.rows[0].configs == 4 and report.mean() == pytest.approx(1.0)
    assert seen[0] is rows
    refuses(lambda: evaluate(scorer, [graph, graph], configs=rows), tg.ConfigError, "one graph")


def test_tile_uses_normalised_runtimes_and_own_metrics() -> None:
    graph = tile().replace(config_runtime_normalizers=np.arange(1, 31) * 1000)
    report = evaluate(lambda g: g.config_runtime / g.config_runtime_normalizers, graph)
    assert report.rows[0].values == {"slowdown@1": 0, "slowdown@5": 0, "slowdown@10": 0, "opa": 1}
    assert evaluate(lambda g: g.config_runtime, graph).rows[0].values["slowdown@1"] > 0


def test_graphs_and_scores_that_cannot_be_judged() -> None:
    for runtime in (np.zeros(20, int), np.full(20, -1)):
        graph = layout(20, runtime=runtime)
        error = refuses(
            lambda: evaluate(lambda g: np.arange(20), graph), tg.DataError, "g:", "placeholders", "submit"
        )
        assert error.field == "config_runtime"
    refuses(
        lambda: evaluate(lambda g: np.arange(3), layout()),
        tg.ShapeError,
        "g by",
        "'ranker'",
        "(200,)",
        "(3,)",
    )
    odd = np.where(np.arange(200) == 7, np.nan, 1.0)
    refuses(lambda: evaluate(lambda g: odd, layout(), name="mine"), tg.DataError, "score 7", "'mine'", "NaN")
    refuses(lambda: evaluate(truth, []), tg.ConfigError, "one graph")
    for graphs in (None, 3, "graph.npz", {"a": 1}, [None]):
        refuses(lambda: evaluate(truth, graphs), tg.ConfigError, "graphs")
    refuses(lambda: evaluate(None, layout()), tg.ConfigError, "scorer 'ranker'")


def test_groups_and_interval_over_graphs() -> None:
    graphs = [layout(60, seed=s, name=f"g{s}") for s in range(6)]
    rng = np.random.default_rng(0)
    report = evaluate(lambda g: g.config_runtime + 2e7 * rng.standard_normal(60), graphs) + evaluate(
        truth, [tile(seed=1), tile(seed=2)]
    )
    layouts, tiles = report.groups
    assert (layouts.graphs, layouts.configs, layouts.over) == (6, 360, "graphs")
    taus = [row.values["tau"] for row in report.rows if "tau" in row.values]
    assert layouts.values["tau"] == pytest.approx(np.mean(taus))
    low, high = layouts.intervals["tau"]
    assert min(taus) <= low < layouts.values["tau"] < high <= max(taus)
    assert tiles.values["slowdown@5"] == 0.0
    # the mean over collections, each the mean of its graphs
    assert report.mean("slowdown@5") == pytest.approx((layouts.values["slowdown@5"] + 0.0) / 2)
    refuses(lambda: report.mean("speed"), tg.ConfigError, "'speed'")


def test_bootstrap_covers_about_as_often_as_it_says() -> None:
    rng = np.random.default_rng(1)
    rho = 0.7
    expected = 2 / math.pi * math.asin(rho)  # tau of a bivariate normal (Greiner)
    hits = 0
    for trial in range(100):
        x = rng.standard_normal(150)
        y = rho * x + math.sqrt(1 - rho**2) * rng.standard_normal(150)
        low, high = bootstrap_tau(x, y, draws=200, seed=trial)
        hits += low <= expected <= high
    assert 87 <= hits <= 100


def test_bootstrap_of_large_lists_is_as_wide_as_the_full_one() -> None:
    rng = np.random.default_rng(2)
    x = rng.standard_normal(4000)
    y = x + rng.standard_normal(4000)
    full = np.diff(bootstrap_tau(x, y, draws=300, max_rows=4000))[0]
    part = np.diff(bootstrap_tau(x, y, draws=300, max_rows=800))[0]
    assert part == pytest.approx(full, rel=0.25)


def test_bootstrap_is_seeded_and_quick() -> None:
    rng = np.random.default_rng(3)
    scores, runtimes = rng.standard_normal(3000).astype(np.float32), rng.integers(1, 10**9, 3000)
    start = time.process_time()  # not disturbed by what else the machine does
    first = bootstrap_tau(scores, runtimes, draws=1000, seed=5)
    assert time.process_time() - start < 5
    assert first == bootstrap_tau(scores, runtimes, draws=1000, seed=5)
    assert first != bootstrap_tau(scores, runtimes, draws=1000, seed=6)
    assert bootstrap_tau([1.0], [1]) == (0.0, 0.0)


def test_text_markdown_json_html(tmp_path) -> None:
    graphs = [layout(50, seed=s, name=f"a|b<{s}>") for s in (1, 2)]
    report = evaluate({"truth": truth, "random": baselines.random_scores}, graphs)
    lines = report.table().splitlines()
    assert lines[0] == "layout:xla:random, 50 configs" and len({len(line) for line in lines[1:4]}) == 1
    assert (
        "truth" in report.table() and "\nmean, layout:xla:random, 2 graphs, 100 configs\n" in report.table()
    )
    assert "mean" not in report.table(per_graph=False).splitlines()[2]
    assert "OPA" in report.table() and "OPA" not in report.table(metrics=("tau",))
    assert "a\\|b&lt;1&gt;" in report.to_markdown()
    assert "a|b&lt;1&gt;" in report._repr_html_() and "<1>" not in report._repr_html_()
    loaded = json.loads(report.to_json())
    assert loaded["collections"][0]["means"]["tau"] == pytest.approx(1.0)
    assert len(loaded["graphs"]) == 4
    for suffix in ("json", "md", "txt", "html", "png"):
        report.save(tmp_path / f"r.{suffix}")
        assert (tmp_path / f"r.{suffix}").stat().st_size > 100
    refuses(lambda: report.save(tmp_path / "r.doc"), tg.ConfigError, ".doc")


def test_tables_of_some_metrics_say_what_these_mean() -> None:
    report = evaluate(truth, layout())
    assert "tau (order)" not in report.table()
    asked = report.table(metrics=["tau_order"])
    assert "tau (order)" in asked.splitlines()[1] and "tau (order): tau of the permutation" in asked
    assert "slow@k:" in report.table(metrics=["slowdown@1"]) and "slow@k:" not in asked
    assert "tau:" not in asked and report.table(metrics=["tau"]).count("tau:") == 1
    for wrong in ("tau", ["tau", "speed"]):
        for table in (report.table, report.to_markdown):
            refuses(lambda: table(metrics=wrong), tg.ConfigError, "metrics")
    refuses(lambda: report.mean(scorer="nobody"), tg.ConfigError, "layout:xla:random", "ranker")
    refuses(lambda: evaluate(truth, layout(), level=95), tg.ConfigError, "level")


def test_a_scorer_of_another_graph_is_listed_with_its_own() -> None:
    graphs = [layout(50, seed=seed, name=f"g{seed}") for seed in (1, 2)]
    both = evaluate({"a": truth}, graphs[:1]) + evaluate({"b": truth}, graphs[1:])
    lines = [line.split()[:2] for line in both.table().splitlines()]
    assert ["a", "g1"] in lines and ["b", "g2"] in lines, both.table()


def test_repr_holds_table_and_rows_compare_without_arrays() -> None:
    a, b = evaluate(truth, layout()), evaluate(truth, layout())
    assert a.rows == b.rows and "tau" in repr(a)


def test_random_scores_are_a_seeded_permutation() -> None:
    graph = layout()
    scores = baselines.random_scores(graph, seed=1)
    assert sorted(scores) == list(range(200))
    assert (scores == baselines.random_scores(graph, seed=1)).all()
    assert baselines.random_scores(graph, np.arange(7)).shape == (7,)


def test_seeds_of_a_random_order_are_checked() -> None:
    for seed in (-1, 1.5, "3", True, None):
        for make in (baselines.RandomBaseline, lambda seed: baselines.random_scores(layout(), seed=seed)):
            assert isinstance(refuses(lambda: make(seed=seed), tg.Error, "seed"), ValueError)


def test_linear_baseline_learns_additive_runtimes() -> None:
    graph = layout(3000)
    model = baselines.LinearBaseline().fit(graph, np.arange(2000))
    unseen = np.arange(2000, 3000)
    tau = tg.metrics.kendall_tau(model.predict(graph, unseen), graph.config_runtime[unseen])
    assert tau > 0.9
    assert tg.metrics.kendall_tau(model.predict(graph.select(unseen)), graph.config_runtime[unseen]) == tau


def test_linear_baseline_equals_plain_ridge() -> None:
    graph = layout(300)
    alpha = 1e-3
    model = baselines.LinearBaseline(alpha).fit(graph)
    digits = graph.config_digits.reshape(300, -1)
    columns = [(digits[:, j] == v) for j in range(digits.shape[1]) for v in range(-1, 6)]
    x = np.stack([c for c in columns if 0 < c.sum() < 300], axis=1).astype(float)
    x -= x.mean(0)
    target = np.argsort(np.argsort(graph.config_runtime)) / 299
    weight = np.linalg.solve(x.T @ x + alpha * 300 * np.eye(x.shape[1]), x.T @ (target - target.mean()))
    np.testing.assert_allclose(model.predict(graph), x @ weight + target.mean(), atol=1e-9)


def test_linear_baseline_on_tiles_and_misuse() -> None:
    graph = tile(200)
    model = baselines.LinearBaseline().fit(graph)
    assert tg.metrics.kendall_tau(model.predict(graph), graph.config_runtime) > 0.9
    refuses(lambda: model.predict(layout()), tg.DataError, "TileGraph", "LayoutGraph")
    refuses(lambda: baselines.LinearBaseline().predict(graph), tg.Error, "learnt nothing")
    refuses(lambda: baselines.LinearBaseline(0), tg.ConfigError, "alpha")


def test_one_runtime_of_zero_is_named_and_can_be_left_out() -> None:
    runtime = np.arange(1, 21)
    runtime[3] = 0
    graph = layout(20, runtime=runtime)
    refuses(lambda: evaluate(baselines.random_scores, graph), tg.DataError, "config 3")
    rows = np.flatnonzero(runtime > 0)
    assert evaluate(baselines.random_scores, graph, configs=rows).rows[0].configs == 19
    assert len(evaluate(truth, graph.select(runtime > 0)).rows) == 1
    refuses(lambda: evaluate(truth, graph, configs=[20]), tg.DataError, "configs")
    refuses(lambda: evaluate(truth, graph, configs=[]), tg.DataError, "g:", "configurations")


def test_a_report_of_one_config_says_why_tau_is_0() -> None:
    report = evaluate(truth, layout(20).select([4]))
    assert report.rows[0].values["tau"] == 0 and "no pairs to order" in report.table()
    assert repr(report).startswith("<Report: 1 row>\n") and ", 1 config\n" in report.table()
    assert "no pairs" not in evaluate(truth, layout()).table()


def test_report_of_nothing() -> None:
    with pytest.raises(tg.ConfigError):
        Report([])
    assert Row.judge("g", "layout", "s", [1.0, 2.0], [1, 2]).values["tau"] == 1.0
    assert evaluation.LAYOUT_METRICS[0] == "tau"
