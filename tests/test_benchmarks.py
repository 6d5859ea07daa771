"""The benchmarks run without their peers, write what they should, and count operations as by hand."""

import gzip
import itertools
import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import tpugraphs as tg

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT))  # at the end: tpugraphs is the one under test, not the one beside us

from benchmarks import (  # noqa: E402
    any_schema,
    auto,
    bridge,
    figures,
    hlo,
    layertime_scaling,
    report,
    sections,
    timing,
    xla_cpu,
    xla_fresh,
    xla_tune,
)
from benchmarks.record import Record, Results  # noqa: E402
from benchmarks.roof import Sizes, layout_flops, milliseconds  # noqa: E402

# What it runs is sanitized in other tests already, and takes long there; the compiler it calls need not be.
smoke_test = pytest.mark.skipif(
    "libasan" in os.environ.get("LD_PRELOAD", ""), reason="times nothing under AddressSanitizer"
)


def run(*arguments):
    path = os.pathsep.join([os.environ["PYTHONPATH"], str(ROOT)])
    return subprocess.run(
        [sys.executable, "-m", "benchmarks", *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=300,
    )


@pytest.fixture(scope="module")
def smoke(tmp_path_factory):
    folder = tmp_path_factory.mktemp("benchmarks")
    done = run("--quick", "--no-peers", "--threads", 1, "--out", folder)
    assert done.returncode == 0, done.stderr
    return folder, done.stdout


# ---- the smoke run ----------------------------------------------------------------------------------------


@pytest.mark.slow
@smoke_test
def test_smoke_runs_every_section_without_peers(smoke):
    folder, _ = smoke
    results = Results.read(folder / "results.json")
    assert {record.section for record in results.records} == set(sections.NAMES)
    assert not any("Torch" in record.peer_name or "PyG" in record.peer_name for record in results.records)
    assert not any(record.reached is not None for record in results.records)  # it judges nothing
    assert all(record.ours is None or record.ours >= 0 for record in results.records)
    assert results.runs[0]["machine"]["packages"]["numpy"] == np.__version__


@smoke_test
def test_smoke_writes_markdown_and_pictures(smoke):
    folder, printed = smoke
    text = (folder / "results.md").read_text()
    assert "the figures mean nothing" in text
    for name in sections.NAMES:
        assert f"## {sections.get(name).TITLE} (`--only {name}`)" in text
        assert f"## {sections.get(name).TITLE}" in printed
    for kind in ("bars", "scaling"):
        assert (folder / f"results-{kind}.png").read_bytes().startswith(b"\x89PNG")
        assert f"(results-{kind}.png)" in text
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    assert len(rows) > 30
    assert {line.replace(r"\|", "").count("|") for line in rows} == {report.HEAD.count("|")}


@smoke_test
def test_one_section_is_merged_into_what_is_there(smoke, tmp_path):
    folder, _ = smoke
    (tmp_path / "results.json").write_text((folder / "results.json").read_text())
    before = Results.read(tmp_path / "results.json")
    quick = ("--quick", "--no-peers", "--threads", 1)
    done = run(*quick, "--only", "isa", "--merge", "--out", tmp_path, "--json")
    assert done.returncode == 0, done.stderr
    after = Results.read(tmp_path / "results.json")
    assert json.loads(done.stdout) == json.loads(after.to_json())
    assert [r.key for r in after.records] == [r.key for r in before.records]
    assert len(after.runs) == 2 and after.runs[1]["sections"][0].startswith("isa ")
    same = [a == b for a, b in zip(after.records, before.records, strict=True) if a.section != "isa"]
    assert all(same) and after.of("isa") != before.of("isa")


def test_merge_needs_something_to_merge_into(tmp_path):
    done = run("--only", "isa", "--merge", "--out", tmp_path)
    assert done.returncode == 2 and "--merge: there is no" in done.stderr


# ---- operations -------------------------------------------------------------------------------------------


def test_operations_of_a_hand_computed_model():
    # 3 nodes, 2 of them with neighbours, 1 configurable, 2 configs; width 16, so 8 columns and gates of 1
    sizes = Sizes(nodes=3, edges=2, configurable=1, configs=2, linked=2)
    first, digits = 2 * 3 * 174 * 8, 1 * 2 * 18 * 8
    second = 2 * 6 * 16 * 8
    block = 2 * 6 * 16 * 8 + 2 * 4 * 16 * 8
    gate = 2 * 6 * 8 * 1 + 2 * 6 * 1 * 8
    head = 2 * 2 * 16
    forward = first + digits + second + 2 * block + 4 * gate + head
    assert layout_flops(sizes, cross=True, width=16, training=False) == forward
    embedded = 2 * 3 * 40 * 8  # of the first layer's input only the embedded columns need a gradient
    backward = first + embedded + digits + 2 * (second + 2 * block + 4 * gate + head)
    assert layout_flops(sizes, cross=True, width=16) == forward + backward


def test_linked_nodes_are_senders_or_receivers_whichever_are_fewer():
    arrays = {
        "node_feat": np.zeros((5, 134)),
        "edge_index": np.array([[1, 0], [2, 0], [3, 4]]),
        "config_nodes": np.array([1]),
    }
    assert Sizes.of(arrays, 7) == Sizes(nodes=5, edges=3, configurable=1, configs=7, linked=2)
    assert Sizes.of(arrays | {"edge_index": np.zeros((0, 2), np.int64)}, 7).linked == 0


def test_roof_is_known_only_for_what_was_measured():
    peaks = {"f32": {"2": 2e9}}
    assert milliseconds(peaks, 1e9, "f32", 2) == 500
    assert milliseconds(peaks, 1e9, "int8", 2) is None
    assert milliseconds(peaks, 1e9, "f32", 1) is None


@pytest.mark.parametrize(("rate", "expected"), [(None, 500), (1e9, 500), (4e9, 250)])
def test_roof_of_bf16_is_the_better_of_its_instruction_and_float32(rate, expected):
    peaks = {"f32": {"2": 2e9}} | ({} if rate is None else {"bf16": {"2": rate}})
    assert milliseconds(peaks, 1e9, "bf16", 2) == expected


# ---- records and times ------------------------------------------------------------------------------------


def test_a_record_judges_itself():
    made = Record("step", "M f32", ours=2.0, peer=9.0, required=4.0, roof=1.0)
    assert (made.ratio, made.fraction, made.reached) == (4.5, 0.5, True)
    assert Record("step", "M f32", ours=2.0, peer=7.0, required=4.0).reached is False
    assert Record("step", "M f32", ours=2.0, peer=7.0, ratio=4.1, required=4.0).reached is True
    missing = Record("step", "M f32", ours=None, peer=7.0, required=4.0, roof=1.0)
    assert (missing.ratio, missing.fraction, missing.reached) == (None, None, None)


def test_a_newer_record_takes_the_place_of_the_old():
    results = Results(records=[Record("a", "x", 1.0), Record("a", "y", 2.0)])
    results.add(Record("a", "x", 3.0))
    results.add(Record("b", "x", 4.0))
    assert [(r.section, r.case, r.ours) for r in results.records] == [
        ("a", "x", 3.0),
        ("a", "y", 2.0),
        ("b", "x", 4.0),
    ]


def test_ratio_is_the_median_of_pairs_not_the_ratio_of_medians():
    times = {"ours": [1.0, 2.0, 10.0], "peer": [3.0, 2.0, 40.0]}
    assert timing.ratio(times, "ours", "peer") == 3.0
    assert timing.ratio(times, "ours", "absent") is None
    assert timing.fastest(times, ["peer", "absent", "ours"]) == "ours"


def test_sides_take_turns_and_each_begins_a_round():
    order = []
    sides = {name: lambda name=name: order.append(name) for name in "ab"}
    times = timing.race(sides, rounds=4, least=0.0)
    assert [len(times[name]) for name in "ab"] == [4, 4]
    assert (
        "".join(order) == "aabb" + "aabb" + "bbaa" + "aabb" + "bbaa"
    )  # each turn: one to warm up, one timed


def test_after_the_budget_three_rounds_are_enough():
    calls = []
    times = timing.race({"a": lambda: calls.append(1)}, rounds=50, budget=0.0, least=0.0)
    assert len(times["a"]) == 3 and len(calls) == 2 + 3 * 2


def test_pictures_of_whole_results():
    def step(case, ours, peer):
        facts = {"kind": "step", "workload": case.split()[0], "precision": "f32", "nodes": 73, "configs": 64}
        return Record("step", case, ours, peer, "PyTorch", roof=ours / 2, facts=facts)

    curve = [[[50, 1.0, 0.5], [100, 2.0, 0.77]]]
    results = Results(
        records=[
            step("S f32", 30.0, 120.0),
            step("L f32", 3000.0, None),
            Record("kernels", "tau", 1.0, 5.0, "SciPy", required=3.0),
            Record(
                "kernels",
                "dx",
                1.0,
                0.9,
                "NumPy",
                required=0.95,
                facts={"group": "products", "precision": "f32"},
            ),
            Record(
                "fit",
                "AlexNet to tau 0.76 f32",
                2.0,
                9.0,
                facts={"kind": "target", "ours": curve, "peer": curve},
            ),
            *(Record("scaling", f"threads {n}", 8.0 / n, facts={"axis": "threads", "at": n}) for n in (1, 2)),
            *(
                Record("scaling", f"nodes {n}", n, 5.0 * n, roof=n / 2, facts={"axis": "nodes", "at": n})
                for n in (1, 9)
            ),
        ]
    )
    made = figures.draw(results)
    assert set(made) == set(figures.FIGURES)
    assert all(content.startswith(b"\x89PNG") and len(content) > 5000 for content in made.values())


# ---- rankers of any schema --------------------------------------------------------------------------------


def measurements(folder):
    """Files as those of the two kernels, of a few configs; every seventh failed."""
    for kernel in any_schema.KERNELS:
        for number, device in enumerate(any_schema.DEVICES):
            results = [
                {
                    "configuration": {"x": 2 ** (i % 9), "y": 1 + i // 9, "same": 1},
                    "measurements": [{"name": "time", "value": 1 + abs(i % 9 - 4) + number / 9 + i / 1e3}],
                    "invalidity": "runtime" if i % 7 == 0 else "correct",
                }
                for i in range(300)
            ]
            with gzip.open(any_schema.path_of(folder, kernel, device), "wt") as file:
                json.dump({"results": results}, file)


def test_rankers_of_any_schema_beside_trees(tmp_path, monkeypatch, capsys):
    pytest.importorskip("lightgbm")
    measurements(tmp_path)
    arguments = ["any_schema", "--quick", "--data", tmp_path, "--out", tmp_path]
    monkeypatch.setattr(sys, "argv", [*map(str, arguments)])
    assert any_schema.main() == 0
    records = json.loads((tmp_path / "any-schema.json").read_text())["records"]
    assert [record["task"] for record in records] == ["a"] * 8 + ["b"] * 7
    assert all(
        record["best"] >= 0 and (record["tau"] is None or -1 <= record["tau"] <= 1) for record in records
    )
    text = (tmp_path / "any-schema.md").read_text()
    assert "| 210 random |" in text and "| convolution | 20 | graph-config |" in text


def test_auto_beside_its_members(tmp_path, monkeypatch, capsys):
    measurements(tmp_path)
    arguments = ["auto", "--quick", "--data", tmp_path, "--out", tmp_path]
    monkeypatch.setattr(sys, "argv", [*map(str, arguments)])
    assert auto.main() == 0
    records = json.loads((tmp_path / "auto.json").read_text())["records"]
    assert [one["objective"] for one in records] == ["first", "order"]
    for one in records:
        members = [one["values"][name] for name in one["chosen"].split(" + ")]
        if len(members) == 1:
            assert one["values"]["auto"] == members[0]
    assert "| convolution A100 |" in (tmp_path / "auto.md").read_text()
    monkeypatch.setattr(sys, "argv", ["auto", "--data", str(tmp_path / "none")])
    assert auto.main() == 2 and "no kernel_tuner" in capsys.readouterr().err


def test_how_far_it_is_behind_the_best_member():
    records = [
        {"values": {"auto": 2.0, "process": 3.0, "trees": 1.0}},
        {"values": {"auto": 4.0, "process": 4.0, "trees": 3.0}},
    ]
    assert auto.behind(records, "first") == 1.0 and auto.behind(records, "order") == 0.5


def test_any_schema_without_its_data(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["any_schema", "--data", str(tmp_path)])
    assert any_schema.main() == 0
    assert "skipped: no kernel_tuner_convolution_A100_T4.json.gz in" in capsys.readouterr().err


def test_the_best_of_the_ten_ranked_first():
    times = np.arange(100, 0, -1.0)
    assert any_schema.judged(times, times, 1.0) == {"best": 0.0, "tau": 1.0}
    assert any_schema.judged(-times, times, 1.0)["best"] == pytest.approx(9000)


# ---- protocol buffers ------------------------------------------------------------------------------------


@smoke_test
@pytest.mark.parametrize("kind", ["program", "layouts"])
def test_protocol_buffers_are_read_next_to_protobuf(kind):
    found = hlo.measure(kind, 0.2, rounds=1)
    assert found["size"] >= 200_000 and found["ours"]["nodes"] >= 400
    assert (found["ours"]["configs"] > 0) == (kind == "layouts")
    assert len(hlo.lines(kind, found)) == 3  # a fourth line would say that the graphs differ
    if found["upb"] is not None:
        assert found["upb"]["edges"] == found["ours"]["edges"]


@smoke_test
def test_programs_never_seen(tmp_path, monkeypatch, capsys):
    for name in ("jax", "lightgbm"):
        pytest.importorskip(name, reason=f"needs {name}")
    collection = "options:xla:cpu"
    kept = {name: xla_cpu.METHODS[collection][name] for name in (xla_cpu.MEAN, xla_cpu.CHOSEN)}
    monkeypatch.setattr(xla_cpu, "METHODS", {collection: kept})
    monkeypatch.setattr(sys, "argv", ["xla_cpu", "--quick", "--out", str(tmp_path)])
    assert xla_cpu.main() == 0
    found = json.loads((tmp_path / "xla_cpu.json").read_text())[collection]["found"]
    test = {graph.name for graph in tg.open_collection(collection).test}
    assert set(found["test split"][xla_cpu.CHOSEN]) == test
    five = {m: np.mean([rows[0][2] for rows in values.values()]) for m, values in found["test split"].items()}
    assert five[xla_cpu.HALF] < five[xla_cpu.CHOSEN] < five[xla_cpu.RANDOM] < five[xla_cpu.DEFAULT]
    text = (tmp_path / "xla_cpu.md").read_text()
    assert f"| {xla_cpu.CHOSEN} | 0." in text and "![Methods](xla_cpu-options.png)" in text
    assert (tmp_path / "xla_cpu-options.png").read_bytes().startswith(b"\x89PNG")


@smoke_test
@pytest.mark.slow
def test_tuning_is_replayed(tmp_path, monkeypatch, capsys):
    pytest.importorskip("jax", reason="needs jax")
    monkeypatch.setattr(sys, "argv", ["xla_tune", "--quick", "--out", str(tmp_path)])
    assert xla_tune.main() == 0
    methods = json.loads((tmp_path / "xla_tune.json").read_text())["methods"]
    gaps = {method: [row[0] for row in one["gap"]] for method, one in methods.items()}
    for method in (xla_tune.STAGES, xla_tune.SHARED, "random"):
        assert gaps[method] == sorted(gaps[method], reverse=True)  # more measurements, never worse
    assert gaps[xla_tune.SHARED][-1] <= gaps["random"][-1]
    assert "| 10 | mean gap, % | 5 |" in (tmp_path / "xla_tune.md").read_text()


@pytest.mark.slow
@smoke_test
def test_collected_gains_are_compared_with_those_of_fresh_processes(tmp_path, monkeypatch, capsys):
    pytest.importorskip("jax", reason="needs jax")
    monkeypatch.setattr(sys, "argv", ["xla_fresh", "--quick", "--out", str(tmp_path)])
    assert xla_fresh.main() == 0
    pairs = json.loads((tmp_path / "xla_fresh.json").read_text())["pairs"]
    assert 1 <= len(pairs) <= 4 and all(one["alone"][1] >= 0 for one in pairs)
    apart = [one for one in pairs if not xla_fresh.agrees(one)]
    assert (tmp_path / "xla_fresh.md").read_text().count(pairs[0]["program"]) == len(apart)


def test_pairs_that_disagree_are_listed():
    apart = {"program": "a.0", "ms": 1.0, "what": "best 1", "collected": (0.10, 0.01), "alone": (0.15, 0.01)}
    apart["halves"] = 0.10, 0.11
    close = {**apart, "program": "b.0", "alone": (0.12, 0.01), "halves": (0.0, 0.2)}
    assert not xla_fresh.agrees(apart) and xla_fresh.steady(apart)
    assert xla_fresh.agrees(close) and not xla_fresh.steady(close)
    run = {"date": "today", "cpu": "one", "cores": 2, "commit": "0"}
    found = {"run": run, "seconds": 1.0, "programs": 2, "pairs": [apart, close]}
    page = xla_fresh.markdown(found)
    assert page.count("a.0") == 1 and "b.0" not in page and page.count("50.0% of the pairs") == 2
    assert "| less than 2 ms | 2 | 50.0% | 10.5% | 14.5% | 100% |" in page


def test_processes_that_ran_again_count_like_the_first_ones():
    logs = np.random.default_rng(0).normal(size=2 * xla_fresh.PROCESSES)

    def alone(some):
        return {"alone": (some.mean(), some.std(ddof=1) / np.sqrt(len(some))), "processes": len(some)}

    found = xla_fresh.pooled(*map(alone, np.split(logs, 2)))
    assert found["alone"] == pytest.approx(alone(logs)["alone"]) and found["processes"] == len(logs)


def test_a_replay_tells_failures_and_judges_by_the_other_half():
    pytest.importorskip("jax", reason="the zoo knows the groups, and needs jax")
    repeats = np.array([[4.0, 5.0], [2.0, 3.0], [np.nan, np.nan], [2.0, 3.0], [3.0, 2.0]])
    valid = ~np.isnan(repeats[:, 0])
    graph = tg.Graph(config_feat=np.arange(5.0)[:, None], runtime=np.nan_to_num(repeats.min(1)), valid=valid,
                     repeats=repeats)  # fmt: skip
    whole, half = xla_tune.Program(graph), xla_tune.Program(graph, half=True)
    assert whole.same[1] == whole.same[3] != whole.same[4] and whole.same[2] < 0
    assert [whole.gap(row) for row in (0, 1, 4)] == [100, 0, 0]
    assert half.gap(4) == pytest.approx(100 * (2 / 3 - 1)) and np.isnan(half.times[2])
    found = xla_tune.curve(whole, iter([2, 0, 4]))
    assert found == [100, 100, 0, 0, 0]


@smoke_test
def test_folds_leave_out_groups():
    pytest.importorskip("jax", reason="the zoo knows the groups, and needs jax")
    graphs = [SimpleNamespace(name=program.name) for program in tg.xla.zoo.programs()]
    judged = []
    for learnt, left_out in xla_cpu.parts(graphs, 3):
        assert not set(xla_cpu.groups(learnt)) & set(xla_cpu.groups(left_out))
        assert xla_cpu.COMPOSED in xla_cpu.groups(learnt)
        judged += [graph.name for graph in left_out]
    assert sorted(judged) == sorted(g.name for g in graphs if not g.name.startswith("composed"))


def test_a_random_order_by_chance():
    times = np.array([3.0, 1.0, 7.0, 2.0, 9.0, 4.0, 8.0])
    graph = tg.Graph(config_feat=np.arange(7.0)[:, None], runtime=times)
    for place, count in ((1, 1), (2, xla_cpu.TRIED)):
        best = [min(some) for some in itertools.combinations(graph.runtime, count)]
        expected = 100 * (np.mean(best) / graph.runtime.min() - 1)
        assert xla_cpu.by_chance(graph)[place] == pytest.approx(expected)


# ---- speed of several GPUs ----------------------------------------------------------------------------------


def throughputs(path, slower=()):
    """A table as Gavel's, of a link of 2 GB/s without latency."""
    lines = ["device,job,workers,steps_per_second"]
    for device in ("k80", "p100"):
        for name, weights in layertime_scaling.WEIGHTS.items():
            for batch in (16, 32):
                alone = 400 / batch
                lines.append(f"{device},{name} (batch size {batch}),1,{alone}")
                for n in (2, 4, 8):
                    ms = 1000 / alone + 2 * (n - 1) / n * 4 * weights / 2e6
                    speed = 1000 * n / ms * dict(slower).get((device, name, batch, n), 1)
                    lines.append(f"{device},{name} (batch size {batch}),{n},{speed}")
    path.write_text("\n".join([*lines, "k80,CycleGAN,1,0.5", ""]))
    return layertime_scaling.read(path)


def test_scaling_is_judged_on_rows_that_were_not_learnt(tmp_path):
    rows, failed = throughputs(tmp_path / "a.csv", {("k80", "LM", 16, 8): 0})
    assert len(rows) == 2 * 4 * 2 * 3 - 1 and failed == 1
    for protocol, parts in layertime_scaling.PROTOCOLS.items():
        seen = []
        for learnt, asked in parts(rows):
            field = {"other jobs": "job", "other networks": "network", "other devices": "device"}[protocol]
            assert not {getattr(r, field) for r in learnt} & {getattr(r, field) for r in asked}
            seen += asked
        assert sorted(seen) == sorted(rows)  # each is predicted once
    together = np.array([row.together for row in rows])
    errors = {m: np.abs(f(rows, rows) / together - 1).mean() for m, f in layertime_scaling.METHODS.items()}
    assert errors["ring"] < 0.005 < errors["mean efficiency"] < errors["perfect scaling"]


def test_scaling_names_what_no_link_explains(tmp_path):
    rows, _ = throughputs(tmp_path / "a.csv")
    assert not any(layertime_scaling.impossible(rows).values())
    rows, _ = throughputs(tmp_path / "b.csv", {("p100", "LM", 32, 4): 3, ("k80", "LM", 32, 2): 0.5})
    more, shorter = layertime_scaling.impossible(rows).values()
    assert {(row.device, row.gpus) for row in more} == {("P100", 4)}
    assert {(row.device, row.gpus) for row in shorter} == {("P100", 4), ("K80", 4)}


@pytest.mark.parity
@pytest.mark.filterwarnings("ignore")
def test_bridge_and_pytorch_do_the_same_job():
    """Each row compares the results of both before it is timed."""
    pytest.importorskip("torch", reason="needs PyTorch: pip install '.[parity]'")
    rows = bridge.measure(1, small=True)
    assert {row["case"].split("`")[1] for row in rows} <= {*tg.torch.OPS, *tg.torch.LOSSES}
    page = bridge.text(rows).splitlines()
    assert sum(line.startswith("| `") for line in page) == len(rows) > 10
    assert all(line.count("|") == 7 for line in page if line.startswith("|"))
