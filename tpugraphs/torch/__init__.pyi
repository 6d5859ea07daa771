"""Types of the functions of tensors. Made by `make tables`; a test fails when it is out of date."""

# ruff: noqa
from collections.abc import Sequence
from typing import Any, Literal

from torch import Tensor

from tpugraphs.kernels.faces import Precision
from tpugraphs.kernels.ops import Activation, Direction
from tpugraphs.torch.bridge import LOSSES as LOSSES
from tpugraphs.torch.bridge import OPS as OPS
from tpugraphs.torch.own_loss import as_loss as as_loss
from tpugraphs.torch.pyg import from_pyg as from_pyg
from tpugraphs.torch.pyg import to_pyg as to_pyg

__all__ = [
    "LOSSES",
    "OPS",
    "as_loss",
    "from_pyg",
    "to_pyg",
    "channel_attention",
    "config_attention",
    "config_linear",
    "embedding",
    "gelu",
    "instance_norm",
    "linear",
    "mix",
    "mlp",
    "pool",
    "sage_conv",
    "config_columns",
    "layout_columns",
    "noise",
    "add",
    "concat",
    "take_columns",
    "gate",
    "affine",
    "dropout",
    "activation",
    "layer_norm",
    "graph_norm",
    "config_norm",
    "l2_normalise",
    "linear_attention",
    "attention",
    "linformer",
    "cell_columns",
    "dimension_tokens",
    "encoder_layer",
    "pool_tokens",
    "gather_unique",
    "take_config_nodes",
    "put_config_nodes",
    "gatv2",
    "drop_edge",
    "edge_mean",
    "propagate",
    "edge_attention",
    "head_dots",
    "edge_ends",
    "edge_pool",
    "outer_pool",
    "weighted_sum",
    "pairwise_hinge",
    "list_mle",
    "ranknet",
    "lambda_rank",
    "mse",
    "log_mse",
    "msle",
    "mape",
    "quantile",
    "cross_entropy",
    "permuted_margin",
    "dcg_hinge",
]

