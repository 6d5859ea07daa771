"""Graphs of your JAX programs, and measurements of their configurations on this machine (extra ``[jax]``).

>>> import jax.numpy as jnp
>>> import tpugraphs as tg
>>> tg.xla.graph(lambda x, y: jnp.tanh(x @ y), jnp.ones((8, 4)), jnp.ones((4, 2)), name="product")
LayoutGraph('product', nodes=4, edges=3, configs=0, config_nodes=0)

`tune` makes such a function fast on this machine and proves it: ``fn = tg.xla.tune(fn, *args)``. `collect`
measures configurations of it, and `candidates` draws them without measuring:
``tg.xla.collect(fn, *args, space="options", n_configs=128)``.
"""

try:
    import jax as _jax  # noqa: F401
except ImportError as error:
    raise ImportError("tpugraphs.xla needs JAX: pip install 'tpugraphs[jax]'", name=error.name) from None

from tpugraphs.names import SPACES
from tpugraphs.system.machine import keep_memory
from tpugraphs.xla import zoo
from tpugraphs.xla.building import build, data_sheet
from tpugraphs.xla.collecting import candidates, collect
from tpugraphs.xla.programs import graph, kernels
from tpugraphs.xla.spaces import compiler_options, risks
from tpugraphs.xla.stages import Stages, learn
from tpugraphs.xla.tuned import Memory, TunedFunction, apply
from tpugraphs.xla.tuning import tune

__all__ = [
    "SPACES", "Memory", "Stages", "TunedFunction", "apply", "build", "candidates", "collect",
    "compiler_options", "data_sheet", "graph", "keep_memory", "kernels", "learn", "risks", "tune", "zoo",
]  # fmt: skip
