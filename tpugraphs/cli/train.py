"""``tpugraphs train``: fit a ranker and save it."""

from __future__ import annotations

import argparse
from typing import Any

from tpugraphs.cli import common

HELP = "train a ranker on measured graphs and save it"
EXAMPLE = (
    "tpugraphs train --data layout:xla:random --root ~/data/tpugraphs --out xla_random.safetensors\n"
    "  tpugraphs train --data layout:nlp:random --root ~/data/tpugraphs --seeds 5 --out nlp.safetensors"
)


MANY = 10  # graphs that are enough to set whole ones aside for validation
RECIPES = {"layout": "first-layout", "tile": "first-tile", "graph": "graph-config"}  # by the kind of graph


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "--data",
        nargs="+",
        required=True,
        metavar="DATA",
        help=common.DATA_HELP + "; a collection means its train split",
    )
    parser.add_argument(
        "--valid",
        nargs="+",
        metavar="DATA|SHARE",
        help="graphs that choose the best checkpoint, or a share of the configurations of --data such as 0.1 "
        f"or 0 (default: the valid split of a collection; of {MANY} graphs or more every {MANY}th; else 0.1)",
    )
    parser.add_argument(
        "--recipe",
        metavar="NAME",
        help="see `tpugraphs recipes` (default: "
        + ", ".join(f"{name} for {kind} graphs" for kind, name in RECIPES.items() if kind != "graph")
        + f", {RECIPES['graph']} for others)",
    )
    parser.add_argument(
        "--preset", choices=("cpu", "full"), default="cpu", help="sized for a CPU, or as published"
    )
    parser.add_argument("--out", default="ranker.safetensors", metavar="FILE", help="default: %(default)s")
    parser.add_argument(
        "--steps", type=common.whole(1), metavar="N", help="optimizer steps (default: the recipe's)"
    )
    parser.add_argument(
        "--epochs", type=common.whole(1), metavar="N", help="passes over the graphs, instead of --steps"
    )
    parser.add_argument("--seed", type=common.whole(0, 2**63 - 1), default=0, help="default: %(default)s")
    several = parser.add_argument_group("several seeds")
    several.add_argument(
        "--seeds",
        type=common.whole(1, 1000),
        metavar="N",
        help="train N rankers side by side, from --seed on; FILE is an ensemble",
    )
    several.add_argument(
        "--select",
        metavar="RULE",
        help="which to keep: one-standard-error of the best on the validation graphs, best-K, or all "
        "(default: the first; all without validation)",
    )
    several.add_argument(
        "--normalize",
        choices=("none", "minmax", "rank"),
        default="none",
        help="of the ensemble, before the mean of the scores (default: %(default)s)",
    )
    several.add_argument(
        "--workers",
        type=common.whole(1, 4096),
        metavar="N",
        help="steps at a time (default: as many as seeds or threads); fewer take less memory",
    )
    several.add_argument(
        "--log", metavar="FILE", help="curves and selection, as JSON (default: next to --out)"
    )
    parser.add_argument(
        "--checkpoint-dir", metavar="DIR", help="save state here; the same command resumes from it"
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="FIELD=VALUE",
        help="set a field of the recipe; repeatable",
    )
    common.add_precision(parser, training=True)
    common.add_data_options(parser)


