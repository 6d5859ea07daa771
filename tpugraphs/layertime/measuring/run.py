"""Measure layers on this machine, into the tables that models learn from."""

from __future__ import annotations

import dataclasses
import os
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any

import numpy as np

from tpugraphs.errors import ConfigError, Error
from tpugraphs.layertime.devices import FIGURES, Device, get_device
from tpugraphs.layertime.features import roofline_ms
from tpugraphs.layertime.kinds import KINDS
from tpugraphs.layertime.local import check_threads, cpu_name, gpu_device, this_device
from tpugraphs.layertime.measuring.base import Framework
from tpugraphs.layertime.measuring.jax_layers import Jax
from tpugraphs.layertime.measuring.rows import NUMBER, Rows
from tpugraphs.layertime.measuring.spaces import draw, held_bytes
from tpugraphs.layertime.measuring.timing import Times, time_step
from tpugraphs.layertime.measuring.torch_layers import Torch
from tpugraphs.layertime.table import Columns, Layers, LayerTable, read_table
from tpugraphs.system import machine
from tpugraphs.system.arguments import check_choice, check_number, check_whole
from tpugraphs.system.files import absolute, locked
from tpugraphs.system.interrupts import Interrupts
from tpugraphs.system.progress import Progress
from tpugraphs.system.words import counted

__all__ = ["FRAMEWORKS", "measure"]

FRAMEWORKS: dict[str, type[Framework]] = {"torch": Torch, "jax": Jax}
"""Frameworks that layers can run in, by name."""

_TIMES = tuple(field.name for field in dataclasses.fields(Times))
_MOST_LAYERS, _MOST_REPEATS = 250_000, 1000  # limits within which a table can be read again
_LONGEST_MS = 20_000.0  # layers with a longer roofline time are skipped
_REASON = 100  # most characters of an error that are shown
_REASONS = 4  # most reasons that are shown


def measure(
    kind: str,
    framework: str = "torch",
    path: str | os.PathLike[str] | None = None,
    *,
    count: int = 200,
    seed: int = 0,
    training: bool | None = None,
    layers: Layers | None = None,
    device: str | Device | None = None,
    name: str | None = None,
    threads: int | None = None,
    gpu: bool | None = None,
    repeats: int = 5,
    least_ms: float = 5.0,
    verbose: bool | None = None,
) -> LayerTable:
    """Measure layers of one kind on this machine, in float32.

    The layers are given, or drawn as `tpugraphs.layertime.measuring.spaces` says: sizes are log-uniform
    between bounds of the kind, and no layer has more than 1e10 operations or moves more than 0.5 GB.
    Forward passes are without gradients. Training is forward, backward (gradients of inputs and
    weights) and the optimizer's update; layers without weights have nothing to update. In PyTorch layers are
    those of torch.nn and torch.optim, eager; in JAX a step is one compiled function.

    A layer runs a few times, which do not count, then in `repeats` blocks of calls. Each call waits for
    its result, and the mean of a block's calls is one repetition.

    Parameters
    ----------
    kind : str
        One of `KINDS`.
    framework : {"torch", "jax"}
        See the extras ``[torch]`` and ``[jax]``.
    path : path, optional
        A CSV file. A row is added as soon as it is measured. The same call continues where another one
        stopped, also with a larger `count`.
    count : int
        Layers to draw, 1 or more.
    seed : int
        Seed of the draw, 0 or more. The first layers do not depend on `count`.
    training : bool, optional
        Draw layers in training (True) or forward passes alone (False); by default half of each.
    layers : dict of arrays, DataFrame, LayerTable or path, optional
        Measure these; see `read_table`. Times and devices in it are not read. `LayerTimeModel.suggest` says
        which are worth it.
    device : name or Device, optional
        Device that the table names and describes; by default `this_device`.
    name : str, optional
        Name of the device, if `device` is not given. A model treats equal names as one device: give each
        framework its own name if a model is to learn from both.
    threads : int, optional
        Threads of the CPU; by default as many as the framework takes. JAX takes all that the process may use.
    gpu : bool, optional
        Run on the GPU (True) or the CPU (False); by default on the GPU where the framework has one.
    repeats : int
        Blocks of each layer, from 1 to 1,000.
    least_ms : float
        Least duration of a block in milliseconds.
    verbose : bool, optional
        Show progress; by default in a terminal or notebook.

    Returns
    -------
    LayerTable
        A row for each layer that could be measured, medians as times; what `read_table` reads from `path`.
        The file has further columns: ``time_min_ms``, ``time_max_ms``, ``time_std_ms``, the framework and its
        version, and the figures of the device.

    Raises
    ------
    ConfigError
        An argument out of range; a framework that is not installed; a GPU that is not there or not known; a
        file that was measured with other arguments, or is not such a table.
    DataError
        As `read_table`, of `layers`.
    Error
        No layer could be measured.
    OSError
        The file cannot be written.
    KeyboardInterrupt
        Before any layer is measured. After that Ctrl-C ends with what was measured.

    Warns
    -----
    UserWarning
        For layers that could not be measured, with the reasons; when Ctrl-C has ended the measurement early.

    Notes
    -----
    ``table = tg.layertime.measure("dense", "torch", "dense.csv", count=500)`` takes minutes;
    ``tg.layertime.LayerTimeModel("dense").fit(table)`` then learns from it.
    """
    check_choice("kind", kind, KINDS)
    check_choice("framework", framework, FRAMEWORKS)
    check_whole("count", count, 1, _MOST_LAYERS)
    check_whole("seed", seed, 0)
    check_whole("repeats", repeats, 1, _MOST_REPEATS)
    check_threads(threads)
    check_number("least_ms", least_ms, 0, 1e5, above=True)
    if layers is not None and training is not None:
        raise ConfigError("training: layers that are given say it by their column 'optimizer'")
    if device is not None and name is not None:
        raise ConfigError("name: the device is given, and has a name")
    columns = [column.name for column in KINDS[kind].columns]
    names = [NUMBER, *columns, *_TIMES, "framework", "version", "repeats", "device", *FIGURES]
    with ExitStack() as stack:
        folder = None if path is None else os.path.dirname(absolute(path))
        if folder is not None and os.path.isdir(folder):  # held before the file is read
            stack.enter_context(locked(folder, "another measurement"))
        rows = Rows(path, names)
        library = FRAMEWORKS[framework](gpu, threads)
        stack.callback(library.close)
        where = _described(library, rows, device, name)
        wanted = draw(kind, count, seed, training) if layers is None else layers
        given = read_table(wanted, kind, where, timed=False)
        constants = {"framework": library.name, "version": library.version, "repeats": repeats}
        constants |= {"device": where.name, **{figure: getattr(where, figure) for figure in FIGURES}}
        values = zip(*(column.tolist() for column in given.columns.values()), strict=True)
        described = [dict(zip(given.columns, row, strict=True)) | constants for row in values]
        _measure_all(
            library, kind, described, _refused(library, given, where), rows, float(least_ms), verbose
        )
    return read_table(rows.path or rows.columns(), kind)


