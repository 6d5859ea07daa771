"""Command lines as measure functions."""

from __future__ import annotations

import math
import os
import re
import shlex
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import IO, Any

from tpugraphs.errors import ConfigError
from tpugraphs.system.arguments import check_type, check_whole
from tpugraphs.tuning.measuring import Failed, Outcome

_PLACE = re.compile(r"\{\{|\}\}|(\$?)\{([A-Za-z_]\w*)\}")
_NUMBER = re.compile(r"(?<![\w.])[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?(?![\w.]*\w)")
_MOST = 1 << 20  # bytes of output that are read, from its end
_FOLDER = "tmp"


class Command:
    """A command line that measures a configuration: its time, or a number that it prints.

    Parameters
    ----------
    run : str
        A line for the shell. ``{name}`` stands for the value of a parameter, quoted; flags are 1 and 0, and
        the positions of a permutation have commas between them. ``{tmp}`` is a folder of this measurement,
        which is removed at its end. ``{{`` and ``}}`` are braces, and ``${name}`` is left to the shell.
    build : str, optional
        A line that runs before; its failure counts as one of compiling, and its time is recorded separately.
    metric : str
        ``"time"``: milliseconds of `run`. ``"printed"``: the last number that it prints. Anything else is a
        regular expression, whose first group, or else the whole, is the number.
    repeats : int
        How often `run` is called.
    names : sequence of str, optional
        Parameters; each must occur in one of the lines, and no others.

    Raises
    ------
    ConfigError
        A line without text, an expression that is none, or a name too many.

    Examples
    --------
    >>> import tpugraphs as tg
    >>> measure = tg.tuning.Command("echo {a} {b}", metric="printed")
    >>> measure({"a": "x y", "b": 2.5}).runtimes
    (2.5,)
    """

    keeps_time = True  # `timeout` ends the command and its children

    def __init__(
        self,
        run: str,
        *,
        build: str | None = None,
        metric: str = "time",
        repeats: int = 1,
        names: Sequence[str] | None = None,
    ) -> None:
        lines = {"run": run} if build is None else {"run": run, "build": build}
        for name, line in lines.items():
            if not check_type(name, line, str).strip() or "\0" in line:
                raise ConfigError(f"{name}: expected a command line, got {line!r}")
        try:
            self._pattern = re.compile(check_type("metric", metric, str))
        except re.error as error:
            expected = "expected time, printed or a regular expression"
            raise ConfigError(f"metric: {expected}, got {metric!r}: {error}") from None
        self.run, self.build, self.metric = run, build, metric
        self.repeats = check_whole("repeats", repeats, 1, 100_000)
        if names is not None:
            _check(lines.values(), names)

    def __call__(self, config: Mapping[str, Any], timeout: float | None = None) -> Outcome:
        """Build and measure a configuration.

        Parameters
        ----------
        config : mapping
            Parameters and their values.
        timeout : float, optional
            Seconds for all of it; the command and its children are killed then.

        Returns
        -------
        Outcome
            One runtime for each repeat.

        Raises
        ------
        Failed
            The command failed, took too long, or printed no number.
        """
        end = math.inf if timeout is None else time.monotonic() + timeout
        with tempfile.TemporaryDirectory(prefix="tpugraphs-", ignore_cleanup_errors=True) as folder:
            values = {**config, _FOLDER: folder}
            building = None if self.build is None else _shell(_filled(self.build, values), "compile", end)[0]
            line = _filled(self.run, values)
            runs = [_shell(line, "runtime", end) for _ in range(self.repeats)]
            return Outcome(tuple(self._number(*one) for one in runs), compile=building)

    def _number(self, took: float, text: str) -> float:
        if self.metric == "time":
            return took
        if self.metric == "printed":
            number: str | None = next(reversed(_NUMBER.findall(text)), None)
        else:
            match = self._pattern.search(text)
            number = match and match[1 if self._pattern.groups else 0]
        try:
            return float(number)  # type: ignore[arg-type]
        except (TypeError, ValueError):
            (last,) = text.strip().splitlines()[-1:] or ["nothing"]
            why = f"no number for --metric {self.metric} in its output; it ends in {last:.80}"
            raise Failed("runtime", why) from None


def _check(lines: Iterable[str], names: Sequence[str]) -> None:
    """Refuse lines that lack a parameter, or name another."""
    if _FOLDER in names:
        raise ConfigError(f"{{{_FOLDER}}} is a folder in command lines; give the parameter another name")
    places = [place for line in lines for place in _PLACE.finditer(line)]
    used = {place[2] for place in places if place[2] and not place[1]} - {_FOLDER}
    for name in sorted(used ^ set(names)):
        what = "stands in no command line" if name in names else "is no parameter of the space"
        known = f"parameters are {', '.join(names)}; write {{{{ for a brace"
        raise ConfigError(f"{{{name}}}: {what}; {known}")


def _filled(line: str, values: Mapping[str, Any]) -> str:
    """Put values into a line."""

    def value(found: re.Match[str]) -> str:
        if found[2] is None:
            return found[0][0]
        if found[1] or found[2] not in values:
            return found[0]
        one = values[found[2]]
        several = one if isinstance(one, list | tuple) else [int(one) if isinstance(one, bool) else one]
        return shlex.quote(",".join(map(str, several)))

    return _PLACE.sub(value, line)


def _shell(line: str, status: str, end: float) -> tuple[float, str]:
    """Run a line, and return its milliseconds and what it printed."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        began = time.perf_counter()
        process = subprocess.Popen(
            line, shell=True, stdin=subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=True
        )
        try:
            code = process.wait(None if end == math.inf else max(end - time.monotonic(), 0))
            took = 1e3 * (time.perf_counter() - began)
        except subprocess.TimeoutExpired:
            raise Failed("timeout", f"took too long: {line}") from None
        finally:
            if process.returncode is None:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        if code:
            how = f"signal {-code}" if code < 0 else f"exit code {code}"
            lines = _end(err).strip().splitlines() or _end(out).strip().splitlines()
            raise Failed(status, f"{how}: {lines[-1] if lines else line}")
        return took, _end(out)


def _end(file: IO[bytes]) -> str:
    file.seek(max(file.seek(0, os.SEEK_END) - _MOST, 0))
    return file.read().decode("utf-8", "replace")
