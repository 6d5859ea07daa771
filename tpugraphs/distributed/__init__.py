"""Work on several processes and machines: ranks that train together, and farms that measure."""

from tpugraphs.distributed.farm import ExecutorLike, OnDevice, on_device, open_executor
from tpugraphs.distributed.ranks import (
    Communicator,
    CommunicatorLike,
    LocalCommunicator,
    SingleCommunicator,
    communicator,
)

__all__ = [
    "Communicator", "CommunicatorLike", "ExecutorLike", "LocalCommunicator", "OnDevice",
    "SingleCommunicator", "communicator", "on_device", "open_executor",
]  # fmt: skip
