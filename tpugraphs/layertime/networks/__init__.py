"""Times of networks from times of their layers."""

from tpugraphs.layertime.networks.estimate import Estimate, LayerTime, network_time
from tpugraphs.layertime.networks.layer import Layer, LayerList
from tpugraphs.layertime.networks.onnx_files import layers_of_onnx
from tpugraphs.layertime.networks.parallel import Scaling, exposed_ms, fit_factor, fit_scaling, ring_ms
from tpugraphs.layertime.networks.reading import read_layers
from tpugraphs.layertime.networks.torch_modules import layers_of_torch

__all__ = [
    "Estimate",
    "Layer",
    "LayerList",
    "LayerTime",
    "Scaling",
    "exposed_ms",
    "fit_factor",
    "fit_scaling",
    "layers_of_onnx",
    "layers_of_torch",
    "network_time",
    "read_layers",
    "ring_ms",
]
