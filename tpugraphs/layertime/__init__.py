"""Times of single layers on a device: measured tables, devices, models of them."""

from tpugraphs.layertime.devices import DEVICES, Device, get_device
from tpugraphs.layertime.features import features, roofline_ms
from tpugraphs.layertime.kinds import KINDS
from tpugraphs.layertime.local import this_device
from tpugraphs.layertime.measuring import measure
from tpugraphs.layertime.methods import METHODS
from tpugraphs.layertime.model import LayerTimeModel
from tpugraphs.layertime.splits import unseen_devices, unseen_layers
from tpugraphs.layertime.table import LayerTable, read_table

__all__ = [
    "DEVICES",
    "KINDS",
    "METHODS",
    "Device",
    "LayerTable",
    "LayerTimeModel",
    "features",
    "get_device",
    "measure",
    "read_table",
    "roofline_ms",
    "this_device",
    "unseen_devices",
    "unseen_layers",
]
