"""The yardstick of tuners: windows, baseline and score P of replayed spaces, by hand and as its authors compute them."""

import gzip
import importlib.util
import json
import math
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT))  # at the end: tpugraphs is the one under test, not the one beside us

from benchmarks import replay as yardstick  # noqa: E402
from benchmarks import tuning, tuning_peers  # noqa: E402

# Published for the same tables: evaluations at the end of the window.
WINDOWS = {
    "convolution A100": 1050, "convolution A4000": 323, "convolution A6000": 388, "convolution W6600": 8,
    "dedispersion A100": 795, "dedispersion A4000": 265, "dedispersion A6000": 397, "dedispersion W6600": 2782,
}  # fmt: skip


@pytest.fixture(scope="module")
def spaces():
    why = yardstick.missing()
    if why is not None:
        pytest.skip(why)
    return yardstick.load_spaces()


def made(count=1000, failed=100, seed=0):
    """A space of one parameter, of which some configs fail."""
    rng = np.random.default_rng(seed)
    runtimes = rng.permutation(1.0 + np.arange(count, dtype=float) ** 2 / count)
    runtimes[rng.choice(np.arange(count)[runtimes > 1], failed, replace=False)] = math.nan
    status = ["runtime" if math.isnan(t) else "correct" for t in runtimes]
    configs = [{"x": i} for i in range(count)]
    return yardstick.Measured(
        "made", "here", configs, runtimes, status, np.ones(count), {"x": list(range(count))}
    )


class Listed:
    """A tuner that asks for configs in a given order and checks what it is told."""

    def __init__(self, space, order):
        self.space, self.order, self.at = space, order, 0

    def ask(self, n):
        self.at += n
        return [self.space.configs[i] for i in self.order[self.at - n : self.at]]

    def tell(self, configs, runtimes, status):
        for config, runtime, state in zip(configs, runtimes, status, strict=True):
            assert math.isnan(runtime) == (state != "correct")
            assert self.space.status[config["x"]] == state


# ---- by hand --------------------------------------------------------------------------------------------


def test_baseline_is_the_expected_rank_of_those_that_ran():
    runtimes = np.array([5.0, math.nan, 1.0, 3.0, 2.0, 4.0])
    # after M of 5: the place round(6 M / (M + 1)) from the worst, the last at most
    assert yardstick.baseline(runtimes, range(6)).tolist() == [5.0, 2.0, 1.0, 1.0, 1.0, 1.0]


def test_window_ends_where_random_search_is_expected_to_have_come_95_percent_of_the_way():
    runtimes = np.arange(1.0, 202.0)  # median 101: the target is 6, in place 195 of 201 from the worst
    assert yardstick.window(runtimes) == (1, math.ceil(195 / 7))
    assert yardstick.window(np.array([1.0, 9.0, 10.0, 11.0])) == (0, 2)  # 0.95 is reached at 1: widened


def test_best_so_far_counts_failures_and_starts_at_the_worst():
    space = yardstick.Measured("", "", [], np.array([3.0, math.nan, 2.0, 9.0]), [], np.ones(4), {})
    assert yardstick.curve([1, 0, 2], space, 5).tolist() == [9.0, 9.0, 3.0, 2.0, 2.0, 2.0]
    assert yardstick.until_close([1, 0, 2], space) == 3
    assert yardstick.until_close([1, 0], space) == math.inf


def test_score_is_the_mean_of_repeats_and_linear():
    space = made()
    start, end = space.window
    base = yardstick.baseline(space.runtimes, np.arange(end + 1))
    half = (base + space.optimum) / 2
    assert yardstick.score_p([base, half, np.full(end + 1, space.optimum)], space) == pytest.approx(
        [0, 0.5, 1]
    )
    late = base.copy()
    late[:start] = space.worst  # outside the window
    assert yardstick.score_p(late, space) == pytest.approx([0.0])


def test_median_of_random_search_is_as_drawn():
    space = made(400, 40)
    rng = np.random.default_rng(1)
    drawn = [yardstick.until_close(rng.permutation(400), space) for _ in range(2000)]
    assert yardstick.random_until_close(space) == pytest.approx(np.median(drawn), rel=0.1)