def channel_attention(
    x: Tensor,
    w1: Tensor,
    b1: Tensor,
    w2: Tensor,
    b2: Tensor,
) -> Tensor: ...
def config_attention(
    x: Tensor,
    temperature: Tensor,
) -> Tensor: ...
def config_linear(
    h: Tensor,
    digits: Tensor,
    config_nodes: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    table: Tensor | None = ...,
    column: int | None = ...,
    *,
    digit_scale: Tensor | None = ...,
    scale: float = ...,
    num_nodes: int | None = ...,
) -> Tensor: ...
def embedding(
    x: Tensor,
    index: Tensor,
    weight: Tensor,
    source: Literal["opcode", "layout"] = ...,
    max_norm: float = ...,
) -> Tensor: ...
def gelu(
    x: Tensor,
) -> Tensor: ...
def instance_norm(
    x: Tensor,
) -> Tensor: ...
def linear(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    act: Activation = ...,
    row: Tensor | None = ...,
    slope: Tensor | None = ...,
) -> Tensor: ...
def mix(
    z: Tensor,
    residual: Tensor | None = ...,
    w1: Tensor | None = ...,
    b1: Tensor | None = ...,
    w2: Tensor | None = ...,
    b2: Tensor | None = ...,
    temperature: Tensor | None = ...,
    norm: bool = ...,
    act: Activation = ...,
    dropout: float = ...,
    key: int = ...,
    step: int = ...,
    precision: Precision = ...,
    slope: Tensor | None = ...,
) -> Tensor: ...
def mlp(
    x: Tensor,
    weights: Sequence[Tensor],
    biases: Sequence[Tensor],
    act: Activation = ...,
) -> Tensor: ...
def pool(
    x: Tensor,
    kind: str = ...,
) -> Tensor: ...
def sage_conv(
    x: Tensor,
    edge_index: Tensor,
    w_l: Tensor,
    b_l: Tensor,
    w_r: Tensor,
    direction: Direction = ...,
) -> Tensor: ...
def config_columns(
    digits: Tensor,
    config_nodes: Tensor,
    *,
    of: Literal["nodes", "config_nodes"] = ...,
    form: Literal["digits", "positions"] = ...,
    scale: float = ...,
    shift: float = ...,
    num_nodes: int | None = ...,
    digit_rows: int = ...,
    precision: Precision = ...,
) -> Tensor: ...
def layout_columns(
    layout_digits: Tensor,
    *,
    copies: int = ...,
    form: Literal["digits", "positions", "wrapped"] = ...,
    scale: float = ...,
    num_nodes: int | None = ...,
    precision: Precision = ...,
) -> Tensor: ...
def noise(
    x: Tensor,
    *,
    std: float = ...,
    training: bool = ...,
    key: int = ...,
    precision: Precision = ...,
) -> Tensor: ...
def add(
    x: Tensor,
    y: Tensor,
    *,
    z: Tensor | None = ...,
    u: Tensor | None = ...,
    precision: Precision = ...,
) -> Tensor: ...
def concat(
    x: Tensor,
    y: Tensor,
    *,
    z: Tensor | None = ...,
    u: Tensor | None = ...,
    precision: Precision = ...,
) -> Tensor: ...
def take_columns(
    x: Tensor,
    *,
    first: int = ...,
    count: int = ...,
    precision: Precision = ...,
) -> Tensor: ...
def gate(
    a: Tensor,
    x: Tensor,
    *,
    y: Tensor | None = ...,
    precision: Precision = ...,
) -> Tensor: ...
def affine(
    x: Tensor,
    weight: Tensor | None = ...,
    bias: Tensor | None = ...,
    *,
    learn: Literal["weight+bias", "weight", "bias", "none"] = ...,
    column: int = ...,
    per_column: bool = ...,
    scale: float = ...,
    init: float = ...,
    precision: Precision = ...,
) -> Tensor: ...
def dropout(
    x: Tensor,
    *,
    p: float = ...,
    training: bool = ...,
    key: int = ...,
    precision: Precision = ...,
) -> Tensor: ...
def activation(
    x: Tensor,
    slope: Tensor | None = ...,
    *,
    act: Literal["none", "relu", "gelu", "leaky", "elu", "silu", "sigmoid", "tanh", "prelu"] = ...,
    per_column: bool = ...,
    negative_slope: float = ...,
    alpha: float = ...,
    init: float = ...,
    precision: Precision = ...,
) -> Tensor: ...
def layer_norm(
    x: Tensor,
    weight: Tensor | None = ...,
    bias: Tensor | None = ...,
    *,
    eps: float = ...,
    affine: bool = ...,
    precision: Precision = ...,
) -> Tensor: ...
def graph_norm(
    x: Tensor,
    weight: Tensor | None = ...,
    bias: Tensor | None = ...,
    mean_scale: Tensor | None = ...,
    *,
    eps: float = ...,
    precision: Precision = ...,
) -> Tensor: ...
def config_norm(
    x: Tensor,
    *,
    eps: float = ...,
    precision: Precision = ...,
) -> Tensor: ...
def l2_normalise(
    x: Tensor,
    *,
    eps: float = ...,
    precision: Precision = ...,
) -> Tensor: ...
def linear_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    heads: int = ...,
    normalise: bool = ...,
    eps: float = ...,
    precision: Precision = ...,
) -> Tensor: ...
def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    heads: int = ...,
    precision: Precision = ...,
) -> Tensor: ...
def linformer(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    project_k: Tensor | None = ...,
    project_v: Tensor | None = ...,
    *,
    heads: int = ...,
    project: int = ...,
    bins: int = ...,
    precision: Precision = ...,
) -> Tensor: ...
def cell_columns(
    digits: Tensor,
    config_nodes: Tensor,
    node_feat: Tensor,
    *,
    x: Tensor | None = ...,
    tokens: int = ...,
    num_nodes: int | None = ...,
    digit_rows: int = ...,
    precision: Precision = ...,
) -> Tensor: ...
def dimension_tokens(
    x: Tensor,
    weight: Tensor | None = ...,
    bias: Tensor | None = ...,
    slope: Tensor | None = ...,
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
) -> Tensor: ...
def encoder_layer(
    x: Tensor,
    in_proj_weight: Tensor | None = ...,
    in_proj_bias: Tensor | None = ...,
    out_proj_weight: Tensor | None = ...,
    out_proj_bias: Tensor | None = ...,
    linear1_weight: Tensor | None = ...,
    linear1_bias: Tensor | None = ...,
    linear2_weight: Tensor | None = ...,
    linear2_bias: Tensor | None = ...,
    norm1_weight: Tensor | None = ...,
    norm1_bias: Tensor | None = ...,
    norm2_weight: Tensor | None = ...,
    norm2_bias: Tensor | None = ...,
    slope: Tensor | None = ...,
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
) -> Tensor: ...
def pool_tokens(
    x: Tensor,
    *,
    tokens: int = ...,
    kind: Literal["mean", "sum"] = ...,
    precision: Precision = ...,
) -> Tensor: ...
def gather_unique(
    x: Tensor,
    digits: Tensor,
    config_nodes: Tensor,
    node_feat: Tensor,
    *,
    num_nodes: int | None = ...,
    digit_rows: int = ...,
    precision: Precision = ...,
) -> Tensor: ...
def take_config_nodes(
    x: Tensor,
    config_nodes: Tensor,
    *,
    precision: Precision = ...,
) -> Tensor: ...
def put_config_nodes(
    x: Tensor,
    config_nodes: Tensor,
    *,
    rest: Tensor | None = ...,
    num_nodes: int | None = ...,
    precision: Precision = ...,
) -> Tensor: ...
def gatv2(
    x: Tensor,
    edge_index: Tensor,
    weight_l: Tensor | None = ...,
    bias_l: Tensor | None = ...,
    weight_r: Tensor | None = ...,
    bias_r: Tensor | None = ...,
    att: Tensor | None = ...,
    bias: Tensor | None = ...,
    *,
    cols: int = ...,
    heads: int = ...,
    merge: Literal["concat", "mean"] = ...,
    slope: float = ...,
    direction: Literal["forward", "reverse", "both"] = ...,
    stats: bool = ...,
    precision: Precision = ...,
) -> Tensor: ...
def drop_edge(
    edge_index: Tensor,
    *,
    p: float = ...,
    kept: Literal["rescaled", "one"] = ...,
    chance: Literal["fixed", "drawn"] = ...,
    num_nodes: int | None = ...,
    training: bool = ...,
    key: int = ...,
    precision: Precision = ...,
) -> Tensor: ...
def edge_mean(
    x: Tensor,
    edge_index: Tensor,
    *,
    weight: Tensor | None = ...,
    kind: Literal["mean", "sum", "share"] = ...,
    eps: float = ...,
    direction: Literal["forward", "reverse", "both"] = ...,
    stats: bool = ...,
    precision: Precision = ...,
) -> Tensor: ...
def propagate(
    x: Tensor,
    edge_index: Tensor,
    *,
    norm: Literal["sym", "mean", "sum"] = ...,
    self_loops: bool = ...,
    direction: Literal["forward", "reverse", "both"] = ...,
    transposed: bool = ...,
    steps: int = ...,
    alpha: float = ...,
    stats: bool = ...,
    precision: Precision = ...,
) -> Tensor: ...
def edge_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    edge_index: Tensor,
    *,
    score: Literal["dot", "additive"] = ...,
    heads: int = ...,
    merge: Literal["concat", "mean"] = ...,
    slope: float = ...,
    direction: Literal["forward", "reverse", "both"] = ...,
    stats: bool = ...,
    precision: Precision = ...,
) -> Tensor: ...
def head_dots(
    x: Tensor,
    att: Tensor | None = ...,
    *,
    heads: int = ...,
    precision: Precision = ...,
) -> Tensor: ...
def edge_ends(
    x: Tensor,
    edge_index: Tensor,
    *,
    precision: Precision = ...,
) -> Tensor: ...
def edge_pool(
    x: Tensor,
    edge_index: Tensor,
    *,
    kind: Literal["mean", "sum"] = ...,
    end: Literal["consumer", "operand"] = ...,
    stats: bool = ...,
    num_nodes: int | None = ...,
    precision: Precision = ...,
) -> Tensor: ...
def outer_pool(
    a: Tensor,
    b: Tensor,
    *,
    mean: bool = ...,
    precision: Precision = ...,
) -> Tensor: ...
def weighted_sum(
    scores: Tensor,
    losses: list[dict[str, Any]],
    runtimes: Tensor | None = ...,
    values: Tensor | None = ...,
    *,
    weights: Tensor | None = ...,
    offsets: Tensor | None = ...,
    index: Tensor | None = ...,
    scale: Tensor | None = ...,
    shift: Tensor | None = ...,
    seed: int = ...,
) -> Tensor: ...
def pairwise_hinge(
    scores: Tensor,
    runtimes: Tensor,
    margin: float = ...,
    reduction: Literal["mean-all", "sum", "mean-pairs"] = ...,
    offsets: Tensor | None = ...,
    *,
    weights: Tensor | None = ...,
) -> Tensor: ...
def list_mle(
    scores: Tensor,
    runtimes: Tensor,
    reduction: Literal["sum", "mean-all"] = ...,
    seed: int = ...,
    offsets: Tensor | None = ...,
    *,
    temperature: float = ...,
    max_norm: float = ...,
    weights: Tensor | None = ...,
) -> Tensor: ...
def ranknet(
    scores: Tensor,
    runtimes: Tensor,
    *,
    sigma: float = ...,
    reduction: Literal["mean-pairs", "sum", "mean-all"] = ...,
    weights: Tensor | None = ...,
    offsets: Tensor | None = ...,
) -> Tensor: ...
def lambda_rank(
    scores: Tensor,
    runtimes: Tensor,
    *,
    values: Tensor | None = ...,
    gain: Literal["rank", "linear", "inverse"] = ...,
    k: int = ...,
    sigma: float = ...,
    scheme: Literal["lambdarank", "ndcg1", "ndcg2", "arp1", "arp2"] = ...,
    reduction: Literal["sum", "mean-all", "mean-pairs"] = ...,
    weights: Tensor | None = ...,
    offsets: Tensor | None = ...,
) -> Tensor: ...
def mse(
    scores: Tensor,
    values: Tensor,
    *,
    reduction: Literal["mean", "sum"] = ...,
    weights: Tensor | None = ...,
    offsets: Tensor | None = ...,
) -> Tensor: ...
def log_mse(
    scores: Tensor,
    values: Tensor,
    *,
    offset: float = ...,
    reduction: Literal["mean", "sum"] = ...,
    weights: Tensor | None = ...,
    offsets: Tensor | None = ...,
) -> Tensor: ...
def msle(
    scores: Tensor,
    values: Tensor,
    *,
    reduction: Literal["mean", "sum"] = ...,
    weights: Tensor | None = ...,
    offsets: Tensor | None = ...,
) -> Tensor: ...
def mape(
    scores: Tensor,
    values: Tensor,
    *,
    epsilon: float = ...,
    reduction: Literal["mean", "sum"] = ...,
    weights: Tensor | None = ...,
    offsets: Tensor | None = ...,
) -> Tensor: ...
def quantile(
    scores: Tensor,
    values: Tensor,
    *,
    level: float = ...,
    reduction: Literal["mean", "sum"] = ...,
    weights: Tensor | None = ...,
    offsets: Tensor | None = ...,
) -> Tensor: ...
def cross_entropy(
    scores: Tensor,
    values: Tensor,
    *,
    reduction: Literal["mean", "sum"] = ...,
    weights: Tensor | None = ...,
    offsets: Tensor | None = ...,
) -> Tensor: ...
def permuted_margin(
    scores: Tensor,
    runtimes: Tensor,
    *,
    margin: float = ...,
    permutations: int = ...,
    reduction: Literal["mean-pairs", "sum", "mean"] = ...,
    weights: Tensor | None = ...,
    offsets: Tensor | None = ...,
) -> Tensor: ...
def dcg_hinge(
    scores: Tensor,
    runtimes: Tensor,
    *,
    margin: float = ...,
    reduction: Literal["sum", "mean-all", "mean-pairs"] = ...,
    weights: Tensor | None = ...,
    offsets: Tensor | None = ...,
) -> Tensor: ...
