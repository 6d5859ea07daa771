"""Tune a JAX function, or the parameters of a command: measure some configurations, and say which is best.

example:
  tpugraphs tune model.py:build --budget 60s --out tuned.json
  tpugraphs tune --command "./a.out {block}" --space space.toml --budget 100
  tpugraphs tune --build "gcc -O{O} -o {tmp}/a kern.c" --command "{tmp}/a" --space space.toml --budget 60s
  tpugraphs tune --command "./bench {threads}" --metric printed --maximize --space s.toml --journal run.jsonl
"""

from __future__ import annotations

import argparse
from typing import Any

import tpugraphs as tg
from tpugraphs.cli import common
from tpugraphs.cli.collect import built
from tpugraphs.cli.common import option, whole
from tpugraphs.errors import ConfigError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    meaning = "Python file and a function in it that takes nothing and returns (fn, args), a function of JAX"
    option(parser, "program FILE.py:FUNCTION", meaning, nargs="?")
    meaning = "command to measure; {name} is the value of a parameter, {tmp} a folder, {{ and }} are braces"
    option(parser, "--command LINE", meaning, dest="line_to_run")
    option(parser, "--build LINE", "command that comes first and is not measured, such as a compiler's")
    meaning = "parameters and constraints: TOML, or JSON of Kernel Tuner or T1"
    option(parser, "--space FILE", meaning)
    meaning = "evaluations, or a time as 90s, 5m or 2h, or 'until no gain'"
    option(parser, "--budget BUDGET", f"{meaning} (default: 100, of a program 10)")
    meaning = (
        "time: milliseconds of the command; printed: the last number it prints; else a regular expression"
    )
    option(parser, "--metric WHAT", meaning, default="time")
    option(parser, "--maximize", "larger is better")
    option(
        parser,
        "--repeats N",
        "calls of the command for each configuration",
        type=whole(1, 100_000),
        default=1,
    )
    option(
        parser, "--timeout SECONDS", "of build and calls; auto: ten times what others took", default="auto"
    )
    option(parser, "--journal FILE", "append every measurement; the same command then goes on from there")
    meaning = "what was measured before, elsewhere or of other problems, in any format; repeatable"
    option(parser, "--records FILE", meaning, **common.REPEATED)
    option(parser, "--problem NAME", "its name in the journal", default="")
    option(
        parser, "--device NAME", "its name in the journal; nobody else measures on it meanwhile", default=""
    )
    option(
        parser,
        "--batch N",
        "configurations asked for at once (default: 1, of workers 8)",
        type=whole(1, 1 << 20),
    )
    common.add_executor(parser)
    meaning = "rounds in which the best and the default are measured again, 0 for none"
    option(parser, "--confirm N", meaning, type=whole(0, 1000), default=5)
    option(parser, "--out FILE", "write the result as JSON")
    meaning = "of a program, leave out an option, such as fast_math, or memory; repeatable"
    option(parser, "--without OPTION", meaning, **common.REPEATED)
    option(parser, "--tolerance ERROR", "of a program, largest relative error of an output", type=float)
    common.add_seed(parser)


def run(args: argparse.Namespace) -> None:
    """Tune, and print the answer."""
    common.check_writable(args.out)
    if args.program is not None:
        return _program(args)
    for name, value in (("--command", args.line_to_run), ("--space", args.space)):
        if value is None:
            raise ConfigError(
                f"{name}: expected with a command to tune, or FILE.py:FUNCTION instead, found none"
            )
    space = tg.Space.read(args.space)
    how = {"build": args.build, "metric": args.metric, "repeats": args.repeats, "names": space.names}
    measure = tg.tuning.Command(args.line_to_run, **how)
    with common.executor(args) as executor:
        tuned = tg.tune(
            tg.distributed.OnDevice(measure, args.device) if args.device else measure, space,
            args.budget or "100", batch=args.batch, executor=executor, timeout=_seconds(args.timeout),
            journal=args.journal, direction="maximize" if args.maximize else "minimize", seed=args.seed,
            records=tg.records.read(args.records) if args.records else None, problem=args.problem,
            device=args.device, confirm=args.confirm,
        )  # fmt: skip
    if args.out:
        tuned.save(args.out)
    common.say(args, tuned.report())
    common.emit(args, tuned.to_dict())
    if tuned.interrupted:
        raise KeyboardInterrupt(f"; the same command goes on from {args.journal}" if args.journal else "")


def _program(args: argparse.Namespace) -> None:
    """Tune a function of JAX."""
    given = {"--command": args.line_to_run, "--space": args.space, "--build": args.build}
    given |= {"--executor": args.executor}
    if wrong := [name for name, value in given.items() if value is not None]:
        raise ConfigError(f"{wrong[0]}: expected without FILE.py:FUNCTION")
    name, (fn, arguments) = built(args.program)
    how: dict[str, Any] = {"without": args.without or (), "tolerance": args.tolerance, "seed": args.seed}
    if args.timeout != "auto":
        how["timeout"] = _seconds(args.timeout)
    tuned = tg.xla.tune(
        fn, *arguments, budget=args.budget or 10, journal=args.journal, name=name,
        ranker=tg.xla.learn(args.records) if args.records else None, confirm=max(args.confirm - 1, 3), **how,
    )  # fmt: skip
    if args.out:
        tuned.save(args.out)
    common.say(args, tuned.report())
    common.emit(args, tuned.to_dict())


def _seconds(text: str) -> float | str | None:
    if text in ("auto", "none"):
        return None if text == "none" else text
    try:
        return float(text)
    except ValueError:
        raise ConfigError(f"--timeout {text}: expected seconds, auto or none") from None
