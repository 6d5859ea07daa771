"""Types of the fields of recipes. Made by docs/stubs.py; a test fails when it is out of date."""

# ruff: noqa
from __future__ import annotations

from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any
from typing import Literal
from typing import TypedDict

__all__ = ["FieldsButLength", "RecipeFields", "RecipeName"]


RecipeName = Literal[
    "eighth-lightgbm",
    "eleventh-lightgbm",
    "fifth-dimension",
    "fifth-layout",
    "fifth-tile",
    "first-layout",
    "first-layout-cross",
    "first-tile",
    "fourth-layout",
    "graph-config",
    "mlpredict",
    "ninth-gat",
    "ninth-sage",
    "ninth-transformer",
    "official-layout",
    "official-tile",
    "second-nlp",
    "second-tile",
    "second-xla",
    "seventh-gst",
    "sixth-gin",
    "sixth-layout",
    "sixth-tile",
    "tenth-layout",
    "tenth-tile",
    "third-layout",
    "third-tile",
]
"""Names of the recipes of the package."""


class FieldsButLength(TypedDict, total=False):
    """Fields of the recipes of the package, but `epochs` and `steps`."""

    accumulate: int
    average: Literal["ema", "none", "swa"] | None
    bagging_fraction: float
    beta1: float
    beta2: float
    bins: int
    block: Literal["appnp", "sage"]
    blocks: int
    chunk: int
    clip: float
    close: float
    cluster: int
    config_columns: int
    config_sampling: Literal["even", "gumbel", "replacement"]
    config_scale: float | Literal["fifth", "log", "none", "standard"] | None
    config_shift: float
    config_temperature: float
    config_width: int
    configs: int
    convolutions: int
    decay: float
    decay_every: float
    decay_from: float | None
    dedup: Literal["first", "mean", "min", "none"] | None
    degrees: Literal["published", "receiver"]
    digit_scale: float
    dimensions: Literal["scrambled", "straight"]
    directed_steps: int
    direction: Literal["both", "forward", "reverse"]
    drop_edge: float
    dropout: float
    edge_columns: int
    edge_width: int
    ema_decay: float
    embed_digits: bool
    eps: float
    evaluate_every: int
    feature_fraction: float
    first: int
    gate_reduction: int
    graph_sampling: Literal["even", "slates", "sqrt-configs"]
    head_decay: float
    heads: int
    hidden: int
    hops: int
    keys: int
    late_norm: Literal["configs", "layer", "none"] | None
    layers: int
    layout_columns: int
    learning_rate: float
    learning_rate_end: float
    levels: int
    lists: Literal["batch", "part", "slate"]
    loss: str | Sequence[Mapping[str, object]] | Callable[..., Any] | None
    margin: float
    message: int
    metric: Literal["mean50", "opa", "tau", "top5"]
    min_data_in_leaf: int
    momentum: float
    negative: Literal["signed", "zero"]
    neighbours: Literal["dummies", "kept"]
    node_columns: int
    noise: float
    num_leaves: int
    objective: Literal["binary", "cross_entropy", "huber", "l1", "l2"]
    occurrence: bool
    opcode_columns: int | None
    opcode_scale: float
    optimizer: Literal["adam", "adamw", "sgd"]
    pairs: int | Literal["all", "ordered"]
    part: int
    position: int
    position_message: int
    powers: bool
    program: bool | None
    propagation: int
    prune: str | None
    references: int
    residual: bool
    restart: float
    schedule: Literal[
        "constant",
        "cosine",
        "linear",
        "step",
        "warmup-constant",
        "warmup-cosine",
        "warmup-linear",
        "warmup-step",
    ]
    score_scale: float
    segment: int
    segment_keep: float
    slates: int
    stages: int
    stop_after: int
    swa_every: int
    swa_start: float
    target: Literal["log-runtime", "min-max", "normal-score", "order", "percentile", "runtime", "seconds"]
    temperature: float
    token_columns: int
    token_layers: int
    trainable_scale: bool
    undirected_steps: int
    unit: Literal["gated", "residual"]
    unknown: Literal["error", "zero"]
    valid_configs: int
    variant: Literal[
        "config-1hop",
        "config-only",
        "early-resgcn",
        "early-sage",
        "late-resgcn",
        "late-sage",
        "merge",
        "mlp",
    ]
    warmup: float
    weight_decay: float
    width: int


class RecipeFields(FieldsButLength, total=False):
    """Fields of the recipes of the package. Which of them a recipe has: `tpugraphs recipes NAME`."""

    epochs: int | None
    steps: int | None
