"""Train a ranker on measured graphs and save it.

example:
  tpugraphs train --data layout:xla:random --root ~/data/tpugraphs --out xla_random.safetensors
  tpugraphs train --data layout:nlp:random --root ~/data/tpugraphs --seeds 5 --out nlp.safetensors
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import tpugraphs as tg
from tpugraphs.cli import common
from tpugraphs.cli.common import Args, Parser, option, whole
from tpugraphs.errors import ConfigError
from tpugraphs.names import COLLECTIONS, KINDS, kind_named
from tpugraphs.system.words import counted, json_text

MANY = 10  # graphs, from which on whole ones are held out for validation


def add_arguments(parser: Parser) -> None:
    """Declare the options."""
    common.add_data(parser, "train", "--data", required=True)
    meaning = (
        "graphs that choose the best checkpoint, or a share of the configurations of --data such as 0.1 or 0 "
        f"(default: the valid split of a collection; of {MANY} graphs or more every {MANY}th; else 0.1)"
    )
    option(parser, "--valid DATA|SHARE", meaning, nargs="+")
    defaults = [f"{kind.recipe} for {kind.graphs}" for kind in KINDS.values() if kind.recipe]
    meaning = f"see `tpugraphs recipes` (default: {', '.join(defaults)})"
    option(parser, "--recipe RECIPE", meaning)
    option(parser, "--preset")
    option(parser, "--set FIELD=VALUE ...", "set a field of the recipe")
    option(parser, "--out FILE", "file to write", default="ranker.safetensors")
    length = parser.add_mutually_exclusive_group()
    option(length, "--steps N", "optimizer steps (default: the recipe's)", type=whole(1))
    option(length, "--epochs N", "passes over the graphs, instead of --steps", type=whole(1))
    option(parser, "--seed")
    group = parser.add_argument_group("several seeds")
    meaning = "train N rankers side by side, from --seed on; FILE is an ensemble"
    option(group, "--seeds N", meaning, type=whole(1, 1000))
    meaning = (
        "which to keep: one-standard-error of the best on the validation graphs, best-K, or all (default: "
        "the first; all without validation)"
    )
    option(group, "--select RULE", meaning)
    common.add_normalize(group, "none")
    meaning = "steps at a time (default: as many as seeds or threads); fewer take less memory"
    option(group, "--workers N", meaning, type=whole(1, 4096))
    option(group, "--log FILE", "curves and selection, as JSON (default: next to --out); - prints it")
    option(parser, "--checkpoint-dir DIR", "save state here; the same command resumes from it")
    meaning = "of the operands of matrix products"
    option(parser, "--precision", meaning, choices=("f32", "bf16"), default="f32")


def run(args: Args) -> None:
    """Train and save."""
    if args.seeds is None and (args.select, args.log, args.workers) != (None, None, None):
        raise ConfigError("--select, --log and --workers go with --seeds")
    ranks = common.join_ranks(args)
    common.check_writable(args.out)
    graphs = common.open_graphs(args.data, args, "train")
    if args.recipe is None:
        args.recipe = kind_named(graphs[0].kind).recipe
    options = {**common.chosen(args, "preset", "precision"), **common.parse_fields(args.set)}
    fit = {"communicator": ranks, **common.chosen(args, "steps", "epochs", "checkpoint_dir")}
    (_train if args.seeds is None else _train_seeds)(args, graphs, options, fit)


def _train(args: Args, graphs: tg.data.Split, options: dict[str, Any], fit: dict[str, Any]) -> None:
    """Train one ranker."""
    ranker = tg.Ranker(args.recipe, seed=args.seed, **options)
    train, valid = _split(args, graphs)
    history = common.fit(args, ranker, train, valid=valid, **fit)
    if not args.first:
        return
    ranker.save(args.out)
    best = history.best_metric
    result = {"out": args.out, "recipe": args.recipe, "parameters": ranker.num_parameters}
    common.emit(args, {**result, f"best_valid_{history.metric}": best, "history": history.to_dict()})
    if args.recipe == "auto":
        common.say(args, str(ranker.choice_))
    if best is not None:
        common.remark(args, f"best validation {history.metric} {best:.4f}, at step {history.best_step}")
    common.remark(args, f"wrote {args.out}; next: tpugraphs evaluate {args.out} DATA")


def _train_seeds(args: Args, graphs: tg.data.Split, options: dict[str, Any], fit: dict[str, Any]) -> None:
    """Train several rankers, save the ensemble of those that the rule keeps, and the log."""
    log = args.log or str(Path(args.out).with_suffix(".json"))
    common.to_stdout(args, log)
    train, valid = _split(args, graphs)
    seeds = range(args.seed, args.seed + args.seeds)
    fit |= {"callbacks": lambda seed: [common.progress_lines(args, f"seed {seed}, ")]}
    fit |= common.chosen(args, "select", "workers")
    runs = tg.train_seeds(args.recipe, train, valid, seeds=seeds, **fit, **options)
    histories = [run.history for run in runs.runs if run.history is not None]
    done, total = sum(len(h.loss) for h in histories), sum(h.total_steps for h in histories)
    done_of = f"after {done:,} of {counted(total, 'step')} of all seeds" if runs.interrupted else None
    common.after_fit(args, histories[0], done_of)
    if not args.first:
        return
    runs.ensemble(normalize=args.normalize or "none").save(args.out)
    if log == common.STREAM:
        print(json_text(runs.to_dict()))
    else:
        runs.save(log)
    common.emit(args, {"out": args.out, "log": log, **runs.to_dict()}, runs.table())
    common.remark(args, f"wrote {args.out} and {log}; next: tpugraphs evaluate {args.out} DATA")


def _split(args: Args, graphs: tg.data.Split) -> tuple[Any, Any]:
    """Return graphs to train on, and graphs or a share of the configurations to validate on (or None)."""
    train, valid = _parts(args, graphs)
    is_share = isinstance(valid, float)
    share = f"{valid:.0%} of the configurations" if is_share else counted(len(valid or ()), "graph")
    common.remark(args, f"{args.recipe}: {counted(len(train), 'graph')} to train on, {share} to validate on")
    return train, valid


def _parts(args: Args, graphs: tg.data.Split) -> tuple[Any, Any]:
    valid: list[str] = args.valid or []
    if not valid:
        names = [spec.partition("/")[0] for spec in args.data]
        if all(name in COLLECTIONS for name in names):
            valid = [f"{name}/valid" for name in dict.fromkeys(names)]
        elif len(graphs) >= MANY:
            train = [source for i, source in enumerate(graphs.sources, 1) if i % MANY]
            return tg.data.Split(train), graphs[MANY - 1 :: MANY]
        else:
            valid = ["0.1"]
    try:
        (share,) = map(float, valid)
    except ValueError:  # several, or no number
        return graphs, common.open_graphs(valid, args, "valid")
    if not 0 <= share < 1:
        raise ConfigError(f"--valid {valid[0]}: a share of the configurations must be at least 0 and below 1")
    return (list(graphs), share) if share else (graphs, None)
