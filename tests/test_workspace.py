"""Passes of several threads over one model: same bits, memory of their own, and who is refused."""

from __future__ import annotations

import contextlib
import gc
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from models import HINGE, first_layout, graph_arrays, make, rows, slate, zoo
from rankers import small_graph, small_ranker, state
from refusals import refuses

import tpugraphs as tg
from tpugraphs import _core
from tpugraphs.training import Callback

THREADS = 8
ADAMW = {"kind": "adamw", "lr": 0.0, "weight_decay": 0.0, "clip": 1.0, "step": 1}


def at_once(work: Any, count: int = THREADS) -> list[Any]:
    """Results of work(i) on so many threads that start together; their exceptions."""
    barrier = threading.Barrier(count)

    def one(i: int) -> Any:
        barrier.wait()
        return work(i)

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(count) as pool:
            return list(pool.map(one, range(count)))
    finally:
        sys.setswitchinterval(before)


class Large:
    """A model and a slate on which a pass takes about half a second."""

    def __init__(self) -> None:
        self.model = _core.Model(first_layout(), 0, 134)
        sanitized = "libasan" in os.environ.get("LD_PRELOAD", "")  # a pass takes ten times as long
        count = 16 if sanitized else 128
        self.slate = (_core.ModelGraph(**graph_arrays(1500, count, 300, 134, 0)), rows(count))
        self.small = (self.slate[0], rows(2))
        self.times = np.arange(count, dtype=np.int64)

    def score_until(self, done: threading.Event, started: threading.Event) -> None:
        started.set()
        while not done.is_set():
            self.model.scores([self.slate])


@pytest.fixture(scope="module")
def large() -> Large:
    return Large()


# ---- scoring at once --------------------------------------------------------------------------------------


@pytest.mark.parametrize("spec", ["cross", "plain", "zoo"])
def test_eight_threads_score_one_model_with_the_bits_of_one(spec: str) -> None:
    model = make(spec).model
    slates = [slate(i, 20 + 9 * i, 5 + 3 * i)[1] for i in range(THREADS)]
    expected = [model.scores([one])[0].tobytes() for one in slates]
    alone = model.memory

    def work(i: int) -> list[bytes]:
        return [model.scores([slates[(i + k) % THREADS]])[0].tobytes() for k in range(2 * THREADS)]

    for i, found in enumerate(at_once(work)):
        assert found == [expected[(i + k) % THREADS] for k in range(2 * THREADS)]
    assert alone <= model.memory <= THREADS * alone


def test_eight_threads_use_one_ranker() -> None:
    graphs = [small_graph(i) for i in range(THREADS)]
    ranker = small_ranker("first-layout-cross", steps=3)
    ranker.fit(graphs[0], verbose=False)
    expected = [ranker.predict(graph).tobytes() for graph in graphs]

    def work(i: int) -> list[bytes]:
        return [ranker.predict(graphs[(i + k) % THREADS]).tobytes() for k in range(5)]

    for i, found in enumerate(at_once(work)):
        assert found == [expected[(i + k) % THREADS] for k in range(5)]


@pytest.fixture(scope="module")
def two() -> list[tg.Ranker]:
    rankers = [small_ranker("first-layout-cross", seed=seed, steps=3) for seed in range(2)]
    for ranker in rankers:
        ranker.fit(small_graph(), verbose=False)
    return rankers


@pytest.mark.parametrize("kind", ["ensemble", "routed", "loaded"])
def test_eight_threads_use_one_scorer_of_any_kind(kind: str, two: list[tg.Ranker], tmp_path: Path) -> None:
    two[0].save(tmp_path / "x")
    made = {"ensemble": tg.Ensemble, "routed": lambda rankers: tg.Routed({"layout": rankers[1]})}
    graphs = [small_graph(i) for i in range(THREADS)]
    expected = [made.get(kind, lambda rankers: rankers[0])(two).predict(graph).tobytes() for graph in graphs]
    scorer = made[kind](two) if kind in made else tg.load_ranker(tmp_path / "x")

    def work(i: int) -> list[bytes]:
        return [scorer.predict(graphs[(i + k) % THREADS], verbose=False).tobytes() for k in range(5)]

    for i, found in enumerate(at_once(work)):
        assert found == [expected[(i + k) % THREADS] for k in range(5)]


