"""AlexNet on a TPU: learn some of its measured layouts, rank those that were not seen.

The measurements are of others (``tpugraphs.sample("alexnet")``), in the data folder ``TPUGRAPHS_DATA``.
"""

from __future__ import annotations

import argparse
import sys
import time
from functools import partial

import tpugraphs as tg

FRACTIONS = (0.82, 0.03, 0.15)  # to learn, to choose the checkpoint by, not seen
TREES = "eighth-lightgbm"  # needs the extra [lightgbm]
METRICS = ("tau", "opa", "slowdown@1", "slowdown@5")


def judged(recipe: str, seed: int, steps: int) -> tg.evaluation.Report:
    """Train on one split by configuration; report of the ranker, boosted trees, a linear model and chance."""
    graph = tg.sample("alexnet", download=False)
    rows = tg.training.split_configs(graph, FRACTIONS, seed)
    train, valid, unseen = (graph.select(part) for part in rows)
    ranker = tg.Ranker(recipe, seed=seed, evaluate_every=100)
    ranker.fit(train, valid=valid, steps=steps, verbose=False)
    trees = tg.Ranker(TREES, seed=seed).fit(train, valid=valid, verbose=False)
    scorers = {
        recipe: ranker.predict,
        TREES: trees.predict,
        "linear": tg.ranker.LinearBaseline().fit(train).predict,
        "random": partial(tg.ranker.random_scores, seed=seed),
    }
    return tg.evaluation.evaluate(scorers, unseen, seed=seed)


def main() -> int:
    """Print a table for each seed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.alexnet", description=__doc__)
    parser.add_argument("--recipe", default="first-layout-cross", help="(default: %(default)s)")
    parser.add_argument("--steps", type=int, default=1000, help="optimizer steps (default: %(default)s)")
    parser.add_argument("--seeds", type=int, default=1, help="from 0 on: another split, other weights")
    args = parser.parse_args()
    for seed in range(args.seeds):
        began = time.monotonic()
        try:
            report = judged(args.recipe, seed, args.steps)
        except tg.DataError as error:
            print(f"skipped: {error}", file=sys.stderr)
            return 0
        print(f"seed {seed}, {time.monotonic() - began:.0f} s\n{report.table(metrics=METRICS)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
