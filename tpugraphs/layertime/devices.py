"""Devices that layers run on: peak rates and sizes, from public data sheets."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass, fields

from tpugraphs.data.columns import plain
from tpugraphs.errors import ConfigError
from tpugraphs.system.arguments import check_number

__all__ = ["DEVICES", "FIGURES", "LIMITS", "Device", "get_device"]

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
_KNOWN = (
    Device("K40", 4291, 288, 745, 15, 1.5, 12),
    Device("K80", 4368, 240, 875, 13, 1.5, 12),
    Device("M60", 4825, 160, 1178, 16, 2, 8),
    Device("GTX1080Ti", 11340, 484, 1582, 28, 2.75, 11),
    Device("P4", 5699, 192, 1113, 20, 2, 8),
    Device("P100", 9519, 732, 1328, 56, 4, 16),
    Device("V100", 14029, 900, 1370, 80, 6, 32),
    Device("T4", 8141, 320, 1590, 40, 4, 15),
    Device("A100-40GB", 19492, 1555, 1410, 108, 40, 40),
    Device("A100-80GB", 19492, 1935, 1410, 108, 40, 80),
    Device("H100", 66908, 3430, 1980, 132, 50, 80),
    Device("L4", 31334, 300, 2040, 60, 48, 24),
)

DEVICES: dict[str, Device] = {device.name: device for device in _KNOWN}
"""Known devices by name."""

_ALIASES = {
    "nvidia a100-pcie-40gb": "A100-40GB",
    "nvidia a100-sxm4-40gb": "A100-40GB",
    "nvidia a100 80gb pcie": "A100-80GB",
    "nvidia h100 80gb hbm3": "H100",
    "nvidia l4": "L4",
    "tesla p100-pcie-16gb": "P100",
    "tesla p4": "P4",
    "tesla t4": "T4",
    "tesla v100-pcie-32gb": "V100",
}


def get_device(device: str | Device, known: Iterable[Device] = ()) -> Device:
    """Look up a device by its name in data sheets or in PyTorch; a `Device` is returned as it is.

    Parameters
    ----------
    device : str or Device
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
    if not isinstance(device, str):
        raise ConfigError(f"device: expected a name or a Device, got {device!r}")
    own: dict[str, Device] = {}
    for one in known:
        own.setdefault(one.name, one)
    spelled = {name.lower(): name for name in DEVICES} | _ALIASES | {name.lower(): name for name in own}
    found = device if device in own else spelled.get(device.strip().lower())
    if found is None:
        near = difflib.get_close_matches(device.lower(), spelled, n=1)
        hint = f"; did you mean {spelled[near[0]]!r}?" if near else f"; known: {', '.join(own | DEVICES)}."
        raise ConfigError(
            f"device {device!r}: unknown{hint} Describe your own by tpugraphs.layertime.Device(...)"
        )
    return own.get(found) or DEVICES[found]
