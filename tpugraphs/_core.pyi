"""Types of the C core. One section per room of csrc/py."""

from collections.abc import Mapping, Sequence
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

# base
def set_num_threads(threads: int, /) -> None: ...
def limit_threads(threads: int, /) -> None: ...
def get_num_threads() -> int: ...

# rank
def loss_lists(
    kind: str,
    reduction: str,
    margin: float,
    key: int,
    scores: NDArray[np.float32],
    runtimes: NDArray[Any],
    offsets: NDArray[np.int64] | None,
    /,
) -> tuple[float, NDArray[np.float32]]: ...
def ratio_ranks(runtimes: NDArray[np.int64], normalizers: NDArray[np.int64], /) -> NDArray[np.int64]: ...
def kendall_tau(scores: NDArray[Any], runtimes: NDArray[Any], k: int, /) -> float: ...
def opa(scores: NDArray[Any], runtimes: NDArray[Any], k: int, /) -> float: ...
def spearman(scores: NDArray[Any], runtimes: NDArray[Any], k: int, /) -> float: ...
def top_k_slowdown(scores: NDArray[Any], runtimes: NDArray[Any], k: int, /) -> float: ...
def ndcg(scores: NDArray[Any], runtimes: NDArray[Any], k: int, /) -> float: ...

# data
def npz_load(
    path: str, names: tuple[str, ...], headers: tuple[str, ...], max_bytes: int, /
) -> tuple[dict[str, tuple[Any, str, tuple[int, ...], int]], tuple[int, int, int, int]]: ...
def npz_digits(
    path: str, stamp: tuple[int, int, int, int], shape: tuple[int, int, int], /
) -> NDArray[np.int8]: ...
def npz_distinct(
    path: str, stamp: tuple[int, int, int, int], shape: tuple[int, int, int], /
) -> tuple[NDArray[np.int8], NDArray[np.int64], NDArray[np.int64]]: ...
def pack_digits(array: NDArray[Any], /) -> NDArray[np.int8]: ...

# data: packs
def pack_open(path: str, /) -> tuple[str, dict[str, NDArray[Any]], tuple[int, int, int], Any]: ...
def pack_check(handle: Any, everything: bool, /) -> None: ...
def pack_release(handle: Any, /) -> None: ...
def pack_write(
    fd: int,
    arrays: dict[str, NDArray[Any]],
    digits: NDArray[np.int8] | tuple[str, tuple[int, int, int, int], tuple[int, int, int]] | None,
    origin: tuple[int, int, int],
    done: NDArray[np.int64],
    /,
) -> None: ...
def npz_origin(path: str, /) -> tuple[tuple[int, int, int], int]: ...
def decode_rows(
    codes: NDArray[Any], table: NDArray[np.int8], rows: NDArray[np.int64], /
) -> NDArray[np.int8]: ...

# files
def safetensors_load(
    path: str, dtypes: tuple[str, ...] | None, max_bytes: int, /
) -> tuple[dict[str, str], dict[str, NDArray[Any]]]: ...

@final
class SubmissionRows:
    def __new__(cls, path: str, collections: tuple[str, ...], /) -> SubmissionRows: ...
    def __iter__(self) -> SubmissionRows: ...
    def __next__(self) -> tuple[int, str | None, NDArray[np.int64] | None, int, int, int, str]: ...

# model
@final
class Graph:
    num_nodes: int
    num_edges: int
    num_config_nodes: int
    num_configs: int
    num_features: int
    num_graph_features: int
    num_config_features: int
    node_feat: NDArray[np.float32]
    node_opcode: NDArray[np.uint8] | None
    layout_digits: NDArray[np.int8] | None
    graph_feat: NDArray[np.float32] | None
    config_feat: NDArray[np.float32] | None
    def __new__(
        cls,
        node_feat: NDArray[np.float32],
        node_opcode: NDArray[np.uint8],
        layout_digits: NDArray[np.int8] | None,
        edge_index: NDArray[np.int64],
        config_nodes: NDArray[np.int64],
        digits: NDArray[np.int8] | tuple[NDArray[Any], NDArray[np.int8]] | None = None,
        config_feat: NDArray[np.float32] | None = None,
    ) -> Graph: ...
    def with_configs(
        self,
        digits: NDArray[np.int8] | tuple[NDArray[Any], NDArray[np.int8]] | None,
        config_feat: NDArray[np.float32] | None = None,
        /,
    ) -> Graph: ...

