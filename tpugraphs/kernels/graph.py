"""Kernels over graphs and configs: pruning, duplicate configs, digit codes, sampling."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tpugraphs import _core
from tpugraphs._core import require
from tpugraphs.errors import ConfigError, DataError
from tpugraphs.system.arguments import check_choice, check_whole

__all__ = [
    "ConfigSampler", "decode_base7", "dedup_configs", "dedup_rows", "encode_base7", "layout_digits",
    "merge_configs", "pack_digits", "prune", "sample_epoch", "sample_without_replacement",
]  # fmt: skip


def prune(
    edge_index: NDArray[np.int64],
    num_nodes: int,
    config_nodes: NDArray[np.int64],
    method: str = "config-1hop",
    *,
    hops: int = 2,
    neighbours: str = "kept",
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Drop nodes and edges that are far from every configurable node.

    Parameters
    ----------
    edge_index : (E, 2) int64
        Rows (u, v): u consumes the output of v.
    num_nodes : int
        N.
    config_nodes : (K,) int64
        Distinct configurable nodes; K may be 0.
    method : str
        See `tpugraphs.prune`.
    hops : int
        For ``"k-hop"`` and ``"consumers"``: at least 1.
    neighbours : {"kept", "dummies"}
        For ``"merge"``.

    Returns
    -------
    nodes : (N',) int64
        Old id of each kept node, -1 of a new one.
    edge_index : (E', 2) int64
        New ids; kept edges are in their old order.
    config_nodes : (K,) int64
        The configurable nodes in their old order, new ids.

    Raises
    ------
    DataError
        A node id out of range, or a configurable node listed twice.
    ConfigError
        An unknown method, ``hops < 1``, or unknown `neighbours`.
    """
    check_choice("neighbours", neighbours, ("kept", "dummies"))
    nodes, hops = check_whole("num_nodes", num_nodes, 0), check_whole("hops", hops, 1)
    return _core.prune(edge_index, nodes, config_nodes, method, hops, neighbours == "dummies")


def dedup_configs(digits: NDArray[np.int8]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Find equal configs among digits (C, K, D) int8, in O(C K) time.

    Rows are hashed to 128 bits and compared as bytes when the hashes agree, so the result is exact.

    Parameters
    ----------
    digits : (C, K, D) int8
        C-contiguous.

    Returns
    -------
    first : (U,) int64
        Row of the first copy of each distinct config, ascending.
    inverse : (C,) int64
        Number in ``first`` of each row's config: ``digits[first[inverse]]`` equals ``digits``.
    """
    return _core.dedup_configs(digits)


def dedup_rows(rows: NDArray[np.float32]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Find equal rows of an array; -0.0 equals 0.0.

    Parameters
    ----------
    rows : (C, F) float32
        C-contiguous.

    Returns
    -------
    first : (U,) int64
        Row of the first copy of each distinct row, ascending.
    inverse : (C,) int64
        Number in ``first`` of each row.

    Raises
    ------
    DataError
        A NaN or infinite value.
    """
    require(rows, "rows", ("C", "F"))
    bad = np.argwhere(~np.isfinite(rows))
    if len(bad):
        row, column = map(int, bad[0])
        found = f"{rows[row, column]} (row {row}, column {column})"
        text = f"rows: expected finite values, found {found}"
        raise DataError(text, field="rows", expected="finite values", found=found)
    return _core.dedup_rows(rows + np.float32(0))  # -0.0 becomes 0.0; equal numbers are then equal bytes


def merge_configs(
    first: NDArray[np.int64],
    inverse: NDArray[np.int64],
    runtimes: NDArray[np.int64],
    normalizers: NDArray[np.int64] | None = None,
    keep: str = "first",
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64] | None]:
    """Choose the row and the runtime that stand for each distinct config.

    Parameters
    ----------
    first, inverse : (U,), (C,) int64
        From `dedup_configs` or `dedup_rows`.
    runtimes : (C,) int64
    normalizers : (C,) int64 or None
        Tile only; positive where quotients are compared (``"min"``).
    keep : {"first", "min", "mean"}
        See `tpugraphs.dedup`. Sums are 128 bits wide: nothing overflows or is rounded on the way.

    Returns
    -------
    rows, runtimes, normalizers : (U,) int64
        In the order of ``first``; normalizers None if there were none.
    """
    return _core.merge_configs(first, inverse, runtimes, normalizers, keep)


def pack_digits(x: NDArray[np.float32]) -> NDArray[np.int8]:
    """Store config digits in one byte each.

    Parameters
    ----------
    x : (C, K, 18), (K, 18) or (18,) float32
        Whole numbers in -1..5.

    Returns
    -------
    int8 array of the shape of x
        A copy.

    Raises
    ------
    DataError
        A value that is not an integer in -1..5, with its row, node and column.
    ShapeError
        Not a C-contiguous float32 array of such a shape.
    """
    digits = _core.SCHEMA["digits"]
    require(x, "x", ("C", "K", digits), ("K", digits), (digits,))
    return _core.as_digits("x", x.reshape((1,) * (3 - x.ndim) + x.shape), None).reshape(x.shape)


def encode_base7(digits: NDArray[np.int8], *, out: NDArray[np.int32] | None = None) -> NDArray[np.int32]:
    """Return the codes of digits: per tensor the sum of (d_i + 1) 7^i, i = 0..5.

    The packing of the first place of the Kaggle competition. All -1 gives 0; the largest code is 117,648.

    Parameters
    ----------
    digits : (C, K, 18) int8
        Digits in -1..5.
    out : (C, K, 3) int32, optional
        Where the codes go; after an error it may hold anything.

    Returns
    -------
    (C, K, 3) int32
        From 0 to 117648.

    Raises
    ------
    DataError
        A digit outside -1..5, with its row, node and column.
    """
    return _core.encode_base7(digits, out)


