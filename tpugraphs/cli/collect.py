"""Measure compiler configurations of a JAX program, or of the zoo of programs, on this machine.

example:
  tpugraphs collect --zoo --out ~/data/tpugraphs
  tpugraphs collect model.py:build --out model.npz
  tpugraphs collect --zoo --executor dask:tcp://10.0.0.1:8786 --out /shared/tpugraphs
"""

import inspect
import os
import runpy
from pathlib import Path
from typing import Any

import tpugraphs as tg
from tpugraphs.cli import common
from tpugraphs.cli.common import Args, Parser, option, whole
from tpugraphs.errors import ConfigError
from tpugraphs.names import SPACES
from tpugraphs.system.words import counted


def add_arguments(parser: Parser) -> None:
    """Declare the options."""
    meaning = "Python file and a function in it that takes nothing and returns (fn, args)"
    option(parser, "program FILE.py:FUNCTION", meaning, nargs="?")
    option(parser, "--zoo", "measure the zoo: programs of many families")
    meaning = "file for the graph (.npz or .tgpack); with --zoo, the root of the collection"
    option(parser, "--out PATH", meaning, required=True)
    meaning = (
        "what is varied: options of the compiler, layouts as transpositions or as constraints, or options "
        "and transpositions"
    )
    option(parser, "--space", meaning, choices=tuple(SPACES), default="options")
    option(parser, "--only FAMILY ...", "of the zoo, only this family")
    option(parser, "--sizes N", "of the zoo, only the first N sizes of each family", type=whole(1))
    option(parser, "--configs N", "configurations of each program", type=whole(2), default=128)
    option(parser, "--rounds N", "measurements of each configuration", type=whole(2), default=12)
    meaning = "largest relative error of an output; by default by the types of the program"
    option(parser, "--tolerance ERROR", meaning, type=float)
    meaning = "for compiling and for timing a configuration"
    option(parser, "--timeout SECONDS", meaning, type=float, default=60.0)
    option(parser, "--without OPTION ...", "leave out an option, such as fast_math")
    option(parser, "--costs", "add what XLA expects of each compiled configuration: work, memory")
    meaning = "times that a measurement goes through all configurations; the fastest counts"
    option(parser, "--passes N", meaning, type=whole(1), default=3)
    meaning = "time limit for measuring a program, checked after each round from the fourth on"
    option(parser, "--seconds SECONDS", meaning, type=float)
    option(parser, "--executor WORKERS")
    option(parser, "--seed")


def run(args: Args) -> int | None:
    """Measure what is not there yet; return 1 if a program of the zoo could not be measured."""
    if args.zoo == (args.program is not None):
        raise ConfigError("expected FILE.py:FUNCTION or --zoo, one of them")
    how = common.chosen(args, "rounds", "passes", "seed", "space", "tolerance", "timeout", "seconds", "costs")
    how |= {"n_configs": args.configs, "without": args.without or ()}
    if args.zoo:
        return _zoo(args, how)
    if args.only or args.sizes:
        raise ConfigError("--only and --sizes: expected together with --zoo")
    if args.executor is None:
        graph = _measured(args.program, args.out, how)
    else:
        job = os.path.abspath(args.program), os.path.abspath(args.out), {**how, "verbose": False}
        with common.executor(args) as executor:
            ((_, graph),) = tg.distributed.farm.farmed(executor, _measured, [job])
    common.emit(args, _reported(args, graph))
    return None


def _measured(program: str, out: str, how: dict[str, Any]) -> Any:
    name, (fn, given) = built(program)
    return tg.xla.collect(fn, *given, name=name, out=out, **how)


def _zoo(args: Args, how: dict[str, Any]) -> int:
    done: list[dict[str, Any]] = []

    def report(program: Any, found: Any) -> None:
        if isinstance(found, tg.Error):
            common.warn(args, found, "error")
            done.append({"name": program.name, "error": str(found)})
        else:
            done.append(_reported(args, found))

    with common.executor(args) as executor:
        folder = tg.xla.build(
            args.out, only=args.only, sizes=args.sizes, report=report, executor=executor, **how
        )
    common.remark(args, f"data sheet: {folder / 'README.md'}")
    common.emit(args, {"folder": str(folder), "graphs": done})
    return 1 if any("error" in entry for entry in done) else 0


def _reported(args: Args, graph: "tg.Graph") -> dict[str, Any]:
    """Print a line about a measured graph, and return what is in it."""
    repeats: Any = graph.repeats  # a graph that was measured here has them
    found = {
        "name": graph.name,
        "configs": graph.num_configs,
        "programs": graph.about["distinct_programs"],
        "failed": graph.num_configs - len(graph.ran),
        "default_ms": float(graph.runtime[0]) / 1e6,
        "best_ms": float(graph.runtime[graph.ran].min()) / 1e6,
        "gain": tg.metrics.gain_of_best(repeats),
        "noise_ceiling": graph.about["noise_ceiling"],
    }
    common.remark(
        args,
        f"{graph.name}: {counted(found['configs'], 'config')}, {counted(found['programs'], 'program')}, "
        f"{found['failed']:,} failed; default {found['default_ms']:.3f} ms, best {found['best_ms']:.3f} ms, "
        f"gain {found['gain']:.2f} (chosen by half of the rounds, judged by the others), "
        f"noise ceiling {found['noise_ceiling']:.2f}",
    )
    return found


def built(spec: str) -> tuple[str, tuple[Any, tuple[Any, ...]]]:
    """Run a file and call its function; return the name of the file, and (fn, args)."""
    path, colon, name = spec.rpartition(":")
    if not colon or not name.isidentifier() or not path.endswith(".py"):
        raise ConfigError(f"{spec}: expected FILE.py:FUNCTION, such as model.py:build")
    make = runpy.run_path(path, run_name=Path(path).stem).get(name)
    if not callable(make):
        raise ConfigError(f"{spec}: expected a function {name} in {path}, found none")
    try:
        inspect.signature(make).bind()
    except TypeError as error:
        raise ConfigError(f"{spec}: expected a function that takes nothing: {error}") from None
    made = make()
    if not (isinstance(made, tuple) and len(made) == 2 and callable(made[0]) and isinstance(made[1], tuple)):
        raise ConfigError(f"{spec}: expected (fn, args) with a tuple of arguments, found {made!r:.80}")
    return Path(path).stem, made
