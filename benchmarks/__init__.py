"""Benchmarks against installed peers, as ratios in one run: ``python -m benchmarks --help``.

A section is a file in ``sections/`` with a TITLE and ``run(context)``, which yields records; its name goes
into ``sections.NAMES``. What it measures runs in child processes (``process.py``), so that memory and
settings of one case do not touch the next, and sides take turns there (``timing.py``).
"""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "tests"))  # for made, hlo_files: graphs to measure on
