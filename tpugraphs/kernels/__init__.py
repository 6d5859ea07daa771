"""The C kernels over NumPy arrays, for numeric checks and for building one's own models.

Arrays are C-contiguous and of exactly the dtype a function names: nothing is cast or copied silently.
"""

from tpugraphs.kernels.losses import list_mle, pairwise_hinge
from tpugraphs.kernels.ops import (
    adamw_step,
    config_linear,
    config_linear_backward,
    embedding,
    embedding_backward,
    instance_norm,
    instance_norm_backward,
    linear,
    linear_backward,
    mix,
    mix_backward,
    pool,
    pool_backward,
    sage_conv,
    sage_conv_backward,
)

__all__ = [
    "adamw_step",
    "config_linear",
    "config_linear_backward",
    "embedding",
    "embedding_backward",
    "instance_norm",
    "instance_norm_backward",
    "linear",
    "linear_backward",
    "list_mle",
    "mix",
    "mix_backward",
    "pairwise_hinge",
    "pool",
    "pool_backward",
    "sage_conv",
    "sage_conv_backward",
]
