"""Results as Markdown: the machine, the commands, and one table per section."""

from __future__ import annotations

from typing import Any

from . import sections
from .record import Record, Results

BUSY = 0.1  # share of the processors' time above which other work disturbs
HEAD = "| case | ours | peer | unit | ratio | required | reached | of the roof | beside | notes |"
RULE = "| --- | ---: | ---: | --- | ---: | ---: | --- | ---: | --- | --- |"


def number(value: float | None) -> str:
    """Three digits that count, or all before the point; a dash for nothing."""
    if value is None:
        return "–"
    if value and abs(value) < 0.01:
        return f"{value:.2g}"
    digits = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2 if abs(value) >= 1 else 3
    return f"{value:,.{digits}f}"


def row(record: Record) -> str:
    """One line of a table."""
    tau = record.unit == "tau"
    ours, peer = (f"{v:.4f}" if tau and v is not None else number(v) for v in (record.ours, record.peer))
    reached = {True: "yes", False: "**no**", None: ""}[record.reached]
    cells = (
        record.case, ours, peer, record.unit, "" if tau else number(record.ratio),
        "" if record.required is None else f"≥ {record.required:g}", reached,
        "" if record.fraction is None else f"{100 * record.fraction:.0f} %", record.peer_name, record.notes,
    )  # fmt: skip
    return "| " + " | ".join(cells) + " |"


def _share(busy: float | None) -> str:
    return "not measured" if busy is None else f"{busy:.1%} of the processors"


def machine(run: dict[str, Any]) -> list[str]:
    """Lines about one run."""
    found = run["machine"]
    lines = [
        f"- `{run['command']}`, {found['date']}, {run['seconds'] / 60:.0f} min: {', '.join(run['sections'])}",
        f"  - {found['cpu']}, {found['cores']} cores ({run['threads']} threads used), {found['caches']}, "
        f"{found['memory_gib']} GiB; {found['system']}; kernels for {found['isa']}",
        f"  - Python {found['python']}, " + ", ".join(f"{k} {v}" for k, v in found["packages"].items())
        + (f", commit {found['commit']}" if found["commit"] else ""),
        f"  - other work at the start: {_share(found['busy'])}",
    ]  # fmt: skip
    if run["peaks"]:
        rates = [
            f"{name} " + ", ".join(f"{rate / 1e9:.0f} ({count})" for count, rate in by_threads.items())
            for name, by_threads in run["peaks"].items()
        ]
        lines.append(f"  - measured peak in GFLOP/s or GOP/s (threads): {'; '.join(rates)}")
    if run.get("failed"):
        lines.append(f"  - failed: {'; '.join(run['failed'])}")
    return lines


NOTES = """\
`ours` and `peer` are medians of interleaved runs in one process, after a warm-up; `ratio` is the median
over the rounds of peer / ours in the same round, so more is better, and `required` is the goal
that was set before. *Of the roof* is the time that the operations no implementation can avoid would take
at the machine's measured peak (`benchmarks/roof.py` says which are counted, `benchmarks/peak.c` measures
the peak), as a share of our time. PyTorch runs with glibc settings that make its allocator keep memory
and use huge pages (`benchmarks/process.py`), which makes it up to three times faster than out of the box, and
libgomp's own spin count (GOMP_SPINCOUNT=300000), which importing tpugraphs would lower; ours shares these
settings where both run in one process. Where ours runs alone, and for its memory, it has the settings a
user has.
"""


def markdown(results: Results, name: str, figures: list[str]) -> str:
    """The whole report. `figures`: files beside it."""
    quick = any(run["quick"] for run in results.runs)
    lines = ["# Performance", ""]
    if quick:
        lines += ["**A smoke run with tiny sizes: the figures mean nothing.**", ""]
    for run in results.runs:
        if not quick and (run["machine"]["busy"] or 0.0) > BUSY:
            lines += [
                f"**The machine was not idle when `{run['command']}` began: its ratios are not reliable.**",
                "",
            ]
    lines += ["Made by `python -m benchmarks`; figures are not edited.", "", "## Runs", ""]
    for run in results.runs:
        lines += machine(run)
    lines += ["", NOTES]
    judged = [record for record in results.records if record.reached is not None]
    if not quick and judged:
        lines += [f"{sum(bool(r.reached) for r in judged)} of {len(judged)} requirements are reached.", ""]
    lines += [line for figure in figures for line in (f"![{figure}]({figure})", "")]
    for section in sections.NAMES:
        records = results.of(section)
        if records:
            module = sections.get(section)
            lines += [f"## {module.TITLE} (`--only {section}`)", "", module.ABOUT, "", HEAD, RULE]
            lines += [*map(row, records), ""]
    return "\n".join(lines).rstrip() + "\n"
