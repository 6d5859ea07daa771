"""``tpugraphs predict``: scores of every configuration."""

from __future__ import annotations

import argparse
import csv
import io
from pathlib import Path
from typing import Any, BinaryIO

from tpugraphs.cli import common
from tpugraphs.errors import ConfigError
from tpugraphs.system.files import atomic_write
from tpugraphs.system.words import counted

HELP = "score the configurations of graphs; smaller is predicted faster"
EXAMPLE = "tpugraphs predict ranker.safetensors sample:alexnet --out scores.csv"
_SHOWN = 10


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    common.add_rankers(parser)
    meaning = "scores.csv (graph,config,place,score) or, for one graph, scores.npy (C,) float32"
    common.option(parser, "--out FILE", meaning)
    common.add_precision(parser)
    common.add_data(parser, "test")


def run(args: argparse.Namespace) -> int:
    """Score, and print or write."""
    import numpy as np

    common.check_writable(args.out)
    suffix = Path(args.out).suffix if args.out else None
    if suffix not in (None, ".csv", ".npy"):
        raise ConfigError(f"--out {args.out}: use .csv or .npy")
    ranker = common.open_rankers(args)
    graphs = common.open_graphs(args.data, args, "test")
    if suffix == ".npy" and len(graphs) > 1:
        raise ConfigError(f"--out {args.out}: .npy holds one graph, here are {len(graphs)}; use .csv")
    results: list[tuple[str, Any, Any]] = []
    verbose = common.show_progress(args)
    for graph in common.each(args, graphs, "predict"):
        scores = ranker.predict(graph, tta=args.tta, precision=args.precision, verbose=verbose)
        results.append((graph.name, scores, np.argsort(scores, kind="stable")))
    if suffix is not None:
        with atomic_write(args.out) as file:
            if suffix == ".csv":
                _write_csv(file, results)
            else:
                content = io.BytesIO()  # np.save to a file does not notice when the disk is full
                np.save(content, results[0][1])
                file.write(content.getbuffer())
    for name, scores, order in results:
        common.say(args, f"{name}: {counted(scores.size, 'configuration')}, predicted fastest first:")
        best = ", ".join(f"{row} ({scores[row]:.4g})" for row in order[:_SHOWN].tolist())
        common.say(args, f"  {best}{', ...' if scores.size > _SHOWN else ''}")
    if args.out is not None:
        common.say(args, f"wrote {args.out}")
    common.emit(
        args,
        [
            {"graph": name, "configs": int(scores.size)}
            | ({"out": args.out} if args.out else {"scores": scores.tolist(), "order": order.tolist()})
            for name, scores, order in results
        ],
    )
    return 0


def _write_csv(binary: BinaryIO, results: list[tuple[str, Any, Any]]) -> None:
    file = io.TextIOWrapper(binary, "utf-8", newline="")
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(("graph", "config", "place", "score"))
    for name, scores, order in results:
        places = order.argsort()
        writer.writerows(
            (name, config, place, f"{score:.9g}")
            for config, (place, score) in enumerate(zip(places.tolist(), scores.tolist(), strict=True))
        )
    file.detach()  # flushes, and leaves closing to the caller
