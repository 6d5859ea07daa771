"""Gaussian processes over the columns of configs: what they predict, and which configs they choose."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rankers import small_tile
from refusals import refuses

import tpugraphs as tg
from tpugraphs import _core
from tpugraphs.ranker import GaussianProcess, RandomBaseline, Scorer, process
from tpugraphs.system import tensorfile


def table(configs: int = 300, seed: int = 0, **changes: Any) -> tg.Graph:
    """Configs of a kernel, the fastest at (4, 4) and, a little slower, at (64, 12)."""
    rng = np.random.default_rng(seed)
    x = np.stack(
        [2.0 ** rng.integers(0, 9, configs), rng.integers(1, 16, configs), rng.normal(size=configs)], 1
    )
    near = np.abs(np.log2(x[:, 0]) - 2) + np.abs(x[:, 1] - 4) / 4
    far = np.abs(np.log2(x[:, 0]) - 6) + np.abs(x[:, 1] - 12) / 4
    given = {"config_feat": x, "runtime": 1 + np.minimum(near, far + 0.1), "name": "table"}
    return tg.Graph(**{**given, **changes})


@pytest.fixture(scope="module")
def graph() -> tg.Graph:
    return table()


@pytest.fixture(scope="module")
def fitted(graph: tg.Graph) -> GaussianProcess:
    return GaussianProcess().fit(graph, range(80))


def test_it_learns_a_table(graph: tg.Graph, fitted: GaussianProcess) -> None:
    others = np.arange(80, 300)
    assert isinstance(fitted, Scorer) and fitted.fitted and fitted.kind == "graph"
    assert tg.metrics.kendall_tau(fitted.predict(graph, others), graph.runtime[others]) > 0.75
    # Rows that were learnt are nearly interpolated, and of these it is sure.
    assert tg.metrics.kendall_tau(fitted.predict(graph, range(80)), graph.runtime[:80]) > 0.9
    known, unknown = (
        fitted._spread(graph, fitted._columns(graph, rows))[1] for rows in (np.arange(80), others)
    )
    assert known.mean() < 0.7 * unknown.mean()
    assert fitted.evaluate(graph, draws=5).rows[0].scorer == "gaussian-process"


def test_mean_and_deviation_are_those_of_the_formulas(graph: tg.Graph, fitted: GaussianProcess) -> None:
    learnt = fitted.learnt
    rows = fitted._columns(graph, np.arange(90, 99))
    x, z = learnt["x"], (rows[:, learnt["column"]] - learnt["mean"]) / learnt["scale"]

    def covariance(a: Any, b: Any) -> Any:
        away = np.linalg.norm((a[:, None] - b) * np.exp(learnt["logs"][:-2]), axis=2) * np.sqrt(3)
        return np.exp(learnt["logs"][-2]) * (1 + away) * np.exp(-away)

    noise = np.exp(learnt["logs"][-1]) + process._FLOOR
    inverse = np.linalg.inv(covariance(x, x) + noise * np.eye(len(x)))
    cross = covariance(z, x)
    mean, deviation = fitted._spread(graph, fitted._columns(graph, np.arange(90, 99)))
    assert mean == pytest.approx(cross @ inverse @ learnt["y"], abs=1e-6)
    left = np.diag(covariance(z, z) - cross @ inverse @ cross.T)
    assert deviation == pytest.approx(np.sqrt(left), abs=1e-5)
    assert fitted.predict(graph, range(90, 99)) == pytest.approx(mean, abs=1e-12)


def test_the_slope_is_that_of_the_posterior() -> None:
    rng = np.random.default_rng(3)
    x, y, logs = rng.normal(size=(12, 3)), rng.normal(size=12), rng.normal(size=5) / 3
    prior = process._Prior(np.full(5, -0.5), np.full(5, 0.8))

    def value(logs: Any) -> float:
        covariance = process._matern(x, x, logs)[0] + (np.exp(logs[-1]) + process._FLOOR) * np.eye(12)
        _, logdet = np.linalg.slogdet(covariance)
        fit = 0.5 * y @ np.linalg.solve(covariance, y) + 0.5 * logdet
        return float(fit + 0.5 * (((logs - prior.mean) / prior.spread) ** 2).sum())

    steps = 1e-5 * np.eye(5)
    expected = [(value(logs + step) - value(logs - step)) / 2e-5 for step in steps]
    assert process._slope(x, y, logs, prior) == pytest.approx(expected, rel=1e-5, abs=1e-6)
    assert np.abs(process._slope(x, y, process._search(x, y, prior), prior)).max() < 0.05


def uniforms(seed: int, rows: int, columns: int) -> Any:
    """Of csrc/base/rng.h: SplitMix64's finaliser of a key for each row and the number of the draw."""
    golden = np.uint64(0x9E3779B97F4A7C15)

    def mixed(x: Any) -> Any:
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return x ^ (x >> np.uint64(31))

    with np.errstate(over="ignore"):
        keys = mixed(np.uint64(seed) + golden * (np.arange(rows, dtype=np.uint64) + np.uint64(1)))
        drawn = mixed(keys[:, None] ^ mixed(np.arange(columns, dtype=np.uint64) + golden))
    return (drawn >> np.uint64(11)).astype(np.float64) * 2.0**-53


