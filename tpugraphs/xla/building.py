"""Measure the zoo: a collection of graphs on the machine at hand, with a data sheet."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Unpack

import jax
import numpy as np

from tpugraphs import metrics
from tpugraphs.data.collections import graph_files, load
from tpugraphs.data.graph import Graph
from tpugraphs.distributed.farm import check_executor, farmed
from tpugraphs.errors import ConfigError, DataError, Error
from tpugraphs.names import SPACES, SPLITS
from tpugraphs.system import absolute, check_choice, counted, tables, write_whole
from tpugraphs.xla.collecting import CollectOptions, collect
from tpugraphs.xla.process import Child
from tpugraphs.xla.zoo import Program, programs

SHEET = "README.md"
_START = 60.0  # seconds until a worker has described its machine
_SETTINGS = ("space", "rounds", "passes", "least", "seed", "tolerance", "tpugraphs", "date")  # in `about`


def build(
    root: str | os.PathLike[str],
    space: str = "options",
    only: Iterable[str] = (),
    sizes: int | None = None,
    report: Callable[[Program, Graph | Error], None] | None = None,
    **how: Unpack[CollectOptions],
) -> Path:
    """Measure the programs of the zoo, one file each, in ``root/SPACE/xla/PLATFORM/SPLIT``.

    Repeat an interrupted call to resume it: no program is measured twice. A program that cannot be measured
    is reported and left out. The data sheet ``README.md`` describes all graphs of the collection.

    Parameters
    ----------
    root : path
        Folder for :func:`tpugraphs.open_collection`.
    space : str
        As for :func:`tpugraphs.xla.collect`. With ``"constraint"`` the collection is called ``layout``.
    only : iterable of str
        Families to measure; by default all.
    sizes : int, optional
        How many sizes of each family to measure; by default all.
    report : callable, optional
        Called with each program and its graph, or with the error.
    **how
        Passed to :func:`tpugraphs.xla.collect`: `n_configs`, `rounds`, `seed` and so on. An `executor`
        measures several programs at once; its workers must see `root` and be machines of one kind.

    Returns
    -------
    Path
        The folder of the collection.

    Raises
    ------
    ConfigError
        Unknown space or family, a parameter out of range, or workers on machines of several kinds.
    Error
        A worker has ended.
    DataError
        No program could be measured.
    KeyboardInterrupt
        Ctrl-C. Finished programs and rounds are kept.
    """
    row = SPACES[check_choice("space", space, SPACES)]
    folder = Path(absolute(root), row.collection or space, "xla", jax.default_backend())
    chosen = [program for family in only for program in programs(family=family)] or list(programs())
    chosen = [program for program in chosen if sizes is None or program.size < sizes]
    for split in {program.split for program in chosen}:
        Path(folder, split).mkdir(parents=True, exist_ok=True)
    executor = how.pop("executor", None)
    check_executor(executor)
    if executor is not None:
        ((_, how["machine"]),) = farmed(executor, _machine, [()])
        how["verbose"] = False
    jobs = [(program, space, Path(folder, program.split, f"{program.name}.npz"), how) for program in chosen]
    for number, found in farmed(executor, _measured, jobs):
        if not isinstance(found, Error) and found.about.get("interrupted"):
            raise KeyboardInterrupt(f"{chosen[number].name} is not done; the same call continues there")
        if report is not None:
            report(chosen[number], found)
    sheet = data_sheet(folder)
    write_whole(folder / SHEET, sheet)
    return folder


def _machine() -> dict[str, Any]:
    """Describe the machine of a worker."""
    with Child([], _START) as child:
        child.start()
        return child.device


def _measured(program: Program, space: str, out: Path, how: CollectOptions) -> Graph | Error:
    """Measure a program, or return why that failed."""
    fn, args = program.build()
    try:
        return collect(fn, *args, space=space, name=program.name, out=out, **how)
    except ConfigError:
        raise
    except Error as error:
        return error


def data_sheet(folder: str | os.PathLike[str]) -> str:
    """Describe a measured collection in Markdown: where and how it was measured, and a line per graph.

    Parameters
    ----------
    folder : path
        Folder of a collection, with graphs in ``train``, ``valid`` and ``test``.

    Returns
    -------
    str
        Markdown. `default/best` is that of :func:`tpugraphs.metrics.gain_of_best`.

    Raises
    ------
    DataError
        There are no graphs, or one of them was not measured by :func:`tpugraphs.xla.collect`.
    """
    place = Path(absolute(folder))
    name = ":".join(place.parts[-3:])
    splits = {split: [load(path) for path in graph_files(place / split)] for split in SPLITS}
    graphs = [graph for split in splits.values() for graph in split]
    if not graphs:
        raise DataError("no graphs in its splits; measure some first", file=str(place), field="graphs")
    for graph in graphs:
        if not {"machine", "space", "failed"} <= set(graph.about):
            text = "not measured by tpugraphs.xla.collect: `about` lacks machine, space or failed"
            raise DataError(f"{graph.name}: {text}", file=graph.path, field="about")
    parts = [f"# {name}", *_settings(graphs)]
    for split, some in splits.items():
        if some:
            title, heads, cells = tables.section(f"{split}: ", [_line(graph) for graph in some])
            parts.append(tables.markdown(title, heads, cells))
    return "\n\n".join(parts) + "\n"


def _settings(graphs: Sequence[Graph]) -> list[str]:
    """Describe where and how graphs were measured, with all values of settings that differ between them."""
    values: dict[str, set[str]] = {}
    failed: Counter[str] = Counter()
    for graph in graphs:
        for key, value in {**graph.about["machine"], **{k: graph.about.get(k) for k in _SETTINGS}}.items():
            values.setdefault(key, set()).add(str(value))
        failed.update(graph.about["failed"])
    plain = tables.plain_markdown
    rows = [f"| {plain(key)} | {plain(', '.join(sorted(found)))} |" for key, found in values.items()]
    configs = sum(graph.num_configs for graph in graphs)
    losses = "".join(f"; {kind}: {count:,}" for kind, count in sorted(failed.items()))
    ceilings = [graph.about["noise_ceiling"] for graph in graphs]
    low, middle, high = np.quantile(ceilings, [0, 0.5, 1])
    return [
        f"{counted(len(graphs), 'graph')}, {counted(configs, 'config')}{losses}. "
        f"The noise ceiling, Kendall's tau between the even and the odd rounds, is {middle:.2f} in the "
        f"median ({low:.2f} to {high:.2f}).",
        "\n".join(["| measured with | |", "| --- | --- |", *rows]),
    ]


def _line(graph: Graph) -> list[tuple[str, str]]:
    """Return the heads and cells of a graph's row in the data sheet."""
    times = graph.runtime[graph.ran]
    return [
        ("graph", graph.name),
        ("nodes", f"{graph.num_nodes}"),
        ("configs", f"{graph.num_configs}"),
        ("failed", f"{graph.num_configs - len(times)}"),
        ("programs", f"{graph.about['distinct_programs']}"),
        ("default, ms", f"{graph.runtime[0] / 1e6:.3f}"),
        ("default/best", f"{metrics.gain_of_best(np.asarray(graph.repeats)):.2f}"),
        ("worst/best", f"{times.max() / times.min():.2f}"),
        ("noise ceiling", f"{graph.about['noise_ceiling']:.2f}"),
    ]
