"""``tpugraphs demo``: the whole way on embedded measurements, from a file to a submission."""

from __future__ import annotations

import argparse
import time
from functools import partial
from pathlib import Path
from typing import Any

import tpugraphs as tg
from tpugraphs.cli import common

HELP = "train on embedded measurements of AlexNet and judge the ranker on configurations it has not seen"
EXAMPLE = "tpugraphs demo --out demo_out"

RECIPE = "first-layout-cross"
STEPS, QUICK_STEPS = 1000, 4
SHOWN = ("tau", "opa", "slowdown@1", "slowdown@5")
# Which of the two searches made the AlexNet measurements is not known; an ID of the submission needs one.
COLLECTION = "layout:xla:random"

_NOISE = """On this graph even equal configurations differ when measured again: the tau of a perfect ranker
would be about 0.8, not 1."""
_NEXT = """Next, with the full data set (Kaggle: predict-ai-model-runtime) unpacked in DIR:
  tpugraphs train --data layout:xla:random --root DIR --out xla_random.safetensors
  tpugraphs evaluate xla_random.safetensors layout:xla:random --root DIR
  tpugraphs submit xla_random.safetensors layout:xla:random --root DIR --out submission.csv"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    common.option(parser, "--out DIR", "where to write (default: %(default)s)", default="demo_out")
    common.option(parser, "--quick", "a few steps only: shows the way, learns little")
    common.option(parser, "--steps N", f"optimizer steps (default: {STEPS})", type=common.whole(1))
    common.add_seed(parser, "of split, weights and sampling")


def run(args: argparse.Namespace) -> int:
    """Split, train, judge, draw, submit."""
    start = time.perf_counter()
    folder = Path(args.out).expanduser()
    folder.mkdir(parents=True, exist_ok=True)
    steps = args.steps or (QUICK_STEPS if args.quick else STEPS)
    train, valid, unseen = _data(args)
    ranker = tg.Ranker(RECIPE, seed=args.seed, evaluate_every=100)
    history = common.fit(args, ranker, train, valid=valid, steps=steps)
    common.say(args, f"Trained {RECIPE}: {ranker.num_parameters:,} parameters, {steps:,} steps.")
    trained = time.perf_counter() - start
    scores = ranker.predict(unseen)
    scorers = {
        "ranker": lambda graph: scores,
        "linear": tg.baselines.LinearBaseline().fit(train).predict,
        "random": partial(tg.baselines.random_scores, seed=args.seed),
    }
    report = tg.evaluation.evaluate(scorers, unseen, seed=args.seed)
    common.say(args, f"\n{report.table(metrics=SHOWN)}\n\n{_NOISE}\n")
    files = _write(folder, ranker, history, report, {unseen.submission_id: scores.argsort(kind="stable")})
    seconds = time.perf_counter() - start
    for path, what in files.items():
        common.say(args, f"  {path}  {what}")
    common.say(args, f"\n{seconds:.0f} s in all, {trained:.0f} s until the ranker was trained.\n\n{_NEXT}")
    common.emit(
        args, {**report.to_dict(), "files": list(files), "steps": steps, "seconds": round(seconds, 2)}
    )
    return 0


def _data(args: argparse.Namespace) -> tuple[Any, Any, Any]:
    """AlexNet as three graphs that share no configuration."""
    graph = tg.sample("alexnet").replace(collection=COLLECTION)
    parts = [graph.select(rows) for rows in tg.training.split_configs(graph, (0.82, 0.03, 0.15), args.seed)]
    if args.quick:
        parts = [part.select(slice(0, limit)) for part, limit in zip(parts, (2000, 128, 256), strict=True)]
    train, valid, unseen = parts
    common.say(
        args,
        f"AlexNet on a TPU: {graph.num_nodes} nodes, {graph.num_config_nodes} of them configurable, "
        f"{graph.num_configs:,} measured configurations.\n"
        f"{train.num_configs:,} to train on, {valid.num_configs:,} to choose the best checkpoint, "
        f"{unseen.num_configs:,} unseen (no configuration is in two parts).",
    )
    return train, valid, unseen


def _write(folder: Path, ranker: Any, history: Any, report: Any, rankings: dict[str, Any]) -> dict[str, str]:
    """Write all files; returns path to what it is."""
    picture, table, rows, trained = (
        str(folder / name) for name in ("report.png", "report.json", "submission.csv", "ranker.safetensors")
    )
    tg.plot.save(report.plot(history=history), picture)
    report.save(table)
    counts = {row_id: ranking.size for row_id, ranking in rankings.items()}
    tg.submission.write(rows, rankings, counts)
    tg.submission.validate(rows, counts).raise_for_problems()
    ranker.save(trained)
    return {
        picture: "learning curve, predicted against measured rank, what keeping the first gives",
        table: "the table with more digits",
        rows: "a valid submission for the unseen part",
        trained: "the trained ranker",
    }
