"""The work of a program as XLA optimises it by default, counted by kind and place of its kernels.

Which options matter depends on the work they can change, which a graph before optimisation does not show. So
the work of the optimised program is counted (``csrc/hlo/work.h``). The columns are features of the graph.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tpugraphs import _core
from tpugraphs.data.collections import DEFAULT_MAX_BYTES
from tpugraphs.data.columns import Column

__all__ = ["COLUMNS", "columns_of"]

COLUMNS = tuple(Column(name, "log") for name in _core.hlo_work_columns())


def columns_of(module: str | bytes) -> NDArray[np.float32]:
    """Count the work of an optimised program.

    Parameters
    ----------
    module : path or bytes
        Serialised ``xla.HloModuleProto`` after all passes.

    Returns
    -------
    (len(COLUMNS),) float32
        Finite. All branches of a conditional count.

    Raises
    ------
    DataError
        The bytes are not a module.
    """
    return _core.hlo_work(module, DEFAULT_MAX_BYTES)[1][0]
