"""Devices that layers run on: their figures, from public data sheets, from the system, or measured."""

from __future__ import annotations

import difflib
import functools
import json
import timeit
import warnings
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from tpugraphs import _core
from tpugraphs.data.columns import plain
from tpugraphs.errors import ConfigError
from tpugraphs.system import check_number, check_type, check_whole, counted, machine, optional

LIMITS = (1e-6, 1e12)
"""Range of every figure of a device: within it no prediction overflows."""


@dataclass(frozen=True)
class Device:
    """A device, as its data sheet describes it.

    Attributes
    ----------
    name : str
    peak_gflops : float
        Multiply-adds of float32 count as two operations; without tensor cores.
    bandwidth_gbps : float
        Of the memory, in 1e9 bytes per second.
    clock_mhz : float
        Clock at which the peak is reached.
    units : int
        Streaming multiprocessors of a GPU, cores of a CPU: tiles of a product are spread over them.
    cache_mb : float
        The last-level cache.
    memory_gb : float
    """

    name: str
    peak_gflops: float
    bandwidth_gbps: float
    clock_mhz: float
    units: int
    cache_mb: float
    memory_gb: float

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name or not self.name.isprintable():
            raise ConfigError(f"device: expected a name of printable characters, got {self.name!r}")
        for figure in FIGURES:
            value = getattr(self, figure)
            check_number(f"device {self.name!r}: {figure}", value, *LIMITS)
            object.__setattr__(self, figure, plain(value))


FIGURES = tuple(field.name for field in fields(Device)[1:])
"""Names of a device's figures, as tables have them in columns."""


# One chip each: the cards M60 and K80 have two.
_SHEETS = json.loads(Path(__file__).with_name("devices.json").read_text())
DEVICES = {name: Device(name, **sheet["figures"]) for name, sheet in _SHEETS.items()}
"""Known devices by name."""
_ALIASES = {alias: name for name, sheet in _SHEETS.items() for alias in sheet["aliases"]}


def get_device(device: str | Device, known: Iterable[Device] = ()) -> Device:
    """Look up a device by its name in data sheets or in PyTorch; a `Device` is returned as it is.

    Parameters
    ----------
    device : str or Device
        ``this`` is the processor of this machine: the one of that name among `known`, for its rates are those
        that a model was trained with, or else `this_device`.
    known : iterable of Device
        Further devices, such as those of a model. They take precedence over `DEVICES`, the first over others.

    Returns
    -------
    Device
        With its figures.

    Raises
    ------
    ConfigError
        Unknown device; the message names the nearest and says how to describe a device.
    """
    if isinstance(device, Device):
        return device
    check_type("device", device, str, expected="a name or a Device")
    own: dict[str, Device] = {}
    for one in known:
        own.setdefault(one.name, one)
    if device == "this" and device not in own:
        count = _usable_threads()
        return own.get(cpu_name(count)) or this_device(count)
    spelled = {name.lower(): name for name in DEVICES} | _ALIASES | {name.lower(): name for name in own}
    word = device.strip().lower()
    found = device if device in own else spelled.get(word)
    if found is None:
        near = [name for name in spelled if word and name.startswith(word)]
        near = near or difflib.get_close_matches(word, spelled, n=1)
        names = " or ".join(repr(name) for name in dict.fromkeys(spelled[one] for one in near))
        hint = f"; did you mean {names}?" if names else f"; known: {', '.join(own | DEVICES)}."
        todo = "Describe your own by tpugraphs.layertime.Device(...)"
        raise ConfigError(f"device {device!r}: unknown{hint} {todo}")
    return own.get(found) or DEVICES[found]


_BUSY = 0.2  # share of the processors that other work may take
_REPEATS = 5  # of which the fastest counts
_SIDE = 1024  # of the matrices, for a thread; more threads have more to do
_LEAST_COPY, _MOST_COPY = 1 << 26, 1 << 29  # bytes

# Multiply-adds of float32 that a multiprocessor begins per clock, by compute capability (NVIDIA's CUDA
# programming guide, "arithmetic instructions"); by the first number where the second is not there.
_LANES = {
    (5,): 128, (6, 0): 64, (6,): 128, (7,): 64, (8, 0): 64, (8,): 128, (9,): 128, (10,): 128, (12,): 128,
}  # fmt: skip


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

    Warns
    -----
    UserWarning
        Other work takes more than a fifth of the processors while they are measured.
    """
    if gpu:
        torch = torch_library(gpu=True)
        return gpu_device(torch.cuda.get_device_properties(torch.cuda.current_device()), name)
    check_threads(threads)
    count = _usable_threads() if threads is None else threads
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


def _usable_threads() -> int:
    return min(_core.get_num_threads(), machine.usable_processors())


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
    with suppress(ConfigError):
        known = get_device(properties.name)
        return known if name is None else replace(known, name=name)

    def figure(name: str) -> Any:
        return getattr(properties, name, 0)

    capability, units = (figure("major"), figure("minor")), figure("multi_processor_count")
    lanes = _LANES.get(capability, _LANES.get(capability[:1], 0))
    read = {
        "peak_gflops": 2 * lanes * units * figure("clock_rate") / 1e6,
        "bandwidth_gbps": figure("memory_bus_width") / 4 * figure("memory_clock_rate") / 1e6,  # kHz, twice
        "clock_mhz": figure("clock_rate") / 1000,
        "cache_mb": figure("L2_cache_size") / 1e6,
        "memory_gb": figure("total_memory") / 1e9,
    }
    chosen = properties.name if name is None else name
    return Device(chosen, units=units, **_known(chosen, read))


def torch_library(gpu: bool | None = False) -> Any:
    """Import PyTorch; ConfigError if it is missing or, with `gpu`, can use no GPU."""
    torch = optional("torch", "PyTorch is not installed: pip install tpugraphs[torch]")
    if gpu and not torch.cuda.is_available():
        raise ConfigError("gpu: expected a GPU that PyTorch can use, found none")
    return torch


def _known(name: str, read: dict[str, float | None]) -> dict[str, float]:
    """Return figures, rounded; ConfigError if the system does not report all of them."""
    known = {figure: round(value, 3) for figure, value in read.items() if value}
    if missing := [figure for figure in read if figure not in known]:
        todo = f"describe the device by tpugraphs.layertime.Device(name, {', '.join(FIGURES)})"
        raise ConfigError(f"device {name!r}: the system does not report {', '.join(missing)}; {todo}")
    return known


@functools.cache
def _rates(threads: int, least_copy: float) -> tuple[float, float]:
    """Measure the peak in GFLOP/s and the bandwidth in GB/s of that number of threads."""
    if (taken := machine.busy() or 0) > _BUSY:
        low = "peak and bandwidth may be too low; describe this machine again when it is quiet"
        warnings.warn(f"this_device: other work takes {taken:.0%} of the processors: {low}", stacklevel=3)
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
    pairs = list(zip(np.array_split(target, threads), np.array_split(source, threads), strict=True))
    with ThreadPoolExecutor(threads) as pool:
        copied = _least_seconds(lambda: list(pool.map(lambda pair: np.copyto(*pair), pairs)))
    return round(2 * side**3 / product / 1e9, 1), round(2 * 8 * size / copied / 1e9, 1)


def _least_seconds(work: Callable[[], Any]) -> float:
    """Return the seconds of the fastest of several calls, after one that does not count."""
    work()
    return min(timeit.repeat(work, number=1, repeat=_REPEATS))
