"""Summaries of records, by problem and device."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable
from typing import Any

from tpugraphs.data.schema import DIRECTIONS
from tpugraphs.records.record import Record
from tpugraphs.system.arguments import check_choice


def summarize(records: Iterable[Record], direction: str = "minimize") -> list[dict[str, Any]]:
    """Count records by problem and device, and find the best config of each.

    Parameters
    ----------
    records : iterable of Record
        Of any problems and devices.
    direction : {"minimize", "maximize"}
        Whether smaller or larger runtimes are better.

    Returns
    -------
    list of dict
        ``problem, device, records``; ``configs``, how many different ones; ``statuses``, records by status;
        ``runtime`` and ``config`` of the best, None if all failed; ``spread``, the median over configs of the
        standard deviation of repeats ÷ their mean, None without repeats.

    Raises
    ------
    ConfigError
        Unknown direction.
    """
    check_choice("direction", direction, DIRECTIONS)
    groups: dict[tuple[str, str], list[Record]] = {}
    for record in records:
        groups.setdefault((record.problem, record.device), []).append(record)
    best_of = min if direction == "minimize" else max
    result = []
    for (problem, device), mine in groups.items():
        repeats: dict[str, list[float]] = {}
        for one in mine:
            key = repr(sorted(one.config.items(), key=lambda item: item[0]))
            repeats.setdefault(key, []).extend(one.runtimes if one.status == "correct" else ())
        measured = [times for times in repeats.values() if len(times) > 1 and statistics.fmean(times)]
        spreads = [statistics.stdev(times) / abs(statistics.fmean(times)) for times in measured]
        correct = [one for one in mine if one.status == "correct"]
        best = best_of(correct, key=lambda one: one.runtime, default=None)
        result.append({
            "problem": problem, "device": device, "records": len(mine), "configs": len(repeats),
            "statuses": dict(Counter(one.status for one in mine)),
            "runtime": best and best.runtime, "config": best and best.config,
            "spread": statistics.median(spreads) if spreads else None,
        })  # fmt: skip
    return result