def together(samples: Any, count: int, weights: Any = None) -> list[int]:
    chosen: list[int] = []
    for _ in range(count):
        value = np.average(np.minimum(samples, samples[chosen].min(0, initial=np.inf)), 1, weights)
        value[chosen] = np.inf
        chosen.append(int(value.argmin()))
    return chosen


@pytest.mark.parametrize("samples", [1, 6, 301])
def test_configs_are_chosen_together_as_by_a_plain_loop(samples: int) -> None:
    rng = np.random.default_rng(samples)
    values, weights = rng.normal(size=(70, samples)), rng.uniform(size=samples)
    assert list(_core.fastest_together(values, 9, None)) == together(values, 9)
    assert list(_core.fastest_together(values, 9, weights)) == together(values, 9, weights)
    root, mean = rng.normal(size=(70, 70)), rng.normal(size=70)
    covariance = root @ root.T / 70
    factor = np.linalg.cholesky(covariance + 1e-6 * covariance.diagonal().max() * np.eye(70))
    drawn = uniforms(5, 70, samples + samples % 2)
    away, angle = np.sqrt(-2 * np.log(1 - drawn[:, ::2])), 2 * np.pi * drawn[:, 1::2]
    normal = np.stack([away * np.cos(angle), away * np.sin(angle)], 2).reshape(70, -1)[:, :samples]
    expected = together(mean[:, None] + factor @ normal, 9)
    before = tg.get_num_threads()
    for threads in (1, 3, before):
        tg.set_num_threads(threads)
        assert list(_core.normal_together(mean, covariance, samples, 5, 9)) == expected
    if samples > 300:
        assert abs(normal.mean()) < 0.02 and abs(normal.std() - 1) < 0.02


def test_what_cannot_be_chosen_together() -> None:
    values = np.zeros((3, 2))
    for count in (-1, 4):
        with pytest.raises(ValueError, match=r"expected 0\.\.3 configs"):
            _core.fastest_together(values, count, None)
    assert _core.fastest_together(values, 0, None).size == 0
    for odd in (np.nan, np.inf, -np.inf):  # no number is expected of these, but each is chosen once
        values = np.array([[odd, -odd], [odd, odd], [1.0, 2.0]])
        assert sorted(_core.fastest_together(values, 3, np.array([0.0, 1.0]))) == [0, 1, 2]
    for samples in (0, 1 << 60):
        with pytest.raises(ValueError, match=r"of 1\.\.1048576 samples"):
            _core.normal_together(np.zeros(1), np.eye(1), samples, 0, 1)
    with pytest.raises(tg.DataError, match="covariance: expected a definite one"):
        _core.normal_together(np.zeros(2), np.array([[1.0, 2.0], [2.0, 1.0]]), 4, 0, 1)


