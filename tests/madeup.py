"""Made-up graphs of the published schema by name, in memory and as files: ``program``, ``long``, ``kernel_00`` to 14."""

import tempfile
from functools import cache
from pathlib import Path

import numpy as np

from tpugraphs.data import made

KERNEL_CONFIGS = (61, 579, 16, 16, 16, 23, 10, 11, 5, 3, 3, 2, 3, 2, 2)
KERNELS = tuple(f"kernel_{i:02}" for i in range(len(KERNEL_CONFIGS)))
CONSTANT = KERNELS[12:]  # of one config each, several times
NAMES = ("program", "long", *KERNELS)
_FOLDER = tempfile.TemporaryDirectory(prefix="madeup-")


@cache
def graph(name):
    """The graph of this name; read-only, so that tests can share it."""
    if name == "program":
        return made.program(1, 400, 62, 112, name=name)
    if name == "long":
        return made.program(2, 372, 26, 6000, name=name)
    number = KERNELS.index(name)
    kernel = made.kernel(number, 8 + 2 * number, KERNEL_CONFIGS[number], name=name)
    return kernel.select(np.zeros(kernel.num_configs, int)) if name in CONSTANT else kernel


@cache
def path(name):
    """A file with the graph of this name."""
    file = Path(_FOLDER.name, f"{name}.npz")
    graph(name).save(file)
    return str(file)
