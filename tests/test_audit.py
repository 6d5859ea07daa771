"""Audit of measured graphs: duplicates, noise, level shifts, modes, files to leave out."""

from __future__ import annotations

import gc
import json
import weakref

import madeup
import numpy as np
import pytest
from rankers import small_graph, small_tile
from refusals import refuses
from test_distributed import finished, start, together

import tpugraphs as tg
from tpugraphs import _core, cli
from tpugraphs.data import auditing, collections, corrupt


def repeated(n=4000, distinct=1500, noise=3e-4, seed=0, change=None, **changes):
    """A graph whose configs come several times, with measurements that differ a little."""
    rng = np.random.default_rng(seed)
    base = small_graph(seed, configs=distinct)
    rows = rng.integers(0, distinct, n)
    level = 1e9 * np.exp(0.3 * rng.normal(size=distinct))
    runtime = level[rows] * np.exp(noise * rng.normal(size=n))
    if change is not None:
        runtime *= np.exp(change(np.arange(n), rng))
    return base.select(rows).replace(config_runtime=runtime.astype(np.int64), **changes)


def kinds(graph):
    (found,) = tg.audit(graph).graphs
    return [finding.kind for finding in found.findings]


def only(graph):
    (found,) = tg.audit(graph).graphs
    return found


def test_counts_and_noise_against_a_plain_loop():
    graph = repeated(300, 80, noise=0.01)
    found = only(graph)
    runs = {}
    for digits, time in zip(graph.config_digits, graph.config_runtime, strict=True):
        runs.setdefault(digits.tobytes(), []).append(int(time))
    spread = [max(times) / min(times) - 1 for times in runs.values() if len(times) > 1]
    assert (found.configs, found.distinct) == (300, len(runs))
    assert found.largest == max(map(len, runs.values()))
    assert found.noise_median == pytest.approx(np.median(spread), rel=1e-9)
    assert found.noise_max == pytest.approx(max(spread), rel=1e-9)


def test_tile_noise_is_of_normalised_runtimes():
    graph = small_tile(configs=10).select([*range(10), 3])
    runtimes, normalizers = graph.config_runtime.copy(), graph.config_runtime_normalizers.copy()
    runtimes[-1], normalizers[-1] = runtimes[3] * 3, normalizers[3] * 2
    graph = graph.replace(config_runtime=runtimes, config_runtime_normalizers=normalizers)
    _, inverse = graph.distinct_configs()
    pair = np.flatnonzero(inverse == np.bincount(inverse).argmax())
    y = graph.config_runtime[pair] / graph.config_runtime_normalizers[pair]
    assert only(graph).noise_max == pytest.approx(y.max() / y.min() - 1, rel=1e-9)


@pytest.mark.parametrize("size", [0.002, -0.01, 0.3])
@pytest.mark.parametrize("place", [0.5, 0.618])
def test_a_level_shift_is_found_where_it_is(size, place):
    n = 4000
    graph = repeated(n, change=lambda i, rng: np.log1p(size) * (i >= place * n))
    found = only(graph)
    assert [f.kind for f in found.findings] == ["shift"]
    assert found.shift.size == pytest.approx(size, rel=0.15)
    assert abs(found.shift.row - place * n) < n / 16
    assert found.shift.error < abs(size) / 6 and not found.exclude
    assert f"near config {found.shift.row:,}" in found.findings[0].text


def test_two_shifts_and_copies_of_one_config():
    graph = repeated(change=lambda i, rng: 0.01 * ((i > 1000) & (i < 2500)))
    assert abs(only(graph).shift.size) == pytest.approx(0.01, rel=0.15)
    # as in published files: 40 copies of one config among different ones
    one = repeated(2000, 2000, noise=1e-4, seed=1)
    rows = np.arange(2000)
    rows[::50] = 7
    runtime = one.config_runtime[rows].copy()
    runtime[1000:] += runtime[1000:] // 50
    graph = one.select(rows).replace(config_runtime=runtime)
    assert only(graph).shift.size == pytest.approx(0.02, rel=0.1)


def test_noise_is_no_shift_and_no_modes():
    rng = np.random.default_rng(0)
    draws = {
        "normal": rng.normal, "laplace": rng.laplace, "cauchy": rng.standard_cauchy, "exponential": rng.exponential,
        "uniform": rng.uniform,
    }  # fmt: skip
    for draw in draws.values():
        for n, groups, times in ((40, 1, 3), (300, 100, 3), (3000, 1000, 1)):
            for _ in range(times):
                group = rng.integers(0, groups, n)
                group = group[np.bincount(group, minlength=groups)[group] > 1]
                logs = rng.normal(size=groups)[group] + 3e-4 * draw(size=group.size)
                assert _core.repeats(group, np.exp(logs))[2:] == (None, None)