def test_interval_holds_the_mean_of_repeats_and_of_spaces():
    scores = np.random.default_rng(0).normal(0.5, 0.2, (8, 25))
    low, high = yardstick.interval(scores[0])
    assert low < scores[0].mean() < high
    wide = high - low
    low, high = yardstick.interval(scores)
    assert low < scores.mean() < high and high - low < 0.6 * wide


# ---- replay ---------------------------------------------------------------------------------------------


def test_replay_counts_failures_and_skips_what_was_asked_before():
    space = made()
    order = [3, 3, 5, 3, 9, 5, 2]
    replayed = yardstick.replay(lambda: Listed(space, order), space, 5, batch=2)
    assert replayed.order == [3, 5, 9, 2]
    assert replayed.own > 0


@pytest.mark.parametrize("batch", [1, 7])
def test_replay_ends_after_its_evaluations(batch):
    space = made()
    order = np.random.default_rng(0).permutation(1000).tolist()
    replayed = yardstick.replay(lambda: Listed(space, order), space, batch=batch)
    assert replayed.order == order[: space.evaluations]
    assert space.window[1] <= space.evaluations < 1000


def test_runs_are_kept_and_added_to(tmp_path):
    space = made()
    path = yardstick.runs_path(tmp_path, "listed", space)
    runs = yardstick.Runs(space.evaluations)
    runs.add(yardstick.Replayed([3, 1, 2], 0.5))
    runs.write(path)
    runs = yardstick.Runs.read(path)
    runs.add(yardstick.Replayed(list(range(space.evaluations)), 1.5))
    assert len(runs) == 2 and runs.lengths.tolist() == [3, space.evaluations]
    assert runs.own.tolist() == [0.5, 1.5]
    assert runs.curves(space)[0].tolist() == yardstick.curve([3, 1, 2], space).tolist()
    assert list(tmp_path.iterdir()) == [path]


def test_time_axis_counts_evaluating_and_the_tuner_itself():
    space = made(failed=0)
    optimum = [int(np.argmin(space.runtimes))]
    order = np.array([optimum + [0] * 9], np.int32)
    assert yardstick.score_p_time(order, np.array([0.0]), space) == pytest.approx([1.0])
    late = yardstick.score_p_time(order, np.array([1e9]), space)  # found after the window
    assert late < -1
    order = np.random.default_rng(0).permutation(1000)[: space.evaluations]
    own = 0.25 * space.evaluations  # a quarter of a second each, where evaluating takes one
    start, end = space.window
    times = [start + (end - start) * i / 99 for i in range(100)]
    base = [yardstick.baseline(space.runtimes, [max(1, round(t))])[0] for t in times]
    found = [min(space.runtimes[order[: int(t / 1.25)]], default=space.worst) for t in times]
    expected = np.mean([(b - f) / (b - space.optimum) for b, f in zip(base, found, strict=True)])
    made_of = yardstick.score_p_time(order[None].astype(np.int32), np.array([own]), space, points=100)
    assert made_of == pytest.approx([expected], rel=1e-9)


# ---- the peers ------------------------------------------------------------------------------------------


def task(space, seed=0, others=(), evaluations=40):
    return tuning_peers.Task(space, list(others), seed, evaluations, 60.0)


def test_mean_order_leaves_failures_out():
    space = made(4, 0)
    first = yardstick.Measured(
        "", "a", space.configs, np.array([1.0, 2.0, 3.0, math.nan]), [], np.ones(4), space.values
    )
    second = yardstick.Measured(
        "", "b", space.configs, np.array([3.0, 1.0, math.nan, math.nan]), [], np.ones(4), space.values
    )
    assert tuning_peers.mean_order(space, [first, second]) == pytest.approx(
        [(0 + 1 / 2) / 2, (1 / 3 + 0) / 2, 2 / 3, 1]
    )
    assert tuning_peers.others_order(task(space, others=[first, second])).order == [1, 0, 2, 3]


