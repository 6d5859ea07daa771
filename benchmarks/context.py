"""What a section gets: the options of the run, the machine's peaks, and a way to run things."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from . import process, roof, workloads
from .process import ChildError, Reply


@dataclass
class Context:
    """Options and helpers of a run.

    `quick`: sizes so small that nothing can be concluded. `peers`: whether to measure PyTorch, PyG and SciPy.
    `peaks`: operations per second of this machine, see :func:`benchmarks.machine.peaks`.
    """

    quick: bool = False
    peers: bool = True
    compile: bool = False
    stored: bool = False
    rounds: int = 15
    budget: float = 60.0
    threads: int = 2
    seeds: int = 3
    fit_steps: int = 1000
    workloads: list[str] | None = None
    peaks: dict[str, dict[str, float]] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)

    def call(self, function: str, /, settings: str = "tuned", alone: bool = False, **kwargs: Any) -> Reply:
        """``module:function`` in a process of its own; see :func:`benchmarks.process.call`.

        A quick run saves the time to start one, unless what is asked for needs it (`alone`).
        """
        if self.quick and not alone:
            return process.call_here(function, **kwargs)
        return process.call(function, settings=settings, **kwargs)

    def try_alone(self, function: str, /, settings: str = "tuned", **kwargs: Any) -> Reply | ChildError:
        """The same, always in a process of its own; a failure (mostly: no memory left) is returned."""
        try:
            return self.call(function, settings=settings, alone=True, **kwargs)
        except ChildError as error:
            return error

    def can(self, workload: str) -> bool:
        """Return whether the data of a workload is here; print what is left out."""
        reason = workloads.missing(workload)
        if reason is not None:
            print(f"{workload} left out: {reason}", file=sys.stderr, flush=True)
        return reason is None

    @contextmanager
    def attempt(self, what: str) -> Iterator[None]:
        """Report and remember a child's failure in this block instead of raising it."""
        try:
            yield
        except ChildError as error:
            self.failed.append(f"{what}: {str(error).splitlines()[-1]}")
            print(f"{what} failed: {error}", file=sys.stderr, flush=True)

    def roof_ms(self, flops: float, precision: str = "f32", threads: int | None = None) -> float | None:
        """Milliseconds that so many operations take at the machine's peak, None if that is not known."""
        return roof.milliseconds(self.peaks, flops, precision, threads or self.threads)
