"""The choices for a program: compile options, layouts of its values, or both.

Options are choices of XLA for a whole program on this device. Their effect was measured with jaxlib 0.10.2 on
CPUs; which of them exist depends on the version, so they are probed, never assumed
(:meth:`tpugraphs.xla.process.Worker.probe`).

Which options matter depends on the work they can change, which a graph before optimisation does not show. So
the work of the program as XLA optimises it by default is counted by kind and place of its kernels
(``csrc/hlo/work.h``), as features of the graph.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tpugraphs import _core
from tpugraphs.data import Column, Graph, LayoutGraph, hlo
from tpugraphs.data.collections import DEFAULT_MAX_BYTES
from tpugraphs.data.schema import LAYOUT, Schema, opcode_name
from tpugraphs.errors import ConfigError, Error
from tpugraphs.names import SpaceRow
from tpugraphs.system import check_whole
from tpugraphs.xla import relayout
from tpugraphs.xla.process import MEMORY_COSTS, WORK_COSTS, Child, ChildError
from tpugraphs.xla.programs import Program

_TRIES = 50  # draws per requested config before a space counts as exhausted
_OPCODES = (LAYOUT.opcodes or 0) + 1  # one more than in embeddings: all that the reader knows can occur
_WIDTH = len(LAYOUT.digits) // 3  # digits of one layout: those of outputs come first
_WORK = tuple(Column(name, "log") for name in _core.hlo_work_columns())
_COST = "cost:"  # begins the names of columns that come from a compiled program
COSTS = tuple(
    Column(f"{_COST}{name}", kind)
    for name, kind in [*((name, "number") for name in (*WORK_COSTS, *MEMORY_COSTS)), ("same program", "flag")]
)


@dataclass(frozen=True)
class Option:
    """A choice for the compiler: the value of an option, or whether an option that is a list has a name.

    Attributes
    ----------
    name : str
        XLA's name; for a name in a list ``OPTION:NAME``. It is also the name of the column of configs.
    values : tuple
        Its values; the first is XLA's default.
    share : float
        Probability of drawing another value than the default.
    prefix : str
        Prefix of the name in the compiler's list.
    risk : str
        What another value than the default may do to outputs, besides another order of sums.
    """

    name: str
    values: tuple[Any, ...]
    share: float
    prefix: str = ""
    risk: str = ""

    @property
    def column(self) -> Column:
        """A flag, or a category of texts."""
        if set(self.values) == {False, True}:
            return Column(self.name, "flag")
        return Column(self.name, "category", tuple(map(str, self.values)))

    @property
    def parts(self) -> tuple[str, str]:
        """XLA's name of the option, and the name in a list as the compiler takes it, or ""."""
        option, _, name = self.name.partition(":")
        return option, name and self.prefix + name

    def draw(self, rng: np.random.Generator) -> Any:
        """Draw a value."""
        other = self.values[1:]
        return other[rng.integers(len(other))] if rng.random() < self.share else self.values[0]

    def cell(self, value: Any) -> Any:
        """Return a value in the form of the column."""
        return value if isinstance(value, bool) else str(value)

    def value(self, row: Mapping[str, Any]) -> Any:
        """Return the value of a row of columns; the default where there is no column."""
        given = row.get(self.name)
        return next((value for value in self.values if self.cell(value) == given), self.values[0])


def _names(option: str, names: str, usual: str, share: float, prefix: str = "") -> tuple[Option, ...]:
    """Return a choice for each name that may be in a list; the usual ones are in it by default."""
    usually = {name: name in usual.split() for name in names.split()}
    return tuple(Option(f"{option}:{name}", (yes, not yes), share, prefix) for name, yes in usually.items())


