"""No argument of a kernel ends in a raw exception: arrays without rows, huge numbers, odd texts."""

from __future__ import annotations

import inspect
import os
import signal
import threading
import time

import numpy as np
import pytest
from cases import CASES, FACES, single
from refusals import refuses

import tpugraphs as tg
from tpugraphs import kernels

FIRST = {case.op: case for case in reversed(CASES)}  # of each op
ODD = [2**31, 2**63, 2**64, 10**30, 10**400, -1, 0, -(2**63), float("nan"), float("inf"), 1e300]
ODD += ["x", "\ud800", None, b"x", np.int64(3), [1], True]


def raw(function, *arguments, **named):
    """The exception of a call if it is none of ours, nor one of Python's about the type or the value of something."""
    try:
        function(*arguments, **named)
    except Exception as error:
        if (not isinstance(error, tg.Error) and type(error) not in (TypeError, ValueError)) or not str(error):
            return repr(error)
    return None


def odd_arrays(array):
    yield np.zeros((), array.dtype)
    yield array.astype(np.float16)
    yield np.zeros(array.shape, object)
    for axis in range(array.ndim):
        yield np.ascontiguousarray(array.take([], axis))
    if array.dtype.kind in "iu":
        for value in (np.iinfo(array.dtype).min, np.iinfo(array.dtype).max):
            yield np.full_like(array, value)


def variants(given):
    """Names and values, one or more of which take the place of what was given."""
    for name, value in given.items():
        if isinstance(value, np.ndarray):
            yield from ({name: other} for other in (*odd_arrays(value), None, 3))
        else:
            yield from ({name: other} for other in ODD)
    arrays = {name: value for name, value in given.items() if isinstance(value, np.ndarray) and value.ndim}
    yield {name: value[:0] for name, value in arrays.items()}
    for size in {size for value in arrays.values() for size in value.shape}:
        yield {
            name: np.zeros([0 if one == size else one for one in value.shape], value.dtype)
            for name, value in arrays.items()
        }


@pytest.mark.filterwarnings("ignore:overflow encountered in cast:RuntimeWarning")
@pytest.mark.parametrize("op", sorted(FIRST))
def test_ops(op):
    case, forward, backward = FIRST[op], FACES[op], FACES[f"{op}_backward"]
    given = single(case.arguments()) | case.attrs
    dy = np.zeros_like(forward(**given))
    named = {name: None for name in inspect.signature(forward).parameters} | given
    found = []
    for other in variants(named):
        found += [
            (other, raw(forward, **{**given, **other})),
            (other, raw(backward, dy, **{**given, **other})),
        ]
    assert len(found) > 40
    assert not [one for one in found if one[1] is not None]


EDGES, NODES = np.array([[0, 1], [1, 2], [2, 3]]), np.array([1, 3])
DIGITS = np.zeros((5, 2, 18), np.int8)
FIRST_ROWS, INVERSE = kernels.dedup_configs(DIGITS)
SCORES, RUNTIMES = np.linspace(-1, 1, 9, dtype=np.float32), np.arange(9, 0, -1)


def sampler(n, k, seed, step):
    made = kernels.ConfigSampler(n, k, seed)
    made.restore({**made.state(), "step": step})
    return next(made)


def optimizer(w, kind, lr, step, momentum, groups):
    optimizer = {"kind": kind, "lr": lr, "step": step, "momentum": momentum, "groups": groups}
    return kernels.optimizer_step(optimizer, w, np.ones_like(w), [np.zeros_like(w)])