def _described(library: Framework, rows: Rows, device: str | Device | None, name: str | None) -> Device:
    """Return the device as given, as in the file to continue, or as detected.

    Measured rates differ a little every time, so those of the file are kept if name and threads are the same.
    """
    if device is not None:
        given = get_device(device)
        if not library.gpu and given.units != library.threads:
            raise ConfigError(
                f"device {given.name!r}: expected units {library.threads}, the threads that {library.name} "
                f"takes here, got {given.units}; say threads={given.units}, or describe the device so"
            )
        return given
    if library.gpu:
        return gpu_device(library.gpu_properties(), name)
    expected = cpu_name(library.threads) if name is None else name
    if (rows.first("device"), rows.first("units")) == (expected, str(library.threads)):
        return Columns(rows.columns(), str(rows.path)).described_devices()[0][0]
    return this_device(library.threads, name)


def _refused(library: Framework, layers: LayerTable, device: Device) -> list[str]:
    """Return the reason to skip each layer, ``""`` for layers to measure."""
    free_gib = None if library.gpu else machine.memory_gib("MemAvailable")
    room = device.memory_gb * 1e9 if free_gib is None else free_gib * 2**30
    slow = f"that take more than {_LONGEST_MS / 1000:.0f} s"
    reasons = np.where(roofline_ms(layers) > _LONGEST_MS, slow, "")
    too_large = held_bytes(layers.kind, layers.columns) > room
    return [str(reason) for reason in np.where(too_large, "with more memory than is free", reasons)]


def _measure_all(
    library: Framework,
    kind: str,
    layers: Sequence[Mapping[str, Any]],
    refused: Sequence[str],
    rows: Rows,
    least_ms: float,
    verbose: bool | None,
) -> None:
    """Measure layers from the first without a row; warn of those skipped, and of an interrupt."""
    total, done = len(layers), rows.resume(layers)
    skipped = Counter({"in an earlier call": done - len(rows)})
    try:
        bar = Progress(total - done, f"measure {kind}", "layer", verbose)
        with bar, Interrupts(armed=True) as interrupts:
            for number in range(done, total):
                if reason := refused[number] or _measure_one(
                    library, kind, number, layers[number], rows, least_ms
                ):
                    skipped[reason] += 1
                done = number + 1
                bar.update(1)
                interrupts.check()
    except KeyboardInterrupt:
        if not len(rows):
            raise
        kept = f"; {rows.path} keeps them for the same call" if rows.path else ""
        warnings.warn(f"interrupted after {done:,} of {counted(total, 'layer')}{kept}", stacklevel=3)
    common = [(reason, times) for reason, times in skipped.most_common(_REASONS) if times]
    why = "; ".join(f"{times:,} {reason}" for reason, times in common)
    if not len(rows):
        raise Error(f"measure {kind!r}: none of {counted(total, 'layer')} could be measured: {why}")
    if common:
        warnings.warn(f"{skipped.total():,} of {counted(total, 'layer')} skipped: {why}", stacklevel=3)


def _measure_one(
    library: Framework, kind: str, number: int, layer: Mapping[str, Any], rows: Rows, least_ms: float
) -> str:
    """Measure a layer into a row, or return why that failed."""
    try:
        times = time_step(library.step(kind, layer), layer["repeats"], least_ms)
    except Exception as error:  # whatever a framework raises: the other layers are measured
        text = " ".join(f"{type(error).__name__}: {error}".split())
        return f"with {text[:_REASON]}"
    rounded = {name: f"{value:.6g}" for name, value in dataclasses.asdict(times).items()}
    rows.add({NUMBER: number, **layer, **rounded})
    return ""