def decode_base7(codes: NDArray[np.int32], *, out: NDArray[np.int8] | None = None) -> NDArray[np.int8]:
    """Return the digits of codes: the inverse of `encode_base7`.

    Parameters
    ----------
    codes : (C, K, 3) int32
        From 0 to 117648.
    out : (C, K, 18) int8, optional
        Where the digits go; after an error it may hold anything.

    Returns
    -------
    (C, K, 18) int8
        Digits in -1..5.

    Raises
    ------
    DataError
        A code outside 0..117648, with its row, node and column.
    """
    return _core.decode_base7(codes, out)


def layout_digits(node_feat: NDArray[np.float32]) -> NDArray[np.int8]:
    """Return the layouts of all nodes, -1 past the rank.

    Files pad the layout (columns 134-139) with 0, which also is a dimension's number. The rank, the number
    of non-zero shape dimensions (columns 21-26), says where the padding begins. A tuple or scalar has rank 0;
    a dimension of size 0 is not counted.

    Parameters
    ----------
    node_feat : (N, 140) float32
        Node features of the published schema.

    Returns
    -------
    (N, 6) int8
        Numbers of dimensions, minor to major.

    Raises
    ------
    DataError
        A layout entry that is not an integer in -1..5, with its node and column.
    """
    return _core.layout_digits(node_feat)


def sample_without_replacement(
    n: int, k: int, key: int | Iterable[int] = 0, *, order: Literal["random", "sorted"] = "random"
) -> NDArray[np.int64]:
    """Draw k distinct integers of 0..n-1, every subset equally likely; the same for the same key.

    Time and memory are O(k) for any n (Floyd's algorithm; Bentley and Floyd, 1987).

    Parameters
    ----------
    n, k : int
        0 <= k <= n.
    key : int or ints
        Seed, or a chain such as ``(seed, step)``; each number counts modulo 2^64.
    order : {"random", "sorted"}

    Returns
    -------
    (k,) int64

    Raises
    ------
    ConfigError
        k < 0 or k > n.
    """
    check_choice("order", order, ("random", "sorted"))
    n, k = check_whole("n", n, 0), check_whole("k", k, 0)
    return _core.sample(n, k, _key(key), int(order == "sorted"))


def sample_epoch(n: int, k: int, key: int | Iterable[int], step: int) -> NDArray[np.int64]:
    """Draw the k distinct rows of 0..n-1 that belong to a step; see `ConfigSampler`.

    A pure function: O(k) time, no state.

    Parameters
    ----------
    n, k : int
        Rows in all, and rows of a step; 0 <= k <= n.
    key : int or ints
        Seed, or a chain of numbers.
    step : int
        From 0 on.

    Returns
    -------
    (k,) int64
        Row numbers.

    Raises
    ------
    ConfigError
        A number out of range.
    """
    n, k = check_whole("n", n, 0), check_whole("k", k, 0)
    return _core.sample_epoch(n, k, _key(key), check_whole("step", step, 0))


class ConfigSampler:
    """Endless samples of k distinct config rows that visit all n rows of a graph evenly.

    The steps walk a pseudo-random permutation of the rows, k at a time, and a new one after each epoch, so
    every row comes exactly once per epoch. Where a step reaches into the next epoch, rows that it already has
    move to the following step. With n < 2k each step is a fresh sample instead, and with n < k it is all n
    rows. Rows are a pure function of (seed, n, k, step): restoring the step number resumes exactly.

    Parameters
    ----------
    n, k : int
        Rows of the graph, rows per step; n >= 0, k >= 1.
    seed : int or ints
        Key of the random numbers, e.g. ``(seed, graph number)``.

    Examples
    --------
    >>> sampler = ConfigSampler(1000, 4, seed=0)
    >>> len(next(sampler)), sampler.state()["step"]
    (4, 1)
    """

    def __init__(self, n: int, k: int, seed: int | Iterable[int] = 0) -> None:
        self.n, self.k, self.step = check_whole("n", n, 0), check_whole("k", k, 1), 0
        self.seed = _key(seed)

    def __iter__(self) -> Iterator[NDArray[np.int64]]:
        return self

    def __next__(self) -> NDArray[np.int64]:
        rows = sample_epoch(self.n, min(self.k, self.n), self.seed, self.step)
        self.step += 1
        return rows

    def state(self) -> dict[str, Any]:
        """Return everything needed to resume: plain integers, fit for JSON."""
        return {"n": self.n, "k": self.k, "seed": list(self.seed), "step": self.step}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Resume where a sampler with the same n, k and seed stopped.

        Parameters
        ----------
        state : mapping
            What `state` returned.

        Raises
        ------
        ConfigError
            The state is of another sampler.
        """
        for key, mine in (("n", self.n), ("k", self.k), ("seed", list(self.seed))):
            if state.get(key) != mine:
                raise ConfigError(
                    f"ConfigSampler: the state has {key} = {state.get(key)!r}, this sampler {mine!r}"
                )
        self.step = check_whole("ConfigSampler: step in the state", state.get("step"), 0)


def _key(key: int | Iterable[int]) -> tuple[int, ...]:
    return tuple(key) if isinstance(key, Iterable) else (key,)