def test_a_second_fit_is_refused_and_the_first_has_its_bits() -> None:
    graph, other = small_graph(0), small_graph(1)
    running, refused = threading.Event(), threading.Event()

    class Wait(Callback):
        def on_step(self, fit: Any) -> None:
            running.set()
            assert refused.wait(60)

    ranker, alone = (small_ranker(steps=4) for _ in range(2))
    options = {"callbacks": [Wait()], "verbose": False}
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(ranker.fit, graph, 0.2, **options)
        try:
            assert running.wait(60)
            for second in (
                lambda: ranker.fit(other, verbose=False),
                lambda: ranker.partial_fit(other, slice(0, 16)),
            ):
                refuses(second, tg.Error, "another thread")
        finally:
            refused.set()
        first.result()
    alone.fit(graph, 0.2, verbose=False)
    assert state(ranker) == state(alone) and ranker.history_.loss == alone.history_.loss
    ranker.fit(other, steps=1, verbose=False)  # the first is over


def test_passes_of_every_kind_at_once() -> None:
    trained, (_, one, runtimes) = make("cross"), slate()
    model, start = trained.model, [np.ones(9, np.float32)]
    trainers = [_core.Trainer(model) for _ in range(THREADS)]

    def passes(i: int) -> bytes:
        scores = model.scores([one])[0]
        slots = model.run([one], ["h1", "scores"])
        moved = model.input_gradients([one], start, ["node_feat", "digits"])[1]
        trainers[i].gradients([one], [runtimes], HINGE)
        arrays = [scores, slots["h1"][0], moved["node_feat"][0], moved["digits"][0], trainers[i].grads]
        return b"".join(array.tobytes() for array in arrays)

    expected = passes(0)
    assert set(at_once(lambda i: b"".join(passes(i) for _ in range(3)))) == {3 * expected}


# ---- workspaces -------------------------------------------------------------------------------------------


def test_a_workspace_serves_several_models() -> None:
    workspace, models = _core.Workspace(), [make("cross").model, make("zoo").model, make("plain").model]
    assert workspace.memory == 0
    for size in (5, 9, 3):
        _, one, _ = slate(size, nodes=10 * size, configs=size, k=3)
        for model in models:
            got = model.scores([one], workspace=workspace)[0]
            assert got.tobytes() == model.scores([one])[0].tobytes()
            run = model.run([one], ["scores"], workspace=workspace)["scores"][0]
            assert np.allclose(run[:, 0], got, rtol=1e-5, atol=1e-6)
    assert workspace.memory > 0
    for wrong in (3, "workspace", models[0]):
        refuses(lambda: models[0].scores([one], workspace=wrong), TypeError, "Workspace")


def test_a_workspace_given_is_the_one_that_is_used() -> None:
    model, (_, one, runtimes) = make("cross").model, slate()
    trainer = _core.Trainer(model, workspace=(workspace := _core.Workspace()))
    trainer.gradients([one], [runtimes], HINGE)
    assert model.memory == 0 and workspace.memory == model.bytes([one])


def test_one_pass_at_a_time_runs_in_a_workspace(large: Large) -> None:
    workspace, done = _core.Workspace(), threading.Event()
    large.model.scores([large.small], workspace=workspace)

    def work() -> None:
        while not done.is_set():
            try:
                large.model.scores([large.slate], workspace=workspace)
            except RuntimeError:
                pass

    worker = threading.Thread(target=work)
    worker.start()
    try:
        with pytest.raises(RuntimeError, match="workspace is in use by another thread"):
            for _ in range(2000):
                large.model.scores([large.small], workspace=workspace)
                time.sleep(1e-3)
    finally:
        done.set()
        worker.join()
    assert large.model.scores([large.small], workspace=workspace)[0].shape == (2,)


def test_models_share_their_working_memory() -> None:
    a, b = make("cross").model, make("cross").model
    _, one, _ = slate()
    expected = a.scores([one])[0].tobytes()
    held = a.memory
    assert held > 0 and b.memory == 0
    b.share_memory(a)
    assert a.memory == b.memory == held
    assert b.scores([one])[0].tobytes() == expected
    assert a.memory == b.memory == held  # nothing more
    a.share_memory(b)
    a.share_memory(a)
    assert a.scores([one])[0].tobytes() == expected and a.memory == held
    del a
    assert b.scores([one])[0].tobytes() == expected and b.memory == held
    with pytest.raises(TypeError):
        b.share_memory(None)


