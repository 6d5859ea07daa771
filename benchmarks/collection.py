"""Make a collection of the size and shape of the real ones: ``python -m benchmarks.collection DIR``.

Structure as in the nlp graphs: thousands of nodes in repeated blocks, a hundred configurable ones, tens of
thousands of configs of which each changes a few nodes of a common one, and some come again. Deflated as
numpy.savez_compressed does. Everything is a function of the seed.
"""

from __future__ import annotations

import argparse
import io
import sys
import zipfile
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

LEVEL = 6  # zlib's default, which numpy.savez_compressed uses
CHUNK = 512  # configs made at a time


def sizes(graphs: int, large: bool = True, scale: float = 1.0) -> list[tuple[int, int, int]]:
    """(N, K, C) of every graph: about the real means of nlp, and one with 100,000 x 150."""
    rng = np.random.default_rng(7)
    result = []
    for i in range(graphs):
        nodes, configurable = int(rng.integers(3000, 9000)), int(rng.integers(50, 150))
        configs = int(rng.integers(20_000, 100_000))
        if large and i == 0:
            nodes, configurable, configs = 5700, 150, 100_000
        result.append((max(30, int(nodes * scale)), max(4, int(configurable * scale)), int(configs * scale)))
    return result


def _nodes(rng: np.random.Generator, nodes: int, configurable: int) -> dict[str, Array]:
    """Arrays of the nodes: repeated blocks, edges to nearby operands, shapes of rank 1 to 4."""
    kinds = 40  # different nodes of a block
    rank = rng.integers(1, 5, kinds)
    feat = np.zeros((kinds, 140), np.float32)
    for k in range(kinds):
        feat[k, 21 : 21 + rank[k]] = 2.0 ** rng.integers(0, 11, rank[k])
        feat[k, 27], feat[k, 28] = feat[k, 21:27].sum(), feat[k, 21 : 21 + rank[k]].prod()
        feat[k, 134 : 134 + rank[k]] = np.arange(rank[k])[::-1]
        feat[k, 2 + rng.integers(1, 18)] = 1
    kind = np.arange(nodes) % kinds
    producer = rng.integers(0, nodes - 1, nodes + nodes // 2)
    consumer = np.minimum(producer + rng.geometric(0.1, producer.size), nodes - 1)
    edges = np.unique(np.stack([consumer, producer], 1), axis=0)
    return {
        "node_feat": feat[kind],
        "node_opcode": rng.integers(1, 120, kinds).astype(np.uint8)[kind],
        "edge_index": edges[edges[:, 0] != edges[:, 1]].astype(np.int64),
        "node_config_ids": np.sort(rng.choice(nodes, configurable, replace=False)).astype(np.int64),
        "node_splits": np.array([[0, nodes // 3, nodes]], np.int64),
    }


def _choices(rng: np.random.Generator, configurable: int) -> Array:
    """Six values (K, 6, 18) of each node's digits: orders of its dimensions, the first being the default."""
    choices = np.full((configurable, 6, 18), -1, np.int8)
    for k in range(configurable):
        for tensor in range(int(rng.integers(2, 4))):
            rank = int(rng.integers(2, 5))
            for value in range(1, 6):
                choices[k, value, 6 * tensor : 6 * tensor + rank] = rng.permutation(rank)
    return choices


def _configs(seed: int, configs: int, choices: Array) -> Iterator[tuple[Array, Array]]:
    """Digits (n, K, 18) and what they cost, some at a time; one config in ten comes again."""
    rng = np.random.default_rng(seed)
    count = len(choices)
    cost = rng.gamma(0.3, 1.0, (count, 6))
    node, old = np.arange(count), np.zeros((CHUNK, count), np.int64)
    for begin in range(0, configs, CHUNK):
        n = min(CHUNK, configs - begin)
        changed = rng.random((n, count)) < rng.choice([0.02, 0.1, 0.25], (n, 1))
        value = np.where(changed, rng.integers(0, 6, (n, count)), old[0])
        again = rng.random(n) < 0.1
        value[again] = old[:n][again]
        yield choices[node, value], cost[node, value].sum(axis=1)
        old[:n] = value


def write(path: Path, size: tuple[int, int, int], seed: int) -> int:
    """Write one .npz, config by config; returns the bytes of its digits as float32."""
    nodes, configurable, configs = size
    rng = np.random.default_rng((seed, nodes))
    arrays, choices, costs = _nodes(rng, nodes, configurable), _choices(rng, configurable), []
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=LEVEL) as archive:
        with archive.open("node_config_feat.npy", "w", force_zip64=True) as member:
            shape = (configs, configurable, 18)
            header = {"descr": "<f4", "fortran_order": False, "shape": shape}
            np.lib.format.write_array_header_1_0(member, header)
            for digits, cost in _configs(seed, configs, choices):
                member.write(digits.astype(np.float32).tobytes())
                costs.append(cost)
        runtime = np.concatenate(costs) * rng.normal(1, 0.002, configs) + 20
        for name, array in {**arrays, "config_runtime": (runtime * 1e6).astype(np.int64)}.items():
            file = io.BytesIO()
            np.lib.format.write_array(file, array)
            archive.writestr(f"{name}.npy", file.getvalue())
    return configs * configurable * 72


def generate(root: Path, graphs: int, jobs: int, scale: float = 1.0) -> dict[str, float]:
    """Write ``layout/nlp/random/{train,valid}`` below `root`; every tenth graph is for validation."""
    todo = []
    for i, size in enumerate(sizes(graphs, scale=scale)):
        folder = root / "layout/nlp/random" / ("valid" if i % 10 == 9 else "train")
        folder.mkdir(parents=True, exist_ok=True)
        todo.append((folder / f"generated_{i:03d}.npz", size, i))
    with ProcessPoolExecutor(jobs) as pool:
        inflated = sum(pool.map(write, *zip(*todo, strict=True)))
    deflated = sum(path.stat().st_size for path, _, _ in todo)
    return {"graphs": graphs, "inflated": inflated, "deflated": deflated}


def main() -> int:
    made = argparse.ArgumentParser(prog="python -m benchmarks.collection", description=__doc__)
    made.add_argument("dir", type=Path)
    made.add_argument("--graphs", type=int, default=22)
    made.add_argument("--jobs", type=int, default=2)
    made.add_argument("--scale", type=float, default=1.0, help="of nodes and configs")
    args = made.parse_args()
    found = generate(args.dir, args.graphs, args.jobs, args.scale)
    megabytes, gigabytes = found["deflated"] / 1e6, found["inflated"] / 1e9
    print(f"{args.graphs} graphs, {megabytes:,.0f} MB, digits {gigabytes:.1f} GB of float32")
    return 0


if __name__ == "__main__":
    sys.exit(main())
