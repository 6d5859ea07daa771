"""Graphs of your JAX programs, and measurements of their configurations on this machine (extra ``[jax]``).

>>> graph = tg.xla.graph(fn, *args)  # doctest: +SKIP
>>> measured = tg.xla.collect(fn, *args, space="options", n_configs=128)  # doctest: +SKIP
>>> unmeasured = tg.xla.candidates(fn, *args, space="options", n_configs=128)  # doctest: +SKIP
"""

try:
    import jax as _jax  # noqa: F401
except ImportError as error:
    raise ImportError("tpugraphs.xla needs JAX: pip install 'tpugraphs[jax]'", name=error.name) from None

from tpugraphs.names import SPACES
from tpugraphs.xla import zoo
from tpugraphs.xla.building import build, data_sheet
from tpugraphs.xla.collecting import candidates, collect
from tpugraphs.xla.options import compiler_options
from tpugraphs.xla.programs import graph, kernels

__all__ = [
    "SPACES",
    "build",
    "candidates",
    "collect",
    "compiler_options",
    "data_sheet",
    "graph",
    "kernels",
    "zoo",
]
