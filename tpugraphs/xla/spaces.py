"""The choices for a program: compile options, layouts of its values, or both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tpugraphs.data import hlo
from tpugraphs.data.columns import Column
from tpugraphs.data.graph import Graph
from tpugraphs.data.published import LayoutGraph
from tpugraphs.data.schema import LAYOUT, opcode_name
from tpugraphs.errors import ConfigError, Error
from tpugraphs.names import SpaceRow
from tpugraphs.xla import relayout, work
from tpugraphs.xla.child import Child
from tpugraphs.xla.options import CPU, Option, changed
from tpugraphs.xla.programs import Program, dump

__all__ = ["Candidate", "Space"]

_TRIES = 50  # draws per requested config before a space counts as exhausted


@dataclass(frozen=True)
class Candidate:
    """One configuration of a program.

    Attributes
    ----------
    options : dict
        Compile options that differ from the default.
    row : dict
        The values of all options by column.
    layouts : dict of int to tuple
        Site -> layout (major to minor), where it is not the default.
    """

    options: Mapping[str, Any] = field(default_factory=dict)
    row: Mapping[str, Any] = field(default_factory=dict)
    layouts: Mapping[int, tuple[int, ...]] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """Name of its program; candidates with the same layouts share it."""
        return ";".join(f"{site}:{layout}" for site, layout in sorted(self.layouts.items()))


class Space:
    """The choices for one program.

    Parameters
    ----------
    program : Program
    child : Child
        Queries the compiler: options that it does not know are left out.
    row : SpaceRow
        What to vary.

    Attributes
    ----------
    options : tuple
        Compile options to vary.
    graph : LayoutGraph
        The program before layout assignment.
    sites : tuple
        Values whose layout is a choice.
    nodes : (K,) int64
        Their nodes in the graph.
    work : (len(work.COLUMNS),) float32
        Work of the program as XLA optimises it by default; only with options.
    """

    def __init__(self, program: Program, child: Child, row: SpaceRow) -> None:
        self._program, self._row = program, row
        self.options = _known(CPU, child) if row.options else ()
        before, optimised = dump(program.name, child, partial(self.module, Candidate()))
        self.graph: LayoutGraph = hlo.read(str(before), 1 << 40)
        if self.options:
            self.work = work.columns_of(str(optimised))
        at: dict[int, relayout.Site] = {}  # the first of equal values, which XLA computes once
        if row.layouts:
            _, op_names = hlo.node_names(before)
            opcodes = [opcode_name(code) for code in self.graph.node_opcode]
            for site in relayout.sites(program.jaxpr):
                node = relayout.node_of(site, op_names, opcodes)
                if node is not None:
                    at.setdefault(node, site)
            if not at:
                raise Error(f"{program.name}: there is no value with two dimensions or more to lay out")
        self.sites: tuple[relayout.Site, ...] = tuple(at.values())
        self.nodes: NDArray[np.int64] = np.array(list(at), np.int64)

    @property
    def columns(self) -> tuple[Column, ...]:
        """Columns of the options."""
        return tuple(option.column for option in self.options)

    def module(self, candidate: Candidate) -> bytes:
        """Write the program of a candidate."""
        if not self._row.layouts:
            return self._program.module()
        carry_out = getattr(relayout, self._row.layouts)
        return self._program.module(carry_out(self._program.jaxpr, dict(candidate.layouts)))

    def digits(self, candidate: Candidate) -> NDArray[np.int8]:
        """Return the layouts of a candidate as TpuGraphs digits (K, 18): set for outputs, -1 for the rest."""
        rows = np.full((len(self.sites), len(LAYOUT.digits)), -1, np.int8)
        for row, site in zip(rows, self.sites, strict=True):
            order = candidate.layouts.get(site.index, site.orders[0])
            row[: len(LAYOUT.digits) // 3] = relayout.digits(order)
        return rows

    def again(self, graph: Graph) -> list[Candidate]:
        """Return XLA's default, followed by the configs of a graph that was measured in this space.

        Raises
        ------
        ConfigError
            The graph is of another program, another space or another version of XLA.
        """
        columns = tuple(column.name for column in self.columns)
        same = columns == tuple(column.name for column in graph.schema.config)
        if not same or not np.array_equal(self.nodes, graph.node_config_ids):
            name = self._program.name
            raise ConfigError(
                f"configs: expected those of {name} in this space and version of XLA, found a graph with "
                "other columns or configurable nodes; measure it here first"
            )
        found = [self._candidate([option.values[0] for option in self.options], {})]
        digits, width = graph.config_digits, len(LAYOUT.digits) // 3
        for config in range(graph.num_configs):
            row = (
                {} if graph.config_feat is None else graph.schema.decode("config", graph.config_feat[config])
            )
            layouts = {}
            for place, site in enumerate(self.sites):
                order = relayout.order_of(digits[config, place, :width].tolist())
                if order is not None and order != site.orders[0]:
                    layouts[site.index] = order
            found.append(self._candidate([option.value(row) for option in self.options], layouts))
        return found

    def _candidate(self, values: Sequence[Any], layouts: Mapping[int, tuple[int, ...]]) -> Candidate:
        """Make a candidate from a value for every option, and layouts."""
        row = {o.name: o.cell(value) for o, value in zip(self.options, values, strict=True)}
        return Candidate(changed(self.options, values), row, layouts)

    def draw(self, count: int, rng: np.random.Generator) -> list[Candidate]:
        """Draw different candidates, at most `count`; the first is XLA's default.

        Options are drawn independently of layouts, so they are the same for every program.
        """
        of_options, of_layouts = rng.spawn(2)
        found: dict[Any, Candidate] = {}
        for attempt in range(count * _TRIES):
            values = [o.draw(of_options) if attempt else o.values[0] for o in self.options]
            layouts = relayout.draw(self.sites, of_layouts, self._row.changes) if attempt else {}
            candidate = self._candidate(values, layouts)
            found.setdefault((tuple(candidate.options.items()), candidate.key), candidate)
            if len(found) == count:
                break
        return list(found.values())


def _known(options: tuple[Option, ...], child: Child) -> tuple[Option, ...]:
    """Keep the options that this version of XLA knows."""
    probes: dict[str, list[Any]] = {}
    for option in options:
        probes.setdefault(option.parts[0], []).extend(option.probes)
    known = child.ask("probe", options=probes)["known"]
    platform = child.device["platform"]
    if platform != "cpu":
        raise ConfigError(f'space: the options are for CPUs, found platform {platform!r}; use "transpose"')
    kept = [option.known(known.get(option.parts[0], [])) for option in options]
    if not any(kept):
        raise ConfigError("this version of XLA knows none of the options; use another space")
    return tuple(option for option in kept if option is not None)
