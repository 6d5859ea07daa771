"""Run a command or a script as several ranks on this machine, without MPI.

example:
  tpugraphs ranks 2 train --data layout:xla:random --root ~/data/tpugraphs --out xla_random.safetensors
  tpugraphs ranks 4 my_script.py
"""

import os
import signal
import subprocess
import sys
import time

import tpugraphs as tg
from tpugraphs.cli.common import Args, Parser, option, whole

_GRACE = 10.0  # seconds that the others have to end by themselves after one failed
_POLL = 0.05


def add_arguments(parser: Parser) -> None:
    """Declare the options."""
    option(parser, "ranks N", "how many", type=whole(1, 1024))
    meaning = "a command of tpugraphs with its arguments, or a script with its own"
    option(parser, "rest COMMAND|FILE", meaning, nargs="...")


def run(args: Args) -> int:
    """Start the ranks and wait; return the exit code of the first that failed."""
    rest = [] if args.rest and args.rest[0].endswith(".py") else ["-m", "tpugraphs"]
    command = [sys.executable, *rest, *args.rest]
    threads = str(max(1, len(os.sched_getaffinity(0)) // args.ranks))
    started, sockets = list[subprocess.Popen[bytes]](), tg.distributed.ranks.local(args.ranks)
    for environment, handles in sockets:
        own = {"TPUGRAPHS_NUM_THREADS": threads, **os.environ, **environment}
        started.append(subprocess.Popen(command, env=own, pass_fds=handles))
    for _, handles in sockets:
        for handle in handles:
            os.close(handle)
    return _wait(started)


def _wait(started: list[subprocess.Popen[bytes]]) -> int:
    """Wait for all ranks, and kill those that still run 10 s after one failed. Ctrl-C reaches them all."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    failed, since = list[tuple[int, int]](), 0.0  # rank and exit code, the first to end first
    try:
        while True:
            running = any(one.poll() is None for one in started)
            if not failed:
                failed = [(i, one.returncode) for i, one in enumerate(started) if one.returncode]
                since = time.monotonic()
            if not running or (failed and time.monotonic() > since + _GRACE):
                break
            time.sleep(_POLL)
    finally:
        for one in started:
            if one.poll() is None:
                one.kill()
        signal.signal(signal.SIGINT, before)
    rank, code = failed[0] if failed else (0, 0)
    if code < 0:
        print(f"tpugraphs ranks: rank {rank} has ended: {signal.Signals(-code).name}", file=sys.stderr)
    return 128 - code if code < 0 else code
