"""Numbers of threads: who sets them, who limits them, and that a forked child neither hangs nor differs."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from refusals import refuses
from threadpoolctl import threadpool_limits

import tpugraphs as tg

# A layer large enough for a team of threads, and its result as bytes; `team` counts this process's threads.
WORK = """
import os
import numpy as np
import tpugraphs as tg

rng = np.random.default_rng(0)
x, w, b = (rng.standard_normal(s, np.float32) for s in ((4000, 64), (64, 64), (64,)))
def work(): return tg.kernels.linear(x, w, b, act="gelu").tobytes()
def team(): return len(os.listdir("/proc/self/task"))
"""


def run(code, **environment):
    """Standard output of `code` after WORK in a fresh process."""
    plain = {k: v for k, v in os.environ.items() if k not in ("TPUGRAPHS_NUM_THREADS", "OMP_NUM_THREADS")}
    done = subprocess.run(
        [sys.executable, "-c", WORK + code],
        env={**plain, "OPENBLAS_NUM_THREADS": "1", **environment},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.mark.parametrize("threads", [1, 2, 3, 7])
def test_the_number_set_is_the_number_got(threads):
    tg.set_num_threads(threads)
    assert tg.get_num_threads() == threads


def test_impossible_numbers_are_refused():
    for threads in (0, -1, 5000):
        refuses(lambda: tg.set_num_threads(threads), ValueError, "1..4096", str(threads))
    refuses(lambda: tg.set_num_threads("two"), TypeError)


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"TPUGRAPHS_NUM_THREADS": "3"}, "3"),
        ({"OMP_NUM_THREADS": "3"}, "3"),
        ({"TPUGRAPHS_NUM_THREADS": "3", "OMP_NUM_THREADS": "1"}, "3"),
        ({"TPUGRAPHS_NUM_THREADS": "1", "OMP_NUM_THREADS": "3"}, "1"),
    ],
)
def test_environment_is_honoured(environment, expected):
    assert run(
        "before = team(); work(); print(tg.get_num_threads(), team() - before + 1)", **environment
    ) == [
        expected,
        expected,
    ]


@pytest.mark.parametrize("nonsense", ["", "0", "-2", "many"])
def test_nonsense_in_the_environment_is_ignored(nonsense):
    count = str(len(os.sched_getaffinity(0)))
    assert int(run("print(tg.get_num_threads())", TPUGRAPHS_NUM_THREADS=nonsense)[0]) in range(
        1, int(count) + 1
    )


def test_affinity_is_honoured():
    code = f"os.sched_setaffinity(0, {{{min(os.sched_getaffinity(0))}}})\nprint(tg.get_num_threads())"
    assert run(code) == ["1"]


def test_a_team_has_the_size_that_was_set():
    assert run("before = team(); tg.set_num_threads(3); work(); print(team() - before)") == ["2"]


def test_threadpoolctl_limits_are_honoured():
    tg.set_num_threads(3)
    with threadpool_limits(limits=1):
        assert tg.get_num_threads() == 1
    assert tg.get_num_threads() == 3


def test_forked_child_neither_hangs_nor_differs():
    code = """
import warnings
warnings.simplefilter("ignore")
tg.set_num_threads(2)
before = work()
child = os.fork()
if child == 0:
    teams = team()
    same = work() == before
    os._exit(0 if same and team() == teams == 1 else 3)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), work() == before)
"""
    assert run(code) == ["0", "True"]


def test_pool_of_forked_workers():
    code = """
import multiprocessing, warnings
warnings.simplefilter("ignore")
tg.set_num_threads(2)
before = work()
def same(_): return work() == before
with multiprocessing.get_context("fork").Pool(2) as pool:
    print(all(pool.map(same, range(4))))
"""
    assert run(code) == ["True"]


def test_python_threads_at_once_get_the_same_bits():
    rng = np.random.default_rng(1)
    x, w, b = (rng.standard_normal(s, np.float32) for s in ((3000, 48), (32, 48), (32,)))
    tg.set_num_threads(1)
    expected = tg.kernels.linear(x, w, b).tobytes()
    tg.set_num_threads(2)
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda _: tg.kernels.linear(x, w, b).tobytes(), range(16)))
    assert set(results) == {expected}
