"""Types of the C core. One section per room of csrc/py."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Self, TypeVar, final, overload

import numpy as np
from numpy.typing import NDArray
from typing_extensions import disjoint_base

# base
SCHEMA: dict[str, int]
OPCODES: str
NODE_NAMES: str
DIGIT_NAMES: str
TILE_NAMES: str

def set_num_threads(threads: int, /) -> None: ...
def limit_threads(threads: int, /) -> None: ...
def get_num_threads() -> int: ...

# checks
def checked() -> bool: ...
def overrun(place: str, past: int, /) -> None: ...

# attributes
def attr_takes(attr: dict[str, Any], value: object, /) -> bool: ...
def attr_expects(attr: dict[str, Any], /) -> str: ...

# search
@final
class Search:
    scored: int
    failed: int
    size: int
    values: int
    waiting: int
    temperature: float
    least: float
    members: NDArray[np.int32]
    def __new__(
        cls,
        method: str,
        sizes: NDArray[np.int32],
        seed: int,
        *,
        ordered: NDArray[np.bool_] | None = None,
        start: NDArray[np.int32] | None = None,
        members: int = 8,
        starts: int = 8,
        budget: int = 1000,
        rate: float = 1.0,
        hot: float = -1.0,
        cold: float = -1.0,
        keep: int = 1024,
    ) -> Search: ...
    def ask(self, n: int, /) -> NDArray[np.int32]: ...
    def tell(self, scores: NDArray[np.float64], changes: NDArray[np.float32] | None = None, /) -> None: ...
    def best(self, k: int, differ: int = 1, /) -> tuple[NDArray[np.int32], NDArray[np.float64]]: ...
    def state(self) -> dict[str, NDArray[Any]]: ...
    def restore(self, state: dict[str, NDArray[Any]], /) -> None: ...

def cells_make(
    codes: NDArray[np.int32],
    first: NDArray[np.int64],
    row: NDArray[np.int64],
    of: NDArray[np.int64],
    cells: NDArray[np.int8],
    /,
) -> NDArray[np.int8]: ...
def cells_changes(
    codes: NDArray[np.int32],
    first: NDArray[np.int64],
    row: NDArray[np.int64],
    of: NDArray[np.int64],
    cells: NDArray[np.int8],
    slope: NDArray[np.float32],
    /,
) -> NDArray[np.float32]: ...
def cell_values(cells: NDArray[np.int8], /) -> NDArray[np.int32]: ...

# rank
def losses() -> list[dict[str, Any]]: ...
def losses_need(terms: list[dict[str, Any]], /) -> tuple[str, ...]: ...
def losses_run(
    terms: list[dict[str, Any]],
    scores: NDArray[np.float32],
    runtimes: NDArray[Any] | None,
    values: NDArray[np.float64] | None,
    weights: NDArray[np.float32] | None,
    offsets: NDArray[np.int64] | None,
    index: NDArray[np.int64] | None,
    scale: NDArray[np.float32] | None,
    shift: NDArray[np.float32] | None,
    key: int,
    /,
) -> tuple[float, NDArray[np.float32]]: ...
def ratio_ranks(runtimes: NDArray[np.int64], normalizers: NDArray[np.int64], /) -> NDArray[np.int64]: ...
def repeats(
    group: NDArray[np.int64], time: NDArray[np.float64], /
) -> tuple[float, float, float | None, tuple[int, float, float] | None] | None: ...
def kendall_tau(scores: NDArray[Any], runtimes: NDArray[Any], k: int, /) -> float: ...
def opa(scores: NDArray[Any], runtimes: NDArray[Any], k: int, /) -> float: ...
def spearman(scores: NDArray[Any], runtimes: NDArray[Any], k: int, /) -> float: ...
def top_k_slowdown(scores: NDArray[Any], runtimes: NDArray[Any], k: int, /) -> float: ...
def ndcg(scores: NDArray[Any], runtimes: NDArray[Any], k: int, /) -> float: ...

# data
_Stamp = tuple[int, int, int, int]

def npz_load(
    path: str, names: tuple[str, ...], headers: tuple[str, ...], max_bytes: int, /
) -> tuple[dict[str, Any], _Stamp]: ...
def as_floats(field: str, value: Any, letters: str, sizes: tuple[int, ...], /) -> NDArray[np.float32]: ...
def as_whole(field: str, value: Any, letters: str, /) -> NDArray[np.int64]: ...
def as_digits(field: str, value: Any, values: tuple[int, ...] | None, /) -> NDArray[np.int8]: ...
def row_numbers(name: str, rows: Any, count: int, whose: str, /) -> NDArray[np.int64]: ...

@final
class Digits:
    shape: tuple[int, int, int]
    values: tuple[int, ...] | None
    in_file: bool
    mapped: bool
    codes: tuple[NDArray[Any], NDArray[np.int8]] | None
    nbytes: int
    def __new__(
        cls,
        shape: tuple[int, ...],
        array: NDArray[np.int8] | None = None,
        path: str | None = None,
        stamp: _Stamp | None = None,
        handle: Any = None,
        values: tuple[int, ...] | None = None,
        codes: NDArray[Any] | None = None,
        table: NDArray[np.int8] | None = None,
    ) -> Digits: ...
    def get(self) -> NDArray[np.int8]: ...
    def take(self, rows: slice | NDArray[Any] | Sequence[int], /) -> NDArray[np.int8]: ...
    def select(self, rows: slice | NDArray[Any], /) -> Digits: ...
    def stored(self) -> NDArray[np.int8] | tuple[NDArray[Any], NDArray[np.int8]]: ...
    def source(self) -> NDArray[np.int8] | tuple[str, _Stamp, tuple[int, int, int]]: ...
    def distinct(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]: ...
    def read_distinct(self) -> tuple[NDArray[np.int8], NDArray[np.int64], NDArray[np.int64]] | None: ...
    def validate(self) -> None: ...
    def release(self) -> None: ...
    def __reduce__(self) -> tuple[Any, ...]: ...

@disjoint_base
class Graph:
    node_feat: NDArray[np.float32]
    node_opcode: NDArray[np.uint8] | None
    edge_index: NDArray[np.int64]
    node_splits: NDArray[np.int64]
    node_config_ids: NDArray[np.int64]
    graph_feat: NDArray[np.float32] | None
    config_feat: NDArray[np.float32] | None
    runtime: NDArray[Any]
    config_runtime_normalizers: NDArray[np.int64] | None
    valid: NDArray[np.bool_] | None
    repeats: NDArray[np.float64] | None
    _digits: Digits
    _checked: bytes | None
    schema: Any
    about: Mapping[str, Any]
    name: str
    collection: str | None
    path: str | None
    _pack: Any
    num_nodes: int
    num_edges: int
    num_configs: int
    num_config_nodes: int
    def __new__(cls, *args: Any, **kwargs: Any) -> Self: ...
    def _set(self, **fields: Any) -> None: ...
    def _with(self, kind: type[Any] | None = None, /, **fields: Any) -> Self: ...
    def _take(
        self,
        given: dict[str, Any],
        columns: dict[str, Any] = ...,
        schema: Any = None,
        /,
    ) -> None: ...
    def __getstate__(self) -> dict[str, Any]: ...
    def __setstate__(self, fields: dict[str, Any], /) -> None: ...

# data: packs
def pack_open(path: str, /) -> tuple[str, dict[str, NDArray[Any]], tuple[int, int, int], Any]: ...
def pack_checksum(path: str, /) -> int: ...
def pack_check(handle: Any, everything: bool, /) -> None: ...
def pack_release(handle: Any, /) -> None: ...
def pack_write(
    fd: int,
    kind: str,
    arrays: dict[str, NDArray[Any]],
    digits: NDArray[np.int8] | tuple[str, tuple[int, int, int, int], tuple[int, int, int]] | None,
    origin: tuple[int, int, int],
    done: NDArray[np.int64],
    /,
) -> None: ...
def npz_origin(path: str, /) -> tuple[tuple[int, int, int], int]: ...
def hlo_read(
    source: str | bytes | bytearray | memoryview, padding: int, extra: bool, sorted: bool, max_bytes: int, /
) -> tuple[str, list[dict[str, Any]]]: ...
def hlo_names(
    source: str | bytes | bytearray | memoryview, /
) -> tuple[str, list[tuple[list[str], list[str]]]]: ...
def hlo_fusions(
    source: str | bytes | bytearray | memoryview, max_bytes: int, /
) -> tuple[str, list[list[dict[str, Any]]]]: ...
def hlo_work(
    source: str | bytes | bytearray | memoryview, max_bytes: int, /
) -> tuple[str, list[NDArray[np.float32]]]: ...
def hlo_work_columns() -> list[str]: ...

# files
def safetensors_load(
    path: str, dtypes: tuple[str, ...] | None, max_bytes: int, /
) -> tuple[dict[str, str], dict[str, NDArray[Any]]]: ...

# model
_T = TypeVar("_T")
_Moved = tuple[Any, Any]  # scale and shift of scores: numbers, or arrays (n,)
_Slate = tuple["Prepared", NDArray[np.int64], int | None, _Moved | None]
_Slates = Sequence[
    tuple["ModelGraph | Prepared", NDArray[np.int64]]
    | tuple["Prepared", NDArray[np.int64], int | None]
    | _Slate
]
_PerSlate = Sequence[NDArray[Any]]
_Lists = dict[str, NDArray[Any] | None] | tuple[str, int]

@final
class ModelGraph:
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
        node_opcode: NDArray[np.uint8] | None,
        layout_digits: NDArray[np.int8] | None,
        edge_index: NDArray[np.int64],
        config_nodes: NDArray[np.int64],
        digits: NDArray[np.int8] | tuple[NDArray[Any], NDArray[np.int8]] | None = None,
        config_feat: NDArray[np.float32] | None = None,
        graph_feat: NDArray[np.float32] | None = None,
        digit_rows: int = 0,
    ) -> ModelGraph: ...
    def with_configs(
        self,
        digits: NDArray[np.int8] | tuple[NDArray[Any], NDArray[np.int8]] | None,
        config_feat: NDArray[np.float32] | None = None,
        /,
    ) -> ModelGraph: ...
    def cut(self, nodes: int, /) -> tuple[ModelGraph, ...]: ...

@final
class Prepared:
    name: str
    nodes: ModelGraph
    graph: ModelGraph | None
    cuts: tuple[ModelGraph, ...]
    mapped: Any
    measured: NDArray[Any]
    normalizers: NDArray[np.int64] | None
    kept: NDArray[np.int64] | None
    weights: NDArray[np.float32] | None
    runtimes: NDArray[np.int64]
    across: NDArray[np.int64]
    by_runtime: NDArray[np.int64]
    times: NDArray[Any]
    num_configs: int
    num_segments: int
    num_nodes: int
    nbytes: int
    def __new__(
        cls,
        nodes: ModelGraph,
        name: str,
        configs: bool = True,
        measured: NDArray[Any] | None = None,
        normalizers: NDArray[np.int64] | None = None,
        kept: NDArray[np.int64] | None = None,
        weights: NDArray[np.float32] | None = None,
        valid: NDArray[np.bool_] | None = None,
        segments: int = 0,
        mapped: Any = None,
        nbytes: int = 0,
    ) -> Prepared: ...
    def slate(
        self, rows: NDArray[np.int64], segment: int | None = None, /
    ) -> tuple[ModelGraph, NDArray[np.int64]]: ...
    def slates(self, rows: NDArray[np.int64], /) -> list[tuple[ModelGraph, NDArray[np.int64]]]: ...
    def values(self, target: str, /) -> NDArray[np.float64]: ...
    def with_configs(
        self, digits: NDArray[np.int8] | None, config_feat: NDArray[np.float32] | None = None, /
    ) -> Prepared: ...

@final
class Store:
    nbytes: int
    def __new__(cls, nbytes: int = -1, mapped: int = -1) -> Store: ...
    def __len__(self) -> int: ...
    def get(self, key: Any, /) -> Any: ...
    def put(self, key: Any, value: _T, nbytes: int = 0, /) -> _T: ...
    def clear(self) -> None: ...

@final
class Visits:
    epoch: int
    period: int
    def __new__(
        cls,
        counts: NDArray[np.int64],
        seed: int,
        configs: int,
        each: int = 1,
        graph_sampling: str = "even",
        config_sampling: str = "even",
        close: float = 0.0,
        config_temperature: float = 1.0,
    ) -> Visits: ...
    def at(self, visit: int, /) -> tuple[int, int]: ...
    def rows(self, visit: int, prepared: Prepared, /) -> NDArray[np.int64]: ...

@final
class TreeSum:
    def __new__(cls, length: int, ends: list[int], rank: int) -> TreeSum: ...
    @staticmethod
    def order(work: NDArray[np.int64], /) -> NDArray[np.int64]: ...
    def clear(self) -> None: ...
    def add(self, vector: NDArray[np.float32], /) -> None: ...
    def total(self, comm: Any, out: NDArray[np.float32] | None, /) -> NDArray[np.float32]: ...

@final
class Segments:
    def __new__(cls, keep: float, seed: int) -> Segments: ...
    def draw(
        self,
        graph: int,
        visit: int,
        prepared: Prepared,
        rows: NDArray[np.int64],
        moved: _Moved | None = None,
        /,
    ) -> _Slate: ...
    def store(
        self,
        graph: int,
        count: int,
        segment: int,
        rows: NDArray[np.int64],
        scores: NDArray[np.float32],
        /,
    ) -> None: ...
    def tensors(self) -> dict[str, NDArray[Any]]: ...
    def restore(self, path: str, tensors: dict[str, NDArray[Any]], graphs: int, /) -> None: ...

def target_names() -> tuple[str, ...]: ...
def target_values(times: NDArray[np.float64], target: str, /) -> NDArray[np.float64]: ...
def config_table(
    node_feat: NDArray[np.float32],
    graph_feat: NDArray[np.float32] | None,
    config_feat: NDArray[np.float32] | None,
    digits: NDArray[np.int8],
    /,
) -> NDArray[np.float32]: ...
def layout_table(
    node_feat: NDArray[np.float32],
    node_opcode: NDArray[np.uint8] | None,
    edge_index: NDArray[np.int64],
    config_nodes: NDArray[np.int64],
    digits: NDArray[np.int8],
    bins: int,
    /,
) -> NDArray[np.float32]: ...
def layout_rates(cells: NDArray[np.integer[Any]], /) -> NDArray[np.float32]: ...

@final
class Forest:
    text: str
    columns: NDArray[np.int64]
    trees: int
    width: int
    binary: bool
    def __new__(cls, text: str, columns: NDArray[np.int64], width: int) -> Forest: ...
    def scores(self, rows: NDArray[np.float32], trees: int, chances: bool = False) -> NDArray[np.float64]: ...
    def against(
        self, rows: NDArray[np.float32], others: NDArray[np.float32], trees: int, /
    ) -> NDArray[np.float32]: ...
    def gains(self, trees: int, /) -> NDArray[np.float64]: ...

@final
class Prepare:
    fitted: bool
    columns: dict[str, int]
    counts: dict[str, int]
    def __new__(cls, steps: Sequence[Mapping[str, Any]], node_features: int = 0) -> Prepare: ...
    def fit(self, graph: Graph, extra: NDArray[np.float32] | None = None, /) -> Any: ...
    def finish(self) -> None: ...
    def apply(
        self,
        graph: Graph,
        extra: NDArray[np.float32] | None = None,
        kept: Any = None,
        digit_rows: int = 0,
        configs: bool = True,
        digits: NDArray[np.int8] | tuple[NDArray[Any], NDArray[np.int8]] | None = None,
        measured: tuple[NDArray[Any], NDArray[np.int64] | None] | None = None,
        rows: NDArray[np.int64] | None = None,
        weights: NDArray[np.float32] | None = None,
    ) -> Prepared: ...
    def configs(self, config_feat: NDArray[np.float32], /) -> NDArray[np.float32]: ...
    def get_state(self) -> dict[str, NDArray[Any]]: ...
    def set_state(self, state: dict[str, NDArray[Any]], unfinished: bool = False, /) -> None: ...

def prepare_steps() -> list[dict[str, Any]]: ...
def check_columns(
    where: str,
    columns: tuple[Any, ...],
    table: NDArray[np.float32] | NDArray[np.float64],
    place: Callable[[int], str] | None = None,
    /,
) -> None: ...
def list_padding(node_feat: NDArray[np.float32], /) -> int: ...

@final
class Workspace:
    @property
    def memory(self) -> int: ...

@final
class Model:
    params: NDArray[np.float32]
    layout: list[tuple[str, int, tuple[int, ...]]]
    slots: dict[str, tuple[str, int]]
    num_parameters: int
    across_configs: bool
    per_config: bool
    per_graph: bool
    def __new__(
        cls,
        steps: list[dict[str, Any]],
        seed: int = 0,
        node_features: int = 134,
        lean: bool = False,
        config_features: int = 0,
        graph_features: int = 0,
        digits: tuple[int, int] = (18, 8),
        inputs: dict[str, tuple[str, int]] | None = None,
        outputs: Sequence[str] = ("scores",),
    ) -> Model: ...
    def scores(
        self,
        slates: _Slates,
        precision: str = "f32",
        inputs: dict[str, _PerSlate] | None = None,
        workspace: Workspace | None = None,
    ) -> list[NDArray[np.float32]]: ...
    def score_prepared(
        self,
        prepared: Prepared,
        rows: NDArray[np.int64],
        most: int,
        precision: str = "f32",
        done: Callable[[int], object] | None = None,
    ) -> NDArray[np.float32]: ...
    def run(
        self,
        slates: _Slates,
        outputs: Sequence[str],
        inputs: dict[str, _PerSlate] | None = None,
        precision: str = "f32",
        workspace: Workspace | None = None,
    ) -> dict[str, list[NDArray[Any]]]: ...
    def input_gradients(
        self,
        slates: _Slates,
        dscores: _PerSlate,
        of: Sequence[str],
        inputs: dict[str, _PerSlate] | None = None,
        precision: str = "f32",
        workspace: Workspace | None = None,
    ) -> tuple[list[NDArray[np.float32]], dict[str, list[NDArray[np.float32]]]]: ...
    @property
    def profile(self) -> list[tuple[str, str, float]]: ...
    def bytes(self, slates: _Slates, training: bool = True) -> int: ...
    @property
    def memory(self) -> int: ...
    def cancel(self) -> None: ...
    def chunk_size(self, most: int, nodes: int, /) -> int: ...
    def share_memory(self, other: Model, /) -> None: ...

@final
class Trainer:
    model: Model
    grads: NDArray[np.float32]
    moment1: NDArray[np.float32]
    moment2: NDArray[np.float32]
    def __new__(cls, model: Model, workspace: Workspace | None = None) -> Trainer: ...
    @overload
    def gradients(
        self,
        slates: _Slates,
        targets: _PerSlate | dict[str, _PerSlate] | tuple[str | None, bool],
        losses: list[dict[str, Any]],
        step: int = 1,
        seed: int = 0,
        precision: str = "f32",
        part: tuple[int, int] = (0, 1),
        inputs: dict[str, _PerSlate] | None = None,
        lists: _Lists | None = None,
        of: None = None,
    ) -> tuple[float, list[NDArray[np.float32]]]: ...
    @overload
    def gradients(
        self,
        slates: _Slates,
        targets: _PerSlate | dict[str, _PerSlate] | tuple[str | None, bool],
        losses: list[dict[str, Any]],
        step: int = 1,
        seed: int = 0,
        precision: str = "f32",
        part: tuple[int, int] = (0, 1),
        inputs: dict[str, _PerSlate] | None = None,
        lists: _Lists | None = None,
        *,
        of: Sequence[str],
    ) -> tuple[float, list[NDArray[np.float32]], dict[str, list[NDArray[np.float32]]]]: ...
    def step(
        self,
        slates: _Slates,
        targets: _PerSlate | dict[str, _PerSlate] | tuple[str | None, bool],
        losses: list[dict[str, Any]],
        optimizer: dict[str, Any],
        seed: int = 0,
        precision: str = "f32",
        part: tuple[int, int] = (0, 1),
        inputs: dict[str, _PerSlate] | None = None,
        lists: _Lists | None = None,
    ) -> float: ...
    def update(self, optimizer: dict[str, Any], /) -> float: ...

def op_forward(
    op: str,
    attrs: dict[str, float | str],
    inputs: tuple[NDArray[np.float32], ...],
    params: tuple[NDArray[np.float32], ...],
    graph: ModelGraph | int,
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
    graph: ModelGraph | int,
    configs: int,
    key: int,
    training: bool,
    dy: NDArray[np.float32],
    outs: tuple[NDArray[np.float32] | Literal[False] | None, ...] | None = None,
    precision: str = "f32",
    /,
) -> tuple[
    list[NDArray[np.float32] | None], list[NDArray[np.float32] | None], NDArray[np.float32] | None
]: ...
def require(array: object, name: str, *shapes: tuple[int | str, ...], dtype: type = ...) -> None: ...
def op_arguments(
    op: str, given: dict[str, Any], /
) -> tuple[
    tuple[str, dict[str, Any], tuple[Any, ...], tuple[Any, ...], Graph | int, int, int, bool], list[str]
]: ...
def row_shapes() -> dict[str, str]: ...
def ops() -> list[dict[str, Any]]: ...
def plan_parameters(
    steps: list[dict[str, Any]],
    node_features: int = 134,
    config_features: int = 0,
    graph_features: int = 0,
    digits: tuple[int, int] = (18, 8),
) -> list[tuple[str, tuple[int, ...]]]: ...
def plan_slots(
    steps: list[dict[str, Any]],
    outputs: Sequence[str],
    inputs: dict[str, tuple[str, int]] | None = None,
    node_features: int = 134,
    config_features: int = 0,
    graph_features: int = 0,
    digits: tuple[int, int] = (18, 8),
) -> tuple[dict[str, tuple[str, int]], list[tuple[str, tuple[int, ...]]]]: ...
def isa_levels() -> list[str]: ...
def isa_levels_of(vendor: str, features: str, /) -> list[str]: ...
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

# optim
def optimizers() -> dict[str, int]: ...
def optimizer_attrs() -> list[dict[str, Any]]: ...
def schedule_attrs() -> list[dict[str, Any]]: ...
def learning_rate(schedule: dict[str, Any], step: int, total: int, /) -> float: ...
def average(mean: NDArray[np.float64], w: NDArray[np.float32], share: float, /) -> None: ...
def optimizer_step(
    optimizer: dict[str, Any],
    w: NDArray[np.float32],
    g: NDArray[np.float32],
    moments: tuple[NDArray[np.float32], ...],
    /,
) -> float: ...
def nonnegative(
    products: NDArray[np.float64], moments: NDArray[np.float64], sweeps: int, /
) -> NDArray[np.float64]: ...

# graph: pruning, digits, scaling, sampling
def prune(
    edge_index: NDArray[np.int64],
    num_nodes: int,
    config_nodes: NDArray[np.int64],
    method: str,
    hops: int,
    dummies: bool,
    /,
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]: ...
def dedup_configs(digits: NDArray[np.int8], /) -> tuple[NDArray[np.int64], NDArray[np.int64]]: ...
def dedup_rows(rows: NDArray[np.float32], /) -> tuple[NDArray[np.int64], NDArray[np.int64]]: ...
def merge_measured(
    first: NDArray[np.int64],
    inverse: NDArray[np.int64],
    runtime: NDArray[np.float64],
    ran: NDArray[np.bool_] | None,
    keep: str,
    /,
) -> tuple[NDArray[np.int64], NDArray[np.float64]]: ...
def merge_configs(
    first: NDArray[np.int64],
    inverse: NDArray[np.int64],
    runtime: NDArray[Any],
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

# search
@final
class Space:
    names: tuple[str, ...]
    sizes: tuple[int, ...]
    size: int | None
    groups: list[tuple[tuple[str, ...], int, bool]]
    column_names: tuple[str, ...]
    def __new__(
        cls,
        parameters: dict[str, tuple[tuple[Any, ...] | range | int, str | None]],
        constraints: tuple[str | tuple[Callable[..., Any], tuple[int, ...] | None, str], ...],
        table: tuple[list[Any], ...] | None = None,
        budget: int = 1048576,
    ) -> Space: ...
    def sample(self, n: int, seed: int, /) -> NDArray[np.int32]: ...
    def feasible(self, codes: NDArray[np.int32], /) -> NDArray[np.bool_]: ...
    def neighbours(self, code: NDArray[np.int32], adjacent: bool = False, /) -> NDArray[np.int32]: ...
    def all(self, most: int, /) -> NDArray[np.int32] | None: ...
    def columns(self, codes: NDArray[np.int32], /) -> NDArray[np.float64]: ...
    def configs(self, codes: NDArray[np.int32], /) -> list[dict[str, Any]]: ...
    def codes(self, configs: Sequence[Mapping[str, Any]], strict: bool = True) -> NDArray[np.int32]: ...
    def estimate(self) -> tuple[float, float]: ...
    def __reduce__(self) -> tuple[Any, ...]: ...

# tuner
def tree_means(
    x: NDArray[np.float64], y: NDArray[np.float64], pool: NDArray[np.float64], trees: int, key: int, /
) -> NDArray[np.float64]: ...
def fastest_together(
    values: NDArray[np.float64], count: int, weights: NDArray[np.float64] | None, /
) -> NDArray[np.int64]: ...
def normal_together(
    mean: NDArray[np.float64], covariance: NDArray[np.float64], samples: int, seed: int, count: int, /
) -> NDArray[np.int64]: ...
def process(
    x: NDArray[np.float64],
    y: NDArray[np.float64],
    pool: NDArray[np.float64],
    logs: NDArray[np.float64],
    gaining: bool,
    count: int,
    /,
) -> tuple[
    float,
    NDArray[np.float64],
    NDArray[np.float64],
    NDArray[np.float64],
    NDArray[np.float64],
    NDArray[np.int64],
]: ...
def next_configs(
    x: NDArray[np.float64],
    y: NDArray[np.float64],
    cause: NDArray[np.int32],
    pool: NDArray[np.float64],
    count: int,
    gaining: bool,
    key: int,
    /,
) -> tuple[NDArray[np.int64], str, float, float]: ...
def first_configs(
    x: NDArray[np.float64], pool: NDArray[np.float64], count: int, key: int, /
) -> NDArray[np.int64]: ...
