"""Measurements of layers on this machine, into the tables that models learn from."""

from __future__ import annotations

import csv
import io
import math
import os
import time
import warnings
from collections import Counter
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import astuple
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tpugraphs.distributed import farm
from tpugraphs.distributed.farm import ExecutorLike
from tpugraphs.errors import ConfigError, Error
from tpugraphs.layertime import devices
from tpugraphs.layertime.devices import FIGURES, Device
from tpugraphs.layertime.features import roofline_ms
from tpugraphs.layertime.frameworks import FRAMEWORKS, Jax, Step, Torch
from tpugraphs.layertime.kinds import BYTES, KINDS, OPTIMIZERS, Floats, Kind, layers_of
from tpugraphs.layertime.table import Columns, Layers, LayerTable, read_table
from tpugraphs.system import Interrupts, Progress, check_choice, check_number, check_whole, counted, machine
from tpugraphs.system.files import absolute, locked
from tpugraphs.system.journal import append_lines
from tpugraphs.system.texts import MOST_BYTES, csv_columns, read_whole

_NUMBER = "layer"  # column with the number of a row's layer
_MOST_LAYERS, _MOST_REPEATS = 250_000, 1000  # limits within which a table can be read again
_LONGEST_MS = 20_000.0  # layers with a longer roofline time are skipped
_REASON = 100  # most characters of an error that are shown
_REASONS = 4  # most reasons that are shown
_SENT = 4096  # layers sent to an executor at once
_REFERENCE, _DRIFT = 32, 0.1  # the first layer is measured again after so many; a change to be reported


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
    executor: ExecutorLike | None = None,
    verbose: bool | None = None,
) -> LayerTable:
    """Measure layers of one kind on this machine, in float32.

    The layers are given, or drawn as `tpugraphs.layertime.measuring.draw` says: sizes are log-uniform
    between bounds of the kind, and no layer has more than 1e10 operations or moves more than 0.5 GB.
    Forward passes are without gradients. Training is forward, backward (gradients of inputs and
    weights) and the optimizer's update; layers without weights have nothing to update. In PyTorch layers are
    those of torch.nn and torch.optim, eager; in JAX a step is one compiled function.

    A layer runs a few times, which do not count, then in `repeats` blocks of calls. Each call waits for
    its result, and the mean of a block's calls is one repetition. The first layer is measured again after
    every 32, to notice when the machine slows down.

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
    executor : Executor, optional
        Measure in its workers, on machines of one kind. Workers on one machine build layers side by side, and
        measure one at a time.
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
        file that was measured with other arguments, or is not such a table; workers on machines of several
        kinds.
    DataError
        As `read_table`, of `layers`.
    Error
        No layer could be measured; a worker has ended.
    OSError
        The file cannot be written.
    KeyboardInterrupt
        Before any layer is measured. After that Ctrl-C ends with what was measured.

    Warns
    -----
    UserWarning
        For layers that could not be measured, with the reasons; for a first layer whose time changes by more
        than a tenth; when Ctrl-C has ended the measurement early.

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
    devices.check_threads(threads)
    farm.check_executor(executor)
    check_number("least_ms", least_ms, 0, 1e5, above=True)
    if layers is not None and training is not None:
        raise ConfigError("training: layers that are given say it by their column 'optimizer'")
    if device is not None and name is not None:
        raise ConfigError("name: the device is given, and has a name")
    columns = [column.name for column in KINDS[kind].columns]
    names = [_NUMBER, *columns, *Times._fields, "framework", "version", "repeats", "device", *FIGURES]
    with ExitStack() as stack:
        folder = None if path is None else os.path.dirname(absolute(path))
        if folder is not None and os.path.isdir(folder):  # held before the file is read
            stack.enter_context(locked(folder, "another measurement"))
        rows = Rows(path, names)
        known = device is None and len(rows) and Columns(rows.columns, str(rows.path)).described_devices()
        earlier = known[0][0] if known else None
        ((_, site),) = farm.farmed(executor, _site, [(framework, gpu, threads, device, name, earlier)])
        wanted = draw(kind, count, seed, training) if layers is None else layers
        given = read_table(wanted, kind, site.device, timed=False)
        constants = {"framework": framework, "version": site.kind["version"], "repeats": repeats}
        constants |= zip(("device", *FIGURES), astuple(site.device), strict=True)
        values = zip(*(column.tolist() for column in given.columns.values()), strict=True)
        described = [dict(zip(given.columns, row, strict=True)) | constants for row in values]
        refused, done = _refused(site, given), rows.resume(described)
        jobs = [(site, kind, layer, repeats, float(least_ms)) for layer in described]
        results = _results(executor, jobs, refused, done)
        _measure_all(kind, results, described, done, rows, verbose)
    return read_table(rows.path or rows.columns, kind)


class Site(NamedTuple):
    """A framework with its settings, and the machine that it measures on."""

    framework: str
    gpu: bool | None
    threads: int | None
    device: Device
    room: float  # bytes
    kind: dict[str, str]  # of machine, and version of the framework


def _site(
    framework: str, gpu: bool | None, threads: int | None, device: str | Device | None, name: str | None,
    earlier: Device | None,
) -> Site:  # fmt: skip
    """Describe this machine; its device as given, as in the file to continue, or as detected.

    Measured rates differ a little every time, so those of the file are kept if name and threads are the same.
    """
    with closing(FRAMEWORKS[framework](gpu, threads)) as library:
        kind, free_gib = _kind(library), None if library.gpu else machine.memory_gib("MemAvailable")
        if device is not None and device != "this":
            found = devices.get_device(device)
            if not library.gpu and found.units != library.threads:
                units = f"expected units {library.threads}, the threads that {framework} takes here"
                todo = f"say threads={found.units}, or describe the device so"
                raise ConfigError(f"device {found.name!r}: {units}, got {found.units}; {todo}")
        elif library.gpu:
            found = devices.gpu_device(library.gpu_properties(), name)
        else:
            expected = devices.cpu_name(library.threads) if name is None else name, library.threads
            if earlier is not None and (earlier.name, earlier.units) == expected:
                found = earlier
            else:
                found = devices.this_device(library.threads, name)
    room = found.memory_gb * 1e9 if free_gib is None else free_gib * 2**30
    return Site(framework, gpu, threads, found, room, kind)


def _kind(library: Torch | Jax) -> dict[str, str]:
    name = library.gpu_properties().name if library.gpu else devices.cpu_name(library.threads)
    return {"device": str(name), "version": library.version}


def _timed(site: Site, kind: str, layer: dict[str, Any], repeats: int, least_ms: float) -> Times | str:
    """Measure a layer, or return why that failed."""
    with closing(FRAMEWORKS[site.framework](site.gpu, site.threads)) as library:
        farm.check_kind(_kind(library), site.kind, "executor", "give it workers on machines of one kind")
        device = farm.device_name("gpu" if library.gpu else "cpu")
        try:
            with farm.on_device(device, alone=False):
                step = library.step(kind, layer)
            with farm.on_device(device):
                return time_step(step, repeats, least_ms)
        except Exception as error:  # whatever a framework raises: the other layers are measured
            return f"with {farm.one_line(f'{type(error).__name__}: {error}')[:_REASON]}"


def _refused(site: Site, layers: LayerTable) -> list[str]:
    """Return the reason to skip each layer, ``""`` for layers to measure."""
    slow = f"that take more than {_LONGEST_MS / 1000:.0f} s"
    reasons = np.where(roofline_ms(layers) > _LONGEST_MS, slow, "")
    too_large = held_bytes(layers.kind, layers.columns) > site.room
    return [str(reason) for reason in np.where(too_large, "with more memory than is free", reasons)]


def _results(
    executor: ExecutorLike | None, jobs: Sequence[tuple[Any, ...]], refused: Sequence[str], done: int
) -> Generator[tuple[int, Times | str]]:
    """Measure the layers from `done` on; yield their numbers and times, in order, or the reason of a failure.

    Number -1 stands for the first layer, which is measured again to notice drift.
    """
    for start in range(done, len(jobs), _SENT):
        numbers = range(start, min(start + _SENT, len(jobs)))
        found: dict[int, Times | str] = {number: refused[number] for number in numbers if refused[number]}
        sent = [number for number in numbers if number not in found]
        for place in range(_REFERENCE, len(sent), _REFERENCE + 1) if not refused[0] else ():
            sent.insert(place, -1)
        ahead = start
        for place, result in farm.farmed(executor, _timed, [jobs[max(number, 0)] for number in sent]):
            if sent[place] < 0:
                yield -1, result
            else:
                found[sent[place]] = result
            while ahead in found:
                yield ahead, found.pop(ahead)
                ahead += 1
        yield from sorted(found.items())


def _measure_all(
    kind: str, results: Generator[tuple[int, Times | str]], layers: Sequence[Mapping[str, Any]], done: int,
    rows: Rows, verbose: bool | None,
) -> None:  # fmt: skip
    """Keep the results; warn of layers skipped, of a machine that slows down, and of an interrupt."""
    skipped, total = Counter({"in an earlier call": done - len(rows)}), len(layers)
    again = list[float]()
    try:
        bar = Progress(total - done, f"measure {kind}", "layer", verbose)
        with bar, closing(results), Interrupts(armed=True) as interrupts:
            for number, found in results:
                if isinstance(found, str):
                    skipped[found] += number >= 0
                elif number < 0:
                    again.append(found.time_median_ms)
                else:
                    rounded = {name: f"{value:.6g}" for name, value in found._asdict().items()}
                    rows.add({_NUMBER: number, **layers[number], **rounded})
                done = max(done, number + 1)
                bar.update(int(number >= 0))
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
    first = float(rows.columns["time_median_ms"][0])
    drift = max((one / first for one in again), key=lambda one: abs(math.log(one)), default=1.0)
    if rows.columns[_NUMBER][0] == "0" and abs(drift - 1) > _DRIFT:
        when = "when it was measured again: is the machine busy?"
        warnings.warn(f"the first layer took {drift:.2f} times as long {when}", stacklevel=3)


# ---- the file


class Rows:
    """Rows of text with named columns, in memory, and in a file if there is a path.

    Parameters
    ----------
    path : path, optional
        Rows of an earlier call are read. A last line that was cut off is ignored, and `resume` removes it.
    names : sequence of str
        Columns.

    Raises
    ------
    ConfigError
        The file has other columns, or its name does not end in ``.csv``.
    DataError
        It is not such a file.
    """

    def __init__(self, path: str | os.PathLike[str] | None, names: Sequence[str]) -> None:
        self.columns: dict[str, list[str]] = {name: [] for name in names}
        self.path = None if path is None else Path(absolute(path))
        self._whole = 0  # bytes of the file that are rows, and the names of their columns
        if self.path is None:
            return
        if self.path.suffix != ".csv":
            raise ConfigError(f"path: expected a name that ends in .csv, got {str(path)!r}")
        if not os.access(self.path.parent, os.W_OK | os.X_OK):
            folder = str(self.path.parent)
            raise ConfigError(f"path: expected a folder that can be written, found {folder!r}; make it first")
        if self.path.exists():
            self._read(read_whole(self.path, MOST_BYTES))

    def _read(self, content: bytes) -> None:
        head = _line(self.columns)
        if head.startswith(content):
            return  # cut off, or empty
        if not content.startswith(head):
            found = content.partition(b"\n")[0].decode("utf-8", "replace").strip()
            expected = (
                f"a table of this kind of layers to continue, with the columns {','.join(self.columns)}"
            )
            raise ConfigError(f"{self.path}: expected {expected}; found {found:.300}; choose another path")
        whole = content.rindex(b"\n") + 1
        if whole > len(head):
            self._whole = whole
            text = io.BytesIO(content[:whole])
            text.name = str(self.path)
            self.columns = csv_columns(text, most=4 * MOST_BYTES)

    def __len__(self) -> int:
        return len(self.columns[_NUMBER])

    def resume(self, layers: Sequence[Mapping[str, Any]]) -> int:
        """Check the rows against the layers, and return how many layers are done.

        Raises
        ------
        ConfigError
            A row has another layer, or was measured with other arguments.
        """
        last = -1
        for i, row in enumerate(zip(*self.columns.values(), strict=True)):
            found = dict(zip(self.columns, row, strict=True))
            text = found[_NUMBER]
            number = int(text) if text.isascii() and text.isdigit() and len(text) < 10 else -1
            if not last < number < len(layers):
                raise self._other(i, _NUMBER, f"a number from {last + 1} to {len(layers) - 1}", text)
            for name, value in layers[number].items():
                if found[name] != str(value):
                    raise self._other(i, name, str(value), found[name])
            last = number
        if self.path is not None and self.path.exists():
            os.truncate(self.path, self._whole)
        return last + 1

    def _other(self, row: int, name: str, expected: str, found: str) -> ConfigError:
        wrong = f"expected {expected}, found {found or 'nothing'}: the file was measured with other arguments"
        todo = "call with the same, or choose another path"
        return ConfigError(f"{self.path}: column {name!r}, row {row}: {wrong}; {todo}")

    def add(self, values: Mapping[str, Any]) -> None:
        """Add a row, to the file whole or not at all; the first comes with the names of the columns."""
        row = {name: str(values[name]) for name in self.columns}
        if self.path is not None:
            head = b"" if len(self) else _line(row)
            append_lines(self.path, head + _line(row.values()), alone=True)
        for name, word in row.items():
            self.columns[name].append(word)


def _line(row: Iterable[str]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(row)
    return text.getvalue().encode()


# ---- timing

_WARM_UP = 3  # calls; the first one compiles, the others set the number of calls of a block
_MOST_CALLS = 1 << 16  # of a block


class Times(NamedTuple):
    """Milliseconds of a call: statistics over the means of the blocks."""

    time_median_ms: float
    time_min_ms: float
    time_max_ms: float
    time_std_ms: float


def time_step(step: Step, repeats: int, least_ms: float) -> Times:
    """Time a step in `repeats` blocks, each of enough calls to take `least_ms`."""
    step()
    calls = _calls(min(_block_ms(step, 1) for _ in range(_WARM_UP - 1)), least_ms)
    if calls > 1:  # a single call is a poor clock for a short step
        calls = _calls(_block_ms(step, calls) / calls, least_ms)
    blocks = [_block_ms(step, calls) / calls for _ in range(repeats)]
    return Times(*(float(f(blocks)) for f in (np.median, np.min, np.max, np.std)))


def _calls(call_ms: float, least_ms: float) -> int:
    return min(math.ceil(least_ms / max(call_ms, 1e-6)), _MOST_CALLS)


def _block_ms(step: Step, calls: int) -> float:
    start = time.perf_counter_ns()
    for _ in range(calls):
        step()
    return max(time.perf_counter_ns() - start, 1) / 1e6


# ---- layers to draw

MOST_HELD = 5e8  # bytes that a drawn layer may hold, or move
_TOGETHER = 256  # drawn at once; a longer table begins with the layers of a shorter one
_ALIGNED_FROM, _ALIGNED_TO = 16, 8


def held_bytes(kind: Kind, columns: Mapping[str, NDArray[Any]]) -> Floats:
    """Return the bytes that layers hold while they run, about: (n,)."""
    work = kind.work(columns)
    more = BYTES * kind.held(layers_of(columns)) if kind.held else 0
    once = work.read + work.weights + work.written + more
    return once * np.where(work.passes > 1, 2, 1) + work.update


def draw(kind: str, count: int, seed: int, training: bool | None = None) -> dict[str, NDArray[Any]]:
    """Draw layers of a kind.

    Sizes are log-uniform between the two numbers of their column (`Column.drawn`), words uniform over those
    of the kind. Sizes from 16 are rounded down to multiples of 8 in half of the layers, as widths of real
    networks are. A layer is drawn again if it has no outputs, more operations than `Kind.most_flops`, or more
    than `MOST_HELD` to hold or to move. By default half of the layers are forward passes alone, and the
    others are trained by one of the optimizers.

    Parameters
    ----------
    kind : str
        One of `KINDS`.
    count : int
        The first layers do not depend on it.
    seed : int
    training : bool, optional
        All in training (True), all forward (False), or half and half.

    Returns
    -------
    dict of str to (count,) array
        The columns of the kind.
    """
    rng, known = np.random.default_rng(seed), KINDS[kind]
    parts: list[dict[str, NDArray[Any]]] = []
    found = 0
    while found < count:
        columns = _drawn(known, rng, training)
        work = known.work(columns)
        fits = (work.written > 0) & (work.flops <= known.most_flops) & (work.moved <= MOST_HELD)
        fits &= held_bytes(known, columns) <= MOST_HELD
        parts.append({name: values[fits] for name, values in columns.items()})
        found += int(fits.sum())
    return {name: np.concatenate([part[name] for part in parts])[:count] for name in parts[0]}


def _drawn(kind: Kind, rng: np.random.Generator, training: bool | None) -> dict[str, NDArray[Any]]:
    """Draw some layers, whether they fit or not."""
    columns: dict[str, NDArray[Any]] = {}
    aligned = rng.random(_TOGETHER) < 0.5
    for column in kind.columns:
        if column.name == "optimizer":
            trained = rng.random(_TOGETHER) < 0.5 if training is None else np.full(_TOGETHER, training)
            columns["optimizer"] = np.where(trained, rng.choice(OPTIMIZERS[1:], _TOGETHER), OPTIMIZERS[0])
        elif column.values:
            columns[column.name] = rng.choice(column.values, _TOGETHER)
        else:
            columns[column.name] = _sizes(*column.drawn, aligned, rng)
    return columns


def _sizes(low: int, high: int, aligned: NDArray[np.bool_], rng: np.random.Generator) -> NDArray[np.int64]:
    if low == 0:
        return rng.integers(low, high + 1, aligned.size)
    sizes = np.exp(rng.uniform(np.log(low), np.log(high + 1), aligned.size)).astype(np.int64)
    sizes = np.clip(sizes, low, high)
    return np.where(aligned & (sizes >= _ALIGNED_FROM), sizes // _ALIGNED_TO * _ALIGNED_TO, sizes)
