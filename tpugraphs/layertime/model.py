"""Models of the time of a layer on a device, and those that come with the package."""

from __future__ import annotations

import inspect
import os
from collections.abc import Mapping
from copy import copy
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Self, Unpack

import numpy as np
from numpy.typing import NDArray

from tpugraphs import __version__
from tpugraphs.data.columns import plain
from tpugraphs.errors import ConfigError, DataError
from tpugraphs.layertime.calibration import LEAST_LAYERS, MOST_LAYERS, Calibration, Views, choose
from tpugraphs.layertime.devices import Device
from tpugraphs.layertime.features import Space, matrix
from tpugraphs.layertime.files import File
from tpugraphs.layertime.kinds import KINDS, Floats
from tpugraphs.layertime.methods import LEVELS, METHODS, ErrorQuantiles, MethodFields, log_of
from tpugraphs.layertime.table import Layers, LayerTable, Where, one_layer, read_table
from tpugraphs.system import check_choice, check_share, check_whole, file_name, tensorfile

_FILE_KIND = "layer-time"
_CHUNK = 1 << 13  # layers
_UNLIKE = 10  # times in peak or bandwidth
_MOST_LOG = 600.0  # of a time; intervals are finite, too
_FOLDER = Path(__file__).parents[1] / "measured" / "layers"


