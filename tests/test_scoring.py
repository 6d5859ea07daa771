"""Scoring many configs: what it may copy, what it keeps, how it stops, and its precision."""

import dataclasses
import io
import os
import signal
import subprocess
import sys
import threading
import time

import madeup
import numpy as np
import pytest
from rankers import having, networks, small_graph, small_ranker

import tpugraphs as tg
from tpugraphs import _core
from tpugraphs.network import scoring


@pytest.fixture(scope="module")
def graph():
    return small_graph()


@pytest.fixture(scope="module")
def ranker(graph):
    r = small_ranker("first-layout", steps=20)
    r.fit(graph, verbose=False)
    return r


@pytest.fixture(scope="module")
def cross(graph):
    r = small_ranker(steps=20, chunk=32)
    r.fit(graph, verbose=False)
    return r


# Configs given as digits


@pytest.mark.parametrize("which", ["ranker", "cross"])
def test_digits_score_as_the_rows_they_equal(graph, which, request):
    r = request.getfixturevalue(which)
    rows = np.array([7, 7, 80, *range(50)])
    expected, digits = r.predict(graph, rows), graph.config_digits[rows]
    strided = np.repeat(digits.astype(np.float64), 2, axis=0)[::2]
    for given in (
        digits,
        digits.astype(np.float32),
        digits.astype(">i4"),
        np.asfortranarray(digits),
        strided,
        digits.tolist(),
        graph.select(rows).node_config_feat,
    ):
        assert (r.predict(graph, given) == expected).all()
    assert (r.rank(graph, digits) == np.argsort(expected, kind="stable")).all()
    assert r.predict(graph, digits[:0]).shape == (0,)


def test_digits_are_refused_by_place(graph, ranker):
    digits = graph.config_digits[:5].copy()
    for wrong in (digits[:, :-1], digits[:, :, :-1]):
        with pytest.raises(tg.DataError, match=r"configs: expected digits \(n, 4, 18\)"):
            ranker.predict(graph, wrong)
    digits[3, 2, 1] = 6
    for dtype in (np.int8, np.float32, ">f8"):
        with pytest.raises(tg.DataError, match="6 .*3.*2.*1"):
            ranker.predict(graph, digits.astype(dtype))
    with pytest.raises(tg.ConfigError, match="row numbers"):
        ranker.evaluate(graph, digits)


def test_bad_digits_of_a_strided_array_are_found_beyond_the_first_block(graph, ranker):
    """A block is a mebibyte."""
    few = graph.config_digits.astype(np.float32)
    digits = np.asfortranarray(np.tile(few, (50, 1, 1)))
    assert digits.nbytes > 1 << 20
    assert (ranker.predict(graph, digits)[-len(few) :] == ranker.predict(graph)).all()
    digits[4780, 1, 2] = 0.5
    with pytest.raises(tg.DataError, match=r"0\.5 at row 4780, node 1, column 2"):
        ranker.predict(graph, digits)


def test_own_digits_leave_those_of_the_file_unread(graph, ranker, tmp_path):
    path = tmp_path / "g.npz"
    graph.save(path)
    lazy = tg.load(path)
    os.unlink(path)
    assert (ranker.predict(lazy, graph.config_digits) == ranker.predict(graph)).all()
    with pytest.raises(OSError):
        ranker.predict(lazy)


def test_a_file_is_inflated_once_and_digits_are_not_copied(graph, ranker, tmp_path):
    path = tmp_path / "g.npz"
    graph.save(path)
    lazy = tg.load(path)
    ranker.predict(lazy)
    path.unlink()  # it is not read again
    ranker.predict(lazy, [1, 2])
    given = graph.config_digits.copy()
    ranker.predict(lazy, given)
    for digits, prepare in (
        (lazy._digits.stored(), lambda: ranker.pipeline.apply(lazy)),
        (given, lambda: ranker.pipeline.apply(lazy, configs=False).with_configs(given, None)),
    ):
        before = sys.getrefcount(digits)
        prepared = prepare()
        assert sys.getrefcount(digits) == before + 1 and prepared.num_configs == len(digits)


def test_memory_of_a_graph_goes_with_it(ranker):
    mine = small_graph(3)
    ranker.predict(mine)
    assert len(ranker.network.last) == 1
    del mine
    assert len(ranker.network.last) == 0


# Memory, progress, Ctrl-C