def test_it_chooses_configs_that_differ(graph: tg.Graph) -> None:
    """Of equal configs none but the first is worth a measurement; in the order they follow each other."""
    rows = np.arange(80, 300)
    twice = tg.Graph(
        config_feat=np.repeat(graph.config_feat[rows], 5, axis=0), runtime=np.repeat(graph.runtime[rows], 5),
        schema=graph.schema, name="twice",
    )  # fmt: skip
    made = GaussianProcess().fit(graph, range(20))
    ranked = twice.config_feat[made.rank(twice)[:10]]
    chosen = twice.config_feat[made.choose(twice, 10)]
    assert len(np.unique(ranked, axis=0)) <= 3 < 9 <= len(np.unique(chosen, axis=0))


def test_what_is_chosen_are_positions(graph: tg.Graph, fitted: GaussianProcess) -> None:
    rows = np.arange(100, 130)
    found = fitted.choose(graph, 10, rows)
    assert found.dtype == np.int64 and len(set(found)) == 10 and found.max() < 30
    assert (found == fitted.choose(graph, 10, rows)).all()
    assert sorted(fitted.choose(graph, 99, rows)) == list(range(30))
    assert graph.runtime[rows[found]].min() == graph.runtime[rows].min()
    baseline = RandomBaseline()  # others choose the first of their order
    assert (baseline.choose(graph, 4, rows) == baseline.rank(graph, rows)[:4]).all()
    for count in (0, True, 2.5, None):
        for scorer in (fitted, baseline):
            refuses(lambda: scorer.choose(graph, count), tg.ConfigError, "count")


def test_configs_are_chosen_around_the_scores_of_another_ranker(
    graph: tg.Graph, fitted: GaussianProcess
) -> None:
    rows = np.arange(100, 130)
    own = fitted.predict(graph, rows).astype(np.float64)
    turned = fitted.choose(graph, 10, rows, scores=-own)
    assert (fitted.choose(graph, 10, rows, scores=5 - 3 * own) == turned).all()  # of any scale
    assert own[turned].mean() > own.mean() > own[fitted.choose(graph, 10, rows, scores=own)].mean()
    assert len(set(fitted.choose(graph, 10, rows, scores=np.zeros(30)))) == 10
    for bad in (own[1:], own[:, None], np.full(30, np.nan)):
        refuses(lambda: fitted.choose(graph, 10, rows, scores=bad), tg.ConfigError, "scores", "each of 30")


def test_a_process_chooses_for_its_ensemble(graph: tg.Graph, fitted: GaussianProcess) -> None:
    rows, other = np.arange(100, 130), RandomBaseline(seed=3)
    ensemble = tg.Ensemble([other, fitted], normalize="rank")
    chosen = fitted.choose(graph, 6, rows, scores=ensemble.predict(graph, rows))
    assert (ensemble.choose(graph, 6, rows) == chosen).all()
    alone = tg.Ensemble([other, fitted], weights=[1, 0], normalize="rank")  # no say, no choice
    assert (alone.choose(graph, 6, rows) == other.rank(graph, rows)[:6]).all()


def test_scores_of_another_ranker_are_a_column(graph: tg.Graph, tmp_path: Path) -> None:
    other = tg.Ranker("graph-config", steps=150, width=32, seed=1)
    other.fit(table(400, seed=1), verbose=False)
    rows, rest = range(12), np.arange(12, 300)
    made = GaussianProcess(other, spread=0.3).fit(graph, rows)
    tau = {
        name: tg.metrics.kendall_tau(one.predict(graph, rest), graph.runtime[rest])
        for name, one in {"alone": GaussianProcess(spread=0.3).fit(graph, rows), "with": made}.items()
    }
    assert tau["with"] > tau["alone"] + 0.05
    made.save(tmp_path / "p.safetensors")
    again = tg.load_ranker(tmp_path / "p.safetensors")
    assert again.predict(graph).tobytes() == made.predict(graph).tobytes()
    assert (again.choose(graph) == made.choose(graph)).all() and again.base.recipe == "graph-config"


