"""Types of the kernels over arrays. Made by `make tables`; a test fails when it is out of date."""

# ruff: noqa
from collections.abc import Collection, Mapping
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from tpugraphs.kernels import losses as losses
from tpugraphs.kernels import ops as ops
from tpugraphs.kernels import streams as streams
from tpugraphs.kernels.faces import Array, Precision
from tpugraphs.kernels.losses import Result, Runtimes
from tpugraphs.kernels.ops import Activation, Direction
from tpugraphs.kernels.sampler import ConfigSampler as ConfigSampler
from tpugraphs.kernels.scaler import StandardScaler as StandardScaler
from tpugraphs.kernels.schedules import warmup_cosine as warmup_cosine
from tpugraphs.kernels.graph import decode_base7 as decode_base7
from tpugraphs.kernels.graph import dedup_configs as dedup_configs
from tpugraphs.kernels.graph import dedup_rows as dedup_rows
from tpugraphs.kernels.graph import encode_base7 as encode_base7
from tpugraphs.kernels.graph import layout_digits as layout_digits
from tpugraphs.kernels.graph import merge_configs as merge_configs
from tpugraphs.kernels.graph import pack_digits as pack_digits
from tpugraphs.kernels.graph import prune as prune
from tpugraphs.kernels.graph import sample_epoch as sample_epoch
from tpugraphs.kernels.graph import sample_without_replacement as sample_without_replacement
from tpugraphs.kernels.losses import list_mle as list_mle
from tpugraphs.kernels.losses import pairwise_hinge as pairwise_hinge
from tpugraphs.kernels.losses import ratio_ranks as ratio_ranks
from tpugraphs.kernels.losses import weighted_sum as weighted_sum
from tpugraphs.kernels.ops import config_attention as config_attention
from tpugraphs.kernels.ops import config_attention_backward as config_attention_backward
from tpugraphs.kernels.ops import matmul as matmul
from tpugraphs.kernels.ops import mlp as mlp
from tpugraphs.kernels.ops import mlp_backward as mlp_backward
from tpugraphs.kernels.optimizer import adamw_step as adamw_step
from tpugraphs.kernels.optimizer import optimizer_step as optimizer_step

__all__: list[str]