@pytest.mark.parametrize(
    "name", [name for name, one in tuning_peers.TUNERS.items() if "kernel_tuner" not in one.needs]
)
def test_a_tuner_asks_for_each_config_once_and_repeats_itself(name):
    if need := tuning_peers.lacking(name):
        pytest.skip(f"needs {need}")
    space = made(120, 12)
    others = [replace(made(120, 12, 1), device="another")]
    runs = [tuning_peers.TUNERS[name].run(task(space, 1, others)) for _ in range(2)]
    assert runs[0].order == runs[1].order
    assert len(set(runs[0].order)) == len(runs[0].order) == 40
    assert all(0 <= row < 120 for row in runs[0].order)
    assert runs[0].own > 0


@pytest.mark.parametrize(
    "name", ["extra_trees", "tpe", "genetic_algorithm", "adaptive_tabu_greywolf", "hybrid_vndx"]
)
def test_peers_find_more_than_nothing_on_a_measured_space(spaces, name):
    if need := tuning_peers.lacking(name):
        pytest.skip(f"needs {need}")
    space = spaces[1]
    replayed = tuning_peers.TUNERS[name].run(task(space, evaluations=60))
    assert 30 <= len(set(replayed.order)) == len(replayed.order) <= 60
    assert np.nanmin(space.runtimes[replayed.order]) < np.nanmedian(space.runtimes)


# ---- the page -------------------------------------------------------------------------------------------


def measurements(folder):
    """Files as those of the two kernels, of a few configs; every seventh failed."""
    for kernel in yardstick.KERNELS:
        for number, device in enumerate(yardstick.DEVICES):
            results = [
                {
                    "configuration": {"x": 2 ** (i % 9), "y": 1 + i // 9, "same": 1},
                    "times": {"compilation": 5.0, "framework": 1.0}
                    | ({"runtimes": [1.0, 2.0]} if i % 7 else {}),
                    "measurements": [{"name": "time", "value": 1 + abs(i % 9 - 4) + number / 9 + i / 1e3}],
                    "invalidity": "correct" if i % 7 else "runtime",
                }
                for i in range(300)
            ]
            with gzip.open(yardstick.path_of(kernel, device, folder), "wt") as file:
                json.dump({"results": results}, file)


def test_page_of_a_quick_run(tmp_path, monkeypatch):
    measurements(tmp_path)
    arguments = ["tuning", "--quick", "--only", "random", "others_order", "--data", tmp_path, "--out", tmp_path / "out",
                 "--runs", tmp_path / "runs"]  # fmt: skip
    monkeypatch.setattr(sys, "argv", [*map(str, arguments)])
    assert tuning.main() == 0
    found = json.loads((tmp_path / "out" / "tuning.json").read_text())
    assert [one["tuner"] for one in found["records"]] == ["random", "others_order"]
    text = (tmp_path / "out" / "tuning.md").read_text()
    assert "| mean order, no model |" in text and "### convolution W6600" in text
    assert text.count("![") == 2
    assert all(
        (tmp_path / "out" / f"tuning-{kind}.png").read_bytes().startswith(b"\x89PNG")
        for kind in ("scratch", "records")
    )
    monkeypatch.setattr(sys, "argv", [*map(str, arguments), "--page"])
    monkeypatch.setattr(tuning, "measure", None)  # nothing runs
    assert tuning.main() == 0


def record(tuner, space, score, at_fifty=1.1, until=5, ms=1.0, spread=0.0):
    return {"tuner": tuner, "space": space, "scores": [score] * 3, "time_scores": [score] * 3, "until": [until] * 3,
            "ms": [ms] * 3, "at": [1, 50], "mean": [2.0, at_fifty], "lengths": [100] * 3,
            "few": [at_fifty - spread, at_fifty, at_fifty + spread]}  # fmt: skip


def test_goals_are_judged():
    spaces = [{"space": "a", "random": 100}, {"space": "b", "random": 20}]
    reached = [
        record("ours", "a", 0.7),
        record("ours", "b", 0.5),
        record("tpe", "a", 0.9, 1.2),
        record("tpe", "b", 0.2),
    ]
    goals = tuning.Page({"spaces": spaces, "records": reached}).goals()
    assert sum("| yes |" in line for line in goals) == 5 and not any("**no**" in line for line in goals)
    missed = [record("ours", "a", 0.7, 1.3, 51), record("ours", "b", 0.3, ms=21.0), *reached[2:]]
    goals = "\n".join(tuning.Page({"spaces": spaces, "records": missed}).goals())
    assert goals.count("**no**") == 5
    assert (
        "in all others; a 1.300, Optuna TPE 1.200 (difference 0.100 to 0.100)" in goals
        and "missed: a" in goals
        and "21.0 ms" in goals
    )
    chance = [record("ours", "a", 0.7, 1.3, spread=0.4), *reached[1:]]
    goals = "\n".join(tuning.Page({"spaces": spaces, "records": chance}).goals())
    assert "a 1.300, Optuna TPE 1.200 (difference -0.300 to 0.500)" in goals and "**no**" not in goals
    others = [record("ours_others", "a", 0.95), record("ours_others", "b", 0.5)]
    goals = "\n".join(tuning.Page({"spaces": spaces, "records": others}).goals())
    assert "0.72" in goals and "least 0.50" in goals and goals.count("**no**") == 2


def test_without_data_nothing_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["tuning", "--data", str(tmp_path)])
    assert tuning.main() == 0
    assert "skipped: no kernel_tuner_convolution_A100_T4.json.gz in" in capsys.readouterr().err


