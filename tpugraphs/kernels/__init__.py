"""The C kernels over NumPy arrays, for numeric checks and for building one's own models.

Arrays are C-contiguous and of exactly the dtype a function names: nothing is cast or copied silently.
"""

from typing import Any

from tpugraphs.kernels.attention import (
    channel_attention,
    channel_attention_backward,
    config_attention,
    config_attention_backward,
    gelu,
    gelu_backward,
)
from tpugraphs.kernels.faces import faces
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
from tpugraphs.kernels.losses import FACES, list_mle, pairwise_hinge, ratio_ranks, weighted_sum
from tpugraphs.kernels.ops import (
    config_linear,
    config_linear_backward,
    embedding,
    embedding_backward,
    instance_norm,
    instance_norm_backward,
    linear,
    linear_backward,
    matmul,
    mix,
    mix_backward,
    mlp,
    mlp_backward,
    pool,
    pool_backward,
    sage_conv,
    sage_conv_backward,
)
from tpugraphs.kernels.optimizer import adamw_step, optimizer_step
from tpugraphs.kernels.sampler import ConfigSampler
from tpugraphs.kernels.scaler import StandardScaler
from tpugraphs.kernels.schedules import warmup_cosine

__all__ = [
    "ConfigSampler",
    "StandardScaler",
    "adamw_step",
    "channel_attention",
    "channel_attention_backward",
    "config_attention",
    "config_attention_backward",
    "config_linear",
    "config_linear_backward",
    "decode_base7",
    "dedup_configs",
    "dedup_rows",
    "embedding",
    "embedding_backward",
    "encode_base7",
    "gelu",
    "gelu_backward",
    "instance_norm",
    "instance_norm_backward",
    "layout_digits",
    "linear",
    "linear_backward",
    "list_mle",
    "matmul",
    "merge_configs",
    "mix",
    "mix_backward",
    "mlp",
    "mlp_backward",
    "optimizer_step",
    "pack_digits",
    "pairwise_hinge",
    "pool",
    "pool_backward",
    "prune",
    "ratio_ranks",
    "sage_conv",
    "sage_conv_backward",
    "sample_epoch",
    "sample_without_replacement",
    "warmup_cosine",
    "weighted_sum",
]
globals().update(FACES)  # the other losses: ranknet, lambda_rank, mse ...
__all__ += FACES

# Ops whose functions are written by hand, for what they add to the op: shapes, names, several ops in one.
_BY_HAND = frozenset({"config_linear", "embedding", "instance_norm", "linear", "mix", "pool", "sage"})
_FACES = faces(_BY_HAND)
__all__ += [*_FACES]


def __getattr__(name: str) -> Any:
    if name in _FACES:
        return _FACES[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