def ranknet(
    scores: NDArray[np.float32],
    runtimes: Runtimes,
    *,
    sigma: float = ...,
    reduction: Literal["mean-pairs", "sum", "mean-all"] = ...,
    weights: NDArray[np.float32] | None = ...,
    offsets: NDArray[np.int64] | None = ...,
) -> Result: ...
def lambda_rank(
    scores: NDArray[np.float32],
    runtimes: Runtimes,
    *,
    values: NDArray[np.float64] | None = ...,
    gain: Literal["rank", "linear", "inverse"] = ...,
    k: int = ...,
    sigma: float = ...,
    scheme: Literal["lambdarank", "ndcg1", "ndcg2", "arp1", "arp2"] = ...,
    reduction: Literal["sum", "mean-all", "mean-pairs"] = ...,
    weights: NDArray[np.float32] | None = ...,
    offsets: NDArray[np.int64] | None = ...,
) -> Result: ...
def mse(
    scores: NDArray[np.float32],
    values: NDArray[np.float64],
    *,
    reduction: Literal["mean", "sum"] = ...,
    weights: NDArray[np.float32] | None = ...,
    offsets: NDArray[np.int64] | None = ...,
) -> Result: ...
def log_mse(
    scores: NDArray[np.float32],
    values: NDArray[np.float64],
    *,
    offset: float = ...,
    reduction: Literal["mean", "sum"] = ...,
    weights: NDArray[np.float32] | None = ...,
    offsets: NDArray[np.int64] | None = ...,
) -> Result: ...
def msle(
    scores: NDArray[np.float32],
    values: NDArray[np.float64],
    *,
    reduction: Literal["mean", "sum"] = ...,
    weights: NDArray[np.float32] | None = ...,
    offsets: NDArray[np.int64] | None = ...,
) -> Result: ...
def mape(
    scores: NDArray[np.float32],
    values: NDArray[np.float64],
    *,
    epsilon: float = ...,
    reduction: Literal["mean", "sum"] = ...,
    weights: NDArray[np.float32] | None = ...,
    offsets: NDArray[np.int64] | None = ...,
) -> Result: ...
def quantile(
    scores: NDArray[np.float32],
    values: NDArray[np.float64],
    *,
    level: float = ...,
    reduction: Literal["mean", "sum"] = ...,
    weights: NDArray[np.float32] | None = ...,
    offsets: NDArray[np.int64] | None = ...,
) -> Result: ...
def cross_entropy(
    scores: NDArray[np.float32],
    values: NDArray[np.float64],
    *,
    reduction: Literal["mean", "sum"] = ...,
    weights: NDArray[np.float32] | None = ...,
    offsets: NDArray[np.int64] | None = ...,
) -> Result: ...
def permuted_margin(
    scores: NDArray[np.float32],
    runtimes: Runtimes,
    *,
    margin: float = ...,
    permutations: int = ...,
    reduction: Literal["mean-pairs", "sum", "mean"] = ...,
    weights: NDArray[np.float32] | None = ...,
    offsets: NDArray[np.int64] | None = ...,
) -> Result: ...
def dcg_hinge(
    scores: NDArray[np.float32],
    runtimes: Runtimes,
    *,
    margin: float = ...,
    reduction: Literal["sum", "mean-all", "mean-pairs"] = ...,
    weights: NDArray[np.float32] | None = ...,
    offsets: NDArray[np.int64] | None = ...,
) -> Result: ...
def channel_attention(
    x: Array,
    w1: Array,
    b1: Array,
    w2: Array,
    b2: Array,
    out: Array | None = ...,
) -> Array: ...
def channel_attention_backward(
    dy: Array,
    x: Array,
    w1: Array,
    b1: Array,
    w2: Array,
    b2: Array,
    out: Mapping[str, Array] | None = ...,
    *,
    only: Collection[str] | None = ...,
) -> dict[str, Array]: ...
def config_linear(
    h: Array,
    digits: NDArray[np.int8],
    config_nodes: NDArray[np.int64],
    weight: Array,
    bias: Array | None,
    table: Array | None = ...,
    column: int | None = ...,
    out: Array | None = ...,
    *,
    digit_scale: Array | None = ...,
    scale: float = ...,
    num_nodes: int | None = ...,
) -> Array: ...
def config_linear_backward(
    dy: Array,
    h: Array,
    digits: NDArray[np.int8],
    config_nodes: NDArray[np.int64],
    weight: Array,
    bias: Array | None,
    table: Array | None = ...,
    column: int | None = ...,
    out: Mapping[str, Array] | None = ...,
    *,
    digit_scale: Array | None = ...,
    scale: float = ...,
    num_nodes: int | None = ...,
    only: Collection[str] | None = ...,
) -> dict[str, Array]: ...
def embedding(
    x: Array,
    index: NDArray[np.int8] | NDArray[np.uint8],
    weight: Array,
    source: Literal["opcode", "layout"] = ...,
    out: Array | None = ...,
    max_norm: float = ...,
) -> Array: ...
def embedding_backward(
    dy: Array,
    x: Array,
    index: NDArray[np.int8] | NDArray[np.uint8],
    weight: Array,
    source: Literal["opcode", "layout"] = ...,
    out: Mapping[str, Array] | None = ...,
    max_norm: float = ...,
    *,
    only: Collection[str] | None = ...,
) -> dict[str, Array]: ...
def gelu(
    x: Array,
    out: Array | None = ...,
) -> Array: ...
def gelu_backward(
    dy: Array,
    x: Array,
    out: Mapping[str, Array] | None = ...,
    *,
    only: Collection[str] | None = ...,
) -> dict[str, Array]: ...
def instance_norm(
    x: Array,
    out: Array | None = ...,
) -> Array: ...
def instance_norm_backward(
    dy: Array,
    x: Array,
    out: Mapping[str, Array] | None = ...,
    *,
    only: Collection[str] | None = ...,
) -> dict[str, Array]: ...
def linear(
    x: Array,
    weight: Array,
    bias: Array | None,
    act: Activation = ...,
    out: Array | None = ...,
    row: Array | None = ...,
    slope: Array | None = ...,
) -> Array: ...
def linear_backward(
    dy: Array,
    x: Array,
    weight: Array,
    bias: Array | None,
    act: Activation = ...,
    out: Mapping[str, Array] | None = ...,
    row: Array | None = ...,
    slope: Array | None = ...,
    *,
    only: Collection[str] | None = ...,
) -> dict[str, Array]: ...
def mix(
    z: Array,
    residual: Array | None = ...,
    w1: Array | None = ...,
    b1: Array | None = ...,
    w2: Array | None = ...,
    b2: Array | None = ...,
    temperature: Array | None = ...,
    norm: bool = ...,
    act: Activation = ...,
    dropout: float = ...,
    key: int = ...,
    step: int = ...,
    out: Array | None = ...,
    precision: Precision = ...,
    slope: Array | None = ...,
) -> Array: ...
def mix_backward(
    dy: Array,
    z: Array,
    residual: Array | None = ...,
    w1: Array | None = ...,
    b1: Array | None = ...,
    w2: Array | None = ...,
    b2: Array | None = ...,
    temperature: Array | None = ...,
    norm: bool = ...,
    act: Activation = ...,
    dropout: float = ...,
    key: int = ...,
    step: int = ...,
    out: Mapping[str, Array] | None = ...,
    precision: Precision = ...,
    slope: Array | None = ...,
    *,
    only: Collection[str] | None = ...,
) -> dict[str, Array]: ...
def pool(
    x: Array,
    kind: str = ...,
    out: Array | None = ...,
) -> Array: ...
def pool_backward(
    dy: Array,
    x: Array,
    kind: str = ...,
    out: Mapping[str, Array] | None = ...,
    *,
    only: Collection[str] | None = ...,
) -> dict[str, Array]: ...
def sage_conv(
    x: Array,
    edge_index: NDArray[np.int64],
    w_l: Array,
    b_l: Array,
    w_r: Array,
    direction: Direction = ...,
    out: Array | None = ...,
) -> Array: ...
def sage_conv_backward(
    dy: Array,
    x: Array,
    edge_index: NDArray[np.int64],
    w_l: Array,
    b_l: Array,
    w_r: Array,
    direction: Direction = ...,
    out: Mapping[str, Array] | None = ...,
    *,
    only: Collection[str] | None = ...,
) -> dict[str, Array]: ...
def config_columns(
    digits: NDArray[np.int8],
    config_nodes: NDArray[np.int64],
    *,
    of: Literal["nodes", "config_nodes"] = ...,
    form: Literal["digits", "positions"] = ...,
    scale: float = ...,
    shift: float = ...,
    num_nodes: int | None = ...,
    digit_rows: int = ...,
    precision: Precision = ...,
    out: Array | None = ...,
) -> Array: ...
def config_columns_backward(
    dy: Array,
    digits: NDArray[np.int8],
    config_nodes: NDArray[np.int64],
    *,
    of: Literal["nodes", "config_nodes"] = ...,
    form: Literal["digits", "positions"] = ...,
    scale: float = ...,
    shift: float = ...,
    num_nodes: int | None = ...,
    digit_rows: int = ...,
    precision: Precision = ...,
    out: Mapping[str, Array] | None = ...,
    only: Collection[str] | None = ...,
) -> dict[str, Array]: ...
def layout_columns(
    layout_digits: NDArray[np.int8],
    *,
    copies: int = ...,
    form: Literal["digits", "positions", "wrapped"] = ...,
    scale: float = ...,
    num_nodes: int | None = ...,
    precision: Precision = ...,
    out: Array | None = ...,
) -> Array: ...
def layout_columns_backward(
    dy: Array,
    layout_digits: NDArray[np.int8],
    *,
    copies: int = ...,
    form: Literal["digits", "positions", "wrapped"] = ...,
    scale: float = ...,
    num_nodes: int | None = ...,
    precision: Precision = ...,
    out: Mapping[str, Array] | None = ...,
    only: Collection[str] | None = ...,
) -> dict[str, Array]: ...
def noise(
    x: Array,
    *,
    std: float = ...,
    training: bool = ...,
    key: int = ...,
    precision: Precision = ...,
    out: Array | None = ...,
) -> Array: ...
def noise_backward(
    dy: Array,
    x: Array,
    *,
    std: float = ...,
    training: bool = ...,
    key: int = ...,
    precision: Precision = ...,
    out: Mapping[str, Array] | None = ...,
    only: Collection[str] | None = ...,
) -> dict[str, Array]: ...
def add(
    x: Array,
    y: Array,
    *,
    z: Array | None = ...,
    u: Array | None = ...,
    precision: Precision = ...,
    out: Array | None = ...,
) -> Array: ...
def add_backward(
    dy: Array,
    x: Array,
    y: Array,
    *,
    z: Array | None = ...,
    u: Array | None = ...,
    precision: Precision = ...,
    out: Mapping[str, Array] | None = ...,
    only: Collection[str] | None = ...,
) -> dict[str, Array]: ...
def concat(
    x: Array,
    y: Array,
    *,
    z: Array | None = ...,
    u: Array | None = ...,
    precision: Precision = ...,
    out: Array | None = ...,
) -> Array: ...
def concat_backward(
    dy: Array,
    x: Array,
    y: Array,
    *,
    z: Array | None = ...,
    u: Array | None = ...,
    precision: Precision = ...,
    out: Mapping[str, Array] | None = ...,
    only: Collection[str] | None = ...,
) -> dict[str, Array]: ...
def take_columns(
    x: Array,
    *,
    first: int = ...,
    count: int = ...,
    precision: Precision = ...,
    out: Array | None = ...,
) -> Array: ...
def take_columns_backward(
    dy: Array,
    x: Array,
    *,
    first: int = ...,
    count: int = ...,
    precision: Precision = ...,
    out: Mapping[str, Array] | None = ...,
    only: Collection[str] | None = ...,
) -> dict[str, Array]: ...
def gate(
    a: Array,
    x: Array,
    *,
    y: Array | None = ...,
    precision: Precision = ...,
    out: Array | None = ...,
) -> Array: ...
def gate_backward(
    dy: Array,
    a: Array,
    x: Array,
    *,
    y: Array | None = ...,
    precision: Precision = ...,
    out: Mapping[str, Array] | None = ...,
    only: Collection[str] | None = ...,
) -> dict[str, Array]: ...
def affine(
    x: Array,
    weight: Array | None = ...,
    bias: Array | None = ...,
    *,
    learn: Literal["weight+bias", "weight", "bias", "none"] = ...,
    column: int = ...,
    per_column: bool = ...,
    scale: float = ...,
    init: float = ...,
    precision: Precision = ...,
    out: Array | None = ...,
) -> Array: ...
def affine_backward(
    dy: Array,
    x: Array,
    weight: Array | None = ...,
    bias: Array | None = ...,
    *,
    learn: Literal["weight+bias", "weight", "bias", "none"] = ...,
    column: int = ...,
    per_column: bool = ...,
    scale: float = ...,
    init: float = ...,
    precision: Precision = ...,
    out: Mapping[str, Array] | None = ...,
    only: Collection[str] | None = ...,
) -> dict[str, Array]: ...
def dropout(
    x: Array,
    *,
    p: float = ...,
    training: bool = ...,
    key: int = ...,
    precision: Precision = ...,
    out: Array | None = ...,
) -> Array: ...
def dropout_backward(
    dy: Array,
    x: Array,
    *,
    p: float = ...,
    training: bool = ...,
    key: int = ...,
    precision: Precision = ...,
    out: Mapping[str, Array] | None = ...,
    only: Collection[str] | None = ...,
) -> dict[str, Array]: ...
def activation(
    x: Array,
    slope: Array | None = ...,
    *,
    act: Literal["none", "relu", "gelu", "leaky", "elu", "silu", "sigmoid", "tanh", "prelu"] = ...,
    per_column: bool = ...,
    negative_slope: float = ...,
    alpha: float = ...,
    init: float = ...,
    precision: Precision = ...,
    out: Array | None = ...,
) -> Array: ...
def activation_backward(
    dy: Array,
    x: Array,
    slope: Array | None = ...,
    *,
    act: Literal["none", "relu", "gelu", "leaky", "elu", "silu", "sigmoid", "tanh", "prelu"] = ...,
    per_column: bool = ...,
    negative_slope: float = ...,
    alpha: float = ...,
    init: float = ...,
    precision: Precision = ...,
    out: Mapping[str, Array] | None = ...,
    only: Collection[str] | None = ...,
) -> dict[str, Array]: ...
def layer_norm(
    x: Array,
    weight: Array | None = ...,
    bias: Array | None = ...,
    *,
    eps: float = ...,
    affine: bool = ...,
    precision: Precision = ...,
    out: Array | None = ...,
) -> Array: ...
def layer_norm_backward(
    dy: Array,
    x: Array,
    weight: Array | None = ...,
    bias: Array | None = ...,
    *,
    eps: float = ...,
    affine: bool = ...,
    precision: Precision = ...,
    out: Mapping[str, Array] | None = ...,
    only: Collection[str] | None = ...,
) -> dict[str, Array]: ...
def graph_norm(
    x: Array,
    weight: Array | None = ...,
    bias: Array | None = ...,
    mean_scale: Array | None = ...,
    *,
    eps: float = ...,
    precision: Precision = ...,
    out: Array | None = ...,
) -> Array: ...
def graph_norm_backward(
    dy: Array,
    x: Array,
    weight: Array | None = ...,
    bias: Array | None = ...,
    mean_scale: Array | None = ...,
    *,
    eps: float = ...,
    precision: Precision = ...,
    out: Mapping[str, Array] | None = ...,
    only: Collection[str] | None = ...,
) -> dict[str, Array]: ...
def config_norm(
    x: Array,
    *,
    eps: float = ...,
    precision: Precision = ...,
    out: Array | None = ...,
) -> Array: ...
def config_norm_backward(
    dy: Array,
    x: Array,
    *,
    eps: float = ...,
    precision: Precision = ...,
    out: Mapping[str, Array] | None = ...,
    only: Collection[str] | None = ...,
) -> dict[str, Array]: ...
def l2_normalise(
    x: Array,
    *,
    eps: float = ...,
    precision: Precision = ...,
    out: Array | None = ...,
) -> Array: ...
def l2_normalise_backward(
    dy: Array,
    x: Array,
    *,
    eps: float = ...,
    precision: Precision = ...,
    out: Mapping[str, Array] | None = ...,
    only: Collection[str] | None = ...,
) -> dict[str, Array]: ...
def linear_attention(
    q: Array,
    k: Array,
    v: Array,
    *,
    heads: int = ...,
    normalise: bool = ...,
    eps: float = ...,
    precision: Precision = ...,
    out: Array | None = ...,
) -> Array: ...
def linear_attention_backward(
    dy: Array,
    q: Array,
    k: Array,
    v: Array,
    *,
    heads: int = ...,
    normalise: bool = ...,
    eps: float = ...,
    precision: Precision = ...,
    out: Mapping[str, Array] | None = ...,
    only: Collection[str] | None = ...,
) -> dict[str, Array]: ...
def attention(
    q: Array,
    k: Array,
    v: Array,
    *,
    heads: int = ...,
    precision: Precision = ...,
    out: Array | None = ...,
) -> Array: ...
def attention_backward(
    dy: Array,
    q: Array,
    k: Array,
    v: Array,
    *,
    heads: int = ...,
    precision: Precision = ...,
    out: Mapping[str, Array] | None = ...,
    only: Collection[str] | None = ...,
) -> dict[str, Array]: ...
def linformer(
    q: Array,
    k: Array,
    v: Array,
    project_k: Array | None = ...,
    project_v: Array | None = ...,
    *,
    heads: int = ...,
    project: int = ...,
    bins: int = ...,
    precision: Precision = ...,
    out: Array | None = ...,
) -> Array: ...
def linformer_backward(
    dy: Array,
    q: Array,
    k: Array,
    v: Array,
    project_k: Array | None = ...,
    project_v: Array | None = ...,
    *,
    heads: int = ...,
    project: int = ...,
    bins: int = ...,
    precision: Precision = ...,
    out: Mapping[str, Array] | None = ...,
    only: Collection[str] | None = ...,
) -> dict[str, Array]: ...
def cell_columns(
    digits: NDArray[np.int8],
    config_nodes: NDArray[np.int64],
    node_feat: NDArray[np.float32],
    *,
    x: Array | None = ...,
    tokens: int = ...,
    num_nodes: int | None = ...,
    digit_rows: int = ...,
    precision: Precision = ...,
    out: Array | None = ...,
) -> Array: ...
def cell_columns_backward(
    dy: Array,
    digits: NDArray[np.int8],
    config_nodes: NDArray[np.int64],
    node_feat: NDArray[np.float32],
    *,
    x: Array | None = ...,
    tokens: int = ...,
    num_nodes: int | None = ...,
    digit_rows: int = ...,
    precision: Precision = ...,
    out: Mapping[str, Array] | None = ...,
    only: Collection[str] | None = ...,
) -> dict[str, Array]: ...
def dimension_tokens(
    x: Array,
    weight: Array | None = ...,
    bias: Array | None = ...,
    slope: Array | None = ...,
    *,
    tokens: int = ...,
    cols: int = ...,
    act: Literal["none", "relu", "gelu", "leaky", "elu", "silu", "sigmoid", "tanh", "prelu"] = ...,
    per_column: bool = ...,
    column: int = ...,
    groups: int = ...,
    step: int = ...,
    number: bool = ...,
    init: Literal["default", "xavier", "lecun", "glorot"] = ...,
    precision: Precision = ...,
    out: Array | None = ...,
) -> Array: ...
def dimension_tokens_backward(
    dy: Array,
    x: Array,
    weight: Array | None = ...,
    bias: Array | None = ...,
    slope: Array | None = ...,
    *,
    tokens: int = ...,
    cols: int = ...,
    act: Literal["none", "relu", "gelu", "leaky", "elu", "silu", "sigmoid", "tanh", "prelu"] = ...,
    per_column: bool = ...,
    column: int = ...,
    groups: int = ...,
    step: int = ...,
    number: bool = ...,
    init: Literal["default", "xavier", "lecun", "glorot"] = ...,
    precision: Precision = ...,
    out: Mapping[str, Array] | None = ...,
    only: Collection[str] | None = ...,
) -> dict[str, Array]: ...
def encoder_layer(
    x: Array,
    in_proj_weight: Array | None = ...,
    in_proj_bias: Array | None = ...,
    out_proj_weight: Array | None = ...,
    out_proj_bias: Array | None = ...,
    linear1_weight: Array | None = ...,
    linear1_bias: Array | None = ...,
    linear2_weight: Array | None = ...,
    linear2_bias: Array | None = ...,
    norm1_weight: Array | None = ...,
    norm1_bias: Array | None = ...,
    norm2_weight: Array | None = ...,
    norm2_bias: Array | None = ...,
    slope: Array | None = ...,
    *,
    tokens: int = ...,
    heads: int = ...,
    hidden: int = ...,
    act: Literal["none", "relu", "gelu", "leaky", "elu", "silu", "sigmoid", "tanh", "prelu"] = ...,
    per_column: bool = ...,
    norm: Literal["post", "pre"] = ...,
    dropout: float = ...,
    init: Literal["default", "xavier", "lecun", "glorot"] = ...,
    training: bool = ...,
    key: int = ...,
    precision: Precision = ...,
    out: Array | None = ...,
) -> Array: ...
def encoder_layer_backward(
    dy: Array,
    x: Array,
    in_proj_weight: Array | None = ...,
    in_proj_bias: Array | None = ...,
    out_proj_weight: Array | None = ...,
    out_proj_bias: Array | None = ...,
    linear1_weight: Array | None = ...,
    linear1_bias: Array | None = ...,
    linear2_weight: Array | None = ...,
    linear2_bias: Array | None = ...,
    norm1_weight: Array | None = ...,
    norm1_bias: Array | None = ...,
    norm2_weight: Array | None = ...,
    norm2_bias: Array | None = ...,
    slope: Array | None = ...,
    *,
    tokens: int = ...,
    heads: int = ...,
    hidden: int = ...,
    act: Literal["none", "relu", "gelu", "leaky", "elu", "silu", "sigmoid", "tanh", "prelu"] = ...,
    per_column: bool = ...,
    norm: Literal["post", "pre"] = ...,
    dropout: float = ...,
    init: Literal["default", "xavier", "lecun", "glorot"] = ...,
    training: bool = ...,
    key: int = ...,
    precision: Precision = ...,
    out: Mapping[str, Array] | None = ...,
    only: Collection[str] | None = ...,
) -> dict[str, Array]: ...
def pool_tokens(
    x: Array,
    *,
    tokens: int = ...,
    kind: Literal["mean", "sum"] = ...,
    precision: Precision = ...,
    out: Array | None = ...,
) -> Array: ...
def pool_tokens_backward(
    dy: Array,
    x: Array,
    *,
    tokens: int = ...,
    kind: Literal["mean", "sum"] = ...,
    precision: Precision = ...,
    out: Mapping[str, Array] | None = ...,
    only: Collection[str] | None = ...,
) -> dict[str, Array]: ...
def gather_unique(
    x: Array,
    digits: NDArray[np.int8],
    config_nodes: NDArray[np.int64],
    node_feat: NDArray[np.float32],
    *,
    num_nodes: int | None = ...,
    digit_rows: int = ...,
    precision: Precision = ...,
    out: Array | None = ...,
) -> Array: ...
def gather_unique_backward(
    dy: Array,
    x: Array,
    digits: NDArray[np.int8],
    config_nodes: NDArray[np.int64],
    node_feat: NDArray[np.float32],
    *,
    num_nodes: int | None = ...,
    digit_rows: int = ...,
    precision: Precision = ...,
    out: Mapping[str, Array] | None = ...,
    only: Collection[str] | None = ...,
) -> dict[str, Array]: ...
def take_config_nodes(
    x: Array,
    config_nodes: NDArray[np.int64],
    *,
    precision: Precision = ...,
    out: Array | None = ...,
) -> Array: ...
def take_config_nodes_backward(
    dy: Array,
    x: Array,
    config_nodes: NDArray[np.int64],
    *,
    precision: Precision = ...,
    out: Mapping[str, Array] | None = ...,
    only: Collection[str] | None = ...,
) -> dict[str, Array]: ...
def put_config_nodes(
    x: Array,
    config_nodes: NDArray[np.int64],
    *,
    rest: Array | None = ...,
    num_nodes: int | None = ...,
    precision: Precision = ...,
    out: Array | None = ...,
) -> Array: ...
def put_config_nodes_backward(
    dy: Array,
    x: Array,
    config_nodes: NDArray[np.int64],
    *,
    rest: Array | None = ...,
    num_nodes: int | None = ...,
    precision: Precision = ...,
    out: Mapping[str, Array] | None = ...,
    only: Collection[str] | None = ...,
) -> dict[str, Array]: ...
def gatv2(
    x: Array,
    edge_index: NDArray[np.int64],
    weight_l: Array | None = ...,
    bias_l: Array | None = ...,
    weight_r: Array | None = ...,
    bias_r: Array | None = ...,
    att: Array | None = ...,
    bias: Array | None = ...,
    *,
    cols: int = ...,
    heads: int = ...,
    merge: Literal["concat", "mean"] = ...,
    slope: float = ...,
    direction: Literal["forward", "reverse", "both"] = ...,
    stats: bool = ...,
    precision: Precision = ...,
    out: Array | None = ...,
) -> Array: ...
def gatv2_backward(
    dy: Array,
    x: Array,
    edge_index: NDArray[np.int64],
    weight_l: Array | None = ...,
    bias_l: Array | None = ...,
    weight_r: Array | None = ...,
    bias_r: Array | None = ...,
    att: Array | None = ...,
    bias: Array | None = ...,
    *,
    cols: int = ...,
    heads: int = ...,
    merge: Literal["concat", "mean"] = ...,
    slope: float = ...,
    direction: Literal["forward", "reverse", "both"] = ...,
    stats: bool = ...,
    precision: Precision = ...,
    out: Mapping[str, Array] | None = ...,
    only: Collection[str] | None = ...,
) -> dict[str, Array]: ...
def drop_edge(
    edge_index: NDArray[np.int64],
    *,
    p: float = ...,
    kept: Literal["rescaled", "one"] = ...,
    chance: Literal["fixed", "drawn"] = ...,
    num_nodes: int | None = ...,
    training: bool = ...,
    key: int = ...,
    precision: Precision = ...,
    out: Array | None = ...,
) -> Array: ...
def drop_edge_backward(
    dy: Array,
    edge_index: NDArray[np.int64],
    *,
    p: float = ...,
    kept: Literal["rescaled", "one"] = ...,
    chance: Literal["fixed", "drawn"] = ...,
    num_nodes: int | None = ...,
    training: bool = ...,
    key: int = ...,
    precision: Precision = ...,
    out: Mapping[str, Array] | None = ...,
    only: Collection[str] | None = ...,
) -> dict[str, Array]: ...
def edge_mean(
    x: Array,
    edge_index: NDArray[np.int64],
    *,
    weight: Array | None = ...,
    kind: Literal["mean", "sum", "share"] = ...,
    eps: float = ...,
    direction: Literal["forward", "reverse", "both"] = ...,
    stats: bool = ...,
    precision: Precision = ...,
    out: Array | None = ...,
) -> Array: ...
def edge_mean_backward(
    dy: Array,
    x: Array,
    edge_index: NDArray[np.int64],
    *,
    weight: Array | None = ...,
    kind: Literal["mean", "sum", "share"] = ...,
    eps: float = ...,
    direction: Literal["forward", "reverse", "both"] = ...,
    stats: bool = ...,
    precision: Precision = ...,
    out: Mapping[str, Array] | None = ...,
    only: Collection[str] | None = ...,
) -> dict[str, Array]: ...
def propagate(
    x: Array,
    edge_index: NDArray[np.int64],
    *,
    norm: Literal["sym", "mean", "sum"] = ...,
    self_loops: bool = ...,
    direction: Literal["forward", "reverse", "both"] = ...,
    transposed: bool = ...,
    steps: int = ...,
    alpha: float = ...,
    stats: bool = ...,
    precision: Precision = ...,
    out: Array | None = ...,
) -> Array: ...
def propagate_backward(
    dy: Array,
    x: Array,
    edge_index: NDArray[np.int64],
    *,
    norm: Literal["sym", "mean", "sum"] = ...,
    self_loops: bool = ...,
    direction: Literal["forward", "reverse", "both"] = ...,
    transposed: bool = ...,
    steps: int = ...,
    alpha: float = ...,
    stats: bool = ...,
    precision: Precision = ...,
    out: Mapping[str, Array] | None = ...,
    only: Collection[str] | None = ...,
) -> dict[str, Array]: ...
def edge_attention(
    q: Array,
    k: Array,
    v: Array,
    edge_index: NDArray[np.int64],
    *,
    score: Literal["dot", "additive"] = ...,
    heads: int = ...,
    merge: Literal["concat", "mean"] = ...,
    slope: float = ...,
    direction: Literal["forward", "reverse", "both"] = ...,
    stats: bool = ...,
    precision: Precision = ...,
    out: Array | None = ...,
) -> Array: ...
def edge_attention_backward(
    dy: Array,
    q: Array,
    k: Array,
    v: Array,
    edge_index: NDArray[np.int64],
    *,
    score: Literal["dot", "additive"] = ...,
    heads: int = ...,
    merge: Literal["concat", "mean"] = ...,
    slope: float = ...,
    direction: Literal["forward", "reverse", "both"] = ...,
    stats: bool = ...,
    precision: Precision = ...,
    out: Mapping[str, Array] | None = ...,
    only: Collection[str] | None = ...,
) -> dict[str, Array]: ...
def head_dots(
    x: Array,
    att: Array | None = ...,
    *,
    heads: int = ...,
    precision: Precision = ...,
    out: Array | None = ...,
) -> Array: ...
def head_dots_backward(
    dy: Array,
    x: Array,
    att: Array | None = ...,
    *,
    heads: int = ...,
    precision: Precision = ...,
    out: Mapping[str, Array] | None = ...,
    only: Collection[str] | None = ...,
) -> dict[str, Array]: ...
def edge_ends(
    x: Array,
    edge_index: NDArray[np.int64],
    *,
    precision: Precision = ...,
    out: Array | None = ...,
) -> Array: ...
def edge_ends_backward(
    dy: Array,
    x: Array,
    edge_index: NDArray[np.int64],
    *,
    precision: Precision = ...,
    out: Mapping[str, Array] | None = ...,
    only: Collection[str] | None = ...,
) -> dict[str, Array]: ...
def edge_pool(
    x: Array,
    edge_index: NDArray[np.int64],
    *,
    kind: Literal["mean", "sum"] = ...,
    end: Literal["consumer", "operand"] = ...,
    stats: bool = ...,
    num_nodes: int | None = ...,
    precision: Precision = ...,
    out: Array | None = ...,
) -> Array: ...
def edge_pool_backward(
    dy: Array,
    x: Array,
    edge_index: NDArray[np.int64],
    *,
    kind: Literal["mean", "sum"] = ...,
    end: Literal["consumer", "operand"] = ...,
    stats: bool = ...,
    num_nodes: int | None = ...,
    precision: Precision = ...,
    out: Mapping[str, Array] | None = ...,
    only: Collection[str] | None = ...,
) -> dict[str, Array]: ...
def outer_pool(
    a: Array,
    b: Array,
    *,
    mean: bool = ...,
    precision: Precision = ...,
    out: Array | None = ...,
) -> Array: ...
def outer_pool_backward(
    dy: Array,
    a: Array,
    b: Array,
    *,
    mean: bool = ...,
    precision: Precision = ...,
    out: Mapping[str, Array] | None = ...,
    only: Collection[str] | None = ...,
) -> dict[str, Array]: ...
