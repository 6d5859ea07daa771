"""What a tuning found: the answer, how much is gained, and what was measured."""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from statistics import NormalDist, fmean, stdev
from typing import Any

from tpugraphs.records import Record
from tpugraphs.system import counted, json_text, tables, write_whole

COVERAGE = 0.95  # of the intervals, all of a confirmation together
_DRIFT = 0.05  # of the reference that is worth a word


@dataclass(frozen=True)
class Finalist:
    """One configuration of a confirmation.

    Attributes
    ----------
    config : dict
        The configuration.
    runtime : float
        Median over the rounds of the confirmation.
    gain : float
        How many times better than the default it is, or than the best before, if that failed; from pairs of
        one round.
    interval : (float, float)
        Confidence interval of the gain, at 95 % jointly over all finalists.
    """

    config: dict[str, Any]
    runtime: float
    gain: float
    interval: tuple[float, float]


@dataclass(frozen=True, eq=False, repr=False)
class Tuned:
    """What `tpugraphs.tune` found.

    Attributes
    ----------
    config : dict or None
        The answer: the best finalist, or the default if none is better beyond the noise.
    runtime : float
        Of the answer: median over the confirmation, or as measured without one.
    default : dict or None
        The configuration that was measured first.
    gain : float
        How many times better than the default the answer is; 1 if it is the default, nan if that failed or
        there is none.
    interval : (float, float) or None
        Confidence interval of the gain; None without a confirmation.
    finalists : list of Finalist
        Those of the confirmation, best first.
    records : list of Record
        Everything that was measured, in the order in which it was asked.
    evaluations : int
        Measurements of the search, failed ones included.
    failures : dict of str to int
        How many failed, by status.
    reasons : dict of str to int
        How many failed in this call, by error message.
    drift : float or None
        Median of the later measurements of the default ÷ that of the earlier ones; None without repeats.
    seconds : float
        How long this call took.
    interrupted : bool
        Whether Ctrl-C ended it.
    direction : str
        ``"minimize"`` or ``"maximize"``.
    tuner : Tuner
        It knows everything that was measured in the search.
    """

    config: dict[str, Any] | None
    runtime: float
    default: dict[str, Any] | None
    gain: float
    interval: tuple[float, float] | None
    finalists: list[Finalist]
    records: list[Record]
    evaluations: int
    failures: dict[str, int]
    reasons: dict[str, int]
    drift: float | None
    seconds: float
    interrupted: bool
    direction: str
    tuner: Any = field(default=None)

    def __repr__(self) -> str:
        done = f"{counted(self.evaluations, 'evaluation')}, {counted(sum(self.failures.values()), 'failure')}"
        return f"Tuned({self.config}, {self.runtime:.6g}, gain {self._gain()}; {done})"

    def _gain(self) -> str:
        if math.isnan(self.gain):
            return f"unknown: {'there is no default' if self.default is None else 'the default failed'}"
        if self.config == self.default:
            return "none beyond the noise"
        return f"{self.gain:.3f}×" + (f" ({ends(self.interval)})" if self.interval else ", not confirmed")

    def report(self) -> str:
        """Return a text for people: the answer, the finalists and what went wrong."""
        ended = "interrupted after " if self.interrupted else ""
        lines = [
            f"best: {_shown(self.config)}",
            f"value: {self.runtime:.6g} ({self.direction}d), gain over the default: {self._gain()}",
            f"{ended}{counted(self.evaluations, 'evaluation')} in {self.seconds:.1f} s",
        ]
        if self.finalists:
            lines += ["", compared(self.finalists), ""]
        if self.failures:
            lines.append("failed: " + ", ".join(f"{n:,} {status}" for status, n in self.failures.items()))
            lines += [f"  {times:,} × {why}" for why, times in Counter(self.reasons).most_common(3)]
        if self.drift is not None and abs(self.drift - 1) > _DRIFT:
            lines.append(f"the default drifted: later measurements are {self.drift:.3f} of earlier ones")
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Return everything but the tuner, as plain Python values."""
        return {one.name: plain(getattr(self, one.name)) for one in fields(self) if one.name != "tuner"}

    def to_json(self) -> str:
        """Return `to_dict` as JSON text; numbers that are not finite are null."""
        return json_text(self.to_dict()) + "\n"

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the JSON text.

        Parameters
        ----------
        path : path
            Where it is written, whole or not at all.
        """
        write_whole(path, self.to_json())


def compared(several: Sequence[Finalist]) -> str:
    """Return a table of finalists for people."""
    rows = [
        {
            "config": _shown(one.config) or "default",
            "value": f"{one.runtime:.6g}",
            "gain": f"{one.gain:.3f}",
            f"{COVERAGE:.0%} interval": ends(one.interval),
        }
        for one in several
    ]
    return tables.text(*tables.section("measured again in turn", rows))


def _shown(config: Mapping[str, Any] | None) -> str:
    return "none" if config is None else ", ".join(f"{name}={value}" for name, value in config.items())


def ends(interval: Sequence[float], digits: int = 3) -> str:
    """Return the ends of an interval as text."""
    return " … ".join(f"{end:.{digits}f}" for end in interval)


def plain(value: Any) -> Any:
    """Return a value for JSON: lists for tuples, None for numbers that are not finite."""
    if isinstance(value, Finalist | Record):
        value = asdict(value)
    if isinstance(value, Mapping):
        return {name: plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def finalists(
    configs: Sequence[dict[str, Any]], rounds: Sequence[Sequence[float]], maximize: bool
) -> list[Finalist]:
    """Judge finalists by rounds in which all were measured, best first.

    Parameters
    ----------
    configs : sequence of dict
        The default is the last one.
    rounds : sequence of (configs,) sequence of float
        Runtimes of each round, nan where it failed.
    maximize : bool
        Larger is better.

    Returns
    -------
    list of Finalist
        Without those that failed in a round; empty if the default did.
    """
    columns = list(zip(*rounds, strict=True))
    if not columns or any(map(math.isnan, columns[-1])):
        return []
    found = []
    for config, column in zip(configs, columns, strict=True):
        if any(map(math.isnan, column)):
            continue
        pairs = [math.log(value / base) for value, base in zip(column, columns[-1], strict=True)]
        logs = pairs if maximize else [-one for one in pairs]
        middle, half = fmean(logs), half_width(logs, len(configs) - 1)
        interval = (math.exp(middle - half), math.exp(middle + half))
        found.append(Finalist(config, sorted(column)[len(column) // 2], math.exp(middle), interval))
    return sorted(found, key=lambda one: -one.gain)


def half_width(values: Sequence[float], several: int) -> float:
    """Return half of the t interval of a mean, so wide that `several` such intervals hold together."""
    freedom = len(values) - 1
    if freedom < 1:
        return math.inf
    share = 1 - (1 - COVERAGE) / 2 / max(several, 1)
    spread = stdev(values) / math.sqrt(len(values))
    return spread and spread * quantile_t(share, freedom)


def quantile_t(share: float, freedom: int) -> float:
    """Return a quantile of Student's t distribution, by the expansion around the normal one.

    To 1 % from 4 degrees of freedom, 5 % from 2. Source: Abramowitz and Stegun, 26.7.5.
    """
    z = NormalDist().inv_cdf(share)
    if freedom == 1:
        return math.tan(math.pi * (share - 0.5))
    terms = (
        z,
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return math.fsum(term / freedom**i for i, term in enumerate(terms))
