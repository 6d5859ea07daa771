"""Types of the C core. One section per room of csrc/py."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

# base
def set_num_threads(threads: int, /) -> None: ...
def get_num_threads() -> int: ...

# rank
def loss_lists(
    kind: str,
    reduction: str,
    margin: float,
    key: int,
    scores: NDArray[np.float32],
    runtimes: NDArray[Any],
    offsets: NDArray[np.int64],
    /,
) -> tuple[float, NDArray[np.float32]]: ...
def kendall_tau(scores: NDArray[Any], runtimes: NDArray[Any], k: int, /) -> float: ...
def opa(scores: NDArray[Any], runtimes: NDArray[Any], k: int, /) -> float: ...
def spearman(scores: NDArray[Any], runtimes: NDArray[Any], k: int, /) -> float: ...
def top_k_slowdown(scores: NDArray[Any], runtimes: NDArray[Any], k: int, /) -> float: ...
def ndcg(scores: NDArray[Any], runtimes: NDArray[Any], k: int, /) -> float: ...
