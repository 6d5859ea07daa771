"""Compile options to vary: choices of XLA for a whole program on this device.

The effect of options was measured with jaxlib 0.10.2 on CPUs; which options exist depends on the version, so
they are probed, never assumed (:meth:`tpugraphs.xla.worker.Worker.probe`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tpugraphs.data.columns import Column
from tpugraphs.data.graph import Graph
from tpugraphs.errors import ConfigError

__all__ = ["CPU", "Option", "changed", "compiler_options"]

_LIBRARY = "LIBRARY_FUSION_TYPE_"


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
    """

    name: str
    values: tuple[Any, ...]
    share: float
    prefix: str = ""

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

    @property
    def probes(self) -> list[Any]:
        """Values to test with the compiler."""
        _, name = self.parts
        return [name] if name else list(self.values)

    def known(self, values: list[Any]) -> Option | None:
        """Keep the values that the compiler knows; None if no choice is left."""
        _, name = self.parts
        kept = tuple(value for value in self.values if (name or value) in values)
        return replace(self, values=kept) if len(kept) > 1 else None

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


def _names(
    option: str, names: tuple[str, ...], usual: tuple[str, ...], share: float, prefix: str = ""
) -> tuple[Option, ...]:
    """Return a choice for each name that may be in a list; the usual ones are in it by default."""
    return tuple(Option(f"{option}:{n}", (n in usual, n not in usual), share, prefix) for n in names)


# Options that affect CPU programs. XLA's own list of library fusions gives the same programs as this default.
CPU: tuple[Option, ...] = (
    *_names(
        "xla_cpu_experimental_ynn_fusion_type",
        ("DOT", "INDIVIDUAL_DOT", "ELTWISE", "REDUCE", "INDIVIDUAL_CONVOLUTION"),
        ("INDIVIDUAL_DOT", "REDUCE"),
        0.3,
        prefix=_LIBRARY,
    ),
    *_names(
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


def changed(options: Sequence[Option], values: Sequence[Any]) -> dict[str, Any]:
    """Return a value for each choice in JAX's form, without options at their default."""
    default = _joined(options, [option.values[0] for option in options])
    return {name: value for name, value in _joined(options, values).items() if value != default[name]}


def _joined(options: Sequence[Option], values: Sequence[Any]) -> dict[str, Any]:
    """Return values by XLA's option names; names in a list are joined."""
    joined: dict[str, Any] = {}
    for option, value in zip(options, values, strict=True):
        xla, name = option.parts
        if not name:
            joined[xla] = value
        else:
            given = joined.get(xla, "")
            joined[xla] = ",".join(filter(None, (given, name))) if value else given
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
        The graph has no options of this compiler.
    """
    row = {} if graph.config_feat is None else graph.schema.decode("config", graph.config_feat[config])
    if not row or not set(row) <= {option.name for option in CPU}:
        found = ", ".join(row) or "none"
        raise ConfigError(f"{graph.name}: expected options of XLA for CPUs, found columns {found:.200}")
    return changed(CPU, [option.value(row) for option in CPU])
