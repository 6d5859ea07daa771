"""Learn from programs measured with many compiler options, and judge the ranker on programs it has not seen.

example:
  tpugraphs demo --out demo_out
  tpugraphs demo --live
"""

import time
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import mean
from typing import Any

import tpugraphs as tg
from tpugraphs.cli.common import Args, Parser, emit, fit, option, remark, say, whole
from tpugraphs.system.words import counted

COLLECTION = "options:xla:cpu"
RECIPE = "graph-config"
STEPS, QUICK_STEPS = 1000, 20
TRIED = 5  # configs that a user would measure
SHOWN = ("tau", "slowdown@1", f"slowdown@{TRIED}")
LIVE = {"n_configs": 40, "rounds": 6}

_NEXT = """Next:
  tpugraphs demo --live                              the same with a program measured on this machine now
  tpugraphs collect model.py:build --out model.npz   measure your own JAX program
  tpugraphs collect --zoo --out DIR                  measure this collection on your machine
  tpugraphs download layout:xla:random --root DIR    graphs of the competition, measured on TPUs"""


def add_arguments(parser: Parser) -> None:
    """Declare the options."""
    option(parser, "--out DIR", "where to write", default="demo_out")
    option(parser, "--quick", "a few steps of the network only: it learns little")
    option(parser, "--live", "measure a small program on this machine, too, and rank its options")
    option(parser, "--steps N", f"optimizer steps of the network (default: {STEPS})", type=whole(1))
    option(parser, "--seed", "of weights and samples")


def run(args: Args) -> None:
    """Train, judge, draw, submit; with --live rank a program that is measured now."""
    from tpugraphs.ranker.scorer import scoring

    start = time.perf_counter()
    folder = Path(args.out).expanduser()
    folder.mkdir(parents=True, exist_ok=True)
    live = _measure(args) if args.live else []  # first: it fails early if something is missing
    data = tg.open_collection(COLLECTION)
    known, unseen = [*data.train, *data.valid], list(data.test)
    remark(
        args,
        f"{COLLECTION}: {len(known) + len(unseen)} programs, each compiled by XLA with "
        f"{known[0].num_configs} sets of options and timed on a CPU.\n{len(known)} to learn from, "
        f"{len(unseen)} of other families, never seen, to judge by.",
    )
    began = time.perf_counter()
    ranker = tg.ranker.MultiTaskGaussianProcess(seed=args.seed).fit(known)
    remark(args, f"Trained the ranker, {ranker.name}: {time.perf_counter() - began:.1f} s.")
    network = tg.Ranker(RECIPE, seed=args.seed)
    steps = args.steps or (QUICK_STEPS if args.quick else STEPS)
    history = fit(args, network, known, steps=steps)
    size = f"{counted(network.num_parameters, 'parameter')}, {counted(steps, 'step')}"
    remark(args, f"Trained a network to compare, {RECIPE}: {size}, {history.seconds:.0f} s.")
    scorers: dict[str, Callable[..., Any]] = {
        "ranker": scoring(ranker, together=TRIED),
        RECIPE: network.predict,
        "mean effect": tg.ranker.MeanEffect().fit(known).predict,
        "random": _random,
    }
    report = tg.evaluation.evaluate(scorers, unseen, seed=args.seed)
    say(args, f"\n{report.table(metrics=SHOWN, per_graph=False)}\n\n{_ceiling(unseen)}\n")
    files = _write(folder, ranker, report, unseen)
    result = {**report.to_dict(), "steps": steps}
    if live:
        judged = tg.evaluation.evaluate(scorers, live, seed=args.seed)
        say(args, f"\n{judged.table(metrics=SHOWN)}\n\n{_ceiling(live)}\n")
        files |= {str(folder / "live.npz"): "what was measured now"}
        result["live"] = judged.to_dict()
    for path, what in files.items():
        remark(args, f"  {path}  {what}")
    seconds = time.perf_counter() - start
    remark(args, f"\n{seconds:.0f} s in all.\n\n{_NEXT}")
    emit(args, {**result, "files": list(files), "seconds": round(seconds, 2)})


def _random(graph: "tg.Graph") -> Any:
    """Return scores of a random order, a different one for each program."""
    return tg.ranker.random_scores(graph, seed=zlib.crc32(graph.name.encode()))


def _ceiling(graphs: Sequence[Any]) -> str:
    """Return a sentence: what XLA's own choice costs, and what a ranking can reach."""
    costs = [100 * (tg.metrics.gain_of_best(graph.repeats) - 1) for graph in graphs]
    ceilings = [graph.about["noise_ceiling"] for graph in graphs]
    return (
        f"XLA's own choice is {mean(costs):.1f} % slower than the best (chosen by half of the measurements, "
        "judged by the other half; the table judges by all of them). Measurements are noisy: "
        f"two halves of them agree with a tau of {mean(ceilings):.2f}; no ranking can do much better."
    )


def _measure(args: Args) -> list[Any]:
    """Measure options of a program that is in no collection."""
    import jax.numpy as jnp
    import numpy as np

    def program(x: Any, w: Any, v: Any) -> Any:
        """Gated layer, normalised rows, sums by column."""
        hidden = jnp.tanh(x @ w) * jnp.exp(-jnp.square(x @ v))
        hidden = (hidden - hidden.mean(-1, keepdims=True)) / (hidden.std(-1, keepdims=True) + 1e-3)
        return jnp.cumsum(hidden, axis=0)[::8], hidden.sum(0)

    rng = np.random.default_rng(args.seed)
    x, w, v = (rng.standard_normal(shape, np.float32) for shape in ((512, 192), (192, 256), (192, 256)))
    out = Path(args.out).expanduser() / "live.npz"
    remark(args, f"Measuring {LIVE['n_configs']} sets of options of a small program on this machine ...")
    how = {**LIVE, "name": "gated-layer", "seed": args.seed}
    return [tg.xla.collect(program, x, w, v / 16, out=out, **how)]


def _write(folder: Path, ranker: Any, report: Any, unseen: Sequence[Any]) -> dict[str, str]:
    """Write all files; return a description of each by path."""
    picture, table, rows, trained = (
        str(folder / name) for name in ("report.png", "report.json", "submission.csv", "ranker.safetensors")
    )
    chosen = {graph.name: float(graph.runtime[0]) for graph in unseen}
    tg.evaluation.plot.save(tg.evaluation.plot.gains(report, chosen, k=TRIED), picture)
    report.save(table)
    counts = {graph.submission_id: graph.num_configs for graph in unseen}
    tg.submission.write(
        rows, {graph.submission_id: ranker.rank(graph, together=TRIED) for graph in unseen}, counts
    )
    tg.submission.validate(rows, counts).raise_for_problems()
    ranker.save(trained)
    return {
        picture: f"what XLA's choice costs on each program, and what the best of {TRIED} ranked costs",
        table: "the table with more digits",
        rows: "the order of all configurations, as the competition wants it",
        trained: "the trained ranker",
    }
