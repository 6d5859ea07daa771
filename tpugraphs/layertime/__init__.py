"""Times of layers on a device: measured tables, devices, models of them; times of whole networks."""

from tpugraphs.layertime.audit import LayerAudit, audit
from tpugraphs.layertime.devices import DEVICES, Device, get_device, this_device
from tpugraphs.layertime.features import features, roofline_ms
from tpugraphs.layertime.kinds import KINDS
from tpugraphs.layertime.measuring import measure
from tpugraphs.layertime.methods import METHODS
from tpugraphs.layertime.model import MODELS, LayerTimeModel, load_models, measured_layers
from tpugraphs.layertime.networks.estimate import (
    Estimate,
    LayerTime,
    Scaling,
    exposed_ms,
    fit_factor,
    fit_scaling,
    network_time,
    ring_ms,
)
from tpugraphs.layertime.networks.layer import Layer, LayerList
from tpugraphs.layertime.networks.reading import layers_of_onnx, read_layers
from tpugraphs.layertime.networks.step_cost import StepCost, calibrate_network
from tpugraphs.layertime.networks.torch_modules import layers_of_torch
from tpugraphs.layertime.table import LayerTable, read_table, unseen_devices, unseen_layers

__all__ = [
    "DEVICES", "KINDS", "METHODS", "MODELS", "Device", "Estimate", "Layer", "LayerAudit", "LayerList",
    "LayerTable", "LayerTime", "LayerTimeModel", "Scaling", "StepCost", "audit", "calibrate_network",
    "exposed_ms", "features", "fit_factor", "fit_scaling", "get_device", "layers_of_onnx",
    "layers_of_torch", "load_models", "measure", "measured_layers", "network_time", "read_layers",
    "read_table", "ring_ms", "roofline_ms", "this_device", "unseen_devices", "unseen_layers",
]  # fmt: skip