def test_files(graph: tg.Graph, fitted: GaussianProcess, tmp_path: Path) -> None:
    path = tmp_path / "p.safetensors"
    refuses(lambda: GaussianProcess().save(path), tg.Error, "learnt nothing")
    fitted.save(path)
    again = tg.load_ranker(path)
    assert again.predict(graph).tobytes() == fitted.predict(graph).tobytes() and again.spread == 1
    both = tg.Ensemble([again, fitted])
    assert both.predict(graph) == pytest.approx(fitted.predict(graph), rel=1e-6)
    metadata, tensors = fitted.to_file()
    for change, field in (
        ({"x": tensors["x"][:1]}, "y"), ({"column": tensors["column"] + 99}, "column"), ({"scale": 0 * tensors["scale"]}, "scale"),
        ({"logs": tensors["logs"] + np.nan}, "logs"), ({"mean": tensors["mean"][1:]}, "mean"),
        ({"x": tensors["x"].ravel()}, "x"), ({"logs": tensors["logs"] + 1000}, "x"), ({"x": 1e200 * tensors["x"]}, "x"),
        ({"scale": 1e-300 * tensors["scale"]}, "scale"),
    ):  # fmt: skip
        tensorfile.write(path, "gaussian-process", metadata, {**tensors, **change})
        with pytest.raises(tg.CheckpointError) as caught:
            tg.load_ranker(path)
        assert caught.value.field == field
    for change in ({"spread": -1.0}, {"seed": -2}, {"spread": "wide"}, {"schema": 3}, {"preprocessing": 4}):
        tensorfile.write(path, "gaussian-process", {**metadata, **change}, tensors)
        with pytest.raises(tg.CheckpointError):
            tg.load_ranker(path)


def test_what_it_refuses(graph: tg.Graph, fitted: GaussianProcess) -> None:
    digits = tg.Graph(
        node_feat=np.ones((2, 1)), node_config_ids=[1], node_config_feat=np.arange(4)[:, None, None],
        runtime=np.arange(4) + 1.0, name="digits",
    )  # fmt: skip
    failed = table(valid=np.arange(300) % 2 > 0)
    for act, kind, *names in (
        (lambda: GaussianProcess(3), tg.ConfigError, "base", "int"),
        (lambda: GaussianProcess(tg.Ranker("graph-config")), tg.ConfigError, "base", "learnt nothing"),
        (lambda: GaussianProcess(spread=0), tg.ConfigError, "spread", "got 0"),
        (lambda: GaussianProcess(spread="wide"), tg.ConfigError, "spread", "'wide'"),
        (lambda: GaussianProcess(seed=-1), tg.ConfigError, "seed", "got -1"),
        (lambda: GaussianProcess().predict(graph), tg.Error, "learnt nothing"),
        (lambda: GaussianProcess().fit(None), tg.ConfigError, "graph:", "NoneType"),
        (lambda: GaussianProcess().fit(digits), tg.DataError, "found digits"),
        (lambda: GaussianProcess().fit(table(2500)), tg.ConfigError, "2000", "2500"),
        (lambda: GaussianProcess().fit(graph, [5]), tg.DataError, "one config"),
        (lambda: GaussianProcess().fit(failed, range(9)), tg.DataError, "failed"),
        (lambda: fitted.predict(graph, graph.config_feat[:3]), tg.ConfigError, "rows", "gaussian-process"),
        (lambda: fitted.predict(small_tile()), tg.DataError, "schema"),
    ):
        refuses(act, kind, *names)
    assert GaussianProcess().fit(failed).fitted
    assert np.isfinite(GaussianProcess().fit(small_tile()).predict(small_tile())).all()
    same = GaussianProcess().fit(table(config_feat=np.ones((300, 2))))  # nothing differs: nothing is known
    assert np.ptp(same.predict(graph.replace(config_feat=np.ones((300, 2))))) == 0