@final
class Prepare:
    fitted: bool
    columns: dict[str, int]
    counts: dict[str, int]
    def __new__(cls, steps: Sequence[Mapping[str, Any]]) -> Prepare: ...
    def fit(
        self,
        node_feat: NDArray[np.float32],
        node_opcode: NDArray[np.uint8] | None,
        edge_index: NDArray[np.int64],
        config_nodes: NDArray[np.int64],
        graph_feat: NDArray[np.float32] | None,
        config_feat: NDArray[np.float32] | None,
        /,
    ) -> Any: ...
    def finish(self) -> None: ...
    def apply(
        self,
        node_feat: NDArray[np.float32],
        node_opcode: NDArray[np.uint8] | None,
        edge_index: NDArray[np.int64],
        config_nodes: NDArray[np.int64],
        graph_feat: NDArray[np.float32] | None,
        config_feat: NDArray[np.float32] | None,
        digits: NDArray[np.int8] | tuple[NDArray[Any], NDArray[np.int8]] | None = None,
        configs: bool = True,
        kept: Any = None,
    ) -> Graph: ...
    def configs(self, config_feat: NDArray[np.float32], /) -> NDArray[np.float32]: ...
    def get_state(self) -> dict[str, NDArray[Any]]: ...
    def set_state(self, state: dict[str, NDArray[Any]], /) -> None: ...

def prepare_steps() -> list[dict[str, Any]]: ...
def list_padding(node_feat: NDArray[np.float32], /) -> int: ...

@final
class Model:
    params: NDArray[np.float32]
    grads: NDArray[np.float32]
    moment1: NDArray[np.float32]
    moment2: NDArray[np.float32]
    layout: list[tuple[str, int, tuple[int, ...]]]
    num_parameters: int
    def __new__(
        cls,
        steps: list[dict[str, Any]],
        seed: int = 0,
        node_features: int = 134,
        lean: bool = False,
        config_features: int = 0,
    ) -> Model: ...
    def step(
        self,
        slates: Sequence[tuple[Graph, NDArray[np.int64]]],
        runtimes: Sequence[NDArray[np.int64]],
        loss: tuple[str, float, str],
        lr: float,
        weight_decay: float,
        clip: float,
        step: int,
        seed: int = 0,
        beta1: float = 0.9,
        beta2: float = 0.999,
        eps: float = 1e-8,
        precision: str = "f32",
        part: tuple[int, int] = (0, 1),
    ) -> float: ...
    def gradients(
        self,
        slates: Sequence[tuple[Graph, NDArray[np.int64]]],
        runtimes: Sequence[NDArray[np.int64]],
        loss: tuple[str, float, str],
        step: int = 1,
        seed: int = 0,
        precision: str = "f32",
        part: tuple[int, int] = (0, 1),
    ) -> tuple[float, list[NDArray[np.float32]]]: ...
    def scores(
        self, slates: Sequence[tuple[Graph, NDArray[np.int64]]], precision: str = "f32"
    ) -> list[NDArray[np.float32]]: ...
    @property
    def profile(self) -> list[tuple[str, str, float]]: ...
    def bytes(self, slates: Sequence[tuple[Graph, NDArray[np.int64]]], training: bool = True) -> int: ...
    @property
    def memory(self) -> int: ...
    def cancel(self) -> None: ...
    def take_memory(self, other: Model, /) -> None: ...

