"""Tune a JAX function, or the parameters of a command: measure some configurations, and say which is best.

example:
  tpugraphs tune model.py:build --budget 60s --out tuned.json
  tpugraphs tune --command "./a.out {block}" --space space.toml --budget 100
  tpugraphs tune --build "gcc -O{O} -o {tmp}/a kern.c" --command "{tmp}/a" --space space.toml --budget 60s
  tpugraphs tune --command "./bench {threads}" --metric printed --maximize --space s.toml --journal run.jsonl
"""

from typing import Any

import tpugraphs as tg
from tpugraphs.cli import common
from tpugraphs.cli.collect import built
from tpugraphs.cli.common import Args, Parser, option, whole
from tpugraphs.errors import ConfigError


def add_arguments(parser: Parser) -> None:
    """Declare the options."""
    meaning = "Python file and a function in it that takes nothing and returns (fn, args), a function of JAX"
    option(parser, "program FILE.py:FUNCTION", meaning, nargs="?")
    meaning = "command to measure; {name} is the value of a parameter, {tmp} a folder, {{ and }} are braces"
    option(parser, "--command LINE", meaning, dest="line_to_run")
    option(parser, "--build LINE", "command that comes first and is not measured, such as a compiler's")
    option(parser, "--space FILE", "parameters and constraints: TOML, or JSON of Kernel Tuner or T1")
    meaning = "evaluations, or a time as 90s, 5m or 2h, or 'until no gain'"
    option(parser, "--budget BUDGET", f"{meaning} (default: 100, of a program 10)")
    meaning = (
        "time: milliseconds of the command; printed: the last number it prints; else a regular expression"
    )
    option(parser, "--metric WHAT", meaning, default="time")
    option(parser, "--maximize", "larger is better")
    meaning = "calls of the command for each configuration"
    option(parser, "--repeats N", meaning, type=whole(1, 100_000), default=1)
    meaning = "of build and calls; auto: ten times what others took"
    option(parser, "--timeout SECONDS", meaning, default="auto")
    option(parser, "--journal FILE", "append every measurement; the same command then goes on from there")
    meaning = "what was measured before, elsewhere or of other problems, in any format"
    option(parser, "--records FILE ...", meaning)
    option(parser, "--problem NAME", "its name in the journal", default="")
    meaning = "its name in the journal; nobody else measures on it meanwhile"
    option(parser, "--device NAME", meaning, default="")
    meaning = "configurations asked for at once (default: 1, of workers 8)"
    option(parser, "--batch N", meaning, type=whole(1, 1 << 20))
    option(parser, "--executor WORKERS")
    meaning = "rounds in which the best and the default are measured again, 0 for none"
    option(parser, "--confirm N", meaning, type=whole(0, 1000), default=5)
    option(parser, "--out FILE", "write the result as JSON")
    option(parser, "--without OPTION ...", "of a program, leave out an option, such as fast_math, or memory")
    option(parser, "--tolerance ERROR", "of a program, largest relative error of an output", type=float)
    option(parser, "--seed")


def run(args: Args) -> None:
    """Tune, and print the answer."""
    common.check_writable(args.out)
    tuned = _command(args) if args.program is None else _program(args)
    if args.out:
        tuned.save(args.out)
    common.emit(args, tuned.to_dict(), tuned.report())
    if args.program is None and tuned.interrupted:
        raise KeyboardInterrupt(f"; the same command goes on from {args.journal}" if args.journal else "")


def _command(args: Args) -> Any:
    """Tune the parameters of a command."""
    for name, value in (("--command", args.line_to_run), ("--space", args.space)):
        if value is None:
            expected = "with a command to tune, or FILE.py:FUNCTION instead"
            raise ConfigError(f"{name}: expected {expected}, found none")
    space = tg.Space.read(args.space)
    how = common.chosen(args, "build", "metric", "repeats")
    measure: Any = tg.tuning.Command(args.line_to_run, names=space.names, **how)
    if args.device:
        measure = tg.distributed.OnDevice(measure, args.device)
    how = common.chosen(args, "batch", "journal", "seed", "problem", "device", "confirm")
    how["direction"] = "maximize" if args.maximize else "minimize"
    how["records"] = tg.records.read(args.records) if args.records else None
    timeout = _seconds(args.timeout)
    with common.executor(args) as executor:
        return tg.tune(measure, space, args.budget or "100", executor=executor, timeout=timeout, **how)


def _program(args: Args) -> Any:
    """Tune a function of JAX."""
    given = {"--command": args.line_to_run, "--space": args.space}
    given |= {"--build": args.build, "--executor": args.executor}
    if wrong := [name for name, value in given.items() if value is not None]:
        raise ConfigError(f"{wrong[0]}: expected without FILE.py:FUNCTION")
    name, (fn, arguments) = built(args.program)
    how: dict[str, Any] = {"without": args.without or (), "tolerance": args.tolerance, "seed": args.seed}
    if args.timeout != "auto":
        how["timeout"] = _seconds(args.timeout)
    how["ranker"] = tg.xla.learn(args.records) if args.records else None
    how |= {"budget": args.budget or 10, "journal": args.journal, "confirm": max(args.confirm - 1, 3)}
    return tg.xla.tune(fn, *arguments, name=name, **how)


def _seconds(text: str) -> float | str | None:
    if text in ("auto", "none"):
        return None if text == "none" else text
    try:
        return float(text)
    except ValueError:
        raise ConfigError(f"--timeout {text}: expected seconds, auto or none") from None