def test_numbers_of_configs_are_checked():
    times = np.ones(3)
    assert (
        _core.repeats(np.array([0, 1, 2]), times) is None
        and _core.repeats(np.zeros(0, int), times[:0]) is None
    )
    assert _core.repeats(np.array([0, 1, 0]), np.array([1, np.nan, 1]))[:2] == (0, 0)
    for wrong in (-1, 3, 2**62):
        refuses(lambda: _core.repeats(np.array([0, wrong, 0]), times), tg.DataError, "group")
    with pytest.raises(tg.ShapeError):
        _core.repeats(np.zeros(2, int), times)


def test_a_slow_search_is_no_shift():
    """Later configs of a search are faster: other configs, not another machine."""
    graph = repeated(3000, 3000)
    order = np.argsort(-graph.config_runtime)
    graph = graph.select(np.repeat(order[:1000], 2))
    runtime = (graph.config_runtime * np.exp(3e-4 * np.random.default_rng(1).normal(size=2000))).astype(
        np.int64
    )
    assert only(graph.replace(config_runtime=runtime)).shift is None


def test_two_modes_are_found():
    graph = repeated(change=lambda i, rng: 0.004 * (rng.uniform(size=i.size) < 0.3))
    found = only(graph)
    assert [f.kind for f in found.findings] == ["modes"]
    assert found.modes == pytest.approx(0.004, rel=0.1) and found.shift is None


def test_alexnet_has_two_modes_65_microseconds_apart(real_sample):
    graph = real_sample("alexnet")
    found = only(graph)
    assert (found.configs, found.distinct, found.largest) == (33774, 21161, 28)
    apart = found.modes * np.median(graph.config_runtime) / 1e3
    assert 60 < apart < 70
    assert [f.kind for f in found.findings] == ["modes"] and "64 us" in found.findings[0].text
    # the modes alternate from run to run; there is no step in the file
    assert found.shift is None and found.noise_median < 0.001


def test_made_up_graphs():
    found = {name: only(madeup.graph(name)) for name in madeup.NAMES}
    assert tuple(name for name in found if found[name].exclude) == madeup.CONSTANT
    few = [name for name in found if "few-configs" in [f.kind for f in found[name].findings]]
    assert few == [*madeup.KERNELS[9:]]
    assert not found["program"].findings and found["long"].largest > 2
    # of two speeds that alternate from run to run
    assert 0 < found["long"].noise_max < 0.01 and found["long"].shift is None


def test_all_samples(real_sample):
    found = {name: only(real_sample(name)) for name in tg.list_samples()}
    assert [name for name in found if found[name].exclude] == ["tile_12", "tile_13", "tile_14"]
    few = [name for name in found if "few-configs" in [f.kind for f in found[name].findings]]
    assert few == ["tile_09", "tile_10", "tile_11", "tile_12", "tile_13", "tile_14"]
    assert not found["unet3d_train"].findings and found["unet3d_train"].distinct == 91


def test_kinds():
    base = small_graph(0, configs=30)
    assert kinds(base) == []
    assert kinds(base.select([])) == ["no-configs"]
    assert kinds(base.select([3])) == ["single-config"]
    assert kinds(base.select([3] * 20)) == ["single-config", "constant"]
    assert kinds(base.replace(config_runtime=np.full(30, 7))) == ["constant"]
    assert kinds(base.replace(config_runtime=None)) == ["placeholder"]
    assert kinds(base.replace(config_runtime=np.full(30, -1))) == ["placeholder"]
    zero = base.config_runtime.copy()
    zero[4] = 0
    assert kinds(base.replace(config_runtime=zero)) == ["zero-runtimes"]
    assert kinds(base.select(np.repeat([0, 1], 50))) == ["duplicates"]
    assert kinds(madeup.graph("kernel_11")) == ["few-configs"]
    bad = {"name": "mlperf_bert_batch_24_2x2", "collection": "layout:xla:default"}
    assert kinds(base.replace(**bad)) == ["known-corrupt"]
    assert kinds(base.replace(**{**bad, "collection": "layout:xla:random"})) == []
    any_schema = tg.Graph(config_feat=np.eye(3), runtime=[1.0, 2.0, 3.0], valid=[True, False, True])
    assert kinds(any_schema) == ["failed-configs"]
    failed = any_schema.select([1])  # a part of a graph, which could not be made alone
    assert kinds(failed) == ["single-config", "all-failed"] and tg.audit([failed]).exclude == ["graph"]
    assert only(failed).findings[1].text == "all configs failed: nothing to learn from"
    repeats = np.array([[1, 1.5, np.nan], [9, 8, 7], [3, 3.3, 3]])
    noise = only(any_schema.replace(repeats=repeats))
    assert abs(noise.noise_median - 0.3) < 1e-12 and noise.noise_max == 0.5
    every = {kind for kind in auditing._KINDS if kind not in ("unreadable", "modes", "shift")}
    assert every == {
        "no-configs", "single-config", "constant", "placeholder", "zero-runtimes", "duplicates", "few-configs",
        "known-corrupt", "failed-configs", "all-failed",
    }  # fmt: skip


