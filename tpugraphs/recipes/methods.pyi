"""Types of the methods of models. Made by `make tables`; a test fails when it is out of date."""

# ruff: noqa
from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

__all__ = ["OpMethods"]

class OpMethods:
    """Methods of :class:`tpugraphs.Model`, one per op."""

    def embedding(
        self,
        x: str,
        *,
        source: Literal["opcode", "layout"] = ...,
        rows: int = ...,
        cols: int = ...,
        max_norm: float = ...,
        name: str | None = ...,
        to: str | None = ...,
        share: Mapping[str, str] | None = ...,
    ) -> str: ...
    def config_columns(
        self,
        *,
        of: Literal["nodes", "config_nodes"] = ...,
        form: Literal["digits", "positions"] = ...,
        scale: float = ...,
        shift: float = ...,
        name: str | None = ...,
        to: str | None = ...,
        share: Mapping[str, str] | None = ...,
    ) -> str: ...
    def config_linear(
        self,
        h: str,
        *,
        out: int = ...,
        column: int = ...,
        cols: int = ...,
        values: Literal["embedded", "numbers"] = ...,
        scale: float = ...,
        shift: float = ...,
        learn_scale: bool = ...,
        stats: bool = ...,
        init: Literal["default", "xavier", "lecun", "glorot"] = ...,
        use_bias: bool = ...,
        name: str | None = ...,
        to: str | None = ...,
        share: Mapping[str, str] | None = ...,
    ) -> str: ...
    def layout_columns(
        self,
        *,
        copies: int = ...,
        form: Literal["digits", "positions", "wrapped"] = ...,
        scale: float = ...,
        name: str | None = ...,
        to: str | None = ...,
        share: Mapping[str, str] | None = ...,
    ) -> str: ...
    def linear(
        self,
        x: str,
        row: str | None = ...,
        *,
        out: int = ...,
        act: Literal["none", "relu", "gelu", "leaky", "elu", "silu", "sigmoid", "tanh", "prelu"] = ...,
        per_column: bool = ...,
        stats: bool = ...,
        init: Literal["default", "xavier", "lecun", "glorot"] = ...,
        use_bias: bool = ...,
        name: str | None = ...,
        to: str | None = ...,
        share: Mapping[str, str] | None = ...,
    ) -> str: ...
    def sage(
        self,
        x: str,
        *,
        out: int = ...,
        direction: Literal["forward", "reverse", "both"] = ...,
        norm: bool = ...,
        stats: bool = ...,
        name: str | None = ...,
        to: str | None = ...,
        share: Mapping[str, str] | None = ...,
    ) -> str: ...
    def instance_norm(
        self,
        x: str,
        *,
        name: str | None = ...,
        to: str | None = ...,
        share: Mapping[str, str] | None = ...,
    ) -> str: ...
    def mix(
        self,
        z: str,
        residual: str | None = ...,
        *,
        norm: bool = ...,
        gate: int = ...,
        cross: bool = ...,
        act: Literal["none", "relu", "gelu", "leaky", "elu", "silu", "sigmoid", "tanh", "prelu"] = ...,
        per_column: bool = ...,
        dropout: float = ...,
        stats: bool = ...,
        name: str | None = ...,
        to: str | None = ...,
        share: Mapping[str, str] | None = ...,
    ) -> str: ...
    def noise(
        self,
        x: str,
        *,
        std: float = ...,
        name: str | None = ...,
        to: str | None = ...,
        share: Mapping[str, str] | None = ...,
    ) -> str: ...
    def pool(
        self,
        x: str,
        *,
        kind: Literal["mean", "max", "mean+max", "sum", "mean+sum", "max+sum", "mean+max+sum"] = ...,
        name: str | None = ...,
        to: str | None = ...,
        share: Mapping[str, str] | None = ...,
    ) -> str: ...
    def add(
        self,
        x: str,
        y: str,
        z: str | None = ...,
        u: str | None = ...,
        *,
        name: str | None = ...,
        to: str | None = ...,
        share: Mapping[str, str] | None = ...,
    ) -> str: ...
    def concat(
        self,
        x: str,
        y: str,
        z: str | None = ...,
        u: str | None = ...,
        *,
        name: str | None = ...,
        to: str | None = ...,
        share: Mapping[str, str] | None = ...,
    ) -> str: ...
    def take_columns(
        self,
        x: str,
        *,
        first: int = ...,
        count: int = ...,
        name: str | None = ...,
        to: str | None = ...,
        share: Mapping[str, str] | None = ...,
    ) -> str: ...
    def gate(
        self,
        a: str,
        x: str,
        y: str | None = ...,
        *,
        name: str | None = ...,
        to: str | None = ...,
        share: Mapping[str, str] | None = ...,
    ) -> str: ...
    def affine(
        self,
        x: str,
        *,
        learn: Literal["weight+bias", "weight", "bias", "none"] = ...,
        column: int = ...,
        per_column: bool = ...,
        scale: float = ...,
        init: float = ...,
        name: str | None = ...,
        to: str | None = ...,
        share: Mapping[str, str] | None = ...,
    ) -> str: ...
    def dropout(
        self,
        x: str,
        *,
        p: float = ...,
        name: str | None = ...,
        to: str | None = ...,
        share: Mapping[str, str] | None = ...,
    ) -> str: ...
    def activation(
        self,
        x: str,
        *,
        act: Literal["none", "relu", "gelu", "leaky", "elu", "silu", "sigmoid", "tanh", "prelu"] = ...,
        per_column: bool = ...,
        negative_slope: float = ...,
        alpha: float = ...,
        init: float = ...,
        name: str | None = ...,
        to: str | None = ...,
        share: Mapping[str, str] | None = ...,
    ) -> str: ...
    def layer_norm(
        self,
        x: str,
        *,
        eps: float = ...,
        affine: bool = ...,
        name: str | None = ...,
        to: str | None = ...,
        share: Mapping[str, str] | None = ...,
    ) -> str: ...
    def graph_norm(
        self,
        x: str,
        *,
        eps: float = ...,
        name: str | None = ...,
        to: str | None = ...,
        share: Mapping[str, str] | None = ...,
    ) -> str: ...
    def config_norm(
        self,
        x: str,
        *,
        eps: float = ...,
        name: str | None = ...,
        to: str | None = ...,
        share: Mapping[str, str] | None = ...,
    ) -> str: ...
    def l2_normalise(
        self,
        x: str,
        *,
        eps: float = ...,
        name: str | None = ...,
        to: str | None = ...,
        share: Mapping[str, str] | None = ...,
    ) -> str: ...
    def linear_attention(
        self,
        q: str,
        k: str,
        v: str,
        *,
        heads: int = ...,
        normalise: bool = ...,
        eps: float = ...,
        name: str | None = ...,
        to: str | None = ...,
        share: Mapping[str, str] | None = ...,
    ) -> str: ...
    def attention(
        self,
        q: str,
        k: str,
        v: str,
        *,
        heads: int = ...,
        name: str | None = ...,
        to: str | None = ...,
        share: Mapping[str, str] | None = ...,
    ) -> str: ...
    def linformer(
        self,
        q: str,
        k: str,
        v: str,
        *,
        heads: int = ...,
        project: int = ...,
        bins: int = ...,
        name: str | None = ...,
        to: str | None = ...,
        share: Mapping[str, str] | None = ...,
    ) -> str: ...
    def cell_columns(
        self,
        x: str | None = ...,
        *,
        tokens: int = ...,
        name: str | None = ...,
        to: str | None = ...,
        share: Mapping[str, str] | None = ...,
    ) -> str: ...
    def dimension_tokens(
        self,
        x: str,
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
        name: str | None = ...,
        to: str | None = ...,
        share: Mapping[str, str] | None = ...,
    ) -> str: ...
    def encoder_layer(
        self,
        x: str,
        *,
        tokens: int = ...,
        heads: int = ...,
        hidden: int = ...,
        act: Literal["none", "relu", "gelu", "leaky", "elu", "silu", "sigmoid", "tanh", "prelu"] = ...,
        per_column: bool = ...,
        norm: Literal["post", "pre"] = ...,
        dropout: float = ...,
        init: Literal["default", "xavier", "lecun", "glorot"] = ...,
        name: str | None = ...,
        to: str | None = ...,
        share: Mapping[str, str] | None = ...,
    ) -> str: ...
    def pool_tokens(
        self,
        x: str,
        *,
        tokens: int = ...,
        kind: Literal["mean", "sum"] = ...,
        name: str | None = ...,
        to: str | None = ...,
        share: Mapping[str, str] | None = ...,
    ) -> str: ...
    def gather_unique(
        self,
        x: str,
        *,
        name: str | None = ...,
        to: str | None = ...,
        share: Mapping[str, str] | None = ...,
    ) -> str: ...
    def take_config_nodes(
        self,
        x: str,
        *,
        name: str | None = ...,
        to: str | None = ...,
        share: Mapping[str, str] | None = ...,
    ) -> str: ...
    def put_config_nodes(
        self,
        x: str,
        rest: str | None = ...,
        *,
        name: str | None = ...,
        to: str | None = ...,
        share: Mapping[str, str] | None = ...,
    ) -> str: ...
    def gatv2(
        self,
        x: str,
        *,
        cols: int = ...,
        heads: int = ...,
        merge: Literal["concat", "mean"] = ...,
        slope: float = ...,
        direction: Literal["forward", "reverse", "both"] = ...,
        stats: bool = ...,
        name: str | None = ...,
        to: str | None = ...,
        share: Mapping[str, str] | None = ...,
    ) -> str: ...
    def drop_edge(
        self,
        *,
        p: float = ...,
        kept: Literal["rescaled", "one"] = ...,
        chance: Literal["fixed", "drawn"] = ...,
        name: str | None = ...,
        to: str | None = ...,
        share: Mapping[str, str] | None = ...,
    ) -> str: ...
    def edge_mean(
        self,
        x: str,
        weight: str | None = ...,
        *,
        kind: Literal["mean", "sum", "share"] = ...,
        eps: float = ...,
        direction: Literal["forward", "reverse", "both"] = ...,
        stats: bool = ...,
        name: str | None = ...,
        to: str | None = ...,
        share: Mapping[str, str] | None = ...,
    ) -> str: ...
    def propagate(
        self,
        x: str,
        *,
        norm: Literal["sym", "mean", "sum"] = ...,
        self_loops: bool = ...,
        direction: Literal["forward", "reverse", "both"] = ...,
        transposed: bool = ...,
        steps: int = ...,
        alpha: float = ...,
        stats: bool = ...,
        name: str | None = ...,
        to: str | None = ...,
        share: Mapping[str, str] | None = ...,
    ) -> str: ...
    def edge_attention(
        self,
        q: str,
        k: str,
        v: str,
        *,
        score: Literal["dot", "additive"] = ...,
        heads: int = ...,
        merge: Literal["concat", "mean"] = ...,
        slope: float = ...,
        direction: Literal["forward", "reverse", "both"] = ...,
        stats: bool = ...,
        name: str | None = ...,
        to: str | None = ...,
        share: Mapping[str, str] | None = ...,
    ) -> str: ...
    def head_dots(
        self,
        x: str,
        *,
        heads: int = ...,
        name: str | None = ...,
        to: str | None = ...,
        share: Mapping[str, str] | None = ...,
    ) -> str: ...
    def edge_ends(
        self,
        x: str,
        *,
        name: str | None = ...,
        to: str | None = ...,
        share: Mapping[str, str] | None = ...,
    ) -> str: ...
    def edge_pool(
        self,
        x: str,
        *,
        kind: Literal["mean", "sum"] = ...,
        end: Literal["consumer", "operand"] = ...,
        stats: bool = ...,
        name: str | None = ...,
        to: str | None = ...,
        share: Mapping[str, str] | None = ...,
    ) -> str: ...
    def outer_pool(
        self,
        a: str,
        b: str,
        *,
        mean: bool = ...,
        name: str | None = ...,
        to: str | None = ...,
        share: Mapping[str, str] | None = ...,
    ) -> str: ...
