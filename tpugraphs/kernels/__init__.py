"""The C kernels over NumPy arrays, for numeric checks and for custom models.

Arrays must be C-contiguous and have exactly the documented dtype: nothing is cast or copied silently.
"""

from tpugraphs.kernels import graph, losses, ops, optimizer
from tpugraphs.kernels.faces import faces
from tpugraphs.kernels.graph import *  # noqa: F403
from tpugraphs.kernels.losses import *  # noqa: F403
from tpugraphs.kernels.ops import *  # noqa: F403
from tpugraphs.kernels.optimizer import *  # noqa: F403
from tpugraphs.kernels.scaler import StandardScaler
from tpugraphs.kernels.schedules import warmup_cosine

__all__ = ["StandardScaler", "warmup_cosine"]
__all__ += [name for module in (graph, losses, ops, optimizer) for name in module.__all__]
_FACES = faces(ops.NAMED)  # type checkers read their types in __init__.pyi, which docs/stubs.py makes
globals().update(_FACES)
__all__ += _FACES