class LayerTimeModel:
    """Predict how long a layer takes on a device.

    Parameters
    ----------
    kind : str
        Kind of the layers, see `tpugraphs.layertime.KINDS`.
    method : {"residual", "roofline", "lightgbm", "mlpredict"}
        ``roofline``: the terms of the work at the device's peak rates, each by a factor that is fitted.
        ``residual``: networks of its residual, trained in the C core. ``lightgbm``: boosted trees in place of
        the networks (training needs the extra ``[lightgbm]``). ``mlpredict``: the published
        network of the ml-performance-prediction project, without a roofline.
    seed : int
        Same seed, same bits.
    **fields
        Of the method: `members`, `steps` and `width` of ``residual``, `members`, `rounds` and `leaves` of
        ``lightgbm``, `preset` and `steps` of ``mlpredict``.

    Raises
    ------
    ConfigError
        No such kind, method or field.

    Examples
    --------
    >>> import tpugraphs as tg
    >>> table = tg.layertime.measured_layers("dense")  # or the path of your own
    >>> model = tg.layertime.LayerTimeModel("dense", method="roofline").fit(table, verbose=False)
    >>> layer = {"batch": [32], "dim_input": [1024], "dim_output": [4096]}
    >>> model.predict(layer, device=table.devices[0]).round(1)  # milliseconds
    array([3.4])
    """

    def __init__(
        self, kind: str, method: str = "residual", seed: int = 0, **fields: Unpack[MethodFields]
    ) -> None:
        check_choice("kind", kind, KINDS)
        check_choice("method", method, METHODS)
        self.kind, self.method = kind, method
        self.seed = check_whole("seed", seed, 0, (1 << 40) - 1)
        known = list(inspect.signature(METHODS[method]).parameters)[1:]
        for name in fields:
            if name not in known:
                expected = f"one of {', '.join(known)}" if known else "none"
                raise ConfigError(f"method {method!r}: no field {name!r}; expected {expected}")
        self._method = METHODS[method](self.seed, **fields)
        self.fields = {name: plain(value) for name, value in fields.items()}
        self._space: Space | None = None
        self._calibrated: dict[str, Calibration] = {}
        self._figures: dict[str, Device] = {}  # of the calibrated devices

    @property
    def devices(self) -> tuple[str, ...]:
        """Names of the devices that the model was fitted to or calibrated for."""
        return tuple(one.name for one in self.known_devices)

    @property
    def known_devices(self) -> tuple[Device, ...]:
        """Devices that the model was fitted to or calibrated for. Their names take precedence."""
        self._check_trained()
        return tuple(({one.name: one for one in self._method.devices} | self._figures).values())

    @property
    def calibrations(self) -> Mapping[str, Calibration]:
        """Calibrations by name of the device."""
        return MappingProxyType(self._calibrated)

    def fit(self, table: Layers, device: Where = None, verbose: bool | None = None) -> Self:
        """Learn from measured layers.

        Parameters
        ----------
        table : path, dict of arrays, DataFrame, LayerTable, or a list of them
            See `read_table`.
        device : name, Device or (n,) names, optional
            Where the layers ran, if the table does not say it. In all other calls, a name refers to a
            training or calibrated device before any other.
        verbose : bool, optional
            Show a progress bar; by default in a terminal or notebook.

        Returns
        -------
        LayerTimeModel
            This one.

        Raises
        ------
        ConfigError, DataError
            As `read_table`.
        """
        layers = read_table(table, self.kind, device)
        method = METHODS[self.method](self.seed, **self.fields)
        method.fit(layers, verbose)  # a fit that is interrupted or fails leaves the model as it was
        made = {"_method": method, "_space": Space.of(matrix(layers)), "_calibrated": {}, "_figures": {}}
        vars(self).update(made)  # all at once
        return self

    def calibrate(self, table: Layers, device: Where = None) -> Self:
        """Adapt the model to a device by a few of its layers. Predictions for other devices stay as they are.

        A Gaussian process learns which known devices it is like. Its times are a mixture of theirs and of the
        prediction for the device itself, with a correction near the measured layers. A second call replaces
        the first.

        The linear algebra is NumPy's: the last bits may depend on the threads of its BLAS.

        Parameters
        ----------
        table : path, dict of arrays, DataFrame or LayerTable
            Measured layers: 10 to 100, of the sizes that matter. See `suggest`.
        device : name, Device or (n,) names, optional

        Returns
        -------
        LayerTimeModel
            This one.

        Raises
        ------
        ConfigError
            The model is not trained; no such device; fewer than 3 layers of a device, or more than 2,000.
        DataError
            As `read_table`.
        """
        layers, space = self._read(table, device)
        found = {}
        for name, rows in layers.by_device():
            own = layers.take(rows)
            if not LEAST_LAYERS <= len(own) <= MOST_LAYERS:
                expected = f"expected {LEAST_LAYERS} to {MOST_LAYERS:,} layers to calibrate by"
                todo = "with more, `fit` learns the device"
                raise ConfigError(f"device {name!r}: {expected}, got {len(own):,}; {todo}")
            found[name] = Calibration.fit(self._views(own, space), own.times)
        figures = {one.name: one for one in layers.devices if one.name in found}
        vars(self).update(_calibrated=self._calibrated | found, _figures=self._figures | figures)
        return self

    def suggest(self, count: int, table: Layers, device: Where = None) -> NDArray[np.int64]:
        """Choose layers to measure next, so that `calibrate` learns most from them.

        Parameters
        ----------
        count : int
            At most as many as there are layers in the table, and 2,000.
        table : path, dict of arrays, DataFrame or LayerTable
            Candidates on one device; times in it are not read.
        device : name, Device or (n,) names, optional

        Returns
        -------
        (count,) int64
            Row numbers, the most informative first. Layers that the device was calibrated by count as known.

        Raises
        ------
        ConfigError
            The model is not trained; candidates on several devices; a wrong count.
        DataError
            As `read_table`.
        """
        layers, space = self._read(table, device, timed=False)
        names = [name for name, _ in layers.by_device()]
        if len(names) != 1:
            raise ConfigError(f"suggest: expected layers on one device, got {', '.join(names)}")
        check_whole("count", count, 1, min(len(layers), MOST_LAYERS))
        return choose(count, self._views(layers, space), self._calibrated.get(names[0]))

    def out_of_range(self, table: Layers, device: Where = None) -> NDArray[np.bool_]:
        """Return which layers are outside the training range: (n,) bool.

        A size, a word or the number of operations of such a layer is beyond those of all training layers,
        including the layers that its device was calibrated by. Beyond the range, predictions move towards
        those for an unseen device, and intervals are wider.

        Parameters
        ----------
        table : path, dict of arrays, DataFrame or LayerTable
        device : name, Device or (n,) names, optional

        Returns
        -------
        (n,) bool
            True beyond the range.

        Raises
        ------
        ConfigError, DataError
            As `predict`.
        """
        layers, space = self._read(table, device, timed=False)
        return self._excess(layers, space) > 0

    def _excess(self, layers: LayerTable, space: Space) -> Floats:
        """Return how far layers are outside the range of training and calibration: (n,)."""
        columns = matrix(layers)
        found = space.excess(columns, layers.kind)
        for own, rows in self._calibrated_rows(layers):
            found[rows] = space.reaching(own.places[:, :-1]).excess(columns[rows], layers.kind)
        return found

    def _views(self, layers: LayerTable, space: Space) -> Views:
        """Return the predictions of the method for layers on one device."""
        first = np.zeros(len(layers), np.int64)
        elsewhere = [replace(layers, devices=(one,), device=first) for one in self._method.devices]
        seen = [log_of(self._method.parts(table)) for table in elsewhere]
        return Views(np.stack(seen, 1), *self._method.parts(layers), space.place(matrix(layers)))

    def _log_ms(self, layers: LayerTable, space: Space) -> Floats:
        """Predict logarithms of milliseconds (n,), calibrations included, in chunks that fit the cache."""
        starts = range(0, len(layers), _CHUNK)
        with np.errstate(all="ignore"):  # a file may hold any numbers: results are checked below
            parts = [self._some_log_ms(layers.take(slice(i, i + _CHUNK)), space) for i in starts]
        found = np.concatenate(parts)
        wrong = np.flatnonzero(~(np.abs(found) < _MOST_LOG))
        if wrong.size:
            todo = "fit it to layers that are more like this one"
            raise DataError(f"row {wrong[0]}: the model predicts no finite time above 0; {todo}")
        return found

    def _some_log_ms(self, layers: LayerTable, space: Space) -> Floats:
        known = np.isin(layers.per_device_name(), list(self._calibrated))
        found = np.empty(len(layers))
        if not known.all():
            found[~known] = log_of(self._method.parts(layers.take(~known)))
        for own, rows in self._calibrated_rows(layers):
            found[rows] = own.log_ms(self._views(layers.take(rows), space))
        return found

    def _calibrated_rows(self, layers: LayerTable) -> list[tuple[Calibration, NDArray[np.bool_]]]:
        """Return calibrations, and which layers (n,) run on the device of each."""
        found = ((self._calibrated.get(name), rows) for name, rows in layers.by_device())
        return [(own, rows) for own, rows in found if own is not None]

    def _errors(self) -> ErrorQuantiles:
        """Return the errors of the method, and for calibrated devices the leave-one-out errors.

        The latter are widened by 2 / n for the two scales that were fitted to the same n layers.
        """
        known, other = self._method.errors
        left = {name: one.left for name, one in self._calibrated.items()}
        own = {name: np.quantile(one, LEVELS) * (1 + 2 / one.size) for name, one in left.items()}
        return ErrorQuantiles(known | own, other)

    def predict(self, table: Layers, device: Where = None) -> Floats:
        """Return the time of every layer in milliseconds: (n,) float64.

        Parameters
        ----------
        table : path, dict of arrays, DataFrame or LayerTable
            Times in it are not read.
        device : name, Device or (n,) names, optional

        Returns
        -------
        (n,) float64
            Milliseconds.

        Raises
        ------
        ConfigError
            The model is not trained; no such device; one over ten times as fast or slow as the only one that
            the model learnt from.
        DataError
            As `read_table`; the model predicts no finite time.
        """
        self = copy(self)  # a snapshot: another thread may fit
        layers, space = self._read(table, device, timed=False)
        self._check_like(layers)
        return np.exp(self._log_ms(layers, space))

    def _check_like(self, layers: LayerTable) -> None:
        """Refuse a device unlike the only one that the model learnt from: nothing says how times change."""
        known = np.array([(one.peak_gflops, one.bandwidth_gbps) for one in self.known_devices])
        for name, rows in layers.by_device() if self._method.errors.other is None else ():
            one = layers.devices[layers.device[rows][0]]
            ratios = np.array([one.peak_gflops, one.bandwidth_gbps]) / known
            if name not in self.devices and np.exp(np.abs(np.log(ratios))).max(1).min() > _UNLIKE:
                unlike = f"over {_UNLIKE} times as fast or slow as {', '.join(self.devices)}"
                todo = "calibrate it by layers measured there, or choose another"
                raise ConfigError(f"device {name!r}: {unlike}, which the model learnt from; {todo}")

    def predict_interval(self, table: Layers, level: float = 0.8, device: Where = None) -> Floats:
        """Return intervals that hold the time of a layer with probability `level`, in ms: (n, 2) float64.

        Their ends are quantiles of the relative errors on held-out layers of the same device or, for an
        unseen device, on left-out devices (split conformal prediction). Those of layers `out_of_range` are
        wider.

        Parameters
        ----------
        table : path, dict of arrays, DataFrame or LayerTable
        level : float
            Above 0 and below 1.
        device : name, Device or (n,) names, optional

        Returns
        -------
        (n, 2) float64
            Milliseconds: lower and upper end.

        Raises
        ------
        ConfigError
            The model is not trained; no such device; a wrong level; an unseen device, for a model that was
            trained on one device only.
        DataError
            As `read_table`; the model predicts no finite time.
        """
        self = copy(self)  # a snapshot: another thread may fit
        check_share("level", level)
        layers, space = self._read(table, device, timed=False)
        middle = self._log_ms(layers, space)[:, None]
        return np.exp(middle + self._errors().bounds(layers, level, self._excess(layers, space)))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to one file, which appears when it is complete.

        Parameters
        ----------
        path : path
            Usually ends in ``.safetensors``.

        Raises
        ------
        ConfigError
            The model is not trained.
        """
        space = self._check_trained()
        own = {"kind_of_layer": self.kind, "method": self.method, "seed": self.seed, "fields": self.fields}
        file = File(metadata={"package": __version__, **own}, tensors={"space": np.stack(space)})
        file.put_devices("calibrated", [self._figures[name] for name in self._calibrated])
        for i, calibration in enumerate(self._calibrated.values()):
            calibration.write(replace(file, prefix=f"calibration.{i}."))
        self._method.write(file)
        tensorfile.write(path, _FILE_KIND, file.metadata, file.tensors)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a model that `save` wrote.

        Parameters
        ----------
        path : path
            File of a model.

        Returns
        -------
        LayerTimeModel
            It predicts the same bits.

        Raises
        ------
        CheckpointError
            Not such a file, or damaged; the message names the field.
        """
        name = file_name(path)
        file = File(name, *tensorfile.read(name, _FILE_KIND))
        entries = {"kind_of_layer": str, "method": str, "seed": int, "fields": dict}
        kind, method, seed, fields = (file.entry(entry, of) for entry, of in entries.items())
        with tensorfile.sound(name, "method", "a kind, method and fields that exist"):
            model = cls(kind, method, seed, **fields)
        model._method.read(file, KINDS[kind])
        model._space = space = Space.read(file, "space", matrix(one_layer(KINDS[kind])).shape[1])
        for i, device in enumerate(file.get_devices("calibrated")):
            part, known = replace(file, prefix=f"calibration.{i}."), len(model._method.devices)
            model._figures[device.name] = device
            model._calibrated[device.name] = Calibration.read(part, known, space.varying.size)
        return model

    def _read(self, table: Layers, device: Where, timed: bool = True) -> tuple[LayerTable, Space]:
        """Read layers, whose devices may have the model's names; return the trained space, too."""
        space = self._check_trained()
        return read_table(table, self.kind, device, timed, self.known_devices), space

    def _check_trained(self) -> Space:
        if self._space is None:
            raise ConfigError("the model is not trained; call fit first, or LayerTimeModel.load")
        return self._space