MEMORY = """
import resource, sys
import numpy as np
sys.path[:0] = {path!r}
from rankers import networks, having, small_graph, small_ranker
import tpugraphs as tg

g = small_graph(nodes=60, config_nodes=60, config_runtime=np.arange(1, 97))
r = small_ranker({recipe!r}, steps=1, chunk=64, **having({recipe!r}, prune="none"))
r.fit(g, verbose=False)
digits = np.random.default_rng(0).integers(-1, 6, ({configs}, 60, 18), dtype=np.int8)
r.predict(g, digits[:200])
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
r.predict(g, digits)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.slow
@pytest.mark.parametrize("recipe", networks("layout"))
def test_memory_does_not_grow_with_the_number_of_configs(recipe):
    code = MEMORY.format(path=[os.path.dirname(__file__)], recipe=recipe, configs=20_000)
    grown = int(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True).stdout)
    assert grown < 8192  # kB; the digits are 21,600 kB, one float per config and node would be 4,800 kB


def test_progress_counts_all_configs(graph, ranker, monkeypatch):
    bars = []

    class Bar:
        def __init__(self, total, **how):
            self.total, self.done, self.closed = total, [], False
            bars.append(self)

        def update(self, count):
            self.done.append(count)

        def close(self):
            self.closed = True

    monkeypatch.setattr("tpugraphs.system.progress._bars", lambda: Bar)
    monkeypatch.setattr(ranker.network, "fields", dataclasses.replace(ranker.fields, chunk=10))
    count = graph.num_configs
    ranker.predict(graph, verbose=True)
    ranker.rank(graph, tta=2, verbose=True)
    assert [(bar.total, sum(bar.done)) for bar in bars] == [(count, count), (2 * count, 2 * count)]
    assert all(bar.closed and len(bar.done) >= count // 10 for bar in bars)
    ranker.predict(graph, verbose=False)
    monkeypatch.delitem(sys.modules, "ipykernel", raising=False)
    ranker.predict(graph)  # this is no terminal, and no notebook
    assert len(bars) == 2


def test_short_work_shows_no_bar(graph, ranker, monkeypatch):
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    ranker.predict(graph, verbose=True)
    assert not sys.stderr.getvalue().strip()


def test_ctrl_c_ends_a_prediction_and_the_ranker_stays_usable(ranker):
    graph = small_graph(nodes=200, config_nodes=40, config_runtime=np.arange(1, 97))
    many = np.random.default_rng(0).integers(-1, 6, (100_000, 40, 18), dtype=np.int8)
    before = ranker.predict(graph)
    pressed = []

    def press():
        pressed.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)

    timer = threading.Timer(0.3, press)
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        ranker.predict(graph, many)
    assert time.monotonic() - pressed[0] < 1
    timer.join()
    assert (ranker.predict(graph) == before).all()


# Chunks


def test_chunks_are_pinned_where_they_matter_and_small_where_not(ranker, cross):
    assert cross.model.chunk_size(512, 10_000) == 512
    sizes = [ranker.model.chunk_size(512, nodes) for nodes in (1, 73, 1000, 4000, 10_000, 10**7)]
    assert sizes == [32, 32, 8, 8, 6, 1]
    assert ranker.model.chunk_size(3, 73) == 3
    tile = tg.Ranker("first-tile")
    assert tile.model.chunk_size(512, 10_000) == 512


# Precision


def test_unknown_precisions_are_refused(graph, ranker):
    for wrong in ("int8", "fp16", None, 16):
        with pytest.raises(tg.ConfigError, match="precision: expected 'f32' or 'bf16'"):
            tg.Ranker(precision=wrong)
    with pytest.raises(tg.ConfigError, match="scoring only"):
        tg.Ranker(precision="int8")
    for wrong in ("f64", 8, ("f32",)):
        for use in (ranker.predict, ranker.rank, ranker.evaluate):
            with pytest.raises(tg.ConfigError, match="precision: expected 'f32', 'bf16' or 'int8'"):
                use(graph, precision=wrong)
    assert (ranker.predict(graph, precision="f32") == ranker.predict(graph)).all()


def test_precision_is_a_parameter_of_the_ranker():
    r = tg.Ranker(precision="bf16")
    assert (
        r.get_params()["precision"] == "bf16" and "bf16" in repr(r) and "precision" not in repr(tg.Ranker())
    )
    assert r.set_params(precision="f32").precision == "f32"


# Precision of a model's products


@pytest.fixture(scope="module")
def long():
    return madeup.graph("long").select(slice(0, 1500))


@pytest.fixture(scope="module", params=["first-layout", "first-layout-cross"])
def trained(request, long):
    """Trained so briefly that scores are close together, which is the hard case.

    Other recipes take longer until their scores differ by more than bf16 rounds.
    """
    r = tg.Ranker(request.param, **having(request.param, width=64), steps=40, learning_rate=5e-3)
    r.fit(long, verbose=False)
    return r


def test_bf16_and_int8_scores_follow_f32(long, trained):
    exact = trained.predict(long).astype(np.float64)
    for precision, error, least in (("bf16", 0.03, 0.97), ("int8", 0.1, 0.93)):
        scores = trained.predict(long, precision=precision)
        assert scores.dtype == np.float32 and not (scores == exact).all()
        assert np.linalg.norm(scores - exact) < error * np.linalg.norm(exact - exact.mean())
        assert tg.metrics.spearman(scores, np.argsort(np.argsort(exact)) + 1) > least
        assert (trained.rank(long, precision=precision) == np.argsort(scores, kind="stable")).all()
    tau = [tg.metrics.kendall_tau(exact, long.config_runtime)]
    report = trained.evaluate(long, precision="int8")
    assert abs(report.rows[0].values["tau"] - tau[0]) < 0.01


@pytest.mark.parametrize("precision", scoring.SCORING)
def test_precision_keeps_bits_over_threads_and_nearly_over_levels(long, trained, precision):
    rows = np.arange(200)
    first = trained.predict(long, rows, precision=precision)
    for count in (1, 2, 3):
        tg.set_num_threads(count)
        assert (trained.predict(long, rows, precision=precision) == first).all()
    spread = np.linalg.norm(first - first.mean())
    for level in _core.isa_levels():
        _core.set_isa(level)
        scores = trained.predict(long, rows, precision=precision)
        # Where a sum is rounded otherwise, the rounding of the next operand may go the other way.
        limit = {"f32": 1e-4, "bf16": 0.02, "int8": 0.05}[precision]
        assert np.linalg.norm(scores - first) < limit * spread, level


@pytest.mark.slow
def test_a_ranker_trains_in_bf16(long, trained, tmp_path):
    given = {**trained.get_params(), "precision": "bf16"}
    r, again = tg.Ranker(**given), tg.Ranker(**given)
    history = r.fit(long, verbose=False).history_
    assert np.mean(history.loss[-5:]) < np.mean(history.loss[:3])
    assert (
        np.allclose(history.loss, trained.history_.loss, rtol=0.15) and history.loss != trained.history_.loss
    )
    tg.set_num_threads(1)
    again.fit(long, verbose=False)
    assert (again.model.params == r.model.params).all()
    scores = r.predict(long)
    assert (scores == r.predict(long, precision="bf16")).all()
    assert not (scores == r.predict(long, precision="f32")).all()
    r.save(tmp_path / "r.safetensors")
    loaded = tg.Ranker.load(tmp_path / "r.safetensors")
    assert loaded.precision == "bf16" and (loaded.predict(long) == scores).all()
    fresh = tg.Ranker(**{**given, **having(r.recipe, dropout=0.0), "learning_rate": 1e-3})
    loss = [fresh.partial_fit(long, range(64)) for _ in range(8)]
    assert loss[-1] < loss[0]


@pytest.mark.parametrize("recipe", networks("layout"))
def test_every_recipe_scores_in_every_precision(recipe):
    graph = small_graph(1)
    r = tg.Ranker(recipe, **having(recipe, width=16, chunk=32), steps=2)
    r.fit(small_graph(0), verbose=False)
    exact = r.predict(graph)
    for precision in scoring.SCORING:
        scores = r.predict(graph, precision=precision)
        assert np.isfinite(scores).all()
        tg.set_num_threads(1)
        assert (r.predict(graph, precision=precision) == scores).all()
        tg.set_num_threads(2)
    assert (r.predict(graph, precision="f32") == exact).all()


def test_a_checkpoint_knows_its_precision(long, tmp_path):
    fields = {"width": 16, "steps": 2, "configs": 16}
    tg.Ranker(**fields).fit(long, checkpoint_dir=tmp_path, verbose=False)
    with pytest.raises(tg.CheckpointError, match="precision: 'f32' there, 'bf16' here"):
        tg.Ranker(precision="bf16", **fields).fit(long, checkpoint_dir=tmp_path, verbose=False)


def test_compare_precisions_tells_what_a_precision_costs(long, trained):
    unseen = np.arange(0, 1500, 2)
    told = scoring.compare_precisions(trained, long, unseen, k=50)
    assert list(told) == ["f32", "bf16", "int8"]
    assert told["f32"]["tau_to_f32"] == 1 and told["f32"]["overlap"] == 1
    for precision, values in told.items():
        scores = trained.predict(long, unseen, precision=precision)
        assert values["tau"] == tg.metrics.kendall_tau(scores, long.config_runtime[unseen])
        assert 0.5 < values["overlap"] <= 1 and values["tau_to_f32"] > 0.7
    bare = long.replace(config_runtime=np.zeros(1500, np.int64))
    assert scoring.compare_precisions(trained, bare, unseen)["int8"]["tau"] is None


def test_compare_precisions_leaves_failed_configs_out_of_tau():
    rng = np.random.default_rng(0)
    features, valid = rng.standard_normal((40, 3)).astype(np.float32), np.arange(40) % 7 != 3
    runtime = np.where(valid, 1 + np.exp(features[:, 0]), np.nan)
    g = tg.Graph(config_feat=features, runtime=runtime, valid=valid)
    r = tg.Ranker("graph-config", steps=5)
    r.fit(g, verbose=False)
    for configs in (None, np.arange(30), np.arange(40) < 20):
        rows = g.row_numbers(configs)
        told, scores = scoring.compare_precisions(r, g, configs, k=5), r.predict(g, rows)
        ran = valid[rows]
        assert told["f32"]["tau"] == tg.metrics.kendall_tau(scores[ran], runtime[rows[ran]])
        assert told["f32"]["tau_to_f32"] == told["f32"]["overlap"] == 1
    assert scoring.compare_precisions(r, g, np.flatnonzero(~valid))["int8"]["tau"] is None
