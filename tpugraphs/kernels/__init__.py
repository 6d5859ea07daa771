"""The C kernels over NumPy arrays, for numeric checks and for building one's own models.

Arrays are C-contiguous and of exactly the dtype a function names: nothing is cast or copied silently.
"""

from tpugraphs.kernels.graph import (
    decode_base7,
    dedup_configs,
    dedup_rows,
    encode_base7,
    layout_digits,
    merge_configs,
    pack_digits,
    prune,
    sample_epoch,
    sample_without_replacement,
)
from tpugraphs.kernels.losses import list_mle, pairwise_hinge

__all__ = [
    "decode_base7",
    "dedup_configs",
    "dedup_rows",
    "encode_base7",
    "layout_digits",
    "list_mle",
    "merge_configs",
    "pack_digits",
    "pairwise_hinge",
    "prune",
    "sample_epoch",
    "sample_without_replacement",
]