# ---- the measured spaces --------------------------------------------------------------------------------


def test_windows_are_the_published_ones(spaces):
    assert {space.name: space.window[1] for space in spaces} == WINDOWS


def test_random_search_scores_0_and_the_optimum_at_once_1(spaces):
    means = {}
    for space in spaces:
        rng = np.random.default_rng(0)
        curves = [yardstick.curve(rng.permutation(len(space.runtimes)), space) for _ in range(200)]
        means[space.name] = yardstick.score_p(curves, space).mean()
        first = yardstick.curve([int(np.nanargmin(space.runtimes))], space)
        assert yardstick.score_p(first, space) == pytest.approx([1.0])
    # The baseline is the runtime of the mean rank, not the mean runtime: in a window of 8 evaluations that differs.
    assert -1.5 < means.pop("convolution W6600") < -0.5
    assert all(abs(mean) < 0.3 for mean in means.values()), means
    assert np.mean(list(means.values())) == pytest.approx(0.09, abs=0.05)


def test_codes_and_rows_are_those_of_the_configs(spaces):
    for space in spaces[::4]:
        assert len(space.rows) == len(space.configs) == len(np.unique(space.codes, axis=0))
        row = len(space.configs) // 2
        code = space.codes[row]
        assert {n: v[c] for (n, v), c in zip(space.values.items(), code, strict=True)} == space.configs[row]
        assert space.row(dict(reversed(space.configs[row].items()))) == row


@pytest.mark.skipif(
    importlib.util.find_spec("autotuning_methodology") is None, reason="no autotuning_methodology here"
)
def test_yardstick_agrees_with_its_authors(spaces, tmp_path):
    from autotuning_methodology.baseline import RandomSearchCalculatedBaseline
    from autotuning_methodology.searchspace_statistics import SearchspaceStatistics

    for space in spaces[:4]:
        path = tmp_path / "T4.json"
        path.write_bytes(gzip.decompress(yardstick.path_of(space.kernel, space.device).read_bytes()))
        theirs = SearchspaceStatistics(
            application_name=space.kernel,
            device_name=space.device,
            minimization=True,
            objective_time_keys=["compilation", "runtimes", "framework", "search_algorithm", "validation"],
            objective_performance_keys=["time"],
            full_search_space_file_path=path,
            full_validate=False,
        )
        start, end, *_ = theirs.cutoff_point_fevals_time_start_end(*yardstick.CUTOFFS)
        assert (start, end) == space.window
        fevals = np.arange(start, end + 1)
        base = RandomSearchCalculatedBaseline(theirs)
        ours = yardstick.baseline(space.runtimes, fevals)
        assert base.get_curve_over_fevals(fevals) == pytest.approx(ours, rel=1e-12)
        found = yardstick.curve(np.random.default_rng(0).permutation(len(space.runtimes)), space)
        (score,) = base.get_standardised_curves(fevals, [found[start : end + 1]], "fevals")
        assert yardstick.score_p(found, space) == pytest.approx([score.mean()], rel=1e-9)
        assert np.nanmedian(space.seconds) == pytest.approx(theirs.total_time_median(), rel=1e-9)
