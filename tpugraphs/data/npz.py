"""Writing npz files."""

from __future__ import annotations

import zipfile
from typing import TYPE_CHECKING

import numpy as np

from tpugraphs.system.files import atomic_write

if TYPE_CHECKING:
    from tpugraphs.data.graph import Graph

_PIECE = 4 << 20  # bytes written at a time: `ConfigFeatures` are never in memory as a whole


def write_npz(path: str, graph: Graph) -> None:
    """Write a graph as an npz, atomically."""
    with (
        atomic_write(path) as file,
        zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as archive,
    ):
        for name, array in graph._saved():
            header = {"descr": np.dtype(array.dtype).str, "fortran_order": False, "shape": array.shape}
            step = max(1, _PIECE // max(1, array[:1].nbytes))
            info = zipfile.ZipInfo(f"{name}.npy")  # dated 1980: equal graphs give equal files
            info.compress_type = zipfile.ZIP_DEFLATED
            info.external_attr = 0o644 << 16
            with archive.open(info, "w", force_zip64=True) as member:
                np.lib.format.write_array_header_1_0(member, header)
                for i in range(0, len(array), step):
                    member.write(array[i : i + step].tobytes())