# Options that affect CPU programs. XLA's own list of library fusions gives the same programs as this default.
CPU: tuple[Option, ...] = (
    *_names(
        "xla_cpu_experimental_ynn_fusion_type",
        "DOT INDIVIDUAL_DOT ELTWISE REDUCE INDIVIDUAL_CONVOLUTION",
        usual="INDIVIDUAL_DOT REDUCE",
        share=0.3,
        prefix="LIBRARY_FUSION_TYPE_",
    ),
    *_names(
        "xla_disable_hlo_passes",
        "fusion cpu-parallel-task-assigner dot-library-rewriter transpose-folding algsimp cse fusion-wrapper",
        usual="",
        share=0.12,
    ),
    Option("xla_cpu_use_fusion_emitters", (True, False), 0.25),
    Option("xla_cpu_prefer_vector_width", (256, 128, 512), 0.4),
    Option("xla_backend_optimization_level", (3, 2, 1, 0), 0.25),
    Option("xla_cpu_enable_fast_min_max", (False, True), 0.2, risk="min and max may lose NaN"),
    Option(
        "xla_cpu_enable_fast_math",
        (False, True),
        0.2,
        risk="NaN and infinity are taken not to occur, and numbers are rounded in other places",
    ),
    Option(
        "xla_cpu_scheduler_type", ("CPU_SCHEDULER_TYPE_DEFAULT", "CPU_SCHEDULER_TYPE_MEMORY_OPTIMIZED"), 0.2
    ),
)


def changed(options: Sequence[Option], values: Sequence[Any]) -> dict[str, Any]:
    """Return a value for each choice in JAX's form, without options at their default."""
    default = _joined(options, [option.values[0] for option in options])
    return {name: value for name, value in _joined(options, values).items() if value != default[name]}


def _joined(options: Sequence[Option], values: Sequence[Any]) -> dict[str, Any]:
    """Return values by XLA's option names; names in a list are joined."""
    joined: dict[str, Any] = {}
    for option, value in zip(options, values, strict=True):
        xla, name = option.parts
        if name:
            given = joined.get(xla, "")
            value = ",".join(filter(None, (given, name))) if value else given
        joined[xla] = value
    return joined


def compiler_options(graph: Graph, config: int) -> dict[str, Any]:
    """Return the options of a measured config in JAX's form, without options at their default.

    Use them in ``jax.jit(fn).lower(*args).compile(compiler_options=...)``.

    Parameters
    ----------
    graph : Graph
        From :func:`tpugraphs.xla.collect` in the space ``"options"`` or ``"combined"``.
    config : int
        Row of the config.

    Returns
    -------
    dict of str to value
        Values by option name.

    Raises
    ------
    ConfigError
        The graph has no options of this compiler, or no such config; the config failed.
    """
    if check_whole("config", config, 0) >= graph.num_configs:
        raise ConfigError(f"config: expected a row of the {graph.num_configs} of {graph.name}, got {config}")
    if config not in graph.ran:
        why = graph.about.get("failures", {}).get(str(config), "it is not valid")
        todo = f"choose from {graph.name}.best(k)"
        raise ConfigError(f"config: expected one that ran, got {config}: {why}; {todo}")
    row = _row(graph, config)
    if not row or not set(row) <= {option.name for option in CPU}:
        found = ", ".join(row) or "none"
        raise ConfigError(f"{graph.name}: expected options of XLA for CPUs, found columns {found:.200}")
    return changed(CPU, [option.value(row) for option in CPU])


def risks(options: Mapping[str, Any]) -> dict[str, str]:
    """Return what options of a compiler may do to outputs, besides another order of sums.

    Parameters
    ----------
    options : mapping
        Values by option name, from :func:`compiler_options` or `TunedFunction.options`.

    Returns
    -------
    dict of str to str
        Sentences by option name; empty if there is no such risk.
    """
    return {option.name: option.risk for option in CPU if option.risk and options.get(option.name)}


def _row(graph: Graph, config: int) -> Mapping[str, Any]:
    """Return the options of a config by column; none if there are no columns."""
    features = graph.config_feat
    row = {} if features is None else graph.schema.decode("config", features[config])
    return {name: value for name, value in row.items() if not name.startswith(_COST)}