def run(args: argparse.Namespace) -> int:
    """Train and save."""
    from tpugraphs.errors import ConfigError

    if args.steps is not None and args.epochs is not None:
        raise ConfigError("give --steps or --epochs, not both")
    if args.seeds is None and (args.select, args.log, args.workers) != (None, None, None):
        raise ConfigError("--select, --log and --workers go with --seeds")
    from tpugraphs.ranker.ranker import Ranker

    common.check_writable(args.out)
    graphs = common.open_graphs(args.data, args, "train")
    if args.recipe is None:
        args.recipe = RECIPES[graphs[0].kind]
    if args.seeds is not None:
        return _run_seeds(args, graphs)
    ranker = Ranker(
        args.recipe,
        seed=args.seed,
        preset=args.preset,
        precision=args.precision,
        **common.parse_fields(args.set),
    )
    train, valid = _split(args, graphs)
    _say_data(args, train, valid)
    history = common.fit(
        args,
        ranker,
        train,
        valid=valid,
        steps=args.steps,
        epochs=args.epochs,
        checkpoint_dir=args.checkpoint_dir,
    )
    ranker.save(args.out)
    best = history.best_metric
    common.emit(
        args,
        {
            "out": args.out,
            "recipe": args.recipe,
            "parameters": ranker.num_parameters,
            f"best_valid_{history.metric}": best,
            "history": history.to_dict(),
        },
    )
    if best is not None:
        common.say(args, f"best validation {history.metric} {best:.4f}, at step {history.best_step}")
    common.say(args, f"wrote {args.out}; next: tpugraphs evaluate {args.out} DATA")
    return 0


def _say_data(args: argparse.Namespace, train: Any, valid: Any) -> None:
    common.say(
        args,
        f"{args.recipe}: {_count(len(train))} to train on, "
        + (f"{valid:.0%} of the configurations" if isinstance(valid, float) else _count(len(valid or ())))
        + " to validate on",
    )


def _run_seeds(args: argparse.Namespace, graphs: common.Graphs) -> int:
    """Train several rankers, save the ensemble of those that the rule keeps, and the log."""
    import warnings
    from pathlib import Path

    from tpugraphs.ranker.seeds import train_seeds
    from tpugraphs.training.selection import Rule

    if args.select is not None:
        Rule.parse(args.select)
    log = args.log or str(Path(args.out).with_suffix(".json"))
    common.check_writable(log)
    train, valid = _split(args, graphs)
    _say_data(args, train, valid)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="interrupted after steps")  # told below
        runs = train_seeds(
            args.recipe,
            train,
            valid,
            seeds=range(args.seed, args.seed + args.seeds),
            select=args.select,
            steps=args.steps,
            epochs=args.epochs,
            callbacks=lambda seed: [common.progress_lines(args, f"seed {seed}, ")],
            checkpoint_dir=args.checkpoint_dir,
            workers=args.workers,
            verbose=common.show_progress(args),
            preset=args.preset,
            precision=args.precision,
            **common.parse_fields(args.set),
        )
    common.tell_skipped(args, runs.rankers[0].history)
    if runs.interrupted:
        histories = [run.history for run in runs.runs if run.history is not None]
        done, total = sum(len(h.loss) for h in histories), sum(h.total_steps for h in histories)
        hint = common.going_on(args.checkpoint_dir)
        raise KeyboardInterrupt(f"after {done} of {total} steps of all seeds; {hint}")
    runs.ensemble(normalize=args.normalize).save(args.out)
    runs.save(log)
    common.emit(args, {"out": args.out, "log": log, **runs.to_dict()})
    common.say(args, runs.table())
    common.say(args, f"wrote {args.out} and {log}; next: tpugraphs evaluate {args.out} DATA")
    return 0


def _count(graphs: int) -> str:
    return f"{graphs} graph{'s' if graphs != 1 else ''}"


def _split(args: argparse.Namespace, graphs: common.Graphs) -> tuple[Any, Any]:
    """Graphs to train on; graphs, or a share of the configurations, to validate on, or None."""
    from tpugraphs import data
    from tpugraphs.errors import ConfigError

    valid: list[str] = args.valid or []
    if not valid:
        names = [spec.partition("/")[0] for spec in args.data]
        if all(name in data.COLLECTIONS for name in names):
            valid = [f"{name}/valid" for name in dict.fromkeys(names)]
        elif len(graphs) >= MANY:
            return graphs.every(MANY)
        else:
            valid = ["0.1"]
    try:
        share = float(valid[0]) if len(valid) == 1 else None
    except ValueError:
        share = None
    if share is None:
        return graphs, common.open_graphs(valid, args, "valid")
    if not 0 <= share < 1:
        raise ConfigError(f"--valid {valid[0]}: a share of the configurations must be at least 0 and below 1")
    return (graphs, None) if share == 0 else (list(graphs), share)
