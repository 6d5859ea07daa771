"""Layers of a network from a module, an ONNX model or JSON."""

from __future__ import annotations

from collections.abc import Mapping

from tpugraphs.errors import ConfigError
from tpugraphs.layertime.networks.json_lists import layers_of_json
from tpugraphs.layertime.networks.layer import LayerList
from tpugraphs.layertime.networks.onnx_files import is_onnx, layers_of_onnx
from tpugraphs.layertime.networks.torch_modules import is_module, layers_of_torch

__all__ = ["read_layers"]


def read_layers(
    source: object,
    example: object = None,
    *,
    batch_size: int | None = None,
    sizes: Mapping[str, int] | None = None,
) -> LayerList:
    """Read the layers of a network.

    Parameters
    ----------
    source : path, open file, dict, list, torch.nn.Module or onnx.ModelProto
        A path names an ONNX model (``.onnx``) or a JSON file; a file that is open gives JSON. JSON is a
        list of layers, or an object whose field ``layers`` holds them; dicts and lists of the same form do
        as well. A layer is either of our kinds,
        ``{"kind": "attention", "heads": 8, "queries": 128, "keys": 128, "head_size": 64}``, with the
        columns of `Layer` and, if wanted, ``name`` and ``rows``. Or it is as in the ml-performance-prediction
        project, with the fields ``name``, ``type`` (``Convolution``, ``Fully_connected`` or ``Dense``,
        ``Max_pool``, ``Avg_pool``), ``matsize``, ``kernelsize`` or ``pool_size``, ``channels_in``,
        ``channels_out``, ``padding``, ``strides``, ``use_bias``, ``activation`` and ``output_size``. Sizes
        that follow from the layer before, or from the field ``input``, may be missing. A convolution over
        all of its input is read as the dense layer that it is.
    example : tensor, tuple or dict, optional
        For a module, see `layers_of_torch`.
    batch_size : int, optional
        Of the example.
    sizes : dict of str to int, optional
        For an ONNX model, see `layers_of_onnx`.

    Returns
    -------
    LayerList
        A list of `Layer`. What has no kind is in it, too, and in its attribute `unknown`.

    Raises
    ------
    ConfigError
        A module without an example; the package that reads the source is missing.
    DataError
        Not such a file; a layer that is described wrongly. The message names file, layer and field.
    """
    if is_module(source):
        if example is None:
            raise ConfigError("example: the layers of a module need an input to run it with")
        return layers_of_torch(source, example, batch_size)
    if is_onnx(source):
        return layers_of_onnx(source, sizes)
    return layers_of_json(source)