def _costs(compiled: Sequence[dict[str, Any] | None]) -> NDArray[np.float32]:
    """Return costs (C, 6) relative to the default's, which stand in where a config was not compiled."""
    default = compiled[0]
    if default is None:
        raise Error("the default cannot be compiled, so costs have nothing to be compared with")
    logs = np.log1p([(one or default)["costs"] for one in compiled])
    same = [one is not None and one["hash"] == default["hash"] for one in compiled]
    return np.column_stack([logs - logs[0], same]).astype(np.float32)


def has_costs(schema: Schema) -> bool:
    """Return whether the last columns of configs are costs."""
    return schema.config[-len(COSTS) :] == COSTS


def without_costs(graph: Graph) -> Graph:
    """Return the graph without its cost columns."""
    if not has_costs(graph.schema):
        return graph
    options = len(graph.schema.config) - len(COSTS)
    schema = replace(graph.schema, config=graph.schema.config[:options])
    return graph.replace(schema=schema, config_feat=np.asarray(graph.config_feat)[:, :options])


@dataclass(frozen=True)
class Candidate:
    """One configuration of a program.

    Attributes
    ----------
    options : dict
        Compile options that differ from the default.
    values : tuple
        The values of all options.
    layouts : dict of int to tuple
        Site -> layout (major to minor), where it is not the default.
    """

    options: Mapping[str, Any] = field(default_factory=dict)
    values: tuple[Any, ...] = ()
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
    without : sequence of str
        Options to leave out, by names or their ends.

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
    work : (len(_WORK),) float32
        Work of the program as XLA optimises it by default; only with options.
    """

    def __init__(self, program: Program, child: Child, row: SpaceRow, without: Sequence[str] = ()) -> None:
        self._program, self._row = program, row
        self._fixed = {option for name in without for option in _named(name)}
        self.options = _known(CPU, child) if row.options else ()
        before, optimised = child.dump(program.name, partial(self.module, Candidate()))
        self.graph: LayoutGraph = hlo.read_bytes(before, program.name, 1 << 40)
        if self.options:
            self.work: NDArray[np.float32] = _core.hlo_work(optimised, DEFAULT_MAX_BYTES)[1][0]
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

    def module(self, candidate: Candidate) -> bytes:
        """Write the program of a candidate."""
        if not self._row.layouts:
            return self._program.module()
        carry_out = getattr(relayout, self._row.layouts)
        return self._program.module(carry_out(self._program.jaxpr, dict(candidate.layouts)))

    def compiled(self, candidates: Sequence[Candidate], child: Child) -> Iterator[dict[str, Any] | None]:
        """Compile candidates without running them; yield the child's answers, None where it fails."""
        for candidate in candidates:
            try:
                child.add(candidate.key, partial(self.module, candidate))
                yield child.build(candidate.key, dict(candidate.options))
            except (ChildError, ConfigError):
                yield None

    def fields(
        self, candidates: Sequence[Candidate], compiled: Iterable[dict[str, Any] | None] | None = None
    ) -> dict[str, Any]:
        """Return the fields of a graph with these configs that are known before anything is measured.

        Costs become columns of the configs if `compiled` has the child's answers.
        """
        found: dict[str, Any] = {"node_feat": self.graph.node_feat, "edge_index": self.graph.edge_index}
        found |= {"node_opcode": self.graph.node_opcode, "schema": LAYOUT}
        if self.options:
            cells = zip(*(candidate.values for candidate in candidates), strict=True)
            columns = {o.name: list(map(o.cell, some)) for o, some in zip(self.options, cells, strict=True)}
            digits = LAYOUT.digits if self.sites else ()
            config = tuple(option.column for option in self.options)
            schema = Schema(LAYOUT.node, _WORK, config, digits, _OPCODES, unit="ns")
            config_feat = schema.encode("config", columns)
            if compiled is not None:
                schema = replace(schema, config=config + COSTS)
                config_feat = np.hstack([config_feat, _costs(list(compiled))])
            found |= {"schema": schema, "graph_feat": self.work, "config_feat": config_feat}
        else:
            found["node_opcode"] = np.where(self.graph.node_opcode < _OPCODES - 1, self.graph.node_opcode, 0)
        if self.sites:
            found["node_config_ids"] = self.nodes
            found["node_config_feat"] = np.stack([self._digits(candidate) for candidate in candidates])
        return found

    def _digits(self, candidate: Candidate) -> NDArray[np.int8]:
        """Return the layouts of a candidate as TpuGraphs digits (K, 18): set for outputs, -1 for the rest."""
        rows = np.full((len(self.sites), len(LAYOUT.digits)), -1, np.int8)
        for row, site in zip(rows, self.sites, strict=True):
            row[:_WIDTH] = relayout.digits(candidate.layouts.get(site.index, site.orders[0]))
        return rows

    def again(self, graph: Graph) -> list[Candidate]:
        """Return XLA's default, followed by the configs of a graph that was measured in this space.

        Raises
        ------
        ConfigError
            The graph is of another program, another space or another version of XLA.
        """
        graph = without_costs(graph)
        same = [option.name for option in self.options] == [column.name for column in graph.schema.config]
        if not same or not np.array_equal(self.nodes, graph.node_config_ids):
            expected = f"expected those of {self._program.name} in this space and version of XLA"
            other = "a graph with other columns or configurable nodes; measure it here first"
            raise ConfigError(f"configs: {expected}, found {other}")
        found = [self._candidate([option.values[0] for option in self.options], {})]
        digits = graph.config_digits
        for config in range(graph.num_configs):
            row = _row(graph, config)
            layouts: dict[int, tuple[int, ...]] = {}
            for place, site in enumerate(self.sites):
                order = relayout.order_of(digits[config, place, :_WIDTH].tolist())
                if order is not None and order != site.orders[0]:
                    layouts[site.index] = order
            found.append(self._candidate([option.value(row) for option in self.options], layouts))
        return found

    def _candidate(self, values: Sequence[Any], layouts: Mapping[int, tuple[int, ...]]) -> Candidate:
        """Make a candidate from a value for every option, and layouts."""
        return Candidate(changed(self.options, values), tuple(values), layouts)

    def draw(self, count: int, rng: np.random.Generator) -> list[Candidate]:
        """Draw different candidates, at most `count`; the first is XLA's default.

        Options are drawn independently of layouts, so they are the same for every program.
        """
        of_options, of_layouts = rng.spawn(2)
        found: dict[Any, Candidate] = {}
        for attempt in range(count * _TRIES):
            values = [o.draw(of_options) if attempt else o.values[0] for o in self.options]
            pairs = zip(self.options, values, strict=True)
            if self._fixed & {option.name for option, value in pairs if value != option.values[0]}:
                continue  # so the others are the same sets as without it
            layouts = relayout.draw(self.sites, of_layouts, self._row.changes) if attempt else {}
            candidate = self._candidate(values, layouts)
            found.setdefault((tuple(candidate.options.items()), candidate.key), candidate)
            if len(found) == count:
                break
        return list(found.values())


def _named(name: str) -> list[str]:
    """Return the options whose names end in a text, from a word on."""
    found = [option.name for option in CPU if re.search(rf"(?:^|[_:]){re.escape(str(name))}$", option.name)]
    if not found:
        raise ConfigError(f"without: expected ends of {', '.join(o.name for o in CPU)}, found {name!r:.80}")
    return found


def _known(options: Sequence[Option], child: Child) -> tuple[Option, ...]:
    """Keep the options, and their values, that this version of XLA knows."""
    probes: dict[str, list[Any]] = {}
    for option in options:
        xla, name = option.parts
        probes.setdefault(xla, []).extend([name] if name else option.values)
    known = child.ask("probe", options=probes)["known"]
    if (platform := child.device["platform"]) != "cpu":
        raise ConfigError(f'space: the options are for CPUs, found platform {platform!r}; use "transpose"')
    kept = []
    for option in options:
        xla, name = option.parts
        values = tuple(value for value in option.values if (name or value) in known.get(xla, ()))
        if len(values) > 1:
            kept.append(replace(option, values=values))
    if not kept:
        raise ConfigError("this version of XLA knows none of the options; use another space")
    return tuple(kept)
