"""Packs: opening, reading configs, packing beside zlib, and memory over a generated collection."""

from __future__ import annotations

import os
import shutil
import statistics
import tempfile
import time
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from .. import collection
from ..context import Context
from ..process import memory
from ..record import Record

TITLE = "Packs"
ABOUT = (
    "A generated collection (`python -m benchmarks.collection`; graphs of nlp size, the largest with 100,000 "
    "configs of 150 nodes), made in a temporary folder, or read from `TPUGRAPHS_GENERATED` if that is set. "
    "*Packing* is one job (CPU seconds); beside it zlib inflates the same bytes, and our own reader does "
    "(which also makes digits of them). Memory is the peak of a process: of packing the largest "
    "file, and of a fit over all graphs, with validation."
)


def _largest(folder: str) -> Path:
    return max(Path(folder).rglob("*.npz"), key=lambda path: path.stat().st_size)


def pack_all(folder: str, jobs: int) -> dict[str, float]:
    """Pack the whole tree."""
    from tpugraphs.data import packs

    start = time.perf_counter()
    report = packs.pack_tree(folder, jobs=jobs, verbose=False)
    if report.failed:
        raise RuntimeError(str(report.failed))
    return {"seconds": time.perf_counter() - start, "in": report.bytes_in, "out": report.bytes_out}


def pack_largest(folder: str) -> dict[str, float]:
    """Pack one file, and inflate it in two other ways; CPU seconds, bytes of the digits as they are in it."""
    import tpugraphs as tg
    from tpugraphs.data import packs

    tg.set_num_threads(1)
    source = _largest(folder)
    with tempfile.TemporaryDirectory(dir=folder) as out:
        before = time.process_time()
        packs.pack_tree(source, out, jobs=1, verbose=False)
        seconds = time.process_time() - before
    return {"seconds": seconds, "peak": memory("VmHWM")}


def inflate_largest(folder: str) -> dict[str, float]:
    """Inflate the configs of the same file by zlib, throwing them away, and by ours."""
    import tpugraphs as tg

    tg.set_num_threads(1)
    source = _largest(folder)
    with zipfile.ZipFile(source) as archive:
        entry = archive.getinfo("node_config_feat.npy")
    with source.open("rb") as file:
        file.seek(entry.header_offset)
        head = file.read(30)
        file.seek(int.from_bytes(head[26:28], "little") + int.from_bytes(head[28:30], "little"), os.SEEK_CUR)
        packed = file.read(entry.compress_size)
    before = time.process_time()
    stream, begin = zlib.decompressobj(-15), 0
    while begin < len(packed):
        stream.decompress(packed[begin : begin + 4096])
        begin += 4096
    by_zlib = time.process_time() - before
    graph: Any = tg.load(source)
    before = time.process_time()
    graph.validate()
    return {"zlib": by_zlib, "ours": time.process_time() - before, "bytes": entry.file_size}


def read(folder: str) -> dict[str, float]:
    """Microseconds to open the largest pack and to read 128 random configs of it, warm: medians."""
    import tpugraphs as tg

    path = _largest(folder).with_suffix(".tgpack")
    found: dict[str, list[float]] = {"open": [], "rows": [], "floats": []}
    graph: Any = tg.load(path)
    graph.validate()
    rng = np.random.default_rng(0)
    for _ in range(50):
        rows = rng.integers(0, graph.num_configs, 128)
        for name, call in (
            ("open", lambda: tg.load(path)),
            ("rows", lambda rows=rows: graph.digits_of(rows)),
            ("floats", lambda rows=rows: graph.node_config_feat[rows]),
        ):
            start = time.perf_counter()
            call()
            found[name].append(1e6 * (time.perf_counter() - start))
    return {name: statistics.median(times) for name, times in found.items()}


def train(folder: str, steps: int, threads: int) -> dict[str, float]:
    """Fit over the whole collection."""
    import tpugraphs as tg

    tg.set_num_threads(threads)
    split = tg.open_collection("layout:nlp:random", folder)
    start = time.perf_counter()
    ranker = tg.Ranker("first-layout", evaluate_every=max(1, steps // 2))
    history = ranker.fit(
        split.train, valid=split.valid if len(split.valid) else None, steps=steps, verbose=False
    ).history_
    return {
        "seconds": time.perf_counter() - start,
        "waiting": history.waiting,
        "graphs": len(split.train),
    }


def run(context: Context) -> Iterator[Record]:
    given = os.environ.get("TPUGRAPHS_GENERATED")
    folder = given or tempfile.mkdtemp(prefix="packs-")
    try:
        if given is None:
            if context.quick:
                collection.generate(Path(folder), 10, 1, 0.01)
            else:
                collection.generate(Path(folder), 22, context.threads)
        yield from _records(context, folder)
    finally:
        if given is None:
            shutil.rmtree(folder)


def _records(context: Context, folder: str) -> Iterator[Record]:
    def alone(name: str, **options: Any) -> Any:
        return context.call(f"sections.packs:{name}", settings="own", alone=True, folder=folder, **options)

    for path in Path(folder).rglob("*.tgpack"):
        path.unlink()
    one = alone("pack_largest").value
    other = alone("inflate_largest").value
    size = other["bytes"] / 1e6
    rate = size / one["seconds"]
    for peer, name in (("zlib", "zlib, inflating only"), ("ours", "our reader")):
        yield Record(
            "packs",
            f"packing the largest file, beside {peer}",
            1e3 * one["seconds"],
            1e3 * other[peer],
            name,
            required=1.0 if peer == "zlib" else None,
            notes=f"{rate:,.0f} MB/s of {size:,.0f} MB float32",
        )
    limit = 200 << 20
    yield Record(
        "packs", "packing the largest file, memory", one["peak"] / 2**20, limit / 2**20, "the limit", "MiB",
        required=1.0,
    )  # fmt: skip
    whole = alone("pack_all", jobs=context.threads)
    yield Record(
        "packs",
        "packing all",
        1e3 * whole.value["seconds"],
        notes=f"{whole.value['in'] / 1e6:,.0f} MB of npz, {whole.value['out'] / 1e6:,.0f} MB of packs, "
        f"peak {whole.peak_bytes / 2**20:,.0f} MiB",
    )
    times = alone("read").value
    yield Record("packs", "opening", times["open"], 1000, "the limit", "us", required=1.0)
    yield Record(
        "packs", "128 random configs as digits, warm", times["rows"], 1000, "the limit", "us", required=1.0
    )
    yield Record(
        "packs", "128 random configs as float32, warm", times["floats"], 1000, "the limit", "us", required=1.0
    )
    fit = alone("train", steps=4 if context.quick else 100, threads=context.threads)
    spent = fit.value
    yield Record(
        "packs", "a fit over all, memory", fit.peak_bytes / 2**20, 2048, "the limit", "MiB", required=1.0,
        notes=f"{spent['graphs']} graphs, {spent['seconds']:.0f} s, waiting {100 * spent['waiting']:.1f} %",
    )  # fmt: skip
