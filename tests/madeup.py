"""Made-up graphs of the published schema by name, and their files: ``program``, ``long``, ``kernel_00`` to 14.

And a sample submission with as many rows as the one of the competition.
"""

import hashlib
import tempfile
from functools import cache
from pathlib import Path

import made
import numpy as np

import tpugraphs as tg

KERNEL_CONFIGS = (61, 579, 16, 16, 16, 23, 10, 11, 5, 3, 3, 2, 3, 2, 2)
KERNELS = tuple(f"kernel_{i:02}" for i in range(len(KERNEL_CONFIGS)))
CONSTANT = KERNELS[12:]  # of one config each, several times
NAMES = ("program", "long", *KERNELS)
_FOLDER = tempfile.TemporaryDirectory(prefix="madeup-")


def _made(name):
    if name == "program":
        return made.program(1, 1200, 62, 112)
    if name == "long":
        return made.program(2, 372, 26, 6000)
    number = KERNELS.index(name)
    kernel = made.kernel(number, 8 + 2 * number, KERNEL_CONFIGS[number])
    return kernel.select(np.zeros(kernel.num_configs, int)) if name in CONSTANT else kernel


@cache
def path(name):
    """A file with the graph of this name."""
    file = Path(_FOLDER.name, f"{name}.npz")
    _made(name).save(file)
    return str(file)


def graph(name):
    """The graph of this name, as it comes out of its file."""
    return tg.load(path(name))


SUBMISSION = {  # collection -> (rows, indices of each)
    "tile:xla": (844, 5), "layout:xla:default": (8, 1000), "layout:xla:random": (8, 1000),
    "layout:nlp:default": (17, 1000), "layout:nlp:random": (17, 1000),
}  # fmt: skip


def write_submission(file):
    """The rows of the competition's sample submission, with made-up names of graphs."""
    lines = ["ID,TopConfigs"]
    for collection, (count, length) in SUBMISSION.items():
        for i in range(count):
            name = hashlib.blake2b(f"{collection}/{i}".encode(), digest_size=16).hexdigest()
            lines.append(f"{collection}:{name},{';'.join(map(str, range(length)))}")
    Path(file).write_text("\n".join(lines) + "\n", newline="")
    return file
