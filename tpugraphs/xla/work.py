"""What XLA makes of a program by default, in numbers: the work of its kernels, by kind and place.

Which option matters depends on what there is to be changed, and before optimisation a graph does not show it.
So the optimised program is counted (``csrc/hlo/work.h``). The columns are features of the graph.
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
        Finite. Of a conditional all branches are counted.

    Raises
    ------
    DataError
        The bytes are of something else.
    """
    return _core.hlo_work(module, DEFAULT_MAX_BYTES)[1][0]