MODELS = {
    "pytorch-cpu": "layers in PyTorch on one core of a CPU, measured by this project; sixteen kinds",
    "pytorch-gpu": "operators in PyTorch 2.1 on five NVIDIA GPUs, from NeuSight's tables",
    "tensorflow-gpu": "conv2d and dense layers in TensorFlow 1 on five NVIDIA GPUs, from the tables of "
    "ml-performance-prediction",
}
"""Sets of models that come with the package, and the tables that they were fitted to."""


def measured_layers(kind: str) -> LayerTable:
    """Return layers that were measured on a CPU, in PyTorch on one thread.

    Parameters
    ----------
    kind : str
        One of `KINDS`. ``measured/layers/README.md`` in the package says how they were measured.

    Returns
    -------
    LayerTable
        With times in milliseconds.

    Raises
    ------
    ConfigError
        No such kind.
    """
    return read_table(_FOLDER / f"{kind}.csv.gz", kind)


def load_models(name: str) -> dict[str, LayerTimeModel]:
    """Load models that come with the package: one per kind of layers, as `network_time` takes them.

    Parameters
    ----------
    name : {"pytorch-cpu", "pytorch-gpu", "tensorflow-gpu"}
        One of `MODELS`. A model knows its training devices by name; calibrate it for yours.

    Returns
    -------
    dict of str to LayerTimeModel
        By kind.

    Raises
    ------
    ConfigError
        Unknown name.
    DataError
        The files of the package are missing.

    Examples
    --------
    >>> import tpugraphs as tg
    >>> models = tg.layertime.load_models("tensorflow-gpu")
    >>> layer = {"batch": [32], "dim_input": [1024], "dim_output": [4096]}
    >>> models["dense"].predict(layer, device="P100").shape  # milliseconds
    (1,)
    """
    check_choice("models", name, MODELS)
    paths = sorted((_FOLDER / name).glob("*.safetensors"))
    if not paths:
        raise DataError(f"{_FOLDER / name}: no models there; install the package again")
    return {path.stem: LayerTimeModel.load(path) for path in paths}