def op_forward(
    op: str,
    attrs: dict[str, float | str],
    inputs: tuple[NDArray[np.float32], ...],
    params: tuple[NDArray[np.float32], ...],
    graph: Graph | int,
    configs: int,
    key: int,
    training: bool,
    unused: None = None,
    out: NDArray[np.float32] | None = None,
    precision: str = "f32",
    /,
) -> NDArray[np.float32]: ...
def op_backward(
    op: str,
    attrs: dict[str, float | str],
    inputs: tuple[NDArray[np.float32], ...],
    params: tuple[NDArray[np.float32], ...],
    graph: Graph | int,
    configs: int,
    key: int,
    training: bool,
    dy: NDArray[np.float32],
    outs: tuple[NDArray[np.float32] | None, ...] | None = None,
    precision: str = "f32",
    /,
) -> tuple[list[NDArray[np.float32]], list[NDArray[np.float32]], NDArray[np.float32] | None]: ...
def op_names() -> list[str]: ...
def isa_levels() -> list[str]: ...
def get_isa() -> str: ...
def set_isa(name: str, /) -> None: ...
def product(
    a: NDArray[np.float32],
    w: NDArray[np.float32],
    precision: str,
    bias: NDArray[np.float32] | None = None,
    add: NDArray[np.float32] | None = None,
    nn: bool = False,
    out: NDArray[np.float32] | None = None,
    /,
) -> NDArray[np.float32]: ...
def product_tn(
    a: NDArray[np.float32],
    b: NDArray[np.float32],
    precision: str,
    add: NDArray[np.float32] | None,
    out: NDArray[np.float32] | None = None,
    /,
) -> NDArray[np.float32]: ...
def adamw_step(
    w: NDArray[np.float32],
    g: NDArray[np.float32],
    m1: NDArray[np.float32],
    m2: NDArray[np.float32],
    lr: float,
    weight_decay: float,
    clip: float,
    step: int,
    beta1: float = 0.9,
    beta2: float = 0.999,
    eps: float = 1e-8,
) -> float: ...

# graph: pruning, digits, scaling, sampling
def prune(
    edge_index: NDArray[np.int64], num_nodes: int, config_nodes: NDArray[np.int64], method: str, hops: int, /
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]: ...
def dedup_configs(digits: NDArray[np.int8], /) -> tuple[NDArray[np.int64], NDArray[np.int64]]: ...
def dedup_codes(codes: NDArray[Any], /) -> tuple[NDArray[np.int64], NDArray[np.int64]]: ...
def dedup_rows(rows: NDArray[np.float32], /) -> tuple[NDArray[np.int64], NDArray[np.int64]]: ...
def merge_configs(
    first: NDArray[np.int64],
    inverse: NDArray[np.int64],
    runtime: NDArray[np.int64],
    normalizers: NDArray[np.int64] | None,
    keep: str,
    /,
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64] | None]: ...
def encode_base7(digits: NDArray[np.int8], out: NDArray[np.int32] | None = None, /) -> NDArray[np.int32]: ...
def decode_base7(codes: NDArray[np.int32], out: NDArray[np.int8] | None = None, /) -> NDArray[np.int8]: ...
def layout_digits(node_feat: NDArray[np.float32], /) -> NDArray[np.int8]: ...
def scaler_merge(
    count: int, mean: NDArray[np.float64], m2: NDArray[np.float64], x: NDArray[np.float32], /
) -> int: ...
def scaler_scale(count: int, m2: NDArray[np.float64], /) -> NDArray[np.float64]: ...
def scaler_transform(
    x: NDArray[np.float32], mean: NDArray[np.float64], scale: NDArray[np.float64], /
) -> NDArray[np.float32]: ...
def sample(n: int, k: int, key: tuple[int, ...], sorted: int, /) -> NDArray[np.int64]: ...
def sample_epoch(n: int, k: int, key: tuple[int, ...], step: int, /) -> NDArray[np.int64]: ...
