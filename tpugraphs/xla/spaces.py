"""What may be chosen for a program: compile options, layouts of its values, or both."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tpugraphs.data import hlo
from tpugraphs.data.columns import Column
from tpugraphs.data.graph import Graph
from tpugraphs.data.opcodes import opcode_name
from tpugraphs.data.published import LayoutGraph
from tpugraphs.data.schema import LAYOUT
from tpugraphs.errors import ConfigError, Error
from tpugraphs.xla import options as levers
from tpugraphs.xla import relayout, work
from tpugraphs.xla.child import Child
from tpugraphs.xla.programs import Program, dump

__all__ = ["SPACES", "Candidate", "Space"]

_TRIES = 50  # draws per config that is asked for, before a space counts as exhausted


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
        """Name of its program: candidates of the same layouts share one."""
        return ";".join(f"{site}:{layout}" for site, layout in sorted(self.layouts.items()))


class Space:
    """What may be chosen for one program.

    Parameters
    ----------
    program : Program
    child : Child
        Which asks the compiler.
    options : tuple
        Levers; those that the compiler does not know are left out.
    rewrite : callable, optional
        ``rewrite(jaxpr, layouts)`` makes a function with these layouts.
    changes : float
        Mean number of layouts that a candidate changes.

    Attributes
    ----------
    options : tuple
        The levers that are left.
    graph : LayoutGraph
        The program before layout assignment.
    sites : tuple
        Values whose layout is a choice.
    nodes : (K,) int64
        Their nodes in the graph.
    work : (len(work.COLUMNS),) float32
        Work of the program as XLA optimises it by default; only where there are options.
    """

    def __init__(
        self,
        program: Program,
        child: Child,
        options: tuple[levers.Option | levers.Switches, ...] = (),
        rewrite: Callable[..., Callable[..., Any]] | None = None,
        changes: float = 1.0,
    ) -> None:
        self._program, self._rewrite, self._changes = program, rewrite, changes
        self.options = _known(options, child) if options else ()
        self.sites: tuple[relayout.Site, ...] = ()
        before, optimised = dump(program.name, child, self.module(Candidate()))
        self.graph: LayoutGraph = hlo.read(str(before), 1 << 40)
        if self.options:
            self.work = work.columns_of(str(optimised))
        nodes: list[int] = []
        if rewrite is not None:
            _, op_names = hlo.node_names(before)
            opcodes = [opcode_name(code) for code in self.graph.node_opcode]
            at: dict[int, relayout.Site] = {}  # of equal values that XLA computes once, the first
            for site in relayout.sites(program.jaxpr):
                node = relayout.node_of(site, op_names, opcodes)
                if node is not None:
                    at.setdefault(node, site)
            self.sites, nodes = tuple(at.values()), list(at)
            if not self.sites:
                raise Error(f"{program.name}: there is no value with two dimensions or more to lay out")
        self.nodes: NDArray[np.int64] = np.array(nodes, np.int64)

    @property
    def columns(self) -> tuple[Column, ...]:
        """Columns of the options."""
        return tuple(column for option in self.options for column in option.columns)

    def module(self, candidate: Candidate) -> bytes:
        """Write the program of a candidate."""
        if self._rewrite is None:
            return self._program.module()
        return self._program.module(self._rewrite(self._program.jaxpr, dict(candidate.layouts)))

    def digits(self, candidate: Candidate) -> NDArray[np.int8]:
        """Return the layouts of a candidate as digits of TpuGraphs, (K, 18): of outputs, -1 for the rest."""
        rows = np.full((len(self.sites), len(LAYOUT.digits)), -1, np.int8)
        for row, site in zip(rows, self.sites, strict=True):
            order = candidate.layouts.get(site.index, site.orders[0])
            row[: len(LAYOUT.digits) // 3] = relayout.digits(order)
        return rows

    def again(self, graph: Graph) -> list[Candidate]:
        """Return XLA's default, then the configs of a graph that was measured in this space.

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
        default = {option.name: option.default() for option in self.options}
        found = [Candidate(row=levers.encode(self.options, default))]
        digits, width = graph.config_digits, len(LAYOUT.digits) // 3
        for config in range(graph.num_configs):
            row = (
                {} if graph.config_feat is None else graph.schema.decode("config", graph.config_feat[config])
            )
            values = {option.name: option.value(row) for option in self.options}
            layouts = {}
            for place, site in enumerate(self.sites):
                order = relayout.order_of(digits[config, place, :width].tolist())
                if order is not None and order != site.orders[0]:
                    layouts[site.index] = order
            given = {name: value for name, value in values.items() if value != default[name]}
            found.append(Candidate(given, row, layouts))
        return found

    def draw(self, count: int, rng: np.random.Generator) -> list[Candidate]:
        """Draw different candidates, at most `count`; the first is XLA's default.

        Options are drawn apart from layouts, so that they are the same for every program.
        """
        of_options, of_layouts = rng.spawn(2)
        default = {option.name: option.default() for option in self.options}
        found: dict[Any, Candidate] = {}
        for attempt in range(count * _TRIES):
            values = {o.name: o.draw(of_options) for o in self.options} if attempt else default
            layouts = relayout.draw(self.sites, of_layouts, self._changes) if attempt and self.sites else {}
            given = {name: value for name, value in values.items() if value != default[name]}
            candidate = Candidate(given, levers.encode(self.options, values), layouts)
            found.setdefault((tuple(given.items()), candidate.key), candidate)
            if len(found) == count:
                break
        return list(found.values())


def _known(options: tuple[levers.Option | levers.Switches, ...], child: Child) -> tuple[Any, ...]:
    """Keep the levers that this version of XLA knows."""
    answer = child.ask("probe", options={option.name: list(option.candidates) for option in options})
    platform = child.device["platform"]
    if platform != "cpu":
        raise ConfigError(f'space: the options are for CPUs, found platform {platform!r}; use "transpose"')
    kept = [option.known(answer["known"].get(option.name, [])) for option in options]
    if not any(kept):
        raise ConfigError("this version of XLA knows none of the options; use another space")
    return tuple(option for option in kept if option is not None)


# Every constraint makes another program; many transpositions are the same to the compiler.
_TRANSPOSED: dict[str, Any] = {"rewrite": relayout.transposed, "changes": 4.0}
#: Name of a space of configurations -> what makes it of a program.
SPACES: dict[str, Callable[[Program, Child], Space]] = {
    "options": partial(Space, options=levers.CPU),
    "transpose": partial(Space, **_TRANSPOSED),
    "constraint": partial(Space, rewrite=relayout.constrained, changes=2.5),
    "combined": partial(Space, options=levers.CPU, **_TRANSPOSED),
}