CALLS = {
    "prune": (kernels.prune, dict(edge_index=EDGES, num_nodes=4, config_nodes=NODES, method="k-hop", hops=1)),
    "dedup_configs": (kernels.dedup_configs, dict(digits=DIGITS)),
    "dedup_rows": (kernels.dedup_rows, dict(rows=np.zeros((4, 3), np.float32))),
    "merge_configs": (
        kernels.merge_configs,
        dict(first=FIRST_ROWS, inverse=INVERSE, runtimes=np.arange(1, 6), keep="min"),
    ),
    "pack_digits": (kernels.pack_digits, dict(x=DIGITS.astype(np.float32))),
    "encode_base7": (kernels.encode_base7, dict(digits=DIGITS)),
    "decode_base7": (kernels.decode_base7, dict(codes=kernels.encode_base7(DIGITS))),
    "layout_digits": (kernels.layout_digits, dict(node_feat=np.zeros((4, 140), np.float32))),
    "sample_epoch": (kernels.sample_epoch, dict(n=10, k=3, key=0, step=1)),
    "sample": (kernels.sample_without_replacement, dict(n=10, k=3, key=0, order="sorted")),
    "sampler": (sampler, dict(n=10, k=3, seed=0, step=0)),
    "warmup_cosine": (kernels.warmup_cosine, dict(step=1, total=10, peak=1e-3, warmup=0.1)),
    "matmul": (
        kernels.matmul,
        dict(x=np.ones((3, 4), np.float32), w=np.ones((2, 4), np.float32), precision="f32"),
    ),
    "gelu": (kernels.gelu, dict(x=np.ones((3, 4), np.float32))),
    "optimizer_step": (
        optimizer,
        dict(w=np.ones(4, np.float32), kind="sgd", lr=0.1, step=1, momentum=0.9, groups=[(0, 4, 1.0, 0.0)]),
    ),
    "list_mle": (
        kernels.list_mle,
        dict(scores=SCORES, runtimes=RUNTIMES, reduction="sum", seed=0, temperature=1.0, weights=SCORES + 1),
    ),
    "mse": (kernels.mse, dict(scores=SCORES, values=SCORES.astype(float), reduction="sum")),
    "ratio_ranks": (kernels.ratio_ranks, dict(runtimes=RUNTIMES, normalizers=RUNTIMES)),
    "ndcg": (tg.metrics.ndcg, dict(scores=SCORES, runtimes=RUNTIMES, k=3)),
    "top_k_slowdown": (tg.metrics.top_k_slowdown, dict(scores=SCORES, runtimes=RUNTIMES, k=3)),
    "top_mean_score": (tg.metrics.top_mean_score, dict(scores=SCORES, runtimes=RUNTIMES, k=3)),
    "kendall_tau": (tg.metrics.kendall_tau, dict(scores=SCORES, runtimes=RUNTIMES)),
    "set_num_threads": (lambda count: tg.set_num_threads(count), dict(count=2)),
}


@pytest.mark.filterwarnings("ignore:overflow encountered in cast:RuntimeWarning")
@pytest.mark.parametrize("name", sorted(CALLS))
def test_functions(name):
    function, given = CALLS[name]
    function(**given)
    found = [(other, raw(function, **{**given, **other})) for other in variants(given)]
    found += [(one, raw(function, **{**given, "groups": [one]})) for one in ODD if "groups" in given]
    assert len(found) > 5
    assert not [one for one in found if one[1] is not None]


def test_messages_name_the_argument():
    k, x = kernels, np.ones((3, 4), np.float32)
    embedded = {"node_opcode": None, "layout_digits": None, "weight": np.ones((120, 16), np.float32)}
    for call, *names in (
        (lambda: k.linear(x[:0], x, None), "one node"),
        (lambda: k.linear(np.ones((3, 0), np.float32), x, None), "x:", "1..65536"),
        (lambda: FACES["attention"](None, x, x), "q:", "float32"),
        (lambda: FACES["embedding"](x, **embedded), "opcode"),
        (lambda: k.linear(x, x, None, act="\ud800"), "surrogate"),
        (lambda: tg.metrics.ndcg(SCORES, RUNTIMES, k=2**70), "k:"),
        (lambda: k.sample_epoch(2**70, 1, 0, 0), "n:"),
        (lambda: k.warmup_cosine(1, 10, 1e-3, 2), "warmup:"),
        (lambda: k.warmup_cosine(11, 10, 1e-3, 0.1), "step:", "10"),
        (lambda: tg.set_num_threads(2**70), "set_num_threads", "1..4096"),
        (lambda: k.sample_without_replacement(5, 2, order="up"), "order:", "random, sorted"),
        (lambda: k.list_mle(SCORES, RUNTIMES, seed="x"), "seed:"),
    ):
        refuses(call, ValueError, *names)
    refuses(lambda: k.matmul(x, x, precision=1), TypeError, "precision:")


MANY = 10**8
LONG = {
    "one epoch": lambda: kernels.sample_epoch(MANY, MANY, 0, 0),
    "two epochs": lambda: kernels.sample_epoch(MANY, MANY * 2 // 5 + 1, 0, 2),
    "random": lambda: kernels.sample_without_replacement(MANY, MANY // 2, 0),
    "sorted": lambda: kernels.sample_without_replacement(MANY, MANY // 2, 0, order="sorted"),
}


@pytest.mark.parametrize("name", sorted(LONG))
def test_ctrl_c_ends_a_long_draw(name):
    pressed = []

    def press():
        pressed.append(time.process_time())  # the machine may be busy
        os.kill(os.getpid(), signal.SIGINT)

    timer = threading.Timer(0.2, press)
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        LONG[name]()
    assert time.process_time() - pressed[0] < 1
    timer.join()


@pytest.mark.parametrize("order", ["random", "sorted"])
def test_a_large_sample_has_distinct_rows(order):
    rows = kernels.sample_without_replacement(400_000, 200_001, 7, order=order)
    assert np.unique(rows).size == rows.size == 200_001 and 0 <= rows.min() and rows.max() < 400_000
    assert (np.diff(rows) > 0).all() == (order == "sorted")