@pytest.fixture
def tree(tmp_path):
    """A folder of published graphs with everything that can be wrong."""
    valid = tmp_path / "npz" / "layout" / "xla" / "default" / "valid"
    valid.mkdir(parents=True)
    good = small_graph(0, configs=12)
    for name in ("good", "mlperf_bert_batch_24_2x2", "unet_3d.4x4.bf16"):
        good.save(valid / f"{name}.npz")
    good.select([1, 1, 1]).save(valid / "same[1].npz")
    (valid / "broken.npz").write_bytes(b"PK no zip")
    (tmp_path / "npz" / "tile" / "xla" / "train").mkdir(parents=True)
    madeup.graph("kernel_00").save(tmp_path / "npz" / "tile" / "xla" / "train" / "kernel.npz")
    return tmp_path


def test_folder(tree):
    result = tg.audit(tree)
    assert [g.name for g in result.graphs] == [
        "broken", "good", "mlperf_bert_batch_24_2x2", "same[1]", "unet_3d.4x4.bf16", "kernel",
    ]  # fmt: skip
    assert result.exclude == ["known-corrupt", "broken", "same[[]1]"]
    assert {"unreadable", "known-corrupt", "single-config"} <= set(result.counts())
    text = result.table()
    assert (
        "6 graphs; 2 without findings" in text and "suggestion: exclude=['known-corrupt', 'broken'," in text
    )
    valid = tg.open_collection("layout:xla:default", tree, exclude=result.exclude).valid
    assert valid.names == ["good"]
    again = tg.audit(valid)
    assert [g.name for g in again.graphs] == ["good"] and again.graphs[0].collection == "layout:xla:default"
    assert "nothing to exclude" in again.table()
    assert [g.name for g in tg.audit(tree, exclude=result.exclude).graphs] == ["good", "kernel"]


def test_test_graphs_are_never_excluded(tree):
    """A submission must rank them, whatever is in them."""
    valid = tree / "npz" / "layout" / "xla" / "default" / "valid"
    test = valid.with_name("test")
    test.mkdir()
    one = tg.load(valid / "same[1].npz").replace(config_runtime=None)
    one.save(test / "hash.npz")
    (test / "damaged.npz").write_bytes(b"no")
    result = tg.audit(test)
    assert result.exclude == [] and result.counts() == {"unreadable": 1, "single-config": 1, "placeholder": 1}
    assert tg.audit(one).exclude == []


def test_packs(tree):
    """Of a graph with a pack beside it, the pack is looked at; the findings are the same."""
    from tpugraphs.data import packs

    file = tree / "npz" / "tile" / "xla" / "train" / "kernel.npz"
    good = tree / "npz" / "layout" / "xla" / "default" / "valid" / "good.npz"
    before = {graph.name: graph for graph in tg.audit([file, good]).graphs}
    for path in (file, good):
        packs.write(path.with_suffix(".tgpack"), tg.load(path))
    after = tg.audit(tree)
    assert len(after) == 6
    for graph in after.graphs:
        if graph.name in before:
            assert graph.file.endswith(".tgpack") and graph.findings == before[graph.name].findings
            assert graph.noise_median == before[graph.name].noise_median and graph.collection


