"""Batches run in parts: gradients that add up, cancellation from another thread, shared working memory."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
from models import COLUMNS, HINGE, LIST_MLE, SPECS, Trained, first_layout, graph_arrays, make, rows, slate
from refusals import refuses

from tpugraphs import _core

STEP = {"lr": 1e-3, "weight_decay": 1e-2, "clip": 1e-3, "step": 3, "seed": 7}
SLATES = [slate(**kw) for kw in ({"seed": 0}, {"seed": 1, "nodes": 9, "configs": 5}, {"seed": 2, "nodes": 40, "k": 3},
                                 {"seed": 3, "nodes": 7, "configs": 30, "k": 0, "kind": "none"})]  # fmt: skip


def relative(a: Any, b: Any) -> float:
    return float(np.linalg.norm(a.astype(np.float64) - b) / np.linalg.norm(b))


def pieces(parts: int) -> list[tuple[list[Any], list[Any]]]:
    size = len(SLATES) // parts
    cut = [SLATES[i * size : (i + 1) * size] for i in range(parts)]
    return [([s[1] for s in part], [s[2] for s in part]) for part in cut]


def accumulate(model: Any, parts: int, loss: Any = HINGE) -> float:
    losses = [
        model.gradients(*batch, loss=loss, step=3, seed=7, part=(i, parts))[0]
        for i, batch in enumerate(pieces(parts))
    ]
    return float(np.mean(losses))


@pytest.mark.parametrize("parts", [2, 4])
@pytest.mark.parametrize("kind", SPECS)
def test_gradients_of_parts_add_up_to_the_mean(kind: str, parts: int) -> None:
    model = make(kind)
    model.grads[:] = np.nan  # nothing may be left of what was there
    accumulate(model, parts)
    mean = np.zeros(model.num_parameters)
    for batch in pieces(parts):
        alone = make(kind)
        alone.gradients(*batch, loss=HINGE, step=3, seed=7)
        mean += alone.grads.astype(np.float64) / parts
    assert relative(model.grads, mean) <= 1e-6


@pytest.mark.parametrize("loss", [HINGE, LIST_MLE])
@pytest.mark.parametrize("parts", [2, 4])
def test_parts_are_the_whole_batch_with_its_dropout_and_ties(parts: int, loss: Any) -> None:
    whole, cut = make("cross", dropout=0.4), make("cross", dropout=0.4)
    for _, _, runtimes in SLATES:
        assert runtimes.dtype == np.int64
    (batch,) = pieces(1)
    value, _ = whole.gradients(*batch, loss=loss, step=3, seed=7)
    assert accumulate(cut, parts, loss) == pytest.approx(value, rel=1e-6)
    assert relative(cut.grads, whole.grads.astype(np.float64)) <= 1e-5


def test_parts_of_equal_slates_have_masks_of_their_own() -> None:
    model = make("cross", dropout=0.5)
    _, one, runtimes = SLATES[0]
    masks = {
        model.gradients([one], [runtimes], loss=HINGE, step=1, seed=1, part=(i, 3))[1][0].tobytes()
        for i in range(3)
    }
    assert len(masks) == 3


def test_a_step_over_parts_clips_the_mean_and_updates_once() -> None:
    model, twin = make("cross", dropout=0.3), make("cross", dropout=0.3)
    first, last = pieces(2)
    args = {"loss": HINGE, "step": 3, "seed": 7}
    for target in (model, twin):
        target.gradients(*first, **args, part=(0, 2))
    before = model.params.copy()
    twin.gradients(*last, **args, part=(1, 2))
    model.step(*last, loss=HINGE, **STEP, part=(1, 2))
    assert model.grads.tobytes() == twin.grads.tobytes()
    norm = np.linalg.norm(model.grads.astype(np.float64))
    assert norm > STEP["clip"]  # so that it matters when it is clipped
    g = model.grads * (STEP["clip"] / (norm + 1e-6))
    assert relative(model.moment1, 0.1 * g.astype(np.float64)) <= 1e-5
    assert (model.params != before).any()


def test_parts_do_not_depend_on_threads() -> None:
    results = set()
    for count in (1, 2, 3):
        _core.set_num_threads(count)
        model = Trained(first_layout(dropout=0.2, columns=COLUMNS), 0, COLUMNS)
        big = [slate(0, 150, 24, 40), slate(1, 90, 31, 20)]
        model.gradients([big[0][1]], [big[0][2]], loss=HINGE, step=1, part=(0, 2))
        model.step(
            [big[1][1]], [big[1][2]], loss=HINGE, lr=1e-3, weight_decay=0.0, clip=1.0, step=1, part=(1, 2)
        )
        results.add(model.params.tobytes() + model.grads.tobytes())
    assert len(results) == 1


@pytest.mark.parametrize("part", [(1, 1), (-1, 2), (0, 0), (2, 2), (0, 1 << 17)])
def test_bad_parts_are_refused(part: tuple[int, int]) -> None:
    model = make("cross")
    _, one, runtimes = SLATES[0]
    refuses(lambda: model.gradients([one], [runtimes], loss=HINGE, part=part), ValueError, "part")
    refuses(lambda: model.step([one], [runtimes], loss=HINGE, **STEP, part=(0, 2)), ValueError, "part")
    with pytest.raises(TypeError):
        model.gradients([one], [runtimes], loss=HINGE, part=3)


def test_another_thread_can_cancel_a_pass() -> None:
    model = Trained(first_layout(dropout=0.2), 0, 134)
    graph = _core.ModelGraph(**graph_arrays(1500, 64, 300, 134, 0))
    times, raised = np.arange(64, dtype=np.int64), []
    model.cancel()  # nothing is running: forgotten
    model.scores([(graph, rows(2))])
    before = [v.tobytes() for v in (model.params, model.moment1, model.moment2)]

    def work() -> None:
        try:
            for _ in range(50):
                model.step(
                    [(graph, rows(64))], [times], loss=HINGE, **{**STEP, "lr": 0.0, "weight_decay": 0.0}
                )
        except KeyboardInterrupt:
            raised.append(True)

    worker = threading.Thread(target=work)
    worker.start()
    while worker.is_alive():
        model.cancel()
        worker.join(0.02)
    assert raised and model.params.tobytes() == before[0]
    model.scores([(graph, rows(2))])  # and it still works


def test_a_limit_of_threads_is_that_of_one_thread_alone() -> None:
    all_threads, seen = 3, []

    def work() -> None:
        _core.limit_threads(1)
        seen.append(_core.get_num_threads())
        _core.limit_threads(0)
        seen.append(_core.get_num_threads())

    _core.set_num_threads(all_threads)
    worker = threading.Thread(target=work)
    worker.start()
    worker.join()
    assert seen == [1, all_threads] and _core.get_num_threads() == all_threads
    for wrong in (-1, 5000):
        refuses(lambda: _core.limit_threads(wrong), ValueError, "limit_threads")
