"""Gaussian processes over programs and configs: what they predict, and which configs they choose together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rankers import small_graph
from refusals import refuses
from scipy.stats import norm, rankdata

import tpugraphs as tg
from tpugraphs import _core
from tpugraphs.ranker import MeanEffect, MultiTaskGaussianProcess
from tpugraphs.ranker.multitask import _Factors, _solve
from tpugraphs.ranker.scorer import scoring
from tpugraphs.system import tensorfile

CONFIGS = 24


def programs(count: int = 30, seed: int = 0, **changes: Any) -> list[tg.Graph]:
    """Programs with shared configs: the first feature says which of two options matters."""
    rng = np.random.default_rng(seed)
    every = np.stack(np.unravel_index(np.arange(32), [2] * 5), 1).astype(np.float32)
    configs = np.random.default_rng(9).permutation(every)[:CONFIGS]
    made = []
    for i in range(count):
        about = rng.normal(size=3)
        effect = np.where(about[0] > 0, configs[:, 0] - configs[:, 1], configs[:, 1] - configs[:, 0])
        times = np.exp(3 + 0.5 * effect + 0.2 * configs[:, 2] + 0.05 * rng.normal(size=CONFIGS))
        valid = rng.random(CONFIGS) > 0.15
        made.append(
            tg.Graph(
                config_feat=configs,
                graph_feat=about,
                runtime=np.where(valid, times, np.nan),
                valid=valid,
                name=f"p{i}",
                **changes,
            )
        )
    return made


@pytest.fixture(scope="module")
def graphs() -> list[tg.Graph]:
    return programs()


@pytest.fixture(scope="module")
def fitted(graphs: list[tg.Graph]) -> MultiTaskGaussianProcess:
    return MultiTaskGaussianProcess().fit(graphs[:20])


def test_alike_programs_have_alike_effects(graphs: list[tg.Graph], fitted: MultiTaskGaussianProcess) -> None:
    unseen = graphs[20:]
    assert isinstance(fitted, tg.ranker.Scorer) and fitted.fitted and fitted.kind == "graph"
    assert fitted.score(unseen) > MeanEffect().fit(graphs[:20]).score(unseen) + 0.2
    assert fitted.evaluate(unseen[0], draws=5).rows[0].scorer == "multi-task-gaussian-process"


def dense(fitted: MultiTaskGaussianProcess, learnt: list[tg.Graph], graph: tg.Graph) -> tuple[Any, Any]:
    """Mean and covariance of all configs of a graph, from one covariance of all measurements."""

    def standard(table: Any, given: Any, length: float) -> Any:
        x = (given - table.mean(0)) / table.std(0)
        z = (table - table.mean(0)) / table.std(0)
        away = [((a - b) ** 2).sum() for i, a in enumerate(z) for b in z[:i]]
        return x / np.sqrt(np.median(away)) / length

    def rbf(a: Any, b: Any) -> Any:
        return np.exp(-0.5 * np.linalg.norm(a[:, None] - b, axis=2) ** 2)

    told = np.stack([g.graph_feat.ravel() for g in learnt]).astype(np.float64)
    table = np.unique(np.concatenate([g.config_feat[g.ran] for g in learnt]), axis=0).astype(np.float64)
    which, rows, y = [], [], []
    for i, g in enumerate(learnt):
        which += [i] * len(g.ran)
        rows.append(g.config_feat[g.ran])
        y.append(norm.ppf((rankdata(g.runtime[g.ran]) - 0.5) / len(g.ran)))
    a = standard(told, told, fitted.length)[which]
    b = standard(table, np.concatenate(rows), 1.0)
    same = np.equal.outer(which, which)
    covariance = (10 + rbf(a, a) + fitted.own * same) * rbf(b, b) + fitted.noise * np.eye(len(a))
    p = standard(told, graph.graph_feat.ravel()[None], fitted.length)
    c = standard(table, graph.config_feat, 1.0)
    cross = (10 + rbf(p, a)) * rbf(c, b)
    mean = cross @ np.linalg.solve(covariance, np.concatenate(y))
    left = (11 + fitted.own) * rbf(c, c) - cross @ np.linalg.solve(covariance, cross.T)
    return mean, left


def test_mean_and_covariance_are_those_of_the_formulas() -> None:
    full = [graph.select(np.arange(CONFIGS)) for graph in programs(8, seed=1)]
    whole = [
        graph.replace(runtime=np.where(graph.valid, graph.runtime, 25.0 + np.arange(CONFIGS)), valid=None)
        for graph in full
    ]
    for length, own, noise in ((0.5, 1.0, 1.0), (1.3, 0.2, 0.3)):
        # Some failed: the mean is that of the measurements that there are.
        made = MultiTaskGaussianProcess(length, own, noise).fit(full[:6])
        mean, _ = dense(made, full[:6], full[7])
        assert made.predict(full[7]) == pytest.approx(mean, abs=1e-4)
        # None failed: one step of the search, and the covariance is exact.
        made = MultiTaskGaussianProcess(length, own, noise).fit(whole[:6])
        mean, covariance = dense(made, whole[:6], whole[7])
        columns = made._columns(whole[7], np.arange(CONFIGS))
        found, together = made.moments(whole[7], columns, together=True)
        assert found == pytest.approx(mean, abs=1e-5)
        assert together == pytest.approx(covariance, abs=1e-5)
        assert made.moments(whole[7], columns[:5])[1] == pytest.approx(covariance.diagonal()[:5], abs=1e-5)


def test_a_full_grid_takes_one_step(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    a, b = (np.cov(rng.normal(size=(n, 3 * n))) for n in (5, 7))
    (p, u), (c, v) = np.linalg.eigh(a), np.linalg.eigh(b)
    y = rng.normal(size=(5, 7))
    factors = _Factors(p, u, c, v)
    expected = np.linalg.solve(np.kron(a, b) + 0.3 * np.eye(35), y.ravel()).reshape(5, 7)
    monkeypatch.setattr("tpugraphs.ranker.multitask._STEPS", 2)  # the second finds that the first was enough
    assert _solve(factors, y, np.ones((5, 7), bool), 0.3) == pytest.approx(expected)
    monkeypatch.undo()
    there = rng.random((5, 7)) > 0.4
    some = there.ravel()
    expected = np.zeros(35)
    covariance = np.kron(a, b)[np.ix_(some, some)] + 0.3 * np.eye(some.sum())
    expected[some] = np.linalg.solve(covariance, y.ravel()[some])
    found = _solve(factors, np.where(there, y, np.nan), there, 0.3)
    assert found.ravel() == pytest.approx(expected, abs=1e-5)


def test_what_is_chosen_comes_first(graphs: list[tg.Graph], fitted: MultiTaskGaussianProcess) -> None:
    graph = graphs[21]
    chosen, order = fitted.choose(graph, 4), fitted.rank(graph, together=4)
    assert (order[:4] == chosen).all() and sorted(order) == list(range(CONFIGS))
    rest = fitted.rank(graph)
    assert (order[4:] == rest[~np.isin(rest, chosen)]).all()
    assert sorted(fitted.rank(graph, [3, 5, 9], together=99)) == [0, 1, 2]
    assert fitted.rank(graph, [], together=3).size == fitted.predict(graph, []).size == 0
    routed = tg.Routed({"*": fitted})
    assert (routed.rank(graph, together=4) == order).all() and (routed.choose(graph, 4) == chosen).all()
    places = scoring(fitted, together=4)(graph)
    assert (np.argsort(places) == order).all()
    assert fitted.evaluate([graph], together=4, draws=5).rows[0].scorer == fitted.name
    refuses(lambda: fitted.rank(graph, together=-1), tg.ConfigError, "together", "got -1")


def test_seven_tenths_of_the_means_are_trusted(
    graphs: list[tg.Graph], fitted: MultiTaskGaussianProcess
) -> None:
    graph = graphs[21]
    columns, first = np.unique(fitted._columns(graph, np.arange(CONFIGS)), axis=0, return_index=True)
    mean, covariance = fitted.moments(graph, columns, together=True)
    near = np.argsort(mean - np.sqrt(covariance.diagonal()), kind="stable")
    middle, covariance = fitted.moments(graph, columns[near], together=True)
    given = {"scores": fitted.predict(graph)}  # of another ranker they are as they are
    for trust, how in ((0.7, {}), (1.0, given)):
        best = _core.normal_together(trust * middle, covariance, fitted._samples, fitted.seed, 8)
        assert (fitted.choose(graph, 8, **how) == first[near[best]]).all()


def test_alike_configs_are_not_all_chosen() -> None:
    """Three alike configs are first in the order; one far from them is worth more than the second of these."""
    rng = np.random.default_rng(0)
    configs = np.stack([np.linspace(3, 9, CONFIGS), np.zeros(CONFIGS)], 1)
    configs[:4] = [[0, 0], [0.01, 0], [0.02, 0], [0, 1]]
    made = []
    for i in range(41):
        times = 10 + rng.random(CONFIGS)
        times[[0, 1, 2] if i % 5 < 3 else [3]] = 1 + 0.1 * rng.random()
        made.append(tg.Graph(config_feat=configs, runtime=times, name=f"{i}"))
    process = MultiTaskGaussianProcess().fit(made[:40])
    assert sorted(process.rank(made[40])[:3]) == [0, 1, 2]
    chosen = process.choose(made[40], 2)
    assert chosen[0] in (0, 1, 2) and chosen[1] == 3


def test_programs_without_features_are_told_by_their_opcodes() -> None:
    configs = np.array([[0.0], [1.0]], np.float32)
    made = []
    for i in range(8):
        opcodes = [1, 2, 3] if i % 2 else [1, 4, 4]
        made.append(
            tg.Graph(
                node_feat=np.zeros((3, 1)),
                node_opcode=opcodes,
                edge_index=[[1, 0], [2, 1]],
                config_feat=configs,
                runtime=[1.0, 2.0] if i % 2 else [2.0, 1.0],
                name=f"{i}",
            )
        )
    process = MultiTaskGaussianProcess().fit(made[:6])
    assert (process.rank(made[6]) == [1, 0]).all() and (process.rank(made[7]) == [0, 1]).all()
    alone = MultiTaskGaussianProcess().fit([tg.Graph(config_feat=configs, runtime=[1.0, 2.0])])
    assert (alone.rank(tg.Graph(config_feat=configs)) == [0, 1]).all()


def test_files(graphs: list[tg.Graph], fitted: MultiTaskGaussianProcess, tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    refuses(lambda: MultiTaskGaussianProcess().save(path), tg.Error, "learnt nothing")
    fitted.save(path)
    again = tg.load_ranker(path)
    assert again.predict(graphs[25]).tobytes() == fitted.predict(graphs[25]).tobytes()
    assert (again.choose(graphs[25], 5) == fitted.choose(graphs[25], 5)).all()
    metadata, tensors = fitted.to_file()
    for change, field in (
        ({"program": tensors["program"][:0]}, "program"), ({"program": np.zeros((1001, 3))}, "program"),
        ({"config": tensors["config"].ravel()}, "config"), ({"weight": tensors["weight"][1:]}, "weight"),
        ({"config.column": tensors["config.column"] + 99}, "config.column"),
        ({"program.scale": 0 * tensors["program.scale"]}, "program.scale"), ({"config": tensors["config"] * 1e200}, "config"),
        ({"config.mean": tensors["config.mean"] + 1e308}, "config.mean"), ({"weight": tensors["weight"] + 1e308}, "weight"),
        ({"program.mean": tensors["program.mean"][1:]}, "program.mean"),
        ({"program": tensors["program"] * 1e200}, "program"), ({"weight": tensors["weight"] + np.nan}, "weight"),
    ):  # fmt: skip
        tensorfile.write(path, "multi-task-gaussian-process", metadata, {**tensors, **change})
        with pytest.raises(tg.CheckpointError) as caught:
            tg.load_ranker(path)
        assert caught.value.field == field
    for change in ({"own": -1.0}, {"seed": -2}, {"length": "far"}, {"schema": 3}, {"preprocessing": 4}):
        tensorfile.write(path, "multi-task-gaussian-process", {**metadata, **change}, tensors)
        with pytest.raises(tg.CheckpointError):
            tg.load_ranker(path)


def test_what_cannot_be_learnt(graphs: list[tg.Graph], fitted: MultiTaskGaussianProcess) -> None:
    for name, value in (("length", 0), ("own", -1.0), ("noise", "much"), ("noise", np.inf)):
        with pytest.raises(tg.ConfigError, match=f"{name}: expected a number from 1e-06"):
            MultiTaskGaussianProcess(**{name: value})
    process = MultiTaskGaussianProcess()
    refuses(lambda: process.fit([small_graph()]), tg.DataError, "found digits")
    with pytest.raises(tg.DataError, match="schema"):
        process.fit([graphs[0], tg.Graph(config_feat=[[1.0], [2.0]], runtime=[1.0, 2.0])])
    many = tg.Graph(config_feat=np.arange(1001.0)[:, None], runtime=1 + np.arange(1001.0))
    refuses(
        lambda: process.fit([many]), tg.ConfigError, "configs", "1,001", "tg.tune", "tg.Tuner(records=...)"
    )
    refuses(lambda: process.fit([graphs[0]] * 1001), tg.ConfigError, "graphs", "1,001")
    refuses(lambda: fitted.predict(many), tg.DataError, "schema")
    refuses(lambda: process.predict(graphs[0]), tg.Error, "learnt nothing")


def test_a_fit_that_fails_changes_nothing(graphs: list[tg.Graph]) -> None:
    process = MultiTaskGaussianProcess().fit(graphs[:5])
    before = process.predict(graphs[6])
    same = tg.Graph(config_feat=np.ones((3, 1)), runtime=[1.0, 2.0, 3.0])
    refuses(lambda: process.fit([same]), tg.DataError, "the same")
    assert process.predict(graphs[6]).tobytes() == before.tobytes()


def test_equal_configs_have_equal_scores(graphs: list[tg.Graph], fitted: MultiTaskGaussianProcess) -> None:
    graph = graphs[22]
    often = graph.select(np.tile(np.arange(CONFIGS), 7))
    scores = fitted.predict(often).reshape(7, CONFIGS)
    assert (scores == scores[0]).all()
    assert fitted.predict(graph, [4]) == pytest.approx(scores[0, 4])
    chosen = fitted.choose(often, CONFIGS + 3)  # all of them once, then again
    assert sorted(chosen[:CONFIGS] % CONFIGS) == list(range(CONFIGS))


def test_options_of_the_prediction_reach_the_choice() -> None:
    class Turned(tg.ranker.ScorerBase):
        kind = "graph"

        def predict(self, graph: Any, configs: Any = None, tta: int = 0, **options: Any) -> Any:
            scores = np.arange(graph.num_configs, dtype=float)
            return -scores if tta else scores

    graph = tg.Graph(config_feat=np.arange(9.0)[:, None])
    assert (Turned().rank(graph, tta=4, together=3) == Turned().rank(graph, tta=4)).all()
    assert Turned().rank(graph, together=3)[0] == 0 and Turned().rank(graph, tta=4)[0] == 8
