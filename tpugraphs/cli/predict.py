"""Score the configurations of graphs; smaller is predicted faster.

example:
  tpugraphs predict ranker.safetensors sample:alexnet --out scores.csv
  tpugraphs predict ranker.safetensors graph.npz --out - | sort -t, -k3n | head
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any, TextIO

import tpugraphs as tg
from tpugraphs.cli import common
from tpugraphs.cli.common import Args, Parser, option
from tpugraphs.errors import ConfigError
from tpugraphs.system import counted, tracked, write_whole

_SHOWN = 10


def add_arguments(parser: Parser) -> None:
    """Declare the options."""
    common.add_rankers(parser)
    meaning = (
        "scores.csv (graph,config,place,score) or, for one graph, scores.npy (C,) float32; - prints the CSV"
    )
    option(parser, "--out FILE", meaning)
    option(parser, "--precision")
    common.add_data(parser, "test")


def run(args: Args) -> None:
    """Score, and print or write."""
    import numpy as np

    suffix = ".csv" if common.to_stdout(args, args.out) else Path(args.out).suffix if args.out else None
    if suffix not in (None, ".csv", ".npy"):
        raise ConfigError(f"--out {args.out}: use .csv, .npy or -")
    ranks = common.join_ranks(args)
    if not args.first:
        args.out = suffix = None
    ranker = common.open_rankers(args, ranks)
    graphs = common.open_graphs(args.data, args, "test")
    if suffix == ".npy" and len(graphs) > 1:
        raise ConfigError(f"--out {args.out}: .npy holds one graph, here are {len(graphs)}; use .csv")
    results: list[dict[str, Any]] = []
    with common.text_file(args.out) if suffix == ".csv" else nullcontext() as table:
        if table is not None:
            table.write("graph,config,place,score\n")
        scored = _scored(ranker, graphs, args, ranks)
        for name, scores in tracked(scored, "predict", "graph", None, len(graphs)):
            order = np.argsort(scores, kind="stable")
            if table is not None:
                _write_rows(table, name, scores, order)
            elif suffix == ".npy":
                content = io.BytesIO()  # np.save to a file does not notice when the disk is full
                np.save(content, scores)
                write_whole(args.out, content.getvalue())
            if args.out != common.STREAM:
                _show(args, name, scores, order)
            if args.json:
                lists = {"scores": scores.tolist(), "order": order.tolist()}
                result = {"graph": name, "configs": scores.size}
                results.append(result | ({"out": args.out} if args.out else lists))
    if args.out is not None:
        common.remark(args, f"wrote scores of {counted(len(graphs), 'graph')} to {args.out}")
    common.emit(args, results)


def _scored(
    ranker: Any, graphs: Any, args: Args, ranks: tg.distributed.CommunicatorLike | None
) -> Iterator[tuple[str, Any]]:
    """Return names of graphs and scores (C,); several ranks take turns with the graphs."""

    def scored(number: int) -> tuple[str, Any]:
        graph = graphs[number]
        return graph.name, ranker.predict(graph, tta=args.tta, precision=args.precision)

    facts = tg.data.identity.facts({"graphs": graphs})
    return tg.distributed.ranks.Ranks(ranks).each(len(graphs), scored, facts)


def _show(args: Args, name: str, scores: Any, order: Any) -> None:
    """Print the configurations that are predicted fastest: the result, unless that is a file."""
    show = common.say if args.out is None else common.remark
    show(args, f"{name}: {counted(scores.size, 'configuration')}, predicted fastest first:")
    best = ", ".join(f"{row} ({scores[row]:.4g})" for row in order[:_SHOWN].tolist())
    show(args, f"  {best}{', ...' if scores.size > _SHOWN else ''}")


def _write_rows(table: TextIO, name: str, scores: Any, order: Any) -> None:
    """Write the scores of one graph: memory is bounded by the largest graph."""
    places = order.argsort()
    csv.writer(table, lineterminator="\n").writerows(
        (name, config, place, f"{score:.9g}")
        for config, (place, score) in enumerate(zip(places.tolist(), scores.tolist(), strict=True))
    )
