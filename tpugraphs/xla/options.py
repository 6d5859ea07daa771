"""The space of compile options: what XLA may do with a whole program on this device.

Which options have an effect was measured with jaxlib 0.10.2 on CPUs; which of them exist depends on the
version, so they are probed, never assumed (:meth:`tpugraphs.xla.worker.Worker.probe`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tpugraphs.data.columns import Column
from tpugraphs.data.graph import Graph
from tpugraphs.errors import ConfigError

__all__ = ["CPU", "Option", "Switches", "compiler_options", "encode"]

_LIBRARY = "LIBRARY_FUSION_TYPE_"


@dataclass(frozen=True)
class Option:
    """One option of the compiler that takes one of several values.

    Attributes
    ----------
    name : str
        XLA's name.
    values : tuple
        What it may be; the first is what XLA does by default.
    share : float
        How often another value than the default is drawn.
    """

    name: str
    values: tuple[Any, ...]
    share: float

    @property
    def columns(self) -> tuple[Column, ...]:
        """One column: a flag, or a category of texts."""
        if set(self.values) == {False, True}:
            return (Column(self.name, "flag"),)
        return (Column(self.name, "category", tuple(str(value) for value in self.values)),)

    @property
    def candidates(self) -> tuple[Any, ...]:
        """Values for a probe."""
        return self.values

    def draw(self, rng: np.random.Generator) -> Any:
        """Draw a value."""
        other = self.values[1:]
        return other[rng.integers(len(other))] if rng.random() < self.share else self.values[0]

    def default(self) -> Any:
        """Return the value by default."""
        return self.values[0]

    def known(self, values: list[Any]) -> Option | None:
        """Keep what the compiler knows; None if no choice is left."""
        kept = tuple(value for value in self.values if value in values)
        return Option(self.name, kept, self.share) if len(kept) > 1 else None

    def row(self, value: Any) -> dict[str, Any]:
        """Return the value by column."""
        return {self.name: value if isinstance(value, bool) else str(value)}

    def value(self, row: Mapping[str, Any]) -> Any:
        """Return the value of columns: the inverse of :meth:`row`; the default where there is no column."""
        given = row.get(self.name)
        return next((value for value in self.values if self.row(value)[self.name] == given), self.values[0])


@dataclass(frozen=True)
class Switches:
    """One option of the compiler that is a list of names, each of which may be in it.

    Attributes
    ----------
    name, share :
        As in :class:`Option`; here `share` is that of each name alone.
    names : tuple of str
        Names that may be in the list.
    usual : tuple of str
        Those that are in it by default.
    prefix : str
        What the compiler puts before each of them.
    """

    name: str
    names: tuple[str, ...]
    usual: tuple[str, ...]
    share: float
    prefix: str = ""

    @property
    def columns(self) -> tuple[Column, ...]:
        """A flag per name."""
        return tuple(Column(f"{self.name}:{name}", "flag") for name in self.names)

    @property
    def candidates(self) -> tuple[str, ...]:
        """Lists of one name each, for a probe."""
        return tuple(self.prefix + name for name in self.names)

    def draw(self, rng: np.random.Generator) -> str:
        """Draw a list: each name differs from the default as often as `share` says."""
        turned = rng.random(len(self.names)) < self.share
        return self._text({n for n, t in zip(self.names, turned, strict=True) if t != (n in self.usual)})

    def default(self) -> str:
        """Return the list by default."""
        return self._text(set(self.usual))

    def _text(self, names: set[str]) -> str:
        return ",".join(self.prefix + name for name in self.names if name in names)

    def known(self, values: list[str]) -> Switches | None:
        """Keep the names that the compiler knows; None if it knows none."""
        names = tuple(name for name in self.names if self.prefix + name in values)
        usual = tuple(name for name in self.usual if name in names)
        return Switches(self.name, names, usual, self.share, self.prefix) if names else None

    def row(self, value: str) -> dict[str, Any]:
        """Return the list by column."""
        given = set(value.split(","))
        return {f"{self.name}:{name}": self.prefix + name in given for name in self.names}

    def value(self, row: Mapping[str, Any]) -> str:
        """Return the list of columns: the inverse of :meth:`row`; as by default where there is no column."""
        return self._text({name for name in self.names if row.get(f"{self.name}:{name}", name in self.usual)})


# What a CPU's programs react to. XLA's own list of library fusions gives the same programs as this default.
CPU: tuple[Option | Switches, ...] = (
    Switches(
        "xla_cpu_experimental_ynn_fusion_type",
        ("DOT", "INDIVIDUAL_DOT", "ELTWISE", "REDUCE", "INDIVIDUAL_CONVOLUTION"),
        ("INDIVIDUAL_DOT", "REDUCE"),
        0.3,
        prefix=_LIBRARY,
    ),
    Switches(
        "xla_disable_hlo_passes",
        (
            *("fusion", "cpu-parallel-task-assigner", "dot-library-rewriter", "transpose-folding"),
            *("algsimp", "cse", "fusion-wrapper"),
        ),
        (),
        0.12,
    ),
    Option("xla_cpu_use_fusion_emitters", (True, False), 0.25),
    Option("xla_cpu_prefer_vector_width", (256, 128, 512), 0.4),
    Option("xla_backend_optimization_level", (3, 2, 1, 0), 0.25),
    Option("xla_cpu_enable_fast_min_max", (False, True), 0.2),
    Option("xla_cpu_enable_fast_math", (False, True), 0.2),
    Option(
        "xla_cpu_scheduler_type",
        ("CPU_SCHEDULER_TYPE_DEFAULT", "CPU_SCHEDULER_TYPE_MEMORY_OPTIMIZED"),
        0.2,
    ),
)


def encode(options: Sequence[Option | Switches], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of all options by column."""
    return {column: cell for option in options for column, cell in option.row(values[option.name]).items()}


def compiler_options(graph: Graph, config: int) -> dict[str, Any]:
    """Return the options of a measured config as JAX takes them, without those that are as by default.

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
        By names of options.

    Raises
    ------
    ConfigError
        The graph has no options of this compiler.
    """
    row = {} if graph.config_feat is None else graph.schema.decode("config", graph.config_feat[config])
    if not row or not set(row) <= {column.name for lever in CPU for column in lever.columns}:
        found = ", ".join(row) or "none"
        raise ConfigError(f"{graph.name}: expected options of XLA for CPUs, found columns {found:.200}")
    return {lever.name: lever.value(row) for lever in CPU if lever.value(row) != lever.default()}
