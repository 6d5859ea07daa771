"""Description of this machine as a device: figures are read from the system, or measured."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from tpugraphs import _core
from tpugraphs.errors import ConfigError
from tpugraphs.layertime.devices import FIGURES, Device, get_device
from tpugraphs.system import machine
from tpugraphs.system.arguments import check_whole
from tpugraphs.system.words import counted

__all__ = ["check_threads", "cpu_name", "gpu_device", "this_device", "torch_library"]

_REPEATS = 5  # of which the fastest counts
_SIDE = 1024  # of the matrices, for a thread; more threads have more to do
_LEAST_COPY, _MOST_COPY = 1 << 26, 1 << 29  # bytes

# Multiply-adds of float32 that a multiprocessor begins per clock, by compute capability (NVIDIA's CUDA
# programming guide, "arithmetic instructions"); by the first number where the second is not there.
_LANES = {
    (5,): 128, (6, 0): 64, (6,): 128, (7,): 64, (8, 0): 64, (8,): 128, (9,): 128, (10,): 128, (12,): 128,
}  # fmt: skip

_PROPERTIES = (
    "major", "minor", "multi_processor_count", "clock_rate", "memory_bus_width", "memory_clock_rate",
    "L2_cache_size", "total_memory",
)  # fmt: skip


def this_device(threads: int | None = None, name: str | None = None, gpu: bool = False) -> Device:
    """Describe this machine as a device.

    For a CPU, `peak_gflops` is the rate of a product of large float32 matrices in the C core, and
    `bandwidth_gbps` that of a copy too large for the caches, bytes read and written. Both are measured once
    per process and number of threads; the other figures are read from the system. For a GPU, the figures are
    those of its data sheet, or are derived from what its driver reports.

    Parameters
    ----------
    threads : int, optional
        Threads of the CPU, which are its `units`; by default `tpugraphs.get_num_threads`.
    name : str, optional
        By default the name of the processor with the number of threads, or that of the GPU.
    gpu : bool
        Describe PyTorch's current GPU (extra ``[torch]``).

    Returns
    -------
    Device
        As the functions of this module take it.

    Raises
    ------
    ConfigError
        A wrong number of threads; no GPU, or no PyTorch; a figure that the system does not report: the
        message says how to describe the device.
    """
    if gpu:
        torch = torch_library()
        if not torch.cuda.is_available():
            raise ConfigError("gpu: expected a GPU that PyTorch can use, found none")
        return gpu_device(torch.cuda.get_device_properties(torch.cuda.current_device()), name)
    check_threads(threads)
    count = min(_core.get_num_threads(), machine.usable_processors()) if threads is None else threads
    memory, cache = machine.memory_gib("MemTotal"), machine.cache_mb()
    read = {"clock_mhz": machine.clock_mhz(), "cache_mb": cache, "memory_gb": (memory or 0) * 2**30 / 1e9}
    chosen = cpu_name(count) if name is None else name
    known = _known(chosen, read)
    peak, bandwidth = _rates(count, 4 * known["cache_mb"] * 1e6)
    return Device(chosen, peak, bandwidth, units=count, **known)


def check_threads(threads: object) -> None:
    """Raise ConfigError for more threads than there are processors; None is fine."""
    if threads is not None:
        check_whole("threads, at most the usable processors", threads, 1, machine.usable_processors())


def cpu_name(threads: int) -> str:
    """Return the default name of the CPU with that many threads."""
    return f"{machine.processor() or 'CPU'}, {counted(threads, 'thread')}"


def gpu_device(properties: Any, name: str | None = None) -> Device:
    """Return a GPU as a device: by its name if that is known, else from a framework's properties.

    Raises
    ------
    ConfigError
        The name is unknown, and the properties lack a figure.
    """
    try:
        known = get_device(properties.name)
        return known if name is None else dataclasses.replace(known, name=name)
    except ConfigError:
        pass
    major, minor, units, clock, wide, memory_clock, cache, memory = (
        getattr(properties, part, 0) for part in _PROPERTIES
    )
    lanes = _LANES.get((major, minor), _LANES.get((major,), 0))
    read = {
        "peak_gflops": 2 * lanes * units * clock / 1e6,
        "bandwidth_gbps": 2 * wide / 8 * memory_clock / 1e6,  # kHz, two transfers per clock
        "clock_mhz": clock / 1000,
        "cache_mb": cache / 1e6,
        "memory_gb": memory / 1e9,
    }
    chosen = properties.name if name is None else name
    return Device(chosen, units=units, **_known(chosen, read))


def torch_library() -> Any:
    """Import PyTorch."""
    try:
        import torch
    except ImportError:
        raise ConfigError("PyTorch is not installed: pip install tpugraphs[torch]") from None
    return torch


def _known(name: str, read: dict[str, float | None]) -> dict[str, float]:
    """Return figures, rounded; ConfigError if the system does not report all of them."""
    known = {figure: round(value, 3) for figure, value in read.items() if value}
    if missing := [figure for figure in read if figure not in known]:
        raise ConfigError(
            f"device {name!r}: the system does not report {', '.join(missing)}; describe the device by "
            f"tpugraphs.layertime.Device(name, {', '.join(FIGURES)})"
        )
    return known


@functools.cache
def _rates(threads: int, least_copy: float) -> tuple[float, float]:
    """Measure the peak in GFLOP/s and the bandwidth in GB/s of that number of threads."""
    side = _SIDE if threads <= 4 else 2 * _SIDE
    a, b = np.random.default_rng(0).random((2, side, side), np.float32)
    out = np.empty_like(a)
    before = _core.get_num_threads()
    _core.set_num_threads(threads)
    try:
        product = _least_seconds(lambda: _core.product(a, b, "f32", None, None, False, out))
    finally:
        _core.set_num_threads(before)
    size = int(min(max(least_copy, _LEAST_COPY), _MOST_COPY)) // 8
    source, target = np.ones(size), np.zeros(size)
    parts = np.linspace(0, size, threads + 1).astype(int)
    slices = [slice(low, high) for low, high in itertools.pairwise(parts)]
    with ThreadPoolExecutor(threads) as pool:
        copied = _least_seconds(
            lambda: list(pool.map(lambda one: np.copyto(target[one], source[one]), slices))
        )
    return round(2 * side**3 / product / 1e9, 1), round(2 * 8 * size / copied / 1e9, 1)


def _least_seconds(work: Callable[[], Any]) -> float:
    """Return the seconds of the fastest of several calls, after one that does not count."""
    work()
    taken = []
    for _ in range(_REPEATS):
        start = time.perf_counter()
        work()
        taken.append(time.perf_counter() - start)
    return min(taken)
