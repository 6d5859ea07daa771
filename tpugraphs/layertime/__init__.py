"""Times of layers on a device: measured tables, devices, models of them; times of whole networks."""

from tpugraphs.layertime.audit import LayerAudit, audit
from tpugraphs.layertime.devices import DEVICES, Device, get_device
from tpugraphs.layertime.features import features, roofline_ms
from tpugraphs.layertime.kinds import KINDS
from tpugraphs.layertime.local import this_device
from tpugraphs.layertime.measuring import measure
from tpugraphs.layertime.methods import METHODS
from tpugraphs.layertime.model import LayerTimeModel
from tpugraphs.layertime.networks import (
    Estimate,
    Layer,
    LayerList,
    LayerTime,
    Scaling,
    exposed_ms,
    fit_factor,
    fit_scaling,
    layers_of_onnx,
    layers_of_torch,
    network_time,
    read_layers,
    ring_ms,
)
from tpugraphs.layertime.shipped import MODELS, load_models, measured_layers
from tpugraphs.layertime.splits import unseen_devices, unseen_layers
from tpugraphs.layertime.table import LayerTable, read_table

__all__ = [
    "DEVICES",
    "KINDS",
    "METHODS",
    "MODELS",
    "Device",
    "Estimate",
    "Layer",
    "LayerAudit",
    "LayerList",
    "LayerTable",
    "LayerTime",
    "LayerTimeModel",
    "Scaling",
    "audit",
    "exposed_ms",
    "features",
    "fit_factor",
    "fit_scaling",
    "get_device",
    "layers_of_onnx",
    "layers_of_torch",
    "load_models",
    "measure",
    "measured_layers",
    "network_time",
    "read_layers",
    "read_table",
    "ring_ms",
    "roofline_ms",
    "this_device",
    "unseen_devices",
    "unseen_layers",
]