def test_a_profile_is_that_of_the_models_own_pass() -> None:
    a, b = make("cross").model, make("zoo").model
    b.share_memory(a)
    _, one, _ = slate()
    a.scores([one])
    assert a.profile and b.profile == []
    b.scores([one])
    assert {name for _, name, _ in b.profile} <= {"pre", "nodes", "config", *(s["name"] for s in zoo())}
    assert a.profile == []


def test_a_pass_while_a_profile_is_read_does_not_change_it() -> None:
    """Making a list may run the garbage collector, which may run anything."""
    model, (_, one, _) = make("cross").model, slate()
    other = slate(3, nodes=60, configs=9, k=3)[1]
    model.scores([one])
    before, runs = model.profile, 0
    used_up = [(i, i, i) for i in range(5000)], [[] for _ in range(200)]  # no spare ones are left

    def collecting(phase: str, info: dict[str, int]) -> None:
        nonlocal runs
        if phase == "start":
            runs += 1
            model.scores([other])

    threshold = gc.get_threshold()
    gc.callbacks.append(collecting)
    try:
        gc.set_threshold(1)
        during = model.profile
    finally:
        gc.set_threshold(*threshold)
        gc.callbacks.remove(collecting)
    assert during == before and used_up
    assert runs or sys.version_info >= (3, 12)  # where it waits until the core has returned


# ---- updates ----------------------------------------------------------------------------------------------


def test_a_step_while_others_score_is_refused(large: Large) -> None:
    trainer = _core.Trainer(large.model)
    trainer.step([large.small], [large.times[:2]], HINGE, ADAMW)
    before = [v.tobytes() for v in (large.model.params, trainer.moment1, trainer.moment2)]
    done, started = threading.Event(), threading.Event()
    worker = threading.Thread(target=large.score_until, args=(done, started))
    worker.start()
    started.wait()
    refused = 0
    optimizer = {**ADAMW, "lr": 1e-2, "step": 2}
    try:
        for use in (
            lambda: trainer.step([large.small], [large.times[:2]], HINGE, optimizer),
            lambda: trainer.update(optimizer),
        ):
            end = time.monotonic() + 30
            while time.monotonic() < end:
                kept = [v.copy() for v in (large.model.params, trainer.moment1, trainer.moment2)]
                try:
                    use()
                except RuntimeError as error:
                    assert "in use by another thread" in str(error)
                    refused += 1
                    break
                for vector, value in zip(
                    (large.model.params, trainer.moment1, trainer.moment2), kept, strict=True
                ):
                    vector[:] = value  # it ran between two passes
        assert refused == 2
        trainer.gradients([large.small], [large.times[:2]], HINGE)  # which updates nothing, may go on
        large.model.scores([large.small])
    finally:
        done.set()
        worker.join()
    assert [v.tobytes() for v in (large.model.params, trainer.moment1, trainer.moment2)] == before
    trainer.step([large.small], [large.times[:2]], HINGE, optimizer)


def is_refused_meanwhile(work: Callable[[], Any], use: Callable[[], Any], words: str) -> None:
    """`use` is refused at some moment while another thread is at `work`, and not after it."""
    done = threading.Event()

    def keep_on() -> None:
        while not done.is_set():
            with contextlib.suppress(RuntimeError):  # it is refused too, while `use` runs
                work()

    worker = threading.Thread(target=keep_on)
    worker.start()
    try:
        with pytest.raises(RuntimeError, match=words):
            end = time.monotonic() + 30
            while time.monotonic() < end:
                use()
                time.sleep(1e-3)
    finally:
        done.set()
        worker.join()
    use()


def test_scoring_while_a_step_runs_is_refused(large: Large) -> None:
    trainer = _core.Trainer(large.model)
    is_refused_meanwhile(
        lambda: trainer.step([large.slate], [large.times], HINGE, ADAMW),
        lambda: large.model.scores([large.small]),
        "weights cannot be read while they are updated",
    )


