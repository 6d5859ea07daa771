"""Plugs: Triton's autotuner and Kernel Tuner's strategies."""

import gzip
import json
import math
import os
import types
from pathlib import Path

import pytest
from refusals import refuses
from tuners import Sampled

import tpugraphs as tg
from tpugraphs.records import Journal
from tpugraphs.tuning import kernel_tuner as ours
from tpugraphs.tuning import triton as plug

MEASURED = Path(os.environ.get("TPUGRAPHS_DATA", Path(__file__).parents[2] / "shared" / "data"), "measured")


def time_of(row):
    return (
        (1 + abs(math.log2(row["BLOCK"] * row["num_warps"]) - 8))
        * row["M"]
        / 128
        * (2 if row["gpu"] == "b" else 1)
    )


@pytest.fixture(scope="module")
def ranker():
    """One that was trained on a table of a kernel."""
    values = [
        (m, g, b, w, s)
        for m in (128, 512)
        for g in "ab"
        for b in (16, 32, 64, 128)
        for w in (1, 2, 4, 8)
        for s in (2, 3)
    ]
    rows = [dict(zip(("M", "gpu", "BLOCK", "num_warps", "num_stages"), row, strict=True)) for row in values]
    table = {name: [row[name] for row in rows] for name in rows[0]} | {"ms": [time_of(row) for row in rows]}
    how = {"config": ["BLOCK", "num_warps", "num_stages"], "features": ["M", "gpu"], "group": ["M", "gpu"]}
    return tg.Ranker("xgboost" if "xgboost" in tg.list_recipes() else "graph-config", seed=0).fit(
        tg.from_frame(table, **how), verbose=False
    )


def arguments(block, warps, **more):
    return {
        "x_ptr": object(),
        "M": 512,
        "BLOCK": block,
        "num_warps": warps,
        "num_stages": 2,
        "num_ctas": 1,
    } | more


def test_the_model_of_a_ranker_scores_one_config(ranker):
    model = plug.perf_model(ranker, columns={"gpu": "a"})
    scores = {(b, w): model(**arguments(b, w)) for b in (16, 128) for w in (1, 2, 8)}
    table = {"BLOCK": [16, 16, 16, 128, 128, 128], "num_warps": [1, 2, 8, 1, 2, 8], "num_stages": [2] * 6}
    (graph,) = tg.from_frame(
        table | {"M": [512] * 6, "gpu": ["a"] * 6},
        config=list(table),
        features=["M", "gpu"],
        runtime=None,
        schema=ranker.schema,
    )
    assert list(scores.values()) == pytest.approx(ranker.predict(graph).tolist(), rel=1e-5)
    assert min(scores, key=scores.get) == (128, 2) and max(scores, key=scores.get) == (16, 1)


def test_models_that_cannot_be(ranker):
    wrong = tg.errors.ConfigError
    refuses(lambda: plug.perf_model(object()), wrong, "schema", "from_frame")
    refuses(lambda: plug.perf_model(tg.Ranker("first-layout")), wrong, "schema")
    refuses(lambda: plug.perf_model(ranker, columns=[1]), wrong, "columns", "list")
    refuses(lambda: plug.perf_model(ranker)(**arguments(16, 1)), wrong, "gpu", "columns=")
    refuses(
        lambda: plug.perf_model(ranker, columns={"gpu": "c"})(**arguments(16, 1)), tg.DataError, "gpu", "c"
    )
    refuses(lambda: plug.perf_model(ranker)(**arguments("x", 1, gpu="a")), tg.DataError, "BLOCK")


class Config(types.SimpleNamespace):
    """Like Triton's: hashable, with all_kwargs."""

    def __hash__(self):
        return hash(str(self))

    def all_kwargs(self):
        return dict(vars(self))


def test_the_listener_records_timings(tmp_path):
    listen = plug.listener(tmp_path / "t.jsonl", device="gpu0")
    timings = {
        Config(BLOCK=16, num_warps=1): [2.0, 1.9, 2.2],
        Config(BLOCK=32, num_warps=2): [math.inf] * 3,
        Config(BLOCK=64, num_warps=4): 1.5,
    }
    call = {
        "fn": plug.listener,
        "key": (512, "fp16"),
        "best_config": None,
        "configs_timings": timings,
        "duration": 3.0,
    }
    listen(**call, cache_hit=False)
    listen(**call, cache_hit=True)
    kept = Journal(tmp_path / "t.jsonl").read()
    assert [(r.config, r.runtimes, r.status) for r in kept] == [
        ({"BLOCK": 16, "num_warps": 1}, (2.0,), "correct"),
        ({"BLOCK": 32, "num_warps": 2}, (), "compile"),
        ({"BLOCK": 64, "num_warps": 4}, (1.5,), "correct"),
    ]
    assert {(r.problem, r.device, bool(r.time)) for r in kept} == {("listener: 512, fp16", "gpu0", True)}
    refuses(lambda: plug.listener(tmp_path / "x", device=3), tg.errors.ConfigError, "device")


