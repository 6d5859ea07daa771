"""Data of the package: layers that were measured on a CPU, and fitted models."""

from __future__ import annotations

from pathlib import Path

from tpugraphs.errors import DataError
from tpugraphs.layertime.model import LayerTimeModel
from tpugraphs.layertime.table import LayerTable, read_table
from tpugraphs.system.arguments import check_choice

__all__ = ["MODELS", "load_models", "measured_layers"]

_FOLDER = Path(__file__).parents[1] / "measured" / "layers"

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
