"""Files of layer-time models: each part of a model writes itself into one, and reads itself back."""

from collections.abc import Sequence
from dataclasses import astuple, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tpugraphs.layertime.devices import Device
from tpugraphs.ranker import filekinds
from tpugraphs.ranker.ranker import Ranker
from tpugraphs.system import counted, tensorfile


@dataclass(frozen=True)
class File:
    """Metadata and tensors of a file.

    Attributes
    ----------
    path : str
        For errors.
    metadata : dict
    tensors : dict of str to array
    prefix : str
        Start of the names of tensors.
    """

    path: str = ""
    metadata: dict[str, Any] = field(default_factory=dict)
    tensors: dict[str, NDArray[Any]] = field(default_factory=dict)
    prefix: str = ""

    def put(self, **tensors: NDArray[Any]) -> None:
        """Add tensors."""
        self.tensors.update({self.prefix + name: array for name, array in tensors.items()})

    def put_devices(self, entry: str, devices: Sequence[Device]) -> None:
        """Add an entry of devices."""
        self.metadata[entry] = [astuple(device) for device in devices]

    def put_rankers(self, rankers: Sequence[Ranker]) -> None:
        """Add rankers, whole."""
        self.metadata["members"], tensors = filekinds.write_members(rankers)
        self.tensors.update(tensors)

    def get(self, name: str, *shape: int) -> NDArray[np.float64]:
        """Return a tensor of that shape; CheckpointError if there is none."""
        return tensorfile.take(self.path, self.tensors, self.prefix + name, shape, np.float64)

    def entry(self, name: str, kind: type) -> Any:
        """Return an entry of that type; CheckpointError if there is none."""
        return tensorfile.entry(self.path, self.metadata, name, kind)

    def get_devices(self, entry: str) -> tuple[Device, ...]:
        """Return the devices of an entry, which has name and figures of each."""
        with tensorfile.sound(self.path, entry, "a name and figures each"):
            found = tuple(Device(*row) for row in self.entry(entry, list))
        names = [one.name for one in found]
        self.check(len(set(names)) == len(names), entry, "every name once", ", ".join(names))
        return found

    def get_rankers(self, count: int) -> list[Ranker]:
        """Return the rankers; CheckpointError unless there are `count`."""
        found = filekinds.read_members(self.path, self.metadata, self.tensors)
        rankers = [one for one in found if isinstance(one, Ranker)]
        right = len(rankers) == len(found) == count
        self.check(right, "members", counted(count, "ranker"), counted(len(found), "member"))
        return rankers

    def check(self, right: Any, name: str, expected: str, found: Any) -> None:
        """Raise CheckpointError about an entry or a tensor that is not right."""
        if not right:
            raise tensorfile.fail(self.path, self.prefix + name, expected, f"{found}")