def test_a_trainer_is_used_by_one_thread_at_a_time(large: Large) -> None:
    trainer = _core.Trainer(large.model)
    is_refused_meanwhile(
        lambda: trainer.gradients([large.slate], [large.times], HINGE),
        lambda: trainer.gradients([large.small], [large.times[:2]], HINGE),
        "trainer is in use by another thread",
    )


# ---- cancelling -------------------------------------------------------------------------------------------


def test_cancel_ends_the_passes_of_all_other_threads(large: Large) -> None:
    model = large.model
    model.cancel()  # nothing is running: forgotten
    model.scores([large.small])
    trainers = [_core.Trainer(model) for _ in range(2)]
    before, ended = model.params.tobytes(), []

    def work(i: int) -> None:
        try:
            for _ in range(100):
                if i < 2:
                    trainers[i].gradients([large.slate], [large.times], HINGE)
                else:
                    model.scores([large.slate])
        except KeyboardInterrupt:
            ended.append(i)

    workers = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for worker in workers:
        worker.start()
    while any(worker.is_alive() for worker in workers):
        model.cancel()
        time.sleep(0.02)
    assert sorted(ended) == [0, 1, 2, 3] and model.params.tobytes() == before
    model.scores([large.small])
    trainers[0].gradients([large.small], [large.times[:2]], HINGE)


# ---- processes --------------------------------------------------------------------------------------------

FORK = """
import os, sys, threading, warnings
warnings.simplefilter("ignore")
import numpy as np
from tpugraphs import _core
from models import HINGE, first_layout, graph_arrays, rows

model = _core.Model(first_layout(), 0, 134)
graph = _core.ModelGraph(**graph_arrays(400, 64, 80, 134, 0))
large, small, times = (graph, rows(64)), (graph, rows(5)), np.arange(64)
trainer, other = _core.Trainer(model), _core.Trainer(model)
workspace, done = _core.Workspace(), threading.Event()
optimizer = {"kind": "adamw", "lr": 1e-3, "weight_decay": 0.0, "clip": 1.0, "step": 1}
expected = model.scores([small])[0].tobytes()

def passes(use):
    while not done.is_set():
        use()

uses = (lambda: model.scores([large]), lambda: model.scores([large], workspace=workspace),
        lambda: trainer.gradients([large], [times], HINGE))
threads = [threading.Thread(target=passes, args=(use,)) for use in uses]
for thread in threads:
    thread.start()
codes = []
for _ in range(6):
    child = os.fork()
    if child == 0:  # none of those threads is here, and nothing of theirs is in the way
        same = model.scores([small])[0].tobytes() == expected
        same &= model.scores([small], workspace=workspace)[0].tobytes() == expected
        trainer.gradients([small], [times[:5]], HINGE)
        trainer.step([small], [times[:5]], HINGE, optimizer)
        changed = model.scores([small])[0].tobytes() != expected
        os._exit(0 if same and changed else 3)
    codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
done.set()
for thread in threads:
    thread.join()
print(codes, model.scores([small])[0].tobytes() == expected)
"""


def test_a_fork_while_passes_run() -> None:
    path = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", ""), *sys.path])
    done = subprocess.run(
        [sys.executable, "-c", FORK],
        env={**os.environ, "PYTHONPATH": path, "TPUGRAPHS_NUM_THREADS": "2"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[0] == f"{[0] * 6} True"


def test_a_pool_of_forked_workers_scores_with_one_ranker(tmp_path: Path) -> None:
    code = """
import multiprocessing, sys, warnings
warnings.simplefilter("ignore")
import tpugraphs as tg
from rankers import small_graph
ranker = tg.Ranker.load(sys.argv[1])
graphs = [small_graph(i) for i in range(4)]
expected = [ranker.predict(graph).tobytes() for graph in graphs]
def same(i): return ranker.predict(graphs[i]).tobytes() == expected[i]
with multiprocessing.get_context("fork").Pool(2) as pool:
    print(all(pool.map(same, range(4))))
"""
    ranker = small_ranker(steps=2)
    ranker.fit(small_graph(), verbose=False)
    ranker.save(tmp_path / "r.safetensors")
    path = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    done = subprocess.run([sys.executable, "-c", code, tmp_path / "r.safetensors"],
                          env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, timeout=60)  # fmt: skip
    assert done.stdout.split() == ["True"], done.stderr
