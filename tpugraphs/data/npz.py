"""Writing npz files, member by member."""

from __future__ import annotations

import zipfile
from collections.abc import Iterable

import numpy as np

__all__ = ["write_member"]


def write_member(
    archive: zipfile.ZipFile, field: str, dtype: str, shape: tuple[int, ...], pieces: Iterable[bytes]
) -> None:
    """Write one array as a member of an npz, piece by piece, so that the whole never has to exist."""
    header = {"descr": dtype, "fortran_order": False, "shape": shape}
    info = zipfile.ZipInfo(f"{field}.npy")  # dated 1980: equal graphs give equal files
    info.compress_type = zipfile.ZIP_DEFLATED
    info.external_attr = 0o644 << 16
    with archive.open(info, "w", force_zip64=True) as member:
        np.lib.format.write_array_header_1_0(member, header)
        for piece in pieces:
            member.write(piece)