def test_long_tables_show_what_was_found(monkeypatch):
    graphs = [small_graph(i, configs=6) for i in range(5)]
    graphs.append(small_graph(6, configs=6, name="odd", config_runtime=np.full(6, 5)))
    graphs.append(small_graph(7, configs=6, name="test", config_runtime=None))
    result = tg.audit(graphs)
    assert "small0" in result.table() and len(result) == 7
    monkeypatch.setattr(auditing, "SHOWN", 3)
    text = result.table()
    assert "odd" in text and "small0" not in text and "placeholder runtimes: 1" in text
    assert "small0" in result.table(every=True)
    assert repr(result).startswith("<Audit: 7 graphs>")


def test_one_graph_at_a_time(tree, monkeypatch):
    alive, most = weakref.WeakSet(), []

    def load(*args):
        gc.collect()
        graph = tg.data.load(*args)
        alive.add(graph)
        most.append(len(alive))
        return graph

    monkeypatch.setattr(collections, "load", load)
    tg.audit(tree)
    assert len(most) == 5 and max(most) <= 2  # the last one may live until the next is there


def repeats_of_all():
    return [
        repeated(change=lambda row, rng: 0.02 * (row > 2000), name="shifted"),
        repeated(noise=0.01, name="noisy"),
    ]


def test_ranks_find_what_one_finds(tree, tmp_path):
    alone = tg.audit([tree, *repeats_of_all()])
    for found in together(3, lambda comm: tg.audit([tree, *repeats_of_all()], communicator=comm)):
        assert found.graphs == alone.graphs
    assert any(graph.shift is not None for graph in alone.graphs)
    outs = [tmp_path / f"{size}.txt" for size in (0, 2)]
    said = []
    for size, out in zip((0, 2), outs, strict=True):
        words = [*(["-m", "tpugraphs"] if size == 0 else []), "audit", tree, "--write-exclude", out]
        code, text, err = finished(start(size, *words))
        assert code == 1, err
        said.append(text.replace(str(out), ""))
    assert outs[0].read_text() == outs[1].read_text() and said[0] == said[1]


def test_command(tree, capsys, tmp_path):
    out = tmp_path / "exclude.txt"
    assert cli.main(["audit", str(tree), "--write-exclude", str(out)]) == 1  # a file cannot be read
    text = capsys.readouterr().out
    assert "known corrupt" in text and "second place" in text and f"--exclude @{out}" in text
    lines = out.read_text().splitlines()
    assert lines[-3:] == ["known-corrupt", "broken", "same[[]1]"] and all(
        x.startswith("#") for x in lines[:-3]
    )
    assert (
        cli.main(["audit", "layout:xla:default/valid", "--root", str(tree), "--exclude", f"@{out}", "--json"])
        == 0
    )
    told = json.loads(capsys.readouterr().out)
    assert [g["name"] for g in told["graphs"]] == ["good"] and told["exclude"] == []
    assert cli.main(["inspect", "layout:xla:default/valid", "--root", str(tree), "--exclude", f"@{out}"]) == 0
    capsys.readouterr()
    assert cli.main(["audit", madeup.path("kernel_12"), "tile:xla", "--root", str(tree), "--all"]) == 0
    assert "kernel_12: one config only" in capsys.readouterr().out


@pytest.mark.parametrize(
    "argv, code, tells",
    [
        (["audit", "nowhere"], 1, "nowhere: No such file"),
        (["audit", "."], 1, "no .npz files in or below this directory"),
        (["audit", "sample:none"], 2, "no sample 'none'"),
        (["audit", "tile:xla/middle"], 2, "no split 'middle'"),
        (["audit", madeup.path("kernel_00"), "--exclude", "*"], 1, "no graphs are left"),
        (["audit", madeup.path("kernel_00"), "--exclude", "@nofile"], 1, "nofile: No such file"),
        (["audit", madeup.path("kernel_00"), "--write-exclude", "no/where"], 1, "no such directory"),
    ],
)
def test_errors(argv, code, tells, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert cli.main(argv) == code
    err = capsys.readouterr().err
    assert tells in err and err.count("\n") == 1


def test_not_a_path():
    refuses(lambda: tg.audit(3), tg.ConfigError, "found int")
    refuses(lambda: tg.audit([]), tg.DataError, "empty")


def test_the_public_name_stays_a_function():
    import tpugraphs.cli.audit
    import tpugraphs.data.auditing

    assert callable(tg.audit) and tg.audit is tpugraphs.data.auditing.audit
    assert corrupt.KEYWORD == "known-corrupt"