def test_triton_measures_what_the_ranker_leaves_and_the_journal_has_it(ranker, tmp_path, monkeypatch):
    """Triton's own autotuner, with a benchmark that needs no device."""
    triton = pytest.importorskip("triton")
    import triton.language as tl
    from triton import knobs

    configs = [
        triton.Config({"BLOCK": b}, num_warps=w, num_stages=2)
        for b in (16, 32, 64, 128)
        for w in (1, 2, 4, 8)
    ]

    @triton.jit
    def kernel(M, BLOCK: tl.constexpr):
        pass

    measured = []
    how = {"perf_model": plug.perf_model(ranker, columns={"gpu": "a"}), "top_k": 5}
    tuner = triton.autotune(configs, key=["M"], prune_configs_by=how)(kernel)

    def bench(*args, config, **meta):
        measured.append(config)
        return [time_of(config.all_kwargs() | {"M": 512, "gpu": "a"})] * 3

    monkeypatch.setattr(tuner, "_bench", bench)
    monkeypatch.setattr(type(kernel), "run", lambda *args, **meta: None)
    monkeypatch.setattr(knobs.autotuning, "listener", plug.listener(tmp_path / "t.jsonl"))
    monkeypatch.setattr(tuner, "cache_results", False)
    tuner.run(512, grid=(1,), warmup=False)
    assert len(measured) == 5 and all(
        one.kwargs["BLOCK"] * one.num_warps in (128, 256, 512) for one in measured
    )
    kept = Journal(tmp_path / "t.jsonl").read()
    assert (
        len(kept) == 5 and kept[0].problem == "kernel: 512" and kept[0].config["BLOCK"] in (16, 32, 64, 128)
    )


RULES = [
    "block_size_x * block_size_y <= 1024",
    "use_padding == 0 or (use_shmem != 0 and block_size_x % 32 != 0)",
    "use_shmem == 0 or (block_size_x * tile_size_x + 14) * (block_size_y * tile_size_y + 14) < 12 * 1024",
]


def simulated(tmp_path, **options):
    """Kernel Tuner on a space that was measured."""
    library = pytest.importorskip("kernel_tuner")
    source = MEASURED / "kernel_tuner_convolution_A100_T1.json.gz"
    if not source.is_file():
        pytest.skip(f"needs {source.name}")
    text = gzip.open(source, "rt").read()
    (tmp_path / "cache.json").write_text(text)
    found = json.loads(text)
    strategy = ours.Strategy(make=Sampled, **options)
    results, _ = library.tune_kernel(
        found["kernel_name"], "", tuple(found["problem_size"]), [], found["tune_params"],
restrictions=RULES,
        cache=str(tmp_path / "cache.json"), simulation_mode=True, quiet=True,
        strategy=strategy, strategy_options={"max_fevals": 60},
    )  # fmt: skip
    return strategy.tuner, results, found["cache"]


@pytest.mark.parametrize("batch", [1, 7])
@pytest.mark.filterwarnings("default")
def test_kernel_tuner_asks_our_tuner(tmp_path, batch):
    tuner, results, cache = simulated(tmp_path, batch=batch, seed=3)
    assert len(results) == 60 and tuner.space.size == len(cache)
    assert tuner.given["direction"] == "minimize" and tuner.seed == 3
    asked = [str(one) for one in tuner.space.sample(10**4, 3)][:60]
    told = list(tuner.told)
    assert asked[: len(told)] == told and len(told) == 60 // batch * batch - (batch == 1)
    times = {",".join(map(str, row.values())): None for row in map(eval, told)}
    for key, (time, status) in zip(times, tuner.told.values(), strict=True):
        entry = cache[key]["time"]
        assert (time, status) == (entry, "correct") if isinstance(entry, float) else status != "correct"
    assert {status for _, status in tuner.told.values()} > {"correct"} or batch == 1


def test_strategies_that_cannot_be():
    refuses(lambda: ours.Strategy(batch=0), tg.errors.ConfigError, "batch")
    pytest.importorskip("kernel_tuner")
    two = types.SimpleNamespace(objective=["time", "energy"], objective_higher_is_better=[False, False])
    refuses(lambda: ours.Strategy().tune(None, None, two), tg.errors.ConfigError, "objective", "energy")
